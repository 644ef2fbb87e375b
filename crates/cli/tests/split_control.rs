//! The processes of a split program: switch, servers and their coordinator.

mod lab;

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, Said, example, polyplane, said};
use packet::{Batch, Frame, Nanos};
use port::Port;

/// Processes of `examples/split/fib.p4`: one switch and two servers.
struct Group {
    switch: String,
    servers: Vec<(Running, String)>,
    control: String,
    control_run: Option<Running>,
    _switch_run: Running,
    cables: Cables,
    directory: Directory,
}

/// Starts a plane in the namespace of the cables. Returns it with its address.
fn plane(cables: &Cables, arguments: &[&str]) -> (Running, String) {
    let fib = example("split/fib.p4");
    let mut command = polyplane();
    command.arg("split").args(&arguments[..1]).arg(&fib);
    command.args(&arguments[1..]);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let address = running.served_address();
    (running, address)
}

impl Group {
    /// Returns `None` if the machine forbids namespaces.
    fn start(test: &str) -> Option<Group> {
        let cables = Cables::new(4)?;
        // Processes in the namespace reach each other by its own loopback.
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let serving = ["--p4runtime", "127.0.0.1:0"];
        let (switch_run, switch) = plane(
            &cables,
            &[
                &["switch", "--server", "1=2", "--server", "2=3"][..],
                &["--port", "0=port0", "--port", "1=port1"],
                &["--port", "2=port2", "--port", "3=port3"],
                &serving,
            ]
            .concat(),
        );
        let server = |id: &str| {
            let arguments = [
                "server",
                "--id",
                id,
                "--group-size",
                "2",
                "--port",
                "0=tap:",
            ];
            let tap = format!("0=tap:srv{id}");
            let mut arguments = arguments.to_vec();
            arguments[6] = &tap;
            arguments.extend(serving);
            plane(&cables, &arguments)
        };
        let servers = vec![server("1"), server("2")];
        let mut group = Group {
            switch,
            servers,
            control: String::new(),
            control_run: None,
            _switch_run: switch_run,
            cables,
            directory: Directory::new(test),
        };
        group.start_control(&["--entries", &example("split/fib.entries")]);
        Some(group)
    }

    /// Starts the coordinator with these options, instead of the one that runs.
    fn start_control(&mut self, options: &[&str]) {
        if let Some(running) = self.control_run.take() {
            running.signal("TERM");
            assert_eq!(running.finish().status, Some(0));
        }
        let servers = &self.servers;
        let (first, second) = (format!("1={}", servers[0].1), format!("2={}", servers[1].1));
        let arguments = [
            &["control", "--switch", &self.switch][..],
            &["--server", &first, "--server", &second],
            &["--p4runtime", "127.0.0.1:0"],
            options,
        ];
        let (running, address) = plane(&self.cables, &arguments.concat());
        (self.control_run, self.control) = (Some(running), address);
    }

    fn ctl(&self, address: &str, arguments: &[&str]) -> Said {
        let mut command = polyplane();
        command.arg("ctl").args(arguments).args(["--addr", address]);
        let run = || Running::start(&mut command).finish();
        self.cables.switch.run(run).unwrap()
    }

    /// Returns the routes of a plane.
    fn routes(&self, address: &str) -> String {
        let shown = self.ctl(address, &["show", "fib"]);
        assert_eq!(shown.status, Some(0), "{}", shown.err);
        shown.out
    }

    /// Waits until a plane has a route, or has it no more.
    fn wait_for(&self, address: &str, route: &str, is_there: bool) {
        let start = Instant::now();
        while self.routes(address).contains(route) != is_there {
            let shown = self.routes(address);
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{route}: {shown}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_write_is_answered_when_all_servers_have_it_and_a_server_that_returns_gets_all_entries() {
    let Some(mut group) = Group::start("split-control-writes") else {
        return;
    };
    check_dump(&group);
    check_writes(&group);
    check_return(&mut group);
}

/// The coordinator takes no settings, and says so: a dump has the entries all the same.
fn check_dump(group: &Group) {
    let dumped = group.ctl(&group.control, &["dump"]);
    assert_eq!(dumped.status, Some(0), "{}", dumped.err);
    assert!(dumped.out.contains("fib {"), "{}", dumped.out);
    let set = group.ctl(&group.control, &["add", "hash seed 7"]);
    assert_ne!(set.status, Some(0), "{}", set.out);
}

fn check_writes(group: &Group) {
    let whole = group.routes(&group.control);
    let first = whole.lines().next().unwrap_or_default();
    assert!(first.contains("->"), "{whole}");
    let (key, _) = first.split_once(" ->").unwrap();
    for (_, server) in &group.servers {
        group.wait_for(server, key, true);
    }
    // The switch has only entries that packets have asked for.
    assert!(!group.routes(&group.switch).contains(key));
    let deleted = group.ctl(&group.control, &["delete", key]);
    assert_eq!(deleted.status, Some(0), "{}", deleted.err);
    for (_, server) in &group.servers {
        assert!(!group.routes(server).contains(key));
    }
    let added = group.ctl(&group.control, &["add", first]);
    assert_eq!(added.status, Some(0), "{}", added.err);
    for (_, server) in &group.servers {
        assert!(group.routes(server).contains(key));
    }
}

/// A server that returns gets all entries.
fn check_return(group: &mut Group) {
    let whole = group.routes(&group.control);
    let (key, _) = whole.lines().next().unwrap().split_once(" ->").unwrap();
    let address = group.servers[1].1.clone();
    group.wait_for(&address, key, true);
    group.servers.truncate(1);
    let arguments = [
        "server",
        "--id",
        "2",
        "--group-size",
        "2",
        "--port",
        "0=tap:srv2",
    ];
    let arguments = [&arguments[..], &["--p4runtime", &address]].concat();
    let returned = plane(&group.cables, &arguments);
    group.servers.push(returned);
    group.wait_for(&address, key, true);
}

#[test]
fn a_server_with_a_number_outside_of_its_group_and_a_doubled_one_are_refused() {
    let fib = example("split/fib.p4");
    for (id, size) in [("3", &["--group-size", "2"][..]), ("2", &[])] {
        let arguments = ["split", "server", &fib, "--port", "0=x", "--id", id];
        let outside = said(&[&arguments, size].concat());
        assert_eq!(outside.status, Some(1));
        let size = size.last().unwrap_or(&"1");
        let line = format!("--id {id} is above --group-size {size}: give all servers");
        assert!(outside.one_line().contains(&line), "{}", outside.err);
    }
    let doubled = said(&[
        "split",
        "control",
        &fib,
        "--switch",
        "127.0.0.1:1",
        "--server",
        "1=127.0.0.1:2",
        "--server",
        "1=127.0.0.1:3",
    ]);
    assert_eq!(doubled.status, Some(1));
    assert!(doubled.one_line().contains("given twice"));
}

#[test]
fn a_half_with_a_coordinator_takes_no_entries_of_a_file() {
    let (fib, entries) = (example("split/fib.p4"), example("split/fib.entries"));
    for half in [&["server"][..], &["switch", "--server", "1=0"]] {
        let both = ["--entries", &entries, "--p4runtime", "127.0.0.1:0"];
        let arguments = [&["split"], half, &[&fib, "--port", "0=x"], &both].concat();
        let refused = said(&arguments);
        assert_eq!(refused.status, Some(1));
        let line = refused.one_line();
        assert!(
            line.contains("--entries to `polyplane split control`"),
            "{line}"
        );
    }
}

#[test]
fn an_operator_without_a_coordinator_is_told_how_to_start_one() {
    let commands = [
        &["status"][..],
        &["join", "2", "--address", "127.0.0.1:2"],
        &["leave", "2"],
        &["policy", "--policy", "none"],
        &["reload"],
    ];
    for command in commands {
        let alone = said(&[&["split"], command, &["--addr", "127.0.0.1:1"]].concat());
        assert_eq!(alone.status, Some(1));
        let line = alone.one_line();
        assert!(line.contains("with `polyplane split control`"), "{line}");
    }
}

/// Runs an operator's command, which must succeed, and returns its JSON.
fn operate(group: &Group, arguments: &[&str]) -> serde_json::Value {
    let mut command = polyplane();
    command.arg("split").args(arguments);
    command.args(["--addr", &group.control, "--json"]);
    let run = || Running::start(&mut command).finish();
    let said = group.cables.switch.run(run).unwrap();
    assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

fn membership(state: &serde_json::Value, name: &str) -> String {
    let planes = state["planes"].as_array().unwrap();
    let plane = planes.iter().find(|plane| plane["name"] == name);
    plane.map_or_else(String::new, |plane| {
        plane["membership"].as_str().unwrap_or_default().to_owned()
    })
}

#[test]
fn servers_leave_and_join_and_the_policy_changes_while_the_processes_run() {
    let Some(group) = Group::start("split-control-group") else {
        return;
    };
    let start = Instant::now();
    while operate(&group, &["status"])["planes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|plane| plane["is_connected"] == false || plane["membership"] == "outside")
    {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let left = operate(&group, &["leave", "2"]);
    assert_eq!(left["change"]["is_complete"], true, "{left}");
    while membership(&operate(&group, &["status"]), "server 2") == "member" {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut last = polyplane();
    last.args(["split", "leave", "1", "--addr", &group.control]);
    let run = || Running::start(&mut last).finish();
    let last = group.cables.switch.run(run).unwrap();
    assert_eq!(last.status, Some(1));
    assert!(
        last.err.contains("is the last one of the group"),
        "{}",
        last.err
    );
    let joined = operate(&group, &["join", "2", "--address", &group.servers[1].1]);
    assert_eq!(joined["change"]["name"], "server 2 joins");
    assert_eq!(joined["change"]["is_complete"], true, "{joined}");
    let policy = [
        "policy",
        "--policy",
        "threshold",
        "--top",
        "10",
        "--window",
        "100ms",
    ];
    let changed = operate(&group, &policy);
    assert_eq!(changed["policy"]["policy"], "threshold");
    assert_eq!(changed["policy"]["order"], "strict");
    assert_eq!(changed["tables"][0]["capacity"], 10);
}

#[test]
fn a_coordinator_that_starts_again_goes_on_with_its_tables() {
    let Some(mut group) = Group::start("split-control-state") else {
        return;
    };
    let state = group.directory.file("state");
    let entries = example("split/fib.entries");
    group.start_control(&["--state", &state, "--entries", &entries]);
    let route = "fib { hdr.vxlan.vni: 300; hdr.inner_ipv4.dst: 10.3.0.0/16; } -> drop()";
    let added = group.ctl(&group.control, &["add", route]);
    assert_eq!(added.status, Some(0), "{}", added.err);
    let before = group.routes(&group.control);
    assert!(before.contains("10.3.0.0/16"), "{before}");
    group.start_control(&["--state", &state]);
    assert_eq!(group.routes(&group.control), before);
    let (key, _) = before.lines().next().unwrap().split_once(" ->").unwrap();
    // The planes have kept theirs, under the same numbers.
    let deleted = group.ctl(&group.control, &["delete", key]);
    assert_eq!(deleted.status, Some(0), "{}", deleted.err);
    for (_, server) in &group.servers {
        group.wait_for(server, key, false);
    }
}

#[test]
fn a_server_that_does_not_connect_does_not_stay_in_the_list() {
    let Some(group) = Group::start("split-control-join") else {
        return;
    };
    group.wait_for(&group.servers[0].1, "10.0.0.0/8", true);
    let listed = |group: &Group| {
        let state = operate(group, &["status"]);
        let planes = state["planes"].as_array().unwrap().clone();
        let planes = planes.iter();
        let listed = planes.map(|plane| (plane["name"].clone(), plane["address"].clone()));
        listed.collect::<Vec<_>>()
    };
    let before = listed(&group);
    for server in ["3", "2"] {
        let mut join = polyplane();
        join.args(["split", "join", server, "--address", "127.0.0.1:1"]);
        join.args(["--addr", &group.control]);
        let run = || Running::start(&mut join).finish();
        let joined = group.cables.switch.run(run).unwrap();
        assert_eq!(joined.status, Some(1), "{}", joined.err);
    }
    let start = Instant::now();
    while listed(&group) != before {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn connections_through_the_nat_stay_intact_while_servers_join_and_leave() {
    let directory = Directory::new("split-demo");
    let mut command = polyplane();
    command.env("XDG_CACHE_HOME", directory.file("cache"));
    command.args([
        "split",
        "demo",
        "--json",
        "--connections",
        "8",
        "--kilobytes",
        "200",
    ]);
    let said = Running::start(&mut command).finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    if said.err.contains("simulated instead") {
        return;
    }
    assert_eq!(report["intact"], true, "{report}");
    assert_eq!(report["unanswered"], 0, "{report}");
    let names: Vec<&str> = report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|change| change["name"].as_str())
        .collect();
    assert_eq!(names, ["server 3 joins", "server 1 leaves"]);
    assert!(
        report["packets"].as_u64() > report["requests"].as_u64(),
        "{report}"
    );
}

/// A program that sends each packet to a server, which counts it in C. Controllers get packets
/// with operation 2 and digests for operation 3, and send packets out.
const COUNTER: &str = "#include <v1model.p4>\n\
    header eth_t { bit<48> dst; bit<48> src; bit<16> type; }\n\
    @controller_header(\"packet_in\") header in_t { bit<9> from; bit<7> pad; }\n\
    struct seen_t { bit<32> number; bit<32> all; }\n\
    header h_t { bit<8> op; bit<32> number; bit<32> version; bit<32> mine; bit<32> all; }\n\
    struct Hs { in_t i; eth_t eth; h_t h; }\nstruct M { }\n\
    struct req_t { bit<8> op; @affinity bit<32> number; }\n\
    struct res_t { bit<32> version; bit<32> mine; bit<32> all; }\n\
    @remote extern void count(in req_t q, out res_t r);\n\
    parser P(packet_in p, out Hs hdr, inout M m, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.eth); p.extract(hdr.h); transition accept; }\n}\n\
    control C(inout Hs hdr, inout M m) { apply { } }\n\
    control I(inout Hs hdr, inout M m, inout standard_metadata_t s) {\n\
      apply { if (s.ingress_port == 510) { s.egress_spec = 1; exit; }\n\
        req_t q = { hdr.h.op, hdr.h.number }; res_t r; count(q, r);\n\
        hdr.h.version = r.version; hdr.h.mine = r.mine; hdr.h.all = r.all; s.egress_spec = 1;\n\
        if (hdr.h.op == 3) { digest<seen_t>(1, { hdr.h.number, hdr.h.all }); }\n\
        if (hdr.h.op == 2) { hdr.i.setValid(); hdr.i.from = s.ingress_port; s.egress_spec = 510; }\n\
      }\n}\n\
    control E(inout Hs hdr, inout M m, inout standard_metadata_t s) { apply { } }\n\
    control D(packet_out p, in Hs hdr) { apply { p.emit(hdr); } }\n\
    V1Switch(P(), C(), I(), E(), C(), D()) main;\n";

/// Operation that never ends.
const ENDLESS: u8 = 0xee;

/// Version 1 of the C code.
const COUNTER_C: &str = "#include <stdatomic.h>\n\
    CLIP_STATE(uint32_t, mine);\nCLIP_SHARED(_Atomic uint32_t, all);\n\
    int count(clip_t *c, const struct req_t *q, struct res_t *r) {\n\
      while (q->op == 0xee) { volatile int more = 1; (void)more; }\n\
      r->version = 1;\n\
      r->mine = ++*clip_state(c, mine);\n\
      r->all = atomic_fetch_add(clip_state(c, all), 1) + 1;\n\
      return CLIP_OK;\n}\n";

/// Processes that run [`COUNTER`]: a switch, one server and a coordinator.
struct Counting {
    cables: Cables,
    directory: Directory,
    server: Running,
    /// Later lines of the server on standard error.
    lines: Receiver<String>,
    server_address: String,
    control: String,
    _running: [Running; 2],
    sent: u32,
}

/// Response of the program to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    number: u32,
    version: u32,
    mine: u32,
    all: u32,
}

/// Starts a process in the namespace of the cables. Returns it with its address and its later
/// lines.
fn start(cables: &Cables, arguments: &[&str]) -> (Running, String, Receiver<String>) {
    let mut command = polyplane();
    command.arg("split").args(arguments);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let errors = BufReader::new(running.0.stderr.take().unwrap());
    let mut errors = errors.lines().map_while(Result::ok);
    let served = errors.find(|line| line.contains(" served at ")).unwrap();
    let (_, rest) = served.split_once(" served at ").unwrap();
    let address = rest.split(';').next().unwrap().to_owned();
    let (sender, lines) = channel();
    // The test may have ended.
    std::thread::spawn(move || errors.for_each(|line| drop(sender.send(line))));
    (running, address, lines)
}

impl Counting {
    /// Returns `None` if the machine forbids namespaces.
    fn start(test: &str) -> Option<Counting> {
        let cables = Cables::new(2)?;
        let mut switch = cables.switch.rtnl().unwrap();
        switch.set_up("lo").unwrap();
        switch.add_veth("port2", "srv1", None).unwrap();
        for end in ["port2", "srv1"] {
            switch.set_mtu(end, 1800).unwrap();
            switch.set_up(end).unwrap();
        }
        let directory = Directory::new(test);
        let program = directory.with("counter.p4", COUNTER);
        let code = directory.with("counter.c", COUNTER_C);
        let (server, server_address, lines) =
            start(&cables, &server_arguments(&program, &code, "127.0.0.1:0"));
        let ports = [
            "--port", "0=port0", "--port", "1=port1", "--port", "2=port2",
        ];
        let serving = ["--p4runtime", "127.0.0.1:0"];
        let arguments = [
            &["switch", &program, "--server", "1=2"][..],
            &ports,
            &serving,
        ];
        let (switch, switch_address, _) = start(&cables, &arguments.concat());
        let first = format!("1={server_address}");
        let arguments = [
            "control",
            &program,
            "--switch",
            &switch_address,
            "--server",
            &first,
        ];
        let (coordinator, control, _) = start(&cables, &[&arguments[..], &serving].concat());
        Some(Counting {
            cables,
            directory,
            server,
            lines,
            server_address,
            control,
            _running: [switch, coordinator],
            sent: 0,
        })
    }

    /// Sends one packet. Returns its number.
    fn send(&mut self, op: u8) -> u32 {
        self.sent += 1;
        let head = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xff, 0xff, op];
        let number = self.sent.to_be_bytes();
        let bytes = [&head[..], &number, &[0; 12 + 32]].concat();
        self.cables.ends[0].tx(&[Frame::from_bytes(&bytes).unwrap()]);
        self.sent
    }

    /// Returns the frames that have left the switch.
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let mut batch = Batch::default();
        let now = Nanos::from(self.cables.clock.elapsed());
        let _ = self.cables.ends[1].rx(&mut batch, now);
        let frames = batch.frames().iter();
        frames.map(|frame| frame.bytes().to_vec()).collect()
    }

    /// Returns the packets that have come back.
    fn received(&mut self) -> Vec<Counted> {
        let counted = |frame: &Vec<u8>| {
            let bytes = frame.get(15..31)?;
            let number = |at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            Some(Counted {
                number: number(0),
                version: number(4),
                mine: number(8),
                all: number(12),
            })
        };
        self.frames().iter().filter_map(counted).collect()
    }

    /// Sends packets until one comes back.
    fn wait(&mut self) {
        let start = Instant::now();
        loop {
            self.send(0);
            std::thread::sleep(Duration::from_millis(20));
            if self.received().iter().any(|one| one.number == self.sent) {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "no packet comes back"
            );
        }
    }

    fn reload(&self, options: &[&str]) -> Running {
        let mut command = polyplane();
        command.args(["split", "reload", "--addr", &self.control]);
        command.args(options);
        self.cables
            .switch
            .run(|| Running::start(&mut command))
            .unwrap()
    }

    /// Changes the C code while packets arrive every millisecond, and reloads it. Returns what the
    /// command said, and the packets that came back.
    fn reload_under_traffic(&mut self, code: &str, options: &[&str]) -> (Said, Vec<Counted>) {
        self.directory.with("counter.c", code);
        let mut command = self.reload(options);
        let (first, mut received, mut since_end) = (self.sent + 1, Vec::new(), 0);
        let (mut longest, mut last) = (Duration::ZERO, Instant::now());
        while since_end < 50 {
            self.send(0);
            std::thread::sleep(Duration::from_millis(1));
            let new = self.received();
            if !new.is_empty() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            received.extend(new);
            since_end += u32::from(command.0.try_wait().unwrap().is_some());
        }
        let start = Instant::now();
        while received.last().is_none_or(|last| last.number != self.sent) {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the last packet is lost"
            );
            received.extend(self.received());
        }
        println!(
            "{} packets, at most {longest:?} between two",
            received.len()
        );
        let numbers = received.iter().map(|one| one.number);
        assert!(numbers.eq(first..=self.sent), "{received:?}");
        (command.finish(), received)
    }
}

fn server_arguments<'a>(program: &'a str, code: &'a str, address: &'a str) -> [&'a str; 10] {
    [
        "server",
        program,
        "--c",
        code,
        "--id",
        "1",
        "--port",
        "0=srv1",
        "--p4runtime",
        address,
    ]
}

#[test]
fn new_c_code_runs_under_traffic_keeps_the_state_and_loses_no_packet() {
    let Some(mut group) = Counting::start("split-reload") else {
        return;
    };
    group.wait();
    let second = COUNTER_C.replace("version = 1", "version = 2");
    let (told, received) = group.reload_under_traffic(&second, &[]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    assert_eq!(told.out, "new on 1 server\n");
    // Versions change once, and both counters go on.
    for pair in received.windows(2) {
        assert!(pair[0].version <= pair[1].version, "{pair:?}");
        assert_eq!(pair[0].mine + 1, pair[1].mine);
        assert_eq!(pair[0].all + 1, pair[1].all);
    }
    let versions = (received[0].version, received.last().unwrap().version);
    assert_eq!(versions, (1, 2));
    // A variable of another size is refused, and lost if that may be.
    let third = second
        .replace("version = 2", "version = 3")
        .replace("(uint32_t, mine)", "(uint64_t, mine)");
    let (told, received) = group.reload_under_traffic(&third, &[]);
    assert_eq!(told.status, Some(1));
    for part in ["server 1: ", "`mine` has size 8, before 4", "--may-lose"] {
        assert!(told.one_line().contains(part), "{}", told.err);
    }
    let last = *received.last().unwrap();
    assert_eq!((last.version, last.mine), (2, last.all));
    let (told, received) = group.reload_under_traffic(&third, &["--may-lose"]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let last = *received.last().unwrap();
    assert_eq!(last.version, 3);
    assert!(last.mine < last.all, "{last:?}");
    // Code that does not compile, and another program.
    let (told, _) = group.reload_under_traffic("int count;", &[]);
    assert_eq!(told.status, Some(1));
    assert!(told.err.contains("counter.c:1"), "{}", told.err);
    let other = COUNTER.replace("s.egress_spec = 1", "s.egress_spec = 0");
    group.directory.with("counter.p4", other);
    let (told, received) = group.reload_under_traffic(COUNTER_C, &[]);
    assert_eq!(told.status, Some(1));
    assert!(
        told.err.contains("more than the C code differs"),
        "{}",
        told.err
    );
    assert_eq!(received.last().unwrap().version, 3);
}

#[test]
fn a_server_with_c_that_never_ends_stops_and_joins_when_it_is_started_again() {
    let Some(mut group) = Counting::start("split-endless") else {
        return;
    };
    group.wait();
    group.send(ENDLESS);
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = group.server.0.try_wait().unwrap() {
            break status;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    };
    println!("ended after {:?}", begin.elapsed());
    assert_eq!(status.code(), Some(1));
    let line = group.lines.iter().last().unwrap_or_default();
    let (before, after) = (
        "error: the C handler `count` did not end within 100 ms",
        "at packet ",
    );
    assert!(line.starts_with(before) && line.contains(after), "{line}");
    let [program, code] = ["counter.p4", "counter.c"].map(|name| group.directory.file(name));
    let address = group.server_address.clone();
    let arguments = server_arguments(&program, &code, &address);
    let (server, _, lines) = start(&group.cables, &arguments);
    (group.server, group.lines) = (server, lines);
    group.wait();
}

#[test]
fn controllers_of_the_whole_device_exchange_packets_and_get_digests() {
    let Some(mut counting) = Counting::start("split-control-packets") else {
        return;
    };
    counting.wait();
    let control = counting.control.clone();
    let ctl = |arguments: &[&str]| {
        let mut command = polyplane();
        command
            .arg("ctl")
            .args(arguments)
            .args(["--addr", &control]);
        let run = || Running::start(&mut command);
        counting.cables.switch.run(run).unwrap()
    };
    let out = format!("020000000001020000000002ffff{:034}ab", 0);
    let sent = ctl(&["packets", "--out", &out]).finish();
    assert_eq!(sent.status, Some(0), "{}", sent.err);
    let following = ctl(&["packets", "--count", "1", "--json"]);
    let digests = ctl(&["digests", "--count", "1", "--json", "--role", "digests"]);
    let start = Instant::now();
    let mut has_packet = false;
    let (mut packets, mut digests) = (Some(following), Some(digests));
    let (mut packet, mut digest) = (None, None);
    while !has_packet || packet.is_none() || digest.is_none() {
        assert!(start.elapsed() < Duration::from_secs(30));
        counting.send(2);
        counting.send(3);
        std::thread::sleep(Duration::from_millis(50));
        let ended = |running: &mut Option<Running>| {
            let is_over = running.as_mut()?.0.try_wait().unwrap().is_some();
            is_over
                .then(|| running.take().map(Running::finish))
                .flatten()
        };
        packet = packet.or_else(|| ended(&mut packets));
        digest = digest.or_else(|| ended(&mut digests));
        has_packet |= counting
            .frames()
            .iter()
            .any(|frame| frame.ends_with(&[0xab]));
    }
    let packet = packet.unwrap();
    let shown: serde_json::Value = serde_json::from_str(&packet.out).unwrap();
    assert_eq!(shown["metadata"]["from"], "0", "{shown}");
    let digest = digest.unwrap();
    assert!(
        digest.out.contains("seen_t"),
        "{} {}",
        digest.out,
        digest.err
    );
}

/// Returns the program [`COUNTER`] with one more value in its requests.
fn other_counter() -> String {
    let more = "struct req_t { bit<8> op; bit<16> more;";
    let text = COUNTER.replace("struct req_t { bit<8> op;", more);
    let text = text.replace("struct M { }", "struct M { bit<16> more; }");
    let text = text.replace(
        "req_t q = {",
        "m.more = (bit<16>) s.packet_length; req_t q = {",
    );
    text.replace(
        "{ hdr.h.op, hdr.h.number }",
        "{ hdr.h.op, m.more, hdr.h.number }",
    )
}

/// Starts a half without a coordinator, and waits until it forwards. Returns its later lines.
fn start_alone(cables: &Cables, arguments: &[&str]) -> (Running, Receiver<String>) {
    let mut command = polyplane();
    command.arg("split").args(arguments);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let errors = BufReader::new(running.0.stderr.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let lines = errors.lines().map_while(Result::ok);
        // The test may have ended.
        lines.for_each(|line| drop(sender.send(line)));
    });
    (running, lines)
}

/// Returns the lines until each of these words was in one, and those of two seconds more.
fn lines_with(lines: &Receiver<String>, words: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut end = Instant::now() + Duration::from_secs(30);
    let is_complete = |found: &[String]| {
        let mut words = words.iter();
        words.all(|word| found.iter().any(|line| line.contains(word)))
    };
    while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        let was_complete = is_complete(&found);
        found.push(line);
        if is_complete(&found) && !was_complete {
            end = Instant::now() + Duration::from_secs(2);
        }
    }
    found
}

#[test]
fn halves_of_different_programs_drop_each_others_frames_and_say_so_once() {
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    let mut rtnl = cables.switch.rtnl().unwrap();
    rtnl.add_veth("port2", "srv1", None).unwrap();
    for end in ["port2", "srv1"] {
        rtnl.set_mtu(end, 1800).unwrap();
        rtnl.set_up(end).unwrap();
    }
    let directory = Directory::new("split-other");
    let program = directory.with("counter.p4", COUNTER);
    let other = directory.with("other.p4", other_counter());
    let code = directory.with("counter.c", COUNTER_C);
    let server = ["server", &other, "--c", &code, "--port", "0=srv1"];
    let (server, from_server) = start_alone(&cables, &server);
    let ports = [
        "--port", "0=port0", "--port", "1=port1", "--port", "2=port2",
    ];
    // The second server is this test.
    let servers = ["--server", "1=2", "--server", "2=1"];
    let switch = [&["switch", &program][..], &servers, &ports].concat();
    let (switch, from_switch) = start_alone(&cables, &switch);
    let (stale_requests, stale_responses) = ("(stale_request)", "(stale_response)");
    let silence = "no server has answered";
    let is_over = AtomicBool::new(false);
    let ends = &mut cables.ends;
    let (of_server, of_switch) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let packet = [&[2; 15][..], &number.to_be_bytes(), &[0; 45]].concat();
                ends[0].tx(&[Frame::from_bytes(&packet).unwrap()]);
                let response = [&[2; 12][..], &[0x88, 0xb6], &[0; 50]].concat();
                ends[1].tx(&[Frame::from_bytes(&response).unwrap()]);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let found = (
            lines_with(&from_server, &[stale_requests]),
            lines_with(&from_switch, &[stale_responses, silence]),
        );
        is_over.store(true, Ordering::Relaxed);
        found
    });
    for (lines, word) in [
        (&of_server, stale_requests),
        (&of_switch, stale_responses),
        (&of_switch, silence),
    ] {
        let found = lines.iter().filter(|line| line.contains(word));
        let found: Vec<&String> = found.collect();
        assert_eq!(found.len(), 1, "{word}: {lines:?}");
        assert!(found[0].contains("the same program"), "{found:?}");
    }
    for (half, lines, reason) in [
        (server, from_server, "stale_request"),
        (switch, from_switch, "stale_response"),
    ] {
        half.signal("TERM");
        let said = half.finish();
        assert_eq!(said.status, Some(0));
        let report: Vec<String> = lines.iter().collect();
        let all = format!("{report:?} {}", said.out);
        assert!(all.contains(reason), "{all}");
    }
}

//! `polyplane run` as a service: options of a file, SIGHUP, and messages to the service manager.

mod lab;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::authority::Authority;
use lab::{Directory, Running, example, polyplane, said};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, Port, RingPort};

/// Time within which something must happen: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(30);

/// Number of kinds of packets, each of which has an entry.
const KINDS: u8 = 8;

/// A program that sends packets by the kind in their first byte to the port of an entry, and writes
/// the mark of the entry and that of the program into them. A packet without entry goes to port 3,
/// so that it is seen if an entry is missing for a moment.
fn program(mark: u8, more: &str) -> String {
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header head_t {{ bit<8> kind; bit<8> mark; bit<8> program; }}
struct headers_t {{ head_t head; }}
struct metadata_t {{}}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.head); transition accept; }}
}}
control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    counter(1, CounterType.packets) seen;
    {more}
    action go(bit<9> port, bit<8> mark) {{ standard.egress_spec = port; hdr.head.mark = mark; }}
    action unknown() {{ standard.egress_spec = 3; }}
    table forward {{
        key = {{ hdr.head.kind: exact; }}
        actions = {{ go; unknown; }}
        default_action = unknown;
        size = 64;
    }}
    apply {{ seen.count(0); forward.apply(); hdr.head.program = {mark}; }}
}}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{}} }}
control Compute(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.head); }} }}
V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#
    )
}

/// Returns entries for all kinds with this mark, and further ones: their number changes with it.
fn entries(mark: u8) -> String {
    let own = (0..KINDS).map(|kind| entry(kind, mark));
    let more = (0..mark % 5).map(|kind| entry(100 + kind, 0));
    own.chain(more).map(|entry| format!("{entry}\n")).collect()
}

/// Returns the entry of a kind.
fn entry(kind: u8, mark: u8) -> String {
    format!("In.forward {{ hdr.head.kind: {kind}; }} -> go(port: 1, mark: {mark})")
}

/// A switch with rings as ports 0 and 1, and its files.
struct Switch {
    directory: Directory,
    running: Running,
    lines: BufReader<ChildStderr>,
    rings: [String; 2],
    manager: UnixDatagram,
    /// Address of P4Runtime, if it is served.
    address: String,
}

impl Switch {
    fn start(test: &str, more: &str) -> Switch {
        Switch::with_files(test, ("a.p4", &program(1, "")), &entries(1), more)
    }

    /// Starts a switch with a program, of this file name, and entries.
    fn with_files(test: &str, (file, text): (&str, &str), entries: &str, more: &str) -> Switch {
        let directory = Directory::new(test);
        directory.with(file, text);
        directory.with("a.entries", entries);
        let rings = [0, 1].map(|end| format!("{test}-{end}-{}", std::process::id()));
        let (program, entries) = (directory.file(file), directory.file("a.entries"));
        let [left, right] = &rings;
        let config = format!(
            "command = 'run'\nprogram = '{program}'\nentries = '{entries}'\n\
             port = ['0=ring:{left}', '1=ring:{right}']\nevery = 3600\njson = true\n{more}"
        );
        let config = directory.with("a.toml", config);
        let socket = directory.file("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(SOON)).unwrap();
        let mut command = polyplane();
        command.args(["run", "--config", &config]);
        command.env("NOTIFY_SOCKET", &socket);
        command.env("WATCHDOG_USEC", "300000");
        let mut running = Running::start(&mut command);
        let lines = BufReader::new(running.0.stderr.take().unwrap());
        let mut switch = Switch {
            directory,
            running,
            lines,
            rings,
            manager,
            address: String::new(),
        };
        let before = switch.lines_to("is running on");
        let served = before
            .iter()
            .find_map(|line| line.split_once(" served at "));
        switch.address = served.map_or("", |(_, address)| address).to_owned();
        switch
    }

    /// Returns the lines of the log up to the next one with this text.
    fn lines_to(&mut self, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it has ended: {all:?}");
            all.push(line.trim_end().to_owned());
            if line.contains(text) {
                return all;
            }
        }
    }

    /// Returns the messages to the service manager up to one with this text.
    fn messages_to(&self, text: &str) -> Vec<String> {
        let mut messages = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = self.manager.recv(&mut buffer).expect(text);
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let is_last = message.contains(text);
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// Sends SIGHUP, and returns the line of the result.
    fn reload(&mut self) -> String {
        self.running.signal("HUP");
        self.lines_to("reloaded").pop().unwrap_or_default()
    }

    fn finish(self) -> serde_json::Value {
        self.running.signal("TERM");
        // Nothing else may be in the way of the report.
        drop(self.lines);
        let said = self.running.finish();
        assert_eq!(said.status, Some(0));
        let last = said.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {}", said.out))
    }
}

/// Traffic through the switch. A packet is sent when there is space for it, so that none is lost by
/// full rings.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<Vec<[u8; 3]>>,
}

/// Maximum number of packets under way.
const UNDER_WAY: u64 = 64;

impl Traffic {
    fn start(rings: &[String; 2]) -> Traffic {
        let open = |name: &String| RingPort::open(PortId(0), name).expect("a ring needs nothing");
        let (mut from, mut to) = (open(&rings[0]), open(&rings[1]));
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (own_stop, own_sent) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut arrived = Vec::new();
            let mut number = 0_u64;
            let mut idle_since = Instant::now();
            loop {
                let is_over = own_stop.load(Ordering::Relaxed);
                if is_over && (arrived.len() as u64 == number || idle_since.elapsed() > SOON) {
                    return arrived;
                }
                let is_up = from.link() == LinkState::Up && to.link() == LinkState::Up;
                if !is_over && is_up && number < arrived.len() as u64 + UNDER_WAY {
                    let mut bytes = [0; 60];
                    bytes[0] = (number % u64::from(KINDS)) as u8;
                    let frame = Frame::from_bytes(&bytes).unwrap();
                    number += from.tx(&[frame]).sent;
                    own_sent.store(number, Ordering::Relaxed);
                }
                let mut batch = Batch::default();
                let now = Nanos::from(start.elapsed());
                let _ = from.rx(&mut Batch::default(), now);
                let _ = to.rx(&mut batch, now);
                for frame in batch.frames() {
                    let bytes = frame.bytes();
                    arrived.push([bytes[0], bytes[1], bytes[2]]);
                    idle_since = Instant::now();
                }
                if batch.is_empty() {
                    std::thread::yield_now();
                }
            }
        });
        Traffic { stop, sent, thread }
    }

    /// Waits until this number of further packets were sent.
    fn go_on(&self, packets: u64) {
        let begin = self.sent.load(Ordering::Relaxed);
        let start = Instant::now();
        while self.sent.load(Ordering::Relaxed) < begin + packets {
            assert!(start.elapsed() < SOON, "the traffic stands still");
            std::thread::yield_now();
        }
    }

    /// Stops, and returns the number of sent packets and the bytes of those that arrived.
    fn finish(self) -> (u64, Vec<[u8; 3]>) {
        self.stop.store(true, Ordering::Relaxed);
        let arrived = self.thread.join().unwrap();
        (self.sent.load(Ordering::Relaxed), arrived)
    }
}

/// Reloads this many times under load, with changed entries each time and another program every
/// third time. After each the state is that of the files.
fn reload_under_load(test: &str, times: usize) {
    let mut switch = Switch::start(test, "p4runtime = '127.0.0.1:0'\n");
    let traffic = Traffic::start(&switch.rings);
    traffic.go_on(100);
    let mut marks = vec![(1, 1)];
    for time in 0..times {
        let (mut mark, mut program_mark) = marks[marks.len() - 1];
        mark = 1 + mark % 250;
        switch.directory.with("a.entries", entries(mark));
        let is_new = time % 3 == 0;
        if is_new {
            program_mark = 1 + program_mark % 250;
            // Its objects have other numbers, too.
            let more = match program_mark % 2 {
                0 => {
                    "register<bit<8>>(4) kept; action none() {} table extra { key = { hdr.head.mark: exact; } actions = { none; } }"
                }
                _ => "",
            };
            let text = program(program_mark, more).replace(
                "forward.apply();",
                match program_mark % 2 {
                    0 => "forward.apply(); extra.apply();",
                    _ => "forward.apply();",
                },
            );
            switch.directory.with("a.p4", text);
        }
        marks.push((mark, program_mark));
        let line = switch.reload();
        let expected = match is_new {
            true => "new program",
            false => "same program",
        };
        assert!(line.contains(expected), "{time}: {line}");
        traffic.go_on(20);
    }
    let (sent, arrived) = traffic.finish();
    assert_eq!(arrived.len() as u64, sent, "packets are lost");
    // Each packet was processed by one pair of files, and these come in their order.
    let mut at = 0;
    for (number, [kind, mark, program]) in arrived.iter().enumerate() {
        assert_eq!(u64::from(*kind), number as u64 % u64::from(KINDS));
        while marks[at] != (*mark, *program) {
            at += 1;
            assert!(
                at < marks.len(),
                "packet {number} has the marks {mark} and {program}"
            );
        }
    }
    assert_eq!(at, times, "the last files were seen");
    let report = switch.finish();
    assert_eq!(report["ports"][1]["sent"]["packets"], sent, "{report}");
}

#[test]
fn many_reloads_under_load_lose_nothing_and_show_no_mix_of_files() {
    reload_under_load("reload-load", 50);
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_reloads_under_load_lose_nothing() {
    reload_under_load("reload-thousand", 1000);
}

#[test]
fn a_file_with_an_error_changes_nothing_and_is_reported_with_its_place() {
    let mut switch = Switch::start("reload-errors", "");
    let traffic = Traffic::start(&switch.rings);
    let (good_program, good_entries) = (program(1, ""), entries(1));
    for (program_text, entries_text, expected) in [
        (
            good_program.replace("forward.apply();", "forwad.apply();"),
            entries(2),
            "a.p4:22:",
        ),
        (
            good_program.clone(),
            format!(
                "{}{}\n",
                entries(2),
                entry(1, 2).replace("forward", "forwrd")
            ),
            "a.entries:11:",
        ),
        (
            good_program.clone(),
            format!("{0}{0}", entries(2)),
            "a.entries:11:",
        ),
        // A new program does not take these entries.
        (
            program(2, "").replace("size = 64;", "size = 2;"),
            entries(2),
            "a.entries:3:",
        ),
    ] {
        switch.directory.with("a.p4", &program_text);
        switch.directory.with("a.entries", &entries_text);
        let line = switch.reload();
        let is_refused = line.contains("not reloaded, nothing is changed: ");
        assert!(is_refused && line.contains(expected), "{expected}: {line}");
        traffic.go_on(20);
    }
    std::fs::remove_file(switch.directory.file("a.entries")).unwrap();
    switch.directory.with("a.p4", &good_program);
    let line = switch.reload();
    assert!(line.contains("a.entries: "), "{line}");
    switch.directory.with("a.entries", &good_entries);
    let line = switch.reload();
    assert!(line.ends_with("same program, no other change"), "{line}");
    let (sent, arrived) = traffic.finish();
    assert_eq!(arrived.len() as u64, sent);
    assert!(
        arrived
            .iter()
            .all(|[_, mark, program]| (*mark, *program) == (1, 1))
    );
    switch.finish();
}

#[test]
fn entries_of_controllers_go_at_a_reload_and_they_see_the_new_program() {
    let mut switch = Switch::start("reload-control", "p4runtime = '127.0.0.1:0'\n");
    let address = switch.address.clone();
    let ctl = |words: &[&str]| {
        let said = said(&[&["ctl", "--addr", &address], words].concat());
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.out
    };
    ctl(&["add", &entry(99, 9)]);
    assert!(ctl(&["dump"]).contains("kind: 99"));
    let line = switch.reload();
    assert!(
        line.contains("same program, 1 change of its state"),
        "{line}"
    );
    assert!(!ctl(&["dump"]).contains("kind: 99"));
    let more =
        "action none() {} table extra { key = { hdr.head.mark: exact; } actions = { none; } }";
    let text = program(2, more).replace("forward.apply();", "extra.apply(); forward.apply();");
    switch.directory.with("a.p4", text);
    let line = switch.reload();
    assert!(line.contains("new program"), "{line}");
    ctl(&["add", "In.extra { hdr.head.mark: 7; } -> none()"]);
    assert!(ctl(&["dump"]).contains("In.extra"));
    switch.finish();
}

#[test]
fn the_service_manager_is_told_of_start_reload_life_and_stop() {
    let mut switch = Switch::start("reload-manager", "");
    let ready = switch.messages_to("READY=1").pop().unwrap();
    assert!(ready.starts_with("READY=1\nSTATUS="), "{ready}");
    switch.messages_to("WATCHDOG=1");
    switch.messages_to("WATCHDOG=1");
    switch.reload();
    let messages = switch.messages_to("READY=1");
    let reloading = messages
        .iter()
        .find(|text| text.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(reloading.is_some(), "{messages:?}");
    assert!(
        messages.last().unwrap().contains("reloaded in "),
        "{messages:?}"
    );
    switch.running.signal("TERM");
    switch.messages_to("STOPPING=1");
    switch.finish();
}

#[test]
fn a_hangup_while_the_switch_starts_is_acted_on_when_it_runs() {
    let directory = Directory::new("reload-early");
    let program = directory.with("a.p4", program(1, ""));
    let pipe = directory.file("a.entries");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let ring = format!("0=ring:reload-early-{}", std::process::id());
    let mut command = polyplane();
    command.args(["run", &program, "--entries", &pipe, "--port", &ring]);
    let mut running = Running::start(&mut command);
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let mut line_with = |text: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().contains(text));
        found.unwrap_or_else(|| panic!("it has ended without {text}"))
    };
    // A pipe opens when both ends do: the switch reads it now.
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    running.signal("HUP");
    // Longer than a command may leave a signal that ends it.
    std::thread::sleep(Duration::from_millis(1200));
    writer.write_all(entries(1).as_bytes()).unwrap();
    drop(writer);
    line_with("is running on").unwrap();
    std::fs::write(&pipe, entries(2)).unwrap();
    line_with("reloaded in").unwrap();
    running.signal("TERM");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
fn handlers_are_loaded_again_when_their_code_has_changed_and_a_refused_reload_does_not_count() {
    let text = |file: &str| std::fs::read_to_string(example(file)).unwrap();
    let (program, entries) = (text("split/average.p4c"), text("split/average.entries"));
    let mut switch = Switch::with_files("reload-handlers", ("a.p4c", &program), &entries, "");
    let line = switch.reload();
    assert!(line.ends_with("same program, no other change"), "{line}");
    let changed = program.replace("extern \"C\" {", "extern \"C\" { /* changed */");
    assert_ne!(changed, program);
    switch.directory.with("a.p4c", &changed);
    switch.directory.with("a.entries", "no statement\n");
    let line = switch.reload();
    assert!(line.contains("not reloaded, nothing is changed"), "{line}");
    switch.directory.with("a.entries", &entries);
    for expected in ["new program", "same program"] {
        let line = switch.reload();
        assert!(line.contains(expected), "{expected}: {line}");
    }
    switch.finish();
}

#[test]
fn certificates_are_read_again_and_a_wrong_one_changes_nothing() {
    let directory = Directory::new("reload-tls");
    let mut authority = Authority::new();
    let written = |authority: &Authority| {
        let (certificate, key) = authority.of_host("localhost");
        directory.with("server.pem", certificate);
        directory.with("server.key", key);
        directory.with("ca.pem", &authority.pem);
    };
    written(&authority);
    let config = format!(
        "p4runtime = '127.0.0.1:0'\ntls-cert = '{}'\ntls-key = '{}'\n",
        directory.file("server.pem"),
        directory.file("server.key")
    );
    let mut switch = Switch::start("reload-tls-switch", &config);
    let address = switch.address.clone();
    let asked = || {
        let ca = directory.file("ca.pem");
        let words = ["ctl", "status", "--addr", &address, "--tls-ca", &ca];
        said(&[&words[..], &["--tls-name", "localhost"]].concat())
    };
    assert_eq!(asked().status, Some(0), "{}", asked().err);
    authority = Authority::new();
    written(&authority);
    assert_ne!(
        asked().status,
        Some(0),
        "the server has the certificate before"
    );
    let line = switch.reload();
    assert!(line.ends_with("certificates read again"), "{line}");
    assert_eq!(asked().status, Some(0), "{}", asked().err);
    directory.with("server.pem", "no certificate");
    switch.directory.with("a.entries", entries(2));
    let line = switch.reload();
    assert!(
        line.contains("not reloaded, nothing is changed: "),
        "{line}"
    );
    assert!(line.contains("the server's certificate"), "{line}");
    assert_eq!(asked().status, Some(0), "{}", asked().err);
    switch.finish();
}

#[test]
fn options_that_a_reload_does_not_apply_are_named_and_lines_have_their_levels() {
    let mut switch = Switch::start("reload-options", "log = 'json,info'\n");
    let path = switch.directory.file("a.toml");
    let before = std::fs::read_to_string(&path).unwrap();
    let level = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["level"].as_str().unwrap().to_owned()
    };
    std::fs::write(&path, format!("{before}workers = 2\nspin = 5\n")).unwrap();
    let line = switch.reload();
    assert!(line.contains("same program, no other change"), "{line}");
    assert_eq!(level(&line), "INFO");
    let line = switch.lines_to("a.toml").pop().unwrap();
    assert!(line.contains("`spin`, `workers` of "), "{line}");
    assert!(line.contains("restart the switch"), "{line}");
    assert_eq!(level(&line), "WARN");
    std::fs::write(&path, format!("{before}workers = 2\nspun = 5\n")).unwrap();
    let line = switch.reload();
    assert!(
        line.contains("not reloaded, nothing is changed: "),
        "{line}"
    );
    assert!(
        line.contains("a.toml:9: error: unknown key `spun`"),
        "{line}"
    );
    assert_eq!(level(&line), "ERROR");
    std::fs::write(&path, &before).unwrap();
    let line = switch.reload();
    assert!(line.contains("\"reloaded in"), "{line}");
    switch.finish();
}

#[test]
fn a_check_warns_of_interfaces_that_do_not_exist_now() {
    let directory = Directory::new("reload-interfaces");
    let program = example("router/router.p4");
    let text = format!("command = 'run'\nprogram = '{program}'\nport = ['0=lo', '1=none0']\n");
    let config = directory.with("a.toml", text);
    let checked = said(&["config", "check", &config]);
    assert_eq!(checked.status, Some(0), "{}", checked.err);
    let expected = "warning: port 1: there is no network interface \"none0\"";
    assert!(checked.err.starts_with(expected), "{}", checked.err);
    assert_eq!(checked.err.lines().count(), 1, "{}", checked.err);
}

#[test]
fn wrong_configuration_has_an_exit_status_of_its_own() {
    let directory = Directory::new("reload-config");
    let program = example("router/router.p4");
    let entries = example("router/router.entries");
    for (text, status, expected) in [
        (
            format!(
                "command = 'run'\nprogram = '{program}'\nentries = '{entries}'\nport = ['0=ring:x', '1=ring:y', '2=ring:z']\n"
            ),
            0,
            ": no errors",
        ),
        (
            format!("command = 'run'\nprogram = '{program}'\nprot = '0=eth0'\n"),
            78,
            "a.toml:3: error: unknown key `prot`",
        ),
        (
            format!("command = 'run'\nprogram = '{program}'\nport = '0=eth0'\nworkers = 'x'\n"),
            78,
            "a.toml:4: error: `workers`: invalid value 'x'",
        ),
        (
            "command = 'run'\nprogram = 'none.p4'\nport = '0=eth0'\n".to_owned(),
            78,
            "none.p4",
        ),
        (
            format!(
                "command = 'run'\nprogram = '{program}'\nentries = 'none.entries'\nport = '0=eth0'\n"
            ),
            78,
            "none.entries",
        ),
        (
            "command = 'host'\nport = '0=eth0'\ntls-cert = 'none.pem'\ntls-key = 'none.key'\n"
                .to_owned(),
            78,
            "none.pem",
        ),
        (
            "command = 'serve'\nport = '1:0=eth0'\ndevice = 2\n".to_owned(),
            78,
            "there is no device 1",
        ),
        (
            format!("command = 'run'\nprogram = '{program}'\nport = ['0=eth0', '0=eth1']\n"),
            78,
            "port 0",
        ),
        (
            format!("command = 'run'\nprogram = '{program}'\nport = '511=eth0'\n"),
            78,
            "port 511",
        ),
        (
            "command = 'serve'\nport = ['0=eth0', '0=eth1']\n".to_owned(),
            78,
            "port 0",
        ),
        (
            format!(
                "command = 'run'\nprogram = '{program}'\nport = '0=ring:x'\nmetrics = '0.0.0.0:9100'\n"
            ),
            78,
            "0.0.0.0:9100",
        ),
        (
            "command = 'host'\nport = '0=eth0'\nmetrics = '0.0.0.0:9100'\n".to_owned(),
            78,
            "0.0.0.0:9100",
        ),
    ] {
        let config = directory.with("a.toml", &text);
        let checked = said(&["config", "check", &config]);
        let all = format!("{}{}", checked.out, checked.err);
        assert_eq!(checked.status, Some(status), "{text}: {all}");
        assert!(all.contains(expected), "{text}: {all}");
        if status != 0 {
            let started = said(&["config", "start", &config]);
            assert_eq!(started.status, Some(status), "{text}: {}", started.err);
            assert!(started.err.contains(expected), "{text}: {}", started.err);
        }
    }
    // Without a file, errors in the program keep the status of all commands.
    let plain = said(&["run", "none.p4", "--port", "0=ring:x"]);
    assert_eq!(plain.status, Some(1), "{}", plain.err);
}

//! `polyplane host` and `polyplane tenant`: virtual data planes on interfaces of a real kernel, made and changed while they run.

mod lab;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use lab::authority::Authority;
use lab::cables::Cables;
use lab::scrape::Scraped;
use lab::{Directory, Running, example, polyplane, said};
use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Netns, Port};

/// A switch that hosts, with cables to its ports, as its operator and the tenants' controllers see it.
struct Host {
    cables: Cables,
    running: Running,
    address: String,
    directory: Directory,
    /// What the switch has written to standard error.
    written: Arc<Mutex<Vec<String>>>,
    /// Frames that were tried: each is different, so that one that comes late is not taken for another.
    tried: u8,
}

/// What a command said: its standard output, or the error.
type Answer = Result<String, String>;

impl Host {
    /// None, with a line that says why, where the machine forbids namespaces.
    fn new(test: &str, ports: u32, options: &[&str]) -> Option<Host> {
        let cables = Cables::new(ports)?;
        let mut command = polyplane();
        command.args(["host", "--p4runtime", "127.0.0.1:9559", "--json"]);
        for port in 0..ports {
            command.arg("--port").arg(format!("{port}=port{port}"));
        }
        command
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
        let stderr = running.0.stderr.take().unwrap();
        let written = Arc::<Mutex<Vec<String>>>::default();
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let write = Arc::clone(&written);
        let mut lines = lines.inspect(move |line| write.lock().unwrap().push(line.clone()));
        let line = lines.find(|line| line.contains("are served at ")).unwrap();
        let (_, rest) = line.split_once("are served at ").unwrap();
        let address = rest.split(';').next().unwrap().to_owned();
        // A closed pipe would end it.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Host {
            written,
            cables,
            running,
            address,
            directory: Directory::new(test),
            tried: 0,
        })
    }

    fn command(&self, words: &[&str]) -> Answer {
        let mut all = vec![words[0], "--addr", &self.address];
        all.extend(&words[1..]);
        let said = self.cables.switch.run(|| said(&all)).unwrap();
        match said.status {
            Some(0) => Ok(said.out),
            _ => Err(said.err),
        }
    }

    fn tenant(&self, words: &[&str]) -> Answer {
        self.command(&[&["tenant"], words].concat())
    }

    /// A command of a controller of this device.
    fn controller(&self, device: &str, words: &[&str]) -> Answer {
        self.command(&[&["ctl", "--device-id", device], words].concat())
    }

    /// The line with all these parts that the switch has written to standard error, or does soon.
    fn line(&self, parts: &[&str]) -> String {
        for _ in 0..50 {
            let lines = self.written.lock().unwrap();
            let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
            if let Some(line) = lines.iter().find(has_all) {
                return line.clone();
            }
            drop(lines);
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{parts:?} in none of {:?}", self.written.lock().unwrap());
    }

    fn listing(&self) -> serde_json::Value {
        let listing = self.tenant(&["list", "--json"]).unwrap();
        serde_json::from_str(&listing).unwrap()
    }

    /// The metrics of a switch that was told to serve them, when they tell the same of packets as the operator is told: workers tell them in a while.
    fn scrape(&self) -> Scraped {
        for _ in 0..50 {
            let scraped = self.cables.switch.run(|| Scraped::of(METRICS)).unwrap();
            if self.is_told(&scraped) {
                return scraped;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("metrics tell something else than {}", self.listing());
    }

    fn is_told(&self, scraped: &Scraped) -> bool {
        let listing = self.listing();
        listing["vpdps"].as_array().unwrap().iter().all(|vpdp| {
            let (of, packets) = (labels(vpdp), &vpdp["packets"]);
            let is =
                |series: String, count: &serde_json::Value| scraped.find(&series) == count.as_f64();
            let both = ["received", "sent"].iter().all(|direction| {
                let series = format!("vpdp_packets_total{{{of},direction=\"{direction}\"}}");
                is(series, &packets[direction])
            });
            let mut drops = packets["dropped"].as_object().unwrap().iter();
            both && drops.all(|(reason, count)| {
                let series = format!("dropped_packets_total{{{of},reason=\"{reason}\"}}");
                is(series, count)
            })
        })
    }

    /// The only vPDP has no program, as its operator and its controllers see it.
    fn has_no_program(&self, device: &str) {
        let listing = self.listing();
        assert!(listing["vpdps"][0]["program"].is_null(), "{listing}");
        let tables = self.controller(device, &["tables"]).unwrap_err();
        assert!(tables.contains("has no program"), "{tables}");
    }

    /// A new frame to the host with this number.
    fn frame(&mut self, host: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, host, 2, 0, 0, 0, 0, 0xee, 0x88, 0xb5];
        self.tried += 1;
        bytes.resize(60, self.tried);
        bytes
    }

    /// Where a frame to this host is carried from one end, if it is.
    fn carries(&mut self, from: usize, host: u8) -> Option<usize> {
        let frame = self.frame(host);
        self.cables.carries(from, &frame)
    }

    fn drops(&mut self, from: usize, host: u8) -> bool {
        let frame = self.frame(host);
        let within = Duration::from_millis(300);
        self.cables.carries_within(from, &frame, within).is_none()
    }

    /// Stops the switch; what it reports in the end.
    fn stop(mut self) -> serde_json::Value {
        self.running.signal("TERM");
        let out = self.running.0.stdout.take().unwrap();
        let report = serde_json::from_reader(BufReader::new(out)).unwrap();
        assert_eq!(self.running.0.wait().unwrap().code(), Some(0));
        report
    }
}

const METRICS: &str = "127.0.0.1:9100";

/// What all metrics of a vPDP are labelled with.
fn labels(vpdp: &serde_json::Value) -> String {
    // JSON escapes quotes as metrics do.
    let [id, name, owner] = ["id", "name", "owner"].map(|what| &vpdp[what]);
    format!("device=\"{id}\",vpdp={name},owner={owner}")
}

fn forward(table: &str, host: u8, port: u32) -> String {
    format!("{table} {{ hdr.ethernet.dst: 02:00:00:00:00:{host:02x} }} -> to_port(port: {port})")
}

/// A vPDP's port for controllers.
const CONTROLLERS: u32 = 510;

const L2: &str = "functions/l2_sw.p4";

#[test]
fn each_vpdp_has_its_own_ports_entries_and_controllers() {
    let Some(mut host) = Host::new("host-own", 4, &[]) else {
        return;
    };
    host.line(&["port 3: port3 by AF_"]);
    let program = example(L2);
    for (name, ports) in [("blue", ["0", "1"]), ("red", ["2", "3"])] {
        let [first, second] = ports;
        let words = [
            "create",
            name,
            "--port",
            first,
            "--port",
            second,
            "--program",
            &program,
        ];
        host.tenant(&words).unwrap();
    }
    for device in ["1", "2"] {
        let statement = forward("L2Switch.forward", 9, 1);
        host.controller(device, &["add", &statement]).unwrap();
    }
    assert_eq!(host.carries(0, 9), Some(1));
    assert_eq!(host.carries(2, 9), Some(3));
    // Another one's entries change nothing here.
    let statement = "L2Switch.forward { hdr.ethernet.dst: 02:00:00:00:00:09 }";
    host.controller("1", &["delete", statement]).unwrap();
    assert!(host.drops(0, 9));
    assert_eq!(host.carries(2, 9), Some(3));
    let statement = forward("L2Switch.forward", 7, CONTROLLERS);
    host.controller("2", &["add", &statement]).unwrap();
    assert!(host.drops(2, 7));
    // Deparsers have stages, too, which take no slots.
    let told = host.tenant(&["slots", "--json"]).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let stages = &host.listing()["vpdps"][0]["program"]["stages"];
    assert_eq!(told["programs"][0]["all_stages"], *stages, "{told}");
    let held = told["held"].as_array().unwrap().iter();
    let held = held.flat_map(|slot| slot["stages"].as_array().unwrap());
    let of_blue = held.filter(|stage| stage["vpdp"] == 1).count() as u64;
    let slotless = told["programs"][0]["slotless"].as_u64().unwrap();
    assert_eq!(Some(of_blue + slotless), stages.as_u64(), "{told}");
    let text = host.tenant(&["slots"]).unwrap();
    let line = format!("blue has {stages} stages, {slotless} of which take no slots");
    assert!(text.contains(&line), "{text}");
    let report = host.stop();
    let io = report["ports"][3]["io"].as_str().unwrap();
    assert!(io.starts_with("AF_"), "{report}");
    let controllers = &report["controllers"];
    assert!(controllers["sent"].as_u64() > Some(0), "{report}");
    assert_eq!(controllers["lost"], 0, "{report}");
    let count = |vpdp: usize, what: &str| report["vpdps"][vpdp][what].as_u64().unwrap();
    for vpdp in [0, 1] {
        let gone = count(vpdp, "sent") + count(vpdp, "dropped");
        assert_eq!(count(vpdp, "received"), gone, "{report}");
    }
}

#[test]
fn a_vpdp_is_changed_suspended_rolled_back_and_taken_elsewhere_while_it_runs() {
    let Some(mut host) = Host::new("host-life", 2, &["--workers", "2"]) else {
        return;
    };
    let step =
        |name: &str, file: &str| format!("{name}={}", example(&format!("functions/{file}.p4")));
    let (mac, l2, qos) = (
        step("mac", "mac_learn"),
        step("l2", "l2_sw"),
        step("class", "qos"),
    );
    host.tenant(&["create", "blue", "--port", "0", "--port", "1"])
        .unwrap();
    assert!(host.drops(0, 9));
    host.has_no_program("1");
    host.tenant(&["load", "blue", &format!("{l2} -> {qos}")])
        .unwrap();
    let statement = forward("l2.L2Switch.forward", 9, 1);
    host.controller("1", &["add", &statement]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    // The entry stays, whatever steps come before and behind.
    let longer = format!("{mac} -> {l2} -> {qos}");
    host.tenant(&["load", "blue", &longer]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    let listing = host.listing();
    assert_eq!(listing["vpdps"][0]["program"]["policy"], longer);
    let refused = host
        .tenant(&["load", "blue", &format!("{mac} -> {qos}")])
        .unwrap_err();
    assert!(refused.contains("l2.L2Switch.forward"), "{refused}");
    assert_eq!(host.carries(0, 9), Some(1));
    host.tenant(&["rollback", "blue"]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    let listing = host.listing();
    let program = &listing["vpdps"][0]["program"];
    assert_eq!(program["policy"], format!("{l2} -> {qos}"));
    assert_eq!(program["joints"].as_array().unwrap().len(), 1);

    host.tenant(&["suspend", "blue"]).unwrap();
    assert!(host.drops(0, 9));
    host.tenant(&["resume", "blue"]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));

    let file = host.directory.file("blue.vpdp");
    host.tenant(&["export", "blue", &file]).unwrap();
    host.tenant(&["delete", "blue"]).unwrap();
    assert!(host.drops(0, 9));
    host.tenant(&["import", &file, "--name", "green"]).unwrap();
    let listing = host.listing();
    assert_eq!(
        listing["vpdps"][0]["program"]["policy"],
        format!("{l2} -> {qos}")
    );
    host.tenant(&["connect", "green:0", "0"]).unwrap();
    host.tenant(&["connect", "green:1", "1"]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    let dumped = host.controller("1", &["dump"]).unwrap();
    assert!(
        dumped.contains("02:00:00:00:00:09") || dumped.contains("0x020000000009"),
        "{dumped}"
    );
    host.tenant(&["unload", "green"]).unwrap();
    assert!(host.drops(0, 9));
    host.has_no_program("1");
    host.stop();
}

#[test]
fn shared_ports_and_links_lead_packets_through_vpdps() {
    let Some(mut host) = Host::new("host-links", 2, &[]) else {
        return;
    };
    let program = example(L2);
    for name in ["blue", "red"] {
        host.tenant(&["create", name, "--program", &program])
            .unwrap();
    }
    host.tenant(&["share", "0", "rules"]).unwrap();
    host.tenant(&["connect", "blue:0", "0"]).unwrap();
    host.tenant(&["connect", "red:0", "0"]).unwrap();
    host.tenant(&["link", "blue:1", "red:1"]).unwrap();
    host.tenant(&["connect", "red:2", "1"]).unwrap();
    let rule = "to-blue: port 0 and eth.dst 02:00:00:00:00:09 -> blue";
    host.tenant(&["add-rule", rule]).unwrap();
    let overlapping = "too: port 0 and eth.src 02:00:00:00:00:ee -> red";
    let refused = host.tenant(&["add-rule", overlapping]).unwrap_err();
    assert!(
        refused.contains("to-blue") && refused.contains("too"),
        "{refused}"
    );
    for (device, port) in [("1", 1), ("2", 2)] {
        let statement = forward("L2Switch.forward", 9, port);
        host.controller(device, &["add", &statement]).unwrap();
    }
    assert_eq!(host.carries(0, 9), Some(1));
    assert!(host.drops(0, 8));
    let refused = host.tenant(&["delete", "red"]).unwrap_err();
    assert!(refused.contains("linked"), "{refused}");
    host.tenant(&["unlink", "red:1"]).unwrap();
    assert!(host.drops(0, 9));
    let listing = host.listing();
    assert_eq!(
        listing["rules"][0],
        "to-blue: port 0 and eth.dst 02:00:00:00:00:09 -> 1"
    );
    assert_eq!(listing["shared_ports"]["0"], "rules");
    host.stop();
}

/// Sends all that comes by port 0 to port 1, and back.
const WIRE: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) {
    state start { transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = standard.ingress_port ^ 1; }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply {} }
V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

/// A host of a tenant: a namespace with one interface.
struct Station {
    netns: Netns,
    socket: UdpSocket,
}

impl Station {
    /// Takes an interface of another namespace.
    fn with(interface: &str, from: &Netns, last: u8) -> Station {
        let netns = Netns::create().unwrap();
        from.rtnl().unwrap().move_link(interface, &netns).unwrap();
        let mut rtnl = netns.rtnl().unwrap();
        rtnl.set_up(interface).unwrap();
        let address = Ipv4Addr::new(192, 0, 2, last);
        rtnl.add_address(interface, address.into(), 24).unwrap();
        let socket = netns.run(|| UdpSocket::bind((address, 7000))).unwrap();
        let socket = socket.unwrap();
        let patience = Some(Duration::from_millis(100));
        socket.set_read_timeout(patience).unwrap();
        Station { netns, socket }
    }

    /// Whether this text comes; what else comes must not be.
    fn hears(&self, text: &str) -> bool {
        let mut buffer = [0; 64];
        match self.socket.recv(&mut buffer) {
            Ok(length) => {
                assert_eq!(&buffer[..length], text.as_bytes());
                true
            }
            Err(_) => false,
        }
    }

    /// Sends a text to another station until it comes there.
    fn reaches(&self, other: &Station, text: &str) -> bool {
        let to = other.socket.local_addr().unwrap();
        (0..50).any(|_| {
            let _ = self.socket.send_to(text.as_bytes(), to);
            other.hears(text)
        })
    }

    /// Takes no more of what was sent again.
    fn forget(&self) {
        let mut buffer = [0; 64];
        while self.socket.recv(&mut buffer).is_ok() {}
    }
}

/// The other end of an uplink: frames of VLANs 10 and 20 go without their tags to the interfaces
/// `host10` and `host20`, and come back with them.
struct Trunk {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The VLANs of the trunk.
const VLANS: [u8; 2] = [10, 20];

/// Makes the interfaces of a trunk.
fn add_hosts(far: &Netns) {
    let mut rtnl = far.rtnl().unwrap();
    for vlan in VLANS {
        let (near, host) = (format!("trunk{vlan}"), format!("host{vlan}"));
        rtnl.add_veth(&near, &host, None).unwrap();
        rtnl.set_up(&near).unwrap();
    }
}

impl Trunk {
    /// Takes the last cable's end, when the interfaces of hosts are in their places.
    fn new(cables: &mut Cables) -> Trunk {
        let far = &cables.far;
        let open = |vlan: u8| {
            let name = format!("trunk{vlan}");
            let port = far.run(|| AfPacketPort::open(PortId(vlan.into()), &name));
            (vlan, port.unwrap().unwrap())
        };
        let mut ports = VLANS.map(open);
        let mut uplink = cables.ends.pop().unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let carry = move || {
            let mut batch = Batch::default();
            while !ends.load(Ordering::Relaxed) {
                batch.clear();
                let _ = uplink.rx(&mut batch, Nanos::ZERO);
                for frame in batch.frames() {
                    let bytes = frame.bytes();
                    for (vlan, port) in &mut ports {
                        if bytes.get(12..16) == Some(&[0x81, 0, 0, *vlan]) {
                            let untagged = [&bytes[..12], &bytes[16..]].concat();
                            port.tx(&[Frame::from_bytes(&untagged).unwrap()]);
                        }
                    }
                }
                for (vlan, port) in &mut ports {
                    batch.clear();
                    let _ = port.rx(&mut batch, Nanos::ZERO);
                    for frame in batch.frames() {
                        let (macs, rest) = frame.bytes().split_at(12);
                        let tagged = [macs, &[0x81, 0, 0, *vlan], rest].concat();
                        uplink.tx(&[Frame::from_bytes(&tagged).unwrap()]);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Trunk {
            is_over,
            thread: Some(std::thread::spawn(carry)),
        }
    }
}

impl Drop for Trunk {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn two_tenants_on_one_uplink_have_a_vlan_each_and_the_same_addresses() {
    let Some(mut host) = Host::new("host-access", 3, &[]) else {
        return;
    };
    let program = host.directory.with("wire.p4", WIRE);
    host.tenant(&["share", "2", "rules"]).unwrap();
    for (name, own) in [("red", "0"), ("blue", "1")] {
        let ports = ["--port", own, "--port", "2"];
        let create = [&["create", name, "--program", &program], &ports[..]];
        host.tenant(&create.concat()).unwrap();
    }
    let far = &host.cables.far;
    add_hosts(far);
    let red = [("end0", 1), ("host10", 2)];
    let red = red.map(|(interface, last)| Station::with(interface, far, last));
    let blue = [("end1", 1), ("host20", 2)];
    let blue = blue.map(|(interface, last)| Station::with(interface, far, last));
    let trunk = Trunk::new(&mut host.cables);
    // There are no rules yet: nothing comes in by the uplink, and nothing leaves.
    assert!(!red[1].hears("") && !blue[1].hears(""));
    for rule in [
        "red: port 2 and vlan 10 untag -> red",
        "blue: port 2 and vlan 20 untag -> blue",
    ] {
        host.tenant(&["add-rule", rule]).unwrap();
    }
    for (stations, text) in [(&red, "red"), (&blue, "blue")] {
        let [near, far] = stations;
        assert!(near.reaches(far, text), "{text}: {}", host.listing());
        assert!(far.reaches(near, text), "{text}: {}", host.listing());
        stations.iter().for_each(Station::forget);
    }
    let listing = host.listing();
    assert_eq!(listing["rules"][0], "red: port 2 and vlan 10 untag -> 1");
    // A tag of its own does not bring red into blue's VLAN.
    let foreign = || {
        let listing = host.listing();
        listing["vpdps"][0]["packets"]["dropped"]["foreign_egress"].as_u64()
    };
    let before = foreign();
    let mut tagged = vec![0xff; 12];
    tagged.extend([0x81, 0, 0, 20, 0x88, 0xb5]);
    tagged.resize(60, 0);
    let tagged = [Frame::from_bytes(&tagged).unwrap()];
    let send = || AfPacketPort::open(PortId(0), "end0").map(|mut end| end.tx(&tagged).sent);
    let mut tries = 0;
    while foreign() == before {
        red[0].netns.run(send).unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        tries += 1;
        assert!(tries < 100, "{}", host.listing());
    }
    assert!(!blue[1].hears(""));
    drop(trunk);
    let shared = host.tenant(&["share", "2", "rules", "egress", "any"]);
    shared.unwrap();
    assert_eq!(host.listing()["shared_ports"]["2"], "rules egress any");
    let refused = host.tenant(&["share", "2", "described", "egress", "any"]);
    assert!(refused.unwrap_err().contains("egress any"));
    host.stop();
}

#[test]
fn an_owner_controls_its_own_vpdp_and_operators_all_of_them() {
    let directory = Directory::new("host-owners-files");
    let authority = Authority::new();
    let ca = directory.with("ca.pem", &authority.pem);
    let written = |name: &str, (certificate, key): (String, String)| {
        let file = |end: &str, text: String| directory.with(&format!("{name}.{end}"), text);
        [file("pem", certificate), file("key", key)]
    };
    let [certificate, key] = written("server", authority.of_host("localhost"));
    let options = [
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
        "--allow",
        "root=*",
    ];
    let Some(host) = Host::new("host-owners", 1, &options) else {
        return;
    };
    let [root, alice, bob] =
        ["root", "alice", "bob"].map(|name| written(name, authority.of_person(name)));
    let asked = |person: &[String; 2], words: &[&str]| {
        let [certificate, key] = person;
        let tls = [
            "--tls-ca",
            &ca,
            "--tls-cert",
            certificate,
            "--tls-key",
            key,
            "--tls-name",
            "localhost",
        ];
        host.command(&[&words[..1], &tls, &words[1..]].concat())
    };
    for owner in ["alice", "bob"] {
        asked(
            &root,
            &["tenant", "create", &format!("of-{owner}"), "--owner", owner],
        )
        .unwrap();
    }
    let program = example(L2);
    let load = |person, device| asked(person, &["ctl", "--device-id", device, "load", &program]);
    load(&alice, "1").unwrap();
    load(&bob, "2").unwrap();
    for (person, device) in [(&alice, "2"), (&bob, "1")] {
        let refused = load(person, device).unwrap_err();
        assert!(
            refused.contains("not among those that are allowed"),
            "{refused}"
        );
        let refused = asked(person, &["ctl", "--device-id", device, "tables"]).unwrap_err();
        assert!(
            refused.contains("not among those that are allowed"),
            "{refused}"
        );
        let refused = asked(person, &["tenant", "list"]).unwrap_err();
        assert!(
            refused.contains("not among those that are allowed"),
            "{refused}"
        );
    }
    host.line(&["no operator", "not among those that are allowed"]);
    load(&root, "2").unwrap();
    asked(&root, &["tenant", "delete", "of-bob"]).unwrap();
    host.line(&["done", "operator=\"root\"", "delete of-bob"]);
    // What is bob's no more tells him nothing.
    let refused = load(&bob, "2").unwrap_err();
    assert!(refused.contains("bob"), "{refused}");
    asked(&alice, &["ctl", "--device-id", "1", "tables"]).unwrap();
    host.stop();
}

#[test]
fn what_a_controller_loads_is_held_to_the_quotas_of_now() {
    let Some(host) = Host::new("host-quotas", 1, &[]) else {
        return;
    };
    let program = example(L2);
    host.tenant(&["create", "blue", "--quota", "stages=1"])
        .unwrap();
    let load = || host.controller("1", &["load", &program]);
    assert!(load().unwrap_err().contains("stages"));
    host.tenant(&["quota", "blue", "text-bytes=100"]).unwrap();
    // What the command sends is IR.
    let too_long = load().unwrap_err();
    assert!(too_long.contains("quota is 100 bytes"), "{too_long}");
    let too_long = host.tenant(&["load", "blue", &program]).unwrap_err();
    assert!(too_long.contains("quota is 100"), "{too_long}");
    host.tenant(&["quota", "blue", "stages=50"]).unwrap();
    load().unwrap();
    // Who asks for nothing is told, and changes nothing.
    let shown = host.tenant(&["quota", "blue"]).unwrap();
    assert!(shown.contains("stages=50: 50 stages"), "{shown}");
    assert!(shown.contains("4096 units of work a packet"), "{shown}");
    assert_eq!(host.listing()["vpdps"][0]["quotas"][0], "stages=50");
    let json = host.tenant(&["quota", "blue", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["quotas"][0], "stages=50");
    let text = host.tenant(&["show", "blue"]).unwrap();
    assert!(text.contains("  quota stages=50: 50 stages"), "{text}");
    let both = host.tenant(&["quota", "blue", "--none", "stages=9"]);
    assert!(both.unwrap_err().contains("cannot be used with"));
    host.tenant(&["quota", "blue", "--none"]).unwrap();
    let shown = host.tenant(&["quota", "blue"]).unwrap();
    assert!(shown.contains("has no quotas"), "{shown}");
    load().unwrap();
    // What operators have changed is written down, and what was refused.
    let line = host.line(&["done", "create blue --quota stages=1"]);
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    host.line(&["done", "quota blue --none"]);
    host.line(&["refused", "load blue l2_sw", "quota is 100 bytes"]);
    host.stop();
}

/// A line of two tables by the port by which a packet came in.
const LINE: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct empty_t {}
parser P(packet_in p, out empty_t h, inout empty_t m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout empty_t h, inout empty_t m) { apply {} }
control I(inout empty_t h, inout empty_t m, inout standard_metadata_t s) {
    action to_port(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table first { key = { s.ingress_port : exact @name("in"); } actions = { to_port; drop; } default_action = drop(); size = 16; }
    table second { key = { s.ingress_port : exact @name("in"); } actions = { drop; NoAction; } size = 16; }
    apply { first.apply(); second.apply(); }
}
control E(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in empty_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

#[test]
fn stages_are_in_slots_go_on_in_turns_and_change_while_it_runs() {
    let options = ["--slots", "1", "--slot-tables", "3"];
    let Some(mut host) = Host::new("host-slots", 2, &options) else {
        return;
    };
    let program = host.directory.with("line.p4", LINE);
    let ports = ["--port", "0", "--port", "1", "--program", &program];
    host.tenant(&[&["create", "blue"], &ports[..]].concat())
        .unwrap();
    let entry = "I.first { in: 0 } -> to_port(port: 1)";
    host.controller("1", &["add", entry]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    let slots = |host: &Host| -> serde_json::Value {
        serde_json::from_str(&host.tenant(&["slots", "--json"]).unwrap()).unwrap()
    };
    let told = slots(&host);
    assert_eq!(told["slots"], 1);
    assert_eq!(told["programs"][0]["turns"], 2);
    assert_eq!(told["held"][0]["used"]["tables"], 2);
    assert_eq!(told["held"][0]["free"]["tables"], 1);
    let text = host.tenant(&["slots"]).unwrap();
    assert!(
        text.contains("match     blue: I.second (ingress, turn 2)"),
        "{text}"
    );

    // Another one has no place, whoever loads it.
    host.tenant(&["create", "red"]).unwrap();
    let load = host.tenant(&["load", "red", &program]).unwrap_err();
    assert!(
        load.contains("no slot has room for stage I.second"),
        "{load}"
    );
    let load = host.controller("2", &["load", &program]).unwrap_err();
    assert!(
        load.contains("no slot has room for stage I.second"),
        "{load}"
    );
    assert_eq!(slots(&host)["held"], told["held"]);

    let turns = |host: &Host| slots(host)["programs"][0]["turns"].clone();
    host.tenant(&["stage", "delete", "blue", "I.second"])
        .unwrap();
    assert_eq!(turns(&host), 1);
    assert_eq!(host.carries(0, 9), Some(1));
    host.tenant(&["rollback", "blue"]).unwrap();
    assert_eq!(turns(&host), 2);
    assert_eq!(host.carries(0, 9), Some(1));
    let add = [
        "stage", "add", "blue", &program, "I.second", "--before", "I.first", "--as", "guard",
    ];
    host.tenant(&add).unwrap();
    assert_eq!(turns(&host), 3);
    assert_eq!(host.carries(0, 9), Some(1));
    host.controller("1", &["add", "guard.I.second { in: 0 } -> drop()"])
        .unwrap();
    // What comes later says otherwise: a port is chosen again.
    assert_eq!(host.carries(0, 9), Some(1));
    let behind = [
        "stage",
        "move",
        "blue",
        "guard.I.second",
        "--after",
        "I.second",
    ];
    host.tenant(&behind).unwrap();
    assert!(host.drops(0, 9));
    // It takes no other turn, and controllers need not come anew.
    for slot in ["0", "any"] {
        let to_slot = ["stage", "move", "blue", "I.first", "--slot", slot];
        host.tenant(&to_slot).unwrap();
        assert!(host.drops(0, 9));
    }
    let before = slots(&host);
    let cases: &[(&[&str], &str)] = &[
        (
            &["delete", "blue", "I.third"],
            "no stage `I.third`; its stages are ",
        ),
        (
            &["move", "blue", "I.first", "--slot", "1"],
            "there is no slot 1",
        ),
        (
            &["move", "blue", "I.first", "--after", "I.first"],
            "same control",
        ),
        (
            &["replace", "blue", "I.first", &program, "I.third"],
            "no stage `I.third`",
        ),
        (
            &["add", "blue", &program, "I.second", "--after", "I.first"],
            "no slot has room",
        ),
        (&["delete", "green", "I.first"], "no vPDP `green`"),
    ];
    for (words, part) in cases {
        let refused = host.tenant(&[&["stage"], *words].concat()).unwrap_err();
        assert!(refused.contains(part), "{words:?}: {refused}");
        assert_eq!(slots(&host), before, "{words:?}");
    }
    // What is gone keeps no slot for what comes.
    host.tenant(&["unload", "blue"]).unwrap();
    assert!(slots(&host)["programs"].as_array().unwrap().is_empty());
    host.tenant(&["delete", "blue"]).unwrap();
    assert_eq!(slots(&host)["held"][0]["used"]["tables"], 0);
    host.controller("2", &["load", &program]).unwrap();
    assert_eq!(turns(&host), 2);
    host.stop();
}

#[test]
fn metrics_tell_of_the_switch_and_of_each_vpdp_as_long_as_it_is_there() {
    let Some(mut host) = Host::new("host-metrics", 2, &["--metrics", METRICS]) else {
        return;
    };
    let program = example(L2);
    let blue = ["create", "blue", "--owner", "al \"ice\"", "--program"];
    let blue = [&blue[..], &[&program, "--port", "0", "--port", "1"]].concat();
    host.tenant(&blue).unwrap();
    host.tenant(&["create", "red", "--quota", "stages=9"])
        .unwrap();
    host.tenant(&["link", "blue:2", "red:0"]).unwrap();
    let statement = forward("L2Switch.forward", 9, 1);
    host.controller("1", &["add", &statement]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    assert!(host.drops(0, 8));
    let of_blue = r#"device="1",vpdp="blue",owner="al \"ice\"""#;
    let of_red = r#"device="2",vpdp="red",owner="""#;

    let scraped = host.scrape();
    let blue = |name: &str| scraped.find(&format!("{name}{{{of_blue}}}"));
    let red = |name: &str| scraped.find(&format!("{name}{{{of_red}}}"));
    for (name, of_blue, of_red) in [
        ("vpdp_programmed", 1.0, 0.0),
        ("vpdp_suspended", 0.0, 0.0),
        ("vpdp_ports", 2.0, 0.0),
        ("vpdp_links", 1.0, 1.0),
        ("vpdp_entries", 1.0, 0.0),
        ("vpdp_weight", 1.0, 1.0),
        ("held_packets", 0.0, 0.0),
        ("p4runtime_sessions", 0.0, 0.0),
    ] {
        assert_eq!(blue(name), Some(of_blue), "{name}");
        assert_eq!(red(name), Some(of_red), "{name}");
    }
    assert!(blue("vpdp_stages") > Some(0.0));
    // What is not limited has no quota.
    assert_eq!(blue("vpdp_quota_stages"), None);
    assert_eq!(red("vpdp_quota_stages"), Some(9.0));
    let made = format!("p4runtime_updates_total{{{of_blue},outcome=\"made\"}}");
    assert_eq!(scraped.value(&made), 1.0);
    assert_eq!(scraped.value("vpdps{}"), 2.0);
    let sent = r#"port_packets_total{port="1",name="port1",direction="sent"}"#;
    assert!(scraped.value(sent) > 0.0);
    assert!(scraped.value(r#"worker_packets_total{worker="0"}"#) > 0.0);

    let limited = ["quota", "blue", "packets=1/1", "entries=10"];
    host.tenant(&limited).unwrap();
    assert!(host.drops(0, 8));
    host.tenant(&["suspend", "blue"]).unwrap();
    assert!(host.drops(0, 9));
    let scraped = host.scrape();
    let blue = |name: &str| scraped.value(&format!("{name}{{{of_blue}}}"));
    assert_eq!(blue("vpdp_suspended"), 1.0);
    assert_eq!(blue("vpdp_quota_entries"), 10.0);
    assert_eq!(blue("vpdp_quota_packets_per_second"), 1.0);
    for reason in ["rate_quota", "suspended"] {
        let of_vpdp = format!("dropped_packets_total{{{of_blue},reason=\"{reason}\"}}");
        assert!(scraped.value(&of_vpdp) > 0.0, "{reason}");
        let of_all = format!("switch_dropped_packets_total{{reason=\"{reason}\"}}");
        assert!(scraped.value(&of_all) > 0.0, "{reason}");
    }

    host.tenant(&["unlink", "red:0"]).unwrap();
    host.tenant(&["delete", "red"]).unwrap();
    let scraped = host.scrape();
    assert!(!scraped.0.contains("vpdp=\"red\""), "{}", scraped.0);
    assert_eq!(scraped.value("vpdps{}"), 1.0);
    host.stop();
}

/// Controllers cannot know its table: the id is of another kind of object.
const NAMELESS: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct empty_t {}
parser P(packet_in p, out empty_t h, inout empty_t m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout empty_t h, inout empty_t m) { apply {} }
control I(inout empty_t h, inout empty_t m, inout standard_metadata_t s) {
    @id(0x05000007) table t { key = { s.ingress_port : exact; } actions = { NoAction; } }
    apply { t.apply(); }
}
control E(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in empty_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// Its packets begin with a header that no program of the examples sends.
const OTHER: &str = r#"
#include <core.p4>
#include <v1model.p4>
header other_t { bit<3> kind; bit<29> value; }
struct headers_t { other_t other; }
struct empty_t {}
parser P(packet_in p, out headers_t h, inout empty_t m, inout standard_metadata_t s) { state start { p.extract(h.other); transition accept; } }
control V(inout headers_t h, inout empty_t m) { apply {} }
control C(inout headers_t h, inout empty_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.other); } }
V1Switch(P(), V(), C(), C(), V(), D()) main;
"#;

#[test]
fn what_is_wrong_is_told_and_changes_nothing() {
    let Some(host) = Host::new("host-wrong", 2, &[]) else {
        return;
    };
    let program = example(L2);
    let broken = host
        .directory
        .with("broken.p4", "control C() { apply { x = 1; } }");
    let nameless = host.directory.with("nameless.p4", NAMELESS);
    let other = host.directory.with("other.p4", OTHER);
    host.tenant(&["create", "blue", "--port", "0", "--program", &program])
        .unwrap();
    // A compilation that is refused is counted.
    let without_counts = |mut listing: serde_json::Value| {
        for vpdp in listing["vpdps"].as_array_mut().unwrap() {
            vpdp.as_object_mut().unwrap().remove("compilations");
        }
        listing["vpdps"].take()
    };
    let before = without_counts(host.listing());
    let cases: &[(&[&str], &str)] = &[
        (&["create", "blue"], "blue"),
        (&["create", "7up"], "7up"),
        (&["create", "red", "--port", "0"], "port 0"),
        (&["create", "red", "--port", "9"], "no port 9"),
        (&["create", "red", "--id", "5000"], "4095"),
        (&["create", "red", "--quota", "speed=9"], "speed=9"),
        (&["quota", "blue", "packets=0"], "each at least 1"),
        (
            &[
                "create",
                "red",
                "--quota",
                "stages=1",
                "--program",
                &program,
            ],
            "stages",
        ),
        (&["delete", "red"], "there are blue"),
        (&["load", "blue", &broken], "broken.p4"),
        (&["load", "blue", &nameless], "no P4Info"),
        (
            &["load", "blue", &format!("a={program} -> a={program}")],
            "`a`",
        ),
        (
            &["load", "blue", &format!("{program} -> {other}")],
            "expects packets to begin with `other_t`",
        ),
        (&["load", "blue", &format!("{program} -> [")], "policy"),
        (&["link", "blue:0", "blue:1"], "connected already"),
        (&["connect", "blue:510", "1"], "controllers"),
        (&["share", "0", "described gre"], "gre"),
        (&["add-rule", "r: port 1 -> nobody"], "nobody"),
        (
            &["add-rule", "r: vlan 5000 -> blue"],
            "VLAN 5000: 1 to 4094",
        ),
        (&["delete-rule", "r"], "no rule `r`"),
        (&["rollback", "nobody"], "nobody"),
        (&["import", &broken], "export"),
    ];
    for (words, part) in cases {
        let refused = host.tenant(words).unwrap_err();
        assert!(refused.contains(part), "{words:?}: {refused}");
        assert_eq!(without_counts(host.listing()), before, "{words:?}");
    }
    host.stop();
}

/// Threads of a process, and the KiB that it has in memory.
fn threads_and_memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let number = line.split_whitespace().nth(1).unwrap();
        number.parse().unwrap()
    };
    (of("Threads:"), of("VmRSS:"))
}

/// Creates, loads and deletes virtual data planes, and holds threads and memory against those after
/// the first rounds.
fn create_load_and_delete(test: &str, rounds: u32) {
    let Some(host) = Host::new(test, 1, &[]) else {
        return;
    };
    let program = example(L2);
    let pid = host.running.0.id();
    let round = || {
        host.tenant(&["create", "blue"]).unwrap();
        host.tenant(&["load", "blue", &program]).unwrap();
        host.controller("1", &["load", &program]).unwrap();
        host.tenant(&["delete", "blue"]).unwrap();
    };
    (0..10).for_each(|_| round());
    let (threads, memory) = threads_and_memory(pid);
    (0..rounds).for_each(|_| round());
    // Threads that have made a program stay for a moment.
    let mut now = threads_and_memory(pid);
    for _ in 0..50 {
        if now.0 <= threads {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        now = threads_and_memory(pid);
    }
    println!("{rounds} rounds: {threads} threads and {memory} KiB became {now:?}");
    assert!(now.0 <= threads, "{} threads became {}", threads, now.0);
    // The allocator keeps some.
    assert!(now.1 < memory + 64 * 1024, "{memory} KiB became {}", now.1);
    host.stop();
}

#[test]
fn virtual_data_planes_that_come_and_go_leave_threads_and_memory_as_they_were() {
    create_load_and_delete("host-rounds", 20);
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_virtual_data_planes_leave_threads_and_memory_as_they_were() {
    create_load_and_delete("host-thousand-rounds", 1000);
}

#[test]
fn names_and_owners_are_short_printable_and_of_somebody() {
    let Some(host) = Host::new("host-names", 1, &[]) else {
        return;
    };
    let long = "x".repeat(256);
    for (name, owner, part) in [
        (long.as_str(), "alice", "256 bytes"),
        ("a\u{7}", "alice", "U+0007"),
        ("a\u{202e}b", "alice", "U+202E"),
        ("blue", long.as_str(), "256 bytes"),
        ("blue", "al\nice", "U+000A"),
        ("blue", "*", "`*` is no owner"),
    ] {
        let refused = host.tenant(&["create", name, "--owner", owner]);
        let refused = refused.unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    let rule = format!("{long}: -> blue");
    host.tenant(&["create", "blue"]).unwrap();
    host.tenant(&["share", "0", "rules"]).unwrap();
    let refused = host.tenant(&["add-rule", &rule]).unwrap_err();
    assert!(refused.contains("a rule's name has 256 bytes"), "{refused}");
    host.tenant(&["delete", "blue"]).unwrap();
    // One that is no more is in the final report.
    let report = host.stop();
    assert_eq!(report["deleted"][0]["name"], "blue");
}

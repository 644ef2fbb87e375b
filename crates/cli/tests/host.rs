//! `polyplane host` and `polyplane tenant`: virtual data planes on interfaces of a real kernel,
//! created and changed while they run.

mod lab;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lab::cables::Cables;
use lab::example;
use lab::host::{CONTROLLERS, Host, L2, forward};
use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Netns, Port};

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
    // Entries of another vPDP change nothing here.
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
    // The entry stays, whatever steps are added before and after.
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
        "to-blue: port 0 and eth.dst 02:00:00:00:00:09 -> blue"
    );
    assert_eq!(listing["shared_ports"]["0"], "rules");
    host.stop();
}

/// Forwards all packets of port 0 to port 1 and back.
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
struct Neighbour {
    netns: Netns,
    socket: UdpSocket,
}

impl Neighbour {
    /// Moves an interface of another namespace into the host.
    fn with(interface: &str, from: &Netns, last: u8) -> Neighbour {
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
        Neighbour { netns, socket }
    }

    /// Returns true if this text is received. No other text may arrive.
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

    /// Sends a text to another host until it arrives there.
    fn reaches(&self, other: &Neighbour, text: &str) -> bool {
        let to = other.socket.local_addr().unwrap();
        (0..50).any(|_| {
            let _ = self.socket.send_to(text.as_bytes(), to);
            other.hears(text)
        })
    }

    /// Discards received repetitions.
    fn forget(&self) {
        let mut buffer = [0; 64];
        while self.socket.recv(&mut buffer).is_ok() {}
    }
}

/// The other end of an uplink. Frames of VLANs 10 and 20 are sent without their tags to the
/// interfaces `host10` and `host20`, and return with them.
struct Trunk {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The VLANs of the trunk.
const VLANS: [u8; 2] = [10, 20];

/// Creates the interfaces of a trunk.
fn add_hosts(far: &Netns) {
    let mut rtnl = far.rtnl().unwrap();
    for vlan in VLANS {
        let (near, host) = (format!("trunk{vlan}"), format!("host{vlan}"));
        rtnl.add_veth(&near, &host, None).unwrap();
        rtnl.set_up(&near).unwrap();
    }
}

impl Trunk {
    /// Takes the last cable's end, after the interfaces of the hosts have been moved.
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
    let red = red.map(|(interface, last)| Neighbour::with(interface, far, last));
    let blue = [("end1", 1), ("host20", 2)];
    let blue = blue.map(|(interface, last)| Neighbour::with(interface, far, last));
    let trunk = Trunk::new(&mut host.cables);
    // There are no rules yet: no packets enter or leave by the uplink.
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
        stations.iter().for_each(Neighbour::forget);
    }
    let listing = host.listing();
    assert_eq!(listing["rules"][0], "red: port 2 and vlan 10 untag -> red");
    // A tag sent by red itself does not bring the packet into blue's VLAN.
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
    // The command sends IR.
    let too_long = load().unwrap_err();
    assert!(too_long.contains("quota is 100 bytes"), "{too_long}");
    let too_long = host.tenant(&["load", "blue", &program]).unwrap_err();
    assert!(too_long.contains("quota is 100"), "{too_long}");
    host.tenant(&["quota", "blue", "stages=50"]).unwrap();
    load().unwrap();
    // Without settings the quotas are shown and not changed.
    let shown = host.tenant(&["quota", "blue"]).unwrap();
    assert!(
        shown.contains("\n  stages=50 (50 stages of the program)\n"),
        "{shown}"
    );
    let work = "\n  work=4096 (4096 units of work a packet), the default\n";
    assert!(shown.contains(work), "{shown}");
    assert_eq!(host.listing()["vpdps"][0]["quotas"][0], "stages=50");
    let json = host.tenant(&["quota", "blue", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["quotas"][0], "stages=50");
    let text = host.tenant(&["show", "blue"]).unwrap();
    assert!(text.contains("  quota stages=50 (50 stages"), "{text}");
    // What is shown can be given back.
    let set: Vec<&str> = shown.lines().skip(1).collect();
    let set = set
        .iter()
        .map(|line| line.split_whitespace().next().unwrap());
    let set: Vec<&str> = set.collect();
    host.tenant(&[&["quota", "blue"], &set[..]].concat())
        .unwrap();
    let again = host.tenant(&["quota", "blue"]).unwrap();
    for setting in &set {
        assert!(again.contains(&format!("\n  {setting} (")), "{again}");
    }
    assert!(!again.contains("the default"), "{again}");
    let both = host.tenant(&["quota", "blue", "--none", "stages=9"]);
    assert!(both.unwrap_err().contains("cannot be used with"));
    host.tenant(&["quota", "blue", "--none"]).unwrap();
    let shown = host.tenant(&["quota", "blue"]).unwrap();
    assert!(shown.contains("has no quotas"), "{shown}");
    load().unwrap();
    // Changes of operators are logged, and refused changes, too.
    let line = host.line(&["done", "create blue --quota stages=1"]);
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    host.line(&["done", "quota blue --none"]);
    host.line(&["refused", "load blue l2_sw", "quota is 100 bytes"]);
    host.stop();
}

/// A program with two tables in a row; their key is the ingress port.
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

    // Another program does not fit, whichever client loads it.
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
    // The later stage overrides this: it sets a port again.
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
    // It takes no other turn, and controllers need not reconnect.
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
    // A removed program keeps no slots.
    host.tenant(&["unload", "blue"]).unwrap();
    assert!(slots(&host)["programs"].as_array().unwrap().is_empty());
    host.tenant(&["delete", "blue"]).unwrap();
    assert_eq!(slots(&host)["held"][0]["used"]["tables"], 0);
    host.controller("2", &["load", &program]).unwrap();
    assert_eq!(turns(&host), 2);
    host.stop();
}

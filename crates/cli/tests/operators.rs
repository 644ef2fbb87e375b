//! `polyplane host` and `polyplane tenant`: the output for operators and owners, refused
//! requests, and what remains after virtual data planes are deleted.

mod lab;

use std::time::Duration;

use lab::authority::Authority;
use lab::host::{Host, L2, METRICS, forward};
use lab::{Directory, example};

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
    }
    // An owner sees only its vPDPs.
    let rule = "r: port 0 and vlan 7 -> of-bob";
    for words in [
        &["tenant", "share", "0", "rules"][..],
        &["tenant", "connect", "of-bob:0", "0"],
        &["tenant", "add-rule", rule],
        &["tenant", "link", "of-bob:1", "of-alice:1"],
    ] {
        asked(&root, words).unwrap();
    }
    let list = asked(&alice, &["tenant", "list"]).unwrap();
    assert!(
        list.contains("of-alice") && list.contains("ports open, a link"),
        "{list}"
    );
    for part in ["of-bob", "rule", "is shared", "all packets"] {
        assert!(!list.contains(part), "{part}: {list}");
    }
    let list = asked(&bob, &["tenant", "list"]).unwrap();
    for part in ["of-bob", "ports 0, a link", "port 0 is shared: rules", rule] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let list = asked(&root, &["tenant", "list"]).unwrap();
    for part in ["of-bob:1", "of-alice:1", rule, "all packets"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let shown = asked(&alice, &["tenant", "show", "1"]).unwrap();
    assert!(shown.starts_with("vPDP 1 (of-alice)"), "{shown}");
    let quotas = asked(&alice, &["tenant", "quota", "of-alice"]).unwrap();
    assert!(quotas.contains("units of work a packet"), "{quotas}");
    for (words, part) in [
        (
            &["tenant", "show", "of-bob"][..],
            "no vPDP `of-bob` of yours; there are of-alice",
        ),
        (&["tenant", "quota", "2"], "no vPDP `2` of yours"),
        (&["tenant", "slots"], "is no operator"),
        (
            &["tenant", "export", "of-alice", "/dev/null"],
            "is no operator",
        ),
        (
            &["tenant", "quota", "of-alice", "entries=1"],
            "not among those that are allowed",
        ),
        (
            &["tenant", "suspend", "of-alice"],
            "not among those that are allowed",
        ),
        (
            &["tenant", "load", "1", &program],
            "only operators change vPDPs in this way; the owner of a vPDP loads its program and \
             writes its entries by P4Runtime: `polyplane ctl load PROGRAM.p4 --device-id N`, where \
             N is the number of the vPDP",
        ),
        (
            &["tenant", "delete", "of-alice"],
            "you own of-alice (--device-id 1)",
        ),
        (
            &["tenant", "slots"],
            "an owner sees its vPDPs by `tenant list`",
        ),
    ] {
        let refused = asked(&alice, words).unwrap_err();
        assert!(refused.contains(part), "{words:?}: {refused}");
    }
    host.line(&["no operator", "stage slots"]);
    let refused = asked(&root, &["tenant", "delete-rule", "of-bob"]).unwrap_err();
    assert!(
        refused.contains("there is no rule `of-bob`; the rules: `r` of vPDP 2"),
        "{refused}"
    );
    let refused = asked(&root, &["tenant", "delete-rule", rule]).unwrap_err();
    assert!(
        refused.contains("give only the name in front of the colon"),
        "{refused}"
    );
    let more = "s: port 0 and vlan 8 -> of-bob priority 3";
    asked(&root, &["tenant", "add-rule", more]).unwrap();
    let deleted = asked(&root, &["tenant", "delete-rule", "s"]).unwrap();
    assert_eq!(deleted, format!("deleted {more}; of-bob still has r\n"));
    let deleted = asked(&root, &["tenant", "delete-rule", "r"]).unwrap();
    assert_eq!(
        deleted,
        format!("deleted {rule}; of-bob has no other rule\n")
    );
    asked(&root, &["tenant", "unlink", "of-bob:1"]).unwrap();
    load(&root, "2").unwrap();
    asked(&root, &["tenant", "delete", "of-bob"]).unwrap();
    host.line(&["done", "operator=\"root\"", "delete of-bob"]);
    // Bob gets no information about a vPDP that is not his any more.
    let refused = load(&bob, "2").unwrap_err();
    assert!(refused.contains("bob"), "{refused}");
    asked(&alice, &["ctl", "--device-id", "1", "tables"]).unwrap();
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
    // Without a limit there is no quota metric.
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

/// A program that controllers cannot address: the id of its table is of another kind of object.
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

/// A program with a header that no packet of the examples' programs has.
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
    // A refused compilation is counted.
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
        (&["load", "blue", &nameless], "`@id(0x5000007)`"),
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

/// Returns the number of threads of a process, and its resident memory in KiB.
fn threads_and_memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let number = line.split_whitespace().nth(1).unwrap();
        number.parse().unwrap()
    };
    (of("Threads:"), of("VmRSS:"))
}

/// Creates, loads and deletes virtual data planes. Compares threads and memory with those after
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
    // Compile threads end a moment later.
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
    // The allocator keeps some memory.
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
    // A deleted vPDP is in the final report.
    let report = host.stop();
    assert_eq!(report["deleted"][0]["name"], "blue");
}

#[test]
fn packets_to_a_vpdp_without_a_program_are_dropped_as_such() {
    let Some(mut host) = Host::new("host-no-program", 2, &[]) else {
        return;
    };
    let no_program = |host: &Host| host.listing()["packets"]["dropped"]["no_program"].as_u64();
    let words = ["create", "blue", "--port", "0", "--port", "1"];
    host.tenant(&words).unwrap();
    let all = forward("L2Switch.forward", 9, 1);
    for round in 0..2 {
        let before = no_program(&host).unwrap_or(0);
        assert!(host.drops(0, 9));
        assert!(no_program(&host) > Some(before), "{}", host.listing());
        // An operator sets a program, or a controller does.
        match round {
            0 => host.tenant(&["load", "blue", &example(L2)]).unwrap(),
            _ => host.controller("1", &["load", &example(L2)]).unwrap(),
        };
        host.controller("1", &["add", &all]).unwrap();
        assert_eq!(host.carries(0, 9), Some(1));
        host.tenant(&["unload", "blue"]).unwrap();
    }
    host.stop();
}

#[test]
fn ports_of_a_vpdp_are_watched_as_they_are_connected() {
    let Some(host) = Host::new("host-ports", 2, &[]) else {
        return;
    };
    let words = ["create", "blue", "--port", "0", "--port", "open"];
    host.tenant(&words).unwrap();
    let check = |lines: &[&str]| {
        let status = host.controller("1", &["status"]).unwrap();
        let said: Vec<&str> = status.lines().filter(|l| l.starts_with("port ")).collect();
        assert_eq!(said, lines, "{status}");
    };
    check(&["port     0 is up"]);
    host.tenant(&["connect", "blue:1", "1"]).unwrap();
    check(&["port     0 is up", "port     1 is up"]);
    host.tenant(&["disconnect", "blue:0"]).unwrap();
    check(&["port     0 is down", "port     1 is up"]);
    host.tenant(&["link", "blue:0", "blue:2"]).unwrap();
    check(&["port     0 is up", "port     1 is up", "port     2 is up"]);
    host.tenant(&["unlink", "blue:2"]).unwrap();
    check(&[
        "port     0 is down",
        "port     1 is up",
        "port     2 is down",
    ]);
    host.stop();
}

#[test]
fn options_that_protect_nothing_or_are_always_refused_are_not_offered() {
    let help = lab::said(&["host", "--help"]);
    assert!(!help.out.contains("anyone-may-control"), "{}", help.out);
    let Some(host) = Host::new("host-unprotected", 1, &[]) else {
        return;
    };
    let words = [
        "tenant",
        "--addr",
        &host.address,
        "create",
        "blue",
        "--owner",
        "bob",
    ];
    let said = host.cables.switch.run(|| lab::said(&words)).unwrap();
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(
        said.err.contains("--owner protects nothing"),
        "{}",
        said.err
    );
    // State that would be lost is named, with the option that permits its loss.
    host.tenant(&["load", "blue", &example(L2)]).unwrap();
    let entry = forward("L2Switch.forward", 9, 1);
    host.controller("1", &["add", &entry]).unwrap();
    let refused = host
        .tenant(&["load", "blue", &example("functions/fw.p4")])
        .unwrap_err();
    assert!(
        refused.contains("1 entry of `L2Switch.forward`"),
        "{refused}"
    );
    assert!(refused.contains("--may-lose"), "{refused}");
    host.stop();
}

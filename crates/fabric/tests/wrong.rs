//! Tests of invalid topologies: each error must have its line and a hint.

mod common;

use fabric::Topology;
use fabric::topology::PlaneSpec;

/// A valid topology. Line 1 is empty, as in all cases.
const NODES: &str = r#"
[[switch]]
name = "s"
program = "router/router.p4"
[[host]]
name = "a"
mac = "02:00:00:00:00:0a"
ip = "10.0.0.1/24"
[[host]]
name = "b"
mac = "02:00:00:00:00:0b"
ip = "10.0.0.2/24"
[[link]]
ends = ["a", "s:1"]
[[link]]
ends = ["b", "s:2"]
"#;

#[test]
fn what_is_wrong_with_a_topology_is_told_with_its_line_and_its_mend() {
    // Replaced text, replacement, line, message, hint.
    let cases = [
        (
            "ends = [\"b\", \"s:2\"]",
            "ends = [\"b\", \"t:2\"]",
            16,
            "there is no switch and no host t",
            "there are a, b, s",
        ),
        (
            "\"s:2\"",
            "\"s:1\"",
            16,
            "s:1 has two links",
            "line 14 has one there already",
        ),
        ("\"s:2\"", "\"a\"", 16, "a has two links", "line 14"),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"",
            17,
            "the nanoPU n has no link",
            "ends = [\"n\", \"SWITCH:PORT\"]",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"\nmemory = \"1 KB\"\n[[link]]\nends = [\"n\", \"s:3\"]",
            20,
            "a memory of 1000 bytes",
            "\"1 MB\" to \"4 GB\"",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"\n[[link]]\nends = [\"n\", \"s:3\"]\n\
             [[requests]]\nfrom = \"a\"\nto = \"n\"\nmessages = 6_000_000\ninterval = \"1 us\"\n\
             [[requests]]\nfrom = \"b\"\nto = \"n\"\nmessages = 6_000_000\ninterval = \"1 us\"",
            27,
            "12000000 messages of all requests are too many",
            "let them be 10000000 at most",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"\ncosts = { switch = 1 }\n[[link]]\nends = [\"n\", \"s:3\"]",
            20,
            "the cost switch has no effect in a topology",
            "the [[switch]] a service",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"\n[[link]]\nends = [\"n\", \"s:3\"]\n[[requests]]\nfrom = \"a\"\nto = \"b\"\nmessages = 1\ninterval = \"1 us\"",
            24,
            "b is no nanoPU",
            "name a [[nanopu]]",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.1.3/24\"\n[[link]]\nends = [\"n\", \"s:3\"]\n[[requests]]\nfrom = \"a\"\nto = \"n\"\nmessages = 1\ninterval = \"1 us\"",
            22,
            "a has no MAC address of GATEWAY",
            "give it a gateway",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[nanopu]]\nname = \"n\"\nip = \"10.0.0.3/24\"\n[[link]]\nends = [\"n\", \"s:3\"]\n[[flow]]\nfrom = \"a\"\nto = \"n\"\nbytes = \"1 MB\"",
            24,
            "n is a nanoPU, which neither sends nor receives",
            "[[requests]] go from a host",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nlink = [\"a\", \"s:2\"]\nat = \"1 ms\"\nloss = 1.0",
            18,
            "there is no link between these ends",
            "as the [[link]] section does",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\npartition = [\"a\", \"s\", \"b\"]\nat = \"1 ms\"",
            17,
            "no link leads from these nodes to others",
            "name the nodes of one side",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\npartition = [\"a\"]\nway = \"up\"\nat = \"1 ms\"",
            17,
            "\"up\" is no way of frames",
            "write \"in\", \"out\" or \"both\"",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nlink = [\"b\", \"s:2\"]\nat = \"1 ms\"",
            17,
            "the fault changes nothing",
            "give it a delay",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nlink = [\"b\", \"s:2\"]\nfrom = \"a\"\nat = \"1 ms\"\nloss = 1.0",
            19,
            "a is no end of this link",
            "the end that sends the frames",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nat = \"1 ms\"",
            17,
            "a fault is of a link or of nodes",
            "`pause = ",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\npause = \"s\"\nloss = 1.0\nat = \"1 ms\"",
            17,
            "a node that pauses has no other fault",
            "give it `at` and `until` alone",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\ncrash = \"s\"\nloss = 1.0\nat = \"1 ms\"",
            17,
            "a node that crashes has no other fault",
            "give it `at`, `until` and `disk` alone",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\ncrash = \"s\"\ndisk = \"full\"\nat = \"1 ms\"",
            17,
            "\"full\" is no state of a disk",
            "write \"kept\" or \"lost\"",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\npause = \"s\"\ndisk = \"lost\"\nat = \"1 ms\"",
            19,
            "only a node that crashes has a disk",
            "take `disk` away",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\ncrash = \"s\"\nat = \"1 ms\"\nuntil = \"3 ms\"\n[[fault]]\npause = \"s\"\nat = \"2 ms\"",
            21,
            "two faults of s overlap in time",
            "let the fault of line 17 end",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nlink = [\"b\", \"s:2\"]\nat = \"1 ms\"\nuntil = \"1 ms\"\nloss = 1.0",
            20,
            "the fault ends before it begins",
            "later than `at`",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[fault]]\nlink = [\"b\", \"s:2\"]\nat = \"1 ms\"\nuntil = \"3 ms\"\nloss = 1.0\n\
             [[fault]]\nlink = [\"s:2\", \"b\"]\nat = \"2 ms\"\ndelay = \"1 ms\"",
            22,
            "two faults of the link b to s:2 overlap in time",
            "let the fault of line 17 end by the begin of this one",
        ),
        (
            "[[link]]\nends = [\"b\", \"s:2\"]\n",
            "",
            9,
            "the host b has no link",
            "ends = [\"b\", \"SWITCH:PORT\"]",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\nrate = \"0 bit/s\"",
            17,
            "a link with rate 0 carries nothing",
            "leave rate away",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\nrate = \"fast\"",
            17,
            "\"fast\" is not understood",
            "as in \"1 Gbit/s\"",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\ndelay = \"10\"",
            17,
            "\"10\" is not understood",
            "as in \"10 us\"",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\nloss = 1.5",
            17,
            "1.5 is no share of frames",
            "from 0 to 1",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\nqueue = 0",
            17,
            "0 is too small",
            "a number from 1 on",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\nspeed = 1",
            17,
            "unknown field `speed`",
            "docs/reference/topology.md",
        ),
        (
            "name = \"b\"",
            "name = \"a\"",
            10,
            "two nodes are called a",
            "line 6 has the name already",
        ),
        (
            "name = \"b\"",
            "name = \"b c\"",
            10,
            "\"b c\" cannot be a name",
            "letters, digits",
        ),
        (
            "[\"b\", \"s:2\"]",
            "[\"s:3\", \"s:2\"]",
            16,
            "the link joins s with itself",
            "name two nodes",
        ),
        (
            "\"s:2\"",
            "\"s\"",
            16,
            "\"s\" does not say which port of s it is",
            "as in \"s:1\"",
        ),
        (
            "\"s:2\"",
            "\"s:x\"",
            16,
            "\"s:x\" does not say which port of s it is",
            "as in \"s:1\"",
        ),
        (
            "[\"b\"",
            "[\"b:1\"",
            16,
            "the host b has a single port",
            "write \"b\"",
        ),
        (
            "program = \"router/router.p4\"\n",
            "",
            2,
            "the switch s has no program",
            "program = \"FILE.p4\"",
        ),
        (
            "02:00:00:00:00:0b",
            "02:00:00:00:00:0a",
            11,
            "b has the MAC address of a",
            "its own",
        ),
        (
            "02:00:00:00:00:0b",
            "03:00:00:00:00:0b",
            11,
            "is no MAC address of a station",
            "the first one even",
        ),
        (
            "10.0.0.2/24",
            "10.0.0.1/24",
            12,
            "b has the address of a",
            "its own",
        ),
        (
            "10.0.0.2/24",
            "10.0.0.2/33",
            12,
            "\"10.0.0.2/33\" is no address of a host",
            "as in \"10.0.1.2/24\"",
        ),
        (
            "10.0.0.2/24\"",
            "10.0.0.2/24\"\ngateway = \"10.0.1.1\"",
            13,
            "the gateway 10.0.1.1 is no other address",
            "in the network",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[flow]]\nfrom = \"a\"\nto = \"a\"\nbytes = \"1 B\"",
            19,
            "a sends to itself",
            "another host",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[flow]]\nfrom = \"a\"\nto = \"s\"\nbytes = \"1 B\"",
            19,
            "s is a switch",
            "name a host",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"0 B\"",
            20,
            "a flow of no bytes",
            "100 MB",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[workload]\nelephants = 4294967295",
            18,
            "flows are more than a host has ports for",
            "55535 together at most",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[workload]\nmice = 55535",
            18,
            "55575 flows are more than a host has ports for",
            "55535 together at most",
        ),
        (
            "\"s:2\"]",
            "\"s:2\"]\n[[command]]\nhost = \"a\"\nrun = []",
            19,
            "there is nothing to run",
            "the program and its arguments",
        ),
        (
            "[[link]]\nends = [\"b\"",
            "[[link]\nends = [\"b\"",
            15,
            "",
            "docs/reference/topology.md",
        ),
    ];
    for (old, new, line, message, mend) in cases {
        assert!(NODES.contains(old), "{old}");
        let text = NODES.replacen(old, new, 1);
        let Err(error) = Topology::read("t.toml", &text, &common::examples()) else {
            panic!("{new} is accepted");
        };
        let told = error.to_string();
        let found = error.mistakes.iter().any(|mistake| {
            mistake.line == line && mistake.message.contains(message) && mistake.mend.contains(mend)
        });
        assert!(
            found,
            "for {new}, line {line}, \"{message}\", \"{mend}\":\n{told}"
        );
        assert!(told.starts_with("t.toml:"), "{told}");
    }
    assert!(Topology::read("t.toml", NODES, &common::examples()).is_ok());
}

/// [`NODES`] with two virtual data planes in its switch. Line 1 is empty here too.
const VPDPS: &str = r#"
[[switch]]
name = "s"
share = { 1 = "rules" }
rules = ["a: port 1 and vlan none -> red"]
[[switch.vpdp]]
name = "red"
ports = ["open", 1, "blue:1"]
program = "functions/l2_sw.p4 -> functions/qos.p4"
[[switch.vpdp]]
name = "blue"
id = 7
ports = [1, "red:2", 2]
program = "router/router.p4"
[[host]]
name = "a"
mac = "02:00:00:00:00:0a"
ip = "10.0.0.1/24"
[[host]]
name = "b"
mac = "02:00:00:00:00:0b"
ip = "10.0.0.2/24"
[[link]]
ends = ["a", "s:1"]
[[link]]
ends = ["b", "s:2"]
"#;

#[test]
fn what_is_wrong_with_virtual_data_planes_is_told_with_its_line_and_its_mend() {
    let cases = [
        (
            "-> red\"",
            "-> green\"",
            5,
            "`green` is not the name or number",
            "NAME: CONDITIONS -> VPDP",
        ),
        (
            "1 = \"rules\"",
            "1 = \"turns\"",
            4,
            "`turns` is not `rules`",
            "docs/reference/port-sharing.md",
        ),
        (
            "{ 1 =",
            "{ one =",
            4,
            "\"one\" is no port of a switch",
            "write its number",
        ),
        (
            "\"blue:1\"",
            "\"green:1\"",
            8,
            "`green:1` is not `open`",
            "\"VPDP:PORT\"",
        ),
        (
            "[1, \"red:2\", 2]",
            "[1, \"red:2\", 9]",
            13,
            "s:9 has no link",
            "add a [[link]]",
        ),
        (
            "id = 7",
            "id = 4096",
            12,
            "4096 is no number",
            "take 1 to 4095",
        ),
        (
            "name = \"red\"",
            "name = \"red\"\nid = 7",
            12,
            "two virtual data planes have the number 7",
            "its own",
        ),
        (
            "name = \"blue\"",
            "name = \"red\"",
            7,
            "two virtual data planes are called red",
            "another name",
        ),
        (
            "name = \"s\"",
            "name = \"s\"\nprogram = \"router/router.p4\"",
            4,
            "s has virtual data planes and a program of its own",
            "[[switch.vpdp]]",
        ),
        (
            "program = \"router/router.p4\"\n",
            "",
            10,
            "missing field `program`",
            "docs/reference/topology.md",
        ),
    ];
    for (old, new, line, message, mend) in cases {
        assert!(VPDPS.contains(old), "{old}");
        let text = VPDPS.replacen(old, new, 1);
        let Err(error) = Topology::read("t.toml", &text, &common::examples()) else {
            panic!("{new} is accepted");
        };
        let found = error.mistakes.iter().any(|mistake| {
            mistake.line == line && mistake.message.contains(message) && mistake.mend.contains(mend)
        });
        assert!(found, "for {new}:\n{error}");
    }
    let topology = Topology::read("t.toml", VPDPS, &common::examples());
    let plane = topology.map(|topology| topology.switches[0].plane.clone());
    let Ok(PlaneSpec::Shared(shared)) = plane else {
        panic!("{plane:?}");
    };
    let ids: Vec<u16> = shared.vpdps.iter().map(|vpdp| vpdp.id.get()).collect();
    assert_eq!(ids, [1, 7]);
    assert_eq!(shared.rules[0].line, 5);
    let nobody = NODES.replace("name = \"s\"", "name = \"s\"\nrules = [\"a: -> 1\"]");
    let error = Topology::read("t.toml", &nobody, &common::examples()).unwrap_err();
    assert!(
        error.to_string().contains("s has no virtual data planes"),
        "{error}"
    );
}

#[test]
fn nothing_at_all_is_no_topology() {
    let error = Topology::read("t.toml", "", &common::examples()).unwrap_err();
    assert!(
        error.to_string().contains("there is no switch and no host"),
        "{error}"
    );
}

#[test]
fn a_switch_that_cannot_be_made_is_named() {
    let topology = common::topology(NODES);
    let made = fabric::Simulation::new(topology, &mut |_| Err("no such program".to_owned()));
    let error = made.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("switch s: no such program"));
}

#[test]
fn a_topology_has_limits_by_name_and_its_mistakes_are_counted() {
    let refused = |text: &str| {
        let error = Topology::read("t.toml", text, &common::examples()).unwrap_err();
        let told = error.to_string();
        assert!(told.len() < 40_000, "{} bytes are said", told.len());
        told
    };
    let hosts = |count: usize, name: &dyn Fn(usize) -> String| -> String {
        let host = |n| {
            let name = name(n);
            format!("[[host]]\nname = \"{name}\"\nmac = \"x\"\nip = \"x\"\n")
        };
        (0..count).map(host).collect()
    };
    let told = refused(&hosts(10_001, &|n| format!("h{n}")));
    let expected = "there are 10001 switches, hosts and nanoPUs; a topology has at most 10000";
    assert!(told.contains(expected), "{told}");
    let told = refused(&hosts(9_000, &|_| "same".to_owned()));
    assert!(told.contains("there are more than 100 mistakes"), "{told}");
    let links = "[[link]]\nends = [\"a\", \"b\"]\n".repeat(100_001);
    assert!(refused(&links).contains("a topology has at most 100000"));
    let workload = "[workload]\nelephants = 10000\n";
    let told = refused(&(hosts(9_000, &|n| format!("h{n}")) + workload));
    assert!(told.contains("100 mistakes"), "{told}");
}

/// Returns the lines and messages of all errors of [`NODES`] with these replacements.
fn mistakes(replaced: &[(&str, &str)]) -> Vec<(usize, String)> {
    let text = replaced.iter().fold(NODES.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    });
    let error = Topology::read("t.toml", &text, &common::examples()).unwrap_err();
    let mistakes = error.mistakes.into_iter();
    mistakes.map(|one| (one.line, one.message)).collect()
}

#[test]
fn only_a_switch_that_hosts_tenants_needs_slots_and_an_address() {
    let with = |line: &str| NODES.replacen("[[host]]", &format!("{line}\n[[host]]"), 1);
    let read = |text: &str| Topology::read("t.toml", text, &common::examples());
    let topology = read(&with("tenants = false")).unwrap();
    assert!(!topology.switches[0].hosts_tenants);
    let refused = read(&with("tenants = true")).unwrap_err().to_string();
    assert!(
        refused.contains("s cannot host reductions beside tenants"),
        "{refused}"
    );
}

#[test]
fn an_unknown_key_hides_no_other_mistake() {
    let found = mistakes(&[
        ("name = \"s\"", "name = \"s\"\ncolour = \"red\""),
        ("ip = \"10.0.0.2/24\"", "ip = \"10.0.0.2/24\"\nspeed = 1"),
        ("[\"b\", \"s:2\"]", "[\"c\", \"s:2\"]"),
    ]);
    let parts = [
        (4, "unknown field `colour`"),
        (14, "unknown field `speed`"),
        (18, "there is no switch and no host c"),
    ];
    for (line, part) in parts {
        let is_found = |(at, message): &(usize, String)| *at == line && message.contains(part);
        assert!(found.iter().any(is_found), "{line} {part}: {found:?}");
    }
}

#[test]
fn a_part_that_is_wrong_hides_no_other_part_that_is_wrong() {
    let found = mistakes(&[
        ("mac = \"02:00:00:00:00:0a\"\n", ""),
        ("ip = \"10.0.0.2/24\"", "ip = 7\nspeed = 1"),
        ("[\"b\", \"s:2\"]", "\"b\""),
    ]);
    let parts = [
        "missing field `mac`",
        "invalid type: integer `7`",
        "invalid type: string \"b\"",
    ];
    for part in parts {
        let is_found = found.iter().any(|(_, message)| message.contains(part));
        assert!(is_found, "{part}: {found:?}");
    }
    // Names defined only in a part with an error are not reported as unknown.
    let is_guess = |(_, message): &(usize, String)| message.contains("there is no");
    assert!(!found.iter().any(is_guess), "{found:?}");
}

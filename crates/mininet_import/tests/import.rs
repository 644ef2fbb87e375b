//! Topologies of the P4 tutorials' and p4-utils' formats: what they become, and what is said about
//! mistakes and keys without effect.

use mininet_import::{MininetNetwork, p4_name, program_of_runtime, read};

fn network(text: &str) -> MininetNetwork {
    read("topology.json", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Checks that a file has one mistake, with this line and these words.
fn check_mistake(text: &str, line: usize, words: &str) {
    let error = read("topology.json", text).expect_err(text);
    let shown = error.to_string();
    assert_eq!(error.mistakes.len(), 1, "{shown}\n{text}");
    assert_eq!(error.mistakes[0].line, line, "{shown}\n{text}");
    assert!(shown.contains(words), "{shown}");
}

const TUTORIAL: &str = r#"{
  "hosts": {
    "h1": { "ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11",
            "commands": ["route add default gw 10.0.1.10 dev eth0",
                         "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00",
                         "ip route add 10.0.1.0/24 dev eth0",
                         "ip route add 10.9.0.0/16 dev eth0"] },
    "h2": { "ip": "10.0.2.2/31", "mac": "08:00:00:00:02:22" }
  },
  "switches": {
    "s1": { "runtime_json": "s1-runtime.json", "cpu_port": "510", "program": "build/a.json" },
    "s2": { "cli_input": "s2.txt", "runtime_json": "s2-runtime.json" }
  },
  "links": [ ["h1", "s1-p1"], ["s1-p3", "s2-p3", "0", 0.5], ["s2-eth1", "h2", 5, 10] ]
}"#;

#[test]
fn a_tutorial_becomes_a_topology_with_the_addresses_of_its_commands() {
    let toml = network(TUTORIAL).to_toml("basic");
    let expected = r#"name = "basic"

[[switch]]
name = "s1"
program = "build/a.json"
entries = "s1-runtime.json"
p4runtime = "127.0.0.1:50051"
device = 0
cpu_port = 510

[[switch]]
name = "s2"
entries = ["s2.txt", "s2-runtime.json"]
p4runtime = "127.0.0.1:50052"
device = 1

[[host]]
name = "h1"
mac = "08:00:00:00:01:11"
ip = "10.0.1.1/24"
gateway = "10.0.1.10"
neighbours = { "10.0.1.10" = "08:00:00:00:01:00" }
setup = ["ip route add 10.9.0.0/16 dev eth0"]

[[host]]
name = "h2"
mac = "08:00:00:00:02:22"
ip = "10.0.2.2/31"

[[link]]
ends = ["h1", "s1:1"]

[[link]]
ends = ["s1:3", "s2:3"]
rate = "500000 bit/s"

[[link]]
ends = ["s2:1", "h2"]
rate = "10000000 bit/s"
delay = "5000000 ns"
"#;
    assert_eq!(toml, expected);
}

#[test]
fn mistakes_of_a_tutorial_are_named_with_their_lines() {
    let with = |old: &str, new: &str| {
        assert!(TUTORIAL.contains(old), "{old}");
        TUTORIAL.replacen(old, new, 1)
    };
    for (text, line, words) in [
        (
            with("\"s1-p1\"", "\"s1\""),
            14,
            "write its port, as in \"s1-p1\"",
        ),
        (with("\"s1-p1\"", "\"s9-p1\""), 14, "no end of a link"),
        (with("\"s1-p1\"]", "\"s1-p1\", \"x\"]"), 14, "no delay"),
        (with("0.5]", "\"fast\"]"), 14, "no rate"),
        (with("10.0.1.1/24", "10.0.1/24"), 3, "no address of a host"),
        (with("08:00:00:00:02:22", "08:00"), 8, "no MAC address"),
        (
            with("\"h2\": {", "\"a name with blanks\": {"),
            8,
            "cannot be a name",
        ),
        (with("\"s2\": {", "\"s2\" {"), 12, "`:` is expected"),
    ] {
        let error = read("topology.json", &text).expect_err(&text);
        let first = &error.mistakes[0];
        assert_eq!(first.line, line, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    for (text, words) in [
        (
            "{\"header_types\": [], \"pipelines\": []}",
            "compiled for BMv2",
        ),
        (
            "{\"target\": \"bmv2\", \"table_entries\": []}",
            "entries of one switch",
        ),
        ("{\"targets\": {}}", "p4lang/p4app"),
        ("{\"nodes\": [], \"links\": []}", "when a network runs"),
        ("{\"a\": 1}", "no topology"),
    ] {
        check_mistake(text, 1, words);
    }
}

/// A file with the options of p4-utils' documentation.
const P4APP: &str = r#"{
  "p4_src": "forwarding.p4", "cli": true, "pcap_dump": true, "enable_log": true,
  "tasks_file": "tasks.txt",
  "topology": {
    "assignment_strategy": "mixed",
    "default": { "bw": 10 },
    "links": [ ["h2", "s1"], ["h1", "s1", {"delay": "20ms", "loss": 1, "max_queue_size": 50,
               "weight": 5}], ["s1", "s2"], ["h10", "s2", {"bw": 2}], ["r1", "s1"] ],
    "hosts": { "h1": {}, "h2": {}, "h10": {} },
    "switches": { "s1": { "cli_input": "s1.txt" },
                  "s2": { "p4_src": "other.p4", "grpc_port": 9560 } },
    "routers": { "r1": { "int_conf": "r1.conf" } }
  }
}"#;

#[test]
fn a_p4app_has_the_ports_and_addresses_that_p4_utils_assigns() {
    let network = network(P4APP);
    let hosts: Vec<String> = network
        .hosts
        .iter()
        .map(|host| {
            let gateway = host.gateway.map(|gateway| gateway.to_string());
            format!(
                "{} {}/{} {} {}",
                host.name,
                host.address,
                host.prefix_len,
                host.mac,
                gateway.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        hosts,
        [
            "h1 10.0.1.1/24 00:00:0a:00:01:01 10.0.1.254",
            "h2 10.0.1.2/24 00:00:0a:00:01:02 10.0.1.254",
            "h10 10.0.2.10/24 00:00:0a:00:02:0a 10.0.2.254",
        ]
    );
    // The gateway, and the other host of the network.
    let neighbours: Vec<String> = network.hosts[0]
        .neighbours
        .iter()
        .map(|(address, mac)| format!("{address} {mac}"))
        .collect();
    assert_eq!(
        neighbours,
        ["10.0.1.254 00:01:0a:00:01:01", "10.0.1.2 00:00:0a:00:01:02"]
    );
    let toml = network.to_toml("app");
    for part in [
        "ends = [\"h1\", \"s1:1\"]\nrate = \"10000000 bit/s\"\ndelay = \"20000000 ns\"\nloss = 0.01\nqueue = 50\n",
        "ends = [\"h2\", \"s1:2\"]\nrate = \"10000000 bit/s\"\n",
        "ends = [\"s1:3\", \"s2:2\"]\n",
        "ends = [\"h10\", \"s2:1\"]\nrate = \"2000000 bit/s\"\n",
        "name = \"s1\"\nprogram = \"forwarding.p4\"\nentries = \"s1.txt\"\np4runtime = \"127.0.0.1:50051\"\ndevice = 1\n",
        "name = \"s2\"\nprogram = \"other.p4\"\np4runtime = \"127.0.0.1:9560\"\ndevice = 2\n",
    ] {
        assert!(toml.contains(part), "{part}\n{toml}");
    }
}

#[test]
fn keys_of_a_p4app_without_effect_are_named_once_each() {
    let warnings = network(P4APP).warnings;
    let named: Vec<&str> = warnings
        .iter()
        .filter_map(|warning| warning.message.split('"').nth(1))
        .collect();
    assert_eq!(
        named,
        ["pcap_dump", "enable_log", "tasks_file", "routers", "weight"]
    );
    assert!(
        warnings
            .iter()
            .all(|warning| warning.line > 1 && !warning.mend.is_empty())
    );
}

#[test]
fn strategies_give_other_addresses() {
    for (strategy, h1, h10) in [
        ("\"l2\"", "10.0.0.1/16", "10.0.0.10/16"),
        ("\"l3\"", "10.1.1.2/24", "10.2.10.2/24"),
        ("\"mixed\"", "10.0.1.1/24", "10.0.2.10/24"),
    ] {
        let network = network(&P4APP.replace("\"mixed\"", strategy));
        let address = |at: usize| {
            let host = &network.hosts[at];
            format!("{}/{}", host.address, host.prefix_len)
        };
        assert_eq!((address(0), address(2)), (h1.to_owned(), h10.to_owned()));
    }
    let plain = P4APP
        .replace("\"assignment_strategy\": \"mixed\",", "")
        .replace(
            "{\"bw\": 2}",
            "{\"params1\": {\"ip\": \"1.7.0.2/24\"}, \"addr1\": \"02:00:00:00:00:07\"}",
        );
    let network = network(&plain);
    let host = &network.hosts[2];
    assert_eq!(host.address.to_string(), "1.7.0.2");
    assert_eq!(host.mac.to_string(), "02:00:00:00:00:07");
    assert_eq!(network.hosts[1].address.to_string(), "10.0.0.2");
}

#[test]
fn a_misspelt_key_has_the_known_one_in_its_warning() {
    for (text, old, new, meant) in [
        (TUTORIAL, "runtime_json", "runtime_jsn", "runtime_json"),
        (TUTORIAL, "commands", "cmds", "commands"),
        (P4APP, "cli_input", "cli_inpt", "cli_input"),
        (P4APP, "\"delay\"", "\"dealy\"", "delay"),
        (P4APP, "default", "defalt", "default"),
    ] {
        let network = network(&text.replacen(old, new, 1));
        let new = new.trim_matches('"');
        let mut warnings = network.warnings.iter();
        let warning = warnings.find(|warning| warning.message.contains(new));
        let warning = warning.unwrap_or_else(|| panic!("{new}: {:?}", network.warnings));
        let words = format!("did you mean \"{meant}\"? ");
        assert!(warning.mend.starts_with(&words), "{}", warning.mend);
    }
    let other = network(&TUTORIAL.replacen("commands", "colour", 1)).warnings;
    assert!(!other[0].mend.contains("did you mean"), "{}", other[0].mend);
}

#[test]
fn switches_are_numbered_in_natural_order_of_their_names() {
    let tutorial = r#"{ "hosts": {}, "links": [], "switches": {
        "s10": {}, "s2": {}, "s1": {}, "s02": {} } }"#;
    let app = r#"{ "topology": { "links": [], "switches": {
        "s10": {}, "s2": {}, "s1": {}, "s02": {} } } }"#;
    for (text, first) in [(tutorial, 0), (app, 1)] {
        let network = network(text);
        let numbers = network.switches.iter().map(|switch| {
            let port = switch.p4runtime.rsplit_once(':');
            (
                switch.name.as_str(),
                switch.device - first,
                port.map_or("", |(_, port)| port),
            )
        });
        let numbers: Vec<_> = numbers.collect();
        let expected = [
            ("s10", 3, "50054"),
            ("s2", 2, "50053"),
            ("s1", 0, "50051"),
            ("s02", 1, "50052"),
        ];
        assert_eq!(numbers, expected);
    }
}

#[test]
fn hosts_with_other_zeros_in_their_names_are_other_hosts() {
    let text = r#"{ "topology": { "links": [["h1", "s1"], ["h01", "s1"]],
        "hosts": { "h1": {}, "h01": {} }, "switches": { "s1": {} } } }"#;
    let network = network(text);
    let hosts = network.hosts.iter();
    let hosts: Vec<_> = hosts
        .map(|host| (&host.name[..], host.address.octets()[3]))
        .collect();
    assert_eq!(hosts, [("h01", 1), ("h1", 2)]);
    let mixed = text.replacen(
        "\"links\"",
        "\"assignment_strategy\": \"mixed\", \"links\"",
        1,
    );
    check_mistake(&mixed, 2, "has the address of another host");
}

#[test]
fn a_second_link_of_a_port_is_named_with_its_line() {
    let links = "[\"h1\", \"s1-p1\"],";
    for (more, words) in [
        ("[\"s1-p1\", \"s2-p7\"],", "port 1 of s1 has several links"),
        (
            "[\"s2-p8\", \"s1-eth3\"],",
            "port 3 of s1 has several links",
        ),
        ("[\"h2\", \"s1-p8\"],", "the host h2 has several links"),
    ] {
        let text = TUTORIAL.replacen(links, &format!("{links}\n{more}"), 1);
        let error = read("topology.json", &text).expect_err(&text);
        assert_eq!(error.mistakes[0].line, 15, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let ports = "{\"port1\": 4}";
    let twice = P4APP.replacen("[\"s1\", \"s2\"]", &format!("[\"s1\", \"s2\", {ports}]"), 1);
    let twice = twice.replacen(
        "[\"r1\"",
        &format!("[\"s1\", \"s2\", {ports}],\n[\"r1\""),
        1,
    );
    check_mistake(&twice, 8, "port 4 of s1 has several links");
}

#[test]
fn mistakes_of_a_p4app_are_named_with_their_lines() {
    for (old, new, line, words) in [
        ("\"mixed\"", "\"l4\"", 5, "no such strategy"),
        (
            "[\"h2\", \"s1\"]",
            "[\"h3\", \"s1\"]",
            7,
            "no host and no switch",
        ),
        ("\"loss\": 1", "\"loss\": 101", 7, "no loss"),
        ("\"cli\": true", "\"cli\": 7", 2, "true or false"),
        ("[\"s1\", \"s2\"]", "[\"h2\", \"s2\"]", 9, "several links"),
    ] {
        assert!(P4APP.contains(old), "{old}");
        check_mistake(&P4APP.replacen(old, new, 1), line, words);
    }
}

#[test]
fn compiled_programs_name_their_p4_text() {
    assert_eq!(p4_name("build/basic.json"), "basic.p4");
    assert_eq!(p4_name("solution/basic.p4"), "solution/basic.p4");
    let runtime = "{\"target\": \"bmv2\", \"bmv2_json\": \"build/basic.json\"}";
    assert_eq!(
        program_of_runtime(runtime).as_deref(),
        Some("build/basic.json")
    );
    assert_eq!(program_of_runtime("table_add t a 1 =>"), None);
}

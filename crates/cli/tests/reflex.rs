//! `polyplane reflex`: the shipped loop in its fabric, its capture replayed, and wrong files.

mod lab;

use lab::{Directory, said};

const LOOPS: &str = "reflex/slow_link/loops.toml";
const FABRIC: &str = "reflex/slow_link/fabric.toml";

#[test]
fn a_replay_of_the_captured_reports_gives_the_decisions_of_the_run() {
    let dir = Directory::new("reflex-replay");
    let (loops, fabric) = (lab::example(LOOPS), lab::example(FABRIC));
    let input = format!("collector={}", dir.file("reports.pcap"));
    let run = said(&[
        "reflex",
        "run",
        &loops,
        "--fabric",
        &fabric,
        "--capture",
        &input,
        "--json",
    ]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    let replay = said(&["reflex", "replay", &loops, "--in", &input, "--json"]);
    assert_eq!(replay.status, Some(0), "{}", replay.err);
    let (run, replay) = (run.json(), replay.json());
    let made = run["decisions"].as_array().expect("a list").iter();
    assert_eq!(made.filter(|it| it["port"] == 4).count(), 64);
    assert_eq!(run["decisions"], replay["decisions"]);
    assert_eq!(run["monitors"], replay["monitors"]);
    assert_eq!(run["elements"][0]["applied"], 64);
    let counts = &run["counts"];
    assert_eq!(counts["received"], 20_000);
    assert_eq!(counts["accepted"], counts["received"]);
    assert_eq!(counts["lost"], 0);
    let text = said(&["reflex", "replay", &loops, "--in", &input]);
    assert!(
        text.out.contains("detour: port 4, committed at once"),
        "{}",
        text.out
    );
    assert!(text.out.contains("64 changes"), "{}", text.out);
}

#[test]
fn all_mistakes_of_a_loop_file_are_named_with_their_lines() {
    let dir = Directory::new("reflex-wrong");
    let file = dir.with(
        "loops.toml",
        "[[element]]\nname = \"leaf1\"\ndelay = \"5\"\n\
         [[source]]\nlisten = \"collector\"\nfrom = []\n\
         [[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"colour red\"]\n\
         reflex = \"detours\"\n\
         [[reflex]]\nname = \"detour\"\nelement = \"leaf2\"\ntable = \"t\"\nkey = [\"ip.ttl\"]\n\
         action = \"via\"\nports = [3]\nrate = \"many\"\n",
    );
    let check = said(&["reflex", "check", &file]);
    assert_eq!(check.status, Some(1));
    for (line, message) in [
        (3, "\"5\" is no delay of commands"),
        (5, "\"collector\" is no place that reports come from"),
        (6, "no node may send reports"),
        (9, "the monitor has no threshold"),
        (10, "\"colour\" is no fact of a report"),
        (11, "there is no reflex \"detours\""),
        (14, "there is no element \"leaf2\""),
        (16, "\"ip.ttl\" is no field of a flow"),
        (18, "a detour needs two ports, each once"),
        (19, "\"many\" is no rate of changes"),
    ] {
        let expected = format!("loops.toml:{line}: error: {message}");
        assert!(check.err.contains(&expected), "{expected}\n{}", check.err);
    }
}

#[test]
fn the_shipped_file_is_explained() {
    let check = said(&["reflex", "check", &lab::example(LOOPS)]);
    assert_eq!(check.status, Some(0), "{}", check.err);
    for part in [
        "source at collector",
        "monitor slow paths",
        "reflex detour",
        "store of a, b, c",
    ] {
        assert!(check.out.contains(part), "{}", check.out);
    }
}

#[test]
fn a_store_that_tolerates_no_loss_has_a_note() {
    let dir = Directory::new("reflex-nodes");
    let text = std::fs::read_to_string(lab::example(LOOPS)).unwrap();
    for (nodes, has_note) in [
        ("\"a\"", true),
        ("\"a\", \"b\"", true),
        ("\"a\", \"b\", \"c\"", false),
    ] {
        let text = text.replace(
            "nodes = [\"a\", \"b\", \"c\"]",
            &format!("nodes = [{nodes}]"),
        );
        let file = dir.with("loops.toml", text);
        let check = said(&["reflex", "check", &file]);
        assert_eq!(check.status, Some(0), "{}", check.err);
        let note = "tolerates the loss of none";
        assert_eq!(check.out.contains(note), has_note, "{}", check.out);
    }
}

#[test]
fn a_table_that_the_switch_lacks_is_named() {
    let dir = Directory::new("reflex-table");
    let text = std::fs::read_to_string(lab::example(LOOPS)).unwrap();
    let file = dir.with(
        "loops.toml",
        text.replace("IntIngress.detour", "IntIngress.detours"),
    );
    let run = said(&["reflex", "run", &file, "--fabric", &lab::example(FABRIC)]);
    assert_eq!(run.status, Some(1));
    assert!(
        run.err.contains("has no table IntIngress.detours"),
        "{}",
        run.err
    );
    assert!(run.err.contains("; there are IntIngress."), "{}", run.err);
}

#[test]
fn decisions_of_each_kind_are_shown_in_words_and_as_json() {
    let parts = [
        ("spreader", "33 peers, limit 32", "\"peers\":33"),
        ("routing_loop", "node 1 twice", "\"revisited\":1"),
        ("rate_limit", "limit 400 Mbit/s", "\"rate_limit\":50000000"),
        ("tuning", "objective 200 us", "\"objective\":200000"),
        ("p4_burst", "101, limit 100", "\"measured\":101"),
    ];
    for (name, words, key) in parts {
        let loops = lab::example(&format!("reflex/{name}/loops.toml"));
        let fabric = lab::example(&format!("reflex/{name}/fabric.toml"));
        let check = said(&["reflex", "check", &loops]);
        assert_eq!(check.status, Some(0), "{}", check.err);
        let run = said(&["reflex", "run", &loops, "--fabric", &fabric]);
        assert_eq!(run.status, Some(0), "{}", run.err);
        assert!(run.out.contains(words), "{}", run.out);
        let run = said(&["reflex", "run", &loops, "--fabric", &fabric, "--json"]);
        let json = run.json();
        let first = &json["decisions"][0];
        let text = first.to_string();
        assert!(text.contains(key), "{text}");
        assert!(first["answered"].is_u64(), "{text}");
    }
}

#[test]
fn a_program_of_a_monitor_that_is_wrong_is_named_with_its_line_and_its_macros() {
    let dir = Directory::new("reflex-program");
    let text = std::fs::read_to_string(lab::example("reflex/p4_burst/loops.toml")).unwrap();
    let program = std::fs::read_to_string(lab::example("reflex/p4_burst/burst.p4")).unwrap();
    let entries = std::fs::read_to_string(lab::example("reflex/p4_burst/burst.entries")).unwrap();
    let file = dir.with("loops.toml", text);
    dir.with("burst.entries", &entries);
    dir.with(
        "burst.p4",
        program.replace("FIRST_REFLEX_ON_PATH", "REFLEX_BLOCK_5"),
    );
    let check = said(&["reflex", "check", &file]);
    assert_eq!(check.status, Some(1));
    for part in [
        "REFLEX_BLOCK_5",
        "loops.toml:40: error: monitor \"bursts\"",
        "macros of its permissions: REFLEX_BLOCK_1=0, REFLEX_BLOCK_2=1",
    ] {
        assert!(check.err.contains(part), "{part}\n{}", check.err);
    }
    dir.with("burst.p4", &program);
    dir.with("burst.entries", entries.replace("limits", "limit_of"));
    let check = said(&["reflex", "check", &file]);
    assert_eq!(check.status, Some(1));
    assert!(check.err.contains("limit_of"), "{}", check.err);
    dir.with("burst.entries", &entries);
    let check = said(&["reflex", "check", &file]);
    assert_eq!(check.status, Some(0), "{}", check.err);
    let expected = "monitor bursts: what the P4 program burst.p4 with burst.entries finds";
    assert!(check.out.contains(expected), "{}", check.out);
}

#[test]
fn packets_that_a_program_got_give_its_commands_again() {
    let dir = Directory::new("reflex-packets");
    let loops = lab::example("reflex/p4_burst/loops.toml");
    let fabric = lab::example("reflex/p4_burst/fabric.toml");
    let reports = format!("collector={}", dir.file("reports.pcap"));
    let run = said(&[
        "reflex",
        "run",
        &loops,
        "--fabric",
        &fabric,
        "--capture",
        &reports,
        "--json",
    ]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    let run = run.json();
    let packets = dir.file("packets.pcap");
    // On the other engine.
    let replay = said(&[
        "reflex",
        "replay",
        &loops,
        "--in",
        &reports,
        "--packets",
        &format!("bursts={packets}"),
        "--engine",
        "interp",
        "--json",
    ]);
    assert_eq!(replay.status, Some(0), "{}", replay.err);
    let replay = replay.json();
    assert_eq!(run["decisions"], replay["decisions"]);
    assert_eq!(run["monitors"], replay["monitors"]);
    let program = lab::example("reflex/p4_burst/burst.p4");
    let entries = lab::example("reflex/p4_burst/burst.entries");
    let again = said(&[
        "replay",
        &program,
        "--entries",
        &entries,
        "--in",
        &format!("0={packets}"),
        "--out-dir",
        &dir.file("commands"),
        "--json",
    ]);
    assert_eq!(again.status, Some(0), "{}", again.err);
    let alarms = &run["monitors"][0]["alarms"];
    assert!(alarms.as_u64() > Some(0));
    let sent = again.json();
    assert_eq!(&sent["sent"]["packets"], alarms, "{sent}");
    let wrong = said(&[
        "reflex",
        "replay",
        &loops,
        "--in",
        &reports,
        "--packets",
        "burst=x.pcap",
    ]);
    assert!(wrong.err.contains("name one of: bursts"), "{}", wrong.err);
}

#[test]
fn drops_that_switches_report_reach_monitors_by_their_reason() {
    let loops = lab::example("reflex/drops/loops.toml");
    let fabric = lab::example("reflex/drops/fabric.toml");
    let run = said(&["reflex", "run", &loops, "--fabric", &fabric, "--json"]);
    let json = run.json();
    let decisions = json["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 5, "{}", run.out);
    for decision in decisions {
        // The report has what the nodes of the loop measured.
        assert_eq!(decision["revisited"], 1);
        let flow = decision["flow"].as_str().unwrap();
        assert!(flow.contains("> 10.0.3.1:"), "{flow}");
    }
    let monitors = &json["monitors"];
    assert_eq!(monitors[0]["reports"], 5);
    // Of 250 packets at twice the rate of the link about 90 are dropped.
    let dropped = monitors[1]["reports"].as_u64().unwrap();
    assert!((80..=100).contains(&dropped), "{dropped}");
    assert_eq!(monitors[1]["no_path"], dropped);
    assert_eq!(json["counts"]["malformed"], 0);
}

#[test]
fn members_at_hosts_of_a_fabric_have_a_report_each() {
    let loops = lab::example("reflex/members/loops.toml");
    let fabric = lab::example("reflex/members/fabric.toml");
    let run = said(&["reflex", "run", &loops, "--fabric", &fabric, "--json"]).json();
    let members = run["members"].as_array().expect("a list");
    let names: Vec<(&str, &str)> = members
        .iter()
        .map(|it| (it["member"].as_str().unwrap(), it["host"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("a", "collector"), ("b", "m2"), ("d", "m3")]);
    let first = &members[0]["report"];
    assert_eq!(first["decisions"].as_array().map(Vec::len), Some(64));
    // The switch was loaded again, and got the entries of all flows twice.
    assert_eq!(first["elements"][0]["applied"], 128);
}

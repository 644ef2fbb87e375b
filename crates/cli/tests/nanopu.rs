//! Tests of `polyplane nanopu`: what runs and traces print, and what is refused.

use std::process::{Command, Output};

const LOOPBACK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/nanopu/loopback.elf"
);

fn nanopu(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyplane"));
    command.arg("nanopu").args(arguments);
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn a_run_prints_the_costs_that_were_set_and_no_others() {
    let output = nanopu(&["run", LOOPBACK, "--messages", "1"]);
    let plain = text(&output.stdout);
    assert!(
        plain.starts_with("model: 1 message sent, 1 answer\n"),
        "{plain}"
    );
    assert!(!plain.contains("cost set"), "{plain}");
    assert!(plain.contains("`polyplane nanopu costs`"), "{plain}");
    let output = nanopu(&["run", LOOPBACK, "--cost", "switch=1000"]);
    let set = text(&output.stdout);
    assert!(set.contains("\nswitch    1000"), "{set}");
    assert!(!set.contains("dram"), "{set}");
}

const STAR: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/nanopu/star.toml"
);

#[test]
fn a_program_runs_in_a_topology_with_its_switch_and_prints_costs_that_were_set() {
    let output = nanopu(&["run", LOOPBACK, "--topo", STAR, "--cost", "ingress=48000"]);
    let plain = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("nothing is sent"));
    for from in ["h1", "h2"] {
        let line = format!("model: requests {from} to n1: 1000 sent, 1000 answers\n");
        assert!(plain.contains(&line), "{plain}");
    }
    assert!(plain.contains("\nnanoPU n1\n"), "{plain}");
    assert!(plain.contains("\ningress   48000"), "{plain}");
    let json = nanopu(&["run", LOOPBACK, "--topo", STAR, "--json"]);
    let json = text(&json.stdout);
    assert!(json.contains("\"kind\": \"model\""), "{json}");
    assert!(json.contains("\"answered\": 1000"), "{json}");
    assert_eq!(text(&output.stderr), "");
    // Of links and switches the topology has the costs.
    let output = nanopu(&["run", LOOPBACK, "--topo", STAR, "--cost", "link=1000"]);
    let warning = text(&output.stderr);
    assert!(warning.contains("link=1000 has no effect"), "{warning}");
    // What the topology says cannot be said again.
    let output = nanopu(&["run", LOOPBACK, "--topo", STAR, "--messages", "2"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn payloads_take_turns() {
    let detector = LOOPBACK.replace("loopback", "path_latency");
    let normal = "000000000000004d00000000000001f4";
    let late = "000000000000004d0000000000001388";
    let mut arguments = vec!["run", &detector[..]];
    for payload in [normal; 11].into_iter().chain([late]) {
        arguments.extend(["--payload", payload]);
    }
    arguments.extend(["--messages", "12", "--json"]);
    let output = nanopu(&arguments);
    let json = text(&output.stdout);
    assert!(json.contains("\"sent\": 12"), "{json}");
    // A command goes to another context than an answer: it is sent and acknowledged.
    assert!(json.contains("\"messages_sent\": 1,"), "{json}");
    let output = nanopu(&["trace", LOOPBACK, "--payload", normal, "--payload", late]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("give --payload once"));
}

#[test]
fn a_run_without_answers_has_a_hint() {
    let output = nanopu(&["run", LOOPBACK, "--context", "7", "--messages", "2"]);
    assert!(output.status.success());
    let note = text(&output.stderr);
    assert!(note.starts_with("hint: no message is answered"), "{note}");
}

#[test]
fn a_load_of_more_than_a_day_is_refused() {
    let arguments = ["--messages", "1000000", "--interval-ns", "1000000000"];
    let output = nanopu(&[&["run", LOOPBACK], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("more than a day"));
    let output = nanopu(&["run", LOOPBACK, "--interval-ns", "1000000001"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_trace_has_assembly_and_outputs_in_order_of_time_and_ends_with_the_message() {
    let arguments = ["trace", LOOPBACK, "--payload", "0000000000000029"];
    let output = nanopu(&arguments);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let cycle = |line: &&str| line.split_whitespace().next().unwrap().parse::<u64>();
    let cycles: Vec<u64> = lines.iter().map(|line| cycle(line).unwrap()).collect();
    assert!(cycles.is_sorted(), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains(" mv netTX, a4")),
        "{lines:?}"
    );
    let message = "message from context 0 to 10.0.0.2, context 0: 000000000000002a";
    assert!(
        lines.iter().any(|line| line.ends_with(message)),
        "{lines:?}"
    );
    let last = lines.last().unwrap();
    assert!(last.ends_with("done with a message of context 0"), "{last}");
    let longer = nanopu(&[&arguments[..], &["--cycles", "1000"]].concat());
    assert!(text(&longer.stdout).lines().count() > lines.len());
    let json = nanopu(&[&arguments[..], &["--json"]].concat());
    let json = text(&json.stdout);
    assert!(json.contains("\"payload\": \"000000000000002a\""), "{json}");
    assert!(json.contains("\"kind\": \"done\""), "{json}");
}

const CLASSIFIER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/nanopu/classifier.elf"
);

/// Two rules over all of their keys, and one over the second one's.
const RULES: &str = "# the first that matches wins\n\
    @10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 88\t0x06/0xFF\t0x0000/0x0000\n\
    @0.0.0.0/0\t192.0.2.7/32\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n\
    @10.1.0.0/16\t192.0.2.7/32\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n";

#[test]
fn a_rule_file_becomes_an_image_by_which_the_program_classifies() {
    let folder = std::env::temp_dir().join(format!("polyplane-rules-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rules = folder.join("rules.txt");
    let image = folder.join("rules.image");
    std::fs::write(&rules, RULES).unwrap();
    let (rules_path, image_path) = (rules.to_str().unwrap(), image.to_str().unwrap());
    let output = nanopu(&["image", "--rules", rules_path, "--out", image_path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let note = text(&output.stderr);
    assert!(note.contains("3 rules"), "{note}");
    let answer = |key: [u64; 5]| {
        let payload: String = key.iter().map(|limb| format!("{limb:016x}")).collect();
        let arguments = [
            "trace",
            CLASSIFIER,
            "--data",
            image_path,
            "--payload",
            &payload,
            "--json",
            "--cycles",
            "13300",
        ];
        let output = nanopu(&arguments);
        let trace: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut sent = trace.as_array().unwrap().iter();
        let message = sent.find(|row| row["kind"] == "message").unwrap();
        message["payload"].as_str().unwrap().to_owned()
    };
    let of_rule = |number: u64| format!("{number:016x}");
    let (ten, host) = (0x0a01_0203, 0xc000_0207);
    assert_eq!(answer([ten, host, 9, 80, 6]), of_rule(0));
    assert_eq!(answer([ten, host, 9, 80, 17]), of_rule(1));
    assert_eq!(answer([ten, host + 1, 9, 80, 17]), of_rule(u64::MAX));
    std::fs::write(&rules, format!("{RULES}10.0.0.0/8 x\n")).unwrap();
    let refused = nanopu(&["image", "--rules", rules_path, "--out", image_path]);
    assert_eq!(refused.status.code(), Some(1));
    let message = text(&refused.stderr);
    assert!(
        message.contains("line 5: `x` is no destination prefix"),
        "{message}"
    );
    // Generated rules are more than a memory of 1 MiB has room for.
    let large = [
        "image", "--kind", "acl", "--count", "13300", "--out", image_path, "--keys", "2",
    ];
    let output = nanopu(&large);
    assert_eq!(text(&output.stdout).lines().count(), 2);
    let small = nanopu(&["run", CLASSIFIER, "--data", image_path, "--memory-mib", "1"]);
    assert_eq!(small.status.code(), Some(1));
    let message = text(&small.stderr);
    assert!(message.contains("rules.image: data of "), "{message}");
    assert!(message.contains("give the device more memory"), "{message}");
    std::fs::remove_dir_all(&folder).unwrap();
}

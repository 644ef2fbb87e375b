//! `polyplane aggregate` on the shipped example.

mod lab;

use std::path::Path;
use std::process::{Command, Output};

use lab::{Directory, Said, said, without_rights};

fn aggregate(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyplane"));
    let command = command.arg("aggregate").args(words).current_dir(root);
    command.output().expect("the command can be started")
}

const JOB: &str = "examples/aggregate/words.job";
const FABRIC: &str = "examples/aggregate/rack.toml";

/// Runs the example and returns the outcome as JSON.
fn run(scheme: &str) -> serde_json::Value {
    let words = [
        "run", JOB, "--fabric", FABRIC, "--verify", "--json", "--scheme", scheme,
    ];
    let output = aggregate(&words);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("the outcome is JSON")
}

#[test]
fn the_shipped_job_is_exact_and_saves_bytes_on_the_reducers_link() {
    let reduced = &run("p4com")[0];
    let direct = &run("direct")[0];
    assert_eq!(reduced["is_verified"], true);
    assert_eq!(direct["is_verified"], true);
    assert_eq!(reduced["result"], direct["result"]);
    assert_eq!(direct["absorbed"], 0);
    let bytes = |outcome: &serde_json::Value| outcome["reducer_link_bytes"].as_u64();
    assert!(bytes(reduced) < bytes(direct), "{reduced} {direct}");
}

#[test]
fn a_plan_is_shown_as_text_and_as_a_picture() {
    let dir = Directory::new("aggregate-plan");
    let file = dir.file("plan.svg");
    let job = lab::example("aggregate/words.job");
    let fabric = lab::example("aggregate/rack.toml");
    let plan = said(&[
        "aggregate",
        "plan",
        &job,
        "--fabric",
        &fabric,
        "--svg",
        &file,
    ]);
    assert_eq!(plan.status, Some(0), "{}", plan.err);
    let out = &plan.out;
    assert!(
        out.contains("no other switch could be in its place"),
        "{out}"
    );
    assert!(out.contains("memory of tor: 4000 of "), "{out}");
    let svg = std::fs::read_to_string(file).unwrap();
    for text in [
        "maps total",
        "reduces total",
        "4000 slots",
        "prefers-color-scheme",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let dir = dir.file("out");
    let words = [
        "aggregate",
        "compile",
        &job,
        "--fabric",
        &fabric,
        "--out",
        &dir,
    ];
    assert_eq!(said(&words).status, Some(0));
    let compiled = std::fs::read_to_string(Path::new(&dir).join("plan.svg")).unwrap();
    assert_eq!(compiled, svg);
}

#[test]
fn vectors_are_verified_when_simulated_and_written_to_files() {
    let dir = Directory::new("aggregate-vectors");
    let job = vectors(&dir);
    let run = ["run", &job, "--fabric", FABRIC, "--json"];
    for scheme in ["p4com", "direct"] {
        let out = dir.file(scheme);
        let more = ["--verify", "--scheme", scheme, "--out", &out];
        let output = aggregate(&[&run[..], &more].concat());
        assert!(output.status.success(), "{output:?}");
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        has_vectors(&outcome);
        has_files(&out);
    }
    let output = aggregate(&[&run[..], &["--scheme", "paper"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("sum: the scheme `paper`"), "{error}");
    let words = ["run", &job, "--fabric", FABRIC, "--out", &job];
    let output = aggregate(&words);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot make the directory"), "{error}");
    // A file that cannot be written loses no outcome.
    let out = dir.file("taken");
    std::fs::create_dir_all(Path::new(&out).join("sum.bin")).unwrap();
    let output = aggregate(&[&run[..], &["--verify", "--out", &out]].concat());
    assert_eq!(output.status.code(), Some(1));
    has_vectors(&serde_json::from_slice(&output.stdout).unwrap());
}

/// Checks the outcomes of [`vectors`].
fn has_vectors(outcomes: &serde_json::Value) {
    for outcome in outcomes.as_array().unwrap() {
        assert_eq!(outcome["is_verified"], true, "{outcome}");
        assert_eq!(outcome["is_complete"], true);
    }
    assert_eq!(outcomes[0]["vector"]["values"], 1000);
    assert_eq!(outcomes[0]["receivers"], 3);
    assert_eq!(outcomes[1]["vector"]["values"], 3);
}

/// Checks the files of [`vectors`].
fn has_files(directory: &str) {
    let file = |name: &str| std::fs::read(Path::new(directory).join(name)).unwrap();
    let floats = file("sum.bin");
    let (floats, rest) = floats.as_chunks::<4>();
    assert!(rest.is_empty());
    for (lane, value) in floats.iter().enumerate() {
        let (value, expected) = (f32::from_le_bytes(*value), lane as f32 * -0.6);
        assert!((value - expected).abs() < 0.01, "{lane}: {value}");
    }
    assert_eq!(floats.len(), 1000);
    let wide = [i64::from(i32::MAX) * 2, -2, 0];
    assert_eq!(file("wide.bin"), wide.map(i64::to_le_bytes).concat());
    assert_eq!(file("most.tsv"), b"a b\t7\nc\t-2\n");
}

/// Writes a job with vectors of floats, which all mappers get, of integers, and with pairs.
fn vectors(dir: &Directory) -> String {
    let mut text = String::new();
    for mapper in 0..3u8 {
        let values = (0..1000u16).map(|lane| f32::from(lane) * f32::from(mapper + 1) * -0.1);
        let part: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let path = dir.file(&format!("g{mapper}.bin"));
        std::fs::write(path, part).unwrap();
        text += &format!(
            "data d{mapper} = 10.0.1.1{}:g{mapper}.bin\nmap m{mapper} = gradients(d{mapper})\n",
            mapper + 1
        );
    }
    dir.with("i.bin", [i32::MAX, -1, 0].map(i32::to_le_bytes).concat());
    dir.with("p.txt", "a b\t7\nc\t-2\n");
    text += "data i0 = 10.0.1.11:i.bin\nmap g0 = gradients(i0)\n\
             data i1 = 10.0.1.12:i.bin\nmap g1 = gradients(i1)\n\
             data p = 10.0.1.13:p.txt\nmap p0 = pairs(p)\n\
             reduce sum = add(m0, m1, m2) at 10.0.9.2 keys none values f32 memory 3 to all\n\
             reduce wide = add(g0, g1) at 10.0.9.2 keys none values i32 memory 3\n\
             reduce most = max(p0) at 10.0.9.2 memory 9\n";
    dir.with("vectors.job", text)
}

#[test]
fn a_host_that_is_not_in_the_topology_is_named() {
    let output = aggregate(&[
        "plan",
        JOB,
        "--fabric",
        "examples/fabric/leaf_spine/leaf_spine.toml",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("part0: 10.0.1.11 is no host of the topology"),
        "{error}"
    );
}

/// Writes the topology of the example with other host names, since tests share the machine, and
/// with these faults on all links.
fn renamed(dir: &Directory, prefix: &str, faults: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(FABRIC)).unwrap();
    let text = text.replace("loss = 0.01", faults);
    let text = text.replace("\"w", &format!("\"{prefix}w"));
    dir.with(
        "rack.toml",
        text.replace("\"r\"", &format!("\"{prefix}r\"")),
    )
}

/// Returns true if this machine does not allow network namespaces. Prints the reason.
fn is_skipped(said: &Said) -> bool {
    let is_skipped = said.err.contains("network namespace") && said.status == Some(1);
    if is_skipped {
        println!("skipped: {}", said.err.trim_end());
    }
    is_skipped
}

#[test]
fn a_job_between_hosts_is_exact_where_links_lose_and_repeat_frames() {
    let dir = Directory::new("aggregate-real");
    let faults = "loss = 0.01\nduplicate = 0.01\nreorder = 0.02\ncorrupt = 0.005";
    let file = renamed(&dir, "aa", faults);
    let job = lab::example("aggregate/words.job");
    let run = |scheme: &str| {
        said(&[
            "aggregate",
            "run",
            &job,
            "--fabric",
            &file,
            "--real",
            "--verify",
            "--json",
            "--scheme",
            scheme,
        ])
    };
    let reduced = run("p4com");
    if is_skipped(&reduced) {
        return;
    }
    assert_eq!(reduced.status, Some(0), "{}\n{}", reduced.err, reduced.out);
    let direct = run("direct");
    assert_eq!(direct.status, Some(0), "{}\n{}", direct.err, direct.out);
    let tcp = run("tcp");
    assert_eq!(tcp.status, Some(0), "{}\n{}", tcp.err, tcp.out);
    let [reduced, direct, tcp] = [reduced, direct, tcp].map(|said| said.json()[0].clone());
    assert_eq!(reduced["is_verified"], true);
    for unreduced in [&direct, &tcp] {
        assert_eq!(unreduced["is_verified"], true);
        assert_eq!(unreduced["result"], reduced["result"]);
        assert_eq!(unreduced["absorbed"], 0);
    }
    assert!(reduced["absorbed"].as_u64() > Some(0), "{reduced}");
    // Each pair that no switch reduces crosses the last link. How much reduction saves is compared
    // in simulated time: on a loaded machine, hosts that time out repeat messages.
    let bytes = |outcome: &serde_json::Value| outcome["reducer_link_bytes"].as_u64();
    let least = reduced["pairs"].as_u64().map(|pairs| pairs * 9);
    assert!(bytes(&reduced) > Some(0), "{reduced}");
    assert!(bytes(&direct) > least, "{direct}");
    assert!(bytes(&tcp) > least, "{tcp}");
    assert!(!Path::new("/run/netns/aar").exists());
    let simulated = said(&[
        "aggregate",
        "run",
        &job,
        "--fabric",
        &file,
        "--scheme",
        "tcp",
    ]);
    assert_eq!(simulated.status, Some(1));
    assert!(simulated.err.contains("give --real"), "{}", simulated.err);
}

#[test]
fn vectors_between_hosts_are_those_of_the_simulation() {
    let dir = Directory::new("aggregate-real-vectors");
    let faults = "loss = 0.01\nduplicate = 0.01\nreorder = 0.02\ncorrupt = 0.005";
    let file = renamed(&dir, "af", faults);
    let (job, simulated) = (vectors(&dir), dir.file("simulated"));
    let words = [
        "aggregate",
        "run",
        &job,
        "--fabric",
        &file,
        "--json",
        "--verify",
        "--out",
    ];
    let run = said(&[&words[..], &[&simulated]].concat());
    assert_eq!(run.status, Some(0), "{}\n{}", run.err, run.out);
    for scheme in ["p4com", "direct"] {
        let out = dir.file(scheme);
        let real = said(&[&words[..], &[&out, "--real", "--scheme", scheme]].concat());
        if is_skipped(&real) {
            return;
        }
        assert_eq!(real.status, Some(0), "{}\n{}", real.err, real.out);
        has_vectors(&real.json());
        has_files(&out);
        for name in ["sum.bin", "wide.bin", "most.tsv"] {
            let read = |out: &str| std::fs::read(Path::new(out).join(name)).unwrap();
            assert_eq!(read(&out), read(&simulated), "{name}");
        }
        let absorbed = real.json()[0]["absorbed"].as_u64();
        assert_eq!(absorbed > Some(0), scheme == "p4com");
    }
}

/// Writes a topology of two leaves and two spines with faults on all links, and a job over both
/// tiers: pairs, and a vector of floats that all mappers get.
fn tree(dir: &Directory) -> [String; 2] {
    const HOSTS: [(&str, u8); 6] = [
        ("aga0", 0),
        ("aga1", 0),
        ("aga2", 0),
        ("agb0", 1),
        ("agb1", 1),
        ("agr", 1),
    ];
    let mut fabric = String::from(
        "name = \"tree\"\nseed = 3\n[defaults.link]\nrate = \"1 Gbit/s\"\nqueue = 200\n\
         loss = 0.01\nduplicate = 0.01\nreorder = 0.02\ncorrupt = 0.005\n",
    );
    for switch in ["leaf0", "leaf1", "spine0", "spine1"] {
        fabric += &format!("[[switch]]\nname = \"{switch}\"\nslots = 40_000\n");
    }
    for (leaf, spine) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        fabric += &format!("[[link]]\nends = [\"leaf{leaf}:{spine}\", \"spine{spine}:{leaf}\"]\n");
    }
    let (mut job, mut mappers) = (String::new(), [const { Vec::new() }; 2]);
    for (at, (host, leaf)) in HOSTS.into_iter().enumerate() {
        fabric += &format!(
            "[[host]]\nname = \"{host}\"\nmac = \"02:00:00:00:01:1{at}\"\nip = \"10.0.1.1{at}/16\"\n\
             [[link]]\nends = [\"{host}\", \"leaf{leaf}:{}\"]\n",
            at + 2
        );
        if host == "agr" {
            continue;
        }
        let words = (0..4000).map(|word| format!("k{} ", word * (at + 7) % 900));
        dir.with(&format!("w{at}.txt"), words.collect::<String>());
        let lanes = (0..1000u16).map(|lane| f32::from(lane) * 0.1 * (at + 1) as f32);
        dir.with(
            &format!("g{at}.bin"),
            lanes.flat_map(f32::to_le_bytes).collect::<Vec<u8>>(),
        );
        for (kind, map, ending) in [('w', "words", "txt"), ('g', "gradients", "bin")] {
            job += &format!(
                "data d{kind}{at} = 10.0.1.1{at}:{kind}{at}.{ending}\n\
                 map {kind}{at} = {map}(d{kind}{at})\n"
            );
            mappers[usize::from(kind == 'g')].push(format!("{kind}{at}"));
        }
    }
    let [words, gradients] = mappers.map(|names| names.join(", "));
    job += &format!(
        "reduce total = add({words}) at 10.0.1.15 memory 2000 tiers 2\n\
         reduce sum = add({gradients}) at 10.0.1.15 keys none values f32 memory 8 tiers 2 to all\n"
    );
    [dir.with("tree.toml", fabric), dir.with("tree.job", job)]
}

#[test]
fn a_job_over_two_tiers_of_switches_between_hosts_is_exact() {
    let dir = Directory::new("aggregate-tree");
    let [fabric, job] = tree(&dir);
    let plan = said(&["aggregate", "plan", &job, "--fabric", &fabric]);
    for switch in ["leaf0, tier 1", "leaf1, tier 2"] {
        assert!(plan.out.contains(switch), "{}{}", plan.out, plan.err);
    }
    let words = [
        "aggregate",
        "run",
        &job,
        "--fabric",
        &fabric,
        "--verify",
        "--json",
    ];
    let simulated = said(&words);
    assert_eq!(simulated.status, Some(0), "{}", simulated.err);
    let real = said(&[&words[..], &["--real"]].concat());
    if is_skipped(&real) {
        return;
    }
    assert_eq!(real.status, Some(0), "{}\n{}", real.err, real.out);
    let (simulated, real) = (simulated.json(), real.json());
    for reduction in 0..2 {
        let (simulated, real) = (&simulated[reduction], &real[reduction]);
        assert_eq!(real["is_verified"], true, "{real}");
        assert_eq!(real["result"], simulated["result"]);
        assert_eq!(real["vector"], simulated["vector"]);
        assert!(real["absorbed"].as_u64() > Some(0), "{real}");
    }
}

#[test]
fn what_fails_between_hosts_is_one_line_with_a_name() {
    let dir = Directory::new("aggregate-names");
    dir.with("part.txt", "a b\n");
    let file = renamed(&dir, "ab", "");
    let run = |text: &str| {
        let job = dir.with("t.job", text);
        said(&["aggregate", "run", &job, "--fabric", &file, "--real"])
    };
    let job = |function: &str, path: &str| {
        format!(
            "data p = 10.0.1.11:{path}\nmap m = {function}(p)\nreduce t = add(m) at 10.0.9.2 memory 9\n"
        )
    };
    let missing = run(&job("words", "none.txt"));
    assert_eq!(missing.status, Some(1));
    let line = missing.one_line();
    assert!(
        line.contains("mapper m: ") && line.contains("none.txt"),
        "{line}"
    );
    let failed = run(&job("exec \"exit 3\"", "part.txt"));
    if is_skipped(&failed) {
        return;
    }
    assert_eq!(failed.status, Some(1));
    let line = failed.one_line();
    assert!(
        line.contains("mapper m on abw0: \"exit 3\" ended with exit status: 3"),
        "{line}"
    );
}

/// A mapper with a link that loses everything.
#[test]
fn a_mapper_that_is_not_heard_is_named_in_time() {
    let dir = Directory::new("aggregate-silent");
    let file = renamed(&dir, "ac", "");
    let text = std::fs::read_to_string(&file).unwrap();
    let end = "ends = [\"acw1\", \"tor:1\"]";
    assert!(text.contains(end));
    let file = dir.with("cut.toml", text.replace(end, &format!("{end}\nloss = 1.0")));
    let job = lab::example("aggregate/words.job");
    let start = std::time::Instant::now();
    let silent = said(&["aggregate", "run", &job, "--fabric", &file, "--real"]);
    if is_skipped(&silent) {
        return;
    }
    assert_eq!(silent.status, Some(1), "{}", silent.err);
    let failure = "total: failed: mapper m1 on acw1 does not answer";
    assert!(silent.out.contains(failure), "{}{}", silent.out, silent.err);
    assert!(start.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn links_between_hosts_have_their_rate() {
    let dir = Directory::new("aggregate-rate");
    let file = renamed(&dir, "ae", "");
    let text = std::fs::read_to_string(&file).unwrap();
    let file = dir.with("slow.toml", text.replace("1 Gbit/s", "1 Mbit/s"));
    let job = lab::example("aggregate/words.job");
    let words = [
        "aggregate",
        "run",
        &job,
        "--fabric",
        &file,
        "--real",
        "--json",
    ];
    let slow = said(&[&words[..], &["--scheme", "direct"]].concat());
    if is_skipped(&slow) {
        return;
    }
    assert_eq!(slow.status, Some(0), "{}\n{}", slow.err, slow.out);
    let outcome = &slow.json()[0];
    let least = outcome["reducer_link_bytes"].as_f64().unwrap() * 8.0 / 1e6;
    let seconds = outcome["seconds"].as_f64().unwrap();
    assert!(
        seconds > 0.9 * least && least > 0.2,
        "{seconds} s, {least} s at 1 Mbit/s"
    );
}

#[test]
fn a_user_without_rights_is_told_that_hosts_take_root() {
    let dir = Directory::new("aggregate-nobody");
    let file = renamed(&dir, "ad", "");
    dir.with("part.txt", "a b\n");
    let job =
        "data p = 10.0.1.11:part.txt\nmap m = words(p)\nreduce t = add(m) at 10.0.9.2 memory 9\n";
    let job = dir.with("t.job", job);
    let mut command = without_rights(&dir);
    let words = ["aggregate", "run", &job, "--fabric", &file, "--real"];
    let said = Said::from(command.args(words).output().unwrap());
    assert_eq!(said.status, Some(1), "{}", said.err);
    assert!(said.one_line().contains("run it as root"), "{}", said.err);
}

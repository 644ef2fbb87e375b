//! Keys of JSON output and names of metrics, compared with those of the release before.
//!
//! Scripts of users read them, so a key does not change its name or its place. `tests/golden` has a
//! file for each command, with a path a line. `[]` stands for each element of an array, and
//! `[NAME]` for each element with this value of its key `event`. After an intended change the files
//! are written again, from the output of the command, by
//! `POLYPLANE_WRITE_GOLDEN=1 cargo test -p cli --test key_sets`.

mod lab;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use lab::cables::Cables;
use lab::host::{Host, L2, METRICS, forward};
use lab::scrape::Scraped;
use lab::{Directory, Running, example, pcap, polyplane, said, to_other_host, whole};
use serde_json::Value;

/// Objects with keys that are names: of drop reasons, of operations.
const MAPS: [&str; 2] = ["dropped", "operations"];

/// Objects that only machines with certain rights give, and samples, which may be none.
const OPTIONAL: [&str; 2] = ["over_wires", "sampled_drops"];

/// Adds the paths of all keys of a value.
fn add_keys(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                keys.insert(path.clone());
                let is_map = value.is_object() && MAPS.contains(&key.as_str());
                if !is_map && !OPTIONAL.contains(&key.as_str()) {
                    add_keys(value, &path, keys);
                }
            }
        }
        Value::Array(elements) => {
            for element in elements {
                let event = element["event"].as_str().unwrap_or_default();
                add_keys(element, &format!("{path}[{event}]"), keys);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keys<'v>(values: impl IntoIterator<Item = &'v Value>) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for value in values {
        add_keys(value, "", &mut keys);
    }
    keys
}

/// Compares names with those of the golden file, or writes the file.
#[track_caller]
fn check(name: &str, names: &BTreeSet<String>) {
    let file = format!("{}/tests/golden/{name}.keys", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("POLYPLANE_WRITE_GOLDEN").is_some() {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        return std::fs::write(&file, lines).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let golden: BTreeSet<String> = golden.lines().map(String::from).collect();
    let gone: Vec<&String> = golden.difference(names).collect();
    let new: Vec<&String> = names.difference(&golden).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "{name}: these are gone: {gone:#?}, these are new: {new:#?}"
    );
}

#[track_caller]
fn check_command(name: &str, words: &[&str]) {
    let said = said(words);
    assert_eq!(said.status, Some(0), "{}", said.err);
    check(name, &keys([&said.json()]));
}

/// Measures with `bench`, for as short as possible.
#[track_caller]
fn check_bench(name: &str, words: &[&str]) {
    check_command(
        name,
        &[&["bench", "--json", "--seconds", "0.02"], words].concat(),
    );
}

#[test]
fn bench_has_the_keys_of_the_release_before() {
    check_bench("bench", &["l2", "--engine", "jit,hand", "--flows", "few"]);
    let lookups = ["--lookups=exact,ternary", "--sizes", "50", "--updates", "1"];
    check_bench("bench-lookups", &lookups);
    check_bench("bench-tenants", &["--tenants", "--vpdps", "2"]);
    check_bench(
        "bench-tenants-life",
        &["--tenants", "--life", "--operations", "5"],
    );
    check_bench("bench-tenants-hostile", &["--tenants", "--hostile"]);
}

#[test]
fn trace_has_the_keys_of_the_release_before() {
    let program = example("router/router.p4");
    let entries = example("router/router.entries");
    let traced = |packet: Vec<u8>| {
        let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        let words = ["trace", &program, "--entries", &entries, "--json"];
        said(&[&words[..], &["--packet", &hex]].concat()).json()
    };
    let forwarded = traced(to_other_host(0, 40, 1));
    let dropped = traced(vec![0; 60]);
    let short = traced(vec![0; 5]);
    check("trace", &keys([&forwarded, &dropped, &short]));
}

#[test]
fn replay_has_the_keys_of_the_release_before() {
    let dir = Directory::new("keys-replay");
    let packets = [whole(0, to_other_host(0, 40, 1)), whole(1, vec![0; 60])];
    let input = format!("0={}", dir.with("in.pcap", pcap(&packets)));
    let (program, entries) = (
        example("router/router.p4"),
        example("router/router.entries"),
    );
    let words = ["replay", &program, "--entries", &entries, "--in", &input];
    check_command("replay", &[&words[..], &["--json"]].concat());
}

/// Names of metrics, with their kinds.
fn metrics(scraped: &Scraped) -> BTreeSet<String> {
    let types = scraped.0.lines();
    let types = types.filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(String::from).collect()
}

#[test]
fn run_has_the_keys_and_metrics_of_the_release_before() {
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let mut command = polyplane();
    command.args([
        "run",
        &example("router/router.p4"),
        "--entries",
        &example("router/router.entries"),
        "--port",
        "0=port0",
        "--port",
        "1=port1",
        "--p4runtime",
        "127.0.0.1:9559",
        "--metrics",
        METRICS,
        "--json",
    ]);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let stderr = running.0.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("is running on 0=port0, 1=port1")));
    std::thread::spawn(move || lines.for_each(drop));
    // A packet that the router drops, so that the report has a reason.
    let mut tries = 0..50;
    let scraped = loop {
        assert!(tries.next().is_some(), "no packet is dropped");
        let within = std::time::Duration::from_millis(50);
        assert_eq!(cables.carries_within(0, &[0x22; 60], within), None);
        let scraped = cables.switch.run(|| Scraped::of(METRICS)).unwrap();
        if scraped.0.contains("polyplane_dropped_packets_total{") {
            break scraped;
        }
    };
    check("run-metrics", &metrics(&scraped));
    running.signal("TERM");
    let said = running.finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    check("run", &keys([&said.json()]));
}

#[test]
fn host_has_the_keys_and_metrics_of_the_release_before() {
    let Some(mut host) = Host::new("keys-host", 2, &["--metrics", METRICS]) else {
        return;
    };
    let ports = ["--port", "0", "--port", "1"];
    let create = ["create", "blue", "--program", &example(L2)];
    host.tenant(&[&create[..], &ports].concat()).unwrap();
    let statement = forward("L2Switch.forward", 9, 1);
    host.controller("1", &["add", &statement]).unwrap();
    assert_eq!(host.carries(0, 9), Some(1));
    assert!(host.drops(0, 8));
    check("host-metrics", &metrics(&host.scrape()));
    check("tenant-list", &keys([&host.listing()]));
    check("host", &keys([&host.stop()]));
}

//! `polyplane aggregate` on the shipped example.

use std::path::Path;
use std::process::{Command, Output};

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

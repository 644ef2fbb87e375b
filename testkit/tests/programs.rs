//! Runs the STF test of every program on every engine: the corpus of features and the examples.

use std::path::Path;

use stf::TestSetup;
use switch::DeviceConfig;

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

/// Runs a program's test on every engine. Returns the failures.
fn failures(path: &Path) -> Vec<String> {
    let program = match testkit::compile(path) {
        Ok(program) => program,
        Err(diagnostics) => return vec![diagnostics],
    };
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let mut failures = Vec::new();
    for engine in testkit::engines() {
        let setup = TestSetup {
            program: program.clone(),
            engine: engine.as_ref(),
            device: DeviceConfig::default(),
            read_file: &read_file,
        };
        let name = engine.name();
        let file = test.display().to_string();
        match stf::run(&setup, &file, &text) {
            Ok(report) => failures.extend(
                report
                    .failures
                    .iter()
                    .map(|f| format!("{name}: {file}:{}: {}", f.line, f.message)),
            ),
            Err(refused) => failures.push(format!("{name}: {file}: {refused:?}")),
        }
    }
    failures
}

fn all_pass(directory: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || {
        let programs = testkit::tested(&root);
        assert!(programs.len() >= at_least, "only {} tests", programs.len());
        programs
            .iter()
            .flat_map(|p| failures(p))
            .collect::<Vec<_>>()
    });
    let failures = checked.expect("a thread starts").join().expect("no panic");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn every_feature_does_what_its_test_says() {
    all_pass("programs", 70);
}

#[test]
fn every_example_does_what_its_test_says() {
    all_pass("../examples", 19);
}

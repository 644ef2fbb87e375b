//! Every program with an STF test does on every engine what its test says: the corpus of features and the examples.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use passes::compose::Form;
use stf::Setup;
use switch::DeviceConfig;

/// Deep expressions take stack to walk.
const STACK_BYTES: usize = 64 << 20;

/// The programs in a directory, and in the ones within it, that have a test.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the directory can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "stf") {
                let program = ["p4", "policy"].map(|ending| path.with_extension(ending));
                found.extend(program.into_iter().find(|program| program.exists()));
            }
        }
    }
    found.sort();
    found
}

/// What is wrong with a program's test, on any engine.
fn failures(path: &Path) -> Vec<String> {
    let program = match path.extension().is_some_and(|ending| ending == "policy") {
        true => testkit::compile_policy(path, Form::Merged).map(|chain| Arc::new(chain.program)),
        false => testkit::compile(path),
    };
    let program = match program {
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
        let setup = Setup {
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
        let programs = programs(&root);
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

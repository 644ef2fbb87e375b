//! Checks that a program in a chain behaves as it does alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ir::{Arch, Program};
use passes::compose::{Form, Policy, StepProgram, compose};
use stf::TestSetup;
use switch::DeviceConfig;

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

/// Returns the programs in a directory that have a test.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory can be read");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    let tests = paths.filter(|path| path.extension().is_some_and(|e| e == "stf"));
    let mut found: Vec<PathBuf> = tests.map(|path| path.with_extension("p4")).collect();
    found.sort();
    found
}

fn compiled(path: &Path) -> Arc<Program> {
    testkit::compile(path).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Runs a program's test with `program` in its place on every engine. Returns the failures.
fn failures(path: &Path, program: &Arc<Program>, what: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path.with_extension("stf")).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut failures = Vec::new();
    for engine in testkit::engines() {
        let setup = TestSetup {
            program: Arc::clone(program),
            engine: engine.as_ref(),
            device: DeviceConfig::default(),
            read_file: &read_file,
        };
        let name = engine.name();
        match stf::run(&setup, &file, &text) {
            Ok(report) => {
                let told = report.failures.iter();
                let told =
                    told.map(|f| format!("{what} on {name}: {file}:{}: {}", f.line, f.message));
                failures.extend(told);
            }
            Err(refused) => failures.push(format!("{what} on {name}: {file}: {refused:?}")),
        }
    }
    failures
}

/// Programs that behave differently if a step follows. Their egress acts on the copies of a group,
/// but before the last step there is only one packet.
const OTHERWISE_IF_FOLLOWED: &[&str] = &["multicast"];

#[test]
fn a_program_between_steps_that_do_nothing_does_what_its_test_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let pass = compiled(&root.join("pass_through.p4"));
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || {
        let mut failed = Vec::new();
        for path in programs(&root) {
            let program = compiled(&path);
            if program.arch != Arch::V1model {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let may_be_followed = !OTHERWISE_IF_FOLLOWED.contains(&name.as_ref());
            let first_or_last = ["x", "before -> x"].into_iter();
            let between = ["x -> after", "before -> x -> after"].into_iter();
            for policy in first_or_last.chain(between.filter(|_| may_be_followed)) {
                let read = Policy::read(policy).expect("a policy");
                let steps = [("before", &pass), ("x", &program), ("after", &pass)];
                let steps = steps.map(|(step, program)| StepProgram { step, program });
                for form in [Form::Steps, Form::Merged] {
                    let what = format!("{policy} as {form:?}");
                    match compose("chain", &read, &steps, form) {
                        Ok(chain) => {
                            failed.extend(failures(&path, &Arc::new(chain.program), &what));
                        }
                        Err(error) => failed.push(format!("{what}: {name}: {error}")),
                    }
                }
            }
        }
        failed
    });
    let failed = checked.expect("a thread starts").join().expect("no panic");
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

//! Prints every v1model program as P4 text, compiles the text, and runs the program's STF test on
//! the result. The P4Info of both is the same by meaning.

use std::path::Path;
use std::sync::Arc;

use stf::TestSetup;
use switch::DeviceConfig;

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

/// Programs with a construct that P4 text does not carry over, and a part of the fault. The log
/// has the condition of `assert` as the text writes it: there, constants have their widths.
const OTHERS: &[(&str, &str)] = &[("assert_fails", "assert failed: assert(hdr.i.a != 8w0)")];

/// Prints a program, and checks what the text means. Returns the text's first fault.
fn check(path: &Path, program: &Arc<ir::Program>) -> Result<(), String> {
    let text = passes::p4::print(program).map_err(|error| format!("refused: {error}"))?;
    let again = testkit::compile_text(&text)?;
    let info = p4info::p4info(program).map_err(|errors| format!("P4Info: {errors:?}"))?;
    let own = p4info::p4info(&again).map_err(|errors| format!("P4Info: {errors:?}"))?;
    p4rt::compare_p4info(&again, &info).map_err(|error| format!("P4Info: {error}"))?;
    p4rt::compare_p4info(program, &own).map_err(|error| format!("own P4Info: {error}"))?;
    let test = path.with_extension("stf");
    let stf = std::fs::read_to_string(&test).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let engine = interp::Interp;
    let setup = TestSetup {
        program: again,
        engine: &engine,
        device: DeviceConfig::default(),
        read_file: &read_file,
    };
    let report = stf::run(&setup, &test.display().to_string(), &stf)
        .map_err(|refused| format!("STF: {refused:?}"))?;
    match report.failures.first() {
        Some(first) => Err(format!("STF line {}: {}", first.line, first.message)),
        None => Ok(()),
    }
}

/// Checks all v1model programs of a directory. Returns their number and the faults.
fn check_all(directory: &str) -> (usize, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut faults = Vec::new();
    let mut count = 0;
    for path in testkit::tested(&root) {
        let program = testkit::compile(&path).expect("the program compiles");
        if program.arch != ir::Arch::V1model {
            continue;
        }
        count += 1;
        let name = path.file_stem().expect("a file has a name");
        let name = name.to_string_lossy().into_owned();
        let other = OTHERS.iter().find(|(known, _)| *known == name);
        match (check(&path, &program), other) {
            (Ok(()), None) => {}
            (Err(fault), Some((_, construct))) if fault.contains(construct) => {}
            (Ok(()), Some(_)) => faults.push(format!("{name}: passes, but is listed")),
            (Err(fault), _) => faults.push(format!("{name}: {fault}")),
        }
    }
    (count, faults)
}

fn all_pass(directory: &'static str, at_least: usize) {
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || check_all(directory));
    let (count, faults) = checked.expect("a thread starts").join().expect("no panic");
    assert!(count >= at_least, "only {count} programs");
    assert!(
        faults.is_empty(),
        "{} of {count}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn printed_features_do_what_their_tests_say() {
    all_pass("programs", 70);
}

#[test]
fn printed_examples_do_what_their_tests_say() {
    all_pass("../examples", 15);
}

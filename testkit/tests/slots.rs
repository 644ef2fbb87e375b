//! Runs the STF test of every program on devices with few stage slots. The result must be the same
//! as without slots: ingress continues in further rounds.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use passes::slots::{Pins, SlotError, SlotPlan, Slots};
use passes::wrap::wrap;
use stf::TestSetup;
use switch::DeviceConfig;

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

/// Results of a program on devices with few slots.
#[derive(Default)]
struct Outcome {
    failures: Vec<String>,
    /// Number of runs in which the program was split.
    cut: usize,
    /// Programs that do not fit, with the number of slots. Their egress would have to be
    /// resubmitted.
    refused: BTreeSet<(String, u16)>,
}

fn check(path: &Path, slots: u16, outcome: &mut Outcome) {
    let program = testkit::compile(path).expect("it compiles");
    let plan = SlotPlan {
        slots: NonZeroU16::new(slots),
        ..SlotPlan::default()
    };
    let map = match Slots::new(plan).place(&program, &Pins::new()) {
        Ok(map) => map,
        Err(SlotError::NoResubmission { .. }) => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            outcome.refused.insert((name.into_owned(), slots));
            return;
        }
        Err(error) => {
            return outcome
                .failures
                .push(format!("{}: {error}", path.display()));
        }
    };
    let Some(wrapped) = wrap(&program, &map) else {
        return;
    };
    assert_eq!(ir::verify(&wrapped), Ok(()), "{}", path.display());
    let wrapped = Arc::new(wrapped);
    outcome.cut += 1;
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    for engine in testkit::engines() {
        let setup = TestSetup {
            program: Arc::clone(&wrapped),
            engine: engine.as_ref(),
            device: DeviceConfig::default(),
            read_file: &read_file,
        };
        let place = format!("{}, {slots} slots: {}", engine.name(), test.display());
        match stf::run(&setup, &place, &text) {
            Ok(report) => {
                let failures = report.failures.iter();
                let told = failures.map(|f| format!("{place}:{}: {}", f.line, f.message));
                outcome.failures.extend(told);
            }
            Err(refused) => outcome.failures.push(format!("{place}: {refused:?}")),
        }
    }
}

/// Runs all tests of a directory. The programs in `long_egress` are refused, since their egress
/// does not fit into that many slots.
fn all_pass(directory: &str, cut_at_least: usize, long_egress: &[(&str, u16)]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || {
        let mut outcome = Outcome::default();
        for program in testkit::tested(&root) {
            for slots in [1, 2, 3] {
                check(&program, slots, &mut outcome);
            }
        }
        outcome
    });
    let outcome = checked.expect("a thread starts").join().expect("no panic");
    assert!(
        outcome.failures.is_empty(),
        "\n{}",
        outcome.failures.join("\n")
    );
    assert!(outcome.cut >= cut_at_least, "only {} were cut", outcome.cut);
    let refused = outcome.refused.iter();
    let refused: Vec<(&str, u16)> = refused.map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(refused, long_egress);
}

#[test]
fn every_feature_does_in_turns_what_its_test_says() {
    all_pass("programs", 20, &[]);
}

#[test]
fn every_example_does_in_turns_what_its_test_says() {
    all_pass("../examples", 40, &[("int", 1), ("int", 2), ("int", 3)]);
}

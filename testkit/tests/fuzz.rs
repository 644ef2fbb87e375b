//! Short runs of the fuzz targets, and all inputs that longer runs have found.

use std::path::Path;
use std::time::Duration;

use testkit::fuzz::{Finding, Options, Target, examine, run};

/// Builds without optimizations are slow, and tests run in parallel.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of random scenarios for each program that was found.
const SCENARIOS: u64 = 1;

/// Maximum number of cases of a run. Runs of minutes have examined these cases of the same seeds,
/// so that a fast machine meets none for the first time.
const CASES: u64 = 2_000;

/// Minimum number of accepted inputs, and the number of runs to reach it. A single run may be too
/// short on a busy machine.
const ACCEPTED: u64 = 6;
const ROUNDS: u64 = 12;

fn finds_nothing(target: Target, seed: u64) {
    let mut accepted = 0;
    for round in 0..ROUNDS {
        accepted += run_accepting(target, seed + 100 * round);
        if accepted >= ACCEPTED {
            return;
        }
    }
    panic!("only {accepted} accepted");
}

/// Makes a short run that must find nothing. Returns the number of accepted inputs.
fn run_accepting(target: Target, seed: u64) -> u64 {
    let options = Options {
        time: Duration::from_secs(5),
        seed,
        only: None,
        cases: CASES,
        corpus: Vec::new(),
        limit: LIMIT,
    };
    let summary = run(target, &options).expect("findings can be written");
    let told: Vec<String> = summary
        .findings
        .iter()
        .map(|finding: &Finding| finding.told(seed))
        .collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
    summary.accepted
}

#[test]
fn mutated_texts_are_refused_or_become_good_programs() {
    finds_nothing(Target::Front, 20);
}

#[test]
fn packets_are_conserved_whatever_comes() {
    finds_nothing(Target::Packets, 21);
}

#[test]
fn engines_agree_on_random_programs() {
    finds_nothing(Target::Engines, 22);
}

#[test]
fn accepted_ir_runs_alike_whoever_wrote_it() {
    finds_nothing(Target::Ir, 23);
}

#[test]
fn entries_files_are_refused_or_applied() {
    finds_nothing(Target::Entries, 24);
}

#[test]
fn requests_with_changed_bytes_are_made_or_refused() {
    finds_nothing(Target::Messages, 25);
}

#[test]
fn printed_programs_compile_and_give_the_same_results() {
    finds_nothing(Target::Text, 26);
}

#[test]
fn images_of_programs_are_refused_or_end_with_a_named_fault() {
    finds_nothing(Target::Images, 33);
}

#[test]
fn flows_of_split_programs_get_what_one_device_gives_them() {
    finds_nothing(Target::Split, 27);
}

#[test]
fn job_files_are_refused_with_places_or_read() {
    finds_nothing(Target::Jobs, 28);
}

#[test]
fn reductions_are_exact_whatever_datagrams_come() {
    finds_nothing(Target::Datagrams, 29);
}

#[test]
fn frames_of_engines_end_well_or_with_a_named_error() {
    finds_nothing(Target::Frames, 30);
}

#[test]
fn messages_of_pof_controllers_do_the_same_on_all_engines() {
    finds_nothing(Target::Pof, 31);
}

#[test]
fn telemetry_reports_are_refused_or_written_again() {
    finds_nothing(Target::Reports, 32);
}

#[test]
fn mutated_loop_files_are_refused_with_a_remedy_or_read() {
    finds_nothing(Target::Loops, 34);
}

#[test]
fn members_of_a_store_agree_and_survive_forged_messages() {
    finds_nothing(Target::Raft, 35);
}

#[test]
fn changes_of_elements_are_taken_once_and_in_order() {
    finds_nothing(Target::Commands, 36);
}

#[test]
fn flows_of_split_programs_that_were_reordered_keep_their_order() {
    // Seed and case fix program, events and delays as long as the generator draws them alike.
    for (seed, case) in [(45, 2250), (45, 4634), (45, 22948), (77, 1434)] {
        let options = Options {
            time: Duration::ZERO,
            seed,
            only: Some(case),
            cases: 1,
            corpus: Vec::new(),
            limit: LIMIT,
        };
        let summary = run(Target::Split, &options).expect("findings can be written");
        assert_eq!(summary.accepted, 1);
        let findings = summary.findings.first();
        assert!(
            findings.is_none(),
            "{}",
            findings.map_or_else(String::new, |found| found.told(seed))
        );
    }
}

#[test]
fn what_was_found_before_stays_right() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("findings");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        let bytes = std::fs::read(&path).expect("the text can be read");
        if let Err(fault) = examine(&String::from_utf8_lossy(&bytes), SCENARIOS, LIMIT) {
            wrong.push(format!(
                "{}: {} {}",
                path.display(),
                fault.signature,
                fault.detail
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

//! All schedules of small reductions with faults, and defects of the switch that they find.

#[path = "schedules/mod.rs"]
mod explorer;

use explorer::{Faults, Report, Small, explore};

const NONE: Faults = Faults {
    losses: 0,
    duplicates: 0,
    restarts: 0,
    reloads: 0,
};

const LOSS: Faults = Faults { losses: 1, ..NONE };

const DUPLICATE: Faults = Faults {
    duplicates: 1,
    ..NONE
};

const RESTART: Faults = Faults {
    restarts: 1,
    ..NONE
};

const RELOAD: Faults = Faults { reloads: 1, ..NONE };

fn explore_all(faults: Faults, is_direct: bool) -> Report {
    let report = explore(&Small {
        faults,
        edit: |text| text,
        is_direct,
        most: 2_000_000,
    });
    println!("{report}");
    assert!(report.is_whole && report.problem.is_none(), "{report}");
    report
}

#[test]
fn no_schedule_with_a_loss_and_a_restart_is_wrong() {
    explore_all(
        Faults {
            losses: 1,
            ..RESTART
        },
        true,
    );
}

#[test]
fn no_schedule_with_a_duplicate_and_a_restart_is_wrong() {
    explore_all(
        Faults {
            duplicates: 1,
            ..RESTART
        },
        true,
    );
}

#[test]
fn no_schedule_with_a_reload_is_wrong() {
    explore_all(RELOAD, true);
}

#[test]
fn messages_that_arrive_at_once_leave_out_no_content_of_registers() {
    let all = explore_all(NONE, false);
    let direct = explore_all(NONE, true);
    assert_eq!(all.registers, direct.registers);
}

/// Checks that the exploration finds a defect of the switch: the program with `from` replaced by
/// `to`.
macro_rules! finds {
    ($($name:ident: $faults:expr, $([$from:expr, $to:expr]),+;)+) => {
        $(#[test]
        fn $name() {
            fn edit(mut text: String) -> String {
                for (from, to) in [$(($from, $to)),+] {
                    assert!(text.contains(from), "the program has no {from:?}");
                    text = text.replace(from, to);
                }
                text
            }
            let report = explore(&Small {
                faults: $faults,
                edit,
                is_direct: true,
                most: 2_000_000,
            });
            println!("{report}");
            assert!(report.problem.is_some(), "{report}");
        })+
    };
}

const IS_NEWER: &str = "(int<32>) (hdr.agg.sequence - cell[95:64]) > 0";
const IS_EQUAL: &str = "cell[95:64] == hdr.agg.sequence";

finds! {
    finds_that_repeats_are_combined_again: DUPLICATE, [IS_NEWER, "true"];
    finds_that_repeats_pass_whole: LOSS,
        ["if (mask[0:0] == 1)", "if (false)"], ["if (mask[1:1] == 1)", "if (false)"];
    finds_that_repeats_are_cut_whole: LOSS,
        ["if (mask[0:0] == 1)", "if (true)"],
        ["if (mask[1:1] == 1)", "if (hdr.pairs_0[1].isValid())"];
    finds_places_of_the_window_without_sequence_numbers: NONE,
        [IS_NEWER, "false"], [IS_EQUAL, "true"];
    finds_that_an_old_repeat_counts_as_new: DUPLICATE, [IS_NEWER, "hdr.agg.sequence != cell[95:64]"];
    finds_that_a_collected_bank_is_emptied: LOSS,
        ["hdr.agg.kind = KIND_REPLY;",
         "banks_0.write((bit<32>) hdr.agg.epoch[0:0], 0); hdr.agg.kind = KIND_REPLY;"];
    finds_that_old_sums_come_back: RELOAD,
        ["generation = meta.incarnation[23:0] ++ hdr.agg.epoch;",
         "generation = 24w0 ++ hdr.agg.epoch;"];
    finds_that_old_cells_come_back: RELOAD,
        ["cell[127:96] != meta.incarnation", "cell[127:96] == 0"];
    finds_that_messages_of_an_older_load_count: RESTART,
        ["hdr.agg.incarnation != meta.incarnation", "false"];
    finds_a_changed_message_with_its_old_checksum: NONE,
        ["meta.is_changed = true;\n            }\n            if (is_taken)",
         "}\n            if (is_taken)"];
}

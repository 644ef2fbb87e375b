//! Polling loops are skipped without a change of any time.

use nanopu::{CoreState, Output};
use proptest::prelude::*;

use crate::assembler::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_skipped_loop_has_the_times_of_a_loop_that_is_run(
        gaps in prop::collection::vec(0u64..5000, 1..12)
    ) {
        let run = |trace: bool| {
            let mut core = core_of(&loopback());
            if trace {
                // A traced core runs each instruction.
                core.start_trace();
            }
            // After the program has bound its context.
            let mut cycle = 1000;
            let mut outputs = Vec::new();
            for (number, gap) in gaps.iter().chain(&[6000]).enumerate() {
                cycle += gap;
                core.deliver(cycle, message(0, &[number as u8; 16]));
                outputs.extend(core.run(cycle));
            }
            outputs.extend(core.run(cycle + 5000));
            (outputs, core.cycle(), core.instructions(), core.parts())
        };
        let (skipped, end, instructions, parts) = run(false);
        let (all, ..) = run(true);
        prop_assert_eq!(&skipped, &all);
        prop_assert_eq!(parts.total(), end);
        prop_assert!(parts.polling > 0);
        prop_assert!(instructions > 0);
        let messages = all.iter().filter(|o| matches!(o.1, Output::Message(_))).count();
        prop_assert_eq!(messages, gaps.len() + 1);
    }
}

#[test]
fn an_idle_second_is_simulated_in_a_few_instructions() {
    let mut core = core_of(&loopback());
    core.run(100_000);
    assert_eq!(core.state(), CoreState::Polling);
    core.deliver(3_200_000_000, message(0, &[0; 16]));
    core.start_trace();
    let outputs = core.run(3_200_001_000);
    let answered = outputs.iter().any(|(_, o)| matches!(o, Output::Message(_)));
    assert!(answered && core.cycle() >= 3_200_000_000);
    assert!(core.take_trace().len() < 2000);
}

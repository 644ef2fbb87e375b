//! Folding of loops to their first and last rounds.

use super::*;

/// Returns the rounds of a loop, each with one write and the events `inside`.
fn rounds(of: u32, count: u64, inside: &[TraceEvent]) -> Vec<TraceEvent> {
    let round = |number| {
        let head = TraceEvent::Round {
            of,
            number,
            loc: None,
        };
        let written = TraceEvent::Written {
            field: FieldId::new(12),
            old: v(u128::from(number) - 1, 9),
            new: v(u128::from(number), 9),
            loc: None,
        };
        [&[head, written], inside].concat()
    };
    let mut events: Vec<_> = (1..=count).flat_map(round).collect();
    events.push(TraceEvent::LoopLeft { of });
    events
}

#[test]
fn of_many_rounds_the_first_and_the_last_are_shown() {
    let shown = |events: &[TraceEvent]| text(&fold(steps_of(events)), false);
    let some = [stage(2)]
        .into_iter()
        .chain(rounds(1, 8, &[]))
        .collect::<Vec<_>>();
    assert_eq!(
        fold(steps_of(&some)),
        steps_of(&some),
        "few rounds are all shown"
    );

    let many: Vec<_> = [stage(2)]
        .into_iter()
        .chain(rounds(1, 1000, &[]))
        .chain(rounds(2, 2, &[]))
        .collect();
    let expect = "  stage RouterIngress.act                                       router.p4:20
    round 1
      meta.port = 1, was 0
    round 2
      meta.port = 2, was 1
    round 3
      meta.port = 3, was 2
    ... 995 rounds like these ...
    round 999
      meta.port = 0x1e7 (487), was 0x1e6 (486)
    round 1000
      meta.port = 0x1e8 (488), was 0x1e7 (487)
    round 1
      meta.port = 1, was 0
    round 2
      meta.port = 2, was 1\n";
    assert_eq!(shown(&many), expect);

    // Nested loops are all folded. Two inner loops of the same round are separate loops.
    let inner = [rounds(2, 20, &[]), rounds(2, 9, &[])].concat();
    let nested = steps_of(&rounds(1, 100, &inner));
    let folded = fold(nested.clone());
    let cuts: Vec<usize> = folded
        .iter()
        .filter_map(|step| match step {
            Step::Folded { rounds, .. } => Some(*rounds),
            _ => None,
        })
        .collect();
    assert_eq!(cuts, [15, 4, 15, 4, 15, 4, 95, 15, 4, 15, 4]);
    let all_steps: usize = folded
        .iter()
        .map(|step| match step {
            Step::Folded { steps, .. } => *steps,
            _ => 1,
        })
        .sum();
    assert_eq!(all_steps, nested.len(), "no step is lost");
}

#[test]
fn states_and_stages_that_come_again_are_rounds_too() {
    let block = |role| TraceEvent::Block {
        step: ir::StepId::new(0),
        role,
    };
    let mut events = vec![block(BlockRole::Parser)];
    (0..50).for_each(|_| events.extend([state(0), state(1)]));
    events.push(block(BlockRole::Ingress));
    (0..50).for_each(|_| events.extend([stage(0), stage(1)]));
    let folded = fold(steps_of(&events));
    assert_eq!(folded.len(), 2 + 2 * (5 * 2 + 1));
    assert_eq!(
        folded[7],
        Step::Folded {
            rounds: 45,
            steps: 90
        }
    );
    let once: Vec<_> = (0..50)
        .flat_map(|_| [block(BlockRole::Parser), state(0)])
        .collect();
    assert_eq!(
        fold(steps_of(&once)),
        steps_of(&once),
        "a parser that runs for each copy does not loop"
    );
}

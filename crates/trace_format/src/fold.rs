//! Shortens traces: of loops with many rounds only the first and last rounds are shown.
//!
//! A round begins at a head. Heads are the [`Step::Round`] of a loop inside a stage or state, a
//! parser state that is entered again, and a stage that a control returns to. Of nested loops the
//! outer one is folded first; the remaining rounds are folded inside.

use std::collections::HashMap;
use std::ops::Range;

use super::step::Step;

/// Maximum number of rounds of a loop that is shown in full.
const MAX_ROUNDS: usize = 8;

/// Number of rounds shown before and after the omitted ones.
const FIRST: usize = 3;
const LAST: usize = 2;

/// Returns the steps without the middle rounds of long loops.
pub(crate) fn fold(steps: Vec<Step>) -> Vec<Step> {
    let folder = Folder {
        heads: heads(&steps),
        ends: ends(&steps),
    };
    let mut cuts = Vec::new();
    let mut start = 0;
    let is_block = |step: &Step| matches!(step, Step::Block { .. });
    while start < steps.len() {
        let behind = steps[start + 1..].iter().position(is_block);
        let end = behind.map_or(steps.len(), |at| start + 1 + at);
        folder.fold(start..end, &mut cuts);
        start = end;
    }
    without(steps, &cuts)
}

/// Omitted rounds.
struct Cut {
    steps: Range<usize>,
    rounds: usize,
}

fn without(steps: Vec<Step>, cuts: &[Cut]) -> Vec<Step> {
    if cuts.is_empty() {
        return steps;
    }
    let mut kept = Vec::new();
    let mut cuts = cuts.iter().peekable();
    for (at, step) in steps.into_iter().enumerate() {
        match cuts.peek() {
            Some(cut) if cut.steps.contains(&at) => {
                if at + 1 == cut.steps.end {
                    kept.push(Step::Folded {
                        rounds: cut.rounds,
                        steps: cut.steps.len(),
                    });
                    cuts.next();
                }
            }
            _ => kept.push(step),
        }
    }
    kept
}

/// Returns for each step the number of the loop that it is a head of.
fn heads(steps: &[Step]) -> Vec<Option<usize>> {
    let mut named: HashMap<(&str, &str), usize> = HashMap::new();
    let mut running: HashMap<u32, usize> = HashMap::new();
    let mut heads = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        // The index of a loop's first step is its number.
        heads.push(match step {
            Step::State {
                parser: of,
                state: name,
                ..
            }
            | Step::Stage {
                control: of,
                stage: name,
                ..
            } => Some(*named.entry((of, name)).or_insert(at)),
            Step::Round { of, number: 1, .. } => {
                running.insert(*of, at);
                Some(at)
            }
            Step::Round { of, .. } => running.get(of).copied(),
            _ => None,
        });
    }
    heads
}

/// Maps the last round of a loop to the end of the loop, for loops that were left normally: the
/// step after [`Step::LoopLeft`].
fn ends(steps: &[Step]) -> HashMap<usize, usize> {
    let mut latest: HashMap<u32, usize> = HashMap::new();
    let mut ends = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Round { of, .. } => {
                latest.insert(*of, at);
            }
            Step::LoopLeft { of } => {
                ends.extend(latest.remove(of).map(|round| (round, at + 1)));
            }
            _ => {}
        }
    }
    ends
}

struct Folder {
    heads: Vec<Option<usize>>,
    /// End of each loop, by its last round.
    ends: HashMap<usize, usize>,
}

impl Folder {
    /// Finds the steps to omit, in order.
    fn fold(&self, mut steps: Range<usize>, cuts: &mut Vec<Cut>) {
        while let Some(starts) = self.outermost(steps.clone()) {
            let last = starts.last().copied().unwrap_or(steps.start);
            let end = self.ends.get(&last).copied();
            let end = end.unwrap_or(steps.end).min(steps.end);
            let round = |at: usize| {
                let behind = starts.get(at + 1).copied();
                starts[at] + 1..behind.unwrap_or(end)
            };
            let folded = match starts.len() > MAX_ROUNDS {
                true => FIRST..starts.len() - LAST,
                false => 0..0,
            };
            for at in 0..starts.len() {
                if !folded.contains(&at) {
                    self.fold(round(at), cuts);
                } else if at == folded.start {
                    cuts.push(Cut {
                        steps: starts[at]..starts[folded.end],
                        rounds: folded.len(),
                    });
                }
            }
            steps.start = end;
        }
    }

    /// Returns the starts of the rounds of the loop that begins first.
    fn outermost(&self, steps: Range<usize>) -> Option<Vec<usize>> {
        let mut count: HashMap<usize, usize> = HashMap::new();
        for head in self.heads[steps.clone()].iter().flatten() {
            *count.entry(*head).or_default() += 1;
        }
        let recurs = |head: &usize| count.get(head).is_some_and(|count| *count > 1);
        let first = self.heads[steps.clone()]
            .iter()
            .flatten()
            .find(|h| recurs(h))?;
        let is_start = |at: &usize| self.heads[*at] == Some(*first);
        Some(steps.filter(is_start).collect())
    }
}

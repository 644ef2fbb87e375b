//! The search over the states of a small reduction.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Explorer, Faults, REDUCER, Report, Small, State, hash_of};

/// Found states, without states that are equal to another one with at least as many faults left.
#[derive(Default)]
struct Found {
    /// By the hash without the faults that are left: the last such state.
    last: HashMap<u128, u32>,
    states: Vec<FoundState>,
}

struct FoundState {
    left: Faults,
    before: u32,
    /// The state after the first step, which is one without faults. An end has none.
    after: Option<u32>,
    /// Another state that differs in the faults that are left alone.
    other: Option<u32>,
}

impl Found {
    /// Returns the number of a state, and true if it is new.
    fn number(&mut self, state: &State, before: u32) -> (u32, bool) {
        let State {
            nodes,
            registers,
            incarnation,
            is_told,
            left,
            direct,
            network,
        } = state;
        let key = hash_of(|hasher| {
            (nodes, registers, incarnation, is_told).hash(hasher);
            (direct, network).hash(hasher);
        });
        let fresh = self.states.len() as u32;
        let other = self.last.get(&key).copied();
        let mut next = other;
        while let Some(number) = next {
            let found = &self.states[number as usize];
            if found.left.covers(*left) {
                return (number, false);
            }
            next = found.other;
        }
        self.last.insert(key, fresh);
        self.states.push(FoundState {
            left: *left,
            before,
            after: None,
            other,
        });
        (fresh, true)
    }
}

/// Explores all schedules of a small reduction, those with few faults first.
pub(crate) fn explore(small: &Small) -> Report {
    let mut explorer = Explorer::new(small);
    let mut begins = Vec::new();
    let first = explorer.begin(small.faults);
    explorer.settle(Vec::new(), first, &mut begins);
    let mut found = Found::default();
    // By number of faults.
    let mut open: Vec<Vec<(u32, State)>> = Vec::new();
    let add = |open: &mut Vec<Vec<(u32, State)>>, number: u32, state: State| {
        let faults = small.faults.sum() - state.left.sum();
        open.resize_with(open.len().max(faults + 1), Vec::new);
        open[faults].push((number, state));
    };
    for (_, state) in &begins {
        let (number, is_new) = found.number(state, u32::MAX);
        if is_new {
            add(&mut open, number, state.clone());
        }
    }
    let mut problem: Option<(u32, String)> = None;
    let mut is_whole = true;
    while let Some(faults) = open.iter().position(|states| !states.is_empty())
        && let Some((number, state)) = open[faults].pop()
    {
        if let Some(text) = explorer.judge(state.nodes[REDUCER]) {
            problem = Some((number, text));
            break;
        }
        if found.states.len() >= small.most {
            is_whole = false;
            break;
        }
        if explorer.has_ended(&state) {
            explorer.report.ends += 1;
            continue;
        }
        for (place, (_, next)) in explorer.successors(&state).into_iter().enumerate() {
            let (after, is_new) = found.number(&next, number);
            if place == 0 {
                found.states[number as usize].after = Some(after);
            }
            if is_new {
                add(&mut open, after, next);
            }
        }
    }
    let mut report = std::mem::take(&mut explorer.report);
    report.states = found.states.len();
    report.registers = explorer.contents.len();
    report.is_whole = is_whole && problem.is_none();
    let mut cycle = None;
    if report.is_whole {
        cycle = without_progress(&found.states);
        problem = cycle.map(|number| (number, "no end without further faults".to_owned()));
    }
    report.problem = problem.map(|(number, text)| {
        let mut path = vec![number];
        while let Some(before) = path.last().map(|last| found.states[*last as usize].before)
            && before != u32::MAX
        {
            path.push(before);
        }
        path.reverse();
        if let Some(start) = cycle {
            path.extend(steps_without_faults(&found.states, start));
        }
        let steps = describe(&mut explorer, &mut found, begins, &path);
        format!("{text}, after:\n  {}", steps.join("\n  "))
    });
    report
}

/// Returns a state from which the steps without faults do not lead to an end.
fn without_progress(states: &[FoundState]) -> Option<u32> {
    // 0: not visited; otherwise the number of the walk that came here, plus 1.
    let mut walks = vec![0u32; states.len()];
    (0..states.len() as u32).find(|start| {
        let mut at = *start;
        while walks[at as usize] == 0 {
            walks[at as usize] = start + 1;
            match states[at as usize].after {
                Some(after) => at = after,
                None => return false,
            }
        }
        walks[at as usize] == start + 1
    })
}

/// Returns the states after a state by the steps without faults, up to one that comes again.
fn steps_without_faults(states: &[FoundState], start: u32) -> Vec<u32> {
    let mut path = vec![start];
    while let Some(after) = path.last().and_then(|last| states[*last as usize].after) {
        let is_again = path.contains(&after);
        path.push(after);
        if is_again {
            break;
        }
    }
    path.remove(0);
    path
}

/// Returns the steps along a path.
fn describe(
    explorer: &mut Explorer,
    found: &mut Found,
    begins: Vec<super::Way>,
    path: &[u32],
) -> Vec<String> {
    let mut steps = Vec::new();
    let mut ways = begins;
    for number in path {
        let mut ways_here = ways.into_iter();
        let Some((actions, state)) =
            ways_here.find(|(_, state)| found.number(state, u32::MAX).0 == *number)
        else {
            break;
        };
        steps.extend(actions.into_iter().map(|action| explorer.describe(action)));
        ways = explorer.successors(&state);
    }
    steps
}

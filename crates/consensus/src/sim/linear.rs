//! Linearizability of the history of one key, by the search of Wing and Gong with the memory of
//! Lowe: an operation takes effect once, between its call and its return.

use std::collections::HashSet;

/// Effect of an operation on the register; value 0 is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Returned this value.
    Read(u64),
    /// Set this value; 0 removes it.
    Write(u64),
    /// Found the first value and set the second.
    Swap(u64, u64),
}

/// Operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) call: u64,
    /// Time of the return, or `None` if the outcome is unknown: it took effect at any time after
    /// the call, or never.
    pub(super) done: Option<u64>,
    pub(super) effect: Effect,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    NotLinearizable,
    /// The search was too long.
    Undecided,
}

/// Steps of a search at most.
const MAX_STEPS: usize = 2_000_000;

impl Effect {
    /// Returns the value after the effect, or `None` if it cannot be at this value.
    fn apply(self, value: u64) -> Option<u64> {
        match self {
            Effect::Read(seen) => (seen == value).then_some(value),
            Effect::Write(new) => Some(new),
            Effect::Swap(expected, new) => (expected == value).then_some(new),
        }
    }

    /// Returns a value that the operation proves to have been there.
    fn evidence(self) -> Option<u64> {
        match self {
            Effect::Read(seen) | Effect::Swap(seen, _) => Some(seen),
            Effect::Write(_) => None,
        }
    }
}

/// Removes operations of unknown outcome that nothing depends on: all values written are
/// different, so one that no read saw may as well not have been written.
fn without_unseen(all: &[Operation]) -> Vec<Operation> {
    let mut kept = all.to_vec();
    loop {
        let seen: HashSet<u64> = kept.iter().filter_map(|op| op.effect.evidence()).collect();
        let before = kept.len();
        kept.retain(|op| {
            op.done.is_some()
                || match op.effect {
                    Effect::Write(0) => true,
                    Effect::Write(new) | Effect::Swap(_, new) => seen.contains(&new),
                    Effect::Read(_) => false,
                }
        });
        if kept.len() == before {
            return kept;
        }
    }
}

/// Checks the history of a key that has no value at first.
pub(super) fn check(history: &[Operation]) -> Verdict {
    let mut all = without_unseen(history);
    all.sort_by_key(|op| (op.call, op.done.unwrap_or(u64::MAX)));
    let must = all.iter().filter(|op| op.done.is_some()).count();
    // Depth first: the operations done, in their order, with the value before each.
    let mut is_done = vec![false; all.len()];
    let mut path: Vec<(usize, u64)> = Vec::new();
    let mut seen: HashSet<(Vec<u64>, u64)> = HashSet::new();
    let (mut value, mut from, mut first, mut done_must) = (0, 0, 0, 0);
    for _ in 0..MAX_STEPS {
        if done_must == must {
            return Verdict::Linearizable;
        }
        // The next one may be any that was called before the first return of those not done.
        let mut end = u64::MAX;
        let mut next = None;
        for at in first..all.len() {
            if all[at].call > end {
                break;
            }
            if is_done[at] {
                continue;
            }
            end = end.min(all[at].done.unwrap_or(u64::MAX));
            if next.is_none() && at >= from && all[at].call <= end {
                next = all[at].effect.apply(value).map(|after| (at, after));
                if let Some((at, after)) = next {
                    is_done[at] = true;
                    let is_new = seen.insert((bits(&is_done), after));
                    is_done[at] = false;
                    next = next.filter(|_| is_new);
                }
            }
            if next.is_some() {
                break;
            }
        }
        if let Some((at, after)) = next {
            path.push((at, value));
            is_done[at] = true;
            done_must += usize::from(all[at].done.is_some());
            value = after;
            from = 0;
            while first < all.len() && is_done[first] {
                first += 1;
            }
        } else {
            let Some((at, before)) = path.pop() else {
                return Verdict::NotLinearizable;
            };
            is_done[at] = false;
            done_must -= usize::from(all[at].done.is_some());
            value = before;
            from = at + 1;
            first = first.min(at);
        }
    }
    Verdict::Undecided
}

fn bits(all: &[bool]) -> Vec<u64> {
    let word = |part: &[bool]| {
        part.iter()
            .enumerate()
            .fold(0, |word, (at, bit)| word | u64::from(*bit) << at)
    };
    all.chunks(64).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    /// Tries all orders.
    fn naive(all: &[Operation], value: u64) -> bool {
        let is_open = |op: &&Operation| op.done.is_some();
        if !all.iter().any(|op| is_open(&op)) {
            return true;
        }
        let end = all
            .iter()
            .filter_map(|op| op.done)
            .min()
            .unwrap_or(u64::MAX);
        (0..all.len()).any(|at| {
            let mut rest = all.to_vec();
            let op = rest.remove(at);
            op.call <= end
                && op
                    .effect
                    .apply(value)
                    .is_some_and(|after| naive(&rest, after))
        })
    }

    #[test]
    fn small_histories_are_judged_as_by_all_orders() {
        let mut found = [0; 2];
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let len = rng.between(1, 6);
            let history: Vec<Operation> = (1..=len)
                .map(|unique| {
                    let call = rng.below(20);
                    let done = (!rng.one_in(5)).then(|| call + rng.below(8));
                    let effect = match rng.below(5) {
                        0 | 1 => Effect::Read(rng.below(len)),
                        2 | 3 => Effect::Write(unique),
                        _ => Effect::Swap(rng.below(len), unique),
                    };
                    Operation { call, done, effect }
                })
                .collect();
            let expected = naive(&history, 0);
            let verdict = match expected {
                true => Verdict::Linearizable,
                false => Verdict::NotLinearizable,
            };
            assert_eq!(check(&history), verdict, "seed {seed}: {history:?}");
            found[usize::from(expected)] += 1;
        }
        assert!(found.iter().all(|count| *count > 1_000), "{found:?}");
    }
}

//! Histories of simulated runs as JSON lines, for another checker, and corrupted ones.

use support::rng::Rng;

use super::Variant;
use super::linear::{self, Effect, Operation, Verdict};
use super::world;

/// Reason for which no history can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecorderError {
    /// A run fails its own checks.
    Run(String),
    /// The check of a history takes too long.
    Undecided,
}

impl std::fmt::Display for RecorderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecorderError::Run(error) => f.write_str(error),
            RecorderError::Undecided => f.write_str("the check of a history takes too long"),
        }
    }
}

/// Source of histories: those of all keys of one seed after another.
#[derive(Debug)]
pub(crate) struct Recorder {
    seed: u64,
    waiting: Vec<Vec<Operation>>,
    rng: Rng,
}

impl Recorder {
    pub(crate) fn new(first: u64) -> Recorder {
        Recorder {
            seed: first,
            waiting: Vec::new(),
            rng: Rng::new(first),
        }
    }

    fn history(&mut self) -> Result<Vec<Operation>, RecorderError> {
        loop {
            if let Some(history) = self.waiting.pop() {
                return Ok(history);
            }
            let all = world::record(self.seed, Variant::default());
            let all = all.map_err(RecorderError::Run)?;
            self.seed += 1;
            self.waiting.extend(all.into_values());
        }
    }

    /// Returns the next history as a line, and whether it is linearizable.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn next(&mut self) -> Result<(String, bool), RecorderError> {
        judged(&self.history()?)
    }

    /// Returns the next history with one operation changed, as [`Recorder::next`]. The changed one
    /// may be linearizable too.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn next_corrupted(&mut self) -> Result<(String, bool), RecorderError> {
        let mut history = self.history()?;
        corrupt(&mut history, &mut self.rng);
        judged(&history)
    }
}

/// Changes one operation: a value that it saw, its order with another one, or its effect.
fn corrupt(history: &mut [Operation], rng: &mut Rng) {
    let (one, other) = (rng.index(history.len()), rng.index(history.len()));
    let value = match history[other].effect {
        Effect::Read(value) | Effect::Write(value) | Effect::Swap(_, value) => value,
    };
    let length = history[one].done.map(|done| done - history[one].call);
    match rng.below(3) {
        0 => {
            history[one].effect = match history[one].effect {
                Effect::Read(_) => Effect::Read(value),
                Effect::Write(new) => Effect::Swap(value, new),
                Effect::Swap(_, new) => Effect::Swap(value, new),
            }
        }
        1 => {
            history[one].call = history[other].call;
            history[one].done = length.map(|length| history[other].call + length);
        }
        // A write that was answered is not in effect.
        _ => {
            if let Effect::Write(new) | Effect::Swap(_, new) = history[one].effect {
                history[one].effect = Effect::Read(new);
            }
        }
    }
}

fn judged(history: &[Operation]) -> Result<(String, bool), RecorderError> {
    match linear::check(history) {
        Verdict::Linearizable => Ok((line(history, true), true)),
        Verdict::NotLinearizable => Ok((line(history, false), false)),
        Verdict::Undecided => Err(RecorderError::Undecided),
    }
}

/// Returns a history as one line of JSON.
fn line(history: &[Operation], is_linearizable: bool) -> String {
    let operation = |op: &Operation| {
        let (kind, seen, new) = match op.effect {
            Effect::Read(seen) => ("read", seen, 0),
            Effect::Write(new) => ("write", 0, new),
            Effect::Swap(seen, new) => ("swap", seen, new),
        };
        let done = op.done.map_or("null".to_owned(), |done| done.to_string());
        let call = op.call;
        format!(r#"{{"kind":"{kind}","call":{call},"done":{done},"seen":{seen},"new":{new}}}"#)
    };
    let operations: Vec<String> = history.iter().map(operation).collect();
    let operations = operations.join(",");
    format!(r#"{{"linearizable":{is_linearizable},"operations":[{operations}]}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_histories_are_linearizable_and_many_corrupted_ones_are_not() {
        let mut recorder = Recorder::new(0);
        for _ in 0..20 {
            assert!(recorder.next().unwrap().1);
        }
        let corrupted: Vec<bool> = (0..100)
            .map(|_| recorder.next_corrupted().unwrap().1)
            .collect();
        let refused = corrupted.iter().filter(|accepted| !**accepted).count();
        assert!(refused > 30, "{refused}");
    }
}

//! Lines of JSON between a master and the commands that ask it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::master::{JobReport, RealOutcome};
use crate::order::{from_text, lines_of};
use crate::switch_load::VpdpChange;

/// A request to a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a job. The answers are [`Answer::Admitted`], then [`Answer::Pairs`] and
    /// [`Answer::Ended`]. If the connection ends before, the job is cancelled.
    Submit {
        /// Its name.
        name: String,
        /// The job file.
        text: String,
        /// The directory of relative paths, on each host.
        directory: PathBuf,
        /// True if switches only forward.
        is_direct: bool,
    },
    /// List the jobs.
    Jobs,
    /// Show a job.
    Show {
        /// Its number.
        number: u32,
    },
    /// Change the virtual data planes of a running job.
    Update {
        /// Its number.
        number: u32,
        /// The switch by its name. `None`: all.
        switch: Option<String>,
        /// The reduction by its name. `None`: all.
        reduction: Option<String>,
        /// The change.
        change: VpdpChange,
    },
    /// Return the program of a virtual data plane of a running job.
    Program {
        /// Its number.
        number: u32,
        /// The switch by its name.
        switch: Option<String>,
        /// The reduction by its name.
        reduction: Option<String>,
    },
    /// Cancel a job. The answer comes when the switches have nothing of it.
    Cancel {
        /// Its number.
        number: u32,
    },
}

/// An answer of a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The request cannot be carried out.
    Refused {
        /// The error.
        error: String,
    },
    /// A job runs.
    Admitted {
        /// Its number.
        number: u32,
    },
    /// An update has ended.
    Updated {
        /// Number of the virtual data planes that have it.
        planes: usize,
    },
    /// A program.
    Program {
        /// The P4 text.
        text: String,
    },
    /// States of jobs.
    Jobs {
        /// The jobs.
        jobs: Vec<JobReport>,
    },
    /// Pairs of a result: each key in hexadecimal digits, with its value.
    Pairs {
        /// Index of the reduction.
        reduction: usize,
        /// The pairs.
        pairs: Vec<(String, i128)>,
    },
    /// A job has ended.
    Ended {
        /// The job.
        job: JobReport,
        /// Outcome of each reduction.
        outcomes: Vec<OutcomeLine>,
    },
}

/// Outcome of a reduction without its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeLine {
    /// Number of keys of the result.
    pub keys: u64,
    /// Nanoseconds of the last attempt.
    pub nanoseconds: u64,
    /// The other values.
    pub outcome: RealOutcome,
}

/// Returns the lines of a job that has ended.
pub fn end_lines(job: JobReport, outcomes: &[RealOutcome]) -> Vec<Answer> {
    let mut lines = Vec::new();
    for (reduction, outcome) in outcomes.iter().enumerate() {
        let parts = lines_of(&outcome.result);
        lines.extend(parts.map(|pairs| Answer::Pairs { reduction, pairs }));
    }
    let outcomes = outcomes.iter().map(|outcome| OutcomeLine {
        keys: outcome.result.len() as u64,
        nanoseconds: outcome.took.0,
        outcome: outcome.without_result(),
    });
    let outcomes = outcomes.collect();
    lines.push(Answer::Ended { job, outcomes });
    lines
}

/// Adds pairs of a line to the results of reductions.
pub fn add_pairs(outcomes: &mut Vec<RealOutcome>, reduction: usize, pairs: &[(String, i128)]) {
    if reduction >= outcomes.len() && reduction < usize::from(u16::MAX) {
        outcomes.resize(reduction + 1, RealOutcome::default());
    }
    if let Some(outcome) = outcomes.get_mut(reduction) {
        outcome.result.extend(pairs.iter().filter_map(from_text));
    }
}

/// Returns the outcomes of a job, with the pairs that have arrived.
///
/// # Errors
/// Pairs are missing.
pub fn join_outcomes(
    mut outcomes: Vec<RealOutcome>,
    lines: Vec<OutcomeLine>,
) -> Result<Vec<RealOutcome>, String> {
    outcomes.resize(lines.len(), RealOutcome::default());
    let joined = outcomes.into_iter().zip(lines).map(|(outcome, line)| {
        let arrived = outcome.result.len() as u64;
        if arrived != line.keys {
            let keys = line.keys;
            return Err(format!(
                "{arrived} of {keys} keys of the result have arrived"
            ));
        }
        Ok(RealOutcome {
            result: outcome.result,
            took: packet::Nanos(line.nanoseconds),
            ..line.outcome
        })
    });
    joined.collect()
}

//! Lines of JSON between a master and the commands that ask it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::master::{JobReport, RealOutcome};
use crate::order::{from_text, lines_of};
use crate::switch_load::VpdpChange;
use crate::vector_lines::{VectorPart, add_part, parts_of};

/// A request to a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a job. The answers are [`Answer::Admitted`], then [`Answer::Pairs`],
    /// [`Answer::Vector`] and [`Answer::Ended`]. If the connection ends before, the job is
    /// cancelled.
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
    /// The master is there. It is sent each second to those who wait for the end of a job.
    Alive,
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
    /// Values of a result that is a vector, in order.
    Vector {
        /// Index of the reduction.
        reduction: usize,
        /// The values.
        values: VectorPart,
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
    /// Number of keys or values of the result.
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
        let parts = outcome.vector.iter().flat_map(parts_of);
        lines.extend(parts.map(|values| Answer::Vector { reduction, values }));
    }
    let outcomes = outcomes.iter().map(|outcome| OutcomeLine {
        keys: outcome.arrived(),
        nanoseconds: outcome.took.0,
        outcome: outcome.without_result(),
    });
    let outcomes = outcomes.collect();
    lines.push(Answer::Ended { job, outcomes });
    lines
}

/// Adds the pairs or values of an answer to the results of reductions. Other answers have none.
pub fn add_answer(outcomes: &mut Vec<RealOutcome>, answer: &Answer) {
    let (Answer::Pairs { reduction, .. } | Answer::Vector { reduction, .. }) = answer else {
        return;
    };
    let reduction = *reduction;
    if reduction >= outcomes.len() && reduction < usize::from(u16::MAX) {
        outcomes.resize(reduction + 1, RealOutcome::default());
    }
    let Some(outcome) = outcomes.get_mut(reduction) else {
        return;
    };
    match answer {
        Answer::Pairs { pairs, .. } => outcome.result.extend(pairs.iter().filter_map(from_text)),
        Answer::Vector { values, .. } => add_part(&mut outcome.vector, values),
        _ => {}
    }
}

/// Returns the outcomes of a job, with the pairs and values that have arrived.
///
/// # Errors
/// Some are missing.
pub fn join_outcomes(
    mut outcomes: Vec<RealOutcome>,
    lines: Vec<OutcomeLine>,
) -> Result<Vec<RealOutcome>, String> {
    outcomes.resize(lines.len(), RealOutcome::default());
    let joined = outcomes.into_iter().zip(lines).map(|(outcome, line)| {
        let (arrived, keys) = (outcome.arrived(), line.keys);
        if arrived != keys {
            return Err(format!(
                "{arrived} of {keys} keys or values of the result have arrived"
            ));
        }
        Ok(RealOutcome {
            result: outcome.result,
            vector: outcome.vector,
            took: packet::Nanos(line.nanoseconds),
            ..line.outcome
        })
    });
    joined.collect()
}

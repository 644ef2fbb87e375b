//! Reports of a master: its jobs, and the outcomes of reductions.

use aggregate::{MapperCounts, Pair, ReducerCounts, Vector};
use packet::Nanos;
use serde::{Deserialize, Serialize};

use super::reduction::{Phase, Reduction};
use super::{JobState, Master, unknown};
use crate::vector_lines::{VectorDigest, len_of};

/// Outcome of a reduction between real hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealOutcome {
    /// The reduced pairs, sorted by key. They go in lines of their own.
    #[serde(skip)]
    pub result: Vec<Pair>,
    /// The reduced vector. It goes in lines of its own too.
    #[serde(skip)]
    pub vector: Option<Vector>,
    /// The vector that each mapper has got, in the order of their reports.
    pub received: Vec<VectorDigest>,
    /// Number of its keys or values, also if an engine has got it.
    pub keys: u64,
    /// The failure, if it failed.
    pub failure: Option<String>,
    /// True if the result is complete.
    pub is_complete: bool,
    /// Counters of the reducer.
    pub reducer: ReducerCounts,
    /// Counters of the mappers that have reported their end.
    pub mappers: Vec<MapperCounts>,
    /// Time from the begin of the last attempt to the end.
    #[serde(skip)]
    pub took: Nanos,
    /// Bytes of the frames with messages to the reducer.
    pub bytes: u64,
    /// Number of attempts that began.
    pub attempts: u32,
    /// Number of mappers that were started again.
    pub retried: u32,
}

impl RealOutcome {
    /// Returns the number of pairs or values of the result that are here.
    pub(crate) fn arrived(&self) -> u64 {
        self.result.len() as u64 + self.vector.as_ref().map_or(0, len_of)
    }

    /// Forgets the result of an attempt.
    pub(crate) fn forget_result(&mut self) {
        self.result.clear();
        self.vector = None;
        self.received.clear();
    }

    /// Returns the outcome without the reduced pairs or values.
    pub(crate) fn without_result(&self) -> RealOutcome {
        RealOutcome {
            result: Vec::new(),
            vector: None,
            received: self.received.clone(),
            failure: self.failure.clone(),
            mappers: self.mappers.clone(),
            ..*self
        }
    }
}

/// State of a job, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// `running`, `complete`, `failed` or `cancelled`.
    pub state: String,
    /// Its reductions.
    pub reductions: Vec<ReductionReport>,
}

/// State of a reduction, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionReport {
    /// Its name.
    pub name: String,
    /// Number of the reduction in messages.
    pub job: u16,
    /// The step that it is at.
    pub step: String,
    /// Number of attempts that began.
    pub attempts: u32,
    /// Number of mappers that were started again.
    pub retried: u32,
    /// Names of the switches that reduce.
    pub switches: Vec<String>,
    /// Number of keys or values of the result so far.
    pub keys: u64,
    /// The failure, if it failed.
    pub failure: Option<String>,
}

impl Master {
    /// Returns the state of all jobs.
    pub fn jobs(&self) -> Vec<JobReport> {
        let all = self.jobs.iter();
        all.map(|(number, job)| self.report_of(*number, job))
            .collect()
    }

    /// Returns the state of a job.
    ///
    /// # Errors
    /// There is no such job.
    pub fn job(&self, number: u32) -> Result<JobReport, String> {
        let job = self.jobs.get(&number).ok_or_else(|| unknown(number))?;
        Ok(self.report_of(number, job))
    }

    fn report_of(&self, number: u32, job: &JobState) -> JobReport {
        let mut outcomes = job.reductions.iter().map(|it| &it.outcome);
        let is_complete = job.failure.is_none() && outcomes.all(|outcome| outcome.is_complete);
        let state = match (job.has_ended, job.is_cancelled) {
            (false, _) => "running",
            (true, true) => "cancelled",
            (true, false) if is_complete => "complete",
            (true, false) => "failed",
        };
        let reductions = job.reductions.iter().map(|reduction| {
            let arrived = reduction.outcome.arrived();
            ReductionReport {
                name: reduction.planned.request.name.clone(),
                job: reduction.planned.job,
                step: self.step_of(reduction),
                attempts: reduction.outcome.attempts,
                retried: reduction.outcome.retried,
                switches: self.switches_of(reduction),
                keys: arrived.max(reduction.outcome.keys),
                failure: reduction.outcome.failure.clone(),
            }
        });
        JobReport {
            number,
            name: job.name.clone(),
            state: state.to_owned(),
            reductions: reductions.chain(self.report_of_group(job)).collect(),
        }
    }

    /// Returns the names of the switches of a reduction.
    pub(super) fn switches_of(&self, reduction: &Reduction) -> Vec<String> {
        let switches = reduction.planned.switches.iter();
        switches
            .map(|it| self.topology.switches[it.switch.0].name.clone())
            .collect()
    }

    fn step_of(&self, reduction: &Reduction) -> String {
        let hosts = reduction.hosts().into_iter();
        let mut lost = hosts.filter(|host| !self.agents[host.0].is_connected);
        match (reduction.phase, lost.next()) {
            (Phase::Ended, _) => "ended".to_owned(),
            (Phase::Complete(_), _) => "complete".to_owned(),
            (_, Some(host)) => {
                format!("waits for {}", reduction.role_on(&self.topology, host))
            }
            (Phase::Preparing, None) => "maps".to_owned(),
            (Phase::Ready, None) => "loads switches".to_owned(),
            (Phase::Running, None) => "reduces".to_owned(),
        }
    }

    /// Takes the outcomes of a job that has ended. Results are taken once.
    pub fn take_outcomes(&mut self, number: u32) -> Vec<RealOutcome> {
        let job = self.jobs.get_mut(&number);
        let reductions = job.map(|job| job.reductions.iter_mut());
        let taken = reductions.into_iter().flatten().map(|reduction| {
            let mut outcome = reduction.outcome.without_result();
            outcome.result = std::mem::take(&mut reduction.outcome.result);
            outcome.vector = reduction.outcome.vector.take();
            outcome
        });
        taken.collect()
    }
}

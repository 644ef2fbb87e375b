//! Updates: changes of the virtual data planes (vPDPs) of running reductions, without a load.
//!
//! An update keeps the number of the load, so no mapper replays. No load begins while one is under
//! way: it would give the switch the program from before.

use std::collections::BTreeSet;

use fabric::topology::SwitchId;

use super::{Action, Master, unknown};
use crate::master::reduction::Phase;
use crate::switch_load::{VpdpChange, VpdpUpdate};

/// Number of an update, from the caller.
pub type UpdateNumber = u64;

/// A vPDP: its switch, and the number of its reduction.
type VpdpAt = (SwitchId, u16);

/// The vPDPs of a job to update, by name. `None`: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VpdpChoice {
    /// The switch.
    pub switch: Option<String>,
    /// The reduction.
    pub reduction: Option<String>,
}

/// An update that is under way.
#[derive(Debug)]
pub(super) struct Update {
    number: UpdateNumber,
    change: VpdpChange,
    waiting: BTreeSet<VpdpAt>,
    /// Number of vPDPs that have it.
    done: usize,
    error: Option<String>,
}

impl Master {
    /// Begins an update of a job. An action has the result.
    ///
    /// # Errors
    /// The job does not reduce, has no such vPDP, or another update of one is under way. A program
    /// is for one vPDP.
    pub fn update(
        &mut self,
        number: UpdateNumber,
        (job, choice): (u32, &VpdpChoice),
        change: &VpdpChange,
    ) -> Result<(), String> {
        let chosen = self.choose(job, choice)?;
        if let VpdpChange::Program { may_lose, .. } = change {
            self.single(job, &chosen)?;
            check_loss(may_lose)?;
        }
        let mut pending = self.updates.iter().flat_map(|update| &update.waiting);
        if let Some((switch, _)) = pending.find(|at| chosen.contains(at)) {
            let name = &self.topology.switches[switch.0].name;
            return Err(format!(
                "job {job}: another update in switch {name} is under way; wait for its end"
            ));
        }
        let mut away = chosen
            .iter()
            .map(|(switch, _)| *switch)
            .filter(|switch| !self.switches[switch.0].is_connected);
        if let Some(switch) = away.next() {
            let name = &self.topology.switches[switch.0].name;
            let why = &self.switches[switch.0].lost.1;
            return Err(format!(
                "job {job}: switch {name} is away: {why}; wait for its return"
            ));
        }
        for (switch, reduction) in &chosen {
            let update = VpdpUpdate {
                reduction: *reduction,
                change: change.clone(),
            };
            self.actions.push_back(Action::Update(*switch, update));
        }
        self.updates.push(Update {
            number,
            change: change.clone(),
            waiting: chosen,
            done: 0,
            error: None,
        });
        Ok(())
    }

    /// Returns the program of a vPDP of a job.
    ///
    /// # Errors
    /// The job does not reduce, or the choice is not one vPDP.
    pub fn program(&self, job: u32, choice: &VpdpChoice) -> Result<String, String> {
        let chosen = self.choose(job, choice)?;
        let (switch, reduction) = self.single(job, &chosen)?;
        let updated = self.updated.get(&(switch, reduction));
        let planned = || self.plan.alone(reduction, &self.topology).program(switch);
        Ok(updated.cloned().unwrap_or_else(planned))
    }

    /// Notes that a vPDP has its update, or why not.
    pub fn vpdp_updated(&mut self, at: (SwitchId, u16), result: Result<(), String>) {
        let mut updates = self.updates.iter_mut();
        let Some(update) = updates.find(|update| update.waiting.contains(&at)) else {
            return;
        };
        update.waiting.remove(&at);
        match result {
            Ok(()) => {
                update.done += 1;
                // The reduction may have ended at this moment.
                if let VpdpChange::Program { text, .. } = &update.change
                    && self.plan.reductions.iter().any(|it| it.job == at.1)
                {
                    self.updated.insert(at, text.clone());
                }
            }
            Err(why) => {
                let name = &self.topology.switches[at.0.0].name;
                update.error.get_or_insert(format!("switch {name}: {why}"));
            }
        }
        let ended = self.updates.extract_if(.., |it| it.waiting.is_empty());
        for update in ended {
            let result = update.error.map_or(Ok(update.done), Err);
            self.actions
                .push_back(Action::Updated(update.number, result));
        }
    }

    /// Ends the updates of a switch that is lost.
    pub(super) fn end_updates(&mut self, switch: SwitchId, why: &str) {
        let waiting = self.updates.iter().flat_map(|update| &update.waiting);
        let lost: Vec<VpdpAt> = waiting.filter(|at| at.0 == switch).copied().collect();
        for at in lost {
            self.vpdp_updated(at, Err(why.to_owned()));
        }
    }

    /// Returns the vPDPs of a job that reduces.
    fn choose(&self, job: u32, choice: &VpdpChoice) -> Result<BTreeSet<VpdpAt>, String> {
        let state = self.jobs.get(&job).ok_or_else(|| unknown(job))?;
        if state.cleaned_by.is_some() {
            return Err(format!("job {job} has ended"));
        }
        let mut reductions = state.reductions.iter();
        if !reductions.any(|reduction| reduction.phase == Phase::Running) {
            return Err(format!(
                "job {job} does not reduce yet; wait until `polyplane aggregate show {job}` says so"
            ));
        }
        let name_of = |switch: SwitchId| &self.topology.switches[switch.0].name;
        let mut chosen = BTreeSet::new();
        let mut whole = BTreeSet::new();
        let reductions = state.reductions.iter();
        let reductions = reductions.filter(|it| it.phase == Phase::Running);
        for reduction in reductions {
            let planned = &reduction.planned;
            let of_name = |name: &String| *name == planned.request.name;
            if !choice.reduction.as_ref().is_none_or(of_name) {
                continue;
            }
            for at in &planned.switches {
                let of_name = |name: &String| name == name_of(at.switch);
                if !choice.switch.as_ref().is_none_or(of_name) {
                    continue;
                }
                match self.topology.switches[at.switch.0].hosts_tenants {
                    true => chosen.insert((at.switch, planned.job)),
                    false => whole.insert(name_of(at.switch).clone()),
                };
            }
        }
        match (chosen.is_empty(), whole.first()) {
            (false, _) => Ok(chosen),
            (true, Some(name)) => Err(format!(
                "job {job}: switch {name} has one program for all jobs; only a switch with \
                 `tenants = true` in the topology has one for each"
            )),
            (true, None) => Err(format!(
                "job {job} reduces in no such switch; `polyplane aggregate show {job}` names them"
            )),
        }
    }

    /// Returns the only one of these vPDPs.
    fn single(&self, job: u32, chosen: &BTreeSet<VpdpAt>) -> Result<VpdpAt, String> {
        let mut all = chosen.iter().copied();
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(one),
            _ => {
                let all = chosen.iter().map(|(switch, reduction)| {
                    let name = &self.topology.switches[switch.0].name;
                    let mut reductions = self.plan.reductions.iter();
                    let reduction = reductions.find(|it| it.job == *reduction);
                    let reduction = reduction.map_or("", |it| &it.request.name);
                    format!("--switch {name} --reduction {reduction}")
                });
                let all: Vec<String> = all.collect();
                Err(format!(
                    "job {job} has {} programs; choose one: {}",
                    chosen.len(),
                    all.join(", or ")
                ))
            }
        }
    }
}

/// Objects of a reduction's program, by words in their names.
const OWN: [&str; 4] = ["reduction", "flows", "routes", "copies"];

/// Refuses a loss of a reduction's own state: its result would be wrong.
fn check_loss(may_lose: &[String]) -> Result<(), String> {
    let is_own = |name: &&String| *name == "*" || OWN.iter().any(|word| name.contains(word));
    match may_lose.iter().find(is_own) {
        Some(name) => Err(format!(
            "`{name}` has state of the reduction, which may not be lost; name other objects, or \
             cancel the job"
        )),
        None => Ok(()),
    }
}

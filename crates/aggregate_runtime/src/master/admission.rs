//! Admission of jobs: their plans, and whether all that they need is there.

use aggregate::{MapperCounts, Plan, PlanError, ReductionRequest, largest_memory, slot_bytes};
use fabric::Topology;
use fabric::topology::PlaneSpec;

use super::reduction::{Part, Phase, Reduction, Source};
use super::{AgentState, Master, RealOutcome, SwitchState};
use crate::order::AttemptId;

impl Master {
    /// Plans reductions with these mappers.
    ///
    /// # Errors
    /// As for [`Master::submit`].
    pub(super) fn plan(
        &mut self,
        requests: &[ReductionRequest],
        sources: Vec<Vec<Source>>,
    ) -> Result<Vec<Reduction>, String> {
        let planned = Plan::new(&self.with_free_slots(), requests);
        let planned = planned.map_err(|error| refusal(&error, requests))?;
        let mut reductions = Vec::new();
        for (mut planned, sources) in planned.reductions.into_iter().zip(sources) {
            self.last_reduction = self.free_number();
            planned.job = self.last_reduction;
            let count = sources.len();
            let reduction = Reduction {
                sources,
                at: AttemptId {
                    job: planned.job,
                    attempt: 0,
                },
                phase: Phase::Preparing,
                reducer: Part::Absent,
                parts: vec![Part::Absent; count],
                mapped: vec![false; count],
                has_lost_switch: false,
                failures: 0,
                outcome: RealOutcome {
                    mappers: vec![MapperCounts::default(); count],
                    ..RealOutcome::default()
                },
                planned,
            };
            self.check_presence(&reduction)?;
            reductions.push(reduction);
        }
        Ok(reductions)
    }

    /// Returns an error if an agent or a switch of a reduction is not there.
    fn check_presence(&self, reduction: &Reduction) -> Result<(), String> {
        for host in reduction.hosts() {
            let AgentState { is_connected, lost } = &self.agents[host.0];
            if !is_connected {
                let who = reduction.role_on(&self.topology, host);
                let address = self.topology.hosts[host.0].address;
                return Err(format!(
                    "{who}: {}; start `polyplane aggregate agent --address {address}` there",
                    lost.1
                ));
            }
        }
        for switch in reduction.planned.passed() {
            let SwitchState {
                is_connected, lost, ..
            } = &self.switches[switch.0];
            if !is_connected {
                let name = &self.topology.switches[switch.0].name;
                return Err(format!("switch {name}: {}", lost.1));
            }
        }
        Ok(())
    }

    /// Returns the topology with the slots that no reduction has. A switch that reduces keeps at
    /// least one, which is too few for any reduction.
    fn with_free_slots(&self) -> Topology {
        let mut topology = self.topology.clone();
        for reduction in &self.plan.reductions {
            for planned in &reduction.switches {
                let plane = &mut topology.switches[planned.switch.0].plane;
                if let PlaneSpec::Aggregate { slots } = plane {
                    let used = reduction.request.slots.saturating_mul(2);
                    *slots = slots.saturating_sub(used).max(1);
                }
            }
        }
        topology
    }

    /// Returns the next number of a reduction that no other has.
    fn free_number(&self) -> u16 {
        let mut number = self.last_reduction;
        loop {
            number = number.wrapping_add(1).max(1);
            let mut taken = self.plan.reductions.iter();
            if !taken.any(|reduction| reduction.job == number) {
                return number;
            }
        }
    }
}

/// Returns the message of an error of a plan, with bytes in place of slots.
fn refusal(error: &PlanError, requests: &[ReductionRequest]) -> String {
    if let PlanError::NoRoom {
        reduction,
        needed,
        free,
    } = error
        && let Some(request) = requests.iter().find(|request| request.name == *reduction)
    {
        let slot = slot_bytes(request.shape);
        let remedy = match largest_memory(*free) {
            0 => String::new(),
            memory => format!("give it at most `memory {memory}`, or "),
        };
        let (needed, free) = (needed * slot, free * slot);
        return format!(
            "{reduction}: no room: it needs {needed} bytes of slots in a switch, and no switch on \
             its paths has more than {free} free; {remedy}wait for the end of another job"
        );
    }
    error.to_string()
}

//! Work units of a packet, as engines charge them ([`ir::work`]). A packet that may use up its
//! budget is no flow: the device could drop it.

use bits::{Id, IdVec};
use ir::work::{Work, hash_steps, units};
use ir::{ActionId, ActionParam, Control, ControlId, ParserId, Program, StageId, StateId, Stmt};

use super::{End, Walk};
use crate::flow::NotOffloadable;

/// Work units of a recirculation beside those of the controls, and of a copy: at least those that
/// `switch` charges.
const ROUND: u32 = 64;
const COPY: u32 = 16 + (packet::MAX_FRAME / 128) as u32;

/// Costs of a program's code.
#[derive(Debug)]
pub(super) struct Costs {
    actions: IdVec<ActionId, u32>,
    states: IdVec<ParserId, Vec<u32>>,
    stages: IdVec<ControlId, Vec<u32>>,
    controls: u32,
}

impl Costs {
    pub(super) fn of(program: &Program) -> Costs {
        let work = Work::of(program);
        let parsers = program.parsers.values();
        let states = parsers.map(|parser| {
            let states = parser.states.values();
            states.map(|state| work.state(state)).collect()
        });
        let controls = program.controls.values();
        let stages = controls.map(|control| {
            let stages = control.stages.values();
            stages.map(|stage| work.stage(stage)).collect()
        });
        Costs {
            actions: program.actions.ids().map(|id| work.action(id)).collect(),
            states: states.collect(),
            stages: stages.collect(),
            controls: work.controls(),
        }
    }
}

impl Walk<'_> {
    /// Charges work units.
    fn spend(&mut self, units: u32) -> Result<(), End> {
        self.spent = self.spent.saturating_add(units);
        match self.spent > self.budget {
            true => Err(NotOffloadable::Work.into()),
            false => Ok(()),
        }
    }

    pub(super) fn spend_on_state(&mut self, parser: ParserId, state: StateId) -> Result<(), End> {
        let states = self.costs.states.get(parser);
        let cost = states.and_then(|states| states.get(state.index()));
        self.spend(cost.copied().unwrap_or(1))
    }

    pub(super) fn spend_on_stage(&mut self, control: ControlId, at: StageId) -> Result<(), End> {
        let stages = self.costs.stages.get(control);
        let cost = stages.and_then(|stages| stages.get(at.index()));
        self.spend(cost.copied().unwrap_or(0))
    }

    pub(super) fn spend_on_link(
        &mut self,
        control: &Control,
        from: StageId,
        to: StageId,
    ) -> Result<(), End> {
        let cost = Work::of(self.program).back_link(control, from, to);
        self.spend(cost)
    }

    pub(super) fn spend_on_action(&mut self, action: ActionId) -> Result<(), End> {
        let cost = self.costs.actions.get(action).copied();
        self.spend(cost.unwrap_or(0))
    }

    /// Returns the units of an iteration of a loop.
    pub(super) fn cost_of_round(&self, params: &[ActionParam], body: &[Stmt]) -> u32 {
        Work::of(self.program).round(params, body)
    }

    pub(super) fn spend_on_round(&mut self, cost: u32) -> Result<(), End> {
        self.spend(cost)
    }

    /// Charges the checksum of the longest payload.
    pub(super) fn spend_on_payload(&mut self, algorithm: ir::HashAlgorithm) -> Result<(), End> {
        self.spend(units(hash_steps(algorithm, packet::MAX_FRAME as u64)))
    }

    /// Charges a recirculation or a copy.
    pub(super) fn spend_on_packet(&mut self) -> Result<(), End> {
        let controls = self.costs.controls;
        self.spend(controls.saturating_add(ROUND.max(COPY)))
    }
}

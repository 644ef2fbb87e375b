//! Permissions at run time: what a monitor may still change.

use packet::Nanos;
use telemetry::{FlowKey, ReportedPath};

use crate::decision::DecisionRefusal;
use crate::loops::{ReflexIndex, ReflexSpec};
use crate::monitor::flow_table::FlowTable;
use crate::write::{EntryKey, TableWrite};

/// Time after which a flow without an alarm may lose its state here. Its entry stays.
const FORGET: Nanos = Nanos::from_secs(60);
const SECOND: u64 = 1_000_000_000;

/// A permission with its use so far.
pub(crate) struct Permission {
    index: ReflexIndex,
    spec: ReflexSpec,
    flows: FlowTable<FlowKey>,
    states: Box<[FlowState]>,
    entries: usize,
    /// Changes that may be made now, in billionths.
    credit: u64,
    credited: Nanos,
}

/// State of a flow that had an alarm.
#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    /// Time of its last change, and the port of it.
    changed: Option<(Nanos, u32)>,
    /// The last change is not done.
    is_pending: bool,
}

/// A change that a permission allows, before the store takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) write: TableWrite,
    place: usize,
    is_new: bool,
}

impl Permission {
    pub(crate) fn new(index: ReflexIndex, spec: &ReflexSpec, seed: u64) -> Permission {
        // Twice as many flows can have alarms as can have entries.
        let flows = FlowTable::new(spec.entries.saturating_mul(2), FORGET, seed);
        Permission {
            index,
            states: vec![FlowState::default(); flows.places()].into(),
            flows,
            spec: spec.clone(),
            entries: 0,
            credit: SECOND,
            credited: Nanos::ZERO,
        }
    }

    /// Decides about a detour of a flow: the next port of the list after the one that the packet
    /// took. Nothing changes before [`Permission::made`].
    pub(crate) fn detour(
        &mut self,
        flow: &FlowKey,
        path: &ReportedPath<'_>,
        now: Nanos,
    ) -> Result<Allowed, DecisionRefusal> {
        let key = EntryKey::of_flow(flow, &self.spec.key).ok_or(DecisionRefusal::NoKey)?;
        let place = self.flows.place(flow, now).ok_or(DecisionRefusal::NoRoom)?;
        if place.is_new {
            self.states[place.index] = FlowState::default();
        }
        let state = self.states[place.index];
        let is_early = state
            .changed
            .is_some_and(|(at, _)| now < at + self.spec.hold);
        if state.is_pending || is_early {
            return Err(DecisionRefusal::Held);
        }
        let is_new = state.changed.is_none();
        if is_new && self.entries >= self.spec.entries {
            return Err(DecisionRefusal::Entries);
        }
        self.refill(now);
        if self.credit < SECOND {
            return Err(DecisionRefusal::Rate);
        }
        // The port that the first node sent the packet to; else that of the last change.
        let first = path.hops().next().and_then(|hop| hop.interfaces);
        let first = first.map(|interfaces| u32::from(interfaces.egress));
        let used = first.or(state.changed.map(|(_, port)| port));
        let ports = &self.spec.ports;
        let at = ports.iter().position(|port| Some(*port) == used);
        let next = at.map_or(0, |at| (at + 1) % ports.len());
        Ok(Allowed {
            write: TableWrite {
                reflex: self.index,
                key,
                port: ports[next],
            },
            place: place.index,
            is_new,
        })
    }

    /// Notes that the store took a change. Returns the flow's place, for [`Permission::done`].
    pub(crate) fn made(&mut self, allowed: &Allowed, now: Nanos) -> usize {
        self.credit -= SECOND;
        self.entries += usize::from(allowed.is_new);
        self.states[allowed.place] = FlowState {
            changed: Some((now, allowed.write.port)),
            is_pending: true,
        };
        allowed.place
    }

    /// Notes that the element has the last change of a flow.
    pub(crate) fn done(&mut self, place: usize) {
        self.states[place].is_pending = false;
    }

    /// Notes that the store refused the last change of a flow.
    pub(crate) fn undone(&mut self, place: usize) {
        self.states[place] = FlowState::default();
        self.entries = self.entries.saturating_sub(1);
    }

    fn refill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.credited.0);
        self.credited = now;
        let most = self.spec.rate.saturating_mul(SECOND);
        let more = passed.saturating_mul(self.spec.rate);
        self.credit = self.credit.saturating_add(more).min(most);
    }

    /// Returns the number of entries that it made.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }
}

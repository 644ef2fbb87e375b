//! Offload of a switch's flows, and its removed entries, which wait for the last counts of the NIC.

use std::collections::{BTreeMap, BTreeSet};

use offload::PortRole;
use offload_runtime::{Offload, OffloadHandle, OffloadSetup, RemovedEntry, SampleReader};
use packet::{Nanos, PortId};
use pof::{CONTROLLER_PORT, ControlledSwitch, Event, Removed, WAITING_PORT};

use crate::PofError;

/// Returns the role of a port of the program that POF tables become. Each port of the data plane is
/// taken as there.
pub fn pof_role(port: PortId) -> PortRole {
    match port.0 {
        CONTROLLER_PORT => PortRole::Controller,
        WAITING_PORT => PortRole::Nowhere,
        _ => PortRole::Data,
    }
}

/// Returns the roles of ports of a switch that has these.
pub fn pof_roles(ports: &[u16]) -> impl Fn(PortId) -> PortRole + Send + Sync + use<> {
    let ports: BTreeSet<PortId> = ports.iter().map(|id| PortId((*id).into())).collect();
    move |port| match pof_role(port) {
        PortRole::Data if !ports.contains(&port) => PortRole::Missing,
        role => role,
    }
}

/// Offload that runs.
pub(crate) struct FlowOffload {
    offload: Offload,
    /// Entries that have gone, by the number of their late counts.
    removed: BTreeMap<u64, Removed>,
}

impl FlowOffload {
    pub(crate) fn start(
        setup: OffloadSetup,
        readers: Vec<SampleReader>,
        switch: &mut ControlledSwitch,
        clock: impl Fn() -> Nanos + Send + 'static,
    ) -> Result<FlowOffload, PofError> {
        let device = switch.forwarder.device();
        let offload = Offload::start(setup, readers, device, clock);
        Ok(FlowOffload {
            offload: offload.map_err(PofError::Offload)?,
            removed: BTreeMap::new(),
        })
    }

    pub(crate) fn handle(&self) -> OffloadHandle {
        self.offload.handle()
    }

    /// Sets a port up or down: no rule sends to a port that is down.
    pub(crate) fn set_port(&mut self, port: u16, is_up: bool) {
        self.offload.set_port(PortId(port.into()), is_up);
    }

    /// Returns true if an event waits for the last counts of the NIC. [`FlowOffload::take_events`]
    /// returns it.
    pub(crate) fn holds(
        &mut self,
        event: &Event,
        switch: &mut ControlledSwitch,
        now: Nanos,
    ) -> bool {
        let Event::Removed(removed) = event else {
            return false;
        };
        let (table, entry) = removed.in_device;
        let place = RemovedEntry { table, entry };
        let device = switch.forwarder.device();
        let number = self.offload.await_counts(device, place, now);
        self.removed.insert(number, removed.clone());
        true
    }

    /// Gives changes to the offload and its counts to the device. Returns true if more counts wait.
    pub(crate) fn turn(&mut self, switch: &mut ControlledSwitch, now: Nanos) -> bool {
        self.offload.turn(switch.forwarder.device(), now)
    }

    /// Returns the events that have waited and wait no longer.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        let settled = self.offload.take_settled().into_iter();
        let events = settled.filter_map(|late| {
            let mut removed = self.removed.remove(&late.number)?;
            removed.count.packets += late.counts.packets;
            removed.count.bytes += late.counts.bytes;
            Some(Event::Removed(removed))
        });
        events.collect()
    }

    /// Removes all rules, and gives their last counts to the device. No event waits any longer.
    pub(crate) fn finish(&mut self, switch: &mut ControlledSwitch) {
        self.offload.finish(switch.forwarder.device());
    }
}

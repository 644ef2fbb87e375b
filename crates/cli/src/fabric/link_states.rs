//! States of the links of a real fabric, as its switches see them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::topology::SwitchId;
use packet::PortId;

/// The states that switches have noticed. A port of which nothing is known is up.
#[derive(Default)]
pub(super) struct LinkStates {
    are_up: Mutex<BTreeMap<(SwitchId, PortId), bool>>,
    changed: Condvar,
}

impl LinkStates {
    /// Sets the state of a port.
    pub(super) fn set(&self, port: (SwitchId, PortId), is_up: bool) {
        let mut states = self.are_up.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(port, is_up);
        self.changed.notify_all();
    }

    /// Waits until the state of a port is this one, for at most this time. Returns true if it is.
    pub(super) fn wait(&self, port: (SwitchId, PortId), is_up: bool, time: Duration) -> bool {
        let states = self.are_up.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = |states: &mut BTreeMap<(SwitchId, PortId), bool>| {
            states.get(&port).copied().unwrap_or(true) != is_up
        };
        let waited = self.changed.wait_timeout_while(states, time, differs);
        let (_states, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }
}

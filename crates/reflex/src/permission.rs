//! Permissions at run time: what a monitor may still change.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use packet::Nanos;
use telemetry::{FlowKey, IntNodeId, ReportedPath};

use crate::decision::DecisionRefusal;
use crate::loops::{ReflexIndex, ReflexSpec};
use crate::write::{EntryKey, TableWrite};

/// Credit of one change, in billionths.
const CHANGE: u64 = 1_000_000_000;
/// Share of a second's changes that may be made at once.
const BURST: u64 = 100;

/// A permission with its use so far.
pub(crate) struct Permission {
    index: ReflexIndex,
    spec: ReflexSpec,
    /// Node of the element in paths; the first node if it is not known.
    node: Option<IntNodeId>,
    /// Entries that it made, at most [`ReflexSpec::entries`], and some that were refused.
    entries: HashMap<EntryKey, EntryState>,
    made: usize,
    /// Changes that may be made now, in billionths.
    credit: u64,
    credited: Nanos,
}

/// State of an entry.
#[derive(Clone, Copy, Debug)]
struct EntryState {
    /// Time of its last change.
    changed: Nanos,
    /// Port of its last change.
    port: u32,
    /// The last change is not done.
    is_pending: bool,
    /// The entry counts: it was not refused.
    is_made: bool,
}

impl Permission {
    pub(crate) fn new(
        index: ReflexIndex,
        spec: &ReflexSpec,
        node: Option<IntNodeId>,
    ) -> Permission {
        Permission {
            index,
            spec: spec.clone(),
            node,
            entries: HashMap::new(),
            made: 0,
            credit: CHANGE,
            credited: Nanos::ZERO,
        }
    }

    /// Decides about a detour of a flow: the next port of the list after the one by which the
    /// element sent the packet. Nothing changes before [`Permission::made`].
    pub(crate) fn detour(
        &mut self,
        flow: &FlowKey,
        path: &ReportedPath<'_>,
        now: Nanos,
    ) -> Result<TableWrite, DecisionRefusal> {
        let key = EntryKey::of_flow(flow, &self.spec.key).ok_or(DecisionRefusal::NoKey)?;
        let state = self.entries.get(&key);
        let is_early = state.is_some_and(|it| it.is_pending || now < it.changed + self.spec.hold);
        if is_early {
            return Err(DecisionRefusal::Held);
        }
        if !state.is_some_and(|it| it.is_made) && self.made >= self.spec.entries {
            return Err(DecisionRefusal::Entries);
        }
        let own = match self.node {
            Some(node) => path.hops().find(|hop| hop.node == Some(node)),
            None => path.hops().next(),
        };
        let own = own.and_then(|hop| hop.interfaces);
        let own = own.map(|interfaces| u32::from(interfaces.egress));
        let used = own.or(state.map(|state| state.port));
        self.refill(now);
        if self.credit < CHANGE {
            return Err(DecisionRefusal::Rate);
        }
        let ports = &self.spec.ports;
        let at = ports.iter().position(|port| Some(*port) == used);
        let next = at.map_or(0, |at| (at + 1) % ports.len());
        Ok(TableWrite {
            reflex: self.index,
            key,
            port: ports[next],
        })
    }

    /// Notes that the store took a change.
    pub(crate) fn made(&mut self, write: &TableWrite, now: Nanos) {
        self.credit -= CHANGE;
        if self.entries.len() >= 2 * self.spec.entries {
            self.entries.retain(|_, state| state.is_made);
        }
        let state = EntryState {
            changed: now,
            port: write.port,
            is_pending: true,
            is_made: true,
        };
        let before = self.entries.insert(write.key, state);
        self.made += usize::from(!before.is_some_and(|before| before.is_made));
    }

    /// Notes an entry of the store that another process made, or this one before it was started
    /// again.
    pub(crate) fn adopt(&mut self, write: &TableWrite) {
        let state = EntryState {
            changed: Nanos::ZERO,
            port: write.port,
            is_pending: false,
            is_made: true,
        };
        if let Entry::Vacant(place) = self.entries.entry(write.key) {
            place.insert(state);
            self.made += 1;
        }
    }

    /// Notes that the element has the last change of an entry.
    pub(crate) fn done(&mut self, key: &EntryKey) {
        if let Some(state) = self.entries.get_mut(key) {
            state.is_pending = false;
        }
    }

    /// Notes that the store or the element refused the last change of an entry. It does not count,
    /// and is held as another change.
    pub(crate) fn undone(&mut self, key: &EntryKey) {
        if let Some(state) = self.entries.get_mut(key) {
            self.made -= usize::from(state.is_made);
            (state.is_pending, state.is_made) = (false, false);
        }
    }

    fn refill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.credited.0);
        self.credited = now;
        let most = (self.spec.rate / BURST).max(1).saturating_mul(CHANGE);
        let more = passed.saturating_mul(self.spec.rate);
        self.credit = self.credit.saturating_add(more).min(most);
    }

    /// Returns the number of entries that it made.
    pub(crate) fn entries(&self) -> usize {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use telemetry::{Instructions, IntStack, L4Ports};

    use super::*;
    use crate::loops::{ElementIndex, KeyPart};

    fn permission(rate: u64, entries: usize) -> Permission {
        let spec = ReflexSpec {
            name: "detour".to_owned(),
            element: ElementIndex(0),
            table: "t".to_owned(),
            key: vec![KeyPart::Destination, KeyPart::DestinationPort],
            action: "via".to_owned(),
            ports: vec![3, 4, 5],
            line: 1,
            rate,
            entries,
            hold: Nanos(1000),
        };
        Permission::new(ReflexIndex(0), &spec, Some(IntNodeId(1)))
    }

    fn flow(source: u16, destination: u16) -> FlowKey {
        FlowKey {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            protocol: 17,
            ports: Some(L4Ports {
                source,
                destination,
            }),
        }
    }

    /// Asks for a detour of a flow of which node 1 sent the packet by a port, and makes it.
    fn ask(
        permission: &mut Permission,
        flow: FlowKey,
        egress: u16,
        now: u64,
    ) -> Result<TableWrite, DecisionRefusal> {
        let [high, low] = egress.to_be_bytes();
        let entry = [0, 0, 0, 1, 0, 9, high, low];
        let stack = IntStack::new(Instructions(0xc000), 8, &entry).expect("one hop");
        let path = ReportedPath::new(stack, None, None, false);
        let write = permission.detour(&flow, &path, Nanos(now))?;
        permission.made(&write, Nanos(now));
        Ok(write)
    }

    #[test]
    fn the_next_port_of_the_list_is_taken_and_an_entry_is_held() {
        let mut permission = permission(1_000_000_000, 10);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        assert_eq!(first.port, 4);
        // Another flow with the same entry waits, too.
        let held = Err(DecisionRefusal::Held);
        assert_eq!(ask(&mut permission, flow(2, 80), 3, 5000), held);
        permission.done(&first.key);
        assert_eq!(ask(&mut permission, flow(1, 80), 4, 999), held);
        assert_eq!(ask(&mut permission, flow(1, 80), 5, 1000).unwrap().port, 3);
        assert_eq!(ask(&mut permission, flow(1, 81), 7, 1000).unwrap().port, 3);
        assert_eq!(permission.entries(), 2);
    }

    #[test]
    fn entries_are_limited_and_refused_ones_do_not_count() {
        let mut permission = permission(1_000_000_000, 2);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        ask(&mut permission, flow(1, 81), 3, 10).unwrap();
        let full = Err(DecisionRefusal::Entries);
        assert_eq!(ask(&mut permission, flow(1, 82), 3, 20), full);
        permission.undone(&first.key);
        permission.undone(&first.key);
        assert_eq!(permission.entries(), 1);
        assert!(ask(&mut permission, flow(1, 82), 3, 30).is_ok());
        assert_eq!(ask(&mut permission, flow(1, 80), 3, 5000), full);
    }

    #[test]
    fn changes_of_a_second_are_limited_also_after_an_idle_one() {
        let mut permission = permission(1000, 100_000);
        let mut made = 0;
        let start = 10_000_000_000;
        for at in 0..100_000u64 {
            let asked = ask(&mut permission, flow(1, at as u16), 3, start + at * 10_000);
            made += u64::from(asked.is_ok());
        }
        // A burst of a hundredth, and the rate.
        assert!((1000..=1010).contains(&made), "{made}");
    }
}

//! Permissions at run time: what a monitor may still change.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use packet::Nanos;
use telemetry::{IntNodeId, ReportedPath};

use crate::decision::{DecisionRefusal, Subject};
use crate::loops::{ChangeSpec, ReflexIndex, ReflexSpec};
use crate::write::{ElementWrite, EntryKey, Setting, WritePlace};

/// Credit of one change, in billionths.
const CHANGE: u64 = 1_000_000_000;
/// Share of a second's changes that may be made at once.
const BURST: u64 = 100;
/// Time after which a removal that the store did not take is requested again.
const RETRY: Nanos = Nanos::from_millis(1);
/// Hops of a path that are kept.
pub(crate) const MAX_HOPS: usize = 16;

/// Nodes of a path with the ports by which they sent the packet, from the source, at most
/// [`MAX_HOPS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathPorts {
    count: u8,
    hops: [(IntNodeId, Option<u16>); MAX_HOPS],
}

impl PathPorts {
    pub(crate) fn new(path: &ReportedPath<'_>) -> PathPorts {
        let mut ports = PathPorts::default();
        let hops = path.hops().filter_map(|hop| {
            let egress = hop.interfaces.map(|interfaces| interfaces.egress);
            Some((hop.node?, egress))
        });
        for (place, hop) in ports.hops.iter_mut().zip(hops) {
            *place = hop;
            ports.count += 1;
        }
        ports
    }

    pub(crate) fn get(&self) -> &[(IntNodeId, Option<u16>)] {
        self.hops.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Returns the ports by which a node sent the packet.
    fn of(&self, node: IntNodeId) -> impl Iterator<Item = u32> {
        let hops = self.get().iter().filter(move |hop| hop.0 == node);
        hops.filter_map(|hop| Some(u32::from(hop.1?)))
    }
}

/// Change that a monitor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The subject's entry with the action of the permission: to another port than those by which
    /// the element sent the packet, or without a parameter.
    Entry(PathPorts),
    /// A rate of the permission's meter, in bytes a second.
    Rate(u64),
    /// A value of the permission's register or queue.
    Value(u64),
}

/// A permission with its use so far.
pub(crate) struct Permission {
    index: ReflexIndex,
    spec: ReflexSpec,
    /// Node of the element in paths; the first node if it is not known.
    node: Option<IntNodeId>,
    /// Places that it changed, at most [`ReflexSpec::entries`], and some that were refused.
    places: HashMap<WritePlace, PlaceState>,
    made: usize,
    /// Ends of lives in their order. Those of places that were changed after it are void.
    ends: VecDeque<(Nanos, WritePlace)>,
    /// Changes that may be made now, in billionths.
    credit: u64,
    credited: Nanos,
}

/// State of a place.
#[derive(Clone, Copy, Debug)]
struct PlaceState {
    /// Time of its last change.
    changed: Nanos,
    /// Time at which it is restored.
    end: Nanos,
    /// Content of its last change.
    setting: Setting,
    /// The last change is not done.
    is_pending: bool,
    /// The place counts: the change was not refused.
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
            places: HashMap::new(),
            made: 0,
            ends: VecDeque::new(),
            credit: CHANGE,
            credited: Nanos::ZERO,
        }
    }

    /// Returns the node of its element in paths.
    pub(crate) fn node(&self) -> Option<IntNodeId> {
        self.node
    }

    /// Returns its declaration.
    pub(crate) fn spec(&self) -> &ReflexSpec {
        &self.spec
    }

    /// Returns the port that a subject is sent to by its last change.
    pub(crate) fn port_of(&self, subject: &Subject) -> Option<u32> {
        let state = self.places.get(&self.place(subject)?)?;
        state.setting.port().filter(|_| state.is_made)
    }

    /// Decides about a change for a subject, without these ports. Nothing changes before
    /// [`Permission::made`].
    pub(crate) fn decide(
        &mut self,
        subject: &Subject,
        wish: &Wish,
        unsafe_ports: &[u32],
        now: Nanos,
    ) -> Result<ElementWrite, DecisionRefusal> {
        let place = self.place(subject).ok_or(DecisionRefusal::NoKey)?;
        let state = self.places.get(&place).copied();
        let is_early = state.is_some_and(|it| it.is_pending || now < it.changed + self.spec.hold);
        if is_early {
            return Err(DecisionRefusal::Held);
        }
        let made = state.filter(|it| it.is_made);
        if made.is_none() && self.made >= self.spec.entries {
            return Err(DecisionRefusal::Entries);
        }
        let setting = match wish {
            Wish::Entry(path) => self.entry((path, unsafe_ports), state)?,
            Wish::Rate(rate) => Setting::Rate(*rate),
            Wish::Value(value) => Setting::Value(*value),
        };
        if made.is_some_and(|it| it.setting == setting) {
            self.prolong(place, now);
            return Err(DecisionRefusal::Same);
        }
        self.refill(now);
        if self.credit < CHANGE {
            return Err(DecisionRefusal::Rate);
        }
        Ok(ElementWrite {
            reflex: self.index,
            place,
            setting: Some(setting),
        })
    }

    /// Returns the place of a subject. `None` if the subject has no such place.
    fn place(&self, subject: &Subject) -> Option<WritePlace> {
        match &self.spec.change {
            ChangeSpec::Entry(entry) => {
                let key = match subject {
                    Subject::Flow(flow) => EntryKey::of_prefix(flow, &entry.key, &entry.prefixes),
                    Subject::Host(host) => EntryKey::of_host(*host),
                    Subject::Tenant => None,
                };
                key.map(WritePlace::Entry)
            }
            ChangeSpec::Meter { cell, .. } | ChangeSpec::Register { cell, .. } => {
                Some(WritePlace::Cell(*cell))
            }
            ChangeSpec::Queue(port) => Some(WritePlace::Cell(*port)),
        }
    }

    /// Returns the content of an entry: the next port of the list after the one by which the
    /// element sent the packet, and none by which it did.
    fn entry(
        &self,
        (path, unsafe_ports): (&PathPorts, &[u32]),
        state: Option<PlaceState>,
    ) -> Result<Setting, DecisionRefusal> {
        let ChangeSpec::Entry(entry) = &self.spec.change else {
            return Err(DecisionRefusal::NoKey);
        };
        let ports = &entry.ports;
        if ports.is_empty() {
            return Ok(Setting::Action(None));
        }
        let node = self.node.or(path.get().first().map(|hop| hop.0));
        let taken = |port: u32| node.is_some_and(|node| path.of(node).any(|it| it == port));
        let own = node.and_then(|node| path.of(node).last());
        let before = state.and_then(|state| state.setting.port());
        let is_made = state.is_some_and(|state| state.is_made);
        if let (Some(own), Some(before), true) = (own, before, is_made)
            && own != before
            && ports.contains(&own)
        {
            // The packet passed the element before the last change.
            return Err(DecisionRefusal::Held);
        }
        let used = own.or(before);
        let at = ports.iter().position(|port| Some(*port) == used);
        let start = at.map_or(0, |at| at + 1);
        let next = (0..ports.len()).map(|step| ports[(start + step) % ports.len()]);
        let others = next.filter(|port| !taken(*port) && Some(*port) != used);
        let mut refusal = DecisionRefusal::NoPort;
        for port in others {
            if !unsafe_ports.contains(&port) {
                return Ok(Setting::Action(Some(port)));
            }
            refusal = DecisionRefusal::UnsafePath;
        }
        Err(refusal)
    }

    /// Notes that the store took a change.
    pub(crate) fn made(&mut self, write: &ElementWrite, now: Nanos) {
        let Some(setting) = write.setting else {
            return;
        };
        self.credit -= CHANGE;
        if self.places.len() >= 2 * self.spec.entries {
            self.places.retain(|_, state| state.is_made);
        }
        let state = PlaceState {
            changed: now,
            end: now,
            setting,
            is_pending: true,
            is_made: true,
        };
        let before = self.places.insert(write.place, state);
        self.made += usize::from(!before.is_some_and(|before| before.is_made));
        self.prolong(write.place, now);
    }

    /// Notes a place that another process changed, or this one before it was started again: the
    /// store has it. Its life begins again.
    pub(crate) fn adopt(&mut self, write: &ElementWrite, now: Nanos) {
        let Some(setting) = write.setting else {
            return;
        };
        if let Entry::Vacant(place) = self.places.entry(write.place) {
            place.insert(PlaceState {
                changed: Nanos::ZERO,
                end: now,
                setting,
                is_pending: false,
                is_made: true,
            });
            self.made += 1;
            self.prolong(write.place, now);
        }
    }

    /// Begins the life of a place again.
    fn prolong(&mut self, place: WritePlace, now: Nanos) {
        let (Some(life), Some(state)) = (self.spec.life, self.places.get_mut(&place)) else {
            return;
        };
        let end = now + life;
        if state.end < end {
            state.end = end;
            self.ends.push_back((end, place));
        }
    }

    /// Returns the write that restores the next place at the end of its life, once. The caller
    /// requests it, or asks again by [`Permission::retry`].
    pub(crate) fn next_end(&mut self, now: Nanos) -> Option<ElementWrite> {
        while let Some((end, place)) = self.ends.front().copied().filter(|it| it.0 <= now) {
            self.ends.pop_front();
            let Some(state) = self.places.get_mut(&place).filter(|it| it.is_made) else {
                continue;
            };
            if state.end != end {
                continue;
            }
            if state.is_pending {
                self.postpone(place, now);
                continue;
            }
            state.is_pending = true;
            return Some(ElementWrite {
                reflex: self.index,
                place,
                setting: None,
            });
        }
        None
    }

    /// Asks again later for a place at the end of its life: the store did not take the write.
    pub(crate) fn retry(&mut self, place: WritePlace, now: Nanos) {
        if let Some(state) = self.places.get_mut(&place) {
            state.is_pending = false;
        }
        self.postpone(place, now);
    }

    fn postpone(&mut self, place: WritePlace, now: Nanos) {
        let end = now + RETRY;
        if let Some(state) = self.places.get_mut(&place) {
            state.end = end;
        }
        let at = self.ends.partition_point(|it| it.0 <= end);
        self.ends.insert(at, (end, place));
    }

    /// Returns the time of the next end of a life.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.ends.front().map(|it| it.0)
    }

    /// Notes that the element has the last change of a place.
    pub(crate) fn done(&mut self, write: &ElementWrite) {
        if write.setting.is_none() {
            self.undone(write);
        } else if let Some(state) = self.places.get_mut(&write.place) {
            state.is_pending = false;
        }
    }

    /// Notes that the store or the element refused the last change of a place. It does not count,
    /// and is held as another change.
    pub(crate) fn undone(&mut self, write: &ElementWrite) {
        if let Some(state) = self.places.get_mut(&write.place) {
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

    /// Returns the number of places that it changed.
    pub(crate) fn entries(&self) -> usize {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use telemetry::{FlowKey, Instructions, IntStack, L4Ports};

    use super::*;
    use crate::loops::{ElementIndex, EntrySpec, KeyPart};

    fn permission(rate: u64, entries: usize) -> Permission {
        let spec = ReflexSpec {
            name: "detour".to_owned(),
            element: ElementIndex(0),
            change: ChangeSpec::Entry(EntrySpec {
                table: "t".to_owned(),
                key: vec![KeyPart::Destination, KeyPart::DestinationPort],
                prefixes: Vec::new(),
                action: "via".to_owned(),
                ports: vec![3, 4, 5],
                replace: false,
                meter: None,
            }),
            line: 1,
            rate,
            entries,
            hold: Nanos(1000),
            life: None,
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
    ) -> Result<ElementWrite, DecisionRefusal> {
        let [high, low] = egress.to_be_bytes();
        let entry = [0, 0, 0, 1, 0, 9, high, low];
        let stack = IntStack::new(Instructions(0xc000), 8, &entry).expect("one hop");
        let path = ReportedPath::new(stack, None, None, false);
        let wish = Wish::Entry(PathPorts::new(&path));
        let write = permission.decide(&Subject::Flow(flow), &wish, &[], Nanos(now))?;
        permission.made(&write, Nanos(now));
        Ok(write)
    }

    fn port(write: &ElementWrite) -> Option<u32> {
        write.setting?.port()
    }

    #[test]
    fn the_next_port_of_the_list_is_taken_and_an_entry_is_held() {
        let mut permission = permission(1_000_000_000, 10);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        assert_eq!(port(&first), Some(4));
        // Another flow with the same entry waits, too.
        let held = Err(DecisionRefusal::Held);
        assert_eq!(ask(&mut permission, flow(2, 80), 3, 5000), held);
        permission.done(&first);
        assert_eq!(ask(&mut permission, flow(1, 80), 4, 999), held);
        // A packet that passed the element before the change.
        assert_eq!(ask(&mut permission, flow(1, 80), 3, 1000), held);
        let second = ask(&mut permission, flow(1, 80), 4, 1000).unwrap();
        assert_eq!(port(&second), Some(5));
        let other = ask(&mut permission, flow(1, 81), 7, 1000).unwrap();
        assert_eq!(port(&other), Some(3));
        assert_eq!(permission.entries(), 2);
    }

    #[test]
    fn entries_are_limited_and_refused_ones_do_not_count() {
        let mut permission = permission(1_000_000_000, 2);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        ask(&mut permission, flow(1, 81), 3, 10).unwrap();
        let full = Err(DecisionRefusal::Entries);
        assert_eq!(ask(&mut permission, flow(1, 82), 3, 20), full);
        permission.undone(&first);
        permission.undone(&first);
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

    #[test]
    fn a_place_is_restored_at_the_end_of_its_life_and_a_repeated_wish_prolongs_it() {
        let mut permission = permission(1_000_000_000, 10);
        permission.spec.life = Some(Nanos(5000));
        let ChangeSpec::Entry(entry) = &mut permission.spec.change else {
            unreachable!("it changes entries");
        };
        entry.ports.clear();
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        permission.done(&first);
        let held = Err(DecisionRefusal::Held);
        let same = Err(DecisionRefusal::Same);
        assert_eq!(ask(&mut permission, flow(1, 80), 3, 3000), same);
        assert_eq!(permission.next_end(Nanos(7999)), None);
        let end = permission.next_end(Nanos(8000)).unwrap();
        assert_eq!((end.place, end.setting), (first.place, None));
        assert_eq!(permission.next_end(Nanos(9000)), None);
        // The store did not take it.
        permission.retry(end.place, Nanos(9000));
        let again = permission.next_time().unwrap();
        assert_eq!(permission.next_end(again), Some(end));
        assert_eq!(ask(&mut permission, flow(1, 80), 3, again.0), held);
        permission.done(&end);
        assert_eq!(permission.entries(), 0);
        assert!(ask(&mut permission, flow(1, 80), 3, again.0).is_ok());
    }
}

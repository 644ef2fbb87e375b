//! Permissions at run time: what a monitor may still change.

use std::collections::{HashMap, VecDeque};

use consensus::Key;
use packet::Nanos;
use telemetry::{IntNodeId, ReportedPath};

use crate::decision::{DecisionRefusal, Subject};
use crate::loops::{ChangeSpec, KeyPart, ReflexIndex, ReflexSpec};
use crate::settings::PermissionLimit;
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
    /// The subject's entry with this port of the permission.
    Port(u32),
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
    /// These places by their names in the store.
    names: HashMap<Key, WritePlace>,
    made: usize,
    /// Times at which ends of lives are looked at, in their order: at most one of a place.
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
    /// Content before the last change, until that is done.
    former: Option<Setting>,
    /// The last change is not done.
    is_pending: bool,
    /// The place is in the queue of ends.
    is_queued: bool,
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
            names: HashMap::new(),
            made: 0,
            ends: VecDeque::new(),
            credit: CHANGE,
            credited: Nanos::ZERO,
        }
    }

    /// Sets a limit from now on.
    pub(crate) fn set(&mut self, limit: PermissionLimit, value: u64) {
        match limit {
            PermissionLimit::Rate => self.spec.rate = value,
            PermissionLimit::Entries => {
                self.spec.entries = usize::try_from(value).unwrap_or(usize::MAX);
            }
            PermissionLimit::Hold => self.spec.hold = Nanos(value),
            PermissionLimit::Life => self.spec.life = Some(Nanos(value)),
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

    /// Decides about a change for a subject, without unsafe ports, before the rate is known
    /// ([`Permission::settle`]).
    pub(crate) fn decide(
        &self,
        subject: &Subject,
        wish: &Wish,
        is_unsafe: impl Fn(u32) -> bool,
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
        let setting = match (wish, &self.spec.change) {
            (Wish::Entry(path), ChangeSpec::Entry(entry)) => {
                self.entry(&entry.ports, (path, is_unsafe), state)?
            }
            (Wish::Port(port), ChangeSpec::Entry(entry)) if entry.ports.contains(port) => {
                if is_unsafe(*port) {
                    return Err(DecisionRefusal::UnsafePath);
                }
                Setting::Action(Some(*port))
            }
            (Wish::Rate(rate), ChangeSpec::Meter { .. }) => Setting::Rate(*rate),
            (Wish::Value(value), ChangeSpec::Register { .. } | ChangeSpec::Queue(_)) => {
                Setting::Value(*value)
            }
            _ => return Err(DecisionRefusal::NotAllowed),
        };
        if made.is_some_and(|it| it.setting == setting) {
            return Err(DecisionRefusal::Same);
        }
        Ok(ElementWrite {
            reflex: self.index,
            place,
            setting: Some(setting),
        })
    }

    /// Refuses what was decided if the rate is used up, and prolongs the life of a place that has
    /// the content. Nothing else changes before [`Permission::made`].
    pub(crate) fn settle(
        &mut self,
        subject: &Subject,
        decided: Result<ElementWrite, DecisionRefusal>,
        now: Nanos,
    ) -> Result<ElementWrite, DecisionRefusal> {
        if decided == Err(DecisionRefusal::Same)
            && let Some(place) = self.place(subject)
        {
            self.prolong(place, now);
        }
        let write = decided?;
        self.refill(now);
        match self.credit < CHANGE {
            true => Err(DecisionRefusal::Rate),
            false => Ok(write),
        }
    }

    /// Returns the place of a subject. `None` if the subject has no such place.
    fn place(&self, subject: &Subject) -> Option<WritePlace> {
        match &self.spec.change {
            ChangeSpec::Entry(entry) => {
                let key = match subject {
                    Subject::Flow(flow) => EntryKey::of_prefix(flow, &entry.key, &entry.prefixes),
                    Subject::Host(host) => {
                        let is_address = |part: &KeyPart| part.widths() == KeyPart::Source.widths();
                        let is_only = matches!(&entry.key[..], [part] if is_address(part));
                        let fits = is_only && entry.prefixes.is_empty();
                        fits.then(|| EntryKey::of_host(*host)).flatten()
                    }
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
        ports: &[u32],
        (path, is_unsafe): (&PathPorts, impl Fn(u32) -> bool),
        state: Option<PlaceState>,
    ) -> Result<Setting, DecisionRefusal> {
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
            if !is_unsafe(port) {
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
        let before = self.places.get(&write.place).filter(|it| it.is_made);
        let former = before.map(|before| before.setting);
        self.put(write, setting, now);
        if let Some(state) = self.places.get_mut(&write.place) {
            (state.is_pending, state.former) = (true, former);
        }
    }

    /// Notes a committed change of another process, or of this one before it was started again:
    /// what the store has rules. The life of the place begins again.
    pub(crate) fn adopt(&mut self, write: &ElementWrite, now: Nanos) {
        if let Some(setting) = write.setting {
            self.put(write, setting, now);
        }
    }

    /// Notes that a change of this process is committed: it rules over those committed before. A
    /// removal is done with it, so that a change committed after it counts.
    pub(crate) fn committed(&mut self, write: &ElementWrite, now: Nanos) {
        let Some(setting) = write.setting else {
            return self.gone(write.place);
        };
        let state = self.places.get_mut(&write.place);
        if let Some(state) = state.filter(|it| it.is_made) {
            state.setting = setting;
            return;
        }
        // A removal by another process came between.
        self.put(write, setting, now);
        if let Some(state) = self.places.get_mut(&write.place) {
            (state.is_pending, state.former) = (true, None);
        }
    }

    /// Notes a committed removal of the place with this name, by another process.
    pub(crate) fn removed(&mut self, name: &Key) {
        if let Some(place) = self.names.get(name).copied() {
            self.gone(place);
        }
    }

    /// Counts a place with this content from now on.
    fn put(&mut self, write: &ElementWrite, setting: Setting, now: Nanos) {
        if self.places.len() >= 2 * self.spec.entries {
            let places = &mut self.places;
            places.retain(|place, state| state.is_made || *place == write.place);
            self.names.retain(|_, place| places.contains_key(place));
            self.ends.retain(|(_, place)| places.contains_key(place));
        }
        let before = self.places.get(&write.place).copied();
        let is_pending = before.is_some_and(|before| before.is_pending);
        let state = PlaceState {
            changed: now,
            end: now,
            setting,
            former: is_pending.then_some(setting),
            is_pending,
            is_queued: before.is_some_and(|before| before.is_queued),
            is_made: true,
        };
        self.places.insert(write.place, state);
        self.names.insert(write.name(), write.place);
        self.made += usize::from(!before.is_some_and(|before| before.is_made));
        self.prolong(write.place, now);
    }

    /// Begins the life of a place again.
    fn prolong(&mut self, place: WritePlace, now: Nanos) {
        let (Some(life), Some(state)) = (self.spec.life, self.places.get_mut(&place)) else {
            return;
        };
        state.end = state.end.max(now + life);
        self.queue(place);
    }

    /// Puts a place into the queue of ends, unless it is there: then its end is looked at when its
    /// time in the queue has come.
    fn queue(&mut self, place: WritePlace) {
        let Some(state) = self.places.get_mut(&place).filter(|it| !it.is_queued) else {
            return;
        };
        state.is_queued = true;
        let end = state.end;
        let at = self.ends.partition_point(|it| it.0 <= end);
        self.ends.insert(at, (end, place));
    }

    /// Returns the write that restores the next place at the end of its life, once. The caller
    /// requests it, or asks again by [`Permission::retry`].
    pub(crate) fn next_end(&mut self, now: Nanos) -> Option<ElementWrite> {
        while let Some((_, place)) = self.ends.front().copied().filter(|it| it.0 <= now) {
            self.ends.pop_front();
            let Some(state) = self.places.get_mut(&place) else {
                continue;
            };
            state.is_queued = false;
            if !state.is_made {
                continue;
            }
            if state.end > now {
                self.queue(place);
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
        if let Some(state) = self.places.get_mut(&place) {
            state.end = state.end.max(now + RETRY);
        }
        self.queue(place);
    }

    /// Returns the time of the next end of a life.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.ends.front().map(|it| it.0)
    }

    /// Notes that the element has the last change of a place.
    pub(crate) fn done(&mut self, write: &ElementWrite) {
        if let Some(state) = self.places.get_mut(&write.place) {
            (state.is_pending, state.former) = (false, None);
        }
    }

    /// Notes that the store or the element refused the last change of a place. The place has what
    /// it had before, and is held as after another change. Without a change before it does not
    /// count.
    pub(crate) fn undone(&mut self, write: &ElementWrite) {
        let state = self.places.get_mut(&write.place);
        if let Some(state) = state.filter(|_| write.setting.is_some())
            && let Some(former) = state.former.take()
        {
            (state.setting, state.is_pending) = (former, false);
        } else {
            self.gone(write.place);
        }
    }

    /// Returns the write that gives the store what the element has at a place, after it refused a
    /// change. The place is held until that is done.
    pub(crate) fn repair(&mut self, place: WritePlace) -> Option<ElementWrite> {
        let state = self.places.get_mut(&place)?;
        state.is_pending = true;
        Some(ElementWrite {
            reflex: self.index,
            place,
            setting: state.is_made.then_some(state.setting),
        })
    }

    /// Notes that a place does not count any more. It is held as after a change.
    fn gone(&mut self, place: WritePlace) {
        if let Some(state) = self.places.get_mut(&place) {
            self.made -= usize::from(state.is_made);
            (state.is_pending, state.is_made) = (false, false);
            state.former = None;
        }
    }

    /// Notes a change that is committed at the leader in another process, which ends its life. The
    /// place is held, and does not count here.
    pub(crate) fn left(&mut self, write: &ElementWrite) {
        self.gone(write.place);
    }

    /// Notes that another process leads: only places with a change under way count.
    pub(crate) fn follow(&mut self) {
        for state in self.places.values_mut().filter(|it| !it.is_pending) {
            self.made -= usize::from(state.is_made);
            state.is_made = false;
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
        let subject = Subject::Flow(flow);
        let decided = permission.decide(&subject, &wish, |_| false, Nanos(now));
        let write = permission.settle(&subject, decided, Nanos(now))?;
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
        permission.committed(&end, again);
        assert_eq!(permission.entries(), 0);
        assert!(ask(&mut permission, flow(1, 80), 3, again.0).is_ok());
    }

    /// A permission for an entry without a parameter, of which one change is done at time 0.
    fn with_life() -> (Permission, ElementWrite) {
        let mut permission = permission(1_000_000_000, 10);
        permission.spec.life = Some(Nanos(5000));
        let ChangeSpec::Entry(entry) = &mut permission.spec.change else {
            unreachable!("it changes entries");
        };
        entry.ports.clear();
        let write = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        permission.done(&write);
        (permission, write)
    }

    #[test]
    fn a_life_that_is_prolonged_often_is_kept_once() {
        let (mut permission, write) = with_life();
        let same = Err(DecisionRefusal::Same);
        let mut now = 1000;
        for _ in 0..100_000 {
            now += 1;
            assert_eq!(ask(&mut permission, flow(1, 80), 3, now), same);
            assert_eq!(permission.next_end(Nanos(now)), None);
            assert_eq!(permission.ends.len(), 1);
        }
        assert_eq!(permission.next_end(Nanos(now + 4999)), None);
        let end = permission.next_end(Nanos(now + 5000)).unwrap();
        assert_eq!((end.place, end.setting), (write.place, None));
        assert_eq!(permission.ends.len(), 0);
    }

    #[test]
    fn a_refused_change_leaves_the_content_before_it() {
        let mut permission = permission(1_000_000_000, 10);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        permission.done(&first);
        let second = ask(&mut permission, flow(1, 80), 4, 2000).unwrap();
        assert_eq!(port(&second), Some(5));
        permission.undone(&second);
        assert_eq!(permission.entries(), 1);
        assert_eq!(permission.port_of(&Subject::Flow(flow(1, 80))), Some(4));
    }

    #[test]
    fn a_committed_change_of_another_process_rules_and_its_removal_ends_it() {
        let (mut permission, write) = with_life();
        let other = ElementWrite {
            setting: Some(Setting::Action(Some(9))),
            ..write
        };
        permission.adopt(&other, Nanos(3000));
        assert_eq!(permission.port_of(&Subject::Flow(flow(1, 80))), Some(9));
        assert_eq!(permission.entries(), 1);
        assert_eq!(permission.next_end(Nanos(7999)), None);
        permission.removed(&write.name());
        assert_eq!(permission.entries(), 0);
        assert_eq!(permission.next_end(Nanos(8000)), None);
    }

    #[test]
    fn a_process_that_follows_counts_only_what_is_under_way() {
        let mut permission = permission(1_000_000_000, 10);
        let first = ask(&mut permission, flow(1, 80), 3, 0).unwrap();
        permission.done(&first);
        let second = ask(&mut permission, flow(1, 81), 3, 10).unwrap();
        permission.follow();
        assert_eq!(permission.entries(), 1);
        permission.left(&second);
        assert_eq!(permission.entries(), 0);
        // It is held.
        let held = Err(DecisionRefusal::Held);
        assert_eq!(ask(&mut permission, flow(1, 81), 3, 999), held);
    }

    #[test]
    fn what_is_committed_last_counts() {
        let (mut permission, write) = with_life();
        // A removal at the end of the life, and then a change of another process.
        let end = permission.next_end(Nanos(5000)).unwrap();
        permission.committed(&end, Nanos(5000));
        assert_eq!(permission.entries(), 0);
        permission.adopt(&write, Nanos(5001));
        assert_eq!(permission.entries(), 1);
        // A removal by another process while a change waits.
        let other = ask(&mut permission, flow(1, 81), 3, 6000).unwrap();
        permission.removed(&other.name());
        permission.committed(&other, Nanos(6001));
        permission.done(&other);
        assert_eq!(permission.entries(), 2);
        assert!(permission.next_end(Nanos(10_001)).is_some());
        assert!(permission.next_end(Nanos(11_001)).is_some());
    }
}

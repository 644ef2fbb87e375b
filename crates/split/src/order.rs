//! Changes of the switch's mirrored tables in an order that keeps the order of packets.
//!
//! An entry that begins to forward packets waits until the earlier packets that it matches are
//! answered ([`Requests::close`]). Changes that make packets fly are applied at once, and end the
//! wait of an entry that they replace. Waiting prefixes of a table begin to work in their order, so
//! one that needs another one never works before it. Entries with exact keys have gates at once.

use std::collections::VecDeque;
use std::sync::Arc;

use bits::Value;
use ir::{KeyMatch, TableId};
use packet::Nanos;
use passes::split::{MirroredTable, SplitPlan};
use switch::{Action, Change, ControlError, CounterReading, EntryId};

use exec::BitBuffer;

use crate::gate::{Drained, GateId, KeyPattern, MAX_HOLD};
use crate::plane::PlaneControl;
use crate::requests::{Order, Requests, cuts_of};

/// Maximum number of gates. Each request is compared with all of them.
const MAX_GATES: usize = 16;

/// Entries that wait until they may work.
#[derive(Debug)]
pub struct OrderedChanges {
    plan: Arc<SplitPlan>,
    order: Order,
    /// Time that the switch takes for an entry, and the time of changes.
    install: Nanos,
    now: Nanos,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    table: TableId,
    entry: EntryId,
    pattern: KeyPattern,
    change: Change,
    /// First time at which the entry may work.
    at: Nanos,
    /// The first ones have gates, which wait until this time at most.
    gate: Option<GateId>,
    until: Nanos,
}

/// Entry that could not begin to work.
#[derive(Clone, Debug)]
pub struct NotInstalled {
    /// The table.
    pub table: TableId,
    /// The entry, by the coordinator's number.
    pub entry: EntryId,
    /// True if the switch still has a cover of the entry.
    pub is_covered: bool,
    /// The refusal of the switch; `None` if earlier packets were not answered in time.
    pub error: Option<ControlError>,
}

impl Waiting {
    /// Changes the switch.
    fn apply(&self, plane: &mut dyn PlaneControl) -> Result<(), ControlError> {
        let (table, entry) = (self.table, self.entry);
        plane.apply(&self.change, Some(entry))?;
        // Servers have counted the packets of a cover.
        if self.is_covered() && plane.direct_counter(table, entry).is_some() {
            let zero = CounterReading::default();
            plane.apply(&Change::WriteDirectCounter(table, Some(entry), zero), None)?;
        }
        Ok(())
    }

    /// Returns true if the switch still has a cover of the entry.
    fn is_covered(&self) -> bool {
        matches!(self.change, Change::Modify(..))
    }

    fn refused(&self, error: Option<ControlError>) -> NotInstalled {
        NotInstalled {
            table: self.table,
            entry: self.entry,
            is_covered: self.is_covered(),
            error,
        }
    }
}

impl OrderedChanges {
    /// Creates the changes of a switch. None waits.
    pub fn new(plan: Arc<SplitPlan>, order: Order) -> OrderedChanges {
        OrderedChanges {
            plan,
            order,
            install: Nanos(0),
            now: Nanos(0),
            waiting: VecDeque::new(),
        }
    }

    /// Sets the time that the switch takes for an entry. In real switches it passes by itself.
    #[must_use]
    pub fn with_install_time(mut self, install: Nanos) -> OrderedChanges {
        self.install = install;
        self
    }

    /// Sets the time of later changes.
    pub fn set_time(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Returns the time of the next call of [`OrderedChanges::advance`] if no request is answered
    /// before.
    pub fn next_time(&self) -> Option<Nanos> {
        let time = |waiting: &Waiting| match waiting.gate {
            None => waiting.at,
            Some(_) => waiting.until,
        };
        let first = self.waiting.front().map(time);
        let gated = self.waiting.iter().filter(|waiting| waiting.gate.is_some());
        first.into_iter().chain(gated.map(time)).min()
    }

    /// Sets the order of later changes.
    pub fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// Returns true if the entry waits.
    pub fn is_waiting(&self, table: TableId, entry: EntryId) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| waiting.table == table && waiting.entry == entry)
    }

    /// Returns the number of entries that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Installs the entries that may work now. Returns the first one that cannot work; the others
    /// wait until the next call, after the coordinator has reacted.
    pub fn advance(
        &mut self,
        requests: &Requests,
        plane: &mut dyn PlaneControl,
        now: Nanos,
    ) -> Option<NotInstalled> {
        let (mut at, mut gates) = (0, 0);
        let mut blocked: Vec<TableId> = Vec::new();
        while gates < MAX_GATES
            && let Some(next) = self.waiting.get_mut(at)
        {
            // Later ones wait longer.
            if next.at > now {
                return None;
            }
            if blocked.contains(&next.table) {
                at += 1;
                continue;
            }
            let cuts = cuts_of(&self.plan, next.table);
            if self.order == Order::Loose {
                requests.begin_loosely(&cuts, &next.pattern);
                let next = self.waiting.remove(at)?;
                if let Err(error) = next.apply(plane) {
                    return Some(next.refused(Some(error)));
                }
                continue;
            }
            let until = &mut next.until;
            let gate = *next.gate.get_or_insert_with(|| {
                *until = now + MAX_HOLD;
                requests.close(&cuts, next.pattern.clone(), now)
            });
            let result = match requests.drained(gate, now) {
                Drained::NotYet => {
                    gates += 1;
                    at += 1;
                    let mirrored = self.plan.mirrored_table(next.table);
                    // A prefix may need one before it.
                    if mirrored.is_none_or(|mirrored| mirrored.prefix_key.is_some()) {
                        blocked.push(next.table);
                    }
                    continue;
                }
                Drained::TooLate => Err(None),
                Drained::Yes => {
                    requests.ready(gate);
                    next.apply(plane).map_err(Some)
                }
            };
            requests.open(gate);
            let next = self.waiting.remove(at)?;
            if let Err(error) = result {
                return Some(next.refused(error));
            }
        }
        None
    }

    /// Takes out all entries that wait. Their changes are not made.
    pub fn abandon(&mut self, requests: &Requests) {
        for waiting in self.waiting.drain(..) {
            if let Some(gate) = waiting.gate {
                requests.open(gate);
            }
        }
    }

    /// Takes out an entry that waits. Returns its change.
    fn cancel(&mut self, requests: &Requests, table: TableId, entry: EntryId) -> Option<Change> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|waiting| waiting.table == table && waiting.entry == entry)?;
        let cancelled = self.waiting.remove(at)?;
        if let Some(gate) = cancelled.gate {
            requests.open(gate);
        }
        Some(cancelled.change)
    }

    fn makes_packets_fly(&self, mirrored: &MirroredTable, action: &Action) -> bool {
        matches!(action, Action::Call(call) if call.action == mirrored.miss_action)
    }
}

/// The switch as the coordinator sees it, with [`OrderedChanges`].
pub struct OrderedPlane<'p> {
    /// The switch.
    pub plane: &'p mut dyn PlaneControl,
    /// The changes that wait.
    pub changes: &'p mut OrderedChanges,
    /// The requests of the switch.
    pub requests: &'p Requests,
}

impl PlaneControl for OrderedPlane<'_> {
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError> {
        let plan = Arc::clone(&self.changes.plan);
        let mirrored = |table: &TableId| plan.mirrored_table(*table);
        match change {
            Change::Insert(table, written) => {
                let (Some(mirrored), Some(entry)) = (mirrored(table), made) else {
                    return self.plane.apply(change, made);
                };
                if self.changes.makes_packets_fly(mirrored, &written.action) {
                    return self.plane.apply(change, made);
                }
                let pattern = pattern_of(mirrored, &written.keys);
                self.begin(*table, entry, pattern, change)
            }
            Change::Modify(table, entry, action, _) => {
                let Some(mirrored) = mirrored(table) else {
                    return self.plane.apply(change, made);
                };
                let cancelled = self.changes.cancel(self.requests, *table, *entry);
                if !self.changes.makes_packets_fly(mirrored, action) {
                    let pattern = self.plane.keys(*table, *entry);
                    let pattern = pattern.map(|keys| pattern_of(mirrored, &keys));
                    return match pattern {
                        Some(pattern) => self.begin(*table, *entry, pattern, change),
                        None => self.plane.apply(change, made),
                    };
                }
                match cancelled {
                    // The entry never worked: its cover is new, or still there.
                    Some(Change::Insert(table, mut written)) => {
                        written.action = action.clone();
                        self.plane
                            .apply(&Change::Insert(table, written), Some(*entry))
                    }
                    Some(_) => Ok(()),
                    None => self.plane.apply(change, made),
                }
            }
            Change::Delete(table, entry) => {
                match self.changes.cancel(self.requests, *table, *entry) {
                    Some(Change::Insert(..)) => Ok(()),
                    _ => self.plane.apply(change, made),
                }
            }
            _ => self.plane.apply(change, made),
        }
    }

    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        let reading = self.plane.direct_counter(table, entry)?;
        let mut waiting = self.changes.waiting.iter();
        let own = waiting.find(|waiting| waiting.table == table && waiting.entry == entry);
        match own.is_some_and(Waiting::is_covered) {
            // Servers count the packets of a cover.
            true => Some(CounterReading::default()),
            false => Some(reading),
        }
    }

    fn hits(&self, table: TableId, entry: EntryId) -> Option<u64> {
        self.plane.hits(table, entry)
    }

    fn keys(&self, table: TableId, entry: EntryId) -> Option<Vec<KeyMatch>> {
        self.plane.keys(table, entry)
    }

    fn last_use(&self, table: TableId, entry: EntryId) -> Option<u64> {
        self.plane.last_use(table, entry)
    }

    fn last_restart(&self, table: TableId, key: &[u64]) -> Option<u64> {
        self.plane.last_restart(table, key)
    }

    fn touch(&mut self, table: TableId, key: &[u64], time_ns: u64) {
        self.plane.touch(table, key, time_ns);
    }
}

impl OrderedPlane<'_> {
    fn begin(
        &mut self,
        table: TableId,
        entry: EntryId,
        pattern: KeyPattern,
        change: &Change,
    ) -> Result<(), ControlError> {
        let OrderedChanges { install, now, .. } = *self.changes;
        let waiting = Waiting {
            table,
            entry,
            pattern,
            change: change.clone(),
            at: now + install,
            gate: None,
            until: now + install,
        };
        if self.changes.order == Order::Loose && install == Nanos(0) {
            let cuts = cuts_of(&self.changes.plan, table);
            self.requests.begin_loosely(&cuts, &waiting.pattern);
            return waiting.apply(self.plane);
        }
        self.changes.waiting.push_back(waiting);
        Ok(())
    }
}

/// Returns the keys in frames that an entry with these keys matches.
pub fn pattern_of(mirrored: &MirroredTable, keys: &[KeyMatch]) -> KeyPattern {
    let (mut bits, mut mask) = (BitBuffer::default(), BitBuffer::default());
    for (key, &width) in keys.iter().zip(&mirrored.key_widths) {
        let (value, counted) = match key {
            KeyMatch::Exact(value) => (value.clone(), width),
            KeyMatch::Lpm(value, len) => (value.clone(), (*len).min(width)),
            _ => (Value::zero(width), 0),
        };
        bits.push(value.limbs(), width);
        for at in 0..width {
            mask.push_u64(u64::from(at < counted), 1);
        }
    }
    KeyPattern {
        bits: bits.bytes().into(),
        mask: mask.bytes().into(),
        width: mirrored
            .key_widths
            .iter()
            .map(|&width| width as usize)
            .sum(),
    }
}

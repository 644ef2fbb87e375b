//! The replicated state: keys with values, what elements have, sessions. Equal on all nodes that
//! applied the same entries.

mod sessions;
mod snapshot;
mod table;

use support::rng::mix;

pub use self::sessions::{MAX_SESSIONS, RequestAnswer};
pub use self::snapshot::Snapshot;

use self::sessions::{Found, Session};
use self::snapshot::Taking;
use self::table::{Cell, CellKind, Name, Table};
use crate::entry::{ChangeBytes, ElementId, Entry, Key, Operation, Payload, Request, StoredValue};
use crate::ids::{LogIndex, Term};
use crate::members::Membership;
use crate::mistake::{Mistake, Planted};

/// Room of the replicated state. All nodes of a cluster have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Keys, changes of elements and elements together.
    pub keys: usize,
    /// Part of it that only reserved keys take ([`is_reserved`]), and these no other. 0: they share
    /// the room.
    pub reserved: usize,
    /// Sessions, at most [`MAX_SESSIONS`].
    pub sessions: usize,
    /// Log time after which an unused session expires.
    pub session_life: u64,
}

/// Returns true if a key is one of the cluster's own notes. It begins with bytes that no text has.
pub fn is_reserved(key: &Key) -> bool {
    key.starts_with(&[0xff, 0xff])
}

/// Change of an element to send: the element applies it if it has all before `previous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementChange {
    /// The element.
    pub element: ElementId,
    /// Name of the changed content.
    pub key: Key,
    /// The new content; `None` removes it.
    pub change: Option<ChangeBytes>,
    /// Index of the change before this one.
    pub previous: LogIndex,
    /// Index of the entry.
    pub index: LogIndex,
}

/// The state as of the last applied entry.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct State {
    applied: LogIndex,
    applied_term: Term,
    time: u64,
    capacity: Capacity,
    sessions: Box<[Session]>,
    table: Table,
    taking: Taking,
    /// The newest complete snapshot; index 0 is none.
    ready: Snapshot,
    /// Cells that each applied entry copies into a snapshot.
    copies: usize,
    planted: Planted,
}

impl State {
    pub(crate) fn new(
        cluster: u64,
        capacity: Capacity,
        log_entries: usize,
        planted: Planted,
    ) -> State {
        let sessions = capacity.sessions.min(MAX_SESSIONS);
        let table = Table::new((capacity.keys, capacity.reserved), mix(cluster));
        let cells = table.cells().len();
        let snapshot = Snapshot::new(sessions, cells);
        State {
            applied: LogIndex(0),
            applied_term: Term(0),
            time: 0,
            capacity,
            sessions: vec![Session::default(); sessions].into(),
            table,
            taking: Taking::new(
                snapshot.clone(),
                planted.is(Mistake::SnapshotsWhileItChanges),
            ),
            ready: snapshot,
            // A snapshot is complete when an eighth of the log was applied.
            copies: 1 + 8 * cells / log_entries.max(1),
            planted,
        }
    }

    pub(crate) const fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Returns the greatest time of the entries so far.
    pub(crate) const fn time(&self) -> u64 {
        self.time
    }

    /// Applies the entry after the last one. `now` is of no meaning but for a planted mistake.
    pub(crate) fn apply(
        &mut self,
        entry: &Entry,
        now: u64,
    ) -> (RequestAnswer, Option<ElementChange>) {
        self.applied = self.applied.next();
        self.applied_term = entry.term;
        self.time = self.time.max(entry.time);
        if self.planted.is(Mistake::ExpiresByOwnClock) {
            self.time = now;
        }
        match &entry.payload {
            Payload::Noop | Payload::Membership(_) => (RequestAnswer::Done, None),
            Payload::Request(request) => self.request(request, entry.term),
        }
    }

    fn request(&mut self, request: &Request, term: Term) -> (RequestAnswer, Option<ElementChange>) {
        let life = self.capacity.session_life;
        if request.operation == Operation::OpenSession {
            let opened = sessions::open(&mut self.sessions, self.applied, self.time, life);
            return (opened, None);
        }
        let (client, sequence) = (request.client, request.sequence);
        let mut sessions = std::mem::take(&mut self.sessions);
        let found = sessions::find(&mut sessions, client, sequence, self.time, life);
        let outcome = match found {
            Found::Answer(RequestAnswer::NoSession) => (RequestAnswer::NoSession, None),
            Found::Answer(_) if self.planted.is(Mistake::AppliesRepeats) => {
                self.operation(&request.operation, term)
            }
            Found::Answer(answer) => (answer, None),
            Found::New(session) => {
                let outcome = self.operation(&request.operation, term);
                session.sequence = sequence;
                session.answer = outcome.0;
                outcome
            }
        };
        self.sessions = sessions;
        outcome
    }

    fn operation(
        &mut self,
        operation: &Operation,
        term: Term,
    ) -> (RequestAnswer, Option<ElementChange>) {
        let answer = match operation {
            Operation::OpenSession => RequestAnswer::Done,
            Operation::Get(key) => RequestAnswer::Value(self.get(key)),
            Operation::Put(key, value) => self.put(key, value, term),
            Operation::Delete(key) => {
                self.table.remove(&Name::of_key(*key), &mut self.taking);
                RequestAnswer::Done
            }
            Operation::CompareAndSet { key, expected, new } => {
                let found = self.get(key);
                if found != *expected {
                    RequestAnswer::Differs(found)
                } else {
                    match self.put(key, new, term) {
                        RequestAnswer::Done => RequestAnswer::Swapped,
                        refused => refused,
                    }
                }
            }
            Operation::Change {
                element,
                key,
                change,
            } => {
                return self.change(*element, *key, *change, term);
            }
            Operation::Confirm { element, index } => {
                self.confirm(*element, LogIndex(*index));
                RequestAnswer::Done
            }
        };
        (answer, None)
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<StoredValue> {
        let cell = self.table.get(&Name::of_key(*key))?;
        StoredValue::new(cell.value.get())
    }

    fn put(&mut self, key: &Key, value: &StoredValue, term: Term) -> RequestAnswer {
        let cell = Cell {
            kind: CellKind::Value,
            key: *key,
            value: ChangeBytes::new(value.get()).unwrap_or_default(),
            term,
            index: self.applied,
            ..Cell::default()
        };
        let name = Name::of_key(*key);
        if self.planted.is(Mistake::EvictsWhenFull)
            && self.table.is_full(&name)
            && self.table.get(&name).is_none()
        {
            self.table.evict(&name, &mut self.taking);
        }
        match self.table.set(cell, &mut self.taking) {
            true => RequestAnswer::Done,
            false => RequestAnswer::Full,
        }
    }

    fn change(
        &mut self,
        element: ElementId,
        key: Key,
        change: Option<ChangeBytes>,
        term: Term,
    ) -> (RequestAnswer, Option<ElementChange>) {
        let head = self.table.get(&Name::of_element(element)).copied();
        let mut head = head.unwrap_or(Cell {
            kind: CellKind::Element,
            element,
            ..Cell::default()
        });
        let cell = Cell {
            kind: if change.is_some() {
                CellKind::Change
            } else {
                CellKind::Removal
            },
            element,
            key,
            value: change.unwrap_or_default(),
            term,
            index: self.applied,
            previous: head.index,
        };
        let previous = head.index;
        let is_new_element = head.index == LogIndex(0);
        (head.index, head.term) = (self.applied, term);
        if !self.table.set(head, &mut self.taking) {
            return (RequestAnswer::Full, None);
        }
        if !self.table.set(cell, &mut self.taking) {
            // The element is as before the change.
            if is_new_element {
                self.table
                    .remove(&Name::of_element(element), &mut self.taking);
            } else {
                head.index = previous;
                self.table.set(head, &mut self.taking);
            }
            return (RequestAnswer::Full, None);
        }
        let index = self.applied;
        (
            RequestAnswer::Done,
            Some(ElementChange {
                element,
                key,
                change,
                previous,
                index,
            }),
        )
    }

    fn confirm(&mut self, element: ElementId, index: LogIndex) {
        let Some(mut head) = self.table.get(&Name::of_element(element)).copied() else {
            return;
        };
        head.previous = head.previous.max(index.min(head.index));
        self.table.set(head, &mut self.taking);
        self.table
            .forget_removals(element, head.previous, &mut self.taking);
    }

    /// Returns the first change of an element after an index that it confirmed to the caller, to
    /// be sent again. The time is that of a look at all cells.
    pub(crate) fn change_after(
        &self,
        element: ElementId,
        after: LogIndex,
    ) -> Option<ElementChange> {
        let is_change = |kind| matches!(kind, CellKind::Change | CellKind::Removal);
        let cells = self.table.cells().iter();
        let cells = cells.filter(|cell| is_change(cell.kind) && cell.element == element);
        let cell = cells
            .filter(|cell| cell.index > after)
            .min_by_key(|cell| cell.index)?;
        Some(ElementChange {
            element,
            key: cell.key,
            change: (cell.kind == CellKind::Change).then_some(cell.value),
            previous: after,
            index: cell.index,
        })
    }

    /// Returns the changes that make what an element has, in order of their indices.
    pub(crate) fn changes_of(&self, element: ElementId) -> Vec<ElementChange> {
        let cells = self.table.cells().iter();
        let cells = cells.filter(|cell| cell.kind == CellKind::Change && cell.element == element);
        let changes = cells.map(|cell| ElementChange {
            element,
            key: cell.key,
            change: Some(cell.value),
            previous: cell.previous,
            index: cell.index,
        });
        let mut changes: Vec<ElementChange> = changes.collect();
        changes.sort_by_key(|change| change.index);
        changes
    }

    /// Returns the index of the last change that an element confirmed by an entry.
    pub(crate) fn confirmed(&self, element: ElementId) -> LogIndex {
        let head = self.table.get(&Name::of_element(element));
        head.map_or(LogIndex(0), |head| head.previous)
    }

    /// Begins a snapshot as of now.
    pub(crate) fn begin_snapshot(&mut self, members: Membership) {
        let into = &mut self.taking.into;
        (into.index, into.term) = (self.applied, self.applied_term);
        (into.time, into.members) = (self.time, members);
        into.sessions.copy_from_slice(&self.sessions);
        self.taking.begin();
    }

    pub(crate) const fn is_taking(&self) -> bool {
        self.taking.is_active()
    }

    /// Copies some cells. Returns true if a snapshot became complete.
    pub(crate) fn advance_snapshot(&mut self) -> bool {
        let is_complete = self.taking.advance(self.table.cells(), self.copies);
        if is_complete {
            std::mem::swap(&mut self.taking.into, &mut self.ready);
        }
        is_complete
    }

    /// Returns the newest complete snapshot, or `None` if there is none.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        (self.ready.index > LogIndex(0)).then_some(&self.ready)
    }

    /// Begins to receive a snapshot. One that is being taken is given up.
    pub(crate) fn begin_receiving(&mut self, index: LogIndex, term: Term) {
        self.taking.stop();
        self.taking.into.begin(index, term);
    }

    /// Returns the snapshot that is received.
    pub(crate) const fn receiving(&mut self) -> &mut Snapshot {
        &mut self.taking.into
    }

    /// Becomes the state of the snapshot that was received.
    pub(crate) fn install_received(&mut self) {
        std::mem::swap(&mut self.taking.into, &mut self.ready);
        self.install_ready();
    }

    /// Becomes the state of a snapshot. Returns false if it is of other capacities.
    pub(crate) fn install(&mut self, snapshot: Snapshot) -> bool {
        let sizes = |of: &Snapshot| (of.sessions.len(), of.cells.len());
        if sizes(&snapshot) != sizes(&self.ready) {
            return false;
        }
        self.ready = snapshot;
        self.install_ready();
        true
    }

    fn install_ready(&mut self) {
        let from = &mut self.ready;
        if self.planted.is(Mistake::DropsSessionsInSnapshots) {
            from.sessions.fill(Session::default());
        }
        (self.applied, self.applied_term) = (from.index, from.term);
        self.time = from.time;
        self.sessions.copy_from_slice(&from.sessions);
        self.table.set_all(&from.cells);
    }

    /// Returns a number that depends on the whole state.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "only simulations compare states")
    )]
    pub(crate) fn digest(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        self.time.hash(&mut hasher);
        self.sessions.hash(&mut hasher);
        self.table.cells().hash(&mut hasher);
        hasher.finish()
    }
}

//! Changes by handlers that wait for a slower receiver. For each key only what is left of its
//! changes waits, so that a queue has at most about as many as both sides have entries.

use std::collections::{BTreeMap, HashMap};

use ir::TableId;
use p4info::polyplane::split::v1 as wire;
use switch::{Change, EntryId};

use crate::messages::handler_change;

type Key = (TableId, Box<[u64]>);

/// Changes of a key, in this order.
#[derive(Default)]
struct KeyChanges {
    /// Removals of entries that the receiver may have.
    removals: Vec<Change>,
    /// The entry that the key has now, if the receiver does not have it like that.
    addition: Option<Change>,
}

impl KeyChanges {
    fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.addition.is_none()
    }

    fn add(&mut self, change: Change) {
        match change {
            Change::Learn(..) => self.addition = Some(change),
            Change::Relearn(table, entry) => {
                self.addition = Some(match &self.addition {
                    Some(Change::Learn(..)) => Change::Learn(table, entry),
                    _ => Change::Relearn(table, entry),
                });
            }
            removal => {
                let removed = entry_of(&removal);
                match &self.addition {
                    // The receiver never gets the entry.
                    Some(Change::Learn(_, entry)) if Some(entry.id) == removed => {
                        self.addition = None;
                        return;
                    }
                    // Another entry with the key is there, and goes first.
                    Some(Change::Learn(..)) => {}
                    _ => self.addition = None,
                }
                let mut removals = self.removals.iter();
                if !removals.any(|known| entry_of(known) == removed) {
                    self.removals.push(removal);
                }
            }
        }
    }
}

/// Returns the id of the entry that is removed.
fn entry_of(change: &Change) -> Option<EntryId> {
    match change {
        Change::Expire(_, entry) => Some(entry.id),
        Change::Forget(_, entry, _) => Some(*entry),
        _ => None,
    }
}

fn key_of(change: &Change) -> Option<Key> {
    match change {
        Change::Learn(table, entry)
        | Change::Relearn(table, entry)
        | Change::Expire(table, entry) => Some((*table, entry.key.clone())),
        Change::Forget(table, _, key) => Some((*table, key.clone())),
        _ => None,
    }
}

/// Queue of changes by handlers, in the order of the first one of each key.
#[derive(Default)]
pub(crate) struct ChangeQueue {
    waiting: BTreeMap<u64, (Key, KeyChanges)>,
    places: HashMap<Key, u64>,
    next: u64,
}

impl ChangeQueue {
    /// Adds a change. Returns false if it is not by a handler; then it is not added.
    pub(crate) fn push(&mut self, change: &Change) -> bool {
        let Some(key) = key_of(change) else {
            return false;
        };
        let place = *self.places.entry(key.clone()).or_insert(self.next);
        let waiting = self.waiting.entry(place);
        let (_, changes) = waiting.or_insert_with(|| (key.clone(), KeyChanges::default()));
        changes.add(change.clone());
        if changes.is_empty() {
            self.waiting.remove(&place);
            self.places.remove(&key);
        }
        self.next += 1;
        true
    }

    /// Takes changes at time `now`, as messages: about `max` at most.
    pub(crate) fn take(&mut self, max: usize, now: u64) -> Vec<wire::HandlerChange> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((_, (key, changes))) = self.waiting.pop_first()
        {
            self.places.remove(&key);
            let changes = changes.removals.into_iter().chain(changes.addition);
            taken.extend(changes.filter_map(|change| handler_change(&change, now)));
        }
        taken
    }

    /// Drops all changes but removals.
    pub(crate) fn keep_removals(&mut self) {
        self.waiting.retain(|_, (key, changes)| {
            changes.addition = None;
            let stays = !changes.is_empty();
            if !stays {
                self.places.remove(key);
            }
            stays
        });
    }

    /// Drops all changes.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use p4info::polyplane::split::v1::handler_change::Kind;
    use support::rng::Rng;
    use switch::LearnedEntry;
    use table::ActionRef;

    use super::*;

    const TABLE: TableId = TableId::new(0);

    fn entry(id: u64, key: u64, param: u64) -> LearnedEntry {
        LearnedEntry {
            id: EntryId(id),
            key: [key].into(),
            action: ActionRef {
                action: 0,
                params: [param].into(),
            },
            idle_timeout_ns: None,
            timer_start_ns: 0,
            usage: Default::default(),
        }
    }

    /// Entries of a receiver by key: id and parameter.
    #[derive(Default, Debug, PartialEq)]
    struct Receiver(BTreeMap<u64, (u64, u64)>);

    impl Receiver {
        /// Applies a message as a server does: an entry that is there stays, and a removal is that
        /// of one entry.
        fn apply(&mut self, message: &wire::HandlerChange) {
            let (key, id) = (message.key[0], message.entry);
            match message.kind() {
                Kind::Added => {
                    self.0.entry(key).or_insert((id, message.params[0]));
                }
                Kind::Replaced => {
                    let known = self.0.get_mut(&key).filter(|known| known.0 == id);
                    if let Some(known) = known {
                        known.1 = message.params[0];
                    }
                }
                Kind::Removed | Kind::Expired => {
                    if self.0.get(&key).is_some_and(|known| known.0 == id) {
                        self.0.remove(&key);
                    }
                }
            }
        }
    }

    #[test]
    fn a_receiver_that_gets_some_of_the_changes_late_ends_with_the_same_entries() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut queue = ChangeQueue::default();
            let mut receiver = Receiver::default();
            let mut present: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            for id in 0..200 {
                let key = rng.below(8);
                let change = match present.get(&key).copied() {
                    None => {
                        present.insert(key, (id, id));
                        Change::Learn(TABLE, entry(id, key, id))
                    }
                    Some((old, _)) if rng.one_in(3) => {
                        present.insert(key, (old, id));
                        Change::Relearn(TABLE, entry(old, key, id))
                    }
                    Some((old, param)) if rng.one_in(2) => {
                        present.remove(&key);
                        Change::Expire(TABLE, entry(old, key, param))
                    }
                    Some((old, _)) => {
                        present.remove(&key);
                        Change::Forget(TABLE, EntryId(old), [key].into())
                    }
                };
                assert!(queue.push(&change));
                assert!(queue.waiting.len() <= 8 && queue.places.len() == queue.waiting.len());
                if rng.one_in(10) {
                    let taken = queue.take(1 + rng.index(4), 0);
                    taken.iter().for_each(|message| receiver.apply(message));
                }
            }
            let rest = queue.take(usize::MAX, 0);
            rest.iter().for_each(|message| receiver.apply(message));
            assert_eq!(receiver.0, present, "seed {seed}");
            assert!(queue.waiting.is_empty() && queue.places.is_empty());
        }
    }

    #[test]
    fn an_entry_that_comes_and_goes_while_it_waits_is_not_sent() {
        let mut queue = ChangeQueue::default();
        for id in 0..1000 {
            queue.push(&Change::Learn(TABLE, entry(id, id, 0)));
            queue.push(&Change::Expire(TABLE, entry(id, id, 0)));
        }
        assert_eq!(queue.take(10, 0), []);
    }

    #[test]
    fn another_entry_with_the_key_is_removed_before_the_one_that_waits() {
        let mut queue = ChangeQueue::default();
        let first = Change::Learn(TABLE, entry(1, 7, 0));
        queue.push(&first);
        queue.push(&Change::Forget(TABLE, EntryId(2), [7].into()));
        queue.push(&first);
        let taken = queue.take(10, 0);
        let kinds: Vec<(Kind, u64)> = taken.iter().map(|m| (m.kind(), m.entry)).collect();
        assert_eq!(kinds, [(Kind::Removed, 2), (Kind::Added, 1)]);
    }

    #[test]
    fn removals_stay_when_all_entries_are_reported_again() {
        let mut queue = ChangeQueue::default();
        queue.push(&Change::Forget(TABLE, EntryId(1), [7].into()));
        queue.push(&Change::Learn(TABLE, entry(2, 7, 0)));
        queue.push(&Change::Learn(TABLE, entry(3, 8, 0)));
        queue.keep_removals();
        queue.push(&Change::Learn(TABLE, entry(2, 7, 0)));
        let taken = queue.take(10, 0);
        let kinds: Vec<(Kind, u64)> = taken.iter().map(|m| (m.kind(), m.entry)).collect();
        assert_eq!(kinds, [(Kind::Removed, 1), (Kind::Added, 2)]);
    }
}

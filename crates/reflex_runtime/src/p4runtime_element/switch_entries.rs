//! Entries of the managed tables of one switch, beside what the store has.

use std::collections::{HashMap, HashSet};

use consensus::{ChangeBytes, ElementChange, Key};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type as UpdateType;
use p4rt::Code;
use prost::Message;
use reflex::{ElementWrite, controller_change, controller_message};

use super::entries::{BoundTable, Entry, controller_name, key_of, plain};

/// First bytes of the metadata of entries that are of loops.
const OF_LOOPS: &[u8] = b"reflex ";

/// Need of a change at the switch.
pub(super) enum Planned {
    /// It is no write of this element.
    Unknown,
    /// The switch has it.
    Nothing,
    /// An update, and the entry before it.
    Write(Box<(rt::Update, Option<Entry>)>),
}

/// Entries of the managed tables of a switch.
pub(super) struct SwitchEntries {
    /// Tables of the permissions, by their places in the file.
    tables: Vec<Option<BoundTable>>,
    /// Entries that the switch has, by their names in the store.
    present: HashMap<Key, Entry>,
    /// Names that the store has.
    held: HashSet<Key>,
}

impl SwitchEntries {
    pub(super) fn new(tables: Vec<Option<BoundTable>>) -> SwitchEntries {
        SwitchEntries {
            tables,
            present: HashMap::new(),
            held: HashSet::new(),
        }
    }

    /// Returns the numbers of the managed tables, each once.
    pub(super) fn table_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.tables.iter().flatten().map(|it| it.table_id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Returns the keys of the permissions' tables with the fields that they get, in words.
    pub(super) fn keys(&self) -> Vec<String> {
        let tables = self.tables.iter().flatten();
        tables.map(|table| table.pairs.clone()).collect()
    }

    /// Forgets all entries, before they are read.
    pub(super) fn clear(&mut self) {
        self.present.clear();
        self.held.clear();
    }

    /// Takes an entry that was read from the switch.
    pub(super) fn read(&mut self, message: &rt::TableEntry) {
        if message.is_const {
            return;
        }
        let tables = self.tables.iter().enumerate();
        let mut own = tables.filter_map(|(at, table)| table.as_ref()?.read(at, message));
        let (name, entry) = own.next().unwrap_or_else(|| {
            let message = plain(message);
            let name = controller_name(&message);
            let reflex = None;
            (name, Entry { message, reflex })
        });
        self.present.insert(name, entry);
    }

    /// Returns the entry of the switch that has the key of another one, with its name.
    pub(super) fn find(&self, entry: &rt::TableEntry) -> Option<(Key, &Entry)> {
        let tables = self.tables.iter().enumerate();
        let loops = tables.filter_map(|(at, table)| table.as_ref()?.name(at, entry));
        let mut names = loops.chain([controller_name(entry)]);
        names.find_map(|name| Some((name, self.present.get(&name)?)))
    }

    /// Returns the words that name the owner of an entry.
    pub(super) fn owner(&self, entry: &Entry) -> String {
        let table = entry.reflex.and_then(|at| self.tables.get(at)?.as_ref());
        let name = table.map(|table| String::from_utf8_lossy(table.owner()).into_owned());
        name.unwrap_or_else(|| "a controller".to_owned())
    }

    /// Returns what the switch has at a name, as a change by a controller. `None` if it is an
    /// entry of a loop, or too long.
    pub(super) fn change_of(&self, name: &Key) -> Option<Option<ChangeBytes>> {
        match self.present.get(name) {
            Some(entry) if entry.reflex.is_some() => None,
            Some(entry) => change(&entry.message).map(Some),
            None => Some(None),
        }
    }

    /// Returns what a change needs, and notes its effect.
    pub(super) fn plan(&mut self, change: &ElementChange) -> Planned {
        let Some(bytes) = &change.change else {
            self.held.remove(&change.key);
            return match self.present.remove(&change.key) {
                Some(entry) => {
                    let update = update_of(UpdateType::Delete, key_of(&entry.message));
                    Planned::Write(Box::new((update, Some(entry))))
                }
                None => Planned::Nothing,
            };
        };
        let Some(entry) = self.entry_of(bytes) else {
            return Planned::Unknown;
        };
        self.held.insert(change.key);
        let message = entry.message.clone();
        let former = self.present.insert(change.key, entry);
        if former.as_ref().is_some_and(|it| it.message == message) {
            return Planned::Nothing;
        }
        let kind = match former.is_some() || message.is_default_action {
            true => UpdateType::Modify,
            false => UpdateType::Insert,
        };
        Planned::Write(Box::new((update_of(kind, message), former)))
    }

    /// Returns the entry of a change. `None` if it is none of a managed table.
    fn entry_of(&self, bytes: &ChangeBytes) -> Option<Entry> {
        let Some(message) = controller_message(bytes.get()) else {
            let write = ElementWrite::decode(bytes.get())?;
            return self.tables.get(write.reflex.0)?.as_ref()?.entry(&write);
        };
        let message = rt::TableEntry::decode(message).ok()?;
        let mut tables = self.tables.iter().flatten();
        let is_managed = tables.any(|table| table.table_id == message.table_id);
        let reflex = None;
        is_managed.then_some(Entry { message, reflex })
    }

    /// Notes that the switch refused an update: it has the entry that it had before, unless it says
    /// that there is none.
    pub(super) fn put_back(&mut self, name: Key, former: Option<Entry>, code: i32) {
        let is_there = code != Code::NotFound as i32;
        match former.filter(|_| is_there) {
            Some(former) => self.present.insert(name, former),
            None => self.present.remove(&name),
        };
    }

    /// Removes and returns the entries of loops that the store does not have.
    pub(super) fn take_others(&mut self) -> Vec<rt::TableEntry> {
        let held = &self.held;
        let is_other =
            |name: &Key, entry: &mut Entry| entry.reflex.is_some() && !held.contains(name);
        let others = self.present.extract_if(is_other);
        others.map(|(_, entry)| key_of(&entry.message)).collect()
    }

    /// Returns the entries of controllers that the store does not have, as changes. Those that are
    /// too long are left out, and so are those of loops of other files.
    pub(super) fn unknown(&self) -> Vec<(Key, ChangeBytes)> {
        let others = self.present.iter().filter(|(name, entry)| {
            let is_of_loop = entry.message.metadata.starts_with(OF_LOOPS);
            !self.held.contains(*name) && !is_of_loop
        });
        let others = others.filter_map(|(name, entry)| Some((*name, change(&entry.message)?)));
        let mut all: Vec<(Key, ChangeBytes)> = others.collect();
        // The order of a table of hashes is not the same in each run.
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }
}

/// Returns an entry as a change by a controller. `None` if it is too long for the store.
pub(super) fn change(entry: &rt::TableEntry) -> Option<ChangeBytes> {
    controller_change(&entry.encode_to_vec())
}

/// Returns an update of an entry.
pub(super) fn update_of(kind: UpdateType, entry: rt::TableEntry) -> rt::Update {
    rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(Entity::TableEntry(entry)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_update_leaves_the_entry_before_it_unless_there_is_none() {
        let entry = |table_id| Entry {
            message: rt::TableEntry {
                table_id,
                ..rt::TableEntry::default()
            },
            reflex: None,
        };
        let key = [1; 16];
        let (full, not_found) = (Code::ResourceExhausted as i32, Code::NotFound as i32);
        // The former entry, what the update noted, the code, and what is there.
        let cases = [
            (Some(entry(3)), Some(entry(4)), full, Some(entry(3))),
            (Some(entry(3)), None, full, Some(entry(3))),
            (None, Some(entry(4)), full, None),
            (Some(entry(3)), Some(entry(4)), not_found, None),
            (Some(entry(3)), None, not_found, None),
        ];
        for (former, noted, code, expected) in cases {
            let mut entries = SwitchEntries::new(Vec::new());
            entries.present.extend(noted.map(|it| (key, it)));
            entries.put_back(key, former, code);
            assert_eq!(entries.present.remove(&key), expected);
        }
    }
}

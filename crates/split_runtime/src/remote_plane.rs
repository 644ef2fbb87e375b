//! A plane at the other end of a connection, as the coordinator sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use ir::{Program, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type;
use p4info::polyplane::split::v1 as wire;
use p4rt::{UpdateEncoder, entry_number};
use split::PlaneControl;
use switch::{Change, ControlCode, ControlError, CounterReading, EntryId};

use crate::connection::Connection;
use crate::messages::{MAX_ITEMS, handler_change};

/// Maximum number of updates in one batch.
const MAX_UPDATES: usize = 10_000;

/// State of a plane for a coordinator.
pub(crate) struct RemotePlane {
    pub(crate) name: String,
    pub(crate) connection: Connection,
    is_server: bool,
    program: Arc<Program>,
    /// Encoder of the changes of a connected plane. It has the entries that the plane holds.
    encoder: Option<UpdateEncoder>,
    updates: Vec<rt::Update>,
    handler_changes: Vec<wire::HandlerChange>,
    touches: Vec<wire::EntryUse>,
    /// Last uses of entries by number, in nanoseconds of the coordinator's time.
    last_uses: HashMap<(TableId, EntryId), u64>,
    /// Last restarts of the timers of handlers' entries, by key.
    last_restarts: HashMap<(TableId, Box<[u64]>), u64>,
    /// Direct counters of entries, as last read.
    counters: HashMap<(TableId, EntryId), CounterReading>,
    /// The coordinator's time.
    now: u64,
}

/// Number of differences between a plane and what it must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(crate) missing: usize,
    pub(crate) changed: usize,
    pub(crate) unknown: usize,
}

impl Differences {
    pub(crate) fn any(self) -> bool {
        self != Differences::default()
    }
}

fn refused(name: &str, error: impl std::fmt::Display) -> ControlError {
    ControlError {
        code: ControlCode::FailedPrecondition,
        existing: None,
        message: format!("{name}: {error}"),
    }
}

impl RemotePlane {
    pub(crate) fn new(
        name: String,
        connection: Connection,
        program: Arc<Program>,
        is_server: bool,
    ) -> RemotePlane {
        RemotePlane {
            name,
            connection,
            is_server,
            program,
            encoder: None,
            updates: Vec::new(),
            handler_changes: Vec::new(),
            touches: Vec::new(),
            last_uses: HashMap::new(),
            last_restarts: HashMap::new(),
            counters: HashMap::new(),
            now: 0,
        }
    }

    /// Returns true if the plane has its state and follows changes.
    pub(crate) fn is_connected(&self) -> bool {
        self.encoder.is_some()
    }

    /// Notes that the connection has ended.
    pub(crate) fn disconnected(&mut self) {
        self.encoder = None;
        self.updates.clear();
        self.handler_changes.clear();
        self.touches.clear();
    }

    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Makes the plane hold exactly this state, and lets it follow changes from now on. Entries of
    /// handlers that a server has stay: they are reported apart. If `is_known`, the plane has held
    /// the state before, and only what can be read is compared.
    ///
    /// # Errors
    /// The plane refuses an update, or P4Runtime has no update for a part of the state.
    pub(crate) fn synchronise(
        &mut self,
        state: Vec<(Change, Option<EntryId>)>,
        is_known: bool,
    ) -> Result<Differences, String> {
        let name = self.name.clone();
        let explain = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let encoder = UpdateEncoder::new(Arc::clone(&self.program));
        let mut encoder = encoder.map_err(|error| explain(&error))?;
        let mut wanted: Vec<rt::Update> = Vec::new();
        self.handler_changes.clear();
        for (change, made) in &state {
            if let Some(change) = handler_change(change, self.now) {
                self.handler_changes.push(change);
                continue;
            }
            let updates = encoder.updates(change, *made);
            wanted.extend(updates.map_err(|error| explain(&error))?);
        }
        let all = vec![
            Entity::TableEntry(rt::TableEntry {
                meter_config: Some(rt::MeterConfig::default()),
                ..rt::TableEntry::default()
            }),
            Entity::ActionProfileMember(rt::ActionProfileMember::default()),
            Entity::ActionProfileGroup(rt::ActionProfileGroup::default()),
            Entity::PacketReplicationEngineEntry(multicast_groups()),
            Entity::PacketReplicationEngineEntry(clone_sessions()),
        ];
        let found = self.connection.read(all).map_err(|error| explain(&error))?;
        let (updates, differences) = difference(wanted, found, is_known, self.is_server);
        self.updates = updates;
        self.encoder = Some(encoder);
        self.flush().map_err(|error| error.message)?;
        Ok(differences)
    }

    /// Starts to send all pending changes. [`RemotePlane::finish`] waits for the results.
    pub(crate) fn begin_flush(&mut self) -> Vec<Receiver<Result<(), String>>> {
        let updates = std::mem::take(&mut self.updates);
        let written = updates
            .chunks(MAX_UPDATES)
            .map(|part| self.connection.write(part.to_vec()))
            .collect();
        let changes = std::mem::take(&mut self.handler_changes);
        for part in changes.chunks(MAX_ITEMS) {
            self.connection.send(wire::ToPlane {
                handler_changes: part.to_vec(),
                ..wire::ToPlane::default()
            });
        }
        let touches = std::mem::take(&mut self.touches);
        for part in touches.chunks(MAX_ITEMS) {
            self.connection.send(wire::ToPlane {
                uses: part.to_vec(),
                ..wire::ToPlane::default()
            });
        }
        written
    }

    /// Waits for the results of updates.
    ///
    /// # Errors
    /// The plane refuses an update. A plane without a connection gets its state later.
    pub(crate) fn finish(
        &self,
        written: Vec<Receiver<Result<(), String>>>,
    ) -> Result<(), ControlError> {
        let mut result = Ok(());
        for written in written {
            // Without an answer the connection has ended.
            let Ok(Err(error)) = written.recv() else {
                continue;
            };
            if self.is_connected() && result.is_ok() {
                result = Err(refused(&self.name, error));
            }
        }
        result
    }

    fn flush(&mut self) -> Result<(), ControlError> {
        let written = self.begin_flush();
        self.finish(written)
    }

    /// Takes over the uses of entries that the plane reports.
    pub(crate) fn take_uses(&mut self, uses: Vec<wire::EntryUse>) {
        for used in uses {
            let table = TableId::new(used.table);
            let time = self.now.saturating_sub(used.age_ns);
            match used.key.is_empty() {
                true => {
                    let last = self.last_uses.entry((table, EntryId(used.entry)));
                    let last = last.or_default();
                    *last = time.max(*last);
                }
                false => {
                    let last = self.last_restarts.entry((table, used.key.into()));
                    let last = last.or_default();
                    *last = time.max(*last);
                }
            }
        }
    }

    /// Reads the direct counters of a table's entries.
    ///
    /// # Errors
    /// The plane does not answer.
    pub(crate) fn read_counters(&mut self, table: TableId) -> Result<(), String> {
        let Some(id) = self
            .encoder
            .as_ref()
            .and_then(|encoder| encoder.table_id(table))
        else {
            return Ok(());
        };
        let wanted = Entity::TableEntry(rt::TableEntry {
            table_id: id,
            counter_data: Some(rt::CounterData::default()),
            ..rt::TableEntry::default()
        });
        for found in self.connection.read(vec![wanted])? {
            let Entity::TableEntry(entry) = found else {
                continue;
            };
            let number = entry_number(&entry.metadata);
            if let (Some(number), Some(data)) = (number, entry.counter_data) {
                self.counters.insert(
                    (table, number),
                    CounterReading {
                        packets: data.packet_count as u64,
                        bytes: data.byte_count as u64,
                    },
                );
            }
        }
        Ok(())
    }

    /// Reads all counters and registers of a switch, as changes.
    ///
    /// # Errors
    /// The plane does not answer.
    pub(crate) fn read_cells(&self) -> Result<Vec<Change>, String> {
        let Some(encoder) = &self.encoder else {
            return Ok(Vec::new());
        };
        let all = vec![
            Entity::CounterEntry(rt::CounterEntry::default()),
            Entity::RegisterEntry(rt::RegisterEntry::default()),
        ];
        let found = self.connection.read(all)?;
        let changes = found
            .iter()
            .filter_map(|entity| encoder.cell_change(entity));
        Ok(changes.collect())
    }
}

impl PlaneControl for RemotePlane {
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        if let Some(message) = handler_change(change, self.now) {
            match change {
                Change::Expire(table, entry) => {
                    self.last_restarts.remove(&(*table, entry.key.clone()));
                }
                Change::Forget(table, _, key) => {
                    self.last_restarts.remove(&(*table, key.clone()));
                }
                _ => {}
            }
            self.handler_changes.push(message);
            return Ok(());
        }
        let updates = encoder.updates(change, made);
        self.updates
            .extend(updates.map_err(|error| refused(&self.name, error))?);
        if let (Change::Insert(table, _), Some(made)) = (change, made) {
            self.last_uses.insert((*table, made), self.now);
        }
        if let Change::Delete(table, entry) = change {
            self.last_uses.remove(&(*table, *entry));
            self.counters.remove(&(*table, *entry));
        }
        Ok(())
    }

    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        self.counters.get(&(table, entry)).copied()
    }

    fn last_use(&self, table: TableId, entry: EntryId) -> Option<u64> {
        self.last_uses.get(&(table, entry)).copied()
    }

    fn last_restart(&self, table: TableId, key: &[u64]) -> Option<u64> {
        self.last_restarts.get(&(table, key.into())).copied()
    }

    fn touch(&mut self, table: TableId, key: &[u64], time_ns: u64) {
        if self.encoder.is_none() || self.last_restart(table, key) >= Some(time_ns) {
            return;
        }
        self.last_restarts.insert((table, key.into()), time_ns);
        self.touches.push(wire::EntryUse {
            table: table.get(),
            entry: 0,
            key: key.to_vec(),
            age_ns: self.now.saturating_sub(time_ns),
        });
    }
}

fn multicast_groups() -> rt::PacketReplicationEngineEntry {
    use rt::packet_replication_engine_entry::Type;
    rt::PacketReplicationEngineEntry {
        r#type: Some(Type::MulticastGroupEntry(Default::default())),
    }
}

fn clone_sessions() -> rt::PacketReplicationEngineEntry {
    use rt::packet_replication_engine_entry::Type;
    rt::PacketReplicationEngineEntry {
        r#type: Some(Type::CloneSessionEntry(Default::default())),
    }
}

/// Key of an object that updates insert, modify and delete.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Entry(Vec<u8>),
    Member(u32, u32),
    Group(u32, u32),
    Multicast(u32),
    Session(u32),
}

fn entry_key(entry: &rt::TableEntry) -> rt::TableEntry {
    rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..rt::TableEntry::default()
    }
}

/// Returns the key of an object; `None` for objects that are only modified.
fn key(entity: &Entity) -> Option<Key> {
    use rt::packet_replication_engine_entry::Type;
    Some(match entity {
        Entity::TableEntry(entry) if entry.is_default_action => return None,
        Entity::TableEntry(entry) => {
            use prost::Message;
            Key::Entry(entry_key(entry).encode_to_vec())
        }
        Entity::ActionProfileMember(member) => {
            Key::Member(member.action_profile_id, member.member_id)
        }
        Entity::ActionProfileGroup(group) => Key::Group(group.action_profile_id, group.group_id),
        Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Type::MulticastGroupEntry(group) => Key::Multicast(group.multicast_group_id),
            Type::CloneSessionEntry(session) => Key::Session(session.session_id),
        },
        _ => return None,
    })
}

/// Returns an object without what P4Runtime reads beside it.
fn plain(entity: &Entity) -> Entity {
    match entity {
        Entity::TableEntry(entry) => Entity::TableEntry(rt::TableEntry {
            counter_data: None,
            time_since_last_hit: None,
            ..entry.clone()
        }),
        other => other.clone(),
    }
}

/// Returns the updates that make a plane with the objects `found` hold what `wanted` inserts, and
/// the number of differences of entries. Objects that cannot be read are left out if the plane has
/// held them before.
fn difference(
    wanted: Vec<rt::Update>,
    found: Vec<Entity>,
    is_known: bool,
    is_server: bool,
) -> (Vec<rt::Update>, Differences) {
    let mut differences = Differences::default();
    let mut held: HashMap<Key, Entity> = HashMap::new();
    let mut deletions = Vec::new();
    for entity in found {
        let is_fixed = match &entity {
            // Without a number, a server's entry is one that a handler has added.
            Entity::TableEntry(entry) => entry.is_const || is_server && entry.metadata.is_empty(),
            _ => false,
        };
        if let Some(key) = key(&entity).filter(|_| !is_fixed) {
            held.insert(key, entity);
        }
    }
    let mut updates = Vec::new();
    for mut update in wanted {
        let entity = update.entity.as_ref().and_then(|one| one.entity.as_ref());
        let Some(entity) = entity else { continue };
        let is_entry = matches!(entity, Entity::TableEntry(_));
        let Some(key) = key(entity) else {
            if !is_known {
                updates.push(update);
            }
            continue;
        };
        match held.remove(&key) {
            Some(found) if plain(&found) == plain(entity) => continue,
            Some(_) => {
                differences.changed += usize::from(is_entry);
                update.r#type = Type::Modify.into();
            }
            None => differences.missing += usize::from(is_entry),
        }
        updates.push(update);
    }
    for (key, entity) in held {
        differences.unknown += usize::from(matches!(key, Key::Entry(_)));
        let rank = match key {
            Key::Entry(_) => 0,
            Key::Group(..) => 1,
            _ => 2,
        };
        let entity = match entity {
            Entity::TableEntry(entry) => Entity::TableEntry(entry_key(&entry)),
            entity => entity,
        };
        let deletion = rt::Update {
            r#type: Type::Delete.into(),
            entity: Some(rt::Entity {
                entity: Some(entity),
            }),
        };
        deletions.push((rank, deletion));
    }
    deletions.sort_by_key(|(rank, _)| *rank);
    let deletions = deletions.into_iter().map(|(_, deletion)| deletion);
    // Entries that leave make room.
    (deletions.chain(updates).collect(), differences)
}

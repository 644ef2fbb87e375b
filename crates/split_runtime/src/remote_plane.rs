//! A plane at the other end of a connection, as the coordinator sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::SystemTime;

use ir::{ActionCall, Program, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type;
use p4info::polyplane::split::v1 as wire;
use p4rt::{Code, UpdateEncoder, entry_number};
use packet::Nanos;
use passes::split::MirroredTable;
use split::{NotInstalled, PlaneControl};
use switch::{Action, Change, ControlCode, ControlError, CounterReading, EntryId};

use crate::connection::{ANSWER_TIME, Connection, WriteError};
use crate::messages::{MAX_ITEMS, handler_change};

/// Maximum number of updates in one batch.
const MAX_UPDATES: usize = 10_000;

/// State of a plane for a coordinator.
pub(crate) struct RemotePlane {
    pub(crate) name: String,
    pub(crate) connection: Connection,
    is_server: bool,
    program: Arc<Program>,
    /// Mirrored tables of a switch. Changes of their entries are moves of the coordinator.
    mirrored: Vec<MirroredTable>,
    /// True for one of our planes.
    pub(crate) is_ours: bool,
    /// Encoder of the changes of a connected plane. It has the entries that the plane holds.
    encoder: Option<UpdateEncoder>,
    updates: Vec<PendingUpdate>,
    /// Entries that begin to work when the switch has their covers.
    activations: Vec<(TableId, EntryId, wire::Activation)>,
    /// Entries that the switch activates.
    activating: HashMap<(TableId, EntryId), Receiver<wire::Activated>>,
    next_activation: u64,
    /// Entries that did not begin to work.
    not_installed: Vec<NotInstalled>,
    handler_changes: Vec<wire::HandlerChange>,
    touches: Vec<wire::EntryUse>,
    /// Last uses of entries by number, in nanoseconds of the coordinator's time.
    last_uses: HashMap<(TableId, EntryId), u64>,
    /// Last restarts of the timers of handlers' entries, by key.
    last_restarts: HashMap<(TableId, Box<[u64]>), u64>,
    /// Hits of entries at the end of the last window.
    hits: HashMap<(TableId, EntryId), u64>,
    /// Direct counters of entries, as last read.
    counters: HashMap<(TableId, EntryId), CounterReading>,
    /// The coordinator's time.
    now: u64,
}

/// Update that waits.
#[derive(Clone)]
struct PendingUpdate {
    update: rt::Update,
    /// True if no controller waits for it.
    is_move: bool,
}

/// Result of the updates of a plane.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The first refused update of which a controller waits.
    pub(crate) refused: Option<String>,
    /// The first refused move.
    pub(crate) refused_move: Option<String>,
    /// True if the plane does not answer.
    pub(crate) is_silent: bool,
}

/// Batches on their way to a plane: for each update true if it is a move, and the result.
pub(crate) type Batches = Vec<(Vec<PendingKind>, Receiver<Result<(), WriteError>>)>;

/// Kind of an update on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingKind {
    is_move: bool,
    is_deletion: bool,
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
    /// Creates a plane without a connection: a switch with these mirrored tables, or a server.
    pub(crate) fn new(
        name: String,
        connection: Connection,
        program: Arc<Program>,
        mirrored: Option<Vec<MirroredTable>>,
    ) -> RemotePlane {
        RemotePlane {
            name,
            connection,
            is_server: mirrored.is_none(),
            program,
            mirrored: mirrored.unwrap_or_default(),
            is_ours: false,
            encoder: None,
            updates: Vec::new(),
            activations: Vec::new(),
            activating: HashMap::new(),
            next_activation: first_number(),
            not_installed: Vec::new(),
            handler_changes: Vec::new(),
            touches: Vec::new(),
            last_uses: HashMap::new(),
            last_restarts: HashMap::new(),
            hits: HashMap::new(),
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
        self.activations.clear();
        self.activating.clear();
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
        self.activations.clear();
        let open: Vec<(TableId, EntryId)> = self.activating.keys().copied().collect();
        open.into_iter()
            .for_each(|(table, entry)| self.settle(table, entry));
        self.not_installed.clear();
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
        let is_move = false;
        let updates = updates.into_iter();
        self.updates = updates
            .map(|update| PendingUpdate { update, is_move })
            .collect();
        self.encoder = Some(encoder);
        let batches = self.begin_flush();
        let written = self.finish(batches);
        match (written.refused, written.is_silent) {
            (Some(error), _) => Err(error),
            (None, true) => Err(format!("{name}: it does not answer")),
            (None, false) => Ok(differences),
        }
    }

    /// Starts to send all pending changes. [`RemotePlane::finish`] waits for the results.
    pub(crate) fn begin_flush(&mut self) -> Batches {
        let updates = std::mem::take(&mut self.updates);
        let mut batches: Batches = Vec::new();
        for part in updates.chunks(MAX_UPDATES) {
            let kinds = part.iter().map(|pending| PendingKind {
                is_move: pending.is_move,
                is_deletion: pending.update.r#type() == Type::Delete,
            });
            let updates = part.iter().map(|pending| pending.update.clone()).collect();
            batches.push((kinds.collect(), self.connection.write(updates)));
        }
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
        batches
    }

    /// Waits for the results of updates. A plane without a connection gets its state later. Then
    /// the entries of which the switch has the covers begin to work.
    pub(crate) fn finish(&mut self, batches: Batches) -> Written {
        let mut result = Written::default();
        for (kinds, written) in batches {
            let error = match written.recv_timeout(ANSWER_TIME) {
                Ok(Err(error)) if self.is_connected() => error,
                Err(RecvTimeoutError::Timeout) => {
                    result.is_silent = true;
                    break;
                }
                // Without an answer the connection has ended.
                _ => continue,
            };
            let name = &self.name;
            match error {
                WriteError::Batch(error) => {
                    result.refused.get_or_insert(format!("{name}: {error}"));
                }
                WriteError::Updates(refused) => {
                    for (at, code, error) in refused {
                        let kind = kinds.get(at).copied();
                        // What must go has gone.
                        if kind.is_some_and(|kind| kind.is_deletion) && code == Code::NotFound {
                            continue;
                        }
                        let place = match kind.is_some_and(|kind| kind.is_move) {
                            true => &mut result.refused_move,
                            false => &mut result.refused,
                        };
                        place.get_or_insert(format!("{name}: {error}"));
                    }
                }
            }
        }
        if !result.is_silent {
            for (table, entry, activation) in std::mem::take(&mut self.activations) {
                let activated = self.connection.activate(activation);
                self.activating.insert((table, entry), activated);
            }
        }
        result
    }

    /// Returns true while the switch activates entries.
    pub(crate) fn is_activating(&self) -> bool {
        !self.activating.is_empty()
            || !self.activations.is_empty()
            || !self.not_installed.is_empty()
    }

    /// Takes the entries that did not begin to work.
    pub(crate) fn take_not_installed(&mut self) -> Vec<NotInstalled> {
        let mut open = std::mem::take(&mut self.activating);
        open.retain(|&(table, entry), result| match result.try_recv() {
            Ok(result) => {
                self.note_activated(table, entry, &result);
                false
            }
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => false,
        });
        self.activating = open;
        std::mem::take(&mut self.not_installed)
    }

    fn note_activated(&mut self, table: TableId, entry: EntryId, result: &wire::Activated) {
        if !result.error.is_empty() {
            let error = (!result.is_late).then(|| refused(&self.name, &result.error));
            self.not_installed.push(NotInstalled {
                table,
                entry,
                is_covered: true,
                error,
            });
        }
    }

    /// Waits until an entry has begun to work, or will not: until then no other update may reach
    /// it.
    fn settle(&mut self, table: TableId, entry: EntryId) {
        let is_entry =
            |(of, one, _): &(TableId, EntryId, wire::Activation)| (*of, *one) == (table, entry);
        self.activations.retain(|activation| !is_entry(activation));
        if let Some(result) = self.activating.remove(&(table, entry)) {
            // The change that follows takes the place of this result.
            let _ = result.recv_timeout(ANSWER_TIME);
        }
    }

    /// Prepares the begin of an entry's work: the switch has an entry with its key, by which
    /// packets fly.
    fn activate(
        &mut self,
        table: TableId,
        entry: EntryId,
        action: &Action,
        timeout: Option<Nanos>,
    ) -> bool {
        let Action::Call(call) = action else {
            return false;
        };
        self.next_activation += 1;
        let args = call.args.iter().map(|value| value.to_be_bytes());
        let activation = wire::Activation {
            number: self.next_activation,
            table: table.get(),
            entry: entry.0,
            action: call.action as u32,
            args: args.collect(),
            idle_timeout_ns: timeout.map(|timeout| timeout.0),
        };
        self.activations.push((table, entry, activation));
        true
    }

    /// Returns the action by which packets of a mirrored table of one of our switches fly.
    fn miss_action(&self, table: TableId) -> Option<usize> {
        let mut mirrored = self.mirrored.iter();
        let mirrored = mirrored.find(|mirrored| mirrored.table == table)?;
        self.is_ours.then_some(mirrored.miss_action)
    }

    /// Takes over the hits of entries that a switch reports.
    pub(crate) fn take_hits(&mut self, hits: Vec<wire::EntryHits>) {
        self.hits = hits
            .into_iter()
            .map(|hits| ((TableId::new(hits.table), EntryId(hits.entry)), hits.hits))
            .collect();
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
        if self.encoder.is_none() {
            return Ok(());
        }
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
        let covered = self.covered(change, made);
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        let updates = encoder.updates(covered.as_ref().unwrap_or(change), made);
        let updates = updates.map_err(|error| refused(&self.name, error))?;
        let is_move = is_mirrored(&self.mirrored, change);
        let pending = updates.into_iter();
        let pending = pending.map(|update| PendingUpdate { update, is_move });
        // An entry that has a cover already needs no update before it is activated.
        if !matches!((&covered, change), (Some(_), Change::Modify(..))) {
            self.updates.extend(pending);
        }
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

    fn hits(&self, table: TableId, entry: EntryId) -> Option<u64> {
        self.hits.get(&(table, entry)).copied()
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

impl RemotePlane {
    /// Waits for what must not overlap with a change of a mirrored table of a switch. Returns the
    /// change that puts a cover in place of an entry that begins to work later.
    fn covered(&mut self, change: &Change, made: Option<EntryId>) -> Option<Change> {
        match change {
            Change::Insert(table, entry) => {
                let miss = self.miss_action(*table)?;
                let made = made?;
                if is_call_of(&entry.action, miss)
                    || !self.activate(*table, made, &entry.action, entry.idle_timeout)
                {
                    return None;
                }
                let mut cover = entry.clone();
                cover.action = miss_call(miss);
                cover.idle_timeout = None;
                Some(Change::Insert(*table, cover))
            }
            Change::Modify(table, entry, action, timeout) => {
                let miss = self.miss_action(*table)?;
                self.settle(*table, *entry);
                if is_call_of(action, miss) || !self.activate(*table, *entry, action, *timeout) {
                    return None;
                }
                Some(change.clone())
            }
            Change::Delete(table, entry) => {
                self.miss_action(*table)?;
                self.settle(*table, *entry);
                None
            }
            Change::Clear(table) => {
                let open: Vec<EntryId> = self
                    .activating
                    .keys()
                    .filter(|(of, _)| of == table)
                    .map(|(_, entry)| *entry)
                    .collect();
                open.into_iter()
                    .for_each(|entry| self.settle(*table, entry));
                self.activations.retain(|(of, ..)| of != table);
                None
            }
            _ => None,
        }
    }
}

/// Returns a number above those of earlier processes, which a switch may still answer.
pub(crate) fn first_number() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

fn is_call_of(action: &Action, position: usize) -> bool {
    matches!(action, Action::Call(call) if call.action == position)
}

fn miss_call(miss: usize) -> Action {
    Action::Call(ActionCall {
        action: miss,
        args: Vec::new(),
    })
}

/// Returns true if a change is about an entry of a mirrored table of a switch.
fn is_mirrored(mirrored: &[MirroredTable], change: &Change) -> bool {
    let (Change::Insert(table, _) | Change::Modify(table, ..) | Change::Delete(table, _)) = change
    else {
        return false;
    };
    mirrored.iter().any(|mirrored| mirrored.table == *table)
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

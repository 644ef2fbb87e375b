//! A plane at the other end of a connection, as the coordinator sees it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, SystemTime};

use ir::{ActionCall, Program, TableId};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::polyplane::split::v1 as wire;
use p4rt::client::EncodedUpdates;
use p4rt::{UpdateEncoder, entry_number};
use packet::Nanos;
use passes::split::MirroredTable;
use split::{Coordinator, NotInstalled, PlaneControl};
use switch::{Action, Change, ControlCode, ControlError, CounterReading, EntryId};
use table::Entry;

use crate::change_queue::ChangeQueue;
use crate::connection::{ANSWER_TIME, Connection};
use crate::control::ConnectionNumber;
use crate::difference::{Differences, difference};
use crate::messages::MAX_ITEMS;
use crate::update_queue::{Answers, UpdateKind, UpdateQueue};

/// Time for which [`RemotePlane::settle_updates`] waits for one answer.
const ONE_WAIT: Duration = Duration::from_millis(500);

/// State of a plane for a coordinator.
pub(crate) struct RemotePlane {
    pub(crate) name: String,
    /// Number of the connection.
    pub(crate) number: ConnectionNumber,
    pub(crate) connection: Connection,
    is_server: bool,
    program: Arc<Program>,
    /// Mirrored tables of a switch. Changes of their entries are moves of the coordinator.
    mirrored: Vec<MirroredTable>,
    /// True for one of our planes.
    pub(crate) is_ours: bool,
    /// Encoder of the changes of a connected plane. It has the entries that the plane holds.
    encoder: Option<UpdateEncoder>,
    updates: UpdateQueue,
    /// Entries that begin to work when the switch has their covers.
    activations: Vec<(TableId, EntryId, wire::Activation)>,
    /// Entries that the switch activates.
    activating: HashMap<(TableId, EntryId), Receiver<wire::Activated>>,
    next_activation: u64,
    /// Entries that did not begin to work.
    not_installed: Vec<NotInstalled>,
    /// Changes by handlers of other servers.
    handler_changes: ChangeQueue,
    /// Restarts of timers of handlers' entries, by key: the times.
    touches: BTreeMap<(TableId, Box<[u64]>), u64>,
    /// Last uses of entries by number, in nanoseconds of the coordinator's time.
    last_uses: HashMap<(TableId, EntryId), u64>,
    /// Last restarts of the timers of handlers' entries, by key.
    last_restarts: HashMap<(TableId, Box<[u64]>), u64>,
    /// Hits of entries at the end of the last window.
    hits: HashMap<(TableId, EntryId), u64>,
    /// Direct counters of entries by table, as last read.
    counters: HashMap<TableId, HashMap<EntryId, CounterReading>>,
    /// The coordinator's time.
    now: u64,
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
        (number, connection): (ConnectionNumber, Connection),
        program: Arc<Program>,
        mirrored: Option<Vec<MirroredTable>>,
    ) -> RemotePlane {
        RemotePlane {
            name,
            number,
            connection,
            is_server: mirrored.is_none(),
            program,
            mirrored: mirrored.unwrap_or_default(),
            is_ours: false,
            encoder: None,
            updates: UpdateQueue::default(),
            activations: Vec::new(),
            activating: HashMap::new(),
            next_activation: first_number(),
            not_installed: Vec::new(),
            handler_changes: ChangeQueue::default(),
            touches: BTreeMap::new(),
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
            if self.handler_changes.push(change) {
                continue;
            }
            let updates = match self.is_server {
                true => encoder.updates_of(change, *made, &[]),
                false => encoder.updates(change, *made),
            };
            wanted.extend(updates.map_err(|error| explain(&error))?);
        }
        let digests = encoder.digest_updates();
        let mut all = vec![
            Entity::TableEntry(rt::TableEntry {
                meter_config: Some(rt::MeterConfig::default()),
                ..rt::TableEntry::default()
            }),
            Entity::ActionProfileMember(rt::ActionProfileMember::default()),
            Entity::ActionProfileGroup(rt::ActionProfileGroup::default()),
            Entity::PacketReplicationEngineEntry(multicast_groups()),
            Entity::PacketReplicationEngineEntry(clone_sessions()),
        ];
        // Switches without digests need not know them.
        if !digests.is_empty() {
            all.push(Entity::DigestEntry(rt::DigestEntry::default()));
            wanted.extend(digests);
        }
        let found = self.connection.read(all).map_err(|error| explain(&error))?;
        let (updates, differences) = difference(wanted, found, is_known, self.is_server);
        self.updates.clear();
        self.queue(&updates, false);
        drop(updates);
        self.encoder = Some(encoder);
        let answers = self.settle_updates();
        match (answers.refused, answers.is_silent) {
            (Some((_, error)), _) => Err(error),
            (None, true) => Err(format!("{name}: it does not answer")),
            (None, false) => Ok(differences),
        }
    }

    /// Returns the encoder of a connected plane.
    pub(crate) fn encoder(&self) -> Option<&UpdateEncoder> {
        self.encoder.as_ref()
    }

    /// Adds updates to those that wait.
    fn queue(&mut self, updates: &[rt::Update], is_move: bool) {
        for update in updates {
            let mut encoded = EncodedUpdates::default();
            encoded.push(update);
            self.queue_encoded(&encoded, &[UpdateKind::of(update, is_move)]);
        }
    }

    /// Adds encoded updates to those that wait.
    pub(crate) fn queue_encoded(&mut self, updates: &EncodedUpdates, kinds: &[UpdateKind]) {
        self.updates.push(updates, kinds);
    }

    /// Returns the updates that are on their way.
    pub(crate) fn updates(&self) -> &UpdateQueue {
        &self.updates
    }

    /// Sends what the plane can take now.
    pub(crate) fn send(&mut self) {
        self.updates.send(|updates| self.connection.write(updates));
        while self.connection.has_room() {
            let handler_changes = self.handler_changes.take(MAX_ITEMS, self.now);
            if handler_changes.is_empty() {
                break;
            }
            self.connection.send(wire::ToPlane {
                handler_changes,
                ..wire::ToPlane::default()
            });
        }
        while self.connection.has_room() && !self.touches.is_empty() {
            let mut uses = Vec::new();
            while uses.len() < MAX_ITEMS
                && let Some(((table, key), time)) = self.touches.pop_first()
            {
                uses.push(wire::EntryUse {
                    table: table.get(),
                    entry: 0,
                    key: key.into(),
                    age_ns: self.now.saturating_sub(time),
                });
            }
            self.connection.send(wire::ToPlane {
                uses,
                ..wire::ToPlane::default()
            });
        }
    }

    /// Takes the answers that have arrived.
    pub(crate) fn take_answers(&mut self) -> Answers {
        let answers = self.updates.take_answers(&self.name, Duration::ZERO);
        match self.is_connected() {
            true => answers,
            // A plane without a connection gets its state later.
            false => Answers::default(),
        }
    }

    /// Sends all updates and waits for the answers. A plane without a connection gets its state
    /// later. Then the entries of which the switch has the covers begin to work.
    pub(crate) fn settle_updates(&mut self) -> Answers {
        let mut all = Answers::default();
        loop {
            self.send();
            if self.updates.is_empty() || all.is_silent {
                break;
            }
            let answers = self.updates.take_answers(&self.name, ONE_WAIT);
            all.refused = all.refused.or(answers.refused);
            all.refused_move = all.refused_move.or(answers.refused_move);
            all.is_silent = answers.is_silent;
        }
        if !self.is_connected() {
            return Answers::default();
        }
        if !all.is_silent {
            for (table, entry, activation) in std::mem::take(&mut self.activations) {
                let activated = self.connection.activate(activation);
                self.activating.insert((table, entry), activated);
            }
        }
        all
    }

    /// Forgets the uses and counts of entries that are gone.
    pub(crate) fn forget_gone(&mut self, coordinator: &Coordinator) {
        let has_entry = |table, entry| coordinator.has_entry(table, entry);
        self.last_uses
            .retain(|(table, entry), _| has_entry(*table, *entry));
        self.last_restarts
            .retain(|(table, key), _| coordinator.learned_entry(*table, key).is_some());
        self.last_uses.shrink_to(self.last_uses.len() * 2);
        self.last_restarts.shrink_to(self.last_restarts.len() * 2);
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
        let mut counters = HashMap::new();
        for found in self.connection.read(vec![wanted])? {
            let Entity::TableEntry(entry) = found else {
                continue;
            };
            let number = entry_number(&entry.metadata);
            if let (Some(number), Some(data)) = (number, entry.counter_data) {
                counters.insert(
                    number,
                    CounterReading {
                        packets: data.packet_count as u64,
                        bytes: data.byte_count as u64,
                    },
                );
            }
        }
        self.counters.insert(table, counters);
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
        self.apply_to(change, made, &[])
    }

    fn apply_to(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        touched: &[Arc<Entry>],
    ) -> Result<(), ControlError> {
        if self.encoder.is_none() || self.note(change, made) {
            return Ok(());
        }
        if self.is_server {
            let (encoded, kinds) = self.encode_for_servers(change, made, touched)?;
            self.queue_encoded(&encoded, &kinds);
            return Ok(());
        }
        let covered = self.covered(change, made);
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        let updates = encoder.updates(covered.as_ref().unwrap_or(change), made);
        let updates = updates.map_err(|error| refused(&self.name, error))?;
        let is_move = is_mirrored(&self.mirrored, change);
        // An entry that has a cover already needs no update before it is activated.
        if !matches!((&covered, change), (Some(_), Change::Modify(..))) {
            self.queue(&updates, is_move);
        }
        Ok(())
    }

    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        self.counters.get(&table)?.get(&entry).copied()
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
        self.touches.insert((table, key.into()), time_ns);
    }
}

impl RemotePlane {
    /// Takes over a change into what is known of the plane. Returns true for a change by a handler,
    /// which is no update.
    pub(crate) fn note(&mut self, change: &Change, made: Option<EntryId>) -> bool {
        match change {
            Change::Insert(table, _) if self.program.tables[*table].idle_timeout => {
                if let Some(made) = made {
                    self.last_uses.insert((*table, made), self.now);
                }
            }
            Change::Delete(table, entry) => {
                self.last_uses.remove(&(*table, *entry));
            }
            Change::Expire(table, entry) => {
                self.last_restarts.remove(&(*table, entry.key.clone()));
            }
            Change::Forget(table, _, key) => {
                self.last_restarts.remove(&(*table, key.clone()));
            }
            _ => {}
        }
        self.handler_changes.push(change)
    }

    /// Returns the updates of a change for a server. They are the same for all servers.
    pub(crate) fn encode_for_servers(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        touched: &[Arc<Entry>],
    ) -> Result<(EncodedUpdates, Vec<UpdateKind>), ControlError> {
        let mut encoded = EncodedUpdates::default();
        let Some(encoder) = &mut self.encoder else {
            return Ok((encoded, Vec::new()));
        };
        let updates = encoder.updates_of(change, made, touched);
        let updates = updates.map_err(|error| refused(&self.name, error))?;
        updates.iter().for_each(|update| encoded.push(update));
        let kinds = updates.iter().map(|update| UpdateKind::of(update, false));
        Ok((encoded, kinds.collect()))
    }

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

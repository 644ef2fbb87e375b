//! Device: the snapshot of one program, the packets inside it, and its control plane. It owns no
//! thread and no clock: callers supply packets and the time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use exec::{
    Configuration, ConfigurationError, DropReason, Engine, Lookups, Natives, State, Tracer,
    Unsupported,
};
use ir::{Program, TableId, VerifyError};
use packet::{FrameError, Nanos, PortId};
use table::{Entry, EntryId, Improved, LearnedEntry};

use crate::control::{Change, Record};
use crate::core::{Code, Core, DataPlaneSnapshot, Digest, Trace};
use crate::journal::Journal;
use crate::ledger::{Ledger, LedgerError};
use crate::limits::{self, Exceeded, Limits};
use crate::migrate::{self, MigratedState, MigratedTable};
use crate::migration::{MayLose, Migration, WouldLose};
use crate::pre::ReplicationEngine;
use crate::queue::QueueConfig;
use crate::specialise::Specialisation;
use crate::worker::{WorkerGroup, WorkerMailbox};

/// Result of an exchange of programs, with the data to undo it.
pub struct Exchange {
    /// Report of what became of the state.
    pub migration: Migration,
    moved: Vec<MigratedTable>,
    /// True if multicast groups and clone sessions were exchanged too.
    has_replication: bool,
}

/// Configuration of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// Seed of the random streams.
    pub seed: u64,
    /// Queue configuration of ports that have none of their own.
    pub queue: QueueConfig,
    /// PNA: the host ports.
    pub host_ports: Vec<u32>,
    /// Limits of the device.
    pub limits: Limits,
    /// Lookups in the tables. A device without lookups gets no packets, and publishes nothing.
    pub lookups: Lookups,
}

/// Error of loading a program.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// The IR is not well formed.
    Verify(Vec<VerifyError>),
    /// The engine does not support a construct of the program.
    Unsupported(Unsupported),
    /// An entry of the program does not fit its table, or the program's state is too large.
    Entry(ConfigurationError),
    /// The program exceeds a limit of the device.
    Exceeded(Exceeded),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Verify(errors) => {
                let first = errors.first().map(ToString::to_string).unwrap_or_default();
                write!(f, "the program's IR is not well formed: {first}")
            }
            LoadError::Unsupported(unsupported) => unsupported.fmt(f),
            LoadError::Entry(error) => error.fmt(f),
            LoadError::Exceeded(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Error of adopting another program. The running program and all state stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptError {
    /// State that may not be lost has no place in the new program.
    WouldLose(WouldLose),
    /// The new program exceeds a limit of the device.
    Exceeded(Exceeded),
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdoptError::WouldLose(error) => error.fmt(f),
            AdoptError::Exceeded(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AdoptError {}

/// State that stays when another program replaces the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationMode {
    /// No state stays. The state is that of the new program, without multicast groups and clone
    /// sessions.
    Nothing,
    /// All state that has a place in the new program stays. The program is refused if other state
    /// would be lost than what may be lost.
    State(MayLose),
}

/// Hit and miss counts of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHits {
    /// The table.
    pub table: TableId,
    /// Number of packets that hit an entry.
    pub hits: u64,
    /// Number of packets that hit none.
    pub misses: u64,
}

/// Callback for every change, in order.
type Follower = Box<dyn FnMut(&Record) + Send>;

/// A device.
pub struct Device {
    pub(crate) core: Core,
    pub(crate) configuration: Configuration,
    pub(crate) replication: ReplicationEngine,
    pub(crate) limits: Limits,
    pub(crate) next_own_id: u32,
    code: Arc<Code>,
    pub(crate) root: Arc<DataPlaneSnapshot>,
    /// Snapshots to which workers or their packets may still refer. The device frees them, because
    /// that takes time on the packet path.
    retired: Vec<Arc<DataPlaneSnapshot>>,
    pub(crate) is_stale: bool,
    /// True while the program is one of an exchange that is not confirmed yet. No packet runs it.
    is_provisional: bool,
    lookups: Lookups,
    changes: u64,
    pub(crate) notes: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(crate) journal: Option<Journal>,
    followers: Vec<Follower>,
    /// Entries that were reported as idle, with the last use for which this was reported.
    told_idle: BTreeMap<(TableId, EntryId), u64>,
    /// Time by which counts from outside may be late.
    idle_delay: Nanos,
    /// Packets that were sent, here or by a worker, and dropped afterwards.
    refused: Ledger,
    /// Code made for the current contents of the tables, if packets run any.
    pub(crate) specialisation: Specialisation,
    pub(crate) expired: Vec<(TableId, LearnedEntry)>,
    /// State shared with workers, if there are any.
    pub(crate) office: Option<Arc<WorkerGroup>>,
}

impl Device {
    /// Creates a device that runs this program.
    ///
    /// # Errors
    /// The program is not well formed, the engine does not support it, its entries do not fit its
    /// tables, or it exceeds the device's limits.
    pub fn new(
        program: Arc<Program>,
        engine: &dyn Engine,
        config: &DeviceConfig,
    ) -> Result<Device, LoadError> {
        ir::verify(&program).map_err(LoadError::Verify)?;
        let limits = config.limits;
        limits
            .check_program(&program)
            .map_err(LoadError::Exceeded)?;
        let code = Code::load(Arc::clone(&program), engine).map_err(LoadError::Unsupported)?;
        let code = Arc::new(code);
        let configuration = Configuration::with_lookups(program, config.lookups);
        let mut configuration = configuration.map_err(LoadError::Entry)?;
        let mut host_ports = config.host_ports.clone();
        host_ports.sort_unstable();
        configuration.host_ports = host_ports.into();
        let replication = ReplicationEngine::default();
        let entries = limits::entries(&configuration, &replication);
        limits
            .check_entries(0, entries)
            .map_err(LoadError::Exceeded)?;
        let root = DataPlaneSnapshot {
            code: Arc::clone(&code),
            state: Arc::new(configuration.snapshot()),
            specialised: None,
            replication: replication.clone(),
            work: limits.work(),
        };
        let mut core = Core::new(config.seed, config.queue);
        core.keep_contexts_of(&code);
        Ok(Device {
            core,
            configuration,
            replication,
            limits,
            next_own_id: 0,
            code,
            root: Arc::new(root),
            retired: Vec::new(),
            is_stale: false,
            is_provisional: false,
            lookups: config.lookups,
            changes: 0,
            notes: BTreeMap::new(),
            journal: None,
            followers: Vec::new(),
            told_idle: BTreeMap::new(),
            idle_delay: Nanos::ZERO,
            refused: Ledger::default(),
            specialisation: Specialisation::default(),
            expired: Vec::new(),
            office: None,
        })
    }

    pub(crate) fn code(&self) -> &Arc<Code> {
        &self.code
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        self.configuration.program()
    }

    /// Returns the control-plane side of tables, profiles and cells, for reading.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the configuration of a port's queues.
    pub fn queue(&self, port: PortId) -> QueueConfig {
        self.core.queues.config(port)
    }

    /// Returns the multicast groups and clone sessions.
    pub fn replication(&self) -> &ReplicationEngine {
        &self.replication
    }

    /// Returns the notes that the control plane stores with the device.
    pub fn notes(&self) -> &BTreeMap<Box<[u8]>, Box<[u8]>> {
        &self.notes
    }

    /// Sets the handlers that packets call, once this is published. A packet inside finishes with
    /// those with which it began. Handlers are code: no record of them goes to the log.
    pub fn set_handlers(&mut self, natives: &Natives) {
        self.configuration.set_handlers(natives);
        self.is_stale = true;
    }

    /// Calls `follower` for every change from now on.
    pub fn follow(&mut self, follower: impl FnMut(&Record) + Send + 'static) {
        self.followers.push(Box::new(follower));
    }

    /// Returns true if no packet waits while the control plane changes the device: workers process
    /// packets, or the device gets none.
    pub fn delays_no_packets(&self) -> bool {
        self.lookups == Lookups::None || self.has_workers()
    }

    /// Records a change of the published state.
    pub(crate) fn record(&mut self, change: Change, entry: Option<EntryId>) {
        self.is_stale = true;
        self.tell(change, entry, Vec::new());
    }

    /// Returns the entries that a change removes, for followers.
    pub(crate) fn removed_by(&self, change: &Change) -> Vec<Arc<Entry>> {
        if self.followers.is_empty() {
            return Vec::new();
        }
        let entries = |table: &TableId| self.configuration.tables.get(*table);
        match change {
            Change::Delete(table, id) => {
                let entry = entries(table).and_then(|entries| entries.get(*id));
                entry.into_iter().collect()
            }
            Change::Clear(table) => {
                let entries = entries(table).into_iter().flat_map(table::Table::iter);
                entries.filter(|entry| !entry.is_const).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Gives a change its number and reports it.
    pub(crate) fn tell(
        &mut self,
        change: Change,
        entry: Option<EntryId>,
        removed: Vec<Arc<Entry>>,
    ) {
        self.changes += 1;
        let record = Record {
            number: self.changes,
            time: self.core.now,
            change,
            entry,
            removed,
        };
        for follower in &mut self.followers {
            follower(&record);
        }
        self.journalise(&record);
    }

    /// Returns the number of changes: the number of the last [`Record`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Publishes the changes since the last call to workers. The device's own packets see every
    /// change at once.
    pub fn publish(&mut self) {
        self.publish_root();
        self.free_retired();
    }

    /// Publishes all changes, and returns the state that packets received from now on read.
    pub fn state(&mut self) -> Arc<State> {
        self.publish();
        Arc::clone(&self.root.state)
    }

    /// Publishes as [`Device::publish`] does. Snapshots that workers no longer need are freed
    /// later.
    pub(crate) fn publish_root(&mut self) {
        if self.is_provisional || self.lookups == Lookups::None {
            return;
        }
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let state = Arc::new(self.configuration.snapshot());
        let published = Arc::clone(&self.root.state);
        let specialised = self.guarded_code(|table| {
            let lookup = |state: &State| state.table(table).map(|t| Arc::as_ptr(&t.lookup));
            lookup(&published) != lookup(&state)
        });
        self.core.owner.derived.let_go();
        let (code, replication) = (Arc::clone(&self.code), self.replication.clone());
        let root = Arc::new(DataPlaneSnapshot {
            code,
            state,
            specialised,
            replication,
            work: self.limits.work(),
        });
        let old = std::mem::replace(&mut self.root, root);
        if let Some(office) = &self.office {
            office.publish(&self.root);
            self.retired.push(old);
        }
    }

    /// Frees the snapshots to which nothing refers any more. A worker only ever takes the newest
    /// snapshot, so these are not used again.
    pub(crate) fn free_retired(&mut self) {
        self.core.old_contexts.clear();
        if self.retired.is_empty() {
            return;
        }
        self.retired.retain(|root| Arc::strong_count(root) > 1);
        for desk in self.desks() {
            let contexts = std::mem::take(&mut desk.papers().old_contexts);
            // The lock is released, so the worker may write its report meanwhile.
            drop(contexts);
        }
    }

    /// Lets the first table that can improve its index work on it, for about `budget`. Results do
    /// not change, only lookup times. Call it while the control plane is idle, until there is
    /// nothing more to improve.
    pub fn improve(&mut self, budget: Duration) -> Improved {
        let improved = self.configuration.improve(budget);
        self.is_stale |= improved == Improved::Done;
        improved
    }

    /// Receives a packet. The next step processes it.
    ///
    /// # Errors
    /// The packet is longer than the maximum frame.
    pub fn receive(&mut self, port: PortId, bytes: &[u8]) -> Result<(), FrameError> {
        self.publish();
        self.core.arrive(&self.root, port, bytes)
    }

    /// Processes all received packets, and all that may leave a queue by `now`. Time never goes
    /// back.
    pub fn step(&mut self, now: Nanos) {
        self.run(now, &mut Trace(None));
    }

    /// Receives and processes one packet. Reports each step of it, and of the other packets inside,
    /// to `tracer`.
    ///
    /// # Errors
    /// The packet is longer than the maximum frame.
    pub fn trace(
        &mut self,
        port: PortId,
        bytes: &[u8],
        now: Nanos,
        tracer: &mut dyn Tracer,
    ) -> Result<(), FrameError> {
        self.receive(port, bytes)?;
        tracer.event(exec::TraceEvent::Received {
            port: port.0,
            bytes: bytes.to_vec(),
        });
        self.run(now, &mut Trace(Some(tracer)));
        Ok(())
    }

    /// Each received packet runs as far as possible before the next one, so the batch size has no
    /// influence. Packets that leave a queue by this time run before all of them.
    fn run(&mut self, now: Nanos, trace: &mut Trace<'_>) {
        self.begin_step(now, trace);
        self.core.run_arrived(trace);
        self.tell_learned();
        self.keep_own();
    }

    /// Advances the device's time and processes everything due by then. Packets received now run
    /// after it, even if they have the same time. So an additional step without packets changes
    /// nothing.
    pub(crate) fn begin_step(&mut self, now: Nanos, trace: &mut Trace<'_>) {
        self.free_retired();
        let now = self.core.now.max(now);
        if let Some(before) = now.0.checked_sub(1) {
            self.core.drain(Nanos(before), trace);
        }
        self.core.now = now;
        self.expire();
        self.core.drain(now, trace);
    }

    /// Returns the next time at which something happens without a packet: a packet leaves its
    /// queue, or entries may expire.
    pub fn next_time(&self) -> Option<Nanos> {
        let learned = self.configuration.learned.values().flatten();
        let expiries = learned.map(|learned| Nanos(learned.next_expiry()));
        let expiry = expiries.min().filter(|at| *at < Nanos::MAX);
        let queues = self.core.queues.next_time();
        queues.into_iter().chain(expiry).min()
    }

    /// Returns the device's time.
    pub fn now(&self) -> Nanos {
        self.core.now
    }

    /// Passes each sent packet, in order, to `take`: its port, its bytes and its time.
    pub fn drain_sent(&mut self, mut take: impl FnMut(PortId, &[u8], Nanos)) {
        while let Some(sent) = self.core.sent.pop_front() {
            take(sent.port, sent.packet.bytes.bytes(), sent.time);
            self.core.put_back(sent.packet, &sent.root.code);
        }
    }

    /// Returns the next digest message.
    pub fn take_digest(&mut self) -> Option<Digest> {
        let own = self.core.digests.pop();
        own.or_else(|| {
            let mut desks = self.desks().iter();
            desks.find_map(|desk| desk.papers().digests.pop())
        })
    }

    /// Returns the next message that the program wrote (`log_msg`, `assert`, `assume`).
    pub fn take_message(&mut self) -> Option<String> {
        let own = self.core.messages.pop();
        own.or_else(|| {
            let mut desks = self.desks().iter();
            desks.find_map(|desk| desk.papers().messages.pop())
        })
    }

    /// Returns the number of messages and digests that were lost, because they were not taken or
    /// because a packet sent too many.
    pub fn lost_messages(&self) -> u64 {
        let lost = self.desks().iter().map(|desk| desk.papers().lost_messages);
        self.core.lost_messages + lost.sum::<u64>()
    }

    /// Returns the ledger of all packets.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.core.ledger.clone();
        for desk in self.desks() {
            ledger.add(&desk.papers().ledger);
        }
        ledger.take_back(&self.refused);
        ledger
    }

    /// Returns the ledger of each worker, by its number, as of its last report.
    pub fn worker_ledgers(&self) -> Vec<Ledger> {
        let ledgers = self.desks().iter().map(|desk| desk.papers().ledger.clone());
        ledgers.collect()
    }

    /// Returns the number of packets inside.
    pub fn held(&self) -> usize {
        let at_workers: usize = self.desks().iter().map(|desk| desk.held()).sum();
        self.core.held() + at_workers
    }

    /// Returns true if workers forward packets while the device is changed. They see tables and
    /// groups as published, and cells at once.
    pub fn has_workers(&self) -> bool {
        !self.desks().is_empty()
    }

    fn desks(&self) -> &[Arc<WorkerMailbox>] {
        self.office.as_ref().map_or(&[], |office| &office.desks)
    }

    /// Checks that all packets are accounted for. With workers the result is meaningful only while
    /// none of them processes packets.
    ///
    /// # Errors
    /// The ledger does not balance: a defect of the device.
    pub fn check_conservation(&self) -> Result<(), LedgerError> {
        self.ledger().check(self.held())
    }

    /// Counts a packet that a port refused after it was sent. Does nothing if no packet was sent.
    ///
    /// Use it if the worker that sent the packet is unknown. A worker counts its own with
    /// [`crate::Worker::count_drop`].
    pub fn count_drop(&mut self, reason: DropReason) {
        if self.ledger().sent > 0 {
            self.refused.drop(reason);
        }
    }

    /// Returns the hits and misses of all tables.
    pub fn table_hits(&self) -> Vec<TableHits> {
        let tables = self.configuration.tables.iter();
        tables
            .map(|(table, entries)| {
                let totals = entries.totals();
                TableHits {
                    table,
                    hits: totals.hits,
                    misses: totals.misses,
                }
            })
            .collect()
    }

    /// Lets entries be idle this much later than their time-outs say: counts from outside may be as
    /// late.
    pub fn set_idle_delay(&mut self, delay: Nanos) {
        self.idle_delay = delay;
    }

    /// Returns the entries that no packet has hit for their idle time-out. Each is returned once
    /// until it is hit again.
    pub fn take_idle(&mut self) -> Vec<(TableId, EntryId)> {
        let now = self.core.now.0.saturating_sub(self.idle_delay.0);
        let mut idle = Vec::new();
        for (table, entries) in self.configuration.tables.iter() {
            for (entry, last) in entries.idle(now) {
                if self.told_idle.insert((table, entry.id), last) != Some(last) {
                    idle.push((table, entry.id));
                }
            }
        }
        self.told_idle
            .retain(|(table, id), _| self.configuration.tables[*table].contains(*id));
        idle
    }

    /// Returns the time from which [`Device::take_idle`] returns an entry, if no packet hits it
    /// until then. Entries without idle time-out have none.
    pub fn idle_at(&self, table: TableId, entry: EntryId) -> Option<Nanos> {
        let entries = self.configuration.tables.get(table)?;
        let timeout = entries.get(entry)?.idle_timeout_ns?;
        let last = entries.usage_of(Some(entry))?.last_use_ns;
        let at = last.saturating_add(timeout);
        Some(Nanos(at.saturating_add(self.idle_delay.0)))
    }

    /// Replaces the running program. State is kept by the rules of
    /// docs/reference/program-change.md; state that has no place is lost. Packets inside finish on
    /// the old program.
    ///
    /// # Errors
    /// As [`Device::new`]. The running program stays.
    pub fn replace(
        &mut self,
        program: Arc<Program>,
        engine: &dyn Engine,
        config: &DeviceConfig,
    ) -> Result<Migration, LoadError> {
        let mut new = Device::new(program, engine, config)?;
        let carried = self.carry_to(&mut new);
        self.check_limits(&new, &self.replication, &carried)
            .map_err(LoadError::Exceeded)?;
        Ok(self.begin(&mut new, carried).0)
    }

    /// Adopts the program of a device that was created beside this one. Packets wait no longer than
    /// for any other change: workers take the program at the start of a burst, once it is
    /// published. With [`MigrationMode::Nothing`] the new device's state is used.
    ///
    /// # Errors
    /// State that may not be lost has no place in the new program, or the new program and its state
    /// exceed this device's limits. The running program and all state stay.
    pub fn adopt(
        &mut self,
        mut new: Device,
        carry: MigrationMode,
    ) -> Result<Migration, AdoptError> {
        let exchange = self.exchange(&mut new, carry)?;
        self.is_provisional = false;
        Ok(exchange.migration)
    }

    /// Exchanges the programs, as [`Device::adopt`] does. The other device gets the previous
    /// program and state, for [`Device::go_back`]. If state is kept, nothing is published until
    /// then or until [`Device::stay`].
    ///
    /// # Errors
    /// As [`Device::adopt`].
    pub fn exchange(
        &mut self,
        new: &mut Device,
        carry: MigrationMode,
    ) -> Result<Exchange, AdoptError> {
        let has_replication = carry == MigrationMode::Nothing;
        let carried = match carry {
            MigrationMode::State(may_lose) => {
                let carried = self.carry_to(new);
                let lines = carried.migration.refused_by(&may_lose);
                if !lines.is_empty() {
                    return Err(AdoptError::WouldLose(WouldLose { lines }));
                }
                carried
            }
            MigrationMode::Nothing => {
                self.share_with(new);
                MigratedState::default()
            }
        };
        let replication = match has_replication {
            true => &new.replication,
            false => &self.replication,
        };
        self.check_limits(new, replication, &carried)
            .map_err(AdoptError::Exceeded)?;
        if has_replication {
            std::mem::swap(&mut self.replication, &mut new.replication);
        }
        let (migration, moved) = self.begin(new, carried);
        self.is_provisional = self.is_kept();
        Ok(Exchange {
            migration,
            moved,
            has_replication,
        })
    }

    /// Returns true if packets have not seen the program of the last exchange, which is neither
    /// confirmed nor undone yet.
    pub fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Confirms the program of the last exchange, and publishes it.
    pub fn stay(&mut self) {
        self.is_provisional = false;
        self.publish();
    }

    /// Undoes an exchange with this device that was just made and that packets have not seen.
    pub fn go_back(&mut self, before: &mut Device, exchange: Exchange) {
        if exchange.has_replication {
            std::mem::swap(&mut self.replication, &mut before.replication);
        }
        for moved in exchange.moved.into_iter().rev() {
            moved.go_back(&mut before.configuration, &mut self.configuration);
        }
        self.turn_to(before);
        self.is_provisional = false;
    }

    /// Checks that this device may hold the other device's program and state, with this replication
    /// engine and the migrated state.
    fn check_limits(
        &self,
        new: &Device,
        replication: &ReplicationEngine,
        carried: &MigratedState,
    ) -> Result<(), Exceeded> {
        self.limits.check_program(new.program())?;
        let entries = limits::entries(&new.configuration, replication);
        let moving = carried.moving(&self.configuration, &new.configuration);
        self.limits.check_entries(self.entries(), entries + moving)
    }

    /// Prepares a device to run on this one's workers.
    fn share_with(&mut self, new: &mut Device) {
        self.tell_learned();
        new.configuration.atomic = Arc::clone(&self.configuration.atomic);
        let desks = self.desks().len();
        new.configuration.set_lanes(desks + 1);
    }

    /// Determines what becomes of this device's state in another device, and converts it where
    /// necessary.
    fn carry_to(&mut self, new: &mut Device) -> MigratedState {
        self.share_with(new);
        migrate::carry(&self.configuration, &mut new.configuration, self.core.now)
    }

    /// Completes the migration and continues with the other device's program and state.
    fn begin(
        &mut self,
        new: &mut Device,
        carried: MigratedState,
    ) -> (Migration, Vec<MigratedTable>) {
        let now = self.core.now;
        let carried = carried.finish(&mut self.configuration, &mut new.configuration, now);
        self.turn_to(new);
        carried
    }

    /// Swaps program and state with another device.
    fn turn_to(&mut self, other: &mut Device) {
        std::mem::swap(&mut self.code, &mut other.code);
        for device in [&mut *self, &mut *other] {
            device.leave_specialised();
        }
        std::mem::swap(&mut self.configuration, &mut other.configuration);
        self.core.keep_contexts_of(&self.code);
        self.told_idle.clear();
        // They belong to another program's tables.
        self.core.lost_messages += self.expired.len() as u64;
        self.expired.clear();
        self.record(Change::Program, None);
    }
}

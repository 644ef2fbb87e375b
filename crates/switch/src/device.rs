//! A device: one program's root, the packets inside it, its control side. It owns no thread and no clock: callers give packets and the time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use exec::{Configuration, ConfigurationError, DropReason, Engine, Tracer, Unsupported};
use ir::{Program, TableId, VerifyError};
use packet::{FrameError, Nanos, PortId};
use table::{EntryId, Improved, LearnedEntry};

use crate::control::{Change, Record};
use crate::core::{Code, Core, Digest, Root, Trace};
use crate::journal::Journal;
use crate::ledger::{Ledger, Unbalanced};
use crate::limits::{self, Exceeded, Limits};
use crate::migration::{MayLose, Migration, WouldLose};
use crate::pre::ReplicationEngine;
use crate::queue::QueueConfig;
use crate::replace::{self, Carried, Moved};
use crate::worker::{Desk, Office};

/// A change of program that was made, and what takes it back.
pub struct Exchange {
    /// What became of the state.
    pub migration: Migration,
    moved: Vec<Moved>,
    /// Whether groups and sessions were exchanged as well.
    has_replication: bool,
}

/// How a device is set up.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// What random numbers depend on.
    pub seed: u64,
    /// How ports send unless they are told otherwise.
    pub queue: QueueConfig,
    /// PNA: the host's ports.
    pub host_ports: Vec<u32>,
    /// What it may hold.
    pub limits: Limits,
}

/// Why a program cannot be loaded.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// The IR is not well formed.
    Verify(Vec<VerifyError>),
    /// The engine does not run something in it.
    Unsupported(Unsupported),
    /// An entry of the program does not fit its table.
    Entry(ConfigurationError),
    /// The device may not hold so much.
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

/// Why a device does not take another program. The running one and all state stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptError {
    /// There is state for which the new program has no place, and which may not be lost.
    WouldLose(WouldLose),
    /// The device may not hold so much.
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

/// What of a device's state stays when another program takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Nothing: the state is what the new program describes, without groups and sessions.
    Nothing,
    /// What has a place in the new program: all but what may be lost, or the program is refused.
    State(MayLose),
}

/// How often a table was hit and missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHits {
    /// The table.
    pub table: TableId,
    /// Packets that hit an entry.
    pub hits: u64,
    /// Packets that hit none.
    pub misses: u64,
}

/// Told of every change, in order.
type Follower = Box<dyn FnMut(&Record) + Send>;

/// A device.
pub struct Device {
    pub(crate) core: Core,
    pub(crate) configuration: Configuration,
    pub(crate) replication: ReplicationEngine,
    pub(crate) limits: Limits,
    pub(crate) next_own_id: u32,
    code: Arc<Code>,
    pub(crate) root: Arc<Root>,
    /// Roots that workers, or packets that they hold, may still refer to. Freeing one takes time that packets do not have, so the device does it.
    retired: Vec<Arc<Root>>,
    pub(crate) is_stale: bool,
    /// Whether the program is one that was exchanged and is not kept yet: no packet meets it.
    is_provisional: bool,
    changes: u64,
    pub(crate) notes: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(crate) journal: Option<Journal>,
    followers: Vec<Follower>,
    /// Entries whose idleness was told, with the last use that it was told for.
    told_idle: BTreeMap<(TableId, EntryId), u64>,
    /// Packets that left, here or by a worker, and were dropped behind.
    refused: Ledger,
    pub(crate) expired: Vec<(TableId, LearnedEntry)>,
    /// What is shared with workers, if there are some.
    pub(crate) office: Option<Arc<Office>>,
}

impl Device {
    /// A device that runs this program.
    ///
    /// # Errors
    /// The program is not well formed, the engine does not run it, its own entries do not fit its tables, or it is more than the device may hold.
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
        let mut configuration = Configuration::new(program).map_err(LoadError::Entry)?;
        let mut host_ports = config.host_ports.clone();
        host_ports.sort_unstable();
        configuration.host_ports = host_ports.into();
        let replication = ReplicationEngine::default();
        let entries = limits::entries(&configuration, &replication);
        limits
            .check_entries(0, entries)
            .map_err(LoadError::Exceeded)?;
        let root = Root {
            code: Arc::clone(&code),
            state: Arc::new(configuration.snapshot()),
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
            changes: 0,
            notes: BTreeMap::new(),
            journal: None,
            followers: Vec::new(),
            told_idle: BTreeMap::new(),
            refused: Ledger::default(),
            expired: Vec::new(),
            office: None,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.configuration.program()
    }

    /// The control side of tables, profiles and cells, for reading.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Multicast groups and clone sessions.
    pub fn replication(&self) -> &ReplicationEngine {
        &self.replication
    }

    /// What the control plane keeps with the device.
    pub fn notes(&self) -> &BTreeMap<Box<[u8]>, Box<[u8]>> {
        &self.notes
    }

    /// Tells `follower` of every change from now on.
    pub fn follow(&mut self, follower: impl FnMut(&Record) + Send + 'static) {
        self.followers.push(Box::new(follower));
    }

    /// Records a change of what is published.
    pub(crate) fn record(&mut self, change: Change, entry: Option<EntryId>) {
        self.is_stale = true;
        self.tell(change, entry);
    }

    /// Gives a change its number, and tells it.
    pub(crate) fn tell(&mut self, change: Change, entry: Option<EntryId>) {
        self.changes += 1;
        let record = Record {
            number: self.changes,
            time: self.core.now,
            change,
            entry,
        };
        for follower in &mut self.followers {
            follower(&record);
        }
        self.journalise(&record);
    }

    /// How many changes there were: the number of the last [`Record`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Lets packets see what was changed since the last time. The device's own packets see every change at once; workers see what was published.
    pub fn publish(&mut self) {
        self.publish_root();
        self.free_retired();
    }

    /// As [`Device::publish`]; what workers no longer need is freed later.
    pub(crate) fn publish_root(&mut self) {
        if self.is_provisional || !std::mem::take(&mut self.is_stale) {
            return;
        }
        let state = Arc::new(self.configuration.snapshot());
        self.core.owner.derived.let_go();
        let (code, replication) = (Arc::clone(&self.code), self.replication.clone());
        let root = Arc::new(Root {
            code,
            state,
            replication,
            work: self.limits.work(),
        });
        let old = std::mem::replace(&mut self.root, root);
        if let Some(office) = &self.office {
            office.publish(&self.root);
            self.retired.push(old);
        }
    }

    /// Frees the roots that nothing refers to any more: no worker takes one again that is not the newest.
    pub(crate) fn free_retired(&mut self) {
        self.core.old_contexts.clear();
        if self.retired.is_empty() {
            return;
        }
        self.retired.retain(|root| Arc::strong_count(root) > 1);
        for desk in self.desks() {
            let contexts = std::mem::take(&mut desk.papers().old_contexts);
            // The worker may have its papers back meanwhile.
            drop(contexts);
        }
    }

    /// Lets the first table that can find entries faster work on it, about as long as `budget` says. What packets do does not change, only how fast: to be
    /// called when the control side has time, until there is no more to do.
    pub fn improve(&mut self, budget: Duration) -> Improved {
        let improved = self.configuration.improve(budget);
        self.is_stale |= improved == Improved::Done;
        improved
    }

    /// Takes a packet in; the next step processes it.
    ///
    /// # Errors
    /// The packet is longer than a frame may be.
    pub fn receive(&mut self, port: PortId, bytes: &[u8]) -> Result<(), FrameError> {
        self.publish();
        self.core.arrive(&self.root, port, bytes)
    }

    /// Processes all that came and all that may leave its queue by `now`. Time never goes back.
    pub fn step(&mut self, now: Nanos) {
        self.run(now, &mut Trace(None));
    }

    /// Takes one packet in and processes it, telling each step of it, and of what else is inside, to `tracer`.
    ///
    /// # Errors
    /// The packet is longer than a frame may be.
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

    /// Each packet that came runs as far as it can before the next one, so that how many came together changes nothing; what leaves a queue
    /// by this moment runs before them all.
    fn run(&mut self, now: Nanos, trace: &mut Trace<'_>) {
        self.begin_step(now, trace);
        self.core.run_arrived(trace);
        self.tell_learned();
        self.keep_own();
    }

    /// Moves the device's time on, and does what was to be done by then: packets that come now run behind it, also if they come at the same moment, so
    /// that a step without packets between changes nothing.
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

    /// When something is to be done that needs no packet: the next packet leaves its queue, entries may expire.
    pub fn next_time(&self) -> Option<Nanos> {
        let learned = self.configuration.learned.values().flatten();
        let expiries = learned.map(|learned| Nanos(learned.next_expiry()));
        let expiry = expiries.min().filter(|at| *at < Nanos::MAX);
        let queues = self.core.queues.next_time();
        queues.into_iter().chain(expiry).min()
    }

    /// The device's time.
    pub fn now(&self) -> Nanos {
        self.core.now
    }

    /// Gives each packet that left, in order, to `take`: its port, its bytes, when it left.
    pub fn drain_sent(&mut self, mut take: impl FnMut(PortId, &[u8], Nanos)) {
        while let Some(sent) = self.core.sent.pop_front() {
            take(sent.port, sent.packet.bytes.bytes(), sent.time);
            self.core.put_back(sent.packet, &sent.root.code);
        }
    }

    /// The next digest message.
    pub fn take_digest(&mut self) -> Option<Digest> {
        let own = self.core.digests.pop();
        own.or_else(|| {
            let mut desks = self.desks().iter();
            desks.find_map(|desk| desk.papers().digests.pop())
        })
    }

    /// The next message that the program wrote (`log_msg`, `assert`, `assume`).
    pub fn take_message(&mut self) -> Option<String> {
        let own = self.core.messages.pop();
        own.or_else(|| {
            let mut desks = self.desks().iter();
            desks.find_map(|desk| desk.papers().messages.pop())
        })
    }

    /// Messages and digests that were lost because nobody took them, or because a packet sent too many.
    pub fn lost_messages(&self) -> u64 {
        let lost = self.desks().iter().map(|desk| desk.papers().lost_messages);
        self.core.lost_messages + lost.sum::<u64>()
    }

    /// What became of all packets.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.core.ledger.clone();
        for desk in self.desks() {
            ledger.add(&desk.papers().ledger);
        }
        ledger.take_back(&self.refused);
        ledger
    }

    /// What became of the packets of each worker, by its number; all that the device knows of it.
    pub fn worker_ledgers(&self) -> Vec<Ledger> {
        let ledgers = self.desks().iter().map(|desk| desk.papers().ledger.clone());
        ledgers.collect()
    }

    /// Packets inside.
    pub fn held(&self) -> usize {
        let at_workers: usize = self.desks().iter().map(|desk| desk.held()).sum();
        self.core.held() + at_workers
    }

    /// Whether workers take packets through it while it is changed: they see tables and groups as they were published, cells at once.
    pub fn has_workers(&self) -> bool {
        !self.desks().is_empty()
    }

    fn desks(&self) -> &[Arc<Desk>] {
        self.office.as_ref().map_or(&[], |office| &office.desks)
    }

    /// Whether all packets are accounted for. With workers the answer counts only while none of them has packets in hand.
    ///
    /// # Errors
    /// They are not: a defect of the device.
    pub fn check_conservation(&self) -> Result<(), Unbalanced> {
        self.ledger().check(self.held())
    }

    /// Counts a packet that a port refused after it had left here; nothing if none has left.
    ///
    /// The packet may have left by any worker. One that knows which counts there ([`crate::Worker::count_drop`]).
    pub fn count_drop(&mut self, reason: DropReason) {
        if self.ledger().sent > 0 {
            self.refused.drop(reason);
        }
    }

    /// Hits and misses of all tables.
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

    /// Entries that no packet has hit for as long as their idle time-out: each once until it is hit again.
    pub fn take_idle(&mut self) -> Vec<(TableId, EntryId)> {
        let now = self.core.now.0;
        let mut idle = Vec::new();
        for (table, entries) in self.configuration.tables.iter() {
            for (entry, last) in entries.idle(now) {
                if self.told_idle.insert((table, entry.id), last) != Some(last) {
                    idle.push((table, entry.id));
                }
            }
        }
        self.told_idle
            .retain(|(table, id), _| self.configuration.tables[*table].get(*id).is_some());
        idle
    }

    /// Loads another program in place of the running one; what becomes of the state is as docs/MIGRATION.md tells, and what has no place is lost.
    /// Packets inside finish on the old program.
    ///
    /// # Errors
    /// As [`Device::new`]; the running program stays.
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

    /// Runs the program of a device that was made beside this one, for which packets wait no longer than for any change: workers take it at the begin
    /// of a burst, once it is published. The new device's own state counts where nothing stays.
    ///
    /// # Errors
    /// There is state for which the new program has no place, and which may not be lost, or the new program and its state are more than this device may
    /// hold. The running program and all state stay.
    pub fn adopt(&mut self, mut new: Device, carry: Carry) -> Result<Migration, AdoptError> {
        let exchange = self.exchange(&mut new, carry)?;
        self.is_provisional = false;
        Ok(exchange.migration)
    }

    /// As [`Device::adopt`]; the other device gets the program and the state that were here, for [`Device::go_back`]. Where state is kept, nothing is
    /// published until that or [`Device::stay`].
    ///
    /// # Errors
    /// As [`Device::adopt`].
    pub fn exchange(&mut self, new: &mut Device, carry: Carry) -> Result<Exchange, AdoptError> {
        let has_replication = carry == Carry::Nothing;
        let carried = match carry {
            Carry::State(may_lose) => {
                let carried = self.carry_to(new);
                let lines = carried.migration.refused_by(&may_lose);
                if !lines.is_empty() {
                    return Err(AdoptError::WouldLose(WouldLose { lines }));
                }
                carried
            }
            Carry::Nothing => {
                self.share_with(new);
                Carried::default()
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

    /// The program of the last exchange stays, and packets meet it.
    pub fn stay(&mut self) {
        self.is_provisional = false;
        self.publish();
    }

    /// Takes back an exchange with this device that was just made, of which packets have seen nothing.
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

    /// Checks that this device may hold another one's program and state, with these copies and what is carried over.
    fn check_limits(
        &self,
        new: &Device,
        replication: &ReplicationEngine,
        carried: &Carried,
    ) -> Result<(), Exceeded> {
        self.limits.check_program(new.program())?;
        let entries = limits::entries(&new.configuration, replication);
        let moving = carried.moving(&self.configuration, &new.configuration);
        self.limits.check_entries(self.entries(), entries + moving)
    }

    /// Makes a device ready to run on this one's workers.
    fn share_with(&mut self, new: &mut Device) {
        self.tell_learned();
        new.configuration.atomic = Arc::clone(&self.configuration.atomic);
        let desks = self.desks().len();
        new.configuration.set_lanes(desks + 1);
    }

    /// Finds out what becomes of this device's state in another one, and converts what has to be.
    fn carry_to(&mut self, new: &mut Device) -> Carried {
        self.share_with(new);
        replace::carry(&self.configuration, &mut new.configuration, self.core.now)
    }

    /// Goes on with another device's program and state, after what is carried over.
    fn begin(&mut self, new: &mut Device, carried: Carried) -> (Migration, Vec<Moved>) {
        let now = self.core.now;
        let carried = carried.finish(&mut self.configuration, &mut new.configuration, now);
        self.turn_to(new);
        carried
    }

    /// Goes on with another device's program and state, which gets this one's.
    fn turn_to(&mut self, other: &mut Device) {
        std::mem::swap(&mut self.code, &mut other.code);
        std::mem::swap(&mut self.configuration, &mut other.configuration);
        self.core.keep_contexts_of(&self.code);
        self.told_idle.clear();
        // Of another program's tables.
        self.core.lost_messages += self.expired.len() as u64;
        self.expired.clear();
        self.record(Change::Program, None);
    }
}

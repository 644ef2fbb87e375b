//! The tables of a switch together with the device that forwards by them.
//!
//! A change is checked against the tables, made on the device, and then made in the tables. An
//! entry of a known shape is an insertion. A new shape makes a new program, which takes the place
//! of the old one with all its state before the entry is inserted ([`crate::program_job`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bits::Value;
use exec::{DropReason, Engine};
use ir::{ActionCall, TableId};
use packet::{Nanos, PortId};
use switch::{
    Action as EntryAction, Change, CloneSession, ControlCode, ControlError, CounterReading, Device,
    DeviceConfig, EntryId, LoadError, MeterConfig, Replica, TableEntry,
};

use crate::model::{Action, Argument, FieldValue, GroupType, Instruction, Match, TableType, port};
use crate::objects::ObjectKey;
use crate::program_job::ProgramJobs;
use crate::schedule::Schedule;
use crate::shapes::Shapes;
use crate::tables::{
    CounterChange, Entry, FlowChange, GroupChange, Limits, MeterChange, TableChange, TableNumber,
    Tables,
};
use crate::translate::{
    CONTROLLER_PORT, Fault, MAX_PACKET, OnMiss, PACKET_OUT_PORTS, PREFIX_BYTES, Shape,
    ShapesByTable, WAITING_PORT, WAITING_SESSION, key_matches, translate,
};
use crate::wire::{Body, Counter, ErrorCode, FlowMod, GroupMod, MeterMod, PortStatus, TableMod};

/// Options of a switch.
#[derive(Clone, Debug, Default)]
pub struct ForwarderOptions {
    /// Limits of its tables.
    pub limits: Limits,
    /// Treatment of packets that no entry matches.
    pub on_miss: OnMiss,
    /// Seed of the device's random streams.
    pub seed: u64,
}

/// Something that a packet or the time made, for the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet for the controllers.
    PacketIn {
        /// 0 no entry matched, 1 and above: an action.
        reason: u8,
        /// The table.
        table: TableNumber,
        /// The cookie of the entry.
        cookie: u64,
        /// The ingress port.
        port: u16,
        /// The packet.
        data: Vec<u8>,
    },
    /// An instruction ended a packet.
    Fault {
        /// The error.
        error: ErrorCode,
        /// The table of the entry.
        table: TableNumber,
    },
    /// An entry has gone.
    Removed(Removed),
    /// A port was changed.
    Port(PortStatus),
}

/// Reason for which an entry has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// No packet came for its idle time-out.
    Idle,
    /// Its hard time-out is over.
    Hard,
    /// A controller deleted it.
    Deleted,
}

/// An entry that has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Its table.
    pub table: TableNumber,
    /// The entry.
    pub entry: Entry,
    /// The reason.
    pub reason: RemovalReason,
    /// The time for which it existed.
    pub duration: Nanos,
    /// Its packets and bytes.
    pub count: Count,
    /// Its table and its number in the device. Both are of the program that ran then.
    pub in_device: (ir::TableId, EntryId),
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl From<CounterReading> for Count {
    fn from(reading: CounterReading) -> Count {
        Count {
            packets: reading.packets,
            bytes: reading.bytes,
        }
    }
}

/// An entry on the device.
#[derive(Clone, Debug)]
struct Installed {
    id: EntryId,
    #[expect(
        dead_code,
        reason = "the program keeps the shape as long as an entry holds it"
    )]
    shape: Arc<Shape>,
    since: Nanos,
}

/// A switch without a connection to controllers.
pub struct Forwarder {
    pub(crate) device: Device,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) tables: Tables,
    pub(crate) options: ForwarderOptions,
    pub(crate) shapes: Shapes,
    pub(crate) translated: BTreeMap<TableNumber, TableId>,
    pub(crate) counters: ir::ExternId,
    pub(crate) meters: ir::ExternId,
    pub(crate) fault_counts: ir::ExternId,
    installed: HashMap<(TableNumber, u32), Installed>,
    /// Times at which entries may be idle.
    idle: Schedule,
    /// Ends of hard time-outs.
    deadlines: Schedule,
    ports: BTreeSet<u16>,
    live: BTreeSet<u16>,
    removed: Vec<Removed>,
    changed: BTreeSet<ObjectKey>,
    pub(crate) programs: u64,
    pub(crate) jobs: ProgramJobs,
}

impl Forwarder {
    /// Creates a switch without tables.
    ///
    /// # Errors
    /// The engine does not take the program: a defect.
    pub fn new(engine: Arc<dyn Engine>, options: ForwarderOptions) -> Result<Forwarder, LoadError> {
        let tables = Tables::new(options.limits.clone());
        let translation = translate(&tables, &ShapesByTable::new(), options.on_miss);
        let config = DeviceConfig {
            seed: options.seed,
            ..DeviceConfig::default()
        };
        let program = Arc::new(translation.program);
        let mut device = Device::new(program, engine.as_ref(), &config)?;
        let waiting = Replica {
            port: PortId(WAITING_PORT),
            instance: 0,
        };
        let session = CloneSession {
            replicas: vec![waiting],
            ..CloneSession::default()
        };
        // The device has room for its first session.
        let made = device.apply(Change::SetCloneSession(WAITING_SESSION, session));
        debug_assert!(made.is_ok());
        Ok(Forwarder {
            device,
            engine,
            tables,
            options,
            shapes: Shapes::default(),
            translated: translation.tables,
            counters: translation.counters,
            meters: translation.meters,
            fault_counts: translation.fault_counts,
            installed: HashMap::new(),
            idle: Schedule::default(),
            deadlines: Schedule::default(),
            ports: BTreeSet::new(),
            live: BTreeSet::new(),
            removed: Vec::new(),
            changed: BTreeSet::new(),
            programs: 1,
            jobs: ProgramJobs::default(),
        })
    }

    /// Returns the tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the device, to feed it with packets.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Returns the number of programs that have run: the first one, and one for each time that new
    /// shapes came.
    pub fn programs(&self) -> u64 {
        self.programs
    }

    /// Returns the number of packets that a fault has ended.
    pub fn faults(&self, fault: Fault) -> u64 {
        let reading = self.device.read_counter(self.fault_counts, fault as u32);
        reading.map_or(0, |reading| reading.packets)
    }

    /// Sets the ports: FLOOD sends to all of them, and groups for fast failover to those that have
    /// a link.
    ///
    /// # Errors
    /// The device or the tables have no room.
    pub fn set_ports(&mut self, ports: &[(u16, bool)]) -> Result<(), ErrorCode> {
        let groups = |ports: &BTreeSet<u16>| ports.clone();
        let old = groups(&self.ports);
        self.ports = ports.iter().map(|(port, _)| *port).collect();
        let live = ports.iter().filter(|(_, is_live)| *is_live);
        let live = live.map(|(port, _)| *port).collect();
        let was_live = std::mem::replace(&mut self.live, live);
        for gone in old.difference(&self.ports) {
            let group = Change::DeleteMulticast(u32::from(*gone) + 1);
            self.device.apply(group).map_err(code_of)?;
        }
        // A packet of the controller comes in at none of them, so it is flooded to all.
        for port in self.ports.iter().chain([&port::CONTROLLER]) {
            // The first copy goes on with the packet's further outputs, and is dropped then.
            let first = Replica {
                port: PortId(WAITING_PORT),
                instance: 1,
            };
            let others = self.ports.iter().filter(|other| *other != port);
            let others = others.map(|other| Replica {
                port: PortId((*other).into()),
                instance: 0,
            });
            let replicas = std::iter::once(first).chain(others).collect();
            let group = Change::SetMulticast(u32::from(*port) + 1, replicas);
            self.device.apply(group).map_err(code_of)?;
        }
        if was_live == self.live {
            return Ok(());
        }
        let groups = self.tables.groups();
        let watching = groups.filter(|(_, group)| group.group_type == GroupType::FastFailover);
        let watching: Vec<u32> = watching.map(|(id, _)| id).collect();
        // Those that need another program follow when it is made.
        let ready = watching.into_iter().filter(|id| self.is_group_ready(*id));
        let ready: Vec<u32> = ready.collect();
        ready.into_iter().try_for_each(|id| self.renew_users(id))
    }

    /// Returns the program of the tables.
    pub fn program(&self) -> &Arc<ir::Program> {
        self.device.program()
    }

    /// Makes the change of a message about an object: a table, an entry, a group, a meter or a
    /// counter.
    ///
    /// # Errors
    /// The message is refused, or is about no object. Nothing has changed.
    pub fn make(&mut self, message: &Body) -> Result<(), ErrorCode> {
        match message {
            Body::TableMod(table) => self.table_mod(table).map(drop),
            Body::FlowMod(flow) => self.flow_mod(flow).map(drop),
            Body::GroupMod(group) => self.group_mod(group).map(drop),
            Body::MeterMod(meter) => self.meter_mod(meter).map(drop),
            Body::CounterMod(counter) => self.counter_mod(counter).map(drop),
            _ => Err(ErrorCode::BadType),
        }
    }

    /// Returns the names of the objects that were made, changed or removed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.changed)
    }

    /// Makes the change that a FLOW_MOD asks for. A query returns the entry's table and index.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn flow_mod(&mut self, flow: &FlowMod) -> Result<Option<(TableNumber, u32)>, ErrorCode> {
        let change = self.tables.flow_change(flow)?;
        let place = match &change {
            FlowChange::Insert(number, entry) => {
                self.insert(*number, entry)?;
                (*number, entry.index)
            }
            FlowChange::Replace(number, entry) => {
                self.replace(*number, entry)?;
                (*number, entry.index)
            }
            FlowChange::Remove(number, index) => {
                self.remove(*number, *index, RemovalReason::Deleted)?;
                return Ok(None);
            }
            FlowChange::Report(number, index) => return Ok(Some((*number, *index))),
        };
        let counters = self.tables.apply_flow(change);
        self.changed.insert(ObjectKey::Entry(place.0, place.1));
        self.changed
            .extend(counters.into_iter().map(ObjectKey::Counter));
        Ok(None)
    }

    /// Makes the change that a TABLE_MOD asks for. A query returns the table's number.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn table_mod(&mut self, wanted: &TableMod) -> Result<Option<TableNumber>, ErrorCode> {
        let change = self.tables.table_change(wanted)?;
        let reported = match &change {
            TableChange::Report(number) => Some(*number),
            _ => None,
        };
        let changed = match &change {
            TableChange::Set(number, _)
            | TableChange::Resize(number, ..)
            | TableChange::Remove(number) => Some(*number),
            TableChange::Report(_) => None,
        };
        let before = self.tables.clone_of_table(changed);
        // A table without entries is not in the program, and one that was is made again.
        let is_set = !matches!(change, TableChange::Resize(..));
        self.tables.apply_table(change);
        let needs_program = changed.is_some_and(|number| self.is_outdated(number, is_set));
        if needs_program {
            self.shapes.drop_unused();
        }
        if needs_program && let Err(error) = self.make_program() {
            self.tables.restore_table(changed, before);
            return Err(error);
        }
        self.changed.extend(changed.map(ObjectKey::Table));
        Ok(reported)
    }

    /// Makes the change that a GROUP_MOD asks for. A query returns the group's number.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn group_mod(&mut self, wanted: &GroupMod) -> Result<Option<u32>, ErrorCode> {
        let change = self.tables.group_change(wanted)?;
        match &change {
            GroupChange::Report(id) => return Ok(Some(*id)),
            GroupChange::Remove(_) => drop(self.tables.apply_group(change)),
            GroupChange::Set(id, _) => {
                let id = *id;
                let old = self.tables.group(id).cloned();
                let counters = self.tables.apply_group(change);
                self.changed
                    .extend(counters.into_iter().map(ObjectKey::Counter));
                if let Err(error) = self.renew_users(id) {
                    let back = old.map_or(GroupChange::Remove(id), |old| GroupChange::Set(id, old));
                    self.tables.apply_group(back);
                    // The entries had room before.
                    let _ = self.renew_users(id);
                    return Err(error);
                }
            }
        }
        self.changed.insert(ObjectKey::Group(wanted.id));
        Ok(None)
    }

    /// Replaces the actions of all entries that use a group.
    pub(crate) fn renew_users(&mut self, group: u32) -> Result<(), ErrorCode> {
        let users: Vec<_> = self.tables.users_of_group(group).collect();
        for (number, index) in users {
            let entry = self
                .tables
                .table(number)
                .and_then(|table| table.entry(index));
            if let Some(entry) = entry {
                self.replace(number, &entry)?;
            }
        }
        Ok(())
    }

    /// Makes the change that a METER_MOD asks for. A query returns the meter's number.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn meter_mod(&mut self, wanted: &MeterMod) -> Result<Option<u32>, ErrorCode> {
        let change = self.tables.meter_change(wanted)?;
        let applied = match change {
            MeterChange::Report(id) => return Ok(Some(id)),
            MeterChange::Remove(id) | MeterChange::Set(id, 0) => {
                Change::ResetMeter(self.meters, Some(id))
            }
            MeterChange::Set(id, rate) => {
                Change::SetMeter(self.meters, Some(id), meter_config(rate))
            }
        };
        self.device.apply(applied).map_err(code_of)?;
        self.tables.apply_meter(change);
        self.changed.insert(ObjectKey::Meter(wanted.id));
        Ok(None)
    }

    /// Makes the change that a COUNTER_MOD asks for. A query returns what was counted.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn counter_mod(&mut self, wanted: &Counter) -> Result<Option<Count>, ErrorCode> {
        let change = self.tables.counter_change(wanted)?;
        match change {
            CounterChange::Report(id) => return Ok(Some(self.counter(id))),
            CounterChange::Add(_) => {}
            CounterChange::Clear(id) | CounterChange::Remove(id) => {
                let zero = CounterReading::default();
                let clear = Change::WriteCounter(self.counters, Some(id), zero);
                self.device.apply(clear).map_err(code_of)?;
            }
        }
        self.tables.apply_counter(change);
        self.changed.insert(ObjectKey::Counter(wanted.id));
        Ok(None)
    }

    /// Runs the actions of a packet-out on a packet, as if it came in at this port.
    ///
    /// # Errors
    /// An action is not allowed, or the packet is too long.
    pub fn packet_out(
        &mut self,
        in_port: u16,
        actions: &[Action],
        data: &[u8],
    ) -> Result<(), ErrorCode> {
        let is_for_tables = is_for_tables(actions);
        let port = match is_for_tables {
            true => u32::from(in_port),
            false => {
                let mut actions = actions.iter();
                actions.try_for_each(|action| self.tables.check_action(action))?;
                PACKET_OUT_PORTS + u32::from(in_port)
            }
        };
        if !is_for_tables {
            self.set_packet_out(actions)?;
        }
        let received = self.device.receive(PortId(port), data);
        received.map_err(|_| ErrorCode::BadPacket)
    }

    /// Makes these actions those of packet-outs. Packets that came in before run the previous ones.
    fn set_packet_out(&mut self, actions: &[Action]) -> Result<(), ErrorCode> {
        let number = TableNumber::PACKET_OUT;
        let entry = packet_out_entry(actions);
        let (shape, call) = self.call_of(number, &entry)?;
        let table = *self.translated.get(&number).ok_or(ErrorCode::FlowUnknown)?;
        if let Some(old) = self.installed.remove(&(number, 0)) {
            self.device
                .apply(Change::Delete(table, old.id))
                .map_err(code_of)?;
        }
        self.insert_as(number, TableType::Exact, &entry, shape, call)
    }

    /// Returns what a counter has counted.
    pub fn counter(&self, id: u32) -> Count {
        let reading = self.device.read_counter(self.counters, id);
        reading.unwrap_or_default().into()
    }

    /// Returns what an entry has counted, and how long it has existed.
    pub fn usage(&self, number: TableNumber, index: u32) -> Option<(Count, Nanos)> {
        let installed = self.installed.get(&(number, index))?;
        let table = *self.translated.get(&number)?;
        let reading = self.device.read_direct_counter(table, installed.id);
        let age = Nanos(self.device.now().0.saturating_sub(installed.since.0));
        Some((reading.unwrap_or_default().into(), age))
    }

    /// Returns the number of packets that hit and missed in a table of the program.
    pub fn hits(&self, number: TableNumber) -> (u64, u64) {
        let id = self.translated.get(&number);
        let hits = self.device.table_hits();
        let hits = hits.iter().find(|hits| Some(&hits.table) == id);
        hits.map_or((0, 0), |hits| (hits.hits, hits.misses))
    }

    fn insert(&mut self, number: TableNumber, entry: &Entry) -> Result<(), ErrorCode> {
        let (shape, call) = self.call_of(number, entry)?;
        let table_type = self.type_of(number)?;
        self.insert_as(number, table_type, entry, shape, call)
    }

    fn type_of(&self, number: TableNumber) -> Result<TableType, ErrorCode> {
        let table = self.tables.table(number).ok_or(ErrorCode::FlowBadTable)?;
        Ok(table.table_type)
    }

    /// Returns the shape of an entry and its immediates.
    pub(crate) fn shape_of(&self, entry: &Entry) -> (Shape, Vec<Value>) {
        let is_live = |port: u32| u16::try_from(port).is_ok_and(|port| self.live.contains(&port));
        Shape::of(entry, &self.tables, &is_live)
    }

    /// Returns an entry's shape, and the call of its action. If the shape is new, the device has
    /// another program now.
    fn call_of(
        &mut self,
        number: TableNumber,
        entry: &Entry,
    ) -> Result<(Arc<Shape>, ActionCall), ErrorCode> {
        let (shape, args) = self.shape_of(entry);
        let (shape, action) = match self.shapes.find(number, &shape) {
            Some(known) => known,
            None => {
                self.shapes.drop_unused();
                if self.is_full() && !self.shapes.has(number, &shape) {
                    return Err(ErrorCode::TableFull);
                }
                let _held = self.shapes.add(number, shape.clone());
                self.make_program().map_err(|_| ErrorCode::FlowUnknown)?;
                let made = self.shapes.find(number, &shape);
                made.ok_or(ErrorCode::FlowUnknown)?
            }
        };
        Ok((shape, ActionCall { action, args }))
    }

    fn insert_as(
        &mut self,
        number: TableNumber,
        table_type: TableType,
        entry: &Entry,
        shape: Arc<Shape>,
        call: ActionCall,
    ) -> Result<(), ErrorCode> {
        let unknown = ErrorCode::FlowUnknown;
        let inserted = TableEntry {
            keys: key_matches(table_type, &entry.matches, entry.index),
            priority: (table_type == TableType::Masked).then(|| i32::from(entry.priority) + 1),
            action: EntryAction::Call(call),
            idle_timeout: seconds(entry.idle_timeout),
            meter: None,
            counter: None,
        };
        let table = *self.translated.get(&number).ok_or(unknown)?;
        let made = self.device.apply(Change::Insert(table, inserted));
        let id = made.map_err(code_of)?.ok_or(unknown)?;
        let since = self.device.now();
        let installed = Installed { id, shape, since };
        self.installed.insert((number, entry.index), installed);
        self.schedule(number, entry, since);
        Ok(())
    }

    /// Notes the time-outs of an entry on the device that exists since then.
    fn schedule(&mut self, number: TableNumber, entry: &Entry, since: Nanos) {
        let end = seconds(entry.hard_timeout).map(|time| Nanos(since.0.saturating_add(time.0)));
        self.deadlines.set(number, entry.index, end);
        let idle = self.idle_at(number, entry.index);
        self.idle.set(number, entry.index, idle);
    }

    /// Returns the time at which an entry is idle if no packet comes for it until then.
    fn idle_at(&self, number: TableNumber, index: u32) -> Option<Nanos> {
        let installed = self.installed.get(&(number, index))?;
        let table = *self.translated.get(&number)?;
        self.device.idle_at(table, installed.id)
    }

    /// Replaces the entry of the same index. Its counts and its age stay if its match does.
    fn replace(&mut self, number: TableNumber, entry: &Entry) -> Result<(), ErrorCode> {
        let place = (number, entry.index);
        let unknown = ErrorCode::NoSuchEntry;
        let old = self
            .tables
            .table(number)
            .and_then(|table| table.entry(entry.index));
        let old = old.ok_or(unknown)?;
        let (shape, call) = self.call_of(number, entry)?;
        let installed = self.installed.get(&place).ok_or(unknown)?.clone();
        let id = *self.translated.get(&number).ok_or(unknown)?;
        if is_same_match(&old, entry) {
            let action = EntryAction::Call(call);
            let modify = Change::Modify(id, installed.id, action, seconds(entry.idle_timeout));
            self.device.apply(modify).map_err(code_of)?;
            self.schedule(number, entry, installed.since);
            self.installed
                .insert(place, Installed { shape, ..installed });
            return Ok(());
        }
        self.uninstall(number, &old)?;
        let table_type = self.type_of(number)?;
        self.insert_as(number, table_type, entry, shape, call)
    }

    /// Removes an entry from the device.
    fn uninstall(&mut self, number: TableNumber, entry: &Entry) -> Result<(), ErrorCode> {
        let place = (number, entry.index);
        let installed = self.installed.get(&place);
        let installed = installed.ok_or(ErrorCode::NoSuchEntry)?.clone();
        let table = *self.translated.get(&number).ok_or(ErrorCode::NoSuchEntry)?;
        let delete = Change::Delete(table, installed.id);
        self.device.apply(delete).map_err(code_of)?;
        self.installed.remove(&place);
        self.idle.set(number, entry.index, None);
        self.deadlines.set(number, entry.index, None);
        Ok(())
    }

    fn remove(
        &mut self,
        number: TableNumber,
        index: u32,
        reason: RemovalReason,
    ) -> Result<(), ErrorCode> {
        let entry = self
            .tables
            .table(number)
            .and_then(|table| table.entry(index));
        let entry = entry.ok_or(ErrorCode::NoSuchEntry)?;
        let (count, duration) = self.usage(number, index).unwrap_or_default();
        let table = self.translated.get(&number).copied();
        let installed = self.installed.get(&(number, index));
        let in_device = table.zip(installed.map(|installed| installed.id));
        let in_device = in_device.ok_or(ErrorCode::NoSuchEntry)?;
        self.uninstall(number, &entry)?;
        self.tables.apply_flow(FlowChange::Remove(number, index));
        self.changed.insert(ObjectKey::Entry(number, index));
        self.removed.push(Removed {
            table: number,
            entry,
            reason,
            duration,
            count,
            in_device,
        });
        Ok(())
    }

    /// Removes the entries that have timed out by the device's time.
    pub fn expire(&mut self) {
        let now = self.device.now();
        while let Some((number, index)) = self.idle.take(now) {
            match self.idle_at(number, index) {
                // A packet came meanwhile.
                Some(at) if at > now => self.idle.set(number, index, Some(at)),
                // The device has the entry, so it can be removed.
                _ => {
                    let _ = self.remove(number, index, RemovalReason::Idle);
                }
            }
        }
        while let Some((number, index)) = self.deadlines.take(now) {
            let _ = self.remove(number, index, RemovalReason::Hard);
        }
    }

    /// Passes each packet that was sent to `send`, and returns what the controllers get.
    pub fn drain(&mut self, mut send: impl FnMut(u16, &[u8])) -> Vec<Event> {
        let mut events = Vec::new();
        let mut waiting = 0;
        self.device.drain_sent(|port, bytes, _| match port.0 {
            CONTROLLER_PORT => events.extend(packet_in(bytes)),
            // No output asked for these: they carried the others to ingress.
            WAITING_PORT => waiting += 1,
            port => {
                if let Ok(port) = u16::try_from(port) {
                    send(port, bytes);
                }
            }
        });
        (0..waiting).for_each(|_| self.device.count_drop(DropReason::Egress));
        while let Some(digest) = self.device.take_digest() {
            events.extend(fault_of(&digest.limbs));
        }
        let removed = std::mem::take(&mut self.removed);
        events.extend(removed.into_iter().map(Event::Removed));
        events
    }
}

/// Returns true if the actions of a packet-out give the packet to the tables.
pub(crate) fn is_for_tables(actions: &[Action]) -> bool {
    let to_table = u32::from(port::TABLE) | 0xFFFF_0000;
    matches!(actions, [Action::Output { port, .. }] if *port == Argument::Immediate(to_table))
}

/// Returns the entry that runs the actions of a packet-out.
pub(crate) fn packet_out_entry(actions: &[Action]) -> Entry {
    Entry {
        counter: 0,
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 0,
        index: 0,
        matches: Vec::new(),
        instructions: vec![Instruction::ApplyActions(actions.to_vec())],
    }
}

/// Returns the event of a packet that the program has sent to [`CONTROLLER_PORT`].
pub(crate) fn packet_in(bytes: &[u8]) -> Option<Event> {
    let (prefix, data) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let [reason, table, high, low, cookie @ .., _, _] = *prefix;
    Some(Event::PacketIn {
        reason,
        table: TableNumber(table),
        cookie: u64::from_be_bytes(cookie),
        port: u16::from_be_bytes([high, low]),
        data: data.to_vec(),
    })
}

fn fault_of(limbs: &[u64]) -> Option<Event> {
    let (code, table) = (limbs.first()?, limbs.get(1)?);
    let fault = Fault::ALL
        .into_iter()
        .find(|fault| u64::from(fault.code().code()) == *code)?;
    Some(Event::Fault {
        error: fault.code(),
        table: TableNumber(u8::try_from(*table).ok()?),
    })
}

/// Returns a time-out; 0 is none.
fn seconds(count: u16) -> Option<Nanos> {
    (count > 0).then_some(Nanos(u64::from(count) * 1_000_000_000))
}

/// Returns true if two entries of a table have the same match and priority, bit by bit.
fn is_same_match(old: &Entry, new: &Entry) -> bool {
    let values = |one: &Match| -> (FieldValue, FieldValue) { (one.value, one.mask) };
    let of = |entry: &Entry| entry.matches.iter().map(values).collect::<Vec<_>>();
    old.priority == new.priority && of(old) == of(new)
}

/// Returns the configuration of a meter with this rate in kbit/s. The burst is that of a tenth of a
/// second, at least one packet.
fn meter_config(rate: u32) -> MeterConfig {
    let bytes = u64::from(rate) * 1_000 / 8;
    let burst = (bytes / 10).max(MAX_PACKET.into());
    MeterConfig::SingleRate {
        cir: bytes,
        cburst: burst,
        eburst: 0,
    }
}

fn code_of(error: ControlError) -> ErrorCode {
    match error.code {
        ControlCode::ResourceExhausted => ErrorCode::TableFull,
        ControlCode::AlreadyExists => ErrorCode::FlowOverlap,
        ControlCode::NotFound => ErrorCode::NoSuchEntry,
        _ => ErrorCode::FlowUnknown,
    }
}

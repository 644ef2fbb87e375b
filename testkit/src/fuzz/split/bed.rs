//! One device and the halves, with the same packets and changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bits::Value;
use command::handlers::engine_with;
use exec::{DropReason, Engine};
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitOptions, SplitProgram};
use placement::{GroupError, ServerId};
use split::{EntryPolicy, LocalSplit, Order};
use switch::{Action, Change, Device, DeviceConfig, EntryId, PacketProcessor, TableEntry};

use super::handler::natives;
use super::program::{Program, Table, place_of};
use super::setting::{FLOWS, Mode, Setting};
use crate::fuzz::Fault;
use support::rng::Rng;

/// Time without packets between two steps of a drain.
const STEP: Nanos = Nanos(20_000);

/// Number of steps after which all frames have arrived.
const STEPS: usize = 1000;

/// Bytes of a packet without its flow and number.
#[derive(Clone)]
pub(super) struct Data(pub(super) Vec<u8>);

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An event of a run.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A packet of a flow, some nanoseconds after the last event.
    Packet {
        flow: u16,
        after: u64,
        port: u32,
        data: Data,
    },
    /// A controller's change of the entry with the key of a flow, in a table: insert, or modify or
    /// delete.
    Entry {
        table: usize,
        flow: u16,
        length: u32,
        deletes: bool,
        action: usize,
        number: u64,
    },
    /// A controller's change of a table's default action.
    Default {
        table: usize,
        action: usize,
        number: u64,
    },
    /// A server joins.
    Join(u16),
    /// A server leaves.
    Leave(u16),
    /// A server fails.
    Fail(u16),
    /// Another policy.
    Policy(EntryPolicy),
}

impl Event {
    /// Replaces a packet's bytes by zeros, as few as possible. Returns false for other events.
    pub(super) fn make_plain(&mut self) -> bool {
        match self {
            Event::Packet { data, .. } => {
                *data = Data(vec![0; PACKET_BYTES]);
                true
            }
            _ => false,
        }
    }
}

/// Number of bytes of a packet's headers without its flow and number.
const PACKET_BYTES: usize = 37;

/// Draws the events of a run.
pub(super) fn draw(rng: &mut Rng, setting: &Setting, program: &Program) -> Vec<Event> {
    let tables = program.tables.len() as u64;
    // One table of a racing run changes.
    let raced = rng.below(tables.max(1)) as usize;
    let mut events = Vec::new();
    let entry = |rng: &mut Rng, table: usize| Event::Entry {
        table,
        flow: rng.below(FLOWS) as u16,
        length: *rng.pick(&[0, 8, 24, 26, 28, 29, 30, 32]).unwrap_or(&32),
        deletes: rng.one_in(2),
        action: rng.index(8),
        number: rng.bits(),
    };
    if tables > 0 {
        for _ in 0..rng.below(60) {
            let table = rng.below(tables) as usize;
            events.push(entry(rng, table));
        }
    }
    let changes = *rng.pick(&[0, 20, 60]).unwrap_or(&20);
    for _ in 0..100 + rng.below(200) {
        if changes > 0 && tables > 0 && rng.one_in(changes) {
            let table = match setting.mode {
                Mode::Racing => raced,
                _ => rng.below(tables) as usize,
            };
            events.push(match rng.one_in(10) {
                true => Event::Default {
                    table,
                    action: rng.index(8),
                    number: rng.bits(),
                },
                false => entry(rng, table),
            });
        }
        if setting.has_group_changes && rng.one_in(40) {
            let server = rng.below(u64::from(setting.servers) + 2) as u16;
            events.push(match rng.below(5) {
                0 | 1 => Event::Join(server),
                4 if setting.mode == Mode::Lossy => Event::Fail(server),
                _ => Event::Leave(server),
            });
        }
        if rng.one_in(100) {
            events.push(Event::Policy(super::setting::policy(rng)));
        }
        // Few flows have most packets.
        let flow = match rng.one_in(3) {
            true => rng.below(FLOWS),
            false => rng.below(6) * 7,
        };
        let mut data = vec![0; PACKET_BYTES + rng.index(40)];
        rng.fill(&mut data);
        // The types of frames between the planes begin with 0x88.
        data[12] &= 0x7f;
        events.push(Event::Packet {
            flow: flow as u16,
            after: rng.below(30_000),
            port: rng.below(4) as u32,
            data: Data(data),
        });
    }
    events
}

/// A packet that came out: its port and bytes.
type Sent = (u32, Vec<u8>);

/// A packet in flight.
struct Pending {
    port: u32,
    bytes: Vec<u8>,
    /// Results of one device, for each version of the tables since it arrived; nothing if
    /// that device gets it later.
    outcomes: Vec<Vec<Sent>>,
}

type Entries = BTreeMap<(usize, Vec<u32>, u32), EntryId>;

struct Bed<'p> {
    setting: Setting,
    program: &'p Program,
    split: LocalSplit,
    one: Device,
    now: Nanos,
    pending: BTreeMap<(u16, u32), Pending>,
    next: HashMap<u16, u32>,
    last: HashMap<u16, u32>,
    /// Entries of the split device and of the one device, by table, key and prefix length.
    entries: Entries,
    others: Entries,
    missing: u64,
}

fn fault(signature: &str, detail: impl Into<String>) -> Fault {
    Fault::new(signature, detail)
}

fn engine(is_native: bool) -> Box<dyn Engine> {
    match is_native {
        true => Box::new(jit::Jit::new(Arc::new(interp::Interp))),
        false => Box::new(interp::Interp),
    }
}

/// Splits a program, if it can be. `share` is that of the values for which the switch has a
/// budget, in eighths.
pub(super) fn split(program: &ir::Program, share: u64) -> Result<Option<SplitProgram>, Fault> {
    let mut options = SplitOptions::default();
    let Ok(mut split) = passes::split::split(program, &options) else {
        return Ok(None);
    };
    options.phv_bits = Some(split.plan.phv.bits_before * share / 8);
    // A smaller budget may be impossible.
    if let Ok(deferring) = passes::split::split(program, &options) {
        split = deferring;
    }
    for (name, half) in [("switch", &split.switch), ("server", &split.server)] {
        ir::verify(half)
            .map_err(|errors| fault("a half is not valid", format!("{name}: {}", errors[0])))?;
    }
    Ok(Some(split))
}

/// Runs a program and events on one device and on the halves.
///
/// # Errors
/// The results differ, or packets are not accounted for.
pub(super) fn run(
    program: &Program,
    halves: &SplitProgram,
    setting: &Setting,
    events: &[Event],
) -> Result<(), Fault> {
    let mut bed = Bed::new(program, halves, setting)?;
    for event in events {
        bed.event(event)?;
    }
    bed.end()
}

impl<'p> Bed<'p> {
    fn new(program: &'p Program, halves: &SplitProgram, setting: &Setting) -> Result<Self, Fault> {
        let has_state = setting.has_handler_state();
        let local = setting.local(SplitOptions::default().request_port);
        let split = LocalSplit::new(halves, &local, |plane| {
            let natives = plane.map(|_| natives(program, &halves.server, has_state));
            engine_with(engine(setting.is_native), natives.unwrap_or_default())
        });
        let split = split.map_err(|error| fault("a half is not loaded", error.to_string()))?;
        let whole = Arc::new(halves.whole.clone());
        let engine = engine_with(engine(false), natives(program, &whole, has_state));
        let one = Device::new(whole, &*engine, &DeviceConfig::default());
        Ok(Bed {
            setting: *setting,
            program,
            split,
            one: one.map_err(|error| fault("the program is not loaded", error.to_string()))?,
            now: Nanos::from_millis(1),
            pending: BTreeMap::new(),
            next: HashMap::new(),
            last: HashMap::new(),
            entries: Entries::new(),
            others: Entries::new(),
            missing: 0,
        })
    }

    fn event(&mut self, event: &Event) -> Result<(), Fault> {
        match event {
            Event::Packet {
                flow,
                after,
                port,
                data,
            } => {
                self.now += Nanos(*after);
                self.packet(*flow, *port, &data.0)
            }
            Event::Entry {
                table,
                flow,
                length,
                deletes,
                action,
                number,
            } => self.entry((*table, *flow, *length), *deletes, (*action, *number)),
            Event::Default {
                table,
                action,
                number,
            } => self.default_action(*table, (*action, *number)),
            Event::Join(server) => {
                let result = self.split.join(ServerId(*server));
                group(result.map(|change| change.waiting))
            }
            Event::Leave(server) => {
                let result = self.split.leave(ServerId(*server));
                group(result.map(|change| change.waiting))
            }
            Event::Fail(server) => {
                let _ = self.split.fail(ServerId(*server));
                Ok(())
            }
            Event::Policy(policy) => {
                let placement = split::SplitPlacement {
                    policy: *policy,
                    ..self.setting.placement
                };
                let result = self.split.set_placement(&placement);
                result.map_err(|error| fault("a policy is refused", error.to_string()))
            }
        }
    }

    fn packet(&mut self, flow: u16, port: u32, data: &[u8]) -> Result<(), Fault> {
        let number = self.next.entry(flow).or_insert(0);
        *number += 1;
        let number = *number;
        let (space, address) = place_of(flow);
        let mut bytes = data[..14].to_vec();
        bytes.extend_from_slice(&flow.to_be_bytes());
        bytes.push(space);
        bytes.extend_from_slice(&address.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&data[14..]);
        let mut pending = Pending {
            port,
            outcomes: Vec::new(),
            bytes: bytes.clone(),
        };
        if self.setting.mode != Mode::Lossy {
            pending.outcomes.push(self.alone(port, &bytes));
        }
        self.pending.insert((flow, number), pending);
        self.forward(&mut [frame(port, &bytes)])
    }

    /// Forwards a packet through the one device.
    fn alone(&mut self, port: u32, bytes: &[u8]) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut frames = [frame(port, bytes)];
        self.one.forward(&mut frames, self.now, |port, frame, _| {
            sent.push((port.0, frame.bytes().to_vec()));
        });
        sent
    }

    fn forward(&mut self, frames: &mut [Frame]) -> Result<(), Fault> {
        let mut came = Vec::new();
        self.split.forward(frames, self.now, |port, frame, _| {
            came.push((port.0, frame.bytes().to_vec()));
        });
        came.into_iter().try_for_each(|sent| self.came(sent))
    }

    fn came(&mut self, sent: Sent) -> Result<(), Fault> {
        let bytes = &sent.1;
        let flow = bytes.get(14..16).and_then(|bytes| bytes.try_into().ok());
        let number = bytes.get(21..25).and_then(|bytes| bytes.try_into().ok());
        let (Some(flow), Some(number)) = (flow, number) else {
            return Err(fault("an unknown packet came", format!("{sent:02x?}")));
        };
        let (flow, number) = (u16::from_be_bytes(flow), u32::from_be_bytes(number));
        let place = format!("packet {number} of flow {flow}");
        let Some(mut pending) = self.pending.remove(&(flow, number)) else {
            return Err(fault("a packet came twice", place));
        };
        if self.setting.mode == Mode::Lossy {
            let outcome = self.alone(pending.port, &pending.bytes);
            pending.outcomes.push(outcome);
        }
        if !pending.outcomes.iter().any(|all| all[..] == [sent.clone()]) {
            let hex = |(port, bytes): &Sent| {
                let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{port}:{bytes}")
            };
            let all: Vec<String> = pending.outcomes.iter().flatten().map(hex).collect();
            return Err(fault(
                "a packet differs",
                format!(
                    "{place}\n  one device {}\n  split      {}",
                    all.join(" or "),
                    hex(&sent)
                ),
            ));
        }
        let last = self.last.entry(flow).or_default();
        let is_one_way = self.setting.mode != Mode::Racing || self.program.cuts == 1;
        if number < *last && self.setting.order == Order::Strict && is_one_way {
            return Err(fault(
                "a flow is reordered",
                format!("{place} came after {last}"),
            ));
        }
        *last = number.max(*last);
        Ok(())
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) -> Result<(), Fault> {
        for step in 0..STEPS {
            if self.split.in_flight() == 0 && step > 0 {
                break;
            }
            self.now += STEP;
            self.forward(&mut [])?;
        }
        if self.split.in_flight() > 0 {
            let detail = format!("{} packets", self.split.in_flight());
            return Err(fault("packets stay in flight", detail));
        }
        for ((flow, number), pending) in std::mem::take(&mut self.pending) {
            let is_dropped = pending.outcomes.iter().any(Vec::is_empty);
            if self.setting.mode == Mode::Exact && !is_dropped {
                let place = format!("packet {number} of flow {flow}");
                return Err(fault("a packet is lost", place));
            }
            self.missing += u64::from(!is_dropped);
        }
        Ok(())
    }

    /// Waits until a change of a table meets no packet that it may concern.
    fn quiet(&mut self, concerns: impl Fn(u16) -> bool) -> Result<(), Fault> {
        let is_racing = self.setting.mode == Mode::Racing;
        let flows: BTreeSet<u16> = self.pending.keys().map(|key| key.0).collect();
        match !is_racing && flows.into_iter().any(concerns) {
            true => self.drain(),
            false => Ok(()),
        }
    }

    /// Adds what one device does with the packets in flight now.
    fn again(&mut self) {
        if self.setting.mode == Mode::Racing {
            let mut pending = std::mem::take(&mut self.pending);
            for packet in pending.values_mut() {
                let outcome = self.alone(packet.port, &packet.bytes);
                packet.outcomes.push(outcome);
            }
            self.pending = pending;
        }
    }

    fn entry(
        &mut self,
        (number, flow, length): (usize, u16, u32),
        deletes: bool,
        action: (usize, u64),
    ) -> Result<(), Fault> {
        let program = self.program;
        let Some(table) = program.tables.get(number) else {
            return Ok(());
        };
        let Some(id) = id_of(&self.one, table) else {
            return Ok(());
        };
        let length = length.min(32);
        let parts = table.keys.iter().enumerate();
        let is_prefix = |at: usize| table.has_prefix && at + 1 == table.keys.len();
        let mask = |at: usize| match is_prefix(at) {
            true => u32::MAX.checked_shl(32 - length).unwrap_or(0),
            false => u32::MAX,
        };
        let key: Vec<u32> = parts
            .clone()
            .map(|(at, part)| part.of(flow) & mask(at))
            .collect();
        self.quiet(|other| {
            let mut all = parts.clone().zip(&key);
            all.all(|((at, part), value)| part.of(other) & mask(at) == *value)
        })?;
        let matches: Vec<KeyMatch> = parts
            .clone()
            .zip(&key)
            .map(|((at, part), value)| {
                let value = Value::truncated(u128::from(*value), part.width());
                match is_prefix(at) {
                    true => KeyMatch::Lpm(value, length),
                    false => KeyMatch::Exact(value),
                }
            })
            .collect();
        let place = (number, key, if table.has_prefix { length } else { 0 });
        let call = call(table, action);
        let change = |device: &mut Device, entries: &mut Entries| {
            let change = match entries.get(&place) {
                None => Change::Insert(
                    id,
                    TableEntry {
                        keys: matches.clone(),
                        priority: None,
                        action: call.clone(),
                        idle_timeout: None,
                        meter: None,
                        counter: None,
                    },
                ),
                Some(&entry) if deletes => Change::Delete(id, entry),
                Some(&entry) => Change::Modify(id, entry, call.clone(), None),
            };
            let is_delete = matches!(change, Change::Delete(..));
            let made = device
                .apply(change)
                .map_err(|error| fault("a change is refused", format!("{error:?}")))?;
            if is_delete {
                entries.remove(&place);
            }
            if let Some(entry) = made {
                entries.insert(place.clone(), entry);
            }
            Ok(())
        };
        change(&mut self.one, &mut self.others)?;
        change(self.split.coordinator_mut().whole_mut(), &mut self.entries)?;
        self.again();
        Ok(())
    }

    fn default_action(&mut self, number: usize, action: (usize, u64)) -> Result<(), Fault> {
        let program = self.program;
        let Some(table) = program.tables.get(number) else {
            return Ok(());
        };
        let Some(id) = id_of(&self.one, table) else {
            return Ok(());
        };
        let Action::Call(call) = call(table, action) else {
            return Ok(());
        };
        self.quiet(|_| true)?;
        let whole = self.split.coordinator_mut().whole_mut();
        for device in [&mut self.one, whole] {
            device
                .apply(Change::SetDefault(id, call.clone()))
                .map_err(|error| fault("a change is refused", format!("{error:?}")))?;
        }
        self.again();
        Ok(())
    }

    fn end(mut self) -> Result<(), Fault> {
        self.drain()?;
        for _ in 0..80 {
            self.now += STEP;
            self.forward(&mut [])?;
        }
        if let Some(refused) = self.split.coordinator_mut().take_refused().first() {
            return Err(fault("a plane refuses a change", refused.to_string()));
        }
        self.split
            .check_conservation()
            .map_err(|error| fault("packets are not conserved", error.to_string()))?;
        let unanswered = self.split.switch().requests().unanswered();
        let ledger = self.split.ledger();
        let named = ledger
            .drops()
            .filter(|(reason, _)| matches!(reason, DropReason::Named(_)));
        let dropped = unanswered + named.map(|(_, packets)| packets).sum::<u64>();
        if self.missing > dropped {
            let detail = format!("{} packets, {dropped} for a reason", self.missing);
            return Err(fault("a packet is lost", detail));
        }
        if self.setting.mode == Mode::Exact {
            self.compare_state()?;
        }
        Ok(())
    }

    fn compare_state(&mut self) -> Result<(), Fault> {
        self.split.collect();
        let whole = self.split.coordinator().whole();
        let same = |name: String, one: String, split: String| match one == split {
            true => Ok(()),
            false => Err(fault(
                "state differs",
                format!("{name}\n  one device {one}\n  split      {split}"),
            )),
        };
        for (id, instance) in whole.program().externs.iter() {
            for index in 0..FLOWS as u32 {
                let read = |device: &Device| {
                    let counter = device.read_counter(id, index);
                    format!("{counter:?} {:?}", device.read_register(id, index))
                };
                let name = format!("{} {index}", instance.name);
                same(name, read(&self.one), read(whole))?;
            }
        }
        for (place, entry) in &self.entries {
            let Some(other) = self.others.get(place) else {
                continue;
            };
            let table = &self.program.tables[place.0];
            if let Some(id) = id_of(&self.one, table) {
                let one = format!("{:?}", self.one.read_direct_counter(id, *other));
                let split = format!("{:?}", whole.read_direct_counter(id, *entry));
                same(format!("entry {place:?}"), one, split)?;
            }
        }
        Ok(())
    }
}

/// Checks the result of a change of the group.
fn group(result: Result<usize, GroupError>) -> Result<(), Fault> {
    match result {
        Ok(0) | Err(GroupError::Present(_) | GroupError::Absent(_) | GroupError::LastServer(_)) => {
            Ok(())
        }
        Ok(waiting) => Err(fault("a group change waits", format!("{waiting} flows"))),
        Err(error) => Err(fault("a group change is refused", error.to_string())),
    }
}

fn frame(port: u32, bytes: &[u8]) -> Frame {
    let mut frame = Frame::from_bytes(bytes).expect("a short frame");
    frame.ingress = PortId(port);
    frame
}

/// Returns the table of this name. A program without its application has none.
fn id_of(device: &Device, table: &Table) -> Option<TableId> {
    let suffix = format!(".{}", table.name);
    let mut tables = device.program().tables.iter();
    let (id, _) = tables.find(|(_, own)| own.name.ends_with(&suffix))?;
    Some(id)
}

fn call(table: &Table, (action, number): (usize, u64)) -> Action {
    let action = action % table.actions.len();
    let args = (1..).zip(&table.actions[action]).map(|(at, &width)| {
        let number = match width {
            // Ports 1 to 4.
            9 => 1 + number % 4,
            _ => number.rotate_left(13 * at),
        };
        Value::truncated(number.into(), width)
    });
    Action::Call(ActionCall {
        action,
        args: args.collect(),
    })
}

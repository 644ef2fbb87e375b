//! The kernel part of a running switch. It follows the device: tables as they change, counts back
//! to the device's cells, and the ledger.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::{DropReason, FastPath, Unsupported};
use ir::{Layout, Program};
use packet::{Nanos, PortId};
use port::{BpfLoadError, BpfMap, BpfMapKind, BpfProgram, FrontProgram, OpenedPort, PortError};
use switch::{Device, Ledger, QueueConfig};
use table::CounterReading;

use crate::assembler::{
    Alu, Assembler, Helper, MapName, R0, R1, R2, R3, R6, R9, Register, Size, When,
};
use crate::emit::{self, Ending, KernelCode, Leave};
use crate::maps::{Counted, Maps};
use crate::shape::{Shapes, inputs, traffic};

/// Time between two readings of the counts.
const READING: Duration = Duration::from_millis(50);

/// Number of frames that are sent to try an interface.
const PROBES: u64 = 8;

/// Time within which a frame that is sent to an interface must be counted there.
const PROBE: Duration = Duration::from_millis(50);

/// The driver of which the other end drops redirected frames silently, unless it polls.
const SILENT_DRIVER: &str = "veth";

/// Error of making the kernel part of a switch.
#[derive(Debug)]
pub enum PlaneError {
    /// The program as a whole has no form in eBPF.
    Unsupported(Unsupported),
    /// The kernel refuses the code: a defect of this crate, or no permission.
    Refused(BpfLoadError),
    /// The maps cannot be made or written.
    Maps(io::Error),
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaneError::Unsupported(unsupported) => {
                write!(f, "the kernel does not run {}", unsupported.construct)
            }
            PlaneError::Refused(error) => error.fmt(f),
            PlaneError::Maps(error) if error.raw_os_error() == Some(EPERM) => {
                f.write_str("the kernel allows no BPF maps here: the capability CAP_BPF is needed")
            }
            PlaneError::Maps(error) => write!(f, "the kernel's maps: {error}"),
        }
    }
}

impl std::error::Error for PlaneError {}

const EPERM: i32 = 1;

/// Packets that the kernel part has finished, by port, and those that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneCounts {
    /// Packets and bytes received and sent by each port.
    pub ports: BTreeMap<u32, PortTraffic>,
    /// Dropped packets, by reason.
    pub dropped: Vec<(DropReason, u64)>,
    /// Packets that left, for each of [`KernelPlane::leaves`].
    pub left: Vec<u64>,
}

/// Traffic of a port in the kernel part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    /// Packets that came in here and were finished.
    pub received: CounterReading,
    /// Packets that were sent here.
    pub sent: CounterReading,
}

/// A port with an XDP program.
struct PlanePort {
    id: PortId,
    /// Index of the interface.
    index: u32,
    /// True if packets for it are redirected to the interface.
    takes_packets: bool,
    /// True if redirected frames arrive at the other end.
    delivers: bool,
}

/// Stage of a kernel part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All packets leave until the maps hold the device's tables.
    Starting,
    /// Packets are processed.
    Open,
    /// All packets leave, and the maps hold no state. This is final.
    Closed,
}

/// The kernel part of a switch.
pub struct KernelPlane {
    emission: Emission,
    code: KernelCode,
    maps: Maps,
    ports: Vec<PlanePort>,
    counts: PlaneCounts,
    /// The device's number of changes that the maps hold.
    changes: Option<u64>,
    /// Number that the kernel's clock lacks for the device's.
    clock: u64,
    stage: Stage,
    read_at: Option<Instant>,
    notices: Vec<String>,
}

/// All that a port's code is made of.
#[derive(Clone)]
struct Emission {
    program: Arc<Program>,
    layout: Arc<Layout>,
    shapes: Arc<Shapes>,
    pass: Arc<FastPath>,
}

impl Emission {
    fn emit(&self, ending: Ending) -> Result<KernelCode, Unsupported> {
        emit::emit(
            &self.program,
            &self.layout,
            &self.shapes,
            &self.pass,
            ending,
        )
    }
}

/// Program of one port.
struct Front {
    emission: Emission,
    port: PortId,
    maps: BTreeMap<MapName, i32>,
}

impl FrontProgram for Front {
    fn instructions(&self, sockets: RawFd, may_be_incomplete: bool) -> Vec<u64> {
        let ending = Ending::Redirect {
            ingress: self.port.0,
            may_be_incomplete,
        };
        // It was emitted before, for another port. Without code, the kernel refuses the program.
        let code = self.emission.emit(ending).map(|code| code.code);
        let descriptor = |name| match name {
            MapName::Sockets => sockets,
            name => self.maps.get(&name).copied().unwrap_or(-1),
        };
        code.unwrap_or_default().linked(descriptor)
    }
}

impl KernelPlane {
    /// Makes the kernel part of a device's program: emits the code, has the kernel verify it, and
    /// makes the maps. Nothing is attached yet.
    ///
    /// # Errors
    /// The program has no form in eBPF, or the kernel refuses.
    pub fn new(device: &mut Device) -> Result<KernelPlane, PlaneError> {
        let unsupported = |construct: &str| {
            PlaneError::Unsupported(Unsupported {
                construct: construct.to_owned(),
                loc: None,
            })
        };
        let program = Arc::clone(device.program());
        let pass = switch::fast_path(&program);
        let pass = pass.ok_or_else(|| unsupported("the architecture of the program"))?;
        let emission = Emission {
            layout: Arc::new(Layout::of(&program)),
            shapes: Arc::new(Shapes::of(&program)),
            pass: Arc::new(pass),
            program,
        };
        let ending = Ending::Redirect {
            ingress: 0,
            may_be_incomplete: true,
        };
        let code = emission.emit(ending).map_err(PlaneError::Unsupported)?;
        if device.work_budget().units() < code.work {
            return Err(unsupported("a program with so small a work budget"));
        }
        let maps = Maps::new(&emission.program, &emission.shapes, &code);
        let maps = maps.map_err(PlaneError::Maps)?;
        verify(&code, &maps)?;
        Ok(KernelPlane {
            counts: PlaneCounts {
                left: vec![0; code.leaves.len()],
                ..PlaneCounts::default()
            },
            emission,
            code,
            maps,
            ports: Vec::new(),
            changes: None,
            clock: 0,
            stage: Stage::Starting,
            read_at: None,
            notices: Vec::new(),
        })
    }

    /// Returns the places at which packets leave.
    pub fn leaves(&self) -> &[Leave] {
        &self.code.leaves
    }

    /// Returns the program, of which the places have source positions.
    pub fn program(&self) -> &Program {
        &self.emission.program
    }

    /// Returns the number of instructions.
    pub fn instructions(&self) -> usize {
        self.code.code.len()
    }

    /// Returns what the kernel part has counted.
    pub fn counts(&self) -> &PlaneCounts {
        &self.counts
    }

    /// Takes a line for the log.
    pub fn take_notice(&mut self) -> Option<String> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }

    /// Opens an interface as a port by AF_XDP, with the program before it.
    ///
    /// # Errors
    /// The interface cannot be opened, or has another XDP program.
    pub fn open(
        &mut self,
        id: PortId,
        name: &str,
        workers: usize,
    ) -> Result<OpenedPort, PortError> {
        let system = |doing: &str| {
            let doing = format!("{doing} {name}");
            move |source| PortError::System { doing, source }
        };
        let front = Front {
            emission: self.emission.clone(),
            port: id,
            maps: self.maps.descriptors(),
        };
        let opened = port::open_after(id, name, workers, &front)?;
        let interfaces = port::interfaces().map_err(system("asking about"))?;
        let found = interfaces.iter().find(|interface| interface.name == name);
        let Some(interface) = found else {
            return Ok(opened);
        };
        let key = id.0.to_ne_bytes();
        let set = |map: MapName, value: &[u8]| match self.maps.get(map) {
            Some(map) => map.set(&key, value),
            None => Ok(()),
        };
        set(MapName::Interfaces, &interface.index.to_ne_bytes())
            .and_then(|()| set(MapName::Ports, &[0; traffic::BYTES]))
            .map_err(system("redirecting to"))?;
        let delivers = delivers(id, name, self.maps.get(MapName::Interfaces));
        if !delivers {
            self.notices.push(format!(
                "port {id}: {name} drops redirected frames, because its other end does not poll; its \
                 packets are sent by AF_XDP ('ethtool -K INTERFACE gro on' at the other end changes \
                 that)"
            ));
        }
        self.ports.push(PlanePort {
            id,
            index: interface.index,
            takes_packets: false,
            delivers,
        });
        Ok(opened)
    }

    /// Follows the device: its tables, its queues and its program. Gives it the counts.
    pub fn turn(&mut self, device: &mut Device) {
        if self.stage == Stage::Closed {
            return;
        }
        if !self.is_of_program(device) {
            self.close(device, "the program was replaced");
        } else if let Err(error) = self.follow(device) {
            self.close(device, &format!("its maps cannot be used: {error}"));
        }
    }

    /// Returns true if the device still has the program of which this is a part.
    fn is_of_program(&self, device: &Device) -> bool {
        Arc::ptr_eq(device.program(), &self.emission.program)
    }

    fn follow(&mut self, device: &mut Device) -> io::Result<()> {
        let is_due = self.read_at.is_none_or(|at| at.elapsed() >= READING);
        let changes = Some(device.changes());
        let has_changes = self.changes != changes;
        if is_due || has_changes {
            self.read_counts(device)?;
            self.read_at = Some(Instant::now());
        }
        if has_changes {
            let state = device.state();
            self.maps.write(&state)?;
            self.changes = changes;
        }
        self.direct_ports(device)?;
        if self.stage == Stage::Starting {
            self.clock = device.now().0.wrapping_sub(kernel_time()?);
            self.set_open(true)?;
            self.stage = Stage::Open;
        }
        Ok(())
    }

    /// Lets packets for a port be redirected if its queue has the default configuration, and its
    /// other end gets them.
    fn direct_ports(&mut self, device: &Device) -> io::Result<()> {
        for port in &mut self.ports {
            let takes = port.delivers && device.queue(port.id) == QueueConfig::default();
            if takes == port.takes_packets {
                continue;
            }
            let key = port.id.0.to_ne_bytes();
            if let Some(map) = self.maps.get(MapName::Directed) {
                match takes {
                    true => map.set(&key, &port.index.to_ne_bytes())?,
                    false => map.remove(&key)?,
                }
            }
            port.takes_packets = takes;
        }
        Ok(())
    }

    /// Ends the work: all packets leave from now on. Gives the device the last counts.
    pub fn finish(&mut self, device: &mut Device) {
        if let Err(error) = self.end(device) {
            self.notices.push(format!("the kernel part: {error}"));
        }
    }

    /// Lets all packets leave for ever, and gives the reason.
    fn close(&mut self, device: &mut Device, why: &str) {
        let line = format!("all packets leave the kernel part: {why}");
        let line = match self.end(device) {
            Ok(()) => line,
            Err(error) => format!("{line}; {error}"),
        };
        self.notices.push(line);
    }

    /// Ends the work, as far as the kernel permits it. Gives the device the last counts: those of
    /// packets, and those of tables and counters if it still has their program.
    fn end(&mut self, device: &mut Device) -> io::Result<()> {
        self.stage = Stage::Closed;
        let closed = self.set_open(false);
        let read = match self.is_of_program(device) {
            true => self.read_counts(device),
            // Entries and counters of another program may have the same numbers.
            false => self.read_packets(device),
        };
        self.maps.forget_state();
        closed.and(read)
    }

    fn set_open(&self, is_open: bool) -> io::Result<()> {
        self.maps.set_inputs((self.clock, u64::MAX), 0, is_open)
    }

    /// Reads what packets have counted, and gives it to the device.
    fn read_counts(&mut self, device: &mut Device) -> io::Result<()> {
        let Some(state) = self.maps.state() else {
            return self.read_packets(device);
        };
        let now = device.now();
        self.maps.read_counts(|counted| match counted {
            Counted::Row(table, idx, amounts) => {
                let lookup = state.table(table).map(|table| &table.lookup);
                let entry = idx.zip(lookup).map(|(idx, lookup)| lookup.entry(idx).id);
                device.credit_lookups(table, entry, amounts, now);
                // In v1model, direct counters count hits.
                if entry.is_some() {
                    device.credit_direct_counter(table, entry, amounts);
                }
            }
            Counted::Cell(counter, index, amounts) => {
                device.credit_counter(counter, index, amounts);
            }
        })?;
        self.read_packets(device)
    }

    /// Reads the packets by port, by drop reason, and by the place at which they left.
    fn read_packets(&mut self, device: &mut Device) -> io::Result<()> {
        let mut ledger = Ledger::default();
        for port in &self.ports {
            let key = port.id.0.to_ne_bytes();
            let value = match self.maps.get(MapName::Ports) {
                Some(map) => map.get(&key)?,
                None => None,
            };
            let Some(value) = value else {
                continue;
            };
            let reading = |packets: i16, bytes: i16| CounterReading {
                packets: word(&value, packets as usize),
                bytes: word(&value, bytes as usize),
            };
            let now = PortTraffic {
                received: reading(traffic::RECEIVED, traffic::RECEIVED_BYTES),
                sent: reading(traffic::SENT, traffic::SENT_BYTES),
            };
            let before = self.counts.ports.insert(port.id.0, now).unwrap_or_default();
            ledger.forward(now.sent.packets - before.sent.packets);
        }
        let drops = self.numbers(MapName::Drops, DropReason::COUNT)?;
        let known = std::mem::take(&mut self.counts.dropped);
        for (index, &packets) in drops
            .iter()
            .enumerate()
            .filter(|(_, packets)| **packets > 0)
        {
            let Some(reason) = DropReason::from_index(index) else {
                continue;
            };
            let before = known.iter().find(|(known, _)| *known == reason);
            ledger.refuse(packets - before.map_or(0, |(_, packets)| *packets), reason);
            self.counts.dropped.push((reason, packets));
        }
        self.counts.left = self.numbers(MapName::Leaves, self.code.leaves.len())?;
        device.credit_packets(&ledger);
        Ok(())
    }

    /// Returns the first numbers of an array.
    fn numbers(&self, name: MapName, count: usize) -> io::Result<Vec<u64>> {
        let Some(map) = self.maps.get(name) else {
            return Ok(vec![0; count]);
        };
        let values = map.first_values(count as u32)?;
        Ok((0..count).map(|at| word(&values, at * 8)).collect())
    }
}

/// Returns the number of 64 bits at an offset.
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Has the kernel verify the code, without attaching it.
fn verify(code: &KernelCode, maps: &Maps) -> Result<(), PlaneError> {
    let sockets = BpfMap::new(BpfMapKind::Sockets, 4, 4, 1).map_err(PlaneError::Maps)?;
    let linked = code.code.linked(|name| match name {
        MapName::Sockets => sockets.raw_fd(),
        name => maps.descriptor(name),
    });
    let mut start = Assembler::default();
    start.copy(R6, R1);
    start.exit();
    let start = start.finish().unwrap_or_default();
    let whole = [&start.words()[..1], &linked].concat();
    BpfProgram::load(&whole)
        .map(drop)
        .map_err(PlaneError::Refused)
}

/// Returns the kernel's monotonic time, as programs read it.
fn kernel_time() -> io::Result<u64> {
    let map = BpfMap::new(BpfMapKind::Array, 4, 8, 1)?;
    let mut asm = Assembler::default();
    let end = asm.label();
    asm.store_number(Size::Word, Register::STACK, -4, 0);
    asm.copy(R2, Register::STACK);
    asm.alu_number(Alu::Add, R2, -4);
    asm.set_map(R1, MapName::Inputs);
    asm.call(Helper::MapLookup);
    asm.jump_if_number(When::Equal, R0, 0, end);
    asm.copy(R9, R0);
    asm.call(Helper::KtimeGetNs);
    asm.store(Size::Double, R9, inputs::CLOCK_OFFSET, R0);
    asm.place(end);
    asm.set(R0, 0);
    asm.exit();
    let code = asm.finish().unwrap_or_default();
    let program = BpfProgram::load(&code.linked(|_| map.raw_fd())).map_err(|error| error.source)?;
    program.test(&[0; 64])?;
    let time = map.get(&0u32.to_ne_bytes())?;
    Ok(word(&time.unwrap_or_default(), 0))
}

/// Returns true if frames that are redirected to an interface are sent. Some drivers drop them
/// without a count, so frames are sent to try it. Their EtherType is that of local experiments.
fn delivers(id: PortId, name: &str, interfaces: Option<&BpfMap>) -> bool {
    let Ok((driver, before)) = port::driver_and_sent(name) else {
        return true;
    };
    let Some(interfaces) = interfaces.filter(|_| driver == SILENT_DRIVER) else {
        return true;
    };
    let mut asm = Assembler::default();
    asm.set_map(R1, MapName::Interfaces);
    asm.set(R2, id.0.into());
    asm.set(R3, 0);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let code = asm.finish().unwrap_or_default();
    let Ok(program) = BpfProgram::load(&code.linked(|_| interfaces.raw_fd())) else {
        return false;
    };
    let mut frame = [0; 60];
    frame[0] = 2;
    frame[6] = 2;
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    // The host may send a frame of its own meanwhile.
    if (0..PROBES).any(|_| program.send(&frame).is_err()) {
        return false;
    }
    let start = Instant::now();
    while start.elapsed() < PROBE {
        if port::driver_and_sent(name).is_ok_and(|(_, sent)| sent >= before + PROBES) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Longest time between two turns.
pub const MAX_SLEEP: Duration = Duration::from_millis(10);

/// Time by which the counts of the kernel part may be late.
pub const LATENESS: Nanos = Nanos::from_millis(100);

//! The tracing walk: from a packet and a device's state to the packet's [`Flow`].
//!
//! The walk runs a program as `interp` does, on values that know where their bits come from
//! ([`value`]). A decision fixes the bits that it needs, and no others, in an order that depends on
//! constants and on decisions before it. What is sent is compared with what came in ([`edits`]).

mod call;
mod code;
mod edits;
mod expr;
mod lookup;
mod v1model;
mod value;
mod work;

use std::sync::Arc;

use bits::IdVec;
use exec::slots::table::TableSite;
use exec::{DropReason, PacketContext, ParserErrors, State, WorkBudget};
use ir::{ActionId, Arch, FieldId, KeyMatch, Layout, Program, TableId};
use packet::PortId;
use switch::{Device, ReplicationEngine};
use table::EntryId;

use crate::flow::{CountedBytes, Flow, Met, NotOffloadable};
use lookup::{Indices, MetKey};
use value::{Bit, Knowledge, Word};
use work::Costs;

/// Maximum number of statements, stages and states that the walk follows for a packet.
const MAX_STEPS: u32 = 20_000;

/// Tracer of packets for one program.
pub struct FlowTracer {
    program: Arc<Program>,
    sites: IdVec<TableId, TableSite>,
    /// Number of limbs of all keys.
    key_limbs: usize,
    errors: ParserErrors,
    context: PacketContext,
    indices: Indices,
    role_of: Arc<dyn Fn(PortId) -> PortRole + Send + Sync>,
    costs: Costs,
    budget: WorkBudget,
    /// Fields of the last packet.
    parsed: Arc<[ParsedField]>,
}

/// Role of a port to which the program sends packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRole {
    /// It leaves by a port of the data plane.
    Data,
    /// It goes to a controller, so that it stays in software.
    Controller,
    /// It ends there.
    Nowhere,
    /// The switch does not have it, so that the software counts the drop.
    Missing,
}

/// Bits of the frame as it came in that the parser takes as a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedField {
    /// Offset of the first bit.
    pub offset: u32,
    /// Number of bits.
    pub width: u32,
    /// The field.
    pub field: FieldId,
}

/// A flow with the keys that its packets look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The flow.
    pub flow: Arc<Flow>,
    /// The fields that the parser takes from its packets, in order. They name bits in reports.
    pub parsed: Arc<[ParsedField]>,
    keys: Vec<MetKey>,
}

impl Traced {
    /// Returns true if a packet of the flow may look up a key in the table that meets these
    /// conditions of an entry.
    pub fn may_meet(&self, program: &Program, table: TableId, keys: &[KeyMatch]) -> bool {
        let mut met = self.keys.iter().filter(|key| key.table == table);
        met.any(|key| key.may_meet(program, keys))
    }

    /// Takes the keys of the same flow in a later state.
    pub(crate) fn take_keys(&mut self, later: Traced) {
        self.keys = later.keys;
        self.parsed = later.parsed;
    }
}

/// State of a device as the walk reads it.
#[derive(Clone, Copy)]
pub struct View<'d> {
    /// Tables, counters and action profiles.
    pub state: &'d State,
    /// Multicast groups and clone sessions.
    pub replication: &'d ReplicationEngine,
}

impl FlowTracer {
    /// Creates a tracer for the program of a device, in which ports have these roles.
    ///
    /// # Errors
    /// No packet of the program can be offloaded.
    pub fn new(
        program: &Arc<Program>,
        role_of: impl Fn(PortId) -> PortRole + Send + Sync + 'static,
    ) -> Result<FlowTracer, NotOffloadable> {
        if program.arch != Arch::V1model {
            return Err(NotOffloadable::Architecture(arch_name(program.arch)));
        }
        if !program.pipeline.steps.is_empty() {
            return Err(NotOffloadable::Chain);
        }
        let layout = Layout::of(program);
        let mut limbs = 0;
        let sites = TableSite::all(program, |wanted| {
            limbs += wanted;
            limbs - wanted
        });
        Ok(FlowTracer {
            sites,
            key_limbs: limbs as usize,
            errors: ParserErrors::of(program),
            context: PacketContext::new(program, &layout, 0),
            indices: Indices::default(),
            role_of: Arc::new(role_of),
            costs: Costs::of(program),
            budget: WorkBudget::default(),
            parsed: Arc::from([]),
            program: Arc::clone(program),
        })
    }

    /// Sets the work budget of the device's packets ([`switch::Limits`]). A packet that may use it
    /// up has no flow.
    pub fn with_budget(self, budget: WorkBudget) -> FlowTracer {
        FlowTracer { budget, ..self }
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the flow of a packet in a device. It changes nothing in the device, but publishes
    /// earlier changes.
    ///
    /// # Errors
    /// The packet's way cannot be offloaded.
    pub fn trace_in(
        &mut self,
        device: &mut Device,
        ingress: PortId,
        frame: &[u8],
    ) -> Result<Flow, NotOffloadable> {
        let state = device.state();
        let view = View {
            state: &state,
            replication: device.replication(),
        };
        let traced = self.trace(view, ingress, frame)?;
        Ok(Arc::unwrap_or_clone(traced.flow))
    }

    /// Returns the flow of a packet, and the keys that it looked up.
    ///
    /// # Errors
    /// The packet's way cannot be offloaded.
    pub fn trace(
        &mut self,
        view: View<'_>,
        ingress: PortId,
        frame: &[u8],
    ) -> Result<Traced, NotOffloadable> {
        let mut walk = Walk {
            program: &self.program,
            sites: &self.sites,
            errors: &self.errors,
            indices: &mut self.indices,
            costs: &self.costs,
            budget: self.budget.units(),
            spent: 0,
            context: &mut self.context,
            limbs: vec![0; self.key_limbs],
            state: view.state,
            replication: view.replication,
            know: Knowledge::new(frame),
            met: Met::default(),
            keys: Vec::new(),
            parsed: Vec::new(),
            steps: 0,
            frames: Vec::new(),
            job: Job::default(),
        };
        let mut sent = walk.run(ingress)?;
        let role_of = &*self.role_of;
        sent.packets
            .retain(|sent| role_of(sent.port) != PortRole::Nowhere);
        let mut ports = sent.packets.iter().map(|sent| sent.port);
        if let Some(port) = ports.find(|port| role_of(*port) == PortRole::Controller) {
            return Err(NotOffloadable::ControllerPort(port));
        }
        let mut ports = sent.packets.iter().map(|sent| sent.port);
        if let Some(port) = ports.find(|port| role_of(*port) == PortRole::Missing) {
            return Err(NotOffloadable::MissingPort(port));
        }
        let steps = edits::steps(&mut walk.know, &sent.packets)?;
        let flow = Flow {
            ingress,
            matched: walk.know.matched(),
            length: walk.know.length(),
            checksums: walk.know.take_checksums(),
            drop: sent.drop.filter(|_| sent.packets.is_empty()),
            steps,
            met: walk.met,
        };
        // A check of the walk itself, on the packet that it has.
        let expected = sent.packets.iter().map(|sent| {
            let bytes = sent.packet.concrete(&walk.know);
            (sent.port, bytes)
        });
        match flow.matches(ingress, frame) && flow.apply(frame).into_iter().eq(expected) {
            true => {
                // Most packets take one way through the parser.
                if *self.parsed != walk.parsed[..] {
                    self.parsed = walk.parsed.into();
                }
                Ok(Traced {
                    flow: Arc::new(flow),
                    parsed: Arc::clone(&self.parsed),
                    keys: walk.keys,
                })
            }
            false => Err(NotOffloadable::Disagreement),
        }
    }
}

fn arch_name(arch: Arch) -> &'static str {
    match arch {
        Arch::V1model => "v1model",
        Arch::Psa => "PSA",
        Arch::Pna => "PNA",
        Arch::Ebpf => "the eBPF filter model",
        Arch::Ubpf => "the uBPF model",
        Arch::Xdp => "the XDP model",
        Arch::Own => "a package of their own",
    }
}

/// Packets that leave the pipeline.
struct SentPackets {
    packets: Vec<Sent>,
    /// Reason of the first drop.
    drop: Option<DropReason>,
}

/// A packet that leaves the pipeline.
struct Sent {
    port: PortId,
    packet: Bytes,
}

/// The bytes of a packet: some with known origin, then the rest of the frame as it came in.
#[derive(Clone, Debug, Default)]
struct Bytes {
    /// Bits of the first bytes, first bit first.
    prefix: Vec<Bit>,
    /// Offset in the frame as it came in of the first byte after them.
    tail: u32,
}

impl Bytes {
    /// Returns the number of bytes that the packet has more than the frame that came in.
    fn growth(&self) -> i64 {
        (self.prefix.len() / 8) as i64 - i64::from(self.tail)
    }

    /// Returns the bytes of the packet that is traced.
    fn concrete(&self, know: &Knowledge<'_>) -> Vec<u8> {
        let bytes = self.prefix.chunks(8).map(|byte| {
            let bits = byte.iter().map(|bit| u8::from(know.value_of(*bit)));
            bits.fold(0, |byte, bit| byte << 1 | bit)
        });
        let rest = know.frame().get(self.tail as usize..).unwrap_or_default();
        bytes.chain(rest.iter().copied()).collect()
    }
}

/// End of a block before its normal end.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// The parser rejects the packet with this error.
    Reject(u32),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet's way cannot be offloaded.
    Not(NotOffloadable),
}

impl From<NotOffloadable> for End {
    fn from(reason: NotOffloadable) -> End {
        End::Not(reason)
    }
}

/// A packet inside of the pipeline.
#[derive(Clone, Debug, Default)]
struct Job {
    /// Values of the program's fields. A varbit is as wide as it is now.
    fields: Vec<Word>,
    bytes: Bytes,
    /// Number of bits that the parser has consumed.
    cursor: usize,
    emitted: Vec<Bit>,
    ingress: PortId,
    /// Bytes that counters count.
    length: CountedBytes,
    /// The table being applied and the entry that was found.
    current: Option<(TableId, Option<EntryId>)>,
    /// True if a checksum was wrong.
    checksum_error: Option<Bit>,
    clone: Option<Request>,
    resubmit: Option<Option<u32>>,
    recirculate: Option<Option<u32>>,
    truncate: Option<u64>,
    /// True if the fields were set for another round.
    is_prepared: bool,
}

/// Request for clones: session and field list.
#[derive(Clone, Copy, Debug)]
struct Request {
    session: u32,
    list: Option<u32>,
}

/// An action that runs: its parameters.
struct Frame {
    action: Option<ActionId>,
    params: Vec<Word>,
}

/// The walk of one packet and its copies.
struct Walk<'w> {
    program: &'w Program,
    sites: &'w IdVec<TableId, TableSite>,
    errors: &'w ParserErrors,
    indices: &'w mut Indices,
    costs: &'w Costs,
    /// Work units of a packet, and those that are spent.
    budget: u32,
    spent: u32,
    context: &'w mut PacketContext,
    /// Keys of tables.
    limbs: Vec<u64>,
    state: &'w State,
    replication: &'w ReplicationEngine,
    know: Knowledge<'w>,
    met: Met,
    keys: Vec<MetKey>,
    parsed: Vec<ParsedField>,
    steps: u32,
    frames: Vec<Frame>,
    /// The packet that runs.
    job: Job,
}

impl Walk<'_> {
    /// Counts a step.
    fn step(&mut self) -> Result<(), End> {
        self.steps_of(1)
    }

    /// Counts work that takes as long as this number of steps.
    fn steps_of(&mut self, steps: usize) -> Result<(), End> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.steps = self.steps.saturating_add(steps);
        match self.steps > MAX_STEPS {
            true => Err(NotOffloadable::Work.into()),
            false => Ok(()),
        }
    }
}

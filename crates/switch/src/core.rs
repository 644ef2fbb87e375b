//! Common parts of all pipelines: running blocks, copying, queueing, sending and dropping packets,
//! and collecting digests and messages.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bits::Value;
use exec::{
    CompiledFastPath, ControlVerdict, Derived, DeviceView, DropReason, Engine, Loaded, Natives,
    PacketContext, ParserVerdict, RandomStream, State, TraceEvent, Tracer, Unsupported,
};
use exec::{DropDetail, WorkBudget};
use ir::work::Work;
use ir::{
    Block, BlockCode, BlockRole, ExternId, ExternKind, Layout, Program, ScalarTy, StepId, limbs_of,
};
use packet::{Frame, FramePool, Nanos, PortId};
use table::CounterShard;

use crate::arch::{self, FastPathPlan, Pipeline};
use crate::bounded_queue::BoundedQueue;
use crate::budget::{Budgets, Spending};
use crate::drop_report::ReportRate;
use crate::ledger::Ledger;
use crate::pre::{Replica, ReplicationEngine};
use crate::queue::{QueueConfig, QueueTimes, Queues};
use crate::snapshot_cell::SnapshotCell;
use crate::worker::{Handover, HandoverError};

/// Fixed work units of a recirculation, in addition to those of the program's controls.
const PASS_WORK: u32 = 64;

/// Maximum number of packets that wait for recirculating packets before them, and of postponed
/// packets. Further packets are dropped.
pub const MAX_WAITING: usize = 1024;

/// Number of queues of a port: priorities or classes of service 0 to 7.
pub(crate) const PRIORITIES: u32 = 8;

/// Minimum work units of a copy of a copy or of a recirculated packet, and the number of bytes of
/// it that cost one more unit.
const COPY_COST: u32 = 16;
const COPY_BYTES: usize = 128;

/// Compiled fast path, and the plan for packets that exit it.
pub(crate) struct FusedPass {
    pub(crate) plan: FastPathPlan,
    pub(crate) run: Arc<dyn CompiledFastPath>,
}

/// Version of the next [`Code`]. Version 0 is never used.
static CODES: AtomicU64 = AtomicU64::new(1);

/// Program as a device runs it: code without state.
pub(crate) struct Code {
    pub(crate) program: Arc<Program>,
    pub(crate) layout: Layout,
    pub(crate) loaded: Arc<dyn Loaded>,
    pub(crate) pipeline: Pipeline,
    /// Compiled fast path, if the engine compiled one.
    pub(crate) fused: Option<FusedPass>,
    /// Unique version, so that no context is used with code for which it was not created.
    pub(crate) version: u64,
    blocks: Vec<Block>,
    /// Work units of a recirculation.
    pass_work: u32,
    /// Work units of a later copy, without those for its bytes.
    copy_work: u32,
    /// Field that is non-zero if ingress continues with another round through the stage slots.
    resume: SnapshotCell,
    /// The program can watch packets for drops.
    reports_drops: bool,
}

impl Code {
    /// Loads a program on an engine.
    ///
    /// # Errors
    /// The engine does not support the program.
    pub(crate) fn load(program: Arc<Program>, engine: &dyn Engine) -> Result<Code, Unsupported> {
        let layout = Layout::of(&program);
        let natives = Natives::standard();
        let pipeline = Pipeline::of(&program, &layout);
        let plan = pipeline.pass(&program);
        let loaded = match &plan {
            Some(plan) => engine.load_with(&program, &layout, &natives, &plan.pass)?,
            None => engine.load(&program, &layout, &natives)?,
        };
        let fused = plan.and_then(|plan| {
            let run = loaded.fuse(&plan.pass)?;
            Some(FusedPass { plan, run })
        });
        let work = Work::of(&program);
        let pass_work = PASS_WORK.saturating_add(work.controls());
        let blocks = program.pipeline.blocks.clone();
        let of_copies = blocks
            .iter()
            .filter_map(|block| match (block.role, block.code) {
                (BlockRole::Egress | BlockRole::ComputeChecksum, BlockCode::Control(id)) => {
                    Some(id)
                }
                _ => None,
            });
        let copy_work = of_copies.fold(0, |sum: u32, id| sum.saturating_add(work.control(id)));
        let resume = SnapshotCell::of(&program, &layout, ir::RESUME);
        let reports_drops = pipeline.reports_drops();
        Ok(Code {
            program,
            layout,
            loaded,
            pipeline,
            fused,
            version: CODES.fetch_add(1, Relaxed),
            blocks,
            pass_work,
            copy_work: copy_work.max(COPY_COST),
            resume,
            reports_drops,
        })
    }
}

/// Data plane snapshot, published as a whole: code, state, replication entries and work budget. A
/// packet finishes on the snapshot with which it began.
pub(crate) struct DataPlaneSnapshot {
    pub(crate) code: Arc<Code>,
    pub(crate) state: Arc<State>,
    /// Fast path made for the contents of this state's tables, if packets run one.
    pub(crate) specialised: Option<Arc<dyn CompiledFastPath>>,
    pub(crate) replication: ReplicationEngine,
    pub(crate) work: WorkBudget,
}

impl DataPlaneSnapshot {
    /// Returns the compiled fast path that packets run, if there is one.
    pub(crate) fn runs(&self) -> Option<Arc<dyn CompiledFastPath>> {
        let fused = self.code.fused.as_ref()?;
        Some(Arc::clone(self.run_of(fused)))
    }

    /// Returns the version of the program's fast path that packets run.
    #[inline]
    pub(crate) fn run_of<'r>(&'r self, fused: &'r FusedPass) -> &'r Arc<dyn CompiledFastPath> {
        self.specialised.as_ref().unwrap_or(&fused.run)
    }
}

/// Packet path of PSA. v1model's instance types are mapped to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketPath {
    Normal,
    NormalUnicast,
    NormalMulticast,
    CloneI2E,
    CloneE2E,
    Resubmit,
    Recirculate,
}

/// In-flight packet: a packet inside the device.
pub(crate) struct InFlightPacket {
    pub(crate) root: Arc<DataPlaneSnapshot>,
    pub(crate) packet: Box<PacketContext>,
    pub(crate) path: PacketPath,
    /// Current step of the chain; 0 in a program that is no chain.
    pub(crate) step: StepId,
    /// Ingress port.
    pub(crate) ingress: PortId,
    /// Instance of the copy (`egress_rid`).
    pub(crate) instance: u32,
    pub(crate) class_of_service: u32,
    /// True if the frame holds the fields to preserve in the next round, so it must not be zeroed.
    pub(crate) is_prepared: bool,
    /// True if it reports a drop, or is a copy of such a packet. Its own drop is not reported.
    pub(crate) is_drop_report: bool,
    /// Remaining work, copies and recirculations.
    spending: Spending,
}

impl InFlightPacket {
    /// Creates the state of a packet received at a port.
    pub(crate) fn arrived(
        root: &Arc<DataPlaneSnapshot>,
        packet: Box<PacketContext>,
        port: PortId,
    ) -> InFlightPacket {
        InFlightPacket {
            root: Arc::clone(root),
            packet,
            path: PacketPath::Normal,
            step: StepId::new(0),
            ingress: port,
            instance: 0,
            class_of_service: 0,
            is_prepared: false,
            is_drop_report: false,
            spending: Spending::whole(),
        }
    }

    /// Starts or resumes execution: borrows work from the shared budget.
    #[inline]
    pub(crate) fn resume(&mut self) {
        self.spending.resume(&mut self.packet.work_left);
    }

    /// Marks the packet's budget as shared with another worker.
    pub(crate) fn part(&self) {
        self.spending.part();
    }

    /// Ends or interrupts execution: returns unused work to the shared budget.
    #[inline]
    fn suspend(&mut self) {
        self.spending.suspend(&mut self.packet.work_left);
    }
}

/// Properties of the copies of a clone session.
#[derive(Clone, Copy)]
pub(crate) struct CloneMode {
    pub(crate) truncate: Option<u32>,
    pub(crate) class_of_service: u32,
}

/// Transmitted packet that was not yet taken.
pub(crate) struct Sent {
    pub(crate) port: PortId,
    pub(crate) time: Nanos,
    pub(crate) root: Arc<DataPlaneSnapshot>,
    pub(crate) packet: Box<PacketContext>,
}

/// Digest message for the control plane.
#[derive(Clone, PartialEq)]
pub struct Digest {
    /// The program that sent it.
    pub program: Arc<Program>,
    /// Id of the digest.
    pub digest: ExternId,
    /// Values of its fields; each starts on a new limb.
    pub limbs: Vec<u64>,
    /// Time at which it was sent.
    pub time: Nanos,
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest")
            .field("digest", &self.digest)
            .field("limbs", &self.limbs)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// Optional tracer.
pub(crate) struct Trace<'t>(pub(crate) Option<&'t mut dyn Tracer>);

impl Trace<'_> {
    #[inline]
    pub(crate) fn event(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(tracer) = &mut self.0 {
            tracer.event(event());
        }
    }

    /// Reports the fields that the architecture has set. Fields that the program does not have are
    /// skipped.
    pub(crate) fn given<'s>(
        &mut self,
        frame: &[u64],
        slots: impl IntoIterator<Item = &'s SnapshotCell>,
    ) {
        if let Some(tracer) = &mut self.0 {
            let fields: Vec<_> = slots
                .into_iter()
                .filter_map(|slot| slot.read(frame))
                .collect();
            if !fields.is_empty() {
                tracer.event(TraceEvent::Given { fields });
            }
        }
    }
}

/// Packet numbers of a device. They can be allocated through a shared reference, because packets of
/// several devices are processed in one burst while all of them are borrowed.
#[derive(Debug, Default)]
pub(crate) struct PacketNumbers(Cell<u64>);

impl PacketNumbers {
    /// Allocates `packets` numbers and returns the first.
    pub(crate) fn give(&self, packets: u64) -> u64 {
        let before = self.0.get();
        self.0.set(before + packets);
        before + 1
    }

    /// Returns the last `packets` numbers, to be allocated again.
    pub(crate) fn take_back(&self, packets: u64) {
        self.0.set(self.0.get() - packets);
    }
}

/// Packet-processing state of a device. The fields that each burst reads come first, in few cache
/// lines: with many devices that take turns, all of it is out of the cache.
#[repr(C)]
pub(crate) struct Core {
    /// View of the device for its packets, apart from the snapshot.
    pub(crate) owner: DeviceView,
    /// Numbers of the packets processed so far, copies included. Inputs of their random streams.
    pub(crate) packets: PacketNumbers,
    pub(crate) now: Nanos,
    /// Number of rounds that may start before other devices' packets are processed: recirculations,
    /// and first rounds of packets that had to wait. `None` means no limit.
    pub(crate) passes_left: Option<u32>,
    pub(crate) ledger: Ledger,
    pub(crate) queues: Queues<InFlightPacket>,
    /// Received packets that are not yet processed. At a worker: packets that arrived while earlier
    /// ones waited for rounds, each with its time.
    pub(crate) arriving: VecDeque<InFlightPacket>,
    /// Packets that recirculate to ingress, each at its own time.
    pub(crate) again: VecDeque<InFlightPacket>,
    /// Frames to forward later.
    pub(crate) postponed: VecDeque<Frame>,
    pub(crate) sent: VecDeque<Sent>,
    pub(crate) digests: BoundedQueue<Digest>,
    pub(crate) messages: BoundedQueue<String>,
    pub(crate) lost_messages: u64,
    /// Free contexts, all of the newest program.
    #[expect(
        clippy::vec_box,
        reason = "contexts move between queues, and are large"
    )]
    pool: Vec<Box<PacketContext>>,
    pool_version: u64,
    /// Contexts of earlier programs. They are freed later, because freeing takes time on the packet
    /// path.
    #[expect(
        clippy::vec_box,
        reason = "contexts move between queues, and are large"
    )]
    pub(crate) old_contexts: Vec<Box<PacketContext>>,
    /// Values that are copied from one frame to another.
    pub(crate) scratch: Vec<u64>,
    pub(crate) replicas: Vec<Replica>,
    /// Rate of the reports of drops.
    pub(crate) report_rate: ReportRate,
    budgets: Budgets,
    /// Handover of packets for shaped ports, if there are workers.
    pub(crate) handover: Option<Handover>,
}

impl Core {
    pub(crate) fn new(seed: u64, queue: QueueConfig) -> Core {
        Core {
            queues: Queues::new(queue),
            arriving: VecDeque::new(),
            again: VecDeque::new(),
            postponed: VecDeque::new(),
            passes_left: None,
            sent: VecDeque::new(),
            ledger: Ledger::default(),
            digests: BoundedQueue::default(),
            messages: BoundedQueue::default(),
            lost_messages: 0,
            now: Nanos::ZERO,
            packets: PacketNumbers::default(),
            pool: Vec::new(),
            pool_version: 0,
            owner: DeviceView {
                derived: Derived::default(),
                lane: CounterShard::new(0),
                work: WorkBudget::default(),
                seed,
                busy_ports: Vec::new(),
            },
            old_contexts: Vec::new(),
            scratch: Vec::new(),
            replicas: Vec::new(),
            report_rate: ReportRate::default(),
            budgets: Budgets::default(),
            handover: None,
        }
    }

    /// Returns an unused context.
    pub(crate) fn context(&mut self, code: &Code) -> Box<PacketContext> {
        let pooled = if code.version == self.pool_version {
            self.pool.pop()
        } else {
            None
        };
        pooled.unwrap_or_else(|| {
            let mut packet =
                PacketContext::new(&code.program, &code.layout, code.loaded.scratch_limbs());
            code.loaded.prepare(&mut packet);
            Box::new(packet)
        })
    }

    /// Returns the next random stream. A packet gets its stream when it is processed, not when it
    /// arrives, so the batch size has no influence.
    fn random(&mut self) -> RandomStream {
        RandomStream::new(self.owner.seed, self.packets.give(1))
    }

    /// Starts processing a received packet.
    pub(crate) fn begin(&mut self, job: &mut InFlightPacket) {
        job.packet.random = self.random();
        job.packet.work_left = job.root.work.units();
        job.packet.now = self.now;
    }

    /// Keeps a context for the next packet of its program, unless it has grown too large.
    pub(crate) fn put_back(&mut self, packet: Box<PacketContext>, code: &Code) {
        let is_kept = code.version == self.pool_version && self.pool.len() < 1024;
        if is_kept && !packet.is_oversized() {
            self.pool.push(packet);
        }
    }

    /// Keeps only contexts of this program from now on.
    pub(crate) fn keep_contexts_of(&mut self, code: &Code) {
        match self.old_contexts.is_empty() {
            true => std::mem::swap(&mut self.pool, &mut self.old_contexts),
            false => self.old_contexts.append(&mut self.pool),
        }
        self.pool_version = code.version;
    }

    /// Receives a packet.
    pub(crate) fn arrive(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        port: PortId,
        bytes: &[u8],
    ) -> Result<(), packet::FrameError> {
        let mut packet = self.context(&root.code);
        if let Err(error) = packet.bytes.assign(bytes) {
            self.put_back(packet, &root.code);
            return Err(error);
        }
        packet.length = bytes.len() as u32;
        self.ledger.received += 1;
        self.arriving
            .push_back(InFlightPacket::arrived(root, packet, port));
        Ok(())
    }

    /// Runs a parser block, if there is one.
    pub(crate) fn parse(
        &mut self,
        job: &mut InFlightPacket,
        role: BlockRole,
        trace: &mut Trace<'_>,
    ) -> ParserVerdict {
        let InFlightPacket {
            root, packet, step, ..
        } = job;
        let Some(BlockCode::Parser(parser)) = block(&root.code, *step, role) else {
            return ParserVerdict::Accept;
        };
        packet.begin_block();
        packet.lane = self.owner.lane;
        trace.event(|| TraceEvent::Block { step: *step, role });
        let verdict = match &mut trace.0 {
            None => root.code.loaded.run_parser(parser, packet, &root.state),
            Some(tracer) => {
                root.code
                    .loaded
                    .trace_parser(parser, packet, &root.state, &mut **tracer)
            }
        };
        self.collect(&root.code.program, packet, trace);
        verdict
    }

    /// Runs a control block, if there is one. Ingress runs all of its rounds through the stage
    /// slots. Returns the drop reason as an error.
    pub(crate) fn control(
        &mut self,
        job: &mut InFlightPacket,
        role: BlockRole,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        self.control_once(job, role, trace)?;
        match role {
            BlockRole::Ingress => self.finish_turns(job, trace),
            _ => Ok(()),
        }
    }

    /// Runs the remaining rounds of a packet for which ingress stopped at its last stage slot. Each
    /// round costs as much work as a recirculation. No other packet is processed in between, so
    /// other packets do not observe the rounds.
    pub(crate) fn finish_turns(
        &mut self,
        job: &mut InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        while job.root.code.resume.get(job.packet.frame()) != 0 {
            trace.event(|| TraceEvent::Again { why: "slots" });
            if !job.packet.spend(job.root.code.pass_work) {
                return Err(DropReason::WorkBudget);
            }
            self.ledger.resubmitted += 1;
            self.control_once(job, BlockRole::Ingress, trace)?;
        }
        Ok(())
    }

    fn control_once(
        &mut self,
        job: &mut InFlightPacket,
        role: BlockRole,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        let InFlightPacket {
            root, packet, step, ..
        } = job;
        let Some(BlockCode::Control(control)) = block(&root.code, *step, role) else {
            return Ok(());
        };
        packet.begin_block();
        packet.lane = self.owner.lane;
        trace.event(|| TraceEvent::Block { step: *step, role });
        let verdict = match &mut trace.0 {
            None => root.code.loaded.run_control(control, packet, &root.state),
            Some(tracer) => {
                root.code
                    .loaded
                    .trace_control(control, packet, &root.state, &mut **tracer)
            }
        };
        self.collect(&root.code.program, packet, trace);
        match verdict {
            ControlVerdict::Done => Ok(()),
            ControlVerdict::Drop(reason) => Err(reason),
        }
    }

    /// Runs a deparser block and replaces the packet by what it emitted.
    pub(crate) fn deparse(
        &mut self,
        job: &mut InFlightPacket,
        role: BlockRole,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        self.control(job, role, trace)?;
        job.packet
            .finish_deparse()
            .map_err(|_| DropReason::FrameTooLong)?;
        trace.event(|| TraceEvent::Deparsed {
            bytes: job.packet.bytes.bytes().to_vec(),
        });
        Ok(())
    }

    /// Takes the digests and messages of the packet.
    pub(crate) fn collect(
        &mut self,
        program: &Arc<Program>,
        packet: &mut PacketContext,
        trace: &mut Trace<'_>,
    ) {
        if !packet.log.is_empty() {
            let (messages, lost) = (&mut self.messages, &mut self.lost_messages);
            packet.log.drain(|line| {
                trace.event(|| TraceEvent::Message {
                    text: line.to_string(),
                });
                *lost += u64::from(!messages.push(line.len(), || line.to_string()));
            });
        }
        if !packet.digests.is_empty() {
            for message in packet.digests.iter() {
                trace.event(|| TraceEvent::Digest {
                    digest: message.digest,
                    values: digest_values(program, message.digest, message.limbs),
                });
                let kept = self.digests.push(size_of_val(message.limbs), || Digest {
                    program: Arc::clone(program),
                    digest: message.digest,
                    limbs: message.limbs.to_vec(),
                    time: packet.now,
                });
                self.lost_messages += u64::from(!kept);
            }
            self.lost_messages += packet.digests.lost();
            packet.digests.clear();
        }
    }

    pub(crate) fn drop(
        &mut self,
        mut job: InFlightPacket,
        reason: DropReason,
        detail: DropDetail,
        trace: &mut Trace<'_>,
    ) {
        trace.event(|| TraceEvent::Dropped { reason, detail });
        self.ledger.drop(reason);
        if job.root.code.reports_drops && !job.is_drop_report {
            arch::report_drop(self, &job, reason, trace);
        }
        job.suspend();
        self.put_back(job.packet, &job.root.code);
    }

    pub(crate) fn send(&mut self, mut job: InFlightPacket, port: PortId, trace: &mut Trace<'_>) {
        job.suspend();
        trace.event(|| TraceEvent::Sent {
            port: port.0,
            bytes: job.packet.bytes.bytes().to_vec(),
        });
        self.ledger.sent += 1;
        self.sent.push_back(Sent {
            port,
            time: job.packet.now,
            root: job.root,
            packet: job.packet,
        });
    }

    /// Enqueues a packet at a port.
    pub(crate) fn enqueue(
        &mut self,
        mut job: InFlightPacket,
        port: PortId,
        priority: u8,
        trace: &mut Trace<'_>,
    ) {
        job.suspend();
        let job = match &self.handover {
            Some(handover) if self.queues.is_shaped(port) => {
                match handover.give(job, port, priority) {
                    Ok(waiting) => {
                        return trace.event(|| TraceEvent::Queued {
                            port: port.0,
                            priority,
                            depth: waiting as u32,
                        });
                    }
                    Err(HandoverError::Own(job)) => job,
                    Err(HandoverError::Full(job)) => {
                        let detail = DropDetail::Number(port.0);
                        return self.drop(job, DropReason::TailDrop, detail, trace);
                    }
                }
            }
            _ => job,
        };
        let (bytes, now) = (job.packet.bytes.len(), job.packet.now);
        let depth = self.queues.waiting(port, priority) as u32;
        trace.event(|| TraceEvent::Queued {
            port: port.0,
            priority,
            depth,
        });
        if let Err(job) = self.queues.push(port, priority, bytes, now, job) {
            self.drop(job, DropReason::TailDrop, DropDetail::Number(port.0), trace);
        }
    }

    /// Sends the packet back to ingress (resubmit or recirculate).
    pub(crate) fn start_over(
        &mut self,
        mut job: InFlightPacket,
        why: &'static str,
        trace: &mut Trace<'_>,
    ) {
        trace.event(|| TraceEvent::Again { why });
        let may_go = job.spending.start_over() && job.packet.spend(job.root.code.pass_work);
        if !may_go {
            return self.drop(job, DropReason::WorkBudget, DropDetail::None, trace);
        }
        job.suspend();
        match job.path {
            PacketPath::Resubmit => self.ledger.resubmitted += 1,
            _ => self.ledger.recirculated += 1,
        }
        self.again.push_back(job);
    }

    /// Charges `others` copies to a packet's budget. The packet itself is suspended while they are
    /// made, so [`InFlightPacket::resume`] must follow.
    ///
    /// # Errors
    /// The reason why they may not be made. They are counted and traced as refused.
    pub(crate) fn may_copy(
        &mut self,
        job: &mut InFlightPacket,
        others: usize,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        if others == 0 {
            return Ok(());
        }
        let copies = u32::try_from(others).unwrap_or(u32::MAX);
        let bytes = (job.packet.bytes.len() / COPY_BYTES) as u32;
        let cost = job.root.code.copy_work.saturating_add(bytes);
        let taken = job.spending.take_copies(
            &mut job.packet.work_left,
            copies,
            cost,
            &mut self.budgets,
            job.root.work,
        );
        if let Err(reason) = taken {
            job.resume();
            self.ledger.refuse_copies(reason, copies.into());
            trace.event(|| TraceEvent::CopiesRefused { copies, reason });
        }
        taken
    }

    /// Copies a packet's bytes, and its fields if `whole` is set. [`Core::may_copy`] must have
    /// allowed the copy.
    pub(crate) fn copy(&mut self, job: &InFlightPacket, whole: bool) -> InFlightPacket {
        let mut packet = self.context(&job.root.code);
        packet.random = self.random();
        packet.begin_pass();
        packet.bytes.copy_from(&job.packet.bytes);
        packet.length = job.packet.length;
        packet.now = job.packet.now;
        packet.work_left = 0;
        if whole {
            packet.frame_mut().copy_from_slice(job.packet.frame());
            packet.cursor = job.packet.cursor;
        }
        self.ledger.replicated += 1;
        let mut copy = InFlightPacket {
            root: Arc::clone(&job.root),
            packet,
            path: job.path,
            step: job.step,
            ingress: job.ingress,
            instance: 0,
            class_of_service: 0,
            is_prepared: false,
            is_drop_report: job.is_drop_report,
            spending: job.spending.of_copy(),
        };
        copy.resume();
        copy
    }

    /// Copies the bytes of a dropped packet, to report the drop. The copy has a budget of its own,
    /// since that of the packet may be used up.
    pub(crate) fn copy_dropped(&mut self, job: &InFlightPacket) -> InFlightPacket {
        let mut packet = self.context(&job.root.code);
        packet.random = self.random();
        packet.begin_pass();
        packet.bytes.copy_from(&job.packet.bytes);
        packet.length = job.packet.length;
        packet.now = job.packet.now;
        packet.work_left = job.root.work.units();
        self.ledger.replicated += 1;
        InFlightPacket {
            step: job.step,
            is_drop_report: true,
            ..InFlightPacket::arrived(&job.root, packet, job.ingress)
        }
    }

    /// Writes the copies of a clone session to [`Core::replicas`]. Returns `None` if the session is
    /// not configured.
    pub(crate) fn session(
        &mut self,
        root: &DataPlaneSnapshot,
        id: u32,
        trace: &mut Trace<'_>,
    ) -> Option<CloneMode> {
        let Some(session) = root.replication.session(id) else {
            trace.event(|| TraceEvent::NoCloneSession { session: id });
            return None;
        };
        self.replicas.clear();
        self.replicas.extend(root.replication.clones(session));
        Some(CloneMode {
            truncate: session.truncate,
            class_of_service: session.class_of_service,
        })
    }

    /// Dequeues the next packet that may be sent by `now`.
    pub(crate) fn dequeue(&mut self, now: Nanos) -> Option<(PortId, InFlightPacket, QueueTimes)> {
        let (port, mut job, times) = self.queues.pop(now)?;
        job.packet.now = times.dequeued;
        job.resume();
        Some((port, job, times))
    }

    /// Processes the received packets one after the other, each as far as possible.
    pub(crate) fn run_arrived(&mut self, trace: &mut Trace<'_>) {
        while let Some(mut job) = self.arriving.pop_front() {
            self.begin(&mut job);
            arch::ingress(self, job, trace);
            self.drain(self.now, trace);
        }
    }

    /// Runs recirculating packets, and packets that leave a queue by `until`. If the allowed rounds
    /// are used up before, [`Core::is_behind`] is true afterwards.
    pub(crate) fn drain(&mut self, until: Nanos, trace: &mut Trace<'_>) {
        loop {
            if !self.again.is_empty() {
                if !self.take_pass() {
                    return;
                }
                let Some(mut job) = self.again.pop_front() else {
                    return;
                };
                job.resume();
                arch::ingress(self, job, trace);
            } else if let Some((port, job, times)) = self.dequeue(until) {
                trace.event(|| TraceEvent::Dequeued { port: port.0 });
                arch::egress(self, job, port, times, trace);
            } else {
                return;
            }
        }
    }

    /// Takes one of the allowed rounds. Returns false if there is none left.
    fn take_pass(&mut self) -> bool {
        match &mut self.passes_left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// Returns true if received packets wait for rounds. The core's time stands still until they
    /// are processed, so that they see the same state as without the wait.
    pub(crate) fn is_behind(&self) -> bool {
        !self.again.is_empty() || !self.arriving.is_empty()
    }

    /// Continues after rounds were used up: processes the waiting packets one after the other, each
    /// at its own time.
    pub(crate) fn catch_up(&mut self, trace: &mut Trace<'_>) {
        self.drain(self.now, trace);
        while self.again.is_empty()
            && let Some(next) = self.arriving.front()
        {
            let time = next.packet.now;
            if !self.go_on_to(time, trace) {
                return;
            }
            self.drain(self.now, trace);
            if !self.again.is_empty() || !self.take_pass() {
                return;
            }
            let Some(mut job) = self.arriving.pop_front() else {
                return;
            };
            self.begin(&mut job);
            arch::ingress(self, job, trace);
            self.drain(self.now, trace);
        }
    }

    /// Advances the time and processes everything due before. Returns false, without advancing, if
    /// the allowed rounds are used up.
    pub(crate) fn go_on_to(&mut self, now: Nanos, trace: &mut Trace<'_>) -> bool {
        let now = self.now.max(now);
        if let Some(before) = now.0.checked_sub(1) {
            self.drain(Nanos(before), trace);
        }
        let got_there = self.again.is_empty();
        if got_there {
            self.now = now;
        }
        got_there
    }

    /// Queues frames received at this time after those that wait for rounds.
    pub(crate) fn keep_waiting(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        frames: &mut [Frame],
        now: Nanos,
    ) {
        let room = MAX_WAITING.saturating_sub(self.arriving.len());
        let (kept, refused) = frames.split_at_mut(room.min(frames.len()));
        self.ledger
            .refuse(refused.len() as u64, DropReason::TailDrop);
        self.ledger.received += kept.len() as u64;
        for frame in kept {
            let job = self.job_of(root, frame, now);
            self.arriving.push_back(job);
        }
    }

    /// Stores frames to forward later. Nothing is done for them yet. If too many are stored, the
    /// others are dropped for this reason.
    pub(crate) fn postpone(
        &mut self,
        frames: &mut [Frame],
        spare: &mut FramePool,
        reason: DropReason,
    ) {
        let room = MAX_WAITING.saturating_sub(self.postponed.len());
        let (kept, refused) = frames.split_at_mut(room.min(frames.len()));
        self.ledger.refuse(refused.len() as u64, reason);
        self.ledger.received += kept.len() as u64;
        for frame in kept {
            let mut taken = spare.get();
            std::mem::swap(&mut taken, frame);
            self.postponed.push_back(taken);
        }
    }

    /// Returns the number of postponed frames.
    pub(crate) fn postponed(&self) -> usize {
        self.postponed.len()
    }

    /// Dequeues up to `most` postponed frames. They count as not received until they are forwarded.
    pub(crate) fn take_up(&mut self, most: usize, frames: &mut Vec<Frame>) {
        let count = most.min(self.postponed.len());
        self.ledger.received -= count as u64;
        frames.extend(self.postponed.drain(..count));
    }

    /// Converts a frame to a received packet. Leaves an empty frame in its place.
    pub(crate) fn job_of(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        frame: &mut Frame,
        now: Nanos,
    ) -> InFlightPacket {
        let mut packet = self.context(&root.code);
        std::mem::swap(&mut packet.bytes, frame);
        packet.length = packet.bytes.len() as u32;
        packet.now = now;
        let ingress = packet.bytes.ingress;
        InFlightPacket::arrived(root, packet, ingress)
    }

    /// Returns the number of packets inside.
    pub(crate) fn held(&self) -> usize {
        self.queues.held() + self.arriving.len() + self.again.len() + self.postponed.len()
    }
}

/// Returns the values of a digest's fields. Each value starts on a new limb.
fn digest_values(program: &Program, digest: ExternId, mut limbs: &[u64]) -> Vec<Value> {
    let Some(ExternKind::Digest { fields, .. }) = program.externs.get(digest).map(|d| &d.kind)
    else {
        return Vec::new();
    };
    let value = |ty: &ScalarTy| {
        let (own, rest) = limbs.split_at(limbs.len().min(limbs_of(*ty) as usize));
        limbs = rest;
        match ty {
            // The varbit's length in bits comes first.
            ScalarTy::Varbit(most) => {
                let width = own.first().map_or(0, |&bits| bits as u32).min(*most);
                Value::from_limbs(own.get(1..).unwrap_or_default(), width)
            }
            ty => Value::from_limbs(own, ty.width()),
        }
    };
    fields.iter().map(value).collect()
}

fn block(code: &Code, step: StepId, role: BlockRole) -> Option<BlockCode> {
    let blocks = code.blocks.iter();
    let mut found = blocks.filter(|block| block.step == step && block.role == role);
    found.next().map(|block| block.code)
}

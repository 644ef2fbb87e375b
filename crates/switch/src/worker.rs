//! Workers: each processes a share of a device's packets on one thread.
//!
//! A worker has its own queues, contexts and ledger. It reads the device's state from a snapshot,
//! which it takes at the start of a burst or when its thread's epoch has changed. Cells (counters,
//! meters, registers, learned entries) are shared.
//!
//! A shaped port is assigned to one worker, by port number. The other workers hand packets for it
//! over, so that its rate and its packet order are correct.
//!
//! Workers do not block, except while cells change that all packets must see at once
//! ([`Device::between_bursts`]). A worker stores its report in its mailbox only if the device is
//! not reading there.
//!
//! Everything that concerns the whole device (changes, time-outs, learned entries) stays with the
//! device: see [`Device::step`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use exec::{CompiledFastPath, DropReason, PacketContext, TraceEvent, Tracer};
use ir::Program;
use packet::{Frame, FramePool, Nanos, PortId};
use table::CounterShard;
use table::prefetch::{prefetch, prefetch_value};

use crate::bounded_queue::BoundedQueue;
use crate::contexts::Contexts;
use crate::core::{Core, DataPlaneSnapshot, Digest, InFlightPacket, Trace};
use crate::device::Device;
use crate::ledger::Ledger;
use crate::packet_sink::PacketSink;
use crate::queue::QueueConfig;
use crate::thread_epoch::{DeviceMask, ThreadEpoch};

/// Maximum number of packets that wait to be taken over by the worker of their port. Further
/// packets are dropped as from a full queue.
const MAX_HANDED: usize = 4096;

/// Packet for a port of another worker.
pub(crate) struct Handed {
    job: InFlightPacket,
    port: PortId,
    priority: u8,
}

/// Callback that wakes a worker's thread.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Mailbox between a worker and its device. Holds the worker's report, the device's publication,
/// and packets that other workers hand over.
pub(crate) struct WorkerMailbox {
    papers: Mutex<WorkerReport>,
    published: Mutex<Published>,
    signs: WorkerFlags,
    /// Epoch of the worker's thread. Incremented after each write to this mailbox.
    bell: Arc<ThreadEpoch>,
    inbox: ArrayQueue<Handed>,
    /// Called when a packet is handed over.
    wake: OnceLock<Wake>,
}

/// Flags that a worker reads before each of its bursts. They share one cache line, because there
/// may be many devices.
#[repr(align(64))]
struct WorkerFlags {
    /// Number of publications.
    version: AtomicU64,
    /// Publication that the worker must take before its next burst, because cells were changed
    /// together with it.
    required: AtomicU64,
    /// True if the inbox may hold packets. Set after each push; cleared by the worker before it
    /// reads the inbox.
    has_mail: AtomicBool,
}

/// Report of a worker to its device.
#[derive(Default)]
pub(crate) struct WorkerReport {
    pub(crate) ledger: Ledger,
    pub(crate) held: usize,
    pub(crate) digests: BoundedQueue<Digest>,
    pub(crate) messages: BoundedQueue<String>,
    pub(crate) lost_messages: u64,
    /// Contexts of programs that are no longer used. Freed off the packet path.
    #[expect(
        clippy::vec_box,
        reason = "contexts move between queues, and are large"
    )]
    pub(crate) old_contexts: Vec<Box<PacketContext>>,
}

impl WorkerReport {
    /// Moves a worker's report into this one.
    fn fill(&mut self, core: &mut Core) {
        self.ledger.clone_from(&core.ledger);
        self.held = core.held();
        self.lost_messages = core.lost_messages;
        core.digests.move_to(&mut self.digests);
        core.messages.move_to(&mut self.messages);
        if self.old_contexts.is_empty() {
            std::mem::swap(&mut self.old_contexts, &mut core.old_contexts);
        }
    }
}

impl WorkerMailbox {
    fn new(published: Published, bell: Arc<ThreadEpoch>) -> WorkerMailbox {
        WorkerMailbox {
            papers: Mutex::default(),
            published: Mutex::new(published),
            signs: WorkerFlags {
                version: AtomicU64::new(1),
                required: AtomicU64::new(0),
                has_mail: AtomicBool::new(false),
            },
            bell,
            inbox: ArrayQueue::new(MAX_HANDED),
            wake: OnceLock::new(),
        }
    }

    /// Returns true if packets may wait to be taken over.
    fn has_mail(&self) -> bool {
        self.signs.has_mail.load(Ordering::Acquire)
    }

    /// Locks the report, for the device. The device may block here; workers never do.
    pub(crate) fn papers(&self) -> MutexGuard<'_, WorkerReport> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of packets in this mailbox and at its worker.
    pub(crate) fn held(&self) -> usize {
        self.papers().held + self.inbox.len()
    }
}

/// Publication of a device for a worker.
#[derive(Clone)]
struct Published {
    root: Arc<DataPlaneSnapshot>,
    queues: Vec<(PortId, QueueConfig)>,
}

impl WorkerMailbox {
    fn published(&self) -> MutexGuard<'_, Published> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, change: impl FnOnce(&mut Published)) {
        {
            let mut published = self.published();
            change(&mut published);
            self.signs.version.fetch_add(1, Ordering::Release);
        }
        self.bell.ring();
    }
}

/// State shared by a device and its workers.
pub(crate) struct WorkerGroup {
    pub(crate) desks: Vec<Arc<WorkerMailbox>>,
    /// True while a barrier is active: workers must not start a burst.
    is_held: AtomicBool,
    /// Mask of this device among those of its threads.
    mark: DeviceMask,
}

/// Maximum time for which workers wait at a barrier until all of them have reached it. If one is in
/// the middle of a burst, the others resume and the barrier is tried again later.
const MAX_HOLD: Duration = Duration::from_micros(200);

/// Maximum time of all attempts to reach a barrier.
const MAX_TRY: Duration = Duration::from_secs(2);

/// Minimum time between two barriers on one thread, for any of its devices. A barrier stops all
/// devices of the thread. Without this limit a tenant that changes its state in a loop raised its
/// neighbours' packet time by 50 %.
const MIN_BARRIER_INTERVAL: Duration = Duration::from_micros(50);

/// Error: a worker did not reach the end of its burst, because its thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierError;

impl WorkerGroup {
    pub(crate) fn publish(&self, root: &Arc<DataPlaneSnapshot>) {
        for desk in &self.desks {
            desk.publish(|published| published.root = Arc::clone(root));
        }
    }

    pub(crate) fn configure(&self, port: PortId, config: QueueConfig) {
        for desk in &self.desks {
            desk.publish(|published| {
                published.queues.retain(|(other, _)| *other != port);
                published.queues.push((port, config));
            });
        }
    }

    /// Requires every worker to take the current publication before its next burst.
    fn require(&self) {
        for desk in &self.desks {
            let version = desk.signs.version.load(Ordering::Acquire);
            desk.signs.required.store(version, Ordering::Release);
        }
    }

    /// Waits until the minimum time since the last barrier on the same threads has passed.
    fn let_breathe(&self) {
        let free = self.desks.iter().filter_map(|desk| desk.bell.free_since());
        let rest = free
            .max()
            .and_then(|free| MIN_BARRIER_INTERVAL.checked_sub(free.elapsed()));
        if let Some(rest) = rest {
            std::thread::sleep(rest);
        }
    }

    /// Starts a barrier: no worker starts a burst until the guard is dropped. Waits for workers
    /// that are in the middle of one.
    ///
    /// Either a worker sees the barrier, or the device sees that the worker is active
    /// ([`crate::thread_epoch`]).
    fn barrier(&self) -> Result<BarrierGuard<'_>, BarrierError> {
        self.let_breathe();
        let begin = Instant::now();
        loop {
            self.is_held.store(true, Ordering::SeqCst);
            let held = BarrierGuard(self);
            let rings: Vec<u64> = self.desks.iter().map(|desk| desk.bell.ring()).collect();
            let since = Instant::now();
            loop {
                let mut desks = self.desks.iter().zip(&rings);
                if desks.all(|(desk, &ring)| desk.bell.has_let_go(self.mark, ring)) {
                    return Ok(held);
                }
                if since.elapsed() > MAX_HOLD {
                    break;
                }
                std::thread::yield_now();
            }
            drop(held);
            if begin.elapsed() > MAX_TRY {
                return Err(BarrierError);
            }
            // Gives the worker that was waited for time to finish. The others forward waiting
            // packets.
            std::thread::sleep(MAX_HOLD * 2);
        }
    }
}

/// Barrier guard: no worker processes a packet while it exists.
struct BarrierGuard<'o>(&'o WorkerGroup);

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::SeqCst);
        self.0.desks.iter().for_each(|desk| desk.bell.set_free());
    }
}

/// Handover of packets from one core to the worker of their port.
pub(crate) struct Handover {
    office: Arc<WorkerGroup>,
    /// Number of the worker to which this core belongs; `None` for the device itself.
    own: Option<usize>,
}

impl Handover {
    /// Hands a packet for a shaped port over to the worker of that port. Returns the number of
    /// packets already waiting there.
    ///
    /// # Errors
    /// Returns the packet, with the reason.
    pub(crate) fn give(
        &self,
        job: InFlightPacket,
        port: PortId,
        priority: u8,
    ) -> Result<usize, HandoverError> {
        let owner = port.0 as usize % self.office.desks.len();
        if self.own == Some(owner) {
            return Err(HandoverError::Own(job));
        }
        job.part();
        let handed = Handed {
            job,
            port,
            priority,
        };
        let desk = &self.office.desks[owner];
        let waiting = desk.inbox.len();
        let pushed = desk.inbox.push(handed);
        pushed.map_err(|handed| HandoverError::Full(handed.job))?;
        if !desk.signs.has_mail.swap(true, Ordering::AcqRel) {
            // The flag is checked before each burst until the packets were taken over.
            desk.bell.ring();
        }
        if let Some(wake) = desk.wake.get() {
            wake();
        }
        Ok(waiting)
    }
}

/// Reason why a packet was not handed over.
pub(crate) enum HandoverError {
    /// The port is assigned to this worker.
    Own(InFlightPacket),
    /// Too many packets already wait at the other worker.
    Full(InFlightPacket),
}

/// Maximum number of words of derived data that are prefetched, and the number of words in a cache
/// line.
const MAX_WORDS: usize = 64;
const LINE: usize = 8;

/// Prefetch stage for a worker's next burst. The addresses of a stage are read from the data of the
/// stage before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The worker itself.
    Own,
    /// The published snapshot, and the data that the engine derived from it.
    Root,
    /// Data that the engine reads from the derived data.
    State(exec::PrefetchStage),
}

/// Reported counters. They change whenever a packet arrives, leaves, is copied or recirculates.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ReportedCounters {
    received: u64,
    sent: u64,
    replicated: u64,
    passes: u64,
    held: usize,
}

/// Worker: processes a share of a device's packets. It is moved to its thread. The fields that each
/// burst reads come first.
#[repr(C)]
pub struct Worker {
    /// Compiled fast path of the snapshot, if there is one. Workers of several devices may share
    /// it.
    pub(crate) runs: Option<Arc<dyn CompiledFastPath>>,
    pub(crate) root: Arc<DataPlaneSnapshot>,
    pub(crate) core: Core,
    version: u64,
    /// Counters of the last report.
    told: ReportedCounters,
    office: Arc<WorkerGroup>,
    desk: Arc<WorkerMailbox>,
}

impl Worker {
    /// Forwards this worker's share of packets, as [`Device::forward`] does. Each worker has its
    /// own time, which never goes back.
    pub fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.run(frames, now, None, None, &mut sent);
        self.tell();
    }

    /// Forwards packets as [`Worker::forward`] does, on a thread with workers of several devices
    /// that share contexts. Does not report: call [`Worker::tell`] for that.
    ///
    /// At most `passes` rounds start in addition to the first ones of `frames`, so that
    /// recirculating packets do not delay other devices' packets. The remaining rounds start in the
    /// next calls. Everything that arrives or becomes due after them waits ([`Worker::is_behind`]):
    /// up to 1,024 packets, further ones are dropped (`tail_drop`). The resulting packets, their
    /// order and their times do not depend on `passes`.
    pub fn forward_among(
        &mut self,
        contexts: &mut Contexts,
        frames: &mut [Frame],
        now: Nanos,
        passes: u32,
        mut sent: impl PacketSink,
    ) {
        self.run(frames, now, Some(contexts), Some(passes), &mut sent);
    }

    fn run(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        lent: Option<&mut Contexts>,
        passes: Option<u32>,
        sent: &mut impl PacketSink,
    ) {
        self.take_in_hand(now, passes);
        self.finish(frames, now, lent, sent);
    }

    /// Marks the thread as active for this device, and does everything due before the first frame
    /// of a burst. At most `passes` rounds may start.
    fn take_in_hand(&mut self, now: Nanos, passes: Option<u32>) {
        self.desk.bell.begin(self.office.mark);
        self.go_on_to(now, passes);
    }

    /// Returns true if packets may be forwarded together with those of other workers of the thread
    /// ([`crate::forward_together`]). This holds until the thread's epoch changes or a packet of
    /// this worker exits the fast path. It requires that nothing waits here, the mailbox is empty,
    /// and no port is shaped or busy.
    pub fn may_join(&mut self, now: Nanos) -> bool {
        if self.is_held() {
            return false;
        }
        self.take_root();
        let Worker {
            core, root, runs, ..
        } = self;
        let waits = core.held() > 0 || !core.sent.is_empty() || self.desk.has_mail();
        let may_wait = waits || !core.queues.is_usually_free();
        let Some(runs) = runs.as_ref().filter(|_| !may_wait) else {
            return false;
        };
        // Nothing is due.
        core.now = core.now.max(now);
        core.make_ready(root, &**runs);
        core.owner.busy_ports.is_empty()
    }

    /// Forwards frames received at this time, and ends what [`Worker::take_in_hand`] has begun.
    pub(crate) fn finish(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        lent: Option<&mut Contexts>,
        sent: &mut impl PacketSink,
    ) {
        if self.core.is_behind() {
            self.core.take_sent(sent);
            self.core.keep_waiting(&self.root, frames, now);
        } else {
            self.core.forward(&self.root, frames, lent, sent);
        }
        self.desk.bell.end();
    }

    /// Returns the mask by which the thread identifies this worker's device.
    pub fn mark(&self) -> DeviceMask {
        self.office.mark
    }

    /// Returns an id of the compiled fast path, if there is one. Workers of devices that share it
    /// return the same id.
    #[inline]
    pub fn runs(&self) -> Option<usize> {
        self.runs.as_ref().map(|runs| Arc::as_ptr(runs).addr())
    }

    /// Returns true if packets wait because packets before them recirculate.
    pub fn is_behind(&self) -> bool {
        self.core.is_behind()
    }

    /// Stores frames to forward later: [`Worker::dequeue_deferred`] returns them in the same order.
    /// Up to 1,024 frames are held; further ones are dropped for this reason. Frames of `spare`
    /// replace the stored ones.
    pub fn postpone(&mut self, frames: &mut [Frame], spare: &mut FramePool, reason: DropReason) {
        self.core.postpone(frames, spare, reason);
    }

    /// Returns the number of postponed frames.
    #[inline]
    pub fn postponed(&self) -> usize {
        self.core.postponed()
    }

    /// Dequeues up to `most` postponed frames, to be forwarded as frames received now.
    pub fn dequeue_deferred(&mut self, most: usize, frames: &mut Vec<Frame>) {
        self.core.take_up(most, frames);
    }

    /// Forwards one frame as [`Worker::forward`] does, and reports each step to `tracer`, also of
    /// other packets that become due. The packet runs in the engine's traced mode. Packets that
    /// stay queued for later are not traced any further.
    pub fn trace(
        &mut self,
        frame: &mut Frame,
        now: Nanos,
        tracer: &mut dyn Tracer,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.take_in_hand(now, None);
        tracer.event(TraceEvent::Received {
            port: frame.ingress.0,
            bytes: frame.bytes().to_vec(),
        });
        let frames = std::slice::from_mut(frame);
        self.core
            .forward_one_by_one(&self.root, frames, &mut Trace(Some(tracer)), &mut sent);
        self.desk.bell.end();
        self.tell();
    }

    /// Prefetches memory that the next burst will read.
    #[inline]
    pub fn ask_for(&self, what: Ahead) {
        match what {
            Ahead::Own => {
                let core = &self.core;
                // The cache lines next to these are fetched with them.
                prefetch_value(&core.owner);
                prefetch_value(&core.ledger.received);
                prefetch_value(&core.queues);
                prefetch_value(&core.again);
                prefetch_value(&core.postponed);
                prefetch_value(&core.sent);
            }
            Ahead::Root => {
                prefetch_value(&*self.root);
                prefetch_value(&self.desk.signs);
                prefetch_value(&self.office.is_held);
                let owner = &self.core.owner;
                if let Some(state) = owner.state() {
                    prefetch_value(state);
                }
                let words = &owner.derived.words;
                (0..words.len().min(MAX_WORDS))
                    .step_by(LINE)
                    .for_each(|at| prefetch(words, at));
            }
            Ahead::State(what) => {
                if let Some(runs) = &self.runs {
                    runs.prefetch(what, &self.core.owner);
                }
            }
        }
    }

    /// Does everything due before the first frame of a burst. The thread is marked as active.
    fn go_on_to(&mut self, now: Nanos, passes: Option<u32>) {
        self.core.passes_left = passes;
        self.wait_while_held();
        self.take_root();
        if self.core.held() == 0 && !self.desk.has_mail() {
            // Nothing is due: the common case.
            self.core.now = self.core.now.max(now);
            return;
        }
        let trace = &mut Trace(None);
        self.core.catch_up(trace);
        if !self.core.is_behind() && self.core.go_on_to(now, trace) {
            self.take_over();
            self.core.drain(self.core.now, trace);
        }
    }

    /// Returns the version of the last publication taken. Publications that were taken together
    /// count separately.
    pub fn publications(&self) -> u64 {
        self.version
    }

    /// Returns the program that packets have run since the last burst began.
    pub fn program(&self) -> &Arc<Program> {
        &self.root.code.program
    }

    /// Returns the time at which a packet may continue, may leave a queue of this worker, or must
    /// be taken over by it.
    pub fn next_time(&self) -> Option<Nanos> {
        match self.core.is_behind() || self.postponed() > 0 {
            true => Some(self.core.now),
            false => self.next_due(),
        }
    }

    /// Returns the same without recirculating packets, those that wait for them, and postponed
    /// frames.
    pub fn next_due(&self) -> Option<Nanos> {
        match self.desk.has_mail() {
            true => Some(self.core.now),
            false => self.core.queues.next_time(),
        }
    }

    /// Sets the callback that wakes this worker's thread when another worker hands a packet over.
    /// Only the first call has an effect.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.desk.wake.set(Box::new(wake));
    }

    /// Counts a packet that a port refused after this worker had sent it. Does nothing if no packet
    /// was sent. The device learns of it with the next report.
    pub fn count_drop(&mut self, reason: DropReason) {
        if self.core.ledger.sent > 0 {
            self.core.ledger.sent -= 1;
            self.core.ledger.drop(reason);
        }
    }

    /// Counts packets for this worker that were dropped before they reached it.
    pub fn refuse(&mut self, packets: u64, reason: DropReason) {
        self.core.ledger.refuse(packets, reason);
    }

    /// Returns the ledger of this worker's packets.
    pub fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    /// Returns the number of packets that it holds.
    pub fn held(&self) -> usize {
        self.core.held() + self.desk.inbox.len()
    }

    /// Returns true if a burst would have to wait now for a barrier.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.office.is_held.load(Ordering::Acquire)
    }

    /// Waits while a barrier is active, at most for [`MAX_HOLD`] and the time of the change.
    /// The worker is marked as inactive meanwhile.
    fn wait_while_held(&self) {
        while self.office.is_held.load(Ordering::SeqCst) {
            self.desk.bell.end();
            let mut looks = 0;
            while self.is_held() {
                let_device_go_on(&mut looks);
            }
            self.desk.bell.begin(self.office.mark);
        }
    }

    fn take_root(&mut self) {
        let version = self.desk.signs.version.load(Ordering::Acquire);
        if version == self.version {
            return;
        }
        let mut looks = 0;
        let published = loop {
            if let Ok(published) = self.desk.published.try_lock() {
                break published;
            }
            // The worker does not wait for a device that is publishing now: the next burst takes
            // the publication. But a publication that belongs to changed cells must be taken with
            // them. Then the lock is held only for the replacement of a pointer.
            if self.version >= self.desk.signs.required.load(Ordering::Acquire) {
                return;
            }
            let_device_go_on(&mut looks);
        };
        self.version = version;
        if self.root.code.version != published.root.code.version {
            self.core.keep_contexts_of(&published.root.code);
        }
        // Nothing is freed here, because the device keeps snapshots until they are unused
        // ([`Device::publish`]). A snapshot keeps its code and its state alive.
        self.core.owner.derived.let_go();
        self.runs = published.root.runs();
        self.root = Arc::clone(&published.root);
        for (port, config) in &published.queues {
            if self.core.queues.config(*port) != *config {
                self.core.queues.configure(*port, *config, self.core.now);
            }
        }
    }

    /// Takes over packets for this worker's ports. Packets from one worker stay in order.
    fn take_over(&mut self) {
        if !self.desk.has_mail() {
            return;
        }
        // Packets that arrive during the loop set the flag again.
        self.desk.signs.has_mail.swap(false, Ordering::AcqRel);
        for _ in 0..self.desk.inbox.len() {
            let Some(handed) = self.desk.inbox.pop() else {
                return;
            };
            self.core
                .enqueue(handed.job, handed.port, handed.priority, &mut Trace(None));
        }
    }

    /// Returns true if packets arrived or left since the last report.
    pub fn has_news(&self) -> bool {
        let core = &self.core;
        let is_full = !core.digests.is_empty() || !core.messages.is_empty();
        self.told != self.so_far() || is_full || !core.old_contexts.is_empty()
    }

    fn so_far(&self) -> ReportedCounters {
        let ledger = &self.core.ledger;
        ReportedCounters {
            received: ledger.received,
            sent: ledger.sent,
            replicated: ledger.replicated,
            passes: ledger.resubmitted + ledger.recirculated,
            held: self.core.held(),
        }
    }

    /// Stores the report for the device, unless the device is reading the last one now.
    pub fn tell(&mut self) {
        if let Ok(mut papers) = self.desk.papers.try_lock() {
            papers.fill(&mut self.core);
            self.told = self.so_far();
        }
    }
}

/// Waits between two polls of a barrier. The barrier ends soon, unless the device's thread needs
/// this core.
fn let_device_go_on(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    match *looks % 64 {
        0 => std::thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

impl Drop for Worker {
    /// Stores the last report, so that the worker's packets stay in the device's ledger.
    fn drop(&mut self) {
        self.desk.papers().fill(&mut self.core);
    }
}

impl Device {
    /// Creates workers for this device's packets, which must be given to them from now on. The
    /// device remains the control plane. Packets that it receives itself (traced ones, packet-outs)
    /// are processed as before. Workers are created once; later calls return none.
    pub fn workers(&mut self, count: usize) -> Vec<Worker> {
        let bells = (0..count).map(|_| Arc::default());
        self.workers_with(bells.collect(), DeviceMask::of(0))
    }

    /// Creates workers as [`Device::workers`] does, one for each of these thread epochs. The
    /// threads run workers of several devices and identify this device by its mask.
    pub fn workers_with(&mut self, bells: Vec<Arc<ThreadEpoch>>, mark: DeviceMask) -> Vec<Worker> {
        let count = bells.len();
        if self.office.is_some() || count == 0 {
            return Vec::new();
        }
        // One counter shard is the device's.
        self.configuration.set_lanes(count + 1);
        self.is_stale = true;
        self.publish();
        let published = Published {
            root: Arc::clone(&self.root),
            queues: self.core.queues.configured(),
        };
        let desk = |bell| Arc::new(WorkerMailbox::new(published.clone(), bell));
        let office = Arc::new(WorkerGroup {
            desks: bells.into_iter().map(desk).collect(),
            is_held: AtomicBool::new(false),
            mark,
        });
        self.core.handover = Some(Handover {
            office: Arc::clone(&office),
            own: None,
        });
        let workers = (0..count)
            .map(|number| self.worker(number, &office))
            .collect();
        self.office = Some(office);
        workers
    }

    /// Changes cells (counters, meters, registers) atomically with everything changed since the
    /// last [`Device::publish`], and publishes it. Each packet that a worker receives sees all of
    /// the changes or none.
    ///
    /// Packets wait for the bursts in progress and for `change`, so `change` should do as little as
    /// possible. If it fails, it must leave cells unchanged, and nothing is published. Packets that
    /// are queued or recirculate continue with the tables with which they began, and see the
    /// current cells.
    ///
    /// If there was a barrier on the same threads less than 50 us ago, for this device or another
    /// one, the call waits first. Packets continue meanwhile.
    ///
    /// # Errors
    /// A worker's thread does not run. Nothing was done.
    pub fn between_bursts<T, E>(
        &mut self,
        change: impl FnOnce(&mut Device) -> Result<T, E>,
    ) -> Result<Result<T, E>, BarrierError> {
        let office = self.office.clone();
        // Makes the snapshot of the tables in advance, so that packets do not wait for it.
        drop(self.configuration.snapshot());
        let held = office.as_ref().map(|office| office.barrier()).transpose()?;
        let done = change(self);
        if done.is_ok() {
            self.publish_root();
            if let Some(office) = &office {
                office.require();
            }
        }
        drop(held);
        self.free_retired();
        Ok(done)
    }

    fn worker(&self, number: usize, office: &Arc<WorkerGroup>) -> Worker {
        // Random numbers depend on the seed, the worker, and the packet's number at the worker.
        let seed = self.core.owner.seed.wrapping_add((number as u64 + 1) << 48);
        let mut core = Core::new(seed, self.core.queues.default_config());
        core.keep_contexts_of(&self.root.code);
        core.owner.lane = CounterShard::new(number as u32 + 1);
        core.handover = Some(Handover {
            office: Arc::clone(office),
            own: Some(number),
        });
        Worker {
            core,
            root: Arc::clone(&self.root),
            runs: self.root.runs(),
            version: 0,
            told: ReportedCounters::default(),
            office: Arc::clone(office),
            desk: Arc::clone(&office.desks[number]),
        }
    }
}

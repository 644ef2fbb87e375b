//! Workers: each takes a share of a device's packets, on a thread of its own.
//!
//! A worker has its own queues, contexts and ledger, and sees the device's state through the root that it takes at the begin of a burst, or when its thread's bell rang; cells
//! (counters, meters, registers, learned entries) are shared. A port that is shaped belongs to one worker, by its number: the others hand packets for
//! it over, so that its rate and its order hold. Nothing here waits, but for cells that all packets must see changed at once
//! ([`Device::between_bursts`]): what a worker has to tell is left on its desk when nobody reads there.
//! What concerns the whole device (changes, time-outs, what packets have learned) stays with the device: [`Device::step`] does it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use exec::{DropReason, Fused, PacketContext, TraceEvent, Tracer};
use ir::Program;
use packet::{Frame, FramePool, Nanos, PortId};
use table::Lane;
use table::prefetch::{prefetch, prefetch_value};

use crate::bell::{Bell, Marks};
use crate::contexts::Contexts;
use crate::core::{Core, Digest, Job, Root, Trace};
use crate::device::Device;
use crate::leave::Leave;
use crate::ledger::Ledger;
use crate::outbox::Outbox;
use crate::queue::QueueConfig;

/// Packets that wait to be taken over by the worker of their port; one more is dropped as from a full queue.
const MOST_HANDED: usize = 4096;

/// A packet for a port of another worker.
pub(crate) struct Handed {
    job: Job,
    port: PortId,
    priority: u8,
}

/// Wakes a worker's thread.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Where a worker leaves what it has to tell, others leave packets for it, and the device what it publishes.
pub(crate) struct Desk {
    papers: Mutex<Papers>,
    published: Mutex<Published>,
    signs: Signs,
    /// Of the worker's thread. It rings behind all that is left here.
    bell: Arc<Bell>,
    inbox: ArrayQueue<Handed>,
    /// What to do when a packet is left here.
    wake: OnceLock<Wake>,
}

/// What a worker looks at before each burst of its own: in one cache line, for there may be many devices.
#[repr(align(64))]
struct Signs {
    /// How often something was published.
    version: AtomicU64,
    /// The publication that a worker must have taken before it goes on: cells were changed together with it.
    required: AtomicU64,
    /// Whether packets may be in the inbox: set behind each that is put there, cleared by the worker before it looks.
    has_mail: AtomicBool,
}

/// What a worker has to tell the device.
#[derive(Default)]
pub(crate) struct Papers {
    pub(crate) ledger: Ledger,
    pub(crate) held: usize,
    pub(crate) digests: Outbox<Digest>,
    pub(crate) messages: Outbox<String>,
    pub(crate) lost_messages: u64,
    /// Contexts of programs that are gone, to be freed where nobody waits.
    #[expect(
        clippy::vec_box,
        reason = "contexts move between queues, and are large"
    )]
    pub(crate) old_contexts: Vec<Box<PacketContext>>,
}

impl Papers {
    /// Takes what a worker has to tell.
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

impl Desk {
    fn new(published: Published, bell: Arc<Bell>) -> Desk {
        Desk {
            papers: Mutex::default(),
            published: Mutex::new(published),
            signs: Signs {
                version: AtomicU64::new(1),
                required: AtomicU64::new(0),
                has_mail: AtomicBool::new(false),
            },
            bell,
            inbox: ArrayQueue::new(MOST_HANDED),
            wake: OnceLock::new(),
        }
    }

    /// Whether packets may wait to be taken over.
    fn has_mail(&self) -> bool {
        self.signs.has_mail.load(Ordering::Acquire)
    }

    /// The papers, for the device: it may wait, workers do not.
    pub(crate) fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets on this desk and at its worker.
    pub(crate) fn held(&self) -> usize {
        self.papers().held + self.inbox.len()
    }
}

/// What a device publishes to a worker.
#[derive(Clone)]
struct Published {
    root: Arc<Root>,
    queues: Vec<(PortId, QueueConfig)>,
}

impl Desk {
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

/// What a device and its workers share.
pub(crate) struct Office {
    pub(crate) desks: Vec<Arc<Desk>>,
    /// Whether workers are to begin no burst.
    is_held: AtomicBool,
    /// What the device is told by where it is one of many.
    mark: Marks,
}

/// For how long workers are held until all of them rest: one that is in the middle of a burst then lets the others go on, and they are held again
/// later.
const LONGEST_HOLD: Duration = Duration::from_micros(200);

/// For how long it is tried to hold all workers.
const LONGEST_TRY: Duration = Duration::from_secs(2);

/// For how long packets go on at least before workers of a thread are held again, whichever device's. That costs the thread something for all devices' packets, which somebody who changes
/// his own over and over is not to take from the others: without it a neighbour's packets took half as long again.
const BREATHER: Duration = Duration::from_micros(50);

/// A worker did not come to the end of its burst: its thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl Office {
    pub(crate) fn publish(&self, root: &Arc<Root>) {
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

    /// Has every worker take what is published now before its next burst.
    fn require(&self) {
        for desk in &self.desks {
            let version = desk.signs.version.load(Ordering::Acquire);
            desk.signs.required.store(version, Ordering::Release);
        }
    }

    /// Waits until packets have gone on for long enough since workers of the same threads were held last.
    fn let_breathe(&self) {
        let free = self.desks.iter().filter_map(|desk| desk.bell.free_since());
        let rest = free
            .max()
            .and_then(|free| BREATHER.checked_sub(free.elapsed()));
        if let Some(rest) = rest {
            std::thread::sleep(rest);
        }
    }

    /// Lets no worker begin a burst until the guard is gone, and waits for those in the middle of one.
    ///
    /// Either a worker sees that it is held, or the device sees that it is at work ([`crate::bell`]).
    fn hold(&self) -> Result<Held<'_>, Stuck> {
        self.let_breathe();
        let begin = Instant::now();
        loop {
            self.is_held.store(true, Ordering::SeqCst);
            let held = Held(self);
            let rings: Vec<u64> = self.desks.iter().map(|desk| desk.bell.ring()).collect();
            let since = Instant::now();
            loop {
                let mut desks = self.desks.iter().zip(&rings);
                if desks.all(|(desk, &ring)| desk.bell.has_let_go(self.mark, ring)) {
                    return Ok(held);
                }
                if since.elapsed() > LONGEST_HOLD {
                    break;
                }
                std::thread::yield_now();
            }
            drop(held);
            if begin.elapsed() > LONGEST_TRY {
                return Err(Stuck);
            }
            // The worker that was waited for gets its time; the others forward what has come.
            std::thread::sleep(LONGEST_HOLD * 2);
        }
    }
}

/// No worker has a packet in hand while this lives.
struct Held<'o>(&'o Office);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::SeqCst);
        self.0.desks.iter().for_each(|desk| desk.bell.set_free());
    }
}

/// How a core hands packets over.
pub(crate) struct Handover {
    office: Arc<Office>,
    /// The worker whose core this is; none for the device's own.
    own: Option<usize>,
}

impl Handover {
    /// Gives a packet for a shaped port to the worker of that port; how many wait there already.
    ///
    /// # Errors
    /// The packet comes back, with the reason.
    pub(crate) fn give(
        &self,
        job: Job,
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
            // Who has mail is asked before each visit until it was taken over.
            desk.bell.ring();
        }
        if let Some(wake) = desk.wake.get() {
            wake();
        }
        Ok(waiting)
    }
}

/// Why a packet was not handed over.
pub(crate) enum HandoverError {
    /// The port belongs to this worker.
    Own(Job),
    /// The other worker has too many packets to take over.
    Full(Job),
}

/// The most words of what an engine has made of a state that are asked for ahead, and how many of them a cache line has.
const MOST_WORDS: usize = 64;
const LINE: usize = 8;

/// What a worker's next burst will need: each can be asked for when the one before is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The worker itself.
    Own,
    /// What the device publishes, and what the engine has made of it.
    Root,
    /// What the engine reads of that.
    State(exec::Ahead),
}

/// What tells that packets came, went, were copied or started over.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct SoFar {
    received: u64,
    sent: u64,
    replicated: u64,
    passes: u64,
    held: usize,
}

/// A share of a device's packets. It is moved to the thread that runs it. What each burst reads stands first.
#[repr(C)]
pub struct Worker {
    /// The function that packets go through, if there is one: the root's, which workers of many devices have in common.
    pub(crate) runs: Option<Arc<dyn Fused>>,
    pub(crate) root: Arc<Root>,
    pub(crate) core: Core,
    version: u64,
    /// What the device was last told.
    told: SoFar,
    office: Arc<Office>,
    desk: Arc<Desk>,
}

impl Worker {
    /// [`Device::forward`] for this worker's share. Time is each worker's own; it never goes back.
    pub fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.run(frames, now, None, None, &mut sent);
        self.tell();
    }

    /// [`Worker::forward`] by a thread that runs workers of several devices, which lend each other contexts: what this one has to tell it tells with
    /// [`Worker::tell`].
    ///
    /// So that packets which start over do not keep the other devices' waiting, no more than `passes` begin beside the first ones of `frames`. The others
    /// begin in the next calls, and all that comes or is due behind them waits ([`Worker::is_behind`]): up to 1,024 packets, more are dropped
    /// (`tail_drop`). What the others become, in which order and at which times they leave, does not depend on `passes`.
    pub fn forward_among(
        &mut self,
        contexts: &mut Contexts,
        frames: &mut [Frame],
        now: Nanos,
        passes: u32,
        mut sent: impl Leave,
    ) {
        self.run(frames, now, Some(contexts), Some(passes), &mut sent);
    }

    fn run(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        lent: Option<&mut Contexts>,
        passes: Option<u32>,
        sent: &mut impl Leave,
    ) {
        self.take_in_hand(now, passes);
        self.finish(frames, now, lent, sent);
    }

    /// Takes packets in hand, which may start over for so many passes, and does what is due before any frame of a burst.
    fn take_in_hand(&mut self, now: Nanos, passes: Option<u32>) {
        self.desk.bell.begin(self.office.mark);
        self.go_on_to(now, passes);
    }

    /// Whether packets may go through together with those of other workers of the thread ([`crate::forward_together`]), from now on until its bell rings or one of
    /// them does not go straight through: nothing waits here, nothing new was left here, and all ports send at once.
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

    /// Takes frames that came at that time through the program, and ends what [`Worker::take_in_hand`] has begun.
    pub(crate) fn finish(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        lent: Option<&mut Contexts>,
        sent: &mut impl Leave,
    ) {
        if self.core.is_behind() {
            self.core.take_sent(sent);
            self.core.keep_waiting(&self.root, frames, now);
        } else {
            self.core.forward(&self.root, frames, lent, sent);
        }
        self.desk.bell.end();
    }

    /// What its thread tells its device by.
    pub fn mark(&self) -> Marks {
        self.office.mark
    }

    /// Which function packets go through, if there is one: workers of devices that run the same one have the same number.
    #[inline]
    pub fn runs(&self) -> Option<usize> {
        self.runs.as_ref().map(|runs| Arc::as_ptr(runs).addr())
    }

    /// Whether packets wait because those before them start over.
    pub fn is_behind(&self) -> bool {
        self.core.is_behind()
    }

    /// Takes frames in that [`Worker::take_up`] gives back later, in their order, to be forwarded then: meanwhile they are held, up to 1,024 of them; more
    /// are dropped for this reason. Frames of `spare` are left in their place.
    pub fn postpone(&mut self, frames: &mut [Frame], spare: &mut FramePool, reason: DropReason) {
        self.core.postpone(frames, spare, reason);
    }

    /// How many frames were postponed and have not been taken up.
    #[inline]
    pub fn postponed(&self) -> usize {
        self.core.postponed()
    }

    /// Gives back the first frames that were postponed, up to so many, as frames that come now.
    pub fn take_up(&mut self, most: usize, frames: &mut Vec<Frame>) {
        self.core.take_up(most, frames);
    }

    /// [`Worker::forward`] of one frame, which tells each step of it, and of what else becomes due, to `tracer`. It runs as the interpreter runs it; what
    /// waits in a queue for a later moment goes on untraced.
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

    /// Asks the processor for memory that the next burst will need.
    #[inline]
    pub fn ask_for(&self, what: Ahead) {
        match what {
            Ahead::Own => {
                let core = &self.core;
                // What stands between, before and behind these two comes with them.
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
                (0..words.len().min(MOST_WORDS))
                    .step_by(LINE)
                    .for_each(|at| prefetch(words, at));
            }
            Ahead::State(what) => {
                if let Some(runs) = &self.runs {
                    runs.ask_for(what, &self.core.owner);
                }
            }
        }
    }

    /// At work, does what is due before any frame of a burst.
    fn go_on_to(&mut self, now: Nanos, passes: Option<u32>) {
        self.core.passes_left = passes;
        self.wait_while_held();
        self.take_root();
        if self.core.held() == 0 && !self.desk.has_mail() {
            // Nothing is due: this is the usual case, and all of it.
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

    /// How often it has taken what the device published; more than once at a time counts as well.
    pub fn publications(&self) -> u64 {
        self.version
    }

    /// The program that packets have gone through since the last burst began.
    pub fn program(&self) -> &Arc<Program> {
        &self.root.code.program
    }

    /// When a packet may go on, leave a queue of this worker, or is to be taken over by it.
    pub fn next_time(&self) -> Option<Nanos> {
        match self.core.is_behind() || self.postponed() > 0 {
            true => Some(self.core.now),
            false => self.next_due(),
        }
    }

    /// The same beside packets that start over, those behind them and those that were postponed.
    pub fn next_due(&self) -> Option<Nanos> {
        match self.desk.has_mail() {
            true => Some(self.core.now),
            false => self.core.queues.next_time(),
        }
    }

    /// Has `wake` called whenever another worker leaves a packet for this one: its thread may sleep. Called again, it changes nothing.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.desk.wake.set(Box::new(wake));
    }

    /// Counts a packet that a port refused after it had left here; nothing if none has left. The device hears of it with the next
    /// burst.
    pub fn count_drop(&mut self, reason: DropReason) {
        if self.core.ledger.sent > 0 {
            self.core.ledger.sent -= 1;
            self.core.ledger.drop(reason);
        }
    }

    /// Counts packets that came for this worker and were dropped before it.
    pub fn refuse(&mut self, packets: u64, reason: DropReason) {
        self.core.ledger.refuse(packets, reason);
    }

    /// What became of this worker's packets.
    pub fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    /// Packets that it holds.
    pub fn held(&self) -> usize {
        self.core.held() + self.desk.inbox.len()
    }

    /// Whether a burst would have to wait right now, because the device changes what all packets must see at once.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.office.is_held.load(Ordering::Acquire)
    }

    /// Waits while the device changes what all packets must see at once: no longer than [`LONGEST_HOLD`] and the change take. Meanwhile the worker rests.
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
            // A device that publishes right now is not waited for: the next burst sees it; but what cells agree with has to be seen with them, and then
            // the lock is held for a pointer's change.
            if self.version >= self.desk.signs.required.load(Ordering::Acquire) {
                return;
            }
            let_device_go_on(&mut looks);
        };
        self.version = version;
        if self.root.code.version != published.root.code.version {
            self.core.keep_contexts_of(&published.root.code);
        }
        // The device keeps roots until nobody else does ([`Device::publish`]): nothing is freed here. As long as a root is kept so is what it runs, and what packets see.
        self.core.owner.derived.let_go();
        self.runs = published.root.runs();
        self.root = Arc::clone(&published.root);
        for (port, config) in &published.queues {
            if self.core.queues.config(*port) != *config {
                self.core.queues.configure(*port, *config, self.core.now);
            }
        }
    }

    /// Takes over packets for this worker's ports. Those of one worker stay in their order.
    fn take_over(&mut self) {
        if !self.desk.has_mail() {
            return;
        }
        // What comes while it looks is looked for again.
        self.desk.signs.has_mail.swap(false, Ordering::AcqRel);
        for _ in 0..self.desk.inbox.len() {
            let Some(handed) = self.desk.inbox.pop() else {
                return;
            };
            self.core
                .enqueue(handed.job, handed.port, handed.priority, &mut Trace(None));
        }
    }

    /// Whether packets came or went that the device has not been told of.
    pub fn has_news(&self) -> bool {
        let core = &self.core;
        let is_full = !core.digests.is_empty() || !core.messages.is_empty();
        self.told != self.so_far() || is_full || !core.old_contexts.is_empty()
    }

    fn so_far(&self) -> SoFar {
        let ledger = &self.core.ledger;
        SoFar {
            received: ledger.received,
            sent: ledger.sent,
            replicated: ledger.replicated,
            passes: ledger.resubmitted + ledger.recirculated,
            held: self.core.held(),
        }
    }

    /// Leaves what it has to tell for the device, unless that reads right now.
    pub fn tell(&mut self) {
        if let Ok(mut papers) = self.desk.papers.try_lock() {
            papers.fill(&mut self.core);
            self.told = self.so_far();
        }
    }
}

/// Between two looks at what the device does, which is soon over unless its thread needs this core.
fn let_device_go_on(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    match *looks % 64 {
        0 => std::thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

impl Drop for Worker {
    /// What the worker has done stays in the device's ledger, and what it has to tell with the device.
    fn drop(&mut self) {
        self.desk.papers().fill(&mut self.core);
    }
}

impl Device {
    /// Workers for this device's packets, which from now on go through them. The device itself goes on to be the control side; packets that it takes in
    /// itself (traced ones, those of a controller) are processed as before. Workers are made once; later calls give none.
    pub fn workers(&mut self, count: usize) -> Vec<Worker> {
        let bells = (0..count).map(|_| Arc::default());
        self.workers_with(bells.collect(), Marks::of(0))
    }

    /// [`Device::workers`], one for each of these bells: of threads that run workers of several devices, which tell this one by its mark.
    pub fn workers_with(&mut self, bells: Vec<Arc<Bell>>, mark: Marks) -> Vec<Worker> {
        let count = bells.len();
        if self.office.is_some() || count == 0 {
            return Vec::new();
        }
        // One lane is the device's own.
        self.configuration.set_lanes(count + 1);
        self.is_stale = true;
        self.publish();
        let published = Published {
            root: Arc::clone(&self.root),
            queues: self.core.queues.configured(),
        };
        let desk = |bell| Arc::new(Desk::new(published.clone(), bell));
        let office = Arc::new(Office {
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

    /// Changes cells (counters, meters, registers) together with all that was changed since the last [`Device::publish`], and publishes it: every packet
    /// that a worker takes sees the whole or nothing of it. Packets wait for no longer than the bursts that are under way and `change` take, so `change`
    /// should do no more than it must; if it fails it has to leave cells as they were, and nothing is published. Packets that wait in queues then, or
    /// that start over, go on with the tables that they began with, and see the cells as they are.
    ///
    /// If workers of the same threads were held less than 50 us ago, this device's or another's, it waits until that is past: packets go on meanwhile.
    ///
    /// # Errors
    /// A worker's thread does not run. Nothing was done.
    pub fn between_bursts<T, E>(
        &mut self,
        change: impl FnOnce(&mut Device) -> Result<T, E>,
    ) -> Result<Result<T, E>, Stuck> {
        let office = self.office.clone();
        // Tables keep the snapshot, so that it is not made while packets wait.
        drop(self.configuration.snapshot());
        let held = office.as_ref().map(|office| office.hold()).transpose()?;
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

    fn worker(&self, number: usize, office: &Arc<Office>) -> Worker {
        // Random numbers depend on the seed, the worker and the packet's number among those of the worker.
        let seed = self.core.owner.seed.wrapping_add((number as u64 + 1) << 48);
        let mut core = Core::new(seed, self.core.queues.default_config());
        core.keep_contexts_of(&self.root.code);
        core.owner.lane = Lane::new(number as u32 + 1);
        core.handover = Some(Handover {
            office: Arc::clone(office),
            own: Some(number),
        });
        Worker {
            core,
            root: Arc::clone(&self.root),
            runs: self.root.runs(),
            version: 0,
            told: SoFar::default(),
            office: Arc::clone(office),
            desk: Arc::clone(&office.desks[number]),
        }
    }
}

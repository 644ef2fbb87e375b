//! Shared bursts: packets of several devices that run the same code are processed in one call, in
//! the order of arrival. The fixed cost of a burst is paid once, and cache misses of all packets
//! overlap. Each device sees and counts its packets as if they had been forwarded alone.

use std::sync::Arc;

use exec::{BURST, Burst, BurstSegment, CompiledFastPath, PackedOutcome, PacketContext};
use packet::{Frame, Nanos, PortId};
use smallvec::SmallVec;

use crate::contexts::Contexts;
use crate::packet_sink::PacketSink;
use crate::worker::Worker;

/// Set of the workers of a thread, by number.
pub trait WorkerSet {
    /// Number of a worker.
    type Number: Copy + PartialEq;

    /// Returns the worker of this number, if there is one.
    fn worker(&self, number: Self::Number) -> Option<&Worker>;

    /// Returns the worker of this number for writing, if there is one.
    fn worker_mut(&mut self, number: Self::Number) -> Option<&mut Worker>;

    /// Returns the number of rounds that may start for a packet of this worker that recirculates.
    fn passes(&self, number: Self::Number) -> u32;
}

/// Progress of a shared burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstProgress {
    /// Number of packets processed.
    pub frames: usize,
    /// True if the last of these exited the fast path. Its worker must be checked again before its
    /// packets join a shared burst.
    pub has_left: bool,
}

impl BurstProgress {
    /// No packet was processed.
    const NONE: BurstProgress = BurstProgress {
        frames: 0,
        has_left: false,
    };
}

/// Consecutive frames of one worker in a shared burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRun<N> {
    /// Number of the worker.
    pub whose: N,
    /// Number of frames, at least one.
    pub frames: usize,
}

/// Forwards frames of several workers of one thread in one call, in this order, as
/// [`Worker::forward_among`] does. `runs` assigns the frames to workers.
///
/// All workers must run the same code ([`Worker::runs`]) and may join ([`Worker::may_join`]). At
/// most [`BURST`] frames are processed. Processing stops after a packet that exits the fast path or
/// has written a digest or message. Transmitted packets are passed to `sent`, with the value of
/// `way` for their worker.
pub fn forward_shared_burst<C: WorkerSet, W: Copy>(
    companions: &mut C,
    runs: &[SegmentRun<C::Number>],
    contexts: &mut Contexts,
    (frames, order): (&mut [Frame], &[u32]),
    now: Nanos,
    way: impl Fn(C::Number) -> W,
    mut sent: impl FnMut(W, PortId, &mut Frame, Nanos),
) -> BurstProgress {
    let runs = &runs[..runs.len().min(BURST)];
    let Some((function, mut context)) = borrow(companions, runs, contexts) else {
        return BurstProgress::NONE;
    };
    let mut outcomes = contexts.take_outcomes();
    let count = runs.iter().map(|run| run.frames).sum::<usize>();
    let count = count.min(order.len()).min(outcomes.len());
    // Clears outcomes of the previous burst, which must not be taken for those of this one.
    outcomes[..count].fill(PackedOutcome::default());
    let burst = (&mut *frames, order, &mut outcomes[..count], now);
    let done = run(companions, runs, &function, &mut context, burst);
    count_all(companions, runs, now, done);
    let (mut last, mut left) = (runs[0].whose, None);
    let mut gone = outcomes[..done].iter().zip(order);
    for run in runs {
        let way = way(run.whose);
        for (outcome, frame) in gone.by_ref().take(run.frames) {
            last = run.whose;
            if let Some(port) = outcome.sent() {
                sent(way, port, &mut frames[*frame as usize], now);
            } else if let Some(Worker { core, .. }) = companions.worker_mut(last) {
                core.ledger.sent -= 1;
                left = core.account_unsent(*outcome);
            }
        }
    }
    // Kept in a separate function, because most bursts do not need it.
    if left.is_some() || context.has_told() {
        let way = way(last);
        let sent = &mut |port, frame: &mut Frame, time| sent(way, port, frame, time);
        take_on(companions, last, left, &mut context, sent);
    }
    contexts.put_outcomes_back(outcomes);
    give_back(companions, runs, contexts, context, function);
    BurstProgress {
        frames: done,
        has_left: left.is_some(),
    }
}

/// Continues with the last processed packet, of this worker, after it exited the fast path or wrote
/// a digest or message.
#[cold]
fn take_on<C: WorkerSet>(
    companions: &mut C,
    whose: C::Number,
    left: Option<(u32, PortId)>,
    context: &mut Box<PacketContext>,
    sent: &mut impl PacketSink,
) {
    let passes = companions.passes(whose);
    if let Some(Worker { core, root, .. }) = companions.worker_mut(whose) {
        core.passes_left = Some(passes);
        core.take_on(root, left, context, sent);
    }
}

/// Counts the packets of the runs, of which `went` were processed. All are counted as sent, the
/// most common outcome, so that nothing has to be counted for each packet.
fn count_all<C: WorkerSet>(
    companions: &mut C,
    runs: &[SegmentRun<C::Number>],
    now: Nanos,
    mut went: usize,
) {
    for run in runs {
        let through = went.min(run.frames);
        went -= through;
        if let Some(Worker { core, .. }) = companions.worker_mut(run.whose) {
            core.now = core.now.max(now);
            core.ledger.received += through as u64;
            core.ledger.sent += through as u64;
            core.packets.take_back((run.frames - through) as u64);
        }
    }
}

/// Processes frames until one exits the fast path or has written a digest or message. Returns the
/// number processed. All frames get packet numbers, also those not processed.
#[inline(always)]
fn run<C: WorkerSet>(
    companions: &C,
    runs: &[SegmentRun<C::Number>],
    function: &Arc<dyn CompiledFastPath>,
    context: &mut PacketContext,
    (frames, order, outcomes, now): (&mut [Frame], &[u32], &mut [PackedOutcome], Nanos),
) -> usize {
    let count = outcomes.len();
    // Built in place: returned from a function, the whole array would be copied.
    let mut lots: SmallVec<[BurstSegment<'_>; BURST]> = SmallVec::new();
    let mut are_there = true;
    for run in runs {
        match companions.worker(run.whose) {
            Some(Worker { core, .. }) => lots.push(core.lot(run.frames)),
            None => are_there = false,
        }
    }
    if !are_there {
        return 0;
    }
    let mut burst = Burst {
        frames,
        order: &order[..count],
        outcomes,
        now,
        segments: &lots,
    };
    function.run(&mut burst, context).min(count)
}

/// Returns the common fast path and a context for it.
fn borrow<C: WorkerSet>(
    companions: &mut C,
    runs: &[SegmentRun<C::Number>],
    contexts: &mut Contexts,
) -> Option<(Arc<dyn CompiledFastPath>, Box<PacketContext>)> {
    let first = companions.worker_mut(runs.first()?.whose)?;
    let Worker {
        core, root, runs, ..
    } = first;
    // Taken out while it runs: cloning the `Arc` would make workers on several cores contend for
    // its reference count.
    let function = runs.take()?;
    let context = core.borrow(Some(contexts), &function, root);
    Some((function, context))
}

/// Gives back what [`borrow`] took. Inlined into its only caller, so that the function pointer
/// stays in place until it is given back.
#[inline(always)]
fn give_back<C: WorkerSet>(
    companions: &mut C,
    runs: &[SegmentRun<C::Number>],
    contexts: &mut Contexts,
    context: Box<PacketContext>,
    function: Arc<dyn CompiledFastPath>,
) {
    let Some(Worker {
        core, root, runs, ..
    }) = companions.worker_mut(runs[0].whose)
    else {
        return;
    };
    core.give_back(context, Some(contexts), &function, root);
    *runs = Some(function);
}

//! Packets of several devices that run the same code go through it together, in the order in which they came: what a burst costs beside its packets is paid
//! once, and all of them wait for memory together. Each device sees and counts its own as if they had come alone.

use std::sync::Arc;

use exec::{BURST, Burst, Fused, Lot, PackedOutcome, PacketContext};
use packet::{Frame, Nanos, PortId};

use crate::contexts::Contexts;
use crate::worker::Worker;

/// The workers of a thread, by numbers.
pub trait Companions {
    /// What tells them apart.
    type Number: Copy + PartialEq;

    /// The worker of this number, if there is one.
    fn worker(&self, number: Self::Number) -> Option<&Worker>;

    /// The same.
    fn worker_mut(&mut self, number: Self::Number) -> Option<&mut Worker>;

    /// How many passes one of its packets may begin that starts over.
    fn passes(&self, number: Self::Number) -> u32;
}

/// How far packets went that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Through {
    /// How many are through.
    pub frames: usize,
    /// Whether the last of these left its pass: it is to be asked anew of its worker whether packets may go together with others'.
    pub has_left: bool,
}

impl Through {
    /// None is.
    const NONE: Through = Through {
        frames: 0,
        has_left: false,
    };
}

/// Frames of one worker, one behind the other in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<N> {
    /// The worker's number.
    pub whose: N,
    /// How many they are: one at least.
    pub frames: usize,
}

/// [`Worker::forward_among`] for some of these frames, in this order, of several workers of one thread: whose they are, `runs` say. All of them run the same ([`Worker::runs`]) and may go
/// together ([`Worker::may_join`]); at most [`BURST`] frames go. Those behind one that has left its pass, or told something, do not go any more. What leaves is given to `sent`, with what `way` says of its worker.
pub fn forward_together<C: Companions, W: Copy>(
    companions: &mut C,
    runs: &[Run<C::Number>],
    contexts: &mut Contexts,
    frames: (&mut [Frame], &[u32]),
    now: Nanos,
    way: impl Fn(C::Number) -> W,
    sent: impl FnMut(W, PortId, &mut Frame, Nanos),
) -> Through {
    match runs.len() {
        // Less is to be written for few, and for one packet least of all: most that nobody lets wait come alone.
        1 if runs[0].frames == 1 => {
            forward::<1, 1, C, W>(companions, runs, contexts, frames, now, way, sent)
        }
        0 | 1 => forward::<1, BURST, C, W>(companions, runs, contexts, frames, now, way, sent),
        2..=FEW => forward::<FEW, BURST, C, W>(companions, runs, contexts, frames, now, way, sent),
        _ => forward::<BURST, BURST, C, W>(companions, runs, contexts, frames, now, way, sent),
    }
}

/// Runs of most bursts.
const FEW: usize = 8;

/// The same of so many runs and frames, at most. Not part of [`forward_together`]: what is kept of many would be room that few take, too.
#[inline(never)]
fn forward<const MOST: usize, const FRAMES: usize, C: Companions, W: Copy>(
    companions: &mut C,
    runs: &[Run<C::Number>],
    contexts: &mut Contexts,
    (frames, order): (&mut [Frame], &[u32]),
    now: Nanos,
    way: impl Fn(C::Number) -> W,
    mut sent: impl FnMut(W, PortId, &mut Frame, Nanos),
) -> Through {
    let runs = &runs[..runs.len().min(MOST)];
    let Some((function, mut context)) = borrow(companions, runs, contexts) else {
        return Through::NONE;
    };
    let outcomes = &mut [PackedOutcome::default(); FRAMES];
    let burst = (&mut *frames, order, &mut outcomes[..], now);
    let done = run::<MOST, C>(companions, runs, &function, &mut context, burst);
    let mut ways = [way(runs[0].whose); MOST];
    for (run, way_out) in runs.iter().zip(&mut ways) {
        *way_out = way(run.whose);
    }
    let numbers = match MOST {
        1 => [0; 2 * BURST],
        _ => numbers(runs),
    };
    let mut sent_until = [0u32; MOST];
    let (mut number, mut all, mut left) = (0, 0, None);
    for ((outcome, frame), whose) in outcomes.iter().zip(&order[..done]).zip(&numbers) {
        number = usize::from(*whose);
        if let Some(port) = outcome.sent() {
            all += 1;
            sent(ways[number], port, &mut frames[*frame as usize], now);
        } else {
            let worker = companions.worker_mut(runs[number].whose);
            left = worker.and_then(|worker| worker.core.account_unsent(*outcome));
        }
        // To count here would have each frame wait for what the one before it has written.
        sent_until[number] = all;
    }
    let (mut begin, mut before) = (0, 0);
    for (run, until) in runs.iter().zip(sent_until) {
        let through = done.saturating_sub(begin).min(run.frames) as u64;
        begin += run.frames;
        // Of runs that no frame of went there is nothing.
        let sent = until.saturating_sub(before);
        before += sent;
        if let Some(Worker { core, .. }) = companions.worker_mut(run.whose) {
            core.now = core.now.max(now);
            core.packets -= run.frames as u64 - through;
            core.ledger.received += through;
            core.ledger.sent += u64::from(sent);
        }
    }
    let passes = companions.passes(runs[number].whose);
    if done > 0
        && let Some(Worker { core, root, .. }) = companions.worker_mut(runs[number].whose)
    {
        core.passes_left = Some(passes);
        let way = ways[number];
        let sent = &mut |port, frame: &mut Frame, time| sent(way, port, frame, time);
        core.take_on(root, left, &mut context, sent);
    }
    give_back(companions, runs, contexts, context, function);
    Through {
        frames: done,
        has_left: left.is_some(),
    }
}

/// The number of each frame's run. Each run is written down for all frames from its first one on, and the next one over it: how long runs are cannot be foreseen.
fn numbers<N>(runs: &[Run<N>]) -> [u8; 2 * BURST] {
    let mut numbers = [0; 2 * BURST];
    let mut begin = 0;
    for (run, number) in runs.iter().zip(0..) {
        if let Some(frames) = numbers[begin..].first_chunk_mut() {
            *frames = [number; BURST];
        }
        begin = (begin + run.frames).min(BURST);
    }
    numbers
}

// A run's number fits.
const _: () = assert!(BURST <= 1 << u8::BITS);

/// Takes frames, of so many runs at most, through the function until one has left it or told something; how many are through.
fn run<const MOST: usize, C: Companions>(
    companions: &mut C,
    runs: &[Run<C::Number>],
    function: &Arc<dyn Fused>,
    context: &mut PacketContext,
    (frames, order, outcomes, now): (&mut [Frame], &[u32], &mut [PackedOutcome], Nanos),
) -> usize {
    let mut firsts = [0; MOST];
    let mut count = 0;
    for (run, first) in runs.iter().zip(&mut firsts) {
        if let Some(Worker { core, .. }) = companions.worker_mut(run.whose) {
            *first = core.packets + 1;
            core.packets += run.frames as u64;
        }
        count += run.frames;
    }
    let count = count.min(outcomes.len()).min(order.len());
    let Some(first) = companions.worker(runs[0].whose) else {
        return 0;
    };
    let mut lots = [first.lot(0, 0); MOST];
    for ((run, lot), first) in runs.iter().zip(&mut lots).zip(firsts) {
        if let Some(worker) = companions.worker(run.whose) {
            lot.frames = run.frames;
            lot.first_packet = first;
            lot.state = &worker.root.state;
            lot.owner = &worker.core.owner;
        }
    }
    let mut burst = Burst {
        frames,
        order: &order[..count],
        outcomes: &mut outcomes[..count],
        now,
        lots: &lots[..runs.len()],
    };
    function.run(&mut burst, context).min(count)
}

/// The function that all run, and a context of it.
fn borrow<C: Companions>(
    companions: &mut C,
    runs: &[Run<C::Number>],
    contexts: &mut Contexts,
) -> Option<(Arc<dyn Fused>, Box<PacketContext>)> {
    let first = companions.worker_mut(runs.first()?.whose)?;
    let Worker {
        core, root, runs, ..
    } = first;
    // It is taken out while it runs: to count who has it would have workers on several cores wait for each other.
    let function = runs.take()?;
    let context = core.borrow(Some(contexts), &function, &root.code);
    Some((function, context))
}

/// Gives back what [`borrow`] took. Part of its only caller, so that the function stays where it is until it goes back in one piece.
#[inline(always)]
fn give_back<C: Companions>(
    companions: &mut C,
    runs: &[Run<C::Number>],
    contexts: &mut Contexts,
    context: Box<PacketContext>,
    function: Arc<dyn Fused>,
) {
    let Some(Worker {
        core, root, runs, ..
    }) = companions.worker_mut(runs[0].whose)
    else {
        return;
    };
    core.give_back(context, Some(contexts), &function, &root.code);
    *runs = Some(function);
}

impl Worker {
    #[inline(always)]
    fn lot(&self, frames: usize, first_packet: u64) -> Lot<'_> {
        Lot {
            frames,
            first_packet,
            state: &self.root.state,
            owner: &self.core.owner,
        }
    }
}

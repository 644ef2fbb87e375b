//! Packets of several devices that run the same code go through it together, in the order in which they came: what a burst costs beside its packets is paid
//! once, and all of them wait for memory together. Each device sees and counts its own as if they had come alone.

use std::sync::Arc;

use exec::{BURST, Burst, Fused, Lot, PackedOutcome, PacketContext};
use packet::{Frame, Nanos, PortId};
use smallvec::SmallVec;

use crate::contexts::Contexts;
use crate::leave::Leave;
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
    (frames, order): (&mut [Frame], &[u32]),
    now: Nanos,
    way: impl Fn(C::Number) -> W,
    mut sent: impl FnMut(W, PortId, &mut Frame, Nanos),
) -> Through {
    let runs = &runs[..runs.len().min(BURST)];
    let Some((function, mut context)) = borrow(companions, runs, contexts) else {
        return Through::NONE;
    };
    let mut outcomes = contexts.take_outcomes();
    let count = runs.iter().map(|run| run.frames).sum::<usize>();
    let count = count.min(order.len()).min(outcomes.len());
    // Of packets before: what became of those is not to be taken for what becomes of these.
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
    // Most that nobody lets wait come alone: what few of them need is a function of its own.
    if left.is_some() || context.has_told() {
        let way = way(last);
        let sent = &mut |port, frame: &mut Frame, time| sent(way, port, frame, time);
        take_on(companions, last, left, &mut context, sent);
    }
    contexts.put_outcomes_back(outcomes);
    give_back(companions, runs, contexts, context, function);
    Through {
        frames: done,
        has_left: left.is_some(),
    }
}

/// Goes on with the last packet that went, of this worker, which has left its pass or told something.
#[cold]
fn take_on<C: Companions>(
    companions: &mut C,
    whose: C::Number,
    left: Option<(u32, PortId)>,
    context: &mut Box<PacketContext>,
    sent: &mut impl Leave,
) {
    let passes = companions.passes(whose);
    if let Some(Worker { core, root, .. }) = companions.worker_mut(whose) {
        core.passes_left = Some(passes);
        core.take_on(root, left, context, sent);
    }
}

/// Counts the packets of runs of which so many went: as sent, as most are, so that nothing is to be counted for each.
fn count_all<C: Companions>(
    companions: &mut C,
    runs: &[Run<C::Number>],
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

/// Takes frames through the function until one has left it or told something; how many are through. Their packets have numbers then, and those behind them have, too.
#[inline(always)]
fn run<C: Companions>(
    companions: &C,
    runs: &[Run<C::Number>],
    function: &Arc<dyn Fused>,
    context: &mut PacketContext,
    (frames, order, outcomes, now): (&mut [Frame], &[u32], &mut [PackedOutcome], Nanos),
) -> usize {
    let count = outcomes.len();
    // What is made elsewhere would be moved here with all the room that it has.
    let mut lots: SmallVec<[Lot<'_>; BURST]> = SmallVec::new();
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
        lots: &lots,
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
    let context = core.borrow(Some(contexts), &function, root);
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
    core.give_back(context, Some(contexts), &function, root);
    *runs = Some(function);
}

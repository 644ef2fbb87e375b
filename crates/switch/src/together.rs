//! Packets of several devices that run the same code go through it together: what a burst costs beside its packets is paid once, and all of them wait for
//! memory together. Each device sees and counts its own as if they had come alone.

use exec::{BURST, Burst, Lot, PackedOutcome};
use packet::{Frame, Nanos, PortId};

use crate::contexts::Contexts;
use crate::worker::Worker;

/// Workers whose packets go together, at most.
pub const MOST_TOGETHER: usize = 16;

/// One of several workers whose packets go together.
pub trait Companion {
    /// The worker.
    fn worker(&self) -> &Worker;

    /// The same.
    fn worker_mut(&mut self) -> &mut Worker;

    /// How many of the frames are its own.
    fn frames(&self) -> usize;

    /// How many passes may begin beside the first ones of its frames.
    fn passes(&self) -> u32;
}

/// [`Worker::forward_among`] for several workers of one thread, each with its own part of `frames`, in their order; `sent` is told whose packet it is, by
/// its place in `companions`. They go together as far as they run the same ([`Worker::runs_as`]), nothing waits in them, and there are no more than
/// [`MOST_TOGETHER`] of them with [`BURST`] frames.
pub fn forward_together(
    companions: &mut [impl Companion],
    contexts: &mut Contexts,
    frames: &mut [Frame],
    now: Nanos,
    sent: &mut impl FnMut(usize, PortId, &mut Frame, Nanos),
) {
    Worker::take_in_hand_together(companions, now);
    let mut done = match may_go_together(companions, frames.len()) {
        true => run(companions, contexts, frames, sent),
        false => 0,
    };
    let mut rest = frames;
    for (number, companion) in companions.iter_mut().enumerate() {
        let count = companion.frames().min(rest.len());
        let (own, others) = rest.split_at_mut(count);
        let through = done.min(count);
        let worker = companion.worker_mut();
        match &mut own[through..] {
            // Nothing waits to be sent: the program is not looked at again.
            [] if through > 0 => worker.rest(),
            own => {
                let sent = &mut |port, frame: &mut Frame, time| sent(number, port, frame, time);
                worker.finish(own, now, Some(&mut *contexts), sent);
            }
        }
        done -= through;
        rest = others;
    }
}

fn may_go_together(companions: &[impl Companion], frames: usize) -> bool {
    let Some(first) = companions.first().map(Companion::worker) else {
        return false;
    };
    let mut workers = companions.iter().map(Companion::worker);
    frames <= BURST
        && companions.len() <= MOST_TOGETHER
        && workers.all(|worker| worker.runs_as(first) && worker.is_at_leisure(first.core.now))
}

/// Takes frames through the code of all companions, until one has left it or told something; how many are through.
fn run(
    companions: &mut [impl Companion],
    contexts: &mut Contexts,
    frames: &mut [Frame],
    sent: &mut impl FnMut(usize, PortId, &mut Frame, Nanos),
) -> usize {
    let Some(first) = companions.first_mut() else {
        return 0;
    };
    let Worker {
        core, root, runs, ..
    } = first.worker_mut();
    let now = core.now;
    // It is taken out while it runs: to count who has it would have workers on several cores wait for each other.
    let Some(function) = runs.take() else {
        return 0;
    };
    let mut context = core.borrow(Some(&mut *contexts), &function, &root.code);
    for companion in &mut *companions {
        let Worker { core, root, .. } = companion.worker_mut();
        core.make_ready(root, &*function);
    }
    let outcomes = &mut [PackedOutcome::default(); BURST][..frames.len()];
    let mut lots = [lot(&companions[0]); MOST_TOGETHER];
    for (at, companion) in lots.iter_mut().zip(&*companions).skip(1) {
        *at = lot(companion);
    }
    let mut burst = Burst {
        frames: &mut *frames,
        outcomes,
        now,
        lots: &lots[..companions.len()],
    };
    let done = function.run(&mut burst, &mut context).min(frames.len());
    let mut end = 0;
    for (number, companion) in companions.iter_mut().enumerate() {
        let own = end..done.min(end + companion.frames());
        end = own.end;
        let sent = &mut |port, frame: &mut Frame, time| sent(number, port, frame, time);
        let Worker { core, root, .. } = companion.worker_mut();
        let left = core.account(&mut frames[own.clone()], &outcomes[own], sent);
        if end == done {
            core.take_on(root, left, &mut context, sent);
            break;
        }
    }
    if let Some(first) = companions.first_mut() {
        let Worker {
            core, root, runs, ..
        } = first.worker_mut();
        core.give_back(context, Some(contexts), &function, &root.code);
        *runs = Some(function);
    }
    done
}

fn lot(companion: &impl Companion) -> Lot<'_> {
    let Worker { core, root, .. } = companion.worker();
    core.lot(root, companion.frames())
}

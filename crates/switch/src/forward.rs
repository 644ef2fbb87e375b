//! Frames in, frames out: bursts through a program's pass, and the device's own code for the packets that leave it.

use std::sync::Arc;

use exec::{Burst, PackedOutcome, PacketContext, PassOutcome};
use packet::{Frame, Nanos, PortId};

use crate::arch;
use crate::contexts::Contexts;
use crate::core::{Code, Core, FusedPass, Job, Root, Trace};
use crate::device::Device;

impl Device {
    /// Takes frames in, each from its own port, processes them and all else that is due by `now`, and gives each packet that left to `sent`: its port,
    /// its frame, which may be swapped for another, when it left. What stays in `frames` counts no more.
    ///
    /// The same as [`Device::receive`] of each, [`Device::step`] and [`Device::drain_sent`], but faster: frames are not copied, and where the engine fuses
    /// the program's [`exec::Pass`], packets on their usual way need no context.
    pub fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.publish();
        self.begin_step(now, &mut Trace(None));
        self.core.run_arrived(&mut Trace(None));
        self.core.forward(&self.root, frames, None, &mut sent);
        self.tell_learned();
    }
}

impl Core {
    /// Sends what is to be sent, then takes frames through the program, at the time of the step that has begun. When passes run out, those behind
    /// wait.
    pub(crate) fn forward(
        &mut self,
        root: &Arc<Root>,
        frames: &mut [Frame],
        lent: Option<&mut Contexts>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.take_sent(sent);
        match &root.code.fused {
            Some(fused) if self.queues.is_usually_free() => {
                self.forward_fused(root, fused, frames, lent, sent);
            }
            _ => self.forward_one_by_one(root, frames, &mut Trace(None), sent),
        }
    }

    /// Takes frames through the program one after the other.
    pub(crate) fn forward_one_by_one(
        &mut self,
        root: &Arc<Root>,
        frames: &mut [Frame],
        trace: &mut Trace<'_>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut done = 0;
        while done < frames.len() && !self.is_behind() {
            let mut job = self.job_of(root, &mut frames[done], self.now);
            done += 1;
            self.ledger.received += 1;
            self.begin(&mut job);
            arch::ingress(self, job, trace);
            self.drain(self.now, trace);
            self.take_sent(sent);
        }
        self.keep_waiting(root, &mut frames[done..], self.now);
    }

    fn forward_fused(
        &mut self,
        root: &Arc<Root>,
        fused: &FusedPass,
        frames: &mut [Frame],
        mut lent: Option<&mut Contexts>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if frames.is_empty() {
            return;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        outcomes.clear();
        outcomes.resize(frames.len(), PackedOutcome::default());
        let mut context = self.borrow(lent.as_deref_mut(), &root.code);
        context.lane = self.lane;
        let mut done = 0;
        while done < frames.len() && !self.is_behind() {
            let from = done;
            self.queues.busy(self.now, &mut self.busy_ports);
            let mut burst = Burst {
                frames,
                outcomes: &mut outcomes,
                now: self.now,
                busy_ports: &self.busy_ports,
                seed: self.seed,
                first_packet: self.packets + 1,
                work: root.work,
            };
            let end = fused.run.run(&mut burst, from, &mut context, &root.state);
            // An engine that does nothing would never end.
            done = end.clamp(from + 1, frames.len());
            self.packets += (done - from) as u64;
            self.ledger.received += (done - from) as u64;
            self.collect(&root.code.program, &mut context, &mut Trace(None));
            let Some(last) = self.account(&mut frames[from..done], &outcomes[from..done], sent)
            else {
                continue;
            };
            let ingress = context.bytes.ingress;
            let packet = std::mem::replace(&mut context, self.context(&root.code));
            context.lane = self.lane;
            let mut job = Job::arrived(root, packet, ingress);
            let (step, resume) = fused.plan.resume(last.0);
            job.step = step;
            arch::resume(self, job, resume, last.1, &mut Trace(None));
            self.drain(self.now, &mut Trace(None));
            self.take_sent(sent);
        }
        self.keep_waiting(root, &mut frames[done..], self.now);
        self.give_back(context, lent, &root.code);
        self.outcomes = outcomes;
    }

    /// A context that is lent, or one of its own.
    fn borrow(&mut self, lent: Option<&mut Contexts>, code: &Code) -> Box<PacketContext> {
        let derived = &mut self.derived;
        let lent = lent.and_then(|lent| lent.take(code, derived));
        lent.unwrap_or_else(|| self.context(code))
    }

    fn give_back(&mut self, context: Box<PacketContext>, lent: Option<&mut Contexts>, code: &Code) {
        let kept = match lent {
            Some(lent) => lent.put_back(context, code, &mut self.derived),
            None => Err(context),
        };
        if let Err(context) = kept {
            self.put_back(context, code);
        }
    }

    /// Sends and drops what went through; the step and the port of the packet that left its pass, if the last one has.
    fn account(
        &mut self,
        frames: &mut [Frame],
        outcomes: &[PackedOutcome],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> Option<(u32, PortId)> {
        let (now, mut count, mut left) = (self.now, 0, None);
        for (frame, outcome) in frames.iter_mut().zip(outcomes) {
            match outcome.unpack() {
                PassOutcome::Sent(port) => {
                    count += 1;
                    sent(port, frame, now);
                }
                PassOutcome::Dropped(reason) => self.ledger.drop(reason),
                PassOutcome::Left { step, egress } => left = Some((step, egress)),
                // Engines give every frame an outcome; one that has none is accounted for all the same.
                PassOutcome::Waiting => self.ledger.drop(exec::DropReason::Aborted),
            }
        }
        self.ledger.sent += count;
        left
    }

    /// Gives what has left to `sent`.
    pub(crate) fn take_sent(&mut self, sent: &mut impl FnMut(PortId, &mut Frame, Nanos)) {
        while let Some(mut gone) = self.sent.pop_front() {
            sent(gone.port, &mut gone.packet.bytes, gone.time);
            self.put_back(gone.packet, &gone.root.code);
        }
    }
}

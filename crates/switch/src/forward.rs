//! Forwarding of bursts: the compiled fast path of a program, and the general code for packets that
//! exit it.

use std::sync::Arc;

use exec::{
    BURST, Burst, BurstSegment, CompiledFastPath, DeviceView, IDENTITY_ORDER, PackedOutcome,
    PacketContext, PassOutcome,
};
use packet::{Frame, Nanos, PortId};

use crate::arch;
use crate::contexts::Contexts;
use crate::core::{Core, DataPlaneSnapshot, FusedPass, InFlightPacket, Trace};
use crate::device::Device;
use crate::packet_sink::PacketSink;

impl Device {
    /// Receives frames at their ingress ports, and processes them and everything else due by `now`.
    /// Passes each sent packet to `sent`: its port, its frame, which may be swapped for another,
    /// and its time. The contents of `frames` are unspecified afterwards.
    ///
    /// Equivalent to [`Device::receive`] of each frame, [`Device::step`] and
    /// [`Device::drain_sent`], but faster. Frames are not copied, and packets on a compiled fast
    /// path ([`exec::Pass`]) need no context.
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
    /// Sends waiting packets, then processes frames at the time of the current step. If the allowed
    /// rounds are used up, the remaining frames wait.
    pub(crate) fn forward(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        frames: &mut [Frame],
        lent: Option<&mut Contexts>,
        sent: &mut impl PacketSink,
    ) {
        self.take_sent(sent);
        match &root.code.fused {
            Some(fused) if self.queues.is_usually_free() => {
                self.forward_fused(root, fused, frames, lent, sent);
            }
            _ => self.forward_one_by_one(root, frames, &mut Trace(None), sent),
        }
    }

    /// Processes frames one after the other, without the fast path.
    pub(crate) fn forward_one_by_one(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        frames: &mut [Frame],
        trace: &mut Trace<'_>,
        sent: &mut impl PacketSink,
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
        root: &Arc<DataPlaneSnapshot>,
        fused: &FusedPass,
        frames: &mut [Frame],
        mut lent: Option<&mut Contexts>,
        sent: &mut impl PacketSink,
    ) {
        if frames.is_empty() {
            return;
        }
        let run = root.run_of(fused);
        let mut context = self.borrow(lent.as_deref_mut(), run, root);
        let (mut done, mut most) = (0, BURST);
        while done < frames.len() && !self.is_behind() {
            let rest = &mut frames[done..];
            let count = rest.len().min(most);
            let some = &mut rest[..count];
            let outcomes = &mut [PackedOutcome::default(); BURST][..count];
            self.make_ready(root, &**run);
            let mut burst = Burst {
                frames: some,
                order: &IDENTITY_ORDER[..count],
                outcomes,
                now: self.now,
                segments: &[self.lot(count)],
            };
            let through = run.run(&mut burst, &mut context);
            // An engine that makes no progress would cause an endless loop.
            let through = through.clamp(1, count);
            self.packets.take_back((count - through) as u64);
            let left = self.account(&mut some[..through], outcomes, sent);
            self.take_on(root, left, &mut context, sent);
            done += through;
            // Prefetching for packets after one that exits or reports is wasted. So the burst size
            // shrinks when this happens often.
            most = match through < count {
                true => BURST.min(2 * through),
                false => BURST.min(2 * most),
            };
        }
        self.keep_waiting(root, &mut frames[done..], self.now);
        self.give_back(context, lent, run, root);
    }

    /// Prepares a burst: provides all that an engine must know of this device.
    pub(crate) fn make_ready(&mut self, root: &DataPlaneSnapshot, run: &dyn CompiledFastPath) {
        let DeviceView {
            derived,
            lane,
            work,
            busy_ports,
            ..
        } = &mut self.owner;
        self.queues.busy(self.now, busy_ports);
        run.derive(&root.state, *lane, derived);
        *work = root.work;
    }

    /// Returns the burst segment of this device's next `frames` frames, which get the next packet
    /// numbers. [`Core::make_ready`] must have been called.
    #[inline(always)]
    pub(crate) fn lot(&self, frames: usize) -> BurstSegment<'_> {
        BurstSegment {
            frames,
            first_packet: self.packets.give(frames as u64),
            owner: &self.owner,
        }
    }

    /// Returns a shared context, or one of this device. With a shared context nothing is read from
    /// the snapshot, which is out of the cache if many devices take turns.
    pub(crate) fn borrow(
        &mut self,
        lent: Option<&mut Contexts>,
        run: &Arc<dyn CompiledFastPath>,
        root: &DataPlaneSnapshot,
    ) -> Box<PacketContext> {
        let lent = lent.and_then(|lent| lent.take(run));
        lent.unwrap_or_else(|| self.context(&root.code))
    }

    pub(crate) fn give_back(
        &mut self,
        context: Box<PacketContext>,
        lent: Option<&mut Contexts>,
        run: &Arc<dyn CompiledFastPath>,
        root: &DataPlaneSnapshot,
    ) {
        let kept = match lent {
            Some(lent) => lent.put_back(context, run),
            None => Err(context),
        };
        if let Err(context) = kept {
            self.put_back(context, &root.code);
        }
    }

    /// Sends, drops and counts processed packets. If the last one exited the fast path, returns the
    /// step and the port.
    pub(crate) fn account(
        &mut self,
        frames: &mut [Frame],
        outcomes: &[PackedOutcome],
        sent: &mut impl PacketSink,
    ) -> Option<(u32, PortId)> {
        let outcomes = &outcomes[..frames.len()];
        let (mut done, mut unsent, mut left) = (0, 0, None);
        loop {
            done += sent.leave_sent(&mut frames[done..], &outcomes[done..], self.now);
            let Some(outcome) = outcomes.get(done) else {
                break;
            };
            left = self.account_unsent(*outcome);
            (done, unsent) = (done + 1, unsent + 1);
        }
        let received = frames.len() as u64;
        self.ledger.received += received;
        self.ledger.sent += received - unsent;
        left
    }

    /// Handles a packet that was not sent: drops it, or returns the step at which it exited and its
    /// port. Kept out of the loop over sent packets, which has no registers to spare for it.
    #[cold]
    pub(crate) fn account_unsent(&mut self, outcome: PackedOutcome) -> Option<(u32, PortId)> {
        match outcome.unpack() {
            PassOutcome::Dropped(reason) => self.ledger.drop(reason),
            PassOutcome::Left { step, egress } => return Some((step, egress)),
            // Engines give every frame an outcome. A frame without one is counted as a drop.
            PassOutcome::Sent(_) | PassOutcome::Waiting => {
                self.ledger.drop(exec::DropReason::Aborted);
            }
        }
        None
    }

    /// Collects the digests and messages of the last packet of a burst, and continues with it if it
    /// exited the fast path.
    pub(crate) fn take_on(
        &mut self,
        root: &Arc<DataPlaneSnapshot>,
        left: Option<(u32, PortId)>,
        context: &mut Box<PacketContext>,
        sent: &mut impl PacketSink,
    ) {
        // This is rare, and the code's data is out of the cache if many devices take turns. So it
        // is not read earlier.
        if context.has_told() {
            self.collect(&root.code.program, context, &mut Trace(None));
        }
        let Some((step, egress)) = left else {
            return;
        };
        let Some(fused) = &root.code.fused else {
            return;
        };
        let ingress = context.bytes.ingress;
        let packet = std::mem::replace(context, self.context(&root.code));
        let mut job = InFlightPacket::arrived(root, packet, ingress);
        let (step, resume) = fused.plan.resume(step);
        job.step = step;
        arch::resume(self, job, resume, egress, &mut Trace(None));
        self.drain(self.now, &mut Trace(None));
        self.take_sent(sent);
    }

    /// Passes transmitted packets to `sent`.
    pub(crate) fn take_sent(&mut self, sent: &mut impl PacketSink) {
        while let Some(mut gone) = self.sent.pop_front() {
            sent.leave(gone.port, &mut gone.packet.bytes, gone.time);
            self.put_back(gone.packet, &gone.root.code);
        }
    }
}

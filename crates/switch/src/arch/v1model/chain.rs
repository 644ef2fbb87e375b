//! Chains of programs ([`ir::Pipeline::steps`]): processing between one step and the next.
//!
//! Standard metadata is passed from step to step, except for the fields that only egress has (its
//! port, queue times and queue depths). Those are zero in every ingress. Each step's own metadata
//! starts at zero, because no other step accesses it.

use exec::{DropDetail, DropReason};
use ir::{BlockRole, FieldId, Layout, Program, StepId, StepNext};
use packet::PortId;

use super::{V1model, instance_type};
use crate::arch::fast_path::{FastPathBuilder, Resume};
use crate::core::{Core, InFlightPacket, PacketPath, Trace};
use crate::queue::QueueTimes;
use crate::snapshot_cell::SnapshotCell;

/// Steps of a chain. A program that is no chain has one step.
pub(super) struct Chain {
    steps: Vec<ChainStep>,
    /// Egress port selected by ingress, saved while the egress between two steps runs.
    kept_spec: SnapshotCell,
    /// Standard metadata that the next step inherits.
    carried: Vec<FieldId>,
}

struct ChainStep {
    next: Next,
    has_egress: bool,
}

/// Successor of a step.
enum Next {
    End,
    Step(StepId),
    Branch {
        arms: Vec<(SnapshotCell, StepId)>,
        otherwise: StepId,
    },
}

/// Name of the intrinsic field of [`Chain::kept_spec`].
const KEPT_SPEC: &str = "chain.egress_spec";

/// Names of the intrinsic fields that only egress has.
const OF_EGRESS: &[&str] = &[
    "standard_metadata.egress_port",
    "standard_metadata.egress_rid",
    "standard_metadata.enq_timestamp",
    "standard_metadata.enq_qdepth",
    "standard_metadata.deq_timedelta",
    "standard_metadata.deq_qdepth",
    "standard_metadata.egress_global_timestamp",
];

impl Chain {
    pub(super) fn of(program: &Program, layout: &Layout) -> Chain {
        let pipeline = &program.pipeline;
        let has_egress = |step: StepId| {
            let mut blocks = pipeline.blocks.iter();
            blocks.any(|block| block.step == step && block.role == BlockRole::Egress)
        };
        let next = |next: &StepNext| match next {
            StepNext::End => Next::End,
            StepNext::Step(step) => Next::Step(*step),
            StepNext::Branch { arms, otherwise } => Next::Branch {
                arms: arms
                    .iter()
                    .map(|(field, step)| (SnapshotCell::at(program, layout, *field), *step))
                    .collect(),
                otherwise: *otherwise,
            },
        };
        let steps = pipeline.steps.iter().map(|(id, step)| ChainStep {
            next: next(&step.next),
            has_egress: has_egress(id),
        });
        let is_carried = |name: &str| name != KEPT_SPEC && !OF_EGRESS.contains(&name);
        let intrinsics = pipeline.intrinsics.iter();
        Chain {
            steps: steps.collect(),
            kept_spec: SnapshotCell::of(program, layout, KEPT_SPEC),
            carried: intrinsics
                .filter(|(name, _)| is_carried(name))
                .map(|(_, field)| *field)
                .collect(),
        }
    }

    fn step(&self, id: StepId) -> Option<&ChainStep> {
        self.steps.get(id.get() as usize)
    }

    /// Returns true if another step follows for the packet. Clones leave the chain after the step
    /// that made them.
    pub(super) fn goes_on(&self, job: &InFlightPacket) -> bool {
        let is_clone = matches!(job.path, PacketPath::CloneI2E | PacketPath::CloneE2E);
        let step = self.step(job.step);
        !is_clone && step.is_some_and(|step| !matches!(step.next, Next::End))
    }

    /// Returns the next step, which may depend on the packet's fields.
    fn next(&self, job: &InFlightPacket) -> StepId {
        let frame = job.packet.frame();
        match self.step(job.step).map(|step| &step.next) {
            Some(Next::Step(step)) => *step,
            Some(Next::Branch { arms, otherwise }) => {
                let chosen = arms.iter().find(|(holds, _)| holds.get(frame) != 0);
                chosen.map_or(*otherwise, |(_, step)| *step)
            }
            Some(Next::End) | None => job.step,
        }
    }

    fn has_egress(&self, step: StepId) -> bool {
        self.step(step).is_some_and(|step| step.has_egress)
    }
}

impl V1model {
    /// Processes a packet from the end of a step's ingress to the next step, with an ideal queue.
    /// Returns the packet unless it has ended.
    pub(super) fn egress_between(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Option<InFlightPacket> {
        let is_multicast = self.mcast_grp.get(job.packet.frame()) != 0;
        if !is_multicast && self.is_to_drop(&job) {
            core.drop(job, DropReason::Ingress, DropDetail::None, trace);
            return None;
        }
        let now = job.packet.now;
        let frame = job.packet.frame_mut();
        self.instance_type.set(frame, instance_type::NORMAL);
        let spec = self.egress_spec.get(frame);
        let port = PortId(spec as u32);
        if !self.chain.has_egress(job.step) {
            return self.deparse(core, job, port, trace);
        }
        self.chain.kept_spec.set(frame, spec);
        let times = QueueTimes {
            enqueued: now,
            enqueue_depth: 0,
            dequeued: now,
            dequeue_depth: 0,
        };
        self.enter_egress(&mut job, port, times, trace);
        if let Err(reason) = core.control(&mut job, BlockRole::Egress, trace) {
            core.drop(job, reason, DropDetail::None, trace);
            return None;
        }
        self.egress_done(core, job, port, trace)
    }

    /// Runs the routing control, which decides about the next step, with the port that ingress
    /// selected.
    pub(super) fn route(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        if self.chain.goes_on(job) && self.chain.has_egress(job.step) {
            let frame = job.packet.frame_mut();
            let spec = self.chain.kept_spec.get(frame);
            self.egress_spec.set(frame, spec);
        }
        core.control(job, BlockRole::Route, trace)
    }

    /// Starts the next step with the deparsed packet.
    pub(super) fn go_on(&self, job: &mut InFlightPacket) {
        let next = self.chain.next(job);
        job.packet.requests = exec::Requests::default();
        let length = job.packet.bytes.len() as u64;
        let frame = job.packet.frame_mut();
        for slot in self.of_egress() {
            slot.set(frame, 0);
        }
        self.packet_length.set(frame, length);
        job.is_prepared = true;
        job.step = next;
    }

    /// Returns the fields of [`OF_EGRESS`].
    fn of_egress(&self) -> [SnapshotCell; OF_EGRESS.len()] {
        [
            self.egress_port,
            self.egress_rid,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.egress_timestamp,
        ]
    }

    /// Adds the fast path through all steps but the last, up to the last one's parser. Returns
    /// `None` for a chain with branches.
    pub(super) fn pass_between(&self, pass: &mut FastPathBuilder<'_>) -> Option<()> {
        let mut at = StepId::new(0);
        while let Some(step) = self.chain.step(at) {
            let next = match step.next {
                Next::Step(next) => next,
                Next::End => break,
                Next::Branch { .. } => return None,
            };
            self.pass_step(pass, step);
            let carried = self.chain.carried.iter();
            pass.carry(carried.map(|&field| (field, field)).collect());
            pass.enter(next);
            pass.set(self.packet_length, pass.length());
            at = next;
        }
        Some(())
    }

    fn pass_step(&self, pass: &mut FastPathBuilder<'_>, step: &ChainStep) {
        self.pass_ingress(pass);
        if step.has_egress {
            pass.copy(self.egress_spec, self.chain.kept_spec);
            self.pass_egress(pass, |pass, port| pass.copy(self.egress_spec, port));
        }
        pass.resume_at(Resume::EgressDone);
        pass.control(BlockRole::ComputeChecksum);
        if step.has_egress {
            pass.copy(self.chain.kept_spec, self.egress_spec);
        }
        pass.deparse(BlockRole::Deparser);
        pass.resume_at(Resume::AllDone);
        pass.leave_if_asked();
    }
}

//! Fast path of an architecture ([`exec::FastPath`]), and the positions at which its general code
//! continues with packets that exit it.

use exec::{DropReason, FastPath, FastPathPort, FastPathStep, FastPathTest, PassInput};
use ir::{BlockCode, BlockRole, Program, StepId};

use crate::snapshot_cell::SnapshotCell;

/// Position at which a packet continues after it exited the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Ingress has run, though perhaps not all of its rounds through the stage slots.
    IngressDone,
    /// The ingress deparser has run (PSA).
    IngressDeparsed,
    /// Egress has run, but not its deparser (v1model).
    EgressDone,
    /// All blocks have run.
    AllDone,
}

/// Fast path, and the positions at which packets that exit it continue.
pub(crate) struct FastPathPlan {
    pub(crate) pass: FastPath,
    /// For each step of the fast path: the chain's step and the position at which a packet
    /// continues.
    resumes: Vec<(StepId, Resume)>,
}

impl FastPathPlan {
    /// Returns the chain's step and the position at which a packet continues that exited at this
    /// step.
    pub(crate) fn resume(&self, step: u32) -> (StepId, Resume) {
        let last = self.resumes.len().saturating_sub(1);
        let at = (step as usize).min(last);
        let known = self.resumes.get(at).copied();
        known.unwrap_or((StepId::new(0), Resume::AllDone))
    }
}

/// Builder of a [`FastPathPlan`]. Steps for fields and blocks that the program does not have are
/// left out.
pub(super) struct FastPathBuilder<'p> {
    program: &'p Program,
    steps: Vec<FastPathStep>,
    resumes: Vec<(StepId, Resume)>,
    /// Current step of the chain.
    at: StepId,
    resume: Resume,
    is_whole: bool,
}

impl<'p> FastPathBuilder<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        FastPathBuilder {
            program,
            steps: Vec::new(),
            resumes: Vec::new(),
            at: StepId::new(0),
            resume: Resume::IngressDone,
            is_whole: true,
        }
    }

    /// Sets the position at which packets continue that exit at the following steps.
    pub(super) fn resume_at(&mut self, resume: Resume) {
        self.resume = resume;
    }

    /// Begins a step of the chain.
    pub(super) fn enter(&mut self, step: StepId) {
        self.at = step;
        self.resume = Resume::IngressDone;
    }

    fn step(&mut self, step: FastPathStep) {
        self.steps.push(step);
        self.resumes.push((self.at, self.resume));
    }

    pub(super) fn set(&mut self, slot: SnapshotCell, input: PassInput) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::Set(field, input));
        }
    }

    /// Copies a field. With fields of different types there is no fast path, because only the
    /// architecture's general code defines the result.
    pub(super) fn copy(&mut self, from: SnapshotCell, to: SnapshotCell) {
        if let (Some(from), Some(to)) = (from.field(), to.field()) {
            let fields = &self.program.fields;
            self.is_whole &= fields[from].ty == fields[to].ty;
            self.step(FastPathStep::Copy { from, to });
        }
    }

    /// Returns the length of the packet at the start of the current step of the chain.
    pub(super) fn length(&self) -> PassInput {
        match self.at == StepId::new(0) {
            true => PassInput::ReceivedLength,
            false => PassInput::Length,
        }
    }

    pub(super) fn parse(&mut self, role: BlockRole, errors: &[SnapshotCell]) {
        if let Some(BlockCode::Parser(parser)) = self.block(role) {
            let errors = errors.iter().filter_map(|slot| slot.field()).collect();
            self.step(FastPathStep::Parse { parser, errors });
        }
    }

    pub(super) fn control(&mut self, role: BlockRole) {
        if let Some(BlockCode::Control(control)) = self.block(role) {
            self.step(FastPathStep::Control(control));
            self.leave_for_turns(role);
        }
    }

    /// Packets exit if their ingress continues with another round through the stage slots.
    fn leave_for_turns(&mut self, role: BlockRole) {
        let resume = self.program.pipeline.intrinsics.get(ir::RESUME);
        if let (BlockRole::Ingress, Some(&resume)) = (role, resume) {
            self.step(FastPathStep::LeaveIf(FastPathTest::Differs(resume, 0)));
        }
    }

    /// Adds a deparser. Without one (possible only in handwritten IR) only the unparsed bytes are
    /// sent. Such a program has no fast path.
    pub(super) fn deparse(&mut self, role: BlockRole) {
        match self.block(role) {
            Some(BlockCode::Control(control)) => self.step(FastPathStep::Deparse(control)),
            _ => self.is_whole = false,
        }
    }

    pub(super) fn carry(&mut self, pairs: Vec<(ir::FieldId, ir::FieldId)>) {
        self.step(FastPathStep::Carry(pairs));
    }

    pub(super) fn drop_if_equal(&mut self, slot: SnapshotCell, value: u64, reason: DropReason) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::DropIf(
                FastPathTest::Equals(field, value),
                reason,
            ));
        }
    }

    /// Drops packets for which the field is not zero.
    pub(super) fn drop_if_set(&mut self, slot: SnapshotCell, reason: DropReason) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::DropIf(
                FastPathTest::Differs(field, 0),
                reason,
            ));
        }
    }

    /// Packets of which the program requests a frame of a split program are sent as such.
    pub(super) fn send_frame(&mut self) {
        self.step(FastPathStep::SendFrame);
    }

    pub(super) fn leave_if_asked(&mut self) {
        self.step(FastPathStep::LeaveIf(FastPathTest::Asked));
    }

    pub(super) fn leave_if_equal(&mut self, slot: SnapshotCell, value: u64) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::LeaveIf(FastPathTest::Equals(field, value)));
        }
    }

    /// Packets exit if the field is not zero.
    pub(super) fn leave_if_set(&mut self, slot: SnapshotCell) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::LeaveIf(FastPathTest::Differs(field, 0)));
        }
    }

    /// Selects the egress port. A packet without one goes to port 0, as in the architecture's
    /// general code.
    pub(super) fn enqueue(&mut self, slot: SnapshotCell) {
        if let Some(field) = slot.field() {
            self.step(FastPathStep::Enqueue(FastPathPort::Field(field)));
        }
    }

    pub(super) fn enqueue_destination(&mut self) {
        self.step(FastPathStep::Enqueue(FastPathPort::Destination));
    }

    pub(super) fn send(mut self) -> Option<FastPathPlan> {
        self.step(FastPathStep::Send);
        self.is_whole.then_some(FastPathPlan {
            pass: FastPath { steps: self.steps },
            resumes: self.resumes,
        })
    }

    fn block(&self, role: BlockRole) -> Option<BlockCode> {
        let blocks = self.program.pipeline.blocks.iter();
        let mut found = blocks.filter(|block| block.step == self.at && block.role == role);
        found.next().map(|block| block.code)
    }
}

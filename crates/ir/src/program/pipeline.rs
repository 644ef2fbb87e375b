//! How blocks make a pipeline, steps a chain, and what values follow a packet through them.

use std::collections::BTreeMap;

use bits::IdVec;

use super::{ControlId, FieldId, ParserId, StepId};
/// How blocks make a pipeline. Which blocks there are depends on the architecture.
///
/// A chain of programs has one run of blocks for each of its [`steps`](Pipeline::steps): what one step's deparser made is parsed by the next. A
/// program that is no chain has no steps, and all its blocks belong to step 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// The blocks in the order in which a packet meets them, those of a step together.
    pub blocks: Vec<Block>,
    /// The steps of a chain, the first one first; they lead forward only. A step without blocks leaves the packet as it is.
    pub steps: IdVec<StepId, Step>,
    /// Fields that the architecture gives and takes, by the block parameter's and field's names in the architecture's include file
    /// (`standard_metadata.ingress_port`, `ingress_intrinsic.drop`, ...; see `lower::arch`).
    pub intrinsics: BTreeMap<String, FieldId>,
    /// Values that follow a packet from one block to another in which the field ids differ, or to a later pass.
    pub transfers: Vec<Transfer>,
    /// v1model: fields of each `@field_list`, kept over clone, resubmit and recirculate.
    pub field_lists: BTreeMap<u32, Vec<FieldId>>,
}

/// A step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, which is unique; of steps that were made one, their names joined.
    pub name: String,
    /// What comes after it.
    pub next: StepNext,
}

/// What comes after a step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepNext {
    /// The packet leaves the chain.
    End,
    /// Always this step.
    Step(StepId),
    /// The step of the first arm whose `bool` field holds when the step's [`BlockRole::Route`] has run.
    Branch {
        /// The arms.
        arms: Vec<(FieldId, StepId)>,
        /// Where to go when no field holds.
        otherwise: StepId,
    },
}

/// A programmable block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The step that it belongs to.
    pub step: StepId,
    /// What the architecture calls it.
    pub role: BlockRole,
    /// Its code.
    pub code: BlockCode,
}

/// The code of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCode {
    /// A parser.
    Parser(ParserId),
    /// A control.
    Control(ControlId),
}

/// What a block is in its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockRole {
    /// The parser (v1model, eBPF, uBPF, XDP), PSA's ingress parser, PNA's main parser.
    Parser,
    /// v1model's checksum verification.
    VerifyChecksum,
    /// PNA's pre control.
    PreControl,
    /// The ingress control (v1model, PSA); PNA's main control; the filter or pipe of eBPF, uBPF and XDP.
    Ingress,
    /// PSA's ingress deparser.
    IngressDeparser,
    /// PSA's egress parser.
    EgressParser,
    /// The egress control (v1model, PSA).
    Egress,
    /// v1model's checksum computation.
    ComputeChecksum,
    /// The (last) deparser.
    Deparser,
    /// What decides, behind a step of a chain, which step is the next; it sees the step's fields as they were when the packet was deparsed.
    Route,
}

/// Values that follow a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// On which way.
    pub path: TransferPath,
    /// Read when the packet leaves.
    pub from: Vec<FieldId>,
    /// Written when it arrives, pairwise.
    pub to: Vec<FieldId>,
}

/// The ways on which a packet takes values along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferPath {
    /// From ingress to egress.
    Normal,
    /// Resubmitted to ingress.
    Resubmit,
    /// Recirculated from egress to ingress.
    Recirculate,
    /// Cloned from ingress to egress.
    CloneI2E,
    /// Cloned from egress to egress.
    CloneE2E,
}

//! The pipeline: blocks, steps of a chain, and values that are passed from block to block.

use std::collections::BTreeMap;

use bits::IdVec;

use super::{ControlId, FieldId, ParserId, StepId};
/// Blocks of a program in pipeline order. The architecture determines the possible blocks.
///
/// A chain of programs has one run of blocks for each of its [`steps`](Pipeline::steps): each step
/// parses what the step before it deparsed. A program that is not a chain has no steps, and all its
/// blocks belong to step 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// The blocks in the order in which a packet passes them, grouped by step.
    pub blocks: Vec<Block>,
    /// The steps of a chain, the first one first. They lead forward only. A step without blocks
    /// does not change the packet.
    pub steps: IdVec<StepId, Step>,
    /// Fields shared with the architecture, by the names of the block parameter and field in the
    /// architecture's include file (`standard_metadata.ingress_port`, `ingress_intrinsic.drop`,
    /// ...; see `lower::arch`).
    pub intrinsics: BTreeMap<String, FieldId>,
    /// Values passed from one block to another in which the field ids differ, or to a later
    /// recirculation.
    pub transfers: Vec<Transfer>,
    /// v1model: fields of each `@field_list`, preserved by clone, resubmit and recirculate.
    pub field_lists: BTreeMap<u32, Vec<FieldId>>,
}

/// A step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its unique name. Merged steps have their joined names.
    pub name: String,
    /// Its successor.
    pub next: StepNext,
}

/// Successor of a step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepNext {
    /// The packet leaves the chain.
    End,
    /// Always this step.
    Step(StepId),
    /// The step of the first arm with a true `bool` field, after the step's [`BlockRole::Route`]
    /// has run.
    Branch {
        /// The arms.
        arms: Vec<(FieldId, StepId)>,
        /// The successor if no field is true.
        otherwise: StepId,
    },
}

/// A programmable block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The step that it belongs to.
    pub step: StepId,
    /// Its role in the architecture.
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

/// Role of a block in its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockRole {
    /// The parser (v1model, eBPF, uBPF, XDP), PSA's ingress parser, PNA's main parser.
    Parser,
    /// v1model's checksum verification.
    VerifyChecksum,
    /// PNA's pre control.
    PreControl,
    /// The ingress control (v1model, PSA), PNA's main control, or the filter or pipe of eBPF, uBPF
    /// and XDP.
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
    /// Selects the next step after a step of a chain. It sees the step's fields as they were at
    /// deparsing.
    Route,
}

/// Values passed along with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The path on which they are passed.
    pub path: TransferPath,
    /// Read when the packet leaves the source block.
    pub from: Vec<FieldId>,
    /// Written when it enters the destination block, pairwise.
    pub to: Vec<FieldId>,
}

/// Paths on which values are passed along with a packet.
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

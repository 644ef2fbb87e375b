//! Crate `aggregate`: reduces key-value pairs and vectors on their way through switches, exactly
//! once.
//!
//! **In:** pairs of mappers, a topology with programmable switches. **Out:** the plan of a job, the
//! P4 text and entries of each switch, and the state machines of mappers and reducers.
//!
//! It imports no engine: others compile the text and run it. It reads no file.
//!
//! Invariants:
//! - Mapper and reducer do no I/O and have no clock: messages and times go in, messages come out.
//! - A result is exact, or the reduction fails with a name. Loss, repeats, order, restarts of
//!   switches and full switches change the time alone (docs/internals/aggregate.md).
//!
//! Tests: `tests/`, with the emitted programs on `interp`.

mod arrivals;
mod combined;
pub mod datagram;
mod emit;
mod graph;
mod host;
mod job;
pub mod map;
mod mapper;
mod message;
mod neighbours;
mod pair;
mod paper;
mod place;
mod plan;
mod planner;
mod predict;
mod reducer;
mod reduction_error;
mod role;
mod route;
mod simulate;
mod source;
mod timing;
mod vector;

pub use emit::{MAX_BLOCKS, MAX_SLOTS, SwitchReduction, emit, slot_bytes};
pub use job::{
    DEFAULT_BLOCKS, DEFAULT_SLOTS, DataPart, Job, JobError, MAX_MAPPERS, MapFunction, MapperLine,
    Position, ReducerLine,
};
pub use mapper::{FlowConfig, Mapper, MapperCounts};
pub use message::{
    Bank, Body, EpochCounts, Flags, HEADER_BYTES, Header, Kind, MAX_PAIRS, Message, PORTS,
    Receipts, State,
};
pub use neighbours::{NoRouterError, set_neighbours};
pub use pair::{
    KeyClass, Operator, Pair, Shape, ValueClass, read_key, read_value, write_key, write_value,
};
pub use paper::{PaperOutcome, PaperRun, SequenceReading, WrongKeys};
pub use place::{Placement, PredictedBytes};
pub use plan::{
    Candidate, MAX_TIERS, Plan, PlanError, PlannedReduction, PlannedSwitch, ReductionRequest,
    WINDOW, largest_memory, pairs_per_message, switch_address,
};
pub use predict::PredictedLink;
pub use reducer::{Addressed, Reducer, ReducerConfig, ReducerCounts, SwitchPlace};
pub use reduction_error::ReductionError;
pub use role::Role;
pub use simulate::{Failure, MakeSwitch, NextInput, Outcome, Run, RunError, RunOptions};
pub use source::{InputError, KeyTooLongError};
pub use vector::{Input, LANES, LaneBlock, LaneOperation, MAX_VALUES, Vector};

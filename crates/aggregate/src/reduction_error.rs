//! Failures of reductions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::vector::LaneOperation;

/// Failure of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReductionError {
    /// The counts of an epoch differ: pairs are missing, or were counted twice.
    Unbalanced {
        /// The epoch.
        epoch: u16,
        /// Pairs that were sent, or combined in switches.
        expected: u64,
        /// Pairs that arrived, or were collected.
        found: u64,
    },
    /// A mapper's vector has another length than the first one's.
    Lengths {
        /// Its flow.
        flow: u16,
        /// The first mapper's number of values.
        expected: u64,
        /// Its own.
        found: u64,
    },
    /// A mapper has another operation for its vector than the first one, or one that the program
    /// of the reduction does not have.
    Operations {
        /// Its flow.
        flow: u16,
        /// The first mapper's operation.
        expected: LaneOperation,
        /// Its own.
        found: LaneOperation,
    },
    /// A mapper does not answer.
    MapperSilent {
        /// Its flow.
        flow: u16,
    },
    /// A switch does not answer.
    SwitchSilent {
        /// Its flow.
        flow: u16,
    },
}

impl fmt::Display for ReductionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReductionError::Unbalanced {
                epoch,
                expected,
                found,
            } => write!(
                f,
                "epoch {epoch} is not complete: {expected} pairs are expected, {found} found"
            ),
            ReductionError::Lengths {
                flow,
                expected,
                found,
            } => write!(
                f,
                "mapper {flow} has a vector of {found} values, but mapper 0 one of {expected}; give \
                 all mappers vectors of one length"
            ),
            ReductionError::Operations {
                flow,
                expected,
                found,
            } => write!(
                f,
                "mapper {flow} wants {found}, but mapper 0 {expected}; give all mappers one operation"
            ),
            ReductionError::MapperSilent { flow } => {
                write!(f, "mapper {flow} does not answer")
            }
            ReductionError::SwitchSilent { flow } => {
                write!(f, "the switch with flow {flow} does not answer")
            }
        }
    }
}

impl std::error::Error for ReductionError {}

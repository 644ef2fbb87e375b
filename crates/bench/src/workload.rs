//! [`Workload`]: a program with its configuration, its packets, and its function as a hand-written
//! loop.

use std::sync::Arc;

use exec::Configuration;
use ir::Program;
use packet::Frame;
use support::rng::Rng;

use crate::forward::Forward;
use crate::setup::{ItemSink, SetupError, configure};

/// A hand-written loop.
pub type Hand = Box<dyn Forward + Send>;

/// A program to be measured. The result of each method depends only on the workload and the
/// arguments.
pub trait Workload: Send + Sync {
    /// Returns its name on command lines.
    fn name(&self) -> &'static str;

    /// Returns a one-line description.
    fn about(&self) -> &'static str;

    /// Returns its P4_16 text.
    fn source(&self) -> &'static str;

    /// Generates the configuration of a device or a loop.
    ///
    /// # Errors
    /// The program is not the workload's.
    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError>;

    /// Writes a packet of the normal traffic, of a uniformly random flow: sets ingress port and
    /// bytes.
    fn packet(&self, choices: &mut Rng, frame: &mut Frame);

    /// Writes an abnormal packet: malformed, of an unknown type, or for an unknown destination.
    fn stray(&self, choices: &mut Rng, frame: &mut Frame);

    /// Creates the hand-written loop over these tables.
    ///
    /// # Errors
    /// The program is not the workload's.
    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError>;
}

impl dyn Workload + '_ {
    /// Creates the hand-written loop with separate tables.
    ///
    /// # Errors
    /// The program is not the workload's.
    pub fn hand(&self, program: &Arc<Program>) -> Result<Hand, SetupError> {
        let mut configuration = configure(program, |setup| self.setup(program, setup))?;
        self.hand_over(&mut configuration)
    }

    /// Creates `count` hand-written loops over the same tables, one per thread.
    ///
    /// # Errors
    /// The program is not the workload's.
    pub fn hands(&self, program: &Arc<Program>, count: usize) -> Result<Vec<Hand>, SetupError> {
        let mut configuration = configure(program, |setup| self.setup(program, setup))?;
        (0..count)
            .map(|_| self.hand_over(&mut configuration))
            .collect()
    }
}

//! [`Workload`]: a program, what its device is told, its packets, and its function written by hand.

use std::sync::Arc;

use exec::Configuration;
use ir::Program;
use packet::Frame;

use crate::Choices;
use crate::forward::Forward;
use crate::setup::{Setup, SetupError, configure};

/// A loop written by hand.
pub type Hand = Box<dyn Forward + Send>;

/// A program that is measured. What a workload gives depends on nothing but its name.
pub trait Workload: Send + Sync {
    /// Its name on command lines.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn about(&self) -> &'static str;

    /// Its program in P4_16.
    fn source(&self) -> &'static str;

    /// Tells a device, or a loop, what it must know.
    ///
    /// # Errors
    /// The program is another one.
    fn setup(&self, program: &Program, setup: &mut Setup<'_>) -> Result<(), SetupError>;

    /// Writes a packet of the usual traffic: any of all its flows, each with the same probability. Port and bytes are set.
    fn packet(&self, choices: &mut Choices, frame: &mut Frame);

    /// Writes a packet that is not usual: malformed, unknown, for nobody.
    fn stray(&self, choices: &mut Choices, frame: &mut Frame);

    /// The loop over these tables.
    ///
    /// # Errors
    /// The program is another one.
    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError>;
}

impl dyn Workload + '_ {
    /// The loop written by hand, with tables of its own.
    ///
    /// # Errors
    /// The program is another one.
    pub fn hand(&self, program: &Arc<Program>) -> Result<Hand, SetupError> {
        let mut configuration = configure(program, |setup| self.setup(program, setup))?;
        self.hand_over(&mut configuration)
    }

    /// Several of these loops, over the same tables: one a thread.
    ///
    /// # Errors
    /// The program is another one.
    pub fn hands(&self, program: &Arc<Program>, count: usize) -> Result<Vec<Hand>, SetupError> {
        let mut configuration = configure(program, |setup| self.setup(program, setup))?;
        (0..count)
            .map(|_| self.hand_over(&mut configuration))
            .collect()
    }
}

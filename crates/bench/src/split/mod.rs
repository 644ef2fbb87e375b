//! Programs over a switch and servers (CLIP): functions with entries, packets and hand-written
//! loops, and their halves as sides of a measurement.
//!
//! The halves run in this process. [`Halves`] is a switch with its servers and a coordinator that
//! places entries; frames between them take no time. [`SwitchSide`] and [`ServerSide`] are single
//! halves. [`threads`] runs the halves on two cores.

mod fib;
mod fields;
mod halves;
pub mod ports;
mod sides;
mod snat;
pub mod threads;
mod trd;

use std::sync::Arc;

use ir::Program;
use packet::Frame;
use passes::split::{SplitOptions, SplitProgram};

use crate::Hand;
use crate::setup::{ItemSink, SetupError};

pub use halves::{Halves, HalvesCost, Planes};
pub use sides::{ServerSide, SwitchSide, requests_of};

/// Function over a switch and servers. The result of each method depends only on the function and
/// the arguments.
pub trait SplitFunction: Send + Sync {
    /// Returns its name on command lines.
    fn name(&self) -> &'static str;

    /// Returns the name of its program file.
    fn file(&self) -> &'static str;

    /// Returns its P4_16 text with its C code.
    fn source(&self) -> &'static str;

    /// Returns macros for the preprocessor, with their bodies.
    fn defines(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns the number of flows.
    fn flows(&self) -> u32;

    /// Returns the minimum length of its packets in bytes.
    fn min_bytes(&self) -> usize;

    /// Generates the entries of the tables that are in the switch alone.
    ///
    /// # Errors
    /// The program is not the function's.
    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError>;

    /// Generates the entries of the mirrored tables.
    ///
    /// # Errors
    /// The program is not the function's.
    fn entries(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError>;

    /// Generates the entries of the mirrored tables that the packets of the first `flows` flows
    /// hit.
    ///
    /// # Errors
    /// The program is not the function's.
    fn entries_of(
        &self,
        program: &Program,
        flows: u32,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError>;

    /// Writes a packet of a flow that hits its entry: sets ingress port and bytes.
    fn packet(&self, flow: u32, bytes: usize, frame: &mut Frame);

    /// Writes the first packet of a flow, for which the handler adds an entry. Returns false if the
    /// function has no handler.
    fn first(&self, flow: u32, frame: &mut Frame) -> bool;

    /// Writes a packet of a flow for which servers are always asked: the handler is called if the
    /// function has one.
    fn request(&self, flow: u32, frame: &mut Frame);

    /// Creates the hand-written loop of the whole function over these tables, for packets that hit.
    /// `None` if there is none.
    ///
    /// # Errors
    /// The program is not the function's.
    fn hand(&self, configuration: &mut exec::Configuration) -> Result<Option<Hand>, SetupError>;

    /// Creates the hand-written loop of the server half over these tables, for the requests of
    /// [`SplitFunction::request`]. `None` if there is none.
    ///
    /// # Errors
    /// The program is not the function's.
    fn server_hand(
        &self,
        program: &SplitProgram,
        configuration: &mut exec::Configuration,
    ) -> Result<Option<Hand>, SetupError>;
}

/// Constructor of a function.
pub type MakeFunction = fn() -> Box<dyn SplitFunction>;

/// All functions by name.
pub const ALL: &[(&str, MakeFunction)] = &[
    ("snat", || Box::new(snat::Snat)),
    ("fib", || Box::new(fib::Fib::new())),
    ("trd", || Box::new(trd::Trd)),
    ("ports", || Box::new(ports::Ports)),
];

/// Returns the function with this name.
pub fn find(name: &str) -> Option<Box<dyn SplitFunction>> {
    let (_, make) = ALL.iter().find(|(other, _)| *other == name)?;
    Some(make())
}

/// Compiled function.
pub struct CompiledFunction {
    /// The program for one device.
    pub whole: Arc<Program>,
    /// The program, split.
    pub split: SplitProgram,
    /// Its blocks of C.
    pub foreign: Vec<driver::ForeignBlock>,
}

/// Compiles and splits a function.
///
/// # Errors
/// The program has an error, or cannot be split.
pub fn compile(function: &dyn SplitFunction) -> Result<CompiledFunction, String> {
    let source = driver::Source::Text {
        name: function.file(),
        text: function.source(),
    };
    let options = driver::Options {
        defines: function.defines(),
        ..driver::Options::default()
    };
    let mut compiled = driver::compile(&source, &options);
    let foreign = std::mem::take(&mut compiled.foreign);
    let whole = compiled.into_result().map_err(|error| error.to_string())?;
    let split = passes::split::split(&whole, &SplitOptions::default());
    Ok(CompiledFunction {
        split: split.map_err(|error| error.to_string())?,
        whole: Arc::new(whole),
        foreign,
    })
}

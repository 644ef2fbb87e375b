//! The engines that users choose among.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use exec::Engine;
use interp::Interp;
use jit::Jit;

/// What runs the program.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Choice {
    /// What runs the program: native code, or the interpreter that defines what programs mean.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    engine: Name,
}

/// An engine's name.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Native code.
    #[default]
    Jit,
    /// The interpreter.
    Interp,
}

/// All engines, by name; the first defines the meaning.
pub(crate) fn all() -> Vec<Box<dyn Engine>> {
    vec![Box::new(Interp), Box::new(Jit::new(Arc::new(Interp)))]
}

impl Choice {
    /// The interpreter, for what native code has no part in.
    pub(crate) const INTERP: Choice = Choice {
        engine: Name::Interp,
    };

    /// The engine that was chosen.
    pub(crate) fn engine(self) -> Box<dyn Engine> {
        match self.engine {
            Name::Jit => Box::new(Jit::new(Arc::new(Interp))),
            Name::Interp => Box::new(Interp),
        }
    }

    /// The same for programs that are loaded while no packets are carried, so that there is a core to spare.
    pub(crate) fn engine_before_packets(self) -> Box<dyn Engine> {
        match self.engine {
            Name::Jit => Box::new(Jit::new(Arc::new(Interp)).with_two_threads()),
            Name::Interp => Box::new(Interp),
        }
    }
}

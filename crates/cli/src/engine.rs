//! The engines that users choose among.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use exec::{Engine, Loaded, Natives, Pass, Unsupported};
use interp::Interp;
use ir::{Layout, Program};
use jit::Jit;

use crate::out;

/// What runs the program.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Choice {
    /// What runs the program.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    engine: Name,
}

/// An engine's name.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Native code, or the interpreter for a program that is too large for it.
    #[default]
    Auto,
    /// Native code alone.
    Jit,
    /// The interpreter, which defines what programs mean.
    Interp,
}

/// The engine that takes native code where there is some, and else the interpreter.
struct Auto(Jit);

impl Auto {
    /// What the interpreter makes of a program that native code does not run. A line says so.
    fn interpret(
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        reason: &Unsupported,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = Interp.load(program, layout, natives)?;
        let (name, construct) = (&program.name, &reason.construct);
        out::note(&format!(
            "program `{name}`: native code does not run {construct}"
        ));
        Ok(loaded)
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = self.0.load(program, layout, natives);
        loaded.or_else(|reason| Auto::interpret(program, layout, natives, &reason))
    }

    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        pass: &Pass,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = self.0.load_with(program, layout, natives, pass);
        loaded.or_else(|reason| Auto::interpret(program, layout, natives, &reason))
    }
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
        self.with(Jit::new(Arc::new(Interp)))
    }

    /// The same for programs that are loaded while no packets are carried, so that there is a core to spare.
    pub(crate) fn engine_before_packets(self) -> Box<dyn Engine> {
        self.with(Jit::new(Arc::new(Interp)).with_two_threads())
    }

    fn with(self, jit: Jit) -> Box<dyn Engine> {
        match self.engine {
            Name::Auto => Box::new(Auto(jit)),
            Name::Jit => Box::new(jit),
            Name::Interp => Box::new(Interp),
        }
    }
}

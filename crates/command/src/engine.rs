//! Engines that users can select.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use exec::{Engine, FastPath, Loaded, Natives, Unsupported};
use interp::Interp;
use ir::{Layout, Program};
use jit::Jit;
use terminal::out;
use xdp::XdpEngine;

/// Option that selects the engine.
#[derive(Args, Clone, Copy, Default)]
pub struct Choice {
    /// Engine that runs the program.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    engine: Name,
}

/// Name of an engine.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Native code, or the interpreter for a program that is too large for it.
    #[default]
    Auto,
    /// Native code alone.
    Jit,
    /// The interpreter, which defines what programs mean.
    Interp,
    /// The kernel, by XDP: `run` attaches the program to its interfaces, other commands let the
    /// kernel run it on one packet after the other. What the kernel does not do runs as native
    /// code.
    Xdp,
}

/// Engine that uses native code if it supports the program, and else the interpreter.
struct Auto(Jit);

impl Auto {
    /// Loads a program into the interpreter because native code does not support it. Prints a
    /// note.
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
        pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = self.0.load_with(program, layout, natives, pass);
        loaded.or_else(|reason| Auto::interpret(program, layout, natives, &reason))
    }
}

/// Returns all engines, by name. The first one defines the semantics.
pub fn all() -> Vec<Box<dyn Engine>> {
    vec![Box::new(Interp), Box::new(Jit::new(Arc::new(Interp)))]
}

impl Choice {
    /// Returns the arguments that select this engine in another command.
    pub fn arguments(self) -> [String; 2] {
        let name = self.engine.to_possible_value();
        let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
        ["--engine".to_owned(), name]
    }

    /// The interpreter, for commands that make no use of native code.
    pub const INTERP: Choice = Choice {
        engine: Name::Interp,
    };

    /// Returns the selected engine.
    pub fn engine(self) -> Box<dyn Engine> {
        self.with(Jit::new(Arc::new(Interp)))
    }

    /// Returns the selected engine for programs that are loaded before packets are forwarded. It
    /// compiles on two threads, because a core is idle.
    pub fn engine_before_packets(self) -> Box<dyn Engine> {
        self.with(Jit::new(Arc::new(Interp)).with_two_threads())
    }

    fn with(self, jit: Jit) -> Box<dyn Engine> {
        match self.engine {
            Name::Auto => Box::new(Auto(jit)),
            Name::Jit => Box::new(jit),
            Name::Interp => Box::new(Interp),
            Name::Xdp => Box::new(XdpEngine::new(Arc::new(jit))),
        }
    }

    /// Returns true if it is the kernel.
    pub fn is_xdp(self) -> bool {
        self.engine == Name::Xdp
    }

    /// Returns the choice for packets in user space: of the kernel, that for those that leave it.
    pub fn in_user_space(self) -> Choice {
        match self.engine {
            Name::Xdp => Choice::default(),
            Name::Auto | Name::Jit | Name::Interp => self,
        }
    }
}

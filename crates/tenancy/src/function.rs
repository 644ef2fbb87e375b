//! What a virtual data plane does: a program, or a chain of programs that is made one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::Program;
use passes::compose::{ComposeError, Form, Policy, StepProgram, compose};

/// Programs in a line with branches.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The order of steps.
    pub policy: Policy,
    /// The program of each step, by its name in the policy.
    pub programs: BTreeMap<String, Arc<Program>>,
}

/// What a vPDP does.
#[derive(Clone, Debug)]
pub enum Function {
    /// One program.
    Program(Arc<Program>),
    /// A chain. Names of what its steps have begin with the step's name, so that their state stays when the chain changes.
    Chain(Arc<Chain>),
}

impl From<Arc<Program>> for Function {
    fn from(program: Arc<Program>) -> Self {
        Function::Program(program)
    }
}

impl From<Chain> for Function {
    fn from(chain: Chain) -> Self {
        Function::Chain(Arc::new(chain))
    }
}

impl Function {
    /// The one program to run; a chain's has this name.
    pub(crate) fn program(&self, name: &str) -> Result<Arc<Program>, ComposeError> {
        let chain = match self {
            Function::Program(program) => return Ok(Arc::clone(program)),
            Function::Chain(chain) => chain,
        };
        let programs = chain.programs.iter();
        let programs: Vec<StepProgram<'_>> = programs
            .map(|(step, program)| StepProgram { step, program })
            .collect();
        let composed = compose(name, &chain.policy, &programs, Form::Merged)?;
        Ok(Arc::new(composed.program))
    }
}

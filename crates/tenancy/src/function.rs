//! What a virtual data plane does: a program, or a chain of programs that is made one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::Program;
use passes::compose::{
    ComposeError, Composed, Form, Joint, Policy, PolicyError, StepProgram, compose,
};

/// Programs in a line with branches.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The order of steps.
    pub policy: Policy,
    /// The program of each step, by its name in the policy.
    pub programs: BTreeMap<String, Arc<Program>>,
}

impl Chain {
    /// The chain of this policy. Programs that no step of it names are left out.
    ///
    /// # Errors
    /// The text is no policy. Whether the steps fit together shows when the chain is made one program.
    pub fn read(
        policy: &str,
        programs: impl IntoIterator<Item = (String, Arc<Program>)>,
    ) -> Result<Chain, PolicyError> {
        let policy = Policy::read(policy)?;
        let mut programs: BTreeMap<_, _> = programs.into_iter().collect();
        let steps = policy.steps();
        programs.retain(|name, _| steps.iter().any(|step| step.name == *name));
        Ok(Chain { policy, programs })
    }
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
    /// The one program to run, and how the steps of a chain follow one another in it. A chain's program has this name.
    pub(crate) fn composed(&self, name: &str) -> Result<Composition, ComposeError> {
        let chain = match self {
            Function::Program(program) => {
                return Ok(Composition {
                    program: Arc::clone(program),
                    joints: Vec::new(),
                });
            }
            Function::Chain(chain) => chain,
        };
        let programs = chain.programs.iter();
        let programs: Vec<StepProgram<'_>> = programs
            .map(|(step, program)| StepProgram { step, program })
            .collect();
        let Composed { program, joints } = compose(name, &chain.policy, &programs, Form::Merged)?;
        Ok(Composition {
            program: Arc::new(program),
            joints,
        })
    }
}

/// What a function is made.
pub(crate) struct Composition {
    pub(crate) program: Arc<Program>,
    /// How each step follows those before it; none of a program.
    pub(crate) joints: Vec<Joint>,
}

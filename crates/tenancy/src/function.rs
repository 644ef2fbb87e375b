//! Function of a virtual data plane: a program, or a chain of programs composed into one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::Program;
use passes::compose::{
    ComposeError, Composed, Form, Joint, Policy, PolicyError, StepProgram, compose,
};

/// A chain of programs, with branches.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Order of the steps.
    pub policy: Policy,
    /// Program of each step, by its name in the policy.
    pub programs: BTreeMap<String, Arc<Program>>,
}

impl Chain {
    /// Creates a chain from the text of a policy. Programs that no step names are dropped.
    ///
    /// # Errors
    /// The text is not a valid policy. Steps that do not fit together are found when the chain is
    /// composed.
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

/// Function of a vPDP.
#[derive(Clone, Debug)]
pub enum Function {
    /// One program.
    Program(Arc<Program>),
    /// A chain. Names of its objects begin with the step's name, so that their state is kept when
    /// the chain changes.
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
    /// Returns the program to run, and the joints of a chain's steps. `name` is the name of the
    /// composed program.
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

/// Result of composing a function.
pub(crate) struct Composition {
    pub(crate) program: Arc<Program>,
    /// Joint of each step with the preceding ones: merged, or parsed again. Empty for a single
    /// program.
    pub(crate) joints: Vec<Joint>,
}

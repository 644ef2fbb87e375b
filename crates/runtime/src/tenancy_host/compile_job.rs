//! Programs of virtual data planes. They are parsed, composed and compiled on separate threads,
//! so that the control loop can answer other requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::Program;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::function::Function as OneFunction;
use p4rt::Answer;
use support::name;
use switch::{MayLose, MigrationMode};
use tenancy::{Cancelled, Chain, CompilePermit, Function, Maker, MovedVpdp, NewFunction, VpdpId};

use crate::COMPILER_STACK_BYTES;
use crate::compile_bounds::denied;
use crate::tenancy_host::control_loop::ControlLoop;
use crate::tenancy_host::requests::{Answered, invalid, refused};

/// Result of a compile thread, with the request's answer.
pub(super) struct Ready {
    next: Answered<Next>,
    /// Compile permit: while it exists, the vPDP cannot compile another program.
    leave: CompilePermit,
    answer: Answer<wire::ChangeResponse>,
}

impl Ready {
    /// Returns the vPDP, unless the compilation failed.
    pub(super) fn vpdp(&self) -> Option<VpdpId> {
        match self.next.as_ref().ok()? {
            Next::Other(made, _) => Some(made.vpdp()),
            Next::Moved(moved) => Some(moved.vpdp()),
        }
    }
}

/// Next program of a vPDP.
pub(super) enum Next {
    /// Another program, with the state that it may take over.
    Other(NewFunction, MigrationMode),
    /// The same program, with a stage in another slot.
    Moved(MovedVpdp),
}

/// Task that builds the next program of a vPDP, on a thread that may take its time.
pub(super) type Work = Box<dyn FnOnce(&Maker) -> Answered<Next> + Send>;

/// Compiles P4 text.
pub(super) fn compile_text(text: &str) -> Result<Program, String> {
    Ok(driver::compile_text("program.p4", text)?)
}

/// Function that compiles P4 text to a program.
type Compile<'c> = dyn Fn(&str) -> Result<Program, String> + 'c;

impl ControlLoop {
    pub(super) fn set_program(
        &mut self,
        asked: wire::SetProgram,
        answer: Answer<wire::ChangeResponse>,
    ) {
        let carry = MigrationMode::State(match &asked.may_lose[..] {
            [] => MayLose::Nothing,
            all if all.iter().any(|name| name == "*") => MayLose::Anything,
            these => MayLose::These(these.to_vec()),
        });
        let found = self.id(&asked.vpdp).and_then(|id| {
            let function = asked.function.and_then(|function| function.function);
            let function = function.ok_or_else(|| invalid("there is no program"))?;
            let bytes = bytes(&function);
            let work: Work = Box::new(move |maker| {
                let function = read(&function, &compile_text).map_err(invalid)?;
                make(maker, function, carry)
            });
            Ok((id, bytes, work))
        });
        self.prepare(found, answer);
    }

    pub(super) fn roll_back(&mut self, vpdp: &str, answer: Answer<wire::ChangeResponse>) {
        let found = self.id(vpdp).and_then(|id| {
            let before = self.hypervisor.before(id).map_err(refused)?;
            let carry = MigrationMode::State(MayLose::Anything);
            let work: Work = Box::new(move |maker| make(maker, before, carry));
            Ok((id, 0, work))
        });
        self.prepare(found, answer);
    }

    pub(super) fn remove_program(&mut self, vpdp: &str, answer: Answer<wire::ChangeResponse>) {
        let empty = Function::Program(Arc::clone(&self.empty));
        let work: Work = Box::new(move |maker| make(maker, empty, MigrationMode::Nothing));
        let found = self.id(vpdp).map(|id| (id, 0, work));
        self.prepare(found, answer);
    }

    /// Builds a device for a vPDP on a separate thread, from texts of a number of bytes. The
    /// control loop continues in [`ControlLoop::programmed`].
    pub(super) fn prepare(
        &mut self,
        found: Answered<(VpdpId, usize, Work)>,
        answer: Answer<wire::ChangeResponse>,
    ) {
        let begun = found.and_then(|(id, bytes, work)| {
            let texts = self.hypervisor.compiler(id).map_err(refused)?;
            let leave = texts.admit(bytes).map_err(denied)?;
            let maker = self.hypervisor.maker(id).map_err(refused)?;
            Ok((work, leave, maker))
        });
        let (work, leave, maker) = match begun {
            Ok(begun) => begun,
            Err(denial) => return answer.give(Err(denial)),
        };
        let canceller = leave.canceller();
        answer.when_gone(move || canceller.cancel(Cancelled::ClientGone));
        let (tell, common) = (self.ready_in.clone(), Arc::clone(self.common()));
        let work = move || {
            // May wait for its turn here.
            let made = leave.run(|| work(&maker));
            let ready = Ready {
                next: made.unwrap_or_else(|error| Err(denied(error))),
                leave,
                answer,
            };
            // Fails if the switch has stopped, which needs no program.
            let _ = tell.send(ready);
            common.office.wake();
        };
        let builder = std::thread::Builder::new().stack_size(COMPILER_STACK_BYTES);
        // If no thread starts, the dropped answer reports that the switch does not answer.
        let _ = builder.spawn(work);
    }

    /// Installs the device of a compile thread.
    pub(super) fn programmed(&mut self, ready: Ready) {
        let Ready {
            next,
            leave,
            answer,
        } = ready;
        match next {
            Err(denial) => {
                drop(leave);
                answer.give(Err(denial));
            }
            Ok(Next::Other(made, carry)) => self.install(made, carry, leave, answer),
            Ok(Next::Moved(moved)) => {
                drop(leave);
                self.install_moved(moved, answer);
            }
        }
    }

    fn install_moved(&mut self, moved: MovedVpdp, answer: Answer<wire::ChangeResponse>) {
        let id = moved.vpdp();
        let (before, pins) = (self.running(id), self.hypervisor.pins(id));
        if let Err(error) = self.hypervisor.adopt_moved(moved) {
            return answer.give(Err(refused(error)));
        }
        self.replaced_by_like(id, before);
        self.store_pins(id, pins, answer);
    }

    /// Releases the stage slots of a vPDP that has no program any more.
    pub(super) fn unpin_nothing(&mut self, id: VpdpId) {
        let vpdp = self.hypervisor.vpdp(id);
        if vpdp.is_some_and(|vpdp| self.runs_nothing(vpdp)) {
            self.hypervisor.unpin(id);
        }
    }

    pub(super) fn running(&self, id: VpdpId) -> Option<Arc<Program>> {
        let device = self.hypervisor.vpdp(id)?.device()?;
        Some(Arc::clone(device.program()))
    }
}

/// Builds a device from a function.
fn make(maker: &Maker, function: Function, carry: MigrationMode) -> Answered<Next> {
    let made = maker.make(function).map_err(refused)?;
    other(made, carry)
}

/// Returns the built device, if P4Info can describe its program.
pub(super) fn other(made: NewFunction, carry: MigrationMode) -> Answered<Next> {
    p4rt::check_p4info(made.program()).map_err(invalid)?;
    Ok(Next::Other(made, carry))
}

/// Returns the total size of a function's texts in bytes.
fn bytes(function: &OneFunction) -> usize {
    match function {
        OneFunction::Program(text) => text.len(),
        OneFunction::Chain(chain) => {
            let programs = chain.programs.values().map(String::len);
            chain.policy.len() + programs.sum::<usize>()
        }
    }
}

/// Reads a function.
///
/// # Errors
/// The errors of its texts, for people.
pub(super) fn read(function: &OneFunction, compile: &Compile<'_>) -> Result<Function, String> {
    match function {
        OneFunction::Program(text) => {
            let program = p4rt::read_program(compile, text)?;
            Ok(Function::Program(Arc::new(program)))
        }
        OneFunction::Chain(chain) => {
            let step = |(name, text): (&String, &String)| {
                name::check("a step's name", name).map_err(|error| error.to_string())?;
                let program = p4rt::read_program(compile, text);
                let program = program.map_err(|error| format!("the step `{name}`: {error}"))?;
                Ok((name.clone(), Arc::new(program)))
            };
            let programs = chain.programs.iter().map(step);
            let programs: BTreeMap<_, _> = programs.collect::<Result<_, String>>()?;
            let chain = Chain::read(&chain.policy, programs);
            let chain = chain.map_err(|error| format!("the policy: {error}"))?;
            Ok(Function::from(chain))
        }
    }
}

/// Converts a function to its message, with the programs as IR.
pub(super) fn write(function: &Function) -> wire::Function {
    let one = match function {
        Function::Program(program) => OneFunction::Program(program.to_string()),
        Function::Chain(chain) => {
            let programs = chain.programs.iter();
            let programs = programs.map(|(name, program)| (name.clone(), program.to_string()));
            OneFunction::Chain(wire::Chain {
                policy: chain.policy.to_string(),
                programs: programs.collect(),
            })
        }
    };
    wire::Function {
        function: Some(one),
    }
}

//! Why the hypervisor refuses a change. Nothing was changed then.

use std::fmt;

use passes::compose::ComposeError;
use passes::edit::EditError;
use passes::slots::SlotError;
use switch::{AdoptError, ControlError, Exceeded, LoadError};

use crate::compiler::CompileError;
use crate::vpdp::{VirtualPort, VpdpId};
use crate::wiring::WiringError;

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// There is no such vPDP.
    NoSuchVpdp(VpdpId),
    /// Another vPDP has the number.
    NumberTaken(VpdpId),
    /// Another vPDP has the name.
    NameTaken(String, VpdpId),
    /// There are as many vPDPs as there can be.
    NoNumberLeft,
    /// How packets find vPDPs and ports does not come out right.
    Wiring(WiringError),
    /// The vPDP is in use.
    InUse(VpdpId, Use),
    /// The vPDP has a program already.
    HasProgram(VpdpId),
    /// The vPDP has no program.
    NoProgram(VpdpId),
    /// The vPDP had no other program before.
    NothingBefore(VpdpId),
    /// The chain cannot be made one program.
    Compose(VpdpId, Box<ComposeError>),
    /// The stage slots do not hold the program.
    Slots(VpdpId, SlotError),
    /// The program of which a stage was changed does not run any more.
    Changed(VpdpId),
    /// A stage cannot be changed so.
    Edit(VpdpId, Box<EditError>),
    /// The program cannot be loaded.
    Load(VpdpId, String),
    /// The vPDP does not take the new program: it has no place for state that may not be lost, or is more than the quotas allow.
    Update(VpdpId, AdoptError),
    /// The vPDP holds more already than its new quotas allow.
    Exceeded(VpdpId, Exceeded),
    /// What was exported does not fit its own program.
    Import(ControlError),
    /// The program takes more to make than the quotas allow.
    Compile(CompileError),
}

/// What uses a vPDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A link from one of its ports to another's.
    Link(VirtualPort, VirtualPort),
    /// A rule that leads packets to it.
    Rule(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSuchVpdp(id) => write!(f, "there is no vPDP {id}"),
            Refusal::NumberTaken(id) => {
                write!(f, "there is a vPDP {id} already; take another number")
            }
            Refusal::NameTaken(name, id) => {
                write!(f, "vPDP {id} is called `{name}` already; take another name")
            }
            Refusal::NoNumberLeft => {
                write!(
                    f,
                    "a switch has at most {} vPDPs; delete one first",
                    VpdpId::MAX
                )
            }
            Refusal::Wiring(error) => error.fmt(f),
            Refusal::InUse(id, Use::Link(port, other)) => write!(
                f,
                "vPDP {id} is in use: {port} is linked to {other}; remove the link first"
            ),
            Refusal::InUse(id, Use::Rule(name)) => write!(
                f,
                "vPDP {id} is in use: the rule `{name}` leads packets to it; remove the rule first"
            ),
            Refusal::HasProgram(id) => {
                write!(f, "vPDP {id} has a program; update it, or remove it first")
            }
            Refusal::NoProgram(id) => write!(f, "vPDP {id} has no program; load one first"),
            Refusal::NothingBefore(id) => {
                write!(f, "vPDP {id} had no other program to go back to")
            }
            Refusal::Compose(id, error) => write!(f, "vPDP {id} cannot run the chain: {error}"),
            Refusal::Slots(id, error) => write!(
                f,
                "the stage slots do not hold the program of vPDP {id}: {error}"
            ),
            Refusal::Changed(id) => write!(
                f,
                "vPDP {id} runs another program by now than the one whose stage was to be changed; look at its stages and ask again"
            ),
            Refusal::Edit(id, error) => write!(f, "vPDP {id} keeps its stages: {error}"),
            Refusal::Load(id, error) => {
                write!(f, "vPDP {id} cannot run the program: {error}")
            }
            Refusal::Update(id, error @ AdoptError::WouldLose(_)) => write!(
                f,
                "vPDP {id} keeps its program: {error}; say what may be lost (`polyplane tenant load` and `stage`: --may-lose NAME, or '*' for all)"
            ),
            Refusal::Update(id, error) => write!(f, "vPDP {id} keeps its program: {error}"),
            Refusal::Exceeded(id, error) => write!(f, "vPDP {id} keeps its quotas: {error}"),
            Refusal::Compile(error) => error.fmt(f),
            Refusal::Import(error) => {
                write!(f, "the exported state does not fit its program: {error}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl From<WiringError> for Refusal {
    fn from(error: WiringError) -> Self {
        Refusal::Wiring(error)
    }
}

impl Refusal {
    pub(crate) fn load(id: VpdpId, error: &LoadError) -> Refusal {
        Refusal::Load(id, error.to_string())
    }
}

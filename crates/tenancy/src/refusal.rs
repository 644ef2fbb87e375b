//! Errors of control operations. After an error nothing is changed.

use std::fmt;

use passes::compose::ComposeError;
use passes::edit::EditError;
use passes::slots::SlotError;
use switch::{AdoptError, ControlError, Exceeded, LoadError};

use crate::compiler::CompileError;
use crate::vpdp::{VirtualPort, VpdpId};
use crate::wiring::WiringError;

/// Error of a control operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// No vPDP has this number.
    NoSuchVpdp(VpdpId),
    /// Another vPDP has the number.
    NumberTaken(VpdpId),
    /// Another vPDP has the name.
    NameTaken(String, VpdpId),
    /// All vPDP numbers are used.
    NoNumberLeft,
    /// The port map is invalid.
    Wiring(WiringError),
    /// The vPDP cannot be deleted: a link or a rule uses it.
    InUse(VpdpId, Use),
    /// The vPDP has a program already.
    HasProgram(VpdpId),
    /// The vPDP has no program.
    NoProgram(VpdpId),
    /// There is no earlier program to roll back to.
    NothingBefore(VpdpId),
    /// The chain cannot be composed into one program.
    Compose(VpdpId, Box<ComposeError>),
    /// The program does not fit into the stage slots.
    Slots(VpdpId, SlotError),
    /// The program that was edited is no longer the running one.
    Changed(VpdpId),
    /// The edit of a stage is invalid.
    Edit(VpdpId, Box<EditError>),
    /// The program cannot be loaded.
    Load(VpdpId, String),
    /// The vPDP keeps its program: the new one loses state that must be kept, or exceeds the
    /// quotas.
    Update(VpdpId, AdoptError),
    /// The vPDP already holds more than the new quotas allow.
    Exceeded(VpdpId, Exceeded),
    /// The exported state does not fit its program.
    Import(ControlError),
    /// Compiling the program takes more than the quotas allow.
    Compile(CompileError),
}

/// Reference to a vPDP that prevents its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A link from one of its ports to a port of another vPDP.
    Link(VirtualPort, VirtualPort),
    /// A rule that assigns packets to it.
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

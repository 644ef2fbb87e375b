//! Errors of control operations. After an error nothing is changed.

use std::fmt;

use passes::compose::ComposeError;
use passes::edit::EditError;
use passes::slots::SlotError;
use switch::{AdoptError, ControlError, Exceeded, LoadError};

use crate::compiler::CompileError;
use crate::port_map::PortMapError;
use crate::vpdp::{VirtualPort, VpdpId};

/// Error of a control operation.
#[derive(Clone, Debug, PartialEq)]
pub enum HypervisorError {
    /// No vPDP has this number.
    NoSuchVpdp(VpdpId),
    /// Another vPDP has the number.
    NumberTaken(VpdpId),
    /// Another vPDP has the name.
    NameTaken(String, VpdpId),
    /// All vPDP numbers are used.
    NoNumberLeft,
    /// The port map is invalid.
    Wiring(PortMapError),
    /// The vPDP cannot be deleted: these links and rules use it.
    InUse(VpdpId, Vec<Use>),
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

/// Maximum number of uses of a vPDP that an error names.
const MAX_SHOWN_USES: usize = 10;

/// Reference to a vPDP that prevents its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A link from one of its ports to a port of another vPDP.
    Link(VirtualPort, VirtualPort),
    /// A rule that assigns packets to it.
    Rule(String),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Link(port, other) => write!(f, "{port} is linked to {other}"),
            Use::Rule(name) => write!(f, "the rule `{name}` leads packets to it"),
        }
    }
}

impl Use {
    /// Returns the command that removes it.
    fn removal(&self) -> String {
        match self {
            Use::Link(port, _) => {
                format!("`polyplane tenant unlink {}:{}`", port.vpdp, port.port)
            }
            Use::Rule(name) => format!("`polyplane tenant delete-rule '{name}'`"),
        }
    }
}

impl fmt::Display for HypervisorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HypervisorError::NoSuchVpdp(id) => write!(f, "there is no vPDP {id}"),
            HypervisorError::NumberTaken(id) => {
                write!(f, "there is a vPDP {id} already; take another number")
            }
            HypervisorError::NameTaken(name, id) => {
                write!(f, "vPDP {id} is called `{name}` already; take another name")
            }
            HypervisorError::NoNumberLeft => {
                write!(
                    f,
                    "a switch has at most {} vPDPs; delete one first",
                    VpdpId::MAX
                )
            }
            HypervisorError::Wiring(error) => error.fmt(f),
            HypervisorError::InUse(id, uses) => {
                let shown = &uses[..uses.len().min(MAX_SHOWN_USES)];
                let uses_text: Vec<String> = shown.iter().map(Use::to_string).collect();
                let removals: Vec<String> = shown.iter().map(Use::removal).collect();
                let more = match uses.len() - shown.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                write!(
                    f,
                    "vPDP {id} is in use: {}{more}; remove that first: {}",
                    uses_text.join(", "),
                    removals.join(", ")
                )
            }
            HypervisorError::HasProgram(id) => {
                write!(f, "vPDP {id} has a program; update it, or remove it first")
            }
            HypervisorError::NoProgram(id) => write!(f, "vPDP {id} has no program; load one first"),
            HypervisorError::NothingBefore(id) => {
                write!(f, "vPDP {id} had no other program to go back to")
            }
            HypervisorError::Compose(id, error) => {
                write!(f, "vPDP {id} cannot run the chain: {error}")
            }
            HypervisorError::Slots(id, error) => write!(
                f,
                "the stage slots do not hold the program of vPDP {id}: {error}"
            ),
            HypervisorError::Changed(id) => write!(
                f,
                "vPDP {id} runs another program by now than the one whose stage was to be changed; look at its stages and ask again"
            ),
            HypervisorError::Edit(id, error) => write!(f, "vPDP {id} keeps its stages: {error}"),
            HypervisorError::Load(id, error) => {
                write!(f, "vPDP {id} cannot run the program: {error}")
            }
            HypervisorError::Update(id, error @ AdoptError::WouldLose(_)) => write!(
                f,
                "vPDP {id} keeps its program: {error}; say what may be lost (`polyplane tenant load` and `stage`: --may-lose NAME, or '*' for all)"
            ),
            HypervisorError::Update(id, error) => write!(f, "vPDP {id} keeps its program: {error}"),
            HypervisorError::Exceeded(id, error) => {
                write!(f, "vPDP {id} keeps its quotas: {error}")
            }
            HypervisorError::Compile(error) => error.fmt(f),
            HypervisorError::Import(error) => {
                write!(f, "the exported state does not fit its program: {error}")
            }
        }
    }
}

impl std::error::Error for HypervisorError {}

impl From<PortMapError> for HypervisorError {
    fn from(error: PortMapError) -> Self {
        HypervisorError::Wiring(error)
    }
}

impl HypervisorError {
    pub(crate) fn load(id: VpdpId, error: &LoadError) -> HypervisorError {
        HypervisorError::Load(id, error.to_string())
    }
}

//! Errors of composing a chain.

use std::fmt;

use ir::{Arch, ScalarTy, VerifyError};

use super::policy::Position;
use crate::link::LinkError;

/// Error of [`compose`](super::compose()), with its position in the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ComposeError {
    /// Position in the policy's text; `None` if the error has no position.
    pub at: Option<Position>,
    /// The error.
    pub problem: ComposeProblem,
}

/// An error in a chain.
#[derive(Clone, Debug, PartialEq)]
pub enum ComposeProblem {
    /// A step has no program.
    UnknownStep {
        /// The step.
        step: String,
        /// The steps that have one.
        known: Vec<String>,
    },
    /// Two steps have one name.
    StepTwice {
        /// The name.
        step: String,
        /// Position of the first one.
        first: Position,
    },
    /// A step's architecture does not support chains.
    Architecture {
        /// The step.
        step: String,
        /// Its architecture.
        arch: Arch,
    },
    /// A step expects packets to begin with a header that the step before does not send first.
    UnknownHeader {
        /// The step that expects it.
        step: String,
        /// The header type, and the widths of its fields.
        expected: String,
        /// The step before.
        before: String,
        /// The header types that its packets begin with.
        sent: Vec<String>,
    },
    /// A step's declarations conflict with those of the steps before it.
    Link {
        /// The step.
        step: String,
        /// The conflict.
        error: LinkError,
    },
    /// A condition uses an unknown or an ambiguous name.
    UnknownName {
        /// Kind of the item that was expected.
        what: &'static str,
        /// The name.
        name: String,
        /// True if several items have the name.
        is_ambiguous: bool,
        /// The step of which fields are visible, if any.
        step: Option<String>,
    },
    /// A condition reads a field that cannot be compared with numbers.
    NotComparable {
        /// The field.
        name: String,
        /// Its type.
        ty: ScalarTy,
    },
    /// A condition reads bits that a field does not have.
    NoSuchBits {
        /// The field.
        name: String,
        /// Its type.
        ty: ScalarTy,
        /// The highest bit.
        high: u32,
        /// The lowest bit.
        low: u32,
    },
    /// A condition compares two numbers.
    ComparesNumbers,
    /// The types of a condition's sides differ.
    ConditionType {
        /// The one type.
        found: ScalarTy,
        /// The other.
        expected: ScalarTy,
    },
    /// A number does not fit the type that it is compared with.
    BadNumber {
        /// The number.
        text: String,
        /// The type.
        ty: ScalarTy,
    },
    /// The chain is not valid IR although each program is, for instance because it is too large.
    Verify(Vec<VerifyError>),
}

impl ComposeError {
    pub(super) fn at(at: Position, problem: ComposeProblem) -> ComposeError {
        ComposeError {
            at: Some(at),
            problem,
        }
    }
}

impl From<ComposeProblem> for ComposeError {
    fn from(problem: ComposeProblem) -> ComposeError {
        ComposeError { at: None, problem }
    }
}

impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}: {}", self.problem),
            None => write!(f, "{}", self.problem),
        }
    }
}

impl std::error::Error for ComposeError {}

impl fmt::Display for ComposeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComposeProblem::UnknownStep { step, known } if known.is_empty() => {
                write!(
                    f,
                    "there is no program for the step `{step}`; there are no programs at all"
                )
            }
            ComposeProblem::UnknownStep { step, known } => {
                let known = known.join(", ");
                write!(
                    f,
                    "there is no program for the step `{step}`; there are {known}"
                )
            }
            ComposeProblem::StepTwice { step, first } => write!(
                f,
                "a step `{step}` stands at {first} already, and its tables would have the same names; name this one, as in `{step}2 = {step}`"
            ),
            ComposeProblem::Architecture { step, arch } => write!(
                f,
                "the step `{step}` is written for {arch:?}; a chain of several steps is made of programs for V1model"
            ),
            ComposeProblem::UnknownHeader {
                step,
                expected,
                before,
                sent,
            } => write!(
                f,
                "the step `{step}` expects packets to begin with {expected}, but those that `{before}` sends begin with {}; put a step between \
                 that adds or removes the headers which differ",
                sent.join(" or ")
            ),
            ComposeProblem::Link { step, error } => write!(f, "the step `{step}`: {error}"),
            ComposeProblem::UnknownName {
                what,
                name,
                is_ambiguous,
                step,
            } => unknown_name(f, what, name, *is_ambiguous, step.as_deref()),
            ComposeProblem::NotComparable { name, ty } => {
                write!(
                    f,
                    "`{name}` is {}, which a condition cannot compare",
                    p4(*ty)
                )
            }
            ComposeProblem::NoSuchBits {
                name,
                ty,
                high,
                low,
            } => write!(f, "`{name}` is {} and has no bits [{high}:{low}]", p4(*ty)),
            ComposeProblem::ComparesNumbers => {
                write!(
                    f,
                    "two numbers are compared; a condition asks for a field of the packet"
                )
            }
            ComposeProblem::ConditionType { found, expected } => write!(
                f,
                "{} is compared with {}; choose bits of the wider one, as in `hdr.ipv4.dst[31:24]`",
                p4(*found),
                p4(*expected)
            ),
            ComposeProblem::BadNumber { text, ty } => write!(f, "{text} is no {}", p4(*ty)),
            ComposeProblem::Verify(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the chain is too large for one pipeline: {}",
                    errors.join("; ")
                )
            }
        }
    }
}

fn unknown_name(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    name: &str,
    is_ambiguous: bool,
    step: Option<&str>,
) -> fmt::Result {
    match (is_ambiguous, step) {
        (true, _) => write!(
            f,
            "there are several {what}s `{name}`; write more of the name"
        ),
        (false, Some(step)) => write!(
            f,
            "there is no {what} `{name}` in standard metadata or in the program of the step before, {step}"
        ),
        (false, None) => write!(
            f,
            "there is no {what} `{name}` in standard metadata, which is all that a condition sees where packets do not all come from one step"
        ),
    }
}

/// Returns a type in P4 syntax.
fn p4(ty: ScalarTy) -> String {
    match ty {
        ScalarTy::Bit(width) => format!("bit<{width}>"),
        ScalarTy::Int(width) => format!("int<{width}>"),
        ScalarTy::Varbit(width) => format!("varbit<{width}>"),
        ScalarTy::Bool => "bool".to_owned(),
        ScalarTy::Error => "error".to_owned(),
        ScalarTy::Enum(_) => "an enum".to_owned(),
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::StandardMetadata {
                field,
                found,
                expected,
            } => write!(
                f,
                "{field} is {} here and {} in a step before; let all steps include the same v1model.p4",
                p4(*found),
                p4(*expected)
            ),
            LinkError::ControllerHeader { header } => write!(
                f,
                "the controller header {header} is declared in another way in a step before; a switch has one for each direction"
            ),
        }
    }
}

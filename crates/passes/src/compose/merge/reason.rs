//! Reasons why two steps of a chain are not merged.

use std::fmt;

use ir::Op;

/// Reason why packets are deparsed and parsed again between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A step calls an operation that affects only itself.
    Asks {
        /// The step.
        step: String,
        /// The operation.
        op: Op,
    },
    /// A step that others follow uses `exit`.
    Exits {
        /// The step.
        step: String,
    },
    /// A step's parser does more than extract headers and select by them.
    Parser {
        /// The step.
        step: String,
        /// The offending statement.
        does: &'static str,
    },
    /// A step's deparser does not emit exactly the headers that its parser extracted, in that
    /// order.
    Deparser {
        /// The step.
        step: String,
    },
    /// A step changes a value that the next step's parser decides by.
    Changes {
        /// The step.
        step: String,
        /// The field.
        field: String,
    },
    /// A step reads metadata that the device sets for each step.
    Reads {
        /// The step.
        step: String,
        /// The field.
        field: String,
    },
    /// The parsers differ.
    OtherParser {
        /// The step.
        step: String,
        /// The step before.
        before: String,
        /// The difference.
        differs: &'static str,
    },
    /// A choice tests metadata that the device sets for each step.
    Decides {
        /// The step before the choice.
        step: String,
        /// The field, as the condition names it.
        field: String,
    },
    /// The merged steps would not be a valid program.
    NotValid,
    /// The caller requested the unmerged form.
    AsAsked,
    /// Another edge into or out of one of the two steps stays separate, and this one with it.
    OtherWay {
        /// The step with the other edge.
        step: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asks { step, op } => write!(f, "`{step}` calls {}", op.name()),
            Reason::Exits { step } => write!(f, "`{step}` leaves its control by `exit`"),
            Reason::Parser { step, does } => write!(f, "the parser of `{step}` {does}"),
            Reason::Deparser { step } => write!(
                f,
                "the deparser of `{step}` does not just emit what its parser extracted, in that order"
            ),
            Reason::Changes { step, field } => {
                write!(
                    f,
                    "`{step}` changes {field}, by which the next parser decides"
                )
            }
            Reason::Reads { step, field } => {
                write!(f, "`{step}` reads {field}, which each step is told anew")
            }
            Reason::OtherParser {
                step,
                before,
                differs,
            } => write!(
                f,
                "the parsers of `{before}` and `{step}` differ in {differs}"
            ),
            Reason::Decides { step, field } => {
                write!(
                    f,
                    "the choice behind `{step}` asks for {field}, which each step is told anew"
                )
            }
            Reason::NotValid => write!(f, "as one program the steps would not be valid"),
            Reason::AsAsked => write!(f, "the chain was asked for step by step"),
            Reason::OtherWay { step } => {
                write!(f, "another way into or out of `{step}` stays apart")
            }
        }
    }
}

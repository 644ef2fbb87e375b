//! Why two steps of a chain stay apart.

use std::fmt;

use ir::Op;

/// Why packets are deparsed and parsed again between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A step asks for something that concerns it alone.
    Asks {
        /// The step.
        step: String,
        /// What it asks for.
        op: Op,
    },
    /// A step that others follow leaves its control by `exit`.
    Exits {
        /// The step.
        step: String,
    },
    /// A step's parser does more than to extract headers and to choose by them.
    Parser {
        /// The step.
        step: String,
        /// What it does.
        does: &'static str,
    },
    /// A step's deparser does not emit the headers that its parser extracted, all of them and in that order.
    Deparser {
        /// The step.
        step: String,
    },
    /// A step changes what the next one's parser decides by.
    Changes {
        /// The step.
        step: String,
        /// The field.
        field: String,
    },
    /// A step reads what the device tells each step anew.
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
        /// In what they differ.
        differs: &'static str,
    },
    /// A choice asks for what each step is told anew.
    Decides {
        /// The step that it is behind.
        step: String,
        /// The field, as the condition calls it.
        field: String,
    },
    /// The steps as one would not be a valid program.
    NotValid,
    /// The chain was asked for step by step.
    AsAsked,
    /// Another way into, or out of, one of the two steps stays apart, and with it this one.
    OtherWay {
        /// The step with the other way.
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

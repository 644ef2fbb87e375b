//! The kernel's traffic control: flows as rules of the classifier `flower`.
//!
//! **In:** a [`Flow`](crate::Flow). **Out:** a [`FlowerRule`] that matches no other packet and
//! makes the same frames, or the reason why there is none. A [`Session`] gives rules to the kernel
//! and reads them back.

mod codec;
mod counts;
mod priority;
mod rule;
mod session;
mod sys;
mod text;
mod translate;

pub use counts::Counts;
pub use priority::Priorities;
pub use rule::{Action, Field, FlowerRule, Key, PeditHeader, PeditKey, RulePlanes};
pub use session::{Installed, RulePlace, Session, TcError};
pub use translate::{Interfaces, TranslateOptions, translate};

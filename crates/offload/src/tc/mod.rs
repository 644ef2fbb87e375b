//! The kernel's traffic control: flows as rules of the classifier `flower`.
//!
//! **In:** a [`Flow`](crate::Flow). **Out:** a [`FlowerRule`] that matches no other packet and
//! makes the same frames, or the reason why there is none. A [`Session`] gives rules to the kernel
//! and reads them back. A [`TcTarget`] is the [`Target`](crate::Target) for interfaces.

mod codec;
mod cookie;
mod counts;
mod ports;
mod priority;
mod probe;
mod queue;
mod rule;
mod session;
mod sys;
mod target;
mod text;
mod translate;
mod writer;

pub use counts::Counts;
pub use ports::{InterfaceState, TcPort, TcPortReport};
pub use priority::Priorities;
pub use queue::TcCounts;
pub use rule::{Action, Field, FlowerRule, Key, PeditHeader, PeditKey, RulePlanes};
pub use session::{Installed, RulePlace, Session, TcError};
pub use target::{TcReport, TcTarget, TcTargetOptions};
pub use translate::{Interfaces, TranslateOptions, translate};

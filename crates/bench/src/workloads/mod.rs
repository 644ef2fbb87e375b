//! The workloads that are built in: one file each, with its loop.
//!
//! To add one, write its program in `programs/`, implement [`Workload`] beside the others and list it here; the comparison of every workload with
//! its loop, the command and its list take it from there.

mod flat;
mod l2;
mod l3;

use crate::Workload;

/// How much there is in a workload's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What its name stands for.
    Full,
    /// Hundreds of entries: enough to test what a loop does.
    Small,
}

/// How a workload is made.
pub type Make = fn(Size) -> Box<dyn Workload>;

/// All of them, by name, in the order in which they are shown.
pub const ALL: &[(&str, Make)] = &[
    ("l2", |size| Box::new(l2::Switch::new(size))),
    ("l3", |size| Box::new(l3::Router::new(size))),
];

/// The workload of this name.
pub fn find(name: &str) -> Option<Box<dyn Workload>> {
    let (_, make) = ALL.iter().find(|(other, _)| *other == name)?;
    Some(make(Size::Full))
}

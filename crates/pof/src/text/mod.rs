//! The objects of a switch as lines of text: tables, entries, groups, meters, counters.
//!
//! [`TextReader`] reads a line to the message that it stands for, [`write`] writes a message.
//! [`Forwarder::make_text`](crate::Forwarder::make_text) makes the objects of all lines. The help
//! of `polyplane pof ctl` describes the language. Reading what was written returns the same
//! message, but for unused bits after a field's width.

mod make;
mod read;
mod tokens;
mod value;
mod write;

use std::collections::BTreeSet;
use std::fmt;

use crate::model::Action;
use crate::wire::{Body, GroupMod};

pub use make::MakeTextError;
pub use read::TextReader;
pub(crate) use write::table_name;
pub use write::{TABLE_TYPES, write};

/// Error in a line: its place, what is wrong there, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTextError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Column of the word, from 1.
    pub column: usize,
    /// Cause and remedy.
    pub message: String,
}

impl fmt::Display for ObjectTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectTextError {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

impl std::error::Error for ObjectTextError {}

/// Returns the counters that an object uses. The switch makes them with the object.
fn counters_of(body: &Body) -> Vec<u32> {
    let (own, actions): (u32, Vec<&Action>) = match body {
        Body::FlowMod(flow) => (
            flow.counter,
            flow.instructions
                .iter()
                .flat_map(|one| one.actions())
                .collect(),
        ),
        Body::GroupMod(GroupMod {
            counter, actions, ..
        }) => (*counter, actions.iter().collect()),
        _ => return Vec::new(),
    };
    let counted = actions.into_iter().filter_map(|action| match action {
        Action::Counter(id) => Some(*id),
        _ => None,
    });
    let all = std::iter::once(own).chain(counted);
    all.filter(|id| *id != 0).collect()
}

/// Returns the position of an object's line in a dump: each object comes after those that it may
/// refer to.
fn rank(body: &Body) -> u8 {
    match body {
        Body::TableMod(_) => 0,
        Body::MeterMod(_) => 1,
        Body::GroupMod(_) => 2,
        Body::FlowMod(_) => 3,
        _ => 4,
    }
}

/// Returns the message that makes the object of an answer. Returns `None` for messages that stand
/// for no object.
pub fn as_add(answer: &Body) -> Option<Body> {
    use crate::wire::{Command, Counter, CounterCommand, FlowCommand};
    let mut body = answer.clone();
    match &mut body {
        Body::TableMod(table) => table.command = Command::Add,
        Body::MeterMod(meter) => meter.command = Command::Add,
        Body::GroupMod(group) => group.command = Command::Add,
        Body::FlowMod(flow) => flow.command = FlowCommand::Add,
        Body::CounterReply(counter) => {
            return Some(Body::CounterMod(Counter {
                command: CounterCommand::Add,
                packets: 0,
                bytes: 0,
                ..*counter
            }));
        }
        _ => return None,
    }
    Some(body)
}

/// Returns the messages that make the state of which a switch's answer to QUERYALL consists, in an
/// order in which a switch takes them.
pub fn remake(answer: &[Body]) -> Vec<Body> {
    use crate::wire::{Counter, CounterCommand};
    let mut used: BTreeSet<u32> = answer.iter().flat_map(counters_of).collect();
    let mut made = Vec::new();
    for body in answer {
        let is_made_by_user =
            matches!(body, Body::CounterReply(counter) if used.remove(&counter.id));
        if !is_made_by_user {
            made.extend(as_add(body));
        }
    }
    // A controller may delete a counter that an entry goes on to use.
    made.extend(used.into_iter().map(|id| {
        Body::CounterMod(Counter {
            command: CounterCommand::Delete,
            slot: 0,
            id,
            packets: 0,
            bytes: 0,
        })
    }));
    made.sort_by_key(rank);
    made
}

//! Crate `consensus`: the replicated log. Nodes agree by Raft on a sequence of entries of fixed
//! layout, and each applies them to an equal state: a key-value table, what managed elements have,
//! and the sessions of clients.
//!
//! **In:** bytes of messages of other nodes, requests and reads of clients, the time of the
//! caller's clock, and the notice that a write to disk is complete. **Out:** bytes of messages,
//! writes to keep on disk, events: answers, changes to send to elements.
//!
//! The caller drives a [`RaftNode`]. Inputs ([`RaftNode::receive`], [`RaftNode::tick`],
//! [`RaftNode::propose`], [`RaftNode::read`], [`RaftNode::persisted`] and others) change the node.
//! Then the caller calls [`RaftNode::flush`], which makes the messages for all of them together,
//! and takes the outputs: [`RaftNode::persist`], [`RaftNode::send`], [`RaftNode::next_event`]. So
//! one message carries the entries of many requests, one sync keeps them, and the batch is the
//! caller's choice. A message that promises what is not on disk yet is held until the caller
//! reports the write as complete.
//!
//! It may not import other crates than `support`. It has no I/O, clock or thread; time and seed are
//! inputs.
//!
//! Invariants:
//! - A message is checked once, where it comes in. No bytes cause a panic.
//! - Results depend on the inputs and the seed alone.
//! - After the first requests there is no allocation while a leader replicates and commits.
//! - All work of one input is bounded by the sizes in [`Config`]; a snapshot is taken a few cells
//!   at a time and sent in pieces.
//! - No mistake of `mistake.rs` can be chosen outside of this crate's tests.
//!
//! docs/internals/consensus.md has the rules of the protocol, the arguments for its safety and the
//! layout of messages. Tests: in each module; `sim` simulates clusters with faults by seed, and
//! `sim/tests.rs` also plants mistakes that it finds. The example `random` runs any seeds,
//! `write_latency` measures.

#[cfg(test)]
extern crate self as consensus;

mod client_message;
mod entry;
mod fence;
mod ids;
mod log;
mod members;
mod message;
mod mistake;
mod node;
#[cfg(test)]
mod sim;
mod state;
mod wire;

pub use client_message::{ClientBody, ClientMessage};
pub use entry::{
    ChangeBytes, ElementId, Entry, KEY_BYTES, Key, MAX_CHANGE, MAX_ENTRY, MAX_VALUE, Operation,
    Payload, Request, ShortBytes, StoredValue,
};
pub use fence::{Admission, Fence};
pub use ids::{ClientId, LogIndex, NodeId, Term};
pub use members::{MAX_MEMBERS, MemberRole, Membership, MembershipChange};
pub use message::{
    Entries, HEADER, MAX_MESSAGE, MessageBody, MessageError, PeerMessage, TAG_BYTES, VoteKind,
    crc32c,
};
pub use node::{
    Ack, Config, Counts, Keep, NodeEvent, Persist, RaftNode, RaftRole, ReadMode, Refusal, Saved,
};
pub use state::{Capacity, ElementChange, MAX_SESSIONS, RequestAnswer, Snapshot, is_reserved};

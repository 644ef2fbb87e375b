//! Membership of an engine in a group: its submissions, one after the other.

use std::collections::VecDeque;

use aggregate::{FlowConfig, Input, Mapper, Reducer, Vector};
use packet::Nanos;

use super::connection::EngineOutbox;
use super::frame::{FrameKind, JoinRequest, Submission};

/// An engine that has joined a group.
pub(crate) struct GroupMember {
    pub(crate) request: JoinRequest,
    pub(crate) outbox: EngineOutbox,
    /// Vectors that wait for those before them.
    queue: VecDeque<Submission>,
    /// True if a vector is reduced.
    is_under_way: bool,
    /// True if all ranks are there.
    has_joined: bool,
    /// True if the engine wants to leave.
    is_leaving: bool,
    /// True after an error, until the master ends the group.
    has_failed: bool,
}

impl GroupMember {
    pub(crate) fn new(request: JoinRequest, outbox: EngineOutbox) -> GroupMember {
        GroupMember {
            request,
            outbox,
            queue: VecDeque::new(),
            is_under_way: false,
            has_joined: false,
            is_leaving: false,
            has_failed: false,
        }
    }

    pub(crate) fn push(&mut self, submission: Submission) {
        self.queue.push_back(submission);
    }

    /// Lets it leave when nothing of it is under way. Returns false if the group has not begun.
    pub(crate) fn leave(&mut self) -> bool {
        self.is_leaving = true;
        self.has_joined
    }

    /// Returns true if the engine wants to leave and nothing of it is under way.
    pub(crate) fn has_left(&self) -> bool {
        self.is_leaving && self.queue.is_empty() && !self.is_under_way
    }

    pub(crate) fn joined(&mut self, body: &impl serde::Serialize) {
        self.has_joined = true;
        self.outbox.json(FrameKind::Joined, body);
    }

    /// Submits the next vector to the engine's mapper, and sends the result of the one before.
    /// Call it after each message and each new vector.
    ///
    /// # Errors
    /// A vector cannot be reduced, or a sum does not fit.
    pub(crate) fn drive(&mut self, mapper: &mut Mapper, now: Nanos) -> Result<(), String> {
        if self.has_failed {
            return Ok(());
        }
        let driven = self.move_on(mapper, now);
        self.has_failed = driven.is_err();
        driven
    }

    fn move_on(&mut self, mapper: &mut Mapper, now: Nanos) -> Result<(), String> {
        if self.is_under_way
            && let Some(vector) = take_result(mapper)
        {
            self.is_under_way = false;
            check_range(&vector)?;
            self.outbox.reduced(vector);
        }
        if !self.is_under_way
            && let Some(next) = self.queue.pop_front()
        {
            self.is_under_way = true;
            submit(mapper, next, now)?;
        }
        Ok(())
    }
}

/// Returns an error if a sum of integers is none of 32 bits.
fn check_range(vector: &Vector) -> Result<(), String> {
    let Vector::Integers(values) = vector else {
        return Ok(());
    };
    match values
        .iter()
        .position(|value| i32::try_from(*value).is_err())
    {
        Some(index) => Err(format!(
            "value {index} of the result is {}, which does not fit into 32 bits; send smaller \
             values",
            values[index]
        )),
        None => Ok(()),
    }
}

// The functions below are all that depends on the mapper and the reducer of a group. Until the
// crate `aggregate` has these, a member can join and leave, and a submission is refused.

/// Creates the mapper of a rank.
pub(crate) fn mapper_of(flows: FlowConfig, flow: u16) -> Result<Mapper, String> {
    let nothing: Input = Input::Floats(std::sync::Arc::new([]));
    Mapper::new(flows, flow, nothing).map_err(|error| error.to_string())
}

fn submit(_: &mut Mapper, _: Submission, _: Nanos) -> Result<(), String> {
    Err("this version reduces no vectors of groups yet".to_owned())
}

/// Returns true if a reducer needs a load of its switches before it goes on.
pub(crate) fn wants_load(_: &Reducer) -> bool {
    false
}

fn take_result(_: &mut Mapper) -> Option<Vector> {
    None
}

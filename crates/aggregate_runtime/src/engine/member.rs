//! Membership of an engine in a group: its submissions, one after the other.

use std::collections::VecDeque;

use aggregate::Mapper;
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
    /// A vector cannot be reduced.
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
            && let Some(vector) = mapper.take_result()
        {
            self.is_under_way = false;
            self.outbox.reduced(vector);
        }
        if !self.is_under_way
            && let Some(Submission { operator, input }) = self.queue.pop_front()
        {
            self.is_under_way = true;
            let submitted = mapper.submit(input, operator, now);
            submitted.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

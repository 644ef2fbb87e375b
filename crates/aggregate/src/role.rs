//! A mapper or a reducer on a host, with the addresses of those to which it sends.

use packet::Nanos;

use crate::mapper::Mapper;
use crate::message::{Body, Flags, Kind, Message};
use crate::reducer::Reducer;

/// A mapper or a reducer on a host. `A` is what a message is sent to.
pub enum Role<A> {
    /// A mapper of the flow, and its reducer's address.
    Mapper {
        /// The mapper.
        mapper: Box<Mapper>,
        /// Number of the reduction.
        job: u16,
        /// Number of the flow.
        flow: u16,
        /// The reducer.
        reducer: A,
    },
    /// A reducer, with the host to which messages of each flow go. Messages to a switch go to
    /// the switch's own address.
    Reducer {
        /// The reducer.
        reducer: Box<Reducer>,
        /// Number of the reduction.
        job: u16,
        /// Destinations by flow.
        flows: Vec<A>,
    },
}

impl<A: Copy> Role<A> {
    /// Returns the next message to send now, if there is one.
    pub fn poll(&mut self, now: Nanos) -> Option<(A, Message)> {
        match self {
            Role::Mapper {
                mapper, reducer, ..
            } => mapper.poll(now).map(|message| (*reducer, message)),
            Role::Reducer { reducer, flows, .. } => {
                let addressed = reducer.poll(now)?;
                let to = flows.get(usize::from(addressed.flow))?;
                Some((*to, addressed.message))
            }
        }
    }

    /// Processes a message. Returns false if it is not for this role.
    pub fn receive(&mut self, message: &Message, now: Nanos) -> bool {
        let header = &message.header;
        let is_for_mapper = matches!(
            message.body,
            Body::Receipts(_) | Body::Taken | Body::State(_)
        ) || header.kind == Kind::Result && header.flags.has(Flags::ACK);
        let is_reply = header.kind == Kind::Reply;
        let is_request = header.kind == Kind::Collect
            || header.kind == Kind::Clear && !header.flags.has(Flags::ACK);
        match self {
            Role::Mapper {
                mapper, job, flow, ..
            } if is_for_mapper && (*job, *flow) == (header.job, header.flow) => {
                mapper.receive(message, now);
                true
            }
            Role::Reducer { reducer, job, .. }
                if !is_for_mapper && !is_request && *job == header.job =>
            {
                reducer.receive(message, now);
                true
            }
            Role::Mapper { mapper, job, .. } if is_reply && *job == header.job => {
                mapper.receive(message, now);
                mapper.gets_result()
            }
            _ => false,
        }
    }

    /// Returns the time of the next action without a message.
    pub fn next_time(&self) -> Option<Nanos> {
        match self {
            Role::Mapper { mapper, .. } => mapper.next_time(),
            Role::Reducer { reducer, .. } => reducer.next_time(),
        }
    }
}

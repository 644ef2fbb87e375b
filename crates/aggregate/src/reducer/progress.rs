//! Progress of a reducer: its mappers, epochs and switches.

use std::collections::{BTreeMap, VecDeque};

use packet::Nanos;

use crate::combined::Combined;
use crate::message::EpochCounts;
use crate::vector::LaneOperation;

/// Progress of a mapper in an epoch.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct FlowEpoch {
    pub(super) messages: u32,
    pub(super) left: u64,
    pub(super) absorbed: u64,
    /// The mapper's own counts.
    pub(super) end: Option<EpochCounts>,
}

impl FlowEpoch {
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| end.messages == self.messages)
    }
}

/// An announced epoch.
#[derive(Clone)]
pub(super) struct Epoch {
    /// Place of its last key.
    pub(super) end: u32,
    pub(super) flows: Vec<FlowEpoch>,
    pub(super) partial: Combined,
}

/// Input of a mapper, as its question describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// Number of keys, or of values of a vector.
    pub(super) keys: u64,
    /// The operation on a vector.
    pub(super) lanes: Option<LaneOperation>,
}

/// Received messages of a mapper.
#[derive(Clone, Default)]
pub(super) struct Received {
    /// All messages before it have a receipt, here or of a switch.
    pub(super) base: u32,
    /// True for each message from the base on that has arrived here.
    pub(super) arrived: VecDeque<bool>,
    pub(super) heard_at: Nanos,
    /// The mapper's input.
    pub(super) asked: Option<Asked>,
    /// The mapper's next input, if it has come before those of all others.
    pub(super) next: Option<Asked>,
    /// Number of the load with which the mapper began. 0: it is the flow's first one.
    pub(super) since: u32,
}

impl Received {
    /// Notes the arrival of a message, by its offset from the base. A mapper sends it after the
    /// receipts of all that are a window older.
    pub(super) fn note(&mut self, offset: u32, window: u32) {
        let passed = (offset + 1).saturating_sub(window);
        self.base = self.base.wrapping_add(passed);
        self.arrived
            .drain(..self.arrived.len().min(passed as usize));
        let offset = (offset - passed) as usize;
        let len = self.arrived.len().max(offset + 1);
        self.arrived.resize(len, false);
        self.arrived[offset] = true;
        while self.arrived.front() == Some(&true) {
            self.arrived.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}

/// Collection of the slots of a switch.
#[derive(Clone, Default)]
pub(super) struct Collection {
    /// Sequence number of the next request of this incarnation.
    pub(super) next_sequence: u32,
    /// Next slot to request.
    pub(super) next_slot: u32,
    /// Number of slots, when a reply has arrived.
    pub(super) used: Option<u32>,
    /// Requests without a reply, by sequence number.
    pub(super) requests: BTreeMap<u32, Request>,
    pub(super) counts: u64,
    pub(super) heard_at: Nanos,
}

impl Collection {
    pub(super) fn begin(&mut self, now: Nanos) {
        self.next_slot = 0;
        self.used = None;
        self.counts = 0;
        self.heard_at = now;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.used.is_some_and(|used| self.next_slot >= used) && self.requests.is_empty()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) first: u32,
    pub(super) at: Nanos,
    pub(super) transmissions: u32,
}

/// Order to a switch to forget an epoch.
#[derive(Clone, Copy)]
pub(super) struct Clearing {
    pub(super) at: Nanos,
    pub(super) transmissions: u32,
}

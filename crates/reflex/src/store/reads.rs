//! Reads of keys: they take no entry of the log. The leader shows that it leads by a round of
//! messages, or by its lease; a node in another process asks it for the index to wait for.

use consensus::{Key, NodeEvent, RequestAnswer, StoredValue};
use packet::Nanos;

use super::{ReplicaGroup, RequestId, StoreEvent};

/// A read without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRead {
    pub(super) id: RequestId,
    pub(super) key: Key,
    /// Place of the replica that was asked.
    pub(super) asked: Option<usize>,
}

impl ReplicaGroup {
    /// Returns the value of a key that the node of this process with the most applied entries has:
    /// perhaps an older one.
    pub(crate) fn local_value(&self, key: &Key) -> Option<StoredValue> {
        let nodes = self.replicas.iter().map(|replica| &replica.node);
        let newest = nodes.max_by_key(|node| node.applied())?;
        newest.local_value(key)
    }

    /// Returns the time between two messages of a leader.
    pub(crate) fn heartbeat(&self) -> Nanos {
        self.heartbeat
    }

    /// Asks for the values of reads that no replica was asked for, or one that stopped.
    pub(super) fn ask_reads(&mut self, now: Nanos) {
        let leads_elsewhere = self.other_leader().is_some();
        let Some(at) = self.leader().or(leads_elsewhere.then_some(0)) else {
            return;
        };
        for read in &mut self.reads {
            let waits = read.asked.is_some_and(|it| !self.replicas[it].is_stopped);
            if !waits {
                let node = &mut self.replicas[at].node;
                // One that refuses is asked again in the next step.
                let is_taken = node.read(now.0, read.key, read.id.0).is_ok();
                read.asked = is_taken.then_some(at);
            }
        }
    }

    /// Takes a node's answer to a read.
    pub(super) fn take_read(&mut self, event: &NodeEvent) {
        match *event {
            NodeEvent::Read { token, value } => {
                let is_own = |read: &WaitingRead| read.id.0 == token;
                if let Some(at) = self.reads.iter().position(is_own) {
                    let read = self.reads.remove(at);
                    let answer = RequestAnswer::Value(value);
                    self.events.push_back(StoreEvent::Answered(read.id, answer));
                }
            }
            NodeEvent::ReadFailed { token } => {
                for read in self.reads.iter_mut().filter(|read| read.id.0 == token) {
                    read.asked = None;
                }
            }
            _ => {}
        }
    }
}

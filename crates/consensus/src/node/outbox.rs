//! Messages that wait to be sent: for the caller, and for the disk.

use crate::ids::NodeId;
use crate::message::{MAX_MESSAGE, PeerMessage};

/// Bytes that wait at most. Further messages are dropped, as a network does.
const MAX_WAITING: usize = 256 * MAX_MESSAGE;

/// Encoded messages in their order.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    messages: Vec<Waiting>,
    pub(super) dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    to: NodeId,
    /// Number of the write that must be complete before.
    needs: u64,
    begin: usize,
    end: usize,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            bytes: Vec::with_capacity(8 * MAX_MESSAGE),
            messages: Vec::with_capacity(64),
            dropped: 0,
        }
    }

    /// Drops a held message that is held already, and sorts: for a network that repeats messages
    /// and changes their order.
    #[cfg(test)]
    pub(super) fn merge_equal(&mut self) {
        let bytes = &self.bytes;
        let content = |message: &Waiting| (message.to, &bytes[message.begin..message.end]);
        let order = |message: &Waiting| (content(message), message.needs);
        self.messages
            .sort_by(|one, other| order(one).cmp(&order(other)));
        self.messages
            .dedup_by(|later, first| content(later) == content(first));
    }

    #[cfg(test)]
    pub(super) fn hash_into(&self, done: u64, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        for message in &self.messages {
            let bytes = &self.bytes[message.begin..message.end];
            (message.to, message.needs.saturating_sub(done), bytes).hash(hasher);
        }
    }

    pub(super) fn push(&mut self, cluster: u64, needs: u64, message: &PeerMessage<'_>) {
        if self.bytes.len() + MAX_MESSAGE > MAX_WAITING {
            self.dropped += 1;
            return;
        }
        let begin = self.bytes.len();
        message.encode(cluster, &mut self.bytes);
        let end = self.bytes.len();
        self.messages.push(Waiting {
            to: message.to,
            needs,
            begin,
            end,
        });
    }

    /// Sends all messages that need no later write than `done`.
    pub(super) fn send(&mut self, done: u64, mut send: impl FnMut(NodeId, &[u8])) {
        let bytes = &self.bytes;
        self.messages.retain(|message| {
            let is_held = message.needs > done;
            if !is_held {
                send(message.to, &bytes[message.begin..message.end]);
            }
            is_held
        });
        if self.messages.is_empty() {
            self.bytes.clear();
        } else if self.bytes.len() > MAX_WAITING / 2 {
            self.close_gaps();
        }
    }

    /// Moves the bytes of held messages to the front.
    fn close_gaps(&mut self) {
        let mut end = 0;
        for message in &mut self.messages {
            let len = message.end - message.begin;
            self.bytes.copy_within(message.begin..message.end, end);
            (message.begin, message.end) = (end, end + len);
            end += len;
        }
        self.bytes.truncate(end);
    }
}

//! Reads without an entry: a leader confirms by a round of messages, or by a lease, that it leads,
//! and the read is done when the entries up to the index of that time are applied.

use std::collections::VecDeque;

use super::follower::read_failed;
use super::{NodeEvent, RaftNode, RaftRole, Refusal};
use crate::entry::Key;
use crate::ids::{LogIndex, NodeId};
use crate::message::MessageBody;
use crate::mistake::Mistake;

/// Origin of a read that a leader confirms.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A read at this node.
    Here { token: u64, key: Key },
    /// A request of another node.
    Node { node: NodeId, number: u64 },
}

/// Read that waits for a round.
#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    /// The round; 0 if it did not begin.
    round: u64,
    index: LogIndex,
    origin: Origin,
}

/// Read that waits for its index to be applied.
#[derive(Clone, Copy, Debug)]
struct Confirmed {
    index: LogIndex,
    token: u64,
    key: Key,
}

/// Read that waits for the leader's answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u64,
    token: u64,
    key: Key,
    end: u64,
}

/// All reads that wait.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Reads {
    /// Number of the last request to a leader. Numbers begin at random, so that no answer to a
    /// request of before a restart confirms a new one.
    number: u64,
    max: usize,
    unconfirmed: VecDeque<Unconfirmed>,
    confirmed: Vec<Confirmed>,
    asked: Vec<Asked>,
}

impl Reads {
    pub(super) fn new(number: u64, max: usize) -> Reads {
        Reads {
            number,
            max,
            unconfirmed: VecDeque::with_capacity(max),
            confirmed: Vec::with_capacity(max),
            asked: Vec::with_capacity(max),
        }
    }

    fn is_full(&self) -> bool {
        self.unconfirmed.len() + self.confirmed.len() + self.asked.len() >= self.max
    }

    /// Assigns a round to the reads that have none. Returns false if there are none.
    pub(super) fn begin_round(&mut self, round: u64) -> bool {
        let mut begins = false;
        for read in self.unconfirmed.iter_mut().rev() {
            if read.round != 0 {
                break;
            }
            read.round = round;
            begins = true;
        }
        begins
    }

    /// Fails the reads that this node would confirm as a leader.
    pub(super) fn fail_leading(&mut self, events: &mut VecDeque<NodeEvent>) {
        for read in self.unconfirmed.drain(..) {
            if let Origin::Here { token, .. } = read.origin {
                read_failed(events, token);
            }
        }
    }

    pub(super) fn expire(&mut self, now: u64, events: &mut VecDeque<NodeEvent>) {
        self.asked.retain(|read| {
            let stays = now < read.end;
            if !stays {
                read_failed(events, read.token);
            }
            stays
        });
    }
}

impl RaftNode {
    /// Reads a key: [`NodeEvent::Read`] has a value that was current at some time since now.
    ///
    /// # Errors
    /// The read was not taken.
    pub fn read(&mut self, now: u64, key: Key, token: u64) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        if self.reads.is_full() {
            return Err(Refusal::Full);
        }
        if self.role == RaftRole::Leader {
            if !self.may_confirm() {
                return Err(Refusal::TooEarly);
            }
            self.confirm(Origin::Here { token, key });
            return Ok(());
        }
        let leader = self.leader.ok_or(Refusal::NotLeader(None))?;
        self.reads.number = self.reads.number.wrapping_add(1);
        let number = self.reads.number;
        let end = self.now.saturating_add(self.config.election_timeout);
        self.reads.asked.push(Asked {
            number,
            token,
            key,
            end,
        });
        self.post(leader, MessageBody::ReadIndex { number });
        Ok(())
    }

    /// Returns true if this leader's commit index has all that was committed before its term.
    fn may_confirm(&self) -> bool {
        self.commit >= self.leading.noop || self.planted.is(Mistake::ReadsBeforeNoop)
    }

    /// Confirms a read at once by a lease, or by a round that begins later.
    fn confirm(&mut self, origin: Origin) {
        let index = self.commit;
        if self.has_lease() {
            self.read_confirmed(index, origin);
            self.finish_reads();
            return;
        }
        self.reads.unconfirmed.push_back(Unconfirmed {
            round: 0,
            index,
            origin,
        });
    }

    /// Takes note that a read is confirmed, or answers the node that asked.
    fn read_confirmed(&mut self, index: LogIndex, origin: Origin) {
        match origin {
            Origin::Here { token, key } => {
                self.reads.confirmed.push(Confirmed { index, token, key });
            }
            Origin::Node { node, number } => {
                let index = Some(index);
                self.post(node, MessageBody::ReadAt { number, index });
            }
        }
    }

    /// Takes the request of another node.
    pub(super) fn asked_index(&mut self, node: NodeId, number: u64) {
        if self.role != RaftRole::Leader || !self.may_confirm() || self.reads.is_full() {
            self.post(
                node,
                MessageBody::ReadAt {
                    number,
                    index: None,
                },
            );
            return;
        }
        self.confirm(Origin::Node { node, number });
    }

    /// Goes on with the reads of rounds that a majority answered.
    pub(super) fn confirm_reads(&mut self) {
        if self.reads.unconfirmed.is_empty() {
            return;
        }
        let mut round = self.confirmed_round();
        if self.planted.is(Mistake::ReadsWithoutQuorum) {
            round = u64::MAX;
        }
        if self.planted.is(Mistake::CountsEarlierRounds) && round > 0 {
            round = u64::MAX;
        }
        while let Some(read) = self.reads.unconfirmed.front()
            && read.round != 0
            && read.round <= round
        {
            let (index, origin) = (read.index, read.origin);
            self.reads.unconfirmed.pop_front();
            self.read_confirmed(index, origin);
        }
        self.finish_reads();
    }

    /// Takes the leader's answer.
    pub(super) fn may_read_at(&mut self, number: u64, index: Option<LogIndex>) {
        let Some(at) = self
            .reads
            .asked
            .iter()
            .position(|read| read.number == number)
        else {
            return;
        };
        let Asked { token, key, .. } = self.reads.asked.swap_remove(at);
        match index {
            Some(index) => self.reads.confirmed.push(Confirmed { index, token, key }),
            None => read_failed(&mut self.events, token),
        }
        self.finish_reads();
    }

    /// Ends the confirmed reads up to the applied index.
    pub(super) fn finish_reads(&mut self) {
        let applied = match self.planted.is(Mistake::ReadsBeforeApplied) {
            true => LogIndex(u64::MAX),
            false => self.state.applied(),
        };
        let mut reads = std::mem::take(&mut self.reads.confirmed);
        reads.retain(|read| {
            let stays = read.index > applied;
            if !stays {
                let (token, value) = (read.token, self.state.get(&read.key));
                self.events.push_back(NodeEvent::Read { token, value });
            }
            stays
        });
        self.reads.confirmed = reads;
    }
}

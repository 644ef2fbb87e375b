//! The follower: entries and snapshots of a leader.

use super::{NodeEvent, RaftNode};
use crate::entry::{Entry, Payload};
use crate::ids::{LogIndex, NodeId, Term};
use crate::message::{Entries, MessageBody, PeerMessage};
use crate::mistake::Mistake;

impl RaftNode {
    /// Takes entries of the leader of this term.
    pub(super) fn append(
        &mut self,
        leader: NodeId,
        (previous, previous_term): (LogIndex, Term),
        commit: LogIndex,
        round: u64,
        entries: Entries<'_>,
    ) {
        if !self.heard_leader(leader) {
            return;
        }
        let is_known = previous < self.log.base()
            || self.log.term(previous) == Some(previous_term)
            || self.planted.is(Mistake::AppendsWithoutPreviousTerm) && previous <= self.log.last();
        if !is_known {
            let index = self.hint(previous);
            let body = MessageBody::Appended {
                matches: false,
                index,
                previous,
                round,
            };
            self.reply(leader, body);
            return;
        }
        self.receiving = None;
        if self.planted.is(Mistake::TruncatesAlways) && previous >= self.commit {
            self.cut(previous);
        }
        let mut index = previous;
        for entry in entries.iter() {
            index = index.next();
            if !self.append_one(index, entry) {
                index = index.previous();
                break;
            }
        }
        if self.planted.is(Mistake::AnswersWithLastIndex) {
            index = index.max(self.log.last());
        }
        let commit = match self.planted.is(Mistake::CommitsUnverified) {
            true => commit,
            false => commit.min(index),
        };
        self.commit_to(commit);
        let body = MessageBody::Appended {
            matches: true,
            index,
            previous,
            round,
        };
        self.reply(leader, body);
    }

    /// Returns an index before which the logs may be equal: the last one, or the one before the
    /// term that differs.
    fn hint(&self, previous: LogIndex) -> LogIndex {
        if previous > self.log.last() {
            return self.log.last();
        }
        let differs = self.log.term(previous);
        let mut index = previous.previous();
        while index > self.commit && self.log.term(index) == differs {
            index = index.previous();
        }
        index
    }

    /// Puts an entry in its place. Returns false if it cannot: the log is full, or the place has
    /// another committed entry, which no correct leader sends.
    fn append_one(&mut self, index: LogIndex, entry: Entry) -> bool {
        if index <= self.log.base() {
            // The base is committed, so the leader has the same entry.
            return true;
        }
        if index <= self.log.last() {
            if self.log.term(index) == Some(entry.term) {
                return true;
            }
            if index <= self.commit {
                self.counts.impossible += 1;
                return false;
            }
            self.cut(index.previous());
        }
        if self.log.push(entry) != Some(index) {
            return false;
        }
        self.writes.entry_added(index);
        if let Payload::Membership(members) = entry.payload {
            (self.members, self.members_index) = (members, index);
        }
        true
    }

    /// Drops the entries after an index.
    fn cut(&mut self, last: LogIndex) {
        self.log.truncate(last);
        self.writes.truncated(last);
        if self.members_index > last {
            self.members_changed();
        }
        self.lose_pending(|index| index > last);
    }

    /// Takes a piece of a snapshot.
    pub(super) fn take_piece(&mut self, message: &PeerMessage<'_>) {
        let MessageBody::Piece {
            index,
            index_term,
            first,
            next,
            items,
            round,
            bytes,
        } = message.body
        else {
            return;
        };
        if !self.heard_leader(message.from) {
            return;
        }
        if items != self.state.receiving().items() || first >= next || next > items {
            self.counts.impossible += 1;
            return;
        }
        let answer = |node: &mut RaftNode, next| {
            node.reply(message.from, MessageBody::Received { index, next, round });
        };
        // An entry that the leader has committed and this node has needs no snapshot. To drop the
        // entries after it would break the promise of earlier answers.
        let has_entry = self.log.term(index) == Some(index_term);
        if index <= self.commit || has_entry {
            self.commit_to(index);
            self.receiving = None;
            answer(self, items);
            return;
        }
        let expected = match self.receiving {
            Some((current, expected)) if current == index => expected,
            // A piece of an older snapshot came late.
            Some((current, _)) if current > index => return,
            _ => {
                self.state.begin_receiving(index, index_term);
                0
            }
        };
        if first != expected || !self.state.receiving().read_piece(first, next, bytes) {
            self.receiving = Some((index, expected));
            answer(self, expected);
            return;
        }
        self.receiving = Some((index, next));
        if next == items {
            self.install(index, index_term);
        }
        answer(self, next);
    }

    fn install(&mut self, index: LogIndex, term: Term) {
        self.receiving = None;
        self.counts.installed += 1;
        self.lose_pending(|_| true);
        self.state.install_received();
        let members = self
            .state
            .snapshot()
            .map_or(self.members, |snapshot| snapshot.members);
        self.log.reset(index, term, members);
        self.commit = index;
        self.members_changed();
        self.writes.log_replaced(index);
        self.finish_reads();
    }

    /// Ends the reads that wait too long for the leader that was asked. This node may lead itself
    /// meanwhile.
    pub(super) fn expire_reads(&mut self) {
        let now = self.now;
        self.reads.expire(now, &mut self.events);
    }
}

/// Adds the event of a read that failed.
pub(super) fn read_failed(events: &mut std::collections::VecDeque<NodeEvent>, token: u64) {
    events.push_back(NodeEvent::ReadFailed { token });
}

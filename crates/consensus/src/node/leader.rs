//! The leader: replication to each member, commitment, changes of members, transfers.

use super::lease::RoundTimes;
use super::{RaftNode, RaftRole, ReadMode, Refusal};
use crate::entry::{Entry, MAX_ENTRY, Payload};
use crate::ids::{LogIndex, NodeId};
use crate::members::{MAX_MEMBERS, MemberRole, Membership, MembershipChange};
use crate::message::{Entries, MAX_ENTRIES_BYTES, MAX_PIECE, MessageBody};
use crate::mistake::Mistake;

/// Way in which a leader sends to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Sending {
    /// One message at a time, to find where the logs are equal.
    #[default]
    Probe,
    /// Many messages on their way.
    Stream,
    /// A snapshot: its index and the next item.
    Snapshot(LogIndex, u64),
}

/// A member as its leader knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    node: NodeId,
    /// Last entry that the member has as the leader has it.
    matched: LogIndex,
    /// Next entry to send.
    next: LogIndex,
    sending: Sending,
    /// True if nothing more is sent before an answer or a heartbeat.
    is_waiting: bool,
    /// True if a message is due though there are no entries.
    is_due: bool,
    /// Commit index of the last message.
    commit_sent: LogIndex,
    /// Newest round that the member answered.
    round: u64,
    /// Time of the last answer.
    heard: u64,
}

/// Leadership on its way to another node.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    to: NodeId,
    end: u64,
    /// True if the node was asked to campaign since the last heartbeat.
    is_asked: bool,
}

/// State of a leader; of no meaning on other nodes.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Leading {
    others: [Progress; MAX_MEMBERS],
    count: usize,
    /// Index of the first entry of the term.
    pub(super) noop: LogIndex,
    /// Number of the newest round. Rounds of other terms are distinguished by the term.
    pub(super) round: u64,
    pub(super) times: RoundTimes,
    /// Leadership was offered to another node in this term.
    pub(super) was_offered: bool,
    heartbeat: u64,
    check: u64,
    transfer: Option<Transfer>,
}

impl Leading {
    pub(super) const fn new() -> Leading {
        const NOBODY: Progress = Progress {
            node: NodeId(0),
            matched: LogIndex(0),
            next: LogIndex(0),
            sending: Sending::Probe,
            is_waiting: false,
            is_due: false,
            commit_sent: LogIndex(0),
            round: 0,
            heard: 0,
        };
        Leading {
            others: [NOBODY; MAX_MEMBERS],
            count: 0,
            noop: LogIndex(0),
            round: 0,
            times: RoundTimes::new(),
            was_offered: false,
            heartbeat: 0,
            check: 0,
            transfer: None,
        }
    }

    pub(super) fn begin(
        &mut self,
        id: NodeId,
        members: &Membership,
        last: LogIndex,
        now: u64,
        timeout: u64,
    ) {
        *self = Leading::new();
        self.set_members(id, members, last, now);
        self.heartbeat = now;
        self.check = now.saturating_add(timeout);
    }

    pub(super) const fn end(&mut self) {
        self.count = 0;
        self.transfer = None;
    }

    pub(super) const fn is_transferring(&self) -> bool {
        self.transfer.is_some()
    }

    pub(super) fn sends_snapshot(&self) -> bool {
        let is_snapshot = |one: &Progress| matches!(one.sending, Sending::Snapshot(..));
        self.others[..self.count].iter().any(is_snapshot)
    }

    /// Keeps what is known of members that stay, and adds new ones.
    fn set_members(&mut self, id: NodeId, members: &Membership, last: LogIndex, now: u64) {
        let (before, count) = (self.others, self.count);
        self.count = 0;
        for &(node, _) in members.all().iter().filter(|member| member.0 != id) {
            let known = before[..count].iter().find(|one| one.node == node);
            self.others[self.count] = known.copied().unwrap_or(Progress {
                node,
                next: last.next(),
                heard: now,
                is_due: true,
                ..Progress::default()
            });
            self.count += 1;
        }
    }

    fn get(&mut self, node: NodeId) -> Option<&mut Progress> {
        self.others[..self.count]
            .iter_mut()
            .find(|one| one.node == node)
    }

    /// Begins a round of messages.
    fn begin_round(&mut self, now: u64) {
        self.round += 1;
        self.times.add(self.round, now);
    }

    fn due(&mut self) {
        for one in &mut self.others[..self.count] {
            one.is_due = true;
        }
    }
}

#[cfg(test)]
impl Leading {
    pub(super) fn hash_into(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        (self.noop, self.round).hash(hasher);
        self.transfer.map(|one| (one.to, one.is_asked)).hash(hasher);
        for one in &self.others[..self.count] {
            (one.node, one.matched, one.next, one.sending).hash(hasher);
            (one.is_waiting, one.is_due, one.commit_sent, one.round).hash(hasher);
        }
    }
}

impl RaftNode {
    /// Appends an entry of this leader. `None` if the log is full.
    pub(super) fn lead_entry(&mut self, payload: Payload) -> Option<LogIndex> {
        let entry = Entry {
            term: self.term,
            time: self.now,
            payload,
        };
        let index = self.log.push(entry)?;
        self.writes.entry_added(index);
        if let Payload::Membership(_) = payload {
            self.members_changed();
            let (id, last) = (self.config.id, self.log.last());
            self.leading.set_members(id, &self.members, last, self.now);
        }
        Some(index)
    }

    /// Proposes a change of one member. It is in effect at once, and final when committed.
    ///
    /// # Errors
    /// The change was not taken.
    pub fn change_members(&mut self, now: u64, change: MembershipChange) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        if self.role != RaftRole::Leader {
            return Err(Refusal::NotLeader(self.leader));
        }
        let is_early = self.planted.is(Mistake::ChangesMembersEarly);
        if self.commit < self.leading.noop && !is_early {
            return Err(Refusal::TooEarly);
        }
        if self.leading.is_transferring() {
            return Err(Refusal::Transferring);
        }
        if self.members_index > self.commit && !is_early {
            return Err(Refusal::ChangePending);
        }
        if let MembershipChange::Promote(node) = change {
            let matched = self.leading.get(node).map(|one| one.matched);
            if matched.is_none_or(|matched| matched < self.commit) {
                return Err(Refusal::NotCaughtUp);
            }
        }
        let members = self.members.after(change).ok_or(Refusal::NoSuchChange)?;
        self.lead_entry(Payload::Membership(members))
            .ok_or(Refusal::Full)?;
        Ok(())
    }

    /// Gives the leadership to a voter: requests are refused until it leads, or an election
    /// timeout has passed.
    ///
    /// # Errors
    /// This node does not lead, or the other one is no other voter.
    pub fn transfer(&mut self, now: u64, to: NodeId) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        if self.role != RaftRole::Leader {
            return Err(Refusal::NotLeader(self.leader));
        }
        if !self.members.is_voter(to) || to == self.config.id {
            return Err(Refusal::NoSuchChange);
        }
        let end = self.now.saturating_add(self.config.election_timeout);
        self.leading.transfer = Some(Transfer {
            to,
            end,
            is_asked: false,
        });
        if let Some(one) = self.leading.get(to) {
            one.is_due = true;
        }
        Ok(())
    }

    pub(super) fn tick_leader(&mut self) {
        if self.now >= self.leading.check {
            let timeout = self.config.election_timeout;
            let since = self.now.saturating_sub(timeout);
            self.leading.check = self.now.saturating_add(timeout);
            let (id, members) = (self.config.id, self.members);
            let mut is_heard = |voter: &NodeId| {
                *voter == id
                    || self
                        .leading
                        .get(*voter)
                        .is_some_and(|one| one.heard >= since)
            };
            if members.voters().filter(&mut is_heard).count() < members.quorum() {
                self.counts.deposed += 1;
                self.follow(self.term, None);
                return;
            }
        }
        if self
            .leading
            .transfer
            .is_some_and(|transfer| self.now >= transfer.end)
        {
            self.leading.transfer = None;
        }
        if self.now >= self.leading.heartbeat {
            self.leading.heartbeat = self.now.saturating_add(self.config.heartbeat);
            if matches!(self.config.reads, ReadMode::Lease(_)) {
                self.leading.begin_round(self.now);
            }
            self.leading.due();
            if let Some(transfer) = &mut self.leading.transfer {
                transfer.is_asked = false;
            }
            for one in &mut self.leading.others[..self.leading.count] {
                one.is_waiting = false;
            }
        }
    }

    /// Sends what is due to each member.
    pub(super) fn lead(&mut self) {
        self.advance_commit();
        if self.role != RaftRole::Leader {
            return;
        }
        if self.reads.begin_round(self.leading.round.saturating_add(1)) {
            self.leading.begin_round(self.now);
            self.leading.due();
        }
        self.confirm_reads();
        for at in 0..self.leading.count {
            self.send_entries(at);
        }
        if let Some(Transfer {
            to,
            is_asked: false,
            ..
        }) = self.leading.transfer
            && self
                .leading
                .get(to)
                .is_some_and(|one| one.matched == self.log.last())
        {
            self.leading.was_offered = true;
            self.post(to, MessageBody::CampaignNow);
            if let Some(transfer) = &mut self.leading.transfer {
                transfer.is_asked = true;
            }
        }
    }

    fn send_entries(&mut self, at: usize) {
        loop {
            let one = self.leading.others[at];
            if let Sending::Snapshot(..) = one.sending {
                self.send_piece(at);
                return;
            }
            let last = self.log.last();
            let on_way = one.next.0 - 1 - one.matched.0.min(one.next.0 - 1);
            let may_send = match one.sending {
                Sending::Stream => on_way < self.config.window,
                _ => !one.is_waiting,
            };
            let has_more = one.next <= last && may_send;
            let has_news = one.commit_sent < self.commit && one.sending == Sending::Stream;
            if !has_more && !one.is_due && !has_news {
                return;
            }
            let previous = one.next.previous();
            let Some(previous_term) = self.log.term(previous) else {
                self.begin_sending_snapshot(at);
                continue;
            };
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            let mut count = 0;
            let max = self.config.max_batch.max(1);
            while has_more && count < max && scratch.len() + MAX_ENTRY <= MAX_ENTRIES_BYTES {
                let Some(entry) = self.log.get(one.next.plus(u64::from(count))) else {
                    break;
                };
                entry.encode(&mut scratch);
                count += 1;
            }
            let body = MessageBody::Append {
                previous,
                previous_term,
                commit: self.commit,
                round: self.leading.round,
                entries: Entries::of(count, &scratch),
            };
            self.post(one.node, body);
            self.scratch = scratch;
            let commit = self.commit;
            let one = &mut self.leading.others[at];
            one.is_due = false;
            one.commit_sent = commit;
            match one.sending {
                Sending::Stream => one.next = one.next.plus(u64::from(count)),
                _ => one.is_waiting = true,
            }
        }
    }

    fn begin_sending_snapshot(&mut self, at: usize) {
        let index = self
            .state
            .snapshot()
            .map_or(LogIndex(0), |snapshot| snapshot.index());
        let one = &mut self.leading.others[at];
        one.sending = Sending::Snapshot(index, 0);
        one.is_waiting = false;
    }

    fn send_piece(&mut self, at: usize) {
        let one = &mut self.leading.others[at];
        let Sending::Snapshot(index, first) = one.sending else {
            return;
        };
        let Some(snapshot) = self.state.snapshot() else {
            return;
        };
        if one.is_waiting && !one.is_due {
            return;
        }
        // A newer snapshot replaced the one on its way.
        let first = if snapshot.index() == index { first } else { 0 };
        one.sending = Sending::Snapshot(snapshot.index(), first);
        (one.is_waiting, one.is_due) = (true, false);
        let node = one.node;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let next = snapshot.write_piece(first, &mut scratch);
        debug_assert!(scratch.len() <= MAX_PIECE);
        let body = MessageBody::Piece {
            index: snapshot.index(),
            index_term: snapshot.term,
            first,
            next,
            items: snapshot.items(),
            round: self.leading.round,
            bytes: &scratch,
        };
        self.post(node, body);
        self.scratch = scratch;
    }

    /// Takes the answer of a member, and returns what is known of it.
    fn heard_member(&mut self, from: NodeId, round: u64) -> Option<&mut Progress> {
        if self.role != RaftRole::Leader {
            return None;
        }
        let (now, newest) = (self.now, self.leading.round);
        let one = self.leading.get(from)?;
        one.heard = now;
        one.round = one.round.max(round.min(newest));
        Some(one)
    }

    pub(super) fn appended(
        &mut self,
        from: NodeId,
        matches: bool,
        index: LogIndex,
        previous: LogIndex,
        round: u64,
    ) {
        let last = self.log.last();
        let Some(one) = self.heard_member(from, round) else {
            return;
        };
        if index > last {
            if matches {
                self.counts.impossible += 1;
                return;
            }
        } else if matches {
            one.matched = one.matched.max(index);
            match one.sending {
                Sending::Snapshot(snapshot, _) if one.matched < snapshot => {}
                Sending::Stream => one.next = one.next.max(one.matched.next()),
                _ => {
                    one.sending = Sending::Stream;
                    one.next = one.matched.next();
                    one.is_waiting = false;
                }
            }
            self.advance_commit();
            return;
        }
        let is_news = match one.sending {
            Sending::Probe => previous == one.next.previous(),
            Sending::Stream => previous > one.matched,
            Sending::Snapshot(..) => false,
        };
        if !matches && is_news {
            let hint = index.next().min(previous);
            one.next = hint.max(one.matched.next());
            one.sending = Sending::Probe;
            one.is_waiting = false;
        }
    }

    pub(super) fn piece_received(&mut self, from: NodeId, index: LogIndex, next: u64, round: u64) {
        let items = self.state.snapshot().map_or(0, |snapshot| snapshot.items());
        let last = self.log.last();
        let Some(one) = self.heard_member(from, round) else {
            return;
        };
        let Sending::Snapshot(sent, first) = one.sending else {
            return;
        };
        if sent != index || index > last {
            return;
        }
        if next >= items {
            one.matched = one.matched.max(index);
            one.next = one.matched.next();
            one.sending = Sending::Probe;
            one.is_waiting = false;
            self.advance_commit();
        } else if next != first {
            one.sending = Sending::Snapshot(index, next);
            one.is_waiting = false;
        }
    }

    /// Commits what enough voters have, if the last of it is of this term.
    pub(super) fn advance_commit(&mut self) {
        if self.role != RaftRole::Leader {
            return;
        }
        // Most calls: all is committed, and no answer waits for other voters.
        let is_complete = self.commit == self.log.last() && self.held.is_empty();
        if is_complete && self.members.is_voter(self.config.id) {
            return;
        }
        let own = match self.planted.is(Mistake::CountsUnsynced) {
            true => self.log.last(),
            false => self.writes.own(self.log.last()),
        };
        let mut matched = [LogIndex(0); MAX_MEMBERS];
        let mut voters = 0;
        let counts_learners = self.planted.is(Mistake::CountsLearners);
        let members = self.members;
        for &(node, role) in members.all() {
            if role == MemberRole::Voter || counts_learners {
                let other = self.leading.get(node).map(|one| one.matched);
                matched[voters] = if node == self.config.id {
                    own
                } else {
                    other.unwrap_or_default()
                };
                voters += 1;
            }
        }
        let matched = &mut matched[..voters];
        matched.sort_unstable();
        let at = voters - self.quorum().min(voters);
        let index = matched.get(at).copied().unwrap_or_default();
        let all = matched.first().copied().unwrap_or_default();
        let is_own_term =
            self.log.term(index) == Some(self.term) || self.planted.is(Mistake::CommitsOldTerms);
        if index > self.commit && is_own_term {
            self.commit_to(index);
        }
        self.release_held(all);
        // A leader that is no voter any more leads until the change is committed, a learner until
        // its first entry is: then a voter has all that it knows. It gives the voters time before
        // it campaigns again: what it led was heard until now.
        let known = self.members_index.max(self.leading.noop);
        if known <= self.commit && !self.members.is_voter(self.config.id) {
            self.follow(self.term, None);
            self.heard = self.now;
        }
    }

    /// Returns the newest round that a majority answered.
    pub(super) fn confirmed_round(&mut self) -> u64 {
        let mut rounds = [0; MAX_MEMBERS];
        let members = self.members;
        let mut voters = 0;
        for node in members.voters() {
            let other = self.leading.get(node).map_or(0, |one| one.round);
            rounds[voters] = if node == self.config.id {
                u64::MAX
            } else {
                other
            };
            voters += 1;
        }
        let rounds = &mut rounds[..voters];
        rounds.sort_unstable();
        rounds
            .get(voters - self.quorum().min(voters))
            .copied()
            .unwrap_or(0)
            .min(self.leading.round)
    }
}

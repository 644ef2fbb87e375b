//! A node of a cluster: its state, inputs and outputs. The rules are in the files beside.

mod election;
#[cfg(test)]
mod fingerprint;
mod follower;
mod interface;
mod leader;
mod lease;
mod outbox;
mod persist;
mod reads;

use std::collections::VecDeque;

use support::rng::{Rng, mix};

pub use self::interface::{Ack, Config, Counts, Keep, NodeEvent, RaftRole, ReadMode, Refusal};
pub use self::persist::{Persist, Saved};

use self::election::Campaign;
use self::leader::Leading;
use self::outbox::Outbox;
use self::persist::Writes;
use self::reads::Reads;
use crate::entry::{ElementId, Entry, Key, Payload, Request, StoredValue};
use crate::ids::{LogIndex, NodeId, Term};
use crate::log::Log;
use crate::members::Membership;
use crate::message::{MessageBody, MessageError, PeerMessage};
use crate::mistake::{Mistake, Planted};
use crate::state::{ElementChange, RequestAnswer, Snapshot, State};

/// Request that waits for its entry to be applied.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    index: LogIndex,
    term: Term,
    token: u64,
    is_used: bool,
}

/// Answer that waits until all voters have the entry.
#[derive(Clone, Copy, Debug)]
struct Held {
    index: LogIndex,
    token: u64,
    answer: RequestAnswer,
}

/// Node of a cluster.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct RaftNode {
    config: Config,
    planted: Planted,
    now: u64,
    rng: Rng,
    term: Term,
    vote: Option<NodeId>,
    log: Log,
    state: State,
    commit: LogIndex,
    /// Members by the newest entry that has some, committed or not.
    members: Membership,
    members_index: LogIndex,
    role: RaftRole,
    leader: Option<NodeId>,
    /// Time at which the leader was heard.
    heard: u64,
    /// Time at which the node campaigns.
    deadline: u64,
    campaign: Campaign,
    leading: Leading,
    reads: Reads,
    /// The snapshot that is received: its index and the next item.
    receiving: Option<(LogIndex, u64)>,
    writes: Writes,
    outbox: Outbox,
    events: VecDeque<NodeEvent>,
    pending: Box<[Pending]>,
    pending_count: usize,
    /// Answers that wait until all voters have the entry.
    held: VecDeque<Held>,
    scratch: Vec<u8>,
    counts: Counts,
}

impl RaftNode {
    /// Creates a node that was never started under this name. The first nodes of a cluster all get
    /// the same members; a node that joins later gets none.
    pub fn new(config: Config, members: Membership, now: u64) -> RaftNode {
        RaftNode::planted(config, members, now, Planted::default())
    }

    pub(crate) fn planted(
        config: Config,
        members: Membership,
        now: u64,
        planted: Planted,
    ) -> RaftNode {
        let log = Log::new(config.log_entries, members);
        let state = State::new(config.cluster, config.capacity, log.capacity(), planted);
        let mut rng = Rng::new(mix(config.seed ^ mix(config.id.0)));
        let mut node = RaftNode {
            now,
            term: Term(0),
            vote: None,
            commit: LogIndex(0),
            members,
            members_index: LogIndex(0),
            role: RaftRole::Follower,
            leader: None,
            heard: 0,
            deadline: now,
            campaign: Campaign::new(rng.bits()),
            leading: Leading::new(),
            reads: Reads::new(rng.bits(), config.max_reads),
            receiving: None,
            writes: Writes::new(config.keep, LogIndex(0)),
            outbox: Outbox::new(),
            events: VecDeque::with_capacity(64),
            pending: vec![Pending::default(); log.capacity()].into(),
            pending_count: 0,
            held: VecDeque::new(),
            scratch: Vec::with_capacity(crate::message::MAX_MESSAGE),
            counts: Counts::default(),
            log,
            state,
            rng,
            planted,
            config,
        };
        node.postpone_campaign();
        node
    }

    /// Creates a node again from what its disk kept. Only for [`Keep::Disk`]. `members` is as it
    /// was at the first start. Entries that do not follow the snapshot are not used.
    pub fn restore(config: Config, members: Membership, saved: Saved, now: u64) -> RaftNode {
        RaftNode::restore_planted(config, members, saved, now, Planted::default())
    }

    pub(crate) fn restore_planted(
        config: Config,
        members: Membership,
        saved: Saved,
        now: u64,
        planted: Planted,
    ) -> RaftNode {
        let mut node = RaftNode::planted(config, members, now, planted);
        (node.term, node.vote) = (saved.term, saved.vote);
        if node.planted.is(Mistake::ForgetsVote) {
            node.vote = None;
        }
        if let Some(snapshot) = saved.snapshot {
            let (index, term, members) = (snapshot.index, snapshot.term, snapshot.members);
            if node.state.install(snapshot) {
                node.log.reset(index, term, members);
                node.commit = index;
            }
        }
        let skip = node.log.last().next().0.saturating_sub(saved.first.0);
        if saved.first <= node.log.last().next() {
            for entry in saved.entries.iter().skip(skip as usize) {
                node.log.push(*entry);
            }
        }
        // A crash may have kept entries and lost the term that came with them.
        if node.log.last_term() > node.term {
            (node.term, node.vote) = (node.log.last_term(), None);
        }
        node.members_changed();
        node.writes = Writes::new(node.config.keep, node.log.last());
        // It may have answered a leader immediately before it stopped.
        if !node.planted.is(Mistake::VotesAfterRestart) {
            node.heard = now;
        }
        node
    }

    /// Returns the name of this node.
    pub const fn id(&self) -> NodeId {
        self.config.id
    }

    /// Returns the current term.
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Returns the role in the current term.
    pub const fn role(&self) -> RaftRole {
        self.role
    }

    /// Returns the leader, if it is known.
    pub const fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Returns the index of the last committed entry.
    pub const fn commit(&self) -> LogIndex {
        self.commit
    }

    /// Returns the index of the last applied entry.
    pub const fn applied(&self) -> LogIndex {
        self.state.applied()
    }

    /// Returns the index up to which snapshots replace the entries.
    pub const fn base(&self) -> LogIndex {
        self.log.base()
    }

    /// Returns the index of the last entry.
    pub const fn last(&self) -> LogIndex {
        self.log.last()
    }

    /// Returns an entry of the log, or `None` if it is not there.
    pub fn entry(&self, index: LogIndex) -> Option<&Entry> {
        self.log.get(index)
    }

    /// Returns the members by the newest entry, and the index of that entry.
    pub const fn members(&self) -> (&Membership, LogIndex) {
        (&self.members, self.members_index)
    }

    /// Returns the members by the newest applied entry that has some.
    pub fn applied_members(&self) -> Membership {
        self.log.members_at(self.state.applied()).0
    }

    /// Returns the newest snapshot.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.state.snapshot()
    }

    /// Returns the value of a key as of the last applied entry. It may be old.
    pub fn local_value(&self, key: &Key) -> Option<StoredValue> {
        self.state.get(key)
    }

    /// Returns the first change of an element after an index, to send again.
    pub fn change_after(&self, element: ElementId, after: LogIndex) -> Option<ElementChange> {
        self.state.change_after(element, after)
    }

    /// Returns the changes that make what an element has, in order of their indices.
    pub fn changes_of(&self, element: ElementId) -> Vec<ElementChange> {
        self.state.changes_of(element)
    }

    /// Returns the index up to which an element confirmed its changes by an entry.
    pub fn confirmed(&self, element: ElementId) -> LogIndex {
        self.state.confirmed(element)
    }

    /// Returns the greatest time of the applied entries.
    pub const fn log_time(&self) -> u64 {
        self.state.time()
    }

    /// Returns a number that depends on the whole replicated state: replicas are compared by it.
    pub fn digest(&self) -> u64 {
        self.state.digest()
    }

    /// Returns the counts.
    pub const fn counts(&self) -> Counts {
        Counts {
            dropped: self.outbox.dropped,
            ..self.counts
        }
    }

    /// Takes the bytes of a message.
    ///
    /// # Errors
    /// They are no message for this node. Nothing changed.
    pub fn receive(&mut self, now: u64, bytes: &[u8]) -> Result<(), MessageError> {
        self.now = self.now.max(now);
        let checks_crc = !self.planted.is(Mistake::SkipsChecksum);
        let message = PeerMessage::decode_checked(self.config.cluster, bytes, checks_crc);
        let message = message.and_then(|message| match message.to == self.config.id {
            true => Ok(message),
            false => Err(MessageError::Receiver(message.to)),
        });
        match message {
            Ok(message) => {
                self.take(&message);
                Ok(())
            }
            Err(error) => {
                self.counts.refused += 1;
                Err(error)
            }
        }
    }

    fn take(&mut self, message: &PeerMessage<'_>) {
        if message.from == self.config.id || message.term.0 == u64::MAX {
            self.counts.impossible += 1;
            return;
        }
        if let MessageBody::Vote {
            kind,
            campaign,
            last_index,
            last_term,
        } = message.body
        {
            self.asked_for_vote(message, kind, campaign, (last_term, last_index));
            return;
        }
        if let MessageBody::Voted { campaign, granted } = message.body {
            self.voted(message, campaign, granted);
            return;
        }
        if message.term > self.term {
            self.follow(message.term, None);
        }
        let is_current = message.term == self.term;
        match message.body {
            MessageBody::Append { .. } | MessageBody::Piece { .. } if !is_current => {
                // An old leader learns of the new term.
                let (matches, zero) = (false, LogIndex(0));
                let body = MessageBody::Appended {
                    matches,
                    index: zero,
                    previous: zero,
                    round: 0,
                };
                self.reply(message.from, body);
            }
            MessageBody::Append {
                previous,
                previous_term,
                commit,
                round,
                entries,
            } => {
                let previous = (previous, previous_term);
                self.append(message.from, previous, commit, round, entries);
            }
            MessageBody::Piece { .. } => {
                self.take_piece(message);
            }
            MessageBody::Appended {
                matches,
                index,
                previous,
                round,
            } if is_current => {
                self.appended(message.from, matches, index, previous, round);
            }
            MessageBody::Received { index, next, round } if is_current => {
                self.piece_received(message.from, index, next, round);
            }
            MessageBody::CampaignNow if is_current => self.campaign_now(message.from),
            MessageBody::ReadIndex { number } if is_current => {
                self.asked_index(message.from, number)
            }
            MessageBody::ReadAt { number, index } if is_current => self.may_read_at(number, index),
            _ => {}
        }
    }

    /// Takes the time. The caller calls it at least once in each heartbeat.
    pub fn tick(&mut self, now: u64) {
        self.now = self.now.max(now);
        match self.role {
            RaftRole::Leader => self.tick_leader(),
            _ if self.now >= self.deadline => self.begin_campaign(),
            _ => {}
        }
        self.expire_reads();
    }

    /// Proposes a request of a client. `token` names it in [`NodeEvent::Answered`].
    ///
    /// # Errors
    /// The request was not taken.
    pub fn propose(&mut self, now: u64, request: Request, token: u64) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        if self.role != RaftRole::Leader {
            return Err(Refusal::NotLeader(self.leader));
        }
        if self.leading.is_transferring() {
            return Err(Refusal::Transferring);
        }
        if self.log.room() <= self.log.capacity() / 4 {
            return Err(Refusal::Full);
        }
        let index = self
            .lead_entry(Payload::Request(request))
            .ok_or(Refusal::Full)?;
        let term = self.term;
        let place = index.0 as usize & (self.pending.len() - 1);
        self.pending[place] = Pending {
            index,
            term,
            token,
            is_used: true,
        };
        self.pending_count += 1;
        Ok(())
    }

    /// Makes the messages that follow from all inputs since the last call.
    pub fn flush(&mut self, now: u64) {
        self.now = self.now.max(now);
        if self.role == RaftRole::Leader {
            self.lead();
        }
        self.take_snapshot();
    }

    /// Sends the messages that may leave now.
    pub fn send(&mut self, send: impl FnMut(NodeId, &[u8])) {
        let done = self.sendable();
        self.outbox.send(done, send);
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// Sends an answer that holds what is on disk when all changes so far are.
    fn reply(&mut self, to: NodeId, body: MessageBody<'_>) {
        let message = PeerMessage {
            from: self.config.id,
            to,
            term: self.term,
            body,
        };
        self.outbox
            .push(self.config.cluster, self.writes.needs(), &message);
    }

    /// Sends a message that holds the term and the vote only.
    fn post(&mut self, to: NodeId, body: MessageBody<'_>) {
        let message = PeerMessage {
            from: self.config.id,
            to,
            term: self.term,
            body,
        };
        self.outbox
            .push(self.config.cluster, self.writes.vote, &message);
    }

    /// Finds the members again after the log changed.
    fn members_changed(&mut self) {
        (self.members, self.members_index) = self.log.members_at(self.log.last());
    }

    /// Commits and applies the entries up to an index of the log.
    fn commit_to(&mut self, commit: LogIndex) {
        self.commit = self.commit.max(commit.min(self.log.last()));
        while self.state.applied() < self.commit {
            let index = self.state.applied().next();
            let Some(entry) = self.log.get(index) else {
                return;
            };
            let term = entry.term;
            let (answer, change) = self.state.apply(entry, self.now);
            self.answer(index, term, answer);
            if let Some(change) = change
                && self.role == RaftRole::Leader
            {
                let term = self.term;
                self.events.push_back(NodeEvent::Change { term, change });
            }
            if self.state.is_taking() && self.state.advance_snapshot() {
                self.snapshot_complete();
            }
        }
        self.finish_reads();
    }

    /// Answers the request that waits for an entry.
    fn answer(&mut self, index: LogIndex, term: Term, answer: RequestAnswer) {
        let place = index.0 as usize & (self.pending.len() - 1);
        let pending = &mut self.pending[place];
        if !pending.is_used || pending.index != index {
            return;
        }
        pending.is_used = false;
        self.pending_count -= 1;
        let token = pending.token;
        if pending.term != term {
            self.events.push_back(NodeEvent::Unknown { token });
        } else if self.config.ack == Ack::All && self.role == RaftRole::Leader {
            self.held.push_back(Held {
                index,
                token,
                answer,
            });
        } else if self.config.ack == Ack::All {
            // Another leader committed it; not all voters may have it.
            self.events.push_back(NodeEvent::Unknown { token });
        } else {
            self.events.push_back(NodeEvent::Answered { token, answer });
        }
    }

    /// Answers the requests of entries that all voters have.
    fn release_held(&mut self, all: LogIndex) {
        while let Some(&Held { token, answer, .. }) =
            self.held.front().filter(|held| held.index <= all)
        {
            self.events.push_back(NodeEvent::Answered { token, answer });
            self.held.pop_front();
        }
    }

    /// Ends the held answers when this node leads no more.
    fn lose_held(&mut self) {
        for held in self.held.drain(..) {
            self.events
                .push_back(NodeEvent::Unknown { token: held.token });
        }
    }

    /// Ends the requests that wait for entries from an index on, or up to one.
    fn lose_pending(&mut self, is_lost: impl Fn(LogIndex) -> bool) {
        if self.pending_count == 0 {
            return;
        }
        for pending in &mut self.pending {
            if pending.is_used && is_lost(pending.index) {
                pending.is_used = false;
                self.pending_count -= 1;
                self.events.push_back(NodeEvent::Unknown {
                    token: pending.token,
                });
            }
        }
    }

    /// Begins a snapshot if the log is half full or has little room, or goes on with one.
    ///
    /// Entries that are not committed yet fill at most three quarters of a log, since a leader then
    /// refuses requests. So a node that drops all that it applied has room for what is missing;
    /// without this a full follower could never take the entry that commits the others.
    fn take_snapshot(&mut self) {
        if self.state.is_taking() {
            if self.state.advance_snapshot() {
                self.snapshot_complete();
            }
            return;
        }
        let is_short = self.log.room() <= self.log.capacity() / 4;
        let index = self.state.snapshot().map_or(LogIndex(0), Snapshot::index);
        if is_short {
            self.log.compact(index);
        }
        let applied = self.state.applied();
        let since_base = applied.0 - self.log.base().0;
        let limit = match self.leading.sends_snapshot() {
            // The snapshot on its way is not replaced until room is short.
            true => self.log.capacity() - self.log.capacity() / 8,
            false => self.log.capacity() / 2,
        };
        let is_due = since_base as usize >= limit || is_short && applied > index;
        if self.receiving.is_none() && is_due {
            let mut members = self.log.members_at(applied).0;
            if self.planted.is(Mistake::DropsMembersInSnapshots) {
                members = self.log.members_at(self.log.base()).0;
            }
            self.state.begin_snapshot(members);
        }
    }

    /// Drops the entries that the complete snapshot includes, except some for slow followers.
    fn snapshot_complete(&mut self) {
        self.counts.snapshots += 1;
        self.writes.snapshot_made();
        let index = self.state.snapshot().map_or(LogIndex(0), Snapshot::index);
        let kept = (self.log.capacity() / 8) as u64;
        self.log.compact(LogIndex(index.0.saturating_sub(kept)));
    }
}

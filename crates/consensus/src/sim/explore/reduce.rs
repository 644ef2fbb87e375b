//! Reductions of the explored states, which leave out no behaviour.
//!
//! The first time-out is that of node 1, since the three are alike; later nodes 2 and 3 are alike,
//! so one of two states that differ by these names is explored. A host and its mirror take mirrored
//! inputs and send mirrored messages.
//!
//! A message has no effect on a host if it changes neither the host nor any later state of it, and
//! the messages that it causes were sent. Such a message is left out of the network; `Sort` has the
//! facts of the protocol that are used. `messages_without_effect_have_none` checks a part of them:
//! within the bounds of `SMALL`, that such a message changes neither the host that it was judged by
//! nor those that follow it by the delivery of one other message. It does not check hosts after
//! writes, proposals, time-outs, crashes or several messages.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use consensus::{MessageBody, NodeId, PeerMessage, RaftNode, RaftRole, Term, VoteKind};

use super::{Action, Explorer, Host, Key, NODES, Sent, State, bits};

/// Kind of a message, with what decides on its effect.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    /// Request for a vote: it counts while its campaign lasts.
    Vote { kind: VoteKind, campaign: u64 },
    /// Answer to a request for a vote: a refusal has only its term.
    Voted { campaign: u64, granted: bool },
    /// Entries of a leader.
    Append,
    /// Answer to entries: for the leader of its term only.
    Appended { matches: bool },
    /// Any other message.
    Other,
}

impl Sent {
    pub(super) fn new(bytes: Rc<[u8]>) -> Sent {
        let message = PeerMessage::decode(1, &bytes).expect("messages are sound");
        let sort = match message.body {
            MessageBody::Vote { kind, campaign, .. } => Sort::Vote { kind, campaign },
            MessageBody::Voted { campaign, granted } => Sort::Voted { campaign, granted },
            MessageBody::Append { .. } => Sort::Append,
            MessageBody::Appended { matches, .. } => Sort::Appended { matches },
            _ => Sort::Other,
        };
        Sent {
            from: message.from.0 as usize - 1,
            to: message.to.0 as usize - 1,
            term: message.term,
            sort,
            bytes,
        }
    }

    /// Returns true if this message has no effect any more on its receiver, but the messages that
    /// it sends now. Terms and votes count when a crash cannot lose them. No node gets a later term
    /// than `last_term`.
    pub(super) fn has_no_effect(&self, receiver: &Host, sender: &Host, last_term: Term) -> bool {
        let (node, kept) = (&receiver.node, &receiver.kept);
        let is_old = self.term <= kept.term;
        match self.sort {
            // An answer to a campaign that ended, or one that was counted.
            Sort::Voted { campaign, granted } => {
                let from = NodeId(self.from as u64 + 1);
                is_old && !(granted && node.lacks_vote(campaign, from))
            }
            Sort::Appended { .. } => {
                let leads = node.role() == RaftRole::Leader && node.term() == self.term;
                is_old && !leads
            }
            // An answer waits for the write under way.
            _ if receiver.writing.is_some() => false,
            _ if kept.term < last_term => match self.sort {
                // The answer would come to a node that asks no more and has the last term.
                Sort::Vote {
                    kind: VoteKind::Pre,
                    campaign,
                } => sender.kept.term == last_term && !sender.node.asks(campaign),
                _ => false,
            },
            // There is no later term, so this one is refused for ever, by the same answer.
            _ if self.term < kept.term => true,
            // The vote of the last term is given for ever.
            Sort::Vote { .. } => kept.vote.is_some(),
            Sort::Append | Sort::Other => false,
        }
    }
}

/// Way in which a host was met first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The node with this place at its start.
    First(usize),
    /// An input of another host.
    Step {
        host: u32,
        action: Action,
        proposals: u8,
    },
}

/// Hosts and messages with the names of nodes 2 and 3 exchanged.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    origins: Vec<Origin>,
    hosts: Vec<Option<u32>>,
    messages: Vec<Option<u16>>,
}

impl Mirror {
    pub(super) fn add_host(&mut self, origin: Origin) {
        self.origins.push(origin);
        self.hosts.push(None);
    }
}

const fn mirrored(at: usize) -> usize {
    match at {
        0 => 0,
        _ => NODES - at,
    }
}

impl Explorer {
    fn mirror_message(&mut self, number: u16) -> u16 {
        let at = usize::from(number);
        let known = self.mirror.messages.get(at).copied().flatten();
        known.unwrap_or_else(|| {
            let exchange = |node: NodeId| NodeId(mirrored(node.0 as usize - 1) as u64 + 1);
            let bytes = Rc::clone(&self.messages[at].bytes);
            let mut message = PeerMessage::decode(1, &bytes).expect("messages are sound");
            (message.from, message.to) = (exchange(message.from), exchange(message.to));
            let mut bytes = Vec::new();
            message.encode(1, &mut bytes);
            let other = self.intern_message(&bytes);
            let len = self.messages.len();
            self.mirror.messages.resize(len, None);
            self.mirror.messages[at] = Some(other);
            self.mirror.messages[usize::from(other)] = Some(number);
            other
        })
    }

    fn mirror_host(&mut self, number: u32) -> u32 {
        if let Some(other) = self.mirror.hosts[number as usize] {
            return other;
        }
        let other = match self.mirror.origins[number as usize] {
            Origin::First(at) => mirrored(at) as u32,
            Origin::Step {
                host,
                action,
                proposals,
            } => {
                let at = mirrored(self.host_of(action));
                let host = self.mirror_host(host);
                let action = match action {
                    Action::TimeOut(_) => Action::TimeOut(at),
                    Action::Propose(_) => Action::Propose(at),
                    Action::Write(_) => Action::Write(at),
                    Action::Crash { keeps, .. } => Action::Crash { node: at, keeps },
                    Action::Deliver(message) => Action::Deliver(self.mirror_message(message)),
                };
                self.apply(host, at, action, proposals).0
            }
        };
        self.mirror.hosts[number as usize] = Some(other);
        self.mirror.hosts[other as usize] = Some(number);
        other
    }

    /// Leaves out messages without effect, and takes one of the two states that differ by names.
    pub(super) fn reduce(&mut self, state: &mut State) {
        self.reduce_messages(state);
        let [one, two, three] = state.key.hosts;
        let mut key = state.key;
        key.hosts = [
            self.mirror_host(one),
            self.mirror_host(three),
            self.mirror_host(two),
        ];
        for leader in &mut key.history.leaders {
            *leader = match *leader {
                0 => 0,
                leader => mirrored(usize::from(leader) - 1) as u8 + 1,
            };
        }
        if key < state.key {
            let mut sent = Vec::with_capacity(state.sent.len());
            for message in bits(&state.sent) {
                super::add(&mut sent, &[self.mirror_message(message)]);
            }
            *state = State { key, sent };
        }
    }

    /// Returns the last term that a node may get.
    fn last_term(&self, key: &Key) -> Term {
        let nodes = || {
            key.hosts
                .iter()
                .map(|host| &self.hosts[*host as usize].0.node)
        };
        let asks =
            |node: &RaftNode| matches!(node.role(), RaftRole::PreCandidate | RaftRole::Candidate);
        match key.history.time_outs < self.bounds.time_outs || nodes().any(asks) {
            true => Term(self.bounds.terms),
            false => nodes().map(RaftNode::term).max().unwrap_or_default(),
        }
    }

    /// Returns true if entries of a leader have no effect any more: the receiver follows it in the
    /// last term, will neither time out nor crash, and has all that they have.
    fn is_repeated_append(&mut self, key: &Key, message: u16, last_term: Term) -> bool {
        let Sent { to, term, sort, .. } = self.messages[usize::from(message)];
        let (number, history) = (key.hosts[to], &key.history);
        let host = &self.hosts[number as usize].0;
        let follows = host.node.role() == RaftRole::Follower && host.node.leader().is_some();
        let is_last = [term, host.node.term(), host.kept.term] == [last_term; 3];
        let stays = history.time_outs == self.bounds.time_outs
            && history.crashes == self.bounds.crashes
            && host.writing.is_none();
        if !(matches!(sort, Sort::Append) && follows && is_last && stays) {
            return false;
        }
        let (after, sends) = self.result(key, to, Action::Deliver(message));
        let is_match = |answer: &u16| {
            let sort = self.messages[usize::from(*answer)].sort;
            matches!(sort, Sort::Appended { matches: true })
        };
        after == number && !sends.is_empty() && sends.iter().all(is_match)
    }

    /// Leaves out messages without effect; those that they send are sent.
    pub(super) fn reduce_messages(&mut self, state: &mut State) {
        let last_term = self.last_term(&state.key);
        loop {
            let mut without = std::mem::take(&mut self.without_effect);
            without.clear();
            for number in bits(&state.sent) {
                let message = &self.messages[usize::from(number)];
                let host = |at: usize| &*self.hosts[state.key.hosts[at] as usize].0;
                if message.has_no_effect(host(message.to), host(message.from), last_term)
                    || self.is_repeated_append(&state.key, number, last_term)
                {
                    without.push(number);
                }
            }
            for number in &without {
                state.sent[usize::from(*number) / 64] &= !(1 << (number % 64));
                let Sent { from, to: at, .. } = self.messages[usize::from(*number)];
                if let Some(all) = &mut self.left_out {
                    let [receiver, sender] = [at, from].map(|at| state.key.hosts[at]);
                    all.insert(LeftOut {
                        message: *number,
                        receiver,
                        sender,
                        last_term,
                    });
                }
                let (_, sends) = self.result(&state.key, at, Action::Deliver(*number));
                super::add(&mut state.sent, &sends);
            }
            let is_done = without.is_empty();
            self.without_effect = without;
            if is_done {
                break;
            }
        }
        while state.sent.last() == Some(&0) {
            state.sent.pop();
        }
    }
}

/// Message that was left out, and the hosts that it was judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeftOut {
    message: u16,
    receiver: u32,
    sender: u32,
    last_term: Term,
}

#[test]
fn messages_without_effect_have_none() {
    for bounds in super::SMALL {
        let mut explorer = Explorer::new(bounds, None);
        explorer.left_out = Some(HashSet::new());
        explorer.run().unwrap();
        let mut next: HashMap<u32, Vec<(Action, u32)>> = HashMap::new();
        for ((host, action), (after, _)) in &explorer.results {
            next.entry(*host).or_default().push((*action, *after));
        }
        let left_out = explorer.left_out.take().unwrap_or_default();
        assert!(!left_out.is_empty(), "{bounds:?}");
        for left in left_out {
            let LeftOut {
                message,
                receiver,
                sender,
                last_term,
            } = left;
            let at = explorer.messages[usize::from(message)].to;
            let (after, sends) = explorer.apply(receiver, at, Action::Deliver(message), 0);
            assert_eq!(
                after, receiver,
                "{bounds:?}: message {message} has an effect"
            );
            let steps = |host: &u32| next.get(host).into_iter().flatten().copied();
            // Later hosts of the receiver: a write under way delays what is sent again, and terms
            // after the last one are not reached.
            for (action, later) in steps(&receiver) {
                let host = Rc::clone(&explorer.hosts[later as usize].0);
                let is_term = host.node.term() <= last_term;
                // A time-out or a crash is not to come, or is allowed for by the term.
                let may_be = matches!(action, Action::Deliver(_));
                if host.writing.is_some() || !is_term || !may_be {
                    continue;
                }
                let (after, again) = explorer.apply(later, at, Action::Deliver(message), 0);
                assert_eq!(
                    after, later,
                    "{bounds:?}: message {message} has an effect later"
                );
                // A leader sends its heartbeat after each step, so it was sent before.
                let is_new = |one: &&u16| {
                    let sent = &explorer.messages[usize::from(**one)];
                    let sender = &explorer.hosts[sender as usize].0;
                    !sends.contains(one)
                        && !matches!(sent.sort, Sort::Append)
                        && !sent.has_no_effect(sender, &host, last_term)
                };
                let new: Vec<_> = again.iter().filter(is_new).collect();
                assert!(
                    new.is_empty(),
                    "{bounds:?}: message {message} sends {new:?} later"
                );
            }
        }
    }
}

//! Safety after every step: election safety, log matching, leader completeness, equal states.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use consensus::{Entry, LogIndex, Membership, NodeId, RaftNode, RaftRole, Term};

/// Facts that all nodes showed so far.
#[derive(Debug, Default)]
pub(super) struct Checker {
    leaders: HashMap<Term, NodeId>,
    /// For the entry of an index and term: its hash, and the term of the one before.
    entries: HashMap<(LogIndex, Term), (u64, Option<Term>)>,
    /// For a committed index: the term of its entry, its hash, and the term that committed it.
    committed: HashMap<LogIndex, (Term, u64, Term)>,
    digests: HashMap<LogIndex, u64>,
    members: HashMap<LogIndex, Membership>,
    seen: HashMap<NodeId, Seen>,
}

/// State of a node when it was last checked.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: LogIndex,
    last_term: Term,
    commit: LogIndex,
    applied: LogIndex,
    leads: Option<Term>,
}

fn hash(entry: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.hash(&mut hasher);
    hasher.finish()
}

fn term(node: &RaftNode, index: LogIndex) -> Option<Term> {
    match index {
        LogIndex(0) => Some(Term(0)),
        _ => node.entry(index).map(|entry| entry.term),
    }
}

impl Checker {
    /// Forgets what a node showed: it restarts from its disk.
    pub(super) fn restarts(&mut self, node: NodeId) {
        self.seen.remove(&node);
    }

    /// Returns the number of committed entries.
    pub(super) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// Checks a node after a step.
    pub(super) fn check(&mut self, node: &RaftNode) -> Result<(), String> {
        let seen = self.seen.get(&node.id()).copied().unwrap_or_default();
        self.election_safety(node, seen)?;
        self.log_matching(node, seen)?;
        self.commitment(node, seen)?;
        self.leader_completeness(node, seen)?;
        self.equal_states(node, seen)?;
        let now = Seen {
            last: node.last(),
            last_term: term(node, node.last()).unwrap_or_default(),
            commit: node.commit(),
            applied: node.applied(),
            leads: (node.role() == RaftRole::Leader).then_some(node.term()),
        };
        self.seen.insert(node.id(), now);
        Ok(())
    }

    fn election_safety(&mut self, node: &RaftNode, seen: Seen) -> Result<(), String> {
        let (id, term) = (node.id(), node.term());
        if node.role() != RaftRole::Leader || seen.leads == Some(term) {
            return Ok(());
        }
        match self.leaders.insert(term, id) {
            Some(other) if other != id => Err(format!(
                "election safety: {other} and {id} lead term {term}"
            )),
            _ => Ok(()),
        }
    }

    fn log_matching(&mut self, node: &RaftNode, seen: Seen) -> Result<(), String> {
        // Entries up to one that was checked were checked with it.
        let is_kept = seen.last <= node.base() || term(node, seen.last) == Some(seen.last_term);
        let from = if is_kept {
            seen.last.max(node.base())
        } else {
            node.base()
        };
        for index in from.0 + 1..=node.last().0 {
            let index = LogIndex(index);
            let Some(entry) = node.entry(index) else {
                return Err(format!("log of {}: no entry {index}", node.id()));
            };
            let (hash, before) = (hash(entry), term(node, index.previous()));
            let known = self
                .entries
                .entry((index, entry.term))
                .or_insert((hash, before));
            let differs = before.is_some() && known.1.is_some() && before != known.1;
            if known.0 != hash || differs {
                return Err(format!("log matching: {} differs at {index}", node.id()));
            }
            known.1 = known.1.or(before);
        }
        Ok(())
    }

    fn commitment(&mut self, node: &RaftNode, seen: Seen) -> Result<(), String> {
        let from = seen.commit.max(node.base());
        for index in from.0 + 1..=node.commit().0 {
            let index = LogIndex(index);
            let Some(entry) = node.entry(index) else {
                return Err(format!("{} committed {index} without an entry", node.id()));
            };
            let (hash, term) = (hash(entry), node.term());
            let known = self
                .committed
                .entry(index)
                .or_insert((entry.term, hash, term));
            if (known.0, known.1) != (entry.term, hash) {
                return Err(format!("{} committed another entry at {index}", node.id()));
            }
        }
        Ok(())
    }

    fn leader_completeness(&self, node: &RaftNode, seen: Seen) -> Result<(), String> {
        if node.role() != RaftRole::Leader || seen.leads == Some(node.term()) {
            return Ok(());
        }
        for (&index, &(entry_term, _, committed_in)) in &self.committed {
            let must = committed_in < node.term() && index > node.base();
            if must && term(node, index) != Some(entry_term) {
                let id = node.id();
                return Err(format!(
                    "leader completeness: {id} leads without entry {index}"
                ));
            }
        }
        Ok(())
    }

    fn equal_states(&mut self, node: &RaftNode, seen: Seen) -> Result<(), String> {
        if node.applied() == seen.applied {
            return Ok(());
        }
        let members = node.applied_members();
        // A node that joins does not know the members before it applied an entry with them.
        if !members.all().is_empty()
            && self
                .members
                .insert(node.applied(), members)
                .is_some_and(|other| other != members)
        {
            return Err(format!(
                "{} has other members at {}",
                node.id(),
                node.applied()
            ));
        }
        let digest = node.digest();
        match self.digests.insert(node.applied(), digest) {
            Some(other) if other != digest => Err(format!(
                "equal states: {} differs after entry {}",
                node.id(),
                node.applied()
            )),
            _ => Ok(()),
        }
    }
}

//! What must hold at the end: equal logs, answers of one order of requests, and that order is one
//! of real time.

use std::collections::{BTreeMap, HashMap, HashSet};

use consensus::{ClientId, Entry, Key, Operation, Payload, RequestAnswer, StoredValue};

use crate::client::Done;
use crate::replica::SESSIONS;

/// The committed entries of each replica, by index, as far as the test saw them.
pub(crate) type Records = Vec<BTreeMap<u64, Entry>>;

/// Returns the committed entries with their indices, if all replicas have the same.
fn committed(records: &Records) -> Result<BTreeMap<u64, Entry>, String> {
    let mut all = BTreeMap::new();
    for (index, entry) in records.iter().flatten() {
        if *all.entry(*index).or_insert(*entry) != *entry {
            return Err(format!("replicas committed different entries at {index}"));
        }
    }
    let missing = (1..).zip(all.keys()).find(|(index, found)| index != *found);
    match missing {
        Some((index, _)) => Err(format!("entry {index} is committed and missing")),
        None => Ok(all),
    }
}

/// A session.
#[derive(Clone, Copy, Default)]
struct Session {
    client: ClientId,
    sequence: u64,
    used: u64,
}

/// The state after requests, by the rules of docs/internals/consensus.md.
struct Reference {
    session_life: u64,
    time: u64,
    sessions: [Session; SESSIONS],
    values: HashMap<Key, StoredValue>,
    opened: HashSet<ClientId>,
    /// The index at which each request was applied, and its answer.
    applied: HashMap<(ClientId, u64), (u64, RequestAnswer)>,
    /// Requests that came after the end of their sessions.
    late: HashSet<(ClientId, u64)>,
}

impl Reference {
    fn new(session_life: u64) -> Reference {
        Reference {
            session_life,
            time: 0,
            sessions: [Session::default(); SESSIONS],
            values: HashMap::new(),
            opened: HashSet::new(),
            applied: HashMap::new(),
            late: HashSet::new(),
        }
    }

    fn apply(&mut self, index: u64, entry: &Entry) {
        self.time = self.time.max(entry.time);
        let Payload::Request(request) = &entry.payload else {
            return;
        };
        let (time, life) = (self.time, self.session_life);
        let has_ended = |it: &Session| it.used.saturating_add(life) < time;
        if request.operation == Operation::OpenSession {
            let is_free = |it: &Session| it.client == ClientId(0) || has_ended(it);
            if let Some(place) = self.sessions.iter().position(is_free) {
                let client = ClientId(index << 16 | place as u64);
                self.sessions[place] = Session {
                    client,
                    sequence: 0,
                    used: time,
                };
                self.opened.insert(client);
            }
            return;
        }
        let name = (request.client, request.sequence);
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|it| it.client == request.client && !has_ended(it));
        let Some(session) = session else {
            self.late.insert(name);
            return;
        };
        session.used = time;
        if request.sequence > session.sequence {
            session.sequence = request.sequence;
            let answer = self.operate(&request.operation);
            self.applied.insert(name, (index, answer));
        }
    }

    fn operate(&mut self, operation: &Operation) -> RequestAnswer {
        match *operation {
            Operation::Get(key) => RequestAnswer::Value(self.values.get(&key).copied()),
            Operation::Put(key, value) => {
                self.values.insert(key, value);
                RequestAnswer::Done
            }
            Operation::Delete(key) => {
                self.values.remove(&key);
                RequestAnswer::Done
            }
            Operation::CompareAndSet { key, expected, new } => {
                let found = self.values.get(&key).copied();
                if found != expected {
                    return RequestAnswer::Differs(found);
                }
                self.values.insert(key, new);
                RequestAnswer::Swapped
            }
            Operation::OpenSession | Operation::Change { .. } | Operation::Confirm { .. } => {
                RequestAnswer::Done
            }
        }
    }
}

/// Checks the end of a run.
///
/// # Errors
/// What does not hold.
pub(crate) fn check(records: &Records, done: &[Done], session_life: u64) -> Result<(), String> {
    let mut reference = Reference::new(session_life);
    for (index, entry) in committed(records)? {
        reference.apply(index, &entry);
    }
    let mut order: Vec<(u64, &Done)> = Vec::new();
    for one in done {
        let name = (one.request.client, one.request.sequence);
        match one.answer {
            RequestAnswer::Opened(session) if reference.opened.contains(&session) => continue,
            RequestAnswer::Opened(session) => {
                return Err(format!("session {session} is of no committed entry"));
            }
            RequestAnswer::NoSession if reference.late.contains(&name) => continue,
            RequestAnswer::NoSession => return Err(format!("{one:?} had a session")),
            _ => {}
        }
        let Some((index, answer)) = reference.applied.get(&name) else {
            return Err(format!("{one:?} is answered and not committed"));
        };
        if *answer != one.answer {
            return Err(format!("{one:?} should be answered by {answer:?}"));
        }
        order.push((*index, one));
    }
    for (index, one) in &order {
        let is_late = |(later, other): &&(u64, &Done)| other.end < one.begin && later > index;
        if let Some((_, other)) = order.iter().find(is_late) {
            return Err(format!("{one:?} begins after {other:?} and is before it"));
        }
    }
    Ok(())
}

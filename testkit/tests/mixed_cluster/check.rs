//! What must hold at the end: equal logs, answers of one order of requests, and that order is one
//! of real time.

use std::collections::HashMap;

use consensus::{ClientId, Key, Operation, Payload, Request, RequestAnswer, StoredValue};

use crate::client::Done;
use crate::replica::Replica;

/// Returns the committed requests with their indices, if all replicas have the same.
fn committed(replicas: &[Replica]) -> Result<Vec<(u64, Request)>, String> {
    let commits = replicas.iter().map(Replica::commit);
    let Some((most, longest)) = commits.zip(replicas).max_by_key(|(commit, _)| *commit) else {
        return Ok(Vec::new());
    };
    let mut requests = Vec::new();
    for index in 1..=most {
        let entry = longest.entry(index);
        let entry = entry.ok_or_else(|| format!("entry {index} is committed and missing"))?;
        for other in replicas.iter().filter(|other| other.commit() >= index) {
            if other.entry(index) != Some(entry) {
                return Err(format!("replicas committed different entries at {index}"));
            }
        }
        if let Payload::Request(request) = entry.payload {
            requests.push((index, request));
        }
    }
    Ok(requests)
}

/// The state after requests, by the rules of docs/internals/consensus.md.
#[derive(Default)]
struct Reference {
    values: HashMap<Key, StoredValue>,
    /// The index at which each request was applied first, and its answer.
    applied: HashMap<(ClientId, u64), (u64, RequestAnswer)>,
    last: HashMap<ClientId, u64>,
}

impl Reference {
    fn apply(&mut self, index: u64, request: &Request) {
        let name = (request.client, request.sequence);
        let last = self.last.entry(request.client).or_default();
        if self.applied.contains_key(&name) || request.sequence <= *last {
            return;
        }
        *last = request.sequence;
        let answer = self.operate(&request.operation);
        self.applied.insert(name, (index, answer));
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
pub(crate) fn check(replicas: &[Replica], done: &[Done]) -> Result<(), String> {
    let mut reference = Reference::default();
    let mut opened = Vec::new();
    for (index, request) in committed(replicas)? {
        match request.operation {
            Operation::OpenSession => opened.push(index),
            _ => reference.apply(index, &request),
        }
    }
    let mut order: Vec<(u64, &Done)> = Vec::new();
    for one in done {
        if let RequestAnswer::Opened(session) = one.answer {
            if !opened.contains(&(session.0 >> 16)) {
                return Err(format!("session {session} is of no committed entry"));
            }
            continue;
        }
        let name = (one.request.client, one.request.sequence);
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

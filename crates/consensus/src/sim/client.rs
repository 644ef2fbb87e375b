//! Clients: one request at a time, repeated in its session until it is answered or given up.

use std::collections::BTreeMap;

use consensus::{
    ChangeBytes, ClientId, ElementId, Key, NodeId, Operation, Refusal, Request, RequestAnswer,
    StoredValue,
};
use support::rng::Rng;

use super::linear::{self, Effect};
use super::plan::Plan;

/// Attempts at a request before its outcome is left open.
const MAX_ATTEMPTS: u32 = 10;
/// Managed elements.
pub(super) const ELEMENTS: u64 = 2;

/// Histories of all keys.
pub(super) type Histories = BTreeMap<u64, Vec<linear::Operation>>;

/// Question of a client to a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Propose(Request),
    Read(Key),
}

/// Reply of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Refused(Refusal),
    Failed,
    Answered(RequestAnswer),
    Value(Option<StoredValue>),
}

/// The task under way.
#[derive(Clone, Copy, Debug)]
struct Task {
    question: Question,
    key: u64,
    call: u64,
    first_attempt: u64,
    attempt: u64,
    attempts: u32,
}

/// Client.
#[derive(Debug)]
pub(super) struct Client {
    session: Option<ClientId>,
    sequence: u64,
    target: usize,
    task: Option<Task>,
    /// Time of the call of the last request that was answered.
    pub(super) answered: Option<u64>,
    /// True if the client does one last read, then nothing.
    pub(super) ends: bool,
    pub(super) has_ended: bool,
}

pub(super) fn key(number: u64) -> Key {
    u128::from(number).to_le_bytes()
}

fn value(number: u64) -> StoredValue {
    StoredValue::new(&number.to_le_bytes()).unwrap_or_default()
}

fn number(value: Option<StoredValue>) -> u64 {
    let bytes = value.and_then(|value| value.get().try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

impl Client {
    pub(super) const fn new() -> Client {
        Client {
            session: None,
            sequence: 0,
            target: 0,
            task: None,
            answered: None,
            ends: false,
            has_ended: false,
        }
    }

    /// Begins a request, or tries again the one without an answer to `attempt`. Returns the
    /// question and the host to ask.
    pub(super) fn wake(
        &mut self,
        now: u64,
        woken: u64,
        attempt: u64,
        who: usize,
        (hosts, oldest_leader): (&[usize], Option<usize>),
        (plan, rng, histories): (&Plan, &mut Rng, &mut Histories),
    ) -> Option<(usize, Question)> {
        let task = match self.task {
            Some(task) if task.attempt != woken => return None,
            Some(task) if task.attempts >= MAX_ATTEMPTS => {
                self.leave_open(&task, histories);
                self.task(now, attempt, who, plan, rng)
            }
            Some(task) => Task {
                attempt,
                attempts: task.attempts + 1,
                ..task
            },
            None if self.has_ended => return None,
            None => self.task(now, attempt, who, plan, rng),
        };
        let is_retried = task.attempts > 1 && !rng.one_in(4);
        if is_retried || !hosts.contains(&self.target) {
            self.target = rng.pick(hosts).copied().unwrap_or_default();
        }
        if let Some(leader) = oldest_leader
            && who < plan.readers
        {
            self.target = leader;
        }
        self.task = Some(task);
        Some((self.target, task.question))
    }

    fn task(&mut self, now: u64, attempt: u64, who: usize, plan: &Plan, rng: &mut Rng) -> Task {
        let (mut key_number, unique) = (rng.below(plan.keys), attempt);
        let question = match (self.ends, self.session) {
            (true, _) => {
                key_number = who as u64 % plan.keys;
                Question::Read(key(key_number))
            }
            (false, None) => Question::Propose(Request {
                client: ClientId(0),
                sequence: 0,
                operation: Operation::OpenSession,
            }),
            (false, Some(client)) => {
                let name = key(key_number);
                let is_reader = who < plan.readers && !rng.one_in(20);
                let operation = match if is_reader { 0 } else { rng.below(20) } {
                    0..=6 => None,
                    7..=8 => Some(Operation::Get(name)),
                    9..=14 => Some(Operation::Put(name, value(unique))),
                    15 => Some(Operation::Delete(name)),
                    16 => {
                        let element = ElementId(rng.between(1, ELEMENTS) as u32);
                        let change = (!rng.one_in(3))
                            .then(|| ChangeBytes::new(&unique.to_le_bytes()).unwrap_or_default());
                        Some(Operation::Change {
                            element,
                            key: name,
                            change,
                        })
                    }
                    _ => {
                        let back = rng.below(3 * plan.clients as u64);
                        let expected = rng.one_in(4).then(|| value(unique.saturating_sub(back)));
                        let new = value(unique);
                        Some(Operation::CompareAndSet {
                            key: name,
                            expected,
                            new,
                        })
                    }
                };
                match operation {
                    None => Question::Read(name),
                    Some(operation) => {
                        self.sequence += 1;
                        let sequence = self.sequence;
                        Question::Propose(Request {
                            client,
                            sequence,
                            operation,
                        })
                    }
                }
            }
        };
        Task {
            question,
            key: key_number,
            call: now,
            first_attempt: attempt,
            attempt,
            attempts: 1,
        }
    }

    /// Takes a reply. Returns the attempt to wake up for and true if the task ended, or `None` if
    /// the reply is of no meaning now.
    pub(super) fn reply(
        &mut self,
        now: u64,
        attempt: u64,
        reply: Reply,
        histories: &mut Histories,
    ) -> Option<(u64, bool)> {
        let task = self.task.filter(|task| attempt >= task.first_attempt)?;
        match reply {
            Reply::Refused(refusal) => {
                if let Refusal::NotLeader(leader) = refusal {
                    // Without a hint any other node is asked.
                    let leader = leader.unwrap_or(NodeId(0));
                    self.target = leader.0.wrapping_sub(1) as usize;
                }
                if attempt != task.attempt {
                    return None;
                }
                // It was not taken: only attempts without an outcome count.
                let attempts = task.attempts - 1;
                self.task = Some(Task { attempts, ..task });
                return Some((attempt, false));
            }
            Reply::Failed => {
                return (attempt == task.attempt).then_some((attempt, false));
            }
            Reply::Answered(RequestAnswer::NoSession) => {
                self.session = None;
                self.leave_open(&task, histories);
            }
            Reply::Answered(RequestAnswer::Stale) => self.leave_open(&task, histories),
            Reply::Answered(RequestAnswer::Opened(client)) => {
                self.session = Some(client);
                self.sequence = 0;
            }
            Reply::Answered(answer) => {
                let effect = effect(&task.question, answer);
                self.record(&task, Some(now), effect, histories);
            }
            Reply::Value(value) => {
                self.record(
                    &task,
                    Some(now),
                    Some(Effect::Read(number(value))),
                    histories,
                );
            }
        }
        self.task = None;
        self.answered = Some(task.call);
        self.has_ended |= self.ends;
        Some((task.attempt, true))
    }

    /// Records a request of unknown outcome.
    fn leave_open(&self, task: &Task, histories: &mut Histories) {
        let effect = effect(&task.question, RequestAnswer::Done);
        self.record(task, None, effect, histories);
    }

    /// Leaves the task open that is under way when the run ends.
    pub(super) fn stop(&mut self, histories: &mut Histories) {
        if let Some(task) = self.task.take() {
            self.leave_open(&task, histories);
        }
    }

    fn record(
        &self,
        task: &Task,
        done: Option<u64>,
        effect: Option<Effect>,
        histories: &mut Histories,
    ) {
        if let Some(effect) = effect {
            let history = histories.entry(task.key).or_default();
            history.push(linear::Operation {
                call: task.call,
                done,
                effect,
            });
        }
    }
}

/// Returns the effect of a request with this answer; [`RequestAnswer::Done`] stands for the
/// greatest effect that it may have.
fn effect(question: &Question, answer: RequestAnswer) -> Option<Effect> {
    let Question::Propose(request) = question else {
        return None;
    };
    match (request.operation, answer) {
        (_, RequestAnswer::Full | RequestAnswer::SessionsFull) => None,
        (Operation::Get(_), RequestAnswer::Value(value)) => Some(Effect::Read(number(value))),
        (Operation::Put(_, value), RequestAnswer::Done) => Some(Effect::Write(number(Some(value)))),
        (Operation::Delete(_), RequestAnswer::Done) => Some(Effect::Write(0)),
        (Operation::CompareAndSet { .. }, RequestAnswer::Differs(found)) => {
            Some(Effect::Read(number(found)))
        }
        (
            Operation::CompareAndSet { expected, new, .. },
            RequestAnswer::Swapped | RequestAnswer::Done,
        ) => Some(Effect::Swap(number(expected), number(Some(new)))),
        _ => None,
    }
}

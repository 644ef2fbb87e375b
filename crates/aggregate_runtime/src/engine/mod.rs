//! Engines of an agent: processes of its host that store parts, collect reductions of them, and
//! reduce vectors in groups.

mod connection;
mod frame;
mod fuzz_agent;
mod member;
mod store;

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use aggregate::{Input, Mapper, Operator, Pair};
use packet::Nanos;
use serde::Serialize;
use support::wakeup::WakeupFd;

pub use connection::EngineNumber;
pub use frame::{CollectRequest, JoinRequest, StoredPart};
pub use fuzz_agent::{FuzzAgent, FuzzConnection};

use connection::{EngineEvent, EngineOutbox, EngineSink, EngineSocket};
use frame::FrameKind;
use member::GroupMember;
pub use store::PartLimits;
pub(crate) use store::PartStore;

use crate::order::{AgentReport, EngineOrder, EngineRequest};
use crate::stream::Address;

/// A COLLECT that has no answer yet.
struct Collecting {
    name: String,
    outbox: EngineOutbox,
    /// The reduced pairs and the bytes of their frames, when they are here.
    result: Option<(Vec<Pair>, u64)>,
}

/// Body of a COLLECTED.
#[derive(Serialize)]
struct CollectedBody {
    keys: usize,
    switches: Vec<String>,
    bytes: u64,
    attempts: u32,
    retried: u32,
}

/// Body of a JOINED.
#[derive(Serialize)]
struct JoinedBody {
    switches: Vec<String>,
    reducer: Ipv4Addr,
}

/// The engines of an agent. All of it is of the agent's thread, but for the threads of sockets.
pub(crate) struct Engines {
    host: Ipv4Addr,
    store: Arc<PartStore>,
    events: Receiver<EngineEvent>,
    sender: Sender<EngineEvent>,
    wakeup: Arc<WakeupFd>,
    socket: Option<EngineSocket>,
    collecting: BTreeMap<EngineNumber, Collecting>,
    members: BTreeMap<EngineNumber, GroupMember>,
}

impl Engines {
    /// Creates the engines of a host: none yet.
    pub(crate) fn new(host: Ipv4Addr, limits: PartLimits, wakeup: Arc<WakeupFd>) -> Engines {
        let (sender, events) = mpsc::channel();
        Engines {
            host,
            store: Arc::new(PartStore::new(limits)),
            events,
            sender,
            wakeup,
            socket: None,
            collecting: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    /// Opens the socket of engines.
    ///
    /// # Errors
    /// It is no Unix socket, or another process listens there.
    pub(crate) fn open(&mut self, address: &Address) -> Result<(), String> {
        self.socket = Some(EngineSocket::open(address, self.sink())?);
        Ok(())
    }

    /// Returns the target of the events of connections.
    fn sink(&self) -> EngineSink {
        EngineSink {
            host: self.host,
            store: Arc::clone(&self.store),
            events: self.sender.clone(),
            wakeup: Arc::clone(&self.wakeup),
        }
    }

    /// Returns the stored parts.
    pub(crate) fn store(&self) -> Arc<PartStore> {
        Arc::clone(&self.store)
    }

    /// Drops stored parts that have not been used for too long.
    pub(crate) fn drop_old_parts(&self) {
        self.store.drop_old(Instant::now());
    }

    /// Refuses what engines ask while there is no master.
    pub(crate) fn refuse(&mut self) {
        let no_master = "the agent has no master; start `polyplane aggregate serve`, and name this \
                         agent in its topology";
        // Nothing is reported.
        let _ = self.take_events();
        self.end_all(no_master);
    }

    /// Ends all requests and memberships with an error.
    pub(crate) fn end_all(&mut self, why: &str) {
        for collecting in std::mem::take(&mut self.collecting).into_values() {
            collecting
                .outbox
                .error(&format!("{}: {why}", collecting.name));
        }
        for member in std::mem::take(&mut self.members).into_values() {
            let group = &member.request.group;
            member.outbox.end_with(&format!("group {group}: {why}"));
        }
    }

    /// Takes what engines have sent. Returns the reports for the master.
    pub(crate) fn take_events(&mut self) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            let report = match event {
                EngineEvent::Collect(engine, request, outbox) => {
                    self.collect(engine, request, outbox)
                }
                EngineEvent::Join(engine, request, outbox) => {
                    let member = GroupMember::new(request.clone(), outbox);
                    self.members.insert(engine, member);
                    Some((engine, EngineRequest::Join(request)))
                }
                EngineEvent::Reduce(engine, submission) => {
                    if let Some(member) = self.members.get_mut(&engine) {
                        member.push(submission);
                    }
                    None
                }
                EngineEvent::Leave(engine) => self.leave(engine),
                EngineEvent::Gone(engine, why) => self.forget(engine, why),
            };
            let report = report.map(|(engine, request)| AgentReport::Engine { engine, request });
            reports.extend(report);
        }
        reports
    }

    fn collect(
        &mut self,
        engine: EngineNumber,
        request: CollectRequest,
        outbox: EngineOutbox,
    ) -> Option<(EngineNumber, EngineRequest)> {
        if self.collecting.contains_key(&engine) {
            outbox.end_with("COLLECT: the one before has no answer yet; open another connection");
            return None;
        }
        let collecting = Collecting {
            name: request.name.clone(),
            outbox,
            result: None,
        };
        self.collecting.insert(engine, collecting);
        Some((engine, EngineRequest::Collect(request)))
    }

    /// Lets an engine leave its group. One that has not begun fails.
    fn leave(&mut self, engine: EngineNumber) -> Option<(EngineNumber, EngineRequest)> {
        if self.members.get_mut(&engine)?.leave() {
            return None;
        }
        let why = "it has left before all ranks were there".to_owned();
        self.members.remove(&engine)?.outbox.end_with(&why);
        Some((engine, EngineRequest::Gone { why }))
    }

    /// Forgets an engine that has gone.
    fn forget(
        &mut self,
        engine: EngineNumber,
        why: String,
    ) -> Option<(EngineNumber, EngineRequest)> {
        let is_collecting = self.collecting.remove(&engine).is_some();
        let is_member = self.members.remove(&engine).is_some();
        (is_collecting || is_member).then_some((engine, EngineRequest::Gone { why }))
    }

    /// Carries out an order of the master.
    pub(crate) fn obey(&mut self, engine: EngineNumber, order: EngineOrder) {
        match order {
            EngineOrder::Failed { error } => {
                if let Some(collecting) = self.collecting.remove(&engine) {
                    collecting.outbox.error(&error);
                }
                if let Some(member) = self.members.remove(&engine) {
                    member.outbox.end_with(&error);
                }
            }
            EngineOrder::Collected {
                switches,
                attempts,
                retried,
            } => {
                let Some(collecting) = self.collecting.remove(&engine) else {
                    return;
                };
                let Some((pairs, bytes)) = collecting.result else {
                    // The order comes after the report of the result.
                    collecting.outbox.error("the result is not here");
                    return;
                };
                let keys = pairs.len();
                collecting.outbox.pairs(pairs);
                let body = CollectedBody {
                    keys,
                    switches,
                    bytes,
                    attempts,
                    retried,
                };
                collecting.outbox.json(FrameKind::Collected, &body);
            }
            EngineOrder::Joined { switches, reducer } => {
                if let Some(member) = self.members.get_mut(&engine) {
                    member.joined(&JoinedBody { switches, reducer });
                }
            }
        }
    }

    /// Keeps the result of a reduction for its engine. Returns an error message if a value is
    /// beyond 64 bits.
    pub(crate) fn keep_result(
        &mut self,
        engine: EngineNumber,
        (pairs, bytes): (Vec<Pair>, u64),
    ) -> Result<(), String> {
        let mut values = pairs.iter();
        if let Some(pair) = values.find(|pair| i64::try_from(pair.value).is_err()) {
            return Err(format!(
                "the value of the key \"{}\" is {}, which does not fit into 64 bits",
                pair.key.escape_ascii(),
                pair.value
            ));
        }
        if let Some(collecting) = self.collecting.get_mut(&engine) {
            collecting.result = Some((pairs, bytes));
        }
        Ok(())
    }

    /// Moves the submissions of a member on. Returns a report if it has left, or cannot go on.
    pub(crate) fn drive(
        &mut self,
        engine: EngineNumber,
        mapper: &mut Mapper,
        now: Nanos,
    ) -> Option<AgentReport> {
        let member = self.members.get_mut(&engine)?;
        let request = match member.drive(mapper, now) {
            Ok(()) if member.has_left() => EngineRequest::Left,
            Ok(()) => return None,
            Err(why) => EngineRequest::Failed { why },
        };
        if request == EngineRequest::Left
            && let Some(member) = self.members.remove(&engine)
        {
            member.outbox.end();
        }
        Some(AgentReport::Engine { engine, request })
    }
}

/// Returns the pairs of stored parts, combined by key.
pub(crate) fn stored(
    store: &PartStore,
    names: &[String],
    operator: Operator,
) -> Result<Input, String> {
    let now = Instant::now();
    let parts = names.iter().map(|name| {
        let part = store.get(name, now);
        part.ok_or_else(|| format!("no part {name} is stored at its agent; store it again"))
    });
    let parts: Vec<Arc<Vec<Pair>>> = parts.collect::<Result<_, _>>()?;
    if let [part] = &parts[..] {
        return Ok(Input::Pairs(part.to_vec()));
    }
    let mut combined: HashMap<&[u8], i128> = HashMap::new();
    for Pair { key, value } in parts.iter().flat_map(|part| part.iter()) {
        let of_key = combined.entry(key);
        let of_key = of_key.and_modify(|sum| *sum = operator.combine(*sum, *value));
        of_key.or_insert(*value);
    }
    let pairs = combined
        .into_iter()
        .map(|(key, value)| Pair::new(key, value));
    Ok(Input::Pairs(pairs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_host_are_combined_by_the_operator_and_a_missing_one_is_named() {
        let store = PartStore::default();
        let max = i128::from(i64::MAX);
        let parts = [
            ("a", vec![Pair::new(*b"x", 3), Pair::new(*b"y", max)]),
            ("b", vec![Pair::new(*b"x", -5), Pair::new(*b"z", 1)]),
            ("c", vec![Pair::new(*b"y", max)]),
        ];
        for (name, pairs) in parts {
            store.put(name.to_owned(), pairs, Instant::now()).unwrap();
        }
        for (operator, names, expected) in [
            (Operator::Add, &["a"][..], [Some(3), Some(max), None]),
            (
                Operator::Add,
                &["a", "b", "c"],
                [Some(-2), Some(2 * max), Some(1)],
            ),
            (
                Operator::Max,
                &["a", "b", "c"],
                [Some(3), Some(max), Some(1)],
            ),
            (Operator::Min, &["b", "a"], [Some(-5), Some(max), Some(1)]),
            (Operator::Add, &["b", "b"], [Some(-10), None, Some(2)]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = stored(&store, &names, operator).unwrap();
            let value = |key: &[u8]| {
                let mut pairs = found.pairs().iter();
                pairs.find(|pair| *pair.key == *key).map(|pair| pair.value)
            };
            assert_eq!(
                [b"x", b"y", b"z"].map(|key| value(key)),
                expected,
                "{names:?}"
            );
        }
        let missing = ["a".to_owned(), "d".to_owned()];
        let error = stored(&store, &missing, Operator::Add).unwrap_err();
        assert!(error.contains("no part d"), "{error}");
    }
}

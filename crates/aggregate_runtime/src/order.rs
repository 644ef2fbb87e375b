//! Lines of JSON between a master and its agents: who is there, orders and reports.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use aggregate::{
    FlowConfig, MapFunction, MapperCounts, Pair, ReducerConfig, ReducerCounts, ReductionError,
    SwitchPlace,
};
use packet::Nanos;
use serde::{Deserialize, Serialize};

use crate::engine::{CollectRequest, EngineNumber, JoinRequest};
use crate::vector_lines::{VectorDigest, VectorPart};

/// Pairs of a line of a result.
const PAIRS_PER_LINE: usize = 1000;

/// Version of the lines between agents, masters and clients.
pub const PROTOCOL: u16 = 1;

/// Part of a site, as its first line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// The agent of a host.
    Agent,
    /// The master.
    Master,
    /// A command that asks a master.
    Client,
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerKind::Agent => "agent",
            PeerKind::Master => "master",
            PeerKind::Client => "client",
        })
    }
}

/// First line of both sides of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The part.
    pub peer: PeerKind,
    /// Version of its lines.
    pub protocol: u16,
    /// Version of its program.
    pub polyplane: String,
    /// The address of an agent's host.
    pub address: Option<Ipv4Addr>,
    /// The reason for which it takes no orders.
    pub refusal: Option<String>,
}

impl Hello {
    /// Returns the first line of this program.
    pub fn own(peer: PeerKind) -> Hello {
        Hello {
            peer,
            protocol: PROTOCOL,
            polyplane: env!("CARGO_PKG_VERSION").to_owned(),
            address: None,
            refusal: None,
        }
    }

    /// Checks the first line of the other side.
    ///
    /// # Errors
    /// It is another part or of another version, or it refuses. The text follows the name of
    /// the other side.
    pub fn check(&self, wanted: PeerKind) -> Result<(), String> {
        if self.protocol != PROTOCOL {
            let (theirs, own) = (&self.polyplane, env!("CARGO_PKG_VERSION"));
            return Err(format!(
                "it is of polyplane {theirs} (lines of version {}), and this is {own} (version \
                 {PROTOCOL}); install the same polyplane at both",
                self.protocol
            ));
        }
        if self.peer != wanted {
            return Err(format!("a {} is there, and no {wanted}", self.peer));
        }
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(()),
        }
    }
}

/// An order to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOrder {
    /// Make the pairs of a mapper, and wait.
    Map(MapOrder),
    /// Prepare a reducer, and wait.
    Reduce(ReduceOrder),
    /// Begin with a mapper or a reducer that is prepared.
    Begin(BeginOrder),
    /// Replay the open epochs of a reducer, since the switches were loaded again.
    Restart {
        /// The reduction.
        at: AttemptId,
        /// Number of the load.
        number: u32,
    },
    /// Replay the open epochs of a reducer with another mapper of a flow.
    Replace {
        /// The reduction.
        at: AttemptId,
        /// The flow.
        flow: u16,
        /// Number of the load.
        number: u32,
    },
    /// Forget all mappers and reducers of an attempt.
    Drop {
        /// The reduction.
        at: AttemptId,
    },
    /// Answer an engine.
    Engine {
        /// The engine.
        engine: EngineNumber,
        /// The answer.
        order: EngineOrder,
    },
    /// The master is there. It is sent each second.
    Alive,
}

/// Answer to an engine of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineOrder {
    /// Its reduction or its group has failed.
    Failed {
        /// The error.
        error: String,
    },
    /// Its result is complete, as the agent has reported.
    Collected {
        /// Names of the switches that reduced.
        switches: Vec<String>,
        /// Number of attempts that began.
        attempts: u32,
        /// Number of mappers that were started again.
        retried: u32,
    },
    /// All ranks of its group are there.
    Joined {
        /// Names of the switches that reduce.
        switches: Vec<String>,
        /// The host of the reducer.
        reducer: Ipv4Addr,
    },
}

/// Request of an engine of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineRequest {
    /// Reduce stored parts, with the reducer on its host.
    Collect(CollectRequest),
    /// Join a group.
    Join(JoinRequest),
    /// It has left its group, and nothing of it is under way.
    Left,
    /// Its connection has ended.
    Gone {
        /// The reason.
        why: String,
    },
    /// It cannot go on.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Attempt of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    /// Number of the reduction.
    pub job: u16,
    /// Number of the attempt.
    pub attempt: u16,
}

impl AttemptId {
    /// Returns the attempt of flows.
    pub fn of(flows: &FlowConfig) -> AttemptId {
        AttemptId {
            job: flows.job,
            attempt: flows.attempt,
        }
    }
}

/// A mapper or a reducer that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginOrder {
    /// The reduction.
    pub at: AttemptId,
    /// The mapper. `None`: the reducer.
    pub flow: Option<u16>,
    /// Number of the load with which a reducer begins, or with which a mapper replaces another
    /// one. 0: it is the flow's first mapper.
    pub number: u32,
}

/// A mapper to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapOrder {
    /// Parameters of its flow.
    pub flows: FlowConfig,
    /// Number of its flow.
    pub flow: u16,
    /// Source of its input.
    pub source: MapSource,
    /// The host of its reducer.
    pub reducer: Ipv4Addr,
}

/// Source of a mapper's input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapSource {
    /// A map function of a file.
    Part {
        /// The function.
        function: MapFunction,
        /// The file.
        path: PathBuf,
    },
    /// Parts that engines have stored in the agent, combined by key.
    Stored {
        /// Their names.
        names: Vec<String>,
    },
    /// Vectors that an engine submits.
    Engine {
        /// The engine.
        engine: EngineNumber,
    },
}

/// Receiver of a reduction's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultTo {
    /// The master, with a report.
    Master,
    /// An engine of the reducer's host.
    Engine {
        /// The engine.
        engine: EngineNumber,
    },
    /// All ranks of a group, by their mappers. The reducer goes on until it is dropped.
    Ranks,
}

/// A reducer to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReduceOrder {
    /// Parameters of its flows.
    pub flows: FlowConfig,
    /// Number of mappers.
    pub mappers: u16,
    /// The switches.
    pub switches: Vec<SwitchPlace>,
    /// Slots of an epoch in each switch.
    pub slots: u32,
    /// Number of epochs that mappers may send at once.
    pub open_epochs: u16,
    /// Milliseconds without a message after which a mapper or a switch counts as failed.
    pub patience_ms: u64,
    /// Milliseconds that mappers have for their next vector after the first one has it.
    pub waiting_ms: u64,
    /// The hosts of the mappers and the addresses of the switches, by flow.
    pub addresses: Vec<Ipv4Addr>,
    /// Receiver of the result.
    pub result: ResultTo,
}

impl ReduceOrder {
    /// Returns the order for a reducer, with the addresses of its flows.
    pub fn new(config: ReducerConfig, addresses: Vec<Ipv4Addr>) -> ReduceOrder {
        let ReducerConfig {
            flows,
            mappers,
            switches,
            slots,
            open_epochs,
            patience,
            waiting,
        } = config;
        ReduceOrder {
            flows,
            mappers,
            switches,
            slots,
            open_epochs,
            patience_ms: patience.0 / 1_000_000,
            waiting_ms: waiting.0 / 1_000_000,
            addresses,
            result: ResultTo::Master,
        }
    }

    /// Returns the reducer's parameters.
    pub fn config(&self) -> ReducerConfig {
        ReducerConfig {
            flows: self.flows,
            mappers: self.mappers,
            switches: self.switches.clone(),
            slots: self.slots,
            open_epochs: self.open_epochs,
            patience: Nanos::from_millis(self.patience_ms),
            waiting: Nanos::from_millis(self.waiting_ms),
        }
    }
}

/// A report of an agent. `flow` is a mapper's; without it the report is a reducer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReport {
    /// A mapper or a reducer is prepared.
    Ready {
        /// The reduction.
        at: AttemptId,
        /// The mapper.
        flow: Option<u16>,
    },
    /// A mapper or a reducer cannot be prepared.
    Refused {
        /// The reduction.
        at: AttemptId,
        /// The mapper.
        flow: Option<u16>,
        /// The error.
        error: String,
    },
    /// The agent is there. It is reported each second.
    Alive,
    /// Pairs of a result: each key in hexadecimal digits, with its value.
    Pairs {
        /// The reduction.
        at: AttemptId,
        /// The pairs.
        pairs: Vec<(String, i128)>,
    },
    /// Values of a result that is a vector, in order.
    Vector {
        /// The reduction.
        at: AttemptId,
        /// The values.
        values: VectorPart,
    },
    /// A reduction has ended. Its result has been reported, or is kept for its engine.
    Reduced {
        /// The reduction.
        at: AttemptId,
        /// The failure, if it failed.
        failure: Option<ReductionError>,
        /// Number of pairs of the result, or of values of a vector.
        keys: u64,
        /// Counters of the reducer.
        counts: ReducerCounts,
        /// Nanoseconds from its begin.
        nanoseconds: u64,
        /// Bytes of the frames with its messages that have arrived.
        bytes: u64,
    },
    /// A mapper knows that its reduction is complete.
    Mapped {
        /// The reduction.
        at: AttemptId,
        /// The mapper.
        flow: u16,
        /// Counters of the mapper.
        counts: MapperCounts,
        /// The vector that it has got, if mappers get the result.
        received: Option<VectorDigest>,
    },
    /// A reducer needs a load of its switches, with a new number, before it goes on.
    LoadWanted {
        /// The reduction.
        at: AttemptId,
    },
    /// An engine asks.
    Engine {
        /// The engine.
        engine: EngineNumber,
        /// The request.
        request: EngineRequest,
    },
}

/// Returns the pairs of a result as they are reported, in parts of a line each.
pub(crate) fn lines_of(pairs: &[Pair]) -> impl Iterator<Item = Vec<(String, i128)>> {
    let parts = pairs.chunks(PAIRS_PER_LINE);
    parts.map(|pairs| pairs.iter().map(to_text).collect())
}

/// Returns a pair as it is reported.
fn to_text(pair: &Pair) -> (String, i128) {
    let digits = pair.key.iter().map(|byte| format!("{byte:02x}"));
    (digits.collect(), pair.value)
}

/// Reads a reported pair. `None` if the key is no bytes in hexadecimal digits.
pub(crate) fn from_text((digits, value): &(String, i128)) -> Option<Pair> {
    let bytes = digits.as_bytes().chunks(2).map(|byte| {
        let is_hex = byte.len() == 2 && byte.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(byte).ok().filter(|_| is_hex)?;
        u8::from_str_radix(digits, 16).ok()
    });
    let key: Vec<u8> = bytes.collect::<Option<_>>()?;
    Some(Pair::new(key, *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_any_bytes_are_read_back() {
        for key in [&b""[..], b"word", b"\0\xff\n\"", &[7; 300]] {
            for value in [0, -1, i128::from(u64::MAX), i128::MIN] {
                let pair = Pair::new(key, value);
                let line = serde_json::to_string(&to_text(&pair)).unwrap();
                let read = serde_json::from_str(&line).unwrap();
                assert_eq!(from_text(&read), Some(pair));
            }
        }
    }

    #[test]
    fn keys_that_are_no_digits_are_refused() {
        for key in ["a", "abc", "zz", "+1", "é"] {
            assert_eq!(from_text(&(key.to_owned(), 0)), None, "{key}");
        }
    }
}

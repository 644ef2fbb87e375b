//! Orders to agents and their reports: lines of JSON.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use aggregate::{
    FlowConfig, MapFunction, MapperCounts, Operator, Pair, ReducerConfig, ReducerCounts,
    ReductionError, SwitchPlace,
};
use packet::Nanos;
use serde::{Deserialize, Serialize};

/// An order to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOrder {
    /// Make the pairs of a mapper, and wait.
    Map(MapOrder),
    /// Prepare a reducer, and wait.
    Reduce(ReduceOrder),
    /// Begin with all that is prepared.
    Begin,
}

/// A mapper to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapOrder {
    /// Parameters of its flow.
    pub flows: FlowConfig,
    /// Number of its flow.
    pub flow: u16,
    /// Its function.
    pub function: MapFunction,
    /// Its part.
    pub part: PathBuf,
    /// The host of its reducer.
    pub reducer: Ipv4Addr,
}

impl MapOrder {
    /// Returns the operator, which also combines pairs of one part.
    pub fn operator(&self) -> Operator {
        self.flows.shape.operator
    }
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
    /// Number of the load of the switches.
    pub incarnation: u32,
    /// The hosts of the mappers and the addresses of the switches, by flow.
    pub addresses: Vec<Ipv4Addr>,
}

impl ReduceOrder {
    /// Returns the order for a reducer, with the number of the load of its switches and the
    /// addresses of its flows.
    pub fn new(config: ReducerConfig, incarnation: u32, addresses: Vec<Ipv4Addr>) -> ReduceOrder {
        let ReducerConfig {
            flows,
            mappers,
            switches,
            slots,
            open_epochs,
            patience,
        } = config;
        ReduceOrder {
            flows,
            mappers,
            switches,
            slots,
            open_epochs,
            patience_ms: patience.0 / 1_000_000,
            incarnation,
            addresses,
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
        }
    }
}

/// A report of an agent. `flow` is a mapper's; without it the report is a reducer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReport {
    /// A mapper or a reducer is prepared.
    Ready {
        /// Number of the reduction.
        job: u16,
        /// The mapper.
        flow: Option<u16>,
    },
    /// A mapper or a reducer cannot be prepared.
    Refused {
        /// Number of the reduction.
        job: u16,
        /// The mapper.
        flow: Option<u16>,
        /// The error.
        error: String,
    },
    /// A reducer is at work. It is reported at least every second.
    Working {
        /// Number of the reduction.
        job: u16,
    },
    /// Pairs of a result: each key in hexadecimal digits, with its value.
    Pairs {
        /// Number of the reduction.
        job: u16,
        /// The pairs.
        pairs: Vec<(String, i128)>,
    },
    /// A reduction has ended. Its pairs have been reported.
    Reduced {
        /// Number of the reduction.
        job: u16,
        /// The failure, if it failed.
        failure: Option<ReductionError>,
        /// Number of pairs that have been reported.
        keys: u64,
        /// Counters of the reducer.
        counts: ReducerCounts,
        /// Nanoseconds from its begin.
        nanoseconds: u64,
    },
    /// A mapper knows that its reduction is complete.
    Mapped {
        /// Number of the reduction.
        job: u16,
        /// The mapper.
        flow: u16,
        /// Counters of the mapper.
        counts: MapperCounts,
    },
}

/// Returns a pair as it is reported.
pub(crate) fn to_text(pair: &Pair) -> (String, i128) {
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

//! Results of nanoPUs and of requests to them. All of them are of a model.

use nanopu::{CoreState, Picos};
use packet::Nanos;
use serde::Serialize;

use super::{NanopuNode, RequestSender, picos};

/// Results of a nanoPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NanopuReport {
    /// Its name.
    pub name: String,
    /// Messages that it received whole.
    pub messages_received: u64,
    /// Messages that it sent and that were acknowledged whole.
    pub messages_sent: u64,
    /// Messages that it gave up after all timeouts.
    pub abandoned: u64,
    /// Timeouts of messages that it sent.
    pub timeouts: u64,
    /// Packets that arrived without their bytes.
    pub trimmed: u64,
    /// Packets for which there was no buffer.
    pub no_buffer: u64,
    /// Packets and messages for contexts that are not bound.
    pub unbound: u64,
    /// Messages that reached the message limit.
    pub evictions: u64,
    /// Its cores.
    pub cores: Vec<NanopuCore>,
}

/// Results of a core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NanopuCore {
    /// Executed instructions.
    pub instructions: u64,
    /// Cycles, each in one part.
    pub parts: Vec<(&'static str, u64)>,
    /// The fault that stopped it.
    pub fault: Option<String>,
}

/// Results of a series of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestsReport {
    /// Name of the host.
    pub from: String,
    /// Name of the nanoPU.
    pub to: String,
    /// Requests sent.
    pub sent: usize,
    /// Requests that were due and had no buffer of the host's transport yet.
    pub waiting: usize,
    /// Requests answered.
    pub answered: usize,
    /// Times from a request to the last bit of its answer. `None` without answers.
    pub latency: Option<MessageLatency>,
}

/// Distribution of latencies of messages, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MessageLatency {
    /// Minimum.
    pub min_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// Quantile 0.99.
    pub p99_ns: f64,
    /// Maximum.
    pub max_ns: f64,
}

impl MessageLatency {
    /// Returns the distribution of sorted times. `None` if there are none.
    fn of(sorted: &[Picos]) -> Option<MessageLatency> {
        let at = |per_mille: usize| {
            let rank = (sorted.len() * per_mille).div_ceil(1000).max(1);
            sorted.get(rank - 1).map(|time| time.as_nanos())
        };
        Some(MessageLatency {
            min_ns: at(0)?,
            p50_ns: at(500)?,
            p99_ns: at(990)?,
            max_ns: at(1000)?,
        })
    }
}

impl NanopuNode {
    pub(crate) fn report(&self, name: &str, now: Nanos) -> NanopuReport {
        let counts = self.device.counts();
        let states = self.device.states();
        let work = self.device.work_at(picos(now));
        let cores = states.zip(work).map(|(state, (parts, instructions))| {
            let fault = match state {
                CoreState::Faulted(fault) => Some(fault.to_string()),
                CoreState::Running | CoreState::Polling => None,
            };
            NanopuCore {
                instructions,
                parts: parts.named().to_vec(),
                fault,
            }
        });
        NanopuReport {
            name: name.to_owned(),
            messages_received: counts.transport.messages_received,
            messages_sent: counts.transport.messages_sent,
            abandoned: counts.transport.abandoned,
            timeouts: counts.transport.timeouts,
            trimmed: counts.transport.trimmed,
            no_buffer: counts.transport.no_buffer,
            unbound: counts.transport.unbound + counts.unbound,
            evictions: counts.evictions,
            cores: cores.collect(),
        }
    }
}

impl RequestSender {
    pub(crate) fn report(&self, from: &str, to: &str) -> RequestsReport {
        let latencies = self.latencies();
        RequestsReport {
            from: from.to_owned(),
            to: to.to_owned(),
            sent: self.sent(),
            waiting: self.waiting(),
            answered: latencies.len(),
            latency: MessageLatency::of(&latencies),
        }
    }
}

//! The sender of a host's requests: a transport without a program.

use nanopu::{Client, CostTable, Picos, SteadyLoad};
use packet::{Nanos, PortId};

use super::{MacAddresses, TransportPort, nanos, picos};
use crate::node::NodeCounts;
use crate::topology::{HostSpec, NanopuSpec, RequestsSpec};

/// Sends the requests of a host, and takes their answers. Its packets do not wait for the queue of
/// the host's card; the link queues them.
pub(crate) struct RequestSender {
    client: Client,
    port: TransportPort,
    spec: RequestsSpec,
    /// Time since which no request waits, or is sent and not acknowledged.
    all_sent_at: Option<Nanos>,
}

impl RequestSender {
    pub(crate) fn new(
        spec: &RequestsSpec,
        from: &HostSpec,
        to: &NanopuSpec,
        known: MacAddresses,
    ) -> RequestSender {
        let mut client = Client::new(from.address.to_bits(), &CostTable::default());
        client.plan_steady(SteadyLoad {
            first: picos(spec.at),
            interval: picos(spec.interval),
            messages: spec.messages,
            peer: to.host.address.to_bits(),
            peer_context: spec.context,
            contents: spec.contents.clone().into(),
            offset: 0,
            stride: 1,
        });
        RequestSender {
            client,
            port: TransportPort::new(from.clone(), known),
            spec: spec.clone(),
            all_sent_at: None,
        }
    }

    /// Takes a frame if it is a packet for this transport.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Nanos) -> bool {
        let Some(packet) = self.port.read(bytes) else {
            return false;
        };
        self.client.receive_packet(&packet, picos(now));
        self.port.write(self.client.take_sent());
        self.note(now);
        true
    }

    pub(crate) fn step(&mut self, now: Nanos) {
        self.client.step(picos(now));
        self.port.write(self.client.take_sent());
        self.note(now);
    }

    fn note(&mut self, now: Nanos) {
        if self.all_sent_at.is_none() && self.client.has_sent_all() {
            self.all_sent_at = Some(now);
        }
    }

    /// Returns the time since which no request waits, or is sent and not acknowledged.
    pub(crate) const fn all_sent_at(&self) -> Option<Nanos> {
        self.all_sent_at
    }

    /// Ends a pause of the host.
    pub(crate) fn resume(&mut self, from: Nanos, now: Nanos) {
        self.client.pause(picos(from), picos(now));
    }

    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.client.next_time().map(nanos)
    }

    pub(crate) fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.port.drain(take);
    }

    /// Adds what this sender did to the counters of its host, which has counted what it received.
    pub(crate) fn add_to(&self, counts: &mut NodeCounts) {
        counts.made += self.port.sent + self.port.no_neighbour;
        counts.sent += self.port.sent;
        counts.dropped.extend(self.port.dropped());
    }

    /// Returns the number of requests that the transport has sent at least once.
    pub(crate) fn sent(&self) -> usize {
        self.client.steady_sent() - self.waiting()
    }

    /// Returns the times from requests to the last bits of their answers, sorted.
    pub(crate) fn latencies(&self) -> Vec<Picos> {
        let first = picos(self.spec.at);
        let of = |turn: usize| first + Picos(picos(self.spec.interval).0 * turn as u64);
        let answers = self.client.steady_answers().into_iter();
        let mut times: Vec<Picos> = answers.map(|(turn, time)| time.since(of(turn))).collect();
        times.sort_unstable();
        times
    }

    /// Returns the number of requests that wait for a buffer of the transport.
    pub(crate) fn waiting(&self) -> usize {
        self.client.waiting()
    }

    /// Returns true if each request is answered.
    pub(crate) fn is_done(&self) -> bool {
        let all = self.spec.messages;
        let may_be = self.sent() == all && self.client.received_count() >= all;
        may_be && self.client.steady_answers().len() == all
    }
}

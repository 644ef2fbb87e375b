//! Three replicas of `raft.elf` at one switch, and a client: writes of 64 bytes under keys of 16
//! (paper, 3.2.3).

use std::collections::HashMap;

use consensus::{
    ClientBody, ClientId, ClientMessage, NodeId as ReplicaId, Operation, Request, RequestAnswer,
    StoredValue,
};
use nanopu::{CoreState, Cost, CostTable, Device, LinkFaults, Network, NodeId, Picos, RpcMessage};
use support::quantile::quantile;
use support::rng::Rng;

use super::super::median;
use super::{MEMORY, Program};

/// IPv4 address of the first replica; those of the others follow.
const REPLICA: u32 = 0x0a00_0001;
const REPLICAS: usize = 3;
const CLIENT: u32 = 0x0a00_0101;
/// Name of the cluster, and of the client in messages.
const CLUSTER: u64 = 1;
const CLIENT_NODE: ReplicaId = ReplicaId(100);
/// Keys (paper, 3.2.3: "10K keys" of the load generator).
const KEYS: u64 = 10_000;
/// Sessions, which have one request at a time each.
const SESSIONS: usize = 64;
/// Time after which a request is not answered any more.
const PATIENCE: Picos = Picos::from_nanos(50_000_000);
/// Time that the network runs before the client looks for an answer.
const STEP: Picos = Picos::from_nanos(1000);
/// Times of the replicas in nanoseconds (public sources of the paper: an election after 5 ms).
const ELECTION_NS: u64 = 5_000_000;
const HEARTBEAT_NS: u64 = 500_000;
/// Entries that a replica has.
const RING: u64 = 256;

/// Times of writes in ns, and what of the median is not a replica's program.
pub(in super::super) struct RaftTimes {
    pub(in super::super) median: f64,
    pub(in super::super) p99: f64,
    pub(in super::super) network: f64,
}

/// A cluster with its client.
struct Cluster {
    network: Network,
    replicas: Vec<NodeId>,
    client: NodeId,
    leader: usize,
    now: Picos,
    token: u64,
    sessions: Vec<(ClientId, u64)>,
    /// Differences between times of writes: no multiple of a cycle.
    chance: Rng,
}

impl Cluster {
    /// Creates a cluster that has a leader and sessions.
    fn new(costs: &CostTable) -> Result<Cluster, String> {
        let image = Program::Raft.image()?;
        let mut network = Network::new(costs, LinkFaults::default());
        let replicas = (0..REPLICAS).map(|number| {
            let address = REPLICA + number as u32;
            let device = Device::new(&image, MEMORY, 1, address, costs);
            network.add_device(address, device)
        });
        let replicas = replicas.collect();
        let client = network.add_client(CLIENT);
        let mut cluster = Cluster {
            network,
            replicas,
            client,
            leader: 0,
            now: Picos::from_nanos(100_000),
            token: 0,
            sessions: Vec::new(),
            chance: Rng::new(1),
        };
        for number in 0..REPLICAS {
            let message = cluster.message_to(number, setup(number));
            cluster.network.plan(client, cluster.now, message);
        }
        // An election takes two timeouts at most, if no two replicas campaign at once.
        cluster.now += Picos::from_nanos(4 * ELECTION_NS);
        cluster.network.run(cluster.now);
        cluster.network.take_received(client);
        for _ in 0..SESSIONS {
            match cluster.request(ClientId(0), 0, Operation::OpenSession)?.1 {
                RequestAnswer::Opened(session) => cluster.sessions.push((session, 0)),
                other => return Err(format!("a session is answered by {other:?}")),
            }
        }
        Ok(cluster)
    }

    fn message_to(&self, replica: usize, bytes: Vec<u8>) -> RpcMessage {
        RpcMessage {
            context: 0,
            peer: REPLICA + replica as u32,
            peer_context: 0,
            bytes,
        }
    }

    /// Plans a request to the leader and returns its token.
    fn plan(&mut self, at: Picos, client: ClientId, sequence: u64, operation: Operation) -> u64 {
        self.token += 1;
        let message = ClientMessage {
            from: CLIENT_NODE,
            to: ReplicaId(1 + self.leader as u64),
            token: self.token,
            body: ClientBody::Request(Request {
                client,
                sequence,
                operation,
            }),
        };
        let mut bytes = Vec::new();
        message.encode(CLUSTER, &mut bytes);
        let message = self.message_to(self.leader, bytes);
        self.network.plan(self.client, at, message);
        self.token
    }

    /// Takes the messages that the client received.
    fn answers(&mut self) -> Result<Vec<(Picos, ClientMessage)>, String> {
        let received = self.network.take_received(self.client).into_iter();
        let read = received.map(|received| {
            let message = ClientMessage::decode(CLUSTER, &received.message.bytes);
            let message = message.map_err(|error| format!("an answer: {error}"))?;
            Ok((received.time, message))
        });
        read.collect()
    }

    /// Sends a request and returns the time of its answer from the request on, and the answer.
    fn request(
        &mut self,
        client: ClientId,
        sequence: u64,
        operation: Operation,
    ) -> Result<(Picos, RequestAnswer), String> {
        // After the step in which the answer before was found, in any phase of polling loops.
        let mut start = self.now + Picos(2 * STEP.0 + self.chance.below(100_000));
        let mut token = self.plan(start, client, sequence, operation);
        let end = start + PATIENCE;
        while let Some(time) = self.network.next_time().filter(|time| *time <= end) {
            self.network.run(time + STEP);
            for (time, message) in self.answers()? {
                self.now = time;
                match message.body {
                    ClientBody::Answer(answer) if message.token == token => {
                        return Ok((time.since(start), answer));
                    }
                    ClientBody::NotLeader(leader) if message.token == token => {
                        let next = self.leader as u64 + 1;
                        let leader = leader.map_or(next, |leader| leader.0 - 1);
                        self.leader = leader as usize % REPLICAS;
                        start = time + Picos::from_nanos(ELECTION_NS / 5);
                        token = self.plan(start, client, sequence, operation);
                    }
                    _ => {}
                }
            }
        }
        Err(self.fault("a request is not answered"))
    }

    /// Returns an error with the faults of the replicas, if they have some.
    fn fault(&self, message: &str) -> String {
        let devices = self.replicas.iter();
        let devices = devices.filter_map(|replica| self.network.device(*replica));
        let mut states = devices.flat_map(Device::states);
        let fault = states.find_map(|state| match state {
            CoreState::Faulted(fault) => Some(fault.to_string()),
            _ => None,
        });
        fault.unwrap_or_else(|| message.to_owned())
    }

    /// Returns the next request of a session: a write of a random key.
    fn next_write(&mut self, session: usize) -> (ClientId, u64, Operation) {
        let key = u128::from(self.chance.below(KEYS)).to_le_bytes();
        let value = StoredValue::new(&[7; 64]).unwrap_or_default();
        let (client, sequence) = &mut self.sessions[session];
        *sequence += 1;
        (*client, *sequence, Operation::Put(key, value))
    }

    /// Writes one after the other, and returns their times in ns.
    fn write(&mut self, writes: usize) -> Result<Vec<f64>, String> {
        let mut times = Vec::with_capacity(writes);
        for _ in 0..writes {
            let (client, sequence, operation) = self.next_write(0);
            let (time, answer) = self.request(client, sequence, operation)?;
            if answer != RequestAnswer::Done {
                return Err(format!("a write is answered by {answer:?}"));
            }
            times.push(time.as_nanos());
        }
        Ok(times)
    }

    /// Sends writes at a rate, and returns the times of those that are answered in ns.
    fn load(&mut self, per_second: f64, writes: usize) -> Result<Vec<f64>, String> {
        let interval = 1e12 / per_second;
        let begin = self.now + Picos::from_nanos(10_000);
        let mut starts = HashMap::new();
        for number in 0..writes {
            // Up to a tenth of the interval earlier or later.
            let jitter = self.chance.below((interval / 5.0) as u64) as f64;
            let at = begin + Picos((interval * (number as f64 + 1.0) + jitter) as u64);
            let (client, sequence, operation) = self.next_write(number % SESSIONS);
            starts.insert(self.plan(at, client, sequence, operation), at);
            self.now = at;
        }
        self.now += PATIENCE;
        self.network.run(self.now);
        let mut times = Vec::with_capacity(writes);
        for (time, message) in self.answers()? {
            if let ClientBody::Answer(RequestAnswer::Done) = message.body
                && let Some(start) = starts.remove(&message.token)
            {
                times.push(time.since(start).as_nanos());
            }
        }
        if times.is_empty() {
            return Err(self.fault("no write of a load is answered"));
        }
        Ok(times)
    }
}

/// Returns the message that configures a replica.
fn setup(number: usize) -> Vec<u8> {
    let id = 1 + number as u64;
    let mut words = vec![CLUSTER, id, 1, ELECTION_NS, HEARTBEAT_NS, RING, KEYS];
    words.extend([SESSIONS as u64, u64::MAX, 64, REPLICAS as u64]);
    for member in 0..REPLICAS as u64 {
        words.extend([1 + member, (u64::from(REPLICA) + member) << 32]);
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Returns the times of a number of writes with these costs, after some to warm.
///
/// # Errors
/// A write fails.
pub(in super::super) fn raft_times(costs: &CostTable, writes: usize) -> Result<RaftTimes, String> {
    let mut cluster = Cluster::new(costs)?;
    cluster.write(writes / 10 + 20)?;
    let mut times = cluster.write(writes)?;
    Ok(RaftTimes {
        median: median(&times),
        p99: quantile(&mut times, 0.99).unwrap_or(0.0),
        network: network_ns(costs),
    })
}

/// The time of four messages outside of programs: client to leader, leader to follower, and back.
/// The client has no ingress. A frame is sent by its node and by the switch.
fn network_ns(costs: &CostTable) -> f64 {
    let request = 48 + 17 + 16 + 1 + 64;
    let entries = 74 + 33 + 16 + 1 + 64;
    let frames: u64 = [request, entries, 65, 49]
        .map(|bytes| 2 * costs.wire_time(nanopu::wire::HEADER_BYTES + bytes).0)
        .iter()
        .sum();
    let get = |cost| costs.get(cost);
    let picos = frames
        + 8 * get(Cost::Link)
        + 4 * (get(Cost::Switch) + get(Cost::Egress))
        + 3 * get(Cost::Ingress);
    Picos(picos).as_nanos()
}

/// Returns a rate of writes with their median and 99th percentile in ns.
///
/// # Errors
/// A write fails.
pub(super) fn times_at(costs: &CostTable, rate: f64, writes: usize) -> Result<[f64; 3], String> {
    let mut cluster = Cluster::new(costs)?;
    cluster.write(200)?;
    let mut times = cluster.load(rate, writes)?;
    let lost = writes - times.len();
    // What is not answered counts as the slowest.
    times.extend(std::iter::repeat_n(PATIENCE.as_nanos(), lost));
    let tail = quantile(&mut times, 0.99).unwrap_or(0.0);
    Ok([rate, median(&times), tail])
}

/// The greatest of some rates up to which the 99th percentile of writes is at most twice that of
/// the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Knee {
    /// This rate; the next greater one does not hold.
    At(f64),
    /// No rate of the list fails: this is the last one.
    AtLeast(f64),
}

/// Returns the knee of rates with their medians and 99th percentiles.
pub(super) fn knee(points: &[[f64; 3]]) -> Knee {
    let first = points.first().map_or(0.0, |[.., tail]| *tail);
    let holds = points.iter().take_while(|[.., tail]| *tail <= 2.0 * first);
    let held = holds.count();
    let rate = held.checked_sub(1).map_or(0.0, |last| points[last][0]);
    match held == points.len() {
        true => Knee::AtLeast(rate),
        false => Knee::At(rate),
    }
}

/// Returns costs with a switch of another latency, raised as the switch of `costs` is.
///
/// # Errors
/// The latency is no value of the cost.
pub(in super::super) fn with_switch(costs: &CostTable, picos: u64) -> Result<CostTable, String> {
    let mut costs = costs.clone();
    let raised = u128::from(picos) * u128::from(costs.get(Cost::Switch));
    let raised = raised / u128::from(Cost::Switch.default_value());
    let set = costs.set(Cost::Switch, raised as u64);
    set.map_err(|error| error.to_string())?;
    Ok(costs)
}

/// The median time of a write with a switch of 1 ns.
pub(super) fn write_near_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(raft_times(&with_switch(costs, 1000)?, 100)?.median)
}

/// The median time of a write with the switch of the costs.
pub(super) fn write_far_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(raft_times(costs, 100)?.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knee_needs_a_rate_that_fails() {
        let points = [[100.0, 1.0, 3.0], [200.0, 1.0, 6.0], [300.0, 1.0, 7.0]];
        assert_eq!(knee(&points), Knee::At(200.0));
        assert_eq!(knee(&points[..2]), Knee::AtLeast(200.0));
    }

    #[test]
    fn a_switch_of_300_ns_adds_four_passes_to_the_nanosecond() {
        // The same writes in both: each takes as long as its key and the caches say.
        let times = |picos| {
            let costs = with_switch(&CostTable::default(), picos).unwrap();
            let mut cluster = Cluster::new(&costs).unwrap();
            cluster.write(50).unwrap();
            cluster.write(400).unwrap()
        };
        let pairs = times(300_000).into_iter().zip(times(1_000));
        let differences: Vec<f64> = pairs.map(|(far, near)| far - near).collect();
        let difference = median(&differences);
        assert!((difference - 4.0 * 299.0).abs() < 1.0, "{difference}");
    }
}

//! The check of detours against the topology: a detour must not make a forwarding loop or a black
//! hole.
//!
//! A switch with a managed entry of the flow forwards by that entry. Others are assumed to forward
//! by any of the shortest paths, each link with cost 1. So a detour is refused unless its neighbor
//! is loop-free for the destination (RFC 5286, section 3.1), and so are all switches after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use fabric::Topology;
use fabric::topology::{End, HostId, NodeId, SwitchId};

/// Reason for which a detour is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DetourFault {
    /// The topology has no host with the destination's address.
    UnknownDestination,
    /// No link is at the port.
    NoLink,
    /// The way ends at a switch or host from which the destination cannot be reached.
    BlackHole,
    /// The way can come to the same switch again.
    Loop,
}

/// The links of a topology, and the distances of switches from hosts.
#[derive(Clone, Debug)]
pub struct DetourCheck {
    /// The node at the other end, by switch and port.
    peers: Vec<BTreeMap<u32, NodeId>>,
    hosts: BTreeMap<Ipv4Addr, HostId>,
    /// Number of links to each host, by host and switch.
    distances: Vec<Vec<Option<u32>>>,
}

/// State of a switch in a search for a cycle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    No,
    Open,
    Done,
}

impl DetourCheck {
    /// Creates the check of a topology.
    pub fn new(topology: &Topology) -> DetourCheck {
        DetourCheck::without(topology, &BTreeSet::new())
    }

    /// Creates the check of a topology without some of its links, by their places.
    pub fn without(topology: &Topology, down: &BTreeSet<usize>) -> DetourCheck {
        let mut peers = vec![BTreeMap::new(); topology.switches.len()];
        let links = topology.links.iter().enumerate();
        for (_, link) in links.filter(|(at, _)| !down.contains(at)) {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                if let End {
                    node: NodeId::Switch(SwitchId(switch)),
                    port,
                } = from
                {
                    peers[switch].insert(port.0, to.node);
                }
            }
        }
        let hosts = topology.hosts.iter().enumerate();
        let distances = (0..topology.hosts.len()).map(|host| distances(&peers, HostId(host)));
        DetourCheck {
            distances: distances.collect(),
            hosts: hosts.map(|(at, host)| (host.address, HostId(at))).collect(),
            peers,
        }
    }

    /// Checks that packets to a destination reach it if a switch sends them by a port. `managed`
    /// returns the port of the flow's managed entry in another switch.
    ///
    /// # Errors
    /// The way may be a loop or a black hole, or cannot be checked.
    pub fn check(
        &self,
        (switch, port): (SwitchId, u32),
        destination: IpAddr,
        managed: &dyn Fn(SwitchId) -> Option<u32>,
    ) -> Result<(), DetourFault> {
        let host = match destination {
            IpAddr::V4(address) => self.hosts.get(&address).copied(),
            IpAddr::V6(_) => None,
        };
        let host = host.ok_or(DetourFault::UnknownDestination)?;
        if !self.peers[switch.0].contains_key(&port) {
            return Err(DetourFault::NoLink);
        }
        let managed = |at: SwitchId| match at == switch {
            true => Some(port),
            false => managed(at),
        };
        let mut visits = vec![Visit::No; self.peers.len()];
        self.follow(switch, host, &managed, &mut visits)
    }

    /// Follows all ways from a switch, depth first.
    fn follow(
        &self,
        from: SwitchId,
        host: HostId,
        managed: &dyn Fn(SwitchId) -> Option<u32>,
        visits: &mut [Visit],
    ) -> Result<(), DetourFault> {
        // Each place of the stack is a switch with the ways that are left.
        visits[from.0] = Visit::Open;
        let mut stack = vec![(from, self.next_nodes(from, host, managed)?)];
        while let Some((switch, left)) = stack.last_mut() {
            match left.pop() {
                None => {
                    visits[switch.0] = Visit::Done;
                    stack.pop();
                }
                Some(NodeId::Host(reached)) if reached == host => {}
                Some(NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_)) => {
                    return Err(DetourFault::BlackHole);
                }
                Some(NodeId::Switch(next)) => match visits[next.0] {
                    Visit::Open => return Err(DetourFault::Loop),
                    Visit::Done => {}
                    Visit::No => {
                        visits[next.0] = Visit::Open;
                        stack.push((next, self.next_nodes(next, host, managed)?));
                    }
                },
            }
        }
        Ok(())
    }

    /// Returns the nodes that a switch may send packets for a host to.
    fn next_nodes(
        &self,
        switch: SwitchId,
        host: HostId,
        managed: &dyn Fn(SwitchId) -> Option<u32>,
    ) -> Result<Vec<NodeId>, DetourFault> {
        let peers = &self.peers[switch.0];
        if let Some(port) = managed(switch) {
            let peer = peers.get(&port).ok_or(DetourFault::BlackHole)?;
            return Ok(vec![*peer]);
        }
        let distances = &self.distances[host.0];
        let own = distances[switch.0].ok_or(DetourFault::BlackHole)?;
        let is_next = |peer: &NodeId| match peer {
            NodeId::Host(peer) => *peer == host,
            NodeId::Switch(peer) => distances[peer.0].is_some_and(|it| it + 1 == own),
            NodeId::Server(_) | NodeId::Nanopu(_) => false,
        };
        Ok(peers.values().copied().filter(is_next).collect())
    }
}

/// Returns the number of links from each switch to a host. Hosts and servers forward nothing.
fn distances(peers: &[BTreeMap<u32, NodeId>], host: HostId) -> Vec<Option<u32>> {
    let mut distances = vec![None; peers.len()];
    let mut queue = VecDeque::new();
    for (switch, peers) in peers.iter().enumerate() {
        if peers.values().any(|peer| *peer == NodeId::Host(host)) {
            distances[switch] = Some(1);
            queue.push_back((switch, 1));
        }
    }
    while let Some((switch, distance)) = queue.pop_front() {
        for peer in peers[switch].values() {
            if let NodeId::Switch(SwitchId(next)) = *peer
                && distances[next].is_none()
            {
                distances[next] = Some(distance + 1);
                queue.push_back((next, distance + 1));
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use support::rng::Rng;

    use super::*;

    /// Returns a topology of switches `s0` and up, with a host `h0` and up at port 0 of each.
    /// Links are pairs of switches; their ports are counted from 1.
    fn topology(switches: usize, links: &[(usize, usize)]) -> Topology {
        let mut text = String::new();
        let mut next = vec![1; switches];
        for at in 0..switches {
            write!(
                text,
                "[[switch]]\nname = \"s{at}\"\nslots = 0\n\
                 [[host]]\nname = \"h{at}\"\nip = \"10.0.0.{host}/24\"\n\
                 mac = \"02:00:00:00:00:{host:02x}\"\n\
                 [[link]]\nends = [\"h{at}\", \"s{at}:0\"]\n",
                host = at + 1
            )
            .unwrap();
        }
        for (a, b) in links {
            let (port_a, port_b) = (next[*a], next[*b]);
            next[*a] += 1;
            next[*b] += 1;
            writeln!(
                text,
                "[[link]]\nends = [\"s{a}:{port_a}\", \"s{b}:{port_b}\"]"
            )
            .unwrap();
        }
        let topology = Topology::read("t.toml", &text, Path::new("."));
        topology.unwrap_or_else(|error| panic!("{error}"))
    }

    fn address(host: usize) -> IpAddr {
        IpAddr::from([10, 0, 0, host as u8 + 1])
    }

    #[test]
    fn ways_back_and_ways_to_nowhere_are_refused() {
        // A square with a tail: s4 is a leaf of s2.
        let links = [(0, 1), (1, 3), (0, 2), (2, 3), (2, 4)];
        let check = DetourCheck::new(&topology(5, &links));
        let none = |_: SwitchId| None;
        let of = |port, to| check.check((SwitchId(0), port), address(to), &none);
        // Both ways around the square are equal.
        assert_eq!(of(1, 3), Ok(()));
        assert_eq!(of(2, 3), Ok(()));
        // s1 has no shortest path to s4 that leaves out s0, for one of two.
        assert_eq!(of(1, 4), Err(DetourFault::Loop));
        assert_eq!(of(2, 4), Ok(()));
        // Another host's port, a port without a link, and an unknown address.
        assert_eq!(of(0, 3), Err(DetourFault::BlackHole));
        assert_eq!(of(0, 0), Ok(()));
        assert_eq!(of(9, 3), Err(DetourFault::NoLink));
        assert_eq!(of(1, 9), Err(DetourFault::UnknownDestination));
        // s4 sends all packets back; s1 sends all to s3.
        let of_two = |switch: SwitchId| match switch.0 {
            4 => Some(1),
            1 => Some(2),
            _ => None,
        };
        let of = |at, port, to| check.check((SwitchId(at), port), address(to), &of_two);
        assert_eq!(of(0, 1, 4), Err(DetourFault::Loop));
        assert_eq!(of(0, 1, 3), Ok(()));
        assert_eq!(of(2, 3, 3), Err(DetourFault::Loop));
    }

    /// Follows one way with random choices. Returns the fault that it meets.
    fn walk(
        (check, rng): (&DetourCheck, &mut Rng),
        (switch, port): (SwitchId, u32),
        host: HostId,
        managed: &BTreeMap<SwitchId, u32>,
    ) -> Option<DetourFault> {
        let mut at = switch;
        let mut forced = Some(port);
        for _ in 0..=check.peers.len() {
            let entry = forced.take().or_else(|| match at == switch {
                true => Some(port),
                false => managed.get(&at).copied(),
            });
            let next = match entry {
                Some(port) => *check.peers[at.0].get(&port)?,
                None => {
                    let own = check.distances[host.0][at.0];
                    if own.is_none() {
                        return Some(DetourFault::BlackHole);
                    }
                    let next = check.peers[at.0]
                        .values()
                        .copied()
                        .filter(|peer| match peer {
                            NodeId::Host(peer) => *peer == host,
                            NodeId::Switch(peer) => {
                                check.distances[host.0][peer.0].map(|it| it + 1) == own
                            }
                            NodeId::Server(_) | NodeId::Nanopu(_) => false,
                        });
                    let next: Vec<NodeId> = next.collect();
                    next[rng.index(next.len())]
                }
            };
            match next {
                NodeId::Host(reached) if reached == host => return None,
                NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => {
                    return Some(DetourFault::BlackHole);
                }
                NodeId::Switch(next) => at = next,
            }
        }
        Some(DetourFault::Loop)
    }

    #[test]
    fn a_detour_is_refused_exactly_if_some_way_fails() {
        let mut rng = Rng::new(48);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..60 {
            let switches = 3 + rng.index(4);
            let pairs = (0..switches).flat_map(|a| (0..a).map(move |b| (a, b)));
            let links: Vec<_> = pairs.filter(|_| rng.one_in(2)).collect();
            let check = DetourCheck::new(&topology(switches, &links));
            for _ in 0..20 {
                let ports = |of: usize| check.peers[of].keys().copied().collect::<Vec<u32>>();
                let of = |rng: &mut Rng| {
                    let at = rng.index(switches);
                    let ports = ports(at);
                    (SwitchId(at), ports[rng.index(ports.len())])
                };
                let managed: BTreeMap<SwitchId, u32> =
                    (0..rng.index(3)).map(|_| of(&mut rng)).collect();
                let (from, host) = (of(&mut rng), rng.index(switches));
                let entry = |switch: SwitchId| managed.get(&switch).copied();
                let checked = check.check(from, address(host), &entry);
                let ways = (0..200).map(|_| walk((&check, &mut rng), from, HostId(host), &managed));
                let faults: Vec<DetourFault> = ways.flatten().collect();
                match checked {
                    Ok(()) => assert_eq!(faults, [], "{links:?} {from:?} {host} {managed:?}"),
                    Err(fault) => {
                        assert!(
                            faults.contains(&fault),
                            "{links:?} {from:?} {host} {managed:?}"
                        );
                    }
                }
                match checked {
                    Ok(()) => taken += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(
            taken > 100 && refused > 100,
            "{taken} taken, {refused} refused"
        );
    }
}

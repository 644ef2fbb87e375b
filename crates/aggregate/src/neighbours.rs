//! Neighbor entries of hosts. Switches that reduce answer no ARP requests.

use std::fmt;
use std::net::Ipv4Addr;

use fabric::Topology;
use fabric::topology::HostSpec;

use crate::plan::SWITCH_MAC;

/// Error for a network without an address for a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRouterError {
    /// The host.
    pub host: String,
}

impl fmt::Display for NoRouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "host {}: its network has no address for a router; give it a `gateway`, or a prefix \
             length of at most 30",
            self.host
        )
    }
}

impl std::error::Error for NoRouterError {}

/// Gives hosts an entry for each host of their network, and a router to all other addresses, as
/// far as they have none. The switches forward by IPv4 address and do not look at the MAC address.
///
/// # Errors
/// A network is too small.
pub fn set_neighbours(topology: &mut Topology) -> Result<(), NoRouterError> {
    let all: Vec<(Ipv4Addr, [u8; 6])> = topology
        .hosts
        .iter()
        .chain(topology.nanopus.iter().map(|nanopu| &nanopu.host))
        .map(|host| (host.address, host.mac))
        .collect();
    let nanopus = topology.nanopus.iter_mut().map(|nanopu| &mut nanopu.host);
    for host in topology.hosts.iter_mut().chain(nanopus) {
        let router = match host.gateway {
            Some(router) => router,
            None => router_of(host).ok_or_else(|| NoRouterError {
                host: host.name.clone(),
            })?,
        };
        host.gateway = Some(router);
        let (own, prefix_len) = (host.address, host.prefix_len);
        let others = all.iter().filter(|(address, _)| {
            *address != own && network(*address, prefix_len) == network(own, prefix_len)
        });
        for (address, mac) in others.copied().chain([(router, SWITCH_MAC)]) {
            let mut known = host.neighbours.iter();
            if !known.any(|(known, _)| *known == address) {
                host.neighbours.push((address, mac));
            }
        }
    }
    Ok(())
}

fn network(address: Ipv4Addr, prefix_len: u8) -> u32 {
    let host_bits = 32 - u32::from(prefix_len.min(32));
    u32::from(address)
        .checked_shr(host_bits)
        .unwrap_or_default()
}

/// Returns the first address of a host's network that is not its own.
fn router_of(host: &HostSpec) -> Option<Ipv4Addr> {
    let host_bits = 32 - u32::from(host.prefix_len.min(32));
    let first = network(host.address, host.prefix_len)
        .checked_shl(host_bits)
        .unwrap_or_default();
    let candidates = (1..=2).map(|offset| Ipv4Addr::from(first + offset));
    let mut free = candidates.filter(|address| *address != host.address);
    free.next().filter(|_| host_bits >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn hosts_know_all_hosts_of_their_network_and_a_router() {
        let host = |number: u8, ip: &str| {
            format!(
                "[[host]]\nname = \"h{number}\"\nmac = \"02:00:00:00:00:0{number}\"\nip = \"{ip}\"\n\
                 [[link]]\nends = [\"h{number}\", \"s:{number}\"]\n"
            )
        };
        let hosts = host(0, "10.0.0.1/24") + &host(1, "20.0.0.9/30") + &host(2, "10.0.0.7/24");
        let text = format!("name = \"t\"\n[[switch]]\nname = \"s\"\nslots = 10\n{hosts}");
        let mut topology = Topology::read("t.toml", &text, Path::new(".")).unwrap();
        set_neighbours(&mut topology).unwrap();
        let [a, b, _] = &topology.hosts[..] else {
            panic!("there are three hosts");
        };
        assert_eq!(a.gateway, Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(
            a.neighbours,
            [
                (Ipv4Addr::new(10, 0, 0, 7), [2, 0, 0, 0, 0, 2]),
                (Ipv4Addr::new(10, 0, 0, 2), SWITCH_MAC)
            ]
        );
        assert_eq!(b.gateway, Some(Ipv4Addr::new(20, 0, 0, 10)));
        topology.hosts[0].gateway = None;
        topology.hosts[0].prefix_len = 31;
        let error = set_neighbours(&mut topology).unwrap_err();
        assert_eq!(error.host, "h0");
    }
}

//! Commands of hosts that only set addresses, and the addresses that p4-utils assigns.

use std::net::Ipv4Addr;

use support::mac::MacAddress;

use crate::network::ImportedHost;

/// Effect of a command of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostCommand {
    /// Sets the router to other networks.
    Gateway(Ipv4Addr),
    /// Adds a static ARP entry.
    Neighbour(Ipv4Addr, MacAddress),
    /// Adds a route that the host's address has made already.
    Nothing,
    /// Something else, for a shell.
    Other,
}

/// Recognises a command of a host: `route`, `arp` and `ip` as far as they set its gateway and its
/// ARP entries, so that the machine needs neither net-tools nor iproute2.
pub(crate) fn host_command(host: &ImportedHost, command: &str) -> HostCommand {
    let words: Vec<&str> = command.split_whitespace().collect();
    let known = match words[..] {
        ["route", "add", "default", "gw", gateway]
        | ["route", "add", "default", "gw", gateway, "dev", _]
        | ["ip", "route", "add", "default", "via", gateway]
        | ["ip", "route", "add", "default", "via", gateway, "dev", _] => {
            let gateway = gateway.parse().ok();
            let gateway = gateway.filter(|gateway| is_reachable(host, *gateway));
            gateway.map(HostCommand::Gateway)
        }
        ["arp", "-s", address, mac]
        | ["arp", "-i", _, "-s", address, mac]
        | ["ip", "neigh", "add", address, "lladdr", mac, "dev", _] => {
            let (address, mac) = (address.parse().ok(), mac.parse().ok());
            address
                .zip(mac)
                .map(|(address, mac)| HostCommand::Neighbour(address, mac))
        }
        ["ip", "route", "add", network, "dev", _] => {
            let own = network_of(host.address, host.prefix_len);
            let own = format!("{own}/{}", host.prefix_len);
            (network == own).then_some(HostCommand::Nothing)
        }
        _ => None,
    };
    known.unwrap_or(HostCommand::Other)
}

fn is_reachable(host: &ImportedHost, gateway: Ipv4Addr) -> bool {
    let network = |address| network_of(address, host.prefix_len);
    gateway != host.address && network(gateway) == network(host.address)
}

/// Returns the first address of a network.
pub(crate) fn network_of(address: Ipv4Addr, prefix_len: u8) -> Ipv4Addr {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(prefix_len))
        .unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

/// Returns the MAC address that p4-utils derives from an address: `side` is 0 for a host, and 1 for
/// the port of its switch.
pub(crate) fn mac_of(address: Ipv4Addr, side: u8) -> MacAddress {
    let [a, b, c, d] = address.octets();
    MacAddress([0, side, a, b, c, d])
}

/// Strategy by which p4-utils assigns addresses to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignmentStrategy {
    /// All hosts in one network.
    L2,
    /// The hosts of a switch in one network.
    Mixed,
    /// Each host in a network of its own.
    L3,
    /// No strategy: all hosts in 10.0.0.0/8.
    Plain,
}

impl AssignmentStrategy {
    /// Returns the address of host `number` at a switch, its prefix length, and its gateway.
    pub(crate) fn address(
        self,
        switch: u16,
        number: u16,
    ) -> Option<(Ipv4Addr, u8, Option<Ipv4Addr>)> {
        let [upper, lower] = switch.to_be_bytes();
        let small = u8::try_from(number)
            .ok()
            .filter(|number| (1..254).contains(number));
        let [first, second] = number.to_be_bytes();
        match self {
            AssignmentStrategy::L2 => Some((Ipv4Addr::new(10, 0, first, second), 16, None)),
            AssignmentStrategy::Plain => Some((Ipv4Addr::new(10, 0, first, second), 8, None)),
            AssignmentStrategy::Mixed => {
                let gateway = Ipv4Addr::new(10, upper, lower, 254);
                let address = Ipv4Addr::new(10, upper, lower, small?);
                Some((address, 24, Some(gateway)))
            }
            AssignmentStrategy::L3 => {
                let switch = u8::try_from(switch).ok().filter(|switch| *switch < 254)?;
                let gateway = Ipv4Addr::new(10, switch, small?, 1);
                Some((Ipv4Addr::new(10, switch, small?, 2), 24, Some(gateway)))
            }
        }
    }
}

//! A topology as network namespaces: one for each host, and one with the switches' ports.
//!
//! The namespaces live as long as the values that refer to them, and no longer than the process.
//! Any end of the process removes hosts, links and addresses. Their names, by which
//! `ip netns exec` finds them, are symbolic links. Links that a crash left are dangling and are
//! replaced.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabric::Topology;
use fabric::topology::{End, HostId, HostSpec, Link, LinkSpec, NodeId, SwitchId};
use port::{FaultPort, FaultRates, Netns, NetnsError, OpenedPort, Port, PortDriver, Rtnl};
use support::rng::Rng;

use crate::out;
use crate::veth::{disable_ipv6_autoconf, open_port};

/// Directory in which `ip netns` finds namespaces.
const NAMES: &str = "/run/netns";

/// Name of each host's interface.
const HOST_INTERFACE: &str = "eth0";

/// The namespaces of a fabric.
pub(crate) struct Namespaces {
    /// Indexed by host.
    hosts: Vec<Netns>,
    switches: Netns,
    names: Vec<PathBuf>,
    /// True once a missing token bucket was reported.
    has_warned: AtomicBool,
}

impl Namespaces {
    /// Creates hosts and links, and gives the hosts their addresses and names.
    ///
    /// # Errors
    /// The process has no permission, or a name is taken.
    pub(super) fn make(topology: &Topology) -> Result<Namespaces, String> {
        let hosts = topology.hosts.iter().map(|_| silent());
        let mut namespaces = Namespaces {
            hosts: hosts.collect::<Result<_, _>>()?,
            switches: silent()?,
            names: Vec::new(),
            has_warned: AtomicBool::new(false),
        };
        for link in &topology.links {
            namespaces.plug(link)?;
        }
        for (host, netns) in topology.hosts.iter().zip(&namespaces.hosts) {
            configure(host, netns).map_err(|why| format!("host {}: {why}", host.name))?;
        }
        for number in 0..topology.hosts.len() {
            let name = namespaces.name(number, &topology.hosts[number].name)?;
            namespaces.names.push(name);
        }
        Ok(namespaces)
    }

    fn plug(&self, link: &Link) -> Result<(), String> {
        let [a, b] = link.ends;
        let (a, b) = match a.node {
            NodeId::Host(_) => (b, a),
            NodeId::Switch(_) | NodeId::Server(_) | NodeId::Nanopu(_) => (a, b),
        };
        let (here, there) = (interface(a), interface(b));
        let peer_in = match b.node {
            NodeId::Host(host) => Some(&self.hosts[host.0]),
            NodeId::Switch(_) | NodeId::Server(_) | NodeId::Nanopu(_) => None,
        };
        let mut rtnl = self.rtnl_of(a)?;
        let plugged = rtnl.add_veth(&here, &there, peer_in);
        plugged
            .and_then(|()| rtnl.set_up(&here))
            .map_err(|error| error.to_string())?;
        let mut rtnl = self.rtnl_of(b)?;
        // A switch's own queues have the rate of its links.
        if let (NodeId::Host(_), Some(rate)) = (b.node, link.spec.rate)
            && let Err(error) = rtnl.set_rate(&there, rate.0, waiting(&link.spec))
        {
            self.warn_of_rate(&error.to_string());
        }
        rtnl.set_up(&there).map_err(|error| error.to_string())
    }

    /// Notes once that the kernel does not limit what hosts send.
    fn warn_of_rate(&self, error: &str) {
        if !self.has_warned.swap(true, Relaxed) {
            out::note(&format!(
                "warning: `rate` limits what switches send, but not what hosts send: {error}"
            ));
        }
    }

    fn rtnl_of(&self, end: End) -> Result<Rtnl, String> {
        let netns = match end.node {
            NodeId::Host(host) => &self.hosts[host.0],
            NodeId::Switch(_) | NodeId::Server(_) | NodeId::Nanopu(_) => &self.switches,
        };
        netns.rtnl().map_err(|error| error.to_string())
    }

    /// Takes a link down or up, at its ends that are ports of switches. A host's interface stays
    /// up without a carrier: taken down, it would lose its routes and neighbor entries.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn set_link(&self, link: &Link, is_up: bool) -> Result<(), String> {
        let is_switch = |end: &End| matches!(end.node, NodeId::Switch(_));
        if !link.ends.iter().any(is_switch) {
            return Err("a link between hosts stays up".to_owned());
        }
        for end in link.ends.into_iter().filter(is_switch) {
            let mut rtnl = self.rtnl_of(end)?;
            let name = interface(end);
            let done = match is_up {
                true => rtnl.set_up(&name),
                false => rtnl.set_down(&name),
            };
            done.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Opens all ports of a switch that have a link.
    ///
    /// # Errors
    /// A port cannot be opened.
    pub(super) fn open(
        &self,
        topology: &Topology,
        switch: SwitchId,
        io: PortDriver,
    ) -> Result<Vec<OpenedPort>, String> {
        let mut opened = Vec::new();
        for (number, link) in topology.links.iter().enumerate() {
            let [a, b] = link.ends;
            for (own, other) in [(a, b), (b, a)] {
                if own.node != NodeId::Switch(switch) {
                    continue;
                }
                let open = || open_port(own.port, &interface(own), io);
                let port = self
                    .switches
                    .run(open)
                    .map_err(|error| error.to_string())??;
                let seed = topology.seed.wrapping_add(number as u64);
                let seed = Rng::new(seed).bits() ^ switch.0 as u64;
                opened.push(with_faults(port, (link.spec.faults, seed), other.node));
            }
        }
        Ok(opened)
    }

    /// Returns the number of bytes of the frames that a host's interface has received.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(crate) fn received_bytes(&self, host: HostId) -> Result<u64, String> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let text = self.hosts[host.0]
            .run(read)
            .map_err(|error| error.to_string())?;
        let text = text.map_err(|error| format!("cannot read the counters: {error}"))?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut own = lines.filter(|(name, _)| name.trim() == HOST_INTERFACE);
        let bytes = own
            .next()
            .and_then(|(_, counters)| counters.split_whitespace().next());
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        bytes.ok_or_else(|| format!("the kernel has no counters of {HOST_INTERFACE}"))
    }

    /// Returns the namespace of a host.
    pub(super) fn host(&self, host: HostId) -> &Netns {
        &self.hosts[host.0]
    }

    /// Registers a namespace's name for `ip netns`.
    fn name(&self, number: usize, name: &str) -> Result<PathBuf, String> {
        let path = Path::new(NAMES).join(name);
        if is_taken(&path) {
            return Err(format!(
                "there is a network namespace {name} already; end what has it, or give the host another name"
            ));
        }
        let descriptor = self.hosts[number].as_fd().as_raw_fd();
        let target = format!("/proc/{}/fd/{descriptor}", std::process::id());
        let made = std::fs::create_dir_all(NAMES)
            .and_then(|()| remove_if_there(&path))
            .and_then(|()| std::os::unix::fs::symlink(target, &path));
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // The link may have been removed already.
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Creates a namespace that sends no packets by itself.
fn silent() -> Result<Netns, String> {
    let netns = Netns::create().map_err(|error| match error {
        NetnsError::Unprivileged => {
            "hosts with names that `ip netns` finds are root's to make: run it as root (`polyplane demo` has hosts without names, in a user namespace)"
                .to_owned()
        }
        error => error.to_string(),
    })?;
    netns
        .run(disable_ipv6_autoconf)
        .map_err(|error| error.to_string())?;
    Ok(netns)
}

/// Length of the longest frame of a link.
const FRAME: usize = 1514;

/// Returns the number of bytes that may wait for a link.
fn waiting(link: &LinkSpec) -> u32 {
    u32::try_from(link.queue.saturating_mul(FRAME)).unwrap_or(u32::MAX)
}

/// Adds the faults of a link to a port: of frames from the other end, and of those to it if it is
/// no port of a switch.
fn with_faults(
    mut port: OpenedPort,
    (rates, seed): (FaultRates, u64),
    other: NodeId,
) -> OpenedPort {
    if rates == FaultRates::default() {
        return port;
    }
    let shares = port.shares.into_iter().map(|share| match other {
        NodeId::Switch(_) => FaultPort::new(share, rates, seed),
        NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => {
            FaultPort::both_ways(share, rates, seed)
        }
    });
    port.shares = shares
        .map(|share| Box::new(share) as Box<dyn Port>)
        .collect();
    port
}

/// Returns the name of an end's interface. It contains the switch's number, because the switch's
/// name may be as long as an interface name.
pub(super) fn interface(end: End) -> String {
    match end.node {
        NodeId::Host(_) => HOST_INTERFACE.to_owned(),
        NodeId::Switch(switch) => format!("s{}p{}", switch.0, end.port),
        NodeId::Server(server) => format!("server{}", server.0),
        NodeId::Nanopu(nanopu) => format!("nanopu{}", nanopu.0),
    }
}

fn configure(host: &HostSpec, netns: &Netns) -> Result<(), String> {
    let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
    let mut steps = || {
        rtnl.set_up("lo")?;
        rtnl.set_hardware_address(HOST_INTERFACE, host.mac)?;
        rtnl.add_address(HOST_INTERFACE, host.address.into(), host.prefix_len)?;
        rtnl.set_up(HOST_INTERFACE)?;
        for (address, mac) in &host.neighbours {
            rtnl.set_neighbour(HOST_INTERFACE, IpAddr::V4(*address), *mac)?;
        }
        match host.gateway {
            Some(gateway) => rtnl.add_route(Ipv4Addr::UNSPECIFIED.into(), 0, gateway.into()),
            None => Ok(()),
        }
    };
    steps().map_err(|error: port::RtnlError| error.to_string())
}

/// Returns true if a name belongs to an existing namespace: a file, or a link to a descriptor of
/// a running process.
fn is_taken(path: &Path) -> bool {
    match std::fs::read_link(path) {
        Ok(target) => std::fs::read_link(target)
            .is_ok_and(|found| found.to_string_lossy().starts_with("net:")),
        Err(_) => path.exists(),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

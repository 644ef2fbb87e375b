//! Two hosts in network namespaces, each connected by a veth pair to a switch port in the
//! process's own namespace.
//!
//! They are the networks of examples/router/router.entries. The namespaces live as long as the
//! values that refer to them. So any end of the process, also by an interrupt or a panic, removes
//! hosts, links and addresses.

use std::net::{IpAddr, Ipv4Addr};

use packet::PortId;
use port::{Netns, NetnsError, OpenedPort, PortDriver, Rtnl, RtnlError};

use crate::veth::{disable_ipv6_autoconf, open_port};

/// Name of each host's interface.
const HOST_INTERFACE: &str = "eth0";

/// Prefix length of the networks.
const PREFIX_LEN: u8 = 24;

/// A host of the network.
pub(super) struct Host {
    /// Namespace in which its programs run.
    pub(super) netns: Netns,
    /// Its address.
    pub(super) address: Ipv4Addr,
}

/// Both hosts, and the switch ports that they are connected to.
pub(super) type Connected = ([Host; 2], Vec<OpenedPort>);

/// Addresses of a host, as in the example's entries.
struct Place {
    port: PortId,
    /// The interface of the switch port.
    port_name: &'static str,
    mac: [u8; 6],
    address: Ipv4Addr,
    router: Ipv4Addr,
}

const PLACES: [Place; 2] = [
    Place {
        port: PortId(0),
        port_name: "port0",
        mac: [2, 0, 0, 0, 1, 2],
        address: Ipv4Addr::new(10, 0, 1, 2),
        router: Ipv4Addr::new(10, 0, 1, 1),
    },
    Place {
        port: PortId(1),
        port_name: "port1",
        mac: [2, 0, 0, 0, 2, 2],
        address: Ipv4Addr::new(10, 0, 2, 2),
        router: Ipv4Addr::new(10, 0, 2, 1),
    },
];

/// Creates both hosts and the switch ports that they are connected to. The process must be in a
/// network namespace created for it.
///
/// # Errors
/// The step that the machine does not allow or support, as text.
pub(super) fn connect(io: PortDriver) -> Result<Connected, String> {
    disable_ipv6_autoconf();
    let mut switch = Rtnl::open().map_err(|e| e.to_string())?;
    let mut ports = Vec::new();
    let mut connect_one = |place: &Place| -> Result<Host, String> {
        let host = make_host(place, &mut switch)?;
        ports.push(open_port(place.port, place.port_name, io)?);
        Ok(host)
    };
    let hosts = [connect_one(&PLACES[0])?, connect_one(&PLACES[1])?];
    Ok((hosts, ports))
}

fn make_host(place: &Place, switch: &mut Rtnl) -> Result<Host, String> {
    let netns = Netns::create().map_err(|e| e.to_string())?;
    // Only the demo's packets: the router would drop IPv6 neighbour discovery.
    netns
        .run(disable_ipv6_autoconf)
        .map_err(|e| e.to_string())?;
    plug_in(place, switch, &netns).map_err(|e| e.to_string())?;
    configure(place, &netns).map_err(|e| e.to_string())?;
    Ok(Host {
        netns,
        address: place.address,
    })
}

fn plug_in(place: &Place, switch: &mut Rtnl, netns: &Netns) -> Result<(), RtnlError> {
    switch.add_veth(place.port_name, HOST_INTERFACE, Some(netns))?;
    switch.set_up(place.port_name)
}

fn configure(place: &Place, netns: &Netns) -> Result<(), NetnsError> {
    let failed = |e: RtnlError| NetnsError::Failed {
        doing: e.doing,
        source: e.source,
    };
    let mut host = netns.rtnl()?;
    let mut steps = || -> Result<(), RtnlError> {
        host.set_hardware_address(HOST_INTERFACE, place.mac)?;
        host.add_address(HOST_INTERFACE, IpAddr::V4(place.address), PREFIX_LEN)?;
        host.set_up(HOST_INTERFACE)?;
        let everything = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        host.add_route(everything, 0, IpAddr::V4(place.router))
    };
    steps().map_err(failed)
}

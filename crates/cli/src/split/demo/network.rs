//! The hosts of the demo, and the cables to switch and servers.

use std::net::{IpAddr, Ipv4Addr};

use port::{Netns, NetnsError, Rtnl, RtnlError};

use crate::veth::disable_ipv6_autoconf;

/// Name of each host's interface.
const HOST_INTERFACE: &str = "eth0";

/// Prefix length of the hosts' networks.
const PREFIX_LEN: u8 = 24;

/// MTU of the cables to servers: requests are longer than packets.
const SERVER_MTU: u32 = 1800;

/// Number of servers.
pub(super) const SERVERS: u16 = 3;

/// A host.
pub(super) struct Host {
    /// Namespace in which its programs run.
    pub(super) netns: Netns,
    /// Its address.
    pub(super) address: Ipv4Addr,
}

/// Both hosts. The interfaces of the switch are `port0` to `port4`, those of servers `srv1` to
/// `srv3`.
pub(super) struct Network {
    pub(super) inside: Host,
    pub(super) outside: Host,
}

/// Addresses of a host, as in the example's entries.
struct Place {
    port: &'static str,
    mac: [u8; 6],
    address: Ipv4Addr,
    router: (Ipv4Addr, [u8; 6]),
}

const INSIDE: Place = Place {
    port: "port0",
    mac: [2, 0, 0, 0, 1, 0x10],
    address: Ipv4Addr::new(192, 168, 1, 10),
    router: (Ipv4Addr::new(192, 168, 1, 1), [2, 0, 0, 0, 1, 1]),
};

const OUTSIDE: Place = Place {
    port: "port1",
    mac: [2, 0, 0, 0, 2, 0xfe],
    address: Ipv4Addr::new(198, 51, 100, 9),
    router: (Ipv4Addr::new(198, 51, 100, 1), [2, 0, 0, 0, 2, 1]),
};

/// Returns the interface of the switch for a server.
pub(super) fn switch_interface(server: u16) -> String {
    format!("port{}", server + 1)
}

/// Returns the interface of a server.
pub(super) fn server_interface(server: u16) -> String {
    format!("srv{server}")
}

impl Network {
    /// Creates hosts and cables. The process must be in a network namespace created for it.
    ///
    /// # Errors
    /// The step that the machine does not allow or support, as text.
    pub(super) fn connect() -> Result<Network, String> {
        disable_ipv6_autoconf();
        let mut switch = Rtnl::open().map_err(|error| error.to_string())?;
        let mut servers = || -> Result<(), RtnlError> {
            // The processes reach each other by it.
            switch.set_up("lo")?;
            for server in 1..=SERVERS {
                let (near, far) = (switch_interface(server), server_interface(server));
                switch.add_veth(&near, &far, None)?;
                for end in [&near, &far] {
                    switch.set_mtu(end, SERVER_MTU)?;
                    switch.set_up(end)?;
                }
            }
            Ok(())
        };
        servers().map_err(|error| error.to_string())?;
        let mut host = |place: &Place| make_host(place, &mut switch).map_err(|e| e.to_string());
        Ok(Network {
            inside: host(&INSIDE)?,
            outside: host(&OUTSIDE)?,
        })
    }
}

fn make_host(place: &Place, switch: &mut Rtnl) -> Result<Host, NetnsError> {
    let failed = |error: RtnlError| NetnsError::Failed {
        doing: error.doing,
        source: error.source,
    };
    let netns = Netns::create()?;
    netns.run(disable_ipv6_autoconf)?;
    let mut plug_in = || -> Result<(), RtnlError> {
        switch.add_veth(place.port, HOST_INTERFACE, Some(&netns))?;
        switch.set_up(place.port)
    };
    plug_in().map_err(failed)?;
    let mut host = netns.rtnl()?;
    let mut configure = || -> Result<(), RtnlError> {
        host.set_hardware_address(HOST_INTERFACE, place.mac)?;
        host.add_address(HOST_INTERFACE, IpAddr::V4(place.address), PREFIX_LEN)?;
        host.set_up(HOST_INTERFACE)?;
        let (router, mac) = place.router;
        // The program does not answer ARP requests.
        host.set_neighbour(HOST_INTERFACE, IpAddr::V4(router), mac)?;
        let everything = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        host.add_route(everything, 0, IpAddr::V4(router))
    };
    configure().map_err(failed)?;
    Ok(Host {
        address: place.address,
        netns,
    })
}

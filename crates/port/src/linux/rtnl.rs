//! Configuration of interfaces, addresses and routes by rtnetlink, as with the command `ip`.

use super::netns::Netns;
use super::sys;
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoGeneve, InfoGre, InfoKind, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags,
    LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{fmt, io};

/// Error of a configuration request.
#[derive(Debug)]
pub struct RtnlError {
    /// The request, as in "adding 10.0.0.1/24 to veth0".
    pub doing: String,
    /// The kernel's error.
    pub source: io::Error,
}

impl fmt::Display for RtnlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.source)
    }
}

impl std::error::Error for RtnlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Type of a tunnel that transports Ethernet frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// VXLAN to this UDP port. Over IPv4, the flag enables the UDP checksum.
    Vxlan(u16, bool),
    /// Geneve. The flag enables the UDP checksum.
    Geneve(bool),
    /// GRE over IPv4.
    Gre,
}

/// Properties of an interface that ports need to determine why a frame was not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkFacts {
    /// The MTU: maximum number of bytes after the Ethernet header.
    pub(super) mtu: u32,
    /// True if the interface is up and has a carrier.
    pub(super) is_up: bool,
    /// True if it is an end of a veth pair.
    pub(super) is_veth: bool,
    /// True if the kernel has a transmit queue (qdisc) for it.
    pub(super) has_queue: bool,
    /// True if its qdisc is `noqueue`.
    has_none: bool,
    /// Number of transmit queues of the interface itself.
    tx_queues: u32,
    /// Index of the peer of a veth pair, and the id of the peer's namespace as seen from the
    /// queried one.
    peer: Option<u32>,
    peer_netns: Option<i32>,
    /// Transmit frames dropped by the driver since the interface was created.
    pub(super) tx_dropped: u64,
}

impl LinkFacts {
    /// Returns true if frames can be given directly to the driver. There is no qdisc to bypass.
    /// There is also only one driver queue, because the kernel's queue selection by flow would be
    /// bypassed too.
    pub(super) fn is_direct(&self) -> bool {
        self.tx_queues == 1 && (self.has_none || self.is_veth && !self.has_queue)
    }

    fn of(link: &LinkMessage) -> LinkFacts {
        let mut facts = LinkFacts {
            is_up: link.header.flags.contains(LinkFlags::Up),
            ..LinkFacts::default()
        };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => facts.mtu = *mtu,
                LinkAttribute::NumTxQueues(queues) => facts.tx_queues = *queues,
                LinkAttribute::Carrier(carrier) => facts.is_up &= *carrier != 0,
                LinkAttribute::Qdisc(name) => {
                    facts.has_none = name == "noqueue";
                    // An interface that is down has `noop`, which drops all frames, independent of
                    // its qdisc when up.
                    facts.has_queue = !facts.has_none && name != "noop";
                }
                LinkAttribute::Link(index) => facts.peer = Some(*index),
                LinkAttribute::LinkNetNsId(id) => facts.peer_netns = Some(*id),
                LinkAttribute::Stats64(stats) => facts.tx_dropped = stats.tx_dropped,
                LinkAttribute::LinkInfo(information) => {
                    facts.is_veth = information.contains(&LinkInfo::Kind(InfoKind::Veth));
                }
                _ => {}
            }
        }
        facts
    }
}

/// A connection to the kernel's configuration of one network namespace: the one in which it was
/// opened, from wherever it is used.
#[derive(Debug)]
pub struct Rtnl {
    netlink: OwnedFd,
    /// A socket to map names to indices.
    control: OwnedFd,
    sequence: u32,
}

impl Rtnl {
    /// Connects to the configuration of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no rtnetlink.
    pub fn open() -> Result<Rtnl, RtnlError> {
        let open = || {
            let netlink = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
            sys::bind_netlink(&netlink)?;
            Ok(Rtnl {
                netlink,
                control: super::link::control_socket()?,
                sequence: 0,
            })
        };
        open().map_err(|source| RtnlError {
            doing: "connecting to rtnetlink".to_owned(),
            source,
        })
    }

    /// Creates a veth pair: `name` in this namespace, and `peer` in the namespace `peer_in`, or in
    /// this one as well. Both are down.
    ///
    /// # Errors
    /// A name is in use, or the kernel has no veth.
    pub fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_in: Option<&Netns>,
    ) -> Result<(), RtnlError> {
        self.add_veth_with_queues(name, peer, peer_in, 1)
    }

    /// Creates a veth pair like [`Rtnl::add_veth`], with `queues` queues in each direction at both
    /// ends.
    ///
    /// # Errors
    /// A name is in use, or the kernel has no veth or does not support that number of queues.
    pub fn add_veth_with_queues(
        &mut self,
        name: &str,
        peer: &str,
        peer_in: Option<&Netns>,
        queues: u32,
    ) -> Result<(), RtnlError> {
        let named = |name: &str| {
            vec![
                LinkAttribute::IfName(name.to_owned()),
                LinkAttribute::NumRxQueues(queues),
                LinkAttribute::NumTxQueues(queues),
            ]
        };
        let mut other = LinkMessage::default();
        other.attributes = named(peer);
        if let Some(netns) = peer_in {
            other
                .attributes
                .push(LinkAttribute::NetNsFd(netns.fd().as_raw_fd()));
        }
        let mut message = LinkMessage::default();
        message.attributes = named(name);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        let doing = format!("making the veth pair {name} and {peer}");
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewLink(message), flags, doing)
    }

    /// Creates a bridge without interfaces, which is down.
    ///
    /// # Errors
    /// The name is in use, or the kernel has no bridges.
    pub fn add_bridge(&mut self, name: &str) -> Result<(), RtnlError> {
        self.add_link(name, InfoKind::Bridge, Vec::new())
    }

    /// Creates a MACVLAN interface `name` on the interface `on`. It has a separate hardware
    /// address and is down.
    ///
    /// # Errors
    /// The name is in use, there is no interface `on`, or the kernel has no MACVLAN.
    pub fn add_macvlan(&mut self, name: &str, on: &str) -> Result<(), RtnlError> {
        let lower = self.index(on, &format!("making {name} on {on}"))?;
        self.add_link(name, InfoKind::MacVlan, vec![LinkAttribute::Link(lower)])
    }

    /// Creates an interface `name` that is one end of a tunnel between two addresses. It is down.
    ///
    /// # Errors
    /// The name is in use, or the kernel does not support this type of tunnel.
    pub fn add_tunnel(
        &mut self,
        name: &str,
        tunnel: Tunnel,
        local: IpAddr,
        remote: IpAddr,
    ) -> Result<(), RtnlError> {
        const NETWORK: u32 = 7;
        let info = match tunnel {
            Tunnel::Vxlan(port, checksum) => {
                let ends = match (local, remote) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => [InfoVxlan::Local(a), InfoVxlan::Group(b)],
                    (a, b) => [InfoVxlan::Local6(six(a)), InfoVxlan::Group6(six(b))],
                };
                let mut data = vec![InfoVxlan::Id(NETWORK), InfoVxlan::Port(port)];
                data.extend(ends);
                data.push(InfoVxlan::UDPCsum(checksum));
                vec![
                    LinkInfo::Kind(InfoKind::Vxlan),
                    LinkInfo::Data(InfoData::Vxlan(data)),
                ]
            }
            Tunnel::Geneve(checksum) => {
                let remote = match remote {
                    IpAddr::V4(remote) => InfoGeneve::Remote(remote),
                    IpAddr::V6(remote) => InfoGeneve::Remote6(remote),
                };
                let data = vec![
                    InfoGeneve::Id(NETWORK),
                    remote,
                    InfoGeneve::UdpCsum(checksum),
                ];
                vec![
                    LinkInfo::Kind(InfoKind::Geneve),
                    LinkInfo::Data(InfoData::Geneve(data)),
                ]
            }
            Tunnel::Gre => {
                let ends = match (local, remote) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => vec![InfoGre::Local(a), InfoGre::Remote(b)],
                    _ => Vec::new(),
                };
                vec![
                    LinkInfo::Kind(InfoKind::GreTap),
                    LinkInfo::Data(InfoData::GreTap(ends)),
                ]
            }
        };
        self.add_link_of(name, info, Vec::new())
    }

    fn add_link(
        &mut self,
        name: &str,
        kind: InfoKind,
        attributes: Vec<LinkAttribute>,
    ) -> Result<(), RtnlError> {
        self.add_link_of(name, vec![LinkInfo::Kind(kind)], attributes)
    }

    fn add_link_of(
        &mut self,
        name: &str,
        info: Vec<LinkInfo>,
        mut attributes: Vec<LinkAttribute>,
    ) -> Result<(), RtnlError> {
        attributes.push(LinkAttribute::IfName(name.to_owned()));
        attributes.push(LinkAttribute::LinkInfo(info));
        let mut message = LinkMessage::default();
        message.attributes = attributes;
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let doing = format!("making {name}");
        self.request(RouteNetlinkMessage::NewLink(message), flags, doing)
    }

    /// Adds an interface to a bridge.
    ///
    /// # Errors
    /// There is no such interface or no such bridge.
    pub fn join_bridge(&mut self, name: &str, bridge: &str) -> Result<(), RtnlError> {
        let doing = format!("making {name} part of {bridge}");
        let bridge = self.index(bridge, &doing)?;
        self.change_link(name, doing, |link| {
            link.attributes.push(LinkAttribute::Controller(bridge));
        })
    }

    /// Removes an interface. The peer of a veth interface is removed too.
    ///
    /// # Errors
    /// There is no such interface, or it cannot be removed.
    pub fn delete_link(&mut self, name: &str) -> Result<(), RtnlError> {
        let doing = format!("removing {name}");
        let message = self.link(name, &doing)?;
        self.request(RouteNetlinkMessage::DelLink(message), 0, doing)
    }

    /// Moves an interface to another network namespace. There it is down and has no addresses.
    ///
    /// # Errors
    /// There is no such interface here, or its name is in use there.
    pub fn move_link(&mut self, name: &str, to: &Netns) -> Result<(), RtnlError> {
        let fd = to.fd().as_raw_fd();
        let doing = format!("moving {name} to another network namespace");
        self.change_link(name, doing, |link| {
            link.attributes.push(LinkAttribute::NetNsFd(fd))
        })
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn set_up(&mut self, name: &str) -> Result<(), RtnlError> {
        self.change_link(name, format!("bringing {name} up"), |link| {
            link.header.flags = LinkFlags::Up;
            link.header.change_mask = LinkFlags::Up;
        })
    }

    /// Takes an interface down.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn set_down(&mut self, name: &str) -> Result<(), RtnlError> {
        self.change_link(name, format!("taking {name} down"), |link| {
            link.header.change_mask = LinkFlags::Up;
        })
    }

    /// Sets an interface's MTU: the maximum number of bytes after an Ethernet header.
    ///
    /// # Errors
    /// There is no such interface, or it does not support this MTU.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), RtnlError> {
        let doing = format!("setting the MTU of {name} to {mtu}");
        self.change_link(name, doing, |link| {
            link.attributes.push(LinkAttribute::Mtu(mtu))
        })
    }

    /// Sets an interface's hardware address.
    ///
    /// # Errors
    /// There is no such interface, or the address is not a unicast address.
    pub fn set_hardware_address(&mut self, name: &str, mac: [u8; 6]) -> Result<(), RtnlError> {
        let doing = format!("setting the hardware address of {name}");
        let address = LinkAttribute::Address(mac.to_vec());
        self.change_link(name, doing, |link| link.attributes.push(address))
    }

    /// Adds an address to an interface, with a route to its prefix. An IPv6 address is usable at
    /// once, because duplicate address detection is disabled for it.
    ///
    /// # Errors
    /// There is no such interface, or it already has the address.
    pub fn add_address(
        &mut self,
        name: &str,
        address: IpAddr,
        prefix_len: u8,
    ) -> Result<(), RtnlError> {
        let doing = format!("adding {address}/{prefix_len} to {name}");
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_len;
        message.header.index = self.index(name, &doing)?;
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        self.request(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
            doing,
        )
    }

    /// Limits what an interface sends to a rate, with room for a number of bytes that wait: a token
    /// bucket (tbf).
    ///
    /// # Errors
    /// There is no such interface, or the kernel has no token buckets.
    pub fn set_rate(
        &mut self,
        name: &str,
        bits_per_second: u64,
        waiting: u32,
    ) -> Result<(), RtnlError> {
        let doing = format!("limiting {name} to {bits_per_second} bit/s");
        let index = self.index(name, &doing)?;
        let mut message = TcMessage::default();
        message.header.index = index as i32;
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes = vec![
            TcAttribute::Kind("tbf".to_owned()),
            TcAttribute::Options(token_bucket(bits_per_second / 8, waiting)),
        ];
        self.request(
            RouteNetlinkMessage::NewQueueDiscipline(message),
            NLM_F_CREATE | NLM_F_REPLACE,
            doing,
        )
    }

    /// Adds a route to `destination` through the router `gateway`.
    ///
    /// # Errors
    /// The gateway is unreachable, or the route exists.
    pub fn add_route(
        &mut self,
        destination: IpAddr,
        prefix_len: u8,
        gateway: IpAddr,
    ) -> Result<(), RtnlError> {
        let doing = format!("adding a route to {destination}/{prefix_len} by {gateway}");
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(destination),
            destination_prefix_length: prefix_len,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message
            .attributes
            .push(RouteAttribute::Gateway(RouteAddress::from(gateway)));
        if prefix_len > 0 {
            message
                .attributes
                .push(RouteAttribute::Destination(RouteAddress::from(destination)));
        }
        self.request(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_EXCL,
            doing,
        )
    }

    /// Adds or replaces a permanent neighbor entry, so that the address is not resolved by ARP or
    /// neighbor discovery.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn set_neighbour(
        &mut self,
        name: &str,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), RtnlError> {
        let doing = format!("setting the hardware address of {address} on {name}");
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = self.index(name, &doing)?;
        message.header.state = NeighbourState::Permanent;
        let destination = match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.request(RouteNetlinkMessage::NewNeighbour(message), flags, doing)
    }

    fn change_link(
        &mut self,
        name: &str,
        doing: String,
        change: impl FnOnce(&mut LinkMessage),
    ) -> Result<(), RtnlError> {
        let mut message = self.link(name, &doing)?;
        change(&mut message);
        self.request(RouteNetlinkMessage::SetLink(message), 0, doing)
    }

    /// Creates a message about the interface.
    fn link(&self, name: &str, doing: &str) -> Result<LinkMessage, RtnlError> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(name, doing)?;
        Ok(message)
    }

    fn index(&self, name: &str, doing: &str) -> Result<u32, RtnlError> {
        sys::if_index(self.control.as_fd(), name).map_err(|source| RtnlError {
            doing: doing.to_owned(),
            source,
        })
    }

    /// Returns what the host uses an interface for, as in "it has the address 10.0.0.1". Returns
    /// `None` if no use is known. A link-local address is not a use.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub(super) fn use_of(&mut self, index: u32) -> Result<Option<String>, RtnlError> {
        let doing = "asking what interfaces are used for";
        let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        for message in self.dump(addresses, doing)? {
            if let RouteNetlinkMessage::NewAddress(address) = message
                && address.header.index == index
                && let Some(ip) = chosen_address(&address)
            {
                return Ok(Some(format!("it has the address {ip}")));
            }
        }
        let links = RouteNetlinkMessage::GetLink(LinkMessage::default());
        for message in self.dump(links, doing)? {
            if let RouteNetlinkMessage::NewLink(link) = message
                && let Some(used) = link_use(&link, index)
            {
                return Ok(Some(used));
            }
        }
        Ok(None)
    }

    /// Queries the properties of the interface.
    pub(super) fn facts(&mut self, index: u32) -> io::Result<LinkFacts> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.ask(message)
    }

    /// Queries the properties of the peer of a veth pair. If that is in another namespace,
    /// CAP_NET_ADMIN is needed there.
    pub(super) fn facts_of_peer(&mut self, facts: &LinkFacts) -> io::Result<LinkFacts> {
        let other = facts.peer.filter(|_| facts.is_veth);
        let mut message = LinkMessage::default();
        message.header.index = other.ok_or(io::ErrorKind::NotFound)?;
        let elsewhere = facts.peer_netns.map(LinkAttribute::IfNetnsId);
        message.attributes.extend(elsewhere);
        self.ask(message)
    }

    fn ask(&mut self, message: LinkMessage) -> io::Result<LinkFacts> {
        self.send(RouteNetlinkMessage::GetLink(message), 0)?;
        let mut buf = vec![0; 32 << 10];
        loop {
            let len = sys::receive(&self.netlink, &mut buf)?;
            let answer = parse(&buf[..len])?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    Ok(LinkFacts::of(&link))
                }
                NetlinkPayload::Error(error) => {
                    let code = error.code.map_or(0, |code| code.get().saturating_neg());
                    Err(io::Error::from_raw_os_error(code))
                }
                _ => Err(io::ErrorKind::InvalidData.into()),
            };
        }
    }

    /// Sends a request and waits for its acknowledgment.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        doing: String,
    ) -> Result<(), RtnlError> {
        let sent = self.send(message, NLM_F_ACK | flags);
        let answer = sent.and_then(|()| self.answer());
        answer.map_err(|source| RtnlError { doing, source })
    }

    /// Sends a dump request and returns all of its messages.
    fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        doing: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, RtnlError> {
        let sent = self.send(message, NLM_F_DUMP);
        let list = sent.and_then(|()| self.list());
        list.map_err(|source| RtnlError {
            doing: doing.to_owned(),
            source,
        })
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        sys::send(&self.netlink, &bytes)
    }

    /// Waits for all messages of the requested dump.
    fn list(&self) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut buf = vec![0; 64 << 10];
        let mut list = Vec::new();
        loop {
            let len = sys::receive(&self.netlink, &mut buf)?;
            let mut rest = &buf[..len];
            while !rest.is_empty() {
                let message = parse(rest)?;
                // Messages are aligned to four bytes.
                let len = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(len.max(4)..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(list),
                    NetlinkPayload::InnerMessage(message) => list.push(message),
                    NetlinkPayload::Error(error) => {
                        let code = error.code.map_or(0, |code| code.get().saturating_neg());
                        return Err(io::Error::from_raw_os_error(code));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Waits for the acknowledgment of the last request.
    fn answer(&self) -> io::Result<()> {
        let mut buf = [0; 8192];
        loop {
            let len = sys::receive(&self.netlink, &mut buf)?;
            let answer = parse(&buf[..len])?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            if let NetlinkPayload::Error(error) = answer.payload {
                return match error.code {
                    None => Ok(()),
                    Some(code) => Err(io::Error::from_raw_os_error(code.get().saturating_neg())),
                };
            }
        }
    }
}

fn parse(bytes: &[u8]) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
    NetlinkMessage::deserialize(bytes)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
}

/// Returns the address in a message, except a link-local address.
fn chosen_address(message: &AddressMessage) -> Option<IpAddr> {
    let address = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })?;
    let is_its_own = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    (!is_its_own).then_some(address)
}

/// Returns the use of interface `index` that `link` shows: either it is that interface and part of
/// a bridge or bond, or it is another interface on top of it.
fn link_use(link: &LinkMessage, index: u32) -> Option<String> {
    let mut name = "another interface";
    let (mut part_of_another, mut below, mut is_veth, mut elsewhere) = (false, None, false, false);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = found,
            LinkAttribute::Controller(_) => part_of_another = true,
            LinkAttribute::Link(lower) => below = Some(*lower),
            LinkAttribute::LinkNetNsId(_) => elsewhere = true,
            LinkAttribute::LinkInfo(information) => {
                is_veth |= information.contains(&LinkInfo::Kind(InfoKind::Veth));
            }
            _ => {}
        }
    }
    if link.header.index == index && part_of_another {
        return Some("it is part of a bridge or bond".to_owned());
    }
    // In a veth interface this attribute is its peer, which is not a lower interface.
    let is_on_top = below == Some(index) && !is_veth && !elsewhere && link.header.index != index;
    is_on_top.then(|| format!("{name} is on top of it"))
}

/// Attributes of a token bucket (linux/pkt_sched.h).
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

/// The kernel computes transmission times from the rate, not from a table of this message.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// Bytes that a token bucket sends at once: some frames, or what a fast link sends between two
/// ticks of a timer.
const MIN_BURST: u64 = 4 * 1600;
const BURSTS_PER_SECOND: u64 = 4000;

/// Returns the options of a token bucket.
fn token_bucket(bytes_per_second: u64, waiting: u32) -> Vec<TcOption> {
    let burst = MIN_BURST.max(bytes_per_second / BURSTS_PER_SECOND);
    let burst = u32::try_from(burst).unwrap_or(u32::MAX);
    // struct tc_tbf_qopt: rate and peak rate (struct tc_ratespec), limit, buffer, mtu.
    let mut parameters = [0; 36];
    parameters[1] = TC_LINKLAYER_ETHERNET;
    let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    parameters[8..12].copy_from_slice(&rate.to_ne_bytes());
    let limit = burst.saturating_add(waiting);
    parameters[24..28].copy_from_slice(&limit.to_ne_bytes());
    let mut options = vec![(TCA_TBF_PARMS, parameters.to_vec())];
    if rate == u32::MAX {
        options.push((TCA_TBF_RATE64, bytes_per_second.to_ne_bytes().to_vec()));
    }
    options.push((TCA_TBF_BURST, burst.to_ne_bytes().to_vec()));
    let options = options.into_iter();
    options
        .map(|(kind, value)| TcOption::Other(DefaultNla::new(kind, value)))
        .collect()
}

fn six(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

//! Header walk of a frame through nested tunnels. Finds all headers that have a length or a
//! checksum.

use support::checksum::{ones_complement_sum, sum_from};

use crate::inet::word;

/// Maximum number of headers with lengths or checksums in one frame. Enough for eleven nested
/// VXLAN tunnels.
const MAX_LAYERS: usize = 24;

/// Maximum number of consecutive VLAN tags, MPLS labels or IPv6 extension headers.
const MAX_IN_A_ROW: usize = 16;

const ETHERNET: usize = 14;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
const BRIDGED: u16 = 0x6558;
const NSH: u16 = 0x894f;
const ERSPAN_2: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;

const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;
const PROTOCOL_ETHERIP: u8 = 97;
const PROTOCOL_SCTP: u8 = 132;
const PROTOCOL_MPLS: u8 = 137;
const PROTOCOL_ETHERNET: u8 = 143;

const PORT_VXLAN: [u16; 2] = [4789, 8472];
const PORT_VXLAN_GPE: u16 = 4790;
const PORT_GENEVE: u16 = 6081;
const PORT_GRE: u16 = 4754;
const PORT_GUE: u16 = 6080;
const PORT_MPLS: u16 = 6635;

/// Type of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// IPv4. The header has a checksum.
    V4,
    /// IPv6. The number is the offset of the final destination's address, which is in the header
    /// itself or in a routing header.
    V6(u32),
    /// PPPoE. The header has a length.
    Pppoe,
    /// GRE with a checksum, which covers the GRE header and its payload.
    Gre,
    Udp,
    Tcp,
    /// SCTP. The checksum is a CRC-32C.
    Sctp,
}

/// One header: its type, its offset, and the end of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) kind: Kind,
    at: u32,
    end: u32,
}

impl Layer {
    pub(crate) fn at(&self) -> usize {
        self.at as usize
    }

    pub(crate) fn end(&self) -> usize {
        self.end as usize
    }

    /// Returns the offset in the frame of the checksum of a transport or GRE header.
    pub(crate) fn checksum_at(&self) -> Option<usize> {
        match self.kind {
            Kind::Tcp => Some(self.at() + 16),
            Kind::Udp => Some(self.at() + 6),
            Kind::Sctp => Some(self.at() + 8),
            Kind::Gre => Some(self.at() + 4),
            Kind::V4 | Kind::V6(_) | Kind::Pppoe => None,
        }
    }
}

/// The headers of a frame that have lengths or checksums, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    layers: [Layer; MAX_LAYERS],
    count: usize,
}

/// The type of the next header. The last number is its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ethernet(usize),
    /// A header by Ethernet type.
    Type(u16, usize),
    /// An MPLS label stack.
    Mpls(usize),
    /// A header by IP protocol number.
    Protocol(u8, usize),
    /// An unknown header.
    Unknown(usize),
}

impl Layers {
    /// Returns the headers of an Ethernet frame.
    pub(crate) fn of(frame: &[u8]) -> Layers {
        Walk::over(frame).layers
    }

    /// Returns the headers of an Ethernet frame up to the transport header at `target`, which is
    /// known to have type `kind`. The headers in between are parsed from the front. In an unknown
    /// encapsulation they are searched backwards from the target. Returns `None` if this fails.
    pub(crate) fn up_to(frame: &[u8], target: usize, kind: Kind) -> Option<Layers> {
        let Walk {
            mut layers,
            end,
            next,
            ..
        } = Walk::over(frame);
        let found = layers.as_slice().iter().position(|l| l.at() == target);
        if let Some(place) = found {
            layers.count = place + 1;
            return (layers.as_slice()[place].kind == kind).then_some(layers);
        }
        let Next::Unknown(from) = next else {
            return None;
        };
        let network = network_before(frame, from, target, end, kind)?;
        let transport = transport(frame, target, end, kind)?;
        (layers.push(network) && layers.push(transport)).then_some(layers)
    }

    pub(crate) fn as_slice(&self) -> &[Layer] {
        &self.layers[..self.count]
    }

    /// Returns the first `n` headers.
    pub(crate) fn cut(mut self, n: usize) -> Layers {
        self.count = self.count.min(n);
        self
    }

    /// Appends a header. Returns false if the list is full.
    fn push(&mut self, layer: Layer) -> bool {
        let has_room = self.count < MAX_LAYERS;
        if has_room {
            self.layers[self.count] = layer;
            self.count += 1;
        }
        has_room
    }

    /// Returns the IP header that contains the `n`-th header.
    fn network_of(&self, n: usize) -> Option<&Layer> {
        let outside = self.as_slice().get(..n)?;
        let is_network = |layer: &&Layer| matches!(layer.kind, Kind::V4 | Kind::V6(_));
        outside.iter().rev().find(is_network)
    }

    /// Returns true if the `n`-th header is in an IPv4 packet.
    pub(crate) fn is_in_ipv4(&self, n: usize) -> bool {
        self.network_of(n).is_some_and(|l| l.kind == Kind::V4)
    }

    /// Returns the sum of the pseudo header for the `n`-th header with a segment of `len` bytes.
    /// It is 0 for a header without a pseudo header.
    pub(crate) fn pseudo_sum(&self, frame: &[u8], n: usize, len: usize) -> Option<u32> {
        let protocol = match self.as_slice().get(n)?.kind {
            Kind::Tcp => PROTOCOL_TCP,
            Kind::Udp => PROTOCOL_UDP,
            _ => return Some(0),
        };
        let network = self.network_of(n)?;
        let start = u32::from(protocol) + len as u32;
        match network.kind {
            Kind::V6(to) => {
                let (at, to) = (network.at(), to as usize);
                let start = sum_from(start, frame.get(at + 8..at + 24)?).into();
                Some(sum_from(start, frame.get(to..to + 16)?).into())
            }
            _ => {
                let addresses = frame.get(network.at() + 12..network.at() + 20)?;
                Some(sum_from(start, addresses).into())
            }
        }
    }
}

/// State of a header walk, which starts at the outermost header.
struct Walk<'a> {
    frame: &'a [u8],
    layers: Layers,
    /// End offset of the innermost packet.
    end: usize,
    next: Next,
}

impl<'a> Walk<'a> {
    fn over(frame: &'a [u8]) -> Walk<'a> {
        let none = Layer {
            kind: Kind::V4,
            at: 0,
            end: 0,
        };
        let mut walk = Walk {
            frame,
            layers: Layers {
                layers: [none; MAX_LAYERS],
                count: 0,
            },
            end: frame.len(),
            next: Next::Ethernet(0),
        };
        while walk.step().is_some() {}
        walk
    }

    /// Parses one header. Returns `None` at the end of the walk: the next header is unknown,
    /// missing or truncated.
    fn step(&mut self) -> Option<()> {
        let next = match self.next {
            Next::Ethernet(at) => ethernet(self.frame, at, self.end)?,
            Next::Type(IPV4, at) => self.ipv4(at)?,
            Next::Type(IPV6, at) => self.ipv6(at)?,
            Next::Type(PPPOE_SESSION, at) => self.pppoe(at)?,
            Next::Type(kind, at) if MPLS.contains(&kind) => Next::Mpls(at),
            Next::Type(NSH, at) => nsh(self.frame, at)?,
            Next::Type(BRIDGED, at) => Next::Ethernet(at),
            Next::Type(_, at) => Next::Unknown(at),
            Next::Mpls(at) => mpls(self.frame, at)?,
            Next::Protocol(PROTOCOL_IPV4, at) => Next::Type(IPV4, at),
            Next::Protocol(PROTOCOL_IPV6, at) => Next::Type(IPV6, at),
            Next::Protocol(PROTOCOL_GRE, at) => self.gre(at)?,
            Next::Protocol(PROTOCOL_MPLS, at) => Next::Mpls(at),
            Next::Protocol(PROTOCOL_ETHERIP, at) => Next::Ethernet(at + 2),
            Next::Protocol(PROTOCOL_ETHERNET, at) => Next::Ethernet(at),
            Next::Protocol(PROTOCOL_UDP, at) => self.udp(at)?,
            Next::Protocol(PROTOCOL_TCP, at) => self.last(at, Kind::Tcp)?,
            Next::Protocol(PROTOCOL_SCTP, at) => self.last(at, Kind::Sctp)?,
            Next::Protocol(_, at) => Next::Unknown(at),
            Next::Unknown(_) => return None,
        };
        self.next = next;
        (!matches!(next, Next::Unknown(_))).then_some(())
    }

    fn push(&mut self, kind: Kind, at: usize, end: usize) -> Option<()> {
        self.end = end;
        let layer = Layer {
            kind,
            at: at as u32,
            end: end as u32,
        };
        self.layers.push(layer).then_some(())
    }

    fn ipv4(&mut self, at: usize) -> Option<Next> {
        let (header, end) = ipv4_ends(self.frame, at, self.end)?;
        self.push(Kind::V4, at, end)?;
        // More fragments, or a fragment offset: the transport payload is incomplete.
        if word(self.frame, at + 6)? & 0x3fff != 0 {
            return None;
        }
        Some(Next::Protocol(*self.frame.get(at + 9)?, header))
    }

    fn ipv6(&mut self, at: usize) -> Option<Next> {
        let (protocol, behind, to, end) = ipv6_ends(self.frame, at, self.end)?;
        self.push(Kind::V6(to as u32), at, end)?;
        Some(Next::Protocol(protocol?, behind))
    }

    fn pppoe(&mut self, at: usize) -> Option<Next> {
        const PPP_IPV4: u16 = 0x0021;
        const PPP_IPV6: u16 = 0x0057;
        let len = usize::from(word(self.frame, at + 4)?);
        let end = length_ends(at + 6, len, self.end)?;
        let kind = match word(self.frame, at + 6)? {
            PPP_IPV4 => IPV4,
            PPP_IPV6 => IPV6,
            _ => return None,
        };
        self.push(Kind::Pppoe, at, end)?;
        Some(Next::Type(kind, at + 8))
    }

    fn gre(&mut self, at: usize) -> Option<Next> {
        let (has_checksum, next) = gre_inside(self.frame, at, self.end)?;
        if has_checksum {
            self.push(Kind::Gre, at, self.end)?;
        }
        Some(next)
    }

    fn udp(&mut self, at: usize) -> Option<Next> {
        let layer = transport(self.frame, at, self.end, Kind::Udp)?;
        self.push(Kind::Udp, at, layer.end())?;
        let port = word(self.frame, at + 2)?;
        let inside = inside_udp(self.frame, at + 8, self.end, port);
        Some(inside.unwrap_or(Next::Unknown(at + 8)))
    }

    fn last(&mut self, at: usize, kind: Kind) -> Option<Next> {
        let layer = transport(self.frame, at, self.end, kind)?;
        self.push(kind, at, layer.end())?;
        None
    }
}

/// Returns true if the UDP payload from `at` to `end`, with destination port `port`, looks like a
/// tunnel header.
#[inline]
pub(crate) fn is_tunnel(frame: &[u8], at: usize, end: usize, port: u16) -> bool {
    inside_udp(frame, at, end, port).is_some()
}

/// Returns the end of a packet of `len` bytes that starts at `at`, if that is within `end`. A
/// length of 0 means that the length does not fit its field: the packet reaches to `end`.
fn length_ends(at: usize, len: usize, end: usize) -> Option<usize> {
    match len {
        0 => Some(end),
        len => (at + len <= end).then_some(at + len),
    }
}

/// Returns the transport header of this type, if all of it is inside.
fn transport(frame: &[u8], at: usize, end: usize, kind: Kind) -> Option<Layer> {
    let header = match kind {
        Kind::Tcp => (usize::from(frame.get(at + 12)? >> 4) * 4).max(20),
        Kind::Udp => 8,
        _ => 12,
    };
    let end = match kind {
        Kind::Udp => length_ends(at, usize::from(word(frame, at + 4)?), end)?,
        _ => end,
    };
    (at + header <= end).then_some(Layer {
        kind,
        at: at as u32,
        end: end as u32,
    })
}

fn ethernet(frame: &[u8], at: usize, end: usize) -> Option<Next> {
    let mut behind = at + ETHERNET;
    for _ in 0..MAX_IN_A_ROW {
        let kind = word(frame, behind - 2)?;
        if !VLAN.contains(&kind) {
            return (behind <= end).then_some(Next::Type(kind, behind));
        }
        behind += 4;
    }
    None
}

/// Returns the end offsets of an IPv4 header and of its packet.
fn ipv4_ends(frame: &[u8], at: usize, end: usize) -> Option<(usize, usize)> {
    let first = *frame.get(at)?;
    let header = usize::from(first & 0xf) * 4;
    let len = usize::from(word(frame, at + 2)?);
    let end = length_ends(at, len, end)?;
    (first >> 4 == 4 && header >= 20 && at + header <= end).then_some((at + header, end))
}

/// Parses an IPv6 header with its extension headers. Returns the transport protocol, the offset of
/// the transport header, the offset of the final destination's address, and the end of the packet.
/// The protocol is `None` for a fragment.
fn ipv6_ends(frame: &[u8], at: usize, end: usize) -> Option<(Option<u8>, usize, usize, usize)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let is_six = frame.get(at)? >> 4 == 6 && at + 40 <= end;
    let len = usize::from(word(frame, at + 4)?);
    let end = length_ends(at + 40, len, end).filter(|_| is_six)?;
    let mut next = *frame.get(at + 6)?;
    let mut behind = at + 40;
    let mut to = at + 24;
    for _ in 0..MAX_IN_A_ROW {
        let size = match next {
            FRAGMENT => 8,
            HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(*frame.get(behind + 1)?) + 1) * 8,
            protocol => return Some((Some(protocol), behind, to, end)),
        };
        if behind + size > end {
            return None;
        }
        match next {
            FRAGMENT if word(frame, behind + 2)? & 0xfff9 != 0 => {
                return Some((None, behind, to, end));
            }
            ROUTING => to = last_destination(frame, behind, size).unwrap_or(to),
            _ => {}
        }
        next = *frame.get(behind)?;
        behind += size;
    }
    None
}

/// Returns the offset of the final destination's address in a routing header, which the checksum's
/// pseudo header uses (RFC 8200, section 8.1). Returns `None` if no segments are left.
fn last_destination(frame: &[u8], at: usize, size: usize) -> Option<usize> {
    const SOURCE_ROUTE: u8 = 0;
    const MOBILE: u8 = 2;
    const SEGMENTS: u8 = 4;
    let is_left = *frame.get(at + 3)? > 0;
    let place = match *frame.get(at + 2)? {
        SEGMENTS => at + 8,
        SOURCE_ROUTE | MOBILE => at + size.checked_sub(16)?,
        _ => return None,
    };
    (is_left && size >= 24).then_some(place)
}

fn mpls(frame: &[u8], at: usize) -> Option<Next> {
    const LABEL: usize = 4;
    const IS_LAST: u8 = 1;
    for n in 0..MAX_IN_A_ROW {
        let label = at + n * LABEL;
        if frame.get(label + 2)? & IS_LAST != 0 {
            return Some(by_version(frame, label + LABEL));
        }
    }
    None
}

/// Returns the type of an IP packet by the version in its first byte.
fn by_version(frame: &[u8], at: usize) -> Next {
    match frame.get(at).map(|first| first >> 4) {
        Some(4) => Next::Type(IPV4, at),
        Some(6) => Next::Type(IPV6, at),
        _ => Next::Unknown(at),
    }
}

/// Returns the header after a network service header (NSH, RFC 8300).
fn nsh(frame: &[u8], at: usize) -> Option<Next> {
    let behind = at + usize::from(frame.get(at + 1)? & 0x3f) * 4;
    Some(by_short_number(*frame.get(at + 3)?, behind))
}

/// Maps a next-protocol number of VXLAN-GPE and NSH to the header type.
fn by_short_number(number: u8, at: usize) -> Next {
    match number {
        1 => Next::Type(IPV4, at),
        2 => Next::Type(IPV6, at),
        3 => Next::Ethernet(at),
        4 => Next::Type(NSH, at),
        5 => Next::Mpls(at),
        _ => Next::Unknown(at),
    }
}

/// Parses a GRE header of version 0. Returns true if it has a checksum, and the header after it.
fn gre_inside(frame: &[u8], at: usize, end: usize) -> Option<(bool, Next)> {
    const CHECKSUM: u8 = 0x80;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    let flags = *frame.get(at)?;
    let kind = word(frame, at + 2)?;
    // Routing (RFC 1701) and other versions, such as PPTP, are not supported.
    if flags & 0x4f != 0 || frame.get(at + 1)? & 0x7f != 0 {
        return None;
    }
    let optional = [CHECKSUM, KEY, SEQUENCE];
    let optional = optional.iter().filter(|&&bit| flags & bit != 0).count();
    let behind = at + 4 + 4 * optional;
    let next = match kind {
        ERSPAN_2 if flags & SEQUENCE != 0 => Next::Ethernet(behind + 8),
        ERSPAN_2 => Next::Ethernet(behind),
        ERSPAN_3 => {
            let has_more = *frame.get(behind + 11)? & 1 != 0;
            Next::Ethernet(behind + if has_more { 20 } else { 12 })
        }
        kind => Next::Type(kind, behind),
    };
    (behind <= end).then_some((flags & CHECKSUM != 0, next))
}

/// Returns the first header inside a UDP payload if that is a tunnel. Well-known ports decide
/// first. As any port may be configured for a tunnel, other ports are decided by the structure of
/// the payload, if it is unambiguous.
#[inline]
fn inside_udp(frame: &[u8], at: usize, end: usize, port: u16) -> Option<Next> {
    let len = end.checked_sub(at).filter(|len| *len > 8)?;
    let first = *frame.get(at)?;
    match port {
        PORT_GRE => return gre_inside(frame, at, end).map(|_| Next::Protocol(PROTOCOL_GRE, at)),
        PORT_GUE => return gue(frame, at),
        PORT_MPLS => return Some(Next::Mpls(at)),
        PORT_GENEVE => return geneve(frame, at),
        PORT_VXLAN_GPE => return vxlan(frame, at),
        port if PORT_VXLAN.contains(&port) => return vxlan(frame, at),
        _ => {}
    }
    if matches!(first >> 4, 4 | 6) {
        return holds_ip(frame, at, end).then(|| by_version(frame, at));
    }
    if len < 8 + 20 || first & 0x40 != 0 {
        return None;
    }
    let by_vxlan = || vxlan(frame, at).filter(|_| frame[at + 7] == 0);
    let by_geneve = || geneve(frame, at).filter(|_| frame[at + 7] == 0);
    let by_gre = || gre_inside(frame, at, end).map(|(_, next)| next);
    if let Some(next) = by_vxlan().or_else(by_geneve)
        && is_sound(frame, next, end)
    {
        return Some(next);
    }
    // A GRE header may have a checksum, so the walk must visit it: return it, not the header after
    // it.
    by_gre()
        .filter(|next| is_sound(frame, *next, end))
        .map(|_| Next::Protocol(PROTOCOL_GRE, at))
}

/// Returns true if `next` is an IP packet that ends exactly at `end`.
fn is_sound(frame: &[u8], next: Next, end: usize) -> bool {
    let next = match next {
        Next::Ethernet(at) | Next::Type(BRIDGED, at) => ethernet(frame, at, end),
        next => Some(next),
    };
    match next {
        Some(Next::Type(kind @ (IPV4 | IPV6), at)) => {
            by_version(frame, at) == Next::Type(kind, at) && holds_ip(frame, at, end)
        }
        _ => false,
    }
}

/// Returns true if the bytes from `at` to `end` are exactly one valid IP packet. An IPv4 header
/// checksum must be correct.
fn holds_ip(frame: &[u8], at: usize, end: usize) -> bool {
    let is_four = frame.get(at).is_some_and(|first| first >> 4 == 4);
    let ends = if is_four {
        let ends = ipv4_ends(frame, at, end);
        let is_right = |header: &usize| ones_complement_sum(&frame[at..*header]) == 0xffff;
        ends.filter(|(header, _)| is_right(header))
            .map(|(_, end)| end)
    } else {
        ipv6_ends(frame, at, end).map(|(.., end)| end)
    };
    ends == Some(end)
}

fn vxlan(frame: &[u8], at: usize) -> Option<Next> {
    const HAS_NETWORK: u8 = 0x08;
    const HAS_PROTOCOL: u8 = 0x04;
    let flags = *frame.get(at)?;
    if flags & HAS_NETWORK == 0 {
        return None;
    }
    Some(match flags & HAS_PROTOCOL {
        0 => Next::Ethernet(at + 8),
        _ => by_short_number(*frame.get(at + 3)?, at + 8),
    })
}

fn geneve(frame: &[u8], at: usize) -> Option<Next> {
    let first = *frame.get(at)?;
    let behind = at + 8 + usize::from(first & 0x3f) * 4;
    let kind = word(frame, at + 2)?;
    let is_known = [BRIDGED, IPV4, IPV6, NSH].contains(&kind) || MPLS.contains(&kind);
    (first >> 6 == 0 && is_known).then_some(Next::Type(kind, behind))
}

/// Parses a generic UDP encapsulation (GUE) header: version 0 has a header, version 1 is an IP
/// packet.
fn gue(frame: &[u8], at: usize) -> Option<Next> {
    const CONTROL: u8 = 0x20;
    let first = *frame.get(at)?;
    match first >> 6 {
        0 if first & CONTROL == 0 => {
            let behind = at + 4 + usize::from(first & 0x1f) * 4;
            Some(Next::Protocol(*frame.get(at + 1)?, behind))
        }
        1 => Some(by_version(frame, at)),
        _ => None,
    }
}

/// Searches backwards for the IP header directly before the transport header at `target`. The
/// header is inside an unknown encapsulation that starts at `from`.
fn network_before(
    frame: &[u8],
    from: usize,
    target: usize,
    end: usize,
    kind: Kind,
) -> Option<Layer> {
    let protocol = match kind {
        Kind::Tcp => PROTOCOL_TCP,
        Kind::Udp => PROTOCOL_UDP,
        _ => PROTOCOL_SCTP,
    };
    let is_four = |at: usize| {
        let ends = ipv4_ends(frame, at, end)?;
        let leads = ends == (target, end) && *frame.get(at + 9)? == protocol;
        leads.then_some(Kind::V4)
    };
    let is_six = |at: usize| {
        let (found, behind, to, ends) = ipv6_ends(frame, at, end)?;
        let leads = (found, behind, ends) == (Some(protocol), target, end);
        leads.then_some(Kind::V6(to as u32))
    };
    let starts = (from..target.saturating_sub(19)).rev();
    let found = starts.filter_map(|at| Some((is_four(at).or_else(|| is_six(at))?, at)));
    found
        .map(|(kind, at)| Layer {
            kind,
            at: at as u32,
            end: end as u32,
        })
        .next()
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;

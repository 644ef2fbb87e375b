//! Model of a receiver, written from docs/reference/port-sharing.md alone: the vPDP that a frame is
//! for, and the vPDP that a frame is from. It is as simple as possible, and shares no code with the
//! switch.

/// A condition of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Port(u32),
    /// `None`: untagged. True: the tag is removed (access port).
    Vlan(Option<u16>, bool),
    Destination([u8; 6]),
    Source([u8; 6]),
    EtherType(u16),
    V4Source(u32, u32),
    V4Destination(u32, u32),
    V6Source(u128, u32),
    V6Destination(u128, u32),
    Protocol(u8),
    L4Source(u16, u16),
    L4Destination(u16, u16),
    Reduction(u16),
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) vpdp: u16,
    pub(crate) priority: i32,
    pub(crate) asks: Vec<Ask>,
}

/// Sharing mode of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sharing {
    Rules,
    Mac([u8; 3]),
    /// Number of bytes in front of the description header.
    Described(usize),
}

/// Header fields that rules match on.
#[derive(Clone, Debug)]
struct Fields {
    port: u32,
    /// `None`: ambiguous. `Some(None)`: untagged.
    vlan: Option<Option<u16>>,
    macs: ([u8; 6], [u8; 6]),
    ethertype: u16,
    v4: Option<(u32, u32)>,
    v6: Option<(u128, u128)>,
    protocol: Option<u8>,
    l4: Option<(u16, u16)>,
    /// Number of a reduction, of UDP to its ports.
    reduction: Option<u16>,
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    Some(*bytes.get(at..)?.first_chunk::<N>()?)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    part(bytes, at).map(u16::from_be_bytes)
}

fn is_tag(ethertype: u16) -> bool {
    ethertype == 0x8100 || ethertype == 0x88a8
}

/// Returns the VLAN of the first tag. A frame with a priority tag (VLAN 0) that no other tag
/// follows is untagged. A tag must be complete, with the next EtherType.
pub(crate) fn vlan(bytes: &[u8]) -> Option<Option<u16>> {
    if !word(bytes, 12).is_some_and(is_tag) {
        return Some(None);
    }
    let next = word(bytes, 16)?;
    match word(bytes, 14)? & 0xfff {
        0 if is_tag(next) => None,
        0 => Some(None),
        id => Some(Some(id)),
    }
}

fn fields(port: u32, bytes: &[u8]) -> Fields {
    let mut at = 12;
    while word(bytes, at).is_some_and(is_tag) && bytes.len() >= at + 6 {
        at += 4;
    }
    let mut ethertype = word(bytes, at).unwrap_or(0);
    let network = bytes.get(at + 2..).unwrap_or(&[]);
    let (mut v4, mut v6, mut protocol, mut behind) = (None, None, None, None);
    match ethertype {
        0x0800 => match part::<20>(network, 0) {
            None => ethertype = 0,
            Some(ip) => {
                v4 = Some((
                    u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]),
                    u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]),
                ));
                protocol = Some(ip[9]);
                let header = usize::from(ip[0] & 15) * 4;
                let is_later_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
                if !is_later_fragment {
                    behind = network.get(header.max(20)..);
                }
            }
        },
        0x86dd => match part::<40>(network, 0) {
            None => ethertype = 0,
            Some(ip) => {
                let address = |at| part(&ip, at).map(u128::from_be_bytes).unwrap();
                v6 = Some((address(8), address(24)));
                protocol = Some(ip[6]);
                behind = network.get(40..);
            }
        },
        _ => {}
    }
    let l4 = behind.filter(|_| matches!(protocol, Some(6 | 17 | 132)));
    let udp = behind.filter(|_| protocol == Some(17));
    let l4 = l4.and_then(|l4| Some((word(l4, 0)?, word(l4, 2)?)));
    let is_message = l4.is_some_and(|(_, to)| (9570..=9579).contains(&to));
    // The number is in bytes 4 and 5 of the datagram, after the 8 bytes of the UDP header.
    let reduction = udp.and_then(|udp| word(udp, 12)).filter(|_| is_message);
    Fields {
        port,
        vlan: vlan(bytes),
        macs: (
            part(bytes, 0).unwrap_or_default(),
            part(bytes, 6).unwrap_or_default(),
        ),
        ethertype,
        v4,
        v6,
        protocol,
        l4,
        reduction,
    }
}

impl Fields {
    /// Returns the fields of the answering packet.
    fn mirrored(self) -> Fields {
        fn swap<T>((one, other): (T, T)) -> (T, T) {
            (other, one)
        }
        Fields {
            macs: swap(self.macs),
            v4: self.v4.map(swap),
            v6: self.v6.map(swap),
            l4: self.l4.map(swap),
            ..self
        }
    }
}

fn meets(fields: &Fields, ask: &Ask) -> bool {
    let v4 = |own: u32, net: u32, bits: u32| bits == 0 || (own ^ net) >> (32 - bits) == 0;
    let v6 = |own: u128, net: u128, bits: u32| bits == 0 || (own ^ net) >> (128 - bits) == 0;
    match *ask {
        Ask::Port(port) => fields.port == port,
        Ask::Vlan(id, _) => fields.vlan == Some(id),
        Ask::Destination(mac) => fields.macs.0 == mac,
        Ask::Source(mac) => fields.macs.1 == mac,
        Ask::EtherType(ethertype) => fields.ethertype == ethertype,
        Ask::V4Source(net, bits) => fields.v4.is_some_and(|(own, _)| v4(own, net, bits)),
        Ask::V4Destination(net, bits) => fields.v4.is_some_and(|(_, own)| v4(own, net, bits)),
        Ask::V6Source(net, bits) => fields.v6.is_some_and(|(own, _)| v6(own, net, bits)),
        Ask::V6Destination(net, bits) => fields.v6.is_some_and(|(_, own)| v6(own, net, bits)),
        Ask::Protocol(number) => fields.protocol == Some(number),
        Ask::L4Source(first, last) => fields
            .l4
            .is_some_and(|(own, _)| (first..=last).contains(&own)),
        Ask::L4Destination(first, last) => fields
            .l4
            .is_some_and(|(_, own)| (first..=last).contains(&own)),
        Ask::Reduction(number) => fields.reduction == Some(number),
    }
}

/// A shared port, and rules.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) port: u32,
    pub(crate) sharing: Sharing,
    pub(crate) rules: Vec<Rule>,
    /// The vPDPs that have the port.
    pub(crate) vpdps: Vec<u16>,
}

impl Model {
    fn by_rules(&self, fields: &Fields) -> Option<&Rule> {
        let all = self.rules.iter();
        let met = all.filter(|rule| rule.asks.iter().all(|ask| meets(fields, ask)));
        met.max_by_key(|rule| rule.priority)
    }

    fn by_prefix(&self, mac: [u8; 6]) -> Option<u16> {
        match self.sharing {
            Sharing::Mac(prefix) if mac[..3] == prefix => {
                let number = u16::from(mac[3]) << 4 | u16::from(mac[4]) >> 4;
                Some(number).filter(|number| *number != 0)
            }
            _ => None,
        }
    }

    /// Returns the vPDP that a received frame is for, and the frame that it sees.
    pub(crate) fn comes_in(&self, bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
        let (vpdp, bytes) = match self.sharing {
            Sharing::Described(outer) => {
                let (vpdp, inner) = described(bytes.get(outer..)?)?;
                (vpdp, inner.to_vec())
            }
            _ => {
                let fields = fields(self.port, bytes);
                match self.by_prefix(fields.macs.0) {
                    Some(vpdp) => (vpdp, bytes.to_vec()),
                    None => {
                        let rule = self.by_rules(&fields)?;
                        (rule.vpdp, untagged(rule, bytes))
                    }
                }
            }
        };
        self.vpdps.contains(&vpdp).then_some((vpdp, bytes))
    }

    /// Returns the vPDP that a receiver takes a frame to be from.
    pub(crate) fn is_from(&self, bytes: &[u8]) -> Option<u16> {
        if let Sharing::Described(outer) = self.sharing {
            return Some(described(bytes.get(outer..)?)?.0);
        }
        let fields = fields(self.port, bytes).mirrored();
        let by_rules = || self.by_rules(&fields).map(|rule| rule.vpdp);
        self.by_prefix(fields.macs.0).or_else(by_rules)
    }

    /// Returns the same for a frame as padded by a network card.
    pub(crate) fn is_from_padded(&self, bytes: &[u8]) -> Option<u16> {
        let mut padded = bytes.to_vec();
        padded.resize(padded.len().max(60), 0);
        self.is_from(&padded)
    }

    /// Returns the frame that leaves when a vPDP sends this one, or `None` if it may not.
    pub(crate) fn goes_out(&self, vpdp: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let bytes = match self.access(vpdp) {
            Some(id) if vlan(bytes) == Some(None) => tagged(id, bytes)?,
            _ => bytes.to_vec(),
        };
        let own = Some(vpdp);
        (self.is_from(&bytes) == own && self.is_from_padded(&bytes) == own).then_some(bytes)
    }

    /// Returns the access VLAN of a vPDP.
    fn access(&self, vpdp: u16) -> Option<u16> {
        let rules = self.rules.iter().filter(|rule| rule.vpdp == vpdp);
        rules.flat_map(|rule| &rule.asks).find_map(|ask| match ask {
            Ask::Vlan(id, true) => *id,
            _ => None,
        })
    }
}

fn untagged(rule: &Rule, bytes: &[u8]) -> Vec<u8> {
    let untags = rule
        .asks
        .iter()
        .any(|ask| matches!(ask, Ask::Vlan(_, true)));
    match untags {
        true => [&bytes[..12], &bytes[16..]].concat(),
        false => bytes.to_vec(),
    }
}

fn tagged(id: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let behind = bytes.get(12..).filter(|behind| behind.len() >= 2)?;
    let (priority, behind) = match is_tag(word(bytes, 12)?) {
        true => (word(bytes, 14)? & 0xf000, &behind[4..]),
        false => (0, behind),
    };
    let tag = [0x8100u16.to_be_bytes(), (priority | id).to_be_bytes()].concat();
    Some([&bytes[..12], &tag, behind].concat())
}

/// Returns the vPDP of a description header, and the bytes after it.
fn described(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let header = part(bytes, 0).map(u32::from_be_bytes)?;
    let (version, vpdp) = (header >> 30, header >> 18 & 0xfff);
    let length = (header >> 6 & 0xfff) as usize;
    let is_right = remainder(header) == 0 && version == 1 && vpdp != 0;
    let fits = (4..=bytes.len()).contains(&length);
    (is_right && fits).then_some((vpdp as u16, &bytes[4..]))
}

/// Returns the remainder of 32 bits divided by x^6 + x + 1.
fn remainder(mut bits: u32) -> u32 {
    for at in (6..32).rev() {
        if bits >> at & 1 == 1 {
            bits ^= 0b100_0011 << (at - 6);
        }
    }
    bits
}

/// Returns the description header of a whole packet.
pub(crate) fn description(vpdp: u16, bytes: usize) -> [u8; 4] {
    let length = (bytes + 4).min(4095) as u32;
    let front = 1 << 30 | u32::from(vpdp) << 18 | length << 6;
    (front | remainder(front)).to_be_bytes()
}

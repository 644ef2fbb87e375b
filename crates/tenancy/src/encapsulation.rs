//! Encapsulation of description headers at a port: plain, in MAC-in-MAC, or in VXLAN.
//! docs/reference/description-header.md has the layouts, byte by byte.

use std::net::Ipv4Addr;
use std::sync::Arc;

use packet::{Frame, FrameError};
use support::checksum::{internet_checksum, ones_complement_sum};
use support::mac::MacAddress;

use crate::description::{Description, Draft};
use crate::vpdp::VpdpId;

/// Encapsulation of the description header at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// The header is at the start of the frame.
    Plain,
    /// The header follows an Ethernet header of the backbone (MAC-in-MAC).
    MacInMac(Backbone),
    /// The header follows a VXLAN header.
    Vxlan(Tunnel),
}

/// Endpoints of a MAC-in-MAC encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backbone {
    /// Local address: unicast frames to other addresses are not accepted.
    pub local: MacAddress,
    /// Remote address.
    pub remote: MacAddress,
}

/// Endpoints of a VXLAN encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Addresses of the outer Ethernet header.
    pub backbone: Backbone,
    /// Local address: packets to other addresses are not accepted.
    pub local: Ipv4Addr,
    /// Remote address.
    pub remote: Ipv4Addr,
    /// VXLAN network identifier (24 bits), reserved for packets with description headers.
    pub vni: u32,
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const VXLAN: usize = 8;

/// Offsets of the headers after Ethernet.
const IPV4_AT: usize = ETHERNET;
const UDP_AT: usize = IPV4_AT + IPV4;
const VXLAN_AT: usize = UDP_AT + UDP;

/// IEEE 802 Local Experimental EtherType 1.
const ETHERTYPE_DESCRIBED: u16 = 0x88b5;
const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;
/// Version 4, header length 20: no options.
const IPV4_START: u8 = 0x45;
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// Mask: "more fragments" flag and fragment offset.
const FRAGMENT: u16 = 0x3fff;
const TIME_TO_LIVE: u8 = 64;
/// RFC 7348, section 5.
const VXLAN_PORT: u16 = 4789;
const VNI_IS_VALID: u8 = 0x08;
/// First UDP source port. The vPDP's number is added, so that underlay routers can distinguish
/// vPDPs (ECMP).
const SOURCE_PORTS: u16 = 0xc000;

impl Encapsulation {
    /// Returns the number of bytes in front of the packet, the description header included.
    #[inline]
    pub fn bytes(&self) -> usize {
        Description::BYTES
            + match self {
                Encapsulation::Plain => 0,
                Encapsulation::MacInMac(_) => ETHERNET,
                Encapsulation::Vxlan(_) => VXLAN_AT + VXLAN,
            }
    }

    /// Removes all headers in front of a packet and returns its description. Returns `None`, and
    /// leaves the frame unchanged, if a check fails.
    #[inline(always)]
    pub fn take_off(&self, frame: &mut Frame) -> Option<Description> {
        let bytes = frame.bytes();
        let described = match self {
            Encapsulation::Plain => bytes,
            Encapsulation::MacInMac(backbone) => {
                backbone
                    .is_taken(bytes, ETHERTYPE_DESCRIBED)
                    .then_some(())?;
                &bytes[ETHERNET..]
            }
            Encapsulation::Vxlan(tunnel) => tunnel.payload(bytes)?,
        };
        let description = Description::decode(described)?;
        let end = described.len();
        frame.pull_front(self.bytes()).ok()?;
        // Padding by the underlay is cut off.
        frame.truncate(end - Description::BYTES);
        Some(description)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Backbone {
    /// Returns true if a frame is for this endpoint and has this EtherType.
    fn is_taken(&self, bytes: &[u8], ethertype: u16) -> bool {
        let destination = bytes.first_chunk().map(|bytes| MacAddress(*bytes));
        let is_for_us = destination.is_some_and(|mac| mac == self.local || !mac.is_unicast());
        is_for_us && word(bytes, ETHERNET - 2) == Some(ethertype)
    }

    fn header(&self, ethertype: u16) -> Vec<u8> {
        let ethertype = ethertype.to_be_bytes();
        [&self.remote.0[..], &self.local.0, &ethertype].concat()
    }
}

impl Tunnel {
    /// Returns the payload of the VXLAN header, if all headers in front of it are valid.
    fn payload<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let is_ipv4 = self.backbone.is_taken(bytes, ETHERTYPE_IPV4);
        let ip = bytes.get(IPV4_AT..UDP_AT).filter(|_| is_ipv4)?;
        let total = usize::from(word(ip, 2)?);
        let is_whole = word(ip, 6)? & FRAGMENT == 0;
        let is_for_us = ip[0] == IPV4_START
            && is_whole
            && ip[9] == PROTOCOL_UDP
            && ip[16..20] == self.local.octets()
            && ones_complement_sum(ip) == 0xffff;
        let packet = bytes.get(UDP_AT..IPV4_AT + total).filter(|_| is_for_us)?;
        let is_vxlan =
            word(packet, 2)? == VXLAN_PORT && usize::from(word(packet, 4)?) == packet.len();
        let (header, payload) = packet.get(UDP..)?.split_first_chunk::<VXLAN>()?;
        let has_vni = header[0] & VNI_IS_VALID != 0 && header[4..7] == self.vni.to_be_bytes()[1..];
        (is_vxlan && has_vni).then_some(payload)
    }

    fn headers(&self, vpdp: VpdpId) -> Vec<u8> {
        let mut bytes = self.backbone.header(ETHERTYPE_IPV4);
        bytes.extend([IPV4_START, 0, 0, 0, 0, 0]);
        bytes.extend(DO_NOT_FRAGMENT.to_be_bytes());
        bytes.extend([TIME_TO_LIVE, PROTOCOL_UDP, 0, 0]);
        bytes.extend(self.local.octets());
        bytes.extend(self.remote.octets());
        bytes.extend((SOURCE_PORTS | vpdp.get()).to_be_bytes());
        bytes.extend(VXLAN_PORT.to_be_bytes());
        // Checksum 0: none (RFC 7348, section 5).
        bytes.extend([0; 4]);
        bytes.extend([VNI_IS_VALID, 0, 0, 0]);
        bytes.extend((self.vni << 8).to_be_bytes());
        bytes
    }
}

/// Header template of an encapsulation: the headers in front of a vPDP's packets at a port.
#[derive(Clone, Debug)]
pub struct EncapHeader {
    description: Draft,
    outer: Option<Arc<Outer>>,
}

/// Outer headers in front of the description header, without lengths.
#[derive(Debug)]
pub(crate) struct Outer {
    bytes: Box<[u8]>,
    /// True if it has length fields (IPv4 and UDP).
    has_lengths: bool,
}

impl Outer {
    /// Returns the outer headers of this encapsulation, or `None` for a plain one.
    pub(crate) fn of(vpdp: VpdpId, carriage: Encapsulation) -> Option<Outer> {
        let (bytes, has_lengths) = match &carriage {
            Encapsulation::Plain => return None,
            Encapsulation::MacInMac(backbone) => (backbone.header(ETHERTYPE_DESCRIBED), false),
            Encapsulation::Vxlan(tunnel) => (tunnel.headers(vpdp), true),
        };
        Some(Outer {
            bytes: bytes.into(),
            has_lengths,
        })
    }

    fn put_on(
        &self,
        header: [u8; Description::BYTES],
        frame: &mut Frame,
    ) -> Result<(), FrameError> {
        let len = frame.len() + header.len() + self.bytes.len();
        if len > packet::MAX_FRAME {
            return Err(FrameError::TooLong { len });
        }
        frame.push_front(&header)?;
        frame.push_front(&self.bytes)?;
        if self.has_lengths {
            write_lengths(frame.bytes_mut());
        }
        Ok(())
    }
}

/// Adds a description header, and the outer headers in front of it, to a packet.
///
/// # Errors
/// The frame would exceed the maximum length of a frame or of an IPv4 packet; it is not changed.
#[inline(always)]
pub(crate) fn put_on(
    description: Draft,
    outer: Option<&Outer>,
    frame: &mut Frame,
) -> Result<(), FrameError> {
    match (outer, frame.len()) {
        // Fast path: no outer headers, and the length fits into the header.
        (None, len @ 0..=MAX_SAID) => {
            // A copy of constant length is one store.
            if let Some(front) = frame.extend_front(Description::BYTES)?.first_chunk_mut() {
                *front = description.of_packet(len);
            }
            Ok(())
        }
        _ => put_on_any(description, outer, frame),
    }
}

/// Maximum packet length, in bytes, that a description header can express.
const MAX_SAID: usize = Description::MAX_LENGTH as usize - Description::BYTES;

/// Slow path of [`put_on`]: outer headers, or a long packet.
#[inline(never)]
fn put_on_any(
    description: Draft,
    outer: Option<&Outer>,
    frame: &mut Frame,
) -> Result<(), FrameError> {
    let header = description.of_packet(frame.len());
    match outer {
        None => frame.push_front(&header),
        Some(outer) => outer.put_on(header, frame),
    }
}

impl EncapHeader {
    /// Creates the template of this vPDP's packets at a port with this encapsulation.
    pub fn new(vpdp: VpdpId, carriage: Encapsulation) -> EncapHeader {
        EncapHeader {
            description: Draft::of(vpdp),
            outer: Outer::of(vpdp, carriage).map(Arc::new),
        }
    }

    /// Adds the headers to a packet.
    ///
    /// # Errors
    /// The frame would exceed the maximum length of a frame or of an IPv4 packet; it is not
    /// changed.
    #[inline]
    pub fn put_on(&self, frame: &mut Frame) -> Result<(), FrameError> {
        put_on(self.description, self.outer.as_deref(), frame)
    }
}

/// Writes the length fields and the IPv4 checksum. A frame's length fits into 16 bits.
fn write_lengths(bytes: &mut [u8]) {
    let len = bytes.len();
    let mut write = |at: usize, value: u16| {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    };
    write(IPV4_AT + 2, (len - IPV4_AT) as u16);
    write(UDP_AT + 4, (len - UDP_AT) as u16);
    let checksum = internet_checksum(&bytes[IPV4_AT..UDP_AT]);
    bytes[IPV4_AT + 10..IPV4_AT + 12].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const REMOTE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn carriages(is_far_end: bool) -> [Encapsulation; 3] {
        let (local, remote) = match is_far_end {
            false => (LOCAL, REMOTE),
            true => (REMOTE, LOCAL),
        };
        let backbone = Backbone { local, remote };
        let ip = |mac: MacAddress| Ipv4Addr::new(192, 0, 2, mac.0[5]);
        [
            Encapsulation::Plain,
            Encapsulation::MacInMac(backbone),
            Encapsulation::Vxlan(Tunnel {
                backbone,
                local: ip(local),
                remote: ip(remote),
                vni: 0x12_3456,
            }),
        ]
    }

    fn vpdp() -> VpdpId {
        VpdpId::new(300).unwrap()
    }

    #[test]
    fn the_other_end_takes_off_what_one_end_puts_on() {
        for (near, far) in carriages(false).into_iter().zip(carriages(true)) {
            for len in [0, 60, 1514, 9000] {
                let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let mut frame = Frame::from_bytes(&bytes).unwrap();
                EncapHeader::new(vpdp(), near).put_on(&mut frame).unwrap();
                assert_eq!(frame.len(), len + near.bytes());
                let description = far.take_off(&mut frame).unwrap();
                assert_eq!(description, Description::of_packet(vpdp(), len));
                assert_eq!(frame.bytes(), bytes, "{near:?}");
            }
        }
    }

    #[test]
    fn every_wrong_bit_of_the_outer_headers_is_either_checked_or_of_no_meaning() {
        // Source addresses, source ports and flags that a receiver must ignore.
        let unchecked = |at: usize| (6..12).contains(&at) || (34..36).contains(&at);
        for (near, far) in carriages(false).into_iter().zip(carriages(true)) {
            let mut frame = Frame::from_bytes(&[7; 60]).unwrap();
            EncapHeader::new(vpdp(), near).put_on(&mut frame).unwrap();
            let right = frame.bytes().to_vec();
            for at in (0..near.bytes()).filter(|at| !unchecked(*at)) {
                // With the group bit set, the frame is for everyone. UDP's checksum and VXLAN's
                // reserved bits are ignored.
                let mask = match at {
                    0 => 0xfe,
                    40 | 41 | 43..=45 | 49 => continue,
                    42 => VNI_IS_VALID,
                    _ => 0xff,
                };
                for bit in (0..8).filter(|bit| mask >> bit & 1 == 1) {
                    let mut wrong = right.clone();
                    wrong[at] ^= 1 << bit;
                    let mut frame = Frame::from_bytes(&wrong).unwrap();
                    let taken = far.take_off(&mut frame);
                    assert_eq!(taken, None, "{near:?}: byte {at}, bit {bit}");
                    assert_eq!(frame.bytes(), wrong);
                }
            }
        }
    }

    #[test]
    fn what_pads_an_outer_frame_does_not_come_in() {
        let [_, _, near] = carriages(false);
        let [_, _, far] = carriages(true);
        let mut frame = Frame::from_bytes(&[7; 20]).unwrap();
        EncapHeader::new(vpdp(), near).put_on(&mut frame).unwrap();
        frame.push_back(&[0; 30]).unwrap();
        far.take_off(&mut frame).unwrap();
        assert_eq!(frame.bytes(), [7; 20]);
    }

    #[test]
    fn a_frame_that_would_become_too_long_stays_as_it_is() {
        for carriage in carriages(false) {
            let mut frame = Frame::from_bytes(&vec![1; packet::MAX_FRAME - 3]).unwrap();
            assert!(
                EncapHeader::new(vpdp(), carriage)
                    .put_on(&mut frame)
                    .is_err()
            );
            assert_eq!(frame.len(), packet::MAX_FRAME - 3);
        }
    }
}

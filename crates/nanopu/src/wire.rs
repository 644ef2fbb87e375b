//! Frames of the transport: Ethernet, IPv4 with protocol 0x99, and the header of NDP (30 bytes,
//! with padding), as the prototype's public sources have them. All numbers are big-endian.

use support::checksum::internet_checksum;

/// IPv4 protocol number of the transport.
pub const PROTOCOL: u8 = 0x99;
/// Bytes of the Ethernet, IPv4 and transport headers.
pub const HEADER_BYTES: usize = 14 + 20 + 30;
/// Bytes of a message in one packet, at most.
pub const SEGMENT_BYTES: usize = 1024;

/// `DATA`: a part of a message.
pub const DATA: u8 = 1;
/// `ACK`: the part arrived.
pub const ACK: u8 = 2;
/// `NACK`: the part arrived without its bytes.
pub const NACK: u8 = 4;
/// `PULL`: the sender may send up to `pull_offset`.
pub const PULL: u8 = 8;
/// `CHOP`: a switch removed the bytes of the part.
pub const CHOP: u8 = 16;

/// A packet of the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// IPv4 address of the sender.
    pub source: u32,
    /// IPv4 address of the receiver.
    pub destination: u32,
    /// [`DATA`], [`ACK`], [`NACK`], [`PULL`], [`CHOP`].
    pub flags: u8,
    /// Context of the sender of this packet.
    pub source_context: u16,
    /// Context of its receiver.
    pub destination_context: u16,
    /// Bytes of the message.
    pub message_bytes: u16,
    /// Number of the part.
    pub packet_offset: u8,
    /// Number of parts that the receiver allows.
    pub pull_offset: u16,
    /// Number that the message's sender gave it.
    pub message_id: u16,
    /// Buffer of the message at its sender.
    pub buffer: u16,
    /// Size class of that buffer.
    pub buffer_class: u8,
    /// Bytes of the part; none with [`CHOP`] and in control packets.
    pub payload: Vec<u8>,
}

/// Returns the Ethernet address that belongs to an IPv4 address.
fn mac(address: u32) -> [u8; 6] {
    let [a, b, c, d] = address.to_be_bytes();
    [2, 0, a, b, c, d]
}

impl Packet {
    /// Returns the number of bytes of the frame.
    pub fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.frame_bytes());
        frame.extend_from_slice(&mac(self.destination));
        frame.extend_from_slice(&mac(self.source));
        frame.extend_from_slice(&[0x08, 0x00]);
        let total = (20 + 30 + self.payload.len()) as u16;
        let mut ip = [0u8; 20];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[8] = 64;
        ip[9] = PROTOCOL;
        ip[12..16].copy_from_slice(&self.source.to_be_bytes());
        ip[16..20].copy_from_slice(&self.destination.to_be_bytes());
        let checksum = internet_checksum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend_from_slice(&ip);
        frame.push(self.flags);
        frame.extend_from_slice(&self.source_context.to_be_bytes());
        frame.extend_from_slice(&self.destination_context.to_be_bytes());
        frame.extend_from_slice(&self.message_bytes.to_be_bytes());
        frame.push(self.packet_offset);
        frame.extend_from_slice(&self.pull_offset.to_be_bytes());
        frame.extend_from_slice(&self.message_id.to_be_bytes());
        frame.extend_from_slice(&self.buffer.to_be_bytes());
        frame.push(self.buffer_class);
        frame.extend_from_slice(&[0; 15]);
        frame.extend_from_slice(&self.payload);
        frame
    }

    /// Reads a frame. Returns none if it is not of this transport, is cut, or has another number
    /// of payload bytes than its part of the message has.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(14..34)?;
        if frame[12..14] != [0x08, 0x00] || ip[0] != 0x45 || ip[9] != PROTOCOL {
            return None;
        }
        if internet_checksum(ip) != 0 {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let body = frame.get(34..14 + total)?;
        let header = body.get(..30)?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
        let packet = Self {
            source: address(12),
            destination: address(16),
            flags: header[0],
            source_context: half(1),
            destination_context: half(3),
            message_bytes: half(5),
            packet_offset: header[7],
            pull_offset: half(8),
            message_id: half(10),
            buffer: half(12),
            buffer_class: header[14],
            payload: body[30..].to_vec(),
        };
        packet.is_consistent().then_some(packet)
    }

    /// True if the message has such a part, and the payload has its bytes or none.
    pub(crate) fn is_consistent(&self) -> bool {
        let length = usize::from(self.message_bytes);
        let start = usize::from(self.packet_offset) * SEGMENT_BYTES;
        let is_part = (1..=usize::from(crate::MAX_MESSAGE)).contains(&length) && start < length;
        let has_bytes = self.flags & DATA != 0 && self.flags & CHOP == 0;
        let expected = if has_bytes {
            (length.saturating_sub(start)).min(SEGMENT_BYTES)
        } else {
            0
        };
        is_part && self.payload.len() == expected
    }

    /// Removes the bytes, as a switch with a full queue does.
    pub fn trim(&mut self) {
        self.payload.clear();
        self.flags |= CHOP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet() -> Packet {
        Packet {
            source: 0x0a00_0001,
            destination: 0x0a00_0002,
            flags: DATA,
            source_context: 3,
            destination_context: 4,
            message_bytes: 1030,
            packet_offset: 1,
            pull_offset: 5,
            message_id: 7,
            buffer: 9,
            buffer_class: 1,
            payload: vec![1, 2, 3, 4, 5, 6],
        }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut packet = packet();
        assert_eq!(packet.to_frame().len(), HEADER_BYTES + 6);
        assert_eq!(Packet::parse(&packet.to_frame()).as_ref(), Some(&packet));
        packet.trim();
        assert_eq!(Packet::parse(&packet.to_frame()).as_ref(), Some(&packet));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_is_read_is_consistent(
            place in 0usize..70, value in any::<u8>(), cut in 0usize..71
        ) {
            let mut frame = packet().to_frame();
            frame[place] = value;
            frame.truncate(cut);
            if let Some(read) = Packet::parse(&frame) {
                prop_assert!(read.is_consistent());
            }
        }
    }
}

//! The frames between switch and servers: checks, and access to their options.

use packet::Frame;
use passes::split::{EPOCH_AT, ETHERNET_BYTES, FrameOption, WireLayout};
use placement::hash::RowHashes;

use crate::requests::NO_FLOW;

/// Byte range of an option.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    bytes: usize,
}

/// Reader and writer of frames with one layout.
#[derive(Clone, Debug)]
pub struct Wire {
    request_type: [u8; 2],
    response_type: [u8; 2],
    /// Minimum length of a frame.
    min_bytes: usize,
    epoch: [u8; 2],
    resume: Place,
    server: Place,
    flow: Place,
    sequence: Place,
    /// First bit and number of bits of the key.
    key: (usize, usize),
}

/// Offset of the EtherType.
const ETHER_TYPE: usize = 12;

impl Wire {
    /// Creates the reader of a layout.
    pub fn new(layout: &WireLayout) -> Wire {
        let place = |option| {
            let (at, bytes) = layout.option(option);
            Place { at, bytes }
        };
        Wire {
            request_type: layout.request_type.to_be_bytes(),
            response_type: layout.response_type.to_be_bytes(),
            min_bytes: (ETHERNET_BYTES + layout.header_bytes) as usize,
            epoch: layout.epoch.to_be_bytes(),
            resume: place(FrameOption::ResumePoint),
            server: place(FrameOption::Server),
            flow: place(FrameOption::Flow),
            sequence: place(FrameOption::Sequence),
            key: (layout.key_offset as usize, layout.key_width as usize),
        }
    }

    fn has_type(&self, frame: &Frame, ether_type: [u8; 2]) -> bool {
        frame.bytes().get(ETHER_TYPE..ETHER_TYPE + 2) == Some(&ether_type)
    }

    /// Returns true if the frame has the EtherType of requests.
    pub fn is_request(&self, frame: &Frame) -> bool {
        self.has_type(frame, self.request_type)
    }

    /// Returns true if the frame has the EtherType of responses.
    pub fn is_response(&self, frame: &Frame) -> bool {
        self.has_type(frame, self.response_type)
    }

    /// Returns true if the frame is long enough for its header.
    pub fn is_whole(&self, frame: &Frame) -> bool {
        frame.len() >= self.min_bytes
    }

    fn get(frame: &Frame, place: Place) -> u64 {
        let bytes = frame.bytes().get(place.at..place.at + place.bytes);
        let bytes = bytes.unwrap_or_default();
        bytes
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn set(frame: &mut Frame, place: Place, value: u64) {
        let all = value.to_be_bytes();
        let value = &all[all.len() - place.bytes..];
        if let Some(bytes) = frame.bytes_mut().get_mut(place.at..place.at + place.bytes) {
            bytes.copy_from_slice(value);
        }
    }

    /// Returns true if the frame is of a program with this layout.
    pub fn has_epoch(&self, frame: &Frame) -> bool {
        frame.bytes().get(EPOCH_AT..EPOCH_AT + 2) == Some(&self.epoch)
    }

    /// Returns the number of the cut or of the place where the packet resumes.
    pub fn point(&self, frame: &Frame) -> u16 {
        Self::get(frame, self.resume) as u16
    }

    /// Returns the number of the server.
    pub fn server(&self, frame: &Frame) -> u16 {
        Self::get(frame, self.server) as u16
    }

    /// Returns the hash of the flow.
    pub fn flow(&self, frame: &Frame) -> u32 {
        Self::get(frame, self.flow) as u32
    }

    /// Returns a number that is the same for all requests of a flow, to distribute them over the
    /// workers of a server.
    pub fn worker_hash(&self, frame: &Frame) -> u32 {
        match self.flow(frame) {
            NO_FLOW => {
                let mut key = Vec::new();
                self.append_key(frame, self.key.1, &mut key);
                RowHashes::new(&key).next_row()
            }
            flow => flow,
        }
    }

    /// Sets the hash of the flow.
    pub(crate) fn set_flow(&self, frame: &mut Frame, flow: u32) {
        Self::set(frame, self.flow, flow.into());
    }

    /// Returns the leased value of a request that has no number yet, at a cut with `@owner`.
    pub(crate) fn owned_value(&self, frame: &Frame) -> u32 {
        self.sequence(frame)
    }

    /// Returns the number of the request.
    pub fn sequence(&self, frame: &Frame) -> u32 {
        Self::get(frame, self.sequence) as u32
    }

    /// Makes a response of a request, as a server does that answers at this place.
    pub fn turn_back(&self, frame: &mut Frame, resume: u16) {
        if let Some(bytes) = frame.bytes_mut().get_mut(ETHER_TYPE..ETHER_TYPE + 2) {
            bytes.copy_from_slice(&self.response_type);
        }
        Self::set(frame, self.resume, resume.into());
    }

    /// Returns the maximum number of bytes of a key.
    pub fn max_key_bytes(&self) -> usize {
        self.key.1.div_ceil(8)
    }

    /// Sets server and number of a request.
    pub fn address(&self, frame: &mut Frame, server: u16, sequence: u32) {
        Self::set(frame, self.server, server.into());
        Self::set(frame, self.sequence, sequence.into());
    }

    /// Reads the first `width` bits of the key into `key`, the last byte zero-padded.
    pub fn read_key(&self, frame: &Frame, width: usize, key: &mut Vec<u8>) {
        key.clear();
        self.append_key(frame, width, key);
    }

    /// Appends the first `width` bits of the key to `key`, the last byte zero-padded.
    pub fn append_key(&self, frame: &Frame, width: usize, key: &mut Vec<u8>) {
        let (first, all) = self.key;
        let bytes = frame.bytes();
        let width = width.min(all);
        let shift = first % 8;
        for at in (0..width).step_by(8) {
            let byte = (first + at) / 8;
            let high = bytes.get(byte).copied().unwrap_or(0) << shift;
            let low = match shift {
                0 => 0,
                shift => bytes.get(byte + 1).copied().unwrap_or(0) >> (8 - shift),
            };
            let left = (width - at).min(8);
            key.push((high | low) & (0xff_u8 << (8 - left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> WireLayout {
        WireLayout {
            request_type: 0x88b5,
            response_type: 0x88b6,
            epoch: 7,
            parameters: Vec::new(),
            // After the EtherTypes, the epoch and a parameter of three bits.
            key_offset: 14 * 8 + 32 + 3,
            key_width: 12,
            header_bytes: 24,
        }
    }

    #[test]
    fn options_keep_their_values_and_leave_the_other_bytes() {
        let wire = Wire::new(&layout());
        let mut frame = Frame::from_bytes(&[0; 60]).expect("a frame");
        wire.address(&mut frame, 3, 0x0102_0304);
        assert_eq!(wire.server(&frame), 3);
        assert_eq!(wire.sequence(&frame), 0x0102_0304);
        assert_eq!(wire.flow(&frame), 0);
        assert_eq!(wire.point(&frame), 0);
        assert!(frame.bytes()[..14].iter().all(|byte| *byte == 0));
        assert!(frame.bytes()[38..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn keys_may_begin_within_a_byte() {
        let wire = Wire::new(&layout());
        let mut bytes = [0; 60];
        bytes[18] = 0b0001_0101;
        bytes[19] = 0b0101_0101;
        let frame = Frame::from_bytes(&bytes).expect("a frame");
        let mut key = Vec::new();
        wire.read_key(&frame, 12, &mut key);
        assert_eq!(key, [0b1010_1010, 0b1010_0000]);
        wire.read_key(&frame, 5, &mut key);
        assert_eq!(key, [0b1010_1000]);
    }

    #[test]
    fn short_frames_are_not_whole() {
        let wire = Wire::new(&layout());
        let frame = Frame::from_bytes(&[0; 37]).expect("a frame");
        assert!(!wire.is_whole(&frame));
        assert!(!wire.is_request(&frame));
    }

    #[test]
    fn the_epoch_is_checked_at_its_place_also_in_a_frame_that_is_too_short() {
        let wire = Wire::new(&layout());
        let mut bytes = [0; 18];
        bytes[17] = 7;
        for (bytes, is_ours) in [(&bytes[..], true), (&bytes[..17], false), (&[0; 60], false)] {
            let frame = Frame::from_bytes(bytes).expect("a frame");
            assert_eq!(wire.has_epoch(&frame), is_ours, "{bytes:?}");
        }
    }
}

//! Capture files: reads and writes pcap and pcapng.
//!
//! The formats are small and stable. The reader is written here because libraries hide what users
//! need for a damaged file: the packet's number and its byte offset.

mod error;
mod pcapng;
mod pcapng_writer;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{PcapError, PcapErrorKind, PcapWriteError};
pub use pcapng_writer::{FrameDirection, FrameRecord, PcapngWriter};
pub use reader::{CapturedPacket, PcapReader};
pub use writer::PcapWriter;

/// The only link type of a switch port.
const LINKTYPE_ETHERNET: u16 = 1;

/// Maximum captured length of a packet. No tool captures more, so a greater length means a damaged
/// file.
const MAX_CAPTURED: u32 = 262_144;

/// Byte order of the numbers in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Returns the `i`-th 32-bit number of `bytes`, or zero beyond their end.
    fn word(self, bytes: &[u8], i: usize) -> u32 {
        bytes
            .get(i * 4..i * 4 + 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, |b| self.u32(b))
    }

    /// Returns the `i`-th 16-bit number of `bytes`, or zero beyond their end.
    fn half(self, bytes: &[u8], i: usize) -> u16 {
        bytes
            .get(i * 2..i * 2 + 2)
            .and_then(|b| b.try_into().ok())
            .map_or(0, |b| self.u16(b))
    }
}

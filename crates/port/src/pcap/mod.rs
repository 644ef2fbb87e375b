//! Captures: packets in files, read from pcap and pcapng, written as pcap.
//!
//! The formats are small and fixed, and what a user needs of a damaged file, the packet's number and
//! the byte where it starts, is what a library would hide; so they are read here.

mod error;
mod pcapng;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{PcapError, PcapErrorKind, PcapWriteError};
pub use reader::{CapturedPacket, PcapReader};
pub use writer::PcapWriter;

/// The only link type that a switch port can carry.
const LINKTYPE_ETHERNET: u16 = 1;

/// More bytes than any tool captures of a packet: a length above this is a damaged file.
const MAX_CAPTURED: u32 = 262_144;

/// Byte order of a capture's numbers.
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

    /// The `i`-th 32-bit number of `bytes`; zero beyond their end.
    fn word(self, bytes: &[u8], i: usize) -> u32 {
        bytes
            .get(i * 4..i * 4 + 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, |b| self.u32(b))
    }

    /// The `i`-th 16-bit number of `bytes`; zero beyond their end.
    fn half(self, bytes: &[u8], i: usize) -> u16 {
        bytes
            .get(i * 2..i * 2 + 2)
            .and_then(|b| b.try_into().ok())
            .map_or(0, |b| self.u16(b))
    }
}

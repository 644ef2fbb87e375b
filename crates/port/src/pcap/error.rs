//! Errors of captures, with packet number and byte offset.

use packet::MAX_FRAME;
use std::path::PathBuf;
use std::{fmt, io};

/// An error of reading a capture. Every packet before it has been delivered.
#[derive(Debug)]
pub struct PcapError {
    /// The file's name.
    pub file: String,
    /// Number of the packet being read, from 1. 0 means the file header.
    pub packet: u64,
    /// Byte offset in the file of the packet's record or of the damaged block.
    pub offset: u64,
    /// Kind of the error.
    pub kind: PcapErrorKind,
}

/// Kind of an error in a capture.
#[derive(Debug)]
pub enum PcapErrorKind {
    /// The file cannot be opened or read.
    Io(io::Error),
    /// The file starts with no known magic number.
    NotACapture {
        /// Its first four bytes, or fewer in a shorter file.
        start: Vec<u8>,
    },
    /// The file has an unknown format version.
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The packets are not Ethernet frames.
    LinkType {
        /// The `LINKTYPE` number.
        found: u16,
    },
    /// The file is truncated.
    Truncated {
        /// Minimum number of missing bytes.
        missing: u64,
    },
    /// The packet exceeds the maximum frame length. The next packet can be read.
    TooLong {
        /// Its captured length in bytes.
        len: u32,
    },
    /// The file's structure is damaged.
    Corrupt {
        /// Description of the damage.
        what: String,
    },
}

impl PcapError {
    /// Returns true if the packets after this one can still be read.
    pub fn is_recoverable(&self) -> bool {
        matches!(self.kind, PcapErrorKind::TooLong { .. })
    }
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PcapError {
            file,
            packet,
            offset,
            kind,
        } = self;
        match kind {
            PcapErrorKind::Io(source) if *packet == 0 => {
                write!(f, "cannot read {file}: {source}")
            }
            PcapErrorKind::Io(source) => {
                write!(
                    f,
                    "cannot read packet {packet} of {file} (byte {offset}): {source}"
                )
            }
            PcapErrorKind::NotACapture { start } => write_not_a_capture(f, file, start),
            PcapErrorKind::Version { major, minor } => write!(
                f,
                "{file} is a capture of version {major}.{minor}, which is not known: convert it \
                 with 'editcap -F pcap'"
            ),
            PcapErrorKind::LinkType { found } => write!(
                f,
                "{file} does not hold Ethernet frames but {} (LINKTYPE {found}): capture on an \
                 Ethernet interface",
                link_type_name(*found)
            ),
            PcapErrorKind::Truncated { missing } if *packet == 0 => {
                write!(
                    f,
                    "{file} ends within its header: {missing} bytes are missing"
                )
            }
            PcapErrorKind::Truncated { missing } => write!(
                f,
                "{file} ends in the middle of packet {packet} (its record starts at byte {offset}, \
                 {missing} bytes are missing); the {} before it are whole",
                Packets(packet - 1)
            ),
            PcapErrorKind::TooLong { len } => write!(
                f,
                "packet {packet} of {file} (byte {offset}) has {len} bytes; a frame has at most \
                 {MAX_FRAME}: the packet is left out"
            ),
            PcapErrorKind::Corrupt { what } => write!(
                f,
                "{file} is damaged at packet {packet} (byte {offset}): {what}; the {} before it \
                 are whole",
                Packets(packet.saturating_sub(1))
            ),
        }
    }
}

impl std::error::Error for PcapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            PcapErrorKind::Io(source) => Some(source),
            _ => None,
        }
    }
}

fn write_not_a_capture(f: &mut fmt::Formatter<'_>, file: &str, start: &[u8]) -> fmt::Result {
    let advice = match start {
        [] => "it is empty",
        [0x1f, 0x8b, ..] => "it is compressed: unpack it with gunzip first",
        [0x28, 0xb5, 0x2f, 0xfd] => "it is compressed: unpack it with unzstd first",
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
            "it is in the \"modified\" format: convert it with 'editcap -F pcap'"
        }
        _ => "it starts with none of the formats' numbers",
    };
    write!(f, "{file} is no pcap or pcapng capture: {advice}")
}

fn link_type_name(link_type: u16) -> &'static str {
    match link_type {
        0 => "loopback packets of BSD",
        9 => "PPP",
        12 | 14 | 101 => "IP packets without a link header",
        105 | 127 => "wireless LAN frames",
        113 => "packets captured on Linux's \"any\" interface",
        276 => "packets captured on Linux's \"any\" interface, version 2",
        189 | 220 | 249 => "USB transfers",
        228 => "IPv4 packets without a link header",
        229 => "IPv6 packets without a link header",
        _ => "something else",
    }
}

/// An error of writing a capture. The packets written before are in the partial file.
#[derive(Debug)]
pub struct PcapWriteError {
    /// The requested file.
    pub file: PathBuf,
    /// The file that holds the packets written so far, if it is not `file`.
    pub partial: Option<PathBuf>,
    /// Number of packets given to the writer before the error.
    pub packets: u64,
    /// The error of the operating system.
    pub source: io::Error,
}

impl fmt::Display for PcapWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PcapWriteError {
            file,
            partial,
            packets,
            source,
        } = self;
        write!(f, "cannot write {}: {source}", file.display())?;
        if source.kind() == io::ErrorKind::StorageFull {
            write!(
                f,
                "; free space on that disk, or write elsewhere, and run again"
            )?;
        }
        match partial {
            Some(partial) if *packets > 0 => write!(
                f,
                " (what could be written of {} is in {})",
                Packets(*packets),
                partial.display()
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for PcapWriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Formats a number of packets with the noun in singular or plural.
struct Packets(u64);

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 packet"),
            n => write!(f, "{n} packets"),
        }
    }
}

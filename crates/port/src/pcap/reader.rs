//! Capture reader: reads pcap or pcapng packet by packet.

use super::pcapng::Section;
use super::source::Source;
use super::{FrameDirection, LINKTYPE_ETHERNET, MAX_CAPTURED, Order, PcapError, PcapErrorKind};
use packet::{Frame, MAX_FRAME, Nanos};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Metadata of a captured packet. Its bytes and time stamp are in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Number of the packet in the file, from 1.
    pub number: u64,
    /// Index of the capture interface. 0 in a pcap file.
    pub interface: u32,
    /// Length of the packet on the wire, in bytes.
    pub original_len: u32,
    /// True if the capture holds only a part of the packet.
    pub is_cut: bool,
    /// Direction at the interface, if the capture has it.
    pub direction: Option<FrameDirection>,
}

/// Reader of a capture.
pub struct PcapReader {
    source: Source,
    format: Format,
    cut: u64,
}

enum Format {
    Pcap(PcapHeader),
    Pcapng(Section),
}

/// Header of a pcap file.
struct PcapHeader {
    order: Order,
    nanoseconds: bool,
    /// Length of the frame check sequence at the end of each packet, in bytes.
    fcs: u32,
}

impl PcapReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is not a capture of Ethernet frames.
    pub fn open(path: &Path) -> Result<PcapReader, PcapError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => PcapReader::new(name, Box::new(file)),
            Err(e) => {
                let kind = PcapErrorKind::Io(e);
                Err(PcapError {
                    file: name,
                    packet: 0,
                    offset: 0,
                    kind,
                })
            }
        }
    }

    /// Reads a capture from `input`. Errors give `name` as its file name.
    ///
    /// # Errors
    /// `input` cannot be read, or is not a capture of Ethernet frames.
    pub fn new(name: String, input: Box<dyn Read + Send>) -> Result<PcapReader, PcapError> {
        let mut source = Source::new(name, input);
        let format = read_header(&mut source)?;
        Ok(PcapReader {
            source,
            format,
            cut: 0,
        })
    }

    /// Returns the file's name, as used in errors.
    pub fn name(&self) -> &str {
        &self.source.file
    }

    /// Returns the number of packets so far that the capture holds only in part.
    pub fn cut_packets(&self) -> u64 {
        self.cut
    }

    /// Reads the next packet into `frame`, with its capture time as `arrival`. Returns `None` at
    /// the end.
    ///
    /// # Errors
    /// The file is truncated or damaged, or does not hold Ethernet frames. After an error with
    /// [`PcapError::is_recoverable`], the next call reads the next packet.
    pub fn read(&mut self, frame: &mut Frame) -> Result<Option<CapturedPacket>, PcapError> {
        self.source.packet += 1;
        let found = match &mut self.format {
            Format::Pcap(header) => header.read(&mut self.source, frame)?,
            Format::Pcapng(section) => section.read(&mut self.source, frame)?,
        };
        if found.is_some_and(|packet| packet.is_cut) {
            self.cut += 1;
        }
        Ok(found)
    }
}

fn read_header(source: &mut Source) -> Result<Format, PcapError> {
    let mut magic = [0; 4];
    let got = source.read_some(&mut magic)?;
    let (order, nanoseconds) = match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, false),
        [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, false),
        [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, true),
        [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, true),
        [0x0a, 0x0d, 0x0d, 0x0a] => return Ok(Format::Pcapng(Section::first(source)?)),
        _ => {
            let start = magic[..got].to_vec();
            return Err(source.error(PcapErrorKind::NotACapture { start }));
        }
    };
    let mut rest = [0; 20];
    source.read(&mut rest)?;
    let (major, minor) = (order.half(&rest, 0), order.half(&rest, 1));
    if major != 2 {
        return Err(source.error(PcapErrorKind::Version { major, minor }));
    }
    let link = order.word(&rest, 4);
    check_link_type(source, link as u16)?;
    // Bit 26 means that bits 28..32 hold the length of the frame check sequence, in units of 16
    // bits.
    let fcs = if link & 1 << 26 != 0 {
        (link >> 28) * 2
    } else {
        0
    };
    Ok(Format::Pcap(PcapHeader {
        order,
        nanoseconds,
        fcs,
    }))
}

pub(super) fn check_link_type(source: &Source, found: u16) -> Result<(), PcapError> {
    if found == LINKTYPE_ETHERNET {
        Ok(())
    } else {
        Err(source.error(PcapErrorKind::LinkType { found }))
    }
}

impl PcapHeader {
    fn read(
        &self,
        source: &mut Source,
        frame: &mut Frame,
    ) -> Result<Option<CapturedPacket>, PcapError> {
        source.begin();
        let mut record = [0; 16];
        if !source.read_unless_end(&mut record)? {
            return Ok(None);
        }
        let word = |i| self.order.word(&record, i);
        let (seconds, fraction, captured, original) = (word(0), word(1), word(2), word(3));
        read_data(source, frame, captured, 0)?;
        let fraction = Nanos(u64::from(fraction) * if self.nanoseconds { 1 } else { 1000 });
        frame.arrival = Nanos::from_secs(u64::from(seconds)) + fraction;
        Ok(Some(finish(
            source,
            frame,
            Lengths {
                captured,
                original,
                fcs: self.fcs,
            },
            0,
        )))
    }
}

/// Lengths of a packet: captured, on the wire, and of the frame check sequence at its end.
pub(super) struct Lengths {
    pub(super) captured: u32,
    pub(super) original: u32,
    pub(super) fcs: u32,
}

/// Reads a packet's bytes into `frame` and skips `padding` bytes after them.
pub(super) fn read_data(
    source: &mut Source,
    frame: &mut Frame,
    captured: u32,
    padding: u64,
) -> Result<(), PcapError> {
    if captured > MAX_CAPTURED {
        return Err(source.corrupt(format!("it claims to have {captured} captured bytes")));
    }
    let Ok(space) = frame.make_space(captured as usize) else {
        debug_assert!(captured as usize > MAX_FRAME);
        source.skip(u64::from(captured) + padding)?;
        return Err(source.error(PcapErrorKind::TooLong { len: captured }));
    };
    source.read(space)?;
    source.skip(padding)
}

/// Removes the frame check sequence from the frame and returns the packet's metadata.
pub(super) fn finish(
    source: &Source,
    frame: &mut Frame,
    lengths: Lengths,
    interface: u32,
) -> CapturedPacket {
    let Lengths {
        captured,
        original,
        fcs,
    } = lengths;
    // Some tools write an original length of zero for a complete packet.
    let original = original.max(captured);
    let without_fcs = original.saturating_sub(fcs);
    frame.truncate(without_fcs as usize);
    CapturedPacket {
        number: source.packet,
        interface,
        original_len: without_fcs,
        is_cut: captured < without_fcs,
        direction: None,
    }
}

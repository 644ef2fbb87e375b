//! Writer of pcapng files of several ports: nanosecond time stamps, directions, comments. A file
//! that is being written can be read up to its last flush.

use super::{LINKTYPE_ETHERNET, PcapWriteError};
use packet::Nanos;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Number by which a reader knows the byte order of a section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const COMMENT: u16 = 1;
const PACKET_FLAGS: u16 = 2;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_TIME_RESOLUTION: u16 = 9;

/// Buffered bytes from which on a packet is followed by a flush.
const BUFFER: usize = 256 * 1024;

/// Maximum number of bytes of a comment or a name. The rest is cut off.
const MAX_TEXT: usize = 1024;

/// Direction of a frame at a port, as seen by the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDirection {
    /// The frame came in by the port.
    Received,
    /// The frame leaves by the port.
    Sent,
}

/// Frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct FrameRecord<'a> {
    /// Index of the interface, in the order of [`PcapngWriter::add_interface`].
    pub interface: u32,
    /// Time since 1970.
    pub time: Nanos,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Length of the whole frame.
    pub length: usize,
    /// Its direction.
    pub direction: FrameDirection,
    /// Text for readers, if any.
    pub comment: Option<&'a str>,
}

/// Writer of a pcapng file. After an error the file ends with the last whole block that it has
/// room for.
#[derive(Debug)]
pub struct PcapngWriter {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Offsets in the buffer at which blocks end.
    ends: Vec<usize>,
    /// Bytes of the file, all of whole blocks.
    written: u64,
    interfaces: u32,
    packets: u64,
    /// True if the file has nothing that others wrote, so that it may be cut.
    is_own: bool,
}

impl PcapngWriter {
    /// Creates a file that does not exist.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create_new(path: &Path) -> Result<PcapngWriter, PcapWriteError> {
        PcapngWriter::open(path, OpenOptions::new().write(true).create_new(true))
    }

    /// Creates a file, or replaces one. The path may be a device or a pipe.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<PcapngWriter, PcapWriteError> {
        let options = &mut OpenOptions::new();
        PcapngWriter::open(path, options.write(true).create(true).truncate(true))
    }

    fn open(path: &Path, options: &OpenOptions) -> Result<PcapngWriter, PcapWriteError> {
        match options.open(path) {
            Ok(file) => Ok(PcapngWriter {
                is_own: true,
                ..PcapngWriter::of_open(file, path)
            }),
            Err(source) => Err(PcapWriteError {
                file: path.to_owned(),
                partial: None,
                packets: 0,
                source,
            }),
        }
    }

    /// Returns a writer to an open file, which may be a pipe. Errors name it as `path`.
    pub fn of_open(file: File, path: &Path) -> PcapngWriter {
        let mut writer = PcapngWriter {
            path: path.to_owned(),
            file,
            buffer: Vec::new(),
            ends: Vec::new(),
            written: 0,
            interfaces: 0,
            packets: 0,
            is_own: false,
        };
        let application = concat!("polyplane ", env!("CARGO_PKG_VERSION"));
        writer.block(SECTION_HEADER, |body| {
            body.extend(BYTE_ORDER.to_le_bytes());
            body.extend([1, 0, 0, 0]);
            // The length of the section is unknown.
            body.extend(u64::MAX.to_le_bytes());
            put_option(body, SECTION_APPLICATION, application.as_bytes());
            put_option(body, OPTION_END, &[]);
        });
        writer
    }

    /// Adds an interface. `snap_len` is the maximum number of captured bytes of a frame. Returns
    /// its index.
    pub fn add_interface(&mut self, name: &str, snap_len: u32) -> u32 {
        self.block(INTERFACE_DESCRIPTION, |body| {
            body.extend(LINKTYPE_ETHERNET.to_le_bytes());
            body.extend([0, 0]);
            body.extend(snap_len.to_le_bytes());
            put_option(body, INTERFACE_NAME, cut(name));
            // 10 to the minus 9 seconds.
            put_option(body, INTERFACE_TIME_RESOLUTION, &[9]);
            put_option(body, OPTION_END, &[]);
        });
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(&mut self, frame: FrameRecord<'_>) -> Result<(), PcapWriteError> {
        debug_assert!(frame.interface < self.interfaces, "an interface is added");
        self.block(ENHANCED_PACKET, |body| {
            let time = frame.time.0;
            let words = [
                frame.interface,
                (time >> 32) as u32,
                time as u32,
                frame.bytes.len() as u32,
                frame.length as u32,
            ];
            words
                .iter()
                .for_each(|word| body.extend(word.to_le_bytes()));
            body.extend(frame.bytes);
            pad(body, frame.bytes.len());
            // The two lowest bits.
            let flags: u32 = match frame.direction {
                FrameDirection::Received => 1,
                FrameDirection::Sent => 2,
            };
            put_option(body, PACKET_FLAGS, &flags.to_le_bytes());
            if let Some(comment) = frame.comment {
                put_option(body, COMMENT, cut(comment));
            }
            put_option(body, OPTION_END, &[]);
        });
        self.packets += 1;
        match self.buffer.len() >= BUFFER {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Returns the number of frames written so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the length of the file with all that was written so far.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the buffered blocks to the file.
    ///
    /// # Errors
    /// The disk is full or fails. The file then ends with a whole block.
    pub fn flush(&mut self) -> Result<(), PcapWriteError> {
        let mut done = 0;
        let mut result = Ok(());
        while done < self.buffer.len() && result.is_ok() {
            match self.file.write(&self.buffer[done..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        let whole = self.ends.iter().rev().find(|end| **end <= done);
        self.written += whole.map_or(0, |whole| *whole as u64);
        self.buffer.clear();
        self.ends.clear();
        result.map_err(|source| {
            if self.is_own {
                // Pipes have no length. Then their reader has a part of a block.
                let _ = self.file.set_len(self.written);
            }
            PcapWriteError {
                file: self.path.clone(),
                partial: None,
                packets: self.packets,
                source,
            }
        })
    }

    /// Appends a block to the buffer.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.buffer.len();
        self.buffer.extend(kind.to_le_bytes());
        self.buffer.extend([0; 4]);
        body(&mut self.buffer);
        let len = (self.buffer.len() - begin + 4) as u32;
        self.buffer[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
        self.buffer.extend(len.to_le_bytes());
        self.ends.push(self.buffer.len());
    }
}

/// Appends an option, padded to 32 bits.
fn put_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body, value.len());
}

fn pad(body: &mut Vec<u8>, len: usize) {
    body.extend(&[0; 3][..len.next_multiple_of(4) - len]);
}

/// Returns the beginning of a text that fits into an option.
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::super::PcapReader;
    use super::*;
    use packet::Frame;

    fn record<'f>(bytes: &'f [u8], comment: Option<&'f str>) -> FrameRecord<'f> {
        FrameRecord {
            interface: 1,
            time: Nanos(1_700_000_000_123_456_789),
            bytes,
            length: bytes.len() + 4,
            direction: FrameDirection::Sent,
            comment,
        }
    }

    #[test]
    fn frames_are_read_back_with_their_time_and_their_options() {
        let path = std::env::temp_dir().join(format!("polyplane-{}.pcapng", std::process::id()));
        let mut writer = PcapngWriter::create(&path).unwrap();
        assert_eq!(writer.add_interface("eth0", 256), 0);
        assert_eq!(writer.add_interface("eth1", 256), 1);
        for len in [60, 61, 62, 63] {
            let bytes = vec![len as u8; len];
            writer
                .write(record(&bytes, Some("dropped: tail_drop")))
                .unwrap();
        }
        writer.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, writer.bytes());
        assert!(bytes.windows(4).any(|part| part == b"eth1"));
        let comment = b"\x01\0\x12\0dropped: tail_drop\0\0\0\0\0\0";
        assert!(bytes.windows(comment.len()).any(|part| part == comment));
        let flags = [2, 0, 4, 0, 2, 0, 0, 0];
        assert!(bytes.windows(flags.len()).any(|part| part == flags));
        let mut reader = PcapReader::open(&path).unwrap();
        let mut frame = Frame::new();
        for len in [60, 61, 62, 63] {
            let captured = reader.read(&mut frame).unwrap().unwrap();
            assert_eq!(frame.bytes(), vec![len as u8; len]);
            assert_eq!(frame.arrival, Nanos(1_700_000_000_123_456_789));
            assert_eq!(captured.original_len as usize, len + 4);
            assert_eq!(captured.direction, Some(FrameDirection::Sent));
        }
        assert!(reader.read(&mut frame).unwrap().is_none());
        assert!(PcapngWriter::create_new(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let name = "\u{e9}".repeat(MAX_TEXT);
        assert_eq!(cut(&name).len(), MAX_TEXT);
        let odd = format!("x{name}");
        assert_eq!(cut(&odd).len(), MAX_TEXT - 1);
    }
}

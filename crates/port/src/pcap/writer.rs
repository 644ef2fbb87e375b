//! Writing a capture: pcap with nanoseconds, under a temporary name until it is complete.

use super::{LINKTYPE_ETHERNET, MAX_CAPTURED, PcapWriteError};
use packet::Nanos;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written to the file at once.
const BUFFER: usize = 256 * 1024;

/// The number that a pcap file with nanosecond time stamps starts with.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// A capture being written. It gets its name from [`PcapWriter::finish`]; until then, and after an
/// error, its packets are in a file of that name with `.part` at the end.
#[derive(Debug)]
pub struct PcapWriter {
    path: PathBuf,
    /// The temporary name; none if `path` is a device or a pipe, which is written directly.
    partial: Option<PathBuf>,
    output: BufWriter<File>,
    packets: u64,
    bytes: u64,
}

impl PcapWriter {
    /// Starts a capture that will be `path`.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(path: &Path) -> Result<PcapWriter, PcapWriteError> {
        let special = fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
        let (partial, opened) = if special {
            (None, OpenOptions::new().write(true).open(path))
        } else {
            let partial = partial_name(path);
            let opened = File::create(&partial);
            (Some(partial), opened)
        };
        let path = path.to_owned();
        let file = match opened {
            Ok(file) => file,
            Err(source) => {
                return Err(PcapWriteError {
                    file: path,
                    partial,
                    packets: 0,
                    source,
                });
            }
        };
        let output = BufWriter::with_capacity(BUFFER, file);
        let mut writer = PcapWriter {
            path,
            partial,
            output,
            packets: 0,
            bytes: 0,
        };
        writer
            .output
            .write_all(&file_header())
            .map_err(|e| writer.error(e))?;
        Ok(writer)
    }

    /// Appends a packet that was on the wire at `time`, counted from 1970. The format has 32 bits for
    /// the seconds: later times are written as the last one.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(&mut self, bytes: &[u8], time: Nanos) -> Result<(), PcapWriteError> {
        let last = u64::from(u32::MAX);
        let seconds = time.as_secs().min(last) as u32;
        let nanoseconds = (time.0 % 1_000_000_000) as u32;
        let len = bytes.len() as u32;
        let mut record = [0; 16];
        for (field, value) in record
            .chunks_exact_mut(4)
            .zip([seconds, nanoseconds, len, len])
        {
            field.copy_from_slice(&value.to_le_bytes());
        }
        self.output.write_all(&record).map_err(|e| self.error(e))?;
        self.output.write_all(bytes).map_err(|e| self.error(e))?;
        self.packets += 1;
        self.bytes += u64::from(len);
        Ok(())
    }

    /// Packets written so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of packets written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes what is still in memory, makes sure that the disk has it, and gives the file its name.
    ///
    /// # Errors
    /// The disk is full or fails, or the file cannot be renamed.
    pub fn finish(mut self) -> Result<(), PcapWriteError> {
        self.output.flush().map_err(|e| self.error(e))?;
        let Some(partial) = &self.partial else {
            return Ok(());
        };
        let done = self
            .output
            .get_ref()
            .sync_all()
            .and_then(|()| fs::rename(partial, &self.path));
        done.map_err(|e| self.error(e))
    }

    fn error(&self, source: io::Error) -> PcapWriteError {
        PcapWriteError {
            file: self.path.clone(),
            partial: self.partial.clone(),
            packets: self.packets,
            source,
        }
    }
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    PathBuf::from(name)
}

fn file_header() -> [u8; 24] {
    let version = 2 | 4 << 16;
    let words = [
        MAGIC_NANOSECONDS,
        version,
        0,
        0,
        MAX_CAPTURED,
        u32::from(LINKTYPE_ETHERNET),
    ];
    let mut header = [0; 24];
    for (field, value) in header.chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&value.to_le_bytes());
    }
    header
}

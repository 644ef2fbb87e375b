//! Capture writer: pcap with nanosecond time stamps. The file has a temporary name until it is
//! complete.

use super::{LINKTYPE_ETHERNET, MAX_CAPTURED, PcapWriteError};
use packet::Nanos;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 256 * 1024;

/// Magic number of a pcap file with nanosecond time stamps.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Writer of a capture. [`PcapWriter::finish`] gives the file its name. Until then, and after an
/// error, the packets are in a file with `.part` appended to the name.
#[derive(Debug)]
pub struct PcapWriter {
    path: PathBuf,
    /// The temporary name. `None` if `path` is a device or a pipe, which is written directly.
    partial: Option<PathBuf>,
    output: BufWriter<File>,
    packets: u64,
    bytes: u64,
}

impl PcapWriter {
    /// Creates a capture that will be named `path`.
    ///
    /// # Errors
    /// The file cannot be created or written.
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

    /// Appends a packet with its time stamp, counted from 1970. The format has 32 bits for the
    /// seconds. Later times are clamped to the maximum.
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

    /// Returns the number of packets written so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of packet bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Flushes the buffer, syncs the file to disk, and renames it to its final name.
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

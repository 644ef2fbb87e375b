//! Input of a capture reader. Counts bytes, so that errors can give offsets.

use super::{PcapError, PcapErrorKind};
use std::io::{self, BufReader, Read};

/// Size of the read buffer, in bytes.
const BUFFER: usize = 256 * 1024;

/// A file being read, with the current position.
pub(super) struct Source {
    pub(super) file: String,
    input: BufReader<Box<dyn Read + Send>>,
    /// Bytes consumed.
    offset: u64,
    /// Number of the packet being read. 0 in the file header.
    pub(super) packet: u64,
    /// Offset of the current record or block.
    start: u64,
}

impl Source {
    pub(super) fn new(file: String, input: Box<dyn Read + Send>) -> Source {
        let input = BufReader::with_capacity(BUFFER, input);
        Source {
            file,
            input,
            offset: 0,
            packet: 0,
            start: 0,
        }
    }

    /// Marks the start of a record or block, which errors refer to.
    pub(super) fn begin(&mut self) {
        self.start = self.offset;
    }

    /// Returns an error of this kind at the current record.
    pub(super) fn error(&self, kind: PcapErrorKind) -> PcapError {
        PcapError {
            file: self.file.clone(),
            packet: self.packet,
            offset: self.start,
            kind,
        }
    }

    /// Returns the error that the current record violates the format.
    pub(super) fn corrupt(&self, what: impl Into<String>) -> PcapError {
        self.error(PcapErrorKind::Corrupt { what: what.into() })
    }

    /// Reads until `buf` is full or the file ends. Returns the number of bytes.
    pub(super) fn read_some(&mut self, buf: &mut [u8]) -> Result<usize, PcapError> {
        let mut done = 0;
        while done < buf.len() {
            match self.input.read(&mut buf[done..]) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(PcapErrorKind::Io(e))),
            }
        }
        self.offset += done as u64;
        Ok(done)
    }

    /// Fills `buf`, or returns an error.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<(), PcapError> {
        let done = self.read_some(buf)?;
        self.check_whole((buf.len() - done) as u64)
    }

    /// Fills `buf`. Returns false if the file ends before the first byte.
    pub(super) fn read_unless_end(&mut self, buf: &mut [u8]) -> Result<bool, PcapError> {
        let done = self.read_some(buf)?;
        if done == 0 {
            return Ok(false);
        }
        self.check_whole((buf.len() - done) as u64)?;
        Ok(true)
    }

    /// Skips `n` bytes.
    pub(super) fn skip(&mut self, n: u64) -> Result<(), PcapError> {
        let copied = io::copy(&mut self.input.by_ref().take(n), &mut io::sink());
        let done = copied.map_err(|e| self.error(PcapErrorKind::Io(e)))?;
        self.offset += done;
        self.check_whole(n - done)
    }

    fn check_whole(&self, missing: u64) -> Result<(), PcapError> {
        if missing > 0 {
            Err(self.error(PcapErrorKind::Truncated { missing }))
        } else {
            Ok(())
        }
    }
}

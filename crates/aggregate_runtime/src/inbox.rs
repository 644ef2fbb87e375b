//! Lines that arrive in pieces.

use std::io::{self, Read};

/// Longest line.
const MAX_LINE: usize = 1 << 24;

/// Lines of a stream.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl Inbox {
    /// Reads once what has arrived. Call it when the stream is readable.
    ///
    /// # Errors
    /// Those of the stream, and a line that is too long.
    pub fn read(&mut self, stream: &mut impl Read) -> io::Result<()> {
        let mut buffer = [0; 1 << 16];
        match stream.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(len) => self.bytes.extend(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        match self.bytes.len() > MAX_LINE && !self.bytes.contains(&b'\n') {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a line is too long",
            )),
            false => Ok(()),
        }
    }

    /// Returns the next whole line.
    #[allow(
        clippy::should_implement_trait,
        reason = "more lines may come after `None`"
    )]
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let rest = self.bytes.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        Some(line)
    }

    /// Returns true if there is a whole line, or the end of the stream.
    pub fn has_line(&self) -> bool {
        self.is_closed || self.bytes.contains(&b'\n')
    }

    /// Returns true after the end of the stream.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let mut inbox = Inbox::default();
        let mut lines = Vec::new();
        for mut piece in [&b"one\ntw"[..], b"o", b"\n\nthree"] {
            inbox.read(&mut piece).unwrap();
            lines.extend(std::iter::from_fn(|| inbox.next()));
        }
        assert_eq!(lines, [&b"one"[..], b"two", b""]);
        assert!(!inbox.is_closed());
        inbox.read(&mut &b""[..]).unwrap();
        assert!(inbox.is_closed());
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut inbox = Inbox::default();
        let mut endless = io::repeat(b'x');
        let read = std::iter::repeat_with(|| inbox.read(&mut endless)).take(1000);
        assert!(read.into_iter().any(|read| read.is_err()));
    }
}

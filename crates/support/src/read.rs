//! Reading of files up to a limit.
//!
//! A device such as `/dev/zero`, a pipe or a wrong file may be endless or very long. A reader reads
//! at most one byte more than its limit, and then returns a [`ReadError`] that names the limit.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Number of bytes of a text that are read before they are checked.
const CHUNK: u64 = 1 << 20;

/// Reason why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// Error of the operating system.
    System(io::Error),
    /// It has more bytes than this limit.
    TooLarge(u64),
    /// It is not UTF-8 text.
    NotText,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::System(error) => match error.kind() {
                io::ErrorKind::NotFound => f.write_str("there is no such file"),
                io::ErrorKind::PermissionDenied => f.write_str("permission denied"),
                io::ErrorKind::IsADirectory => f.write_str("it is a directory"),
                _ => error.fmt(f),
            },
            ReadError::TooLarge(limit) => {
                write!(f, "it is larger than the limit of {}", Bytes(*limit))
            }
            ReadError::NotText => f.write_str("it is not a text file"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::System(error)
    }
}

/// Number of bytes, displayed in the largest unit that divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units
            .into_iter()
            .find(|(bits, _)| self.0 > 0 && self.0.is_multiple_of(1 << bits));
        match unit {
            Some((bits, name)) => write!(f, "{} {name}", self.0 >> bits),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// Returns the bytes of a file.
///
/// # Errors
/// It cannot be opened or read, or has more bytes than the limit.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    read_from(File::open(path)?, limit)
}

/// Returns the text of a file.
///
/// # Errors
/// As [`read_file`], or it is not UTF-8 or has a NUL character.
pub fn read_text(path: &Path, limit: u64) -> Result<String, ReadError> {
    read_text_from(File::open(path)?, limit)
}

/// Returns the text of a stream up to its end. Reading stops soon after the first NUL character.
///
/// # Errors
/// As [`read_from`], or it is not UTF-8 or has a NUL character.
pub fn read_text_from(stream: impl Read, limit: u64) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    let mut bounded = stream.take(limit.saturating_add(1));
    loop {
        let before = bytes.len();
        let got = (&mut bounded).take(CHUNK).read_to_end(&mut bytes)?;
        if bytes[before..].contains(&0) {
            return Err(ReadError::NotText);
        }
        if got == 0 {
            break;
        }
    }
    match bytes.len() as u64 > limit {
        true => Err(ReadError::TooLarge(limit)),
        false => String::from_utf8(bytes).map_err(|_| ReadError::NotText),
    }
}

/// A text that is read in parts of whole lines, so that a large file is never in memory as a whole.
#[derive(Debug)]
pub struct TextParts<R> {
    stream: io::Take<R>,
    limit: u64,
    read: u64,
    /// The start of a line of which the end is not read yet.
    rest: Vec<u8>,
}

impl TextParts<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, limit: u64) -> Result<Self, ReadError> {
        Ok(Self::new(File::open(path)?, limit))
    }
}

impl<R: Read> TextParts<R> {
    /// Creates a reader of a stream of at most `limit` bytes.
    pub fn new(stream: R, limit: u64) -> Self {
        Self {
            stream: stream.take(limit.saturating_add(1)),
            limit,
            read: 0,
            rest: Vec::new(),
        }
    }

    /// Returns the next part of about 1 MiB: whole lines, or the end of the text. `None` at the
    /// end.
    ///
    /// # Errors
    /// As [`read_text_from`]. There are no more parts then.
    pub fn next_part(&mut self) -> Result<Option<String>, ReadError> {
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let before = bytes.len();
            let got = (&mut self.stream).take(CHUNK).read_to_end(&mut bytes)?;
            self.read += got as u64;
            if bytes[before..].contains(&0) {
                return Err(ReadError::NotText);
            }
            if self.read > self.limit {
                return Err(ReadError::TooLarge(self.limit));
            }
            let line_end = bytes[before..].iter().rposition(|&byte| byte == b'\n');
            if got > 0 && line_end.is_none() {
                continue;
            }
            if let Some(at) = line_end {
                self.rest = bytes.split_off(before + at + 1);
            }
            let part = String::from_utf8(bytes).map_err(|_| ReadError::NotText)?;
            return Ok((!part.is_empty()).then_some(part));
        }
    }
}

/// Returns the bytes of a stream up to its end.
///
/// # Errors
/// It cannot be read, or has more bytes than the limit.
pub fn read_from(stream: impl Read, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let mut bounded = stream.take(limit.saturating_add(1));
    bounded.read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadError::TooLarge(limit)),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endless stream that counts the bytes read.
    struct Endless(u64);

    impl Read for &mut Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(b'x');
            self.0 += into.len() as u64;
            Ok(into.len())
        }
    }

    #[test]
    fn an_endless_stream_is_read_up_to_one_byte_more_than_the_limit() {
        let mut endless = Endless(0);
        let error = read_from(&mut endless, 4096).unwrap_err();
        let expected = "it is larger than the limit of 4 KiB";
        assert_eq!((error.to_string().as_str(), endless.0), (expected, 4097));
        let error = read_file(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the limit of 1 MiB");
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_read() {
        assert_eq!(read_from(&b"abc"[..], 3).unwrap(), b"abc");
        let error = read_from(&b"abcd"[..], 3).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the limit of 3 bytes");
    }

    #[test]
    fn a_text_ends_at_its_first_nul_character() {
        let error = read_text(Path::new("/dev/zero"), 1 << 40).unwrap_err();
        assert_eq!(error.to_string(), "it is not a text file");
        assert_eq!(read_text_from(&b"text"[..], 4).unwrap(), "text");
        let mut endless = Endless(0);
        let error = read_text_from(&mut endless, 3 << 20).unwrap_err();
        let expected = "it is larger than the limit of 3 MiB";
        assert_eq!(
            (error.to_string().as_str(), endless.0),
            (expected, (3 << 20) + 1)
        );
        assert!(matches!(
            read_text_from(&b"\xff"[..], 4),
            Err(ReadError::NotText)
        ));
    }

    #[test]
    fn parts_are_the_text_in_whole_lines() {
        let long = "x".repeat(3 << 20);
        let lines = "a line with an \u{e4}\n".repeat(200_000);
        for text in [
            "",
            "one",
            "one\n",
            "\n\n",
            &long,
            &lines,
            &format!("{lines}{long}\nend"),
        ] {
            let mut parts = TextParts::new(text.as_bytes(), text.len() as u64);
            let mut all = String::new();
            while let Some(part) = parts.next_part().unwrap() {
                assert!(all.is_empty() || all.ends_with('\n'));
                assert!(part.len() <= (4 << 20), "{}", part.len());
                all += &part;
            }
            assert!(all == text, "{} bytes of {}", all.len(), text.len());
        }
        let fault = |bytes: &[u8], limit| {
            let mut parts = TextParts::new(bytes, limit);
            loop {
                match parts.next_part() {
                    Ok(Some(_)) => {}
                    Ok(None) => return "none".to_owned(),
                    Err(error) => return error.to_string(),
                }
            }
        };
        assert_eq!(fault(b"a\nb\xff", 9), "it is not a text file");
        assert_eq!(fault(b"a\n\0", 9), "it is not a text file");
        let expected = "it is larger than the limit of 3 bytes";
        assert_eq!(fault(b"a\nb\n", 3), expected);
        assert_eq!(fault(b"a\nb\n", 4), "none");
    }

    #[test]
    fn reasons_are_in_words() {
        let said = |path: &str| read_file(Path::new(path), 9).unwrap_err().to_string();
        assert_eq!(said("/no/such/file"), "there is no such file");
        assert_eq!(said("/"), "it is a directory");
    }
}

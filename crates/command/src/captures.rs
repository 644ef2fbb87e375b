//! Reads several captures as one stream of packets, in time order.

use std::path::PathBuf;
use std::str::FromStr;

use packet::{Frame, Nanos, PortId};
use port::{PcapError, PcapReader};

/// Size of a packet record header in a pcap file, in bytes.
const RECORD: u64 = 16;

/// A capture and its ingress port, as written on the command line: `0=in.pcap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Ingress port of its packets.
    pub port: PortId,
    /// The capture file.
    pub file: PathBuf,
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Input, String> {
        const FORM: &str = "write PORT=FILE, as in 0=in.pcap";
        let Some((number, file)) = text.split_once('=') else {
            return Err(format!("\"{text}\" does not say which port it is: {FORM}"));
        };
        let Ok(port) = number.parse().map(PortId) else {
            return Err(format!("\"{number}\" is no port number: {FORM}"));
        };
        if file.is_empty() {
            return Err(format!("\"{text}\" names no file: {FORM}"));
        }
        Ok(Input {
            port,
            file: file.into(),
        })
    }
}

/// Merged captures. A damaged capture delivers its packets before the damage; the others
/// continue.
pub struct Captures {
    open: Vec<Capture>,
    bytes_in_files: u64,
    bytes_read: u64,
    errors: Vec<PcapError>,
    /// The capture of the last delivered packet. Its next packet is not read yet.
    delivered: Option<usize>,
}

struct Capture {
    port: PortId,
    reader: PcapReader,
    /// The next packet, if there is one.
    next: Frame,
    is_at_end: bool,
}

impl Captures {
    /// Opens all captures.
    ///
    /// # Errors
    /// A capture cannot be opened, or is not a capture of Ethernet frames.
    pub fn open(inputs: &[Input]) -> Result<Captures, PcapError> {
        let open = |input: &Input| Ok((input.port, PcapReader::open(&input.file)?));
        let readers: Result<Vec<_>, PcapError> = inputs.iter().map(open).collect();
        let len = |input: &Input| std::fs::metadata(&input.file).map_or(0, |data| data.len());
        let mut captures = Captures::new(readers?);
        captures.bytes_in_files = inputs.iter().map(len).sum();
        Ok(captures)
    }

    /// Merges open captures, each with its port.
    pub fn new(readers: Vec<(PortId, PcapReader)>) -> Captures {
        let capture = |(port, reader)| Capture {
            port,
            reader,
            next: Frame::new(),
            is_at_end: false,
        };
        let mut captures = Captures {
            open: readers.into_iter().map(capture).collect(),
            bytes_in_files: 0,
            bytes_read: 0,
            errors: Vec::new(),
            delivered: None,
        };
        for i in 0..captures.open.len() {
            captures.read(i);
        }
        captures
    }

    /// Returns the packet with the earliest time stamp. On a tie, the capture given first goes
    /// first.
    pub fn next_packet(&mut self) -> Option<(PortId, &Frame)> {
        if let Some(i) = self.delivered.take() {
            self.read(i);
        }
        let waiting = self
            .open
            .iter()
            .enumerate()
            .filter(|(_, capture)| !capture.is_at_end);
        let (first, _) = waiting.min_by_key(|(_, capture)| capture.next.arrival)?;
        self.delivered = Some(first);
        let Capture { port, next, .. } = &self.open[first];
        self.bytes_read += RECORD + next.len() as u64;
        Some((*port, next))
    }

    /// Returns the time stamp of the first packet, or zero without packets. Must be called before
    /// the first packet is taken.
    pub fn start(&self) -> Nanos {
        let waiting = self.open.iter().filter(|capture| !capture.is_at_end);
        let times = waiting.map(|capture| capture.next.arrival);
        times.min().unwrap_or(Nanos::ZERO)
    }

    /// Returns the errors of the captures, as far as they were read.
    pub fn errors(&self) -> &[PcapError] {
        &self.errors
    }

    /// Returns the number of packets that the captures hold only in part.
    pub fn cut(&self) -> u64 {
        self.open
            .iter()
            .map(|capture| capture.reader.cut_packets())
            .sum()
    }

    /// Returns the capture files of a port.
    pub fn names(&self, port: PortId) -> impl Iterator<Item = &str> {
        let of_port = self.open.iter().filter(move |capture| capture.port == port);
        of_port.map(|capture| capture.reader.name())
    }

    /// Returns the total size of all files in bytes.
    pub fn bytes_in_files(&self) -> u64 {
        self.bytes_in_files
    }

    /// Returns the approximate number of bytes delivered.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads the next packet of a capture. Records errors, and continues after those that are
    /// recoverable.
    fn read(&mut self, i: usize) {
        let capture = &mut self.open[i];
        loop {
            match capture.reader.read(&mut capture.next) {
                Ok(found) => {
                    capture.is_at_end = found.is_none();
                    return;
                }
                Err(error) => {
                    let is_recoverable = error.is_recoverable();
                    self.errors.push(error);
                    if !is_recoverable {
                        capture.is_at_end = true;
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_port_and_a_file_or_says_what_is_wrong() {
        let check = |text: &str, expect: &str| {
            let got = match text.parse::<Input>() {
                Ok(input) => format!("{} {}", input.port, input.file.display()),
                Err(error) => error,
            };
            assert!(got.starts_with(expect), "{text}: {got}");
        };
        check("3=a=b.pcap", "3 a=b.pcap");
        check(
            "a.pcap",
            "\"a.pcap\" does not say which port it is: write PORT=FILE",
        );
        check("x=a.pcap", "\"x\" is no port number");
        check("4294967296=a.pcap", "\"4294967296\" is no port number");
        check("0=", "\"0=\" names no file");
    }
}

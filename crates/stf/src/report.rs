//! Result of a test run, and its text form.

use std::fmt;

use entries::stf::{Mismatch, Pattern};
use exec::DropReason;
use switch::Ledger;

/// Number of packet bytes that a failure shows on one line.
const BYTES_A_LINE: usize = 32;

/// Result of a test run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of packets sent into the device.
    pub packets: usize,
    /// Number of expectations that held.
    pub held: usize,
    /// Output of the commands that read state (`register_read`, `counter_read`, ...), in order.
    pub shown: Vec<String>,
    /// Entries that break a restriction of the program. They are applied, as BMv2 does.
    pub broken_restrictions: Vec<Failure>,
    /// Failures, in the order of the test's lines.
    pub failures: Vec<Failure>,
    /// Events that a program rarely intends: packets dropped by a limit of the device, refused
    /// copies, lost messages. Each has its count. They are reported even if the test does not
    /// check for them.
    pub unusual: Vec<String>,
    /// The packets that each plane has dropped, by their reasons: one line for each plane that has
    /// dropped any.
    pub drops: Vec<String>,
}

/// Drop reasons that are limits of the device, with the text that describes them.
const LIMITS: [(DropReason, &str); 3] = [
    (DropReason::WorkBudget, "used up the work budget"),
    (DropReason::CopyBudget, "asked for too many copies"),
    (
        DropReason::FrameTooLong,
        "became longer than a frame may be",
    ),
];

/// Returns the lines of [`Report::unusual`] for a device.
pub(crate) fn unusual(ledger: &Ledger, lost_messages: u64) -> Vec<String> {
    let limits = LIMITS.iter().filter_map(|(reason, words)| {
        let name = reason.name();
        match ledger.dropped(*reason) {
            0 => None,
            1 => Some(format!("1 packet {words} ({name})")),
            packets => Some(format!("{packets} packets {words} ({name})")),
        }
    });
    let refused = ledger
        .refused_copies()
        .map(|(reason, copies)| match copies {
            1 => format!("1 copy was refused ({reason})"),
            copies => format!("{copies} copies were refused ({reason})"),
        });
    let lost = match lost_messages {
        0 => None,
        1 => Some("1 message to the control plane was lost".to_owned()),
        number => Some(format!("{number} messages to the control plane were lost")),
    };
    limits.chain(refused).chain(lost).collect()
}

/// Returns the lines of [`Report::drops`] for planes, by their names.
pub(crate) fn drops(ledgers: &[(Option<String>, Ledger)]) -> Vec<String> {
    let line = |(plane, ledger): &(Option<String>, Ledger)| {
        let drops = ledger.drops().map(|(reason, packets)| {
            let s = if packets == 1 { "" } else { "s" };
            format!("{packets} packet{s} ({})", reason.name())
        });
        let drops: Vec<String> = drops.collect();
        let by = plane.as_ref().map(|plane| format!(" by {plane}"));
        let by = by.unwrap_or_default();
        (!drops.is_empty()).then(|| format!("dropped{by}: {}", drops.join(", ")))
    };
    ledgers.iter().filter_map(line).collect()
}

/// One failed expectation or command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1. 0 if the failure belongs to no line.
    pub line: u32,
    /// Description of the failure; may have several lines.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Failure {
        Failure {
            line,
            message: message.into(),
        }
    }
}

/// Place of a sent packet in a test.
pub(crate) struct PacketPlace<'a> {
    /// Its port.
    pub(crate) port: u32,
    /// Its number at that port, from 1.
    pub(crate) number: usize,
    /// Lines of the packets of which it may come.
    pub(crate) lines: &'a [u32],
}

impl fmt::Display for PacketPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} at port {}", self.number, self.port)?;
        match self.lines {
            [line] => write!(f, ", from line {line},"),
            _ => Ok(()),
        }
    }
}

/// Describes the difference between a packet and its pattern: the packet's place, the first byte
/// that differs, and that part of both.
pub(crate) fn difference(
    came: &PacketPlace<'_>,
    pattern: &Pattern,
    mismatch: Mismatch,
    packet: &[u8],
) -> String {
    let what = match mismatch {
        Mismatch::Byte(at, ..) => {
            let wanted = nibbles(pattern, at);
            let got = packet.get(at).copied().unwrap_or(0);
            format!("byte {at} should be {wanted}, but is {got:02x}")
        }
        Mismatch::Short(wanted, got) => {
            format!("it should be {wanted} bytes long, but ends after {got}")
        }
        Mismatch::Long(wanted, got) => {
            format!("it should end after {wanted} bytes, but is {got} bytes long")
        }
    };
    let at = match mismatch {
        Mismatch::Byte(at, ..) => at,
        Mismatch::Short(_, got) => got,
        Mismatch::Long(wanted, _) => wanted,
    };
    let start = at / BYTES_A_LINE * BYTES_A_LINE;
    let expected: Vec<String> = (0..pattern.nibbles.len().div_ceil(2))
        .map(|byte| nibbles(pattern, byte))
        .collect();
    let got: Vec<String> = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{came} differs: {what}\n  bytes from {start}\n  expected {}\n  got      {}\n           {}^^",
        shown(&expected, start),
        shown(&got, start),
        " ".repeat(3 * (at - start)),
    )
}

/// Returns the two nibbles of a byte of a pattern.
fn nibbles(pattern: &Pattern, byte: usize) -> String {
    let digit = |at: usize| match pattern.nibbles.get(at) {
        Some(Some(nibble)) => char::from_digit(u32::from(*nibble), 16).unwrap_or('?'),
        Some(None) => '*',
        None => ' ',
    };
    [digit(2 * byte), digit(2 * byte + 1)].iter().collect()
}

/// Formats one line of bytes, from `start` on.
fn shown(bytes: &[String], start: usize) -> String {
    let end = bytes.len().min(start + BYTES_A_LINE);
    match bytes.get(start..end) {
        Some(line) if !line.is_empty() => line.join(" "),
        _ => "(nothing)".into(),
    }
}

/// Formats a packet on one line.
pub(crate) fn hex(packet: &[u8]) -> String {
    const MAX: usize = 128;
    let mut text: String = packet
        .iter()
        .take(MAX)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if packet.len() > MAX {
        text.push_str(&format!(".. ({} bytes)", packet.len()));
    }
    text
}

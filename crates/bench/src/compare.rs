//! Compares two implementations of a workload packet by packet. A benchmark of two sides with
//! different results would be meaningless.

use packet::{Frame, Nanos, PortId};
use std::fmt;
use support::rng::Rng;

use crate::Workload;
use crate::forward::{Forward, Reading, SentFrames};

/// Maximum number of frames per burst.
const BURST: u64 = 64;

/// Stray packets per thousand packets.
const STRAY_PER_MILLE: u32 = 100;

/// A difference between two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The sides sent different packets for a burst.
    Packets {
        /// The received burst.
        burst: Vec<(PortId, Vec<u8>)>,
        /// Index of the first difference in the sent packets.
        at: usize,
        /// The packet that the first side sent there.
        first: Option<(PortId, Vec<u8>)>,
        /// The packet that the second side sent there.
        second: Option<(PortId, Vec<u8>)>,
    },
    /// A counter differs at the end.
    Counters {
        /// Counter values of the first side.
        first: Reading,
        /// Counter values of the second side.
        second: Option<Reading>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Packets {
                burst,
                at,
                first,
                second,
            } => {
                let show = |frame: &Option<(PortId, Vec<u8>)>| match frame {
                    None => "nothing".to_string(),
                    Some((port, bytes)) => format!("port {port}: {}", hex(bytes)),
                };
                writeln!(f, "packet {at} of a burst left as")?;
                writeln!(f, "  {}\nand as\n  {}", show(first), show(second))?;
                writeln!(f, "The burst:")?;
                for (port, bytes) in burst {
                    writeln!(f, "  port {port}: {}", hex(bytes))?;
                }
                Ok(())
            }
            Difference::Counters { first, second } => {
                let Some(second) = second else {
                    return write!(f, "the counter {} is read on one side only", first.name);
                };
                let both = first.cells.iter().zip(&second.cells).enumerate();
                let mut differing = both.filter(|(_, (a, b))| a != b);
                write!(f, "the counter {} differs", first.name)?;
                match differing.next() {
                    Some((i, (a, b))) => write!(f, " at {i}: {a:?} and {b:?}"),
                    None => write!(f, " in its size"),
                }
            }
        }
    }
}

impl std::error::Error for Difference {}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Passes `packets` packets, including stray ones, to both sides in bursts of random size.
/// Compares the sent packets of each burst, and the counters at the end.
///
/// # Errors
/// The first difference.
pub fn compare(
    workload: &dyn Workload,
    packets: u64,
    first: &mut dyn Forward,
    second: &mut dyn Forward,
) -> Result<(), Box<Difference>> {
    let mut choices = Rng::new(packets);
    let mut outboxes = [SentFrames::keeping(), SentFrames::keeping()];
    let mut left = packets;
    let mut now = Nanos::ZERO;
    while left > 0 {
        let count = choices.between(1, BURST).min(left);
        left -= count;
        now += Nanos(count * 70);
        let mut frames: Vec<Frame> = (0..count).map(|_| packet(workload, &mut choices)).collect();
        let mut copies: Vec<Frame> = frames.iter().map(copy).collect();
        let burst: Vec<_> = frames.iter().map(as_bytes).collect();
        first.forward(&mut frames, now, &mut outboxes[0]);
        second.forward(&mut copies, now, &mut outboxes[1]);
        let [a, b] = outboxes.each_mut().map(SentFrames::take_kept);
        if let Some(at) = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i)) {
            return Err(Box::new(Difference::Packets {
                burst,
                at,
                first: a.get(at).cloned(),
                second: b.get(at).cloned(),
            }));
        }
    }
    compare_readings(first.readings(), &second.readings())
}

fn compare_readings(first: Vec<Reading>, second: &[Reading]) -> Result<(), Box<Difference>> {
    for reading in first {
        let other = second.iter().find(|other| other.name == reading.name);
        if other != Some(&reading) {
            return Err(Box::new(Difference::Counters {
                first: reading,
                second: other.cloned(),
            }));
        }
    }
    Ok(())
}

fn packet(workload: &dyn Workload, choices: &mut Rng) -> Frame {
    let mut frame = Frame::new();
    if choices.per_mille(STRAY_PER_MILLE) {
        workload.stray(choices, &mut frame);
    } else {
        workload.packet(choices, &mut frame);
    }
    frame
}

fn copy(frame: &Frame) -> Frame {
    let mut copy = Frame::new();
    copy.copy_from(frame);
    copy
}

fn as_bytes(frame: &Frame) -> (PortId, Vec<u8>) {
    (frame.ingress, frame.bytes().to_vec())
}

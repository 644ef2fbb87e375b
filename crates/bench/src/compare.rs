//! Holds two ways to forward against each other, packet by packet: a bench of two sides that disagree would be a bench of nothing.

use packet::{Frame, Nanos, PortId};
use std::fmt;

use crate::forward::{Forward, Outbox, Reading};
use crate::{Choices, Workload};

/// Frames given at once, at most.
const BURST: u64 = 64;

/// One packet in so many is a stray one.
const STRAY_PER_MILLE: u32 = 100;

/// Where two sides differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// What left differs, for a burst of packets.
    Packets {
        /// The burst as it came in.
        burst: Vec<(PortId, Vec<u8>)>,
        /// Position of the first difference among what left.
        at: usize,
        /// What the first side gave there.
        first: Option<(PortId, Vec<u8>)>,
        /// What the second side gave there.
        second: Option<(PortId, Vec<u8>)>,
    },
    /// A counter differs at the end.
    Counters {
        /// What the first side has counted.
        first: Reading,
        /// What the second side has counted.
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

/// Gives both sides that many packets, stray ones among them, in bursts of any size, and compares what leaves, and in the end what was counted.
///
/// # Errors
/// The first difference.
pub fn compare(
    workload: &dyn Workload,
    packets: u64,
    first: &mut dyn Forward,
    second: &mut dyn Forward,
) -> Result<(), Box<Difference>> {
    let mut choices = Choices::new(packets);
    let mut outboxes = [Outbox::keeping(), Outbox::keeping()];
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
        let [a, b] = outboxes.each_mut().map(Outbox::take_kept);
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

fn packet(workload: &dyn Workload, choices: &mut Choices) -> Frame {
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

//! `vector`: a switch that adds vectors on their way, with the sums in a register.

use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use std::sync::LazyLock;
use support::rng::Rng;

use super::Size;
use super::fill::Fill;
use super::flat::Flat;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{ItemSink, SetupError};
use crate::wire::{ETHERNET, be16, be32, put16, put32};
use crate::{Hand, Workload};

/// Numbers of a vector.
const LANES: usize = 64;
/// Number of sums, as in the program.
const SUMS: usize = 65_536;
/// Bytes before the first number.
const HEADERS: usize = ETHERNET + 4;
/// Length of a frame, in bytes.
const LEN: usize = HEADERS + 4 * LANES;
/// EtherType of vectors.
const ETHERTYPE: u16 = 0x88b5;
/// Number of ports, numbered from 0.
const PORTS: u64 = 16;

static SOURCE: LazyLock<String> = LazyLock::new(|| {
    let lanes = |line: &dyn Fn(usize) -> String| (0..LANES).map(line).collect::<String>();
    let fields = lanes(&|lane| format!("    bit<32> v{lane};\n"));
    let add = lanes(&|lane| {
        format!(
            "                sums.read(sum, hdr.vector.first + {lane});
                sum = sum + hdr.numbers.v{lane};
                sums.write(hdr.vector.first + {lane}, sum);
                hdr.numbers.v{lane} = sum;\n"
        )
    });
    let text = include_str!("../../programs/vector.p4");
    text.replace("@FIELDS@\n", &fields).replace("@ADD@\n", &add)
});

/// The workload.
pub(super) struct Vector {
    vectors: u64,
}

impl Vector {
    pub(super) fn new(size: Size) -> Self {
        Self {
            vectors: match size {
                Size::Full => (SUMS / LANES) as u64,
                Size::Small => 4,
            },
        }
    }

    /// Writes a frame of random numbers.
    fn write(choices: &mut Rng, first: u32, frame: &mut Frame) {
        frame.ingress = PortId(choices.below(PORTS) as u32);
        // Not reached: frames of benchmarks are short.
        let Ok(bytes) = frame.make_space(LEN) else {
            return;
        };
        bytes[..ETHERNET].fill(2);
        put16(bytes, 12, ETHERTYPE);
        put32(bytes, ETHERNET, first);
        for at in (HEADERS..LEN).step_by(4) {
            put32(bytes, at, choices.bits() as u32);
        }
    }
}

impl Workload for Vector {
    fn name(&self) -> &'static str {
        "vector"
    }

    fn about(&self) -> &'static str {
        "a switch that adds vectors of 64 numbers to sums in a register"
    }

    fn source(&self) -> &'static str {
        &SOURCE
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let wire = fill.table("wire", "to_port")?;
        for port in 0..PORTS {
            fill.add(&wire, &[Key::Is(port)], &[port ^ 1])?;
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let first = choices.below(self.vectors) as u32 * LANES as u32;
        Self::write(choices, first, frame);
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        // Some or all sums are outside the register.
        let first = match choices.below(3) {
            0 => choices.bits() as u32,
            1 => 0u32.wrapping_sub(choices.below(LANES as u64) as u32),
            _ => SUMS as u32 - choices.below(2 * LANES as u64) as u32,
        };
        Self::write(choices, first, frame);
        match choices.below(6) {
            0 => put16(frame.bytes_mut(), 12, 0x0800),
            1 => frame.truncate(choices.below(LEN as u64) as usize),
            2 => frame.ingress = PortId(PORTS as u32),
            _ => {}
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        Ok(Box::new(Loop {
            wire: Flat::new(configuration, "wire", |action, params| match action {
                "to_port" => Some(params[0] as u32),
                _ => None,
            })?,
            sums: vec![0; SUMS],
        }))
    }
}

struct Loop {
    wire: Flat<Option<u32>>,
    sums: Vec<u32>,
}

impl Loop {
    /// Adds the numbers of a whole vector.
    fn add(&mut self, bytes: &mut [u8]) {
        let first = be32(bytes, ETHERNET);
        let numbers = bytes[HEADERS..LEN].as_chunks_mut::<4>().0;
        let sums = self.sums.get_mut(first as usize..).unwrap_or_default();
        if let Some(sums) = sums.first_chunk_mut::<LANES>() {
            for (number, sum) in numbers.iter_mut().zip(sums) {
                *sum = sum.wrapping_add(u32::from_be_bytes(*number));
                *number = sum.to_be_bytes();
            }
            return;
        }
        // A read outside the register leaves the variable as it was.
        let mut sum = 0u32;
        for (lane, number) in numbers.iter_mut().enumerate() {
            let at = first.wrapping_add(lane as u32) as usize;
            let cell = self.sums.get_mut(at);
            sum = cell.as_deref().copied().unwrap_or(sum);
            sum = sum.wrapping_add(u32::from_be_bytes(*number));
            if let Some(cell) = cell {
                *cell = sum;
            }
            *number = sum.to_be_bytes();
        }
    }
}

impl Forward for Loop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for frame in frames {
            let bytes = frame.bytes_mut();
            if bytes.len() >= LEN && be16(bytes, 12) == ETHERTYPE {
                self.add(bytes);
            }
            let port = self.wire.find(&[frame.ingress.0.into()]).flatten();
            if let Some(port) = port {
                out.take(PortId(port), frame);
            }
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

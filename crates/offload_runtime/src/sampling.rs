//! Samples of frames: from the packet path to the offloader, without a wait on either side.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use packet::PortId;
use support::rng::Rng;

/// Number of frames in a sample.
pub(crate) const SAMPLE_FRAMES: usize = 256;

/// Bytes of a frame for which a sample has room from the start.
const FRAME_ROOM: usize = 2048;

/// A uniform sample of the frames since it was begun: all of them while there is room, then each
/// with the same probability.
#[derive(Debug)]
struct Sample {
    frames: Vec<(PortId, Vec<u8>)>,
    used: usize,
    /// Frames of which this is a sample.
    seen: u64,
}

impl Sample {
    fn new() -> Box<Sample> {
        let frame = || (PortId(0), Vec::with_capacity(FRAME_ROOM));
        Box::new(Sample {
            frames: std::iter::repeat_with(frame).take(SAMPLE_FRAMES).collect(),
            used: 0,
            seen: 0,
        })
    }

    fn clear(&mut self) {
        (self.used, self.seen) = (0, 0);
    }

    /// Returns the number of packets for which a frame stands. The sum over all frames is `seen`.
    fn weight(&self, number: usize) -> u64 {
        let frames = self.used as u64;
        self.seen / frames + u64::from((number as u64) < self.seen % frames)
    }
}

/// Place where a full and an empty sample change hands.
#[derive(Debug, Default)]
struct Exchange {
    full: Option<Box<Sample>>,
    empty: Option<Box<Sample>>,
}

/// The side of the packet path.
#[derive(Debug)]
pub struct Sampler {
    sample: Box<Sample>,
    rng: Rng,
    exchange: Arc<Mutex<Exchange>>,
}

/// The side of the offloader.
#[derive(Debug)]
pub struct SampleReader {
    exchange: Arc<Mutex<Exchange>>,
    sample: Option<Box<Sample>>,
    /// Frames of the sample that were read.
    read: usize,
}

/// Creates both sides. Memory for frames of usual length is allocated now; a longer frame may
/// allocate once.
pub fn samples(seed: u64) -> (Sampler, SampleReader) {
    let exchange = Arc::new(Mutex::new(Exchange {
        full: None,
        empty: Some(Sample::new()),
    }));
    let sampler = Sampler {
        sample: Sample::new(),
        rng: Rng::new(seed),
        exchange: Arc::clone(&exchange),
    };
    let reader = SampleReader {
        exchange,
        sample: None,
        read: 0,
    };
    (sampler, reader)
}

impl Sampler {
    /// Notes a frame.
    #[inline]
    pub fn note(&mut self, ingress: PortId, frame: &[u8]) {
        let Sample { frames, used, seen } = &mut *self.sample;
        *seen += 1;
        let place = match *used < frames.len() {
            true => {
                *used += 1;
                *used - 1
            }
            // Algorithm R (Vitter, 1985): frame n takes a place with probability places / n.
            false => self.rng.below(*seen) as usize,
        };
        if let Some((port, bytes)) = frames.get_mut(place) {
            *port = ingress;
            bytes.clear();
            bytes.extend_from_slice(frame);
        }
    }

    /// Gives the sample to the offloader, if that has read the last one. It never waits.
    pub fn hand_over(&mut self) {
        if self.sample.seen == 0 {
            return;
        }
        let mut exchange = match self.exchange.try_lock() {
            Ok(exchange) => exchange,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(mut empty) = exchange.empty.take() {
            std::mem::swap(&mut self.sample, &mut empty);
            exchange.full = Some(empty);
        }
    }
}

impl SampleReader {
    /// Passes the next frame with its ingress port and the number of packets for which it stands.
    /// Returns false if there is none.
    pub fn next(&mut self, read: impl FnOnce(PortId, &[u8], u64)) -> bool {
        if self.sample.is_none() {
            let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
            (self.sample, self.read) = (exchange.full.take(), 0);
        }
        let Some(sample) = &mut self.sample else {
            return false;
        };
        let (port, frame) = &sample.frames[self.read];
        read(*port, frame, sample.weight(self.read));
        self.read += 1;
        if self.read == sample.used {
            sample.clear();
            let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
            exchange.empty = self.sample.take();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_a_sample_add_up_to_the_frames_of_each_kind() {
        let (mut sampler, mut reader) = samples(7);
        for (rounds, frames) in [(1, 1), (1, 256), (3, 1_000), (1, 30_000)] {
            for _ in 0..rounds {
                let mut sums = [0; 2];
                for number in 0..frames {
                    // One of four frames is of the second kind.
                    sampler.note(PortId(u32::from(number % 4 == 3)), &[number as u8; 60]);
                }
                sampler.hand_over();
                while reader.next(|port, frame, packets| {
                    assert_eq!(frame.len(), 60);
                    sums[port.0 as usize] += packets;
                }) {}
                assert_eq!(sums.iter().sum::<u64>(), frames);
                if frames > 256 {
                    let share = sums[1] as f64 / frames as f64;
                    assert!((0.15..0.35).contains(&share), "{share} of {frames}");
                } else {
                    assert_eq!(sums[1], frames / 4, "small samples have each frame");
                }
            }
        }
    }

    #[test]
    fn a_sample_that_nobody_takes_goes_on_and_loses_no_frame() {
        let (mut sampler, mut reader) = samples(1);
        let mut sum = 0;
        for _ in 0..10 {
            for _ in 0..500 {
                sampler.note(PortId(0), &[1; 60]);
            }
            sampler.hand_over();
        }
        while reader.next(|_, _, packets| sum += packets) {}
        assert_eq!(sum, 500, "the first sample was given away");
        sampler.hand_over();
        while reader.next(|_, _, packets| sum += packets) {}
        assert_eq!(sum, 5_000);
    }
}

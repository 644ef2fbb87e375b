//! Links between switch and servers of the test bed: delays and losses, in the order of each link.

use std::collections::BTreeMap;

use packet::{Frame, Nanos};

/// Delays and losses of the links between switch and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkOptions {
    /// Maximum delay of a frame.
    pub max_delay: Nanos,
    /// One frame of this many is lost; 0: none.
    pub loss_one_in: u64,
    /// Seed of delays and losses.
    pub seed: u64,
}

/// End of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// The switch, from this server.
    Switch(usize),
    /// A server.
    Server(usize),
}

/// Frames on their way.
#[derive(Debug, Default)]
pub(crate) struct Links {
    options: LinkOptions,
    /// Frames by the time of their arrival and a number.
    frames: BTreeMap<(Nanos, u64), (End, Frame)>,
    /// Arrival of the last frame at each end.
    last: BTreeMap<End, Nanos>,
    next: u64,
    random: u64,
    lost: u64,
}

impl Links {
    pub(crate) fn new(options: LinkOptions) -> Links {
        Links {
            options,
            random: options.seed,
            ..Links::default()
        }
    }

    /// Returns a random number (SplitMix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Sends a frame, or loses it.
    pub(crate) fn send(&mut self, to: End, frame: Frame, now: Nanos) {
        let LinkOptions {
            max_delay,
            loss_one_in,
            ..
        } = self.options;
        if loss_one_in > 0 && self.random().is_multiple_of(loss_one_in) {
            self.lost += 1;
            return;
        }
        let delay = match max_delay.0 {
            0 => 0,
            max => self.random() % (max + 1),
        };
        let last = self.last.entry(to).or_default();
        let arrival = Nanos(now.0 + delay).max(*last);
        *last = arrival;
        self.frames.insert((arrival, self.next), (to, frame));
        self.next += 1;
    }

    /// Takes the first frame that arrives until this time.
    pub(crate) fn take(&mut self, until: Nanos) -> Option<(Nanos, End, Frame)> {
        let first = self.frames.first_entry()?;
        let (arrival, _) = *first.key();
        if arrival > until {
            return None;
        }
        let (end, frame) = first.remove();
        Some((arrival, end, frame))
    }

    /// Returns the time of the next arrival.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.frames.keys().next().map(|(arrival, _)| *arrival)
    }

    /// Returns the number of frames on their way.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of lost frames.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

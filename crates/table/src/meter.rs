//! Meters: three colour markers, of two rates (RFC 2698) or of one (RFC 2697), indirect ([`MeterArray`]) and direct ([`MeterCell`]
//! of an entry).
//!
//! A meter has two token buckets, and counts what it marks with each colour. Time is an input: tokens are computed from the time of the packet,
//! never from a clock of this room. A meter that is not configured marks green.

use crate::counter::CounterReading;
use portable_atomic::AtomicU128;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// How a meter marks a packet, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Color {
    /// Within the committed rate.
    #[default]
    Green,
    /// Beyond the committed rate, within the peak rate.
    Yellow,
    /// Beyond the peak rate.
    Red,
}

/// What a meter meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterUnit {
    /// A packet takes one token.
    Packets,
    /// A packet takes a token a byte.
    Bytes,
}

/// Rates in packets or bytes a second, bursts in packets or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterConfig {
    /// Two rates (RFC 2698): beyond the committed rate packets are yellow, beyond the peak rate red.
    TwoRate {
        /// Committed information rate; at most the peak rate.
        cir: u64,
        /// Committed burst: the size of the committed bucket.
        cburst: u64,
        /// Peak information rate.
        pir: u64,
        /// Peak burst: the size of the peak bucket.
        pburst: u64,
    },
    /// One rate (RFC 2697): what a full committed bucket cannot take fills the excess bucket, from which yellow packets take. Without
    /// an excess burst there are two colours: green and red.
    SingleRate {
        /// Committed information rate.
        cir: u64,
        /// Committed burst: the size of the committed bucket.
        cburst: u64,
        /// Excess burst: the size of the excess bucket.
        eburst: u64,
    },
}

impl fmt::Display for MeterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoRate {
                cir,
                cburst,
                pir,
                pburst,
            } => write!(f, "cir {cir} cburst {cburst} pir {pir} pburst {pburst}"),
            Self::SingleRate {
                cir,
                cburst,
                eburst,
            } => write!(f, "cir {cir} cburst {cburst} eburst {eburst}"),
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterConfigError {
    /// The committed rate is above the peak rate.
    CommittedAbovePeak {
        /// The committed rate.
        cir: u64,
        /// The peak rate.
        pir: u64,
    },
    /// There is no meter with this index.
    NoSuchMeter {
        /// The index.
        index: u64,
        /// How many meters there are.
        size: usize,
    },
}

impl fmt::Display for MeterConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommittedAbovePeak { cir, pir } => {
                write!(f, "the committed rate {cir} is above the peak rate {pir}")
            }
            Self::NoSuchMeter { index, size } => {
                write!(f, "meter {index} does not exist: there are {size}")
            }
        }
    }
}

impl std::error::Error for MeterConfigError {}

/// What a meter has marked with each colour, whatever it meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColorCounts {
    /// What was within the committed rate.
    pub green: CounterReading,
    /// What was beyond it, within the peak rate.
    pub yellow: CounterReading,
    /// The rest.
    pub red: CounterReading,
}

/// What was marked with one colour. Both numbers wrap at 64 bits; a reading may be between them.
#[derive(Debug, Default)]
struct Marked {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Marked {
    #[inline]
    fn add(&self, bytes: u64) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> CounterReading {
        CounterReading {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    fn write(&self, reading: CounterReading) {
        self.packets.store(reading.packets, Relaxed);
        self.bytes.store(reading.bytes, Relaxed);
    }
}

/// The largest number of tokens in a bucket; more bits are for marks.
const MOST: u64 = u64::MAX >> 1;

/// [`Bucket::level`] of a bucket that is not configured.
const UNCONFIGURED: u128 = u128::MAX;

/// Set in a level that says "full, whenever the next packet comes".
const FULL: u128 = 1 << 127;

/// A token bucket, from which packets take without a lock.
#[derive(Debug)]
struct Bucket {
    rate: AtomicU64,
    burst: AtomicU64,
    /// How many tokens there were (upper half) at the time of the last packet that took some (lower half), or a mark.
    level: AtomicU128,
}

/// What became of a try to take tokens.
struct Taken {
    is_enough: bool,
    /// Tokens that had come since the last time and for which there was no room.
    overflow: u64,
}

impl Bucket {
    fn new() -> Self {
        Self {
            rate: 0.into(),
            burst: 0.into(),
            level: AtomicU128::new(UNCONFIGURED),
        }
    }

    /// Takes `tokens` at `now_ns`, all or none.
    ///
    /// A retry means that another packet took tokens meanwhile, so someone always gets on.
    #[inline]
    fn take(&self, tokens: u64, now_ns: u64) -> Taken {
        loop {
            let level = self.level.load(SeqCst);
            if level == UNCONFIGURED {
                return Taken {
                    is_enough: true,
                    overflow: 0,
                };
            }
            let burst = self.burst.load(SeqCst).min(MOST);
            let (held, last) = if level & FULL != 0 {
                (u128::from(burst), now_ns)
            } else {
                // Time that goes back brings no tokens, and takes none.
                let last = level as u64;
                let now = now_ns.max(last);
                let rate = self.rate.load(SeqCst);
                let came = generated(now, rate) - generated(last, rate);
                ((level >> 64) + came, now)
            };
            let there = held.min(u128::from(burst)) as u64;
            let overflow = (held - u128::from(there)).min(u128::from(MOST)) as u64;
            let left = there.checked_sub(tokens);
            if left.is_none() && overflow == 0 && level & FULL == 0 {
                return Taken {
                    is_enough: false,
                    overflow,
                };
            }
            let next = u128::from(left.unwrap_or(there)) << 64 | u128::from(last);
            let taken = self.level.compare_exchange(level, next, SeqCst, SeqCst);
            if taken.is_ok() {
                return Taken {
                    is_enough: left.is_some(),
                    overflow,
                };
            }
        }
    }

    /// Puts tokens in, as far as there is room.
    #[inline]
    fn put(&self, tokens: u64) {
        let _ = self.level.fetch_update(SeqCst, SeqCst, |level| {
            let burst = self.burst.load(SeqCst).min(MOST);
            let there = (level >> 64) as u64;
            let more = there.saturating_add(tokens).min(burst);
            (level & FULL == 0 && more > there)
                .then(|| u128::from(more) << 64 | u128::from(level as u64))
        });
    }

    /// Sets rate and burst, and fills the bucket.
    ///
    /// `generation` is new for every call. It makes "full" a number that was never there before, on
    /// both sides of the change: a packet that computed with an old rate, or with half of a change,
    /// then fails to exchange, or is overwritten.
    fn configure(&self, rate: u64, burst: u64, generation: u64) {
        let full = |step: u128| FULL | u128::from(generation) << 1 | step;
        self.level.store(full(0), SeqCst);
        self.rate.store(rate, SeqCst);
        self.burst.store(burst, SeqCst);
        self.level.store(full(1), SeqCst);
    }
}

/// How many tokens a rate has made by a time, rounded down: `now_ns * rate / 10^9`, without a division of 128 bits.
///
/// Levels move by differences of this, so that no fraction of a token is ever lost.
#[inline]
fn generated(now_ns: u64, rate: u64) -> u128 {
    const SECOND: u64 = 1_000_000_000;
    let (seconds, nanos) = (now_ns / SECOND, now_ns % SECOND);
    let (a_nano, in_a_second) = (rate / SECOND, rate % SECOND);
    let whole = u128::from(seconds) * u128::from(rate) + u128::from(nanos) * u128::from(a_nano);
    whole + u128::from(nanos * in_a_second / SECOND)
}

/// One meter, with what it meters.
#[derive(Debug)]
pub struct MeterCell {
    unit: MeterUnit,
    meter: Meter,
}

#[derive(Debug)]
struct Meter {
    committed: Bucket,
    /// The peak bucket, or the excess bucket of a single rate.
    beyond: Bucket,
    is_single_rate: AtomicBool,
    generation: AtomicU64,
    /// By colour, green first.
    marked: [Marked; 3],
}

impl Meter {
    fn new() -> Self {
        Self {
            committed: Bucket::new(),
            beyond: Bucket::new(),
            is_single_rate: false.into(),
            generation: 0.into(),
            marked: Default::default(),
        }
    }

    #[inline]
    fn execute(&self, unit: MeterUnit, pre_color: Color, bytes: u64, now_ns: u64) -> Color {
        let tokens = match unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bytes,
        };
        let color = if self.is_single_rate.load(SeqCst) {
            self.single_rate(pre_color, tokens, now_ns)
        } else {
            self.two_rate(pre_color, tokens, now_ns)
        };
        self.marked[color as usize].add(bytes);
        color
    }

    /// RFC 2698, section 3: the peak bucket first, and the committed one only if that had enough.
    #[inline]
    fn two_rate(&self, pre_color: Color, tokens: u64, now_ns: u64) -> Color {
        if pre_color == Color::Red || !self.beyond.take(tokens, now_ns).is_enough {
            Color::Red
        } else if pre_color == Color::Yellow || !self.committed.take(tokens, now_ns).is_enough {
            Color::Yellow
        } else {
            Color::Green
        }
    }

    /// RFC 2697, section 3: the committed bucket first; what it could not hold goes to the excess bucket.
    #[inline]
    fn single_rate(&self, pre_color: Color, tokens: u64, now_ns: u64) -> Color {
        let is_green = pre_color == Color::Green;
        let committed = self
            .committed
            .take(if is_green { tokens } else { 0 }, now_ns);
        if committed.overflow > 0 {
            self.beyond.put(committed.overflow);
        }
        if is_green && committed.is_enough {
            Color::Green
        } else if pre_color != Color::Red && self.beyond.take(tokens, now_ns).is_enough {
            Color::Yellow
        } else {
            Color::Red
        }
    }

    fn configure(&self, config: MeterConfig) -> Result<(), MeterConfigError> {
        let (is_single_rate, cir, cburst, beyond) = match config {
            MeterConfig::TwoRate { cir, pir, .. } if cir > pir => {
                return Err(MeterConfigError::CommittedAbovePeak { cir, pir });
            }
            MeterConfig::TwoRate {
                cir,
                cburst,
                pir,
                pburst,
            } => (false, cir, cburst, (pir, pburst)),
            // The excess bucket gets nothing but what the committed one leaves.
            MeterConfig::SingleRate {
                cir,
                cburst,
                eburst,
            } => (true, cir, cburst, (0, eburst)),
        };
        let generation = self.generation.fetch_add(1, SeqCst);
        self.is_single_rate.store(is_single_rate, SeqCst);
        self.beyond.configure(beyond.0, beyond.1, generation);
        self.committed.configure(cir, cburst, generation);
        Ok(())
    }

    fn config(&self) -> Option<MeterConfig> {
        if self.committed.level.load(SeqCst) == UNCONFIGURED {
            return None;
        }
        let cir = self.committed.rate.load(SeqCst);
        let cburst = self.committed.burst.load(SeqCst);
        let burst = self.beyond.burst.load(SeqCst);
        Some(if self.is_single_rate.load(SeqCst) {
            MeterConfig::SingleRate {
                cir,
                cburst,
                eburst: burst,
            }
        } else {
            MeterConfig::TwoRate {
                cir,
                cburst,
                pir: self.beyond.rate.load(SeqCst),
                pburst: burst,
            }
        })
    }

    fn reset(&self) {
        self.beyond.level.store(UNCONFIGURED, SeqCst);
        self.committed.level.store(UNCONFIGURED, SeqCst);
    }

    fn counts(&self) -> ColorCounts {
        let [green, yellow, red] = &self.marked;
        ColorCounts {
            green: green.read(),
            yellow: yellow.read(),
            red: red.read(),
        }
    }

    fn write_counts(&self, counts: ColorCounts) {
        let readings = [counts.green, counts.yellow, counts.red];
        for (marked, reading) in self.marked.iter().zip(readings) {
            marked.write(reading);
        }
    }
}

impl MeterCell {
    /// A meter that is not configured.
    pub fn new(unit: MeterUnit) -> Self {
        Self {
            unit,
            meter: Meter::new(),
        }
    }

    /// Meters a packet of `bytes` bytes that arrived at `now_ns`. `pre_color` is how it was marked
    /// before (colour-aware), or [`Color::Green`] (colour-blind).
    #[inline]
    pub fn execute(&self, pre_color: Color, bytes: u64, now_ns: u64) -> Color {
        self.meter.execute(self.unit, pre_color, bytes, now_ns)
    }

    /// Sets rates and bursts, and fills both buckets.
    pub fn configure(&self, config: MeterConfig) -> Result<(), MeterConfigError> {
        self.meter.configure(config)
    }

    /// The configuration, if there is one.
    pub fn config(&self) -> Option<MeterConfig> {
        self.meter.config()
    }

    /// Takes the configuration away: all is green.
    pub fn reset(&self) {
        self.meter.reset();
    }

    /// What was marked with each colour.
    pub fn counts(&self) -> ColorCounts {
        self.meter.counts()
    }

    /// Sets what was marked with each colour.
    pub fn write_counts(&self, counts: ColorCounts) {
        self.meter.write_counts(counts);
    }
}

/// Meters that a program finds by index.
#[derive(Debug)]
pub struct MeterArray {
    unit: MeterUnit,
    meters: Box<[Meter]>,
}

impl MeterArray {
    /// `size` meters that are not configured.
    pub fn new(unit: MeterUnit, size: usize) -> Self {
        Self {
            unit,
            meters: (0..size).map(|_| Meter::new()).collect(),
        }
    }

    /// What they meter.
    pub fn unit(&self) -> MeterUnit {
        self.unit
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// Meters a packet with meter `index`, as [`MeterCell::execute`]; `None` beyond the end.
    #[inline]
    pub fn execute(&self, index: u64, pre_color: Color, bytes: u64, now_ns: u64) -> Option<Color> {
        let meter = self.meter(index)?;
        Some(meter.execute(self.unit, pre_color, bytes, now_ns))
    }

    /// Sets rates and bursts of meter `index`, and fills its buckets.
    pub fn configure(&self, index: u64, config: MeterConfig) -> Result<(), MeterConfigError> {
        let size = self.meters.len();
        self.meter(index)
            .ok_or(MeterConfigError::NoSuchMeter { index, size })?
            .configure(config)
    }

    /// The configuration of meter `index`, if there is one.
    pub fn config(&self, index: u64) -> Option<MeterConfig> {
        self.meter(index)?.config()
    }

    /// Takes the configuration of meter `index` away; `None` beyond the end.
    pub fn reset(&self, index: u64) -> Option<()> {
        self.meter(index).map(Meter::reset)
    }

    /// What meter `index` has marked with each colour; `None` beyond the end.
    pub fn counts(&self, index: u64) -> Option<ColorCounts> {
        self.meter(index).map(Meter::counts)
    }

    /// Sets what meter `index` has marked with each colour; `None` beyond the end.
    pub fn write_counts(&self, index: u64, counts: ColorCounts) -> Option<()> {
        self.meter(index).map(|meter| meter.write_counts(counts))
    }

    #[inline]
    fn meter(&self, index: u64) -> Option<&Meter> {
        self.meters.get(usize::try_from(index).ok()?)
    }
}

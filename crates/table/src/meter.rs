//! Meters: three-colour markers with two rates (RFC 2698) or a single rate (RFC 2697). They are
//! indirect ([`MeterArray`]) or direct ([`MeterCell`] of an entry).
//!
//! A meter has two token buckets and counts the packets that it marks with each colour. Time is an
//! input: tokens are computed from the packet's time, and this crate reads no clock. A meter that
//! is not configured marks all packets green.

use crate::counter::CounterReading;
use portable_atomic::AtomicU128;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Colour of a packet, best first.
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

/// Unit in which a meter counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterUnit {
    /// Each packet takes one token.
    Packets,
    /// Each packet takes one token for each byte.
    Bytes,
}

/// Configuration of a meter. Rates are in packets or bytes per second, bursts in packets or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterConfig {
    /// Two rates (RFC 2698). Packets above the committed rate are yellow, above the peak rate red.
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
    /// One rate (RFC 2697). Tokens that do not fit into the committed bucket fill the excess
    /// bucket, from which yellow packets take. Without an excess burst there are two colours: green
    /// and red.
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

/// Error of a rejected configuration.
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
        /// Number of meters.
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

/// Packets and bytes that a meter has marked with each colour, whatever its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColorCounts {
    /// Traffic within the committed rate.
    pub green: CounterReading,
    /// Traffic above the committed rate, within the peak rate or the excess burst.
    pub yellow: CounterReading,
    /// All other traffic.
    pub red: CounterReading,
}

/// Counter of one colour. Both numbers wrap at 64 bits. They are read one after the other, so a
/// reading may include only one of them for the latest packet.
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

/// Maximum number of tokens in a bucket. The bit above is a flag.
const MAX: u64 = u64::MAX >> 1;

/// [`Bucket::level`] of a bucket that is not configured.
const UNCONFIGURED: u128 = u128::MAX;

/// Flag in [`Bucket::level`]: the bucket is full at the time of the next packet, whenever that is.
const FULL: u128 = 1 << 127;

/// Token bucket without locks.
#[derive(Debug)]
struct Bucket {
    rate: AtomicU64,
    burst: AtomicU64,
    /// Tokens (upper half) at the time of the last update (lower half), or a special value:
    /// [`UNCONFIGURED`], or one with [`FULL`] set.
    level: AtomicU128,
}

/// Result of taking tokens.
struct Taken {
    is_enough: bool,
    /// Tokens that were generated since the last update but did not fit.
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
    /// Lock-free: a retry means that another packet has changed the bucket.
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
            let burst = self.burst.load(SeqCst).min(MAX);
            let (held, last) = if level & FULL != 0 {
                (u128::from(burst), now_ns)
            } else {
                // Time that goes backwards adds no tokens and removes none.
                let last = level as u64;
                let now = now_ns.max(last);
                let rate = self.rate.load(SeqCst);
                let came = generated(now, rate) - generated(last, rate);
                ((level >> 64) + came, now)
            };
            let there = held.min(u128::from(burst)) as u64;
            let overflow = (held - u128::from(there)).min(u128::from(MAX)) as u64;
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

    /// Adds tokens, as far as they fit.
    #[inline]
    fn put(&self, tokens: u64) {
        let _ = self.level.fetch_update(SeqCst, SeqCst, |level| {
            let burst = self.burst.load(SeqCst).min(MAX);
            let there = (level >> 64) as u64;
            let more = there.saturating_add(tokens).min(burst);
            (level & FULL == 0 && more > there)
                .then(|| u128::from(more) << 64 | u128::from(level as u64))
        });
    }

    /// Sets rate and burst, and fills the bucket.
    ///
    /// `generation` must be different in each call. It makes the "full" level a value that was
    /// never used before, both before and after the change. A packet that computed with an old
    /// rate, or with half of a change, then fails its compare-and-exchange, or its result is
    /// overwritten.
    fn configure(&self, rate: u64, burst: u64, generation: u64) {
        let full = |step: u128| FULL | u128::from(generation) << 1 | step;
        self.level.store(full(0), SeqCst);
        self.rate.store(rate, SeqCst);
        self.burst.store(burst, SeqCst);
        self.level.store(full(1), SeqCst);
    }
}

/// Returns the number of tokens that a rate has generated by a time, rounded down: `now_ns * rate /
/// 10^9`, without a 128-bit division.
///
/// Levels change by differences of this number, so that no fraction of a token is lost.
#[inline]
fn generated(now_ns: u64, rate: u64) -> u128 {
    const SECOND: u64 = 1_000_000_000;
    let (seconds, nanos) = (now_ns / SECOND, now_ns % SECOND);
    let (a_nano, in_a_second) = (rate / SECOND, rate % SECOND);
    let whole = u128::from(seconds) * u128::from(rate) + u128::from(nanos) * u128::from(a_nano);
    whole + u128::from(nanos * in_a_second / SECOND)
}

/// One meter with its unit.
#[derive(Debug)]
pub struct MeterCell {
    unit: MeterUnit,
    meter: Meter,
}

#[derive(Debug)]
struct Meter {
    committed: Bucket,
    /// The peak bucket, or the excess bucket of a single-rate meter.
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

    /// RFC 2698, section 3: the peak bucket first, then the committed bucket if the first had
    /// enough tokens.
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

    /// RFC 2697, section 3: the committed bucket first. Its overflow goes to the excess bucket.
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
            // The excess bucket has no rate: it gets only the overflow of the committed bucket.
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
    /// Creates a meter that is not configured.
    pub fn new(unit: MeterUnit) -> Self {
        Self {
            unit,
            meter: Meter::new(),
        }
    }

    /// Meters a packet of `bytes` bytes that arrived at `now_ns`. `pre_color` is its colour before
    /// (colour-aware mode), or [`Color::Green`] (colour-blind mode).
    #[inline]
    pub fn execute(&self, pre_color: Color, bytes: u64, now_ns: u64) -> Color {
        self.meter.execute(self.unit, pre_color, bytes, now_ns)
    }

    /// Sets rates and bursts, and fills both buckets.
    pub fn configure(&self, config: MeterConfig) -> Result<(), MeterConfigError> {
        self.meter.configure(config)
    }

    /// Returns the configuration, if there is one.
    pub fn config(&self) -> Option<MeterConfig> {
        self.meter.config()
    }

    /// Removes the configuration: all packets are marked green.
    pub fn reset(&self) {
        self.meter.reset();
    }

    /// Returns the counts of each colour.
    pub fn counts(&self) -> ColorCounts {
        self.meter.counts()
    }

    /// Sets the counts of each colour.
    pub fn write_counts(&self, counts: ColorCounts) {
        self.meter.write_counts(counts);
    }
}

/// Array of meters that a program accesses by index.
#[derive(Debug)]
pub struct MeterArray {
    unit: MeterUnit,
    meters: Box<[Meter]>,
}

impl MeterArray {
    /// Creates `size` meters that are not configured.
    pub fn new(unit: MeterUnit, size: usize) -> Self {
        Self {
            unit,
            meters: (0..size).map(|_| Meter::new()).collect(),
        }
    }

    /// Returns the unit of the meters.
    pub fn unit(&self) -> MeterUnit {
        self.unit
    }

    /// Returns the number of meters.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// Meters a packet with meter `index`, like [`MeterCell::execute`]. Returns `None` if there is
    /// no such meter.
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

    /// Returns the configuration of meter `index`, if there is one.
    pub fn config(&self, index: u64) -> Option<MeterConfig> {
        self.meter(index)?.config()
    }

    /// Removes the configuration of meter `index`. Returns `None` if there is no such meter.
    pub fn reset(&self, index: u64) -> Option<()> {
        self.meter(index).map(Meter::reset)
    }

    /// Returns the counts of each colour of meter `index`; `None` if there is no such meter.
    pub fn counts(&self, index: u64) -> Option<ColorCounts> {
        self.meter(index).map(Meter::counts)
    }

    /// Sets the counts of each colour of meter `index`. Returns `None` if there is no such meter.
    pub fn write_counts(&self, index: u64, counts: ColorCounts) -> Option<()> {
        self.meter(index).map(|meter| meter.write_counts(counts))
    }

    #[inline]
    fn meter(&self, index: u64) -> Option<&Meter> {
        self.meters.get(usize::try_from(index).ok()?)
    }
}

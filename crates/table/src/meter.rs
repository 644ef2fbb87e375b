//! Meters: the two rate three colour marker of RFC 2698, indirect ([`MeterArray`]) and direct
//! ([`MeterCell`] of an entry).
//!
//! A meter has two token buckets, peak and committed. Time is an input: tokens are computed from the
//! time of the packet, never from a clock of this room. A meter that is not configured marks green.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

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
pub struct MeterConfig {
    /// Committed information rate; at most the peak rate.
    pub cir: u64,
    /// Committed burst: the size of the committed bucket.
    pub cburst: u64,
    /// Peak information rate.
    pub pir: u64,
    /// Peak burst: the size of the peak bucket.
    pub pburst: u64,
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

/// The largest number of tokens; keeps all sums inside of `i64`.
const MOST: i64 = i64::MAX / 4;

/// [`Bucket::spent`] of a bucket that is not configured.
const UNCONFIGURED: i64 = i64::MAX;

/// A token bucket whose whole state is one number, so that packets take tokens without a lock.
///
/// By time `t` the rate has generated `g(t)` tokens since time 0, rounded down. `spent` is where the
/// bucket is empty on that line: at `t` it holds `min(burst, g(t) - spent)`.
#[derive(Debug)]
struct Bucket {
    rate: AtomicU64,
    burst: AtomicU64,
    spent: AtomicI64,
}

impl Bucket {
    fn new() -> Self {
        Self {
            rate: 0.into(),
            burst: 0.into(),
            spent: UNCONFIGURED.into(),
        }
    }

    /// Takes `tokens` at `now_ns`, all or none. Says whether there were enough.
    ///
    /// A retry means that another packet took tokens meanwhile, so someone always gets on.
    #[inline]
    fn take(&self, tokens: i64, now_ns: u64) -> bool {
        loop {
            let spent = self.spent.load(SeqCst);
            if spent == UNCONFIGURED {
                return true;
            }
            let generated = generated(now_ns, self.rate.load(SeqCst));
            let burst = bounded(u128::from(self.burst.load(SeqCst)));
            let empty_at = spent.max(generated - burst);
            if generated - empty_at < tokens {
                return false;
            }
            let taken = self
                .spent
                .compare_exchange(spent, empty_at + tokens, SeqCst, SeqCst);
            if taken.is_ok() {
                return true;
            }
        }
    }

    /// Sets rate and burst, and fills the bucket.
    ///
    /// `generation` is new for every call. It makes "full" a number that was never there before, on
    /// both sides of the change: a packet that computed with an old rate, or with half of a change,
    /// then fails to exchange, or is overwritten.
    fn configure(&self, rate: u64, burst: u64, generation: u32) {
        let full = |step: i64| i64::MIN + i64::from(generation) * 2 + step;
        self.spent.store(full(0), SeqCst);
        self.rate.store(rate, SeqCst);
        self.burst.store(burst, SeqCst);
        self.spent.store(full(1), SeqCst);
    }
}

fn bounded(tokens: u128) -> i64 {
    tokens.min(MOST as u128) as i64
}

#[inline]
fn generated(now_ns: u64, rate: u64) -> i64 {
    bounded(u128::from(now_ns) * u128::from(rate) / 1_000_000_000)
}

/// One meter.
#[derive(Debug)]
pub struct MeterCell {
    unit: MeterUnit,
    buckets: Buckets,
}

#[derive(Debug)]
struct Buckets {
    peak: Bucket,
    committed: Bucket,
    generation: AtomicU64,
}

impl Buckets {
    fn new() -> Self {
        Self {
            peak: Bucket::new(),
            committed: Bucket::new(),
            generation: 0.into(),
        }
    }

    /// RFC 2698, section 3: the peak bucket first, and the committed one only if that had enough.
    #[inline]
    fn execute(&self, unit: MeterUnit, pre_color: Color, bytes: u64, now_ns: u64) -> Color {
        let tokens = match unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bounded(u128::from(bytes)),
        };
        if pre_color == Color::Red || !self.peak.take(tokens, now_ns) {
            Color::Red
        } else if pre_color == Color::Yellow || !self.committed.take(tokens, now_ns) {
            Color::Yellow
        } else {
            Color::Green
        }
    }

    fn configure(&self, config: MeterConfig) -> Result<(), MeterConfigError> {
        let MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
        } = config;
        if cir > pir {
            return Err(MeterConfigError::CommittedAbovePeak { cir, pir });
        }
        let generation = self.generation.fetch_add(1, SeqCst) as u32;
        self.peak.configure(pir, pburst, generation);
        self.committed.configure(cir, cburst, generation);
        Ok(())
    }

    fn config(&self) -> Option<MeterConfig> {
        (self.peak.spent.load(SeqCst) != UNCONFIGURED).then(|| MeterConfig {
            cir: self.committed.rate.load(SeqCst),
            cburst: self.committed.burst.load(SeqCst),
            pir: self.peak.rate.load(SeqCst),
            pburst: self.peak.burst.load(SeqCst),
        })
    }

    fn reset(&self) {
        self.peak.spent.store(UNCONFIGURED, SeqCst);
        self.committed.spent.store(UNCONFIGURED, SeqCst);
    }
}

impl MeterCell {
    /// A meter that is not configured.
    pub fn new(unit: MeterUnit) -> Self {
        Self {
            unit,
            buckets: Buckets::new(),
        }
    }

    /// Meters a packet of `bytes` bytes that arrived at `now_ns`. `pre_color` is how it was marked
    /// before (colour-aware), or [`Color::Green`] (colour-blind).
    #[inline]
    pub fn execute(&self, pre_color: Color, bytes: u64, now_ns: u64) -> Color {
        self.buckets.execute(self.unit, pre_color, bytes, now_ns)
    }

    /// Sets rates and bursts, and fills both buckets.
    pub fn configure(&self, config: MeterConfig) -> Result<(), MeterConfigError> {
        self.buckets.configure(config)
    }

    /// The configuration, if there is one.
    pub fn config(&self) -> Option<MeterConfig> {
        self.buckets.config()
    }

    /// Takes the configuration away: all is green.
    pub fn reset(&self) {
        self.buckets.reset();
    }
}

/// Meters that a program finds by index.
#[derive(Debug)]
pub struct MeterArray {
    unit: MeterUnit,
    meters: Box<[Buckets]>,
}

impl MeterArray {
    /// `size` meters that are not configured.
    pub fn new(unit: MeterUnit, size: usize) -> Self {
        Self {
            unit,
            meters: (0..size).map(|_| Buckets::new()).collect(),
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
        self.meter(index).map(Buckets::reset)
    }

    #[inline]
    fn meter(&self, index: u64) -> Option<&Buckets> {
        self.meters.get(usize::try_from(index).ok()?)
    }
}

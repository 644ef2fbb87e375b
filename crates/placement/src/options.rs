//! Policies and parameters of a placement.

use std::fmt;
use std::time::Duration;

/// Share of /24 prefixes among the announced IPv4 prefixes (CLIP, section VII-A).
pub const SHARE_OF_24: f64 = 0.593;

/// Maximum number of rows of a sketch.
pub const MAX_ROWS: u32 = 8;

/// Maximum number of counters of a sketch.
pub const MAX_CELLS: u64 = 1 << 28;

/// Selection of the entries that the switch holds (CLIP, section VII-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// No entry: all packets fly (BL).
    None,
    /// Random entries (R).
    Random,
    /// The top entries by the counts of all flows, by a heap (H).
    Heap,
    /// The top entries of those above a threshold of the switch's sketch (T).
    #[default]
    Threshold,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 4] = [
        Policy::None,
        Policy::Random,
        Policy::Heap,
        Policy::Threshold,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Random => "random",
            Policy::Heap => "heap",
            Policy::Threshold => "threshold",
        }
    }

    /// Returns the policy of a name.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// Size of a count-min sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchSize {
    /// Counters of a row.
    pub columns: u32,
    /// Number of rows, each with a hash function of its own.
    pub rows: u32,
}

/// Parameters of a placement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementOptions {
    /// Selection of entries.
    pub policy: Policy,
    /// Number of entries in the switch at most (N), covers among them.
    pub top: u64,
    /// Time between two decisions. The caller has the clock.
    pub window: Duration,
    /// Fraction of `top` by which the number of candidates may differ from it before `k` changes.
    pub epsilon: f64,
    /// Size of the switch's sketch.
    pub sketch: SketchSize,
    /// First factor of the threshold.
    pub k: f64,
    /// Factor of the threshold for prefixes: the share of the most frequent prefix length.
    pub share: f64,
    /// Windows without a packet after which an entry is evicted.
    pub age: u32,
    /// Fraction by which a newcomer must exceed its victim.
    pub margin: f64,
    /// Capacity that the end of a window leaves free for covers of new routes.
    pub reserve: u64,
    /// Seed of random choices.
    pub seed: u64,
}

impl Default for PlacementOptions {
    fn default() -> Self {
        PlacementOptions {
            policy: Policy::default(),
            top: 1000,
            window: Duration::from_secs(1),
            epsilon: 0.15,
            sketch: SketchSize {
                columns: 1024,
                rows: 2,
            },
            k: 2.0,
            share: SHARE_OF_24,
            age: 10,
            margin: 0.1,
            reserve: 0,
            seed: 1,
        }
    }
}

/// Error in [`PlacementOptions`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionsError {
    /// A number is outside of its range.
    Range {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// The sketch is empty or too large.
    Sketch(SketchSize),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::Range {
                option,
                value,
                allowed,
            } => write!(f, "{option} is {value}: write a number {allowed}"),
            OptionsError::Sketch(size) => write!(
                f,
                "sketch of {} columns and {} rows: write 1 to {MAX_ROWS} rows, and at least one \
                 column but at most {MAX_CELLS} counters",
                size.columns, size.rows
            ),
        }
    }
}

impl std::error::Error for OptionsError {}

impl PlacementOptions {
    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// A parameter is outside of its range.
    pub fn check(&self) -> Result<(), OptionsError> {
        let range = |option, value: f64, is_allowed: bool, allowed| {
            let error = OptionsError::Range {
                option,
                value,
                allowed,
            };
            (value.is_finite() && is_allowed).then_some(()).ok_or(error)
        };
        let is_open_unit = |value: f64| value > 0.0 && value < 1.0;
        range(
            "epsilon",
            self.epsilon,
            is_open_unit(self.epsilon),
            "above 0 and below 1",
        )?;
        range("k", self.k, self.k > 0.0, "above 0")?;
        let is_share = self.share > 0.0 && self.share <= 1.0;
        range("share", self.share, is_share, "above 0 and at most 1")?;
        range("margin", self.margin, self.margin >= 0.0, "of at least 0")?;
        let age = f64::from(self.age);
        range("age", age, self.age > 0, "of at least 1")?;
        let cells = u64::from(self.sketch.columns) * u64::from(self.sketch.rows);
        if cells == 0 || cells > MAX_CELLS || self.sketch.rows > MAX_ROWS {
            return Err(OptionsError::Sketch(self.sketch));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names() {
        for policy in Policy::ALL {
            assert_eq!(Policy::named(policy.name()), Some(policy));
        }
        assert_eq!(Policy::named("hot"), None);
    }

    #[test]
    fn parameters_outside_of_their_ranges_are_refused() {
        let check = |change: fn(&mut PlacementOptions), expected: &str| {
            let mut options = PlacementOptions::default();
            change(&mut options);
            let found = options.check().map_err(|error| error.to_string());
            assert_eq!(found.err().unwrap_or_default(), expected);
        };
        check(|_| (), "");
        check(
            |o| o.epsilon = 0.0,
            "epsilon is 0: write a number above 0 and below 1",
        );
        check(|o| o.k = f64::NAN, "k is NaN: write a number above 0");
        check(
            |o| o.share = 1.5,
            "share is 1.5: write a number above 0 and at most 1",
        );
        check(
            |o| o.margin = -1.0,
            "margin is -1: write a number of at least 0",
        );
        check(|o| o.age = 0, "age is 0: write a number of at least 1");
        check(
            |o| o.sketch.rows = 9,
            "sketch of 1024 columns and 9 rows: write 1 to 8 rows, and at least one column but \
             at most 268435456 counters",
        );
    }
}

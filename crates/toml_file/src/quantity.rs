//! Parsing of times, rates and sizes with units.

/// Names of units, each with its factor to the base unit.
type Units = &'static [(&'static str, u64)];

/// Units of time. Base unit: nanosecond.
const TIMES: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Units of rate. Base unit: bit per second.
const RATES: Units = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
];

/// Units of size. Base unit: byte.
const SIZES: Units = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Kind of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time, in nanoseconds.
    Time,
    /// A rate, in bits per second.
    Rate,
    /// A size, in bytes.
    Size,
}

impl Quantity {
    fn units(self) -> Units {
        match self {
            Quantity::Time => TIMES,
            Quantity::Rate => RATES,
            Quantity::Size => SIZES,
        }
    }

    /// Returns a hint on the syntax.
    pub fn form(self) -> &'static str {
        match self {
            Quantity::Time => "write a time with its unit (ns, us, ms, s), as in \"10 us\"",
            Quantity::Rate => {
                "write a rate with its unit (bit/s, kbit/s, Mbit/s, Gbit/s), as in \"1 Gbit/s\""
            }
            Quantity::Size => "write a size with its unit (B, KB, MB, GB), as in \"100 MB\"",
        }
    }

    /// Parses a quantity to nanoseconds, bits per second or bytes. Fractions of the base unit are
    /// truncated.
    pub fn parse(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (_, one) = self.units().iter().find(|(name, _)| *name == unit.trim())?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.parse().ok()?;
        whole.checked_mul(*one)?.checked_add(part(fraction, *one)?)
    }
}

/// Converts the decimal digits after the point to the base unit.
fn part(decimals: &str, one: u64) -> Option<u64> {
    let mut sum = 0;
    let mut place = one;
    for digit in decimals.chars() {
        place /= 10;
        sum += u64::from(digit.to_digit(10)?) * place;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_their_base_unit_and_only_with_a_unit() {
        for (kind, text, value) in [
            (Quantity::Time, "10 us", Some(10_000)),
            (Quantity::Time, "1.5ms", Some(1_500_000)),
            (Quantity::Time, "0 s", Some(0)),
            (Quantity::Time, "0.0000000001 s", Some(0)),
            (Quantity::Rate, "2.5 Gbit/s", Some(2_500_000_000)),
            (Quantity::Size, " 100 MB ", Some(100_000_000)),
            (Quantity::Time, "10", None),
            (Quantity::Time, "us", None),
            (Quantity::Time, "-1 us", None),
            (Quantity::Time, "1.2.3 us", None),
            (Quantity::Rate, "1 GB", None),
            (Quantity::Size, "99999999999999999999 B", None),
            (Quantity::Size, "99999999999999 GB", None),
        ] {
            assert_eq!(kind.parse(text), value, "{text}");
        }
    }
}

//! Formats amounts for people: counts, sizes, rates and times, with a unit that keeps them short.

use std::time::Duration;

pub use crate::count::count;

/// Formats a rate in packets per second: `950 pps`, `1.25 Mpps`.
pub fn packet_rate(packets_per_second: f64) -> String {
    scaled(packets_per_second, "pps")
}

/// Formats a rate in bits per second: `812 Mbit/s`.
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, "bit/s")
}

/// Formats a number of bytes with a decimal prefix: `64.0 MB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, "B")
}

/// Formats a short time: `85 us`, `1.25 ms`, `3.5 s`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Formats a value with a decimal prefix.
fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut value = value;
    let mut prefixes = PREFIXES.iter();
    let mut prefix = prefixes.next().unwrap_or(&"");
    // A value that would round to four digits takes the next prefix.
    while value >= 999.5 {
        let Some(next) = prefixes.next() else { break };
        prefix = next;
        value /= 1000.0;
    }
    let digits = if prefix.is_empty() {
        format!("{value:.0}")
    } else {
        three_digits(value)
    };
    format!("{digits} {prefix}{unit}")
}

fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_a_fitting_unit() {
        for (value, text) in [
            (0.0, "0 pps"),
            (999.0, "999 pps"),
            (999.6, "1.00 kpps"),
            (1_250_000.0, "1.25 Mpps"),
            (99_960.0, "100 kpps"),
            (12_340_000.0, "12.3 Mpps"),
        ] {
            assert_eq!(packet_rate(value), text);
        }
        assert_eq!(bytes(64_000_000), "64.0 MB");
        assert_eq!(bytes(60), "60 B");
        assert_eq!(bit_rate(812e6), "812 Mbit/s");
        assert_eq!(time(Duration::from_micros(85)), "85.0 us");
        assert_eq!(time(Duration::from_micros(1250)), "1.25 ms");
        assert_eq!(count(1, "packet"), "1 packet");
        assert_eq!(count(0, "packet"), "0 packets");
    }
}

//! Options of the placement of entries and of the order of packets.

use std::str::FromStr;

use clap::Args;
use packet::Nanos;
use placement::{Nesting, PlacementOptions, SketchSize};
use split::{EntryPolicy, Order, SplitPlacement, Window};

/// Options of the placement of entries.
#[derive(Args)]
pub(super) struct PlacementArgs {
    /// Entries that move to the switch: `asked` (those that packets asked for last), `none`,
    /// `random`, `heap` (the top ones by the counts of all flows) or `threshold` (the top ones
    /// above a threshold of the switch's sketch).
    #[arg(long, value_name = "POLICY", default_value = "asked", value_parser = policy)]
    policy: EntryPolicy,
    /// Order of the packets of a flow: `strict`, or `loose` (an entry works at once).
    #[arg(long, value_name = "ORDER", default_value = "strict", value_parser = order)]
    order: Order,
    /// Prefixes in the switch of which longer ones are servers' alone: `leaf` (none),
    /// `dependents` (with all longer ones) or `cover` (with entries that send to a server).
    #[arg(long, value_name = "RULE", default_value = "cover", value_parser = nesting)]
    nesting: Nesting,
    /// Entries of each table in the switch at most; without it as `@mirror(N)` says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    top: Option<u64>,
    /// Time between two decisions, such as `100ms`, or a number of packets.
    #[arg(long, value_name = "PACKETS|TIME", default_value = "1s")]
    window: WindowArg,
    /// Fraction of N by which the number of reports may differ from it before the threshold
    /// changes.
    #[arg(long, value_name = "FRACTION", default_value_t = PlacementOptions::default().epsilon)]
    epsilon: f64,
    /// Size of the sketch.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "1024x2", value_parser = sketch)]
    sketch: SketchSize,
    /// First factor of the threshold.
    #[arg(long, value_name = "FACTOR", default_value_t = PlacementOptions::default().k)]
    k: f64,
    /// Windows without a packet after which an entry leaves the switch.
    #[arg(long, value_name = "WINDOWS", default_value_t = PlacementOptions::default().age)]
    age: u32,
    /// Fraction by which a newcomer must exceed its victim.
    #[arg(long, value_name = "FRACTION", default_value_t = PlacementOptions::default().margin)]
    margin: f64,
}

impl PlacementArgs {
    /// Returns the order of packets.
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Returns the placement.
    ///
    /// # Errors
    /// A parameter is outside of its range.
    pub(super) fn placement(&self) -> Result<SplitPlacement, String> {
        let options = PlacementOptions {
            epsilon: self.epsilon,
            sketch: self.sketch,
            k: self.k,
            age: self.age,
            margin: self.margin,
            ..PlacementOptions::default()
        };
        options.check().map_err(|error| format!("--{error}"))?;
        Ok(SplitPlacement {
            policy: self.policy,
            nesting: self.nesting,
            window: self.window.0,
            top: self.top,
            options,
        })
    }
}

fn policy(text: &str) -> Result<EntryPolicy, String> {
    let names = "asked, none, random, heap or threshold";
    EntryPolicy::named(text).ok_or_else(|| format!("write {names}"))
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "strict" => Ok(Order::Strict),
        "loose" => Ok(Order::Loose),
        _ => Err("write strict or loose".to_owned()),
    }
}

fn nesting(text: &str) -> Result<Nesting, String> {
    Nesting::named(text).ok_or_else(|| "write leaf, dependents or cover".to_owned())
}

fn sketch(text: &str) -> Result<SketchSize, String> {
    let numbers = text.split_once('x').and_then(|(columns, rows)| {
        let (columns, rows) = (columns.parse().ok()?, rows.parse().ok()?);
        Some(SketchSize { columns, rows })
    });
    numbers.ok_or_else(|| "write COLUMNSxROWS, such as 1024x2".to_owned())
}

/// Length of a window: `5000`, `100ms`.
#[derive(Clone, Copy, Debug)]
struct WindowArg(Window);

impl FromStr for WindowArg {
    type Err = String;

    fn from_str(text: &str) -> Result<WindowArg, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = text[digits.len()..].trim();
        let wrong = || "write a number of packets, or a time in us, ms or s".to_owned();
        let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
        if number == 0 {
            return Err("a window has at least one packet, or some time".to_owned());
        }
        let nanos = match unit {
            "" => return Ok(WindowArg(Window::Packets(number))),
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            _ => return Err(wrong()),
        };
        let time = number.checked_mul(nanos).ok_or_else(wrong)?;
        Ok(WindowArg(Window::Time(Nanos(time))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_packets_or_a_time() {
        let check = |text: &str, expected: Option<Window>| {
            let read = text.parse::<WindowArg>().ok().map(|window| window.0);
            assert_eq!(read, expected, "{text}");
        };
        check("5000", Some(Window::Packets(5000)));
        check("100ms", Some(Window::Time(Nanos::from_millis(100))));
        check("2 s", Some(Window::Time(Nanos::from_millis(2000))));
        check("7us", Some(Window::Time(Nanos::from_micros(7))));
        for wrong in ["", "0", "ms", "5 minutes", "-1", "0s", "99999999999999999s"] {
            check(wrong, None);
        }
    }
}

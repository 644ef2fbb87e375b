//! Rule sets as text, in the filter format of ClassBench: a rule a line, the first that matches
//! wins.
//!
//! `@192.0.2.0/24 198.51.100.7/32 0 : 65535 1024 : 2047 0x06/0xFF`: source and destination prefix,
//! source and destination ports, protocol with its mask. Columns after these, flags for example,
//! are not part of the five-tuple and are left out. Empty lines and lines that begin with `#` are
//! no rules.

use std::fmt;
use std::net::Ipv4Addr;

use super::{FiveTuple, PortRange, Prefix, RuleSet};

/// Mistake in the text of a rule set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The column, in words.
    pub column: &'static str,
    /// Text in its place; empty at the end of the line.
    pub text: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, text } = self;
        write!(f, "line {line}: ")?;
        match text.is_empty() {
            true => write!(f, "the {column} is missing")?,
            false => write!(f, "`{text}` is no {column}")?,
        }
        f.write_str(
            "; a rule is for example `@192.0.2.0/24 198.51.100.7/32 0 : 65535 80 : 80 0x06/0xFF`",
        )
    }
}

impl std::error::Error for FilterError {}

impl RuleSet {
    /// Reads a rule set in the filter format of ClassBench.
    ///
    /// # Errors
    /// A line is no rule.
    pub fn read(text: &str) -> Result<Self, FilterError> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.map(|(number, line)| rule(number, line));
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

fn rule(line: usize, text: &str) -> Result<FiveTuple, FilterError> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let mut words = text.split_whitespace();
    let mut word = || words.next().unwrap_or("");
    let wrong = |column: &'static str, text: &str| FilterError {
        line,
        column,
        text: text.to_owned(),
    };
    let mut prefix = |column: &'static str| {
        let text = word();
        read_prefix(text).ok_or_else(|| wrong(column, text))
    };
    let source = prefix("source prefix")?;
    let destination = prefix("destination prefix")?;
    let mut ports = |column: &'static str| {
        let texts = [word(), word(), word()];
        let range = read_ports(texts);
        range.ok_or_else(|| wrong(column, texts.join(" ").trim_end()))
    };
    let source_port = ports("range of source ports")?;
    let destination_port = ports("range of destination ports")?;
    let text = word();
    let protocol = read_protocol(text).ok_or_else(|| wrong("protocol", text))?;
    Ok(FiveTuple {
        source,
        destination,
        source_port,
        destination_port,
        protocol,
    })
}

/// Bits of the address after the prefix are cleared.
fn read_prefix(text: &str) -> Option<Prefix> {
    let (address, len) = text.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let len = len.parse().ok().filter(|len| *len <= 32)?;
    Some(Prefix::new(address.into(), len))
}

fn read_ports([lo, colon, hi]: [&str; 3]) -> Option<PortRange> {
    let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
    (colon == ":" && lo <= hi).then_some(PortRange { lo, hi })
}

/// Returns the protocol, or none inside for any.
fn read_protocol(text: &str) -> Option<Option<u8>> {
    let number = |text: &str| u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (value, mask) = text.split_once('/')?;
    match number(mask)? {
        0 => number(value).map(|_| None),
        0xff => number(value).map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_rule_and_its_flags_are_left_out() {
        let text = "# two rules\n\
            @192.0.2.9/24\t198.51.100.7/32\t0 : 65535\t80 : 88\t0x06/0xFF\t0x1000/0x1000\n\n\
            0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
        let set = RuleSet::read(text).unwrap();
        let first = FiveTuple {
            source: Prefix::new(0xc000_0200, 24),
            destination: Prefix::new(0xc633_6407, 32),
            source_port: PortRange::ANY,
            destination_port: PortRange { lo: 80, hi: 88 },
            protocol: Some(6),
        };
        assert_eq!(set.rules(), [first, FiveTuple::ANY]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_column() {
        let good = "@1.2.3.4/32 0.0.0.0/0 0 : 65535 1 : 2 0x11/0xFF";
        let cases = [
            ("1.2.3.4/33 0.0.0.0/0", "source prefix", "1.2.3.4/33"),
            ("1.2.3.4/32 0.0.0/0", "destination prefix", "0.0.0/0"),
            ("@1.2.3.4/32", "destination prefix", ""),
            (
                "1.2.3.4/32 0.0.0.0/0 9 : 8",
                "range of source ports",
                "9 : 8",
            ),
            (
                "1.2.3.4/32 0.0.0.0/0 0 : 1 0-8",
                "range of destination ports",
                "0-8",
            ),
            ("1.2.3.4/32 0.0.0.0/0 0 : 1 0 : 8 6/7", "protocol", "6/7"),
            (
                "1.2.3.4/32 0.0.0.0/0 0 : 1 0 : 8 0x06/0x0F",
                "protocol",
                "0x06/0x0F",
            ),
        ];
        for (text, column, wrong) in cases {
            let error = RuleSet::read(&format!("{good}\n{text}\n")).unwrap_err();
            let found = (error.line, error.column, &error.text[..]);
            assert_eq!(found, (2, column, wrong));
        }
    }
}

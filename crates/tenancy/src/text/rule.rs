//! Rules: `voice: vlan 10 and ipv4.dst 10.0.0.0/8 -> 3 priority 5`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use packet::PortId;

use crate::rule::{Condition, Rule, Vlan};
use crate::text::{TextError, Words};
use crate::vpdp::VpdpId;

const ETHERTYPE: &str = "an EtherType, 0 to 0xffff";

const IPV4: &str = "an IPv4 prefix, of 0 to 32 bits";

const IPV6: &str = "an IPv6 prefix, of 0 to 128 bits";

const VLAN: &str = "a VLAN, 1 to 4094, or `none`";

const CONDITION: &str = "a field: port, vlan, eth.src, eth.dst, eth.type, ipv4.src, ipv4.dst, ipv6.src, ipv6.dst, protocol, l4.src, l4.dst or reduction";

impl Rule {
    /// Parses `NAME: FIELD VALUE and FIELD VALUE -> VPDP priority N`. The default priority is 0.
    /// Without conditions, as in `NAME: -> VPDP`, a rule matches all packets. `find` resolves the
    /// name or number of a vPDP.
    ///
    /// # Errors
    /// The first wrong word, and the expected text.
    pub fn read(text: &str, find: impl FnOnce(&str) -> Option<VpdpId>) -> Result<Rule, TextError> {
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| TextError::at(text, "a rule, `NAME: CONDITIONS -> VPDP`"))?;
        let (asked, target) = rest
            .split_once("->")
            .ok_or_else(|| TextError::at("", "`->` and a vPDP"))?;
        let mut target = Words::of(target);
        let word = target.next("a vPDP")?;
        let vpdp = find(word).ok_or_else(|| TextError::at(word, "the name or number of a vPDP"))?;
        let priority = match target.0.clone().next() {
            None => 0,
            Some("priority") => {
                target.next("`priority`")?;
                target.value("a priority")?
            }
            Some(word) => return Err(TextError::at(word, "`priority` and a number")),
        };
        target.end()?;
        let name = match name.trim() {
            name if !name.is_empty() && !name.contains(char::is_whitespace) => name.to_owned(),
            name => return Err(TextError::at(name, "a name of one word")),
        };
        Ok(Rule {
            name,
            vpdp,
            priority,
            conditions: conditions(Words::of(asked))?,
        })
    }
}

fn conditions(mut words: Words<'_>) -> Result<Vec<Condition>, TextError> {
    let mut conditions = Vec::new();
    let mut field = words.0.next();
    while let Some(word) = field {
        conditions.push(condition(word, &mut words)?);
        field = match words.0.next() {
            None => None,
            Some("and") => Some(words.next(CONDITION)?),
            Some(word) => return Err(TextError::at(word, "`and` or `->`")),
        };
    }
    Ok(conditions)
}

fn condition(field: &str, words: &mut Words<'_>) -> Result<Condition, TextError> {
    Ok(match field {
        "port" => Condition::Port(PortId(words.value("a port's number")?)),
        "vlan" => Condition::Vlan(match words.next(VLAN)? {
            "none" => Vlan::Untagged,
            word => {
                let id = number(word, VLAN)?;
                match words.takes("untag") {
                    true => Vlan::Access(id),
                    false => Vlan::Id(id),
                }
            }
        }),
        "eth.src" => Condition::Source(words.value("a MAC address")?),
        "eth.dst" => Condition::Destination(words.value("a MAC address")?),
        "eth.type" => Condition::EtherType(number(words.next(ETHERTYPE)?, ETHERTYPE)?),
        "ipv4.src" => prefix(words, IPV4, Condition::Ipv4Source, 32)?,
        "ipv4.dst" => prefix(words, IPV4, Condition::Ipv4Destination, 32)?,
        "ipv6.src" => prefix(words, IPV6, Condition::Ipv6Source, 128)?,
        "ipv6.dst" => prefix(words, IPV6, Condition::Ipv6Destination, 128)?,
        "protocol" => Condition::Protocol(match words.next("a protocol")? {
            "icmp" => 1,
            "tcp" => 6,
            "udp" => 17,
            word => number(word, "a protocol's number, 0 to 255, icmp, tcp or udp")?,
        }),
        "l4.src" => Condition::L4Source(range(words)?),
        "l4.dst" => Condition::L4Destination(range(words)?),
        "reduction" => Condition::Reduction(words.value("the number of a reduction")?),
        word => return Err(TextError::at(word, CONDITION)),
    })
}

/// Parses a decimal number, or a hexadecimal one with the prefix `0x`.
fn number<T: TryFrom<u64>>(word: &str, wanted: &'static str) -> Result<T, TextError> {
    let number = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| TextError::at(word, wanted))
}

/// Parses `ADDRESS/LENGTH`, or an address alone.
fn prefix<A: FromStr>(
    words: &mut Words<'_>,
    wanted: &'static str,
    condition: fn(A, u8) -> Condition,
    width: u8,
) -> Result<Condition, TextError> {
    let word = words.next(wanted)?;
    let wrong = || TextError::at(word, wanted);
    let (address, length) = match word.split_once('/') {
        None => (word, width),
        Some((address, length)) => (address, length.parse().map_err(|_| wrong())?),
    };
    if length > width {
        return Err(wrong());
    }
    Ok(condition(address.parse().map_err(|_| wrong())?, length))
}

/// Parses `PORT` or `FIRST..LAST`, both inclusive.
fn range(words: &mut Words<'_>) -> Result<RangeInclusive<u16>, TextError> {
    const WANTED: &str = "a port of layer 4, 0 to 65535, or FIRST..LAST";
    let word = words.next(WANTED)?;
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    Ok(number(first, WANTED)?..=number(last, WANTED)?)
}

impl Rule {
    /// Returns the rule as text, with this name for its vPDP.
    pub fn leading_to<'r>(&'r self, vpdp: &'r str) -> impl fmt::Display + 'r {
        NamedRule { rule: self, vpdp }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, vpdp: &dyn fmt::Display) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        for (place, condition) in self.conditions.iter().enumerate() {
            let and = if place > 0 { " and" } else { "" };
            write!(f, "{and} {condition}")?;
        }
        write!(f, " -> {vpdp}")?;
        match self.priority {
            0 => Ok(()),
            priority => write!(f, " priority {priority}"),
        }
    }
}

/// A rule, displayed with a name for its vPDP.
struct NamedRule<'r> {
    rule: &'r Rule,
    vpdp: &'r str,
}

impl fmt::Display for NamedRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.write(f, &self.vpdp)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &self.vpdp)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Port(port) => write!(f, "port {port}"),
            Condition::Vlan(Vlan::Untagged) => f.write_str("vlan none"),
            Condition::Vlan(Vlan::Id(id)) => write!(f, "vlan {id}"),
            Condition::Vlan(Vlan::Access(id)) => write!(f, "vlan {id} untag"),
            Condition::Source(address) => write!(f, "eth.src {address}"),
            Condition::Destination(address) => write!(f, "eth.dst {address}"),
            Condition::EtherType(number) => write!(f, "eth.type {number:#06x}"),
            Condition::Ipv4Source(address, length) => write!(f, "ipv4.src {address}/{length}"),
            Condition::Ipv4Destination(address, length) => write!(f, "ipv4.dst {address}/{length}"),
            Condition::Ipv6Source(address, length) => write!(f, "ipv6.src {address}/{length}"),
            Condition::Ipv6Destination(address, length) => write!(f, "ipv6.dst {address}/{length}"),
            Condition::Protocol(number) => write!(f, "protocol {number}"),
            Condition::L4Source(range) => write!(f, "l4.src {}..{}", range.start(), range.end()),
            Condition::L4Destination(range) => {
                write!(f, "l4.dst {}..{}", range.start(), range.end())
            }
            Condition::Reduction(number) => write!(f, "reduction {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Rule, TextError> {
        let number = |word: &str| word.parse().ok().and_then(VpdpId::new);
        Rule::read(text, |word| match word {
            "voice" => VpdpId::new(9),
            word => number(word),
        })
    }

    #[test]
    fn a_rule_is_shown_as_it_can_be_read() {
        let texts = [
            "all: -> 1",
            "a: port 3 and vlan 10 -> 2 priority 5",
            "access: port 3 and vlan 10 untag -> 2",
            "both: vlan 4094 untag and port 3 and eth.type 0x0800 -> 2 priority 5",
            "b: vlan none and eth.dst 02:00:00:00:00:01 -> 2 priority -1",
            "c: eth.type 0x0806 and eth.src 02:00:00:00:00:01 -> 4095",
            "d: ipv4.src 10.0.0.0/8 and protocol 17 and l4.dst 53..53 -> 3",
            "e: ipv6.dst 2001:db8::/32 and l4.src 1024..65535 -> 3",
            "f: ipv4.dst 10.1.2.3/32 and ipv6.src ::/0 -> 3",
            "g: reduction 6 and port 2 -> 3 priority 1000",
        ];
        for text in texts {
            assert_eq!(read(text).map(|rule| rule.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn words_stand_for_numbers_where_people_use_them() {
        let rule = read("dns: protocol udp and l4.dst 53 and eth.type 2048 -> voice");
        let shown = "dns: protocol 17 and l4.dst 53..53 and eth.type 0x0800 -> 9";
        assert_eq!(rule.map(|rule| rule.to_string()), Ok(shown.to_owned()));
    }

    #[test]
    fn a_number_that_is_none_is_told_with_those_that_there_are() {
        let cases = [
            ("vlan 70000", "`70000` is not a VLAN, 1 to 4094, or `none`"),
            ("vlan ten", "`ten` is not a VLAN, 1 to 4094, or `none`"),
            ("ipv6.dst ::/129", "of 0 to 128 bits"),
            ("protocol 256", "0 to 255"),
            ("l4.dst 70000", "0 to 65535"),
            ("reduction 65536", "the number of a reduction"),
        ];
        for (condition, part) in cases {
            let error = read(&format!("a: {condition} -> 1")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("no rule", "no rule"),
            ("a: port 1", ""),
            ("a: port 1 ->", ""),
            ("a: port 1 -> nobody", "nobody"),
            ("a: port one -> 1", "one"),
            ("a: colour red -> 1", "colour"),
            ("a: port 1 or port 2 -> 1", "or"),
            ("a: vlan none untag -> 1", "untag"),
            ("a: vlan 7 tag -> 1", "tag"),
            ("a: vlan 7 untag untag -> 1", "untag"),
            ("a: port 1 and -> 1", ""),
            ("a: ipv4.src 10.0.0.0/33 -> 1", "10.0.0.0/33"),
            ("a: vlan 70000 -> 1", "70000"),
            ("a: l4.dst 5..x -> 1", "x"),
            ("a: eth.src 02:00:00:00:01 -> 1", "02:00:00:00:01"),
            ("a: -> 1 prio 3", "prio"),
            ("a: -> 1 priority 3 4", "4"),
            ("two words: -> 1", "two words"),
            (": -> 1", ""),
        ];
        for (text, at) in cases {
            assert_eq!(
                read(text).map_err(|error| error.at),
                Err(at.to_owned()),
                "{text}"
            );
        }
    }
}

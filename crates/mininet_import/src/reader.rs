//! Reads values of a topology file, and collects mistakes and warnings.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::Range;

use json_text::{JsonMember, JsonNode};
use support::mac::MacAddress;
use toml_file::{FileMistake, Mistakes};

/// Maximum length of a node's name.
const MAX_NAME: usize = 15;

/// An address in its network.
pub(crate) type HostAddress = (Ipv4Addr, u8);

/// Mistakes and warnings of a file.
pub(crate) struct Reader {
    mistakes: Mistakes,
    warnings: Vec<FileMistake>,
    /// Keys that were named in a warning.
    warned: BTreeSet<String>,
    /// Ends of links: nodes, and ports of switches.
    ends: BTreeSet<(String, Option<u32>)>,
}

impl Reader {
    pub(crate) fn new(text: &str) -> Reader {
        Reader {
            mistakes: Mistakes::of(text),
            warnings: Vec::new(),
            warned: BTreeSet::new(),
            ends: BTreeSet::new(),
        }
    }

    /// Returns the mistakes and the warnings.
    pub(crate) fn finish(self) -> (Vec<FileMistake>, Vec<FileMistake>) {
        (self.mistakes.into_list(), self.warnings)
    }

    pub(crate) fn mistake(&mut self, at: &Range<usize>, message: String, mend: &str) {
        self.mistakes.add(FileMistake {
            line: self.mistakes.line_of(at.start),
            message,
            mend: mend.to_owned(),
        });
    }

    /// Warns that a key has no effect, once for all places that have it.
    pub(crate) fn ignore(&mut self, member: &JsonMember, mend: &str) {
        let message = format!("\"{}\" has no effect", member.key);
        self.warn(&member.key, &member.key_at, message, mend);
    }

    /// Warns that a key is unknown, once for all places that have it, and names the known one that
    /// may be meant.
    pub(crate) fn unknown(&mut self, member: &JsonMember, known: &[&str], mend: &str) {
        let key = &member.key;
        let near = toml_file::nearest_name(key, known.iter().copied());
        let mut known = known.iter().copied();
        let near = near.or_else(|| known.find(|name| is_abbreviation(key, name)));
        match near {
            Some(near) => self.ignore(member, &format!("did you mean \"{near}\"? {mend}")),
            None => self.ignore(member, mend),
        }
    }

    /// Checks that an end of a link is that of no other link.
    pub(crate) fn use_end(&mut self, at: &Range<usize>, node: &str, port: Option<u32>) {
        if self.ends.insert((node.to_owned(), port)) {
            return;
        }
        match port {
            Some(port) => {
                let message = format!("port {port} of {node} has several links");
                self.mistake(at, message, "give each link a port of its own");
            }
            None => {
                let message = format!("the host {node} has several links");
                self.mistake(at, message, "a host has one link");
            }
        }
    }

    /// Adds a warning about `subject`, if it is the first one.
    pub(crate) fn warn(&mut self, subject: &str, at: &Range<usize>, message: String, mend: &str) {
        if self.warned.insert(subject.to_owned()) {
            self.warnings.push(FileMistake {
                line: self.mistakes.line_of(at.start),
                message,
                mend: mend.to_owned(),
            });
        }
    }

    /// Returns the members of an object.
    pub(crate) fn members<'n>(&mut self, what: &str, node: &'n JsonNode) -> &'n [JsonMember] {
        match node.members() {
            Some(members) => members,
            None => {
                self.mistake(&node.at, format!("{what} is an object"), "write { ... }");
                &[]
            }
        }
    }

    /// Returns the items of a list.
    pub(crate) fn items<'n>(&mut self, what: &str, node: &'n JsonNode) -> &'n [JsonNode] {
        match node.items() {
            Some(items) => items,
            None => {
                self.mistake(&node.at, format!("{what} is a list"), "write [ ... ]");
                &[]
            }
        }
    }

    pub(crate) fn text(&mut self, member: &JsonMember) -> Option<String> {
        let text = member.node.text();
        if text.is_none() {
            let message = format!("\"{}\" is a text", member.key);
            self.mistake(&member.node.at, message, "write it in quotes");
        }
        text.map(str::to_owned)
    }

    /// Returns a number from 0 on, which may be in quotes.
    pub(crate) fn number(&mut self, member: &JsonMember) -> Option<u64> {
        let number = member.node.word().and_then(|word| word.parse().ok());
        if number.is_none() {
            let message = format!("\"{}\" is a number from 0 on", member.key);
            self.mistake(&member.node.at, message, "write it without a fraction");
        }
        number
    }

    /// Returns a truth value. p4-utils takes words in quotes, too.
    pub(crate) fn truth(&mut self, member: &JsonMember) -> Option<bool> {
        let written = member.node.text().map(str::to_ascii_lowercase);
        let truth = match written.as_deref() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => member.node.truth(),
        };
        if truth.is_none() {
            let message = format!("\"{}\" is true or false", member.key);
            self.mistake(&member.node.at, message, "write true or false");
        }
        truth
    }

    /// Checks the name of a node, which becomes part of names of namespaces and interfaces.
    pub(crate) fn check_name(&mut self, member: &JsonMember) {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = &member.key;
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_fine) {
            let message = format!("\"{name}\" cannot be a name");
            self.mistake(
                &member.key_at,
                message,
                "take 1 to 15 letters, digits, _ and -",
            );
        }
    }

    /// Returns an address with its prefix length. Without one it has that of Mininet, 8.
    pub(crate) fn address(&mut self, member: &JsonMember) -> Option<HostAddress> {
        let parsed = member.node.text().and_then(host_address);
        if parsed.is_none() {
            let message = format!("\"{}\" is no address of a host", member.key);
            let mend = "write an IPv4 address with its prefix length, as in \"10.0.1.1/24\"";
            self.mistake(&member.node.at, message, mend);
        }
        parsed
    }

    pub(crate) fn mac(&mut self, member: &JsonMember) -> Option<MacAddress> {
        let mac = member.node.text().and_then(|text| text.parse().ok());
        if mac.is_none() {
            let message = format!("\"{}\" is no MAC address", member.key);
            let mend = "write six bytes, as in \"08:00:00:00:01:11\"";
            self.mistake(&member.node.at, message, mend);
        }
        mac
    }

    /// Returns a rate of Mininet, a number of Mbit/s, in bit/s. `null` and 0 are no limit.
    pub(crate) fn rate(&mut self, node: &JsonNode) -> Option<u64> {
        if node.value == json_text::JsonValue::Null {
            return None;
        }
        let word = node.word();
        let megabits: Option<f64> = word.and_then(|word| word.parse().ok());
        match megabits.filter(|rate| (0.0..1e6).contains(rate)) {
            Some(0.0) => None,
            // A rate of less than 1 bit/s would be none.
            Some(megabits) => Some(((megabits * 1e6).round() as u64).max(1)),
            None => {
                let message = "this is no rate of a link".to_owned();
                self.mistake(&node.at, message, "write a number of Mbit/s, as in 0.5");
                None
            }
        }
    }

    /// Returns a delay in nanoseconds. `unit` is that of a number without a unit in quotes.
    pub(crate) fn delay(&mut self, node: &JsonNode) -> u64 {
        let written = match (node.text(), node.float()) {
            // tc takes a text without a unit as microseconds.
            (Some(text), _) => delay_ns(text, 1e3),
            // The scripts give numbers the unit ms.
            (None, Some(milliseconds)) => to_ns(milliseconds * 1e6),
            (None, None) => None,
        };
        written.unwrap_or_else(|| {
            let message = "this is no delay of a link".to_owned();
            self.mistake(
                &node.at,
                message,
                "write a time with its unit, as in \"5ms\"",
            );
            0
        })
    }
}

/// Parses an address with an optional prefix length.
pub(crate) fn host_address(text: &str) -> Option<HostAddress> {
    let (address, prefix_len) = text.split_once('/').unwrap_or((text, "8"));
    let prefix_len = prefix_len.parse().ok().filter(|length| *length <= 32)?;
    Some((address.parse().ok()?, prefix_len))
}

/// Parses a time of tc. `default` is the number of nanoseconds of a number without a unit.
fn delay_ns(text: &str, default: f64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit {
        "" => default,
        "ns" | "nsec" | "nsecs" => 1.0,
        "us" | "usec" | "usecs" => 1e3,
        "ms" | "msec" | "msecs" => 1e6,
        "s" | "sec" | "secs" => 1e9,
        _ => return None,
    };
    to_ns(number.trim().parse::<f64>().ok()? * unit)
}

/// Returns a time as whole nanoseconds, if it is at most an hour.
fn to_ns(ns: f64) -> Option<u64> {
    (0.0..=3.6e12).contains(&ns).then(|| ns.round() as u64)
}

/// Returns true if a key is a name with letters left out, as `cmds` of `commands`.
fn is_abbreviation(key: &str, name: &str) -> bool {
    let mut letters = name.chars();
    let is_part = key.chars().all(|own| letters.any(|letter| letter == own));
    is_part && key.len() >= 3 && key.chars().next() == name.chars().next()
}

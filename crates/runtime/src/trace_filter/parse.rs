//! Parser of packet filters.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use support::mac::{MacAddress, octets};
use syntax::diag::suggest;

use super::filter::{
    Comparison, Condition, Field, FilterError, HEADERS, Layer, Notation, Relation, fields,
};

/// Maximum nesting depth of parentheses and negations.
const DEEPEST: u32 = 64;

/// Maximum length of a field of bytes.
const MAX_BYTES: usize = 16;

/// Relations. Longer signs come before their prefixes.
const RELATIONS: [(&str, Relation); 6] = [
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

impl FromStr for Condition {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Condition, FilterError> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
        };
        let filter = reader.alternatives()?;
        match reader.rest() {
            "" => Ok(filter),
            rest => {
                let word = rest.split_whitespace().next().unwrap_or_default();
                Err(reader.error(format!("\"{word}\" is not expected here")))
            }
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
}

impl<'t> Reader<'t> {
    /// Returns the remaining text, after skipping blanks.
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn error(&self, what: String) -> FilterError {
        FilterError { at: self.at, what }
    }

    /// Reads a sign, if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len();
        }
        is_next
    }

    /// Reads this keyword, if it is next.
    fn keyword(&mut self, word: &str) -> bool {
        let is_next = self.peek_name() == word;
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn peek_name(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    }

    fn alternatives(&mut self) -> Result<Condition, FilterError> {
        let mut filter = self.conjunction()?;
        while self.keyword("or") || self.sign("||") {
            let other = self.conjunction()?;
            filter = Condition::Or(Box::new(filter), Box::new(other));
        }
        Ok(filter)
    }

    fn conjunction(&mut self) -> Result<Condition, FilterError> {
        let mut filter = self.condition()?;
        while self.keyword("and") || self.sign("&&") {
            let other = self.condition()?;
            filter = Condition::And(Box::new(filter), Box::new(other));
        }
        Ok(filter)
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("this is nested too deeply".to_owned()));
        }
        let condition = self.one_condition();
        self.depth -= 1;
        condition
    }

    fn one_condition(&mut self) -> Result<Condition, FilterError> {
        let is_negation = self.rest().starts_with('!') && !self.rest().starts_with("!=");
        if self.keyword("not") || is_negation && self.sign("!") {
            return Ok(Condition::Not(Box::new(self.condition()?)));
        }
        if self.sign("(") {
            let inner = self.alternatives()?;
            return match self.sign(")") {
                true => Ok(inner),
                false => Err(self.error("\")\" is missing".to_owned())),
            };
        }
        let name = self.peek_name();
        if name == "all" {
            self.at += name.len();
            return Ok(Condition::All);
        }
        if let Some((_, layer)) = HEADERS.iter().find(|(header, _)| *header == name) {
            self.at += name.len();
            return Ok(Condition::Has(*layer));
        }
        self.comparison(name)
    }

    fn comparison(&mut self, name: &str) -> Result<Condition, FilterError> {
        let (field, bits, notation) = if name == "bytes" {
            self.at += name.len();
            self.bytes()?
        } else {
            let known = fields();
            let Some(named) = known.iter().find(|named| named.name == name) else {
                return Err(self.unknown(name));
            };
            self.at += name.len();
            (named.field, named.bits, named.notation)
        };
        let relation = RELATIONS.iter().find(|(sign, _)| self.sign(sign));
        let Some((_, relation)) = relation else {
            let mut what = "one of == != < <= > >= is missing".to_owned();
            // A single `=` is meant as `==`.
            self.sign("=");
            let word = self.peek_word();
            if !word.is_empty() {
                what += &format!(": write `{name} == {word}`");
            }
            return Err(self.error(what));
        };
        let (value, mask) = self.value(bits, notation)?;
        Ok(Condition::Is(Comparison {
            field,
            relation: *relation,
            value: value & mask,
            mask,
        }))
    }

    fn unknown(&self, name: &str) -> FilterError {
        if name.is_empty() {
            return self.error("a condition is missing, such as ipv4.dst == 10.0.0.1".to_owned());
        }
        let known = fields();
        let names = known.iter().map(|named| named.name);
        let names: Vec<&str> = names.chain(HEADERS.iter().map(|(name, _)| *name)).collect();
        let meant = match suggest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean {near}?"),
            None => ":".to_owned(),
        };
        self.error(format!(
            "there is no field \"{name}\"{meant} there are {}, bytes[OFFSET:LENGTH] and all",
            names.join(", ")
        ))
    }

    /// Returns the next word: a value, or empty text at the end of a condition.
    fn peek_word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || c == ')' || c == '&' || c == '|');
        let word = &rest[..end.unwrap_or(rest.len())];
        match ["and", "or"].contains(&word) {
            true => "",
            false => word,
        }
    }

    /// Parses `[OFFSET:LENGTH]` or `[OFFSET]`, in bytes from the start of the frame.
    fn bytes(&mut self) -> Result<(Field, u32, Notation), FilterError> {
        let missing = "write bytes[OFFSET:LENGTH], as in bytes[12:2] == 0x0800";
        let rest = self.rest();
        let inner = rest
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .map(|(inner, _)| inner)
            .ok_or_else(|| self.error(missing.to_owned()))?;
        let (at, len) = inner.split_once(':').unwrap_or((inner, "1"));
        let (Ok(at), Ok(len)) = (at.trim().parse::<usize>(), len.trim().parse::<usize>()) else {
            return Err(self.error(missing.to_owned()));
        };
        if !(1..=MAX_BYTES).contains(&len) || at > packet::MAX_FRAME {
            return Err(self.error(format!("a field has 1 to {MAX_BYTES} bytes of a frame")));
        }
        self.at += inner.len() + 2;
        let layer = Layer::Frame;
        let field = Field::Bytes { layer, at, len };
        Ok((field, len as u32 * 8, Notation::Number))
    }

    /// Parses a value and its optional prefix length. Returns the value and the mask of the
    /// compared bits.
    fn value(&mut self, bits: u32, notation: Notation) -> Result<(u128, u128), FilterError> {
        let word = self.peek_word();
        let (text, prefix) = match word.split_once('/') {
            Some((text, prefix)) => (text, Some(prefix)),
            None => (word, None),
        };
        let value = number(text).or_else(|| match notation {
            Notation::Number => None,
            Notation::Mac => mac(text),
            Notation::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into()),
            Notation::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        });
        let whole = u128::MAX >> (128 - bits);
        let mask = match prefix {
            None => Some(whole),
            Some(prefix) => prefix.parse().ok().filter(|n| *n <= bits).map(|n: u32| {
                let kept = u128::MAX.checked_shl(bits - n).unwrap_or(0);
                whole & kept
            }),
        };
        let (Some(value), Some(mask)) = (value.filter(|value| *value <= whole), mask) else {
            return Err(self.error(expected(word, bits, notation)));
        };
        self.at += word.len();
        Ok((value, mask))
    }
}

fn expected(word: &str, bits: u32, notation: Notation) -> String {
    let example = match notation {
        Notation::Number => "a decimal number or one like 0x1f",
        Notation::Mac => "an address like 02:00:00:00:00:01",
        Notation::Ipv4 => "an address like 10.0.0.1, or 10.0.0.0/8",
        Notation::Ipv6 => "an address like 2001:db8::1, or 2001:db8::/32",
    };
    format!("\"{word}\" is no value of {bits} bits for this field: write {example}")
}

fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn mac(text: &str) -> Option<u128> {
    octets(text, &[':'], 1..=2).map(|bytes| u64::from(MacAddress(bytes)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Frame, PortId};

    /// Returns an IPv4 packet with TCP from 10.1.2.3:1000 to 10.0.0.1:22, tagged or not, on port
    /// 3.
    fn tcp(tag: Option<u16>) -> Frame {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xab];
        if let Some(tag) = tag {
            bytes.extend([0x81, 0]);
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend([
            8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 6, 0, 0, 10, 1, 2, 3, 10, 0, 0, 1,
        ]);
        bytes.extend([3, 0xe8, 0, 22]);
        bytes.resize(60, 0);
        let mut frame = Frame::from_bytes(&bytes).unwrap();
        frame.ingress = PortId(3);
        frame
    }

    fn matches(filter: &Condition, frame: &Frame) -> bool {
        filter.matches(frame.ingress, frame.bytes())
    }

    fn check(text: &str, expect: bool) {
        let filter: Condition = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        for tag in [None, Some(0x2005)] {
            assert_eq!(matches(&filter, &tcp(tag)), expect, "{text}, tag {tag:?}");
        }
    }

    #[test]
    fn fields_are_compared_where_the_packet_has_them() {
        check("ipv4.dst == 10.0.0.1", true);
        check("ipv4.dst==10.0.0.2", false);
        check("ipv4.src == 10.1.0.0/16", true);
        check("ipv4.src != 10.1.0.0/16", false);
        check("ipv4.src == 0.0.0.0/0", true);
        check("eth.src == 02:00:00:00:00:ab and eth.type == 0x0800", true);
        check("tcp.dst == 22 && port == 3", true);
        check("tcp.dst < 22 || len >= 60", true);
        check("udp.dst == 22", false);
        check("ipv6.dst == ::/0", false);
        check("ipv4.ttl > 64", false);
        check("ipv4.protocol <= 6", true);
        check("bytes[0:6] == 0x020000000001", true);
        check("bytes[0] == 2", true);
        check("bytes[59:2] == 0", false);
        check("all", true);
    }

    #[test]
    fn conditions_join_as_words_and_signs_say() {
        check("tcp and not udp", true);
        check("! tcp", false);
        check("not (tcp or udp)", false);
        check("udp and tcp or ipv4", true);
        check("udp and (tcp or ipv4)", false);
        check("arp or (ipv4 and ipv6)", false);
    }

    #[test]
    fn a_tag_is_looked_at_only_where_there_is_one() {
        let filter: Condition = "vlan.id == 5".parse().unwrap();
        assert!(matches(&filter, &tcp(Some(0x2005))));
        assert!(!matches(&filter, &tcp(None)));
        assert!(!matches(&"vlan".parse().unwrap(), &tcp(None)));
    }

    #[test]
    fn packets_of_any_length_are_asked_without_harm() {
        let whole = tcp(Some(1));
        let texts = "tcp.dst == 1 or ipv6.src == ::1 or vlan.id == 9 or bytes[65535:16] == 1";
        let filter: Condition = texts.parse().unwrap();
        for len in 0..whole.len() {
            filter.matches(PortId(0), &whole.bytes()[..len]);
        }
    }

    #[test]
    fn what_is_no_filter_is_answered_with_what_would_be() {
        let check = |text: &str, at: usize, expect: &str| {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.what.contains(expect), "{text}: {error}");
            assert_eq!(error.at, at, "{text}: {error}");
        };
        check("", 0, "a condition is missing");
        check("ip.dst == 1", 0, "there are port, len, eth.dst");
        check("ip.dst == 1", 0, "did you mean ipv4.dst? there are port");
        check("ip.dst 10.0.2.2", 0, "did you mean ipv4.dst?");
        check("ipv4.dts == 1", 0, "did you mean ipv4.dst?");
        check("colour == 1", 0, "no field \"colour\": there are");
        check("ipv4.dst 10.0.2.2", 9, "write `ipv4.dst == 10.0.2.2`");
        check("ipv4.dst = 10.0.2.2", 11, "write `ipv4.dst == 10.0.2.2`");
        check("ipv4.dst or tcp", 9, ">= is missing");
        check("ipv4.dst", 8, "== != < <= > >= is missing");
        check("ipv4.dst == 10.0.0", 12, "write an address like 10.0.0.1");
        check("ipv4.dst == 10.0.0.0/33", 12, "write an address");
        check("tcp.dst == 65536", 11, "no value of 16 bits");
        check("port == 1 tcp", 10, "\"tcp\" is not expected here");
        check("(port == 1", 10, "\")\" is missing");
        check("bytes[0:17] == 1", 5, "1 to 16 bytes");
        check("bytes == 1", 6, "write bytes[OFFSET:LENGTH]");
        check(&"(".repeat(100), 64, "nested too deeply");
    }
}

//! Constraints on entries and actions: the language of `@entry_restriction` and `@action_restriction` (p4-constraints), read once a program and
//! evaluated for each update.
//!
//! A constraint is a list of statements, joined by `;`, of which each must hold: comparisons of numbers, of keys (`hdr.ipv4.dst::mask`), and of
//! parameters, joined by `!`, `&&`, `||` and `->`.

use std::cmp::Ordering;
use std::fmt;

/// A number of any size: big-endian, without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number(Vec<u8>);

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An exact key, a parameter, a priority, or a part of another key.
    Number(Number),
    /// A key with a value and a mask; that of an exact value has all ones.
    Masked {
        value: Number,
        mask: Number,
        ones: Number,
    },
    /// A key with bounds.
    Bounds { low: Number, high: Number },
    /// A string of a translated type.
    Text(String),
}

/// A constraint that was read.
#[derive(Debug)]
pub(crate) struct Constraint {
    statements: Vec<(Expr, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Bool(bool),
    Number(Number),
    Text(String),
    /// A name, and the part of it behind `::`.
    Name(String, Option<String>),
    Not(Box<Expr>),
    Both(Box<Expr>, Op, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Implies,
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Number {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Number {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Number(bytes[zeros..].to_vec())
    }

    pub(crate) fn from_u64(number: u64) -> Number {
        Number::from_bytes(&number.to_be_bytes())
    }

    /// The number with a digit behind its others.
    fn with_digit(self, base: u32, digit: u32) -> Number {
        let mut carry = digit;
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            let sum = u32::from(*byte) * base + carry;
            *byte = sum as u8;
            carry = sum >> 8;
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
        Number::from_bytes(&bytes)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        if self.0.is_empty() {
            return f.write_str("0");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A word of the language, with where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Number(Number),
    Text(String),
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 15] = [
    "::", "->", "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", ";", "-",
];

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first.is_ascii_digit() {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            all.push((Token::Number(number(&rest[..length])?), at));
            length
        } else if first.is_alphabetic() || first == '_' {
            let length = name_length(rest);
            all.push((Token::Name(rest[..length].to_owned()), at));
            length
        } else if let Some(quote @ ('\'' | '"')) = Some(first) {
            let Some(end) = rest[1..].find(quote) else {
                return Err(format!("a string is not closed: {rest}"));
            };
            all.push((Token::Text(rest[1..=end].to_owned()), at));
            end + 2
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            all.push((Token::Sign(sign), at));
            sign.len()
        } else {
            return Err(format!("`{first}` means nothing here"));
        };
        at += length;
    }
    Ok(all)
}

/// Letters, digits, `_`, and what P4Info's names of keys have besides: dots, brackets and `$`.
fn name_length(text: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '$');
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

fn number(text: &str) -> Result<Number, String> {
    let (base, digits) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &text[2..]),
        Some("0b") => (2, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0d") => (10, &text[2..]),
        _ => (10, text),
    };
    let mut number = Number(Vec::new());
    for digit in digits.chars().filter(|c| *c != '_') {
        let Some(digit) = digit.to_digit(base) else {
            return Err(format!("`{text}` is no number"));
        };
        number = number.with_digit(base, digit);
    }
    Ok(number)
}

/// How deep parentheses and negations may go.
const MOST_DEPTH: usize = 100;

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    /// Where the next word begins.
    fn place(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.text.len(), |(_, at)| *at)
    }

    fn operator(&self, least: u8) -> Option<(Op, u8)> {
        let Some(Token::Sign(sign)) = self.peek() else {
            return None;
        };
        let (op, level) = match *sign {
            "->" => (Op::Implies, 1),
            "||" => (Op::Or, 2),
            "&&" => (Op::And, 3),
            "==" => (Op::Equal, 4),
            "!=" => (Op::Unequal, 4),
            "<" => (Op::Less, 4),
            "<=" => (Op::LessEqual, 4),
            ">" => (Op::Greater, 4),
            ">=" => (Op::GreaterEqual, 4),
            _ => return None,
        };
        (level >= least).then_some((op, level))
    }

    fn expression(&mut self, least: u8) -> Result<Expr, String> {
        let mut left = self.operand()?;
        while let Some((op, level)) = self.operator(least) {
            self.at += 1;
            // `a -> b -> c` is `a -> (b -> c)`; others are taken from the left.
            let right = self.expression(level + u8::from(op != Op::Implies))?;
            left = Expr::Both(Box::new(left), op, Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err("it is too deep".to_owned());
        }
        let operand = self.operand_within();
        self.depth -= 1;
        operand
    }

    fn operand_within(&mut self) -> Result<Expr, String> {
        if self.take("!") {
            return Ok(Expr::Not(Box::new(self.operand()?)));
        }
        if self.take("(") {
            let inner = self.expression(0)?;
            return match self.take(")") {
                true => Ok(inner),
                false => Err(self.expected("`)`")),
            };
        }
        let token = self.peek().cloned();
        let place = self.expected("a name, a number, `!` or `(`");
        self.at += 1;
        match token {
            Some(Token::Number(number)) => Ok(Expr::Number(number)),
            Some(Token::Text(text)) => Ok(Expr::Text(text)),
            Some(Token::Name(name)) if name == "true" || name == "false" => {
                Ok(Expr::Bool(name == "true"))
            }
            Some(Token::Name(name)) => self.attribute(name),
            // `::priority` is the entry's own.
            Some(Token::Sign("::")) => {
                self.at -= 1;
                self.attribute(String::new())
            }
            _ => Err(place),
        }
    }

    fn attribute(&mut self, name: String) -> Result<Expr, String> {
        if !self.take("::") {
            return Ok(Expr::Name(name, None));
        }
        match self.peek().cloned() {
            Some(Token::Name(part)) => {
                self.at += 1;
                Ok(Expr::Name(name, Some(part)))
            }
            _ => Err(self.expected("a name behind `::`")),
        }
    }

    fn expected(&self, what: &str) -> String {
        match &self.text[self.place()..] {
            "" => format!("{what} is missing at the end"),
            rest => format!("{what} is missing before `{}`", rest.trim_end()),
        }
    }
}

/// What an expression comes to.
#[derive(Debug)]
enum Outcome {
    Bool(bool),
    Meaning(Meaning),
}

impl Constraint {
    /// Reads a constraint.
    ///
    /// # Errors
    /// What is wrong with its text.
    pub(crate) fn read(text: &str) -> Result<Constraint, String> {
        let mut parser = Parser {
            text,
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
        };
        let mut statements = Vec::new();
        while parser.peek().is_some() {
            let begin = parser.place();
            let expr = parser.expression(0)?;
            let end = parser.place();
            statements.push((expr, text[begin..end].trim().to_owned()));
            if !parser.take(";") && parser.peek().is_some() {
                return Err(parser.expected("`;`"));
            }
        }
        Ok(Constraint { statements })
    }

    /// Checks that all names are known: with meanings of the right kinds, whatever the values.
    ///
    /// # Errors
    /// The statement that cannot be evaluated, and why.
    pub(crate) fn check_names(
        &self,
        names: &dyn Fn(&str, Option<&str>) -> Option<Meaning>,
    ) -> Result<(), String> {
        for (expr, text) in &self.statements {
            check(expr, names).map_err(|why| format!("`{text}`: {why}"))?;
        }
        Ok(())
    }

    /// Whether all statements hold.
    ///
    /// # Errors
    /// The first that does not, as it is written, with what its names stand for.
    pub(crate) fn holds(
        &self,
        names: &dyn Fn(&str, Option<&str>) -> Option<Meaning>,
    ) -> Result<(), String> {
        for (expr, text) in &self.statements {
            if !truth(expr, names).map_err(|why| format!("`{text}`: {why}"))? {
                let mut values = Vec::new();
                told(expr, names, &mut values);
                let values = match values.is_empty() {
                    true => String::new(),
                    false => format!(", with {}", values.join(", ")),
                };
                return Err(format!("`{text}` does not hold{values}"));
            }
        }
        Ok(())
    }
}

type Names<'n> = &'n dyn Fn(&str, Option<&str>) -> Option<Meaning>;

/// Evaluates all of an expression, so that each part's kinds are checked.
fn check(expr: &Expr, names: Names<'_>) -> Result<(), String> {
    match expr {
        Expr::Both(left, Op::And | Op::Or | Op::Implies, right) => {
            check(left, names)?;
            check(right, names)
        }
        Expr::Not(inner) => check(inner, names),
        other => truth(other, names).map(drop),
    }
}

fn truth(expr: &Expr, names: Names<'_>) -> Result<bool, String> {
    match value(expr, names)? {
        Outcome::Bool(truth) => Ok(truth),
        Outcome::Meaning(_) => Err("it is neither true nor false".to_owned()),
    }
}

fn value(expr: &Expr, names: Names<'_>) -> Result<Outcome, String> {
    Ok(match expr {
        Expr::Bool(truth) => Outcome::Bool(*truth),
        Expr::Number(number) => Outcome::Meaning(Meaning::Number(number.clone())),
        Expr::Text(text) => Outcome::Meaning(Meaning::Text(text.clone())),
        Expr::Name(name, part) => match names(name, part.as_deref()) {
            Some(meaning) => Outcome::Meaning(meaning),
            None => {
                let part = part
                    .as_ref()
                    .map_or(String::new(), |part| format!("::{part}"));
                return Err(format!("there is no `{name}{part}`"));
            }
        },
        Expr::Not(inner) => Outcome::Bool(!truth(inner, names)?),
        Expr::Both(left, op, right) => Outcome::Bool(match op {
            Op::And => truth(left, names)? && truth(right, names)?,
            Op::Or => truth(left, names)? || truth(right, names)?,
            Op::Implies => !truth(left, names)? || truth(right, names)?,
            op => compare(&value(left, names)?, *op, &value(right, names)?)?,
        }),
    })
}

fn compare(left: &Outcome, op: Op, right: &Outcome) -> Result<bool, String> {
    let ordered = |order: Ordering| match op {
        Op::Less => order.is_lt(),
        Op::LessEqual => order.is_le(),
        Op::Greater => order.is_gt(),
        Op::GreaterEqual => order.is_ge(),
        Op::Unequal => order.is_ne(),
        _ => order.is_eq(),
    };
    let is_equality = matches!(op, Op::Equal | Op::Unequal);
    let equal = |same: bool| (op == Op::Equal) == same;
    match (left, right) {
        (Outcome::Bool(a), Outcome::Bool(b)) if is_equality => Ok(equal(a == b)),
        (Outcome::Meaning(Meaning::Number(a)), Outcome::Meaning(Meaning::Number(b))) => {
            Ok(ordered(a.cmp(b)))
        }
        (Outcome::Meaning(a), Outcome::Meaning(b)) if is_equality => match same(a, b) {
            Some(same) => Ok(equal(same)),
            None => Err("it compares what is of different kinds".to_owned()),
        },
        _ => Err("it compares what has no order, or is of different kinds".to_owned()),
    }
}

/// Whether two meanings are one; a number is a key that matches it alone.
fn same(a: &Meaning, b: &Meaning) -> Option<bool> {
    match (a, b) {
        (Meaning::Text(a), Meaning::Text(b)) => Some(a == b),
        (Meaning::Masked { value, mask, ones }, Meaning::Number(number))
        | (Meaning::Number(number), Meaning::Masked { value, mask, ones }) => {
            Some(value == number && mask == ones)
        }
        (Meaning::Bounds { low, high }, Meaning::Number(number))
        | (Meaning::Number(number), Meaning::Bounds { low, high }) => {
            Some(low == number && high == number)
        }
        (Meaning::Masked { .. }, Meaning::Masked { .. })
        | (Meaning::Bounds { .. }, Meaning::Bounds { .. }) => Some(a == b),
        _ => None,
    }
}

/// The names in an expression with what they stand for.
fn told(expr: &Expr, names: Names<'_>, all: &mut Vec<String>) {
    match expr {
        Expr::Name(name, part) => {
            let meaning = names(name, part.as_deref());
            let part = part
                .as_ref()
                .map_or(String::new(), |part| format!("::{part}"));
            let text = match meaning {
                Some(Meaning::Number(number)) => format!("{name}{part} = {number}"),
                Some(Meaning::Masked { value, mask, .. }) => format!("{name} = {value} &&& {mask}"),
                Some(Meaning::Bounds { low, high }) => format!("{name} = {low} .. {high}"),
                Some(Meaning::Text(text)) => format!("{name} = '{text}'"),
                None => return,
            };
            if !all.contains(&text) {
                all.push(text);
            }
        }
        Expr::Not(inner) => told(inner, names, all),
        Expr::Both(left, _, right) => {
            told(left, names, all);
            told(right, names, all);
        }
        Expr::Bool(_) | Expr::Number(_) | Expr::Text(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str, part: Option<&str>) -> Option<Meaning> {
        let number = |number| Some(Meaning::Number(Number::from_u64(number)));
        match (name, part) {
            ("hdr.vlan[0].id", None) => number(10),
            ("ip", None) => Some(Meaning::Masked {
                value: Number::from_u64(0x0a00_0000),
                mask: Number::from_u64(0xff00_0000),
                ones: Number::from_u64(0xffff_ffff),
            }),
            ("ip", Some("value")) => number(0x0a00_0000),
            ("ip", Some("mask")) => number(0xff00_0000),
            ("port", None) => Some(Meaning::Text("eth0".to_owned())),
            ("", Some("priority")) => number(7),
            _ => None,
        }
    }

    fn check(text: &str) -> Result<(), String> {
        Constraint::read(text)?.holds(&names)
    }

    #[test]
    fn constraints_hold_or_not() {
        for text in [
            "",
            "true",
            "hdr.vlan[0].id == 10",
            "hdr.vlan[0].id == 0x0A && !(hdr.vlan[0].id != 0b1010)",
            "ip::mask != 0 -> ip::value == 0x0a000000; // all of ten",
            "false -> false -> true",
            "1 < 2 || false && false",
            "::priority > 5; ::priority <= 7;",
            "port == 'eth0'",
            "ip != 10; /* it has a mask */ ip::value >= 0xffffff",
            "340282366920938463463374607431768211456 > 0xffffffffffffffffffffffffffffffff",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_statement_that_fails_is_told_with_its_values() {
        let told = check("true; hdr.vlan[0].id == 11; false").expect_err("it is 10");
        assert_eq!(
            told,
            "`hdr.vlan[0].id == 11` does not hold, with hdr.vlan[0].id = 0x0a"
        );
        let told = check("ip == 0x0a000000").expect_err("it has a mask");
        assert!(told.contains("ip = 0x0a000000 &&& 0xff000000"), "{told}");
    }

    #[test]
    fn nonsense_is_told() {
        for (text, word) in [
            ("(true", "`)`"),
            ("true true", "`;`"),
            ("nothing == 1", "nothing"),
            ("1", "neither true nor false"),
            ("ip < 3", "order"),
            ("port == 3", "kinds"),
            ("1 == #", "#"),
            ("0xyz == 1", "0xyz"),
            ("ip:: == 1", "::"),
            ("'open", "closed"),
        ] {
            let told = check(text).expect_err(text);
            assert!(told.contains(word), "{text}: {told}");
        }
        assert!(check(&"!".repeat(100_000)).is_err());
        assert!(check(&"(".repeat(100_000)).is_err());
    }
}

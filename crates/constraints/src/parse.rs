//! Parser: text of a constraint to expression trees.

use std::net::Ipv6Addr;

use crate::number::{Int, Number};
use crate::{Comparison, Expr};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Number(Number),
    Text(String),
    Sign(&'static str),
}

/// Operators and punctuation, longer ones first so that the longest one matches.
const SIGNS: [&str; 18] = [
    "::", "->", "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", ";", "-", ".", "[",
    "]",
];

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 4096;

/// Maximum number of characters of source text in an error message.
const MAX_SHOWN: usize = 60;

/// Maximum nesting depth: parentheses, negations and signs around one operand.
const MAX_DEPTH: usize = 100;

/// Splits the text into tokens, each with its byte offset.
fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find(['\n', '\r']).unwrap_or(rest.len())
        } else if let Some(inner) = rest.strip_prefix("/*") {
            inner.find("*/").map_or(rest.len(), |end| end + 4)
        } else if first.is_ascii_digit() {
            let length = word_length(rest);
            if length > MAX_DIGITS {
                return Err(format!("a number has more than {MAX_DIGITS} digits"));
            }
            all.push((Token::Number(number(&rest[..length])?), at));
            length
        } else if first.is_alphabetic() || matches!(first, '_' | '$') {
            let length = word_length(rest);
            all.push((Token::Name(rest[..length].to_owned()), at));
            length
        } else if matches!(first, '\'' | '"') {
            let Some(end) = rest[1..].find(first) else {
                return Err("a string is not closed".to_owned());
            };
            all.push((Token::Text(rest[1..=end].to_owned()), at));
            end + 2
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            all.push((Token::Sign(sign), at));
            sign.len()
        } else {
            return Err(format!("`{first}` is not part of the language"));
        };
        at += length;
    }
    Ok(all)
}

/// Returns the length in bytes of a word of letters, digits, `_` and the `$` of P4Info names.
fn word_length(text: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
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
    let mut number = Number::default();
    let mut digits = digits.chars().filter(|c| *c != '_').peekable();
    if digits.peek().is_none() {
        return Err(format!("`{text}` is no number"));
    }
    for digit in digits {
        let Some(digit) = digit.to_digit(base) else {
            return Err(format!("`{text}` is no number"));
        };
        number = number.with_digit(base, digit);
    }
    Ok(number)
}

/// Parses an address literal such as `ipv4('10.0.0.1')` to its number.
fn address(kind: &str, text: &str) -> Result<Number, String> {
    let parts = |mark: char, count: usize, base: u32, most: usize| {
        let bytes: Option<Vec<u8>> = text
            .split(mark)
            .map(|part| {
                let is_plain =
                    (1..=most).contains(&part.len()) && part.chars().all(|c| c.is_digit(base));
                u8::from_str_radix(part, base).ok().filter(|_| is_plain)
            })
            .collect();
        bytes.filter(|bytes| bytes.len() == count)
    };
    let bytes = match kind {
        "ipv4" => parts('.', 4, 10, 3),
        "mac" => parts(':', 6, 16, 2),
        "ipv6" => text
            .parse::<Ipv6Addr>()
            .ok()
            .map(|address| address.octets().to_vec()),
        _ => {
            return Err(format!(
                "`{kind}(...)` is no address; there are `ipv4`, `ipv6` and `mac`"
            ));
        }
    };
    match bytes {
        Some(bytes) => Ok(Number::from_bytes(&bytes)),
        None => Err(format!("`{text}` is no {kind} address")),
    }
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Also,
    Implies,
    Or,
    And,
    Compare(Comparison),
}

impl Op {
    /// Returns the precedence of the operator.
    fn level(self) -> u8 {
        match self {
            Op::Also => 1,
            Op::Implies => 2,
            Op::Or => 3,
            Op::And => 4,
            Op::Compare(_) => 5,
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

/// Parses a constraint into its statements, each with its source text.
pub(crate) fn statements(text: &str) -> Result<Vec<(Expr, String)>, String> {
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
    };
    let mut statements = Vec::new();
    while parser.peek().is_some() {
        let begin = parser.place();
        let expr = parser.expression(Op::Also.level())?;
        let end = parser.place();
        statements.push((expr, text[begin..end].trim().to_owned()));
        if !parser.take(";") && parser.peek().is_some() {
            return Err(parser.expected("`;` or an operator"));
        }
    }
    Ok(statements)
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

    fn take_name(&mut self) -> Option<String> {
        let Some(Token::Name(name)) = self.peek() else {
            return None;
        };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    /// Returns the byte offset of the next token.
    fn place(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.text.len(), |(_, at)| *at)
    }

    fn operator(&self) -> Option<Op> {
        let Some(Token::Sign(sign)) = self.peek() else {
            return None;
        };
        Some(match *sign {
            ";" => Op::Also,
            "->" => Op::Implies,
            "||" => Op::Or,
            "&&" => Op::And,
            "==" => Op::Compare(Comparison::Equal),
            "!=" => Op::Compare(Comparison::Unequal),
            "<" => Op::Compare(Comparison::Less),
            "<=" => Op::Compare(Comparison::LessEqual),
            ">" => Op::Compare(Comparison::Greater),
            ">=" => Op::Compare(Comparison::GreaterEqual),
            _ => return None,
        })
    }

    /// Parses an expression of operators with a higher precedence than `context`.
    fn expression(&mut self, context: u8) -> Result<Expr, String> {
        let mut left = self.operand()?;
        while let Some(op) = self.operator() {
            let is_loose = matches!(op, Op::Implies | Op::Compare(_));
            if op.level() == context && is_loose {
                let Some(Token::Sign(sign)) = self.peek() else {
                    break;
                };
                return Err(format!(
                    "`{sign}` stands in a row with another of its kind before `{}`; use parentheses",
                    self.rest()
                ));
            }
            if op.level() <= context {
                break;
            }
            self.at += 1;
            let is_last = matches!(self.peek(), None | Some(Token::Sign(")")));
            if op == Op::Also && is_last {
                break;
            }
            let right = self.expression(op.level())?;
            left = joined(left, op, right);
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("it is more than {MAX_DEPTH} levels deep"));
        }
        let operand = self.operand_within();
        self.depth -= 1;
        operand
    }

    fn operand_within(&mut self) -> Result<Expr, String> {
        if self.take("!") {
            return Ok(Expr::Not(Box::new(self.operand()?)));
        }
        if self.take("-") {
            return Ok(Expr::Negative(Box::new(self.operand()?)));
        }
        let mut operand = self.primary()?;
        let mut parts = 0;
        while self.take("::") {
            parts += 1;
            let Some(part) = self.take_name().filter(|_| parts < MAX_DEPTH) else {
                return Err(self.expected("a name after `::`"));
            };
            operand = Expr::Part(Box::new(operand), part);
        }
        Ok(operand)
    }

    fn primary(&mut self) -> Result<Expr, String> {
        if self.take("(") {
            let inner = self.expression(0)?;
            return match self.take(")") {
                true => Ok(inner),
                false => Err(self.expected("`)`")),
            };
        }
        if self.take("::") {
            return match self.take_name() {
                Some(name) => Ok(Expr::Attribute(name)),
                None => Err(self.expected("the name of an attribute after `::`")),
            };
        }
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(Token::Number(number)) => Ok(Expr::Number(Int::new(number))),
            Some(Token::Text(text)) => Ok(Expr::Text(text)),
            Some(Token::Name(name)) if name == "true" || name == "false" => {
                Ok(Expr::Bool(name == "true"))
            }
            Some(Token::Name(name)) if self.take("(") => self.address(&name),
            Some(Token::Name(name)) => self.name(name),
            _ => {
                self.at -= 1;
                Err(self.expected("a name, a number, `!`, `-` or `(`"))
            }
        }
    }

    fn address(&mut self, kind: &str) -> Result<Expr, String> {
        let Some(Token::Text(text)) = self.peek().cloned() else {
            return Err(self.expected("an address in quotes"));
        };
        self.at += 1;
        match self.take(")") {
            true => Ok(Expr::Number(Int::new(address(kind, &text)?))),
            false => Err(self.expected("`)`")),
        }
    }

    /// Parses the name of a match key or parameter: words separated by dots, and indices of header
    /// stacks.
    fn name(&mut self, mut name: String) -> Result<Expr, String> {
        loop {
            if self.take(".") {
                let Some(part) = self.take_name() else {
                    return Err(self.expected("a name after `.`"));
                };
                name.push('.');
                name.push_str(&part);
            } else if self.take("[") {
                let begin = self.place();
                let is_index = matches!(self.peek(), Some(Token::Number(_)));
                self.at += usize::from(is_index);
                let index = self.text[begin..self.place()].trim().to_owned();
                if !is_index || !self.take("]") {
                    return Err(self.expected("a number and `]`"));
                }
                name.extend(["[", &index, "]"]);
            } else {
                return Ok(Expr::Name(name));
            }
        }
    }

    fn expected(&self, what: &str) -> String {
        match self.rest() {
            "" => format!("{what} is missing at the end"),
            rest => format!("{what} is missing before `{rest}`"),
        }
    }

    /// Returns the source text from the next token to the end of its line, at most `MAX_SHOWN`
    /// characters.
    fn rest(&self) -> &str {
        let rest = self.text[self.place()..].lines().next().unwrap_or("");
        let end = rest
            .char_indices()
            .nth(MAX_SHOWN)
            .map_or(rest.len(), |(at, _)| at);
        rest[..end].trim_end()
    }
}

/// Joins two operands; a chain of one operator becomes one list.
fn joined(left: Expr, op: Op, right: Expr) -> Expr {
    match op {
        Op::Also | Op::And => match left {
            Expr::All(mut all) => {
                all.push(right);
                Expr::All(all)
            }
            left => Expr::All(vec![left, right]),
        },
        Op::Or => match left {
            Expr::Any(mut any) => {
                any.push(right);
                Expr::Any(any)
            }
            left => Expr::Any(vec![left, right]),
        },
        Op::Implies => Expr::Implies(Box::new([left, right])),
        Op::Compare(comparison) => Expr::Compare(comparison, Box::new([left, right])),
    }
}

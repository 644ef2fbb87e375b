//! Arithmetic of `#if`: C's integer expressions on 64 bits.

use crate::lex::{Token, TokenKind};
use crate::source::Span;

/// What is wrong, and where.
type Wrong = (Span, String);

/// The value of an expression; `span` is the place to blame when it is empty.
pub(crate) fn evaluate(tokens: &[Token], span: Span) -> Result<i64, Wrong> {
    let mut evaluator = Evaluator {
        tokens,
        at: 0,
        span,
        depth: 0,
    };
    let value = evaluator.ternary()?;
    match evaluator.tokens.get(evaluator.at) {
        None => Ok(value),
        Some(token) => Err((
            token.span,
            format!("`{}` cannot stand here in a condition", token.text),
        )),
    }
}

struct Evaluator<'a> {
    tokens: &'a [Token],
    at: usize,
    span: Span,
    depth: u32,
}

fn precedence(op: &str) -> Option<u8> {
    Some(match op {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

impl Evaluator<'_> {
    fn text(&self) -> &str {
        self.tokens
            .get(self.at)
            .filter(|token| token.kind == TokenKind::Punctuation)
            .map_or("", |token| &token.text)
    }

    fn ternary(&mut self) -> Result<i64, Wrong> {
        let cond = self.binary(1)?;
        if self.text() != "?" {
            return Ok(cond);
        }
        self.at += 1;
        let then = self.ternary()?;
        self.expect(":")?;
        let otherwise = self.ternary()?;
        Ok(if cond != 0 { then } else { otherwise })
    }

    fn expect(&mut self, text: &str) -> Result<(), Wrong> {
        if self.text() != text {
            let span = self
                .tokens
                .get(self.at)
                .map_or(self.span, |token| token.span);
            return Err((span, format!("`{text}` is expected here in a condition")));
        }
        self.at += 1;
        Ok(())
    }

    fn binary(&mut self, least: u8) -> Result<i64, Wrong> {
        let mut left = self.unary()?;
        while let Some(binds) = precedence(self.text()).filter(|binds| *binds >= least) {
            let op = self.text().to_string();
            let span = self.tokens[self.at].span;
            self.at += 1;
            let right = self.binary(binds + 1)?;
            left = apply(&op, left, right)
                .ok_or((span, "division by zero in a condition".to_string()))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, Wrong> {
        self.depth += 1;
        if self.depth > 500 {
            return Err((self.span, "this condition is nested too deep".to_string()));
        }
        let op = self.text().to_string();
        let value = match op.as_str() {
            "!" | "-" | "+" | "~" => {
                self.at += 1;
                let value = self.unary()?;
                match op.as_str() {
                    "!" => i64::from(value == 0),
                    "-" => value.wrapping_neg(),
                    "~" => !value,
                    _ => value,
                }
            }
            "(" => {
                self.at += 1;
                let value = self.ternary()?;
                self.expect(")")?;
                value
            }
            _ => self.number()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, Wrong> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err((self.span, "a condition is incomplete here".to_string()));
        };
        self.at += 1;
        let text = token.text.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = match (token.kind, text.get(..2)) {
            (TokenKind::Word, _) => return Ok(i64::from(text == "true")),
            (TokenKind::Integer, Some("0x" | "0X")) => i64::from_str_radix(&text[2..], 16).ok(),
            (TokenKind::Integer, Some("0b" | "0B")) => i64::from_str_radix(&text[2..], 2).ok(),
            (TokenKind::Integer, _) => text.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| {
            (
                token.span,
                format!("`{}` is no number for a condition", token.text),
            )
        })
    }
}

/// `None` for a division by zero.
fn apply(op: &str, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<<" => a.checked_shl(u32::try_from(b).unwrap_or(64)).unwrap_or(0),
        ">>" => a.checked_shr(u32::try_from(b).unwrap_or(64)).unwrap_or(0),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}

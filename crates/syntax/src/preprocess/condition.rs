//! Evaluates the conditions of `#if` and `#elif`: C's integer constant expressions.

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::token::{Interner, Symbol, Token, TokenKind};

use super::Preprocessor;

/// Maximum nesting depth of parentheses and operators.
const DEPTH: usize = 200;

impl Preprocessor<'_> {
    /// Returns true if the expression is not zero. An invalid expression is reported and counts as
    /// zero.
    pub(super) fn evaluate(&mut self, directive: Span, tokens: Vec<Token>) -> bool {
        let Some(tokens) = self.replace_defined(tokens) else {
            return false;
        };
        let tokens = self.expand_list(tokens);
        if tokens.is_empty() {
            self.error(Diagnostic::error(
                "E0015",
                directive,
                "the condition is missing",
            ));
            return false;
        }
        let mut evaluation = Evaluation {
            tokens: &tokens,
            at: 0,
            depth: 0,
            interner: &self.interner,
        };
        let result = evaluation.whole();
        match result {
            Ok(value) => value != 0,
            Err((span, message)) => {
                self.error(Diagnostic::error("E0015", span, message));
                false
            }
        }
    }

    /// Replaces `defined X` and `defined(X)` by 1 or 0.
    fn replace_defined(&mut self, tokens: Vec<Token>) -> Option<Vec<Token>> {
        let (one, zero) = (self.interner.intern("1"), self.interner.intern("0"));
        let mut out = Vec::with_capacity(tokens.len());
        let mut rest = tokens.as_slice();
        while let [token, tail @ ..] = rest {
            rest = tail;
            if token.symbol != self.words.defined || !token.is_word() {
                out.push(*token);
                continue;
            }
            let name = match tail {
                [name, after @ ..] if name.is_word() => {
                    rest = after;
                    name
                }
                [open, name, close, after @ ..]
                    if open.kind == TokenKind::LeftParen
                        && name.is_word()
                        && close.kind == TokenKind::RightParen =>
                {
                    rest = after;
                    name
                }
                _ => {
                    let message = "`defined` needs a name";
                    self.error(
                        Diagnostic::error("E0015", token.span, message)
                            .hint("write `defined(NAME)`"),
                    );
                    return None;
                }
            };
            let symbol = if self.is_defined(name.symbol) {
                one
            } else {
                zero
            };
            out.push(Token {
                kind: TokenKind::Integer,
                symbol,
                ..*token
            });
        }
        Some(out)
    }
}

type Value = Result<i128, (Span, String)>;

/// State of an evaluation.
struct Evaluation<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    interner: &'a Interner,
}

impl Evaluation<'_> {
    fn whole(&mut self) -> Value {
        let value = self.ternary(true)?;
        match self.tokens.get(self.at) {
            None => Ok(value),
            Some(_) => self.unexpected(),
        }
    }

    fn unexpected<T>(&self) -> Result<T, (Span, String)> {
        match self.tokens.get(self.at) {
            Some(token) => Err((
                token.span,
                format!("unexpected `{}` in a condition", self.text(token.symbol)),
            )),
            None => {
                let end = self.tokens.last().map_or(Span::NONE, |t| t.span);
                Err((end, "the condition ends too early".to_string()))
            }
        }
    }

    fn text(&self, symbol: Symbol) -> &str {
        self.interner.text(symbol)
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|t| t.kind == kind);
        self.at += usize::from(found);
        found
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.depth == DEPTH {
            let span = self.tokens.get(self.at).map_or(Span::NONE, |t| t.span);
            return Err((
                span,
                format!("this condition is nested more than {DEPTH} deep"),
            ));
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        value
    }

    /// Evaluates a conditional expression. If `live` is false, the value is not used, so in
    /// `0 && 1 / 0` nothing is divided.
    fn ternary(&mut self, live: bool) -> Value {
        let condition = self.binary(0, live)?;
        if !self.eat(TokenKind::Question) {
            return Ok(condition);
        }
        let yes = self.nested(|e| e.ternary(live && condition != 0))?;
        if !self.eat(TokenKind::Colon) {
            return self.unexpected();
        }
        let no = self.nested(|e| e.ternary(live && condition == 0))?;
        Ok(if condition != 0 { yes } else { no })
    }

    fn binary(&mut self, least: u8, live: bool) -> Value {
        let mut left = self.unary(live)?;
        while let Some((operator, strength)) =
            self.operator().filter(|&(_, strength)| strength >= least)
        {
            let span = self.tokens[self.at].span;
            self.at += 1;
            let live = match operator {
                "&&" => live && left != 0,
                "||" => live && left == 0,
                _ => live,
            };
            let right = self.nested(|e| e.binary(strength + 1, live))?;
            left = apply(operator, left, right, live)
                .map_err(|message| (span, message.to_string()))?;
        }
        Ok(left)
    }

    /// Returns the binary operator here: its text and its precedence.
    fn operator(&self) -> Option<(&'static str, u8)> {
        let token = self.tokens.get(self.at)?;
        Some(match token.kind {
            TokenKind::LogicalOr => ("||", 0),
            TokenKind::LogicalAnd => ("&&", 1),
            TokenKind::Or => ("|", 2),
            TokenKind::Xor => ("^", 3),
            TokenKind::And => ("&", 4),
            TokenKind::Eq => ("==", 5),
            TokenKind::Ne => ("!=", 5),
            TokenKind::Lt => ("<", 6),
            TokenKind::Gt => (">", 6),
            TokenKind::Le => ("<=", 6),
            TokenKind::Ge => (">=", 6),
            TokenKind::Shl => ("<<", 7),
            TokenKind::Shr => (">>", 7),
            TokenKind::Plus => ("+", 8),
            TokenKind::Minus => ("-", 8),
            TokenKind::Star => ("*", 9),
            TokenKind::Slash => ("/", 9),
            TokenKind::Percent => ("%", 9),
            _ => return None,
        })
    }

    fn unary(&mut self, live: bool) -> Value {
        let tokens = self.tokens;
        let Some(token) = tokens.get(self.at) else {
            return self.unexpected();
        };
        self.at += 1;
        match token.kind {
            TokenKind::Not => Ok(i128::from(self.nested(|e| e.unary(live))? == 0)),
            TokenKind::Tilde => Ok(!self.nested(|e| e.unary(live))?),
            TokenKind::Minus => Ok(self.nested(|e| e.unary(live))?.wrapping_neg()),
            TokenKind::Plus => self.nested(|e| e.unary(live)),
            TokenKind::LeftParen => {
                let value = self.nested(|e| e.ternary(live))?;
                if self.eat(TokenKind::RightParen) {
                    Ok(value)
                } else {
                    self.unexpected()
                }
            }
            TokenKind::Integer => integer(self.text(token.symbol)).ok_or_else(|| {
                (
                    token.span,
                    format!(
                        "`{}` is not a number that a condition may have",
                        self.text(token.symbol)
                    ),
                )
            }),
            TokenKind::True => Ok(1),
            // A name that is not a macro counts as 0, as in C.
            _ if token.is_word() => Ok(0),
            _ => {
                self.at -= 1;
                self.unexpected()
            }
        }
    }
}

fn apply(operator: &str, a: i128, b: i128, live: bool) -> Result<i128, &'static str> {
    let shift = || {
        u32::try_from(b)
            .ok()
            .filter(|&n| n < 64)
            .ok_or("a shift in a condition must be by 0 to 63")
    };
    let overflow = "this number is too large for a condition";
    let value = match operator {
        "||" => Some(i128::from(a != 0 || b != 0)),
        "&&" => Some(i128::from(a != 0 && b != 0)),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "==" => Some(i128::from(a == b)),
        "!=" => Some(i128::from(a != b)),
        "<" => Some(i128::from(a < b)),
        ">" => Some(i128::from(a > b)),
        "<=" => Some(i128::from(a <= b)),
        ">=" => Some(i128::from(a >= b)),
        _ if !live => Some(0),
        "<<" => a.checked_mul(1i128 << shift()?),
        ">>" => Some(a >> shift()?),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        _ if b == 0 => return Err("division by zero in a condition"),
        "/" => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    value.ok_or(overflow)
}

/// Parses a C integer (a leading 0 is octal, `u` and `l` are suffixes) or a P4 integer, ignoring
/// its width.
fn integer(text: &str) -> Option<i128> {
    let text = text.replace('_', "");
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let text = text
        .split_once(['w', 's'])
        .map_or(text, |(_, digits)| digits);
    let base = |radix, digits: &str| i128::from_str_radix(digits, radix).ok();
    match text.get(..2) {
        Some("0x" | "0X") => base(16, &text[2..]),
        Some("0b" | "0B") => base(2, &text[2..]),
        Some("0o" | "0O") => base(8, &text[2..]),
        Some("0d" | "0D") => base(10, &text[2..]),
        _ if text.len() > 1 && text.starts_with('0') => base(8, text),
        _ => base(10, text),
    }
}

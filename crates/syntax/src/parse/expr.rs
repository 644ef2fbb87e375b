//! Expressions, by precedence climbing.

use std::sync::Arc;

use super::cursor::{Parse, Parser};
use crate::ast::{
    Arg, BinaryOp, Expr, ExprKind, IntLiteral, Keyset, KeysetElement, TypeRef, UnaryOp,
};
use crate::source::Span;
use crate::token::Class;

/// Returns a binary operator and its precedence. All are left associative.
fn binary(text: &str) -> Option<(BinaryOp, u8)> {
    Some(match text {
        "||" => (BinaryOp::LogicalOr, 1),
        "&&" => (BinaryOp::LogicalAnd, 2),
        "==" => (BinaryOp::Eq, 3),
        "!=" => (BinaryOp::Ne, 3),
        "<" => (BinaryOp::Lt, 4),
        ">" => (BinaryOp::Gt, 4),
        "<=" => (BinaryOp::Le, 4),
        ">=" => (BinaryOp::Ge, 4),
        "|" => (BinaryOp::Or, 5),
        "^" => (BinaryOp::Xor, 6),
        "&" => (BinaryOp::And, 7),
        "<<" => (BinaryOp::Shl, 8),
        ">>" => (BinaryOp::Shr, 8),
        "++" => (BinaryOp::Concat, 9),
        "+" => (BinaryOp::Add, 9),
        "-" => (BinaryOp::Sub, 9),
        "|+|" => (BinaryOp::AddSat, 9),
        "|-|" => (BinaryOp::SubSat, 9),
        "*" => (BinaryOp::Mul, 10),
        "/" => (BinaryOp::Div, 10),
        "%" => (BinaryOp::Mod, 10),
        _ => return None,
    })
}

fn expr(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

/// Limit on consecutive calls: `f()()`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// No limit, in an expression.
    Any,
    /// A call statement ends with its only call.
    One,
}

impl Parser<'_> {
    /// Parses `expression`.
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        self.deeper(|p| {
            let cond = p.binary_expr(1)?;
            if !p.eat("?") {
                return Ok(cond);
            }
            let mut height = p.height;
            let then = p.expr()?;
            height = height.max(p.height);
            p.expect(":")?;
            let otherwise = p.expr()?;
            p.grow(height.max(p.height))?;
            let span = p.since(cond.span);
            Ok(expr(
                ExprKind::Ternary(Box::new(cond), Box::new(then), Box::new(otherwise)),
                span,
            ))
        })
    }

    /// Parses an expression that a `>` outside parentheses ends.
    pub(super) fn width_expr(&mut self) -> Parse<Expr> {
        self.with_angle_ending(true, |p| p.expr())
    }

    /// Runs a production in which a `>` ends the expression, or does not.
    fn with_angle_ending<T>(
        &mut self,
        ends: bool,
        production: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<T> {
        let before = std::mem::replace(&mut self.angle_ends, ends);
        let result = production(self);
        self.angle_ends = before;
        result
    }

    fn binary_expr(&mut self, least: u8) -> Parse<Expr> {
        let mut left = self.unary_expr()?;
        while self.kind() == Class::Punctuation
            && let Some((op, binds)) = binary(self.text())
            && binds >= least
            && !(self.angle_ends && matches!(op, BinaryOp::Gt | BinaryOp::Shr))
            && !(op == BinaryOp::Add && self.text_at(self.index() + 1) == ":")
        {
            self.bump();
            let height = self.height;
            let right = self.binary_expr(binds + 1)?;
            self.grow(height.max(self.height))?;
            let span = self.since(left.span);
            left = expr(ExprKind::Binary(op, Box::new(left), Box::new(right)), span);
        }
        Ok(left)
    }

    fn unary_expr(&mut self) -> Parse<Expr> {
        let start = self.span();
        if self.kind() == Class::Punctuation {
            let op = match self.text() {
                "!" => Some(UnaryOp::Not),
                "~" => Some(UnaryOp::Complement),
                "-" => Some(UnaryOp::Neg),
                "+" => Some(UnaryOp::Plus),
                _ => None,
            };
            if let Some(op) = op {
                self.bump();
                let operand = self.deeper(|p| p.unary_expr())?;
                self.grow(self.height)?;
                return Ok(expr(
                    ExprKind::Unary(op, Box::new(operand)),
                    self.since(start),
                ));
            }
            if self.text() == "(" && self.is_cast() {
                self.bump();
                let ty = self.type_ref()?;
                self.expect(")")?;
                let operand = self.deeper(|p| p.unary_expr())?;
                self.grow(self.height)?;
                return Ok(expr(
                    ExprKind::Cast(Box::new(ty), Box::new(operand)),
                    self.since(start),
                ));
            }
        }
        self.postfix_expr(Calls::Any)
    }

    /// Returns true if `(` begins a cast: a type, `)`, and a token that can begin an operand. A
    /// single name counts as a type if it was declared as one. An undeclared name counts as a type
    /// if the following token could not continue an expression.
    fn is_cast(&self) -> bool {
        let first = self.index() + 1;
        let Some(close) = self.skip_type(first) else {
            return false;
        };
        if self.text_at(close) != ")" || self.kind_at(close) != Class::Punctuation {
            return false;
        }
        let name = if self.text_at(first) == "." {
            first + 1
        } else {
            first
        };
        // A name, or a name with `[n]`: either a stack element or a type of stacks.
        let lone = self.is_name_at(name) && matches!(self.text_at(name + 1), ")" | "[");
        if !lone || self.is_type_name(self.text_at(name)) {
            return true;
        }
        if self.is_value_name(self.text_at(name)) {
            return false;
        }
        match self.kind_at(close + 1) {
            Class::Word => {
                self.is_name_at(close + 1)
                    || matches!(self.text_at(close + 1), "true" | "false" | "this")
            }
            Class::Integer | Class::String => true,
            Class::Punctuation => matches!(self.text_at(close + 1), "(" | "{" | "~" | "!"),
            Class::End => false,
        }
    }

    /// Parses a primary expression with members, indices and calls after it.
    pub(super) fn postfix_expr(&mut self, calls: Calls) -> Parse<Expr> {
        let start = self.span();
        self.height = 1;
        let mut left = self.primary_expr()?;
        loop {
            let height = self.height;
            if self.kind() != Class::Punctuation {
                return Ok(left);
            }
            let kind = match self.text() {
                "." => {
                    self.bump();
                    let name = self.name()?;
                    ExprKind::Member(Box::new(left), name)
                }
                "[" => self.index_or_slice(left)?,
                "(" => {
                    let args = self.args()?;
                    ExprKind::Call {
                        callee: Box::new(left),
                        type_args: Vec::new(),
                        args,
                    }
                }
                "<" if self.is_generic_call() => {
                    let type_args = self.type_args()?;
                    let args = self.args()?;
                    ExprKind::Call {
                        callee: Box::new(left),
                        type_args,
                        args,
                    }
                }
                _ => return Ok(left),
            };
            self.grow(height.max(self.height))?;
            let is_call = matches!(kind, ExprKind::Call { .. });
            left = expr(kind, self.since(start));
            if is_call && calls == Calls::One {
                return Ok(left);
            }
        }
    }

    /// Returns true if `<` begins type arguments of a call: the first one is not a value, they are
    /// closed, and `(` follows.
    fn is_generic_call(&self) -> bool {
        let first = self.text_at(self.index() + 1);
        !self.is_value_name(first)
            && self
                .skip_type_args(self.index())
                .is_some_and(|end| self.text_at(end) == "(")
    }

    fn index_or_slice(&mut self, base: Expr) -> Parse<ExprKind> {
        self.expect("[")?;
        let (first, height) = (self.expr()?, self.height);
        let base = Box::new(base);
        if self.eat("]") {
            return Ok(ExprKind::Index(base, Box::new(first)));
        }
        if self.is("+") && self.text_at(self.index() + 1) == ":" {
            self.bump();
            self.bump();
            let width = self.expr()?;
            self.height = self.height.max(height);
            self.expect("]")?;
            return Ok(ExprKind::PlusSlice(base, Box::new(first), Box::new(width)));
        }
        if !self.eat(":") {
            return Err(self.unexpected("`]` or `:`"));
        }
        let low = self.expr()?;
        self.height = self.height.max(height);
        self.expect("]")?;
        Ok(ExprKind::Slice(base, Box::new(first), Box::new(low)))
    }

    fn primary_expr(&mut self) -> Parse<Expr> {
        let start = self.span();
        match self.kind() {
            Class::Integer => return self.integer(),
            Class::String => return self.string(),
            Class::Punctuation => match self.text() {
                "(" => {
                    self.bump();
                    let inner = self.with_angle_ending(false, |p| p.expr())?;
                    self.expect(")")?;
                    return Ok(expr(inner.kind, self.since(start)));
                }
                "{" => return self.braces(),
                "{#}" => {
                    self.bump();
                    return Ok(expr(ExprKind::InvalidHeader, start));
                }
                "..." => {
                    self.bump();
                    return Ok(expr(ExprKind::Default, start));
                }
                "." => return self.name_expr(),
                _ => {}
            },
            Class::Word => match self.text() {
                "true" | "false" => {
                    let value = self.text() == "true";
                    self.bump();
                    return Ok(expr(ExprKind::Bool(value), start));
                }
                "this" => {
                    self.bump();
                    return Ok(expr(ExprKind::This, start));
                }
                "error" | "match_kind" if self.text_at(self.index() + 1) == "." => {
                    let ty = self.type_ref_name();
                    return Ok(expr(ExprKind::TypeName(Box::new(ty)), start));
                }
                _ if self.is_name() => return self.name_expr(),
                _ => {}
            },
            Class::End => {}
        }
        Err(self.unexpected("an expression"))
    }

    /// Parses `error` or `match_kind` before a dot.
    fn type_ref_name(&mut self) -> TypeRef {
        let span = self.span();
        let is_error = self.text() == "error";
        self.bump();
        if is_error {
            TypeRef::Error(span)
        } else {
            TypeRef::MatchKind(span)
        }
    }

    /// Parses a name, or a specialised type before `(` (a constructor) or `.apply`.
    fn name_expr(&mut self) -> Parse<Expr> {
        let start = self.span();
        let path = self.path("a name")?;
        if self.is("<")
            && self.is_type_name(path.name.as_str())
            && let Some(end) = self.skip_type_args(self.index())
            && matches!(self.text_at(end), "(" | ".")
        {
            let args = self.type_args()?;
            let ty = TypeRef::Specialized(path, args, self.since(start));
            return Ok(expr(ExprKind::TypeName(Box::new(ty)), self.since(start)));
        }
        let is_used_as_type = matches!(self.text(), "(" | "." | "<");
        // `.name` is resolved at the top level, even if it is shadowed here.
        let is_type = !path.absolute && self.is_type_name(path.name.as_str());
        if is_type && (!is_used_as_type || self.is_compared_type()) {
            let expected = format!("`(` or `.` behind the type `{}`", path.name.text);
            return Err(self.unexpected(&expected));
        }
        Ok(expr(ExprKind::Name(path), self.since(start)))
    }

    /// Returns true if the `<` after a type's name does not begin type arguments.
    fn is_compared_type(&self) -> bool {
        self.is("<") && self.skip_type_args(self.index()).is_none()
    }

    /// Parses `{ .. }`: a list or a record.
    fn braces(&mut self) -> Parse<Expr> {
        let start = self.expect("{")?;
        let is_record = self.is_name() && self.text_at(self.index() + 1) == "=";
        let kind = if is_record {
            self.record_fields()?
        } else {
            self.list_elements()?
        };
        Ok(expr(kind, self.since(start)))
    }

    fn record_fields(&mut self) -> Parse<ExprKind> {
        let mut rest_default = false;
        let fields = self.separated("}", true, |p| {
            let span = p.span();
            if rest_default {
                return Err(p.error(span, "`...` must be the last element"));
            }
            if p.eat("...") {
                rest_default = true;
                return Ok(None);
            }
            let name = p.name()?;
            p.expect("=")?;
            Ok(Some((name, p.expr()?)))
        })?;
        Ok(ExprKind::Record {
            fields: fields.into_iter().flatten().collect(),
            rest_default,
        })
    }

    fn list_elements(&mut self) -> Parse<ExprKind> {
        let mut rest_default = false;
        let mut elements = self.separated("}", true, |p| {
            if rest_default {
                let span = p.last_span();
                return Err(p.error(span, "`...` must be the last element"));
            }
            let element = p.expr()?;
            rest_default = matches!(element.kind, ExprKind::Default);
            Ok(element)
        })?;
        if rest_default {
            elements.pop();
        }
        Ok(ExprKind::List {
            elements,
            rest_default,
        })
    }

    /// Parses `(arguments)`.
    pub(super) fn args(&mut self) -> Parse<Vec<Arg>> {
        self.expect("(")?;
        self.with_angle_ending(false, |p| p.separated(")", false, |p| p.arg()))
    }

    fn arg(&mut self) -> Parse<Arg> {
        let start = self.span();
        let named = self.is_name() && self.text_at(self.index() + 1) == "=";
        let name = if named {
            let name = self.name()?;
            self.expect("=")?;
            Some(name)
        } else {
            None
        };
        let value = if self.is("_") && self.kind() == Class::Word {
            self.bump();
            None
        } else {
            Some(self.expr()?)
        };
        Ok(Arg {
            name,
            value,
            span: self.since(start),
        })
    }

    pub(super) fn string(&mut self) -> Parse<Expr> {
        let span = self.span();
        let text = self
            .token()
            .map_or_else(|| Arc::from(""), |token| self.meaning_of(token));
        self.bump();
        Ok(expr(ExprKind::String(text), span))
    }

    /// Parses an integer literal.
    pub(super) fn integer(&mut self) -> Parse<Expr> {
        let span = self.span();
        if self.kind() != Class::Integer {
            return Err(self.unexpected("a number"));
        }
        let literal = int_literal(self.text());
        self.bump();
        match literal {
            Ok(literal) => Ok(expr(ExprKind::Int(literal), span)),
            Err(message) => {
                self.report(crate::diag::Diagnostic::error("E0104", span, message));
                Ok(expr(ExprKind::Error, span))
            }
        }
    }

    /// Parses `keysetExpression`.
    pub(super) fn keyset(&mut self) -> Parse<Keyset> {
        let start = self.span();
        if self.is("(") && self.is_keyset_tuple() {
            self.bump();
            let elements = self.separated(")", false, |p| p.keyset_element())?;
            return Ok(Keyset {
                elements,
                parenthesised: true,
                span: self.since(start),
            });
        }
        let element = self.keyset_element()?;
        Ok(Keyset {
            elements: vec![element],
            parenthesised: false,
            span: self.since(start),
        })
    }

    /// Returns true if the parentheses here enclose a keyset and are not part of an expression: `:`
    /// follows them, and they are not a cast.
    fn is_keyset_tuple(&self) -> bool {
        self.skip_balanced(self.index())
            .is_some_and(|end| self.text_at(end) == ":")
    }

    fn keyset_element(&mut self) -> Parse<KeysetElement> {
        let span = self.span();
        if self.eat("default") {
            return Ok(KeysetElement::Default(span));
        }
        if self.eat("_") {
            return Ok(KeysetElement::DontCare(span));
        }
        Ok(KeysetElement::Expr(self.set_expr()?))
    }

    /// Parses an expression, `a &&& b` or `a .. b`.
    pub(super) fn set_expr(&mut self) -> Parse<Expr> {
        let left = self.expr()?;
        let op = match self.text() {
            "&&&" => BinaryOp::Mask,
            ".." => BinaryOp::Range,
            _ => return Ok(left),
        };
        self.bump();
        let right = self.expr()?;
        let span = self.since(left.span);
        Ok(expr(
            ExprKind::Binary(op, Box::new(left), Box::new(right)),
            span,
        ))
    }
}

/// Parses `[width w|s] [0x|0o|0b|0d] digits`, with underscores anywhere between digits.
fn int_literal(text: &str) -> Result<IntLiteral, String> {
    let (width, number) = match text.find(['w', 's']) {
        Some(at) => {
            let signed = text.as_bytes()[at] == b's';
            let width = text[..at].replace('_', "").parse::<u32>();
            let width = width.map_err(|_| format!("the width of `{text}` is too large"))?;
            (Some((width, signed)), &text[at + 1..])
        }
        None => (None, text),
    };
    let (radix, digits) = match number.get(..2).unwrap_or_default() {
        "0x" | "0X" => (16, &number[2..]),
        "0o" | "0O" => (8, &number[2..]),
        "0b" | "0B" => (2, &number[2..]),
        "0d" | "0D" => (10, &number[2..]),
        _ => (10, number),
    };
    let digits = digits.replace('_', "");
    if let Some(bad) = digits.chars().find(|c| !c.is_digit(radix)) {
        return Err(format!("`{bad}` is no digit of a number in base {radix}"));
    }
    if digits.is_empty() {
        return Err(format!("`{text}` has no digits"));
    }
    Ok(IntLiteral {
        digits: digits.into(),
        radix,
        width,
    })
}

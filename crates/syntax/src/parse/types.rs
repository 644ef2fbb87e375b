//! Types, and lookahead over them, which decides whether `a < b` compares or specialises.

use super::cursor::{Failed, Parse, Parser};
use crate::ast::{Expr, Name, Path, TypeRef};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::token::Class;

/// Maximum number of `[n]` after a type.
const MAX_DIMENSIONS: usize = 32;

/// Maximum nesting depth of type arguments in lookahead. Deeper ones do not count as type
/// arguments.
const MAX_TYPE_DEPTH: usize = 64;

impl Parser<'_> {
    /// Parses `typeRef`, including array types.
    pub(super) fn type_ref(&mut self) -> Parse<TypeRef> {
        self.deeper(|p| {
            let start = p.span();
            let ty = p.simple_type()?;
            p.array_of(ty, start)
        })
    }

    /// Parses `[n]` after a name with a type, as in C.
    pub(super) fn array_suffix(&mut self, ty: TypeRef) -> Parse<TypeRef> {
        let start = self.span();
        self.array_of(ty, start)
    }

    fn array_of(&mut self, mut ty: TypeRef, start: Span) -> Parse<TypeRef> {
        for size in self.sizes()? {
            ty = TypeRef::Array(Box::new(ty), Box::new(size), self.since(start));
        }
        Ok(ty)
    }

    /// Parses any number of `[n]`.
    pub(super) fn sizes(&mut self) -> Parse<Vec<Expr>> {
        let mut sizes = Vec::new();
        while self.eat("[") {
            if sizes.len() == MAX_DIMENSIONS {
                let message = format!("an array has at most {MAX_DIMENSIONS} dimensions");
                return Err(self.error(self.last_span(), message));
            }
            sizes.push(self.expr()?);
            self.expect("]")?;
        }
        Ok(sizes)
    }

    fn simple_type(&mut self) -> Parse<TypeRef> {
        let start = self.span();
        let word = if self.kind() == Class::Word {
            self.text()
        } else {
            ""
        };
        let plain: fn(Span) -> TypeRef = match word {
            "bool" => TypeRef::Bool,
            "error" => TypeRef::Error,
            "match_kind" => TypeRef::MatchKind,
            "string" => TypeRef::String,
            "void" => TypeRef::Void,
            "bit" | "int" | "varbit" => return self.sized_type(word),
            "tuple" => {
                self.bump();
                let args = self.type_args()?;
                return Ok(TypeRef::Tuple(args, self.since(start)));
            }
            "list" if self.text_at(self.index() + 1) == "<" => {
                self.bump();
                let mut args = self.type_args()?;
                let span = self.since(start);
                return match (args.pop(), args.is_empty()) {
                    (Some(element), true) => Ok(TypeRef::List(Box::new(element), span)),
                    _ => Err(self.error(span, "`list` takes one type")),
                };
            }
            _ => return self.named_type(),
        };
        self.bump();
        Ok(plain(start))
    }

    /// Parses `bit`, `bit<8>`, `bit<(expression)>`, `int`, `int<8>` or `varbit<8>`.
    fn sized_type(&mut self, word: &str) -> Parse<TypeRef> {
        let start = self.span();
        self.bump();
        if !self.eat("<") {
            return match word {
                "bit" => Ok(TypeRef::Bit(None, start)),
                "int" => Ok(TypeRef::Integer(start)),
                _ => Err(self.unexpected("`<` and a width")),
            };
        }
        self.refuse_type_as_width(word)?;
        let width = self.width_expr()?;
        self.expect(">")?;
        let (width, span) = (Box::new(width), self.since(start));
        Ok(match word {
            "bit" => TypeRef::Bit(Some(width), span),
            "int" => TypeRef::Int(width, span),
            _ => TypeRef::Varbit(width, span),
        })
    }

    /// Rejects a type parameter as a width: widths are numbers (section 7.1.6).
    fn refuse_type_as_width(&mut self, word: &str) -> Parse<()> {
        let name = self.text();
        let is_last = matches!(self.text_at(self.index() + 1), ">" | ">>");
        if !(self.is_name() && is_last && self.is_type_name(name)) {
            return Ok(());
        }
        let message = format!("the width of `{word}<{name}>` is a number, but `{name}` is a type");
        let hint = format!(
            "a type parameter stands for the whole type: write `{name}` in place of `{word}<{name}>`"
        );
        let diagnostic = Diagnostic::error("E0121", self.span(), message);
        self.report(diagnostic.hint(hint));
        Err(Failed)
    }

    fn named_type(&mut self) -> Parse<TypeRef> {
        let start = self.span();
        let path = self.path("a type")?;
        if self.is("<") {
            let args = self.type_args()?;
            return Ok(TypeRef::Specialized(path, args, self.since(start)));
        }
        Ok(TypeRef::Name(path))
    }

    /// Parses `name` or `.name`.
    pub(super) fn path(&mut self, what: &str) -> Parse<Path> {
        let absolute = self.eat(".");
        if !self.is_name() {
            return Err(self.unexpected(what));
        }
        Ok(Path {
            absolute,
            name: self.any_word(),
        })
    }

    /// Parses the type arguments `<T, U>`.
    pub(super) fn type_args(&mut self) -> Parse<Vec<TypeRef>> {
        self.expect("<")?;
        self.separated(">", false, |p| {
            let span = p.span();
            if p.eat("_") {
                Ok(TypeRef::DontCare(span))
            } else {
                p.type_ref()
            }
        })
    }

    /// Parses the type parameters `<T, U>`; empty if there are none.
    pub(super) fn type_params(&mut self) -> Parse<Vec<Name>> {
        if !self.eat("<") {
            return Ok(Vec::new());
        }
        let names = self.separated(">", false, |p| p.name())?;
        names.iter().for_each(|name| self.declare_type(name));
        Ok(names)
    }

    /// Returns the end of a type that starts at `index`, without consuming it.
    pub(super) fn skip_type(&self, index: usize) -> Option<usize> {
        let mut at = self.skip_simple_type(index)?;
        while self.text_at(at) == "[" {
            let behind = self.skip_balanced(at)?;
            if self.is_slice(at, behind) {
                return None;
            }
            at = behind;
        }
        Some(at)
    }

    /// Returns true if the brackets from `open` to `behind` contain `high:low` or `low+:width`.
    fn is_slice(&self, open: usize, behind: usize) -> bool {
        let (mut at, mut questions) = (open + 1, 0usize);
        while at + 1 < behind {
            match self.text_at(at) {
                "(" | "[" | "{" => match self.skip_balanced(at) {
                    Some(next) => at = next - 1,
                    None => return false,
                },
                "?" => questions += 1,
                ":" if questions == 0 => return true,
                ":" => questions -= 1,
                _ => {}
            }
            at += 1;
        }
        false
    }

    fn skip_simple_type(&self, index: usize) -> Option<usize> {
        if self.kind_at(index) != Class::Word && self.text_at(index) != "." {
            return None;
        }
        match self.text_at(index) {
            "bool" | "error" | "match_kind" | "string" | "void" | "_" => Some(index + 1),
            "bit" | "int" | "varbit" => match self.text_at(index + 1) {
                "<" => self.skip_width(index + 1),
                _ => Some(index + 1),
            },
            "tuple" => self.skip_type_args(index + 1),
            text => {
                let name = if text == "." { index + 1 } else { index };
                if !self.is_name_at(name) {
                    return None;
                }
                match self.text_at(name + 1) {
                    "<" => self.skip_type_args(name + 1).or(Some(name + 1)),
                    _ => Some(name + 1),
                }
            }
        }
    }

    /// Skips `<8>`, `<(..)>` or `<a + b>`.
    fn skip_width(&self, index: usize) -> Option<usize> {
        let mut at = index + 1;
        loop {
            match self.text_at(at) {
                ">" => return Some(at + 1),
                "(" | "[" => at = self.skip_balanced(at)?,
                ">>" | ";" | "{" | "}" | "=" | "" => return None,
                _ => at += 1,
            }
        }
    }

    /// Returns the end of `<T, U>` that starts at `index`; a `>>` counts as two.
    pub(super) fn skip_type_args(&self, index: usize) -> Option<usize> {
        let mut depth = 0usize;
        // The depth inside the width of a `bit<..>`. The width may be any expression, and a `<` in
        // it compares.
        let mut width: Option<usize> = None;
        let mut at = index;
        loop {
            width = width.filter(|width| *width <= depth);
            let in_width = width == Some(depth);
            match self.text_at(at) {
                "<" if !in_width => {
                    depth += 1;
                    if depth > MAX_TYPE_DEPTH {
                        return None;
                    }
                    let sized =
                        at > index && matches!(self.text_at(at - 1), "bit" | "int" | "varbit");
                    width = if sized { Some(depth) } else { width };
                }
                ">" => depth = depth.checked_sub(1)?,
                ">>" => depth = depth.checked_sub(2)?,
                "(" | "[" => {
                    at = self.skip_balanced(at)?;
                    continue;
                }
                ";" | "{" | "}" | "=" | "" => return None,
                "," | "." | "_" => {}
                _ if in_width || self.kind_at(at) == Class::Integer => {}
                word if self.is_name_at(at) || is_type_word(word) => {}
                _ => return None,
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }

    /// Returns the index after the bracket that closes the one at `index`.
    pub(super) fn skip_balanced(&self, index: usize) -> Option<usize> {
        let mut depth = 0usize;
        let mut at = index;
        loop {
            if self.kind_at(at) == Class::End {
                return None;
            }
            match self.text_at(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

/// Returns true for keywords that begin a type.
pub(super) fn is_type_word(word: &str) -> bool {
    matches!(
        word,
        "bool" | "error" | "match_kind" | "string" | "void" | "bit" | "int" | "varbit" | "tuple"
    )
}

//! Expressions and places.

use bits::Value;
use ir::{
    BinOp, DataTy, Dim, EnumId, Expr, FieldId, HeaderId, HeaderPlace, Place, ScalarTy, StackId,
    UnOp,
};

use super::PrintError;
use super::body::{Body, Out};
use super::storage::FieldHome;

/// Maximum number of elements of an array with a run-time index that P4 cannot index.
pub(super) const MAX_CHOICES: usize = 1024;

/// Text of an expression, and the operators that it may be an operand of without parentheses.
pub(super) struct Term {
    pub(super) text: String,
    level: Level,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// A binary operation or a conditional.
    Open,
    /// A prefix operation or cast.
    Prefix,
    /// A name, call, constant or slice.
    Primary,
}

impl Term {
    fn new(level: Level, text: impl Into<String>) -> Term {
        Term {
            text: text.into(),
            level,
        }
    }

    pub(super) fn primary(text: impl Into<String>) -> Term {
        Term::new(Level::Primary, text)
    }

    fn prefix(text: impl Into<String>) -> Term {
        Term::new(Level::Prefix, text)
    }

    fn open(text: impl Into<String>) -> Term {
        Term::new(Level::Open, text)
    }

    /// Returns the text as an operand of a binary operation.
    pub(super) fn operand(self) -> String {
        match self.level {
            Level::Open => format!("({})", self.text),
            _ => self.text,
        }
    }

    /// Returns the text as an operand of a cast or slice.
    pub(super) fn tight(self) -> String {
        match self.level {
            Level::Primary => self.text,
            _ => format!("({})", self.text),
        }
    }
}

/// Places that a place with run-time indices may denote.
pub(super) enum Choices<T> {
    /// Only one.
    One(T),
    /// Each with the condition of its indices. None is chosen if an index is out of range.
    Many(Vec<(String, T)>),
}

impl Body<'_> {
    /// Returns the text of an expression.
    pub(super) fn text(&self, expr: &Expr) -> Result<String, PrintError> {
        Ok(self.term(expr)?.text)
    }

    pub(super) fn ty(&self, expr: &Expr) -> Result<ScalarTy, PrintError> {
        expr.ty(self.program, self.action)
            .ok_or_else(|| self.error("an expression without a type"))
    }

    pub(super) fn term(&self, expr: &Expr) -> Result<Term, PrintError> {
        Ok(match expr {
            Expr::Const(ty, value) => self.constant(*ty, value)?,
            Expr::Read(place) => self.read(place)?,
            Expr::Param(at) => self.param(*at)?,
            Expr::Unary(op, a) => {
                let sign = match op {
                    UnOp::Neg => "-",
                    UnOp::Complement => "~",
                    UnOp::Not => "!",
                };
                Term::prefix(format!("{sign}{}", self.term(a)?.tight()))
            }
            Expr::Binary(op, a, b) => {
                if let Some(index) = self.last_index(expr) {
                    return Ok(index);
                }
                let (a, b) = (self.term(a)?.operand(), self.term(b)?.operand());
                Term::open(format!("{a} {} {b}", operator(*op)))
            }
            Expr::Concat(a, b) => {
                let (a, b) = (self.term(a)?.operand(), self.term(b)?.operand());
                Term::open(format!("{a} ++ {b}"))
            }
            Expr::Slice(a, hi, lo) => {
                Term::primary(format!("{}[{hi}:{lo}]", self.term(a)?.tight()))
            }
            Expr::Cast(to, a) => {
                let from = self.ty(a)?;
                let a = self.term(a)?;
                self.cast(from, *to, a)?
            }
            Expr::Ternary(c, a, b) => {
                let c = self.term(c)?.operand();
                let (a, b) = (self.term(a)?.operand(), self.term(b)?.operand());
                Term::open(format!("{c} ? {a} : {b}"))
            }
            Expr::VarbitEq(a, b) => {
                let (a, b) = (self.varbit(a)?, self.varbit(b)?);
                Term::open(format!("{a} == {b}"))
            }
            Expr::VarbitLen(_) => return Err(self.error("the length of a `varbit`")),
        })
    }

    /// Returns `lastIndex` of a stack, if an expression is that.
    fn last_index(&self, expr: &Expr) -> Option<Term> {
        let Expr::Binary(BinOp::Sub, next, _) = expr else {
            return None;
        };
        let Expr::Read(next) = &**next else {
            return None;
        };
        match self.storage.field(next.base) {
            FieldHome::Next(stack) if self.is_parser() => {
                let is_last = native_index(expr, next.base) == Some(false);
                let path = self.storage.stack(*stack);
                is_last.then(|| Term::primary(format!("{path}.lastIndex")))
            }
            _ => None,
        }
    }

    fn param(&self, at: u32) -> Result<Term, PrintError> {
        let param = self
            .action
            .and_then(|action| action.params.get(at as usize))
            .zip(self.params.get(at as usize));
        let (param, name) = param.ok_or_else(|| self.error("a parameter outside of an action"))?;
        Ok(self.scalar_of_named(&param.data_ty, name.clone()))
    }

    /// Returns a value of a type that the control plane sees, as a scalar.
    pub(super) fn scalar_of_named(&self, ty: &DataTy, text: String) -> Term {
        match self.types.is_named_scalar(ty) {
            true => Term::prefix(self.types.cast_from(ty, text)),
            false => Term::primary(text),
        }
    }

    /// Returns a scalar as a value of a type that the control plane sees.
    pub(super) fn value_of_named(&self, ty: &DataTy, term: Term) -> Term {
        match self.types.is_named_scalar(ty) {
            true => Term::prefix(self.types.cast_to(ty, term.tight())),
            false => term,
        }
    }

    /// Returns a constant.
    pub(super) fn constant(&self, ty: ScalarTy, value: &Value) -> Result<Term, PrintError> {
        let number = value.to_u64();
        Ok(match ty {
            ScalarTy::Bool => Term::primary(if value.is_zero() { "false" } else { "true" }),
            ScalarTy::Bit(0) | ScalarTy::Int(0) => {
                return Err(self.error("a value without bits"));
            }
            ScalarTy::Bit(width) => Term::primary(literal(width, 'w', value)),
            ScalarTy::Int(width) => {
                let is_negative = bits::limbs::is_negative(value.limbs(), width);
                let magnitude = value.neg();
                match is_negative {
                    false => Term::primary(literal(width, 's', value)),
                    true if magnitude == *value => {
                        Term::prefix(format!("(int<{width}>){}", literal(width, 'w', value)))
                    }
                    true => Term::prefix(format!("-{}", literal(width, 's', &magnitude))),
                }
            }
            ScalarTy::Error => {
                let name = number
                    .and_then(|number| self.program.errors.get(usize::try_from(number).ok()?));
                let name = name.ok_or_else(|| self.error("an unknown error code"))?;
                Term::primary(format!("error.{name}"))
            }
            ScalarTy::Enum(id) => {
                let members = &self.program.enums[id].members;
                let member = number.and_then(|number| members.get(usize::try_from(number).ok()?));
                let member =
                    member.ok_or_else(|| self.error("a value that is no member of its enum"))?;
                Term::primary(format!("{}.{member}", self.types.enum_ident(id)))
            }
            ScalarTy::Varbit(_) => return Err(self.error("a constant `varbit`")),
        })
    }

    fn cast(&self, from: ScalarTy, to: ScalarTy, term: Term) -> Result<Term, PrintError> {
        use ScalarTy::{Bit, Bool, Enum, Error, Int};
        let simple = |ty: ScalarTy, term: Term| {
            Term::prefix(format!("({}){}", self.types.scalar(ty), term.tight()))
        };
        Ok(match (from, to) {
            (from, to) if from == to => term,
            (Bit(_), Bit(_)) | (Int(_), Int(_)) | (Bit(1), Bool) | (Bool, Bit(1)) => {
                simple(to, term)
            }
            (Int(width), Bit(_)) if width == to.width() => simple(to, term),
            (Bit(width), Int(_)) if width == to.width() => simple(to, term),
            (Int(_), Bit(width)) => simple(to, simple(Int(width), term)),
            (Bit(_), Int(width)) => simple(to, simple(Bit(width), term)),
            (Enum(id), Bit(_)) => {
                let names = self.enum_names(id);
                self.numbers(&names, term)
            }
            (Error, Bit(_)) => {
                let names = self.error_names();
                self.numbers(&names, term)
            }
            (Bit(_), Enum(id)) => members(&self.enum_names(id), term),
            (Bit(_), Error) => members(&self.error_names(), term),
            _ => return Err(self.error(format!("a cast of {from:?} to {to:?}"))),
        })
    }

    fn enum_names(&self, id: EnumId) -> Vec<String> {
        let ident = self.types.enum_ident(id);
        let members = self.program.enums[id].members.iter();
        members.map(|member| format!("{ident}.{member}")).collect()
    }

    fn error_names(&self) -> Vec<String> {
        let errors = self.program.errors.iter();
        errors.map(|name| format!("error.{name}")).collect()
    }

    /// Returns the number of a member: one test for each.
    fn numbers(&self, names: &[String], term: Term) -> Term {
        let value = term.operand();
        let Some((_, before)) = names.split_last() else {
            return Term::primary("32w0");
        };
        let mut text = format!("32w{}", before.len());
        for (number, name) in before.iter().enumerate().rev() {
            text = format!("({value} == {name} ? 32w{number} : {text})");
        }
        Term::primary(text)
    }

    fn read(&self, place: &Place) -> Result<Term, PrintError> {
        match self.choices(place)? {
            Choices::One((field, header)) => self.read_field(field, header.as_deref()),
            Choices::Many(all) => {
                let ty = self.program.fields[place.base].ty;
                let zero = Value::zero(ty.width());
                if matches!(ty, ScalarTy::Varbit(_)) {
                    return Err(self.error("a `varbit` with an index known at run time"));
                }
                let mut text = self.constant(ty, &zero)?.operand();
                for (cond, (field, header)) in all.into_iter().rev() {
                    let value = self.read_field(field, header.as_deref())?.operand();
                    text = format!("({cond} ? {value} : {text})");
                }
                Ok(Term::primary(text))
            }
        }
    }

    /// Returns the value of a field. A header's field is that of the header with this text.
    fn read_field(&self, field: FieldId, header: Option<&str>) -> Result<Term, PrintError> {
        Ok(match self.storage.field(field) {
            FieldHome::Path(path) => {
                self.check_path(path)?;
                Term::primary(path.clone())
            }
            FieldHome::Valid(id) => {
                let header = header.unwrap_or_else(|| self.storage.header(*id));
                Term::primary(format!("{header}.isValid()"))
            }
            FieldHome::Member(id, at) => {
                let header = header.unwrap_or_else(|| self.storage.header(*id));
                let ty = self.program.headers[*id].ty;
                let text = format!("{header}.{}", self.types.member(ty, *at));
                self.scalar_of_named(self.types.member_ty(ty, *at), text)
            }
            FieldHome::Next(stack) => {
                if !self.is_parser() {
                    return Err(self.error("`nextIndex` of a stack outside of a parser"));
                }
                Term::open(format!("{}.lastIndex + 32w1", self.storage.stack(*stack)))
            }
        })
    }

    /// Rejects a variable that this block has no parameter for.
    fn check_path(&self, path: &str) -> Result<(), PrintError> {
        use ir::BlockRole::{ComputeChecksum, Deparser, VerifyChecksum};
        let is_standard = path.starts_with("standard_metadata.");
        let is_missing = match self.role {
            VerifyChecksum | ComputeChecksum => is_standard,
            Deparser => is_standard || path.starts_with("meta."),
            _ => false,
        };
        match is_missing {
            true => Err(self.error(format!("`{path}`, which this block has no parameter for"))),
            false => Ok(()),
        }
    }

    pub(super) fn varbit(&self, place: &Place) -> Result<String, PrintError> {
        match self.choices(place)? {
            Choices::One((field, header)) => {
                Ok(self.read_field(field, header.as_deref())?.operand())
            }
            Choices::Many(_) => Err(self.error("a `varbit` with an index known at run time")),
        }
    }

    /// Returns the fields that a place may denote. A field of a header in a stack with a run-time
    /// index has the header's text beside it.
    pub(super) fn choices(
        &self,
        place: &Place,
    ) -> Result<Choices<(FieldId, Option<String>)>, PrintError> {
        if place.dims.is_empty() {
            return Ok(Choices::One((place.base, None)));
        }
        let header = match self.storage.field(place.base) {
            FieldHome::Valid(id) | FieldHome::Member(id, _) => Some(*id),
            FieldHome::Path(_) | FieldHome::Next(_) => None,
        };
        if let Some(header) = header
            && let [dim] = place.dims.as_slice()
            && let Some(stack) = self.indexed_stack(header, dim, dim.len)?
        {
            let width = self.program.header_types[self.program.headers[header].ty]
                .fields
                .len() as u32
                + 1;
            if dim.stride == width || dim.len == 1 {
                return Ok(Choices::One((place.base, Some(stack))));
            }
        }
        let all = self.offsets(&place.dims)?;
        let field = |(cond, offset): (String, u32)| {
            let field = FieldId::new(place.base.get() + offset);
            (cond, (field, None))
        };
        Ok(Choices::Many(all.into_iter().map(field).collect()))
    }

    /// Returns the headers that a place may denote, as text.
    pub(super) fn headers(&self, place: &HeaderPlace) -> Result<Choices<String>, PrintError> {
        if place.dims.is_empty() {
            return Ok(Choices::One(self.storage.header(place.base).to_owned()));
        }
        if let [dim] = place.dims.as_slice()
            && (dim.stride == 1 || dim.len == 1)
            && let Some(header) = self.indexed_stack(place.base, dim, dim.len)?
        {
            return Ok(Choices::One(header));
        }
        let all = self.offsets(&place.dims)?;
        let header = |(cond, offset): (String, u32)| {
            let header = HeaderId::new(place.base.get() + offset);
            (cond, self.storage.header(header).to_owned())
        };
        Ok(Choices::Many(all.into_iter().map(header).collect()))
    }

    /// Returns an element of a whole stack with a run-time index, if the header is its first.
    fn indexed_stack(
        &self,
        header: HeaderId,
        dim: &Dim,
        len: u32,
    ) -> Result<Option<String>, PrintError> {
        let Some(id) = self.storage.stack_of(header) else {
            return Ok(None);
        };
        let stack = &self.program.stacks[id];
        if stack.first != header || stack.len != len {
            return Ok(None);
        }
        let path = self.storage.stack(id);
        if self.is_parser() && self.storage.is_native(id) {
            match native_index(&dim.index, stack.next_index) {
                Some(true) => return Ok(Some(format!("{path}.next"))),
                Some(false) => return Ok(Some(format!("{path}.last"))),
                None => {}
            }
        }
        Ok(Some(format!("{path}[{}]", self.text(&dim.index)?)))
    }

    /// Returns the distance from the base for each choice of indices, with its condition.
    fn offsets(&self, dims: &[Dim]) -> Result<Vec<(String, u32)>, PrintError> {
        let mut all = vec![(String::new(), 0)];
        for dim in dims {
            let width = self.ty(&dim.index)?.width();
            let index = self.term(&dim.index)?.operand();
            let choices = (0..dim.len).filter(|&at| width >= 32 || at >> width == 0);
            let choices: Vec<u32> = choices.collect();
            if all.len() * choices.len() > MAX_CHOICES {
                let message = format!("an array of over {MAX_CHOICES} elements with an index");
                return Err(self.error(message));
            }
            let mut more = Vec::new();
            for (cond, offset) in &all {
                for &at in &choices {
                    let is = format!("{index} == {width}w{at}");
                    let cond = match cond.is_empty() {
                        true => is,
                        false => format!("{cond} && {is}"),
                    };
                    more.push((cond, offset + at * dim.stride));
                }
            }
            all = more;
        }
        Ok(all)
    }

    /// Appends code that writes a scalar to a place.
    pub(super) fn write(
        &self,
        place: &Place,
        value: Term,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        match self.choices(place)? {
            Choices::One((field, header)) => self.write_field(field, header.as_deref(), value, out),
            Choices::Many(all) => {
                let value = value.operand();
                let mut arms = Vec::new();
                for (cond, (field, header)) in all {
                    let mut body = Vec::new();
                    let value = Term::new(Level::Prefix, value.clone());
                    self.write_field(field, header.as_deref(), value, &mut body)?;
                    arms.push((cond, body));
                }
                out.push(Out::If(arms, Vec::new()));
                Ok(())
            }
        }
    }

    fn write_field(
        &self,
        field: FieldId,
        header: Option<&str>,
        value: Term,
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        match self.storage.field(field) {
            FieldHome::Path(path) => {
                self.check_path(path)?;
                out.push(Out::Line(format!("{path} = {};", value.text)));
            }
            FieldHome::Valid(id) => {
                let header = header.unwrap_or_else(|| self.storage.header(*id));
                self.check_write(header)?;
                let set = |word: &str| Out::Line(format!("{header}.{word}();"));
                match value.text.as_str() {
                    "true" => out.push(set("setValid")),
                    "false" => out.push(set("setInvalid")),
                    _ => {
                        let then = vec![set("setValid")];
                        out.push(Out::If(vec![(value.text, then)], vec![set("setInvalid")]));
                    }
                }
            }
            FieldHome::Member(id, at) => {
                let header = header.unwrap_or_else(|| self.storage.header(*id));
                self.check_write(header)?;
                let ty = self.program.headers[*id].ty;
                let value = self
                    .value_of_named(self.types.member_ty(ty, *at), value)
                    .text;
                let member = self.types.member(ty, *at);
                out.push(Out::Line(format!("{header}.{member} = {value};")));
            }
            FieldHome::Next(_) if self.is_parser() => {
                return Err(self.error("an assignment to `nextIndex` of a stack"));
            }
            // No control reads the index of such a stack.
            FieldHome::Next(_) => {}
        }
        Ok(())
    }

    /// Rejects a write to a header in the deparser, which has them as `in` parameter.
    pub(super) fn check_write(&self, header: &str) -> Result<(), PrintError> {
        if self.role == ir::BlockRole::Deparser && header.starts_with("hdr.") {
            let message = format!("a write to `{header}` in the deparser");
            return Err(self.error(message));
        }
        Ok(())
    }

    /// Returns the text of a place that can be an `out` argument as it is: a variable or field of
    /// exactly the scalar type.
    pub(super) fn direct(&self, place: &Place) -> Result<Option<String>, PrintError> {
        let Choices::One((field, header)) = self.choices(place)? else {
            return Ok(None);
        };
        Ok(match self.storage.field(field) {
            FieldHome::Path(path) => Some(path.clone()),
            FieldHome::Member(id, at) => {
                let ty = self.program.headers[*id].ty;
                let is_plain = !self.types.is_named_scalar(self.types.member_ty(ty, *at));
                let header = header.as_deref();
                let header = header.unwrap_or_else(|| self.storage.header(*id));
                is_plain.then(|| format!("{header}.{}", self.types.member(ty, *at)))
            }
            FieldHome::Valid(_) | FieldHome::Next(_) => None,
        })
    }

    /// Returns true for `next` and false for `last`, if a stack's element is selected so.
    pub(super) fn names_native(&self, expr: &Expr, stack: StackId) -> Option<bool> {
        native_index(expr, self.program.stacks[stack].next_index)
    }
}

/// Returns true if an index is `nextIndex`, and false if it is one less.
fn native_index(index: &Expr, next: FieldId) -> Option<bool> {
    let is_next = |expr: &Expr| matches!(expr, Expr::Read(p) if *p == Place::from(next));
    match index {
        index if is_next(index) => Some(true),
        Expr::Binary(BinOp::Sub, a, one) if is_next(a) => match &**one {
            Expr::Const(_, one) if one.to_u64() == Some(1) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the member with a number: one test for each.
fn members(names: &[String], term: Term) -> Term {
    let value = term.operand();
    let Some((last, before)) = names.split_last() else {
        return Term::primary("error.NoError");
    };
    let mut text = last.clone();
    for (number, name) in before.iter().enumerate().rev() {
        text = format!("({value} == 32w{number} ? {name} : {text})");
    }
    Term::primary(text)
}

/// Returns a number with its width: small ones in decimal.
fn literal(width: u32, sign: char, value: &Value) -> String {
    match value.to_u64() {
        Some(small) if small < 1024 => format!("{width}{sign}{small}"),
        _ => format!("{width}{sign}{value}"),
    }
}

fn operator(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::Mod => "%",
        BinOp::AddSaturating => "|+|",
        BinOp::SubSaturating => "|-|",
        BinOp::And => "&",
        BinOp::Or => "|",
        BinOp::Xor => "^",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::Eq => "==",
        BinOp::Ne => "!=",
        BinOp::Lt => "<",
        BinOp::Le => "<=",
        BinOp::Gt => ">",
        BinOp::Ge => ">=",
        BinOp::LogicalAnd => "&&",
        BinOp::LogicalOr => "||",
    }
}

//! Resolves written types, and checks their nesting (section "Type nesting rules").

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};
use syntax::ast::{self, RecordKind, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{EnumId, Ty, TyId, TypeVarId};
use crate::scope::Entity;
use crate::{Checker, Members, code};

/// Maximum width of `bit`, `int` and `varbit` in bits: more than a 9,216-byte frame.
pub(crate) const MAX_WIDTH: u32 = 1 << 17;
/// Maximum number of elements of a header stack or array.
const MAX_ELEMENTS: u32 = 1 << 16;
/// Maximum nesting depth of types.
const MAX_TYPE_DEPTH: u32 = 128;
/// Maximum number of scalars in one type.
const MAX_LEAVES: u64 = 1 << 18;
/// Maximum number of scalars of constants that are written out at uses, in the whole program.
pub(crate) const MAX_CONSTANTS: u64 = 1 << 22;
/// Maximum number of scalars of a default value that is written out.
pub(crate) const MAX_WRITTEN: u64 = 1 << 10;

/// A type with members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Header,
    Union,
    Struct,
    Tuple,
    List,
    Array,
}

impl Container {
    pub(crate) fn of(kind: RecordKind) -> Container {
        match kind {
            RecordKind::Header => Container::Header,
            RecordKind::HeaderUnion => Container::Union,
            RecordKind::Struct => Container::Struct,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Container::Header => "a header",
            Container::Union => "a header union",
            Container::Struct => "a struct",
            Container::Tuple => "a tuple",
            Container::List => "a list",
            Container::Array => "an array",
        }
    }
}

/// A numeric type, an operand of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Num {
    Integer,
    Bit(u32),
    Int(u32),
}

/// Type arguments for type parameters.
pub(crate) type Subst = Vec<(TypeVarId, TyId)>;

impl Checker<'_> {
    /// Resolves the type of a variable, field or parameter.
    pub(crate) fn resolve_type(&mut self, ty: &TypeRef) -> TyId {
        match ty {
            TypeRef::Void(span) => {
                self.error(
                    code::BAD_TYPE,
                    *span,
                    "`void` can only be the result of a function or method",
                );
                self.t.error
            }
            TypeRef::DontCare(span) => {
                self.error(
                    code::BAD_TYPE,
                    *span,
                    "`_` can only stand for a type argument",
                );
                self.t.error
            }
            _ => self.resolve_any(ty),
        }
    }

    /// Resolves the type of a value: no part of it may be `_`.
    pub(crate) fn resolve_closed(&mut self, ty: &TypeRef, span: Span) -> TyId {
        let id = self.resolve_type(ty);
        if self
            .vars_in(id)
            .iter()
            .any(|var| self.dont_care.contains(var))
        {
            self.error(
                code::BAD_TYPE,
                span,
                "`_` cannot be a type argument here: nothing tells what it stands for",
            );
            return self.t.error;
        }
        id
    }

    /// Resolves the return type of a function or method.
    pub(crate) fn resolve_return(&mut self, ty: &TypeRef) -> TyId {
        match ty {
            TypeRef::Void(_) => self.t.void,
            _ => self.resolve_type(ty),
        }
    }

    /// Resolves a type argument; `_` leaves it open.
    pub(crate) fn resolve_type_arg(&mut self, ty: &TypeRef) -> TyId {
        match ty {
            TypeRef::DontCare(span) => self.fresh_dont_care(*span),
            TypeRef::Void(_) => self.t.void,
            _ => self.resolve_any(ty),
        }
    }

    fn fresh_dont_care(&mut self, span: Span) -> TyId {
        let var = self.p.type_vars.push(ast::Name {
            text: "_".into(),
            span,
        });
        self.dont_care.insert(var);
        self.intern(Ty::Var(var))
    }

    fn resolve_any(&mut self, ty: &TypeRef) -> TyId {
        match ty {
            TypeRef::Bool(_) => self.t.boolean,
            TypeRef::Error(span) => {
                if self.p.errors.is_empty() {
                    let message = "no error codes are declared";
                    let diagnostic = Diagnostic::error(code::UNKNOWN_NAME, *span, message);
                    self.report(diagnostic.hint("include core.p4"));
                    return self.t.error;
                }
                self.t.error_code
            }
            TypeRef::MatchKind(_) => self.t.match_kind,
            TypeRef::String(_) => self.t.string,
            TypeRef::Integer(_) => self.t.integer,
            TypeRef::Void(_) | TypeRef::DontCare(_) => self.resolve_type(ty),
            TypeRef::Bit(None, _) => self.intern(Ty::Bit(1)),
            TypeRef::Bit(Some(width), span) => self.sized(width, *span, Ty::Bit),
            TypeRef::Int(width, span) => self.signed(width, *span),
            TypeRef::Varbit(width, span) => self.sized(width, *span, Ty::Varbit),
            TypeRef::Name(path) => self.named(path, None, path.span()),
            TypeRef::Specialized(path, args, span) => {
                let args: Vec<TyId> = args.iter().map(|arg| self.resolve_type_arg(arg)).collect();
                self.named(path, Some(args), *span)
            }
            TypeRef::Array(element, size, span) => self.array(element, size, *span),
            TypeRef::Tuple(elements, span) => self.tuple_type(elements, *span),
            TypeRef::List(element, span) => {
                let element = self.resolve_type(element);
                let ty = self.intern(Ty::List(element));
                self.well_formed(ty, *span)
            }
        }
    }

    fn tuple_type(&mut self, elements: &[TypeRef], span: Span) -> TyId {
        let elements: Vec<TyId> = elements
            .iter()
            .map(|element| self.resolve_type(element))
            .collect();
        let ty = self.intern(Ty::Tuple(elements));
        self.well_formed(ty, span)
    }

    fn sized(&mut self, width: &ast::Expr, span: Span, make: fn(u32) -> Ty) -> TyId {
        match self.size(width, span, "the width of a type", MAX_WIDTH) {
            Some(width) => self.intern(make(width)),
            None => self.t.error,
        }
    }

    fn signed(&mut self, width: &ast::Expr, span: Span) -> TyId {
        match self.size(width, span, "the width of a type", MAX_WIDTH) {
            Some(0) => {
                self.error(
                    code::BAD_SIZE,
                    span,
                    "a signed integer has at least one bit",
                );
                self.t.error
            }
            Some(width) => self.intern(Ty::Int(width)),
            None => self.t.error,
        }
    }

    /// Evaluates a size between 0 and `max`.
    fn size(&mut self, e: &ast::Expr, span: Span, what: &str, max: u32) -> Option<u32> {
        let value = self.constant_int(e, what)?;
        if value.is_negative() {
            self.error(
                code::BAD_SIZE,
                span,
                format!("{what} cannot be negative: it is {value}"),
            );
            return None;
        }
        match value.to_u32().filter(|&n| n <= max) {
            Some(n) => Some(n),
            None => {
                self.error(
                    code::BAD_SIZE,
                    span,
                    format!("{what} is {value}; at most {max} is supported"),
                );
                None
            }
        }
    }

    /// Evaluates an expression that must be a local compile-time known integer.
    pub(crate) fn constant_int(&mut self, e: &ast::Expr, what: &str) -> Option<BigInt> {
        let value = self.expr(e, None);
        if value.ty == self.t.error {
            return None;
        }
        let found = self.int_value(&value);
        if found.is_none() {
            let message = if self.is_numeric(value.ty) {
                format!("{what} must be known at compile time")
            } else {
                format!(
                    "{what} must be an integer, but this is {}",
                    self.show(value.ty)
                )
            };
            self.error(code::NOT_CONSTANT, e.span, message);
        }
        found
    }

    /// Evaluates the number of instances in an array of them.
    pub(crate) fn element_count(&mut self, size: &ast::Expr) -> Option<u32> {
        self.size(size, size.span, "the size of an array", MAX_ELEMENTS)
    }

    fn array(&mut self, element: &TypeRef, size: &ast::Expr, span: Span) -> TyId {
        let element = self.resolve_type(element);
        let size = self.size(
            size,
            span,
            "the size of a header stack or array",
            MAX_ELEMENTS,
        );
        let Some(size) = size else {
            return self.t.error;
        };
        if element == self.t.error {
            return self.t.error;
        }
        let ty = self.intern(Ty::Stack(element, size));
        self.well_formed(ty, span)
    }

    fn named(&mut self, path: &ast::Path, args: Option<Vec<TyId>>, span: Span) -> TyId {
        let entity = match self.peek(path) {
            Some(Entity::Open) | None => {
                if self.peek(path).is_none() {
                    self.unknown(&path.name, "type", Entity::is_type);
                    return self.t.error;
                }
                self.resolve(path)
            }
            Some(entity) => entity,
        };
        let count = args.as_ref().map_or(0, Vec::len);
        let Some(params) = self.type_param_count(entity) else {
            if entity != Entity::Poison {
                let message = format!(
                    "`{}` is {}, not a type",
                    path.name.as_str(),
                    entity.describe()
                );
                self.error(code::WRONG_KIND, path.span(), message);
            }
            return self.t.error;
        };
        if params != count {
            self.type_arg_count(path.name.as_str(), span, params, count);
            return self.t.error;
        }
        let args = args.unwrap_or_default();
        if let Some(&bad) = args.iter().find(|&&arg| !self.may_be_type_arg(arg)) {
            let message = format!("{} cannot be a type argument", self.show(bad));
            self.error(code::BAD_TYPE, span, message);
            return self.t.error;
        }
        if args.contains(&self.t.error) {
            return self.t.error;
        }
        let ty = self.entity_type(entity, args);
        self.well_formed(ty, span)
    }

    pub(crate) fn type_arg_count(&mut self, name: &str, span: Span, expected: usize, found: usize) {
        let message = match (expected, found) {
            (0, _) => format!("`{name}` has no type parameters"),
            (n, 0) => format!(
                "`{name}` needs {}",
                support::count::count(n as u64, "type argument")
            ),
            (n, m) => format!(
                "`{name}` has {}, but {} given",
                support::count::count(n as u64, "type parameter"),
                support::count::are(m as u64)
            ),
        };
        self.error(code::TYPE_ARGS, span, message);
    }

    /// Returns true if a type is allowed between `<` and `>`.
    pub(crate) fn may_be_type_arg(&self, ty: TyId) -> bool {
        !matches!(
            self.ty(ty),
            Ty::Parser(_) | Ty::Control(_) | Ty::Table(_) | Ty::Action | Ty::BlockType(..)
        )
    }

    /// Returns the number of type parameters of a type's name; `None` if it is not a type.
    fn type_param_count(&self, entity: Entity) -> Option<usize> {
        Some(match entity {
            Entity::Record(id) => self.p.records[id].type_params.len(),
            Entity::Extern(id) => self.p.externs[id].type_params.len(),
            Entity::BlockType(id) => self.p.block_types[id].type_params.len(),
            Entity::Template(template) => self.templates[template].vars.len(),
            entity if entity.is_type() => 0,
            _ => return None,
        })
    }

    /// Returns the type of a name with the right number of type arguments.
    pub(crate) fn entity_type(&mut self, entity: Entity, args: Vec<TyId>) -> TyId {
        let ty = match entity {
            Entity::Typedef(ty) => return ty,
            Entity::Record(id) if self.bad_records.contains(&id) => return self.t.error,
            Entity::Record(id) => Ty::Record(id, args),
            Entity::Enum(id) => Ty::Enum(id),
            Entity::NewType(id) => Ty::NewType(id),
            Entity::Extern(id) => Ty::Extern(id, args),
            Entity::Parser(id) => Ty::Parser(id),
            Entity::Control(id) => Ty::Control(id),
            Entity::BlockType(id) => Ty::BlockType(id, args),
            Entity::TypeVar(id) => Ty::Var(id),
            Entity::Template(template) => {
                let made = self.specialise(template, args);
                return self.entity_type(made, Vec::new());
            }
            Entity::Blocks(list) => {
                let first = self.block_sets[list].first().copied();
                return match first {
                    Some(first) => self.entity_type(first, args),
                    None => self.t.error,
                };
            }
            _ => return self.t.error,
        };
        self.intern(ty)
    }

    /// Checks the members of a specialised or composed type once. An invalid one becomes the error
    /// type.
    pub(crate) fn well_formed(&mut self, ty: TyId, span: Span) -> TyId {
        if let Some(&good) = self.well_formed.get(&ty) {
            return if good { ty } else { self.t.error };
        }
        let good = self.check_members(ty, span) && self.check_leaves(ty, span);
        self.well_formed.insert(ty, good);
        if good { ty } else { self.t.error }
    }

    /// Checks that a type's size is within the limits. Types that double each other grow fast.
    pub(crate) fn check_leaves(&mut self, ty: TyId, span: Span) -> bool {
        if self.type_depth(ty) > MAX_TYPE_DEPTH {
            let message = format!(
                "this type holds types that are nested more than {MAX_TYPE_DEPTH} levels deep"
            );
            self.error(code::BAD_SIZE, span, message);
            return false;
        }
        if self.leaves(ty) <= MAX_LEAVES {
            return true;
        }
        let message = format!("this type has more than {MAX_LEAVES} fields and elements");
        self.error(code::BAD_SIZE, span, message);
        false
    }

    /// Returns the nesting depth of types within a type.
    fn type_depth(&mut self, ty: TyId) -> u32 {
        if let Some(&known) = self.type_depths.get(&ty) {
            return known;
        }
        let inner: Vec<TyId> = match self.ty(ty).clone() {
            Ty::Tuple(elements) => elements,
            Ty::Stack(element, _) | Ty::List(element) => vec![element],
            Ty::NewType(id) => vec![self.p.new_types[id].underlying],
            Ty::Record(id, args) => (0..self.p.records[id].fields.len())
                .map(|i| self.field_type(id, &args, i))
                .collect(),
            _ => Vec::new(),
        };
        let inner = inner.into_iter().map(|ty| self.type_depth(ty)).max();
        let depth = 1 + inner.unwrap_or(0);
        self.type_depths.insert(ty, depth);
        depth
    }

    /// Returns the number of scalars in a value of the type.
    pub(crate) fn leaves(&mut self, ty: TyId) -> u64 {
        if let Some(&known) = self.leaves.get(&ty) {
            return known;
        }
        let count = match self.ty(ty).clone() {
            Ty::Tuple(elements) => elements
                .iter()
                .fold(1u64, |sum, &e| sum.saturating_add(self.leaves(e))),
            Ty::Stack(element, n) => self.leaves(element).saturating_mul(n.into()),
            Ty::Record(id, args) => (0..self.p.records[id].fields.len()).fold(1u64, |sum, i| {
                let field = self.field_type(id, &args, i);
                sum.saturating_add(self.leaves(field))
            }),
            _ => 1,
        };
        self.leaves.insert(ty, count);
        count
    }

    fn check_members(&mut self, ty: TyId, span: Span) -> bool {
        match self.ty(ty).clone() {
            Ty::Tuple(elements) => elements
                .iter()
                .all(|&element| self.check_member(Container::Tuple, element, None, span)),
            Ty::List(element) => self.check_member(Container::List, element, None, span),
            Ty::Stack(element, _) if self.is_header_like(element) => true,
            Ty::Stack(element, _) => self.check_member(Container::Array, element, None, span),
            Ty::Record(id, args) if !args.is_empty() => {
                let container = Container::of(self.p.records[id].kind);
                let fields = self.p.records[id].fields.len();
                (0..fields).all(|i| {
                    let field = self.field_type(id, &args, i);
                    let name = self.p.records[id].fields[i].name.clone();
                    self.check_member(container, field, Some(&name), span)
                })
            }
            _ => true,
        }
    }

    /// Checks that a member type is allowed, and reports it if not.
    pub(crate) fn check_member(
        &mut self,
        container: Container,
        ty: TyId,
        field: Option<&ast::Name>,
        span: Span,
    ) -> bool {
        if ty == self.t.error {
            return false;
        }
        if self.allowed_in(container, ty) {
            return true;
        }
        let (what, shown) = (container.describe(), self.show(ty));
        let message = match field {
            Some(name) => format!(
                "field `{}` of {what} cannot have type {shown}",
                name.as_str()
            ),
            None => format!("{what} cannot hold {shown}"),
        };
        let mut diagnostic = Diagnostic::error(code::BAD_TYPE, span, message);
        if let (Container::Header, Ty::Enum(_)) = (container, self.ty(ty)) {
            diagnostic =
                diagnostic.hint("give the enum an underlying type: `enum bit<8> E { .. }`");
        }
        self.report(diagnostic);
        false
    }

    fn allowed_in(&self, container: Container, ty: TyId) -> bool {
        use Container::*;
        match self.ty(ty) {
            Ty::Error => true,
            Ty::Var(var) => !self.dont_care.contains(var),
            Ty::Bit(_) | Ty::Int(_) | Ty::Varbit(_) | Ty::Bool => container != Union,
            Ty::Integer | Ty::MatchKind => matches!(container, List | Tuple),
            Ty::String => container == List,
            Ty::ErrorCode => !matches!(container, Header | Union),
            Ty::Enum(id) => match self.p.enums[*id].underlying {
                Some(_) => container != Union,
                None => !matches!(container, Header | Union),
            },
            Ty::NewType(id) => self.allowed_in(container, self.p.new_types[*id].underlying),
            Ty::Record(id, _) => match self.p.records[*id].kind {
                RecordKind::Header => !matches!(container, Header),
                RecordKind::HeaderUnion => !matches!(container, Header | Union),
                RecordKind::Struct if container == Header => self.plain_struct(ty),
                RecordKind::Struct => container != Union,
            },
            Ty::Stack(element, _) if self.is_header_like(*element) => {
                matches!(container, Struct | Tuple | List)
            }
            Ty::Stack(element, _) if container == Header => self.allowed_in(Header, *element),
            Ty::Stack(..) => matches!(container, Struct | Tuple | Array),
            Ty::Tuple(_) => matches!(container, Struct | Tuple | List),
            Ty::List(_) => container == List,
            Ty::Extern(..) => container == Array,
            _ => false,
        }
    }

    /// Returns true if a struct is allowed in a header: all its leaves have a fixed size.
    fn plain_struct(&self, ty: TyId) -> bool {
        if let Some(&known) = self.plain_structs.borrow().get(&ty) {
            return known;
        }
        let plain = match self.ty(ty) {
            Ty::Record(id, args)
                if self.p.records[*id].kind == RecordKind::Struct && args.is_empty() =>
            {
                self.p.records[*id]
                    .fields
                    .iter()
                    .all(|field| self.plain_struct(field.ty))
            }
            Ty::Record(id, _) => self.p.records[*id].kind == RecordKind::Struct,
            Ty::Enum(id) => self.p.enums[*id].underlying.is_some(),
            Ty::NewType(id) => self.plain_struct(self.p.new_types[*id].underlying),
            Ty::Bit(_) | Ty::Int(_) | Ty::Bool | Ty::Var(_) | Ty::Error => true,
            Ty::Stack(element, _) => self.plain_struct(*element),
            _ => false,
        };
        self.plain_structs.borrow_mut().insert(ty, plain);
        plain
    }

    /// Returns true if it is a header or a header union (or may become one).
    pub(crate) fn is_header_like(&self, ty: TyId) -> bool {
        match self.ty(ty) {
            Ty::Record(id, _) => self.p.records[*id].kind != RecordKind::Struct,
            Ty::Var(_) | Ty::Error => true,
            _ => false,
        }
    }

    /// Returns true if it is a header.
    pub(crate) fn is_header(&self, ty: TyId) -> bool {
        matches!(self.ty(ty), Ty::Record(id, _) if self.p.records[*id].kind == RecordKind::Header)
    }

    /// Returns the position of the member with this name.
    pub(crate) fn position(&mut self, members: Members, name: &str) -> Option<usize> {
        /// Minimum number of members for which a map pays off.
        const LARGE: usize = 16;
        let names: Box<dyn Iterator<Item = &ast::Name>> = match members {
            Members::Record(id) => Box::new(self.p.records[id].fields.iter().map(|f| &f.name)),
            Members::Enum(id) => Box::new(self.p.enums[id].members.iter().map(|(name, _)| name)),
        };
        let len = match members {
            Members::Record(id) => self.p.records[id].fields.len(),
            Members::Enum(id) => self.p.enums[id].members.len(),
        };
        if len < LARGE {
            return names.into_iter().position(|known| known.as_str() == name);
        }
        let known = self.positions.entry(members).or_default();
        if known.is_empty() {
            for (at, name) in names.enumerate() {
                known.entry(name.text.clone()).or_insert(at);
            }
        }
        known.get(name).copied()
    }

    /// Returns the type of a record's field, with type arguments substituted.
    pub(crate) fn field_type(
        &mut self,
        record: crate::hir::RecordId,
        args: &[TyId],
        field: usize,
    ) -> TyId {
        let declared = &self.p.records[record];
        let ty = declared.fields[field].ty;
        if args.is_empty() {
            return ty;
        }
        let subst: Subst = declared
            .type_params
            .iter()
            .copied()
            .zip(args.iter().copied())
            .collect();
        self.subst(ty, &subst)
    }

    /// Substitutes type arguments for type parameters in a type.
    pub(crate) fn subst(&mut self, ty: TyId, subst: &Subst) -> TyId {
        if subst.is_empty() || !self.is_open(ty) {
            return ty;
        }
        let each = |this: &mut Self, list: &[TyId]| -> Vec<TyId> {
            list.iter().map(|&t| this.subst(t, subst)).collect()
        };
        let new = match self.ty(ty).clone() {
            Ty::Var(var) => {
                return subst
                    .iter()
                    .find(|&&(v, _)| v == var)
                    .map_or(ty, |&(_, to)| to);
            }
            Ty::Record(id, args) if !args.is_empty() => Ty::Record(id, each(self, &args)),
            Ty::Extern(id, args) if !args.is_empty() => Ty::Extern(id, each(self, &args)),
            Ty::BlockType(id, args) if !args.is_empty() => Ty::BlockType(id, each(self, &args)),
            Ty::Tuple(elements) => Ty::Tuple(each(self, &elements)),
            Ty::List(element) => Ty::List(self.subst(element, subst)),
            Ty::Set(element) => Ty::Set(self.subst(element, subst)),
            Ty::Stack(element, size) => Ty::Stack(self.subst(element, subst), size),
            _ => return ty,
        };
        self.intern(new)
    }

    /// Returns true if a type mentions a type variable.
    pub(crate) fn is_open(&self, ty: TyId) -> bool {
        if let Some(&known) = self.open_types.borrow().get(&ty) {
            return known;
        }
        let open = match self.ty(ty) {
            Ty::Var(_) => true,
            Ty::Record(_, args)
            | Ty::Extern(_, args)
            | Ty::BlockType(_, args)
            | Ty::Tuple(args) => args.iter().any(|&arg| self.is_open(arg)),
            Ty::List(element) | Ty::Set(element) | Ty::Stack(element, _) => self.is_open(*element),
            _ => false,
        };
        self.open_types.borrow_mut().insert(ty, open);
        open
    }

    /// Returns the final underlying type of a `type`; any other type is returned unchanged.
    pub(crate) fn base(&self, ty: TyId) -> TyId {
        match self.ty(ty) {
            Ty::NewType(id) => self.base(self.p.new_types[*id].underlying),
            _ => ty,
        }
    }

    /// Returns the numeric type with this id; `None` for enums and `type`s.
    pub(crate) fn num(&self, ty: TyId) -> Option<Num> {
        match *self.ty(ty) {
            Ty::Integer => Some(Num::Integer),
            Ty::Bit(width) => Some(Num::Bit(width)),
            Ty::Int(width) => Some(Num::Int(width)),
            _ => None,
        }
    }

    /// Returns true if the type is numeric, a serializable enum included (section "Numeric types").
    pub(crate) fn is_numeric(&self, ty: TyId) -> bool {
        self.num(ty).is_some() || self.enum_underlying(ty).is_some()
    }

    /// Returns the underlying `bit` or `int` type of a serializable enum.
    pub(crate) fn enum_underlying(&self, ty: TyId) -> Option<TyId> {
        match *self.ty(ty) {
            Ty::Enum(id) => self.serial(id),
            _ => None,
        }
    }

    /// Returns the underlying `bit` or `int` type of a serializable enum.
    pub(crate) fn serial(&self, id: EnumId) -> Option<TyId> {
        self.p.enums[id].underlying.map(|ty| self.base(ty))
    }

    /// Returns true if the type has run-time values: no extern, block, table or set.
    pub(crate) fn is_value(&self, ty: TyId) -> bool {
        !matches!(
            self.ty(ty),
            Ty::Void
                | Ty::Extern(..)
                | Ty::Parser(_)
                | Ty::Control(_)
                | Ty::BlockType(..)
                | Ty::Action
                | Ty::Table(_)
                | Ty::ApplyResult(_)
                | Ty::ActionEnum(_)
                | Ty::Set(_)
        )
    }

    /// Returns true if it is an extern, parser, control or package, the types of instances.
    pub(crate) fn is_object(&self, ty: TyId) -> bool {
        matches!(
            self.ty(ty),
            Ty::Extern(..) | Ty::Parser(_) | Ty::Control(_) | Ty::BlockType(..)
        )
    }

    /// Returns the minimum and maximum size in bits of a serializable type (section "Compile-time
    /// size determination").
    pub(crate) fn size_in_bits(&mut self, ty: TyId) -> Option<(u64, u64)> {
        if let Some(&known) = self.bit_sizes.get(&ty) {
            return known;
        }
        let size = self.computed_size(ty);
        self.bit_sizes.insert(ty, size);
        size
    }

    fn computed_size(&mut self, ty: TyId) -> Option<(u64, u64)> {
        match self.ty(ty).clone() {
            Ty::Bit(w) | Ty::Int(w) => Some((w.into(), w.into())),
            Ty::Bool => Some((1, 1)),
            Ty::Varbit(w) => Some((0, w.into())),
            Ty::Enum(id) => self.serial(id).and_then(|under| self.size_in_bits(under)),
            Ty::NewType(id) => self.size_in_bits(self.p.new_types[id].underlying),
            Ty::Tuple(elements) | Ty::Record(_, elements)
                if matches!(self.ty(ty), Ty::Tuple(_)) =>
            {
                self.sum_sizes(&elements)
            }
            Ty::Record(id, args) => {
                let fields: Vec<TyId> = (0..self.p.records[id].fields.len())
                    .map(|i| self.field_type(id, &args, i))
                    .collect();
                if self.p.records[id].kind != RecordKind::HeaderUnion {
                    return self.sum_sizes(&fields);
                }
                let sizes: Option<Vec<_>> = fields
                    .iter()
                    .map(|&field| self.size_in_bits(field))
                    .collect();
                let sizes = sizes?;
                Some((
                    sizes.iter().map(|s| s.0).max().unwrap_or(0),
                    sizes.iter().map(|s| s.1).max().unwrap_or(0),
                ))
            }
            Ty::Stack(element, n) => {
                let (least, most) = self.size_in_bits(element)?;
                Some((
                    least.saturating_mul(n.into()),
                    most.saturating_mul(n.into()),
                ))
            }
            _ => None,
        }
    }

    fn sum_sizes(&mut self, types: &[TyId]) -> Option<(u64, u64)> {
        types.iter().try_fold((0u64, 0u64), |(least, most), &ty| {
            let (a, b) = self.size_in_bits(ty)?;
            Some((least.saturating_add(a), most.saturating_add(b)))
        })
    }

    /// Returns true if a header has a `varbit` field.
    pub(crate) fn has_varbit(&mut self, ty: TyId) -> bool {
        self.size_in_bits(ty)
            .is_some_and(|(least, most)| least != most)
    }

    /// Returns true if a value is in the range of a numeric type.
    pub(crate) fn in_range(value: &BigInt, num: Num) -> bool {
        match num {
            Num::Integer => true,
            Num::Bit(w) => !value.is_negative() && value.bits() <= u64::from(w),
            Num::Int(0) => value.is_zero(),
            Num::Int(w) => {
                let magnitude = if value.is_negative() {
                    (-value) - 1
                } else {
                    value.clone()
                };
                magnitude.bits() < u64::from(w)
            }
        }
    }
}

//! Types expressions and places, and checks the keysets of select cases.

use support::count::count;
use support::work::checkpoint;

use super::{Check, MAX_NESTING, Verifier, same, there};
use crate::code::*;
use crate::program::*;
use crate::types::{MAX_WIDTH, ScalarTy};

impl Verifier<'_> {
    /// Returns the type of an expression, which must not be a `varbit`.
    pub(super) fn expr(&mut self, e: &Expr, action: Option<&Action>) -> Check<ScalarTy> {
        self.typed(e, action, 0)
    }

    pub(super) fn expr_of(&mut self, e: &Expr, ty: ScalarTy, action: Option<&Action>) -> Check {
        same(ty, self.expr(e, action)?)
    }

    fn typed(&mut self, e: &Expr, action: Option<&Action>, depth: u32) -> Check<ScalarTy> {
        if depth >= MAX_NESTING {
            return Err(format!("an expression is nested deeper than {MAX_NESTING}"));
        }
        checkpoint();
        let depth = depth + 1;
        match e {
            Expr::Const(ty, value) => self.constant(*ty, value),
            Expr::Read(place) => {
                let ty = self.place_at(place, action, depth)?;
                self.scalar(ty)?;
                Ok(ty)
            }
            Expr::Param(at) => {
                let param = action.and_then(|a| a.params.get(*at as usize));
                let param = param.ok_or_else(|| format!("there is no parameter {at}"))?;
                Ok(param.ty)
            }
            Expr::Unary(op, a) => {
                let ty = self.typed(a, action, depth)?;
                match op {
                    UnOp::Not => same(ScalarTy::Bool, ty)?,
                    UnOp::Neg | UnOp::Complement => number(ty)?,
                }
                Ok(ty)
            }
            Expr::Binary(op, a, b) => {
                let a = self.typed(a, action, depth)?;
                let b = self.typed(b, action, depth)?;
                binary(*op, a, b)
            }
            Expr::Concat(a, b) => {
                let a = self.typed(a, action, depth)?;
                let b = self.typed(b, action, depth)?;
                self.concat(a, b)
            }
            Expr::Slice(a, hi, lo) => {
                let ty = self.typed(a, action, depth)?;
                slice(ty, *hi, *lo)
            }
            Expr::Cast(to, a) => {
                let from = self.typed(a, action, depth)?;
                self.scalar(*to)?;
                cast(from, *to)
            }
            Expr::Ternary(c, a, b) => {
                let c = self.typed(c, action, depth)?;
                same(ScalarTy::Bool, c)?;
                let a = self.typed(a, action, depth)?;
                same(a, self.typed(b, action, depth)?)?;
                Ok(a)
            }
            Expr::VarbitEq(a, b) => {
                let ty = self.varbit_at(a, action, depth)?;
                same(ty, self.varbit_at(b, action, depth)?)?;
                Ok(ScalarTy::Bool)
            }
            Expr::VarbitLen(a) => {
                self.varbit_at(a, action, depth)?;
                Ok(ScalarTy::Bit(32))
            }
        }
    }

    fn constant(&self, ty: ScalarTy, value: &bits::Value) -> Check<ScalarTy> {
        self.scalar(ty)?;
        if value.width() != ty.width() {
            return Err(format!(
                "a constant of {} bits has the type {ty:?}",
                value.width()
            ));
        }
        let members = match ty {
            ScalarTy::Error => self.program.errors.len(),
            ScalarTy::Enum(id) => there(&self.program.enums, id, "enum")?.members.len(),
            _ => return Ok(ty),
        };
        match value.to_u64() {
            Some(number) if number < members as u64 => Ok(ty),
            _ => Err(format!("{value} is not a member of {ty:?}")),
        }
    }

    fn concat(&self, a: ScalarTy, b: ScalarTy) -> Check<ScalarTy> {
        number(a)?;
        number(b)?;
        // Both are at most MAX_WIDTH, so the sum does not overflow.
        let width = a.width() + b.width();
        if width > MAX_WIDTH {
            return Err(format!("{width} bits are more than {MAX_WIDTH}"));
        }
        Ok(if a.is_signed() {
            ScalarTy::Int(width)
        } else {
            ScalarTy::Bit(width)
        })
    }

    /// Returns the type of a place, which may be a `varbit`.
    pub(super) fn place(&mut self, place: &Place, action: Option<&Action>) -> Check<ScalarTy> {
        self.place_at(place, action, 0)
    }

    /// Returns the type of a place, which must not be a `varbit`.
    pub(super) fn scalar_place(
        &mut self,
        place: &Place,
        action: Option<&Action>,
    ) -> Check<ScalarTy> {
        let ty = self.place(place, action)?;
        self.scalar(ty)?;
        Ok(ty)
    }

    fn place_at(&mut self, place: &Place, action: Option<&Action>, depth: u32) -> Check<ScalarTy> {
        let ty = there(&self.program.fields, place.base, "field")?.ty;
        if !place.dims.is_empty() {
            let dims = self.dims(&place.dims, action, depth)?;
            let shape = (place.base.get(), false, dims.clone());
            self.shape(shape, |v| v.reached_fields(place.base, &dims))?;
        }
        Ok(ty)
    }

    fn dims(
        &mut self,
        dims: &[Dim],
        action: Option<&Action>,
        depth: u32,
    ) -> Check<Vec<(u32, u32)>> {
        dims.iter()
            .map(|dim| match self.typed(&dim.index, action, depth)? {
                ScalarTy::Bit(_) => Ok((dim.len, dim.stride)),
                other => Err(format!("an index is bit<..>, not {other:?}")),
            })
            .collect()
    }

    /// Returns the type of a header place.
    pub(super) fn header_place(
        &mut self,
        place: &HeaderPlace,
        action: Option<&Action>,
    ) -> Check<HeaderTypeId> {
        let ty = there(&self.program.headers, place.base, "header")?.ty;
        if !place.dims.is_empty() {
            let dims = self.dims(&place.dims, action, 0)?;
            let shape = (place.base.get(), true, dims.clone());
            self.shape(shape, |v| v.reached_headers(place, &dims))?;
        }
        Ok(ty)
    }

    pub(super) fn varbit(&mut self, place: &Place, action: Option<&Action>) -> Check<ScalarTy> {
        self.varbit_at(place, action, 0)
    }

    fn varbit_at(&mut self, place: &Place, action: Option<&Action>, depth: u32) -> Check<ScalarTy> {
        match self.place_at(place, action, depth)? {
            ty @ ScalarTy::Varbit(_) => Ok(ty),
            other => Err(format!("a varbit is expected, not {other:?}")),
        }
    }

    pub(super) fn keyset(&mut self, keys: &[ScalarTy], keyset: &Keyset) -> Check {
        match keyset {
            Keyset::ValueSet(id) => self.value_set_of(*id, keys),
            Keyset::Sets(sets) if sets.len() != keys.len() => {
                let sets = count(sets.len() as u64, "set");
                Err(format!("{sets} for {}", count(keys.len() as u64, "key")))
            }
            Keyset::Sets(sets) => {
                std::iter::zip(keys, sets).try_for_each(|(key, set)| self.key_set(*key, set))
            }
        }
    }

    fn key_set(&mut self, key: ScalarTy, set: &KeySet) -> Check {
        match set {
            KeySet::Any => Ok(()),
            KeySet::Value(v) => self.expr_of(v, key, None),
            KeySet::Mask(a, b) => {
                self.expr_of(a, key, None)?;
                self.expr_of(b, key, None)
            }
            KeySet::Range(a, b) => {
                number(key)?;
                self.expr_of(a, key, None)?;
                self.expr_of(b, key, None)
            }
            KeySet::ValueSet(id) => self.value_set_of(*id, &[key]),
        }
    }

    fn value_set_of(&self, id: ValueSetId, keys: &[ScalarTy]) -> Check {
        let set = there(&self.program.value_sets, id, "value set")?;
        if set.fields.len() != keys.len() {
            return Err(format!(
                "value set {} has {}",
                set.name,
                count(set.fields.len() as u64, "field")
            ));
        }
        std::iter::zip(keys, &set.fields).try_for_each(|(key, field)| same(*key, field.ty))
    }
}

/// Checks that a type is `bit` or `int`.
pub(super) fn number(ty: ScalarTy) -> Check {
    match ty {
        ScalarTy::Bit(_) | ScalarTy::Int(_) => Ok(()),
        _ => Err(format!("bit<..> or int<..> is expected, not {ty:?}")),
    }
}

/// Checks that a type is `bit`.
pub(super) fn unsigned(ty: ScalarTy) -> Check {
    match ty {
        ScalarTy::Bit(_) => Ok(()),
        _ => Err(format!("bit<..> is expected, not {ty:?}")),
    }
}

fn binary(op: BinOp, a: ScalarTy, b: ScalarTy) -> Check<ScalarTy> {
    use BinOp::*;
    match op {
        Shl | Shr => {
            number(a)?;
            unsigned(b)?;
            return Ok(a);
        }
        Div | Mod => unsigned(a)?,
        Add | Sub | Mul | AddSaturating | SubSaturating | And | Or | Xor | Lt | Le | Gt | Ge => {
            number(a)?
        }
        LogicalAnd | LogicalOr => same(ScalarTy::Bool, a)?,
        Eq | Ne => {}
    }
    same(a, b)?;
    Ok(if op.is_predicate() { ScalarTy::Bool } else { a })
}

/// Returns the type of bits `hi` down to `lo`.
pub(super) fn slice(ty: ScalarTy, hi: u32, lo: u32) -> Check<ScalarTy> {
    number(ty)?;
    if lo > hi || hi >= ty.width() {
        return Err(format!("there are no bits {hi}:{lo} in {ty:?}"));
    }
    Ok(ScalarTy::Bit(hi - lo + 1))
}

fn cast(from: ScalarTy, to: ScalarTy) -> Check<ScalarTy> {
    let is_number = |ty| number(ty).is_ok();
    let is_bits_of = |bits: ScalarTy, other: ScalarTy| bits == ScalarTy::Bit(other.width());
    let fits = from == to
        || is_number(from) && is_number(to)
        || is_bits_of(from, to)
        || is_bits_of(to, from);
    if fits {
        Ok(to)
    } else {
        Err(format!("{from:?} does not become {to:?} by a cast"))
    }
}

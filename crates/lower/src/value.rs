//! Values during lowering, and operations on them: split, save, assign, compare.

use std::ops::Range;
use std::sync::Arc;

use bits::Value;
use ir::{BinOp, Expr, ScalarTy, StmtKind};
use num_bigint::BigInt;
use passes::fold;
use sema::hir::{Ty, TyId};
use support::work::checkpoint;
use syntax::ast::RecordKind;

use crate::cx::{Lower, bits_const};
use crate::instance::NodeId;
use crate::storage::{Place, SlotKind, overlap, read_ranges};
use crate::types::value_of;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Rv {
    /// A scalar other than a `varbit`.
    Scalar(Expr),
    /// The content of storage: an aggregate or a `varbit`.
    Place(Place),
    /// A struct, tuple, stack, array or list, part by part.
    List(Vec<Rv>),
    /// A valid header, field by field.
    Header(Vec<Rv>),
    /// An invalid header or union.
    Invalid,
    /// Zeros and invalid headers.
    Default,
    /// An `int` of arbitrary precision.
    Int(BigInt),
    /// A string.
    Str(Arc<str>),
    /// An instance.
    Instance(NodeId),
    /// `packet_in` or `packet_out`.
    Packet,
    /// An omitted argument.
    Omitted,
}

impl Lower<'_> {
    /// Returns the value of a place.
    pub(crate) fn load(&self, place: &Place) -> Rv {
        match place.scalar() {
            Some((_, ScalarTy::Varbit(_))) | None => Rv::Place(place.clone()),
            Some((place, _)) => Rv::Scalar(Expr::Read(place)),
        }
    }

    /// Returns a scalar value as an expression of its type.
    pub(crate) fn scalar_value(&mut self, value: &Rv, ty: TyId) -> Expr {
        let scalar = self.scalar(ty);
        match value {
            Rv::Scalar(expr) => expr.clone(),
            Rv::Int(number) => match scalar {
                Some(scalar) => Expr::Const(scalar, value_of(number, scalar.width())),
                None => self.int_const(number),
            },
            _ => {
                let scalar = scalar.unwrap_or(ScalarTy::Bit(32));
                Expr::Const(scalar, Value::zero(scalar.width()))
            }
        }
    }

    /// Converts a number without width to a constant of 32 bits, or more if needed.
    pub(crate) fn int_const(&self, number: &BigInt) -> Expr {
        let width = u32::try_from(number.bits()).unwrap_or(32).max(32);
        Expr::Const(ScalarTy::Bit(width), value_of(number, width))
    }

    /// Returns the parts of an aggregate, in order.
    pub(crate) fn parts(&mut self, value: &Rv, ty: TyId) -> Vec<Rv> {
        let types = self.part_types(ty);
        (0..types.len())
            .map(|index| self.part(value, ty, index))
            .collect()
    }

    /// Returns one part of an aggregate.
    pub(crate) fn part(&mut self, value: &Rv, ty: TyId, index: usize) -> Rv {
        match value {
            Rv::List(parts) | Rv::Header(parts) => parts.get(index).cloned().unwrap_or(Rv::Default),
            Rv::Place(place) => match self.place_part(place, ty, index) {
                Some(part) => self.load(&part),
                None => Rv::Default,
            },
            Rv::Invalid | Rv::Default => {
                let part = self.part_types(ty).get(index).copied();
                match part.and_then(|part| self.scalar(part)) {
                    Some(ScalarTy::Varbit(_)) | None => Rv::Default,
                    Some(scalar) => Rv::Scalar(Expr::Const(scalar, Value::zero(scalar.width()))),
                }
            }
            other => other.clone(),
        }
    }

    /// Returns one part of a place by position: a member or an element.
    pub(crate) fn place_part(&mut self, place: &Place, ty: TyId, index: usize) -> Option<Place> {
        match *self.ty(ty) {
            Ty::Stack(..) => self.element(place, bits_const(index as u64, 32)),
            _ => self.member(place, index),
        }
    }

    /// Returns the condition that a header value is valid.
    pub(crate) fn validity(&mut self, value: &Rv) -> Expr {
        match value {
            Rv::Place(place) if matches!(place.slot.kind, SlotKind::Union(_)) => {
                let members = place.parts().iter();
                let valid = members.map(|member| place.part(member, place.ty).valid());
                fold::any(valid.map(Expr::Read).collect())
            }
            Rv::Place(place) => Expr::Read(place.valid()),
            Rv::Header(_) => fold::bool_const(true),
            _ => fold::bool_const(false),
        }
    }

    /// Saves a value, so that later code cannot change it.
    pub(crate) fn save_value(&mut self, value: Rv, ty: TyId) -> Rv {
        match value {
            Rv::Scalar(expr) => {
                let scalar = self.scalar(ty).unwrap_or_else(|| self.expr_ty(&expr));
                Rv::Scalar(self.save(scalar, expr))
            }
            Rv::Place(place) => {
                let temp = self.temp(ty);
                self.assign(&temp, &Rv::Place(place), ty);
                Rv::Place(temp)
            }
            Rv::List(parts) => Rv::List(self.save_parts(parts, ty)),
            Rv::Header(parts) => Rv::Header(self.save_parts(parts, ty)),
            other => other,
        }
    }

    fn save_parts(&mut self, parts: Vec<Rv>, ty: TyId) -> Vec<Rv> {
        let types = self.part_types(ty);
        let typed = parts.into_iter().enumerate();
        typed
            .map(|(i, part)| self.save_value(part, types.get(i).copied().unwrap_or(ty)))
            .collect()
    }

    /// Returns a place with the value: its own storage, or a new temporary.
    pub(crate) fn in_storage(&mut self, value: Rv, ty: TyId) -> Place {
        match value {
            Rv::Place(place) => place,
            value => {
                let temp = self.temp(ty);
                self.assign(&temp, &value, ty);
                temp
            }
        }
    }

    /// Returns true if using a value may read a field in `range`.
    fn value_reads(&self, value: &Rv, range: &Range<u32>) -> bool {
        let mut ranges = Vec::new();
        self.value_ranges(value, &mut ranges);
        ranges.iter().any(|read| overlap(read, range))
    }

    /// Collects the fields that using a value may read.
    pub(crate) fn value_ranges(&self, value: &Rv, ranges: &mut Vec<Range<u32>>) {
        match value {
            Rv::Scalar(expr) => read_ranges(expr, ranges),
            Rv::Place(place) => {
                ranges.push(place.extent());
                place
                    .dims
                    .iter()
                    .for_each(|dim| read_ranges(&dim.index, ranges));
            }
            Rv::List(parts) | Rv::Header(parts) => parts
                .iter()
                .for_each(|part| self.value_ranges(part, ranges)),
            _ => {}
        }
    }

    /// Assigns `value` to `place`. Header parts preserve a union's rule: at most one member is
    /// valid.
    pub(crate) fn assign(&mut self, place: &Place, value: &Rv, ty: TyId) {
        let extent = place.extent();
        let is_scalar = place.scalar().is_some();
        if is_scalar {
            return self.assign_scalar(place, value, ty);
        }
        let place = self.settle(place);
        match value {
            Rv::Place(from) => {
                let from = self.settle(from);
                self.copy(&place, &from, ty);
            }
            Rv::List(_) | Rv::Header(_) if self.value_reads(value, &extent) => {
                let saved = self.save_value(value.clone(), ty);
                self.write(&place, &saved, ty);
            }
            value => self.write(&place, value, ty),
        }
    }

    fn assign_scalar(&mut self, place: &Place, value: &Rv, ty: TyId) {
        let Some((to, scalar)) = place.scalar() else {
            return;
        };
        if matches!(scalar, ScalarTy::Varbit(_)) {
            match value {
                Rv::Place(from) => {
                    if let Some((from, _)) = from.scalar() {
                        self.emit(StmtKind::AssignVarbit(to, from));
                    }
                }
                _ => self.emit(StmtKind::ClearVarbit(to)),
            }
            return;
        }
        let value = self.scalar_value(value, ty);
        if value != Expr::Read(to.clone()) {
            self.emit(StmtKind::Assign(to, value));
        }
    }

    /// Copies a place to another of the same type. They are the same or do not overlap.
    fn copy(&mut self, to: &Place, from: &Place, ty: TyId) {
        match (&to.slot.kind, &from.slot.kind) {
            (SlotKind::Scalar(..), _) => {
                let value = self.load(from);
                self.assign_scalar(to, &value, ty);
            }
            (SlotKind::Header(a, _), SlotKind::Header(b, _)) => {
                if a == b && to.is_static() && from.is_static() {
                    return;
                }
                let valid = Expr::Read(from.valid());
                self.emit(StmtKind::CopyHeader(to.ir_header(*a), from.ir_header(*b)));
                self.invalidate_siblings(to, valid);
            }
            (SlotKind::Stack { .. }, SlotKind::Stack { .. }) => {
                self.copy_parts(to, from, ty);
                if let (Some(to), Some(from)) = (to.next_index(), from.next_index()) {
                    self.emit(StmtKind::Assign(to, Expr::Read(from)));
                }
            }
            _ => self.copy_parts(to, from, ty),
        }
    }

    fn copy_parts(&mut self, to: &Place, from: &Place, ty: TyId) {
        let types = self.part_types(ty);
        for (index, part_ty) in types.into_iter().enumerate() {
            checkpoint();
            let parts = (to.parts().get(index), from.parts().get(index));
            // Members of a union are copied with their validity, so the rule holds.
            if let (Some(a), Some(b)) = parts {
                let (a, b) = (to.part(a, part_ty), from.part(b, part_ty));
                self.copy(&a, &b, part_ty);
            }
        }
    }

    /// Invalidates the other members of a union if `valid` is true.
    pub(crate) fn invalidate_siblings(&mut self, member: &Place, valid: Expr) {
        let Some(union) = member.union.clone() else {
            return;
        };
        let SlotKind::Union(members) = &union.kind else {
            return;
        };
        let (code, ()) = self.capture(|this| {
            for sibling in members
                .iter()
                .filter(|sibling| sibling.fields != member.slot.fields)
            {
                let valid = member.part(sibling, member.ty).valid();
                this.emit(StmtKind::Assign(valid, fold::bool_const(false)));
            }
        });
        self.emit_if(valid, code, Vec::new());
    }

    /// Sets a header's validity.
    pub(crate) fn set_valid(&mut self, place: &Place, valid: bool) {
        if let SlotKind::Union(_) = place.slot.kind {
            for member in place.parts() {
                checkpoint();
                let member = place.part(member, place.ty).valid();
                self.emit(StmtKind::Assign(member, fold::bool_const(false)));
            }
            return;
        }
        self.emit(StmtKind::Assign(place.valid(), fold::bool_const(valid)));
        self.invalidate_siblings(place, fold::bool_const(valid));
    }

    /// Writes a value that does not read the place.
    fn write(&mut self, place: &Place, value: &Rv, ty: TyId) {
        match (&place.slot.kind, value) {
            (SlotKind::Scalar(..), _) => self.assign_scalar(place, value, ty),
            (_, Rv::Place(from)) => self.copy(place, &from.clone(), ty),
            (SlotKind::Header(..) | SlotKind::Union(_), Rv::Invalid | Rv::Default) => {
                self.set_valid(place, false)
            }
            (SlotKind::Header(..), _) => {
                self.set_valid(place, true);
                self.write_parts(place, value, ty);
            }
            (SlotKind::Stack { .. }, Rv::Default | Rv::Invalid) => {
                self.write_parts(place, &Rv::Default, ty);
                if let Some(next) = place.next_index() {
                    self.emit(StmtKind::Assign(next, bits_const(0, 32)));
                }
            }
            _ => self.write_parts(place, value, ty),
        }
    }

    pub(crate) fn write_parts(&mut self, place: &Place, value: &Rv, ty: TyId) {
        for (index, part_ty) in self.part_types(ty).into_iter().enumerate() {
            checkpoint();
            let value = self.part(value, ty, index);
            if let Some(part) = self.place_part(place, ty, index) {
                self.write(&part, &value, part_ty);
            }
        }
    }

    /// Invalidates the headers of a place and empties its stacks, as at the start of a block with
    /// it as an `out` parameter.
    pub(crate) fn reset_headers(&mut self, place: &Place) {
        match &place.slot.kind {
            SlotKind::Scalar(..) => {}
            SlotKind::Header(..) => {
                self.emit(StmtKind::Assign(place.valid(), fold::bool_const(false)))
            }
            kind => {
                let parts: Vec<_> = place.parts().to_vec();
                if matches!(kind, SlotKind::Stack { .. })
                    && let Some(next) = place.next_index()
                {
                    self.emit(StmtKind::Assign(next, bits_const(0, 32)));
                }
                for part in parts {
                    checkpoint();
                    let part = place.part(&part, place.ty);
                    self.reset_headers(&part);
                }
            }
        }
    }

    /// Returns the condition `a == b`.
    pub(crate) fn equal(&mut self, a: &Rv, b: &Rv, ty: TyId) -> Expr {
        match self.scalar(ty) {
            Some(ScalarTy::Varbit(_)) => {
                let (a, b) = (
                    self.in_storage(a.clone(), ty),
                    self.in_storage(b.clone(), ty),
                );
                match (a.scalar(), b.scalar()) {
                    (Some((a, _)), Some((b, _))) => Expr::VarbitEq(a, b),
                    _ => fold::bool_const(true),
                }
            }
            Some(_) => {
                let (a, b) = (self.scalar_value(a, ty), self.scalar_value(b, ty));
                fold::fold(Expr::Binary(BinOp::Eq, Box::new(a), Box::new(b)))
            }
            None if self.record_kind(ty) == Some(RecordKind::Header) => {
                let (valid_a, valid_b) = (self.validity(a), self.validity(b));
                let both = fold::and(valid_a.clone(), valid_b.clone());
                let neither = fold::and(fold::not(valid_a), fold::not(valid_b));
                let same = self.equal_parts(a, b, ty);
                fold::or(neither, fold::and(both, same))
            }
            None if self.record_kind(ty) == Some(RecordKind::HeaderUnion) && !both_places(a, b) => {
                let (valid_a, valid_b) = (self.validity(a), self.validity(b));
                fold::and(fold::not(valid_a), fold::not(valid_b))
            }
            None => self.equal_parts(a, b, ty),
        }
    }

    fn equal_parts(&mut self, a: &Rv, b: &Rv, ty: TyId) -> Expr {
        let mut same = Vec::new();
        for (index, part_ty) in self.part_types(ty).into_iter().enumerate() {
            checkpoint();
            let (a, b) = (self.part(a, ty, index), self.part(b, ty, index));
            same.push(self.equal(&a, &b, part_ty));
        }
        fold::all(same)
    }

    /// Returns all scalars of a value in order; a `varbit` is a read. With `validity`, a header's
    /// validity comes before its fields.
    pub(crate) fn flatten(&mut self, value: &Rv, ty: TyId, validity: bool) -> Vec<Expr> {
        let mut all = Vec::new();
        self.flatten_into(value, ty, validity, &mut all);
        all
    }

    fn flatten_into(&mut self, value: &Rv, ty: TyId, validity: bool, all: &mut Vec<Expr>) {
        match self.scalar(ty) {
            Some(ScalarTy::Varbit(_)) => {
                let place = self.in_storage(value.clone(), ty);
                all.extend(place.scalar().map(|(place, _)| Expr::Read(place)));
            }
            Some(_) => all.push(self.scalar_value(value, ty)),
            None => {
                if let Rv::Int(number) = value {
                    return all.push(self.int_const(number));
                }
                if validity && self.record_kind(ty) == Some(RecordKind::Header) {
                    all.push(self.validity(value));
                }
                for (index, part_ty) in self.part_types(ty).into_iter().enumerate() {
                    checkpoint();
                    let part = self.part(value, ty, index);
                    self.flatten_into(&part, part_ty, validity, all);
                }
            }
        }
    }

    /// Returns the scalar types of a type, in the order of [`Lower::flatten`] with validity.
    pub(crate) fn flat_types(&mut self, ty: TyId) -> Vec<ScalarTy> {
        if let Some(scalar) = self.scalar(ty) {
            return vec![scalar];
        }
        let mut all = Vec::new();
        if self.record_kind(ty) == Some(RecordKind::Header) {
            all.push(ScalarTy::Bool);
        }
        for part in self.part_types(ty) {
            checkpoint();
            all.extend(self.flat_types(part));
        }
        all
    }

    /// Returns the places of all scalars of a place, in the order of [`Lower::flat_types`].
    pub(crate) fn flat_places(&mut self, place: &Place) -> Vec<ir::Place> {
        match place.slot.kind {
            SlotKind::Scalar(field, _) => vec![place.ir(field)],
            _ => {
                let mut all = Vec::new();
                if place.header().is_some() {
                    all.push(place.valid());
                }
                for part in place.parts().to_vec() {
                    checkpoint();
                    let part = place.part(&part, place.ty);
                    all.extend(self.flat_places(&part));
                }
                all
            }
        }
    }
}

fn both_places(a: &Rv, b: &Rv) -> bool {
    matches!((a, b), (Rv::Place(_), Rv::Place(_)))
}

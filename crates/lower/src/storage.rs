//! Storage: layout of P4 variables in consecutive fields, and places within it.

use std::ops::Range;
use std::rc::Rc;

use bits::Id;
use ir::{Dim, Expr, FieldId, Header, HeaderId, HeaderPlace, ScalarTy, Stack, StackId};
use sema::hir::{Ty, TyId};
use support::work::checkpoint;
use syntax::ast::RecordKind;

use crate::cx::{Lower, bits_const};

/// Storage of a variable or of a part of one.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) kind: SlotKind,
    /// The fields that it covers.
    pub(crate) fields: Range<u32>,
    /// The headers that it covers.
    pub(crate) headers: Range<u32>,
}

#[derive(Debug)]
pub(crate) enum SlotKind {
    Scalar(FieldId, ScalarTy),
    Header(HeaderId, Vec<Rc<Slot>>),
    /// A struct or tuple.
    Struct(Vec<Rc<Slot>>),
    Union(Vec<Rc<Slot>>),
    /// A stack of headers (known to the IR) or of unions.
    Stack {
        id: Option<StackId>,
        next: FieldId,
        elements: Vec<Rc<Slot>>,
    },
    Array(Vec<Rc<Slot>>),
}

/// A place: storage with the run-time indices chosen so far.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) slot: Rc<Slot>,
    pub(crate) ty: TyId,
    pub(crate) dims: Vec<PlaceDim>,
    /// The union that contains the place as a member.
    pub(crate) union: Option<Rc<Slot>>,
}

/// A run-time index.
#[derive(Clone, Debug)]
pub(crate) struct PlaceDim {
    pub(crate) index: Expr,
    pub(crate) len: u32,
    /// Distance of two elements in fields.
    pub(crate) fields: u32,
    /// Distance of two elements in headers.
    pub(crate) headers: u32,
}

impl Place {
    pub(crate) fn of(slot: Rc<Slot>, ty: TyId) -> Place {
        Place {
            slot,
            ty,
            dims: Vec::new(),
            union: None,
        }
    }

    /// Returns a part of the place, with the same indices.
    pub(crate) fn part(&self, slot: &Rc<Slot>, ty: TyId) -> Place {
        Place {
            slot: slot.clone(),
            ty,
            dims: self.dims.clone(),
            union: None,
        }
    }

    pub(crate) fn ir(&self, base: FieldId) -> ir::Place {
        let dims = self.dims.iter();
        let dims = dims
            .map(|d| Dim {
                index: d.index.clone(),
                len: d.len,
                stride: d.fields,
            })
            .collect();
        ir::Place { base, dims }
    }

    pub(crate) fn ir_header(&self, base: HeaderId) -> HeaderPlace {
        let dims = self.dims.iter();
        let dims = dims
            .map(|d| Dim {
                index: d.index.clone(),
                len: d.len,
                stride: d.headers,
            })
            .collect();
        HeaderPlace { base, dims }
    }

    /// Returns the scalar, if it is one.
    pub(crate) fn scalar(&self) -> Option<(ir::Place, ScalarTy)> {
        match self.slot.kind {
            SlotKind::Scalar(field, ty) => Some((self.ir(field), ty)),
            _ => None,
        }
    }

    /// Returns the header, if it is one.
    pub(crate) fn header(&self) -> Option<HeaderPlace> {
        match self.slot.kind {
            SlotKind::Header(header, _) => Some(self.ir_header(header)),
            _ => None,
        }
    }

    /// Returns the validity of a header: the first of its fields.
    pub(crate) fn valid(&self) -> ir::Place {
        self.ir(FieldId::new(self.slot.fields.start))
    }

    /// Returns the parts in order, without their types.
    pub(crate) fn parts(&self) -> &[Rc<Slot>] {
        match &self.slot.kind {
            SlotKind::Scalar(..) => &[],
            SlotKind::Header(_, parts)
            | SlotKind::Struct(parts)
            | SlotKind::Union(parts)
            | SlotKind::Array(parts) => parts,
            SlotKind::Stack { elements, .. } => elements,
        }
    }

    /// Returns `nextIndex`, if it is a stack.
    pub(crate) fn next_index(&self) -> Option<ir::Place> {
        match self.slot.kind {
            SlotKind::Stack { next, .. } => Some(self.ir(next)),
            _ => None,
        }
    }

    /// Returns the fields that a write to the place may change.
    pub(crate) fn extent(&self) -> Range<u32> {
        let fields = &self.union.as_ref().unwrap_or(&self.slot).fields;
        let reach: u32 = self
            .dims
            .iter()
            .map(|dim| dim.fields * dim.len.saturating_sub(1))
            .sum();
        fields.start..fields.end + reach
    }

    /// Returns true if there is no run-time index.
    pub(crate) fn is_static(&self) -> bool {
        self.dims.is_empty()
    }
}

pub(crate) fn overlap(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the fields that reading `place` may access.
pub(crate) fn ir_extent(place: &ir::Place) -> Range<u32> {
    let reach: u32 = place
        .dims
        .iter()
        .map(|dim| dim.stride * dim.len.saturating_sub(1))
        .sum();
    let start = place.base.get();
    start..start + reach + 1
}

/// Collects the fields that evaluating `expr` may read.
pub(crate) fn read_ranges(expr: &Expr, ranges: &mut Vec<Range<u32>>) {
    let of = |place: &ir::Place, ranges: &mut Vec<Range<u32>>| {
        ranges.push(ir_extent(place));
        for dim in &place.dims {
            checkpoint();
            read_ranges(&dim.index, ranges);
        }
    };
    match expr {
        Expr::Const(..) | Expr::Param(_) => {}
        Expr::Read(place) | Expr::VarbitLen(place) => of(place, ranges),
        Expr::VarbitEq(a, b) => {
            of(a, ranges);
            of(b, ranges);
        }
        Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => read_ranges(a, ranges),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
            read_ranges(a, ranges);
            read_ranges(b, ranges);
        }
        Expr::Ternary(a, b, c) => {
            read_ranges(a, ranges);
            read_ranges(b, ranges);
            read_ranges(c, ranges);
        }
    }
}

impl Lower<'_> {
    /// Allocates storage for a variable of this type.
    pub(crate) fn allocate(&mut self, name: &str, ty: TyId) -> Place {
        let slot = match self.scalar(ty) {
            Some(_) => self.slot(name, ty),
            None => {
                let name = self.unique(name);
                self.slot(&name, ty)
            }
        };
        Place::of(slot, ty)
    }

    /// Allocates a temporary of any type.
    pub(crate) fn temp(&mut self, ty: TyId) -> Place {
        let name = self.local_name("tmp");
        self.allocate(&name, ty)
    }

    /// Creates a field. Beyond the frame's capacity all further fields share one.
    pub(crate) fn field_named(&mut self, name: &str, ty: ScalarTy) -> FieldId {
        let most = ir::MAX_FRAME_LIMBS as usize;
        if self.out.fields.len() >= most && !self.is_over() {
            let message = format!(
                "here the program's headers, stacks and variables come to more than {most} fields"
            );
            self.exceed(message, "make header stacks smaller, or copy and save less");
        }
        if self.is_over() && !self.out.fields.is_empty() {
            return FieldId::new(0);
        }
        let name = self.unique(name);
        self.out.fields.push(ir::Field { name, ty })
    }

    fn slot(&mut self, name: &str, ty: TyId) -> Rc<Slot> {
        let fields = self.out.fields.len() as u32;
        let headers = self.out.headers.len() as u32;
        let kind = self.slot_kind(name, ty);
        Rc::new(Slot {
            kind,
            fields: fields..self.out.fields.len() as u32,
            headers: headers..self.out.headers.len() as u32,
        })
    }

    fn slot_kind(&mut self, name: &str, ty: TyId) -> SlotKind {
        if let Some(scalar) = self.scalar(ty) {
            return SlotKind::Scalar(self.field_named(name, scalar), scalar);
        }
        match self.ty(ty).clone() {
            Ty::Record(record, _) => match self.hir.records[record].kind {
                RecordKind::Header => self.header_slot(name, ty),
                RecordKind::HeaderUnion => SlotKind::Union(self.member_slots(name, ty)),
                RecordKind::Struct => SlotKind::Struct(self.member_slots(name, ty)),
            },
            Ty::Tuple(_) => SlotKind::Struct(self.member_slots(name, ty)),
            Ty::Stack(element, len) => self.stack_slot(name, element, len),
            // Types without run-time values need no storage.
            _ => SlotKind::Struct(Vec::new()),
        }
    }

    fn member_slots(&mut self, name: &str, ty: TyId) -> Vec<Rc<Slot>> {
        let members = self.members(ty);
        members
            .iter()
            .map(|(member, ty)| self.slot(&format!("{name}.{member}"), *ty))
            .collect()
    }

    fn header_slot(&mut self, name: &str, ty: TyId) -> SlotKind {
        let header_ty = self.header_type(ty);
        let valid = self.field_named(&format!("{name}.$valid$"), ScalarTy::Bool);
        let header = self.out.headers.push(Header {
            name: name.to_owned(),
            ty: header_ty,
            valid,
        });
        SlotKind::Header(header, self.member_slots(name, ty))
    }

    fn stack_slot(&mut self, name: &str, element: TyId, len: u32) -> SlotKind {
        let kind = match self.ty(element) {
            Ty::Record(record, _) => Some(self.hir.records[*record].kind),
            _ => None,
        };
        let is_stack = matches!(kind, Some(RecordKind::Header | RecordKind::HeaderUnion));
        let next = is_stack.then(|| self.field_named(&format!("{name}.$next$"), ScalarTy::Bit(32)));
        let first = HeaderId::from_index(self.out.headers.len());
        let mut elements = Vec::new();
        for i in 0..len {
            checkpoint();
            if self.is_over() {
                break;
            }
            elements.push(self.slot(&format!("{name}[{i}]"), element));
        }
        match next {
            None => SlotKind::Array(elements),
            Some(next) => {
                let id = (kind == Some(RecordKind::Header) && len > 0).then(|| {
                    let stack = Stack {
                        name: name.to_owned(),
                        first,
                        len,
                        next_index: next,
                    };
                    self.out.stacks.push(stack)
                });
                SlotKind::Stack { id, next, elements }
            }
        }
    }

    /// Returns a member of a struct, header, union or tuple.
    pub(crate) fn member(&mut self, place: &Place, index: usize) -> Option<Place> {
        let ty = self.members(place.ty).get(index)?.1;
        let slot = place.parts().get(index)?;
        let mut part = place.part(slot, ty);
        if matches!(place.slot.kind, SlotKind::Union(_)) {
            part.union = Some(place.slot.clone());
        }
        Some(part)
    }

    /// Returns an element of a stack or array, selected at run time. An index out of range reads
    /// zeros and writes nothing.
    pub(crate) fn element(&mut self, place: &Place, index: Expr) -> Option<Place> {
        let Ty::Stack(element, len) = *self.ty(place.ty) else {
            return None;
        };
        let first = place.parts().first()?;
        if let Expr::Const(_, value) = &index
            && let Some(slot) = value
                .to_u64()
                .and_then(|i| place.parts().get(usize::try_from(i).ok()?))
        {
            return Some(place.part(slot, element));
        }
        let index = self.unsigned(index);
        let mut part = place.part(first, element);
        let length = |range: &Range<u32>| range.end - range.start;
        part.dims.push(PlaceDim {
            index,
            len,
            fields: length(&first.fields),
            headers: length(&first.headers),
        });
        Some(part)
    }

    /// Returns the same place with saved indices, so that later code cannot change them.
    pub(crate) fn settle(&mut self, place: &Place) -> Place {
        let mut settled = place.clone();
        for dim in &mut settled.dims {
            checkpoint();
            let index = std::mem::replace(&mut dim.index, bits_const(0, 1));
            let ty = self.expr_ty(&index);
            dim.index = self.save(ty, index);
        }
        settled
    }

    /// Runs `f` for each element that a place may denote, for code that needs a constant index.
    pub(crate) fn for_each_choice(&mut self, place: &Place, f: &mut dyn FnMut(&mut Self, &Place)) {
        let place = self.settle(place);
        let choices: u64 = place.dims.iter().map(|dim| u64::from(dim.len)).product();
        for choice in 0..choices {
            checkpoint();
            if !self.charge(1) {
                return;
            }
            let mut rest = choice;
            let mut cond = passes::fold::bool_const(true);
            let (mut fields, mut headers) = (0, 0);
            for dim in &place.dims {
                checkpoint();
                let index = rest % u64::from(dim.len);
                rest /= u64::from(dim.len);
                let width = self.expr_ty(&dim.index).width();
                if width < 64 && index >> width != 0 {
                    cond = passes::fold::bool_const(false);
                }
                let is = Expr::Binary(
                    ir::BinOp::Eq,
                    Box::new(dim.index.clone()),
                    Box::new(bits_const(index, width)),
                );
                cond = passes::fold::and(cond, passes::fold::fold(is));
                fields += index as u32 * dim.fields;
                headers += index as u32 * dim.headers;
            }
            let moved = Place {
                slot: self.shifted(&place.slot, fields, headers),
                dims: Vec::new(),
                ..place.clone()
            };
            let (code, ()) = self.capture(|this| f(this, &moved));
            self.emit_if(cond, code, Vec::new());
        }
    }

    /// Returns the storage of the same shape at this distance in fields and headers.
    fn shifted(&self, slot: &Rc<Slot>, fields: u32, headers: u32) -> Rc<Slot> {
        let field = |id: FieldId| FieldId::new(id.get() + fields);
        let all = |parts: &[Rc<Slot>]| {
            parts
                .iter()
                .map(|part| self.shifted(part, fields, headers))
                .collect()
        };
        let kind = match &slot.kind {
            SlotKind::Scalar(id, ty) => SlotKind::Scalar(field(*id), *ty),
            SlotKind::Header(id, parts) => {
                SlotKind::Header(HeaderId::new(id.get() + headers), all(parts))
            }
            SlotKind::Struct(parts) => SlotKind::Struct(all(parts)),
            SlotKind::Union(parts) => SlotKind::Union(all(parts)),
            SlotKind::Array(parts) => SlotKind::Array(all(parts)),
            SlotKind::Stack { next, elements, .. } => {
                let next = field(*next);
                let id = self
                    .out
                    .stacks
                    .iter()
                    .find(|(_, stack)| stack.next_index == next)
                    .map(|(id, _)| id);
                SlotKind::Stack {
                    id,
                    next,
                    elements: all(elements),
                }
            }
        };
        Rc::new(Slot {
            kind,
            fields: slot.fields.start + fields..slot.fields.end + fields,
            headers: slot.headers.start + headers..slot.headers.end + headers,
        })
    }
}

//! Methods of `packet_in` and `packet_out`.

use ir::{BinOp, Expr, ScalarTy, StmtKind};
use passes::fold;
use sema::hir::{self, Arg, ExprKind, TyId};
use support::work::checkpoint;
use syntax::ast::RecordKind;

use crate::cx::{Lower, bits_const};
use crate::storage::{Place, SlotKind};
use crate::value::Rv;

impl Lower<'_> {
    /// Lowers a method of `packet_in` or `packet_out`.
    pub(crate) fn call_packet(&mut self, method: &str, call: &hir::Call, ty: TyId) -> Rv {
        match (method, call.args.as_slice()) {
            ("extract", [header, size @ ..]) => self.extract(header, size.first(), call),
            ("lookahead", _) => return self.lookahead(ty),
            ("advance", [Arg::Expr(bits)]) => {
                let bits = self.scalar_of(bits);
                self.emit(StmtKind::Advance(bits));
            }
            ("length", _) => {
                let length = self.temp_field(ScalarTy::Bit(32));
                self.emit(StmtKind::PacketLength(length.into()));
                return Rv::Scalar(Expr::Read(length.into()));
            }
            ("emit", [Arg::Expr(what)]) => {
                let value = self.value(what);
                let ty = self.subst(what.ty);
                self.emit_value(value, ty);
            }
            _ => {}
        }
        Rv::Default
    }

    fn extract(&mut self, header: &Arg, size: Option<&Arg>, call: &hir::Call) {
        let (place, next) = match header {
            Arg::Expr(expr) => self.extract_target(expr),
            Arg::Omitted => {
                let ty = call.type_args.first().map(|&ty| self.subst(ty));
                (ty.map(|ty| self.temp(ty)), None)
            }
        };
        let size = match size {
            Some(Arg::Expr(size)) => Some(self.scalar_of(size)),
            _ => None,
        };
        let Some((place, target)) =
            place.and_then(|place| place.header().map(|target| (place, target)))
        else {
            self.unsupported(call.span, "only headers can be extracted");
            return;
        };
        self.emit(StmtKind::Extract(target, size));
        self.invalidate_siblings(&place, fold::bool_const(true));
        if let Some(next) = next {
            let one = bits_const(1, 32);
            let advanced = Expr::Binary(
                BinOp::Add,
                Box::new(Expr::Read(next.clone())),
                Box::new(one),
            );
            self.emit(StmtKind::Assign(next, advanced));
        }
    }

    /// Returns the destination of `extract`. For `stack.next` and its members, also returns the
    /// stack's `nextIndex`, which is incremented.
    fn extract_target(&mut self, expr: &hir::Expr) -> (Option<Place>, Option<ir::Place>) {
        let stack = match &expr.kind {
            ExprKind::StackNext(stack) => stack,
            ExprKind::Field(base, member) => {
                let (base, next) = self.extract_target(base);
                return (base.and_then(|base| self.member(&base, *member)), next);
            }
            _ => {
                let place = self.place(expr);
                return (place.map(|place| self.settle(&place)), None);
            }
        };
        let Some(stack) = self.place(stack) else {
            return (None, None);
        };
        let stack = self.settle(&stack);
        let next = stack.next_index();
        let element = next
            .clone()
            .and_then(|next| self.element(&stack, Expr::Read(next)));
        (element, next)
    }

    fn lookahead(&mut self, ty: TyId) -> Rv {
        let ty = self.subst(ty);
        let result = self.temp(ty);
        let mut dests = Vec::new();
        let mut total = 0;
        self.lookahead_dests(&result, ty, &mut total, &mut dests);
        self.emit(StmtKind::Lookahead { total, dests });
        self.make_valid(&result);
        self.load(&result)
    }

    fn lookahead_dests(
        &mut self,
        place: &Place,
        ty: TyId,
        total: &mut u32,
        dests: &mut Vec<(ir::Place, u32)>,
    ) {
        if let Some((scalar, scalar_ty)) = place.scalar() {
            if !matches!(scalar_ty, ScalarTy::Varbit(_)) {
                dests.push((scalar, *total));
                *total += scalar_ty.width();
            }
            return;
        }
        for (index, part_ty) in self.part_types(ty).into_iter().enumerate() {
            checkpoint();
            if let Some(part) = self.place_part(place, ty, index) {
                self.lookahead_dests(&part, part_ty, total, dests);
            }
        }
    }

    fn make_valid(&mut self, place: &Place) {
        match &place.slot.kind {
            SlotKind::Header(..) => self.set_valid(place, true),
            SlotKind::Struct(parts)
            | SlotKind::Array(parts)
            | SlotKind::Stack {
                elements: parts, ..
            } => {
                for part in parts.clone() {
                    checkpoint();
                    let part = place.part(&part, place.ty);
                    self.make_valid(&part);
                }
            }
            SlotKind::Scalar(..) | SlotKind::Union(_) => {}
        }
    }

    /// Lowers `emit`: the valid headers of a struct, stack or union, in order (section 15).
    fn emit_value(&mut self, value: Rv, ty: TyId) {
        match value {
            Rv::Place(place) => self.emit_place(&place),
            Rv::Invalid | Rv::Default => {}
            value @ (Rv::Header(_) | Rv::List(_))
                if self.record_kind(ty) == Some(RecordKind::Header) =>
            {
                let place = self.in_storage(value, ty);
                self.emit_place(&place);
            }
            value => {
                let types = self.part_types(ty);
                for (index, part_ty) in types.into_iter().enumerate() {
                    checkpoint();
                    let part = self.part(&value, ty, index);
                    self.emit_value(part, part_ty);
                }
                if let (Some(scalar), Rv::Scalar(expr)) = (self.scalar(ty), &value) {
                    let field = self.temp_field(scalar);
                    self.emit(StmtKind::Assign(field.into(), expr.clone()));
                    self.emit(StmtKind::EmitField(field.into()));
                }
            }
        }
    }

    fn emit_place(&mut self, place: &Place) {
        match &place.slot.kind {
            SlotKind::Scalar(field, _) => self.emit(StmtKind::EmitField(place.ir(*field))),
            SlotKind::Header(header, _) => self.emit(StmtKind::Emit(place.ir_header(*header))),
            _ => {
                for part in place.parts().to_vec() {
                    checkpoint();
                    let part = place.part(&part, place.ty);
                    self.emit_place(&part);
                }
            }
        }
    }
}

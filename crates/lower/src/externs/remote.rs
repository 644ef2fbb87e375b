//! Remote handlers (CLIP): an extern instance for each handler, calls as operations, and the
//! constants that C code sees.

use bits::Value;
use ir::{
    Constant, Extern, ExternId, ExternKind, HandlerField, HandlerFieldTy, HandlerRecord, Op,
    Operand, ScalarTy,
};
use sema::hir::{self, ExprKind, Ty, TyId};
use support::work::checkpoint;

use super::Args;
use crate::annotate;
use crate::cx::Lower;
use crate::types::value_of;

/// Types of `clip.p4` that C sees as floating-point numbers.
const FLOATS: [&str; 2] = ["float32", "float64"];

/// Type of constants without a width, where their value fits.
const PLAIN_CONSTANT: ScalarTy = ScalarTy::Int(64);

impl Lower<'_> {
    /// Lowers a call of a handler. Its parameters are a request (`in`) and a response (`out`).
    pub(super) fn remote_call(&mut self, id: hir::ExternFnId, args: &Args) {
        let Some(instance) = self.handler(id) else {
            return;
        };
        let request = Operand::Data(args.data(self, 0, false));
        let lvalue = args.lvalue(1);
        let Some(ty) = args.ty(1).or(self.lvalue_ty(&lvalue)) else {
            return;
        };
        let (place, store) = self.out_place(&lvalue, ty);
        let response = Operand::Outs(self.flat_places(&place));
        self.emit_op(Op::Remote, Some(instance), vec![request, response]);
        if store {
            let value = self.load(&place);
            self.store(&lvalue, &value, place.ty);
        }
    }

    /// Returns the instance of a handler. Declares it at its first call.
    fn handler(&mut self, id: hir::ExternFnId) -> Option<ExternId> {
        if let Some(&known) = self.handlers.get(&id) {
            return Some(known);
        }
        let hir = self.hir;
        let proto = &hir.extern_functions[id];
        let [request, response] = proto.params.as_slice() else {
            return None;
        };
        let request = self.handler_record(hir.vars[request.var].ty)?;
        let response = self.handler_record(hir.vars[response.var].ty)?;
        let name = proto.name.as_str().to_owned();
        let handler = Extern {
            name: self.thing_name("extern", name, false),
            kind: ExternKind::Handler { request, response },
            annotations: annotate::annotations(self.sources, &proto.annotations),
            loc: self.loc_of(proto.name.span),
        };
        let made = self.out.externs.push(handler);
        self.handlers.insert(id, made);
        Some(made)
    }

    fn handler_record(&mut self, ty: TyId) -> Option<HandlerRecord> {
        let peeled = self.peel(ty);
        let Ty::Record(id, _) = *self.ty(peeled) else {
            return None;
        };
        let record = &self.hir.records[id];
        let mut fields = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            checkpoint();
            fields.push(HandlerField {
                name: field.name.as_str().to_owned(),
                ty: self.handler_field(field.ty)?,
                annotations: annotate::annotations(self.sources, &field.annotations),
            });
        }
        Some(HandlerRecord {
            name: record.name.as_str().to_owned(),
            fields,
        })
    }

    fn handler_field(&mut self, ty: TyId) -> Option<HandlerFieldTy> {
        if let Some(scalar) = self.scalar(ty) {
            return Some(match self.is_float(ty) {
                true => HandlerFieldTy::Float(scalar),
                false => HandlerFieldTy::Scalar(scalar),
            });
        }
        Some(HandlerFieldTy::Record(self.handler_record(ty)?))
    }

    fn is_float(&self, ty: TyId) -> bool {
        let mut ty = ty;
        while let Ty::NewType(id) = *self.ty(ty) {
            checkpoint();
            let new_type = &self.hir.new_types[id];
            if FLOATS.contains(&new_type.name.as_str()) {
                return true;
            }
            ty = new_type.underlying;
        }
        false
    }

    /// Declares the constants that C code sees, if the program calls a handler.
    pub(crate) fn handler_constants(&mut self) {
        if self.handlers.is_empty() {
            return;
        }
        let hir = self.hir;
        for (name, value) in &hir.constants {
            checkpoint();
            // Names with two underscores belong to compilers, in P4's include files and in C.
            if name.as_str().starts_with("__") {
                continue;
            }
            let known = match &value.kind {
                ExprKind::Int(number) => {
                    let ty = self.scalar(value.ty).unwrap_or(PLAIN_CONSTANT);
                    let fits = ty != PLAIN_CONSTANT || i64::try_from(number).is_ok();
                    fits.then(|| (ty, value_of(number, ty.width())))
                }
                ExprKind::Bool(value) => {
                    Some((ScalarTy::Bool, Value::truncated(u128::from(*value), 1)))
                }
                _ => None,
            };
            if let Some((ty, value)) = known {
                let name = name.as_str().to_owned();
                self.out.constants.push(Constant { name, ty, value });
            }
        }
        for decl in hir.enums.values() {
            checkpoint();
            let Some(ty) = decl.underlying.and_then(|ty| self.scalar(ty)) else {
                continue;
            };
            for (member, number) in &decl.members {
                checkpoint();
                let Some(number) = number else { continue };
                let name = format!("{}_{}", decl.name.as_str(), member.as_str());
                let value = value_of(number, ty.width());
                self.out.constants.push(Constant { name, ty, value });
            }
        }
    }
}

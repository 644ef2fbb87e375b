//! Externs: declares instances, and maps calls by name to the IR's operations.

mod functions;
mod instances;
mod methods;
mod packet;
mod pna;
mod remote;

use ir::{Call, Expr, ExternId, Op, Operand, StmtKind};
use sema::hir::{self, TyId};
use syntax::source::Span;

use crate::call::ArgValue;
use crate::cx::{Lower, bits_const};
use crate::lvalue::Lvalue;
use crate::storage::Place;
use crate::value::Rv;

/// The evaluated arguments of an extern call.
pub(crate) struct Args {
    values: Vec<ArgValue>,
    types: Vec<Option<TyId>>,
    span: Span,
}

impl Args {
    /// Returns the number of arguments written.
    fn given(&self) -> usize {
        let omitted = |value: &&ArgValue| !matches!(value, ArgValue::In(Rv::Omitted));
        self.values.iter().filter(omitted).count()
    }

    /// Returns the value of an `in`, `inout` or directionless argument.
    fn value(&self, lower: &mut Lower<'_>, index: usize) -> Rv {
        match self.values.get(index) {
            Some(ArgValue::In(value) | ArgValue::InOut(_, Some(value))) => value.clone(),
            Some(ArgValue::InOut(lvalue, None)) => lower.load_lvalue(lvalue),
            Some(ArgValue::Out(_)) | None => Rv::Omitted,
        }
    }

    fn ty(&self, index: usize) -> Option<TyId> {
        self.types.get(index).copied().flatten()
    }

    /// Returns a scalar argument.
    fn scalar(&self, lower: &mut Lower<'_>, index: usize) -> Expr {
        let value = self.value(lower, index);
        match (self.ty(index), &value) {
            (Some(ty), _) => lower.scalar_value(&value, ty),
            (None, Rv::Scalar(expr)) => expr.clone(),
            _ => bits_const(0, 32),
        }
    }

    /// Returns an index into an extern's array.
    fn index(&self, lower: &mut Lower<'_>, index: usize) -> Operand {
        let value = self.scalar(lower, index);
        Operand::In(lower.unsigned(value))
    }

    /// Returns all scalars of an argument.
    fn data(&self, lower: &mut Lower<'_>, index: usize, validity: bool) -> Vec<Expr> {
        let value = self.value(lower, index);
        match self.ty(index) {
            Some(ty) => lower.flatten(&value, ty, validity),
            None => Vec::new(),
        }
    }

    fn lvalue(&self, index: usize) -> Lvalue {
        match self.values.get(index) {
            Some(ArgValue::Out(lvalue) | ArgValue::InOut(lvalue, _)) => lvalue.clone(),
            _ => Lvalue::Discard,
        }
    }

    /// Returns the number of a constant argument.
    fn number(&self, lower: &mut Lower<'_>, index: usize) -> Option<u64> {
        match self.value(lower, index) {
            Rv::Int(number) => u64::try_from(&number).ok(),
            Rv::Scalar(Expr::Const(_, value)) => value.to_u64(),
            _ => None,
        }
    }
}

impl Lower<'_> {
    pub(crate) fn extern_args(&mut self, params: &[hir::Param], call: &hir::Call) -> Args {
        let values = self.evaluate_args(params, &call.args, &call.order);
        let types = call.args.iter().map(|arg| match arg {
            hir::Arg::Expr(expr) => Some(self.subst(expr.ty)),
            hir::Arg::Omitted => None,
        });
        Args {
            types: types.collect(),
            values,
            span: call.span,
        }
    }

    fn emit_op(&mut self, op: Op, instance: Option<ExternId>, operands: Vec<Operand>) {
        self.emit(StmtKind::Call(Call {
            op,
            instance,
            operands,
        }));
    }

    /// Calls an operation with its scalar result as the last operand.
    fn op_value(
        &mut self,
        op: Op,
        instance: Option<ExternId>,
        mut operands: Vec<Operand>,
        ty: TyId,
    ) -> Rv {
        let result = self.temp(ty);
        if let Some((place, _)) = result.scalar() {
            operands.push(Operand::Out(place));
            self.emit_op(op, instance, operands);
        }
        self.load(&result)
    }

    /// Calls an operation with `out` as a scalar destination among its operands.
    fn op_out(
        &mut self,
        op: Op,
        instance: Option<ExternId>,
        args: &Args,
        out: usize,
        operands: impl FnOnce(&mut Self, Operand) -> Vec<Operand>,
    ) {
        let lvalue = args.lvalue(out);
        let Some(ty) = args.ty(out).or(self.lvalue_ty(&lvalue)) else {
            return;
        };
        let (place, store) = self.out_place(&lvalue, ty);
        let Some((ir_place, _)) = place.scalar() else {
            return;
        };
        let operands = operands(self, Operand::Out(ir_place));
        self.emit_op(op, instance, operands);
        if store {
            let value = self.load(&place);
            self.store(&lvalue, &value, ty);
        }
    }

    fn lvalue_ty(&mut self, lvalue: &Lvalue) -> Option<TyId> {
        match lvalue {
            Lvalue::Place(place) => Some(place.ty),
            Lvalue::Slice(_, hi, lo) => Some(self.types.intern(hir::Ty::Bit(hi - lo + 1))),
            Lvalue::Discard => None,
        }
    }

    /// Calls `f` with the destinations of an aggregate result. `f` emits the call. Results that
    /// could not be written in place are then stored.
    fn with_outs(&mut self, lvalue: &Lvalue, ty: TyId, f: impl FnOnce(&mut Self, Vec<ir::Place>)) {
        let (place, store) = self.out_place(lvalue, ty);
        let outs = self.flat_places(&place);
        f(self, outs);
        if store {
            let value = self.load(&place);
            self.store(lvalue, &value, ty);
        }
    }

    /// Returns the name of a member of an enum without representation.
    fn member_name(&self, value: &Rv) -> Option<&str> {
        match value {
            Rv::Scalar(Expr::Const(ir::ScalarTy::Enum(id), member)) => {
                let index = usize::try_from(member.to_u64()?).ok()?;
                self.out.enums[*id].members.get(index).map(String::as_str)
            }
            _ => None,
        }
    }

    /// Returns the algorithm of an enum member of any architecture.
    fn algorithm(&self, value: &Rv) -> Option<ir::HashAlgorithm> {
        use ir::HashAlgorithm as H;
        Some(
            match self.member_name(value)?.to_ascii_lowercase().as_str() {
                "crc32" => H::Crc32,
                "crc32_custom" => H::Crc32Custom,
                "crc16" => H::Crc16,
                "crc16_custom" => H::Crc16Custom,
                "random" => H::Random,
                "identity" => H::Identity,
                "csum16" | "ones_complement16" => H::Csum16,
                "xor16" => H::Xor16,
                "toeplitz" => H::Toeplitz,
                _ => H::TargetDefault,
            },
        )
    }

    /// Returns the algorithm of an argument, which must be known at compile time.
    fn algorithm_arg(&mut self, args: &Args, index: usize) -> u64 {
        let value = args.value(self, index);
        match self.algorithm(&value) {
            Some(algorithm) => algorithm.number(),
            None => {
                self.unsupported(
                    args.span,
                    "the algorithm must be known when the program is compiled",
                );
                0
            }
        }
    }

    /// Returns a member of a struct value by its name.
    pub(crate) fn part_named(&mut self, value: &Rv, ty: TyId, name: &str) -> Option<Expr> {
        let index = self
            .members(ty)
            .iter()
            .position(|(member, _)| &**member == name)?;
        let part_ty = self.part_types(ty)[index];
        let part = self.part(value, ty, index);
        Some(self.scalar_value(&part, part_ty))
    }

    /// Returns the place of a struct's member by its name.
    fn place_named(&mut self, place: &Place, name: &str) -> Option<ir::Place> {
        let index = self
            .members(place.ty)
            .iter()
            .position(|(member, _)| &**member == name)?;
        self.member(place, index)?.scalar().map(|(place, _)| place)
    }
}

//! Extern functions of core, v1model, PSA, eBPF, uBPF and XDP; PNA's are in [`super::pna`].

use ir::{BinOp, Expr, HashAlgorithm, Op, Operand, StmtKind};
use passes::fold;
use sema::hir::{self, Ty, TyId};
use support::work::checkpoint;

use super::Args;
use crate::cx::{Lower, bits_const};
use crate::storage::Place;
use crate::value::Rv;

/// First number of the field lists for calls that pass their fields directly.
const CALL_FIELD_LISTS: u32 = 256;

impl Lower<'_> {
    /// Lowers a call of an extern function. `ty` is its result type.
    pub(crate) fn call_extern_function(
        &mut self,
        id: hir::ExternFnId,
        call: &hir::Call,
        ty: TyId,
    ) -> Rv {
        let hir = self.hir;
        let proto = &hir.extern_functions[id];
        let args = self.extern_args(&proto.params, call);
        let ty = self.subst(ty);
        if sema::arch::is_handler(proto) {
            self.remote_call(id, &args);
            return Rv::Default;
        }
        let name = proto.name.as_str();
        if let Some(result) = self.core_function(name, &args, ty) {
            return result;
        }
        let known = match self.out.arch {
            ir::Arch::V1model => self.v1model_function(name, &args, call),
            ir::Arch::Psa => self.psa_function(name, &args),
            ir::Arch::Pna => self.pna_function(name, &args, ty),
            ir::Arch::Ebpf | ir::Arch::Ubpf | ir::Arch::Xdp | ir::Arch::Own => {
                self.filter_function(name, &args, ty)
            }
        };
        match known {
            Some(result) => result,
            None => self.native_function(proto, &args, ty),
        }
    }

    fn core_function(&mut self, name: &str, args: &Args, ty: TyId) -> Option<Rv> {
        match (name, args.given()) {
            ("verify", 2) => {
                let (cond, error) = (args.scalar(self, 0), args.scalar(self, 1));
                self.emit(StmtKind::Verify(cond, error));
            }
            ("static_assert", _) => {
                let _ = ty;
                return Some(Rv::Scalar(fold::bool_const(true)));
            }
            ("assert" | "assume", 1) => {
                let cond = Operand::In(args.scalar(self, 0));
                let text = Operand::Text(self.sources.text(args.span).to_owned());
                let op = if name == "assert" {
                    Op::Assert
                } else {
                    Op::Assume
                };
                self.emit_op(op, None, vec![cond, text]);
            }
            _ => return None,
        }
        Some(Rv::Default)
    }

    fn v1model_function(&mut self, name: &str, args: &Args, call: &hir::Call) -> Option<Rv> {
        match (name, args.values.len()) {
            ("mark_to_drop", _) => self.v1model_drop(args),
            ("hash", 5) => {
                let number = Operand::Number(self.algorithm_arg(args, 1));
                let (base, max) = (args.scalar(self, 2), args.scalar(self, 4));
                let data = Operand::Data(args.data(self, 3, false));
                self.op_out(Op::Hash, None, args, 0, |_, out| {
                    vec![number, Operand::In(base), Operand::In(max), data, out]
                });
            }
            ("random", 3) => {
                let (lo, hi) = (args.scalar(self, 1), args.scalar(self, 2));
                self.op_out(Op::RandomBetween, None, args, 0, |_, out| {
                    vec![Operand::In(lo), Operand::In(hi), out]
                });
            }
            ("verify_checksum", 4) => self.verify_checksum(Op::VerifyChecksum, args, call),
            ("verify_checksum_with_payload", 4) => {
                self.verify_checksum(Op::VerifyChecksumWithPayload, args, call)
            }
            ("update_checksum", 4) => self.update_checksum(Op::UpdateChecksum, args, call),
            ("update_checksum_with_payload", 4) => {
                self.update_checksum(Op::UpdateChecksumWithPayload, args, call)
            }
            ("digest", 2) => {
                let ty = args.ty(1)?;
                let instance = Some(self.v1model_digest(ty, call));
                let data = Operand::Data(args.data(self, 1, true));
                self.emit_op(Op::DigestSend, instance, vec![data]);
            }
            ("clone", 2) => self.v1model_clone(args, 0),
            ("clone_preserving_field_list", 3) => {
                let list = self.field_list_arg(args, 2);
                self.v1model_clone(args, list);
            }
            ("clone3", 3) => {
                let list = self.call_field_list(args, 2);
                self.v1model_clone(args, list);
            }
            ("resubmit_preserving_field_list" | "recirculate_preserving_field_list", 1) => {
                let list = self.field_list_arg(args, 0);
                self.again(name, list);
            }
            ("resubmit" | "recirculate", 0 | 1) => {
                let list = self.call_field_list(args, 0);
                self.again(name, list);
            }
            ("truncate", 1) => self.truncate(args),
            ("log_msg", 1 | 2) => {
                let Rv::Str(text) = args.value(self, 0) else {
                    return None;
                };
                let data = Operand::Data(args.data(self, 1, false));
                self.emit_op(
                    Op::LogMessage,
                    None,
                    vec![Operand::Text(text.to_string()), data],
                );
            }
            _ => return None,
        }
        Some(Rv::Default)
    }

    fn truncate(&mut self, args: &Args) {
        let length = Operand::In(args.scalar(self, 0));
        self.emit_op(Op::Truncate, None, vec![length]);
    }

    fn again(&mut self, name: &str, list: u64) {
        let op = if name.starts_with("resubmit") {
            Op::Resubmit
        } else {
            Op::Recirculate
        };
        self.emit_op(op, None, vec![Operand::Number(list)]);
    }

    /// Lowers BMv2's drop: sets the drop port and clears the multicast group.
    fn v1model_drop(&mut self, args: &Args) {
        let place = match args.lvalue(0) {
            crate::lvalue::Lvalue::Place(place) => Some(place),
            _ => self.shared.get("standard_metadata").cloned(),
        };
        let Some(place) = place else { return };
        if let Some(port) = self.place_named(&place, "egress_spec") {
            let ty = port.ty(&self.out).unwrap_or(ir::ScalarTy::Bit(9));
            self.emit(StmtKind::Assign(
                port,
                Expr::Const(ty, bits::Value::all_ones(ty.width())),
            ));
        }
        if let Some(group) = self.place_named(&place, "mcast_grp") {
            let ty = group.ty(&self.out).unwrap_or(ir::ScalarTy::Bit(16));
            self.emit(StmtKind::Assign(
                group,
                Expr::Const(ty, bits::Value::zero(ty.width())),
            ));
        }
    }

    /// Returns the condition of a checksum operation. As in BMv2, a checksum in a header field is
    /// only verified if the header is valid. An update of an invalid header has no observable
    /// effect.
    fn checksum_condition(&mut self, args: &Args, call: &hir::Call) -> Expr {
        let cond = args.scalar(self, 0);
        let Some(hir::Arg::Expr(checksum)) = call.args.get(2) else {
            return cond;
        };
        let Some(header) = self.header_of(checksum) else {
            return cond;
        };
        let there = Expr::Read(header.valid());
        if asks(&cond, &there) {
            return cond;
        }
        let (cond, there) = (Box::new(cond), Box::new(there));
        fold::fold(Expr::Binary(BinOp::LogicalAnd, cond, there))
    }

    /// Returns the data of a checksum. As in BMv2, fields of an invalid header do not count. In a
    /// sum of 16-bit words that omits whole words, they are zeros.
    fn checksum_data(&mut self, args: &Args, cond: &Expr, number: u64) -> Vec<Expr> {
        let data = args.data(self, 1, false);
        if HashAlgorithm::from_number(number) != Some(HashAlgorithm::Csum16) {
            return data;
        }
        let headers: Vec<_> = data.iter().map(|value| self.field_of(value)).collect();
        let mut guarded = Vec::with_capacity(data.len());
        let mut from = 0;
        while from < data.len() {
            checkpoint();
            let header = headers[from];
            let run = headers[from..]
                .iter()
                .take_while(|&&of| of == header)
                .count();
            let (values, last) = (&data[from..from + run], from + run == data.len());
            from += run;
            let there = header.map(|valid| Expr::Read(valid.into()));
            let widths = values.iter().map(|value| match value {
                Expr::Read(place) => u64::from(self.out.fields[place.base].ty.width()),
                _ => 0,
            });
            let is_whole = last || widths.sum::<u64>().is_multiple_of(16);
            match there.filter(|there| is_whole && !asks(cond, there)) {
                None => guarded.extend_from_slice(values),
                Some(there) => guarded.extend(values.iter().map(|value| {
                    let ty = match value {
                        Expr::Read(place) => self.out.fields[place.base].ty,
                        _ => return value.clone(),
                    };
                    let zero = Expr::Const(ty, bits::Value::zero(ty.width()));
                    let (there, value) = (Box::new(there.clone()), Box::new(value.clone()));
                    Expr::Ternary(there, value, Box::new(zero))
                })),
            }
        }
        guarded
    }

    /// Returns the validity of the header with the field that is read, if it has a fixed width.
    fn field_of(&self, value: &Expr) -> Option<ir::FieldId> {
        let Expr::Read(place) = value else {
            return None;
        };
        let field = place.base.get();
        // Headers are in the order of their fields.
        let headers = self.out.headers.as_slice();
        let behind = headers.partition_point(|header| header.valid.get() < field);
        let header = &headers[behind.checked_sub(1)?];
        let fields = self.out.header_types[header.ty].fields.len() as u32;
        if field > header.valid.get() + fields {
            return None;
        }
        let is_fixed = !matches!(self.out.fields[place.base].ty, ir::ScalarTy::Varbit(_));
        (place.dims.is_empty() && is_fixed).then_some(header.valid)
    }

    fn verify_checksum(&mut self, op: Op, args: &Args, call: &hir::Call) {
        let number = self.algorithm_arg(args, 3);
        let cond = self.checksum_condition(args, call);
        let operands = vec![
            Operand::Number(number),
            Operand::In(cond.clone()),
            Operand::Data(self.checksum_data(args, &cond, number)),
            Operand::In(args.scalar(self, 2)),
        ];
        self.emit_op(op, None, operands);
    }

    /// Returns the header that contains an expression's field or field bits.
    fn header_of(&mut self, expr: &hir::Expr) -> Option<Place> {
        match &expr.kind {
            hir::ExprKind::Slice(base, ..)
            | hir::ExprKind::Cast(base)
            | hir::ExprKind::Index(base, _) => self.header_of(base),
            hir::ExprKind::Field(base, _) => match self.place(base) {
                Some(place) if place.header().is_some() => Some(place),
                _ => self.header_of(base),
            },
            _ => None,
        }
    }

    fn update_checksum(&mut self, op: Op, args: &Args, call: &hir::Call) {
        let number = self.algorithm_arg(args, 3);
        let cond = self.checksum_condition(args, call);
        let data = Operand::Data(self.checksum_data(args, &cond, number));
        let (number, cond) = (Operand::Number(number), Operand::In(cond));
        self.op_out(op, None, args, 2, |_, out| vec![number, cond, data, out]);
    }

    /// Returns the digest of a type. There is one for each type, named after it.
    fn v1model_digest(&mut self, ty: TyId, call: &hir::Call) -> ir::ExternId {
        let ty = self.peel(ty);
        if let Some(&known) = self.digests.get(&ty) {
            return known;
        }
        let name = match *self.ty(ty) {
            Ty::Record(..) => self.record_name(ty),
            _ => format!("digest_{}", self.digests.len()),
        };
        let kind = ir::ExternKind::Digest {
            fields: self.flat_types(ty),
            data_ty: self.data_ty(ty),
        };
        let loc = self.loc_of(call.span);
        let name = self.thing_name("extern", name, true);
        let made = self.out.externs.push(ir::Extern {
            name,
            kind,
            annotations: Vec::new(),
            loc,
        });
        self.digests.insert(ty, made);
        made
    }

    fn v1model_clone(&mut self, args: &Args, list: u64) {
        let session = args.scalar(self, 1);
        let kind = args.scalar(self, 0);
        let clone = |kind: u64| {
            let operands = vec![
                Operand::Number(kind),
                Operand::Number(list),
                Operand::In(session.clone()),
            ];
            StmtKind::Call(ir::Call {
                op: Op::Clone,
                instance: None,
                operands,
            })
        };
        match &kind {
            Expr::Const(_, value) => self.emit(clone(value.to_u64().unwrap_or(0))),
            _ => {
                let ty = self.expr_ty(&kind);
                let first = Expr::Const(ty, bits::Value::zero(ty.width()));
                let is_first = Expr::Binary(BinOp::Eq, Box::new(kind), Box::new(first));
                let (then, ()) = self.capture(|this| this.emit(clone(0)));
                let (otherwise, ()) = self.capture(|this| this.emit(clone(1)));
                self.emit_if(is_first, then, otherwise);
            }
        }
    }

    /// Returns a field list's number plus one.
    fn field_list_arg(&mut self, args: &Args, index: usize) -> u64 {
        match args.number(self, index) {
            Some(number) => number + 1,
            None => {
                self.unsupported(
                    args.span,
                    "the field list must be known when the program is compiled",
                );
                0
            }
        }
    }

    /// Creates a field list from the fields of an argument, and returns its number plus one; 0 for
    /// none.
    fn call_field_list(&mut self, args: &Args, index: usize) -> u64 {
        let fields: Vec<ir::FieldId> = args
            .data(self, index, false)
            .into_iter()
            .filter_map(|expr| match expr {
                Expr::Read(place) if place.dims.is_empty() => Some(place.base),
                _ => None,
            })
            .collect();
        if fields.is_empty() {
            return 0;
        }
        let lists = &mut self.out.pipeline.field_lists;
        let number = match lists
            .iter()
            .find(|(number, list)| **number >= CALL_FIELD_LISTS && **list == fields)
        {
            Some((&number, _)) => number,
            None => {
                let number = lists
                    .keys()
                    .last()
                    .map_or(CALL_FIELD_LISTS, |last| (last + 1).max(CALL_FIELD_LISTS));
                lists.insert(number, fields);
                number
            }
        };
        u64::from(number) + 1
    }

    /// Lowers PSA's functions that test the fate of the packet (PSA, section 6.4).
    fn psa_function(&mut self, name: &str, args: &Args) -> Option<Rv> {
        let value = args.value(self, 0);
        let ty = args.ty(0)?;
        let mut member = |name: &str| self.part_named(&value, ty, name);
        let result = match name {
            "psa_clone_i2e" | "psa_clone_e2e" => member("clone")?,
            "psa_resubmit" => fold::and(fold::not(member("drop")?), member("resubmit")?),
            "psa_normal" => fold::and(fold::not(member("drop")?), fold::not(member("resubmit")?)),
            "psa_recirculate" => {
                let dropped = member("drop")?;
                let input = args.value(self, 1);
                let port = self.part_named(&input, args.ty(1)?, "egress_port")?;
                let recirculate = bits_const(0xffff_fffa, self.expr_ty(&port).width());
                let is = Expr::Binary(BinOp::Eq, Box::new(port), Box::new(recirculate));
                fold::and(fold::not(dropped), is)
            }
            _ => return None,
        };
        Some(Rv::Scalar(result))
    }

    fn filter_function(&mut self, name: &str, args: &Args, ty: TyId) -> Option<Rv> {
        let arg = |this: &mut Self, index: usize| Operand::In(args.scalar(this, index));
        match (name, args.values.len()) {
            ("mark_to_drop", 0) => self.emit_op(Op::MarkToDrop, None, Vec::new()),
            ("mark_to_pass", 0) => self.emit_op(Op::MarkToPass, None, Vec::new()),
            ("truncate", 1) => self.truncate(args),
            ("ubpf_time_get_ns" | "BPF_KTIME_GET_NS", 0) => {
                return Some(self.op_value(Op::TimeNs, None, Vec::new(), ty));
            }
            ("BPF_PERF_EVENT_OUTPUT", 0) => {
                return Some(self.op_value(Op::PerfEventOutput, None, Vec::new(), ty));
            }
            ("csum_replace2" | "csum_replace4", 3) => {
                let op = if name == "csum_replace2" {
                    Op::ChecksumReplace2
                } else {
                    Op::ChecksumReplace4
                };
                let operands = vec![arg(self, 0), arg(self, 1), arg(self, 2)];
                return Some(self.op_value(op, None, operands, ty));
            }
            ("ebpf_ipv4_checksum", count) => {
                let data = (0..count)
                    .flat_map(|index| args.data(self, index, false))
                    .collect();
                let operands = hash_operands(HashAlgorithm::Csum16, data, 16);
                return Some(self.op_value(Op::Hash, None, operands, ty));
            }
            ("hash", 3) => {
                let data = args.data(self, 2, false);
                let mut operands = hash_operands(HashAlgorithm::TargetDefault, data, 32);
                self.op_out(Op::Hash, None, args, 0, |_, out| {
                    operands.push(out);
                    operands
                });
            }
            _ => return None,
        }
        Some(Rv::Default)
    }

    /// Lowers a function that the user declares. The host supplies it by name.
    fn native_function(&mut self, proto: &hir::Prototype, args: &Args, ty: TyId) -> Rv {
        let mut data = Vec::new();
        let mut outs = Vec::new();
        let mut stores = Vec::new();
        for index in 0..args.values.len() {
            checkpoint();
            if !matches!(args.values[index], crate::call::ArgValue::Out(_)) {
                data.extend(args.data(self, index, true));
            }
            let lvalue = args.lvalue(index);
            let Some(arg_ty) = args.ty(index).or(self.lvalue_ty(&lvalue)) else {
                continue;
            };
            if matches!(args.values[index], crate::call::ArgValue::In(_)) {
                continue;
            }
            let (place, store) = self.out_place(&lvalue, arg_ty);
            outs.extend(self.flat_places(&place));
            if store {
                stores.push((lvalue, place));
            }
        }
        let result = (!matches!(self.ty(ty), Ty::Void)).then(|| self.temp(ty));
        if let Some(result) = &result {
            outs.extend(self.flat_places(result));
        }
        let name = Operand::Text(proto.name.as_str().to_owned());
        self.emit_op(
            Op::Native,
            None,
            vec![name, Operand::Data(data), Operand::Outs(outs)],
        );
        for (lvalue, place) in stores {
            checkpoint();
            let value = self.load(&place);
            self.store(&lvalue, &value, place.ty);
        }
        result.map_or(Rv::Default, |result| self.load(&result))
    }
}

/// Returns the operands of [`Op::Hash`] without its destination, for a full hash of `width` bits.
fn hash_operands(algorithm: HashAlgorithm, data: Vec<Expr>, width: u32) -> Vec<Operand> {
    vec![
        Operand::Number(algorithm.number()),
        Operand::In(bits_const(0, 64)),
        Operand::In(bits_const(1 << width, 64)),
        Operand::Data(data),
    ]
}

/// Returns true if a condition syntactically implies the other one.
fn asks(cond: &Expr, other: &Expr) -> bool {
    match cond {
        Expr::Binary(BinOp::LogicalAnd, left, right) => asks(left, other) || asks(right, other),
        cond => cond == other,
    }
}

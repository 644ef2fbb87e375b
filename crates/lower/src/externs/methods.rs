//! Methods of extern objects.

use ir::{BinOp, Expr, ExternId, Op, Operand, ScalarTy};
use passes::fold;
use sema::hir::{self, Ty, TyId};
use syntax::source::Span;

use super::Args;
use crate::call::Reach;
use crate::cx::{Lower, bits_const};
use crate::value::Rv;

impl Lower<'_> {
    /// Lowers a method call. `ty` is its result type.
    pub(crate) fn call_extern_method(
        &mut self,
        object: &hir::Expr,
        extern_id: hir::ExternId,
        method: usize,
        call: &hir::Call,
        ty: TyId,
    ) -> Rv {
        let hir = self.hir;
        let decl = &hir.externs[extern_id];
        let Some(proto) = decl.methods.get(method).map(|method| &method.proto) else {
            return Rv::Default;
        };
        let name = (decl.name.as_str(), proto.name.as_str());
        let object = self.value(object);
        if matches!(name.0, "packet_in" | "packet_out") {
            return self.call_packet(name.1, call, ty);
        }
        let Rv::Instance(node) = object else {
            return self.unsupported(
                call.span,
                "this is not an instance that is known when the program is compiled",
            );
        };
        let bodies = self.nodes[node]
            .instance
            .map(|instance| hir.instances[instance].methods.as_slice());
        if let Some(&(_, body)) =
            bodies.and_then(|bodies| bodies.iter().find(|(index, _)| *index == method))
        {
            self.this.push(node);
            let result = self.call_function(body, call, Reach::Anything);
            self.this.pop();
            return result;
        }
        let args = self.extern_args(&proto.params, call);
        let ty = self.subst(ty);
        match self.nodes[node].ir {
            Some(id) => match self.known_method(name, id, &args, ty) {
                Some(result) => result,
                None => self.no_implementation(name, args.span),
            },
            None => self.no_implementation(name, args.span),
        }
    }

    /// Lowers a method of an extern without implementation. In a user's own architecture, or in a
    /// description, it does nothing and returns zeros. Otherwise it is an error.
    fn no_implementation(&mut self, (name, method): (&str, &str), span: Span) -> Rv {
        if self.out.arch == ir::Arch::Own || self.is_description {
            return Rv::Default;
        }
        let message = format!(
            "method `{method}` of extern `{name}` has no implementation on this target; programs that use it can be checked but not run"
        );
        self.unsupported(span, message)
    }

    fn known_method(
        &mut self,
        name: (&str, &str),
        id: ExternId,
        args: &Args,
        ty: TyId,
    ) -> Option<Rv> {
        let instance = Some(id);
        let arg = |this: &mut Self, index: usize| Operand::In(args.scalar(this, index));
        match name {
            // v1model's direct counters count by themselves, once for each hit of their table.
            ("direct_counter", "count") => {}
            ("counter" | "Counter", "count") | ("CounterArray", "increment") => {
                let index = args.index(self, 0);
                if args.given() > 1 {
                    let length = arg(self, 1);
                    self.emit_op(Op::CounterCountLength, instance, vec![index, length]);
                } else {
                    self.emit_op(Op::CounterCount, instance, vec![index]);
                }
            }
            ("CounterArray", "add") => {
                let operands = vec![args.index(self, 0), arg(self, 1)];
                self.emit_op(Op::CounterAdd, instance, operands);
            }
            ("DirectCounter" | "DirectMeter", _) if !self.is_attached(id) => {
                let message = format!(
                    "`{}` is not attached to the table that runs this",
                    self.out.externs[id].name
                );
                return Some(self.unsupported(args.span, message));
            }
            ("DirectCounter" | "DirectMeter", _) if !self.is_attached(id) => {
                let message = format!(
                    "`{}` is not attached to the table that runs this",
                    self.out.externs[id].name
                );
                return Some(self.unsupported(args.span, message));
            }
            ("DirectCounter", "count") if args.given() == 1 => {
                let length = arg(self, 0);
                self.emit_op(Op::DirectCounterCountLength, instance, vec![length]);
            }
            ("DirectCounter", "count") => {
                self.emit_op(Op::DirectCounterCount, instance, Vec::new())
            }
            ("meter", "execute_meter") => {
                let index = args.index(self, 0);
                self.if_inside(id, index, args.ty(0), |this, index| {
                    this.op_out(Op::MeterExecute, instance, args, 1, |_, out| {
                        vec![index, out]
                    });
                });
            }
            ("direct_meter", "read") => {
                // BMv2 leaves the destination unchanged in other tables.
                if !self.is_attached(id) {
                    return Some(Rv::Default);
                }
                self.op_out(Op::DirectMeterExecute, instance, args, 0, |_, out| {
                    vec![out]
                })
            }
            ("Meter", "execute" | "dpdk_execute") => {
                return Some(self.psa_meter(instance, args, Some(0), ty));
            }
            ("DirectMeter", "execute" | "dpdk_execute") => {
                return Some(self.psa_meter(instance, args, None, ty));
            }
            ("register", "read") => {
                let index = args.index(self, 1);
                let lvalue = args.lvalue(0);
                let ty = args.ty(0).or(self.lvalue_ty(&lvalue))?;
                self.if_inside(id, index, args.ty(1), |this, index| {
                    this.with_outs(&lvalue, ty, |this, outs| {
                        this.emit_op(Op::RegisterRead, instance, vec![index, Operand::Outs(outs)]);
                    });
                });
            }
            ("Register", "read") => {
                let index = args.index(self, 0);
                let result = self.temp(ty);
                let outs = Operand::Outs(self.flat_places(&result));
                self.emit_op(Op::RegisterRead, instance, vec![index, outs]);
                return Some(self.load(&result));
            }
            ("register" | "Register", "write") => {
                let data = Operand::Data(args.data(self, 1, true));
                let operands = vec![args.index(self, 0), data];
                self.emit_op(Op::RegisterWrite, instance, operands);
            }
            ("Hash", "get_hash") if args.given() == 1 => {
                let data = Operand::Data(args.data(self, 0, false));
                return Some(self.op_value(Op::HashGet, instance, vec![data], ty));
            }
            ("Hash", "get_hash") => {
                let operands = vec![
                    arg(self, 0),
                    arg(self, 2),
                    Operand::Data(args.data(self, 1, false)),
                ];
                return Some(self.op_value(Op::HashGetBase, instance, operands, ty));
            }
            ("Checksum", "clear") => self.emit_op(Op::ChecksumClear, instance, Vec::new()),
            ("Checksum", "update") => self.data_op(Op::ChecksumUpdate, instance, args),
            ("Checksum", "get") => {
                return Some(self.op_value(Op::ChecksumGet, instance, Vec::new(), ty));
            }
            ("Checksum16", "get") => {
                self.emit_op(Op::InternetChecksumClear, instance, Vec::new());
                self.data_op(Op::InternetChecksumAdd, instance, args);
                return Some(self.op_value(Op::InternetChecksumGet, instance, Vec::new(), ty));
            }
            ("InternetChecksum", "clear") => {
                self.emit_op(Op::InternetChecksumClear, instance, Vec::new())
            }
            ("InternetChecksum", "add") => self.data_op(Op::InternetChecksumAdd, instance, args),
            ("InternetChecksum", "subtract") => {
                self.data_op(Op::InternetChecksumSubtract, instance, args)
            }
            ("InternetChecksum", "get") => {
                return Some(self.op_value(Op::InternetChecksumGet, instance, Vec::new(), ty));
            }
            ("InternetChecksum", "get_state") => {
                return Some(self.op_value(Op::InternetChecksumGetState, instance, Vec::new(), ty));
            }
            ("InternetChecksum", "set_state") => {
                let state = arg(self, 0);
                self.emit_op(Op::InternetChecksumSetState, instance, vec![state]);
            }
            ("Random", "read") => {
                return Some(self.op_value(Op::RandomRead, instance, Vec::new(), ty));
            }
            ("Digest", "pack") => {
                let data = Operand::Data(args.data(self, 0, true));
                self.emit_op(Op::DigestSend, instance, vec![data]);
            }
            _ => return None,
        }
        Some(Rv::Default)
    }

    /// Emits code that runs if an index is inside a v1model array. As in BMv2, a read outside
    /// leaves the result unchanged.
    fn if_inside(
        &mut self,
        id: ExternId,
        index: Operand,
        index_ty: Option<TyId>,
        code: impl FnOnce(&mut Self, Operand),
    ) {
        let size = match self.out.externs[id].kind {
            ir::ExternKind::Register { size, .. } | ir::ExternKind::Meter { size, .. } => size,
            _ => return code(self, index),
        };
        let inside = match &index {
            Operand::In(at) => {
                let ty = index_ty.and_then(|ty| self.scalar(ty));
                ty.map(|ty| inside(at, ty.width(), size))
            }
            _ => None,
        };
        let Some(inside) = inside else {
            return code(self, index);
        };
        let (then, ()) = self.capture(|this| code(this, index));
        self.emit_if(inside, then, Vec::new());
    }

    /// Returns true if an extern is the direct counter or meter of the action's table.
    fn is_attached(&mut self, id: ExternId) -> bool {
        match &mut self.in_table {
            Some(table) => {
                table.used = true;
                table.direct.contains(&Some(id))
            }
            None => false,
        }
    }

    fn data_op(&mut self, op: Op, instance: Option<ExternId>, args: &Args) {
        let data = Operand::Data(args.data(self, 0, false));
        self.emit_op(op, instance, vec![data]);
    }

    /// Lowers meters of PSA and PNA. Colours are enum members there and numbers in the IR.
    fn psa_meter(
        &mut self,
        instance: Option<ExternId>,
        args: &Args,
        index: Option<usize>,
        ty: TyId,
    ) -> Rv {
        let direct = index.is_none();
        let mut operands: Vec<Operand> = index
            .map(|index| args.index(self, index))
            .into_iter()
            .collect();
        let first = operands.len();
        let is_colour = |this: &Self, at: usize| {
            args.ty(at)
                .is_some_and(|ty| matches!(this.ty(ty), Ty::Enum(_)))
        };
        let colour = args.ty(first).filter(|_| is_colour(self, first));
        let length =
            (first..args.values.len()).find(|&at| args.ty(at).is_some() && !is_colour(self, at));
        if let Some(ty) = colour {
            let value = args.scalar(self, first);
            operands.push(Operand::In(self.colour_number(value, ty)));
        }
        if let Some(at) = length {
            if colour.is_none() {
                // Colour-blind is equivalent to a green input colour.
                operands.push(Operand::In(bits_const(0, 8)));
            }
            operands.push(Operand::In(args.scalar(self, at)));
        }
        let op = match (direct, colour.is_some(), length.is_some()) {
            (false, false, false) => Op::MeterExecute,
            (false, true, false) => Op::MeterExecuteColored,
            (false, _, true) => Op::MeterExecuteLength,
            (true, false, false) => Op::DirectMeterExecute,
            (true, true, false) => Op::DirectMeterExecuteColored,
            (true, _, true) => Op::DirectMeterExecuteLength,
        };
        let number = self.temp_field(ScalarTy::Bit(8));
        operands.push(Operand::Out(number.into()));
        self.emit_op(op, instance, operands);
        Rv::Scalar(self.colour_member(Expr::Read(number.into()), ty))
    }

    /// Returns the constants of an enum's members for green, yellow and red.
    fn colours(&mut self, ty: TyId) -> Option<[Expr; 3]> {
        let ScalarTy::Enum(id) = self.scalar(ty)? else {
            return None;
        };
        let members = &self.out.enums[id].members;
        let of = |name: &str| {
            let position = members
                .iter()
                .position(|member| member.eq_ignore_ascii_case(name))?;
            Some(Expr::Const(
                ScalarTy::Enum(id),
                bits::Value::truncated(position as u128, 32),
            ))
        };
        Some([of("green")?, of("yellow")?, of("red")?])
    }

    fn colour_number(&mut self, colour: Expr, ty: TyId) -> Expr {
        let Some([green, yellow, _]) = self.colours(ty) else {
            return bits_const(0, 8);
        };
        let is = |member: Expr| {
            fold::fold(Expr::Binary(
                ir::BinOp::Eq,
                Box::new(colour.clone()),
                Box::new(member),
            ))
        };
        let other = fold::fold(Expr::Ternary(
            Box::new(is(yellow)),
            Box::new(bits_const(1, 8)),
            Box::new(bits_const(2, 8)),
        ));
        fold::fold(Expr::Ternary(
            Box::new(is(green)),
            Box::new(bits_const(0, 8)),
            Box::new(other),
        ))
    }

    fn colour_member(&mut self, number: Expr, ty: TyId) -> Expr {
        let Some([green, yellow, red]) = self.colours(ty) else {
            return number;
        };
        let is = |value: u64| {
            Expr::Binary(
                ir::BinOp::Eq,
                Box::new(number.clone()),
                Box::new(bits_const(value, 8)),
            )
        };
        let other = Expr::Ternary(Box::new(is(1)), Box::new(yellow), Box::new(red));
        Expr::Ternary(Box::new(is(0)), Box::new(green), Box::new(other))
    }
}

/// Builds the condition that an index of this width is less than a size.
fn inside(index: &Expr, width: u32, size: u32) -> Expr {
    let size = u64::from(size);
    // No number of this width reaches the size.
    if width < 64 && 1 << width <= size {
        return fold::bool_const(true);
    }
    let most = Expr::Const(
        ScalarTy::Bit(width),
        bits::Value::truncated(size.into(), width),
    );
    fold::fold(Expr::Binary(
        BinOp::Lt,
        Box::new(index.clone()),
        Box::new(most),
    ))
}

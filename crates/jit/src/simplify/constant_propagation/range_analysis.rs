//! Value-range analysis: upper bounds, by which masks become redundant and comparisons constant.

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{InstructionData, Opcode, Type, Value, ValueDef};

use super::{Fold, Number, cut, mask, needed};

impl Fold<'_> {
    /// Returns an upper bound of a value.
    pub(super) fn most(&self, value: Value) -> u64 {
        let value = self.origin(value);
        match self.noted[value].number {
            Number::Is(number) | Number::AtMost(number) => number,
            Number::Any => match self.func.dfg.value_type(value) {
                ty if ty.is_int() && ty.bits() <= u64::BITS => mask(ty),
                _ => u64::MAX,
            },
        }
    }

    /// Returns an upper bound of an instruction's result of type `ty`, as [`Fold::most`].
    pub(super) fn most_of_result(&self, data: InstructionData, ty: Type) -> u64 {
        let any = mask(ty);
        let most = match data {
            InstructionData::Load { opcode, .. } => match opcode {
                Opcode::Uload8 => u8::MAX.into(),
                Opcode::Uload16 => u16::MAX.into(),
                Opcode::Uload32 => u32::MAX.into(),
                _ => any,
            },
            InstructionData::IntCompare { .. } | InstructionData::IntCompareImm { .. } => 1,
            InstructionData::Unary {
                opcode: Opcode::Uextend | Opcode::Ireduce,
                arg,
            } => self.most(arg),
            InstructionData::BinaryImm64 { opcode, arg, imm } => {
                let imm = cut(imm.bits() as u64, ty);
                most_with_number(opcode, self.most(arg), imm, ty)
            }
            InstructionData::Binary { opcode, args } => {
                let [one, other] = args.map(|arg| self.most(arg));
                match opcode {
                    Opcode::Iadd => one.checked_add(other).unwrap_or(any),
                    Opcode::Band | Opcode::Umin => one.min(other),
                    Opcode::Bor | Opcode::Bxor => ones(one | other),
                    Opcode::Umax => one.max(other),
                    Opcode::Ushr => one,
                    _ => any,
                }
            }
            InstructionData::Ternary {
                opcode: Opcode::Select,
                args: [_, yes, no],
            } => self.most(yes).max(self.most(no)),
            _ => any,
        };
        // A larger bound means that upper bits may be lost.
        if most <= any { most } else { any }
    }

    /// Returns the result of a comparison with a number, if it is the same for all possible values.
    pub(super) fn compared(&self, data: InstructionData) -> Option<u64> {
        let (cond, arg, number) = self.comparison(data)?;
        let is_less = self.most(arg) < number;
        match cond {
            IntCC::UnsignedLessThan | IntCC::UnsignedLessThanOrEqual | IntCC::NotEqual => {
                is_less.then_some(1)
            }
            IntCC::UnsignedGreaterThan | IntCC::UnsignedGreaterThanOrEqual | IntCC::Equal => {
                is_less.then_some(0)
            }
            _ => None,
        }
    }

    /// Returns the condition, the value and the number of a comparison with a number.
    pub(super) fn comparison(&self, data: InstructionData) -> Option<(IntCC, Value, u64)> {
        let constant = |value: Value| self.noted[self.origin(value)].constant();
        match data {
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                let ty = self.func.dfg.value_type(arg);
                Some((cond, arg, cut(imm.bits() as u64, ty)))
            }
            InstructionData::IntCompare {
                cond,
                args: [one, other],
                ..
            } => match (constant(one), constant(other)) {
                (_, Some(number)) => Some((cond, one, number)),
                (Some(number), None) => Some((cond.swap_args(), other, number)),
                (None, None) => None,
            },
            _ => None,
        }
    }

    /// Returns `x` if `value` is `!(!x & ones)`. Masked with `ones`, both are equal.
    pub(super) fn complemented_twice(&self, value: Value, ones: i64) -> Option<Value> {
        let cut = self.argument_of(value, |data| match data {
            InstructionData::Unary {
                opcode: Opcode::Bnot,
                arg,
            } => Some(arg),
            _ => None,
        })?;
        let complement = self.argument_of(cut, |data| match data {
            InstructionData::BinaryImm64 {
                opcode: Opcode::BandImm,
                arg,
                imm,
            } if imm.bits() == ones => Some(arg),
            _ => None,
        })?;
        self.argument_of(complement, |data| match data {
            InstructionData::Unary {
                opcode: Opcode::Bnot,
                arg,
            } => Some(arg),
            _ => None,
        })
    }

    /// Applies `ask` to the instruction that defines a value.
    fn argument_of(
        &self,
        value: Value,
        ask: impl Fn(InstructionData) -> Option<Value>,
    ) -> Option<Value> {
        match self.func.dfg.value_def(self.origin(value)) {
            ValueDef::Result(inst, 0) => ask(self.func.dfg.insts[inst]),
            _ => None,
        }
    }
}

/// Returns the maximum result of an operation with an immediate, for an operand up to `most`. The
/// result exceeds the type if upper bits may be lost.
fn most_with_number(opcode: Opcode, most: u64, imm: u64, ty: Type) -> u64 {
    match opcode {
        Opcode::IaddImm => most.saturating_add(imm),
        Opcode::BandImm => most.min(imm),
        Opcode::BorImm | Opcode::BxorImm => ones(most | imm),
        Opcode::UshrImm if imm < ty.bits().into() => most >> imm,
        Opcode::IshlImm if imm < most.leading_zeros().into() => most << imm,
        _ => u64::MAX,
    }
}

/// Returns a number with all bits set, up to the most significant one of `number`.
fn ones(number: u64) -> u64 {
    match needed(number) {
        0 => 0,
        bits => u64::MAX >> (u64::BITS - bits),
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::types::{I8, I64};
    use cranelift_codegen::ir::{BlockArg, Function, InstBuilder};
    use cranelift_frontend::FunctionBuilder;

    use super::*;
    use crate::simplify::tests::{check, count, fold, function, safe};

    /// Operations of a test case, on two 16-bit numbers and one of 64 bits.
    type Case = fn(&mut FunctionBuilder<'_>, [Value; 3]) -> Value;

    /// Builds a function that stores the result of a case, and the result of `then` applied to it.
    fn of_case(
        case: impl FnOnce(&mut FunctionBuilder<'_>, [Value; 3]) -> Value,
        then: impl FnOnce(&mut FunctionBuilder<'_>, Value) -> Value,
    ) -> Function {
        let mut func = function(|b, pointer| {
            let [one, other] = [0, 2].map(|at| b.ins().uload16(I64, safe(), pointer, at));
            let any = b.ins().load(I64, safe(), pointer, 8);
            let number = case(b, [one, other, any]);
            let result = then(b, number);
            b.ins().store(safe(), number, pointer, 16);
            b.ins().store(safe(), result, pointer, 24);
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        func
    }

    /// Returns true if the result of a case is known to be at most `most`.
    fn is_at_most(
        case: impl FnOnce(&mut FunctionBuilder<'_>, [Value; 3]) -> Value,
        most: u64,
    ) -> bool {
        let func = of_case(case, |b, number| {
            let is_less = IntCC::UnsignedLessThanOrEqual;
            let truth = b.ins().icmp_imm(is_less, number, most as i64 + 1);
            b.ins().uextend(I64, truth)
        });
        count(&func, Opcode::IcmpImm) == 0
    }

    #[test]
    fn what_is_computed_of_numbers_has_the_greatest_number_that_it_may_be() {
        let cases: [(Case, u64); 14] = [
            (|_, [a, ..]| a, 0xffff),
            (|b, [x, y, _]| b.ins().iadd(x, y), 0x1_fffe),
            (|b, [x, ..]| b.ins().iadd_imm(x, 5), 0x1_0004),
            (|b, [x, ..]| b.ins().band_imm(x, 0x1_00ff), 0xffff),
            (|b, [.., any]| b.ins().band_imm(any, 0x1_00ff), 0x1_00ff),
            (|b, [x, _, any]| b.ins().band(any, x), 0xffff),
            (|b, [x, ..]| b.ins().bor_imm(x, 0x1_0000), 0x1_ffff),
            (|b, [x, y, _]| b.ins().bxor(x, y), 0xffff),
            (|b, [x, ..]| b.ins().ushr_imm(x, 3), 0x1fff),
            (|b, [x, y, _]| b.ins().ushr(x, y), 0xffff),
            (|b, [x, ..]| b.ins().ishl_imm(x, 3), 0x7_fff8),
            (|b, [x, _, any]| b.ins().umin(any, x), 0xffff),
            (|b, [x, y, _]| b.ins().umax(y, x), 0xffff),
            (
                |b, [x, y, any]| {
                    let large = b.ins().iconst(I64, 0x2_0000);
                    let large = b.ins().iadd(large, y);
                    b.ins().select(any, x, large)
                },
                0x2_ffff,
            ),
        ];
        for (at, (case, most)) in cases.into_iter().enumerate() {
            assert!(is_at_most(case, most), "case {at}");
            assert!(!is_at_most(case, most - 1), "case {at}");
        }
    }

    #[test]
    fn what_may_have_lost_its_upper_bits_may_be_any_number() {
        let cases: [Case; 4] = [
            |b, [_, _, any]| b.ins().iadd_imm(any, 1),
            |b, [x, _, any]| b.ins().iadd(any, x),
            |b, [x, ..]| b.ins().ishl_imm(x, 49),
            |b, [x, y, _]| b.ins().isub(x, y),
        ];
        for (at, case) in cases.into_iter().enumerate() {
            assert!(!is_at_most(case, i64::MAX as u64 - 1), "case {at}");
        }
    }

    #[test]
    fn numbers_of_few_bits_lose_the_upper_ones_and_are_shifted_by_less_than_these() {
        let narrow = |b: &mut FunctionBuilder<'_>, [x, ..]: [Value; 3]| b.ins().ireduce(I8, x);
        let cases: [(Case, u64); 6] = [
            (|b, [x, ..]| b.ins().band_imm(x, 15), 15),
            (|b, [x, ..]| b.ins().ushr_imm(x, 3), 31),
            // The distance is taken modulo the width.
            (|b, [x, ..]| b.ins().ushr_imm(x, 8), 255),
            (|b, [x, ..]| b.ins().ishl_imm(x, 1), 255),
            (|b, [x, ..]| b.ins().iadd_imm(x, 1), 255),
            (|b, [x, y, _]| b.ins().iadd(x, y), 255),
        ];
        for (at, (case, most)) in cases.into_iter().enumerate() {
            let widened = |b: &mut FunctionBuilder<'_>, values: [Value; 3]| {
                let x = narrow(b, values);
                let result = case(b, [x; 3]);
                b.ins().uextend(I64, result)
            };
            assert!(is_at_most(widened, most), "case {at}");
            assert!(!is_at_most(widened, most - 1), "case {at}");
        }
    }

    #[test]
    fn what_is_less_than_a_number_of_two_signs_is_asked() {
        let is_asked = |cond: IntCC| {
            let func = of_case(
                |b, [x, ..]| b.ins().band_imm(x, 1),
                |b, number| {
                    let truth = b.ins().icmp_imm(cond, number, -1);
                    b.ins().uextend(I64, truth)
                },
            );
            count(&func, Opcode::IcmpImm) == 1
        };
        assert!(is_asked(IntCC::SignedLessThan));
        assert!(is_asked(IntCC::SignedGreaterThan));
        assert!(!is_asked(IntCC::UnsignedLessThan));
    }

    #[test]
    fn comparisons_with_equal_constants_are_one_and_some_are_known() {
        let mut func = function(|b, pointer| {
            let number = b.ins().uload16(I64, safe(), pointer, 0);
            let is_less = IntCC::UnsignedLessThan;
            let compared = |b: &mut FunctionBuilder<'_>, with: i64| {
                let with = b.ins().iconst(I64, with);
                b.ins().icmp(is_less, number, with)
            };
            let [one, other] = [700, 700].map(|with| compared(b, with));
            let [known, third] = [compared(b, 0x10000), b.ins().icmp_imm(is_less, number, 700)];
            for (at, truth) in (8..).zip([one, other, known, third]) {
                b.ins().store(safe(), truth, pointer, at);
            }
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        assert_eq!(
            (count(&func, Opcode::Icmp), count(&func, Opcode::IcmpImm)),
            (1, 0)
        );
    }

    #[test]
    fn what_a_loop_counts_may_be_any_number() {
        let mut func = function(|b, pointer| {
            let around = b.create_block();
            let counted = b.append_block_param(around, I64);
            let zero = b.ins().iconst(I64, 0);
            b.ins().jump(around, &[BlockArg::Value(zero)]);
            b.switch_to_block(around);
            let more = b.ins().iadd_imm(counted, 1);
            let is_less = b.ins().icmp_imm(IntCC::UnsignedLessThan, counted, 5);
            let end = b.create_block();
            b.ins()
                .brif(is_less, around, &[BlockArg::Value(more)], end, &[]);
            b.switch_to_block(end);
            b.ins().store(safe(), counted, pointer, 16);
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::IcmpImm), 1);
    }

    #[test]
    fn a_complement_of_a_complement_is_the_number_as_far_as_both_are_cut_alike() {
        let twice = |first: i64, second: i64| {
            let mut func = function(|b, pointer| {
                let any = b.ins().load(I64, safe(), pointer, 8);
                let complement = b.ins().bnot(any);
                let cut = b.ins().band_imm(complement, first);
                let complement = b.ins().bnot(cut);
                let cut = b.ins().band_imm(complement, second);
                b.ins().store(safe(), cut, pointer, 16);
                b.ins().return_(&[]);
            });
            fold(&mut func);
            check(&func);
            let store = crate::simplify::dead_code::insts(&func)
                .find(|&inst| func.dfg.insts[inst].opcode() == Opcode::Store)
                .and_then(|store| func.dfg.value_def(func.dfg.inst_args(store)[0]).inst());
            let of = store.map(|inst| func.dfg.inst_args(inst)[0]);
            let of = of.and_then(|of| func.dfg.value_def(of).inst());
            of.map(|inst| func.dfg.insts[inst].opcode())
        };
        assert_eq!(twice(0xffff, 0xffff), Some(Opcode::Load));
        assert_eq!(twice(0xffff, 0xff), Some(Opcode::Bnot));
    }
}

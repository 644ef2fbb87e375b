//! Peephole rewriting. It removes redundancy from piecewise translation: bytes that are swapped
//! twice or on both sides of a comparison, and several comparisons of different bits of one value.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{
    Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value, ValueDef,
};

use support::work::checkpoint;

use super::constant_propagation::{cut, mask, signed};
use super::dead_code;

/// Maximum number of instructions that are followed to find the origin of a value.
const MAX_STEPS: usize = 8;

/// Rewrites all instructions of a function.
pub(super) fn reduce(func: &mut Function) {
    let insts: Vec<Inst> = dead_code::insts(func).collect();
    for inst in insts {
        checkpoint();
        address_at_once(func, inst);
        match func.dfg.insts[inst] {
            InstructionData::Unary {
                opcode: Opcode::Bswap,
                arg,
            } => {
                swap_back(func, inst, arg);
                swap_half(func, inst);
            }
            InstructionData::Store {
                opcode: Opcode::Istore32,
                ..
            } => store_half(func, inst),
            InstructionData::Binary { opcode, args } => compare_at_once(func, inst, opcode, args),
            InstructionData::IntCompare { .. } | InstructionData::IntCompareImm { .. } => {
                compare_unshifted(func, inst);
                if let Some(equality) = Equality::of(func, inst) {
                    compare_unswapped(func, inst, equality);
                }
            }
            _ => {}
        }
    }
}

/// Right-hand side of a comparison.
#[derive(Clone, Copy, Debug)]
enum With {
    Number(u64),
    Value(Value),
}

/// Test of a value for equality or inequality.
#[derive(Clone, Copy, Debug)]
struct Equality {
    cond: IntCC,
    value: Value,
    with: With,
}

impl Equality {
    /// Returns the test that an instruction performs.
    fn of(func: &Function, inst: Inst) -> Option<Equality> {
        let (cond, value, with) = match func.dfg.insts[inst] {
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                (cond, arg, With::Number(imm.bits() as u64))
            }
            InstructionData::IntCompare { cond, args, .. } => {
                match args.map(|arg| constant(func, arg)) {
                    [_, Some(number)] => (cond, args[0], With::Number(number)),
                    [Some(number), _] => (cond, args[1], With::Number(number)),
                    _ => (cond, args[0], With::Value(args[1])),
                }
            }
            _ => return None,
        };
        let ty = func.dfg.value_type(value);
        if !matches!(cond, IntCC::Equal | IntCC::NotEqual) || !is_number(ty) {
            return None;
        }
        let with = match with {
            With::Number(number) => With::Number(cut(number, ty)),
            value => value,
        };
        Some(Equality { cond, value, with })
    }
}

/// Returns true for integer types of at most 64 bits.
fn is_number(ty: Type) -> bool {
    ty.is_int() && ty.bits() <= 64
}

fn constant(func: &Function, value: Value) -> Option<u64> {
    match source(func, value)? {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(imm.bits() as u64),
        _ => None,
    }
}

/// Returns the instruction that defines a value.
fn source(func: &Function, value: Value) -> Option<InstructionData> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => Some(func.dfg.insts[inst]),
        _ => None,
    }
}

/// Low bits of a value, recognized as a number of type `ty` with swapped bytes and some bits
/// inverted.
#[derive(Clone, Copy, Debug)]
struct Swapped {
    number: Value,
    ty: Type,
    inverted: u64,
    /// True if the other bits of the value are zero.
    is_all: bool,
}

impl Swapped {
    /// Recognizes a value, with type `wanted` if one is given.
    fn of(func: &Function, value: Value, wanted: Option<Type>) -> Option<Swapped> {
        let (mut value, mut inverted, mut kept) = (value, 0, u64::MAX);
        let is_wide_enough = |ty: Type| wanted.is_none_or(|wanted| ty.bits() >= wanted.bits());
        for _ in 0..MAX_STEPS {
            let ty = func.dfg.value_type(value);
            if !is_number(ty) || !is_wide_enough(ty) {
                return None;
            }
            // From here on there are no more bits than the type has.
            kept &= mask(ty);
            let InstructionData::Unary { opcode, arg } = source(func, value)? else {
                let InstructionData::BinaryImm64 { opcode, arg, imm } = source(func, value)? else {
                    return None;
                };
                let imm = cut(imm.bits() as u64, ty);
                match opcode {
                    Opcode::BxorImm => inverted ^= imm & kept,
                    Opcode::BandImm => kept &= imm,
                    _ => return None,
                }
                value = arg;
                continue;
            };
            match opcode {
                Opcode::Bswap => {
                    let is_it =
                        wanted.is_none_or(|wanted| wanted == ty) && kept & mask(ty) == mask(ty);
                    return is_it.then_some(Swapped {
                        number: arg,
                        ty,
                        inverted: cut(inverted, ty),
                        is_all: inverted & !mask(ty) == 0,
                    });
                }
                Opcode::Bnot => inverted ^= kept,
                Opcode::Uextend | Opcode::Ireduce => {}
                _ => return None,
            }
            value = arg;
        }
        None
    }

    /// Returns the mask of inverted bits, before the swap.
    fn inverted_before(self) -> u64 {
        self.inverted.swap_bytes() >> (64 - self.ty.bits())
    }
}

/// Removes a byte swap of swapped bytes.
fn swap_back(func: &mut Function, inst: Inst, arg: Value) {
    let ty = func.dfg.value_type(arg);
    if let Some(swapped) = Swapped::of(func, arg, Some(ty)) {
        let inverted = signed(swapped.inverted_before(), ty);
        func.dfg.replace(inst).bxor_imm(swapped.number, inverted);
    }
}

/// Folds a constant that is added to an address into the offset of the access. So the sum need not
/// be computed.
fn address_at_once(func: &mut Function, inst: Inst) {
    let (place, offset) = match func.dfg.insts[inst] {
        InstructionData::Load { arg, offset, .. } => (arg, offset),
        InstructionData::Store { args, offset, .. } => (args[1], offset),
        _ => return,
    };
    let (before, by) = match source(func, place) {
        Some(InstructionData::BinaryImm64 {
            opcode: Opcode::IaddImm,
            arg,
            imm,
        }) => (arg, imm.bits()),
        Some(InstructionData::Binary {
            opcode: Opcode::Iadd,
            args,
        }) => match args.map(|arg| constant(func, arg)) {
            [_, Some(number)] => (args[0], number as i64),
            [Some(number), _] => (args[1], number as i64),
            _ => return,
        },
        _ => return,
    };
    let Some(sum) = i64::from(i32::from(offset)).checked_add(by) else {
        return;
    };
    let Ok(sum) = i32::try_from(sum) else {
        return;
    };
    match &mut func.dfg.insts[inst] {
        InstructionData::Load { arg, offset, .. } => (*arg, *offset) = (before, sum.into()),
        InstructionData::Store { args, offset, .. } => (args[1], *offset) = (before, sum.into()),
        _ => {}
    }
}

/// Swaps the low half of a word in 32 bits if it was shifted left to be swapped.
fn swap_half(func: &mut Function, inst: Inst) {
    let InstructionData::Unary {
        opcode: Opcode::Bswap,
        arg,
    } = func.dfg.insts[inst]
    else {
        return;
    };
    if let Some(InstructionData::BinaryImm64 {
        opcode: Opcode::IshlImm,
        arg: half,
        imm,
    }) = source(func, arg)
        && func.dfg.value_type(arg) == I64
        && imm.bits() == 32
    {
        let mut at = FuncCursor::new(func).at_inst(inst);
        let half = at.ins().ireduce(I32, half);
        let swapped = at.ins().bswap(half);
        func.dfg.replace(inst).uextend(I64, swapped);
    }
}

/// Stores 32 bits without extending them first.
fn store_half(func: &mut Function, inst: Inst) {
    let InstructionData::Store {
        args: [value, place],
        flags,
        offset,
        ..
    } = func.dfg.insts[inst]
    else {
        return;
    };
    if let Some(InstructionData::Unary {
        opcode: Opcode::Uextend,
        arg: half,
    }) = source(func, value)
        && func.dfg.value_type(half) == I32
    {
        func.dfg.replace(inst).store(flags, half, place, offset);
    }
}

/// Removes a left shift before a comparison with a number, by shifting the number instead. So a
/// length in bytes need not be converted to bits.
fn compare_unshifted(func: &mut Function, inst: Inst) {
    let (cond, arg, limit) = match func.dfg.insts[inst] {
        InstructionData::IntCompareImm { cond, arg, imm, .. } => (cond, arg, imm.bits() as u64),
        InstructionData::IntCompare { cond, args, .. } => {
            match args.map(|arg| constant(func, arg)) {
                [_, Some(number)] => (cond, args[0], number),
                [Some(number), _] => (cond.swap_args(), args[1], number),
                _ => return,
            }
        }
        _ => return,
    };
    let Some(InstructionData::BinaryImm64 {
        opcode: Opcode::IshlImm,
        arg: before,
        imm: by,
    }) = source(func, arg)
    else {
        return;
    };
    let ty = func.dfg.value_type(arg);
    if !is_number(ty) || !(0..ty.bits().into()).contains(&by.bits()) {
        return;
    }
    let (by, limit) = (by.bits(), cut(limit, ty));
    // Maximum number that can be shifted without losing a bit.
    let stays = mask(ty) >> by;
    let below = limit >> by;
    // Minimum number that, shifted, is not less than the limit.
    let from = below + u64::from(limit & !(mask(ty) << by) != 0);
    let number = match cond {
        IntCC::UnsignedLessThan | IntCC::UnsignedGreaterThanOrEqual => from,
        IntCC::UnsignedGreaterThan | IntCC::UnsignedLessThanOrEqual => below,
        _ => return,
    };
    if all_bits(func, before) <= stays && number <= stays {
        func.dfg
            .replace(inst)
            .icmp_imm(cond, before, signed(number, ty));
    }
}

/// Compares two byte-swapped numbers without swapping them.
fn compare_unswapped(func: &mut Function, inst: Inst, equality: Equality) {
    let Equality { cond, value, with } = equality;
    let Some(one) = Swapped::of(func, value, None).filter(|one| one.is_all) else {
        return;
    };
    match with {
        With::Number(number) if number & !mask(one.ty) == 0 => {
            let number = number.swap_bytes() >> (64 - one.ty.bits()) ^ one.inverted_before();
            let mut at = FuncCursor::new(func).at_inst(inst);
            // Comparisons with short immediates have encodings that are slow to decode.
            let wide = match one.ty {
                I64 => one.number,
                _ => at.ins().uextend(I64, one.number),
            };
            func.dfg
                .replace(inst)
                .icmp_imm(cond, wide, signed(number, I64));
        }
        With::Value(other) => {
            let other = Swapped::of(func, other, Some(one.ty)).filter(|other| other.is_all);
            if let Some(other) = other {
                let inverted = one.inverted_before() ^ other.inverted_before();
                let mut at = FuncCursor::new(func).at_inst(inst);
                let number = at.ins().bxor_imm(one.number, signed(inverted, one.ty));
                func.dfg.replace(inst).icmp(cond, number, other.number);
            }
        }
        // The number exceeds the type, so the values are never equal.
        With::Number(_) => {}
    }
}

/// Returns the mask of the bits of a value that may be set.
fn all_bits(func: &Function, value: Value) -> u64 {
    match source(func, value) {
        Some(InstructionData::Load { opcode, .. }) if opcode != Opcode::Load => loaded_by(opcode),
        _ => mask(func.dfg.value_type(value)),
    }
}

/// Comparison of some bits of a value with a number.
#[derive(Clone, Copy, Debug)]
struct Masked {
    cond: IntCC,
    value: Value,
    bits: u64,
    number: u64,
}

impl Masked {
    /// Returns the comparison that defines a truth value.
    fn of(func: &Function, mut truth: Value) -> Option<Masked> {
        while let Some(InstructionData::Unary {
            opcode: Opcode::Uextend,
            arg,
        }) = source(func, truth)
        {
            truth = arg;
        }
        let ValueDef::Result(inst, _) = func.dfg.value_def(truth) else {
            return None;
        };
        let Equality { cond, value, with } = Equality::of(func, inst)?;
        let With::Number(number) = with else {
            return None;
        };
        let mut compared = Masked {
            cond,
            value,
            bits: mask(func.dfg.value_type(value)),
            number,
        };
        for _ in 0..MAX_STEPS {
            match compared.before(func)? {
                Some(before) => compared = before,
                None => return Some(compared),
            }
        }
        None
    }

    /// Rewrites the comparison to the operand of the value's definition. Returns an inner none if
    /// there is no such operand, and an outer none if the values are never equal.
    fn before(self, func: &Function) -> Option<Option<Masked>> {
        let ty = func.dfg.value_type(self.value);
        let Masked { bits, number, .. } = self;
        let (value, bits, number) = match source(func, self.value) {
            Some(InstructionData::BinaryImm64 {
                opcode: Opcode::BandImm,
                arg,
                imm,
            }) => (arg, bits & imm.bits() as u64, number),
            Some(InstructionData::BinaryImm64 {
                opcode: Opcode::UshrImm,
                arg,
                imm,
            }) if (0..ty.bits().into()).contains(&imm.bits()) => {
                let by = imm.bits();
                let shifted = cut(number << by, ty);
                if shifted >> by != number {
                    return None;
                }
                (arg, cut(bits << by, ty), shifted)
            }
            Some(InstructionData::Unary {
                opcode: Opcode::Uextend,
                arg,
            }) => (arg, bits & mask(func.dfg.value_type(arg)), number),
            _ => {
                let all = all_bits(func, self.value);
                if bits & !all == 0 {
                    return Some(None);
                }
                (self.value, bits & all, number)
            }
        };
        // The number has a bit outside the mask, so the values are never equal.
        if number & !bits != 0 {
            return None;
        }
        Some(Some(Masked {
            value,
            bits,
            number,
            ..self
        }))
    }
}

/// Returns the mask of the bits that an extending load may set.
fn loaded_by(opcode: Opcode) -> u64 {
    match opcode {
        Opcode::Uload8 => 0xff,
        Opcode::Uload16 => 0xffff,
        Opcode::Uload32 => 0xffff_ffff,
        _ => u64::MAX,
    }
}

/// Merges two comparisons of disjoint parts of a value, combined by `or` of inequalities or `and`
/// of equalities.
fn compare_at_once(func: &mut Function, inst: Inst, opcode: Opcode, args: [Value; 2]) {
    let cond = match opcode {
        Opcode::Bor => IntCC::NotEqual,
        Opcode::Band => IntCC::Equal,
        _ => return,
    };
    let [Some(one), Some(other)] = args.map(|arg| Masked::of(func, arg)) else {
        return;
    };
    if [one.cond, other.cond] != [cond; 2] || one.value != other.value || one.bits & other.bits != 0
    {
        return;
    }
    let both = Masked {
        bits: one.bits | other.bits,
        number: one.number | other.number,
        ..one
    };
    let ty = func.dfg.value_type(both.value);
    let has_all = both.bits == all_bits(func, both.value);
    let result = func.dfg.value_type(func.dfg.first_result(inst));
    let mut at = FuncCursor::new(func).at_inst(inst);
    let part = match has_all {
        true => both.value,
        false => at.ins().band_imm(both.value, signed(both.bits, ty)),
    };
    let number = signed(both.number, ty);
    if result == I8 {
        func.dfg.replace(inst).icmp_imm(cond, part, number);
    } else {
        let truth = at.ins().icmp_imm(cond, part, number);
        func.dfg.replace(inst).uextend(result, truth);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, count, function, safe};
    use super::*;
    use cranelift_frontend::FunctionBuilder;

    /// Builds a function that stores a value made from 16 bits. The function is rewritten, and dead
    /// code is removed.
    fn reduced(make: impl Fn(&mut FunctionBuilder<'_>, Value) -> Value) -> Function {
        let mut func = function(|b, pointer| {
            let half = b.ins().uload16(I64, safe(), pointer, 0);
            let made = make(b, half);
            b.ins().store(safe(), made, pointer, 8);
            b.ins().return_(&[]);
        });
        reduce(&mut func);
        dead_code::sweep(&mut func);
        check(&func);
        func
    }

    fn holds(cond: IntCC, one: u64, other: u64) -> bool {
        match cond {
            IntCC::UnsignedLessThan => one < other,
            IntCC::UnsignedLessThanOrEqual => one <= other,
            IntCC::UnsignedGreaterThan => one > other,
            _ => one >= other,
        }
    }

    #[test]
    fn a_length_is_compared_without_being_shifted() {
        let conds = [
            IntCC::UnsignedLessThan,
            IntCC::UnsignedLessThanOrEqual,
            IntCC::UnsignedGreaterThan,
            IntCC::UnsignedGreaterThanOrEqual,
        ];
        for cond in conds {
            for (limit, is_left) in (0..40).flat_map(|limit| [(limit, false), (limit, true)]) {
                let func = reduced(|b, half| {
                    let bits = b.ins().ishl_imm(half, 3);
                    if is_left {
                        let limit = b.ins().iconst(I64, limit);
                        return b.ins().icmp(cond, limit, bits);
                    }
                    b.ins().icmp_imm(cond, bits, limit)
                });
                assert_eq!(count(&func, Opcode::IshlImm), 0, "{func}");
                let compared =
                    dead_code::insts(&func).find_map(|inst| match func.dfg.insts[inst] {
                        InstructionData::IntCompareImm { cond, imm, .. } => {
                            Some((cond, imm.bits()))
                        }
                        _ => None,
                    });
                let (with, number) = compared.expect("it is compared with a number");
                for half in 0..16_u64 {
                    let (bits, limit) = (half << 3, limit as u64);
                    let before = match is_left {
                        true => holds(cond, limit, bits),
                        false => holds(cond, bits, limit),
                    };
                    assert_eq!(holds(with, half, number as u64), before, "{half} {func}");
                }
            }
        }
    }

    #[test]
    fn what_loses_bits_is_compared_as_it_is_shifted() {
        let func = reduced(|b, half| {
            let bits = b.ins().ishl_imm(half, 49);
            b.ins().icmp_imm(IntCC::UnsignedLessThan, bits, 1 << 50)
        });
        assert_eq!(count(&func, Opcode::IshlImm), 1, "{func}");
    }

    #[test]
    fn the_low_half_of_a_word_is_swapped_and_stored_by_itself() {
        for (far, left) in [(32, 0), (31, 1), (33, 1)] {
            let func = reduced(|b, half| {
                let shifted = b.ins().ishl_imm(half, far);
                b.ins().bswap(shifted)
            });
            assert_eq!(count(&func, Opcode::IshlImm), left, "{func}");
        }
        let mut func = function(|b, pointer| {
            let half = b.ins().load(I32, safe(), pointer, 0);
            let word = b.ins().uextend(I64, half);
            b.ins().istore32(safe(), word, pointer, 8);
            b.ins().return_(&[]);
        });
        reduce(&mut func);
        dead_code::sweep(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::Uextend), 0, "{func}");
    }

    #[test]
    fn a_place_is_named_by_what_reads_or_writes_there() {
        for (behind, left) in [(24, 0), (i64::from(i32::MAX) - 8, 1)] {
            let mut func = function(|b, pointer| {
                let place = b.ins().iadd_imm(pointer, behind);
                let number = b.ins().load(I64, safe(), place, 8);
                b.ins().store(safe(), number, place, 16);
                b.ins().return_(&[]);
            });
            reduce(&mut func);
            dead_code::sweep(&mut func);
            check(&func);
            assert_eq!(count(&func, Opcode::IaddImm), left, "{func}");
            let offsets =
                dead_code::insts(&func).filter_map(|inst| func.dfg.insts[inst].load_store_offset());
            let wanted = match left {
                0 => [32, 40],
                _ => [i32::MAX, 16],
            };
            assert_eq!(offsets.collect::<Vec<i32>>(), wanted);
        }
    }
}

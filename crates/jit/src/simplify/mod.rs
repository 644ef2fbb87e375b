//! Optimizations on Cranelift IR before code generation: tail duplication ([`tail_duplication`]),
//! constant propagation ([`constant_propagation`]), dead-code elimination ([`dead_code`]), peephole
//! rewriting ([`peephole`]), code sinking ([`code_sinking`]), and spilling around calls in cold
//! blocks ([`spill_around_cold_calls`]).
//!
//! The fast path is translated block by block. After a merge point it no longer knows which path a
//! packet took: which headers are valid and where they are, or which action ran. It keeps that in
//! values and tests them repeatedly. Most packets take few paths, so these are separated once,
//! within a limit on code growth. All six passes preserve the effects of the function on a packet.

mod code_sinking;
mod constant_propagation;
mod dead_code;
mod peephole;
#[cfg(test)]
mod random;
mod spill_around_cold_calls;
mod tail_duplication;

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::Function;

use self::tail_duplication::Room;

/// Number of instructions by which tail duplication may increase a fast path, without those that
/// are known not to run. Twice as many made no measured program faster and doubled the compilation
/// time of a router. Half as many left paths of a gateway merged.
pub(crate) const PASS_GROWTH: usize = 4000;

/// The same limit for a prefetch pass. All packets run it too, but it only computes keys.
pub(crate) const SCOUT_GROWTH: usize = 1000;

/// Maximum number of instructions that are copied in one round, per instruction of allowed growth.
/// It counts copies before folding removes parts of them.
const MAX_COPIED: usize = 4;

/// Number of instructions from which on a function is too large for duplication. The packets'
/// savings would not be worth the compilation time.
const LARGE: usize = 3000;

/// Maximum number of instructions that may be copied for one that becomes known, in two phases. The
/// first phase takes cheap copies, such as the path of dropped packets. So the budget is not spent
/// on expensive ones first.
const WORTH: [usize; 2] = [2, 12];

/// Maximum number of rounds per phase. Each round duplicates merge points after those of the round
/// before. Twice as many found no more in the measured programs.
const MAX_ROUNDS: usize = 3;

/// Control flow graph and dominator tree. Their memory is reused for the next function.
struct Flow {
    ways: ControlFlowGraph,
    tree: DominatorTree,
}

impl Flow {
    fn new() -> Flow {
        Flow {
            ways: ControlFlowGraph::new(),
            tree: DominatorTree::new(),
        }
    }

    /// Computes both for the current function.
    fn compute(&mut self, func: &Function) {
        self.ways.compute(func);
        self.tree.compute(func, &self.ways);
    }
}

/// Optimizes a function in which all blocks are filled. Returns the number of remaining
/// instructions. Tail duplication may add up to `growth` instructions, and with 0 it is disabled.
pub(crate) fn simplify(func: &mut Function, growth: usize) -> usize {
    let (mut flow, mut notes) = (Flow::new(), constant_propagation::KnownValues::default());
    func.dfg.resolve_all_aliases();
    constant_propagation::fold(func, &mut flow, &mut notes);
    dead_code::sweep(func);
    let is_parted = growth > 0 && size(func) < LARGE;
    if is_parted {
        part(func, growth, &mut flow, &mut notes);
    }
    peephole::reduce(func);
    dead_code::sweep(func);
    flow.compute(func);
    code_sinking::sink(func, &flow);
    if is_parted {
        spill_around_cold_calls::carry(func, &flow);
    }
    size(func)
}

/// Duplicates code after merge points where that pays off.
fn part(
    func: &mut Function,
    growth: usize,
    flow: &mut Flow,
    notes: &mut constant_propagation::KnownValues,
) {
    let most = size(func) + growth;
    for worth in WORTH {
        for _ in 0..MAX_ROUNDS {
            let room = Room {
                growth: most.saturating_sub(size(func)),
                copies: MAX_COPIED * growth,
                worth,
            };
            flow.compute(func);
            if !tail_duplication::split(func, flow, room) {
                break;
            }
            constant_propagation::fold(func, flow, notes);
            dead_code::sweep(func);
        }
    }
}

/// Returns the number of instructions of a function.
fn size(func: &Function) -> usize {
    dead_code::insts(func).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::condcodes::IntCC;
    use cranelift_codegen::ir::types::{I8, I16, I64};
    use cranelift_codegen::ir::{
        AbiParam, InstBuilder, InstructionData, MemFlags, Opcode, Signature, Value, ValueDef,
    };
    use cranelift_codegen::isa::CallConv;
    use cranelift_codegen::{settings, verifier::verify_function};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// Builds a function with one pointer parameter.
    pub(super) fn function(fill: impl FnOnce(&mut FunctionBuilder<'_>, Value)) -> Function {
        let mut func = Function::new();
        func.signature = Signature::new(CallConv::SystemV);
        func.signature.params.push(AbiParam::new(I64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let pointer = b.block_params(entry)[0];
        fill(&mut b, pointer);
        b.seal_all_blocks();
        b.finalize();
        func
    }

    /// Runs only [`constant_propagation::constant_propagation`].
    pub(super) fn fold(func: &mut Function) {
        constant_propagation::fold(
            func,
            &mut Flow::new(),
            &mut constant_propagation::KnownValues::default(),
        );
    }

    pub(super) fn flow_of(func: &Function) -> Flow {
        let mut flow = Flow::new();
        flow.compute(func);
        flow
    }

    pub(super) fn safe() -> MemFlags {
        MemFlags::new().with_notrap()
    }

    pub(super) fn count(func: &Function, wanted: Opcode) -> usize {
        let ops = dead_code::insts(func).map(|inst| func.dfg.insts[inst].opcode());
        ops.filter(|&op| op == wanted).count()
    }

    pub(super) fn check(func: &Function) {
        let flags = settings::Flags::new(settings::builder());
        let verified = verify_function(func, &flags);
        assert!(verified.is_ok(), "{verified:?}\n{func}");
    }

    /// Builds two paths that merge, one with 14 and one with 18. A later branch tests which one was
    /// taken.
    fn meeting() -> Function {
        function(|b, pointer| {
            let [one, other, met, first, second] = [(); 5].map(|()| b.create_block());
            let at = b.append_block_param(met, I64);
            let choice = b.ins().load(I64, safe(), pointer, 0);
            b.ins().brif(choice, one, &[], other, &[]);
            for (block, number) in [(one, 14), (other, 18)] {
                b.switch_to_block(block);
                let number = b.ins().iconst(I64, number);
                b.ins().jump(met, &[number.into()]);
            }
            b.switch_to_block(met);
            let place = b.ins().iadd(pointer, at);
            let loaded = b.ins().load(I64, safe(), place, 0);
            let is_first = b.ins().icmp_imm(IntCC::Equal, at, 14);
            b.ins().brif(is_first, first, &[], second, &[]);
            for (block, at) in [(first, 64), (second, 72)] {
                b.switch_to_block(block);
                b.ins().store(safe(), loaded, pointer, at);
                b.ins().return_(&[]);
            }
        })
    }

    /// Builds a block that stores its parameter. It is reached with 7, and if it is a loop, also
    /// with the parameter plus one.
    fn storing(is_loop: bool) -> Function {
        function(|b, pointer| {
            let [head, end] = [(); 2].map(|()| b.create_block());
            let at = b.append_block_param(head, I64);
            let seven = b.ins().iconst(I64, 7);
            b.ins().jump(head, &[seven.into()]);
            b.switch_to_block(head);
            b.ins().store(safe(), at, pointer, 0);
            let next = b.ins().iadd_imm(at, 1);
            match is_loop {
                true => b.ins().brif(next, head, &[next.into()], end, &[]),
                false => b.ins().jump(end, &[]),
            };
            b.switch_to_block(end);
            b.ins().return_(&[]);
        })
    }

    #[test]
    fn what_was_noted_of_one_function_says_nothing_of_the_next() {
        let (mut flow, mut notes) = (Flow::new(), constant_propagation::KnownValues::default());
        for (is_loop, is_known) in [(false, true), (true, false)] {
            let mut func = storing(is_loop);
            constant_propagation::fold(&mut func, &mut flow, &mut notes);
            let stores = dead_code::insts(&func)
                .filter(|&inst| func.dfg.insts[inst].opcode() == Opcode::Store);
            let stored: Vec<Value> = stores.map(|inst| func.dfg.inst_args(inst)[0]).collect();
            let is_param =
                |value: &Value| matches!(func.dfg.value_def(*value), ValueDef::Param(..));
            assert_eq!(stored.iter().any(is_param), !is_known, "{func}");
        }
    }

    #[test]
    fn ways_that_know_different_things_get_code_of_their_own() {
        let mut func = meeting();
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        let conditions = count(&func, Opcode::Brif);
        assert_eq!((conditions, count(&func, Opcode::Store)), (1, 2), "{func}");
        assert_eq!(count(&func, Opcode::Load), 3, "{func}");
    }

    #[test]
    fn what_a_branch_has_asked_is_not_asked_again() {
        let mut func = function(|b, pointer| {
            let [yes, no, again, never] = [(); 4].map(|()| b.create_block());
            let number = b.ins().load(I64, safe(), pointer, 0);
            b.ins().brif(number, yes, &[], no, &[]);
            b.switch_to_block(yes);
            let is_zero = b.ins().icmp_imm(IntCC::Equal, number, 0);
            b.ins().brif(is_zero, never, &[], again, &[]);
            b.switch_to_block(no);
            b.ins().store(safe(), number, pointer, 8);
            b.ins().return_(&[]);
            for block in [again, never] {
                b.switch_to_block(block);
                b.ins().store(safe(), number, pointer, 16);
                b.ins().return_(&[]);
            }
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::Brif), 1, "{func}");
        assert_eq!(count(&func, Opcode::Store), 2, "{func}");
        // On the path where the number is zero, a zero is stored.
        assert_eq!(count(&func, Opcode::Iconst), 1, "{func}");
    }

    /// Returns the constants that are stored on the two sides of a branch that tests a number for
    /// one. An element is empty if the number is not known there.
    fn known_of(cond: IntCC, mask: i64) -> [Option<i64>; 2] {
        let mut func = function(|b, pointer| {
            let [yes, no] = [(); 2].map(|()| b.create_block());
            let loaded = b.ins().load(I64, safe(), pointer, 0);
            let number = b.ins().band_imm(loaded, mask);
            let truth = b.ins().icmp_imm(cond, number, 1);
            b.ins().brif(truth, yes, &[], no, &[]);
            for (block, at) in [(yes, 8), (no, 16)] {
                b.switch_to_block(block);
                b.ins().store(safe(), number, pointer, at);
                b.ins().return_(&[]);
            }
        });
        fold(&mut func);
        check(&func);
        [8, 16].map(|at| {
            let mut stores = dead_code::insts(&func);
            let store =
                stores.find(|&inst| func.dfg.insts[inst].load_store_offset() == Some(at))?;
            let inst = func.dfg.value_def(func.dfg.inst_args(store)[0]).inst()?;
            match func.dfg.insts[inst] {
                InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
                _ => None,
            }
        })
    }

    #[test]
    fn a_number_of_one_bit_that_is_not_one_is_zero() {
        assert_eq!(known_of(IntCC::Equal, 1), [Some(1), Some(0)]);
        assert_eq!(known_of(IntCC::NotEqual, 1), [Some(0), Some(1)]);
        assert_eq!(known_of(IntCC::Equal, 3), [Some(1), None]);
        assert_eq!(known_of(IntCC::NotEqual, 3), [None, Some(1)]);
    }

    #[test]
    fn what_was_computed_on_every_way_is_not_computed_again_nor_asked() {
        let mut func = function(|b, pointer| {
            let [yes, no, again, never] = [(); 4].map(|()| b.create_block());
            let flags = b.ins().load(I64, safe(), pointer, 0);
            let is_set = b.ins().band_imm(flags, 4);
            b.ins().brif(is_set, yes, &[], no, &[]);
            b.switch_to_block(no);
            // Recomputes the same value.
            let is_set = b.ins().band_imm(flags, 4);
            b.ins().brif(is_set, never, &[], again, &[]);
            for block in [yes, again, never] {
                b.switch_to_block(block);
                b.ins().store(safe(), flags, pointer, 16);
                b.ins().return_(&[]);
            }
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::BandImm), 1, "{func}");
        assert_eq!(count(&func, Opcode::Brif), 1, "{func}");
    }

    #[test]
    fn what_is_shifted_up_and_as_far_down_is_as_it_was_if_nothing_was_lost() {
        let mut func = function(|b, pointer| {
            let half = b.ins().uload32(safe(), pointer, 0);
            let whole = b.ins().load(I64, safe(), pointer, 8);
            for (number, up, down) in [(half, 32, 32), (half, 33, 33), (half, 3, 2), (whole, 3, 3)]
            {
                let shifted = b.ins().ishl_imm(number, up);
                let back = b.ins().ushr_imm(shifted, down);
                b.ins().store(safe(), back, pointer, 16);
            }
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::UshrImm), 3, "{func}");
    }

    #[test]
    fn what_one_way_has_computed_is_computed_on_the_other() {
        let mut func = function(|b, pointer| {
            let [yes, no, met] = [(); 3].map(|()| b.create_block());
            let [number, choice] = [0, 16].map(|at| b.ins().load(I64, safe(), pointer, at));
            b.ins().brif(choice, yes, &[], no, &[]);
            for block in [yes, no, met] {
                b.switch_to_block(block);
                let more = b.ins().iadd_imm(number, 7);
                b.ins().store(safe(), more, pointer, 8);
                if block == met {
                    b.ins().return_(&[]);
                } else {
                    b.ins().jump(met, &[]);
                }
            }
        });
        fold(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::IaddImm), 3, "{func}");
    }

    #[test]
    fn a_block_to_which_one_way_leads_knows_what_its_parameters_are() {
        let mut func = function(|b, pointer| {
            let [yes, no, later] = [(); 3].map(|()| b.create_block());
            let [hit, missed] = [(); 2].map(|()| b.create_block());
            let told = b.append_block_param(later, I64);
            let number = b.ins().load(I64, safe(), pointer, 0);
            b.ins().brif(number, yes, &[], no, &[]);
            b.switch_to_block(yes);
            b.ins().jump(later, &[number.into()]);
            b.switch_to_block(later);
            b.ins().brif(told, hit, &[], missed, &[]);
            for (block, at) in [(no, 8), (hit, 16), (missed, 24)] {
                b.switch_to_block(block);
                b.ins().store(safe(), pointer, pointer, at);
                b.ins().return_(&[]);
            }
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::Brif), 1, "{func}");
        assert_eq!(count(&func, Opcode::Store), 2, "{func}");
    }

    #[test]
    fn a_parameter_that_gets_the_same_on_all_ways_is_that() {
        let mut func = function(|b, pointer| {
            let [yes, no, met, again] = [(); 4].map(|()| b.create_block());
            let [number, other] = [0, 8].map(|at| b.ins().load(I64, safe(), pointer, at));
            b.ins().brif(number, yes, &[], no, &[]);
            // Copies are before and after a parameter that is not one.
            let params = [(); 3].map(|()| b.append_block_param(met, I64));
            for (block, choice) in [(yes, number), (no, other)] {
                b.switch_to_block(block);
                let args = [other, choice, other].map(|arg| arg.into());
                b.ins().jump(met, &args);
            }
            b.switch_to_block(met);
            let passed = b.append_block_param(again, I64);
            b.ins().jump(again, &[params[2].into()]);
            b.switch_to_block(again);
            for (at, value) in [params[0], params[1], passed].into_iter().enumerate() {
                b.ins().store(safe(), value, pointer, 16 + 8 * at as i32);
            }
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        let blocks = func.layout.blocks().skip(1);
        let params: usize = blocks.map(|block| func.dfg.block_params(block).len()).sum();
        assert_eq!(params, 1, "{func}");
        let stored: Vec<Value> = dead_code::insts(&func)
            .filter(|&inst| func.dfg.insts[inst].opcode() == Opcode::Store)
            .map(|inst| func.dfg.inst_args(inst)[0])
            .collect();
        assert!(stored[0] == stored[2] && stored[0] != stored[1], "{func}");
    }

    #[test]
    fn a_block_to_which_a_branch_leads_twice_may_be_given_either() {
        let mut func = function(|b, pointer| {
            let met = b.create_block();
            let told = b.append_block_param(met, I64);
            let [number, other] = [0, 8].map(|at| b.ins().load(I64, safe(), pointer, at));
            let (one, two) = ([number.into()], [other.into()]);
            b.ins().brif(number, met, &one, met, &two);
            b.switch_to_block(met);
            let is_zero = b.ins().icmp_imm(IntCC::Equal, told, 0);
            let is_zero = b.ins().uextend(I64, is_zero);
            b.ins().store(safe(), is_zero, pointer, 16);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::IcmpImm), 1, "{func}");
    }

    #[test]
    fn values_that_come_through_many_blocks_take_little_time() {
        let begin = std::time::Instant::now();
        let mut func = function(|b, pointer| {
            let number = b.ins().load(I64, safe(), pointer, 0);
            let mut args = [number; 8];
            for _ in 0..4000 {
                let next = b.create_block();
                b.ins().jump(next, &args.map(|arg| arg.into()));
                args = args.map(|_| b.append_block_param(next, I64));
                b.switch_to_block(next);
                let sum = args.into_iter().reduce(|sum, arg| b.ins().bxor(sum, arg));
                b.ins().store(safe(), sum.unwrap_or(number), pointer, 8);
            }
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        assert!(begin.elapsed().as_secs() < 5);
    }

    #[test]
    fn a_mask_falls_away_where_no_other_bits_can_be() {
        let mut func = function(|b, pointer| {
            let byte = b.ins().uload8(I64, safe(), pointer, 0);
            let byte = b.ins().bxor_imm(byte, 0xff);
            let [kept, cut] = [0xff, 0x7f].map(|mask| b.ins().band_imm(byte, mask));
            b.ins().store(safe(), kept, pointer, 8);
            b.ins().store(safe(), cut, pointer, 16);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::BandImm), 1, "{func}");
        assert_eq!(count(&func, Opcode::BxorImm), 1, "{func}");
    }

    #[test]
    fn bytes_are_not_swapped_to_be_compared_or_swapped_back() {
        let mut func = function(|b, pointer| {
            let [one, other] = [0, 2].map(|at| {
                let loaded = b.ins().load(I16, safe(), pointer, at);
                let swapped = b.ins().bswap(loaded);
                b.ins().uextend(I64, swapped)
            });
            let one = b.ins().bxor_imm(one, 0xff00);
            for truth in [
                b.ins().icmp(IntCC::Equal, one, other),
                b.ins().icmp_imm(IntCC::NotEqual, other, 0x0800),
            ] {
                let truth = b.ins().uextend(I64, truth);
                b.ins().store(safe(), truth, pointer, 8);
            }
            let back = b.ins().ireduce(I16, one);
            let back = b.ins().bswap(back);
            b.ins().store(safe(), back, pointer, 16);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        dead_code::sweep(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::Bswap), 0, "{func}");
    }

    #[test]
    fn neighbouring_bits_of_a_value_are_compared_at_once() {
        let mut func = function(|b, pointer| {
            let [differs, is_it] = [(); 2].map(|()| b.create_block());
            let byte = b.ins().uload8(I64, safe(), pointer, 0);
            let version = b.ins().ushr_imm(byte, 4);
            let length = b.ins().band_imm(byte, 15);
            let version = b.ins().icmp_imm(IntCC::NotEqual, version, 4);
            let length = b.ins().icmp_imm(IntCC::NotEqual, length, 5);
            let either = b.ins().bor(version, length);
            b.ins().brif(either, differs, &[], is_it, &[]);
            for (block, at) in [(differs, 8), (is_it, 16)] {
                b.switch_to_block(block);
                b.ins().store(safe(), pointer, pointer, at);
                b.ins().return_(&[]);
            }
        });
        simplify(&mut func, PASS_GROWTH);
        dead_code::sweep(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::IcmpImm), 1, "{func}");
        assert_eq!(count(&func, Opcode::BandImm), 0, "{func}");
    }

    #[test]
    fn a_parameter_has_no_more_bits_than_it_is_given() {
        let mut func = function(|b, pointer| {
            let [one, other, met] = [(); 3].map(|()| b.create_block());
            let told = b.append_block_param(met, I64);
            let choice = b.ins().load(I64, safe(), pointer, 0);
            b.ins().brif(choice, one, &[], other, &[]);
            for block in [one, other] {
                b.switch_to_block(block);
                let byte = match block == one {
                    true => b.ins().uload8(I64, safe(), pointer, 8),
                    false => b.ins().iconst(I64, 200),
                };
                b.ins().jump(met, &[byte.into()]);
            }
            b.switch_to_block(met);
            let [kept, cut] = [0xff, 0x7f].map(|mask| b.ins().band_imm(told, mask));
            b.ins().store(safe(), kept, pointer, 16);
            b.ins().store(safe(), cut, pointer, 24);
            b.ins().return_(&[]);
        });
        fold(&mut func);
        check(&func);
        assert_eq!(count(&func, Opcode::BandImm), 1, "{func}");
    }

    #[test]
    fn nothing_is_known_of_the_variables_of_a_loop() {
        let mut func = function(|b, pointer| {
            let [around, end] = [(); 2].map(|()| b.create_block());
            let at = b.append_block_param(around, I64);
            let zero = b.ins().iconst(I64, 0);
            b.ins().jump(around, &[zero.into()]);
            b.switch_to_block(around);
            b.ins().store(safe(), at, pointer, 0);
            let next = b.ins().iadd_imm(at, 1);
            let goes_on = b.ins().load(I64, safe(), pointer, 8);
            b.ins().brif(goes_on, around, &[next.into()], end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::IaddImm), 1, "{func}");
    }

    #[test]
    fn a_loop_that_is_entered_by_its_way_back_alone_stays() {
        let mut func = function(|b, pointer| {
            let [head, tail, end] = [(); 3].map(|()| b.create_block());
            let never = b.ins().iconst(I64, 0);
            // The loop has two entries. The first cannot be taken.
            b.ins().brif(never, head, &[], tail, &[]);
            b.switch_to_block(head);
            b.ins().store(safe(), pointer, pointer, 0);
            b.ins().jump(tail, &[]);
            b.switch_to_block(tail);
            let goes_on = b.ins().load(I64, safe(), pointer, 8);
            b.ins().brif(goes_on, head, &[], end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        assert_eq!(count(&func, Opcode::Store), 1, "{func}");
    }

    /// Builds conditions that each depend on the ones before and are computed twice, with a chain
    /// of branches on each.
    fn conditions(count: usize, branches: usize) -> Function {
        function(|b, pointer| {
            let mut all = b.ins().load(I64, safe(), pointer, 0);
            let mut made = Vec::new();
            for at in 1..=count {
                let [one, other] = [0, 1].map(|number| {
                    let loaded = b.ins().load(I64, safe(), pointer, 8 * at as i32);
                    let is_it = b.ins().icmp_imm(IntCC::Equal, loaded, number);
                    b.ins().uextend(I64, is_it)
                });
                let [one, other] = [one, other].map(|more| b.ins().bor(all, more));
                all = b.ins().bor(one, other);
                made.push(all);
            }
            let end = b.create_block();
            for &condition in made.iter().rev().take(branches) {
                let next = b.create_block();
                b.ins().brif(condition, end, &[], next, &[]);
                b.switch_to_block(next);
            }
            b.ins().store(safe(), all, pointer, 0);
            b.ins().jump(end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        })
    }

    #[test]
    fn conditions_of_any_size_take_little_time() {
        let begin = std::time::Instant::now();
        for (count, branches) in [(100, 1), (4000, 1000)] {
            let mut func = conditions(count, branches);
            simplify(&mut func, PASS_GROWTH);
            check(&func);
        }
        assert!(begin.elapsed().as_secs() < 20);
    }

    #[test]
    fn a_number_is_cut_to_its_type_before_it_is_compared() {
        let mut func = function(|b, pointer| {
            let most = b.ins().iconst(I8, -1);
            let wide = b.ins().uextend(I64, most);
            let more = b.ins().iadd_imm(wide, 1);
            b.ins().store(safe(), more, pointer, 0);
            b.ins().return_(&[]);
        });
        simplify(&mut func, PASS_GROWTH);
        check(&func);
        let numbers: Vec<i64> = func
            .layout
            .blocks()
            .flat_map(|block| func.layout.block_insts(block))
            .filter_map(|inst| match func.dfg.insts[inst] {
                InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [256], "{func}");
    }
}

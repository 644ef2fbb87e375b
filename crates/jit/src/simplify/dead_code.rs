//! Dead-code elimination. Removes values without influence on any effect, and the block parameters
//! that pass them on.
//!
//! Cranelift keeps every load, and every block parameter with the computation of its arguments. A
//! parser loads each field of a header, and at its merge points each field is a parameter. Most
//! programs use few of these fields. Removing the rest saves loads and spills for each packet.

use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, Function, Inst, InstructionData, Opcode, Value, ValueDef,
};

/// Removes dead code from a function in which all blocks are filled. Its effects on the packet stay
/// the same.
pub(super) fn sweep(func: &mut Function) {
    let needed = needed(func);
    let blocks: Vec<Block> = func.layout.blocks().collect();
    for block in blocks {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            next = func.layout.next_inst(inst);
            let mut results = func.dfg.inst_results(inst).iter();
            if !has_effect(func, inst) && !results.any(|&result| needed.contains(result)) {
                func.layout.remove_inst(inst);
            }
        }
    }
    keep_params(func, |param| needed.contains(param));
}

/// Removes all block parameters for which `is_kept` is false, with their arguments. The entry block
/// keeps its parameters, which are the function's.
pub(super) fn keep_params(func: &mut Function, is_kept: impl Fn(Value) -> bool) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let mut changed: EntitySet<Block> = EntitySet::new();
    changed.extend(blocks.iter().copied().filter(|&block| {
        let mut params = func.dfg.block_params(block).iter();
        !params.all(|&param| is_kept(param))
    }));
    if changed.is_empty() {
        return;
    }
    for &block in &blocks {
        if let Some(last) = func.layout.last_inst(block)
            && destinations(func, last).any(|to| changed.contains(to))
        {
            drop_arguments(func, last, &is_kept);
        }
    }
    for &block in blocks.iter().skip(1) {
        if changed.contains(block) {
            drop_params(func, block, &is_kept);
        }
    }
}

/// Removes all at once, since the removal of a single parameter renumbers those after it.
fn drop_params(func: &mut Function, block: Block, is_kept: &impl Fn(Value) -> bool) {
    let params = func.dfg.detach_block_params(block);
    for at in 0..params.len(&func.dfg.value_lists) {
        let param = params.get(at, &func.dfg.value_lists);
        if let Some(param) = param.filter(|&param| is_kept(param)) {
            func.dfg.attach_block_param(block, param);
        }
    }
}

/// Removes the arguments for removed parameters from a branch.
fn drop_arguments(func: &mut Function, inst: Inst, is_kept: &impl Fn(Value) -> bool) {
    let dfg = &func.dfg;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    let kept: Vec<Option<Vec<BlockArg>>> = calls
        .iter()
        .map(|call| kept_arguments(func, *call, is_kept))
        .collect();
    let dfg = &mut func.dfg;
    let calls =
        dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
    for (call, kept) in calls.iter_mut().zip(kept) {
        let Some(kept) = kept else { continue };
        call.clear(&mut dfg.value_lists);
        call.extend(kept, &mut dfg.value_lists);
    }
}

/// Returns the remaining arguments of a branch target, if any are removed.
fn kept_arguments(
    func: &Function,
    call: BlockCall,
    is_kept: &impl Fn(Value) -> bool,
) -> Option<Vec<BlockArg>> {
    let pool = &func.dfg.value_lists;
    let params = func.dfg.block_params(call.block(pool));
    if params.iter().all(|&param| is_kept(param)) {
        return None;
    }
    let args = params.iter().zip(call.args(pool));
    let kept = args.filter(|(param, _)| is_kept(**param));
    Some(kept.map(|(_, arg)| arg).collect())
}

/// Returns true if an instruction does more than compute its results.
pub(super) fn has_effect(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let op: Opcode = data.opcode();
    let computes = !(op.is_call()
        || op.is_branch()
        || op.is_terminator()
        || op.can_trap()
        || op.other_side_effects()
        || op.can_store());
    let loads_safely = match data {
        InstructionData::Load { flags, .. } => flags.notrap(),
        _ => !op.can_load(),
    };
    !(computes && loads_safely)
}

/// Returns the values on which effects depend.
fn needed(func: &Function) -> EntitySet<Value> {
    let mut args = Vec::new();
    for inst in insts(func).filter(|&inst| has_effect(func, inst)) {
        args.extend_from_slice(func.dfg.inst_args(inst));
    }
    sources(func, args)
}

/// Returns these values and all that they are computed from, through block parameters too. The
/// function must have no value aliases.
pub(super) fn sources(func: &Function, mut waiting: Vec<Value>) -> EntitySet<Value> {
    let into = Branches::of(func);
    let mut sources = EntitySet::with_capacity(func.dfg.num_values());
    while let Some(value) = waiting.pop() {
        if !sources.insert(value) {
            continue;
        }
        match func.dfg.value_def(value) {
            ValueDef::Result(inst, _) => waiting.extend(func.dfg.inst_args(inst)),
            ValueDef::Param(block, at) => {
                for inst in into.to(block) {
                    waiting.extend(arguments(func, inst, block, at));
                }
            }
            // Only Cranelift's optimizer creates these.
            ValueDef::Union(one, other) => waiting.extend([one, other]),
        }
    }
    sources
}

/// Branches to each block. A branch with several edges to a block is listed once.
#[derive(Default)]
struct Branches {
    /// Branches, each with the index of the one before it to the same block.
    all: Vec<(Inst, Option<usize>)>,
    /// Index of the last branch to each block.
    last: SecondaryMap<Block, Option<usize>>,
}

impl Branches {
    fn of(func: &Function) -> Branches {
        let mut branches = Branches::default();
        for block in func.layout.blocks() {
            let Some(inst) = func.layout.last_inst(block) else {
                continue;
            };
            for to in destinations(func, inst) {
                let before = branches.last[to];
                if before.is_none_or(|at| branches.all[at].0 != inst) {
                    branches.last[to] = Some(branches.all.len());
                    branches.all.push((inst, before));
                }
            }
        }
        branches
    }

    fn to(&self, block: Block) -> impl Iterator<Item = Inst> {
        let all = std::iter::successors(self.last[block], |&at| self.all[at].1);
        all.map(|at| self.all[at].0)
    }
}

/// Returns all instructions, block by block.
pub(super) fn insts(func: &Function) -> impl Iterator<Item = Inst> {
    let blocks = func.layout.blocks();
    blocks.flat_map(|block| func.layout.block_insts(block))
}

/// Returns the possible targets of an instruction.
pub(super) fn destinations(func: &Function, inst: Inst) -> impl Iterator<Item = Block> {
    let dfg = &func.dfg;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    calls.iter().map(|call| call.block(&dfg.value_lists))
}

/// Returns the arguments of an instruction for a block parameter, on all of its edges to the block.
fn arguments(func: &Function, inst: Inst, block: Block, at: usize) -> impl Iterator<Item = Value> {
    let dfg = &func.dfg;
    let pool = &dfg.value_lists;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    let there = calls.iter().filter(move |call| call.block(pool) == block);
    there.filter_map(move |call| call.args(pool).nth(at)?.as_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::types::{I32, I64};
    use cranelift_codegen::ir::{AbiParam, InstBuilder, JumpTableData, MemFlags, Signature};
    use cranelift_codegen::isa::CallConv;
    use cranelift_codegen::{settings, verifier::verify_function};
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// Builds a loop that loads two words after a pointer per iteration, passes both on and stores
    /// one.
    fn looping() -> Function {
        let mut func = Function::new();
        func.signature = Signature::new(CallConv::SystemV);
        func.signature.params.push(AbiParam::new(I64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let (entry, around, end) = (b.create_block(), b.create_block(), b.create_block());
        b.append_block_params_for_function_params(entry);
        let pointer = b.block_params(entry)[0];
        let [kept, dropped] = [(); 2].map(|()| b.append_block_param(around, I64));
        b.switch_to_block(entry);
        let zero = b.ins().iconst(I64, 0);
        b.ins().jump(around, &[zero.into(), zero.into()]);
        b.switch_to_block(around);
        let safe = MemFlags::new().with_notrap();
        let one = b.ins().load(I64, safe, pointer, 0);
        let other = b.ins().load(I64, safe, pointer, 8);
        let kept = b.ins().iadd(kept, one);
        let dropped = b.ins().iadd(dropped, other);
        b.ins().store(safe, kept, pointer, 16);
        let goes_on = [kept.into(), dropped.into()];
        b.ins().brif(kept, around, &goes_on, end, &[]);
        b.switch_to_block(end);
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize();
        func
    }

    #[test]
    fn what_leads_to_no_effect_is_taken_out_with_the_parameters_that_carry_it() {
        let mut func = looping();
        sweep(&mut func);
        let blocks: Vec<Block> = func.layout.blocks().collect();
        let params: Vec<usize> = blocks
            .iter()
            .map(|&b| func.dfg.block_params(b).len())
            .collect();
        assert_eq!(params, [1, 1, 0]);
        let ops: Vec<Opcode> = insts(&func)
            .map(|inst| func.dfg.insts[inst].opcode())
            .collect();
        let of = |wanted| ops.iter().filter(|&&op| op == wanted).count();
        assert_eq!(
            (of(Opcode::Load), of(Opcode::Iadd), of(Opcode::Store)),
            (1, 1, 1)
        );
        let flags = settings::Flags::new(settings::builder());
        assert!(verify_function(&func, &flags).is_ok(), "{func}");
    }

    /// Builds a jump table with `ways` edges to one block. All pass the same number, which the
    /// block stores.
    fn switching(ways: usize) -> Function {
        let mut func = Function::new();
        func.signature = Signature::new(CallConv::SystemV);
        func.signature.params.push(AbiParam::new(I64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let (entry, end) = (b.create_block(), b.create_block());
        b.append_block_params_for_function_params(entry);
        let pointer = b.block_params(entry)[0];
        let stored = b.append_block_param(end, I64);
        b.switch_to_block(entry);
        let index = b.ins().ireduce(I32, pointer);
        let way = BlockCall::new(end, [pointer.into()], &mut b.func.dfg.value_lists);
        let ways = JumpTableData::new(way, &vec![way; ways]);
        let ways = b.create_jump_table(ways);
        b.ins().br_table(index, ways);
        b.switch_to_block(end);
        let safe = MemFlags::new().with_notrap();
        b.ins().store(safe, stored, pointer, 0);
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize();
        func
    }

    #[test]
    fn a_jump_table_is_looked_at_once_for_each_block_it_leads_to() {
        let func = switching(20_000);
        let into = Branches::of(&func);
        let blocks = func.layout.blocks();
        let branches: Vec<usize> = blocks.map(|block| into.to(block).count()).collect();
        assert_eq!(branches, [0, 1]);
        let end = func.layout.last_block().expect("there are two");
        let stored = func.dfg.block_params(end)[0];
        assert!(needed(&func).contains(stored));
    }

    #[test]
    fn a_load_that_may_trap_is_an_effect() {
        let mut func = looping();
        for inst in insts(&func).collect::<Vec<Inst>>() {
            if let InstructionData::Load { flags, .. } = &mut func.dfg.insts[inst] {
                *flags = MemFlags::new();
            }
        }
        let loads = |func: &Function| {
            insts(func)
                .filter(|&inst| func.dfg.insts[inst].opcode() == Opcode::Load)
                .count()
        };
        sweep(&mut func);
        assert_eq!(loads(&func), 2);
    }
}

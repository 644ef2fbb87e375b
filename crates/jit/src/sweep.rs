//! Takes out of a function what nobody needs: values that lead to no effect, and the block parameters that carry them.
//!
//! Cranelift keeps every load, and every block parameter with all that is computed for it. A parser loads each field of a header, and where its ways meet
//! each field is a parameter; most programs ask for few of them. Without the others a packet costs fewer loads, and fewer values go through the stack.

use cranelift_codegen::entity::EntitySet;
use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Opcode, Value, ValueDef};
use std::collections::HashMap;

/// Sweeps a function whose blocks are all filled. What it does to the packet stays the same.
pub(crate) fn sweep(func: &mut Function) {
    let needed = needed(func);
    let blocks: Vec<Block> = func.layout.blocks().collect();
    for &block in &blocks {
        let insts: Vec<Inst> = func.layout.block_insts(block).collect();
        for inst in insts {
            let mut results = func.dfg.inst_results(inst).iter();
            if has_effect(func, inst) || results.any(|&result| needed.contains(result)) {
                drop_arguments(func, inst, &needed);
            } else {
                func.layout.remove_inst(inst);
            }
        }
    }
    // The entry's parameters are the function's.
    for &block in blocks.iter().skip(1) {
        for param in func.dfg.block_params(block).to_vec() {
            if !needed.contains(param) {
                func.dfg.remove_block_param(param);
            }
        }
    }
}

/// Whether an instruction does more than to compute its results.
fn has_effect(func: &Function, inst: Inst) -> bool {
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

/// The values that effects depend on.
fn needed(func: &Function) -> EntitySet<Value> {
    let mut into: HashMap<Block, Vec<Inst>> = HashMap::new();
    let mut waiting: Vec<Value> = Vec::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            if has_effect(func, inst) {
                waiting.extend(func.dfg.inst_args(inst));
            }
            for to in destinations(func, inst) {
                into.entry(to).or_default().push(inst);
            }
        }
    }
    let mut needed = EntitySet::new();
    while let Some(value) = waiting.pop() {
        let value = func.dfg.resolve_aliases(value);
        if !needed.insert(value) {
            continue;
        }
        match func.dfg.value_def(value) {
            ValueDef::Result(inst, _) => waiting.extend(func.dfg.inst_args(inst)),
            ValueDef::Param(block, at) => {
                for &inst in into.get(&block).into_iter().flatten() {
                    waiting.extend(arguments(func, inst, block, at));
                }
            }
            // Only Cranelift's optimiser makes these.
            ValueDef::Union(one, other) => waiting.extend([one, other]),
        }
    }
    needed
}

/// The blocks that an instruction may go to.
fn destinations(func: &Function, inst: Inst) -> impl Iterator<Item = Block> {
    let dfg = &func.dfg;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    calls.iter().map(|call| call.block(&dfg.value_lists))
}

/// What an instruction gives a block for its parameter of this number, on all of its ways there.
fn arguments(func: &Function, inst: Inst, block: Block, at: usize) -> impl Iterator<Item = Value> {
    let dfg = &func.dfg;
    let pool = &dfg.value_lists;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    let there = calls.iter().filter(move |call| call.block(pool) == block);
    there.filter_map(move |call| call.args(pool).nth(at)?.as_value())
}

/// Gives blocks no arguments for parameters that nobody needs.
fn drop_arguments(func: &mut Function, inst: Inst, needed: &EntitySet<Value>) {
    let dfg = &mut func.dfg;
    let unneeded: Vec<Vec<usize>> = dfg.insts[inst]
        .branch_destination(&dfg.jump_tables, &dfg.exception_tables)
        .iter()
        .map(|call| {
            let params = dfg.block_params(call.block(&dfg.value_lists)).iter();
            let params = params.enumerate().rev();
            let unneeded = params.filter(|(_, param)| !needed.contains(**param));
            unneeded.map(|(at, _)| at).collect()
        })
        .collect();
    let calls =
        dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
    for (call, unneeded) in calls.iter_mut().zip(unneeded) {
        for at in unneeded {
            call.remove(at, &mut dfg.value_lists);
        }
    }
}

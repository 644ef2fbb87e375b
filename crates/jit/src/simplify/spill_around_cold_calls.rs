//! Spills values around calls in cold blocks, so that hot code keeps them in registers.
//!
//! A callee may overwrite most registers, so a value that is live across a call must be saved.
//! Cranelift's register allocator does not know which blocks are cold. It spills such a value on
//! all paths: stored at its definition and loaded at each use, though hardly any packet reaches the
//! call. This pass stores the value before the calls of a cold block and loads it after them. Where
//! cold and hot paths merge, the value becomes a block parameter. Its argument is the loaded value
//! on the cold edge and the register on the others. Parameters are placed in the iterated dominance
//! frontier of the loads (Cytron et al., Efficiently Computing Static Single Assignment Form,
//! 1991).

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    Block, BlockArg, Function, Inst, InstBuilder, InstructionData, MemFlags, Opcode, StackSlot,
    StackSlotData, StackSlotKind, Value, ValueDef,
};
use cranelift_codegen::loop_analysis::LoopAnalysis;

use support::work::checkpoint;

use super::Flow;
use super::dead_code::{destinations, insts};

/// Bytes of a word, and the base-2 logarithm of its alignment.
const WORD: u32 = 8;
const ALIGNMENT: u8 = 3;

/// Maximum number of store and load blocks plus blocks with new parameters, over all values. More
/// would cost more compilation time than packets save.
const MAX_PLACES: usize = 1000;

/// Spills values of a function without value aliases.
pub(super) fn carry(func: &mut Function, flow: &Flow) {
    let calls = seldom_calls(func);
    if calls.is_empty() {
        return;
    }
    let (ways, tree) = (&flow.ways, &flow.tree);
    let candidates = candidates(func, ways, tree);
    let living = Living::of(func, ways, tree, &candidates);
    let frontiers = frontiers(ways, tree);
    let carried = carried(func, &calls, &living, &candidates);
    let users = users(func, &carried);
    let mut room = MAX_PLACES;
    for (value, blocks) in carried {
        checkpoint();
        let meetings = meetings(&blocks, &frontiers, living.begin(value));
        let Some(left) = room.checked_sub(blocks.len() + meetings.len()) else {
            return;
        };
        room = left;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, WORD, ALIGNMENT);
        let mut carrying = Spill {
            slot: func.create_sized_stack_slot(data),
            func,
            tree,
            ways,
            calls: &calls,
            value,
            loaded: BTreeMap::new(),
            params: BTreeMap::new(),
        };
        carrying.carry(&blocks, &meetings, &users[value]);
    }
}

/// First and last call of a block.
#[derive(Clone, Copy, Debug)]
struct Calls {
    first: Inst,
    last: Inst,
}

/// Returns the calls of cold blocks.
fn seldom_calls(func: &Function) -> BTreeMap<Block, Calls> {
    let seldom = func
        .layout
        .blocks()
        .filter(|&block| func.layout.is_cold(block));
    let calls = seldom.filter_map(|block| {
        let is_call = |inst: &Inst| func.dfg.insts[*inst].opcode().is_call();
        let mut calls = func.layout.block_insts(block).filter(is_call);
        let first = calls.next()?;
        let last = calls.next_back().unwrap_or(first);
        Some((block, Calls { first, last }))
    });
    calls.collect()
}

/// Returns the values that deserve a register: those computed for each packet. Values computed
/// before the packet loop may be in memory. Constants are rematerialized.
fn candidates(func: &Function, ways: &ControlFlowGraph, tree: &DominatorTree) -> EntitySet<Value> {
    let mut loops = LoopAnalysis::new();
    loops.compute(func, ways, tree);
    let mut candidates = EntitySet::new();
    let fits = |value: &Value| func.dfg.value_type(*value).bytes() <= WORD;
    for block in func.layout.blocks() {
        if loops.innermost_loop(block).is_none() {
            continue;
        }
        let params = func.dfg.block_params(block).iter().copied();
        candidates.extend(params.filter(fits));
        for inst in func.layout.block_insts(block) {
            let data = func.dfg.insts[inst];
            let is_free = match data {
                InstructionData::Load { flags, .. } => flags.readonly() && flags.can_move(),
                _ => matches!(data.opcode(), Opcode::Iconst | Opcode::StackAddr),
            };
            if let (&[result], false) = (func.dfg.inst_results(inst), is_free) {
                candidates.extend(Some(result).filter(fits));
            }
        }
    }
    candidates
}

/// Live-in sets: the blocks at the start of which each value is live.
struct Living {
    /// Block sets of the values that are live at the start of any block.
    blocks: Vec<EntitySet<Block>>,
    /// Index of a value's set in `blocks`, 0 for none. Element 0 is the empty set.
    of: SecondaryMap<Value, u32>,
}

impl Living {
    /// Computes the sets of the candidates.
    fn of(
        func: &Function,
        ways: &ControlFlowGraph,
        tree: &DominatorTree,
        candidates: &EntitySet<Value>,
    ) -> Living {
        let mut living = Living {
            blocks: vec![EntitySet::new()],
            of: SecondaryMap::new(),
        };
        living.of.resize(func.dfg.num_values());
        let mut before: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
        for &block in tree.cfg_postorder() {
            before[block] = ways.pred_iter(block).map(|way| way.block).collect();
        }
        // Each use makes the value live on all paths back to its definition.
        let mut waiting: Vec<Block> = Vec::new();
        for &block in tree.cfg_postorder() {
            for inst in func.layout.block_insts(block) {
                for value in func.dfg.inst_values(inst) {
                    if !candidates.contains(value) {
                        continue;
                    }
                    let origin = block_of(func, value);
                    if origin == Some(block) {
                        continue;
                    }
                    let blocks = living.begin_mut(value);
                    waiting.push(block);
                    while let Some(block) = waiting.pop() {
                        if blocks.insert(block) {
                            let before = before[block].iter().copied();
                            waiting.extend(before.filter(|&way| origin != Some(way)));
                        }
                    }
                }
            }
        }
        living
    }

    /// Returns the blocks at the start of which a value is live.
    fn begin(&self, value: Value) -> &EntitySet<Block> {
        &self.blocks[self.of[value] as usize]
    }

    fn begin_mut(&mut self, value: Value) -> &mut EntitySet<Block> {
        let at = &mut self.of[value];
        if *at == 0 {
            *at = self.blocks.len() as u32;
            self.blocks.push(EntitySet::new());
        }
        &mut self.blocks[*at as usize]
    }
}

/// Returns the block that defines a value.
fn block_of(func: &Function, value: Value) -> Option<Block> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Param(block, _) => Some(block),
        ValueDef::Union(..) => None,
    }
}

/// Returns the values that are live after calls of cold blocks, with those blocks.
fn carried(
    func: &Function,
    calls: &BTreeMap<Block, Calls>,
    living: &Living,
    candidates: &EntitySet<Value>,
) -> BTreeMap<Value, Vec<Block>> {
    let mut carried: BTreeMap<Value, Vec<Block>> = BTreeMap::new();
    for (&block, calls) in calls {
        checkpoint();
        let insts = func.layout.block_insts(block);
        let behind = insts.skip_while(|&inst| inst != calls.first).skip(1);
        let mut used = EntitySet::new();
        used.extend(behind.flat_map(|inst| func.dfg.inst_values(inst)));
        let last = func.layout.last_inst(block);
        let ways: Vec<Block> = last
            .into_iter()
            .flat_map(|inst| destinations(func, inst))
            .collect();
        for value in candidates.iter() {
            let begin = living.begin(value);
            let lives_on = || used.contains(value) || ways.iter().any(|&way| begin.contains(way));
            if begin.contains(block) && lives_on() {
                carried.entry(value).or_default().push(block);
            }
        }
    }
    carried
}

/// Returns the instructions that use each of these values.
fn users(func: &Function, carried: &BTreeMap<Value, Vec<Block>>) -> SecondaryMap<Value, Vec<Inst>> {
    let mut users: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    for inst in insts(func) {
        for value in func.dfg.inst_values(inst) {
            if carried.contains_key(&value) && users[value].last() != Some(&inst) {
                users[value].push(inst);
            }
        }
    }
    users
}

/// Returns the dominance frontier of each block.
fn frontiers(
    ways: &ControlFlowGraph,
    tree: &DominatorTree,
) -> SecondaryMap<Block, BTreeSet<Block>> {
    let mut frontiers: SecondaryMap<Block, BTreeSet<Block>> = SecondaryMap::new();
    for &block in tree.cfg_postorder() {
        let above = tree.idom(block);
        for way in ways.pred_iter(block) {
            let mut here = Some(way.block).filter(|&from| tree.is_reachable(from));
            while let Some(from) = here.filter(|_| here != above) {
                if !frontiers[from].insert(block) {
                    // The rest of this chain was already visited from another edge.
                    break;
                }
                here = tree.idom(from);
            }
        }
    }
    frontiers
}

/// Returns the blocks where different definitions of a value merge, if it is reloaded in `blocks`
/// and live in `living`. This is the iterated dominance frontier.
fn meetings(
    blocks: &[Block],
    frontiers: &SecondaryMap<Block, BTreeSet<Block>>,
    living: &EntitySet<Block>,
) -> BTreeSet<Block> {
    let mut meetings = BTreeSet::new();
    let mut waiting = blocks.to_vec();
    while let Some(block) = waiting.pop() {
        for &meeting in &frontiers[block] {
            if living.contains(meeting) && meetings.insert(meeting) {
                waiting.push(meeting);
            }
        }
    }
    meetings
}

/// State of the spill of one value.
struct Spill<'f> {
    func: &'f mut Function,
    tree: &'f DominatorTree,
    ways: &'f ControlFlowGraph,
    calls: &'f BTreeMap<Block, Calls>,
    value: Value,
    /// Stack slot of the value.
    slot: StackSlot,
    /// Value after the last call of these blocks.
    loaded: BTreeMap<Block, Value>,
    /// Parameters that hold the value from the start of these blocks on.
    params: BTreeMap<Block, Value>,
}

impl Spill<'_> {
    fn carry(&mut self, blocks: &[Block], meetings: &BTreeSet<Block>, users: &[Inst]) {
        for &block in blocks {
            let loaded = self.load_behind(self.calls[&block].last);
            self.loaded.insert(block, loaded);
        }
        let ty = self.func.dfg.value_type(self.value);
        for &block in meetings {
            let param = self.func.dfg.append_block_param(block, ty);
            self.params.insert(block, param);
        }
        for &user in users {
            self.rename(user);
        }
        for &block in blocks {
            let value = self.at_begin(block);
            self.store_before(value, self.calls[&block].first);
        }
        for &block in meetings {
            self.give(block);
        }
    }

    fn flags() -> MemFlags {
        MemFlags::new().with_notrap().with_aligned()
    }

    fn load_behind(&mut self, call: Inst) -> Value {
        let ty = self.func.dfg.value_type(self.value);
        let mut at = FuncCursor::new(self.func).after_inst(call);
        let place = at.ins().stack_addr(I64, self.slot, 0);
        at.ins().load(ty, Self::flags(), place, 0)
    }

    fn store_before(&mut self, value: Value, inst: Inst) {
        let mut at = FuncCursor::new(self.func).at_inst(inst);
        let place = at.ins().stack_addr(I64, self.slot, 0);
        at.ins().store(Self::flags(), value, place, 0);
    }

    /// Returns the definition that reaches the start of a block, which does not define the value.
    fn at_begin(&self, block: Block) -> Value {
        match (self.params.get(&block), self.tree.idom(block)) {
            (Some(&param), _) => param,
            (None, Some(above)) => self.at_end(above),
            (None, None) => self.value,
        }
    }

    /// Returns the definition that reaches the end of a block. It is in this block or in a
    /// dominator, which may be far above.
    fn at_end(&self, block: Block) -> Value {
        let origin = block_of(self.func, self.value);
        let mut here = Some(block);
        while let Some(block) = here.filter(|_| here != origin) {
            let known = self.loaded.get(&block).or_else(|| self.params.get(&block));
            if let Some(&known) = known {
                return known;
            }
            here = self.tree.idom(block);
        }
        self.value
    }

    /// Replaces the value in an instruction by the definition that reaches it.
    fn rename(&mut self, user: Inst) {
        let Some(block) = self.func.layout.inst_block(user) else {
            return;
        };
        let is_before = |one: Inst, other: Inst| self.func.layout.pp_cmp(one, other).is_lt();
        let value = match self
            .calls
            .get(&block)
            .filter(|_| self.loaded.contains_key(&block))
        {
            Some(calls) if is_before(calls.last, user) => self.loaded[&block],
            Some(calls) if is_before(calls.first, user) => {
                let before = self.func.layout.prev_inst(user);
                match before {
                    Some(before) => self.load_behind(before),
                    None => return,
                }
            }
            _ if block_of(self.func, self.value) == Some(block) => return,
            _ => self.at_begin(block),
        };
        let old = self.value;
        self.func
            .dfg
            .map_inst_values(user, |one| if one == old { value } else { one });
    }

    /// Appends the argument for a new block parameter to each branch to the block.
    fn give(&mut self, block: Block) {
        let branches: BTreeSet<Inst> = self.ways.pred_iter(block).map(|way| way.inst).collect();
        for branch in branches {
            let Some(from) = self.func.layout.inst_block(branch) else {
                continue;
            };
            let value = self.at_end(from);
            let dfg = &mut self.func.dfg;
            let calls = dfg.insts[branch]
                .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
            for call in calls {
                if call.block(&dfg.value_lists) == block {
                    call.append_argument(BlockArg::Value(value), &mut dfg.value_lists);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, count, flow_of, function, safe};
    use super::*;
    use cranelift_codegen::ir::types::{I8X16, I32};
    use cranelift_codegen::ir::{AbiParam, Signature, Type};
    use cranelift_codegen::isa::CallConv;
    use cranelift_frontend::FunctionBuilder;

    fn call(b: &mut FunctionBuilder<'_>, pointer: Value) {
        let mut called = Signature::new(CallConv::SystemV);
        called.params.push(AbiParam::new(I64));
        let called = b.import_signature(called);
        b.ins().call_indirect(called, pointer, &[pointer]);
    }

    /// Fills a block. The arguments are the function's pointer and a number.
    type Fill<'f> = &'f dyn Fn(&mut FunctionBuilder<'_>, Value, Value);

    /// Builds a loop that loads a number, runs blocks that may each be bypassed, and stores the
    /// number. Each block is cold or not and has its own code.
    fn passing(ty: Type, blocks: &[(bool, Fill<'_>)]) -> Function {
        function(|b, pointer| {
            let [around, end] = [(); 2].map(|()| b.create_block());
            b.ins().jump(around, &[]);
            b.switch_to_block(around);
            let number = b.ins().load(ty, safe(), pointer, 0);
            for &(is_seldom, fill) in blocks {
                let [block, behind] = [(); 2].map(|()| b.create_block());
                if is_seldom {
                    b.set_cold_block(block);
                }
                b.ins().brif(pointer, block, &[], behind, &[]);
                b.switch_to_block(block);
                fill(b, pointer, number);
                b.ins().jump(behind, &[]);
                b.switch_to_block(behind);
            }
            b.ins().store(safe(), number, pointer, 8);
            b.ins().brif(pointer, around, &[], end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        })
    }

    /// Counts an opcode in the cold or in the other blocks.
    fn ops(func: &Function, is_seldom: bool, wanted: Opcode) -> usize {
        let inside = |inst: &Inst| {
            let block = func.layout.inst_block(*inst);
            block.is_some_and(|block| func.layout.is_cold(block) == is_seldom)
        };
        let ops = insts(func)
            .filter(inside)
            .map(|inst| func.dfg.insts[inst].opcode());
        ops.filter(|&op| op == wanted).count()
    }

    fn params(func: &Function) -> usize {
        let blocks = func.layout.blocks().skip(1);
        blocks.map(|block| func.dfg.block_params(block).len()).sum()
    }

    #[test]
    fn what_lives_on_behind_a_seldom_call_is_in_memory_there_alone() {
        let calls = |b: &mut FunctionBuilder<'_>, pointer, _| call(b, pointer);
        for ty in [I32, I64] {
            let mut func = passing(ty, &[(true, &calls), (true, &calls)]);
            let flow = flow_of(&func);
            carry(&mut func, &flow);
            check(&func);
            for op in [Opcode::Load, Opcode::Store] {
                assert_eq!(ops(&func, true, op), 2, "{func}");
                assert_eq!(ops(&func, false, op), 1, "{func}");
            }
            assert_eq!(params(&func), 2, "{func}");
        }
    }

    #[test]
    fn where_ways_meet_that_have_met_before_the_value_is_another_one_again() {
        let nested = |b: &mut FunctionBuilder<'_>, pointer, _| {
            let [seldom, met] = [(); 2].map(|()| b.create_block());
            b.set_cold_block(seldom);
            b.ins().brif(pointer, seldom, &[], met, &[]);
            b.switch_to_block(seldom);
            call(b, pointer);
            b.ins().jump(met, &[]);
            b.switch_to_block(met);
        };
        let mut func = passing(I64, &[(false, &nested)]);
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        check(&func);
        assert_eq!(params(&func), 2, "{func}");
        // The last of them is what the final store writes.
        let last = insts(&func).find(|&inst| func.dfg.insts[inst].load_store_offset() == Some(8));
        let stored = last.map(|inst| func.dfg.value_def(func.dfg.inst_args(inst)[0]));
        assert!(matches!(stored, Some(ValueDef::Param(..))), "{func}");
    }

    #[test]
    fn what_often_blocks_call_or_seldom_ones_do_without_calls_carries_nothing() {
        let calls = |b: &mut FunctionBuilder<'_>, pointer, _| call(b, pointer);
        let nothing = |_: &mut FunctionBuilder<'_>, _, _| ();
        let mut func = passing(I64, &[(false, &calls), (true, &nothing)]);
        let before = func.to_string();
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        assert_eq!(func.to_string(), before);
    }

    #[test]
    fn between_calls_a_value_is_loaded_for_each_that_uses_it() {
        let calls = |b: &mut FunctionBuilder<'_>, pointer, number| {
            call(b, pointer);
            b.ins().store(safe(), number, pointer, 16);
            call(b, pointer);
        };
        let mut func = passing(I64, &[(true, &calls)]);
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        check(&func);
        let moves = [Opcode::Store, Opcode::CallIndirect, Opcode::Load];
        let seldom = func
            .layout
            .blocks()
            .filter(|&block| func.layout.is_cold(block));
        let done: Vec<Opcode> = seldom
            .flat_map(|block| func.layout.block_insts(block))
            .map(|inst| func.dfg.insts[inst].opcode())
            .filter(|op| moves.contains(op))
            .collect();
        let [store, call, load] = moves;
        assert_eq!(done, [store, call, load, store, call, load], "{func}");
        // The store between the calls writes the value that was loaded there.
        let stores = insts(&func).filter(|&inst| func.dfg.insts[inst].opcode() == Opcode::Store);
        let between = stores
            .map(|inst| (inst, func.dfg.inst_args(inst)[0]))
            .find(|&(inst, _)| func.dfg.insts[inst].load_store_offset() == Some(16));
        let before = between.and_then(|(inst, _)| func.layout.prev_inst(inst));
        let loaded = before.map(|load| func.dfg.first_result(load));
        assert_eq!(loaded, between.map(|(_, value)| value), "{func}");
    }

    #[test]
    fn what_is_used_behind_a_call_for_the_last_time_is_loaded_too() {
        let mut func = function(|b, pointer| {
            let [around, seldom] = [(); 2].map(|()| b.create_block());
            b.set_cold_block(seldom);
            b.ins().jump(around, &[]);
            b.switch_to_block(around);
            let number = b.ins().load(I64, safe(), pointer, 0);
            b.ins().brif(pointer, seldom, &[], around, &[]);
            b.switch_to_block(seldom);
            call(b, pointer);
            b.ins().store(safe(), number, pointer, 8);
            b.ins().jump(around, &[]);
        });
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        check(&func);
        assert_eq!(ops(&func, true, Opcode::Load), 1, "{func}");
        assert_eq!(params(&func), 0, "{func}");
    }

    #[test]
    fn what_is_larger_than_a_word_is_not_carried() {
        let calls = |b: &mut FunctionBuilder<'_>, pointer, _| call(b, pointer);
        let mut func = passing(I8X16, &[(true, &calls)]);
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        assert!(func.sized_stack_slots.is_empty(), "{func}");
    }

    /// Builds a loop that loads many values and uses them after as many cold calls.
    fn many(values: usize, calls: usize) -> Function {
        function(|b, pointer| {
            let [around, end] = [(); 2].map(|()| b.create_block());
            b.ins().jump(around, &[]);
            b.switch_to_block(around);
            let numbers = (0..values).map(|at| b.ins().load(I64, safe(), pointer, 8 * at as i32));
            let numbers: Vec<Value> = numbers.collect();
            for _ in 0..calls {
                let [seldom, behind] = [(); 2].map(|()| b.create_block());
                b.set_cold_block(seldom);
                b.ins().brif(pointer, seldom, &[], behind, &[]);
                b.switch_to_block(seldom);
                call(b, pointer);
                b.ins().jump(behind, &[]);
                b.switch_to_block(behind);
            }
            for number in numbers {
                b.ins().store(safe(), number, pointer, 0);
            }
            b.ins().brif(pointer, around, &[], end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        })
    }

    #[test]
    fn many_values_over_many_calls_take_little_time_and_room() {
        let begin = std::time::Instant::now();
        let mut func = many(300, 300);
        let before = insts(&func).count();
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        check(&func);
        // Each spill has a store, a load, and their addresses.
        assert!(insts(&func).count() <= before + 4 * MAX_PLACES);
        assert!(params(&func) <= MAX_PLACES);
        assert!(begin.elapsed().as_secs() < 10);
        let mut func = many(10, 10);
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        assert_eq!(count(&func, Opcode::Load), 10 + 100);
    }

    #[test]
    fn a_long_way_to_where_a_value_is_computed_takes_no_stack() {
        let mut func = passing_far(20_000);
        let flow = flow_of(&func);
        carry(&mut func, &flow);
        check(&func);
        assert_eq!(ops(&func, true, Opcode::Load), 1);
    }

    /// Builds a function with a number that is live through many blocks before and after a cold
    /// call.
    fn passing_far(far: usize) -> Function {
        let through = |b: &mut FunctionBuilder<'_>, _, _| {
            for _ in 0..far {
                let next = b.create_block();
                b.ins().jump(next, &[]);
                b.switch_to_block(next);
            }
        };
        let calls = |b: &mut FunctionBuilder<'_>, pointer, _| call(b, pointer);
        passing(I64, &[(false, &through), (true, &calls), (false, &through)])
    }
}

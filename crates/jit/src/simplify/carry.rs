//! Carries values over the calls of seldom code in memory, so that often code keeps them in registers.
//!
//! Whoever is called may use most registers. A value that lives on behind a call must be elsewhere meanwhile, and Cranelift's register allocator, which does not know
//! what is seldom, takes what one such value is on all ways out of the registers: it is stored where it is computed and loaded at each use, though nearly no packet
//! comes to the call. Here seldom code stores what it will need behind a call in front of it, and loads it behind; where the ways meet again the value is a
//! parameter, which is what was loaded on the one way and what was in a register on the others (Cytron et al., Efficiently Computing Static Single Assignment Form, 1991:
//! parameters stand in the iterated dominance frontier of the loads).

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

use super::sweep::insts;

/// Bytes of a word, and the bits of its address that are zero.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// Carries values of a function in which no value is another one's name.
pub(super) fn carry(func: &mut Function) {
    let ways = ControlFlowGraph::with_function(func);
    let tree = DominatorTree::with_function(func, &ways);
    let calls = seldom_calls(func);
    if calls.is_empty() {
        return;
    }
    let candidates = candidates(func, &ways, &tree);
    let living = Living::of(func, &ways, &tree, &candidates);
    let frontiers = frontiers(&ways, &tree);
    let carried = carried(func, &calls, &living);
    let users = users(func, &carried);
    let data = StackSlotData::new(
        StackSlotKind::ExplicitSlot,
        WORD as u32 * carried.len() as u32,
        ALIGNMENT,
    );
    let slot = func.create_sized_stack_slot(data);
    for (number, (value, blocks)) in carried.into_iter().enumerate() {
        let place = (slot, WORD * number as i32);
        let mut carrying = Carrying {
            func,
            tree: &tree,
            ways: &ways,
            calls: &calls,
            value,
            place,
            loaded: BTreeMap::new(),
            params: BTreeMap::new(),
        };
        carrying.carry(&blocks, &users[value], (&frontiers, &living));
    }
}

/// The first and the last call of a block.
#[derive(Clone, Copy, Debug)]
struct Calls {
    first: Inst,
    last: Inst,
}

/// The calls of seldom blocks.
fn seldom_calls(func: &Function) -> BTreeMap<Block, Calls> {
    let seldom = func
        .layout
        .blocks()
        .filter(|&block| func.layout.is_cold(block));
    let calls = seldom.filter_map(|block| {
        let is_call = |inst: &Inst| func.dfg.insts[*inst].opcode().is_call();
        let mut calls = func.layout.block_insts(block).filter(is_call);
        let first = calls.next()?;
        let last = calls.last().unwrap_or(first);
        Some((block, Calls { first, last }))
    });
    calls.collect()
}

/// Values that are worth a register: what is computed for each packet. What is computed before the first one may be in memory, and constants are made anew.
fn candidates(func: &Function, ways: &ControlFlowGraph, tree: &DominatorTree) -> EntitySet<Value> {
    let mut loops = LoopAnalysis::new();
    loops.compute(func, ways, tree);
    let mut candidates = EntitySet::new();
    for block in func.layout.blocks() {
        if loops.innermost_loop(block).is_none() {
            continue;
        }
        candidates.extend(func.dfg.block_params(block).iter().copied());
        for inst in func.layout.block_insts(block) {
            let data = func.dfg.insts[inst];
            let is_free = match data {
                InstructionData::Load { flags, .. } => flags.readonly() && flags.can_move(),
                _ => matches!(data.opcode(), Opcode::Iconst | Opcode::StackAddr),
            };
            if let (&[result], false) = (func.dfg.inst_results(inst), is_free) {
                candidates.insert(result);
            }
        }
    }
    candidates
}

/// Which values live where blocks begin and end.
struct Living {
    begin: SecondaryMap<Block, BTreeSet<Value>>,
    end: SecondaryMap<Block, BTreeSet<Value>>,
}

impl Living {
    /// Of these values alone.
    fn of(
        func: &Function,
        ways: &ControlFlowGraph,
        tree: &DominatorTree,
        candidates: &EntitySet<Value>,
    ) -> Living {
        let mut living = Living {
            begin: SecondaryMap::new(),
            end: SecondaryMap::new(),
        };
        // Each use lives back to where its value is computed.
        let mut waiting: Vec<(Block, Value)> = Vec::new();
        for block in tree.cfg_postorder() {
            for inst in func.layout.block_insts(*block) {
                for value in func.dfg.inst_values(inst) {
                    if candidates.contains(value) && block_of(func, value) != Some(*block) {
                        waiting.push((*block, value));
                    }
                }
            }
        }
        while let Some((block, value)) = waiting.pop() {
            if !living.begin[block].insert(value) {
                continue;
            }
            for way in ways.pred_iter(block) {
                living.end[way.block].insert(value);
                if block_of(func, value) != Some(way.block) {
                    waiting.push((way.block, value));
                }
            }
        }
        living
    }
}

/// Where a value is computed.
fn block_of(func: &Function, value: Value) -> Option<Block> {
    match func.dfg.value_def(value) {
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Param(block, _) => Some(block),
        ValueDef::Union(..) => None,
    }
}

/// The values that live on behind calls of these blocks, and which those are.
fn carried(
    func: &Function,
    calls: &BTreeMap<Block, Calls>,
    living: &Living,
) -> BTreeMap<Value, Vec<Block>> {
    let mut carried: BTreeMap<Value, Vec<Block>> = BTreeMap::new();
    for (&block, calls) in calls {
        let from_elsewhere = |value: &Value| living.begin[block].contains(value);
        let mut values: BTreeSet<Value> = living.end[block]
            .iter()
            .copied()
            .filter(from_elsewhere)
            .collect();
        let behind = func
            .layout
            .block_insts(block)
            .skip_while(|&inst| inst != calls.first)
            .skip(1);
        for inst in behind {
            values.extend(func.dfg.inst_values(inst).filter(from_elsewhere));
        }
        for value in values {
            carried.entry(value).or_default().push(block);
        }
    }
    carried
}

/// The instructions that take each of these values.
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

/// The blocks where a way from each block meets ways that do not come through it.
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
                frontiers[from].insert(block);
                here = tree.idom(from);
            }
        }
    }
    frontiers
}

/// One value being carried.
struct Carrying<'f> {
    func: &'f mut Function,
    tree: &'f DominatorTree,
    ways: &'f ControlFlowGraph,
    calls: &'f BTreeMap<Block, Calls>,
    value: Value,
    place: (StackSlot, i32),
    /// What it is behind the last call of these blocks.
    loaded: BTreeMap<Block, Value>,
    /// What it is from the beginning of these blocks on.
    params: BTreeMap<Block, Value>,
}

impl Carrying<'_> {
    fn carry(
        &mut self,
        blocks: &[Block],
        users: &[Inst],
        (frontiers, living): (&SecondaryMap<Block, BTreeSet<Block>>, &Living),
    ) {
        for &block in blocks {
            let loaded = self.load_behind(self.calls[&block].last);
            self.loaded.insert(block, loaded);
        }
        let ty = self.func.dfg.value_type(self.value);
        for block in self.meetings(blocks, frontiers, living) {
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
        for block in self.params.keys().copied().collect::<Vec<_>>() {
            self.give(block);
        }
    }

    /// Where ways meet on which the value is different ones.
    fn meetings(
        &self,
        blocks: &[Block],
        frontiers: &SecondaryMap<Block, BTreeSet<Block>>,
        living: &Living,
    ) -> BTreeSet<Block> {
        let mut meetings = BTreeSet::new();
        let mut waiting = blocks.to_vec();
        while let Some(block) = waiting.pop() {
            for &meeting in &frontiers[block] {
                if living.begin[meeting].contains(&self.value) && meetings.insert(meeting) {
                    waiting.push(meeting);
                }
            }
        }
        meetings
    }

    fn flags() -> MemFlags {
        MemFlags::new().with_notrap().with_aligned()
    }

    fn load_behind(&mut self, call: Inst) -> Value {
        let ty = self.func.dfg.value_type(self.value);
        let (slot, offset) = self.place;
        let mut at = FuncCursor::new(self.func).after_inst(call);
        let place = at.ins().stack_addr(I64, slot, offset);
        at.ins().load(ty, Self::flags(), place, 0)
    }

    fn store_before(&mut self, value: Value, inst: Inst) {
        let (slot, offset) = self.place;
        let mut at = FuncCursor::new(self.func).at_inst(inst);
        let place = at.ins().stack_addr(I64, slot, offset);
        at.ins().store(Self::flags(), value, place, 0);
    }

    /// What the value is where a block begins that does not compute it.
    fn at_begin(&self, block: Block) -> Value {
        match (self.params.get(&block), self.tree.idom(block)) {
            (Some(&param), _) => param,
            (None, Some(above)) => self.at_end(above),
            (None, None) => self.value,
        }
    }

    fn at_end(&self, block: Block) -> Value {
        if let Some(&loaded) = self.loaded.get(&block) {
            return loaded;
        }
        match block_of(self.func, self.value) == Some(block) {
            true => self.value,
            false => self.at_begin(block),
        }
    }

    /// Has an instruction take what the value is there.
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

    /// Gives the parameter of a block what the value is on each way there.
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

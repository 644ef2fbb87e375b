//! Gives ways that meet, and know different things, code of their own behind the place where they meet.
//!
//! A block's parameter that is a constant on some ways to it, and on which a branch further on depends, is what those ways know. The block is copied, with all
//! that it dominates, for each group of ways that know the same: nothing else can use what these blocks compute, so the copies stand for themselves.
//! Ways from blocks that are seldom reached share one copy.

use std::collections::{BTreeMap, HashMap, HashSet};

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{
    Block, BlockCall, Function, Inst, InstructionData, Opcode, Value, ValueDef,
};

use super::fold::{Given, Known, evaluate};
use super::sweep::{insts, sources};

/// What the ways of a group know, by parameter of the block where they meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Constants, or nothing.
    Often(Vec<Option<i64>>),
    /// Reached from blocks that seldom are.
    Seldom,
}

/// What parting ways may cost, in instructions.
pub(super) struct Room {
    /// By how many the function may grow when what is known is folded.
    pub(super) growth: usize,
    /// How many may be copied, whatever is folded.
    pub(super) copies: usize,
    /// How many may be copied for one that becomes known.
    pub(super) worth: usize,
}

impl Room {
    /// Takes what a copy of `size` instructions costs of which so many become known, if there is room for that.
    fn take(&mut self, size: usize, known: usize) -> bool {
        let stays = size.saturating_sub(known);
        let fits = known * self.worth >= size && stays <= self.growth && size <= self.copies;
        if fits {
            self.growth -= stays;
            self.copies -= size;
        }
        fits
    }
}

/// A way to a block: one of a branch's.
#[derive(Clone, Copy, Debug)]
struct Way {
    branch: Inst,
    number: usize,
}

/// Parts ways as long as there is room for copies; whether it did anything.
pub(super) fn split(func: &mut Function, mut room: Room) -> bool {
    let ways = ControlFlowGraph::with_function(func);
    let tree = DominatorTree::with_function(func, &ways);
    let decisive = decisive(func);
    let blocks: Vec<Block> = tree.cfg_rpo().copied().collect();
    let mut parted: HashSet<Block> = HashSet::new();
    for &block in &blocks {
        if parted.contains(&block) || func.layout.is_cold(block) {
            continue;
        }
        let Some(meeting) = meeting(func, &ways, &tree, &decisive, block) else {
            continue;
        };
        let region = region(&tree, &blocks, block);
        let size: usize = region
            .iter()
            .map(|&b| func.layout.block_insts(b).count())
            .sum();
        let copied = meeting.worth_copying(func, &region, size, &mut room);
        if copied.is_empty() {
            continue;
        }
        for ways in copied {
            copy_for(func, &region, &ways);
        }
        parted.extend(region);
    }
    !parted.is_empty()
}

/// Ways that meet in a block.
struct Meeting {
    /// The parameters that matter.
    params: Vec<Value>,
    groups: BTreeMap<Group, Vec<Way>>,
}

impl Meeting {
    /// The groups that get a copy of the region of so many instructions, those first that know most, as long as there is room; one group keeps the region itself.
    fn worth_copying(
        &self,
        func: &Function,
        region: &[Block],
        size: usize,
        room: &mut Room,
    ) -> Vec<Vec<Way>> {
        let mut gains: Vec<(usize, &Vec<Way>)> = Vec::new();
        for (group, ways) in &self.groups {
            let known = match group {
                Group::Often(known) => made_known(func, region, &self.params, known),
                Group::Seldom => 0,
            };
            gains.push((known, ways));
        }
        gains.sort_by_key(|(known, _)| std::cmp::Reverse(*known));
        gains.pop();
        gains.retain(|(known, _)| room.take(size, *known));
        gains.into_iter().map(|(_, ways)| ways.clone()).collect()
    }
}

/// What is gained if these parameters of a region's first block have these values: instructions of the region that need not run, and numbers that become
/// known behind it.
fn made_known(
    func: &Function,
    region: &[Block],
    params: &[Value],
    values: &[Option<i64>],
) -> usize {
    let mut foresight = Foresight::default();
    foresight.region.extend(region.iter().copied());
    for (&param, value) in params.iter().zip(values) {
        let Some(value) = value else { continue };
        foresight.numbers[param] = Some(*value as u64);
    }
    foresight.reached.insert(region[0]);
    for &block in region {
        foresight.block(func, block);
    }
    foresight.gain
}

/// What would be known in a region.
#[derive(Default)]
struct Foresight {
    region: EntitySet<Block>,
    numbers: SecondaryMap<Value, Option<u64>>,
    given: SecondaryMap<Value, Given>,
    reached: EntitySet<Block>,
    gain: usize,
}

impl Foresight {
    fn block(&mut self, func: &Function, block: Block) {
        let insts = func.layout.block_insts(block);
        if !self.reached.contains(block) {
            self.gain += insts.count();
            return;
        }
        for param in func.dfg.block_params(block) {
            if let Given::Always(number) = self.given[*param] {
                self.numbers[*param] = Some(number);
            }
        }
        insts.for_each(|inst| self.inst(func, inst));
    }

    fn inst(&mut self, func: &Function, inst: Inst) {
        let data = func.dfg.insts[inst];
        let dfg = &func.dfg;
        if data.opcode().is_branch() {
            let calls = data.branch_destination(&dfg.jump_tables, &dfg.exception_tables);
            let chosen = match data {
                InstructionData::Brif { arg, .. } => self.number(func, arg),
                _ => None,
            };
            self.gain += usize::from(chosen.is_some());
            let chosen = chosen.map(|truth| usize::from(truth == 0));
            for (at, call) in calls.iter().enumerate() {
                if chosen.is_none_or(|chosen| chosen == at) {
                    self.arrive(func, *call);
                }
            }
            return;
        }
        let &[result] = dfg.inst_results(inst) else {
            return;
        };
        let ty = dfg.value_type(result);
        if !ty.is_int() || ty.bits() > 64 || data.opcode() == Opcode::Iconst {
            return;
        }
        let known = |value| self.number(func, value).map(Known::Is);
        let number = evaluate(func, data, ty, known);
        self.numbers[result] = number;
        self.gain += usize::from(number.is_some());
    }

    fn number(&self, func: &Function, value: Value) -> Option<u64> {
        self.numbers[value].or_else(|| constant(func, value).map(|number| number as u64))
    }

    fn arrive(&mut self, func: &Function, call: BlockCall) {
        let pool = &func.dfg.value_lists;
        let to = call.block(pool);
        self.reached.insert(to);
        let is_outside = !self.region.contains(to);
        for (&param, arg) in func.dfg.block_params(to).iter().zip(call.args(pool)) {
            let arg = arg.as_value();
            let is_new = is_outside && arg.is_some_and(|arg| self.numbers[arg].is_some());
            self.gain += usize::from(is_new);
            let number = arg.and_then(|value| self.number(func, value));
            self.given[param] = self.given[param].and(number);
        }
    }
}

/// The ways to a block by what they know, if they know different things that matter.
fn meeting(
    func: &Function,
    ways: &ControlFlowGraph,
    tree: &DominatorTree,
    decisive: &EntitySet<Value>,
    block: Block,
) -> Option<Meeting> {
    let params = func.dfg.block_params(block);
    let at: Vec<usize> = (0..params.len())
        .filter(|&at| decisive.contains(params[at]))
        .collect();
    if at.is_empty() {
        return None;
    }
    let mut groups: BTreeMap<Group, Vec<Way>> = BTreeMap::new();
    for from in ways.pred_iter(block) {
        if tree.block_dominates(block, from.block) {
            return None;
        }
        let dfg = &func.dfg;
        let calls =
            dfg.insts[from.inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for (number, call) in calls.iter().enumerate() {
            if call.block(&dfg.value_lists) != block {
                continue;
            }
            let args: Vec<Option<Value>> = call
                .args(&dfg.value_lists)
                .map(|arg| arg.as_value())
                .collect();
            let known = at
                .iter()
                .map(|&at| constant(func, *args.get(at)?.as_ref()?));
            let group = match func.layout.is_cold(from.block) {
                true => Group::Seldom,
                false => Group::Often(known.collect()),
            };
            let branch = from.inst;
            groups
                .entry(group)
                .or_default()
                .push(Way { branch, number });
        }
    }
    let params = at.into_iter().map(|at| params[at]).collect();
    (groups.len() > 1).then_some(Meeting { params, groups })
}

fn constant(func: &Function, value: Value) -> Option<i64> {
    let value = func.dfg.resolve_aliases(value);
    let ValueDef::Result(inst, _) = func.dfg.value_def(value) else {
        return None;
    };
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Some(imm.bits()),
        _ => None,
    }
}

/// The values on which branches depend.
fn decisive(func: &Function) -> EntitySet<Value> {
    let conditions = insts(func).filter_map(|inst| match func.dfg.insts[inst] {
        InstructionData::Brif { arg, .. } | InstructionData::BranchTable { arg, .. } => Some(arg),
        _ => None,
    });
    sources(func, conditions.collect())
}

/// A block and all that it dominates, each behind those that it is reached from, but for loops.
fn region(tree: &DominatorTree, blocks: &[Block], first: Block) -> Vec<Block> {
    let blocks = blocks.iter().copied();
    let from = blocks.skip_while(|&block| block != first);
    from.filter(|&block| tree.block_dominates(first, block))
        .collect()
}

/// Copies blocks, of which the first dominates the others, and has these ways go to the copy.
fn copy_for(func: &mut Function, region: &[Block], ways: &[Way]) {
    let mut blocks: HashMap<Block, Block> = HashMap::new();
    let mut values: HashMap<Value, Value> = HashMap::new();
    for &block in region {
        let copy = func.dfg.make_block();
        func.layout.append_block(copy);
        if func.layout.is_cold(block) {
            func.layout.set_cold(copy);
        }
        for param in func.dfg.block_params(block).to_vec() {
            let ty = func.dfg.value_type(param);
            values.insert(param, func.dfg.append_block_param(copy, ty));
        }
        blocks.insert(block, copy);
    }
    let mut copies: Vec<Inst> = Vec::new();
    for block in region {
        let insts: Vec<Inst> = func.layout.block_insts(*block).collect();
        for inst in insts {
            let copy = func.dfg.clone_inst(inst);
            let results = func.dfg.inst_results(inst).to_vec();
            values.extend(
                results
                    .into_iter()
                    .zip(func.dfg.inst_results(copy).to_vec()),
            );
            func.layout.append_inst(copy, blocks[block]);
            copies.push(copy);
        }
    }
    for copy in copies {
        own_jump_table(func, copy);
        let dfg = &mut func.dfg;
        dfg.map_inst_values(copy, |value| values.get(&value).copied().unwrap_or(value));
        let calls =
            dfg.insts[copy].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        for call in calls {
            if let Some(&to) = blocks.get(&call.block(&dfg.value_lists)) {
                call.set_block(to, &mut dfg.value_lists);
            }
        }
    }
    for way in ways {
        let dfg = &mut func.dfg;
        let calls = dfg.insts[way.branch]
            .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        if let Some(call) = calls.get_mut(way.number) {
            call.set_block(blocks[&region[0]], &mut dfg.value_lists);
        }
    }
}

/// Gives a copied branch a jump table of its own.
fn own_jump_table(func: &mut Function, inst: Inst) {
    let InstructionData::BranchTable { table, .. } = func.dfg.insts[inst] else {
        return;
    };
    let mut own = func.dfg.jump_tables[table].clone();
    for call in own.all_branches_mut() {
        *call = call.deep_clone(&mut func.dfg.value_lists);
    }
    let own = func.dfg.jump_tables.push(own);
    if let InstructionData::BranchTable { table, .. } = &mut func.dfg.insts[inst] {
        *table = own;
    }
}

//! Tail duplication (jump threading). Copies the code after a merge point for paths that arrive
//! with different constants.
//!
//! The constants are block parameters that are constant on some incoming edges and on which a later
//! branch depends. The block and all that it dominates are copied for each group of edges with the
//! same constants. No other block uses values of this region, so the copies need no new parameters.
//! Edges from cold blocks share one copy.

use std::collections::BTreeMap;
use std::ops::Range;

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::types::INVALID;
use cranelift_codegen::ir::{
    Block, BlockCall, Function, Inst, InstructionData, Opcode, Type, Value,
};
use cranelift_codegen::packed_option::PackedOption;

use support::work::checkpoint;

use super::Flow;
use super::constant_propagation::{Given, Known, evaluate};
use super::dead_code::{insts, sources};

/// Key of a group of edges: their constants, by parameter of the merge point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Hot edges, with a constant or none for each parameter.
    Often(Vec<Option<i64>>),
    /// Edges from cold blocks.
    Seldom,
}

/// Budget of tail duplication, in instructions.
pub(super) struct Room {
    /// Maximum growth of the function after folding.
    pub(super) growth: usize,
    /// Maximum number of copied instructions before folding.
    pub(super) copies: usize,
    /// Maximum number of copied instructions per instruction that becomes known.
    pub(super) worth: usize,
}

impl Room {
    /// Charges a copy of `size` instructions, of which `known` become known. Returns false if the
    /// budget does not allow it.
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

/// CFG edge: one target of a branch.
#[derive(Clone, Copy, Debug)]
struct Edge {
    branch: Inst,
    number: usize,
}

/// Duplicates code while the budget allows it. Returns true if anything was copied.
pub(super) fn split(func: &mut Function, flow: &Flow, mut room: Room) -> bool {
    let decisive = decisive(func);
    let regions = Regions::of(&flow.tree);
    let mut foresight = PredictedFacts::of(func);
    let mut copies = Copies::default();
    let mut parted: EntitySet<Block> = EntitySet::new();
    for &block in &regions.order {
        checkpoint();
        if parted.contains(block) || func.layout.is_cold(block) {
            continue;
        }
        let known = (&decisive, &foresight.constants);
        let Some(meeting) = meeting(func, flow, known, block) else {
            continue;
        };
        let region = regions.from(block);
        let copied = meeting.worth_copying(func, &region, &mut foresight, &mut room);
        if copied.is_empty() {
            continue;
        }
        for ways in copied {
            copies.make(func, &region, &ways);
        }
        parted.extend(region);
    }
    !parted.is_empty()
}

/// Merge point, with its incoming edges in groups.
struct MergePoint {
    /// Parameters on which later branches depend.
    params: Vec<Value>,
    groups: BTreeMap<Group, Vec<Edge>>,
}

impl MergePoint {
    /// Selects the groups that get a copy of the region, in descending order of their gain. The
    /// last group keeps the original.
    fn worth_copying(
        &self,
        func: &Function,
        region: &[Block],
        foresight: &mut PredictedFacts,
        room: &mut Room,
    ) -> Vec<Vec<Edge>> {
        let size: usize = region.iter().map(|&b| foresight.size(b)).sum();
        let mut gains: Vec<(usize, &Vec<Edge>)> = Vec::new();
        for (group, ways) in &self.groups {
            let known = match group {
                Group::Often(known) => foresight.gain(func, region, &self.params, known),
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

/// Instruction that may become known.
#[derive(Clone, Copy, Debug)]
struct Step {
    inst: Inst,
    data: InstructionData,
    ty: Type,
    /// Operands. Nothing becomes known while all of them are unknown. None if the result may be
    /// known without operands.
    of: Option<[Value; 2]>,
}

impl Step {
    fn of(func: &Function, inst: Inst) -> Option<Step> {
        let data = func.dfg.insts[inst];
        let mut step = Step {
            inst,
            data,
            ty: INVALID,
            of: None,
        };
        if data.opcode().is_branch() {
            return Some(step);
        }
        let &[result] = func.dfg.inst_results(inst) else {
            return None;
        };
        step.ty = func.dfg.value_type(result);
        if !step.ty.is_int() || step.ty.bits() > 64 {
            return None;
        }
        step.of = match data {
            InstructionData::Unary { arg, .. } | InstructionData::IntCompareImm { arg, .. } => {
                Some([arg; 2])
            }
            // A product with zero is known without the other operand.
            InstructionData::BinaryImm64 { arg, imm, .. } => (imm.bits() != 0).then_some([arg; 2]),
            InstructionData::Binary { args, .. } | InstructionData::IntCompare { args, .. } => {
                Some(args)
            }
            InstructionData::Ternary { args, .. } => Some([args[0]; 2]),
            _ => return None,
        };
        Some(step)
    }
}

/// Prediction of the facts that duplication would reveal in a region. It is reused for all regions,
/// since its maps are as long as the function.
#[derive(Default)]
struct PredictedFacts {
    constants: Constants,
    /// Instructions that may become known, block by block. `blocks` has the range of each block,
    /// and its total number of instructions.
    steps: Vec<Step>,
    blocks: SecondaryMap<Block, (Range<usize>, usize)>,
    region: EntitySet<Block>,
    numbers: SecondaryMap<Value, Option<u64>>,
    given: SecondaryMap<Value, Given<u64>>,
    /// Values with entries in the maps.
    noted: Vec<Value>,
    reached: EntitySet<Block>,
    gain: usize,
}

impl PredictedFacts {
    fn of(func: &Function) -> PredictedFacts {
        let mut foresight = PredictedFacts {
            constants: constants(func),
            ..PredictedFacts::default()
        };
        foresight.numbers.resize(func.dfg.num_values());
        foresight.given.resize(func.dfg.num_values());
        for block in func.layout.blocks() {
            let (first, mut size) = (foresight.steps.len(), 0);
            for inst in func.layout.block_insts(block) {
                foresight.steps.extend(Step::of(func, inst));
                size += 1;
            }
            foresight.blocks[block] = (first..foresight.steps.len(), size);
        }
        foresight
    }

    /// Returns the number of instructions of a block.
    fn size(&self, block: Block) -> usize {
        self.blocks[block].1
    }

    /// Returns the gain for given values of the first block's parameters. It counts instructions of
    /// the region that need not run, and numbers that become known after it.
    fn gain(
        &mut self,
        func: &Function,
        region: &[Block],
        params: &[Value],
        values: &[Option<i64>],
    ) -> usize {
        self.forget();
        self.region.extend(region.iter().copied());
        for (&param, value) in params.iter().zip(values) {
            let Some(value) = value else { continue };
            self.note(param, *value as u64);
        }
        self.reached.insert(region[0]);
        for &block in region {
            self.block(func, block);
        }
        self.gain
    }

    /// Clears all predictions.
    fn forget(&mut self) {
        for value in self.noted.drain(..) {
            self.numbers[value] = None;
            self.given[value] = Given::Nothing;
        }
        self.region.clear();
        self.reached.clear();
        self.gain = 0;
    }

    fn note(&mut self, value: Value, number: u64) {
        self.numbers[value] = Some(number);
        self.noted.push(value);
    }

    fn block(&mut self, func: &Function, block: Block) {
        if !self.reached.contains(block) {
            self.gain += self.size(block);
            return;
        }
        for param in func.dfg.block_params(block) {
            if let Given::Always(number) = self.given[*param] {
                self.note(*param, number);
            }
        }
        for at in self.blocks[block].0.clone() {
            self.step(func, self.steps[at]);
        }
    }

    fn step(&mut self, func: &Function, step: Step) {
        if step.data.opcode().is_branch() {
            return self.branch(func, step.inst);
        }
        let is_open = |value: Value| self.number(value).is_none();
        if step.of.is_some_and(|of| of.into_iter().all(is_open)) {
            return;
        }
        let known = |value| self.number(value).map(Known::Is);
        if let Some(number) = evaluate(func, step.data, step.ty, known) {
            self.note(func.dfg.first_result(step.inst), number);
            self.gain += 1;
        }
    }

    fn branch(&mut self, func: &Function, inst: Inst) {
        let (dfg, data) = (&func.dfg, func.dfg.insts[inst]);
        let calls = data.branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        let chosen = match data {
            InstructionData::Brif { arg, .. } => self.number(arg),
            _ => None,
        };
        self.gain += usize::from(chosen.is_some());
        let chosen = chosen.map(|truth| usize::from(truth == 0));
        for (at, call) in calls.iter().enumerate() {
            if chosen.is_none_or(|chosen| chosen == at) {
                self.arrive(func, *call);
            }
        }
    }

    fn number(&self, value: Value) -> Option<u64> {
        let constant = self.constants[value];
        self.numbers[value].or(constant.map(|number| number as u64))
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
            let number = arg.and_then(|value| self.number(value));
            self.given[param] = self.given[param].and(number);
            self.noted.push(param);
        }
    }
}

/// Returns the merge point of a block, if edges to it have different constants that matter.
fn meeting(
    func: &Function,
    flow: &Flow,
    (decisive, constants): (&EntitySet<Value>, &Constants),
    block: Block,
) -> Option<MergePoint> {
    let params = func.dfg.block_params(block);
    let at: Vec<usize> = (0..params.len())
        .filter(|&at| decisive.contains(params[at]))
        .collect();
    if at.is_empty() {
        return None;
    }
    let mut groups: BTreeMap<Group, Vec<Edge>> = BTreeMap::new();
    for from in flow.ways.pred_iter(block) {
        if flow.tree.block_dominates(block, from.block) {
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
            let known = at.iter().map(|&at| constants[(*args.get(at)?)?]);
            let group = match func.layout.is_cold(from.block) {
                true => Group::Seldom,
                false => Group::Often(known.collect()),
            };
            let branch = from.inst;
            groups
                .entry(group)
                .or_default()
                .push(Edge { branch, number });
        }
    }
    let params = at.into_iter().map(|at| params[at]).collect();
    (groups.len() > 1).then_some(MergePoint { params, groups })
}

/// Constant of each value, if it has one.
type Constants = SecondaryMap<Value, Option<i64>>;

/// Returns the constants of a function without value aliases.
fn constants(func: &Function) -> Constants {
    let mut constants = Constants::new();
    constants.resize(func.dfg.num_values());
    for inst in insts(func) {
        if let InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } = func.dfg.insts[inst]
        {
            constants[func.dfg.first_result(inst)] = Some(imm.bits());
        }
    }
    constants
}

/// Returns the values on which branches depend.
fn decisive(func: &Function) -> EntitySet<Value> {
    let conditions = insts(func).filter_map(|inst| match func.dfg.insts[inst] {
        InstructionData::Brif { arg, .. } | InstructionData::BranchTable { arg, .. } => Some(arg),
        _ => None,
    });
    sources(func, conditions.collect())
}

/// Dominator tree as lists of children.
struct Regions {
    /// All blocks in reverse postorder.
    order: Vec<Block>,
    /// Index of each block in the order.
    places: SecondaryMap<Block, usize>,
    /// Immediately dominated blocks.
    below: SecondaryMap<Block, Vec<Block>>,
}

impl Regions {
    fn of(tree: &DominatorTree) -> Regions {
        let order: Vec<Block> = tree.cfg_rpo().copied().collect();
        let (mut places, mut below) = (SecondaryMap::new(), SecondaryMap::new());
        for (place, &block) in order.iter().enumerate() {
            places[block] = place;
            if let Some(above) = tree.idom(block) {
                let below: &mut Vec<Block> = &mut below[above];
                below.push(block);
            }
        }
        Regions {
            order,
            places,
            below,
        }
    }

    /// Returns a block and all that it dominates, in reverse postorder.
    fn from(&self, first: Block) -> Vec<Block> {
        let mut region = vec![first];
        let mut at = 0;
        while let Some(&block) = region.get(at) {
            region.extend(&self.below[block]);
            at += 1;
        }
        region.sort_unstable_by_key(|&block| self.places[block]);
        region
    }
}

/// Map from blocks and values to their copies. It is reused for all copies, since its maps are as
/// long as the function.
#[derive(Default)]
struct Copies {
    blocks: SecondaryMap<Block, PackedOption<Block>>,
    values: SecondaryMap<Value, PackedOption<Value>>,
    /// Blocks and values that were copied.
    originals: (Vec<Block>, Vec<Value>),
}

impl Copies {
    fn forget(&mut self) {
        let (blocks, values) = &mut self.originals;
        for block in blocks.drain(..) {
            self.blocks[block] = None.into();
        }
        for value in values.drain(..) {
            self.values[value] = None.into();
        }
    }

    fn name_block(&mut self, block: Block, copy: Block) {
        self.blocks[block] = copy.into();
        self.originals.0.push(block);
    }

    fn name_value(&mut self, value: Value, copy: Value) {
        self.values[value] = copy.into();
        self.originals.1.push(value);
    }

    /// Copies a region, of which the first block dominates the others, and redirects these edges to
    /// the copy.
    fn make(&mut self, func: &mut Function, region: &[Block], ways: &[Edge]) {
        self.forget();
        let copies: Vec<Block> = region.iter().map(|&b| self.begin(func, b)).collect();
        let mut insts: Vec<Inst> = Vec::new();
        for (&block, &copy) in region.iter().zip(&copies) {
            self.fill(func, block, copy, &mut insts);
        }
        for copy in insts {
            self.take_copies(func, copy);
        }
        for way in ways {
            let dfg = &mut func.dfg;
            let calls = dfg.insts[way.branch]
                .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
            if let Some(call) = calls.get_mut(way.number) {
                call.set_block(copies[0], &mut dfg.value_lists);
            }
        }
    }

    /// Creates the copy of a block with its parameters only.
    fn begin(&mut self, func: &mut Function, block: Block) -> Block {
        let copy = func.dfg.make_block();
        func.layout.append_block(copy);
        if func.layout.is_cold(block) {
            func.layout.set_cold(copy);
        }
        for param in func.dfg.block_params(block).to_vec() {
            let ty = func.dfg.value_type(param);
            let copied = func.dfg.append_block_param(copy, ty);
            self.name_value(param, copied);
        }
        self.name_block(block, copy);
        copy
    }

    /// Copies a block's instructions unchanged.
    fn fill(&mut self, func: &mut Function, block: Block, copy: Block, insts: &mut Vec<Inst>) {
        let mut next = func.layout.first_inst(block);
        while let Some(inst) = next {
            let copied = func.dfg.clone_inst(inst);
            for at in 0..func.dfg.inst_results(inst).len() {
                let value = func.dfg.inst_results(inst)[at];
                self.name_value(value, func.dfg.inst_results(copied)[at]);
            }
            func.layout.append_inst(copied, copy);
            insts.push(copied);
            next = func.layout.next_inst(inst);
        }
    }

    /// Replaces operands and targets in a copied instruction by their copies.
    fn take_copies(&self, func: &mut Function, copy: Inst) {
        own_jump_table(func, copy);
        let dfg = &mut func.dfg;
        dfg.map_inst_values(copy, |value| self.values[value].expand().unwrap_or(value));
        let calls =
            dfg.insts[copy].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        for call in calls {
            if let Some(to) = self.blocks[call.block(&dfg.value_lists)].expand() {
                call.set_block(to, &mut dfg.value_lists);
            }
        }
    }
}

/// Gives a copied branch its own jump table.
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

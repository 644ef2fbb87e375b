//! Constant propagation. Finds constants, copies, and facts that a branch implies about its
//! condition.
//!
//! One walk visits the blocks in reverse postorder, and nothing is assumed about loop variables. A
//! parameter that gets the same number on all edges that can be taken is that number. One that gets
//! the same value on all of them is a copy of that value. This is conditional constant propagation
//! after Wegman and Zadeck, without the optimistic assumption for loops. Common subexpressions are
//! eliminated too, so that a fact about one computation holds for its repetition.

mod evaluate;
mod range_analysis;

use std::collections::HashMap;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value,
    ValueDef,
};
use cranelift_codegen::packed_option::PackedOption;

pub(super) use self::evaluate::{cut, evaluate, mask, signed};

use support::work::checkpoint;

use self::evaluate::{needed, without_imm};
use super::Flow;
use super::dead_code::{destinations, keep_params};

/// Maximum number of facts that are searched for a value. The chain may be as long as the function.
const MAX_FACTS: usize = 64;

/// Maximum number of earlier computations of a value that are compared with the current one.
const MAX_COMPUTED: usize = 64;

/// Maximum number of values that are examined for one branch. Conditions may have any size and
/// share subexpressions.
const MAX_LEARNT: usize = 32;

/// Fact about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Is(u64),
    NotZero,
}

/// Lattice of the arguments of a block parameter, over the visited edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Given<T> {
    #[default]
    Nothing,
    Always(T),
    Anything,
}

impl<T: Copy + PartialEq> Given<T> {
    /// Combines the arguments so far with one more.
    pub(super) fn and(self, given: Option<T>) -> Given<T> {
        match (self, given) {
            (Given::Nothing, Some(given)) => Given::Always(given),
            (Given::Always(before), Some(given)) if before == given => self,
            _ => Given::Anything,
        }
    }
}

/// Range of a value.
#[derive(Clone, Copy, Debug, Default)]
enum Number {
    /// Any number of the type.
    #[default]
    Any,
    AtMost(u64),
    Is(u64),
}

/// Known properties of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    number: Number,
    /// The value that it is a copy of.
    same: PackedOption<Value>,
    /// Head of the list of computations with this value as first operand. It is an index into
    /// [`Fold::computed`] plus one, 0 for none.
    computed: u32,
    /// True if the value is defined by a constant instruction.
    is_iconst: bool,
    /// True if any block has a fact about it.
    has_fact: bool,
}

impl Noted {
    fn constant(&self) -> Option<u64> {
        match self.number {
            Number::Is(number) => Some(number),
            _ => None,
        }
    }
}

/// Arguments of a parameter, over the visited edges.
#[derive(Clone, Copy, Debug, Default)]
struct Gets {
    number: Given<u64>,
    value: Given<Value>,
    most: u64,
}

/// Fact that holds from here on. The facts of a block are a linked list, which dominated blocks
/// extend at its front.
struct Fact {
    value: Value,
    known: Known,
    before: Option<usize>,
}

/// Properties of all values. They are reused for the next function, since maps as long as a
/// function are expensive to allocate.
#[derive(Default)]
pub(super) struct KnownValues {
    values: SecondaryMap<Value, Noted>,
    /// Arguments of the parameters, block by block.
    params: Vec<Gets>,
}

/// Folds a function without value aliases. Removes blocks that have become unreachable.
pub(super) fn fold(func: &mut Function, flow: &mut Flow, notes: &mut KnownValues) {
    flow.compute(func);
    let tree = &flow.tree;
    let blocks: Vec<Block> = tree.cfg_rpo().copied().collect();
    notes.values.clear();
    notes.values.resize(func.dfg.num_values());
    let mut fold = Fold {
        first_param: first_params(func, &blocks, &mut notes.params),
        func,
        tree,
        noted: &mut notes.values,
        gets: &mut notes.params,
        computed: Vec::new(),
        arrivals: SecondaryMap::new(),
        facts: Vec::new(),
        front: SecondaryMap::new(),
        named: HashMap::new(),
    };
    fold.walk(&blocks);
    remove_unreached(func);
    keep_params(func, |param| notes.values[param].same.is_none());
}

/// Returns the index of each block's first parameter in `gets`, which is cleared.
fn first_params(
    func: &Function,
    blocks: &[Block],
    gets: &mut Vec<Gets>,
) -> SecondaryMap<Block, usize> {
    let mut first = SecondaryMap::new();
    first.resize(func.dfg.num_blocks());
    let mut count = 0;
    for &block in blocks {
        first[block] = count;
        count += func.dfg.block_params(block).len();
    }
    gets.clear();
    gets.resize(count, Gets::default());
    first
}

fn remove_unreached(func: &mut Function) {
    let mut reached: EntitySet<Block> = EntitySet::new();
    let mut waiting: Vec<Block> = func.layout.entry_block().into_iter().collect();
    while let Some(block) = waiting.pop() {
        if reached.insert(block) {
            let last = func.layout.last_inst(block);
            waiting.extend(last.into_iter().flat_map(|inst| destinations(func, inst)));
        }
    }
    let blocks = func.layout.blocks();
    let gone: Vec<Block> = blocks.filter(|&block| !reached.contains(block)).collect();
    for block in gone {
        remove(func, block);
    }
}

fn remove(func: &mut Function, block: Block) {
    let insts: Vec<Inst> = func.layout.block_insts(block).collect();
    for inst in insts {
        func.layout.remove_inst(inst);
    }
    func.layout.remove_block(block);
}

/// Edges over which a block is reached.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// Number of edges that can be taken.
    ways: usize,
    /// Branch of the last of them.
    from: Option<Inst>,
}

/// Computation with a value as its first operand.
struct Computed {
    what: Computation,
    there: Block,
    result: Value,
    /// Next element of the list, as [`Noted::computed`].
    before: u32,
}

/// Operation and operands of an instruction, without the first operand. They determine the result
/// completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Computation {
    opcode: Opcode,
    cond: Option<IntCC>,
    ty: Type,
    /// Second operand, or the first again if there is only one.
    second: Value,
    imm: i64,
}

struct Fold<'f> {
    func: &'f mut Function,
    tree: &'f DominatorTree,
    noted: &'f mut SecondaryMap<Value, Noted>,
    /// Arguments of parameters, and the index of each block's first parameter.
    gets: &'f mut [Gets],
    first_param: SecondaryMap<Block, usize>,
    /// All computations so far.
    computed: Vec<Computed>,
    arrivals: SecondaryMap<Block, Arrival>,
    facts: Vec<Fact>,
    front: SecondaryMap<Block, Option<usize>>,
    /// Constants that were inserted into the current block.
    named: HashMap<(Type, u64), Value>,
}

impl Fold<'_> {
    fn walk(&mut self, blocks: &[Block]) {
        let loops = loop_heads(self.func, blocks);
        for (at, &block) in blocks.iter().enumerate() {
            let is_loop = loops.contains(block);
            // Only a back edge may be left that can be taken.
            if at > 0 && self.arrivals[block].ways == 0 && !is_loop {
                continue;
            }
            self.begin(block, is_loop || at == 0);
            let mut next = self.func.layout.first_inst(block);
            while let Some(inst) = next {
                // The instruction may be removed, or get constants inserted before it.
                next = self.func.layout.next_inst(inst);
                checkpoint();
                self.inst(block, inst);
            }
        }
    }

    /// Sets up the facts at the start of a block.
    fn begin(&mut self, block: Block, is_open: bool) {
        self.named.clear();
        let above = self.tree.idom(block);
        self.front[block] = above.and_then(|above| self.front[above]);
        if is_open {
            return;
        }
        let params = self.func.dfg.block_params(block).iter();
        for (&param, gets) in params.zip(&self.gets[self.first_param[block]..]) {
            let noted = &mut self.noted[param];
            match (gets.number, gets.value) {
                (Given::Always(number), _) => noted.number = Number::Is(number),
                // The chain has one step, however many blocks the value was passed through.
                (_, Given::Always(origin)) => noted.same = origin.into(),
                _ => noted.number = Number::AtMost(gets.most),
            }
        }
        let arrival = self.arrivals[block];
        if let (1, Some(branch)) = (arrival.ways, arrival.from) {
            self.learn(block, branch);
        }
    }

    /// Returns the value that another one is a copy of. It replaces the copy in all visited
    /// instructions.
    fn origin(&self, value: Value) -> Value {
        self.noted[value].same.expand().unwrap_or(value)
    }

    /// Learns facts from the branch to a block that has only one incoming edge.
    fn learn(&mut self, block: Block, branch: Inst) {
        if let Some(from) = self.func.layout.inst_block(branch) {
            self.front[block] = self.front[from];
        }
        let InstructionData::Brif { arg, blocks, .. } = self.func.dfg.insts[branch] else {
            return;
        };
        let pool = &self.func.dfg.value_lists;
        let [then, otherwise] = blocks.map(|call| call.block(pool));
        if then == otherwise {
            return;
        }
        let mut waiting = vec![(arg, block == then)];
        for _ in 0..MAX_LEARNT {
            let Some((value, truth)) = waiting.pop() else {
                break;
            };
            self.is_truth(block, value, truth, &mut waiting);
        }
    }

    /// Records that a value is zero or not, from the start of a block on. Appends operands about
    /// which this implies something to `waiting`.
    fn is_truth(
        &mut self,
        block: Block,
        value: Value,
        truth: bool,
        waiting: &mut Vec<(Value, bool)>,
    ) {
        let value = self.origin(value);
        if self.known(block, value).is_some() {
            return;
        }
        let known = match truth {
            true if self.most(value) <= 1 => Known::Is(1),
            true => Known::NotZero,
            false => Known::Is(0),
        };
        self.add_fact(block, value, known);
        let ValueDef::Result(inst, _) = self.func.dfg.value_def(value) else {
            return;
        };
        match self.func.dfg.insts[inst] {
            InstructionData::Unary {
                opcode: Opcode::Uextend,
                arg,
            } => waiting.push((arg, truth)),
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                let ty = self.func.dfg.value_type(arg);
                match (cond, truth, cut(imm.bits() as u64, ty)) {
                    (IntCC::Equal, _, 0) => waiting.push((arg, !truth)),
                    (IntCC::NotEqual, _, 0) => waiting.push((arg, truth)),
                    (IntCC::Equal, _, 1) if self.most(arg) <= 1 => waiting.push((arg, truth)),
                    (IntCC::NotEqual, _, 1) if self.most(arg) <= 1 => waiting.push((arg, !truth)),
                    (IntCC::Equal, true, number) | (IntCC::NotEqual, false, number) => {
                        let arg = self.origin(arg);
                        self.add_fact(block, arg, Known::Is(number));
                    }
                    _ => {}
                }
            }
            InstructionData::Binary {
                opcode: Opcode::Band,
                args,
            } if truth => waiting.extend(args.map(|arg| (arg, true))),
            InstructionData::Binary {
                opcode: Opcode::Bor,
                args,
            } if !truth => waiting.extend(args.map(|arg| (arg, false))),
            InstructionData::BinaryImm64 {
                opcode: Opcode::BxorImm,
                arg,
                imm,
            } if imm.bits() == 1 && self.most(arg) <= 1 => waiting.push((arg, !truth)),
            _ => {}
        }
    }

    fn add_fact(&mut self, block: Block, value: Value, known: Known) {
        let before = self.front[block];
        self.facts.push(Fact {
            value,
            known,
            before,
        });
        self.front[block] = Some(self.facts.len() - 1);
        self.noted[value].has_fact = true;
    }

    fn known(&self, block: Block, value: Value) -> Option<Known> {
        let value = self.origin(value);
        let noted = &self.noted[value];
        if let Some(number) = noted.constant() {
            return Some(Known::Is(number));
        }
        if !noted.has_fact {
            return None;
        }
        let first = self.front[block].and_then(|at| self.facts.get(at));
        let facts = std::iter::successors(first, |fact| self.facts.get(fact.before?));
        let mut facts = facts.take(MAX_FACTS);
        facts
            .find(|fact| fact.value == value)
            .map(|fact| fact.known)
    }

    fn number(&self, block: Block, value: Value) -> Option<u64> {
        match self.known(block, value) {
            Some(Known::Is(number)) => Some(number),
            _ => None,
        }
    }

    fn inst(&mut self, block: Block, inst: Inst) {
        self.name_origins(inst);
        let data = self.func.dfg.insts[inst];
        if !data.opcode().is_branch() {
            self.compute(block, inst, data);
            return self.name_constants(block, inst);
        }
        match data {
            InstructionData::Brif { arg, blocks, .. } => self.branch(block, inst, arg, blocks),
            InstructionData::BranchTable { arg, .. } if self.number(block, arg).is_some() => {
                self.switch(block, inst, arg);
            }
            _ => {}
        }
        self.name_constants(block, inst);
        self.arrive_behind(block, inst);
    }

    /// Replaces copies by their originals in an instruction.
    fn name_origins(&mut self, inst: Inst) {
        if self.takes(inst, |value| self.noted[value].same.is_some()) {
            let noted = &self.noted;
            let origin = |value: Value| noted[value].same.expand().unwrap_or(value);
            self.func.dfg.map_inst_values(inst, origin);
        }
    }

    /// Returns true if an instruction or its block arguments use such a value.
    fn takes(&self, inst: Inst, is_such: impl Fn(Value) -> bool) -> bool {
        let dfg = &self.func.dfg;
        // Most instructions are no branches. Their operands are found faster.
        match dfg.insts[inst].opcode().is_branch() {
            true => dfg.inst_values(inst).any(is_such),
            false => dfg.inst_args(inst).iter().any(|&value| is_such(value)),
        }
    }

    fn branch(&mut self, block: Block, inst: Inst, arg: Value, blocks: [BlockCall; 2]) {
        let truth = match self.known(block, arg) {
            Some(Known::Is(number)) => number != 0,
            Some(Known::NotZero) => true,
            None => return,
        };
        let [then, otherwise] = blocks;
        self.jump(inst, if truth { then } else { otherwise });
    }

    fn switch(&mut self, block: Block, inst: Inst, arg: Value) {
        let Some(number) = self.number(block, arg) else {
            return;
        };
        let InstructionData::BranchTable { table, .. } = self.func.dfg.insts[inst] else {
            return;
        };
        let table = &self.func.dfg.jump_tables[table];
        let chosen = usize::try_from(number)
            .ok()
            .and_then(|at| table.as_slice().get(at));
        let chosen = chosen.copied().unwrap_or(table.default_block());
        let chosen = chosen.deep_clone(&mut self.func.dfg.value_lists);
        self.jump(inst, chosen);
    }

    fn jump(&mut self, inst: Inst, to: BlockCall) {
        let pool = &self.func.dfg.value_lists;
        let args: Vec<BlockArg> = to.args(pool).collect();
        let to = to.block(pool);
        self.func.dfg.replace(inst).jump(to, &args);
    }

    /// Replaces an instruction by its result, if that is known.
    fn compute(&mut self, block: Block, inst: Inst, data: InstructionData) {
        let &[result] = self.func.dfg.inst_results(inst) else {
            return;
        };
        let ty = self.func.dfg.value_type(result);
        if !ty.is_int() || ty.bits() > 64 {
            return;
        }
        if data.opcode() == Opcode::Iconst {
            if let Some(number) = evaluate(self.func, data, ty, |_| None) {
                self.is_iconst(result, number);
            }
            return;
        }
        let most = self.most_of_result(data, ty);
        if most < mask(ty) {
            self.noted[result].number = Number::AtMost(most);
        }
        if let InstructionData::BinaryImm64 {
            opcode: Opcode::BandImm,
            arg,
            imm,
        } = data
        {
            if let Some(before) = self.complemented_twice(arg, imm.bits()) {
                self.func.dfg.replace(inst).band_imm(before, imm.bits());
                return self.compute(block, inst, self.func.dfg.insts[inst]);
            }
            if imm.bits().trailing_ones() >= needed(self.most(arg))
                && self.number(block, arg).is_none()
            {
                return self.is_same(inst, result, arg);
            }
        }
        if let Some(before) = self.shifted_back(data, ty) {
            return self.is_same(inst, result, before);
        }
        if let InstructionData::Ternary {
            opcode: Opcode::Select,
            args: [cond, yes, no],
        } = data
            && let Some(known) = self.known(block, cond)
        {
            let chosen = if known == Known::Is(0) { no } else { yes };
            if self.number(block, chosen).is_none() {
                return self.is_same(inst, result, chosen);
            }
        }
        let known = |value| self.known(block, value);
        let number = evaluate(self.func, data, ty, known).or_else(|| self.compared(data));
        if let Some(number) = number {
            return self.is_constant(inst, result, number);
        }
        if let Some(computation) = self.computation(data, ty) {
            self.compute_once(block, inst, result, computation);
        }
    }

    /// Returns the operand of a left shift if the instruction undoes it by a right shift of the
    /// same distance and no bit is lost.
    fn shifted_back(&self, data: InstructionData, ty: Type) -> Option<Value> {
        let InstructionData::BinaryImm64 {
            opcode: Opcode::UshrImm,
            arg,
            imm: by,
        } = data
        else {
            return None;
        };
        let ValueDef::Result(inst, _) = self.func.dfg.value_def(self.origin(arg)) else {
            return None;
        };
        let InstructionData::BinaryImm64 {
            opcode: Opcode::IshlImm,
            arg: before,
            imm,
        } = self.func.dfg.insts[inst]
        else {
            return None;
        };
        let stays = i64::from(ty.bits() - needed(self.most(before)));
        (imm == by && (0..=stays).contains(&by.bits())).then_some(before)
    }

    /// Returns the first operand of an instruction, and its computation, if it has no other inputs.
    fn computation(&self, data: InstructionData, ty: Type) -> Option<(Value, Computation)> {
        // Each of the other operands may have been loaded by an instruction of its own.
        if let Some((cond, arg, number)) = self.comparison(data) {
            let first = self.origin(arg);
            let computation = Computation {
                opcode: Opcode::IcmpImm,
                cond: Some(cond),
                ty,
                second: first,
                imm: number as i64,
            };
            return Some((first, computation));
        }
        let (cond, [first, second], imm) = match data {
            InstructionData::Unary {
                opcode: Opcode::Uextend | Opcode::Ireduce | Opcode::Bnot | Opcode::Bswap,
                arg,
            } => (None, [arg, arg], 0),
            InstructionData::BinaryImm64 { opcode, arg, imm } => {
                without_imm(opcode)?;
                (None, [arg, arg], imm.bits())
            }
            InstructionData::Binary {
                opcode:
                    Opcode::Iadd
                    | Opcode::Isub
                    | Opcode::Band
                    | Opcode::Bor
                    | Opcode::Bxor
                    | Opcode::Ishl,
                args,
            } => (None, args, 0),
            InstructionData::IntCompare { cond, args, .. } => (Some(cond), args, 0),
            _ => return None,
        };
        let computation = Computation {
            opcode: data.opcode(),
            cond,
            ty,
            second: self.origin(second),
            imm,
        };
        Some((self.origin(first), computation))
    }

    /// Replaces an instruction by an earlier equal computation in a dominating block.
    fn compute_once(
        &mut self,
        block: Block,
        inst: Inst,
        result: Value,
        (first, computation): (Value, Computation),
    ) {
        let last = self.noted[first].computed;
        let computed = |count: u32| self.computed.get((count as usize).checked_sub(1)?);
        let all = std::iter::successors(computed(last), |one| computed(one.before));
        let mut reused = all
            .take(MAX_COMPUTED)
            .filter(|one| one.what == computation && self.tree.block_dominates(one.there, block));
        if let Some(one) = reused.next() {
            return self.is_same(inst, result, one.result);
        }
        self.computed.push(Computed {
            what: computation,
            there: block,
            result,
            before: last,
        });
        self.noted[first].computed = self.computed.len() as u32;
    }

    fn is_constant(&mut self, inst: Inst, result: Value, number: u64) {
        let ty = self.func.dfg.value_type(result);
        self.func.dfg.replace(inst).iconst(ty, signed(number, ty));
        self.is_iconst(result, number);
    }

    /// Records that a value is defined by a constant instruction.
    fn is_iconst(&mut self, value: Value, number: u64) {
        let noted = &mut self.noted[value];
        (noted.number, noted.is_iconst) = (Number::Is(number), true);
    }

    fn is_same(&mut self, inst: Inst, result: Value, other: Value) {
        self.noted[result].same = self.origin(other).into();
        self.func.layout.remove_inst(inst);
    }

    /// Replaces operands by constants where they are known.
    fn name_constants(&mut self, block: Block, inst: Inst) {
        if self.func.layout.inst_block(inst).is_none() {
            return;
        }
        let is_constant = |value: Value| {
            let noted = &self.noted[value];
            let is_any = noted.constant().is_some() || noted.has_fact;
            is_any && !noted.is_iconst && self.number(block, value).is_some()
        };
        if !self.takes(inst, is_constant) {
            return;
        }
        let mut values: Vec<Value> = self.func.dfg.inst_values(inst).collect();
        values.sort_unstable();
        values.dedup();
        values.retain(|&value| !self.noted[value].is_iconst);
        let named: Vec<(Value, Value)> = values
            .into_iter()
            .filter_map(|value| Some((value, self.name_constant(block, inst, value)?)))
            .collect();
        self.func.dfg.map_inst_values(inst, |value| {
            let name = named.binary_search_by_key(&value, |(of, _)| *of);
            name.map_or(value, |at| named[at].1)
        });
    }

    /// Returns a constant instruction for a known value: one earlier in the block, or a new one
    /// before this instruction.
    fn name_constant(&mut self, block: Block, inst: Inst, value: Value) -> Option<Value> {
        let number = self.number(block, value)?;
        let ty = self.func.dfg.value_type(value);
        if let Some(&constant) = self.named.get(&(ty, number)) {
            return Some(constant);
        }
        let mut at = FuncCursor::new(self.func).at_inst(inst);
        let constant = at.ins().iconst(ty, signed(number, ty));
        self.is_iconst(constant, number);
        self.named.insert((ty, number), constant);
        Some(constant)
    }

    /// Records the edges from a branch to its successors, with their arguments.
    fn arrive_behind(&mut self, block: Block, inst: Inst) {
        let dfg = &self.func.dfg;
        let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for call in calls {
            let to = call.block(&dfg.value_lists);
            let arrival = &mut self.arrivals[to];
            arrival.ways += 1;
            arrival.from = Some(inst);
            let args = call.args(&dfg.value_lists);
            let gets = self.first_param[to]..;
            for (at, arg) in gets.take(dfg.block_params(to).len()).zip(args) {
                let value = arg.as_value();
                let number = value.and_then(|value| self.number(block, value));
                let origin = value.map(|value| self.origin(value));
                let most = match (number, origin) {
                    (Some(number), _) => number,
                    (None, Some(origin)) => self.most(origin),
                    (None, None) => u64::MAX,
                };
                let gets = &mut self.gets[at];
                gets.number = gets.number.and(number);
                gets.value = gets.value.and(origin);
                gets.most = gets.most.max(most);
            }
        }
    }
}

/// Returns the targets of back edges.
fn loop_heads(func: &Function, blocks: &[Block]) -> EntitySet<Block> {
    let mut before: EntitySet<Block> = EntitySet::new();
    let mut heads = EntitySet::new();
    for &block in blocks {
        before.insert(block);
        let last = func.layout.last_inst(block);
        let ways = last.into_iter().flat_map(|inst| destinations(func, inst));
        heads.extend(ways.filter(|&to| before.contains(to)));
    }
    heads
}

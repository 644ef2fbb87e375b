//! Random tests: functions have the same effects before and after optimization. A small
//! interpreter, which shares no code with the optimizer, runs both.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, BlockArg, BlockCall, Function, Inst, InstBuilder,
    InstructionData, JumpTableData, MemFlags, Opcode, SigRef, Signature, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;
use support::rng::Rng;

use super::code_sinking::sink;
use super::peephole::reduce;
use super::spill_around_cold_calls::carry;
use super::tests::{check, flow_of, function, safe};
use super::{PASS_GROWTH, simplify};
use crate::helpers::Helper;

/// Number of functions, which take about two seconds.
const FUNCTIONS: u64 = 2500;
/// Number of memory contents that each function is run with.
const MEMORIES: usize = 8;
/// Number of words that a function reads, from its pointer on. Each word is in one memory region.
/// It also stores there, and in words after them that it never reads.
const WORDS: usize = 8;
const POINTER: u64 = 0x1000;
/// Address of the stack.
const STACK: u64 = 1 << 40;
/// Called helpers: one that does not change the packet's bytes, and one that does.
const CALLED: [Helper; 2] = [Helper::Find, Helper::FinishDeparse];
/// Memory regions. The third is the packet's bytes.
const REGIONS: [Option<AliasRegion>; 4] = [
    None,
    Some(AliasRegion::Heap),
    Some(AliasRegion::Table),
    Some(AliasRegion::Vmctx),
];
const BYTES: usize = 2;
/// Maximum number of blocks that a run executes, since loops may be infinite.
const MAX_BLOCKS: usize = 120;

const CONDITIONS: [IntCC; 10] = [
    IntCC::Equal,
    IntCC::NotEqual,
    IntCC::SignedLessThan,
    IntCC::SignedGreaterThanOrEqual,
    IntCC::SignedGreaterThan,
    IntCC::SignedLessThanOrEqual,
    IntCC::UnsignedLessThan,
    IntCC::UnsignedGreaterThanOrEqual,
    IntCC::UnsignedGreaterThan,
    IntCC::UnsignedLessThanOrEqual,
];
/// Numbers at which masks and comparisons of some width change their result.
const NUMBERS: [i64; 12] = [
    0,
    1,
    2,
    3,
    7,
    0xf0,
    0xff,
    0x100,
    0xff00,
    0xffff,
    0xffff_ffff,
    -1,
];
/// Shift distances. Some are taken modulo the width.
const DISTANCES: [i64; 7] = [0, 1, 8, 32, 63, 64, 65];

type Memory = [u64; WORDS];

/// Returns the flags of an access to a word.
fn in_word(word: usize) -> MemFlags {
    safe().with_alias_region(REGIONS[word % REGIONS.len()])
}

/// Random numbers and memories.
struct Random(Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Rng::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.0.one_in(count)
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a memory with mostly small numbers, which conditions of random functions
    /// distinguish.
    fn memory(&mut self) -> Memory {
        [(); WORDS].map(|()| match self.below(5) {
            0 => 0,
            1 => 1,
            2 => self.next() % 4,
            3 => self.next() % 300,
            _ => self.next(),
        })
    }
}

/// Generator of functions. Blocks compute variables from memory and from other variables, store
/// some, and branch.
struct Maker<'a, 'f> {
    b: &'a mut FunctionBuilder<'f>,
    random: &'a mut Random,
    pointer: Value,
    variables: Vec<Variable>,
    /// All blocks but the first, each with its number of explicit parameters. The parameters of
    /// variables are not counted.
    blocks: Vec<(Block, usize)>,
    /// True if branches may go back to any block. Few of these loops have a single entry.
    goes_back: bool,
    /// Signature of called functions: a pointer and a number to a number.
    called: SigRef,
}

fn random_function(random: &mut Random) -> Function {
    function(|b, pointer| {
        b.func.signature.returns.push(AbiParam::new(I64));
        let blocks = (0..2 + random.below(12)).map(|_| {
            let (block, given) = (b.create_block(), random.below(3));
            if random.one_in(3) {
                b.set_cold_block(block);
            }
            (0..given).for_each(|_| {
                b.append_block_param(block, I64);
            });
            (block, given)
        });
        let blocks = blocks.collect();
        let variables = (0..5).map(|_| b.declare_var(I64)).collect();
        let goes_back = random.one_in(3);
        let mut called = Signature::new(CallConv::SystemV);
        called.params.extend([AbiParam::new(I64); 2]);
        called.returns.push(AbiParam::new(I64));
        let called = b.import_signature(called);
        let mut maker = Maker {
            b,
            random,
            pointer,
            variables,
            blocks,
            goes_back,
            called,
        };
        maker.fill();
    })
}

impl Maker<'_, '_> {
    fn fill(&mut self) {
        for (at, variable) in self.variables.clone().into_iter().enumerate() {
            // Some start as constants.
            let first = match at {
                0..3 => self
                    .b
                    .ins()
                    .load(I64, in_word(at), self.pointer, 8 * at as i32),
                _ => self.b.ins().iconst(I64, at as i64 - 3),
            };
            self.b.def_var(variable, first);
        }
        self.block(0);
        for (at, (block, _)) in self.blocks.clone().into_iter().enumerate() {
            self.b.switch_to_block(block);
            for param in self.b.block_params(block).to_vec() {
                self.assign(param);
            }
            self.block(at + 1);
        }
    }

    /// Fills the block with this index, where 0 is the entry. It branches to blocks from this index
    /// on in the list of the others.
    fn block(&mut self, number: usize) {
        for _ in 0..self.random.below(4) {
            let value = self.value(3);
            self.assign(value);
            match self.random.below(8) {
                0 => self.call(),
                1 => self.overwrite(),
                _ => {}
            }
        }
        if !self.random.one_in(3) {
            let value = self.value(1);
            // The offset identifies the block.
            let at = 8 * (WORDS + number) as i32;
            self.b.ins().store(safe(), value, self.pointer, at);
        }
        let is_last = number == self.blocks.len();
        if is_last || (number > 0 && self.random.one_in(12)) {
            let value = self.value(1);
            self.b.ins().return_(&[value]);
        } else {
            self.branch(number);
        }
    }

    fn call(&mut self) {
        let helper = self.random.pick(&CALLED);
        let callee = self.b.ins().iconst(I64, helper.address() as i64);
        let given = [self.pointer, self.value(1)];
        let call = self.b.ins().call_indirect(self.called, callee, &given);
        let result = self.b.inst_results(call)[0];
        self.assign(result);
    }

    /// Writes a word that is also read.
    fn overwrite(&mut self) {
        let (word, value) = (self.random.below(WORDS), self.value(1));
        let at = 8 * word as i32;
        self.b.ins().store(in_word(word), value, self.pointer, at);
    }

    fn branch(&mut self, number: usize) {
        match self.random.below(8) {
            0 | 1 => {
                let (to, args) = self.target(number);
                self.b.ins().jump(to, &args);
            }
            2 => self.table(number),
            kind => {
                let cond = match kind {
                    3..6 => self.condition(2),
                    6 => self.kept_value(),
                    _ => self.value(2),
                };
                let (then, given) = self.target(number);
                let (otherwise, other) = self.target(number);
                self.b.ins().brif(cond, then, &given, otherwise, &other);
            }
        }
    }

    fn table(&mut self, number: usize) {
        let value = self.value(1);
        let index = self.b.ins().ireduce(I32, value);
        let calls = [(); 3].map(|()| {
            let (to, args) = self.target(number);
            BlockCall::new(to, args, &mut self.b.func.dfg.value_lists)
        });
        let table = JumpTableData::new(calls[0], &calls[1..]);
        let table = self.b.create_jump_table(table);
        self.b.ins().br_table(index, table);
    }

    /// Returns a target block and its arguments. It is often one of the next blocks, so that
    /// several edges lead there.
    fn target(&mut self, number: usize) -> (Block, Vec<BlockArg>) {
        let is_back = self.goes_back && self.random.one_in(3);
        let among = &self.blocks[if is_back { 0 } else { number }..];
        let near = if self.random.one_in(2) {
            3
        } else {
            among.len()
        };
        let (block, given) = self.random.pick(&among[..near.min(among.len())]);
        let args = (0..given).map(|_| {
            let depth = usize::from(self.random.one_in(3));
            BlockArg::Value(self.value(depth))
        });
        (block, args.collect())
    }

    fn assign(&mut self, value: Value) {
        let variable = self.random.pick(&self.variables);
        self.b.def_var(variable, value);
    }

    /// Returns a value that is computed in up to `depth` steps.
    fn value(&mut self, depth: usize) -> Value {
        let Some(less) = depth.checked_sub(1) else {
            return self.simple();
        };
        match self.random.below(10) {
            0 => self.simple(),
            1 => self.loaded(),
            9 => {
                let ty = self.random.pick(&[I16, I32, I64]);
                let swapped = self.swapped(less, ty);
                self.swap(swapped, ty)
            }
            2 | 3 => self.with_number(less),
            4 => self.shifted(less),
            5 => {
                let bit = self.condition(less);
                self.b.ins().uextend(I64, bit)
            }
            6 => self.chosen(less),
            7 => self.narrowed(less),
            _ => self.combined(less),
        }
    }

    /// Masks a variable and returns the result. It is used again after the branch that depends on
    /// it.
    fn kept_value(&mut self) -> Value {
        let variable = self.random.pick(&self.variables);
        let value = self.b.use_var(variable);
        let masked = self.b.ins().band_imm(value, 3);
        self.b.def_var(variable, masked);
        match self.random.one_in(2) {
            true => masked,
            false => self.b.ins().bxor_imm(masked, 1),
        }
    }

    fn simple(&mut self) -> Value {
        if self.random.one_in(3) {
            let number = self.random.pick(&NUMBERS);
            return self.b.ins().iconst(I64, number);
        }
        let variable = self.random.pick(&self.variables);
        self.b.use_var(variable)
    }

    fn loaded(&mut self) -> Value {
        let word = self.random.below(WORDS);
        let (from, at) = match self.random.one_in(3) {
            true => (self.b.ins().iadd_imm(self.pointer, 8 * word as i64), 0),
            false => (self.pointer, 8 * word as i32),
        };
        let ty = self.random.pick(&[I8, I16, I32, I64]);
        let (ins, flags) = (self.b.ins(), in_word(word));
        let loaded = match ty {
            I8 => ins.uload8(I64, flags, from, at),
            I16 => ins.uload16(I64, flags, from, at),
            I32 => ins.uload32(flags, from, at),
            _ => ins.load(I64, flags, from, at),
        };
        self.perhaps_masked(loaded, ty)
    }

    /// Returns the value, or masks it to the width of a type or to one bit less.
    fn perhaps_masked(&mut self, value: Value, ty: Type) -> Value {
        let mask = cut(u64::MAX, ty) as i64;
        match self.random.below(4) {
            0 => self.b.ins().band_imm(value, mask),
            1 => self.b.ins().band_imm(value, (mask as u64 >> 1) as i64),
            _ => value,
        }
    }

    fn with_number(&mut self, depth: usize) -> Value {
        let value = self.value(depth);
        let number = self.random.pick(&NUMBERS);
        let kind = self.random.below(9);
        if kind == 8 {
            return self.complemented_twice(value, number);
        }
        let ins = self.b.ins();
        match kind {
            0 => ins.iadd_imm(value, number),
            1 => ins.imul_imm(value, number),
            2 => ins.bor_imm(value, number),
            3 => ins.bxor_imm(value, number),
            _ => ins.band_imm(value, number),
        }
    }

    /// Complements and masks a value twice, with equal or different masks.
    fn complemented_twice(&mut self, value: Value, mask: i64) -> Value {
        let again = match self.random.one_in(3) {
            true => self.random.pick(&NUMBERS),
            false => mask,
        };
        let complement = self.b.ins().bnot(value);
        let masked = self.b.ins().band_imm(complement, mask);
        let complement = self.b.ins().bnot(masked);
        self.b.ins().band_imm(complement, again)
    }

    fn shifted(&mut self, depth: usize) -> Value {
        let value = self.value(depth);
        let by = self.random.pick(&DISTANCES);
        let kind = self.random.below(4);
        let ins = self.b.ins();
        match kind {
            0 => ins.ishl_imm(value, by),
            1 => ins.ushr_imm(value, by),
            2 => ins.sshr_imm(value, by),
            // Shifts left and then right, by equal or different distances. Equal distances leave
            // narrow values unchanged.
            _ => {
                let mask = self.random.pick(&NUMBERS);
                let value = self.b.ins().band_imm(value, mask);
                let up = self.b.ins().ishl_imm(value, by);
                let back = match self.random.one_in(4) {
                    true => self.random.pick(&DISTANCES),
                    false => by,
                };
                self.b.ins().ushr_imm(up, back)
            }
        }
    }

    fn chosen(&mut self, depth: usize) -> Value {
        let [yes, no] = [(); 2].map(|()| self.value(depth));
        // The condition may be the selected value itself.
        let cond = if self.random.one_in(3) {
            yes
        } else {
            self.condition(depth)
        };
        self.b.ins().select(cond, yes, no)
    }

    /// Returns a value that was converted through a narrower type.
    fn narrowed(&mut self, depth: usize) -> Value {
        let value = self.value(depth);
        let ty = self.random.pick(&[I8, I16, I32]);
        let narrow = self.b.ins().ireduce(ty, value);
        let mask = self.random.pick(&[15, -1]);
        let (number, by) = (self.random.pick(&NUMBERS), self.random.pick(&DISTANCES));
        let number = signed(number as u64, ty);
        let kind = self.random.below(10);
        let ins = self.b.ins();
        let narrow = match kind {
            0 => ins.bnot(narrow),
            1 if ty != I8 => ins.bswap(narrow),
            2 => ins.band_imm(narrow, mask),
            3 => ins.iadd_imm(narrow, number),
            4 => ins.ishl_imm(narrow, by),
            5 => ins.ushr_imm(narrow, by),
            6 => ins.iadd(narrow, narrow),
            7 => {
                let cond = self.random.pick(&CONDITIONS);
                let bit = self.b.ins().icmp_imm(cond, narrow, number);
                return self.b.ins().uextend(I64, bit);
            }
            _ => narrow,
        };
        if self.random.one_in(5) {
            return self.b.ins().sextend(I64, narrow);
        }
        let wide = self.b.ins().uextend(I64, narrow);
        self.perhaps_masked(wide, ty)
    }

    fn combined(&mut self, depth: usize) -> Value {
        let [a, b] = [(); 2].map(|()| self.value(depth));
        let kind = self.random.below(10);
        let ins = self.b.ins();
        match kind {
            0 => ins.iadd(a, b),
            1 => ins.isub(a, b),
            2 => ins.imul(a, b),
            3 => ins.band(a, b),
            4 => ins.bor(a, b),
            5 => ins.bxor(a, b),
            6 => ins.ishl(a, b),
            7 => ins.ushr(a, b),
            8 => ins.umin(a, b),
            _ => ins.umax(a, b),
        }
    }

    /// Returns the low bits of a value, as many as the type has, with their bytes swapped.
    fn swap(&mut self, value: Value, ty: Type) -> Value {
        if ty == I64 {
            return self.b.ins().bswap(value);
        }
        let narrow = self.b.ins().ireduce(ty, value);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// Returns a byte-swapped value, possibly with some bits inverted or removed.
    fn swapped(&mut self, depth: usize, ty: Type) -> Value {
        let value = self.value(depth);
        let swapped = self.swap(value, ty);
        let number = self.random.pick(&NUMBERS);
        match self.random.below(5) {
            0 => self.b.ins().bxor_imm(swapped, number),
            1 => self.b.ins().bnot(swapped),
            2 => {
                let narrow = self.b.ins().ireduce(I8, swapped);
                self.b.ins().uextend(I64, narrow)
            }
            _ => self.perhaps_masked(swapped, ty),
        }
    }

    /// Compares a byte-swapped value with a number or with another one for equality.
    fn condition_on_swapped(&mut self, depth: usize) -> Value {
        let ty = self.random.pick(&[I16, I32, I64]);
        let cond = self.random.pick(&CONDITIONS[..2]);
        let one = self.swapped(depth, ty);
        if self.random.one_in(2) {
            let other = self.swapped(depth, ty);
            return self.b.ins().icmp(cond, one, other);
        }
        let number = self
            .random
            .pick(&[0, 1, 0xff, 0x100, 0xff00, 0x100 << 40, -1]);
        self.b.ins().icmp_imm(cond, one, number)
    }

    /// Combines comparisons of two parts of a value, which may overlap.
    fn condition_on_parts(&mut self, depth: usize) -> Value {
        let value = match self.random.one_in(2) {
            true => self.loaded(),
            false => self.value(depth),
        };
        let cond = self.random.pick(&CONDITIONS[..2]);
        let parts = [(); 2].map(|()| {
            let value = match self.random.one_in(4) {
                true => self.loaded(),
                false => value,
            };
            let by = self.random.pick(&[0, 0, 1, 4, 8, 60]);
            let shifted = self.b.ins().ushr_imm(value, by);
            let part = match self.random.pick(&[
                1,
                3,
                15,
                0xf0,
                0xff,
                0xff00,
                0xffff,
                0xffff_ffff,
                -256,
                i64::MIN,
                0,
            ]) {
                0 => shifted,
                mask => self.b.ins().band_imm(shifted, mask),
            };
            let number = self.random.pick(&[0, 0, 1, 2, 15, 16, 0xff, 0x100, -1]);
            self.b.ins().icmp_imm(cond, part, number)
        });
        match self.random.one_in(2) {
            true => self.b.ins().band(parts[0], parts[1]),
            false => self.b.ins().bor(parts[0], parts[1]),
        }
    }

    /// Returns a condition of type `I8`.
    fn condition(&mut self, depth: usize) -> Value {
        let less = depth.saturating_sub(1);
        let kind = if depth == 0 { 0 } else { self.random.below(8) };
        match kind {
            6 => self.condition_on_parts(less),
            7 => self.condition_on_swapped(less),
            0 | 1 => {
                let (value, cond) = (self.value(less), self.random.pick(&CONDITIONS));
                let number = self.random.pick(&NUMBERS);
                self.b.ins().icmp_imm(cond, value, number)
            }
            2 => {
                let [a, b] = [(); 2].map(|()| self.value(less));
                let cond = self.random.pick(&CONDITIONS);
                self.b.ins().icmp(cond, a, b)
            }
            3 => {
                let cond = self.condition(less);
                self.b.ins().bxor_imm(cond, 1)
            }
            kind => {
                let [a, b] = [(); 2].map(|()| self.condition(less));
                match kind {
                    4 => self.b.ins().band(a, b),
                    _ => self.b.ins().bor(a, b),
                }
            }
        }
    }
}

/// Effects of a run.
#[derive(Debug, Default, PartialEq)]
struct Did {
    /// Stores as offset and value, and calls as callee and argument, in order.
    stored: Vec<(u64, u64)>,
    /// Returned value, if the run has ended.
    returned: Option<u64>,
}

/// Interpreter state of a run.
struct Run<'f> {
    func: &'f Function,
    memory: Memory,
    stack: HashMap<u64, u64>,
    /// Current values, cut to the bits of their types.
    values: SecondaryMap<Value, Option<u64>>,
    did: Did,
}

fn run(func: &Function, memory: &Memory) -> Did {
    let mut run = Run {
        func,
        memory: *memory,
        stack: HashMap::new(),
        values: SecondaryMap::new(),
        did: Did::default(),
    };
    let entry = func.layout.entry_block().expect("there is code");
    run.values[func.dfg.block_params(entry)[0]] = Some(POINTER);
    let mut next = Some(entry);
    for _ in 0..MAX_BLOCKS {
        let Some(block) = next else { break };
        next = run.block(block);
    }
    run.did
}

impl Run<'_> {
    /// Runs a block. Returns its successor, or none after a return.
    fn block(&mut self, block: Block) -> Option<Block> {
        for inst in self.func.layout.block_insts(block) {
            if self.func.dfg.insts[inst].opcode().is_terminator() {
                let call = self.leave(inst)?;
                return Some(self.arrive(call));
            }
            self.inst(inst);
        }
        panic!("{block} has no end: {}", self.func)
    }

    fn inst(&mut self, inst: Inst) {
        let dfg = &self.func.dfg;
        let data = dfg.insts[inst];
        if let InstructionData::Store {
            opcode,
            args,
            offset,
            ..
        } = data
        {
            let (value, at) = (self.of(args[0]), self.place(args[1], offset.into()));
            let value = match opcode {
                Opcode::Istore32 => cut(value, I32),
                _ => value,
            };
            return self.store(at, value);
        }
        if let InstructionData::CallIndirect { .. } = data {
            let args: Vec<u64> = dfg
                .inst_args(inst)
                .iter()
                .map(|&arg| self.of(arg))
                .collect();
            let returned = self.call(args[0], args[2]);
            self.values[dfg.inst_results(inst)[0]] = Some(returned);
            return;
        }
        if let Some(&result) = dfg.inst_results(inst).first() {
            let ty = dfg.value_type(result);
            self.values[result] = Some(cut(self.computed(data, ty), ty));
        }
    }

    fn store(&mut self, at: u64, value: u64) {
        if at >= STACK {
            self.stack.insert(at, value);
            return;
        }
        self.did.stored.push((at, value));
        if let Some(word) = self.memory.get_mut(at as usize / 8) {
            *word = value;
        }
    }

    /// Performs a call that overwrites all memory that the callee may write.
    fn call(&mut self, callee: u64, given: u64) -> u64 {
        self.did.stored.push((callee, given));
        let mut random = Random::new(callee ^ given);
        for (at, word) in self.memory.iter_mut().enumerate() {
            let is_bytes = at % REGIONS.len() == BYTES;
            if !(is_bytes && Helper::leaves_bytes(callee)) {
                *word = random.next() % 300;
            }
        }
        random.next() % 4
    }

    /// Returns the target of a terminator, or none after a return.
    fn leave(&mut self, inst: Inst) -> Option<BlockCall> {
        let dfg = &self.func.dfg;
        match dfg.insts[inst] {
            InstructionData::Jump { destination, .. } => Some(destination),
            InstructionData::Brif { arg, blocks, .. } => {
                let [then, otherwise] = blocks;
                Some(if self.of(arg) == 0 { otherwise } else { then })
            }
            InstructionData::BranchTable { arg, table, .. } => {
                let (table, index) = (&dfg.jump_tables[table], self.of(arg) as usize);
                let chosen = table.as_slice().get(index).copied();
                Some(chosen.unwrap_or(table.default_block()))
            }
            _ => {
                self.did.returned = Some(self.of(dfg.inst_args(inst)[0]));
                None
            }
        }
    }

    /// Assigns a block's parameters in parallel, since one may get the old value of another.
    fn arrive(&mut self, call: BlockCall) -> Block {
        let dfg = &self.func.dfg;
        let block = call.block(&dfg.value_lists);
        let args = call.args(&dfg.value_lists);
        let args = args.map(|arg| self.of(arg.as_value().expect("an argument is a value")));
        let args: Vec<u64> = args.collect();
        for (&param, arg) in dfg.block_params(block).iter().zip(args) {
            self.values[param] = Some(arg);
        }
        block
    }

    fn of(&self, value: Value) -> u64 {
        let value = self.func.dfg.resolve_aliases(value);
        self.values[value].expect("it is computed before")
    }

    /// Returns the offset of an address from the function's pointer, or a stack address.
    fn place(&self, base: Value, offset: i32) -> u64 {
        let at = self.of(base).wrapping_add_signed(offset.into());
        match at {
            STACK.. => at,
            _ => at.wrapping_sub(POINTER),
        }
    }

    /// Returns the result of an instruction. Bits beyond the type are not cut.
    fn computed(&self, data: InstructionData, ty: Type) -> u64 {
        let of_type = |value| (self.of(value), self.func.dfg.value_type(value));
        match data {
            InstructionData::UnaryImm { imm, .. } => imm.bits() as u64,
            InstructionData::Load {
                opcode,
                arg,
                offset,
                ..
            } => self.load(opcode, self.place(arg, offset.into())),
            InstructionData::Unary { opcode, arg } => unary(opcode, of_type(arg), ty),
            InstructionData::BinaryImm64 { opcode, arg, imm } => {
                binary(opcode, self.of(arg), imm.bits() as u64, ty)
            }
            InstructionData::Binary { opcode, args } => {
                let [a, b] = args.map(|arg| self.of(arg));
                binary(opcode, a, b, ty)
            }
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                let (a, from) = of_type(arg);
                compare(cond, a, imm.bits() as u64, from).into()
            }
            InstructionData::IntCompare { cond, args, .. } => {
                let [(a, from), (b, _)] = args.map(of_type);
                compare(cond, a, b, from).into()
            }
            InstructionData::Ternary { args, .. } => {
                let [cond, yes, no] = args.map(|arg| self.of(arg));
                if cond == 0 { no } else { yes }
            }
            InstructionData::StackLoad {
                opcode: Opcode::StackAddr,
                stack_slot,
                offset,
            } => {
                let slot = STACK + (u64::from(stack_slot.as_u32()) << 20);
                slot.wrapping_add_signed(i32::from(offset).into())
            }
            other => panic!("{other:?} is not made"),
        }
    }

    fn load(&self, opcode: Opcode, at: u64) -> u64 {
        if at >= STACK {
            return self.stack[&at];
        }
        let word = self.memory[at as usize / 8];
        match opcode {
            Opcode::Uload8 => cut(word, I8),
            Opcode::Uload16 => cut(word, I16),
            Opcode::Uload32 => cut(word, I32),
            _ => word,
        }
    }
}

fn cut(number: u64, ty: Type) -> u64 {
    number & (u64::MAX >> (64 - ty.bits()))
}

fn signed(number: u64, ty: Type) -> i64 {
    let unused = 64 - ty.bits();
    (number << unused) as i64 >> unused
}

fn unary(opcode: Opcode, (number, from): (u64, Type), to: Type) -> u64 {
    match opcode {
        Opcode::Uextend | Opcode::Ireduce => number,
        Opcode::Sextend => signed(number, from) as u64,
        Opcode::Bnot => !number,
        Opcode::Bswap => number.swap_bytes() >> (64 - to.bits()),
        other => panic!("{other} is not made"),
    }
}

fn binary(opcode: Opcode, a: u64, b: u64, ty: Type) -> u64 {
    let by = b % u64::from(ty.bits());
    match opcode {
        Opcode::Iadd | Opcode::IaddImm => a.wrapping_add(b),
        Opcode::Isub => a.wrapping_sub(b),
        Opcode::Imul | Opcode::ImulImm => a.wrapping_mul(b),
        Opcode::Band | Opcode::BandImm => a & b,
        Opcode::Bor | Opcode::BorImm => a | b,
        Opcode::Bxor | Opcode::BxorImm => a ^ b,
        Opcode::Ishl | Opcode::IshlImm => a << by,
        Opcode::Ushr | Opcode::UshrImm => a >> by,
        Opcode::SshrImm => (signed(a, ty) >> by) as u64,
        Opcode::Umin => a.min(b),
        Opcode::Umax => a.max(b),
        other => panic!("{other} is not made"),
    }
}

fn compare(cond: IntCC, a: u64, b: u64, ty: Type) -> bool {
    let (a, b) = (cut(a, ty), cut(b, ty));
    let (x, y) = (signed(a, ty), signed(b, ty));
    match cond {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => x < y,
        IntCC::SignedGreaterThanOrEqual => x >= y,
        IntCC::SignedGreaterThan => x > y,
        IntCC::SignedLessThanOrEqual => x <= y,
        IntCC::UnsignedLessThan => a < b,
        IntCC::UnsignedGreaterThanOrEqual => a >= b,
        IntCC::UnsignedGreaterThan => a > b,
        IntCC::UnsignedLessThanOrEqual => a <= b,
    }
}

/// Asserts that the optimized function has the same effects on a memory. Returns true if the
/// original has ended. Otherwise the optimized one has made at least as much progress, since it
/// executes no more blocks.
fn does_the_same(before: &Function, behind: &Function, memory: &Memory) -> bool {
    let [expected, did] = [before, behind].map(|func| run(func, memory));
    let told = || format!("{memory:?}\n{before}\nsimplified:\n{behind}");
    if expected.returned.is_some() {
        assert_eq!(did, expected, "{}", told());
        return true;
    }
    let begin = did.stored.get(..expected.stored.len());
    assert_eq!(begin, Some(&expected.stored[..]), "{}", told());
    false
}

#[test]
fn random_functions_store_and_return_the_same_when_they_are_simplified() {
    all_do_the_same(|func| {
        simplify(func, PASS_GROWTH);
    });
}

/// Tests the pass on code that no other pass has changed.
#[test]
fn random_functions_store_and_return_the_same_when_they_are_reduced() {
    all_do_the_same(|func| {
        func.dfg.resolve_all_aliases();
        reduce(func);
    });
}

#[test]
fn random_functions_store_and_return_the_same_when_they_sink_and_carry() {
    all_do_the_same(|func| {
        func.dfg.resolve_all_aliases();
        let flow = flow_of(func);
        sink(func, &flow);
        carry(func, &flow);
    });
}

fn all_do_the_same(change: impl Fn(&mut Function)) {
    let mut ended = 0;
    for seed in 0..FUNCTIONS {
        let random = &mut Random::new(seed);
        let before = random_function(random);
        check(&before);
        let mut behind = before.clone();
        change(&mut behind);
        check(&behind);
        for _ in 0..MEMORIES {
            let memory = random.memory();
            ended += usize::from(does_the_same(&before, &behind, &memory));
        }
    }
    // Return values are compared only for runs that ended.
    let runs = FUNCTIONS as usize * MEMORIES;
    assert!(ended > runs / 2, "{ended} of {runs} runs have an end");
}

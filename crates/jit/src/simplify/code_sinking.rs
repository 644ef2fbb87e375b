//! Code sinking. Moves computations to the paths that use them. A parser loads each field for all
//! packets, but only one path may use it.
//!
//! Cranelift places pure computations at their first use, but leaves each load in place and keeps
//! the value until its use. There are few registers, so most values that are loaded early are
//! spilled. A load is not moved across a possible write of its memory.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AliasRegion, Block, Function, Inst, InstructionData, MemFlags, Opcode, Value, ValueDef,
};
use cranelift_codegen::loop_analysis::LoopAnalysis;

use support::work::checkpoint;

use super::Flow;
use super::dead_code::{has_effect, insts};
use crate::helpers::Helper;
use crate::translate::in_bytes;

/// Maximum number of positions to which one computation is copied.
const MAX_PLACES: usize = 8;

/// Maximum number of blocks with uses of a value that is moved.
const MAX_USING: usize = 32;

/// Maximum number of copies in a function, per instruction, and the minimum of that limit. Without
/// a limit, copies for one block could again be copied for each of many blocks.
const MAX_COPIES: usize = 1;
const FEWEST_COPIES: usize = 8192;

/// Maximum number of blocks that are searched between source and target of a load.
const MAX_BETWEEN: usize = 256;

/// Sinks the instructions of a function without value aliases.
pub(super) fn sink(func: &mut Function, flow: &Flow) {
    let (ways, tree) = (&flow.ways, &flow.tree);
    let mut loops = LoopAnalysis::new();
    loops.compute(func, ways, tree);
    let blocks = tree.cfg_postorder().to_vec();
    let mut written = SecondaryMap::new();
    for &block in &blocks {
        let insts = func.layout.block_insts(block);
        written[block] = insts.fold(0, |all, inst| all | written_by(func, inst));
    }
    let mut sinking = Sinking {
        room: (MAX_COPIES * insts(func).count()).max(FEWEST_COPIES),
        uses: uses(func),
        written,
        func,
        ways,
        tree,
        loops,
    };
    // Users are moved before their operands.
    for block in blocks {
        let insts: Vec<Inst> = sinking.func.layout.block_insts(block).collect();
        for inst in insts.into_iter().rev() {
            checkpoint();
            sinking.inst(block, inst);
        }
    }
}

/// Returns the instructions that use each value.
fn uses(func: &Function) -> SecondaryMap<Value, Vec<Inst>> {
    let mut uses: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    for inst in insts(func) {
        for value in func.dfg.inst_values(inst) {
            if uses[value].last() != Some(&inst) {
                uses[value].push(inst);
            }
        }
    }
    uses
}

/// Set of memory regions, one bit each.
type Regions = u8;

const ALL: Regions = Regions::MAX;

/// Returns the region of these flags. Regions do not overlap, and accesses without a region form
/// one more.
fn region(flags: MemFlags) -> Regions {
    match flags.alias_region() {
        None => 1,
        Some(AliasRegion::Heap) => 2,
        Some(AliasRegion::Table) => 4,
        Some(AliasRegion::Vmctx) => 8,
    }
}

/// Returns the regions that an instruction may write.
fn written_by(func: &Function, inst: Inst) -> Regions {
    let data = func.dfg.insts[inst];
    let opcode = data.opcode();
    if let InstructionData::CallIndirect { args, .. } = data {
        let callee = args.first(&func.dfg.value_lists);
        let leaves_bytes = callee.is_some_and(|callee| leaves_bytes(func, callee));
        return if leaves_bytes {
            ALL & !region(in_bytes())
        } else {
            ALL
        };
    }
    match data.memflags() {
        Some(written) if opcode.can_store() => region(written),
        _ if opcode.can_store() || opcode.is_call() || opcode.other_side_effects() => ALL,
        _ => 0,
    }
}

/// Returns true if a callee does not change the packet's bytes.
fn leaves_bytes(func: &Function, callee: Value) -> bool {
    let ValueDef::Result(inst, _) = func.dfg.value_def(callee) else {
        return false;
    };
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm {
            opcode: Opcode::Iconst,
            imm,
        } => Helper::leaves_bytes(imm.bits() as u64),
        _ => false,
    }
}

/// Block that uses a value, with its first instruction that does.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: Block,
    first: Inst,
}

struct Sinking<'f> {
    /// Number of copies that may still be made.
    room: usize,
    func: &'f mut Function,
    ways: &'f ControlFlowGraph,
    tree: &'f DominatorTree,
    loops: LoopAnalysis,
    uses: SecondaryMap<Value, Vec<Inst>>,
    /// Regions that each block writes. Instructions that are moved write nothing.
    written: SecondaryMap<Block, Regions>,
}

impl Sinking<'_> {
    /// Sinks an instruction of a block, if possible.
    fn inst(&mut self, block: Block, inst: Inst) {
        let &[result] = self.func.dfg.inst_results(inst) else {
            return;
        };
        if !self.is_movable(inst) {
            return;
        }
        let mut places = self.places(result);
        let stays = |place: &Place| place.block == block || self.is_repeated(place.block, block);
        if self.may_be_part_of_address(inst) {
            // Each block that uses it in an address gets a copy. Other uses keep the original:
            // copies for each element of a chain of sums would multiply.
            let uses = self.uses_in_addresses(result);
            places.retain(|place| !stays(place) && uses.contains(place.block));
            return self.go(inst, result, &places);
        }
        if places.iter().any(stays) || places.len() > MAX_USING {
            return;
        }
        let all = places.clone();
        let is_above =
            |above: Block, below: Block| above != below && self.tree.block_dominates(above, below);
        places.retain(|place| !all.iter().any(|above| is_above(above.block, place.block)));
        if places.len() <= MAX_PLACES && places.iter().all(|&to| self.may_go(block, inst, to)) {
            self.go(inst, result, &places);
        }
    }

    /// Returns true if an instruction may be moved, apart from memory dependences.
    fn is_movable(&self, inst: Inst) -> bool {
        let data = self.func.dfg.insts[inst];
        // Cranelift itself moves constants and loads of memory that is never written.
        let moves_anyway = match data {
            InstructionData::Load { flags, .. } => flags.readonly() && flags.can_move(),
            _ => data.opcode() == Opcode::Iconst,
        };
        !moves_anyway && !has_effect(self.func, inst)
    }

    /// Returns true if an addressing mode can include this sum or product.
    fn may_be_part_of_address(&self, inst: Inst) -> bool {
        let InstructionData::BinaryImm64 { opcode, imm, .. } = self.func.dfg.insts[inst] else {
            return false;
        };
        let result = self.func.dfg.first_result(inst);
        if self.func.dfg.value_type(result) != I64 {
            return false;
        }
        match opcode {
            Opcode::IaddImm => true,
            Opcode::IshlImm => (0..=3).contains(&imm.bits()),
            _ => false,
        }
    }

    /// Returns the blocks in which a value is an address or a summand of one.
    fn uses_in_addresses(&self, value: Value) -> EntitySet<Block> {
        let dfg = &self.func.dfg;
        let is_address = |value: Value, user: Inst| match dfg.insts[user] {
            InstructionData::Load { arg, .. } => arg == value,
            InstructionData::Store { args, .. } => args[1] == value,
            _ => false,
        };
        let mut blocks = EntitySet::new();
        for &user in &self.uses[value] {
            let used = is_address(value, user)
                || dfg.insts[user].opcode() == Opcode::Iadd && {
                    let sum = dfg.first_result(user);
                    self.uses[sum].iter().any(|&user| is_address(sum, user))
                };
            if used && let Some(block) = self.func.layout.inst_block(user) {
                blocks.insert(block);
            }
        }
        blocks
    }

    /// Returns the blocks that use a value.
    fn places(&self, value: Value) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for &user in &self.uses[value] {
            let Some(block) = self.func.layout.inst_block(user) else {
                continue;
            };
            match places.iter_mut().find(|place| place.block == block) {
                Some(place) if self.is_before(user, place.first) => place.first = user,
                Some(_) => {}
                None => places.push(Place { block, first: user }),
            }
        }
        places
    }

    /// Returns true if `here` is in a loop that does not contain `there`.
    fn is_repeated(&self, here: Block, there: Block) -> bool {
        let innermost = self.loops.innermost_loop(here);
        innermost.is_some_and(|innermost| !self.loops.is_in_loop(there, innermost))
    }

    fn is_before(&self, one: Inst, other: Inst) -> bool {
        self.func.layout.pp_cmp(one, other).is_lt()
    }

    /// Returns true if an instruction computes the same at a later position on all paths there.
    fn may_go(&self, from: Block, inst: Inst, to: Place) -> bool {
        let data = self.func.dfg.insts[inst];
        if !data.opcode().can_load() {
            return true;
        }
        let read = data.memflags().map_or(ALL, region);
        let layout = &self.func.layout;
        let behind = layout.block_insts(from).skip_while(|&one| one != inst);
        let before = layout.block_insts(to.block);
        let before = before.take_while(|&one| one != to.first);
        let mut around = behind.chain(before);
        let is_written = |one| written_by(self.func, one) & read != 0;
        !around.any(is_written) && self.stays_between(from, to.block, read)
    }

    /// Returns true if no block between these two, on any path, writes the regions that are read.
    fn stays_between(&self, from: Block, to: Block, read: Regions) -> bool {
        let mut seen: EntitySet<Block> = EntitySet::new();
        let (mut waiting, mut count) = (vec![to], 0);
        while let Some(block) = waiting.pop() {
            for way in self.ways.pred_iter(block) {
                if way.block == from || !seen.insert(way.block) {
                    continue;
                }
                count += 1;
                if count > MAX_BETWEEN || self.written[way.block] & read != 0 {
                    return false;
                }
                waiting.push(way.block);
            }
        }
        true
    }

    /// Computes a value at each of these positions, for the uses that they dominate. The original
    /// stays if there are other uses.
    fn go(&mut self, inst: Inst, result: Value, places: &[Place]) {
        let Some(left) = self.room.checked_sub(places.len()) else {
            return;
        };
        self.room = left;
        let mut served: Vec<Vec<Inst>> = vec![Vec::new(); places.len()];
        let mut others = Vec::new();
        for user in std::mem::take(&mut self.uses[result]) {
            // The user was moved itself, and its copies use copies of this value.
            let Some(here) = self.func.layout.inst_block(user) else {
                continue;
            };
            match self.serving(places, here) {
                Some(at) => served[at].push(user),
                None => others.push(user),
            }
        }
        for (place, served) in places.iter().zip(served) {
            let own = self.copy(inst);
            self.func.layout.insert_inst(own, place.first);
            let value = self.func.dfg.first_result(own);
            for &user in &served {
                let rename = |one: Value| if one == result { value } else { one };
                self.func.dfg.map_inst_values(user, rename);
            }
            self.uses[value] = served;
        }
        if others.is_empty() {
            self.func.layout.remove_inst(inst);
        }
        self.uses[result] = others;
    }

    /// Returns the index of the position that serves uses in a block. A position in the block
    /// itself has priority.
    fn serving(&self, places: &[Place], here: Block) -> Option<usize> {
        let own = places.iter().position(|place| place.block == here);
        let above = |place: &Place| self.tree.block_dominates(place.block, here);
        own.or_else(|| places.iter().position(above))
    }

    /// Copies an instruction and registers the copy as a user of its operands.
    fn copy(&mut self, inst: Inst) -> Inst {
        let copy = self.func.dfg.clone_inst(inst);
        let args: Vec<Value> = self.func.dfg.inst_values(copy).collect();
        for arg in args {
            self.uses[arg].push(copy);
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, count, flow_of, function, safe};
    use super::*;
    use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature};
    use cranelift_codegen::isa::CallConv;
    use cranelift_frontend::FunctionBuilder;

    /// Builds a function that loads a word, runs `between`, and stores the word on one of two
    /// paths. Returns true if the load is moved to that path.
    fn goes(flags: MemFlags, between: impl Fn(&mut FunctionBuilder<'_>, Value)) -> bool {
        let mut func = function(|b, pointer| {
            let [one, other] = [(); 2].map(|()| b.create_block());
            let number = b.ins().load(I64, flags, pointer, 0);
            between(b, pointer);
            b.ins().brif(pointer, one, &[], other, &[]);
            b.switch_to_block(one);
            b.ins().store(safe(), number, pointer, 8);
            b.ins().return_(&[]);
            b.switch_to_block(other);
            b.ins().return_(&[]);
        });
        let flow = flow_of(&func);
        sink(&mut func, &flow);
        check(&func);
        assert_eq!(count(&func, Opcode::Load), 1, "{func}");
        let load = insts(&func).find(|&inst| func.dfg.insts[inst].opcode() == Opcode::Load);
        load.and_then(|load| func.layout.inst_block(load)) != func.layout.entry_block()
    }

    fn of_region(region: AliasRegion) -> MemFlags {
        safe().with_alias_region(Some(region))
    }

    fn call(b: &mut FunctionBuilder<'_>, pointer: Value, address: u64) {
        let mut called = Signature::new(CallConv::SystemV);
        called.params.push(AbiParam::new(I64));
        let called = b.import_signature(called);
        let callee = b.ins().iconst(I64, address as i64);
        b.ins().call_indirect(called, callee, &[pointer]);
    }

    #[test]
    fn what_one_way_asks_for_is_loaded_there() {
        assert!(goes(safe(), |_, _| ()));
    }

    #[test]
    fn a_load_stays_before_what_may_write_what_it_reads() {
        let regions = [AliasRegion::Heap, AliasRegion::Table, AliasRegion::Vmctx];
        for read in regions {
            for written in regions {
                let goes = goes(of_region(read), |b, pointer| {
                    b.ins().store(of_region(written), pointer, pointer, 16);
                });
                assert_eq!(goes, read != written, "{read:?} {written:?}");
            }
            let goes = goes(safe(), |b, pointer| {
                b.ins().store(of_region(read), pointer, pointer, 16);
            });
            assert!(goes, "{read:?}");
        }
    }

    #[test]
    fn a_load_stays_before_what_the_ways_between_write() {
        let flags = in_bytes();
        assert!(!goes(flags, |b, pointer| {
            let [writes, met] = [(); 2].map(|()| b.create_block());
            b.ins().brif(pointer, writes, &[], met, &[]);
            b.switch_to_block(writes);
            b.ins().store(flags, pointer, pointer, 16);
            b.ins().jump(met, &[]);
            b.switch_to_block(met);
        }));
    }

    #[test]
    fn only_the_packets_bytes_are_loaded_behind_a_helper_that_leaves_them() {
        let host = 0x1234;
        for (flags, address, wanted) in [
            (in_bytes(), Helper::Find.address() as u64, true),
            (in_bytes(), Helper::FinishDeparse.address() as u64, false),
            (in_bytes(), host, false),
            (
                of_region(AliasRegion::Vmctx),
                Helper::Find.address() as u64,
                false,
            ),
            (safe(), Helper::Find.address() as u64, false),
        ] {
            let goes = goes(flags, |b, pointer| call(b, pointer, address));
            assert_eq!(goes, wanted, "{flags:?} {address:#x}");
        }
    }

    #[test]
    fn what_a_loop_needs_is_computed_before_it() {
        let mut func = function(|b, pointer| {
            let [around, end] = [(); 2].map(|()| b.create_block());
            let number = b.ins().load(I64, safe(), pointer, 0);
            let more = b.ins().bnot(number);
            b.ins().jump(around, &[]);
            b.switch_to_block(around);
            b.ins()
                .store(of_region(AliasRegion::Heap), more, pointer, 8);
            b.ins().brif(pointer, around, &[], end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        });
        let before = func.to_string();
        let flow = flow_of(&func);
        sink(&mut func, &flow);
        assert_eq!(func.to_string(), before);
    }

    #[test]
    fn where_two_ways_use_a_value_each_computes_it_but_what_follows_one_does_not() {
        let mut func = function(|b, pointer| {
            let [one, other, behind, none] = [(); 4].map(|()| b.create_block());
            let first = b.create_block();
            let number = b.ins().load(I64, in_bytes(), pointer, 0);
            b.ins().brif(pointer, first, &[], none, &[]);
            b.switch_to_block(first);
            b.ins().brif(pointer, one, &[], other, &[]);
            for block in [one, other, behind] {
                b.switch_to_block(block);
                b.ins().store(safe(), number, pointer, 8);
                match block == one {
                    true => b.ins().jump(behind, &[]),
                    false => b.ins().return_(&[]),
                };
            }
            b.switch_to_block(none);
            b.ins().return_(&[]);
        });
        let flow = flow_of(&func);
        sink(&mut func, &flow);
        check(&func);
        assert_eq!(count(&func, Opcode::Load), 2, "{func}");
    }

    /// Checks a function in which many blocks use the same addresses and values.
    #[test]
    fn what_many_blocks_use_takes_little_time() {
        let begin = std::time::Instant::now();
        let mut func = function(|b, pointer| {
            let place = b.ins().iadd_imm(pointer, 8);
            let number = b.ins().load(I64, safe(), pointer, 0);
            let end = b.create_block();
            for _ in 0..4000 {
                let next = b.create_block();
                b.ins().brif(number, next, &[], end, &[]);
                b.switch_to_block(next);
                b.ins().store(in_bytes(), pointer, place, 8);
            }
            b.ins().jump(end, &[]);
            b.switch_to_block(end);
            b.ins().return_(&[]);
        });
        let flow = flow_of(&func);
        sink(&mut func, &flow);
        check(&func);
        assert_eq!(count(&func, Opcode::IaddImm), 4000);
        let stores = insts(&func).filter(|&inst| func.dfg.insts[inst].opcode() == Opcode::Store);
        for store in stores {
            let place = func.dfg.inst_args(store)[1];
            let ValueDef::Result(sum, _) = func.dfg.value_def(place) else {
                panic!("{place} is a sum");
            };
            assert_eq!(func.layout.inst_block(sum), func.layout.inst_block(store));
        }
        assert!(begin.elapsed().as_secs() < 10);
    }
}

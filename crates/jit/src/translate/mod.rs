//! Translation from the P4 IR to Cranelift IR: one function per parser and per control, and those
//! of the fast path.
//!
//! Fields of up to [`INLINE_LIMBS`] limbs are SSA values while code computes with them. They are
//! loaded from and stored to the frame, and redundant accesses are removed later. Wider fields and
//! varbits stay in slots, and helpers compute with them. The cursor, the remaining work and the
//! number of emitted bits are variables. They are written to the invocation before helpers that
//! read them and at the end.

mod action;
mod arith;
mod bit_vector_lookup;
mod burst;
mod call;
mod checksum;
mod control;
mod count;
mod deferred_loads;
mod deparse;
mod emit;
mod entry_uses;
mod expr;
mod extract;
mod fast_path;
mod field_allocation;
mod fields;
mod hash;
mod hashed;
mod if_conversion;
mod known_table;
mod lookup_results;
mod lookup_schedule;
mod offsets;
mod parse_cache;
mod parser;
mod place;
mod prefetch_pass;
mod record;
mod register;
mod register_prefetch;
mod size;
mod speculative_actions;
mod stack_cache;
mod stmt;
mod table;
mod trie;
mod wide;
mod work_bounds;

use std::collections::HashMap;

use bits::IdVec;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, BlockArg, InstBuilder, MemFlags, SigRef, Signature, StackSlot,
    Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use exec::slots::Slot;
use exec::slots::header::{HeaderSite, StackSite};
use exec::slots::table::TableSite;
use exec::{DropReason, Facts, FastPath, Natives, ParserErrors, Unsupported};
use ir::work::Work;
use ir::{
    Action, ActionId, ControlId, Expr, FieldId, LabelId, Layout, Loc, ParserId, Program, ScalarTy,
    limbs_of,
};

use crate::abi::{Code, Outcome, offset};
use crate::helpers::Helper;
use crate::lookup_buffer::RowAddresses;
use action::{ActionCosts, Param, SharedAction};
use count::Applying;
use entry_uses::CurrentUses;
use fast_path::FastPathContext;
pub(crate) use fast_path::FastPathUses;
pub(crate) use hashed::{Lines, words_of_rows};
pub(crate) use parse_cache::ParsedFields;
pub(crate) use prefetch_pass::{PrefetchSite, PrefetchedStages};
pub(crate) use register::RegisterShape;
use register_prefetch::{HashesAhead, Speculation};
pub(crate) use size::MAX_INSTS_TOGETHER;
use stack_cache::StackCache;

/// Maximum number of limbs of a value that is held in SSA values.
pub(crate) const INLINE_LIMBS: u32 = 8;

/// Data that the functions of a program share: side tables for helpers, and slots after the frame.
pub(crate) struct Shared<'p> {
    pub(crate) program: &'p Program,
    layout: &'p Layout,
    natives: &'p Natives,
    arrival: BurstLayout,
    pub(crate) code: Code,
    /// Slots for action parameters that are too wide for SSA values.
    wide_params: IdVec<ActionId, Vec<Option<Slot>>>,
    costs: ActionCosts,
    current_uses: CurrentUses,
    /// Costs that code charges to a packet's work budget.
    budget: Work<'p>,
    /// Slot for writes that must have no effect.
    nowhere: Slot,
    first_temporary: Slot,
    most_temporaries: u32,
    wide_scratch_limbs: u32,
    call_conv: CallConv,
    /// Number of instructions that may still be generated, over all functions.
    pub(crate) insts_left: usize,
    /// True if the program sets the packet's length ([`Op::SetPacketLength`]).
    sets_length: bool,
    /// Facts about the tables that hold wherever the code runs, if there are any.
    pub(crate) facts: Option<&'p Facts>,
}

impl<'p> Shared<'p> {
    pub(crate) fn new(
        program: &'p Program,
        layout: &'p Layout,
        natives: &'p Natives,
        arrival: BurstLayout,
        call_conv: CallConv,
    ) -> Result<Shared<'p>, Unsupported> {
        let mut next = layout.limbs();
        let mut take = |limbs: u32| {
            let slot = next;
            next += limbs;
            slot
        };
        let nowhere = take(INLINE_LIMBS);
        let tables = TableSite::all(program, &mut take);
        let layouts = || tables.values().map(|table| &table.records);
        let front = layouts().map(|layout| layout.front()).max().unwrap_or(0);
        let longest = layouts().map(|layout| layout.stride()).max().unwrap_or(0);
        let longest = longest.div_ceil(size_of::<u64>());
        let settled = take((front + longest) as u32) + front as u32;
        let wide = |ty: ScalarTy| limbs_of(ty) > INLINE_LIMBS;
        let wide_params = program.actions.values().map(|action| {
            let params = action.params.iter();
            let slots = params.map(|param| wide(param.ty).then(|| take(limbs_of(param.ty))));
            slots.collect()
        });
        let wide_params = wide_params.collect();
        let missing = |what: &str| Unsupported {
            construct: what.to_string(),
            loc: None,
        };
        let headers = program.headers.ids().map(|id| {
            let site = HeaderSite::new(program, layout, id);
            site.ok_or_else(|| missing("a header without a type"))
        });
        let stacks = program.stacks.values().map(|stack| {
            let site = StackSite::new(program, layout, stack);
            site.ok_or_else(|| missing("a stack without headers"))
        });
        Ok(Shared {
            program,
            layout,
            natives,
            arrival,
            code: Code {
                tables,
                settled,
                headers: headers.collect::<Result<_, _>>()?,
                stacks: stacks.collect::<Result<_, _>>()?,
                errors: ParserErrors::of(program),
                ..Code::default()
            },
            wide_params,
            costs: ActionCosts::of(program),
            current_uses: CurrentUses::of(program),
            budget: Work::of(program),
            nowhere,
            first_temporary: next,
            most_temporaries: 0,
            wide_scratch_limbs: 0,
            call_conv,
            insts_left: MAX_INSTS_TOGETHER,
            sets_length: count::sets_length(program),
            facts: None,
        })
    }

    /// Returns the side tables, after all functions are translated.
    pub(crate) fn finish(mut self) -> Code {
        self.code.wide_scratch = self.first_temporary + self.most_temporaries;
        self.code.limbs = (self.code.wide_scratch + self.wide_scratch_limbs) as usize;
        self.code
    }

    /// Returns the signature of a function that takes the invocation and `numbers` integers and
    /// returns an integer.
    pub(crate) fn signature(&self, numbers: usize) -> Signature {
        let mut signature = Signature::new(self.call_conv);
        let params = std::iter::repeat_n(AbiParam::new(I64), 1 + numbers);
        signature.params.extend(params);
        signature.returns.push(AbiParam::new(I64));
        signature
    }
}

/// Layout of the bursts that a function processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BurstLayout {
    /// Grouped: the packets of one segment follow those of another. Values that depend on the
    /// device are kept on the stack for a segment ([`stack_cache`]).
    Grouped,
    /// Interleaved: each packet may belong to another device than the one before. The device is
    /// found by the packet ([`crate::abi::PacketDevice`]).
    Interleaved,
}

/// Body of a function to translate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'p> {
    Parser(ParserId),
    Control(ControlId),
    /// All steps of a fast path.
    FastPath(&'p FastPath),
    /// The prefetch pass of this level, for a fast path that uses lookup results at these stages.
    Prefetch(&'p FastPath, &'p PrefetchedStages, usize),
    /// The lookups in these lines of hash tables for the prefetch pass of this level. They also
    /// list the rows to prefetch.
    Answers(usize, RowAddresses, Lines),
}

/// Translates a body into the current function. For a fast path, returns the stages that use lookup
/// results.
pub(crate) fn translate(
    shared: &mut Shared<'_>,
    builder: FunctionBuilder<'_>,
    body: Body<'_>,
) -> Result<PrefetchedStages, Unsupported> {
    let mut translator = Translator::new(shared, builder, body);
    match body {
        Body::Parser(id) => {
            translator.parser(id)?;
            translator.finish()?;
        }
        Body::Control(id) => {
            translator.control(id)?;
            translator.finish()?;
        }
        Body::FastPath(pass) => return translator.pass(pass),
        Body::Prefetch(pass, stages, level) => translator.scout(pass, stages, level)?,
        Body::Answers(level, rows, lines) => translator.answers(level, rows, lines),
    }
    Ok(PrefetchedStages::new())
}

/// State of the translation of one function.
struct Translator<'t> {
    program: &'t Program,
    layout: &'t Layout,
    natives: &'t Natives,
    code: &'t mut Code,
    wide_params: &'t IdVec<ActionId, Vec<Option<Slot>>>,
    costs: &'t ActionCosts,
    current_uses: &'t CurrentUses,
    budget: &'t Work<'t>,
    nowhere: Slot,
    first_temporary: Slot,
    most_temporaries: &'t mut u32,
    wide_scratch_limbs: &'t mut u32,
    b: FunctionBuilder<'t>,
    signatures: Vec<Option<SigRef>>,
    call_conv: CallConv,
    /// The invocation, and the address of the packet's first limb.
    invocation: Value,
    limbs: Value,
    /// Address of the packet's first byte, and the packet's length in bits.
    bytes: Variable,
    bits: Variable,
    /// Number of bytes that may be written before the first one.
    headroom: Variable,
    cursor: Variable,
    work: Variable,
    emitted: Variable,
    /// Exit block. Its parameter is the encoded outcome.
    end: Block,
    /// Exit block for success, if it is another one.
    done: Option<Block>,
    /// State of the translation of a fast path.
    fused: Option<FastPathContext>,
    /// Values cached on the stack, in a loop over packets.
    kept: Option<StackCache>,
    /// For [`BurstLayout::Interleaved`], the state description of the current packet's device.
    view: Option<Variable>,
    /// Stack slot of the keys for bit-vector lookups.
    key_slot: Option<StackSlot>,
    /// Number of temporaries that the current statement uses, and of those that last longer.
    temporaries: u32,
    lasting_temporaries: u32,
    /// Values of fields in speculative code.
    speculation: Option<Speculation>,
    hashes_ahead: HashesAhead,
    /// True if the current position is reachable.
    is_live: bool,
    /// Targets of exits and continues for the blocks and loops around the current statement.
    enclosing: HashMap<LabelId, (Block, Block)>,
    /// Action being translated, with its parameters.
    action: Option<(ActionId, Vec<Param>)>,
    /// Table of the action being translated, on the fast path.
    applying: Option<Applying>,
    /// Actions that several positions of the function share.
    shared_actions: HashMap<ActionId, SharedAction>,
    /// Number of uses of each action in the current function.
    uses: action::Uses,
    loc: Option<Loc>,
    /// Body being translated.
    body: Body<'t>,
    /// Number of instructions that the function may have.
    insts_left: usize,
    /// Number of variables of the function.
    variables: usize,
    /// Address of the current entry's parameters.
    entry_pointer: Option<Variable>,
    /// True if the program sets the packet's length.
    sets_length: bool,
    /// Facts about the tables that hold wherever the code runs, if there are any.
    facts: Option<&'t Facts>,
}

/// Maximum number of variables that a function starts with.
const FIRST_VARIABLES: usize = 7;

/// Returns the flags of an access to a region. A store to one region does not invalidate values
/// loaded from another.
fn memory(region: AliasRegion) -> MemFlags {
    MemFlags::new()
        .with_notrap()
        .with_alias_region(Some(region))
}

/// Returns the flags for fields and scratch, which are always aligned to eight bytes.
fn in_limbs() -> MemFlags {
    memory(AliasRegion::Heap).with_aligned()
}

/// Returns the flags for the packet's bytes, which few helpers write ([`Helper::leaves_bytes`]).
pub(crate) fn in_bytes() -> MemFlags {
    memory(AliasRegion::Table)
}

/// Returns the flags for records and action parameters. No helper writes them while native code
/// uses loaded values.
fn in_records() -> MemFlags {
    memory(AliasRegion::Vmctx)
}

/// Returns the flags for the invocation and the emitted bits.
fn in_invocation() -> MemFlags {
    memory(AliasRegion::Vmctx)
}

/// Returns the flags for the function's stack slots.
fn in_stack() -> MemFlags {
    MemFlags::new().with_notrap().with_aligned()
}

/// Returns the flags for memory that is constant while the function runs. Cranelift may move,
/// repeat or remove such a load. It may also move it before a branch, so the address must be valid
/// wherever it is known.
fn in_constants() -> MemFlags {
    in_invocation()
        .with_aligned()
        .with_readonly()
        .with_can_move()
}

impl<'t> Translator<'t> {
    fn new(
        shared: &'t mut Shared<'_>,
        mut b: FunctionBuilder<'t>,
        body: Body<'t>,
    ) -> Translator<'t> {
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        b.seal_block(start);
        let invocation = b.block_params(start)[0];
        let limbs = b
            .ins()
            .load(I64, in_invocation(), invocation, offset::LIMBS);
        let mut variable = |at: i32| {
            let variable = b.declare_var(I64);
            let value = b.ins().load(I64, in_invocation(), invocation, at);
            b.def_var(variable, value);
            variable
        };
        let bytes = variable(offset::BYTES);
        let bits = variable(offset::BITS);
        let headroom = variable(offset::HEADROOM);
        let cursor = variable(offset::CURSOR);
        let work = variable(offset::WORK);
        let emitted = variable(offset::EMITTED);
        let view = match shared.arrival {
            BurstLayout::Grouped => None,
            BurstLayout::Interleaved => Some(b.declare_var(I64)),
        };
        let end = b.create_block();
        b.append_block_param(end, I64);
        Translator {
            program: shared.program,
            layout: shared.layout,
            natives: shared.natives,
            code: &mut shared.code,
            wide_params: &shared.wide_params,
            costs: &shared.costs,
            current_uses: &shared.current_uses,
            budget: &shared.budget,
            nowhere: shared.nowhere,
            first_temporary: shared.first_temporary,
            most_temporaries: &mut shared.most_temporaries,
            wide_scratch_limbs: &mut shared.wide_scratch_limbs,
            b,
            signatures: vec![None; 6],
            call_conv: shared.call_conv,
            invocation,
            limbs,
            bytes,
            bits,
            headroom,
            cursor,
            work,
            emitted,
            end,
            done: None,
            fused: None,
            kept: None,
            view,
            key_slot: None,
            temporaries: 0,
            lasting_temporaries: 0,
            speculation: None,
            hashes_ahead: HashesAhead::default(),
            is_live: true,
            enclosing: HashMap::new(),
            action: None,
            applying: None,
            shared_actions: HashMap::new(),
            uses: action::Uses::default(),
            loc: None,
            body,
            insts_left: shared.insts_left,
            variables: FIRST_VARIABLES,
            entry_pointer: None,
            sets_length: shared.sets_length,
            facts: shared.facts,
        }
    }

    /// Returns the layout of the bursts that the function processes.
    fn arrival(&self) -> BurstLayout {
        match self.view {
            Some(_) => BurstLayout::Interleaved,
            None => BurstLayout::Grouped,
        }
    }

    /// Translates the shared actions that are still missing, and the function's exit.
    fn finish(mut self) -> Result<(), Unsupported> {
        self.shared_bodies()?;
        self.start(self.end);
        self.show_progress();
        let emitted = self.b.use_var(self.emitted);
        self.store_invocation(emitted, offset::EMITTED);
        let number = self.b.block_params(self.end)[0];
        self.b.ins().return_(&[number]);
        self.b.seal_all_blocks();
        self.b.finalize();
        Ok(())
    }

    /// Writes the cursor and the remaining work to the invocation.
    fn show_progress(&mut self) {
        let cursor = self.b.use_var(self.cursor);
        self.store_invocation(cursor, offset::CURSOR);
        let work = self.work_left();
        self.store_invocation(work, offset::WORK);
    }

    /// Returns true if no path can use up the work budget. Then work is not compared, and
    /// [`Translator::work`] is the work spent, which is mostly a constant.
    fn has_work(&self) -> bool {
        self.fused.as_ref().is_some_and(|fusing| fusing.has_work)
    }

    fn work_left(&mut self) -> Value {
        let work = self.b.use_var(self.work);
        match self.has_work() {
            true => self.rest_of_budget(work),
            false => work,
        }
    }

    /// Reads the remaining work that a helper has written.
    fn take_work(&mut self) {
        let left = self.load_invocation(offset::WORK);
        let work = match self.has_work() {
            true => self.rest_of_budget(left),
            false => left,
        };
        self.b.def_var(self.work, work);
    }

    fn rest_of_budget(&mut self, other: Value) -> Value {
        let budget = self.load_constant(offset::BUDGET);
        self.b.ins().isub(budget, other)
    }

    /// Starts a packet on the fast path with its full budget.
    fn begin_work(&mut self) {
        let work = match self.has_work() {
            true => self.number(0),
            false => self.load_constant(offset::BUDGET),
        };
        self.b.def_var(self.work, work);
    }

    fn load_invocation(&mut self, at: i32) -> Value {
        let flags = in_invocation();
        self.b.ins().load(I64, flags, self.invocation, at)
    }

    fn store_invocation(&mut self, value: Value, at: i32) {
        let flags = in_invocation();
        self.b.ins().store(flags, value, self.invocation, at);
    }

    /// Continues the code in a block.
    fn start(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.is_live = true;
    }

    /// Continues the code in a block to which all jumps have been translated.
    fn start_sealed(&mut self, block: Block) {
        self.start(block);
        self.b.seal_block(block);
    }

    fn jump(&mut self, to: Block) {
        if self.is_live {
            self.b.ins().jump(to, &[]);
            self.is_live = false;
        }
    }

    fn jump_with(&mut self, to: Block, values: &[Value]) {
        if self.is_live {
            let args: Vec<BlockArg> = values.iter().map(|&v| BlockArg::Value(v)).collect();
            self.b.ins().jump(to, &args);
            self.is_live = false;
        }
    }

    fn branch(&mut self, truth: Value, then: Block, otherwise: Block) {
        self.b.ins().brif(truth, then, &[], otherwise, &[]);
        self.is_live = false;
    }

    /// Creates a block that is rarely reached.
    fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Ends the function with this outcome if the condition holds.
    fn end_if(&mut self, truth: Value, outcome: Outcome) {
        let (ends, goes_on) = (self.cold_block(), self.b.create_block());
        self.branch(truth, ends, goes_on);
        self.start_sealed(ends);
        self.end_with(outcome);
        self.start_sealed(goes_on);
    }

    /// Ends the body with this outcome.
    fn end_with(&mut self, outcome: Outcome) {
        if let (Outcome::Done, Some(done)) = (outcome, self.done) {
            return self.jump(done);
        }
        let number = self.number(outcome.number());
        self.jump_with(self.end, &[number]);
    }

    /// Ends the function with the number that a helper returned, unless it is zero.
    fn end_unless_done(&mut self, number: Value) {
        let (ends, goes_on) = (self.cold_block(), self.b.create_block());
        self.branch(number, ends, goes_on);
        self.start_sealed(ends);
        self.jump_with(self.end, &[number]);
        self.start_sealed(goes_on);
    }

    /// Spends units of work. If fewer are left, none remain and the packet is dropped.
    fn spend(&mut self, units: u32) {
        if units == 0 {
            return;
        }
        let units = i64::from(units);
        let work = self.b.use_var(self.work);
        if self.has_work() {
            let spent = self.b.ins().iadd_imm(work, units);
            self.b.def_var(self.work, spent);
            return;
        }
        let is_short = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, work, units);
        let (ends, goes_on) = (self.cold_block(), self.b.create_block());
        self.branch(is_short, ends, goes_on);
        self.start_sealed(ends);
        let nothing = self.number(0);
        self.b.def_var(self.work, nothing);
        self.end_with(Outcome::Drop(DropReason::WorkBudget));
        self.start_sealed(goes_on);
        let left = self.b.ins().iadd_imm(work, -units);
        self.b.def_var(self.work, left);
    }

    /// Calls a helper.
    fn help(&mut self, helper: Helper, numbers: &[Value]) -> Value {
        let signature = self.signature(numbers.len());
        let address = self.number(helper.address() as u64);
        let mut args = vec![self.invocation];
        args.extend_from_slice(numbers);
        self.show_packet();
        let call = self.b.ins().call_indirect(signature, address, &args);
        if let Some(flags) = self.fused.as_ref().map(|fusing| fusing.flags) {
            let value = self.load_invocation(offset::FLAGS);
            self.b.def_var(flags, value);
        }
        self.b.inst_results(call)[0]
    }

    /// Calls a helper that only computes, from slots and the arguments.
    fn compute_with(&mut self, helper: Helper, numbers: &[u64]) -> Value {
        let mut args = vec![self.invocation];
        args.extend(numbers.iter().map(|&n| self.number(n)));
        let signature = self.signature(numbers.len());
        let address = self.number(helper.address() as u64);
        let call = self.b.ins().call_indirect(signature, address, &args);
        self.b.inst_results(call)[0]
    }

    /// Writes the index of the current packet and the context flags to the invocation, if variables
    /// hold them.
    fn show_packet(&mut self) {
        let Some(fusing) = &self.fused else {
            return;
        };
        let (at, flags) = (fusing.at, fusing.flags);
        let at = self.b.use_var(at);
        self.store_invocation(at, offset::AT);
        let flags = self.b.use_var(flags);
        self.store_invocation(flags, offset::FLAGS);
    }

    /// Returns the context flags of the current packet.
    fn flags(&mut self) -> Value {
        match self.fused.as_ref().map(|fusing| fusing.flags) {
            Some(flags) => self.b.use_var(flags),
            None => self.load_invocation(offset::FLAGS),
        }
    }

    fn set_flags(&mut self, value: Value) {
        match self.fused.as_ref().map(|fusing| fusing.flags) {
            Some(flags) => self.b.def_var(flags, value),
            None => self.store_invocation(value, offset::FLAGS),
        }
    }

    /// Calls a helper with constant arguments.
    fn help_with(&mut self, helper: Helper, numbers: &[u64]) -> Value {
        let numbers: Vec<Value> = numbers.iter().map(|&n| self.number(n)).collect();
        self.help(helper, &numbers)
    }

    fn signature(&mut self, numbers: usize) -> SigRef {
        if let Some(Some(known)) = self.signatures.get(numbers) {
            return *known;
        }
        let mut signature = Signature::new(self.call_conv);
        let params = std::iter::repeat_n(AbiParam::new(I64), 1 + numbers);
        signature.params.extend(params);
        signature.returns.push(AbiParam::new(I64));
        let made = self.b.import_signature(signature);
        if let Some(place) = self.signatures.get_mut(numbers) {
            *place = Some(made);
        }
        made
    }

    /// Allocates a temporary of the current statement.
    fn temporary(&mut self, limbs: u32) -> Slot {
        let slot = self.first_temporary + self.temporaries;
        self.temporaries += limbs.max(1);
        *self.most_temporaries = (*self.most_temporaries).max(self.temporaries);
        slot
    }

    /// Allocates a temporary that lasts longer than the current statement, before any of that.
    fn lasting_slot(&mut self) -> Slot {
        self.free_temporaries();
        self.lasting_temporaries += 1;
        self.temporary(1)
    }

    /// Frees the temporaries at the end of a statement.
    fn free_temporaries(&mut self) {
        self.temporaries = self.lasting_temporaries;
    }

    fn slot(&self, field: FieldId) -> Slot {
        self.layout.offset(field)
    }

    fn ty(&self, expr: &Expr) -> Result<ScalarTy, Unsupported> {
        expr.ty(self.program, self.current_action())
            .ok_or_else(|| self.unsupported("an expression of no type"))
    }

    fn current_action(&self) -> Option<&'t Action> {
        self.program.actions.get(self.action.as_ref()?.0)
    }

    fn unsupported(&self, construct: &str) -> Unsupported {
        Unsupported {
            construct: construct.to_string(),
            loc: self.loc,
        }
    }

    /// Creates a block with this number of integer parameters.
    fn block_with(&mut self, numbers: usize) -> (Block, Vec<Value>) {
        let ty: Type = I64;
        let block = self.b.create_block();
        let params = (0..numbers)
            .map(|_| self.b.append_block_param(block, ty))
            .collect();
        (block, params)
    }
}

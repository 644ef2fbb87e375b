//! Translation of the fast path to one function: the program's blocks in sequence, with the
//! architecture's steps between them.
//!
//! Fields are held in variables where possible ([`super::field_allocation`]). So values pass from
//! block to block without memory accesses, and unused values are not computed. A packet that leaves
//! the fast path gets its frame written in cold code.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};
use cranelift_frontend::Variable;
use exec::slots::Slot;
use exec::{
    FastPath, FastPathPort, FastPathStep, FastPathTest, PackedOutcome, PassInput, Unsupported,
};
use ir::{
    ControlId, Extern, ExternId, ExternKind, FieldId, HeaderId, Op, ParserId, StageKind, limbs_of,
};

use super::action::Uses;
use super::burst::Exit;
use super::checksum::{HeaderSum, Summed};
use super::deferred_loads::DeferredLoads;
use super::deparse::Emit;
use super::entry_uses::is_about_current;
use super::field_allocation::{FieldAllocation, written_in_control, written_in_parser};
use super::offsets::Offsets;
use super::place::is_cleared_by_helper;
use super::prefetch_pass::{PrefetchPlan, PrefetchedStages};
use super::work_bounds::has_work;
use super::{Block, I64, Translator};
use crate::abi::{Outcome, flags, offset};
use crate::helpers::Helper;

/// State of the translation of a fast path.
pub(super) struct FastPathContext {
    pub(super) homes: FieldAllocation,
    pub(super) variables: HashMap<Slot, Variable>,
    /// Offset of each header of [`FieldAllocation::tracked`].
    pub(super) offsets: Offsets,
    /// Cached sums of the tracked headers in the packet, and the parts of each that are in the sum.
    pub(super) header_sums: HashMap<HeaderId, HeaderSum>,
    pub(super) summed: HashMap<HeaderId, Summed>,
    /// Runs of slots of the frame without variables. They may include other slots.
    in_frame: Vec<(Slot, u32)>,
    /// True if the packet's bytes are still those that were parsed.
    pub(super) bytes_stand: bool,
    /// True if the context records no table's entry.
    is_flat: bool,
    /// Deferred loads of the current parser, and true if a parser has run since all fields were
    /// cleared.
    pub(super) late: DeferredLoads,
    has_parsed: bool,
    /// Plan of the prefetch passes.
    pub(super) scouting: PrefetchPlan,
    /// Index of the current packet, and flags of its context. Helpers read both from the
    /// invocation.
    pub(super) at: Variable,
    pub(super) flags: Variable,
    /// The burst's frame of the packet, and its received length in bytes.
    pub(super) frame: Variable,
    pub(super) received: Variable,
    /// Block for packets that are finished. Its parameter is the encoded outcome.
    ended: Block,
    /// Header and bit position of each field of tracked headers.
    pub(super) places: HashMap<FieldId, (HeaderId, u32)>,
    /// Fields that something other than extraction may have written: since the packet was parsed,
    /// and before parsing.
    pub(super) written: HashSet<FieldId>,
    pub(super) written_before: HashSet<FieldId>,
    /// Running ones' complement sums in variables.
    pub(super) sums: HashMap<ExternId, Variable>,
    /// Variable with 1 after a checksum error found inline, and true if helpers verify other
    /// checksums.
    pub(super) is_wrong: Variable,
    pub(super) verifies_by_helper: bool,
    /// Fields with inputs of the architecture that nothing else writes.
    pub(super) told: HashMap<FieldId, PassInput>,
    /// Exit blocks of packets that leave the fast path.
    pub(super) exits: Vec<Exit>,
    /// True if no path can use up the work budget.
    pub(super) has_work: bool,
    /// Deferred emits of the current deparser, if it defers them, and true if it always reaches all
    /// of them.
    pub(super) emits: Option<Vec<Emit>>,
    pub(super) always_emits: bool,
    /// Egress port of the last [`FastPathStep::Enqueue`], and the number of its significant bits.
    pub(super) egress: Variable,
    egress_bits: u32,
    /// Fields that the architecture reads at the end.
    pub(super) kept: Vec<FieldId>,
}

/// Operations that issue a request to the device ([`FastPathTest::Asked`]).
const ASKING: &[Op] = &[
    Op::Clone,
    Op::Resubmit,
    Op::Recirculate,
    Op::Truncate,
    Op::MirrorPacket,
    Op::RecirculatePacket,
    Op::PerfEventOutput,
    Op::Native,
    Op::Remote,
    Op::SendFrame,
];

/// Operations that notify the device. The device handles notifications after the packet is
/// finished.
const TELLING: &[Op] = &[Op::DigestSend, Op::LogMessage, Op::Assert, Op::Assume];

/// Operations that may draw random numbers. Hashes can be random.
const DRAWING: &[Op] = &[
    Op::RandomBetween,
    Op::RandomRead,
    Op::Hash,
    Op::HashGet,
    Op::HashGetBase,
    Op::UpdateChecksum,
    Op::UpdateChecksumWithPayload,
    Op::VerifyChecksum,
    Op::VerifyChecksumWithPayload,
    Op::ChecksumGet,
    Op::Native,
    Op::Remote,
];

/// Further operations that write [`exec::Requests`].
const REQUESTING: &[Op] = &[
    Op::VerifyChecksum,
    Op::VerifyChecksumWithPayload,
    Op::MarkToDrop,
    Op::MarkToPass,
    Op::DropPacket,
    Op::SendToPort,
];

/// Returns true if an operation issues a request or a notification to the device.
pub(super) fn asks_or_tells(op: Op) -> bool {
    ASKING.contains(&op) || TELLING.contains(&op)
}

/// Parts of a packet's context that must be prepared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FastPathUses {
    /// Requests.
    pub(crate) may_request: bool,
    /// Random numbers.
    pub(crate) may_draw: bool,
    /// Running checksums.
    pub(crate) has_checksums: bool,
}

impl FastPathUses {
    /// Returns the parts that a program uses.
    pub(crate) fn of(program: &ir::Program) -> FastPathUses {
        let FieldAllocation {
            ops,
            sums_by_helper,
            ..
        } = FieldAllocation::of(program, &[], std::iter::empty());
        let uses = |all: &[Op]| all.iter().any(|op| ops.contains(op));
        let is_checksum = |(id, instance): (ExternId, &Extern)| match instance.kind {
            ExternKind::Checksum { .. } => true,
            ExternKind::InternetChecksum => sums_by_helper.contains(&id),
            _ => false,
        };
        FastPathUses {
            may_request: uses(ASKING) || uses(REQUESTING),
            // A selector's hash may be random too.
            may_draw: uses(DRAWING) || program.tables.values().any(|t| t.implementation.is_some()),
            has_checksums: program.externs.iter().any(is_checksum),
        }
    }
}

/// Returns true if an input of the architecture has the same value at all steps of a packet.
pub(super) fn stays(input: PassInput) -> bool {
    matches!(
        input,
        PassInput::Constant(_)
            | PassInput::IngressPort
            | PassInput::ReceivedLength
            | PassInput::Nanos
            | PassInput::Micros
    )
}

impl Translator<'_> {
    /// Translates a fast path: a loop over the packets of a burst. The function returns the number
    /// of packets that have an outcome. Returns the match stages that use lookup results of
    /// prefetch passes.
    pub(super) fn pass(mut self, pass: &FastPath) -> Result<PrefetchedStages, Unsupported> {
        let common_end = self.end;
        let ended = self.b.create_block();
        self.b.append_block_param(ended, I64);
        let homes = self.homes(pass).in_pass(self.program);
        self.begin_fusing(pass, homes, ended);
        let begin = self.begin_burst();
        self.begin_packet();
        for (number, step) in pass.steps.iter().enumerate() {
            if !self.is_live {
                break;
            }
            self.step(number as u32, step)?;
        }
        if self.is_live {
            self.send();
        }
        self.end_packet(begin, ended);
        self.exits();
        self.end_burst(begin, common_end);
        self.b.finalize();
        let scouting = self.fused.map(|fused| fused.scouting);
        Ok(scouting.map_or_else(PrefetchedStages::new, |scouting| scouting.sites))
    }

    /// Returns the allocation of fields with as many in variables as possible.
    pub(super) fn homes(&self, pass: &FastPath) -> FieldAllocation {
        FieldAllocation::of(self.program, &self.code.headers, written_by(pass))
    }

    pub(super) fn begin_fusing(&mut self, pass: &FastPath, homes: FieldAllocation, ended: Block) {
        let mut variables = HashMap::new();
        let mut in_frame: Vec<(Slot, u32)> = Vec::new();
        for (id, field) in self.program.fields.iter() {
            let slot = self.slot(id);
            let limbs = limbs_of(field.ty);
            if homes.in_variables.contains(&id) {
                for slot in slot..slot + limbs {
                    variables.insert(slot, self.declare());
                }
                continue;
            }
            add_run(&mut in_frame, slot, limbs);
        }
        let places = self.places(&homes);
        let scouting = PrefetchPlan::of(self.program, pass, &self.code.headers, &homes);
        let written: HashSet<FieldId> = written_by(pass).collect();
        let offsets = Offsets::new(&mut self.b, homes.tracked.iter().copied());
        let mut header_sum = || HeaderSum {
            sum: self.b.declare_var(I64),
            is_known: self.b.declare_var(I64),
        };
        let header_sums = offsets
            .headers()
            .map(|header| (header, header_sum()))
            .collect();
        let pipeline = &self.program.pipeline;
        let lists = pipeline
            .field_lists
            .values()
            .flat_map(|fields| fields.iter().copied());
        let transfers = pipeline
            .transfers
            .iter()
            .flat_map(|transfer| transfer.from.iter().copied());
        let kept = lists
            .chain(transfers)
            .chain(pipeline.intrinsics.values().copied())
            .collect();
        self.fused = Some(FastPathContext {
            homes,
            variables,
            offsets,
            header_sums,
            summed: HashMap::new(),
            in_frame,
            bytes_stand: true,
            is_flat: false,
            late: DeferredLoads::default(),
            has_parsed: false,
            scouting,
            at: self.b.declare_var(I64),
            flags: self.b.declare_var(I64),
            frame: self.b.declare_var(I64),
            received: self.b.declare_var(I64),
            ended,
            places,
            written: written.clone(),
            written_before: written,
            sums: HashMap::new(),
            is_wrong: self.b.declare_var(I64),
            verifies_by_helper: false,
            told: HashMap::new(),
            exits: Vec::new(),
            has_work: has_work(self.program, self.budget, pass),
            emits: None,
            always_emits: false,
            egress: self.b.declare_var(I64),
            egress_bits: 0,
            kept,
        });
        self.running_sums();
        self.find_levels(pass);
        let is_flat = self.all_are_flat();
        if let Some(fused) = self.fused.as_mut() {
            fused.is_flat = is_flat;
        }
    }

    /// Clears all fields, header offsets and checksum errors.
    pub(super) fn all_zero(&mut self) {
        let Some(fusing) = self.fused.as_mut() else {
            return;
        };
        fusing.bytes_stand = true;
        fusing.has_parsed = false;
        fusing.written.clone_from(&fusing.written_before);
        fusing.told.clear();
        fusing.summed.clear();
        let sums = fusing.header_sums.values();
        let sums: Vec<Variable> = sums.flat_map(|kept| [kept.sum, kept.is_known]).collect();
        let in_frame = fusing.in_frame.clone();
        let variables: Vec<Variable> = fusing.variables.values().copied().collect();
        let is_wrong = fusing.is_wrong;
        let zero = self.number(0);
        self.b.def_var(is_wrong, zero);
        for variable in variables.into_iter().chain(sums) {
            self.b.def_var(variable, zero);
        }
        self.forget_offsets();
        for (slot, limbs) in in_frame {
            self.clear(slot, limbs);
        }
        self.b.def_var(self.cursor, zero);
        self.b.def_var(self.emitted, zero);
        self.clear_sums();
    }

    /// Records the fields that the block of a step may write.
    fn note_written(&mut self, step: &FastPathStep) {
        let written = match step {
            FastPathStep::Parse { parser, .. } => written_in_parser(self.program, *parser),
            FastPathStep::Control(control) | FastPathStep::Deparse(control) => {
                written_in_control(self.program, *control)
            }
            _ => return,
        };
        if let Some(fusing) = self.fused.as_mut() {
            fusing.written.extend(written);
        }
    }

    fn scouts_for(&mut self, control: Option<ControlId>) {
        if let Some(fusing) = self.fused.as_mut() {
            fusing.scouting.control = control;
        }
    }

    pub(super) fn step(&mut self, number: u32, step: &FastPathStep) -> Result<(), Unsupported> {
        self.note_written(step);
        match step {
            FastPathStep::Set(field, input) => self.set(*field, *input),
            FastPathStep::Copy { from, to } => self.copy_field(*from, *to),
            FastPathStep::Parse { parser, errors } => {
                let after = self.begin_code();
                self.begin_parser(*parser);
                self.parser(*parser)?;
                self.shared_bodies()?;
                self.end_parser(after, errors);
                self.end_late();
            }
            FastPathStep::Control(control) => {
                let after = self.begin_code();
                self.scouts_for(Some(*control));
                self.control(*control)?;
                self.scouts_for(None);
                self.shared_bodies()?;
                self.end_control(after, |_| ());
            }
            FastPathStep::Deparse(control) => self.deparse(*control)?,
            FastPathStep::Carry(pairs) => self.carry(pairs),
            FastPathStep::DropIf(test, reason) => {
                let outcome = Outcome::Drop(*reason);
                if let Some(truth) = self.holds(*test) {
                    self.return_if(truth, |this| this.return_with(outcome.number()));
                }
            }
            FastPathStep::LeaveIf(test) => {
                if let Some(truth) = self.holds(*test) {
                    self.return_if(truth, |this| this.leave(number));
                }
            }
            FastPathStep::SendFrame => self.send_requested_frame(),
            FastPathStep::Enqueue(port) => self.enqueue(number, *port),
            FastPathStep::Send => self.send(),
        }
        Ok(())
    }

    /// Begins a block of the program. Returns the block where its translation continues afterwards.
    pub(super) fn begin_code(&mut self) -> Block {
        if self.notes_current_entry() {
            self.help(Helper::BeginBlock, &[]);
        }
        let after = self.b.create_block();
        self.done = Some(after);
        self.end = self.b.create_block();
        self.b.append_block_param(self.end, I64);
        after
    }

    /// Defers loads of fields in the first parser since all fields were cleared.
    fn begin_parser(&mut self, parser: ParserId) {
        let has_parsed = self
            .fused
            .as_mut()
            .is_some_and(|fusing| std::mem::replace(&mut fusing.has_parsed, true));
        if !has_parsed {
            self.begin_late(parser);
        }
    }

    /// Returns true if the context may hold the entry of an earlier table, and some operation uses
    /// it.
    fn notes_current_entry(&self) -> bool {
        let Some(fused) = &self.fused else {
            return false;
        };
        let asks = |&op: &Op| is_about_current(self.program, op);
        fused.homes.ops.iter().any(asks) && !fused.is_flat
    }

    /// Returns true if all tables are applied by records alone, so that the context records no
    /// entry.
    fn all_are_flat(&self) -> bool {
        self.program.controls.values().all(|control| {
            let uses = Uses::of_control(self.program, control, self.costs);
            let tables = control
                .stages
                .values()
                .filter_map(|stage| match stage.kind {
                    StageKind::Match { table, .. } => Some(table),
                    _ => None,
                });
            tables.into_iter().all(|table| self.is_flat(table, &uses))
        })
    }

    pub(super) fn calls(&self, op: Op) -> bool {
        self.fused
            .as_ref()
            .is_some_and(|f| f.homes.ops.contains(&op))
    }

    /// Ends a control. An abnormal end drops the packet, after `forget` has discarded partial
    /// results.
    pub(super) fn end_control(&mut self, after: Block, forget: impl FnOnce(&mut Self)) {
        self.jump(after);
        self.start_end();
        let number = self.b.block_params(self.end)[0];
        self.leave_atomic_code();
        forget(self);
        self.return_number(number);
        self.start_after(after);
    }

    /// Discards the emitted bits, so that the buffer is empty for the next packet.
    pub(super) fn forget_emitted(&mut self) {
        self.show_emitted();
        self.help(Helper::ForgetEmitted, &[]);
    }

    /// Ends a parser. A rejected packet continues with its error set, as an accepted one does
    /// without error. Any other end drops the packet.
    fn end_parser(&mut self, accepted: Block, errors: &[FieldId]) {
        self.jump(accepted);
        self.start_end();
        let number = self.b.block_params(self.end)[0];
        let (rejected, dropped) = (self.b.create_block(), self.cold_block());
        let after = self.b.create_block();
        let is_drop = self.b.ins().icmp_imm(
            IntCC::UnsignedGreaterThanOrEqual,
            number,
            Outcome::DROP_FLAG as i64,
        );
        self.branch(is_drop, dropped, rejected);
        self.start_sealed(dropped);
        match self.is_ahead() {
            // Later prefetch passes load the saved fields of every packet.
            true => self.jump(after),
            false => {
                self.leave_atomic_code();
                self.return_number(number);
            }
        }
        self.start_sealed(rejected);
        let error = self.b.ins().band_imm(number, i64::from(u32::MAX));
        for &field in errors {
            self.set_value(field, error);
        }
        self.jump(after);
        self.start_sealed(accepted);
        let no_error = self.number(0);
        for &field in errors {
            self.set_value(field, no_error);
        }
        self.jump(after);
        self.start_after(after);
    }

    fn start_end(&mut self) {
        self.b.seal_block(self.end);
        self.start(self.end);
    }

    fn start_after(&mut self, after: Block) {
        self.done = None;
        self.start_sealed(after);
        self.leave_atomic_code();
    }

    /// Leaves `@atomic` code that an exit has left open.
    fn leave_atomic_code(&mut self) {
        if self.fused.as_ref().is_some_and(|f| f.homes.has_atomic) {
            self.help(Helper::EndAtomic, &[]);
        }
    }

    fn set(&mut self, field: FieldId, input: PassInput) {
        let is_home = self.home(self.slot(field)).is_some();
        if let Some(fusing) = self.fused.as_mut()
            && (stays(input) && is_home && fusing.homes.only_told.contains(&field))
        {
            fusing.told.insert(field, input);
            return;
        }
        if let Some(fusing) = self.fused.as_mut() {
            fusing.told.remove(&field);
        }
        let value = self.given(input);
        let width = self.program.fields.get(field).map_or(0, |f| f.ty.width());
        match (input, self.fused.as_ref().map(|fusing| fusing.egress_bits)) {
            (PassInput::EgressPort, Some(bits)) if bits <= width => {
                self.store_slots(self.slot(field), &[value]);
            }
            _ => self.set_value(field, value),
        }
    }

    pub(super) fn given(&mut self, input: PassInput) -> Value {
        match input {
            PassInput::Constant(value) => self.number(value),
            PassInput::IngressPort => self.ingress(),
            PassInput::IsHostPort => self.help(Helper::IsHostPort, &[]),
            PassInput::EgressPort => self.egress(),
            PassInput::ReceivedLength => self.received_length(),
            PassInput::Length => self.help(Helper::FrameLength, &[]),
            PassInput::Nanos => self.load_constant(offset::NANOS),
            PassInput::Micros => self.load_constant(offset::MICROS),
            PassInput::ChecksumError => self.checksum_error(),
        }
    }

    /// Returns the first limb of a field that is an input of the architecture. The other limbs are
    /// zero.
    pub(super) fn told(&mut self, slot: Slot) -> Option<Value> {
        let fusing = self.fused.as_ref().filter(|f| !f.told.is_empty())?;
        let told = fusing.told.iter().find(|(field, _)| {
            let limbs = self
                .program
                .fields
                .get(**field)
                .map_or(0, |f| limbs_of(f.ty));
            (self.slot(**field)..self.slot(**field) + limbs).contains(&slot)
        });
        let (&field, &input) = told?;
        if self.slot(field) != slot {
            return Some(self.number(0));
        }
        let value = self.given(input);
        let width = self.program.fields.get(field).map_or(0, |f| f.ty.width());
        Some(self.cut(value, width.min(64)))
    }

    /// Writes the low bits of a number into a field's first limb.
    pub(super) fn set_value(&mut self, field: FieldId, value: Value) {
        let width = self.program.fields.get(field).map_or(0, |f| f.ty.width());
        let value = self.cut(value, width.min(64));
        let slot = self.slot(field);
        self.store_slots(slot, &[value]);
    }

    pub(super) fn received_length(&mut self) -> Value {
        match self.fused.as_ref().map(|fusing| fusing.received) {
            Some(received) => self.b.use_var(received),
            None => self.number(0),
        }
    }

    pub(super) fn egress(&mut self) -> Value {
        match self.fused.as_ref().map(|fusing| fusing.egress) {
            Some(egress) => self.b.use_var(egress),
            None => self.number(0),
        }
    }

    /// Copies a field. Writes only as many limbs as the destination has.
    fn copy_field(&mut self, from: FieldId, to: FieldId) {
        let value = self.load_field_for(from, to);
        self.store_slots(self.slot(to), &value);
    }

    /// Returns the limbs of a field, as many as the destination has.
    fn load_field_for(&mut self, from: FieldId, to: FieldId) -> Vec<Value> {
        let limbs = |field| self.program.fields.get(field).map_or(0, |f| limbs_of(f.ty));
        let limbs = limbs(from).min(limbs(to));
        self.load_slots(self.slot(from), limbs)
    }

    fn carry(&mut self, pairs: &[(FieldId, FieldId)]) {
        let mut values = Vec::with_capacity(pairs.len());
        for (from, to) in pairs {
            values.push(self.load_field_for(*from, *to));
        }
        self.all_zero();
        self.if_begun(|this| {
            this.help(Helper::BeginPass, &[]);
        });
        for ((_, to), value) in pairs.iter().zip(values) {
            let slot = self.slot(*to);
            self.store_slots(slot, &value);
        }
    }

    /// Translates `work` for packets with a prepared context, which are few.
    fn if_begun(&mut self, work: impl FnOnce(&mut Self)) {
        let flags = self.flags();
        let has_begun = self.b.ins().band_imm(flags, flags::BEGUN as i64);
        let (begun, after) = (self.cold_block(), self.b.create_block());
        self.branch(has_begun, begun, after);
        self.start_sealed(begun);
        work(self);
        self.jump(after);
        self.start_sealed(after);
    }

    /// Returns a test as a truth value, or none if it never holds.
    fn holds(&mut self, test: FastPathTest) -> Option<Value> {
        let compare = |this: &mut Self, field: FieldId, value: u64, code: IntCC| {
            let slot = this.slot(field);
            let left = this.load_slots(slot, 1)[0];
            let right = this.number(value);
            this.b.ins().icmp(code, left, right)
        };
        match test {
            FastPathTest::Equals(field, value) => Some(compare(self, field, value, IntCC::Equal)),
            FastPathTest::Differs(field, value) => {
                Some(compare(self, field, value, IntCC::NotEqual))
            }
            FastPathTest::Asked => {
                let asks = ASKING.iter().any(|op| self.calls(*op));
                asks.then(|| self.has_asked())
            }
        }
    }

    /// Returns a truth value that is set if the packet has issued a request. Few packets call such
    /// an operation.
    fn has_asked(&mut self) -> Value {
        let (ask, after) = (self.cold_block(), self.b.create_block());
        let asked = self.b.append_block_param(after, I64);
        let flags = self.flags();
        let may_have = self.b.ins().band_imm(flags, flags::ASKED as i64);
        let none = self.number(0);
        self.b
            .ins()
            .brif(may_have, ask, &[], after, &[BlockArg::Value(none)]);
        self.start_sealed(ask);
        let told = self.help(Helper::Asked, &[]);
        self.jump_with(after, &[told]);
        self.start_sealed(after);
        self.is_set(asked)
    }

    /// Finishes packets that the program sends as frames of a split program.
    fn send_requested_frame(&mut self) {
        if !self.calls(Op::SendFrame) {
            return;
        }
        let flags = self.flags();
        let may_have = self.b.ins().band_imm(flags, flags::ASKED as i64);
        let (ask, after) = (self.cold_block(), self.b.create_block());
        self.branch(may_have, ask, after);
        self.start_sealed(ask);
        let outcome = self.help(Helper::FinishFrame, &[]);
        self.return_if(outcome, |this| this.return_number(outcome));
        self.jump(after);
        self.start_sealed(after);
    }

    fn enqueue(&mut self, step: u32, port: FastPathPort) {
        let (port, bits) = match port {
            FastPathPort::Field(field) => {
                let slot = self.slot(field);
                let port = self.load_slots(slot, 1)[0];
                let width = self.program.fields.get(field).map_or(64, |f| f.ty.width());
                match width <= u32::BITS {
                    true => (port, width),
                    false => (self.cut(port, u32::BITS), u32::BITS),
                }
            }
            FastPathPort::Destination => {
                let port = self.help(Helper::Destination, &[]);
                let is_dropped =
                    self.b
                        .ins()
                        .icmp_imm(IntCC::UnsignedGreaterThan, port, i64::from(u32::MAX));
                self.return_if(is_dropped, |this| this.return_number(port));
                (port, u32::BITS)
            }
        };
        let flags = self.flags();
        let busy = self.b.ins().band_imm(flags, flags::ANY_BUSY as i64);
        let (ask, free) = (self.cold_block(), self.b.create_block());
        self.branch(busy, ask, free);
        self.start_sealed(ask);
        let is_busy = self.help(Helper::IsBusy, &[port]);
        self.return_if(is_busy, |this| this.leave(step));
        self.jump(free);
        self.start_sealed(free);
        if let Some(fusing) = &mut self.fused {
            self.b.def_var(fusing.egress, port);
            fusing.egress_bits = bits;
        }
    }

    fn send(&mut self) {
        let port = self.egress();
        let number = self.b.ins().bor_imm(port, PackedOutcome::SENT as i64);
        self.return_number(number);
    }

    /// Translates `end` for packets for which the condition holds, and continues otherwise.
    pub(super) fn return_if(&mut self, truth: Value, end: impl FnOnce(&mut Self)) {
        let (ends, goes_on) = (self.cold_block(), self.b.create_block());
        self.branch(truth, ends, goes_on);
        self.start_sealed(ends);
        end(self);
        self.start_sealed(goes_on);
    }

    fn return_with(&mut self, number: u64) {
        let number = self.number(number);
        self.return_number(number);
    }

    /// Finishes the packet with this outcome.
    pub(super) fn return_number(&mut self, number: Value) {
        if let Some(ended) = self.fused.as_ref().map(|fusing| fusing.ended) {
            self.jump_with(ended, &[number]);
        }
    }
}

/// Maximum number of slots between two runs that are cleared needlessly to save a helper call.
const MAX_BETWEEN: u32 = 64;

/// Adds slots to the runs that are cleared for each packet. A short gap after a long run is cleared
/// too. It has slots that are held in variables.
fn add_run(runs: &mut Vec<(Slot, u32)>, slot: Slot, limbs: u32) {
    if let Some((first, count)) = runs.last_mut() {
        let between = slot - (*first + *count);
        if between == 0 || (is_cleared_by_helper(*count) && between <= MAX_BETWEEN) {
            *count += between + limbs;
            return;
        }
    }
    runs.push((slot, limbs));
}

/// Returns the fields that the architecture writes.
fn written_by(pass: &FastPath) -> impl Iterator<Item = FieldId> + '_ {
    pass.steps.iter().flat_map(|step| match step {
        FastPathStep::Set(field, _) => vec![*field],
        FastPathStep::Copy { to, .. } => vec![*to],
        FastPathStep::Parse { errors, .. } => errors.clone(),
        FastPathStep::Carry(pairs) => pairs.iter().map(|(_, to)| *to).collect(),
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_is_cleared_too_where_a_helper_clears() {
        let runs = |slots: &[(Slot, u32)]| {
            let mut runs = Vec::new();
            slots
                .iter()
                .for_each(|&(slot, limbs)| add_run(&mut runs, slot, limbs));
            runs
        };
        assert_eq!(runs(&[(0, 2), (2, 3), (7, 1)]), [(0, 5), (7, 1)]);
        assert_eq!(runs(&[(0, 17), (17 + 64, 1)]), [(0, 17 + 64 + 1)]);
        assert_eq!(runs(&[(0, 17), (17 + 65, 1)]), [(0, 17), (17 + 65, 1)]);
    }
}

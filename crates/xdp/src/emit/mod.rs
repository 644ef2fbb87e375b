//! Emission of a program: from IR and a fast path to eBPF.
//!
//! All values of a packet are in one piece of memory for each processor (`Scratch`): its fields in
//! the order of [`Layout`], then the parts of [`Memory`]. So the verifier follows no values but
//! addresses, and paths that meet again are the same for it.
//!
//! What a packet counts is noted in that memory and applied at its end, as are the changes of the
//! frame. So a packet may leave at any place, and starts again in user space from the frame as it
//! was received.

mod call;
mod completeness;
mod control;
mod deparse;
mod expr;
mod parser;
mod table;

use std::collections::HashMap;

use bits::IdSet;
use exec::{
    DropReason, FastPath, FastPathPort, FastPathStep, FastPathTest, ParserErrors, PassInput,
    Unsupported,
};
use ir::{ActionId, Arch, ExternId, FieldId, LabelId, Layout, Loc, Program, TableId};
use support::work::checkpoint;

use crate::assembler::{
    Alu, Assembler, Bytecode, Helper, Label, MapName, R0, R1, R2, R3, R4, R6, R9, Register, Size,
    When,
};
use crate::reads::fields_read;
use crate::shape::{Shapes, inputs, traffic};

/// Largest number of bytes of a packet's memory: addresses are offsets of 16 bits, and the kernel
/// gives at most 32 KiB for each processor.
const MAX_MEMORY: u32 = 32_000;

/// Number of limbs for intermediate values.
const TEMPORARIES: u32 = 64;

/// Largest number of bytes that a deparser may emit.
const MAX_EMITTED: u32 = 2048;

/// Largest offset of a byte that a parser reads.
pub(crate) const MAX_PARSED: i32 = 0x3fff;

/// Number of bytes before the frame in a test run. The kernel keeps 14 bytes of every frame, and
/// tests have shorter ones.
pub(crate) const TEST_PREFIX: usize = 32;

/// Result of a test run: a number of three bits, then a port, a reason or a place.
pub(crate) mod outcome {
    pub(crate) const SENT: u64 = 4;
    pub(crate) const DROPPED: u64 = 1;
    pub(crate) const LEFT: u64 = 2;
}

/// XDP results.
mod verdict {
    pub(super) const ABORTED: u64 = 0;
    pub(super) const DROP: u64 = 1;
    pub(super) const PASS: u64 = 2;
    pub(super) const REDIRECT: u64 = 4;
}

/// End of a packet's way in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The result reports what became of the packet, for a test run.
    Report,
    /// The packet is redirected to a port or to its queue's AF_XDP socket. It came in at this port.
    Redirect {
        /// The ingress port.
        ingress: u32,
        /// True if the checksums of frames may be left to the interface.
        may_be_incomplete: bool,
    },
}

/// Place at which packets leave the kernel part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The construct that the kernel part does not do, in the user's terms.
    pub construct: String,
    /// Source position of the construct.
    pub loc: Option<Loc>,
}

/// Code of a program, with its maps.
#[derive(Clone, Debug)]
pub struct KernelCode {
    /// The instructions.
    pub code: Bytecode,
    /// Places at which packets leave.
    pub leaves: Vec<Leave>,
    /// Number of bytes of a packet's memory.
    pub scratch_bytes: u32,
    /// Most units of work that a packet uses.
    pub work: u32,
}

/// The construct that cannot be emitted.
type Construct = String;

/// Result of emitting a statement or expression.
type Emitted<T = ()> = Result<T, Construct>;

/// Parts of a packet's memory after its fields. Each is an offset.
struct Memory {
    /// Number of parsed bytes.
    cursor: i16,
    /// Length of the received frame.
    length: i16,
    /// Number of emitted bytes.
    emitted: i16,
    /// Egress port.
    egress: i16,
    checksum_error: i16,
    /// Device time in nanoseconds.
    now: i16,
    /// Key of the table being searched, or index of the counter being counted.
    key: i16,
    temporaries: i16,
    /// Emitted bytes.
    buffer: i16,
}

/// Effect that is applied when the packet is finished.
enum Effect {
    /// A row of a map: the cell holds its number plus one, or zero.
    Count { map: MapName, cell: i16 },
}

/// Emitter of one program.
pub(crate) struct Emitter<'p> {
    program: &'p Program,
    layout: &'p Layout,
    shapes: &'p Shapes,
    ending: Ending,
    asm: Assembler,
    memory: Memory,
    /// Number of bytes of memory in use.
    used: u32,
    /// Cells that are zero at the start.
    zeroed: Vec<i16>,
    effects: Vec<Effect>,
    leaves: Vec<Leave>,
    leave: Label,
    /// Labels at which packets leave, with the number of the place.
    pending: Vec<(Label, usize)>,
    /// Label for what cannot happen: the packet is dropped as aborted.
    aborted: Label,
    /// Temporaries in use by the current statement.
    temporaries: u32,
    /// Offset of the parameters of the action that is being emitted.
    params: Vec<Vec<i16>>,
    /// Actions that are being emitted, the innermost one last.
    actions: Vec<ActionId>,
    enclosing: HashMap<LabelId, Label>,
    /// Label of the end of the current block.
    block_end: Label,
    /// Label of the rejection in the current parser; the error is in `R0`.
    reject: Label,
    errors: ParserErrors,
    /// Fields that the program may read.
    reads: IdSet<FieldId>,
    loc: Option<Loc>,
    is_deparsed: bool,
}

/// Emits a program.
///
/// # Errors
/// The program as a whole has no form in eBPF.
pub(crate) fn emit(
    program: &Program,
    layout: &Layout,
    shapes: &Shapes,
    pass: &FastPath,
    ending: Ending,
) -> Result<KernelCode, Unsupported> {
    let unsupported = |construct: String| Unsupported {
        construct,
        loc: None,
    };
    if program.arch != Arch::V1model {
        return Err(unsupported("an architecture other than v1model".to_owned()));
    }
    if layout.limbs() * 8 + 8192 > MAX_MEMORY {
        return Err(unsupported("a program with so large headers".to_owned()));
    }
    let emitter = Emitter::new(program, layout, shapes, ending);
    emitter.whole(pass).map_err(unsupported)
}

impl<'p> Emitter<'p> {
    fn new(
        program: &'p Program,
        layout: &'p Layout,
        shapes: &'p Shapes,
        ending: Ending,
    ) -> Emitter<'p> {
        let mut asm = Assembler::default();
        let [leave, aborted, block_end, reject] = [(); 4].map(|()| asm.label());
        let mut used = layout.limbs() * 8;
        let mut take = |bytes: u32| {
            let offset = used as i16;
            used += bytes;
            offset
        };
        let memory = Memory {
            cursor: take(8),
            length: take(8),
            emitted: take(8),
            egress: take(8),
            checksum_error: take(8),
            now: take(8),
            key: take(256),
            temporaries: take(8 * TEMPORARIES),
            buffer: take(MAX_EMITTED + 256),
        };
        let zeroed = vec![
            memory.cursor,
            memory.emitted,
            memory.egress,
            memory.checksum_error,
        ];
        Emitter {
            program,
            layout,
            shapes,
            ending,
            asm,
            memory,
            used,
            zeroed,
            effects: Vec::new(),
            leaves: Vec::new(),
            leave,
            pending: Vec::new(),
            aborted,
            temporaries: 0,
            params: Vec::new(),
            actions: Vec::new(),
            enclosing: HashMap::new(),
            block_end,
            reject,
            errors: ParserErrors::of(program),
            reads: fields_read(program),
            loc: None,
            is_deparsed: false,
        }
    }

    fn whole(mut self, pass: &FastPath) -> Emitted<KernelCode> {
        let (main, zero, no_memory) = (self.asm.label(), self.asm.label(), self.asm.label());
        // A front program begins with the context in `R6`.
        if self.ending == Ending::Report {
            self.asm.copy(R6, R1);
        }
        self.memory_of_processor(no_memory);
        self.asm.jump(zero);
        self.asm.place(main);
        self.receive()?;
        for step in &pass.steps {
            checkpoint();
            self.step(step)?;
            if self.used > MAX_MEMORY {
                return Err("a program that needs more than 32 KiB for a packet".to_owned());
            }
        }
        for (label, number) in std::mem::take(&mut self.pending) {
            checkpoint();
            self.asm.place(label);
            self.asm.set(R0, number as u64);
            self.asm.jump(self.leave);
        }
        self.asm.place(self.aborted);
        self.drop(DropReason::Aborted);
        self.asm.place(self.leave);
        self.leave_kernel();
        self.asm.place(no_memory);
        self.asm.set(R0, verdict::ABORTED);
        self.asm.exit();
        self.asm.place(zero);
        for limb in 0..self.layout.limbs() {
            self.asm
                .store_number(Size::Double, R9, (limb * 8) as i16, 0);
        }
        for &cell in &self.zeroed {
            self.asm.store_number(Size::Double, R9, cell, 0);
        }
        self.asm.jump(main);
        let code = self.asm.finish();
        let code = code.ok_or_else(|| "a program with so far jumps".to_owned())?;
        Ok(KernelCode {
            code,
            leaves: self.leaves,
            scratch_bytes: self.used.next_multiple_of(8),
            work: work(self.program),
        })
    }

    /// Sets `R9` to the processor's memory.
    fn memory_of_processor(&mut self, none: Label) {
        // The key of an array is on the stack here: the memory is not known yet.
        self.asm.store_number(Size::Word, Register::STACK, -4, 0);
        self.asm.copy(R2, Register::STACK);
        self.asm.alu_number(Alu::Add, R2, -4);
        self.asm.set_map(R1, MapName::Scratch);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if_number(When::Equal, R0, 0, none);
        self.asm.copy(R9, R0);
    }

    /// Reads the frame's length, and the time.
    fn receive(&mut self) -> Emitted {
        self.asm.load(Size::Word, R1, R6, 0);
        self.asm.load(Size::Word, R0, R6, 4);
        self.asm.alu(Alu::Sub, R0, R1);
        self.asm.alu_number(Alu::Sub, R0, self.prefix());
        self.asm.store(Size::Double, R9, self.memory.length, R0);
        let closed = self.leave_label("a program that the kernel part does not run".to_owned());
        self.input(inputs::IS_OPEN, R1);
        self.asm.jump_if_number(When::Equal, R1, 0, closed);
        self.leave_if_incomplete();
        Ok(())
    }

    /// Returns the number of bytes before the frame.
    fn prefix(&self) -> i32 {
        match self.ending {
            Ending::Report => TEST_PREFIX as i32,
            Ending::Redirect { .. } => 0,
        }
    }

    /// Stores the device's time. The kernel's clock is an input only as far as the mask allows.
    fn read_clock(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.store(Size::Double, R9, self.memory.now, R0);
        self.input(inputs::CLOCK_MASK, R1);
        self.asm.load(Size::Double, R2, R9, self.memory.now);
        self.asm.alu(Alu::And, R2, R1);
        self.asm.load(Size::Double, R0, R0, inputs::CLOCK_OFFSET);
        self.asm.alu(Alu::Add, R0, R2);
        self.asm.store(Size::Double, R9, self.memory.now, R0);
    }

    /// Reads an input to a register. Its map is in `R0` afterwards.
    fn input(&mut self, input: i16, to: Register) {
        self.asm.store_number(Size::Word, R9, self.memory.key, 0);
        self.look_up(MapName::Inputs);
        self.asm.load(Size::Double, to, R0, input);
    }

    /// Looks up the key in memory, which the map has. `R0` is the value's address.
    fn look_up(&mut self, map: MapName) {
        self.look_up_or(map, self.aborted);
    }

    /// Looks up the key in memory. `R0` is the value's address.
    fn look_up_or(&mut self, map: MapName, missing: Label) {
        self.asm.set_map(R1, map);
        self.asm.copy(R2, R9);
        self.asm
            .alu_number(Alu::Add, R2, i32::from(self.memory.key));
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if_number(When::Equal, R0, 0, missing);
    }

    fn step(&mut self, step: &FastPathStep) -> Emitted {
        self.loc = None;
        match step {
            FastPathStep::Set(field, input) => self.set(*field, *input),
            FastPathStep::Copy { from, to } => {
                for limb in 0..ir::limbs_of(self.program.fields[*from].ty) {
                    self.load_field(R0, *from, limb);
                    self.store_field(*to, limb, R0);
                }
                Ok(())
            }
            FastPathStep::Parse { parser, errors } => self.parser(*parser, errors),
            FastPathStep::Control(control) => self.control(*control),
            FastPathStep::Deparse(control) => {
                if self.is_deparsed {
                    return Err("a program with two deparsers".to_owned());
                }
                self.is_deparsed = true;
                self.control(*control)
            }
            FastPathStep::Carry(_) => Err("a packet that is parsed twice".to_owned()),
            FastPathStep::DropIf(test, reason) => {
                let next = self.asm.label();
                self.test(*test, next)?;
                self.apply_effects();
                self.drop(*reason);
                self.asm.place(next);
                Ok(())
            }
            FastPathStep::LeaveIf(test) => self.leave_if(*test),
            // A statement that makes a request leaves by itself.
            FastPathStep::SendFrame => Ok(()),
            FastPathStep::Enqueue(FastPathPort::Field(field)) => {
                self.load_field(R0, *field, 0);
                self.asm.store(Size::Double, R9, self.memory.egress, R0);
                self.check_port();
                Ok(())
            }
            FastPathStep::Enqueue(FastPathPort::Destination) => {
                Err("a destination of PNA".to_owned())
            }
            FastPathStep::Send => {
                self.send();
                Ok(())
            }
        }
    }

    fn set(&mut self, field: FieldId, input: PassInput) -> Emitted {
        let ty = self.program.fields[field].ty;
        match input {
            PassInput::Constant(value) => self.asm.set(R0, value),
            PassInput::IngressPort => match self.ending {
                Ending::Report => {
                    self.input(inputs::INGRESS_PORT, R1);
                    self.asm.copy(R0, R1);
                }
                Ending::Redirect { ingress, .. } => self.asm.set(R0, ingress.into()),
            },
            PassInput::EgressPort => self.load_memory(R0, self.memory.egress),
            PassInput::ReceivedLength => self.load_memory(R0, self.memory.length),
            PassInput::Nanos | PassInput::Micros => {
                if !self.reads.contains(field) {
                    return Ok(());
                }
                self.read_clock();
                self.load_memory(R0, self.memory.now);
                if input == PassInput::Micros {
                    self.asm.alu_number(Alu::Div, R0, 1000);
                }
            }
            PassInput::ChecksumError => self.load_memory(R0, self.memory.checksum_error),
            PassInput::Length => {
                self.load_memory(R0, self.memory.length);
                self.load_memory(R1, self.memory.cursor);
                self.asm.alu(Alu::Sub, R0, R1);
                self.load_memory(R1, self.memory.emitted);
                self.asm.alu(Alu::Add, R0, R1);
            }
            PassInput::IsHostPort => return Err("the kind of a port".to_owned()),
        }
        self.asm.mask(R0, ty.width().min(64));
        self.store_field(field, 0, R0);
        Ok(())
    }

    /// Jumps to `otherwise` unless a test of the packet holds.
    fn test(&mut self, test: FastPathTest, otherwise: Label) -> Emitted {
        let (field, value, when) = match test {
            FastPathTest::Equals(field, value) => (field, value, When::Different),
            FastPathTest::Differs(field, value) => (field, value, When::Equal),
            FastPathTest::Asked => return Err("a test of requests".to_owned()),
        };
        self.load_field(R0, field, 0);
        self.asm.set(R1, value);
        self.asm.jump_if(when, R0, R1, otherwise);
        Ok(())
    }

    fn leave_if(&mut self, test: FastPathTest) -> Emitted {
        let (field, verb, value) = match test {
            FastPathTest::Equals(field, value) => (field, "is", value),
            FastPathTest::Differs(field, value) => (field, "is not", value),
            FastPathTest::Asked => return Ok(()),
        };
        let next = self.asm.label();
        self.test(test, next)?;
        let name = &self.program.fields[field].name;
        self.leave_for(format!("a packet of which {name} {verb} {value}"));
        self.asm.place(next);
        Ok(())
    }

    /// Packets for ports that are not on interfaces of the kernel part leave.
    fn check_port(&mut self) {
        if self.ending == Ending::Report {
            return;
        }
        let away = self.leave_label("a port to which the kernel part does not send".to_owned());
        self.load_memory(R0, self.memory.egress);
        self.asm.store(Size::Word, R9, self.memory.key, R0);
        self.look_up_or(MapName::Directed, away);
    }

    /// Changes the frame, applies the effects, and sends the packet.
    fn send(&mut self) {
        let sized = self.asm.label();
        if self.is_deparsed {
            self.load_memory(R2, self.memory.cursor);
            self.load_memory(R1, self.memory.emitted);
            self.asm.alu(Alu::Sub, R2, R1);
            self.asm.jump_if_number(When::Equal, R2, 0, sized);
            let no_room = self.leave_label("a frame without room for more headers".to_owned());
            self.asm.copy(R1, R6);
            self.asm.call(Helper::AdjustHead);
            self.asm.jump_if_number(When::Different, R0, 0, no_room);
            self.asm.place(sized);
            self.write_headers();
        }
        self.apply_effects();
        self.finish_sent();
    }

    /// Writes the emitted bytes to the start of the frame.
    fn write_headers(&mut self) {
        let (none, aborted) = (self.asm.label(), self.aborted);
        self.load_memory(R4, self.memory.emitted);
        // Verifiers before Linux 6.8 learn a least length from an order, not from an inequality.
        self.asm.jump_if_number(When::Below, R4, 1, none);
        self.asm
            .jump_if_number(When::Above, R4, MAX_EMITTED as i32, aborted);
        self.asm.copy(R1, R6);
        self.asm.set(R2, self.prefix() as u64);
        self.asm.copy(R3, R9);
        self.asm
            .alu_number(Alu::Add, R3, i32::from(self.memory.buffer));
        self.asm.call(Helper::StoreBytes);
        self.asm.jump_if_number(When::Different, R0, 0, aborted);
        self.asm.place(none);
    }

    fn finish_sent(&mut self) {
        match self.ending {
            Ending::Report => {
                self.load_memory(R0, self.memory.egress);
                self.asm.alu_number(Alu::Shl, R0, 3);
                self.asm.alu_number(Alu::Or, R0, outcome::SENT as i32);
                self.asm.exit();
            }
            Ending::Redirect { ingress, .. } => {
                self.count_received(ingress);
                let (past, refused) = (self.asm.label(), self.asm.label());
                self.asm.set_map(R1, MapName::Interfaces);
                self.load_memory(R2, self.memory.egress);
                self.asm.set(R3, verdict::ABORTED);
                self.asm.call(Helper::RedirectMap);
                self.asm
                    .jump_if_number(When::Different, R0, verdict::REDIRECT as i32, refused);
                self.load_memory(R0, self.memory.egress);
                self.asm.store(Size::Word, R9, self.memory.key, R0);
                self.look_up_or(MapName::Ports, past);
                self.asm.set(R1, 1);
                self.asm.add_to_memory(R0, traffic::SENT, R1);
                self.load_memory(R1, self.memory.length);
                self.load_memory(R2, self.memory.cursor);
                self.asm.alu(Alu::Sub, R1, R2);
                self.load_memory(R2, self.memory.emitted);
                self.asm.alu(Alu::Add, R1, R2);
                self.asm.add_to_memory(R0, traffic::SENT_BYTES, R1);
                self.asm.place(past);
                self.asm.set(R0, verdict::REDIRECT);
                self.asm.exit();
                // The kernel forgets an interface that is removed.
                self.asm.place(refused);
                self.count_one(MapName::Drops, DropReason::NoSuchPort.index() as i32);
                self.asm.set(R0, verdict::ABORTED);
                self.asm.exit();
            }
        }
    }

    /// Counts the packet at its ingress port.
    fn count_received(&mut self, ingress: u32) {
        let past = self.asm.label();
        self.asm
            .store_number(Size::Word, R9, self.memory.key, ingress as i32);
        self.look_up_or(MapName::Ports, past);
        self.asm.set(R1, 1);
        self.asm.add_to_memory(R0, traffic::RECEIVED, R1);
        self.load_memory(R1, self.memory.length);
        self.asm.add_to_memory(R0, traffic::RECEIVED_BYTES, R1);
        self.asm.place(past);
    }

    fn drop(&mut self, reason: DropReason) {
        let index = reason.index() as u64;
        match self.ending {
            Ending::Report => self.asm.set(R0, index << 3 | outcome::DROPPED),
            Ending::Redirect { ingress, .. } => {
                self.count_received(ingress);
                self.count_one(MapName::Drops, index as i32);
                self.asm.set(R0, verdict::DROP);
            }
        }
        self.asm.exit();
    }

    /// Adds one to an element of an array.
    fn count_one(&mut self, map: MapName, index: i32) {
        let past = self.asm.label();
        self.asm
            .store_number(Size::Word, R9, self.memory.key, index);
        self.look_up_or(map, past);
        self.asm.set(R1, 1);
        self.asm.add_to_memory(R0, 0, R1);
        self.asm.place(past);
    }

    /// Applies what the packet has noted.
    fn apply_effects(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        for Effect::Count { map, cell } in &effects {
            checkpoint();
            let past = self.asm.label();
            self.load_memory(R0, *cell);
            self.asm.jump_if_number(When::Equal, R0, 0, past);
            self.asm.alu_number(Alu::Sub, R0, 1);
            self.asm.store(Size::Word, R9, self.memory.key, R0);
            self.look_up_or(*map, past);
            self.asm.set(R1, 1);
            self.asm.add_to_memory(R0, 0, R1);
            self.load_memory(R1, self.memory.length);
            self.asm.add_to_memory(R0, 8, R1);
            self.asm.place(past);
        }
        self.effects = effects;
    }

    /// Emits the end of packets that leave. The number of the place is in `R0`.
    fn leave_kernel(&mut self) {
        match self.ending {
            Ending::Report => {
                self.asm.alu_number(Alu::Shl, R0, 3);
                self.asm.alu_number(Alu::Or, R0, outcome::LEFT as i32);
            }
            Ending::Redirect { .. } => {
                let past = self.asm.label();
                self.asm.store(Size::Word, R9, self.memory.key, R0);
                self.look_up_or(MapName::Leaves, past);
                self.asm.set(R1, 1);
                self.asm.add_to_memory(R0, 0, R1);
                self.asm.place(past);
                self.asm.set_map(R1, MapName::Sockets);
                // `struct xdp_md`: the queue.
                self.asm.load(Size::Word, R2, R6, 16);
                self.asm.set(R3, verdict::PASS);
                self.asm.call(Helper::RedirectMap);
            }
        }
        self.asm.exit();
    }

    /// Returns the number of a place at which packets leave.
    fn place_of(&mut self, construct: String) -> usize {
        let leave = Leave {
            construct,
            loc: self.loc,
        };
        let at = self.leaves.iter().position(|known| *known == leave);
        at.unwrap_or_else(|| {
            self.leaves.push(leave);
            self.leaves.len() - 1
        })
    }

    /// Emits code by which packets leave, because of this construct.
    fn leave_for(&mut self, construct: String) {
        let number = self.place_of(construct);
        self.asm.set(R0, number as u64);
        self.asm.jump(self.leave);
    }

    /// Returns a label at which packets leave for a reason that is no construct of the program.
    fn general_leave(&mut self, reason: &str) -> Label {
        let loc = self.loc.take();
        let label = self.leave_label(reason.to_owned());
        self.loc = loc;
        label
    }

    /// Returns a label at which packets leave.
    fn leave_label(&mut self, construct: String) -> Label {
        let label = self.asm.label();
        let number = self.place_of(construct);
        self.pending.push((label, number));
        label
    }

    /// Emits a part. If it has a construct without a form in eBPF, emits the code by which packets
    /// leave in its place.
    fn or_leave(&mut self, part: impl FnOnce(&mut Self) -> Emitted) {
        let position = self.asm.position();
        let (leaves, pending) = (self.leaves.len(), self.pending.len());
        let (params, actions) = (self.params.len(), self.actions.len());
        let (effects, block_end) = (self.effects.len(), self.block_end);
        if let Err(construct) = part(self) {
            self.asm.go_back(position);
            self.leaves.truncate(leaves);
            self.pending.truncate(pending);
            self.params.truncate(params);
            self.actions.truncate(actions);
            self.effects.truncate(effects);
            self.block_end = block_end;
            self.leave_for(construct);
        }
    }

    /// Allocates a cell of memory that is zero when a packet begins.
    fn zeroed_cell(&mut self) -> i16 {
        let cell = self.cells(1);
        self.zeroed.push(cell);
        cell
    }

    /// Allocates limbs of memory.
    fn cells(&mut self, limbs: u32) -> i16 {
        let offset = self.used.min(MAX_MEMORY) as i16;
        self.used += limbs * 8;
        offset
    }

    fn offset(&self, field: FieldId, limb: u32) -> i16 {
        ((self.layout.offset(field) + limb) * 8) as i16
    }

    fn load_field(&mut self, to: Register, field: FieldId, limb: u32) {
        let offset = self.offset(field, limb);
        self.load_memory(to, offset);
    }

    fn store_field(&mut self, field: FieldId, limb: u32, from: Register) {
        let offset = self.offset(field, limb);
        self.asm.store(Size::Double, R9, offset, from);
    }

    fn load_memory(&mut self, to: Register, offset: i16) {
        self.asm.load(Size::Double, to, R9, offset);
    }

    /// Cell for the row of a table or the index of a counter that a packet counts in.
    fn count_cell(&mut self, map: MapName) -> i16 {
        let cell = self.zeroed_cell();
        self.effects.push(Effect::Count { map, cell });
        cell
    }

    fn count_table(&mut self, table: TableId) -> i16 {
        self.count_cell(MapName::Rows(table))
    }

    fn count_extern(&mut self, instance: ExternId) -> i16 {
        self.count_cell(MapName::Counter(instance))
    }
}

/// Returns the most units of work that a packet uses in code without loops: each state once or,
/// where states repeat, as often as they are emitted.
fn work(program: &Program) -> u32 {
    let work = ir::work::Work::of(program);
    let states = program.parsers.values().flat_map(|p| p.states.values());
    let states = states.map(|state| work.state(state).saturating_mul(parser::MAX_ROUNDS + 1));
    let sum = states.fold(0u32, u32::saturating_add);
    let actions = program.actions.ids().map(|id| work.action(id));
    let actions = actions.fold(0u32, u32::saturating_add);
    sum.saturating_add(actions.saturating_mul(16))
        .saturating_add(work.controls())
}

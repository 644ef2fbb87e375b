//! Instructions and actions to IR code: one IR action for each shape.

use std::collections::BTreeSet;

use ir::{
    ActionParam, BinOp, DataTy, Expr, ExternId, FieldId, HashAlgorithm, LabelId, Op,
    Operand as CallOperand, ScalarTy, Stmt, StmtKind,
};

use super::Fault;
use super::action_set::ActionSet;
use super::expr::*;
use super::frame::Frame;
use super::layout::{At, Layout, MAX_PACKET, State, after, place_field};
use super::output::{InPlace, Outputs, packet_in};
use super::shape::{Operation, Shape, Step};
use crate::model::*;
use crate::tables::{TableNumber, jump_target};

/// Label of the block around a list with jumps.
const LIST: LabelId = LabelId::new(0);
/// Label of the loop in it.
const AGAIN: LabelId = LabelId::new(1);

/// Fields of the program that all code uses.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) frame: Frame,
    pub(super) outputs: Outputs,
    /// Number of the next table plus one; 0 for none.
    pub(super) next: FieldId,
    /// Index of the next entry of a LINEAR table.
    pub(super) index: FieldId,
    /// Ingress port.
    pub(super) port: FieldId,
    /// Number of the next instruction, in lists with jumps.
    pub(super) instruction: FieldId,
    /// A number of the current instruction.
    pub(super) scratch: FieldId,
    /// The sum of a checksum.
    pub(super) sum: FieldId,
    /// `standard_metadata.egress_spec`
    pub(super) egress_spec: FieldId,
    /// `standard_metadata.mcast_grp`
    pub(super) group: FieldId,
    /// Number of bytes that are parsed.
    pub(super) parsed: u32,
    /// Fields of a packet that is sent as it is, if there are such packets.
    pub(super) in_place: Option<InPlace>,
}

/// Width of the sum of a checksum.
pub(super) const SUM_BITS: u32 = 96;

/// Extern instances of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Externs {
    pub(super) counters: ExternId,
    pub(super) meters: ExternId,
    pub(super) faults: ExternId,
    pub(super) fault_counts: ExternId,
}

/// Way of a packet after a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// Nowhere, since no entry matched.
    Miss,
    /// To the action set.
    End,
    /// To this table.
    Table(TableNumber),
    /// To one of these tables or to the action set, as [`Fields::next`] says.
    Dynamic(BTreeSet<TableNumber>),
}

/// Code of a shape.
pub(super) struct ShapeCode {
    pub(super) params: Vec<ActionParam>,
    pub(super) body: Vec<Stmt>,
    pub(super) successor: Successor,
}

/// Place of a list in the program.
#[derive(Clone, Copy)]
pub(super) struct ListPlace {
    pub(super) table: TableNumber,
    pub(super) shape: usize,
    pub(super) direct_counter: ExternId,
}

/// Returns the code of a fault: the controllers get an error, and the packet is finished.
pub(super) fn fault(fault: Fault, table: TableNumber, externs: &Externs) -> Vec<Stmt> {
    let message = vec![bit(16, fault.code().code().into()), bit(8, table.0.into())];
    let index = vec![CallOperand::In(number(fault as u32))];
    vec![
        call(Op::CounterCount, Some(externs.fault_counts), index),
        call(
            Op::DigestSend,
            Some(externs.faults),
            vec![CallOperand::Data(message)],
        ),
        stmt(StmtKind::Exit),
    ]
}

/// Translates a shape.
pub(super) fn translate(
    shape: &Shape,
    place: ListPlace,
    layout: &Layout,
    fields: &Fields,
    externs: &Externs,
    set: &ActionSet,
) -> ShapeCode {
    let mut emitter = Emitter {
        place,
        set,
        stored: None,
        fields,
        externs,
        has_jumps: false,
        is_last: false,
        params: Vec::new(),
        tables: BTreeSet::new(),
        code: Vec::new(),
    };
    emitter.begin(shape);
    emitter.has_jumps = shape.steps.iter().any(|step| match step {
        Step::Plain(one) => matches!(
            one,
            Instruction::ConditionalJump { .. }
                | Instruction::Branch { .. }
                | Instruction::Jump { .. }
        ),
        _ => false,
    });
    let successor = match emitter.has_jumps {
        true => emitter.list_with_jumps(shape, layout),
        false => emitter.list(shape, layout),
    };
    ShapeCode {
        params: emitter.params,
        body: emitter.code,
        successor,
    }
}

/// Returns the code that runs the actions of the action set.
pub(super) fn run_action_set(set: &ActionSet, fields: &Fields, externs: &Externs) -> Vec<Stmt> {
    let mut code = Vec::new();
    for slot in &set.slots {
        for site in &slot.sites {
            let place = ListPlace {
                table: site.table,
                shape: 0,
                direct_counter: externs.counters,
            };
            let mut emitter = Emitter {
                place,
                set,
                stored: Some((slot.values, slot.width, 0)),
                fields,
                externs,
                has_jumps: false,
                is_last: false,
                params: Vec::new(),
                tables: BTreeSet::new(),
                code: Vec::new(),
            };
            for operation in &site.written.operations {
                emitter.operation(operation, State::ANYWHERE);
            }
            let mut is_chosen = is_equal(read(slot.chosen), number(site.number));
            if let Some(other) = slot.unless {
                let is_alone = is_equal(read(other), number(0));
                is_chosen = binary(BinOp::LogicalAnd, is_chosen, is_alone);
            }
            code.push(when(is_chosen, emitter.code));
        }
    }
    code
}

pub(super) struct Emitter<'a> {
    place: ListPlace,
    set: &'a ActionSet,
    /// The immediates of the action set's current action, their width, and the bits that were
    /// taken. Without them immediates are parameters.
    stored: Option<(FieldId, u32, u32)>,
    pub(super) fields: &'a Fields,
    externs: &'a Externs,
    /// True if the list may end in several ways, so that [`Fields::next`] says which.
    has_jumps: bool,
    /// True if no instruction after the current operation reads or changes the packet, or sends it.
    pub(super) is_last: bool,
    params: Vec<ActionParam>,
    tables: BTreeSet<TableNumber>,
    pub(super) code: Vec<Stmt>,
}

impl Emitter<'_> {
    /// Returns the next immediate. If it is a parameter, declares it.
    pub(super) fn param(&mut self, width: u32) -> Expr {
        if let Some((values, all, taken)) = &mut self.stored {
            *taken += width;
            return slice(read(*values), width, *all - *taken);
        }
        let index = self.params.len() as u32;
        self.params.push(ActionParam {
            name: format!("p{index}"),
            ty: ScalarTy::Bit(width),
            data_ty: DataTy::Bit(width),
            annotations: Vec::new(),
        });
        Expr::Param(index)
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.fields.frame
    }

    pub(super) fn fault(&self, reason: Fault) -> Vec<Stmt> {
        fault(reason, self.place.table, self.externs)
    }

    fn begin(&mut self, shape: &Shape) {
        let total = || CallOperand::In(read(self.fields.frame.total));
        let count = call(
            Op::DirectCounterCountLength,
            Some(self.place.direct_counter),
            vec![total()],
        );
        let own = shape.counts.then(total);
        self.code.push(count);
        if let Some(length) = own {
            let counter = CallOperand::In(self.param(NUMBER));
            self.code.push(call(
                Op::CounterCountLength,
                Some(self.externs.counters),
                vec![counter, length],
            ));
        }
    }

    fn list(&mut self, shape: &Shape, layout: &Layout) -> Successor {
        let mut successor = None;
        let end = self.set.slots.is_empty().then(|| last_use(&shape.steps));
        for (at, step) in shape.steps.iter().enumerate() {
            let state = layout.at_step(self.place.table, self.place.shape, at);
            let written = self.code.len();
            let next = self.step(step, at, state.unwrap_or(State::START), end);
            match successor {
                None => successor = next,
                // No packet gets here. Its parameters stay, since entries have them.
                Some(_) => self.code.truncate(written),
            }
        }
        successor.map_or(Successor::End, Successor::Table)
    }

    fn list_with_jumps(&mut self, shape: &Shape, layout: &Layout) -> Successor {
        let length = shape.steps.len();
        let current = self.fields.instruction;
        let mut before = std::mem::take(&mut self.code);
        let mut cases = Vec::new();
        for (at, step) in shape.steps.iter().enumerate() {
            let state = layout.at_step(self.place.table, self.place.shape, at);
            let state = state.unwrap_or(State::START);
            match step {
                Step::Plain(one) if self.jump(one, at, length, state) => {}
                step => {
                    let ends = self.step(step, at, state, None).is_some();
                    let next = if ends { length } else { at + 1 };
                    self.go_to(next);
                }
            }
            let is_current = is_equal(read(current), number(at as u32));
            cases.push(when(is_current, std::mem::take(&mut self.code)));
        }
        let is_over = binary(BinOp::Ge, read(current), number(length as u32));
        cases.push(when(is_over, vec![stmt(StmtKind::Leave(LIST))]));
        let again = stmt(StmtKind::Loop(AGAIN, cases));
        before.push(assign(self.fields.next, bit(16, 0)));
        before.push(assign(current, number(0)));
        before.push(stmt(StmtKind::Block(LIST, vec![again])));
        self.code = before;
        Successor::Dynamic(std::mem::take(&mut self.tables))
    }

    fn go_to(&mut self, instruction: usize) {
        let to = number(instruction as u32);
        self.code.push(assign(self.fields.instruction, to));
    }

    /// Emits a jump. Returns false for other instructions.
    fn jump(&mut self, one: &Instruction, at: usize, length: usize, state: State) -> bool {
        match one {
            Instruction::Jump {
                direction,
                distance,
            } => match jump_target(at + 1, *direction, *distance, length) {
                Some(target) => self.go_to(target),
                None => self.code.extend(self.fault(Fault::Jump)),
            },
            Instruction::Branch { left, right, skip } => {
                let (left, right) = self.compared(*left, right, state);
                let target = jump_target(at, Direction::Forward, *skip, length);
                let to =
                    |target: usize| vec![assign(self.fields.instruction, number(target as u32))];
                let unequal = target.map_or_else(|| self.fault(Fault::Jump), to);
                let equal = to(at + 1);
                self.code
                    .push(stmt(StmtKind::If(is_equal(left, right), equal, unequal)));
            }
            Instruction::ConditionalJump {
                left,
                right,
                less,
                equal,
                greater,
            } => {
                let (left, right) = self.compared(*left, right, state);
                let mut branch = |jump: &Jump| {
                    let before = std::mem::take(&mut self.code);
                    self.jump_by(jump, at, length, state);
                    std::mem::replace(&mut self.code, before)
                };
                let (less, equal, greater) = (branch(less), branch(equal), branch(greater));
                let is_equal = is_equal(left.clone(), right.clone());
                let otherwise = stmt(StmtKind::If(is_equal, equal, greater));
                let is_less = binary(BinOp::Lt, left, right);
                self.code
                    .push(stmt(StmtKind::If(is_less, less, vec![otherwise])));
            }
            _ => return false,
        }
        true
    }

    fn jump_by(&mut self, jump: &Jump, at: usize, length: usize, state: State) {
        let field = match jump.distance {
            Argument::Immediate(distance) => {
                match jump_target(at, jump.direction, distance, length) {
                    Some(target) => self.go_to(target),
                    None => self.code.extend(self.fault(Fault::Jump)),
                }
                return;
            }
            Argument::Field(field) => field,
        };
        let distance = self.operand_field(field, state);
        let here = number(at as u32);
        let (most, target) = match jump.direction {
            Direction::Forward => (length - at, add(here, distance.clone())),
            Direction::Backward => (at, sub(here, distance.clone())),
        };
        let is_outside = binary(BinOp::Gt, distance, number(most as u32));
        self.code.push(when(is_outside, self.fault(Fault::Jump)));
        self.code.push(assign(self.fields.instruction, target));
    }

    /// Emits the check that the packet has a field.
    fn guard(&mut self, field: Field, state: State) {
        if field.place() == Place::Packet {
            self.guard_bits(field.end(), state);
        }
    }

    pub(super) fn guard_bits(&mut self, bits: u32, state: State) {
        if state.surely_has(bits) {
            return;
        }
        let outside = self.fault(Fault::FieldOutside);
        match self.frame().has_bits(state.at, bits) {
            Some(is_inside) => self.code.push(when(not(is_inside), outside)),
            None => self.code.extend(outside),
        }
    }

    /// Returns a field of at most 32 bits as a number.
    pub(super) fn operand_field(&mut self, field: Field, state: State) -> Expr {
        self.guard(field, state);
        cast(NUMBER, self.frame().field(state.at, field))
    }

    /// Returns an operand as a number. An immediate is a parameter.
    fn operand(&mut self, operand: &Argument, state: State) -> Expr {
        match operand {
            Argument::Immediate(_) => self.param(NUMBER),
            Argument::Field(field) => self.operand_field(*field, state),
        }
    }

    fn compared(&mut self, left: Field, right: &Argument, state: State) -> (Expr, Expr) {
        let left = self.operand_field(left, state);
        (left, self.operand(right, state))
    }

    fn set(&mut self, field: Field, value: Expr, state: State) {
        self.guard(field, state);
        let code = self.frame().set_field(state.at, field, value);
        self.code.extend(code);
    }

    /// Emits a step that is no jump. Returns the table that it goes to. `last` is the step and the
    /// operation that use the packet last, if that is known.
    fn step(
        &mut self,
        step: &Step,
        at: usize,
        state: State,
        last: Option<(usize, usize)>,
    ) -> Option<TableNumber> {
        match step {
            Step::Apply(operations) => {
                let mut state = state;
                for (position, operation) in operations.iter().enumerate() {
                    self.is_last = last.is_some_and(|last| last <= (at, position));
                    self.operation(operation, state);
                    state = after(operation, state);
                }
                None
            }
            Step::Write(written) => {
                for position in 0..written.len() {
                    self.store(at, position);
                }
                None
            }
            Step::Plain(one) => self.instruction(one, state),
        }
    }

    /// Stores an action in the action set.
    fn store(&mut self, step: usize, position: usize) {
        let set = self.set;
        let position = (self.place.table, self.place.shape, step, position);
        let Some((slot, site)) = set.site(position) else {
            return;
        };
        let params: Vec<Expr> = site.widths.iter().map(|width| self.param(*width)).collect();
        let spare = slot.width - site.widths.iter().sum::<u32>();
        let parts = params.into_iter().map(Some);
        let values = join(parts.chain([(spare > 0).then(|| zeros(spare))]));
        self.code
            .extend(values.map(|values| assign(slot.values, values)));
        self.code.push(assign(slot.chosen, number(site.number)));
    }

    fn instruction(&mut self, one: &Instruction, state: State) -> Option<TableNumber> {
        match one {
            Instruction::GotoTable { table, offset, .. } => {
                self.move_offset(offset.cast_signed().into(), state);
                return Some(self.go_to_table(*table));
            }
            Instruction::GotoDirectTable {
                table,
                offset,
                index,
            } => {
                let by = offset.cast_signed().into();
                self.move_offset(by, state);
                let index = self.operand(index, state.moved(by).unwrap_or(state));
                self.code.push(assign(self.fields.index, index));
                return Some(self.go_to_table(*table));
            }
            Instruction::WriteMetadata { offset, length, .. } => {
                let value = self.param((*length).into());
                self.set(Field::metadata(*offset, *length), value, state);
            }
            Instruction::WriteMetadataFromPacket {
                metadata_offset,
                packet_offset,
                length,
            } => {
                let source = Field::packet(*packet_offset, *length);
                self.guard(source, state);
                let value = self.frame().field(state.at, source);
                self.set(Field::metadata(*metadata_offset, *length), value, state);
            }
            Instruction::Meter(_) => self.meter(),
            Instruction::CalculateField {
                operation,
                target,
                source,
            } => {
                let left = self.operand_field(*target, state);
                let right = self.operand(source, state);
                let value = calculate(*operation, left, right);
                let value = cast(target.length.into(), value);
                self.set(*target, value, state);
            }
            Instruction::MovePacketOffset {
                direction,
                distance,
            } => self.move_by(*direction, distance, state),
            Instruction::SetPacketOffset(offset) => {
                let (offset, at) = match offset {
                    Argument::Immediate(offset) if *offset <= MAX_PACKET => {
                        (number(*offset), At::Known(*offset))
                    }
                    Argument::Immediate(_) => {
                        self.code.extend(self.fault(Fault::FieldOutside));
                        return None;
                    }
                    Argument::Field(field) => {
                        (self.operand_field(*field, state), At::UpTo(MAX_PACKET))
                    }
                };
                self.set_offset(offset, state.looking_at(at));
            }
            Instruction::Compare {
                result,
                left,
                right,
            } => {
                let (left, right) = self.compared(*left, right, state);
                let choose = |cond, then, otherwise| {
                    Expr::Ternary(Box::new(cond), Box::new(then), Box::new(otherwise))
                };
                let is_less = binary(BinOp::Lt, left.clone(), right.clone());
                let unequal = choose(is_less, bit(2, 2), bit(2, 1));
                let value = choose(is_equal(left, right), bit(2, 0), unequal);
                let place = Field::metadata(32 + 2 * u16::from(*result), 2);
                self.set(place, value, state);
            }
            Instruction::ClearActions => {
                let slots = self.set.slots.iter();
                let clear = slots.map(|slot| assign(slot.chosen, number(0)));
                self.code.extend(clear);
            }
            Instruction::WriteActions(_)
            | Instruction::ApplyActions(_)
            | Instruction::ConditionalJump { .. }
            | Instruction::Branch { .. }
            | Instruction::Jump { .. } => {}
        }
        None
    }

    fn go_to_table(&mut self, table: u8) -> TableNumber {
        if self.has_jumps {
            let next = bit(16, u128::from(table) + 1);
            self.code.push(assign(self.fields.next, next));
        }
        self.tables.insert(TableNumber(table));
        TableNumber(table)
    }

    fn meter(&mut self) {
        let meter = CallOperand::In(self.param(NUMBER));
        let colour = CallOperand::Out(self.fields.scratch.into());
        self.code.push(call(
            Op::MeterExecute,
            Some(self.externs.meters),
            vec![meter, colour],
        ));
        // Packets above the rate are red.
        let is_red = is_equal(read(self.fields.scratch), number(2));
        self.code.push(when(is_red, vec![stmt(StmtKind::Exit)]));
    }

    /// Moves the packet offset by a number of bytes that the list gives.
    fn move_offset(&mut self, by: i64, state: State) {
        let outside = self.fault(Fault::FieldOutside);
        // No packet is as long, and a sum of 32 bits could be small again.
        let is_possible = by.unsigned_abs() <= u64::from(MAX_PACKET);
        let Some(moved) = state.moved(by).filter(|_| is_possible) else {
            self.code.extend(outside);
            return;
        };
        match moved.at {
            At::Known(at) => self.set_offset(number(at), state.looking_at(moved.at)),
            At::UpTo(_) => {
                let offset = self.fields.frame.offset;
                let distance = number(by.unsigned_abs() as u32);
                if by < 0 {
                    let is_outside = binary(BinOp::Lt, read(offset), distance.clone());
                    self.code.push(when(is_outside, outside));
                    self.code.push(assign(offset, sub(read(offset), distance)));
                } else {
                    self.set_offset(add(read(offset), distance), moved);
                }
            }
        }
    }

    /// Sets the packet offset, if the packet is as long.
    fn set_offset(&mut self, offset: Expr, state: State) {
        let frame = &self.fields.frame;
        let is_outside = binary(BinOp::Gt, offset.clone(), read(frame.total));
        if !state.surely_has(0) {
            let outside = self.fault(Fault::FieldOutside);
            self.code.push(when(is_outside, outside));
        }
        self.code.push(assign(frame.offset, offset));
    }

    fn move_by(&mut self, direction: Direction, distance: &Argument, state: State) {
        let field = match distance {
            Argument::Immediate(distance) => {
                let distance = i64::from(*distance);
                let by = match direction {
                    Direction::Forward => distance,
                    Direction::Backward => -distance,
                };
                return self.move_offset(by, state);
            }
            Argument::Field(field) => *field,
        };
        let distance = self.operand_field(field, state);
        let frame = self.fields.frame.clone();
        let here = frame.offset(state.at);
        let (room, to) = match direction {
            Direction::Forward => (
                sub(read(frame.total), here.clone()),
                add(here, distance.clone()),
            ),
            Direction::Backward => (here.clone(), sub(here, distance.clone())),
        };
        let outside = self.fault(Fault::FieldOutside);
        let is_outside = binary(BinOp::Gt, distance, room);
        self.code.push(when(is_outside, outside));
        self.code.push(assign(frame.offset, to));
    }

    fn operation(&mut self, operation: &Operation, state: State) {
        match operation {
            Operation::Action(action) => self.action(action, state),
            Operation::Select(actions) => self.select(actions, state),
        }
    }

    /// Runs one of the actions, by a hash of the packet's first bytes and its port.
    fn select(&mut self, actions: &[Action], state: State) {
        if actions.is_empty() {
            return;
        }
        let frame = self.frame();
        let first = frame.bits(0, frame.width.min(HASHED_BITS));
        let operands = vec![
            CallOperand::Number(HashAlgorithm::Crc32.number()),
            CallOperand::In(number(0)),
            CallOperand::In(number(actions.len() as u32)),
            CallOperand::Data(vec![first, read(self.fields.port)]),
            CallOperand::Out(self.fields.scratch.into()),
        ];
        self.code.push(call(Op::Hash, None, operands));
        let mut cases = Vec::new();
        for (at, action) in actions.iter().enumerate() {
            let before = std::mem::take(&mut self.code);
            self.action(action, state);
            let code = std::mem::replace(&mut self.code, before);
            let is_chosen = is_equal(read(self.fields.scratch), number(at as u32));
            cases.push((is_chosen, code));
        }
        // One chain, since an action may write the number by which it was chosen.
        let chain = cases
            .into_iter()
            .rev()
            .fold(Vec::new(), |rest, (is_chosen, code)| {
                vec![stmt(StmtKind::If(is_chosen, code, rest))]
            });
        self.code.extend(chain);
    }

    fn action(&mut self, action: &Action, state: State) {
        match action {
            Action::Output { .. } => self.output(action, state),
            Action::SetField(set) => {
                let width = u32::from(set.field.length);
                let value = self.param(width);
                let value = match set.mask == [0xFF; VALUE_BYTES] {
                    true => value,
                    false => {
                        let mask = self.param(width);
                        self.guard(set.field, state);
                        let old = self.frame().field(state.at, set.field);
                        or(and(old, complement(mask.clone())), and(value, mask))
                    }
                };
                self.set(set.field, value, state);
            }
            Action::SetFieldFromMetadata {
                field,
                metadata_offset,
            } => {
                let source = Field::metadata(*metadata_offset, field.length);
                let value = self.frame().field(state.at, source);
                self.set(*field, value, state);
            }
            Action::ModifyField { field, .. } => {
                let increment = cast(field.length.into(), self.param(NUMBER));
                self.guard(*field, state);
                let old = self.frame().field(state.at, *field);
                self.set(*field, add(old, increment), state);
            }
            Action::AddField { offset, length, .. } => {
                let value = self.param(*length);
                self.guard_bits((*offset).into(), state);
                let total = add(read(self.frame().total), number(length.div_ceil(8)));
                let is_too_long = binary(BinOp::Gt, total, number(MAX_PACKET));
                let too_long = self.fault(Fault::TooLong);
                self.code.push(when(is_too_long, too_long));
                let insert = self
                    .frame()
                    .insert(state.at, (*offset).into(), *length, value);
                self.code.extend(insert);
            }
            Action::DeleteField { offset, length } => self.delete(*offset, length, state),
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset,
                checksum_length,
                data_place,
                data_offset,
                data_length,
            } => {
                let checksum = place_field(*checksum_place, *checksum_offset, *checksum_length);
                let data = place_field(*data_place, *data_offset, *data_length);
                self.checksum(checksum, data, state);
            }
            Action::Drop { .. } => self.code.push(stmt(StmtKind::Exit)),
            Action::PacketIn { .. } => {
                let (reason, cookie) = (self.param(8), self.param(64));
                let too_many = self.fault(Fault::TooManyOutputs);
                let table = self.place.table;
                let is_last = self.is_last;
                let code = packet_in(self.fields, state, is_last, reason, table, cookie, too_many);
                self.code.extend(code);
            }
            Action::Counter(_) => {
                let counter = CallOperand::In(self.param(NUMBER));
                let length = CallOperand::In(read(self.frame().total));
                self.code.push(call(
                    Op::CounterCountLength,
                    Some(self.externs.counters),
                    vec![counter, length],
                ));
            }
            // Shapes have the actions of a group in its place.
            Action::Group(_) => {}
        }
    }

    fn delete(&mut self, offset: u16, length: &Argument, state: State) {
        let offset = u32::from(offset);
        let field = match length {
            Argument::Immediate(length) => {
                let end = offset.saturating_add(*length);
                self.guard_bits(end.min(8 * MAX_PACKET + 8), state);
                if end <= 8 * MAX_PACKET {
                    let remove = self.frame().remove(state.at, offset, *length);
                    self.code.extend(remove);
                }
                return;
            }
            Argument::Field(field) => *field,
        };
        let length = self.operand_field(field, state);
        // The field may be among the bits that are removed.
        self.code.push(assign(self.fields.scratch, length));
        let length = || read(self.fields.scratch);
        self.guard_bits(offset, state);
        let frame = &self.fields.frame;
        let bits = |bytes| shl(bytes, bit(8, 3));
        let before = add(bits(frame.offset(state.at)), number(offset));
        // The offset may be within the last byte.
        let room = sub(bits(read(frame.total)), before);
        let is_outside = binary(BinOp::Gt, length(), room);
        let outside = self.fault(Fault::FieldOutside);
        self.code.push(when(is_outside, outside));
        let remove = self.frame().remove_variable(state.at, offset, length());
        self.code.extend(remove);
    }

    fn checksum(&mut self, checksum: Field, data: Field, state: State) {
        let width = u32::from(checksum.length);
        self.guard(data, state);
        self.set(checksum, zeros(width), state);
        let sum = self.fields.sum;
        self.code.push(assign(sum, zeros(SUM_BITS)));
        let words = data.length / checksum.length;
        for word in 0..words {
            let word = Field {
                offset: data.offset + word * checksum.length,
                length: checksum.length,
                ..data
            };
            let word = cast(SUM_BITS, self.frame().field(state.at, word));
            self.code.push(assign(sum, add(read(sum), word)));
        }
        for _ in 0..folds(width, words.into()) {
            let low = and(read(sum), ones(width, SUM_BITS));
            let high = shr(read(sum), bit(8, width.into()));
            self.code.push(assign(sum, add(low, high)));
        }
        let value = complement(cast(width, read(sum)));
        let code = self.frame().set_field(state.at, checksum, value);
        self.code.extend(code);
    }
}

/// Returns the step and the operation that use the packet's bytes last.
fn last_use(steps: &[Step]) -> (usize, usize) {
    let uses = |operation: &Operation| {
        let is_use = |action: &Action| !matches!(action, Action::Counter(_) | Action::Drop { .. });
        operation.actions().iter().any(is_use)
    };
    let of_step = |(at, step): (usize, &Step)| match step {
        Step::Apply(operations) => operations
            .iter()
            .rposition(uses)
            .map(|position| (at, position)),
        Step::Plain(Instruction::Meter(_) | Instruction::ClearActions) => None,
        Step::Plain(_) | Step::Write(_) => Some((at, usize::MAX)),
    };
    let last = steps.iter().enumerate().rev().find_map(of_step);
    last.unwrap_or_default()
}

/// Number of bits of a packet by which a group chooses.
const HASHED_BITS: u32 = 8 * 40;

/// Returns the number of times that a sum of words must be folded to the width of one.
fn folds(width: u32, words: u128) -> usize {
    let most = (1u128 << width) - 1;
    let mut bound = words * most;
    let mut folds = 0;
    while bound > most {
        bound = match bound <= 2 * most {
            true => most,
            false => most + (bound >> width),
        };
        folds += 1;
    }
    folds
}

fn calculate(operation: Calculation, left: Expr, right: Expr) -> Expr {
    match operation {
        Calculation::Add => add(left, right),
        Calculation::Subtract => sub(left, right),
        Calculation::LeftShift => shl(left, right),
        Calculation::RightShift => shr(left, right),
        Calculation::And => and(left, right),
        Calculation::Or => or(left, right),
        Calculation::Xor => binary(BinOp::Xor, left, right),
        Calculation::Nor => complement(or(left, right)),
    }
}

//! Shapes: instruction lists without their immediates.
//!
//! A shape becomes an action of the table, and its immediates become the action's parameters.
//! [`Shape::of`] takes them out of an entry in the order in which `code` declares parameters. What
//! determines the layout of the packet and the flow of control stays in the shape: offsets, widths,
//! tables, distances of jumps and of the packet offset.

use bits::Value;

use crate::model::*;
use crate::tables::{Entry, Tables};

/// Instruction list without immediates: numbers and values in it are zero, and groups are replaced
/// by their actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// True if the entry has a counter.
    pub(crate) counts: bool,
    /// The steps, one for each instruction.
    pub(crate) steps: Vec<Step>,
}

impl Shape {
    /// Returns all actions.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        let operations = self.steps.iter().flat_map(Step::operations);
        operations.flat_map(Operation::actions)
    }
}

/// An instruction of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// An instruction without actions.
    Plain(Instruction),
    /// Actions that run at once.
    Apply(Vec<Operation>),
    /// Actions that enter the action set.
    Write(Vec<Written>),
}

/// An action that enters the action set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    /// True if it is a group.
    pub(crate) is_group: bool,
    /// The action, or all that the group does.
    pub(crate) operations: Vec<Operation>,
}

impl Step {
    /// Returns all operations.
    pub(crate) fn operations(&self) -> Vec<&Operation> {
        match self {
            Step::Plain(_) => Vec::new(),
            Step::Apply(operations) => operations.iter().collect(),
            Step::Write(written) => written.iter().flat_map(|one| &one.operations).collect(),
        }
    }
}

/// An action of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// An action, which is not a group.
    Action(Action),
    /// One of these actions, chosen by a hash of the packet.
    Select(Vec<Action>),
}

impl Operation {
    /// Returns the actions of which it runs all or one.
    pub(crate) fn actions(&self) -> &[Action] {
        match self {
            Operation::Action(action) => std::slice::from_ref(action),
            Operation::Select(actions) => actions,
        }
    }
}

impl Shape {
    /// Returns the shape of an entry and its immediates. `is_live` returns true for a port with a
    /// link.
    pub(crate) fn of(
        entry: &Entry,
        tables: &Tables,
        is_live: &dyn Fn(u32) -> bool,
    ) -> (Shape, Vec<Value>) {
        let mut splitter = Splitter {
            tables,
            is_live,
            cookie: entry.cookie,
            immediates: Vec::new(),
        };
        if entry.counter != 0 {
            splitter.number(entry.counter, 32);
        }
        let steps = entry.instructions.iter();
        let steps = steps.map(|one| splitter.step(one)).collect();
        let shape = Shape {
            counts: entry.counter != 0,
            steps,
        };
        (shape, splitter.immediates)
    }
}

/// Port of an OUTPUT in a shape, if its number is an immediate.
pub(crate) const REAL_PORT: Argument = Argument::Immediate(0);

/// Reason of a packet-in that an OUTPUT makes.
const REASON_ACTION: u32 = 1;

struct Splitter<'a> {
    tables: &'a Tables,
    is_live: &'a dyn Fn(u32) -> bool,
    cookie: u64,
    immediates: Vec<Value>,
}

impl Splitter<'_> {
    fn number(&mut self, number: u32, width: u32) {
        self.immediates.push(Value::truncated(number.into(), width));
    }

    /// Takes the first bits of a field's value.
    fn value(&mut self, value: &FieldValue, width: u32) {
        let number = u128::from_be_bytes(*value);
        let number = number >> (u32::from(MAX_FIELD_BITS) - width);
        self.immediates.push(Value::truncated(number, width));
    }

    fn operand(&mut self, operand: &Argument) -> Argument {
        match operand {
            Argument::Immediate(number) => {
                self.number(*number, 32);
                Argument::Immediate(0)
            }
            field => *field,
        }
    }

    fn step(&mut self, instruction: &Instruction) -> Step {
        let mut one = instruction.clone();
        match &mut one {
            Instruction::WriteActions(actions) => {
                let written = actions.iter().map(|action| Written {
                    is_group: matches!(action, Action::Group(_)),
                    operations: self.operations(std::slice::from_ref(action)),
                });
                return Step::Write(written.collect());
            }
            Instruction::ApplyActions(actions) => return Step::Apply(self.operations(actions)),
            Instruction::GotoTable { fields, .. } => fields.clear(),
            Instruction::WriteMetadata { length, value, .. } => {
                self.value(value, (*length).into());
                *value = FieldValue::default();
            }
            Instruction::Meter(meter) => self.number(std::mem::take(meter), 32),
            Instruction::GotoDirectTable { index, .. } => *index = self.operand(index),
            Instruction::ConditionalJump { right, .. }
            | Instruction::Compare { right, .. }
            | Instruction::Branch { right, .. } => *right = self.operand(right),
            Instruction::CalculateField { source, .. } => *source = self.operand(source),
            Instruction::ClearActions
            | Instruction::WriteMetadataFromPacket { .. }
            | Instruction::MovePacketOffset { .. }
            | Instruction::SetPacketOffset(_)
            | Instruction::Jump { .. } => {}
        }
        Step::Plain(one)
    }

    fn operations(&mut self, actions: &[Action]) -> Vec<Operation> {
        let mut operations = Vec::new();
        for action in actions {
            match action {
                Action::Group(id) => self.group(*id, &mut operations),
                action => operations.push(Operation::Action(self.action(action))),
            }
        }
        operations
    }

    fn group(&mut self, id: u32, operations: &mut Vec<Operation>) {
        let Some(group) = self.tables.group(id) else {
            return;
        };
        if group.counter != 0 {
            let count = self.action(&Action::Counter(group.counter));
            operations.push(Operation::Action(count));
        }
        match group.group_type {
            GroupType::All | GroupType::Indirect => {
                let actions = group.actions.iter().map(|action| self.action(action));
                operations.extend(actions.map(Operation::Action));
            }
            GroupType::Select => {
                let actions = group.actions.iter().map(|action| self.action(action));
                operations.push(Operation::Select(actions.collect()));
            }
            GroupType::FastFailover => {
                let is_live = self.is_live;
                let first = group.actions.iter().find(|action| match action {
                    Action::Output {
                        port: Argument::Immediate(port),
                        ..
                    } => is_live(*port),
                    _ => true,
                });
                operations.extend(first.map(|action| Operation::Action(self.action(action))));
            }
        }
    }

    fn action(&mut self, action: &Action) -> Action {
        let mut one = action.clone();
        match &mut one {
            Action::Output { port, .. } => match port {
                // An output to the controllers is a packet-in, whatever part of it is asked for.
                Argument::Immediate(number) if *number as u16 == port::CONTROLLER => {
                    return self.action(&Action::PacketIn {
                        reason: REASON_ACTION,
                    });
                }
                // Other numbers with a meaning need other code.
                Argument::Immediate(number) if *number as u16 > port::MAX => {}
                Argument::Immediate(number) => {
                    self.number(*number, 16);
                    *port = REAL_PORT;
                }
                Argument::Field(_) => {}
            },
            Action::SetField(set) => {
                let width = u32::from(set.field.length);
                self.value(&set.value, width);
                set.value = FieldValue::default();
                set.mask = match is_full(&set.mask, width) {
                    true => [0xFF; VALUE_BYTES],
                    false => {
                        self.value(&set.mask, width);
                        FieldValue::default()
                    }
                };
            }
            Action::ModifyField { increment, .. } => {
                self.number(increment.cast_unsigned(), 32);
                *increment = 0;
            }
            Action::AddField {
                id, length, value, ..
            } => {
                self.value(value, *length);
                (*id, *value) = (0, FieldValue::default());
            }
            Action::Drop { reason } => *reason = 0,
            Action::PacketIn { reason } => {
                self.number(*reason, 8);
                self.immediates
                    .push(Value::truncated(self.cookie.into(), 64));
                *reason = 0;
            }
            Action::Counter(id) => self.number(std::mem::take(id), 32),
            Action::SetFieldFromMetadata { .. }
            | Action::DeleteField { .. }
            | Action::CalculateChecksum { .. }
            | Action::Group(_) => {}
        }
        one
    }
}

/// Returns true if a mask has all bits of a field.
fn is_full(mask: &FieldValue, width: u32) -> bool {
    u128::from_be_bytes(*mask).leading_ones() >= width
}

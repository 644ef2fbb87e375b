//! The layout of packets: how many bytes of the packet the program holds, and where the packet
//! offset is at each step.
//!
//! An abstract walk over all ways from the first table finds for each step the packet offset, if it
//! is the same on all ways, and the bounds of what was added and deleted before. From these follow
//! the number of bytes that must be parsed. Where they are not known (an offset read from the
//! packet, a loop that adds fields, a field that is not a multiple of bytes) the program holds the
//! whole packet.
//!
//! If the place of all that is read and written is known, the walk also gives its bounds
//! ([`super::pieces`]).

use std::collections::BTreeMap;

use super::pieces::{Bounds, Growths, Pieces};
use super::shape::{Operation, Shape, Step};
use crate::model::*;
use crate::tables::{TableNumber, jump_target};

/// Maximum number of bytes of a packet: a jumbo frame.
pub(crate) const MAX_PACKET: u32 = 9_216;
/// Maximum number of copies that a packet sends.
pub(crate) const MAX_OUTPUTS: u32 = 16;
/// Number of visits of a step after which what it adds and deletes counts as unbounded.
const MAX_VISITS: u32 = 64;

/// The packet offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// This one on all ways.
    Known(u32),
    /// One that the packet determines, at most this one.
    UpTo(u32),
}

impl At {
    /// Returns the largest offset.
    fn most(self) -> u32 {
        match self {
            At::Known(at) | At::UpTo(at) => at,
        }
    }
}

/// Facts about a packet at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The packet offset.
    pub(crate) at: At,
    /// The least number of bytes by which the packet has grown; negative if it has shrunk.
    least: i64,
    /// The largest number of bytes by which the packet has grown.
    most: i64,
    /// All numbers of bytes by which the packet may have grown.
    growths: Growths,
    /// The least number of copies that were sent.
    fewest_outputs: u32,
    /// The largest number of copies that were sent.
    outputs: u32,
    /// Number of bytes that the packet is known to have.
    inside: u32,
}

impl State {
    /// The state of a packet at the first table.
    pub(crate) const START: State = State {
        at: At::Known(0),
        least: 0,
        most: 0,
        growths: Growths::NONE,
        fewest_outputs: 0,
        outputs: 0,
        inside: 0,
    };

    /// A state about which nothing is known.
    pub(crate) const ANYWHERE: State = State {
        at: At::UpTo(MAX_PACKET),
        growths: Growths::UNKNOWN,
        outputs: MAX_OUTPUTS,
        ..State::START
    };

    fn join(self, other: State) -> State {
        State {
            at: match self.at == other.at {
                true => self.at,
                false => At::UpTo(self.at.most().max(other.at.most())),
            },
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            growths: self.growths.join(other.growths),
            fewest_outputs: self.fewest_outputs.min(other.fewest_outputs),
            outputs: self.outputs.max(other.outputs),
            inside: self.inside.min(other.inside),
        }
    }

    /// Returns the number of copies that were sent, if it is the same on all ways.
    pub(crate) fn count_of_outputs(self) -> Option<u32> {
        (self.fewest_outputs == self.outputs).then_some(self.outputs)
    }

    /// Returns the number of bytes by which the packet has grown, if it is the same on all ways.
    pub(crate) fn growth(self) -> Option<i64> {
        self.growths.only()
    }

    /// Returns true if every packet here has this many bytes.
    pub(crate) fn surely_has_bytes(self, bytes: u32) -> bool {
        bytes <= self.inside
    }

    /// Returns the state with another packet offset, which need not be within the packet.
    pub(crate) fn looking_at(self, at: At) -> State {
        State { at, ..self }
    }

    /// Returns true if every packet here has these bits after the packet offset.
    pub(crate) fn surely_has(self, bits: u32) -> bool {
        matches!(self.at, At::Known(at) if at + bits.div_ceil(8) <= self.inside)
    }

    /// Returns the state after a check that the packet has these bits after the packet offset.
    pub(crate) fn having(self, bits: u32) -> State {
        let inside = match self.at {
            At::Known(at) => self.inside.max(at + bits.div_ceil(8)),
            At::UpTo(_) => self.inside,
        };
        State { inside, ..self }
    }

    fn having_field(self, field: Field) -> State {
        match field.place() {
            Place::Packet => self.having(field.end()),
            Place::Metadata | Place::Parameter => self,
        }
    }

    /// Moves the packet offset. Returns `None` if it would leave every packet.
    pub(crate) fn moved(self, by: i64) -> Option<State> {
        let at = match self.at {
            At::Known(at) => {
                let at = u32::try_from(i64::from(at) + by).ok();
                At::Known(at.filter(|at| *at <= MAX_PACKET)?)
            }
            At::UpTo(most) => {
                let most = (i64::from(most) + by).clamp(0, MAX_PACKET.into());
                At::UpTo(most as u32)
            }
        };
        // The new offset is within the packet.
        Some(State { at, ..self }.having(0))
    }
}

/// A step, or a table before its lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Table(TableNumber),
    /// Table, shape and step.
    Step(TableNumber, usize, usize),
}

/// Result of the walk.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    states: BTreeMap<Point, State>,
    /// Number of bytes of a packet that are parsed.
    pub(crate) parsed: u32,
    /// Number of bytes that the program holds: those parsed, and what may be added.
    pub(crate) held: u32,
    /// Number of copies that a packet may send.
    pub(crate) outputs: u32,
    /// True if a packet may ask for more copies.
    pub(crate) may_send_more: bool,
    /// Width of the metadata in bits.
    pub(crate) metadata: u32,
    /// Largest width of the metadata that is sent in front of a packet, in bits.
    pub(crate) prefix: u32,
    /// The parts of the bytes that the program holds, if they are known.
    pub(crate) pieces: Option<Pieces>,
}

impl Layout {
    /// Returns the state of packets at a table, or `None` if none gets there.
    pub(crate) fn at_table(&self, table: TableNumber) -> Option<State> {
        self.states.get(&Point::Table(table)).copied()
    }

    /// Returns the state of packets at a step, or `None` if none gets there.
    pub(crate) fn at_step(&self, table: TableNumber, shape: usize, step: usize) -> Option<State> {
        self.states.get(&Point::Step(table, shape, step)).copied()
    }

    /// Walks all ways.
    pub(crate) fn of(tables: &BTreeMap<TableNumber, TableShapes<'_>>) -> Layout {
        let mut walk = Walk {
            parsed: 1,
            outputs: 1,
            metadata: FIXED_METADATA_BITS,
            ..Walk::new(tables)
        };
        walk.hold_prefixes();
        walk.reach(Point::Table(TableNumber::FIRST), State::START);
        walk.reach(Point::Table(TableNumber::PACKET_OUT), State::START);
        while let Some(point) = walk.open.pop() {
            walk.visit(point);
        }
        let held = i64::from(walk.parsed) + walk.grown;
        let is_whole = walk.is_whole || held > i64::from(MAX_PACKET);
        let (parsed, held) = match is_whole {
            true => (MAX_PACKET, MAX_PACKET),
            false => (walk.parsed, held as u32),
        };
        let pieces = match is_whole {
            true => None,
            false => walk.bounds.pieces(parsed, held),
        };
        Layout {
            pieces,
            states: walk.states,
            parsed,
            held,
            outputs: walk.outputs.min(MAX_OUTPUTS),
            may_send_more: walk.outputs > MAX_OUTPUTS,
            metadata: walk.metadata,
            prefix: walk.prefix,
        }
    }
}

/// A table with the shapes of its entries.
#[derive(Clone, Debug)]
pub(crate) struct TableShapes<'a> {
    /// Its match fields.
    pub(crate) fields: &'a [Field],
    /// The shapes.
    pub(crate) shapes: Vec<&'a Shape>,
}

struct Walk<'a> {
    tables: &'a BTreeMap<TableNumber, TableShapes<'a>>,
    states: BTreeMap<Point, State>,
    visits: BTreeMap<Point, u32>,
    open: Vec<Point>,
    parsed: u32,
    grown: i64,
    outputs: u32,
    metadata: u32,
    prefix: u32,
    is_whole: bool,
    bounds: Bounds,
}

impl<'a> Walk<'a> {
    fn new(tables: &'a BTreeMap<TableNumber, TableShapes<'a>>) -> Walk<'a> {
        Walk {
            tables,
            states: BTreeMap::new(),
            visits: BTreeMap::new(),
            open: Vec::new(),
            parsed: 0,
            grown: 0,
            outputs: 0,
            metadata: 0,
            prefix: 0,
            is_whole: false,
            bounds: Bounds::default(),
        }
    }

    fn reach(&mut self, point: Point, state: State) {
        let joined = match self.states.get(&point) {
            Some(old) => old.join(state),
            None => state,
        };
        if self.states.get(&point) == Some(&joined) {
            return;
        }
        let visits = self.visits.entry(point).or_default();
        *visits += 1;
        if *visits > MAX_VISITS {
            // These bounds no longer matter: they only decide how much is parsed.
            self.is_whole = true;
            let old = self.states.get(&point).copied().unwrap_or(state);
            let widened = State {
                at: match joined.at {
                    At::UpTo(_) => At::UpTo(MAX_PACKET),
                    known => known,
                },
                fewest_outputs: 0,
                outputs: MAX_OUTPUTS,
                inside: 0,
                ..old
            };
            if old == widened {
                return;
            }
            self.states.insert(point, widened);
        } else {
            self.states.insert(point, joined);
        }
        self.open.push(point);
    }

    fn visit(&mut self, point: Point) {
        let Some(state) = self.states.get(&point).copied() else {
            return;
        };
        match point {
            Point::Table(number) => {
                // A miss sends the packet to the controllers.
                self.outputs = self.outputs.max(state.outputs + 1);
                self.bounds.send(state.growths);
                let Some(table) = self.tables.get(&number) else {
                    return;
                };
                table
                    .fields
                    .iter()
                    .for_each(|field| self.touch(state, *field));
                let fields = table.fields.iter();
                let state = fields.fold(state, |state, field| state.having_field(*field));
                for shape in 0..table.shapes.len() {
                    self.reach(Point::Step(number, shape, 0), state);
                }
            }
            Point::Step(number, shape, at) => {
                let Some(table) = self.tables.get(&number) else {
                    return;
                };
                let steps = &table.shapes[shape].steps;
                let Some(step) = steps.get(at) else {
                    return;
                };
                for (target, state) in self.follow(step, at, steps.len(), state) {
                    match target {
                        Target::Step(to) => self.reach(Point::Step(number, shape, to), state),
                        Target::Table(table) => self.reach(Point::Table(table), state),
                    }
                }
            }
        }
    }

    /// Notes that a field is read or written.
    fn touch(&mut self, state: State, field: Field) {
        match field.place() {
            Place::Packet => {
                self.bounds.cut(state.at, field.offset.into());
                self.bounds.cut(state.at, field.end());
                self.touch_bits(state, field.end());
            }
            Place::Metadata => self.metadata = self.metadata.max(field.end()),
            Place::Parameter => {}
        }
    }

    /// Notes that the packet offset has moved here, and so that the packet has as many bytes.
    fn move_to(&mut self, state: State) -> State {
        if let At::Known(_) = state.at {
            self.bounds.touch(state.at, state.growths, 0);
        }
        state
    }

    /// Notes that the packet is read or written up to this bit after the packet offset. If the
    /// bound is that of the longest packet, all of it is parsed.
    fn touch_bits(&mut self, state: State, end: u32) {
        // What the packet surely has is in headers, since an instruction before has needed it.
        if !state.surely_has(end) {
            self.bounds.touch(state.at, state.growths, end);
        }
        let needed = i64::from(state.at.most() + end.div_ceil(8)) - state.least;
        match u32::try_from(needed) {
            Ok(needed) if needed <= MAX_PACKET => self.parsed = self.parsed.max(needed),
            // No packet is as long.
            Ok(_) => self.is_whole = true,
            Err(_) => {}
        }
    }

    fn touch_operand(&mut self, state: State, operand: &Argument) {
        if let Argument::Field(field) = operand {
            self.touch(state, *field);
        }
    }

    fn follow(
        &mut self,
        step: &Step,
        at: usize,
        length: usize,
        mut state: State,
    ) -> Vec<(Target, State)> {
        let next = Target::Step(at + 1);
        let one = match step {
            Step::Apply(operations) => {
                for operation in operations {
                    state = self.operation(operation, state);
                }
                return vec![(next, state)];
            }
            // They run where the last list ends, which may be any place.
            Step::Write(_) => {
                self.is_whole = true;
                let before = State {
                    outputs: state.outputs,
                    ..State::ANYWHERE
                };
                let operations = step.operations().into_iter();
                let after =
                    operations.fold(before, |state, operation| self.operation(operation, state));
                state.outputs = after.outputs;
                return vec![(next, state)];
            }
            Step::Plain(one) => one,
        };
        match one {
            Instruction::GotoTable { table, offset, .. } => {
                let to = state.moved(offset.cast_signed().into());
                let to = to.map(|state| self.move_to(state));
                let table = Target::Table(TableNumber(*table));
                to.map(|state| (table, state)).into_iter().collect()
            }
            Instruction::GotoDirectTable {
                table,
                offset,
                index,
            } => {
                let to = state.moved(offset.cast_signed().into());
                let to = to.map(|state| self.move_to(state));
                // The index is read after the movement.
                to.into_iter()
                    .for_each(|state| self.touch_operand(state, index));
                let table = Target::Table(TableNumber(*table));
                to.map(|state| (table, state)).into_iter().collect()
            }
            Instruction::WriteMetadata { offset, length, .. } => {
                self.touch(state, Field::metadata(*offset, *length));
                vec![(next, state)]
            }
            Instruction::WriteMetadataFromPacket {
                metadata_offset,
                packet_offset,
                length,
            } => {
                self.touch(state, Field::metadata(*metadata_offset, *length));
                let source = Field::packet(*packet_offset, *length);
                self.touch(state, source);
                vec![(next, state.having_field(source))]
            }
            Instruction::ConditionalJump {
                left,
                right,
                less,
                equal,
                greater,
            } => {
                self.touch(state, *left);
                self.touch_operand(state, right);
                let jumps = [less, equal, greater];
                let targets = jumps.into_iter().flat_map(|jump| match jump.distance {
                    Argument::Immediate(distance) => {
                        let target = jump_target(at, jump.direction, distance, length);
                        target.into_iter().collect::<Vec<_>>()
                    }
                    Argument::Field(field) => {
                        self.touch(state, field);
                        match jump.direction {
                            Direction::Forward => (at..=length).collect(),
                            Direction::Backward => (0..=at).collect(),
                        }
                    }
                });
                targets
                    .map(|target| (Target::Step(target), state))
                    .collect()
            }
            Instruction::CalculateField { target, source, .. } => {
                self.touch(state, *target);
                self.touch_operand(state, source);
                vec![(next, state.having_field(*target))]
            }
            Instruction::MovePacketOffset {
                direction,
                distance,
            } => {
                let to = match distance {
                    Argument::Immediate(distance) => {
                        let distance = i64::from(*distance);
                        let to = state.moved(match direction {
                            Direction::Forward => distance,
                            Direction::Backward => -distance,
                        });
                        to.map(|state| self.move_to(state))
                    }
                    Argument::Field(field) => {
                        self.touch(state, *field);
                        state.at = At::UpTo(MAX_PACKET);
                        Some(state)
                    }
                };
                to.map(|state| (next, state)).into_iter().collect()
            }
            Instruction::SetPacketOffset(offset) => {
                state.at = match offset {
                    Argument::Immediate(offset) if *offset <= MAX_PACKET => At::Known(*offset),
                    Argument::Immediate(_) => return Vec::new(),
                    Argument::Field(field) => {
                        self.touch(state, *field);
                        At::UpTo(MAX_PACKET)
                    }
                };
                vec![(next, state)]
            }
            Instruction::Compare { left, right, .. } => {
                self.touch(state, *left);
                self.touch_operand(state, right);
                vec![(next, state)]
            }
            Instruction::Branch { left, right, skip } => {
                self.touch(state, *left);
                self.touch_operand(state, right);
                let other = jump_target(at, Direction::Forward, *skip, length);
                let other = other.map(|target| (Target::Step(target), state));
                std::iter::once((next, state)).chain(other).collect()
            }
            Instruction::Jump {
                direction,
                distance,
            } => {
                let target = jump_target(at + 1, *direction, *distance, length);
                let target = target.map(|target| (Target::Step(target), state));
                target.into_iter().collect()
            }
            Instruction::Meter(_)
            | Instruction::ClearActions
            | Instruction::WriteActions(_)
            | Instruction::ApplyActions(_) => vec![(next, state)],
        }
    }

    fn operation(&mut self, operation: &Operation, state: State) -> State {
        let after = operation
            .actions()
            .iter()
            .map(|action| self.action(action, state));
        let after: Vec<State> = after.collect();
        match operation {
            Operation::Action(_) => after.into_iter().next().unwrap_or(state),
            Operation::Select(_) => after.into_iter().reduce(State::join).unwrap_or(state),
        }
    }

    /// Makes room for the metadata before the packets of all outputs. Code is made for those that
    /// no way reaches, too.
    fn hold_prefixes(&mut self) {
        let shapes = self.tables.values().flat_map(|table| &table.shapes);
        let actions = shapes.flat_map(|shape| shape.actions());
        for action in actions {
            if let Action::Output {
                metadata_offset,
                metadata_length,
                ..
            } = action
            {
                let bits = u32::from(*metadata_length).next_multiple_of(8);
                self.metadata = self.metadata.max(u32::from(*metadata_offset) + bits);
                self.prefix = self.prefix.max(bits);
            }
        }
    }

    fn action(&mut self, action: &Action, mut state: State) -> State {
        match action {
            Action::Output {
                port,
                packet_offset,
                ..
            } => {
                self.touch_operand(state, port);
                self.bounds.send(state.growths);
                self.bounds
                    .touch(state.at, state.growths, 8 * u32::from(*packet_offset));
                self.touch_bits(state, 8 * u32::from(*packet_offset));
                state = state.having(8 * u32::from(*packet_offset));
                (state.fewest_outputs, state.outputs) =
                    (state.fewest_outputs + 1, state.outputs + 1);
            }
            Action::PacketIn { .. } => {
                self.bounds.send(state.growths);
                (state.fewest_outputs, state.outputs) =
                    (state.fewest_outputs + 1, state.outputs + 1);
            }
            Action::SetField(set) => {
                self.touch(state, set.field);
                state = state.having_field(set.field);
            }
            Action::SetFieldFromMetadata {
                field,
                metadata_offset,
            } => {
                self.touch(state, *field);
                self.touch(state, Field::metadata(*metadata_offset, field.length));
                state = state.having_field(*field);
            }
            Action::ModifyField { field, .. } => {
                self.touch(state, *field);
                state = state.having_field(*field);
            }
            Action::AddField { offset, length, .. } => {
                self.touch_bits(state, (*offset).into());
                self.bounds.cut(state.at, (*offset).into());
                self.bounds
                    .cut(state.at, u32::from(*offset).saturating_add(*length));
                self.is_whole |= !length.is_multiple_of(8);
                let bytes = i64::from(length.div_ceil(8));
                (state.least, state.most) = (state.least + bytes, state.most + bytes);
                state.growths = state.growths.moved(bytes);
                state = state.having((*offset).into());
                state.inside = (state.inside + length.div_ceil(8)).min(MAX_PACKET);
                self.grown = self.grown.max(state.most);
            }
            Action::DeleteField { offset, length } => match length {
                Argument::Immediate(length) if length.is_multiple_of(8) => {
                    let end = u32::from(*offset).saturating_add(*length);
                    self.touch_bits(state, end.min(8 * MAX_PACKET + 8));
                    self.bounds.cut(state.at, (*offset).into());
                    let bytes = i64::from(*length / 8);
                    (state.least, state.most) = (state.least - bytes, state.most - bytes);
                    state.growths = state.growths.moved(-bytes);
                    state.inside = state.inside.saturating_sub(*length / 8);
                }
                length => {
                    state.inside = 0;
                    self.touch_operand(state, length);
                    self.is_whole = true;
                }
            },
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset,
                checksum_length,
                data_place,
                data_offset,
                data_length,
            } => {
                for (place, offset, length) in [
                    (checksum_place, checksum_offset, checksum_length),
                    (data_place, data_offset, data_length),
                ] {
                    self.touch(state, place_field(*place, *offset, *length));
                }
            }
            Action::Group(_) | Action::Drop { .. } | Action::Counter(_) => {}
        }
        self.outputs = self.outputs.max(state.outputs);
        state
    }
}

/// Returns a field of this place.
pub(crate) fn place_field(place: Place, offset: u16, length: u16) -> Field {
    match place {
        Place::Metadata => Field::metadata(offset, length),
        Place::Packet | Place::Parameter => Field::packet(offset, length),
    }
}

/// Width of the metadata that every packet has: length, port, unused bits, results of COMPARE.
pub(crate) const FIXED_METADATA_BITS: u32 = 40;

#[derive(Clone, Copy)]
enum Target {
    Step(usize),
    Table(TableNumber),
}

/// Returns the state after an action, as the walk computes it.
pub(crate) fn after(operation: &Operation, state: State) -> State {
    Walk::new(&BTreeMap::new()).operation(operation, state)
}

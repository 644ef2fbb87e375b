//! Fields, instructions and actions. An instruction takes 304 bytes and an action 48, whatever
//! they hold: type, length, then the content, then zeros.

use super::cursor::{Reader, Writer};
use super::error::ErrorCode;
use crate::model::*;

/// Size of an instruction in bytes.
pub(super) const INSTRUCTION_BYTES: usize = 304;
/// Size of an action in bytes.
pub(super) const ACTION_BYTES: usize = 48;
/// Size of a match without values in bytes.
const FIELD_BYTES: usize = 8;

pub(super) fn read_field(from: &mut Reader<'_>) -> Field {
    let field = Field {
        id: from.u16(),
        offset: from.u16(),
        length: from.u16(),
    };
    from.skip(2);
    field
}

pub(super) fn write_field(field: &Field, to: &mut Writer) {
    to.u16(field.id);
    to.u16(field.offset);
    to.u16(field.length);
    to.pad(2);
}

pub(super) fn read_match(from: &mut Reader<'_>) -> Match {
    Match {
        field: read_field(from),
        value: from.array(),
        mask: from.array(),
    }
}

pub(super) fn write_match(one: &Match, to: &mut Writer) {
    write_field(&one.field, to);
    to.put(&one.value);
    to.put(&one.mask);
}

fn operand_kind(operand: &Argument) -> u8 {
    match operand {
        Argument::Immediate(_) => 0,
        Argument::Field(_) => 1,
    }
}

fn read_operand(kind: u8, from: &mut Reader<'_>) -> Argument {
    let mut from = from.part(FIELD_BYTES);
    match kind {
        0 => Argument::Immediate(from.u32()),
        _ => Argument::Field(read_field(&mut from)),
    }
}

fn write_operand(operand: &Argument, to: &mut Writer) {
    match operand {
        Argument::Immediate(number) => {
            to.u32(*number);
            to.pad(4);
        }
        Argument::Field(field) => write_field(field, to),
    }
}

fn read_direction(from: &mut Reader<'_>) -> Direction {
    match from.u8() {
        0 => Direction::Forward,
        _ => Direction::Backward,
    }
}

fn write_direction(direction: Direction, to: &mut Writer) {
    to.u8(match direction {
        Direction::Forward => 0,
        Direction::Backward => 1,
    });
}

fn read_place(from: &mut Reader<'_>) -> Place {
    match from.u8() {
        0 => Place::Packet,
        _ => Place::Metadata,
    }
}

fn write_place(place: Place, to: &mut Writer) {
    to.u8(u8::from(place != Place::Packet));
}

/// Reads at most `most` fields out of the places of [`MAX_FIELDS`].
pub(super) fn read_fields(count: u8, from: &mut Reader<'_>) -> Result<Vec<Field>, ErrorCode> {
    let count = usize::from(count);
    if count > MAX_FIELDS {
        return Err(ErrorCode::BadMatchLength);
    }
    let mut from = from.part(MAX_FIELDS * FIELD_BYTES);
    Ok((0..count).map(|_| read_field(&mut from)).collect())
}

pub(super) fn write_fields(fields: &[Field], to: &mut Writer) {
    let end = to.len() + MAX_FIELDS * FIELD_BYTES;
    fields.iter().for_each(|field| write_field(field, to));
    to.pad_to(end);
}

/// Reads the first actions out of `places` places.
pub(super) fn read_actions(
    count: u8,
    places: usize,
    from: &mut Reader<'_>,
) -> Result<Vec<Action>, ErrorCode> {
    let mut from = from.part(places * ACTION_BYTES);
    (0..count).map(|_| read_action(&mut from)).collect()
}

pub(super) fn write_actions(actions: &[Action], places: usize, to: &mut Writer) {
    let end = to.len() + places * ACTION_BYTES;
    actions.iter().for_each(|action| write_action(action, to));
    to.pad_to(end);
}

fn read_action(from: &mut Reader<'_>) -> Result<Action, ErrorCode> {
    let from = &mut from.part(ACTION_BYTES);
    let kind = from.u16();
    if usize::from(from.u16()) > ACTION_BYTES {
        return Err(ErrorCode::BadActionLength);
    }
    Ok(match kind {
        0 => {
            let kind = from.u8();
            from.skip(1);
            let (metadata_offset, metadata_length) = (from.u16(), from.u16());
            let packet_offset = from.u16();
            Action::Output {
                port: read_operand(kind, from),
                metadata_offset,
                metadata_length,
                packet_offset,
            }
        }
        1 => Action::SetField(read_match(from)),
        2 => Action::SetFieldFromMetadata {
            field: read_field(from),
            metadata_offset: from.u16(),
        },
        3 => Action::ModifyField {
            field: read_field(from),
            increment: from.u32().cast_signed(),
        },
        4 => Action::AddField {
            id: from.u16(),
            offset: from.u16(),
            length: from.u32(),
            value: from.array(),
        },
        5 => {
            let offset = from.u16();
            let kind = from.u8();
            from.skip(5);
            let length = read_operand(kind, from);
            Action::DeleteField { offset, length }
        }
        6 => Action::CalculateChecksum {
            checksum_place: read_place(from),
            data_place: read_place(from),
            checksum_offset: from.u16(),
            checksum_length: from.u16(),
            data_offset: from.u16(),
            data_length: from.u16(),
        },
        7 => Action::Group(from.u32()),
        8 => Action::Drop { reason: from.u32() },
        9 => Action::PacketIn { reason: from.u32() },
        10 => Action::Counter(from.u32()),
        _ => return Err(ErrorCode::BadActionType),
    })
}

fn write_action(action: &Action, to: &mut Writer) {
    let start = to.len();
    to.u16(match action {
        Action::Output { .. } => 0,
        Action::SetField(_) => 1,
        Action::SetFieldFromMetadata { .. } => 2,
        Action::ModifyField { .. } => 3,
        Action::AddField { .. } => 4,
        Action::DeleteField { .. } => 5,
        Action::CalculateChecksum { .. } => 6,
        Action::Group(_) => 7,
        Action::Drop { .. } => 8,
        Action::PacketIn { .. } => 9,
        Action::Counter(_) => 10,
    });
    to.u16(0);
    match action {
        Action::Output {
            port,
            metadata_offset,
            metadata_length,
            packet_offset,
        } => {
            to.u8(operand_kind(port));
            to.pad(1);
            to.u16(*metadata_offset);
            to.u16(*metadata_length);
            to.u16(*packet_offset);
            write_operand(port, to);
        }
        Action::SetField(one) => write_match(one, to),
        Action::SetFieldFromMetadata {
            field,
            metadata_offset,
        } => {
            write_field(field, to);
            to.u16(*metadata_offset);
            to.pad(6);
        }
        Action::ModifyField { field, increment } => {
            write_field(field, to);
            to.u32(increment.cast_unsigned());
            to.pad(4);
        }
        Action::AddField {
            id,
            offset,
            length,
            value,
        } => {
            to.u16(*id);
            to.u16(*offset);
            to.u32(*length);
            to.put(value);
        }
        Action::DeleteField { offset, length } => {
            to.u16(*offset);
            to.u8(operand_kind(length));
            to.pad(5);
            write_operand(length, to);
        }
        Action::CalculateChecksum {
            checksum_place,
            data_place,
            checksum_offset,
            checksum_length,
            data_offset,
            data_length,
        } => {
            write_place(*checksum_place, to);
            write_place(*data_place, to);
            to.u16(*checksum_offset);
            to.u16(*checksum_length);
            to.u16(*data_offset);
            to.u16(*data_length);
            to.pad(6);
        }
        Action::Group(number)
        | Action::Drop { reason: number }
        | Action::PacketIn { reason: number }
        | Action::Counter(number) => {
            to.u32(*number);
            to.pad(4);
        }
    }
    finish(start, ACTION_BYTES, to);
}

/// Writes the length of an instruction or action that begins at `start`, and fills its place.
fn finish(start: usize, place: usize, to: &mut Writer) {
    let length = to.len() - start;
    to.set_u16(start + 2, length as u16);
    to.pad_to(start + place);
}

pub(super) fn read_instruction(from: &mut Reader<'_>) -> Result<Instruction, ErrorCode> {
    let from = &mut from.part(INSTRUCTION_BYTES);
    let kind = from.u16();
    if usize::from(from.u16()) > INSTRUCTION_BYTES {
        return Err(ErrorCode::BadInstructionLength);
    }
    from.skip(4);
    Ok(match kind {
        1 => {
            let table = from.u8();
            let count = from.u8();
            let offset = from.u16();
            from.skip(4);
            let fields = read_fields(count, from)?;
            Instruction::GotoTable {
                table,
                offset,
                fields,
            }
        }
        2 => Instruction::WriteMetadata {
            offset: from.u16(),
            length: from.u16(),
            value: from.array(),
        },
        3 => Instruction::WriteActions(read_action_list(from)?),
        4 => Instruction::ApplyActions(read_action_list(from)?),
        5 => Instruction::ClearActions,
        6 => Instruction::Meter(from.u32()),
        7 => Instruction::WriteMetadataFromPacket {
            metadata_offset: from.u16(),
            packet_offset: from.u16(),
            length: from.u16(),
        },
        8 => {
            let table = from.u8();
            let kind = from.u8();
            let offset = from.u16();
            from.skip(4);
            Instruction::GotoDirectTable {
                table,
                offset,
                index: read_operand(kind, from),
            }
        }
        9 => read_conditional_jump(from),
        10 => read_calculation(from)?,
        11 => {
            let direction = read_direction(from);
            let kind = from.u8();
            from.skip(6);
            let distance = read_operand(kind, from);
            Instruction::MovePacketOffset {
                direction,
                distance,
            }
        }
        12 => {
            let kind = from.u8();
            from.skip(7);
            Instruction::SetPacketOffset(read_operand(kind, from))
        }
        13 => {
            let kind = from.u8();
            let result = from.u8();
            from.skip(6);
            Instruction::Compare {
                result,
                left: read_field(from),
                right: read_operand(kind, from),
            }
        }
        14 => {
            let kind = from.u8();
            from.skip(3);
            let skip = from.u32();
            Instruction::Branch {
                left: read_field(from),
                right: read_operand(kind, from),
                skip,
            }
        }
        15 => {
            let direction = read_direction(from);
            from.skip(3);
            Instruction::Jump {
                direction,
                distance: from.u32(),
            }
        }
        _ => return Err(ErrorCode::UnknownInstruction),
    })
}

fn read_action_list(from: &mut Reader<'_>) -> Result<Vec<Action>, ErrorCode> {
    let count = from.u8();
    from.skip(7);
    if usize::from(count) > MAX_ACTIONS {
        return Err(ErrorCode::TooManyInstructionActions);
    }
    read_actions(count, MAX_ACTIONS, from)
}

fn read_conditional_jump(from: &mut Reader<'_>) -> Instruction {
    let right_kind = from.u8();
    let mut kinds = || (read_direction(from), from.u8());
    let (less, equal, greater) = (kinds(), kinds(), kinds());
    from.skip(1);
    let left = read_field(from);
    let right = read_operand(right_kind, from);
    let mut jump = |(direction, kind)| Jump {
        direction,
        distance: read_operand(kind, from),
    };
    Instruction::ConditionalJump {
        left,
        right,
        less: jump(less),
        equal: jump(equal),
        greater: jump(greater),
    }
}

fn read_calculation(from: &mut Reader<'_>) -> Result<Instruction, ErrorCode> {
    let operation = match from.u16() {
        0 => Calculation::Add,
        1 => Calculation::Subtract,
        2 => Calculation::LeftShift,
        3 => Calculation::RightShift,
        4 => Calculation::And,
        5 => Calculation::Or,
        6 => Calculation::Xor,
        7 => Calculation::Nor,
        _ => return Err(ErrorCode::UnknownInstruction),
    };
    let kind = from.u8();
    from.skip(5);
    Ok(Instruction::CalculateField {
        operation,
        target: read_field(from),
        source: read_operand(kind, from),
    })
}

fn calculation_number(operation: Calculation) -> u16 {
    match operation {
        Calculation::Add => 0,
        Calculation::Subtract => 1,
        Calculation::LeftShift => 2,
        Calculation::RightShift => 3,
        Calculation::And => 4,
        Calculation::Or => 5,
        Calculation::Xor => 6,
        Calculation::Nor => 7,
    }
}

fn instruction_number(instruction: &Instruction) -> u16 {
    match instruction {
        Instruction::GotoTable { .. } => 1,
        Instruction::WriteMetadata { .. } => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::ApplyActions(_) => 4,
        Instruction::ClearActions => 5,
        Instruction::Meter(_) => 6,
        Instruction::WriteMetadataFromPacket { .. } => 7,
        Instruction::GotoDirectTable { .. } => 8,
        Instruction::ConditionalJump { .. } => 9,
        Instruction::CalculateField { .. } => 10,
        Instruction::MovePacketOffset { .. } => 11,
        Instruction::SetPacketOffset(_) => 12,
        Instruction::Compare { .. } => 13,
        Instruction::Branch { .. } => 14,
        Instruction::Jump { .. } => 15,
    }
}

pub(super) fn write_instruction(instruction: &Instruction, to: &mut Writer) {
    let start = to.len();
    to.u16(instruction_number(instruction));
    to.u16(0);
    to.pad(4);
    match instruction {
        Instruction::GotoTable {
            table,
            offset,
            fields,
        } => {
            to.u8(*table);
            to.u8(fields.len() as u8);
            to.u16(*offset);
            to.pad(4);
            write_fields(fields, to);
        }
        Instruction::WriteMetadata {
            offset,
            length,
            value,
        } => {
            to.u16(*offset);
            to.u16(*length);
            to.put(value);
            to.pad(4);
        }
        Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
            to.u8(actions.len() as u8);
            to.pad(7);
            actions.iter().for_each(|action| write_action(action, to));
        }
        Instruction::ClearActions => {}
        Instruction::Meter(meter) => {
            to.u32(*meter);
            to.pad(4);
        }
        Instruction::WriteMetadataFromPacket {
            metadata_offset,
            packet_offset,
            length,
        } => {
            to.u16(*metadata_offset);
            to.u16(*packet_offset);
            to.u16(*length);
            to.pad(2);
        }
        Instruction::GotoDirectTable {
            table,
            offset,
            index,
        } => {
            to.u8(*table);
            to.u8(operand_kind(index));
            to.u16(*offset);
            to.pad(4);
            write_operand(index, to);
        }
        Instruction::ConditionalJump {
            left,
            right,
            less,
            equal,
            greater,
        } => {
            let jumps = [less, equal, greater];
            to.u8(operand_kind(right));
            for jump in jumps {
                write_direction(jump.direction, to);
                to.u8(operand_kind(&jump.distance));
            }
            to.pad(1);
            write_field(left, to);
            write_operand(right, to);
            for jump in jumps {
                write_operand(&jump.distance, to);
            }
        }
        Instruction::CalculateField {
            operation,
            target,
            source,
        } => {
            to.u16(calculation_number(*operation));
            to.u8(operand_kind(source));
            to.pad(5);
            write_field(target, to);
            write_operand(source, to);
        }
        Instruction::MovePacketOffset {
            direction,
            distance,
        } => {
            write_direction(*direction, to);
            to.u8(operand_kind(distance));
            to.pad(6);
            write_operand(distance, to);
        }
        Instruction::SetPacketOffset(offset) => {
            to.u8(operand_kind(offset));
            to.pad(7);
            write_operand(offset, to);
        }
        Instruction::Compare {
            result,
            left,
            right,
        } => {
            to.u8(operand_kind(right));
            to.u8(*result);
            to.pad(6);
            write_field(left, to);
            write_operand(right, to);
        }
        Instruction::Branch { left, right, skip } => {
            to.u8(operand_kind(right));
            to.pad(3);
            to.u32(*skip);
            write_field(left, to);
            write_operand(right, to);
        }
        Instruction::Jump {
            direction,
            distance,
        } => {
            write_direction(*direction, to);
            to.pad(3);
            to.u32(*distance);
        }
    }
    finish(start, INSTRUCTION_BYTES, to);
}

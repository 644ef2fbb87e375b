//! Checks of matches, instructions and actions.

use super::{Entry, Table, TableNumber, Tables};
use crate::model::*;
use crate::wire::{ErrorCode, GroupMod, TableMod};

/// Number of bits of the metadata.
const METADATA_BITS: u32 = 8 * METADATA_BYTES as u32;

/// Maximum number of words of a checksum: more than the 16-bit words of a packet.
const MAX_CHECKSUM_WORDS: u16 = 4_608;

/// Maximum number of words of all checksums of a group, and of a list with its groups: code is made
/// for each word.
const MAX_GROUP_WORDS: usize = 512;
const MAX_LIST_WORDS: usize = 3 * MAX_CHECKSUM_WORDS as usize;

/// Returns the number of words of a checksum, 0 for other actions.
fn checksum_words(action: &Action) -> usize {
    match action {
        Action::CalculateChecksum {
            checksum_length,
            data_length,
            ..
        } => usize::from(data_length / (*checksum_length).max(1)),
        _ => 0,
    }
}

fn words_of_all(actions: &[Action]) -> usize {
    actions.iter().map(checksum_words).sum()
}

/// Returns the counters that an entry or group uses.
pub(super) fn counters_of<'a>(
    own: u32,
    actions: impl Iterator<Item = &'a Action>,
) -> impl Iterator<Item = u32> {
    let counted = actions.filter_map(|action| match action {
        Action::Counter(id) => Some(*id),
        _ => None,
    });
    let ids: Vec<u32> = std::iter::once(own).chain(counted).collect();
    ids.into_iter().filter(|id| *id != 0)
}

/// Checks the match fields of a table.
pub(super) fn key(wanted: &TableMod, most: u16) -> Result<(), ErrorCode> {
    let widths = wanted.fields.iter().map(|field| u32::from(field.length));
    let width: u32 = widths.sum();
    let is_field = |field: &Field| {
        let is_inside = match field.place() {
            Place::Packet => true,
            Place::Metadata => field.end() <= METADATA_BITS,
            Place::Parameter => false,
        };
        is_inside && (1..=MAX_FIELD_BITS).contains(&field.length)
    };
    let fits = width == u32::from(wanted.key_length) || wanted.table_type == TableType::Linear;
    match fits && width <= u32::from(most) && wanted.fields.iter().all(is_field) {
        true => Ok(()),
        false => Err(ErrorCode::BadKeyLength),
    }
}

/// Checks the match of an entry.
pub(super) fn matches(table: &Table, matches: &[Match]) -> Result<(), ErrorCode> {
    if table.table_type == TableType::Linear {
        let is_long = |one: &Match| one.field.length > MAX_FIELD_BITS;
        return match matches.iter().any(is_long) {
            true => Err(ErrorCode::BadMatchLength),
            false => Ok(()),
        };
    }
    let widths = |fields: &mut dyn Iterator<Item = Field>| -> Vec<u16> {
        fields.map(|field| field.length).collect()
    };
    let wanted = widths(&mut table.fields.iter().copied());
    if widths(&mut matches.iter().map(|one| one.field)) != wanted {
        return Err(ErrorCode::BadMatchLength);
    }
    let is_same = |(field, one): (&Field, &Match)| {
        field.place() == one.field.place() && field.offset == one.field.offset
    };
    if !table.fields.iter().zip(matches).all(is_same) {
        return Err(ErrorCode::BadMatchField);
    }
    let widths = matches.iter().map(|one| u32::from(one.field.length));
    let is_allowed = match (table.table_type, prefix_length(matches)) {
        (TableType::LongestPrefix, prefix) => prefix.is_some(),
        // All bits count, and a mask that says otherwise is a mistake.
        (TableType::Exact, prefix) => prefix == Some(widths.sum()),
        (TableType::Masked | TableType::Linear, _) => true,
    };
    match is_allowed {
        true => Ok(()),
        false => Err(ErrorCode::BadMatchMask),
    }
}

/// Returns the number of leading bits that the masks of a key have, or `None` if other bits are
/// set.
pub(crate) fn prefix_length(matches: &[Match]) -> Option<u32> {
    let bits = matches.iter().flat_map(|one| {
        let bit = |at: u16| one.mask[usize::from(at / 8)] >> (7 - at % 8) & 1 == 1;
        (0..one.field.length.min(MAX_FIELD_BITS)).map(bit)
    });
    let bits: Vec<bool> = bits.collect();
    let ones = bits.iter().take_while(|bit| **bit).count();
    bits[ones..].iter().all(|bit| !bit).then_some(ones as u32)
}

/// Checks a field that an action reads or writes.
fn field(field: Field, most: u16, length: ErrorCode) -> Result<(), ErrorCode> {
    if !(1..=most).contains(&field.length) {
        return Err(length);
    }
    match field.place() {
        Place::Packet => Ok(()),
        Place::Metadata if field.end() <= METADATA_BITS => Ok(()),
        Place::Metadata => Err(ErrorCode::BadOffset),
        Place::Parameter => Err(ErrorCode::BadMatchField),
    }
}

fn metadata(offset: u16, length: impl Into<u32>) -> Result<(), ErrorCode> {
    match u32::from(offset) + length.into() <= METADATA_BITS {
        true => Ok(()),
        false => Err(ErrorCode::BadOffset),
    }
}

fn operand(operand: &Argument) -> Result<(), ErrorCode> {
    match operand {
        Argument::Immediate(_) => Ok(()),
        Argument::Field(one) => field(*one, MAX_OPERAND_BITS, ErrorCode::BadMatchLength),
    }
}

fn comparison(left: Field, right: &Argument) -> Result<(), ErrorCode> {
    field(left, MAX_OPERAND_BITS, ErrorCode::BadMatchLength)?;
    operand(right)
}

/// Returns the instruction to which a jump of this distance leads, if it is in the list or at its
/// end.
pub(crate) fn jump_target(
    at: usize,
    direction: Direction,
    distance: u32,
    length: usize,
) -> Option<usize> {
    let (at, distance) = (at as i64, i64::from(distance));
    let target = match direction {
        Direction::Forward => at + distance,
        Direction::Backward => at - distance,
    };
    usize::try_from(target)
        .ok()
        .filter(|target| *target <= length)
}

impl Tables {
    pub(super) fn check_entry(&self, table: &Table, entry: &Entry) -> Result<(), ErrorCode> {
        matches(table, &entry.matches)?;
        if entry.counter >= self.limits.counters {
            return Err(ErrorCode::FlowBadCounter);
        }
        if self.list_words(entry, |_| None) > MAX_LIST_WORDS {
            return Err(ErrorCode::BadActionArgument);
        }
        let instructions = &entry.instructions;
        let mut numbered = instructions.iter().enumerate();
        numbered.try_for_each(|(at, one)| self.check_instruction(at, one, instructions.len()))
    }

    /// Returns the number of words of all checksums of an entry with its groups. `changed` returns
    /// the number of a group that another one takes the place of.
    fn list_words(&self, entry: &Entry, changed: impl Fn(u32) -> Option<usize>) -> usize {
        let words = entry.actions().map(|action| match action {
            Action::Group(id) => changed(*id).unwrap_or_else(|| self.group_words(*id)),
            action => checksum_words(action),
        });
        words.sum()
    }

    fn group_words(&self, id: u32) -> usize {
        self.group(id)
            .map_or(0, |group| words_of_all(&group.actions))
    }

    fn check_instruction(
        &self,
        at: usize,
        instruction: &Instruction,
        length: usize,
    ) -> Result<(), ErrorCode> {
        let jump = |direction, distance| {
            let target = jump_target(at, direction, distance, length);
            target.map(drop).ok_or(ErrorCode::BadJump)
        };
        match instruction {
            Instruction::GotoTable { table, .. } => self.check_next(*table, false),
            Instruction::GotoDirectTable { table, index, .. } => {
                operand(index)?;
                self.check_next(*table, true)
            }
            Instruction::WriteMetadata { offset, length, .. } => {
                let written = Field::metadata(*offset, *length);
                field(written, MAX_FIELD_BITS, ErrorCode::BadOffset)
            }
            Instruction::ClearActions => Ok(()),
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => actions
                .iter()
                .try_for_each(|action| self.check_action(action)),
            Instruction::Meter(meter) if self.meters.contains_key(meter) => Ok(()),
            Instruction::Meter(_) => Err(ErrorCode::UnknownMeter),
            Instruction::WriteMetadataFromPacket {
                metadata_offset,
                length,
                ..
            } => {
                let written = Field::metadata(*metadata_offset, *length);
                field(written, METADATA_BITS as u16, ErrorCode::BadOffset)
            }
            Instruction::ConditionalJump {
                left,
                right,
                less,
                equal,
                greater,
            } => {
                comparison(*left, right)?;
                [less, equal, greater].into_iter().try_for_each(|one| {
                    operand(&one.distance)?;
                    match one.distance {
                        Argument::Immediate(distance) => jump(one.direction, distance),
                        Argument::Field(_) => Ok(()),
                    }
                })
            }
            Instruction::CalculateField { target, source, .. } => comparison(*target, source),
            Instruction::MovePacketOffset { distance, .. } => operand(distance),
            Instruction::SetPacketOffset(offset) => operand(offset),
            Instruction::Compare {
                result,
                left,
                right,
            } => {
                comparison(*left, right)?;
                match result {
                    0..=3 => Ok(()),
                    _ => Err(ErrorCode::BadOffset),
                }
            }
            Instruction::Branch { left, right, skip } => {
                comparison(*left, right)?;
                jump(Direction::Forward, *skip)
            }
            Instruction::Jump {
                direction,
                distance,
            } => {
                let target = jump_target(at + 1, *direction, *distance, length);
                target.map(drop).ok_or(ErrorCode::BadJump)
            }
        }
    }

    fn check_next(&self, number: u8, is_direct: bool) -> Result<(), ErrorCode> {
        let table = self.table(TableNumber(number));
        match table.map(|table| table.table_type == TableType::Linear) {
            Some(is_linear) if is_linear == is_direct => Ok(()),
            _ => Err(ErrorCode::BadNextTable),
        }
    }

    pub(crate) fn check_action(&self, action: &Action) -> Result<(), ErrorCode> {
        match action {
            Action::Output {
                port,
                metadata_offset,
                metadata_length,
                ..
            } => {
                operand(port)?;
                let bits = u32::from(*metadata_length).next_multiple_of(8);
                metadata(*metadata_offset, bits)?;
                match port {
                    Argument::Immediate(number) => output_port(*number),
                    Argument::Field(_) => Ok(()),
                }
            }
            Action::SetField(one) => field(one.field, MAX_FIELD_BITS, ErrorCode::BadActionLength),
            Action::SetFieldFromMetadata {
                field: written,
                metadata_offset,
            } => {
                field(*written, METADATA_BITS as u16, ErrorCode::BadActionLength)?;
                metadata(*metadata_offset, written.length)
            }
            Action::ModifyField { field: one, .. } => {
                field(*one, MAX_OPERAND_BITS, ErrorCode::BadActionLength)
            }
            Action::AddField { length, .. } => {
                match (1..=u32::from(MAX_FIELD_BITS)).contains(length) {
                    true => Ok(()),
                    false => Err(ErrorCode::BadActionLength),
                }
            }
            Action::DeleteField { length, .. } => operand(length),
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset,
                checksum_length,
                data_place,
                data_offset,
                data_length,
            } => {
                if !(1..=64).contains(checksum_length) {
                    return Err(ErrorCode::BadActionLength);
                }
                let end = Field::packet(*data_offset, *data_length).end();
                let words = data_length / checksum_length;
                if end > u32::from(u16::MAX) || words > MAX_CHECKSUM_WORDS {
                    return Err(ErrorCode::BadActionArgument);
                }
                let is_metadata = |place: &Place| *place == Place::Metadata;
                if is_metadata(checksum_place) {
                    metadata(*checksum_offset, *checksum_length)?;
                }
                if is_metadata(data_place) {
                    metadata(*data_offset, *data_length)?;
                }
                Ok(())
            }
            Action::Group(id) if self.group(*id).is_some() => Ok(()),
            Action::Group(_) => Err(ErrorCode::BadOutGroup),
            Action::Drop { .. } | Action::PacketIn { .. } => Ok(()),
            Action::Counter(id) if (1..self.limits.counters).contains(id) => Ok(()),
            Action::Counter(_) => Err(ErrorCode::BadActionArgument),
        }
    }

    pub(super) fn check_group(&self, group: &GroupMod) -> Result<(), ErrorCode> {
        if group.counter >= self.limits.counters {
            return Err(ErrorCode::BadBucket);
        }
        let is_group = |action: &Action| matches!(action, Action::Group(_));
        if group.actions.iter().any(is_group) {
            return Err(ErrorCode::GroupChaining);
        }
        let words = words_of_all(&group.actions);
        if words > MAX_GROUP_WORDS {
            return Err(ErrorCode::BadBucket);
        }
        if words > self.group_words(group.id) {
            let changed = |id| (id == group.id).then_some(words);
            let entry = |(number, index)| self.table(number)?.entry(index);
            let mut users = self.users_of_group(group.id).filter_map(entry);
            if users.any(|entry| self.list_words(&entry, changed) > MAX_LIST_WORDS) {
                return Err(ErrorCode::BadBucket);
            }
        }
        let mut actions = group.actions.iter();
        actions.try_for_each(|action| self.check_action(action))
    }
}

/// Checks the number of an OUTPUT's port: slot 0, or one of the numbers with a meaning.
fn output_port(number: u32) -> Result<(), ErrorCode> {
    let (slot, id) = (number >> 16, number as u16);
    let is_allowed = match slot {
        0 => id <= port::MAX,
        0xFFFF => matches!(
            id,
            port::IN_PORT | port::FLOOD | port::ALL | port::CONTROLLER
        ),
        _ => false,
    };
    match is_allowed {
        true => Ok(()),
        false => Err(ErrorCode::BadOutPort),
    }
}

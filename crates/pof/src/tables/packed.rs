//! Entries as tables keep them: a form, which many entries share, and the numbers in it.

use std::collections::HashSet;
use std::sync::Arc;

use super::Entry;
use crate::model::*;

/// Entry without its numbers: they are zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Form {
    idle_timeout: u16,
    hard_timeout: u16,
    matches: Box<[Match]>,
    instructions: Box<[Instruction]>,
}

/// Set of the forms in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forms(HashSet<Arc<Form>>);

/// An entry without its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedEntry {
    form: Arc<Form>,
    /// Counter, cookie, priority, and the numbers of the form in the order of [`visit`].
    numbers: Box<[u8]>,
}

impl Forms {
    /// Packs an entry.
    pub(super) fn pack(&mut self, entry: Entry) -> PackedEntry {
        let Entry {
            counter,
            cookie,
            idle_timeout,
            hard_timeout,
            priority,
            index: _,
            mut matches,
            mut instructions,
        } = entry;
        let mut taken = Taken(Vec::with_capacity(64));
        taken.0.extend(counter.to_be_bytes());
        taken.0.extend(cookie.to_be_bytes());
        taken.0.extend(priority.to_be_bytes());
        visit(&mut matches, &mut instructions, &mut taken);
        let form = Form {
            idle_timeout,
            hard_timeout,
            matches: matches.into(),
            instructions: instructions.into(),
        };
        let form = match self.0.get(&form) {
            Some(known) => Arc::clone(known),
            None => {
                let form = Arc::new(form);
                self.0.insert(Arc::clone(&form));
                form
            }
        };
        PackedEntry {
            form,
            numbers: taken.0.into(),
        }
    }

    /// Frees an entry, and its form if no other entry has it.
    pub(super) fn free(&mut self, entry: PackedEntry) {
        // One is the entry's, the other one that of the set.
        if Arc::strong_count(&entry.form) == 2 {
            self.0.remove(&entry.form);
        }
    }
}

impl PackedEntry {
    /// Returns the entry, which has this index.
    pub(super) fn unpack(&self, index: u32) -> Entry {
        let Form {
            idle_timeout,
            hard_timeout,
            matches,
            instructions,
        } = &*self.form;
        let (mut matches, mut instructions) = (matches.to_vec(), instructions.to_vec());
        let mut given = Given(&self.numbers);
        let (counter, cookie, priority) = (given.array(), given.array(), given.array());
        visit(&mut matches, &mut instructions, &mut given);
        Entry {
            counter: u32::from_be_bytes(counter),
            cookie: u64::from_be_bytes(cookie),
            idle_timeout: *idle_timeout,
            hard_timeout: *hard_timeout,
            priority: u16::from_be_bytes(priority),
            index,
            matches,
            instructions,
        }
    }
}

/// Operation on the numbers of an entry.
trait Numbers {
    /// Visits these bytes of a number.
    fn bytes(&mut self, bytes: &mut [u8]);

    fn number(&mut self, number: &mut u32) {
        let mut bytes = number.to_be_bytes();
        self.bytes(&mut bytes);
        *number = u32::from_be_bytes(bytes);
    }

    fn argument(&mut self, argument: &mut Argument) {
        if let Argument::Immediate(number) = argument {
            self.number(number);
        }
    }

    /// Visits the bytes of a value that a field of this many bits has.
    fn value(&mut self, value: &mut FieldValue, bits: u32) {
        let bytes = bits.div_ceil(8).min(VALUE_BYTES as u32) as usize;
        self.bytes(&mut value[..bytes]);
    }
}

/// Moves numbers out of an entry. Zeros stay.
struct Taken(Vec<u8>);

impl Numbers for Taken {
    fn bytes(&mut self, bytes: &mut [u8]) {
        self.0.extend_from_slice(bytes);
        bytes.fill(0);
    }
}

/// Copies numbers into an entry.
struct Given<'n>(&'n [u8]);

impl Given<'_> {
    fn array<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut array = [0; LENGTH];
        self.bytes(&mut array);
        array
    }
}

impl Numbers for Given<'_> {
    fn bytes(&mut self, bytes: &mut [u8]) {
        // Both operations visit the same bytes.
        if let Some((first, rest)) = self.0.split_at_checked(bytes.len()) {
            bytes.copy_from_slice(first);
            self.0 = rest;
        }
    }
}

/// Visits all numbers of an entry that differ between entries of one purpose. Offsets, widths,
/// tables and groups are not among them.
fn visit(matches: &mut [Match], instructions: &mut [Instruction], numbers: &mut impl Numbers) {
    for one in matches {
        visit_match(one, numbers);
    }
    for instruction in instructions {
        match instruction {
            Instruction::WriteMetadata { length, value, .. } => {
                numbers.value(value, (*length).into());
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                for action in actions {
                    visit_action(action, numbers);
                }
            }
            Instruction::Meter(meter) => numbers.number(meter),
            Instruction::GotoDirectTable { index, .. } => numbers.argument(index),
            Instruction::ConditionalJump { right, .. }
            | Instruction::Compare { right, .. }
            | Instruction::Branch { right, .. } => numbers.argument(right),
            Instruction::CalculateField { source, .. } => numbers.argument(source),
            Instruction::GotoTable { .. }
            | Instruction::ClearActions
            | Instruction::WriteMetadataFromPacket { .. }
            | Instruction::MovePacketOffset { .. }
            | Instruction::SetPacketOffset(_)
            | Instruction::Jump { .. } => {}
        }
    }
}

fn visit_match(one: &mut Match, numbers: &mut impl Numbers) {
    let bits = one.field.length.into();
    numbers.value(&mut one.value, bits);
    numbers.value(&mut one.mask, bits);
}

fn visit_action(action: &mut Action, numbers: &mut impl Numbers) {
    match action {
        Action::Output { port, .. } => numbers.argument(port),
        Action::SetField(set) => visit_match(set, numbers),
        Action::ModifyField { increment, .. } => {
            let mut number = increment.cast_unsigned();
            numbers.number(&mut number);
            *increment = number.cast_signed();
        }
        Action::AddField { length, value, .. } => numbers.value(value, *length),
        Action::Drop { reason } | Action::PacketIn { reason } => numbers.number(reason),
        Action::Counter(id) => numbers.number(id),
        Action::SetFieldFromMetadata { .. }
        | Action::DeleteField { .. }
        | Action::CalculateChecksum { .. }
        | Action::Group(_) => {}
    }
}

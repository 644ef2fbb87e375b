//! Intrinsic fields in a packet's frame: found by name once, when a program is loaded.

use bits::{Value, one};
use ir::{FieldId, Layout, Program};

/// Where a field of at most 64 bits lives. A field that the program does not have reads as 0 and ignores writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    place: Option<(u32, u64)>,
    field: Option<FieldId>,
}

impl Slot {
    /// The intrinsic of this name.
    pub(crate) fn of(program: &Program, layout: &Layout, name: &str) -> Slot {
        let field = program.pipeline.intrinsics.get(name);
        field.map_or_else(Slot::default, |field| Slot::at(program, layout, *field))
    }

    /// Where this field lives.
    pub(crate) fn at(program: &Program, layout: &Layout, field: FieldId) -> Slot {
        let width = program.fields[field].ty.width();
        Slot {
            place: Some((layout.offset(field), one::mask(width.min(64)))),
            field: Some(field),
        }
    }

    /// The field, if the program has it.
    pub(crate) fn field(self) -> Option<FieldId> {
        self.field
    }

    /// Whether the program has it.
    pub(crate) fn exists(self) -> bool {
        self.place.is_some()
    }

    /// The largest value that it holds; 0 without the field.
    pub(crate) fn largest(self) -> u64 {
        self.place.map_or(0, |(_, mask)| mask)
    }

    #[inline]
    pub(crate) fn get(self, frame: &[u64]) -> u64 {
        self.place.map_or(0, |(at, _)| frame[at as usize])
    }

    /// The field with its value, if the program has it.
    pub(crate) fn read(self, frame: &[u64]) -> Option<(FieldId, Value)> {
        let (at, mask) = self.place?;
        let value = Value::truncated(frame[at as usize].into(), mask.count_ones());
        Some((self.field?, value))
    }

    /// Writes the low bits.
    #[inline]
    pub(crate) fn set(self, frame: &mut [u64], value: u64) {
        if let Some((at, mask)) = self.place {
            frame[at as usize] = value & mask;
        }
    }
}

/// The limbs of fields that are copied together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limbs {
    ranges: Vec<(u32, u32)>,
}

impl Limbs {
    /// The limbs of these fields, in order.
    pub(crate) fn of(program: &Program, layout: &Layout, fields: &[FieldId]) -> Limbs {
        let range =
            |&field: &FieldId| (layout.offset(field), ir::limbs_of(program.fields[field].ty));
        Limbs {
            ranges: fields.iter().map(range).collect(),
        }
    }

    /// Appends the values to `saved`.
    pub(crate) fn save(&self, frame: &[u64], saved: &mut Vec<u64>) {
        for &(at, len) in &self.ranges {
            saved.extend_from_slice(&frame[at as usize..(at + len) as usize]);
        }
    }

    /// Writes values that [`Limbs::save`] of the same fields, or of fields of the same types, gave.
    pub(crate) fn restore(&self, frame: &mut [u64], saved: &[u64]) {
        let mut from = 0;
        for &(at, len) in &self.ranges {
            let len = len as usize;
            if let Some(values) = saved.get(from..from + len) {
                frame[at as usize..at as usize + len].copy_from_slice(values);
            }
            from += len;
        }
    }

    /// Zeroes the values.
    pub(crate) fn clear(&self, frame: &mut [u64]) {
        for &(at, len) in &self.ranges {
            frame[at as usize..(at + len) as usize].fill(0);
        }
    }
}

/// The limbs of all fields that belong to no header and no stack: metadata and variables.
pub(crate) fn metadata(program: &Program, layout: &Layout) -> Limbs {
    let mut is_header = bits::IdSet::default();
    for header in program.headers.values() {
        let fields = program.header_types[header.ty].fields.len() as u32;
        for index in 0..=fields {
            is_header.insert(FieldId::new(header.valid.get() + index));
        }
    }
    for stack in program.stacks.values() {
        is_header.insert(stack.next_index);
    }
    let fields: Vec<FieldId> = program
        .fields
        .ids()
        .filter(|&field| !is_header.contains(field))
        .collect();
    Limbs::of(program, layout, &fields)
}

//! Intrinsic fields in a packet's frame. They are looked up by name once, when a program is loaded.

use bits::{Value, one};
use ir::{FieldId, Layout, Program};

/// Location of a field of at most 64 bits. A field that the program does not have reads as 0 and
/// ignores writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotCell {
    place: Option<(u32, u64)>,
    field: Option<FieldId>,
}

impl SnapshotCell {
    /// Returns the location of the intrinsic field with this name.
    pub(crate) fn of(program: &Program, layout: &Layout, name: &str) -> SnapshotCell {
        let field = program.pipeline.intrinsics.get(name);
        field.map_or_else(SnapshotCell::default, |field| {
            SnapshotCell::at(program, layout, *field)
        })
    }

    /// Returns the location of this field.
    pub(crate) fn at(program: &Program, layout: &Layout, field: FieldId) -> SnapshotCell {
        let width = program.fields[field].ty.width();
        SnapshotCell {
            place: Some((layout.offset(field), one::mask(width.min(64)))),
            field: Some(field),
        }
    }

    /// Returns the field's id, if the program has it.
    pub(crate) fn field(self) -> Option<FieldId> {
        self.field
    }

    /// Returns true if the program has the field.
    pub(crate) fn exists(self) -> bool {
        self.place.is_some()
    }

    /// Returns the largest value of the field, or 0 if there is none.
    pub(crate) fn largest(self) -> u64 {
        self.place.map_or(0, |(_, mask)| mask)
    }

    #[inline]
    pub(crate) fn get(self, frame: &[u64]) -> u64 {
        self.place.map_or(0, |(at, _)| frame[at as usize])
    }

    /// Returns the field with its value, if the program has it.
    pub(crate) fn read(self, frame: &[u64]) -> Option<(FieldId, Value)> {
        let (at, mask) = self.place?;
        let value = Value::truncated(frame[at as usize].into(), mask.count_ones());
        Some((self.field?, value))
    }

    /// Writes the low bits of `value`.
    #[inline]
    pub(crate) fn set(self, frame: &mut [u64], value: u64) {
        if let Some((at, mask)) = self.place {
            frame[at as usize] = value & mask;
        }
    }
}

/// Limbs of fields that are copied together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limbs {
    ranges: Vec<(u32, u32)>,
}

impl Limbs {
    /// Returns the limbs of these fields, in order.
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

    /// Writes values saved by [`Limbs::save`] for the same fields, or for fields of the same types.
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

/// Returns the limbs of all fields that belong to no header and no header stack: metadata and
/// variables.
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

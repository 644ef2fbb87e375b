//! Migration of counters, meters, registers and value sets.

use std::sync::Arc;

use exec::{ExternState, Registers};
use ir::{ExternId, ExternKind};
use table::{CounterArray, CounterKind, CounterReading, MeterArray, ValueSetError};

use super::{Count, Keeper, tell_size};
use crate::conversion::{CellConversion, ConversionNotes, MemberConversion};
use crate::migration::StateKind;

impl Keeper<'_> {
    pub(super) fn externs(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, instance) in before.externs.iter() {
            let mut others = after.externs.iter();
            let other = others.find(|(_, other)| other.name == instance.name);
            let (id, name) = (other.map(|(id, _)| id), &instance.name);
            let old = self.old;
            if let Some(profile) = &old.profiles[old_id] {
                let is_selector =
                    |kind: &ExternKind| matches!(kind, ExternKind::ActionSelector { .. });
                let same = other.filter(|(id, other)| {
                    self.new.profiles[*id].is_some()
                        && is_selector(&other.kind) == is_selector(&instance.kind)
                });
                self.profile(name, profile, old_id, same.map(|(id, _)| id));
                continue;
            }
            match &old.cells[old_id] {
                ExternState::None | ExternState::Profile(_) => {}
                ExternState::Counter(cells) => self.counters(name, cells, id),
                ExternState::Meter(cells) => self.meters(name, cells, id),
                ExternState::Register(cells) => {
                    let ExternKind::Register { cell, .. } = &instance.kind else {
                        continue;
                    };
                    let cell_after = other.and_then(|(_, other)| match &other.kind {
                        ExternKind::Register { cell, .. } => Some(cell.as_slice()),
                        _ => None,
                    });
                    self.registers(name, cells, cell, id.zip(cell_after));
                }
            }
        }
    }

    fn counters(&mut self, name: &str, before: &Arc<CounterArray>, id: Option<ExternId>) {
        let kind = StateKind::Counters;
        let counted = |reading: &CounterReading| *reading != CounterReading::default();
        let held = || before.iter().filter(counted).count();
        let Some(ExternState::Counter(after)) = id.map(|id| &self.new.cells[id]) else {
            return self.lost(kind, name, "the new program has no such counter", held());
        };
        let mut notes = ConversionNotes::default();
        tell_size(before.len(), after.len(), &mut notes);
        tell_units(before.kind(), after.kind(), &mut notes);
        if (before.len(), before.kind()) == (after.len(), after.kind()) {
            let id = id.expect("it was found by this id");
            self.new.cells[id] = ExternState::Counter(before.clone());
            return self.line(kind, name, notes, Count::all_kept(before.len()));
        }
        let mut count = Count::all_kept(held());
        for (index, reading) in before.iter().enumerate() {
            let kept = counted_by(after.kind(), reading);
            let fits = after.write(index as u64, kept).is_some() && kept == reading;
            count.lost += usize::from(!fits && counted(&reading));
        }
        self.line(kind, name, notes, count);
    }

    fn meters(&mut self, name: &str, before: &Arc<MeterArray>, id: Option<ExternId>) {
        let kind = StateKind::Meters;
        let configs = || (0..before.len() as u64).map(|index| before.config(index));
        let held = || configs().flatten().count();
        let Some(ExternState::Meter(after)) = id.map(|id| &self.new.cells[id]) else {
            return self.lost(kind, name, "the new program has no such meter", held());
        };
        if before.unit() != after.unit() {
            return self.lost(kind, name, "it meters another unit", held());
        }
        let mut notes = ConversionNotes::default();
        tell_size(before.len(), after.len(), &mut notes);
        if before.len() == after.len() {
            let id = id.expect("it was found by this id");
            self.new.cells[id] = ExternState::Meter(before.clone());
            return self.line(kind, name, notes, Count::all_kept(before.len()));
        }
        let mut count = Count::all_kept(held());
        for (index, config) in configs().enumerate() {
            if let Some(counts) = before.counts(index as u64) {
                // The new meter array may be smaller. The counts of meters that no longer exist are
                // lost with them.
                let _ = after.write_counts(index as u64, counts);
            }
            let Some(config) = config else { continue };
            let is_kept = after.configure(index as u64, config).is_ok();
            count.lost += usize::from(!is_kept);
        }
        self.line(kind, name, notes, count);
    }

    fn registers(
        &mut self,
        name: &str,
        before: &Arc<Registers>,
        cell: &[ir::ScalarTy],
        after: Option<(ExternId, &[ir::ScalarTy])>,
    ) {
        let kind = StateKind::Registers;
        // A cell with its initial value holds no state.
        let is_first = |cell: &[bits::Value]| cell == before.initial();
        let cells = || (0..u64::from(before.size())).filter_map(|index| before.get(index));
        let held = || cells().filter(|cell| !is_first(cell)).count();
        let found = after.and_then(|(id, to)| match &self.new.cells[id] {
            ExternState::Register(registers) => Some((id, to, registers.clone())),
            _ => None,
        });
        let Some((id, to, after)) = found else {
            return self.lost(kind, name, "the new program has no such register", held());
        };
        let mut notes = ConversionNotes::default();
        let fit = match CellConversion::of(cell, to, &mut notes) {
            Ok(fit) => fit,
            Err(reason) => return self.lost(kind, name, &reason, held()),
        };
        tell_size(before.size() as usize, after.size() as usize, &mut notes);
        if notes.reasons.is_empty() {
            self.new.cells[id] = ExternState::Register(before.clone());
            let count = Count::all_kept(before.size() as usize);
            return self.line(kind, name, notes, count);
        }
        let mut count = Count::all_kept(held());
        for (index, cell) in cells().enumerate() {
            let value = fit.convert(&cell);
            let is_kept = value.is_some_and(|value| after.set(index as u64, &value).is_some());
            count.lost += usize::from(!is_kept && !is_first(&cell));
        }
        self.line(kind, name, notes, count);
    }

    pub(super) fn value_sets(&mut self) {
        let (before, after) = (self.old.program().clone(), self.new.program().clone());
        for (old_id, set) in before.value_sets.iter() {
            let old = &self.old.value_sets[old_id];
            let held = old.members().len();
            let kind = StateKind::ValueSetMembers;
            let mut others = after.value_sets.iter();
            let Some((id, other)) = others.find(|(_, other)| other.name == set.name) else {
                self.lost(
                    kind,
                    &set.name,
                    "the new program has no such value set",
                    held,
                );
                continue;
            };
            let mut notes = ConversionNotes::default();
            let kept = &mut self.new.value_sets[id];
            let shape = kept.shape().clone();
            let fit = match MemberConversion::of((set, old.shape()), (other, &shape), &mut notes) {
                Ok(fit) => fit,
                Err(reason) => {
                    self.lost(kind, &set.name, &reason, held);
                    continue;
                }
            };
            tell_size(set.size as usize, other.size as usize, &mut notes);
            // If there is too little space, the first members are kept.
            let mut count = Count::default();
            for member in old.members() {
                let done = fit.convert(member).map(|member| kept.insert(member));
                count.add(matches!(done, Some(Ok(()) | Err(ValueSetError::Duplicate))));
            }
            self.line(kind, &set.name, notes, count);
        }
    }
}

pub(super) fn tell_units(before: CounterKind, after: CounterKind, notes: &mut ConversionNotes) {
    use CounterKind::{Bytes, Packets, PacketsAndBytes};
    match (before, after) {
        _ if before == after => {}
        (Packets | Bytes, PacketsAndBytes) => {
            notes.tell("it counts packets and bytes, of which one begins at 0".to_owned());
        }
        _ => notes.risk("it counts another unit".to_owned()),
    }
}

/// Returns the part of a reading that a counter of this kind has.
pub(super) fn counted_by(kind: CounterKind, reading: CounterReading) -> CounterReading {
    CounterReading {
        packets: if kind == CounterKind::Bytes {
            0
        } else {
            reading.packets
        },
        bytes: if kind == CounterKind::Packets {
            0
        } else {
            reading.bytes
        },
    }
}

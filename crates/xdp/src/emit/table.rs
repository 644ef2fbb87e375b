//! Emission of table lookups and of the actions that they select.

use bits::limbs_for;
use ir::{Expr, MatchKind, MatchOutcome, TableId, limbs_of};
use support::work::checkpoint;

use super::{Emitted, Emitter};
use crate::assembler::{Alu, Label, MapName, R0, R1, R2, R3, R4, R5, R7, R8, R9, Size, When};
use crate::shape::{HIT, KeyForm, LEAVES, LIST_HEADER, ROW, TOO_LONG, TableShape, VALUE_HEADER};

impl Emitter<'_> {
    /// Applies a table: looks up the key, notes the row, and runs the action. Returns the cells of
    /// the action's number and of the hit.
    pub(super) fn apply(&mut self, id: TableId, outcome: MatchOutcome) -> Emitted<(i16, i16)> {
        let program = self.program;
        let shapes = self.shapes;
        let table = &program.tables[id];
        let shape = shapes.table(id)?;
        let keys = table.keys.iter();
        let keys = keys.filter(|key| key.match_kind != MatchKind::Selector);
        let keys: Vec<&Expr> = keys.map(|key| &key.expr).collect();
        let (action, hit) = (self.cells(1), self.cells(1));
        let params = self.cells(shapes.default_limbs.max(shape.param_limbs));
        let row = self.count_table(id);
        let (miss, found) = (self.asm.label(), self.asm.label());
        if shape.form == KeyForm::Empty {
            self.asm.jump(miss);
        } else {
            self.key(shape, &keys)?;
            match shape.form {
                KeyForm::Rules => self.find_rule(shape, id, miss),
                _ => self.look_up_from(shape, MapName::Table(id), miss),
            }
            self.take_value((action, hit, params), row, shape.param_limbs);
            self.asm.jump(found);
        }
        self.asm.place(miss);
        self.asm
            .store_number(Size::Word, R9, self.memory.key, id.get() as i32);
        self.look_up(MapName::Defaults);
        self.take_value((action, hit, params), row, shapes.default_limbs);
        self.asm.place(found);
        if let Some(field) = outcome.hit {
            self.load_memory(R0, hit);
            self.store_field(field, 0, R0);
        }
        if let Some(field) = outcome.action_run {
            self.load_memory(R0, action);
            self.store_field(field, 0, R0);
        }
        if self.has_groups(table) {
            let leave = format!("an entry of {} that refers to a group", table.name);
            let leave = self.leave_label(leave);
            self.load_memory(R0, action);
            self.asm.set(R1, LEAVES.into());
            self.asm.jump_if(When::Equal, R0, R1, leave);
        }
        self.run_actions(id, action, params);
        Ok((action, hit))
    }

    /// Returns true if entries of a table may refer to groups.
    fn has_groups(&self, table: &ir::Table) -> bool {
        let profile = table.implementation;
        let profile = profile.and_then(|id| self.program.externs.get(id));
        let is_selector =
            |profile: &ir::Extern| matches!(profile.kind, ir::ExternKind::ActionSelector { .. });
        profile.is_some_and(is_selector)
    }

    fn look_up_from(&mut self, shape: &TableShape, map: MapName, miss: Label) {
        let key = self.memory.key;
        if shape.form == KeyForm::Prefix {
            // The length of the prefix is before the aligned data.
            self.memory.key = key + 4;
        }
        self.look_up_or(map, miss);
        self.memory.key = key;
    }

    /// Searches the rules of a table in their order. `R0` is the address of the value of the first
    /// one that matches. The verifier follows each round of the loop.
    fn find_rule(&mut self, shape: &TableShape, id: TableId, miss: Label) {
        let (found, again) = (self.asm.label(), self.asm.label());
        let name = &self.program.tables[id].name;
        let long = format!("the table {name}, with more rules than the kernel part searches");
        let long = self.leave_label(long);
        let key = self.memory.key;
        self.memory.key = self.cells(1);
        self.asm
            .store_number(Size::Word, R9, self.memory.key, id.get() as i32);
        self.look_up(MapName::Lists);
        self.asm.load(Size::Double, R0, R0, 0);
        self.asm.store(Size::Word, R9, self.memory.key, R0);
        self.look_up(MapName::Rules(id));
        self.memory.key = key;
        self.asm.copy(R7, R0);
        self.asm.load(Size::Double, R1, R7, 0);
        self.asm.set(R2, TOO_LONG);
        self.asm.jump_if(When::Equal, R1, R2, long);
        self.asm.set(R8, 0);
        self.asm.copy(R0, R7);
        self.asm.alu_number(Alu::Add, R0, LIST_HEADER as i32);
        // The verifier follows what comes after a jump first. The jumps are such that it then has
        // to remember few other ways at a time.
        let more = self.asm.label();
        self.asm.place(again);
        self.asm
            .jump_if_number(When::AtLeast, R8, shape.rules as i32, miss);
        self.asm.load(Size::Double, R1, R7, 0);
        self.asm.jump_if(When::Below, R8, R1, more);
        self.asm.jump(miss);
        self.asm.place(more);
        self.asm.set(R5, 0);
        let (mut at, mut rule) = (key, 0);
        for (number, &(kind, width)) in shape.fields.iter().enumerate() {
            let sign = shape.sign_bit(number);
            for _ in 0..limbs_for(width) {
                checkpoint();
                self.load_memory(R1, at);
                self.asm.load(Size::Double, R2, R0, rule);
                self.asm.load(Size::Double, R3, R0, rule + 8);
                match kind {
                    MatchKind::Range => self.difference_of_range(sign),
                    _ => {
                        self.asm.alu(Alu::And, R1, R2);
                        self.asm.alu(Alu::Xor, R1, R3);
                    }
                }
                self.asm.alu(Alu::Or, R5, R1);
                at += 8;
                rule += 16;
            }
        }
        let next = self.asm.label();
        self.asm.jump_if_number(When::Different, R5, 0, next);
        self.asm.jump(found);
        self.asm.place(next);
        self.asm.alu_number(Alu::Add, R8, 1);
        self.asm.alu_number(Alu::Add, R0, shape.rule_bytes() as i32);
        self.asm.jump(again);
        self.asm.place(found);
        self.asm.alu_number(Alu::Add, R0, shape.rule_value() as i32);
    }

    /// Sets `R1` to zero if it is from `R2` to `R3`, and to another number if it is not. All are of
    /// at most 63 bits.
    fn difference_of_range(&mut self, sign: u64) {
        if sign != 0 {
            self.asm.set(R4, sign);
            self.asm.alu(Alu::Xor, R1, R4);
        }
        self.asm.alu(Alu::Sub, R3, R1);
        self.asm.alu(Alu::Sub, R1, R2);
        self.asm.alu(Alu::Or, R1, R3);
        self.asm.alu_number(Alu::Shr, R1, 63);
    }

    /// Stores the key of a table.
    fn key(&mut self, shape: &TableShape, keys: &[&Expr]) -> Emitted {
        let start = self.memory.key;
        if matches!(shape.form, KeyForm::Exact | KeyForm::Rules) {
            let mut at = start;
            for (key, &(_, width)) in keys.iter().zip(&shape.fields) {
                for limb in 0..limbs_for(width) as u32 {
                    checkpoint();
                    self.limb(key, limb)?;
                    self.asm.store(Size::Double, R9, at, R0);
                    at += 8;
                }
                self.temporaries = 0;
            }
            return Ok(());
        }
        self.asm
            .store_number(Size::Word, R9, start + 4, shape.data_bits() as i32);
        let mut at = start + 8;
        for (number, width, bytes) in shape.trie_order() {
            checkpoint();
            let is_prefix = shape.fields[number].0 == MatchKind::Lpm;
            let key = keys[number];
            if width > 64 {
                if width % 64 != 0 {
                    return Err(format!("a key of {width} bits beside a prefix"));
                }
                for limb in (0..width / 64).rev() {
                    self.limb(key, limb)?;
                    self.asm.network_order(R0, Size::Double);
                    self.asm.store(Size::Double, R9, at, R0);
                    at += 8;
                }
            } else {
                // The bytes come first in network order. What follows them is overwritten.
                self.value(key)?;
                let used = if is_prefix { width } else { bytes * 8 };
                self.asm.alu_number(Alu::Shl, R0, (64 - used) as i32);
                self.asm.network_order(R0, Size::Double);
                self.asm.store(Size::Double, R9, at, R0);
                at += bytes as i16;
            }
            self.temporaries = 0;
        }
        Ok(())
    }

    /// Takes action, hit, row and parameters out of the value at `R0`.
    fn take_value(&mut self, (action, hit, params): (i16, i16, i16), row: i16, limbs: u32) {
        self.asm.load(Size::Double, R1, R0, ROW);
        self.asm.alu_number(Alu::Add, R1, 1);
        self.asm.store(Size::Double, R9, row, R1);
        for limb in 0..limbs as i16 {
            self.asm
                .load(Size::Double, R1, R0, VALUE_HEADER as i16 + limb * 8);
            self.asm.store(Size::Double, R9, params + limb * 8, R1);
        }
        self.asm.load(Size::Double, R1, R0, 0);
        self.asm.copy(R0, R1);
        self.asm.alu_number(Alu::Shr, R0, HIT as i32);
        self.asm.store(Size::Double, R9, hit, R0);
        self.asm.mask(R1, 32);
        self.asm.store(Size::Double, R9, action, R1);
    }

    /// Runs the action of which the number is in a cell.
    fn run_actions(&mut self, table: TableId, action: i16, params: i16) {
        let program = self.program;
        let end = self.asm.label();
        for (position, listed) in program.tables[table].actions.iter().enumerate() {
            checkpoint();
            let declared = &program.actions[listed.action];
            if declared.body.is_empty() {
                continue;
            }
            let next = self.asm.label();
            self.load_memory(R0, action);
            self.asm
                .jump_if_number(When::Different, R0, position as i32, next);
            let mut at = params;
            let mut cells = Vec::new();
            for param in &declared.params {
                cells.push(at);
                at += (limbs_of(param.ty) * 8) as i16;
            }
            self.run_action(listed.action, cells);
            self.asm.jump(end);
            self.asm.place(next);
        }
        self.asm.place(end);
    }
}

//! Records. A record is the stored action of an entry: the action's position in the head, then its
//! parameters. The head is omitted if all entries run one action and records are shorter without
//! it. This module locates records, heads and parameters.

use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use ir::{ActionId, ActionScope, MatchNext, MatchOutcome, TableId, limbs_of};
use table::RecordField;

use super::action::Param;
use super::{I64, Translator, in_records};
use crate::helpers::Helper;
use crate::view;

/// Number of bytes of a limb.
const LIMB: usize = size_of::<u64>();

impl Translator<'_> {
    /// Returns the address of the default action's record, which is the first.
    pub(super) fn default_record(&mut self, table: TableId) -> Value {
        self.code.recorded_tables.insert(table);
        self.load_view(view::of_table(table).records)
    }

    /// Returns the address of the record with this number.
    pub(super) fn record_of(&mut self, table: TableId, number: Value) -> Value {
        self.code.tables_read.insert(table);
        let records = self.default_record(table);
        let stride = self.code.tables[table].records.stride() as i64;
        let behind = self.b.ins().imul_imm(number, stride);
        self.b.ins().iadd(records, behind)
    }

    /// Returns the position of the only action that a table's entries may run, if there is only
    /// one. Then hits need not test the action.
    pub(super) fn hits_run(&self, table: TableId) -> Option<usize> {
        let declared = self.program.tables.get(table)?;
        let actions = declared.actions.iter().enumerate();
        let mut of_entries = actions.filter(|(_, listed)| listed.scope != ActionScope::DefaultOnly);
        let (position, _) = of_entries.next()?;
        let is_only = of_entries.next().is_none() && declared.implementation.is_none();
        is_only.then_some(position)
    }

    /// Returns the position of the action in the default action's record.
    pub(super) fn default_head(&mut self, table: TableId) -> Value {
        let record = self.default_record(table);
        let head = self.code.tables[table].records.default_head();
        self.b.ins().uload16(I64, in_records(), record, head)
    }

    /// Returns the position of the action in a record. The record is an entry's if `is_hit` is not
    /// 0.
    pub(super) fn head_of(&mut self, table: TableId, record: Value, is_hit: Value) -> Value {
        match self.code.tables[table].records.entries_run() {
            Some(position) => {
                let of_entries = self.number(position as u64);
                let of_misses = self.default_head(table);
                self.b.ins().select(is_hit, of_entries, of_misses)
            }
            None => self.b.ins().uload16(I64, in_records(), record, 0),
        }
    }

    /// Returns the offsets of an action's parameters in a table's records.
    pub(super) fn fields_in_record(&self, table: TableId, position: usize) -> Vec<RecordField> {
        self.code.tables[table].records.fields(position).to_vec()
    }

    /// Returns the offsets of an action's parameters in contiguous limbs.
    pub(super) fn fields_in_limbs(&self, action: ActionId) -> Vec<RecordField> {
        let declared = self.program.actions.get(action);
        let params = declared.map_or(&[][..], |action| &action.params);
        let mut end = 0;
        let fields = params.iter().map(|param| {
            let (offset, bytes) = (end, limbs_of(param.ty) as usize * LIMB);
            end += bytes as i32;
            RecordField { offset, bytes }
        });
        fields.collect()
    }

    /// Returns the locations of an action's parameters, which are at these offsets from a pointer.
    pub(super) fn entry_params(
        &mut self,
        action: ActionId,
        pointer: Variable,
        fields: &[RecordField],
    ) -> Vec<Param> {
        let mut params = Vec::with_capacity(fields.len());
        for (i, &field) in fields.iter().enumerate() {
            params.push(match self.wide_param(action, i) {
                // These are stored in limbs, since a table with wide parameters is not applied by
                // records.
                Some(slot) => {
                    let (first, limbs) = (field.offset as u64 / LIMB as u64, field.limbs());
                    let numbers = [slot.into(), first, limbs as u64];
                    self.help_with(Helper::CopyParam, &numbers);
                    Param::Slots(slot)
                }
                None => Param::Entry(pointer, field),
            });
        }
        params
    }

    /// Loads the limbs of a parameter at an offset from a pointer.
    pub(super) fn load_field(&mut self, entry: Value, field: RecordField) -> Vec<Value> {
        let at = field.offset;
        let flags = in_records();
        match field.bytes {
            1 => vec![self.b.ins().uload8(I64, flags, entry, at)],
            2 => vec![self.b.ins().uload16(I64, flags, entry, at)],
            4 => vec![self.b.ins().uload32(flags, entry, at)],
            bytes => (at..at + bytes as i32)
                .step_by(LIMB)
                .map(|at| self.b.ins().load(I64, flags, entry, at))
                .collect(),
        }
    }

    /// Returns true if the choice among a table's actions has no effect: all are empty, and the
    /// choice is not read. With an action profile it matters, since a removed member turns a hit
    /// into a miss.
    pub(super) fn are_alike(
        &self,
        table: TableId,
        outcome: MatchOutcome,
        next: &MatchNext,
    ) -> bool {
        let has_profile = |table: &ir::Table| table.implementation.is_some();
        let is_asked = outcome.action_run.is_some() || matches!(next, MatchNext::ByAction(_));
        let declared = self.program.tables.get(table);
        if is_asked || declared.is_none_or(has_profile) {
            return false;
        }
        let mut actions = self.code.tables[table].actions.iter();
        actions.all(|&action| {
            let declared = self.program.actions.get(action);
            declared.is_some_and(|action| action.body.is_empty())
        })
    }
}

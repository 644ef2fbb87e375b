//! Calls of extern functions and methods: operands are stored in slots, a helper runs, and results
//! are loaded from slots.

use exec::Unsupported;
use exec::slots::call::{
    CallValues, ExternCall, is_conditional, marks, may_drop, may_keep_result, takes_data_in_a_row,
};
use exec::slots::{Slot, SlotValue};
use ir::{Arch, Call, Expr, Op, Operand, ScalarTy, limbs_of};

use super::Translator;
use super::fast_path::asks_or_tells;
use super::place::Located;
use crate::helpers::Helper;

impl Translator<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Result<(), Unsupported> {
        // In v1model, `mark_to_drop` only sets a metadata field.
        if self.program.arch == Arch::V1model && call.op == Op::MarkToDrop {
            self.mark(call.op);
            return Ok(());
        }
        // In v1model, a direct counter counts a hit when the table is applied.
        if self.program.arch == Arch::V1model && call.op == Op::DirectCounterCount {
            return Ok(());
        }
        // Prefetch passes do not count.
        if self.is_ahead() && call.op == Op::SetPacketLength {
            return Ok(());
        }
        self.set_length(call)?;
        if self.checksum_call(call)?
            || self.count(call)?
            || self.register_call(call)?
            || self.hash_call(call)?
        {
            return Ok(());
        }
        match condition_of(call) {
            Some(cond) => self.if_holds(cond, |this| this.call_helper(call)),
            None => self.call_helper(call),
        }
    }

    pub(super) fn call_helper(&mut self, call: &Call) -> Result<(), Unsupported> {
        let mut values = CallValues::default();
        let mut places: Vec<Located> = Vec::new();
        for operand in &call.operands {
            match operand {
                Operand::In(value) => values.ins.push(self.input(value)?),
                Operand::Data(all) => {
                    for value in all {
                        values.data.push(self.input(value)?);
                    }
                }
                Operand::Out(place) => places.push(self.locate(place)?),
                Operand::Outs(all) => {
                    for place in all {
                        places.push(self.locate(place)?);
                    }
                }
                Operand::Text(_) | Operand::Number(_) => {}
            }
        }
        if takes_data_in_a_row(call.op) {
            values.data = self.in_a_row(&values.data);
        }
        let limbs = places.iter().map(|to| to.limbs()).sum();
        let mut slot = self.temporary(limbs);
        for to in &places {
            values.outs.push(SlotValue { slot, ty: to.ty });
            if may_keep_result(call.op) {
                self.fetch(*to, slot);
            }
            slot += to.limbs();
        }
        let results: Vec<Slot> = values.outs.iter().map(|out| out.slot).collect();
        let code = ExternCall::new(self.program, self.natives, call, values);
        let code = code.map_err(|construct| self.unsupported(&construct))?;
        self.code.calls.push(code);
        let which = self.code.calls.len() as u64 - 1;
        self.show_progress();
        let helper = match call.op {
            Op::Remote | Op::SendFrame => Helper::CallRemote,
            op if asks_or_tells(op) => Helper::CallToAsk,
            Op::VerifyChecksumWithPayload | Op::UpdateChecksumWithPayload => Helper::CallWithBytes,
            _ => Helper::Call,
        };
        let done = self.help_with(helper, &[which]);
        if may_drop(call.op) {
            self.take_work();
            self.end_unless_done(done);
        }
        self.mark(call.op);
        for (to, from) in places.into_iter().zip(results) {
            self.give(to, from);
        }
        Ok(())
    }

    /// Sets the fields that the operation itself sets.
    fn mark(&mut self, op: Op) {
        for (field, value) in marks(self.program, op) {
            let (slot, value) = (self.slot(field), self.number(value));
            self.store_slots(slot, &[value]);
        }
    }

    /// Copies a location of any width into slots.
    fn fetch(&mut self, from: Located, d: Slot) {
        if from.is_wide() {
            self.load_into(from, d);
        } else {
            let value = self.load(from);
            self.store_slots(d, &value);
        }
    }

    /// Copies slots into a location of any width.
    fn give(&mut self, to: Located, a: Slot) {
        if to.is_wide() {
            self.store_from(to, a);
        } else {
            let value = self.load_slots(a, to.limbs());
            self.store(to, &value);
        }
    }

    fn input(&mut self, value: &Expr) -> Result<SlotValue, Unsupported> {
        let ty = self.ty(value)?;
        let slot = match (value, ty) {
            (Expr::Read(place), ScalarTy::Varbit(_)) => {
                let from = self.locate(place)?;
                self.in_slots(from)
            }
            _ => self.slot_of(value)?,
        };
        Ok(SlotValue { slot, ty })
    }

    /// Copies the values into contiguous slots.
    fn in_a_row(&mut self, data: &[SlotValue]) -> Vec<SlotValue> {
        let limbs = data.iter().map(|value| limbs_of(value.ty)).sum();
        let mut slot = self.temporary(limbs);
        let mut made = Vec::new();
        for value in data {
            self.copy(slot, value.slot, limbs_of(value.ty));
            made.push(SlotValue { slot, ty: value.ty });
            slot += limbs_of(value.ty);
        }
        made
    }
}

/// Returns the condition operand of a conditional call. If it is false, not even the data is
/// evaluated.
fn condition_of(call: &Call) -> Option<&Expr> {
    let first = call.operands.iter().find_map(|operand| match operand {
        Operand::In(value) => Some(value),
        _ => None,
    });
    first.filter(|_| is_conditional(call.op))
}

//! Compilation of calls of extern functions and methods.

use exec::Unsupported;
use exec::slots::call::{CallValues, ExternCall, marks, may_keep_result, takes_data_in_a_row};
use exec::slots::{Slot, SlotValue};
use ir::{Call, Expr, Op, Operand, Place, ScalarTy, limbs_of};
use support::work::checkpoint;

use super::place::Located;
use super::{Compiler, Mode};
use crate::code::{Inst, NONE, Tell};

impl Compiler<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Result<(), Unsupported> {
        let mut values = CallValues::default();
        let mut moves: Vec<(Located, Slot)> = Vec::new();
        for operand in &call.operands {
            checkpoint();
            match operand {
                Operand::In(value) => values.ins.push(self.input(value)?),
                Operand::Data(all) => {
                    for value in all {
                        checkpoint();
                        values.data.push(self.input(value)?);
                    }
                }
                Operand::Out(place) => self.output(place, &mut values.outs, &mut moves)?,
                Operand::Outs(places) => {
                    for place in places {
                        checkpoint();
                        self.output(place, &mut values.outs, &mut moves)?;
                    }
                }
                Operand::Text(_) | Operand::Number(_) => {}
            }
        }
        if takes_data_in_a_row(call.op) {
            values.data = self.in_a_row(&values.data);
        }
        if may_keep_result(call.op) {
            for &(to, slot) in &moves {
                checkpoint();
                self.load(to, slot);
            }
        }
        let code = ExternCall::new(self.program, self.natives, call, values);
        let code = code.map_err(|construct| self.unsupported(&construct))?;
        self.code.calls.push(code);
        let at = self.code.calls.len() as u32 - 1;
        // A call that may end the run is reported before it is made.
        let ends = matches!(call.op, Op::Assert | Op::Assume);
        if ends {
            self.tell_call(at, call);
        }
        self.emit(Inst::Call(at));
        if !ends {
            self.tell_call(at, call);
        }
        for (field, value) in marks(self.program, call.op) {
            checkpoint();
            let (d, a) = (self.slot(field), self.number(value));
            self.emit(Inst::Copy { d, a });
        }
        for (to, from) in moves {
            checkpoint();
            self.store(to, from);
        }
        Ok(())
    }

    fn tell_call(&mut self, at: u32, call: &Call) {
        if self.mode == Mode::Traced {
            self.tell(Tell::Call(at, Box::new(call.clone()), self.loc));
        }
    }

    fn input(&mut self, value: &Expr) -> Result<SlotValue, Unsupported> {
        let ty = self.ty(value)?;
        let slot = match (value, ty) {
            (Expr::Read(place), ScalarTy::Varbit(_)) => self.varbit(place)?,
            _ => self.operand(value)?,
        };
        Ok(SlotValue { slot, ty })
    }

    /// Allocates a temporary for a result. All results of a call are consecutive.
    fn output(
        &mut self,
        place: &Place,
        outs: &mut Vec<SlotValue>,
        moves: &mut Vec<(Located, Slot)>,
    ) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        outs.push(SlotValue {
            slot: NONE,
            ty: to.ty,
        });
        moves.push((to, NONE));
        // Computing an address needs temporaries too, so the slots are allocated again after each
        // address.
        let limbs: u32 = outs.iter().map(|out| limbs_of(out.ty)).sum();
        let mut slot = self.temporary(limbs);
        for (out, moved) in outs.iter_mut().zip(moves) {
            checkpoint();
            out.slot = slot;
            moved.1 = slot;
            slot += limbs_of(out.ty);
        }
        Ok(())
    }

    /// Copies the values to consecutive slots.
    fn in_a_row(&mut self, data: &[SlotValue]) -> Vec<SlotValue> {
        let limbs = data.iter().map(|value| limbs_of(value.ty)).sum();
        let mut slot = self.temporary(limbs);
        let mut made = Vec::new();
        for value in data {
            checkpoint();
            self.copy(slot, value.slot, limbs_of(value.ty));
            made.push(SlotValue { slot, ty: value.ty });
            slot += limbs_of(value.ty);
        }
        made
    }
}

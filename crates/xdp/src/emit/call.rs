//! Emission of extern calls. Calls that the kernel part does not make become places at which
//! packets leave.

use exec::slots::call::marks;
use ir::{Call, Expr, ExternKind, HashAlgorithm, Op, Operand, Place};
use support::work::checkpoint;

use super::{Emitted, Emitter};
use crate::assembler::{Alu, R0, R1, R7, R9, Size, When};

impl Emitter<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Emitted {
        match call.op {
            Op::CounterCount => self.counter_count(call)?,
            // v1model counts a hit when the table is applied, so the call has no further effect.
            Op::DirectCounterCount => {}
            Op::VerifyChecksum => self.verify_checksum(call)?,
            Op::UpdateChecksum => self.update_checksum(call)?,
            Op::Hash | Op::HashGet => self.hash(call)?,
            // They only mark the packet.
            Op::MarkToDrop | Op::MarkToPass => {}
            Op::Assert | Op::Assume => {
                let holds = self.asm.label();
                self.jump(input(call, 0)?, holds, true)?;
                let text = call.op.name();
                self.leave_for(format!("an {text} that fails"));
                self.asm.place(holds);
            }
            op => return Err(format!("a call of {}", op.name())),
        }
        for (field, value) in marks(self.program, call.op) {
            self.asm.set(R0, value);
            self.store_field(field, 0, R0);
        }
        Ok(())
    }

    fn counter_count(&mut self, call: &Call) -> Emitted {
        let instance = call.instance.ok_or("a counter without a name")?;
        let size = self.shapes.counter(instance);
        let index = input(call, 0)?;
        let outside = self.asm.label();
        self.value(index)?;
        self.asm.set(R1, size.into());
        self.asm.jump_if(When::AtLeast, R0, R1, outside);
        let cell = self.count_extern(instance);
        self.asm.alu_number(Alu::Add, R0, 1);
        self.asm.store(Size::Double, R9, cell, R0);
        self.asm.place(outside);
        Ok(())
    }

    fn verify_checksum(&mut self, call: &Call) -> Emitted {
        let end = self.asm.label();
        self.jump_unless(input(call, 0)?, end)?;
        // Packets leave only if the condition holds.
        self.or_leave(|this| {
            this.sum(call)?;
            let cell = this.temporary()?;
            let checksum = input(call, 1)?;
            let width = this.ty(checksum)?.width();
            this.asm.mask(R0, width.min(64));
            this.asm.store(Size::Double, R9, cell, R0);
            this.value(checksum)?;
            this.load_memory(R1, cell);
            this.asm.jump_if(When::Equal, R0, R1, end);
            let error = this.memory.checksum_error;
            this.asm.store_number(Size::Double, R9, error, 1);
            Ok(())
        });
        self.asm.place(end);
        Ok(())
    }

    fn update_checksum(&mut self, call: &Call) -> Emitted {
        let end = self.asm.label();
        self.jump_unless(input(call, 0)?, end)?;
        self.or_leave(|this| {
            this.sum(call)?;
            this.give(output(call)?)
        });
        self.asm.place(end);
        Ok(())
    }

    fn hash(&mut self, call: &Call) -> Emitted {
        let instance = call.instance.and_then(|id| self.program.externs.get(id));
        let algorithm = match instance.map(|instance| &instance.kind) {
            Some(ExternKind::Hash { algorithm, .. }) => Some(*algorithm),
            _ => number(call).and_then(HashAlgorithm::from_number),
        };
        let name = algorithm.map_or("this hash".to_owned(), |known| format!("{known:?}"));
        let Some(HashAlgorithm::Csum16) = algorithm.filter(|_| call.op == Op::HashGet) else {
            return Err(format!("the hash {name}"));
        };
        self.ones_complement_sum(call, true)?;
        self.give(output(call)?)
    }

    /// Computes the checksum of a call's data into `R0`.
    fn sum(&mut self, call: &Call) -> Emitted {
        match number(call).and_then(HashAlgorithm::from_number) {
            Some(HashAlgorithm::Csum16) => self.ones_complement_sum(call, false),
            Some(other) => Err(format!("the checksum {other:?}")),
            None => Err("this checksum".to_owned()),
        }
    }

    /// Computes the complement of the ones' complement sum of a call's data. A field at a distance
    /// of `p` bits from the end of a word counts `2^p` times: 65,536 is 1 in this arithmetic.
    /// `pads_start` is true if zeros before the data make it whole bytes, else they follow it.
    fn ones_complement_sum(&mut self, call: &Call, pads_start: bool) -> Emitted {
        let data = call.operands.iter().find_map(|operand| match operand {
            Operand::Data(data) => Some(data),
            _ => None,
        });
        let data = data.ok_or("a checksum without data")?;
        let mut bits = 0;
        for value in data {
            bits += self.ty(value)?.width();
        }
        let padding = if pads_start {
            bits.wrapping_neg() % 8
        } else {
            0
        };
        // The last word is filled with zeros.
        let total = (bits + padding).next_multiple_of(16);
        let mut left = total - padding;
        self.asm.set(R7, 0);
        for value in data {
            checkpoint();
            let width = self.ty(value)?.width();
            left -= width;
            for limb in 0..width.div_ceil(64) {
                self.limb(value, limb)?;
                let count = (width - limb * 64).min(64);
                self.add_to_sum(count, (left + limb * 64) % 16);
            }
            self.temporaries = 0;
        }
        for _ in 0..4 {
            self.asm.copy(R0, R7);
            self.asm.alu_number(Alu::Shr, R0, 16);
            self.asm.mask(R7, 16);
            self.asm.alu(Alu::Add, R7, R0);
        }
        self.asm.copy(R0, R7);
        self.asm.alu_number(Alu::Xor, R0, 0xffff);
        Ok(())
    }

    /// Adds a number of `count` bits in `R0`, shifted by `shift`, to the sum in `R7`.
    fn add_to_sum(&mut self, count: u32, shift: u32) {
        if count + shift > 40 {
            // Halves are added separately, so that 64 bits hold the sum.
            self.asm.copy(R1, R0);
            self.asm.alu_number(Alu::Shr, R1, 32);
            self.asm.alu_number(Alu::Shl, R1, shift as i32);
            self.asm.alu(Alu::Add, R7, R1);
            self.asm.mask(R0, 32);
        }
        self.asm.alu_number(Alu::Shl, R0, shift as i32);
        self.asm.alu(Alu::Add, R7, R0);
    }
}

/// Returns an input of a call.
fn input(call: &Call, at: usize) -> Emitted<&Expr> {
    let inputs = call.operands.iter().filter_map(|operand| match operand {
        Operand::In(value) => Some(value),
        _ => None,
    });
    let mut inputs = inputs;
    inputs
        .nth(at)
        .ok_or_else(|| "a call without an operand".to_owned())
}

/// Returns the first destination of a call.
fn output(call: &Call) -> Emitted<&Place> {
    let outputs = call.operands.iter().find_map(|operand| match operand {
        Operand::Out(place) => Some(place),
        _ => None,
    });
    outputs.ok_or_else(|| "a call without a result".to_owned())
}

/// Returns the first number of a call.
fn number(call: &Call) -> Option<u64> {
    call.operands.iter().find_map(|operand| match operand {
        Operand::Number(number) => Some(*number),
        _ => None,
    })
}

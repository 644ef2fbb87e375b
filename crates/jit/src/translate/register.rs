//! Register cells, read and written inline on the fast path.
//!
//! A cell of one limb is one atomic word. A wider cell is read and written under its sequence lock
//! ([`exec::Registers`]). If a lock is held or was taken meanwhile, cold code calls the helper,
//! which waits.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value};
use exec::{LOCK_BYTES, LOCKS, Registers, Unsupported};
use ir::{Call, Expr, ExternId, ExternKind, Op, Operand, ScalarTy, limbs_of};
use table::RegisterArray;

use super::{Block, I64, INLINE_LIMBS, Translator};
use crate::view;

/// True if loads are not reordered with loads and stores not with stores, as the inline accesses
/// under a sequence lock need it.
const IS_STRONGLY_ORDERED: bool = cfg!(target_arch = "x86_64");

/// Number of cells of a register, and of limbs of a cell, which has one scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterShape {
    size: u32,
    limbs: u32,
}

impl RegisterShape {
    /// Returns true if native code for this shape may access the registers.
    pub(crate) fn is_of(self, registers: &Registers) -> bool {
        let RegisterShape { size, limbs } = self;
        let is_of = |array: &RegisterArray| array.limbs().len() == size as usize * limbs as usize;
        let has_locks = registers.locks().len() == LOCKS;
        registers.size() == size
            && matches!(registers.arrays(), [array] if is_of(array))
            && (limbs == 1 || has_locks)
    }
}

/// Register that is accessed inline.
#[derive(Clone, Copy)]
pub(super) struct Array {
    pub(super) id: ExternId,
    shape: RegisterShape,
}

impl Array {
    /// Returns true if a cell is one word.
    pub(super) fn has_words(self) -> bool {
        self.shape.limbs == 1
    }
}

/// Index into an array.
#[derive(Clone, Copy)]
struct Index {
    number: Value,
    /// Truth value, or none if the index is in range for certain.
    in_range: Option<Value>,
}

/// Returns the flags of accesses to cells and locks. No other memory of the engine is a cell, so
/// they have a region of their own together with stack slots.
fn in_cells() -> MemFlags {
    MemFlags::new().with_notrap().with_aligned()
}

impl Translator<'_> {
    /// Translates an access to a register inline, if possible. Returns false if it is not.
    pub(super) fn register_call(&mut self, call: &Call) -> Result<bool, Unsupported> {
        let Some(array) = call.instance.and_then(|id| self.array(id)) else {
            return Ok(false);
        };
        match (call.op, &call.operands[..]) {
            (Op::RegisterRead, [Operand::In(index), Operand::Outs(to)]) => {
                let [to] = &to[..] else { return Ok(false) };
                let index = self.index_of(array, index)?;
                match array.shape.limbs {
                    1 => {
                        let value = self.read_word(array, index);
                        let to = self.locate(to)?;
                        self.store(to, &[value]);
                    }
                    _ => {
                        let done = self.b.create_block();
                        let helper = self.cold_block();
                        match self.vectors_in_frame(to) {
                            Some(slot) => {
                                let cell = self.read_locked(array, index, (I64X2, helper));
                                self.store_vectors(slot, &cell);
                            }
                            None => {
                                let cell = self.read_locked(array, index, (I64, helper));
                                let to = self.locate(to)?;
                                self.store(to, &cell);
                            }
                        }
                        self.end_locked(call, helper, done)?;
                    }
                }
            }
            (Op::RegisterWrite, [Operand::In(index), Operand::Data(value)]) => {
                let [value] = &value[..] else {
                    return Ok(false);
                };
                let index = self.index_of(array, index)?;
                let value = self.value(value)?;
                match array.shape.limbs {
                    1 => self.write_word(array, index, value[0]),
                    _ => {
                        let done = self.b.create_block();
                        let helper = self.cold_block();
                        self.write_locked(array, index, &value, (helper, done));
                        self.end_locked(call, helper, done)?;
                    }
                }
            }
            _ => return Ok(false),
        }
        self.code.registers.insert(array.id, array.shape);
        Ok(true)
    }

    /// Prefetches a cell, with an index that may be out of range.
    pub(super) fn prefetch_cell(&mut self, array: Array, index: &Expr) -> Result<(), Unsupported> {
        let number = self.small(index)?;
        let cell = self.cell(array, number);
        self.prefetch(cell);
        Ok(())
    }

    /// Returns the value of a cell that is one word, for speculative code.
    pub(super) fn speculative_word(
        &mut self,
        array: Array,
        index: &Expr,
    ) -> Result<Value, Unsupported> {
        let index = self.index_of(array, index)?;
        self.code.registers.insert(array.id, array.shape);
        Ok(self.read_word(array, index))
    }

    /// Returns a register array that is accessed inline.
    pub(super) fn array(&self, id: ExternId) -> Option<Array> {
        self.fused.as_ref()?;
        let ExternKind::Register { cell, size, .. } = &self.program.externs.get(id)?.kind else {
            return None;
        };
        let &[ty] = &cell[..] else { return None };
        let limbs = limbs_of(ty);
        let is_inline = match limbs {
            1 => true,
            limbs => limbs <= INLINE_LIMBS && IS_STRONGLY_ORDERED,
        };
        let has_bits = *size > 0 && ty.width() > 0;
        let is_inline = is_inline && has_bits && !matches!(ty, ScalarTy::Varbit(_));
        let shape = RegisterShape { size: *size, limbs };
        is_inline.then_some(Array { id, shape })
    }

    fn index_of(&mut self, array: Array, index: &Expr) -> Result<Index, Unsupported> {
        let bits = self.most_bits(index);
        let is_inside = match index {
            Expr::Const(_, number) => number.to_u64().is_some_and(|n| n < array.shape.size.into()),
            _ => bits < u32::BITS && 1 << bits <= u64::from(array.shape.size),
        };
        let number = self.small(index)?;
        let in_range = (!is_inside).then(|| {
            // As a program compares it, so that the same question is asked only once.
            let size = self.number(array.shape.size.into());
            self.b.ins().icmp(IntCC::UnsignedLessThan, number, size)
        });
        Ok(Index { number, in_range })
    }

    /// Returns the address of the cell with a number that is in range.
    fn cell(&mut self, array: Array, number: Value) -> Value {
        let cells = self.load_view(view::extern_at(self.program, array.id));
        let behind = match array.shape.limbs.is_power_of_two() {
            true => {
                let shift = 3 + array.shape.limbs.trailing_zeros();
                self.b.ins().ishl_imm(number, i64::from(shift))
            }
            false => self
                .b
                .ins()
                .imul_imm(number, 8 * i64::from(array.shape.limbs)),
        };
        self.b.ins().iadd(cells, behind)
    }

    /// Returns the cell's value, 0 if the index is out of range.
    fn read_word(&mut self, array: Array, index: Index) -> Value {
        let zero = self.number(0);
        let number = match index.in_range {
            Some(in_range) => self.b.ins().select(in_range, index.number, zero),
            None => index.number,
        };
        let cell = self.cell(array, number);
        let value = self.b.ins().load(I64, in_cells(), cell, 0);
        match index.in_range {
            Some(in_range) => self.b.ins().select(in_range, value, zero),
            None => value,
        }
    }

    /// Writes a cell. Writes nothing if the index is out of range.
    fn write_word(&mut self, array: Array, index: Index, value: Value) {
        let Some(in_range) = index.in_range else {
            let cell = self.cell(array, index.number);
            self.b.ins().store(in_cells(), value, cell, 0);
            return;
        };
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        self.branch(in_range, inside, after);
        self.start_sealed(inside);
        let cell = self.cell(array, index.number);
        self.b.ins().store(in_cells(), value, cell, 0);
        self.jump(after);
        self.start_sealed(after);
    }

    /// Returns the address of the sequence lock of a cell.
    fn lock_of(&mut self, array: Array, number: Value) -> Value {
        let locks = self.load_view(view::extern_at(self.program, array.id) + view::LOCKS);
        let which = self.b.ins().band_imm(number, LOCKS as i64 - 1);
        let shift = i64::from(LOCK_BYTES.trailing_zeros());
        let behind = self.b.ins().ishl_imm(which, shift);
        self.b.ins().iadd(locks, behind)
    }

    /// Reads a cell of several limbs, as values of a type. Branches to `helper` if its lock is held
    /// or the index is out of range.
    fn read_locked(
        &mut self,
        array: Array,
        index: Index,
        (ty, helper): (Type, Block),
    ) -> Vec<Value> {
        self.go_inside(index, helper);
        let cell = self.cell(array, index.number);
        let lock = self.lock_of(array, index.number);
        // Neither Cranelift nor `simplify` moves the loads of the cell across atomic ones.
        let flags = in_cells();
        let before = self.b.ins().atomic_load(I32, flags, lock);
        let unaligned = MemFlags::new().with_notrap();
        let parts: Vec<Value> = (0..8 * array.shape.limbs as i32)
            .step_by(ty.bytes() as usize)
            .map(|at| self.b.ins().load(ty, unaligned, cell, at))
            .collect();
        let after = self.b.ins().atomic_load(I32, flags, lock);
        let changed = self.b.ins().bxor(before, after);
        let is_held = self.b.ins().band_imm(before, 1);
        let differs = self.b.ins().bor(changed, is_held);
        let whole = self.b.create_block();
        self.branch(differs, helper, whole);
        self.start_sealed(whole);
        parts
    }

    /// Writes a cell of several limbs. Branches to `helper` if its lock is held, and to `done` if
    /// the index is out of range.
    fn write_locked(
        &mut self,
        array: Array,
        index: Index,
        value: &[Value],
        (helper, done): (Block, Block),
    ) {
        self.go_inside(index, done);
        let cell = self.cell(array, index.number);
        let lock = self.lock_of(array, index.number);
        let flags = in_cells();
        let before = self.b.ins().atomic_load(I32, flags, lock);
        let free = self.b.ins().band_imm(before, !1);
        let held = self.b.ins().bor_imm(free, 1);
        let found = self.b.ins().atomic_cas(flags, lock, free, held);
        let is_taken = self.b.ins().icmp(IntCC::Equal, found, free);
        let writes = self.b.create_block();
        self.branch(is_taken, writes, helper);
        self.start_sealed(writes);
        for (limb, &value) in value.iter().enumerate() {
            self.b.ins().store(flags, value, cell, 8 * limb as i32);
        }
        let freed = self.b.ins().iadd_imm(free, 2);
        self.b.ins().store(flags, freed, lock, 0);
        self.jump(done);
    }

    /// Branches to `outside` if an index is out of range.
    fn go_inside(&mut self, index: Index, outside: Block) {
        if let Some(in_range) = index.in_range {
            let inside = self.b.create_block();
            self.branch(in_range, inside, outside);
            self.start_sealed(inside);
        }
    }

    /// Translates the access by the helper, after the inline one.
    fn end_locked(&mut self, call: &Call, helper: Block, done: Block) -> Result<(), Unsupported> {
        self.jump(done);
        self.start_sealed(helper);
        self.call_helper(call)?;
        self.jump(done);
        self.start_sealed(done);
        Ok(())
    }
}

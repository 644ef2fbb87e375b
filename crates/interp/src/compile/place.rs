//! Compilation of locations: slots known at compile time, or addresses computed at run time.

use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::header::{HeaderSite, StackSite};
use ir::{Dim, HeaderPlace, Place, ScalarTy, limbs_of};
use support::work::checkpoint;

use super::Compiler;
use crate::code::{AtN, Inst, NONE, Stride};

/// Slots of a location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    /// Slot of the element with index 0.
    pub(super) base: Slot,
    /// Slot of the address to add, or `NONE`.
    pub(super) at: Slot,
    pub(super) ty: ScalarTy,
}

impl Compiler<'_> {
    pub(super) fn locate(&mut self, place: &Place) -> Result<Located, Unsupported> {
        let ty = place
            .ty(self.program)
            .ok_or_else(|| self.unsupported("a place of no type"))?;
        let base = self.slot(place.base);
        let strides: Vec<u32> = place
            .dims
            .iter()
            .map(|dim| self.field_distance(place.base.get(), dim))
            .collect();
        let at = self.address(&place.dims, &strides)?;
        Ok(Located { base, at, ty })
    }

    /// Returns the number of limbs between two elements of a location.
    fn field_distance(&self, base: u32, dim: &Dim) -> u32 {
        let offset = |field: u32| {
            let field = ir::FieldId::new(field);
            self.program.fields.get(field).map(|_| self.slot(field))
        };
        let second = base.checked_add(dim.stride).and_then(offset);
        match (dim.len > 1, second, offset(base)) {
            (true, Some(second), Some(first)) => second.saturating_sub(first),
            _ => 0,
        }
    }

    /// Returns the header's index in [`crate::code::Code::headers`], and the slot of the address to
    /// add, or `NONE`.
    pub(super) fn locate_header(
        &mut self,
        place: &HeaderPlace,
    ) -> Result<(u32, Slot), Unsupported> {
        let first = self
            .program
            .headers
            .get(place.base)
            .map(|header| header.valid.get())
            .ok_or_else(|| self.unsupported("a header that does not exist"))?;
        let fields = place.field_strides(self.program);
        let strides: Vec<u32> = place
            .dims
            .iter()
            .zip(fields)
            .map(|(dim, stride)| {
                let dim = Dim {
                    stride,
                    ..dim.clone()
                };
                self.field_distance(first, &dim)
            })
            .collect();
        let at = self.address(&place.dims, &strides)?;
        Ok((place.base.get(), at))
    }

    fn address(&mut self, dims: &[Dim], strides: &[u32]) -> Result<Slot, Unsupported> {
        if dims.is_empty() {
            return Ok(NONE);
        }
        let at = self.temporary(1);
        let zero = self.number(0);
        self.emit(Inst::Copy { d: at, a: zero });
        for (dim, &limbs) in dims.iter().zip(strides) {
            checkpoint();
            let index = self.small_operand(&dim.index)?;
            self.code.strides.push(Stride {
                len: dim.len,
                limbs,
            });
            let stride = self.code.strides.len() as u32 - 1;
            self.emit(Inst::Index {
                d: at,
                a: index,
                stride,
            });
        }
        Ok(at)
    }

    /// Reads a location into slots.
    pub(super) fn load(&mut self, from: Located, d: Slot) {
        let n = limbs_of(from.ty);
        match (from.at, n) {
            (NONE, 1) if from.base == d => {}
            (NONE, 1) => self.emit(Inst::Copy { d, a: from.base }),
            (NONE, n) => self.emit(Inst::CopyN { d, a: from.base, n }),
            (at, 1) => self.emit(Inst::LoadAt {
                d,
                base: from.base,
                at,
            }),
            (at, n) => {
                let site = self.at_n(from.base, at, d, n);
                self.emit(Inst::LoadAtN(site));
            }
        }
    }

    /// Writes slots to a location.
    pub(super) fn store(&mut self, to: Located, a: Slot) {
        let n = limbs_of(to.ty);
        match (to.at, n) {
            (NONE, 1) if to.base == a => {}
            (NONE, 1) => self.emit(Inst::Copy { d: to.base, a }),
            (NONE, n) => self.emit(Inst::CopyN { d: to.base, a, n }),
            (at, 1) => self.emit(Inst::StoreAt {
                base: to.base,
                at,
                a,
            }),
            (at, n) => {
                let site = self.at_n(to.base, at, a, n);
                self.emit(Inst::StoreAtN(site));
            }
        }
    }

    fn at_n(&mut self, base: Slot, at: Slot, slot: Slot, n: u32) -> u32 {
        self.code.at_ns.push(AtN { base, at, slot, n });
        self.code.at_ns.len() as u32 - 1
    }

    /// Creates the side tables of headers and header stacks, with one element for each id.
    pub(super) fn stacks_and_headers(&mut self) -> Result<(), Unsupported> {
        let program = self.program;
        for id in program.headers.ids() {
            checkpoint();
            let site = HeaderSite::new(program, self.layout, id);
            let missing = || self.unsupported("a header without a type");
            self.code.headers.push(site.ok_or_else(missing)?);
        }
        for stack in program.stacks.values() {
            checkpoint();
            let site = StackSite::new(program, self.layout, stack);
            let missing = || self.unsupported("a stack without headers");
            self.code.stacks.push(site.ok_or_else(missing)?);
        }
        Ok(())
    }
}

//! Compilation of parsers: states are labels, transitions are jumps.

use bits::{IdVec, limbs_for};
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::wide::WideOp;
use ir::{KeySet, Keyset, Parser, ParserId, SelectCase, StateId, Target, Transition};
use support::work::checkpoint;

use super::{Compiler, Mode};
use crate::code::{Inst, Pc, Tell};

/// Evaluated keys of a select.
struct Keys {
    /// Slot, width and signedness of each key. Their limbs are consecutive.
    keys: Vec<(Slot, u32, bool)>,
}

impl Compiler<'_> {
    /// Compiles a parser. Returns its first instruction.
    pub(super) fn parser(&mut self, id: ParserId, parser: &Parser) -> Result<Pc, Unsupported> {
        let states: IdVec<StateId, Pc> = parser.states.ids().map(|_| self.label()).collect();
        let entry = self.code.insts.len() as Pc;
        if let Some(&start) = states.get(parser.start) {
            self.emit(Inst::Jump { to: start });
        }
        for (state_id, state) in parser.states.iter() {
            checkpoint();
            self.loc = state.loc;
            self.enclosing.clear();
            self.place_label(states[state_id]);
            self.tell(Tell::State(id, state_id));
            let units = self.work.state(state);
            self.emit(Inst::Work { units });
            self.body(&state.body)?;
            match &state.transition {
                Transition::Direct(target) => self.go(*target, &states),
                Transition::Select { keys, cases } => {
                    let keys = self.keys(keys)?;
                    self.cases(&keys, cases, &states)?;
                    self.free_temporaries();
                }
            }
        }
        self.loc = None;
        Ok(entry)
    }

    fn go(&mut self, target: Target, states: &IdVec<StateId, Pc>) {
        match target {
            Target::Accept => self.emit(Inst::End),
            Target::Reject => self.emit(Inst::Reject { error: 0 }),
            Target::State(state) => {
                if let Some(&to) = states.get(state) {
                    self.emit(Inst::Jump { to });
                }
            }
        }
    }

    /// Evaluates the keys into consecutive limbs, as value sets need them. A single key stays in
    /// its slot.
    fn keys(&mut self, keys: &[ir::Expr]) -> Result<Keys, Unsupported> {
        let mut made = Vec::new();
        let mut types = Vec::new();
        for key in keys {
            checkpoint();
            types.push(self.ty(key)?);
        }
        if let ([key], [ty]) = (keys, &types[..]) {
            let slot = self.operand(key)?;
            made.push((slot, ty.width(), ty.is_signed()));
            return Ok(Keys { keys: made });
        }
        let limbs: u32 = types.iter().map(|ty| limbs_for(ty.width()) as u32).sum();
        let mut slot = self.temporary(limbs);
        for (key, ty) in keys.iter().zip(types) {
            checkpoint();
            if ty.width() > 0 {
                self.compute(key, slot)?;
            }
            made.push((slot, ty.width(), ty.is_signed()));
            slot += limbs_for(ty.width()) as u32;
        }
        Ok(Keys { keys: made })
    }

    fn cases(
        &mut self,
        keys: &Keys,
        cases: &[SelectCase],
        states: &IdVec<StateId, Pc>,
    ) -> Result<(), Unsupported> {
        for (at, case) in cases.iter().enumerate() {
            checkpoint();
            let next = self.label();
            match &case.keyset {
                Keyset::ValueSet(set) => {
                    let a = keys.keys.first().map_or(0, |key| key.0);
                    self.jump_unless_in_set(*set, a, next);
                }
                Keyset::Sets(sets) => {
                    for (set, &key) in sets.iter().zip(&keys.keys) {
                        checkpoint();
                        self.jump_unless_in(set, key, next)?;
                    }
                }
            }
            self.tell_select(keys, Some(at), case.target);
            self.go(case.target, states);
            self.place_label(next);
        }
        self.tell_select(keys, None, Target::Reject);
        let error = self.code.errors.no_match;
        self.emit(Inst::Reject { error });
        Ok(())
    }

    fn tell_select(&mut self, keys: &Keys, case: Option<usize>, target: Target) {
        if self.mode == Mode::Traced {
            let keys = keys.keys.iter().map(|key| (key.0, key.1)).collect();
            self.tell(Tell::Select(keys, case, target));
        }
    }

    fn jump_unless_in_set(&mut self, set: ir::ValueSetId, a: Slot, to: Pc) {
        let d = self.temporary(1);
        self.emit(Inst::InValueSet {
            d,
            a,
            set: set.get(),
        });
        self.emit(Inst::JumpIfNot { a: d, to });
    }

    fn jump_unless_in(
        &mut self,
        set: &KeySet,
        (key, width, signed): (Slot, u32, bool),
        to: Pc,
    ) -> Result<(), Unsupported> {
        let n = limbs_for(width) as u32;
        if width == 0 {
            return Ok(());
        }
        match set {
            KeySet::Any => {}
            KeySet::Value(value) => {
                let b = self.operand(value)?;
                self.jump_unless_equal(key, b, n, to);
            }
            KeySet::Mask(value, mask) => {
                let value = self.operand(value)?;
                let mask = self.operand(mask)?;
                let (a, b) = (self.temporary(n), self.temporary(n));
                self.and(a, key, mask, width);
                self.and(b, value, mask, width);
                self.jump_unless_equal(a, b, n, to);
            }
            KeySet::Range(lo, hi) => {
                let lo = self.operand(lo)?;
                let hi = self.operand(hi)?;
                self.jump_unless_at_most(lo, key, width, signed, to);
                self.jump_unless_at_most(key, hi, width, signed, to);
            }
            KeySet::ValueSet(set) => self.jump_unless_in_set(*set, key, to),
        }
        Ok(())
    }

    fn jump_unless_equal(&mut self, a: Slot, b: Slot, n: u32, to: Pc) {
        if n == 1 {
            return self.emit(Inst::JumpNe { a, b, to });
        }
        let d = self.temporary(1);
        self.emit(Inst::EqN { d, a, b, n });
        self.emit(Inst::JumpIfNot { a: d, to });
    }

    fn and(&mut self, d: Slot, a: Slot, b: Slot, width: u32) {
        if width <= 64 {
            self.emit(Inst::And { d, a, b });
        } else {
            self.wide(WideOp::And, d, a, b, width, width);
        }
    }

    fn jump_unless_at_most(&mut self, a: Slot, b: Slot, width: u32, signed: bool, to: Pc) {
        let d = self.temporary(1);
        if width > 64 {
            let kind = if signed { WideOp::LeSigned } else { WideOp::Le };
            self.wide(kind, d, a, b, width, width);
        } else if signed {
            let w = width as u8;
            self.emit(Inst::LeSigned { d, a, b, w });
        } else {
            self.emit(Inst::Le { d, a, b });
        }
        self.emit(Inst::JumpIfNot { a: d, to });
    }
}

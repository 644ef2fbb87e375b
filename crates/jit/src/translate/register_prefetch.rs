//! Prefetch of register cells. Code that hashes one key after another and looks each up in
//! registers waits for the cells of a key before it comes to the next. So before the first of
//! several hashes in a list of statements, all of them are computed, and the cells that their
//! results select are prefetched. This takes two rounds: the first prefetches cells with an index
//! that is computed without registers, the second those with an index that depends on a cell of
//! the first round.
//!
//! A hash is computed only once. That requires that no statement of the list writes its data, and
//! that a condition around it is the same before and after. All other code here is speculative. It
//! ignores conditions within a statement and assumes the first access to a register to be the
//! usual one. So it changes speed, never results.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::ptr::from_ref;

use cranelift_codegen::ir::Value;
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::call::marks;
use ir::{Call, Expr, ExternId, FieldId, Op, Operand, Place, Program, Stmt, StmtKind, limbs_of};
use support::work::checkpoint;

use super::lookup_schedule::reads;
use super::{INLINE_LIMBS, Translator};

/// Minimum number of hashes that are computed ahead. The processor itself looks ahead over fewer.
const MIN_HASHES: usize = 4;

/// Results of hashes that are computed ahead, by their calls.
#[derive(Default)]
pub(super) struct HashesAhead {
    slots: HashMap<*const Call, Slot>,
}

/// Values that fields get in speculative code.
#[derive(Clone, Default)]
pub(super) struct Speculation {
    values: HashMap<Slot, Value>,
    /// Fields with a value that is not computed.
    unknown: HashSet<FieldId>,
}

impl Speculation {
    pub(super) fn load(&self, slot: Slot) -> Option<Value> {
        self.values.get(&slot).copied()
    }

    pub(super) fn store(&mut self, slot: Slot, value: Value) {
        self.values.insert(slot, value);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Hashes are computed, and cells prefetched that they select.
    First,
    /// These cells are read, and cells prefetched that they select.
    Second,
}

/// State of a walk over a list of statements.
struct Walk {
    round: Round,
    /// Fields on which indices depend.
    relevant: HashSet<FieldId>,
    /// Fields that the statements write.
    written: HashSet<FieldId>,
    /// Accesses for which the first round has prefetched a cell.
    prefetched: HashSet<*const Call>,
    /// True if an index depends on such a cell.
    has_second: bool,
    /// Registers that the current statement has accessed.
    accessed: HashSet<ExternId>,
}

impl Translator<'_> {
    /// Returns the statements that a prefetch covers, if it is worthwhile: from the first one with
    /// a hash to the last one before any that does more than compute.
    pub(super) fn hashing_statements(&self, stmts: &[Stmt]) -> Option<Range<usize>> {
        if self.fused.is_none() || self.is_ahead() || self.speculation.is_some() {
            return None;
        }
        let hashes = |stmt: &Stmt| hash_calls(stmt).count();
        let start = stmts.iter().position(|stmt| hashes(stmt) > 0)?;
        let mut written = HashSet::new();
        let covered = stmts[start..]
            .iter()
            .take_while(|stmt| written_by(self.program, stmt, &mut written));
        let end = start + covered.count();
        let count: usize = stmts[start..end].iter().map(hashes).sum();
        (count >= MIN_HASHES).then_some(start..end)
    }

    /// Computes the hashes of statements that follow, and prefetches the cells that they select.
    pub(super) fn prefetch_registers(&mut self, stmts: &[Stmt]) -> Result<(), Unsupported> {
        let mut walk = Walk {
            round: Round::First,
            relevant: fields_of_indices(stmts),
            written: HashSet::new(),
            prefetched: HashSet::new(),
            has_second: false,
            accessed: HashSet::new(),
        };
        for stmt in stmts {
            written_by(self.program, stmt, &mut walk.written);
        }
        self.walk_statements(stmts, &mut walk)?;
        if walk.has_second {
            walk.round = Round::Second;
            self.walk_statements(stmts, &mut walk)?;
        }
        Ok(())
    }

    fn walk_statements(&mut self, stmts: &[Stmt], walk: &mut Walk) -> Result<(), Unsupported> {
        self.speculation = Some(Speculation::default());
        let mut written_before = HashSet::new();
        for stmt in stmts {
            self.check_size()?;
            walk.accessed.clear();
            match &stmt.kind {
                StmtKind::If(cond, then, _) => {
                    let mut read = HashSet::new();
                    reads(cond, &mut read);
                    if self.is_speculable(cond) && read.is_disjoint(&written_before) {
                        self.walk_branch(cond, then, walk)?;
                    }
                    self.forget_written(stmt);
                }
                _ => self.walk_statement(stmt, true, walk)?,
            }
            self.free_temporaries();
            written_by(self.program, stmt, &mut written_before);
        }
        self.speculation = None;
        Ok(())
    }

    /// Walks the statements under a condition. Their values are not known after them.
    fn walk_branch(
        &mut self,
        cond: &Expr,
        then: &[Stmt],
        walk: &mut Walk,
    ) -> Result<(), Unsupported> {
        let around = self.speculation.clone();
        let (holds, after) = (self.b.create_block(), self.b.create_block());
        self.decide(cond, holds, after)?;
        self.start_sealed(holds);
        for stmt in then {
            self.walk_statement(stmt, true, walk)?;
        }
        self.jump(after);
        self.start_sealed(after);
        self.speculation = around;
        Ok(())
    }

    /// Walks a statement. `is_certain` is true if it runs whenever this code does.
    fn walk_statement(
        &mut self,
        stmt: &Stmt,
        is_certain: bool,
        walk: &mut Walk,
    ) -> Result<(), Unsupported> {
        checkpoint();
        match &stmt.kind {
            StmtKind::Assign(place, value) if walk.relevant.contains(&place.base) => {
                match self.is_speculable(value) {
                    true => {
                        self.assign(place, value)?;
                        self.set_known(place);
                    }
                    false => self.forget(place),
                }
            }
            StmtKind::If(_, then, otherwise) => {
                for stmt in then.iter().chain(otherwise) {
                    self.walk_statement(stmt, false, walk)?;
                }
            }
            StmtKind::Call(call) => match call.op {
                Op::RegisterRead | Op::RegisterWrite => self.walk_access(call, walk)?,
                _ => self.walk_hash(call, is_certain, walk)?,
            },
            _ => self.forget_written(stmt),
        }
        Ok(())
    }

    fn walk_access(&mut self, call: &Call, walk: &mut Walk) -> Result<(), Unsupported> {
        let array = call.instance.and_then(|id| self.array(id));
        let (Some(array), Some(Operand::In(index))) = (array, call.operands.first()) else {
            self.forget_results(call);
            return Ok(());
        };
        if walk.accessed.contains(&array.id) {
            // Fields keep the value of the first access.
            return Ok(());
        }
        let to = match call.operands.get(1) {
            Some(Operand::Outs(to)) => to.first().filter(|to| walk.relevant.contains(&to.base)),
            _ => None,
        };
        let to = to.filter(|_| array.has_words());
        if !self.is_speculable(index) || matches!(index, Expr::Const(..)) {
            self.forget_results(call);
            return Ok(());
        }
        walk.accessed.insert(array.id);
        match (walk.round, walk.prefetched.contains(&from_ref(call)), to) {
            (Round::Second, true, Some(to)) => {
                let value = self.speculative_word(array, index)?;
                let located = self.locate(to)?;
                self.store(located, &[value]);
                self.set_known(to);
            }
            (Round::Second, true, None) => self.forget_results(call),
            (round, ..) => {
                self.prefetch_cell(array, index)?;
                self.forget_results(call);
                if round == Round::First {
                    walk.prefetched.insert(call);
                    walk.has_second |= to.is_some();
                }
            }
        }
        Ok(())
    }

    fn walk_hash(&mut self, call: &Call, is_certain: bool, walk: &Walk) -> Result<(), Unsupported> {
        let value = match self.hash_ahead(call) {
            None if is_certain && self.stays_same(call, &walk.written) => {
                let value = self.hash_value(call)?;
                if let Some(value) = value {
                    let slot = self.lasting_slot();
                    self.store_in_frame(slot, value);
                    self.hashes_ahead.slots.insert(call, slot);
                }
                value
            }
            known => known,
        };
        match (value, hash_result(call)) {
            (Some(value), Some(to)) => {
                let located = self.locate(to)?;
                self.store(located, &[value]);
                self.set_known(to);
            }
            _ => self.forget_results(call),
        }
        Ok(())
    }

    /// Returns the result of a hash that was computed ahead.
    pub(super) fn hash_ahead(&mut self, call: &Call) -> Option<Value> {
        let slot = *self.hashes_ahead.slots.get(&from_ref(call))?;
        Some(self.load_slots(slot, 1)[0])
    }

    /// Forgets the hashes of a list of statements after it, and frees their slots. `lasting` is the
    /// number of lasting temporaries before it.
    pub(super) fn forget_hashes(&mut self, lasting: u32) {
        if self.lasting_temporaries > lasting {
            let end = self.first_temporary + lasting;
            self.hashes_ahead.slots.retain(|_, slot| *slot < end);
            self.lasting_temporaries = lasting;
            self.free_temporaries();
        }
    }

    /// Returns true if a hash has a small result, and operands that code here can compute and that
    /// are not in `written`.
    fn stays_same(&self, call: &Call, written: &HashSet<FieldId>) -> bool {
        let is_narrow = |to: &Place| {
            let field = self.program.fields.get(to.base);
            to.dims.is_empty() && field.is_some_and(|field| limbs_of(field.ty) == 1)
        };
        let mut read = HashSet::new();
        let mut is_same = |expr: &Expr| {
            reads(expr, &mut read);
            self.is_speculable(expr)
        };
        hash_result(call).is_some_and(is_narrow)
            && call.operands.iter().all(|operand| match operand {
                Operand::In(value) => is_same(value),
                Operand::Data(all) => all.iter().all(&mut is_same),
                _ => true,
            })
            && read.is_disjoint(written)
    }

    /// Returns true if an expression is computed without a helper, from known values.
    fn is_speculable(&self, expr: &Expr) -> bool {
        let is_inline = |expr: &Expr| {
            let ty = self.ty(expr);
            ty.is_ok_and(|ty| {
                limbs_of(ty) <= INLINE_LIMBS && !matches!(ty, ir::ScalarTy::Varbit(_))
            })
        };
        let is_narrow = |expr: &Expr| self.ty(expr).is_ok_and(|ty| limbs_of(ty) == 1);
        let is_unknown = |place: &Place| {
            let speculation = self.speculation.as_ref();
            speculation.is_some_and(|s| s.unknown.contains(&place.base))
        };
        let all = |exprs: &[&Expr]| exprs.iter().all(|expr| self.is_speculable(expr));
        is_inline(expr)
            && match expr {
                Expr::Const(..) => true,
                Expr::Read(place) => place.dims.is_empty() && !is_unknown(place),
                Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => all(&[a]),
                Expr::Binary(_, a, b) => is_narrow(a) && is_narrow(b) && all(&[a, b]),
                Expr::Concat(a, b) => all(&[a, b]),
                Expr::Ternary(a, b, c) => all(&[a, b, c]),
                Expr::Param(_) | Expr::VarbitLen(_) | Expr::VarbitEq(..) => false,
            }
    }

    fn set_known(&mut self, place: &Place) {
        if let Some(speculation) = &mut self.speculation {
            speculation.unknown.remove(&place.base);
        }
    }

    fn forget(&mut self, place: &Place) {
        if let Some(speculation) = &mut self.speculation {
            speculation.unknown.insert(place.base);
        }
    }

    fn forget_results(&mut self, call: &Call) {
        let mut written = HashSet::new();
        written_by_call(self.program, call, &mut written);
        if let Some(speculation) = &mut self.speculation {
            speculation.unknown.extend(written);
        }
    }

    fn forget_written(&mut self, stmt: &Stmt) {
        let mut written = HashSet::new();
        written_by(self.program, stmt, &mut written);
        if let Some(speculation) = &mut self.speculation {
            speculation.unknown.extend(written);
        }
    }
}

/// Returns the hashes of a statement, itself or those at the beginning of a branch under a
/// condition, which run whenever it holds.
fn hash_calls(stmt: &Stmt) -> impl Iterator<Item = &Call> {
    let stmts = match &stmt.kind {
        StmtKind::If(_, then, _) => then,
        _ => std::slice::from_ref(stmt),
    };
    stmts.iter().filter_map(|stmt| match &stmt.kind {
        StmtKind::Call(call) => hash_result(call).map(|_| call),
        _ => None,
    })
}

/// Returns the result of a hash.
fn hash_result(call: &Call) -> Option<&Place> {
    match (call.op, call.operands.last()) {
        (Op::Hash | Op::HashGet | Op::HashGetBase, Some(Operand::Out(to))) => Some(to),
        _ => None,
    }
}

/// Adds the fields that a statement writes. Returns false if it does more than assign, call and
/// branch, or writes an element that is selected at run time.
fn written_by(program: &Program, stmt: &Stmt, written: &mut HashSet<FieldId>) -> bool {
    checkpoint();
    match &stmt.kind {
        StmtKind::Assign(place, _) | StmtKind::AssignSlice(place, ..) => {
            written.insert(place.base);
            place.dims.is_empty()
        }
        StmtKind::If(_, then, otherwise) => {
            let mut stmts = then.iter().chain(otherwise);
            stmts.all(|stmt| written_by(program, stmt, written))
        }
        StmtKind::Call(call) => written_by_call(program, call, written),
        _ => false,
    }
}

/// Adds the fields that a call writes, as [`written_by`].
fn written_by_call(program: &Program, call: &Call, written: &mut HashSet<FieldId>) -> bool {
    written.extend(marks(program, call.op).into_iter().map(|(field, _)| field));
    let mut places = call.operands.iter().flat_map(|operand| match operand {
        Operand::Out(place) => std::slice::from_ref(place),
        Operand::Outs(places) => places,
        _ => &[],
    });
    places.all(|place| {
        written.insert(place.base);
        place.dims.is_empty()
    })
}

/// Returns the fields on which the indices of register accesses depend.
fn fields_of_indices(stmts: &[Stmt]) -> HashSet<FieldId> {
    let mut relevant = HashSet::new();
    let mut assigned = Vec::new();
    let mut waiting: Vec<&Stmt> = stmts.iter().collect();
    while let Some(stmt) = waiting.pop() {
        checkpoint();
        match &stmt.kind {
            StmtKind::Assign(place, value) => assigned.push((place.base, value)),
            StmtKind::If(_, then, otherwise) => waiting.extend(then.iter().chain(otherwise)),
            StmtKind::Call(call) => {
                let is_access = matches!(call.op, Op::RegisterRead | Op::RegisterWrite);
                if let (true, Some(Operand::In(index))) = (is_access, call.operands.first()) {
                    reads(index, &mut relevant);
                }
            }
            _ => {}
        }
    }
    loop {
        let before = relevant.len();
        for (field, value) in &assigned {
            checkpoint();
            if relevant.contains(field) {
                reads(value, &mut relevant);
            }
        }
        if relevant.len() == before {
            return relevant;
        }
    }
}

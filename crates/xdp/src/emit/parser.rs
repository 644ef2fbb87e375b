//! Emission of parsers. A state is emitted once; a state that may come again, as often as packets
//! with a few headers of a stack need it. What needs more leaves.

use std::collections::{BTreeMap, BTreeSet};

use bits::limbs_for;
use ir::{
    Expr, FieldId, HeaderPlace, KeySet, Keyset, Parser, ParserId, Place, ScalarTy, StateId, Target,
    Transition,
};
use support::work::checkpoint;

use super::expr::bits_of_limb;
use super::{Emitted, Emitter, MAX_PARSED};
use crate::assembler::{Alu, Label, R0, R1, R2, R3, R5, R6, R7, R8, R9, Register, Size, When};

/// Number of times that a parser may take links back to earlier states.
pub(super) const MAX_ROUNDS: u32 = 8;

/// States in emission: those that wait, by state and round.
struct States {
    labels: BTreeMap<(StateId, u32), Label>,
    waiting: Vec<(StateId, u32)>,
    /// Links that lead back.
    back: BTreeSet<(StateId, StateId)>,
    /// Label after the parser.
    accept: Label,
}

impl Emitter<'_> {
    pub(super) fn parser(&mut self, id: ParserId, errors: &[FieldId]) -> Emitted {
        let program = self.program;
        let parser = &program.parsers[id];
        let (accept, reject, end) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.reject = reject;
        self.block_end = accept;
        let mut states = States {
            labels: BTreeMap::new(),
            waiting: Vec::new(),
            back: links_back(parser),
            accept,
        };
        let start = self.state_label(parser.start, 0, &mut states);
        self.asm.jump(start);
        while let Some((state, round)) = states.waiting.pop() {
            checkpoint();
            let label = states.labels[&(state, round)];
            self.asm.place(label);
            self.state((parser, state), round, &mut states);
        }
        self.asm.place(accept);
        self.asm.set(R0, 0);
        self.asm.place(reject);
        for &field in errors {
            self.store_field(field, 0, R0);
        }
        self.asm.place(end);
        self.loc = None;
        Ok(())
    }

    /// Returns the label of a state in a round.
    fn state_label(&mut self, state: StateId, round: u32, states: &mut States) -> Label {
        if round > MAX_ROUNDS {
            return self
                .leave_label("more headers in a row than the kernel part parses".to_owned());
        }
        if let Some(&label) = states.labels.get(&(state, round)) {
            return label;
        }
        let label = self.asm.label();
        states.labels.insert((state, round), label);
        states.waiting.push((state, round));
        label
    }

    fn state(&mut self, (parser, id): (&Parser, StateId), round: u32, states: &mut States) {
        let state = &parser.states[id];
        self.loc = state.loc;
        self.enclosing.clear();
        self.body(&state.body);
        self.loc = state.loc;
        self.temporaries = 0;
        let mut targets = BTreeMap::new();
        let mut link = |this: &mut Self, target: Target| {
            let Target::State(to) = target else {
                return None;
            };
            let is_back = states.back.contains(&(id, to));
            let next = round + u32::from(is_back);
            let label = targets
                .entry(to)
                .or_insert_with(|| this.state_label(to, next, states));
            Some(*label)
        };
        // Labels are made first: what is emitted for a failed part is removed again.
        let cases: Vec<Target> = match &state.transition {
            Transition::Direct(target) => vec![*target],
            Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
        };
        let labels: Vec<Option<Label>> = cases.iter().map(|&target| link(self, target)).collect();
        let accept = states.accept;
        self.or_leave(|this| match &state.transition {
            Transition::Direct(target) => {
                this.go(*target, labels[0], accept);
                Ok(())
            }
            Transition::Select { keys, cases } => {
                let keys = this.keys(keys)?;
                for (case, &label) in cases.iter().zip(&labels) {
                    checkpoint();
                    let next = this.asm.label();
                    let Keyset::Sets(sets) = &case.keyset else {
                        return Err("a value set".to_owned());
                    };
                    for (set, key) in sets.iter().zip(&keys) {
                        this.jump_unless_in(set, key, next)?;
                    }
                    this.go(case.target, label, accept);
                    this.asm.place(next);
                }
                this.fail(this.errors.no_match);
                Ok(())
            }
        });
        self.temporaries = 0;
    }

    fn go(&mut self, target: Target, label: Option<Label>, accept: Label) {
        match (target, label) {
            (Target::Accept, _) | (Target::State(_), None) => self.asm.jump(accept),
            (Target::Reject, _) => self.fail(0),
            (Target::State(_), Some(label)) => self.asm.jump(label),
        }
    }

    /// Rejects the packet with an error.
    pub(super) fn fail(&mut self, error: u32) {
        self.asm.set(R0, error.into());
        self.asm.jump(self.reject);
    }

    /// Computes the keys of a select into temporaries. Returns their cells and types.
    fn keys(&mut self, keys: &[Expr]) -> Emitted<Vec<(i16, ScalarTy)>> {
        let mut made = Vec::new();
        for key in keys {
            checkpoint();
            let ty = self.ty(key)?;
            if ty.width() > 64 {
                return Err("a select on more than 64 bits".to_owned());
            }
            self.value(key)?;
            let cell = self.temporary()?;
            self.asm.store(Size::Double, R9, cell, R0);
            made.push((cell, ty));
        }
        Ok(made)
    }

    fn jump_unless_in(&mut self, set: &KeySet, &(key, ty): &(i16, ScalarTy), to: Label) -> Emitted {
        match set {
            KeySet::Any => {}
            KeySet::Value(value) => {
                self.value(value)?;
                self.load_memory(R1, key);
                self.asm.jump_if(When::Different, R0, R1, to);
            }
            KeySet::Mask(value, mask) => {
                self.value(mask)?;
                let cell = self.temporary()?;
                self.asm.store(Size::Double, R9, cell, R0);
                self.value(value)?;
                self.load_memory(R2, cell);
                self.load_memory(R1, key);
                self.asm.alu(Alu::And, R0, R2);
                self.asm.alu(Alu::And, R1, R2);
                self.asm.jump_if(When::Different, R0, R1, to);
            }
            KeySet::Range(..) if ty.is_signed() => return Err("a range of signed numbers".into()),
            KeySet::Range(lo, hi) => {
                self.value(lo)?;
                self.load_memory(R1, key);
                self.asm.jump_if(When::Below, R1, R0, to);
                self.value(hi)?;
                self.load_memory(R1, key);
                self.asm.jump_if(When::Above, R1, R0, to);
            }
            KeySet::ValueSet(_) => return Err("a value set".to_owned()),
        }
        Ok(())
    }

    /// Sets `R7` to the byte at the cursor, and `R3` to the cursor, if `bytes` more bytes are in
    /// the frame. Else jumps to `short`.
    fn bytes_at_cursor(&mut self, bytes: u32, short: Label) {
        self.load_memory(R3, self.memory.cursor);
        let far = self.general_leave("headers of more than 16,383 bytes");
        self.asm.jump_if_number(When::Above, R3, MAX_PARSED, far);
        // `struct xdp_md`: start and end of the frame.
        self.asm.load(Size::Word, R7, R6, 0);
        self.asm.load(Size::Word, R5, R6, 4);
        self.asm.alu_number(Alu::Add, R7, self.prefix());
        self.asm.alu(Alu::Add, R7, R3);
        self.asm.copy(R2, R7);
        self.asm.alu_number(Alu::Add, R2, bytes as i32);
        self.asm.jump_if(When::Above, R2, R5, short);
    }

    /// Returns a label that rejects a packet which is too short.
    fn too_short(&mut self) -> Label {
        let (label, past) = (self.asm.label(), self.asm.label());
        self.asm.jump(past);
        self.asm.place(label);
        self.fail(self.errors.packet_too_short);
        self.asm.place(past);
        label
    }

    pub(super) fn extract(&mut self, header: &HeaderPlace, size: Option<&Expr>) -> Emitted {
        let program = self.program;
        let instance = &program.headers[header.base];
        let fields = &program.header_types[instance.ty].fields;
        if size.is_some() || fields.iter().any(|f| matches!(f.ty, ScalarTy::Varbit(_))) {
            return Err("a header of variable length".to_owned());
        }
        let bits: u32 = fields.iter().map(|field| field.ty.width()).sum();
        if !bits.is_multiple_of(8) {
            return Err("a header that is not a whole number of bytes".to_owned());
        }
        let short = self.too_short();
        let base = if header.dims.is_empty() {
            R9
        } else {
            let outside = self.asm.label();
            let past = self.asm.label();
            self.asm.jump(past);
            self.asm.place(outside);
            self.fail(self.errors.stack_out_of_bounds);
            self.asm.place(past);
            let strides = header.field_strides(program);
            self.address_of(instance.valid, &header.dims, &strides, outside)?;
            self.asm.copy(R8, R1);
            R8
        };
        self.bytes_at_cursor(bits / 8, short);
        let mut at = 0;
        for (field, number) in fields.iter().zip(instance.valid.get() + 1..) {
            checkpoint();
            self.read_bits(base, FieldId::new(number), (at, field.ty.width()));
            at += field.ty.width();
        }
        let valid = self.offset(instance.valid, 0);
        self.asm.store_number(Size::Double, base, valid, 1);
        self.asm.alu_number(Alu::Add, R3, (bits / 8) as i32);
        self.asm.store(Size::Double, R9, self.memory.cursor, R3);
        Ok(())
    }

    /// Copies `width` bits at the bit `at` after `R7` to a field of the element at `base`.
    fn read_bits(&mut self, base: Register, field: FieldId, (at, width): (u32, u32)) {
        for limb in 0..(limbs_for(width) as u32).max(1) {
            let count = bits_of_limb(width, limb);
            let end = at + width - limb * 64;
            if count == 0 {
                self.asm.set(R0, 0);
            } else {
                self.load_bits(end - count, count);
            }
            let offset = self.offset(field, limb);
            self.asm.store(Size::Double, base, offset, R0);
        }
    }

    /// Loads `count` bits, 1 to 64, at the bit `at` after `R7` into `R0`.
    fn load_bits(&mut self, at: u32, count: u32) {
        let first = at / 8;
        let bytes = (at + count).div_ceil(8) - first;
        let unused = bytes * 8 - at % 8 - count;
        let mut done = 0;
        for size in [8, 4, 2, 1] {
            while bytes.min(8) - done >= size {
                let to = if done == 0 { R0 } else { R1 };
                let offset = (first + done) as i16;
                self.asm.load(Size::of(size), to, R7, offset);
                self.asm.network_order(to, Size::of(size));
                if done > 0 {
                    self.asm.alu_number(Alu::Shl, R0, (size * 8) as i32);
                    self.asm.alu(Alu::Or, R0, R1);
                }
                done += size;
            }
        }
        if bytes == 9 {
            self.asm.load(Size::Byte, R1, R7, (first + 8) as i16);
            self.asm.alu_number(Alu::Shr, R1, unused as i32);
            self.asm.alu_number(Alu::Shl, R0, (8 - unused) as i32);
            self.asm.alu(Alu::Or, R0, R1);
        } else {
            self.asm.alu_number(Alu::Shr, R0, unused as i32);
        }
        if !at.is_multiple_of(8) || bytes == 9 {
            self.asm.mask(R0, count);
        }
    }

    pub(super) fn advance(&mut self, bits: &Expr) -> Emitted {
        let odd = self.leave_label("a distance that is not a whole number of bytes".to_owned());
        let short = self.too_short();
        self.value(bits)?;
        self.asm.copy(R1, R0);
        self.asm.alu_number(Alu::And, R1, 7);
        self.asm.jump_if_number(When::Different, R1, 0, odd);
        self.asm.alu_number(Alu::Shr, R0, 3);
        self.load_memory(R1, self.memory.cursor);
        self.load_memory(R2, self.memory.length);
        self.asm.alu(Alu::Sub, R2, R1);
        self.asm.jump_if(When::Above, R0, R2, short);
        self.asm.alu(Alu::Add, R1, R0);
        self.asm.store(Size::Double, R9, self.memory.cursor, R1);
        Ok(())
    }

    pub(super) fn lookahead(&mut self, total: u32, dests: &[(Place, u32)]) -> Emitted {
        if dests.iter().any(|(place, _)| !place.dims.is_empty()) {
            return Err("a lookahead into an element of an array".to_owned());
        }
        let short = self.too_short();
        self.bytes_at_cursor(total.div_ceil(8), short);
        for (place, at) in dests {
            checkpoint();
            let ty = self.program.fields[place.base].ty;
            if matches!(ty, ScalarTy::Varbit(_)) {
                return Err("a lookahead at a varbit".to_owned());
            }
            self.read_bits(R9, place.base, (*at, ty.width()));
        }
        Ok(())
    }
}

/// Returns the links that lead back to a state on the way to them, by depth-first search.
fn links_back(parser: &Parser) -> BTreeSet<(StateId, StateId)> {
    let targets = |state: StateId| -> Vec<StateId> {
        let cases = match &parser.states[state].transition {
            Transition::Direct(target) => vec![*target],
            Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
        };
        let states = cases.into_iter().filter_map(|target| match target {
            Target::State(state) => Some(state),
            Target::Accept | Target::Reject => None,
        });
        states.collect()
    };
    let (mut back, mut known) = (BTreeSet::new(), BTreeSet::new());
    let mut path: Vec<(StateId, Vec<StateId>)> = vec![(parser.start, targets(parser.start))];
    known.insert(parser.start);
    while let Some((state, left)) = path.last_mut() {
        checkpoint();
        let state = *state;
        match left.pop() {
            None => {
                path.pop();
            }
            Some(next) if path.iter().any(|(on_path, _)| *on_path == next) => {
                back.insert((state, next));
            }
            Some(next) => {
                if known.insert(next) {
                    path.push((next, targets(next)));
                }
            }
        }
    }
    back
}

//! Execution of flat code on a packet: one loop over instructions.

mod packet_ops;
mod trace_sink;

use bits::one;
use exec::slots::header;
use exec::slots::table::TableSite;
use exec::{DropReason, PacketContext, State};

use crate::code::{Code, Inst, NONE, OUT_OF_RANGE, Pc};

pub(crate) use trace_sink::{Quiet, Telling, TraceSink};

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The code reached its end.
    Done,
    /// The parser rejected with this error.
    Reject(u32),
    /// The packet must be dropped.
    Drop(DropReason),
}

/// Interpreter state for one block and one packet. The packet's limbs are moved here meanwhile.
pub(crate) struct Machine<'m> {
    code: &'m Code,
    limbs: Vec<u64>,
    packet: &'m mut PacketContext,
    state: &'m State,
    /// Result of the last table lookup: hit, and the position of the action that ran.
    hit: bool,
    position: u32,
}

impl<'m> Machine<'m> {
    /// Runs code from `start` on.
    pub(crate) fn run<T: TraceSink>(
        code: &'m Code,
        start: Pc,
        packet: &'m mut PacketContext,
        state: &'m State,
        tap: &mut T,
    ) -> Outcome {
        let limbs = std::mem::take(&mut packet.limbs);
        let mut machine = Machine {
            code,
            limbs,
            packet,
            state,
            hit: false,
            position: NONE,
        };
        let outcome = machine.go(start as usize, tap);
        machine.packet.atomic.leave_all(&state.atomic);
        machine.packet.limbs = machine.limbs;
        outcome
    }

    fn go<T: TraceSink>(&mut self, mut pc: usize, tap: &mut T) -> Outcome {
        let code = self.code;
        macro_rules! l {
            ($slot:expr) => {
                self.limbs[$slot as usize]
            };
        }
        loop {
            let Some(&inst) = code.insts.get(pc) else {
                return Outcome::Done;
            };
            pc += 1;
            match inst {
                Inst::Copy { d, a } => l!(d) = l!(a),
                Inst::CopyN { d, a, n } => self.copy(d, a, n),
                Inst::Add { d, a, b, w } => l!(d) = one::add(l!(a), l!(b), w.into()),
                Inst::Sub { d, a, b, w } => l!(d) = one::sub(l!(a), l!(b), w.into()),
                Inst::Mul { d, a, b, w } => l!(d) = one::mul(l!(a), l!(b), w.into()),
                Inst::Div { d, a, b } => l!(d) = l!(a).checked_div(l!(b)).unwrap_or(0),
                Inst::Mod { d, a, b } => l!(d) = l!(a).checked_rem(l!(b)).unwrap_or(0),
                Inst::AddSaturating { d, a, b, w } => {
                    l!(d) = one::sat_add(l!(a), l!(b), w.into());
                }
                Inst::SubSaturating { d, a, b } => l!(d) = l!(a).saturating_sub(l!(b)),
                Inst::AddSaturatingSigned { d, a, b, w } => {
                    l!(d) = one::sat_add_signed(l!(a), l!(b), w.into());
                }
                Inst::SubSaturatingSigned { d, a, b, w } => {
                    l!(d) = one::sat_sub_signed(l!(a), l!(b), w.into());
                }
                Inst::And { d, a, b } => l!(d) = l!(a) & l!(b),
                Inst::Or { d, a, b } => l!(d) = l!(a) | l!(b),
                Inst::Xor { d, a, b } => l!(d) = l!(a) ^ l!(b),
                Inst::Shl { d, a, b, w } => l!(d) = one::shl(l!(a), l!(b), w.into()),
                Inst::Shr { d, a, b, w } => l!(d) = one::shr(l!(a), l!(b), w.into()),
                Inst::ShrSigned { d, a, b, w } => l!(d) = one::ashr(l!(a), l!(b), w.into()),
                Inst::Neg { d, a, w } => l!(d) = one::neg(l!(a), w.into()),
                Inst::Complement { d, a, w } => l!(d) = one::not(l!(a), w.into()),
                Inst::Eq { d, a, b } => l!(d) = u64::from(l!(a) == l!(b)),
                Inst::Ne { d, a, b } => l!(d) = u64::from(l!(a) != l!(b)),
                Inst::Lt { d, a, b } => l!(d) = u64::from(l!(a) < l!(b)),
                Inst::Le { d, a, b } => l!(d) = u64::from(l!(a) <= l!(b)),
                Inst::LtSigned { d, a, b, w } => {
                    l!(d) = u64::from(one::cmp_signed(l!(a), l!(b), w.into()).is_lt());
                }
                Inst::LeSigned { d, a, b, w } => {
                    l!(d) = u64::from(one::cmp_signed(l!(a), l!(b), w.into()).is_le());
                }
                Inst::Concat { d, a, b, w } => l!(d) = one::concat(l!(a), l!(b), w.into()),
                Inst::Slice { d, a, lo, w } => l!(d) = one::extract(l!(a), lo.into(), w.into()),
                Inst::SignExtend { d, a, from, w } => {
                    l!(d) = one::sign_extend(l!(a), from.into(), w.into());
                }
                Inst::Deposit { d, a, lo, w } => {
                    l!(d) = one::deposit(l!(d), l!(a), lo.into(), w.into());
                }
                Inst::Wide(at) => {
                    code.wides[at as usize].run(&mut self.limbs, code.wide_scratch);
                }
                Inst::EqN { d, a, b, n } => {
                    let (a, b, n) = (a as usize, b as usize, n as usize);
                    l!(d) = u64::from(self.limbs[a..a + n] == self.limbs[b..b + n]);
                }
                Inst::Index { d, a, stride } => {
                    let stride = code.strides[stride as usize];
                    let index = l!(a);
                    l!(d) = if index < u64::from(stride.len) && l!(d) != OUT_OF_RANGE {
                        l!(d) + index * u64::from(stride.limbs)
                    } else {
                        OUT_OF_RANGE
                    };
                }
                Inst::LoadAt { d, base, at } => {
                    l!(d) = match l!(at) {
                        OUT_OF_RANGE => 0,
                        at => l!(u64::from(base) + at),
                    };
                }
                Inst::StoreAt { base, at, a } => {
                    let at = l!(at);
                    if at != OUT_OF_RANGE {
                        l!(u64::from(base) + at) = l!(a);
                    }
                }
                Inst::LoadAtN(at) => self.load_at_n(at),
                Inst::StoreAtN(at) => self.store_at_n(at),
                Inst::Jump { to } => pc = to as usize,
                Inst::JumpIf { a, to } => {
                    if l!(a) != 0 {
                        pc = to as usize;
                    }
                }
                Inst::JumpIfNot { a, to } => {
                    if l!(a) == 0 {
                        pc = to as usize;
                    }
                }
                Inst::JumpEq { a, b, to } => {
                    if l!(a) == l!(b) {
                        pc = to as usize;
                    }
                }
                Inst::JumpNe { a, b, to } => {
                    if l!(a) != l!(b) {
                        pc = to as usize;
                    }
                }
                Inst::JumpLt { a, b, to } => {
                    if l!(a) < l!(b) {
                        pc = to as usize;
                    }
                }
                Inst::JumpGe { a, b, to } => {
                    if l!(a) >= l!(b) {
                        pc = to as usize;
                    }
                }
                Inst::EnterAtomic => self.packet.atomic.enter(&self.state.atomic),
                Inst::LeaveAtomic => self.packet.atomic.leave(&self.state.atomic),
                Inst::Work { units } => {
                    if !self.packet.spend(units) {
                        return Outcome::Drop(DropReason::WorkBudget);
                    }
                }
                Inst::CallAction { action } => {
                    let action = &code.actions.as_slice()[action as usize];
                    if !action.is_empty || T::ON {
                        l!(action.ret) = pc as u64;
                        pc = action.entry as usize;
                    }
                }
                Inst::Return { a } => pc = l!(a) as usize,
                Inst::Apply { table } => {
                    let table = &code.tables.as_slice()[table as usize];
                    pc = self.apply(table, pc, tap);
                }
                Inst::JumpIfMiss { to } => {
                    if !self.hit {
                        pc = to as usize;
                    }
                }
                Inst::SwitchAction(at) => {
                    let targets = &code.switches[at as usize];
                    if let Some(&to) = targets.get(self.position as usize) {
                        pc = to as usize;
                    } else {
                        return Outcome::Done;
                    }
                }
                Inst::StoreHit { d } => l!(d) = u64::from(self.hit),
                Inst::StoreActionRun { d } => l!(d) = u64::from(self.position),
                Inst::End => return Outcome::Done,
                Inst::Reject { error } => return Outcome::Reject(error),
                Inst::RejectWith { a } => return Outcome::Reject(l!(a) as u32),
                Inst::InValueSet { d, a, set } => l!(d) = self.in_value_set(a, set),
                Inst::Extract { header, at, size } => {
                    if let Err(error) = self.extract(header, at, size, tap) {
                        return Outcome::Reject(error);
                    }
                }
                Inst::Advance { a } => {
                    if let Err(error) = self.advance(l!(a), tap) {
                        return Outcome::Reject(error);
                    }
                }
                Inst::Lookahead(at) => {
                    let lookahead = &code.lookaheads[at as usize];
                    let read = lookahead.read(&mut self.limbs, self.packet, &code.errors);
                    if let Err(error) = read {
                        return Outcome::Reject(error);
                    }
                }
                Inst::PacketLength { d } => l!(d) = self.packet.bytes.len() as u64,
                Inst::Emit { header, at } => {
                    self.emit(header, at, tap);
                    if self.packet.has_emitted_too_much() {
                        return Outcome::Drop(DropReason::FrameTooLong);
                    }
                }
                Inst::EmitField { a, n } => {
                    header::emit_field(&self.limbs, self.packet, a, n);
                    if self.packet.has_emitted_too_much() {
                        return Outcome::Drop(DropReason::FrameTooLong);
                    }
                }
                Inst::EmitVarbit { a } => {
                    header::emit_varbit(&self.limbs, self.packet, a);
                    if self.packet.has_emitted_too_much() {
                        return Outcome::Drop(DropReason::FrameTooLong);
                    }
                }
                Inst::CopyHeader(at) => self.copy_header(at),
                Inst::PushFront { stack, n } => {
                    code.stacks[stack as usize].push_front(&mut self.limbs, n);
                }
                Inst::PopFront { stack, n } => {
                    code.stacks[stack as usize].pop_front(&mut self.limbs, n);
                }
                Inst::Call(at) => {
                    let call = &code.calls[at as usize];
                    let called = call.run(&mut self.limbs, self.packet, self.state, &code.tables);
                    match called {
                        Ok(called) => tap.called(called),
                        Err(reason) => return Outcome::Drop(reason),
                    }
                }
                Inst::Tell(at) => tap.tell(&code.tells[at as usize], &self.limbs, code),
            }
        }
    }

    #[inline]
    fn copy(&mut self, d: u32, a: u32, n: u32) {
        let a = a as usize;
        self.limbs.copy_within(a..a + n as usize, d as usize);
    }

    fn load_at_n(&mut self, at: u32) {
        let access = self.code.at_ns[at as usize];
        let (d, n) = (access.slot as usize, access.n as usize);
        match self.limbs[access.at as usize] {
            OUT_OF_RANGE => self.limbs[d..d + n].fill(0),
            at => {
                let a = access.base as usize + at as usize;
                self.limbs.copy_within(a..a + n, d);
            }
        }
    }

    fn store_at_n(&mut self, at: u32) {
        let access = self.code.at_ns[at as usize];
        let at = self.limbs[access.at as usize];
        if at != OUT_OF_RANGE {
            let a = access.slot as usize;
            let d = access.base as usize + at as usize;
            self.limbs.copy_within(a..a + access.n as usize, d);
        }
    }

    fn in_value_set(&self, a: u32, set: u32) -> u64 {
        let Some(set) = self.state.value_sets.get(set as usize) else {
            return 0;
        };
        let a = a as usize;
        u64::from(set.contains(&self.limbs[a..a + set.shape().limbs()]))
    }

    /// Looks up a table and starts the action of the entry. Returns the next instruction.
    #[inline]
    fn apply<T: TraceSink>(&mut self, table: &TableSite, pc: usize, tap: &mut T) -> usize {
        let applied = table.apply(&self.limbs, self.packet, self.state);
        if T::ON {
            let entry = self.state.table(table.id);
            let entry = entry.and_then(|state| state.entry_id(&applied.found));
            tap.looked_up(table, &self.limbs, &applied, entry);
        }
        self.hit = applied.hit;
        self.position = applied.position.unwrap_or(NONE);
        let Some(&action) = table.actions.get(self.position as usize) else {
            return pc;
        };
        let action = &self.code.actions[action];
        if action.is_empty && !T::ON {
            return pc;
        }
        let params = applied.params.limbs(&self.packet.learned_params);
        let (d, limbs) = (action.params as usize, action.param_limbs as usize);
        self.limbs[d..d + limbs].copy_from_slice(&params[..limbs]);
        self.limbs[action.ret as usize] = pc as u64;
        action.entry as usize
    }
}

//! Translation of parsers: parser states are blocks, and transitions are jumps.

use std::collections::{HashMap, HashSet};

use bits::{IdVec, limbs_for};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Switch;
use exec::Unsupported;
use exec::slots::Slot;
use exec::slots::wide::WideOp;
use ir::{
    BinOp, Expr, KeySet, Keyset, Parser, ParserId, ScalarTy, SelectCase, StateId, Target,
    Transition, ValueSetId,
};
use support::work::checkpoint;

use super::Translator;
use super::expr::is_wide;
use super::work_bounds::targets;
use crate::abi::Outcome;
use crate::helpers::Helper;

/// Minimum number of cases for a search instead of successive comparisons.
const SEARCHED_CASES: usize = 4;

/// Evaluated key of a `select`.
struct Key {
    ty: ScalarTy,
    /// Value of a narrow key.
    value: Vec<Value>,
    /// Slot of a wide key.
    slot: Slot,
}

impl Translator<'_> {
    pub(super) fn parser(&mut self, id: ParserId) -> Result<(), Unsupported> {
        let Some(parser) = self.program.parsers.get(id) else {
            return Ok(());
        };
        let states: IdVec<StateId, Block> =
            parser.states.ids().map(|_| self.b.create_block()).collect();
        match states.get(parser.start) {
            Some(&start) => self.jump(start),
            None => self.end_with(Outcome::Done),
        }
        let order = Order::of(parser);
        for &state_id in &order.states {
            checkpoint();
            let state = &parser.states[state_id];
            self.loc = state.loc;
            self.check_size()?;
            self.enclosing.clear();
            match order.again.contains(&state_id) {
                true => self.start(states[state_id]),
                false => self.start_sealed(states[state_id]),
            }
            self.spend(self.budget.state(state));
            self.body(&state.body)?;
            if !self.is_live {
                continue;
            }
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
        Ok(())
    }

    fn go(&mut self, target: Target, states: &IdVec<StateId, Block>) {
        match target {
            Target::Accept => self.end_with(Outcome::Done),
            Target::Reject => self.end_with(Outcome::Reject(0)),
            Target::State(state) => match states.get(state) {
                Some(&to) => self.jump(to),
                None => self.end_with(Outcome::Done),
            },
        }
    }

    fn keys(&mut self, keys: &[Expr]) -> Result<Vec<Key>, Unsupported> {
        let mut made = Vec::new();
        for key in keys {
            checkpoint();
            let ty = self.ty(key)?;
            made.push(if is_wide(ty) {
                let slot = self.slot_of(key)?;
                let value = Vec::new();
                Key { ty, value, slot }
            } else {
                let value = self.value(key)?;
                Key { ty, value, slot: 0 }
            });
        }
        Ok(made)
    }

    fn cases(
        &mut self,
        keys: &[Key],
        cases: &[SelectCase],
        states: &IdVec<StateId, Block>,
    ) -> Result<(), Unsupported> {
        let mut cases = cases;
        while let Some((case, rest)) = cases.split_first() {
            self.check_size()?;
            let searched = searchable(keys, cases);
            if searched >= SEARCHED_CASES {
                self.check_room(searched)?;
                self.search(keys, &cases[..searched], states);
                cases = &cases[searched..];
                continue;
            }
            cases = rest;
            let next = self.b.create_block();
            match &case.keyset {
                Keyset::ValueSet(set) => {
                    let truth = self.is_in_value_set(*set, keys);
                    self.go_on_if(truth, next);
                }
                Keyset::Sets(sets) => {
                    for (set, key) in sets.iter().zip(keys) {
                        checkpoint();
                        if let Some(truth) = self.is_in(set, key)? {
                            self.go_on_if(truth, next);
                        }
                    }
                }
            }
            self.go(case.target, states);
            self.start_sealed(next);
        }
        let error = self.code.errors.no_match;
        self.end_with(Outcome::Reject(error));
        Ok(())
    }

    fn go_on_if(&mut self, truth: Value, otherwise: Block) {
        let goes_on = self.b.create_block();
        self.branch(truth, goes_on, otherwise);
        self.start_sealed(goes_on);
    }

    /// Branches to the case with the key's value. All cases are constants. Continues with the next
    /// block if none matches.
    fn search(&mut self, keys: &[Key], cases: &[SelectCase], states: &IdVec<StateId, Block>) {
        let mut switch = Switch::new();
        let mut ends = Vec::new();
        for case in cases {
            checkpoint();
            let Some(value) = constant_case(case) else {
                continue;
            };
            // If several cases have the same value, the first one applies.
            if switch.entries().contains_key(&u128::from(value)) {
                continue;
            }
            let block = match case.target {
                Target::State(state) => states.get(state).copied(),
                _ => None,
            };
            let block = block.unwrap_or_else(|| {
                let block = self.b.create_block();
                ends.push((block, case.target));
                block
            });
            switch.set_entry(value.into(), block);
        }
        let next = self.b.create_block();
        if let Some(&key) = keys.first().and_then(|key| key.value.first()) {
            switch.emit(&mut self.b, key, next);
            self.is_live = false;
        }
        for (block, target) in ends {
            checkpoint();
            self.start_sealed(block);
            self.go(target, states);
        }
        self.start_sealed(next);
    }

    /// Returns a truth value that is set if the key is in a set, or none if it always is.
    fn is_in(&mut self, set: &KeySet, key: &Key) -> Result<Option<Value>, Unsupported> {
        if key.ty.width() == 0 {
            return Ok(None);
        }
        Ok(Some(match set {
            KeySet::Any => return Ok(None),
            KeySet::Value(value) => self.compare_key(BinOp::Eq, key, value)?,
            KeySet::Mask(value, mask) => self.is_masked(key, value, mask)?,
            KeySet::Range(lo, hi) => {
                let above = self.compare_key(BinOp::Ge, key, lo)?;
                let below = self.compare_key(BinOp::Le, key, hi)?;
                self.b.ins().band(above, below)
            }
            KeySet::ValueSet(set) => self.is_in_value_set(*set, std::slice::from_ref(key)),
        }))
    }

    fn compare_key(&mut self, op: BinOp, key: &Key, other: &Expr) -> Result<Value, Unsupported> {
        if is_wide(key.ty) {
            let other = self.slot_of(other)?;
            let number = self.compare_slots(op, key.ty, key.slot, other);
            return Ok(self.is_set(number));
        }
        let other = self.value(other)?;
        let ty = (key.ty.width(), key.ty.is_signed());
        Ok(self.compare_values(op, ty, &key.value, &other))
    }

    fn is_masked(&mut self, key: &Key, value: &Expr, mask: &Expr) -> Result<Value, Unsupported> {
        let width = key.ty.width();
        if is_wide(key.ty) {
            let limbs = limbs_for(width) as u32;
            let (value, mask) = (self.slot_of(value)?, self.slot_of(mask)?);
            let (a, b) = (self.temporary(limbs), self.temporary(limbs));
            self.wide_step(WideOp::And, a, (key.slot, mask), (width, width));
            self.wide_step(WideOp::And, b, (value, mask), (width, width));
            let equal = self.equal_slots(a, b, limbs);
            return Ok(self.is_set(equal));
        }
        let (value, mask) = (self.value(value)?, self.value(mask)?);
        let a = self.limbwise(BinOp::And, &key.value, &mask);
        let b = self.limbwise(BinOp::And, &value, &mask);
        Ok(self.compare_values(BinOp::Eq, (width, false), &a, &b))
    }

    /// Tests a value set. The helper expects contiguous keys, without those of width 0.
    fn is_in_value_set(&mut self, set: ValueSetId, keys: &[Key]) -> Value {
        let limbs: u32 = keys.iter().map(|k| limbs_for(k.ty.width()) as u32).sum();
        let first = self.temporary(limbs);
        let mut slot = first;
        for key in keys {
            checkpoint();
            let limbs = limbs_for(key.ty.width()) as u32;
            if is_wide(key.ty) {
                self.copy(slot, key.slot, limbs);
            } else if limbs > 0 {
                self.store_slots(slot, &key.value);
            }
            slot += limbs;
        }
        let is_in = self.help_with(Helper::InValueSet, &[set.get().into(), first.into()]);
        self.is_set(is_in)
    }
}

/// Reachable states of a parser in reverse postorder.
struct Order {
    states: Vec<StateId>,
    /// Targets of back edges.
    again: HashSet<StateId>,
}

impl Order {
    fn of(parser: &Parser) -> Order {
        let mut states = Vec::new();
        let mut seen = HashSet::from([parser.start]);
        // Path of the depth-first search, with the successors of each state that are still to be
        // visited.
        let mut way = vec![(parser.start, next_states(parser, parser.start))];
        while let Some((state, left)) = way.last_mut() {
            checkpoint();
            match left.pop() {
                Some(to) if seen.insert(to) => way.push((to, next_states(parser, to))),
                Some(_) => {}
                None => {
                    states.push(*state);
                    way.pop();
                }
            }
        }
        states.reverse();
        let places: HashMap<StateId, usize> = states
            .iter()
            .enumerate()
            .map(|(at, &id)| (id, at))
            .collect();
        let links = states.iter().flat_map(|&from| {
            next_states(parser, from)
                .into_iter()
                .map(move |to| (from, to))
        });
        let again = links
            .filter(|(from, to)| places[to] <= places[from])
            .map(|(_, to)| to)
            .collect();
        Order { states, again }
    }
}

/// Returns the successors of a state.
fn next_states(parser: &Parser, state: StateId) -> Vec<StateId> {
    let state = parser.states.get(state);
    let targets = state.map_or(Vec::new(), |state| targets(&state.transition));
    let states = targets.into_iter().filter_map(|target| match target {
        Target::State(to) if parser.states.get(to).is_some() => Some(to),
        _ => None,
    });
    states.collect()
}

/// Returns the number of leading cases that are constants of a single key of at most 64 bits.
fn searchable(keys: &[Key], cases: &[SelectCase]) -> usize {
    match keys {
        [key] if key.value.len() == 1 && key.ty.width() > 0 => {
            let constants = cases.iter().map(constant_case);
            constants.take_while(Option::is_some).count()
        }
        _ => 0,
    }
}

/// Returns the value of a case that is a single constant.
fn constant_case(case: &SelectCase) -> Option<u64> {
    match &case.keyset {
        Keyset::Sets(sets) => match &sets[..] {
            [KeySet::Value(Expr::Const(_, value))] => value.to_u64(),
            _ => None,
        },
        Keyset::ValueSet(_) => None,
    }
}

//! [`Signed`]: adapter that maps signed range fields to an engine for unsigned ranges.

use super::{Improved, MatchEngine, Matcher, Rule, choose};
use crate::entry::EntryIdx;
use crate::key::{FieldMatch, KeyField, KeyShape, MatchKind};
use bits::{Value, limbs_for};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of limbs of a key, because keys are copied to the stack.
const MAX_LIMBS: usize = 16;

/// Number of limbs that are copied at once.
const COPIED: usize = 32 * MAX_LIMBS;

/// Wrapper around another engine. It inverts the sign bits of signed range fields in rules and
/// keys, which maps signed order to unsigned order.
#[derive(Debug)]
pub struct Signed {
    shape: Arc<KeyShape>,
    signs: Signs,
    inner: Box<dyn MatchEngine>,
}

impl Signed {
    /// Creates an engine without rules. Returns `None` if keys are too long.
    pub fn new(shape: &Arc<KeyShape>) -> Option<Self> {
        if shape.limbs() > MAX_LIMBS {
            return None;
        }
        let unsigned = shape.fields().iter().map(|field| KeyField {
            kind: match field.kind {
                MatchKind::SignedRange => MatchKind::Range,
                kind => kind,
            },
            ..*field
        });
        let fields = shape.fields().iter().enumerate();
        let signed = fields.filter(|(_, field)| field.kind == MatchKind::SignedRange);
        let sign = signed.map(|(at, field)| {
            let limb = shape.offset(at) + limbs_for(field.width).saturating_sub(1);
            (limb, sign_bit(field.width))
        });
        Some(Self {
            signs: Signs(sign.collect()),
            inner: choose(&Arc::new(KeyShape::new(unsigned))),
            shape: shape.clone(),
        })
    }

    /// Returns the rule's match for the inner engine.
    fn unsigned(&self, matches: &[FieldMatch]) -> Arc<[FieldMatch]> {
        let fields = self.shape.fields().iter().zip(matches);
        fields
            .map(|(field, matched)| match matched {
                FieldMatch::Range { lo, hi } if field.kind == MatchKind::SignedRange => {
                    FieldMatch::Range {
                        lo: flipped(lo),
                        hi: flipped(hi),
                    }
                }
                other => other.clone(),
            })
            .collect()
    }
}

impl MatchEngine for Signed {
    fn insert(&mut self, rule: Rule<'_>) {
        let matches = &self.unsigned(rule.matches);
        self.inner.insert(Rule { matches, ..rule });
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let matches = &self.unsigned(rule.matches);
        self.inner.remove(Rule { matches, ..rule });
    }

    fn clear(&mut self) {
        self.inner.clear();
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        Arc::new(SignedMatcher {
            signs: self.signs.clone(),
            limbs: self.shape.limbs(),
            inner: self.inner.snapshot(),
        })
    }

    fn improve(&mut self, budget: Duration) -> Improved {
        self.inner.improve(budget)
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

/// Positions of the sign bits in a key: limb index, and mask of the bit.
#[derive(Debug, Clone)]
struct Signs(Arc<[(usize, u64)]>);

impl Signs {
    #[inline]
    fn flip(&self, key: &mut [u64]) {
        for &(limb, sign) in &*self.0 {
            key[limb] ^= sign;
        }
    }
}

/// Returns the sign bit of a field of this width, in its last limb.
fn sign_bit(width: u32) -> u64 {
    match width {
        0 => 0,
        _ => 1 << ((width - 1) % 64),
    }
}

/// Returns the number with its sign bit inverted.
fn flipped(number: &Value) -> Value {
    let mut limbs = number.limbs().to_vec();
    if let Some(last) = limbs.last_mut() {
        *last ^= sign_bit(number.width());
    }
    Value::from_limbs(&limbs, number.width())
}

#[derive(Debug)]
struct SignedMatcher {
    signs: Signs,
    limbs: usize,
    inner: Arc<dyn Matcher>,
}

impl Matcher for SignedMatcher {
    #[inline]
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut copy = [0; MAX_LIMBS];
        let copy = &mut copy[..key.len()];
        copy.copy_from_slice(key);
        self.signs.flip(copy);
        self.inner.find(copy)
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let mut copy = [0; COPIED];
        let at_once = COPIED / self.limbs.max(1);
        let batches = keys.chunks(at_once * self.limbs.max(1));
        for (keys, out) in batches.zip(out.chunks_mut(at_once)) {
            let copy = &mut copy[..keys.len()];
            copy.copy_from_slice(keys);
            for key in copy.chunks_exact_mut(self.limbs.max(1)) {
                self.signs.flip(key);
            }
            self.inner.find_batch(copy, out);
        }
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }
}

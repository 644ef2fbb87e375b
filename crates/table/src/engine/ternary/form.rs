//! [`Form`]: search structure of the ternary engine, bit vectors for few rules or an index for
//! many.

use super::bit_rows::{Bits64, Bits256, Bits512, Bits1024};
use super::dimension::Keys;
use super::index::{Change, Index};
use super::layout::Layout;
use super::records::FlatRule;
use super::vectors::{VectorIndex, Vectors};
use crate::engine::{Matcher, Replay};
use crate::entry::EntryIdx;
use std::sync::Arc;

/// Search structure.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Bit vectors of up to 64 positions, and so on.
    Upto64(Vectors<Bits64>),
    Upto256(Vectors<Bits256>),
    Upto512(Vectors<Bits512>),
    Upto1024(Vectors<Bits1024>),
    Many(Box<Index>),
}

/// Evaluates an expression for bit vectors of any size, or for the index.
macro_rules! either {
    ($form:expr, $vectors:ident => $few:expr, $index:ident => $many:expr) => {
        match $form {
            Form::Upto64($vectors) => $few,
            Form::Upto256($vectors) => $few,
            Form::Upto512($vectors) => $few,
            Form::Upto1024($vectors) => $few,
            Form::Many($index) => $many,
        }
    };
}

/// Maximum number of rules for bit vectors alone. Some of the 1024 positions stay free, so that
/// rules can be inserted between others cheaply.
pub(super) const MAX_FEW: usize = 1000;

impl Form {
    /// Creates bit vectors for these rules, if they are few enough and the key suits.
    pub(super) fn of_few(layout: &Arc<Layout>, rules: &[FlatRule]) -> Option<Self> {
        match rules.len() {
            0..=56 => Vectors::new(layout, Keys::Limbs, rules).map(Self::Upto64),
            57..=240 => Vectors::new(layout, Keys::Limbs, rules).map(Self::Upto256),
            241..=500 => Vectors::new(layout, Keys::Limbs, rules).map(Self::Upto512),
            501..=MAX_FEW => Vectors::new(layout, Keys::Limbs, rules).map(Self::Upto1024),
            _ => None,
        }
    }

    /// Returns the index, if it is one.
    pub(super) fn index(&self) -> Option<&Index> {
        match self {
            Self::Many(index) => Some(index),
            _ => None,
        }
    }

    /// Returns the number of rules.
    pub(super) fn len(&self) -> usize {
        either!(self, few => few.len(), many => many.len())
    }

    /// Returns all rules.
    pub(super) fn rules(&self) -> Vec<FlatRule> {
        either!(self, few => few.rules(), many => many.rules())
    }

    /// Returns the number of rules that were in no independent set when the structure was built.
    pub(super) fn built_outside_sets(&self) -> usize {
        either!(self, few => few.len(), many => many.built())
    }

    /// Returns true if the rules have changed so much that the structure should be rebuilt.
    pub(super) fn is_outgrown(&self) -> bool {
        either!(self, few => few.is_outgrown(), many => many.is_outgrown() || many.is_forgotten())
    }

    /// Returns true if a rule can be inserted.
    pub(super) fn takes(&self, rule: &FlatRule) -> bool {
        either!(self, few => few.takes(rule), _many => true)
    }

    /// Returns the size in bytes of a copy, without parts that copies share.
    pub(super) fn own_bytes(&self) -> usize {
        either!(self, few => few.bytes(), many => many.own_bytes())
    }

    /// Returns the size in bytes of the parts that copies share.
    pub(super) fn shared_bytes(&self) -> usize {
        self.index().map_or(0, |index| index.learned.shared_bytes())
    }
}

impl Replay for Form {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        let rule = &change.rule;
        either!(
            self,
            few => if change.is_insert {
                few.insert(rule);
            } else {
                let is_gone = few.remove(rule);
                debug_assert!(is_gone, "a rule that is removed was inserted");
            },
            many => many.apply(change)
        );
    }

    fn clone_cost(&self) -> usize {
        either!(self, _few => 4, many => many.clone_cost())
    }
}

impl Matcher for Form {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        either!(self, few => few.find(key), many => many.find(key))
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        either!(self, few => few.find_batch(keys, out), many => many.find_batch(keys, out));
    }

    fn vectors(&self) -> Option<VectorIndex<'_>> {
        match self {
            Self::Upto64(vectors) => vectors.seen(),
            _ => None,
        }
    }

    fn memory(&self) -> usize {
        self.shared_bytes() + self.own_bytes()
    }
}

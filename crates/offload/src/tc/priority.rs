//! Priorities of rules: one for each protocol and set of masks.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Field, FlowerRule};

/// Priorities that are given to rules.
///
/// In the kernel a priority belongs to one protocol, and the masks of one priority are tried in the
/// order in which they were first used. With a priority for each set of masks no such order
/// matters.
#[derive(Clone, Debug)]
pub struct Priorities {
    first: u16,
    given: BTreeMap<(u16, Vec<(Field, u128)>), Given>,
    /// Priorities that are given, and those of other owners.
    taken: BTreeSet<u16>,
}

/// A priority with the number of its rules.
#[derive(Clone, Copy, Debug)]
struct Given {
    priority: u16,
    rules: usize,
}

impl Priorities {
    /// Makes priorities from `first` on.
    pub fn new(first: u16) -> Priorities {
        Priorities {
            first,
            given: BTreeMap::new(),
            taken: BTreeSet::new(),
        }
    }

    /// Excludes a priority of another owner. Returns true if it was given here.
    pub fn exclude(&mut self, priority: u16) -> bool {
        self.taken.insert(priority);
        let before = self.given.len();
        // Rules that have it stay there; new ones get another.
        self.given.retain(|_, given| given.priority != priority);
        self.given.len() < before
    }

    /// Returns the priority of rules with this rule's protocol and masks; `None` if there are no
    /// more. Each call counts a rule.
    pub fn of(&mut self, rule: &FlowerRule) -> Option<u16> {
        let shape = shape_of(rule);
        if let Some(given) = self.given.get_mut(&shape) {
            given.rules += 1;
            return Some(given.priority);
        }
        let priority = self.free()?;
        self.taken.insert(priority);
        self.given.insert(shape, Given { priority, rules: 1 });
        Some(priority)
    }

    /// Returns a priority that no rule has; `None` if there is none.
    pub fn free(&self) -> Option<u16> {
        let mut all = self.first..=u16::MAX;
        all.find(|priority| !self.taken.contains(priority))
    }

    /// Takes back the priority of a rule. It is free after its last rule.
    pub fn give_back(&mut self, rule: &FlowerRule) {
        let shape = shape_of(rule);
        let Some(given) = self.given.get_mut(&shape) else {
            return;
        };
        if given.priority != rule.priority {
            return;
        }
        given.rules -= 1;
        if given.rules == 0 {
            self.taken.remove(&rule.priority);
            self.given.remove(&shape);
        }
    }

    /// Returns the number of priorities that are given.
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// Returns true if no priority is given.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}

fn shape_of(rule: &FlowerRule) -> (u16, Vec<(Field, u128)>) {
    let keys = rule.keys.iter();
    let mut masks: Vec<_> = keys.map(|key| (key.field, key.mask)).collect();
    masks.sort_unstable();
    (rule.protocol, masks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::{Key, RulePlanes};

    fn rule(protocol: u16, mask: u128) -> FlowerRule {
        let field = Field::Ipv4Dst;
        let keys = vec![Key {
            field,
            value: 0,
            mask,
        }];
        let (actions, planes) = (Vec::new(), RulePlanes::Both);
        FlowerRule {
            chain: 0,
            priority: 0,
            protocol,
            keys,
            actions,
            planes,
            cookie: [0; 16],
        }
    }

    #[test]
    fn each_mask_and_protocol_has_its_own_priority() {
        let mut priorities = Priorities::new(10);
        assert_eq!(priorities.of(&rule(0x0800, 0xFFFF_0000)), Some(10));
        assert_eq!(priorities.of(&rule(0x0800, 0xFFFF_FF00)), Some(11));
        assert_eq!(priorities.of(&rule(0x0800, 0xFFFF_0000)), Some(10));
        assert_eq!(priorities.of(&rule(0x0003, 0xFFFF_0000)), Some(12));
        let mut few = Priorities::new(u16::MAX);
        assert_eq!(few.of(&rule(0x0800, 1)), Some(u16::MAX));
        assert_eq!(few.of(&rule(0x0800, 2)), None);
    }

    #[test]
    fn a_priority_is_free_after_its_last_rule_and_those_of_others_are_not_given() {
        let mut priorities = Priorities::new(10);
        priorities.exclude(11);
        let mut first = rule(0x0800, 1);
        first.priority = priorities.of(&first).unwrap();
        assert_eq!(priorities.of(&first), Some(10));
        assert_eq!(priorities.of(&rule(0x0800, 2)), Some(12));
        priorities.give_back(&first);
        assert_eq!(priorities.of(&rule(0x0800, 4)), Some(13));
        priorities.give_back(&first);
        assert_eq!(priorities.of(&rule(0x0800, 8)), Some(10));
        priorities.exclude(12);
        assert_eq!(priorities.of(&rule(0x0800, 2)), Some(14));
    }
}

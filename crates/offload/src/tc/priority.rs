//! Priorities of rules: one for each protocol and set of masks.

use std::collections::BTreeMap;

use super::rule::{Field, FlowerRule};

/// Priorities that are given to rules.
///
/// In the kernel a priority belongs to one protocol, and the masks of one priority are tried in the
/// order in which they were first used. With a priority for each set of masks no such order
/// matters.
#[derive(Clone, Debug)]
pub struct Priorities {
    next: u16,
    given: BTreeMap<(u16, Vec<(Field, u128)>), u16>,
}

impl Priorities {
    /// Makes priorities from `first` on.
    pub fn new(first: u16) -> Priorities {
        let given = BTreeMap::new();
        Priorities { next: first, given }
    }

    /// Returns the priority of rules with this rule's protocol and masks; `None` if there are no
    /// more.
    pub fn of(&mut self, rule: &FlowerRule) -> Option<u16> {
        let mut masks: Vec<_> = (rule.keys.iter())
            .map(|key| (key.field, key.mask))
            .collect();
        masks.sort_unstable();
        let shape = (rule.protocol, masks);
        if let Some(priority) = self.given.get(&shape) {
            return Some(*priority);
        }
        let priority = self.next;
        self.next = priority.checked_add(1)?;
        self.given.insert(shape, priority);
        Some(priority)
    }
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
        assert_eq!(few.of(&rule(0x0800, 1)), None);
    }
}

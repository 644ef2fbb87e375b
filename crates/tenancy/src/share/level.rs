//! Weighted max-min level, and the reserve taken from vPDPs with more demand than their share.

/// Factor by which the demand may exceed the share before a vPDP is limited: packets that arrive
/// few at a time cost more each than if they waited.
pub(super) const LENIENCE: f64 = 1.5;

/// Fraction of the capacity that is reserved while some vPDP demands no more than its share.
/// Rounds get longer, the less time is left for their fixed costs.
pub(super) const KEPT: f64 = 0.06;

/// Returns the fraction of the capacity that is reserved at this level: 0 if all vPDPs demand
/// more. `asked` has the demand and weight of each vPDP.
pub(super) fn kept(level: f64, mut asked: impl Iterator<Item = (f64, f64)>) -> f64 {
    let is_modest = |(asked, weight): (f64, f64)| asked > 0.0 && asked <= level * weight * LENIENCE;
    if asked.any(is_modest) { KEPT } else { 0.0 }
}

/// Returns the max-min level in cycles per unit of weight: the highest one at which the demand
/// fits. It is infinite if all demand fits, or if only one vPDP has demand.
pub(super) fn level(capacity: f64, asked: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let active = asked.filter(|(asked, _)| *asked > 0.0);
    let all: f64 = active.clone().map(|(asked, _)| asked).sum();
    if all <= capacity || active.clone().count() < 2 {
        return f64::INFINITY;
    }
    // vPDPs with demand below the level are satisfied, and leave the rest to fewer: the level only
    // rises.
    let mut level = 0.0;
    loop {
        let is_satisfied = |(asked, weight): &(f64, f64)| *asked <= level * weight;
        let satisfied: f64 = active
            .clone()
            .filter(is_satisfied)
            .map(|(asked, _)| asked)
            .sum();
        let open = active.clone().filter(|one| !is_satisfied(one));
        let weights: f64 = open.map(|(_, weight)| weight).sum();
        let next = (capacity - satisfied) / weights;
        if weights == 0.0 || next <= level {
            return level;
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level_of(capacity: f64, asked: &[(f64, f64)]) -> f64 {
        level(capacity, asked.iter().copied())
    }

    fn kept_of(level: f64, asked: &[(f64, f64)]) -> f64 {
        kept(level, asked.iter().copied())
    }

    #[test]
    fn the_level_is_the_highest_that_fits() {
        assert_eq!(level_of(100.0, &[(40.0, 1.0), (60.0, 1.0)]), f64::INFINITY);
        assert_eq!(level_of(100.0, &[(90.0, 1.0), (60.0, 1.0)]), 50.0);
        assert_eq!(level_of(100.0, &[(10.0, 1.0), (200.0, 1.0)]), 90.0);
        assert_eq!(level_of(100.0, &[(200.0, 3.0), (200.0, 1.0)]), 25.0);
        assert_eq!(
            level_of(100.0, &[(5.0, 1.0), (40.0, 1.0), (500.0, 1.0)]),
            55.0
        );
        assert_eq!(level_of(100.0, &[]), f64::INFINITY);
        assert_eq!(level_of(100.0, &[(500.0, 1.0), (0.0, 1.0)]), f64::INFINITY);
    }

    #[test]
    fn as_long_as_one_who_asks_for_anything_asks_for_little_some_is_kept() {
        assert_eq!(kept_of(50.0, &[(10.0, 1.0), (200.0, 1.0)]), KEPT);
        assert_eq!(kept_of(50.0, &[(200.0, 1.0), (60.0, 1.0)]), KEPT);
        assert_eq!(kept_of(50.0, &[(200.0, 1.0), (100.0, 2.0)]), KEPT);
        assert_eq!(kept_of(50.0, &[(200.0, 1.0), (100.0, 1.0)]), 0.0);
        assert_eq!(kept_of(50.0, &[(200.0, 1.0), (0.0, 1.0)]), 0.0);
    }
}

//! Shares of packets in the switch for prefixes that nest, by the rule for nested prefixes.

mod evaluation;

use evaluation::{Setting, routes};
use placement::{Nesting, Policy};

/// Runs 40,000 prefixes and a switch of 1,000 entries, and returns the points of the packets that
/// it loses against the top 1,000 without regard to nesting.
fn lost(alpha: f64, policy: Policy, nesting: Nesting) -> f64 {
    let setting = Setting {
        flows: 40_000,
        alpha,
        policy,
        top: 1000,
        columns: 65_536,
        packets: 100_000,
    };
    let found = routes(&setting, nesting);
    found.exact - found.share
}

#[test]
fn covers_lose_few_packets() {
    for (alpha, policy) in [
        (0.8, Policy::Threshold),
        (0.9, Policy::Threshold),
        (0.99, Policy::Threshold),
        (0.9, Policy::Heap),
    ] {
        let lost = lost(alpha, policy, Nesting::Cover);
        assert!(lost < 5.0, "alpha {alpha}, {policy:?}: {lost} points");
    }
}

#[test]
fn leaves_and_dependents_lose_more_than_covers() {
    let cover = lost(0.9, Policy::Threshold, Nesting::Cover);
    for nesting in [Nesting::Leaf, Nesting::Dependents] {
        let lost = lost(0.9, Policy::Threshold, nesting);
        assert!(lost > cover, "{nesting:?}: {lost} points, cover {cover}");
    }
}

//! Shares of packets in the switch and numbers of reports for flows with exact keys.

mod evaluation;

use evaluation::{Figures, Setting, flows};
use placement::Policy;

/// Flows of all tests.
const FLOWS: usize = 10_000;

fn setting(alpha: f64, policy: Policy, top: u64, columns: u32) -> Setting {
    Setting {
        flows: FLOWS,
        alpha,
        policy,
        top,
        columns,
        packets: 100_000,
    }
}

/// Checks the policy `threshold` against the exact top N and the policy `heap`.
fn check(alpha: f64, top: u64, columns: u32) {
    let found = flows(&setting(alpha, Policy::Threshold, top, columns));
    let heap = flows(&setting(alpha, Policy::Heap, top, columns));
    let points = if alpha < 0.8 { 10.0 } else { 5.0 };
    let case = format!("alpha {alpha}, top {top}, {columns} columns: {found:?}, heap {heap:?}");
    assert!(found.share > found.exact - points, "{case}");
    assert!(found.reports < heap.reports * (1.0 - 0.567), "{case}");
    let (least, most) = found.candidates;
    let in_band = |candidates: u64| {
        let ratio = candidates as f64 / top as f64;
        (0.75..=1.5).contains(&ratio)
    };
    assert!(in_band(least) && in_band(most), "{case}");
}

#[test]
fn the_top_tenth_is_found_by_few_reports() {
    for alpha in [0.5, 0.8, 0.9, 0.99] {
        check(alpha, 1000, 10_000);
    }
}

#[test]
fn the_share_of_the_paper_is_found_by_few_reports() {
    for alpha in [0.5, 0.9, 0.99] {
        check(alpha, ((1.0 - alpha) * FLOWS as f64).round() as u64, 10_000);
    }
}

#[test]
fn a_small_sketch_costs_share_and_wide_ones_do_not() {
    let found = |columns| flows(&setting(0.9, Policy::Threshold, 1000, columns));
    let (small, wide): (Figures, Figures) = (found(1024), found(8192));
    assert!(small.first_reports > 7000, "{small:?}");
    assert!(small.share < wide.share - 5.0, "{small:?}, {wide:?}");
    assert!(wide.share > wide.exact - 5.0, "{wide:?}");
}

#[test]
fn random_entries_have_the_share_of_their_number() {
    let found = flows(&setting(0.5, Policy::Random, 1000, 1));
    assert!((7.0..13.0).contains(&found.share), "{found:?}");
    let none = flows(&setting(0.9, Policy::None, 1000, 1));
    assert_eq!((none.share, none.reports), (0.0, 0.0));
}

#[test]
fn a_placement_repeats_by_its_seed() {
    let run = |policy| format!("{:?}", flows(&setting(0.9, policy, 500, 4096)));
    for policy in Policy::ALL {
        assert_eq!(run(policy), run(policy));
    }
}

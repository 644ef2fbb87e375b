//! Prints the simulated figures of all policies, a row of JSON a line, beside the paper's values:
//! `cargo run --example placement_table -p placement`.
//!
//! Rows have the shares of figures 7 to 9 of CLIP, of which the plots have no numbers: `paper` is
//! what its text says.

#[path = "../tests/evaluation/mod.rs"]
mod evaluation;

use std::collections::BTreeSet;

use evaluation::{Figures, Setting, flows, routes};
use placement::{Nesting, Policy};

/// Exponents of the paper's figures, and the smallest bar.
const ALPHAS: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

fn main() {
    for alpha in ALPHAS {
        let paper = ((1.0 - alpha) * 10_000.0_f64).round() as u64;
        let mut cases: Vec<(Policy, u64, u32)> = Vec::new();
        for top in BTreeSet::from([1000, paper]) {
            cases.extend(Policy::ALL.map(|policy| (policy, top, 16_384)));
        }
        cases.extend([8192, 1024].map(|columns| (Policy::Threshold, 1000, columns)));
        for (policy, top, columns) in cases {
            let setting = Setting {
                flows: 10_000,
                alpha,
                policy,
                top,
                columns,
                packets: 200_000,
            };
            print(&setting, "exact", flows(&setting));
        }
    }
    for alpha in ALPHAS {
        for policy in [Policy::Random, Policy::Heap, Policy::Threshold] {
            for nesting in Nesting::ALL {
                let setting = Setting {
                    flows: 40_000,
                    alpha,
                    policy,
                    top: 1000,
                    columns: 65_536,
                    packets: 400_000,
                };
                print(&setting, nesting.name(), routes(&setting, nesting));
            }
        }
    }
}

fn print(setting: &Setting, keys: &str, found: Figures) {
    let flows = setting.flows as f64;
    let paper = match setting.policy {
        Policy::None => "all packets at servers",
        Policy::Random | Policy::Heap => "1 - alpha of the flows selected",
        Policy::Threshold => "56.7 to 99.2 % fewer reports than heap",
    };
    let (least, most) = found.candidates;
    println!(
        "{{\"keys\": \"{keys}\", \"policy\": \"{}\", \"alpha\": {}, \"flows\": {}, \"top\": {}, \
         \"sketch\": \"{}x2\", \"measured\": \"simulated\", \"share\": {:.1}, \
         \"exact_share\": {:.1}, \"first_reports\": {}, \"reports\": {:.0}, \
         \"fewer_percent\": {:.1}, \"min_candidates\": {least}, \"max_candidates\": {most}, \
         \"moves\": {:.0}, \"k\": {:.2}, \"paper\": \"{paper}\"}}",
        setting.policy.name(),
        setting.alpha,
        setting.flows,
        setting.top,
        setting.columns,
        found.share,
        found.exact,
        found.first_reports,
        found.reports,
        100.0 - found.reports / flows * 100.0,
        found.moves,
        found.k,
    );
}

//! Test that each attack of the isolation benchmark runs. The results depend on the machine and
//! are not checked.

use std::sync::Arc;
use std::time::Duration;

use bench::isolation::{Attack, IsolationTest};
use bench::tenants::ShardableWorkload;
use bench::workloads::{self, Size};
use ir::Program;
use packet::Nanos;
use tenancy::{EstimatedCost, Fairness};
use testkit::{compile_text, engines};

#[test]
fn each_attack_is_made_and_what_is_kept_is_a_share() {
    let workload = workloads::switch(Size::Small);
    let program = compile_text(&workload.steps()[0].text).unwrap();
    let compile = |text: &str| compile_text(text).map(|program| Program::clone(&program));
    for attack in Attack::ALL {
        let hostile = IsolationTest {
            workload: &workload,
            program: Arc::clone(&program),
            compile: &compile,
            engine: engines().remove(0),
            fairness: Fairness {
                interval: Nanos::from_millis(1),
                cycles_per_second: 1_000_000_000,
                quantum: Nanos::from_micros(2),
            },
            time: Duration::from_millis(50),
            rounds: 1,
            burst: 8,
            seed: 1,
        };
        let report = hostile.measure(attack, EstimatedCost::default());
        let report = report.unwrap_or_else(|error| panic!("{}: {error}", attack.name()));
        let shares = [report.alone, report.peer, report.hostile].map(|kept| kept.share);
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        assert!(shares.iter().all(is_share), "{}: {report:?}", attack.name());
    }
}

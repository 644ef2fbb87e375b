//! A cluster of the replicated log with replicas of crate `consensus` and RISC-V ones (`raft.elf`
//! on the model of the nanoPU), under faults from a seed.
//!
//! `POLYPLANE_MIXED_SEEDS` sets the number of seeds, and `POLYPLANE_MIXED_FIRST` the first one:
//! `cargo xtask nanopu --mixed-seeds 500`.

mod check;
mod client;
mod cut;
mod replica;
mod world;

use world::World;

/// Seeds that each run of the tests checks.
const SEEDS: u64 = 6;

/// Returns a number of the environment.
fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().expect("a number of seeds"))
}

#[test]
fn a_mixed_cluster_keeps_one_order_of_requests_under_faults_and_serves_clients_after_them() {
    let first = number("POLYPLANE_MIXED_FIRST", 0);
    let (mut of_riscv, mut of_rust, mut lost) = (0, 0, 0);
    let (mut wrapped, mut must_serve) = (0, 0);
    for seed in first..first + number("POLYPLANE_MIXED_SEEDS", SEEDS) {
        let mut world = World::new(seed);
        if let Err(mistake) = world.run() {
            panic!("seed {seed}: {mistake}");
        }
        let [riscv, rust] = world.leaders();
        of_riscv += riscv;
        of_rust += rust;
        lost += world.lost();
        wrapped += u64::from(world.has_wrapped());
        must_serve += u64::from(world.must_serve());
    }
    // The faults are there, and replicas of both kinds lead.
    assert!(of_riscv > 0 && of_rust > 0, "{of_riscv} {of_rust}");
    assert!(lost > 0);
    // Rings are overwritten, and few clusters lose their majority by it.
    assert!(wrapped > 0 && must_serve > 0, "{wrapped} {must_serve}");
}

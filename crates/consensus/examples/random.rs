//! Runs seeds of the simulation: `cargo run -p consensus --example random -- FIRST COUNT`.

#[path = "../src/sim/mod.rs"]
mod sim;

fn main() {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|arg| arg.parse()).collect();
    let (first, count) = match numbers.as_deref() {
        Ok([first, count]) => (*first, *count),
        Ok([]) => (0, 100),
        _ => {
            eprintln!("usage: random FIRST COUNT: two numbers, the first seed and how many");
            std::process::exit(2);
        }
    };
    let mut failures = 0;
    let mut all = sim::Report::default();
    for seed in first..first.saturating_add(count) {
        match sim::run(seed, sim::Variant::default()) {
            Ok(report) => all.add(&report),
            Err(error) => {
                println!("{error}");
                failures += 1;
            }
        }
    }
    println!("{count} seeds, {failures} failures: {all:#?}");
    if failures > 0 {
        std::process::exit(1);
    }
}

//! `random FIRST COUNT`: runs random reductions with faults, each named by its seed.

#[path = "../tests/random/mod.rs"]
mod random;

use random::{Case, Summary};

fn main() -> std::process::ExitCode {
    let numbers = std::env::args().skip(1).map(|word| word.parse());
    let numbers: Result<Vec<u64>, _> = numbers.collect();
    let Ok(&[first, count]) = numbers.as_deref() else {
        eprintln!("usage: random FIRST COUNT");
        return std::process::ExitCode::from(2);
    };
    let (mut all, mut wrong) = (Summary::default(), 0);
    for seed in first..first.saturating_add(count) {
        match Case::random(seed).check(seed) {
            Ok(summary) => all.add(&summary),
            Err(error) => {
                println!("seed {seed}: {error}");
                wrong += 1;
            }
        }
        if seed % 100 == 99 {
            println!("up to seed {seed}: {wrong} wrong; {all:?}");
        }
    }
    println!("{count} seeds, {wrong} wrong; {all:?}");
    std::process::ExitCode::from(u8::from(wrong > 0))
}

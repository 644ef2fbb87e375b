//! `explore LOSSES DUPLICATES RESTARTS RELOADS`: explores all schedules of a small reduction.

#[path = "../tests/schedules/mod.rs"]
mod explorer;

use explorer::{Faults, Small, explore};

fn main() -> std::process::ExitCode {
    let numbers = std::env::args().skip(1).map(|word| word.parse());
    let numbers: Result<Vec<u8>, _> = numbers.collect();
    let Ok(&[losses, duplicates, restarts, reloads]) = numbers.as_deref() else {
        eprintln!("usage: explore LOSSES DUPLICATES RESTARTS RELOADS");
        return std::process::ExitCode::from(2);
    };
    let report = explore(&Small {
        faults: Faults {
            losses,
            duplicates,
            restarts,
            reloads,
        },
        edit: |text| text,
        is_direct: true,
        most: u32::MAX as usize,
    });
    println!("{report}");
    let is_well = report.is_whole && report.problem.is_none();
    std::process::ExitCode::from(u8::from(!is_well))
}

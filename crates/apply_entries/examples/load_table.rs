//! Measures time and memory of reading an entries file and applying it to a device.
//!
//! `cargo run --release -p apply_entries --example load_table -- PROGRAM.p4 ENTRIES`
//!
//! Each step is a line: its time, the processor time of the process, and its resident memory now
//! and at most. Then follows a line for each table that has entries.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::read::{ReadError, TextParts, read_text};
use switch::{Device, DeviceConfig, Improved};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Maximum number of bytes of a file.
const LIMIT: u64 = 4 << 30;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(program), Some(entries)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: load_table PROGRAM.p4 ENTRIES");
        std::process::exit(2);
    };
    if let Err(error) = run(&program, &entries) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Reads both files and prints a line for each step.
fn run(program: &str, entries: &str) -> Result<(), String> {
    let unread = |file: &str, error: ReadError| format!("cannot read {file}: {error}");
    let source = read_text(Path::new(program), LIMIT).map_err(|error| unread(program, error))?;
    let compiled = driver::compile_text(program, &source)?;
    let mut text =
        TextParts::open(Path::new(entries), LIMIT).map_err(|error| unread(entries, error))?;
    let config = DeviceConfig::default();
    let mut device = Device::new(Arc::new(compiled), &interp::Interp, &config)
        .map_err(|error| error.to_string())?;
    let mut step = Step::start();
    step.done("program");
    let mut fault = None;
    let mut parts = || {
        text.next_part().unwrap_or_else(|error| {
            fault = Some(error);
            None
        })
    };
    let applied = apply_entries::apply_parts(&mut device, entries, &mut parts);
    if let Some(error) = fault {
        return Err(unread(entries, error));
    }
    applied.map_err(|error| format!("{error:?}"))?;
    step.done("entries");
    while device.improve(Duration::MAX) != Improved::NoMore {}
    step.done("indexes");
    device.publish();
    step.done("published");
    for (id, table) in device.configuration().tables.iter() {
        if !table.is_empty() {
            println!(
                "{}: {} entries, {} MB of index, {} MB of entries",
                device.program().tables[id].name,
                table.len(),
                table.index_memory() >> 20,
                table.record_memory() >> 20
            );
        }
    }
    Ok(())
}

/// A step of the measurement.
struct Step {
    begun: Instant,
    cpu: Duration,
}

impl Step {
    fn start() -> Step {
        Step {
            begun: Instant::now(),
            cpu: processor_time(),
        }
    }

    fn done(&mut self, name: &str) {
        let (now, peak) = resident();
        let cpu = processor_time();
        println!(
            "{name}: {:.2} s, {:.2} s of processor, {now} MB resident, {peak} MB at most",
            self.begun.elapsed().as_secs_f64(),
            (cpu - self.cpu).as_secs_f64()
        );
        *self = Step {
            begun: Instant::now(),
            cpu,
        };
    }
}

/// Returns the resident memory of this process now and at most, in MB; 0 on systems that do not
/// say.
fn resident() -> (u64, u64) {
    let status = read_text(Path::new("/proc/self/status"), LIMIT).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        number.unwrap_or(0) / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Returns the processor time of this process, in hundredths of a second; 0 on systems that do not
/// say.
fn processor_time() -> Duration {
    let stat = read_text(Path::new("/proc/self/stat"), LIMIT).unwrap_or_default();
    // The name of the process, in parentheses, may have blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

//! Runs the STF test of every program in the kernel, by test runs, where this machine allows it.
//! Every packet is as the other engines have it, or the program is refused when it is loaded.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use exec::{DropReason, Engine};
use packet::{Frame, Nanos, PortId};
use stf::{LoadRefusal, TestSetup};
use switch::{Change, Device, DeviceConfig, LoadError};
use xdp::XdpEngine;

/// Returns false, with a line, if this machine allows no programs in the kernel.
fn is_allowed(test: &str) -> bool {
    match xdp::permission() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {test}: {error}");
            false
        }
    }
}

/// Result of a program's test.
enum Tested {
    /// Refused when it was loaded.
    Refused(String),
    /// Packets that the kernel finished, and packets that left.
    Ran(u64, u64, Vec<String>),
}

fn run(path: &Path) -> Result<Tested, String> {
    let engine = XdpEngine::new(Arc::new(jit::Jit::new(Arc::new(interp::Interp))));
    if let Some(refused) = run_on(path, &engine)? {
        return match refused.contains("kernel:") {
            true => Err(format!("{}: {refused}", path.display())),
            false => Ok(Tested::Refused(refused)),
        };
    }
    let counts = engine.counts();
    Ok(Tested::Ran(
        counts.in_kernel.load(Relaxed),
        counts.left.load(Relaxed),
        counts.places().into_keys().collect(),
    ))
}

/// Runs the test of a program on an engine. Returns the construct that the engine refuses, if any.
fn run_on(path: &Path, engine: &dyn Engine) -> Result<Option<String>, String> {
    let program = testkit::compile(path)?;
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).map_err(|error| error.to_string())?;
    let directory = path.parent().ok_or("a file without a directory")?;
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let setup = TestSetup {
        program,
        engine,
        device: DeviceConfig::default(),
        read_file: &read_file,
    };
    let file = test.display().to_string();
    let report = match stf::run(&setup, &file, &text) {
        Ok(report) => report,
        Err(LoadRefusal::Load(LoadError::Unsupported(unsupported))) => {
            return Ok(Some(unsupported.construct));
        }
        Err(refused) => return Err(format!("{file}: {refused:?}")),
    };
    let failures = report.failures.iter();
    let failures: Vec<String> = failures
        .map(|f| format!("{file}:{}: {}", f.line, f.message))
        .collect();
    match failures.is_empty() {
        true => Ok(None),
        false => Err(failures.join("\n")),
    }
}

fn programs(directory: &str) -> Vec<PathBuf> {
    testkit::tested(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory))
}

/// Programs by what became of them.
#[derive(Default)]
struct Results {
    failures: Vec<String>,
    /// Programs of which the kernel finished all packets.
    whole: usize,
    /// Programs of which it finished none or some.
    partly: usize,
    refused: usize,
    failing_everywhere: usize,
}

/// Runs the tests of programs, and prints a line for each.
fn run_all(programs: Vec<PathBuf>) -> Results {
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let checked = worker.spawn(move || {
        let mut results = Results::default();
        for path in programs {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            match run(&path) {
                Ok(Tested::Refused(construct)) => {
                    println!("{name}: refused: {construct}");
                    results.refused += 1;
                }
                Ok(Tested::Ran(done, left, places)) => {
                    let places = places.join("; ");
                    println!("{name}: {done} in the kernel, {left} left {places}");
                    match left == 0 && done > 0 {
                        true => results.whole += 1,
                        false => results.partly += 1,
                    }
                }
                // A test that fails on every engine is no finding here.
                Err(failure) => match run_on(&path, &interp::Interp) {
                    Err(known) if known == failure => results.failing_everywhere += 1,
                    _ => results.failures.push(failure),
                },
            }
        }
        results
    });
    checked.expect("a thread starts").join().expect("no panic")
}

#[test]
fn every_packet_in_the_kernel_is_as_the_tests_say_or_leaves() {
    if !is_allowed("every_packet_in_the_kernel_is_as_the_tests_say_or_leaves") {
        return;
    }
    let all = [programs("programs"), programs("../examples")].concat();
    let results = run_all(all);
    let failures = &results.failures;
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert_eq!(results.failing_everywhere, 0);
    let whole = results.whole;
    assert!(
        whole >= 60,
        "only {whole} programs are wholly in the kernel"
    );
}

/// Runs the tests in a directory of p4c's samples, and prints what became of them.
#[test]
#[ignore = "needs p4c's programs, in the directory that P4C_SAMPLES names"]
fn tests_of_p4c_do_not_fail_in_the_kernel() {
    let directory = std::env::var("P4C_SAMPLES").expect("P4C_SAMPLES is set");
    let results = run_all(testkit::tested(Path::new(&directory)));
    println!(
        "{} wholly in the kernel, {} with packets that leave, {} refused, {} fail on every engine",
        results.whole, results.partly, results.refused, results.failing_everywhere
    );
    let failures = results.failures;
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Forwards a frame through the router. Returns the ports at which it is sent.
fn forward(device: &mut Device, number: u16) -> Vec<u32> {
    let mut frame = Frame::from_bytes(&testkit::routed_frame(64, number)).expect("it is short");
    frame.ingress = PortId(0);
    let mut ports = Vec::new();
    let now = Nanos::from_millis(number.into());
    device.forward(&mut [frame], now, |port, _, _| ports.push(port.0));
    ports
}

#[test]
fn changes_of_entries_hold_for_the_next_packet_and_keep_counts() {
    if !is_allowed("changes_of_entries_hold_for_the_next_packet_and_keep_counts") {
        return;
    }
    let engine = XdpEngine::new(Arc::new(jit::Jit::new(Arc::new(interp::Interp))));
    let counts = engine.counts();
    let mut device = testkit::router(&engine).expect("the router runs in the kernel");
    assert_eq!(forward(&mut device, 1), [1]);
    let table = |name: &str, device: &Device| {
        let mut tables = device.program().tables.iter();
        let found = tables.find(|(_, table)| table.name.ends_with(name));
        found.expect("the router has the table").0
    };
    let neighbours = table("neighbour", &device);
    let routes = table("ipv4_lpm", &device);
    let hits = |device: &Device| {
        let all = device.table_hits();
        let of = |id| {
            all.iter()
                .find(|hits| hits.table == id)
                .map(|hits| hits.hits)
        };
        (of(routes), of(neighbours))
    };
    assert_eq!(hits(&device), (Some(1), Some(1)));
    let cleared = device.apply(Change::Clear(neighbours));
    cleared.expect("the table can be cleared");
    assert_eq!(forward(&mut device, 2), [0u32; 0]);
    assert_eq!(hits(&device), (Some(2), Some(1)));
    assert_eq!(device.ledger().dropped(DropReason::Ingress), 1);
    device
        .check_conservation()
        .expect("all packets are accounted for");
    assert_eq!(counts.in_kernel.load(Relaxed), 2);
    assert_eq!(counts.left.load(Relaxed), 0);
}

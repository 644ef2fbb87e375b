//! Runs the STF test of every program in the kernel, by test runs, where this machine allows it.
//! Every packet is as the other engines have it, or the program is refused when it is loaded.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use stf::{LoadRefusal, TestSetup};
use switch::{DeviceConfig, LoadError};
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
    let program = testkit::compile(path)?;
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).map_err(|error| error.to_string())?;
    let directory = path.parent().ok_or("a file without a directory")?;
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let engine = XdpEngine::new(Arc::new(jit::Jit::new(Arc::new(interp::Interp))));
    let setup = TestSetup {
        program,
        engine: &engine,
        device: DeviceConfig::default(),
        read_file: &read_file,
    };
    let file = test.display().to_string();
    let report = match stf::run(&setup, &file, &text) {
        Ok(report) => report,
        Err(LoadRefusal::Load(LoadError::Unsupported(unsupported))) => {
            let refused = unsupported.construct.clone();
            return match refused.contains("kernel:") {
                true => Err(format!("{file}: {refused}")),
                false => Ok(Tested::Refused(refused)),
            };
        }
        Err(refused) => return Err(format!("{file}: {refused:?}")),
    };
    let failures = report.failures.iter();
    let failures: Vec<String> = failures
        .map(|f| format!("{file}:{}: {}", f.line, f.message))
        .collect();
    let counts = engine.counts();
    match failures.is_empty() {
        true => Ok(Tested::Ran(
            counts.in_kernel.load(Relaxed),
            counts.left.load(Relaxed),
            counts.places().into_keys().collect(),
        )),
        false => Err(failures.join("\n")),
    }
}

fn programs(directory: &str) -> Vec<PathBuf> {
    testkit::tested(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory))
}

#[test]
fn every_packet_in_the_kernel_is_as_the_tests_say_or_leaves() {
    if !is_allowed("every_packet_in_the_kernel_is_as_the_tests_say_or_leaves") {
        return;
    }
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let checked = worker.spawn(|| {
        let (mut failures, mut whole) = (Vec::new(), 0);
        for path in [programs("programs"), programs("../examples")].concat() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            match run(&path) {
                Ok(Tested::Refused(construct)) => println!("{name}: refused: {construct}"),
                Ok(Tested::Ran(done, left, places)) => {
                    let places = places.join("; ");
                    println!("{name}: {done} in the kernel, {left} left {places}");
                    whole += u32::from(left == 0 && done > 0);
                }
                Err(failure) => failures.push(failure),
            }
        }
        println!("{whole} wholly in the kernel");
        (failures, whole)
    });
    let (failures, whole) = checked.expect("a thread starts").join().expect("no panic");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(
        whole >= 20,
        "only {whole} programs are wholly in the kernel"
    );
}

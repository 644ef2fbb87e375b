//! `cargo xtask split-routes --routes N`: routes into one device, and into the coordinator of a
//! switch and two servers; time and memory of each process.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use generators::{Family, RoutingTable};
use serde_json::{Value, json};

use super::{Namespace, Process, SplitProcesses, binary};
use crate::Outcome;

/// Number of routes in a file: the client does not answer the server while it reads one.
const FILE_ROUTES: usize = 100_000;

/// Number of tenants that share the routes.
const TENANTS: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of routes.
    #[arg(long, default_value_t = 900_000)]
    routes: usize,
    /// A binary to run (default: this repository's, which is built).
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Time and memory of one device or of several.
struct Loaded {
    /// Seconds until the last write was answered.
    seconds: f64,
    processes: Vec<Measured>,
}

struct Measured {
    name: String,
    /// Resident memory before and after, and its maximum, in KiB.
    empty: u64,
    resident: u64,
    highest: u64,
    /// Processor time in seconds.
    processor: f64,
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let binary = binary(options.binary.as_ref())?;
    let program = root.join("examples/split/fib.p4").display().to_string();
    let directory = std::env::temp_dir().join(format!("polyplane-routes-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let measured =
        files(options.routes, &directory).and_then(|files| measure(&binary, &program, &files));
    // A folder that is left does no harm.
    let _ = std::fs::remove_dir_all(&directory);
    let (one, split) = measured?;
    match options.json {
        true => print_json(options.routes, &one, &split),
        false => print(options.routes, &one, &split),
    }
    Ok(())
}

/// Writes the routes as entries files. Returns their paths.
fn files(count: usize, directory: &Path) -> Result<Vec<String>, String> {
    let table = RoutingTable::generate(Family::V4, count, 1);
    let mut files = Vec::new();
    for (part, routes) in table.routes().chunks(FILE_ROUTES).enumerate() {
        let mut text = String::new();
        for (at, route) in routes.iter().enumerate() {
            let [a, b, c, d] = (route.address as u32).to_be_bytes();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "fib {{ hdr.vxlan.vni: {}; hdr.inner_ipv4.dst: {a}.{b}.{c}.{d}/{}; }} -> \
                 set_next_hop(id: {})",
                1 + at % TENANTS,
                route.len,
                at % 60_000
            );
        }
        let file = directory.join(format!("{part}.entries"));
        let file = file.display().to_string();
        std::fs::write(&file, text).map_err(|error| format!("cannot write {file}: {error}"))?;
        files.push(file);
    }
    Ok(files)
}

fn measure(binary: &Path, program: &str, files: &[String]) -> Result<(Loaded, Loaded), String> {
    let namespace = Namespace::new(binary)?;
    let one = {
        let run = namespace.start("run", &["run", program, "--port", "0=tap:run0"])?;
        load(&namespace, files, &run, &[&run])?
    };
    let ports: Vec<String> = (0..4)
        .map(|port| format!("{port}=tap:port{port}"))
        .collect();
    let links = ["0=tap:server1".to_owned(), "0=tap:server2".to_owned()];
    let split = SplitProcesses::start(&namespace, program, (&ports, &links), &[])?;
    let all: Vec<&Process> = split.all().collect();
    let split = load(&namespace, files, &split.control, &all)?;
    Ok((one, split))
}

fn load(
    namespace: &Namespace<'_>,
    files: &[String],
    to: &Process,
    all: &[&Process],
) -> Result<Loaded, String> {
    let empty: Vec<u64> = all.iter().map(|process| process.memory().0).collect();
    let mut seconds = 0.0;
    for file in files {
        let applied = namespace.json(&["ctl", "apply", file, "--addr", &to.address])?;
        seconds += applied["seconds"].as_f64().ok_or("ctl printed no time")?;
    }
    let measured = all.iter().zip(empty).map(|(process, empty)| {
        let (resident, highest) = process.memory();
        Measured {
            name: process.name.clone(),
            empty,
            resident,
            highest,
            processor: process.processor_seconds(),
        }
    });
    Ok(Loaded {
        seconds,
        processes: measured.collect(),
    })
}

fn print(routes: usize, one: &Loaded, split: &Loaded) {
    let of_run = one.processes.first().map_or(0, |run| run.resident).max(1);
    println!(
        "{routes} routes: one device {:.2} s, coordinator with planes {:.2} s, ratio {:.2}",
        one.seconds,
        split.seconds,
        split.seconds / one.seconds
    );
    for process in one.processes.iter().chain(&split.processes) {
        println!(
            "{:9} {:5} MB resident (empty {}, highest {}), {:.2} of run, {:.2} s of a core",
            process.name,
            process.resident / 1024,
            process.empty / 1024,
            process.highest / 1024,
            process.resident as f64 / of_run as f64,
            process.processor
        );
    }
}

fn print_json(routes: usize, one: &Loaded, split: &Loaded) {
    let processes = |loaded: &Loaded| {
        let processes = loaded.processes.iter().map(|process| {
            json!({
                "name": process.name,
                "empty_kib": process.empty,
                "resident_kib": process.resident,
                "highest_kib": process.highest,
                "processor_seconds": process.processor,
            })
        });
        json!({ "seconds": loaded.seconds, "processes": processes.collect::<Vec<Value>>() })
    };
    println!(
        "{}",
        json!({
            "routes": routes,
            "one": processes(one),
            "split": processes(split),
            "ratio": split.seconds / one.seconds,
        })
    );
}

//! Developers' commands: `cargo xtask tidy`, `test`, `corpus`, `fuzz`, `isolation`, `scale`,
//! `aggregate`, `bmv2`, `browser`, `consensus`, `kernel`, `nanopu`, `package`, `placement-peer`,
//! `pof-clients`, `reflex-elections`, `reflex-linear`, `reflex-peers`, `reflex-soak`,
//! `split-programs`, `split-routes`, `figures`, `soak`, `sanitize`, `p4runtime-clients`,
//! `tutorials`. Each does its own set-up.

mod aggregate;
#[cfg(target_os = "linux")]
mod bmv2;
mod browser;
#[cfg(target_os = "linux")]
mod cables;
mod clients;
mod consensus;
mod corpus;
mod elections;
mod figures;
mod fuzz;
mod kernel;
mod limited;
mod nanopu;
mod package;
mod placement_peer;
#[cfg(target_os = "linux")]
mod pof_clients;
mod sanitize;
mod scale;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod split;
mod split_programs;
mod tidy;
#[cfg(target_os = "linux")]
mod tutorials;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// Result of a command, with the error as text.
type Outcome = Result<(), String>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Polyplane repository")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the source tree: crate graph, licences, file headers and sizes, places of `unsafe` and
    /// of file access, language of comments and docs, names.
    Tidy,
    /// Run all tests: unit, property and data-driven tests of all crates, examples, short fuzz
    /// runs.
    Test(TestOptions),
    /// Run p4c's corpora (positive, negative, STF) from a copy outside the repository and print a
    /// table.
    Corpus(corpus::Options),
    /// Run controllers (p4runtime-shell and finsy from PyPI, a Go client) against the server. One
    /// that cannot be installed is skipped.
    P4runtimeClients,
    /// Try the page of `polyplane studio` in Chromium, and compare its built files with a fresh
    /// build. Needs Node and Chromium.
    Browser(browser::Options),
    /// Run a fuzz target for some time.
    Fuzz(fuzz::Options),
    /// Send a million frames of hostile programs through each kind of port sharing of virtual data
    /// planes, and compare transmitted frames with a model of the receiver.
    Isolation,
    /// Run the tests that reach `unsafe` code under Miri or AddressSanitizer, with a nightly
    /// compiler.
    Sanitize(sanitize::Options),
    /// Measure the time and memory of compilations as programs grow, construct by construct.
    Scale(scale::Options),
    /// Send random packets and changes of entries through split programs, and compare with one
    /// device.
    SplitPrograms(split_programs::Options),
    /// Send random floats through P4 and C, and compare with the same C code alone.
    Floats(split_programs::FloatOptions),
    /// Run random reductions in simulated fabrics with faults, and compare with plain maps.
    Aggregate(aggregate::Options),
    /// Simulate clusters of the replicated log with faults, or explore all states of a small one.
    Consensus(consensus::Options),
    /// Judge histories of simulated clusters by our checker and by porcupine, and corrupted ones.
    /// Skipped where Go or its module cannot be had.
    ReflexLinear(consensus::LinearOptions),
    /// Measure committed writes of the replicated log and of raft-rs by turns. Skipped where
    /// raft-rs cannot be built: it needs `protoc`.
    ReflexPeers(consensus::PeerOptions),
    /// Run schedules of elections in the replicated log and in raft-rs: where raft-rs gets a
    /// leader, so do we. Skipped where raft-rs cannot be built: it needs `protoc`.
    ReflexElections(elections::Options),
    /// Kill and stop real members of a store under load, and fill their disks: no acknowledged
    /// write is lost, and histories are linearizable.
    ReflexSoak(consensus::SoakOptions),
    /// Run emitted programs of reductions on BMv2, and compare its frames with those of both
    /// engines. Needs root for network namespaces, and p4c and BMv2; without them it is skipped.
    #[cfg(target_os = "linux")]
    Bmv2(bmv2::Options),
    /// Run the offload by TC flower in a guest with Debian's kernel and a test NIC. Skipped where
    /// the packages of the kernel and QEMU cannot be had.
    Kernel(kernel::Options),
    /// Check the model of the nanoPU: images against their sources, riscv-tests, random programs
    /// against `qemu-riscv64`. What cannot be had is skipped.
    Nanopu(nanopu::Options),
    /// Make the Debian package and check it, with `--root` in a clean Debian root.
    Package(package::Options),
    /// Send frames to POFSwitch and to our POF switch with the same random lists, and compare.
    /// Needs root for network namespaces, git and gcc; without them it is skipped.
    #[cfg(target_os = "linux")]
    PofClients(pof_clients::Options),
    /// Compare placements of flows with those of HiGHS, a solver of linear programs. Skipped where
    /// Python has no `highspy`.
    PlacementPeer(placement_peer::Options),
    /// Write routes to one device, and to the coordinator of a switch and two servers. Prints times
    /// and the memory of each process. Needs root for network namespaces.
    #[cfg(target_os = "linux")]
    SplitRoutes(split::RouteOptions),
    /// Fill the tables of docs/results from what `polyplane bench --json` wrote.
    Figures(figures::Options),
    /// Run the switch under sustained overload. It must drop with counted reasons, never stall and
    /// never grow. Needs root for AF_XDP.
    #[cfg(target_os = "linux")]
    Soak(soak::Options),
    /// Run the exercises of the P4 tutorials from a copy of p4lang/tutorials, with their own files
    /// and scripts, and compare with their READMEs. Needs root for network namespaces.
    #[cfg(target_os = "linux")]
    Tutorials(tutorials::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Tidy => tidy::run(&root()),
        Task::Test(options) => test(&options),
        Task::Corpus(options) => corpus::run(&options),
        Task::P4runtimeClients => clients::run(&root()),
        Task::Browser(options) => browser::run(&root(), &options),
        Task::Fuzz(options) => fuzz::run(&root(), &options),
        Task::Isolation => isolation(),
        Task::Sanitize(options) => sanitize::run(&root(), &options),
        Task::Scale(options) => scale::run(&options),
        Task::SplitPrograms(options) => split_programs::run(&options),
        Task::Floats(options) => split_programs::run_floats(&options),
        Task::Aggregate(options) => aggregate::run(&options),
        Task::Consensus(options) => consensus::run(&options),
        Task::ReflexPeers(options) => consensus::run_peers(&root(), &options),
        Task::ReflexElections(options) => elections::run(&root(), &options),
        Task::ReflexSoak(options) => consensus::run_soak(&options),
        Task::ReflexLinear(options) => consensus::run_linear(&root(), &options),
        Task::Kernel(options) => kernel::run(&root(), &options),
        Task::Nanopu(options) => nanopu::run(&root(), &options),
        Task::Package(options) => package::run(&options),
        Task::PlacementPeer(options) => placement_peer::run(&root(), &options),
        #[cfg(target_os = "linux")]
        Task::PofClients(options) => pof_clients::run(&root(), &options),
        #[cfg(target_os = "linux")]
        Task::Bmv2(options) => bmv2::run(&options),
        #[cfg(target_os = "linux")]
        Task::SplitRoutes(options) => split::run_routes(&root(), &options),
        Task::Figures(options) => figures::run(&root(), &options),
        #[cfg(target_os = "linux")]
        Task::Soak(options) => soak::run(&root(), &options),
        #[cfg(target_os = "linux")]
        Task::Tutorials(options) => tutorials::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder.
fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR");
    root().join(chosen.unwrap_or_else(|| "target".into()))
}

/// Runs `cargo` with these arguments at the root.
fn cargo(words: &[&str]) -> Outcome {
    let status = Command::new(env!("CARGO"))
        .args(words)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cargo {} failed", words.join(" ")))
    }
}

/// Number of frames for each kind of sharing in each direction.
const ISOLATION_FRAMES: &str = "1000000";

fn isolation() -> Outcome {
    let words = ["test", "--release", "-p", "tenancy", "--test", "isolation"];
    let status = Command::new(env!("CARGO"))
        .args(words)
        .env("POLYPLANE_ISOLATION_FRAMES", ISOLATION_FRAMES)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err("a frame is another vPDP's, or is not what the model says".to_owned()),
    }
}

fn test(options: &TestOptions) -> Outcome {
    let mut words = vec!["test", "--workspace", "--quiet"];
    if options.without_interfaces {
        println!("the tests of crates `bench`, `cli` and `port`, and of clients, are left out");
        words.extend([
            "--exclude",
            "bench",
            "--exclude",
            "cli",
            "--exclude",
            "port",
        ]);
        return cargo(&words);
    }
    cargo(&words)?;
    clients::run(&root())
}

#[derive(clap::Args)]
struct TestOptions {
    /// Leave out the crates with tests that make network interfaces, and the clients: for a kernel
    /// on which such a request never ends. Where it is refused, the tests skip themselves.
    #[arg(long)]
    without_interfaces: bool,
}

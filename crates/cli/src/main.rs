//! Crate `cli`: the command `polyplane`. Wires the crates together and injects the engines and
//! the compiler. Switches run in `runtime`.
//!
//! **In:** command lines. **Out:** text for people, JSON for programs, exit status 0 (done), 1
//! (errors in the input), 2 (wrong usage), 78 (errors in a file of options).
//!
//! Each subcommand is a module with its `Options` and a `run` function. Tests: `tests/`, which
//! run the built binary as a new user would.

mod address;
mod aggregate;
mod artefacts;
mod capture;
mod cells;
mod check;
mod completions;
mod config;
mod configure;
mod control;
mod ctl;
mod demo;
mod diff;
mod drawing;
mod fabric;
mod host;
mod http;
mod hypervisor;
mod kernel_part;
mod listen;
mod nanopu;
mod offload;
mod pof;
mod reflex;
mod replay;
mod run;
mod serve;
mod service;
mod show;
mod split;
mod stage_slot;
mod state;
mod studio;
mod tenant;
mod test;
mod thread_memory;
mod trace;
mod veth;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use command::{Ended, args, captures, compile, engine, handlers};
use config::ConfigFile;
use runtime::ProcessSetup;
use support::amount;
use terminal::{live, log, out};

/// Stack size of the main thread's work, which may compile programs.
const STACK_BYTES: usize = runtime::COMPILER_STACK_BYTES;

#[derive(Parser)]
#[command(
    name = "polyplane",
    version,
    about = "Compiles P4_16 programs and runs them",
    after_help = "First steps:\n  polyplane demo                                     a router between two Linux hosts\n  polyplane check examples/router/router.p4          what is wrong with a program\n  polyplane test examples/router/router.p4 examples/router/router.stf\n  polyplane trace examples/router/router.p4 --packet HEX   what happens to one packet"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report the errors and warnings of a program.
    Check(check::Options),
    /// Print the pipeline IR that a program compiles to.
    Ir(show::IrOptions),
    /// Print a program's P4Info as protobuf text.
    P4info(show::P4infoOptions),
    /// Write the files that a P4Runtime controller sends: P4Info and device config.
    Compile(artefacts::Options),
    /// Show how tables, counters and all other state are migrated when another program replaces
    /// the running one.
    Diff(diff::Options),
    /// Write a program on a web page, send packets through it, and see each step.
    Studio(studio::Options),
    /// Run a test: packets in, packets expected (p4c's STF).
    Test(test::Options),
    /// Show what happens to one packet, step by step.
    Trace(trace::Options),
    /// Send captures through a program: a capture a port in, a capture a port out.
    Replay(replay::Options),
    /// Run a program as a switch on network interfaces.
    Run(run::Options),
    /// Run a switch on network interfaces that gets its program from a controller, by P4Runtime.
    Serve(serve::Options),
    /// Run a switch on network interfaces that hosts virtual data planes: many programs, each
    /// with its own controllers.
    Host(host::Options),
    /// Create, change and show the virtual data planes of a switch that hosts some.
    Tenant(tenant::Options),
    /// Control a switch, or any P4Runtime server: tables, entries, counters, digests, packets,
    /// programs.
    Ctl(ctl::Options),
    /// Run a switch on network interfaces with tables and flows of fields at offsets, which
    /// controllers make (POF); or be such a controller.
    Pof(pof::Options),
    /// Find the flows that a NIC can have, as rules of TC flower; show those of a running switch.
    Offload(offload::Options),
    /// Host functions on a switch with a fixed program: a P4 program that runs others, which are
    /// its entries.
    Hypervisor(hypervisor::Options),
    /// Show what a switch has kept in a directory (`--state`), and check it.
    State(state::Options),
    /// Measure how fast engines run a program, against the same loop written by hand.
    #[cfg(feature = "lab")]
    Bench(lab::bench::BenchOptions),
    /// Work with programs over a switch and servers: P4 with handlers in C.
    Split(split::Options),
    /// Watch the example router forward real traffic between two Linux hosts.
    Demo(demo::Options),
    /// Run many switches, hosts and links of a topology: simulated, or as network namespaces.
    Fabric(fabric::Options),
    /// Reduce key-value pairs in switches on their way to a reducer (MapReduce), exactly.
    Aggregate(aggregate::Options),
    /// Change switches by what telemetry reports say: loops that classify, detect, decide and
    /// replicate in microseconds.
    Reflex(reflex::Options),
    /// Run RISC-V programs on a timed model of the nanoPU, a processor with a network interface in
    /// its registers.
    Nanopu(nanopu::Options),
    /// Measure figures of papers, and compare them with the papers' own.
    #[cfg(feature = "lab")]
    Experiment(lab::experiment::ExperimentOptions),
    /// Check files of options for `--config`, or start a switch by one.
    Config(config::Options),
    /// Print the completion script of a shell for this command.
    Completions(completions::Options),
}

/// The allocator places objects of one size side by side, and on huge pages. With 256 virtual
/// data planes a packet takes a tenth fewer cycles than with the system's allocator
/// (docs/explanation/tenancy.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit status of a switch that has wrong options in a file, or is started with `--config` and has
/// errors in the files that its options name: `EX_CONFIG` of sysexits.h.
const MISCONFIGURED: u8 = 78;

/// A command line that was parsed.
struct Parsed {
    cli: Cli,
    /// True if options come from a file.
    has_file: bool,
}

/// Parses a command line with the options of the file that it names. Shows errors, and returns the
/// exit status if there are any.
fn parse(words: &[OsString]) -> Result<Parsed, ExitCode> {
    let command = Cli::command();
    let named = config::named_file(words);
    let file = named.map(|(name, file)| ConfigFile::read(&command, &file, Some(name)));
    let file = file.transpose().map_err(|error| misconfigured(&error))?;
    let whole = match &file {
        Some(file) => file.insert_into(&command, words),
        None => words.to_vec(),
    };
    let matches = command.try_get_matches_from(&whole);
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let error = match (parsed, file) {
        (Ok(cli), file) => {
            let has_file = file.is_some();
            return Ok(Parsed { cli, has_file });
        }
        (Err(error), Some(file)) if error.use_stderr() => {
            return Err(misconfigured(&file.place(&error)));
        }
        (Err(error), _) => error,
    };
    let _ = error.print();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(setting) = torn_setting(words)
    {
        out::note(&format!("hint: did you mean `{setting}`?"));
    }
    let status = u8::try_from(error.exit_code()).unwrap_or(2);
    Err(ExitCode::from(status))
}

fn misconfigured(error: &str) -> ExitCode {
    out::error(error);
    ExitCode::from(MISCONFIGURED)
}

/// Parses the command line that a file of options stands for.
fn parse_file(path: &Path) -> Result<Parsed, ExitCode> {
    let command = Cli::command();
    let file = ConfigFile::read(&command, path, None);
    let file = file.map_err(|error| misconfigured(&error))?;
    let name = file.command().map_err(|error| misconfigured(&error))?;
    let words = ["polyplane", name, "--config"].map(OsString::from);
    let words: Vec<OsString> = words.into_iter().chain([path.into()]).collect();
    parse(&words)
}

/// Checks a file of options, and the files that it names.
fn check_file(path: &Path) -> Result<ExitCode, ExitCode> {
    let checked = match parse_file(path)?.cli.command {
        Command::Run(options) => run::check(&options),
        Command::Serve(options) => serve::check(&options),
        Command::Host(options) => host::check(&options),
        _ => Ok(()),
    };
    checked.map_err(|error| misconfigured(&error))?;
    out::line(&format!("{}: no errors", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    support::work::set_memory_probe(thread_memory::thread_bytes);
    let words: Vec<OsString> = std::env::args_os().collect();
    let parsed = match parse(&words) {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    let parsed = match parsed.cli.command {
        Command::Config(config::Options {
            action: config::Action::Check(asked),
        }) => {
            // Programs are compiled.
            let checked = std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || check_file(&asked.file));
            return match checked.map(std::thread::JoinHandle::join) {
                Ok(Ok(Ok(status) | Err(status))) => status,
                Ok(Err(_)) => ExitCode::from(101),
                Err(_) => ExitCode::FAILURE,
            };
        }
        Command::Config(config::Options {
            action: config::Action::Start(asked),
        }) => parse_file(&asked.file),
        _ => Ok(parsed),
    };
    let Parsed { cli, has_file } = match parsed {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    let early = match prepare(&cli.command) {
        Ok(early) => early,
        Err(message) => {
            out::error(&message);
            return ExitCode::from(1);
        }
    };
    if let Some(guard) = early.guard() {
        // If no thread can be started, the command itself still takes signals.
        let _ = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Ok(signal) = guard.wait() {
                    out::error(&format!("interrupted by {signal}"));
                    std::process::exit(1);
                }
            });
    }
    let worker = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || dispatch(cli.command, early));
    let ended = match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) => return ExitCode::from(101),
        Err(error) => Err(format!("cannot start a thread: {error}")),
    };
    match ended {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Misconfigured) if has_file => ExitCode::from(MISCONFIGURED),
        Ok(Ended::WithErrors | Ended::Misconfigured) => ExitCode::from(1),
        Err(message) => {
            out::error(&message);
            ExitCode::from(1)
        }
    }
}

/// Returns the `NAME=VALUE` that a command line has in two words after an option, as in
/// `--quota entries 10`, if the command line is right with it.
fn torn_setting(words: &[OsString]) -> Option<String> {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str());
    (2..words.len()).find_map(|at| {
        let (option, name, value) = (text(at - 1)?, text(at)?, text(at + 1)?);
        let is_torn = option.starts_with("--")
            && !option.contains('=')
            && !name.contains('=')
            && ![name, value].iter().any(|word| word.starts_with('-'));
        if !is_torn {
            return None;
        }
        let setting = format!("{name}={value}");
        let mut joined = words.to_vec();
        joined.splice(at..at + 2, [OsString::from(&setting)]);
        let is_right = Cli::command().try_get_matches_from(joined).is_ok();
        is_right.then_some(setting)
    })
}

/// Does the setup of a command that requires a single thread.
fn prepare(command: &Command) -> Result<ProcessSetup, String> {
    match command {
        Command::Demo(options) if options.wants_hosts() => Ok(ProcessSetup::go_private()?),
        Command::Split(options) if options.wants_hosts() => Ok(ProcessSetup::go_private()?),
        Command::Demo(_)
        | Command::Run(_)
        | Command::Serve(_)
        | Command::Host(_)
        | Command::Replay(_)
        | Command::Offload(_)
        | Command::Split(_)
        | Command::Aggregate(_)
        | Command::Reflex(_)
        | Command::Studio(_)
        | Command::Fabric(_) => Ok(ProcessSetup::catch_signals()?),
        Command::Nanopu(options) if options.runs_topology() => Ok(ProcessSetup::catch_signals()?),
        #[cfg(feature = "lab")]
        Command::Experiment(_) => Ok(ProcessSetup::catch_signals()?),
        Command::Pof(options) if options.follows() => Ok(ProcessSetup::catch_signals()?),
        Command::Ctl(options) if options.follows() => Ok(ProcessSetup::catch_signals()?),
        _ => Ok(ProcessSetup::default()),
    }
}

fn dispatch(command: Command, early: ProcessSetup) -> Result<Ended, String> {
    match command {
        Command::Check(options) => check::run(&options),
        Command::Ir(options) => show::ir(&options),
        Command::P4info(options) => show::p4info(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Studio(options) => studio::run(&options, &early),
        Command::Test(options) => test::run(&options),
        Command::Trace(options) => trace::run(&options),
        Command::Replay(options) => replay::run(&options, &early),
        Command::Run(options) => run::run(&options, &early),
        Command::Serve(options) => serve::run(&options, &early),
        Command::Host(options) => host::run(&options, &early),
        Command::Tenant(options) => tenant::run(&options),
        Command::Pof(options) => pof::run(&options, &early),
        Command::Offload(options) => offload::run(&options, &early),
        Command::Hypervisor(options) => hypervisor::run(&options),
        Command::State(options) => state::run(&options),
        #[cfg(feature = "lab")]
        Command::Bench(options) => lab::bench::run(&options),
        Command::Split(options) => split::run(&options, &early),
        Command::Demo(options) => demo::run(&options, &early),
        Command::Compile(options) => artefacts::run(&options),
        Command::Ctl(options) => ctl::run(&options, &early),
        Command::Fabric(options) => fabric::run(&options, &early),
        Command::Aggregate(options) => aggregate::run(&options, &early),
        Command::Reflex(options) => reflex::run(&options, &early),
        Command::Nanopu(options) => nanopu::run(&options, &early),
        #[cfg(feature = "lab")]
        Command::Experiment(options) => lab::experiment::run(&options, &|| early.take_signal()),
        Command::Completions(options) => completions::run(&options),
        // `main` has parsed the command that its file is for.
        Command::Config(_) => Ok(Ended::Well),
    }
}

//! `polyplane split`: programs over a switch and servers, in P4 with C.

mod build;
mod control;
mod demo;
mod emit;
mod operator;
mod placement;
mod plane;
mod server_code;
mod show;
mod test;

use std::path::Path;

use clap::{Args, Subcommand};
use command::handlers::{self, Handlers};
use passes::split::{REQUEST_TYPE, RESPONSE_TYPE, SplitOptions, SplitProgram, split};
use runtime::ProcessSetup;

use crate::args::Source;
use crate::{Ended, compile, out};

#[derive(Args)]
#[command(
    after_help = "The program runs on one device by the other commands: `check`, `test`, `trace`, `replay` and `run` compile its C code with the system's C compiler (CC)."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Print `clip.h`: the C side of the program's handlers and mirrored tables.
    Header {
        #[command(flatten)]
        source: Source,
    },
    /// Show where the program is cut, what travels between switch and servers, and which half has
    /// each table.
    Show(show::Options),
    /// Write the switch half as P4_16 text for a switch that is not ours, with its P4Info, the
    /// layout of frames, `clip.h` and the C code.
    Emit(emit::Options),
    /// Write both halves, compiled, into a directory from which the processes start.
    Build(build::Options),
    /// Run an STF test of the program over a switch and servers in this process. All that it
    /// expects from one device must come out.
    Test(test::Options),
    /// Run the switch half on real interfaces.
    Switch(plane::SwitchPlane),
    /// Run the server half on real interfaces.
    Server(plane::ServerPlane),
    /// Coordinate a switch and servers, and serve controllers with one device that runs the whole
    /// program.
    Control(control::Options),
    /// Show the source NAT over a switch and servers between two hosts, with real traffic, while a
    /// server joins and one leaves.
    Demo(demo::Options),
    /// Show the planes, the group of servers and the placement of a running coordinator.
    Status(operator::Status),
    /// Let a server join the group, under traffic.
    Join(operator::Join),
    /// Let a server leave the group, under traffic. Its flows stay with it until they end.
    Leave(operator::Leave),
    /// Let all servers run the C code that their files have now, under traffic.
    Reload(operator::Reload),
    /// Change the placement of entries and the order of packets, under traffic.
    Policy(operator::Policy),
}

impl Options {
    /// Returns true if the command needs namespaces of its own.
    pub(crate) fn wants_hosts(&self) -> bool {
        matches!(&self.task, Task::Demo(demo) if demo.wants_hosts())
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.task {
        Task::Header { source } => {
            let Some(program) = compile::compile(source) else {
                return Ok(Ended::WithErrors);
            };
            out::text(&foreign::header(&program));
            Ok(Ended::Well)
        }
        Task::Show(options) => show::run(options),
        Task::Emit(options) => emit::run(options),
        Task::Build(options) => build::run(options),
        Task::Test(options) => test::run(options),
        Task::Switch(options) => options.run(early),
        Task::Server(options) => options.run(early),
        Task::Control(options) => options.run(early),
        Task::Demo(demo) => demo.run(early),
        Task::Status(status) => status.run(),
        Task::Join(join) => join.run(early),
        Task::Leave(leave) => leave.run(early),
        Task::Reload(reload) => reload.run(early),
        Task::Policy(policy) => policy.run(),
    }
}

/// Options of a split.
#[derive(Args)]
struct Cut {
    /// EtherType of frames to servers.
    #[arg(long, value_name = "TYPE", value_parser = ether_type, default_value_t = REQUEST_TYPE)]
    request_type: u16,
    /// EtherType of frames from servers.
    #[arg(long, value_name = "TYPE", value_parser = ether_type, default_value_t = RESPONSE_TYPE)]
    response_type: u16,
    /// Budget of the switch for the values of a packet, such as `200B`. If they do not fit, servers
    /// compute those that are needed only after the cuts.
    #[arg(long, value_name = "BYTES", value_parser = phv_bits)]
    phv: Option<u64>,
}

/// Reads a budget. Returns it in bits.
fn phv_bits(text: &str) -> Result<u64, String> {
    let digits = text.strip_suffix('B').map(str::trim_end);
    let bytes = digits.and_then(|digits| digits.parse::<u32>().ok());
    match bytes {
        Some(bytes) if bytes > 0 => Ok(u64::from(bytes) * 8),
        _ => Err("write a number of bytes, such as 200B".to_owned()),
    }
}

fn ether_type(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    // Smaller numbers are lengths (IEEE 802.3).
    match number {
        Ok(number) if number >= 0x600 => Ok(number),
        _ => Err("an EtherType is a number from 0x600 to 0xffff".to_owned()),
    }
}

impl Cut {
    fn options(&self) -> SplitOptions {
        SplitOptions {
            request_type: self.request_type,
            response_type: self.response_type,
            phv_bits: self.phv,
            ..SplitOptions::default()
        }
    }
}

/// A program, split, with its handlers.
struct Prepared {
    program: SplitProgram,
    handlers: Handlers,
}

/// Compiles and splits a program, or reads a directory of `split build`. Shows errors, and returns
/// `None` if there are any. `with_c` also compiles its handlers.
fn prepare(
    source: &Source,
    options: &SplitOptions,
    with_c: bool,
) -> Result<Option<Prepared>, String> {
    if source.program.is_dir() {
        return build::read(source, options, with_c).map(Some);
    }
    let Some((program, blocks)) = split_source(source, options)? else {
        return Ok(None);
    };
    for warning in &program.plan.phv.warnings {
        out::note(warning);
    }
    if !with_c {
        let handlers = Handlers::default();
        return Ok(Some(Prepared { program, handlers }));
    }
    let texts = handlers::texts(blocks, source.c_file.as_deref())?;
    let handlers = handlers::compile(&program.whole, &texts);
    Ok(handlers.map(|handlers| Prepared { program, handlers }))
}

/// Compiles and splits a program. Shows errors, and returns `None` if there are any. The C code is
/// as written.
fn split_source(
    source: &Source,
    options: &SplitOptions,
) -> Result<Option<(SplitProgram, Vec<driver::ForeignBlock>)>, String> {
    if source.is_chain() {
        return Err("a chain of programs cannot be split: split its programs".to_owned());
    }
    let Some((program, blocks)) = compile::compile_with_foreign(source) else {
        return Ok(None);
    };
    match split(&program, options) {
        Ok(program) => Ok(Some((program, blocks))),
        Err(error) => {
            out::note(&error.to_string());
            Ok(None)
        }
    }
}

/// Adds the entries of a file to the whole tables. Shows its errors, and returns true if there are
/// none.
fn add_entries(
    coordinator: &mut ::split::Coordinator,
    entries: Option<&Path>,
) -> Result<bool, String> {
    match entries {
        Some(path) => command::configure::add_file(coordinator.whole_mut(), path),
        None => Ok(true),
    }
}

//! `polyplane ir` and `polyplane p4info`: print the compiled forms of a program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use interp::Interp;
use switch::{Device, DeviceConfig};

use crate::args::Source;
use crate::pof::program as pof_program;
use crate::{Ended, artefacts, compile, configure, out};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  polyplane ir my.p4\n  polyplane ir my.p4 --p4                 the program as P4_16 text for v1model\n  \
                  polyplane ir my.policy --p4 chain.p4    several programs as one, into a file\n  polyplane ir my.p4 --specialised --entries my.entries   what code for these tables assumes\n  \
                  polyplane ir tables.pof                 tables and flows of `polyplane pof ctl ... dump`"
)]
pub(crate) struct IrOptions {
    #[command(flatten)]
    source: Source,
    /// Print P4_16 text for v1model that means the same: everything is inlined, and names that
    /// controllers use stay.
    #[arg(long)]
    p4: bool,
    /// Print instead what code made for the contents of the tables assumes, a line for each table
    /// (docs/explanation/specialisation.md).
    #[arg(long, conflicts_with = "p4")]
    specialised: bool,
    /// Entries of the tables, in the format of docs/reference/entries.md.
    #[arg(long, value_name = "FILE", requires = "specialised")]
    entries: Option<PathBuf>,
    /// Write the P4 text to this file; `-` is the standard output.
    #[arg(value_name = "OUT.p4", requires = "p4")]
    out: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Calls of externs that have no implementation here are passed over: what a controller sees does not depend on them.\n\nExamples:\n  \
                  polyplane p4info my.p4\n  polyplane p4info my.p4 --compare my.p4info.txtpb    whether SetForwardingPipelineConfig takes it with this program"
)]
pub(crate) struct P4infoOptions {
    #[command(flatten)]
    source: Source,
    /// Compare this P4Info, as protobuf text or bytes, with the program by meaning, and name the
    /// differences.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

pub(crate) fn ir(options: &IrOptions) -> Result<Ended, String> {
    let path = &options.source.program;
    let program = match pof_program::is_text(path) {
        true => Some(pof_program::program(path)?),
        false => compile::compile(&options.source).map(Arc::new),
    };
    let Some(program) = program else {
        return Ok(Ended::WithErrors);
    };
    if options.specialised {
        return specialised(&program, options.entries.as_deref());
    }
    if !options.p4 {
        out::text(&program.to_string());
        return Ok(Ended::Well);
    }
    let text = match passes::p4::print(&program) {
        Ok(text) => text,
        Err(error) => {
            out::error(&error.to_string());
            return Ok(Ended::WithErrors);
        }
    };
    let file = options.out.as_ref().filter(|path| path.as_os_str() != "-");
    match file {
        Some(path) => artefacts::write(path, text.as_bytes())?,
        None => out::text(&text),
    }
    Ok(Ended::Well)
}

/// Prints the facts about a program's tables with these entries.
fn specialised(program: &Arc<ir::Program>, entries: Option<&Path>) -> Result<Ended, String> {
    let device = Device::new(Arc::clone(program), &Interp, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    if let Some(entries) = entries
        && !configure::add_file(&mut device, entries)?
    {
        return Ok(Ended::WithErrors);
    }
    let lines = device.facts().lines(program);
    if lines.is_empty() {
        out::line("nothing of use is known about the tables: code for any contents runs");
    }
    lines.iter().for_each(|line| out::line(line));
    Ok(Ended::Well)
}

pub(crate) fn p4info(options: &P4infoOptions) -> Result<Ended, String> {
    let Some(program) = compile::describe(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    if let Some(path) = &options.compare {
        return compare(program, path);
    }
    match p4info::p4info(&program) {
        Ok(info) => {
            out::text(&p4info::to_text(&info));
            Ok(Ended::Well)
        }
        Err(errors) => {
            errors
                .iter()
                .for_each(|error| out::error(&error.to_string()));
            Ok(Ended::WithErrors)
        }
    }
}

fn compare(program: ir::Program, path: &Path) -> Result<Ended, String> {
    let given = artefacts::read_p4info(path)?;
    match p4rt::compare_p4info(&Arc::new(program), &given) {
        Ok(()) => {
            out::line("the P4Info is of this program");
            Ok(Ended::Well)
        }
        Err(differences) => {
            out::error(&differences);
            Ok(Ended::WithErrors)
        }
    }
}

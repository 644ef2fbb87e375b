//! `polyplane ir` and `polyplane p4info`: print the compiled forms of a program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use crate::args::Source;
use crate::{Ended, artefacts, compile, out};

#[derive(Args)]
pub(crate) struct IrOptions {
    #[command(flatten)]
    source: Source,
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
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    out::text(&program.to_string());
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

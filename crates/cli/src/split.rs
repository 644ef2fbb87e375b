//! `polyplane split`: programs over a switch and servers, in P4 with C.

use clap::{Args, Subcommand};

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
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let Task::Header { source } = &options.task;
    let Some(program) = compile::compile(source) else {
        return Ok(Ended::WithErrors);
    };
    out::text(&foreign::header(&program));
    Ok(Ended::Well)
}

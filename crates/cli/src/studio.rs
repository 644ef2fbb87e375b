//! `polyplane studio`: a page on which a program is written, sent packets, and seen at work.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use runtime::ProcessSetup;
use studio::Start;

use crate::args::{limits, read_text};
use crate::{Ended, out};

#[derive(Args)]
#[command(
    after_help = "Open the address that is printed. The page has examples; with a PROGRAM it begins with that one. It is not written: the page saves files by itself. \
                  Programs run on the engine `interp`, each packet is traced.\n\nThe address must be of this machine's own. From another machine, use a tunnel: ssh -L 8088:127.0.0.1:8088 HOST.\n\n\
                  Examples:\n  polyplane studio\n  polyplane studio examples/router/router.p4 --entries examples/router/router.entries\n\n\
                  Stops on SIGINT (Ctrl-C), SIGTERM and SIGHUP. Exit status: 0 when stopped by a signal, 1 for errors, 2 for wrong usage."
)]
pub(crate) struct Options {
    /// The P4_16 program to begin with. It can include the built-in files alone.
    #[arg(value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Entries for the program's tables.
    #[arg(long, value_name = "FILE", requires = "program")]
    entries: Option<PathBuf>,
    /// Serve the page here; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let start = match &options.program {
        Some(program) => Some(Start {
            program: read_text(program, limits::PROGRAM)?,
            entries: match &options.entries {
                Some(entries) => read_text(entries, limits::ENTRIES)?,
                None => String::new(),
            },
        }),
        None => None,
    };
    early.begin_work();
    let ready = |address| out::line(&format!("http://{address}/ (Ctrl-C stops)"));
    let is_stopped = || early.take_signal().is_some();
    studio::serve(options.listen, start, ready, is_stopped).map_err(|error| error.to_string())?;
    Ok(Ended::Well)
}

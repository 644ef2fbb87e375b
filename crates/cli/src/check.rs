//! `polyplane check`: what is wrong with a program.

use clap::Args;

use crate::args::{Format, Source};
use crate::{Ended, compile, out};

#[derive(Args)]
#[command(
    after_help = "Exit status: 0 for a program without errors, 1 for one with errors, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// How diagnostics are written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let checked = compile::check(&options.source);
    compile::show(&checked.diagnostics, &checked.sources, options.format);
    if checked.diagnostics.has_errors() {
        let count = checked.diagnostics.error_count();
        if options.format == Format::Text {
            out::note(&format!(
                "{count} error{}",
                if count == 1 { "" } else { "s" }
            ));
        }
        return Ok(Ended::WithErrors);
    }
    Ok(Ended::Well)
}

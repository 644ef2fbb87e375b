//! `polyplane check`: reports the errors and warnings of a program.

use clap::Args;

use crate::args::{Format, Source};
use crate::{Ended, chain, compile, out};

#[derive(Args)]
#[command(
    after_help = "Of a chain it says, step by step, whether packets are parsed anew between the programs, and why (docs/COMPOSITION.md).\n\nExit status: 0 for a program without errors, 1 for one with errors, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Output format of diagnostics.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    told(&options.source, options.format)
}

/// Reports the diagnostics of a program, or of a chain and each of its programs.
pub(crate) fn told(source: &Source, format: Format) -> Result<Ended, String> {
    let (told, joints) = match source.is_chain() {
        true => {
            let chained = chain::chain(source)?;
            (
                chained.told,
                chained.composed.map(|composed| composed.joints),
            )
        }
        false => {
            let checked = compile::check(source);
            (vec![(checked.diagnostics, checked.sources)], None)
        }
    };
    compile::show_all(&told, format);
    let count: usize = told.iter().map(|(told, _)| told.error_count()).sum();
    if count > 0 {
        if format == Format::Text {
            out::note(&format!(
                "{count} error{}",
                if count == 1 { "" } else { "s" }
            ));
        }
        return Ok(Ended::WithErrors);
    }
    if format == Format::Text {
        let joints = joints.iter().flatten();
        joints.for_each(|joint| out::line(&chain::told(joint)));
    }
    Ok(Ended::Well)
}

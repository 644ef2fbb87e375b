//! `polyplane check`: reports the errors and warnings of a program.

use clap::Args;

use driver::CheckedProgram;

use crate::args::{Format, Source};
use crate::{Ended, compile, handlers, out};

#[derive(Args)]
#[command(
    after_help = "Of a chain it says, step by step, whether packets are parsed anew between the programs, and why (docs/reference/policy.md).\n\nExit status: 0 for a program without errors, 1 for one with errors, 2 for wrong usage."
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
    let (texts, joints) = match source.is_chain() {
        true => {
            let compiled = compile::chain(source)?;
            (
                compiled.diagnostics,
                compiled.composed.map(|composed| composed.joints),
            )
        }
        false => {
            let checked = driver::check(&source.program(&source.files()), &source.options());
            match checked.has_foreign_code() || source.c_file.is_some() {
                true => return checked_with_code(checked, source, format),
                false => (vec![checked.diagnostics], None),
            }
        }
    };
    compile::show_all(&texts, format);
    let count: usize = texts.iter().map(|text| text.list.error_count()).sum();
    if count > 0 {
        return Ok(with_errors(count, format));
    }
    if format == Format::Text {
        let joints = joints.iter().flatten();
        joints.for_each(|joint| out::line(&joint.to_string()));
    }
    Ok(Ended::Well)
}

fn with_errors(count: usize, format: Format) -> Ended {
    if format == Format::Text {
        out::note(&format!(
            "{count} error{}",
            if count == 1 { "" } else { "s" }
        ));
    }
    Ended::WithErrors
}

/// Reports the diagnostics of a program with C code. The C compiler's messages are text, on
/// standard error.
fn checked_with_code(
    checked: CheckedProgram,
    source: &Source,
    format: Format,
) -> Result<Ended, String> {
    let compiled = checked.lower();
    let count = compiled.diagnostics.list.error_count();
    compile::show_all(std::slice::from_ref(&compiled.diagnostics), format);
    let Some(program) = compiled.program else {
        return Ok(with_errors(count, format));
    };
    let texts = handlers::texts(compiled.foreign, source.c_file.as_deref())?;
    Ok(match handlers::load(&program, &texts) {
        Some(_) => Ended::Well,
        None => Ended::WithErrors,
    })
}

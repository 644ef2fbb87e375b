//! `polyplane check`: reports the errors and warnings of a program.

use clap::{Args, ValueEnum};

use driver::CheckedProgram;
use foreign::{CodeDiagnostic, Severity};
use serde::Serialize;

use crate::args::{Format, Source};
use crate::{Ended, amount, compile, handlers, kernel_part, out};

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
    /// Also say which packets would leave the kernel with this engine, and at which lines.
    #[arg(long, value_name = "NAME", value_enum)]
    engine: Option<CheckedEngine>,
}

/// Engine that does not run every program wholly.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckedEngine {
    /// The kernel, by XDP (docs/reference/xdp.md).
    Xdp,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    if options.engine.is_some() && options.format == Format::Json {
        return Err("--engine goes with --format text only".to_owned());
    }
    let wants = match options.engine {
        Some(CheckedEngine::Xdp) => Wanted::Program,
        None => Wanted::Diagnostics,
    };
    let checked = checked(&options.source, options.format, wants)?;
    match (checked.ended, checked.program) {
        (Ended::Well, Some(program)) if wants == Wanted::Program => Ok(in_kernel(&program)),
        (ended, _) => Ok(ended),
    }
}

/// Purpose of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The diagnostics alone: the program is compiled only as far as they need.
    Diagnostics,
    /// The compiled program, too.
    Program,
}

/// Result of a check.
struct Checked {
    ended: Ended,
    /// The program, if it was compiled and has no errors.
    program: Option<ir::Program>,
}

impl From<Ended> for Checked {
    fn from(ended: Ended) -> Checked {
        Checked {
            ended,
            program: None,
        }
    }
}

/// Says what of a program would run in the kernel.
fn in_kernel(program: &ir::Program) -> Ended {
    let unsupported = |construct: &str| {
        out::line(&format!("in the kernel: nothing, because of {construct}"));
        Ended::WithErrors
    };
    let Some(pass) = switch::fast_path(program) else {
        return unsupported("the architecture of the program");
    };
    match xdp::emit_program(program, &pass) {
        Err(error) => unsupported(&error.construct),
        Ok(code) => {
            let count = amount::count(code.code.len() as u64, "instruction");
            out::line(&format!("in the kernel: {count}"));
            for line in kernel_part::lines(program, &code.leaves) {
                out::line(&format!("leaves the kernel: {line}"));
            }
            Ended::Well
        }
    }
}

/// Reports the diagnostics of a program, or of a chain and each of its programs.
pub(crate) fn told(source: &Source, format: Format) -> Result<Ended, String> {
    checked(source, format, Wanted::Diagnostics).map(|checked| checked.ended)
}

/// Checks a program, or a chain and each of its programs, and reports the diagnostics.
fn checked(source: &Source, format: Format, wants: Wanted) -> Result<Checked, String> {
    if compile::is_for_bmv2(source) {
        return Ok(Ended::WithErrors.into());
    }
    let (texts, joints, program) = match source.is_chain() {
        true => {
            let compiled = compile::chain(source)?;
            let (joints, program) = match compiled.composed {
                Some(composed) => (composed.joints, Some(composed.program)),
                None => (Vec::new(), None),
            };
            (compiled.diagnostics, joints, program)
        }
        false => {
            let checked = driver::check(&source.program(&source.files()), &source.options());
            match checked.has_foreign_code() || source.c_file.is_some() {
                true => return checked_with_code(checked, source, format),
                false if wants == Wanted::Program => {
                    let compiled = checked.lower();
                    (vec![compiled.diagnostics], Vec::new(), compiled.program)
                }
                false => (vec![checked.diagnostics], Vec::new(), None),
            }
        }
    };
    compile::show_all(&texts, format);
    let count: usize = texts.iter().map(|text| text.list.error_count()).sum();
    if count > 0 {
        return Ok(with_errors(count, format).into());
    }
    if format == Format::Text {
        joints
            .iter()
            .for_each(|joint| out::line(&joint.to_string()));
    }
    Ok(Checked {
        ended: Ended::Well,
        program,
    })
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

/// Diagnostic of C code, with the members of those of P4 code.
#[derive(Serialize)]
struct CodeMessage<'m> {
    file: Option<&'m str>,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    severity: String,
    code: &'static str,
    message: &'m str,
    hint: Option<&'m str>,
    notes: Vec<String>,
    labels: [(); 0],
}

/// Returns the diagnostics, with notes in the ones before them.
fn code_messages(all: &[CodeDiagnostic]) -> Vec<CodeMessage<'_>> {
    let mut messages: Vec<CodeMessage<'_>> = Vec::new();
    for one in all {
        if let (Severity::Note, Some(last)) = (one.severity, messages.last_mut()) {
            last.notes.push(one.to_string());
            continue;
        }
        let place = one.place.as_ref();
        let line = place.map_or(0, |place| place.line);
        let column = place.and_then(|place| place.column).unwrap_or(0);
        messages.push(CodeMessage {
            file: place.map(|place| place.file.as_str()),
            line,
            column,
            end_line: line,
            end_column: column,
            severity: one.severity.to_string(),
            code: "C",
            message: &one.text,
            hint: None,
            notes: Vec::new(),
            labels: [],
        });
    }
    messages
}

/// Reports the diagnostics of a program with C code.
fn checked_with_code(
    checked: CheckedProgram,
    source: &Source,
    format: Format,
) -> Result<Checked, String> {
    let compiled = checked.lower();
    let count = compiled.diagnostics.list.error_count();
    let Some(program) = compiled.program else {
        compile::show_all(std::slice::from_ref(&compiled.diagnostics), format);
        return Ok(with_errors(count, format).into());
    };
    let texts = handlers::texts(compiled.foreign, source.c_file.as_deref())?;
    let (handlers, messages) = handlers::diagnose(&program, &texts);
    match format {
        Format::Text => {
            compile::show_all(std::slice::from_ref(&compiled.diagnostics), format);
            for message in &messages {
                out::note(&message.to_string());
            }
        }
        Format::Json => {
            let own = serde_json::from_str(&compiled.diagnostics.to_json());
            let mut all: Vec<serde_json::Value> = own.unwrap_or_default();
            let messages = code_messages(&messages).into_iter();
            all.extend(messages.filter_map(|message| serde_json::to_value(message).ok()));
            out::json(&all);
        }
    }
    let loaded = handlers.and_then(|handlers| handlers.load(&program, 0));
    let ended = match loaded {
        Some(_) => Ended::Well,
        None => Ended::WithErrors,
    };
    Ok(Checked {
        ended,
        program: Some(program),
    })
}

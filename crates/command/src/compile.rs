//! Compiles the program or policy of a command, and shows its diagnostics.

use std::path::Path;

use driver::{CompiledPolicy, FileSystem, PolicySource, SourceDiagnostics, compile_policy};
use exec::Natives;
use foreign::CodeText;
use passes::compose::Form;
use terminal::out;

use crate::args::{Format, Source};
use crate::{handlers, mininet};

/// Shows diagnostics on standard error (text) or standard output (JSON).
fn show(diagnostics: &SourceDiagnostics, format: Format) {
    match format {
        Format::Text if diagnostics.list.is_empty() => {}
        Format::Text => out::note(diagnostics.render(out::colours()).trim_end()),
        Format::Json => out::line(&diagnostics.to_json()),
    }
}

/// Shows the diagnostics of several texts; as JSON in one array.
pub fn show_all(texts: &[SourceDiagnostics], format: Format) {
    match (texts, format) {
        ([one], _) => show(one, format),
        (several, Format::Text) => {
            for diagnostics in several {
                show(diagnostics, format);
            }
        }
        (several, Format::Json) => {
            let arrays = several.iter().map(SourceDiagnostics::to_json);
            let arrays = arrays.filter_map(|text| serde_json::from_str(&text).ok());
            let all: Vec<serde_json::Value> = arrays
                .flat_map(|array: Vec<serde_json::Value>| array)
                .collect();
            out::json(&all);
        }
    }
}

/// Returns true if the program's file is JSON, as p4c makes it for BMv2, and shows what to do
/// instead.
pub fn is_for_bmv2(source: &Source) -> bool {
    let advice = mininet::advice_on_program(&source.program);
    if let Some(advice) = &advice {
        out::error(advice);
    }
    advice.is_some()
}

/// Compiles a program, or a chain of them, to verified IR. Shows all errors, and returns `None`
/// if there are any.
pub fn compile(source: &Source) -> Option<ir::Program> {
    if is_for_bmv2(source) {
        return None;
    }
    if source.is_chain() {
        return compile_chain(source);
    }
    let compiled = driver::compile(&source.program(&source.files()), &source.options());
    show(&compiled.diagnostics, Format::Text);
    compiled.program
}

/// A program with its handlers in C.
pub struct ProgramWithHandlers {
    /// The program.
    pub program: ir::Program,
    /// Its handlers, loaded.
    pub handlers: Natives,
    /// The C code of the handlers.
    pub texts: Vec<CodeText>,
}

/// Compiles a program, or a chain of them, with its handlers in C. Shows all errors, and returns
/// `None` if there are any.
///
/// # Errors
/// The file of C code cannot be read.
pub fn compile_with_handlers(source: &Source) -> Result<Option<ProgramWithHandlers>, String> {
    if is_for_bmv2(source) {
        return Ok(None);
    }
    if source.is_chain() {
        let program = compile_chain(source);
        return Ok(program.map(|program| ProgramWithHandlers {
            program,
            handlers: Natives::default(),
            texts: Vec::new(),
        }));
    }
    let compiled = driver::compile(&source.program(&source.files()), &source.options());
    show(&compiled.diagnostics, Format::Text);
    let Some(program) = compiled.program else {
        return Ok(None);
    };
    let texts = handlers::texts(compiled.foreign, source.c_file.as_deref())?;
    let handlers = handlers::load(&program, &texts);
    Ok(handlers.map(|handlers| ProgramWithHandlers {
        program,
        handlers,
        texts,
    }))
}

/// Compiles a program, with its blocks of C code as text. Shows all errors, and returns `None` if
/// there are any.
pub fn compile_with_foreign(source: &Source) -> Option<(ir::Program, Vec<driver::ForeignBlock>)> {
    let compiled = driver::compile(&source.program(&source.files()), &source.options());
    show(&compiled.diagnostics, Format::Text);
    let foreign = compiled.foreign;
    compiled.program.map(|program| (program, foreign))
}

/// Compiles a program that is described to controllers and does not run here. Otherwise as
/// [`compile`].
pub fn describe(source: &Source) -> Option<ir::Program> {
    if is_for_bmv2(source) {
        return None;
    }
    if source.is_chain() {
        return compile_chain(source);
    }
    let compiled = driver::describe(&source.program(&source.files()), &source.options());
    show(&compiled.diagnostics, Format::Text);
    compiled.program
}

fn compile_chain(source: &Source) -> Option<ir::Program> {
    match chain(source) {
        Ok(compiled) => composed(compiled),
        Err(error) => {
            out::error(&error);
            None
        }
    }
}

/// Compiles the programs of a policy and composes them. Shows nothing.
///
/// # Errors
/// The policy file cannot be read.
pub fn chain(source: &Source) -> Result<CompiledPolicy, String> {
    let files = source.files();
    let policy = PolicySource::of_argument(&source.program, &files)?;
    Ok(compile_policy(&policy, &source.options(), Form::Merged))
}

/// Compiles the text of a policy, as [`compile`] does. Its programs are searched in this
/// directory.
pub fn compile_policy_text(policy: &str, directory: &Path) -> Option<ir::Program> {
    let files = FileSystem::default();
    let policy = PolicySource::of_text(policy, directory, &files);
    let options = driver::Options::default();
    composed(compile_policy(&policy, &options, Form::Merged))
}

fn composed(compiled: CompiledPolicy) -> Option<ir::Program> {
    show_all(&compiled.diagnostics, Format::Text);
    compiled.composed.map(|composed| composed.program)
}

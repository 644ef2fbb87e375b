//! The target `front`: mutated program texts, from preprocessing to a loaded program.

use std::sync::Arc;
use std::time::Duration;

use driver::{Compiled, Options, Source, SourceDiagnostics};
use exec::Engine;
use ir::Program;
use support::rng::Rng;
use switch::{Device, DeviceConfig, LoadError};
use syntax::diag::{Diagnostic, Severity};
use syntax::source::Span;

use super::corpus::Seed;
use super::guard::guarded;
use super::minimise::minimise_text;
use super::{Case, Fault};
use crate::mutate::mutate;

/// Maximum number of attempts to shorten a failing text.
const ATTEMPTS: usize = 3000;

/// Same for a text that exceeds the time limit. Each attempt takes as long as the limit, and leaves
/// a busy thread.
const SLOW_ATTEMPTS: usize = 8;

/// Result of a text: the program, or `None` if it is refused.
pub(crate) type Examined = Result<Option<Arc<Program>>, Fault>;

/// Runs one mutated text. Returns a fault and the text if the front end fails.
pub(crate) fn case(seeds: &[Seed], case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let text = mutant(seeds, &mut choices)?;
    case.keep_running(&text);
    let fault = match examine(&text, case.limit) {
        Err(fault) => fault,
        Ok(program) => {
            program.inspect(|_| case.accept());
            return None;
        }
    };
    let attempts = match fault.signature.as_str() {
        "time limit" => SLOW_ATTEMPTS,
        _ => ATTEMPTS,
    };
    let fails = |shorter: &str| {
        examine(shorter, case.limit).is_err_and(|other| other.signature == fault.signature)
    };
    let text = match case.is_new(&fault) {
        true => minimise_text(&text, attempts, fails),
        false => text,
    };
    Some((fault, text))
}

/// A mutated text.
pub(crate) fn mutant(seeds: &[Seed], choices: &mut Rng) -> Option<String> {
    let text = &choices.pick(seeds)?.text;
    let other = &choices.pick(seeds)?.text;
    Some(mutate(text, other, choices))
}

/// Compiles a text in a guarded thread. Returns the program, or `None` if it is refused.
pub(crate) fn examine(text: &str, limit: Duration) -> Examined {
    let text = text.to_string();
    let done = guarded(limit, move || compile(&text));
    done.unwrap_or_else(|trouble| Err(trouble.fault("the front end")))
}

fn compile(text: &str) -> Examined {
    let source = Source::Text {
        name: "fuzz.p4",
        text,
    };
    let parsed = driver::parse(&source, &Options::default());
    if parsed.diagnostics.has_errors() {
        // The checker accepts an incomplete tree, too.
        let checked = sema::check(&parsed.tree, &sema::CheckOptions::default());
        let mut diagnostics = parsed.diagnostics;
        diagnostics.list.extend(checked.diagnostics);
        shown(&diagnostics)?;
        return Ok(None);
    }
    let checked = parsed.check();
    let is_checked = !checked.diagnostics.has_errors();
    let Compiled {
        program,
        diagnostics,
        ..
    } = checked.lower();
    if is_checked {
        placed(&diagnostics)?;
    }
    shown(&diagnostics)?;
    match program {
        Some(program) => accepted(program),
        None if diagnostics.has_errors() => Ok(None),
        None => Err(Fault::new("refused without an error", "")),
    }
}

/// Checks that errors at load have a source location. Only a program without `main` (E1102) has
/// none.
fn placed(diagnostics: &SourceDiagnostics) -> Result<(), Fault> {
    let is_lost = |found: &Diagnostic| {
        found.severity == Severity::Error && found.span == Span::NONE && found.code != "E1102"
    };
    let sorted = diagnostics.list.sorted();
    match sorted.into_iter().find(|found| is_lost(found)) {
        None => Ok(()),
        Some(error) => Err(Fault::new(
            format!("refused at load without a place: {}", error.code),
            &error.message,
        )),
    }
}

/// Checks that diagnostics can be displayed, and that none of them reports an internal error.
fn shown(diagnostics: &SourceDiagnostics) -> Result<(), Fault> {
    let (rendered, json) = (diagnostics.render(false), diagnostics.to_json());
    if !diagnostics.list.is_empty() && (rendered.is_empty() || json.is_empty()) {
        return Err(Fault::new("a diagnostic that is not shown", ""));
    }
    let all = diagnostics.list.sorted();
    match all.iter().find(|d| d.message.contains("internal error")) {
        None => Ok(()),
        Some(found) => Err(Fault::new(
            format!("internal error: {}", found.code),
            &found.message,
        )),
    }
}

/// Checks the properties of every accepted program.
fn accepted(program: Program) -> Examined {
    ir::verify(&program).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Fault::new("accepted IR does not verify", texts.join("\n"))
    })?;
    let text = program.to_string();
    let read = ir::read(&text)
        .map_err(|error| Fault::new("printed IR cannot be read", error.to_string()))?;
    if read != program {
        return Err(Fault::new(
            "printed IR reads as another program",
            difference(&text, &read.to_string()),
        ));
    }
    described(&program)?;
    let program = Arc::new(program);
    loads(&program)?;
    Ok(Some(program))
}

/// Checks that every engine loads the program, or names the construct that it does not support. The
/// program's entries may not fit a device's tables.
fn loads(program: &Arc<Program>) -> Result<(), Fault> {
    let native = jit::Jit::new(Arc::new(interp::Interp));
    let engines: [&dyn Engine; 2] = [&interp::Interp, &native];
    for (at, engine) in engines.into_iter().enumerate() {
        let is_meaning = at == 0;
        match Device::new(Arc::clone(program), engine, &DeviceConfig::default()) {
            Ok(_) | Err(LoadError::Entry(_)) => {}
            // The interpreter supports everything. Native code may refuse what is too large.
            Err(LoadError::Unsupported(refused))
                if !is_meaning && !refused.construct.is_empty() => {}
            Err(error) => {
                let signature = format!("an accepted program does not load on {}", engine.name());
                return Err(Fault::new(signature, error.to_string()));
            }
        }
    }
    Ok(())
}

/// Checks that the program's P4Info, if it has one, can be written as text and read back.
fn described(program: &Program) -> Result<(), Fault> {
    let Ok(info) = p4info::p4info(program) else {
        return Ok(());
    };
    let text = p4info::to_text(&info);
    match p4info::from_text::<p4info::P4Info>(&text) {
        Ok(read) if read == info => Ok(()),
        Ok(_) => Err(Fault::new("P4Info text reads as another P4Info", text)),
        Err(error) => Err(Fault::new("P4Info text cannot be read", error.to_string())),
    }
}

/// Returns the first line in which two texts differ.
fn difference(one: &str, other: &str) -> String {
    let differing = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    differing.map_or("the texts are equal".into(), |(a, b)| {
        format!("- {a}\n+ {b}")
    })
}

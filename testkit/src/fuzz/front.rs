//! The target `front`: mutated program texts from preprocessing to a loaded program.

use std::sync::Arc;
use std::time::Duration;

use exec::Engine;
use ir::Program;
use support::rng::Rng;
use switch::{Device, DeviceConfig, LoadError};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use super::corpus::Seed;
use super::guard::guarded;
use super::minimise::minimise_text;
use super::{Case, Fault};
use crate::mutate::mutate;

/// How often a failing text is tried in shorter forms.
const ATTEMPTS: usize = 3000;

/// How often a text that runs into the time limit is tried: each time costs the limit, and leaves a busy thread.
const SLOW_ATTEMPTS: usize = 8;

/// What became of a text.
pub(crate) type Examined = Result<Option<Arc<Program>>, Fault>;

/// One mutated text; what is wrong with what the front end does with it.
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

/// Takes a text through all of the front end, guarded: the program if it is accepted, none if it is refused.
pub(crate) fn examine(text: &str, limit: Duration) -> Examined {
    let text = text.to_string();
    let done = guarded(limit, move || compile(&text));
    done.unwrap_or_else(|trouble| Err(trouble.fault("the front end")))
}

fn compile(text: &str) -> Examined {
    let options = syntax::ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..Default::default()
    };
    let parsed = syntax::parse_str("fuzz.p4", text, &options);
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    let mut diagnostics = parsed.diagnostics;
    diagnostics.extend(checked.diagnostics);
    if !diagnostics.has_errors() {
        match lower::lower(&checked.program, &parsed.sources, "fuzz") {
            Ok(program) => {
                shown(&diagnostics, &parsed.sources)?;
                return accepted(program);
            }
            Err(errors) => {
                placed(&errors)?;
                errors.into_iter().for_each(|error| diagnostics.push(error));
            }
        }
        if !diagnostics.has_errors() {
            return Err(Fault::new("refused without an error", ""));
        }
    }
    shown(&diagnostics, &parsed.sources)?;
    Ok(None)
}

/// A program that is checked and then refused is refused at a place, if it has one: a program
/// without `main` (E1102) has none.
fn placed(errors: &[Diagnostic]) -> Result<(), Fault> {
    let is_lost = |error: &&Diagnostic| error.span == Span::NONE && error.code != "E1102";
    match errors.iter().find(is_lost) {
        None => Ok(()),
        Some(error) => Err(Fault::new(
            format!("refused at load without a place: {}", error.code),
            &error.message,
        )),
    }
}

/// Diagnostics can be shown, and none says that it should not be.
fn shown(diagnostics: &Diagnostics, sources: &syntax::source::SourceMap) -> Result<(), Fault> {
    let (rendered, json) = (
        diagnostics.render(sources, false),
        diagnostics.to_json(sources),
    );
    if !diagnostics.is_empty() && (rendered.is_empty() || json.is_empty()) {
        return Err(Fault::new("a diagnostic that is not shown", ""));
    }
    let all = diagnostics.sorted();
    match all.iter().find(|d| d.message.contains("internal error")) {
        None => Ok(()),
        Some(found) => Err(Fault::new(
            format!("internal error: {}", found.code),
            &found.message,
        )),
    }
}

/// What holds for every program that is accepted.
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

/// Every engine loads the program, or names the construct that it does not run. Entries of the
/// program may not fit the tables of a device.
fn loads(program: &Arc<Program>) -> Result<(), Fault> {
    let native = jit::Jit::new(Arc::new(interp::Interp));
    let engines: [&dyn Engine; 2] = [&interp::Interp, &native];
    for (at, engine) in engines.into_iter().enumerate() {
        let is_meaning = at == 0;
        match Device::new(Arc::clone(program), engine, &DeviceConfig::default()) {
            Ok(_) | Err(LoadError::Entry(_)) => {}
            // The interpreter runs all; native code may refuse what is too large.
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

/// P4Info, where annotations allow one, survives its text form.
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

/// The first line in which two texts differ.
fn difference(one: &str, other: &str) -> String {
    let differing = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    differing.map_or("the texts are equal".into(), |(a, b)| {
        format!("- {a}\n+ {b}")
    })
}

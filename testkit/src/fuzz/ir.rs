//! The target `ir`: mutated IR text. All engines must give the same results for any IR that the
//! verifier accepts.

use std::sync::Arc;

use ir::Program;
use support::rng::Rng;

use super::corpus::Seed;
use super::guard::guarded;
use super::packets::judged;
use super::scenario::{Material, scenario};
use super::{Case, Fault, engines, front, generate};

/// Maximum number of mutants tried until one is accepted.
const MUTANTS: usize = 20;

/// Numbers that are likely to expose faults in readers, verifiers and engines.
const NUMBERS: &[&str] = &[
    "0x0",
    "0x1",
    "0x7",
    "0xff",
    "0xffffffffffffffff",
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "31",
    "63",
    "64",
    "65",
    "128",
    "1000",
    "65535",
    "4294967295",
];

/// Runs one mutant of a program's IR with a scenario for it.
pub(crate) fn case(seeds: &[Seed], case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let text = match choices.one_in(2) {
        true => choices.pick(seeds)?.text.clone(),
        false => generate::program(&mut choices),
    };
    let original = front::examine(&text, case.limit)
        .ok()
        .flatten()?
        .to_string();
    for _ in 0..MUTANTS {
        let text = mutant(&original, &mut choices);
        match accepted(&text, case) {
            Ok(None) => {}
            Err(fault) => return Some((fault, text)),
            Ok(Some(program)) => {
                let acts = scenario(&program, &Material::default(), &mut choices);
                return judged(case, &text, acts, |acts| {
                    engines::judge(&program, acts, case)
                });
            }
        }
    }
    None
}

/// Reads and verifies an IR text. Returns `None` if it is invalid.
fn accepted(text: &str, case: &Case<'_>) -> Result<Option<Arc<Program>>, Fault> {
    let owned = text.to_string();
    let read = guarded(case.limit, move || {
        let program = ir::read(&owned).ok()?;
        ir::verify(&program).ok()?;
        Some(Arc::new(program))
    });
    read.map_err(|trouble| trouble.fault("reading IR"))
}

/// The text with a few changes: lines moved, repeated or gone, words and numbers exchanged.
fn mutant(text: &str, choices: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..1 + choices.index(3) {
        if lines.len() < 2 {
            break;
        }
        let (at, other) = (choices.index(lines.len()), choices.index(lines.len()));
        match choices.index(8) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(other, lines[at].clone()),
            2 => lines.swap(at, other),
            3 | 4 => lines[at] = number_changed(&lines[at], choices),
            _ => lines[at] = word_changed(&lines[at], &lines[other], choices),
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the byte ranges of a line's words. A word consists of letters, digits, dots and
/// underscores.
fn words(line: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        let inside = c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$');
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn replaced(line: &str, (from, to): (usize, usize), word: &str) -> String {
    format!("{}{word}{}", &line[..from], &line[to..])
}

fn number_changed(line: &str, choices: &mut Rng) -> String {
    let is_number = |&(from, _): &(usize, usize)| line.as_bytes()[from].is_ascii_digit();
    let numbers: Vec<(usize, usize)> = words(line).into_iter().filter(is_number).collect();
    match (choices.pick(&numbers), choices.pick(NUMBERS)) {
        (Some(&place), Some(number)) => replaced(line, place, number),
        _ => line.to_string(),
    }
}

fn word_changed(line: &str, other: &str, choices: &mut Rng) -> String {
    let (own, others) = (words(line), words(other));
    match (choices.pick(&own), choices.pick(&others)) {
        (Some(&place), Some(&(from, to))) => replaced(line, place, &other[from..to]),
        _ => line.to_string(),
    }
}

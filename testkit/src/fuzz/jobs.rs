//! The target `jobs`: mutated job files of reductions. Each is refused with errors in places of the
//! text, or accepted; then its statements, written again, are the same job.

use std::fmt::Write;

use aggregate::{Job, JobError, KeyClass, MapFunction};
use support::rng::Rng;

use super::guard::guarded;
use super::minimise::minimise_text;
use super::{Case, Fault};
use crate::mutate::mutate;

/// Maximum number of attempts to shorten a failing file.
const ATTEMPTS: usize = 2000;

/// Right job files.
const FILES: [&str; 3] = [
    include_str!("../../../examples/aggregate/words.job"),
    "# two kinds\n\
     data   part0 = 10.0.1.11:/data/part 0.txt   # with a space\n\
     data   part1 = 10.0.1.12:part1.txt\n\
     map    m0 = pairs(part0)\n\
     map    m-1 = exec \"./mine --flag | sort\"(part1)\n\
     map    l = links(part1)\n\
     reduce total = max(m0, m-1) at 10.0.9.2 keys 64 values u32 memory 1 tiers 4\n\
     reduce most = min(l) at 10.0.9.3 keys 8 values u64 tiers 0\n",
    "data g0 = 10.0.1.11:g0.bin\n\
     data g1 = 10.0.1.12:g1.bin\n\
     map m0 = gradients(g0)\n\
     map m1 = gradients(g1)\n\
     reduce sum = add(m0, m1) at 10.0.9.2 keys none values f32 memory 4096 to all\n\
     reduce least = min(m1) at 10.0.9.2 keys none values i32\n",
];

/// Words of job files that mutations of other texts do not have.
const WORDS: [&str; 16] = [
    "keys none",
    "values f32",
    "values i32",
    "to all",
    "to",
    "memory 4097",
    "memory 0",
    "memory 18446744073709551616",
    "tiers 5",
    "gradients",
    "exec \"",
    "\"",
    "256.0.0.1",
    "10.0.9.2:",
    "#",
    "\u{a0}\u{feff}é",
];

/// Reads one mutated file. Returns a fault and the file if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let (file, other) = (choices.pick(&FILES)?, choices.pick(&FILES)?);
    let text = match choices.one_in(3) {
        true => with_word(file, &mut choices),
        false => mutate(file, other, &mut choices),
    };
    let fault = match examine(&text, case) {
        Ok(is_accepted) => {
            if is_accepted {
                case.accept();
            }
            return None;
        }
        Err(fault) => fault,
    };
    let fails = |shorter: &str| {
        examine(shorter, case).is_err_and(|other| other.signature == fault.signature)
    };
    let text = match case.is_new(&fault) {
        true => minimise_text(&text, ATTEMPTS, fails),
        false => text,
    };
    Some((fault, text))
}

/// A file with a word of [`WORDS`] in place of one of its words, or between two.
fn with_word(text: &str, choices: &mut Rng) -> String {
    let gaps: Vec<usize> = text
        .match_indices([' ', '\n', '(', ','])
        .map(|it| it.0)
        .collect();
    let (Some(&at), Some(word)) = (choices.pick(&gaps), choices.pick(&WORDS)) else {
        return text.to_owned();
    };
    let rest = &text[at + 1..];
    let end = rest.find([' ', '\n', ')']).unwrap_or(rest.len());
    let rest = match choices.one_in(2) {
        true => &rest[end..],
        false => rest,
    };
    format!("{} {word} {rest}", &text[..at])
}

/// Reads a file. Returns true if it is accepted.
fn examine(text: &str, case: &Case<'_>) -> Result<bool, Fault> {
    let text = text.to_owned();
    let read = guarded(case.limit, move || read(&text));
    read.unwrap_or_else(|trouble| Err(trouble.fault("reading a job file")))
}

fn read(text: &str) -> Result<bool, Fault> {
    let job = match Job::read(text) {
        Ok(job) => job,
        Err(errors) if errors.is_empty() => {
            return Err(Fault::new("refused without an error", ""));
        }
        Err(errors) => {
            let wrong = errors.iter().find(|error| !is_right(error, text));
            return match wrong {
                Some(error) => Err(Fault::new("an error without a place", error.to_string())),
                None => Ok(false),
            };
        }
    };
    let written = written(&job);
    match Job::read(&written) {
        Ok(again) if is_same(&job, &again) => Ok(true),
        Ok(_) => Err(Fault::new("the written job is another one", written)),
        Err(errors) => {
            let first = errors.first().map(ToString::to_string);
            let detail = format!("{}\n{written}", first.unwrap_or_default());
            Err(Fault::new("the written job is refused", detail))
        }
    }
}

/// Returns true if an error has a place in the text, a message and a remedy.
fn is_right(error: &JobError, text: &str) -> bool {
    let line = text.lines().nth(error.at.line.wrapping_sub(1));
    let is_first = (error.at.line, error.at.column) == (1, 1);
    let columns = line.map_or(0, |line| line.chars().count() + 1);
    let is_place = is_first || (1..=columns).contains(&error.at.column);
    is_place && !error.message.is_empty() && !error.mend.is_empty()
}

/// Returns the statements of a job, with all options.
fn written(job: &Job) -> String {
    let mut text = String::new();
    for part in &job.parts {
        let _ = writeln!(text, "data {} = {}:{}", part.name, part.host, part.path);
    }
    for mapper in &job.mappers {
        let function = match &mapper.function {
            MapFunction::Words => "words".to_owned(),
            MapFunction::Links => "links".to_owned(),
            MapFunction::Pairs => "pairs".to_owned(),
            MapFunction::Gradients => "gradients".to_owned(),
            MapFunction::Exec(command) => format!("exec \"{command}\""),
        };
        let part = &job.parts[mapper.part].name;
        let _ = writeln!(text, "map {} = {function}({part})", mapper.name);
    }
    for reducer in &job.reducers {
        let mappers = reducer.mappers.iter().map(|it| &*job.mappers[*it].name);
        let keys = match reducer.shape.keys {
            KeyClass::Block => "none".to_owned(),
            class => class.bytes().to_string(),
        };
        let _ = writeln!(
            text,
            "reduce {} = {}({}) at {} keys {keys} values {} memory {} tiers {}{}",
            reducer.name,
            reducer.shape.operator.name(),
            mappers.collect::<Vec<_>>().join(", "),
            reducer.host,
            reducer.shape.values.name(),
            reducer.slots,
            reducer.tiers,
            if reducer.to_all { " to all" } else { "" },
        );
    }
    text
}

/// Returns true if two jobs are equal but for the places of their statements.
fn is_same(one: &Job, other: &Job) -> bool {
    let without_places = |job: &Job| {
        let mut job = job.clone();
        let parts = job.parts.iter_mut().map(|part| &mut part.at);
        let places = parts.chain(job.reducers.iter_mut().map(|reducer| &mut reducer.at));
        places.for_each(|at| (at.line, at.column) = (0, 0));
        job
    };
    without_places(one) == without_places(other)
}

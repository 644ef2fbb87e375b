//! The target `loops`: mutated loop files. Each is refused with mistakes that have a line, a
//! message and a remedy, or accepted, and read as the same again.

use reflex::Loops;
use support::rng::Rng;

use super::guard::guarded;
use super::minimise::minimise_text;
use super::{Case, Fault};
use crate::mutate::mutate;

/// Maximum number of attempts to shorten a failing file.
const ATTEMPTS: usize = 2000;

/// Right loop files.
const FILES: [&str; 8] = [
    include_str!("../../../examples/reflex/drops/loops.toml"),
    include_str!("../../../examples/reflex/microburst/loops.toml"),
    include_str!("../../../examples/reflex/p4_burst/loops.toml"),
    include_str!("../../../examples/reflex/rate_limit/loops.toml"),
    include_str!("../../../examples/reflex/routing_loop/loops.toml"),
    include_str!("../../../examples/reflex/slow_link/loops.toml"),
    include_str!("../../../examples/reflex/spreader/loops.toml"),
    include_str!("../../../examples/reflex/tuning/loops.toml"),
];

/// Reads one mutated file. Returns a fault and the file if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let (file, other) = (choices.pick(&FILES)?, choices.pick(&FILES)?);
    let text = match choices.one_in(3) {
        true => with_value(file, other, &mut choices),
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

/// A file with the value of one of its lines replaced by one of another file, or by a number at a
/// boundary.
fn with_value(text: &str, other: &str, choices: &mut Rng) -> String {
    let values = |text: &str| -> Vec<(usize, usize)> {
        let mut begin = 0;
        let mut found = Vec::new();
        for line in text.split_inclusive('\n') {
            if let Some(at) = line.find(" = ") {
                found.push((begin + at + 3, begin + line.trim_end().len()));
            }
            begin += line.len();
        }
        found
    };
    let (Some(&(begin, end)), Some(&(from, to))) =
        (choices.pick(&values(text)), choices.pick(&values(other)))
    else {
        return text.to_owned();
    };
    let numbers = [
        "0",
        "-1",
        "1",
        "65536",
        "4294967296",
        "9223372036854775807",
        "\"\"",
    ];
    let value = match choices.one_in(2) {
        true => &other[from..to],
        false => numbers[choices.index(numbers.len())],
    };
    format!("{}{value}{}", &text[..begin], &text[end..])
}

/// Reads a file. Returns true if it is accepted.
fn examine(text: &str, case: &Case<'_>) -> Result<bool, Fault> {
    let text = text.to_owned();
    let read = guarded(case.limit, move || read(&text));
    read.unwrap_or_else(|trouble| Err(trouble.fault("reading a loop file")))
}

fn read(text: &str) -> Result<bool, Fault> {
    let read = || Loops::read("loops.toml", text);
    match (read(), read()) {
        (Ok(loops), Ok(again)) => match format!("{loops:?}") == format!("{again:?}") {
            true => Ok(true),
            false => Err(Fault::new("a file is read differently again", "")),
        },
        (Err(error), Err(again)) if error == again => {
            let lines = text.lines().count().max(1);
            let is_right = |it: &&toml_file::FileMistake| {
                (1..=lines + 1).contains(&it.line) && !it.message.is_empty() && !it.mend.is_empty()
            };
            match error.mistakes.iter().find(|it| !is_right(it)) {
                Some(mistake) => Err(Fault::new(
                    "a mistake without a place or a remedy",
                    format!("{mistake:?}"),
                )),
                None if error.mistakes.is_empty() => {
                    Err(Fault::new("refused without a mistake", ""))
                }
                None => Ok(false),
            }
        }
        _ => Err(Fault::new("a file is refused only once", "")),
    }
}

//! The target `entries`: mutated entries files. Each is applied, or refused with errors that can be
//! displayed.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use interp::Interp;
use ir::Program;
use support::rng::Rng;
use switch::{Device, DeviceConfig};

use super::guard::guarded;
use super::minimise::minimise_text;
use super::{Case, Fault, front};
use crate::mutate::mutate;

/// Maximum number of attempts to shorten a failing file.
const ATTEMPTS: usize = 2000;

/// A program with an entries file for it.
struct Pair {
    program: Arc<Program>,
    entries: String,
}

/// Returns the example programs with their entries.
fn pairs(case: &Case<'_>) -> &'static [Pair] {
    static PAIRS: OnceLock<Vec<Pair>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let names = [
            "router",
            "acl",
            "nat",
            "load_balancer",
            "multicast_ptp",
            "rate_limiter",
        ];
        let pair = |name: &str| {
            let file = |end| examples.join(name).join(format!("{name}.{end}"));
            let text = std::fs::read_to_string(file("p4")).ok()?;
            Some(Pair {
                program: front::examine(&text, case.limit).ok().flatten()?,
                entries: std::fs::read_to_string(file("entries")).ok()?,
            })
        };
        names.into_iter().filter_map(pair).collect()
    })
}

/// Runs one mutated file. Returns a fault and the file if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let pairs = pairs(case);
    let (pair, other) = (choices.pick(pairs)?, choices.pick(pairs)?);
    let text = match choices.one_in(4) {
        true => changed(&pair.entries, &mut choices),
        false => mutate(&pair.entries, &other.entries, &mut choices),
    };
    let fault = match examine(&pair.program, &text, case) {
        Ok(is_accepted) => {
            if is_accepted {
                case.accept();
            }
            return None;
        }
        Err(fault) => fault,
    };
    let fails = |shorter: &str| {
        examine(&pair.program, shorter, case).is_err_and(|other| other.signature == fault.signature)
    };
    let text = match case.is_new(&fault) {
        true => minimise_text(&text, ATTEMPTS, fails),
        false => text,
    };
    Some((fault, text))
}

/// A file with one digit changed: these are often right.
fn changed(text: &str, choices: &mut Rng) -> String {
    let digits: Vec<usize> = text
        .char_indices()
        .filter(|(_, c)| c.is_ascii_digit())
        .map(|(at, _)| at)
        .collect();
    let Some(&at) = choices.pick(&digits) else {
        return text.to_owned();
    };
    let digit = choices.index(10).to_string();
    format!("{}{digit}{}", &text[..at], &text[at + 1..])
}

/// Reads and applies a file. Returns true if it is accepted.
fn examine(program: &Arc<Program>, text: &str, case: &Case<'_>) -> Result<bool, Fault> {
    let (program, text) = (Arc::clone(program), text.to_owned());
    let done = guarded(case.limit, move || applied(&program, &text));
    done.unwrap_or_else(|trouble| Err(trouble.fault("reading an entries file")))
}

fn applied(program: &Arc<Program>, text: &str) -> Result<bool, Fault> {
    let file = match entries::read(program, "fuzz.entries", text) {
        Ok(file) => file,
        Err(errors) => {
            let is_silent = errors.is_empty() || errors.iter().any(|e| e.to_string().is_empty());
            return match is_silent {
                true => Err(Fault::new("refused without an error", "")),
                false => Ok(false),
            };
        }
    };
    let device = Device::new(Arc::clone(program), &Interp, &DeviceConfig::default());
    let mut device = device.map_err(|error| Fault::new("no device", error.to_string()))?;
    match apply_entries::apply_file(&mut device, &file) {
        Ok(()) => Ok(true),
        Err(unapplied) if unapplied.to_string().is_empty() => {
            Err(Fault::new("not applied without an error", ""))
        }
        Err(_) => Ok(false),
    }
}

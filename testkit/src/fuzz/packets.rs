//! The target `packets`: random scenarios through programs. Packets must be conserved, scenarios
//! must end, and results must not depend on how the work is divided into steps.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use ir::Program;
use support::rng::Rng;

use super::corpus::Seed;
use super::minimise::minimise;
use super::play::{Playing, Portions, Transcript};
use super::scenario::{Act, Material, material, scenario};
use super::{Case, Fault, front};

/// Maximum number of attempts to shorten a failing scenario.
const ATTEMPTS: usize = 600;

/// Same for a scenario that exceeds the time limit.
const SLOW_ATTEMPTS: usize = 8;

/// Maximum number of mutants of a text tried until the front end accepts one.
const MUTANTS: usize = 6;

/// Runs one random scenario. Returns a fault if something is wrong.
pub(crate) fn case(seeds: &[Seed], case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let (text, program, test) = program(seeds, case, &mut choices)?;
    let material = material(&program, test.unwrap_or_default());
    let other = compiled(choices.pick(seeds)?, case.limit)?;
    let programs = [Arc::clone(&program), other];
    let acts = scenario(&program, &material, &mut choices);
    judged(case, &text, acts, |acts| judge(&programs, acts, case.limit))
}

/// Result of judging a scenario.
pub(crate) type Judged = Result<(), Fault>;

/// Judges a scenario on the program of `text`. Returns a fault with the shortest scenario that
/// causes it.
pub(crate) fn judged(
    case: &Case<'_>,
    text: &str,
    acts: Vec<Act>,
    judge: impl Fn(&[Act]) -> Judged,
) -> Option<(Fault, String)> {
    case.accept();
    case.keep_running(text);
    let fault = judge(&acts).err()?;
    let attempts = match fault.signature.as_str() {
        "time limit" => SLOW_ATTEMPTS,
        _ => ATTEMPTS,
    };
    let fails = |fewer: &[Act]| judge(fewer).is_err_and(|other| other.signature == fault.signature);
    let acts = match case.is_new(&fault) {
        true => minimise(acts, attempts, fails),
        false => acts,
    };
    let lines: Vec<String> = acts.iter().map(line).collect();
    Some((fault, format!("{}{text}", lines.concat())))
}

/// Plays random scenarios on the program of a text, if it is valid.
///
/// # Errors
/// A fault in the front end or in a scenario.
pub(crate) fn examine(text: &str, scenarios: u64, limit: Duration) -> Result<(), Fault> {
    let Some(program) = front::examine(text, limit)? else {
        return Ok(());
    };
    let programs = [Arc::clone(&program), Arc::clone(&program)];
    for seed in 0..scenarios {
        let acts = scenario(&program, &Material::default(), &mut Rng::new(seed));
        judge(&programs, &acts, limit)?;
    }
    Ok(())
}

/// Formats an act in one line.
fn line(act: &Act) -> String {
    let Act::Packets(now, packets) = act else {
        return format!("// {act:?}\n");
    };
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let packets = packets
        .iter()
        .map(|(port, bytes)| format!(" {port}:{}", hex(bytes)));
    format!("// Packets at {}{}\n", now.0, packets.collect::<String>())
}

/// Returns a program of the corpus, or an accepted mutant of one.
pub(crate) fn program<'s>(
    seeds: &'s [Seed],
    case: &Case<'_>,
    choices: &mut Rng,
) -> Option<(String, Arc<Program>, Option<&'s str>)> {
    if choices.one_in(2) {
        for _ in 0..MUTANTS {
            let text = front::mutant(seeds, choices)?;
            // Faults of the front end belong to the target `front`.
            if let Ok(Some(program)) = front::examine(&text, case.limit) {
                return Some((text, program, None));
            }
        }
    }
    let seed = choices.pick(seeds)?;
    Some((
        seed.text.clone(),
        compiled(seed, case.limit)?,
        seed.test.as_deref(),
    ))
}

/// Returns the program of a corpus text. It is compiled once.
fn compiled(seed: &Seed, limit: Duration) -> Option<Arc<Program>> {
    static COMPILED: LazyLock<Mutex<BTreeMap<std::path::PathBuf, Option<Arc<Program>>>>> =
        LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().ok()?;
    let known = compiled.entry(seed.path.clone());
    known
        .or_insert_with(|| front::examine(&seed.text, limit).ok().flatten())
        .clone()
}

/// Plays a scenario with every division into steps.
fn judge(programs: &[Arc<Program>; 2], acts: &[Act], limit: Duration) -> Judged {
    let play = |portions| {
        let playing = Playing {
            programs: programs.clone(),
            engine: Arc::new(interp::Interp),
            portions,
        };
        playing.guarded(acts, limit)
    };
    let Some(reference) = play(Portions::Batches)? else {
        return Ok(());
    };
    let again = play(Portions::Batches)?;
    same("the same scenario gives another result", &reference, again)?;
    for portions in [Portions::Packets, Portions::Bursts, Portions::Traced] {
        let other = play(portions)?;
        same(
            &format!("{portions:?} give another result than batches"),
            &reference,
            other,
        )?;
    }
    // Entries that packets added expire at periodic scans, which depend on the steps.
    let learns = |program: &Arc<Program>| program.tables.values().any(|table| table.add_on_miss);
    if !programs.iter().any(learns) {
        let other = play(Portions::Events)?;
        same(
            "steps at events give another result than batches",
            &reference,
            other,
        )?;
    }
    Ok(())
}

pub(crate) fn same(
    signature: &str,
    one: &Transcript,
    other: Option<Transcript>,
) -> Result<(), Fault> {
    let other = other.unwrap_or_default();
    if *one == other {
        return Ok(());
    }
    let nothing = String::from("(nothing)");
    let longest = one.len().max(other.len());
    let differing = (0..longest).map(|at| {
        (
            one.get(at).unwrap_or(&nothing),
            other.get(at).unwrap_or(&nothing),
        )
    });
    let first = differing.into_iter().find(|(a, b)| a != b);
    let detail = first.map_or(String::new(), |(a, b)| format!("- {a}\n+ {b}"));
    Err(Fault::new(signature, detail))
}

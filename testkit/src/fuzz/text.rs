//! The target `text`: random v1model programs, printed as P4 text. The text compiles, and the
//! program that comes of it gives the same results.

use std::sync::Arc;

use ir::{Arch, Program};
use support::rng::Rng;

use super::corpus::Seed;
use super::packets::{Judged, judged, program, same};
use super::play::{Playing, Portions};
use super::scenario::{Act, Material, material, scenario};
use super::{Case, Fault, front, generate};

/// Prints one random program, and plays a random scenario on it and on what its text means.
/// Returns a fault if the text is refused or the results differ.
pub(crate) fn case(seeds: &[Seed], case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let (text, program, material) = match choices.one_in(4) {
        true => {
            let (text, program, test) = program(seeds, case, &mut choices)?;
            let material = material(&program, test.unwrap_or_default());
            (text, program, material)
        }
        false => {
            let text = generate::program(&mut choices);
            let program = front::examine(&text, case.limit).ok().flatten();
            (text, program?, Material::default())
        }
    };
    if program.arch != Arch::V1model || logs_its_source(&program) {
        return None;
    }
    // A construct without P4 text is an error, not a fault.
    let printed = passes::p4::print(&program).ok()?;
    let again = match front::examine(&printed, case.limit) {
        Ok(Some(again)) => again,
        Ok(None) => {
            let detail = crate::compile_text(&printed).err().unwrap_or_default();
            let fault = Fault::new("the printed text is refused", detail);
            return Some((fault, both(&text, &printed)));
        }
        Err(fault) => return Some((fault, both(&text, &printed))),
    };
    // Acts have the numbers of objects, and these are in the order of their first use.
    if names_of_objects(&program) != names_of_objects(&again) {
        return None;
    }
    let acts = scenario(&program, &material, &mut choices);
    let judge = |acts: &[Act]| judge(&program, &again, acts, case);
    let (fault, input) = judged(case, &text, acts, judge)?;
    Some((fault, both(&input, &printed)))
}

/// Returns the names of tables and extern objects, in the order of their numbers.
fn names_of_objects(program: &Program) -> Vec<&str> {
    let tables = program.tables.iter().map(|(_, table)| &*table.name);
    let externs = program.externs.iter().map(|(_, object)| &*object.name);
    tables.chain(externs).collect()
}

/// Returns true if the program logs the text of a condition, which the printed text writes in
/// another way.
fn logs_its_source(program: &Program) -> bool {
    let text = program.to_string();
    ["call assert ", "call assume "]
        .iter()
        .any(|call| text.contains(call))
}

fn both(text: &str, printed: &str) -> String {
    format!("{text}\n// ---- printed\n{printed}")
}

fn judge(program: &Arc<Program>, again: &Arc<Program>, acts: &[Act], case: &Case<'_>) -> Judged {
    let mut played = Vec::new();
    for program in [program, again] {
        let playing = Playing {
            programs: [Arc::clone(program), Arc::clone(program)],
            engine: Arc::new(interp::Interp),
            portions: Portions::Batches,
        };
        let Some(transcript) = playing.guarded(acts, case.limit)? else {
            return Ok(());
        };
        played.push(transcript);
    }
    let again = played.pop();
    let first = played.pop().unwrap_or_default();
    same("the printed program gives another result", &first, again)
}

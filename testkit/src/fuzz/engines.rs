//! The target `engines`: random programs and scenarios. All engines must give the same results,
//! frame by frame and in bursts.

use std::sync::Arc;

use ir::Program;
use support::rng::Rng;

use super::corpus::Seed;
use super::packets::{Judged, judged, program};
use super::play::{Playing, Portions};
use super::scenario::{Act, Material, material, scenario};
use super::{Case, Fault, front, generate};

/// Runs one random program and scenario. Returns a fault if the engines disagree.
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
    let acts = scenario(&program, &material, &mut choices);
    judged(case, &text, acts, |acts| judge(&program, acts, case))
}

/// Plays a scenario on all engines, in batches, in bursts, and with specialised code.
pub(crate) fn judge(program: &Arc<Program>, acts: &[Act], case: &Case<'_>) -> Judged {
    let programs = [Arc::clone(program), Arc::clone(program)];
    let mut reference = None;
    for engine in crate::engines() {
        for portions in [Portions::Batches, Portions::Bursts, Portions::Specialised] {
            let playing = Playing {
                programs: programs.clone(),
                engine: Arc::clone(&engine),
                portions,
            };
            let Some(played) = playing.guarded(acts, case.limit)? else {
                return Ok(());
            };
            match &reference {
                None => reference = Some(played),
                Some(reference) => {
                    let name = engine.name();
                    let what = format!("{portions:?} on {name} give another result");
                    super::packets::same(&what, reference, Some(played))?;
                }
            }
        }
    }
    Ok(())
}

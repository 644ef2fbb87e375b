//! Changes of single stages after which a vPDP does what another of the functions does.

use std::sync::Arc;

use ir::{BlockCode, BlockRole, Program};
use passes::edit::{Donor, Edit, Side};
use tenancy::Function;

use super::VERSIONS;

/// Stage slots of both switches: the workload's program goes through them in one turn, with a step more in several.
pub(super) const SLOTS: u16 = 2;

/// Where in the functions a stamp stands that is a step in front of the workload's.
const STAMP_FIRST: usize = 1;

/// The names of the stages of each ingress control, one control behind the other.
pub(super) fn ingress_stages(program: &Program) -> Vec<Vec<&str>> {
    let blocks = program.pipeline.blocks.iter();
    let ingress = blocks.filter(|block| block.role == BlockRole::Ingress);
    let stages = ingress.filter_map(|block| match block.code {
        BlockCode::Control(id) => Some(program.controls[id].stages.values()),
        _ => None,
    });
    stages
        .map(|stages| stages.map(|stage| stage.name.as_str()).collect())
        .collect()
}

/// A step that stamps, with its only ingress stage.
struct Stamp<'f> {
    program: &'f Arc<Program>,
    stage: &'f str,
}

impl<'f> Stamp<'f> {
    fn of_version(functions: &'f [Function], version: usize) -> Option<Stamp<'f>> {
        let Function::Chain(chain) = functions.get(STAMP_FIRST * VERSIONS + version)? else {
            return None;
        };
        let program = chain.programs.get("stamp")?;
        let stage = ingress_stages(program).first()?.first().copied()?;
        Some(Stamp { program, stage })
    }

    fn donor<'s>(&'s self, prefix: &'s str, scope: &'s str) -> Donor<'s> {
        Donor {
            program: self.program,
            stage: self.stage,
            prefix,
            scope,
        }
    }
}

/// Changes a stage of what a vPDP runs, which does what this function does, by `make`; the function that it does then. What comes along gets a prefix.
///
/// A stamp is put in front of the workload's stages, one in front of them becomes one of another version, and those behind them go. None if the
/// functions are others than [`super::functions`].
pub(super) fn edit<E>(
    (functions, function): (&[Function], usize),
    given: &Program,
    prefix: &str,
    make: impl FnOnce(usize, &Edit<'_>) -> Result<(), E>,
) -> Option<Result<usize, E>> {
    let (policy, version) = (function / VERSIONS, function % VERSIONS);
    let stages = ingress_stages(given);
    let first = stages.first()?.first()?;
    let scope = scope(given)?;
    let made = |next: usize, edit: &Edit<'_>| make(next, edit).map(|()| next);
    Some(match policy {
        0 => {
            let new = Stamp::of_version(functions, version)?;
            let edit = Edit::Insert {
                stage: first,
                side: Side::Before,
                new: new.donor(prefix, scope),
            };
            made(STAMP_FIRST * VERSIONS + version, &edit)
        }
        STAMP_FIRST => {
            let version = (version + 1) % VERSIONS;
            let by = Stamp::of_version(functions, version)?;
            let edit = Edit::Replace {
                stage: first,
                by: by.donor(prefix, scope),
            };
            made(STAMP_FIRST * VERSIONS + version, &edit)
        }
        _ => {
            let stage = stages.last()?.first()?;
            made(version, &Edit::Delete { stage })
        }
    })
}

/// What stands in front of the names of the first step's headers.
fn scope(program: &Program) -> Option<&str> {
    let mut headers = program.headers.values();
    headers.find_map(|header| header.name.strip_suffix("hdr.ethernet"))
}

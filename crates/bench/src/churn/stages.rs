//! Edits of single stages that turn one function into another.

use std::sync::Arc;

use ir::{BlockCode, BlockRole, Program};
use passes::edit::{Donor, Edit, Side};
use tenancy::Function;

use super::VERSIONS;

/// Number of stage slots of both switches. The workload's program passes them in one round. With
/// an additional step, it needs several rounds.
pub(super) const SLOTS: u16 = 2;

/// Index of the policy in which `stamp` precedes the workload's step.
const STAMP_FIRST: usize = 1;

/// Returns the stage names of each ingress control, in order.
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

/// A `stamp` program with its only ingress stage.
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

/// Edits a stage of a running program with this function, by calling `make`. Returns the resulting
/// function. `prefix` is added to the names of inserted objects.
///
/// A program without `stamp` gets one before its stages. A leading `stamp` is replaced by the
/// other version. A trailing one is deleted. Returns `None` if the functions are not those of
/// [`super::functions`].
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

/// Returns the prefix of the first step's header names.
fn scope(program: &Program) -> Option<&str> {
    let mut headers = program.headers.values();
    headers.find_map(|header| header.name.strip_suffix("hdr.ethernet"))
}

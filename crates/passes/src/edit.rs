//! Edits of single stages: deletes, moves, replaces or inserts a stage.
//!
//! A stage is identified by its name ([`ir::Stage::name`]), which is unique in the program. A stage
//! from another program brings its table, actions and externs along, under a prefix, like a step of
//! a chain. Its code uses the fields of the same names, which must exist with the same types. Only
//! a variable that the stage itself writes may be new.
//!
//! A deleted stage leaves its table in place, so the entries are still there when the stage comes
//! back. What it would have written keeps its old value. An edited program is verified. On an error
//! nothing is changed.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bits::Id;
use ir::{
    Control, ControlId, FieldId, HeaderId, MatchNext, Next, Program, ScalarTy, Stage, StageId,
    StageKind, VerifyError,
};

use support::work::checkpoint;

use crate::link::{self, Known, LinkError};
use crate::simplify::links;
use crate::slots::nexts;
use crate::uses::{Uses, fields_of};

/// A stage of another program, for insertion into this one.
#[derive(Clone, Copy, Debug)]
pub struct Donor<'p> {
    /// The program, which the verifier accepts.
    pub program: &'p Program,
    /// The stage's name in it.
    pub stage: &'p str,
    /// Prefix for the names of the items that it brings along.
    pub prefix: &'p str,
    /// Prefix of the names of the fields that it uses, with a dot at the end. In a chain: the name
    /// of the first step merged with the stage's step (`l3_sw.`). Empty for a program that is not a
    /// chain.
    pub scope: &'p str,
}

/// Side of a stage on which another one is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// All links to the stage then lead to the new one, which leads to the stage.
    Before,
    /// The new stage comes between the stage and its successor. The stage must have one successor.
    After,
}

/// A change of one stage.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'e> {
    /// Removes the stage; its predecessors continue with its successor. The stage must have one
    /// successor. Its table stays.
    Delete {
        /// The stage.
        stage: &'e str,
    },
    /// Replaces the stage by another one, which inherits its links.
    Replace {
        /// The stage.
        stage: &'e str,
        /// The replacement.
        by: Donor<'e>,
    },
    /// Inserts another stage next to this one.
    Insert {
        /// The stage.
        stage: &'e str,
        /// The side.
        side: Side,
        /// The new stage.
        new: Donor<'e>,
    },
    /// Moves the stage, which must have one successor, next to another one of its control.
    Move {
        /// The stage.
        stage: &'e str,
        /// Side of the other one.
        side: Side,
        /// The other one.
        of: &'e str,
    },
}

/// Error of an edit.
#[derive(Clone, Debug, PartialEq)]
pub enum EditError {
    /// A program has no stage of this name.
    UnknownStage {
        /// The program.
        program: String,
        /// The name.
        stage: String,
        /// The stages that it has.
        known: Vec<String>,
    },
    /// Several controls have a stage of this name.
    AmbiguousStage {
        /// The name.
        stage: String,
        /// The controls.
        controls: Vec<String>,
    },
    /// The stage has several successors, and nothing would decide among them.
    Decides {
        /// The stage.
        stage: String,
    },
    /// The target of a move is the stage itself or is in another control.
    Elsewhere {
        /// The stage.
        stage: String,
        /// The other one.
        of: String,
    },
    /// A stage from another program has several successors, and its new place does not provide
    /// them.
    OtherWays {
        /// The stage.
        stage: String,
    },
    /// A stage needs a field that the program lacks or has with another type.
    MissingField {
        /// The stage.
        stage: String,
        /// The field.
        field: String,
        /// True if the field exists with another type.
        is_other: bool,
    },
    /// The items that a stage brings along conflict with existing ones.
    Link(LinkError),
    /// The name of an item that a stage brings along is taken. Another prefix avoids this.
    NameTaken {
        /// The name.
        name: String,
    },
    /// The program breaks a rule of the IR.
    Verify(Vec<VerifyError>),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::UnknownStage {
                program,
                stage,
                known,
            } => write!(
                f,
                "{program} has no stage `{stage}`; its stages are {}",
                known.join(", ")
            ),
            EditError::AmbiguousStage { stage, controls } => write!(
                f,
                "several controls have a stage `{stage}`: {}; compose the program as a step of a chain, so that its stages have its name in front",
                controls.join(", ")
            ),
            EditError::Decides { stage } => write!(
                f,
                "`{stage}` decides where packets go, and without it nothing would; replace it instead, or delete what it decides first"
            ),
            EditError::Elsewhere { stage, of } => write!(
                f,
                "`{stage}` cannot be put beside `{of}`; choose another stage of the same control"
            ),
            EditError::OtherWays { stage } => write!(
                f,
                "`{stage}` decides where packets go, but here is one way on; choose a stage that leads to one place"
            ),
            EditError::MissingField {
                stage,
                field,
                is_other: false,
            } => write!(
                f,
                "`{stage}` needs the field {field}, which the program has not; let both parse and keep the same headers"
            ),
            EditError::MissingField { stage, field, .. } => write!(
                f,
                "`{stage}` needs the field {field}, which has another type here; let both declare it in the same way"
            ),
            EditError::Link(error) => error.fmt(f),
            EditError::NameTaken { name } => {
                write!(f, "there is a `{name}` already; give another prefix")
            }
            EditError::Verify(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                write!(f, "the program would not be sound: {}", errors.join("; "))
            }
        }
    }
}

impl std::error::Error for EditError {}

/// Returns the program with one stage changed.
///
/// # Errors
/// The reason why the edit is not possible.
pub fn edit(program: &Program, edit: &Edit<'_>) -> Result<Program, EditError> {
    let mut edited = program.clone();
    match edit {
        Edit::Delete { stage } => delete(&mut edited, stage)?,
        Edit::Replace { stage, by } => replace(&mut edited, stage, by)?,
        Edit::Insert { stage, side, new } => insert(&mut edited, stage, *side, new)?,
        Edit::Move { stage, side, of } => move_beside(&mut edited, stage, *side, of)?,
    }
    ir::verify(&edited).map_err(EditError::Verify)?;
    Ok(edited)
}

/// Checks that the program has exactly one stage of this name.
///
/// # Errors
/// The program has no such stage, or several.
pub fn check_stage(program: &Program, stage: &str) -> Result<(), EditError> {
    find(program, stage).map(drop)
}

/// A stage of a program.
#[derive(Clone, Copy)]
struct Found {
    control: ControlId,
    stage: StageId,
}

fn find(program: &Program, name: &str) -> Result<Found, EditError> {
    let mut found = Vec::new();
    for (control, code) in program.controls.iter() {
        let stages = code.stages.iter().filter(|(_, stage)| {
            checkpoint();
            stage.name == name
        });
        found.extend(stages.map(|(stage, _)| Found { control, stage }));
    }
    match found[..] {
        [one] => Ok(one),
        [] => {
            let stages = program.controls.values().flat_map(|c| c.stages.values());
            Err(EditError::UnknownStage {
                program: program.name.clone(),
                stage: name.to_owned(),
                known: stages.map(|stage| stage.name.clone()).collect(),
            })
        }
        _ => {
            let controls = found.iter();
            let controls = controls.map(|found| program.controls[found.control].name.clone());
            Err(EditError::AmbiguousStage {
                stage: name.to_owned(),
                controls: controls.collect(),
            })
        }
    }
}

/// Returns the successor of a stage that has only one.
fn way_on(stage: &Stage) -> Option<Next> {
    let ways = nexts(&stage.kind);
    let (first, others) = ways.split_first()?;
    others.iter().all(|way| way == first).then_some(*first)
}

fn delete(program: &mut Program, name: &str) -> Result<(), EditError> {
    let found = find(program, name)?;
    let control = &mut program.controls[found.control];
    let next = way_on(&control.stages[found.stage]).ok_or_else(|| EditError::Decides {
        stage: name.to_owned(),
    })?;
    let at = found.stage.index();
    let is_circle = next == Next::Stage(found.stage);
    if is_circle || at == 0 && next != Next::Stage(StageId::from_index(1)) {
        // A control starts at its first stage, so this one stays as an empty stage.
        let body = Vec::new();
        let next = if is_circle { Next::End } else { next };
        control.stages[found.stage].kind = StageKind::Action { body, next };
        return Ok(());
    }
    let mut stages = std::mem::take(&mut control.stages).into_vec();
    stages.remove(at);
    for link in stages.iter_mut().flat_map(|stage| links(&mut stage.kind)) {
        checkpoint();
        let to = if *link == Next::Stage(found.stage) {
            next
        } else {
            *link
        };
        *link = match to {
            Next::Stage(id) if id.index() > at => Next::Stage(StageId::from_index(id.index() - 1)),
            same => same,
        };
    }
    control.stages = stages.into_iter().collect();
    Ok(())
}

fn replace(program: &mut Program, name: &str, by: &Donor<'_>) -> Result<(), EditError> {
    let found = find(program, name)?;
    let mut new = donated(program, by)?;
    let old = &program.controls[found.control].stages[found.stage];
    take_ways(&mut new, old).ok_or_else(|| EditError::OtherWays {
        stage: by.stage.to_owned(),
    })?;
    program.controls[found.control].stages[found.stage] = new;
    Ok(())
}

/// Copies the links of another stage: each one if both decide alike, else the only successor.
fn take_ways(new: &mut Stage, old: &Stage) -> Option<()> {
    match (&mut new.kind, &old.kind) {
        (
            StageKind::Condition {
                then, otherwise, ..
            },
            StageKind::Condition {
                then: old_then,
                otherwise: old_otherwise,
                ..
            },
        ) => {
            (*then, *otherwise) = (*old_then, *old_otherwise);
            Some(())
        }
        (StageKind::Match { next, .. }, StageKind::Match { next: old_next, .. })
            if matches!(
                (&*next, old_next),
                (MatchNext::ByHit { .. }, MatchNext::ByHit { .. })
            ) =>
        {
            next.clone_from(old_next);
            Some(())
        }
        _ => {
            let one = way_on(old)?;
            way_on(new)?;
            links(&mut new.kind).into_iter().for_each(|way| *way = one);
            Some(())
        }
    }
}

fn insert(program: &mut Program, name: &str, side: Side, new: &Donor<'_>) -> Result<(), EditError> {
    find(program, name)?;
    let stage = donated(program, new)?;
    way_on(&stage).ok_or_else(|| EditError::OtherWays {
        stage: new.stage.to_owned(),
    })?;
    put_beside(program, stage, side, name)
}

fn move_beside(program: &mut Program, name: &str, side: Side, of: &str) -> Result<(), EditError> {
    let (found, other) = (find(program, name)?, find(program, of)?);
    if found.control != other.control || found.stage == other.stage {
        return Err(EditError::Elsewhere {
            stage: name.to_owned(),
            of: of.to_owned(),
        });
    }
    let stages = &program.controls[found.control].stages;
    let (stage, count) = (stages[found.stage].clone(), stages.len());
    delete(program, name)?;
    let stages = &mut program.controls[found.control].stages;
    if stages.len() == count {
        // The control's first position stays as an empty stage. The name moves with the stage.
        stages[found.stage].name = format!("{name}.$place$");
    }
    put_beside(program, stage, side, of)
}

/// Inserts a stage with one successor next to the stage of this name.
fn put_beside(
    program: &mut Program,
    mut stage: Stage,
    side: Side,
    name: &str,
) -> Result<(), EditError> {
    let found = find(program, name)?;
    let control = &mut program.controls[found.control];
    let at = match side {
        Side::Before => found.stage.index(),
        Side::After => found.stage.index() + 1,
    };
    let next = match side {
        Side::Before => Next::Stage(StageId::from_index(at + 1)),
        Side::After => {
            let next = way_on(&control.stages[found.stage]);
            let next = next.ok_or_else(|| EditError::Decides {
                stage: name.to_owned(),
            })?;
            moved(next, at, Side::After)
        }
    };
    links(&mut stage.kind)
        .into_iter()
        .for_each(|way| *way = next);
    make_room(control, at, side);
    let mut stages = std::mem::take(&mut control.stages).into_vec();
    if side == Side::After {
        let here = Next::Stage(StageId::from_index(at));
        links(&mut stages[at - 1].kind)
            .into_iter()
            .for_each(|way| *way = here);
    }
    stages.insert(at, stage);
    control.stages = stages.into_iter().collect();
    Ok(())
}

/// Adjusts a link after an insertion at a position. Links to the stage there lead to the new one if
/// that comes before it.
fn moved(next: Next, at: usize, side: Side) -> Next {
    match next {
        Next::Stage(id) if id.index() > at || id.index() == at && side == Side::After => {
            Next::Stage(StageId::from_index(id.index() + 1))
        }
        same => same,
    }
}

fn make_room(control: &mut Control, at: usize, side: Side) {
    for (_, stage) in control.stages.iter_mut() {
        checkpoint();
        for link in links(&mut stage.kind) {
            *link = moved(*link, at, side);
        }
    }
}

/// Imports a stage of another program, with all that it needs. Its links still have the other
/// program's ids.
fn donated(program: &mut Program, donor: &Donor<'_>) -> Result<Stage, EditError> {
    let found = find(donor.program, donor.stage)?;
    let control = &donor.program.controls[found.control];
    let alone = Control {
        name: control.name.clone(),
        stages: [control.stages[found.stage].clone()].into_iter().collect(),
    };
    let uses = Uses::of_control(donor.program, &alone);
    let known = known(program, donor, uses)?;
    free(program, donor.prefix)?;
    let places = link::link(program, donor.program, donor.prefix, &known);
    let linked = places
        .map_err(EditError::Link)?
        .control(&alone, donor.prefix);
    let unknown = || EditError::UnknownStage {
        program: donor.program.name.clone(),
        stage: donor.stage.to_owned(),
        known: Vec::new(),
    };
    linked.stages.into_vec().pop().ok_or_else(unknown)
}

/// Checks that no name of the program begins with this prefix.
fn free(program: &Program, prefix: &str) -> Result<(), EditError> {
    let prefix = format!("{prefix}.");
    let fields = program.fields.values().map(|field| &field.name);
    let actions = program.actions.values().map(|action| &action.name);
    let tables = program.tables.values().map(|table| &table.name);
    let externs = program.externs.values().map(|instance| &instance.name);
    let mut names = fields.chain(actions).chain(tables).chain(externs);
    let mut has_prefix = |name: &&String| {
        checkpoint();
        name.starts_with(&prefix)
    };
    match names.find(&mut has_prefix) {
        Some(name) => Err(EditError::NameTaken { name: name.clone() }),
        None => Ok(()),
    }
}

/// Finds the storage of the other program that exists already: headers and fields of the same
/// names.
fn known(program: &Program, donor: &Donor<'_>, uses: Uses) -> Result<Known, EditError> {
    let mut known = Known::default();
    let there: HashMap<&str, FieldId> = program
        .fields
        .iter()
        .map(|(id, field)| (field.name.as_str(), id))
        .collect();
    let headers: HashMap<&str, HeaderId> = program
        .headers
        .iter()
        .map(|(id, header)| (header.name.as_str(), id))
        .collect();
    let intrinsics: HashSet<FieldId> = donor
        .program
        .pipeline
        .intrinsics
        .values()
        .copied()
        .collect();
    let in_headers: HashSet<FieldId> = donor
        .program
        .headers
        .ids()
        .flat_map(|header| fields_of(donor.program, header))
        .collect();
    let mut used: Vec<FieldId> = uses.reads.union(&uses.writes).copied().collect();
    used.sort();
    for id in used {
        checkpoint();
        if intrinsics.contains(&id) {
            continue;
        }
        let field = &donor.program.fields[id];
        let missing = |is_other| EditError::MissingField {
            stage: donor.stage.to_owned(),
            field: field.name.clone(),
            is_other,
        };
        match there.get(format!("{}{}", donor.scope, field.name).as_str()) {
            Some(&place) if is_same_type((program, place), (donor.program, id)) => {
                known.fields.insert(id, place);
            }
            Some(_) => return Err(missing(true)),
            // A variable that the stage itself writes belongs to the stage.
            None if uses.writes.contains(&id) && !in_headers.contains(&id) => {}
            None => return Err(missing(false)),
        }
    }
    for (id, header) in donor.program.headers.iter() {
        checkpoint();
        let place = headers.get(format!("{}{}", donor.scope, header.name).as_str());
        known.headers.extend(place.map(|&place| (id, place)));
    }
    known.only = Some(uses);
    Ok(known)
}

/// Returns true if two programs' fields have the same type. Enums are compared by names and
/// members.
fn is_same_type((one, a): (&Program, FieldId), (other, b): (&Program, FieldId)) -> bool {
    match (one.fields[a].ty, other.fields[b].ty) {
        (ScalarTy::Enum(a), ScalarTy::Enum(b)) => one.enums[a] == other.enums[b],
        (a, b) => a == b,
    }
}

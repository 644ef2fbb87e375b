//! Stages of vPDPs' programs: single changes, and their report with the slots that they occupy.

use ir::{BlockRole, Program};
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::edit_stage::Edit as Asked;
use p4rt::Answer;
use passes::edit::{Donor, Edit, Side};
use passes::slots::{Demand, Pipe, Placement, SlotMap};
use support::name;
use switch::{MayLose, MigrationMode};
use tenancy::{Maker, VpdpId};

use crate::tenancy_host::compile_job::{self, Next, Work};
use crate::tenancy_host::control_loop::ControlLoop;
use crate::tenancy_host::requests::{Answered, invalid, refused};

impl ControlLoop {
    /// Edits a stage, or moves it to another slot.
    pub(super) fn edit_stage(
        &mut self,
        asked: wire::EditStage,
        answer: Answer<wire::ChangeResponse>,
    ) {
        let found = self.edited(asked);
        self.prepare(found, answer);
    }

    /// Returns the task that edits the program, with the size in bytes of the text that provides
    /// a stage.
    fn edited(&self, asked: wire::EditStage) -> Answered<(VpdpId, usize, Work)> {
        let id = self.id(&asked.vpdp)?;
        let bytes = donor(&asked).map_or(0, |donor| donor.program.len());
        let work = move |maker: &Maker| match asked.edit {
            Some(Asked::MoveToSlot(slot)) => move_to_slot(maker, &asked.stage, Some(slot)),
            Some(Asked::MoveToAnySlot(wire::AnySlot {})) => move_to_slot(maker, &asked.stage, None),
            _ => edit_with(maker, &asked),
        };
        Ok((id, bytes, Box::new(work)))
    }

    /// Returns the content of the stage slots.
    pub(super) fn tell_slots(&self) -> wire::Slots {
        let view = self.hypervisor.slots();
        let capacity = view.plan.capacity;
        let tell = |id: &VpdpId, map: &SlotMap, is_coming| {
            let vpdp = self.hypervisor.vpdp(*id)?;
            Some(wire::SlottedProgram {
                vpdp: id.get().into(),
                name: vpdp.name().to_owned(),
                turns: map.turns(),
                stages: map.placements.iter().map(stage).collect(),
                is_coming,
                slotless: map.slotless,
            })
        };
        // The empty program is left out.
        let has_program = |id: &VpdpId| {
            let vpdp = self.hypervisor.vpdp(*id);
            vpdp.is_some_and(|vpdp| !self.runs_nothing(vpdp))
        };
        let running = view.programs.iter().filter(|(id, _)| has_program(id));
        let running = running.filter_map(|(id, map)| tell(id, map, false));
        let coming = view.coming.iter();
        let coming = coming.filter_map(|(id, map)| tell(id, map, true));
        wire::Slots {
            count: view.plan.slots.map(|slots| slots.get().into()),
            tables: capacity.tables,
            entries: capacity.entries,
            memory: capacity.memory,
            held: view.held.into_iter().map(demand).collect(),
            programs: running.chain(coming).collect(),
        }
    }
}

fn move_to_slot(maker: &Maker, stage: &str, slot: Option<u32>) -> Answered<Next> {
    let moved = maker.move_to_slot(stage, slot);
    moved.map(Next::Moved).map_err(refused)
}

/// Edits a stage of a vPDP's program.
fn edit_with(maker: &Maker, asked: &wire::EditStage) -> Answered<Next> {
    let program = donor(asked).map(|donor| {
        p4rt::read_program(&compile_job::compile_text, &donor.program).map_err(invalid)
    });
    let program = program.transpose()?;
    for (what, text) in texts(asked) {
        if !text.is_empty() {
            name::check(what, text).map_err(invalid)?;
        }
    }
    let scope = scope(asked);
    let edit = edit(asked, program.as_ref(), &scope)
        .ok_or_else(|| invalid("the request changes nothing of the stage"))?;
    let made = maker.edit(&edit).map_err(refused)?;
    // Tables of removed stages stay, with their entries, so no state is lost.
    compile_job::other(made, MigrationMode::State(MayLose::Nothing))
}

/// Returns the donor: the other program that provides a stage.
fn donor(asked: &wire::EditStage) -> Option<&wire::Donor> {
    match asked.edit.as_ref()? {
        Asked::Replace(donor) | Asked::AddBefore(donor) | Asked::AddAfter(donor) => Some(donor),
        Asked::Delete(_)
        | Asked::MoveBefore(_)
        | Asked::MoveAfter(_)
        | Asked::MoveToSlot(_)
        | Asked::MoveToAnySlot(_) => None,
    }
}

/// Returns the names in a request, with their kinds. Names of stages have prefixes.
fn texts(asked: &wire::EditStage) -> Vec<(&'static str, &str)> {
    let mut texts = Vec::new();
    if let Some(donor) = donor(asked) {
        texts.push(("the prefix", donor.prefix.as_str()));
        texts.push(("a step's name", donor.step.as_str()));
    }
    texts
}

/// Returns the name prefix of the donor's stages.
fn scope(asked: &wire::EditStage) -> String {
    match donor(asked).map_or("", |donor| &donor.step) {
        "" => String::new(),
        step => format!("{step}."),
    }
}

/// Converts the request to an edit. `None` for moves between slots.
fn edit<'e>(
    asked: &'e wire::EditStage,
    program: Option<&'e Program>,
    scope: &'e str,
) -> Option<Edit<'e>> {
    let stage = asked.stage.as_str();
    let donor = |donor: &'e wire::Donor| {
        Some(Donor {
            program: program?,
            stage: &donor.stage,
            prefix: &donor.prefix,
            scope,
        })
    };
    let insert = |side, new| Some(Edit::Insert { stage, side, new });
    let beside = |side, of| Some(Edit::Move { stage, side, of });
    match asked.edit.as_ref()? {
        Asked::Delete(wire::DeleteStage {}) => Some(Edit::Delete { stage }),
        Asked::Replace(by) => Some(Edit::Replace {
            stage,
            by: donor(by)?,
        }),
        Asked::AddBefore(new) => insert(Side::Before, donor(new)?),
        Asked::AddAfter(new) => insert(Side::After, donor(new)?),
        Asked::MoveBefore(of) => beside(Side::Before, of),
        Asked::MoveAfter(of) => beside(Side::After, of),
        Asked::MoveToSlot(_) | Asked::MoveToAnySlot(_) => None,
    }
}

fn stage(place: &Placement) -> wire::SlottedStage {
    let kind = match place.pipe {
        Pipe::Condition => "condition",
        Pipe::Match => "match",
        Pipe::Action => "action",
    };
    let block = match place.role {
        BlockRole::PreControl => "pre control",
        BlockRole::Egress => "egress",
        // No other block uses slots.
        _ => "ingress",
    };
    wire::SlottedStage {
        name: place.name.clone(),
        kind: kind.to_owned(),
        block: block.to_owned(),
        slot: place.slot,
        turn: place.pass + 1,
        takes: Some(demand(place.demand)),
    }
}

fn demand(demand: Demand) -> wire::Demand {
    wire::Demand {
        tables: demand.tables,
        entries: demand.entries,
        memory: demand.memory,
    }
}

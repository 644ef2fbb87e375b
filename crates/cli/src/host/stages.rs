//! Stages of vPDPs' programs: changed one by one, and told of with the slots in which they are.

use std::sync::Arc;

use ir::{BlockRole, Program};
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::edit_stage::Edit as Asked;
use p4rt::Answer;
use passes::edit::{Donor, Edit, Side};
use passes::slots::{Demand, Pipe, Placement};

use crate::host::answer::{Answered, invalid, refused};
use crate::host::office::{Office, Purpose};

impl Office {
    /// Changes a stage; where another program gives one, when that is compiled.
    pub(super) fn edit_stage(
        &mut self,
        asked: wire::EditStage,
        answer: Answer<wire::ChangeResponse>,
    ) {
        match &asked.edit {
            Some(Asked::Replace(donor) | Asked::AddBefore(donor) | Asked::AddAfter(donor)) => {
                let (vpdp, text) = (asked.vpdp.clone(), donor.program.clone());
                self.compile(&vpdp, text, Purpose::Edit(asked), answer);
            }
            _ => answer.give(self.edit_by(&asked, None)),
        }
    }

    /// Changes a stage, with this program if another one gives a stage.
    pub(super) fn edit_by(
        &mut self,
        asked: &wire::EditStage,
        program: Option<&Program>,
    ) -> Answered<wire::ChangeResponse> {
        let id = self.id(&asked.vpdp)?;
        let changed = match asked.edit {
            Some(Asked::MoveToSlot(slot)) => self.hypervisor.move_to_slot(id, &asked.stage, slot),
            _ => {
                let scope = scope(asked);
                let edit = edit(asked, program, &scope)
                    .ok_or_else(|| invalid("the request changes nothing of the stage"))?;
                self.hypervisor.edit(id, &edit)
            }
        };
        let migration = changed.map_err(refused)?;
        // Its steps are what they were, but for the stage.
        let chain = self.chains.get(&id).cloned();
        self.set(id, chain, &migration)
    }

    /// What is in the stage slots.
    pub(super) fn tell_slots(&self) -> wire::Slots {
        let view = self.hypervisor.slots();
        let capacity = view.plan.capacity;
        let programs = view.programs.iter().filter_map(|(id, map)| {
            let vpdp = self.hypervisor.vpdp(*id)?;
            // What runs where there is no program is nobody's.
            let given = vpdp
                .given()
                .filter(|given| !Arc::ptr_eq(given, &self.empty));
            given.map(|_| wire::SlottedProgram {
                vpdp: id.get().into(),
                name: vpdp.name().to_owned(),
                turns: map.turns(),
                stages: map.placements.iter().map(stage).collect(),
            })
        });
        wire::Slots {
            count: view.plan.slots.map(|slots| slots.get().into()),
            tables: capacity.tables,
            entries: capacity.entries,
            memory: capacity.memory,
            held: view.held.into_iter().map(demand).collect(),
            programs: programs.collect(),
        }
    }
}

/// What stands in front of the names that a donor's stage is to find.
fn scope(asked: &wire::EditStage) -> String {
    let step = match &asked.edit {
        Some(Asked::Replace(donor) | Asked::AddBefore(donor) | Asked::AddAfter(donor)) => {
            &donor.step
        }
        _ => return String::new(),
    };
    match step.as_str() {
        "" => String::new(),
        step => format!("{step}."),
    }
}

/// What is asked, but for moves to slots.
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
        Asked::MoveToSlot(_) => None,
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
        // No other block takes slots.
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

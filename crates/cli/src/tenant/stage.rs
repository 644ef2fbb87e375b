//! `polyplane tenant stage`: edits single stages of a vPDP's program.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use p4info::polyplane::tenancy::v1 as wire;
use wire::edit_stage::Edit;

use super::text;
use crate::args::Source;
use crate::compile;
use crate::stage_slot::{Slot, read_slot};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Put a stage of a P4 program before or after an existing one, with its table, actions,
    /// counters and registers.
    Add(AddOptions),
    /// Delete a stage: packets go on with the stage after it, which must be a single one. Its
    /// table stays.
    Delete(Stage),
    /// Replace a stage by one of a P4 program, which leads where the old one led. The old table
    /// stays.
    Replace(ReplaceOptions),
    /// Move a stage within its control, or to another stage slot.
    Move(MoveOptions),
}

#[derive(Args)]
pub(super) struct Stage {
    /// The vPDP.
    vpdp: String,
    /// The stage, as `polyplane tenant slots` shows it.
    stage: String,
}

#[derive(Args)]
pub(super) struct AddOptions {
    /// The vPDP.
    vpdp: String,
    #[command(flatten)]
    donor: DonorOptions,
    #[command(flatten)]
    side: SideOptions,
}

#[derive(Args)]
pub(super) struct ReplaceOptions {
    #[command(flatten)]
    stage: Stage,
    #[command(flatten)]
    donor: DonorOptions,
}

#[derive(Args)]
pub(super) struct MoveOptions {
    #[command(flatten)]
    stage: Stage,
    #[command(flatten)]
    to: Destination,
}

#[derive(Args)]
struct DonorOptions {
    /// The P4 program that has the new stage. The stage reads and writes the headers and metadata
    /// of the same names.
    #[arg(value_name = "PROGRAM.p4")]
    program: PathBuf,
    /// The new stage's name there.
    #[arg(value_name = "NEW-STAGE")]
    new: String,
    /// Prefix of the new names; default: the name of the program's file.
    #[arg(long = "as", value_name = "NAME")]
    prefix: Option<String>,
    /// In a chain: the step that provides the headers and metadata of the stage, the first of
    /// those that are joined into one.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    step: String,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct SideOptions {
    /// The stage before which it is inserted: what led there leads to the new one.
    #[arg(long, value_name = "STAGE")]
    before: Option<String>,
    /// The stage after which it is inserted, which must lead to a single one.
    #[arg(long, value_name = "STAGE")]
    after: Option<String>,
}

#[derive(Args, Clone)]
#[group(required = true, multiple = false)]
struct Destination {
    /// The stage before which it is moved.
    #[arg(long, value_name = "STAGE")]
    before: Option<String>,
    /// The stage after which it is moved.
    #[arg(long, value_name = "STAGE")]
    after: Option<String>,
    /// The new stage slot of the stage, or `any`; what packets meet stays as it is.
    #[arg(long, value_name = "N|any", value_parser = read_slot)]
    slot: Option<Slot>,
}

impl From<Slot> for Edit {
    fn from(slot: Slot) -> Edit {
        match slot {
            Slot::Number(number) => Edit::MoveToSlot(number),
            Slot::Any => Edit::MoveToAnySlot(wire::AnySlot {}),
        }
    }
}

impl DonorOptions {
    /// Compiles the donor program. Shows errors, and returns `None` if there are any.
    fn read(&self) -> Result<Option<wire::Donor>, String> {
        let stem = self.program.file_stem().map(|stem| stem.to_string_lossy());
        let prefix = self.prefix.clone().or(stem.map(|stem| stem.into_owned()));
        let program = compile::compile(&Source::file(&self.program));
        Ok(program.map(|program| wire::Donor {
            program: text(&program),
            stage: self.new.clone(),
            prefix: prefix.unwrap_or_default(),
            step: self.step.clone(),
        }))
    }
}

impl Command {
    /// Returns the request to the switch. `None` if a program has errors, which are shown.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn asked(&self) -> Result<Option<wire::EditStage>, String> {
        Ok(match self {
            Command::Add(add) => add.donor.read()?.and_then(|donor| {
                let SideOptions { before, after } = &add.side;
                let before = before
                    .as_ref()
                    .map(|stage| (stage, Edit::AddBefore as AddEdit));
                let after = after
                    .as_ref()
                    .map(|stage| (stage, Edit::AddAfter as AddEdit));
                let (stage, edit) = before.or(after)?;
                Some(asked(&add.vpdp, stage, edit(donor)))
            }),
            Command::Delete(stage) => {
                let edit = Edit::Delete(wire::DeleteStage {});
                Some(asked(&stage.vpdp, &stage.stage, edit))
            }
            Command::Replace(replace) => replace.donor.read()?.map(|donor| {
                let Stage { vpdp, stage } = &replace.stage;
                asked(vpdp, stage, Edit::Replace(donor))
            }),
            Command::Move(moved) => {
                let Destination {
                    before,
                    after,
                    slot,
                } = moved.to.clone();
                let before = before.map(Edit::MoveBefore);
                let edit = before.or(after.map(Edit::MoveAfter));
                let Stage { vpdp, stage } = &moved.stage;
                let edit = edit.or(slot.map(Edit::from));
                edit.map(|edit| asked(vpdp, stage, edit))
            }
        })
    }
}

type AddEdit = fn(wire::Donor) -> Edit;

fn asked(vpdp: &str, stage: &str, edit: Edit) -> wire::EditStage {
    wire::EditStage {
        vpdp: vpdp.to_owned(),
        stage: stage.to_owned(),
        edit: Some(edit),
    }
}

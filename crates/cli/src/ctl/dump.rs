//! `polyplane ctl dump`: writes all state as an entries file.

use std::collections::HashMap;

use clap::Args;
use controller::{Catalog, Read};
use entries::{Object, Update};
use ir::ExternId;
use serde_json::Value;

use super::json;
use super::link::Link;
use super::list::{self, members_and_groups};
use super::state::{Part, Unsaid};
use crate::out;

#[derive(Args)]
pub(crate) struct DumpOptions {
    /// Leave out the values of counters, direct ones too.
    #[arg(long)]
    no_counters: bool,
    /// Leave out the cells of registers.
    #[arg(long)]
    no_registers: bool,
}

pub(crate) fn dump(link: &mut Link, options: &DumpOptions, as_json: bool) -> Result<(), String> {
    let catalog = link.catalog()?;
    let mut unsaid = Unsaid::default();
    let mut all = Vec::new();
    let mut write = |read: &Read| match as_json {
        true => all.push(json::update(&catalog, read)),
        false => out::line(&list::statement(&catalog, read)),
    };
    let wanted = parts(&catalog, !options.no_counters, !options.no_registers);
    for part in wanted {
        match part {
            Part::Cells(array, _) => {
                let mut cells = link.collect(&catalog, [part], &mut unsaid)?;
                shorten(&catalog, array, &mut cells);
                cells.iter().for_each(&mut write);
            }
            _ => link.read(&catalog, part, &mut unsaid, |read| {
                // A constant default action cannot be written.
                if !is_const_default(&catalog, &read.update) {
                    write(&read);
                }
            })?,
        }
    }
    let settings = link.client.settings();
    let settings = settings.map_err(|error| link.explain(&error))?;
    let settings = settings.unwrap_or_default();
    match as_json {
        true => {
            let lines = settings.lines();
            all.extend(lines.map(|line| serde_json::json!({ "statement": line })));
            out::json(&Value::Array(all));
        }
        false => out::text(&settings),
    }
    unsaid.note();
    Ok(())
}

pub(super) fn is_const_default(catalog: &Catalog, update: &Update) -> bool {
    match update {
        Update::SetDefault(table, _) => {
            let id = catalog.table_id(*table);
            let mut tables = catalog.info.tables.iter();
            let own = tables.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == id));
            // The default action of a table with an action profile is constant, too (section
            // 9.1.4).
            own.is_some_and(|own| own.const_default_action_id != 0 || own.implementation_id != 0)
        }
        _ => false,
    }
}

/// Returns the parts of the state in an order in which they can be written: members before
/// groups, groups before the entries that refer to them.
pub(super) fn parts(catalog: &Catalog, with_counters: bool, with_registers: bool) -> Vec<Part> {
    let schema = &catalog.schema;
    let mut parts: Vec<Part> = schema.value_sets.ids().map(Part::ValueSet).collect();
    parts.extend([Part::Multicast, Part::Clones]);
    for (id, instance) in schema.externs.iter() {
        if instance.kind == Object::Profile {
            parts.extend(members_and_groups(catalog, id));
        }
    }
    for table in schema.tables.ids() {
        let counts = with_counters;
        parts.extend([Part::Default(table), Part::Entries { table, counts }]);
    }
    for (id, instance) in schema.externs.iter() {
        let is_wanted = match instance.kind {
            Object::Register { .. } => with_registers,
            Object::Counter { .. } => with_counters,
            Object::Meter { .. } => true,
            _ => false,
        };
        if is_wanted {
            parts.push(Part::Cells(id, None));
        }
    }
    parts
}

/// Shortens the cells of an array. Counters that are zero are left out. For a register, one
/// statement for all cells sets the most frequent value; statements for the other cells follow.
fn shorten(catalog: &Catalog, array: ExternId, cells: &mut Vec<Read>) {
    match catalog.schema.externs[array].kind {
        Object::Counter { .. } => cells.retain(|read| match &read.update {
            Update::Counter { value, .. } => value.packets != 0 || value.bytes != 0,
            _ => true,
        }),
        Object::Register { size, .. } if cells.len() == size as usize && size > 1 => {
            let mut counts: HashMap<String, usize> = HashMap::new();
            let value = |read: &Read| match &read.update {
                Update::Register { values, .. } => format!("{values:?}"),
                _ => String::new(),
            };
            for read in cells.iter() {
                *counts.entry(value(read)).or_default() += 1;
            }
            // Equal states must give equal text: among equally frequent values, the smallest text
            // is taken.
            let most = counts
                .into_iter()
                .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((usual, _)) = most.filter(|(_, count)| *count > 1) else {
                return;
            };
            let Some(mut first) = cells.iter().find(|read| value(read) == usual).cloned() else {
                return;
            };
            if let Update::Register { index, .. } = &mut first.update {
                *index = None;
            }
            cells.retain(|read| value(read) != usual);
            cells.insert(0, first);
        }
        _ => {}
    }
}

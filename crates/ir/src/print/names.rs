//! References to items in IR text: the name if it is unique among its kind, else `#number`.

use std::collections::HashMap;

use bits::Id;

use super::names_of;
use crate::program::Program;

/// The references to all items with an id that is unique in the program.
pub(super) struct Refs {
    pub(super) enums: Vec<String>,
    pub(super) header_types: Vec<String>,
    pub(super) fields: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) stacks: Vec<String>,
    pub(super) parsers: Vec<String>,
    pub(super) controls: Vec<String>,
    pub(super) actions: Vec<String>,
    pub(super) tables: Vec<String>,
    pub(super) value_sets: Vec<String>,
    pub(super) externs: Vec<String>,
    pub(super) steps: Vec<String>,
}

impl Refs {
    pub(super) fn of(p: &Program) -> Refs {
        Refs {
            enums: names_of(&p.enums, |e| &e.name),
            header_types: names_of(&p.header_types, |t| &t.name),
            fields: names_of(&p.fields, |f| &f.name),
            headers: names_of(&p.headers, |h| &h.name),
            stacks: names_of(&p.stacks, |s| &s.name),
            parsers: names_of(&p.parsers, |parser| &parser.name),
            controls: names_of(&p.controls, |c| &c.name),
            actions: names_of(&p.actions, |a| &a.name),
            tables: names_of(&p.tables, |t| &t.name),
            value_sets: names_of(&p.value_sets, |s| &s.name),
            externs: names_of(&p.externs, |e| &e.name),
            steps: names_of(&p.pipeline.steps, |s| &s.name),
        }
    }
}

/// Returns the references to items with these names, in order.
pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut uses: HashMap<&str, u32> = HashMap::new();
    names.iter().for_each(|n| *uses.entry(n).or_default() += 1);
    let all = names.into_iter().enumerate();
    all.map(|(at, n)| match uses[n] {
        1 => super::name(n),
        _ => format!("#{at}"),
    })
    .collect()
}

/// Returns the reference to the item with this id.
pub(super) fn get(refs: &[String], id: impl Id) -> String {
    at(refs, id.index())
}

/// Returns the reference to the item at this position.
pub(super) fn at(refs: &[String], index: usize) -> String {
    refs.get(index)
        .cloned()
        .unwrap_or_else(|| format!("#{index}"))
}

//! Field lists: their numbers, and the annotations of their fields.
//!
//! A list of members of `meta` is a number that `@field_list` gives to each. Other fields cannot
//! be annotated: such a list is written in each call that uses it.

use std::collections::{BTreeMap, BTreeSet};

use ir::{FieldId, Program};

use super::storage::{FieldHome, Storage};

/// Form of a field list in the text.
#[derive(Clone, Debug)]
pub(super) enum List {
    /// A number.
    Number(u32),
    /// The fields themselves.
    Fields(Vec<FieldId>),
}

/// The field lists of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    lists: BTreeMap<u32, List>,
    annotations: BTreeMap<FieldId, Vec<u32>>,
    /// The number of a list without fields.
    pub(super) empty: u32,
}

impl Lists {
    pub(super) fn new(program: &Program, storage: &Storage) -> Lists {
        let mut made = Lists::default();
        let in_metadata = |field: &FieldId| match storage.field(*field) {
            FieldHome::Path(path) => path.starts_with("meta."),
            _ => false,
        };
        let lists = &program.pipeline.field_lists;
        let mut taken: BTreeSet<u32> = lists.keys().copied().filter(|&n| n < 256).collect();
        let free = |taken: &mut BTreeSet<u32>| {
            let free = (0..256).find(|number| !taken.contains(number));
            free.inspect(|&number| {
                taken.insert(number);
            })
        };
        made.empty = free(&mut taken).unwrap_or(0);
        for (&number, fields) in lists {
            let own = match number {
                0..=255 => Some(number),
                _ if fields.iter().all(in_metadata) => free(&mut taken),
                _ => None,
            };
            let list = match own {
                Some(own) if fields.iter().all(in_metadata) => {
                    for &field in fields {
                        made.annotations.entry(field).or_default().push(own);
                    }
                    List::Number(own)
                }
                _ => List::Fields(fields.clone()),
            };
            made.lists.insert(number, list);
        }
        made
    }

    /// Returns a list. One that does not exist has no fields.
    pub(super) fn list(&self, number: u32) -> List {
        let list = self.lists.get(&number);
        list.map_or(List::Number(self.empty), List::clone)
    }

    /// Returns the annotation of a member of `meta`, with a blank after it.
    pub(super) fn annotation(&self, field: FieldId) -> String {
        match self.annotations.get(&field) {
            Some(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("@field_list({}) ", numbers.join(", "))
            }
            None => String::new(),
        }
    }
}

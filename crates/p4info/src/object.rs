//! Ids and aliases of objects and of their fields (P4Runtime, "ID Allocation for P4Info Objects"
//! and "Preamble Message").

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ir::{Annotation, Loc};
use support::work::checkpoint;

use crate::annotation;
use crate::error::{P4InfoError, P4InfoProblem};
use crate::p4::config::v1::Preamble;
use crate::p4::config::v1::p4_ids::Prefix;

/// The bits of an id below the kind of the object.
const SUFFIX_MASK: u32 = 0x00ff_ffff;

/// The names of all objects visible to the control plane, with their ids.
#[derive(Default)]
pub(crate) struct Objects {
    ids: BTreeMap<(Prefix, String), u32>,
    names: HashSet<String>,
    /// Number of names that end in each sequence of whole components.
    suffixes: HashMap<String, usize>,
}

/// An object to be added to [`Objects`].
pub(crate) struct NewObject<'a> {
    pub(crate) kind: Prefix,
    pub(crate) name: &'a str,
    pub(crate) annotations: &'a [Annotation],
    pub(crate) loc: Option<Loc>,
}

impl NewObject<'_> {
    fn error(&self, problem: P4InfoProblem) -> P4InfoError {
        P4InfoError {
            object: describe(self.kind, self.name),
            loc: self.loc,
            problem,
        }
    }
}

/// Returns an object's kind and name in readable form.
pub(crate) fn describe(kind: Prefix, name: &str) -> String {
    let kind = match kind {
        Prefix::Action => "action",
        Prefix::Table => "table",
        Prefix::ValueSet => "value set",
        Prefix::ControllerHeader => "controller header",
        Prefix::ActionProfile => "action profile",
        Prefix::Counter => "counter",
        Prefix::DirectCounter => "direct counter",
        Prefix::Meter => "meter",
        Prefix::DirectMeter => "direct meter",
        Prefix::Register => "register",
        Prefix::Digest => "digest",
        _ => "object",
    };
    format!("{kind} {name}")
}

impl Objects {
    /// Allocates the id of every object, from its `@id` or a hash of its name. If objects have the
    /// same kind and name, the first one counts. The caller must report an error if they are
    /// different objects.
    pub(crate) fn allocate(objects: &[NewObject<'_>], errors: &mut Vec<P4InfoError>) -> Self {
        let mut made = Self::default();
        let mut taken = BTreeSet::new();
        let mut unassigned = BTreeSet::new();
        for object in objects {
            checkpoint();
            let key = (object.kind, object.name.to_owned());
            if made.ids.contains_key(&key) || unassigned.contains(&key) {
                continue;
            }
            made.count_suffixes(object.name);
            match explicit_id(object) {
                Ok(None) => {
                    unassigned.insert(key);
                }
                Ok(Some(id)) if taken.insert(id) => {
                    made.ids.insert(key, id);
                }
                Ok(Some(id)) => errors.push(object.error(P4InfoProblem::IdTaken { id })),
                Err(error) => errors.push(error),
            }
        }
        // Ids are allocated in the order of names, since a collision moves the later one.
        for (kind, name) in unassigned {
            checkpoint();
            match free_id(kind, &name, &taken) {
                Some(id) => {
                    taken.insert(id);
                    made.ids.insert((kind, name), id);
                }
                None => errors.push(P4InfoError {
                    object: describe(kind, &name),
                    loc: None,
                    problem: P4InfoProblem::NoIdLeft,
                }),
            }
        }
        made
    }

    /// Returns the id of an allocated object; 0, which denotes no object, if its `@id` was refused.
    pub(crate) fn id(&self, kind: Prefix, name: &str) -> u32 {
        self.ids
            .get(&(kind, name.to_owned()))
            .copied()
            .unwrap_or_default()
    }

    /// Returns the preamble of an object.
    pub(crate) fn preamble(&self, kind: Prefix, name: &str) -> Preamble {
        Preamble {
            id: self.id(kind, name),
            name: name.to_owned(),
            alias: self.alias(name).to_owned(),
            ..Preamble::default()
        }
    }

    /// Returns the shortest suffix of whole components that no other name has, or else the name.
    fn alias<'a>(&self, name: &'a str) -> &'a str {
        suffixes(name)
            .find(|suffix| self.suffixes.get(*suffix) == Some(&1))
            .unwrap_or(name)
    }

    fn count_suffixes(&mut self, name: &str) {
        // Objects of different kinds may share a name, which counts once.
        if !self.names.insert(name.to_owned()) {
            return;
        }
        for suffix in suffixes(name) {
            checkpoint();
            *self.suffixes.entry(suffix.to_owned()).or_default() += 1;
        }
    }
}

/// Returns the suffixes of a name that start at a component, shortest first. The last one is the
/// name.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let starts = name
        .match_indices('.')
        .map(|(dot, _)| dot + 1)
        .collect::<Vec<_>>();
    starts
        .into_iter()
        .rev()
        .chain([0])
        .map(move |start| &name[start..])
}

fn explicit_id(object: &NewObject<'_>) -> Result<Option<u32>, P4InfoError> {
    let id = annotation::id(object.annotations).map_err(|problem| object.error(problem))?;
    let Some(id) = id else {
        return Ok(None);
    };
    let prefix = object.kind as u32;
    match id >> 24 {
        0 => Ok(Some(prefix << 24 | id)),
        found if found == prefix => Ok(Some(id)),
        _ => Err(object.error(P4InfoProblem::IdPrefix {
            id,
            prefix: prefix as u8,
        })),
    }
}

/// Returns the id from the name's hash, or the next free one.
fn free_id(kind: Prefix, name: &str, taken: &BTreeSet<u32>) -> Option<u32> {
    let start = one_at_a_time(name.as_bytes());
    (0..=SUFFIX_MASK)
        .map(|step| {
            checkpoint();
            (kind as u32) << 24 | start.wrapping_add(step) & SUFFIX_MASK
        })
        .find(|id| !taken.contains(id))
}

/// Bob Jenkins' one-at-a-time hash.
fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mixed = bytes.iter().fold(0_u32, |hash, &byte| {
        let hash = hash.wrapping_add(u32::from(byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ hash >> 6
    });
    let mixed = mixed.wrapping_add(mixed << 3);
    let mixed = mixed ^ mixed >> 11;
    mixed.wrapping_add(mixed << 15)
}

/// Returns the ids of the fields of one object, from `@id` or else numbered from 1.
pub(crate) fn field_ids<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [Annotation])> + Clone,
    owner: &dyn Fn(&str, P4InfoProblem) -> P4InfoError,
    errors: &mut Vec<P4InfoError>,
) -> Vec<u32> {
    let mut taken = BTreeSet::new();
    let mut explicit = Vec::new();
    for (name, annotations) in fields {
        let id = match annotation::id(annotations) {
            Ok(Some(0)) => Err(P4InfoProblem::IdZero),
            Ok(Some(id)) if !taken.insert(id) => Err(P4InfoProblem::IdTaken { id }),
            other => other,
        };
        explicit.push(id.unwrap_or_else(|problem| {
            errors.push(owner(name, problem));
            None
        }));
    }
    let mut next = 1;
    let one = |id: Option<u32>| match id {
        Some(id) => {
            next += 1;
            id
        }
        None => {
            while !taken.insert(next) {
                next += 1;
            }
            next
        }
    };
    explicit.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_p4c_gives() {
        let id = |kind, name| free_id(kind, name, &BTreeSet::new());
        assert_eq!(id(Prefix::Action, "NoAction"), Some(21_257_015));
        assert_eq!(id(Prefix::Table, "ingress.custom_table"), Some(42_499_711));
        assert_eq!(id(Prefix::ValueSet, "MyParser.pvs"), Some(56_033_750));
    }

    #[test]
    fn a_taken_id_makes_way_for_the_next() {
        let taken = BTreeSet::from([21_257_015]);
        assert_eq!(
            free_id(Prefix::Action, "NoAction", &taken),
            Some(21_257_016)
        );
    }

    #[test]
    fn suffixes_are_made_of_whole_components() {
        assert_eq!(
            suffixes("a.bc.d").collect::<Vec<_>>(),
            ["d", "bc.d", "a.bc.d"]
        );
        assert_eq!(suffixes("a").collect::<Vec<_>>(), ["a"]);
    }
}

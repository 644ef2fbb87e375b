//! Reports of commands that write statements: what was refused, what was done nevertheless, and
//! advice.

use std::collections::HashMap;
use std::time::Duration;

use controller::Catalog;
use entries::{EntriesFile, EntryError};
use p4info::p4::v1::update::Type;
use serde_json::json;
use support::count::{count, part_of, were_of};

use super::sync::{self, Step};
use crate::{Ended, out};

/// Maximum number of statements with shown errors.
const MAX_SHOWN: usize = 20;

/// Error of a refused update.
pub(super) struct Told {
    /// Index of the update in the file.
    pub(super) update: usize,
    pub(super) message: String,
    pub(super) code: String,
}

/// Effect of a command on the statements that are not refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// They were added, and those that exist are errors.
    Added,
    /// They were changed: one statement of `ctl change`.
    Changed,
    /// They were added or changed.
    Applied,
    /// Their objects were deleted.
    Deleted,
}

impl Effect {
    pub(super) fn participle(self) -> &'static str {
        match self {
            Effect::Added | Effect::Applied => "applied",
            Effect::Changed => "changed",
            Effect::Deleted => "deleted",
        }
    }
}

/// Treatment of the changes of a synchronization.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// They were only checked.
    Foreseen,
    /// They were written in one batch, and all undone if one was refused.
    AllOrNothing(Duration),
    /// Each was written that was not refused.
    Each(Duration),
}

pub(super) fn show(errors: &[EntryError]) -> Ended {
    for error in errors.iter().take(MAX_SHOWN) {
        out::note(&error.to_string());
    }
    if errors.len() > MAX_SHOWN {
        out::note(&format!(
            "{} errors, of which {MAX_SHOWN} are shown",
            errors.len()
        ));
    }
    Ended::WithErrors
}

/// Returns advice for a statement that was refused because its object exists, or does not.
pub(super) fn advice_for_one(kind: Type, refused: &[Told]) -> Option<&'static str> {
    let code = refused.first()?.code.as_str();
    match (kind, code) {
        (Type::Insert, EXISTS) => Some("`ctl change` changes what exists"),
        (Type::Modify, "NotFound") => Some("`ctl add` adds what does not exist"),
        _ => None,
    }
}

/// Reports the difference and the result.
pub(super) fn tell_sync(
    file: &EntriesFile<'_>,
    steps: &[Step],
    refused: &[Told],
    as_json: bool,
    outcome: Outcome,
) -> Ended {
    let time = match outcome {
        Outcome::Foreseen => None,
        Outcome::AllOrNothing(time) | Outcome::Each(time) => Some(time),
    };
    let ended = match refused.is_empty() {
        true => Ended::Well,
        false => Ended::WithErrors,
    };
    if as_json {
        let changes = steps.iter().map(|step| {
            json!({
                "before": step.before,
                "after": step.after,
                "line": step.statement.map(|at| file.line(at)),
            })
        });
        let refusals = refused.iter().map(
            |told| json!({ "change": told.update, "code": told.code, "message": told.message }),
        );
        out::json_line(&json!({
            "changes": changes.collect::<Vec<_>>(),
            "refused": refusals.collect::<Vec<_>>(),
            "is_dry_run": time.is_none(),
            "seconds": time.map(|time| time.as_secs_f64()),
        }));
        return ended;
    }
    steps
        .iter()
        .flat_map(Step::lines)
        .for_each(|line| out::line(&line));
    for told in refused.iter().take(MAX_SHOWN) {
        let Some(step) = steps.get(told.update) else {
            continue;
        };
        out::note(&match step.statement {
            Some(at) => file.error(at, told.message.clone()).to_string(),
            None => {
                let lines: Vec<String> = step.lines().collect();
                format!("`{}`: {}", lines.join("; "), told.message)
            }
        });
    }
    let (refused, all) = (refused.len() as u64, steps.len() as u64);
    let changes = count(all, "change");
    let were = were_of(refused, all, "change");
    match (refused, outcome) {
        (0, Outcome::Foreseen) => out::line(&format!("{changes}; nothing was written")),
        (0, Outcome::AllOrNothing(time) | Outcome::Each(time)) => {
            out::line(&format!("{changes} in {:.2} s", time.as_secs_f64()));
        }
        (_, Outcome::Foreseen) => {
            let part = part_of(refused, all, "change");
            out::note(&format!("{part} would be refused; nothing was written"));
        }
        (_, outcome) => {
            let rest = rest(refused, all, outcome, "made");
            out::note(&format!("{were} refused; {rest}"));
        }
    }
    ended
}

/// Returns a clause about the statements or changes that were not refused.
fn rest(refused: u64, all: u64, outcome: Outcome, done: &str) -> String {
    match (outcome, all.saturating_sub(refused)) {
        (Outcome::Each(_), 1) => format!("the other one was {done}"),
        (Outcome::Each(_), others @ 2..) => format!("the other {others} were {done}"),
        _ => format!("nothing was {done}"),
    }
}

/// The code of an error about an entry that exists.
const EXISTS: &str = "AlreadyExists";

/// Reports the statements that were refused, of `count` in all.
pub(super) fn tell(
    catalog: &Catalog,
    file: &EntriesFile<'_>,
    (count, effect): (usize, Effect),
    refused: &[Told],
    as_json: bool,
    outcome: Outcome,
) -> Ended {
    let ended = match refused.is_empty() {
        true => Ended::Well,
        false => Ended::WithErrors,
    };
    if as_json {
        let lines = refused.iter().map(|told| {
            json!({ "line": file.line(told.update), "code": told.code, "message": told.message })
        });
        let time = match outcome {
            Outcome::Foreseen => None,
            Outcome::AllOrNothing(time) | Outcome::Each(time) => Some(time.as_secs_f64()),
        };
        out::json_line(&json!({
            "statements": count,
            "refused": lines.collect::<Vec<_>>(),
            "seconds": time,
        }));
        return ended;
    }
    let existing = refused.iter().filter(|told| told.code == EXISTS);
    let existing: Vec<usize> = existing.map(|told| told.update).collect();
    let earlier = match effect {
        Effect::Added | Effect::Applied => earlier(catalog, file, &existing),
        Effect::Changed | Effect::Deleted => HashMap::new(),
    };
    for told in refused.iter().take(MAX_SHOWN) {
        let first = earlier.get(&told.update);
        let error = EntryError {
            hint: first.map(|at| format!("line {} adds it", file.line(*at))),
            ..file.error(told.update, told.message.clone())
        };
        out::note(&error.to_string());
    }
    if count > 1 && !refused.is_empty() {
        let (refused, all) = (refused.len() as u64, count as u64);
        let were = were_of(refused, all, "statement");
        let rest = rest(refused, all, outcome, effect.participle());
        out::note(&format!("{were} refused; {rest}"));
    }
    if effect == Effect::Added && existing.len() > earlier.len() {
        out::note(
            "`ctl apply --replace` changes entries that exist; `ctl apply --sync` also deletes \
             what the file does not have",
        );
    }
    ended
}

/// Returns for each of these statements the earlier one of the file that adds the same object, if
/// there is one.
fn earlier(
    catalog: &Catalog,
    file: &EntriesFile<'_>,
    statements: &[usize],
) -> HashMap<usize, usize> {
    let mut found = HashMap::new();
    let Some(last) = statements.iter().max() else {
        return found;
    };
    let mut first: HashMap<String, usize> = HashMap::new();
    for (at, update) in file.updates().iter().enumerate().take(last + 1) {
        let Some(name) = sync::name(catalog, update) else {
            continue;
        };
        match first.get(&name) {
            Some(first) if statements.contains(&at) => drop(found.insert(at, *first)),
            Some(_) => {}
            None => drop(first.insert(name, at)),
        }
    }
    found
}

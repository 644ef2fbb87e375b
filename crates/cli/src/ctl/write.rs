//! Commands that write statements: one (`add`, `change`, `delete`) or a file of them (`apply`).

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use controller::Catalog;
use entries::{EntriesFile, EntryError, Update, UpdateTarget};
use ir::TableId;
use p4info::p4::v1 as rt;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::client::{ClientError, Code, UpdateError};
use serde_json::json;
use support::read::{read_text, read_text_from};

use super::link::Link;
use super::list;
use super::outcome::{Effect, Outcome, Told, advice_for_one, show, tell, tell_sync};
use super::state::{Part, Unsaid};
use super::sync::{self, Kept, Step};
use super::validity::Validity;
use crate::amount::count;
use crate::args::{limits, unread};
use crate::{Ended, out};

/// Number of statements in one write request.
const BATCH: usize = 1000;

/// Interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct StatementOptions {
    /// Statements as in entries files (docs/reference/entries.md), in quotes: 'ipv4_lpm {
    /// hdr.ipv4.dst_addr: 10.0.0.0/8 } -> drop()'.
    #[arg(required = true, value_name = "STATEMENT")]
    words: Vec<String>,
}

impl StatementOptions {
    fn text(&self) -> String {
        self.words.join(" ")
    }
}

#[derive(Args)]
pub(crate) struct ApplyOptions {
    /// An entries file (docs/reference/entries.md); `-` is standard input.
    file: PathBuf,
    /// All or nothing, in one batch: `dataplane` so that no packet sees a part of it, `rollback`
    /// so that it is undone after an error.
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "dataplane", require_equals = true)]
    atomic: Option<Atomic>,
    /// Change entries that exist already; without it, they are errors.
    #[arg(long)]
    replace: bool,
    /// Make all state equal to the file: what the file does not have is deleted or reset, and the
    /// difference is shown. Registers that the file does not name stay.
    #[arg(long, conflicts_with_all = ["replace", "delete"])]
    sync: bool,
    /// With --sync, show the difference and write nothing. The file is checked against the P4Info;
    /// only the server knows free space, its ports, roles, and the style of a selector.
    #[arg(long, requires = "sync")]
    dry_run: bool,
    /// With --sync, leave counters as they are, direct ones too.
    #[arg(long, requires = "sync")]
    no_counters: bool,
    /// With --sync, leave registers as they are.
    #[arg(long, requires = "sync")]
    no_registers: bool,
    /// Delete what the file adds, the last first; what it only changes (registers, meters,
    /// default actions) stays.
    #[arg(long, conflicts_with_all = ["atomic", "replace"])]
    delete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Atomic {
    Dataplane,
    Rollback,
}

pub(crate) fn add(
    link: &mut Link,
    options: &StatementOptions,
    as_json: bool,
) -> Result<Ended, String> {
    one(link, &options.text(), Type::Insert, as_json)
}

pub(crate) fn change(
    link: &mut Link,
    options: &StatementOptions,
    as_json: bool,
) -> Result<Ended, String> {
    one(link, &options.text(), Type::Modify, as_json)
}

fn one(link: &mut Link, text: &str, kind: Type, as_json: bool) -> Result<Ended, String> {
    let catalog = link.catalog()?;
    let mut file = match catalog.schema.read("statement", text) {
        Ok(file) => file,
        Err(errors) => return Ok(show(&errors)),
    };
    let settings = file.take_settings();
    if !settings.is_empty() {
        link.set(&catalog, &settings)?;
        if file.updates().is_empty() {
            if as_json {
                out::json_line(&json!({ "applied": settings.len(), "refused": [] }));
            }
            return Ok(Ended::Well);
        }
    }
    let start = Instant::now();
    let mut updates = Vec::new();
    for (at, update) in file.updates().iter().enumerate() {
        let kind = match update.target() {
            Some(_) => kind,
            None => Type::Modify,
        };
        updates.push((at, message(&catalog, &file, at, kind)?));
    }
    link.become_primary()?;
    let count = updates.len();
    let refused = link.write(updates, Atomicity::ContinueOnError)?;
    let effect = match kind {
        Type::Modify => Effect::Changed,
        _ => Effect::Added,
    };
    let outcome = Outcome::Each(start.elapsed());
    let ended = tell(&catalog, &file, (count, effect), &refused, as_json, outcome);
    if !as_json && let Some(advice) = advice_for_one(kind, &refused) {
        out::note(advice);
    }
    Ok(ended)
}

pub(crate) fn delete(
    link: &mut Link,
    options: &StatementOptions,
    as_json: bool,
) -> Result<Ended, String> {
    let catalog = link.catalog()?;
    let text = options.text();
    let target = match catalog.schema.read_target("statement", &text) {
        Ok(target) => target,
        Err(error) => return Ok(show(&[error])),
    };
    link.become_primary()?;
    // Resetting a default action is a MODIFY without an action (section 9.1.4).
    let kind = match target {
        UpdateTarget::Default(_) => Type::Modify,
        _ => Type::Delete,
    };
    let update = rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(catalog.target(&target)),
        }),
    };
    let refused = link.write(vec![(0, update)], Atomicity::ContinueOnError)?;
    if let Some(told) = refused.first() {
        let statement = catalog.schema.target(&target);
        return Err(format!("{statement}: {}", told.message));
    }
    if as_json {
        out::json_line(&json!({ "applied": 1, "refused": [] }));
    }
    Ok(Ended::Well)
}

/// Builds the update message of a statement.
fn message(
    catalog: &Catalog,
    file: &EntriesFile<'_>,
    at: usize,
    kind: Type,
) -> Result<rt::Update, String> {
    let entity = catalog.entity(&file.updates()[at]);
    let entity = entity.map_err(|error| file.error(at, error.to_string()).to_string())?;
    Ok(rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(entity),
        }),
    })
}

pub(crate) fn apply(
    link: &mut Link,
    options: &ApplyOptions,
    as_json: bool,
) -> Result<Ended, String> {
    let catalog = link.catalog()?;
    let name = options.file.display().to_string();
    let text = match name.as_str() {
        "-" => read_text_from(std::io::stdin(), limits::ENTRIES),
        _ => read_text(&options.file, limits::ENTRIES),
    };
    let text = text.map_err(|error| unread(&options.file, &error))?;
    let mut file = match catalog.schema.read(&name, &text) {
        Ok(file) => file,
        Err(errors) => return Ok(show(&errors)),
    };
    let settings = file.take_settings();
    let unsayable = unsayable(&catalog, &file);
    if !unsayable.is_empty() {
        return Ok(show(&unsayable));
    }
    if !settings.is_empty() && !options.delete && !options.dry_run {
        link.set(&catalog, &settings)?;
    }
    if options.sync {
        return synchronize(link, &catalog, &file, options, as_json);
    }
    link.become_primary()?;
    let start = Instant::now();
    let (count, refused) = match options.delete {
        true => link.delete_in_batches(&catalog, &file)?,
        false => {
            let there = link.there(&catalog, file.updates(), options.replace)?;
            let refused = match options.atomic {
                Some(how) => link.apply_at_once(&catalog, &file, &there, how)?,
                None => link.apply_in_batches(&catalog, &file, &there)?,
            };
            (file.updates().len() + settings.len(), refused)
        }
    };
    let effect = match (options.delete, options.replace) {
        (true, _) => Effect::Deleted,
        (false, true) => Effect::Applied,
        (false, false) => Effect::Added,
    };
    let time = start.elapsed();
    let outcome = match options.atomic {
        Some(_) => Outcome::AllOrNothing(time),
        None => Outcome::Each(time),
    };
    let all = (count, effect);
    let ended = tell(&catalog, &file, all, &refused, as_json, outcome);
    if ended == Ended::Well && !as_json {
        out::line(&format!(
            "{} {} in {:.2} s",
            self::count(count as u64, "statement"),
            effect.participle(),
            time.as_secs_f64()
        ));
    }
    Ok(ended)
}

/// Makes the device's state equal to a file.
fn synchronize(
    link: &mut Link,
    catalog: &Catalog,
    file: &EntriesFile<'_>,
    options: &ApplyOptions,
    as_json: bool,
) -> Result<Ended, String> {
    if !options.dry_run {
        // From here on no other controller can change the state that is read.
        link.become_primary()?;
    }
    let start = Instant::now();
    let kept = Kept {
        counters: options.no_counters,
        registers: options.no_registers,
    };
    let mut unsaid = Unsaid::default();
    let have = link.collect(catalog, sync::parts(catalog, kept), &mut unsaid)?;
    unsaid.note();
    let steps = match sync::plan(catalog, file, &have, kept) {
        Ok(steps) => steps,
        Err(errors) => return Ok(show(&errors)),
    };
    let refused = match (options.dry_run, options.atomic) {
        (true, _) => foreseen(catalog, file, &steps),
        (false, Some(how)) => link.write_at_once(sync_updates(&steps).collect(), how)?,
        (false, None) => {
            let mut refused = Vec::new();
            let numbered: Vec<(usize, &Step)> = steps.iter().enumerate().collect();
            for stage in numbered.chunk_by(|(_, one), (_, next)| one.stage() == next.stage()) {
                for part in stage.chunks(BATCH) {
                    let part = part.iter().map(|(at, step)| (*at, step.update.clone()));
                    refused.extend(link.write(part.collect(), Atomicity::ContinueOnError)?);
                }
            }
            refused
        }
    };
    let outcome = match (options.dry_run, options.atomic) {
        (true, _) => Outcome::Foreseen,
        (false, Some(_)) => Outcome::AllOrNothing(start.elapsed()),
        (false, None) => Outcome::Each(start.elapsed()),
    };
    Ok(tell_sync(file, &steps, &refused, as_json, outcome))
}

/// Returns the changes that a server refuses, as far as that is known before they are sent.
fn foreseen(catalog: &Catalog, file: &EntriesFile<'_>, steps: &[Step]) -> Vec<Told> {
    let validity = Validity::new(catalog, file);
    let steps = steps.iter().enumerate();
    let refused = steps.filter_map(|(update, step)| {
        Some(Told {
            update,
            message: validity.refusal(step.statement?)?,
            code: format!("{:?}", Code::InvalidArgument),
        })
    });
    refused.collect()
}

fn sync_updates(steps: &[Step]) -> impl Iterator<Item = (usize, rt::Update)> {
    let numbered = steps.iter().enumerate();
    numbered.map(|(at, step)| (at, step.update.clone()))
}

/// Returns errors for statements that P4Runtime cannot express. They are reported before anything
/// is written.
fn unsayable(catalog: &Catalog, file: &EntriesFile<'_>) -> Vec<EntryError> {
    let updates = file.updates().iter().enumerate();
    // P4Runtime can express all entries.
    let others = updates.filter(|(_, update)| !matches!(update, Update::Insert(..)));
    let errors = others.filter_map(|(at, update)| {
        let error = catalog.entity(update).err()?;
        Some(file.error(at, error.to_string()))
    });
    errors.collect()
}

/// Names of the objects of a file that exist on the device.
type There = HashSet<String>;

/// Returns the update type: MODIFY for existing objects.
fn kind_of(catalog: &Catalog, update: &Update, there: &There) -> Type {
    match update.target() {
        None => Type::Modify,
        Some(_) => match sync::name(catalog, update) {
            Some(name) if there.contains(&name) => Type::Modify,
            _ => Type::Insert,
        },
    }
}

/// Order of dependent updates. A server may apply the updates of one batch in any order (section
/// 12).
fn rank(update: &Update) -> u8 {
    match update {
        Update::Member { .. } => 0,
        Update::Group { .. } => 1,
        Update::Insert(..) | Update::SetDefault(..) => 2,
        _ => 3,
    }
}

impl Link {
    /// Makes settings of the device.
    fn set(&mut self, catalog: &Catalog, settings: &[Update]) -> Result<(), String> {
        let statements = settings.iter();
        let statements = statements.map(|update| catalog.schema.statement(update) + "\n");
        match self.client.set(&statements.collect::<String>()) {
            Ok(()) => Ok(()),
            Err(ClientError::Refused(refused)) if refused.code == Code::Unimplemented => Err(
                "the server takes no queues of ports, hash parameters, host ports and expire-time \
                 profiles: P4Runtime has no message for them"
                    .to_owned(),
            ),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Returns the existing objects of a file: groups, members and sessions, which a file
    /// replaces, and table entries if these are replaced too.
    fn there(
        &mut self,
        catalog: &Catalog,
        updates: &[Update],
        with_entries: bool,
    ) -> Result<There, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut tables: HashSet<TableId> = HashSet::new();
        let want = |parts: &mut Vec<Part>, part: Part| {
            if !parts.contains(&part) {
                parts.push(part);
            }
        };
        for update in updates {
            match update {
                Update::Insert(table, _) if with_entries => {
                    tables.insert(*table);
                }
                Update::Member { profile, .. } | Update::Group { profile, .. } => {
                    for part in list::members_and_groups(catalog, *profile) {
                        want(&mut parts, part);
                    }
                }
                Update::Multicast { .. } => want(&mut parts, Part::Multicast),
                Update::Clone(_) => want(&mut parts, Part::Clones),
                _ => {}
            }
        }
        let entries = tables.into_iter();
        parts.extend(entries.map(|table| Part::Entries {
            table,
            counts: false,
        }));
        let mut there = There::new();
        for part in parts {
            self.read(catalog, part, &mut Unsaid::default(), |read| {
                there.extend(sync::name(catalog, &read.update));
            })?;
        }
        Ok(there)
    }

    fn apply_at_once(
        &mut self,
        catalog: &Catalog,
        file: &EntriesFile<'_>,
        there: &There,
        how: Atomic,
    ) -> Result<Vec<Told>, String> {
        let mut updates = Vec::new();
        for (at, update) in file.updates().iter().enumerate() {
            let kind = kind_of(catalog, update, there);
            updates.push((at, message(catalog, file, at, kind)?));
        }
        self.write_at_once(updates, how)
    }

    /// Writes all updates in one batch.
    fn write_at_once(
        &mut self,
        updates: Vec<(usize, rt::Update)>,
        how: Atomic,
    ) -> Result<Vec<Told>, String> {
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        let atomicity = match how {
            Atomic::Dataplane => Atomicity::DataplaneAtomic,
            Atomic::Rollback => Atomicity::RollbackOnError,
        };
        let (places, updates): (Vec<usize>, Vec<rt::Update>) = updates.into_iter().unzip();
        match self.client.write(updates, atomicity) {
            Err(ClientError::Refused(refused))
                if how == Atomic::Dataplane && is_unimplemented(&refused) =>
            {
                let told = told(&places, &refused, atomicity);
                let message = told
                    .first()
                    .map_or(refused.message.as_str(), |one| &one.message);
                Err(format!(
                    "{message}; --atomic=rollback is undone after an error, but packets may see a part of it"
                ))
            }
            written => self.outcome(&places, written, atomicity),
        }
    }

    fn apply_in_batches(
        &mut self,
        catalog: &Catalog,
        file: &EntriesFile<'_>,
        there: &There,
    ) -> Result<Vec<Told>, String> {
        let updates = file.updates();
        let mut refused = Vec::new();
        let mut progress = Progress::new(updates.len());
        let mut at = 0;
        while at < updates.len() {
            let own = rank(&updates[at]);
            let same = updates[at..].iter().take(BATCH);
            let end = at + same.take_while(|update| rank(update) == own).count();
            let mut batch = Vec::with_capacity(end - at);
            for (at, update) in updates.iter().enumerate().take(end).skip(at) {
                let kind = kind_of(catalog, update, there);
                batch.push((at, message(catalog, file, at, kind)?));
            }
            refused.extend(self.write(batch, Atomicity::ContinueOnError)?);
            at = end;
            progress.tell(at);
        }
        Ok(refused)
    }

    /// Deletes the objects that a file adds, in reverse order, so that an object is deleted after
    /// those that refer to it. Returns the number of deletions and those that were refused.
    fn delete_in_batches(
        &mut self,
        catalog: &Catalog,
        file: &EntriesFile<'_>,
    ) -> Result<(usize, Vec<Told>), String> {
        let updates = file.updates().iter().enumerate().rev();
        let targets = updates.filter_map(|(at, update)| Some((at, update.target()?)));
        let updates = targets.map(|(at, target)| {
            let entity = Some(rt::Entity {
                entity: Some(catalog.target(&target)),
            });
            let r#type = Type::Delete.into();
            (at, rt::Update { r#type, entity })
        });
        let updates: Vec<(usize, rt::Update)> = updates.collect();
        let mut refused = Vec::new();
        for batch in updates.chunk_by(|one, next| {
            let rank_at = |at: usize| rank(&file.updates()[at]);
            rank_at(one.0) == rank_at(next.0)
        }) {
            for part in batch.chunks(BATCH) {
                refused.extend(self.write(part.to_vec(), Atomicity::ContinueOnError)?);
            }
        }
        Ok((updates.len(), refused))
    }

    /// Writes updates with their indices in the file. Returns those that were refused.
    fn write(
        &mut self,
        updates: Vec<(usize, rt::Update)>,
        atomicity: Atomicity,
    ) -> Result<Vec<Told>, String> {
        let (places, updates): (Vec<usize>, Vec<rt::Update>) = updates.into_iter().unzip();
        let written = self.client.write(updates, atomicity);
        self.outcome(&places, written, atomicity)
    }

    fn outcome(
        &self,
        places: &[usize],
        written: Result<(), ClientError>,
        atomicity: Atomicity,
    ) -> Result<Vec<Told>, String> {
        match written {
            Ok(()) => Ok(Vec::new()),
            Err(ClientError::Refused(refused)) if !refused.updates.is_empty() => {
                Ok(told(places, &refused, atomicity))
            }
            Err(error) => Err(self.explain(&error)),
        }
    }
}

/// Returns true if the server does not support atomic batches, or not for such updates.
fn is_unimplemented(refused: &UpdateError) -> bool {
    let code = |error: &rt::Error| Code::from(error.canonical_code);
    refused.code == Code::Unimplemented
        || refused
            .updates
            .iter()
            .any(|one| code(one) == Code::Unimplemented)
}

/// Returns the refused updates of a batch. Updates that were only rolled back because of others
/// are left out.
fn told(places: &[usize], refused: &UpdateError, atomicity: Atomicity) -> Vec<Told> {
    let is_undone =
        |code: i32| atomicity != Atomicity::ContinueOnError && Code::from(code) == Code::Aborted;
    let all = places.iter().zip(&refused.updates);
    let own = all.filter(|(_, error)| error.canonical_code != Code::Ok as i32);
    let own = own.filter(|(_, error)| !is_undone(error.canonical_code));
    let own: Vec<Told> = own
        .map(|(&update, error)| {
            let code = format!("{:?}", Code::from(error.canonical_code));
            let message = match error.message.is_empty() {
                true => code.clone(),
                false => format!("{} ({code})", error.message),
            };
            Told {
                update,
                message,
                code,
            }
        })
        .collect();
    match (own.is_empty(), places.first()) {
        (true, Some(&update)) => vec![Told {
            update,
            message: refused.message.clone(),
            code: format!("{:?}", refused.code),
        }],
        _ => own,
    }
}

/// Shows the progress once a second if standard error is a terminal.
struct Progress {
    of: usize,
    next: Instant,
    is_watched: bool,
}

impl Progress {
    fn new(of: usize) -> Progress {
        Progress {
            of,
            next: Instant::now() + PROGRESS,
            is_watched: std::io::stderr().is_terminal(),
        }
    }

    fn tell(&mut self, done: usize) {
        let now = Instant::now();
        if self.is_watched && now >= self.next && done < self.of {
            let all = count(self.of as u64, "statement");
            out::note(&format!("{done} of {all}"));
            self.next = now + PROGRESS;
        }
    }
}

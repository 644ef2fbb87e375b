//! Resolves written names to the program's ids: an exact match, or an unambiguous suffix.

use std::borrow::Cow;

use bits::Value;
use ir::{ActionCall, ActionId, ExternId, TableId, ValueSetId};

use crate::error::EntriesError;
use crate::schema::{Action, Object, Schema, Table};

/// A part of the text, with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

impl<'a> Word<'a> {
    pub(crate) fn new(text: &'a str, start: usize) -> Word<'a> {
        Word { text, start }
    }

    /// Returns the range, for a [`EntriesError`].
    pub(crate) fn at(self) -> (usize, usize) {
        (self.start, self.start + self.text.len())
    }

    /// Removes blanks at both ends.
    pub(crate) fn trim(self) -> Word<'a> {
        let text = self.text.trim_start();
        let start = self.start + (self.text.len() - text.len());
        Word {
            text: text.trim_end(),
            start,
        }
    }
}

/// Converts equivalent spellings to one form. `$valid$` of a header becomes `isValid()`, `name$0`
/// becomes `name[0]`, and blanks (in names of expressions) are removed. Most names have this form
/// already.
fn canonical(name: &str) -> Cow<'_, str> {
    let is_other = |c: char| c == '$' || c.is_whitespace();
    if !name.starts_with('.') && !name.contains(is_other) {
        return Cow::Borrowed(name);
    }
    let mut name = name
        .strip_prefix('.')
        .unwrap_or(name)
        .replace(".$valid$", ".isValid()");
    name.retain(|c| !c.is_whitespace());
    let mut text = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        text.push_str(&rest[..at]);
        if digits > 0 {
            text.push('[');
            text.push_str(&rest[at + 1..at + 1 + digits]);
            text.push(']');
        } else {
            text.push('$');
        }
        rest = &rest[at + 1 + digits..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Returns true if two spellings name the same object.
pub fn same_name(a: &str, b: &str) -> bool {
    canonical(a) == canonical(b)
}

/// Replaces dots and other special characters by underscores, as back ends that generate C do.
fn mangled(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// The kind of object that a name should denote, for error messages.
#[derive(Clone, Copy)]
pub(crate) enum Sought<'a> {
    /// An object of the program, for example `table`.
    InProgram(&'a str),
    /// A key of the table with this name.
    KeyOf(&'a str),
    /// An action of the table with this name.
    ActionOf(&'a str),
    /// A parameter of the action with this name.
    ParameterOf(&'a str),
}

impl<'a> Sought<'a> {
    /// Returns the kind of object, and its owner.
    fn parts(self) -> (&'a str, Option<(&'static str, &'a str)>) {
        match self {
            Sought::InProgram(what) => (what, None),
            Sought::KeyOf(table) => ("key", Some(("table", table))),
            Sought::ActionOf(table) => ("action", Some(("table", table))),
            Sought::ParameterOf(action) => ("parameter", Some(("action", action))),
        }
    }

    fn ambiguous(self, name: &str) -> String {
        match self.parts() {
            (what, None) => format!("the {what} `{name}` is ambiguous"),
            (what, Some((kind, owner))) => {
                format!("the {what} `{name}` of the {kind} `{owner}` is ambiguous")
            }
        }
    }

    fn missing(self, name: &str) -> String {
        match self.parts() {
            (what, None) => format!("there is no {what} `{name}`"),
            (what, Some((kind, owner))) => {
                format!("the {kind} `{owner}` has no {what} `{name}`")
            }
        }
    }

    fn none_at_all(self) -> String {
        match self.parts() {
            (what, None) => format!("the program has no {what}"),
            (what, Some(_)) => format!("it has no {what} at all"),
        }
    }
}

/// Returns the position of the name that `wanted` denotes among `names`: the same name, or else a
/// unique suffix after a dot, or else the same name with underscores in place of dots.
pub(crate) fn find<'n>(
    wanted: Word<'_>,
    names: impl Iterator<Item = &'n str> + Clone,
    sought: Sought<'_>,
) -> Result<usize, EntriesError> {
    let target = canonical(wanted.text);
    let exact = |name: &str| canonical(name) == target;
    let by_suffix = |name: &str| {
        let name = canonical(name);
        let front = name.strip_suffix(&*target);
        front.is_some_and(|front| front.ends_with('.'))
    };
    let by_mangling = |name: &str| {
        // `.NoAction` becomes `_NoAction`.
        mangled(&canonical(name)) == mangled(&target).trim_start_matches('_')
    };
    if let Some(at) = names.clone().position(exact) {
        return Ok(at);
    }
    for test in [&by_suffix as &dyn Fn(&str) -> bool, &by_mangling] {
        let hits: Vec<(usize, &str)> = names
            .clone()
            .enumerate()
            .filter(|(_, name)| test(name))
            .collect();
        match hits[..] {
            [] => {}
            [(at, _)] => return Ok(at),
            _ => {
                let all: Vec<&str> = hits.iter().map(|(_, name)| *name).collect();
                return Err(
                    EntriesError::new(wanted.at(), sought.ambiguous(wanted.text))
                        .hint(format!("write one of {}", all.join(", "))),
                );
            }
        }
    }
    Err(unknown(wanted, names, sought))
}

fn unknown<'n>(
    wanted: Word<'_>,
    names: impl Iterator<Item = &'n str>,
    sought: Sought<'_>,
) -> EntriesError {
    let fault = EntriesError::new(wanted.at(), sought.missing(wanted.text));
    let all: Vec<&str> = names.collect();
    match nearest(wanted.text, &all) {
        Some(name) => fault.hint(format!("did you mean `{name}`?")),
        None if all.is_empty() => fault.hint(sought.none_at_all()),
        None if all.len() <= 12 => fault.hint(format!("there are: {}", all.join(", "))),
        None => fault,
    }
}

/// Returns the most similar name, if it is near. Names are compared in full or by their last parts.
fn nearest<'n>(wanted: &str, names: &[&'n str]) -> Option<&'n str> {
    let dots = wanted.matches('.').count();
    let tail = |name: &'n str| -> &'n str {
        let mut starts: Vec<usize> = name.match_indices('.').map(|(at, _)| at + 1).collect();
        starts.insert(0, 0);
        let at = starts.len().saturating_sub(dots + 1);
        &name[starts[at]..]
    };
    let scored = names.iter().map(|&name| {
        (
            distance(wanted, name).min(distance(wanted, tail(name))),
            name,
        )
    });
    scored
        .min_by_key(|(score, _)| *score)
        .filter(|(score, _)| is_near(wanted, *score))
        .map(|(_, name)| name)
}

/// Returns true if a name at this distance may be meant: at most a third of its characters differ.
/// So short names are near to none.
pub(crate) fn is_near(wanted: &str, distance: usize) -> bool {
    distance <= wanted.chars().count() / 3
}

/// Returns the number of insertions, deletions, replacements and transpositions between two words,
/// ignoring case.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&a.to_lowercase(), &b.to_lowercase())
}

/// Returns the table with this name.
pub(crate) fn table(schema: &Schema, name: Word<'_>) -> Result<TableId, EntriesError> {
    let names = schema.tables.values().map(|table| table.name.as_str());
    let at = find(name, names, Sought::InProgram("table"))?;
    schema
        .tables
        .ids()
        .nth(at)
        .ok_or_else(|| EntriesError::new(name.at(), "no such table"))
}

/// Returns the extern instance with this name among those that `fits` accepts, with the result of
/// `fits`.
pub(crate) fn instance<'s, T>(
    schema: &'s Schema,
    name: Word<'_>,
    what: &str,
    fits: impl Fn(&'s Object) -> Option<T>,
) -> Result<(ExternId, T), EntriesError> {
    let externs = schema.externs.iter();
    let mut fitting: Vec<(&str, (ExternId, T))> = externs
        .filter_map(|(id, e)| Some((e.name.as_str(), (id, fits(&e.kind)?))))
        .collect();
    let names = fitting.iter().map(|(name, _)| *name);
    let at = find(name, names, Sought::InProgram(what))?;
    Ok(fitting.swap_remove(at).1)
}

/// Returns the value set with this name.
pub(crate) fn value_set(schema: &Schema, name: Word<'_>) -> Result<ValueSetId, EntriesError> {
    let names = schema.value_sets.values().map(|set| set.name.as_str());
    let at = find(name, names, Sought::InProgram("value set"))?;
    schema
        .value_sets
        .ids()
        .nth(at)
        .ok_or_else(|| EntriesError::new(name.at(), "no such value set"))
}

/// Returns the position of the action with this name in the table's list.
pub(crate) fn table_action(
    schema: &Schema,
    table: &Table,
    name: Word<'_>,
) -> Result<usize, EntriesError> {
    let names: Vec<&str> = table
        .actions
        .iter()
        .map(|a| schema.actions[*a].name.as_str())
        .collect();
    find(name, names.into_iter(), Sought::ActionOf(&table.name))
}

/// Returns the action with this name in any table that uses the profile.
pub(crate) fn profile_action(
    schema: &Schema,
    profile: ExternId,
    name: Word<'_>,
) -> Result<ActionId, EntriesError> {
    let user = schema
        .tables
        .values()
        .find(|table| table.implementation == Some(profile));
    let Some(table) = user else {
        let message = format!("no table uses `{}`", schema.externs[profile].name);
        return Err(EntriesError::new(name.at(), message));
    };
    Ok(table.actions[table_action(schema, table, name)?])
}

/// Returns true if omitted arguments of an action are 0 on this architecture, as in the C
/// structures that p4c generates.
fn zero_is_default(schema: &Schema) -> bool {
    matches!(
        schema.arch,
        Some(ir::Arch::Ebpf | ir::Arch::Ubpf | ir::Arch::Xdp)
    )
}

/// Returns arguments, written by name or by position, in the order of the parameters.
pub(crate) fn arguments(
    schema: &Schema,
    action: ActionId,
    call: Word<'_>,
    args: &[(Option<Word<'_>>, Word<'_>)],
) -> Result<Vec<Value>, EntriesError> {
    let action = &schema.actions[action];
    let mut values: Vec<Option<Value>> = vec![None; action.params.len()];
    for (position, (name, value)) in args.iter().enumerate() {
        let at = match name {
            Some(name) => {
                let names = action.params.iter().map(|p| p.name.as_str());
                find(*name, names, Sought::ParameterOf(&action.name))?
            }
            None if position < values.len() => position,
            None => return Err(too_many(action, *value)),
        };
        if values[at].is_some() {
            let place = name.unwrap_or(*value).at();
            return Err(EntriesError::new(
                place,
                format!("the parameter `{}` is given twice", action.params[at].name),
            ));
        }
        values[at] = Some(crate::value::scalar(schema, action.params[at].ty, *value)?);
    }
    if zero_is_default(schema) {
        for (value, param) in values.iter_mut().zip(&action.params) {
            value.get_or_insert_with(|| Value::zero(param.ty.width()));
        }
    }
    let missing: Vec<&str> = action
        .params
        .iter()
        .zip(&values)
        .filter(|(_, v)| v.is_none())
        .map(|(p, _)| p.name.as_str())
        .collect();
    if !missing.is_empty() {
        let message = format!(
            "the action `{}` also needs a value for {}",
            action.name,
            missing.join(", ")
        );
        return Err(
            EntriesError::new(call.at(), message).hint(format!("write `{}`", signature(action)))
        );
    }
    Ok(values.into_iter().flatten().collect())
}

fn too_many(action: &Action, value: Word<'_>) -> EntriesError {
    let count = action.params.len();
    let message = format!(
        "the action `{}` takes {count} parameter{}, not more",
        action.name,
        if count == 1 { "" } else { "s" }
    );
    EntriesError::new(value.at(), message).hint(format!("write `{}`", signature(action)))
}

fn signature(action: &Action) -> String {
    let params: Vec<String> = action
        .params
        .iter()
        .map(|p| format!("{}: ...", p.name))
        .collect();
    format!("{}({})", action.name, params.join(", "))
}

/// Returns the table with this name. The control plane must be allowed to change its entries.
pub(crate) fn open_table(schema: &Schema, name: Word<'_>) -> Result<TableId, EntriesError> {
    let id = table(schema, name)?;
    let table = &schema.tables[id];
    if !table.entries_are_const {
        return Ok(id);
    }
    let message = format!(
        "the table `{}` takes no entries: its entries are const",
        table.name
    );
    Err(EntriesError::new(name.at(), message)
        .hint("leave `const` out in front of `entries` in the program"))
}

/// Returns a default action with its arguments. A const default action can only be given unchanged.
pub(crate) fn default_call(
    schema: &Schema,
    table: TableId,
    name: Word<'_>,
    args: &[(Option<Word<'_>>, Word<'_>)],
) -> Result<ActionCall, EntriesError> {
    let call = table_call(schema, table, name, args)?;
    let table = &schema.tables[table];
    if table.const_default.as_ref().is_some_and(|own| *own != call) {
        let message = format!("the default action of the table `{}` is const", table.name);
        return Err(EntriesError::new(name.at(), message)
            .hint("leave `const` out in front of `default_action` in the program"));
    }
    Ok(call)
}

/// Returns an action of a table with its arguments.
pub(crate) fn table_call(
    schema: &Schema,
    table: TableId,
    name: Word<'_>,
    args: &[(Option<Word<'_>>, Word<'_>)],
) -> Result<ActionCall, EntriesError> {
    let table = &schema.tables[table];
    let action = table_action(schema, table, name)?;
    let args = arguments(schema, table.actions[action], name, args)?;
    Ok(ActionCall { action, args })
}

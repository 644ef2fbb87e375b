//! Commands that list the state of a device.

use clap::Args;
use controller::{Catalog, Read};
use entries::{Object, Update};
use p4info::p4::config::v1 as info;
use serde_json::{Value, json};

use super::json;
use super::link::Link;
use super::state::{self, Part, Unsaid};
use crate::out;
use support::text_table;

#[derive(Args)]
pub(crate) struct TablesOptions {
    /// Do not read the tables to count their entries.
    #[arg(long)]
    no_count: bool,
}

#[derive(Args)]
pub(crate) struct ShowOptions {
    /// The table; the last parts of its name are enough if they are unambiguous.
    table: String,
}

#[derive(Args)]
pub(crate) struct NamedOptions {
    /// One of them; default: all.
    name: Option<String>,
}

#[derive(Args)]
pub(crate) struct RegistersOptions {
    /// One register; default: all.
    name: Option<String>,
    /// One cell; default: all.
    index: Option<u32>,
    /// Show cells that are zero, too.
    #[arg(long)]
    all: bool,
}

/// Description of a table from P4Info, and its number of entries.
struct Row<'a> {
    table: &'a info::Table,
    name: &'a str,
    entries: Option<u64>,
}

impl Row<'_> {
    fn keys(&self) -> Vec<(String, String)> {
        use info::match_field::{Match, MatchType};
        let fields = self.table.match_fields.iter();
        let kind = |field: &info::MatchField| match &field.r#match {
            Some(Match::MatchType(kind)) => MatchType::try_from(*kind)
                .map_or("?", |kind| kind.as_str_name())
                .to_ascii_lowercase(),
            Some(Match::OtherMatchType(name)) => name.clone(),
            None => "?".to_owned(),
        };
        fields
            .map(|field| (field.name.clone(), kind(field)))
            .collect()
    }

    fn actions(&self, catalog: &Catalog) -> Vec<String> {
        let listed = self.table.action_refs.iter();
        let name = |listed: &info::ActionRef| catalog.name(listed.id).map(str::to_owned);
        listed.filter_map(name).collect()
    }

    fn cells(&self, catalog: &Catalog) -> Vec<String> {
        let keys = self.keys();
        let keys: Vec<String> = keys
            .iter()
            .map(|(name, kind)| format!("{name}: {kind}"))
            .collect();
        let entries = self
            .entries
            .map_or_else(|| "-".to_owned(), |count| count.to_string());
        vec![
            self.name.to_owned(),
            entries,
            self.table.size.to_string(),
            keys.join(", "),
            last_parts(&self.actions(catalog)).join(", "),
        ]
    }

    fn json(&self, catalog: &Catalog) -> Value {
        let keys = self.keys();
        let keys = keys
            .iter()
            .map(|(name, kind)| json!({ "name": name, "match": kind }));
        json!({
            "name": self.name,
            "id": self.table.preamble.as_ref().map_or(0, |own| own.id),
            "entries": self.entries,
            "size": self.table.size,
            "key": keys.collect::<Vec<_>>(),
            "actions": self.actions(catalog),
            "is_const": self.table.is_const_table,
        })
    }
}

/// Returns the last component of each dotted name.
fn last_parts(names: &[String]) -> Vec<&str> {
    let last = |name: &String| name.rfind('.').map_or(0, |dot| dot + 1);
    names.iter().map(|name| &name[last(name)..]).collect()
}

pub(crate) fn tables(
    link: &mut Link,
    options: &TablesOptions,
    as_json: bool,
) -> Result<(), String> {
    let catalog = link.catalog()?;
    let mut rows = Vec::new();
    for (table, own) in catalog.schema.tables.iter().zip(&catalog.info.tables) {
        let (id, table) = table;
        let mut count = 0;
        let part = Part::Entries {
            table: id,
            counts: false,
        };
        if !options.no_count {
            link.read(&catalog, part, &mut Unsaid::default(), |_| count += 1)?;
        }
        rows.push(Row {
            table: own,
            name: &table.name,
            entries: (!options.no_count).then_some(count),
        });
    }
    if as_json {
        let rows: Vec<Value> = rows.iter().map(|row| row.json(&catalog)).collect();
        out::json(&rows);
        return Ok(());
    }
    let head = ["TABLE", "ENTRIES", "SIZE", "KEY", "ACTIONS"];
    let cells = rows.iter().map(|row| row.cells(&catalog));
    out::text(&text_table::table(&head, cells));
    Ok(())
}

/// Shows parts as statements, or as a JSON array.
fn show_parts(
    link: &mut Link,
    catalog: &Catalog,
    parts: Vec<Part>,
    as_json: bool,
    wanted: impl Fn(&Read) -> bool,
) -> Result<(), String> {
    let mut unsaid = Unsaid::default();
    let mut all = Vec::new();
    for part in parts {
        link.read(catalog, part, &mut unsaid, |read| {
            if !wanted(&read) {
                return;
            }
            match as_json {
                true => all.push(json::update(catalog, &read)),
                false => out::line(&statement(catalog, &read)),
            }
        })?;
    }
    if as_json {
        out::json(&all);
    }
    unsaid.note();
    Ok(())
}

/// Formats a statement. A constant entry of the program becomes a comment.
pub(crate) fn statement(catalog: &Catalog, read: &Read) -> String {
    let mut statement = catalog.schema.statement(&read.update);
    if let Some(metadata) = &read.metadata {
        statement = format!("{statement} # {metadata}");
    }
    match read.is_const {
        true => format!("# const: {statement}"),
        false => statement,
    }
}

pub(crate) fn show(link: &mut Link, options: &ShowOptions, as_json: bool) -> Result<(), String> {
    let catalog = link.catalog()?;
    let table = catalog.schema.find_table(&options.table)?;
    let parts = vec![
        Part::Entries {
            table,
            counts: true,
        },
        Part::Default(table),
    ];
    show_parts(link, &catalog, parts, as_json, |_| true)
}

pub(crate) fn meters(link: &mut Link, options: &NamedOptions, as_json: bool) -> Result<(), String> {
    let catalog = link.catalog()?;
    let is_meter = |kind: &Object| matches!(kind, Object::Meter { .. });
    let meters_of = catalog.info.direct_meters.iter();
    let meters_of = meters_of.map(|one| (one.preamble.as_ref(), one.direct_table_id));
    let name = options.name.as_deref();
    let direct = name.and_then(|name| state::table_with(&catalog, meters_of, name));
    let mut parts = Vec::new();
    if direct.is_none() {
        let meters = state::externs(&catalog, "meter", options.name.as_deref(), is_meter)?;
        parts.extend(meters.into_iter().map(|meter| Part::Cells(meter, None)));
    }
    if direct.is_some() || options.name.is_none() {
        let metered = catalog
            .info
            .direct_meters
            .iter()
            .map(|one| one.direct_table_id);
        let metered: Vec<u32> = metered.collect();
        let tables = catalog.schema.tables.ids();
        let tables = tables.filter(|id| direct.is_none_or(|direct| direct == *id));
        let tables = tables.filter(|id| metered.contains(&catalog.table_id(*id)));
        parts.extend(tables.map(|table| Part::Entries {
            table,
            counts: false,
        }));
    }
    show_parts(link, &catalog, parts, as_json, |read| match &read.update {
        Update::Insert(_, entry) => entry.meter.is_some(),
        _ => true,
    })
}

pub(crate) fn registers(
    link: &mut Link,
    options: &RegistersOptions,
    as_json: bool,
) -> Result<(), String> {
    let catalog = link.catalog()?;
    let is_register = |kind: &Object| matches!(kind, Object::Register { .. });
    let registers = state::externs(&catalog, "register", options.name.as_deref(), is_register)?;
    let parts = registers
        .into_iter()
        .map(|one| Part::Cells(one, options.index));
    let shows_zero = options.all || options.index.is_some();
    show_parts(
        link,
        &catalog,
        parts.collect(),
        as_json,
        |read| match &read.update {
            Update::Register { values, .. } => {
                shows_zero || values.iter().any(|one| !one.is_zero())
            }
            _ => true,
        },
    )
}

pub(crate) fn groups(link: &mut Link, options: &NamedOptions, as_json: bool) -> Result<(), String> {
    let catalog = link.catalog()?;
    let is_profile = |kind: &Object| *kind == Object::Profile;
    let what = "action profile or selector";
    let profiles = state::externs(&catalog, what, options.name.as_deref(), is_profile)?;
    let parts = profiles
        .into_iter()
        .flat_map(|one| members_and_groups(&catalog, one));
    show_parts(link, &catalog, parts.collect(), as_json, |_| true)
}

/// Returns the parts of an action profile: members before the groups that contain them. Only
/// selectors have groups.
pub(crate) fn members_and_groups(catalog: &Catalog, profile: ir::ExternId) -> Vec<Part> {
    let id = catalog.extern_id(profile);
    let mut profiles = catalog.info.action_profiles.iter();
    let own = profiles.find(|one| one.preamble.as_ref().is_some_and(|own| own.id == id));
    match own.is_some_and(|own| own.with_selector) {
        true => vec![Part::Members(profile), Part::Groups(profile)],
        false => vec![Part::Members(profile)],
    }
}

pub(crate) fn multicast(link: &mut Link, as_json: bool) -> Result<(), String> {
    let catalog = link.catalog()?;
    show_parts(
        link,
        &catalog,
        vec![Part::Multicast, Part::Clones],
        as_json,
        |_| true,
    )
}

//! Facts: what the tables of a program hold at one moment. An engine may make code that is right
//! only while the facts hold ([`crate::Loaded::specialise`]). The device leaves such code with the
//! publication of the first state for which they do not hold.

use std::fmt;
use std::sync::Arc;

use ir::{Program, TableId, limbs_of};
use table::{ActionRef, EntryAction, EntryIdx, FieldMatch};

use crate::Configuration;

/// Maximum number of entries of a table that is examined. It bounds the time of a check.
const MAX_EXAMINED: usize = 256;

/// Maximum number of entries that are facts one by one. Code compares a key with each of them.
const MAX_RULES: usize = 16;

/// Facts about all tables of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Facts about each table, by [`TableId`].
    tables: Box<[Option<TableFacts>]>,
}

/// Facts about one table: its default action, and what its entries have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// The default action.
    pub default: KnownAction,
    /// Action that all entries run, if there are entries and they run the same.
    pub common: Option<CommonAction>,
    /// The entries, the one that wins first, if there are few. Without entries every key misses.
    pub rules: Option<Box<[KnownRule]>>,
}

/// Action with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAction {
    /// Position in the table's list of actions.
    pub position: usize,
    /// Limbs of each parameter.
    pub params: Box<[Box<[u64]>]>,
}

/// Action that all entries of a table run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonAction {
    /// Position in the table's list of actions.
    pub position: usize,
    /// Limbs of each parameter that is equal in all entries, `None` for other parameters.
    pub params: Box<[Option<Box<[u64]>>]>,
}

/// Entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRule {
    /// Number of its record.
    pub record: u32,
    /// Match of each field of the key.
    pub matches: Arc<[FieldMatch]>,
}

impl TableFacts {
    /// Returns true if the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.is_empty())
    }

    /// Returns true if code can use more than the default action.
    fn is_of_use(&self) -> bool {
        self.common.is_some() || self.rules.is_some()
    }
}

impl Facts {
    /// Returns the facts about the current contents of a program's tables.
    pub fn of(configuration: &Configuration) -> Facts {
        let tables = configuration.program().tables.ids();
        let tables = tables.map(|table| of_table(configuration, table));
        Facts {
            tables: tables.collect(),
        }
    }

    /// Returns the facts about a table, `None` if nothing is known.
    pub fn table(&self, table: TableId) -> Option<&TableFacts> {
        self.tables.get(table.get() as usize)?.as_ref()
    }

    /// Returns true if some table's facts are of use to an engine.
    pub fn are_of_use(&self) -> bool {
        self.tables.iter().flatten().any(TableFacts::is_of_use)
    }

    /// Returns the first table for which the facts do not hold, of those that may have changed.
    pub fn broken_by(
        &self,
        configuration: &Configuration,
        mut may_have_changed: impl FnMut(TableId) -> bool,
    ) -> Option<TableId> {
        let mut tables = configuration.program().tables.ids();
        tables.find(|&table| {
            let known = self.table(table);
            known.is_some()
                && may_have_changed(table)
                && known != of_table(configuration, table).as_ref()
        })
    }

    /// Returns lines that describe the facts that are of use, with the names of the program.
    pub fn lines(&self, program: &Program) -> Vec<String> {
        let tables = program.tables.iter();
        let known = tables.filter_map(|(id, table)| {
            let facts = self.table(id).filter(|facts| facts.is_of_use())?;
            Some(format!(
                "table {}: {}",
                table.name,
                Described(program, table, facts)
            ))
        });
        known.collect()
    }
}

/// Facts of a table in words.
struct Described<'d>(&'d Program, &'d ir::Table, &'d TableFacts);

impl Described<'_> {
    fn name(&self, position: usize) -> &str {
        let action = self.1.actions.get(position);
        let action = action.and_then(|listed| self.0.actions.get(listed.action));
        action.map_or("?", |action| &action.name)
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described(_, _, facts) = self;
        let default = self.name(facts.default.position);
        if facts.is_empty() {
            return write!(f, "no entries, always {default}");
        }
        if let Some(rules) = &facts.rules {
            let rules = support::count::count(rules.len() as u64, "entry");
            write!(f, "{rules} compared in code")?;
        }
        let Some(common) = &facts.common else {
            return Ok(());
        };
        let and = if facts.rules.is_some() { ", " } else { "" };
        write!(f, "{and}all entries run {}", self.name(common.position))?;
        let equal = common.params.iter().flatten().count();
        if equal > 0 {
            let equal = support::count::count(equal as u64, "constant parameter");
            write!(f, " with {equal}")?;
        }
        Ok(())
    }
}

fn of_table(configuration: &Configuration, id: TableId) -> Option<TableFacts> {
    let program = configuration.program();
    let declared = program.tables.get(id)?;
    let table = configuration.tables.get(id)?;
    // Packets write the others while code runs, and members of profiles are not entries.
    if declared.is_written_by_packets() || declared.implementation.is_some() {
        return None;
    }
    let default = known_action(program, declared, table.default_action())?;
    let Some(entries) = table.ranked(MAX_EXAMINED) else {
        return Some(TableFacts {
            default,
            common: None,
            rules: None,
        });
    };
    let mut actions = entries.iter().map(|(_, entry)| &entry.action);
    let first = actions.next();
    let first = first.and_then(|action| known_action(program, declared, action));
    let common = first.and_then(|first| common_action(program, declared, first, actions));
    let rules = entries.iter().map(|(idx, entry)| KnownRule {
        record: EntryIdx::record_of(Some(*idx)),
        matches: Arc::clone(&entry.matches),
    });
    let are_few = entries.len() <= MAX_RULES;
    Some(TableFacts {
        default,
        common,
        rules: are_few.then(|| rules.collect()),
    })
}

/// Returns the action that all entries run, given that of the first one and those of the others.
fn common_action<'e>(
    program: &Program,
    declared: &ir::Table,
    first: KnownAction,
    others: impl Iterator<Item = &'e EntryAction>,
) -> Option<CommonAction> {
    let KnownAction { position, params } = first;
    let mut common = CommonAction {
        position,
        params: params.into_iter().map(Some).collect(),
    };
    for action in others {
        let other = known_action(program, declared, action)?;
        if other.position != position {
            return None;
        }
        for (known, param) in common.params.iter_mut().zip(other.params) {
            if known.as_ref() != Some(&param) {
                *known = None;
            }
        }
    }
    Some(common)
}

/// Returns an action with its position in the table's list. `None` if the table does not list it.
fn known_action(
    program: &Program,
    declared: &ir::Table,
    action: &EntryAction,
) -> Option<KnownAction> {
    let EntryAction::Direct(ActionRef { action, params }) = action else {
        return None;
    };
    let mut listed = declared.actions.iter();
    let position = listed.position(|listed| listed.action.get() == *action)?;
    let described = program.actions.get(declared.actions[position].action)?;
    let mut limbs = &params[..];
    let params = described.params.iter().map(|param| {
        let (own, rest) = limbs.split_at_checked(limbs_of(param.ty) as usize)?;
        limbs = rest;
        Some(Box::from(own))
    });
    Some(KnownAction {
        position,
        params: params.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::NewEntry;

    /// Program with one table, of which the actions have a parameter.
    const PROGRAM: &str = "program p own\nfield a: bit<16>\n\
        action to(port: bit<16>, way: bit<16>) {\n a = %port;\n}\naction none() {\n}\n\
        table hosts {\n key a: exact as bit<16> = a;\n action to table_and_default;\n action none table_and_default;\n default none();\n size 1024 declared;\n}\n\
        control c {\n stage hosts: match hosts next end;\n}\n";

    fn configuration() -> Configuration {
        let program = ir::read(PROGRAM).expect("the text is IR");
        Configuration::new(Arc::new(program)).expect("it has no entries")
    }

    fn add(configuration: &mut Configuration, key: u128, params: [u64; 2]) {
        let matches = vec![FieldMatch::Exact(bits::Value::truncated(key, 16))];
        let action = EntryAction::Direct(ActionRef {
            action: 0,
            params: Box::from(params),
        });
        let table = &mut configuration.tables[TableId::new(0)];
        table
            .insert(NewEntry::new(matches, action), 0)
            .expect("it fits");
    }

    fn lines(configuration: &Configuration) -> Vec<String> {
        Facts::of(configuration).lines(configuration.program())
    }

    #[test]
    fn facts_follow_the_number_of_entries_and_what_they_share() {
        let mut configuration = configuration();
        assert_eq!(
            lines(&configuration),
            ["table hosts: no entries, always none"]
        );
        add(&mut configuration, 1, [3, 4]);
        assert_eq!(
            lines(&configuration),
            [
                "table hosts: 1 entry compared in code, all entries run to with 2 constant parameters"
            ]
        );
        for key in 2..=MAX_RULES as u128 + 1 {
            add(&mut configuration, key, [key as u64, 4]);
        }
        assert_eq!(
            lines(&configuration),
            ["table hosts: all entries run to with 1 constant parameter"]
        );
        for key in MAX_RULES as u128 + 2..=MAX_EXAMINED as u128 + 1 {
            add(&mut configuration, key, [0, 4]);
        }
        assert_eq!(lines(&configuration), Vec::<String>::new());
        assert!(!Facts::of(&configuration).are_of_use());
    }

    #[test]
    fn a_change_breaks_the_facts_that_it_contradicts_and_no_others() {
        let table = TableId::new(0);
        let mut configuration = configuration();
        for key in 0..=MAX_RULES as u128 {
            add(&mut configuration, key, [key as u64, 4]);
        }
        let facts = Facts::of(&configuration);
        add(&mut configuration, 100, [100, 4]);
        assert_eq!(facts.broken_by(&configuration, |_| true), None);
        add(&mut configuration, 101, [100, 5]);
        assert_eq!(facts.broken_by(&configuration, |_| true), Some(table));
        assert_eq!(facts.broken_by(&configuration, |_| false), None);
        let facts = Facts::of(&configuration);
        let default = EntryAction::Direct(ActionRef {
            action: 0,
            params: Box::from([1, 1]),
        });
        configuration.tables[table].set_default(default);
        assert_eq!(facts.broken_by(&configuration, |_| true), Some(table));
    }
}

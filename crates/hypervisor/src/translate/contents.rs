//! Contents of a function's tables, from the program and from updates.

use std::collections::HashMap;

use entries::{EntryAction, TableEntry, Update};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, MatchKind, Program, TableId};

use super::error::{TranslateError, refuse};
use super::paths::ValueSets;

/// An entry with its action.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    pub(super) keys: Vec<KeyMatch>,
    /// Priority. The entry with the larger rank wins.
    pub(super) rank: i32,
    pub(super) call: ActionCall,
    pub(super) idle_timeout_ns: Option<u64>,
}

/// Contents of all tables.
pub(super) struct Contents {
    entries: HashMap<TableId, Vec<Filled>>,
    defaults: HashMap<TableId, ActionCall>,
    pub(super) value_sets: ValueSets,
    /// Updates that apply to the hypervisor unchanged.
    pub(super) others: Vec<Update>,
}

impl Contents {
    pub(super) fn new(program: &Program, updates: &[Update]) -> Result<Contents, TranslateError> {
        let mut contents = Contents {
            entries: HashMap::new(),
            defaults: HashMap::new(),
            value_sets: HashMap::new(),
            others: Vec::new(),
        };
        for (id, table) in program.tables.iter() {
            contents.defaults.insert(id, table.default.clone());
            for (position, entry) in table.entries.iter().enumerate() {
                let priority = entry
                    .priority
                    .map(|priority| match table.largest_priority_wins {
                        true => priority,
                        false => 1_000_000_000 - priority,
                    });
                // Without priorities the first entry wins.
                let order = 1_000_000 - position as i32;
                let rank = rank(program, id, &entry.keys, priority, order);
                let (keys, call) = (entry.keys.clone(), entry.action.clone());
                let filled = Filled {
                    keys,
                    rank,
                    call,
                    idle_timeout_ns: None,
                };
                contents.entries.entry(id).or_default().push(filled);
            }
        }
        let mut members: HashMap<(ExternId, u32), (ActionId, Vec<bits::Value>)> = HashMap::new();
        for update in updates {
            if let Update::Member {
                profile,
                id,
                action,
                args,
            } = update
            {
                members.insert((*profile, *id), (*action, args.clone()));
            }
        }
        for update in updates {
            match update {
                Update::Insert(table, entry) => {
                    contents.insert(program, *table, entry, &members)?
                }
                Update::SetDefault(table, call) => {
                    contents.defaults.insert(*table, call.clone());
                }
                Update::ValueSet { value_set, members } => {
                    let fields = members.iter().map(|member| member.fields.clone());
                    contents.value_sets.insert(*value_set, fields.collect());
                }
                Update::Member { .. } => {}
                Update::Group { .. } => return refuse("group of an action selector", None),
                Update::ExpireProfile { .. } => return refuse("time-out profile", None),
                Update::Queue(_) => return refuse("queue of a port", None),
                Update::HostPorts(_) => return refuse("host port", None),
                Update::HashCrc { .. } | Update::HashKey(_) | Update::HashSeed(_) => {
                    return refuse("parameter of hashes", None);
                }
                other => contents.others.push(other.clone()),
            }
        }
        Ok(contents)
    }

    fn insert(
        &mut self,
        program: &Program,
        id: TableId,
        entry: &TableEntry,
        members: &HashMap<(ExternId, u32), (ActionId, Vec<bits::Value>)>,
    ) -> Result<(), TranslateError> {
        let table = &program.tables[id];
        let call = match &entry.action {
            EntryAction::Call(call) => call.clone(),
            EntryAction::Member(member) => {
                let found = table
                    .implementation
                    .and_then(|own| members.get(&(own, *member)));
                let Some((action, args)) = found else {
                    return refuse(
                        format!("member {member} of table {}", table.name),
                        table.loc,
                    );
                };
                let position = table.actions.iter().position(|own| own.action == *action);
                ActionCall {
                    action: position.unwrap_or(0),
                    args: args.clone(),
                }
            }
            EntryAction::Group(_) | EntryAction::OneShot(_) => {
                return refuse(format!("action selector (table {})", table.name), table.loc);
            }
        };
        let rank = rank(program, id, &entry.keys, entry.priority, 0);
        let (keys, idle_timeout_ns) = (entry.keys.clone(), entry.idle_timeout_ns);
        let filled = Filled {
            keys,
            rank,
            call,
            idle_timeout_ns,
        };
        self.entries.entry(id).or_default().push(filled);
        Ok(())
    }

    pub(super) fn entries(&self, table: TableId) -> &[Filled] {
        self.entries.get(&table).map_or(&[], Vec::as_slice)
    }

    pub(super) fn default(&self, table: TableId) -> &ActionCall {
        &self.defaults[&table]
    }
}

/// Returns the rank of an entry: its priority, or else its prefix length. Entries with neither get
/// `order`: the program's entries by declaration, all others equal, since their keys do not
/// overlap.
fn rank(
    program: &Program,
    table: TableId,
    keys: &[KeyMatch],
    priority: Option<i32>,
    order: i32,
) -> i32 {
    if let Some(priority) = priority {
        return priority;
    }
    let kinds = program.tables[table]
        .keys
        .iter()
        .filter(|key| key.match_kind != MatchKind::Selector);
    let mut lengths = kinds
        .zip(keys)
        .filter_map(|(key, wanted)| match (key.match_kind, wanted) {
            (MatchKind::Lpm, KeyMatch::Lpm(_, len)) => Some(*len as i32),
            (MatchKind::Lpm, _) => Some(0),
            _ => None,
        });
    lengths.next().unwrap_or(order)
}

//! Runtime JSON: the entries of one switch in the P4 tutorials (`s1-runtime.json`).

use std::ops::Range;

use ir::{KeyMatch, MatchKind, TableId};
use json_text::{JsonMember, JsonNode};

use super::{PlacedUpdate, WrittenMatch, key_match};
use crate::error::EntriesError;
use crate::ports;
use crate::resolve::{self, Sought, Word};
use crate::schema::{Key, Schema};
use crate::update::{CloneSession, EntryAction, Replica, TableEntry, Update};

/// Keys of the file. The first ones name what the switch runs, not its entries.
const FILE_KEYS: &[&str] = &[
    "target",
    "p4info",
    "bmv2_json",
    "table_entries",
    "multicast_group_entries",
    "clone_session_entries",
];
const ENTRY_KEYS: &[&str] = &[
    "table",
    "match",
    "priority",
    "default_action",
    "action_name",
    "action_params",
];
const GROUP_KEYS: &[&str] = &["multicast_group_id", "replicas"];
const SESSION_KEYS: &[&str] = &["clone_session_id", "replicas", "packet_length_bytes"];
const REPLICA_KEYS: &[&str] = &["egress_port", "instance"];

/// Reads a file. Multicast groups and clone sessions come before the entries.
pub(super) fn read(schema: &Schema, text: &str) -> Result<Vec<PlacedUpdate>, Vec<EntriesError>> {
    let file = json_text::parse(text)
        .map_err(|error| vec![EntriesError::new(pair(&error.at), error.message)])?;
    if let Some(refused) = other_kind_of_file(&file) {
        return Err(vec![refused]);
    }
    let mut reader = Reader {
        schema,
        errors: Vec::new(),
    };
    reader.check_keys(&file, FILE_KEYS);
    let mut updates = Vec::new();
    reader.items(
        &file,
        "multicast_group_entries",
        &mut updates,
        Reader::group,
    );
    reader.items(
        &file,
        "clone_session_entries",
        &mut updates,
        Reader::session,
    );
    reader.items(&file, "table_entries", &mut updates, Reader::entry);
    match reader.errors.is_empty() {
        true => Ok(updates),
        false => Err(reader.errors),
    }
}

/// Returns the error for JSON of another kind that users have beside these files.
fn other_kind_of_file(file: &JsonNode) -> Option<EntriesError> {
    let has = |key| file.get(key).is_some();
    let (what, hint) = if has("header_types") && has("pipelines") {
        (
            "this is a program that p4c compiled for BMv2, not entries",
            "name the runtime JSON or the command file, and the P4 program itself as the program",
        )
    } else if has("switches") && has("links") || has("topology") {
        (
            "this is a topology, not entries",
            "start it by `polyplane fabric up`",
        )
    } else if file.get("table_entries").is_none() && !has("target") && !has("p4info") {
        (
            "this JSON has no entries",
            "runtime JSON has the key \"table_entries\"; docs/reference/entries.md has the formats",
        )
    } else {
        return None;
    };
    let first = pair(&(file.at.start..file.at.start + 1));
    Some(EntriesError::new(first, what).hint(hint))
}

fn pair(at: &Range<usize>) -> (usize, usize) {
    (at.start, at.end)
}

/// Returns a value's text with its place. The place of a string begins after its quote.
fn word(node: &JsonNode) -> Option<Word<'_>> {
    let quote = usize::from(node.text().is_some());
    Some(Word::new(node.word()?, node.at.start + quote))
}

fn key_word(member: &JsonMember) -> Word<'_> {
    Word::new(&member.key, member.key_at.start + 1)
}

/// Reader of one kind of item.
type ReadItem<'s> = fn(&mut Reader<'s>, &JsonNode) -> Result<Update, EntriesError>;

struct Reader<'s> {
    schema: &'s Schema,
    errors: Vec<EntriesError>,
}

impl<'s> Reader<'s> {
    /// Reads the items of a list of the file, if it has the list.
    fn items(
        &mut self,
        file: &JsonNode,
        key: &str,
        updates: &mut Vec<PlacedUpdate>,
        read: ReadItem<'s>,
    ) {
        let Some(list) = file.get(key) else {
            return;
        };
        let Some(items) = list.items() else {
            let message = format!("\"{key}\" is a list");
            self.errors.push(EntriesError::new(pair(&list.at), message));
            return;
        };
        for item in items {
            match read(self, item) {
                Ok(update) => updates.push((update, pair(&item.at))),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Reports keys that mean nothing here, so that a misspelt one is not lost.
    fn check_keys(&mut self, node: &JsonNode, known: &[&str]) {
        for member in node.members().unwrap_or_default() {
            if !known.contains(&member.key.as_str()) {
                let message = format!("the key \"{}\" has no meaning here", member.key);
                let hint = format!("there are: {}", known.join(", "));
                let error = EntriesError::new(pair(&member.key_at), message);
                self.errors.push(error.hint(hint));
            }
        }
    }

    fn entry(&mut self, item: &JsonNode) -> Result<Update, EntriesError> {
        self.check_keys(item, ENTRY_KEYS);
        let name = required_word(item, "table")?;
        let action = required_word(item, "action_name")?;
        let args = arguments(item)?;
        if is_default(item)? {
            let table = resolve::table(self.schema, name)?;
            let call = resolve::default_call(self.schema, table, action, &args)?;
            return Ok(Update::SetDefault(table, call));
        }
        let table = resolve::open_table(self.schema, name)?;
        let call = resolve::table_call(self.schema, table, action, &args)?;
        Ok(Update::Insert(
            table,
            TableEntry {
                keys: self.keys(table, item)?,
                priority: self.priority(table, item)?,
                action: EntryAction::Call(call),
                idle_timeout_ns: None,
                meter: None,
                counter: None,
            },
        ))
    }

    fn keys(&self, table: TableId, item: &JsonNode) -> Result<Vec<KeyMatch>, EntriesError> {
        let table = &self.schema.tables[table];
        let mut matches = vec![None; table.keys.len()];
        for member in optional_members(item, "match")? {
            let names = table.keys.iter().map(|key| key.name.as_str());
            let at = resolve::find(key_word(member), names, Sought::KeyOf(&table.name))?;
            matches[at] = Some(self.key(&table.keys[at], &member.node)?);
        }
        let missing = |(key, given): &(&Key, &Option<KeyMatch>)| {
            key.match_kind == MatchKind::Exact && given.is_none()
        };
        if let Some((key, _)) = table.keys.iter().zip(&matches).find(missing) {
            let message = format!("the exact key `{}` is missing", key.name);
            let error = EntriesError::new(pair(&item.at), message);
            return Err(error.hint(format!("add \"{}\": VALUE to \"match\"", key.name)));
        }
        let given = matches.into_iter();
        Ok(given.map(|given| given.unwrap_or(KeyMatch::Any)).collect())
    }

    fn key(&self, key: &Key, node: &JsonNode) -> Result<KeyMatch, EntriesError> {
        let one = std::slice::from_ref(node);
        let words = node.items().unwrap_or(one).iter().map(word);
        let words: Option<Vec<Word<'_>>> = words.collect();
        let written = match (key.match_kind, words.as_deref()) {
            (MatchKind::Lpm, Some([value, length])) => WrittenMatch::Prefix(*value, *length),
            (MatchKind::Ternary, Some([value, mask])) => WrittenMatch::Masked(*value, *mask),
            (MatchKind::Range, Some([low, high])) => WrittenMatch::Range(*low, *high),
            (MatchKind::Exact | MatchKind::Optional, Some([value])) => WrittenMatch::Value(*value),
            (kind, _) => {
                let form = match kind {
                    MatchKind::Lpm => "[VALUE, PREFIX LENGTH]",
                    MatchKind::Ternary => "[VALUE, MASK]",
                    MatchKind::Range => "[FIRST, LAST]",
                    _ => "VALUE",
                };
                let message = format!("the match of `{}` is written {form}", key.name);
                return Err(EntriesError::new(pair(&node.at), message));
            }
        };
        key_match(self.schema, key, written)
    }

    fn priority(&self, table: TableId, item: &JsonNode) -> Result<Option<i32>, EntriesError> {
        let table = &self.schema.tables[table];
        let written = item.get("priority");
        let number = written.and_then(JsonNode::integer);
        match (table.needs_priority(), written, number) {
            (true, Some(_), Some(number @ 1..=0x7fff_ffff)) => Ok(Some(number as i32)),
            (false, None, _) | (false, _, Some(0)) => Ok(None),
            (true, given, _) => {
                let at = given.map_or(pair(&item.at), |node| pair(&node.at));
                let message = format!(
                    "an entry of `{}` needs a priority from 1 to 2147483647",
                    table.name
                );
                Err(EntriesError::new(at, message)
                    .hint("add \"priority\": NUMBER; the larger one wins"))
            }
            (false, Some(node), _) => {
                let message = format!("an entry of `{}` takes no priority", table.name);
                Err(EntriesError::new(pair(&node.at), message).hint("leave \"priority\" out"))
            }
        }
    }

    fn group(&mut self, item: &JsonNode) -> Result<Update, EntriesError> {
        self.check_keys(item, GROUP_KEYS);
        let (id, at) = required_number(item, "multicast_group_id")?;
        ports::check_group(self.schema.arch, id, at)?;
        Ok(Update::Multicast {
            id,
            replicas: self.replicas(item)?,
        })
    }

    fn session(&mut self, item: &JsonNode) -> Result<Update, EntriesError> {
        self.check_keys(item, SESSION_KEYS);
        let (id, at) = required_number(item, "clone_session_id")?;
        ports::check_session(self.schema.arch, id, at)?;
        let length = match item.get("packet_length_bytes") {
            Some(_) => required_number(item, "packet_length_bytes")?.0,
            None => 0,
        };
        Ok(Update::Clone(CloneSession {
            id,
            replicas: self.replicas(item)?,
            truncate: (length > 0).then_some(length),
            class_of_service: 0,
        }))
    }

    fn replicas(&mut self, item: &JsonNode) -> Result<Vec<Replica>, EntriesError> {
        let list = required(item, "replicas")?;
        let Some(items) = list.items() else {
            return Err(EntriesError::new(pair(&list.at), "\"replicas\" is a list"));
        };
        let mut replicas: Vec<Replica> = Vec::new();
        for node in items {
            self.check_keys(node, REPLICA_KEYS);
            let (port, at) = required_number(node, "egress_port")?;
            ports::check_copy(self.schema.arch, port, at)?;
            let instance = match node.get("instance") {
                Some(_) => {
                    let (instance, at) = required_number(node, "instance")?;
                    ports::check_instance(self.schema.arch, instance, at)?;
                    instance
                }
                None => 0,
            };
            let replica = Replica { port, instance };
            if replicas.contains(&replica) {
                let message = format!("port {port} instance {instance} is given twice");
                return Err(EntriesError::new(pair(&node.at), message));
            }
            replicas.push(replica);
        }
        Ok(replicas)
    }
}

/// Returns the arguments of an entry's action, each with its name.
fn arguments(item: &JsonNode) -> Result<Vec<(Option<Word<'_>>, Word<'_>)>, EntriesError> {
    let members = optional_members(item, "action_params")?;
    let args = members.iter().map(|member| {
        let node = match member.node.items() {
            Some([one]) => one,
            _ => &member.node,
        };
        let value = word(node).ok_or_else(|| {
            let message = format!("the parameter \"{}\" takes one value", member.key);
            EntriesError::new(pair(&member.node.at), message)
        })?;
        Ok((Some(key_word(member)), value))
    });
    args.collect()
}

/// Returns true if an entry is a table's default action.
fn is_default(item: &JsonNode) -> Result<bool, EntriesError> {
    let Some(node) = item.get("default_action") else {
        return Ok(false);
    };
    node.truth().ok_or_else(|| {
        EntriesError::new(pair(&node.at), "\"default_action\" is true or false")
            .hint("write it without quotes")
    })
}

/// Returns the members of an object that may be absent.
fn optional_members<'n>(item: &'n JsonNode, key: &str) -> Result<&'n [JsonMember], EntriesError> {
    let Some(node) = item.get(key) else {
        return Ok(&[]);
    };
    node.members().ok_or_else(|| {
        let message = format!("\"{key}\" is an object");
        EntriesError::new(pair(&node.at), message).hint("write { \"NAME\": VALUE }")
    })
}

fn required<'n>(item: &'n JsonNode, key: &str) -> Result<&'n JsonNode, EntriesError> {
    item.get(key).ok_or_else(|| {
        EntriesError::new(pair(&item.at), format!("the key \"{key}\" is missing here"))
    })
}

fn required_word<'n>(item: &'n JsonNode, key: &str) -> Result<Word<'n>, EntriesError> {
    let node = required(item, key)?;
    node.text()
        .and(word(node))
        .ok_or_else(|| EntriesError::new(pair(&node.at), format!("\"{key}\" is a name in quotes")))
}

fn required_number(item: &JsonNode, key: &str) -> Result<(u32, (usize, usize)), EntriesError> {
    let node = required(item, key)?;
    let number = node.integer().and_then(|number| u32::try_from(number).ok());
    let number = number.ok_or_else(|| {
        EntriesError::new(pair(&node.at), format!("\"{key}\" is a number from 0 on"))
    })?;
    Ok((number, pair(&node.at)))
}

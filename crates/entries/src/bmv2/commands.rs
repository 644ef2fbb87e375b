//! Command files of `simple_switch_CLI`: one command a line.
//!
//! The commands run on a model of a switch that begins without entries. What it holds at the end
//! becomes the updates, so `table_delete` takes an earlier `table_add` of the file away.

use std::collections::BTreeMap;

use ir::{ActionCall, ActionId, ExternId, KeyMatch, MatchKind, TableId};

use super::config::DeviceCommands;
use super::handles::{HandleReuse, HandleTable, MAX_ITEMS};
use super::replication::ReplicationCommands;
use super::{PlacedUpdate, WrittenMatch, key_match};
use crate::error::EntriesError;
use crate::resolve::{self, Word, distance, is_near};
use crate::schema::{Key, Object, Schema};
use crate::update::{EntryAction, GroupMember, TableEntry, Update};

/// Commands that change what an entries file may set.
const COMMANDS: &[&str] = &[
    "act_prof_add_member_to_group",
    "act_prof_create_group",
    "act_prof_create_member",
    "act_prof_delete_group",
    "act_prof_delete_member",
    "act_prof_modify_member",
    "act_prof_remove_member_from_group",
    "counter_reset",
    "counter_write",
    "mc_mgrp_create",
    "mc_mgrp_destroy",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_destroy",
    "mc_node_dissociate",
    "mc_node_update",
    "meter_array_set_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "pvs_add",
    "pvs_clear",
    "pvs_remove",
    "register_reset",
    "register_write",
    "reset_state",
    "set_crc16_parameters",
    "set_crc32_parameters",
    "set_queue_depth",
    "set_queue_rate",
    "set_toeplitz_hash_key",
    "table_add",
    "table_clear",
    "table_delete",
    "table_indirect_add",
    "table_indirect_add_member_to_group",
    "table_indirect_add_with_group",
    "table_indirect_create_group",
    "table_indirect_create_member",
    "table_indirect_delete",
    "table_indirect_delete_group",
    "table_indirect_delete_member",
    "table_indirect_modify_member",
    "table_indirect_remove_member_from_group",
    "table_modify",
    "table_reset_default",
    "table_set_default",
    "table_set_timeout",
];

/// Commands that have no place in an entries file, each with the reason and what to do.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "mc_set_lag_membership",
        LAGS,
        "name the ports in mc_node_create",
    ),
    (
        "table_indirect_set_default",
        INDIRECT_DEFAULT,
        "let the program name the default action",
    ),
    (
        "table_indirect_set_default_with_group",
        INDIRECT_DEFAULT,
        "let the program name the default action",
    ),
    (
        "table_indirect_reset_default",
        INDIRECT_DEFAULT,
        "leave the line out",
    ),
    (
        "load_new_config_file",
        PROGRAM,
        "use `polyplane ctl load PROGRAM.p4`",
    ),
    (
        "swap_configs",
        PROGRAM,
        "use `polyplane ctl load PROGRAM.p4`",
    ),
    (
        "port_add",
        PORTS,
        "give the port to `polyplane run --port`, or to the topology",
    ),
    (
        "port_remove",
        PORTS,
        "give the port to `polyplane run --port`, or to the topology",
    ),
    ("serialize_state", FILES, "use `polyplane ctl dump`"),
    (
        "write_config_to_file",
        FILES,
        "use `polyplane ctl pipeline`",
    ),
    ("shell", FILES, "run it in a shell"),
    ("act_prof_dump", PRINTS, "use `polyplane ctl groups`"),
    ("act_prof_dump_group", PRINTS, "use `polyplane ctl groups`"),
    ("act_prof_dump_member", PRINTS, "use `polyplane ctl groups`"),
    ("counter_read", PRINTS, "use `polyplane ctl counters`"),
    ("get_time_elapsed", PRINTS, "leave the line out"),
    ("get_time_since_epoch", PRINTS, "leave the line out"),
    ("mc_dump", PRINTS, "use `polyplane ctl multicast`"),
    ("meter_get_rates", PRINTS, "use `polyplane ctl meters`"),
    ("mirroring_get", PRINTS, "use `polyplane ctl multicast`"),
    ("pvs_get", PRINTS, "use `polyplane ctl dump`"),
    ("register_read", PRINTS, "use `polyplane ctl registers`"),
    ("show_actions", PRINTS, "use `polyplane p4info`"),
    ("show_ports", PRINTS, "use `polyplane ctl status`"),
    ("show_pvs", PRINTS, "use `polyplane ctl dump`"),
    ("show_tables", PRINTS, "use `polyplane ctl tables`"),
    ("switch_info", PRINTS, "use `polyplane ctl status`"),
    ("table_dump", PRINTS, "use `polyplane ctl show TABLE`"),
    ("table_dump_entry", PRINTS, "use `polyplane ctl show TABLE`"),
    (
        "table_dump_entry_from_key",
        PRINTS,
        "use `polyplane ctl show TABLE`",
    ),
    ("table_dump_group", PRINTS, "use `polyplane ctl groups`"),
    ("table_dump_member", PRINTS, "use `polyplane ctl groups`"),
    ("table_info", PRINTS, "use `polyplane ctl tables`"),
    ("table_num_entries", PRINTS, "use `polyplane ctl tables`"),
    ("table_show_actions", PRINTS, "use `polyplane ctl tables`"),
];

const LAGS: &str = "link aggregation groups of multicast are not supported";
const INDIRECT_DEFAULT: &str = "a default action that is a member or a group is not supported";
const PROGRAM: &str = "an entries file does not change the program";
const PORTS: &str = "an entries file does not change ports";
const FILES: &str = "an entries file runs no program and writes no file";
const PRINTS: &str = "this command only prints, and an entries file prints nothing";

/// Number of lines in which a command is looked for, to find the format of a file.
const LINES_OF_FORMAT: usize = 20;

/// Returns true if a text has commands, not statements of an entries file.
pub(super) fn is_commands(text: &str) -> bool {
    let lines = lines(text).take(LINES_OF_FORMAT);
    lines.into_iter().any(|line| {
        let name = line.command.text;
        let is_known = COMMANDS.contains(&name) || REFUSED.iter().any(|(own, ..)| *own == name);
        // A table of a statement may have the name of a command.
        let next = line.args.first().map_or("", |word| word.text);
        is_known && !next.starts_with('{') && !["default", "member", "group"].contains(&next)
    })
}

/// Returns true if a text has as many lines as [`is_commands`] looks at.
pub(super) fn has_lines_of_format(text: &str) -> bool {
    lines(text).nth(LINES_OF_FORMAT - 1).is_some()
}

/// Reads a file.
pub(super) fn read(schema: &Schema, text: &str) -> Result<Vec<PlacedUpdate>, Vec<EntriesError>> {
    let mut file = CommandFile::new(schema);
    let mut errors = Vec::new();
    for line in lines(text) {
        if let Err(error) = file.run(&line) {
            errors.push(error);
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    file.updates().map_err(|error| vec![error])
}

/// A command with its arguments.
pub(super) struct CommandLine<'a> {
    pub(super) command: Word<'a>,
    pub(super) args: Vec<Word<'a>>,
}

impl<'a> CommandLine<'a> {
    /// Returns the place of the command and its arguments.
    pub(super) fn at(&self) -> (usize, usize) {
        let last = self.args.last().unwrap_or(&self.command);
        (self.command.start, last.at().1)
    }

    /// Returns the arguments if there are exactly as many as these names.
    pub(super) fn exactly<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Word<'a>; N], EntriesError> {
        let exact: Result<[Word<'a>; N], _> = self.args.clone().try_into();
        exact.map_err(|_| self.usage(&names.map(|name| format!("<{name}>")).join(" ")))
    }

    /// Returns the arguments that these names have, and the rest.
    pub(super) fn at_least<const N: usize>(
        &self,
        names: [&str; N],
        rest: &str,
    ) -> Result<([Word<'a>; N], &[Word<'a>]), EntriesError> {
        let first: Option<&[Word<'a>; N]> = self.args.first_chunk();
        match first {
            Some(first) => Ok((*first, &self.args[N..])),
            None => {
                let names = names.map(|name| format!("<{name}>")).join(" ");
                Err(self.usage(&format!("{names} {rest}")))
            }
        }
    }

    fn usage(&self, arguments: &str) -> EntriesError {
        let command = self.command.text;
        EntriesError::new(self.at(), format!("{command} has other arguments"))
            .hint(format!("write {command} {arguments}"))
    }
}

/// Returns the commands of a text. A comment begins with `#` or `//`.
fn lines(text: &str) -> impl Iterator<Item = CommandLine<'_>> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let first = start;
        start += line.len();
        let mut words = words(line, first).into_iter();
        let command = words.next()?;
        Some(CommandLine {
            command,
            args: words.collect(),
        })
    })
}

/// Returns the words of a line, up to a comment. `first` is the place of the line.
fn words(line: &str, first: usize) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('#') || rest.starts_with("//") {
            return words;
        }
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let at = first + line.len() - rest.len();
        words.push(Word::new(&rest[..len], at));
        rest = &rest[len..];
    }
}

/// Reads a number: decimal, or hexadecimal after `0x`.
pub(super) fn number(word: Word<'_>, what: &str) -> Result<u32, EntriesError> {
    let parsed = match word.text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.text.parse(),
    };
    parsed.map_err(|_| {
        let message = format!("{what} is expected here, not `{}`", word.text);
        EntriesError::new(word.at(), message)
    })
}

/// Member of an action profile.
#[derive(Clone)]
struct ProfileMember {
    action: ActionId,
    args: Vec<bits::Value>,
    at: (usize, usize),
}

/// Group of an action selector, with the handles of its members.
#[derive(Clone)]
struct ProfileGroup {
    members: Vec<u32>,
    at: (usize, usize),
}

/// Members and groups of a profile.
#[derive(Clone)]
struct Profile {
    members: HandleTable<ProfileMember>,
    groups: HandleTable<ProfileGroup>,
}

impl Profile {
    fn new() -> Profile {
        Profile {
            members: HandleTable::new(HandleReuse::Same),
            groups: HandleTable::new(HandleReuse::Same),
        }
    }
}

/// An entry with the place of its command.
type PlacedEntry = (TableEntry, (usize, usize));

/// Model of the switch that the commands configure.
struct CommandFile<'s> {
    schema: &'s Schema,
    entries: BTreeMap<TableId, HandleTable<PlacedEntry>>,
    defaults: BTreeMap<TableId, (ActionCall, (usize, usize))>,
    profiles: BTreeMap<ExternId, Profile>,
    replication: ReplicationCommands,
    device: DeviceCommands,
}

impl<'s> CommandFile<'s> {
    fn new(schema: &'s Schema) -> CommandFile<'s> {
        CommandFile {
            schema,
            entries: BTreeMap::new(),
            defaults: BTreeMap::new(),
            profiles: BTreeMap::new(),
            replication: ReplicationCommands::default(),
            device: DeviceCommands::default(),
        }
    }

    fn run(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        match line.command.text {
            "table_add" => self.table_add(line),
            "table_set_default" => self.table_set_default(line),
            "table_reset_default" => {
                let [table] = line.exactly(["table"])?;
                let table = resolve::table(self.schema, table)?;
                self.defaults.remove(&table);
                Ok(())
            }
            "table_modify" => self.table_modify(line),
            "table_delete" | "table_indirect_delete" => {
                let [table, handle] = line.exactly(["table", "entry handle"])?;
                let table = resolve::table(self.schema, table)?;
                self.entry(table, handle)?;
                let entries = self.entries.get_mut(&table);
                let number = number(handle, "an entry's handle")?;
                entries.and_then(|entries| entries.remove(number));
                Ok(())
            }
            "table_clear" => {
                let [table] = line.exactly(["table"])?;
                let table = resolve::table(self.schema, table)?;
                self.entries.remove(&table);
                Ok(())
            }
            "table_set_timeout" => {
                let [table, handle, time] =
                    line.exactly(["table", "entry handle", "milliseconds"])?;
                let table = resolve::table(self.schema, table)?;
                let milliseconds = u64::from(number(time, "a number of milliseconds")?);
                let entry = self.entry(table, handle)?;
                entry.idle_timeout_ns = (milliseconds > 0).then_some(milliseconds * 1_000_000);
                Ok(())
            }
            "table_indirect_add" => self.indirect_add(line, EntryAction::Member),
            "table_indirect_add_with_group" => self.indirect_add(line, EntryAction::Group),
            "act_prof_create_member" | "table_indirect_create_member" => self.create_member(line),
            "act_prof_modify_member" | "table_indirect_modify_member" => self.modify_member(line),
            "act_prof_delete_member" | "table_indirect_delete_member" => self.delete_member(line),
            "act_prof_create_group" | "table_indirect_create_group" => {
                let [owner] = line.exactly(["action profile"])?;
                let group = ProfileGroup {
                    members: Vec::new(),
                    at: line.at(),
                };
                let added = self.profile_mut(line, owner)?.groups.add(group);
                added
                    .map(drop)
                    .ok_or_else(|| no_more_handles(line, "groups"))
            }
            "act_prof_delete_group" | "table_indirect_delete_group" => {
                let [owner, group] = line.exactly(["action profile", "group handle"])?;
                let handle = number(group, "a group's handle")?;
                let owning = self.profile(line, owner)?;
                self.check_unused(owning, EntryAction::Group(handle + 1), group)?;
                let removed = self.profile_mut(line, owner)?.groups.remove(handle);
                removed.map(drop).ok_or_else(|| no_handle(group, "group"))
            }
            "act_prof_add_member_to_group" | "table_indirect_add_member_to_group" => {
                self.change_group(line, true)
            }
            "act_prof_remove_member_from_group" | "table_indirect_remove_member_from_group" => {
                self.change_group(line, false)
            }
            "reset_state" => {
                line.exactly([])?;
                *self = CommandFile::new(self.schema);
                Ok(())
            }
            name => {
                let known = self.replication.run(self.schema, line)?
                    || self.device.run(self.schema, line)?;
                match known {
                    true => Ok(()),
                    false => Err(unknown(line, name)),
                }
            }
        }
    }

    fn table_add(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let form = "<match fields> => <action parameters> [priority]";
        let ([name, action], rest) = line.at_least(["table", "action"], form)?;
        let table = resolve::open_table(self.schema, name)?;
        if self.schema.tables[table].implementation.is_some() {
            let message = format!("the entries of `{}` are members or groups", name.text);
            return Err(EntriesError::new(name.at(), message).hint(
                "use act_prof_create_member and table_indirect_add, or groups and \
                 table_indirect_add_with_group",
            ));
        }
        let (keys, mut args) = split_arrow(line, rest)?;
        let priority = self.priority(table, line, &mut args)?;
        let args: Vec<_> = args.iter().map(|word| (None, *word)).collect();
        let call = resolve::table_call(self.schema, table, action, &args)?;
        let keys = self.keys(table, line, keys)?;
        self.insert(table, keys, (priority, EntryAction::Call(call)), line)
    }

    /// Adds an entry that refers to a member or group by its handle.
    fn indirect_add(
        &mut self,
        line: &CommandLine<'_>,
        action: fn(u32) -> EntryAction,
    ) -> Result<(), EntriesError> {
        let form = "<match fields> => <handle> [priority]";
        let ([name], rest) = line.at_least(["table"], form)?;
        let table = resolve::open_table(self.schema, name)?;
        let Some(profile) = self.schema.tables[table].implementation else {
            return Err(no_profile(name));
        };
        let (keys, mut args) = split_arrow(line, rest)?;
        let priority = self.priority(table, line, &mut args)?;
        let [handle] = args[..] else {
            return Err(line.usage(&format!("<table> {form}")));
        };
        let id = number(handle, "a handle")?;
        let profile = self.profiles.get(&profile);
        let is_there = profile.is_some_and(|profile| match action(0) {
            EntryAction::Group(_) => profile.groups.contains(id),
            _ => profile.members.contains(id),
        });
        if !is_there {
            return Err(no_handle(handle, "member or group"));
        }
        let keys = self.keys(table, line, keys)?;
        self.insert(table, keys, (priority, action(id + 1)), line)
    }

    fn insert(
        &mut self,
        table: TableId,
        keys: Vec<KeyMatch>,
        (priority, action): (Option<i32>, EntryAction),
        line: &CommandLine<'_>,
    ) -> Result<(), EntriesError> {
        let new = || HandleTable::new(HandleReuse::NextVersion);
        let entries = self.entries.entry(table).or_insert_with(new);
        let entry = TableEntry {
            keys,
            priority,
            action,
            idle_timeout_ns: None,
            meter: None,
            counter: None,
        };
        let added = entries.add((entry, line.at()));
        added
            .map(drop)
            .ok_or_else(|| no_more_handles(line, "entries"))
    }

    /// Takes the priority away from the end of the arguments, if the table's entries have one. The
    /// lowest number wins in BMv2, the largest in P4Runtime.
    fn priority(
        &self,
        table: TableId,
        line: &CommandLine<'_>,
        args: &mut Vec<Word<'_>>,
    ) -> Result<Option<i32>, EntriesError> {
        if !self.schema.tables[table].needs_priority() {
            return Ok(None);
        }
        let given = args.pop().and_then(|word| word.text.parse::<i32>().ok());
        match given.filter(|number| (0..i32::MAX).contains(number)) {
            Some(number) => Ok(Some(i32::MAX - number)),
            None => {
                let message = "this table's entries need a priority as the last argument";
                let hint = "write a number from 0 on; the lowest one wins, as in BMv2";
                Err(EntriesError::new(line.at(), message).hint(hint))
            }
        }
    }

    fn keys(
        &self,
        table: TableId,
        line: &CommandLine<'_>,
        words: &[Word<'_>],
    ) -> Result<Vec<KeyMatch>, EntriesError> {
        let table = &self.schema.tables[table];
        if words.len() != table.keys.len() {
            let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
            let message = format!(
                "`{}` has {} keys, but {} given",
                table.name,
                names.len(),
                support::count::are(words.len() as u64)
            );
            let error = EntriesError::new(line.at(), message);
            return Err(error.hint(format!("its keys are: {}", names.join(", "))));
        }
        let pairs = table.keys.iter().zip(words);
        pairs.map(|(key, word)| self.key(key, *word)).collect()
    }

    fn key(&self, key: &Key, word: Word<'_>) -> Result<KeyMatch, EntriesError> {
        let written = match key.match_kind {
            MatchKind::Exact | MatchKind::Selector => Some(WrittenMatch::Value(word)),
            MatchKind::Lpm => {
                halves(word, "/").map(|(value, len)| WrittenMatch::Prefix(value, len))
            }
            MatchKind::Ternary | MatchKind::Optional => {
                halves(word, "&&&").map(|(value, mask)| WrittenMatch::Masked(value, mask))
            }
            MatchKind::Range => {
                halves(word, "->").map(|(low, high)| WrittenMatch::Range(low, high))
            }
        };
        let Some(written) = written else {
            let form = match key.match_kind {
                MatchKind::Lpm => "VALUE/LENGTH",
                MatchKind::Range => "FIRST->LAST",
                _ => "VALUE&&&MASK",
            };
            let message = format!("the match of `{}` is written {form}", key.name);
            return Err(EntriesError::new(word.at(), message));
        };
        match key_match(self.schema, key, written)? {
            // BMv2 implements optional keys by masks, which have all bits or none.
            KeyMatch::Ternary(value, mask) if key.match_kind == MatchKind::Optional => {
                let width = mask.width();
                if mask == bits::Value::all_ones(width) {
                    Ok(KeyMatch::Exact(value))
                } else if mask == bits::Value::zero(width) {
                    Ok(KeyMatch::Any)
                } else {
                    let message = format!("the mask of `{}` has all bits or none", key.name);
                    Err(EntriesError::new(word.at(), message))
                }
            }
            made => Ok(made),
        }
    }

    fn table_set_default(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let ([table, action], rest) = line.at_least(["table", "action"], "<action parameters>")?;
        let table = resolve::table(self.schema, table)?;
        let args: Vec<_> = after_arrow(rest).iter().map(|word| (None, *word)).collect();
        let call = resolve::default_call(self.schema, table, action, &args)?;
        self.defaults.insert(table, (call, line.at()));
        Ok(())
    }

    fn table_modify(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let names = ["table", "action", "entry handle"];
        let ([table, action, handle], rest) = line.at_least(names, "[action parameters]")?;
        let table = resolve::table(self.schema, table)?;
        let args: Vec<_> = after_arrow(rest).iter().map(|word| (None, *word)).collect();
        let call = resolve::table_call(self.schema, table, action, &args)?;
        self.entry(table, handle)?.action = EntryAction::Call(call);
        Ok(())
    }

    /// Returns the entry that an earlier line added.
    fn entry(&mut self, table: TableId, handle: Word<'_>) -> Result<&mut TableEntry, EntriesError> {
        let id = number(handle, "an entry's handle")?;
        let entries = self.entries.get_mut(&table);
        let entry = entries.and_then(|entries| entries.get_mut(id));
        entry
            .map(|(entry, _)| entry)
            .ok_or_else(|| no_handle(handle, "entry"))
    }

    /// Returns the profile that a command names, by its own name or that of a table with it.
    fn profile(&self, line: &CommandLine<'_>, name: Word<'_>) -> Result<ExternId, EntriesError> {
        if line.command.text.starts_with("act_prof") {
            let is_profile = |kind: &Object| (*kind == Object::Profile).then_some(());
            let what = "action profile or selector";
            return Ok(resolve::instance(self.schema, name, what, is_profile)?.0);
        }
        let table = resolve::table(self.schema, name)?;
        let profile = self.schema.tables[table].implementation;
        profile.ok_or_else(|| no_profile(name))
    }

    fn profile_mut(
        &mut self,
        line: &CommandLine<'_>,
        name: Word<'_>,
    ) -> Result<&mut Profile, EntriesError> {
        let profile = self.profile(line, name)?;
        Ok(self.profiles.entry(profile).or_insert_with(Profile::new))
    }

    fn create_member(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let names = ["action profile", "action"];
        let ([owner, action], rest) = line.at_least(names, "[action parameters]")?;
        let member = self.member(line, owner, (action, rest))?;
        let added = self.profile_mut(line, owner)?.members.add(member);
        added
            .map(drop)
            .ok_or_else(|| no_more_handles(line, "members"))
    }

    fn modify_member(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let names = ["action profile", "action", "member handle"];
        let ([owner, action, handle], rest) = line.at_least(names, "[action parameters]")?;
        let changed = self.member(line, owner, (action, rest))?;
        let id = number(handle, "a member's handle")?;
        let member = self.profile_mut(line, owner)?.members.get_mut(id);
        *member.ok_or_else(|| no_handle(handle, "member"))? = changed;
        Ok(())
    }

    fn delete_member(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let [owner, handle] = line.exactly(["action profile", "member handle"])?;
        let id = number(handle, "a member's handle")?;
        let owning = self.profile(line, owner)?;
        self.check_unused(owning, EntryAction::Member(id + 1), handle)?;
        let profile = self.profile_mut(line, owner)?;
        if profile
            .groups
            .iter()
            .any(|(_, group)| group.members.contains(&id))
        {
            let message = format!("the member {id} is in a group");
            let hint = "take it out with act_prof_remove_member_from_group first";
            return Err(EntriesError::new(handle.at(), message).hint(hint));
        }
        let removed = profile.members.remove(id);
        removed.map(drop).ok_or_else(|| no_handle(handle, "member"))
    }

    /// Checks that no entry refers to a member or group of a profile.
    fn check_unused(
        &self,
        profile: ExternId,
        action: EntryAction,
        handle: Word<'_>,
    ) -> Result<(), EntriesError> {
        let tables = self.entries.iter();
        let mut tables = tables
            .map(|(id, entries)| (&self.schema.tables[*id], entries))
            .filter(|(table, _)| table.implementation == Some(profile));
        let user = tables.find(|(_, entries)| {
            let mut entries = entries.iter();
            entries.any(|(_, (entry, _))| entry.action == action)
        });
        match user {
            None => Ok(()),
            Some((table, _)) => {
                let message = format!("{} is in an entry of `{}`", handle.text, table.name);
                let hint = "delete the entry with table_indirect_delete first";
                Err(EntriesError::new(handle.at(), message).hint(hint))
            }
        }
    }

    fn member(
        &self,
        line: &CommandLine<'_>,
        owner: Word<'_>,
        (action, args): (Word<'_>, &[Word<'_>]),
    ) -> Result<ProfileMember, EntriesError> {
        let profile = self.profile(line, owner)?;
        let id = resolve::profile_action(self.schema, profile, action)?;
        let args: Vec<_> = after_arrow(args).iter().map(|word| (None, *word)).collect();
        Ok(ProfileMember {
            action: id,
            args: resolve::arguments(self.schema, id, action, &args)?,
            at: line.at(),
        })
    }

    fn change_group(&mut self, line: &CommandLine<'_>, adds: bool) -> Result<(), EntriesError> {
        let names = ["action profile", "member handle", "group handle"];
        let [owner, member, group] = line.exactly(names)?;
        let id = number(member, "a member's handle")?;
        let handle = number(group, "a group's handle")?;
        let profile = self.profile_mut(line, owner)?;
        if !profile.members.contains(id) {
            return Err(no_handle(member, "member"));
        }
        let Some(found) = profile.groups.get_mut(handle) else {
            return Err(no_handle(group, "group"));
        };
        if adds == found.members.contains(&id) {
            let word = if adds { "already" } else { "not" };
            let message = format!("the member {id} is {word} in the group {handle}");
            return Err(EntriesError::new(member.at(), message));
        }
        match adds {
            true => found.members.push(id),
            false => found.members.retain(|own| *own != id),
        }
        Ok(())
    }

    /// Returns what the switch holds, as updates: what others refer to comes first.
    fn updates(self) -> Result<Vec<PlacedUpdate>, EntriesError> {
        let mut updates = Vec::new();
        for (profile, own) in &self.profiles {
            // Handles begin at 0, the ids of members and groups at 1.
            let members = own.members.iter().map(|(handle, member)| {
                let update = Update::Member {
                    profile: *profile,
                    id: handle + 1,
                    action: member.action,
                    args: member.args.clone(),
                };
                (update, member.at)
            });
            updates.extend(members);
            let groups = own.groups.iter().map(|(handle, group)| {
                let members = group.members.iter().map(|handle| GroupMember {
                    member: handle + 1,
                    weight: 1,
                });
                let update = Update::Group {
                    profile: *profile,
                    id: handle + 1,
                    members: members.collect(),
                    max_size: 0,
                };
                (update, group.at)
            });
            updates.extend(groups);
        }
        updates.extend(self.replication.updates()?);
        updates.extend(self.device.updates());
        for (table, (call, at)) in self.defaults {
            updates.push((Update::SetDefault(table, call), at));
        }
        for (table, entries) in &self.entries {
            let own = entries.iter();
            let own = own.map(|(_, (entry, at))| (Update::Insert(*table, entry.clone()), *at));
            updates.extend(own);
        }
        Ok(updates)
    }
}

/// Splits the arguments of a command at `=>`.
fn split_arrow<'a, 'l>(
    line: &CommandLine<'a>,
    words: &'l [Word<'a>],
) -> Result<(&'l [Word<'a>], Vec<Word<'a>>), EntriesError> {
    let Some(arrow) = words.iter().position(|word| word.text == "=>") else {
        let message = "`=>` is missing between the match fields and what follows";
        return Err(EntriesError::new(line.at(), message));
    };
    Ok((&words[..arrow], words[arrow + 1..].to_vec()))
}

/// Returns the arguments after a leading `=>`, which BMv2 permits.
fn after_arrow<'a, 'l>(words: &'l [Word<'a>]) -> &'l [Word<'a>] {
    match words.first() {
        Some(first) if first.text == "=>" => &words[1..],
        _ => words,
    }
}

/// Splits a word at a separator.
fn halves<'a>(word: Word<'a>, separator: &str) -> Option<(Word<'a>, Word<'a>)> {
    let at = word.text.find(separator)?;
    let behind = at + separator.len();
    let left = Word::new(&word.text[..at], word.start);
    Some((left, Word::new(&word.text[behind..], word.start + behind)))
}

pub(super) fn no_handle(word: Word<'_>, what: &str) -> EntriesError {
    let message = format!("no earlier line of the file has added {what} {}", word.text);
    EntriesError::new(word.at(), message).hint("handles are numbers from 0 on, in the file's order")
}

/// Returns the error for an item for which there is no handle left.
pub(super) fn no_more_handles(line: &CommandLine<'_>, items: &str) -> EntriesError {
    let message = format!("there are more than {MAX_ITEMS} {items}, and BMv2 has no such handle");
    EntriesError::new(line.at(), message)
}

fn no_profile(name: Word<'_>) -> EntriesError {
    let message = format!(
        "the table `{}` has no action profile or selector",
        name.text
    );
    EntriesError::new(name.at(), message).hint("use table_add")
}

/// Returns the error for a command that an entries file does not have.
fn unknown(line: &CommandLine<'_>, name: &str) -> EntriesError {
    let mut refused = REFUSED.iter();
    if let Some((_, reason, hint)) = refused.find(|(own, ..)| *own == name) {
        return EntriesError::new(line.at(), format!("{name}: {reason}")).hint(*hint);
    }
    let error = EntriesError::new(line.command.at(), format!("there is no command {name}"));
    let scored = COMMANDS.iter().map(|known| (distance(name, known), known));
    match scored.min() {
        Some((score, known)) if is_near(name, score) => {
            error.hint(format!("did you mean {known}?"))
        }
        _ => error.hint("docs/reference/entries.md lists the commands of BMv2 that are read"),
    }
}

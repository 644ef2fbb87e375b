//! Parser of entries files, in the format of docs/reference/entries.md.

mod cells;
mod device;
mod parts;
mod placed;
mod replication;
mod target;

use bits::Value;
use ir::{ActionCall, KeyMatch, MatchKind, Program, TableId};
use support::count::count;

use crate::bmv2::{self, EntriesFormat};
use crate::error::{EntriesError, EntryError};
use crate::resolve::{self, Sought, Word};
use crate::restriction;
use crate::schema::{Action, Key, Object, Schema, Table, ValueSet};
use crate::update::{
    CounterValue, EntryAction, GroupMember, MeterConfig, TableEntry, Update, ValueSetMember,
};
use crate::value;

use parts::Reading;
pub use parts::{FilePart, read_parts};
pub use placed::{EntriesFile, Statement, StatementPlace};
pub(crate) use target::read_target;

/// Arguments as written: an optional name, and the value.
pub(crate) type WrittenArgs<'a> = Vec<(Option<Word<'a>>, Word<'a>)>;

/// Reads an entries file for a program, and checks its restrictions. All errors are reported, 1,000
/// at most.
pub fn read<'a>(
    program: &Program,
    file: &'a str,
    text: &'a str,
) -> Result<EntriesFile<'a>, Vec<EntryError>> {
    read_file(&Schema::of(program), file, text, Restrictions::Enforced)
}

/// Treatment of entries that break a restriction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restrictions {
    /// They are errors.
    Enforced,
    /// They are read: the server decides.
    LeftToServer,
}

/// Reads an entries file for a schema, in the format that its text has.
pub(crate) fn read_file<'a>(
    schema: &Schema,
    file: &'a str,
    text: &'a str,
    restrictions: Restrictions,
) -> Result<EntriesFile<'a>, Vec<EntryError>> {
    let text = without_mark(text);
    match EntriesFormat::of(text) {
        EntriesFormat::Statements => read_statements(schema, file, text, restrictions),
        format => {
            let is_json = format == EntriesFormat::Json;
            read_bmv2(schema, file, (text, is_json), restrictions)
        }
    }
}

/// Reads a text in one of BMv2's formats.
fn read_bmv2<'a>(
    schema: &Schema,
    file: &'a str,
    (text, is_json): (&'a str, bool),
    restrictions: Restrictions,
) -> Result<EntriesFile<'a>, Vec<EntryError>> {
    let located = |faults: Vec<EntriesError>| {
        let faults = faults.into_iter();
        faults.map(|fault| fault.locate(file, text)).collect()
    };
    let all = bmv2::read(schema, text, is_json).map_err(located)?;
    if restrictions == Restrictions::Enforced {
        let faults = all.iter();
        let faults =
            faults.filter_map(|(update, at)| restriction::check(schema, update, *at).err());
        let faults: Vec<EntriesError> = faults.collect();
        if !faults.is_empty() {
            return Err(located(faults));
        }
    }
    let placed = all.into_iter();
    let (updates, places) = placed
        .map(|(update, at)| (update, StatementPlace::of(at)))
        .unzip();
    Ok(EntriesFile::new(file, text, updates, places))
}

fn read_statements<'a>(
    schema: &Schema,
    file: &'a str,
    text: &'a str,
    restrictions: Restrictions,
) -> Result<EntriesFile<'a>, Vec<EntryError>> {
    let (mut updates, mut places) = (Vec::new(), Vec::new());
    let mut reading = Reading::new(schema, file, restrictions);
    reading.statements(text, true, &mut |update, place, _| {
        updates.push(update);
        places.push(place);
    });
    reading.finish()?;
    Ok(EntriesFile::new(file, text, updates, places))
}

/// Removes a byte order mark, which some editors write at the beginning.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Reads one statement, which must use the whole text of `word`.
pub(crate) fn read_statement(schema: &Schema, word: Word<'_>) -> Result<Update, EntriesError> {
    let mut reader = Reader::new(schema, word.text);
    let update = reader.statement().and_then(|update| {
        reader.skip_blanks(true);
        if !reader.rest().is_empty() {
            let message = "one statement is expected here";
            return Err(EntriesError::new(reader.here(), message));
        }
        restriction::check(schema, &update, (0, word.text.len()))?;
        Ok(update)
    });
    update.map_err(|fault| fault.moved(word.start))
}

/// Reads a duration such as `5s` or `200ms`, which must use the whole text. Returns nanoseconds.
pub(crate) fn duration(word: Word<'_>) -> Result<u64, EntriesError> {
    let digits = word
        .text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(word.text.len());
    let unit = match &word.text[digits..] {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => 0u64,
    };
    let number: Option<u64> = word.text[..digits].parse().ok();
    let ns = number
        .and_then(|n| n.checked_mul(unit))
        .filter(|ns| *ns > 0);
    ns.ok_or_else(|| EntriesError::new(word.at(), "a time is expected here: `5s`, `200ms`, `10us`"))
}

/// Options after an entry's action.
#[derive(Default)]
struct EntryOptions {
    priority: Option<i32>,
    idle_timeout_ns: Option<u64>,
    meter: Option<MeterConfig>,
    counter: Option<CounterValue>,
}

struct Reader<'a> {
    schema: &'a Schema,
    text: &'a str,
    at: usize,
    /// The table of the last statement, by its name. Most statements of a large file are of one
    /// table, and searching for a name takes longer than to read it.
    table: Option<(&'a str, TableId)>,
    /// The last action, by its table and its name: its position in the table.
    action: Option<(TableId, &'a str, usize)>,
}

impl<'a> Reader<'a> {
    fn new(schema: &'a Schema, text: &'a str) -> Reader<'a> {
        Reader {
            schema,
            text,
            at: 0,
            table: None,
            action: None,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips blanks and comments. If `lines` is set, also line ends.
    fn skip_blanks(&mut self, lines: bool) {
        loop {
            let rest = self.rest();
            let blank = |c: char| c.is_whitespace() && (lines || c != '\n');
            let skipped = rest.len() - rest.trim_start_matches(blank).len();
            self.at += skipped;
            let rest = self.rest();
            if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if skipped == 0 {
                return;
            }
        }
    }

    fn skip_to_statement(&mut self) -> bool {
        loop {
            self.skip_blanks(true);
            if !self.eat(";") {
                return self.at < self.text.len();
            }
        }
    }

    /// Recovers from an error: skips to the end of a line after `;`, or to the next line that
    /// starts in the first column.
    fn skip_statement(&mut self) {
        while let Some(at) = self.rest().find(['\n', ';']) {
            let is_semicolon = self.rest().as_bytes()[at] == b';';
            self.at += at + 1;
            let next = self.rest().chars().next();
            if is_semicolon && next.is_none_or(|c| c == '\n')
                || next.is_some_and(|c| !c.is_whitespace() && c != '}' && c != '-')
            {
                return;
            }
        }
        self.at = self.text.len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips blanks and consumes a token.
    fn expect(&mut self, token: &str, lines: bool) -> Result<(), EntriesError> {
        self.skip_blanks(lines);
        if self.eat(token) {
            return Ok(());
        }
        Err(EntriesError::new(
            self.here(),
            format!("`{token}` is expected here, not {}", self.found()),
        ))
    }

    /// Returns the range of the next word. It has at least one character, except at the end of the
    /// text.
    fn here(&self) -> (usize, usize) {
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        (self.at, self.at + len.max(first))
    }

    fn found(&self) -> String {
        match self.rest().chars().next() {
            None => "the end of the file".to_string(),
            Some('\n') => "the end of the line".to_string(),
            Some(_) => format!("`{}`", &self.text[self.here().0..self.here().1]),
        }
    }

    /// Reads a name: letters, digits, `_ . $`, and `isValid()`. If `brackets` is set, also indices
    /// in brackets.
    fn name(&mut self, what: &str) -> Result<Word<'a>, EntriesError> {
        self.skip_blanks(false);
        let rest = self.rest();
        let len = rest
            .find(|c: char| !(c.is_alphanumeric() || "_.$".contains(c)))
            .unwrap_or(rest.len());
        if len == 0 {
            return Err(EntriesError::new(
                self.here(),
                format!("{what} is expected here, not {}", self.found()),
            ));
        }
        let word = Word::new(&rest[..len], self.at);
        self.at += len;
        Ok(word)
    }

    fn number(&mut self, what: &str) -> Result<u64, EntriesError> {
        let word = self.name(what)?;
        let value = Value::parse(word.text, 64)
            .ok()
            .and_then(|value| value.to_u64());
        value.ok_or_else(|| {
            EntriesError::new(
                word.at(),
                format!("{what} is expected here, not `{}`", word.text),
            )
        })
    }

    fn number32(&mut self, what: &str) -> Result<u32, EntriesError> {
        self.skip_blanks(false);
        let at = self.here();
        let number = self.number(what)?;
        u32::try_from(number)
            .map_err(|_| EntriesError::new(at, format!("{number} is too large for {what}")))
    }

    /// Consumes this word if it is next. Returns true if it was.
    fn keyword(&mut self, word: &str) -> bool {
        self.skip_blanks(false);
        let ends = self
            .rest()
            .strip_prefix(word)
            .map(|rest| rest.chars().next());
        let continues = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let found = ends.is_some_and(|next| !next.is_some_and(continues));
        if found {
            self.at += word.len();
        }
        found
    }

    fn statement(&mut self) -> Result<Update, EntriesError> {
        let update = self.statement_body()?;
        self.skip_blanks(false);
        if self.eat(";") || self.eat("\n") || self.rest().is_empty() {
            return Ok(update);
        }
        Err(EntriesError::new(
            self.here(),
            format!(
                "the end of the statement is expected here, not {}",
                self.found()
            ),
        ))
    }

    fn statement_body(&mut self) -> Result<Update, EntriesError> {
        let first =
            self.name("a table, or one of multicast, clone, register, meter, counter, value_set, queue, hash, host_ports, expire_profile")?;
        match first.text {
            "multicast" => self.multicast(),
            "clone" => self.clone_session(),
            "register" => self.register(),
            "meter" => self.meter(),
            "counter" => self.counter(),
            "value_set" => self.value_set(),
            "expire_profile" => self.expire_profile(),
            "queue" if self.keyword("port") => self.queue(),
            "hash" if self.keyword("crc16") => self.hash_crc(16),
            "hash" if self.keyword("crc32") => self.hash_crc(32),
            "hash" if self.keyword("toeplitz") => self.hash_key(),
            "hash" if self.keyword("seed") => Ok(Update::HashSeed(self.placed("a seed")?.0)),
            "host_ports" => self.host_ports(),
            _ if self.keyword("member") => self.member(first),
            _ if self.keyword("group") => self.group(first),
            _ if self.keyword("default") => self.default_action(first),
            _ => self.table_entry(first),
        }
    }

    fn default_action(&mut self, name: Word<'a>) -> Result<Update, EntriesError> {
        let table = resolve::table(self.schema, name)?;
        self.expect("->", true)?;
        let action = self.name("an action")?;
        let args = self.arguments(table, action)?;
        Ok(Update::SetDefault(
            table,
            resolve::default_call(self.schema, table, action, &args)?,
        ))
    }

    fn table_entry(&mut self, name: Word<'a>) -> Result<Update, EntriesError> {
        let table = self.open_table(name)?;
        let keys = self.keys(table)?;
        self.expect("->", true)?;
        let action = self.entry_action(table)?;
        let start = self.at;
        let options = self.entry_options()?;
        self.check_priority(table, name, options.priority, start)?;
        let entry = TableEntry {
            keys,
            priority: options.priority,
            action,
            idle_timeout_ns: options.idle_timeout_ns,
            meter: options.meter,
            counter: options.counter,
        };
        Ok(Update::Insert(table, entry))
    }

    fn entry_options(&mut self) -> Result<EntryOptions, EntriesError> {
        let mut entry = EntryOptions::default();
        loop {
            if self.keyword("priority") {
                self.skip_blanks(false);
                let at = self.here();
                let number = self.number("a priority")?;
                let priority = i32::try_from(number).ok().filter(|p| *p > 0);
                let fault = || EntriesError::new(at, "a priority is a number from 1 to 2147483647");
                entry.priority = Some(priority.ok_or_else(fault)?);
            } else if self.keyword("idle_timeout") {
                entry.idle_timeout_ns = Some(self.duration()?);
            } else if self.keyword("meter") {
                entry.meter = Some(self.rates()?);
            } else if self.keyword("counter") {
                entry.counter = Some(self.counts()?);
            } else {
                return Ok(entry);
            }
        }
    }

    /// Checks that there is a priority if and only if the key has ternary, range or optional
    /// elements (P4Runtime, section 9.1.1).
    fn check_priority(
        &self,
        table: TableId,
        name: Word<'a>,
        priority: Option<i32>,
        options: usize,
    ) -> Result<(), EntriesError> {
        let needs = self.schema.tables[table].needs_priority();
        match priority {
            None if needs => Err(EntriesError::new(
                name.at(),
                "this entry needs a priority, for its key has ternary, range or optional elements",
            )
            .hint("write `priority 10` behind the action; the larger one wins")),
            Some(_) if !needs => {
                let end = self.at.max(options + 1);
                Err(EntriesError::new((options, end), "this entry takes no priority: nothing in its key can overlap but prefixes, of which the longest wins")
                    .hint("leave the priority out"))
            }
            _ => Ok(()),
        }
    }

    fn keys(&mut self, table: TableId) -> Result<Vec<KeyMatch>, EntriesError> {
        self.skip_blanks(true);
        let open = self.here();
        let mut given: Vec<(Word<'a>, Word<'a>)> = Vec::new();
        self.expect("{", true)?;
        loop {
            self.skip_blanks(true);
            if self.eat("}") {
                break;
            }
            let body = self.raw(&[';', ',', '}'])?;
            let Some(pair) = split_key(&self.schema.tables[table], body) else {
                return Err(EntriesError::new(
                    body.at(),
                    "a key is written `name: value`",
                ));
            };
            given.push(pair);
            self.skip_blanks(true);
            let _ = self.eat(";") || self.eat(",");
        }
        match_keys(self.schema, table, &given, open)
    }

    /// Returns the text up to one of these characters outside parentheses, or up to a comment. The
    /// last character in `stops` closes the list.
    fn raw(&mut self, stops: &[char]) -> Result<Word<'a>, EntriesError> {
        let rest = self.rest();
        let mut depth = 0usize;
        let (mut quoted, mut escaped) = (false, false);
        for (at, c) in rest.char_indices() {
            if quoted && c != '\n' {
                quoted = escaped || c != '"';
                escaped = !escaped && c == '\\';
                continue;
            }
            match c {
                '"' => quoted = true,
                '(' | '[' => depth += 1,
                ')' | ']' if depth > 0 => depth -= 1,
                '#' | '\n' => {
                    let word = Word::new(&rest[..at], self.at).trim();
                    self.at += at;
                    return Ok(word);
                }
                '-' if rest[at..].starts_with("->") => {
                    let close = stops.last().copied().unwrap_or('}');
                    let place = (self.at + at, self.at + at + 2);
                    return Err(EntriesError::new(place, format!("`{close}` is missing")));
                }
                _ if depth == 0 && stops.contains(&c) => {
                    let word = Word::new(&rest[..at], self.at).trim();
                    self.at += at;
                    return Ok(word);
                }
                _ => {}
            }
        }
        let wanted: Vec<String> = stops.iter().map(|c| format!("`{c}`")).collect();
        Err(EntriesError::new(
            self.here(),
            format!("the file ends before {}", wanted.join(" or ")),
        ))
    }

    fn entry_action(&mut self, table: TableId) -> Result<EntryAction, EntriesError> {
        self.skip_blanks(true);
        if self.eat("{") {
            return self.one_shot(table);
        }
        let at = self.here();
        if self.keyword("group") {
            self.check_implementation(table, at)?;
            return Ok(EntryAction::Group(self.number32("a group's number")?));
        }
        if self.keyword("member") {
            self.check_implementation(table, at)?;
            return Ok(EntryAction::Member(self.number32("a member's number")?));
        }
        let action = self.name("an action")?;
        let args = self.arguments(table, action)?;
        let position = self.table_action(table, action)?;
        let of = self.schema.tables[table].actions[position];
        let args = resolve::arguments(self.schema, of, action, &args)?;
        Ok(EntryAction::Call(ActionCall {
            action: position,
            args,
        }))
    }

    fn check_implementation(&self, table: TableId, at: (usize, usize)) -> Result<(), EntriesError> {
        let table = &self.schema.tables[table];
        if table.implementation.is_some() {
            return Ok(());
        }
        Err(EntriesError::new(
            at,
            format!(
                "the table `{}` has no action profile or selector",
                table.name
            ),
        ))
    }

    fn one_shot(&mut self, table: TableId) -> Result<EntryAction, EntriesError> {
        let at = (self.at.saturating_sub(1), self.at);
        self.check_implementation(table, at)?;
        let mut actions = Vec::new();
        loop {
            self.skip_blanks(true);
            if self.eat("}") {
                return Ok(EntryAction::OneShot(actions));
            }
            let action = self.name("an action")?;
            let args = self.arguments(table, action)?;
            let call = resolve::table_call(self.schema, table, action, &args)?;
            actions.push((call, self.weight()?));
            self.skip_blanks(true);
            let _ = self.eat(",");
        }
    }

    fn weight(&mut self) -> Result<u32, EntriesError> {
        if !self.keyword("weight") {
            return Ok(1);
        }
        self.positive("a weight")
    }

    /// Reads arguments in parentheses. Their names are parameters of an action of the table.
    fn arguments(
        &mut self,
        table: TableId,
        action: Word<'a>,
    ) -> Result<WrittenArgs<'a>, EntriesError> {
        let position = self.table_action(table, action)?;
        let action = self.schema.tables[table].actions[position];
        self.arguments_of(action)
    }

    /// Returns the table with this name, of which the control plane may change the entries.
    fn open_table(&mut self, name: Word<'a>) -> Result<TableId, EntriesError> {
        if let Some((_, id)) = self.table.filter(|(last, _)| *last == name.text) {
            return Ok(id);
        }
        let id = resolve::open_table(self.schema, name)?;
        self.table = Some((name.text, id));
        Ok(id)
    }

    /// Returns the position of the action with this name in the table's list.
    fn table_action(&mut self, table: TableId, name: Word<'a>) -> Result<usize, EntriesError> {
        let is_it = |(of, last, _): &(TableId, &str, usize)| (*of, *last) == (table, name.text);
        if let Some((.., position)) = self.action.filter(is_it) {
            return Ok(position);
        }
        let position = resolve::table_action(self.schema, &self.schema.tables[table], name)?;
        self.action = Some((table, name.text, position));
        Ok(position)
    }

    fn arguments_of(&mut self, action: ir::ActionId) -> Result<WrittenArgs<'a>, EntriesError> {
        self.skip_blanks(false);
        let mut args = Vec::new();
        if !self.eat("(") {
            return Ok(args);
        }
        loop {
            self.skip_blanks(true);
            if self.eat(")") {
                return Ok(args);
            }
            let word = self.raw(&[',', ')'])?;
            args.push(split_argument(&self.schema.actions[action], word));
            self.skip_blanks(true);
            let _ = self.eat(",");
        }
    }

    fn member(&mut self, name: Word<'a>) -> Result<Update, EntriesError> {
        let profile = self.profile(name)?;
        let (id, at) = self.placed("a member's number")?;
        if id == 0 {
            return Err(EntriesError::new(at, "a member's number is at least 1"));
        }
        self.expect("->", true)?;
        let written = self.name("an action")?;
        let action = resolve::profile_action(self.schema, profile, written)?;
        let args = self.arguments_of(action)?;
        let args = resolve::arguments(self.schema, action, written, &args)?;
        Ok(Update::Member {
            profile,
            id,
            action,
            args,
        })
    }

    fn profile(&self, name: Word<'a>) -> Result<ir::ExternId, EntriesError> {
        let is_profile = |kind: &Object| (*kind == Object::Profile).then_some(());
        let what = "action profile or selector";
        Ok(resolve::instance(self.schema, name, what, is_profile)?.0)
    }

    fn group(&mut self, name: Word<'a>) -> Result<Update, EntriesError> {
        let profile = self.profile(name)?;
        let (id, at) = self.placed("a group's number")?;
        if id == 0 {
            return Err(EntriesError::new(at, "a group's number is at least 1"));
        }
        let mut members: Vec<GroupMember> = Vec::new();
        self.expect("{", true)?;
        loop {
            self.skip_blanks(true);
            if self.eat("}") {
                break;
            }
            let (member, at) = self.placed("a member's number")?;
            if members.iter().any(|other| other.member == member) {
                let message = format!("the group has the member {member} twice");
                return Err(EntriesError::new(at, message).hint("give it a weight instead"));
            }
            members.push(GroupMember {
                member,
                weight: self.weight()?,
            });
            self.skip_blanks(true);
            let _ = self.eat(",");
        }
        let max_size = if self.keyword("max_size") {
            self.positive("the most members")?
        } else {
            0
        };
        Ok(Update::Group {
            profile,
            id,
            members,
            max_size,
        })
    }

    fn value_set(&mut self) -> Result<Update, EntriesError> {
        let name = self.name("a value set")?;
        let value_set = resolve::value_set(self.schema, name)?;
        let set = &self.schema.value_sets[value_set];
        let mut members = Vec::new();
        self.expect("{", true)?;
        loop {
            self.skip_blanks(true);
            if self.eat("}") {
                break;
            }
            let word = self.raw(&[',', '}'])?;
            members.push(value_set_member(self.schema, set, word)?);
            self.skip_blanks(true);
            let _ = self.eat(",");
        }
        if members.len() > set.size as usize {
            let message = format!(
                "{}, but the value set holds {}",
                count(members.len() as u64, "member"),
                set.size
            );
            return Err(EntriesError::new(name.at(), message));
        }
        Ok(Update::ValueSet { value_set, members })
    }

    /// Reads `expire_profile 0 30s` or `expire_profile 0 never`.
    fn expire_profile(&mut self) -> Result<Update, EntriesError> {
        let at = self.here();
        let profile = u8::try_from(self.number("a profile's number")?)
            .map_err(|_| EntriesError::new(at, "a profile's number is at most 255"))?;
        let timeout_ns = match self.keyword("never") {
            true => None,
            false => Some(self.duration()?),
        };
        Ok(Update::ExpireProfile {
            profile,
            timeout_ns,
        })
    }

    /// Reads a duration: `5s`, `200ms`, `10us`, `7ns`.
    fn duration(&mut self) -> Result<u64, EntriesError> {
        duration(self.bare_value())
    }
}

/// Reads a member of a value set: `match`, or `(match, match)` for several fields.
fn value_set_member(
    schema: &Schema,
    set: &ValueSet,
    word: Word<'_>,
) -> Result<ValueSetMember, EntriesError> {
    let inner = word
        .text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let start = word.start + usize::from(inner.is_some());
    let text = inner.unwrap_or(word.text);
    let mut words = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        words.push(Word::new(part, start + at).trim());
        at += part.len() + 1;
    }
    if words.len() != set.fields.len() {
        let message = format!(
            "a member of this value set has {}, not {}",
            count(set.fields.len() as u64, "value"),
            words.len()
        );
        return Err(EntriesError::new(word.at(), message));
    }
    let pairs = set.fields.iter().zip(words);
    let fields: Result<_, EntriesError> = pairs
        .map(|(field, word)| value::key_match(schema, field.match_kind, field.ty, word))
        .collect();
    Ok(ValueSetMember { fields: fields? })
}

/// Splits `name: value` if `name` is a parameter of the action. Otherwise the whole text is the
/// value, since an address may contain colons.
pub(crate) fn split_argument<'a>(action: &Action, word: Word<'a>) -> (Option<Word<'a>>, Word<'a>) {
    let Some(colon) = word.text.find([':', '=']) else {
        return (None, word);
    };
    let name = Word::new(&word.text[..colon], word.start).trim();
    let is_name = name
        .text
        .starts_with(|c: char| c.is_alphabetic() || c == '_');
    let is_param = action.params.iter().any(|p| p.name == name.text);
    let looks_like_address =
        word.text[colon + 1..].contains(':') || word.text[colon..].starts_with("::");
    if is_name && (is_param || !looks_like_address) {
        let value = Word::new(&word.text[colon + 1..], word.start + colon + 1).trim();
        return (Some(name), value);
    }
    (None, word)
}

/// Splits `name: value`. A key's name may be an expression with colons (`h.b[15:8]`, `a ? b : c`).
/// So the longest known name at the start of the text is used, or else the text before the first
/// colon outside parentheses.
pub(crate) fn split_key<'a>(table: &Table, word: Word<'a>) -> Option<(Word<'a>, Word<'a>)> {
    let colon_behind = |name: &str| {
        let rest = word.text.strip_prefix(name)?;
        let colon = word.text.len() - rest.trim_start().len();
        rest.trim_start()
            .starts_with(':')
            .then_some((name.len(), colon))
    };
    let known = table.keys.iter().filter_map(|key| colon_behind(&key.name));
    let (name, colon) = match known.max() {
        Some(found) => found,
        None => first_colon(word.text).map(|colon| (colon, colon))?,
    };
    let value = Word::new(&word.text[colon + 1..], word.start + colon + 1);
    Some((
        Word::new(&word.text[..name], word.start).trim(),
        value.trim(),
    ))
}

/// Returns the position of the first colon outside parentheses and brackets.
fn first_colon(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the matches in the table's key order. Omitted keys match everything; exact keys cannot
/// be omitted.
fn match_keys(
    schema: &Schema,
    table: TableId,
    given: &[(Word<'_>, Word<'_>)],
    open: (usize, usize),
) -> Result<Vec<KeyMatch>, EntriesError> {
    let table = &schema.tables[table];
    let keys = &table.keys;
    let mut matches: Vec<Option<KeyMatch>> = vec![None; keys.len()];
    for (name, written) in given {
        let names = keys.iter().map(|key| key.name.as_str());
        let at = resolve::find(*name, names, Sought::KeyOf(&table.name))?;
        if matches[at].is_some() {
            return Err(EntriesError::new(
                name.at(),
                format!("the key `{}` is given twice", keys[at].name),
            ));
        }
        matches[at] = Some(value::key_match(
            schema,
            keys[at].match_kind,
            keys[at].ty,
            *written,
        )?);
    }
    let missing = |(key, given): &(&Key, &Option<KeyMatch>)| {
        key.match_kind == MatchKind::Exact && given.is_none()
    };
    if let Some((key, _)) = keys.iter().zip(&matches).find(missing) {
        let message = format!("the exact key `{}` is missing", key.name);
        return Err(EntriesError::new(open, message).hint(format!("add `{}: VALUE;`", key.name)));
    }
    Ok(matches
        .into_iter()
        .map(|given| given.unwrap_or(KeyMatch::Any))
        .collect())
}

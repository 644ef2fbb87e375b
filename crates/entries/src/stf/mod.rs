//! STF, the format of the Simple Test Framework: packets in, packets expected, and commands that
//! configure the switch.
//!
//! A file is read line by line, and `#` starts a comment. Commands are stored with their lines and
//! take effect in file order. Expectations are global.
//!
//! ```text
//! packet PORT HEX..    expect PORT [(HEX|*).. [$]]    no_packet    wait
//! add TABLE [PRIORITY] KEY:VALUE.. ACTION(NAME:VALUE, ..) [= ID]
//! setdefault TABLE ACTION(..)    remove all
//! mc_mgrp_create G    mc_mgrp_destroy G
//! mc_node_create RID PORT..    mc_node_update HANDLE PORT..    mc_node_destroy HANDLE
//! mc_node_associate G HANDLE    mc_node_dissociate G HANDLE
//! mirroring_add SESSION PORT    mirroring_add_mc SESSION G
//! mirroring_delete SESSION    mirroring_get SESSION
//! register_read R [INDEX]    register_write R INDEX VALUE    register_reset R
//! counter_read C INDEX    counter_write C INDEX PACKETS BYTES    counter_reset C
//! check_counter C(INDEX) [bytes|packets] [OP N]
//! meter_get_rates M INDEX    meter_set_rates M INDEX RATE:BURST..
//! meter_array_set_rates M RATE:BURST..
//! ```
//!
//! Rates are in packets or bytes per microsecond, as in BMv2's command line. A value may be
//! decimal, `0x` with `*` digits, or `0b` with `*` bits. A ternary mask covers only the digits
//! written. A prefix is `/N`, or the digits that are not `*`. Ranges are written `LO..HI`, masks
//! `VALUE&&&MASK`. Omitted keys match everything, except that an omitted exact key is 0. The
//! commands that this project adds are in `own`.

mod cells;
mod expectation;
mod keys;
mod own;
mod replication;

use bits::Value;
use ir::{ExternId, Program, TableId};

use crate::error::{EntriesError, EntryError};
use crate::file::{WrittenArgs, without_mark};
use crate::ports;
use crate::resolve::{self, Word};
use crate::restriction;
use crate::schema::Schema;
use crate::update::{EntryAction, TableEntry, Update};

pub use expectation::{Comparison, Mismatch, Pattern};

/// A command with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Line, from 1.
    pub line: u32,
    /// The command.
    pub kind: CommandKind,
    /// The restriction of the program that it breaks, which BMv2's STF does not enforce.
    pub broken_restriction: Option<String>,
}

/// A command of an STF file.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandKind {
    /// A packet arrives.
    Packet {
        /// The port.
        port: u32,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// All packets of a capture arrive. The path is relative to the STF file's directory.
    Packets {
        /// The port.
        port: u32,
        /// The capture.
        file: String,
    },
    /// All packets of a capture must be sent.
    ExpectPackets {
        /// The port.
        port: u32,
        /// The capture.
        file: String,
    },
    /// A packet must be sent.
    Expect {
        /// The port.
        port: u32,
        /// The expected packet. `None` accepts any packet.
        pattern: Option<Pattern>,
    },
    /// No unexpected packet may have been sent by any port so far.
    NoPacket,
    /// Advances time until no packet is in flight.
    Wait,
    /// Advances time by this many nanoseconds.
    WaitFor(u64),
    /// Applies an entries file. The path is relative to the STF file's directory.
    Entries(String),
    /// Expects the next message of a digest.
    ExpectDigest {
        /// The digest.
        digest: ExternId,
        /// Its scalars; `None` accepts any value.
        values: Vec<Option<Value>>,
    },
    /// Expects an idle notification: the next entry with an expired timeout must be in this table.
    ExpectIdle(TableId),
    /// Expects the next log message.
    ExpectLog(String),
    /// An update with the program's ids.
    Update(Update),
    /// An insertion of an entry with a label (`= ID`).
    Labelled(Update, String),
    /// Removes all entries that were added.
    RemoveAll,
    /// Creates a multicast group.
    GroupCreate(u32),
    /// Removes a multicast group.
    GroupDestroy(u32),
    /// Creates a node: an instance and its ports. Handles are numbered from 0.
    NodeCreate {
        /// The instance.
        rid: u32,
        /// The ports.
        ports: Vec<u32>,
    },
    /// Sets the ports of a node.
    NodeUpdate {
        /// The node.
        handle: u32,
        /// Its new ports.
        ports: Vec<u32>,
    },
    /// Removes a node.
    NodeDestroy(u32),
    /// Adds a node to a group.
    NodeAssociate {
        /// The group.
        group: u32,
        /// The node.
        handle: u32,
    },
    /// Removes a node from a group.
    NodeDissociate {
        /// The group.
        group: u32,
        /// The node.
        handle: u32,
    },
    /// Sets a clone session to a port.
    MirrorToPort {
        /// The session.
        session: u32,
        /// The port.
        port: u32,
    },
    /// Sets a clone session to a multicast group.
    MirrorToGroup {
        /// The session.
        session: u32,
        /// The group.
        group: u32,
    },
    /// Removes a clone session.
    MirrorDelete(u32),
    /// Shows a clone session.
    MirrorGet(u32),
    /// Shows one cell of a register, or all.
    RegisterRead(ExternId, Option<u32>),
    /// Shows a counter.
    CounterRead(ExternId, u32),
    /// Sets all cells of a counter to 0.
    CounterReset(ExternId),
    /// Checks the value of a counter.
    CheckCounter {
        /// The counter.
        counter: CounterRef,
        /// Compares bytes instead of packets.
        bytes: bool,
        /// The comparison.
        op: Comparison,
        /// The number to compare with.
        number: u64,
    },
    /// Shows a meter's rates.
    MeterRead(ExternId, u32),
}

/// A counter to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterRef {
    /// A cell of an array.
    Cell(ExternId, u32),
    /// The direct counter of the entry with this label.
    Entry(TableId, String),
}

/// Reads an STF file for a program. All errors are reported.
pub fn read(program: &Program, file: &str, text: &str) -> Result<Vec<Command>, Vec<EntryError>> {
    let schema = &Schema::of(program);
    let text = without_mark(text);
    let mut commands = Vec::new();
    let mut errors = Vec::new();
    let mut start = 0;
    for (number, line) in text.split('\n').enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let word = Word::new(code, start).trim();
        start += line.len() + 1;
        if word.text.is_empty() {
            continue;
        }
        match (Line { schema, word }).command() {
            Ok(kind) => commands.push(Command {
                line: number as u32 + 1,
                broken_restriction: broken_restriction(schema, &kind),
                kind,
            }),
            Err(fault) => errors.push(fault.locate(file, text)),
        }
    }
    if errors.is_empty() {
        Ok(commands)
    } else {
        Err(errors)
    }
}

/// Returns the restriction that a command breaks, with its place.
fn broken_restriction(schema: &Schema, kind: &CommandKind) -> Option<String> {
    let (CommandKind::Update(update) | CommandKind::Labelled(update, _)) = kind else {
        return None;
    };
    let broken = restriction::check(schema, update, (0, 0)).err()?;
    Some(broken.into_line())
}

/// The names of all commands, for suggestions.
const COMMANDS: &[&str] = &[
    "packet",
    "expect",
    "no_packet",
    "wait",
    "add",
    "setdefault",
    "remove",
    "mc_mgrp_create",
    "mc_mgrp_destroy",
    "mc_node_create",
    "mc_node_update",
    "mc_node_destroy",
    "mc_node_associate",
    "mc_node_dissociate",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "register_read",
    "register_write",
    "register_reset",
    "counter_read",
    "counter_write",
    "counter_reset",
    "check_counter",
    "meter_get_rates",
    "meter_set_rates",
    "meter_array_set_rates",
];

struct Line<'a> {
    schema: &'a Schema,
    word: Word<'a>,
}

impl<'a> Line<'a> {
    /// Returns the words of the line, separated by blanks.
    fn words(&self) -> Vec<Word<'a>> {
        words(self.word)
    }

    fn command(&self) -> Result<CommandKind, EntriesError> {
        let words = self.words();
        let Some((&name, args)) = words.split_first() else {
            return Err(EntriesError::new(
                self.word.at(),
                "a command is expected here",
            ));
        };
        let keyword = name.text.to_ascii_lowercase();
        match keyword.as_str() {
            "packet" => self.packet(name, args),
            "expect" => self.expectation(name, args),
            "no_packet" => Ok(CommandKind::NoPacket),
            "wait" => self.wait(args),
            "packets" | "expect_packets" => self.capture(name, args),
            "entries" => self.entries_file(name),
            "entry" => self.entry(name),
            "expect_digest" => self.expect_digest(name, args),
            "expect_log" => Ok(self.expect_log(name)),
            "expect_idle" => self.expect_idle(args),
            "add" => self.add(name),
            "setdefault" => self.set_default(name),
            "remove" => match args {
                [all] if all.text.eq_ignore_ascii_case("all") => Ok(CommandKind::RemoveAll),
                _ => Err(EntriesError::new(self.word.at(), "write `remove all`")),
            },
            _ if keyword.starts_with("mc_") || keyword.starts_with("mirroring_") => {
                self.replication(&keyword, name, args)
            }
            _ => self.state(&keyword, name, args),
        }
    }

    fn unknown(&self, name: Word<'a>) -> EntriesError {
        let fault = EntriesError::new(
            name.at(),
            format!("there is no STF command `{}`", name.text),
        );
        let near = COMMANDS
            .iter()
            .chain(&own::COMMANDS)
            .min_by_key(|c| resolve::distance(c, name.text));
        let is_near = |c: &&&str| resolve::is_near(name.text, resolve::distance(c, name.text));
        match near.filter(is_near) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("there are: {}", COMMANDS.join(", "))),
        }
    }

    fn packet(&self, name: Word<'a>, args: &[Word<'a>]) -> Result<CommandKind, EntriesError> {
        let (port, data) = self.port_and_data(name, args)?;
        let digits: String = data.iter().map(|word| word.text).collect();
        for word in data {
            if let Some(at) = word.text.find(|c: char| !c.is_ascii_hexdigit()) {
                let place = (word.start + at, word.start + at + 1);
                return Err(EntriesError::new(
                    place,
                    "a packet's data is hexadecimal digits",
                ));
            }
        }
        if !digits.len().is_multiple_of(2) {
            let message = format!(
                "the packet has {}, which is no whole number of bytes",
                support::count::count(digits.len() as u64, "hexadecimal digit")
            );
            return Err(EntriesError::new(self.word.at(), message));
        }
        let nibble = |c: u8| char::from(c).to_digit(16).unwrap_or(0) as u8;
        let data = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))
            .collect();
        Ok(CommandKind::Packet { port, data })
    }

    fn expectation(&self, name: Word<'a>, args: &[Word<'a>]) -> Result<CommandKind, EntriesError> {
        let (port, data) = self.port_and_data(name, args)?;
        if data.is_empty() {
            return Ok(CommandKind::Expect {
                port,
                pattern: None,
            });
        }
        let mut pattern = Pattern {
            nibbles: Vec::new(),
            exact: false,
        };
        for word in data {
            for (at, c) in word.text.char_indices() {
                let place = (word.start + at, word.start + at + c.len_utf8());
                match c {
                    _ if pattern.exact => {
                        return Err(EntriesError::new(place, "nothing may follow `$`"));
                    }
                    '*' => pattern.nibbles.push(None),
                    '$' => pattern.exact = true,
                    _ if c.is_ascii_hexdigit() => {
                        pattern.nibbles.push(c.to_digit(16).map(|d| d as u8))
                    }
                    _ => {
                        return Err(EntriesError::new(
                            place,
                            "expected data is hexadecimal digits, `*` for any digit, `$` for the end",
                        ));
                    }
                }
            }
        }
        Ok(CommandKind::Expect {
            port,
            pattern: Some(pattern),
        })
    }

    fn port_and_data<'w>(
        &self,
        name: Word<'a>,
        args: &'w [Word<'a>],
    ) -> Result<(u32, &'w [Word<'a>]), EntriesError> {
        let Some((port, data)) = args.split_first() else {
            return Err(EntriesError::new(
                name.at(),
                format!("`{}` needs a port", name.text),
            ));
        };
        let number = port
            .text
            .parse()
            .map_err(|_| EntriesError::new(port.at(), "a port is a decimal number"))?;
        ports::check(self.schema.arch, number, port.at())?;
        Ok((number, data))
    }

    /// Reads `TABLE [PRIORITY] KEY:VALUE.. ACTION(..) [= ID]`, after `add`.
    fn add(&self, keyword: Word<'a>) -> Result<CommandKind, EntriesError> {
        let (head, action, args, tail) = self.split_call(keyword)?;
        let mut words = words(head);
        if words.is_empty() {
            return Err(EntriesError::new(
                keyword.at(),
                "a table is expected behind `add`",
            ));
        }
        let name = words.remove(0);
        let table = resolve::open_table(self.schema, name)?;
        let mut priority = None;
        if words
            .first()
            .is_some_and(|w| w.text.bytes().all(|b| b.is_ascii_digit()))
        {
            let word = words.remove(0);
            let number = word
                .text
                .parse()
                .map_err(|_| EntriesError::new(word.at(), "this priority is too large"))?;
            priority = Some(number);
        }
        let keys = self.keys(table, &key_words(head, &words))?;
        let args = arguments(args);
        let call = resolve::table_call(self.schema, table, action, &args)?;
        let priority = self.schema.tables[table]
            .needs_priority()
            .then(|| priority.unwrap_or(1));
        let action = EntryAction::Call(call);
        let entry = TableEntry {
            keys,
            priority,
            action,
            idle_timeout_ns: None,
            meter: None,
            counter: None,
        };
        let update = Update::Insert(table, entry);
        match tail.text.strip_prefix('=') {
            Some(label) => Ok(CommandKind::Labelled(
                update,
                label.trim().trim_start_matches('$').to_string(),
            )),
            None if tail.text.is_empty() => Ok(CommandKind::Update(update)),
            None => Err(EntriesError::new(tail.at(), "the line should end here")),
        }
    }

    fn set_default(&self, keyword: Word<'a>) -> Result<CommandKind, EntriesError> {
        let (head, action, args, _) = self.split_call(keyword)?;
        let table = resolve::table(self.schema, head)?;
        let call = resolve::default_call(self.schema, table, action, &arguments(args))?;
        Ok(CommandKind::Update(Update::SetDefault(table, call)))
    }

    /// Splits `HEAD ACTION(ARGS) TAIL` into head, action, arguments and tail.
    fn split_call(
        &self,
        keyword: Word<'a>,
    ) -> Result<(Word<'a>, Word<'a>, Word<'a>, Word<'a>), EntriesError> {
        let skip = keyword.start + keyword.text.len() - self.word.start;
        let rest = Word::new(&self.word.text[skip..], self.word.start + skip);
        let Some((open, close)) = last_parentheses(rest.text) else {
            return Err(EntriesError::new(
                rest.trim().at(),
                "an action with parentheses is expected at the end, as in `set_port(port:3)`",
            ));
        };
        let before = Word::new(&rest.text[..open], rest.start).trim();
        let cut = before
            .text
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + 1);
        let head = Word::new(&before.text[..cut], before.start).trim();
        let action = Word::new(&before.text[cut..], before.start + cut);
        let args = Word::new(&rest.text[open + 1..close], rest.start + open + 1);
        let tail = Word::new(&rest.text[close + 1..], rest.start + close + 1).trim();
        Ok((head, action, args, tail))
    }

    fn usage(&self, keyword: &str) -> EntriesError {
        let usage = match keyword {
            "mc_mgrp_create" | "mc_mgrp_destroy" => "GROUP",
            "mc_node_create" => "RID PORT..",
            "mc_node_update" => "HANDLE PORT..",
            "mc_node_destroy" => "HANDLE",
            "mc_node_associate" | "mc_node_dissociate" => "GROUP HANDLE",
            "mirroring_add" => "SESSION PORT",
            "mirroring_add_mc" => "SESSION GROUP",
            "mirroring_delete" | "mirroring_get" => "SESSION",
            "register_read" => "REGISTER [INDEX]",
            "register_write" => "REGISTER INDEX VALUE",
            "register_reset" => "REGISTER",
            "counter_read" => "COUNTER INDEX",
            "counter_write" => "COUNTER INDEX PACKETS BYTES",
            "counter_reset" => "COUNTER",
            "check_counter" => "COUNTER(INDEX) [packets|bytes] == NUMBER",
            "meter_get_rates" => "METER INDEX",
            "meter_set_rates" => "METER INDEX RATE:BURST RATE:BURST",
            _ => "METER RATE:BURST RATE:BURST",
        };
        EntriesError::new(
            self.word.at(),
            format!("`{keyword}` is written `{keyword} {usage}`"),
        )
    }
}

/// Splits `NAME:VALUE, ..`, the text between the parentheses.
fn arguments<'a>(args: Word<'a>) -> WrittenArgs<'a> {
    let mut written: WrittenArgs<'a> = Vec::new();
    let mut at = 0;
    for part in args.text.split(',') {
        let word = Word::new(part, args.start + at).trim();
        at += part.len() + 1;
        if word.text.is_empty() {
            continue;
        }
        match word.text.find(':') {
            Some(colon) => {
                let name = Word::new(&word.text[..colon], word.start).trim();
                let value = Word::new(&word.text[colon + 1..], word.start + colon + 1).trim();
                written.push((Some(name), value));
            }
            None => written.push((None, word)),
        }
    }
    written
}

/// Returns the positions of the last `)` and its `(`. Names of keys may contain parentheses as
/// well.
fn last_parentheses(text: &str) -> Option<(usize, usize)> {
    let close = text.rfind(')')?;
    let mut depth = 0usize;
    for (at, c) in text[..close].char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => return Some((at, close)),
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the words of a text, separated by blanks.
fn words<'a>(word: Word<'a>) -> Vec<Word<'a>> {
    let mut all = Vec::new();
    let mut start = None;
    for (at, c) in word.text.char_indices().chain([(word.text.len(), ' ')]) {
        match (c.is_whitespace(), start) {
            (true, Some(from)) => {
                all.push(Word::new(&word.text[from..at], word.start + from));
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    all
}

/// Returns the keys of an entry. Words in quotes, and words joined by `:`, `/` or `&` with blanks
/// around it, are one key.
fn key_words<'a>(head: Word<'a>, words: &[Word<'a>]) -> Vec<Word<'a>> {
    let is_open = |text: &str| text.starts_with('"') && text.matches('"').count() == 1;
    let mut keys: Vec<Word<'a>> = Vec::new();
    for word in words {
        let joined = keys.pop_if(|last| {
            let begins = [":", "/", "&"];
            let joins = begins
                .iter()
                .any(|mark| word.text.starts_with(mark) || last.text.ends_with(mark));
            joins || is_open(last.text)
        });
        let start = joined.map_or(word.start, |last| last.start);
        let end = word.start + word.text.len() - head.start;
        keys.push(Word::new(&head.text[start - head.start..end], start));
    }
    keys
}

fn number64(word: Word<'_>) -> Result<u64, EntriesError> {
    let value = Value::parse(word.text, 64)
        .ok()
        .and_then(|value| value.to_u64());
    value.ok_or_else(|| {
        EntriesError::new(
            word.at(),
            format!("a number is expected here, not `{}`", word.text),
        )
    })
}

fn number32(word: Word<'_>) -> Result<u32, EntriesError> {
    let number = number64(word)?;
    u32::try_from(number)
        .map_err(|_| EntriesError::new(word.at(), format!("{number} is too large here")))
}

//! Lines as messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

use super::tokens::{Token, Tokens};
use super::write::{
    CALCULATIONS, COMMANDS, COUNTER_COMMANDS, FLOW_COMMANDS, GROUP_TYPES, PORTS, RESERVED_PORTS,
    TABLE_TYPES,
};
use super::{ObjectTextError, value};
use crate::model::*;
use crate::tables::Tables;
use crate::wire::{
    Body, Command, Counter, CounterCommand, FlowCommand, FlowMod, GroupMod, MeterMod, TableMod,
};

/// Reader of a text: it knows the names of fields and the numbers of entries of earlier lines.
pub struct TextReader {
    tables: Tables,
    fields: HashMap<String, Field>,
    next_index: BTreeMap<(TableType, u8), u32>,
    /// Indices of entries that the switch has.
    taken: BTreeMap<(TableType, u8), BTreeSet<u32>>,
    /// Tables with entries that the reader has numbered.
    numbered: BTreeSet<(TableType, u8)>,
    line: usize,
}

impl TextReader {
    /// Creates a reader for a switch with these numbers of tables of each type.
    pub fn new(tables: Tables) -> TextReader {
        TextReader {
            tables,
            fields: HashMap::new(),
            next_index: BTreeMap::new(),
            taken: BTreeMap::new(),
            numbered: BTreeSet::new(),
            line: 0,
        }
    }

    /// Notes the index of an entry that the switch has: entries without index get other ones.
    pub fn take_index(&mut self, table_type: TableType, table: u8, index: u32) {
        let taken = self.taken.entry((table_type, table)).or_default();
        taken.insert(index);
    }

    /// Returns the tables with entries that got their index from the reader: type, and number in
    /// the type.
    pub fn numbered(&self) -> impl Iterator<Item = (TableType, u8)> {
        self.numbered.iter().copied()
    }

    /// Returns the index of an added entry.
    fn index_of_added(&mut self, table: (TableType, u8), given: Option<u32>) -> u32 {
        let next = self.next_index.entry(table).or_default();
        if given.is_none() {
            self.numbered.insert(table);
            let taken = self.taken.get(&table);
            while taken.is_some_and(|taken| taken.contains(next)) {
                let Some(after) = next.checked_add(1) else {
                    // The switch refuses it as full.
                    break;
                };
                *next = after;
            }
        }
        let index = given.unwrap_or(*next);
        *next = (*next).max(index.saturating_add(1));
        index
    }

    /// Returns the number of the last line.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Reads the next line. Returns `None` for an empty one, or a comment.
    ///
    /// # Errors
    /// The line is not one of the language. The message names the place and the remedy.
    pub fn read(&mut self, text: &str) -> Result<Option<Body>, ObjectTextError> {
        self.line += 1;
        let mut tokens = Tokens::of(text, self.line);
        if tokens.peek().is_none() {
            return Ok(None);
        }
        let reader = LineReader {
            tokens: &mut tokens,
            text: self,
        };
        reader.object().map(Some)
    }
}

/// A line under way.
struct LineReader<'r, 't> {
    tokens: &'r mut Tokens<'t>,
    text: &'r mut TextReader,
}

/// Returns the words of a list, for an error.
fn choice<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// Returns the bytes of a name, in which `\xNN` stands for a byte. Returns `None` for another
/// backslash.
fn name_bytes(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.strip_prefix('x')?.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[3..]);
    }
    Some(bytes)
}

impl<'t> LineReader<'_, 't> {
    fn error<T>(&self, at: Token<'_>, message: impl Into<String>) -> Result<T, ObjectTextError> {
        Err(self.tokens.error(at, message))
    }

    /// Returns the value of a word of this list.
    fn word<T: Copy>(&mut self, words: &[(&str, T)], what: &str) -> Result<T, ObjectTextError> {
        let token = self.tokens.next(what)?;
        match words.iter().find(|(word, _)| *word == token.text) {
            Some((_, value)) => Ok(*value),
            None => {
                let known = choice(words.iter().map(|(word, _)| *word));
                let text = token.text;
                self.error(
                    token,
                    format!("`{text}` is no {what}; write one of {known}"),
                )
            }
        }
    }

    fn parse<T: FromStr>(&self, token: Token<'_>, what: &str) -> Result<T, ObjectTextError> {
        let parsed = token.text.parse();
        parsed.or_else(|_| {
            let text = token.text;
            self.error(
                token,
                format!("`{text}` is no {what}; write a number in its range"),
            )
        })
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, ObjectTextError> {
        let token = self.tokens.next(what)?;
        self.parse(token, what)
    }

    /// Checks that the line ends.
    fn end<T>(self, made: T, options: &str) -> Result<T, ObjectTextError> {
        match self.tokens.peek() {
            None => Ok(made),
            Some(token) => {
                let text = token.text;
                self.error(
                    token,
                    format!("`{text}` is not known here; write {options}, or end the line"),
                )
            }
        }
    }

    fn object(mut self) -> Result<Body, ObjectTextError> {
        let token = self.tokens.next("an object")?;
        match token.text {
            "table" => self.table(),
            "flow" => self.flow(),
            "group" => self.group(),
            "meter" => {
                let command = self.word(&COMMANDS, "command")?;
                let id = self.number("number of a meter")?;
                let rate = match self.tokens.take("rate") {
                    true => self.number("rate in kbit/s")?,
                    false => 0,
                };
                let slot = 0;
                let meter = MeterMod {
                    command,
                    slot,
                    id,
                    rate,
                };
                self.end(Body::MeterMod(meter), "`rate KBITS`")
            }
            "counter" => {
                let command: CounterCommand = self.word(&COUNTER_COMMANDS, "command")?;
                let id = self.number("number of a counter")?;
                let counter = Counter {
                    command,
                    slot: 0,
                    id,
                    packets: 0,
                    bytes: 0,
                };
                self.end(Body::CounterMod(counter), "nothing")
            }
            other => {
                let known = choice(["table", "flow", "group", "meter", "counter"]);
                self.error(
                    token,
                    format!("`{other}` is no object; begin the line with {known}"),
                )
            }
        }
    }

    /// Reads `mm/0`.
    fn table_name(&mut self) -> Result<(TableType, u8), ObjectTextError> {
        let token = self.tokens.next("a table such as mm/0")?;
        let (kind, id) = token.split('/');
        let place = TABLE_TYPES.iter().position(|word| *word == kind.text);
        let (Some(place), Some(id)) = (place, id) else {
            let text = token.text;
            return self.error(
                token,
                format!("`{text}` is no table; write mm/N, lpm/N, em/N or linear/N"),
            );
        };
        let id = self.parse(id, "number of a table")?;
        Ok((TableType::ALL[place], id))
    }

    /// Reads a table by its name or by its number among those of all types.
    fn table_number(&mut self) -> Result<u8, ObjectTextError> {
        let token = self.tokens.next("a table such as mm/0")?;
        if let Ok(number) = token.text.parse() {
            return Ok(number);
        }
        self.tokens.back();
        let (kind, id) = self.table_name()?;
        match self.text.tables.number(kind, id) {
            Some(number) => Ok(number.0),
            None => {
                let most = self.text.tables.limits().tables[kind as usize];
                let text = token.text;
                self.error(
                    token,
                    format!("the switch has no table {text}: it has {most} of this type"),
                )
            }
        }
    }

    fn table(mut self) -> Result<Body, ObjectTextError> {
        let command: Command = self.word(&COMMANDS, "command")?;
        let (table_type, id) = self.table_name()?;
        let mut table = TableMod {
            command,
            id,
            table_type,
            size: 0,
            key_length: 0,
            slot: 0,
            name: ObjectName::new(""),
            fields: Vec::new(),
        };
        let options = "`size N`, `name \"NAME\"` or `fields OFFSET/LENGTH...`";
        loop {
            if self.tokens.take("size") {
                table.size = self.number("number of entries")?;
            } else if self.tokens.take("name") {
                let token = self.tokens.next("a name")?;
                let Some(name) = name_bytes(token.text.trim_matches('"')) else {
                    let remedy = "write \\xNN with two hexadecimal digits, or \\x5c for itself";
                    return self.error(token, format!("a backslash begins no byte; {remedy}"));
                };
                if name.len() > NAME_BYTES {
                    return self.error(
                        token,
                        format!("the name is longer than {NAME_BYTES} bytes; write a shorter one"),
                    );
                }
                table.name = ObjectName::of_bytes(&name);
            } else if self.tokens.take("fields") {
                while let Some(token) = self.tokens.peek()
                    && !matches!(token.text, "size" | "name")
                {
                    self.tokens.next("a field")?;
                    table.fields.push(self.named_field(token)?);
                }
            } else {
                break;
            }
        }
        let widths = table.fields.iter().map(|field| u32::from(field.length));
        table.key_length = u16::try_from(widths.sum::<u32>()).unwrap_or(u16::MAX);
        self.end(Body::TableMod(table), options)
    }

    /// Reads `NAME=FIELD`, which gives the field a name for later lines, or `FIELD`.
    fn named_field(&mut self, token: Token<'t>) -> Result<Field, ObjectTextError> {
        match token.split('=') {
            (_, None) => self.field(token),
            (name, Some(field)) => {
                let field = self.field(field)?;
                self.text.fields.insert(name.text.to_owned(), field);
                Ok(field)
            }
        }
    }

    /// Reads `OFFSET/LENGTH`, `meta:OFFSET/LENGTH`, `OFFSET/LENGTH#ID`, or a name.
    fn field(&self, token: Token<'_>) -> Result<Field, ObjectTextError> {
        if let Some(field) = self.text.fields.get(token.text) {
            return Ok(*field);
        }
        let (place, rest) = match token.split(':') {
            (place, Some(rest)) => (Some(place), rest),
            (rest, None) => (None, rest),
        };
        let (offset, length) = rest.split('/');
        let is_number = offset.text.starts_with(|c: char| c.is_ascii_digit());
        let (Some(length), true) = (length, is_number) else {
            let text = token.text;
            return self.error(
                token,
                format!(
                    "`{text}` is no field; write OFFSET/LENGTH in bits, meta:OFFSET/LENGTH, or a name from the `fields` of a table above"
                ),
            );
        };
        let (length, id) = length.split('#');
        let id = match (place.map(|place| place.text), id) {
            (Some("meta"), None) => Field::METADATA,
            (None, Some(id)) => self.parse(id, "number of a field")?,
            (None, None) => 0,
            (Some(_), _) => {
                return self.error(token, "only `meta:` without `#ID` may be before a field");
            }
        };
        Ok(Field {
            id,
            offset: self.parse(offset, "offset in bits")?,
            length: self.parse(length, "length in bits")?,
        })
    }

    fn next_field(&mut self) -> Result<Field, ObjectTextError> {
        let token = self.tokens.next("a field")?;
        self.field(token)
    }

    /// Reads the `OFFSET/LENGTH` of metadata.
    fn metadata(&mut self) -> Result<(u16, u16), ObjectTextError> {
        let token = self.tokens.next("OFFSET/LENGTH of metadata")?;
        let field = self.field(token)?;
        Ok((field.offset, field.length))
    }

    /// Reads a value of a field.
    fn value(&self, token: Token<'_>, length: u16) -> Result<FieldValue, ObjectTextError> {
        value::read(token.text, length).or_else(|message| self.error(token, message))
    }

    /// Reads `FIELD=VALUE`, `FIELD=VALUE&MASK`, `FIELD=VALUE/PREFIX` or `FIELD=*`.
    fn matched(&mut self) -> Result<Match, ObjectTextError> {
        let token = self.tokens.next("FIELD=VALUE")?;
        let (field, Some(given)) = token.split('=') else {
            let text = token.text;
            return self.error(token, format!("`{text}` has no value; write FIELD=VALUE"));
        };
        let field = self.field(field)?;
        let length = field.length;
        if given.text == "*" {
            return Ok(Match {
                field,
                ..Match::default()
            });
        }
        if let (bits, Some(mask)) = given.split('&') {
            return Ok(Match {
                field,
                value: self.value(bits, length)?,
                mask: self.value(mask, length)?,
            });
        }
        let (bits, prefix) = given.split('/');
        let mask = match prefix {
            None => value::all_ones(length),
            Some(token) => {
                let bits: u16 = self.parse(token, "length of a prefix")?;
                if bits > length {
                    return self.error(
                        token,
                        format!("the field has {length} bits only; write a shorter prefix"),
                    );
                }
                value::all_ones(bits)
            }
        };
        Ok(Match {
            field,
            value: self.value(bits, length)?,
            mask,
        })
    }

    fn flow(mut self) -> Result<Body, ObjectTextError> {
        let word = self.tokens.peek();
        let command: FlowCommand = self.word(&FLOW_COMMANDS, "command")?;
        let (table_type, table) = self.table_name()?;
        let mut flow = FlowMod {
            command,
            counter: 0,
            cookie: 0,
            cookie_mask: 0,
            table,
            table_type,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0,
            index: 0,
            slot: 0,
            matches: Vec::new(),
            instructions: Vec::new(),
        };
        let mut index = None;
        let options = "`index`, `priority`, `counter`, `cookie`, `idle` or `hard` with a number, `match FIELD=VALUE...` or `do INSTRUCTIONS`";
        while let Some(token) = self.tokens.peek() {
            self.tokens.next("an option")?;
            match token.text {
                "index" => index = Some(self.number("index of an entry")?),
                "priority" => flow.priority = self.number("priority")?,
                "counter" => flow.counter = self.number("number of a counter")?,
                "idle" => flow.idle_timeout = self.number("number of seconds")?,
                "hard" => flow.hard_timeout = self.number("number of seconds")?,
                "cookie" => (flow.cookie, flow.cookie_mask) = self.cookie()?,
                "match" => {
                    let is_field = |token: Token<'_>| token.text.contains('=');
                    while self.tokens.peek().is_some_and(is_field) {
                        flow.matches.push(self.matched()?);
                    }
                }
                "do" => {
                    flow.instructions = self.instructions()?;
                    break;
                }
                _ => {
                    self.tokens.back();
                    break;
                }
            }
        }
        flow.index = match (command, index, word) {
            (FlowCommand::Add, ..) => self.text.index_of_added((table_type, table), index),
            (_, Some(index), _) => index,
            (FlowCommand::Modify | FlowCommand::Delete | FlowCommand::Query, None, Some(token)) => {
                let remedy = "write `index N`, or `modify_strict` or `delete_strict` with `match`";
                return self.error(
                    token,
                    format!("`{}` needs the index of an entry; {remedy}", token.text),
                );
            }
            // The strict forms find the entry by its match.
            (_, None, _) => 0,
        };
        self.end(Body::FlowMod(flow), options)
    }

    /// Reads `COOKIE` or `COOKIE&MASK`.
    fn cookie(&mut self) -> Result<(u64, u64), ObjectTextError> {
        let token = self.tokens.next("a cookie")?;
        let read = |token: Token<'_>| {
            let bytes = value::read(token.text, 64).or_else(|e| self.error(token, e))?;
            Ok::<u64, ObjectTextError>(value::number(bytes, 64) as u64)
        };
        let (cookie, mask) = token.split('&');
        Ok((read(cookie)?, mask.map_or(Ok(0), read)?))
    }

    fn group(mut self) -> Result<Body, ObjectTextError> {
        let command: Command = self.word(&COMMANDS, "command")?;
        let id = self.number("number of a group")?;
        let group_type = match (command, self.tokens.peek()) {
            (Command::Delete | Command::Query, None) => GroupType::All,
            _ => self.word(&GROUP_TYPES, "type of a group")?,
        };
        let counter = match self.tokens.take("counter") {
            true => self.number("number of a counter")?,
            false => 0,
        };
        let actions = match self.tokens.take("do") {
            true => self.actions(MAX_GROUP_ACTIONS)?,
            false => Vec::new(),
        };
        let group = GroupMod {
            command,
            group_type,
            id,
            counter,
            slot: 0,
            actions,
        };
        self.end(Body::GroupMod(group), "`counter N` or `do ACTIONS`")
    }

    fn instructions(&mut self) -> Result<Vec<Instruction>, ObjectTextError> {
        let mut instructions = Vec::new();
        loop {
            let first = self.tokens.peek();
            instructions.push(self.instruction()?);
            if let Some(token) = first
                && instructions.len() > MAX_INSTRUCTIONS
            {
                return self.error(
                    token,
                    format!("an entry has at most {MAX_INSTRUCTIONS} instructions; go on in another table with `goto`"),
                );
            }
            if !self.tokens.take(";") {
                return Ok(instructions);
            }
        }
    }

    /// Reads a number, or a field in brackets.
    fn argument(&mut self) -> Result<Argument, ObjectTextError> {
        let token = self.tokens.next("a number or [FIELD]")?;
        self.argument_of(token)
    }

    fn argument_of(&self, token: Token<'_>) -> Result<Argument, ObjectTextError> {
        let inner = token.text.strip_prefix('[');
        match inner.and_then(|inner| inner.strip_suffix(']')) {
            Some(text) => {
                let column = token.column + 1;
                self.field(Token { text, column }).map(Argument::Field)
            }
            None => {
                let bytes = value::read(token.text, 32);
                let bytes = bytes.or_else(|message| self.error(token, message))?;
                Ok(Argument::Immediate(value::number(bytes, 32) as u32))
            }
        }
    }

    /// Reads `+N`, `-N` or the same with a field.
    fn signed(&mut self) -> Result<(Direction, Argument), ObjectTextError> {
        let token = self.tokens.next("+N or -N")?;
        let (direction, rest) = match token.text.split_at_checked(1) {
            Some(("+", rest)) => (Direction::Forward, rest),
            Some(("-", rest)) => (Direction::Backward, rest),
            _ => {
                let text = token.text;
                return self.error(token, format!("`{text}` has no sign; write +N or -N"));
            }
        };
        let column = token.column + 1;
        let argument = self.argument_of(Token { text: rest, column })?;
        Ok((direction, argument))
    }

    fn jump(&mut self) -> Result<Jump, ObjectTextError> {
        let (direction, distance) = self.signed()?;
        Ok(Jump {
            direction,
            distance,
        })
    }

    /// Reads the `offset N` of a GOTO, if there is one.
    fn movement(&mut self) -> Result<u16, ObjectTextError> {
        match self.tokens.take("offset") {
            true => Ok(self.number::<i16>("number of bytes")?.cast_unsigned()),
            false => Ok(0),
        }
    }

    fn instruction(&mut self) -> Result<Instruction, ObjectTextError> {
        let token = self.tokens.next("an instruction or an action")?;
        Ok(match token.text {
            "goto" => {
                let table = self.table_number()?;
                let offset = self.movement()?;
                let mut fields = Vec::new();
                if self.tokens.take("fields") {
                    while self.tokens.peek().is_some_and(|token| token.text != ";") {
                        fields.push(self.next_field()?);
                    }
                }
                Instruction::GotoTable {
                    table,
                    offset,
                    fields,
                }
            }
            "goto_direct" => {
                let table = self.table_number()?;
                let index = self.argument()?;
                Instruction::GotoDirectTable {
                    table,
                    offset: self.movement()?,
                    index,
                }
            }
            "write_metadata" => {
                let one = self.matched()?;
                Instruction::WriteMetadata {
                    offset: one.field.offset,
                    length: one.field.length,
                    value: one.value,
                }
            }
            "write_actions" => Instruction::WriteActions(self.some_actions()?),
            "apply_actions" => Instruction::ApplyActions(self.some_actions()?),
            "clear_actions" => Instruction::ClearActions,
            "meter" => Instruction::Meter(self.number("number of a meter")?),
            "write_metadata_from_packet" => {
                let metadata_offset = self.number("offset in bits")?;
                let field = self.next_field()?;
                Instruction::WriteMetadataFromPacket {
                    metadata_offset,
                    packet_offset: field.offset,
                    length: field.length,
                }
            }
            "conditional_jump" => Instruction::ConditionalJump {
                left: self.next_field()?,
                right: self.argument()?,
                less: self.jump()?,
                equal: self.jump()?,
                greater: self.jump()?,
            },
            "calculate_field" => Instruction::CalculateField {
                operation: self.word(&CALCULATIONS, "operation")?,
                target: self.next_field()?,
                source: self.argument()?,
            },
            "move_packet_offset" => {
                let (direction, distance) = self.signed()?;
                Instruction::MovePacketOffset {
                    direction,
                    distance,
                }
            }
            "set_packet_offset" => Instruction::SetPacketOffset(self.argument()?),
            "compare" => Instruction::Compare {
                result: self.number("number of a result")?,
                left: self.next_field()?,
                right: self.argument()?,
            },
            "branch" => Instruction::Branch {
                left: self.next_field()?,
                right: self.argument()?,
                skip: self.number("number of instructions")?,
            },
            "jump" => match self.signed()? {
                (direction, Argument::Immediate(distance)) => Instruction::Jump {
                    direction,
                    distance,
                },
                _ => return self.error(token, "`jump` takes no field; use `conditional_jump`"),
            },
            _ => {
                self.tokens.back();
                Instruction::ApplyActions(self.actions(MAX_ACTIONS)?)
            }
        })
    }

    /// Reads the actions up to the end of an instruction. There may be none.
    fn some_actions(&mut self) -> Result<Vec<Action>, ObjectTextError> {
        match self.tokens.peek() {
            None | Some(Token { text: ";", .. }) => Ok(Vec::new()),
            _ => self.actions(MAX_ACTIONS),
        }
    }

    fn actions(&mut self, most: usize) -> Result<Vec<Action>, ObjectTextError> {
        let mut actions = Vec::new();
        loop {
            let first = self.tokens.peek();
            actions.push(self.action()?);
            if let Some(token) = first
                && actions.len() > most
            {
                return self.error(
                    token,
                    format!("at most {most} actions may be together; separate others by `;`"),
                );
            }
            if !self.tokens.take(",") {
                return Ok(actions);
            }
        }
    }

    /// Reads a number if the next word is one.
    fn optional_number(&mut self) -> Result<u32, ObjectTextError> {
        match self.tokens.peek() {
            Some(token) if token.text.starts_with(|c: char| c.is_ascii_digit()) => {
                self.number("number")
            }
            _ => Ok(0),
        }
    }

    fn action(&mut self) -> Result<Action, ObjectTextError> {
        let token = self.tokens.next("an action")?;
        Ok(match token.text {
            "output" => self.output()?,
            "set_field" => Action::SetField(self.matched()?),
            "set_field_from_metadata" => Action::SetFieldFromMetadata {
                field: self.next_field()?,
                metadata_offset: self.number("offset in bits")?,
            },
            "modify_field" => Action::ModifyField {
                field: self.next_field()?,
                increment: self.number("number to add")?,
            },
            "add_field" => {
                let one = self.matched()?;
                Action::AddField {
                    id: one.field.id,
                    offset: one.field.offset,
                    length: one.field.length.into(),
                    value: one.value,
                }
            }
            "delete_field" => Action::DeleteField {
                offset: self.number("offset in bits")?,
                length: self.argument()?,
            },
            "calculate_checksum" => {
                let checksum = self.next_field()?;
                let data = self.next_field()?;
                Action::CalculateChecksum {
                    checksum_place: checksum.place(),
                    checksum_offset: checksum.offset,
                    checksum_length: checksum.length,
                    data_place: data.place(),
                    data_offset: data.offset,
                    data_length: data.length,
                }
            }
            "group" => Action::Group(self.number("number of a group")?),
            "drop" => Action::Drop {
                reason: self.optional_number()?,
            },
            "packet_in" => Action::PacketIn {
                reason: self.optional_number()?,
            },
            "counter" => Action::Counter(self.number("number of a counter")?),
            other => {
                let known = choice([
                    "output",
                    "set_field",
                    "set_field_from_metadata",
                    "modify_field",
                    "add_field",
                    "delete_field",
                    "calculate_checksum",
                    "group",
                    "drop",
                    "packet_in",
                    "counter",
                ]);
                return self.error(
                    token,
                    format!("`{other}` is no instruction and no action; actions are {known}"),
                );
            }
        })
    }

    fn output(&mut self) -> Result<Action, ObjectTextError> {
        let token = self.tokens.next("a port")?;
        let named = PORTS.iter().find(|(name, _)| *name == token.text);
        let port = match named {
            Some((_, number)) => Argument::Immediate(RESERVED_PORTS | u32::from(*number)),
            None => self.argument_of(token)?,
        };
        let (metadata_offset, metadata_length) = match self.tokens.take("metadata") {
            true => self.metadata()?,
            false => (0, 0),
        };
        let packet_offset = match self.tokens.take("skip") {
            true => self.number("number of bytes")?,
            false => 0,
        };
        Ok(Action::Output {
            port,
            metadata_offset,
            metadata_length,
            packet_offset,
        })
    }
}

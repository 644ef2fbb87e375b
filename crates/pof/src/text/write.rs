//! Messages as lines.

use std::fmt::Write;

use super::value;
use crate::model::*;
use crate::tables::{TableNumber, Tables};
use crate::wire::{Body, Command, CounterCommand, FlowCommand};

/// Words of the types of tables, in the order of their numbers.
pub const TABLE_TYPES: [&str; 4] = ["mm", "lpm", "em", "linear"];

/// Returns a table's name, such as `mm/0`, or its number if it has none.
pub(crate) fn table_name(tables: &Tables, number: TableNumber) -> String {
    let id = tables.id_in_type(number);
    let is_of = |kind: &&TableType| tables.number(**kind, id) == Some(number);
    match TableType::ALL.iter().find(is_of) {
        Some(kind) => format!("{}/{id}", TABLE_TYPES[*kind as usize]),
        None => number.0.to_string(),
    }
}

/// Words of the types of groups.
pub(super) const GROUP_TYPES: [(&str, GroupType); 4] = [
    ("all", GroupType::All),
    ("select", GroupType::Select),
    ("indirect", GroupType::Indirect),
    ("fast_failover", GroupType::FastFailover),
];

/// Words of the operations of CALCULATE_FIELD.
pub(super) const CALCULATIONS: [(&str, Calculation); 8] = [
    ("add", Calculation::Add),
    ("subtract", Calculation::Subtract),
    ("left_shift", Calculation::LeftShift),
    ("right_shift", Calculation::RightShift),
    ("and", Calculation::And),
    ("or", Calculation::Or),
    ("xor", Calculation::Xor),
    ("nor", Calculation::Nor),
];

/// Words of port numbers with a meaning.
pub(super) const PORTS: [(&str, u16); 5] = [
    ("in_port", port::IN_PORT),
    ("table", port::TABLE),
    ("flood", port::FLOOD),
    ("all", port::ALL),
    ("controller", port::CONTROLLER),
];

/// High half of a port number with a meaning.
pub(super) const RESERVED_PORTS: u32 = 0xFFFF_0000;

/// Words of commands.
pub(super) const COMMANDS: [(&str, Command); 4] = [
    ("add", Command::Add),
    ("modify", Command::Modify),
    ("delete", Command::Delete),
    ("query", Command::Query),
];

/// Words of the commands of entries.
pub(super) const FLOW_COMMANDS: [(&str, FlowCommand); 6] = [
    ("add", FlowCommand::Add),
    ("modify", FlowCommand::Modify),
    ("modify_strict", FlowCommand::ModifyStrict),
    ("delete", FlowCommand::Delete),
    ("delete_strict", FlowCommand::DeleteStrict),
    ("query", FlowCommand::Query),
];

/// Words of the commands of counters.
pub(super) const COUNTER_COMMANDS: [(&str, CounterCommand); 4] = [
    ("add", CounterCommand::Add),
    ("clear", CounterCommand::Clear),
    ("delete", CounterCommand::Delete),
    ("query", CounterCommand::Query),
];

/// Returns the word of a value.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, one)| *one == value);
    found.map_or("query_result", |(word, _)| word)
}

/// Writes a message as a line. `tables` has the numbers of tables of each type. Returns `None` for
/// messages that stand for no object.
pub fn write(body: &Body, tables: &Tables) -> Option<String> {
    let line = Line {
        text: String::new(),
        tables,
    };
    line.object(body)
}

/// A line under way. Writing to text does not fail, so results of `write!` are dropped.
struct Line<'t> {
    text: String,
    tables: &'t Tables,
}

impl Line<'_> {
    fn put(&mut self, text: impl std::fmt::Display) {
        let _ = write!(self.text, "{text}");
    }

    /// Writes ` NAME VALUE`, unless the value is the default, zero.
    fn option(&mut self, name: &str, number: u64) {
        if number != 0 {
            self.put(format_args!(" {name} {number}"));
        }
    }

    fn object(mut self, body: &Body) -> Option<String> {
        match body {
            Body::TableMod(table) => {
                let command = word(&COMMANDS, table.command);
                let kind = TABLE_TYPES[table.table_type as usize];
                self.put(format_args!("table {command} {kind}/{}", table.id));
                if table.name != ObjectName::new("") {
                    self.put(format_args!(" name {}", quoted(table.name)));
                }
                self.put(format_args!(" size {}", table.size));
                if !table.fields.is_empty() {
                    self.put(" fields");
                }
                for field in &table.fields {
                    self.put(" ");
                    self.field(*field);
                }
            }
            Body::FlowMod(flow) => {
                let command = word(&FLOW_COMMANDS, flow.command);
                let kind = TABLE_TYPES[flow.table_type as usize];
                let (table, index) = (flow.table, flow.index);
                self.put(format_args!("flow {command} {kind}/{table} index {index}"));
                self.option("priority", flow.priority.into());
                self.option("counter", flow.counter.into());
                if flow.cookie != 0 || flow.cookie_mask != 0 {
                    self.put(format_args!(" cookie {:#x}", flow.cookie));
                }
                if flow.cookie_mask != 0 {
                    self.put(format_args!("&{:#x}", flow.cookie_mask));
                }
                self.option("idle", flow.idle_timeout.into());
                self.option("hard", flow.hard_timeout.into());
                if !flow.matches.is_empty() {
                    self.put(" match");
                }
                for one in &flow.matches {
                    self.put(" ");
                    self.matched(one);
                }
                if !flow.instructions.is_empty() {
                    self.put(" do ");
                }
                for (at, instruction) in flow.instructions.iter().enumerate() {
                    self.put(if at > 0 { "; " } else { "" });
                    self.instruction(instruction);
                }
            }
            Body::GroupMod(group) => {
                let command = word(&COMMANDS, group.command);
                let kind = word(&GROUP_TYPES, group.group_type);
                self.put(format_args!("group {command} {} {kind}", group.id));
                self.option("counter", group.counter.into());
                self.put(if group.actions.is_empty() { "" } else { " do " });
                self.actions(&group.actions);
            }
            Body::MeterMod(meter) => {
                let command = word(&COMMANDS, meter.command);
                self.put(format_args!("meter {command} {}", meter.id));
                self.option("rate", meter.rate.into());
            }
            Body::CounterMod(counter) => {
                let command = word(&COUNTER_COMMANDS, counter.command);
                self.put(format_args!("counter {command} {}", counter.id));
            }
            _ => return None,
        }
        Some(self.text)
    }

    fn field(&mut self, field: Field) {
        if field.id == Field::METADATA {
            self.put("meta:");
        }
        self.put(format_args!("{}/{}", field.offset, field.length));
        if field.id != Field::METADATA && field.id != 0 {
            self.put(format_args!("#{}", field.id));
        }
    }

    fn matched(&mut self, one: &Match) {
        let length = one.field.length;
        self.field(one.field);
        let mask = value::number(one.mask, length);
        let all = value::number(value::all_ones(length), length);
        self.put(format_args!("={}", value::write(one.value, length)));
        if mask != all {
            self.put(format_args!("&{mask:#x}"));
        }
    }

    fn argument(&mut self, argument: Argument) {
        match argument {
            Argument::Immediate(number) => self.put(number),
            Argument::Field(field) => {
                self.put("[");
                self.field(field);
                self.put("]");
            }
        }
    }

    fn signed(&mut self, direction: Direction, distance: Argument) {
        self.put(match direction {
            Direction::Forward => "+",
            Direction::Backward => "-",
        });
        self.argument(distance);
    }

    fn table(&mut self, number: u8) {
        let name = table_name(self.tables, TableNumber(number));
        self.put(name);
    }

    /// Writes the movement of the packet offset of a GOTO.
    fn movement(&mut self, offset: u16) {
        if offset != 0 {
            self.put(format_args!(" offset {}", offset.cast_signed()));
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        match instruction {
            Instruction::GotoTable {
                table,
                offset,
                fields,
            } => {
                self.put("goto ");
                self.table(*table);
                self.movement(*offset);
                self.put(if fields.is_empty() { "" } else { " fields" });
                for field in fields {
                    self.put(" ");
                    self.field(*field);
                }
            }
            Instruction::WriteMetadata {
                offset,
                length,
                value,
            } => {
                let value = value::write(*value, *length);
                self.put(format_args!("write_metadata {offset}/{length}={value}"));
            }
            Instruction::WriteActions(actions) => {
                self.put(if actions.is_empty() {
                    "write_actions"
                } else {
                    "write_actions "
                });
                self.actions(actions);
            }
            Instruction::ApplyActions(actions) if actions.is_empty() => self.put("apply_actions"),
            Instruction::ApplyActions(actions) => self.actions(actions),
            Instruction::ClearActions => self.put("clear_actions"),
            Instruction::Meter(id) => self.put(format_args!("meter {id}")),
            Instruction::WriteMetadataFromPacket {
                metadata_offset,
                packet_offset,
                length,
            } => self.put(format_args!(
                "write_metadata_from_packet {metadata_offset} {packet_offset}/{length}"
            )),
            Instruction::GotoDirectTable {
                table,
                offset,
                index,
            } => {
                self.put("goto_direct ");
                self.table(*table);
                self.put(" ");
                self.argument(*index);
                self.movement(*offset);
            }
            Instruction::ConditionalJump {
                left,
                right,
                less,
                equal,
                greater,
            } => {
                self.put("conditional_jump ");
                self.field(*left);
                self.put(" ");
                self.argument(*right);
                for jump in [less, equal, greater] {
                    self.put(" ");
                    self.signed(jump.direction, jump.distance);
                }
            }
            Instruction::CalculateField {
                operation,
                target,
                source,
            } => {
                let operation = word(&CALCULATIONS, *operation);
                self.put(format_args!("calculate_field {operation} "));
                self.field(*target);
                self.put(" ");
                self.argument(*source);
            }
            Instruction::MovePacketOffset {
                direction,
                distance,
            } => {
                self.put("move_packet_offset ");
                self.signed(*direction, *distance);
            }
            Instruction::SetPacketOffset(offset) => {
                self.put("set_packet_offset ");
                self.argument(*offset);
            }
            Instruction::Compare {
                result,
                left,
                right,
            } => {
                self.put(format_args!("compare {result} "));
                self.field(*left);
                self.put(" ");
                self.argument(*right);
            }
            Instruction::Branch { left, right, skip } => {
                self.put("branch ");
                self.field(*left);
                self.put(" ");
                self.argument(*right);
                self.put(format_args!(" {skip}"));
            }
            Instruction::Jump {
                direction,
                distance,
            } => {
                self.put("jump ");
                self.signed(*direction, Argument::Immediate(*distance));
            }
        }
    }

    fn actions(&mut self, actions: &[Action]) {
        for (at, action) in actions.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.action(action);
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Output {
                port,
                metadata_offset,
                metadata_length,
                packet_offset,
            } => {
                self.put("output ");
                let named = PORTS.iter().find(|(_, number)| {
                    *port == Argument::Immediate(RESERVED_PORTS | u32::from(*number))
                });
                match named {
                    Some((name, _)) => self.put(name),
                    None => self.argument(*port),
                }
                if (*metadata_offset, *metadata_length) != (0, 0) {
                    self.put(format_args!(
                        " metadata {metadata_offset}/{metadata_length}"
                    ));
                }
                self.option("skip", (*packet_offset).into());
            }
            Action::SetField(one) => {
                self.put("set_field ");
                self.matched(one);
            }
            Action::SetFieldFromMetadata {
                field,
                metadata_offset,
            } => {
                self.put("set_field_from_metadata ");
                self.field(*field);
                self.put(format_args!(" {metadata_offset}"));
            }
            Action::ModifyField { field, increment } => {
                self.put("modify_field ");
                self.field(*field);
                self.put(format_args!(" {increment}"));
            }
            Action::AddField {
                id,
                offset,
                length,
                value,
            } => {
                let width = u16::try_from(*length).unwrap_or(MAX_FIELD_BITS);
                let value = value::write(*value, width);
                self.put(format_args!("add_field {offset}/{length}"));
                if *id != 0 {
                    self.put(format_args!("#{id}"));
                }
                self.put(format_args!("={value}"));
            }
            Action::DeleteField { offset, length } => {
                self.put(format_args!("delete_field {offset} "));
                self.argument(*length);
            }
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset,
                checksum_length,
                data_place,
                data_offset,
                data_length,
            } => {
                self.put("calculate_checksum ");
                self.placed(*checksum_place, *checksum_offset, *checksum_length);
                self.put(" ");
                self.placed(*data_place, *data_offset, *data_length);
            }
            Action::Group(id) => self.put(format_args!("group {id}")),
            Action::Drop { reason: 0 } => self.put("drop"),
            Action::Drop { reason } => self.put(format_args!("drop {reason}")),
            Action::PacketIn { reason: 0 } => self.put("packet_in"),
            Action::PacketIn { reason } => self.put(format_args!("packet_in {reason}")),
            Action::Counter(id) => self.put(format_args!("counter {id}")),
        }
    }

    fn placed(&mut self, place: Place, offset: u16, length: u16) {
        self.put(match place {
            Place::Packet => "",
            Place::Metadata => "meta:",
            Place::Parameter => "param:",
        });
        self.put(format_args!("{offset}/{length}"));
    }
}

/// Writes a name in quotes. Quotes, backslashes, control characters and what is not UTF-8 become
/// `\xNN`, a byte each.
fn quoted(name: ObjectName) -> String {
    let end = name.0.iter().rposition(|byte| *byte != 0);
    let bytes = &name.0[..end.map_or(0, |last| last + 1)];
    let mut text = String::from("\"");
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_control() || matches!(c, '"' | '\\') {
                true => escape(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(c),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

//! Tests of the text of objects: round trips, errors with their places, and the text of a switch's
//! state.

mod strategies;

use std::sync::Arc;

use pof::model::*;
use pof::tables::{Limits, Tables};
use pof::text::{TextReader, as_add, remake, write};
use pof::wire::*;
use pof::{Forwarder, ForwarderOptions, ObjectKey};
use proptest::prelude::*;

fn tables() -> Tables {
    Tables::new(Limits::default())
}

/// Cuts off what a field's text does not have: bits after its width, and widths without values.
fn cut(length: &mut u16, values: &mut [&mut FieldValue]) {
    *length = (*length).min(MAX_FIELD_BITS);
    for value in values {
        for bit in usize::from(*length)..usize::from(MAX_FIELD_BITS) {
            value[bit / 8] &= !(0x80 >> (bit % 8));
        }
    }
}

fn cut_match(one: &mut Match) {
    cut(&mut one.field.length, &mut [&mut one.value, &mut one.mask]);
}

fn cut_actions(actions: &mut [Action]) {
    for action in actions {
        match action {
            Action::SetField(one) => cut_match(one),
            Action::AddField { length, value, .. } => {
                let mut short = (*length % 129) as u16;
                cut(&mut short, &mut [value]);
                *length = short.into();
            }
            _ => {}
        }
    }
}

fn cut_flow(flow: &mut FlowMod) {
    flow.slot = 0;
    flow.matches.iter_mut().for_each(cut_match);
    for instruction in &mut flow.instructions {
        match instruction {
            Instruction::WriteMetadata { length, value, .. } => cut(length, &mut [value]),
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                cut_actions(actions);
            }
            _ => {}
        }
    }
    if flow.command == FlowCommand::QueryResult {
        flow.command = FlowCommand::Add;
    }
}

fn read_one(line: &str) -> Body {
    let read = TextReader::new(tables()).read(line);
    read.unwrap_or_else(|error| panic!("{line}: {error}"))
        .unwrap()
}

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(mut flow in strategies::flow_mod()) {
        cut_flow(&mut flow);
        let body = Body::FlowMod(flow);
        prop_assert_eq!(read_one(&write(&body, &tables()).unwrap()), body);
    }

    #[test]
    fn a_group_is_read_as_it_was_written(mut group in strategies::group_mod()) {
        group.slot = 0;
        cut_actions(&mut group.actions);
        if group.command == Command::QueryResult {
            group.command = Command::Add;
        }
        let body = Body::GroupMod(group);
        prop_assert_eq!(read_one(&write(&body, &tables()).unwrap()), body);
    }

    #[test]
    fn no_text_causes_a_panic(text in "[ -~]{0,80}", start in "(flow|table|group) add (mm/0|3)?") {
        let _ = TextReader::new(tables()).read(&text);
        let _ = TextReader::new(tables()).read(&format!("{start} {text}"));
    }
}

#[test]
fn names_of_fields_hold_for_later_lines() {
    let mut reader = TextReader::new(tables());
    let made = reader.read("table add mm/0 size 100 fields eth_type=96/16 tos=meta:32/8#0");
    assert!(made.is_err(), "an id beside meta:");
    let made = reader.read("table add mm/0 size 100 fields eth_type=96/16 dst=240/32 # a comment");
    let Ok(Some(Body::TableMod(table))) = made else {
        panic!("{made:?}");
    };
    assert_eq!((table.size, table.key_length), (100, 48));
    let line = "flow add mm/0 priority 10 match eth_type=0x800 dst=10.0.0.0/8 do output 1";
    for index in 0..2 {
        let Ok(Some(Body::FlowMod(flow))) = reader.read(line) else {
            panic!();
        };
        assert_eq!(flow.index, index, "the next free index");
        assert_eq!(flow.matches[1].value[..4], [10, 0, 0, 0]);
        assert_eq!(flow.matches[1].mask[..4], [255, 0, 0, 0]);
    }
    assert_eq!(reader.read("   # nothing"), Ok(None));
    assert_eq!(reader.line(), 5);
}

#[test]
fn an_error_names_its_place_and_the_remedy() {
    for (line, column, words) in [
        ("tabel add mm/0", 1, "`table`"),
        ("table make mm/0", 7, "`add`"),
        ("table add tcam/0", 11, "mm/N"),
        ("table add mm/0 size many", 21, "number"),
        ("flow add mm/0 match 96/16", 21, "match FIELD=VALUE"),
        ("flow add mm/0 match 96/16=0x12345", 27, "17 bits"),
        ("flow add mm/0 match 96/16=10.0.0.1", 27, "32 bits"),
        ("flow add mm/0 match eth=1", 21, "OFFSET/LENGTH"),
        ("flow add mm/0 do set_field 0/8", 28, "FIELD=VALUE"),
        ("flow add mm/0 do send 1", 18, "`output`"),
        ("flow add mm/0 do output", 24, "a port"),
        ("flow add mm/0 do goto mm/11", 23, "10 of this type"),
        ("flow add mm/0 do jump 1", 23, "+N"),
        ("flow add mm/0 index 1 fast", 23, "`priority`"),
        ("flow delete mm/0", 6, "`delete_strict`"),
        ("flow modify mm/0 do output 1", 6, "`modify_strict`"),
        ("flow query mm/0 match 96/16=1", 6, "`index N`"),
        ("table add mm/0 name \"a\\y\"", 21, "\\xNN"),
        ("group add 1 some", 13, "`select`"),
    ] {
        let error = TextReader::new(tables()).read(line).expect_err(line);
        assert_eq!((error.line, error.column), (1, column), "{line}: {error}");
        assert!(error.message.contains(words), "{line}: {error}");
    }
}

#[test]
fn only_added_entries_move_the_next_index() {
    let mut reader = TextReader::new(tables());
    for (line, index) in [
        ("flow delete mm/0 index 8", 8),
        ("flow modify_strict mm/0 match 96/16=1", 0),
        ("flow add mm/0", 0),
        ("flow add mm/0 index 3", 3),
        ("flow query mm/0 index 0", 0),
        ("flow add mm/0", 4),
    ] {
        let Ok(Some(Body::FlowMod(flow))) = reader.read(line) else {
            panic!("{line}");
        };
        assert_eq!(flow.index, index, "{line}");
    }
}

#[test]
fn a_name_of_any_bytes_is_read_as_it_was_written() {
    for name in [
        &b"a \"b\" \\x41"[..],
        b"\xff\xfe\n\t",
        "\u{e9}t\u{e9}".as_bytes(),
        b"a\0b",
        b"\xc3",
    ] {
        let Body::TableMod(mut table) = read_one("table add mm/0 size 1 fields 96/16") else {
            panic!();
        };
        table.name = ObjectName::of_bytes(name);
        let body = Body::TableMod(table);
        assert_eq!(read_one(&write(&body, &tables()).unwrap()), body);
    }
}

#[test]
fn the_object_of_an_answer_is_one_message() {
    let query = read_one("flow query mm/0 index 1 counter 7 do counter 8");
    let add = read_one("flow add mm/0 index 1 counter 7 do counter 8");
    assert_eq!(as_add(&query), Some(add));
    assert_eq!(as_add(&Body::Hello), None);
}

/// Makes the objects of a text on a switch.
fn switch_of(text: &str) -> Forwarder {
    let options = ForwarderOptions::default();
    let mut switch = Forwarder::new(Arc::new(interp::Interp), options).unwrap();
    switch.make_text(text).unwrap();
    switch
}

#[test]
fn a_text_is_made_up_to_its_first_wrong_line() {
    let table = "# a comment\n\ntable add mm/0 size 1 fields eth_type=96/16\n";
    for (line, words) in [
        ("table add", "line 4, column 10: "),
        ("flow add mm/1 do output 1", "line 4: a switch refuses it: "),
    ] {
        let options = ForwarderOptions::default();
        let mut switch = Forwarder::new(Arc::new(interp::Interp), options).unwrap();
        let error = switch.make_text(&format!("{table}{line}\nmeter add 1 rate 5"));
        let error = error.expect_err(line).to_string();
        assert!(error.starts_with(words), "{error}");
        assert_eq!(switch.tables(), switch_of(table).tables(), "{line}");
    }
}

#[test]
fn a_dump_makes_the_state_it_was_made_of() {
    let text = "\
table add mm/0 name \"first\" size 100 fields eth_type=96/16
table add lpm/1 size 64 fields dst=128/32
table add linear/0 size 4
meter add 3 rate 1000
group add 5 select counter 9 do output 1, output 2
flow add linear/0 index 2 counter 7 do counter 8, output controller
flow add lpm/1 match dst=10.0.0.0/8 do set_field dst=10.1.1.1, group 5
flow add mm/0 index 4 priority 10 cookie 0xc0 idle 5 hard 60 match eth_type=0x800 do meter 3; goto lpm/1 offset 14
flow add mm/0 index 5 match eth_type=* do goto_direct linear/0 2
counter add 11
counter delete 8
";
    let switch = switch_of(text);
    let keys = ObjectKey::all(switch.tables());
    let stored = keys
        .into_iter()
        .filter_map(|key| key.message(switch.tables()));
    let answer: Vec<Body> = stored
        .map(|body| match body {
            Body::CounterMod(counter) => Body::CounterReply(counter),
            other => other,
        })
        .rev()
        .collect();
    let lines = remake(&answer);
    let lines = lines.iter().filter_map(|body| write(body, switch.tables()));
    let dump: Vec<String> = lines.collect();
    let copy = switch_of(&dump.join("\n"));
    assert_eq!(copy.tables(), switch.tables(), "{dump:#?}");
    assert!(dump.contains(&"counter delete 8".to_owned()), "{dump:#?}");
    assert_eq!(dump.len(), text.lines().count());
}

#[test]
fn entries_without_index_get_one_that_the_switch_does_not_have() {
    let mut reader = TextReader::new(tables());
    for index in [0, 1, 3] {
        reader.take_index(TableType::Masked, 0, index);
    }
    for (line, index) in [
        ("flow add mm/0", 2),
        ("flow add mm/1", 0),
        ("flow add mm/0", 4),
        ("flow add mm/0 index 1", 1),
        ("flow add lpm/0 index 7", 7),
    ] {
        let Ok(Some(Body::FlowMod(flow))) = reader.read(line) else {
            panic!("{line} is a flow");
        };
        assert_eq!(flow.index, index, "{line}");
    }
    let numbered: Vec<_> = reader.numbered().collect();
    assert_eq!(numbered, [(TableType::Masked, 0), (TableType::Masked, 1)]);
}

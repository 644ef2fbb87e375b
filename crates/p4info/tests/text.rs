//! Tests of protobuf's text format, as other programs write and read it.

use p4info::p4::config::v1::{MatchField, P4TypeInfo, Preamble, Table, match_field};
use p4info::p4::v1::{TableEntry, WriteRequest};
use p4info::{P4Info, from_text, to_text};
use proptest::prelude::*;

#[test]
fn text_looks_as_that_of_the_c_library() {
    let text = r#"# proto-file: p4/config/v1/p4info.proto
# proto-message: p4.config.v1.P4Info

tables {
  preamble {
    id: 42
    name: "a.b"
    annotations: "@x(\"y\\n\")"
  }
  match_fields {
    id: 1
    bitwidth: 9
    match_type: EXACT
  }
  is_const_table: true
}
type_info {
  enums {
    key: "A"
    value {
      members {
        name: "x"
      }
    }
  }
  enums {
    key: "B"
    value {
    }
  }
}
"#;
    let message: P4Info = from_text(text).expect("it is well formed");
    assert_eq!(to_text(&message), text);
    assert_eq!(message.tables[0].preamble.as_ref().map(|p| p.id), Some(42));
}

#[test]
fn entries_are_messages_too() {
    let text = r#"
        device_id: 1
        updates { type: INSERT entity { table_entry {
            table_id: 7
            match { field_id: 1 lpm { value: "\x0a\0" prefix_len: 8 } }
            action { action { action_id: 3 params { param_id: 1 value: "\001" } } }
        } } }"#;
    let message: WriteRequest = from_text(text).expect("it is well formed");
    let again: WriteRequest = from_text(&to_text(&message)).expect("it is well formed");
    assert_eq!(message, again);
    assert!(to_text(&message).contains(r#"value: "\n\000""#));
}

#[test]
fn wrong_texts_are_refused_with_a_reason() {
    for text in [
        "tables {",
        "tabels {}",
        "tables { size: \"x\" }",
        "tables: 3",
        "\u{0}",
    ] {
        let error = from_text::<P4Info>(text).expect_err(text).to_string();
        assert!(
            error.len() > "not in protobuf's text format: ".len(),
            "{error}"
        );
    }
}

fn table() -> impl Strategy<Value = Table> {
    (
        any::<u32>(),
        any::<String>(),
        any::<String>(),
        0..7_i32,
        any::<i64>(),
    )
        .prop_map(|(id, name, annotation, kind, size)| Table {
            preamble: Some(Preamble {
                id,
                name,
                annotations: vec![annotation],
                ..Preamble::default()
            }),
            match_fields: vec![MatchField {
                r#match: Some(match_field::Match::MatchType(kind)),
                ..MatchField::default()
            }],
            size,
            ..Table::default()
        })
}

proptest! {
    #[test]
    fn every_text_reads_back_as_its_message(
        tables in prop::collection::vec(table(), 0..4),
        types in prop::collection::btree_map(any::<String>(), Just(Default::default()), 0..4),
        has_types in any::<bool>(),
    ) {
        let type_info = has_types.then_some(P4TypeInfo { structs: types, ..P4TypeInfo::default() });
        let message = P4Info { tables, type_info, ..P4Info::default() };
        prop_assert_eq!(from_text::<P4Info>(&to_text(&message)), Ok(message));
    }

    #[test]
    fn every_byte_reads_back(metadata in prop::collection::vec(any::<u8>(), 0..40)) {
        use p4info::p4::v1::{Entity, entity};
        let entry = TableEntry { metadata, ..TableEntry::default() };
        let message = Entity { entity: Some(entity::Entity::TableEntry(entry)) };
        prop_assert_eq!(from_text::<Entity>(&to_text(&message)), Ok(message));
    }
}

//! Tests that updates from entries files are unchanged after conversion to P4Runtime messages and
//! back.

use controller::{Catalog, EncodeError};
use entries::{EntryAction, Update};
use ir::KeyMatch;

const GUIDE: &str = include_str!("../../../docs/reference/entries.md");

fn catalog() -> Catalog {
    let program = ir::read(include_str!("../../entries/tests/guide.ir"));
    let program = program.unwrap_or_else(|error| panic!("guide.ir:{error}"));
    let info = p4info::p4info(&program).unwrap_or_else(|errors| panic!("{}", errors[0]));
    Catalog::new(info).unwrap_or_else(|error| panic!("{error}"))
}

fn updates(catalog: &Catalog, text: &str) -> Vec<Update> {
    match catalog.schema.read("guide", text) {
        Ok(file) => file.updates().to_vec(),
        Err(errors) => panic!("{}\nin\n{text}", errors[0]),
    }
}

/// Returns the updates of the guide's examples that P4Runtime can express.
fn examples(catalog: &Catalog) -> Vec<Update> {
    let blocks = GUIDE.split("```entries\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or(rest));
    // A P4Info has only the types that its objects use, and no object uses this enum.
    let blocks = blocks.map(|block| block.replace("EtherType.Ipv6", "0x86dd"));
    let all = blocks.flat_map(|block| updates(catalog, &block));
    all.filter(|update| catalog.entity(update) != Err(EncodeError::NoMessage(what(update))))
        .collect()
}

/// Returns the kind of an update that P4Runtime has no message for.
fn what(update: &Update) -> &'static str {
    match update {
        Update::Queue(_) => "queues of ports",
        Update::HashCrc { .. } | Update::HashKey(_) | Update::HashSeed(_) => "parameters of hashes",
        Update::HostPorts(_) => "host ports",
        _ => "PNA's expire profiles",
    }
}

/// Returns an update as a server would report it. Matches of everything are omitted, and an update
/// of all cells is reported for one cell.
fn as_told(mut update: Update) -> Update {
    match &mut update {
        Update::Register { index, .. } | Update::Meter { index, .. } => {
            index.get_or_insert(0);
        }
        Update::Insert(_, entry) => {
            for key in &mut entry.keys {
                if matches!(key, KeyMatch::Lpm(_, 0)) {
                    *key = KeyMatch::Any;
                }
            }
        }
        _ => {}
    }
    update
}

#[test]
fn every_example_of_the_guide_comes_back_as_it_went() {
    for ports_are_numbers in [false, true] {
        let mut catalog = catalog();
        catalog.ports_are_numbers = ports_are_numbers;
        let examples = examples(&catalog);
        assert_eq!(examples.len(), 25);
        for update in examples {
            let entity = catalog
                .entity(&update)
                .unwrap_or_else(|error| panic!("{error}"));
            let read = catalog
                .read(&entity)
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.update, as_told(update.clone()));
            assert!(read.unsaid.is_empty() && !read.is_const);
            let statement = catalog.schema.statement(&read.update);
            assert_eq!(updates(&catalog, &statement), [read.update], "{statement}");
        }
    }
}

#[test]
fn a_message_that_does_not_fit_the_p4info_is_an_error() {
    use p4info::p4::v1 as rt;
    use rt::entity::Entity;
    let catalog = catalog();
    let update = &updates(&catalog, "macs { hdr.ethernet.dst_addr: 1 } -> drop()")[0];
    let Ok(Entity::TableEntry(entry)) = catalog.entity(update) else {
        panic!("it is a table's");
    };
    let spoil: [fn(&mut rt::TableEntry); 4] = [
        |entry| entry.table_id += 1,
        |entry| entry.r#match[0].field_id += 1,
        |entry| entry.r#match[0].field_match_type = None,
        |entry| entry.action = None,
    ];
    for spoil in spoil {
        let mut entry = entry.clone();
        spoil(&mut entry);
        assert!(catalog.read(&Entity::TableEntry(entry)).is_err());
    }
}

#[test]
fn strings_that_the_server_translates_are_written_in_quotes_or_as_they_are() {
    let mut info = catalog().info;
    let table = &mut info.tables[1];
    table.match_fields[0].bitwidth = 0;
    table.match_fields[0].type_name = Some(p4info::p4::config::v1::P4NamedType {
        name: "port_id_t".to_owned(),
    });
    let catalog = Catalog::new(info).unwrap_or_else(|error| panic!("{error}"));
    for written in ["Ethernet1/2", "\"Ethernet1/2\"", "\"a \\\" ; } b\""] {
        let text = format!("macs {{ hdr.ethernet.dst_addr: {written}; }} -> drop()");
        let update = &updates(&catalog, &text)[0];
        let entity = catalog
            .entity(update)
            .unwrap_or_else(|error| panic!("{error}"));
        let read = catalog
            .read(&entity)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.update, *update);
        let Update::Insert(_, entry) = &read.update else {
            panic!("it is an entry");
        };
        assert!(matches!(entry.action, EntryAction::Call(_)));
        let statement = catalog.schema.statement(update);
        assert_eq!(updates(&catalog, &statement), [read.update], "{statement}");
    }
}

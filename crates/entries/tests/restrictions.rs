//! Tests of `@entry_restriction` and `@action_restriction`: entries files that break them are
//! refused with the places of the statement and of the restriction; STF commands are marked.

use entries::{Restriction, Schema, read, stf};
use ir::{Annotation, AnnotationBody, AnnotationValue, DataTy, Loc, NamedType, NamedTypeKind};

fn annotation(name: &str, text: &str) -> Annotation {
    Annotation {
        name: name.to_owned(),
        body: AnnotationBody::Text(format!("\n \"{text}\" ")),
    }
}

/// Returns the guide's program with a restriction on the access list's entries and one on the
/// arguments of `forward`.
fn program(entries: &str, arguments: &str) -> ir::Program {
    let mut program =
        ir::read(include_str!("guide.ir")).unwrap_or_else(|error| panic!("guide.ir:{error}"));
    program.files.push("acl.p4".to_owned());
    let place = |line| {
        Some(Loc {
            file: 0,
            line,
            column: 5,
        })
    };
    for (_, table) in program.tables.iter_mut() {
        if table.name == "ingress.acl" {
            table.annotations = vec![annotation("entry_restriction", entries)];
            table.loc = place(31);
        }
    }
    for (_, action) in program.actions.iter_mut() {
        if action.name == "ingress.forward" {
            action.annotations = vec![annotation("action_restriction", arguments)];
            action.loc = place(12);
        }
    }
    program
}

/// Checks that the first statement is accepted, and the second refused with this error.
fn check(program: &ir::Program, good: &str, bad: &str, error: &str) {
    if let Err(errors) = read(program, "a.entries", good) {
        panic!("{good}\n{}", errors[0]);
    }
    let text = format!("# one\n{good}\n{bad}");
    let errors = read(program, "a.entries", &text).expect_err(bad);
    assert_eq!(errors.len(), 1, "{bad}");
    assert_eq!(errors[0].line, 3, "{bad}");
    let hint = errors[0].hint.as_deref().unwrap_or_default();
    assert_eq!(format!("{} ({hint})", errors[0].message), error, "{bad}");
}

#[test]
fn an_entry_that_breaks_the_restriction_of_its_table_is_refused_with_both_places() {
    let at = "(the table has this restriction at acl.p4:31:5)";
    let error = |why: &str| format!("the table `ingress.acl`: @entry_restriction: {why} {at}");
    for (restriction, good, bad, why) in [
        (
            "hdr.ipv4.src_addr::mask == 0 || hdr.ipv4.src_addr::mask == -1",
            "acl { hdr.ipv4.src_addr: 10.0.0.1 } -> drop() priority 1",
            "acl { hdr.ipv4.src_addr: 10.0.0.0/8 } -> drop() priority 1",
            "`hdr.ipv4.src_addr::mask == 0 || hdr.ipv4.src_addr::mask == -1` does not hold, with \
             hdr.ipv4.src_addr::mask = 0xff000000",
        ),
        (
            "meta.dst_port::low >= 1024; true",
            "acl { meta.dst_port: 1024..2047 } -> drop() priority 1",
            "acl { meta.dst_port: 1023..2047 } -> drop() priority 1",
            "`meta.dst_port::low >= 1024` does not hold, with meta.dst_port::low = 0x03ff",
        ),
        (
            "hdr.ipv4.protocol::mask != 0 -> hdr.ipv4.protocol::value == 6",
            "acl { } -> drop() priority 1",
            "acl { hdr.ipv4.protocol: 17 } -> drop() priority 1",
            "`hdr.ipv4.protocol::mask != 0 -> hdr.ipv4.protocol::value == 6` does not hold, with \
             hdr.ipv4.protocol::mask = 0xff, hdr.ipv4.protocol::value = 0x11",
        ),
        (
            "::priority < 100",
            "acl { } -> drop() priority 99",
            "acl { } -> drop() priority 100",
            "`::priority < 100` does not hold, with ::priority = 0x64",
        ),
    ] {
        let program = program(restriction, "true");
        check(&program, good, bad, &error(why));
    }
}

#[test]
fn arguments_that_break_the_restriction_of_an_action_are_refused_in_every_statement() {
    let mut program = program("true", "port != 511");
    let error = "the action `ingress.forward`: @action_restriction: `port != 511` does not hold, \
                 with port = 0x01ff (the action has this restriction at acl.p4:12:5)";
    let entry = |port: u32| {
        format!(
            "ipv4_lpm {{ hdr.ipv4.dst_addr: 10.0.0.0/8 }} -> forward({port}, 00:00:00:00:00:01)"
        )
    };
    check(&program, &entry(1), &entry(511), error);
    let default = |port: u32| format!("ipv4_lpm default -> forward({port}, 00:00:00:00:00:01)");
    check(&program, &default(1), &default(511), error);
    for (_, action) in program.actions.iter_mut() {
        if action.name == "ingress.next_hop" {
            action.annotations = vec![annotation("action_restriction", "port != 0")];
        }
    }
    let error = "the action `ingress.next_hop`: @action_restriction: `port != 0` does not hold, \
                 with port = 0x0 ()";
    check(
        &program,
        "next_hops member 1 -> next_hop(1)",
        "next_hops member 2 -> next_hop(0)",
        error,
    );
    check(
        &program,
        "ecmp { hdr.ipv4.dst_addr: 10.2.0.0/16; } -> { next_hop(1), next_hop(2) }",
        "ecmp { hdr.ipv4.dst_addr: 10.3.0.0/16; } -> { next_hop(1), next_hop(0) }",
        error,
    );
}

#[test]
fn a_restriction_that_is_no_constraint_refuses_the_entries_of_its_table_only() {
    let program = program("hdr.ipv4.none == 1", "true");
    check(
        &program,
        "macs { hdr.ethernet.dst_addr: 1 } -> drop()",
        "acl { } -> drop() priority 1",
        "the table `ingress.acl`: @entry_restriction: it is no constraint: `hdr.ipv4.none == 1`: \
         there is no `hdr.ipv4.none` (the table has this restriction at acl.p4:31:5)",
    );
}

#[test]
fn members_of_enums_and_errors_are_compared_by_name() {
    let mut program = program("true", "port == 'Up' || port == 'Down'");
    program.named_types.push(NamedType {
        name: "state_t".to_owned(),
        kind: NamedTypeKind::Enum(vec!["Down".to_owned(), "Up".to_owned(), "Lost".to_owned()]),
        annotations: Vec::new(),
    });
    let id = program.enums.push(ir::EnumTy {
        name: "state_t".to_owned(),
        members: vec!["Down".to_owned(), "Up".to_owned(), "Lost".to_owned()],
    });
    for (_, action) in program.actions.iter_mut() {
        if action.name == "ingress.forward" {
            action.params[0].ty = ir::ScalarTy::Enum(id);
            action.params[0].data_ty = DataTy::Named("state_t".to_owned());
        }
    }
    check(
        &program,
        "ipv4_lpm default -> forward(state_t.Up, 00:00:00:00:00:01)",
        "ipv4_lpm default -> forward(Lost, 00:00:00:00:00:01)",
        "the action `ingress.forward`: @action_restriction: `port == 'Up' || port == 'Down'` does \
         not hold, with port = 'Lost' (the action has this restriction at acl.p4:12:5)",
    );
}

#[test]
fn restrictions_in_structured_annotations_are_enforced() {
    let mut program = program("true", "true");
    for (_, table) in program.tables.iter_mut() {
        if table.name == "ingress.acl" {
            let text = |text: &str| AnnotationValue::String(text.to_owned());
            table.annotations[0].body =
                AnnotationBody::Expressions(vec![text("::priority > 1;"), text("true")]);
        }
    }
    check(
        &program,
        "acl { } -> drop() priority 2",
        "acl { } -> drop() priority 1",
        "the table `ingress.acl`: @entry_restriction: `::priority > 1` does not hold, with \
         ::priority = 0x01 (the table has this restriction at acl.p4:31:5)",
    );
}

#[test]
fn stf_applies_entries_that_break_a_restriction_and_names_it() {
    let program = program("::priority < 100", "port != 511");
    let broken = |line: &str| {
        let commands = stf::read(&program, "t.stf", line).unwrap_or_else(|e| panic!("{}", e[0]));
        commands[0].broken_restriction.clone()
    };
    assert_eq!(broken("add acl 99 drop()"), None);
    let table = "the table `ingress.acl`: @entry_restriction: `::priority < 100` does not hold, \
                 with ::priority = 0x64; the table has this restriction at acl.p4:31:5";
    assert_eq!(broken("add acl 100 drop() = 1").as_deref(), Some(table));
    let action = "the action `ingress.forward`: @action_restriction: `port != 511` does not hold, \
                  with port = 0x01ff; the action has this restriction at acl.p4:12:5";
    for line in [
        "setdefault ipv4_lpm forward(port:511, mac:1)",
        "add ipv4_lpm hdr.ipv4.dst_addr:1 forward(port:511, mac:1)",
    ] {
        assert_eq!(broken(line).as_deref(), Some(action), "{line}");
    }
    let errors = stf::read(&program, "t.stf", "\nentry acl { } -> drop() priority 100");
    let errors = errors.expect_err("an entry of the entries format is refused");
    assert_eq!((errors[0].line, errors[0].column), (2, 7));
    assert!(errors[0].message.contains("@entry_restriction"));
}

#[test]
fn a_controller_s_schema_leaves_restrictions_to_the_server_until_it_is_asked() {
    let mut schema = Schema::of(&program("true", "true"));
    let table = schema.find_table("acl").expect("acl");
    let keys = schema.tables[table].keys.clone();
    schema.tables[table].restriction = Restriction::of_entries("::priority < 100", &keys);
    let text = "acl { } -> drop() priority 99\nacl { } -> drop() priority 100\n";
    let file = schema.read("a.entries", text).expect("both are read");
    assert_eq!(file.broken_restriction(&schema, 0), None);
    let error = file.broken_restriction(&schema, 1).expect("the second");
    assert_eq!((error.line, error.hint), (2, None));
    assert!(Restriction::of_entries("no constraint", &keys).is_none());
}

//! Tests of the complete P4Info of small programs.

use crate::programs::*;
use bits::Value;
use ir::*;
use p4info::{P4Info, P4InfoError, P4InfoProblem, from_text, p4info, to_text};

/// Checks that the program's P4Info is `expected` plus v1model's package, which `expected` omits.
#[track_caller]
fn check(program: &Program, expected: &str) {
    let expected = format!("pkg_info {{ arch: \"v1model\" }}\n{expected}");
    let expected: P4Info = from_text(&expected).expect("the expectation is well formed");
    let found = p4info(program).expect("the program has a P4Info");
    assert_eq!(to_text(&found), to_text(&expected));
}

#[track_caller]
fn check_problem(program: &Program, object: &str, problem: P4InfoProblem) {
    let error = P4InfoError {
        object: object.into(),
        loc: None,
        problem,
    };
    assert_eq!(p4info(program), Err(vec![error]));
}

/// Returns a program with a table `ingress.t` and one action `NoAction`.
fn one_table() -> Program {
    let mut program = empty(Arch::V1model);
    let no_action = action(&mut program, "NoAction", vec![]);
    program
        .tables
        .push(table("ingress.t", vec![], &[no_action]));
    program
}

fn first_table(program: &mut Program) -> &mut Table {
    let id = program.tables.ids().next().expect("there is a table");
    &mut program.tables[id]
}

fn first_action(program: &mut Program) -> &mut Action {
    let id = program.actions.ids().next().expect("there is an action");
    &mut program.actions[id]
}

const NO_ACTION: &str =
    r#"actions { preamble { id: 21257015 name: "NoAction" alias: "NoAction" } } type_info {}"#;

#[test]
fn an_empty_program_has_a_package_only() {
    check(&empty(Arch::V1model), "");
    let psa = p4info(&empty(Arch::Psa)).expect("it has a P4Info");
    assert_eq!(psa.pkg_info.map(|package| package.arch), Some("psa".into()));
}

#[test]
fn a_table_has_its_keys_actions_and_properties() {
    let mut program = empty(Arch::V1model);
    let forward = action(
        &mut program,
        "ingress.forward",
        vec![param("port", DataTy::Bit(9)), param("now", DataTy::Bool)],
    );
    let no_action = action(&mut program, "NoAction", vec![]);
    let keys = vec![
        key("hdr.ipv4.dst", MatchKind::Lpm, DataTy::Bit(32)),
        key("hash", MatchKind::Selector, DataTy::Bit(16)),
        key("hdr.ipv4.src", MatchKind::Ternary, DataTy::Bit(32)),
        key("dport", MatchKind::Range, DataTy::Bit(16)),
        key("is_new", MatchKind::Optional, DataTy::Bool),
        key("vlan", MatchKind::Exact, DataTy::Int(12)),
    ];
    let mut routes = table("ingress.routes", keys, &[forward, no_action]);
    routes.default = ActionCall {
        action: 0,
        args: vec![Value::truncated(258, 9), Value::truncated(1, 1)],
    };
    routes.default_is_const = true;
    routes.actions[1].scope = ActionScope::DefaultOnly;
    routes.actions[1].annotations = vec![note("defaultonly", "")];
    routes.size = 4096;
    routes.idle_timeout = true;
    program.tables.push(routes);
    check(
        &program,
        r#"
        tables {
          preamble { id: 45698565 name: "ingress.routes" alias: "routes" }
          match_fields { id: 1 name: "hdr.ipv4.dst" bitwidth: 32 match_type: LPM }
          match_fields { id: 3 name: "hdr.ipv4.src" bitwidth: 32 match_type: TERNARY }
          match_fields { id: 4 name: "dport" bitwidth: 16 match_type: RANGE }
          match_fields { id: 5 name: "is_new" bitwidth: 1 match_type: OPTIONAL }
          match_fields { id: 6 name: "vlan" bitwidth: 12 match_type: EXACT }
          action_refs { id: 26512162 }
          action_refs { id: 21257015 scope: DEFAULT_ONLY annotations: "@defaultonly" }
          const_default_action_id: 26512162
          initial_default_action {
            action_id: 26512162
            arguments { param_id: 1 value: "\001\002" }
            arguments { param_id: 2 value: "\001" }
          }
          size: 4096
          idle_timeout_behavior: NOTIFY_CONTROL
        }
        actions {
          preamble { id: 26512162 name: "ingress.forward" alias: "forward" }
          params { id: 1 name: "port" bitwidth: 9 }
          params { id: 2 name: "now" bitwidth: 1 }
        }
        actions { preamble { id: 21257015 name: "NoAction" alias: "NoAction" } }
        type_info {}
        "#,
    );
}

#[test]
fn entries_of_the_program_are_told() {
    let mut program = one_table();
    first_table(&mut program).entries_are_const = true;
    let with = |flags: &str| {
        format!(
            r#"tables {{
              preamble {{ id: 34728461 name: "ingress.t" alias: "t" }}
              action_refs {{ id: 21257015 }}
              initial_default_action {{ action_id: 21257015 }}
              size: 1024
              {flags}
            }} {NO_ACTION}"#
        )
    };
    check(&program, &with("is_const_table: true"));
    first_table(&mut program).entries.push(Entry {
        keys: vec![],
        action: ActionCall {
            action: 0,
            args: vec![],
        },
        priority: None,
        is_const: true,
    });
    check(
        &program,
        &with("is_const_table: true has_initial_entries: true"),
    );
    first_table(&mut program).entries_are_const = false;
    check(&program, &with("has_initial_entries: true"));
}

#[test]
fn specialisations_of_an_action_are_one_action() {
    let mut program = one_table();
    let other = action(&mut program, "NoAction", vec![]);
    program.tables.push(table("egress.t", vec![], &[other]));
    action(&mut program, "ingress.never_listed", vec![]);
    check(
        &program,
        &format!(
            r#"
            tables {{
              preamble {{ id: 34728461 name: "ingress.t" alias: "ingress.t" }}
              action_refs {{ id: 21257015 }}
              initial_default_action {{ action_id: 21257015 }}
              size: 1024
            }}
            tables {{
              preamble {{ id: 41673848 name: "egress.t" alias: "egress.t" }}
              action_refs {{ id: 21257015 }}
              initial_default_action {{ action_id: 21257015 }}
              size: 1024
            }}
            {NO_ACTION}"#
        ),
    );
}

#[test]
fn annotations_become_docs_ids_scopes_and_texts() {
    let mut program = one_table();
    let structured = |name: &str, body| Annotation {
        name: name.into(),
        body,
    };
    first_table(&mut program).annotations = vec![
        note("name", "\"t\""),
        note("id", "0x1234"),
        note("brief", "\"Short.\""),
        note("description", "\"Long \\\"text\\\".\""),
        note("mode", "\"fair\""),
        note("plain", ""),
        structured(
            "list",
            AnnotationBody::Expressions(vec![
                AnnotationValue::Int("-5".into()),
                AnnotationValue::String("a".into()),
                AnnotationValue::Bool(false),
            ]),
        ),
        structured(
            "pairs",
            AnnotationBody::KeyValues(vec![("k".into(), AnnotationValue::Bool(true))]),
        ),
        structured("nothing", AnnotationBody::Expressions(vec![])),
    ];
    let listed = &mut first_table(&mut program).actions[0];
    listed.scope = ActionScope::TableOnly;
    listed.annotations = vec![note("tableonly", "")];
    first_action(&mut program).annotations = vec![note("id", "0x01000007")];
    check(
        &program,
        r#"
        tables {
          preamble {
            id: 0x02001234
            name: "ingress.t"
            alias: "t"
            annotations: "@mode(\"fair\")"
            annotations: "@plain"
            doc { brief: "Short." description: "Long \"text\"." }
            structured_annotations {
              name: "list"
              expression_list {
                expressions { int64_value: -5 }
                expressions { string_value: "a" }
                expressions { bool_value: false }
              }
            }
            structured_annotations {
              name: "pairs"
              kv_pair_list { kv_pairs { key: "k" value { bool_value: true } } }
            }
            structured_annotations { name: "nothing" }
          }
          action_refs { id: 0x01000007 scope: TABLE_ONLY annotations: "@tableonly" }
          initial_default_action { action_id: 0x01000007 }
          size: 1024
        }
        actions { preamble { id: 0x01000007 name: "NoAction" alias: "NoAction" } }
        type_info {}
        "#,
    );
}

#[test]
fn ids_of_fields_go_around_those_that_are_given() {
    let mut program = one_table();
    let given = |name: &str, id: &str| Key {
        annotations: vec![note("id", id)],
        ..key(name, MatchKind::Exact, DataTy::Bit(8))
    };
    first_table(&mut program).keys = vec![
        key("a", MatchKind::Exact, DataTy::Bit(8)),
        given("b", "3"),
        key("c", MatchKind::Exact, DataTy::Bit(8)),
        given("d", "100"),
        key("e", MatchKind::Exact, DataTy::Bit(8)),
    ];
    let found = p4info(&program).expect("it has a P4Info");
    let ids: Vec<u32> = found.tables[0].match_fields.iter().map(|f| f.id).collect();
    assert_eq!(ids, [1, 3, 2, 100, 4]);

    first_table(&mut program).keys[4] = given("e", "3");
    let problem = P4InfoProblem::IdTaken { id: 3 };
    check_problem(&program, "key e of table ingress.t", problem);
    first_table(&mut program).keys[4] = given("e", "0");
    check_problem(&program, "key e of table ingress.t", P4InfoProblem::IdZero);
}

#[test]
fn an_argument_has_the_id_of_its_parameter() {
    let mut program = one_table();
    first_action(&mut program).params = vec![ActionParam {
        annotations: vec![note("id", "9")],
        ..param("port", DataTy::Bit(9))
    }];
    first_table(&mut program).default.args = vec![Value::truncated(1, 9)];
    let found = p4info(&program).expect("it has a P4Info");
    assert_eq!(found.actions[0].params[0].id, 9);
    let call = found.tables[0].initial_default_action.as_ref();
    assert_eq!(call.map(|call| call.arguments[0].param_id), Some(9));
}

#[test]
fn wrong_ids_are_refused() {
    let mut program = one_table();
    first_table(&mut program).annotations = vec![note("id", "0x01000001")];
    let problem = P4InfoProblem::IdPrefix {
        id: 0x0100_0001,
        prefix: 2,
    };
    check_problem(&program, "table ingress.t", problem);

    first_table(&mut program).annotations = vec![note("id", "seven")];
    let problem = P4InfoProblem::Annotation {
        name: "id".into(),
        expected: "one positive number that is not too large",
    };
    check_problem(&program, "table ingress.t", problem);

    first_table(&mut program).annotations = vec![note("id", "7")];
    let mut second = table("ingress.u", vec![], &[ActionId::new(0)]);
    second.annotations = vec![note("id", "0x02000007")];
    program.tables.push(second);
    let problem = P4InfoProblem::IdTaken { id: 0x0200_0007 };
    check_problem(&program, "table ingress.u", problem);
}

#[test]
fn one_name_for_two_tables_is_refused() {
    let mut program = one_table();
    let twin = first_table(&mut program).clone();
    program.tables.push(twin);
    check_problem(&program, "table ingress.t", P4InfoProblem::NameTaken);
}

#[test]
fn hidden_objects_are_not_shown() {
    let mut program = one_table();
    first_table(&mut program).annotations = vec![note("hidden", "")];
    first_action(&mut program).annotations = vec![note("hidden", "")];
    check(&program, "type_info {}");
}

#[test]
fn a_table_does_not_refer_to_hidden_actions() {
    let mut program = one_table();
    first_action(&mut program).annotations = vec![note("hidden", "")];
    let made = p4info(&program).expect("the program has a P4Info");
    let shown: Vec<u32> = made
        .actions
        .iter()
        .flat_map(|action| &action.preamble)
        .map(|preamble| preamble.id)
        .collect();
    for table in &made.tables {
        let initial = table.initial_default_action.iter();
        let referred = table.action_refs.iter().map(|listed| listed.id);
        for id in referred.chain(initial.map(|call| call.action_id)) {
            assert!(shown.contains(&id), "{id:#x} in {shown:x?}");
        }
    }
    assert_eq!(made.tables.len(), 1);
}

#[test]
fn new_types_show_the_controllers_side() {
    let mut program = one_table();
    let translated = |uri: &str, controller| NamedTypeKind::NewType {
        underlying: DataTy::Bit(9),
        translation: Some(Translation {
            uri: uri.into(),
            controller,
        }),
    };
    let port = declare(
        &mut program,
        "Port",
        translated("u/Port", ControllerTy::Bits(32)),
    );
    let name = declare(
        &mut program,
        "Name",
        translated("u/Name", ControllerTy::String),
    );
    let plain = NamedTypeKind::NewType {
        underlying: DataTy::Named("Port".into()),
        translation: None,
    };
    let plain = declare(&mut program, "Plain", plain);
    let colour = declare(
        &mut program,
        "Colour",
        NamedTypeKind::Enum(vec!["RED".into(), "GREEN".into()]),
    );
    let ether = declare(
        &mut program,
        "Ether",
        NamedTypeKind::SerializableEnum {
            width: 16,
            signed: false,
            members: vec![("IPV4".into(), Value::truncated(0x0800, 16))],
        },
    );
    first_table(&mut program).keys = vec![
        key("p", MatchKind::Exact, port),
        key("n", MatchKind::Exact, name),
        key("q", MatchKind::Exact, plain),
        key("e", MatchKind::Exact, ether),
        key("x", MatchKind::Exact, DataTy::Error),
    ];
    first_action(&mut program).params = vec![param("c", colour)];
    check(
        &program,
        r#"
        tables {
          preamble { id: 34728461 name: "ingress.t" alias: "t" }
          match_fields { id: 1 name: "p" bitwidth: 32 match_type: EXACT type_name { name: "Port" } }
          match_fields { id: 2 name: "n" match_type: EXACT type_name { name: "Name" } }
          match_fields { id: 3 name: "q" bitwidth: 9 match_type: EXACT type_name { name: "Plain" } }
          match_fields { id: 4 name: "e" bitwidth: 16 match_type: EXACT }
          match_fields { id: 5 name: "x" match_type: EXACT }
          action_refs { id: 21257015 }
          initial_default_action { action_id: 21257015 }
          size: 1024
        }
        actions {
          preamble { id: 21257015 name: "NoAction" alias: "NoAction" }
          params { id: 1 name: "c" type_name { name: "Colour" } }
        }
        type_info {
          enums { key: "Colour" value { members { name: "RED" } members { name: "GREEN" } } }
          error { members: "NoError" members: "NoMatch" }
          serializable_enums {
            key: "Ether"
            value { underlying_type { bitwidth: 16 } members { name: "IPV4" value: "\010\000" } }
          }
          new_types {
            key: "Name"
            value { translated_type { uri: "u/Name" sdn_string {} } }
          }
          new_types {
            key: "Plain"
            value { original_type { bitstring { bit { bitwidth: 9 } } } }
          }
          new_types {
            key: "Port"
            value { translated_type { uri: "u/Port" sdn_bitwidth: 32 } }
          }
        }
        "#,
    );
}

#[test]
fn circles_of_types_and_unknown_types_end() {
    let mut program = one_table();
    let kind = |name: &str| NamedTypeKind::NewType {
        underlying: DataTy::Named(name.into()),
        translation: None,
    };
    let circle = declare(&mut program, "A", kind("B"));
    declare(&mut program, "B", kind("A"));
    first_table(&mut program).keys = vec![key("k", MatchKind::Exact, circle)];
    assert!(p4info(&program).is_ok());

    let unknown = DataTy::Named("C".into());
    first_table(&mut program).keys = vec![key("k", MatchKind::Exact, unknown)];
    let problem = P4InfoProblem::UnknownType { name: "C".into() };
    check_problem(&program, "type C", problem);
}

#[test]
fn the_package_takes_its_fields_from_annotations() {
    let mut program = empty(Arch::V1model);
    program.annotations = vec![
        note(
            "pkginfo",
            r#"name = "switch", version="2", arch="mine", mystery="x""#,
        ),
        note("pkginfo", r#"url="u""#),
        note("brief", "\"A switch\""),
        note("platform_property", "multicast_group_table_size = 16"),
        note("mine", "1 2"),
    ];
    let expected = r#"pkg_info {
        name: "switch" version: "2" arch: "v1model" url: "u" doc { brief: "A switch" }
        annotations: "@mine(1 2)"
        platform_properties { multicast_group_table_size: 16 }
    }"#;
    let expected: P4Info = from_text(expected).expect("the expectation is well formed");
    assert_eq!(p4info(&program), Ok(expected));

    program.annotations.push(note("pkginfo", r#"name="again""#));
    let problem = P4InfoProblem::Annotation {
        name: "pkginfo".into(),
        expected: "each key once, with a string in quotes",
    };
    check_problem(&program, "the package main", problem);
}

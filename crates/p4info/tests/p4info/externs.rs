//! Tests of the P4Info of externs, value sets, controller headers and the types that they refer to.

use crate::programs::*;
use bits::Value;
use ir::*;
use p4info::{P4Info, P4InfoProblem, from_text, p4info, to_text};

/// Checks that the program's P4Info, without package, tables and actions, is `expected`.
#[track_caller]
fn check(program: &Program, expected: &str) {
    let expected: P4Info = from_text(expected).expect("the expectation is well formed");
    let found = p4info(program).expect("the program has a P4Info");
    let found = P4Info {
        pkg_info: None,
        tables: vec![],
        actions: vec![],
        ..found
    };
    assert_eq!(to_text(&found), to_text(&expected));
}

fn new_type(program: &mut Program, name: &str) -> DataTy {
    let kind = NamedTypeKind::NewType {
        underlying: DataTy::Bit(9),
        translation: None,
    };
    declare(program, name, kind)
}

const PORT: &str =
    r#"new_types { key: "Port" value { original_type { bitstring { bit { bitwidth: 9 } } } } }"#;

#[test]
fn arrays_have_units_sizes_and_index_types() {
    let mut program = empty(Arch::Psa);
    let port = new_type(&mut program, "Port");
    let counter = ExternKind::Counter {
        unit: CounterUnit::Both,
        size: 512,
        index_ty: Some(port.clone()),
    };
    instance(&mut program, "MyIC.counter", counter, vec![]);
    let meter = |unit| ExternKind::Meter {
        unit,
        size: 7,
        index_ty: Some(DataTy::Bit(32)),
    };
    instance(&mut program, "MyIC.m1", meter(CounterUnit::Bytes), vec![]);
    let single = vec![note("single_rate_two_color", "")];
    instance(&mut program, "MyIC.m2", meter(CounterUnit::Packets), single);
    let register = ExternKind::Register {
        cell: vec![ScalarTy::Bit(9), ScalarTy::Bool],
        size: 16,
        initial: vec![Value::zero(9), Value::zero(1)],
        data_ty: DataTy::Tuple(vec![port, DataTy::Bool]),
        index_ty: None,
    };
    instance(&mut program, "MyIC.r", register, vec![]);
    instance(
        &mut program,
        "MyIC.sum",
        ExternKind::InternetChecksum,
        vec![],
    );
    check(
        &program,
        &format!(
            r#"
            counters {{
              preamble {{ id: 306209163 name: "MyIC.counter" alias: "counter" }}
              spec {{ unit: BOTH }}
              size: 512
              index_type_name {{ name: "Port" }}
            }}
            meters {{ preamble {{ id: 336658832 name: "MyIC.m1" alias: "m1" }} spec {{ unit: BYTES }} size: 7 }}
            meters {{
              preamble {{ id: 341322782 name: "MyIC.m2" alias: "m2" annotations: "@single_rate_two_color" }}
              spec {{ unit: PACKETS type: SINGLE_RATE_TWO_COLOR }}
              size: 7
            }}
            registers {{
              preamble {{ id: 379141828 name: "MyIC.r" alias: "r" }}
              type_spec {{ tuple {{ members {{ new_type {{ name: "Port" }} }} members {{ bool {{}} }} }} }}
              size: 16
            }}
            type_info {{ {PORT} }}
            "#
        ),
    );
}

#[test]
fn direct_resources_name_their_table_and_are_named_by_it() {
    let mut program = empty(Arch::V1model);
    let no_action = action(&mut program, "NoAction", vec![]);
    let unit = CounterUnit::Packets;
    let counter = instance(
        &mut program,
        "i.c",
        ExternKind::DirectCounter { unit },
        vec![],
    );
    let meter = instance(
        &mut program,
        "i.m",
        ExternKind::DirectMeter { unit },
        vec![],
    );
    // It is attached to no table, so a controller cannot refer to it.
    instance(
        &mut program,
        "i.unused",
        ExternKind::DirectCounter { unit },
        vec![],
    );
    let mut made = table("i.t", vec![], &[no_action]);
    made.direct_counter = Some(counter);
    made.direct_meter = Some(meter);
    program.tables.push(made);
    let found = p4info(&program).expect("it has a P4Info");
    let id = |preamble: &Option<p4info::p4::config::v1::Preamble>| preamble.as_ref().map(|p| p.id);
    let [counter] = found.direct_counters.as_slice() else {
        panic!("one direct counter is attached");
    };
    let [meter] = found.direct_meters.as_slice() else {
        panic!("one direct meter is attached");
    };
    assert_eq!(Some(counter.direct_table_id), id(&found.tables[0].preamble));
    assert_eq!(counter.direct_table_id, meter.direct_table_id);
    let ids: Vec<_> = [&counter.preamble, &meter.preamble]
        .into_iter()
        .flat_map(id)
        .collect();
    assert_eq!(found.tables[0].direct_resource_ids, ids);
    assert_eq!([ids[0] >> 24, ids[1] >> 24], [0x13, 0x15]);
}

#[test]
fn profiles_and_selectors_know_their_tables() {
    let mut program = empty(Arch::Psa);
    let no_action = action(&mut program, "NoAction", vec![]);
    let profile = ExternKind::ActionProfile { size: 1024 };
    let profile = instance(&mut program, "i.profile", profile, vec![]);
    let selector = ExternKind::ActionSelector {
        size: 128,
        width: 14,
        algorithm: HashAlgorithm::Crc16,
    };
    let notes = vec![
        note("max_group_size", "0x20"),
        note("selector_size_semantics", "\"sum_of_members\""),
        note("max_member_weight", "4096"),
        note("weights_disallowed", ""),
        note("mode", "\"fair\""),
    ];
    let selector = instance(&mut program, "i.selector", selector, notes);
    for (name, implementation) in [("i.z", profile), ("i.s", selector), ("i.a", profile)] {
        let made = table(name, vec![], &[no_action]);
        program.tables.push(Table {
            implementation: Some(implementation),
            ..made
        });
    }
    let found = p4info(&program).expect("it has a P4Info");
    let ids: Vec<u32> = found
        .tables
        .iter()
        .flat_map(|t| t.preamble.as_ref())
        .map(|p| p.id)
        .collect();
    let [z, s, a] = ids[..] else {
        panic!("three tables");
    };
    let implementations: Vec<u32> = found.tables.iter().map(|t| t.implementation_id).collect();
    let (profile, selector) = (implementations[0], implementations[1]);
    check(
        &program,
        &format!(
            r#"
            action_profiles {{
              preamble {{ id: {profile} name: "i.profile" alias: "profile" }}
              table_ids: {a}
              table_ids: {z}
              size: 1024
            }}
            action_profiles {{
              preamble {{ id: {selector} name: "i.selector" alias: "selector" annotations: "@mode(\"fair\")" }}
              table_ids: {s}
              with_selector: true
              size: 128
              max_group_size: 32
              sum_of_members {{ max_member_weight: 4096 }}
              weights_disallowed: true
            }}
            type_info {{}}
            "#
        ),
    );
}

#[test]
fn selectors_know_two_size_semantics_only() {
    let mut program = empty(Arch::Psa);
    let selector = ExternKind::ActionSelector {
        size: 128,
        width: 14,
        algorithm: HashAlgorithm::Crc16,
    };
    let notes = vec![note("selector_size_semantics", "\"sum_of_everything\"")];
    instance(&mut program, "i.selector", selector, notes);
    let errors = p4info(&program).expect_err("it is refused");
    let expected = P4InfoProblem::Annotation {
        name: "selector_size_semantics".into(),
        expected: "\"sum_of_weights\" or \"sum_of_members\"",
    };
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].problem, expected);
    let text = errors[0].to_string();
    assert!(
        text.contains("action profile i.selector") && text.contains("sum_of_members"),
        "{text}"
    );
}

#[test]
fn digests_declare_all_that_they_carry() {
    let mut program = empty(Arch::V1model);
    let port = new_type(&mut program, "Port");
    let header = vec![
        ("a".into(), DataTy::Bit(8)),
        ("b".into(), port.clone()),
        ("v".into(), DataTy::Varbit(32)),
        ("i".into(), DataTy::Int(4)),
    ];
    declare(&mut program, "h_t", NamedTypeKind::Header(header));
    let union = NamedTypeKind::HeaderUnion(vec![("one".into(), "h_t".into())]);
    let union = declare(&mut program, "u_t", union);
    let inner = NamedTypeKind::Struct(vec![("port".into(), port)]);
    let inner = declare(&mut program, "inner_t", inner);
    let members = vec![
        ("inner".into(), inner),
        ("stack".into(), DataTy::Stack("h_t".into(), 3)),
        ("unions".into(), DataTy::Stack("u_t".into(), 2)),
        ("union".into(), union),
    ];
    let data_ty = declare(&mut program, "digest_t", NamedTypeKind::Struct(members));
    let digest = ExternKind::Digest {
        fields: vec![],
        data_ty,
    };
    instance(&mut program, "digest_t", digest, vec![]);
    check(
        &program,
        &format!(
            r#"
            digests {{
              preamble {{ id: 389049336 name: "digest_t" alias: "digest_t" }}
              type_spec {{ struct {{ name: "digest_t" }} }}
            }}
            type_info {{
              structs {{
                key: "digest_t"
                value {{
                  members {{ name: "inner" type_spec {{ struct {{ name: "inner_t" }} }} }}
                  members {{ name: "stack" type_spec {{ header_stack {{ header {{ name: "h_t" }} size: 3 }} }} }}
                  members {{ name: "unions" type_spec {{ header_union_stack {{ header_union {{ name: "u_t" }} size: 2 }} }} }}
                  members {{ name: "union" type_spec {{ header_union {{ name: "u_t" }} }} }}
                }}
              }}
              structs {{
                key: "inner_t"
                value {{ members {{ name: "port" type_spec {{ new_type {{ name: "Port" }} }} }} }}
              }}
              headers {{
                key: "h_t"
                value {{
                  members {{ name: "a" type_spec {{ bit {{ bitwidth: 8 }} }} }}
                  members {{ name: "b" type_spec {{ bit {{ bitwidth: 9 }} }} }}
                  members {{ name: "v" type_spec {{ varbit {{ max_bitwidth: 32 }} }} }}
                  members {{ name: "i" type_spec {{ int {{ bitwidth: 4 }} }} }}
                }}
              }}
              header_unions {{
                key: "u_t"
                value {{ members {{ name: "one" header {{ name: "h_t" }} }} }}
              }}
              {PORT}
            }}
            "#
        ),
    );
}

#[test]
fn value_sets_have_a_match_for_each_field() {
    let mut program = empty(Arch::V1model);
    let port = new_type(&mut program, "Port");
    let field = |name: &str, width, match_kind, annotations| ValueSetField {
        name: name.into(),
        ty: ScalarTy::Bit(width),
        match_kind,
        annotations,
    };
    let members = vec![("port".into(), port), ("kind".into(), DataTy::Bit(16))];
    let data_ty = declare(&mut program, "match_t", NamedTypeKind::Struct(members));
    let ternary = vec![note("match", "ternary"), note("id", "5"), note("mine", "")];
    program.value_sets.push(ValueSet {
        name: "MyParser.pvs".into(),
        fields: vec![
            field("port", 9, MatchKind::Exact, vec![]),
            field("kind", 16, MatchKind::Ternary, ternary),
        ],
        size: 4,
        data_ty,
        annotations: vec![],
    });
    program.value_sets.push(ValueSet {
        name: "MyParser.one".into(),
        fields: vec![field("", 8, MatchKind::Exact, vec![])],
        size: 2,
        data_ty: DataTy::Bit(8),
        annotations: vec![note("id", "1")],
    });
    check(
        &program,
        &format!(
            r#"
            value_sets {{
              preamble {{ id: 56033750 name: "MyParser.pvs" alias: "pvs" }}
              match {{ id: 1 name: "port" bitwidth: 9 match_type: EXACT type_name {{ name: "Port" }} }}
              match {{ id: 5 name: "kind" bitwidth: 16 match_type: TERNARY annotations: "@mine" }}
              size: 4
            }}
            value_sets {{
              preamble {{ id: 0x03000001 name: "MyParser.one" alias: "one" }}
              match {{ id: 1 bitwidth: 8 match_type: EXACT }}
              size: 2
            }}
            type_info {{ {PORT} }}
            "#
        ),
    );
    let first = program
        .value_sets
        .ids()
        .next()
        .expect("there is a value set");
    program.value_sets[first].data_ty = DataTy::Tuple(vec![DataTy::Bit(9), DataTy::Bit(16)]);
    let errors = p4info(&program).expect_err("a tuple is refused");
    assert_eq!(errors[0].problem, P4InfoProblem::TupleValueSet);
}

#[test]
fn controller_headers_are_named_by_their_annotation() {
    let mut program = empty(Arch::V1model);
    let port = new_type(&mut program, "Port");
    let field = |name: &str, data_ty, annotations| HeaderField {
        name: name.into(),
        ty: ScalarTy::Bit(9),
        data_ty,
        annotations,
    };
    program.header_types.push(HeaderType {
        name: "packet_in_t".into(),
        fields: vec![
            field("ingress_port", port, vec![]),
            field("pad", DataTy::Bit(7), vec![note("hidden", "")]),
            field("reason", DataTy::Bit(8), vec![note("mine", "")]),
        ],
        annotations: vec![note("controller_header", "\"packet_in\"")],
    });
    program.header_types.push(HeaderType {
        name: "ethernet_t".into(),
        fields: vec![field("dst", DataTy::Bit(48), vec![])],
        annotations: vec![],
    });
    check(
        &program,
        &format!(
            r#"
            controller_packet_metadata {{
              preamble {{
                id: 80671331
                name: "packet_in"
                alias: "packet_in"
                annotations: "@controller_header(\"packet_in\")"
              }}
              metadata {{ id: 1 name: "ingress_port" bitwidth: 9 type_name {{ name: "Port" }} }}
              metadata {{ id: 3 name: "reason" bitwidth: 8 annotations: "@mine" }}
            }}
            type_info {{ {PORT} }}
            "#
        ),
    );
}

//! Tests of the meaning of texts, and of error messages, with many lines for one small program.

use bits::Value;
use entries::stf::{self, CommandKind, Mismatch, Pattern};
use entries::{EntryAction, Update, read};
use ir::*;

fn field(program: &mut Program, name: &str, width: u32) -> Expr {
    let id = program.fields.push(Field {
        name: name.into(),
        ty: ScalarTy::Bit(width),
    });
    Expr::Read(id.into())
}

fn key(name: &str, expr: Expr, match_kind: MatchKind) -> Key {
    let width = 32;
    Key {
        name: name.into(),
        expr,
        match_kind,
        data_ty: DataTy::Bit(width),
        annotations: vec![],
    }
}

fn action(program: &mut Program, name: &str, params: &[(&str, u32)]) -> TableAction {
    let params = params.iter().map(|(name, width)| ActionParam {
        name: (*name).into(),
        ty: ScalarTy::Bit(*width),
        data_ty: DataTy::Bit(*width),
        annotations: vec![],
    });
    let action = program.actions.push(Action {
        name: name.into(),
        control_plane_name: name.into(),
        params: params.collect(),
        body: vec![],
        annotations: vec![],
        loc: None,
    });
    TableAction {
        action,
        scope: ActionScope::TableAndDefault,
        annotations: vec![],
    }
}

/// A program with a routing table (LPM), an access list (ternary, range, optional) and an exact
/// table.
fn program() -> Program {
    let mut program = Program {
        name: "t".into(),
        arch: Arch::V1model,
        files: vec![],
        errors: vec!["NoError".into()],
        enums: Default::default(),
        header_types: Default::default(),
        fields: Default::default(),
        headers: Default::default(),
        stacks: Default::default(),
        parsers: Default::default(),
        controls: Default::default(),
        actions: Default::default(),
        tables: Default::default(),
        value_sets: Default::default(),
        externs: Default::default(),
        pipeline: Default::default(),
        named_types: vec![],
        annotations: vec![],
        constants: vec![],
    };
    let dst = field(&mut program, "hdr.ipv4.dst", 32);
    let src = field(&mut program, "hdr.ipv4.src", 32);
    let port = field(&mut program, "hdr.tcp.dport", 16);
    let mac = field(&mut program, "hdr.eth.dst", 48);
    let forward = action(&mut program, "ingress.forward", &[("port", 9), ("mac", 48)]);
    let drop = action(&mut program, "ingress.drop", &[]);
    let route = vec![key("hdr.ipv4.dst", dst.clone(), MatchKind::Lpm)];
    let acl = vec![
        key("hdr.ipv4.src", src, MatchKind::Ternary),
        key("hdr.tcp.dport", port, MatchKind::Range),
        key("hdr.ipv4.dst", dst, MatchKind::Optional),
    ];
    let macs = vec![key("hdr.eth.dst", mac, MatchKind::Exact)];
    for (name, keys) in [
        ("ingress.route", route),
        ("ingress.acl", acl),
        ("ingress.macs", macs),
    ] {
        program.tables.push(Table {
            name: name.into(),
            keys,
            actions: vec![forward.clone(), drop.clone()],
            default: ActionCall {
                action: 1,
                args: vec![],
            },
            default_is_const: false,
            entries: vec![],
            entries_are_const: false,
            largest_priority_wins: true,
            size: 1024,
            size_is_declared: false,
            implementation: None,
            direct_counter: None,
            direct_meter: None,
            idle_timeout: true,
            add_on_miss: false,
            mirror: None,
            annotations: vec![],
            loc: None,
        });
    }
    let kind = ExternKind::Register {
        cell: vec![ScalarTy::Bit(16)],
        size: 8,
        initial: vec![Value::zero(16)],
        data_ty: DataTy::Bit(16),
        index_ty: None,
    };
    program.externs.push(Extern {
        name: "ingress.seen".into(),
        kind,
        annotations: vec![],
        loc: None,
    });
    let kind = ExternKind::Digest {
        fields: vec![ScalarTy::Bit(48), ScalarTy::Bit(9)],
        data_ty: DataTy::Named("learned".into()),
    };
    program.externs.push(Extern {
        name: "learned".into(),
        kind,
        annotations: vec![],
        loc: None,
    });
    program
}

fn v(number: u128, width: u32) -> Value {
    Value::truncated(number, width)
}

fn updates(text: &str) -> Vec<Update> {
    match read(&program(), "t.entries", text) {
        Ok(file) => file.updates().to_vec(),
        Err(errors) => panic!("{}", errors[0]),
    }
}

/// Returns the first error's line, column, message and hint.
fn error(text: &str) -> String {
    let errors = read(&program(), "t.entries", text).expect_err("an error is expected");
    let first = &errors[0];
    let hint = first
        .hint
        .as_deref()
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    format!("{}:{} {}{hint}", first.line, first.column, first.message)
}

#[test]
fn a_route_takes_addresses_and_prefixes() {
    let text = "# routes\nroute { hdr.ipv4.dst: 10.0.0.0/8; } -> forward(port: 3, mac: 00:aa:bb:cc:dd:ee)\n";
    let [Update::Insert(_, entry)] = &updates(text)[..] else {
        panic!("one entry is expected")
    };
    assert_eq!(entry.keys, [KeyMatch::Lpm(v(0x0a00_0000, 32), 8)]);
    assert_eq!(entry.priority, None);
    let args = vec![v(3, 9), v(0x00aa_bbcc_ddee, 48)];
    assert_eq!(
        entry.action,
        EntryAction::Call(ActionCall { action: 0, args })
    );
}

#[test]
fn keys_left_out_match_all_and_options_follow_the_action() {
    let text = "acl {\n  dport: 80..443;  # web\n  src: 10.1.0.0 &&& 0xffff0000\n} -> drop() priority 7 idle_timeout 5s;";
    let [Update::Insert(_, entry)] = &updates(text)[..] else {
        panic!("one entry is expected")
    };
    let src = KeyMatch::Ternary(v(0x0a01_0000, 32), v(0xffff_0000, 32));
    assert_eq!(
        entry.keys,
        [src, KeyMatch::Range(v(80, 16), v(443, 16)), KeyMatch::Any]
    );
    assert_eq!(
        (entry.priority, entry.idle_timeout_ns),
        (Some(7), Some(5_000_000_000))
    );
}

#[test]
fn keys_named_by_expressions_are_written_as_they_are_named() {
    let mut program = program();
    let table = program.tables.ids().last().unwrap();
    let byte = field(&mut program, "byte", 8);
    let names = [
        "h.d.b",
        "h.d.b[15:8]",
        "h.e.d & 0xff",
        "h.c ? h.x : h.y",
        "h.e.isValid()",
    ];
    program.tables[table].keys = names
        .map(|name| key(name, byte.clone(), MatchKind::Exact))
        .to_vec();
    let expected: Vec<KeyMatch> = (1..=5).map(|n| KeyMatch::Exact(v(n, 8))).collect();
    for slice in ["h.d.b[15:8]", "d.b[15:8]"] {
        let text = format!(
            "macs {{ {slice} : 2; h.d.b: 1; h.e.d & 0xff: 3, h.c ? h.x : h.y: 4; h.e.isValid(): 5 }} -> drop()"
        );
        let file = read(&program, "t", &text).unwrap_or_else(|errors| panic!("{}", errors[0]));
        match file.updates() {
            [Update::Insert(_, entry)] => assert_eq!(entry.keys, expected),
            other => panic!("one entry is expected: {other:?}"),
        }
    }
    program.tables[table]
        .keys
        .retain(|key| !key.name.contains(' '));
    let text = "add macs h.d.b[15:8]:2 h.e.isValid():5 h.d.b:1 drop()";
    match &stf::read(&program, "t", text).unwrap_or_else(|errors| panic!("{}", errors[0]))[0].kind {
        CommandKind::Update(Update::Insert(_, entry)) => {
            assert_eq!(entry.keys, [&expected[..2], &expected[4..]].concat());
        }
        other => panic!("an entry is expected: {other:?}"),
    }
}

#[test]
fn ports_groups_and_sessions_are_those_of_the_architecture() {
    let told = |arch: Arch, text: &str| -> Option<String> {
        let program = Program { arch, ..program() };
        let is_stf = ["packet", "expect", "mc_", "mirroring_"];
        let errors = match is_stf.iter().any(|command| text.starts_with(command)) {
            true => stf::read(&program, "t", text).err()?,
            false => read(&program, "t", text).err()?,
        };
        Some(format!("{} {}", errors[0].column, errors[0].message))
    };
    let v1model = "there is no port 511: v1model's are 0 to 510";
    let psa = |port: u32| {
        format!("there is no port {port}: PSA's are 0 to 4294967289, and 4294967293 for the CPU")
    };
    let wide = |what: &str| format!("65536 is too large for {what}: v1model's have 16 bits");
    let twice = "port 1 instance 2 is given twice";
    let none = "a multicast group's number is at least 1";
    let (group, session) = ("a multicast group's number", "a clone session's number");
    for (arch, text, expected) in [
        (Arch::V1model, "multicast 65535 { port 510, port 0 }", None),
        (
            Arch::V1model,
            "multicast 1 { port 511 }",
            Some(format!("20 {v1model}")),
        ),
        (
            Arch::V1model,
            "clone 1 { port 511 }",
            Some(format!("16 {v1model}")),
        ),
        (Arch::V1model, "packet 511 00", Some(format!("8 {v1model}"))),
        (Arch::V1model, "expect 511", Some(format!("8 {v1model}"))),
        (
            Arch::V1model,
            "multicast 65536 { }",
            Some(format!("11 {}", wide(group))),
        ),
        (
            Arch::V1model,
            "clone 65536 { }",
            Some(format!("7 {}", wide(session))),
        ),
        (
            Arch::Psa,
            "multicast 65536 { port 4294967289, port 4294967290 }",
            None,
        ),
        (
            Arch::Psa,
            "multicast 1 { port 4294967291 }",
            Some(format!("20 {}", psa(0xffff_fffb))),
        ),
        (Arch::Psa, "expect 4294967293", None),
        (
            Arch::Psa,
            "expect 4294967290",
            Some(format!("8 {}", psa(0xffff_fffa))),
        ),
        (Arch::Pna, "multicast 4294967295 { port 4294967295 }", None),
        (
            Arch::Pna,
            "multicast 1 { port 1 instance 2, port 1, port 2 instance 2, port 1 instance 2 }",
            Some(format!("61 {twice}")),
        ),
        (
            Arch::Pna,
            "multicast 0 { port 1 }",
            Some(format!("11 {none}")),
        ),
        (Arch::V1model, "mc_mgrp_create 65535", None),
        (
            Arch::V1model,
            "mc_mgrp_create 65536",
            Some(format!("16 {}", wide(group))),
        ),
        (Arch::Psa, "mc_mgrp_create 65536", None),
        (Arch::Psa, "mc_mgrp_create 0", Some(format!("16 {none}"))),
        (Arch::V1model, "mc_node_create 65535 0 510", None),
        (
            Arch::V1model,
            "mc_node_create 65536 0",
            Some(format!("16 {}", wide("an instance"))),
        ),
        (
            Arch::V1model,
            "mc_node_create 7 7 511",
            Some(format!("20 {v1model}")),
        ),
        (
            Arch::V1model,
            "mc_node_create 7 7 8 7",
            Some("22 port 7 is given twice".to_owned()),
        ),
        (
            Arch::Psa,
            "mc_node_update 99999 1 4294967290 4294967291",
            Some(format!("35 {}", psa(0xffff_fffb))),
        ),
        (
            Arch::V1model,
            "mc_node_associate 65536 70000",
            Some(format!("19 {}", wide(group))),
        ),
        (Arch::V1model, "mc_node_dissociate 1 70000", None),
        (Arch::V1model, "mirroring_add 1 510", None),
        (
            Arch::V1model,
            "mirroring_add 0 510",
            Some("15 a clone session's number is at least 1".to_owned()),
        ),
        (
            Arch::V1model,
            "mirroring_add 65536 1",
            Some(format!("15 {}", wide(session))),
        ),
        (
            Arch::V1model,
            "mirroring_add 5 511",
            Some(format!("17 {v1model}")),
        ),
        (
            Arch::V1model,
            "mirroring_add_mc 5 0",
            Some(format!("20 {none}")),
        ),
        (
            Arch::V1model,
            "mirroring_delete 65536",
            Some(format!("18 {}", wide(session))),
        ),
    ] {
        assert_eq!(told(arch, text), expected, "{text}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let text = "\u{feff}route default -> drop()";
    assert_eq!(updates(text), updates(&text[3..]));
    assert_eq!(command("\u{feff}wait"), CommandKind::Wait);
    let wrong = error("\u{feff}route default = drop()");
    assert!(wrong.starts_with("1:15 "), "{wrong}");
}

#[test]
fn a_brace_that_is_missing_is_named_where_the_arrow_stands() {
    for (text, place) in [
        ("route { dst: 10.0.0.0/8; -> drop()\n", "1:26"),
        ("route {\n  dst: 10.0.0.0/8\n  -> drop()\n", "3:3"),
        ("macs { -> drop()", "1:8"),
    ] {
        assert_eq!(error(text), format!("{place} `}}` is missing"), "{text}");
    }
}

#[test]
fn errors_say_what_has_no_such_key_action_or_parameter() {
    for (text, expected) in [
        (
            "route { nothing: 1 } -> drop()",
            "1:9 the table `ingress.route` has no key `nothing` (there are: hdr.ipv4.dst)",
        ),
        (
            "route { dst: 10.0.0.0/8 } -> forward(prt: 1)",
            "1:38 the action `ingress.forward` has no parameter `prt` (did you mean `port`?)",
        ),
        (
            "route { dst: 10.0.0.0/8 } -> drop(port: 1)",
            "1:35 the action `ingress.drop` has no parameter `port` (it has no parameter at all)",
        ),
        (
            "route default -> nothing()",
            "1:18 the table `ingress.route` has no action `nothing` (there are: ingress.forward, ingress.drop)",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn what_the_program_says_is_const_is_not_changed() {
    let mut program = program();
    let table = program.tables.ids().next().unwrap();
    program.tables[table].entries_are_const = true;
    program.tables[table].default_is_const = true;
    let told = |errors: Vec<entries::EntryError>| {
        let told = errors.iter();
        told.map(|e| format!("{}:{} {}", e.line, e.column, e.message))
            .collect::<Vec<_>>()
    };
    let entries = "the table `ingress.route` takes no entries: its entries are const";
    let default = "the default action of the table `ingress.route` is const";
    let text = "route { dst: 10.0.0.0/8 } -> drop()\nroute default -> drop()\nroute default -> forward(1, 2)\n";
    assert_eq!(
        told(read(&program, "t", text).unwrap_err()),
        [format!("1:1 {entries}"), format!("3:18 {default}")]
    );
    let text = "add route dst:1 drop()\nsetdefault route drop()\nsetdefault route forward(1, 2)";
    assert_eq!(
        told(stf::read(&program, "t", text).unwrap_err()),
        [format!("1:5 {entries}"), format!("3:18 {default}")]
    );
}

#[test]
fn defaults_groups_registers_and_sessions_are_read() {
    let text = "route default -> forward(1, 0x10)\nmulticast 5 { port 1 instance 0, port 2 instance 1 }\nclone 3 { port 4 } truncate 128\nregister seen[3] = 0x10; register seen = 7";
    assert_eq!(updates(text).len(), 5);
}

#[test]
fn errors_name_the_place_and_the_mend() {
    let cases = [
        (
            "rout { } -> drop()",
            "1:1 there is no table `rout` (did you mean `ingress.route`?)",
        ),
        (
            "\nmacs { hdr.eth.dst: 1; } -> dropp()",
            "2:29 the table `ingress.macs` has no action `dropp` (did you mean `ingress.drop`?)",
        ),
        (
            "macs { dst: 0x1000000000000; } -> drop()",
            "1:13 `0x1000000000000` does not fit into 48 bits",
        ),
        (
            "route { dst: 10.0.1.300/32 } -> drop()",
            "1:14 `10.0.1.300` is no value of 32 bits (write a number (10, 0x0a, 0b1010), an address (10.0.0.1, 00:11:22:33:44:55, fe80::1), true, false or a member of an enum)",
        ),
        (
            "macs { } -> drop()",
            "1:6 the exact key `hdr.eth.dst` is missing (add `hdr.eth.dst: VALUE;`)",
        ),
        (
            "route { dst: 10.0.0.1/8 } -> drop()",
            "1:14 10.0.0.1/8 has bits set behind its prefix (write 10.0.0.0/8)",
        ),
        (
            "route { dst: 0xa000001/8 } -> drop()",
            "1:14 0xa000001/8 has bits set behind its prefix (write 0xa000000/8)",
        ),
        (
            "route { dst: 257/24 } -> drop()",
            "1:14 257/24 has bits set behind its prefix (write 256/24)",
        ),
        (
            "acl { src: 10.0.1.1 &&& 255.255.0.0 } -> drop() priority 1",
            "1:12 the value 10.0.1.1 has bits outside its mask 255.255.0.0, so nothing could match it (write 10.0.0.0 &&& 255.255.0.0)",
        ),
        (
            "ruote { } -> drop()",
            "1:1 there is no table `ruote` (did you mean `ingress.route`?)",
        ),
        (
            "route { dst: 10.0.0.0/33 } -> drop()",
            "1:23 a prefix length from 0 to 32 is wanted here",
        ),
        (
            "acl { dport: 9..3 } -> drop() priority 1",
            "1:14 the range 9..3 is empty: its low end is above its high end",
        ),
        (
            "route { dst: 00:11:22:33:44:55 } -> drop()",
            "1:14 a MAC address has 48 bits, but a value of 32 bits is wanted",
        ),
        (
            "route { dst: 10.0.0.0/8 } -> forward(port: 1)",
            "1:30 the action `ingress.forward` also needs a value for mac (write `ingress.forward(port: ..., mac: ...)`)",
        ),
        ("route { dst: 10.0.0.0/8 -> drop()", "1:25 `}` is missing"),
        (
            "route { dst: 10.0.0.0/8 } -> forward(port: 1 mac: 1)",
            "1:46 `,` is missing before `mac` (values are separated by `,`, keys also by `;`; a name is followed by `:`)",
        ),
        (
            "route { dst: 10.0.0.0/8 } -> forward(1 00:00:00:00:00:01)",
            "1:40 `,` is missing before `00:00:00:00:00:01` (values are separated by `,`, keys also by `;`; a name is followed by `:`)",
        ),
        (
            "acl { src: 10.0.0.0/8 dport: 80..90 } -> drop() priority 1",
            "1:23 `,` is missing before `dport` (values are separated by `,`, keys also by `;`; a name is followed by `:`)",
        ),
        (
            "acl { src: 10.0.0.0 &&& 255.0.0.0 dport: 80 .. 90 } -> drop() priority 1",
            "1:35 `,` is missing before `dport` (values are separated by `,`, keys also by `;`; a name is followed by `:`)",
        ),
        (
            "register seen[8] = 1",
            "1:15 the index 8 is outside: there are 8 cells",
        ),
    ];
    for (text, expected) in cases {
        let got = error(text);
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn a_short_name_is_near_to_no_other() {
    let tables = "there is no table `ac` (there are: ";
    assert!(
        error("ac { } -> drop()").contains(tables),
        "{}",
        error("ac { } -> drop()")
    );
    let errors = stf::read(&program(), "t", "ad x\npakcet 0 00\n").expect_err("no commands");
    let hints = errors
        .iter()
        .map(|error| error.hint.as_deref().unwrap_or_default());
    let hints: Vec<&str> = hints.collect();
    assert!(hints[0].starts_with("there are: "), "{hints:?}");
    assert_eq!(hints[1], "did you mean `packet`?");
}

#[test]
fn a_long_line_is_shown_around_the_place() {
    let ports: Vec<String> = (0..200).map(|port| format!("port {port}")).collect();
    let line = format!("multicast 1 {{ {}, port x, port 7 }}", ports.join(", "));
    let errors = read(&program(), "t", &line).expect_err("x is no number");
    let shown = errors[0].to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let (text, marks) = (lines[2], lines[3]);
    assert!(text.starts_with("1 | ...") && text.len() < 180, "{shown}");
    let at = marks.find('^').expect("the place is marked");
    assert!(text[at..].starts_with('x'), "{shown}");
}

#[test]
fn queues_and_parameters_of_hashes_are_read_and_written() {
    let program = program();
    let schema = entries::Schema::of(&program);
    let statements = [
        "queue port 1",
        "queue port 1 rate 100 bits 5000000000 depth 64",
        "hash crc16 polynomial 0x1021 initial 0xffff final_xor 0x0 reflect_in false reflect_out true",
        "hash crc32 initial 0xffffffff",
        "hash toeplitz 0x6d5a56da255b0ec2",
    ];
    for (update, statement) in updates(&statements.join("\n")).iter().zip(statements) {
        assert_eq!(schema.statement(update), statement);
    }
    for (text, word) in [
        ("queue port 511", "511"),
        ("queue port 1 rate 0", "at least 1"),
        ("queue port 1 depth 0", "at least 1"),
        ("queue port 1 depth 4294967295", "31 bits"),
        ("hash crc16", "polynomial"),
        ("hash crc16 polynomial 0x11021", "16 bits"),
        ("hash crc32 reflect_in 1", "true"),
        ("hash toeplitz 0x123456", "4, 8, 12"),
        ("hash toeplitz 0x1234567g", "4, 8, 12"),
    ] {
        let error = error(text);
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn numbers_are_those_that_p4runtime_takes() {
    for (text, word) in [
        ("clone 0 { port 1 }", "at least 1"),
        ("clone 1 { port 1 } truncate 0", "at least 1"),
        ("clone 1 { port 1 } truncate 2147483648", "31 bits"),
        ("clone 1 { port 1 } class 256", "8 bits"),
        ("multicast 1 { port 1 instance 65536 }", "16 bits"),
    ] {
        let error = error(text);
        assert!(error.contains(word), "{text}: {error}");
    }
    updates("clone 1 { port 1 instance 65535 } truncate 2147483647 class 255");
}

#[test]
fn each_update_knows_its_statement() {
    let text = "# two\nmulticast 1 { port 1 };  multicast 2 {\n  port 2\n}\nmulticast 3 { port 3 }";
    let program = program();
    let file = read(&program, "t.entries", text).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let place = |update: usize| {
        let error = file.error(update, "no room");
        (error.line, error.column, error.length)
    };
    assert_eq!(
        [place(0), place(1), place(2)],
        [(2, 1, 22), (2, 26, 13), (5, 1, 22)]
    );
    assert_eq!(file.line(2), 5);
    assert_eq!(
        file.error(1, "no room").to_string(),
        "t.entries:2:26: error: no room\n  |\n2 | multicast 1 { port 1 };  multicast 2 {\n  |                          ^^^^^^^^^^^^^"
    );
}

#[test]
fn every_wrong_statement_is_reported() {
    let errors = read(
        &program(),
        "t.entries",
        "rout { } -> drop()\nmulticast x { }\nroute default -> drop()\n",
    );
    assert_eq!(errors.expect_err("errors are expected").len(), 2);
}

fn command(line: &str) -> CommandKind {
    let commands =
        stf::read(&program(), "t.stf", line).unwrap_or_else(|errors| panic!("{}", errors[0]));
    commands[0].kind.clone()
}

#[test]
fn stf_keys_follow_its_rules() {
    let CommandKind::Update(Update::Insert(_, entry)) =
        command("add acl 100 src:0x0a01**** dport:80..90 drop()")
    else {
        panic!("an entry is expected")
    };
    let src = KeyMatch::Ternary(v(0x0a01_0000, 32), v(0xffff_0000, 32));
    assert_eq!(
        entry.keys,
        [src, KeyMatch::Range(v(80, 16), v(90, 16)), KeyMatch::Any]
    );
    assert_eq!(entry.priority, Some(100));
    let CommandKind::Update(Update::Insert(_, entry)) =
        command("ADD route dst:0x0a0100** forward(port:1,mac:2)")
    else {
        panic!("an entry is expected")
    };
    assert_eq!(entry.keys, [KeyMatch::Lpm(v(0x0a01_0000, 32), 24)]);
    let CommandKind::Update(Update::Insert(_, entry)) = command("add macs drop()") else {
        panic!("an entry is expected")
    };
    assert_eq!(entry.keys, [KeyMatch::Exact(v(0, 48))]);
}

#[test]
fn stf_keys_have_the_names_that_p4c_takes() {
    let mut program = program();
    let table = program.tables.ids().last().unwrap();
    let byte = field(&mut program, "byte", 8);
    let names = ["h.e.$valid$", "h.f.isValid()", "h.e.d & 0xff", "h.s[1].x"];
    program.tables[table].keys = names
        .map(|name| key(name, byte.clone(), MatchKind::Exact))
        .to_vec();
    for (written, at) in [
        ("h.e:7", 0),
        ("h.e.valid:7", 0),
        ("h.e.$valid:7", 0),
        ("h.e.$valid$:7", 0),
        ("h.e.isValid():7", 0),
        ("e.$valid$ : 7", 0),
        ("h.f:7", 1),
        ("h.f.$valid$: 7", 1),
        ("f.valid :7", 1),
        ("h.e.d&0xff:7", 2),
        ("h.e.d & 0xff : 7", 2),
        ("\"h.e.d & 0xff\":7", 2),
        ("\"h.e.d&0xff\" : 7", 2),
        ("e.d&0xff:7", 2),
        ("h.s$1.x:7", 3),
        ("h.s[1].x:7", 3),
        ("s[1].x:7", 3),
    ] {
        let text = format!("add macs {written} drop()");
        let commands = stf::read(&program, "t", &text);
        let commands = commands.unwrap_or_else(|errors| panic!("{written}: {}", errors[0]));
        let CommandKind::Update(Update::Insert(_, entry)) = &commands[0].kind else {
            panic!("{written}: an entry is expected")
        };
        let mut expected = vec![KeyMatch::Exact(v(0, 8)); 4];
        expected[at] = KeyMatch::Exact(v(7, 8));
        assert_eq!(entry.keys, expected, "{written}");
    }
    for wrong in ["valid:7", "h:7", "h.e.d&0xf:7", "\"h.e:7"] {
        let text = format!("add macs {wrong} drop()");
        assert!(stf::read(&program, "t", &text).is_err(), "{wrong}");
    }
}

#[test]
fn a_mask_covers_only_the_digits_written() {
    let CommandKind::Update(Update::Insert(_, entry)) = command("add acl 1 src:0x25** drop()")
    else {
        panic!("an entry is expected")
    };
    assert_eq!(
        entry.keys[0],
        KeyMatch::Ternary(v(0x2500, 32), v(0xff00, 32))
    );
}

#[test]
fn packets_and_patterns_are_nibbles() {
    assert_eq!(
        command("packet 01 0a 0B c0"),
        CommandKind::Packet {
            port: 1,
            data: vec![10, 11, 0xc0]
        }
    );
    let CommandKind::Expect {
        pattern: Some(pattern),
        ..
    } = command("expect 2 0a *b $")
    else {
        panic!("a pattern is expected")
    };
    assert_eq!(pattern.compare(&[0x0a, 0x7b]), None);
    assert_eq!(
        pattern.compare(&[0x0a, 0x7c]),
        Some(Mismatch::Byte(1, 0x0b, 0x7c))
    );
    assert_eq!(pattern.compare(&[0x0a]), Some(Mismatch::Short(2, 1)));
    assert_eq!(
        pattern.compare(&[0x0a, 0x7b, 0]),
        Some(Mismatch::Long(2, 3))
    );
    let prefix = Pattern {
        nibbles: vec![Some(0), Some(10)],
        exact: false,
    };
    assert_eq!(prefix.compare(&[10, 99]), None);
    assert_eq!(
        command("expect 4"),
        CommandKind::Expect {
            port: 4,
            pattern: None
        }
    );
}

#[test]
fn stf_waits_applies_entries_and_expects_messages() {
    assert_eq!(command("wait"), CommandKind::Wait);
    assert_eq!(command("wait 20ms"), CommandKind::WaitFor(20_000_000));
    assert_eq!(
        command("entries a dir/x.entries # all"),
        CommandKind::Entries("a dir/x.entries".into())
    );
    let update = updates("route { hdr.ipv4.dst: 10.0.0.0/8; } -> forward(1, 2)").remove(0);
    assert_eq!(
        command("entry route { hdr.ipv4.dst: 10.0.0.0/8; } -> forward(1, 2)"),
        CommandKind::Update(update)
    );
    assert_eq!(
        command("expect_log two words"),
        CommandKind::ExpectLog("two words".into())
    );
    let digest = program().externs.ids().last().unwrap();
    assert_eq!(
        command("expect_digest learned { 02:00:00:00:00:01, _ }"),
        CommandKind::ExpectDigest {
            digest,
            values: vec![Some(v(0x0200_0000_0001, 48)), None]
        }
    );
}

#[test]
fn a_typo_in_stf_is_named() {
    let errors = stf::read(
        &program(),
        "t.stf",
        "pakcet 0 00\npacket 0 0g\nregister_read seen 9\nwait 5\nentry route { nope: 1; } -> drop()\nexpect_digest learned { 1 }",
    )
    .expect_err("errors");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(
        texts[0].contains("t.stf:1:1: error: there is no STF command `pakcet`"),
        "{}",
        texts[0]
    );
    assert!(texts[0].contains("did you mean `packet`?"), "{}", texts[0]);
    assert!(texts[1].contains("t.stf:2:11:"), "{}", texts[1]);
    assert!(texts[2].contains("there are 8 cells"), "{}", texts[2]);
    assert!(texts[3].contains("t.stf:4:6:"), "{}", texts[3]);
    assert!(texts[4].contains("t.stf:5:15:"), "{}", texts[4]);
    assert!(texts[5].contains("has 2 values, but 1"), "{}", texts[5]);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n]{0,200}") {
        let program = program();
        let _ = read(&program, "t", &text);
        let _ = stf::read(&program, "t", &text);
    }

    #[test]
    fn no_soup_of_words_panics(words in proptest::collection::vec(proptest::sample::select(&[
        "route", "acl", "{", "}", "->", "drop", "(", ")", ":", ";", "default", "priority", "10.0.0.0/8", "&&&", "..",
        "multicast", "clone", "register", "seen", "[", "]", "=", "port", "5s", "idle_timeout", "\n", "add", "entry", "wait", "expect_digest", "*", "$", "é",
    ][..]), 0..30)) {
        let program = program();
        let text = words.join(" ");
        let _ = read(&program, "t", &text);
        let _ = stf::read(&program, "t", &text);
    }
}

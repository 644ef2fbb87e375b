//! Programs with handlers in C: on one device, and over a switch and servers in one process.

mod lab;

use lab::{Directory, example, said};

/// A program that sends each packet back, with the first byte as the handler answers.
fn program(c: &str) -> String {
    format!(
        "#include <v1model.p4>\nheader e_t {{ bit<8> a; }}\nstruct h {{ e_t e; }}\nstruct m {{}}\n\
         struct Request {{ bit<8> a; }}\nstruct Response {{ bit<8> a; }}\n\
         @remote extern void answer(in Request request, out Response response);\n\
         parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           state start {{ p.extract(hdr.e); transition accept; }}\n}}\n\
         control V(inout h hdr, inout m meta) {{ apply {{}} }}\n\
         control I(inout h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           apply {{ Response r; answer({{ hdr.e.a }}, r); hdr.e.a = r.a; s.egress_spec = 1; }}\n}}\n\
         control E(inout h hdr, inout m meta, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control D(packet_out p, in h hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         {c}\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
}

/// The handler: doubles the byte, and drops the packet of 0xff.
const DOUBLE: &str = "int answer(clip_t *c, const struct Request *q, struct Response *r) {\n\
    if (q->a == 0xff) return clip_drop(c, \"no_answer\");\n\
    r->a = q->a * 2;\n    return CLIP_OK;\n}\n";

#[test]
fn c_code_is_in_the_program_or_in_a_file_of_the_command_line() {
    let dir = Directory::new("split-code");
    let test = dir.with("t.stf", "packet 0 21\nexpect 1 42 $\npacket 0 ff\n");
    let whole = dir.with(
        "whole.p4c",
        program(&format!("extern \"C\" {{\n{DOUBLE}}}")),
    );
    let plain = dir.with("plain.p4", program(""));
    let code = dir.with("code.c", DOUBLE);
    for arguments in [
        &["test", &whole, &test][..],
        &["test", &plain, &test, "--c", &code],
    ] {
        let told = said(arguments);
        assert_eq!(told.status, Some(0), "{}", told.err);
    }
    let traced = said(&["trace", &whole, "--packet", "ff"]);
    assert!(traced.out.contains("no_answer"), "{}", traced.out);
    let both = said(&["test", &whole, &test, "--c", &code]);
    assert_eq!(both.status, Some(1));
    assert!(both.err.contains("use one of the two"), "{}", both.err);
    let none = said(&["check", &plain, "--c", "/dev/null"]);
    assert_eq!(none.status, Some(1), "{}", none.err);
    let missing = said(&["test", &plain, &test]);
    assert_eq!(missing.status, Some(1));
    let hint = "the handler `answer` has no C code";
    assert!(missing.err.contains(hint), "{}", missing.err);
}

#[test]
fn messages_of_program_and_handler_come_in_their_order_from_all_planes() {
    let dir = Directory::new("split-messages");
    let logs = DOUBLE.replace("r->a =", "clip_log(c, \"in C: %u\", q->a); r->a =");
    let text = program(&format!("extern \"C\" {{\n{logs}}}"))
        .replace(
            "struct h { e_t e; }",
            "header l_t { bit<96> a; bit<16> t; } struct h { l_t l; e_t e; }",
        )
        .replace("p.extract(hdr.e);", "p.extract(hdr.l); p.extract(hdr.e);")
        .replace("p.emit(hdr.e);", "p.emit(hdr);")
        .replace("answer({ hdr", "log_msg(\"before\"); answer({ hdr")
        .replace(
            "s.egress_spec = 1;",
            "s.egress_spec = 1; log_msg(\"after\");",
        );
    let path = dir.with("logs.p4c", text);
    let each =
        |value: &str| format!("expect_log before\nexpect_log in C: {value}\nexpect_log after\n");
    let test = format!(
        "packet 0 {0} 21\nexpect 1 {0} 42 $\n{1}packet 0 {0} 22\nexpect 1 {0} 44 $\n{2}",
        "020000000001 020000000002 1234",
        each("33"),
        each("34")
    );
    let test = dir.with("logs.stf", test);
    for arguments in [
        &["test", &path, &test][..],
        &["split", "test", &path, &test],
        &["split", "test", "--servers", "2", &path, &test],
    ] {
        let told = said(arguments);
        assert_eq!(
            told.status,
            Some(0),
            "{arguments:?}: {}{}",
            told.out,
            told.err
        );
    }
}

#[test]
fn a_handler_may_have_the_name_of_a_function_of_libc() {
    let dir = Directory::new("split-names");
    let test = dir.with("t.stf", "packet 0 21\nexpect 1 42 $\n");
    for name in ["connect", "send", "index"] {
        let text = program(&format!("extern \"C\" {{\n{DOUBLE}}}"));
        let text = text
            .replace("void answer(", &format!("void {name}("))
            .replace("int answer(", &format!("int {name}("))
            .replace("answer({", &format!("{name}({{"));
        let path = dir.with(&format!("{name}.p4c"), text);
        let told = said(&["test", &path, &test]);
        assert_eq!(told.status, Some(0), "{name}: {}", told.err);
    }
}

#[test]
fn c_that_crashes_or_never_ends_ends_the_command_and_slow_c_does_not() {
    let dir = Directory::new("split-endless");
    // 20 ms of processor time.
    let slow = "#include <time.h>\n\
        int answer(clip_t *c, const struct Request *q, struct Response *r) {\n\
        clock_t begin = clock(); (void)c;\n\
        while (q->a == 0xfd) { volatile int more = 1; (void)more; }\n\
        if (q->a == 0xfe) __builtin_trap();\n\
        while (clock() - begin < CLOCKS_PER_SEC / 50) { }\n\
        r->a = q->a * 2;\n    return CLIP_OK;\n}\n";
    let program = dir.with("slow.p4c", program(&format!("extern \"C\" {{\n{slow}}}")));
    let well = "packet 0 21\nexpect 1 42 $\n".repeat(8);
    let test = dir.with("well.stf", &well);
    let told = said(&["test", &program, &test]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    for (last, what) in [
        ("fd", "did not end within 100 ms of processor time"),
        ("fe", "ended with SIGILL"),
    ] {
        let test = dir.with("ended.stf", format!("{well}packet 0 {last}\n"));
        let trace = ["trace", &program, "--packet", last];
        let on = |engine| ["test", &program, &test, "--engine", engine];
        let (interp, jit) = (on("interp"), on("jit"));
        for (arguments, packet) in [(&interp[..], 9), (&jit[..], 9), (&trace[..], 1)] {
            let told = said(arguments);
            assert_eq!(told.status, Some(1), "{}", told.err);
            let line = format!("error: the C handler `answer` {what} at packet {packet}\n");
            assert_eq!(told.err, line);
        }
    }
}

#[test]
fn errors_in_c_have_their_place_in_the_program() {
    let dir = Directory::new("split-errors");
    let wrong = DOUBLE.replace("q->a * 2", "q->b * 2");
    let text = program(&format!("extern \"C\" {{\n{wrong}}}"));
    let line = text.lines().position(|line| line.contains("q->b")).unwrap() + 1;
    let path = dir.with("wrong.p4c", &text);
    let told = said(&["check", &path]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    let place = format!("wrong.p4c:{line}");
    assert!(told.err.contains(&place), "{place} in: {}", told.err);
    // Editors read the same places.
    let told = said(&["check", "--format", "json", &path]);
    assert_eq!((told.status, told.err.as_str()), (Some(1), ""));
    let shown: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!(shown[0]["line"], line, "{shown}");
    assert_eq!(
        (&shown[0]["severity"], &shown[0]["code"]),
        (&"error".into(), &"C".into())
    );
    // A wrong signature is one error, at the definition.
    let other = program("extern \"C\" {\nint answer(clip_t *c, int q) { return 0; }\n}");
    let told = said(&["check", &dir.with("other.p4c", other)]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    let errors = told.err.matches(" error: ").count();
    assert_eq!(
        (errors, told.err.contains("clip_calls")),
        (1, false),
        "{}",
        told.err
    );
}

#[test]
fn c_with_unknown_names_is_told_where_the_known_ones_are() {
    let dir = Directory::new("split-unknown");
    let header = "`polyplane split header PROGRAM` prints it";
    let none = "has no `@remote` handler and no `@mirror` table";
    let bare = example("router/router.p4");
    let code = dir.with("code.c", DOUBLE);
    let told = said(&["check", &bare, "--c", &code]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    for hint in [header, none] {
        assert!(told.err.contains(hint), "{hint} in: {}", told.err);
    }
    for wrong in [
        "struct none_key k; (void)k;",
        "(void)none_find(c, 0, 0);",
        "none_t k; (void)k;",
        "(void)q->none;",
        "(void)NONE;",
    ] {
        let wrong = DOUBLE.replace("r->a =", &format!("{wrong} r->a ="));
        let text = program(&format!("extern \"C\" {{\n{wrong}}}"));
        let told = said(&["check", &dir.with("wrong.p4c", text)]);
        assert_eq!(told.status, Some(1), "{}", told.err);
        assert!(told.err.contains(header), "{wrong}: {}", told.err);
        assert!(!told.err.contains(none), "{wrong}: {}", told.err);
    }
    // Other errors need no header.
    let wrong = DOUBLE.replace("r->a =", "return CLIP_OK r->a =");
    let text = program(&format!("extern \"C\" {{\n{wrong}}}"));
    let told = said(&["check", &dir.with("syntax.p4c", text)]);
    assert_eq!((told.status, told.err.contains(header)), (Some(1), false));
}

#[test]
fn a_failed_test_tells_what_each_plane_dropped() {
    let dir = Directory::new("split-drops");
    let text = program(&format!("extern \"C\" {{\n{DOUBLE}}}"))
        .replace(
            "struct h { e_t e; }",
            "header l_t { bit<96> a; bit<16> t; } struct h { l_t l; e_t e; }",
        )
        .replace("p.extract(hdr.e);", "p.extract(hdr.l); p.extract(hdr.e);");
    let path = dir.with("drops.p4c", text);
    let head = "020000000001 020000000002 1234";
    let test = format!("packet 0 {head} ff\nexpect 1 {head} fe\npacket 0 {head} ff\n");
    let test = dir.with("drops.stf", test);
    for (arguments, expected) in [
        (
            &["test", &path, &test][..],
            "dropped: 2 packets (no_answer)\n",
        ),
        (
            &["split", "test", &path, &test],
            "dropped by server 0: 2 packets (no_answer)\n",
        ),
    ] {
        let told = said(arguments);
        assert_eq!(told.status, Some(1), "{}", told.err);
        assert!(told.err.contains(expected), "{expected} in: {}", told.err);
    }
    // What a test expects is no reason to list drops.
    let test = dir.with("well.stf", format!("packet 0 {head} ff\n"));
    let told = said(&["test", &path, &test]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
}

/// Returns the epoch of a program.
fn epoch(path: &str, options: &[&str]) -> u64 {
    let arguments = [&["split", "show", "--json", path][..], options].concat();
    let told = said(&arguments);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let shown: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    shown["frame"]["epoch"].as_u64().expect("a number")
}

#[test]
fn the_epoch_follows_from_what_both_halves_must_agree_on() {
    let dir = Directory::new("split-epoch");
    let text = std::fs::read_to_string(example("split/snat.p4c")).expect("a program");
    let at = |name: &str, text: &str| epoch(&dir.with(name, text), &[]);
    let first = at("first.p4c", &text);
    assert_ne!(first, 0);
    let commented = format!("// A comment.\n{text}");
    assert_eq!(at("commented.p4c", &commented), first);
    let code = text.replace("return CLIP_OK;", "return CLIP_OK + 0;");
    assert_ne!(code, text);
    assert_eq!(at("code.p4c", &code), first);
    let changes: [&[(&str, &str)]; 3] = [
        &[
            ("table outbound", "table outward"),
            ("outbound.apply", "outward.apply"),
        ],
        &[("allocate(", "assign(")],
        &[("l4_port", "port_of_l4")],
    ];
    for change in changes {
        let changed = change.iter().fold(text.clone(), |text, (from, to)| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            changed
        });
        assert_ne!(at("changed.p4c", &changed), first, "{change:?}");
    }
    // The same names and values, but what the server found has another meaning.
    let hit = text.replace("outbound.apply().hit", "outbound.apply().miss");
    assert_ne!(hit, text);
    assert_ne!(at("missed.p4c", &hit), first);
    let budget = epoch(&example("split/ecmp.p4"), &["--phv", "20B"]);
    assert_ne!(budget, epoch(&example("split/ecmp.p4"), &[]));
}

#[test]
fn a_trace_over_planes_shows_the_cut_the_handler_and_its_entries() {
    let snat = example("split/snat.p4c");
    let entries = example("split/snat.entries");
    let packet = "0200000001010200000001100800\
                  4500002c0001000040068edcc0a8010ac63364099c4001bb000000010000000060022000ee3a0000020405b4";
    let run = |split: &[&str]| {
        let arguments = ["trace", &snat, "--entries", &entries, "--packet", packet];
        said(&[&arguments[..], split].concat())
    };
    let told = run(&["--split"]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let mut rest = told.out.as_str();
    for line in [
        "cut 1: the packet leaves the switch for a server, at the table NatIngress.outbound",
        "miss: the default action runs",
        "call remote of allocate",
        "NatIngress.request.l4_port    0x9c40 (40000)",
        "-> 0x0400 (1024)",
        "the handler inserts NatIngress.outbound { hdr.ipv4.protocol: 6; hdr.ipv4.src: 192.168.1.10; \
         meta.src_port: 40000; } -> NatIngress.translate(address: 203.0.113.1, l4_port: 1024)",
        "the handler inserts NatIngress.inbound",
        "the packet comes back and resumes in the switch at",
        "sent by port 1",
    ] {
        let at = rest.find(line);
        rest = &rest[at.unwrap_or_else(|| panic!("{line} in:\n{}", told.out))..];
    }
    assert!(!run(&[]).out.contains("cut 1"));
    let router = example("router/router.p4");
    let told = said(&["trace", &router, "--packet", packet, "--split"]);
    assert_eq!(told.status, Some(1));
    assert!(told.err.contains("write `@mirror(N)`"), "{}", told.err);
}

#[test]
fn values_that_do_not_fit_the_budget_are_shown_with_their_places() {
    let program = example("split/ecmp.p4");
    let show = |budget: &str| said(&["split", "show", &program, "--phv", budget]);
    let told = show("25B");
    assert_eq!(told.status, Some(0), "{}", told.err);
    let line = "EcmpIngress.index: servers compute it; 104 + 8 bits before, 32 + 8 after";
    assert!(told.out.contains(line), "{}", told.out);
    let warning =
        "warning: servers compute `EcmpIngress.index`, to keep the switch's budget of 25 B";
    assert!(told.err.contains(warning), "{}", told.err);
    let told = show("5 B");
    assert_eq!((told.status, told.out.as_str()), (Some(1), ""));
    assert!(told.err.contains("hdr.ipv4.dst 32"), "{}", told.err);
    let told = said(&[
        "split",
        "test",
        &program,
        &example("split/ecmp.stf"),
        "--phv",
        "25B",
        "--servers",
        "3",
    ]);
    assert_eq!(told.status, Some(0), "{}{}", told.out, told.err);
}

#[test]
fn the_header_declares_handlers_and_mirrored_tables() {
    let told = said(&["split", "header", &example("split/snat.p4c")]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    for part in [
        "int allocate(clip_t *c, const struct allocate_request_t *",
        "struct outbound_key {",
        "outbound_insert(",
        "inbound_delete(",
        "PROTOCOL_TCP",
    ] {
        assert!(told.out.contains(part), "{part} in:\n{}", told.out);
    }
}

/// Programs with handlers that answer with values of a pool: with several servers they answer with
/// other values than one device.
const WITH_POOLS: &[&str] = &["snat"];

#[test]
fn functions_with_handlers_pass_their_tests_over_a_switch_and_servers() {
    let directory = example("split");
    let mut programs = 0;
    for file in std::fs::read_dir(&directory).expect("the directory can be read") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|ending| ending != "p4c") {
            continue;
        }
        programs += 1;
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let test = path.with_extension("stf").display().to_string();
        let program = path.display().to_string();
        for engine in ["interp", "jit"] {
            let told = said(&["test", "--engine", engine, &program, &test]);
            assert_eq!((told.status, told.err.as_str()), (Some(0), ""), "{name}");
            for servers in ["1", "3"] {
                if servers != "1" && WITH_POOLS.contains(&name.as_str()) {
                    continue;
                }
                let options = ["split", "test", "--engine", engine, "--servers", servers];
                let told = said(&[&options[..], &[&program, &test]].concat());
                assert_eq!(
                    (told.status, told.err.as_str()),
                    (Some(0), ""),
                    "{name} {servers}"
                );
            }
        }
    }
    assert!(programs >= 3, "{programs}");
}

#[test]
fn emit_writes_a_program_with_its_p4info_frames_header_and_c_code() {
    let dir = Directory::new("split-emit");
    let out = dir.file("made/snat");
    let program = example("split/snat.p4c");
    let told = said(&[
        "split", "emit", &program, "--target", "v1model", "--out", &out,
    ]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let switch = format!("{out}/snat_switch.p4");
    let info = format!("{out}/snat_switch.p4info.txt");
    let told = said(&["p4info", &switch, "--compare", &info]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let test = example("split/snat.stf");
    let told = said(&["split", "test", "--emitted", &program, &test]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    for (file, part) in [
        ("snat_switch.p4", "table split_servers"),
        ("snat.frame.json", "\"header_bytes\""),
        ("clip.h", "struct outbound_key {"),
        ("snat.c", "#line "),
    ] {
        let text = std::fs::read_to_string(format!("{out}/{file}")).expect("a file");
        assert!(text.contains(part), "{file}:\n{text}");
    }
}

#[test]
fn what_build_writes_runs_like_the_program_without_the_compilers() {
    let dir = Directory::new("split-build");
    let out = dir.file("made/snat");
    let [program, topology, test] =
        ["snat.p4c", "snat.toml", "snat.stf"].map(|file| example(&format!("split/{file}")));
    let build = |program: &str| {
        said(&[
            "split", "build", program, "--topo", &topology, "--out", &out,
        ])
    };
    let told = build(&program);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    for (file, part) in [
        ("whole.ir", "program snat"),
        ("switch.p4info.txt", "NatIngress.outbound"),
        ("server.p4info.txt", "NatIngress.outbound"),
        ("frame.json", "\"header_bytes\""),
        ("clip.h", "struct outbound_key {"),
        ("handlers.c", "#line "),
        ("whole.entries", "port_side {"),
        ("start.txt", "--server 1=10"),
    ] {
        let text = std::fs::read_to_string(format!("{out}/{file}")).expect("a file");
        assert!(text.contains(part), "{file}:\n{text}");
    }
    let mut command = lab::polyplane();
    command.env("CC", "/no/compiler");
    command.args(["split", "test", &out, &test]);
    let told = lab::Running::start(&mut command).finish();
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let told = said(&["split", "test", &out, &test, "--phv", "200B"]);
    assert_eq!(told.status, Some(1));
    assert!(
        told.one_line()
            .contains("give them to `polyplane split build`")
    );
    let server = std::fs::read_to_string(format!("{out}/server.ir")).expect("a file");
    std::fs::write(format!("{out}/server.ir"), server.replace("1024", "1025")).expect("a file");
    let told = said(&["split", "test", &out, &test]);
    assert_eq!(told.status, Some(1));
    assert!(told.one_line().contains("build it again"), "{}", told.err);
    let told = build(&example("split/fib.p4"));
    assert_eq!(told.status, Some(1));
    assert!(
        told.one_line().contains("its [split] has the program"),
        "{}",
        told.err
    );
}

#[test]
fn packets_after_the_first_of_a_flow_find_its_entry_in_the_switch() {
    let files = ["split/snat.p4c", "split/snat.stf"].map(example);
    let told = said(&["split", "test", &files[0], &files[1]]);
    let line = "7 packets went to the servers";
    assert!(told.out.contains(line), "{}", told.out);
}

/// A UDP packet of one flow through the NAT, and what comes out with this port.
fn flow(l4_port: &str) -> String {
    format!(
        "packet 0 020000000101 020000000110 0800 450000210001000040118edcc0a8010ac6336409 \
         14e90035000d0000 7175657279\n\
         expect 1 0200000002fe 020000000201 0800 45000021000100003f11158dcb007101c6336409 \
         {l4_port}0035000d0000 7175657279 $\n"
    )
}

#[test]
fn hits_in_the_switch_keep_an_entry_of_a_handler_alive() {
    let dir = Directory::new("split-idle");
    let entries = example("split/snat.entries");
    // The time-out is 30 s. The second and third packets hit in the switch.
    let test = format!(
        "entries {entries}\n{0}wait 20s\n{0}wait 20s\n{0}wait 31s\n{1}",
        flow("0400"),
        flow("0401")
    );
    let test = dir.with("idle.stf", test);
    let program = example("split/snat.p4c");
    for arguments in [
        &["test", &program, &test][..],
        &["split", "test", &program, &test],
        &["split", "test", "--engine", "interp", &program, &test],
    ] {
        let told = said(arguments);
        assert_eq!(told.status, Some(0), "{}", told.err);
    }
    let told = said(&["split", "test", &program, &test]);
    assert!(told.out.contains("2 packets went"), "{}", told.out);
}

#[test]
fn any_v1model_program_splits_with_all_its_tables_mirrored() {
    let files = ["router/router.p4", "router/router.stf"].map(example);
    for servers in ["1", "3"] {
        let told = said(&[
            "split",
            "test",
            "--mirror-all",
            "1",
            "--servers",
            servers,
            &files[0],
            &files[1],
        ]);
        assert_eq!(told.status, Some(0), "{}", told.err);
    }
    let told = said(&["split", "test", &files[0], &files[1]]);
    assert_eq!(told.status, Some(1));
    assert!(
        told.err.contains("applies no mirrored table"),
        "{}",
        told.err
    );
}

#[test]
fn cuts_and_frames_are_shown_as_text_and_json() {
    let program = example("split/snat.p4c");
    let told = said(&["split", "show", &program]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    for part in [
        "table NatIngress.outbound (if the switch has no entry)",
        "handler allocate (always)",
        "servers; the switch holds at most 1024 of its entries",
        "NatIngress.route: switch",
    ] {
        assert!(told.out.contains(part), "{part} in:\n{}", told.out);
    }
    let told = said(&["split", "show", "--json", &program]);
    let shown: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!(shown["cuts"][2]["name"], "allocate");
    assert_eq!(shown["frame"]["request_type"], 0x88b5);
    assert_eq!(shown["tables"][1]["home"], "both");
    let first = &shown["frame"]["fields"][0];
    assert_eq!(
        (&first["name"], &first["offset"]),
        (&"load type".into(), &112.into())
    );
}

#[test]
fn servers_of_a_switch_have_different_numbers_and_ports_of_their_own() {
    let program = example("split/snat.p4c");
    let run = |more: &[&str]| {
        let ports = ["--port", "0=lo", "--port", "1=lo"];
        let mut arguments = vec!["split", "switch", program.as_str()];
        arguments.extend(ports);
        arguments.extend(more);
        said(&arguments)
    };
    for (more, message) in [
        (
            &["--server", "1=0", "--server", "1=1"][..],
            "server 1 is given twice",
        ),
        (
            &["--server", "1=0", "--server", "2=0"],
            "two servers are at port 0",
        ),
        (&["--server", "1=7"], "add --port 7=INTERFACE"),
    ] {
        let told = run(more);
        assert_eq!(told.status, Some(1), "{}", told.err);
        assert!(told.err.contains(message), "{message} in: {}", told.err);
    }
}

/// A program with two mirrored tables: the key of `first` decides which server a packet goes to,
/// and the handler adds an entry to `flows` for 100 s.
const FLOWS: &str = "#include <v1model.p4>\n\
    header eth_t { bit<48> dst; bit<48> src; bit<16> type; }\n\
    header h_t { bit<8> a; bit<8> k; bit<8> hit; }\n\
    struct Hs { eth_t eth; h_t h; }\nstruct M { }\n\
    struct req_t { bit<8> k; }\nstruct res_t { bit<8> v; }\n\
    @remote extern void add(in req_t q, out res_t r);\n\
    parser P(packet_in p, out Hs hdr, inout M m, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.eth); p.extract(hdr.h); transition accept; }\n}\n\
    control C(inout Hs hdr, inout M m) { apply { } }\n\
    control I(inout Hs hdr, inout M m, inout standard_metadata_t s) {\n\
      action nothing() { }\n\
      @mirror(1) table first { key = { hdr.h.a : exact; } actions = { nothing; }\n\
        default_action = nothing(); }\n\
      action found() { hdr.h.hit = 1; }\n\
      @mirror(1) table flows { key = { hdr.h.k : exact; } actions = { found; @defaultonly NoAction; }\n\
        const default_action = NoAction(); }\n\
      apply { s.egress_spec = 1; first.apply();\n\
        if (!flows.apply().hit) { req_t q = { hdr.h.k }; res_t r; add(q, r); } }\n}\n\
    control E(inout Hs hdr, inout M m, inout standard_metadata_t s) { apply { } }\n\
    control D(packet_out p, in Hs hdr) { apply { p.emit(hdr); } }\n\
    extern \"C\" {\nint add(clip_t *c, const struct req_t *q, struct res_t *r) {\n\
      struct flows_key key = { .k = q->k };\n\
      struct flows_entry entry = { .action = FLOWS_FOUND };\n\
      (void)r;\n\
      return flows_insert(c, &key, &entry, UINT64_C(100000000000)) == CLIP_OK\n\
        ? CLIP_OK : clip_drop(c, \"full\");\n}\n}\n\
    V1Switch(P(), C(), I(), E(), C(), D()) main;\n";

#[test]
fn entries_of_a_handler_reach_all_servers_and_live_as_long_as_one_of_them_uses_them() {
    let dir = Directory::new("split-servers");
    let program = dir.with("flows.p4c", FLOWS);
    let told = said(&["check", &program]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let line = |a: u8, k: u8, hit: u8| {
        let head = "000000000001000000000002ffff";
        format!("packet 0 {head} {a:02x}{k:02x}00\nexpect 1 {head} {a:02x}{k:02x}{hit:02x} $\n")
    };
    let mut learned = String::new();
    for k in 0..8 {
        for a in 0..8 {
            learned += &line(k ^ a, k, u8::from(a > 0));
        }
    }
    // Each use comes by another server, and at last none for longer than the time-out.
    let mut idle = line(0, 9, 0);
    for a in 1..6 {
        idle += &format!("wait 60s\n{}", line(a, 9, 1));
    }
    idle += &format!("wait 101s\n{}", line(0, 9, 0));
    for (name, test) in [("learned.stf", learned), ("idle.stf", idle)] {
        let test = dir.with(name, test);
        let one = said(&["test", &program, &test]);
        assert_eq!(one.status, Some(0), "{name}: {}", one.err);
        for servers in ["1", "2", "3", "5"] {
            let told = said(&["split", "test", "--servers", servers, &program, &test]);
            assert_eq!(
                (told.status, told.err.as_str()),
                (Some(0), ""),
                "{name}, {servers}"
            );
        }
    }
}

//! Programs with handlers in C, on one device: `check`, `test` and `split header`.

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
fn nat_with_a_handler_passes_its_test_on_both_engines() {
    let files = ["split/snat.p4c", "split/snat.stf"].map(example);
    for engine in ["interp", "jit"] {
        let told = said(&["test", "--engine", engine, &files[0], &files[1]]);
        assert_eq!(told.status, Some(0), "{engine}: {}", told.err);
    }
    let told = said(&["check", &files[0]]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
}

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

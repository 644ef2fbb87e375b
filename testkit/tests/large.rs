//! Tests of programs with very many headers and fields. Native code spills what it cannot keep in
//! registers, and must give the same results.

use std::collections::BTreeSet;
use std::fmt::Write;

use packet::{Frame, Nanos, PortId};
use support::rng::Xorshift;
use switch::{Device, DeviceConfig};

/// Number of headers that the parser may extract.
const HEADERS: usize = 32;

/// Fields of a header after its kind, which selects the next state. Some share bytes, and one is
/// wider than a word.
const FIELDS: [(&str, u32); 5] = [("a", 4), ("b", 12), ("c", 16), ("d", 40), ("e", 80)];

/// Additional code in a third of the parser states. `THIS` is replaced by the number of the
/// extracted header, and `NEXT` by the next one. `BEFORE` and `LAST` are replaced by the two before
/// it, which may be invalid.
const BESIDES: &[(&str, &str)] = &[
    ("does nothing besides", ""),
    (
        "reads which headers are there",
        "meta.noted = 3 * meta.noted + (hdr.hBEFORE.isValid() ? 16w1 : 16w2) + (hdr.hTHIS.isValid() ? 16w4 : 16w8) + (hdr.hNEXT.isValid() ? 16w16 : 16w32);",
    ),
    (
        "reads what stands behind a field's first word",
        "meta.noted = 3 * meta.noted + hdr.hBEFORE.e[79:64] + hdr.hTHIS.e[71:56];",
    ),
    ("assigns a header", "hdr.hLAST = hdr.hTHIS;"),
    ("assigns a field", "hdr.hLAST.d = hdr.hBEFORE.d + 1;"),
    (
        "looks ahead into a header",
        "hdr.hLAST = packet.lookahead<h_t>();",
    ),
    ("drops a header", "hdr.hLAST.setInvalid();"),
    ("extracts a header again", "packet.extract(hdr.hLAST);"),
    (
        "goes back",
        "transition select(packet.lookahead<bit<4>>()) { 5: sBEFORE; default: tTHIS; } } state tTHIS {",
    ),
    (
        "advances by what it has read",
        "packet.advance(8 * (bit<32>)hdr.hTHIS.a[0:0]);",
    ),
    ("runs another one", "again.apply(packet, hdr.hLAST);"),
];

/// Returns the declarations before the parser, common to all architectures.
fn declarations(architecture: &str, metadata: usize) -> String {
    let mut text = format!("#include <core.p4>\n#include <{architecture}.p4>\n");
    let fields: String = FIELDS
        .iter()
        .map(|(name, width)| format!("bit<{width}> {name}; "))
        .collect();
    write!(text, "header h_t {{ bit<8> kind; {fields}}}\nheader end_t {{ bit<16> sum; bit<8> count; }}\nstruct headers_t {{ end_t end; ").unwrap();
    (0..HEADERS).for_each(|at| write!(text, "h_t h{at}; ").unwrap());
    text.push_str("}\nstruct empty_t {}\nstruct metadata_t { bit<8> seen; bit<16> noted; ");
    (0..metadata).for_each(|at| write!(text, "bit<16> m{at}; ").unwrap());
    text.push_str("}\nparser Again(packet_in packet, out h_t h) {\n");
    text.push_str("state start { packet.extract(h); transition select(h.kind[2:0]) { 3: start; default: accept; } }\n}\n");
    text
}

/// Returns a parser's states. After each header comes the next one, the one after that, or none.
fn states(first: &str, besides: &str) -> String {
    let mut text = format!("Again() again;\nstate start {{ {first} transition s0; }}\n");
    for at in 0..HEADERS {
        let next = |by: usize| match at + by < HEADERS {
            true => format!("s{}", at + by),
            false => String::from("accept"),
        };
        let before = at.saturating_sub(2);
        let besides = match at % 3 {
            2 => besides
                .replace("THIS", &at.to_string())
                .replace("LAST", &(at - 1).to_string())
                .replace("BEFORE", &before.to_string())
                .replace("NEXT", &((at + 1) % HEADERS).to_string()),
            _ => String::new(),
        };
        // A header extracted earlier is used again, whether valid or not.
        writeln!(
            text,
            "state s{at} {{ packet.extract(hdr.h{at}); meta.seen = meta.seen + 1;\n{besides}\n\
             transition select(hdr.h{at}.kind[3:0], hdr.h{before}.b[0:0]) {{ (0, _): accept; (1 &&& 3, 0): {}; (2 &&& 3, _): {}; (3, 1): reject; (_, 1): {}; default: {}; }} }}",
            next(1), next(2), next(1), next(2),
        )
        .unwrap();
    }
    text
}

/// Returns code that copies, writes, reads and invalidates headers, and stores values in this many
/// metadata fields.
fn notes(metadata: usize) -> String {
    let mut text = String::from("hdr.end.setValid();\nhdr.end.sum = meta.noted;\n");
    for at in 0..metadata {
        let (header, (field, width)) = (at % HEADERS, FIELDS[at % 4]);
        let high = width.min(16) - 1;
        writeln!(text, "if (hdr.h{header}.isValid()) {{ meta.m{at} = (bit<16>)hdr.h{header}.{field}[{high}:0] + {at}; }}").unwrap();
    }
    for at in (0..HEADERS - 3).step_by(4) {
        writeln!(
            text,
            "if (hdr.h{at}.a[0:0] == 1) {{ hdr.h{at} = hdr.h{}; }} else if (hdr.h{at}.c > 0x8000) {{ hdr.h{at}.d = hdr.h{at}.d + 1; hdr.h{}.setInvalid(); }}",
            at + 3, at + 1,
        )
        .unwrap();
    }
    text
}

/// Returns code that writes each field of each valid header, and of some that may be invalid.
fn raises() -> String {
    let mut text = String::new();
    for at in 0..HEADERS {
        let raised: String = FIELDS
            .iter()
            .map(|(field, _)| format!("hdr.h{at}.{field} = hdr.h{at}.{field} + {};", at + 3))
            .collect();
        let condition = match at % 5 {
            4 => format!("hdr.h{at}.kind[1:0] != 2"),
            _ => format!("hdr.h{at}.isValid()"),
        };
        writeln!(text, "if ({condition}) {{ {raised} }}").unwrap();
    }
    text
}

/// Returns code that sums up the stored values and counts the parsed headers.
fn sums(metadata: usize) -> String {
    let mut text = String::from("hdr.end.sum = hdr.end.sum + meta.noted;\n");
    (0..metadata).for_each(|at| {
        writeln!(
            text,
            "hdr.end.sum = (hdr.end.sum[14:0] ++ hdr.end.sum[15:15]) + meta.m{at};"
        )
        .unwrap();
    });
    text + "hdr.end.count = meta.seen;\n"
}

/// Returns a v1model program. Some packets leave the fast path before egress, because they set a
/// priority, and some after it. `first` is code at the start of ingress.
fn v1model(metadata: usize, besides: &str, first: &str) -> String {
    let (declarations, states) = (declarations("v1model", metadata), states("", besides));
    let (notes, sums) = (notes(metadata), sums(metadata));
    format!(
        "{declarations}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{\n{states}}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{ apply {{
    std.egress_spec = 3;\n{first}{notes}
    if (meta.m1[1:0] == 1) {{ std.priority = 1; }}
    if (meta.m2[3:0] == 6) {{ std.egress_spec = 511; }}
}} }}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{ apply {{
    {sums}hdr.end.sum = hdr.end.sum + (bit<16>)std.ingress_port;
    if (meta.m3[2:0] == 2) {{ truncate(64); }}
}} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    )
}

/// Returns a PSA program. Egress parses the packets that ingress has emitted.
fn psa(metadata: usize, besides: &str) -> String {
    let declarations = declarations("psa", metadata);
    let (first, again) = (
        states("", besides),
        states("packet.extract(hdr.end);", besides),
    );
    let (notes, sums) = (notes(metadata), sums(metadata));
    format!(
        "{declarations}
parser IP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t im, in empty_t a, in empty_t b) {{\n{first}}}
control I(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t im, inout psa_ingress_output_metadata_t om) {{ apply {{
    {notes}{sums}send_to_port(om, (PortId_t)(PortIdUint_t)3);
}} }}
control ID(packet_out packet, out empty_t a, out empty_t b, out empty_t c, inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t om) {{
    apply {{ packet.emit(hdr); }}
}}
parser EP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t im, in empty_t a, in empty_t b, in empty_t c) {{\n{again}}}
control E(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t im, inout psa_egress_output_metadata_t om) {{ apply {{
    {sums}
}} }}
control ED(packet_out packet, out empty_t a, out empty_t b, inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t om, in psa_egress_deparser_input_metadata_t im) {{
    apply {{ packet.emit(hdr); }}
}}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;\n"
    )
}

/// Frames of any bytes and lengths.
fn frames() -> Vec<Frame> {
    let mut rng = Xorshift::new(0x9e37_79b9_7f4a_7c15);
    let mut next = || rng.bits().to_le_bytes();
    let frame = |number: u32| {
        let length = 20 + next()[0] as usize * 2;
        let bytes: Vec<u8> = std::iter::repeat_with(&mut next)
            .flatten()
            .take(length)
            .collect();
        let mut frame = Frame::from_bytes(&bytes).expect("it is no longer than a frame");
        frame.ingress = PortId(number % 7);
        frame
    };
    (0..600).map(frame).collect()
}

fn check(what: &str, text: &str) {
    let program = testkit::compile_text(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    let leaves = |engine: &dyn exec::Engine| {
        let config = DeviceConfig::default();
        let mut device = Device::new(program.clone(), engine, &config).expect("it runs");
        let mut left = Vec::new();
        for frames in frames().chunks_mut(64) {
            device.forward(frames, Nanos(1), |port, frame, _| {
                left.push((port.0, frame.bytes().to_vec()));
            });
        }
        left
    };
    let engines = testkit::engines();
    let expected = leaves(engines[0].as_ref());
    // The header emitted first contains the number of parsed headers.
    let counts = expected.iter().filter_map(|(_, bytes)| bytes.get(2));
    let counts: BTreeSet<&u8> = counts.collect();
    assert!(
        expected.len() > 300 && counts.len() > 12,
        "{what}: {} {counts:?}",
        expected.len()
    );
    for engine in &engines[1..] {
        assert!(
            leaves(engine.as_ref()) == expected,
            "{what}: {}",
            engine.name()
        );
    }
}

#[test]
fn very_many_headers_are_what_they_are_on_every_engine_whatever_a_parser_does_besides() {
    for (what, besides) in BESIDES {
        check(what, &v1model(16, besides, ""));
    }
}

#[test]
fn very_many_headers_that_are_parsed_again_are_what_they_are_on_every_engine() {
    for (what, besides) in BESIDES {
        check(what, &psa(16, besides));
    }
}

#[test]
fn very_many_fields_are_what_they_are_on_every_engine() {
    check("has many fields", &v1model(320, "", ""));
}

#[test]
fn very_many_fields_of_headers_that_are_written_are_what_they_are_on_every_engine() {
    for (what, besides) in BESIDES {
        check(what, &v1model(16, besides, &raises()));
    }
    check("has many fields", &v1model(320, "", &raises()));
}

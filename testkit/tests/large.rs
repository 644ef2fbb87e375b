//! Programs of very many headers and fields: native code keeps what it cannot keep in registers elsewhere, and does the same.

use std::collections::BTreeSet;
use std::fmt::Write;

use packet::{Frame, Nanos, PortId};
use switch::{Device, DeviceConfig};

/// Headers that a parser goes through.
const HEADERS: usize = 24;

/// What a header has beside its kind, by which the parser goes on: fields that share bytes, and one of more than a word.
const FIELDS: [(&str, u32); 5] = [("a", 4), ("b", 12), ("c", 16), ("d", 40), ("e", 80)];

/// A parser in which each header may be followed by the next one or the one behind that, or by none; controls that copy, write, read and drop headers
/// and note much in so many fields of metadata; packets that leave the usual way before egress, where they are too deep for a queue that there is, and behind it.
fn program(metadata: usize) -> String {
    let mut text = String::from("#include <core.p4>\n#include <v1model.p4>\n");
    let fields: String = FIELDS
        .iter()
        .map(|(name, width)| format!("bit<{width}> {name}; "))
        .collect();
    write!(text, "header h_t {{ bit<8> kind; {fields}}}\nheader end_t {{ bit<16> sum; bit<8> count; }}\nstruct headers_t {{ end_t end; ").unwrap();
    (0..HEADERS).for_each(|at| write!(text, "h_t h{at}; ").unwrap());
    text.push_str("}\nstruct metadata_t { bit<8> seen; ");
    (0..metadata).for_each(|at| write!(text, "bit<16> m{at}; ").unwrap());
    text.push_str("}\nparser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {\n");
    text.push_str("state start { transition s0; }\n");
    for at in 0..HEADERS {
        let next = |by: usize| match at + by < HEADERS {
            true => format!("s{}", at + by),
            false => String::from("accept"),
        };
        // A header that was extracted before is looked at again, be it there or not.
        let before = format!("hdr.h{}.b", at.saturating_sub(2));
        writeln!(
            text,
            "state s{at} {{ packet.extract(hdr.h{at}); meta.seen = meta.seen + 1;\n\
             transition select(hdr.h{at}.kind[1:0], {before}[0:0]) {{ (0, _): accept; (1, 0): {}; (2, _): {}; (3, 1): reject; (_, 1): {}; default: {}; }} }}",
            next(1), next(2), next(1), next(2),
        )
        .unwrap();
    }
    text.push_str("}\ncontrol V(inout headers_t hdr, inout metadata_t meta) { apply {} }\n");
    text.push_str("control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {\n");
    text.push_str("std.egress_spec = 3;\nhdr.end.setValid();\n");
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
    text.push_str("if (meta.m1[1:0] == 1) { std.priority = 1; }\nif (meta.m2[3:0] == 6) { std.egress_spec = 511; }\n} }\n");
    text.push_str("control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {\n");
    text.push_str("hdr.end.sum = (bit<16>)std.ingress_port;\n");
    (0..metadata).for_each(|at| {
        writeln!(
            text,
            "hdr.end.sum = (hdr.end.sum[14:0] ++ hdr.end.sum[15:15]) + meta.m{at};"
        )
        .unwrap();
    });
    text.push_str("hdr.end.count = meta.seen;\nif (meta.m3[2:0] == 2) { truncate(64); }\n} }\n");
    text.push_str("control C(inout headers_t hdr, inout metadata_t meta) { apply {} }\n");
    text.push_str(
        "control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }\n",
    );
    text.push_str("V1Switch(P(), V(), I(), E(), C(), D()) main;\n");
    text
}

/// Frames of any bytes and lengths, by a generator after Marsaglia.
fn frames() -> Vec<Frame> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
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

fn check(metadata: usize) {
    let program = testkit::compile_text(&program(metadata)).unwrap();
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
    // The header that is emitted first says how many were parsed.
    let counts = expected.iter().filter_map(|(_, bytes)| bytes.get(2));
    let counts: BTreeSet<&u8> = counts.collect();
    assert!(
        expected.len() > 300 && counts.len() > 8,
        "{} {counts:?}",
        expected.len()
    );
    for engine in &engines[1..] {
        assert!(leaves(engine.as_ref()) == expected, "{}", engine.name());
    }
}

#[test]
fn very_many_headers_are_what_they_are_on_every_engine() {
    check(40);
}

#[test]
fn very_many_fields_are_what_they_are_on_every_engine() {
    check(320);
}

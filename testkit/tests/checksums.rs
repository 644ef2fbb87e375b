//! Tests of repeated checksums over the same headers, over more or fewer bytes, before and after
//! fields change. In each case every engine must give the results of the first one, packet by
//! packet.

use exec::Engine;
use packet::{Frame, Nanos};
use support::rng::Xorshift;
use switch::{Device, DeviceConfig};

/// Parts of a program, as P4 text: what it verifies, changes in ingress, and updates.
struct Case {
    verifies: &'static str,
    changes: &'static str,
    updates: &'static str,
}

/// `h` is in all packets. `t`, and elements of the stack `s`, are present if bits of `h.kind` are
/// set. `h.kind` also has a bit for each condition of a case.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind; bit<8> a; bit<16> b; bit<16> sum; bit<16> c; bit<32> d; bit<8> e; bit<24> f; bit<4> g; bit<12> i; bit<16> j; bit<48> k; bit<8> l; bit<8> m;
}
header t_t { bit<8> p; bit<16> sum; bit<16> q; bit<8> r; bit<32> v; bit<16> w; bit<16> n; bit<16> o; bit<16> y; bit<16> z; }
header s_t { bit<16> x; bit<16> sum; bit<32> y; }
struct headers_t { h_t h; t_t t; s_t[2] s; }
struct metadata_t { bit<16> none; bit<8> odd; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind[7:6]) {
            1 : tail;
            2 : stack;
            3 : again;
            default : accept;
        }
    }
    state tail { packet.extract(hdr.t); transition accept; }
    state again { packet.extract(hdr.t); packet.extract(hdr.t); transition accept; }
    state stack { packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { @verifies@ } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = sm.checksum_error == 1 ? 9w2 : 9w1;
        @changes@
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply { @updates@ } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const CASES: &[Case] = &[
    // The update covers everything that was verified. An even and an odd byte change.
    Case {
        verifies: "verify_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.g, hdr.h.i, hdr.h.j }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.e = hdr.h.e - 1;",
        updates: "update_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.g, hdr.h.i, hdr.h.j }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    Case {
        verifies: "verify_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.g, hdr.h.i, hdr.h.j }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.a = hdr.h.a - 1; hdr.h.f = hdr.h.f + 7;",
        updates: "update_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.g, hdr.h.i, hdr.h.j }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    // The field changes only in some packets, and may keep its value.
    Case {
        verifies: "verify_checksum(hdr.h.kind[0:0] == 1, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "if (hdr.h.kind[1:1] == 1) { hdr.h.c = hdr.h.j; }",
        updates: "update_checksum(hdr.h.kind[2:2] == 1, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    // The longer of two sums is not computed in every packet in which the shorter one is.
    Case {
        verifies: "verify_checksum(hdr.h.kind[0:0] == 1, { hdr.h.b, hdr.h.c }, hdr.h.sum, HashAlgorithm.csum16);
            verify_checksum(hdr.h.kind[1:1] == 1, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.c = 3;",
        updates: "update_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    // The reverse; then neither sum covers all bytes.
    Case {
        verifies: "verify_checksum(hdr.h.kind[0:0] == 1, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f }, hdr.h.sum, HashAlgorithm.csum16);
            verify_checksum(hdr.h.kind[1:1] == 1, { hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.e = 0;",
        updates: "update_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.h.sum, HashAlgorithm.csum16);
            update_checksum(true, { hdr.h.d, hdr.h.f, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.j, HashAlgorithm.csum16);",
    },
    // Words that were summed separately become adjacent, and their total exceeds 32 bits.
    Case {
        verifies: "verify_checksum(hdr.h.kind[0:0] == 1, { hdr.t.n, 16w0, hdr.t.o, 16w0, hdr.t.y, 16w0, hdr.t.z }, hdr.t.sum, HashAlgorithm.csum16);",
        changes: "",
        updates: "update_checksum(true, { hdr.t.n, hdr.t.o, hdr.t.y, hdr.t.z }, hdr.t.sum, HashAlgorithm.csum16);",
    },
    // Bytes at even positions move to odd ones, and some occur twice.
    Case {
        verifies: "verify_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.j }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.b = 0xffff;",
        updates: "update_checksum(true, { 8w1, hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.j, 8w0 }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    Case {
        verifies: "verify_checksum(true, { hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.d, hdr.h.j, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.j = hdr.h.j + 1;",
        updates: "update_checksum(true, { hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.j, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.sum, HashAlgorithm.csum16);
            update_checksum(true, { hdr.h.e, hdr.h.f, hdr.h.j, hdr.h.k, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.b, HashAlgorithm.csum16);
            update_checksum(true, { hdr.h.e, hdr.h.f, hdr.h.j, hdr.h.k, hdr.h.l, hdr.h.m }, hdr.h.c, HashAlgorithm.csum16);",
    },
    // Fields that are not whole bytes, one of which changes.
    Case {
        verifies: "verify_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.g, hdr.h.i, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
        changes: "hdr.h.g = hdr.h.g + 1;",
        updates: "update_checksum(true, { hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.g, hdr.h.i, hdr.h.j, hdr.h.k }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    // A header that some packets have, some even twice, and that is removed and added again.
    Case {
        verifies: "verify_checksum(true, { hdr.t.p, hdr.t.r, hdr.t.q, hdr.t.v, hdr.t.w, hdr.h.b }, hdr.t.sum, HashAlgorithm.csum16);",
        changes: "hdr.t.q = hdr.t.q - 1;",
        updates: "update_checksum(true, { hdr.t.p, hdr.t.r, hdr.t.q, hdr.t.v, hdr.t.w, hdr.h.b }, hdr.t.sum, HashAlgorithm.csum16);
            update_checksum(true, { hdr.t.v, hdr.t.w, hdr.h.b, hdr.t.p, hdr.t.r }, hdr.h.sum, HashAlgorithm.csum16);",
    },
    Case {
        verifies: "verify_checksum(hdr.t.isValid(), { hdr.t.p, hdr.t.r, hdr.t.q, hdr.t.v, hdr.t.w }, hdr.t.sum, HashAlgorithm.csum16);",
        changes: "if (hdr.h.kind[0:0] == 1) { hdr.t.setInvalid(); }
            if (hdr.h.kind[1:1] == 1) { hdr.t.setValid(); hdr.t.p = 1; hdr.t.sum = 2; hdr.t.q = 3; hdr.t.r = 4; hdr.t.v = 5; hdr.t.w = 6; }",
        updates: "update_checksum(hdr.t.isValid(), { hdr.t.p, hdr.t.r, hdr.t.q, hdr.t.v, hdr.t.w }, hdr.t.sum, HashAlgorithm.csum16);",
    },
    // Elements of a stack, one of which is copied.
    Case {
        verifies: "verify_checksum(hdr.s[0].isValid(), { hdr.s[0].x, hdr.s[0].y, hdr.s[1].x, hdr.s[1].y }, hdr.s[0].sum, HashAlgorithm.csum16);",
        changes: "hdr.s[1].x = hdr.h.b; if (hdr.h.kind[0:0] == 1) { hdr.s[0] = hdr.s[1]; }",
        updates: "update_checksum(hdr.s[0].isValid(), { hdr.s[0].x, hdr.s[0].y, hdr.s[1].x, hdr.s[1].y }, hdr.s[0].sum, HashAlgorithm.csum16);
            update_checksum(hdr.s[1].isValid(), { hdr.s[1].y, hdr.s[1].x }, hdr.s[1].sum, HashAlgorithm.csum16);",
    },
];

/// PSA: the parser subtracts from a running sum or adds to it, and the deparser adds changed
/// fields. `@parse@` and `@deparse@` are code on the sum `ck`, which the parser stores in
/// `meta.state`.
const RUNNING: &str = r#"
#include <core.p4>
#include <psa.p4>

header h_t { bit<8> kind; bit<8> a; bit<16> b; bit<16> sum; bit<16> c; bit<32> d; bit<8> e; bit<24> f; bit<32> k; }
struct headers_t { h_t h; h_t g; }
struct metadata_t { bit<16> state; }
struct empty_t { }

parser IP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmit_meta, in empty_t recirculate_meta) {
    InternetChecksum() ck;
    state start {
        packet.extract(hdr.h);
        ck.clear();
        @parse@
        meta.state = ck.get_state();
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply { send_to_port(ostd, (PortId_t)2); @changes@ }
}
control ID(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta, inout headers_t hdr,
           in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    InternetChecksum() ck;
    apply {
        ck.clear();
        @deparse@
        packet.emit(hdr);
    }
}
parser EP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t istd, in empty_t normal_meta,
          in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    InternetChecksum() ck;
    state start {
        packet.extract(hdr.h);
        ck.clear();
        ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k });
        meta.state = ck.get_state();
        transition accept;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { hdr.h.c = hdr.h.c ^ meta.state; }
}
control ED(packet_out packet, out empty_t clone_e2e_meta, out empty_t recirculate_meta, inout headers_t hdr, in metadata_t meta,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    InternetChecksum() ck;
    apply {
        ck.clear();
        ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f });
        hdr.h.k[15:0] = ck.get();
        packet.emit(hdr);
    }
}
IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
"#;

/// Code for `RUNNING`: parse, changes, deparse.
const RUNNING_CASES: &[[&str; 3]] = &[
    [
        "ck.subtract(hdr.h.sum); ck.subtract({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k });",
        "hdr.h.e = hdr.h.e - 1; hdr.h.b = hdr.h.c;",
        "ck.set_state(meta.state); ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k }); hdr.h.sum = ck.get();",
    ],
    [
        "ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k }); ck.subtract({ hdr.h.d, hdr.h.e, hdr.h.f });",
        "hdr.h.kind = 0; hdr.h.d = 0xffffffff;",
        "ck.subtract({ hdr.h.a, 8w0, hdr.h.b, hdr.h.c, hdr.h.k }); hdr.h.sum = ck.get(); ck.add({ hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k }); hdr.h.b = ck.get_state();",
    ],
    // In some packets a header is extracted twice into the same header instance.
    [
        "ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f, hdr.h.k });
            if (hdr.h.kind[0:0] == 1) { packet.extract(hdr.h); }
            if (hdr.h.kind[1:1] == 1) { ck.subtract({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d, hdr.h.e, hdr.h.f }); packet.extract(hdr.g); }
            ck.subtract({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d });
            ck.add({ hdr.g.kind, hdr.g.a, hdr.g.b, hdr.g.c, hdr.g.d });",
        "hdr.h.a = hdr.h.a - 1; hdr.g.a = hdr.g.a + 1;",
        "ck.set_state(meta.state); ck.add({ hdr.h.kind, hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }); ck.subtract({ hdr.g.kind, hdr.g.a, hdr.g.b, hdr.g.c, hdr.g.d }); hdr.h.sum = ck.get();",
    ],
];

/// Returns packets with bytes that are all zero, all ones, mixed, or random. Their lengths end in
/// any header. The first byte, the kind, takes all values.
fn packets() -> Vec<Vec<u8>> {
    let mut rng = Xorshift::new(0x9e37_79b9_7f4a_7c15);
    let mut random = move || rng.bits();
    let mut packet = |number: usize| {
        let length = if number % 9 == 8 { number % 70 } else { 80 };
        let of_kind = number / 256;
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| match of_kind {
                0 => 0,
                1 => 0xff,
                2 => [0, 0xff][random() as usize % 2],
                3 => [0, 0, 0, 0xff, 1][random() as usize % 5],
                _ => random() as u8,
            })
            .collect();
        if let Some(kind) = bytes.first_mut() {
            *kind = number as u8;
        }
        bytes
    };
    (0..6 * 256).map(&mut packet).collect()
}

/// Forwards these packets, and then those that were sent, which have valid sums, a second time.
/// Returns all packets sent, with their ports.
fn leaves(engine: &dyn Engine, program: &str) -> Vec<(u32, Vec<u8>)> {
    let program = testkit::compile_text(program).unwrap_or_else(|errors| panic!("{errors}"));
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let mut forward = |packets: &[Vec<u8>]| {
        let mut left = Vec::new();
        for packets in packets.chunks(50) {
            let frames = packets
                .iter()
                .map(|bytes| Frame::from_bytes(bytes).unwrap());
            let mut frames: Vec<Frame> = frames.collect();
            device.forward(&mut frames, Nanos(1), |port, frame, _| {
                left.push((port.0, frame.bytes().to_vec()));
            });
        }
        left
    };
    let mut all = forward(&packets());
    let once_more: Vec<Vec<u8>> = all.iter().map(|(_, bytes)| bytes.clone()).collect();
    all.extend(forward(&once_more));
    all
}

/// Returns the failures on all engines.
fn failures(program: &str, case: &str) -> Vec<String> {
    let engines = testkit::engines();
    let expected = leaves(engines[0].as_ref(), program);
    assert!(
        expected.len() > 2000,
        "only {} left: {case}",
        expected.len()
    );
    let differs = |engine: &dyn Engine| {
        let left = leaves(engine, program);
        assert_eq!(left.len(), expected.len(), "{case}");
        let (left, expected) = left.iter().zip(&expected).find(|(l, e)| l != e)?;
        let name = engine.name();
        Some(format!("{name}: {left:02x?} for {expected:02x?}: {case}"))
    };
    engines[1..]
        .iter()
        .filter_map(|e| differs(e.as_ref()))
        .collect()
}

#[test]
fn what_was_verified_is_updated() {
    let failures = CASES.iter().flat_map(|case| {
        let program = PROGRAM.replace("@verifies@", case.verifies);
        let program = program.replace("@changes@", case.changes);
        failures(&program.replace("@updates@", case.updates), case.updates)
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn running_sums_lose_and_get_the_same_fields() {
    let failures = RUNNING_CASES.iter().flat_map(|[parse, changes, deparse]| {
        let program = RUNNING.replace("@parse@", parse);
        let program = program.replace("@changes@", changes);
        failures(&program.replace("@deparse@", deparse), parse)
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

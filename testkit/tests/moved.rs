//! Tests of packets that start at another position when they are sent. Headers are added in front
//! and removed, once and twice, up to the end of the headroom.

use std::fmt::Write;

use exec::Engine;
use packet::{Frame, MAX_FRAME, Nanos, PortId};
use switch::{Device, DeviceConfig};

/// Size in bytes of a header that is added in front.
const MORE: usize = 60;

/// Code that changes headers by two bits of the packet: adds three headers, one or none, or removes
/// one.
const CHANGE: &str = "if (hdr.first.kind[1:0] == 0) { hdr.a.setValid(); hdr.a.x = 7; hdr.b.setValid(); hdr.b.x = 8; hdr.c.setValid(); hdr.c.x = 9; }
    else if (hdr.first.kind[1:0] == 1) { hdr.a.setValid(); hdr.a.x = 10; }
    else if (hdr.first.kind[1:0] == 2) { hdr.second.setInvalid(); }
    hdr.first.kind = hdr.first.kind >> 2;\n";

const EMITS: &str = "packet.emit(hdr.a); packet.emit(hdr.b); packet.emit(hdr.c); packet.emit(hdr.first); packet.emit(hdr.second);";

fn declarations(architecture: &str) -> String {
    let mut text = format!("#include <core.p4>\n#include <{architecture}.p4>\n");
    let rest = (MORE - 8) * 8 / 4;
    writeln!(
        text,
        "header more_t {{ bit<64> x; bit<{rest}> p; bit<{rest}> q; bit<{rest}> r; bit<{rest}> s; }}"
    )
    .unwrap();
    text + "header first_t { bit<8> kind; bit<8> n; }\nheader second_t { bit<48> y; }\n\
           struct headers_t { more_t a; more_t b; more_t c; first_t first; second_t second; }\nstruct empty_t {}\n"
}

fn v1model() -> String {
    declarations("v1model")
        + &format!(
            "parser P(packet_in packet, out headers_t hdr, inout empty_t meta, inout standard_metadata_t std) {{
    state start {{ packet.extract(hdr.first); packet.extract(hdr.second); transition accept; }}
}}
control V(inout headers_t hdr, inout empty_t meta) {{ apply {{}} }}
control I(inout headers_t hdr, inout empty_t meta, inout standard_metadata_t std) {{ apply {{ std.egress_spec = 3;\n{CHANGE} }} }}
control E(inout headers_t hdr, inout empty_t meta, inout standard_metadata_t std) {{ apply {{ if (hdr.first.n[1:0] == 3) {{ truncate(40); }} }} }}
control C(inout headers_t hdr, inout empty_t meta) {{ apply {{}} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ {EMITS} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
        )
}

/// Egress parses the headers added by ingress as the original ones, and adds more in front.
fn psa() -> String {
    let parses =
        "state start { packet.extract(hdr.first); packet.extract(hdr.second); transition accept; }";
    declarations("psa")
        + &format!(
            "parser IP(packet_in packet, out headers_t hdr, inout empty_t meta, in psa_ingress_parser_input_metadata_t im, in empty_t a, in empty_t b) {{ {parses} }}
control I(inout headers_t hdr, inout empty_t meta, in psa_ingress_input_metadata_t im, inout psa_ingress_output_metadata_t om) {{ apply {{
    {CHANGE}send_to_port(om, (PortId_t)(PortIdUint_t)3);
}} }}
control ID(packet_out packet, out empty_t a, out empty_t b, out empty_t c, inout headers_t hdr, in empty_t meta, in psa_ingress_output_metadata_t om) {{
    apply {{ {EMITS} }}
}}
parser EP(packet_in packet, out headers_t hdr, inout empty_t meta, in psa_egress_parser_input_metadata_t im, in empty_t a, in empty_t b, in empty_t c) {{ {parses} }}
control E(inout headers_t hdr, inout empty_t meta, in psa_egress_input_metadata_t im, inout psa_egress_output_metadata_t om) {{ apply {{
    {CHANGE}
}} }}
control ED(packet_out packet, out empty_t a, out empty_t b, inout headers_t hdr, in empty_t meta, in psa_egress_output_metadata_t om, in psa_egress_deparser_input_metadata_t im) {{
    apply {{ {EMITS} }}
}}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;\n"
        )
}

/// Returns short frames, and some near the maximum length.
fn frames() -> Vec<Frame> {
    let shorts = (0..400).map(|at| 8 + at * 7 % 300);
    let longs = [
        0,
        1,
        MORE - 1,
        MORE,
        MORE + 1,
        3 * MORE - 1,
        3 * MORE,
        3 * MORE + 1,
    ];
    let longs = longs.into_iter().flat_map(|less| [MAX_FRAME - less; 16]);
    let frame = |(number, length): (usize, usize)| {
        let mut bytes: Vec<u8> = (0..length).map(|at| (at * 31 + number) as u8).collect();
        (bytes[0], bytes[1]) = ((number % 16) as u8, (number / 16) as u8);
        let mut frame = Frame::from_bytes(&bytes).expect("it is no longer than a frame");
        frame.ingress = PortId(1);
        frame
    };
    shorts.chain(longs).enumerate().map(frame).collect()
}

fn check(text: &str) {
    let program = testkit::compile_text(text).unwrap_or_else(|error| panic!("{error}"));
    let leaves = |engine: &dyn Engine| {
        let config = DeviceConfig::default();
        let mut device = Device::new(program.clone(), engine, &config).expect("it runs");
        let mut left = Vec::new();
        for frames in frames().chunks_mut(32) {
            device.forward(frames, Nanos(1), |port, frame, _| {
                left.push((port.0, frame.bytes().to_vec()));
            });
        }
        left
    };
    let engines = testkit::engines();
    let expected = leaves(engines[0].as_ref());
    assert!(expected.len() > 400, "{}", expected.len());
    assert!(expected.len() < frames().len(), "some are too long");
    for engine in &engines[1..] {
        assert!(leaves(engine.as_ref()) == expected, "{}", engine.name());
    }
}

#[test]
fn packets_that_grow_and_shrink_are_what_they_are_on_every_engine() {
    check(&v1model());
}

#[test]
fn packets_that_grow_and_shrink_twice_are_what_they_are_on_every_engine() {
    check(&psa());
}

//! Bursts on every engine: what the architecture tells of each packet is told before a table asks for it.

use std::sync::Arc;

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use switch::{Device, DeviceConfig};

/// Packets from the host leave by port 1, those from the network by port 2.
const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>

header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply {} }
control C(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
          inout pna_main_output_metadata_t ostd) {
    action to(PortId_t port) { send_to_port(port); }
    table ways {
        key = { istd.direction : exact; }
        actions = { to; }
        default_action = to((PortId_t)3);
        const entries = {
            PNA_Direction_t.HOST_TO_NET : to((PortId_t)1);
            PNA_Direction_t.NET_TO_HOST : to((PortId_t)2);
        }
    }
    apply { ways.apply(); }
}
control D(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr); }
}

PNA_NIC(P(), Pre(), C(), D()) main;
"#;

const HOST: u32 = 5;

fn check(engine: &dyn Engine) {
    let program = testkit::compile_text(PROGRAM).unwrap();
    let config = DeviceConfig {
        host_ports: vec![HOST],
        ..DeviceConfig::default()
    };
    let mut device = Device::new(program, engine, &config).unwrap();
    let frame = |number: u32| {
        let mut frame = Frame::from_bytes(&[0; 20]).unwrap();
        frame.ingress = PortId(if number.is_multiple_of(3) { HOST } else { 0 });
        frame
    };
    let mut frames: Vec<Frame> = (0..64).map(frame).collect();
    let mut left = Vec::new();
    device.forward(&mut frames, Nanos(1), |port, _, _| left.push(port.0));
    let expected = (0..64u32).map(|number| if number.is_multiple_of(3) { 1 } else { 2 });
    assert_eq!(left, expected.collect::<Vec<_>>(), "{}", engine.name());
}

#[test]
fn a_table_asks_by_the_direction_that_each_packet_of_a_burst_has() {
    for engine in testkit::engines() {
        check(Arc::as_ref(&engine));
    }
}

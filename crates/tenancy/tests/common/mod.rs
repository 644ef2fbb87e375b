//! Programs and packets for tests of virtual data planes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::sync::Arc;

use ir::Program;
use packet::{Frame, Nanos, PortId};
use tenancy::{Connection, Spec, TenantSwitch, VirtualPort, VpdpId, Worker};

/// Compiles a v1model program with this code in the ingress control. Its packets begin with a mark
/// and a number.
pub fn program(body: &str) -> Arc<Program> {
    program_with_egress(body, "apply {}")
}

/// Compiles [`program`] with this code in the egress control.
pub fn program_with_egress(body: &str, egress: &str) -> Arc<Program> {
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>

header h_t {{ bit<8> mark; bit<8> number; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ @field_list(1) bit<16> passes; }}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    {body}
}}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{
    {egress}
}}
control Compute(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#
    );
    testkit::compile_text(&text).unwrap()
}

/// Sets the mark of packets, counts them in a register, and sends them between ports 0 and 1.
pub fn marker(mark: u8) -> Arc<Program> {
    program(&format!(
        "register<bit<32>>(1) seen;
         apply {{
             bit<32> count;
             seen.read(count, 0);
             seen.write(0, count + 1);
             hdr.h.mark = {mark};
             standard.egress_spec = standard.ingress_port ^ 1;
         }}"
    ))
}

/// Resubmits every packet for ever.
pub fn resubmitter() -> Arc<Program> {
    program("apply { standard.egress_spec = 1; resubmit_preserving_field_list(1); }")
}

/// Returns a hypervisor that uses the interpreter.
pub fn hypervisor() -> TenantSwitch {
    TenantSwitch::new(Arc::new(interp::Interp))
}

pub fn id(number: u16) -> VpdpId {
    VpdpId::new(number).unwrap()
}

pub fn port(vpdp: u16, port: u32) -> VirtualPort {
    VirtualPort {
        vpdp: id(vpdp),
        port,
    }
}

/// Returns the configuration of a vPDP with these physical ports.
pub fn spec(number: u16, ports: &[u32]) -> Spec {
    let ports = ports.iter().map(|port| Connection::Physical(PortId(*port)));
    Spec {
        id: Some(id(number)),
        name: format!("tenant {number}"),
        owner: "tests".into(),
        ports: ports.collect(),
        ..Spec::default()
    }
}

pub fn frame(port: u32, bytes: &[u8]) -> Frame {
    let mut frame = Frame::from_bytes(bytes).unwrap();
    frame.ingress = PortId(port);
    frame
}

/// Packets that were sent, in order: port and bytes.
pub type Sent = Vec<(u32, Vec<u8>)>;

/// Forwards frames, and lets the worker report its statistics.
pub fn forward(worker: &mut Worker, frames: &mut [Frame], now: u64) -> Sent {
    let mut all = Sent::new();
    let mut take = |port: PortId, frame: &mut Frame, _: Nanos| {
        all.push((port.0, frame.bytes().to_vec()));
    };
    worker.forward(frames, Nanos(now), &mut take);
    worker.forward(&mut [], Nanos(now), &mut take);
    all
}

/// Runs the worker until no packets wait in it.
pub fn finish(worker: &mut Worker, mut now: Nanos, mut take: impl FnMut(PortId, &mut Frame)) {
    let mut calls = 0;
    while let Some(next) = worker.next_time() {
        now = now.max(next);
        worker.forward(&mut [], now, |port, frame, _| take(port, frame));
        calls += 1;
        assert!(calls < 100_000, "packets wait for ever");
    }
}

/// Returns the ports and marks of sent packets.
pub fn marks(sent: &Sent) -> Vec<(u32, u8)> {
    sent.iter().map(|(port, bytes)| (*port, bytes[0])).collect()
}

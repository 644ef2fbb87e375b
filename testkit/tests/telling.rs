//! Tests of digests and log messages of the packets in a burst, on every engine. All must be
//! delivered once and in order, whatever happens to the packets and however long bursts are.

use std::sync::Arc;

use exec::{
    CompiledFastPath, ControlVerdict, Engine, FastPath, Loaded, Natives, PacketContext,
    ParserVerdict, State, Tracer, Unsupported,
};
use ir::{ControlId, Layout, ParserId, Program};
use packet::{Frame, Nanos};
use switch::{Device, DeviceConfig};

/// Bits of a packet's first byte select what it reports, and what happens to it.
const V1MODEL: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> value; bit<8> number; }
struct headers_t { h_t h; }
struct told_t { bit<8> value; bit<8> number; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (hdr.h.kind[0:0] == 1) { digest<told_t>(1, { hdr.h.value, hdr.h.number }); }
        if (hdr.h.kind[1:1] == 1) { log_msg("value {} of {}", { hdr.h.value, hdr.h.number }); }
        if (hdr.h.kind[2:2] == 1) { mark_to_drop(s); }
        if (hdr.h.kind[3:3] == 1 && s.instance_type == 0) { resubmit_preserving_field_list(0); }
        if (hdr.h.kind[4:4] == 1) { assert(hdr.h.value < 100); }
        hdr.h.value = hdr.h.value + 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    apply {
        if (hdr.h.kind[5:5] == 1) { log_msg("egress of {}", { hdr.h.number }); }
        if (hdr.h.kind[6:6] == 1) { truncate(2); }
        if (hdr.h.kind[7:7] == 1) { mark_to_drop(s); }
    }
}
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const PSA: &str = r#"
#include <core.p4>
#include <psa.p4>

header h_t { bit<8> kind; bit<8> value; bit<8> number; }
struct headers_t { h_t h; }
struct told_t { bit<8> value; bit<8> number; }
struct empty_t { }
struct metadata_t { bool tells; told_t told; }

parser IP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmitted, in empty_t recirculated) {
    state start { packet.extract(hdr.h); transition accept; }
}
control I(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    apply {
        send_to_port(ostd, (PortId_t)1);
        meta.tells = hdr.h.kind[0:0] == 1;
        meta.told = { hdr.h.value, hdr.h.number };
        if (hdr.h.kind[2:2] == 1) { ingress_drop(ostd); }
        ostd.resubmit = hdr.h.kind[3:3] == 1 && istd.packet_path != PSA_PacketPath_t.RESUBMIT;
        hdr.h.value = hdr.h.value + 1;
    }
}
control ID(packet_out packet, out empty_t cloned, out empty_t resubmitted, out empty_t normal, inout headers_t hdr,
           in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    Digest<told_t>() messages;
    apply {
        if (meta.tells) { messages.pack(meta.told); }
        packet.emit(hdr.h);
    }
}
parser EP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t istd,
          in empty_t normal, in empty_t cloned_ingress, in empty_t cloned_egress) {
    state start { packet.extract(hdr.h); transition accept; }
}
control E(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply { if (hdr.h.kind[7:7] == 1) { egress_drop(ostd); } }
}
control ED(packet_out packet, out empty_t cloned, out empty_t recirculated, inout headers_t hdr, in metadata_t meta,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.h); }
}

IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
"#;

/// Returns packets of all kinds, with plain ones between them.
fn frames() -> Vec<Frame> {
    let frame = |number: u32| {
        let kind = match number % 3 {
            0 => 0,
            _ => number.wrapping_mul(37),
        };
        let bytes = [kind as u8, (number % 120) as u8, number as u8, 9, 9];
        Frame::from_bytes(&bytes).unwrap()
    };
    (0..256).map(frame).collect()
}

/// The packets sent, and everything that they reported.
#[derive(Debug, Default, PartialEq)]
struct Fates {
    left: Vec<(u32, Vec<u8>)>,
    digests: Vec<(Vec<u64>, Nanos)>,
    messages: Vec<String>,
    dropped: u64,
}

fn fates(engine: &dyn Engine, program: &str, burst: usize) -> Fates {
    let program = testkit::compile_text(program).unwrap();
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let mut fates = Fates::default();
    for frames in frames().chunks_mut(burst) {
        device.forward(frames, Nanos(1), |port, frame, _| {
            fates.left.push((port.0, frame.bytes().to_vec()));
        });
        while let Some(digest) = device.take_digest() {
            fates.digests.push((digest.limbs, digest.time));
        }
        fates
            .messages
            .extend(std::iter::from_fn(|| device.take_message()));
    }
    assert_eq!(device.lost_messages(), 0);
    fates.dropped = device.ledger().drops().map(|(_, packets)| packets).sum();
    fates
}

fn check(program: &str) -> Fates {
    let engines = testkit::engines();
    let expected = fates(engines[0].as_ref(), program, 1);
    for engine in &engines {
        for burst in [1, 3, 64, 256] {
            let fates = fates(engine.as_ref(), program, burst);
            assert_eq!(fates, expected, "{} {burst}", engine.name());
        }
    }
    expected
}

#[test]
fn packets_tell_all_that_they_have_to_tell_whatever_becomes_of_them() {
    let fates = check(V1MODEL);
    assert!(fates.digests.len() > 80 && fates.messages.len() > 80 && fates.dropped > 40);
}

#[test]
fn digests_of_a_deparser_are_told_whatever_becomes_of_their_packets() {
    let fates = check(PSA);
    assert!(fates.digests.len() > 80 && fates.dropped > 40);
}

/// Engine with which a packet cannot continue after it leaves the fast path.
struct PassAlone(Arc<dyn Engine>);

struct PassAloneProgram(Arc<dyn Loaded>);

impl Engine for PassAlone {
    fn name(&self) -> &'static str {
        "pass alone"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = self.0.load(program, layout, natives)?;
        Ok(Arc::new(PassAloneProgram(loaded)))
    }
}

impl Loaded for PassAloneProgram {
    fn scratch_limbs(&self) -> usize {
        self.0.scratch_limbs()
    }

    fn prepare(&self, packet: &mut PacketContext) {
        self.0.prepare(packet);
    }

    fn run_parser(&self, _: ParserId, _: &mut PacketContext, _: &State) -> ParserVerdict {
        panic!("a packet has left its pass")
    }

    fn run_control(&self, _: ControlId, _: &mut PacketContext, _: &State) -> ControlVerdict {
        panic!("a packet has left its pass")
    }

    fn fuse(&self, pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        self.0.fuse(pass)
    }

    fn trace_parser(
        &self,
        _: ParserId,
        _: &mut PacketContext,
        _: &State,
        _: &mut dyn Tracer,
    ) -> ParserVerdict {
        panic!("nobody traces")
    }

    fn trace_control(
        &self,
        _: ControlId,
        _: &mut PacketContext,
        _: &State,
        _: &mut dyn Tracer,
    ) -> ControlVerdict {
        panic!("nobody traces")
    }
}

#[test]
fn a_packet_that_only_tells_something_goes_on_in_its_pass() {
    let mut engines = testkit::engines().into_iter();
    let jit = engines.find(|engine| engine.name() == "jit").unwrap();
    let resubmits =
        "if (hdr.h.kind[3:3] == 1 && s.instance_type == 0) { resubmit_preserving_field_list(0); }";
    assert!(V1MODEL.contains(resubmits));
    let program = V1MODEL
        .replace(resubmits, "")
        .replace("if (hdr.h.kind[6:6] == 1) { truncate(2); }", "");
    let stays = fates(&PassAlone(Arc::clone(&jit)), &program, 64);
    assert_eq!(stays, fates(jit.as_ref(), &program, 64));
    assert!(stays.digests.len() > 80);
}

//! Tests of large bursts with packets of which the description header selects the vPDP. They are
//! processed in parts. Each packet must be treated as if it were alone, wherever refused packets
//! are and however many vPDPs a part has. A call without frames must report all results to the
//! control side.

use std::sync::Arc;

use exec::{DropReason, Engine};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use tenancy::{
    Connection, EncapHeader, Encapsulation, Sharing, Spec, TenantSwitch, VpdpId, Worker,
};

/// More vPDPs than the smallest part groups by vPDP.
const VPDPS: usize = 12;
/// More frames than two of the largest parts.
const FRAMES: usize = 2600;
/// The port at which all packets arrive, and the first egress port; there is one per vPDP.
const SHARED: PortId = PortId(5);
const FIRST_OUT: u32 = 100;

/// A program that numbers packets in order of arrival.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<32> number; bit<32> count; }
struct headers_t { h_t h; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(1) seen;
    apply {
        @atomic {
            seen.read(hdr.h.count, 0);
            hdr.h.count = hdr.h.count + 1;
            seen.write(0, hdr.h.count);
        }
        standard.egress_spec = 1;
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

struct Switch {
    hypervisor: TenantSwitch,
    worker: Worker,
    vpdps: Vec<VpdpId>,
}

impl Switch {
    fn new(engine: Arc<dyn Engine>, program: &Arc<Program>) -> Switch {
        let mut hypervisor = TenantSwitch::new(engine);
        let sharing = Some(Sharing::Described(Encapsulation::Plain));
        let shared = hypervisor.share_ports([SHARED], sharing);
        shared.expect("nobody has the port");
        let vpdps = (0..VPDPS as u32).map(|vpdp| {
            let ports = [SHARED, PortId(FIRST_OUT + vpdp)];
            let spec = Spec {
                name: format!("tenant {vpdp}"),
                ports: ports.map(Connection::Physical).into(),
                ..Spec::default()
            };
            let id = hypervisor.create(spec).expect("there is room");
            let loaded = hypervisor.load(id, Arc::clone(program));
            loaded.expect("it is taken");
            id
        });
        let vpdps = vpdps.collect();
        Switch {
            worker: hypervisor.workers(1).remove(0),
            hypervisor,
            vpdps,
        }
    }

    fn frame(&self, vpdp: usize, number: usize) -> Frame {
        let mut bytes = (number as u32).to_be_bytes().to_vec();
        bytes.extend([0; 4]);
        let mut frame = Frame::from_bytes(&bytes).expect("a frame");
        let put_on = EncapHeader::new(self.vpdps[vpdp], Encapsulation::Plain).put_on(&mut frame);
        put_on.expect("there is room");
        frame.ingress = SHARED;
        frame
    }

    fn frames(&self, burst: &Burst) -> Vec<Frame> {
        let frame = |at: usize| {
            let mut frame = self.frame(at / burst.run % VPDPS, at);
            if burst.damaged.contains(&at) {
                frame.bytes_mut()[3] ^= 1;
            }
            frame
        };
        (0..FRAMES).map(frame).collect()
    }

    /// Forwards frames, `at_once` per call. Returns the packets sent by each port, and the number
    /// of refused packets.
    fn forward(&mut self, frames: &mut [Frame], at_once: usize) -> (Vec<Vec<Vec<u8>>>, u64) {
        let mut left = vec![Vec::new(); VPDPS];
        let mut take = |port: PortId, frame: &mut Frame, _: Nanos| {
            left[(port.0 - FIRST_OUT) as usize].push(frame.bytes().to_vec());
        };
        for frames in frames.chunks_mut(at_once) {
            self.worker.forward(frames, Nanos(1), &mut take);
        }
        self.worker.forward(&mut [], Nanos(1), &mut take);
        let checked = self.hypervisor.check_conservation();
        checked.expect("none is lost");
        let ledger = self.hypervisor.ledger();
        (left, ledger.dropped(DropReason::BadDescription))
    }

    /// Returns the number of packets that each vPDP has sent, according to the control side.
    fn told(&self) -> Vec<u64> {
        let sent = |id: &VpdpId| {
            let device = self.hypervisor.vpdp(*id).and_then(|vpdp| vpdp.device());
            device.map_or(0, |device| device.ledger().sent)
        };
        self.vpdps.iter().map(sent).collect()
    }
}

#[derive(Debug)]
struct Burst {
    /// Number of consecutive packets of one vPDP.
    run: usize,
    /// Indices of the packets with invalid descriptions.
    damaged: &'static [usize],
}

#[test]
fn packets_of_large_bursts_become_what_they_become_one_by_one() {
    let program = testkit::compile_text(PROGRAM).expect("it compiles");
    // The ninth vPDP first occurs within the smallest part, after it, or only after the end of the
    // largest one.
    let runs = [1, 7, 30, 33, 64, 150, 700];
    let damaged: [&[usize]; 9] = [
        &[],
        &[0],
        &[10],
        &[255],
        &[256],
        &[1023],
        &[1024],
        &[FRAMES - 1],
        &[10, 255, 256, 257, 1023, 1024, 1025, 2047, 2048],
    ];
    for engine in testkit::engines() {
        for run in runs {
            for damaged in damaged {
                let burst = Burst { run, damaged };
                let [mut together, mut alone] =
                    [(); 2].map(|()| Switch::new(Arc::clone(&engine), &program));
                let mut frames = together.frames(&burst);
                let all = together.forward(&mut frames, FRAMES);
                let mut frames = alone.frames(&burst);
                let name = engine.name();
                assert_eq!(all, alone.forward(&mut frames, 1), "{name}: {burst:?}");
                let left: usize = all.0.iter().map(Vec::len).sum();
                let expected = (FRAMES - damaged.len(), damaged.len() as u64);
                assert_eq!((left, all.1), expected, "{name}: {burst:?}");
            }
        }
    }
}

#[test]
fn a_call_without_frames_tells_of_all_whose_packets_went_since_the_last_one() {
    let program = testkit::compile_text(PROGRAM).expect("it compiles");
    for engine in testkit::engines() {
        let name = engine.name();
        let mut switch = Switch::new(engine, &program);
        let mut expected = vec![0; VPDPS];
        // First all vPDPs, then a few at a time, some of them repeatedly.
        let bursts = [
            (0..VPDPS).collect(),
            vec![3],
            vec![3, 7, 3],
            vec![],
            vec![7; 100],
            vec![0, 3],
        ];
        for burst in bursts {
            let frames = burst.iter().map(|&vpdp| switch.frame(vpdp, 0));
            let mut frames: Vec<Frame> = frames.collect();
            burst.iter().for_each(|&vpdp| expected[vpdp] += 1);
            switch.forward(&mut frames, FRAMES);
            assert_eq!(switch.told(), expected, "{name}: {burst:?}");
        }
    }
}

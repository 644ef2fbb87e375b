//! `polyplane run` with ports at rings: frames between processes, without interfaces.

mod lab;

use std::time::{Duration, Instant};

use lab::{Directory, Running, polyplane, said};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, Port, RingPort};

/// A program that connects ports 0 and 1 like a cable.
const CABLE: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = standard.ingress_port ^ 1; }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply {} }
V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

/// Time within which a frame must arrive: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(30);

/// An end of a ring in the test.
struct End {
    port: RingPort,
    start: Instant,
}

impl End {
    fn open(name: &str) -> End {
        End {
            port: RingPort::open(PortId(0), name).expect("a ring needs nothing"),
            start: Instant::now(),
        }
    }

    fn receive(&mut self, batch: &mut Batch) {
        let now = Nanos::from(self.start.elapsed());
        // The other process may be gone for a time.
        let _ = self.port.rx(batch, now);
    }
}

/// Sends a frame until it arrives. Returns the number of frames that arrived before it.
fn carries(from: &mut End, to: &mut End, number: u8) -> usize {
    let frame = Frame::from_bytes(&[number; 90]).unwrap();
    let start = Instant::now();
    let mut others = 0;
    while start.elapsed() < SOON {
        from.receive(&mut Batch::default());
        if from.port.link() == LinkState::Up {
            from.port.tx(std::slice::from_ref(&frame));
        }
        let mut batch = Batch::default();
        to.receive(&mut batch);
        if batch.frames().iter().any(|it| it.bytes() == frame.bytes()) {
            return others;
        }
        others += batch.len();
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("frame {number} does not arrive");
}

#[test]
fn switches_exchange_frames_by_rings_and_again_after_one_was_killed() {
    let dir = Directory::new("ring");
    let program = dir.with("cable.p4", CABLE);
    let name = |part: &str| format!("cli.{}.{part}", std::process::id());
    let start = |one: &str, other: &str| {
        let mut command = polyplane();
        let [one, other] = [("0", one), ("1", other)].map(|(port, part)| {
            let name = name(part);
            format!("{port}=ring:{name}")
        });
        command.args(["run", &program, "--port", &one, "--port", &other, "--json"]);
        Running::start(&mut command)
    };
    let (mut left, mut right) = (End::open(&name("left")), End::open(&name("right")));
    let first = start("left", "middle");
    let second = start("middle", "right");
    carries(&mut left, &mut right, 1);
    carries(&mut right, &mut left, 2);
    drop(second);
    let second = start("middle", "right");
    carries(&mut left, &mut right, 3);
    carries(&mut right, &mut left, 4);
    drop(first);
    let first = start("left", "middle");
    carries(&mut left, &mut right, 5);
    first.signal("TERM");
    let report = first.finish();
    assert_eq!(report.status, Some(0), "{}", report.err);
    let received = &report.json()["ports"][0]["received"]["packets"];
    assert!(
        received.as_u64().is_some_and(|count| count > 0),
        "{received}"
    );
    drop(second);
    let wrong = said(&["run", &program, "--port", "0=ring:a b"]);
    assert_eq!(wrong.status, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("no name of a ring"), "{}", wrong.err);
}

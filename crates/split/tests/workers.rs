//! The workers of a switch: the group of servers while it changes, requests that are held while an
//! entry is installed, and counts of requests.

use std::collections::HashMap;
use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use passes::split::{CutKind, CutPlan, EPOCH_AT, MirroredTable, OwnerPlan, SplitPlan, WireLayout};
use placement::{GroupOptions, Policy, ServerId, SketchSize};
use split::{
    Drained, FlightOptions, KeyPattern, PoolOwners, PoolParts, Requests, ServerPort, SwitchOptions,
    SwitchWorker,
};

/// A plan with cuts at two tables with an exact key of 16 bits.
fn plan() -> SplitPlan {
    let tables = [0, 1].map(ir::TableId::new);
    SplitPlan {
        cuts: tables
            .map(|table| CutPlan {
                stage: "t".to_owned(),
                kind: CutKind::Table(table),
                name: "t".to_owned(),
                owner: Some(OwnerPlan {
                    pool: "p".to_owned(),
                    first: 0,
                }),
            })
            .into(),
        resumes: vec!["end of ingress".to_owned()],
        mirrored: tables
            .map(|table| MirroredTable {
                table,
                entries: 8,
                prefix_key: None,
                key_widths: vec![16],
                miss_action: 1,
                is_captured: false,
            })
            .into(),
        server_stages: Vec::new(),
        recomputed: Vec::new(),
        live_bits: 0,
        phv: Default::default(),
        frame: WireLayout {
            request_type: 0x88b5,
            response_type: 0x88b6,
            epoch: EPOCH,
            parameters: Vec::new(),
            key_offset: 18 * 8,
            key_width: 16,
            header_bytes: 24,
        },
    }
}

const REQUEST_PORT: u32 = 509;

const EPOCH: u16 = 3;

fn port(server: u16) -> ServerPort {
    ServerPort {
        server: ServerId(server),
        port: PortId(100 + u32::from(server)),
    }
}

fn requests(servers: u16) -> Arc<Requests> {
    let options = SwitchOptions {
        servers: (0..servers).map(port).collect(),
        request_port: REQUEST_PORT,
        // A small filter errs, and fills up.
        group: GroupOptions {
            filter: SketchSize {
                columns: 1024,
                rows: 2,
            },
            ..GroupOptions::default()
        },
    };
    Arc::new(Requests::new(&plan(), options))
}

/// Returns a request of the first cut with this key, of which the flow is the key too.
fn request(key: u16) -> Frame {
    request_at(1, key)
}

fn request_at(cut: u16, key: u16) -> Frame {
    let mut bytes = vec![0; 60];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[EPOCH_AT..EPOCH_AT + 2].copy_from_slice(&EPOCH.to_be_bytes());
    bytes[18..20].copy_from_slice(&key.to_be_bytes());
    // Options end at byte 38: cut, server, flow, sequence number.
    bytes[26..28].copy_from_slice(&cut.to_be_bytes());
    bytes[30..34].copy_from_slice(&u32::from(key).to_be_bytes());
    Frame::from_bytes(&bytes).expect("a frame")
}

/// Returns the response of a server to an addressed request.
fn response(requests: &Requests, frame: &Frame) -> Frame {
    let mut frame = Frame::from_bytes(frame.bytes()).expect("a frame");
    let server = requests.wire().server(&frame);
    requests.wire().turn_back(&mut frame, 1);
    frame.ingress = port(server).port;
    frame
}

/// A switch with one worker, and servers that know flows.
struct Bed {
    requests: Arc<Requests>,
    worker: SwitchWorker,
    now: Nanos,
}

impl Bed {
    fn new(servers: u16) -> Bed {
        let requests = requests(servers);
        Bed {
            worker: SwitchWorker::new(Arc::clone(&requests)),
            requests,
            now: Nanos(0),
        }
    }

    /// Sends a request. Returns its frame if it left, or `None` if it is held.
    fn send(&mut self, key: u16) -> Result<Option<(u16, Frame)>, DropReason> {
        self.send_at(1, key)
    }

    fn send_at(&mut self, cut: u16, key: u16) -> Result<Option<(u16, Frame)>, DropReason> {
        let mut frame = request_at(cut, key);
        self.worker.begin(self.now, &mut Vec::new());
        let sent = self.worker.address(&mut frame);
        self.worker.end([]);
        Ok(sent?.map(|(_, seen)| (seen.server.0, frame)))
    }

    fn server_of(&mut self, key: u16) -> u16 {
        self.send(key).expect("a server").expect("not held").0
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.worker.begin(self.now, &mut Vec::new());
        let result = self.worker.check(frame);
        self.worker.end([]);
        result
    }

    /// Returns the keys of held requests of the first cut that go on.
    fn released(&mut self) -> Vec<u16> {
        let released = self.released_at();
        assert!(released.iter().all(|(cut, _)| *cut == 1));
        released.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns the cuts and keys of held requests that go on.
    fn released_at(&mut self) -> Vec<(u16, u16)> {
        let mut before = Vec::new();
        self.worker.begin(self.now, &mut before);
        let wire = self.requests.wire();
        assert!(before.iter().all(|frame| wire.is_response(frame)));
        let place = |frame: &Frame| {
            let key = u16::from_be_bytes([frame.bytes()[18], frame.bytes()[19]]);
            // After the one place of the plan come the places at the cuts.
            (wire.point(frame) - 1, key)
        };
        let places = before.iter().map(place).collect();
        self.worker.end(before);
        places
    }

    fn close(&self, key: u16) -> split::GateId {
        self.close_at(1, key)
    }

    fn close_at(&self, cut: u16, key: u16) -> split::GateId {
        let pattern = KeyPattern {
            bits: key.to_be_bytes().into(),
            mask: [0xff; 2].into(),
            width: 16,
        };
        self.requests.close(&[cut], pattern, self.now)
    }
}

#[test]
fn a_flow_stays_at_its_server_through_joins_and_leaves() {
    let mut bed = Bed::new(2);
    let mut known: HashMap<u16, u16> = HashMap::new();
    let mut list = |bed: &mut Bed, flows: std::ops::Range<u16>| {
        for key in flows {
            let server = bed.server_of(key);
            assert_eq!(*known.entry(key).or_insert(server), server, "flow {key}");
        }
        let flow = |(&key, &server): (&u16, &u16)| (u32::from(key), ServerId(server));
        known.iter().map(flow).collect::<Vec<_>>()
    };
    for step in 0..8u16 {
        let listed = list(&mut bed, 0..200 * (step + 1));
        match step % 4 {
            0 => bed.requests.join(port(2)).expect("joins"),
            1 => bed.requests.leave(ServerId(0)).expect("leaves"),
            2 => bed.requests.join(port(0)).expect("joins"),
            _ => bed.requests.leave(ServerId(2)).expect("leaves"),
        }
        // Flows that begin during a change.
        list(&mut bed, 200 * (step + 1)..200 * (step + 1) + 50);
        bed.requests.pin_missing(&listed).expect("pins are free");
        list(&mut bed, 200 * (step + 1) + 50..200 * (step + 2));
        bed.requests.commit(&listed).expect("all are pinned");
    }
    assert!(bed.requests.group().pins > 0);
    assert!(!bed.requests.group().is_changing);
}

#[test]
fn a_failed_server_gets_no_request_and_its_responses_do_not_count() {
    let mut bed = Bed::new(2);
    let (server, frame) = bed.send(7).expect("a server").expect("not held");
    assert_eq!(bed.requests.fail(ServerId(server)), Ok(1));
    let late = response(&bed.requests, &frame);
    assert_eq!(
        bed.receive(&late),
        Err(DropReason::named(b"unknown_response"))
    );
    assert!((0..1000).all(|key| bed.server_of(key) != server));
    let last = ServerId(1 - server);
    assert!(bed.requests.fail(last).is_err());
    let refused = bed.send(7).map(|sent| sent.is_some());
    assert_eq!(refused, Err(DropReason::named(b"server_down")));
    assert_eq!(bed.requests.outstanding(), 0);
    assert_eq!(bed.requests.unanswered(), bed.requests.down());
    // It comes back.
    bed.requests.join(port(server)).expect("joins");
    bed.requests.commit(&[]).expect("nothing is known");
    assert!((0..1000).all(|key| bed.server_of(key) == server));
}

#[test]
fn a_leased_value_goes_to_its_server_until_the_server_has_left_and_has_no_flows() {
    let mut bed = Bed::new(2);
    bed.requests.set_owners(|_| {
        let parts: Arc<dyn PoolOwners> = Arc::new(PoolParts {
            size: 4,
            chunk: 1,
            parts: 2,
            first: ServerId(0),
        });
        Some(parts)
    });
    // The leased value has the place of the sequence number.
    let owner_of = |bed: &mut Bed, value: u32| {
        let mut frame = request(7);
        frame.bytes_mut()[34..38].copy_from_slice(&value.to_be_bytes());
        bed.worker.begin(bed.now, &mut Vec::new());
        let sent = bed.worker.address(&mut frame).expect("a server");
        bed.worker.end([]);
        sent.expect("not held").1.server.0
    };
    assert_eq!(
        [0, 1, 2, 3].map(|value| owner_of(&mut bed, value)),
        [0, 1, 0, 1]
    );
    bed.requests.leave(ServerId(1)).expect("leaves");
    bed.requests.commit(&[]).expect("nothing is known");
    // It drains: packets of its leases still go to it.
    assert_eq!(owner_of(&mut bed, 1), 1);
    bed.requests.renew().expect("renews");
    bed.requests.commit(&[]).expect("nothing is known");
    assert_eq!([0, 1].map(|value| owner_of(&mut bed, value)), [0, 0]);
    bed.requests.join(port(1)).expect("joins");
    bed.requests.commit(&[]).expect("nothing is known");
    assert_eq!(owner_of(&mut bed, 1), 1);
}

#[test]
fn a_response_counts_once() {
    let mut bed = Bed::new(1);
    let (_, frame) = bed.send(7).expect("a server").expect("not held");
    let answer = response(&bed.requests, &frame);
    let mut elsewhere = Frame::from_bytes(answer.bytes()).expect("a frame");
    elsewhere.ingress = PortId(1);
    let unknown = DropReason::named(b"unknown_response");
    assert_eq!(bed.receive(&elsewhere), Err(unknown));
    assert_eq!(bed.receive(&answer), Ok(()));
    let duplicate = DropReason::named(b"duplicate_response");
    assert_eq!(bed.receive(&answer), Err(duplicate));
}

#[test]
fn requests_of_an_entry_wait_until_earlier_ones_are_answered() {
    let mut bed = Bed::new(1);
    let (_, first) = bed.send(7).expect("a server").expect("not held");
    let (_, other) = bed.send(8).expect("a server").expect("not held");
    let gate = bed.close(7);
    assert!(bed.send(7).expect("a server").is_none());
    assert!(bed.send(9).expect("a server").is_some());
    assert!(bed.send(7).expect("a server").is_none());
    assert_eq!(bed.requests.held(), 2);
    assert_eq!(bed.released(), []);
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::NotYet);
    let answer = response(&bed.requests, &other);
    assert_eq!(bed.receive(&answer), Ok(()));
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::NotYet);
    let answer = response(&bed.requests, &first);
    assert_eq!(bed.receive(&answer), Ok(()));
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::Yes);
    // The entry may work from now on: held requests come first in each burst.
    bed.requests.ready(gate);
    assert!(bed.worker.has_ready());
    assert_eq!(bed.released(), [7, 7]);
    // Those that still find no entry are held again.
    assert!(bed.send(7).expect("a server").is_none());
    bed.requests.open(gate);
    assert_eq!(bed.released(), [7]);
    assert!(bed.send(7).expect("a server").is_some());
    assert_eq!(bed.requests.held(), 0);
}

#[test]
fn no_request_passes_a_held_one_of_its_flow_on_the_way_from_an_earlier_cut() {
    let mut bed = Bed::new(1);
    bed.send_at(2, 7).expect("a server").expect("not held");
    let gate = bed.close_at(2, 7);
    assert!(bed.send_at(2, 7).expect("a server").is_none());
    // The first table has no entry any more. A server would go on to the second one.
    assert!(bed.send_at(1, 7).expect("a server").is_none());
    assert!(bed.send_at(1, 8).expect("a server").is_some());
    assert_eq!(bed.released_at(), []);
    bed.requests.open(gate);
    assert_eq!(bed.released_at(), [(2, 7), (1, 7)]);
    assert!(bed.send_at(2, 7).expect("a server").is_some());
    assert!(bed.send_at(1, 7).expect("a server").is_some());
    // A server never goes back to an earlier cut, so such a request waits for none.
    bed.close_at(1, 7);
    assert!(bed.send_at(1, 7).expect("a server").is_none());
    assert!(bed.send_at(2, 7).expect("a server").is_some());
}

#[test]
fn an_entry_whose_earlier_packets_are_not_answered_in_time_is_refused() {
    let mut bed = Bed::new(1);
    bed.send(7).expect("a server").expect("not held");
    let gate = bed.close(7);
    bed.now = Nanos::from_micros(999);
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::NotYet);
    bed.now = Nanos::from_micros(1000);
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::TooLate);
    // A request that will have no answer does not wait for ever.
    bed.now = Nanos::from_millis(200);
    assert_eq!(bed.requests.drained(gate, bed.now), Drained::Yes);
    assert_eq!(bed.requests.lost(), 1);
}

#[test]
fn keys_above_the_threshold_are_reported_once_in_a_window() {
    let mut bed = Bed::new(1);
    let options = FlightOptions {
        policy: Policy::Threshold,
        sketch: SketchSize {
            columns: 4096,
            rows: 2,
        },
        reports: 64,
    };
    bed.requests.count_flights(Some(&options));
    bed.requests.set_threshold(1, 10);
    for _ in 0..50 {
        bed.server_of(7);
    }
    for _ in 0..10 {
        bed.server_of(8);
    }
    let flights = bed.requests.end_window().expect("flights are counted");
    assert_eq!(flights.packets(1), 60);
    let reports = flights.reports(|cut| bed.requests.key_bytes(cut));
    let reports: Vec<(&[u8], u64)> = reports
        .iter()
        .map(|report| (&report.key[..], report.packets))
        .collect();
    assert_eq!(reports, [(&7u16.to_be_bytes()[..], 50)]);
    bed.server_of(8);
    let flights = bed.requests.end_window().expect("flights are counted");
    assert_eq!(flights.packets(1), 1);
    assert!(flights.reports(|_| 2).is_empty());
}

#[test]
fn the_heap_counts_all_keys_exactly() {
    let mut bed = Bed::new(1);
    let options = FlightOptions {
        policy: Policy::Heap,
        sketch: SketchSize {
            columns: 1,
            rows: 1,
        },
        reports: 1024,
    };
    bed.requests.count_flights(Some(&options));
    for round in 0..5 {
        for key in 0..100 {
            if key % 5 <= round {
                bed.server_of(key);
            }
        }
    }
    let flights = bed.requests.end_window().expect("flights are counted");
    let reports = flights.reports(|_| 2);
    assert_eq!(reports.len(), 100);
    for report in reports {
        let key = u16::from_be_bytes([report.key[0], report.key[1]]);
        assert_eq!(report.packets, u64::from(5 - key % 5));
    }
    assert_eq!(flights.lost(), 0);
}

#[test]
fn workers_on_threads_see_changes_of_the_group_while_they_route() {
    let requests = requests(3);
    let workers: Vec<_> = (0..3u16)
        .map(|number| {
            let mut worker = SwitchWorker::new(Arc::clone(&requests));
            std::thread::spawn(move || {
                let mut first: HashMap<u16, ServerId> = HashMap::new();
                for round in 0..50u16 {
                    worker.begin(Nanos(0), &mut Vec::new());
                    for key in 0..100 + round {
                        let key = number * 1000 + key;
                        let mut frame = request(key);
                        let sent = worker.address(&mut frame).expect("a server");
                        let (_, seen) = sent.expect("not held");
                        let server = *first.entry(key).or_insert(seen.server);
                        assert_eq!(server, seen.server, "flow {key}");
                    }
                    worker.end([]);
                }
                first
            })
        })
        .collect();
    for step in 0..6u16 {
        match step % 2 {
            0 => requests.join(port(3)).expect("joins"),
            _ => requests.leave(ServerId(3)).expect("leaves"),
        }
        // All requests are on their way for ever: their list is that of all known flows.
        let known = requests.flows_on_their_way();
        requests.pin_missing(&known).expect("pins are free");
        requests.commit(&known).expect("all are pinned");
    }
    for worker in workers {
        worker.join().expect("no flow has moved");
    }
}

//! A response counts once, from the port of the server that was asked.

use std::sync::Arc;

use packet::{Frame, Nanos, PortId};
use passes::split::{EPOCH_AT, SplitPlan, WireLayout};
use placement::ServerId;
use split::{Requests, ServerFilter, ServerPort, SwitchOptions, SwitchWorker};

const SERVER_PORT: PortId = PortId(4);
const OTHER_SERVER_PORT: PortId = PortId(5);
const EPOCH: u16 = 3;

fn layout() -> WireLayout {
    WireLayout {
        request_type: 0x88b5,
        response_type: 0x88b6,
        epoch: EPOCH,
        parameters: Vec::new(),
        key_offset: 18 * 8,
        key_width: 0,
        header_bytes: 24,
    }
}

/// Returns the worker of a switch, in a burst.
fn worker(servers: &[(u16, PortId)]) -> SwitchWorker {
    let servers = servers.iter().map(|&(server, port)| ServerPort {
        server: ServerId(server),
        port,
    });
    let plan = SplitPlan {
        cuts: Vec::new(),
        resumes: Vec::new(),
        mirrored: Vec::new(),
        server_stages: Vec::new(),
        recomputed: Vec::new(),
        live_bits: 0,
        phv: Default::default(),
        frame: layout(),
    };
    let options = SwitchOptions {
        servers: servers.collect(),
        request_port: 509,
        ..SwitchOptions::default()
    };
    let mut worker = SwitchWorker::new(Arc::new(Requests::new(&plan, options)));
    worker.begin(Nanos(0), &mut Vec::new());
    worker
}

fn frame(ether_type: [u8; 2], bytes: usize, port: PortId) -> Frame {
    let mut all = vec![0; bytes];
    all[12..14].copy_from_slice(&ether_type);
    if let Some(place) = all.get_mut(EPOCH_AT..EPOCH_AT + 2) {
        place.copy_from_slice(&EPOCH.to_be_bytes());
    }
    let mut frame = Frame::from_bytes(&all).expect("a frame");
    frame.ingress = port;
    frame
}

/// Makes a request and the response to it.
fn exchange(worker: &mut SwitchWorker) -> Frame {
    let mut request = frame([0x88, 0xb5], 64, PortId(0));
    let addressed = worker.address(&mut request).expect("there is a server");
    let (port, _) = addressed.expect("the request is not held");
    let mut response = request;
    response.bytes_mut()[13] = 0xb6;
    response.ingress = port;
    response
}

fn reason(worker: &SwitchWorker, frame: &Frame) -> &'static str {
    worker
        .check(frame)
        .map_or_else(|reason| reason.name(), |()| "accepted")
}

#[test]
fn a_response_counts_once() {
    let mut worker = worker(&[(1, SERVER_PORT)]);
    let first = exchange(&mut worker);
    let second = exchange(&mut worker);
    assert_eq!(worker.requests().unanswered(), 2);
    assert_eq!(reason(&worker, &second), "accepted");
    assert_eq!(reason(&worker, &second), "duplicate_response");
    assert_eq!(reason(&worker, &first), "accepted");
    assert_eq!(worker.requests().unanswered(), 0);
}

#[test]
fn frames_that_are_no_response_of_the_ports_server_are_dropped() {
    let mut worker = worker(&[(1, SERVER_PORT), (2, OTHER_SERVER_PORT)]);
    let good = exchange(&mut worker);
    let mut forged = exchange(&mut worker);
    forged.ingress = PortId(0);
    assert_eq!(reason(&worker, &forged), "unknown_response");
    let mut of_other = exchange(&mut worker);
    of_other.ingress = match of_other.ingress {
        SERVER_PORT => OTHER_SERVER_PORT,
        _ => SERVER_PORT,
    };
    assert_eq!(reason(&worker, &of_other), "unknown_response");
    let short = frame([0x88, 0xb6], 37, SERVER_PORT);
    assert_eq!(reason(&worker, &short), "unknown_response");
    let other_type = frame([0x08, 0x00], 64, SERVER_PORT);
    assert_eq!(reason(&worker, &other_type), "unknown_response");
    let request = frame([0x88, 0xb5], 64, PortId(0));
    assert_eq!(reason(&worker, &request), "unknown_response");
    let packet = frame([0x08, 0x00], 14, PortId(0));
    assert_eq!(reason(&worker, &packet), "accepted");
    assert_eq!(reason(&worker, &good), "accepted");
}

#[test]
fn responses_of_another_epoch_are_stale() {
    let mut worker = worker(&[(1, SERVER_PORT)]);
    let mut response = exchange(&mut worker);
    response.bytes_mut()[EPOCH_AT + 1] += 1;
    assert_eq!(reason(&worker, &response), "stale_response");
    // The layout of another program can be shorter.
    let mut short = frame([0x88, 0xb6], 20, SERVER_PORT);
    short.bytes_mut()[EPOCH_AT + 1] += 1;
    assert_eq!(reason(&worker, &short), "stale_response");
    response.bytes_mut()[EPOCH_AT + 1] -= 1;
    assert_eq!(reason(&worker, &response), "accepted");
}

#[test]
fn a_server_takes_whole_requests_of_its_program_only() {
    let filter = ServerFilter::new(&layout());
    let reason = |frame: &Frame| {
        let checked = filter.check(frame, Nanos(1));
        checked.map_or_else(|reason| reason.name(), |()| "accepted")
    };
    let request = |bytes| frame([0x88, 0xb5], bytes, SERVER_PORT);
    assert_eq!(reason(&request(38)), "accepted");
    assert_eq!(reason(&request(37)), "short_request");
    assert_eq!(
        reason(&frame([0x88, 0xb6], 38, SERVER_PORT)),
        "not_a_request"
    );
    for bytes in [17, 18, 38] {
        let mut other = request(bytes);
        other.bytes_mut()[EPOCH_AT] ^= 1;
        assert_eq!(reason(&other), "stale_request", "{bytes} bytes");
    }
}

#[test]
fn numbers_wrap_and_an_old_request_is_lost() {
    let mut worker = worker(&[(1, SERVER_PORT)]);
    let old = exchange(&mut worker);
    for _ in 0..70_000 {
        let response = exchange(&mut worker);
        assert_eq!(reason(&worker, &response), "accepted");
    }
    assert_eq!(worker.requests().lost(), 1);
    assert_eq!(reason(&worker, &old), "duplicate_response");
}

#[test]
fn without_servers_requests_are_dropped() {
    let mut worker = worker(&[]);
    let mut request = frame([0x88, 0xb5], 64, PortId(0));
    let dropped = worker
        .address(&mut request)
        .expect_err("there is no server");
    assert_eq!(dropped.name(), "no_server");
}

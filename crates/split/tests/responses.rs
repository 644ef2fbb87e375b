//! A response counts once, from the port of the server that was asked.

use packet::{Frame, PortId};
use passes::split::WireLayout;
use placement::ServerId;
use split::{Requests, ServerPort, SwitchOptions};

const SERVER_PORT: PortId = PortId(4);
const OTHER_SERVER_PORT: PortId = PortId(5);
const EPOCH: u16 = 3;

fn layout() -> WireLayout {
    WireLayout {
        request_type: 0x88b5,
        response_type: 0x88b6,
        parameters: Vec::new(),
        key_offset: 16 * 8,
        key_width: 0,
        header_bytes: 24,
    }
}

fn requests(servers: &[(u16, PortId)]) -> Requests {
    let servers = servers.iter().map(|&(server, port)| ServerPort {
        server: ServerId(server),
        port,
    });
    Requests::new(
        &layout(),
        SwitchOptions {
            servers: servers.collect(),
            request_port: 509,
            epoch: EPOCH,
        },
    )
}

fn frame(ether_type: [u8; 2], bytes: usize, port: PortId) -> Frame {
    let mut all = vec![0; bytes];
    all[12..14].copy_from_slice(&ether_type);
    let mut frame = Frame::from_bytes(&all).expect("a frame");
    frame.ingress = port;
    frame
}

/// Makes a request and the response to it.
fn exchange(requests: &Requests) -> Frame {
    let mut request = frame([0x88, 0xb5], 64, PortId(0));
    let (port, _) = requests.address(&mut request).expect("there is a server");
    let mut response = request;
    response.bytes_mut()[13] = 0xb6;
    response.ingress = port;
    response
}

fn reason(requests: &Requests, frame: &Frame) -> &'static str {
    requests
        .check(frame)
        .map_or_else(|reason| reason.name(), |()| "accepted")
}

#[test]
fn a_response_counts_once() {
    let requests = requests(&[(1, SERVER_PORT)]);
    let first = exchange(&requests);
    let second = exchange(&requests);
    assert_eq!(requests.unanswered(), 2);
    assert_eq!(reason(&requests, &second), "accepted");
    assert_eq!(reason(&requests, &second), "duplicate_response");
    assert_eq!(reason(&requests, &first), "accepted");
    assert_eq!(requests.unanswered(), 0);
}

#[test]
fn frames_that_are_no_response_of_the_ports_server_are_dropped() {
    let requests = requests(&[(1, SERVER_PORT), (2, OTHER_SERVER_PORT)]);
    let good = exchange(&requests);
    let mut forged = exchange(&requests);
    forged.ingress = PortId(0);
    assert_eq!(reason(&requests, &forged), "unknown_response");
    let mut of_other = exchange(&requests);
    of_other.ingress = match of_other.ingress {
        SERVER_PORT => OTHER_SERVER_PORT,
        _ => SERVER_PORT,
    };
    assert_eq!(reason(&requests, &of_other), "unknown_response");
    let short = frame([0x88, 0xb6], 37, SERVER_PORT);
    assert_eq!(reason(&requests, &short), "unknown_response");
    let other_type = frame([0x08, 0x00], 64, SERVER_PORT);
    assert_eq!(reason(&requests, &other_type), "unknown_response");
    let request = frame([0x88, 0xb5], 64, PortId(0));
    assert_eq!(reason(&requests, &request), "unknown_response");
    let packet = frame([0x08, 0x00], 14, PortId(0));
    assert_eq!(reason(&requests, &packet), "accepted");
    assert_eq!(reason(&requests, &good), "accepted");
}

#[test]
fn responses_of_another_epoch_are_stale() {
    let requests = requests(&[(1, SERVER_PORT)]);
    let mut response = exchange(&requests);
    let (at, _) = layout().option(passes::split::FrameOption::Epoch);
    response.bytes_mut()[at + 1] += 1;
    assert_eq!(reason(&requests, &response), "stale_response");
    response.bytes_mut()[at + 1] -= 1;
    assert_eq!(reason(&requests, &response), "accepted");
}

#[test]
fn numbers_wrap_and_an_old_request_is_lost() {
    let requests = requests(&[(1, SERVER_PORT)]);
    let old = exchange(&requests);
    for _ in 0..70_000 {
        let response = exchange(&requests);
        assert_eq!(reason(&requests, &response), "accepted");
    }
    assert_eq!(requests.lost(), 1);
    assert_eq!(reason(&requests, &old), "duplicate_response");
}

#[test]
fn without_servers_requests_are_dropped() {
    let requests = requests(&[]);
    let mut request = frame([0x88, 0xb5], 64, PortId(0));
    let dropped = requests
        .address(&mut request)
        .expect_err("there is no server");
    assert_eq!(dropped.name(), "no_server");
}

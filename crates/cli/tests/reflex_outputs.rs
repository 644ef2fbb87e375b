//! What a running plane sends to others, its settings, and a program that is loaded again:
//! `[[output]]`, `polyplane reflex set` and `reload`.

mod lab;

use std::net::UdpSocket;
use std::time::Duration;

use lab::plane::{Plane, Sender, WINDOW, free_ports, wait_for};
use lab::{Directory, said};
use telemetry::{IntDomain, IntMarker, IntNodeId, ReportView, TelemetryReport};

/// Time within which a datagram arrives.
const SOON: Duration = Duration::from_secs(40);

fn receiver() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.set_read_timeout(Some(SOON)).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let length = socket.recv(&mut bytes).expect("a datagram comes");
    bytes.truncate(length);
    bytes
}

/// A monitor that reports only, and outputs.
fn loops(reports: u16, outputs: &str) -> String {
    format!(
        "[[source]]\nlisten = \"udp:127.0.0.1:{reports}\"\n\
         from = [{{ node = 9, address = \"127.0.0.1\" }}]\nint_dscp = 23\n\
         [[monitor]]\nname = \"slow paths\"\nkind = \"path_latency\"\nmatch = [\"any\"]\n\
         window = {WINDOW}\nabove = \"10 us\"\n{outputs}\
         [store]\nnodes = [\"a\", \"b\", \"c\"]\n"
    )
}

#[test]
fn events_and_reports_go_to_outputs_while_the_plane_runs() {
    let dir = Directory::new("reflex-outputs");
    let [reports] = free_ports();
    let [(json, to_json), (report, to_report), (passed, to_passed)] = [(); 3].map(|()| receiver());
    let outputs = format!(
        "[[output]]\nto = \"udp:127.0.0.1:{to_json}\"\nevents = \"json\"\n\
         [[output]]\nto = \"udp:127.0.0.1:{to_report}\"\nevents = \"report\"\nnode = 77\n\
         [[output]]\nto = \"udp:127.0.0.1:{to_passed}\"\nreports = [\"l4.src 2000..2999\"]\n"
    );
    let file = dir.with("loops.toml", loops(reports, &outputs));
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    wait_for("a leader", || {
        let nodes = plane.show()["nodes"].clone();
        let mut nodes = nodes.as_array()?.iter();
        nodes.any(|node| node["role"] == "leader").then_some(())
    });
    let mut sender = Sender::new(reports);
    sender.slow_flow(1000);
    let expected = sender.report(2000, 100);
    sender
        .socket
        .send_to(&expected, ("127.0.0.1", reports))
        .unwrap();
    // Unchanged, and only the one of the rule.
    assert_eq!(next(&passed), expected);
    let bytes = next(&report);
    let read = TelemetryReport::parse(&bytes).expect("it is a report");
    assert_eq!(read.header.exporter.node, Some(IntNodeId(77)));
    assert_eq!(read.header.sequence, 0);
    let individual = read.individuals().next().expect("it has one");
    let domain = IntDomain::new(IntMarker::None);
    let view = ReportView::new(read.header.exporter, &individual, &domain);
    assert_eq!(view.flow.unwrap().ports.unwrap().source, 1000);
    assert_eq!(individual.local_hop().unwrap().latency, Some(25_000));
    let decision = loop {
        let bytes = next(&json);
        let event: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
        if event["event"] == "decision" {
            break event["decision"].clone();
        }
    };
    assert_eq!(decision["latency"], 25_000);
    let state = plane.show();
    assert!(state["output_datagrams"].as_u64().unwrap() >= 3, "{state}");
    assert_eq!(state["unsent_output_datagrams"], 0);
}

#[test]
fn settings_are_changed_and_reset_by_the_command_line() {
    let dir = Directory::new("reflex-set");
    let [reports] = free_ports();
    let file = dir.with("loops.toml", loops(reports, ""));
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    let socket = dir.file("sock");
    let above = "monitor/slow paths/above";
    let set = |words: &[&str]| {
        let command: Vec<&str> = ["reflex", "set"]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        let control = ["--control", &socket];
        said(&command.into_iter().chain(control).collect::<Vec<_>>())
    };
    // It waits for its control socket.
    plane.show();
    let done = set(&[above, "100 us"]);
    assert!(done.err.is_empty(), "{}", done.err);
    wait_for("the setting", || {
        set(&[]).out.contains("above: 100 us").then_some(())
    });
    let mut sender = Sender::new(reports);
    sender.slow_flow(1000);
    wait_for("all reports", || {
        (plane.show()["counts"]["reports"] == u64::from(WINDOW) + 1).then_some(())
    });
    assert_eq!(plane.show()["monitors"][0]["alarms"], 0);
    let done = set(&[above, "--reset"]);
    assert!(done.err.is_empty(), "{}", done.err);
    wait_for("the file's value", || {
        set(&[])
            .out
            .contains("above: as in the loop file")
            .then_some(())
    });
    sender.slow_flow(2000);
    wait_for("an alarm", || {
        (plane.show()["monitors"][0]["alarms"] == 1).then_some(())
    });
    // What is wrong is refused with what there is.
    let wrong = set(&[above, "fast"]);
    assert!(
        wrong.err.contains("write a time with its unit"),
        "{}",
        wrong.err
    );
    let wrong = set(&["monitor/none/above", "1 us"]);
    assert!(wrong.err.contains(above), "{}", wrong.err);
    let wrong = set(&[above]);
    assert!(wrong.err.contains("--reset"), "{}", wrong.err);
}

#[test]
fn a_program_that_is_loaded_again_keeps_its_state_and_a_wrong_one_is_refused() {
    let dir = Directory::new("reflex-reload");
    let [reports] = free_ports();
    let folder = lab::example("reflex/p4_burst");
    let program = std::fs::read_to_string(format!("{folder}/burst.p4")).unwrap();
    dir.with("burst.p4", program.clone());
    // Five packets of a host in an hour are no burst.
    let limit = "limit(packets: 5, nanoseconds: 3600000000000)";
    let entries = format!("limits {{ host: 10.0.0.0/16; }} -> {limit}\n");
    dir.with("burst.entries", entries);
    let text = format!(
        "[[source]]\nlisten = \"udp:127.0.0.1:{reports}\"\n\
         from = [{{ node = 9, address = \"127.0.0.1\" }}]\nint_dscp = 23\n\
         [[monitor]]\nname = \"bursts\"\nprogram = \"burst.p4\"\nentries = \"burst.entries\"\n\
         match = [\"any\"]\n[store]\nnodes = [\"a\"]\n"
    );
    let file = dir.with("loops.toml", text);
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    let socket = dir.file("sock");
    let mut sender = Sender::new(reports);
    let alarms = || plane.show()["monitors"][0]["alarms"].as_u64().unwrap();
    let send = |sender: &mut Sender, count: u64, flow: u16| {
        let before = plane.show()["counts"]["reports"].as_u64().unwrap();
        for _ in 0..count {
            sender.send(flow, 100);
        }
        wait_for("all reports", || {
            (plane.show()["counts"]["reports"] == before + count).then_some(())
        });
    };
    let reload = |name: &str| said(&["reflex", "reload", name, "--control", &socket]);
    send(&mut sender, 3, 1000);
    // The entries file is not read again.
    dir.with("burst.entries", "no entries");
    let done = reload("bursts");
    assert!(done.err.contains("loaded again"), "{}", done.err);
    send(&mut sender, 2, 1000);
    assert_eq!(alarms(), 0);
    // A program with an error leaves the one before.
    dir.with("burst.p4", format!("{program}\nno program"));
    let wrong = reload("bursts");
    assert_eq!(wrong.status, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains("cannot be loaded"), "{}", wrong.err);
    // The client has the compiler's error, with its place.
    assert!(wrong.err.contains("burst.p4:"), "{}", wrong.err);
    send(&mut sender, 1, 1000);
    assert_eq!(alarms(), 1);
    let wrong = reload("slow paths");
    assert!(wrong.err.contains("name one of: bursts"), "{}", wrong.err);
}

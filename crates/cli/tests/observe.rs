//! Packets of running switches: captures, traces and summaries, at the switch's ports and by
//! `ctl`.

mod lab;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::host::Host;
use lab::scrape::Scraped;
use lab::{Directory, Running, Said, example, is_root, polyplane, said, to_other_host};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, Port, RingPort};

/// Time within which something must happen: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(30);

/// A frame of a pcapng file, read as the description of the format says.
#[derive(Debug, PartialEq)]
struct Captured {
    interface: String,
    /// The flags' direction: 1 is in, 2 is out.
    direction: u32,
    time_ns: u64,
    length: usize,
    bytes: Vec<u8>,
    comment: Option<String>,
}

/// Reads a pcapng file, up to the last whole block.
fn read(path: &Path) -> Vec<Captured> {
    let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let options = |mut at: usize, end: usize| {
        let mut all = Vec::new();
        while at + 4 <= end && half(at) != 0 {
            let (code, len) = (half(at), half(at + 2));
            all.push((code, file[at + 4..at + 4 + len].to_vec()));
            at += 4 + len.next_multiple_of(4);
        }
        all
    };
    let (mut names, mut frames, mut at) = (Vec::new(), Vec::new(), 0);
    while at + 12 <= file.len() {
        let len = word(at + 4) as usize;
        assert_eq!(word(at + len - 4) as usize, len, "{}", path.display());
        match word(at) {
            0x0a0d_0d0a => assert_eq!(word(at + 8), 0x1a2b_3c4d),
            1 => {
                let options = options(at + 16, at + len - 4);
                let option = |code| options.iter().find(|(own, _)| *own == code).unwrap();
                names.push(String::from_utf8(option(2).1.clone()).unwrap());
                assert_eq!(option(9).1, [9], "nanoseconds");
            }
            6 => {
                let captured = word(at + 20) as usize;
                let data = at + 28;
                let own = options(data + captured.next_multiple_of(4), at + len - 4);
                let option = |code| own.iter().find(|(own, _)| *own == code);
                let flags = option(2).unwrap().1[..].try_into().unwrap();
                let comment = option(1).map(|(_, text)| String::from_utf8(text.clone()).unwrap());
                frames.push(Captured {
                    interface: names[word(at + 8) as usize].clone(),
                    direction: u32::from_le_bytes(flags),
                    time_ns: u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)),
                    length: word(at + 24) as usize,
                    bytes: file[data..data + captured].to_vec(),
                    comment,
                });
            }
            other => panic!("block {other}"),
        }
        at += len;
    }
    assert_eq!(at, file.len(), "{} has a part of a block", path.display());
    frames
}

/// Standard error of a running switch, line by line.
struct Lines(BufReader<ChildStderr>);

impl Lines {
    fn of(running: &mut Running) -> Lines {
        Lines(BufReader::new(running.0.stderr.take().unwrap()))
    }

    /// Returns the next line that has these words.
    fn with(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            assert_ne!(line, "", "no line with {words}:\n{all}");
            if line.contains(words) {
                return line;
            }
            all += &line;
        }
    }
}

/// The example router between two rings of which the test has the other ends. It needs no
/// privilege.
struct Router {
    running: Running,
    lines: Lines,
    control: String,
    ends: [RingPort; 2],
    start: Instant,
}

impl Router {
    fn start(test: &str, options: &[&str]) -> Router {
        let name = |n: u32| format!("observe.{test}.{}.{n}", std::process::id());
        let ends = [0, 1].map(|n| RingPort::open(PortId(n), &name(n)).unwrap());
        let mut command = polyplane();
        let entries = example("router/router.entries");
        command.args(["run", &example("router/router.p4"), "--entries", &entries]);
        for n in 0..2 {
            command.args(["--port", &format!("{n}=ring:{}", name(n))]);
        }
        command.args(["--p4runtime", "127.0.0.1:0", "--json"]);
        let mut running = Running::start(command.args(options));
        let mut lines = Lines::of(&mut running);
        let served = lines.with(" served at ");
        let (_, control) = served.trim_end().split_once(" served at ").unwrap();
        lines.with("is running on");
        let mut router = Router {
            running,
            lines,
            control: control.to_owned(),
            ends,
            start: Instant::now(),
        };
        router.wait_for_links();
        router
    }

    fn wait_for_links(&mut self) {
        while self.ends.iter().any(|end| end.link() != LinkState::Up) {
            assert!(self.start.elapsed() < SOON, "the rings are not up");
            let now = Nanos::from(self.start.elapsed());
            for end in &mut self.ends {
                let _ = end.rx(&mut Batch::default(), now);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a frame by a port.
    fn send(&mut self, port: usize, bytes: &[u8]) {
        let sent = self.ends[port].tx(&[Frame::from_bytes(bytes).unwrap()]);
        assert_eq!(sent.sent, 1);
    }

    /// Returns the next frame that leaves by a port.
    fn receive(&mut self, port: usize) -> Vec<u8> {
        let begin = Instant::now();
        let mut batch = Batch::with_capacity(1);
        while begin.elapsed() < SOON {
            let now = Nanos::from(self.start.elapsed());
            self.ends[port].rx(&mut batch, now).unwrap();
            if let [frame] = batch.frames() {
                return frame.bytes().to_vec();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no frame leaves by port {port}");
    }

    /// Starts `ctl` and waits for the line that says that it has begun.
    fn ctl(&self, arguments: &[&str]) -> (Running, Lines) {
        let mut command = polyplane();
        command.arg("ctl").args(arguments);
        let mut running = Running::start(command.args(["--addr", &self.control]));
        let mut lines = Lines::of(&mut running);
        lines.with("Ctrl-C");
        (running, lines)
    }

    fn stop(mut self) -> Said {
        self.running.signal("TERM");
        // Read to its end: a full pipe would stop the switch.
        let err = std::io::read_to_string(&mut self.lines.0).unwrap();
        let said = self.running.finish();
        assert_eq!(said.status, Some(0), "{err}");
        Said { err, ..said }
    }
}

/// Returns a packet for a network to which the router has no route.
fn to_nowhere(number: u16) -> Vec<u8> {
    let mut frame = to_other_host(0, 60, number);
    // 10.0.2.2 becomes 192.0.2.2, and the checksum is right again.
    let before = u16::from_be_bytes([frame[30], frame[31]]);
    frame[30..32].copy_from_slice(&[192, 0]);
    let sum = u32::from(!u16::from_be_bytes([frame[24], frame[25]]));
    let sum = sum + u32::from(!before) + u32::from(u16::from_be_bytes([192, 0]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

fn summary(frames: &[Captured]) -> Vec<(u32, Option<&str>, &[u8])> {
    let frames = frames.iter();
    frames
        .map(|frame| (frame.direction, frame.comment.as_deref(), &frame.bytes[..]))
        .collect()
}

#[test]
fn a_capture_has_each_frame_with_its_port_direction_and_drop_reason() {
    let directory = Directory::new("observe-pcap");
    let into = directory.file("captures");
    let mut router = Router::start("pcap", &["--pcap", &into]);
    let (good, bad) = (to_other_host(0, 60, 7), to_nowhere(8));
    router.send(0, &good);
    let out = router.receive(1);
    router.send(0, &bad);
    // The frame after it shows that it was processed.
    router.send(0, &good);
    assert_eq!(router.receive(1), out);
    let said = router.stop();
    let frames = read(&directory.0.join("captures/device-1.pcapng"));
    let expect = [
        (1, None, &good[..]),
        (2, None, &out[..]),
        (1, Some("dropped: ingress_drop"), &bad[..]),
        (1, None, &good[..]),
        (2, None, &out[..]),
    ];
    assert_eq!(summary(&frames), expect, "{}", said.err);
    assert!(frames[0].interface.contains("observe.pcap"), "{frames:?}");
    assert_ne!(frames[0].interface, frames[1].interface);
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    for pair in frames.windows(2) {
        assert!(pair[0].time_ns <= pair[1].time_ns && pair[1].time_ns < now);
    }
    // Another run keeps the first file, and captures what the filter says, cut off.
    let options = ["--pcap", &into, "--pcap-filter", "ipv4.dst == 192.0.2.2"];
    let mut router = Router::start("pcap", &[&options[..], &["--pcap-snaplen", "20"]].concat());
    router.send(0, &bad);
    router.send(0, &good);
    router.receive(1);
    router.stop();
    let frames = read(&directory.0.join("captures/device-1-2.pcapng"));
    let cut = (1, Some("dropped: ingress_drop"), &bad[..20]);
    assert_eq!(summary(&frames), [cut]);
    assert_eq!(frames[0].length, bad.len());
}

#[test]
fn drops_are_listed_by_reason_and_a_trace_ends_after_its_time() {
    let mut router = Router::start("drops", &[]);
    let (control, bad) = (router.control.clone(), to_nowhere(8));
    let ctl = |words: &[&str]| said(&[&["ctl"], words, &["--addr", &control]].concat());
    assert_eq!(ctl(&["drops"]).out, "no packet was dropped\n");
    for _ in 0..3 {
        router.send(0, &bad);
    }
    // The frame after them shows that they were processed.
    router.send(0, &to_other_host(0, 60, 7));
    router.receive(1);
    let begin = Instant::now();
    let json = loop {
        let json: serde_json::Value = serde_json::from_str(&ctl(&["drops", "--json"]).out).unwrap();
        // Workers publish their counts every few milliseconds.
        if json["dropped"][0]["packets"] == 3 || begin.elapsed() > SOON {
            break json;
        }
    };
    assert_eq!(json["dropped"][0]["reason"], "ingress_drop", "{json}");
    assert_eq!(json["ports"][1]["dropped"], serde_json::json!([]), "{json}");
    assert_eq!(ctl(&["drops"]).out, "switch  ingress_drop  3 packets\n");
    let traced = ctl(&["trace", "arp", "--seconds", "1"]);
    assert_eq!(traced.status, Some(0), "{}", traced.err);
    assert_eq!(traced.out, "");
    router.stop();
}

#[test]
fn a_captured_frame_is_the_frame_on_the_wire() {
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    let directory = Directory::new("observe-wire");
    let entries = example("router/router.entries");
    let mut command = polyplane();
    command.args(["run", &example("router/router.p4"), "--entries", &entries]);
    command.args(["--port", "0=port0", "--port", "1=port1", "--json"]);
    command.args(["--pcap", &directory.file("")]);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let mut lines = Lines::of(&mut running);
    lines.with("is running on");
    let sent = to_other_host(0, 200, 3);
    let frame = [Frame::from_bytes(&sent).unwrap()];
    let mut batch = Batch::default();
    let begin = Instant::now();
    while batch.is_empty() {
        assert!(begin.elapsed() < SOON, "no frame arrives");
        cables.ends[0].tx(&frame);
        std::thread::sleep(Duration::from_millis(5));
        let _ = cables.ends[1].rx(&mut batch, Nanos::ZERO);
    }
    let arrived = batch.frames()[0].bytes().to_vec();
    running.signal("TERM");
    std::io::read_to_string(&mut lines.0).unwrap();
    assert_eq!(running.finish().status, Some(0));
    let frames = read(&directory.0.join("device-1.pcapng"));
    let of = |interface: &str, direction: u32| {
        let mut own = frames.iter();
        let found = own.find(|one| one.interface == interface && one.direction == direction);
        found.unwrap_or_else(|| panic!("{frames:?}")).bytes.clone()
    };
    assert_eq!(of("port0", 1), sent);
    assert_eq!(of("port1", 2), arrived);
}

#[test]
fn a_capture_on_a_full_disk_ends_with_a_line_and_the_switch_goes_on() {
    if !is_root() {
        return println!("skipped: a file system cannot be mounted");
    }
    let directory = Directory::new("observe-full");
    let at = directory.file("small");
    std::fs::create_dir(&at).unwrap();
    let name = |n: u32| format!("observe.full.{}.{n}", std::process::id());
    let mut ends = [0, 1].map(|n| RingPort::open(PortId(n), &name(n)).unwrap());
    // The process keeps its number, so that signals reach it.
    let script = format!("mount -t tmpfs -o size=16k none {at} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]);
    command.args([
        env!("CARGO_BIN_EXE_polyplane"),
        "run",
        &example("router/router.p4"),
    ]);
    command.args([
        "--entries",
        &example("router/router.entries"),
        "--pcap",
        &at,
    ]);
    for n in 0..2 {
        command.args(["--port", &format!("{n}=ring:{}", name(n))]);
    }
    let mut running = Running::start(command.arg("--json"));
    let mut lines = Lines::of(&mut running);
    if lines.with("").contains("unshare") {
        return println!("skipped: no mount namespace");
    }
    let begin = Instant::now();
    let frame = [Frame::from_bytes(&to_other_host(0, 1000, 1)).unwrap()];
    let mut batch = Batch::default();
    let mut arrived = 0;
    // More than the file system has room for.
    while arrived < 40 {
        assert!(begin.elapsed() < SOON, "{arrived} frames arrive");
        for end in &mut ends {
            batch.clear();
            let _ = end.rx(&mut batch, Nanos::ZERO);
        }
        arrived += batch.len();
        if ends[0].link() == LinkState::Up {
            ends[0].tx(&frame);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let line = lines.with("cannot write");
    assert!(
        line.contains("no more is captured, the switch goes on"),
        "{line}"
    );
    let file = format!("/proc/{}/root{at}/device-1.pcapng", running.0.id());
    let kept = read(Path::new(&file));
    assert!(kept.len() > 3, "{kept:?}");
    // The switch still forwards.
    batch.clear();
    ends[0].tx(&frame);
    while batch.is_empty() {
        assert!(begin.elapsed() < SOON, "no frame arrives");
        let _ = ends[1].rx(&mut batch, Nanos::ZERO);
        std::thread::sleep(Duration::from_millis(1));
    }
    running.signal("TERM");
    std::io::read_to_string(&mut lines.0).unwrap();
    assert_eq!(running.finish().status, Some(0));
}

#[test]
fn ctl_traces_captures_and_sums_up_packets_of_a_running_switch() {
    let directory = Directory::new("observe-ctl");
    let mut router = Router::start("ctl", &[]);
    let (good, bad) = (to_other_host(0, 60, 1), to_nowhere(2));
    let to_nowhere = "ipv4.dst == 192.0.2.2";

    let (running, mut lines) = router.ctl(&["trace", to_nowhere, "--count", "1"]);
    router.send(0, &good);
    router.send(0, &bad);
    let traced = running.finish();
    std::io::read_to_string(&mut lines.0).unwrap();
    assert_eq!(traced.status, Some(0));
    for words in ["ipv4_lpm", "dropped"] {
        assert!(traced.out.contains(words), "{}", traced.out);
    }
    let (running, _lines) = router.ctl(&["trace", to_nowhere, "--count", "1", "--json"]);
    router.send(0, &bad);
    let json = running.finish().json();
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["reason"], "ingress_drop", "{json}");

    let file = directory.file("some.pcapng");
    let options = ["capture", "udp", "--port", "1", "--count", "1", "-o", &file];
    let (running, _lines) = router.ctl(&options);
    // One packet is left from the first trace.
    router.receive(1);
    router.send(0, &bad);
    router.send(0, &good);
    let out = router.receive(1);
    assert_eq!(running.finish().status, Some(0));
    let frames = read(Path::new(&file));
    assert_eq!(summary(&frames), [(2, None, &out[..])]);

    let (running, _lines) = router.ctl(&["why", "udp", "--seconds", "3", "--json"]);
    for _ in 0..3 {
        router.send(0, &bad);
    }
    router.send(0, &good);
    router.receive(1);
    let why = running.finish().json();
    assert_eq!(why["packets"], 4, "{why}");
    let [most, other] = &why["paths"].as_array().unwrap()[..] else {
        panic!("{why}");
    };
    assert_eq!((&most["packets"], &most["port"]), (&3.into(), &0.into()));
    assert_eq!(most["ends"][0]["dropped"], "ingress_drop", "{why}");
    assert_eq!(other["ends"][0]["sent"], 1, "{why}");
    let route = &other["lookups"].as_array().unwrap()[..];
    let table = "RouterIngress.ipv4_lpm";
    let route = route.iter().find(|lookup| lookup["table"] == table);
    let entry = route.unwrap()["entry"].as_str().unwrap();
    assert!(entry.starts_with(&format!("{table} {{ ")), "{why}");

    let refused = |arguments: &[&str], words: &str| {
        let said = said(&[&["ctl", "--addr", &router.control], arguments].concat());
        assert_ne!(said.status, Some(0));
        assert!(said.err.contains(words), "{}", said.err);
    };
    refused(&["trace", "ipv4.dts == 1"], "ipv4.dst");
    refused(&["capture", "--port", "9", "-o", &file], "no port 9");
    let said = router.stop();
    assert_eq!(said.json()["replicated"], 0);
}

#[test]
fn a_packet_for_a_port_that_does_not_exist_is_shown_as_dropped() {
    let directory = Directory::new("observe-missing");
    let mut router = Router::start("missing", &[]);
    let route = "ipv4_lpm { hdr.ipv4.dst: 10.0.2.2/32; } -> connected(port: 9)\n";
    let entries = directory.with("missing.entries", route);
    let applied = said(&["ctl", "apply", &entries, "--addr", &router.control]);
    assert_eq!(applied.status, Some(0), "{}", applied.err);
    let (why, _lines_of_why) = router.ctl(&["why", "udp", "--seconds", "2", "--json"]);
    let (trace, _lines) = router.ctl(&["trace", "udp", "--count", "2", "--json"]);
    for number in 0..2 {
        router.send(0, &to_other_host(0, 60, number));
    }
    let trace = trace.finish();
    assert_eq!(trace.out.lines().count(), 2, "{}", trace.out);
    assert!(trace.out.contains("no_such_port"), "{}", trace.out);
    let why = why.finish().json();
    assert_eq!(why["packets"], 2, "{why}");
    let ends = &why["paths"][0]["ends"];
    assert_eq!(*ends, serde_json::json!([{ "dropped": "no_such_port" }]));
    router.stop();
}

#[test]
fn frames_of_a_port_that_was_added_are_captured_under_its_name() {
    let directory = Directory::new("observe-added");
    let (into, file) = (directory.file("captures"), directory.file("added.pcapng"));
    let names = ["first", "second"];
    let names = names.map(|turn| format!("observe.added.{turn}.{}", std::process::id()));
    let rings = names.each_ref().map(|name| format!("ring:{name}"));
    let allow = ["--port-allow", &rings[0], "--port-allow", &rings[1]];
    let router = Router::start("added", &[&["--pcap", &into][..], &allow].concat());
    let first = Frame::from_bytes(&to_other_host(0, 60, 1)).unwrap();
    for name in &names {
        let mut end = RingPort::open(PortId(3), name).unwrap();
        let control = |arguments: &[&str]| {
            let said = said(&[&["ctl", "--addr", &router.control], arguments].concat());
            assert_eq!(said.status, Some(0), "{}", said.err);
        };
        control(&["port", "add", &format!("3=ring:{name}")]);
        let options = ["capture", "--port", "3", "--count", "1", "-o", &file];
        let (capture, _lines) = router.ctl(&options);
        let begin = Instant::now();
        while end.link() != LinkState::Up {
            assert!(begin.elapsed() < SOON, "the ring is not up");
            let _ = end.rx(&mut Batch::default(), Nanos::from(router.start.elapsed()));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(end.tx(std::slice::from_ref(&first)).sent, 1);
        assert_eq!(capture.finish().status, Some(0));
        let frames = read(Path::new(&file));
        assert_eq!(frames.len(), 1);
        assert!(frames[0].interface.contains(name), "{frames:?}");
        control(&["port", "remove", "3"]);
    }
    let refused = ["capture", "--port", "3", "-o", &file];
    let refused = said(&[&["ctl", "--addr", &router.control], &refused[..]].concat());
    assert!(refused.err.contains("no port 3"), "{}", refused.err);
    router.stop();
    let frames = read(&directory.0.join("captures/device-1.pcapng"));
    let names = frames.iter().filter(|frame| frame.direction == 1);
    let names: Vec<&str> = names.map(|frame| &frame.interface[..]).collect();
    assert_eq!(names.len(), 2, "{frames:?}");
    assert!(names[0].contains("added.first") && names[1].contains("added.second"));
}

/// Busy time of the worker for a packet, in nanoseconds, over a time under load.
fn nanoseconds_a_packet(metrics: &str, time: Duration) -> f64 {
    let read = || {
        let scraped = Scraped::of(metrics);
        let of = |name: &str| scraped.value(&format!("{name}{{device=\"1\",worker=\"0\"}}"));
        let busy = of("worker_busy_seconds_total");
        (busy, of("worker_packets_total"))
    };
    let (busy_before, packets_before) = read();
    std::thread::sleep(time);
    let (busy, packets) = read();
    assert!(packets > packets_before, "no load");
    (busy - busy_before) * 1e9 / (packets - packets_before)
}

/// The exact figure is that of the release build, on a machine without other work:
/// `cargo test --release --workspace --test observe cost -- --nocapture`.
#[test]
fn the_cost_of_observing_what_matches_nothing_is_small() {
    const TURNS: usize = 15;
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    let entries = example("router/router.entries");
    let mut command = polyplane();
    command.args(["run", &example("router/router.p4"), "--entries", &entries]);
    command.args(["--port", "0=port0", "--port", "1=port1", "--json"]);
    command.args(["--p4runtime", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let mut lines = Lines::of(&mut running);
    let after = |line: &str, words: &str| {
        let (_, rest) = line.trim_end().split_once(words).unwrap();
        rest.trim_end_matches("/metrics").to_owned()
    };
    let control = after(&lines.with("P4Runtime is served at"), " served at ");
    let metrics = after(&lines.with("metrics are served at"), "http://");
    std::thread::spawn(move || std::io::read_to_string(&mut lines.0));
    let is_over = AtomicBool::new(false);
    let Cables { ends, switch, .. } = &mut cables;
    let (from, to) = ends.split_at_mut(1);
    let ratio = std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = to_other_host(0, 60, 1);
            let frames = [0; 64].map(|_| Frame::from_bytes(&bytes).unwrap());
            let mut batch = Batch::default();
            while !is_over.load(Relaxed) {
                from[0].tx(&frames);
                batch.clear();
                let _ = to[0].rx(&mut batch, Nanos::ZERO);
            }
        });
        let measured = switch.run(|| {
            let time = Duration::from_millis(100);
            nanoseconds_a_packet(&metrics, time);
            let turn = |_| {
                let nothing = "ipv4.dst == 203.0.113.9 and tcp.dst == 9";
                let file = "/dev/null";
                let without = nanoseconds_a_packet(&metrics, time);
                let mut all = Vec::new();
                for command in [
                    &["trace", nothing][..],
                    &["capture", nothing, "-o", file],
                    &["why", nothing, "--seconds", "3600"],
                ] {
                    let mut ctl = polyplane();
                    ctl.arg("ctl").args(command).args(["--addr", &control]);
                    let mut running = Running::start(&mut ctl);
                    let mut lines = Lines::of(&mut running);
                    lines.with("Ctrl-C");
                    all.push((running, lines));
                }
                let with = nanoseconds_a_packet(&metrics, time);
                drop(all);
                let again = nanoseconds_a_packet(&metrics, time);
                let [one, other] = [without, again].map(|without| with / without);
                (one + other) / 2.0
            };
            let mut ratios: Vec<f64> = (0..TURNS).map(turn).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[TURNS / 2]
        });
        is_over.store(true, Relaxed);
        measured.unwrap()
    });
    println!("busy time with a trace, a capture and a summary: {ratio:.3} of that without");
    // Without optimisation a filter costs many times as much, and the machine may be busy.
    let most = if cfg!(debug_assertions) { 1.5 } else { 1.1 };
    assert!(ratio < most, "{ratio}");
    running.signal("TERM");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
fn a_tenant_sees_the_packets_of_its_own_data_plane_at_its_own_ports() {
    let directory = Directory::new("observe-tenant");
    let options = ["--pcap", &directory.file("")];
    let Some(mut host) = Host::new("observe-host", 2, &options) else {
        return;
    };
    let program = example("router/router.p4");
    // Port 0 of the tenant is port 1 of the switch.
    let create = [
        "create",
        "blue",
        "--program",
        &program,
        "--port",
        "1",
        "--port",
        "0",
    ];
    host.tenant(&create).unwrap();
    host.tenant(&["create", "red", "--program", &program])
        .unwrap();
    let entries = example("router/router.entries");
    host.controller("1", &["apply", &entries]).unwrap();
    // Until the program forwards.
    let first = Frame::from_bytes(&to_other_host(0, 60, 1)).unwrap();
    let (mut batch, begin) = (Batch::default(), Instant::now());
    let is_routed = |batch: &Batch| batch.frames().iter().any(|it| it.bytes()[12..14] == [8, 0]);
    while !is_routed(&batch) {
        assert!(begin.elapsed() < SOON, "no frame arrives");
        host.cables.ends[1].tx(std::slice::from_ref(&first));
        std::thread::sleep(Duration::from_millis(5));
        batch.clear();
        let _ = host.cables.ends[0].rx(&mut batch, Nanos::ZERO);
    }
    let frames = [to_other_host(0, 60, 2), to_nowhere(3)];
    let frames = frames.map(|bytes| Frame::from_bytes(&bytes).unwrap());
    let file = directory.file("blue.pcapng");
    let observe = |device: &str, arguments: &[&str]| {
        let mut command = polyplane();
        command.arg("ctl").args(arguments);
        command.args(["--addr", &host.address, "--device-id", device]);
        let started = host.cables.switch.run(|| Running::start(&mut command));
        let mut running = started.unwrap();
        let mut lines = Lines::of(&mut running);
        lines.with("Ctrl-C");
        // A closed pipe would end it.
        std::thread::spawn(move || std::io::read_to_string(&mut lines.0));
        running
    };
    let blue = observe(
        "1",
        &["why", "udp and port == 0", "--seconds", "2", "--json"],
    );
    let red = observe("2", &["why", "all", "--seconds", "2", "--json"]);
    let trace = observe("1", &["trace", "ipv4.dst == 192.0.2.2", "--count", "1"]);
    let capture = observe("1", &["capture", "udp", "--count", "3", "-o", &file]);
    host.cables.ends[1].tx(&frames);
    let (capture, trace) = (capture.finish(), trace.finish());
    assert_eq!((capture.status, trace.status), (Some(0), Some(0)));
    assert!(trace.out.contains("ipv4_lpm"), "{}", trace.out);
    let captured = read(Path::new(&file));
    let brief = |frame: &Captured| {
        let comment = frame.comment.clone().unwrap_or_default();
        (frame.interface.clone(), frame.direction, comment)
    };
    let brief: Vec<_> = captured.iter().map(brief).collect();
    // A frame that leaves is seen before the frame that came in is processed to its end.
    let expect = [
        ("port 1", 2, ""),
        ("port 0", 1, ""),
        ("port 0", 1, "dropped: ingress_drop"),
    ];
    let expect = expect.map(|(name, way, why)| (name.to_owned(), way, why.to_owned()));
    assert_eq!(brief, expect);
    assert!(captured[1].time_ns <= captured[0].time_ns);
    let (blue, red) = (blue.finish().json(), red.finish().json());
    assert_eq!(blue["packets"], 2, "{blue}");
    assert_eq!(red["packets"], 0, "{red}");
    host.running.signal("TERM");
    let begin = Instant::now();
    while host.running.0.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < SOON, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let frames = read(&directory.0.join("switch.pcapng"));
    let out = |frame: &Captured| frame.direction == 2 && frame.interface == "port0";
    assert!(frames.iter().any(out), "{frames:?}");
}

//! `polyplane pof` on real interfaces: a controller makes tables and flows over TCP, frames are
//! forwarded by them, also while controllers come and go, and the state survives the process.

mod lab;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, Said, polyplane};
use packet::{Batch, Frame, Nanos};
use pof::wire::{Body, Message, Role, RoleChange, decode, encode, message_length};
use port::Port;

const PATIENCE: Duration = Duration::from_secs(30);

/// Two tables, two flows with a counter each, and a frame for each of them.
const TWO_FLOWS: &str = "\
table add mm/0 name \"first\" size 16 fields eth_type=96/16
table add lpm/0 name \"routes\" size 16 fields dst=128/32
flow add mm/0 priority 10 counter 1 match eth_type=0x800 do goto lpm/0 offset 14
flow add lpm/0 counter 2 match 128/32=10.0.1.0/24 do move_packet_offset -14; output 1
flow add lpm/0 counter 3 match 128/32=10.0.2.0/24 do move_packet_offset -14; set_field 0/48=02:00:00:00:00:09, output 0
";

/// A switch in a namespace with cables to the test.
struct Bed {
    cables: Cables,
    running: Running,
    lines: Receiver<String>,
}

impl Bed {
    /// Starts a switch with two ports. Returns `None` where there are no namespaces.
    fn start(arguments: &[&str]) -> Option<Bed> {
        let cables = Cables::new(2)?;
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let (running, lines) = start(&cables, arguments);
        Some(Bed {
            cables,
            running,
            lines,
        })
    }

    /// Waits for a line of the switch.
    fn wait_for(&self, words: &str) -> String {
        wait_for(&self.lines, words)
    }

    /// Returns the address that the switch serves.
    fn address(&self) -> String {
        let line = self.wait_for("POF is served at ");
        line.split_once(" at ").unwrap().1.to_owned()
    }

    /// Runs `polyplane pof ctl` in the switch's namespace.
    fn ctl(&self, address: &str, arguments: &[&str]) -> Said {
        ctl(&self.cables, &[&[address], arguments].concat())
    }

    /// Sends a frame once, and returns the frames that arrive at each end until some did, or a
    /// short while has passed.
    fn once(&mut self, from: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.cables.ends[from].tx(&[Frame::from_bytes(bytes).unwrap()]);
        self.arrived(Duration::from_millis(500), 1)
    }

    /// Returns frames that arrive, until there are `count`.
    fn arrived(&mut self, within: Duration, count: usize) -> Vec<(usize, Vec<u8>)> {
        let mut arrived = Vec::new();
        let mut batch = Batch::default();
        let start = Instant::now();
        while arrived.len() < count && start.elapsed() < within {
            sleep(Duration::from_millis(1));
            for (number, end) in self.cables.ends.iter_mut().enumerate() {
                batch.clear();
                let _ = end.rx(&mut batch, Nanos::from(start.elapsed()));
                let frames = batch.frames().iter();
                arrived.extend(frames.map(|frame| (number, frame.bytes().to_vec())));
            }
        }
        arrived
    }

    /// Stops the switch, and returns its report.
    fn stop(self) -> serde_json::Value {
        self.running.signal("TERM");
        let said = self.running.finish();
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.json()
    }
}

fn start(cables: &Cables, arguments: &[&str]) -> (Running, Receiver<String>) {
    let mut command = polyplane();
    command
        .args(["pof", "--json", "--io", "packet"])
        .args(["--port", "0=port0", "--port", "1=port1"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let stderr = BufReader::new(running.0.stderr.take().unwrap());
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            println!("switch: {line}");
            let _ = to.send(line);
        }
    });
    (running, lines)
}

fn wait_for(lines: &Receiver<String>, words: &str) -> String {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Ok(line) = lines.recv_timeout(PATIENCE)
            && line.contains(words)
        {
            return line;
        }
    }
    panic!("no line with `{words}`");
}

fn ctl(cables: &Cables, arguments: &[&str]) -> Said {
    let run = || Running::start(polyplane().args(["pof", "ctl"]).args(arguments));
    cables.switch.run(run).unwrap().finish()
}

/// Returns an Ethernet frame of type IPv4 with this destination.
fn ipv4(destination: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 9, 9]);
    frame.extend(destination);
    frame.resize(60, 0x5A);
    frame
}

/// A scripted controller at the end of a connection.
struct Script {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Script {
    fn new(stream: TcpStream) -> Script {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let input = Vec::new();
        let mut script = Script { stream, input };
        script.send(0, Body::Hello);
        assert_eq!(script.next().body, Body::Hello);
        script
    }

    fn connect(cables: &Cables, address: &str) -> Script {
        let stream = cables.switch.run(|| TcpStream::connect(address)).unwrap();
        Script::new(stream.unwrap())
    }

    fn send(&mut self, xid: u32, body: Body) {
        self.stream
            .write_all(&encode(&Message { xid, body }))
            .unwrap();
    }

    fn next(&mut self) -> Message {
        loop {
            if let Some(length) = message_length(&self.input)
                && length <= self.input.len()
            {
                let bytes: Vec<u8> = self.input.drain(..length).collect();
                return decode(&bytes).unwrap();
            }
            let mut more = [0; 4096];
            let count = self.stream.read(&mut more).unwrap();
            assert!(count > 0, "closed");
            self.input.extend(&more[..count]);
        }
    }

    /// Sends a request, and returns the first message with its number.
    fn ask(&mut self, body: Body) -> Body {
        self.send(77_777, body);
        loop {
            let message = self.next();
            if message.xid == 77_777 {
                return message.body;
            }
        }
    }
}

fn counts(said: &Said, what: &str, key: &str, number: u64) -> (u64, u64) {
    let json = said.json();
    let list = json[what].as_array().unwrap();
    let one = list.iter().find(|one| one[key] == number).unwrap();
    let count = |name: &str| one[name].as_u64().unwrap();
    (count("packets"), count("bytes"))
}

#[test]
fn a_controller_makes_two_flows_and_frames_are_forwarded_by_them() {
    for engine in ["jit", "interp"] {
        let Some(mut bed) = Bed::start(&["--listen", "127.0.0.1:0", "--engine", engine]) else {
            return;
        };
        let address = bed.address();
        let directory = Directory::new(&format!("pof-{engine}"));
        let text = directory.with("two.pof", TWO_FLOWS);
        let said = bed.ctl(&address, &["apply", &text]);
        assert_eq!(
            (said.status, said.err.as_str()),
            (Some(0), ""),
            "{}",
            said.out
        );
        for round in 0..20 {
            let frame = ipv4([10, 0, 1, round]);
            assert_eq!(bed.once(0, &frame), [(1, frame.clone())], "{engine}");
            let back = ipv4([10, 0, 2, round]);
            let mut changed = back.clone();
            changed[5] = 9;
            assert_eq!(bed.once(1, &back), [(0, changed)], "{engine}");
        }
        let said = bed.ctl(&address, &["--json", "stats"]);
        assert_eq!(counts(&said, "counters", "counter", 1), (40, 2_400));
        assert_eq!(counts(&said, "counters", "counter", 2), (20, 1_200));
        assert_eq!(counts(&said, "counters", "counter", 3), (20, 1_200));
        let flows = said.json()["flows"].clone();
        let packets = flows
            .as_array()
            .unwrap()
            .iter()
            .map(|flow| &flow["packets"]);
        assert_eq!(packets.collect::<Vec<_>>(), [40, 20, 20]);
        assert_eq!(said.json()["ports"][0]["sent_packets"], 20);
        // A dump makes the state that it was made of.
        let dump = bed.ctl(&address, &["dump"]).out;
        assert_eq!(dump.lines().count(), 5, "{dump}");
        let mut twin = Bed::start(&["--listen", "127.0.0.1:0", "--engine", "interp"]).unwrap();
        let other = twin.address();
        let again = directory.with("again.pof", &dump);
        assert_eq!(twin.ctl(&other, &["apply", &again]).status, Some(0));
        assert_eq!(twin.ctl(&other, &["dump"]).out, dump);
        let frame = ipv4([10, 0, 1, 1]);
        assert_eq!(twin.once(0, &frame), [(1, frame.clone())]);
        twin.stop();
        let report = bed.stop();
        assert_eq!(report["ports"][0]["received"], 20, "{report}");
        assert_eq!(report["tables"][0]["hits"], 40);
    }
}

#[test]
fn no_frame_is_lost_while_controllers_are_away_and_come_back() {
    let Some(cables) = Cables::new(2) else { return };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let listen = |address: &str| cables.switch.run(|| TcpListener::bind(address)).unwrap();
    let mut listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (running, lines) = start(&cables, &["--controller", &format!("tcp:{address}")]);
    let mut bed = Bed {
        cables,
        running,
        lines,
    };
    // The controller is the side that the switch dials.
    let mut script = Script::new(listener.accept().unwrap().0);
    let mut reader = pof::text::TextReader::new(pof::tables::Tables::new(Default::default()));
    for line in TWO_FLOWS.lines() {
        script.send(1, reader.read(line).unwrap().unwrap());
    }
    assert_eq!(script.ask(Body::BarrierRequest), Body::BarrierReply);
    let mut expected = 0;
    let mut arrived = 0;
    let mut send = |bed: &mut Bed, time: Duration| {
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..8 {
                let frame = ipv4([10, 0, 1, expected as u8]);
                bed.cables.ends[0].tx(&[Frame::from_bytes(&frame).unwrap()]);
                expected += 1;
            }
            arrived += bed.arrived(Duration::from_millis(2), 8).len();
        }
    };
    for _ in 0..3 {
        send(&mut bed, Duration::from_millis(100));
        drop(script);
        drop(listener);
        bed.wait_for("is gone");
        send(&mut bed, Duration::from_millis(700));
        let again = bed.cables.switch.run(|| TcpListener::bind(&address));
        let again = again.unwrap().unwrap();
        script = Script::new(again.accept().unwrap().0);
        listener = again;
        bed.wait_for("is connected");
    }
    send(&mut bed, Duration::from_millis(100));
    let missing = expected - arrived;
    let late = bed.arrived(Duration::from_secs(2), missing).len();
    assert_eq!(late, missing, "of {expected}");
    assert!(expected > 1_000, "{expected}");
    let report = bed.stop();
    assert_eq!(report["connections"], 4);
    assert_eq!(report["ports"][0]["received"], expected);
}

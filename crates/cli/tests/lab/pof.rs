//! A POF switch in a namespace, and scripted controllers.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos};
use pof::text::TextReader;
use pof::wire::{Body, Message, decode, encode, message_length};
use port::Port;

use super::cables::Cables;
use super::{Running, Said, polyplane};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two tables, two flows with a counter each, and a frame for each of them.
pub(crate) const TWO_FLOWS: &str = "\
table add mm/0 name \"first\" size 16 fields eth_type=96/16
table add lpm/0 name \"routes\" size 16 fields dst=128/32
flow add mm/0 priority 10 counter 1 match eth_type=0x800 do goto lpm/0 offset 14
flow add lpm/0 counter 2 match 128/32=10.0.1.0/24 do move_packet_offset -14; output 1
flow add lpm/0 counter 3 match 128/32=10.0.2.0/24 do move_packet_offset -14; set_field 0/48=02:00:00:00:00:09, output 0
";

/// A switch in a namespace with cables to the test.
pub(crate) struct Bed {
    pub(crate) cables: Cables,
    pub(crate) running: Running,
    pub(crate) lines: Receiver<String>,
}

impl Bed {
    /// Starts a switch with two ports. Returns `None` where there are no namespaces.
    pub(crate) fn start(arguments: &[&str]) -> Option<Bed> {
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
    pub(crate) fn wait_for(&self, words: &str) -> String {
        wait_for(&self.lines, words)
    }

    /// Returns the address that the switch serves.
    pub(crate) fn address(&self) -> String {
        let line = self.wait_for("POF is served at ");
        line.split_once(" at ").unwrap().1.to_owned()
    }

    /// Runs `polyplane pof ctl` in the switch's namespace.
    pub(crate) fn ctl(&self, address: &str, arguments: &[&str]) -> Said {
        ctl(&self.cables, &[&[address], arguments].concat())
    }

    /// Sends a frame once, and returns the frames that arrive at each end until some did, or a
    /// short while has passed.
    pub(crate) fn once(&mut self, from: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.cables.ends[from].tx(&[Frame::from_bytes(bytes).unwrap()]);
        self.arrived(Duration::from_millis(500), 1)
    }

    /// Returns frames that arrive, until there are `count`.
    pub(crate) fn arrived(&mut self, within: Duration, count: usize) -> Vec<(usize, Vec<u8>)> {
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

    /// Kills the switch, as a power failure does, and starts another one in its place.
    pub(crate) fn start_again(self, arguments: &[&str]) -> Bed {
        let Bed {
            cables, running, ..
        } = self;
        drop(running);
        let (running, lines) = start(&cables, arguments);
        Bed {
            cables,
            running,
            lines,
        }
    }

    /// Stops the switch, and returns its report.
    pub(crate) fn stop(self) -> serde_json::Value {
        self.running.signal("TERM");
        let said = self.running.finish();
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.json()
    }
}

pub(crate) fn start(cables: &Cables, arguments: &[&str]) -> (Running, Receiver<String>) {
    let mut command = polyplane();
    command
        .args(["pof", "--json", "--io", "packet"])
        .args(["--port", "0=port0", "--port", "1=port1"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let lines = lines_of(&mut running);
    (running, lines)
}

/// Returns the lines of a switch's standard error.
pub(crate) fn lines_of(running: &mut Running) -> Receiver<String> {
    let stderr = BufReader::new(running.0.stderr.take().unwrap());
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            println!("switch: {line}");
            let _ = to.send(line);
        }
    });
    lines
}

pub(crate) fn wait_for(lines: &Receiver<String>, words: &str) -> String {
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

pub(crate) fn ctl(cables: &Cables, arguments: &[&str]) -> Said {
    let run = || Running::start(polyplane().args(["pof", "ctl"]).args(arguments));
    cables.switch.run(run).unwrap().finish()
}

/// Returns an Ethernet frame of type IPv4 with this destination.
pub(crate) fn ipv4(destination: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 9, 9]);
    frame.extend(destination);
    frame.resize(60, 0x5A);
    frame
}

/// A scripted controller at the end of a connection.
pub(crate) struct Script {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

impl Script {
    pub(crate) fn new(stream: TcpStream) -> Script {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let input = Vec::new();
        let mut script = Script { stream, input };
        script.send(0, Body::Hello);
        assert_eq!(script.next().body, Body::Hello);
        script
    }

    pub(crate) fn connect(cables: &Cables, address: &str) -> Script {
        Script::new(Script::raw(cables, address).stream)
    }

    /// Returns a connection on which nothing was said.
    pub(crate) fn raw(cables: &Cables, address: &str) -> Script {
        let stream = cables.switch.run(|| TcpStream::connect(address)).unwrap();
        let (stream, input) = (stream.unwrap(), Vec::new());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Script { stream, input }
    }

    pub(crate) fn send(&mut self, xid: u32, body: Body) {
        self.stream
            .write_all(&encode(&Message { xid, body }))
            .unwrap();
    }

    /// Returns the next message. Questions whether it is there are answered.
    pub(crate) fn next(&mut self) -> Message {
        loop {
            let message = self.next_of_all();
            let Body::EchoRequest(data) = message.body else {
                return message;
            };
            self.send(message.xid, Body::EchoReply(data));
        }
    }

    pub(crate) fn next_of_all(&mut self) -> Message {
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

    /// Makes the objects of a text.
    pub(crate) fn make(&mut self, text: &str) {
        let mut reader = TextReader::new(pof::tables::Tables::new(Default::default()));
        for line in text.lines() {
            self.send(1, reader.read(line).unwrap().unwrap());
        }
        assert_eq!(self.ask(Body::BarrierRequest), Body::BarrierReply);
    }

    /// Makes the last object of a text: the others are there already.
    pub(crate) fn make_last(&mut self, text: &str) {
        let mut reader = TextReader::new(pof::tables::Tables::new(Default::default()));
        let read = text.lines().map(|line| reader.read(line).unwrap().unwrap());
        self.send(1, read.last().unwrap());
        assert_eq!(self.ask(Body::BarrierRequest), Body::BarrierReply);
    }

    /// Returns true if the connection ends. What comes before is passed over.
    pub(crate) fn closes(mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Sends a request, and returns the first message with its number.
    pub(crate) fn ask(&mut self, body: Body) -> Body {
        self.send(77_777, body);
        loop {
            let message = self.next();
            if message.xid == 77_777 {
                return message.body;
            }
        }
    }
}

pub(crate) fn counts(said: &Said, what: &str, key: &str, number: u64) -> (u64, u64) {
    let json = said.json();
    let list = json[what].as_array().unwrap();
    let one = list.iter().find(|one| one[key] == number).unwrap();
    let count = |name: &str| one[name].as_u64().unwrap();
    (count("packets"), count("bytes"))
}

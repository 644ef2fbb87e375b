//! A switch that hosts virtual data planes, with cables to its ports.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cables::Cables;
use super::scrape::Scraped;
use super::{Directory, Running, polyplane, said};

/// A switch that hosts virtual data planes, with cables to its ports, as its operator and the
/// tenants' controllers see it.
pub(crate) struct Host {
    pub(crate) cables: Cables,
    pub(crate) running: Running,
    pub(crate) address: String,
    pub(crate) directory: Directory,
    /// Lines that the switch has written to standard error.
    pub(crate) written: Arc<Mutex<Vec<String>>>,
    /// Number of tried frames. Each frame is different, so that a late one is not taken for
    /// another.
    pub(crate) tried: u8,
}

/// Result of a command: its standard output, or the error.
pub(crate) type Answer = Result<String, String>;

impl Host {
    /// Starts a switch. Returns `None`, and prints the reason, if the machine forbids namespaces.
    pub(crate) fn new(test: &str, ports: u32, options: &[&str]) -> Option<Host> {
        let cables = Cables::new(ports)?;
        let mut command = polyplane();
        command.args(["host", "--p4runtime", "127.0.0.1:9559", "--json"]);
        for port in 0..ports {
            command.arg("--port").arg(format!("{port}=port{port}"));
        }
        command
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
        let stderr = running.0.stderr.take().unwrap();
        let written = Arc::<Mutex<Vec<String>>>::default();
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let write = Arc::clone(&written);
        let mut lines = lines.inspect(move |line| write.lock().unwrap().push(line.clone()));
        let line = lines.find(|line| line.contains("are served at ")).unwrap();
        let (_, rest) = line.split_once("are served at ").unwrap();
        let address = rest.split(';').next().unwrap().to_owned();
        // A closed pipe would end the switch.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Host {
            written,
            cables,
            running,
            address,
            directory: Directory::new(test),
            tried: 0,
        })
    }

    pub(crate) fn command(&self, words: &[&str]) -> Answer {
        let mut all = vec![words[0], "--addr", &self.address];
        all.extend(&words[1..]);
        let said = self.cables.switch.run(|| said(&all)).unwrap();
        match said.status {
            Some(0) => Ok(said.out),
            _ => Err(said.err),
        }
    }

    pub(crate) fn tenant(&self, words: &[&str]) -> Answer {
        self.command(&[&["tenant"], words].concat())
    }

    /// Runs a command of a controller of this device.
    pub(crate) fn controller(&self, device: &str, words: &[&str]) -> Answer {
        self.command(&[&["ctl", "--device-id", device], words].concat())
    }

    /// Returns the line of the switch's standard error that has all these parts. Waits a moment
    /// for it.
    pub(crate) fn line(&self, parts: &[&str]) -> String {
        for _ in 0..50 {
            let lines = self.written.lock().unwrap();
            let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
            if let Some(line) = lines.iter().find(has_all) {
                return line.clone();
            }
            drop(lines);
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{parts:?} in none of {:?}", self.written.lock().unwrap());
    }

    pub(crate) fn listing(&self) -> serde_json::Value {
        let listing = self.tenant(&["list", "--json"]).unwrap();
        serde_json::from_str(&listing).unwrap()
    }

    /// Returns the metrics of a switch that serves them, as soon as they agree with the packet
    /// counts of `tenant list`. Workers publish their counts periodically.
    pub(crate) fn scrape(&self) -> Scraped {
        for _ in 0..50 {
            let scraped = self.cables.switch.run(|| Scraped::of(METRICS)).unwrap();
            if self.is_told(&scraped) {
                return scraped;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("metrics tell something else than {}", self.listing());
    }

    pub(crate) fn is_told(&self, scraped: &Scraped) -> bool {
        let listing = self.listing();
        listing["vpdps"].as_array().unwrap().iter().all(|vpdp| {
            let (of, packets) = (labels(vpdp), &vpdp["packets"]);
            let is =
                |series: String, count: &serde_json::Value| scraped.find(&series) == count.as_f64();
            let both = ["received", "sent"].iter().all(|direction| {
                let series = format!("vpdp_packets_total{{{of},direction=\"{direction}\"}}");
                is(series, &packets[direction])
            });
            let mut drops = packets["dropped"].as_object().unwrap().iter();
            both && drops.all(|(reason, count)| {
                let series = format!("dropped_packets_total{{{of},reason=\"{reason}\"}}");
                is(series, count)
            })
        })
    }

    /// Checks that the only vPDP has no program, as its operator and its controllers see it.
    pub(crate) fn has_no_program(&self, device: &str) {
        let listing = self.listing();
        assert!(listing["vpdps"][0]["program"].is_null(), "{listing}");
        let tables = self.controller(device, &["tables"]).unwrap_err();
        assert!(tables.contains("has no program"), "{tables}");
    }

    /// Returns a new frame to the host with this number.
    pub(crate) fn frame(&mut self, host: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, host, 2, 0, 0, 0, 0, 0xee, 0x88, 0xb5];
        self.tried += 1;
        bytes.resize(60, self.tried);
        bytes
    }

    /// Returns the end at which a frame from another end to this host arrives, if it does.
    pub(crate) fn carries(&mut self, from: usize, host: u8) -> Option<usize> {
        let frame = self.frame(host);
        self.cables.carries(from, &frame)
    }

    pub(crate) fn drops(&mut self, from: usize, host: u8) -> bool {
        let frame = self.frame(host);
        let within = Duration::from_millis(300);
        self.cables.carries_within(from, &frame, within).is_none()
    }

    /// Stops the switch. Returns its final report.
    pub(crate) fn stop(mut self) -> serde_json::Value {
        self.running.signal("TERM");
        let out = self.running.0.stdout.take().unwrap();
        let report = serde_json::from_reader(BufReader::new(out)).unwrap();
        assert_eq!(self.running.0.wait().unwrap().code(), Some(0));
        report
    }
}

pub(crate) const METRICS: &str = "127.0.0.1:9100";

/// Labels of all metrics of a vPDP.
pub(crate) fn labels(vpdp: &serde_json::Value) -> String {
    // JSON escapes quotes as the metrics format does.
    let [id, name, owner] = ["id", "name", "owner"].map(|what| &vpdp[what]);
    format!("device=\"{id}\",vpdp={name},owner={owner}")
}

pub(crate) fn forward(table: &str, host: u8, port: u32) -> String {
    format!("{table} {{ hdr.ethernet.dst: 02:00:00:00:00:{host:02x} }} -> to_port(port: {port})")
}

/// A vPDP's CPU port.
pub(crate) const CONTROLLERS: u32 = 510;

pub(crate) const L2: &str = "functions/l2_sw.p4";

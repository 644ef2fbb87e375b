//! Common parts of the tests of the built binary: its invocation, temporary directories,
//! captures, and users without privileges.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod authority;
pub(crate) mod cables;
pub(crate) mod host;
pub(crate) mod host_model;
pub(crate) mod plane;
pub(crate) mod pof;
pub(crate) mod scrape;
pub(crate) mod site;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::checksum::internet_checksum;

/// The unprivileged user id on every distribution.
pub(crate) const NOBODY: u32 = 65534;

/// Returns the command of the binary under test.
pub(crate) fn polyplane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_polyplane"))
}

/// Returns the path of a file of the examples.
pub(crate) fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A temporary directory of a test, removed when dropped.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(test: &str) -> Directory {
        let name = format!("polyplane-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// Returns the path of a file in it, as text.
    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub(crate) fn with(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), bytes).unwrap();
        self.file(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Output of a finished process.
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    /// Returns the one line of standard error. Panics with all output if there is not exactly
    /// one.
    pub(crate) fn one_line(&self) -> &str {
        let mut lines = self.err.lines();
        match (lines.next(), lines.next()) {
            (Some(line), None) => line,
            _ => panic!("not one line:\n{}\n{}", self.err, self.out),
        }
    }

    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}:\n{}\n{}", self.out, self.err))
    }
}

/// Runs the binary to its end, which must come within a minute.
pub(crate) fn said(arguments: &[&str]) -> Said {
    Running::start(polyplane().args(arguments)).finish()
}

/// A running process; killed if the test ends first.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(piped.spawn().unwrap())
    }

    /// Returns the address at which a started switch reports that it is served. Later output is
    /// read and discarded, because a closed pipe would end the switch.
    pub(crate) fn served_address(&mut self) -> String {
        let stderr = self.0.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains(" served at ")).unwrap();
        let (_, rest) = line.split_once(" served at ").unwrap();
        let address = rest.split(';').next().unwrap().to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        address
    }

    /// Sends a signal by its name, as in `TERM`. Uses the shell's builtin, because the program
    /// `kill` may be missing.
    pub(crate) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.0.id());
        assert!(
            Command::new("sh")
                .args(["-c", &command])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end, for at most a minute, because the machine may be busy.
    pub(crate) fn finish(mut self) -> Said {
        let start = Instant::now();
        // A full pipe would stop the process. A test may have taken one.
        let out = read_on_thread(self.0.stdout.take());
        let err = read_on_thread(self.0.stderr.take());
        while self.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        let status = self.0.wait().unwrap().code();
        Said { status, out, err }
    }
}

/// Reads a pipe to its end.
fn read_on_thread(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_string(&mut text).unwrap();
        }
        text
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies the binary to a place that a user without privileges can reach. Returns a command that
/// runs it as such a user.
pub(crate) fn without_rights(directory: &Directory) -> Command {
    use std::os::unix::fs::PermissionsExt;
    let copy = directory.0.join("polyplane");
    // Copied by a separate process. Else a process that another test starts meanwhile would have
    // the copy open for writing, and it could not be run (ETXTBSY).
    let original = env!("CARGO_BIN_EXE_polyplane");
    let copied = Command::new("cp").arg(original).arg(&copy).status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(copy);
    command.current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let uid = |line: &str| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]);
    status.lines().any(uid)
}

/// A captured packet: its time in microseconds, its bytes, and its length on the wire.
pub(crate) struct Captured {
    pub(crate) time_us: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) original_len: usize,
}

/// Returns a packet that was captured whole.
pub(crate) fn whole(time_us: u64, bytes: Vec<u8>) -> Captured {
    let original_len = bytes.len();
    Captured {
        time_us,
        bytes,
        original_len,
    }
}

/// Returns a pcap file with microseconds, written byte by byte as in the description of the
/// format.
pub(crate) fn pcap(packets: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for packet in packets {
        let (seconds, micros) = (packet.time_us / 1_000_000, packet.time_us % 1_000_000);
        for word in [
            seconds as usize,
            micros as usize,
            packet.bytes.len(),
            packet.original_len,
        ] {
            file.extend((word as u32).to_le_bytes());
        }
        file.extend(&packet.bytes);
    }
    file
}

/// Returns the packets of a capture that `replay` wrote: time in nanoseconds, and bytes.
pub(crate) fn packets(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(file[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let mut packets = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let len = word(at + 8) as usize;
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        packets.push((time, file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    packets
}

/// Returns an Ethernet frame with an IPv4 packet of `len` bytes between the example router's
/// hosts, sent by the one at port `from` (0 or 1).
pub(crate) fn to_other_host(from: u8, len: usize, number: u16) -> Vec<u8> {
    let net = from + 1;
    let mut frame = vec![2, 0, 0, 0, net, 1, 2, 0, 0, 0, net, 2, 8, 0];
    let mut ipv4 = vec![0x45, 0];
    ipv4.extend((len as u16).to_be_bytes());
    ipv4.extend(number.to_be_bytes());
    ipv4.extend([0, 0, 64, 17, 0, 0, 10, 0, net, 2, 10, 0, 3 - net, 2]);
    let checksum = internet_checksum(&ipv4);
    ipv4[10..12].copy_from_slice(&checksum.to_be_bytes());
    ipv4.resize(len, number as u8);
    frame.extend(ipv4);
    frame
}

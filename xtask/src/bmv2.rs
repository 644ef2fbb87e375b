//! `cargo xtask bmv2`: emitted programs of reductions on BMv2, compared with `interp` and `jit`.
//!
//! The example `exchange` of the crate `aggregate` prints programs, frames, and what both engines
//! send. p4c compiles each program, and BMv2 gets the frames by interfaces of a namespace. It keeps
//! the order of one interface alone, so the next frame waits for what it sends for this one.
//!
//! A p4c that is not installed finds its include files by `P4C_16_INCLUDE_PATH`. A packet in
//! simple_switch has room to grow by 512 bytes (`SimpleSwitch::receive_`), and replies with pairs
//! grow more: build it with 4,096 there.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos};
use port::{Netns, Port};

use crate::{Outcome, cables};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// p4c's compiler for BMv2. [default: p4c-bm2-ss, and without it nothing is compared]
    #[arg(long, value_name = "PATH")]
    p4c: Option<PathBuf>,
    /// BMv2's switch. [default: simple_switch, and without it nothing is compared]
    #[arg(long, value_name = "PATH")]
    simple_switch: Option<PathBuf>,
    /// Frames for each program.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    frames: u32,
    /// Only programs with this word in their names.
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

/// Number of ports of an exchange.
const PORTS: usize = 4;

/// Time after which a frame counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time without a frame after which nothing more comes.
const QUIET: Duration = Duration::from_millis(500);

/// A frame to the switch, and what the switch sends for it.
struct Step {
    port: usize,
    frame: Vec<u8>,
    sent: Vec<(usize, Vec<u8>)>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (p4c, simple_switch) = (
        find(options.p4c.as_deref(), "p4c-bm2-ss")?,
        find(options.simple_switch.as_deref(), "simple_switch")?,
    );
    let (Some(p4c), Some(simple_switch)) = (p4c, simple_switch) else {
        return Ok(());
    };
    let programs = Programs { p4c, simple_switch };
    let directory = std::env::temp_dir().join(format!("polyplane-bmv2-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let outcome = run_in(options, &programs, &directory);
    // A folder that is left does no harm.
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

/// The programs to compare with.
struct Programs {
    p4c: PathBuf,
    simple_switch: PathBuf,
}

/// Returns the path of a program that runs. Without a path, a program that is not there is none,
/// which is printed.
fn find(given: Option<&Path>, default: &str) -> Result<Option<PathBuf>, String> {
    let path = given.unwrap_or(Path::new(default));
    match Command::new(path).arg("--version").output() {
        Ok(_) => Ok(Some(path.to_owned())),
        Err(error) if given.is_some() => Err(format!("{}: {error}", path.display())),
        Err(error) => {
            println!("skipped: {default} cannot be run: {error}");
            Ok(None)
        }
    }
}

fn run_in(options: &Options, programs: &Programs, directory: &Path) -> Outcome {
    let (mut compared, mut failures) = (0, 0);
    for name in exchange(&[])?.lines() {
        if (options.only.as_ref()).is_some_and(|word| !name.contains(word.as_str())) {
            continue;
        }
        compared += 1;
        match compare(programs, options.frames, directory, name) {
            Ok(report) => println!("{name}: {report}"),
            Err(error) => {
                println!("{name}: FAILED: {error}");
                failures += 1;
            }
        }
    }
    match (compared, failures) {
        (0, _) => Err("no program has this word in its name".to_owned()),
        (_, 0) => Ok(()),
        (_, failures) => Err(format!("{failures} of {compared} programs failed")),
    }
}

/// Runs the example and returns what it prints.
fn exchange(words: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--profile", "checked", "--quiet"])
        .args(["--package", "aggregate", "--example", "exchange", "--"])
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
        false => Err("the example `exchange` failed".to_owned()),
    }
}

/// Compiles a program by p4c and runs it on BMv2. Returns a line about what was compared.
fn compare(
    programs: &Programs,
    frames: u32,
    directory: &Path,
    name: &str,
) -> Result<String, String> {
    let printed = exchange(&[name, &frames.to_string()])?;
    let (text, frames) = printed.split_once("FRAMES\n").ok_or("no frames")?;
    let (program, json) = (directory.join("switch.p4"), directory.join("switch.json"));
    std::fs::write(&program, text).map_err(|error| error.to_string())?;
    let compiled = Command::new(&programs.p4c)
        .arg("-o")
        .args([&json, &program])
        .output()
        .map_err(|error| error.to_string())?;
    if !compiled.status.success() {
        let messages = String::from_utf8_lossy(&compiled.stderr);
        return Err(format!("p4c refuses the program: {}", messages.trim_end()));
    }
    let steps = read(frames)?;
    let netns = Netns::create().map_err(|error| error.to_string())?;
    let names = (0..PORTS).map(|port| (format!("s{port}"), format!("h{port}")));
    let mut ports = cables::lay(&netns, names)?;
    let own = sockets(&netns)?;
    let mut switch = start(programs, &netns, &json)?;
    let outcome = match wait_for(&mut switch, &netns, own + PORTS) {
        Ok(()) => run_frames(&mut ports, &steps, &mut switch),
        Err(error) => Err(error),
    };
    let _ = switch.kill();
    let _ = switch.wait();
    outcome
}

/// Returns the number of packet sockets in a namespace.
fn sockets(netns: &Netns) -> Result<usize, String> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/packet");
    let sockets = netns.run(read).map_err(|error| error.to_string())?;
    // The first line is a headline.
    let lines = sockets.map(|sockets| sockets.lines().skip(1).count());
    lines.map_err(|error| error.to_string())
}

/// Waits until the switch has opened its interfaces, and there are this many packet sockets.
fn wait_for(switch: &mut Child, netns: &Netns, expected: usize) -> Outcome {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if sockets(netns)? >= expected {
            return Ok(());
        }
        if let Ok(Some(status)) = switch.try_wait() {
            return Err(format!("simple_switch ended: {status}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("simple_switch does not open its interfaces".to_owned())
}

fn read(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (way, port, bytes) = (words.next(), words.next(), words.next());
        let port = port.and_then(|port| port.parse().ok());
        let (Some(port), Some(frame)) = (port, bytes.and_then(bytes_of)) else {
            return Err(format!("{line} is no frame"));
        };
        match (way, steps.last_mut()) {
            (Some("<"), Some(step)) => step.sent.push((port, frame)),
            _ => steps.push(Step {
                port,
                frame,
                sent: Vec::new(),
            }),
        }
    }
    Ok(steps)
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

fn start(programs: &Programs, netns: &Netns, json: &Path) -> Result<Child, String> {
    let mut command = Command::new(&programs.simple_switch);
    for port in 0..PORTS {
        command.args(["-i", &format!("{port}@s{port}")]);
    }
    command
        .arg(json)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = netns.run(|| command.spawn());
    let started = started.map_err(|error| error.to_string())?;
    started.map_err(|error| format!("{}: {error}", programs.simple_switch.display()))
}

fn run_frames(
    ports: &mut [Box<dyn Port>],
    steps: &[Step],
    switch: &mut Child,
) -> Result<String, String> {
    let mut expected: [VecDeque<(usize, &[u8])>; PORTS] = Default::default();
    let mut compared = 0;
    let mut last = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        let frame = Frame::from_bytes(&step.frame).map_err(|error| error.to_string())?;
        for (port, sent) in &step.sent {
            let queue = expected.get_mut(*port).ok_or("a frame for no port")?;
            queue.push_back((number, sent));
        }
        if ports[step.port].tx(std::slice::from_ref(&frame)).sent != 1 {
            return Err(format!("frame {number} cannot be sent"));
        }
        // A frame for which nothing is sent is followed by one of the same port.
        while expected.iter().any(|queue| !queue.is_empty()) {
            compared += take(ports, &mut expected, &mut last)?;
            waited(switch, last, &expected)?;
        }
    }
    while last.elapsed() < QUIET {
        compared += take(ports, &mut expected, &mut last)?;
        waited(switch, last, &expected)?;
    }
    Ok(format!(
        "{} frames, {compared} sent by BMv2, as by interp and jit",
        steps.len()
    ))
}

/// Fails if the switch has ended or is silent while frames are expected.
fn waited(
    switch: &mut Child,
    last: Instant,
    expected: &[VecDeque<(usize, &[u8])>; PORTS],
) -> Outcome {
    if let Ok(Some(status)) = switch.try_wait() {
        return Err(format!("simple_switch ended: {status}"));
    }
    let next = expected.iter().filter_map(|queue| queue.front()).min();
    match next {
        Some((number, _)) if last.elapsed() > PATIENCE => {
            Err(format!("nothing is sent for frame {number}"))
        }
        _ => Ok(()),
    }
}

/// Receives frames and compares them. Returns their number.
fn take(
    ports: &mut [Box<dyn Port>],
    expected: &mut [VecDeque<(usize, &[u8])>; PORTS],
    last: &mut Instant,
) -> Result<usize, String> {
    let mut taken = 0;
    for (port, expected) in ports.iter_mut().zip(expected) {
        let mut batch = Batch::default();
        let received = port.rx(&mut batch, Nanos::ZERO);
        received.map_err(|error| error.to_string())?;
        for frame in batch.frames() {
            let Some((number, wanted)) = expected.pop_front() else {
                return Err(format!("a frame more at {}", port.name()));
            };
            if frame.bytes() != wanted {
                return Err(format!("frame {number} differs at {}", port.name()));
            }
            taken += 1;
            *last = Instant::now();
        }
    }
    if taken == 0 {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(taken)
}

//! `cargo xtask pof-clients`: POFSwitch, a POF switch in C, beside ours.
//!
//! POFSwitch at a pinned commit is built by gcc in Cargo's target folder. `polyplane pof ctl` gives
//! both switches the same tables and random lists of instructions, and both get the same frames.
//! What they send must be equal, byte for byte. A list at which POFSwitch ends by a fault of its
//! own is counted and left out. What cannot be had is reported as skipped, never as passed.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos};
use port::{Netns, Port};
use support::rng::Rng;

use crate::limited::{self, KilledChild};
use crate::{Outcome, cables};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lists of instructions of each kind.
    #[arg(long, value_name = "N", default_value_t = 100)]
    lists: u32,
    /// Seed of the lists and frames.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only kinds with this word in their names.
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// A clone of POFSwitch's repository. [default: its public address]
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
    /// The binary `polyplane`. [default: this repository's, which is built]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

const REPOSITORY: &str = "https://github.com/USTC-INFINITELAB/POFSwitch";
const COMMIT: &str = "df183be8fc3b20395bba29b41bdbbbfc1fb111bb";

/// A kind of lists.
struct Kind {
    name: &'static str,
    /// Writes a list that ends without output.
    list: fn(&mut Rng) -> String,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "set_field",
        list: |rng| lines(rng, 3, set_field),
    },
    Kind {
        name: "set_field_from_metadata",
        list: |rng| {
            let (to, from) = (bits(rng, 272, 800), bytes(rng, 34, 90));
            format!(
                "write_metadata_from_packet 64 {}/{}; set_field_from_metadata {} 64",
                8 * from.0,
                to.1,
                field(to)
            )
        },
    },
    Kind {
        name: "modify_field",
        list: |rng| {
            let (at, length) = (34 + rng.below(50), 8 * (1 + rng.below(4)));
            format!("modify_field {}/{length} {}", 8 * at, rng.below(200))
        },
    },
    Kind {
        name: "add_field",
        list: |rng| {
            let (at, length) = bytes(rng, 34, 90);
            let value = number(rng, 8 * length);
            format!("add_field {}/{}={value}", 8 * at, 8 * length)
        },
    },
    Kind {
        name: "delete_field",
        list: |rng| {
            let (at, length) = bytes(rng, 34, 80);
            format!("delete_field {} {}", 8 * at, 8 * length)
        },
    },
    Kind {
        name: "calculate_checksum",
        list: |rng| {
            let data = 34 + 2 * rng.below(10);
            let words = 1 + rng.below(16);
            format!("calculate_checksum 192/16 {}/{}", 8 * data, 16 * words)
        },
    },
    Kind {
        name: "calculate_field",
        list: |rng| {
            let operations = ["add", "subtract", "and", "or", "xor", "nor"];
            let operation = operations[rng.index(operations.len())];
            let (at, length) = (34 + rng.below(50), 8 * (1 + rng.below(4)));
            let operand = rng.below(1 << 31);
            format!("calculate_field {operation} {}/{length} {operand}", 8 * at)
        },
    },
    Kind {
        name: "move_packet_offset",
        list: |rng| {
            let moved = 1 + rng.below(30);
            let set = set_field(rng);
            format!("move_packet_offset +{moved}; {set}; move_packet_offset -{moved}")
        },
    },
    Kind {
        name: "goto",
        list: |rng| format!("{}; goto mm/1", set_field(rng)),
    },
];

fn lines(rng: &mut Rng, most: u64, line: fn(&mut Rng) -> String) -> String {
    let lines: Vec<String> = (0..=rng.below(most)).map(|_| line(rng)).collect();
    lines.join(", ")
}

fn set_field(rng: &mut Rng) -> String {
    let at = bits(rng, 272, 700);
    let value = number(rng, at.1);
    format!("set_field {}={value}", field(at))
}

/// Returns offset and length of a field of at most 32 bits between two bits.
fn bits(rng: &mut Rng, from: u64, to: u64) -> (u64, u64) {
    (from + rng.below(to - from), 1 + rng.below(32))
}

/// Returns offset and length of a field of at most 16 bytes between two bytes.
fn bytes(rng: &mut Rng, from: u64, to: u64) -> (u64, u64) {
    (from + rng.below(to - from - 16), 1 + rng.below(16))
}

fn field((offset, length): (u64, u64)) -> String {
    format!("{offset}/{length}")
}

fn number(rng: &mut Rng, bits: u64) -> String {
    let value = u128::from(rng.bits()) << 64 | u128::from(rng.bits());
    format!("{:#x}", value >> (128 - bits))
}

/// Frames of a list.
const FRAMES: u32 = 4;

/// Address of the frame that ends the answers to one.
const MARKER: u32 = 0x0AFF_FFFF;

/// Time that a switch has for its start, and for a frame.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time that a program has that gets or builds POFSwitch.
const BUILD_PATIENCE: Duration = Duration::from_secs(600);

/// Number of lists of a kind at which POFSwitch may end by a fault of its own.
const MAX_ENDS: u32 = 40;

/// Names of the switch's interfaces, and those of the other ends.
const PORTS: [(&str, &str); 2] = [("sw1", "h1"), ("sw2", "h2")];

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let kinds = kinds(options)?;
    println!("skipped: PCTRL, a controller in Python 2: no public address of its sources is known");
    let other = match other_switch(options) {
        Ok(other) => other,
        Err(reason) => {
            println!("skipped: POFSwitch: {reason}");
            return Ok(());
        }
    };
    if let Err(error) = Netns::create() {
        println!("skipped: POFSwitch: {error}");
        return Ok(());
    }
    let ours = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root)?,
    };
    let directory = crate::target().join(format!("pof-clients/run-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let outcome = compare_all(options, &kinds, &ours, &other, &directory);
    match outcome {
        // A folder that is left does no harm.
        Ok(()) => drop(std::fs::remove_dir_all(&directory)),
        Err(_) => println!("tables and POFSwitch's log: {}", directory.display()),
    }
    outcome
}

/// Returns the kinds of lists that are chosen.
///
/// # Errors
/// There is none, or no list of them.
fn kinds(options: &Options) -> Result<Vec<&'static Kind>, String> {
    let word = options.only.as_deref().unwrap_or_default();
    let chosen = KINDS.iter().filter(|kind| kind.name.contains(word));
    let chosen: Vec<&Kind> = chosen.collect();
    if chosen.is_empty() {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(format!(
            "no kind has `{word}` in its name; there are: {}",
            names.join(", ")
        ));
    }
    match options.lists {
        0 => Err("nothing is compared with --lists 0".to_owned()),
        _ => Ok(chosen),
    }
}

/// Builds our binary without optimisation.
fn build(root: &Path) -> Result<PathBuf, String> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--workspace", "--bin", "polyplane"])
        .status();
    match status.map_err(|error| error.to_string())?.success() {
        true => Ok(crate::target().join("debug/polyplane")),
        false => Err("`cargo build` failed".to_owned()),
    }
}

/// Builds POFSwitch. Returns its binary, or a reason if it cannot be had.
fn other_switch(options: &Options) -> Result<PathBuf, String> {
    let place = crate::target().join("pof-clients");
    let binary = place.join(format!("pofswitch-{COMMIT}"));
    if binary.exists() && options.sources.is_none() {
        return Ok(binary);
    }
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let sources = place.join("sources");
    // Of an earlier run that did not end.
    let _ = std::fs::remove_dir_all(&sources);
    let from = match &options.sources {
        Some(given) => given.display().to_string(),
        None => REPOSITORY.to_owned(),
    };
    let sources_text = sources.display().to_string();
    command("git", &["clone", "--quiet", &from, &sources_text])?;
    command("git", &["-C", &sources_text, "checkout", "--quiet", COMMIT])?;
    mend(&sources)?;
    let mut files = Vec::new();
    for folder in ["common", "datapath", "local_resource", "switch_control"] {
        let folder = std::fs::read_dir(sources.join(folder)).map_err(|error| error.to_string())?;
        let paths = folder.flatten().map(|entry| entry.path());
        files.extend(paths.filter(|path| {
            path.extension().is_some_and(|extension| extension == "c")
                // A program of its own.
                && !path.ends_with("pof_sctrl.c")
        }));
    }
    files.sort();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-w", "-fcommon", "-fno-strict-aliasing"])
        // Its functions use variables that they have not set.
        .args([
            "-ftrivial-auto-var-init=zero",
            "-fno-delete-null-pointer-checks",
        ])
        .args([
            "-DPOF_PROMISC_ON",
            "-DPOFSWITCH_VERSION_NO=POFSwitch_VERSION_1_4_0",
        ])
        .args([
            r#"-DPOFSWITCH_VERSION="1.4.0""#,
            r#"-DPOFSWITCH_VERSION_SUB="015""#,
        ])
        .arg("-I")
        .arg(sources.join("include"))
        .args(files)
        .args(["-lpthread", "-lm", "-o"])
        .arg(&binary);
    finish("gcc", &mut gcc)?;
    Ok(binary)
}

/// Corrects what a compiler of today takes away: its lists end where the address of a member is
/// null, which never holds by the standard of C.
fn mend(sources: &Path) -> Outcome {
    let path = sources.join("include/pof_hmap.h");
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let mended = text
        .replace(
            "&((obj)->node) &&",
            "(volatile uintptr_t){(uintptr_t)&((obj)->node)} &&",
        )
        .replace(
            "#define _POF_HMAP_H_",
            "#define _POF_HMAP_H_\n#include <stdint.h>",
        );
    std::fs::write(path, mended).map_err(|error| error.to_string())
}

fn command(name: &str, words: &[&str]) -> Outcome {
    finish(name, Command::new(name).args(words))
}

fn finish(name: &str, command: &mut Command) -> Outcome {
    let output = limited::output(command.stdin(Stdio::null()), BUILD_PATIENCE);
    let output = output.map_err(|error| format!("{name} cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{name} failed: {}", said.trim_end()))
        }
    }
}

/// A switch of which the process is killed in the end.
struct Switch {
    name: &'static str,
    ports: Vec<Box<dyn Port>>,
    child: Child,
    netns: Netns,
}

impl Switch {
    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compare_all(
    options: &Options,
    kinds: &[&Kind],
    ours: &Path,
    other: &Path,
    directory: &Path,
) -> Outcome {
    let mut failures = Vec::new();
    for kind in kinds {
        let mut rng = Rng::new(options.seed);
        let lists: Vec<String> = (0..options.lists).map(|_| (kind.list)(&mut rng)).collect();
        let tables = directory.join("tables.pof");
        std::fs::write(&tables, text(&lists)).map_err(|error| error.to_string())?;
        let mut our_switch = start_ours(ours, &tables)?;
        let start = || start_other(ours, other, &tables, directory);
        let mut other_switch = start()?;
        let (mut frames, mut sent, mut ends, mut unequal) = (0, 0, 0, Vec::new());
        for (index, list) in lists.iter().enumerate() {
            for _ in 0..FRAMES {
                let frame = frame(&mut rng, index as u32);
                let one = ask(&mut our_switch, &frame)?;
                let two = match ask(&mut other_switch, &frame) {
                    Err(_) if other_switch.has_ended() && ends < MAX_ENDS => {
                        ends += 1;
                        other_switch = start()?;
                        break;
                    }
                    answer => answer?,
                };
                frames += 1;
                sent += two.len();
                if one != two {
                    unequal.push((list, frame, one, two));
                }
            }
        }
        println!(
            "{}: {} lists, {frames} frames, {sent} sent by POFSwitch, which ended at {ends} lists; \
             answers that differ: {}",
            kind.name,
            lists.len(),
            unequal.len()
        );
        if sent == 0 {
            failures.push(kind.name);
        }
        if let Some((list, frame, one, two)) = unequal.first() {
            println!("  {list}\n  of  {}", hex(frame));
            for (name, sent) in [("ours", one), ("POFSwitch", two)] {
                for (port, bytes) in sent {
                    println!("  {name} {}: {}", port + 1, hex(bytes));
                }
            }
            failures.push(kind.name);
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "other frames than POFSwitch, or none: {}",
            failures.join(", ")
        )),
    }
}

/// Returns the tables: an entry for each list, by destination address, and that of the marker.
fn text(lists: &[String]) -> String {
    let mut text = "table add mm/0 size 4096 fields dst=240/32\n\
                    table add mm/1 size 16 fields dst=240/32\n\
                    flow add mm/1 index 0 priority 1 match dst=0&0 do output 2\n"
        .to_owned();
    let mut add = |index: usize, address: u32, list: &str| {
        let address = std::net::Ipv4Addr::from(address);
        // Writing to text does not fail.
        let _ = writeln!(
            text,
            "flow add mm/0 index {index} priority 10 match dst={address} do {list}"
        );
    };
    for (index, list) in lists.iter().enumerate() {
        let rest = if list.contains("goto") {
            ""
        } else {
            "; output 2"
        };
        add(index, address(index as u32), &format!("{list}{rest}"));
    }
    add(lists.len(), MARKER, "output 1, output 2");
    text
}

fn address(list: u32) -> u32 {
    0x0A00_0001 + list
}

/// Returns a random frame for a list.
fn frame(rng: &mut Rng, list: u32) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    bytes
        .iter_mut()
        .for_each(|byte| *byte = rng.below(256) as u8);
    finish_frame(&mut bytes, address(list));
    bytes
}

fn finish_frame(bytes: &mut [u8], address: u32) {
    // An own address, so that no interface takes it for another host's.
    bytes[..6].copy_from_slice(&[0xFF; 6]);
    bytes[6] &= 0xFE;
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    bytes[30..34].copy_from_slice(&address.to_be_bytes());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates a namespace with the interfaces of a switch.
fn namespace() -> Result<(Netns, Vec<Box<dyn Port>>), String> {
    let netns = Netns::create().map_err(|error| error.to_string())?;
    let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
    rtnl.set_up("lo").map_err(|error| error.to_string())?;
    let ports = cables::lay(&netns, PORTS)?;
    Ok((netns, ports))
}

fn start_ours(binary: &Path, tables: &Path) -> Result<Switch, String> {
    let (netns, ports) = namespace()?;
    let mut command = Command::new(binary);
    command
        .args(["pof", "--listen", "127.0.0.1:6633", "--io", "packet"])
        .args(["--port", "1=sw1", "--port", "2=sw2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = spawn(&netns, &mut command)?;
    let switch = Switch {
        name: "our switch",
        ports,
        child,
        netns,
    };
    let begin = Instant::now();
    loop {
        let mut command = Command::new(binary);
        command
            .args(["pof", "ctl", "127.0.0.1:6633", "apply"])
            .arg(tables);
        let output = in_namespace(&switch.netns, || limited::output(&mut command, PATIENCE))?;
        if output.status.success() {
            return Ok(switch);
        }
        if begin.elapsed() > PATIENCE {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("our switch does not take the tables: {said}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn start_other(
    ctl: &Path,
    binary: &Path,
    tables: &Path,
    directory: &Path,
) -> Result<Switch, String> {
    let (netns, ports) = namespace()?;
    // It must have an interface with an address of its own towards the controller, and `ctl` serves
    // this machine only without TLS: bytes are passed on.
    let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
    let failed = |error: port::RtnlError| error.to_string();
    rtnl.add_veth("c0", "c1", None).map_err(failed)?;
    rtnl.set_up("c1").map_err(failed)?;
    rtnl.set_up("c0").map_err(failed)?;
    let own = std::net::Ipv4Addr::new(10, 9, 0, 2);
    rtnl.add_address("c0", own.into(), 24).map_err(failed)?;
    let listener = in_namespace(&netns, || TcpListener::bind((own, 6633)))?;
    let config = directory.join("pofswitch.conf");
    std::fs::write(&config, CONFIG).map_err(|error| error.to_string())?;
    let log = std::fs::File::create(directory.join("pofswitch.log"));
    let log = log.map_err(|error| error.to_string())?;
    let mut command = Command::new(binary);
    command
        .args([
            "-m", "-P", "-a", "sw1", "-a", "sw2", "-i", "10.9.0.2", "-p", "6633", "-f",
        ])
        .arg(&config)
        .args(["-L", "6700", "-V", "error"])
        // It ends with its standard input, which is a pipe that stays open.
        .stdin(Stdio::piped())
        .stdout(log.try_clone().map_err(|error| error.to_string())?)
        .stderr(log);
    let mut ctl = Command::new(ctl);
    ctl.args(["pof", "ctl", "--wait", "127.0.0.1:6634", "apply"])
        .arg(tables);
    ctl.stdout(Stdio::null()).stderr(Stdio::piped());
    let ctl = KilledChild(spawn(&netns, &mut ctl)?);
    let child = spawn(&netns, &mut command)?;
    let switch = Switch {
        name: "POFSwitch",
        ports,
        child,
        netns,
    };
    let near = in_namespace(&switch.netns, || pass_on(&listener))?;
    let output = ctl.output(PATIENCE);
    let output = output.map_err(|error| format!("the tables of POFSwitch: {error}"))?;
    // It dials again, and would forget its tables: the listener has gone.
    drop((near, listener));
    match output.status.success() {
        true => Ok(switch),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "POFSwitch does not take the tables: {}",
                said.trim_end()
            ))
        }
    }
}

/// Settings of POFSwitch.
const CONFIG: &str = "Controller_IP 10.9.0.2\nConnection_port 6633\nMM_table_number 8\n\
    LPM_table_number 2\nEM_table_number 6\nDT_table_number 7\nFlow_table_size 6000\n\
    Flow_table_key_length 320\nMeter_number 1024\nCounter_number 512\nGroup_number 1024\n\
    Device_port_number_max 100\n";

/// Passes the bytes of one connection on to a controller of this machine.
fn pass_on(listener: &TcpListener) -> io::Result<TcpStream> {
    let begin = Instant::now();
    let near = accept(listener, begin + PATIENCE)?;
    let to = SocketAddr::from(([127, 0, 0, 1], 6634));
    let far = loop {
        match TcpStream::connect(to) {
            Ok(far) => break far,
            Err(error) if begin.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    for (from, to, last) in [(&near, &far, Vec::new()), (&far, &near, port_mods())] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        std::thread::spawn(move || {
            // The other side sees the end.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.write_all(&last);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(near)
}

/// Returns the next connection, if it comes in time.
fn accept(listener: &TcpListener, end: Instant) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((near, _)) => {
                near.set_nonblocking(false)?;
                return Ok(near);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= end => {
                let message = "POFSwitch has not connected";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Returns the messages that let POFSwitch take packets of its ports. `ctl` has no line for them.
fn port_mods() -> Vec<u8> {
    const LENGTH: u8 = 136;
    let messages = (1..=PORTS.len() as u8).map(|port| {
        let mut message = [0; LENGTH as usize];
        // Version, type PORT_MOD, length; reason `modify`.
        message[..4].copy_from_slice(&[4, 17, 0, LENGTH]);
        message[8] = 2;
        message[19] = port;
        // After the addresses, the name and eight numbers: the port is enabled.
        message[128] = 1;
        message
    });
    messages.flatten().collect()
}

fn spawn(netns: &Netns, command: &mut Command) -> Result<Child, String> {
    in_namespace(netns, || command.spawn())
}

fn in_namespace<T: Send>(
    netns: &Netns,
    run: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, String> {
    let done = netns.run(run).map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}

/// Sends a frame to the first port, and the marker. Returns what the switch sends for the frame.
fn ask(switch: &mut Switch, frame: &[u8]) -> Result<Vec<(usize, Vec<u8>)>, String> {
    let mut marker = vec![0; 100];
    finish_frame(&mut marker, MARKER);
    for bytes in [frame, &marker] {
        let frame = Frame::from_bytes(bytes).map_err(|error| error.to_string())?;
        if switch.ports[0].tx(std::slice::from_ref(&frame)).sent != 1 {
            return Err("a frame cannot be sent".to_owned());
        }
    }
    let (mut sent, mut markers) = (Vec::new(), 0);
    let begin = Instant::now();
    while markers < PORTS.len() {
        for (number, port) in switch.ports.iter_mut().enumerate() {
            let mut batch = Batch::default();
            let received = port.rx(&mut batch, Nanos::ZERO);
            received.map_err(|error| error.to_string())?;
            for frame in batch.frames() {
                match frame.bytes() == marker {
                    true => markers += 1,
                    false => sent.push((number, frame.bytes().to_vec())),
                }
            }
        }
        if let Ok(Some(status)) = switch.child.try_wait() {
            return Err(format!(
                "{} ended with {status} at {}",
                switch.name,
                hex(frame)
            ));
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("{} is silent after {}", switch.name, hex(frame)));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    sent.sort();
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_is_no_success() {
        let options = |only: Option<&str>, lists| Options {
            lists,
            seed: 1,
            only: only.map(str::to_owned),
            sources: None,
            binary: None,
        };
        assert_eq!(
            kinds(&options(None, 1)).map(|kinds| kinds.len()),
            Ok(KINDS.len())
        );
        assert_eq!(
            kinds(&options(Some("modify"), 1)).map(|kinds| kinds.len()),
            Ok(1)
        );
        for (options, words) in [
            (options(Some("typo"), 1), "no kind has `typo`"),
            (options(None, 0), "--lists 0"),
        ] {
            let error = kinds(&options).err().unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_switch_that_does_not_connect_is_an_error() -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let late = accept(&listener, Instant::now());
        assert!(late.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        let _near = TcpStream::connect(listener.local_addr()?)?;
        accept(&listener, Instant::now() + PATIENCE).map(drop)
    }
}

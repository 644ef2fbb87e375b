//! `cargo xtask p4runtime-clients`: controllers from their registries, at pinned versions, against
//! the real server.
//!
//! Each client loads a program, writes, reads, and receives a packet and a digest. Two of them also
//! read and write a table that a reflex plane manages. Their source is in `xtask/p4runtime/`. Each
//! Python client has a virtual environment in Cargo's target folder, and the Go client has its
//! build cache there. A client that cannot be installed is reported as skipped, never as passed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Outcome;

/// A client.
struct Client {
    name: &'static str,
    kind: Kind,
}

/// Installation of a client.
enum Kind {
    /// From PyPI: a package with its version, and a script. Some have a script for a table that a
    /// reflex plane manages.
    Python {
        package: &'static str,
        script: &'static str,
        managed: Option<&'static str>,
    },
    /// A Go program. Its go.mod and go.sum pin its dependencies.
    Go,
}

const CLIENTS: [Client; 4] = [
    Client {
        name: "p4runtime-shell",
        kind: Kind::Python {
            package: "p4runtime-shell==0.0.6",
            script: "shell.py",
            managed: Some("managed_shell.py"),
        },
    },
    Client {
        name: "finsy",
        kind: Kind::Python {
            package: "finsy==0.30.0",
            script: "finsy_client.py",
            managed: Some("managed_finsy.py"),
        },
    },
    Client {
        name: "tutorials",
        kind: Kind::Python {
            package: "p4runtime-shell==0.0.6",
            script: "tutorials.py",
            managed: None,
        },
    },
    Client {
        name: "go",
        kind: Kind::Go,
    },
];

impl Client {
    /// Returns name and version.
    fn label(&self) -> &'static str {
        match self.kind {
            Kind::Python {
                script: "tutorials.py",
                ..
            } => "what controllers of the P4 tutorials send",
            Kind::Python { package, .. } => package,
            Kind::Go => "Go client (github.com/p4lang/p4runtime v1.5.0)",
        }
    }

    /// Installs the client if needed. Returns the words that start it, or the reason of a failure.
    fn install(&self, scripts: &Path, place: &Path) -> Result<Vec<PathBuf>, String> {
        match self.kind {
            Kind::Python {
                package, script, ..
            } => {
                let python = install_python(&place.join(self.name), package)?;
                Ok(vec![python, scripts.join(script)])
            }
            Kind::Go => Ok(vec![build_go(&scripts.join("go"), &place.join(self.name))?]),
        }
    }
}

/// Runs all clients.
pub(crate) fn run(root: &Path) -> Outcome {
    // With the features of the test builds, so that nothing is built twice.
    crate::cargo(&["build", "--quiet", "--workspace", "--bin", "polyplane"])?;
    let scripts = root.join("xtask/p4runtime");
    let place = crate::target().join("p4runtime-clients");
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let program = scripts.join("controller.p4");
    let info = place.join("controller.p4info.txt");
    write_info(&program, &info)?;
    let mut failed = Vec::new();
    for client in &CLIENTS {
        let words = match client.install(&scripts, &place) {
            Ok(words) => words,
            Err(why) => {
                println!("{}: skipped: {why}", client.label());
                continue;
            }
        };
        // Each client gets a switch without a program.
        let switch = Switch::start()?;
        let status = Command::new(&words[0])
            .args(&words[1..])
            .arg(&switch.address)
            .args([&info, &program])
            .status()
            .map_err(|error| format!("cannot start {}: {error}", client.name))?;
        let mut is_passed = status.success();
        if let Kind::Python {
            managed: Some(script),
            ..
        } = client.kind
        {
            is_passed &= check_managed(root, &place, &words[0], &scripts.join(script))?;
        }
        match is_passed {
            true => println!("{}: passed", client.label()),
            false => failed.push(client.label()),
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// Loops of a plane that reads a capture, and then waits at a socket.
const MANAGED_LOOPS: &str = r#"
name = "managed"
[[element]]
name = "leaf1"
device = "p4runtime:ADDRESS"
role = "reflex"
node = 1
[[source]]
listen = "pcap:reports.pcap"
from = [{ node = 2, address = "10.9.0.2" }]
int_dscp = 23
[[source]]
listen = "udp:127.0.0.1:0"
from = [{ node = 2, address = "10.9.0.2" }]
[[monitor]]
name = "slow paths"
kind = "path_latency"
match = ["ip.src 10.0.1.0/24"]
latency = "equal clocks"
above = "10 us"
reflex = "detour"
[[reflex]]
name = "detour"
element = "leaf1"
table = "IntIngress.detour"
key = ["ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst"]
action = "IntIngress.via"
ports = [3, 4]
"#;

/// Runs a script against a switch of which a reflex plane manages a table. The reports of the plane
/// are those of the simulated example.
fn check_managed(root: &Path, place: &Path, python: &Path, script: &Path) -> Result<bool, String> {
    let example = root.join("examples/reflex/slow_link");
    let capture = place.join("reports.pcap");
    quietly(
        Command::new(binary())
            .args(["reflex", "run"])
            .arg(example.join("loops.toml"))
            .arg("--fabric")
            .arg(example.join("fabric.toml"))
            .arg("--capture")
            .arg(format!("collector={}", capture.display())),
    )?;
    let program = format!("1={}", root.join("examples/int/int.p4").display());
    let switch = Switch::with(&["--device", &program])?;
    let loops = place.join("loops.toml");
    let text = MANAGED_LOOPS.replace("ADDRESS", &switch.address);
    std::fs::write(&loops, text).map_err(|error| format!("{}: {error}", loops.display()))?;
    let plane = Command::new(binary())
        .args(["reflex", "run"])
        .arg(&loops)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start polyplane: {error}"))?;
    let _plane = Running(plane);
    let status = Command::new(python)
        .arg(script)
        .arg(&switch.address)
        .status()
        .map_err(|error| format!("cannot start {}: {error}", script.display()))?;
    Ok(status.success())
}

fn binary() -> PathBuf {
    crate::target().join("debug/polyplane")
}

fn write_info(program: &Path, info: &Path) -> Outcome {
    let made = Command::new(binary())
        .arg("p4info")
        .arg(program)
        .output()
        .map_err(|error| format!("cannot start polyplane: {error}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned());
    }
    std::fs::write(info, made.stdout).map_err(|error| format!("{}: {error}", info.display()))
}

/// Returns a Python of the client's own environment, with its package.
fn install_python(home: &Path, package: &str) -> Result<PathBuf, String> {
    let python = home.join("bin/python");
    // Written after the installation has ended.
    let stamp = home.join(package);
    if stamp.exists() {
        return Ok(python);
    }
    let home = home.display().to_string();
    quietly(Command::new("python3").args(["-m", "venv", "--clear", &home]))?;
    // Without a network this fails soon.
    let options = ["--quiet", "--retries", "1", "--timeout", "15"];
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install"]).args(options);
    quietly(pip.arg(package))?;
    std::fs::write(&stamp, "").map_err(|error| error.to_string())?;
    Ok(python)
}

/// Builds the Go client from its source. Without its modules and a network this fails soon.
pub(crate) fn build_go(source: &Path, home: &Path) -> Result<PathBuf, String> {
    let client = home.join("client");
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-o"])
        .arg(&client)
        .arg(".")
        .current_dir(source)
        .env("GOCACHE", home.join("cache"))
        .env("GOTOOLCHAIN", "local");
    quietly(&mut go).map_err(|why| format!("go build: {why}"))?;
    Ok(client)
}

/// Runs a command. Returns the last line of its output if it fails.
fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.trim().lines().last().unwrap_or("it fails").to_owned())
}

/// A process that ends with this value.
struct Running(Child);

/// A running switch without ports but the controllers'.
struct Switch {
    /// It has no state to lose.
    _running: Running,
    address: String,
}

impl Switch {
    /// Starts a switch without a program.
    fn start() -> Result<Switch, String> {
        Switch::with(&[])
    }

    /// Starts a switch with more options.
    fn with(options: &[&str]) -> Result<Switch, String> {
        let mut child = Command::new(binary())
            .args(["serve", "--p4runtime", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start polyplane: {error}"))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no standard error")?).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            let rest = line.strip_prefix("P4Runtime is served at ")?;
            Some(rest.split(';').next()?.to_owned())
        });
        // Later output is read and dropped: a closed pipe would end the process.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.ok_or("the switch does not say where it serves")?;
        let _running = Running(child);
        Ok(Switch { _running, address })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

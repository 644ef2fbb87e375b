//! `cargo xtask tutorials`: the exercises of the P4 tutorials, with their own files and scripts.
//!
//! Each exercise is copied to a temporary folder with its solution, as a reader of the tutorials
//! does. One `polyplane fabric up` runs its topology, and lines of the prompt send what its README
//! sends. Then outputs are compared with what the README says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Outcome, limited};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A copy of the repository p4lang/tutorials.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A Python with scapy, and for controllers with grpcio and p4runtime-shell. Exercises that
    /// need what it lacks are skipped.
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The command to test. [default: polyplane of the debug build]
    #[arg(long, value_name = "PATH")]
    polyplane: Option<PathBuf>,
    /// Only exercises with this word in their names.
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
}

/// An exercise.
struct Exercise {
    name: &'static str,
    topology: &'static str,
    /// Files of the solution, each with the place that the README names.
    solution: &'static [(&'static str, &'static str)],
    /// The program that a controller sends, without its extension.
    controller: Option<&'static str>,
    /// Modules of Python that its scripts need.
    modules: &'static [&'static str],
    /// Lines of the prompt. `PYTHON` stands for the interpreter, and `WAIT FILE` waits for a
    /// receiver that writes the file, `WAIT FILE TEXT` for a text in it.
    lines: &'static [&'static str],
    /// Exit status of the command: 1 if the README says that a line fails.
    status: i32,
    checks: &'static [Check],
}

/// A text that the output of the command must have, or a file that a line has written.
enum Check {
    /// The output has this text.
    Output(&'static str),
    /// The output has no such text.
    NoOutput(&'static str),
    /// The file has this text at least as often.
    File(&'static str, &'static str, usize),
    /// The file has no such text.
    NoFile(&'static str, &'static str),
}

/// Time that an exercise has, and a compilation.
const PATIENCE: Duration = Duration::from_secs(180);

const SCAPY: &[&str] = &["scapy"];

/// Modules for filters of scapy's sniffer, which need the library libpcap.
const SNIFFER: &[&str] = &["scapy", "scapy.libs.winpcapy"];

const CONTROLLER: &[&str] = &["grpc", "p4", "p4.tmp.p4config_pb2"];

const CONTROLLER_WITH_SCAPY: &[&str] =
    &["grpc", "p4", "p4.tmp.p4config_pb2", "p4runtime_sh", "scapy"];

const EXERCISES: &[Exercise] = &[
    Exercise {
        name: "basic",
        topology: "pod-topo/topology.json",
        solution: &[("basic.p4", "basic.p4")],
        controller: None,
        modules: SCAPY,
        lines: &[
            "h1 ping -c 2 h2",
            "pingall",
            "h2 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 PYTHON send.py 10.0.2.2 'P4 is cool'",
            "sh sleep 1",
        ],
        status: 0,
        checks: &[
            Check::Output("12 of 12 answered"),
            Check::File("received", "P4 is cool", 1),
        ],
    },
    Exercise {
        name: "basic_tunnel",
        topology: "topology.json",
        solution: &[("basic_tunnel.p4", "basic_tunnel.p4")],
        controller: None,
        modules: SCAPY,
        lines: &[
            "pingall",
            "h2 PYTHON -u receive.py > received2 &",
            "h3 PYTHON -u receive.py > received3 &",
            "WAIT received3",
            "h1 PYTHON send.py 10.0.2.2 'without tunnel'",
            "h1 PYTHON send.py 10.0.3.3 'by tunnel 2' --dst_id 2",
            "sh sleep 1",
        ],
        status: 0,
        checks: &[
            Check::Output("6 of 6 answered"),
            Check::File("received2", "without tunnel", 1),
            Check::File("received2", "by tunnel 2", 1),
            Check::File("received2", "###[ MyTunnel ]###", 1),
            Check::NoFile("received3", "tunnel"),
        ],
    },
    Exercise {
        name: "calc",
        topology: "topology.json",
        solution: &[("calc.p4", "calc.p4")],
        controller: None,
        modules: SCAPY,
        lines: &[
            "h1 printf '1 + 1000\\n7 - 3\\n12 & 10\\n12 | 3\\n12 ^ 10\\nquit\\n' | \
             PYTHON calc.py > results",
        ],
        status: 0,
        checks: &[
            Check::File("results", "\n1001\n", 1),
            Check::File("results", "\n4\n", 1),
            Check::File("results", "\n8\n", 1),
            Check::File("results", "\n15\n", 1),
            Check::File("results", "\n6\n", 1),
        ],
    },
    Exercise {
        name: "ecn",
        topology: "topology.json",
        solution: &[("ecn.p4", "ecn.p4")],
        controller: None,
        modules: SNIFFER,
        lines: &[
            "h2 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 PYTHON send.py 10.0.2.2 'P4 is cool' 12 &",
            "sh sleep 3",
            "iperf h11 h22 7",
            "sh sleep 3",
        ],
        status: 0,
        // Without congestion the mark of the sender stays; the queue changes it to 3.
        checks: &[
            Check::File("received", "tos       = 0x1", 1),
            Check::File("received", "tos       = 0x3", 1),
        ],
    },
    Exercise {
        name: "firewall",
        topology: "pod-topo/topology.json",
        solution: &[("firewall.p4", "firewall.p4")],
        controller: None,
        modules: &[],
        lines: &["iperf h1 h2 1", "iperf h1 h3 1", "iperf h3 h1 1"],
        status: 1,
        checks: &[
            Check::Output("iperf h1 to h2: "),
            Check::Output("iperf h1 to h3: "),
            Check::NoOutput("iperf h3 to h1: "),
        ],
    },
    Exercise {
        name: "flowcache",
        topology: "topology.json",
        solution: &[
            ("flowcache.p4", "flowcache.p4"),
            ("mycontroller.py", "mycontroller.py"),
        ],
        controller: Some("flowcache"),
        modules: CONTROLLER_WITH_SCAPY,
        lines: &[
            "sh PYTHON -u mycontroller.py > controller 2>&1 &",
            "WAIT controller SetForwardingPipelineConfig on s3",
            "sh sleep 3",
            "h1 ping -c 6 h2",
            "h1 ping -c 6 h3",
            "s1 show flow_cache",
            "WAIT controller Deleted flow_cache entry",
        ],
        status: 0,
        checks: &[
            Check::Output("from 10.0.2.2: icmp_seq=6"),
            Check::Output("from 10.0.3.3: icmp_seq=6"),
            Check::Output("cached_action"),
            Check::File("controller", "Deleted flow_cache entry", 1),
        ],
    },
    Exercise {
        name: "link_monitor",
        topology: "pod-topo/topology.json",
        solution: &[("link_monitor.p4", "link_monitor.p4")],
        controller: None,
        modules: SCAPY,
        lines: &[
            "h1 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 PYTHON send.py > /dev/null &",
            "sh sleep 2",
            "iperf h1 h4 5",
            "sh sleep 2",
            "sh grep -q 'Switch 1 - Port 4: [1-9]' received && echo 'traffic was seen'",
        ],
        status: 0,
        // A probe visits eight links; `iperf` uses the one of s1's port 4.
        checks: &[
            Check::Output("traffic was seen"),
            Check::File("received", "Switch 2 - Port 4: ", 2),
            Check::File("received", "Switch 3 - Port ", 4),
            Check::File("received", "Switch 4 - Port ", 4),
            Check::NoFile("received", "Switch 0"),
        ],
    },
    Exercise {
        name: "load_balance",
        topology: "topology.json",
        solution: &[("load_balance.p4", "load_balance.p4")],
        controller: None,
        modules: SNIFFER,
        lines: &[
            "h2 PYTHON -u receive.py > received2 &",
            "h3 PYTHON -u receive.py > received3 &",
            "WAIT received3",
            "h1 for i in 1 2 3 4 5 6 7 8; do PYTHON send.py 10.0.0.1 'P4 is cool'; done > /dev/null",
            "sh sleep 1",
        ],
        status: 0,
        checks: &[
            Check::File("received2", "P4 is cool", 1),
            Check::File("received3", "P4 is cool", 1),
        ],
    },
    Exercise {
        name: "mri",
        topology: "topology.json",
        solution: &[("mri.p4", "mri.p4")],
        controller: None,
        modules: SNIFFER,
        lines: &[
            "h2 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 PYTHON send.py 10.0.2.2 'P4 is cool' 8 &",
            "sh sleep 2",
            "iperf h11 h22 5",
            "sh sleep 2",
            "sh grep -q 'qdepth    = [1-9]' received && echo 'a queue was seen'",
        ],
        status: 0,
        // The traces of both switches; with `iperf` the first one has a queue.
        checks: &[
            Check::File("received", "count     = 2", 4),
            Check::File("received", "swid      = 1", 4),
            Check::File("received", "swid      = 2", 4),
            Check::Output("a queue was seen"),
        ],
    },
    Exercise {
        name: "multicast",
        topology: "sig-topo/topology.json",
        solution: &[
            ("multicast.p4", "multicast.p4"),
            ("s1-runtime.json", "sig-topo/s1-runtime.json"),
        ],
        controller: None,
        modules: &[],
        lines: &["h1 ping -c 1 h2", "pingall"],
        status: 0,
        checks: &[Check::Output("12 of 12 answered")],
    },
    Exercise {
        name: "p4runtime",
        topology: "topology.json",
        solution: &[("mycontroller.py", "mycontroller.py")],
        controller: Some("advanced_tunnel"),
        modules: CONTROLLER,
        lines: &[
            "sh PYTHON -u mycontroller.py > controller 2>&1 &",
            "WAIT controller Reading tunnel counters",
            "h1 ping -c 3 h2",
            "WAIT controller s2 MyIngress.egressTunnelCounter 100: 3 packets",
        ],
        status: 0,
        checks: &[
            Check::Output("from 10.0.2.2: icmp_seq=3"),
            Check::File("controller", "Installed egress tunnel rule on s2", 1),
            Check::File(
                "controller",
                "s1 MyIngress.ingressTunnelCounter 100: 3 packets",
                1,
            ),
            Check::File(
                "controller",
                "s2 MyIngress.egressTunnelCounter 100: 3 packets",
                1,
            ),
        ],
    },
    Exercise {
        name: "qos",
        topology: "topology.json",
        solution: &[("qos.p4", "qos.p4")],
        controller: None,
        modules: SCAPY,
        lines: &[
            "h2 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 PYTHON send.py --p=UDP --des=10.0.2.2 --m='P4 is cool' --dur=2 > /dev/null",
            "h1 PYTHON send.py --p=TCP --des=10.0.2.2 --m='P4 is cool' --dur=2 > /dev/null",
            "sh sleep 1",
        ],
        status: 0,
        // Expedited forwarding for UDP, voice admit for TCP, beside the mark of the sender.
        checks: &[
            Check::File("received", "tos       = 0xb9", 2),
            Check::File("received", "tos       = 0xb1", 2),
        ],
    },
    Exercise {
        name: "source_routing",
        topology: "topology.json",
        solution: &[("source_routing.p4", "source_routing.p4")],
        controller: None,
        modules: SNIFFER,
        lines: &[
            "h2 PYTHON -u receive.py > received &",
            "WAIT received",
            "h1 printf '2 3 2 2 1\\n2 1\\nq\\n' | PYTHON send.py 10.0.2.2 > /dev/null",
            "sh sleep 1",
        ],
        status: 0,
        // Each switch takes 1 from the time to live, 64: five and two of them are visited.
        checks: &[
            Check::File("received", "ttl       = 59", 1),
            Check::File("received", "ttl       = 62", 1),
        ],
    },
];

pub(crate) fn run(options: &Options) -> Outcome {
    let polyplane = match &options.polyplane {
        Some(path) => path.clone(),
        None => {
            crate::cargo(&["build", "--workspace", "--bin", "polyplane"])?;
            crate::target().join("debug/polyplane")
        }
    };
    let polyplane = std::path::absolute(&polyplane).map_err(|error| error.to_string())?;
    let directory =
        std::env::temp_dir().join(format!("polyplane-tutorials-{}", std::process::id()));
    let (mut failed, mut skipped) = (Vec::new(), 0);
    let word = options.only.as_deref().unwrap_or_default();
    let chosen = EXERCISES
        .iter()
        .filter(|exercise| exercise.name.contains(word));
    if options.dir.join("exercises").read_dir().is_err() {
        let directory = options.dir.display();
        return Err(format!(
            "{directory} is no copy of the tutorials: it has no exercises"
        ));
    }
    let mut count = 0;
    for exercise in chosen {
        count += 1;
        let missing = exercise.modules.iter();
        let mut missing = missing.filter(|module| !has_module(&options.python, module));
        if let Some(module) = missing.next() {
            let python = options.python.display();
            println!("{}: skipped: {python} lacks {module}", exercise.name);
            skipped += 1;
            continue;
        }
        match try_exercise(exercise, options, &polyplane, &directory) {
            Ok(()) => println!("{}: as its README says", exercise.name),
            Err(why) => {
                println!("{}: FAILED: {why}", exercise.name);
                failed.push(exercise.name);
            }
        }
    }
    // A folder that is left does no harm.
    let _ = std::fs::remove_dir_all(&directory);
    println!(
        "{} of {count} as expected, {skipped} skipped",
        count - failed.len() - skipped
    );
    outcome(word, count, skipped, &failed)
}

/// Returns an error if an exercise has failed, or none was run.
fn outcome(word: &str, count: usize, skipped: usize, failed: &[&str]) -> Outcome {
    if count == 0 {
        let names: Vec<&str> = EXERCISES.iter().map(|exercise| exercise.name).collect();
        return Err(format!(
            "no exercise has `{word}` in its name; there are: {}",
            names.join(", ")
        ));
    }
    if skipped == count {
        return Err("nothing was run: all exercises were skipped; give another --python".into());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

fn has_module(python: &Path, module: &str) -> bool {
    let import = format!("import {module}");
    let mut command = Command::new(python);
    command.args(["-c", &import]).stdin(Stdio::null());
    limited::output(&mut command, PATIENCE).is_ok_and(|output| output.status.success())
}

fn try_exercise(
    exercise: &Exercise,
    options: &Options,
    polyplane: &Path,
    directory: &Path,
) -> Outcome {
    let own = directory.join("exercises").join(exercise.name);
    let source = options.dir.join("exercises").join(exercise.name);
    copy(&source, &own)?;
    copy(&options.dir.join("utils"), &directory.join("utils"))?;
    for (from, to) in exercise.solution {
        let (from, to) = (source.join("solution").join(from), own.join(to));
        std::fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    if let Some(program) = exercise.controller {
        compile(polyplane, &own, program)?;
    }
    let python = std::path::absolute(&options.python).map_err(|error| error.to_string())?;
    let python = match options.python.components().count() {
        // A name is searched in PATH.
        1 => options.python.display().to_string(),
        _ => python.display().to_string(),
    };
    let mut command = Command::new(polyplane);
    command
        .args(["fabric", "up", exercise.topology])
        .current_dir(&own);
    for line in exercise.lines {
        command.args(["-c", &prompt_line(line, &python)]);
    }
    let output = limited::output(command.stdin(Stdio::null()), PATIENCE);
    let output = output.map_err(|error| format!("{}: {error}", polyplane.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if output.status.code() != Some(exercise.status) {
        let (status, expected) = (output.status, exercise.status);
        return Err(format!("{status}, not {expected}\n{text}"));
    }
    for check in exercise.checks {
        check
            .of(&text, &own)
            .map_err(|why| format!("{why}\n{text}"))?;
    }
    Ok(())
}

/// Returns a line of the prompt. `WAIT FILE` waits until a receiver has begun, and a second for
/// its socket; `WAIT FILE TEXT` waits until a file has a text.
fn prompt_line(line: &str, python: &str) -> String {
    let Some(wait) = line.strip_prefix("WAIT ") else {
        return line.replace("PYTHON", python);
    };
    let (file, text) = wait.split_once(' ').unwrap_or((wait, "sniffing"));
    format!("sh timeout 30 sh -c 'until grep -q \"{text}\" {file}; do sleep 0.1; done'; sleep 1")
}

/// Writes the files that the exercise's controller sends, under the names that p4c gives them.
fn compile(polyplane: &Path, own: &Path, program: &str) -> Outcome {
    let build = own.join("build");
    // The tutorials' Makefile makes both; controllers write into `logs`.
    for directory in [&build, &own.join("logs")] {
        std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(polyplane);
    command
        .arg("compile")
        .arg(own.join(format!("{program}.p4")));
    command
        .arg("--p4info")
        .arg(build.join(format!("{program}.p4.p4info.txtpb")));
    command
        .arg("--device-config")
        .arg(build.join(format!("{program}.json")));
    let output = limited::output(command.stdin(Stdio::null()), PATIENCE);
    let output = output.map_err(|error| format!("{program}.p4: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{program}.p4 does not compile: {said}"))
        }
    }
}

impl Check {
    fn of(&self, output: &str, own: &Path) -> Outcome {
        let read = |file: &str| std::fs::read_to_string(own.join(file)).unwrap_or_default();
        match *self {
            Check::Output(text) if !output.contains(text) => {
                Err(format!("the output has no `{text}`"))
            }
            Check::NoOutput(text) if output.contains(text) => {
                Err(format!("the output has `{text}`"))
            }
            Check::File(file, text, count) => {
                let found = read(file);
                match found.matches(text).count() {
                    enough if enough >= count => Ok(()),
                    few => Err(format!(
                        "{file} has `{text}` {few} times, not {count}:\n{found}"
                    )),
                }
            }
            Check::NoFile(file, text) if read(file).contains(text) => {
                Err(format!("{file} has `{text}`:\n{}", read(file)))
            }
            Check::Output(_) | Check::NoOutput(_) | Check::NoFile(..) => Ok(()),
        }
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target)?,
            false => {
                std::fs::copy(entry.path(), target).map_err(failed)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_is_no_success() {
        for (count, skipped, failed, words) in [
            (0, 0, &[][..], "no exercise has `typo` in its name"),
            (3, 3, &[][..], "nothing was run"),
            (3, 1, &["ecn"][..], "failed: ecn"),
        ] {
            let error = outcome("typo", count, skipped, failed).err();
            let error = error.unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(outcome("", 3, 2, &[]), Ok(()));
    }
}

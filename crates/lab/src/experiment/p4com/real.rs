//! Figure 7 between network namespaces of this machine: the time of a job, beside a TCP connection
//! from each mapper with the same pairs. This program runs itself for each job, in turns.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aggregate::Input;
use serde_json::Value;
use support::quantile::median;

use super::case::distinct_keys;
use super::data::DataSet;
use super::{Context, head};
use crate::experiment::Picture;
use crate::experiment::parts::{Origin, Part, Row};
use crate::experiment::plot::{self, Axes, Bars, HERE, OTHER};

/// Number of mappers, rate of all links in Mbit/s so that no core is busy, and the share of the
/// time of TCP that a job takes at most, as an aim.
const CASES: [(usize, u32, f64); 3] = [(3, 100, 0.45), (6, 100, 0.30), (12, 50, 0.20)];

const SCHEMES: [&str; 2] = ["tcp", "p4com"];

/// Measures a data set, the words.
///
/// # Errors
/// A job fails, such as for missing rights, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let options = context.options;
    let words = [
        "mappers", "Mbit/s", "keys", "TCP s", "P4COM s", "of TCP", "aim", "TCP kB", "P4COM kB",
    ];
    let mut part = Part {
        title: "Figure 7, real: time of the job",
        rows: Vec::new(),
        table: vec![head(&words)],
        note: format!(
            "Measured: words, a mapper has a twelfth of {} of them, each host is a network namespace at one switch with room for a tenth of the keys. \
             Medians of {} runs in turns; the results of all are compared. kB: bytes of frames to the reducer's host.",
            options.scale, options.rounds
        ),
        pictures: Vec::new(),
    };
    let set = DataSet::Words;
    let most = CASES[CASES.len() - 1].0;
    let inputs = set.inputs(options.scale, most, options.seed);
    let directory = options.out.join("real");
    write_parts(&directory, &inputs)?;
    let runs = CASES.len() * SCHEMES.len() * options.rounds as usize;
    let mut done = 0;
    let mut shares = Vec::new();
    for (mappers, rate, aim) in CASES {
        let keys = distinct_keys(&inputs[..mappers]);
        write_job(&directory, (mappers, rate), keys / 10)?;
        let mut measured = [const { Vec::new() }; SCHEMES.len()];
        for _ in 0..options.rounds {
            for (scheme, measured) in SCHEMES.iter().zip(&mut measured) {
                context.tell("figure 7, real", done, runs);
                if let Some(signal) = (context.take_signal)() {
                    return Err(format!("interrupted by {signal}"));
                }
                measured.push(run(&directory, scheme)?);
                done += 1;
            }
        }
        let [tcp, p4com] = measured.map(medians);
        let share = p4com.seconds / tcp.seconds.max(1e-9);
        part.rows.push(Row::new(
            "figure 7, real",
            format!("words, {mappers} to 1, {rate} Mbit/s"),
            Origin::Measured,
            &[
                ("tcp_seconds", tcp.seconds),
                ("seconds", p4com.seconds),
                ("of_tcp", share),
                ("aim", aim),
                ("tcp_bytes", tcp.bytes),
                ("bytes", p4com.bytes),
            ],
            "no values",
        ));
        part.table.push(vec![
            mappers.to_string(),
            rate.to_string(),
            keys.to_string(),
            format!("{:.3}", tcp.seconds),
            format!("{:.3}", p4com.seconds),
            format!("{share:.2}"),
            format!("{aim:.2}"),
            format!("{:.0}", tcp.bytes / 1e3),
            format!("{:.0}", p4com.bytes / 1e3),
        ]);
        shares.push(Some(share));
    }
    part.pictures.push(picture(shares)?);
    Ok(part)
}

/// Values of a run.
struct Measured {
    seconds: f64,
    /// Bytes of frames to the reducer's host.
    bytes: f64,
}

/// Returns the medians of both values.
fn medians(runs: Vec<Measured>) -> Measured {
    let of = |value: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(value).collect();
        median(&mut values).unwrap_or_default()
    };
    Measured {
        seconds: of(|run| run.seconds),
        bytes: of(|run| run.bytes),
    }
}

/// Runs the job once, with a comparison of its result.
fn run(directory: &Path, scheme: &str) -> Result<Measured, String> {
    let failed = |error: std::io::Error| format!("cannot run this program: {error}");
    let output = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["aggregate", "run"])
        .arg(job_file(directory))
        .arg("--fabric")
        .arg(fabric_file(directory))
        .args(["--real", "--verify", "--json", "--scheme", scheme])
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the job with scheme {scheme}: {}", message.trim()));
    }
    let outcomes: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the job's report is not JSON: {error}"))?;
    let number = |name: &str| {
        let number = outcomes[0][name].as_f64();
        number.ok_or_else(|| format!("the job's report has no number `{name}`"))
    };
    Ok(Measured {
        seconds: number("seconds")?,
        bytes: number("reducer_link_bytes")?,
    })
}

fn job_file(directory: &Path) -> PathBuf {
    directory.join("words.job")
}

fn fabric_file(directory: &Path) -> PathBuf {
    directory.join("star.toml")
}

fn write_file(path: &Path, text: &[u8]) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes the pairs of each mapper.
fn write_parts(directory: &Path, inputs: &[Input]) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    for (number, input) in inputs.iter().enumerate() {
        let mut lines = Vec::new();
        for pair in input.pairs() {
            lines.extend_from_slice(&pair.key);
            lines.extend_from_slice(format!("\t{}\n", pair.value).as_bytes());
        }
        write_file(&directory.join(format!("part{number}.txt")), &lines)?;
    }
    Ok(())
}

/// Writes the job and the topology: hosts 1 and so on have the mappers, the next one the reducer.
/// Namespaces have the names of hosts, and other ones of the machine may be `h1`.
fn write_job(directory: &Path, (mappers, rate): (usize, u32), slots: usize) -> Result<(), String> {
    let mut job = String::new();
    let mut fabric = format!(
        "name = \"star\"\n\n[defaults.link]\nrate = \"{rate} Mbit/s\"\nqueue = 200\n\n\
         [[switch]]\nname = \"switch\"\nslots = {}\n",
        u32::MAX
    );
    let own = std::process::id();
    // Writes to a string do not fail.
    for host in 0..=mappers {
        let number = host + 1;
        let _ = write!(
            fabric,
            "\n[[host]]\nname = \"p{own}-{number}\"\nmac = \"02:00:00:00:00:{number:02x}\"\n\
             ip = \"10.0.{number}.1/24\"\n\n[[link]]\nends = [\"p{own}-{number}\", \"switch:{host}\"]\n"
        );
    }
    for mapper in 0..mappers {
        let _ = writeln!(
            job,
            "data p{mapper} = 10.0.{}.1:part{mapper}.txt\nmap m{mapper} = pairs(p{mapper})",
            mapper + 1
        );
    }
    let names: Vec<String> = (0..mappers).map(|mapper| format!("m{mapper}")).collect();
    let _ = writeln!(
        job,
        "reduce total = add({}) at 10.0.{}.1 keys 16 values i64 memory {}",
        names.join(", "),
        mappers + 1,
        slots.max(1)
    );
    write_file(&job_file(directory), job.as_bytes())?;
    write_file(&fabric_file(directory), fabric.as_bytes())
}

fn picture(shares: Vec<Option<f64>>) -> Result<Picture, String> {
    let groups = CASES.map(|(mappers, ..)| format!("{mappers} to 1"));
    let series = [
        Bars {
            name: "P4COM",
            colour: HERE,
            values: shares,
        },
        Bars {
            name: "aim",
            colour: OTHER,
            values: CASES.iter().map(|(.., aim)| Some(*aim)).collect(),
        },
    ];
    let axes = Axes {
        caption: "Time of the job between network namespaces",
        x: "mappers to one reducer",
        y: "share of TCP",
    };
    Ok(Picture {
        file: "figure7-real.svg",
        svg: plot::bars(&axes, &groups, &series)?,
    })
}

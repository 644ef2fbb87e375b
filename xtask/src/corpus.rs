//! `cargo xtask corpus --p4c DIR`: p4c's programs and STF tests on the release build of
//! `polyplane`.
//!
//! Every program runs in a process of its own with a time limit. So a crash or a hang is one row of
//! the result.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// An unpacked copy of p4c (a checkout or release archive), outside this repository.
    #[arg(long, value_name = "DIR")]
    p4c: PathBuf,
    /// Leave out p4c's include directories: only the embedded architecture files are used.
    #[arg(long)]
    embedded: bool,
    /// Also run every file below testdata (P4_14 ones included) and report crashes and hangs only.
    #[arg(long)]
    everything: bool,
    /// Seconds that one run may take.
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Programs run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Engine that runs STF tests (default: the command's default).
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Also print each v1model program with an STF test as P4 text, and run the test on the text.
    #[arg(long)]
    printed: bool,
    /// Run one corpus only: positive, negative, stf, p4info, outputs, printed, all.
    #[arg(long)]
    only: Option<String>,
}

/// Expected outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Corpus {
    /// Exit status 0.
    Positive,
    /// Exit status 1 and a located diagnostic.
    Negative,
    /// Exit status 0.
    Stf,
    /// Exit status 0: p4c's P4Info of a v1model program fits our program.
    P4info,
    /// p4c's printed programs after its passes (`p4_16_samples_outputs`): each loads, or is refused
    /// with a place.
    Outputs,
    /// Exit status 0 of the program's STF test on the P4 text that `ir --p4` prints.
    Printed,
    /// No crash, no hang.
    Everything,
}

impl Corpus {
    fn name(self) -> &'static str {
        match self {
            Corpus::Positive => "positive",
            Corpus::Negative => "negative",
            Corpus::Stf => "stf",
            Corpus::P4info => "p4info",
            Corpus::Outputs => "outputs",
            Corpus::Printed => "printed",
            Corpus::Everything => "all",
        }
    }
}

struct Job {
    corpus: Corpus,
    program: PathBuf,
    stf: Option<PathBuf>,
    p4info: Option<PathBuf>,
}

struct Row {
    corpus: Corpus,
    name: String,
    verdict: &'static str,
    time: Duration,
    last_line: String,
    line_agrees: Option<bool>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if !options.p4c.join("testdata").is_dir() {
        return Err(format!(
            "{} holds no testdata folder; point --p4c at a copy of p4c",
            options.p4c.display()
        ));
    }
    cargo(&["build", "--release", "--package", "cli"])?;
    let binary = crate::target().join("release/polyplane");
    let mut jobs = jobs(options);
    if let Some(only) = &options.only {
        jobs.retain(|job| job.corpus.name() == only);
    }
    let rows = run_all(&binary, options, &jobs);
    report(&rows);
    let failed = rows.iter().filter(|row| row.verdict != "pass").count();
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} of {} did not pass", rows.len()))
    }
}

fn jobs(options: &Options) -> Vec<Job> {
    let data = options.p4c.join("testdata");
    let samples = data.join("p4_16_samples");
    let mut jobs = Vec::new();
    for folder in ["", "dash", "omec", "pins", "parser-inline"] {
        push_programs(&mut jobs, Corpus::Positive, &samples.join(folder));
    }
    for folder in subfolders(&samples) {
        if folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("fabric_"))
        {
            let program = folder.join("fabric.p4");
            jobs.push(Job {
                corpus: Corpus::Positive,
                program,
                stf: None,
                p4info: None,
            });
        }
    }
    for folder in ["p4_16_errors", "p4_16_bmv_errors"] {
        push_programs(&mut jobs, Corpus::Negative, &data.join(folder));
    }
    for stf in files_below(&samples, "stf") {
        let program = stf.with_extension("p4");
        if program.is_file() {
            jobs.push(Job {
                corpus: Corpus::Stf,
                program,
                stf: Some(stf),
                p4info: None,
            });
        }
    }
    push_p4infos(&mut jobs, &data);
    for program in files_below(&data.join("p4_16_samples_outputs"), "p4") {
        jobs.push(Job {
            corpus: Corpus::Outputs,
            program,
            stf: None,
            p4info: None,
        });
    }
    if options.printed {
        push_printed(&mut jobs, &samples);
    }
    if options.everything {
        for program in files_below(&data, "p4") {
            jobs.push(Job {
                corpus: Corpus::Everything,
                program,
                stf: None,
                p4info: None,
            });
        }
    }
    jobs
}

/// Returns p4c's P4Infos of v1model programs that describe any object.
fn push_p4infos(jobs: &mut Vec<Job>, data: &Path) {
    let samples = files_below(&data.join("p4_16_samples"), "p4");
    let mut goldens = files_below(&data.join("p4_16_samples_outputs"), "txtpb");
    goldens.retain(|golden| {
        let text = std::fs::read_to_string(golden).unwrap_or_default();
        let parts = text.lines().filter(|line| line.ends_with(" {"));
        let outer = parts.filter(|line| !line.starts_with(' ')).count();
        text.contains("arch: \"v1model\"") && outer > 1
    });
    for golden in goldens {
        let name = golden.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".p4info.txtpb").to_owned();
        let program = samples.iter().find(|program| program.ends_with(&name));
        if let Some(program) = program {
            jobs.push(Job {
                corpus: Corpus::P4info,
                program: program.clone(),
                stf: None,
                p4info: Some(golden),
            });
        }
    }
}

/// Adds the v1model programs with an STF test.
fn push_printed(jobs: &mut Vec<Job>, samples: &Path) {
    for stf in files_below(samples, "stf") {
        let program = stf.with_extension("p4");
        let text = std::fs::read_to_string(&program).unwrap_or_default();
        if text.contains("v1model.p4") {
            jobs.push(Job {
                corpus: Corpus::Printed,
                program,
                stf: Some(stf),
                p4info: None,
            });
        }
    }
}

fn push_programs(jobs: &mut Vec<Job>, corpus: Corpus, folder: &Path) {
    let mut programs: Vec<PathBuf> = entries(folder)
        .into_iter()
        .filter(|p| has_extension(p, "p4"))
        .collect();
    programs.sort();
    jobs.extend(programs.into_iter().map(|program| Job {
        corpus,
        program,
        stf: None,
        p4info: None,
    }));
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(folder).into_iter().flatten();
    list.filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = entries(folder)
        .into_iter()
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            files.extend(files_below(&path, extension));
        } else if has_extension(&path, extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

fn run_all(binary: &Path, options: &Options, jobs: &[Job]) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = run_one(binary, options, job);
                    if let Ok(mut rows) = rows.lock() {
                        rows.push(row);
                        if rows.len() % 200 == 0 {
                            eprintln!("{} of {} run", rows.len(), jobs.len());
                        }
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_default();
    rows.sort_by(|a, b| (a.corpus, &a.name).cmp(&(b.corpus, &b.name)));
    rows
}

/// Returns a command of the binary with p4c's include directories.
fn subcommand(binary: &Path, options: &Options, name: &str) -> Command {
    let mut command = Command::new(binary);
    command.arg(name);
    if !options.embedded {
        for folder in ["p4include", "p4include/bmv2"] {
            command.arg("-I").arg(options.p4c.join(folder));
        }
    }
    command
}

/// Prints a program as P4 text. Returns the file of the text.
fn print(binary: &Path, options: &Options, program: &Path) -> Result<PathBuf, (Ended, String)> {
    let directory = crate::target().join("printed");
    let made = std::fs::create_dir_all(&directory);
    made.map_err(|error| (Ended::Crash, error.to_string()))?;
    let text = directory.join(program.file_name().unwrap_or_default());
    let mut command = subcommand(binary, options, "ir");
    command.arg(program).arg("--p4").arg(&text);
    let limit = Duration::from_secs(options.timeout);
    match run_limited(&mut command, limit) {
        Ok((Ended::Status(0), _)) => Ok(text),
        Ok(ended) => Err(ended),
        Err(error) => Err((Ended::Crash, error)),
    }
}

fn run_one(binary: &Path, options: &Options, job: &Job) -> Row {
    let printed = match job.corpus {
        Corpus::Printed => print(binary, options, &job.program),
        _ => Ok(job.program.clone()),
    };
    let name = match job.corpus {
        Corpus::Stf | Corpus::Outputs | Corpus::Printed => "test",
        Corpus::P4info => "p4info",
        _ => "check",
    };
    let mut command = subcommand(binary, options, name);
    if let (Some(engine), "test") = (&options.engine, name) {
        command.arg("--engine").arg(engine);
    }
    command
        .arg(printed.as_ref().unwrap_or(&job.program))
        .args(&job.stf);
    if job.corpus == Corpus::Outputs {
        // A test without a command only loads the program.
        command.arg("/dev/null");
    }
    if let Some(golden) = &job.p4info {
        command.arg("--compare").arg(golden);
    }
    let start = Instant::now();
    let ran = match printed {
        Ok(_) => run_limited(&mut command, Duration::from_secs(options.timeout)),
        Err(refused) => Ok(refused),
    };
    let time = start.elapsed();
    let (status, output) = ran.unwrap_or_else(|error| (Ended::Crash, error));
    let verdict = verdict(job, &status, &output);
    let last_line = output
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .to_string();
    let line_agrees = (job.corpus == Corpus::Negative)
        .then(|| line_agrees(&job.program, &output))
        .flatten();
    let name = job
        .stf
        .as_ref()
        .or(job.p4info.as_ref())
        .unwrap_or(&job.program)
        .strip_prefix(options.p4c.join("testdata"));
    let name = name.map(|p| p.display().to_string()).unwrap_or_default();
    Row {
        corpus: job.corpus,
        name,
        verdict,
        time,
        last_line,
        line_agrees,
    }
}

/// Outcome of a process.
enum Ended {
    Status(i32),
    Crash,
    Hang,
}

fn run_limited(command: &mut Command, limit: Duration) -> Result<(Ended, String), String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start: {error}"))?;
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let start = Instant::now();
    let ended = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status.code().map_or(Ended::Crash, Ended::Status),
            None if start.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                break Ended::Hang;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let texts = [stdout, stderr]
        .into_iter()
        .flatten()
        .map(|thread| thread.join().unwrap_or_default());
    Ok((ended, texts.collect()))
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn verdict(job: &Job, ended: &Ended, output: &str) -> &'static str {
    let status = match ended {
        Ended::Hang => return "hang",
        Ended::Crash | Ended::Status(101) => return "crash",
        Ended::Status(status) => *status,
    };
    match job.corpus {
        Corpus::Everything => "pass",
        Corpus::Outputs if output.contains("not well formed") => "not well formed",
        // Programs without a runnable package have nothing to load.
        Corpus::Outputs if status == 0 || output.contains("error[E1102]") => "pass",
        Corpus::Outputs if !diagnosed_lines(output).is_empty() => "pass",
        Corpus::Outputs => "no diagnostic",
        Corpus::Positive | Corpus::Stf | Corpus::P4info if status == 0 => "pass",
        Corpus::Positive | Corpus::P4info => "refused",
        Corpus::Printed if status == 0 => "pass",
        Corpus::Stf | Corpus::Printed => "fail",
        Corpus::Negative if status == 0 => "accepted",
        Corpus::Negative if !diagnosed_lines(output).is_empty() => "pass",
        Corpus::Negative => "no diagnostic",
    }
}

/// Returns file names and lines of `FILE.p4:LINE` and `FILE.p4(LINE)` in a text.
fn diagnosed_lines(text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(".p4") {
        let rest = &text[at + 3..];
        let Some(digits) = rest.strip_prefix([':', '(']) else {
            continue;
        };
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let Ok(line) = digits[..end].parse() else {
            continue;
        };
        let stem = text[..at]
            .rsplit(|c: char| c.is_whitespace() || "/:()'\"<>|".contains(c))
            .next();
        found.push((stem.unwrap_or_default().to_string(), line));
    }
    found
}

/// Returns true if one of our lines in the program is one of p4c's reference output. `None` if p4c
/// names no line.
fn line_agrees(program: &Path, output: &str) -> Option<bool> {
    let folder = format!("{}_outputs", program.parent()?.display());
    let stem = program.file_stem()?.to_string_lossy().into_owned();
    let reference =
        std::fs::read_to_string(Path::new(&folder).join(format!("{stem}.p4-stderr"))).ok()?;
    let lines = |text: &str| -> Vec<u32> {
        diagnosed_lines(text)
            .into_iter()
            .filter(|(file, _)| *file == stem)
            .map(|(_, line)| line)
            .collect()
    };
    let theirs = lines(&reference);
    (!theirs.is_empty()).then(|| lines(output).iter().any(|line| theirs.contains(line)))
}

fn report(rows: &[Row]) {
    let mut table: BTreeMap<Corpus, BTreeMap<&str, usize>> = BTreeMap::new();
    for row in rows {
        *table
            .entry(row.corpus)
            .or_default()
            .entry(row.verdict)
            .or_default() += 1;
    }
    for row in rows.iter().filter(|row| row.verdict != "pass") {
        println!(
            "{:9} {:13} {} | {}",
            row.corpus.name(),
            row.verdict,
            row.name,
            row.last_line
        );
    }
    println!("\n| corpus | total | pass | other |\n| --- | --- | --- | --- |");
    for (corpus, verdicts) in &table {
        let total: usize = verdicts.values().sum();
        let others: Vec<String> = verdicts
            .iter()
            .filter(|(v, _)| **v != "pass")
            .map(|(v, n)| format!("{n} {v}"))
            .collect();
        let pass = verdicts.get("pass").unwrap_or(&0);
        println!(
            "| {} | {total} | {pass} | {} |",
            corpus.name(),
            others.join(", ")
        );
    }
    report_lines(rows);
    report_times(rows);
}

fn report_lines(rows: &[Row]) {
    let judged: Vec<bool> = rows.iter().filter_map(|row| row.line_agrees).collect();
    if !judged.is_empty() {
        let agree = judged.iter().filter(|agrees| **agrees).count();
        println!("\nsame line as p4c: {agree} of {}", judged.len());
    }
}

fn report_times(rows: &[Row]) {
    let mut times: Vec<(Duration, &str)> = rows
        .iter()
        .filter(|row| row.corpus == Corpus::Positive)
        .map(|row| (row.time, row.name.as_str()))
        .collect();
    times.sort();
    if let Some((slowest, name)) = times.last() {
        let at = |share: f64| {
            times[((times.len() - 1) as f64 * share) as usize]
                .0
                .as_secs_f64()
                * 1e3
        };
        println!(
            "\ncheck, whole process: median {:.1} ms, 90 % {:.1} ms, 99 % {:.1} ms, slowest {:.1} ms ({name})",
            at(0.5),
            at(0.9),
            at(0.99),
            slowest.as_secs_f64() * 1e3
        );
    }
}

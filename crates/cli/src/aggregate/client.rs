//! Commands that ask a master: `run --master`, `jobs`, `show`, `update`, `program` and `cancel`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aggregate_runtime::{
    Address, Answer, Inbox, JobReport, PeerKind, RealOutcome, Request, Stream, VpdpChange,
    add_answer, greet, join_outcomes, next_line, write_line,
};
use clap::Args;
use port::Poller;
use runtime::ProcessSetup;
use std::os::fd::AsFd;

use crate::stage_slot::{Slot, read_slot};
use crate::{Ended, out};

/// Bytes of a program at most: longer ones do not fit into a request.
const MAX_PROGRAM: u64 = 4 << 20;

/// Longest wait for a line of the master.
const LOOK: Duration = Duration::from_millis(200);

/// Time without a line after which the master counts as gone. It sends one each second.
const SILENCE: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(super) struct MasterOptions {
    /// The address of the master (`polyplane aggregate serve`).
    #[arg(long, value_name = "ADDRESS", default_value = super::MASTER)]
    master: Address,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct OneJobOptions {
    /// Number of the job, as `polyplane aggregate jobs` lists it.
    #[arg(value_name = "JOB")]
    number: u32,
    #[command(flatten)]
    at: MasterOptions,
}

#[derive(Args)]
pub(super) struct PlaneOptions {
    /// The switch; default: all of the job.
    #[arg(long, value_name = "NAME")]
    switch: Option<String>,
    /// The reduction; default: all of the job.
    #[arg(long, value_name = "NAME")]
    reduction: Option<String>,
}

#[derive(Args)]
pub(super) struct ProgramOptions {
    #[command(flatten)]
    job: OneJobOptions,
    #[command(flatten)]
    plane: PlaneOptions,
}

#[derive(Args)]
pub(super) struct UpdateOptions {
    #[command(flatten)]
    job: OneJobOptions,
    #[command(flatten)]
    plane: PlaneOptions,
    #[command(flatten)]
    change: ChangeOptions,
    /// An object of the present program without a place in the new one, such as a counter, that
    /// may be lost; of a reduction itself nothing may.
    #[arg(long, value_name = "NAME", requires = "program")]
    may_lose: Vec<String>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct ChangeOptions {
    /// The P4 program that replaces the present one. Registers and entries of the same names stay.
    #[arg(long, value_name = "FILE.p4")]
    program: Option<PathBuf>,
    /// The stage slot of the first stage of the ingress, or `any`; the others follow.
    #[arg(long, value_name = "N|any", value_parser = read_slot)]
    slot: Option<Slot>,
}

/// A connection to a master.
pub(super) struct Connection {
    address: Address,
    stream: Stream,
    inbox: Inbox,
    /// Time of its last line, or of the last request.
    heard: Instant,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// No master is there, or it is of another version.
    pub(super) fn open(address: &Address) -> Result<Connection, String> {
        let stream = address.connect().map_err(|error| {
            format!(
                "the master at {address} cannot be reached: {error}; start `polyplane aggregate \
                 serve --fabric TOPO.toml --listen {address}`, or give its address with --master"
            )
        })?;
        let mut connection = Connection {
            address: address.clone(),
            stream,
            inbox: Inbox::default(),
            heard: Instant::now(),
        };
        let Connection { stream, inbox, .. } = &mut connection;
        let greeted = greet(stream, inbox, PeerKind::Client, PeerKind::Master);
        greeted.map_err(|error| {
            format!(
                "the master at {address}: {error}; see that `polyplane aggregate serve` runs there"
            )
        })?;
        Ok(connection)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The master has gone.
    fn ask(&mut self, request: &Request) -> Result<(), String> {
        self.heard = Instant::now();
        write_line(&mut self.stream, request).map_err(|error| self.gone(&error.to_string()))
    }

    fn gone(&self, why: &str) -> String {
        format!(
            "the master at {} has gone, and its jobs with it: {why}; start `polyplane aggregate \
             serve` there again, then repeat the command",
            self.address
        )
    }

    /// Returns the next answer. `None`: there is none yet.
    ///
    /// # Errors
    /// The master has gone, or refuses the request.
    fn next(&mut self) -> Result<Option<Answer>, String> {
        if !self.inbox.has_line() {
            let mut poller = Poller::new();
            let ready = poller.wait([self.stream.as_fd()], LOOK);
            if ready.map_err(|error| self.gone(&error.to_string()))? == 0 {
                return match self.heard.elapsed() > SILENCE {
                    true => {
                        let seconds = SILENCE.as_secs();
                        Err(self.gone(&format!("it has said nothing for {seconds} s")))
                    }
                    false => Ok(None),
                };
            }
        }
        let line = next_line(&mut self.stream, &mut self.inbox);
        let line = line.map_err(|error| self.gone(&error))?;
        let line = line.ok_or_else(|| self.gone("it has ended"))?;
        self.heard = Instant::now();
        match serde_json::from_slice(&line) {
            Ok(Answer::Refused { error }) => Err(error),
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Err(self.gone(&format!("a line is no answer: {error}"))),
        }
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// As for [`Connection::next`], or a signal has arrived.
    fn wait(&mut self, early: &ProcessSetup) -> Result<Answer, String> {
        loop {
            if let Some(signal) = early.take_signal() {
                return Err(format!("interrupted by {signal}"));
            }
            match self.next()? {
                Some(Answer::Alive) | None => {}
                Some(answer) => return Ok(answer),
            }
        }
    }
}

/// Runs a job at a master, and returns the outcomes of its reductions. `None`: the time is over,
/// and the job is cancelled.
pub(super) fn run(
    (file, is_direct): (&Path, bool),
    address: &Address,
    limit: Duration,
    early: &ProcessSetup,
) -> Result<Option<Vec<RealOutcome>>, String> {
    let text = command::args::read_text(file, command::reductions::MAX_JOB_BYTES)?;
    let path = std::path::absolute(file);
    let path = path.map_err(|error| format!("{}: {error}", file.display()))?;
    let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
    let mut connection = Connection::open(address)?;
    connection.ask(&Request::Submit {
        name: file.display().to_string(),
        text,
        directory,
        is_direct,
    })?;
    let began = Instant::now();
    let mut outcomes = Vec::new();
    while began.elapsed() < limit {
        if let Some(signal) = early.take_signal() {
            return Err(format!("interrupted by {signal}"));
        }
        match connection.next()? {
            Some(answer @ (Answer::Pairs { .. } | Answer::Vector { .. })) => {
                add_answer(&mut outcomes, &answer);
            }
            Some(Answer::Ended {
                job,
                outcomes: ends,
            }) => {
                if job.state == "cancelled" {
                    return Err(format!("job {} was cancelled", job.number));
                }
                return join_outcomes(outcomes, ends).map(Some);
            }
            Some(Answer::Admitted { number }) => {
                out::note(&format!("job {number} runs at {address}"));
            }
            // They answer other requests.
            Some(
                Answer::Jobs { .. }
                | Answer::Refused { .. }
                | Answer::Alive
                | Answer::Updated { .. }
                | Answer::Program { .. },
            )
            | None => {}
        }
    }
    // The end of the connection cancels the job.
    Ok(None)
}

pub(super) fn jobs(options: &MasterOptions, early: &ProcessSetup) -> Result<Ended, String> {
    list(options, &Request::Jobs, early)
}

pub(super) fn show(options: &OneJobOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let number = options.number;
    list(&options.at, &Request::Show { number }, early)
}

fn list(options: &MasterOptions, request: &Request, early: &ProcessSetup) -> Result<Ended, String> {
    let mut connection = Connection::open(&options.master)?;
    connection.ask(request)?;
    let Answer::Jobs { jobs } = connection.wait(early)? else {
        return Err("the master gives another answer".to_owned());
    };
    if options.json {
        out::json(&jobs);
        return Ok(Ended::Well);
    }
    if jobs.is_empty() {
        out::line("no jobs");
    }
    let is_long = matches!(request, Request::Show { .. });
    jobs.iter().for_each(|job| print(job, is_long));
    Ok(Ended::Well)
}

fn print(job: &JobReport, is_long: bool) {
    out::line(&format!("job {}: {}, {}", job.number, job.name, job.state));
    for reduction in &job.reductions {
        let failure = match &reduction.failure {
            Some(failure) => format!(": {failure}"),
            None => String::new(),
        };
        out::line(&format!(
            "  {}: {}{failure}",
            reduction.name, reduction.step
        ));
        if is_long {
            let switches = match reduction.switches.is_empty() {
                true => "none".to_owned(),
                false => reduction.switches.join(", "),
            };
            out::line(&format!(
                "    switches: {switches}; attempts: {}; mappers started again: {}",
                reduction.attempts, reduction.retried
            ));
        }
    }
}

pub(super) fn update(options: &UpdateOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let change = match (&options.change.program, options.change.slot) {
        (Some(file), _) => VpdpChange::Program {
            text: command::args::read_text(file, MAX_PROGRAM)?,
            may_lose: options.may_lose.clone(),
        },
        (None, Some(Slot::Number(slot))) => VpdpChange::Slot(Some(slot)),
        (None, Some(Slot::Any) | None) => VpdpChange::Slot(None),
    };
    let OneJobOptions { number, at } = &options.job;
    let mut connection = Connection::open(&at.master)?;
    connection.ask(&Request::Update {
        number: *number,
        switch: options.plane.switch.clone(),
        reduction: options.plane.reduction.clone(),
        change,
    })?;
    let Answer::Updated { planes } = connection.wait(early)? else {
        return Err("the master gives another answer".to_owned());
    };
    match at.json {
        true => out::json(&serde_json::json!({ "planes": planes })),
        false => {
            let planes = crate::amount::count(planes as u64, "virtual data plane");
            out::line(&format!("job {number}: {planes} changed"));
        }
    }
    Ok(Ended::Well)
}

pub(super) fn program(options: &ProgramOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let OneJobOptions { number, at } = &options.job;
    let mut connection = Connection::open(&at.master)?;
    connection.ask(&Request::Program {
        number: *number,
        switch: options.plane.switch.clone(),
        reduction: options.plane.reduction.clone(),
    })?;
    let Answer::Program { text } = connection.wait(early)? else {
        return Err("the master gives another answer".to_owned());
    };
    match at.json {
        true => out::json(&serde_json::json!({ "program": text })),
        false => out::text(&text),
    }
    Ok(Ended::Well)
}

pub(super) fn cancel(options: &OneJobOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let mut connection = Connection::open(&options.at.master)?;
    let number = options.number;
    connection.ask(&Request::Cancel { number })?;
    loop {
        if let Answer::Ended { job, .. } = connection.wait(early)? {
            match options.at.json {
                true => out::json(&job),
                false => out::line(&format!(
                    "job {number} is cancelled; no switch has state of it"
                )),
            }
            return Ok(Ended::Well);
        }
    }
}

//! `polyplane pof ctl`: a small controller, for one command at a time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use pof::tables::{Limits, Tables};
use pof::text::{TextReader, as_add, remake};
use pof::wire::{Body, Counter, Message, Stats, StatsReply, StatsRequest};
use pof_runtime::{Controller, ControllerAddress, Listen, SwitchAnswer};
use runtime::ProcessSetup;
use serde::Serialize;

use super::show;
use super::tls::TlsFiles;
use crate::args::{limits, read_text};
use crate::{Ended, out};

/// Messages that are sent before their answers are awaited.
const PIPELINE: usize = 100;

/// Lines of errors that are shown; the others are counted.
const SHOWN_ERRORS: usize = 10;

/// The number of a line's message is this plus the line's: a switch numbers its own from 1.
const LINE_XID: u32 = 0x4000_0000;

/// Time between two looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The language of objects.
const TEXT_HELP: &str = "\
Examples:
  polyplane pof ctl 127.0.0.1:6633 apply tables.pof
  polyplane pof ctl 127.0.0.1:6633 dump > tables.pof
  polyplane pof ctl 127.0.0.1:6633 do 'flow delete mm/0 index 3'
  polyplane pof ctl --wait 127.0.0.1:6633 stats      for a switch that dials this address

The text has an object a line; `#` begins a comment. add may be modify, delete or query:
  table add TABLE size N [name \"NAME\"] [fields [NAME=]FIELD...]
  flow add TABLE [index N] [priority N] [counter N] [cookie N[&MASK]] [idle S] [hard S]
       [match FIELD=VALUE...] [do INSTRUCTION; INSTRUCTION...]
  group add N all|select|indirect|fast_failover [counter N] [do ACTION, ACTION...]
  meter add N rate KBITS
  counter add N                                      also: counter clear N

TABLE is mm/N (masks and priorities), lpm/N, em/N (exact) or linear/N (by index). Packets begin at
mm/0. FIELD is OFFSET/LENGTH in bits from the packet offset, meta:OFFSET/LENGTH in the metadata
(meta:16/8 is the ingress port), or a NAME that a table above has given. VALUE is a number, an IPv4
or an Ethernet address, with &MASK or /PREFIX after it, or * for any. ARG is a number or [FIELD].
Without index, an added flow gets the next one of its table in this text, with `do` the next one
that is free on the switch; modify, delete and query need it. modify_strict and delete_strict go by match. In \"NAME\", \\xNN is a byte.

Instructions:
  ACTION, ACTION...                                  apply_actions, at once
  goto TABLE [offset BYTES]                          goto_direct TABLE ARG [offset BYTES]
  write_actions [ACTION, ACTION...]                  clear_actions
  meter N                                            write_metadata OFFSET/LENGTH=VALUE
  write_metadata_from_packet OFFSET FIELD            move_packet_offset +ARG or -ARG
  set_packet_offset ARG                              compare RESULT FIELD ARG
  calculate_field add|subtract|left_shift|right_shift|and|or|xor|nor FIELD ARG
  branch FIELD ARG N                                 jump +N or -N
  conditional_jump FIELD ARG LESS EQUAL GREATER      each +ARG or -ARG
Actions:
  output ARG|in_port|table|flood|all|controller [metadata OFFSET/LENGTH] [skip BYTES]
  set_field FIELD=VALUE                              set_field_from_metadata FIELD OFFSET
  modify_field FIELD NUMBER                          add_field OFFSET/LENGTH=VALUE
  delete_field OFFSET ARG                            calculate_checksum FIELD DATA_FIELD
  group N       counter N       drop [REASON]        packet_in [REASON]

Exit status: 0 when done, 1 when a line is wrong or refused, 2 for wrong usage.";

#[derive(Args)]
#[command(after_help = TEXT_HELP)]
pub(super) struct Options {
    /// The switch's --listen address: HOST:PORT, tcp:HOST:PORT or tls:HOST:PORT.
    #[arg(value_name = "ADDRESS")]
    address: ControllerAddress,
    /// Listen at the address, and wait for a switch that dials it.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    tls: TlsFiles,
    /// Write JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the objects of files; `-` is the standard input.
    Apply {
        /// Files of lines such as `table add mm/0 size 100 fields 96/16`.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Make the objects of lines that are given here, each as one word.
    Do {
        /// Lines such as 'flow add mm/0 match 96/16=0x800 do output 1'.
        #[arg(value_name = "LINE", required = true)]
        lines: Vec<String>,
    },
    /// Write all objects as lines, which make the same state with `apply`.
    Dump,
    /// Show what ports, tables, flows, groups, meters and counters have counted.
    Stats,
    /// Show packets for controllers, removed flows and changes of ports, until it is stopped.
    Watch {
        /// Stop after this number of messages.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

impl Options {
    pub(super) fn follows(&self) -> bool {
        matches!(self.command, Command::Watch { .. })
    }
}

pub(super) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let mut link = connect(options)?;
    match &options.command {
        Command::Apply { files } => {
            let mut texts = Vec::new();
            for file in files {
                let name = file.display().to_string();
                texts.push((name, text_of(file)?));
            }
            let lines = read_lines(&texts, || TextReader::new(link.tables.clone()));
            apply(&mut link, lines, options.json)
        }
        Command::Do { lines } => {
            let texts = [("command line".to_owned(), lines.join("\n"))];
            let lines = read_beside_flows(&mut link, &texts);
            apply(&mut link, lines, options.json)
        }
        Command::Dump => dump(&mut link, options.json),
        Command::Stats => stats(&mut link, options.json),
        Command::Watch { count } => watch(&mut link, *count, options.json, early),
    }
}

/// A connection with a switch, with its numbers of tables.
struct Connected {
    controller: Controller,
    tables: Tables,
}

impl Connected {
    /// Sends a request, and returns its replies.
    fn ask(&mut self, body: Body) -> Result<Vec<Body>, String> {
        let message = Message {
            xid: LINE_XID,
            body,
        };
        let answers = self.controller.ask(&[message]);
        let answers = answers.map_err(|error| error.to_string())?;
        let mut replies = Vec::new();
        for (_, answer) in answers {
            match answer {
                SwitchAnswer::Reply(body) => replies.push(body),
                SwitchAnswer::Refused(failure) => return Err(show::refusal(&failure)),
            }
        }
        Ok(replies)
    }
}

fn connect(options: &Options) -> Result<Connected, String> {
    let tls = options.tls.read()?;
    let controller = match options.wait {
        false => Controller::connect(&options.address, &tls),
        true => {
            let ControllerAddress { host, port, .. } = &options.address;
            let address = format!("{host}:{port}").parse();
            let address = address
                .map_err(|_| format!("--wait needs an IP address of this machine, not `{host}`"))?;
            let listen = Listen::open(address, &tls).map_err(|error| error.to_string())?;
            let address = listen.address().map_err(|error| error.to_string())?;
            out::note(&format!("a switch is served at {address}"));
            Controller::wait_for_switch(&listen).map(|(controller, _)| controller)
        }
    };
    let mut connected = Connected {
        controller: controller.map_err(|error| error.to_string())?,
        tables: Tables::default(),
    };
    for reply in connected.ask(Body::GetConfigRequest)? {
        if let Body::ResourceReport(report) = reply {
            connected.tables = Tables::new(Limits {
                tables: report.tables.map(|of_type| of_type.tables),
                ..Limits::default()
            });
        }
    }
    Ok(connected)
}

fn text_of(file: &Path) -> Result<String, String> {
    if file != Path::new("-") {
        return read_text(file, limits::ENTRIES);
    }
    let mut text = String::new();
    let stdin = std::io::stdin().lock();
    let read = stdin.take(limits::ENTRIES).read_to_string(&mut text);
    read.map_err(|error| format!("standard input: {error}"))?;
    Ok(text)
}

/// A line that was read.
struct ReadLine {
    /// The file and the number.
    place: String,
    body: Body,
}

#[derive(Serialize)]
struct Applied {
    applied: usize,
    refused: Vec<Refusal>,
}

#[derive(Serialize)]
struct Refusal {
    place: String,
    error: String,
}

/// Reads the lines of texts, each by a new reader.
///
/// # Errors
/// Lines are wrong: the message of each.
fn read_lines(
    texts: &[(String, String)],
    mut reader: impl FnMut() -> TextReader,
) -> Result<Vec<ReadLine>, Vec<String>> {
    let mut lines = Vec::new();
    let mut wrong = Vec::new();
    for (name, text) in texts {
        let mut reader = reader();
        for line in text.lines() {
            match reader.read(line) {
                Ok(Some(body)) => lines.push(ReadLine {
                    place: format!("{name}, line {}", reader.line()),
                    body,
                }),
                Ok(None) => {}
                Err(error) => wrong.push(format!("{name}, {error}")),
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(lines),
        false => Err(wrong),
    }
}

/// As [`read_lines`]. Added flows without index get one that is free on the switch.
fn read_beside_flows(
    link: &mut Connected,
    texts: &[(String, String)],
) -> Result<Vec<ReadLine>, Vec<String>> {
    let mut numbered = TextReader::new(link.tables.clone());
    for (_, text) in texts {
        // Errors are found again.
        text.lines().for_each(|line| drop(numbered.read(line)));
    }
    let tables: Vec<_> = numbered.numbered().collect();
    let mut taken = Vec::new();
    for (table_type, table) in tables {
        let Some(number) = link.tables.number(table_type, table) else {
            continue;
        };
        let request = StatsRequest::Flows {
            table: number.0,
            cookie: 0,
            cookie_mask: 0,
        };
        // The switch may not have the table yet.
        let replies = link
            .ask(Body::MultipartRequest(request))
            .unwrap_or_default();
        for reply in replies {
            if let Body::MultipartReply(StatsReply {
                stats: Stats::Flows(flows),
                ..
            }) = reply
            {
                let indices = flows.into_iter().map(|one| one.flow.index);
                taken.extend(indices.map(|index| (table_type, table, index)));
            }
        }
    }
    read_lines(texts, || {
        let mut reader = TextReader::new(link.tables.clone());
        for (table_type, table, index) in &taken {
            reader.take_index(*table_type, *table, *index);
        }
        reader
    })
}

/// Sends the messages of all lines. Nothing is sent if a line is wrong.
fn apply(
    link: &mut Connected,
    lines: Result<Vec<ReadLine>, Vec<String>>,
    json: bool,
) -> Result<Ended, String> {
    let lines = match lines {
        Ok(lines) => lines,
        Err(wrong) => {
            show_errors(&wrong);
            return Ok(Ended::WithErrors);
        }
    };
    let mut refused = Vec::new();
    for (chunk, lines) in lines.chunks(PIPELINE).enumerate() {
        let first = chunk * PIPELINE;
        let numbered = lines.iter().enumerate();
        let messages = numbered.map(|(at, line)| Message {
            xid: LINE_XID + (first + at) as u32,
            body: line.body.clone(),
        });
        let messages: Vec<Message> = messages.collect();
        let answers = link.controller.ask(&messages);
        for (xid, answer) in answers.map_err(|error| error.to_string())? {
            let at = (xid - LINE_XID) as usize - first;
            match answer {
                SwitchAnswer::Refused(failure) => refused.push(Refusal {
                    place: lines[at].place.clone(),
                    error: show::refusal(&failure),
                }),
                SwitchAnswer::Reply(body) => show_reply(body, link, json),
            }
        }
    }
    let ended = match refused.is_empty() {
        true => Ended::Well,
        false => Ended::WithErrors,
    };
    if json {
        let applied = lines.len() - refused.len();
        out::json(&Applied { applied, refused });
    } else {
        let refused = refused
            .iter()
            .map(|Refusal { place, error }| format!("{place}: {error}"));
        show_errors(&refused.collect::<Vec<_>>());
    }
    Ok(ended)
}

fn show_errors(errors: &[String]) {
    errors
        .iter()
        .take(SHOWN_ERRORS)
        .for_each(|error| out::error(error));
    if errors.len() > SHOWN_ERRORS {
        let more = errors.len() - SHOWN_ERRORS;
        out::error(&format!("{more} more lines are wrong or refused"));
    }
}

/// Shows the answer to a query.
fn show_reply(body: Body, link: &Connected, json: bool) {
    if let Body::CounterReply(counter) = &body {
        let Counter {
            id, packets, bytes, ..
        } = counter;
        match json {
            true => out::json_line(&show::CounterStats::of(counter)),
            false => out::line(&format!("counter {id}: {packets} packets, {bytes} bytes")),
        }
        return;
    }
    let Some(object) = as_add(&body) else { return };
    let Some(line) = pof::text::write(&object, &link.tables) else {
        return;
    };
    match json {
        true => out::json_line(&show::Object::of(&object, line)),
        false => out::line(&line),
    }
}

fn dump(link: &mut Connected, json: bool) -> Result<Ended, String> {
    let objects = remake(&link.ask(Body::QueryAllRequest(0xFFFF))?);
    let lines = objects.iter().filter_map(|body| {
        let line = pof::text::write(body, &link.tables)?;
        Some(show::Object::of(body, line))
    });
    if json {
        out::json(&lines.collect::<Vec<_>>());
    } else {
        lines.for_each(|object| out::line(&object.line));
    }
    Ok(Ended::Well)
}

fn stats(link: &mut Connected, json: bool) -> Result<Ended, String> {
    let mut all = show::SwitchStats::default();
    for request in [
        StatsRequest::Ports(StatsRequest::ANY),
        StatsRequest::Tables,
        StatsRequest::Flows {
            table: StatsRequest::ALL,
            cookie: 0,
            cookie_mask: 0,
        },
        StatsRequest::Groups(StatsRequest::ANY),
        StatsRequest::Meters(StatsRequest::ANY),
    ] {
        for reply in link.ask(Body::MultipartRequest(request))? {
            if let Body::MultipartReply(reply) = reply {
                all.take(reply.stats, &link.tables);
            }
        }
    }
    for reply in link.ask(Body::QueryAllRequest(0xFFFF))? {
        if let Body::CounterReply(counter) = reply {
            all.counters.push(show::CounterStats::of(&counter));
        }
    }
    match json {
        true => out::json(&all),
        false => out::text(&all.text()),
    }
    Ok(Ended::Well)
}

fn watch(
    link: &mut Connected,
    count: Option<u64>,
    json: bool,
    early: &ProcessSetup,
) -> Result<Ended, String> {
    let mut shown = 0;
    while count.is_none_or(|count| shown < count) && early.take_signal().is_none() {
        let message = link.controller.receive(LOOK_EVERY);
        let message = message.map_err(|error| error.to_string())?;
        let Some(news) = message.and_then(|message| show::News::of(message.body)) else {
            continue;
        };
        shown += 1;
        match json {
            true => out::json_line(&news),
            false => out::line(&news.text()),
        }
    }
    Ok(Ended::Well)
}

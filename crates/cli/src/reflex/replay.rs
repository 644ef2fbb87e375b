//! `polyplane reflex replay`: loops over captured reports.

use std::path::PathBuf;

use ::reflex::{AcceptingElement, CommandTarget, PlaneDriver, SourceIndex, datagram};
use clap::Args;
use command::captures::{Captures, Input};
use packet::{Nanos, PortId};
use runtime::ProcessSetup;
use support::amount;
use terminal::live::{LiveLine, bar};

use super::programs;
use super::run::finish;
use super::show::Report;
use crate::engine::Choice;
use crate::{Ended, out};

/// Time before the first report: the store elects its leader.
const START: Nanos = Nanos::from_secs(1);
/// Time after the last report: answers of elements arrive.
const LINGER: Nanos = Nanos::from_secs(1);
/// Longest time without a packet: the store's clock runs all of it.
const MAX_GAP: Nanos = Nanos::from_secs(600);
/// Packets between two looks for a signal.
const LOOK_EVERY: u64 = 64;
/// Width of the progress bar.
const BAR: usize = 30;

#[derive(Args)]
#[command(
    after_help = "Elements take each change, as no switch is there. A capture of `polyplane reflex run` gives the decisions of that run."
)]
pub(crate) struct Options {
    /// The loop file.
    #[arg(value_name = "LOOPS.toml")]
    loops: PathBuf,
    /// A source (a host's name, or its `listen`), and the capture of what arrived there. Give one
    /// for each source.
    #[arg(long = "in", value_name = "SOURCE=FILE", required = true)]
    inputs: Vec<String>,
    /// Write the packets that a monitor's P4 program gets to a capture.
    #[arg(long, value_name = "MONITOR=FILE")]
    packets: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    /// Write JSON: each decision, and the counts.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let loops = super::read(&options.loops)?;
    let files = super::by_source(&loops, &options.inputs)?;
    let inputs = files.into_iter().enumerate().map(|(at, file)| {
        let file = file.ok_or_else(|| {
            let place = &loops.sources[at].listen;
            format!("the reports at {place} are missing: add --in {place}=FILE")
        })?;
        let port = PortId(at as u32);
        Ok(Input { port, file })
    });
    let inputs: Vec<Input> = inputs.collect::<Result<_, String>>()?;
    let mut captures = Captures::open(&inputs).map_err(|error| error.to_string())?;
    let first = captures.start();
    let start = Nanos(first.0.saturating_sub(START.0));
    let elements = loops.elements.iter();
    let elements = elements.map(|_| Box::<AcceptingElement>::default() as Box<dyn CommandTarget>);
    let elements = elements.collect();
    let mut plane = super::plane(loops, &options.loops, options.choice, start)?;
    let written = programs::capture(&mut plane, &options.packets)?;
    let mut driver = PlaneDriver::new(plane, elements);
    let (mut packets, mut others, mut last) = (0u64, 0u64, start);
    let mut line = LiveLine::new();
    loop {
        if packets.is_multiple_of(LOOK_EVERY) {
            if let Some(signal) = early.take_signal() {
                line.clear();
                return Err(format!("interrupted by {signal}"));
            }
            if line.is_due() {
                let (read, all) = (captures.bytes_read(), captures.bytes_in_files());
                line.show(&format!("{} {packets} packets", bar(read, all, BAR)));
            }
        }
        let Some((port, frame)) = captures.next_packet() else {
            break;
        };
        packets += 1;
        if frame.arrival > last + MAX_GAP {
            let (gap, from) = (
                amount::time((frame.arrival.since(last)).into()),
                packets - 1,
            );
            return Err(format!(
                "after packet {from} there is none for {gap}; replay the parts of the captures one by one"
            ));
        }
        last = last.max(frame.arrival);
        let source = SourceIndex(port.0 as usize);
        let udp_port = driver.plane().loops().sources[source.0].udp_port;
        match datagram(frame.bytes()).filter(|(_, port, _)| *port == udp_port) {
            Some((from, _, payload)) => {
                driver.receive(last, source, from, payload);
                driver.step(last);
            }
            None => others += 1,
        }
    }
    driver.run_until(last + LINGER);
    line.clear();
    written
        .into_iter()
        .try_for_each(|capture| finish(&capture))?;
    let report = Report::new(&driver, last).with_start(first);
    let report = report.with_others(others);
    match options.json {
        true => out::json(&report),
        false => out::text(&report.text()),
    }
    captures
        .errors()
        .iter()
        .for_each(|error| out::error(&error.to_string()));
    Ok(match captures.errors() {
        [] => Ended::Well,
        _ => Ended::WithErrors,
    })
}

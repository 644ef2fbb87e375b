//! Commands that observe the packets of a running switch: traces, captures, and summaries of the
//! ways that packets take.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use p4info::polyplane::observation::v1 as wire;
use p4info::polyplane::observation::v1::end::What as EndWhat;
use p4info::polyplane::observation::v1::observe_request::Wish;
use p4info::polyplane::observation::v1::observe_response::What;
use p4rt::client::{ClientError, Code, Observation, Observed};
use packet::Nanos;
use port::{FrameDirection, FrameRecord, PcapngWriter};
use runtime::ProcessSetup;
use runtime::trace_filter::PacketFilter;
use serde_json::{Value, json};
use support::text_table::align;

use super::link::Link;
use crate::{amount, out};

/// Maximum number of captured bytes of a frame.
const MAX_SNAP: u32 = 65_535;

/// Text of a filter. Its syntax is checked before a server is asked.
#[derive(Clone)]
struct FilterText(String);

fn filter(text: &str) -> Result<FilterText, String> {
    let checked = text.parse::<PacketFilter>();
    checked.map_err(|error| error.to_string())?;
    Ok(FilterText(text.to_owned()))
}

#[derive(Args)]
pub(crate) struct TraceOptions {
    /// Filter of packets, as in 'ipv4.dst == 10.0.0.1 and udp'; `all` for every packet.
    #[arg(value_parser = filter)]
    filter: FilterText,
    /// Stop after this number of packets.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
}

#[derive(Args)]
pub(crate) struct CaptureOptions {
    /// Filter of frames; default: all.
    #[arg(value_parser = filter, default_value = "all")]
    filter: FilterText,
    /// Only frames of this port.
    #[arg(long, value_name = "N")]
    port: Option<u32>,
    /// Stop after this number of frames.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
    /// Capture at most this number of bytes of a frame.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_SNAP, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SNAP)))]
    snaplen: u32,
    /// The pcapng file; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Args)]
pub(crate) struct WhyOptions {
    /// Filter of packets, as in 'ipv4.dst == 10.0.0.1 and udp'; `all` for every packet.
    #[arg(value_parser = filter)]
    filter: FilterText,
    /// Time for which packets are counted.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
}

impl Link {
    fn observe(
        &mut self,
        filter: &FilterText,
        count: Option<u64>,
        wish: Wish,
    ) -> Result<Observation, String> {
        let begun = self.client.observe(&filter.0, count, wish);
        begun.map_err(|error| match &error {
            ClientError::Refused(refused) if refused.code == Code::Unimplemented => {
                "this server does not let clients observe packets; \
                 `run`, `serve` and `host` of Polyplane do"
                    .to_owned()
            }
            _ => self.explain(&error),
        })
    }

    /// Returns the next message. `None` at the end, at a point in time, or if a signal requests a
    /// stop.
    fn observed(
        &mut self,
        observation: &mut Observation,
        (early, until): (&ProcessSetup, Option<Instant>),
    ) -> Result<Option<wire::ObserveResponse>, String> {
        let stop = early.signal_fd();
        match self.client.observed(observation, stop, until) {
            Ok(Observed::Message(message)) => Ok(Some(message)),
            Ok(Observed::Stopped | Observed::Ended) => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }
}

/// Returns the point in time after a number of seconds.
fn end_of(seconds: Option<u32>) -> Option<Instant> {
    seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()))
}

pub(crate) fn trace(
    link: &mut Link,
    options: &TraceOptions,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let wish = Wish::Traces(wire::Traces {});
    let mut observation = link.observe(&options.filter, options.count, wish)?;
    let mut skipped = 0;
    let end = end_of(options.seconds);
    // The server ends it after the number of packets.
    while let Some(message) = link.observed(&mut observation, (early, end))? {
        skipped = message.skipped;
        let goes_on = match message.what {
            Some(What::Begun(_)) => {
                out::note("packets are traced; Ctrl-C stops it");
                true
            }
            Some(What::Trace(trace)) => match as_json {
                true => out::try_line(&trace.json),
                false => out::try_text(&trace.text),
            },
            _ => true,
        };
        if !goes_on {
            return Ok(());
        }
    }
    note_skipped(skipped, "traced");
    Ok(())
}

pub(crate) fn capture(
    link: &mut Link,
    options: &CaptureOptions,
    early: &ProcessSetup,
) -> Result<(), String> {
    let wish = Wish::Frames(wire::Frames {
        port: options.port,
        snap_len: options.snaplen,
    });
    let mut observation = link.observe(&options.filter, options.count, wish)?;
    let mut writer = match options.output.as_os_str() == "-" {
        true => to_standard_output()?,
        false => PcapngWriter::create(&options.output).map_err(|error| error.to_string())?,
    };
    let mut interfaces = Vec::new();
    let mut skipped = 0;
    let end = end_of(options.seconds);
    // The server ends it after the number of frames.
    while let Some(message) = link.observed(&mut observation, (early, end))? {
        skipped = message.skipped;
        let written = match message.what {
            Some(What::Begun(begun)) => {
                for interface in begun.interfaces {
                    writer.add_interface(&interface_name(&interface), options.snaplen);
                    interfaces.push(interface);
                }
                out::note(&format!(
                    "frames are captured in {}; Ctrl-C stops it",
                    options.output.display()
                ));
                writer.flush()
            }
            Some(What::Frame(frame)) => {
                write(&mut writer, &mut interfaces, options.snaplen, &frame)
            }
            _ => Ok(()),
        };
        if let Err(error) = written {
            // The reader of a pipe wants no more.
            return match error.source.kind() == io::ErrorKind::BrokenPipe {
                true => Ok(()),
                false => Err(error.to_string()),
            };
        }
    }
    writer.flush().map_err(|error| error.to_string())?;
    out::note(&format!(
        "captured {}",
        amount::count(writer.packets(), "frame")
    ));
    note_skipped(skipped, "captured");
    Ok(())
}

/// Returns a writer to standard output. What a redirected file has stays.
fn to_standard_output() -> Result<PcapngWriter, String> {
    let copy = io::stdout().as_fd().try_clone_to_owned();
    let copy = copy.map_err(|error| format!("standard output: {error}"))?;
    Ok(PcapngWriter::of_open(
        File::from(copy),
        Path::new("standard output"),
    ))
}

fn interface_name(interface: &wire::Interface) -> String {
    match interface.name.is_empty() {
        true => format!("port {}", interface.port),
        false => interface.name.clone(),
    }
}

/// Writes a frame. It can be read at once.
fn write(
    writer: &mut PcapngWriter,
    interfaces: &mut Vec<wire::Interface>,
    snaplen: u32,
    frame: &wire::Frame,
) -> Result<(), port::PcapWriteError> {
    let own = wire::Interface {
        port: frame.port,
        name: frame.interface.clone(),
    };
    let interface = match interfaces.iter().position(|known| *known == own) {
        Some(interface) => interface as u32,
        None => {
            let number = writer.add_interface(&interface_name(&own), snaplen);
            interfaces.push(own);
            number
        }
    };
    writer.write(FrameRecord {
        interface,
        time: Nanos(frame.time_ns),
        bytes: &frame.data,
        length: frame.length as usize,
        direction: match frame.is_sent {
            true => FrameDirection::Sent,
            false => FrameDirection::Received,
        },
        comment: Some(frame.comment.as_str()).filter(|comment| !comment.is_empty()),
    })?;
    writer.flush()
}

pub(crate) fn why(
    link: &mut Link,
    options: &WhyOptions,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let wish = Wish::Paths(wire::Paths {
        seconds: options.seconds,
    });
    let mut observation = link.observe(&options.filter, None, wish)?;
    let mut last = None;
    let mut skipped = 0;
    // The server ends it after the time.
    while let Some(message) = link.observed(&mut observation, (early, None))? {
        skipped = message.skipped;
        match message.what {
            Some(What::Begun(_)) => out::note(&format!(
                "packets are counted for {}; Ctrl-C ends it before",
                amount::count(options.seconds.into(), "second")
            )),
            Some(What::Paths(summary)) => last = Some(summary),
            _ => {}
        }
    }
    let Some(last) = last else {
        return Err("it ended before the first counts came, after a second".to_owned());
    };
    match as_json {
        true => out::json(&summary_json(&options.filter.0, &last, skipped)),
        false => out::text(&summary_text(&options.filter.0, &last, skipped)),
    }
    Ok(())
}

fn note_skipped(skipped: u64, what: &str) {
    if skipped > 0 {
        let packets = amount::count(skipped, "more packet");
        out::note(&format!("{packets} matched and came too fast to be {what}"));
    }
}

fn summary_text(filter: &str, summary: &wire::PathSummary, skipped: u64) -> String {
    let seconds = summary.milliseconds as f64 / 1000.0;
    let packets = amount::count(summary.packets, "packet");
    let mut text = format!("{filter}: {packets} in {seconds:.1} s\n");
    if summary.packets == 0 && skipped == 0 {
        text +=
            "No packet matched: see that it arrives, with `ctl port list` and a wider filter.\n";
    }
    for path in &summary.paths {
        let packets = amount::count(path.packets, "packet");
        let bytes = amount::bytes(path.bytes);
        let ends = ends_text(&path.ends);
        text += &format!("\nport {}, {packets} ({bytes}): {ends}\n", path.port);
        let rows: Vec<Vec<String>> = path.lookups.iter().map(lookup_row).collect();
        for row in align(&rows).lines() {
            text += &format!("  {row}\n");
        }
    }
    if summary.others > 0 {
        let others = amount::count(summary.others, "packet");
        text += &format!("\n{others} went other ways\n");
    }
    if skipped > 0 {
        let more = amount::count(skipped, "more packet");
        text += &format!("\n{more} matched and came too fast to be followed\n");
    }
    text
}

fn lookup_row(lookup: &wire::Lookup) -> Vec<String> {
    let outcome = if lookup.is_hit { "hit" } else { "miss" };
    let what = match (lookup.entry.as_str(), lookup.action.as_str()) {
        ("", "") => String::new(),
        ("", _) if !lookup.default_action.is_empty() => format!("-> {}", lookup.default_action),
        ("", action) => format!("-> {action}"),
        // The entry's statement names the table.
        (entry, _) => match entry.strip_prefix(&format!("{} ", lookup.table)) {
            Some(rest) => rest.to_owned(),
            None => entry.to_owned(),
        },
    };
    vec![lookup.table.clone(), outcome.to_owned(), what]
}

fn ends_text(ends: &[wire::End]) -> String {
    let one = |end: &wire::End| match &end.what {
        Some(EndWhat::Sent(port)) => format!("sent by port {port}"),
        Some(EndWhat::Dropped(reason)) => format!("dropped, {reason}"),
        Some(EndWhat::Queued(port)) => format!("queued at port {port}"),
        None => "gone".to_owned(),
    };
    match ends {
        [] => "no copy left or was dropped".to_owned(),
        ends => ends.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

fn summary_json(filter: &str, summary: &wire::PathSummary, skipped: u64) -> Value {
    let lookup = |lookup: &wire::Lookup| {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        json!({
            "table": lookup.table,
            "hit": lookup.is_hit,
            "entry": given(&lookup.entry),
            "action": given(&lookup.action),
            "default_action": given(&lookup.default_action),
        })
    };
    let end = |end: &wire::End| match &end.what {
        Some(EndWhat::Sent(port)) => json!({ "sent": port }),
        Some(EndWhat::Dropped(reason)) => json!({ "dropped": reason }),
        Some(EndWhat::Queued(port)) => json!({ "queued": port }),
        None => Value::Null,
    };
    let path = |path: &wire::Path| {
        json!({
            "port": path.port,
            "packets": path.packets,
            "bytes": path.bytes,
            "lookups": path.lookups.iter().map(lookup).collect::<Vec<_>>(),
            "ends": path.ends.iter().map(end).collect::<Vec<_>>(),
        })
    };
    json!({
        "filter": filter,
        "seconds": summary.milliseconds as f64 / 1000.0,
        "packets": summary.packets,
        "skipped": skipped,
        "others": summary.others,
        "paths": summary.paths.iter().map(path).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_tables_entries_actions_and_reasons() {
        let lookup = |table: &str, entry: &str, action: &str| wire::Lookup {
            table: table.to_owned(),
            is_hit: !entry.is_empty(),
            entry: entry.to_owned(),
            action: action.to_owned(),
            default_action: match entry {
                "" => format!("{action}(port: 2)"),
                _ => String::new(),
            },
        };
        let end = |what| wire::End { what: Some(what) };
        let summary = wire::PathSummary {
            milliseconds: 10_000,
            packets: 12,
            others: 1,
            paths: vec![wire::Path {
                port: 0,
                packets: 11,
                bytes: 660,
                lookups: vec![
                    lookup(
                        "ipv4_lpm",
                        "ipv4_lpm { dst: 10.0.0.0/8; } -> drop()",
                        "drop",
                    ),
                    lookup("acl", "", "allow"),
                ],
                ends: vec![end(EndWhat::Dropped("ingress_drop".to_owned()))],
            }],
            is_last: true,
        };
        let expect = "\
all: 12 packets in 10.0 s

port 0, 11 packets (660 B): dropped, ingress_drop
  ipv4_lpm  hit   { dst: 10.0.0.0/8; } -> drop()
  acl       miss  -> allow(port: 2)

1 packet went other ways

3 more packets matched and came too fast to be followed
";
        assert_eq!(summary_text("all", &summary, 3), expect);
        let json = summary_json("all", &summary, 3);
        assert_eq!(json["paths"][0]["lookups"][1]["action"], "allow");
        assert_eq!(json["paths"][0]["ends"][0]["dropped"], "ingress_drop");
        assert_eq!(json["skipped"], 3);
    }
}

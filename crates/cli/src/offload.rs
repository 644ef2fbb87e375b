//! `polyplane offload`: which flows of a capture a NIC can have, as rules of TC flower, and which
//! ones the NIC of a running switch has.

pub(crate) mod arguments;
mod running;
mod selection;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use bits::Id;
use clap::{Args, Subcommand};
use command::captures::{Captures, Input};
use offload::tc::{Interfaces, TranslateOptions, translate};
use offload::{Flow, FlowIndex, FlowTracer, NotOffloadable, PortRole, Step, Traced, View};
use offload_runtime::{ProgramField, with_field_names};
use packet::PortId;
use pof_runtime::pof_role;
use runtime::ProcessSetup;
use serde::Serialize;
use switch::Device;
use terminal::live::{LiveLine, bar};

use crate::args::{Preprocess, Setup, Source};
use crate::engine::Choice;
use crate::http::MetricsAddress;
use crate::{Ended, amount, configure, out, pof};
use running::ReportOptions;
use selection::Selection;

/// Packets between two looks for a signal.
const LOOK_EVERY: u64 = 64;

/// Width of the progress bar.
const BAR: usize = 30;

#[derive(Args)]
#[command(subcommand_required = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the flows of captures: the rule of each that a NIC can have, or the reason why it has
    /// none. With --at, show those of a running switch, and their planes.
    Flows(Box<FlowsOptions>),
    /// Show the numbers of what the offload of a running switch did.
    Stats(ReportOptions),
    /// Show how a running switch decides, and the planes.
    Placement(ReportOptions),
}

#[derive(Args)]
#[command(
    override_usage = "polyplane offload flows [OPTIONS] --in <PORT=FILE> <PROGRAM.p4>\n       \
                      polyplane offload flows [OPTIONS] --at <ADDRESS>",
    after_help = "A flow is all packets that take one way through the program: the bits that their way depends on, and what is done to them. Its rule is in the form of \
                  `tc filter show`, with portN for the interface of port N. A rule takes no packet of another flow and makes the same frames, byte for byte; else there is none.\n\
                  The flows are those of the tables as they are given: packets change nothing.\n\n\
                  Columns with --at:\n  \
                  flow         number of the flow; it stays when the flow's rule is replaced\n  \
                  plane        nic: the NIC has its packets; software: the switch has them\n  \
                  state        software: no decision has put it into the NIC; wanted: it waits for room;\n  \
                  \u{20}            adding: its rule is on the way; in_hw: the NIC has the rule; not_in_hw: the rule\n  \
                  \u{20}            was taken, but not by hardware; refused: the rule was refused; evicted: the NIC\n  \
                  \u{20}            dropped it; lost: others removed it, as `tc filter del` or an interface that goes down\n  \
                  \u{20}            does. The last four are tried again after 10 s\n  \
                  packets/s    rate over both planes, half of it from the last second\n  \
                  in NIC       packets that the NIC has counted since the flow is known\n  \
                  in software  packets of the switch since then, as its samples say\n  \
                  gain         packets/s that leave the switch if the NIC has the flow. A flow that the NIC has gets\n  \
                  \u{20}            20 % and 1 more, so that two flows of about one rate do not change places again\n  \
                  \u{20}            and again: with 1000 packets/s it has 1201, and leaves a full NIC for one of 1202.\n  \
                  \u{20}            always or never where --offload-table chooses\n  \
                  to           ports to which it sends, or drop\n  \
                  match        what its packets have in common: port, fields, bytes[OFFSET:LENGTH] VALUE/MASK,\n  \
                  \u{20}            lengths, checksum[OFFSET] right or wrong\n\nExamples:\n  \
                  polyplane offload flows router.p4 --entries router.entries --in 0=traffic.pcap\n  \
                  polyplane offload flows router.pof --in 0=traffic.pcap --json\n  \
                  polyplane offload flows --at localhost:9100 --why     of a switch with --offload and --metrics\n  \
                  polyplane offload flows --at localhost:9100 --state refused --reason checksum --limit 10 --why\n\n\
                  Exit status: 0, also if no flow has a rule; 1 for errors in the program, the entries or a capture; 2 for wrong usage."
)]
struct FlowsOptions {
    /// Show the flows of the switch that serves metrics at this address.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["program", "inputs"])]
    at: Option<MetricsAddress>,
    /// Show for each flow why it is not in hardware, and the packets that are in no flow.
    #[arg(long, requires = "at")]
    why: bool,
    #[command(flatten)]
    selection: Selection,
    /// A program, or a text of tables and flows of POF (FILE.pof).
    #[arg(value_name = "PROGRAM.p4", required_unless_present = "at")]
    program: Option<PathBuf>,
    /// C code of the program's handlers.
    #[arg(long = "c", value_name = "FILE.c")]
    c_file: Option<PathBuf>,
    #[command(flatten)]
    preprocess: Preprocess,
    #[command(flatten)]
    setup: Setup,
    /// A capture and the port its packets come in by. Give one for each port.
    #[arg(long = "in", value_name = "PORT=FILE", required_unless_present = "at")]
    inputs: Vec<Input>,
    /// MTU of the interfaces: no frame is longer than it with its header and a VLAN tag.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u32,
    /// No packet has IPv4 options, IPv6 extension headers or a broken header length. Then rules may
    /// compare ports and write checksums, and --valid-ip-checksums has an effect.
    #[arg(long)]
    no_ip_options: bool,
    /// No packet has a wrong IPv4 header checksum. Then flows of programs that check it have rules,
    /// if --no-ip-options is given, too.
    #[arg(long)]
    valid_ip_checksums: bool,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Command::Flows(options) => match (&options.at, &options.program) {
            (Some(at), _) => running::flows(at, &options.selection, options.why, options.json),
            (None, Some(program)) => {
                let source = Source {
                    program: program.clone(),
                    c_file: options.c_file.clone(),
                    preprocess: options.preprocess.clone(),
                };
                flows(options, &source, early)
            }
            (None, None) => Err("give a program, or --at ADDRESS".to_owned()),
        },
        Command::Stats(options) => running::stats(options),
        Command::Placement(options) => running::placement(options),
    }
}

fn flows(options: &FlowsOptions, source: &Source, early: &ProcessSetup) -> Result<Ended, String> {
    let mut captures = Captures::open(&options.inputs).map_err(|error| error.to_string())?;
    let path = &source.program;
    let found = if pof::program::is_text(path) {
        let mut forwarder = pof::program::forwarder(path)?;
        find(forwarder.device(), pof_role, (path, &mut captures), early)?
    } else {
        let start = captures.start();
        let loaded = configure::load(source, &options.setup, Choice::INTERP, start)?;
        let Some(mut device) = loaded else {
            return Ok(Ended::WithErrors);
        };
        for input in &options.inputs {
            configure::check_port(device.program(), input.port)?;
        }
        let mut found = find(
            &mut device,
            |_| PortRole::Data,
            (path, &mut captures),
            early,
        )?;
        let fields = device.program().fields.values();
        found.names = fields.map(|field| field.name.clone()).collect();
        found
    };
    let report = found.report(options);
    match options.json {
        true => out::json(&report),
        false => report.show(),
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

/// Packets of a flow, or of those without one for a reason.
#[derive(Clone, Copy, Default)]
struct Traffic {
    packets: u64,
    bytes: u64,
}

impl Traffic {
    fn count(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += frame.len() as u64;
    }
}

/// The flows of captures.
#[derive(Default)]
struct Found {
    flows: Vec<(Traced, Traffic)>,
    /// Names of the program's fields by number, if users know them.
    names: Vec<String>,
    /// Packets that are in no flow, by ingress port and reason.
    others: BTreeMap<(PortId, String), Traffic>,
}

/// Traces the packets of all captures.
fn find(
    device: &mut Device,
    role_of: fn(PortId) -> PortRole,
    (path, captures): (&Path, &mut Captures),
    early: &ProcessSetup,
) -> Result<Found, String> {
    let mut found = Found::default();
    let mut index: FlowIndex<usize> = FlowIndex::default();
    let mut tracer = FlowTracer::new(&device.program().clone(), role_of)
        .map_err(|reason| format!("{}: no flow: {reason}", path.display()))?;
    let state = device.state();
    let view = View {
        state: &state,
        replication: device.replication(),
    };
    let mut line = LiveLine::new();
    let mut packets = 0;
    while let Some((port, frame)) = captures.next_packet() {
        let frame = frame.bytes();
        let is_flow = |number: &usize| found.flows[*number].0.flow.matches(port, frame);
        let known = index.candidates(port, frame).find(is_flow);
        let traffic = match known {
            Some(number) => &mut found.flows[number].1,
            None => match tracer.trace(view, port, frame) {
                Ok(traced) => {
                    index.insert(&traced.flow, found.flows.len());
                    found.flows.push((traced, Traffic::default()));
                    &mut found.flows.last_mut().expect("it was added").1
                }
                Err(reason) => found.others.entry((port, reason.to_string())).or_default(),
            },
        };
        traffic.count(frame);
        packets += 1;
        if packets % LOOK_EVERY == 0 {
            if let Some(signal) = early.take_signal() {
                return Err(format!("interrupted by {signal}"));
            }
            if line.is_due() {
                let all = captures.bytes_in_files();
                let done = bar(captures.bytes_read(), all, BAR);
                let packets = amount::count(packets, "packet");
                line.show(&format!("{done} {packets}, {} flows", found.flows.len()));
            }
        }
    }
    Ok(found)
}

#[derive(Serialize)]
struct Report {
    packets: u64,
    bytes: u64,
    /// Packets of flows with a rule.
    offloadable_packets: u64,
    flows: Vec<FlowReport>,
}

#[derive(Serialize)]
struct FlowReport {
    port: u32,
    packets: u64,
    bytes: u64,
    /// The ports to which its packets go. `None` for packets that are in no flow.
    outputs: Option<Vec<u32>>,
    /// The rule, as `tc filter show` prints it.
    rule: Option<String>,
    /// The reason why there is no rule.
    reason: Option<String>,
}

impl Found {
    /// Returns a reason with the names of the program's fields.
    fn named(&self, reason: &str, traced: &Traced) -> String {
        let fields = traced.parsed.iter().filter_map(|parsed| {
            Some(ProgramField {
                name: self.names.get(parsed.field.index())?,
                offset: parsed.offset,
                width: parsed.width,
            })
        });
        with_field_names(reason, &fields.collect::<Vec<_>>())
    }

    fn report(&self, options: &FlowsOptions) -> Report {
        let translate_options = TranslateOptions {
            no_ip_options: options.no_ip_options,
            valid_ip_checksums: options.valid_ip_checksums,
            ..TranslateOptions::of_mtu(options.mtu)
        };
        let of_flow = |(traced, traffic): &(Traced, Traffic)| {
            let flow = &*traced.flow;
            let outputs = outputs(flow);
            let (rule, reason) = match rule(flow, &outputs, &translate_options) {
                Ok(rule) => (Some(rule), None),
                Err(reason) => (None, Some(self.named(&reason.to_string(), traced))),
            };
            FlowReport {
                port: flow.ingress.0,
                packets: traffic.packets,
                bytes: traffic.bytes,
                outputs: Some(outputs.iter().map(|port| port.0).collect()),
                rule,
                reason,
            }
        };
        let of_others = self
            .others
            .iter()
            .map(|((port, reason), traffic)| FlowReport {
                port: port.0,
                packets: traffic.packets,
                bytes: traffic.bytes,
                outputs: None,
                rule: None,
                reason: Some(reason.clone()),
            });
        let mut flows: Vec<FlowReport> = self.flows.iter().map(of_flow).chain(of_others).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.packets));
        let with_rule = flows.iter().filter(|flow| flow.rule.is_some());
        Report {
            packets: flows.iter().map(|flow| flow.packets).sum(),
            bytes: flows.iter().map(|flow| flow.bytes).sum(),
            offloadable_packets: with_rule.map(|flow| flow.packets).sum(),
            flows,
        }
    }
}

fn outputs(flow: &Flow) -> Vec<PortId> {
    let steps = flow.steps.iter();
    steps
        .filter_map(|step| match step {
            Step::Output(port) => Some(*port),
            Step::Edit(_) => None,
        })
        .collect()
}

/// Returns the text of a flow's rule, in which port N has the interface `portN`.
fn rule(
    flow: &Flow,
    outputs: &[PortId],
    options: &TranslateOptions,
) -> Result<String, NotOffloadable> {
    let numbered = (1..).zip(outputs);
    let names: HashMap<u32, PortId> = numbered.map(|(index, port)| (index, *port)).collect();
    let interfaces: Interfaces = names.iter().map(|(index, port)| (*port, *index)).collect();
    let rule = translate(flow, &interfaces, options)?;
    let name = |index: u32| {
        names
            .get(&index)
            .map_or_else(String::new, |port| format!("port{port}"))
    };
    Ok(rule.text(name))
}

impl Report {
    /// Prints the flows with rules, and how many have none for each reason.
    fn show(&self) {
        let mut software: BTreeMap<&str, (u64, Traffic)> = BTreeMap::new();
        for flow in &self.flows {
            let packets = amount::count(flow.packets, "packet");
            let bytes = amount::bytes(flow.bytes);
            match (&flow.rule, &flow.reason) {
                (Some(rule), _) => {
                    out::text(&format!(
                        "port {}, {packets}, {bytes}:\n{rule}\n",
                        flow.port
                    ));
                }
                (None, reason) => {
                    let reason = reason.as_deref().unwrap_or_default();
                    let (flows, traffic) = software.entry(reason).or_default();
                    *flows += u64::from(flow.outputs.is_some());
                    traffic.packets += flow.packets;
                    traffic.bytes += flow.bytes;
                }
            }
        }
        for (reason, (flows, traffic)) in software {
            let flows = match flows {
                0 => String::new(),
                flows => format!("{}, ", amount::count(flows, "flow")),
            };
            let packets = amount::count(traffic.packets, "packet");
            let bytes = amount::bytes(traffic.bytes);
            out::line(&format!("in software: {flows}{packets}, {bytes}: {reason}"));
        }
        let share = self.offloadable_packets as f64 * 100.0 / self.packets.max(1) as f64;
        out::line(&format!(
            "{} of {} ({share:.1} %) can be in a NIC",
            self.offloadable_packets,
            amount::count(self.packets, "packet")
        ));
    }
}

//! `polyplane nanopu`: programs on a timed model of the nanoPU.
//!
//! The crate `nanopu` has the model. This module reads images and prints results.

mod in_topology;
mod rules;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use ::nanopu::{
    CostTable, CycleParts, DEVICE_ADDRESS, Image, LinkFaults, Load, LoadReport, MAX_CLIENTS,
    MAX_CORES, MAX_MESSAGE, MAX_MESSAGES, Output, Picos, SingleCore, TraceRecord, run_load,
};
use clap::{Args, Subcommand};
use command::topology::read_image;
use runtime::ProcessSetup;
use serde::Serialize;
use support::count::count;
use support::text_table::table;

use crate::engine::Choice;
use crate::{Ended, out};

/// Nanoseconds of the messages of a load, at most: a day.
const MAX_LOAD_NS: u64 = 86_400_000_000_000;
/// Mebibytes of memory of a device, at most.
const MAX_MEMORY_MIB: u64 = 4096;

/// The last line of a result.
const OTHER_COSTS: &str =
    "\ncosts that are not set have their defaults, which `polyplane nanopu costs` prints\n";

/// Hint after a run without answers.
const NO_ANSWERS: &str = "hint: no message is answered. Some programs answer few messages or none: \
    examples/nanopu/README.md has what each expects (--payload, or `contents` of [[requests]]). \
    An answer goes to the address and the context of its message, and the program binds the context \
    of the messages; `polyplane nanopu trace` shows what it does";

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "The model runs RV64IMAFDC programs. x30 is netRX, the next word of a received message; x31 is netTX, the next word of a sent one.\n\nExamples:\n  \
                  polyplane nanopu run examples/nanopu/loopback.elf\n  \
                  polyplane nanopu run examples/nanopu/loopback.elf --cores 4 --clients 8 --interval-ns 20 --cost switch=1000\n  \
                  polyplane nanopu run examples/nanopu/loopback.elf --topo examples/nanopu/star.toml\n  \
                  polyplane nanopu trace examples/nanopu/loopback.elf\n  \
                  polyplane nanopu image --kind acl --count 1000 --out acl.image\n  \
                  polyplane nanopu run examples/nanopu/classifier.elf --data acl.image --bytes 40\n  \
                  polyplane nanopu costs\n\n\
                  docs/reference/nanopu.md has the registers, the costs with their sources, and what is not modelled. Exit status: 0; 1 if the image is refused or a core \
                  has a fault, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

impl Options {
    /// Returns true if a program is to run in a topology, until it is done or until a signal.
    pub(crate) fn runs_topology(&self) -> bool {
        matches!(&self.command, Command::Run(run) if run.topology.is_some())
    }
}

#[derive(Subcommand)]
enum Command {
    /// Send messages to a program and print latencies, cycles by parts, counters and costs.
    Run(RunOptions),
    /// Send one message to a program and print each instruction with its cycle.
    Trace(TraceOptions),
    /// Write a classifier image of a rule set, for `--data` of `classifier.elf`.
    Image(rules::Options),
    /// Print the costs of the model with their sources.
    Costs(CostOptions),
}

#[derive(Args)]
struct CostOptions {
    /// Set a cost, as in `mispredict=5`. `polyplane nanopu costs` has the names.
    #[arg(long = "cost", value_name = "NAME=VALUE")]
    costs: Vec<String>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ProgramOptions {
    /// The program: a statically linked RV64 ELF file.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Memory at 0x80000000, in MiB.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=MAX_MEMORY_MIB))]
    memory_mib: u64,
    /// Data that memory has on the first line of 64 bytes after the program, such as a classifier
    /// image.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Contents of each message in hexadecimal digits. If it is given several times, messages have
    /// the contents by turns.
    #[arg(long = "payload", value_name = "HEX", conflicts_with = "bytes")]
    payloads: Vec<String>,
    /// Bytes of each message, all zero.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=2048))]
    bytes: u16,
    /// Context to which the messages go.
    #[arg(long, default_value_t = 0)]
    context: u16,
    #[command(flatten)]
    costs: CostOptions,
}

#[derive(Args)]
struct RunOptions {
    #[command(flatten)]
    program: ProgramOptions,
    /// Cores of the device.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_CORES as u64))]
    cores: u64,
    /// Clients, which send in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_CLIENTS as u64))]
    clients: u64,
    /// Messages of all clients.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MAX_MESSAGES as u64))]
    messages: u64,
    /// Time between two messages in nanoseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    interval_ns: u64,
    /// Packets of a thousand that a link loses.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    lost_per_mille: u32,
    /// Seed of the losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the program in the nanoPUs of a topology, with its switches, links and `[[requests]]`
    /// (docs/reference/topology.md). Costs that are set are those of all of them.
    #[arg(long = "topo", value_name = "TOPO.toml",
        conflicts_with_all = ["payloads", "bytes", "context", "memory_mib", "cores", "clients", "messages", "interval_ns", "lost_per_mille", "seed"])]
    topology: Option<PathBuf>,
    /// With --topo: maximum simulated time in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000, requires = "topology",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    milliseconds: u64,
    /// With --topo: the engine of the switches.
    #[command(flatten)]
    choice: Choice,
}

#[derive(Args)]
struct TraceOptions {
    #[command(flatten)]
    program: ProgramOptions,
    /// Cycle at which the message arrives at the device.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    at: u64,
    /// Cycles to print, from the arrival at the core on. By default the trace ends when the program
    /// is done with the message (`lmsgdone`), and after 1000 cycles.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cycles: Option<u64>,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Command::Run(options) if options.topology.is_some() => in_topology::run(options, early),
        Command::Run(options) => load(options),
        Command::Trace(options) => trace(options),
        Command::Image(options) => rules::write_image(options),
        Command::Costs(options) => {
            let costs = read_costs(options)?;
            match options.json {
                true => out::json(&cost_rows(&costs)),
                false => out::text(&cost_text(&costs)),
            }
            Ok(Ended::Well)
        }
    }
}

fn read_costs(options: &CostOptions) -> Result<CostTable, String> {
    let mut costs = CostTable::default();
    for text in &options.costs {
        costs.set_text(text).map_err(|error| error.to_string())?;
    }
    Ok(costs)
}

/// A program with its memory, its costs and its message.
struct Program {
    image: Image,
    memory: usize,
    costs: CostTable,
    payloads: Vec<Vec<u8>>,
}

fn read_program(options: &ProgramOptions) -> Result<Program, String> {
    let costs = read_costs(&options.costs)?;
    let payloads = match &options.payloads[..] {
        [] => vec![vec![0; usize::from(options.bytes)]],
        texts => {
            let payloads = texts.iter().map(|text| parse_hex(text));
            payloads.collect::<Result<_, _>>()?
        }
    };
    let memory = (options.memory_mib << 20) as usize;
    let image = read_whole_image(options, memory)?;
    Ok(Program {
        image,
        memory,
        costs,
        payloads,
    })
}

/// Reads the image with its data.
fn read_whole_image(options: &ProgramOptions, memory: usize) -> Result<Image, String> {
    let image = read_image(&options.image, memory)?;
    let Some(path) = &options.data else {
        return Ok(image);
    };
    let data = command::args::read(path, memory as u64)?;
    let image = image.with_data(&data, memory);
    image.map_err(|error| format!("{}: {error}", path.display()))
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || {
        format!(
            "`{text}` is no message: write 1 to {MAX_MESSAGE} bytes of two hexadecimal digits each"
        )
    };
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.ok_or_else(wrong)?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() || pairs.len() > usize::from(MAX_MESSAGE) {
        return Err(wrong());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// A cost as JSON.
#[derive(Serialize)]
struct CostRow {
    name: &'static str,
    value: u64,
    unit: String,
    is_default: bool,
    source: &'static str,
}

fn cost_rows(costs: &CostTable) -> Vec<CostRow> {
    let row = |(cost, value): (::nanopu::Cost, u64)| CostRow {
        name: cost.name(),
        value,
        unit: cost.unit().to_string(),
        is_default: value == cost.default_value(),
        source: cost.source(),
    };
    costs.iter().map(row).collect()
}

fn cost_text(costs: &CostTable) -> String {
    let rows = cost_rows(costs).into_iter().map(|row| {
        let changed = if row.is_default { "" } else { "set: " };
        vec![
            row.name.to_owned(),
            row.value.to_string(),
            row.unit,
            format!("{changed}{}", row.source),
        ]
    });
    table(&["cost", "value", "unit", "source"], rows)
}

/// A result as JSON. Times are nanoseconds.
#[derive(Serialize)]
struct RunResult {
    /// Always `model`: nothing here is measured.
    kind: &'static str,
    sent: usize,
    answered: usize,
    latency_ns: Latency,
    answers_per_second: Option<f64>,
    cores: Vec<CoreResult>,
    caches: Vec<CacheResult>,
    device: DeviceResult,
    network: NetworkResult,
    faults: Vec<FaultResult>,
    costs: Vec<CostRow>,
}

#[derive(Serialize)]
struct Latency {
    min: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct CoreResult {
    instructions: u64,
    cycles: u64,
    parts: Vec<(&'static str, u64)>,
}

#[derive(Serialize)]
struct CacheResult {
    name: &'static str,
    hits: u64,
    misses: u64,
}

#[derive(Serialize)]
struct DeviceResult {
    messages_received: u64,
    messages_sent: u64,
    timeouts: u64,
    abandoned: u64,
    no_buffer: u64,
    unbound: u64,
    removed: u64,
    evictions: u64,
    most_outstanding: u64,
}

#[derive(Serialize)]
struct NetworkResult {
    sent: u64,
    delivered: u64,
    trimmed: u64,
    lost: u64,
    unknown: u64,
    overflow: u64,
}

#[derive(Serialize)]
struct FaultResult {
    core: usize,
    name: &'static str,
    pc: String,
    cycle: u64,
    message: String,
}

fn result_of(report: &LoadReport, costs: &CostTable) -> RunResult {
    let nanos = |per_mille| report.latency(per_mille).map(Picos::as_nanos);
    let answered = report.latencies.len();
    let seconds = report.duration.as_nanos() / 1e9;
    let transport = report.device.transport;
    let cores = report.cores.iter().map(|(parts, instructions)| CoreResult {
        instructions: *instructions,
        cycles: parts.total(),
        parts: parts.named().to_vec(),
    });
    let names = ["instructions", "data", "shared"];
    let caches = names.into_iter().zip(report.caches);
    RunResult {
        kind: "model",
        sent: report.sent,
        answered,
        latency_ns: Latency {
            min: nanos(0),
            p50: nanos(500),
            p99: nanos(990),
            max: nanos(1000),
        },
        answers_per_second: (answered > 0 && seconds > 0.0).then(|| answered as f64 / seconds),
        cores: cores.collect(),
        caches: caches
            .map(|(name, (hits, misses))| CacheResult { name, hits, misses })
            .collect(),
        device: DeviceResult {
            messages_received: transport.messages_received,
            messages_sent: transport.messages_sent,
            timeouts: transport.timeouts,
            abandoned: transport.abandoned,
            no_buffer: transport.no_buffer,
            unbound: transport.unbound + report.device.unbound,
            removed: report.device.removed,
            evictions: report.device.evictions,
            most_outstanding: report.device.most_outstanding,
        },
        network: NetworkResult {
            sent: report.network.sent,
            delivered: report.network.delivered,
            trimmed: report.network.trimmed,
            lost: report.network.lost,
            unknown: report.network.unknown,
            overflow: report.network.overflow,
        },
        faults: report
            .faults
            .iter()
            .map(|(core, fault)| FaultResult {
                core: *core,
                name: fault.kind.name(),
                pc: format!("{:#x}", fault.pc),
                cycle: fault.cycle,
                message: fault.to_string(),
            })
            .collect(),
        costs: cost_rows(costs),
    }
}

fn load(options: &RunOptions) -> Result<Ended, String> {
    if options.interval_ns.saturating_mul(options.messages) > MAX_LOAD_NS {
        return Err(format!(
            "{} with {} ns between them take more than a day; lower --messages or --interval-ns",
            count(options.messages, "message"),
            options.interval_ns
        ));
    }
    let program = read_program(&options.program)?;
    let load = Load {
        cores: options.cores as usize,
        clients: options.clients as usize,
        messages: options.messages as usize,
        interval: Picos::from_nanos(options.interval_ns),
        payloads: program.payloads,
        context: options.program.context,
        faults: LinkFaults {
            lost_per_mille: options.lost_per_mille,
            seed: options.seed,
        },
        ..Load::default()
    };
    let report = run_load(&program.image, program.memory, &load, &program.costs);
    let result = result_of(&report, &program.costs);
    for fault in &result.faults {
        out::error(&format!("core {}: {}", fault.core, fault.message));
    }
    if options.program.costs.json {
        out::json(&result);
    } else {
        out::text(&result_text(&result));
    }
    if result.answered == 0 && result.faults.is_empty() {
        out::note(NO_ANSWERS);
    }
    Ok(if result.faults.is_empty() {
        Ended::Well
    } else {
        Ended::WithErrors
    })
}

fn result_text(result: &RunResult) -> String {
    let nanos = |value: Option<f64>| value.map_or("none".to_owned(), |v| format!("{v:.3} ns"));
    let Latency { min, p50, p99, max } = result.latency_ns;
    let mut text = format!(
        "model: {} sent, {}\n\
         latency, message to the last bit of the answer: min {}, p50 {}, p99 {}, max {}\n",
        count(result.sent as u64, "message"),
        count(result.answered as u64, "answer"),
        nanos(min),
        nanos(p50),
        nanos(p99),
        nanos(max),
    );
    if let Some(rate) = result.answers_per_second {
        text += &format!("answers: {:.3} M/s\n", rate / 1e6);
    }
    let device = &result.device;
    text += &format!(
        "device: {} messages received, {} acknowledged; {} timeouts, {} given up, {} packets without a buffer, \
         {} for contexts that are not bound, {} removed unread, {} evictions, at most {} a core\n",
        device.messages_received,
        device.messages_sent,
        device.timeouts,
        device.abandoned,
        device.no_buffer,
        device.unbound,
        device.removed,
        device.evictions,
        count(device.most_outstanding, "message"),
    );
    let network = &result.network;
    text += &format!(
        "network: {} packets sent, {} delivered, {} trimmed, {} lost, {} for unknown addresses, {} too many headers\n\n",
        network.sent,
        network.delivered,
        network.trimmed,
        network.lost,
        network.unknown,
        network.overflow,
    );
    let mut head = vec!["core", "instructions", "cycles"];
    head.extend(CycleParts::default().named().iter().map(|(name, _)| *name));
    let rows = result.cores.iter().enumerate().map(|(number, core)| {
        let mut row = vec![
            number.to_string(),
            core.instructions.to_string(),
            core.cycles.to_string(),
        ];
        row.extend(core.parts.iter().map(|(_, cycles)| cycles.to_string()));
        row
    });
    text += &table(&head, rows);
    text += "\n";
    let rows = result.caches.iter().map(|cache| {
        vec![
            cache.name.to_owned(),
            cache.hits.to_string(),
            cache.misses.to_string(),
        ]
    });
    text += &table(&["cache", "hits", "misses"], rows);
    let costs = set_costs_text(&result.costs);
    if !costs.is_empty() {
        text += "\n";
        text += &costs;
    }
    text += OTHER_COSTS;
    text
}

/// Returns a table of the costs that were set, or nothing.
fn set_costs_text(costs: &[CostRow]) -> String {
    let changed = costs.iter().filter(|cost| !cost.is_default);
    let rows: Vec<_> = changed
        .map(|cost| {
            vec![
                cost.name.to_owned(),
                cost.value.to_string(),
                cost.unit.clone(),
            ]
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(&["cost set", "value", "unit"], rows),
    }
}

/// A row of a trace as JSON.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TraceRow {
    /// An executed instruction.
    Instruction {
        cycle: u64,
        pc: String,
        bits: String,
        instruction: String,
        register: Option<String>,
        value: Option<String>,
    },
    /// A message that the program sent.
    Message {
        cycle: u64,
        context: u16,
        peer: Ipv4Addr,
        peer_context: u16,
        payload: String,
    },
    /// The program is done with a message.
    Done { cycle: u64, context: u16 },
    /// The program bound a context.
    Bound { cycle: u64, context: u16 },
    /// The program removed a context.
    Removed {
        cycle: u64,
        context: u16,
        unread: usize,
    },
}

fn instruction_row(record: &TraceRecord) -> TraceRow {
    TraceRow::Instruction {
        cycle: record.cycle,
        pc: format!("{:#x}", record.pc),
        bits: format!("{:08x}", record.bits),
        instruction: record.instruction.assembly(record.pc),
        register: record.written.map(|(reg, _)| reg.to_string()),
        value: record.written.map(|(_, value)| format!("{value:#x}")),
    }
}

fn output_row(cycle: u64, output: &Output) -> TraceRow {
    match output {
        Output::Message(message) => TraceRow::Message {
            cycle,
            context: message.context,
            peer: Ipv4Addr::from(message.peer),
            peer_context: message.peer_context,
            payload: message.bytes.iter().map(|b| format!("{b:02x}")).collect(),
        },
        Output::Done(context) => TraceRow::Done {
            cycle,
            context: *context,
        },
        Output::Bound(context) => TraceRow::Bound {
            cycle,
            context: *context,
        },
        Output::Removed(context, unread) => TraceRow::Removed {
            cycle,
            context: *context,
            unread: *unread,
        },
    }
}

/// Cycles of a trace in which the program is not done with the message.
const TRACE_CYCLES: u64 = 1000;

fn trace(options: &TraceOptions) -> Result<Ended, String> {
    let program = read_program(&options.program)?;
    let [payload] = &program.payloads[..] else {
        return Err("a trace is of one message: give --payload once".to_owned());
    };
    let mut core = SingleCore::new(&program.image, program.memory, &program.costs);
    core.deliver(
        options.at,
        ::nanopu::RpcMessage {
            context: options.program.context,
            peer: DEVICE_ADDRESS + 1,
            peer_context: 0,
            bytes: payload.clone(),
        },
    );
    core.run(options.at.saturating_sub(8));
    core.start_trace();
    let mut outputs = core.run(options.at + options.cycles.unwrap_or(TRACE_CYCLES));
    let mut records = core.take_trace();
    let fault = match core.state() {
        ::nanopu::CoreState::Faulted(fault) => Some(fault),
        _ => None,
    };
    let mut done = outputs.iter().filter(|(_, o)| matches!(o, Output::Done(_)));
    if options.cycles.is_none()
        && fault.is_none()
        && let Some(&(end, _)) = done.next()
    {
        outputs.retain(|(cycle, _)| *cycle <= end);
        records.retain(|record| record.cycle <= end);
    }
    // An output follows the instruction that made it.
    let mut outputs = outputs.iter().peekable();
    let mut records = records.iter().peekable();
    let mut rows = Vec::new();
    loop {
        let next = records.peek().map_or(u64::MAX, |record| record.cycle);
        if let Some((cycle, output)) = outputs.next_if(|(cycle, _)| *cycle < next) {
            match options.program.costs.json {
                true => rows.push(output_row(*cycle, output)),
                false => out::line(&format!("{cycle:>8} {output}")),
            }
        } else if let Some(record) = records.next() {
            match options.program.costs.json {
                true => rows.push(instruction_row(record)),
                false => out::line(&record.to_string()),
            }
        } else {
            break;
        }
    }
    if options.program.costs.json {
        out::json(&rows);
    }
    if let Some(fault) = fault {
        out::error(&fault.to_string());
        return Ok(Ended::WithErrors);
    }
    Ok(Ended::Well)
}

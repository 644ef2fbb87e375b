//! `polyplane hypervisor`: the P4 hypervisor for fixed targets, and functions translated to
//! entries of it (docs/explanation/fixed-target-hypervisor.md).

use std::path::{Path, PathBuf};

use ::hypervisor::{FieldPlace, Hosted, Shape, tables_in_paper, translate};
use clap::{Args, Subcommand, ValueEnum};
use controller::Catalog;
use p4info::p4::v1 as rt;
use p4info::p4::v1::update::Type;
use serde_json::{Value, json};

use crate::args::{Source, limits, read_text};
use crate::{Ended, amount, artefacts, compile, out};

/// Default number of slots, as in the paper's figures.
const SLOTS: u32 = 8;

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the hypervisor as a P4_16 program.
    Emit(Emit),
    /// Print a function as entries of an emitted hypervisor.
    Translate(Translate),
    /// Print how many tables and bits of metadata hypervisors declare, beside the paper's.
    Figures(Figures),
}

#[derive(Args)]
#[command(
    after_help = "The program is the same for all functions: what it runs are its entries, from `polyplane hypervisor translate` with the same numbers of \
                  slots.\n\nExample:\n  polyplane hypervisor emit --slots 8 > hypervisor.p4\n  polyplane check hypervisor.p4"
)]
struct Emit {
    #[command(flatten)]
    slots: Slots,
    /// Target that the program is written for.
    #[arg(long, value_enum, default_value_t)]
    target: Target,
    /// Write it into this file.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Target {
    /// BMv2's simple_switch and what follows it.
    #[default]
    V1model,
}

#[derive(Args)]
struct Slots {
    /// Stage slots, those of the egress among them.
    #[arg(long, value_name = "N", default_value_t = SLOTS, value_parser = clap::value_parser!(u32).range(1..=254))]
    slots: u32,
    /// Slots of the egress [default: a quarter].
    #[arg(long, value_name = "N")]
    egress_slots: Option<u32>,
}

impl Slots {
    fn shape(&self) -> Result<Shape, String> {
        match self.egress_slots {
            None => Ok(Shape::of(self.slots)),
            Some(egress) if egress < self.slots => Ok(Shape {
                ingress: self.slots - egress,
                egress,
            }),
            Some(egress) => Err(format!(
                "--egress-slots {egress} of --slots {} leaves no slot to the ingress; give --slots at least {}",
                self.slots,
                egress.saturating_add(1)
            )),
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "Entries of several functions stand beside each other in one hypervisor: give each a --vpdp and --program-id of its own, and --cells for as many \
                  registers, counters and meters as those before it have. To exchange a function, load the new one as another program of its vPDP and then \
                  change the one entry of `classify`.\n\nExample:\n  polyplane hypervisor emit > hypervisor.p4\n  polyplane hypervisor translate \
                  examples/functions/l2_sw.p4 --entries l2.entries > hosted.entries\n  polyplane run hypervisor.p4 --entries hosted.entries --port 0=eth0 \
                  --port 1=eth1 --engine interp\n\nOn a switch that runs already, of any P4Runtime server:\n  polyplane hypervisor translate \
                  examples/functions/l2_sw.p4 --entries l2.entries | polyplane ctl apply -\n\nExit status: 0 when the function is expressed, 1 when it uses a construct that the hypervisor does not have (it \
                  is named), 2 for wrong usage."
)]
struct Translate {
    #[command(flatten)]
    source: Source,
    /// The entries of the function's tables (docs/reference/entries.md).
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    #[command(flatten)]
    slots: Slots,
    /// The virtual data plane that the function belongs to.
    #[arg(long, value_name = "ID", default_value_t = 1)]
    vpdp: u16,
    /// The function's number within it.
    #[arg(long, value_name = "ID", default_value_t = 1)]
    program_id: u8,
    /// Ports that send their packets to the function; all, if none is given. Give one for each.
    #[arg(long = "port", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(0..=510))]
    ports: Vec<u32>,
    /// Cells of registers, counters and meters that other functions have.
    #[arg(long, value_name = "N", default_value_t = 0)]
    cells: u32,
    /// Print JSON: the entries as objects, and what the function takes.
    #[arg(long)]
    json: bool,
    /// Print a P4Runtime WriteRequest as protobuf text, for your own controller: it fills in
    /// device, role and election id.
    #[arg(long, conflicts_with = "json")]
    write_request: bool,
}

#[derive(Args)]
struct Figures {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    match &options.action {
        Action::Emit(emit) => print(emit),
        Action::Translate(translate) => host(translate),
        Action::Figures(figures) => compare(figures),
    }
}

fn print(options: &Emit) -> Result<Ended, String> {
    let Target::V1model = options.target;
    let text = ::hypervisor::emit(options.slots.shape()?);
    match &options.out {
        None => out::text(&text),
        Some(file) => std::fs::write(file, text)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?,
    }
    Ok(Ended::Well)
}

fn host(options: &Translate) -> Result<Ended, String> {
    let place = FieldPlace {
        vpdp: options.vpdp,
        program: options.program_id,
        shape: options.slots.shape()?,
        cells: options.cells,
    };
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    let updates = match &options.entries {
        Some(file) => updates(&program, file)?,
        None => Vec::new(),
    };
    let hosted = translate(&program, &updates, &place).map_err(|refusal| refusal.text(&program))?;
    if options.write_request {
        out::text(&write_request(&listed(options, &hosted), place.shape)?);
    } else if options.json {
        out::json(&described(options, &hosted));
    } else {
        out::text(&listed(options, &hosted));
    }
    Ok(Ended::Well)
}

/// Converts the statements to a request that inserts them into the emitted program's tables.
fn write_request(statements: &str, shape: Shape) -> Result<String, String> {
    let program = driver::compile_text("hypervisor.p4", &::hypervisor::emit(shape))?;
    let catalog = Catalog::new(artefacts::p4info(&program)?).map_err(|error| error.to_string())?;
    let file = catalog.schema.read("hosted.entries", statements);
    let file = file.map_err(|errors| format!("{}", errors[0]))?;
    let updates = file.updates().iter().map(|update| {
        let entity = catalog.entity(update).map_err(|error| error.to_string())?;
        let kind = match update.target() {
            Some(_) => Type::Insert,
            None => Type::Modify,
        };
        Ok(rt::Update {
            r#type: kind.into(),
            entity: Some(rt::Entity {
                entity: Some(entity),
            }),
        })
    });
    let request = rt::WriteRequest {
        updates: updates.collect::<Result<_, String>>()?,
        ..rt::WriteRequest::default()
    };
    Ok(p4info::to_text(&request))
}

fn updates(program: &ir::Program, file: &Path) -> Result<Vec<entries::Update>, String> {
    let text = read_text(file, limits::ENTRIES)?;
    let name = file.display().to_string();
    let read = entries::read(program, &name, &text).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })?;
    Ok(read.updates().to_vec())
}

/// Returns the statements that assign packets to the function.
fn classified(options: &Translate) -> Vec<String> {
    let assign = format!("assign({}, {})", options.vpdp, options.program_id);
    let entry = |port: String| {
        format!("HypervisorIngress.classify {{ port: {port} }} -> {assign} priority 1")
    };
    match options.ports.is_empty() {
        true => vec![entry("_".to_owned())],
        false => options
            .ports
            .iter()
            .map(|port| entry(port.to_string()))
            .collect(),
    }
}

fn listed(options: &Translate, hosted: &Hosted) -> String {
    let name = options.source.program.display();
    let entries = hosted.entries.iter().map(ToString::to_string);
    let head = format!(
        "# {name}: {}, {}",
        amount::count(hosted.stages as u64, "stage"),
        amount::count(hosted.resubmissions as u64, "resubmission")
    );
    let lines = std::iter::once(head)
        .chain(classified(options))
        .chain(entries);
    let lines: Vec<String> = lines.chain(hosted.statements.iter().cloned()).collect();
    lines.join("\n") + "\n"
}

fn described(options: &Translate, hosted: &Hosted) -> Value {
    let entries = hosted.entries.iter().map(|entry| {
        json!({
            "table": entry.table,
            "keys": entry.keys.iter().map(|(name, key)| (*name, key.to_string())).collect::<std::collections::BTreeMap<_, _>>(),
            "priority": entry.priority,
            "action": entry.action,
            "args": entry.args.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "statement": entry.to_string(),
        })
    });
    let statements = [classified(options), hosted.statements.clone()].concat();
    json!({
        "program": options.source.program.display().to_string(),
        "vpdp": options.vpdp,
        "program_id": options.program_id,
        "stages": hosted.stages,
        "resubmissions": hosted.resubmissions,
        "entries": entries.collect::<Vec<_>>(),
        "statements": statements,
    })
}

/// Header, user and control bits in the paper's figure 8.
const BITS_IN_PAPER: (u32, u32, u32) = (800, 256, 312);

fn compare(options: &Figures) -> Result<Ended, String> {
    let tables: Vec<(u32, u32)> = (1..=SLOTS)
        .map(|slots| (slots, Shape::of(slots).tables()))
        .collect();
    let control = control_bits()?;
    let (header, user, control_in_paper) = BITS_IN_PAPER;
    let total = ::hypervisor::FILE_BITS + control;
    let total_in_paper = header + user + control_in_paper;
    if options.json {
        let tables = tables.iter().map(|(slots, tables)| {
            json!({ "figure": "7b", "slots": slots, "tables": tables, "paper": tables_in_paper(*slots) })
        });
        let bits = json!({ "figure": "8", "header": ::hypervisor::HEADER_BITS, "user": ::hypervisor::USER_BITS, "control": control, "total": total, "paper": total_in_paper });
        out::json(&tables.chain([bits]).collect::<Vec<_>>());
        return Ok(Ended::Well);
    }
    out::line(
        "tables declared (figure 7; however many primitives an action has)\n  slots  here  paper",
    );
    for (slots, tables) in tables {
        out::line(&format!(
            "  {slots:>5}  {tables:>4}  {:>5}",
            tables_in_paper(slots)
        ));
    }
    out::line(&format!(
        "bits of metadata (figure 8)\n           here  paper\n  header   {:>4}  {header:>5}\n  user     {:>4}  {user:>5}\n  control  {control:>4}  {control_in_paper:>5}\n  total    {total:>4}  {total_in_paper:>5}",
        ::hypervisor::HEADER_BITS,
        ::hypervisor::USER_BITS,
    ));
    Ok(Ended::Well)
}

/// Returns the bits of metadata of the emitted program, without those of the register file.
fn control_bits() -> Result<u32, String> {
    let program = driver::compile_text("hypervisor.p4", &::hypervisor::emit(Shape::of(SLOTS)))?;
    let fields = program
        .fields
        .values()
        .filter(|field| field.name.starts_with("meta."));
    let all: u32 = fields.map(|field| field.ty.width()).sum();
    Ok(all - ::hypervisor::FILE_BITS)
}

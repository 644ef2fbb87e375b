//! `polyplane split show`: where a program is cut, and what travels.

use clap::Args;
use passes::split::{CutKind, EPOCH_AT, FrameOption, PhvUse, PivHome, SplitPlan, SplitProgram};
use serde::Serialize;

use super::Cut;
use crate::args::Source;
use crate::{Ended, out};

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    cut: Cut,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Description of a split.
#[derive(Serialize)]
pub(super) struct Shown<'p> {
    cuts: Vec<ShownCut<'p>>,
    /// Places at which packets resume, with their numbers from 1.
    resumes: &'p [String],
    server_stages: &'p [String],
    frame: ShownFrame<'p>,
    phv: ShownPhv<'p>,
    tables: Vec<ShownTable<'p>>,
}

#[derive(Serialize)]
struct ShownCut<'p> {
    number: usize,
    stage: &'p str,
    kind: &'static str,
    name: &'p str,
    /// The switch has no entry of the table.
    always: bool,
}

#[derive(Serialize)]
struct ShownFrame<'p> {
    request_type: u16,
    response_type: u16,
    /// Hash of the program in its frames.
    epoch: u16,
    /// Bytes that a frame is longer than its packet.
    header_bytes: u32,
    parameter_bits: u32,
    /// Bits of all live values, also of those that are computed again.
    live_bits: u64,
    /// Values that are computed again after a cut and do not travel.
    recomputed: Vec<ShownValue<'p>>,
    fields: Vec<ShownField<'p>>,
}

/// A value of the program, and its width in bits.
#[derive(Serialize)]
struct ShownValue<'p> {
    name: &'p str,
    width: u32,
}

/// The values that the switch holds for a packet.
#[derive(Serialize)]
struct ShownPhv<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_bits: Option<u64>,
    /// Bits of the values of the program as it is.
    bits_before: u64,
    /// Bits without those that only the inputs of deferred values need.
    bits_after: u64,
    /// Values that are computed before the cuts and used only after them.
    postponable: Vec<ShownPiv<'p>>,
}

/// A postponable intermediate value. `recomputed`: switch and servers compute it again after a cut.
/// `deferred`: servers compute it, and the switch does not.
#[derive(Serialize)]
struct ShownPiv<'p> {
    name: &'p str,
    width: u32,
    home: &'static str,
    /// Bits of its inputs, and of those that the switch needs in any case.
    input_bits: u64,
    needed_bits: u64,
}

/// A field of frames: its first bit, counted from the frame's start.
#[derive(Serialize)]
struct ShownField<'p> {
    name: &'p str,
    offset: u32,
    width: u32,
}

#[derive(Serialize)]
struct ShownTable<'p> {
    name: &'p str,
    /// `switch`, `servers`, or `both`.
    home: &'static str,
    /// Maximum number of entries in the switch, for a mirrored table.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries_in_switch: Option<u32>,
    /// The switch runs the actions, which have state of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    actions_in_switch: bool,
}

/// The options of frames, with their names.
const OPTIONS: [(FrameOption, &str); 6] = [
    (FrameOption::PayloadIndex, "payload index"),
    (FrameOption::PayloadLength, "payload length"),
    (FrameOption::ResumePoint, "cut or resume point"),
    (FrameOption::Server, "server"),
    (FrameOption::Flow, "flow"),
    (FrameOption::Sequence, "sequence number"),
];

pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let prepared = super::prepare(&options.source, &options.cut.options(), false)?;
    let Some(prepared) = prepared else {
        return Ok(Ended::WithErrors);
    };
    let shown = shown(&prepared.program);
    match options.json {
        true => out::json(&shown),
        false => out::text(&text(&shown)),
    }
    Ok(Ended::Well)
}

pub(super) fn shown(program: &SplitProgram) -> Shown<'_> {
    let SplitPlan {
        cuts,
        resumes,
        mirrored,
        server_stages,
        recomputed,
        live_bits,
        phv,
        frame,
    } = &program.plan;
    let cuts = cuts.iter().zip(1..).map(|(cut, number)| ShownCut {
        number,
        stage: &cut.stage,
        kind: match cut.kind {
            CutKind::Table(_) => "table",
            CutKind::Handler(_) => "handler",
        },
        name: &cut.name,
        always: match cut.kind {
            CutKind::Table(table) => mirrored
                .iter()
                .all(|mirror| mirror.table != table || mirror.entries == 0),
            CutKind::Handler(_) => true,
        },
    });
    let mut fields = vec![
        ShownField {
            name: "load type",
            offset: 112,
            width: 16,
        },
        ShownField {
            name: "epoch",
            offset: EPOCH_AT as u32 * 8,
            width: 16,
        },
    ];
    fields.extend(frame.parameters.iter().map(|parameter| ShownField {
        name: &parameter.name,
        offset: parameter.offset,
        width: parameter.width,
    }));
    if frame.key_width > 0 {
        fields.push(ShownField {
            name: "key of the table",
            offset: frame.key_offset,
            width: frame.key_width,
        });
    }
    fields.extend(OPTIONS.iter().map(|(option, name)| {
        let (at, bytes) = frame.option(*option);
        ShownField {
            name,
            offset: at as u32 * 8,
            width: bytes as u32 * 8,
        }
    }));
    let tables = program.whole.tables.iter().map(|(id, table)| {
        let mirror = mirrored.iter().find(|mirror| mirror.table == id);
        ShownTable {
            name: &table.name,
            home: match mirror {
                None => "switch",
                Some(mirror) if mirror.entries == 0 => "servers",
                Some(_) => "both",
            },
            entries_in_switch: mirror.map(|mirror| mirror.entries),
            actions_in_switch: mirror.is_some_and(|mirror| mirror.is_captured),
        }
    });
    Shown {
        cuts: cuts.collect(),
        resumes,
        server_stages,
        frame: ShownFrame {
            request_type: frame.request_type,
            response_type: frame.response_type,
            epoch: frame.epoch,
            header_bytes: frame.header_bytes,
            parameter_bits: frame.parameter_bits(),
            live_bits: *live_bits,
            recomputed: recomputed
                .iter()
                .map(|(name, width)| ShownValue {
                    name,
                    width: *width,
                })
                .collect(),
            fields,
        },
        phv: shown_phv(phv),
        tables: tables.collect(),
    }
}

fn shown_phv(phv: &PhvUse) -> ShownPhv<'_> {
    let pivs = phv.pivs.iter().map(|piv| ShownPiv {
        name: &piv.name,
        width: piv.width,
        home: match piv.home {
            PivHome::Recomputed => "recomputed",
            PivHome::Deferred => "deferred",
        },
        input_bits: piv.input_bits,
        needed_bits: piv.needed_bits,
    });
    ShownPhv {
        budget_bits: phv.budget_bits,
        bits_before: phv.bits_before,
        bits_after: phv.bits_after,
        postponable: pivs.collect(),
    }
}

fn phv_lines(phv: &ShownPhv<'_>, lines: &mut Vec<String>) {
    let budget = match phv.budget_bits {
        Some(bits) => format!(", its budget is {bits}"),
        None => String::new(),
    };
    let now = match phv.bits_after == phv.bits_before {
        true => String::new(),
        false => format!(" instead of {}", phv.bits_before),
    };
    lines.push(format!(
        "the switch holds {} bits of values for a packet{now}{budget}",
        phv.bits_after
    ));
    if !phv.postponable.is_empty() {
        lines.push("values computed before the cuts and used only after them".to_owned());
    }
    for value in &phv.postponable {
        let ShownPiv {
            name,
            width,
            input_bits,
            needed_bits,
            ..
        } = value;
        lines.push(match value.home {
            "deferred" => format!(
                "  {name}: servers compute it; {input_bits} + {width} bits before, \
                 {needed_bits} + {width} after"
            ),
            _ => format!(
                "  {name}: computed again after a cut; {input_bits} + {width} bits, \
                 {needed_bits} + {width} if servers compute it"
            ),
        });
    }
}

fn text(shown: &Shown<'_>) -> String {
    let mut lines = vec!["cuts: packets leave the switch at".to_owned()];
    for cut in &shown.cuts {
        let when = match cut.always {
            true => "always",
            false => "if the switch has no entry",
        };
        lines.push(format!(
            "  {:3}  {} {} ({when})",
            cut.number, cut.kind, cut.name
        ));
    }
    lines.push("packets resume in the switch at".to_owned());
    for (resume, number) in shown.resumes.iter().zip(1..) {
        lines.push(format!("  {number:3}  {resume}"));
    }
    lines.push(format!("servers run {}", shown.server_stages.join(", ")));
    let frame = &shown.frame;
    lines.push(format!(
        "frames have EtherType {:#06x} to servers and {:#06x} back, the epoch {:#06x}, and {} bytes \
         more than their packets, of which {} bits are values of the program:",
        frame.request_type,
        frame.response_type,
        frame.epoch,
        frame.header_bytes,
        frame.parameter_bits
    ));
    for field in &frame.fields {
        let place = match field.offset % 8 {
            0 => format!("{}", field.offset / 8),
            bit => format!("{}.{bit}", field.offset / 8),
        };
        lines.push(format!(
            "  byte {place:7} {:5} bits  {}",
            field.width, field.name
        ));
    }
    if !frame.recomputed.is_empty() {
        lines.push(format!(
            "computed again after a cut, so that {} bits travel instead of {}:",
            frame.parameter_bits, frame.live_bits
        ));
        for value in &frame.recomputed {
            lines.push(format!("  {:5} bits  {}", value.width, value.name));
        }
    }
    phv_lines(&shown.phv, &mut lines);
    lines.push("tables".to_owned());
    for table in &shown.tables {
        let home = match (table.home, table.entries_in_switch) {
            ("both", Some(entries)) => {
                format!("servers; the switch holds at most {entries} of its entries")
            }
            (home, _) => home.to_owned(),
        };
        let actions = match table.actions_in_switch {
            true => ", and runs its actions",
            false => "",
        };
        lines.push(format!("  {}: {home}{actions}", table.name));
    }
    lines.join("\n") + "\n"
}

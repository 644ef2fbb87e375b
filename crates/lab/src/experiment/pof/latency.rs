//! Figure 6: latencies of three flows, of which those that write fields are in the NIC.

use bench::latency::{Latency, one_by_one};
use offload::{Edit, Override, Step};
use placement::planes::workload::{LATENCY_KERNEL_US, LATENCY_NIC_US};

use super::bed::{Bed, FRAME, Flows, INGRESS, engines, forwarder, udp};
use super::{Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Bars};

/// The flows: their names, entries and the paper's latencies in us.
const FLOWS: [(&str, &str, f64); 3] = [
    (
        "SetField",
        "set_field 240/32=10.2.2.2, calculate_checksum 192/16 112/160; output 1",
        3.99,
    ),
    ("AddField", "add_field 112/32=0x0a0a0908; output 1", 4.00),
    ("Output", "output 1", 55.04),
];

/// Source address of the first flow.
const FIRST: u32 = 0x0202_0201;

/// Packets of a flow, each measured alone.
const PACKETS: u64 = 100_000;

/// Decides which flows are in the NIC, and measures all of them in software.
///
/// # Errors
/// A flow cannot be offloaded, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 6");
    let entries = FLOWS.iter().enumerate().map(|(at, (_, actions, _))| {
        let source = FIRST + at as u32;
        format!("flow add mm/0 match src={source:#x} do {actions}\n")
    });
    let text =
        "table add mm/0 size 16 fields src=208/32\n".to_owned() + &entries.collect::<String>();
    let planes = planes(&text)?;
    let mut bars = [
        (Origin::Measured, "software (jit, measured)", plot::HERE),
        (Origin::Model, "its plane (model)", plot::OTHER),
        (Origin::Paper, "its plane (paper)", plot::PAPER),
    ]
    .map(|(source, name, colour)| {
        let values = Vec::new();
        (
            source,
            Bars {
                name,
                colour,
                values,
            },
        )
    });
    let packets = context.scaled(PACKETS, 1000);
    for (at, ((name, _, paper), is_in_nic)) in FLOWS.iter().zip(&planes).enumerate() {
        context.tell("figure 6", at, FLOWS.len())?;
        let model = match is_in_nic {
            true => LATENCY_NIC_US,
            false => LATENCY_KERNEL_US,
        };
        let plane = if *is_in_nic { "nic" } else { "software" };
        sheet.add(name, Origin::Paper, &[("us", *paper)]);
        sheet.say(name, Origin::Model, "plane", plane);
        sheet.add(name, Origin::Model, &[("us", model.into())]);
        let mut of_jit = 0.0;
        for (engine_name, engine) in engines() {
            let mut switch = forwarder(engine, &text)?;
            let flow = Flows {
                first: FIRST + at as u32,
                count: 1,
            };
            let mut times = one_by_one(&flow, packets, |frame, now| {
                let frames = std::slice::from_mut(frame);
                switch.device().forward(frames, now, |_, _, _| {});
            });
            let Latency { p50, p99 } = Latency::of(&mut times);
            let values = match engine_name {
                "jit" => [("jit us 50 %", p50), ("jit us 99 %", p99)],
                _ => [("interp us 50 %", p50), ("interp us 99 %", p99)],
            };
            sheet.add(name, Origin::Measured, &values);
            if engine_name == "jit" {
                of_jit = p50;
            }
        }
        for ((_, bars), value) in bars.iter_mut().zip([of_jit, model.into(), *paper]) {
            bars.values.push(Some(value));
        }
    }
    let axes = Axes {
        caption: "Figure 6: latency of three flows, selective offload",
        x: "flow",
        y: "us",
    };
    let names = FLOWS.map(|(name, ..)| name.to_owned());
    let svg = plot::bars(&axes, &names, &bars.map(|(_, bars)| bars))?;
    let file = "pof-figure-6.svg";
    let note = "Measured: a packet at a time through the switch in memory, without ports, so this is not the paper's way from wire to wire. \
                Model: tau 1 in the NIC, tau 2 in the kernel, as the paper's section VI has them.";
    Ok(sheet.part(
        "Figure 6: latency of three flows by plane",
        note.to_owned(),
        vec![Picture { file, svg }],
    ))
}

/// Offloads the flows that write fields. Returns for each flow if its frames are the NIC's.
fn planes(text: &str) -> Result<Vec<bool>, String> {
    let mut bed = Bed::new(text)?;
    let frames: Vec<Vec<u8>> = (0..FLOWS.len() as u32)
        .map(|flow| udp(FIRST + flow, FRAME))
        .collect();
    frames.iter().for_each(|frame| bed.observe(frame));
    let reports: Vec<_> = bed.offloader.flows().collect();
    for report in reports {
        let mut steps = report.flow.steps.iter();
        let writes = steps.any(|step| {
            let is_set_or_add =
                |edit: &Edit| matches!(edit, Edit::Set { .. } | Edit::Insert { .. });
            matches!(step, Step::Edit(edit) if is_set_or_add(edit))
        });
        let wanted = match writes {
            true => Override::Always,
            false => Override::Never,
        };
        bed.offloader.set_flow_override(report.id, Some(wanted));
    }
    let commands = bed.decide();
    bed.give(commands);
    bed.settle();
    let now = bed.now;
    let mut process = |frame: &Vec<u8>| bed.nic.process(now, INGRESS, frame).is_some();
    Ok(frames.iter().map(&mut process).collect())
}

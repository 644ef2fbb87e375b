//! Figures 4 and 5: the paper's two flows in the NIC, and frames before and after.

use super::bed::{Bed, FRAME, INGRESS, udp};
use super::tc_target::{TcNic, rule_text};
use super::{Context, Origin, Part, Sheet};

/// A flow of the figures.
struct Example {
    name: &'static str,
    /// Its entry without table and match.
    actions: &'static str,
    source: u32,
    /// Bytes of its frames.
    bytes: usize,
    paper_bytes: Option<f64>,
}

const EXAMPLES: [Example; 3] = [
    Example {
        name: "SetField as printed",
        actions: "set_field 240/32=10.2.2.2; output 1",
        source: 0x0202_0203,
        bytes: FRAME,
        paper_bytes: None,
    },
    Example {
        name: "SetField, checksum",
        actions: "set_field 240/32=10.2.2.2, calculate_checksum 192/16 112/160; output 1",
        source: 0x0202_0203,
        bytes: FRAME,
        paper_bytes: Some(60.0),
    },
    Example {
        name: "AddField",
        actions: "add_field 112/32=0x0a0a0908; output 1",
        source: 0x0202_0202,
        bytes: 124,
        paper_bytes: Some(128.0),
    },
];

/// Offloads the flows, and sends a frame of each.
///
/// # Errors
/// A flow is not offloaded although it has a rule.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figures 4, 5");
    let mut kernel = TcNic::open(&context.options.target)?;
    let mut note = String::new();
    for example in &EXAMPLES {
        let frame = udp(example.source, example.bytes);
        let mut bed = Bed::new(&format!(
            "table add mm/0 size 16 fields src=208/32\n\
             flow add mm/0 match src={:#x} do {}",
            example.source, example.actions
        ))?;
        let flow = bed.flow(&frame)?;
        let model = Origin::Model;
        let rule = match rule_text(&flow) {
            Ok(rule) => rule,
            Err(reason) => {
                sheet.say(example.name, model, "state", "refused");
                note += &format!("{}: no rule: {reason}\n", example.name);
                sheet.say(example.name, model, "reason", &format!("{reason}\n"));
                continue;
            }
        };
        bed.observe(&frame);
        let commands = bed.decide();
        bed.give(commands);
        bed.settle();
        let report = bed.offloader.flows().next().ok_or("there is no flow")?;
        let sent = bed.nic.process(bed.now, INGRESS, &frame);
        let sent = sent.ok_or("the NIC does not process the frame")?;
        let [(_, after)] = &sent[..] else {
            return Err(format!("the NIC sends {} frames", sent.len()));
        };
        let values = [
            ("bytes before", frame.len() as f64),
            ("bytes after", after.len() as f64),
        ];
        sheet.add(example.name, model, &values);
        sheet.say(example.name, model, "state", &report.state.to_string());
        sheet.say(example.name, model, "rule", &rule);
        let (before, after) = (hex(&frame), hex(after));
        // A line end keeps them out of the table.
        sheet.say(example.name, model, "before", &format!("{before}\n"));
        sheet.say(example.name, model, "after", &format!("{after}\n"));
        note += &format!(
            "{}:\n{rule}  before {before}\n  after  {after}\n",
            example.name
        );
        if let Some(bytes) = example.paper_bytes {
            sheet.add(example.name, Origin::Paper, &[("bytes after", bytes)]);
            sheet.say(example.name, Origin::Paper, "state", "in_hw");
        }
        if let Some(kernel) = &mut kernel {
            let (rules, _) = kernel.add(&[&flow])?;
            kernel.remove(&rules)?;
            let state = match rules.iter().all(|rule| rule.in_hardware) {
                true => "in_hw",
                false => "not_in_hw",
            };
            sheet.say(example.name, Origin::Measured, "state", state);
        }
    }
    note +=
        "An address in IPv4 has a checksum, which SetField alone leaves wrong: no rule does that.";
    Ok(sheet.part(
        "Figures 4 and 5: two flows in the NIC, frames before and after",
        note,
        Vec::new(),
    ))
}

/// Returns the bytes of the headers.
fn hex(frame: &[u8]) -> String {
    let bytes = frame.iter().take(46).map(|byte| format!("{byte:02x}"));
    bytes.collect::<Vec<_>>().join(" ")
}

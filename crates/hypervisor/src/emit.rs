//! Emits the hypervisor as P4 text. The fixed parts are in `emit.p4` and `slot.p4`; repeated parts
//! are generated here.

use std::fmt::Write;

use crate::primitive::{BINARY, HASHES};
use crate::shape::{CELLS, REGISTER_CELLS, STEPS, Shape};
use crate::translate::shuffle::MOVES;

/// Returns the program with the slots of this shape.
pub fn emit(shape: Shape) -> String {
    let instances = |control: &str, count: u32| {
        lines((0..count).map(|slot| format!("    {control}({slot}) slot_{slot};")))
    };
    let applies = |count: u32| {
        lines((0..count).map(|slot| format!("        slot_{slot}.apply(hdr, meta, sm);")))
    };
    let slots = [("ingress", "IngressSlot"), ("egress", "EgressSlot")];
    let slot_controls: String = slots
        .map(|(gress, name)| slot_control(gress, name))
        .concat();
    let parts = [
        ("@SLOT_CONTROLS@\n", slot_controls),
        (
            "@INGRESS_INSTANCES@\n",
            instances("IngressSlot", shape.ingress),
        ),
        (
            "@EGRESS_INSTANCES@\n",
            instances("EgressSlot", shape.egress),
        ),
        ("@INGRESS_SLOTS@\n", applies(shape.ingress)),
        ("@EGRESS_SLOTS@\n", applies(shape.egress)),
        ("@STEPS@", STEPS.to_string()),
        ("@SLOTS@", (shape.ingress + shape.egress).to_string()),
        ("@REGISTER_CELLS@", REGISTER_CELLS.to_string()),
        ("@CELLS@", CELLS.to_string()),
        ("@EGRESS_SLOTS@", shape.egress.to_string()),
    ];
    fill(include_str!("emit.p4"), &parts)
}

fn slot_control(gress: &str, name: &str) -> String {
    let is_ingress = gress == "ingress";
    let counters = ["header", "standard", "user", "combined"];
    let counters = counters
        .map(|kind| format!("    direct_counter(CounterType.packets_and_bytes) {kind}_hits;"));
    let applies = (0..STEPS).map(|step| {
        format!("            if (meta.link.steps[{step}:{step}] == 1) {{ step_{step}.apply(); }}")
    });
    let parts = [
        ("@GRESS@", gress.to_owned()),
        (
            "@INSTANCE@",
            if is_ingress {
                INGRESS_INSTANCE
            } else {
                EGRESS_INSTANCE
            }
            .to_owned(),
        ),
        ("@CONTROL@", name.to_owned()),
        ("@COUNTERS@\n", lines(counters.into_iter())),
        ("@SHUFFLE_PARAMETERS@", shuffle_parameters()),
        ("@SHUFFLE_MOVES@\n", shuffle_moves()),
        (
            "@ARITHMETIC@\n",
            lines(BINARY.iter().map(|(name, code)| arithmetic(name, code))),
        ),
        (
            "@HASHES@\n",
            lines(
                HASHES
                    .iter()
                    .map(|(name, algorithm, width)| hash(name, algorithm, *width)),
            ),
        ),
        (
            "@INGRESS_ONLY@\n",
            if is_ingress {
                INGRESS_ONLY.to_owned()
            } else {
                String::new()
            },
        ),
        (
            "@STEP_TABLES@\n",
            lines((0..STEPS).map(|step| step_table(step, is_ingress))),
        ),
        ("@STEP_APPLIES@\n", lines(applies)),
    ];
    fill(include_str!("slot.p4"), &parts)
}

/// The packet's instance type before the hypervisor resubmitted it.
const INGRESS_INSTANCE: &str = "(bit<32>)meta.instance";
const EGRESS_INSTANCE: &str =
    "(sm.instance_type == RESUBMITTED ? (bit<32>)meta.instance : sm.instance_type)";

/// Resubmission and messages to the controller are possible in ingress only.
const INGRESS_ONLY: &str = "
    // The function resubmits the packet: it begins again with what it keeps of its metadata.
    action begin_again(File kept) {
        meta.file = meta.file & kept;
        meta.entering = Entering.BegunAgain;
    }

    action report(bit<8> digest_id, At a, Word a_mask, Word a_value) {
        digest<message_t>(1, { meta.vpdp, meta.program, digest_id, operand(meta.file, a, a_mask, a_value) });
    }
";

fn shuffle_parameters() -> String {
    let each = |number| {
        format!(",\n                   At from_{number}, At to_{number}, File mask_{number}")
    };
    (1..=MOVES).map(each).collect()
}

fn shuffle_moves() -> String {
    let each = |number| {
        format!(
            "        meta.file = (meta.file & ~(mask_{number} << to_{number})) | (((old >> from_{number}) & mask_{number}) << to_{number});"
        )
    };
    lines((1..=MOVES).map(each))
}

fn arithmetic(name: &str, code: &str) -> String {
    format!(
        "
    action {name}(At a, Word a_mask, Word a_value, At b, Word b_mask, Word b_value, At to, Word mask) {{
        Word x = operand(meta.file, a, a_mask, a_value);
        Word y = operand(meta.file, b, b_mask, b_value);
        meta.file = put(meta.file, to, mask, {code});
    }}"
    )
}

fn hash(name: &str, algorithm: &str, width: u32) -> String {
    format!(
        "
    // `base` plus the hash, modulo `limit`, of the data at `at`. `flip` corrects for the zeros
    // before the data.
    action {name}(At at, File data_mask, File flip, At a, Word a_mask, Word a_value, At b, Word b_mask, Word b_value, At to, Word mask) {{
        Word base = operand(meta.file, a, a_mask, a_value);
        Word limit = operand(meta.file, b, b_mask, b_value);
        Word value;
        hash(value, HashAlgorithm.{algorithm}, base, {{ (bit<{width}>)(((meta.file >> at) & data_mask) ^ flip) }}, limit);
        meta.file = put(meta.file, to, mask, value);
    }}"
    )
}

fn step_table(step: usize, is_ingress: bool) -> String {
    let mut actions = vec![
        "set",
        "move",
        "shuffle",
        "reflect",
        "choose",
        "remove",
        "cut_out",
        "send",
        "read_standard",
    ];
    actions.extend(["set_port", "set_group", "set_priority", "drop", "cut"]);
    actions.extend([
        "read_cell",
        "write_cell",
        "count_packet",
        "meter_packet",
        "meter_bytes",
        "draw",
    ]);
    actions.extend(BINARY.iter().map(|(name, _)| *name));
    actions.extend(HASHES.iter().map(|(name, ..)| *name));
    if is_ingress {
        actions.extend(["begin_again", "report"]);
    }
    format!(
        "
    table step_{step} {{
        key = {{
            meta.vpdp       : exact @name(\"vpdp\");
            meta.program    : exact @name(\"program\");
            meta.link.stage : exact @name(\"stage\");
            meta.link.run   : exact @name(\"run\");
        }}
        actions = {{ {}; NoAction; }}
        size = 4096;
    }}",
        actions.join("; ")
    )
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.fold(String::new(), |mut text, item| {
        let _ = writeln!(text, "{item}");
        text
    })
}

fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let fill = |text: String, (mark, part): &(&str, String)| text.replace(mark, part);
    parts.iter().fold(template.to_owned(), fill)
}

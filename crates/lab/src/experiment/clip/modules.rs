//! Table IV: resources of the modules that a split adds to the switch.

use ::bench::split;
use passes::split::ETHERNET_BYTES;
use placement::{GroupOptions, PlacementOptions};

use super::{Context, Origin, Part, Row, head};
use crate::bench::split::Bed;

/// Bits of a counter of the sketch, of a bucket (a server's number) and of a flow's hash.
const COUNTER: f64 = 32.0;
const SERVER: f64 = 16.0;
const FLOW: f64 = 32.0;

/// One module.
struct Module {
    name: &'static str,
    register_bits: f64,
    entries: f64,
    entry_bits: f64,
    hash_bits: f64,
    actions: f64,
    paper: &'static str,
}

/// Computes the sizes of the modules of `snat`.
///
/// # Errors
/// The program cannot be split.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    context.tell("table IV", 0.0)?;
    let function = split::find("snat").ok_or("a function is missing")?;
    let bed = Bed::new(&*function)?;
    let plan = &bed.compiled.split.plan;
    let program = &bed.compiled.split.switch;
    let sketch = PlacementOptions::default().sketch;
    let group = GroupOptions::default();
    // A hash selects one of a power of two.
    let index_bits = |columns: u32| f64::from(columns.next_power_of_two().trailing_zeros());
    let cells = |columns: u32, rows: u32| f64::from(columns) * f64::from(rows);
    let selecting = Module {
        name: "selecting",
        register_bits: cells(sketch.columns, sketch.rows) * COUNTER,
        entries: 0.0,
        entry_bits: 0.0,
        hash_bits: f64::from(sketch.rows) * index_bits(sketch.columns),
        // Count, and report.
        actions: 2.0,
        paper: "crossbar 0.33 %, SRAM 3.75, TCAM 0, VLIW 0.52, hash bits 0.68",
    };
    let filter = group.filter;
    let scalability = Module {
        name: "scalability",
        // Two filters, and the current generation.
        register_bits: 2.0 * cells(filter.columns, filter.rows) + 1.0,
        entries: 2.0 * f64::from(group.buckets) + group.max_pins as f64,
        entry_bits: 2.0 * f64::from(group.buckets) * SERVER
            + group.max_pins as f64 * (FLOW + SERVER),
        hash_bits: FLOW
            + f64::from(filter.rows) * index_bits(filter.columns)
            + index_bits(group.buckets),
        // Note a flow, find it, a bucket of each generation, a pin.
        actions: 5.0,
        paper: "crossbar 0.59 %, SRAM 0.83, TCAM 0, VLIW 2.08, hash bits 1.37",
    };
    let mirrored = plan.mirrored.iter();
    let sizes = mirrored.map(|mirrored| {
        let entries = f64::from(mirrored.entries);
        let key: u32 = mirrored.key_widths.iter().sum();
        let actions = program
            .tables
            .get(mirrored.table)
            .map(|table| &table.actions);
        let params = actions.into_iter().flatten().map(|listed| {
            let action = program.actions.get(listed.action);
            let params = action.into_iter().flat_map(|action| &action.params);
            params.map(|param| param.ty.width()).sum::<u32>()
        });
        (
            entries,
            entries * f64::from(key + params.max().unwrap_or(0)),
        )
    });
    let sizes: Vec<(f64, f64)> = sizes.collect();
    let forwarding = Module {
        name: "forwarding",
        register_bits: 0.0,
        entries: sizes.iter().map(|(entries, _)| entries).sum(),
        entry_bits: sizes.iter().map(|(_, bits)| bits).sum(),
        hash_bits: plan
            .mirrored
            .iter()
            .map(|mirrored| index_bits(mirrored.entries))
            .sum(),
        // Send a request at each cut, and go on at each place.
        actions: (plan.cuts.len() + plan.resumes.len()) as f64,
        paper: "crossbar 1.88 %, SRAM 2.08, TCAM 0.35, VLIW 1.82, hash bits 4.06",
    };
    let mut rows = Vec::new();
    let mut table = vec![head(&[
        "module",
        "register bits",
        "entries",
        "bits of entries",
        "hash bits",
        "actions",
        "paper",
    ])];
    for module in [selecting, scalability, forwarding] {
        let values = [
            ("register_bits", module.register_bits),
            ("entries", module.entries),
            ("entry_bits", module.entry_bits),
            ("hash_bits", module.hash_bits),
            ("actions", module.actions),
        ];
        let mut line = vec![module.name.to_owned()];
        line.extend(values.iter().map(|(_, value)| format!("{value:.0}")));
        line.push(module.paper.to_owned());
        table.push(line);
        let subject = format!("snat, {}", module.name);
        rows.push(Row::new(
            "table IV",
            subject,
            Origin::Model,
            &values,
            module.paper,
        ));
    }
    Ok(Part {
        title: "Table IV: resources of what a split adds to the switch half of snat",
        rows,
        table,
        note: format!(
            "Computed from the default sizes (sketch {}x{}, two filters {}x{}) and the plan of the split, whose frames have {} bytes before the packet. There \
             is no chip here, so there are no percentages.",
            sketch.columns,
            sketch.rows,
            filter.columns,
            filter.rows,
            ETHERNET_BYTES + plan.frame.header_bytes
        ),
        pictures: Vec::new(),
    })
}

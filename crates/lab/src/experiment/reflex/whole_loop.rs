//! Section 4.3: the whole loop in one process, from the report at the sink to the entry in the
//! packets' way, committed by three replicas.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use consensus::{ElementChange, Term};
use interp::Interp;
use nanopu::CostTable;
use packet::Nanos;
use reflex::{
    CommandTarget, ElementAnswer, ElementCounts, ElementIndex, Loops, ManagedElement, Outcome,
    PlaneDriver, ReflexPlane, SourceIndex,
};
use support::quantile::quantile;
use switch::{Device, DeviceConfig};

use super::model::{add_model, loop_ns};
use super::reports::{FROM, LOOPS, five_hops, number};
use super::{Context, Origin, Part, ROUNDS, Sheet, median};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Stack};

/// Adds the row of the model: the sum of the layers (paper, 4.3: latencies are additive).
fn model_row(sheet: &mut Sheet, subject: &str) -> Result<(), String> {
    let micros = |costs: &CostTable| Ok(loop_ns(costs)? / 1e3);
    let sum = micros(&CostTable::default())?;
    let values = [("sum of layers us", sum)];
    add_model(sheet, subject, &values, &micros)
}

/// Samples of an average.
const WINDOW: usize = 10;

/// A program with the table that loops write.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> src; bit<32> dst; bit<8> protocol; bit<16> from; bit<16> to; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action via(bit<9> port) { s.egress_spec = port; }
    action usual() { s.egress_spec = 3; }
    table detour {
        key = {
            hdr.h.src: exact; hdr.h.dst: exact; hdr.h.protocol: exact;
            hdr.h.from: exact; hdr.h.to: exact;
        }
        actions = { via; usual; }
        default_action = usual();
        size = 16384;
    }
    apply { detour.apply(); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// A switch as element, which measures the time of its changes.
struct Timed {
    device: Device,
    element: ManagedElement,
    nanoseconds: Rc<Cell<u64>>,
}

impl CommandTarget for Timed {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        let start = Instant::now();
        let answer = self.element.take(&mut self.device, term, change);
        let taken = start.elapsed().as_nanos() as u64;
        self.nanoseconds.set(self.nanoseconds.get() + taken);
        Some(answer)
    }

    fn counts(&self) -> ElementCounts {
        self.element.counts()
    }
}

/// Times of one loop in ns: report, commit, apply, whole.
type Parts = [f64; 4];

/// Runs loops, each of another flow. Returns the median and 99th percentile of each part.
fn round(loops_count: u32) -> Result<[Parts; 2], String> {
    let text = LOOPS.replace("{flows}", "40000");
    let loops = Loops::read("loops", &text).map_err(|error| error.to_string())?;
    let program = Arc::new(driver::compile_text("loop.p4", PROGRAM)?);
    let device = Device::new(Arc::clone(&program), &Interp, &DeviceConfig::default());
    let device = device.map_err(|error| error.to_string())?;
    let element = ManagedElement::new(&loops, ElementIndex(0), &program);
    let element = element.map_err(|error| error.to_string())?;
    let nanoseconds = Rc::new(Cell::new(0));
    let target: Box<dyn CommandTarget> = Box::new(Timed {
        device,
        element,
        nanoseconds: Rc::clone(&nanoseconds),
    });
    let mut driver = PlaneDriver::new(ReflexPlane::new(loops, Nanos::ZERO), vec![target]);
    // The store elects its leader.
    let mut now = Nanos::from_secs(1);
    driver.run_until(now);
    let mut sequence = 0;
    let mut parts: [Vec<f64>; 4] = Default::default();
    for flow in 0..loops_count {
        let mut normal = five_hops(flow, 500)?;
        let mut alarm = five_hops(flow, 5_000)?;
        for at in 0..=WINDOW {
            sequence += 1;
            now += Nanos(10);
            let payload = if at == WINDOW {
                &mut alarm
            } else {
                &mut normal
            };
            number(payload, sequence);
            nanoseconds.set(0);
            let start = Instant::now();
            driver.receive(now, SourceIndex(0), FROM, payload);
            let received = start.elapsed().as_nanos() as f64;
            driver.step(now);
            let whole = start.elapsed().as_nanos() as f64;
            if at == WINDOW {
                let apply = nanoseconds.get() as f64;
                let times = [received, whole - received - apply, apply, whole];
                for (part, time) in parts.iter_mut().zip(times) {
                    part.push(time);
                }
            }
        }
    }
    let done = driver.plane().decisions().filter(
        |decision| matches!(decision.outcome, Outcome::Made(change) if change.answered.is_some()),
    );
    let done = done.count();
    let applied = driver.element_counts(ElementIndex(0)).applied;
    if done != loops_count as usize || applied != u64::from(loops_count) {
        return Err(format!(
            "{done} of {loops_count} loops are done, {applied} entries applied"
        ));
    }
    let tails = parts
        .each_mut()
        .map(|part| quantile(part, 0.99).unwrap_or(0.0));
    Ok([parts.each_ref().map(|part| median(part)), tails])
}

/// Measures the loop and its parts.
///
/// # Errors
/// A loop is not done, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("section 4.3");
    let count = context.choose(10_000, 200);
    let mut rounds = Vec::new();
    for at in 0..=ROUNDS {
        context.tell("loop", at, ROUNDS + 1)?;
        let found = round(count)?;
        // The first round warms.
        if at > 0 {
            rounds.push(found);
        }
    }
    let names = [
        "report: decode, class, monitor, decision",
        "commit by three replicas, command, answer",
        "apply: entry in the packets' way",
        "whole loop",
    ];
    let of = |kind: usize, part: usize| {
        let values: Vec<f64> = rounds.iter().map(|round| round[kind][part] / 1e3).collect();
        median(&values)
    };
    let mut stacks = Vec::new();
    let colours = [plot::NATIVE, plot::HERE, plot::OTHER];
    for (part, name) in names.into_iter().enumerate() {
        let values = [("median us", of(0, part)), ("p99 us", of(1, part))];
        sheet.add(name, Origin::Measured, &values);
        if let Some(colour) = colours.get(part) {
            let mut stack = Stack::new(name, *colour);
            stack.values.push(of(0, part));
            stacks.push(stack);
        }
    }
    sheet.add(names[3], Origin::Paper, &[("estimated below us", 10.0)]);
    model_row(&mut sheet, names[3])?;
    let sum = of(0, 0) + of(0, 1) + of(0, 2);
    let axes = Axes {
        caption: "Section 4.3: the whole loop",
        x: "",
        y: "median, us",
    };
    let svg = plot::stacks(&axes, &["one process".to_owned()], &stacks)?;
    let note = format!(
        "Measured: one thread, {count} loops of other flows, no wire; medians of {ROUNDS} rounds. The medians of the parts have a sum of {sum:.2} us. \
         Paper: an estimate of all parts but the switch's own."
    );
    let pictures = vec![Picture {
        file: "reflex-loop.svg",
        svg,
    }];
    Ok(sheet.part("Section 4.3: the whole loop", note, pictures))
}

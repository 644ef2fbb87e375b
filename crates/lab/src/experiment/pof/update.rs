//! Figure 7: the rate of a flow in steps of 10 ms while its entry changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos};
use pof::Forwarder;
use support::quantile::quantile;
use switch::Worker;

use super::bed::{self, Bed, FRAME, INGRESS, forwarder, jit, line_mpps, outputs, tracer, udp};
use super::{BURST, Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

/// Length of a step.
const STEP: Duration = Duration::from_millis(10);

/// Time in which the new list comes to packets at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a packet's number, at its end.
const NUMBER: usize = 8;

const SOURCE: u32 = 0x0202_0202;

const TABLE: &str = "table add mm/0 size 16 fields 208/32\n\
                     flow add mm/0 index 0 match 208/32=2.2.2.2 do output 1\n";

/// An entry with the list that the change brings, so that its shape is known before.
const OTHER: &str = "flow add mm/0 index 1 match 208/32=9.9.9.9 do add_field 112/32=1; output 1\n";

const CHANGE: &str =
    "flow modify mm/0 index 0 match 208/32=2.2.2.2 do add_field 112/32=0x0a0a0908; output 1\n";

/// Simulated time between two packets of the model.
const MODEL_INTERVAL: Nanos = Nanos::from_micros(10);

/// Packets by the list that treated them, in each step.
#[derive(Default)]
struct Counted {
    /// By the old and by the new list.
    steps: Vec<[u64; 2]>,
    /// Equal to what neither list makes.
    mixtures: u64,
    lost: u64,
    reordered: u64,
    /// Time of the first packet by the new list.
    first: Option<Duration>,
}

impl Counted {
    fn total(&self, list: usize) -> u64 {
        self.steps.iter().map(|step| step[list]).sum()
    }
}

/// The frame as each list makes it, without the number at its end.
struct Lists([Vec<u8>; 2]);

impl Lists {
    fn new() -> Result<Lists, String> {
        let frame = udp(SOURCE, FRAME);
        let mut made = Vec::new();
        let mut switch = forwarder(std::sync::Arc::new(interp::Interp), TABLE)?;
        for change in ["", CHANGE] {
            bed::apply(&mut switch, change)?;
            let sent = outputs(&mut switch, &frame).pop();
            let (_, mut bytes) = sent.ok_or("the flow's packets are not sent")?;
            bytes.truncate(bytes.len() - NUMBER);
            made.push(bytes);
        }
        let [old, new] = <[Vec<u8>; 2]>::try_from(made).map_err(|_| "two lists")?;
        Ok(Lists([old, new]))
    }

    /// Returns the list that made a frame, and the packet's number.
    fn of(&self, bytes: &[u8]) -> (Option<usize>, u64) {
        let Some((front, number)) = bytes.split_last_chunk::<NUMBER>() else {
            return (None, 0);
        };
        let list = self.0.iter().position(|list| list == front);
        (list, u64::from_be_bytes(*number))
    }
}

/// Measures on `jit`, and simulates with the model NIC.
///
/// # Errors
/// The change is refused, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 7");
    let lists = Lists::new()?;
    let half = Duration::from_secs_f64(context.options.seconds).max(5 * STEP);
    let mut curves = Vec::new();
    let kinds = [
        ("jit, known shape", OTHER, plot::HERE),
        ("jit, new shape", "", plot::NATIVE),
    ];
    for (number, (name, other, colour)) in kinds.into_iter().enumerate() {
        context.tell("figure 7", number, 3)?;
        let switch = forwarder(jit(), &(TABLE.to_owned() + other))?;
        let found = software(switch, &lists, half)?;
        let steps = found.counted.steps.iter();
        let rate = |step: &[u64; 2]| (step[0] + step[1]) as f64 / STEP.as_secs_f64() / 1e6;
        let rates: Vec<f64> = steps.map(rate).collect();
        let middle = (half.as_secs_f64() / STEP.as_secs_f64()) as usize;
        let median = |rates: &[f64]| quantile(&mut rates.to_vec(), 0.5).unwrap_or(0.0);
        let (before, after) = rates.split_at(middle.min(rates.len()));
        let first = found.counted.first.unwrap_or_default();
        let values = [
            ("Mpps before", median(before)),
            ("Mpps after", median(after.get(1..).unwrap_or_default())),
            ("change ms", found.change.as_secs_f64() * 1e3),
            ("first packet ms", first.as_secs_f64() * 1e3),
        ];
        sheet.add(name, Origin::Measured, &values);
        sheet.add(name, Origin::Measured, &counts(&found.counted));
        add_steps(&mut sheet, (name, Origin::Measured), &rates);
        curves.push(curve((name, colour), &rates));
    }
    context.tell("figure 7", 2, 3)?;
    let name = "nic";
    let (counted, first) = model(&lists, half)?;
    let lines = [line_mpps(FRAME), line_mpps(FRAME + 4)];
    let share = |step: &[u64; 2]| {
        let [old, new] = step.map(|packets| packets as f64);
        (old * lines[0] + new * lines[1]) / (old + new).max(1.0)
    };
    let rates: Vec<f64> = counted.steps.iter().map(share).collect();
    let model = Origin::Model;
    let values = [
        ("Mpps before", lines[0]),
        ("Mpps after", lines[1]),
        ("first packet ms", first.0 as f64 / 1e6),
    ];
    sheet.add(name, model, &values);
    sheet.add(name, model, &counts(&counted));
    add_steps(&mut sheet, (name, model), &rates);
    curves.push(curve(("NIC (model)", plot::OTHER), &rates));
    let paper = [("Mpps before", 28.64), ("Mpps after", 26.65)];
    sheet.add(name, Origin::Paper, &paper);
    let ends = [(0.0, 28.64), (rates.len() as f64 * 10.0, 26.65)];
    curves.push(Curve {
        marks: Marks::Crosses,
        name: "NIC (paper)",
        colour: plot::PAPER,
        points: ends.to_vec(),
    });
    let axes = Axes {
        caption: "Figure 7: rate of a flow, AddField at half time",
        x: "ms",
        y: "Mpps",
    };
    let svg = plot::curves_below_legend(&axes, &curves)?;
    let file = "pof-figure-7.svg";
    let note = "Rates are medians of the steps. Measured: one worker at its full rate, which includes making, numbering and checking each packet; a packet by the old list, the new list or neither is known by its bytes. \
                Change: the FlowMod in the switch; first packet: from the FlowMod's arrival to the first packet by the new list. \
                Model: packets of 20 Gbit/s with 24 bytes each beside the frame, one in about 300 of them simulated; the old rule works until the new one is there.";
    Ok(sheet.part(
        "Figure 7: rate over time while an entry changes",
        note.to_owned(),
        vec![Picture { file, svg }],
    ))
}

fn counts(counted: &Counted) -> [(&'static str, f64); 5] {
    [
        ("by old list", counted.total(0) as f64),
        ("by new list", counted.total(1) as f64),
        ("mixtures", counted.mixtures as f64),
        ("lost", counted.lost as f64),
        ("reordered", counted.reordered as f64),
    ]
}

/// Adds a row for each step, without a line in the table.
fn add_steps(sheet: &mut Sheet, (name, source): (&str, Origin), rates: &[f64]) {
    for (step, rate) in rates.iter().enumerate() {
        let values = [("step_ms", step as f64 * 10.0), ("mpps", *rate)];
        sheet.row(&format!("{name}, step"), source, &values);
    }
}

fn curve((name, colour): (&'static str, plotters::style::RGBColor), rates: &[f64]) -> Curve {
    let points = rates.iter().enumerate();
    Curve {
        marks: Marks::Line,
        name,
        colour,
        points: points
            .map(|(step, rate)| (step as f64 * 10.0, *rate))
            .collect(),
    }
}

/// Signals between the thread that forwards and the one that changes the entry.
#[derive(Default)]
struct Signals {
    /// The new list has treated a packet.
    has_new: AtomicBool,
    is_over: AtomicBool,
}

struct Changed {
    counted: Counted,
    /// Time of the FlowMod.
    change: Duration,
}

/// Forwards at full rate on a thread, and changes the entry after `half`.
fn software(mut switch: Forwarder, lists: &Lists, half: Duration) -> Result<Changed, String> {
    let workers = switch.device().workers(1).pop();
    let worker = workers.ok_or("the switch has workers already")?;
    let signals = Signals::default();
    let start = Instant::now();
    let (counted, begin, change) = std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            // If threads cannot be pinned, the results vary more, but are still valid.
            let _ = port::pin_to_core(0);
            count(worker, lists, start, &signals)
        });
        std::thread::sleep(half.saturating_sub(start.elapsed()));
        let begin = start.elapsed();
        let made = bed::apply(&mut switch, CHANGE);
        switch.device().publish();
        let change = start.elapsed() - begin;
        // A busy machine may not run the worker for a while.
        let patience = begin + change + PATIENCE;
        while !signals.has_new.load(Ordering::Acquire) && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The last step is left out, so the new list has another one.
        std::thread::sleep(half.saturating_sub(change).max(2 * STEP));
        signals.is_over.store(true, Ordering::Release);
        let counted = runs.join().map_err(|_| "the worker has failed".to_owned());
        made.and(counted).map(|counted| (counted, begin, change))
    })?;
    let first = counted.first.map(|first| first.saturating_sub(begin));
    let conserved = switch.device().check_conservation();
    conserved.map_err(|error| error.to_string())?;
    let counted = Counted { first, ..counted };
    Ok(Changed { counted, change })
}

/// Makes, forwards and checks packets until they are over. The last step is not whole and left out.
fn count(mut worker: Worker, lists: &Lists, start: Instant, signals: &Signals) -> Counted {
    let template = udp(SOURCE, FRAME);
    let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
    let mut counted = Counted::default();
    let (mut next, mut expected) = (0_u64, 0_u64);
    while !signals.is_over.load(Ordering::Acquire) {
        let at = start.elapsed();
        for frame in &mut frames {
            // The frame has room for a short packet.
            let _ = frame.assign(&template);
            frame.ingress = INGRESS;
            let end = FRAME - NUMBER;
            frame.bytes_mut()[end..].copy_from_slice(&next.to_be_bytes());
            next += 1;
        }
        let step = (at.as_nanos() / STEP.as_nanos()) as usize;
        if counted.steps.len() <= step {
            counted.steps.resize(step + 1, [0; 2]);
        }
        let Counted {
            steps,
            mixtures,
            lost,
            reordered,
            first,
        } = &mut counted;
        worker.forward(&mut frames, Nanos::from(at), |_, frame, _| {
            let (list, number) = lists.of(frame.bytes());
            match list {
                Some(list) => steps[step][list] += 1,
                None => *mixtures += 1,
            }
            if list == Some(1) && first.is_none() {
                *first = Some(start.elapsed());
                signals.has_new.store(true, Ordering::Release);
            }
            match number < expected {
                true => *reordered += 1,
                false => {
                    *lost += number - expected;
                    expected = number + 1;
                }
            }
        });
    }
    counted.lost += next - expected;
    counted.steps.pop();
    counted
}

/// Simulates the flow in the model NIC, and changes its entry at half time. Returns what became of
/// the packets, and the time from the change to the first packet by the new list.
fn model(lists: &Lists, half: Duration) -> Result<(Counted, Nanos), String> {
    let mut bed = Bed::new(TABLE)?;
    let mut frame = udp(SOURCE, FRAME);
    bed.observe(&frame);
    let commands = bed.decide();
    bed.give(commands);
    bed.settle();
    let mut counted = Counted::default();
    let (start, half) = (bed.now, Nanos::from(half));
    let change = start + half;
    let mut first = Nanos::ZERO;
    let mut has_changed = false;
    let mut next = 0_u64;
    while bed.now < change + half {
        if bed.now >= change && !has_changed {
            has_changed = true;
            bed::apply(&mut bed.forwarder, CHANGE)?;
            let tracer = tracer(&bed.forwarder)?;
            bed.offloader.exchange(tracer);
        }
        bed.poll();
        let commands = bed.decide();
        bed.give(commands);
        let at = frame.len() - NUMBER;
        frame[at..].copy_from_slice(&next.to_be_bytes());
        let sent = bed.nic.process(bed.now, INGRESS, &frame);
        let sent = sent.unwrap_or_else(|| outputs(&mut bed.forwarder, &frame));
        let step = ((bed.now.0 - start.0) / Nanos::from(STEP).0) as usize;
        counted.steps.resize(step + 1, [0; 2]);
        counted.lost += u64::from(sent.is_empty());
        for (_, bytes) in sent {
            let (list, number) = lists.of(&bytes);
            match list {
                Some(list) => counted.steps[step][list] += 1,
                None => counted.mixtures += 1,
            }
            counted.reordered += u64::from(number != next);
            if list == Some(1) && first == Nanos::ZERO {
                first = Nanos(bed.now.0 - change.0);
            }
        }
        next += 1;
        bed.now += MODEL_INTERVAL;
    }
    Ok((counted, first))
}

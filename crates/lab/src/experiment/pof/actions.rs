//! Figure 9: rates of one flow over the number of its actions, on POF tables and in P4.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::measure::{Measured, Side, measure as measure_sides};
use bench::{Forward, OnDevice, SentFrames};
use exec::Engine;
use packet::{Frame, Nanos};
use support::quantile::quantile;
use support::tsc_clock::{Clock, time_of_thread};
use switch::{Device, DeviceConfig};

use super::bed::{FRAME, Flows, INGRESS, OnForwarder, engines, forwarder, jit, line_mpps, udp};
use super::open_vswitch::OpenVswitch;
use super::{BURST, Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

/// Source address of the flow.
pub(super) const SOURCE: u32 = 0x0202_0203;

/// Largest number of actions.
pub(super) const MOST: usize = 6;

/// Values of jit, of Open vSwitch, and their ratio.
const BY_PROCESSOR_TIME: [&str; 3] = [
    "jit Mpps by processor time",
    "Open vSwitch Mpps by processor time",
    "jit of Open vSwitch by processor time",
];

/// Kind of actions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    SetField,
    AddField,
}

/// A field that is set: its place in POF, its name in P4, its width and value.
const FIELDS: [(&str, &str, u32, u64); MOST] = [
    ("240/32", "dst", 32, 0x0A02_0202),
    ("0/48", "eth_dst", 48, 0x0200_0000_0005),
    ("48/48", "eth_src", 48, 0x0200_0000_0006),
    ("120/8", "tos", 8, 0x2E),
    ("272/16", "sport", 16, 1000),
    ("288/16", "dport", 16, 2000),
];

/// First field that is inserted; the others count on from it.
const ADDED: u64 = 0x0A0A_0908;

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::SetField => "SetField",
            Kind::AddField => "AddField",
        }
    }

    /// Returns the text of POF's table and flow.
    fn pof(self, count: usize) -> String {
        let actions: Vec<String> = (0..count)
            .map(|at| match self {
                Kind::SetField => format!("set_field {}={:#x}", FIELDS[at].0, FIELDS[at].3),
                Kind::AddField => format!("add_field 112/32={:#x}", ADDED + at as u64),
            })
            .collect();
        let actions = actions.join(", ");
        format!(
            "table add mm/0 size 16 fields src=208/32\n\
             flow add mm/0 match src={SOURCE:#x} do {actions}; output 1"
        )
    }

    /// Returns the P4 text of the same function, and its entry. As in POF, an entry counts packets
    /// and bytes and can have a time-out, and no checksum is written.
    fn p4(self, count: usize) -> (String, String) {
        let mut params = String::new();
        let mut body = String::new();
        let mut values = String::new();
        let mut added = String::new();
        let mut emitted = String::new();
        for (at, (_, name, width, value)) in FIELDS.into_iter().enumerate().take(count) {
            let (width, value) = match self {
                Kind::SetField => {
                    let _ = write!(body, "hdr.ip.{name} = v{at}; ");
                    (width, value)
                }
                Kind::AddField => {
                    let _ = write!(added, "added_t f{at}; ");
                    let _ = write!(body, "hdr.f{at}.setValid(); hdr.f{at}.v = v{at}; ");
                    emitted = format!("p.emit(hdr.f{at}); {emitted}");
                    (32, ADDED + at as u64)
                }
            };
            let _ = write!(params, ", bit<{width}> v{at}");
            let _ = write!(values, ", {value:#x}");
        }
        let (eth, ip) = match self {
            Kind::SetField => ("", "bit<48> eth_dst; bit<48> eth_src; bit<16> eth_type;"),
            Kind::AddField => ("bit<112> all;", ""),
        };
        // Headers have at least a field.
        let (eth_type, eth_header, extract, emit) = match eth {
            "" => (String::new(), "", "", ""),
            fields => (
                format!("header eth_t {{ {fields} }}"),
                "eth_t eth;",
                "p.extract(hdr.eth);",
                "p.emit(hdr.eth);",
            ),
        };
        let text = format!(
            "#include <core.p4>
#include <v1model.p4>
{eth_type}
header added_t {{ bit<32> v; }}
header ip_t {{ {ip} bit<8> vihl; bit<8> tos; bit<80> middle; bit<32> src; bit<32> dst; bit<16> sport; bit<16> dport; }}
struct headers {{ {eth_header} {added} ip_t ip; }}
struct meta {{ }}
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {{
    state start {{ {extract} p.extract(hdr.ip); transition accept; }}
}}
control V(inout headers hdr, inout meta m) {{ apply {{ }} }}
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {{
    direct_counter(CounterType.packets_and_bytes) hits;
    action run(bit<9> port{params}) {{ s.egress_spec = port; {body} }}
    action miss() {{ mark_to_drop(s); }}
    table flows {{
        key = {{ hdr.ip.src: ternary; }}
        actions = {{ run; miss; }}
        default_action = miss();
        counters = hits;
        size = 16;
        support_timeout = true;
    }}
    apply {{ flows.apply(); }}
}}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in headers hdr) {{ apply {{ {emit} {emitted} p.emit(hdr.ip); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
        );
        let entry = format!("flows {{ hdr.ip.src: {SOURCE:#x}; }} -> run(1{values}) priority 1\n");
        (text, entry)
    }
}

/// Returns a device with the P4 program and its entry.
fn p4_device(kind: Kind, count: usize, engine: &dyn Engine) -> Result<Device, String> {
    let (text, entry) = kind.p4(count);
    let program = Arc::new(driver::compile_text("twin.p4", &text)?);
    let device = Device::new(Arc::clone(&program), engine, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    let entries = entries::read(&program, "twin.entries", &entry);
    let entries = entries.map_err(|errors| errors[0].to_string())?;
    apply_entries::apply_file(&mut device, &entries).map_err(|error| error.to_string())?;
    Ok(device)
}

/// Returns the sides: POF on each engine, then P4 on `jit`.
fn sides(kind: Kind, count: usize) -> Result<Vec<Side>, String> {
    let text = kind.pof(count);
    let mut sides = Vec::new();
    for (name, engine) in engines() {
        let forward = Box::new(OnForwarder(forwarder(engine, &text)?));
        let name = name.to_owned();
        sides.push(Side { name, forward });
    }
    let engine = jit();
    sides.push(Side {
        name: "P4 on jit".to_owned(),
        forward: Box::new(OnDevice(p4_device(kind, count, &*engine)?)),
    });
    check(&mut sides)?;
    Ok(sides)
}

/// Checks that all sides make the same of a frame.
///
/// # Errors
/// They do not: a defect.
fn check(sides: &mut [Side]) -> Result<(), String> {
    let mut made = Vec::new();
    for side in sides.iter_mut() {
        let mut frame =
            Frame::from_bytes(&udp(SOURCE, FRAME)).map_err(|error| error.to_string())?;
        frame.ingress = INGRESS;
        let mut out = SentFrames::keeping();
        side.forward
            .forward(std::slice::from_mut(&mut frame), Nanos(1), &mut out);
        made.push((out.take_kept(), side.name.clone()));
    }
    let (first, rest) = made.split_first().ok_or("there is no side")?;
    match rest.iter().find(|(frames, _)| *frames != first.0) {
        Some((frames, name)) => Err(format!(
            "{name} makes {frames:02x?} of a frame, {} makes {:02x?}",
            first.1, first.0
        )),
        None if first.0.len() != 1 => Err("the sides send no frame, or several".to_owned()),
        None => Ok(()),
    }
}

/// Returns the median over the rounds of the rate of one side by that of another.
fn ratio(one: &Measured, other: &Measured) -> f64 {
    let pairs = one.rounds.iter().zip(&other.rounds);
    let mut ratios: Vec<f64> = pairs.map(|(one, other)| one.mpps / other.mpps).collect();
    quantile(&mut ratios, 0.5).unwrap_or(0.0)
}

/// Turns of a side and Open vSwitch.
const TURNS: u32 = 5;

/// Bursts between two looks at the clock.
const BURSTS: usize = 16;

/// Returns million packets a second of this thread's processor time, with the copy of each frame
/// as a port would make it.
///
/// # Errors
/// The system does not report the time.
fn processor_rate(
    side: &mut dyn Forward,
    template: &[u8],
    time: Duration,
) -> Result<f64, &'static str> {
    const NO_TIME: &str = "the system does not report processor times of threads";
    let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
    let mut out = SentFrames::new();
    let mut now = Nanos(1);
    let mut packets = 0;
    let start = Instant::now();
    let had = time_of_thread().ok_or(NO_TIME)?;
    while packets == 0 || start.elapsed() < time {
        for _ in 0..BURSTS {
            for frame in &mut frames {
                // The frame has room for a short packet.
                let _ = frame.assign(template);
                frame.ingress = INGRESS;
            }
            now += Nanos(BURST as u64);
            side.forward(&mut frames, now, &mut out);
            packets += BURST;
            out.flush();
        }
    }
    let took = time_of_thread().ok_or(NO_TIME)?.saturating_sub(had);
    Ok(packets as f64 * 1e3 / took.as_nanos().max(1) as f64)
}

/// Rates by processor time of two sides that take turns, and their ratio.
#[derive(Debug, PartialEq)]
struct Turns {
    /// Medians over the turns.
    mpps: [f64; 2],
    /// Median over the turns of the first side's rate by the second one's.
    ratio: f64,
}

impl Turns {
    /// Measures each side for about this time. A side returns its rate in the time that it gets.
    ///
    /// # Errors
    /// A side fails.
    fn measure(
        time: Duration,
        one: &mut dyn FnMut(Duration) -> Result<f64, String>,
        other: &mut dyn FnMut(Duration) -> Result<f64, String>,
    ) -> Result<Turns, String> {
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..TURNS {
            let (first, second) = (one(time / TURNS)?, other(time / TURNS)?);
            rates[0].push(first);
            rates[1].push(second);
            ratios.push(first / second);
        }
        let median = |values: &mut [f64]| quantile(values, 0.5).unwrap_or(0.0);
        Ok(Turns {
            mpps: rates.map(|mut rates| median(&mut rates)),
            ratio: median(&mut ratios),
        })
    }
}

/// Measures all sides by turns for each number of actions.
///
/// # Errors
/// Sides differ, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 9");
    let clock = Clock::new();
    let plan = context.plan();
    let flow = Flows {
        first: SOURCE,
        count: 1,
    };
    let (open_vswitch, said) = match OpenVswitch::start() {
        Ok(running) => (Some(running), None),
        Err(reason) => (None, Some(reason)),
    };
    let mut pictures = Vec::new();
    for kind in [Kind::SetField, Kind::AddField] {
        let names = ["jit", "interp", "P4 on jit", "Open vSwitch"];
        let mut points = names.map(|_| Vec::new());
        let mut line = Vec::new();
        for count in 1..=MOST {
            context.tell("figure 9", count - 1, MOST)?;
            let subject = format!("{} x {count}", kind.name());
            let mut workers = [sides(kind, count)?];
            let frame = udp(SOURCE, FRAME);
            let found = measure_sides(&mut workers, &flow, &plan, &clock, &mut |_| {});
            let [jit, interp, p4] = &found[..] else {
                return Err("a side is missing".to_owned());
            };
            let values = [
                ("jit Mpps", jit.mpps),
                ("interp Mpps", interp.mpps),
                ("P4 on jit Mpps", p4.mpps),
                ("POF of P4", ratio(jit, p4)),
            ];
            sheet.add(&subject, Origin::Measured, &values);
            let x = count as f64;
            for (points, side) in points.iter_mut().zip([jit, interp, p4]) {
                points.push((x, side.mpps));
            }
            let [sides] = &mut workers;
            let side = sides.first_mut().ok_or("a side is missing")?;
            let mut of_jit = |time| Ok(processor_rate(&mut *side.forward, &frame, time)?);
            let running = match &open_vswitch {
                Some(running) if running.set_flow(kind, count)? => Ok(running),
                Some(_) => Err("no such actions"),
                None => Err("not installed"),
            };
            match running {
                Ok(running) => {
                    let turns =
                        Turns::measure(plan.time, &mut of_jit, &mut |time| running.rate(time))?;
                    let [of_jit, mpps] = turns.mpps;
                    let values = [
                        (BY_PROCESSOR_TIME[0], of_jit),
                        (BY_PROCESSOR_TIME[1], mpps),
                        (BY_PROCESSOR_TIME[2], turns.ratio),
                    ];
                    sheet.add(&subject, Origin::Measured, &values);
                    points[3].push((x, mpps));
                }
                Err(word) => {
                    let values = [(BY_PROCESSOR_TIME[0], of_jit(plan.time)?)];
                    sheet.add(&subject, Origin::Measured, &values);
                    sheet.say(&subject, Origin::Measured, BY_PROCESSOR_TIME[1], word);
                }
            }
            let bytes = match kind {
                Kind::SetField => FRAME,
                Kind::AddField => FRAME + 4 * count,
            };
            sheet.add(&subject, Origin::Model, &[("nic Mpps", line_mpps(bytes))]);
            line.push((x, line_mpps(bytes)));
        }
        let (caption, file, gain) = match kind {
            Kind::SetField => (
                "Figure 9 (a): SetField actions",
                "pof-figure-9a.svg",
                [1.52, 1.94],
            ),
            Kind::AddField => (
                "Figure 9 (b): AddField actions",
                "pof-figure-9b.svg",
                [3.28, 4.78],
            ),
        };
        let [mean, most] = gain;
        let values = [
            ("gain by the NIC, mean", mean),
            ("gain by the NIC, most", most),
        ];
        sheet.add(&format!("{} x 1 to 6", kind.name()), Origin::Paper, &values);
        let colours = [plot::HERE, plot::OTHER, plot::NATIVE, plot::PAPER];
        let labels = [
            "POF on jit (measured)",
            "POF on interp (measured)",
            "P4 on jit (measured)",
            "Open vSwitch (measured, processor time)",
        ];
        let mut curves: Vec<Curve> = labels
            .into_iter()
            .zip(colours)
            .zip(points)
            .filter(|(_, points)| !points.is_empty())
            .map(|((name, colour), points)| Curve {
                marks: Marks::Line,
                name,
                colour,
                points,
            })
            .collect();
        curves.push(Curve {
            marks: Marks::Crosses,
            name: "line of 20 Gbit/s (model)",
            colour: plotters::style::BLACK,
            points: line,
        });
        let axes = Axes {
            caption,
            x: "actions",
            y: "Mpps",
        };
        let svg = plot::curves_below_legend(&axes, &curves)?;
        pictures.push(Picture { file, svg });
    }
    let said = said.map_or(String::new(), |reason| format!(" Open vSwitch: {reason}."));
    let note = format!(
        "Measured: one core, one flow, frames of {FRAME} bytes (64 on the wire) in memory, sides by turns, medians; all sides make the same frame. \
         By processor time: of the thread that forwards, with the copies of the frames; jit and Open vSwitch take {TURNS} turns. \
         P4: the same function as a program with a counter. Model: the NIC sends what a line of 20 Gbit/s offers. \
         Paper: gain of OVS-POF-TC over OVS-POF; the abstract has 3.82 in place of 3.28.{said}"
    );
    Ok(sheet.part("Figure 9: rates over the number of actions", note, pictures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::Bare;

    #[test]
    fn time_in_which_a_thread_does_not_run_is_not_its_processor_time() {
        /// A side that sleeps before each burst.
        struct Sleeping(Bare);

        impl Forward for Sleeping {
            fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
                std::thread::sleep(Duration::from_millis(2));
                self.0.forward(frames, now, out);
            }

            fn readings(&self) -> Vec<bench::Reading> {
                Vec::new()
            }
        }

        let frame = udp(SOURCE, FRAME);
        let found = processor_rate(&mut Sleeping(Bare), &frame, Duration::ZERO).unwrap();
        // By wall clock it is at most 64 packets in 2 ms.
        assert!(found > 2.0 * 0.032, "{found}");
    }

    #[test]
    fn sides_take_turns_and_their_ratio_is_the_median_of_the_turns() {
        let calls = std::cell::RefCell::new(Vec::new());
        let side = |name: char, rates: [f64; TURNS as usize]| {
            let (calls, mut rates) = (&calls, rates.into_iter());
            move |time: Duration| {
                assert_eq!(time, Duration::from_secs(2));
                calls.borrow_mut().push(name);
                rates.next().ok_or_else(|| "too many turns".to_owned())
            }
        };
        let mut one = side('a', [1.0, 2.0, 3.0, 4.0, 50.0]);
        let mut other = side('b', [1.0, 1.0, 1.0, 4.0, 5.0]);
        let found = Turns::measure(Duration::from_secs(10), &mut one, &mut other);
        let expected = Turns {
            mpps: [3.0, 1.0],
            ratio: 2.0,
        };
        assert_eq!(found, Ok(expected));
        assert_eq!(
            calls.into_inner().iter().collect::<String>(),
            "ab".repeat(5)
        );
    }
}

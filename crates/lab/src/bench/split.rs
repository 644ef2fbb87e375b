//! `polyplane bench --split`: the halves of programs over a switch and servers, beside the whole
//! program and loops by hand.

use std::sync::Arc;
use std::time::Duration;

use ::split::{EntryPolicy, SplitPlacement};
use bench::measure::{Measured, Packets, Plan, Side, Traffic, measure};
use bench::split::{
    self, CompiledFunction, Halves, Planes, ServerSide, SplitFunction, SwitchSide, compile, threads,
};
use bench::{Forward, OnDevice, SentFrames, SetupError, configure};
use command::engine::Choice;
use command::handlers::{self, Handlers, engine_with};
use exec::{Configuration, Engine};
use packet::{Batch, Frame, Nanos};
use placement::{PlacementOptions, Policy, SketchSize};
use serde::Serialize;
use support::rng::{Rng, Weighted};
use support::tsc_clock::Clock;
use switch::{Device, DeviceConfig};
use terminal::live::{LiveLine, bar};

use super::BenchOptions;
use super::report::show;

/// Exponent of Zipf's distribution of flows to the halves together.
const ALPHA: f64 = 0.99;

/// Part of the flows that the switch has place for.
const TOP_PART: u32 = 10;

/// Packets of a window, and windows before a measurement.
const WINDOW: usize = 10_000;
const WINDOWS: usize = 15;

/// Packets on which two sides are compared.
const COMPARED: u32 = 2000;

/// Pairs of runs on two threads.
const PAIRS: usize = 5;

/// Names of the sides.
const UNSPLIT: &str = "unsplit";
const HAND: &str = "hand";
const SWITCH: &str = "switch half";
const SERVER: &str = "server half";
const SERVER_HAND: &str = "server half by hand";
const ALL_FLY: &str = "both halves, none";
const THRESHOLD: &str = "both halves, threshold";

/// One side of one function.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    side: String,
    packet_bytes: usize,
    threads: u32,
    mpps: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles_per_packet: Option<f64>,
    mpps_middle_half: (f64, f64),
    /// The side that this one is compared with, its rate relative to that one's, and the aim.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
    /// Share of packets that no server saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_in_switch: Option<f64>,
    /// Cycles in the switch and in servers for each packet that the switch received.
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_cycles: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cycles: Option<f64>,
}

/// Measures the functions with these names.
///
/// # Errors
/// A name is unknown, or two sides of a comparison give different results.
pub(super) fn run(names: &[String], options: &BenchOptions, time: Duration) -> Result<(), String> {
    let mut rows = Vec::new();
    for name in names {
        let function = split::find(name).ok_or_else(|| {
            let known: Vec<&str> = split::ALL.iter().map(|(name, _)| *name).collect();
            format!(
                "there is no built-in split program \"{name}\": there are {}",
                known.join(", ")
            )
        })?;
        rows.extend(Bed::new(&*function)?.measure(options, time)?);
    }
    let head = [
        "program",
        "side",
        "bytes",
        "threads",
        "Mpps",
        "cycles",
        "beside",
        "ratio",
        "aim",
        "in switch",
        "switch cycles",
        "server cycles",
    ];
    show(options.json, head, &rows, line);
    Ok(())
}

fn line(row: &Row) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => String::new(),
    };
    vec![
        row.program.to_owned(),
        row.side.clone(),
        row.packet_bytes.to_string(),
        row.threads.to_string(),
        format!("{:.2}", row.mpps),
        number(row.cycles_per_packet, 1),
        row.beside.unwrap_or_default().to_owned(),
        number(row.ratio, 3),
        number(row.aim, 2),
        number(row.share_in_switch, 3),
        number(row.switch_cycles, 1),
        number(row.server_cycles, 1),
    ]
}

/// A compiled function with its handlers.
pub(crate) struct Bed<'f> {
    pub(crate) function: &'f dyn SplitFunction,
    pub(crate) compiled: CompiledFunction,
    handlers: Handlers,
}

/// Packets of a function: their flows, and their lengths.
pub(crate) struct FlowTraffic<'f> {
    function: &'f dyn SplitFunction,
    weights: Weighted,
    /// Lengths with their frequencies.
    sizes: Vec<(usize, u32)>,
}

impl<'f> FlowTraffic<'f> {
    /// Creates the packets of the first `flows` flows, by Zipf's distribution with this exponent.
    pub(crate) fn new(
        function: &'f dyn SplitFunction,
        flows: u32,
        alpha: f64,
        sizes: &[(usize, u32)],
    ) -> FlowTraffic<'f> {
        let weights: Vec<f64> = (1..=flows)
            .map(|rank| f64::from(rank).powf(-alpha))
            .collect();
        FlowTraffic {
            function,
            weights: Weighted::new(&weights),
            sizes: sizes.to_vec(),
        }
    }
}

impl Traffic for FlowTraffic<'_> {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| {
            let flow = self.weights.choose(&mut choices) as u32;
            let size = choices.weighted(&self.sizes, |(_, weight)| *weight);
            let size = size.map_or(0, |(size, _)| *size);
            self.function
                .packet(flow, size.max(self.function.min_bytes()), frame);
        })
    }
}

/// Frames in random order.
pub(crate) struct Frames(pub(crate) Vec<Vec<u8>>);

impl Traffic for Frames {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| {
            if let Some(bytes) = choices.pick(&self.0) {
                frame.ingress = packet::PortId(0);
                // Cannot fail: the bytes come from a frame.
                let _ = frame.assign(bytes);
            }
        })
    }
}

/// Placement of entries with this policy, with place for `top` of them.
pub(crate) fn placement(policy: Policy, top: u32, alpha: f64) -> SplitPlacement {
    SplitPlacement {
        policy: EntryPolicy::Windows(policy),
        top: Some(top.into()),
        options: PlacementOptions {
            policy,
            top: top.into(),
            sketch: SketchSize {
                columns: 16_384,
                rows: 2,
            },
            k: 2.0 * alpha,
            ..PlacementOptions::default()
        },
        ..SplitPlacement::default()
    }
}

impl<'f> Bed<'f> {
    /// Compiles a function with its C code.
    ///
    /// # Errors
    /// The program or its C code has an error.
    pub(crate) fn new(function: &'f dyn SplitFunction) -> Result<Bed<'f>, String> {
        let compiled = compile(function)?;
        let texts = handlers::texts(compiled.foreign.clone(), None)?;
        let handlers = handlers::compile(&compiled.split.whole, &texts);
        let failed = || format!("{}: the C code cannot be used", function.name());
        Ok(Bed {
            function,
            handlers: handlers.ok_or_else(failed)?,
            compiled,
        })
    }

    /// Returns the engine of the whole program or of the server half, with handlers.
    fn engine(&self, program: &ir::Program, server: u32) -> Result<Box<dyn Engine>, String> {
        let natives = self.handlers.load(program, server);
        let natives = natives.ok_or_else(|| "the C code cannot be loaded".to_owned())?;
        Ok(engine_with(
            Choice::default().engine_before_packets(),
            natives,
        ))
    }

    fn error(&self, error: &SetupError) -> String {
        format!("{}: {error}", self.function.name())
    }

    /// Returns the whole program on one device, with all entries.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub(crate) fn unsplit(&self) -> Result<OnDevice, String> {
        let program = &self.compiled.whole;
        let engine = self.engine(program, 0)?;
        let device = Device::new(Arc::clone(program), &*engine, &DeviceConfig::default());
        let mut device = OnDevice(device.map_err(|error| error.to_string())?);
        let filled = self
            .function
            .setup(program, &mut |item| device.add(item))
            .and_then(|()| self.function.entries(program, &mut |item| device.add(item)));
        filled.map_err(|error| self.error(&error))?;
        Ok(device)
    }

    /// Returns the loop by hand over the tables of the whole program, if there is one.
    ///
    /// # Errors
    /// The entries do not fit.
    pub(crate) fn hand(&self) -> Result<Option<bench::Hand>, String> {
        let program = &self.compiled.whole;
        let configured = configure(program, |setup| {
            self.function.setup(program, setup)?;
            self.function.entries(program, setup)
        });
        let mut tables = configured.map_err(|error| self.error(&error))?;
        let hand = self.function.hand(&mut tables);
        hand.map_err(|error| self.error(&error))
    }

    /// Returns the switch half with the entries of the first `flows` flows.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub(crate) fn switch_half(&self, flows: u32) -> Result<SwitchSide, String> {
        let engine = Choice::default().engine_before_packets();
        let side = SwitchSide::load(self.function, &self.compiled.split, &*engine, flows);
        side.map_err(|error| self.error(&error))
    }

    /// Returns both halves after `WINDOWS` windows of these packets: flows are known, and entries
    /// are where the policy wants them.
    ///
    /// # Errors
    /// A half cannot be loaded.
    pub(crate) fn halves(
        &self,
        placement: SplitPlacement,
        servers: u16,
        traffic: &dyn Traffic,
    ) -> Result<Halves, String> {
        let mut failed = None;
        let mut engine_of = |server: Option<u16>| -> Box<dyn Engine> {
            let plain = || Choice::default().engine_before_packets();
            match server {
                None => plain(),
                Some(number) => match self.engine(&self.compiled.split.server, number.into()) {
                    Ok(engine) => engine,
                    Err(error) => {
                        failed = Some(error);
                        plain()
                    }
                },
            }
        };
        let planes = Planes {
            engine_of: &mut engine_of,
            servers,
        };
        let halves = Halves::new(&self.compiled.split, placement, planes);
        if let Some(error) = failed {
            return Err(error);
        }
        let mut halves = halves?;
        let program = Arc::clone(&self.compiled.whole);
        let filled = self.function.setup(&program, &mut |item| halves.add(item));
        filled.map_err(|error| self.error(&error))?;
        let mut frame = Frame::new();
        let mut now = Nanos(1_000_000);
        let has_handler = self.function.first(0, &mut frame);
        if !has_handler {
            let filled = self
                .function
                .entries(&program, &mut |item| halves.add(item));
            filled.map_err(|error| self.error(&error))?;
        }
        for flow in 0..if has_handler {
            self.function.flows()
        } else {
            0
        } {
            now += Nanos(1000);
            self.function.first(flow, &mut frame);
            halves.run(std::slice::from_mut(&mut frame), now, |_, _| {});
        }
        halves.end_window();
        let mut frames: Vec<Frame> = (0..Batch::DEFAULT).map(|_| Frame::new()).collect();
        for window in 0..WINDOWS {
            let mut packets = traffic.packets(1 << 40 | window as u64);
            for _ in 0..WINDOW / Batch::DEFAULT {
                frames.iter_mut().for_each(&mut packets);
                now += Nanos(1000);
                halves.run(&mut frames, now, |_, _| {});
            }
            halves.end_window();
        }
        halves.cost().clear();
        Ok(halves)
    }

    /// Returns the requests of [`SplitFunction::request`] of all flows.
    ///
    /// # Errors
    /// The switch half cannot be loaded.
    fn requests(&self) -> Result<Vec<Vec<u8>>, String> {
        let packets = (0..self.function.flows()).map(|flow| {
            let mut frame = Frame::new();
            self.function.request(flow, &mut frame);
            frame
        });
        self.requests_of(packets)
    }

    fn requests_of(&self, packets: impl Iterator<Item = Frame>) -> Result<Vec<Vec<u8>>, String> {
        let engine = Choice::default().engine_before_packets();
        let split = &self.compiled.split;
        let requests = split::requests_of(self.function, split, &*engine, packets);
        requests.map_err(|error| self.error(&error))
    }

    /// Returns the requests of the first packets of all flows.
    ///
    /// # Errors
    /// The switch half cannot be loaded.
    pub(crate) fn first_requests(&self) -> Result<Vec<Vec<u8>>, String> {
        let packets = (0..self.function.flows()).map(|flow| {
            let mut frame = Frame::new();
            self.function.first(flow, &mut frame);
            frame
        });
        self.requests_of(packets)
    }

    /// Returns the server half without entries.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub(crate) fn empty_server_half(&self) -> Result<ServerSide, String> {
        let engine = self.engine(&self.compiled.split.server, 0)?;
        let side = ServerSide::load(&self.compiled.split, &*engine, |_, _| Ok(()));
        side.map_err(|error| self.error(&error))
    }

    /// Returns the server half that knows all flows.
    ///
    /// # Errors
    /// It cannot be loaded.
    fn server_half(&self) -> Result<ServerSide, String> {
        let engine = self.engine(&self.compiled.split.server, 0)?;
        let mut frame = Frame::new();
        let has_handler = self.function.first(0, &mut frame);
        let side =
            ServerSide::load(
                &self.compiled.split,
                &*engine,
                |program, setup| match has_handler {
                    true => Ok(()),
                    false => self.function.entries(program, setup),
                },
            );
        let mut side = side.map_err(|error| self.error(&error))?;
        if has_handler {
            let mut out = SentFrames::new();
            for request in self.first_requests()? {
                let frame = Frame::from_bytes(&request);
                let mut frame = frame.map_err(|error| error.to_string())?;
                side.forward(
                    std::slice::from_mut(&mut frame),
                    Nanos(1_000_000_000),
                    &mut out,
                );
            }
        }
        Ok(side)
    }

    /// Returns the loop by hand of the server half over tables like those of `side`.
    fn server_hand(&self, side: &ServerSide) -> Result<Option<bench::Hand>, String> {
        let program = Arc::new(self.compiled.split.server.clone());
        let has_handler = self.function.first(0, &mut Frame::new());
        let configured = configure(&program, |setup| match has_handler {
            true => Ok(()),
            false => self.function.entries(&program, setup),
        });
        let mut tables: Configuration = configured.map_err(|error| self.error(&error))?;
        for (table, learned) in side.device().configuration().learned.iter() {
            let (Some(from), Some(to)) = (learned, &tables.learned[table]) else {
                continue;
            };
            for entry in from.entries() {
                to.restore(&entry).map_err(|error| error.to_string())?;
            }
        }
        let hand = self.function.server_hand(&self.compiled.split, &mut tables);
        hand.map_err(|error| self.error(&error))
    }

    /// Measures all sides.
    fn measure(&self, options: &BenchOptions, time: Duration) -> Result<Vec<Row>, String> {
        let name = self.function.name();
        let bytes = self.function.min_bytes();
        let mut line = LiveLine::new();
        let plan = Plan {
            time,
            burst: options.burst.map_or(Batch::DEFAULT, usize::from),
            seed: 1,
        };
        let mut rows = Vec::new();
        let flows = self.function.flows() / TOP_PART;
        line.show(&format!("{name}: fills tables"));
        let sizes = [(bytes, 1)];
        let hits = FlowTraffic::new(self.function, flows, 0.0, &sizes);
        let mut sides = vec![
            Side {
                name: UNSPLIT.to_owned(),
                forward: Box::new(self.unsplit()?),
            },
            Side {
                name: SWITCH.to_owned(),
                forward: Box::new(self.switch_half(flows)?),
            },
        ];
        self.compare(&mut self.unsplit()?, &mut self.switch_half(flows)?, &hits)?;
        if let Some(hand) = self.hand()? {
            let mut other = self.hand()?;
            if let Some(other) = &mut other {
                self.compare(&mut self.unsplit()?, &mut **other, &hits)?;
            }
            sides.push(Side {
                name: HAND.to_owned(),
                forward: hand,
            });
        }
        let measured = self.run(sides, &hits, &plan, "packets that hit", &mut line);
        for side in &measured {
            let (beside, aim) = match side.name.as_str() {
                SWITCH => (Some(UNSPLIT), Some(0.85)),
                UNSPLIT => (Some(HAND), Some(0.75)),
                _ => (None, None),
            };
            rows.push(self.row(side, bytes, &measured, beside, aim));
        }
        let requests = self.requests()?;
        let bytes = requests.first().map_or(0, Vec::len);
        let requests = Frames(requests);
        let half = self.server_half()?;
        let hand = self.server_hand(&half)?;
        let mut sides = vec![Side {
            name: SERVER.to_owned(),
            forward: Box::new(half),
        }];
        if let Some(hand) = hand {
            let mut half = self.server_half()?;
            if let Some(mut hand) = self.server_hand(&half)? {
                self.compare(&mut half, &mut *hand, &requests)?;
            }
            sides.push(Side {
                name: SERVER_HAND.to_owned(),
                forward: hand,
            });
        }
        let measured = self.run(sides, &requests, &plan, "requests", &mut line);
        for side in &measured {
            let (beside, aim) = match side.name.as_str() {
                SERVER => (Some(SERVER_HAND), Some(0.6)),
                _ => (None, None),
            };
            rows.push(self.row(side, bytes, &measured, beside, aim));
        }
        rows.extend(self.together(&plan, &mut line)?);
        Ok(rows)
    }

    /// Measures both halves together: all packets at servers, and the policy `threshold`.
    fn together(&self, plan: &Plan, line: &mut LiveLine) -> Result<Vec<Row>, String> {
        let name = self.function.name();
        let bytes = self.function.min_bytes();
        let top = self.function.flows() / TOP_PART;
        let traffic = FlowTraffic::new(self.function, self.function.flows(), ALPHA, &[(bytes, 1)]);
        line.show(&format!("{name}: places entries"));
        let none = self.halves(placement(Policy::None, top, ALPHA), 1, &traffic)?;
        let threshold = self.halves(placement(Policy::Threshold, top, ALPHA), 1, &traffic)?;
        let costs = [Arc::clone(none.cost()), Arc::clone(threshold.cost())];
        let sides = [(ALL_FLY, none), (THRESHOLD, threshold)].map(|(name, halves)| Side {
            name: name.to_owned(),
            forward: Box::new(halves),
        });
        let measured = self.run(sides.into(), &traffic, plan, "both halves", line);
        let mut rows: Vec<Row> = Vec::new();
        for (side, cost) in measured.iter().zip(&costs) {
            let beside = (side.name == THRESHOLD).then_some(ALL_FLY);
            let mut row = self.row(side, bytes, &measured, beside, None);
            row.share_in_switch = Some(cost.share_in_switch());
            row.switch_cycles = Some(cost.switch_ticks());
            row.server_cycles = Some(cost.server_ticks());
            rows.push(row);
        }
        let mut none = self.halves(placement(Policy::None, top, ALPHA), 1, &traffic)?;
        let mut threshold = self.halves(placement(Policy::Threshold, top, ALPHA), 1, &traffic)?;
        let mut runs: [Vec<f64>; 2] = Default::default();
        let mut ratios = Vec::new();
        let mut shares = [0.0; 2];
        for pair in 0..PAIRS {
            line.show(&format!(
                "{name}: two threads, pair {} of {PAIRS}",
                pair + 1
            ));
            let mut rates = [0.0; 2];
            for (at, halves) in [&mut none, &mut threshold].into_iter().enumerate() {
                let run = threads::run(halves, &traffic, pair as u64, plan.time / PAIRS as u32)?;
                rates[at] = run.mpps;
                shares[at] = run.share_in_switch;
                runs[at].push(run.mpps);
            }
            ratios.push(rates[1] / rates[0]);
        }
        line.clear();
        let quantile = |values: &[f64], share| {
            support::quantile::quantile(&mut values.to_vec(), share).unwrap_or(0.0)
        };
        for (at, name) in [ALL_FLY, THRESHOLD].into_iter().enumerate() {
            rows.push(Row {
                program: self.function.name(),
                side: name.to_owned(),
                packet_bytes: bytes,
                threads: 2,
                mpps: quantile(&runs[at], 0.5),
                cycles_per_packet: None,
                mpps_middle_half: (quantile(&runs[at], 0.25), quantile(&runs[at], 0.75)),
                beside: (at == 1).then_some(ALL_FLY),
                ratio: (at == 1).then(|| quantile(&ratios, 0.5)),
                aim: (at == 1).then_some(1.3),
                share_in_switch: Some(shares[at]),
                switch_cycles: None,
                server_cycles: None,
            });
        }
        Ok(rows)
    }

    fn run(
        &self,
        sides: Vec<Side>,
        traffic: &dyn Traffic,
        plan: &Plan,
        what: &str,
        line: &mut LiveLine,
    ) -> Vec<Measured> {
        let name = self.function.name();
        let mut tell = |share: f64| {
            if line.is_due() {
                let bar = bar((share * 100.0) as u64, 100, 20);
                line.show(&format!("{name}, {what}: {bar}"));
            }
        };
        let measured = measure(&mut [sides], traffic, plan, &Clock::new(), &mut tell);
        line.clear();
        measured
    }

    fn row(
        &self,
        side: &Measured,
        bytes: usize,
        all: &[Measured],
        beside: Option<&'static str>,
        aim: Option<f64>,
    ) -> Row {
        let other = beside.and_then(|name| all.iter().find(|other| other.name == name));
        let ratio = other.map(|other| ratio(side, other));
        Row {
            program: self.function.name(),
            side: side.name.clone(),
            packet_bytes: bytes,
            threads: 1,
            mpps: side.mpps,
            cycles_per_packet: Some(side.ticks_per_packet),
            mpps_middle_half: side.middle_half,
            beside: beside.filter(|_| ratio.is_some()),
            ratio,
            aim: aim.filter(|_| ratio.is_some()),
            share_in_switch: None,
            switch_cycles: None,
            server_cycles: None,
        }
    }

    /// Compares two sides on packets, and counts that each leaves once.
    fn compare(
        &self,
        first: &mut dyn Forward,
        second: &mut dyn Forward,
        traffic: &dyn Traffic,
    ) -> Result<(), String> {
        let mut packets = traffic.packets(7);
        let mut now = Nanos(2_000_000_000);
        let name = self.function.name();
        for number in 0..COMPARED {
            let mut frame = Frame::new();
            packets(&mut frame);
            let received = frame.bytes().to_vec();
            let mut copy = Frame::new();
            copy.copy_from(&frame);
            now += Nanos(1000);
            let [a, b] = [sent(first, frame, now), sent(second, copy, now)];
            if a.len() != 1 || a != b {
                return Err(format!(
                    "{name}: packet {number} leaves two sides as\n  {a:02x?}\nand as\n  {b:02x?}\n\
                     It came as\n  {received:02x?}"
                ));
            }
        }
        Ok(())
    }
}

/// Returns what a side sends for a packet.
fn sent(side: &mut dyn Forward, mut frame: Frame, now: Nanos) -> Vec<(packet::PortId, Vec<u8>)> {
    let mut out = SentFrames::keeping();
    side.forward(std::slice::from_mut(&mut frame), now, &mut out);
    out.take_kept()
}

/// Returns the median over rounds of the ratio of two sides' rates.
fn ratio(side: &Measured, other: &Measured) -> f64 {
    let rounds = side.rounds.iter().zip(&other.rounds);
    let mut ratios: Vec<f64> = rounds.map(|(a, b)| a.mpps / b.mpps).collect();
    support::quantile::quantile(&mut ratios, 0.5).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_of_each_function_do_the_same() {
        for name in ["snat", "fib", "trd"] {
            let function = split::find(name).expect("the function is known");
            let bed = Bed::new(&*function).expect("it is compiled");
            let flows = function.flows() / TOP_PART;
            let sizes = [(function.min_bytes(), 1)];
            let hits = FlowTraffic::new(&*function, flows, 0.0, &sizes);
            let mut unsplit = bed.unsplit().expect("the program is loaded");
            let mut switch = bed.switch_half(flows).expect("the switch half is loaded");
            let compared = bed.compare(&mut unsplit, &mut switch, &hits);
            compared.expect("the switch half forwards as the program does");
            if let Some(mut hand) = bed.hand().expect("the tables are filled") {
                let mut unsplit = bed.unsplit().expect("the program is loaded");
                let compared = bed.compare(&mut unsplit, &mut *hand, &hits);
                compared.expect("the loop forwards as the program does");
            }
            let requests = Frames(bed.requests().expect("packets leave to the server"));
            let mut half = bed.server_half().expect("the server half is loaded");
            let hand = bed.server_hand(&half).expect("the tables are filled");
            let mut hand = hand.expect("there is a loop");
            let compared = bed.compare(&mut half, &mut *hand, &requests);
            compared.expect("the loop answers as the server half does");
        }
    }
}

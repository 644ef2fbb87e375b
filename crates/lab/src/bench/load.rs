//! Measures the time from a program's text until a vPDP forwards its first packet with it.

use std::sync::Arc;

use bench::load::{LoadTimes, load_times};
use bench::workloads;
use command::Ended;
use exec::Engine;
use interp::Interp;
use jit::Jit;
use serde::Serialize;
use terminal::live::{LiveLine, bar};

use super::{BenchOptions, report};

/// Number of loads of each program.
const ROUNDS: usize = 30;

/// Header types that HyperVDP's functions share.
const HEADERS: &str = include_str!("../../../../examples/functions/headers.p4");

/// The functions of HyperVDP.
const FUNCTIONS: [(&str, &str); 8] = [
    (
        "mac_learn",
        include_str!("../../../../examples/functions/mac_learn.p4"),
    ),
    (
        "l2_sw",
        include_str!("../../../../examples/functions/l2_sw.p4"),
    ),
    (
        "l3_sw",
        include_str!("../../../../examples/functions/l3_sw.p4"),
    ),
    (
        "ip_sg",
        include_str!("../../../../examples/functions/ip_sg.p4"),
    ),
    ("fw", include_str!("../../../../examples/functions/fw.p4")),
    ("qos", include_str!("../../../../examples/functions/qos.p4")),
    (
        "arp_proxy",
        include_str!("../../../../examples/functions/arp_proxy.p4"),
    ),
    (
        "router",
        include_str!("../../../../examples/router/router.p4"),
    ),
];

/// Row of the result table, in milliseconds.
#[derive(Serialize)]
struct Row {
    program: String,
    compile_ms: f64,
    make_ms: f64,
    first_packet_ms: f64,
    load_ms: f64,
    longest_ms: f64,
    second_ms: f64,
    rounds: usize,
}

impl Row {
    fn new(program: &str, times: &LoadTimes) -> Row {
        Row {
            program: program.to_owned(),
            compile_ms: times.compile,
            make_ms: times.make,
            first_packet_ms: times.first_packet,
            load_ms: times.whole,
            longest_ms: times.longest,
            second_ms: times.second,
            rounds: ROUNDS,
        }
    }

    fn cells(&self) -> Vec<String> {
        let times = [
            self.compile_ms,
            self.make_ms,
            self.first_packet_ms,
            self.load_ms,
            self.longest_ms,
            self.second_ms,
        ];
        let times = times.map(|time| format!("{time:.2}"));
        std::iter::once(self.program.clone()).chain(times).collect()
    }
}

const HEAD: [&str; 7] = [
    "program",
    "compile ms",
    "make ms",
    "first packet ms",
    "load ms",
    "longest ms",
    "second ms",
];

/// Returns HyperVDP's functions and a program of 30 tables.
fn programs() -> Result<Vec<(&'static str, String)>, String> {
    let functions = FUNCTIONS.iter();
    let functions =
        functions.map(|(name, text)| (*name, text.replace("#include \"headers.p4\"", HEADERS)));
    let sai = workloads::find("sai").ok_or("there is no workload of this name")?;
    Ok(functions
        .chain([("sai", sai.source().to_owned())])
        .collect())
}

pub(super) fn run(options: &BenchOptions) -> Result<Ended, String> {
    let engine = || Arc::new(Jit::new(Arc::new(Interp))) as Arc<dyn Engine>;
    let mut line = LiveLine::new();
    let mut rows = Vec::new();
    let programs = programs()?;
    for (number, (name, text)) in programs.iter().enumerate() {
        let done = bar(number as u64, programs.len() as u64, 20);
        line.show(&format!("{name}: {done}"));
        let compile =
            |text: &str| driver::compile_text(&format!("{name}.p4"), text).map_err(String::from);
        let times = load_times(text, &compile, &engine, ROUNDS);
        let times = times.map_err(|error| error.to_string())?;
        rows.push(Row::new(name, &times));
    }
    line.clear();
    report::show(options.json, HEAD, &rows, Row::cells);
    Ok(Ended::Well)
}

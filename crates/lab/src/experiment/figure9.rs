//! Figure 9: number of table lookups of a packet, in a native program and in the P4 hypervisor.

use exec::TraceEvent;
use packet::{Nanos, PortId};
use serde::Serialize;
use switch::Device;

use super::emitted::{self, Emitted};
use super::plot::{self, Axes, Bars};
use super::{Figure, Hypervdp, More, Picture, Row, cell, head};

/// A function, its table contents, and a packet that passes all of its tables.
struct Case {
    name: &'static str,
    program: &'static str,
    entries: Entries,
    packet: &'static [&'static [u8]],
    /// The paper's counts for the native program, HyperVDP and Hyper4.
    paper: Option<Counts>,
}

enum Entries {
    Text(&'static str),
    File(&'static str),
}

/// Numbers of table lookups.
#[derive(Clone, Copy, Serialize)]
struct Counts {
    native: u32,
    hypervdp: u32,
    hyper4: u32,
}

const fn counts(native: u32, hypervdp: u32, hyper4: u32) -> Option<Counts> {
    Some(Counts {
        native,
        hypervdp,
        hyper4,
    })
}

const TO_STATION: &[u8] = &[2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 1, 2];
const TO_ROUTER: &[u8] = &[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2];
/// A payload that is not IP.
const NO_IP: &[u8] = &[0x12, 0x34, 0];
/// UDP from 10.0.1.2 to 10.0.2.2.
const DATAGRAM: &[u8] = &[
    0x08, 0x00, 0x45, 0x00, 0x00, 0x20, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x63, 0xc9, 10, 0, 1,
    2, 10, 0, 2, 2, 0x03, 0xe8, 0x00, 0x35, 0x00, 0x0c, 0x00, 0x00, 1, 2, 3, 4,
];
/// ARP request for 10.0.2.2.
const REQUEST: &[u8] = &[
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 1, 2, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1,
    2, 0, 0, 0, 1, 2, 10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 2, 2,
];

const CASES: [Case; 6] = [
    Case {
        name: "Switch",
        program: "functions/policies/pol2.policy",
        entries: Entries::Text(
            "known_source { hdr.ethernet.src: 02:00:00:00:01:02; standard_metadata.ingress_port: 0; } -> NoAction()\n\
             forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(3)",
        ),
        packet: &[TO_STATION, NO_IP],
        paper: counts(2, 5, 13),
    },
    Case {
        name: "Firewall",
        program: "functions/fw.p4",
        entries: Entries::Text("rules { hdr.ipv4.src: 10.0.0.0/8; } -> permit() priority 1"),
        packet: &[TO_STATION, DATAGRAM],
        paper: counts(3, 8, 22),
    },
    Case {
        name: "Router",
        program: "router/router.p4",
        entries: Entries::File("router/router.entries"),
        packet: &[TO_ROUTER, DATAGRAM],
        paper: counts(4, 16, 28),
    },
    Case {
        name: "ARP Proxy",
        program: "functions/arp_proxy.p4",
        entries: Entries::Text(
            "stations { hdr.arp.target_ip: 10.0.2.2; } -> answer(02:00:00:00:02:02)",
        ),
        packet: &[REQUEST],
        paper: counts(4, 10, 48),
    },
    Case {
        name: "L2_SW",
        program: "functions/l2_sw.p4",
        entries: Entries::Text("forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(3)"),
        packet: &[TO_STATION, NO_IP],
        paper: None,
    },
    Case {
        name: "MAC Learn",
        program: "functions/mac_learn.p4",
        entries: Entries::Text(""),
        packet: &[TO_STATION, NO_IP],
        paper: None,
    },
];

/// Measured table lookups of a packet.
#[derive(Serialize)]
pub(super) struct Met {
    native_tables: usize,
    /// Lookups in the P4 hypervisor.
    vpdp_tables: usize,
    paper: Option<Counts>,
}

/// Counts lookups in traces.
///
/// # Errors
/// A function is missing, or the P4 hypervisor does not express it.
pub(super) fn measure(options: &Hypervdp) -> Result<Figure, String> {
    let emitted = Emitted::new()?;
    let met = CASES.iter().map(|case| {
        let met = met(case, options, &emitted);
        met.map_err(|why| format!("figure 9, {}: {why}", case.name))
    });
    let met: Vec<Met> = met.collect::<Result<_, _>>()?;
    let words = [
        "function",
        "native",
        "here",
        "native in the paper",
        "HyperVDP",
        "Hyper4",
    ];
    let mut table = vec![head(&words)];
    table.extend(CASES.iter().zip(&met).map(|(case, met)| line(case, met)));
    let pictures = vec![Picture {
        file: "figure9.svg",
        svg: picture(&met)?,
    }];
    let rows = CASES.iter().zip(met);
    let rows = rows.map(|(case, met)| Row::new("9", case.name, More::Met(met)));
    Ok(Figure {
        title: "Figure 9: tables that a packet meets at run time",
        rows: rows.collect(),
        table,
        note: "Here: in the emitted hypervisor, counted in a trace of one packet. docs/results/fixed-target-hypervisor.md explains the differences.".to_owned(),
        pictures,
    })
}

fn met(case: &Case, options: &Hypervdp, hypervisor: &Emitted) -> Result<Met, String> {
    let program = emitted::program(&options.examples, case.program)?;
    let entries = match case.entries {
        Entries::Text(text) => text.to_owned(),
        Entries::File(name) => {
            let path = options.examples.join(name);
            let read = support::read::read_text(&path, command::args::limits::ENTRIES);
            read.map_err(|error| format!("cannot read {}: {error}", path.display()))?
        }
    };
    let packet = case.packet.concat();
    let updates = emitted::read(&program, &entries)?;
    let mut native = emitted::with_updates(&program, &updates)?;
    let mut hosted = hypervisor.host(&program, &updates)?;
    Ok(Met {
        native_tables: lookups(&mut native, &packet)?,
        vpdp_tables: lookups(&mut hosted, &packet)?,
        paper: case.paper,
    })
}

/// Returns the number of table lookups of a packet. Fails if the packet is dropped, because it
/// then did not pass the whole function.
fn lookups(device: &mut Device, packet: &[u8]) -> Result<usize, String> {
    let mut events: Vec<TraceEvent> = Vec::new();
    let traced = device.trace(PortId(0), packet, Nanos::from_millis(1), &mut events);
    traced.map_err(|error| error.to_string())?;
    let mut sent = 0;
    device.drain_sent(|_, _, _| sent += 1);
    if sent == 0 {
        return Err("the packet is dropped".to_owned());
    }
    let lookups = events
        .iter()
        .filter(|event| matches!(event, TraceEvent::Lookup { .. }));
    Ok(lookups.count())
}

fn line(case: &Case, met: &Met) -> Vec<String> {
    let paper = |count: fn(Counts) -> u32| cell(met.paper.map(count));
    vec![
        case.name.to_owned(),
        met.native_tables.to_string(),
        met.vpdp_tables.to_string(),
        paper(|counts| counts.native),
        paper(|counts| counts.hypervdp),
        paper(|counts| counts.hyper4),
    ]
}

fn picture(met: &[Met]) -> Result<String, String> {
    let axes = Axes {
        caption: "Tables that a packet meets",
        x: "",
        y: "tables",
    };
    let groups: Vec<String> = CASES.iter().map(|case| case.name.to_owned()).collect();
    let paper = |count: fn(Counts) -> u32| {
        let counts = met.iter().map(|met| met.paper.map(count).map(f64::from));
        counts.collect()
    };
    let kinds = [
        Bars {
            name: "native",
            colour: plot::NATIVE,
            values: met
                .iter()
                .map(|met| Some(met.native_tables as f64))
                .collect(),
        },
        Bars {
            name: "here",
            colour: plot::HERE,
            values: met.iter().map(|met| Some(met.vpdp_tables as f64)).collect(),
        },
        Bars {
            name: "HyperVDP",
            colour: plot::PAPER,
            values: paper(|counts| counts.hypervdp),
        },
        Bars {
            name: "Hyper4",
            colour: plot::OTHER,
            values: paper(|counts| counts.hyper4),
        },
    ];
    plot::bars(&axes, &groups, &kinds)
}

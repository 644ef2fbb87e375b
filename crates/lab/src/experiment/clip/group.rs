//! Figure 6: changes of the group of servers under traffic.

use ::bench::split::ports::{FIRST_PORT, PROGRAM};
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitOptions, SplitProgram};
use placement::{GroupOptions, Policy, ServerId, SketchSize};
use split::{EntryPolicy, LocalOptions, LocalSplit, SplitPlacement, Window};
use support::rng::Rng;
use switch::PacketProcessor;

use super::{Context, Origin, Part, Row, head};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, HERE, Marks, NATIVE, OTHER, PAPER};

/// Length of an interval of the figure.
const BIN: Nanos = Nanos::from_millis(100);

/// Flows of a set; the second one has few heavy ones.
const SET_FLOWS: [u32; 4] = [1000, 10, 1000, 1000];

/// Start and end of each set, the changes of the group, and the end, in seconds.
const STARTS: [u64; 4] = [1, 3, 15, 16];
const ENDS: [u64; 4] = [31, 45, 45, 45];
const FIRST_CHANGE: u64 = 15;
const SECOND_CHANGE: u64 = 36;
const END: u64 = 45;

/// Packets a second of a set in the paper.
const RATE: f64 = 1e6;

/// Part of this rate that is simulated at scale 1.
const RATE_PART: f64 = 0.1;

/// Churn: flows, changes, seconds, and packets a second.
const CHURN_FLOWS: u32 = 100_000;
const CHURN_CHANGES: u64 = 20;
const CHURN_SECONDS: u64 = 10;
const CHURN_RATE: f64 = 1e6;
const CHURN_SERVERS: u16 = 4;

/// Frames that the switch gets at once.
const BURST: usize = 32;

/// Simulates the figure, and many changes in a row.
///
/// # Errors
/// The program cannot run, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut rows = Vec::new();
    let mut table = vec![head(&["measure", "value", "paper"])];
    let pictures = figure(context, &mut rows, &mut table)?;
    churn(context, &mut rows, &mut table)?;
    Ok(Part {
        title: "Figure 6: changes of the group of servers",
        rows,
        table,
        note: "Simulated: a switch and its servers in one process, without the times of links and servers. At 36 s the switch gets place for \
               ten entries, and the heavy flows of set 2 move there. Packets a second are --scale of what the rows say at scale 1."
            .to_owned(),
        pictures,
    })
}

fn split_program(text: &str) -> Result<SplitProgram, String> {
    let program = driver::compile_text("ports.p4", text)?;
    let split = passes::split::split(&program, &SplitOptions::default());
    split.map_err(|error| error.to_string())
}

/// Starts a switch with one server and others that can join.
fn start(
    context: &Context<'_>,
    text: &str,
    entries: &str,
    spare_servers: u16,
    group: GroupOptions,
) -> Result<LocalSplit, String> {
    let program = split_program(text)?;
    let choice = context.options.choice;
    let options = LocalOptions {
        servers: 1,
        spare_servers,
        placement: placement(Policy::None, 0),
        group,
        request_port: SplitOptions::default().request_port,
        ..LocalOptions::default()
    };
    let made = LocalSplit::new(&program, &options, |_| choice.engine_before_packets());
    let mut made = made.map_err(|error| error.to_string())?;
    let whole = made.coordinator_mut().whole_mut();
    let program = std::sync::Arc::clone(whole.program());
    let entries = entries::read(&program, "ports.entries", entries);
    let entries = entries.map_err(|errors| errors[0].to_string())?;
    apply_entries::apply_file(whole, &entries).map_err(|error| error.to_string())?;
    made.propagate();
    Ok(made)
}

fn placement(policy: Policy, top: u64) -> SplitPlacement {
    SplitPlacement {
        policy: EntryPolicy::Windows(policy),
        window: Window::Time(Nanos::from_millis(500)),
        top: Some(top),
        ..SplitPlacement::default()
    }
}

/// Writes the packet of a flow.
fn packet(address: u32, port: u32, frame: &mut Frame) {
    const LENGTH: usize = 60;
    frame.ingress = PortId(0);
    // Cannot fail: the frame is short.
    let Ok(bytes) = frame.make_space(LENGTH) else {
        return;
    };
    bytes.fill(0);
    bytes[12] = 0x08;
    bytes[14] = 0x45;
    bytes[23] = 17;
    bytes[26..30].copy_from_slice(&address.to_be_bytes());
    bytes[34..36].copy_from_slice(&(port as u16).to_be_bytes());
}

/// Packets of an interval: of each server, of the switch, and of all that left.
#[derive(Clone, Copy, Default)]
struct Bin {
    servers: [u64; 2],
    switch: u64,
    left: u64,
    offered: u64,
}

fn figure(
    context: &mut Context<'_>,
    rows: &mut Vec<Row>,
    table: &mut Vec<Vec<String>>,
) -> Result<Vec<Picture>, String> {
    let entries: String = (FIRST_PORT..FIRST_PORT + SET_FLOWS.iter().sum::<u32>())
        .map(|port| format!("ports {{ hdr.udp.src: {port}; }} -> to_port(1)\n"))
        .collect();
    let mut made = start(context, PROGRAM, &entries, 1, GroupOptions::default())?;
    let rate = RATE * RATE_PART * context.options.scale;
    let count = (END * 1_000_000_000 / BIN.0) as usize;
    let mut bins = vec![Bin::default(); count];
    let mut choices = Rng::new(1);
    let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
    let mut due = [0.0f64; 4];
    // Servers of each set, before and after the first change.
    let mut changes = Vec::new();
    const STEP: Nanos = Nanos::from_millis(1);
    let mut now = Nanos::ZERO;
    let mut known = [0; 2];
    while now < Nanos::from_secs(END) {
        let second = now.as_secs_f64();
        if now.0.is_multiple_of(BIN.0) {
            context.tell("figure 6", second / END as f64 * 0.6)?;
        }
        let error = |error: placement::GroupError| error.to_string();
        if now == Nanos::from_secs(FIRST_CHANGE) {
            changes.push(made.join(ServerId(1)).map_err(error)?);
            changes.push(made.leave(ServerId(0)).map_err(error)?);
        }
        if now == Nanos::from_secs(SECOND_CHANGE) {
            let top = placement(Policy::Heap, SET_FLOWS[1].into());
            made.set_placement(&top)
                .map_err(|error| error.to_string())?;
        }
        let bin = &mut bins[(now.0 / BIN.0) as usize];
        let mut burst = 0;
        let mut first = FIRST_PORT;
        let send = |made: &mut LocalSplit, frames: &mut [Frame], bin: &mut Bin| {
            let before = made.switch().requests().sent();
            bin.offered += frames.len() as u64;
            made.forward(frames, now, |_, _, _| bin.left += 1);
            let requests = made.switch().requests().sent() - before;
            bin.switch += frames.len() as u64 - requests;
        };
        for (set, flows) in SET_FLOWS.into_iter().enumerate() {
            let is_on = (STARTS[set]..ENDS[set]).contains(&(now.0 / 1_000_000_000));
            due[set] += if is_on {
                rate * STEP.as_secs_f64()
            } else {
                0.0
            };
            while due[set] >= 1.0 {
                due[set] -= 1.0;
                let port = first + choices.below(flows.into()) as u32;
                packet(0x0a00_0001, port, &mut frames[burst]);
                burst += 1;
                if burst == BURST {
                    send(&mut made, &mut frames, bin);
                    burst = 0;
                }
            }
            first += flows;
        }
        send(&mut made, &mut frames[..burst], bin);
        for (number, known) in known.iter_mut().enumerate() {
            let all = made.server_requests(ServerId(number as u16));
            bin.servers[number] += all - *known;
            *known = all;
        }
        now += STEP;
    }
    let mbins = |of: &dyn Fn(&Bin) -> u64| -> Vec<(f64, f64)> {
        let seconds = BIN.as_secs_f64();
        let points = bins.iter().enumerate();
        // The last interval before the end of a second's traffic is whole.
        points
            .map(|(at, bin)| (at as f64 * seconds, of(bin) as f64 / seconds / rate))
            .collect()
    };
    let series: [(&'static str, _, Vec<(f64, f64)>); 4] = [
        ("server 1", HERE, mbins(&|bin| bin.servers[0])),
        ("server 2", PAPER, mbins(&|bin| bin.servers[1])),
        ("switch", NATIVE, mbins(&|bin| bin.switch)),
        ("all", OTHER, mbins(&|bin| bin.left)),
    ];
    let mean = |points: &[(f64, f64)], from: f64, to: f64| {
        let own = points.iter().filter(|(time, _)| (from..to).contains(time));
        let own: Vec<f64> = own.map(|(_, value)| *value).collect();
        own.iter().sum::<f64>() / own.len().max(1) as f64
    };
    let deviation = bins
        .iter()
        .filter(|bin| bin.offered > 0)
        .map(|bin| (bin.left as f64 / bin.offered as f64 - 1.0).abs() * 100.0)
        .fold(0.0, f64::max);
    let phases = [
        ("before the change", 4.0, 15.0, "server 1 has sets 1 and 2"),
        (
            "after the change",
            17.0,
            31.0,
            "sets 1 and 2 stay at server 1, 3 and 4 go to server 2",
        ),
        ("set 1 has ended", 32.0, 36.0, "server 1 has set 2"),
        (
            "place in the switch",
            38.0,
            45.0,
            "set 2 is in the switch, 3 and 4 stay at server 2",
        ),
    ];
    for (name, from, to, paper) in phases {
        let values = [0, 1, 2, 3].map(|at| {
            let names = ["server_1_sets", "server_2_sets", "switch_sets", "all_sets"];
            (names[at], mean(&series[at].2, from, to))
        });
        table.push(vec![
            format!("{name}, in sets"),
            format!(
                "server 1 {:.2}, server 2 {:.2}, switch {:.2}, all {:.2}",
                values[0].1, values[1].1, values[2].1, values[3].1
            ),
            paper.to_owned(),
        ]);
        rows.push(Row::new(
            "figure 6",
            name,
            Origin::Simulated,
            &values,
            paper,
        ));
    }
    let pinned: usize = changes.iter().map(|change| change.pinned).sum();
    let lost = bins.iter().map(|bin| bin.offered - bin.left).sum::<u64>();
    let values = [
        ("packets_a_second_of_a_set", rate),
        ("largest_deviation_percent", deviation),
        ("pinned_flows", pinned as f64),
        ("lost", lost as f64),
    ];
    table.push(vec![
        "whole run".to_owned(),
        format!(
            "{rate:.0} packets a second of a set; an interval deviates at most {deviation:.2} %; {pinned} flows pinned; {lost} packets lost"
        ),
        "overall throughput fluctuates very slightly".to_owned(),
    ]);
    let paper = "overall throughput fluctuates very slightly; 1 Mpps of a set";
    rows.push(Row::new(
        "figure 6",
        "whole run",
        Origin::Simulated,
        &values,
        paper,
    ));
    let axes = Axes {
        caption: "Figure 6: change of the group at 15 s, end of set 1 at 31 s, place in the switch at 36 s",
        x: "s",
        y: "rate in sets (1 Mpps in the paper)",
    };
    let curves: Vec<Curve> = series
        .into_iter()
        .map(|(name, colour, points)| Curve {
            marks: Marks::Line,
            name,
            colour,
            points,
        })
        .collect();
    Ok(vec![Picture {
        file: "clip-figure-6.svg",
        svg: plot::curves(&axes, &curves)?,
    }])
}

/// Simulates twenty joins and leaves in ten seconds.
fn churn(
    context: &mut Context<'_>,
    rows: &mut Vec<Row>,
    table: &mut Vec<Vec<String>>,
) -> Result<(), String> {
    // Flows are source addresses.
    let text = PROGRAM.replace("hdr.udp.src : exact", "hdr.ipv4.src : lpm");
    let entries = "ports { hdr.ipv4.src: 10.0.0.0/8; } -> to_port(1)\n";
    let group = GroupOptions {
        filter: SketchSize {
            columns: 1 << 22,
            rows: 2,
        },
        max_pins: 1 << 18,
        ..GroupOptions::default()
    };
    let mut made = start(context, &text, entries, CHURN_SERVERS - 1, group)?;
    let rate = CHURN_RATE * context.options.scale;
    const STEP: Nanos = Nanos::from_millis(1);
    let mut choices = Rng::new(2);
    let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
    let mut seen = vec![false; CHURN_FLOWS as usize];
    let count = (CHURN_SECONDS * 1_000_000_000 / BIN.0) as usize;
    let mut bins = vec![(0u64, 0u64); count];
    let mut due = 0.0;
    let mut now = Nanos::ZERO;
    let mut is_member = [true, false, false, false];
    let (mut joins, mut leaves, mut waited, mut pinned) = (0, 0, 0, 0usize);
    let gap = CHURN_SECONDS * 1_000_000_000 / (CHURN_CHANGES + 1);
    let mut next_change = gap;
    while now < Nanos::from_secs(CHURN_SECONDS) {
        if now.0.is_multiple_of(BIN.0) {
            let share = now.as_secs_f64() / CHURN_SECONDS as f64;
            context.tell("figure 6, churn", 0.6 + share * 0.4)?;
        }
        if made.switch().requests().group().is_changing {
            let change = made.complete_change().map_err(|error| error.to_string())?;
            waited += 1;
            pinned += change.pinned;
        } else if now.0 >= next_change && joins + leaves < CHURN_CHANGES {
            next_change += gap;
            let members = is_member.iter().filter(|is_in| **is_in).count();
            let candidates: Vec<usize> = (0..is_member.len())
                .filter(|&server| members > 1 || !is_member[server])
                .collect();
            let server = candidates[choices.index(candidates.len())];
            let id = ServerId(server as u16);
            let change = match is_member[server] {
                true => made.leave(id),
                false => made.join(id),
            };
            let change = change.map_err(|error| error.to_string())?;
            pinned += change.pinned;
            match is_member[server] {
                true => leaves += 1,
                false => joins += 1,
            }
            is_member[server] ^= true;
        }
        due += rate * STEP.as_secs_f64();
        let bin = &mut bins[(now.0 / BIN.0) as usize];
        while due >= 1.0 {
            let burst = BURST.min(due as usize);
            due -= burst as f64;
            for frame in &mut frames[..burst] {
                let flow = choices.below(CHURN_FLOWS.into()) as u32;
                seen[flow as usize] = true;
                packet(0x0a00_0000 + flow, 4000, frame);
            }
            bin.0 += burst as u64;
            made.forward(&mut frames[..burst], now, |_, _, _| bin.1 += 1);
        }
        now += STEP;
    }
    // Each flow is known by one server, unless a packet went to another one.
    let mut known: Vec<u32> = (0..CHURN_SERVERS)
        .flat_map(|server| made.flows_of(ServerId(server)))
        .collect();
    let all = known.len();
    known.sort_unstable();
    known.dedup();
    let strays = all - known.len();
    let flows = seen.iter().filter(|seen| **seen).count();
    let offered: u64 = bins.iter().map(|bin| bin.0).sum();
    let left: u64 = bins.iter().map(|bin| bin.1).sum();
    let deviation = bins
        .iter()
        .map(|(offered, left)| (*left as f64 / (*offered).max(1) as f64 - 1.0).abs() * 100.0)
        .fold(0.0, f64::max);
    let balanced = made.check_conservation();
    balanced.map_err(|error| format!("the packets of planes do not balance: {error:?}"))?;
    let values = [
        ("joins", joins as f64),
        ("leaves", leaves as f64),
        ("flows", flows as f64),
        ("packets", offered as f64),
        ("packets_a_second", rate),
        ("lost", (offered - left) as f64),
        ("flows_at_two_servers", strays as f64),
        ("largest_deviation_percent", deviation),
        ("pinned_flows", pinned as f64),
        ("waits", waited as f64),
    ];
    table.push(vec![
        format!("{joins} joins and {leaves} leaves in {CHURN_SECONDS} s"),
        format!(
            "{flows} flows, {offered} packets: {} lost, {strays} flows at a server that did not know them, an interval deviates at most {deviation:.2} %, {pinned} pins",
            offered - left
        ),
        "-".to_owned(),
    ]);
    rows.push(Row::new(
        "figure 6",
        "many changes in a row",
        Origin::Simulated,
        &values,
        "not in the paper",
    ));
    Ok(())
}

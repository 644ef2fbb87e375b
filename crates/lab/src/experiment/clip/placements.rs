//! Figures 7 to 9: reports, and rates of switch and servers, by policy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use placement::{Nesting, Policy};

use super::simulated::{self, Case, FLOWS, Keys, Outcome};
use super::{Context, Number, Origin, Part, Row, head};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, HERE, Marks, NATIVE, OTHER, PAPER, Stack};

/// Exponents of Zipf's distribution.
const ALPHAS: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

/// Bytes of a report beside its key: a count.
const COUNT_BYTES: f64 = 4.0;

/// The paper's names of the policies.
pub(super) fn letter(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "BL",
        Policy::Random => "R",
        Policy::Heap => "H",
        Policy::Threshold => "T",
    }
}

pub(super) fn colour(policy: Policy) -> plotters::style::RGBColor {
    match policy {
        Policy::None => OTHER,
        Policy::Random => PAPER,
        Policy::Heap => NATIVE,
        Policy::Threshold => HERE,
    }
}

/// Simulates cases on all cores, and returns their results in order.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn simulate(
    context: &mut Context<'_>,
    name: &str,
    cases: &[Case],
) -> Result<Vec<Outcome>, String> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let results: Mutex<Vec<(usize, Result<Outcome, String>)>> = Mutex::default();
    let choice = context.options.choice;
    let packets = context.packets;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let watched = std::thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            // Compilers recurse as deep as programs nest.
            let builder = std::thread::Builder::new().stack_size(256 << 20);
            let spawned = builder.spawn_scoped(scope, || {
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some(case) = cases.get(at).filter(|_| !stop.load(Relaxed)) else {
                        return;
                    };
                    let case = Case { packets, ..*case };
                    let outcome = simulated::run(&case, choice, &stop);
                    if outcome.is_err() {
                        stop.store(true, Relaxed);
                    }
                    if let Ok(mut results) = results.lock() {
                        results.push((at, outcome));
                    }
                    done.fetch_add(1, Relaxed);
                }
            });
            if let Err(error) = spawned {
                stop.store(true, Relaxed);
                return Err(format!("cannot start a thread: {error}"));
            }
        }
        while done.load(Relaxed) < cases.len() && !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
            let share = done.load(Relaxed) as f64 / cases.len().max(1) as f64;
            if let Err(error) = context.tell(name, share) {
                stop.store(true, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    });
    watched?;
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Simulates the policies over all exponents. R and H take 1 - alpha of the flows, as in the
/// paper.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let has = |number| context.options.has_figure(number);
    let mut kinds = Vec::new();
    if has(Number::Reports) || has(Number::Shares) {
        kinds.push(Keys::Exact);
    }
    if has(Number::Reports) || has(Number::Prefixes) {
        kinds.push(Keys::Prefixes(Nesting::Cover));
    }
    let mut cases = Vec::new();
    for keys in &kinds {
        for alpha in ALPHAS {
            let top = ((1.0 - alpha) * f64::from(FLOWS)).round() as u64;
            cases.extend(Policy::ALL.map(|policy| Case {
                keys: *keys,
                policy,
                alpha,
                flows: FLOWS,
                top,
                packets: 0,
            }));
        }
    }
    let outcomes = simulate(context, "figures 7 to 9", &cases)?;
    let mut rows = Vec::new();
    let mut table = vec![head(&[
        "figure",
        "keys",
        "policy",
        "alpha",
        "N",
        "reports",
        "of flows %",
        "bytes",
        "fewer than H %",
        "in switch %",
        "exact top N %",
        "Mpps at saturation",
        "switch",
        "servers",
        "paper",
    ])];
    for (case, found) in cases.iter().zip(&outcomes) {
        let heap = cases.iter().zip(&outcomes).find(|(other, _)| {
            other.keys == case.keys && other.alpha == case.alpha && other.policy == Policy::Heap
        });
        let fewer = heap.map_or(0.0, |(_, heap)| {
            100.0 - found.reports_in_window / heap.reports_in_window.max(1e-9) * 100.0
        });
        let bytes = found.reports_in_window * (simulated::KEY_BYTES + COUNT_BYTES);
        let reported = found.reports_in_window / f64::from(case.flows) * 100.0;
        let (place, paper) = match (case.keys, case.policy) {
            (Keys::Exact, policy) => ("figures 7 (a), 8", paper(policy)),
            (Keys::Prefixes(_), policy) => ("figures 7 (b), 9", paper(policy)),
        };
        let rates = found.saturated();
        let servers: f64 = rates.servers.iter().sum();
        let values = [
            ("alpha", case.alpha),
            ("flows", case.flows.into()),
            ("top", case.top as f64),
            ("packets", context.packets as f64),
            ("reports_in_window", found.reports_in_window),
            ("reports_of_flows_percent", reported),
            ("report_bytes_in_window", bytes),
            ("fewer_reports_than_heap_percent", fewer),
            ("late_flown_reports_min", found.late_reports.0 as f64),
            ("late_flown_reports_max", found.late_reports.1 as f64),
            ("share_percent", found.share_percent),
            ("exact_share_percent", found.exact_share_percent),
            ("moves", found.moves as f64),
            ("saturation_mpps", rates.all()),
            ("switch_mpps", rates.switch),
            ("server_1_mpps", rates.servers[0]),
            ("server_2_mpps", rates.servers[1]),
            ("reordered", found.reordered as f64),
            ("lost", found.lost as f64),
        ];
        let subject = format!("{}, {}", case.keys.name(), case.policy.name());
        table.push(vec![
            place.to_owned(),
            case.keys.name().to_owned(),
            letter(case.policy).to_owned(),
            case.alpha.to_string(),
            case.top.to_string(),
            format!("{:.0}", found.reports_in_window),
            format!("{reported:.1}"),
            format!("{bytes:.0}"),
            format!("{fewer:.1}"),
            format!("{:.1}", found.share_percent),
            format!("{:.1}", found.exact_share_percent),
            format!("{:.2}", rates.all()),
            format!("{:.2}", rates.switch),
            format!("{servers:.2}"),
            paper.to_owned(),
        ]);
        rows.push(Row::new(place, subject, Origin::Simulated, &values, paper));
    }
    let mut pictures = Vec::new();
    for keys in kinds {
        let all: Vec<(&Case, &Outcome)> = cases.iter().zip(&outcomes).collect();
        let all: Vec<_> = all
            .into_iter()
            .filter(|(case, _)| case.keys == keys)
            .collect();
        pictures.extend(self::pictures(keys, &all)?);
    }
    Ok(Part {
        title: "Figures 7 to 9: reports, and rates of switch and servers, by policy",
        rows,
        table,
        note: format!(
            "Simulated with both halves of a program: {} packets, windows of 10,000, two servers with eight workers of 9 us. Reports and bytes are those of a \
             window, shares those of the second half of the packets. At saturation the busier server is full; the switch is not a limit.",
            context.packets
        ),
        pictures,
    })
}

fn paper(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "all packets at servers",
        Policy::Random | Policy::Heap => "1 - alpha of the flows selected",
        Policy::Threshold => "56.7 to 99.2 % fewer reports than H",
    }
}

fn pictures(keys: Keys, all: &[(&Case, &Outcome)]) -> Result<Vec<Picture>, String> {
    let is_exact = keys == Keys::Exact;
    let curves = [Policy::Random, Policy::Heap, Policy::Threshold].map(|policy| {
        let own = all.iter().filter(|(case, _)| case.policy == policy);
        let percent =
            |(case, found): &(&Case, &Outcome)| found.reports_in_window / f64::from(case.flows);
        Curve {
            marks: Marks::Line,
            name: letter(policy),
            colour: colour(policy),
            points: own.map(|one| (one.0.alpha, percent(one) * 100.0)).collect(),
        }
    });
    let axes = Axes {
        caption: match is_exact {
            true => "Figure 7 (a): flows that a window reports, exact keys",
            false => "Figure 7 (b): flows that a window reports, prefixes",
        },
        x: "exponent of Zipf's distribution",
        y: "% of all flows",
    };
    let reports = plot::curves_from(&axes, &curves, 0.45)?;
    let mut groups = Vec::new();
    let mut stacks = [
        Stack::new("switch", NATIVE),
        Stack::new("server 1", plotters::style::RGBColor(230, 159, 0)),
        Stack::new("server 2", plotters::style::RGBColor(240, 200, 120)),
    ];
    for (case, found) in all {
        groups.push(format!("{} {}", letter(case.policy), case.alpha));
        let rates = found.saturated();
        let values = [rates.switch, rates.servers[0], rates.servers[1]];
        for (stack, value) in stacks.iter_mut().zip(values) {
            stack.values.push(value);
        }
    }
    let axes = Axes {
        caption: match is_exact {
            true => "Figure 8: rates at saturation of a server, exact keys",
            false => "Figure 9: rates at saturation of a server, prefixes",
        },
        x: "policy and exponent",
        y: "Mpps",
    };
    let rates = plot::stacks(&axes, &groups, &stacks)?;
    let files = match is_exact {
        true => ["clip-figure-7a.svg", "clip-figure-8.svg"],
        false => ["clip-figure-7b.svg", "clip-figure-9.svg"],
    };
    let pictures = files.into_iter().zip([reports, rates]);
    Ok(pictures.map(|(file, svg)| Picture { file, svg }).collect())
}

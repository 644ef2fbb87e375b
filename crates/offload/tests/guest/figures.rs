//! Figures of the target: times by part, rates, and times of changes. Each is a line of JSON that
//! begins with `figure `.

use std::time::{Duration, Instant};

use offload::tc::TcTargetOptions;
use offload::{OffloadCommand, Override, Target, TargetEvent};
use packet::Nanos;
use serde_json::json;
use support::rng::Rng;

use crate::bed::{Bed, nic, run, set_nic, udp_frame};
use crate::target::{Rig, to};
use crate::world::{World, quick};

/// Returns the settings of users.
fn options() -> TcTargetOptions {
    TcTargetOptions {
        check_period: Nanos::from_secs(1),
        ..crate::target::options()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time that the driver has spent on rules since the last time.
fn driver() -> Duration {
    let busy = nic("busy_ns");
    set_nic("busy_ns", "0");
    Duration::from_nanos(busy)
}

fn print(figure: &str, value: &serde_json::Value) {
    println!("figure {figure} {value}");
}

/// Address number `n` of a network.
fn address(network: u8, n: usize) -> [u8; 4] {
    [10, network, (n / 256) as u8, n as u8]
}

/// Sources and destinations of 4,800 flows.
const SOURCES: usize = 80;
const DESTINATIONS: usize = 60;

fn frame(n: usize) -> Vec<u8> {
    let (source, destination) = (n / DESTINATIONS, n % DESTINATIONS);
    udp_frame(address(1, source), address(2, destination), 60)
}

/// Returns a world with the tables' entries, and those of the destinations.
fn world() -> (World, Vec<switch::EntryId>) {
    let mut world = World::open(quick(), options());
    for n in 0..SOURCES {
        world.insert("sources", address(1, n), 0);
    }
    let entries = (0..DESTINATIONS).map(|n| world.insert("destinations", address(2, n), 1));
    let entries = entries.collect();
    (world, entries)
}

/// Waits for this number of events of a kind. Returns the time, of which the requests are a part.
fn settle(world: &mut World, count: usize, fits: fn(&TargetEvent) -> bool) -> Duration {
    let begin = Instant::now();
    let mut seen = world.events.iter().filter(|event| fits(event)).count();
    world.events.clear();
    let mut events = Vec::new();
    let mut others = Vec::new();
    while seen < count {
        let now = world.rig.now();
        world.rig.target.poll(now, &mut events);
        for event in events.drain(..) {
            match fits(&event) {
                true => seen += 1,
                false if !matches!(event, TargetEvent::Counts(..)) => others.push(event.clone()),
                false => {}
            }
            let commands = world.offloader.event(now, event);
            let is_credit = |command: &OffloadCommand| matches!(command, OffloadCommand::Credit(_));
            assert!(commands.iter().all(is_credit), "{commands:?}");
        }
        assert!(
            begin.elapsed() < Duration::from_secs(200),
            "{seen} of {count} events; {} others, the first ones {:?}",
            others.len(),
            &others[..others.len().min(3)]
        );
        std::thread::sleep(Duration::from_micros(50));
    }
    begin.elapsed()
}

fn is_added(event: &TargetEvent) -> bool {
    matches!(event, TargetEvent::Added(..))
}

fn is_removed(event: &TargetEvent) -> bool {
    matches!(event, TargetEvent::Removed(..))
}

/// Runs the offloader until it decides. Returns the time of the step that did.
fn decided(world: &mut World) -> Duration {
    let before = world.added.len() + world.removed.len();
    let begin = Instant::now();
    while world.added.len() + world.removed.len() == before {
        world.step();
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "nothing is decided"
        );
    }
    world.decision
}

#[test]
fn figure_8_times_of_flows_in_and_out_by_part() {
    let Some(_bed) = Bed::open() else { return };
    let rounds: usize = std::env::var("POLYPLANE_GUEST_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(2);
    for flows in [1, 10, 100, 1_000, 4_800] {
        let (mut world, _) = world();
        (0..flows).for_each(|n| world.observe(&frame(n), 1_000));
        for round in 0..rounds {
            for (direction, wanted) in [("in", None), ("out", Some(Override::Never))] {
                for table in ["sources", "destinations"] {
                    let table = world.table(table);
                    world.offloader.set_table_override(table, wanted);
                }
                (0..flows).for_each(|n| world.observe(&frame(n), 1_000));
                driver();
                let decision = decided(&mut world);
                let fits = if wanted.is_none() {
                    is_added
                } else {
                    is_removed
                };
                let all = settle(&mut world, flows, fits);
                let target = driver();
                print(
                    "8",
                    &json!({
                        "flows": flows,
                        "direction": direction,
                        "round": round,
                        "decision_us": micros(decision),
                        "netlink_us": micros(all.saturating_sub(target)),
                        "target_us": micros(target),
                    }),
                );
            }
        }
        assert_eq!(nic("rules"), 0);
    }
}

#[test]
fn figure_rate_rules_a_second_beside_tc_batch() {
    const RULES: u64 = 2_000;
    let Some(_bed) = Bed::open() else { return };
    let address = |n: u64| format!("10.3.{}.{}", n / 250, n % 250);
    let words = "filter add dev nic0 ingress protocol ip prio 5 flower skip_sw dst_ip";
    let text: String = (0..RULES)
        .map(|n| {
            format!(
                "{words} {} action mirred egress redirect dev nic1\n",
                address(n)
            )
        })
        .collect();
    std::fs::write("/tmp/batch", text).expect("the guest has memory");
    let rules = || {
        (0..RULES).map(|n| {
            let mut flow = to(0, 1);
            flow.matched[1].value = vec![10, 3, (n / 250) as u8, (n % 250) as u8];
            (n + 1, flow)
        })
    };
    let (mut best_tc, mut best_ours) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let begin = Instant::now();
        run("tc", &["-batch", "/tmp/batch"]);
        best_tc = best_tc.min(begin.elapsed());
        assert_eq!(nic("rules"), RULES);
        run("tc", &["filter", "del", "dev", "nic0", "ingress"]);
        assert_eq!(nic("rules"), 0);
        let mut rig = Rig::open(options());
        let begin = Instant::now();
        rig.add(rules().collect());
        // The guest has one processor: the test leaves it to the target.
        while u64::from(rig.target.report().rules) < RULES {
            rig.poll();
            std::thread::sleep(Duration::from_millis(3));
        }
        let events = rig.wait(RULES as usize);
        best_ours = best_ours.min(begin.elapsed());
        assert!(events.iter().all(is_added));
        rig.target.close().expect("all is removed");
        assert_eq!(nic("rules"), 0);
    }
    let rate = |time: Duration| (RULES as f64 / time.as_secs_f64()).round();
    let ratio = best_tc.as_secs_f64() / best_ours.as_secs_f64();
    print(
        "rate",
        &json!({
            "rules": RULES,
            "tc_batch_per_s": rate(best_tc),
            "target_per_s": rate(best_ours),
            "ratio": (ratio * 100.0).round() / 100.0,
        }),
    );
    // The aim is 0.8, and an emulated guest had 0.67. Rules without batches are below 0.5.
    assert!(
        ratio >= 0.5,
        "the target has {ratio:.2} of the rate of tc -batch"
    );
}

#[test]
fn figure_change_one_entry_among_4800_offloaded_flows() {
    const FLOWS: usize = SOURCES * DESTINATIONS;
    let Some(mut bed) = Bed::open() else { return };
    let (mut world, entries) = world();
    // One destination with one flow.
    let single = world.insert("destinations", [10, 9, 9, 9], 1);
    let lone = udp_frame(address(1, 0), [10, 9, 9, 9], 60);
    set_nic("capacity", "9600");
    world.observe(&lone, 1_000);
    (0..FLOWS).for_each(|n| world.observe(&frame(n), 1_000));
    world.until("all flows are offloaded", |world| {
        world.in_hardware() == FLOWS + 1
    });
    for (entry, met, sample) in [(single, 1, lone), (entries[7], SOURCES, frame(7))] {
        for (change, port) in [2, 3, 1, 2, 3].into_iter().enumerate() {
            // Reads of counts are not in the way.
            world.step();
            let before = world.offloader.counts();
            world.replaced.clear();
            world.events.clear();
            driver();
            let begin = Instant::now();
            world.forward(entry, port);
            world.step();
            let traced = begin.elapsed();
            let retraced = world.offloader.counts().retraced - before.retraced;
            assert_eq!((retraced, world.replaced.len()), (met as u64, met));
            let all = traced + settle(&mut world, met, is_added);
            let target = driver();
            print(
                "change",
                &json!({
                    "flows": FLOWS,
                    "met": met,
                    "change": change,
                    "retrace_us": micros(traced),
                    "all_us": micros(all),
                    "target_us": micros(target),
                }),
            );
            let out = bed.exchange(&sample);
            assert_eq!(out, [(packet::PortId(port as u32), sample.clone())]);
        }
    }
}

#[test]
fn figure_flap_no_flow_is_removed_and_put_back_unchanged_under_1000_changes_a_second() {
    let Some(_bed) = Bed::open() else { return };
    let seconds: u64 = std::env::var("POLYPLANE_GUEST_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(10);
    const FLOWS: usize = 600;
    let (mut world, entries) = world();
    (0..FLOWS).for_each(|n| world.observe(&frame(n), 1_000));
    world.until("all flows are offloaded", |world| {
        world.in_hardware() == FLOWS
    });
    let mut rng = Rng::new(9);
    let (mut changes, mut same) = (0u64, 0u64);
    world.replaced.clear();
    let (added, removed) = (world.added.len(), world.removed.len());
    let begin = Instant::now();
    let mut ports = vec![1u128; entries.len()];
    while begin.elapsed() < Duration::from_secs(seconds) {
        let due = begin.elapsed().as_millis() as u64;
        while changes < due {
            changes += 1;
            // Half of them change nothing, or an entry that no packet met.
            let at = rng.index(entries.len());
            match rng.below(4) {
                0 => {
                    same += 1;
                    world.forward(entries[at], ports[at]);
                }
                1 => {
                    same += 1;
                    world.insert("destinations", address(8, changes as usize), 1);
                }
                _ => {
                    ports[at] = 1 + (ports[at] % 3);
                    world.forward(entries[at], ports[at]);
                }
            }
            if changes % 8 == 0 {
                world.step();
            }
        }
        world.step();
    }
    let time = begin.elapsed();
    assert_eq!(
        (world.added.len(), world.removed.len()),
        (added, removed),
        "a flow flaps"
    );
    for (old, new, flow) in &world.replaced {
        assert!(
            !flow.has_effect_of(&world.flows[old]),
            "{new:?} is {old:?} again"
        );
    }
    let wanted = |n: usize| ports[n % DESTINATIONS];
    world.until("all rules are those of the tables", |world| {
        world.in_hardware() == FLOWS && world.rig.target.report().waiting == 0
    });
    for report in world.offloader.flows() {
        let n = (0..FLOWS).find(|n| report.flow.matches(packet::PortId(0), &frame(*n)));
        let out = report.flow.apply(&frame(0));
        assert_eq!(u128::from(out[0].0.0), wanted(n.expect("a known flow")));
    }
    print(
        "flap",
        &json!({
            "seconds": time.as_secs_f64().round(),
            "changes": changes,
            "without_effect": same,
            "replaced": world.replaced.len(),
            "flapped": 0,
            "changes_per_s": (changes as f64 / time.as_secs_f64()).round(),
        }),
    );
}

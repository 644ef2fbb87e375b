//! Random flows through the test NIC and through the kernel's software.

use std::collections::BTreeMap;
use std::time::Instant;

use offload::tc::RulePlanes;
use support::rng::Rng;

use crate::bed::Bed;
use crate::random::{Kind, Sample, sample};

/// Returns a number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Numbers of flows and frames that were compared.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) flows: u64,
    pub(crate) offloaded: u64,
    frames: u64,
    /// Frames of a flow that its narrower rule left alone.
    left: u64,
    strangers: u64,
    reasons: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts a reason, without its numbers.
    pub(crate) fn refused(&mut self, reason: &str) {
        let words = reason
            .split(|c: char| c.is_ascii_digit())
            .next()
            .unwrap_or_default();
        *self.reasons.entry(words.to_owned()).or_default() += 1;
    }

    pub(crate) fn print(&self, title: &str) {
        let share = 100.0 * self.offloaded as f64 / self.flows.max(1) as f64;
        println!(
            "{title}: {} of {} flows offloaded ({share:.1} %), {} frames compared on two planes, \
             {} left to other rules, {} frames of other flows",
            self.offloaded, self.flows, self.frames, self.left, self.strangers
        );
        for (reason, count) in &self.reasons {
            println!("  NotOffloadable {count:5}: {reason}");
        }
    }
}

/// Compares the rules of a flow on both planes with the flow, if there is one.
pub(crate) fn try_sample(bed: &mut Bed, rng: &mut Rng, sample: &Sample, tally: &mut Tally) {
    if let Err(reason) = bed.translate(&sample.flow, RulePlanes::Hardware) {
        tally.refused(&reason);
        return;
    }
    tally.offloaded += 1;
    for planes in [RulePlanes::Hardware, RulePlanes::Software] {
        compare(bed, rng, sample, planes, tally);
    }
}

/// Sends frames through a rule of one plane and compares.
fn compare(bed: &mut Bed, rng: &mut Rng, sample: &Sample, planes: RulePlanes, tally: &mut Tally) {
    let rule = bed
        .translate(&sample.flow, planes)
        .expect("it was translated before");
    let installed = bed.add(rule).unwrap_or_else(|error| {
        panic!(
            "{error}\n{:#?}\n{:?}",
            sample.flow,
            bed.translate(&sample.flow, planes)
        )
    });
    assert_eq!(installed.in_hardware, planes == RulePlanes::Hardware);
    let (mut hits, mut bytes, mut hidden) = (0, 0, 0);
    for turn in 0..3 {
        let frame = match turn {
            0 => sample.frame.clone(),
            _ => sample.sibling(rng),
        };
        if !sample.flow.matches(sample.flow.ingress, &frame) {
            continue;
        }
        let before = bed.read(&installed).counts;
        let out = bed.exchange(&frame);
        let after = bed.read(&installed).counts;
        let is_hit = after != before
            && (after.hardware_packets, after.software_packets)
                != (before.hardware_packets, before.software_packets);
        tally.frames += 1;
        if !is_hit {
            tally.left += 1;
            assert_eq!(out, [], "a frame that the rule leaves alone goes nowhere");
            // A flow that leaves the EtherType open may have a rule for IPv4 only.
            let is_narrow = !sample
                .flow
                .matched
                .iter()
                .any(|bits| bits.offset <= 12 && bits.end() >= 14);
            assert!(
                turn > 0 || is_narrow,
                "the flow's own frame is left alone: {:?}",
                sample.flow
            );
            continue;
        }
        hits += 1;
        bytes += frame.len() as u64;
        // In software, rules for each EtherType do not count the tag that the kernel has taken.
        if planes == RulePlanes::Software && installed.rule.is_for_each_ether_type() {
            hidden += if matches!(frame[12..14], [0x81, 0] | [0x88, 0xA8]) {
                4
            } else {
                0
            };
        }
        assert_eq!(
            out,
            Bed::expected(&sample.flow, &frame),
            "{planes:?}: {:#?}\nframe {frame:02x?}\nrule {:#?}",
            sample.flow,
            installed.rule
        );
    }
    for _ in 0..2 {
        let Some(frame) = sample.stranger(rng) else {
            continue;
        };
        assert!(!sample.flow.matches(sample.flow.ingress, &frame));
        assert_eq!(
            bed.exchange(&frame),
            [],
            "a rule takes another flow's frame"
        );
        tally.strangers += 1;
    }
    let counts = bed.read(&installed).counts;
    let found = match planes {
        RulePlanes::Hardware => (counts.hardware_packets, counts.hardware_bytes),
        _ => (counts.software_packets, counts.software_bytes),
    };
    assert_eq!(found.0, hits, "{planes:?}: {:#?}", installed.rule);
    assert_eq!(found.1, bytes - hidden, "{planes:?}: {:#?}", installed.rule);
    let both = counts.hardware_packets + counts.software_packets;
    assert_eq!(both, hits, "packets are counted on one plane");
    bed.remove(&installed);
}

#[test]
fn random_flows_make_the_frames_of_the_flow_or_are_refused_by_name() {
    let Some(mut bed) = Bed::open() else { return };
    let flows = number("POLYPLANE_GUEST_FLOWS", 2000);
    let seed = number("POLYPLANE_GUEST_SEED", 1);
    let mut rng = Rng::new(seed);
    let begin = Instant::now();
    let mut tallies = [
        (Kind::Fixed, Tally::default()),
        (Kind::Any, Tally::default()),
    ];
    for index in 0..flows {
        let (kind, tally) = &mut tallies[usize::from(index % 4 == 3)];
        let sample = sample(&mut rng, *kind);
        tally.flows += 1;
        try_sample(&mut bed, &mut rng, &sample, tally);
        if index % 200 == 199 {
            println!("{} of {flows} flows ({:.1?})", index + 1, begin.elapsed());
        }
    }
    println!("seed {seed}");
    for (kind, tally) in &tallies {
        tally.print(&format!("{kind:?} changes"));
    }
    let fixed = &tallies[0].1;
    assert!(
        fixed.offloaded * 100 >= fixed.flows * 90,
        "less than 90 % are offloaded"
    );
}

//! Checks a switch under overload by its reports.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Maximum growth of the memory between start and end, in KiB: free memory of the allocator.
const GROWTH: u64 = 4096;

/// Divisor of the number of samples that warm up. At least one sample warms up.
const WARM_UP: usize = 10;

/// Maximum number of frames in flight between two counts at the end: in the rings of both cables,
/// and in a batch of each worker.
const ON_THE_WAY: u64 = 8192;

/// Values of a report, and values measured at the same time.
pub(super) struct Sample {
    seconds: f64,
    /// Resident memory.
    rss_kib: u64,
    /// Frames that the source's cable took.
    offered: u64,
    /// Packets that the ports delivered, and that they sent.
    received: u64,
    sent: u64,
    /// Drops of the ports and of the program, for all reasons.
    dropped: BTreeMap<String, u64>,
}

impl Sample {
    pub(super) fn new(report: &Value, rss_kib: u64, offered: u64) -> Sample {
        let ports = || list(report, "ports");
        let mut dropped = BTreeMap::new();
        let drops = ports().flat_map(|port| list(port, "dropped"));
        for drop in drops.chain(list(report, "dropped")) {
            let reason = drop["reason"].as_str().unwrap_or_default();
            *dropped.entry(reason.to_owned()).or_default() += number(&drop["packets"]);
        }
        Sample {
            seconds: report["seconds"].as_f64().unwrap_or(0.0),
            rss_kib,
            offered,
            received: ports()
                .map(|port| number(&port["received"]["packets"]))
                .sum(),
            sent: ports().map(|port| number(&port["sent"]["packets"])).sum(),
            dropped,
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "seconds": self.seconds,
            "rss_kib": self.rss_kib,
            "offered": self.offered,
            "received": self.received,
            "sent": self.sent,
            "dropped": self.dropped,
        })
    }

    fn dropped(&self, prefix: &str) -> u64 {
        let drops = self.dropped.iter();
        drops
            .filter(|(reason, _)| reason.starts_with(prefix))
            .map(|(_, packets)| packets)
            .sum()
    }

    /// Packets that the program or the device dropped.
    fn dropped_inside(&self) -> u64 {
        self.dropped("") - self.dropped("rx_") - self.dropped("tx_")
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Returns the faults of a run. Empty if it passes.
pub(super) fn judge(
    samples: &[Sample],
    end: &Sample,
    report: &Value,
    cable: [u64; 2],
) -> Vec<String> {
    let mut faults = Vec::new();
    stalls(samples, &mut faults);
    grows(samples, &mut faults);
    if end.offered <= end.received {
        faults.push("there was no overload: the switch took all that was offered".to_owned());
    }
    let mut equal = |what: &str, one: u64, other: u64, slack: u64| {
        if one.abs_diff(other) > slack {
            faults.push(format!("{what}: {one} is not {other}"));
        }
    };
    // The kernel also counts on the cable what a full AF_XDP socket does not take.
    let at_socket = end.dropped("rx_queue_full");
    let [at_begin, at_end] = cable;
    let lost_before = end.dropped("rx_") - at_socket + at_socket.max(at_end) + at_begin;
    let accounted = end.received + lost_before;
    equal(
        "offered, and received or dropped before the program",
        end.offered,
        accounted,
        ON_THE_WAY,
    );
    let taken: u64 = list(report, "workers")
        .map(|w| number(&w["received"]))
        .sum();
    equal("received by ports, and by workers", end.received, taken, 0);
    let left = end.sent + end.dropped("tx_") + end.dropped_inside();
    let made = end.received + number(&report["replicated"]);
    let held = number(&report["held"]);
    equal(
        "received or copied, and sent, dropped for a reason or held",
        made,
        left + held,
        0,
    );
    faults
}

/// Checks that packets arrive and leave in every interval.
fn stalls(samples: &[Sample], faults: &mut Vec<String>) {
    if samples.len() < 2 {
        faults.push("there were too few reports".to_owned());
    }
    for pair in samples.windows(2) {
        let [before, after] = pair else { continue };
        if after.received <= before.received || after.sent <= before.sent {
            let (from, to) = (before.seconds, after.seconds);
            faults.push(format!(
                "nothing was carried between {from:.0} and {to:.0} s"
            ));
        }
    }
}

fn grows(samples: &[Sample], faults: &mut Vec<String>) {
    let warm = (samples.len() / WARM_UP).max(1);
    let behind = samples.get(warm..).unwrap_or_default();
    let first = behind.first().map_or(0, |sample| sample.rss_kib);
    let most = behind
        .iter()
        .map(|sample| sample.rss_kib)
        .max()
        .unwrap_or(0);
    if most > first + GROWTH {
        faults.push(format!("memory grew from {first} to {most} KiB"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: u64, received: u64, sent: u64, drops: Value) -> Value {
        json!({
            "seconds": seconds,
            "ports": [
                {"received": {"packets": received}, "sent": {"packets": 0},
                 "dropped": [{"reason": "rx_queue_full", "packets": 50}]},
                {"received": {"packets": 0}, "sent": {"packets": sent}, "dropped": []},
            ],
            "workers": [{"received": received}],
            "dropped": drops,
            "replicated": 0,
            "held": 0,
        })
    }

    fn check(reports: &[Value], memory: &[u64], offered: u64, expect: &[&str]) {
        let both = reports.iter().zip(memory);
        let samples: Vec<Sample> = both.map(|(r, m)| Sample::new(r, *m, offered)).collect();
        let last = &reports[reports.len() - 1];
        let faults = judge(&samples, &Sample::new(last, 0, offered), last, [0, 30]);
        assert_eq!(faults.len(), expect.len(), "{faults:?}");
        for (fault, expect) in faults.iter().zip(expect) {
            assert!(fault.contains(expect), "{fault}");
        }
    }

    #[test]
    fn a_switch_that_drops_by_name_passes_and_each_fault_is_told() {
        let drops = |n| json!([{"reason": "ingress_drop", "packets": n}]);
        let good = [
            report(1, 100, 60, drops(40)),
            report(2, 200, 150, drops(50)),
        ];
        let even = [9000, 9000];
        check(&good, &even, 250, &[]);
        check(&good, &[9000, 9000], 200, &["no overload"]);
        check(&good, &even, 100_000, &["offered, and received"]);
        let growing = [
            good[0].clone(),
            good[1].clone(),
            report(3, 300, 250, drops(50)),
        ];
        check(
            &growing,
            &[1, 9000, 20_000],
            350,
            &["memory grew from 9000"],
        );
        let stalled = [good[1].clone(), good[1].clone()];
        check(&stalled, &even, 250, &["nothing was carried"]);
        let silent = [good[0].clone(), report(2, 200, 140, drops(50))];
        check(
            &silent,
            &even,
            250,
            &["dropped for a reason or held: 200 is not 190"],
        );
    }
}

//! `polyplane pof --offload model` on real interfaces: heavy flows go to the NIC, their counts are
//! those of all packets, changes of entries reach it, and each state has its reason.

mod lab;

use std::time::{Duration, Instant};

use lab::pof::{Bed, Script, counts, ipv4};
use lab::scrape::Scraped;
use lab::{Directory, Running, polyplane};
use packet::Frame;
use pof::wire::Body;
use port::Port;
use serde_json::Value;

/// A table with a flow to port 1 that changes a byte, and one that drops.
const FLOWS: &str = "\
table add mm/0 size 16 fields eth_type=96/16 dst=240/32
flow add mm/0 priority 2 counter 1 match eth_type=0x800 dst=10.0.1.0/24 do set_field 40/8=9; counter 7; output 1
flow add mm/0 priority 1 counter 2 match eth_type=0x800 dst=10.0.2.0/24 do drop
";

const PATIENCE: Duration = Duration::from_secs(60);

/// A switch with offload and metrics.
struct Offloading {
    bed: Bed,
    pof: String,
    metrics: String,
}

impl Offloading {
    fn start(target: &str, more: &[&str]) -> Option<Offloading> {
        let arguments = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let offload = ["--offload", target];
        let bed = Bed::start(&[&arguments[..], &offload, more].concat())?;
        let metrics = bed.wait_for("metrics are served at http://");
        let metrics = metrics.split_once("http://").unwrap().1.to_owned();
        let pof = bed.address();
        Some(Offloading {
            pof,
            metrics: metrics.trim_end_matches("/metrics").to_owned(),
            bed,
        })
    }

    fn make(&self, text: &str) {
        Script::connect(&self.bed.cables, &self.pof).make(text);
    }

    /// Sends frames, and checks that all of `expected` arrive, no others.
    fn send(&mut self, frame: &[u8], times: usize, expected: Option<&[u8]>) {
        for burst in (0..times).step_by(16) {
            let burst = 16.min(times - burst);
            for _ in 0..burst {
                self.bed.cables.ends[0].tx(&[Frame::from_bytes(frame).unwrap()]);
            }
            let count = if expected.is_some() { burst } else { 0 };
            let arrived = self.bed.arrived(Duration::from_secs(5), count);
            assert_eq!(arrived.len(), count);
            for (port, bytes) in arrived {
                assert_eq!((port, Some(&bytes[..])), (1, expected));
            }
        }
    }

    fn report(&self, words: &[&str]) -> Value {
        let mut command = polyplane();
        command.args(["offload"]).args(words);
        command.args(["--at", &self.metrics, "--json"]);
        let run = || Running::start(&mut command);
        let said = self.bed.cables.switch.run(run).unwrap().finish();
        assert_eq!(said.status, Some(0), "{}", said.err);
        let value = said.json();
        assert_eq!(value[0]["device"], 1);
        value[0]["report"].clone()
    }

    /// Returns the flows of which the match has these words.
    fn flow(&self, words: &str) -> Option<Value> {
        let flows = self.report(&["flows"]);
        let mut flows = flows.as_array().unwrap().iter();
        let found = flows.find(|flow| flow["match"].as_str().unwrap().contains(words));
        found.cloned()
    }

    /// Sends a frame now and then until its flow has a state.
    fn send_until(&mut self, state: &str, words: &str, frame: &[u8], out: &[u8]) -> (usize, Value) {
        let start = Instant::now();
        let mut sent = 0;
        loop {
            self.send(frame, 32, Some(out));
            sent += 32;
            if let Some(flow) = self.flow(words)
                && flow["state"] == state
            {
                return (sent, flow);
            }
            let flows = self.report(&["flows"]);
            assert!(start.elapsed() < PATIENCE, "no {state}: {flows:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the counts of a counter are these, and returns them.
    fn counted(&self, counter: u64, packets: u64) -> (u64, u64) {
        let start = Instant::now();
        loop {
            let stats = self.bed.ctl(&self.pof, &["--json", "stats"]);
            let found = counts(&stats, "counters", "counter", counter);
            if found.0 >= packets || start.elapsed() > Duration::from_secs(10) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn scrape(&self) -> Scraped {
        let metrics = self.metrics.clone();
        let scrape = move || Scraped::of(&metrics);
        self.bed.cables.switch.run(scrape).unwrap()
    }
}

fn changed(frame: &[u8], byte: u8) -> Vec<u8> {
    let mut changed = frame.to_vec();
    changed[5] = byte;
    changed
}

#[test]
fn a_heavy_flow_goes_to_the_nic_and_all_its_packets_are_counted() {
    let Some(mut switch) = Offloading::start("model:100", &[]) else {
        return;
    };
    switch.make(FLOWS);
    let frame = ipv4([10, 0, 1, 1]);
    let out = changed(&frame, 9);
    let (mut sent, flow) = switch.send_until("in_hw", "ipv4.dst 10.0.1.0/24", &frame, &out);
    assert_eq!(flow["plane"], "nic");
    assert_eq!(flow["reason"], Value::Null);
    assert!(flow["software_packets"].as_u64().unwrap() > 0, "{flow}");
    switch.send(&frame, 400, Some(&out));
    sent += 400;
    // The packets that no rule takes go to software as before.
    switch.send(&ipv4([10, 0, 2, 1]), 16, None);
    let (packets, bytes) = (sent as u64, 60 * sent as u64);
    assert_eq!(switch.counted(1, packets), (packets, bytes), "the entry's");
    assert_eq!(
        switch.counted(7, packets),
        (packets, bytes),
        "the counter's"
    );
    assert_eq!(switch.counted(2, 16), (16, 16 * 60));
    let stats = switch.report(&["stats"]);
    assert!(stats["packets"].as_u64().unwrap() >= 400, "{stats:#}");
    assert!(stats["rules"].as_u64().unwrap() >= 1, "{stats:#}");
    let placement = switch.report(&["placement"]);
    assert_eq!(placement["policy"], "top");
    assert_eq!(placement["planes"][0]["capacity"], 100);
    let scraped = switch.scrape();
    let offload = |series: &str| scraped.value(&format!("offload_{series}"));
    assert!(offload("flows{device=\"1\",state=\"in_hw\"}") >= 1.0);
    assert!(offload("packets_total{device=\"1\"}") >= 400.0);
    assert_eq!(
        scraped.value("table_entries{device=\"1\",table=\"0\"}"),
        2.0
    );
    assert!(scraped.value("pof_connections_total{device=\"1\"}") >= 1.0);
    let report = switch.bed.stop();
    assert_eq!(report["tables"][0]["hits"], packets + 16, "{report}");
    assert_eq!(report["ports"][0]["received"], packets + 16);
    assert_eq!(report["ports"][1]["sent"], packets);
    assert!(report["offloaded"].as_u64().unwrap() >= 400);
}

#[test]
fn a_changed_entry_changes_the_rule_and_a_removed_one_reports_all_its_packets() {
    let Some(mut switch) = Offloading::start("model", &[]) else {
        return;
    };
    switch.make(FLOWS);
    let frame = ipv4([10, 0, 1, 1]);
    let words = "ipv4.dst 10.0.1.0/24";
    let mut watcher = Script::connect(&switch.bed.cables, &switch.pof);
    let (mut sent, _) = switch.send_until("in_hw", words, &frame, &changed(&frame, 9));
    // A list of the same shape, then one of another, which makes another program.
    for (byte, list) in [
        (7, "set_field 40/8=7; counter 7; output 1"),
        (5, "set_field 40/8=5; set_field 0/8=2; counter 7; output 1"),
    ] {
        let matched = "priority 2 counter 1 match eth_type=0x800 dst=10.0.1.0/24";
        let more = format!("flow modify mm/0 index 0 {matched} do {list}\n");
        switch.send(&frame, 64, Some(&changed(&frame, last_byte(byte))));
        sent += 64;
        let text = format!("{}{more}", FLOWS.lines().next().unwrap().to_owned() + "\n");
        watcher.make_last(&text);
        // Frames until now have the old list or the new one.
        let start = Instant::now();
        loop {
            switch.bed.cables.ends[0].tx(&[Frame::from_bytes(&frame).unwrap()]);
            sent += 1;
            let arrived = switch.bed.arrived(Duration::from_secs(5), 1);
            assert_eq!(arrived.len(), 1);
            let bytes = &arrived[0].1;
            assert!(
                [last_byte(byte), byte].contains(&bytes[5]) && bytes[6..] == frame[6..],
                "{bytes:?}"
            );
            if bytes[5] == byte {
                break;
            }
            assert!(start.elapsed() < PATIENCE);
        }
        let (more, _) = switch.send_until("in_hw", words, &frame, &changed(&frame, byte));
        sent += more;
        switch.send(&frame, 64, Some(&changed(&frame, byte)));
        sent += 64;
    }
    let (packets, bytes) = (sent as u64, 60 * sent as u64);
    assert_eq!(switch.counted(7, packets), (packets, bytes));
    // The last packets in the NIC are counted before FLOW_REMOVED leaves.
    switch.send(&frame, 200, Some(&changed(&frame, 5)));
    watcher.make_last(&format!("{FLOWS}flow delete mm/0 index 0\n"));
    let removed = loop {
        if let Body::FlowRemoved(removed) = watcher.next().body {
            break removed;
        }
    };
    assert_eq!(
        (removed.packets, removed.bytes),
        (packets + 200, bytes + 200 * 60)
    );
    switch.bed.stop();
}

/// Returns the byte of the list before.
fn last_byte(byte: u8) -> u8 {
    byte + 2
}

#[test]
fn an_entry_with_traffic_in_the_nic_does_not_expire_and_one_without_does_in_time() {
    let Some(mut switch) = Offloading::start("model", &[]) else {
        return;
    };
    let mut watcher = Script::connect(&switch.bed.cables, &switch.pof);
    watcher.make(&FLOWS.replace("priority 2", "idle 5 priority 2"));
    let frame = ipv4([10, 0, 1, 1]);
    let out = changed(&frame, 9);
    let (mut sent, _) = switch.send_until("in_hw", "ipv4.dst 10.0.1.0/24", &frame, &out);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(8) {
        switch.send(&frame, 8, Some(&out));
        sent += 8;
        std::thread::sleep(Duration::from_millis(500));
    }
    switch.send(&frame, 8, Some(&out));
    sent += 8;
    let last = Instant::now();
    let removed = loop {
        if let Body::FlowRemoved(removed) = watcher.next().body {
            break removed;
        }
    };
    let silent = last.elapsed().as_secs_f64();
    // The time-out and 1.5 s, and time for a machine with other work.
    assert!((4.9..15.0).contains(&silent), "{silent} s without packets");
    assert_eq!(removed.reason, 0, "it was idle");
    assert_eq!(removed.packets, sent as u64);
    switch.bed.stop();
}

#[test]
fn a_nic_that_refuses_or_is_full_or_evicts_has_a_state_and_a_reason() {
    for (target, state, part) in [
        ("model:10,refused=1000", "refused", "refuses this rule"),
        (
            "model:10,not-in-hardware=1000",
            "not_in_hw",
            "accepted the rule",
        ),
        ("model:10,evicted=1000", "evicted", "came to software"),
        // No hardware is at a cable, and not every kernel has flower: it says so.
        ("tc:10", "refused", ""),
    ] {
        let Some(mut switch) = Offloading::start(target, &[]) else {
            return;
        };
        switch.make(FLOWS);
        let frame = ipv4([10, 0, 1, 1]);
        let words = "ipv4.dst 10.0.1.0/24";
        let (sent, flow) = switch.send_until(state, words, &frame, &changed(&frame, 9));
        assert_eq!(flow["plane"], "software");
        let reason = flow["reason"].as_str().unwrap();
        assert!(reason.contains(part), "{target}: {reason}");
        let (packets, bytes) = (sent as u64, 60 * sent as u64);
        assert_eq!(switch.counted(1, packets), (packets, bytes), "{target}");
        switch.bed.stop();
    }
}

#[test]
fn the_owner_keeps_a_table_in_software_and_the_capacity_is_kept() {
    let more = ["--offload-table", "mm/0=never"];
    let Some(mut switch) = Offloading::start("model:1", &more) else {
        return;
    };
    switch.make(FLOWS);
    let frame = ipv4([10, 0, 1, 1]);
    let words = "ipv4.dst 10.0.1.0/24";
    let (_, flow) = switch.send_until("software", words, &frame, &changed(&frame, 9));
    let reason = flow["reason"].as_str().unwrap();
    assert!(reason.contains("keeps table mm/0 in software"), "{reason}");
    let placement = switch.report(&["placement"]);
    assert_eq!(placement["tables"][0]["is_there"], true);
    assert_eq!(switch.bed.stop()["offloaded"], 0);

    let mut switch = Offloading::start("model:1", &[]).unwrap();
    switch.make(FLOWS);
    switch.send_until("in_hw", words, &frame, &changed(&frame, 9));
    let other = ipv4([10, 0, 2, 1]);
    let start = Instant::now();
    let flow = loop {
        switch.send(&frame, 32, Some(&changed(&frame, 9)));
        switch.send(&other, 4, None);
        let flow = switch.flow("ipv4.dst 10.0.2.0/24");
        let full = |flow: &Value| flow["reason"].as_str().unwrap_or_default().contains("full");
        if let Some(flow) = flow.filter(full) {
            break flow;
        }
        assert!(start.elapsed() < PATIENCE);
    };
    assert_eq!(flow["state"], "software");
    assert_eq!(switch.report(&["stats"])["rules"], 1);
    switch.bed.stop();
}

#[test]
fn wrong_options_are_named() {
    let bad = |words: &[&str], part: &str| {
        let said =
            lab::said(&[&["pof", "--port", "0=lo", "--listen", "127.0.0.1:0"], words].concat());
        assert_ne!(said.status, Some(0));
        assert!(said.err.contains(part), "{}", said.err);
    };
    bad(&["--offload", "card"], "model or tc");
    bad(&["--offload-moves", "3"], "--offload");
    bad(
        &["--offload", "model", "--fail", "standalone"],
        "standalone",
    );
    bad(&["--metrics", "0.0.0.0:0"], "127.0.0.1");
    let directory = Directory::new("offload-nobody");
    let said = lab::said(&["offload", "stats", "--at", "127.0.0.1:1"]);
    assert!(said.err.contains("--offload and --metrics"), "{}", said.err);
    let said = lab::said(&["offload", "flows"]);
    assert_eq!(said.status, Some(2), "{}", said.err);
    drop(directory);
}

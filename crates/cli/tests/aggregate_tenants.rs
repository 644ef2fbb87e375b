//! Jobs on a switch that hosts tenants: each reduction is a virtual data plane (vPDP) beside an L3
//! router, and all processes are real, each host in a network namespace.

mod lab;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::scrape::Scraped;
use lab::site::{NAMED, REDUCER, Site, address};
use lab::{Running, Said, said};

/// Address of the switch's metrics, in its namespace.
const METRICS: &str = "127.0.0.1:9100";

/// Bits per second of each link.
const RATE: u64 = 100_000_000;

/// Number of updates of a running job. The check of the issue has 100.
fn updates() -> usize {
    let given = std::env::var("AGGREGATE_UPDATES").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(6)
}

/// The router's names as [`Site::hosted`] has them.
const ROUTER: [&str; 2] = ["router", "rest: -> router"];

/// Waits until the switch has no vPDP and no rule but the router's.
fn wait_for_router_alone(site: &Site) {
    let start = Instant::now();
    while site.hosted() != ROUTER {
        assert!(start.elapsed() < NAMED, "{:?}", site.hosted());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// UDP packets through the router, from the reducer's host to that of the first mapper.
struct Traffic {
    is_stopped: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Traffic {
    /// Starts to send a packet each half millisecond.
    fn start(site: &Site) -> Traffic {
        let bind = |host: usize| {
            let socket = site.hosts[host].run(|| UdpSocket::bind((address(host), 7000)));
            socket.unwrap().unwrap()
        };
        let (from, to) = (bind(REDUCER), bind(0));
        to.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while !stopped.load(Relaxed) {
                from.send_to(&[7; 200], (address(0), 7000)).unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_micros(500));
            }
            sent
        });
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 300];
            let mut received = 0;
            while to.recv(&mut buffer).is_ok() {
                received += 1;
            }
            received
        });
        Traffic {
            is_stopped,
            sender,
            receiver,
        }
    }

    /// Stops. Returns the numbers of sent and received packets.
    fn stop(self) -> (u64, u64) {
        self.is_stopped.store(true, Relaxed);
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }
}

/// Waits until the last job of the master reduces. Returns its number.
fn wait_until_it_reduces(site: &Site) -> u64 {
    let start = Instant::now();
    loop {
        let jobs = site.ask(&["jobs", "--json"]).json();
        let last = jobs.as_array().unwrap().last().cloned().unwrap_or_default();
        if last["state"] == "running" && last["reductions"][0]["step"] == "reduces" {
            return last["number"].as_u64().unwrap();
        }
        assert!(start.elapsed() < NAMED, "{jobs}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the name of the vPDP of a job's first reduction.
fn vpdp_of(site: &Site, job: u64) -> String {
    let jobs = site.ask(&["show", &job.to_string(), "--json"]).json();
    format!("reduction-{}", jobs[0]["reductions"][0]["job"])
}

fn is_exact(ran: &Said) -> serde_json::Value {
    assert_eq!(ran.status, Some(0), "{}\n{}", ran.err, ran.out);
    let outcome = ran.json()[0].clone();
    assert_eq!(outcome["is_verified"], true, "{outcome}");
    assert!(outcome["absorbed"].as_u64() > Some(0), "{outcome}");
    outcome
}

#[test]
fn two_jobs_beside_a_router_are_exact_and_it_loses_nothing() {
    let Some(site) = Site::start_tenants("tenants", RATE, &[]) else {
        return;
    };
    let (one, other) = (site.job("one", 3000, 2000), site.job("other", 2000, 300));
    site.wait_for_all();
    wait_for_router_alone(&site);
    let traffic = Traffic::start(&site);
    for ran in [site.submit(&one), site.submit(&other)].map(Running::finish) {
        is_exact(&ran);
    }
    wait_for_router_alone(&site);
    let (sent, received) = traffic.stop();
    println!("the router got {sent} packets and lost {}", sent - received);
    assert!(sent > 0 && received == sent, "{received} of {sent}");
    let router = site.vpdp("router").unwrap();
    assert_eq!(router["packets"]["dropped"], serde_json::json!({}));
}

#[test]
fn a_job_has_quotas_as_planned_and_leaves_nothing_when_it_is_cancelled() {
    let metrics = ["--metrics", METRICS];
    let Some(mut site) = Site::start_tenants("tenants-quotas", 2_000_000, &metrics) else {
        return;
    };
    let job = site.job("slow", 16_000, 1500);
    site.wait_for_all();
    let running = site.submit(&job);
    let number = wait_until_it_reduces(&site);
    let name = vpdp_of(&site, number);
    let vpdp = site.vpdp(&name).unwrap();
    let quotas: Vec<String> = serde_json::from_value(vpdp["quotas"].clone()).unwrap();
    let planned = quotas.iter().find_map(|it| it.strip_prefix("state-bytes="));
    let planned: u64 = planned.unwrap().parse().unwrap();
    let topology = site.directory.file("site.toml");
    let words = ["aggregate", "plan", &job, "--fabric", &topology, "--json"];
    let plan = said(&words).json();
    let bytes = plan["switches"][0]["state_bytes"].as_u64();
    let scraped = site.switch_netns.run(|| Scraped::of(METRICS)).unwrap();
    let series = format!(
        "vpdp_state_bytes{{device=\"{}\",vpdp=\"{name}\",owner=\"\"}}",
        vpdp["id"]
    );
    let reported = scraped.value(&series) as u64;
    println!("{name}: {quotas:?}; planned {bytes:?} bytes, reported {reported}");
    let bytes = bytes.unwrap();
    assert!(reported.abs_diff(bytes) * 10 <= bytes);
    assert_eq!(planned, bytes + bytes / 10);
    let rule = format!(
        "{name}: reduction {} -> {name}",
        &name["reduction-".len()..]
    );
    let hosted = site.hosted();
    assert!(hosted.iter().any(|it| it.starts_with(&rule)), "{hosted:?}");

    let cancelled = site.ask(&["cancel", &number.to_string()]);
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.err);
    assert_eq!(site.hosted(), ROUTER);
    assert_eq!(running.finish().status, Some(1));

    // A failed job: its mapper's agent does not come back.
    let running = site.submit(&job);
    wait_until_it_reduces(&site);
    drop(site.agents[1].take());
    let failed = running.finish();
    assert_eq!(failed.status, Some(1));
    let both = failed.err + &failed.out;
    assert!(both.contains("mapper m1 on w1"), "{both}");
    wait_for_router_alone(&site);
    site.start_agent(1);

    // More than there is.
    let big = site.job("big", 20, 11_000);
    site.wait_for_all();
    let refused = site.submit(&big).finish();
    let line = refused.one_line();
    assert!(line.contains("704000 bytes"), "{line}");
    assert!(line.contains("640000 free"), "{line}");

    // A port that is not shared.
    site.tenant(&["disconnect", "router:2"]);
    site.tenant(&["unshare", "2"]);
    let refused = site.submit(&job).finish();
    let both = refused.err + &refused.out;
    assert!(both.contains("tenant share 2 rules"), "{both}");
}

#[test]
fn a_switch_that_is_started_again_gets_its_virtual_data_planes_again() {
    let Some(mut site) = Site::start_tenants("tenants-restart", 2_000_000, &[]) else {
        return;
    };
    let job = site.job("slow", 20_000, 1500);
    site.wait_for_all();
    let running = site.submit(&job);
    wait_until_it_reduces(&site);
    std::thread::sleep(Duration::from_millis(200));
    drop(site.switch.take());
    site.start_switch();
    let outcome = is_exact(&running.finish());
    assert!(outcome["restarts"].as_u64() > Some(0), "{outcome}");
    wait_for_router_alone(&site);

    // A master that is killed leaves a vPDP, which the next one deletes.
    let running = site.submit(&job);
    wait_until_it_reduces(&site);
    drop(site.master.take());
    assert_eq!(running.finish().status, Some(1));
    assert_ne!(site.hosted(), ROUTER);
    site.start_master();
    wait_for_router_alone(&site);
}

#[test]
fn updates_of_a_running_job_are_exact_without_a_replay() {
    let Some(site) = Site::start_tenants("tenants-updates", 1_000_000, &[]) else {
        return;
    };
    // It must last longer than the updates.
    let job = site.job("slow", 2000 * updates() as u64, 1500);
    site.wait_for_all();
    let traffic = Traffic::start(&site);
    let running = site.submit(&job);
    let number = wait_until_it_reduces(&site).to_string();
    let is_running = || {
        let jobs = site.ask(&["show", &number, "--json"]).json();
        jobs[0]["state"] == "running"
    };
    let program = site.ask(&["program", &number]);
    assert_eq!(program.status, Some(0), "{}", program.err);
    // The same, with a counter of the packets that it forwards by routes.
    let counted = program.out.replace(
        "    apply {\n        if (!hdr.ipv4.isValid()",
        "    counter(4, CounterType.packets) routed;\n    apply {\n        \
         routed.count((bit<32>) hdr.agg.kind[1:0]);\n        if (!hdr.ipv4.isValid()",
    );
    assert_ne!(counted, program.out);
    let files = [
        site.directory.with("counted.p4", &counted),
        site.directory.with("plain.p4", &program.out),
    ];
    let name = vpdp_of(&site, number.parse().unwrap());
    let began = Instant::now();
    for update in 0..updates() {
        let changed = match update % 3 {
            2 => {
                let slot = (update % 5).to_string();
                site.ask(&["update", &number, "--slot", &slot])
            }
            _ => {
                let words = ["update", &number, "--program", &files[update % 2]];
                site.ask(&[&words[..], &["--may-lose", "SwitchIngress.routed"]].concat())
            }
        };
        assert_eq!(changed.status, Some(0), "{update}: {}", changed.err);
    }
    println!("{} updates in {:?}", updates(), began.elapsed());
    let wrong = site.directory.with("wrong.p4", "control {");
    let refused = site.ask(&["update", &number, "--program", &wrong]);
    assert_eq!(refused.status, Some(1));
    assert!(
        refused.err.contains("switch tor: program.p4:1:9"),
        "{}",
        refused.err
    );
    let words = ["update", &number, "--program", &files[1], "--may-lose", "*"];
    let refused = site.ask(&words);
    assert!(
        refused.one_line().contains("may not be lost"),
        "{}",
        refused.err
    );
    let compilations = site.vpdp(&name).unwrap()["compilations"]["begun"].as_u64();
    while is_running() {
        assert!(began.elapsed() < Duration::from_secs(600));
        std::thread::sleep(Duration::from_millis(200));
    }
    let outcome = is_exact(&running.finish());
    let (seconds, pairs) = (&outcome["seconds"], &outcome["pairs"]);
    println!("{seconds} s, {pairs} pairs, {compilations:?} compilations");
    assert!(compilations > Some(updates() as u64 / 2));
    // One load, and no other: the reducer has begun once.
    assert_eq!(outcome["restarts"], 0);
    assert_eq!(outcome["attempts"], 1);
    assert_eq!(outcome["retried_mappers"], 0);
    wait_for_router_alone(&site);
    let (sent, received) = traffic.stop();
    assert!(sent > 0 && received == sent, "{received} of {sent}");
}

//! New C code under traffic: state stays, no packet is lost, and workers hardly pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foreign::{HandlerState, LoadError, LoadOptions};
use ir::Program;
use packet::{Frame, Nanos};
use switch::Worker;

use crate::common::{cache, compile, device_with, engines, program};

/// The handler gives its version, and the calls of this worker and of all.
fn counting() -> Arc<Program> {
    let declarations = r#"
extern h: handler request req {a: bit<8>} response res {version: bit<32>, mine: bit<64>, all: bit<64>}
"#;
    let ingress = r#"    stage ingress.call: action next ingress.after {
        call remote on h ({hdr.h.a}, out {hdr.h.version, hdr.h.mine, hdr.h.all});
    }
    stage ingress.after: action next end {
        sm.egress_spec = 9w0x1;
    }"#;
    let fields = "    a: bit<8>;
    version: bit<32>;
    mine: bit<64>;
    all: bit<64>;";
    program(fields, declarations, ingress)
}

const BYTES: usize = 21;

fn code(version: u32) -> String {
    let text = r#"
#include <stdatomic.h>
CLIP_STATE(uint64_t, calls);
CLIP_SHARED(_Atomic uint64_t, all);
int h(clip_t *c, const struct req *q, struct res *r)
{
    (void)q;
    r->version = VERSION;
    r->mine = ++*clip_state(c, calls);
    r->all = atomic_fetch_add(clip_state(c, all), 1) + 1;
    return CLIP_OK;
}
"#;
    text.replace("VERSION", &version.to_string())
}

/// Observations of a worker's thread.
#[derive(Default)]
struct Seen {
    packets: u64,
    /// Times from the last burst on one version to the end of the first one on the next.
    pauses: Vec<Duration>,
    bursts: Vec<Duration>,
}

/// Sends packets until the test is done. Each must come back, and count.
fn send(mut worker: Worker, version: &AtomicU64, is_done: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut last = (0, Instant::now());
    while !is_done.load(Relaxed) {
        let mut frames: Vec<Frame> = (0..32)
            .map(|_| Frame::from_bytes(&[0; BYTES]).unwrap())
            .collect();
        let (before, mut newest) = (seen.packets, 0);
        let begin = Instant::now();
        worker.forward(&mut frames, Nanos(seen.packets), |_, frame, _| {
            let bytes = frame.bytes();
            let number = |at: usize, len: usize| {
                let bytes = bytes[at..at + len].iter();
                bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
            };
            seen.packets += 1;
            newest = number(1, 4);
            assert_eq!(number(5, 8), seen.packets, "a worker's own variable");
            assert!(number(13, 8) >= seen.packets, "the shared variable");
        });
        assert_eq!(seen.packets, before + 32, "all come back");
        match newest == last.0 {
            true => seen.bursts.push(begin.elapsed()),
            false if last.0 > 0 => seen.pauses.push(last.1.elapsed()),
            false => {}
        }
        version.fetch_max(newest, Relaxed);
        last = (newest, Instant::now());
    }
    seen
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the number of objects of the tests that are in memory, of those with this version's
/// code or another one's.
fn objects() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let cache = cache().display().to_string();
    let mut objects: Vec<&str> = maps
        .lines()
        .filter_map(|line| line.find(&cache).map(|at| &line[at..]))
        .collect();
    objects.sort_unstable();
    objects.dedup();
    objects.len()
}

#[test]
fn new_code_takes_over_the_state_under_traffic_and_no_packet_is_lost() {
    if std::env::var_os(CHILD).is_none() {
        // Other tests have objects of their own in memory.
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "reload::new_code_takes_over_the_state_under_traffic_and_no_packet_is_lost";
        let output = command
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        eprintln!("{text}");
        return;
    }
    let program = counting();
    let versions: Vec<_> = (1..=12)
        .map(|v| compile(&program, &code(v), "cc"))
        .collect();
    for engine in engines() {
        let state = HandlerState::default();
        let mut device = device_with(&program, &versions[0], &state, &engine);
        let workers = device.workers(2);
        let seen_by = [AtomicU64::new(0), AtomicU64::new(0)];
        let is_done = AtomicBool::new(false);
        let seen: Vec<Seen> = std::thread::scope(|scope| {
            let threads: Vec<_> = workers
                .into_iter()
                .zip(&seen_by)
                .map(|(worker, version)| scope.spawn(|| send(worker, version, &is_done)))
                .collect();
            for (compiled, number) in versions.iter().zip(1u64..) {
                std::thread::sleep(Duration::from_millis(20));
                let natives =
                    foreign::load(compiled, &program, &state, &LoadOptions::default()).unwrap();
                device.set_handlers(&natives);
                drop(natives);
                device.publish();
                while seen_by.iter().any(|seen| seen.load(Relaxed) < number) {
                    std::thread::yield_now();
                }
            }
            // The device frees what its workers no longer use. The engine was loaded with the first
            // code, and workers use the last one.
            let start = Instant::now();
            while objects() != 2 {
                assert!(start.elapsed() < Duration::from_secs(10), "{}", objects());
                std::thread::sleep(Duration::from_millis(5));
                device.step(Nanos::ZERO);
            }
            is_done.store(true, Relaxed);
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let packets: u64 = seen.iter().map(|seen| seen.packets).sum();
        let bursts = seen.iter().flat_map(|seen| seen.bursts.clone()).collect();
        let pauses: Vec<Duration> = seen.into_iter().flat_map(|seen| seen.pauses).collect();
        assert_eq!(pauses.len(), 2 * (versions.len() - 1));
        let pause = median(pauses);
        eprintln!(
            "{}: {packets} packets; medians: {pause:?} from the last burst on the old code to the \
             end of the first one on the new code, {:?} for a burst",
            engine.name(),
            median(bursts)
        );
        assert!(pause <= Duration::from_millis(1), "{pause:?}");
    }
}

/// Variable of the process in which the test has only its own objects.
const CHILD: &str = "FOREIGN_TEST_RELOAD";

#[test]
fn code_that_would_lose_a_variable_is_refused_before_it_runs() {
    let program = counting();
    let state = HandlerState::default();
    let first = compile(&program, &code(1), "cc");
    foreign::load(&first, &program, &state, &LoadOptions::default()).unwrap();
    let opened = |text: &str| foreign::open(&compile(&program, text, "cc"), &program).unwrap();
    let larger = code(2)
        .replace("uint64_t, calls", "struct { uint64_t n[2]; }, calls")
        .replace("++*clip_state(c, calls)", "++clip_state(c, calls)->n[0]");
    let removed = code(2).replace("calls", "others");
    for (text, name) in [(larger, "calls"), (removed, "calls")] {
        let opened = opened(&text);
        let error = opened.check(&state, false).unwrap_err();
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        assert!(matches!(
            error,
            LoadError::ChangedVariable { .. } | LoadError::RemovedVariable { .. }
        ));
        opened.check(&state, true).unwrap();
    }
    assert_eq!(state.names(), ["all", "calls"]);
}

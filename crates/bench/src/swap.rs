//! Measures the effect of program changes on forwarding. One worker forwards at a fraction of its
//! maximum rate, while its program is repeatedly replaced.
//!
//! Packets arrive at fixed times, independent of the worker, into a ring like that of a network
//! card. Each has a sequence number and should be sent exactly once. So lost, duplicated and
//! reordered packets are detected. The *pause* of a change is the excess thread time
//! (`CLOCK_THREAD_CPUTIME_ID`) of the burst that switches to the new program. Preemption on a busy
//! machine is not part of it. *Gaps* are the times between the starts of two bursts. They include
//! the pause. They are reported by wall clock and by thread time, and also for a run without
//! changes. If only the wall clock shows a gap, the thread was preempted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos};
use rustix::time::{ClockId, clock_gettime};
use support::rng::Rng;
use switch::{Device, MayLose, MigrationMode, Worker};

use crate::Workload;
use crate::measure::quantile;

/// Number of different packets.
const TEMPLATES: usize = 4096;

/// Capacity of the receive ring, in frames. Excess frames are dropped, as by a network card.
const RING: u64 = 4096;

/// Maximum number of frames per burst.
const BURST: usize = 64;

/// Number of bursts recorded per block of memory. A growing list would be copied while packets
/// wait.
const NOTED: usize = 1 << 16;

/// Length of a packet's sequence number, which is at its end, in bytes.
const NUMBER: usize = 8;

/// Configuration of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct SwapPlan {
    /// Number of program changes.
    pub swaps: usize,
    /// Load, as a fraction of the worker's maximum rate.
    pub load: f64,
    /// Duration of the measurement of the maximum rate, and of the run without changes.
    pub time: Duration,
}

/// Quantiles of values, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        Spread {
            p50: quantile(&mut values, 0.5),
            p99: quantile(&mut values, 0.99),
            p999: quantile(&mut values, 0.999),
            max: quantile(&mut values, 1.0),
        }
    }
}

/// Packet counters of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Packets received by the worker.
    pub taken: u64,
    /// Packets not sent.
    pub lost: u64,
    /// Packets sent after a later one, or twice.
    pub reordered: u64,
    /// Packets dropped because the ring was full.
    pub missed: u64,
}

/// Results of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct SwapReport {
    /// Maximum rate of the worker in million packets per second, including packet generation.
    pub mpps: f64,
    /// Rate of the load, in million packets per second.
    pub load_mpps: f64,
    /// Number of changes that the worker has seen.
    pub swaps: usize,
    /// Number of entries on the device, before and after.
    pub entries: (usize, usize),
    /// Pause: thread time of the burst that switches to a new program, minus the normal time of
    /// its packets.
    pub pause: Spread,
    /// Thread time of that burst.
    pub swap_burst: Spread,
    /// Thread time of all other bursts.
    pub other_burst: Spread,
    /// Gaps between bursts by wall clock, with changes.
    pub gaps: Spread,
    /// Gaps between bursts by wall clock, without changes.
    pub quiet_gaps: Spread,
    /// Gaps between bursts by thread time, with changes.
    pub own_gaps: Spread,
    /// Gaps between bursts by thread time, without changes.
    pub quiet_own_gaps: Spread,
    /// Packets of the run with changes.
    pub fates: Fates,
    /// Packets of the run without changes.
    pub quiet_fates: Fates,
    /// Time in which the device migrates the state and publishes the new program, on its own
    /// thread.
    pub adopt: Spread,
    /// Time in which a new program is compiled and loaded in the background.
    pub compile: Spread,
}

/// Measures program changes on this device, which must have all of the workload's entries. `make`
/// creates the device that replaces the current one.
///
/// # Errors
/// A message with the reason for which it cannot be measured.
pub fn measure_swaps(
    device: &mut Device,
    workload: &dyn Workload,
    plan: &SwapPlan,
    make: &mut dyn FnMut(usize) -> Result<Device, String>,
    tell: &mut dyn FnMut(f64),
) -> Result<SwapReport, String> {
    let templates = templates(device, workload)?;
    let worker = device
        .workers(1)
        .pop()
        .ok_or("the device has workers already")?;
    let mut station = SwapWorker::new(worker, templates);
    let (is_over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let entries = |device: &Device| {
        let tables = device.configuration().tables.values();
        tables.map(|table| table.len()).sum::<usize>()
    };
    let before = entries(device);
    std::thread::scope(|scope| {
        let (worker_ends, taken) = (&is_over, &taken);
        let runs = scope.spawn(move || {
            // If threads cannot be pinned, the results vary more, but are still valid.
            let _ = port::pin_to_core(0);
            let mut for_a_while = |at| at > plan.time;
            let nobody = AtomicU64::new(0);
            station.run(Load::Full, &mut for_a_while, &nobody);
            let full = station.run(Load::Full, &mut for_a_while, &nobody);
            let rate = full.fates.taken as f64 / full.time.as_secs_f64() * plan.load;
            let quiet = station.run(Load::Rate(rate), &mut for_a_while, &nobody);
            // Signals that the changes may begin.
            taken.store(1, Ordering::Release);
            let mut is_over = |_| worker_ends.load(Ordering::Acquire);
            let swapped = station.run(Load::Rate(rate), &mut is_over, taken);
            Runs {
                full,
                quiet,
                swapped,
                rate,
            }
        });
        let _ = port::pin_to_core(1);
        let has_ended = || runs.is_finished();
        let changed = change(device, plan.swaps, make, taken, &has_ended, tell);
        is_over.store(true, Ordering::Release);
        let runs = runs.join().map_err(|_| "the worker has failed")?;
        let (compile, adopt) = changed?;
        let conserved = device.check_conservation();
        conserved.map_err(|error| error.to_string())?;
        let after = entries(device);
        Ok(report(&runs, (before, after), compile, adopt))
    })
}

struct Runs {
    full: Run,
    quiet: Run,
    swapped: Run,
    rate: f64,
}

fn report(runs: &Runs, entries: (usize, usize), compile: Vec<f64>, adopt: Vec<f64>) -> SwapReport {
    let others = runs
        .swapped
        .bursts()
        .filter(|burst| !burst.takes_root && burst.frames > 0);
    let mut each: Vec<f64> = others
        .clone()
        .map(|burst| burst.cpu / f64::from(burst.frames))
        .collect();
    let of_packet = quantile(&mut each, 0.5);
    let taking = || runs.swapped.bursts().filter(|burst| burst.takes_root);
    let pause = taking().map(|burst| (burst.cpu - of_packet * f64::from(burst.frames)).max(0.0));
    let mpps = |run: &Run| run.fates.taken as f64 / run.time.as_secs_f64() / 1e6;
    let gaps = |run: &Run, time: fn(&Burst) -> f64| {
        let next = run.bursts().skip(1);
        let gaps = run.bursts().zip(next);
        Spread::of(gaps.map(|(one, next)| time(next) - time(one)).collect())
    };
    let wall = |run: &Run| gaps(run, |burst| burst.begin);
    let own = |run: &Run| gaps(run, |burst| burst.cpu_begin);
    SwapReport {
        mpps: mpps(&runs.full),
        load_mpps: runs.rate / 1e6,
        swaps: taking().count(),
        entries,
        pause: Spread::of(pause.collect()),
        swap_burst: Spread::of(taking().map(|burst| burst.cpu).collect()),
        other_burst: Spread::of(others.map(|burst| burst.cpu).collect()),
        gaps: wall(&runs.swapped),
        quiet_gaps: wall(&runs.quiet),
        own_gaps: own(&runs.swapped),
        quiet_own_gaps: own(&runs.quiet),
        fates: runs.swapped.fates,
        quiet_fates: runs.quiet.fates,
        adopt: Spread::of(adopt),
        compile: Spread::of(compile),
    }
}

/// Changes the program repeatedly, each time after the worker has switched to the previous one.
/// Returns the times of compilation and of adoption.
fn change(
    device: &mut Device,
    swaps: usize,
    make: &mut dyn FnMut(usize) -> Result<Device, String>,
    taken: &AtomicU64,
    has_ended: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(f64),
) -> Result<(Vec<f64>, Vec<f64>), String> {
    let (mut compile, mut adopt) = (Vec::new(), Vec::new());
    let wait_for = |count: u64| {
        while taken.load(Ordering::Acquire) < count {
            if has_ended() {
                return Err("the worker has ended".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    };
    wait_for(1)?;
    for number in 0..swaps {
        tell(number as f64 / swaps as f64);
        let begin = Instant::now();
        let next = make(number)?;
        compile.push(micros(begin.elapsed()));
        let begin = Instant::now();
        let adopted = device.adopt(next, MigrationMode::State(MayLose::Nothing));
        adopted.map_err(|refused| refused.to_string())?;
        device.publish();
        adopt.push(micros(begin.elapsed()));
        wait_for(number as u64 + 2)?;
    }
    Ok((compile, adopt))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the processor time of this thread, in microseconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Returns packets of the normal traffic that are each sent exactly once, with their last bytes
/// unchanged.
fn templates(device: &mut Device, workload: &dyn Workload) -> Result<Vec<Frame>, String> {
    let mut choices = Rng::new(1);
    let mut templates = Vec::new();
    let mut frame = Frame::new();
    for number in 0..TEMPLATES as u64 * 4 {
        workload.packet(&mut choices, &mut frame);
        let mut template = Frame::from_bytes(frame.bytes()).map_err(|error| error.to_string())?;
        template.ingress = frame.ingress;
        put_number(&mut template, number);
        let mut sent = Vec::new();
        let mut burst = [Frame::from_bytes(template.bytes()).map_err(|error| error.to_string())?];
        burst[0].ingress = template.ingress;
        device.forward(&mut burst, Nanos(number), |_, frame, _| {
            sent.push(number_of(frame))
        });
        if sent == [number] {
            templates.push(template);
        }
        if templates.len() == TEMPLATES {
            return Ok(templates);
        }
    }
    Err(
        "the program lets too few packets of the usual traffic through with their last bytes"
            .to_owned(),
    )
}

fn put_number(frame: &mut Frame, number: u64) {
    if let Some(at) = frame.len().checked_sub(NUMBER) {
        frame.bytes_mut()[at..].copy_from_slice(&number.to_be_bytes());
    }
}

fn number_of(frame: &Frame) -> u64 {
    let bytes = frame.bytes();
    let last = bytes.last_chunk::<NUMBER>();
    last.map_or(u64::MAX, |number| u64::from_be_bytes(*number))
}

/// Arrival of packets.
#[derive(Clone, Copy)]
enum Load {
    /// As fast as the worker receives them.
    Full,
    /// Packets per second.
    Rate(f64),
}

/// A burst. Times are in microseconds.
struct Burst {
    begin: f64,
    /// Thread time at the start.
    cpu_begin: f64,
    cpu: f64,
    frames: u32,
    /// True if the worker switched to a newly published snapshot.
    takes_root: bool,
}

struct Run {
    time: Duration,
    /// Blocks of bursts. All except the last are full.
    bursts: Vec<Vec<Burst>>,
    fates: Fates,
}

impl Run {
    fn bursts(&self) -> impl Iterator<Item = &Burst> + Clone {
        self.bursts.iter().flatten()
    }
}

/// Records a burst. Earlier records are not moved.
fn note(bursts: &mut Vec<Vec<Burst>>, burst: Burst) {
    match bursts.last_mut() {
        Some(last) if last.len() < NOTED => last.push(burst),
        _ => {
            let mut next = Vec::with_capacity(NOTED);
            next.push(burst);
            bursts.push(next);
        }
    }
}

struct SwapWorker {
    worker: Worker,
    templates: Vec<Frame>,
    frames: Vec<Frame>,
    /// Sequence number of the next packet.
    next: u64,
    start: Instant,
}

impl SwapWorker {
    fn new(worker: Worker, templates: Vec<Frame>) -> SwapWorker {
        SwapWorker {
            worker,
            templates,
            frames: (0..BURST).map(|_| Frame::new()).collect(),
            next: 0,
            start: Instant::now(),
        }
    }

    fn run(
        &mut self,
        load: Load,
        is_over: &mut dyn FnMut(Duration) -> bool,
        taken: &AtomicU64,
    ) -> Run {
        let begin = Instant::now();
        let mut bursts = Vec::new();
        let mut fates = Fates::default();
        let (first, mut came) = (self.next, 0);
        let mut expected = first;
        loop {
            let at = begin.elapsed();
            if is_over(at) {
                break;
            }
            let count = match load {
                Load::Full => BURST as u64,
                Load::Rate(rate) => {
                    let due = (at.as_secs_f64() * rate) as u64;
                    let waiting = due - came;
                    let missed = waiting.saturating_sub(RING);
                    fates.missed += missed;
                    came += missed;
                    waiting.min(RING).min(BURST as u64)
                }
            };
            if count == 0 {
                std::hint::spin_loop();
                continue;
            }
            came += count;
            self.fill(count as usize);
            let now = Nanos::from(self.start.elapsed());
            let publications = self.worker.publications();
            let cpu_begin = cpu();
            let (fates, expected) = (&mut fates, &mut expected);
            let frames = &mut self.frames[..count as usize];
            self.worker.forward(frames, now, |_, frame, _| {
                let number = number_of(frame);
                match number.cmp(expected) {
                    std::cmp::Ordering::Less => fates.reordered += 1,
                    _ => {
                        fates.lost += number - *expected;
                        *expected = number + 1;
                    }
                }
            });
            let spent = cpu() - cpu_begin;
            fates.taken += count;
            let takes_root = self.worker.publications() != publications;
            if takes_root {
                taken.fetch_add(1, Ordering::Release);
            }
            let burst = Burst {
                begin: micros(at),
                cpu_begin,
                cpu: spent,
                frames: count as u32,
                takes_root,
            };
            note(&mut bursts, burst);
        }
        fates.lost += self.next - expected;
        Run {
            time: begin.elapsed(),
            bursts,
            fates,
        }
    }

    fn fill(&mut self, count: usize) {
        for frame in &mut self.frames[..count] {
            let template = &self.templates[self.next as usize % self.templates.len()];
            frame.copy_from(template);
            frame.ingress = template.ingress;
            put_number(frame, self.next);
            self.next += 1;
        }
    }
}

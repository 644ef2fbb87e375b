//! What a change of program costs the packets that pass meanwhile: one worker forwards at a share of its rate, while a program takes another one's
//! place again and again.
//!
//! Packets come at fixed times, whatever the worker does, into a ring as a network card has it. Each carries a number, and is known to leave once: a
//! packet that is lost, doubled or overtaken is seen. The *pause* of a change is the time of the worker's thread on its core (`CLOCK_THREAD_CPUTIME_ID`)
//! in the burst that takes the new program, beyond what its packets take otherwise: what a busy machine does to the thread is not in it. *Gaps*, which it
//! is in, are between the begins of two bursts on the wall's clock, and by the time of the worker's thread, and are told of a run without changes, too:
//! where a gap is of the clock alone, the thread was not on its core.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos};
use rustix::time::{ClockId, clock_gettime};
use switch::{Carry, Device, MayLose, Worker};

use crate::measure::quantile;
use crate::{Choices, Workload};

/// Different packets.
const TEMPLATES: usize = 4096;

/// Frames that wait for the worker at most; more are missed, as a network card misses them.
const RING: u64 = 4096;

/// Frames that the worker takes at once, at most.
const BURST: usize = 64;

/// Bursts that are noted in one piece of memory: a list that grew would be copied while packets wait.
const NOTED: usize = 1 << 16;

/// Bytes of a packet's number, at its end.
const NUMBER: usize = 8;

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct SwapPlan {
    /// How often the program is changed.
    pub swaps: usize,
    /// The load, as a share of the rate that the worker reaches.
    pub load: f64,
    /// How long to find out the rate, and to measure without changes.
    pub time: Duration,
}

/// Shares of values, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub p50: f64,
    /// Of a hundred, the second largest or so.
    pub p99: f64,
    /// Of a thousand.
    pub p999: f64,
    /// The largest.
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

/// What became of the packets of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Packets that the worker took.
    pub taken: u64,
    /// Packets that did not leave.
    pub lost: u64,
    /// Packets that left behind a later one of theirs, or twice.
    pub reordered: u64,
    /// Packets that found the ring full.
    pub missed: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SwapReport {
    /// Million packets a second that the worker reaches, the generator included.
    pub mpps: f64,
    /// The same under load.
    pub load_mpps: f64,
    /// Changes that were made.
    pub swaps: usize,
    /// Entries on the device, before and after.
    pub entries: (usize, usize),
    /// Thread time of the burst that takes a new program, beyond what its packets take otherwise.
    pub pause: Spread,
    /// Thread time of that burst as a whole.
    pub swap_burst: Spread,
    /// Thread time of all other bursts.
    pub other_burst: Spread,
    /// Gaps between bursts on the wall's clock, with changes.
    pub gaps: Spread,
    /// The same without changes.
    pub quiet_gaps: Spread,
    /// Gaps between bursts by the time of the worker's thread, with changes.
    pub own_gaps: Spread,
    /// The same without changes.
    pub quiet_own_gaps: Spread,
    /// Packets of the run with changes.
    pub fates: Fates,
    /// Packets of the run without.
    pub quiet_fates: Fates,
    /// How long the device took to take state over and publish, on its own thread.
    pub adopt: Spread,
    /// How long a new program took to be compiled and loaded beside.
    pub compile: Spread,
}

/// Measures changes of the program on this device, which has all of the workload's entries. `make` makes the next device to take its place.
///
/// # Errors
/// A line that says why it cannot be measured.
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
    let mut station = Station::new(worker, templates);
    let (is_over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let entries = |device: &Device| {
        let tables = device.configuration().tables.values();
        tables.map(|table| table.len()).sum::<usize>()
    };
    let before = entries(device);
    std::thread::scope(|scope| {
        let (worker_ends, taken) = (&is_over, &taken);
        let runs = scope.spawn(move || {
            // Where threads cannot be pinned the figures are less even, and still right.
            let _ = port::pin_to_core(0);
            let mut for_a_while = |at| at > plan.time;
            let nobody = AtomicU64::new(0);
            station.run(Load::Full, &mut for_a_while, &nobody);
            let full = station.run(Load::Full, &mut for_a_while, &nobody);
            let rate = full.fates.taken as f64 / full.time.as_secs_f64() * plan.load;
            let quiet = station.run(Load::Rate(rate), &mut for_a_while, &nobody);
            // The changes begin.
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

/// Changes the program, each time when the worker has taken the one before; how long compiling and taking over took.
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
        let adopted = device.adopt(next, Carry::State(MayLose::Nothing));
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

/// The time that this thread has had, in microseconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Packets of the usual traffic that leave once each, with their numbers in their last bytes.
fn templates(device: &mut Device, workload: &dyn Workload) -> Result<Vec<Frame>, String> {
    let mut choices = Choices::new(1);
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

/// How packets come.
#[derive(Clone, Copy)]
enum Load {
    /// As fast as the worker takes them.
    Full,
    /// So many a second.
    Rate(f64),
}

/// A burst, in microseconds.
struct Burst {
    begin: f64,
    /// The thread's time at the begin.
    cpu_begin: f64,
    cpu: f64,
    frames: u32,
    /// Whether the worker took what was published.
    takes_root: bool,
}

struct Run {
    time: Duration,
    /// All but the last have no room left.
    bursts: Vec<Vec<Burst>>,
    fates: Fates,
}

impl Run {
    fn bursts(&self) -> impl Iterator<Item = &Burst> + Clone {
        self.bursts.iter().flatten()
    }
}

/// Notes a burst; what was noted stays where it is.
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

struct Station {
    worker: Worker,
    templates: Vec<Frame>,
    frames: Vec<Frame>,
    /// The number of the next packet.
    next: u64,
    start: Instant,
}

impl Station {
    fn new(worker: Worker, templates: Vec<Frame>) -> Station {
        Station {
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

//! The sides of a measurement: engines, the hand-written loop, a wire.

use std::sync::Arc;

use bench::measure::Side;
use bench::{Bare, Forward, OnDevice, OnWorker, Reading, SentFrames, Workload, compare, configure};
use command::engine;
use exec::Engine;
use ir::Program;
use packet::{Frame, Nanos};
use runtime::trace_filter::{PacketFilter, PacketTracer, SamplingRate, TraceCounts};
use switch::{Device, Worker};

/// Number of packets on which a device is compared with a loop.
const COMPARED: u64 = 20_000;

/// Name of native code made for the contents of the tables.
pub(super) const SPECIALISED: &str = "specialised";
/// Name of the hand-written loop, which serves as the upper bound.
pub(super) const HAND: &str = "hand";
/// Name of the engine for native code.
const NATIVE: &str = "jit";
const BARE: &str = "bare";

/// Checks the names of sides.
///
/// # Errors
/// A line that lists the known sides.
pub(super) fn check_names(names: &[String]) -> Result<(), String> {
    let engines = engine::all();
    let engines = engines.iter().map(|engine| engine.name());
    let known: Vec<&str> = engines.chain([SPECIALISED, HAND, BARE]).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!(
            "there is no engine \"{name}\": there are {}",
            known.join(", ")
        )),
    }
}

/// Sides by worker. The devices live as long as their workers.
pub(super) struct Sides {
    /// One list of sides per worker.
    pub(super) workers: Vec<Vec<Side>>,
    devices: Vec<Device>,
}

/// Selection of sides.
pub(super) struct Wanted<'w> {
    /// Names of the sides; all sides if empty.
    pub(super) names: &'w [String],
    /// Number of threads.
    pub(super) workers: usize,
    /// PacketFilter for traced packets. If present, each engine has a second side that traces.
    pub(super) traced: Option<Arc<PacketFilter>>,
}

impl Wanted<'_> {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    fn engines(&self) -> impl Iterator<Item = Box<dyn Engine>> {
        let engines = engine::all().into_iter();
        engines.filter(|engine| self.wants(engine.name()))
    }

    /// Returns the engine that makes code for the contents of tables, if that is a wanted side.
    fn specialising(&self) -> Option<Box<dyn Engine>> {
        let mut engines = engine::all().into_iter();
        engines.find(|engine| engine.name() == NATIVE && self.wants(SPECIALISED))
    }

    /// Returns the sides of a built-in program. Each device is compared with the hand-written
    /// loop.
    ///
    /// # Errors
    /// The sides cannot be set up, or give different results.
    pub(super) fn built_in(
        &self,
        program: &Arc<Program>,
        workload: &dyn Workload,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Sides, String> {
        let mut sides = Sides::new(self.workers);
        tell("fills tables");
        let configured = configure(program, |setup| workload.setup(program, setup));
        let mut tables = configured.map_err(|error| error.to_string())?;
        let mut hand = || {
            let hand = workload.hand_over(&mut tables);
            hand.map_err(|error| error.to_string())
        };
        for engine in self.engines() {
            let name = engine.name();
            tell(&format!("fills tables for {name}"));
            let mut device = OnDevice::load(program, engine.as_ref(), workload)
                .map_err(|error| format!("{}: {name}: {error}", workload.name()))?;
            tell(&format!("compares {name} with the loop"));
            compare(workload, COMPARED, &mut device, &mut *hand()?).map_err(|difference| {
                let program = workload.name();
                format!("{program}: {name} and the loop written by hand disagree: {difference}")
            })?;
            sides.add_device(name, device.0, self.traced.is_some());
            if let Some(filter) = &self.traced {
                let device = OnDevice::load(program, engine.as_ref(), workload)
                    .map_err(|error| format!("{}: {name}: {error}", workload.name()))?;
                sides.add_traced(name, device.0, filter);
            }
        }
        if let Some(engine) = self.specialising() {
            tell("specialises code");
            let mut device = OnDevice::load(program, engine.as_ref(), workload)
                .map_err(|error| format!("{}: {SPECIALISED}: {error}", workload.name()))?;
            if specialise(&mut device.0)? {
                compare(workload, COMPARED, &mut device, &mut *hand()?).map_err(|difference| {
                    let program = workload.name();
                    format!("{program}: {SPECIALISED} and the loop written by hand disagree: {difference}")
                })?;
                sides.add_device(SPECIALISED, device.0, false);
            }
        }
        if self.wants(HAND) {
            for worker in &mut sides.workers {
                worker.push(Side {
                    name: HAND.to_string(),
                    forward: hand()?,
                });
            }
        }
        sides.add_bare(self);
        Ok(sides)
    }

    /// Returns the sides of a program of the user, for which there is no hand-written loop.
    /// `load` creates a device.
    ///
    /// # Errors
    /// A device cannot be created.
    pub(super) fn own<E>(
        &self,
        mut load: impl FnMut(&dyn Engine) -> Result<Device, E>,
    ) -> Result<Sides, E> {
        let mut sides = Sides::new(self.workers);
        for engine in self.engines() {
            let name = engine.name();
            sides.add_device(name, load(engine.as_ref())?, self.traced.is_some());
            if let Some(filter) = &self.traced {
                sides.add_traced(name, load(engine.as_ref())?, filter);
            }
        }
        if let Some(engine) = self.specialising() {
            let mut device = load(engine.as_ref())?;
            // A program that cannot be specialised has no such side.
            if specialise(&mut device).unwrap_or(false) {
                sides.add_device(SPECIALISED, device, false);
            }
        }
        sides.add_bare(self);
        Ok(sides)
    }
}

/// Lets a device run code made for the contents of its tables. Returns false if nothing of use is
/// known about them.
fn specialise(device: &mut Device) -> Result<bool, String> {
    let job = device
        .specialisation_job()
        .map_err(|error| error.to_string())?;
    let Some(job) = job else {
        return Ok(false);
    };
    let made = job.run().map_err(|error| error.to_string())?;
    Ok(device.adopt_specialised(made))
}

impl Sides {
    fn new(workers: usize) -> Sides {
        Sides {
            workers: (0..workers).map(|_| Vec::new()).collect(),
            devices: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, forward: impl Iterator<Item = Box<dyn Forward + Send>>) {
        for (worker, forward) in self.workers.iter_mut().zip(forward) {
            worker.push(Side {
                name: name.to_string(),
                forward,
            });
        }
    }

    /// Adds a device. A single thread drives the device directly unless `by_workers` is true;
    /// several threads use workers.
    fn add_device(&mut self, name: &str, mut device: Device, by_workers: bool) {
        if self.workers.len() == 1 && !by_workers {
            let side: Box<dyn Forward + Send> = Box::new(OnDevice(device));
            return self.add(name, std::iter::once(side));
        }
        let workers = device.workers(self.workers.len()).into_iter();
        self.add(
            name,
            workers.map(|worker| Box::new(OnWorker(worker)) as Box<dyn Forward + Send>),
        );
        self.devices.push(device);
    }

    /// Adds a device with workers that trace the packets of a filter.
    fn add_traced(&mut self, name: &str, mut device: Device, filter: &Arc<PacketFilter>) {
        let tally = Arc::new(TraceCounts::new(None));
        let workers = device.workers(self.workers.len()).into_iter().enumerate();
        let watching = workers.map(|(number, worker)| {
            let shown = Arc::clone(&tally);
            let watch = PacketTracer::new(number, filter, SamplingRate::EVERY, &tally, move |_| {
                shown.shown()
            });
            Box::new(Watching { worker, watch }) as Box<dyn Forward + Send>
        });
        self.add(&format!("{name}, traced"), watching);
        self.devices.push(device);
    }

    fn add_bare(&mut self, wanted: &Wanted<'_>) {
        if wanted.wants(BARE) {
            let wires = std::iter::repeat_with(|| Box::new(Bare) as Box<dyn Forward + Send>);
            self.add(BARE, wires);
        }
    }
}

/// A worker with a packet tracer. The traces are discarded.
struct Watching {
    worker: Worker,
    watch: PacketTracer,
}

impl Forward for Watching {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        let mut sent = |port, frame: &mut Frame, _: Nanos| out.take(port, frame);
        self.watch.forward(&mut self.worker, frames, now, &mut sent);
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

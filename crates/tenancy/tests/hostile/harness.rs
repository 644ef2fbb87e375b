//! A victim and a hostile neighbour on one worker, and checks of the victim's service.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use exec::{
    ControlVerdict, DropReason, Engine, Loaded, Natives, PacketContext, ParserVerdict, State,
    Tracer, Unsupported,
};
use packet::{Frame, Nanos};
use tenancy::{CycleUse, EstimatedCost, Fairness, TenantSwitch, Worker};

use crate::common::{frame, hypervisor, id, marker, spec};

/// Cost model of a 1.25 GHz processor, of which 1 GHz is available for packets: 1,000 cycles per
/// packet and per recirculation.
pub(crate) const COST: EstimatedCost = EstimatedCost {
    per_packet: 1000,
    per_pass: 1000,
};
pub(crate) const FAIRNESS: Fairness = Fairness {
    interval: Nanos::from_micros(100),
    cycles_per_second: 1_000_000_000,
    quantum: Nanos::from_micros(4),
};

/// Bursts of a run, and the time between them in nanoseconds: a fiftieth of a second in all.
pub(crate) const BURSTS: u64 = 1000;
pub(crate) const BETWEEN_BURSTS: u64 = 20_000;

/// The victim's share in packets, which is half of the capacity of a run, and the capacity in
/// cycles.
pub(crate) const GUARANTEED: u64 = 10_000;
pub(crate) const CYCLES: u64 = 20_000_000;

/// Cycle accounting that also sums the cycles of all vPDPs.
pub(crate) struct Summed {
    reckoned: EstimatedCost,
    /// Cycles that packets used in parsers, if these are measured.
    inside: Arc<AtomicU64>,
    sum: Arc<Mutex<u64>>,
}

impl tenancy::CycleAccounting for Summed {
    fn begin(&mut self) {
        self.reckoned.begin();
        self.inside.store(0, Relaxed);
    }

    fn end(&mut self, work: CycleUse) -> u64 {
        let cycles = self.reckoned.end(work) + self.inside.load(Relaxed);
        *self.sum.lock().unwrap() += cycles;
        cycles
    }
}

/// The interpreter, with the parsers' work units counted: one cycle per step.
pub(crate) struct Metered(Arc<AtomicU64>);

/// Cost of a packet without its parser's single state, so that the total is [`COST`].
pub(crate) const BESIDE_PARSER: EstimatedCost = EstimatedCost {
    per_packet: 1000 - ir::work::STEPS_PER_UNIT,
    per_pass: 1000 - ir::work::STEPS_PER_UNIT,
};

pub(crate) struct MeteredCode(Arc<dyn Loaded>, Arc<AtomicU64>);

impl Engine for Metered {
    fn name(&self) -> &'static str {
        "metered"
    }

    fn load(
        &self,
        program: &Arc<ir::Program>,
        layout: &ir::Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let loaded = interp::Interp.load(program, layout, natives)?;
        Ok(Arc::new(MeteredCode(loaded, Arc::clone(&self.0))))
    }
}

impl Loaded for MeteredCode {
    fn scratch_limbs(&self) -> usize {
        self.0.scratch_limbs()
    }

    fn prepare(&self, packet: &mut PacketContext) {
        self.0.prepare(packet);
    }

    fn run_parser(
        &self,
        parser: ir::ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict {
        let before = packet.work_left;
        let verdict = self.0.run_parser(parser, packet, state);
        let units = u64::from(before - packet.work_left);
        self.1.fetch_add(units * ir::work::STEPS_PER_UNIT, Relaxed);
        verdict
    }

    fn run_control(
        &self,
        control: ir::ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        self.0.run_control(control, packet, state)
    }

    fn trace_parser(
        &self,
        parser: ir::ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        self.0.trace_parser(parser, packet, state, tracer)
    }

    fn trace_control(
        &self,
        control: ir::ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        self.0.trace_control(control, packet, state, tracer)
    }
}

/// The victim, vPDP 1 on ports 10 and 11, and the hog, vPDP 2 on ports 20 and 21, on one worker
/// with fair sharing.
pub(crate) struct HostileTest {
    pub(crate) hypervisor: TenantSwitch,
    pub(crate) worker: Worker,
    pub(crate) cycles: Arc<Mutex<u64>>,
    pub(crate) now: u64,
    /// Time at which the processor has finished all work so far.
    pub(crate) is_free: u64,
}

/// Result of a run.
pub(crate) struct Outcome {
    pub(crate) victim: u64,
    pub(crate) cycles: u64,
    /// Median time from arrival to service of the victim's packets, in nanoseconds.
    pub(crate) wait: u64,
}

impl HostileTest {
    pub(crate) fn new(hog: Arc<ir::Program>) -> HostileTest {
        HostileTest::of(hypervisor(), hog, COST, Arc::default())
    }

    /// Creates a test in which the parsers' work counts.
    pub(crate) fn metered(hog: Arc<ir::Program>) -> HostileTest {
        let inside = Arc::new(AtomicU64::new(0));
        let engine = Arc::new(Metered(Arc::clone(&inside)));
        HostileTest::of(TenantSwitch::new(engine), hog, BESIDE_PARSER, inside)
    }

    pub(crate) fn of(
        mut hypervisor: TenantSwitch,
        hog: Arc<ir::Program>,
        reckoned: EstimatedCost,
        inside: Arc<AtomicU64>,
    ) -> HostileTest {
        for (number, program) in [(1, marker(1)), (2, hog)] {
            let first = u32::from(number) * 10;
            hypervisor
                .create(spec(number, &[first, first + 1]))
                .unwrap();
            hypervisor.load(id(number), program).unwrap();
        }
        hypervisor.set_fairness(Some(FAIRNESS));
        let mut worker = hypervisor.workers(1).remove(0);
        let cycles = Arc::new(Mutex::new(0));
        worker.measure_by(Summed {
            reckoned,
            inside,
            sum: Arc::clone(&cycles),
        });
        HostileTest {
            hypervisor,
            worker,
            cycles,
            now: 0,
            is_free: 0,
        }
    }

    /// Sends 10 packets of the victim, its guaranteed rate, and `hog_packets` of `bytes` bytes of
    /// the hog in each burst. `beside` runs between bursts.
    pub(crate) fn run(
        &mut self,
        hog_packets: usize,
        bytes: usize,
        mut beside: impl FnMut(&mut TenantSwitch, u64),
    ) -> Outcome {
        let mut waits = Vec::new();
        let packet = vec![0; bytes];
        for round in 0..BURSTS {
            self.now += BETWEEN_BURSTS;
            // New packets wait until all earlier work is finished.
            let begin = self.is_free.max(self.now);
            let mut frames: Vec<Frame> = (0..hog_packets).map(|_| frame(20, &packet)).collect();
            frames.extend((0..10).map(|number| frame(10, &[0, number])));
            let (cycles, came) = (Arc::clone(&self.cycles), self.now);
            let spent = move || *cycles.lock().unwrap();
            let before = spent();
            self.worker.forward(&mut frames, Nanos(came), |port, _, _| {
                if port.0 == 11 {
                    waits.push(begin - came + nanos(spent() - before));
                }
            });
            self.is_free = begin + nanos(*self.cycles.lock().unwrap() - before);
            beside(&mut self.hypervisor, round);
        }
        let now = Nanos(self.now);
        self.worker.forward(&mut [], now, |_, _, _| {});
        self.hypervisor.step(now, |_, _, _| {});
        self.hypervisor.check_conservation().unwrap();
        let cycles = *self.cycles.lock().unwrap();
        waits.sort_unstable();
        Outcome {
            victim: waits.len() as u64,
            cycles,
            wait: waits[waits.len() / 2],
        }
    }

    pub(crate) fn dropped(&self, number: u16, reason: DropReason) -> u64 {
        let vpdp = self.hypervisor.vpdp(id(number)).unwrap();
        vpdp.device().unwrap().ledger().dropped(reason)
    }
}

/// Returns the time of these cycles in nanoseconds.
pub(crate) fn nanos(cycles: u64) -> u64 {
    cycles * 4 / 5
}

/// Cycles of the victim's ten packets of a burst.
pub(crate) const OWN: u64 = 10_000;

/// Checks that the victim got at least 0.95 of its share, and that the processor had at most a
/// twentieth more work than its capacity.
pub(crate) fn check_share(outcome: &Outcome) {
    let Outcome { victim, cycles, .. } = outcome;
    assert!(victim * 100 >= GUARANTEED * 95, "{victim} of {GUARANTEED}");
    assert!(*cycles <= CYCLES / 100 * 105, "{cycles} cycles");
}

/// Checks the share, and that the victim's median latency is at most a tenth longer than beside a
/// neighbour within its own share.
pub(crate) fn check(outcome: &Outcome) {
    check_share(outcome);
    static DEFAULT: OnceLock<u64> = OnceLock::new();
    let usual = *DEFAULT.get_or_init(|| {
        let usual = HostileTest::new(marker(2)).run(10, 60, |_, _| {});
        assert_eq!(usual.victim, GUARANTEED);
        usual.wait
    });
    let [latency, usual] = [outcome.wait, usual].map(|wait| wait + nanos(OWN));
    assert!(latency * 10 <= usual * 11, "{latency} ns, usually {usual}");
}

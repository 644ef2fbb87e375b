//! Hostile neighbours: what one virtual data plane does costs itself, and leaves another one its share and its latency. Costs are reckoned, not timed,
//! so that a run says the same on every machine; they are a worker's, so that what runs on other threads (compilers, the control side) costs it what
//! it makes the worker do, and not the processor that both may run on.

mod common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use common::{frame, hypervisor, id, marker, port, program, spec};
use exec::{
    ControlVerdict, DropReason, Engine, Loaded, Natives, PacketContext, ParserVerdict, State,
    Tracer, Unsupported, WorkBudget,
};
use packet::{Frame, Nanos, PortId};
use switch::{Action, Change, TableEntry};
use tenancy::{CompileError, Fairness, Hypervisor, Quotas, Rate, Reckoned, Work, Worker};

/// The processor of these tests: 1.25 GHz, of which packets may have a gigahertz; a packet takes 1,000 cycles, and each pass after its first as many.
const COST: Reckoned = Reckoned {
    per_packet: 1000,
    per_pass: 1000,
};
const FAIRNESS: Fairness = Fairness {
    interval: Nanos::from_micros(100),
    cycles_per_second: 1_000_000_000,
    quantum: Nanos::from_micros(4),
};

/// Bursts of a run, and the time between them: a fiftieth of a second.
const BURSTS: u64 = 1000;
const BETWEEN_BURSTS: u64 = 20_000;

/// Half of what the processor can do in a run is the victim's share: packets and cycles.
const GUARANTEED: u64 = 10_000;
const CYCLES: u64 = 20_000_000;

/// A gauge that also sums what it told, for all vPDPs: what the processor did.
struct Summed {
    reckoned: Reckoned,
    /// Cycles of what packets do inside, where that is looked at.
    inside: Arc<AtomicU64>,
    sum: Arc<Mutex<u64>>,
}

impl tenancy::Gauge for Summed {
    fn begin(&mut self) {
        self.reckoned.begin();
        self.inside.store(0, Relaxed);
    }

    fn end(&mut self, work: Work) -> u64 {
        let cycles = self.reckoned.end(work) + self.inside.load(Relaxed);
        *self.sum.lock().unwrap() += cycles;
        cycles
    }
}

/// The interpreter, with the units of work that packets take in parsers counted, at a cycle a step.
struct Metered(Arc<AtomicU64>);

/// What a packet of a program takes beside its parser's one state, so that it takes as much as [`COST`] says.
const BESIDE_PARSER: Reckoned = Reckoned {
    per_packet: 1000 - ir::work::STEPS_PER_UNIT,
    per_pass: 1000 - ir::work::STEPS_PER_UNIT,
};

struct MeteredCode(Arc<dyn Loaded>, Arc<AtomicU64>);

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

/// The victim, vPDP 1 on ports 10 and 11, and the hog, vPDP 2 on ports 20 and 21, on one worker that is shared fairly.
struct Scene {
    hypervisor: Hypervisor,
    worker: Worker,
    cycles: Arc<Mutex<u64>>,
    now: u64,
    /// When the processor has done what came so far.
    is_free: u64,
}

/// What came out of a run.
struct Outcome {
    victim: u64,
    cycles: u64,
    /// The median of the time from a victim's packets' arrival until their turn, in nanoseconds.
    wait: u64,
}

impl Scene {
    fn new(hog: Arc<ir::Program>) -> Scene {
        Scene::of(hypervisor(), hog, COST, Arc::default())
    }

    /// A scene in which parsers' work counts.
    fn metered(hog: Arc<ir::Program>) -> Scene {
        let inside = Arc::new(AtomicU64::new(0));
        let engine = Arc::new(Metered(Arc::clone(&inside)));
        Scene::of(Hypervisor::new(engine), hog, BESIDE_PARSER, inside)
    }

    fn of(
        mut hypervisor: Hypervisor,
        hog: Arc<ir::Program>,
        reckoned: Reckoned,
        inside: Arc<AtomicU64>,
    ) -> Scene {
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
        Scene {
            hypervisor,
            worker,
            cycles,
            now: 0,
            is_free: 0,
        }
    }

    /// The victim sends ten packets each time, its guaranteed rate, the hog as many packets of so many bytes each time; `beside` is done between bursts.
    fn run(
        &mut self,
        hog_packets: usize,
        bytes: usize,
        mut beside: impl FnMut(&mut Hypervisor, u64),
    ) -> Outcome {
        let mut waits = Vec::new();
        let packet = vec![0; bytes];
        for round in 0..BURSTS {
            self.now += BETWEEN_BURSTS;
            // What comes waits until all before it is done.
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

    fn dropped(&self, number: u16, reason: DropReason) -> u64 {
        let vpdp = self.hypervisor.vpdp(id(number)).unwrap();
        vpdp.device().unwrap().ledger().dropped(reason)
    }
}

/// The time that cycles take.
fn nanos(cycles: u64) -> u64 {
    cycles * 4 / 5
}

/// Cycles of the victim's ten packets of a burst.
const OWN: u64 = 10_000;

/// The victim had at least 0.95 of its share, and the processor no more work than it can do, a twentieth aside.
fn check_share(outcome: &Outcome) {
    let Outcome { victim, cycles, .. } = outcome;
    assert!(victim * 100 >= GUARANTEED * 95, "{victim} of {GUARANTEED}");
    assert!(*cycles <= CYCLES / 100 * 105, "{cycles} cycles");
}

/// Its packets also took, in the median, no more than a tenth longer than beside a neighbour that asks for its own share and no more.
fn check(outcome: &Outcome) {
    check_share(outcome);
    static USUAL: OnceLock<u64> = OnceLock::new();
    let usual = *USUAL.get_or_init(|| {
        let usual = Scene::new(marker(2)).run(10, 60, |_, _| {});
        assert_eq!(usual.victim, GUARANTEED);
        usual.wait
    });
    let [latency, usual] = [outcome.wait, usual].map(|wait| wait + nanos(OWN));
    assert!(latency * 10 <= usual * 11, "{latency} ns, usually {usual}");
}

/// Starts every packet over behind egress, for ever.
fn recirculator() -> Arc<ir::Program> {
    common::program_with_egress(
        "apply { standard.egress_spec = 1; }",
        "apply { recirculate_preserving_field_list(1); }",
    )
}

#[test]
fn endless_resubmission_and_recirculation_cost_the_one_that_starts_over() {
    for hog in [common::resubmitter(), recirculator()] {
        for packets in [1, 20] {
            let mut scene = Scene::new(Arc::clone(&hog));
            check(&scene.run(packets, 60, |_, _| {}));
            assert!(scene.dropped(2, DropReason::FairShare) > 0);
            assert_eq!(scene.dropped(1, DropReason::FairShare), 0);
        }
    }
}

#[test]
fn a_worker_whose_packets_wait_for_their_share_says_when_it_has_come() {
    let mut scene = Scene::new(common::resubmitter());
    // What the other's share is in an interval is less than a packet's passes take.
    let quotas = Quotas {
        weight: 9,
        ..Quotas::default()
    };
    scene.hypervisor.set_quotas(id(1), quotas).unwrap();
    scene.run(1, 60, |_, _| {});
    let Scene {
        mut hypervisor,
        mut worker,
        mut now,
        ..
    } = scene;
    // The victim still counts in the interval that is going on.
    let (mut calls, mut waited) = (0, 0);
    while let Some(next) = worker.next_time() {
        waited += u64::from(next.0 > now);
        now = now.max(next.0);
        worker.forward(&mut [], Nanos(now), |_, _, _| {});
        calls += 1;
        assert!(calls < 10_000);
    }
    assert!(waited > 0);
    hypervisor.step(Nanos(now), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
    let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
    assert_eq!(device.held(), 0);
}

#[test]
fn packets_that_start_over_go_on_behind_those_of_others() {
    let Scene {
        mut hypervisor,
        mut worker,
        cycles,
        ..
    } = Scene::new(recirculator());
    hypervisor.set_fairness(None);
    // A rate that is never reached: what has none is not gauged.
    let quotas = Quotas {
        packets: Some(Rate {
            per_second: 1_000_000_000,
            burst: 1_000_000,
        }),
        ..Quotas::default()
    };
    hypervisor.set_quotas(id(2), quotas).unwrap();
    let mut before = 0;
    for round in 1..200 {
        let mut frames = [frame(20, &[0, 0]), frame(10, &[0, 0])];
        let mut victim = None;
        let spent = || *cycles.lock().unwrap();
        worker.forward(&mut frames, Nanos(round), |port, _, _| {
            if port.0 == 11 {
                victim = Some(spent() - before);
            }
        });
        // A packet and its passes, and a burst's, each both of those that were inside and of the one that came.
        assert!(
            victim.unwrap() <= 2 * COST.per_pass * (64 + 8 + 1),
            "{victim:?}"
        );
        before = spent();
    }
    assert!(before > 0);
    hypervisor.step(Nanos(200), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
}

#[test]
fn who_comes_after_a_hog_does_not_owe_what_it_used() {
    let mut scene = Scene::new(common::resubmitter());
    scene.run(20, 60, |_, _| {});
    let Scene {
        mut hypervisor,
        mut worker,
        now,
        ..
    } = scene;
    let mut send = |hypervisor: &mut Hypervisor| {
        let sent = common::forward(&mut worker, &mut [frame(20, &[0, 0])], now);
        hypervisor.step(Nanos(now), |_, _, _| {});
        sent.len()
    };
    assert_eq!(send(&mut hypervisor), 0);
    hypervisor.delete(id(2)).unwrap();
    assert_eq!(send(&mut hypervisor), 0);
    hypervisor.create(spec(3, &[20, 21])).unwrap();
    hypervisor.load(id(3), marker(3)).unwrap();
    assert_eq!(send(&mut hypervisor), 1);
}

#[test]
fn passes_that_start_over_are_paid_for_when_they_have_a_quota() {
    let mut scene = Scene::new(common::resubmitter());
    let quotas = Quotas {
        passes: Some(Rate {
            per_second: 10_000,
            burst: 100,
        }),
        ..Quotas::default()
    };
    scene.hypervisor.set_quotas(id(2), quotas).unwrap();
    check_share(&scene.run(1, 60, |_, _| {}));
    let ledger = scene
        .hypervisor
        .vpdp(id(2))
        .unwrap()
        .device()
        .unwrap()
        .ledger();
    // A fiftieth of a second's, the burst, and the last packet's.
    let longest = ledger.resubmitted / ledger.dropped(DropReason::WorkBudget);
    assert!(
        ledger.resubmitted <= 200 + 100 + longest,
        "{}",
        ledger.resubmitted
    );
    assert!(scene.dropped(2, DropReason::PassQuota) > 0);
}

#[test]
fn passes_of_packets_that_waited_in_queues_are_paid_for_too() {
    let quotas = |rate| Quotas {
        passes: Some(rate),
        ..Quotas::default()
    };
    let cycles = |rate| Quotas {
        cycles: Some(rate),
        ..Quotas::default()
    };
    let few = |burst| Rate {
        per_second: 1,
        burst,
    };
    // More than a packet and its first passes cost, less than twenty passes.
    let cases = [
        (quotas(few(5)), DropReason::PassQuota),
        (cycles(few(5_000)), DropReason::CycleQuota),
    ];
    for (quotas, reason) in cases {
        let Scene {
            mut hypervisor,
            mut worker,
            ..
        } = Scene::new(recirculator());
        hypervisor.set_fairness(None);
        hypervisor.set_quotas(id(2), quotas).unwrap();
        let slow = switch::QueueConfig {
            packets_per_second: Some(1000),
            ..Default::default()
        };
        let device = hypervisor.device_mut(id(2)).unwrap();
        device.apply(Change::SetQueue(PortId(1), slow)).unwrap();
        device.publish();
        common::forward(&mut worker, &mut [frame(20, &[0, 0])], 0);
        for millis in 1..20 {
            common::forward(&mut worker, &mut [], millis * 1_000_000);
        }
        let ledger = |hypervisor: &Hypervisor| {
            let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
            device.ledger()
        };
        assert!(ledger(&hypervisor).recirculated > 10);
        common::forward(&mut worker, &mut [frame(20, &[0, 0])], 20_000_000);
        assert_eq!(ledger(&hypervisor).dropped(reason), 1);
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn cycles_have_a_quota_too() {
    let mut scene = Scene::new(marker(2));
    let quotas = Quotas {
        cycles: Some(Rate {
            per_second: 100_000_000,
            burst: 100_000,
        }),
        ..Quotas::default()
    };
    scene.hypervisor.set_quotas(id(2), quotas).unwrap();
    let outcome = scene.run(9, 60, |_, _| {});
    assert_eq!(outcome.victim, GUARANTEED);
    let hog = outcome.cycles - outcome.victim * 1000;
    assert!((1_980_000..=2_120_000).contains(&hog), "{hog} cycles");
    assert!(scene.dropped(2, DropReason::CycleQuota) > 0);
}

#[test]
fn the_largest_packets_at_full_rate_leave_the_victim_its_share() {
    let mut scene = Scene::new(marker(2));
    check(&scene.run(54, packet::MAX_FRAME, |_, _| {}));
    assert!(scene.dropped(2, DropReason::FairShare) > 0);
}

#[test]
fn hammered_registers_leave_the_victim_its_own() {
    let hammer = program(
        "register<bit<32>>(64) r;
         apply {
             bit<32> v;
             r.read(v, 0); r.write(0, v + 1);
             r.read(v, 1); r.write(1, v + 1);
             r.read(v, 2); r.write(2, v + 1);
             standard.egress_spec = 1;
         }",
    );
    let mut scene = Scene::new(hammer);
    let outcome = scene.run(54, 60, |_, _| {});
    check(&outcome);
    let device = scene.hypervisor.vpdp(id(1)).unwrap().device().unwrap();
    let seen = device.read_register(ir::ExternId::new(0), 0).unwrap();
    assert_eq!(seen[0].to_u64(), Some(outcome.victim));
}

/// An entry of the hog's table, whose key has so many bits.
fn entry(width: u32, key: u64) -> Change {
    let entry = TableEntry {
        keys: vec![ir::KeyMatch::Exact(bits::Value::truncated(
            key.into(),
            width,
        ))],
        priority: None,
        action: Action::Call(ir::ActionCall {
            action: 0,
            args: Vec::new(),
        }),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    Change::Insert(ir::TableId::new(0), entry)
}

#[test]
fn a_table_filled_to_the_brim_and_churned_leaves_the_victim_its_share() {
    let churned = program(
        "action a() { standard.egress_spec = 1; }
         table t { key = { hdr.h.mark ++ hdr.h.number : exact @name(\"key\"); } actions = { a; } size = 256; default_action = a(); }
         apply { t.apply(); }",
    );
    let mut scene = Scene::new(churned);
    let quotas = Quotas {
        limits: switch::Limits {
            entries: Some(200),
            ..Default::default()
        },
        ..Quotas::default()
    };
    scene.hypervisor.set_quotas(id(2), quotas).unwrap();
    let mut refused = 0;
    let outcome = scene.run(54, 60, |hypervisor, round| {
        let device = hypervisor.device_mut(id(2)).unwrap();
        for key in 0..4 {
            if device.apply(entry(16, round * 4 + key)).is_err() {
                refused += 1;
                let oldest = device.configuration().tables[ir::TableId::new(0)]
                    .iter()
                    .next();
                let oldest = oldest.map(|entry| entry.id).unwrap();
                device
                    .apply(Change::Delete(ir::TableId::new(0), oldest))
                    .unwrap();
            }
        }
        device.publish();
    });
    check(&outcome);
    assert!(refused > 500);
    assert!(scene.hypervisor.device_mut(id(2)).unwrap().entries() <= 200);
}

/// A program whose parser is this.
fn parsing(states: &str) -> Arc<ir::Program> {
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>

header h_t {{ bit<8> mark; }}
struct headers_t {{ h_t[256] h; }}
struct metadata_t {{}}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ {states} }}
control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{ standard.egress_spec = 1; }} }}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{}} }}
control Compute(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#
    );
    testkit::compile_text(&text).unwrap()
}

#[test]
fn packets_that_are_long_to_parse_leave_the_victim_its_own() {
    let stack = parsing(
        "state start {
             packet.extract(hdr.h.next);
             transition select(hdr.h.last.mark) { 0: start; default: accept; }
         }",
    );
    let mut scene = Scene::metered(stack);
    let outcome = scene.run(20, 250, |_, _| {});
    check(&outcome);
    assert!(scene.dropped(2, DropReason::FairShare) > 0);
    // Each took its 250 states.
    let vpdp = scene.hypervisor.vpdp(id(2)).unwrap();
    let sent = vpdp.device().unwrap().ledger().sent;
    let hog = outcome.cycles - outcome.victim * 1000;
    assert!(sent > 0 && hog > sent * 250 * ir::work::STEPS_PER_UNIT);
}

/// Parses the first byte for ever.
fn endless_parser() -> Arc<ir::Program> {
    parsing(
        "state start { transition select(packet.lookahead<bit<8>>()) { 0: start; default: accept; } }",
    )
}

/// Quotas that say how many units of work a packet may do.
fn work(budget: WorkBudget) -> Quotas {
    let mut quotas = Quotas::default();
    quotas.limits.work = Some(budget);
    quotas
}

#[test]
fn a_parser_without_end_leaves_the_victim_its_own_where_packets_may_do_little() {
    for packets in [1, 20] {
        let mut scene = Scene::metered(endless_parser());
        let quotas = work(WorkBudget::LEAST);
        scene.hypervisor.set_quotas(id(2), quotas).unwrap();
        check(&scene.run(packets, 60, |_, _| {}));
        assert!(scene.dropped(2, DropReason::WorkBudget) > 0);
    }
}

#[test]
fn a_parser_without_end_takes_what_packets_of_vpdps_may_do_and_no_more() {
    let mut scene = Scene::metered(endless_parser());
    let outcome = scene.run(20, 60, |_, _| {});
    check_share(&outcome);
    assert!(scene.dropped(2, DropReason::FairShare) > 0);
    let (hog, packets) = (
        outcome.cycles - outcome.victim * 1000,
        scene.dropped(2, DropReason::WorkBudget),
    );
    let most = u64::from(tenancy::WORK_OF_A_PACKET.units()) * ir::work::STEPS_PER_UNIT;
    assert!(hog <= packets * (most + 1000), "{hog} for {packets}");
    assert!(hog > packets * most / 2, "{hog} for {packets}");
}

#[test]
fn a_packet_has_the_work_that_its_quota_says_on_every_engine() {
    let skipping = parsing(
        "state start { packet.advance(8); transition select(packet.lookahead<bit<8>>()) { 0: start; default: accept; } }",
    );
    // So many states.
    let mut bytes = [0; 600];
    bytes[599] = 1;
    for engine in testkit::engines() {
        let name = engine.name();
        let mut hypervisor = Hypervisor::new(engine);
        hypervisor.create(spec(2, &[20, 21])).unwrap();
        hypervisor.load(id(2), Arc::clone(&skipping)).unwrap();
        let mut worker = hypervisor.workers(1).remove(0);
        let mut sent = |hypervisor: &mut Hypervisor, quotas| {
            hypervisor.set_quotas(id(2), quotas).unwrap();
            let mut frames: Vec<Frame> = (0..8).map(|_| frame(20, &bytes)).collect();
            common::forward(&mut worker, &mut frames, 0).len()
        };
        let enough = WorkBudget::new(1024).unwrap();
        assert_eq!(sent(&mut hypervisor, Quotas::default()), 8, "{name}");
        assert_eq!(sent(&mut hypervisor, work(WorkBudget::LEAST)), 0, "{name}");
        assert_eq!(sent(&mut hypervisor, work(enough)), 8, "{name}");
        let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
        let dropped = device.ledger().dropped(DropReason::WorkBudget);
        assert_eq!(dropped, 8, "{name}");
        // The next program is held to it, too.
        hypervisor
            .set_quotas(id(2), work(WorkBudget::LEAST))
            .unwrap();
        hypervisor.unload(id(2)).unwrap();
        hypervisor.load(id(2), Arc::clone(&skipping)).unwrap();
        let kept = work(WorkBudget::LEAST);
        assert_eq!(sent(&mut hypervisor, kept), 0, "{name}");
    }
}

#[test]
fn a_program_that_compiles_slowly_leaves_the_victim_its_own() {
    let mut scene = Scene::new(marker(2));
    let time = Duration::from_millis(1);
    let mut quotas = Quotas::default();
    quotas.compile.time = Some(time);
    scene.hypervisor.set_quotas(id(2), quotas).unwrap();
    let compiler = scene.hypervisor.compiler(id(2)).unwrap();
    let (go_on, wait) = mpsc::channel::<()>();
    let mut wait = Some(wait);
    let mut refusals = Vec::new();
    let outcome = scene.run(54, 60, |_, _| {
        let wait = wait.take();
        let slow = move |_: &str| {
            // Ends when the test says so.
            wait.map(|wait| wait.recv());
            Err("slow".to_owned())
        };
        refusals.push(compiler.compile(String::new(), slow).unwrap_err());
    });
    check(&outcome);
    // Waited for once, and as long as the quota says.
    assert_eq!(refusals[0], CompileError::TooSlow(time));
    let busy = |refusal: &CompileError| *refusal == CompileError::Busy;
    assert!(refusals[1..].iter().all(busy));
    drop(go_on);
}

#[test]
fn floods_from_and_to_controllers_leave_the_victim_its_own() {
    let talker = program(
        "action a() { standard.egress_spec = 1; }
         table t { key = { hdr.h.number : exact; } actions = { a; } size = 256; default_action = a(); }
         apply { digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); digest<bit<8>>(1, hdr.h.mark); log_msg(\"mark {}\", { hdr.h.mark }); t.apply(); }",
    );
    let mut scene = Scene::new(talker);
    let mut left = 0;
    let outcome = scene.run(54, 60, |hypervisor, round| {
        let device = hypervisor.device_mut(id(2)).unwrap();
        for _ in 0..16 {
            device.receive(PortId(0), &[0, 0]).unwrap();
        }
        let key = round % 256;
        let inserted = device.apply(entry(8, key)).unwrap().unwrap();
        // All packets are to see it at once, and then that it is gone.
        device
            .between_bursts(|_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap();
        device
            .apply(Change::Delete(ir::TableId::new(0), inserted))
            .unwrap();
        device
            .between_bursts(|_| Ok::<(), ()>(()))
            .unwrap()
            .unwrap();
        hypervisor.step(Nanos(round * BETWEEN_BURSTS), |port, _, _| {
            left += u64::from(port.0 == 21);
        });
    });
    check(&outcome);
    assert_eq!(left, BURSTS * 16);
    // Nobody takes what it tells: there is room for some, and the rest is counted.
    let device = scene.hypervisor.device_mut(id(2)).unwrap();
    assert!(device.lost_messages() > 0);
}

/// Sends 64 copies of every packet by port 1.
fn multiplier() -> Arc<ir::Program> {
    program("apply { standard.mcast_grp = 1; }")
}

fn copies() -> Change {
    let copy = |instance| switch::Replica {
        port: PortId(1),
        instance,
    };
    Change::SetMulticast(1, (0..64).map(copy).collect())
}

/// Makes vPDP 3 on port 30, and links it with vPDP 2 in a loop that multiplies copies.
fn link_in_a_loop(hypervisor: &mut Hypervisor) {
    let mut third = spec(3, &[30]);
    third.ports.push(tenancy::Connection::Open);
    hypervisor.create(third).unwrap();
    hypervisor.load(id(3), multiplier()).unwrap();
    for number in [2, 3] {
        let device = hypervisor.device_mut(id(number)).unwrap();
        device.apply(copies()).unwrap();
        device.publish();
    }
    hypervisor.connect(port(2, 1), None).unwrap();
    hypervisor.link(port(2, 1), port(3, 1)).unwrap();
}

#[test]
fn copies_that_multiply_over_a_loop_of_links_leave_the_victim_its_share() {
    let mut scene = Scene::new(multiplier());
    link_in_a_loop(&mut scene.hypervisor);
    let mut worker = scene.worker;
    let mut victim = 0;
    let rounds = 3;
    for round in 1..=rounds {
        let mut frames = vec![frame(20, &[0, 0]), frame(10, &[0, 0])];
        let now = Nanos(round * 1_000_000);
        worker.forward(&mut frames, now, |port, _, _| {
            victim += u64::from(port.0 == 11);
        });
        worker.forward(&mut [], now, |_, _, _| {});
    }
    scene.hypervisor.check_conservation().unwrap();
    assert_eq!(victim, rounds);
    for number in [2, 3] {
        let ledger = scene.hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        let ledger = ledger.ledger();
        assert!(ledger.sent <= rounds * (4096 + 2 * 4), "{}", ledger.sent);
        assert!(ledger.dropped(DropReason::LinkHops) > 0, "{number}");
    }
}

#[test]
fn packets_on_a_loop_of_links_come_to_rest_also_where_others_were_postponed() {
    let mut scene = Scene::new(multiplier());
    link_in_a_loop(&mut scene.hypervisor);
    let mut worker = scene.worker;
    for round in 1..=4 {
        // More of the third one's than a visit takes, and some over the loop; the victim's ask, too.
        let mut frames: Vec<Frame> = (0..100).map(|_| frame(30, &[0, 0])).collect();
        frames.extend([frame(20, &[0, 0]), frame(10, &[0, 0])]);
        worker.forward(&mut frames, Nanos(round * 60_000), |_, _, _| {});
    }
    let postponed = scene.hypervisor.vpdp(id(3)).unwrap().device().unwrap();
    assert!(postponed.held() > 0, "nothing was postponed");
    let mut rounds = 0;
    while worker.next_time().is_some() {
        rounds += 1;
        assert!(rounds < 300, "packets go round for ever");
        worker.forward(&mut [], Nanos(1_000_000 + rounds * 1_000_000), |_, _, _| {});
    }
    scene.hypervisor.check_conservation().unwrap();
}

#[test]
fn copies_of_the_control_side_do_not_multiply_either() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(2, &[20, 21])).unwrap();
    hypervisor.load(id(2), multiplier()).unwrap();
    link_in_a_loop(&mut hypervisor);
    let device = hypervisor.device_mut(id(2)).unwrap();
    device.receive(PortId(0), &[0, 0]).unwrap();
    hypervisor.step(Nanos(1), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
    for number in [2, 3] {
        let ledger = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        let ledger = ledger.ledger();
        assert!(ledger.sent <= 4096, "{}", ledger.sent);
        assert!(ledger.dropped(DropReason::LinkHops) > 0, "{number}");
    }
}

#[test]
fn a_change_between_bursts_waits_for_no_packets_of_another_vpdp() {
    let Scene {
        mut hypervisor,
        mut worker,
        ..
    } = Scene::new(marker(2));
    let mut changed = 0;
    let mut frames = [frame(10, &[0, 0]), frame(20, &[0, 0])];
    worker.forward(&mut frames, Nanos(1), |port, _, _| {
        // In the midst of the packets of the other one.
        let other = if port.0 == 11 { 2 } else { 1 };
        let device = hypervisor.device_mut(id(other)).unwrap();
        let done = device.between_bursts(|_| Ok::<(), ()>(()));
        assert_eq!(done, Ok(Ok(())));
        changed += 1;
    });
    assert_eq!(changed, 2);
}

#[test]
fn packets_of_a_vpdp_that_is_being_changed_keep_no_others_waiting() {
    for (changed, others) in [(1, 21), (2, 11)] {
        let Scene {
            mut hypervisor,
            mut worker,
            ..
        } = Scene::new(marker(2));
        let (begun, begins) = mpsc::channel();
        let (sends, sent) = mpsc::channel();
        let thread = thread::spawn(move || {
            begins.recv().unwrap();
            let mut frames = [frame(10, &[0, 0]), frame(20, &[0, 0])];
            let mut send = |port: PortId, _: &mut Frame, _| sends.send(port.0).unwrap();
            worker.forward(&mut frames, Nanos(1), &mut send);
            // What waits for the change goes on when that is made.
            while worker.next_time().is_some() {
                worker.forward(&mut [], Nanos(2), &mut send);
            }
        });
        let device = hypervisor.device_mut(id(changed)).unwrap();
        let first = device.between_bursts(|_| {
            begun.send(()).unwrap();
            sent.recv_timeout(Duration::from_secs(20))
        });
        assert_eq!(first, Ok(Ok(others)));
        thread.join().unwrap();
        assert_eq!(sent.iter().count(), 1);
    }
}

#[test]
fn without_contention_nobody_is_limited() {
    let mut scene = Scene::new(marker(2));
    let outcome = scene.run(9, 60, |_, _| {});
    assert_eq!(outcome.victim, GUARANTEED);
    assert_eq!(scene.hypervisor.ledger().sent, 19 * BURSTS);
}

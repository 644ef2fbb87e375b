//! Virtual data planes are created, changed and deleted under traffic: no packet of the others is
//! lost or changed.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{frame, hypervisor, id, marker, spec};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::{MayLose, MigrationMode};
use tenancy::{
    Condition, Egress, HypervisorError, Quotas, Rate, Rule, Share, Sharing, TenantSwitch, VpdpId,
    Worker,
};

const OPERATIONS: usize = 1000;

/// vPDPs that no operation changes. They receive packets by ports 10 and 11, and by rules at port
/// 5.
const STEADY: [u16; 2] = [1, 2];

/// vPDPs that operations change.
const CHANGING: [u16; 6] = [3, 4, 5, 6, 7, 8];

/// Random numbers that depend on the seed alone.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        // Knuth's MMIX generator; the upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6364136223846793005);
        self.0 = self.0.wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// A switch, another one to migrate to, and programs to load.
struct ChurnTest {
    hypervisor: TenantSwitch,
    other: TenantSwitch,
    programs: Vec<Arc<Program>>,
    choices: Choices,
    /// Number of times that each operation succeeded and was refused.
    made: BTreeMap<&'static str, [u32; 2]>,
}

impl ChurnTest {
    fn new(seed: u64) -> ChurnTest {
        let mut hypervisor = hypervisor();
        // The programs send all packets with a mark, so their sources are not the senders' own.
        let share = Share {
            sharing: Sharing::Rules,
            egress: Egress::Any,
        };
        hypervisor.share_as(PortId(5), share).unwrap();
        for number in STEADY {
            hypervisor
                .create(spec(number, &[9 + u32::from(number), 5]))
                .unwrap();
            hypervisor.load(id(number), marker(number as u8)).unwrap();
        }
        let first = Rule {
            name: "steady".into(),
            vpdp: id(1),
            priority: 0,
            conditions: vec![Condition::Port(PortId(5))],
        };
        hypervisor.add_rule(first).unwrap();
        ChurnTest {
            hypervisor,
            other: common::hypervisor(),
            programs: vec![marker(30), marker(40), common::resubmitter()],
            choices: Choices(seed),
            made: BTreeMap::new(),
        }
    }

    fn program(&mut self) -> Arc<Program> {
        let chosen = self.choices.below(self.programs.len());
        Arc::clone(&self.programs[chosen])
    }

    /// Performs one random operation.
    fn operate(&mut self) {
        let vpdp = id(CHANGING[self.choices.below(CHANGING.len())]);
        let (name, done) = match self.choices.below(16) {
            0 | 1 => {
                let ports = [
                    20 + u32::from(vpdp.get()) * 2,
                    21 + u32::from(vpdp.get()) * 2,
                ];
                let spec = spec(vpdp.get(), &ports);
                ("create", self.hypervisor.create(spec).map(drop))
            }
            2 | 3 => {
                let program = self.program();
                ("load", self.hypervisor.load(vpdp, program))
            }
            4 | 12 | 13 => {
                let program = self.program();
                let carry = MigrationMode::State(MayLose::Anything);
                let updated = self.hypervisor.update(vpdp, program, carry);
                ("update", updated.map(drop))
            }
            5 | 14 | 15 => ("roll back", self.hypervisor.roll_back(vpdp).map(drop)),
            6 => ("suspend", self.hypervisor.suspend(vpdp)),
            7 => ("resume", self.hypervisor.resume(vpdp)),
            8 => ("unload", self.hypervisor.unload(vpdp)),
            9 => ("delete", self.hypervisor.delete(vpdp)),
            10 => ("migrate", self.migrate(vpdp)),
            _ => {
                let burst = self.choices.below(64) as u64 + 1;
                let quotas = Quotas {
                    packets: Some(Rate {
                        per_second: 1_000_000,
                        burst,
                    }),
                    ..Quotas::default()
                };
                ("quotas", self.hypervisor.set_quotas(vpdp, quotas))
            }
        };
        self.made.entry(name).or_default()[usize::from(done.is_err())] += 1;
    }

    /// Migrates a vPDP to the other switch and back.
    fn migrate(&mut self, vpdp: VpdpId) -> Result<(), HypervisorError> {
        let ports = self.hypervisor.ports(vpdp).to_vec();
        let exported = self.hypervisor.export(vpdp)?;
        self.hypervisor.delete(vpdp)?;
        let there = self.other.import(exported).unwrap();
        let mut back = self.other.export(there).unwrap();
        self.other.delete(there).unwrap();
        back.spec.ports = ports;
        self.hypervisor.import(back).map(drop)
    }

    fn check_that_all_was_tried(&self) {
        for (name, [made, _]) in &self.made {
            assert!(*made > 10, "{name}: made {made} times: {:?}", self.made);
        }
        assert_eq!(self.made.len(), 10);
    }
}

/// Ingress ports of the traffic, with the egress port and mark, if these are certain.
const ENTRIES: [(u32, Option<(u32, u8)>); 5] = [
    (10, Some((5, 1))),
    (11, Some((5, 2))),
    (5, Some((10, 1))),
    (26, None),
    (30, None),
];

/// Returns the frames of a burst. Packets of steady vPDPs contain their sequence number at the
/// port.
fn burst(choices: &mut Choices, counts: &mut BTreeMap<u32, u32>) -> Vec<Frame> {
    let mut frames = Vec::new();
    for _ in 0..choices.below(48) {
        let (port, _) = ENTRIES[choices.below(ENTRIES.len())];
        let count = counts.entry(port).or_default();
        let mut bytes = vec![0, port as u8];
        bytes.extend(count.to_be_bytes());
        *count += 1;
        frames.push(frame(port, &bytes));
    }
    frames
}

/// Checks sent packets: those of steady vPDPs one by one.
#[derive(Default)]
struct Receiver(BTreeMap<u32, u32>);

impl Receiver {
    fn take(&mut self, port: PortId, bytes: &[u8]) {
        let came = u32::from(bytes[1]);
        let entry = ENTRIES.iter().find(|(port, _)| *port == came).unwrap();
        let Some((leaves, mark)) = entry.1 else {
            return;
        };
        assert_eq!((port.0, bytes[0]), (leaves, mark));
        let count = self.0.entry(came).or_default();
        let number = u32::from_be_bytes(bytes[2..6].try_into().unwrap());
        assert_eq!(
            number, *count,
            "a packet from port {came} is lost, or out of order"
        );
        *count += 1;
    }

    fn check(&self, counts: &BTreeMap<u32, u32>) {
        for (port, certain) in ENTRIES {
            if certain.is_some() {
                assert_eq!(self.0.get(&port), counts.get(&port), "port {port}");
            }
        }
    }
}

#[test]
fn a_thousand_operations_lose_no_packet_of_the_others() {
    let mut test = ChurnTest::new(5);
    let mut worker = test.hypervisor.workers(1).remove(0);
    let mut counts = BTreeMap::new();
    let mut received = Receiver::default();
    for round in 0..OPERATIONS {
        let now = Nanos(round as u64 * 1000);
        test.operate();
        let mut frames = burst(&mut test.choices, &mut counts);
        let mut take = |port, frame: &mut Frame, _| received.take(port, frame.bytes());
        worker.forward(&mut frames, now, &mut take);
        worker.forward(&mut [], now, &mut take);
        test.hypervisor.step(now, |_, _, _| {});
        test.hypervisor.check_conservation().unwrap();
    }
    // Packets that were being resubmitted when their vPDP was deleted.
    let end = Nanos(OPERATIONS as u64 * 1000);
    common::finish(&mut worker, end, |port, frame| {
        received.take(port, frame.bytes());
    });
    test.hypervisor.step(end, |_, _, _| {});
    received.check(&counts);
    test.check_that_all_was_tried();
    assert_eq!(test.hypervisor.departing(), 0);
}

/// Forwards bursts until `stops` is set. Returns the number of packets received at each port.
fn run(
    mut worker: Worker,
    seed: u64,
    bursts: &AtomicU64,
    stops: &AtomicBool,
) -> BTreeMap<u32, u32> {
    let mut choices = Choices(seed);
    let mut counts = BTreeMap::new();
    let mut received = Receiver::default();
    let mut now = 0;
    while !stops.load(Ordering::Relaxed) {
        now += 1000;
        let mut frames = burst(&mut choices, &mut counts);
        let mut take = |port, frame: &mut Frame, _| received.take(port, frame.bytes());
        worker.forward(&mut frames, Nanos(now), &mut take);
        bursts.fetch_add(1, Ordering::Relaxed);
    }
    common::finish(&mut worker, Nanos(now), |port, frame| {
        received.take(port, frame.bytes());
    });
    received.check(&counts);
    counts
}

#[test]
fn operations_lose_no_packet_of_the_others_on_threads_of_their_own() {
    let mut test = ChurnTest::new(6);
    let workers = test.hypervisor.workers(2);
    let (bursts, stops) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let counts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .zip(1..)
            .map(|(worker, seed)| scope.spawn(move || run(worker, seed, bursts, stops)))
            .collect();
        for round in 0..OPERATIONS as u64 {
            // Bursts continue between operations.
            while bursts.load(Ordering::Relaxed) < 2 * round && !threads[0].is_finished() {
                thread::yield_now();
            }
            test.operate();
            test.hypervisor.step(Nanos(round), |_, _, _| {});
        }
        stops.store(true, Ordering::Relaxed);
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    test.hypervisor.step(Nanos(OPERATIONS as u64), |_, _, _| {});
    test.hypervisor.check_conservation().unwrap();
    let came: u32 = counts.iter().flat_map(BTreeMap::values).sum();
    assert_eq!(test.hypervisor.ledger().received, u64::from(came));
    assert_eq!(test.hypervisor.departing(), 0);
}

#[test]
fn nothing_of_a_switch_outlives_it_and_its_workers() {
    for workers_first in [true, false] {
        let mut hypervisor = hypervisor();
        hypervisor.create(spec(1, &[10, 11])).unwrap();
        hypervisor.load(id(1), marker(1)).unwrap();
        let mut workers = hypervisor.workers(1);
        workers[0].forward(&mut [], Nanos(1), |_, _, _| {});
        let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
        let program = Arc::downgrade(device.program());
        if workers_first {
            drop(workers);
            drop(hypervisor);
        } else {
            drop(hypervisor);
            drop(workers);
        }
        assert_eq!(program.strong_count(), 0, "workers first: {workers_first}");
    }
}

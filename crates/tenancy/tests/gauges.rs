//! Cycle accounting: the cost of service turns, and its billing.

mod common;

use common::{frame, hypervisor, id, marker, spec};
use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use tenancy::{CycleAccounting, CycleUse, Fairness, Quotas, Rate};

/// A service turn has the fixed cost of a packet.
struct Visits;

const COST: u64 = 1000;

impl CycleAccounting for Visits {
    fn begin(&mut self) {}

    fn end(&mut self, work: CycleUse) -> u64 {
        (work.packets + 1) * COST
    }

    fn visit(&self) -> u64 {
        COST
    }
}

#[test]
fn quotas_of_cycles_pay_for_whole_visits() {
    for (at_once, visits) in [(1, 10), (4, 4)] {
        let mut hypervisor = hypervisor();
        hypervisor.create(spec(1, &[10, 11])).unwrap();
        hypervisor.load(id(1), marker(1)).unwrap();
        // Ten turns of one packet, or four turns of four.
        let quotas = Quotas {
            cycles: Some(Rate {
                per_second: 1,
                burst: visits * (at_once + 1) * COST - 1,
            }),
            ..Quotas::default()
        };
        hypervisor.set_quotas(id(1), quotas).unwrap();
        let mut worker = hypervisor.workers(1).remove(0);
        worker.measure_by(Visits);
        for _ in 0..visits + 3 {
            let mut frames: Vec<Frame> = (0..at_once).map(|_| frame(10, &[0, 0])).collect();
            common::forward(&mut worker, &mut frames, 0);
        }
        common::forward(&mut worker, &mut [], 0);
        let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
        let ledger = device.ledger();
        assert_eq!(ledger.sent, visits * at_once);
        assert_eq!(ledger.dropped(DropReason::CycleQuota), 3 * at_once);
    }
}

#[test]
fn what_was_reckoned_is_forgotten_when_shares_are_another() {
    let fairness = Fairness {
        interval: Nanos::from_micros(100),
        cycles_per_second: 1_000_000_000,
        quantum: Nanos::from_micros(4),
    };
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), marker(1)).unwrap();
    hypervisor.set_fairness(Some(fairness));
    let mut worker = hypervisor.workers(1).remove(0);
    common::forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
    let other = Fairness {
        quantum: Nanos::from_micros(2),
        ..fairness
    };
    for (set, packets) in [(fairness, 1), (other, 0)] {
        hypervisor.set_fairness(Some(set));
        common::forward(&mut worker, &mut [], 2);
        assert_eq!(worker.carried(PortId(10)).work.packets, packets);
    }
}

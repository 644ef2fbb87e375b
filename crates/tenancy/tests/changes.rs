//! Packets that arrive while cells of their virtual data plane are changed atomically.

mod common;

use common::{frame, hypervisor, id, marker, spec};
use exec::{BURST, DropReason};
use packet::{Frame, Nanos, PortId};
use tenancy::{Fairness, TenantSwitch, Worker};

const FAIRNESS: Fairness = Fairness {
    interval: Nanos::from_micros(100),
    cycles_per_second: 1_000_000_000,
    quantum: Nanos::from_micros(4),
};

/// Returns the number of packets that wait in the vPDP.
fn device_holds(hypervisor: &mut TenantSwitch) -> usize {
    let device = hypervisor.device_mut(id(1));
    device.map_or(0, |device| device.held())
}

#[test]
fn packets_that_come_while_their_vpdp_is_changed_are_held_and_keep_their_order() {
    for (fairness, reason) in [
        (None, DropReason::TailDrop),
        (Some(FAIRNESS), DropReason::FairShare),
    ] {
        let mut hypervisor = hypervisor();
        hypervisor.create(spec(1, &[10, 11])).unwrap();
        hypervisor.load(id(1), marker(1)).unwrap();
        hypervisor.set_fairness(fairness);
        let mut worker = hypervisor.workers(1).remove(0);
        let mut numbers = Vec::new();
        let mut forward = |worker: &mut Worker, numbered: std::ops::Range<u16>, now| {
            let number = |number: u16| frame(10, &[0, number as u8, (number >> 8) as u8]);
            let mut frames: Vec<Frame> = numbered.map(number).collect();
            worker.forward(&mut frames, Nanos(now), |_, frame, _| {
                let bytes = frame.bytes();
                numbers.push(u16::from_le_bytes([bytes[1], bytes[2]]));
            });
        };
        let device = hypervisor.device_mut(id(1)).unwrap();
        let changed = device.between_bursts(|_| -> Result<(), ()> {
            forward(&mut worker, 0..3, 1);
            // At most 1,024 packets wait.
            assert!(worker.allow(PortId(10)) <= 1021);
            forward(&mut worker, 3..1030, 2);
            forward(&mut worker, 0..0, 3);
            Ok(())
        });
        assert_eq!(changed, Ok(Ok(())));
        let device = hypervisor.device_mut(id(1)).unwrap();
        assert_eq!((device.held(), device.ledger().sent), (1024, 0));
        assert_eq!(device.ledger().dropped(reason), 6);
        hypervisor.check_conservation().unwrap();
        assert!(worker.next_time().is_some_and(|next| next <= Nanos(3)));
        // With fair sharing, a few are processed at a time.
        let most = fairness.map_or(1024, |_| BURST);
        let mut rounds = 0;
        while device_holds(&mut hypervisor) > 0 {
            let before = device_holds(&mut hypervisor);
            rounds += 1;
            forward(&mut worker, 0..0, 3 + rounds);
            let went = before - device_holds(&mut hypervisor);
            assert!((1..=most).contains(&went), "{went} in round {rounds}");
        }
        forward(&mut worker, 2000..2003, 25);
        assert_eq!(worker.next_time(), None);
        let wanted: Vec<u16> = (0..1024).chain(2000..2003).collect();
        assert!(numbers == wanted, "{:?}", numbers.len());
        worker.forward(&mut [], Nanos(26), |_, _, _| {});
        hypervisor.check_conservation().unwrap();
    }
}

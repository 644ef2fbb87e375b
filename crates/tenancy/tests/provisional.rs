//! Updates of a virtual data plane with kept state: packets see them when they are stored.

mod common;

use common::{forward, frame, hypervisor, id, marker, marks, spec};
use switch::{Batch, Done, KeptCells, MayLose, MigrationMode, Storage};
use tenancy::{TenantSwitch, Worker};

/// Storage that takes everything.
struct Anything;

impl Storage for Anything {
    fn append(&mut self, _batch: Batch, done: Done) {
        done(Ok(()));
    }
}

const KEEP: MigrationMode = MigrationMode::State(MayLose::Nothing);

/// Returns the mark that the running program sets.
fn mark(hypervisor: &mut TenantSwitch, worker: &mut Worker, now: u64) -> u8 {
    hypervisor.step(packet::Nanos(now), |_, _, _| {});
    let sent = forward(worker, &mut [frame(10, &[0, 7])], now);
    match marks(&sent)[..] {
        [(11, mark)] => mark,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn packets_see_an_update_once_it_is_confirmed_and_never_one_that_is_undone() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), marker(1)).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let device = hypervisor.device_mut(id(1)).unwrap();
    device.keep_in(Box::new(Anything), KeptCells::default(), false);
    assert_eq!(mark(&mut hypervisor, &mut worker, 1), 1);
    let first = hypervisor.vpdp(id(1)).unwrap().given().cloned().unwrap();

    let made = hypervisor.maker(id(1)).unwrap().make(marker(2)).unwrap();
    let update = hypervisor.adopt_provisionally(made, KEEP).unwrap();
    assert!(update.migration().lines.iter().all(|line| line.lost == 0));
    assert_eq!(mark(&mut hypervisor, &mut worker, 2), 1);
    hypervisor.undo(update);
    assert_eq!(mark(&mut hypervisor, &mut worker, 3), 1);
    let vpdp = hypervisor.vpdp(id(1)).unwrap();
    assert!(std::sync::Arc::ptr_eq(vpdp.given().unwrap(), &first));
    assert!(hypervisor.before(id(1)).is_err(), "nothing ran before");

    let made = hypervisor.maker(id(1)).unwrap().make(marker(3)).unwrap();
    let update = hypervisor.adopt_provisionally(made, KEEP).unwrap();
    assert_eq!(mark(&mut hypervisor, &mut worker, 4), 1);
    assert!(hypervisor.confirm(update).is_some());
    assert_eq!(mark(&mut hypervisor, &mut worker, 5), 3);
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(mark(&mut hypervisor, &mut worker, 6), 1);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn pins_of_stages_are_set_as_they_were_returned() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    let pins = vec![("In.a".to_owned(), 2), ("In.b".to_owned(), 0)];
    hypervisor.set_pins(id(1), pins.clone());
    assert_eq!(hypervisor.pins(id(1)), pins);
    hypervisor.set_pins(id(1), []);
    assert!(hypervisor.pins(id(1)).is_empty());
}

#[test]
fn a_wiring_replaces_all_connections_if_it_fits_and_none_otherwise() {
    use common::port;
    use packet::PortId;
    use tenancy::Connection;
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.create(spec(2, &[12, 13])).unwrap();
    let first = hypervisor.wiring();
    let mut linked = first.clone();
    let link = Connection::Link;
    linked.connect(port(1, 0), link(port(2, 1))).unwrap();
    // One end of a link alone does not fit.
    assert!(hypervisor.set_wiring(linked.clone()).is_err());
    assert_eq!(hypervisor.ports(id(1))[0], Connection::Physical(PortId(10)));
    linked.connect(port(2, 1), link(port(1, 0))).unwrap();
    hypervisor.set_wiring(linked).unwrap();
    assert_eq!(hypervisor.ports(id(2))[1], link(port(1, 0)));
    hypervisor.set_wiring(first).unwrap();
    assert_eq!(hypervisor.ports(id(2))[1], Connection::Physical(PortId(13)));
    let mut twice = hypervisor.wiring();
    let taken = Connection::Physical(PortId(10));
    twice.connect(port(2, 0), taken).unwrap();
    assert!(hypervisor.set_wiring(twice).is_err());
    assert!(hypervisor.wiring().connect(port(3, 0), taken).is_err());
}

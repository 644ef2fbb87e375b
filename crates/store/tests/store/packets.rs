//! Tests of storing state that packets change: entries that they add, and optionally cells.

use std::path::Path;

use crate::common::{ALL, commit, compile, device};
use crate::switches::{code, packet, sent, v1model};
use ir::TableId;
use packet::{Nanos, PortId};
use store::Directory;
use switch::{Change, Device, KeptCells};

/// Starts a device with its state in a directory.
fn started(program: &std::sync::Arc<ir::Program>, at: &Path, cells: KeptCells) -> Device {
    let kept = Directory::open(at).and_then(|directory| directory.device(1));
    let kept = kept.expect("it is in order");
    let mut device = device(program);
    let has_it = kept.program().expect("it can be read").is_some();
    if has_it {
        kept.restore(&mut device).expect("it fits");
    }
    let keeper = kept.keep().expect("a thread");
    device.keep_in(Box::new(keeper), cells, has_it);
    device
}

/// Declares a table on `kind`. Misses add entries with expire profile 0 and go to port 2. Hits go
/// to port 1.
const LEARNING: &str = r#"
field meta.failed: bit<8>
action known(mark: bit<8>) {
    sm.egress_spec = 9w0x1;
}
action unknown() {
    call add_entry (=0, 8w0x0, {hdr.h.kind + 8w0x1}, out meta.failed);
    sm.egress_spec = 9w0x2;
}
table flows {
    key kind: exact as bit<8> = hdr.h.kind;
    action known tableonly;
    action unknown defaultonly;
    default unknown();
    size 8;
    add_on_miss;
}
"#;

/// Sends a packet of this kind and returns its egress port.
fn out(device: &mut Device, kind: u8, now: u64) -> u32 {
    device
        .receive(PortId(0), &packet(kind, &[]))
        .expect("it is short");
    device.step(Nanos(now));
    sent(device)[0].0
}

#[test]
fn entries_that_packets_add_are_there_again_until_they_expire() {
    let at = tempfile::tempdir().expect("a directory");
    let ingress = "    stage ingress.flows: match flows next end;";
    let program = v1model(LEARNING, ingress, &code("egress", ""));
    let start = || started(&program, at.path(), KeptCells::default());
    let mut device = start();
    let change = Change::SetExpireProfile(0, Some(Nanos(100)));
    device.apply(change).expect("it has profiles");
    assert_eq!(out(&mut device, 5, 10), 2);
    assert_eq!(out(&mut device, 6, 20), 2);
    // No caller waits for the changes: the steps have passed them on, and the storage finishes its
    // waiting batches.
    commit(&mut device).expect("there is room");
    drop(device);
    let mut device = start();
    let learned = |device: &Device| {
        let learned = device.configuration().learned[TableId::new(0)].as_ref();
        let mut keys: Vec<_> = learned.expect("it learns").entries();
        keys.sort_by_key(|entry| entry.id);
        keys.into_iter()
            .map(|entry| entry.key[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(learned(&device), [5, 6]);
    // Its idle time restarts with the device.
    assert_eq!(out(&mut device, 5, 60), 1);
    device.step(Nanos(100));
    assert_eq!(learned(&device), []);
    commit(&mut device).expect("there is room");
    drop(device);
    let mut device = start();
    assert_eq!(learned(&device), []);
    assert_eq!(out(&mut device, 5, 10), 2);
}

#[test]
fn cells_that_packets_write_are_kept_by_choice_and_at_intervals() {
    let program = compile(ALL);
    let externs = || program.externs.iter();
    let named = |name: &str| externs().find(|(_, one)| one.name.ends_with(name));
    let [register, counter] =
        ["numbers", "ports_counter"].map(|name| named(name).expect("it has it").0);
    let after = |cells: KeptCells| {
        let at = tempfile::tempdir().expect("a directory");
        let mut device = started(&program, at.path(), cells);
        let frame = [&[0; 12][..], &[0x99, 0x99], b"payload"].concat();
        device.receive(PortId(3), &frame).expect("it is short");
        // The interval for cells ends with this step.
        device.step(Nanos::from_millis(20));
        device.step(Nanos::from_millis(21));
        commit(&mut device).expect("there is room");
        drop(device);
        let device = started(&program, at.path(), cells);
        let counted = device.read_counter(counter, 3).expect("it has 8");
        let written = device.read_register(register, 0).expect("it has 4");
        (counted.packets, written[0].to_u64())
    };
    let every = Nanos::from_millis(10);
    let none = KeptCells {
        every,
        ..KeptCells::default()
    };
    assert_eq!(after(none), (0, Some(0)));
    assert_eq!(
        after(KeptCells {
            counters: true,
            ..none
        }),
        (1, Some(0))
    );
    assert_eq!(
        after(KeptCells {
            registers: true,
            ..none
        }),
        (0, Some(7))
    );
}

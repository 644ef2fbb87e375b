//! Stage slots of a switch: programs that do not fit are refused, long ones are split into turns,
//! and stages change under traffic.

mod common;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bits::Value;
use common::{Sent, forward, frame, id, marks, program, program_with_egress, spec};
use exec::DropReason;
use ir::Program;
use packet::Nanos;
use passes::edit::{Donor, Edit, Side};
use passes::slots::{Capacity, SlotPlan};
use switch::{Action, Change, Device, MayLose, MigrationMode};
use tenancy::{HypervisorError, Quotas, Rate, TenantSwitch, Worker};

/// Compiles a chain of tables. Each one adds an amount to the mark by default, and has `size`
/// entries.
fn line(amounts: &[u8], size: u32) -> Arc<Program> {
    let tables = amounts.iter().enumerate().map(|(at, amount)| {
        format!(
            "table t{at} {{ key = {{ hdr.h.number: exact; }} actions = {{ plus; }} default_action = plus({amount}); size = {size}; }}\n"
        )
    });
    let applied = (0..amounts.len()).map(|at| format!("t{at}.apply();"));
    program(&format!(
        "action plus(bit<8> amount) {{ hdr.h.mark = hdr.h.mark + amount; }}
         {}
         apply {{ {} standard.egress_spec = standard.ingress_port ^ 1; }}",
        tables.collect::<String>(),
        applied.collect::<String>()
    ))
}

fn slots(count: Option<u16>, capacity: Capacity) -> TenantSwitch {
    let slots = count.map(|count| NonZeroU16::new(count).unwrap());
    TenantSwitch::with_slots(Arc::new(interp::Interp), SlotPlan { slots, capacity })
}

fn entries(entries: u64) -> Capacity {
    Capacity {
        entries: Some(entries),
        ..Capacity::default()
    }
}

/// Returns a vPDP on ports 10 and 11 that runs a program, and a worker.
fn running(mut hypervisor: TenantSwitch, program: Arc<Program>) -> (TenantSwitch, Worker) {
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), program).unwrap();
    let worker = hypervisor.workers(1).remove(0);
    (hypervisor, worker)
}

fn send(worker: &mut Worker, bytes: &[u8], now: u64) -> Sent {
    forward(worker, &mut [frame(10, bytes)], now)
}

/// Returns the place of each stage of a vPDP: name, slot and turn.
fn places(hypervisor: &TenantSwitch, number: u16) -> Vec<(String, u32, u32)> {
    let view = hypervisor.slots();
    let (_, map) = view
        .programs
        .iter()
        .find(|(of, _)| *of == id(number))
        .unwrap();
    let places = map.placements.iter();
    places
        .map(|place| (place.name.clone(), place.slot, place.pass + 1))
        .collect()
}

fn held_entries(hypervisor: &TenantSwitch) -> Vec<u64> {
    hypervisor
        .slots()
        .held
        .iter()
        .map(|held| held.entries)
        .collect()
}

/// Adds an entry that adds an amount to the mark of packets with this number.
fn add_entry(hypervisor: &mut TenantSwitch, table: &str, number: u8, amount: u8) {
    let device = hypervisor.device_mut(id(1)).unwrap();
    let program = Arc::clone(device.program());
    let mut tables = program.tables.iter();
    let (table, _) = tables.find(|(_, declared)| declared.name == table).unwrap();
    let entry = switch::TableEntry {
        keys: vec![ir::KeyMatch::Exact(Value::truncated(number.into(), 8))],
        priority: None,
        action: Action::Call(ir::ActionCall {
            action: 0,
            args: vec![Value::truncated(amount.into(), 8)],
        }),
        meter: None,
        counter: None,
        idle_timeout: None,
    };
    device.apply(Change::Insert(table, entry)).unwrap();
    device.publish();
}

#[test]
fn what_the_slots_do_not_hold_is_refused_and_changes_nothing() {
    let (mut hypervisor, mut worker) = running(slots(Some(2), entries(100)), line(&[1, 2], 60));
    assert_eq!(held_entries(&hypervisor), [60, 60]);
    hypervisor.create(spec(2, &[12, 13])).unwrap();
    let refusal = hypervisor.load(id(2), line(&[1], 50)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the stage slots do not hold the program of vPDP 2: no slot has room for stage In.t0: it takes 50 entries, and slot 1, which lacks the least, has 40 left; declare more slots, or delete a program"
    );
    // A program may use the places of the one that it replaces.
    let nothing = MigrationMode::State(MayLose::Nothing);
    hypervisor
        .update(id(1), line(&[3, 4], 90), nothing.clone())
        .unwrap();
    assert_eq!(held_entries(&hypervisor), [90, 90]);
    let refusal = hypervisor
        .update(id(1), line(&[1, 1], 101), nothing)
        .unwrap_err();
    assert!(matches!(refusal, HypervisorError::Slots(..)), "{refusal}");
    assert_eq!(held_entries(&hypervisor), [90, 90]);
    assert_eq!(marks(&send(&mut worker, &[0, 0], 1)), [(11, 7)]);
    // A removed program frees its places, and so does one that cannot be loaded.
    let small = Quotas {
        limits: switch::Limits {
            entries: Some(0),
            stages: Some(1),
            ..Default::default()
        },
        ..Quotas::default()
    };
    hypervisor.set_quotas(id(2), small).unwrap();
    let refusal = hypervisor.load(id(2), line(&[1, 1], 10)).unwrap_err();
    assert!(matches!(refusal, HypervisorError::Load(..)), "{refusal}");
    assert_eq!(held_entries(&hypervisor), [90, 90]);
    hypervisor.unload(id(1)).unwrap();
    assert_eq!(held_entries(&hypervisor), [0, 0]);
    hypervisor.load(id(1), line(&[1], 100)).unwrap();
    hypervisor.delete(id(1)).unwrap();
    assert_eq!(held_entries(&hypervisor), [0, 0]);
}

#[test]
fn exclusive_branches_share_a_slot_and_programs_keep_their_places() {
    let branches = program(
        "action plus(bit<8> amount) { hdr.h.mark = hdr.h.mark + amount; }
         table one { actions = { plus; } default_action = plus(1); size = 10; }
         table two { actions = { plus; } default_action = plus(2); size = 10; }
         apply { standard.egress_spec = standard.ingress_port ^ 1; if (hdr.h.number == 0) { one.apply(); } else { two.apply(); } }",
    );
    let (mut hypervisor, mut worker) = running(slots(None, Capacity::default()), branches);
    let at = |name: &str, places: &[(String, u32, u32)]| {
        let place = places.iter().find(|place| place.0 == name).unwrap();
        (place.1, place.2)
    };
    let before = places(&hypervisor, 1);
    assert_eq!(at("In.one", &before), at("In.two", &before));
    hypervisor.create(spec(2, &[12, 13])).unwrap();
    hypervisor.load(id(2), line(&[1, 2, 3], 10)).unwrap();
    hypervisor.delete(id(2)).unwrap();
    assert_eq!(places(&hypervisor, 1), before);
    assert_eq!(marks(&send(&mut worker, &[0, 0], 1)), [(11, 1)]);
    assert_eq!(marks(&send(&mut worker, &[0, 1], 1)), [(11, 2)]);
}

#[test]
fn a_program_longer_than_the_slots_goes_on_in_turns_that_are_counted_and_charged() {
    for (count, turns) in [(1, 5), (2, 3), (3, 2), (5, 1)] {
        let long = line(&[1, 2, 4, 8, 16], 10);
        let (mut hypervisor, mut worker) = running(slots(Some(count), Capacity::default()), long);
        let mut quotas = Quotas::default();
        // Stages added for the turns do not count.
        quotas.limits.stages = Some(7);
        hypervisor.set_quotas(id(1), quotas.clone()).unwrap();
        assert_eq!(
            marks(&send(&mut worker, &[0, 0], 1)),
            [(11, 31)],
            "{count} slots"
        );
        assert_eq!(
            hypervisor.slots().programs[0].1.turns(),
            turns,
            "{count} slots"
        );
        assert_eq!(hypervisor.ledger().resubmitted, u64::from(turns - 1));
        quotas.passes = Some(Rate {
            per_second: 1,
            burst: 1,
        });
        hypervisor.set_quotas(id(1), quotas).unwrap();
        let frames = (0..10).map(|_| frame(10, &[0, 0])).collect::<Vec<_>>();
        let mut sent = 0;
        for frame in frames {
            sent += forward(&mut worker, &mut [frame], 2).len();
        }
        match turns {
            1 => assert_eq!(sent, 10),
            _ => assert!(hypervisor.ledger().dropped(DropReason::PassQuota) >= 8),
        }
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn a_program_that_resubmits_by_itself_does_so_behind_its_last_turn() {
    let twice = program(
        "action plus(bit<8> amount) { hdr.h.mark = hdr.h.mark + amount; meta.passes = meta.passes + 1; }
         table one { actions = { plus; } default_action = plus(1); }
         table two { actions = { plus; } default_action = plus(2); }
         apply {
             if (meta.passes == 0) { resubmit_preserving_field_list(1); }
             one.apply();
             two.apply();
             hdr.h.number = (bit<8>) meta.passes;
             standard.egress_spec = standard.ingress_port ^ 1;
         }",
    );
    let (hypervisor, mut worker) = running(slots(Some(1), Capacity::default()), twice);
    // Starts again with the original packet, and with the fields that are preserved.
    assert_eq!(send(&mut worker, &[0, 0], 1), [(11, vec![3, 4])]);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn a_loop_of_stages_is_a_turn_a_round_within_the_packets_work() {
    let rounds = |rounds: u32| {
        program(&format!(
            "action plus(bit<8> amount) {{ hdr.h.mark = hdr.h.mark + amount; }}
             table one {{ actions = {{ plus; }} default_action = plus(1); }}
             apply {{
                 for (bit<32> i = 0; i < {rounds}; i = i + 1) {{ one.apply(); }}
                 standard.egress_spec = standard.ingress_port ^ 1;
             }}"
        ))
    };
    let capacity = Capacity::default();
    let (hypervisor, mut worker) = running(slots(Some(4), capacity), rounds(10));
    assert_eq!(marks(&send(&mut worker, &[0, 0], 1)), [(11, 10)]);
    assert!(hypervisor.ledger().resubmitted >= 9);
    let (hypervisor, mut worker) = running(slots(Some(4), capacity), rounds(1_000_000));
    assert_eq!(send(&mut worker, &[0, 0], 1), []);
    assert_eq!(hypervisor.ledger().dropped(DropReason::WorkBudget), 1);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn a_long_egress_is_refused_by_its_name() {
    let egress = "action plus(bit<8> amount) { hdr.h.mark = hdr.h.mark + amount; }
        table one { actions = { plus; } default_action = plus(1); }
        table two { actions = { plus; } default_action = plus(2); }
        apply { one.apply(); two.apply(); }";
    let mut hypervisor = slots(Some(1), Capacity::default());
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    let refusal = hypervisor
        .load(id(1), program_with_egress("apply {}", egress))
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the stage slots do not hold the program of vPDP 1: Out takes 2 slots in a line, and the device has 1; a packet is not resubmitted from there, so declare at least 2 slots"
    );
}

#[test]
fn a_program_that_a_controller_sets_is_fitted_and_its_own_text_is_exported() {
    let (mut hypervisor, mut worker) = running(slots(Some(1), entries(10)), line(&[1], 10));
    let book = hypervisor.slot_book().clone();
    let too_large = book.fit(id(1), &line(&[1], 11)).unwrap_err();
    assert!(
        too_large.to_string().contains("a slot holds 10"),
        "{too_large}"
    );
    let given = line(&[2, 3], 5);
    let fitted = book.fit(id(1), &given).unwrap();
    let device = Device::new(fitted, &interp::Interp, &Default::default()).unwrap();
    let running = hypervisor.device_mut(id(1)).unwrap();
    running
        .adopt(device, MigrationMode::State(MayLose::Anything))
        .unwrap();
    running.publish();
    hypervisor.step(Nanos(1), |_, _, _| {});
    assert_eq!(marks(&send(&mut worker, &[0, 0], 2)), [(11, 5)]);
    assert_eq!(held_entries(&hypervisor), [10]);
    assert!(Arc::ptr_eq(
        hypervisor.vpdp(id(1)).unwrap().given().unwrap(),
        &given
    ));
    // Another switch has other slots.
    let mut other = slots(None, Capacity::default());
    other.import(hypervisor.export(id(1)).unwrap()).unwrap();
    assert_eq!(held_entries(&other), [5, 5]);
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(marks(&send(&mut worker, &[0, 0], 3)), [(11, 1)]);
}

#[test]
fn places_of_a_device_that_was_made_for_nothing_are_free_again() {
    let mut hypervisor = slots(Some(1), entries(10));
    for (number, ports) in [(1, [10, 11]), (2, [20, 21])] {
        hypervisor.create(spec(number, &ports)).unwrap();
    }
    let function = line(&[1], 10);
    let made = hypervisor.maker(id(1)).unwrap().make(Arc::clone(&function));
    assert!(hypervisor.load(id(2), Arc::clone(&function)).is_err());
    drop(made.unwrap());
    hypervisor.load(id(2), function).unwrap();
}

#[test]
fn stages_change_under_traffic_and_tables_keep_their_entries() {
    let (mut hypervisor, mut worker) = running(slots(Some(2), entries(100)), line(&[1, 2, 4], 20));
    add_entry(&mut hypervisor, "In.t1", 7, 100);
    let mut sent = 0;
    let mut mark = |worker: &mut Worker| {
        sent += 1;
        let left = marks(&send(worker, &[0, 7], sent));
        assert_eq!(left.len(), 1, "none is lost");
        left[0].1
    };
    assert_eq!(mark(&mut worker), 105);
    let edit =
        |hypervisor: &mut TenantSwitch, edit: &Edit<'_>| hypervisor.edit(id(1), edit).unwrap();
    edit(&mut hypervisor, &Edit::Delete { stage: "In.t0" });
    assert_eq!(mark(&mut worker), 104);
    let double = program(
        "action twice() { hdr.h.mark = hdr.h.mark + hdr.h.mark; }
         table double { actions = { twice; } default_action = twice(); size = 20; }
         apply { double.apply(); }",
    );
    let new = Donor {
        program: &double,
        stage: "In.double",
        prefix: "new",
        scope: "",
    };
    let stage = "In.t2";
    edit(
        &mut hypervisor,
        &Edit::Insert {
            stage,
            side: Side::Before,
            new,
        },
    );
    assert_eq!(mark(&mut worker), 204);
    let moved = Edit::Move {
        stage,
        side: Side::Before,
        of: "new.In.double",
    };
    edit(&mut hypervisor, &moved);
    assert_eq!(mark(&mut worker), 208);
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(mark(&mut worker), 204);
    edit(
        &mut hypervisor,
        &Edit::Replace {
            stage,
            by: Donor {
                prefix: "other",
                ..new
            },
        },
    );
    assert_eq!(mark(&mut worker), 144, "400, of which eight bits are kept");
    let before = places(&hypervisor, 1);
    let refusal = hypervisor
        .edit(id(1), &Edit::Delete { stage: "In.none" })
        .unwrap_err();
    assert!(
        refusal.to_string().starts_with("vPDP 1 keeps its stages: "),
        "{refusal}"
    );
    assert_eq!(places(&hypervisor, 1), before);
    assert_eq!(mark(&mut worker), 144);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn a_stage_moves_to_another_slot_and_stays_there_over_changes() {
    let (mut hypervisor, mut worker) = running(slots(Some(3), entries(20)), line(&[1, 2], 10));
    let slot = |hypervisor: &TenantSwitch| {
        let places = places(hypervisor, 1);
        places
            .iter()
            .find(|place| place.0 == "In.t1")
            .map(|place| (place.1, place.2))
    };
    assert_eq!(slot(&hypervisor), Some((1, 1)));
    hypervisor.move_to_slot(id(1), "In.t1", Some(2)).unwrap();
    assert_eq!(slot(&hypervisor), Some((2, 1)));
    assert_eq!(marks(&send(&mut worker, &[0, 0], 1)), [(11, 3)]);
    // Placed before the stages that lead to it: in another turn.
    hypervisor.move_to_slot(id(1), "In.t1", Some(0)).unwrap();
    assert_eq!(slot(&hypervisor), Some((0, 2)));
    assert_eq!(marks(&send(&mut worker, &[0, 0], 2)), [(11, 3)]);
    assert_eq!(held_entries(&hypervisor), [20, 0, 0]);
    let none = hypervisor.roll_back(id(1)).unwrap_err();
    assert!(matches!(none, HypervisorError::NothingBefore(_)), "{none}");
    for (stage, slot, problem) in [
        (
            "In.t1",
            3,
            "there is no slot 3 for stage In.t1; slots are numbered from 0 to 2",
        ),
        ("In.none", 1, "has no stage `In.none`"),
    ] {
        let refusal = hypervisor
            .move_to_slot(id(1), stage, Some(slot))
            .unwrap_err();
        assert!(refusal.to_string().contains(problem), "{refusal}");
    }
    let nothing = MigrationMode::State(MayLose::Nothing);
    hypervisor
        .update(id(1), line(&[5, 6], 10), nothing)
        .unwrap();
    assert_eq!(slot(&hypervisor), Some((0, 2)));
    assert_eq!(marks(&send(&mut worker, &[0, 0], 3)), [(11, 11)]);
}

#[test]
fn a_change_of_a_stage_replaces_only_what_it_was_made_of() {
    let (mut hypervisor, mut worker) = running(slots(Some(3), entries(20)), line(&[1, 2], 10));
    let (stage, nothing) = ("In.t1", || MigrationMode::State(MayLose::Nothing));
    let maker = hypervisor.maker(id(1)).unwrap();
    let edited = maker.edit(&Edit::Delete { stage }).unwrap();
    let moved = maker.move_to_slot(stage, Some(2)).unwrap();
    // Meanwhile a controller sets a program on the device itself.
    let fitted = hypervisor.slot_book().fit(id(1), &line(&[5, 6], 10));
    let device = Device::new(fitted.unwrap(), &interp::Interp, &Default::default()).unwrap();
    let running = hypervisor.device_mut(id(1)).unwrap();
    running.adopt(device, nothing()).unwrap();
    running.publish();
    let refusals = [
        hypervisor.adopt(edited, nothing()).unwrap_err(),
        hypervisor.adopt_moved(moved).unwrap_err(),
    ];
    assert_eq!(
        refusals,
        [
            HypervisorError::Changed(id(1)),
            HypervisorError::Changed(id(1))
        ]
    );
    assert_eq!(marks(&send(&mut worker, &[0, 0], 1)), [(11, 11)]);
    // Neither can be loaded after the program that it was made from was unloaded.
    let maker = hypervisor.maker(id(1)).unwrap();
    let edited = maker.edit(&Edit::Delete { stage }).unwrap();
    hypervisor.unload(id(1)).unwrap();
    let refusal = hypervisor.begin(edited).unwrap_err();
    assert_eq!(refusal, HypervisorError::Changed(id(1)));
}

#[test]
fn a_stage_that_may_be_in_any_slot_leaves_the_one_in_which_it_was_to_be() {
    let (mut hypervisor, _) = running(slots(Some(2), entries(20)), line(&[1], 15));
    let slot = |hypervisor: &TenantSwitch| places(hypervisor, 1)[0].1;
    hypervisor.move_to_slot(id(1), "In.t0", Some(1)).unwrap();
    assert_eq!(slot(&hypervisor), 1);
    hypervisor.move_to_slot(id(1), "In.t0", None).unwrap();
    assert_eq!(slot(&hypervisor), 0);
    // Another vPDP takes the slot to which a stage of the old program was pinned.
    hypervisor.move_to_slot(id(1), "In.t0", Some(1)).unwrap();
    let nothing = MigrationMode::Nothing;
    hypervisor
        .update(id(1), line(&[], 1), nothing.clone())
        .unwrap();
    hypervisor.unpin(id(1));
    hypervisor.create(spec(2, &[12, 13])).unwrap();
    hypervisor.load(id(2), line(&[1], 15)).unwrap();
    hypervisor.move_to_slot(id(2), "In.t0", Some(1)).unwrap();
    hypervisor.update(id(1), line(&[1], 15), nothing).unwrap();
    assert_eq!(slot(&hypervisor), 0);
}

#[test]
fn programs_of_one_vpdp_have_room_in_common_for_one_runs_at_a_time() {
    let (mut hypervisor, _) = running(slots(Some(1), entries(30)), line(&[1], 10));
    let book = hypervisor.slot_book().clone();
    // A program saved by a controller may run at any time: others get only the space beside it.
    let saved = book.fit(id(1), &line(&[1], 20)).unwrap();
    assert_eq!(held_entries(&hypervisor), [20]);
    assert_eq!(hypervisor.slots().coming.len(), 1);
    hypervisor.create(spec(2, &[12, 13])).unwrap();
    let refusal = hypervisor.load(id(2), line(&[1], 11)).unwrap_err();
    assert!(matches!(refusal, HypervisorError::Slots(..)), "{refusal}");
    hypervisor.load(id(2), line(&[1], 10)).unwrap();
    // Its own vPDP can use all of that space. A trial reserves nothing.
    let nothing = MigrationMode::Nothing;
    hypervisor.update(id(1), line(&[1], 20), nothing).unwrap();
    book.try_fit(id(2), &line(&[1], 10)).unwrap();
    book.try_fit(id(2), &line(&[1], 11)).unwrap_err();
    assert_eq!(held_entries(&hypervisor), [30]);
    drop(saved);
    assert_eq!(hypervisor.slots().coming.len(), 0);
}

#[test]
fn a_stream_of_packets_loses_none_while_stages_change_beside_it() {
    let (mut hypervisor, mut worker) = running(slots(Some(2), entries(100)), line(&[1, 2, 4], 20));
    let is_over = AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        let stream = scope.spawn(|| {
            let mut received = 0;
            let mut now = 1;
            while !is_over.load(Relaxed) {
                let mut burst: Vec<_> = (0..32).map(|_| frame(10, &[0, 7])).collect();
                let left = marks(&forward(&mut worker, &mut burst, now));
                // Each packet is processed by a whole chain, with the second table or without it,
                // in any order.
                let is_whole = |(port, mark): &(u32, u8)| *port == 11 && [5, 7].contains(mark);
                assert!(
                    left.len() == burst.len() && left.iter().all(is_whole),
                    "{left:?}"
                );
                received += left.len() as u64;
                now += 1;
            }
            received
        });
        for round in 0..60 {
            let stage = "In.t1";
            match round % 5 {
                0 => hypervisor.edit(id(1), &Edit::Delete { stage }).map(drop),
                1 | 4 => hypervisor.roll_back(id(1)).map(drop),
                2 => hypervisor
                    .move_to_slot(id(1), stage, Some(round % 2))
                    .map(drop),
                _ => {
                    let (side, of) = (Side::Before, "In.t0");
                    hypervisor
                        .edit(id(1), &Edit::Move { stage, side, of })
                        .map(drop)
                }
            }
            .unwrap_or_else(|refusal| panic!("{round}: {refusal}"));
            hypervisor.step(Nanos(1), |_, _, _| {});
        }
        is_over.store(true, Relaxed);
        stream.join().unwrap()
    });
    let ledger = hypervisor.ledger();
    assert_eq!((ledger.received, ledger.sent), (received, received));
    hypervisor.check_conservation().unwrap();
}

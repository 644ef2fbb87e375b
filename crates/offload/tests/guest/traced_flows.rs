//! Flows that are traced through POF tables and P4 programs, in the test NIC and in software.

use std::sync::Arc;

use offload::{Flow, FlowTracer, PortRole, Step};
use packet::{Nanos, PortId};
use pof::model::{Action, Argument, Field, Instruction, Match, Place, TableType, VALUE_BYTES};
use pof::wire::{Command, FlowCommand, FlowMod, TableMod};
use pof::{Forwarder, ForwarderOptions};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

use crate::bed::{Bed, PORTS, ipv4_checksum, udp_frame};
use crate::ipv4_program::ipv4_program;
use crate::pof_role::pof_role;
use crate::random::Sample;
use crate::random_flows::{Tally, number, try_sample};

/// Ports of the POF switch. Port 0 is none in POF.
const POF_PORTS: [u16; 4] = [1, 2, 3, 4];

/// Entries of a POF switch, each with a frame.
const ENTRIES: usize = 20;

fn bits(bytes: &[u8]) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..bytes.len()].copy_from_slice(bytes);
    value
}

/// Returns an entry's list of the paper's actions on fixed headers.
fn list(rng: &mut Rng) -> Vec<Instruction> {
    let mut random = [0; VALUE_BYTES];
    let mut set = |offset, length| {
        rng.fill(&mut random);
        let field = Field::packet(offset, length);
        Action::SetField(Match {
            field,
            value: random,
            mask: [0xFF; VALUE_BYTES],
        })
    };
    let choices = [
        set(0, 48),
        set(48, 48),
        set(120, 8),
        set(208, 32),
        set(240, 32),
    ];
    let add = set(112, 32);
    let mut actions = Vec::new();
    let mut is_header_changed = false;
    for (index, choice) in choices.into_iter().enumerate() {
        if rng.one_in(4) {
            is_header_changed |= index >= 2;
            actions.push(choice);
        }
    }
    if rng.one_in(3) {
        is_header_changed = true;
        let increment = rng.between(1, 6) as i32 - 3;
        actions.push(Action::ModifyField {
            field: Field::packet(176, 8),
            increment,
        });
    }
    if is_header_changed {
        actions.push(Action::CalculateChecksum {
            checksum_place: Place::Packet,
            checksum_offset: 192,
            checksum_length: 16,
            data_place: Place::Packet,
            data_offset: 112,
            data_length: 160,
        });
    }
    if let (true, Action::SetField(one)) = (rng.one_in(3), add) {
        actions.push(Action::AddField {
            id: 7,
            offset: 112,
            length: 32,
            value: one.value,
        });
    }
    let port = POF_PORTS[rng.index(POF_PORTS.len())];
    actions.push(Action::Output {
        port: Argument::Immediate(port.into()),
        metadata_offset: 0,
        metadata_length: 0,
        packet_offset: 0,
    });
    actions
        .chunks(6)
        .map(|part| Instruction::ApplyActions(part.to_vec()))
        .collect()
}

/// Returns a POF switch with random entries and a frame for each.
fn pof_switch(rng: &mut Rng) -> (Device, Vec<Vec<u8>>) {
    let options = ForwarderOptions::default();
    let mut switch = Forwarder::new(Arc::new(interp::Interp), options).expect("no tables");
    switch
        .set_ports(&POF_PORTS.map(|port| (port, true)))
        .expect("ports");
    let fields = vec![
        Field::packet(96, 16),
        Field::packet(208, 32),
        Field::packet(240, 32),
    ];
    let table = TableMod {
        command: Command::Add,
        id: 0,
        table_type: TableType::Masked,
        size: 64,
        key_length: 80,
        slot: 0,
        name: pof::model::ObjectName::new("t"),
        fields: fields.clone(),
    };
    switch.table_mod(&table).expect("a table");
    let mut frames = Vec::new();
    for index in 0..ENTRIES {
        let [mut source, mut destination] = [[0; 4]; 2];
        rng.fill(&mut source);
        rng.fill(&mut destination);
        let frame = udp_frame(source, destination, rng.between(60, 180) as usize);
        let masks = [
            [0xFF; VALUE_BYTES],
            if rng.one_in(2) {
                [0xFF; VALUE_BYTES]
            } else {
                bits(&[0xFF, 0xFF, 0xFF])
            },
            if rng.one_in(2) {
                [0xFF; VALUE_BYTES]
            } else {
                [0; VALUE_BYTES]
            },
        ];
        let values = [bits(&[8, 0]), bits(&source), bits(&destination)];
        let matches = fields.iter().zip(values.into_iter().zip(masks));
        let matches = matches.map(|(field, (value, mask))| Match {
            field: *field,
            value,
            mask,
        });
        let flow = FlowMod {
            command: FlowCommand::Add,
            counter: 0,
            cookie: index as u64,
            cookie_mask: 0,
            table: 0,
            table_type: TableType::Masked,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: index as u16,
            index: index as u32,
            slot: 0,
            matches: matches.collect(),
            instructions: list(rng),
        };
        switch.flow_mod(&flow).expect("an entry");
        frames.push(frame);
    }
    let mut empty = ir::Program::empty("empty", ir::Arch::V1model);
    empty.errors.push("NoError".to_owned());
    let empty = Device::new(Arc::new(empty), &interp::Interp, &DeviceConfig::default());
    (
        std::mem::replace(switch.device(), empty.expect("an empty program")),
        frames,
    )
}

/// A forwarder by longest prefix, with the updated checksum of its IPv4 header.
const FORWARDER: &str = "
    control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
        action to(bit<9> port, bit<48> dst) {
            s.egress_spec = port;
            hdr.ethernet.src = hdr.ethernet.dst;
            hdr.ethernet.dst = dst;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
        action drop() { mark_to_drop(s); }
        table routes {
            key = { hdr.ipv4.dst: lpm; }
            actions = { to; drop; }
            default_action = drop();
            const entries = { ENTRIES }
        }
        apply { if (hdr.ipv4.isValid()) { routes.apply(); } else { drop(); } }
    }
";

/// Returns the forwarder with random routes, and a frame for each.
fn forwarder(rng: &mut Rng) -> (Device, Vec<Vec<u8>>) {
    let (mut entries, mut frames) = (String::new(), Vec::new());
    for _ in 0..ENTRIES {
        let destination = rng.bits() as u32;
        let mask = u32::MAX << rng.below(20);
        let (prefix, port) = (destination & mask, 1 + rng.below(3));
        let address = rng.bits() >> 16 & 0xFEFF_FFFF_FFFF;
        let action = if rng.one_in(8) {
            "drop()".to_owned()
        } else {
            format!("to({port}, {address})")
        };
        entries += &format!("{prefix:#x} &&& {mask:#x}: {action}; ");
        let destination = destination.to_be_bytes();
        frames.push(udp_frame(
            [10, 0, 0, 9],
            destination,
            rng.between(60, 180) as usize,
        ));
    }
    let source = ipv4_program(&FORWARDER.replace("ENTRIES", &entries));
    let program = Arc::new(driver::compile_text("forwarder", &source).expect("it compiles"));
    let device = Device::new(program, &interp::Interp, &DeviceConfig::default());
    (device.expect("a program of v1model"), frames)
}

/// Returns an example with its entries, and frames that it forwards: their destinations begin with
/// `to`, and they come in for this address.
fn example(
    rng: &mut Rng,
    (text, entries): (&str, &str),
    mac: [u8; 6],
    to: &[[u8; 2]],
) -> (Device, Vec<Vec<u8>>) {
    let program = Arc::new(driver::compile_text("example", text).expect("it compiles"));
    let device = Device::new(
        Arc::clone(&program),
        &interp::Interp,
        &DeviceConfig::default(),
    );
    let mut device = device.expect("a program of v1model");
    let file = entries::Schema::of(&program).read("entries", entries);
    apply_entries::apply_file(&mut device, &file.expect("entries")).expect("the entries");
    let frames = (0..ENTRIES).map(|_| {
        let [a, b] = to[rng.index(to.len())];
        // The router's neighbours are .2 and, of 10.9.0.0/16, one for all.
        let last = if a == 9 { rng.bits() as u8 } else { 2 };
        let source = [10, 0, 1, rng.bits() as u8];
        let mut frame = udp_frame(source, [10, a, b, last], rng.between(60, 180) as usize);
        frame[..6].copy_from_slice(&mac);
        frame[22] = rng.between(2, 255) as u8;
        frame[23] = if rng.one_in(2) { 6 } else { 17 };
        rng.fill(&mut frame[34..38]);
        ipv4_checksum(14).apply(&mut frame);
        frame
    });
    let frames = frames.collect();
    (device, frames)
}

const ROUTER: (&str, &str) = (
    include_str!("../../../../examples/router/router.p4"),
    include_str!("../../../../examples/router/router.entries"),
);
const ECMP: (&str, &str) = (
    include_str!("../../../../examples/ecmp/ecmp.p4"),
    include_str!("../../../../examples/ecmp/ecmp.entries"),
);

#[test]
fn flows_of_the_examples_that_check_checksums_make_the_frames_of_interp() {
    let Some(mut bed) = Bed::open() else { return };
    let flows = number("POLYPLANE_GUEST_FLOWS", 2000) / 10;
    let mut rng = Rng::new(number("POLYPLANE_GUEST_SEED", 1));
    for (name, text, mac, to) in [
        ("router", ROUTER, [2, 0, 0, 0, 1, 1], &[[0, 2], [9, 7]][..]),
        (
            "ecmp",
            ECMP,
            [2, 0, 0, 0, 0, 9],
            &[[1, 0], [2, 0], [3, 0]][..],
        ),
    ] {
        let mut tally = Tally::default();
        while tally.flows < flows {
            let made = example(&mut rng, text, mac, to);
            check(
                &mut bed,
                &mut rng,
                made,
                (PortId(0), |_| PortRole::Data),
                &mut tally,
            );
        }
        tally.print(&format!("example {name}"));
        assert_eq!(tally.offloaded, tally.flows, "all have rules");
    }
}

/// Numbers ports as the guest's interfaces are: from 0 on.
fn renumber(flow: &mut Flow) {
    flow.ingress = PortId(0);
    for step in &mut flow.steps {
        if let Step::Output(port) = step {
            *port = PortId(port.0 % PORTS);
        }
    }
}

/// Traces the frames and compares the flows' rules with what the device makes of the frames.
fn check(
    bed: &mut Bed,
    rng: &mut Rng,
    (mut device, frames): (Device, Vec<Vec<u8>>),
    (ingress, role_of): (PortId, fn(PortId) -> PortRole),
    tally: &mut Tally,
) {
    let mut tracer = FlowTracer::new(device.program(), role_of).expect("flows can be followed");
    for (now, frame) in (1..).zip(frames) {
        tally.flows += 1;
        let mut flow = match tracer.trace_in(&mut device, ingress, &frame) {
            Ok(flow) => flow,
            Err(reason) => {
                tally.refused(&reason.to_string());
                continue;
            }
        };
        device.receive(ingress, &frame).expect("a short frame");
        device.step(Nanos(now));
        let mut sent = Vec::new();
        device.drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
        assert_eq!(flow.apply(&frame), sent, "the flow is not what interp does");
        renumber(&mut flow);
        try_sample(
            bed,
            rng,
            &Sample {
                flow,
                frame,
                network: 14,
            },
            tally,
        );
    }
}

#[test]
fn flows_of_pof_tables_and_of_a_p4_forwarder_make_the_frames_of_interp() {
    let Some(mut bed) = Bed::open() else { return };
    let flows = number("POLYPLANE_GUEST_FLOWS", 2000) / 2;
    let mut rng = Rng::new(number("POLYPLANE_GUEST_SEED", 1));
    let (mut of_pof, mut of_p4) = (Tally::default(), Tally::default());
    while of_pof.flows < flows * 3 / 4 {
        let switch = pof_switch(&mut rng);
        check(
            &mut bed,
            &mut rng,
            switch,
            (PortId(1), pof_role),
            &mut of_pof,
        );
    }
    while of_p4.flows < flows / 4 {
        let forwarder = forwarder(&mut rng);
        check(
            &mut bed,
            &mut rng,
            forwarder,
            (PortId(0), |_| PortRole::Data),
            &mut of_p4,
        );
    }
    of_pof.print("POF tables, the paper's actions");
    of_p4.print("P4, routes by longest prefix");
    assert!(
        of_pof.offloaded * 100 >= of_pof.flows * 90,
        "less than 90 % are offloaded"
    );
    assert!(
        of_p4.offloaded * 100 >= of_p4.flows * 90,
        "less than 90 % are offloaded"
    );
}

//! Checks that a chain has the same effect on every packet in each of its forms, on every engine,
//! packet by packet and in bursts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ir::Program;
use packet::{Frame, Nanos, PortId};
use passes::compose::{Composed, Form, Policy, StepProgram, compose};
use proptest::prelude::*;
use switch::{Device, DeviceConfig, Ledger};

/// The example functions, with entries for each. `STEP` is replaced by the step's name.
const FUNCTIONS: &[(&str, &str)] = &[
    (
        "arp_proxy",
        "STEP.ArpProxy.stations { hdr.arp.target_ip: 10.0.2.2; } -> answer(mac: 02:00:00:00:02:02)",
    ),
    (
        "fw",
        "STEP.Firewall.rules { hdr.ipv4.dst: 10.0.2.0 &&& 255.255.255.0; dst_port: 50..60; } -> permit() priority 1
         STEP.Firewall.rules { hdr.ipv4.dst: 10.0.0.0 &&& 255.0.0.0; hdr.ipv4.protocol: 6; } -> permit() priority 2
         STEP.Firewall.rules { hdr.ipv4.src: 10.0.1.2; } -> deny() priority 10",
    ),
    (
        "ip_sg",
        "STEP.SourceGuard.bindings { standard_metadata.ingress_port: 1; hdr.ethernet.src: 02:00:00:00:01:01; source: 10.0.1.1; } -> NoAction()
         STEP.SourceGuard.bindings { standard_metadata.ingress_port: 2; hdr.ethernet.src: 02:00:00:00:01:01; source: 10.0.1.1; } -> NoAction()
         STEP.SourceGuard.bindings { standard_metadata.ingress_port: 3; hdr.ethernet.src: 02:00:00:00:02:02; source: 10.0.1.2; } -> NoAction()",
    ),
    (
        "l2_sw",
        "STEP.L2Switch.forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(port: 2)
         STEP.L2Switch.forward { hdr.ethernet.dst: 02:00:00:00:01:01; } -> flood(group: 5)",
    ),
    (
        "l3_sw",
        "STEP.L3Switch.routes { hdr.ipv4.dst: 10.0.0.0/8; } -> next_hop(port: 3, own: 02:00:00:00:03:01, neighbour: 02:00:00:00:03:02)
         STEP.L3Switch.routes { hdr.ipv4.dst: 10.0.2.0/24; } -> next_hop(port: 2, own: 02:00:00:00:02:01, neighbour: 02:00:00:00:02:02)",
    ),
    (
        "mac_learn",
        "STEP.MacLearn.known_source { hdr.ethernet.src: 02:00:00:00:01:01; standard_metadata.ingress_port: 1; } -> NoAction()",
    ),
    (
        "qos",
        "STEP.Qos.classes { hdr.ipv4.src: 10.0.1.0 &&& 255.255.255.0; } -> class(queue: 5, dscp: 46) priority 1
         STEP.Qos.classes { hdr.ipv4.dscp: 46; } -> class(queue: 0, dscp: 10) priority 2",
    ),
];

/// Programs that are sensitive to errors in merged steps, with entries for each as above. They are
/// in files beside this one.
const STEPS: &[(&str, &str)] = &[
    ("checks", ""),
    (
        "counts",
        "STEP.CountsEgress.ports { standard_metadata.egress_port: 3; } -> NoAction()",
    ),
    ("leaves", ""),
    ("lengthens", ""),
    ("measures", ""),
    ("rewrites", ""),
    ("verifies", ""),
    ("waits", ""),
];

/// Returns all programs, with entries for each.
fn programs() -> impl Iterator<Item = (&'static str, &'static str)> {
    FUNCTIONS.iter().chain(STEPS).copied()
}

/// Conditions that may follow every program.
const ANYWHERE: &[&str] = &[
    "ingress_port == 3",
    "egress_spec < 2 || priority != 0",
    "egress_spec == 3",
    "checksum_error == 1",
    "!(mcast_grp == 0)",
];

/// Conditions on headers that the functions parse.
const BEHIND_A_FUNCTION: &[&str] = &[
    "hdr.ipv4.protocol == 17",
    "hdr.ipv4.isValid() && hdr.ports.dst[7:0] == 53",
    "hdr.ethernet.type == 0x0806",
    "hdr.ipv4.ttl != 64",
    "hdr.ipv4.checksum == 0 && ingress_port != 1",
];

fn function(name: &str) -> Arc<Program> {
    static PROGRAMS: OnceLock<BTreeMap<&str, Arc<Program>>> = OnceLock::new();
    let all = PROGRAMS.get_or_init(|| {
        let compiled = |directory: &'static str, programs: &'static [(&str, &str)]| {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
            programs.iter().map(move |&(name, _)| {
                let path = directory.join(name).with_extension("p4");
                let program = testkit::compile(&path).unwrap_or_else(|error| panic!("{error}"));
                (name, program)
            })
        };
        compiled("../examples/functions", FUNCTIONS)
            .chain(compiled("tests/chains/steps", STEPS))
            .collect()
    });
    Arc::clone(&all[name])
}

/// A policy without step names.
#[derive(Clone, Debug)]
enum Element {
    Function(usize),
    Branch(Vec<(usize, Vec<Element>)>, Vec<Element>),
}

fn element() -> impl Strategy<Value = Element> {
    let function = (0..programs().count()).prop_map(Element::Function).boxed();
    function.clone().prop_recursive(2, 8, 3, move |inner| {
        let line = prop::collection::vec(inner, 0..3);
        let arms = prop::collection::vec((0..100usize, line.clone()), 1..3);
        prop_oneof![
            2 => function.clone(),
            1 => (arms, line).prop_map(|(arms, otherwise)| Element::Branch(arms, otherwise)),
        ]
    })
}

/// Writes a policy, with a number after the name of each step.
#[derive(Default)]
struct Writer {
    steps: Vec<(String, &'static str)>,
    entries: String,
}

impl Writer {
    fn line(&mut self, line: &[Element], mut sees_headers: bool) -> String {
        let mut items = Vec::new();
        for element in line {
            items.push(match element {
                Element::Function(number) => self.function(*number),
                Element::Branch(arms, otherwise) => self.branch(arms, otherwise, sees_headers),
            });
            sees_headers = matches!(element, Element::Function(_));
        }
        items.join(" -> ")
    }

    fn function(&mut self, number: usize) -> String {
        let (name, entries) = programs().nth(number).expect("a program");
        let step = format!("{name}{}", self.steps.len());
        self.entries += &entries.replace("STEP", &step);
        self.entries += "\n";
        self.steps.push((step.clone(), name));
        step
    }

    fn branch(
        &mut self,
        arms: &[(usize, Vec<Element>)],
        otherwise: &[Element],
        sees_headers: bool,
    ) -> String {
        let mut written = String::from("[");
        for (number, line) in arms {
            let seen = match sees_headers {
                true => BEHIND_A_FUNCTION,
                false => &[],
            };
            let all: Vec<&str> = ANYWHERE.iter().chain(seen).copied().collect();
            written += all[number % all.len()];
            written += ": ";
            written += &self.line(line, sees_headers);
            written += " | ";
        }
        written + "else: " + &self.line(otherwise, sees_headers) + "]"
    }
}

/// Returns packets from random values of the fields that the functions read.
fn packet() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let mac = || prop::sample::select(vec![[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 2, 2], [255; 6]]);
    let host = || prop::sample::select(vec![[10, 0, 1, 1], [10, 0, 1, 2], [10, 0, 2, 2], [0; 4]]);
    let ethertype = prop::sample::select(vec![0x0800u16, 0x0800, 0x0800, 0x0806, 0x1234]);
    let ip = (
        prop::sample::select(vec![0x45u8, 0x45, 0x45, 0x46, 0x4f, 0x44, 0x65]),
        prop::sample::select(vec![1u8, 2, 64]),
        prop::sample::select(vec![6u8, 17, 1]),
        prop::sample::select(vec![0u16, 0, 0, 7]),
        any::<u16>(),
        prop::sample::select(vec![53u16, 67, 80]),
    );
    let parts = (
        0..4u32,
        mac(),
        mac(),
        ethertype,
        host(),
        host(),
        ip,
        0..90usize,
    );
    parts.prop_map(|(port, dst, src, ethertype, from, to, ip, length)| {
        let (version, ttl, protocol, fragment, checksum, l4) = ip;
        let mut bytes = [dst, src].concat();
        bytes.extend(ethertype.to_be_bytes());
        if ethertype == 0x0806 {
            bytes.extend([0, 1, 8, 0, 6, 4, 0, 1]);
            bytes.extend([&src[..], &from[..], &[0; 6][..], &to[..]].concat());
        } else {
            bytes.extend([version, 46 << 2, 0, 60, 0, 1]);
            bytes.extend(fragment.to_be_bytes());
            bytes.extend([ttl, protocol]);
            bytes.extend(checksum.to_be_bytes());
            bytes.extend([from, to].concat());
            let options = usize::from(version & 15).saturating_sub(5) * 4;
            bytes.extend((0..options).map(|at| at as u8));
            bytes.extend(68u16.to_be_bytes());
            bytes.extend(l4.to_be_bytes());
        }
        bytes.extend([0xda; 20]);
        bytes.truncate(length.max(1));
        (port, bytes)
    })
}

/// All observable results of a device.
#[derive(Debug, PartialEq)]
struct Outcome {
    sent: Vec<(u32, Vec<u8>)>,
    ledger: Ledger,
    hits: Vec<(u64, u64)>,
    counters: Vec<Option<table::CounterReading>>,
    digests: Vec<Vec<u64>>,
}

fn device(chain: &Composed, engine: &dyn exec::Engine, entries: &str) -> Device {
    let program = Arc::new(chain.program.clone());
    let mut device = Device::new(program, engine, &DeviceConfig::default()).expect("it loads");
    let text = format!("{entries}\nmulticast 5 {{ port 0, port 2, port 3 }}\n");
    let read = entries::read(device.program(), "entries", &text);
    let read = read.unwrap_or_else(|errors| panic!("{}", errors[0]));
    apply_entries::apply_file(&mut device, &read).expect("the entries fit");
    device
}

fn outcome(mut device: Device, packets: &[(u32, Vec<u8>)], in_bursts: bool) -> Outcome {
    let mut sent = Vec::new();
    if in_bursts {
        let frame = |(port, bytes): &(u32, Vec<u8>)| {
            let mut frame = Frame::from_bytes(bytes).expect("a short frame");
            frame.ingress = PortId(*port);
            frame
        };
        let mut frames: Vec<Frame> = packets.iter().map(frame).collect();
        device.forward(&mut frames, Nanos(1), |port, frame, _| {
            sent.push((port.0, frame.bytes().to_vec()));
        });
    } else {
        for (port, bytes) in packets {
            device.receive(PortId(*port), bytes).expect("a short frame");
            device.step(Nanos(1));
            device.drain_sent(|port, bytes, _| sent.push((port.0, bytes.to_vec())));
        }
    }
    let hits = device.table_hits().into_iter();
    let configuration = device.configuration();
    let entries = configuration.tables.iter().flat_map(|(table, entries)| {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        ids.into_iter().map(move |id| (table, id))
    });
    let counters = entries.map(|(table, entry)| device.read_direct_counter(table, entry));
    let (counters, hits) = (
        counters.collect(),
        hits.map(|h| (h.hits, h.misses)).collect(),
    );
    let mut digests = Vec::new();
    while let Some(digest) = device.take_digest() {
        digests.push(digest.limbs);
    }
    device.check_conservation().expect("nothing disappears");
    Outcome {
        sent,
        ledger: device.ledger(),
        hits,
        counters,
        digests,
    }
}

fn composed(policy: &Policy, steps: &[(String, &str)], form: Form) -> Composed {
    let programs: Vec<Arc<Program>> = steps.iter().map(|(_, name)| function(name)).collect();
    let given = steps.iter().zip(&programs);
    let given: Vec<_> = given
        .map(|((step, _), program)| StepProgram { step, program })
        .collect();
    compose("chain", policy, &given, form).unwrap_or_else(|error| panic!("{error}"))
}

fn check(policy: &[Element], packets: &[(u32, Vec<u8>)]) -> Result<(), TestCaseError> {
    let mut writer = Writer::default();
    let text = writer.line(policy, false);
    let read = Policy::read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    if writer.steps.is_empty() {
        return Ok(());
    }
    same_in_every_form(&text, &read, &writer.steps, &writer.entries, packets)
}

fn same_in_every_form(
    text: &str,
    policy: &Policy,
    steps: &[(String, &str)],
    entries: &str,
    packets: &[(u32, Vec<u8>)],
) -> Result<(), TestCaseError> {
    let [steps, merged] = [Form::Steps, Form::Merged].map(|form| composed(policy, steps, form));
    let expected = outcome(device(&steps, &interp::Interp, entries), packets, false);
    for engine in testkit::engines() {
        for (form, chain) in [("steps", &steps), ("merged", &merged)] {
            for in_bursts in [false, true] {
                let device = device(chain, engine.as_ref(), entries);
                let found = outcome(device, packets, in_bursts);
                let name = engine.name();
                let what = format!("{text} as {form} on {name}, in bursts: {in_bursts}");
                prop_assert_eq!(&found, &expected, "{}", what);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_form_of_a_chain_does_the_same(
        policy in prop::collection::vec(element(), 1..4),
        packets in prop::collection::vec(packet(), 1..60),
    ) {
        check(&policy, &packets)?;
    }
}

/// Returns the steps that stay separate, with the reason.
fn apart(policy: &str) -> Vec<(String, String)> {
    let read = Policy::read(policy).unwrap_or_else(|error| panic!("{error}"));
    let steps = read.steps().into_iter();
    let steps: Vec<(String, &str)> = steps
        .map(|step| {
            let mut functions = programs().map(|(name, _)| name);
            let function = functions.find(|name| *name == step.source);
            (step.name.clone(), function.expect("a function"))
        })
        .collect();
    let joints = composed(&read, &steps, Form::Merged).joints.into_iter();
    let joints = joints.filter_map(|joint| Some((joint.step, joint.apart?.to_string())));
    joints.collect()
}

#[test]
fn the_functions_become_one_pipeline() {
    let none: Vec<(String, String)> = Vec::new();
    assert_eq!(apart("mac_learn -> l3_sw -> ip_sg -> fw -> qos"), none);
    assert_eq!(
        apart(
            "mac_learn -> [ingress_port == 3: qos -> fw | hdr.ipv4.protocol == 17: ip_sg | else: l3_sw] -> last = fw"
        ),
        none
    );
    assert_eq!(apart("qos -> [ingress_port == 3: fw]"), none);
    assert_eq!(
        apart("counts -> [ingress_port == 3: leaves | else: checks]"),
        none
    );
}

#[test]
fn what_stays_apart_says_why() {
    let told = |policy: &str| {
        apart(policy)
            .into_iter()
            .map(|(step, why)| format!("{step}: {why}"))
    };
    let told = |policy: &str| told(policy).collect::<Vec<_>>();
    assert_eq!(
        told("l2_sw -> fw -> qos"),
        ["fw: `l2_sw` reads standard_metadata.egress_spec, which each step is told anew"]
    );
    assert_eq!(
        told("qos -> [ingress_port == 3: l2_sw | else: fw] -> last = fw"),
        ["last: `l2_sw` reads standard_metadata.egress_spec, which each step is told anew"]
    );
    assert_eq!(
        told("qos -> [checksum_error == 1: fw]"),
        ["fw: the choice behind `qos` asks for checksum_error, which each step is told anew"]
    );
    assert_eq!(
        told("rewrites -> again = rewrites"),
        ["again: the parser of `rewrites` writes headers otherwise than by extracting them"]
    );
    assert_eq!(
        told("waits -> fw"),
        ["fw: `waits` reads standard_metadata.deq_qdepth, which each step is told anew"]
    );
    assert_eq!(
        told("fw -> verifies"),
        ["verifies: `verifies` leaves its control by `exit`"]
    );
}

/// Policies that are likely to expose faults in chains, one for each risk.
const RISKY: &[&str] = &[
    "lengthens -> measures",
    "lengthens -> measures -> again = measures",
    "rewrites -> again = rewrites -> fw",
    "l3_sw -> counts -> [ingress_port == 3: leaves | else: checks]",
    "l3_sw -> leaves -> [egress_spec == 3: fw | else: counts]",
    "l3_sw -> counts -> [egress_spec == 3: rewrites | egress_spec == 2: measures]",
    "lengthens -> counts -> [egress_spec == 0: measures | else: leaves]",
    "l3_sw -> checks -> [checksum_error == 1: counts | else: qos]",
    "qos -> verifies -> counts",
    "checks -> verifies",
    "waits -> counts -> fw",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn risky_chains_do_the_same_in_every_form(packets in prop::collection::vec(packet(), 30..60)) {
        for text in RISKY {
            let policy = Policy::read(text).unwrap_or_else(|error| panic!("{error}"));
            let steps: Vec<(String, &'static str)> = policy.steps().into_iter().map(|step| {
                let (name, _) = programs().find(|(name, _)| *name == step.source).expect("a program");
                (step.name.clone(), name)
            }).collect();
            let entries = steps.iter().map(|(step, name)| {
                let (_, entries) = programs().find(|(known, _)| known == name).expect("a program");
                entries.replace("STEP", step) + "\n"
            });
            same_in_every_form(text, &policy, &steps, &entries.collect::<String>(), &packets)?;
        }
    }
}

/// Returns the packets sent if each function of the chain runs on its own device, and frames are
/// passed from one to the next. Each device receives the original ingress port. Only l3_sw chooses
/// an egress port.
fn by_hand(line: &[&'static str], packets: &[(u32, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
    let devices = line.iter().map(|&name| {
        let entries = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let entries = entries
            .map_or("", |(_, entries)| entries)
            .replace("STEP", name);
        let policy = Policy::read(name).expect("a policy of one step");
        let chain = composed(&policy, &[(name.to_owned(), name)], Form::Steps);
        (name, device(&chain, &interp::Interp, &entries))
    });
    let mut devices: Vec<(&str, Device)> = devices.collect();
    let mut through = Vec::new();
    for (ingress, bytes) in packets {
        let mut packet = Some((0, bytes.clone()));
        for (name, device) in &mut devices {
            let Some((chosen, bytes)) = packet.take() else {
                break;
            };
            device
                .receive(PortId(*ingress), &bytes)
                .expect("a short frame");
            device.step(Nanos(1));
            device.drain_sent(|port, bytes, _| {
                let port = if *name == "l3_sw" { port.0 } else { chosen };
                packet = Some((port, bytes.to_vec()));
            });
        }
        through.extend(packet);
    }
    through
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_does_what_its_devices_do_one_after_the_other(
        line in prop::sample::subsequence(vec!["mac_learn", "l3_sw", "ip_sg", "fw", "qos"], 1..5),
        packets in prop::collection::vec(packet(), 1..60),
    ) {
        let policy = Policy::read(&line.join(" -> ")).expect("a line");
        let steps: Vec<(String, &str)> = line.iter().map(|&name| (name.to_owned(), name)).collect();
        let entries = FUNCTIONS.iter().filter(|(name, _)| line.contains(name));
        let entries: Vec<String> = entries.map(|(name, text)| text.replace("STEP", name)).collect();
        let expected = by_hand(&line, &packets);
        for form in [Form::Steps, Form::Merged] {
            let chain = composed(&policy, &steps, form);
            let device = device(&chain, &interp::Interp, &entries.join("\n"));
            prop_assert_eq!(&outcome(device, &packets, false).sent, &expected, "{:?}", form);
        }
    }
}

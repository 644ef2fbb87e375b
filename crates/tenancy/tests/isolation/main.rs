//! Isolation: whatever programs send by a port that several vPDPs share, no receiver takes it for
//! another vPDP's. A model of the receiver predicts the packets that leave and enter.
//!
//! Each sharing mode is tested with a number of frames in each direction:
//! `POLYPLANE_ISOLATION_FRAMES`, or a few thousand.

#[path = "../common/mod.rs"]
mod common;
mod frames;
mod leaving;
mod model;
mod programs;

use std::net::Ipv4Addr;
use std::sync::Arc;

use common::{forward, frame, hypervisor, id, program, spec};
use exec::DropReason;
use frames::{PREFIX, Random, SHARED, any_rules, contradicts_itself, incoming, vlan_rules};
use ir::Program;
use model::{Model, Sharing};
use packet::{Frame, PortId};
use support::mac::MacAddress;
use tenancy::{Backbone, Encapsulation, MacPrefix, Rule, TenantSwitch, Tunnel, VpdpId, Worker};

/// vPDPs of each switch; the number of a vPDP's own port is ten times the vPDP's number.
const VPDPS: [u16; 3] = [1, 2, 3];

/// Frames per rule set.
const BURST: usize = 250;

/// Returns the number of frames per sharing mode.
fn count() -> usize {
    let asked = std::env::var("POLYPLANE_ISOLATION_FRAMES").ok();
    asked.and_then(|count| count.parse().ok()).unwrap_or(5_000)
}

/// Sends packets from port 0 to port 1 and back.
fn wire() -> Arc<Program> {
    program("apply { standard.egress_spec = standard.ingress_port ^ 1; }")
}

/// Creates a switch with the shared port of a model, and vPDPs with this program.
fn switch(model: &Model, how: tenancy::Sharing, runs: &Arc<Program>) -> (TenantSwitch, Worker) {
    let mut hypervisor = hypervisor();
    hypervisor.share(PortId(SHARED), Some(how)).unwrap();
    for number in model.vpdps.iter().copied() {
        let own = u32::from(number) * 10;
        hypervisor.create(spec(number, &[SHARED, own])).unwrap();
        hypervisor.load(id(number), Arc::clone(runs)).unwrap();
    }
    let rules = (0..).zip(&model.rules);
    let rules = rules.map(|(number, rule): (u32, _)| Rule {
        name: number.to_string(),
        vpdp: VpdpId::new(rule.vpdp).unwrap(),
        priority: rule.priority,
        conditions: rule.asks.iter().map(frames::condition).collect(),
    });
    hypervisor.add_rules(rules).unwrap();
    let worker = hypervisor.workers(1).remove(0);
    (hypervisor, worker)
}

/// A sharing mode, and the bytes in front of description headers.
struct Way {
    model: Model,
    how: tenancy::Sharing,
    outer: Vec<u8>,
}

impl Way {
    fn new(sharing: Sharing, how: tenancy::Sharing, rules: Vec<model::Rule>) -> Way {
        let mut rules = rules;
        rules.retain(|rule| !contradicts_itself(rule));
        let model = Model {
            port: SHARED,
            sharing,
            rules,
            vpdps: VPDPS.to_vec(),
        };
        Way {
            model,
            how,
            outer: Vec::new(),
        }
    }
}

fn by_vlans(random: &mut Random) -> Way {
    Way::new(Sharing::Rules, tenancy::Sharing::Rules, vlan_rules(random))
}

fn by_any_rules(random: &mut Random) -> Way {
    Way::new(Sharing::Rules, tenancy::Sharing::Rules, any_rules(random))
}

fn by_addresses(random: &mut Random) -> Way {
    let how = tenancy::Sharing::Destination(MacPrefix::new(PREFIX).unwrap());
    let mut rules = any_rules(random);
    for rule in &mut rules {
        // Tags are removed only at ports that are shared by rules.
        rule.asks
            .retain(|ask| !matches!(ask, model::Ask::Vlan(_, true)));
    }
    Way::new(Sharing::Mac(PREFIX), how, rules)
}

/// Returns the encapsulations. Both ends have the same addresses, so that each end accepts what it
/// sends.
fn carriages() -> [Encapsulation; 3] {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let backbone = Backbone {
        local: mac,
        remote: mac,
    };
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let tunnel = Tunnel {
        backbone,
        local: address,
        remote: address,
        vni: 7,
    };
    [
        Encapsulation::Plain,
        Encapsulation::MacInMac(backbone),
        Encapsulation::Vxlan(tunnel),
    ]
}

fn described(carriage: Encapsulation) -> Way {
    let outer = carriage.bytes() - 4;
    let how = tenancy::Sharing::Described(carriage);
    Way::new(Sharing::Described(outer), how, Vec::new())
}

/// Checks frames that vPDPs send by the shared port. They leave if a receiver assigns them to the
/// sender, unchanged or with the added tag, and are dropped otherwise.
fn check_egress(random: &mut Random, way: &Way, runs: &Arc<Program>) -> [u64; 2] {
    let (hypervisor, mut worker) = switch(&way.model, way.how, runs);
    let mut counts = [0, 0];
    for number in VPDPS {
        let own = u32::from(number) * 10;
        let all: Vec<Vec<u8>> = (0..BURST / 3).map(|_| frames::frame(random)).collect();
        let sent: Vec<(u32, Vec<u8>)> = all
            .iter()
            .flat_map(|bytes| forward(&mut worker, &mut [frame(own, bytes)], 1))
            .collect();
        let expected: Vec<(u32, Vec<u8>)> = match way.model.sharing {
            Sharing::Described(outer) => {
                assert_eq!(sent.len(), all.len());
                for ((_, sent), bytes) in sent.iter().zip(&all) {
                    assert_eq!(way.model.is_from(sent), Some(number));
                    assert_eq!(sent[outer + 4..], bytes[..]);
                }
                sent.clone()
            }
            _ => {
                let leave = all.iter();
                let leave = leave.filter_map(|bytes| way.model.goes_out(number, bytes));
                leave.map(|bytes| (SHARED, bytes)).collect()
            }
        };
        assert_eq!(sent, expected, "vPDP {number}: {:?}", way.model);
        let device = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        let foreign = device.ledger().dropped(DropReason::ForeignEgress);
        assert_eq!(foreign as usize, all.len() - sent.len());
        counts[0] += sent.len() as u64;
        counts[1] += foreign;
    }
    hypervisor.check_conservation().unwrap();
    counts
}

/// Checks that frames received at the shared port reach the vPDP that the model predicts, as it
/// predicts.
fn check_ingress(random: &mut Random, way: &Way, runs: &Arc<Program>) -> [u64; 2] {
    let (hypervisor, mut worker) = switch(&way.model, way.how, runs);
    let mut counts = [0, 0];
    // Singly and in bursts: frames of a burst are classified together.
    for size in [1, 7, 64] {
        for _ in 0..BURST / 3 / size + 1 {
            let all: Vec<Vec<u8>> = (0..size)
                .map(|_| incoming(random, &way.model, &way.outer))
                .collect();
            let mut frames: Vec<Frame> = all.iter().map(|bytes| frame(SHARED, bytes)).collect();
            let mut sent = forward(&mut worker, &mut frames, 1);
            let mut expected: Vec<(u32, Vec<u8>)> = all
                .iter()
                .filter_map(|bytes| way.model.comes_in(bytes))
                .map(|(vpdp, bytes)| (u32::from(vpdp) * 10, bytes))
                .collect();
            // Frames of one vPDP stay in order.
            sent.sort_by_key(|(port, _)| *port);
            expected.sort_by_key(|(port, _)| *port);
            assert_eq!(sent, expected, "{:?}", way.model);
            counts[0] += sent.len() as u64;
            counts[1] += (all.len() - sent.len()) as u64;
        }
    }
    hypervisor.check_conservation().unwrap();
    counts
}

/// Checks the configured number of frames. Some must leave, and some must not, unless the switch
/// adds description headers.
fn check(seed: u64, mut way: impl FnMut(&mut Random) -> Way) {
    let mut random = Random::new(seed);
    let (wire, forger) = (wire(), programs::forger());
    let mut sums = [[0; 2]; 3];
    for _ in 0..count().div_ceil(BURST) {
        let way = way(&mut random);
        let counts = [
            check_egress(&mut random, &way, &wire),
            check_ingress(&mut random, &way, &wire),
            programs::check_forger(&mut random, &way, &forger),
        ];
        for (sum, counts) in sums.iter_mut().zip(counts) {
            *sum = [sum[0] + counts[0], sum[1] + counts[1]];
        }
    }
    let [[left, held_back], [came, refused], [forged, _]] = sums;
    assert!(
        left > 0 && came > 0 && refused > 0 && forged > 0,
        "{sums:?}"
    );
    let describes = matches!(way(&mut random).model.sharing, Sharing::Described(_));
    assert_eq!(held_back > 0, !describes, "{sums:?}");
}

#[test]
fn no_frame_leaves_as_anothers_where_vlans_tell_vpdps_apart() {
    check(1, by_vlans);
}

#[test]
fn no_frame_leaves_as_anothers_where_rules_tell_vpdps_apart() {
    check(2, by_any_rules);
}

#[test]
fn no_frame_leaves_as_anothers_where_addresses_tell_vpdps_apart() {
    check(3, by_addresses);
}

#[test]
fn no_frame_leaves_as_anothers_where_descriptions_tell_vpdps_apart() {
    for (seed, carriage) in (4..).zip(carriages()) {
        let outer = outer_of(carriage);
        check(seed, |_| Way {
            outer: outer.clone(),
            ..described(carriage)
        });
    }
}

/// Returns the bytes in front of a description header, taken from a sent frame.
fn outer_of(carriage: Encapsulation) -> Vec<u8> {
    let way = described(carriage);
    let (_hypervisor, mut worker) = switch(&way.model, way.how, &wire());
    let sent = forward(&mut worker, &mut [frame(10, &[0; frames::DESCRIBED])], 1);
    sent[0].1[..carriage.bytes() - 4].to_vec()
}

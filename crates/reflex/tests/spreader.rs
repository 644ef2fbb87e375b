//! The shipped loop against scanners: hosts with many peers are blocked at all edges.

mod common;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use common::{Bed, Generator, bed, check_counts, flow_of, udp_frame, without_traffic};
use packet::Nanos;
use reflex::{
    Decision, ElementIndex, Measured, MonitorIndex, Outcome, ReflexIndex, Setting, Subject,
};

/// Peers that a host may have.
const LIMIT: u32 = 32;
/// First packet.
const START: Nanos = Nanos::from_millis(20);
const SCANNERS: u32 = 200;
const BENIGN: u32 = 10_000;
/// Benign hosts with as many peers as are allowed.
const BUSY: u32 = 40;

fn decisions(bed: &Bed) -> Vec<Decision> {
    bed.plane.get().plane().decisions().copied().collect()
}

fn mac(edge: u32) -> [u8; 6] {
    [2, 0, 0, 0, edge as u8, 1]
}

/// A frame of a host to a peer. Peers are at the edges in turn.
fn frame(host: Ipv4Addr, peer: u32) -> Vec<u8> {
    let edge = 1 + peer % 4;
    let to = Ipv4Addr::from(0x1400_0000 + peer);
    udp_frame(mac(edge), (host.octets(), 1024), (to.octets(), 6000), 60)
}

fn scanner(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a01_0000 + number)
}

fn benign(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a02_0000 + number)
}

#[test]
fn scanners_below_each_local_limit_are_blocked_and_no_benign_host_is() {
    let mut bed = bed("spreader", |fabric, loops| {
        (without_traffic(&fabric), loops)
    });
    let mut frames: [Vec<(Nanos, Vec<u8>)>; 4] = Default::default();
    // Each scanner asks for twice the limit; its peers are at four edges, a quarter at each.
    let mut number = 0;
    let mut add = |host: Ipv4Addr, from: u32, peer: u32, number: u32| {
        let at = START + Nanos(u64::from(number) * 1000);
        frames[from as usize].push((at, frame(host, peer)));
    };
    for round in 0..2 * LIMIT {
        for host in 0..SCANNERS {
            add(scanner(host), host % 4, host * 64 + round, number);
            number += 1;
        }
        // Benign hosts meanwhile.
        for host in (round..BENIGN).step_by(2 * LIMIT as usize) {
            add(benign(host), host % 4, host * 64, number);
            number += 1;
        }
        for host in 0..BUSY {
            let peer = host * 64 + round % LIMIT;
            add(benign(host), host % 4, peer, number);
            number += 1;
        }
    }
    let received: Vec<_> = (1..)
        .zip(frames)
        .map(|(edge, frames)| Generator::new(frames).replace(&mut bed, &format!("h{edge}")))
        .collect();
    bed.simulation.run_until(Nanos::from_millis(200)).unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    let decisions = decisions(&bed);
    let mut blocked: HashMap<IpAddr, u32> = HashMap::new();
    for decision in &decisions {
        let Subject::Host(host) = decision.subject else {
            panic!("{decision:?}");
        };
        let limit = LIMIT;
        let peers = limit + 1;
        assert_eq!(decision.measured, Measured::Peers { peers, limit });
        if let Outcome::Made(made) = decision.outcome {
            assert_eq!(made.setting, Setting::Action(None));
            assert!(made.answered.is_some());
            *blocked.entry(host).or_default() += 1;
        }
    }
    // At each of the four edges.
    let expected = (0..SCANNERS).map(|host| (IpAddr::from(scanner(host)), 4));
    assert_eq!(blocked, expected.collect());
    let mut reached: HashMap<Ipv4Addr, HashSet<Ipv4Addr>> = HashMap::new();
    let mut at_edge: HashMap<(usize, Ipv4Addr), HashSet<Ipv4Addr>> = HashMap::new();
    let mut benign_frames = 0;
    for (edge, delivered) in received.iter().enumerate() {
        for frame in delivered.borrow().iter() {
            let (from, to, _, _) = flow_of(&frame.bytes);
            reached.entry(from).or_default().insert(to);
            at_edge.entry((edge, from)).or_default().insert(to);
            benign_frames += u32::from(from >= benign(0));
        }
    }
    // Every frame of benign hosts arrives.
    assert_eq!(benign_frames, BENIGN + BUSY * 2 * LIMIT);
    for host in 0..SCANNERS {
        let peers = reached[&scanner(host)].len();
        assert!(peers <= (LIMIT + LIMIT / 2) as usize, "{host}: {peers}");
    }
    let most = at_edge.values().map(HashSet::len).max();
    assert!(most < Some(LIMIT as usize), "{most:?}");
    let counts = bed.plane.get().plane().monitor_counts(MonitorIndex(0));
    assert_eq!(counts.no_room, 0);
}

#[test]
fn a_block_ends_and_a_host_that_scans_again_is_blocked_again() {
    let mut bed = bed("spreader", |fabric, loops| {
        let loops = loops.replace("life = \"10 s\"", "life = \"5 ms\"");
        (
            without_traffic(&fabric),
            loops.replace("within = \"1 s\"", "within = \"2 ms\""),
        )
    });
    // A quarter of the peers is at the edge itself, which sends no reports about them.
    let scan = |at: u64, first: u32| {
        let peers = first..first + 60;
        peers.map(move |peer| {
            let after = Nanos(u64::from(peer - first) * 10_000);
            let at = Nanos::from_millis(at) + after;
            (at, frame(scanner(0), peer))
        })
    };
    let frames = scan(20, 0).chain(scan(23, 100)).chain(scan(40, 200));
    Generator::new(frames.collect()).replace(&mut bed, "h1");
    for host in ["h2", "h3", "h4"] {
        Generator::new(Vec::new()).replace(&mut bed, host);
    }
    bed.simulation.run_until(Nanos::from_millis(22)).unwrap();
    for at in 0..4 {
        assert_eq!(bed.plane.get().plane().entries(ReflexIndex(at)), 1);
    }
    bed.simulation.run_until(Nanos::from_millis(60)).unwrap();
    bed.simulation.check_conservation().unwrap();
    let made = decisions(&bed);
    let made = made
        .iter()
        .filter(|it| matches!(it.outcome, Outcome::Made(_)));
    assert_eq!(made.count(), 8);
    let driver = bed.plane.get();
    assert_eq!(driver.plane().counts().ended, 8);
    for at in 0..4 {
        assert_eq!(driver.plane().entries(ReflexIndex(at)), 0);
        let element = driver.element_counts(ElementIndex(at));
        assert_eq!((element.applied, element.refused), (4, 0));
    }
    // In the switch, too.
    for (name, device) in &bed.devices {
        device.with(|device| {
            let mut tables = device.program().tables.iter();
            let found = tables.find(|(_, table)| table.name == "IntIngress.blocked");
            let (table, _) = found.expect("the program has the table");
            let entries = device.configuration().tables[table].iter().len();
            assert_eq!(entries, 0, "{name}");
        });
    }
}

#[test]
fn forged_reports_block_nobody() {
    let mut bed = bed("spreader", |fabric, loops| {
        (without_traffic(&fabric), loops)
    });
    // A host sends what edge 1 would: its address, and another one; both with node IDs that exist.
    let report = |address: [u8; 4], peer: u32| {
        let mut frame = udp_frame(
            [2, 0, 0, 0, 0, 0x99],
            (address, 32766),
            ([10, 9, 0, 99], 32766),
            42 + 8 + 8 + 28,
        );
        let inner = udp_frame(
            mac(1),
            ([10, 1, 0, 1], 1024),
            (Ipv4Addr::from(0x1400_0000 + peer).octets(), 6000),
            60,
        );
        let payload = &mut frame[42..];
        payload[..4].copy_from_slice(&(2u32 << 28 | peer).to_be_bytes());
        payload[4..8].copy_from_slice(&3u32.to_be_bytes());
        // An IPv4 packet to the end, of a watched flow.
        payload[8..12].copy_from_slice(&[0x04, 255, 0, 0x20]);
        payload[12..16].fill(0);
        payload[16..16 + 28].copy_from_slice(&inner[14..42]);
        frame
    };
    let frames = (0..100).map(|peer| {
        let address = if peer % 2 == 0 {
            [10, 9, 0, 1]
        } else {
            [10, 0, 1, 1]
        };
        (START + Nanos(u64::from(peer) * 1000), report(address, peer))
    });
    Generator::new(frames.collect()).replace(&mut bed, "h1");
    bed.simulation.run_until(Nanos::from_millis(30)).unwrap();
    check_counts(bed.plane.get().plane());
    let driver = bed.plane.get();
    let counts = driver.plane().counts();
    // Node 3 has another address, and edge 1 puts INT into what its host sends.
    assert_eq!((counts.received, counts.accepted), (100, 0));
    assert_eq!(counts.not_allowed, 50);
    assert_eq!(decisions(&bed).len(), 0);
}

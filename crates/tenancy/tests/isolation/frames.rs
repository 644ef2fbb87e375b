//! Random numbers, rules and frames, of few values each, so that frames often match rules, also
//! those of other vPDPs.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::PortId;
use support::mac::MacAddress;
use support::rng::Xorshift;
use tenancy::{Condition, Vlan};

use crate::model::{self, Ask, Model, Sharing};

/// The shared physical port.
pub(crate) const SHARED: u32 = 5;

pub(crate) const PREFIX: [u8; 3] = [0x02, 0xaa, 0xbb];

/// Seeded random choices.
pub(crate) struct Random(Xorshift);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Xorshift::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    pub(crate) fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const VLANS: [u16; 4] = [10, 20, 30, 4094];
const ETHERTYPES: [u16; 4] = [0x0800, 0x86dd, 0x0806, 0x9100];
const ADDRESSES: [u32; 4] = [0x0a01_0203, 0x0a01_ff00, 0x0a02_0001, 0];
const PROTOCOLS: [u8; 4] = [6, 17, 132, 1];
const PORTS: [u16; 5] = [0, 53, 80, 4000, 9570];
const REDUCTIONS: [u16; 2] = [0, 6];

fn mac(random: &mut Random) -> [u8; 6] {
    let [a, b, c] = PREFIX;
    let last = random.of(&[0, 1]);
    match random.below(6) {
        0 => [0xff; 6],
        1 => [0, 0, 0, 0, 0, last],
        2 => [2, 0, 0, 0, 0, last],
        // Addresses of vPDPs 0 to 3, with the prefix.
        _ => [a, b, c, 0, (random.below(4) as u8) << 4, last],
    }
}

fn v6(random: &mut Random) -> u128 {
    0x2001_0db8 << 96 | u128::from(random.of(&ADDRESSES))
}

fn ask(random: &mut Random) -> Ask {
    let bits = random.of(&[0, 8, 16, 32]);
    let wide = random.of(&[0, 32, 112, 128]);
    let range = |random: &mut Random| {
        let (one, other) = (random.of(&PORTS), random.of(&PORTS));
        (one.min(other), one.max(other))
    };
    match random.below(13) {
        // 30 is replaced by "untagged".
        0 | 1 => Ask::Vlan(Some(random.of(&VLANS)).filter(|id| *id != 30), false),
        2 => Ask::Destination(mac(random)),
        3 => Ask::Source(mac(random)),
        4 => Ask::EtherType(random.of(&ETHERTYPES)),
        5 => Ask::V4Source(random.of(&ADDRESSES), bits),
        6 => Ask::V4Destination(random.of(&ADDRESSES), bits),
        7 => Ask::V6Source(v6(random), wide),
        8 => Ask::V6Destination(v6(random), wide),
        9 => Ask::Protocol(random.of(&PROTOCOLS)),
        10 => {
            let (first, last) = range(random);
            Ask::L4Source(first, last)
        }
        11 => {
            let (first, last) = range(random);
            Ask::L4Destination(first, last)
        }
        _ => Ask::Reduction(random.of(&REDUCTIONS)),
    }
}

/// Returns the condition of the product for one of the model.
pub(crate) fn condition(ask: &Ask) -> Condition {
    match *ask {
        Ask::Port(port) => Condition::Port(PortId(port)),
        Ask::Vlan(None, _) => Condition::Vlan(Vlan::Untagged),
        Ask::Vlan(Some(id), false) => Condition::Vlan(Vlan::Id(id)),
        Ask::Vlan(Some(id), true) => Condition::Vlan(Vlan::Access(id)),
        Ask::Destination(mac) => Condition::Destination(MacAddress(mac)),
        Ask::Source(mac) => Condition::Source(MacAddress(mac)),
        Ask::EtherType(ethertype) => Condition::EtherType(ethertype),
        Ask::V4Source(net, bits) => Condition::Ipv4Source(Ipv4Addr::from_bits(net), bits as u8),
        Ask::V4Destination(net, bits) => {
            Condition::Ipv4Destination(Ipv4Addr::from_bits(net), bits as u8)
        }
        Ask::V6Source(net, bits) => Condition::Ipv6Source(Ipv6Addr::from_bits(net), bits as u8),
        Ask::V6Destination(net, bits) => {
            Condition::Ipv6Destination(Ipv6Addr::from_bits(net), bits as u8)
        }
        Ask::Protocol(number) => Condition::Protocol(number),
        Ask::L4Source(first, last) => Condition::L4Source(first..=last),
        Ask::L4Destination(first, last) => Condition::L4Destination(first..=last),
        Ask::Reduction(number) => Condition::Reduction(number),
    }
}

/// Returns rules on port and VLAN only, as for access ports and trunks. One vPDP has an untagged
/// access VLAN. Another one has all untagged packets, or also an access VLAN.
pub(crate) fn vlan_rules(random: &mut Random) -> Vec<model::Rule> {
    let asks = [
        (1, Ask::Vlan(Some(10), true)),
        match random.is_one_in(2) {
            true => (2, Ask::Vlan(None, false)),
            false => (2, Ask::Vlan(Some(20), true)),
        },
        (1, Ask::Vlan(Some(30), false)),
        (3, Ask::Vlan(Some(4094), random.is_one_in(2))),
    ];
    let asks = (0..).zip(asks);
    asks.map(|(priority, (vpdp, ask))| model::Rule {
        vpdp,
        priority,
        asks: vec![Ask::Port(SHARED), ask],
    })
    .collect()
}

/// Returns rules on all fields.
pub(crate) fn any_rules(random: &mut Random) -> Vec<model::Rule> {
    let count = 1 + random.below(8);
    let mut rules: Vec<model::Rule> = (0..count as i32)
        .map(|priority| {
            let mut asks = Vec::new();
            for _ in 0..random.below(4) {
                let more = ask(random);
                let kind = std::mem::discriminant(&more);
                if asks.iter().all(|one| std::mem::discriminant(one) != kind) {
                    asks.push(more);
                }
            }
            if random.is_one_in(2) {
                asks.push(Ask::Port(SHARED));
            }
            model::Rule {
                vpdp: 1 + random.below(3) as u16,
                priority,
                asks,
            }
        })
        .collect();
    // An access rule of one vPDP, which may have more conditions.
    if random.is_one_in(2) {
        let vpdp = 1 + random.below(3) as u16;
        let mut asks = vec![Ask::Vlan(Some(10), true), Ask::Port(SHARED)];
        let more = ask(random);
        if !matches!(more, Ask::Vlan(..)) {
            asks.push(more);
        }
        let priority = 100;
        let others = rules.iter_mut().filter(|rule| rule.vpdp == vpdp);
        others.for_each(|rule| rule.asks.retain(|ask| !matches!(ask, Ask::Vlan(..))));
        rules.push(model::Rule {
            vpdp,
            priority,
            asks,
        });
    }
    rules
}

/// Returns true if no packet matches all conditions: such a rule is refused.
pub(crate) fn contradicts_itself(rule: &model::Rule) -> bool {
    let needs = |ask: &Ask| match ask {
        Ask::V4Source(..) | Ask::V4Destination(..) => Some(0x0800),
        Ask::V6Source(..) | Ask::V6Destination(..) => Some(0x86dd),
        Ask::EtherType(ethertype) => Some(*ethertype),
        _ => None,
    };
    let mut needed: Vec<u16> = rule.asks.iter().filter_map(needs).collect();
    needed.dedup();
    needed.iter().any(|one| *one != needed[0])
}

/// Returns a frame of few values, sometimes truncated or damaged.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let mut bytes = [mac(random), mac(random)].concat();
    for _ in 0..random.of(&[0, 0, 1, 1, 2, 3]) {
        bytes.extend(random.of(&[0x8100u16, 0x8100, 0x88a8]).to_be_bytes());
        let id = random.of(&[0, 10, 20, 30, 4094, 4095]);
        bytes.extend((random.of(&[0u16, 0x1000, 0xe000]) | id).to_be_bytes());
    }
    let ethertype = random.of(&ETHERTYPES);
    bytes.extend(ethertype.to_be_bytes());
    let protocol = random.of(&PROTOCOLS);
    match ethertype {
        0x0800 => {
            let words = random.of(&[5u8, 5, 6, 0]);
            let offset = random.of(&[0u8, 0, 0, 1]);
            bytes.extend([0x40 | words, 0, 0, 40, 0, 0, 0, offset, 64, protocol, 0, 0]);
            bytes.extend(random.of(&ADDRESSES).to_be_bytes());
            bytes.extend(random.of(&ADDRESSES).to_be_bytes());
            bytes.extend(vec![0; usize::from(words.saturating_sub(5)) * 4]);
        }
        0x86dd => {
            bytes.extend([0x60, 0, 0, 0, 0, 8, protocol, 64]);
            bytes.extend(v6(random).to_be_bytes());
            bytes.extend(v6(random).to_be_bytes());
        }
        _ => {}
    }
    bytes.extend(random.of(&PORTS).to_be_bytes());
    bytes.extend(random.of(&PORTS).to_be_bytes());
    let mut behind = vec![0; random.of(&[0, 4, 16, 64])];
    if let Some(number) = behind.get_mut(8..10) {
        number.copy_from_slice(&random.of(&REDUCTIONS).to_be_bytes());
    }
    bytes.extend(behind);
    if random.is_one_in(4) {
        bytes.truncate(2 + random.below(bytes.len() - 2));
    }
    if random.is_one_in(16) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

/// Number of bytes in front of a description header in VXLAN, and the length of the frame from
/// which they are taken.
const OUTER_OF_VXLAN: usize = 50;
pub(crate) const DESCRIBED: usize = 64;

/// Returns a frame as received at the port of a model. If the port is shared by description
/// header, it has outer headers and a description, valid or damaged.
pub(crate) fn incoming(random: &mut Random, model: &Model, outer: &[u8]) -> Vec<u8> {
    let mut inner = frame(random);
    let Sharing::Described(_) = model.sharing else {
        return inner;
    };
    if outer.len() == OUTER_OF_VXLAN {
        // The outer headers contain its length.
        inner.resize(DESCRIBED, 0);
    }
    let mut header = model::description(random.of(&[0, 1, 2, 3, 4]), inner.len());
    if random.is_one_in(3) {
        header[random.below(4)] ^= 1 << random.below(8);
    }
    [outer, &header, &inner].concat()
}

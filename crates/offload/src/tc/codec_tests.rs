//! Tests of the messages.

use proptest::prelude::*;

use super::*;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;

const FIELDS: [Field; 19] = [
    Field::EthDst,
    Field::EthSrc,
    Field::VlanId,
    Field::VlanPriority,
    Field::VlanEthType,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::IpTos,
    Field::IpTtl,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::SrcPort,
    Field::DstPort,
    Field::TcpFlags,
    Field::Fragment,
];

fn key(field: Field) -> impl Strategy<Value = Option<Key>> {
    (any::<bool>(), any::<u128>(), any::<u128>()).prop_map(move |(is_there, value, mask)| {
        let mask = match field.is_maskable() {
            true => mask & field.all(),
            false => field.all(),
        };
        (is_there && mask != 0).then_some(Key {
            field,
            value: value & mask,
            mask,
        })
    })
}

fn pedit_key() -> impl Strategy<Value = PeditKey> {
    let header = prop_oneof![
        Just(PeditHeader::Ethernet),
        Just(PeditHeader::Ipv4),
        Just(PeditHeader::Ipv6)
    ];
    (
        header,
        0..10u32,
        any::<[u8; 4]>(),
        any::<[u8; 4]>(),
        any::<bool>(),
    )
        .prop_map(|(header, word, keep, value, add)| PeditKey {
            header,
            offset: word * 4,
            keep,
            value,
            add,
        })
}

fn action() -> impl Strategy<Value = Action> {
    let tag = (any::<u16>(), 0..4096u16, 0..8u8);
    prop_oneof![
        prop::collection::vec(pedit_key(), 1..5).prop_map(Action::Pedit),
        Just(Action::Ipv4Checksum),
        tag.clone()
            .prop_map(|(protocol, id, priority)| Action::VlanPush {
                protocol,
                id,
                priority
            }),
        tag.prop_map(|(protocol, id, priority)| Action::VlanModify {
            protocol,
            id,
            priority
        }),
        Just(Action::VlanPop),
        (
            any::<u16>(),
            0..1u32 << 20,
            0..8u8,
            any::<bool>(),
            any::<u8>()
        )
            .prop_map(|(protocol, label, tc, bos, ttl)| Action::MplsPush {
                protocol,
                label,
                tc,
                bos,
                ttl
            }),
        any::<u16>().prop_map(|protocol| Action::MplsPop { protocol }),
        any::<u32>().prop_map(Action::Mirror),
        any::<u32>().prop_map(Action::Redirect),
        Just(Action::Drop),
        Just(Action::Pass),
    ]
}

fn planes() -> impl Strategy<Value = RulePlanes> {
    prop_oneof![
        Just(RulePlanes::Both),
        Just(RulePlanes::Hardware),
        Just(RulePlanes::Software)
    ]
}

fn rule() -> impl Strategy<Value = FlowerRule> {
    let keys = Vec::from(FIELDS.map(key));
    let actions = prop::collection::vec(action(), 1..8);
    (
        any::<(u32, u16, u16, [u8; 16])>(),
        planes(),
        any::<bool>(),
        keys,
        actions,
    )
        .prop_map(
            |((chain, priority, protocol, cookie), planes, is_udp, keys, actions)| {
                let proto = if is_udp { rule::UDP } else { rule::TCP };
                let (field, mask) = (Field::IpProto, Field::IpProto.all());
                let proto = Key {
                    field,
                    value: proto.into(),
                    mask,
                };
                let mut keys: Vec<Key> = keys.into_iter().flatten().chain([proto]).collect();
                keys.sort_unstable();
                FlowerRule {
                    chain,
                    priority,
                    protocol,
                    keys,
                    actions,
                    planes,
                    cookie,
                }
            },
        )
}

/// Returns a message as the other side reads it from its bytes.
fn over_the_wire(message: TcMessage) -> TcMessage {
    let request = RouteNetlinkMessage::NewTrafficFilter(message);
    let mut message = NetlinkMessage::from(request);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    match NetlinkMessage::deserialize(&bytes)
        .expect("the bytes are a message")
        .payload
    {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewTrafficFilter(message)) => message,
        other => panic!("another message: {other:?}"),
    }
}

proptest! {
    #[test]
    fn each_rule_survives_its_message(rule in rule(), interface in 1..100u32, handle: u32) {
        let message = over_the_wire(encode(interface, handle, &rule));
        prop_assert_eq!(message.header.index, interface as i32);
        let filter = decode(&message).expect("it can be read").expect("it is a rule");
        prop_assert_eq!(filter.rule, rule);
        prop_assert_eq!(filter.handle, handle);
        prop_assert!(!filter.in_hardware);
    }
}

#[test]
fn filters_of_others_are_no_rules() {
    let rule = FlowerRule {
        chain: 0,
        priority: 1,
        protocol: rule::IPV4,
        keys: Vec::new(),
        actions: vec![Action::Drop],
        planes: RulePlanes::Both,
        cookie: [7; 16],
    };
    let own = encode(1, 1, &rule);
    assert!(decode(&own).expect("it can be read").is_some());
    let mut other = own.clone();
    other.attributes[0] = TcAttribute::Kind("u32".to_owned());
    assert!(decode(&other).expect("it can be read").is_none());
    let mut unknown = own.clone();
    if let TcAttribute::Options(options) = &mut unknown.attributes[2] {
        options.push(TcOption::Flower(Flower::KeyHash(1)));
    }
    assert!(decode(&unknown).expect("it can be read").is_none());
    let mut priority = own;
    priority.attributes.truncate(2);
    assert!(decode(&priority).expect("it can be read").is_none());
}

#[test]
fn packets_beyond_32_bits_are_counted() {
    let basic = |packets, bytes| {
        let mut basic = netlink_packet_route::tc::TcStatsBasic::default();
        (basic.packets, basic.bytes) = (packets, bytes);
        basic
    };
    let whole = |packets: u64| {
        let value = packets.to_ne_bytes().to_vec();
        TcStats2::Other(DefaultNla::new(STATS_PACKETS_64, value))
    };
    let stats = [
        TcStats2::Basic(basic(1, 60)),
        whole((1 << 32) + 1),
        TcStats2::BasicHw(basic(2, 70)),
        whole((1 << 33) + 2),
    ];
    let mut counts = ActionCounts::default();
    take_counts(&stats, &mut counts);
    assert_eq!((counts.packets, counts.bytes), ((1 << 32) + 1, 60));
    let hardware = (counts.hardware_packets, counts.hardware_bytes);
    assert_eq!(hardware, ((1 << 33) + 2, 70));
    take_counts(&stats[2..3], &mut counts);
    assert_eq!(counts.hardware_packets, 2);
}

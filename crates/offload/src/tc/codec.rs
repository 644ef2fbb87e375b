//! Rules as messages of rtnetlink.
//!
//! `netlink-packet-route` has flower's keys and the action `mirred`. The other actions are here, as
//! attributes of its variant `Other`.

use netlink_packet_core::{DefaultNla, Emitable, Nla, NlasIterator};
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionMirrorOption, TcActionOption, TcActionType, TcAttribute,
    TcFilterFlowerOption as Flower, TcHandle, TcMessage, TcMirror, TcMirrorActionType, TcOption,
    TcStats2,
};

use super::counts::{ActionCounts, Counts};
use super::rule::{self, Action, Field, FlowerRule, Key, PeditHeader, PeditKey, RulePlanes};
use super::session::RulePlace;

/// A filter of the kernel that is one of the rules of this module.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) rule: FlowerRule,
    pub(super) handle: u32,
    pub(super) in_hardware: bool,
    pub(super) hardware_count: u32,
    pub(super) counts: Counts,
}

/// Flags of a flower rule.
const SKIP_HW: u32 = 1;
const SKIP_SW: u32 = 2;
const IN_HW: u32 = 4;
/// The driver's words come with the acknowledgement also where software takes the rule.
const VERBOSE: u32 = 16;

/// Attributes and values of actions, as in the kernel's headers `linux/tc_act`.
const PEDIT_PARMS_EX: u16 = 4;
const PEDIT_KEYS_EX: u16 = 5;
const PEDIT_KEY_EX: u16 = 6;
const PEDIT_KEY_EX_HTYPE: u16 = 1;
const PEDIT_KEY_EX_CMD: u16 = 2;
const CSUM_PARMS: u16 = 1;
const CSUM_IPV4_HEADER: u32 = 1;
const VLAN_PARMS: u16 = 2;
const VLAN_ID: u16 = 3;
const VLAN_PROTOCOL: u16 = 4;
const VLAN_PRIORITY: u16 = 6;
const VLAN_ACT_POP: u32 = 1;
const VLAN_ACT_PUSH: u32 = 2;
const VLAN_ACT_MODIFY: u32 = 3;
const MPLS_PARMS: u16 = 2;
const MPLS_PROTOCOL: u16 = 4;
const MPLS_LABEL: u16 = 5;
const MPLS_TC: u16 = 6;
const MPLS_TTL: u16 = 7;
const MPLS_BOS: u16 = 8;
const MPLS_ACT_POP: u32 = 1;
const MPLS_ACT_PUSH: u32 = 2;
const GACT_PARMS: u16 = 2;
const VERDICT_OK: u32 = 0;
const VERDICT_SHOT: u32 = 2;
const VERDICT_PIPE: u32 = 3;
/// Time stamps: attribute 1 of each of these actions. Four words of 64 bits in hundredths of a
/// second; the second one is the time since the last use.
const TIMES: u16 = 1;
/// Sizes of the parameters common to all actions, and of a key of `pedit`.
const GENERIC: usize = 20;
const PEDIT_KEY: usize = 24;

/// Counts of packets with 64 bits, in the statistics of an action.
const STATS_PACKETS_64: u16 = 8;

/// Flags of a fragment in flower.
const FLAG_FRAGMENT: u32 = 1;

/// Returns a message about the rules of an interface's ingress.
pub(super) fn place(interface: u32, handle: u32, priority: u16, protocol: u16) -> TcMessage {
    let mut message = TcMessage::default();
    message.header.index = interface as i32;
    message.header.handle = TcHandle::from(handle);
    message.header.parent = TcHandle {
        major: u16::MAX,
        minor: TcHandle::MIN_INGRESS,
    };
    message.header.info = u32::from(priority) << 16 | u32::from(protocol.to_be());
    message
}

/// Returns the message that carries a rule.
pub(super) fn encode(interface: u32, handle: u32, rule: &FlowerRule) -> TcMessage {
    let mut message = place(interface, handle, rule.priority, rule.protocol);
    let mut options = Vec::new();
    for key in &rule.keys {
        encode_key(rule, key, &mut options);
    }
    if rule.protocol != rule::ANY_PROTOCOL {
        options.push(Flower::EthType(rule.protocol));
    }
    let last = rule.actions.len();
    let numbered = rule.actions.iter().zip(1u16..);
    let actions = numbered.map(|(action, number)| {
        let cookie = (usize::from(number) == last).then_some(&rule.cookie);
        encode_action(number, action, cookie)
    });
    options.push(Flower::Actions(actions.collect()));
    options.push(Flower::Flags(match rule.planes {
        RulePlanes::Both => VERBOSE,
        RulePlanes::Hardware => SKIP_SW,
        RulePlanes::Software => SKIP_HW,
    }));
    message.attributes = vec![
        TcAttribute::Kind("flower".to_owned()),
        TcAttribute::Chain(rule.chain),
        TcAttribute::Options(options.into_iter().map(TcOption::Flower).collect()),
    ];
    message
}

fn mac(bits: u128) -> [u8; 6] {
    let [.., a, b, c, d, e, f] = bits.to_be_bytes();
    [a, b, c, d, e, f]
}

fn encode_key(rule: &FlowerRule, key: &Key, options: &mut Vec<Flower>) {
    let Key { field, value, mask } = *key;
    let is_udp = rule
        .key(Field::IpProto)
        .is_some_and(|proto| proto.value == rule::UDP.into());
    let (value16, mask16) = (value as u16, mask as u16);
    let (value8, mask8) = (value as u8, mask as u8);
    let ipv4 = |bits: u128| (bits as u32).into();
    match field {
        Field::EthDst => {
            options.extend([Flower::EthDst(mac(value)), Flower::EthDstMask(mac(mask))])
        }
        Field::EthSrc => {
            options.extend([Flower::EthSrc(mac(value)), Flower::EthSrcMask(mac(mask))])
        }
        Field::VlanId => options.push(Flower::VlanId(value16)),
        Field::VlanPriority => options.push(Flower::VlanPrio(value8)),
        Field::VlanEthType => options.push(Flower::VlanEthType(value16)),
        Field::MplsLabel => options.push(Flower::MplsLabel(value as u32)),
        Field::MplsTc => options.push(Flower::MplsTc(value8)),
        Field::MplsBos => options.push(Flower::MplsBos(value8)),
        Field::MplsTtl => options.push(Flower::MplsTtl(value8)),
        Field::IpProto => options.push(Flower::IpProto(value8)),
        Field::IpTos => options.extend([Flower::IpTos(value8), Flower::IpTosMask(mask8)]),
        Field::IpTtl => options.extend([Flower::IpTtl(value8), Flower::IpTtlMask(mask8)]),
        Field::Ipv4Src => options.extend([
            Flower::Ipv4Src(ipv4(value)),
            Flower::Ipv4SrcMask(ipv4(mask)),
        ]),
        Field::Ipv4Dst => options.extend([
            Flower::Ipv4Dst(ipv4(value)),
            Flower::Ipv4DstMask(ipv4(mask)),
        ]),
        Field::Ipv6Src => options.extend([
            Flower::Ipv6Src(value.into()),
            Flower::Ipv6SrcMask(mask.into()),
        ]),
        Field::Ipv6Dst => options.extend([
            Flower::Ipv6Dst(value.into()),
            Flower::Ipv6DstMask(mask.into()),
        ]),
        Field::SrcPort if is_udp => {
            options.extend([Flower::UdpSrc(value16), Flower::UdpSrcMask(mask16)])
        }
        Field::SrcPort => options.extend([Flower::TcpSrc(value16), Flower::TcpSrcMask(mask16)]),
        Field::DstPort if is_udp => {
            options.extend([Flower::UdpDst(value16), Flower::UdpDstMask(mask16)])
        }
        Field::DstPort => options.extend([Flower::TcpDst(value16), Flower::TcpDstMask(mask16)]),
        Field::TcpFlags => {
            options.extend([Flower::TcpFlags(value16), Flower::TcpFlagsMask(mask16)])
        }
        Field::Fragment => options.extend([
            Flower::KeyFlags(value as u32 * FLAG_FRAGMENT),
            Flower::KeyFlagsMask(FLAG_FRAGMENT),
        ]),
    }
}

/// Returns the parameters common to all actions, and more words after them.
fn parameters(verdict: u32, more: &[u32]) -> Vec<u8> {
    let generic = [0, 0, verdict, 0, 0];
    let words = generic.iter().chain(more);
    words.flat_map(|word| word.to_ne_bytes()).collect()
}

fn attribute(kind: u16, value: Vec<u8>) -> TcActionOption {
    TcActionOption::Other(DefaultNla::new(kind, value))
}

fn nested(kind: u16, attributes: &[DefaultNla]) -> DefaultNla {
    let mut value = vec![0; attributes.buffer_len()];
    attributes.emit(&mut value);
    DefaultNla::new(kind | netlink_packet_core::NLA_F_NESTED, value)
}

fn encode_action(number: u16, action: &Action, cookie: Option<&[u8; 16]>) -> TcAction {
    let (kind, options) = match action {
        Action::Pedit(keys) => ("pedit", encode_pedit(keys)),
        Action::Ipv4Checksum => {
            let parms = parameters(VERDICT_PIPE, &[CSUM_IPV4_HEADER]);
            ("csum", vec![attribute(CSUM_PARMS, parms)])
        }
        Action::VlanPush {
            protocol,
            id,
            priority,
        } => (
            "vlan",
            encode_vlan(VLAN_ACT_PUSH, *protocol, *id, *priority),
        ),
        Action::VlanModify {
            protocol,
            id,
            priority,
        } => (
            "vlan",
            encode_vlan(VLAN_ACT_MODIFY, *protocol, *id, *priority),
        ),
        Action::VlanPop => {
            let parms = parameters(VERDICT_PIPE, &[VLAN_ACT_POP]);
            ("vlan", vec![attribute(VLAN_PARMS, parms)])
        }
        Action::MplsPush {
            protocol,
            label,
            tc,
            bos,
            ttl,
        } => {
            let options = vec![
                attribute(MPLS_PARMS, parameters(VERDICT_PIPE, &[MPLS_ACT_PUSH])),
                attribute(MPLS_PROTOCOL, protocol.to_be_bytes().to_vec()),
                attribute(MPLS_LABEL, label.to_ne_bytes().to_vec()),
                attribute(MPLS_TC, vec![*tc]),
                attribute(MPLS_TTL, vec![*ttl]),
                attribute(MPLS_BOS, vec![u8::from(*bos)]),
            ];
            ("mpls", options)
        }
        Action::MplsPop { protocol } => {
            let options = vec![
                attribute(MPLS_PARMS, parameters(VERDICT_PIPE, &[MPLS_ACT_POP])),
                attribute(MPLS_PROTOCOL, protocol.to_be_bytes().to_vec()),
            ];
            ("mpls", options)
        }
        Action::Mirror(index) => {
            let kind = TcMirrorActionType::EgressMirror;
            ("mirred", encode_mirred(kind, TcActionType::Pipe, *index))
        }
        Action::Redirect(index) => {
            let kind = TcMirrorActionType::EgressRedir;
            ("mirred", encode_mirred(kind, TcActionType::Stolen, *index))
        }
        Action::Drop => (
            "gact",
            vec![attribute(GACT_PARMS, parameters(VERDICT_SHOT, &[]))],
        ),
        Action::Pass => (
            "gact",
            vec![attribute(GACT_PARMS, parameters(VERDICT_OK, &[]))],
        ),
    };
    let mut encoded = TcAction::default();
    encoded.tab = number;
    encoded.attributes = vec![
        TcActionAttribute::Kind(kind.to_owned()),
        TcActionAttribute::Options(options),
    ];
    let cookie = cookie.map(|cookie| TcActionAttribute::Cookie(cookie.to_vec()));
    encoded.attributes.extend(cookie);
    encoded
}

fn encode_pedit(keys: &[PeditKey]) -> Vec<TcActionOption> {
    let mut parms = parameters(VERDICT_PIPE, &[]);
    parms.extend([keys.len() as u8, 0, 0, 0]);
    let mut extended = Vec::new();
    for key in keys {
        parms.extend(key.keep);
        parms.extend(key.value);
        parms.extend(key.offset.to_ne_bytes());
        // Three words for offsets that a packet chooses.
        parms.extend([0; PEDIT_KEY - 12]);
        let header: u16 = match key.header {
            PeditHeader::Ethernet => 1,
            PeditHeader::Ipv4 => 2,
            PeditHeader::Ipv6 => 3,
        };
        let words = [
            DefaultNla::new(PEDIT_KEY_EX_HTYPE, header.to_ne_bytes().to_vec()),
            DefaultNla::new(PEDIT_KEY_EX_CMD, u16::from(key.add).to_ne_bytes().to_vec()),
        ];
        extended.push(nested(PEDIT_KEY_EX, &words));
    }
    vec![
        attribute(PEDIT_PARMS_EX, parms),
        TcActionOption::Other(nested(PEDIT_KEYS_EX, &extended)),
    ]
}

fn encode_vlan(what: u32, protocol: u16, id: u16, priority: u8) -> Vec<TcActionOption> {
    vec![
        attribute(VLAN_PARMS, parameters(VERDICT_PIPE, &[what])),
        attribute(VLAN_ID, id.to_ne_bytes().to_vec()),
        attribute(VLAN_PROTOCOL, protocol.to_be_bytes().to_vec()),
        attribute(VLAN_PRIORITY, vec![priority]),
    ]
}

fn encode_mirred(
    kind: TcMirrorActionType,
    verdict: TcActionType,
    index: u32,
) -> Vec<TcActionOption> {
    let mut parms = TcMirror::default();
    parms.generic.action = verdict;
    parms.eaction = kind;
    parms.ifindex = index;
    vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(parms))]
}

/// Returns the place of a filter in its interface's ingress.
pub(super) fn place_of(message: &TcMessage) -> RulePlace {
    let chain = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            TcAttribute::Chain(chain) => Some(*chain),
            _ => None,
        });
    let info = message.header.info;
    RulePlace {
        interface: message.header.index as u32,
        chain: chain.unwrap_or(0),
        priority: (info >> 16) as u16,
        protocol: u16::from_be(info as u16),
        handle: message.header.handle.into(),
    }
}

/// Returns the last cookie of a flower rule's actions, of each owner.
pub(super) fn cookie_of(message: &TcMessage) -> Option<[u8; 16]> {
    let options = message.attributes.iter().find_map(|attribute| {
        let TcAttribute::Options(options) = attribute else {
            return None;
        };
        Some(options)
    });
    let actions = options?.iter().filter_map(|option| match option {
        TcOption::Flower(Flower::Actions(actions)) => Some(actions),
        _ => None,
    });
    let attributes = actions.flatten().flat_map(|action| &action.attributes);
    let cookies = attributes.filter_map(|attribute| match attribute {
        TcActionAttribute::Cookie(bytes) => bytes.first_chunk().copied(),
        _ => None,
    });
    cookies.last()
}

/// Reads a filter. `Ok(None)` if it is another classifier's or has parts that rules of this module
/// do not have: then another owner has made it.
pub(super) fn decode(message: &TcMessage) -> Result<Option<Filter>, String> {
    let info = message.header.info;
    let mut filter = Filter {
        rule: FlowerRule {
            chain: 0,
            priority: (info >> 16) as u16,
            protocol: u16::from_be(info as u16),
            keys: Vec::new(),
            actions: Vec::new(),
            planes: RulePlanes::Both,
            cookie: [0; 16],
        },
        handle: message.header.handle.into(),
        in_hardware: false,
        hardware_count: 0,
        counts: Counts::default(),
    };
    let mut options = None;
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) if kind != "flower" => return Ok(None),
            TcAttribute::Chain(chain) => filter.rule.chain = *chain,
            TcAttribute::Options(found) => options = Some(found),
            _ => {}
        }
    }
    // The kernel also lists each priority, without options.
    let Some(options) = options else {
        return Ok(None);
    };
    let mut keys = Keys::default();
    let mut actions: &[TcAction] = &[];
    for option in options {
        let TcOption::Flower(option) = option else {
            return Ok(None);
        };
        match option {
            Flower::Flags(flags) => {
                filter.in_hardware = flags & IN_HW != 0;
                filter.rule.planes = match (flags & SKIP_HW != 0, flags & SKIP_SW != 0) {
                    (true, _) => RulePlanes::Software,
                    (_, true) => RulePlanes::Hardware,
                    _ => RulePlanes::Both,
                };
            }
            Flower::InHwCount(count) => filter.hardware_count = *count,
            Flower::Actions(found) => actions = found,
            Flower::EthType(_) => {}
            option => {
                if !keys.take(option) {
                    return Ok(None);
                }
            }
        }
    }
    filter.rule.keys = keys.finish();
    let mut counts = Vec::new();
    for action in actions {
        let Some(found) = decode_action(action, &mut filter.rule.cookie)? else {
            return Ok(None);
        };
        filter.rule.actions.push(found.0);
        counts.push(found.1);
    }
    let hidden = if rule::is_vlan(filter.rule.protocol) {
        18
    } else {
        14
    };
    filter.counts = Counts::of(&counts, hidden);
    Ok(Some(filter))
}

/// Keys of a filter that is being read.
#[derive(Default)]
struct Keys(Vec<Key>);

impl Keys {
    fn entry(&mut self, field: Field) -> &mut Key {
        let found = self.0.iter().position(|key| key.field == field);
        let at = found.unwrap_or_else(|| {
            let mask = if field.is_maskable() { 0 } else { field.all() };
            self.0.push(Key {
                field,
                value: 0,
                mask,
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn finish(mut self) -> Vec<Key> {
        self.0.retain(|key| key.mask != 0);
        for key in &mut self.0 {
            key.value &= key.mask;
        }
        self.0.sort_unstable();
        self.0
    }

    /// Takes an option that is a key. Returns false for another one.
    fn take(&mut self, option: &Flower) -> bool {
        let bits = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |bits, byte| bits << 8 | u128::from(*byte))
        };
        let (field, value) = match option {
            Flower::EthDst(v) => (Field::EthDst, bits(v)),
            Flower::EthSrc(v) => (Field::EthSrc, bits(v)),
            Flower::VlanId(v) => (Field::VlanId, (*v).into()),
            Flower::VlanPrio(v) => (Field::VlanPriority, (*v).into()),
            Flower::VlanEthType(v) => (Field::VlanEthType, (*v).into()),
            Flower::MplsLabel(v) => (Field::MplsLabel, (*v).into()),
            Flower::MplsTc(v) => (Field::MplsTc, (*v).into()),
            Flower::MplsBos(v) => (Field::MplsBos, (*v).into()),
            Flower::MplsTtl(v) => (Field::MplsTtl, (*v).into()),
            Flower::IpProto(v) => (Field::IpProto, (*v).into()),
            Flower::IpTos(v) => (Field::IpTos, (*v).into()),
            Flower::IpTtl(v) => (Field::IpTtl, (*v).into()),
            Flower::Ipv4Src(v) => (Field::Ipv4Src, bits(&v.octets())),
            Flower::Ipv4Dst(v) => (Field::Ipv4Dst, bits(&v.octets())),
            Flower::Ipv6Src(v) => (Field::Ipv6Src, bits(&v.octets())),
            Flower::Ipv6Dst(v) => (Field::Ipv6Dst, bits(&v.octets())),
            Flower::TcpSrc(v) | Flower::UdpSrc(v) => (Field::SrcPort, (*v).into()),
            Flower::TcpDst(v) | Flower::UdpDst(v) => (Field::DstPort, (*v).into()),
            Flower::TcpFlags(v) => (Field::TcpFlags, (*v).into()),
            Flower::KeyFlags(v) => (Field::Fragment, (v & FLAG_FRAGMENT).into()),
            option => return self.take_mask(option),
        };
        self.entry(field).value = value;
        true
    }

    fn take_mask(&mut self, option: &Flower) -> bool {
        let bits = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |bits, byte| bits << 8 | u128::from(*byte))
        };
        let (field, mask) = match option {
            Flower::EthDstMask(m) => (Field::EthDst, bits(m)),
            Flower::EthSrcMask(m) => (Field::EthSrc, bits(m)),
            Flower::IpTosMask(m) => (Field::IpTos, (*m).into()),
            Flower::IpTtlMask(m) => (Field::IpTtl, (*m).into()),
            Flower::Ipv4SrcMask(m) => (Field::Ipv4Src, bits(&m.octets())),
            Flower::Ipv4DstMask(m) => (Field::Ipv4Dst, bits(&m.octets())),
            Flower::Ipv6SrcMask(m) => (Field::Ipv6Src, bits(&m.octets())),
            Flower::Ipv6DstMask(m) => (Field::Ipv6Dst, bits(&m.octets())),
            Flower::TcpSrcMask(m) | Flower::UdpSrcMask(m) => (Field::SrcPort, (*m).into()),
            Flower::TcpDstMask(m) | Flower::UdpDstMask(m) => (Field::DstPort, (*m).into()),
            Flower::TcpFlagsMask(m) => (Field::TcpFlags, (*m).into()),
            Flower::KeyFlagsMask(FLAG_FRAGMENT) => (Field::Fragment, 1),
            _ => return false,
        };
        self.entry(field).mask = mask;
        true
    }
}

/// Attributes of an action's options, by their kinds.
struct Attributes(Vec<(u16, Vec<u8>)>);

impl Attributes {
    fn get(&self, kind: u16) -> Option<&[u8]> {
        let mut found = self.0.iter().filter(|(there, _)| *there == kind);
        found.next().map(|(_, value)| value.as_slice())
    }

    fn word(&self, kind: u16, index: usize) -> Option<u32> {
        let bytes = self.get(kind)?.get(index * 4..)?;
        bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    fn byte(&self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    fn network(&self, kind: u16) -> Option<u16> {
        self.get(kind)?
            .first_chunk()
            .map(|bytes| u16::from_be_bytes(*bytes))
    }

    fn verdict(&self, kind: u16) -> Option<u32> {
        self.word(kind, 2)
    }
}

/// Reads an action and its counts. `Ok(None)` if rules of this module do not have it.
fn decode_action(
    action: &TcAction,
    cookie: &mut [u8; 16],
) -> Result<Option<(Action, ActionCounts)>, String> {
    let (mut name, mut options, mut counts) = ("", Attributes(Vec::new()), ActionCounts::default());
    for attribute in &action.attributes {
        match attribute {
            TcActionAttribute::Kind(kind) => name = kind,
            TcActionAttribute::Cookie(bytes) => {
                if let Some(bytes) = bytes.first_chunk() {
                    *cookie = *bytes;
                }
            }
            TcActionAttribute::Options(found) => {
                options.0 = found.iter().map(plain).collect();
            }
            TcActionAttribute::Stats(stats) => take_counts(stats, &mut counts),
            _ => {}
        }
    }
    let idle = options
        .get(TIMES)
        .and_then(|times| times.get(8..)?.first_chunk());
    counts.idle_ms = idle.map(|ticks| u64::from_ne_bytes(*ticks).saturating_mul(10));
    let found = match name {
        "pedit" => decode_pedit(&options)?,
        "csum" => {
            (options.word(CSUM_PARMS, 5) == Some(CSUM_IPV4_HEADER)).then_some(Action::Ipv4Checksum)
        }
        "vlan" => decode_vlan(&options),
        "mpls" => decode_mpls(&options),
        "mirred" => decode_mirred(&options),
        "gact" => match options.verdict(GACT_PARMS) {
            Some(VERDICT_SHOT) => Some(Action::Drop),
            Some(VERDICT_OK) => Some(Action::Pass),
            _ => None,
        },
        _ => None,
    };
    Ok(found.map(|action| (action, counts)))
}

/// Returns kind and bytes of an option, without the flag of nested attributes.
fn plain(option: &TcActionOption) -> (u16, Vec<u8>) {
    let mut value = vec![0; option.value_len()];
    option.emit_value(&mut value);
    (option.kind() & !netlink_packet_core::NLA_F_NESTED, value)
}

/// Takes the counts of an action. The kernel appends the whole number of packets to counts where 32
/// bits are not enough.
fn take_counts(stats: &[TcStats2], counts: &mut ActionCounts) {
    let mut is_hardware = false;
    for stat in stats {
        match stat {
            TcStats2::Basic(basic) => {
                counts.packets = basic.packets.into();
                counts.bytes = basic.bytes;
                is_hardware = false;
            }
            TcStats2::BasicHw(basic) => {
                counts.hardware_packets = basic.packets.into();
                counts.hardware_bytes = basic.bytes;
                is_hardware = true;
            }
            TcStats2::Other(other) if other.kind() == STATS_PACKETS_64 => {
                let mut value = vec![0; other.value_len()];
                other.emit_value(&mut value);
                let Some(packets) = value.first_chunk() else {
                    continue;
                };
                let packets = u64::from_ne_bytes(*packets);
                match is_hardware {
                    true => counts.hardware_packets = packets,
                    false => counts.packets = packets,
                }
            }
            _ => {}
        }
    }
}

fn decode_pedit(options: &Attributes) -> Result<Option<Action>, String> {
    let (Some(parms), Some(extended)) = (options.get(PEDIT_PARMS_EX), options.get(PEDIT_KEYS_EX))
    else {
        return Ok(None);
    };
    let words = parms
        .get(GENERIC + 4..)
        .unwrap_or_default()
        .chunks_exact(PEDIT_KEY);
    let mut keys = Vec::new();
    for (word, extended) in words.zip(NlasIterator::new(extended)) {
        let extended = extended.map_err(|e| format!("a key of pedit: {e}"))?;
        let (mut header, mut command) = (0, 0);
        for attribute in NlasIterator::new(extended.value()) {
            let attribute = attribute.map_err(|e| format!("a key of pedit: {e}"))?;
            let number = attribute
                .value()
                .first_chunk()
                .map(|b| u16::from_ne_bytes(*b));
            match attribute.kind() {
                PEDIT_KEY_EX_HTYPE => header = number.unwrap_or(0),
                PEDIT_KEY_EX_CMD => command = number.unwrap_or(0),
                _ => {}
            }
        }
        let header = match header {
            1 => PeditHeader::Ethernet,
            2 => PeditHeader::Ipv4,
            3 => PeditHeader::Ipv6,
            _ => return Ok(None),
        };
        let bytes = |at: usize| [word[at], word[at + 1], word[at + 2], word[at + 3]];
        keys.push(PeditKey {
            header,
            offset: u32::from_ne_bytes(bytes(8)),
            keep: bytes(0),
            value: bytes(4),
            add: command == 1,
        });
    }
    Ok(Some(Action::Pedit(keys)))
}

fn decode_vlan(options: &Attributes) -> Option<Action> {
    let id = || {
        options
            .get(VLAN_ID)?
            .first_chunk()
            .map(|bytes| u16::from_ne_bytes(*bytes))
    };
    let protocol = options.network(VLAN_PROTOCOL);
    let priority = options.byte(VLAN_PRIORITY).unwrap_or(0);
    Some(match options.word(VLAN_PARMS, 5)? {
        VLAN_ACT_POP => Action::VlanPop,
        VLAN_ACT_PUSH => Action::VlanPush {
            protocol: protocol?,
            id: id()?,
            priority,
        },
        VLAN_ACT_MODIFY => Action::VlanModify {
            protocol: protocol?,
            id: id()?,
            priority,
        },
        _ => return None,
    })
}

fn decode_mpls(options: &Attributes) -> Option<Action> {
    let protocol = options.network(MPLS_PROTOCOL)?;
    Some(match options.word(MPLS_PARMS, 5)? {
        MPLS_ACT_POP => Action::MplsPop { protocol },
        MPLS_ACT_PUSH => Action::MplsPush {
            protocol,
            label: options.word(MPLS_LABEL, 0)?,
            tc: options.byte(MPLS_TC)?,
            bos: options.byte(MPLS_BOS)? != 0,
            ttl: options.byte(MPLS_TTL)?,
        },
        _ => return None,
    })
}

fn decode_mirred(options: &Attributes) -> Option<Action> {
    const PARMS: u16 = 2;
    let index = options.word(PARMS, 6)?;
    match options.word(PARMS, 5)? {
        1 => Some(Action::Redirect(index)),
        2 => Some(Action::Mirror(index)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;

//! Rules as the command `tc filter show` prints them.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::rule::{
    ANY_PROTOCOL, Action, Field, FlowerRule, IPV4, IPV6, Key, MPLS, MPLS_MULTICAST, PeditHeader,
    PeditKey, RulePlanes, SERVICE_VLAN, TCP, UDP, VLAN,
};
use super::session::Installed;

impl FlowerRule {
    /// Returns the rule's text, without what only the kernel knows: handle, indices and counts.
    /// `interface` gives the names of interfaces.
    pub fn text(&self, interface: impl Fn(u32) -> String) -> String {
        let mut text = format!(
            "filter protocol {} pref {} flower chain {}\n",
            protocol(self.protocol, "all"),
            self.priority,
            self.chain
        );
        for line in keys(self) {
            let _ = writeln!(text, "  {line}");
        }
        match self.planes {
            RulePlanes::Both => {}
            RulePlanes::Hardware => text.push_str("  skip_sw\n"),
            RulePlanes::Software => text.push_str("  skip_hw\n"),
        }
        for (number, action) in (1..).zip(&self.actions) {
            let _ = writeln!(
                text,
                "\taction order {number}: {}",
                action_text(action, &interface)
            );
        }
        if self.cookie != [0; 16] {
            let hex: String = self
                .cookie
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let _ = writeln!(text, "\tcookie {hex}");
        }
        text
    }
}

impl Installed {
    /// Returns the rule's text with its plane and counts.
    pub fn text(&self, interface: impl Fn(u32) -> String) -> String {
        let mut text = self.rule.text(interface);
        let _ = match self.in_hardware {
            true => writeln!(text, "  in_hw in_hw_count {}", self.hardware_count),
            false => writeln!(text, "  not_in_hw"),
        };
        if let Some(words) = &self.words {
            let _ = writeln!(text, "  refused: {words}");
        }
        let counts = &self.counts;
        let _ = writeln!(
            text,
            "  hardware {} pkt {} bytes, software {} pkt {} bytes",
            counts.hardware_packets,
            counts.hardware_bytes,
            counts.software_packets,
            counts.software_bytes
        );
        text
    }
}

/// Returns a protocol's name in `tc`.
fn protocol(number: u16, any: &str) -> String {
    match number {
        ANY_PROTOCOL => any.to_owned(),
        IPV4 => "ip".to_owned(),
        IPV6 => "ipv6".to_owned(),
        VLAN => "802.1Q".to_owned(),
        SERVICE_VLAN => "802.1ad".to_owned(),
        MPLS => "mpls_uc".to_owned(),
        MPLS_MULTICAST => "mpls_mc".to_owned(),
        0x0806 => "arp".to_owned(),
        other => format!("[{other}]"),
    }
}

/// Returns an EtherType's name among the keys.
fn ether_type(number: u16) -> String {
    match number {
        IPV4 => "ipv4".to_owned(),
        IPV6 => "ipv6".to_owned(),
        other => format!("{other:04x}"),
    }
}

/// Returns the lines of the keys in the order of `tc`.
fn keys(rule: &FlowerRule) -> Vec<String> {
    const ORDER: [Field; 20] = [
        Field::VlanId,
        Field::VlanPriority,
        Field::VlanEthType,
        Field::EthDst,
        Field::EthSrc,
        Field::IpProto,
        Field::IpTos,
        Field::IpTtl,
        Field::MplsLabel,
        Field::MplsTc,
        Field::MplsBos,
        Field::MplsTtl,
        Field::Ipv4Dst,
        Field::Ipv4Src,
        Field::Ipv6Dst,
        Field::Ipv6Src,
        Field::DstPort,
        Field::SrcPort,
        Field::TcpFlags,
        Field::Fragment,
    ];
    let mut lines: Vec<String> = Vec::new();
    for field in ORDER {
        // `tc` prints the EtherType in front of the protocol.
        if field == Field::IpProto && rule.protocol != ANY_PROTOCOL {
            let inner = rule.key(Field::VlanEthType).map(|key| key.value as u16);
            lines.push(format!(
                "eth_type {}",
                ether_type(inner.unwrap_or(rule.protocol))
            ));
        }
        lines.extend(rule.key(field).map(key_text));
    }
    lines
}

fn key_text(key: &Key) -> String {
    let Key { field, value, mask } = *key;
    let is_whole = mask == field.all();
    let prefix = || {
        let length = mask.count_ones();
        let is_prefix = mask.leading_zeros() == 128 - field.bits()
            && mask.trailing_zeros() == field.bits() - length;
        is_prefix.then_some(length)
    };
    let address = |name: &str, value: String, mask: String| match prefix() {
        _ if is_whole => format!("{name} {value}"),
        Some(length) => format!("{name} {value}/{length}"),
        None => format!("{name} {value}/{mask}"),
    };
    let mac = |bits: u128| {
        let [.., a, b, c, d, e, f] = bits.to_be_bytes();
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    };
    let ipv4 = |bits: u128| Ipv4Addr::from(bits as u32).to_string();
    let number = |name: &str| match is_whole {
        true => format!("{name} {value}"),
        false => format!("{name} {value}/{mask:#x}"),
    };
    match field {
        Field::EthDst if is_whole => format!("dst_mac {}", mac(value)),
        Field::EthDst => format!("dst_mac {}/{}", mac(value), mac(mask)),
        Field::EthSrc if is_whole => format!("src_mac {}", mac(value)),
        Field::EthSrc => format!("src_mac {}/{}", mac(value), mac(mask)),
        Field::VlanId => format!("vlan_id {value}"),
        Field::VlanPriority => format!("vlan_prio {value}"),
        Field::VlanEthType => format!("vlan_ethtype {}", protocol(value as u16, "all")),
        Field::MplsLabel => format!("mpls_label {value}"),
        Field::MplsTc => format!("mpls_tc {value}"),
        Field::MplsBos => format!("mpls_bos {value}"),
        Field::MplsTtl => format!("mpls_ttl {value}"),
        Field::IpProto => match value as u8 {
            TCP => "ip_proto tcp".to_owned(),
            UDP => "ip_proto udp".to_owned(),
            1 => "ip_proto icmp".to_owned(),
            58 => "ip_proto icmpv6".to_owned(),
            132 => "ip_proto sctp".to_owned(),
            other => format!("ip_proto {other:x}"),
        },
        Field::IpTos => number("ip_tos"),
        Field::IpTtl => number("ip_ttl"),
        Field::Ipv4Src => address("src_ip", ipv4(value), ipv4(mask)),
        Field::Ipv4Dst => address("dst_ip", ipv4(value), ipv4(mask)),
        Field::Ipv6Src => address("src_ip", ipv6(value), ipv6(mask)),
        Field::Ipv6Dst => address("dst_ip", ipv6(value), ipv6(mask)),
        Field::SrcPort => number("src_port"),
        Field::DstPort => number("dst_port"),
        Field::TcpFlags => match is_whole {
            true => format!("tcp_flags {value:#x}"),
            false => format!("tcp_flags {value:#x}/{mask:x}"),
        },
        Field::Fragment if value == 0 => "ip_flags nofrag".to_owned(),
        Field::Fragment => "ip_flags frag".to_owned(),
    }
}

/// Returns an IPv6 address as the C library writes it: the last four of its 16 bytes as in IPv4 if
/// only they, and not only the last two, are not zero.
fn ipv6(bits: u128) -> String {
    match bits {
        0x1_0000..=0xFFFF_FFFF => format!("::{}", Ipv4Addr::from(bits as u32)),
        _ => Ipv6Addr::from(bits).to_string(),
    }
}

fn action_text(action: &Action, interface: &impl Fn(u32) -> String) -> String {
    match action {
        Action::Pedit(keys) => {
            let mut text = format!("pedit action pipe keys {}", keys.len());
            for (number, key) in keys.iter().enumerate() {
                let _ = write!(text, "\n\t key #{number} {}", pedit_text(key));
            }
            text
        }
        Action::Ipv4Checksum => "csum (iph) action pipe".to_owned(),
        Action::VlanPush {
            protocol: number,
            id,
            priority,
        } => {
            let name = protocol(*number, "all");
            format!("vlan push id {id} protocol {name} priority {priority} pipe")
        }
        Action::VlanPop => "vlan pop pipe".to_owned(),
        Action::VlanModify {
            protocol: number,
            id,
            priority,
        } => {
            let name = protocol(*number, "all");
            format!("vlan modify id {id} protocol {name} priority {priority} pipe")
        }
        Action::MplsPush {
            protocol: number,
            label,
            tc,
            bos,
            ttl,
        } => format!(
            "mpls push protocol {} label {label} tc {tc} bos {} ttl {ttl} pipe",
            protocol(*number, "all"),
            u8::from(*bos)
        ),
        Action::MplsPop { protocol: number } => {
            format!("mpls pop protocol {} pipe", protocol(*number, "all"))
        }
        Action::Mirror(index) => {
            format!(
                "mirred (Egress Mirror to device {}) pipe",
                interface(*index)
            )
        }
        Action::Redirect(index) => {
            format!(
                "mirred (Egress Redirect to device {}) stolen",
                interface(*index)
            )
        }
        Action::Drop => "gact action drop".to_owned(),
        Action::Pass => "gact action pass".to_owned(),
    }
}

fn pedit_text(key: &PeditKey) -> String {
    let header = match key.header {
        PeditHeader::Ethernet => "eth",
        PeditHeader::Ipv4 => "ipv4",
        PeditHeader::Ipv6 => "ipv6",
    };
    let word = u32::from_be_bytes;
    let command = if key.add { "add" } else { "val" };
    format!(
        "at {header}+{}: {command} {:08x} mask {:08x}",
        key.offset,
        word(key.value),
        word(key.keep)
    )
}

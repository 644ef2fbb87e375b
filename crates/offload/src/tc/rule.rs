//! Rules of the classifier `flower`, as values.

/// A rule: which frames it takes, and what is done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowerRule {
    /// The chain of rules; hardware begins at chain 0.
    pub chain: u32,
    /// The priority: lower numbers are tried first. All rules of a priority have one protocol.
    pub priority: u16,
    /// EtherType of the frame's outermost header, or [`ANY_PROTOCOL`].
    pub protocol: u16,
    /// Conditions, each of another field.
    pub keys: Vec<Key>,
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Planes that may have the rule.
    pub planes: RulePlanes,
    /// Bytes by which the owner finds its rule again. The kernel keeps them with the last action.
    pub cookie: [u8; 16],
}

/// The protocol of rules for frames of each EtherType.
pub(crate) const ANY_PROTOCOL: u16 = 0x0003;

/// EtherTypes.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86DD;
pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const SERVICE_VLAN: u16 = 0x88A8;
pub(crate) const MPLS: u16 = 0x8847;
pub(crate) const MPLS_MULTICAST: u16 = 0x8848;

/// Protocols of IP.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Returns true for the EtherType of a VLAN tag.
pub(crate) fn is_vlan(ether_type: u16) -> bool {
    matches!(ether_type, VLAN | SERVICE_VLAN)
}

/// Returns true for the EtherType of MPLS.
pub(crate) fn is_mpls(ether_type: u16) -> bool {
    matches!(ether_type, MPLS | MPLS_MULTICAST)
}

/// A condition: the bits of `mask` in the field have the bits of `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The field.
    pub field: Field,
    /// Value; bits outside the mask are zero.
    pub value: u128,
    /// Mask, not zero.
    pub mask: u128,
}

/// A field that a rule can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "these are flower's own names")]
pub enum Field {
    EthDst,
    EthSrc,
    VlanId,
    VlanPriority,
    /// EtherType after the VLAN tag.
    VlanEthType,
    MplsLabel,
    MplsTc,
    MplsBos,
    MplsTtl,
    IpProto,
    IpTos,
    IpTtl,
    Ipv4Src,
    Ipv4Dst,
    Ipv6Src,
    Ipv6Dst,
    SrcPort,
    DstPort,
    TcpFlags,
    /// One bit: the packet is a fragment.
    Fragment,
}

impl Field {
    /// Returns the number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Field::MplsBos | Field::Fragment => 1,
            Field::VlanPriority | Field::MplsTc => 3,
            Field::MplsTtl | Field::IpProto | Field::IpTos | Field::IpTtl => 8,
            Field::VlanId | Field::TcpFlags => 12,
            Field::VlanEthType | Field::SrcPort | Field::DstPort => 16,
            Field::MplsLabel => 20,
            Field::Ipv4Src | Field::Ipv4Dst => 32,
            Field::EthDst | Field::EthSrc => 48,
            Field::Ipv6Src | Field::Ipv6Dst => 128,
        }
    }

    /// Returns the mask of all bits.
    pub fn all(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// Returns true if a condition may leave bits of the field open.
    pub fn is_maskable(self) -> bool {
        matches!(
            self,
            Field::EthDst
                | Field::EthSrc
                | Field::IpTos
                | Field::IpTtl
                | Field::Ipv4Src
                | Field::Ipv4Dst
                | Field::Ipv6Src
                | Field::Ipv6Dst
                | Field::SrcPort
                | Field::DstPort
                | Field::TcpFlags
        )
    }
}

/// An action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Changes 32-bit words of headers, in order.
    Pedit(Vec<PeditKey>),
    /// Writes the checksum of the IPv4 header.
    Ipv4Checksum,
    /// Puts a VLAN tag in front of the EtherType.
    VlanPush {
        /// EtherType of the tag.
        protocol: u16,
        /// VLAN identifier.
        id: u16,
        /// Priority.
        priority: u8,
    },
    /// Takes the outermost VLAN tag away.
    VlanPop,
    /// Changes the outermost VLAN tag. Its bit DEI stays.
    VlanModify {
        /// EtherType of the tag.
        protocol: u16,
        /// VLAN identifier.
        id: u16,
        /// Priority.
        priority: u8,
    },
    /// Puts an entry in front of the network header and writes the EtherType.
    MplsPush {
        /// EtherType: 0x8847 or 0x8848.
        protocol: u16,
        /// Label.
        label: u32,
        /// Traffic class.
        tc: u8,
        /// Bottom of stack.
        bos: bool,
        /// Time to live.
        ttl: u8,
    },
    /// Takes the first entry away and writes the EtherType.
    MplsPop {
        /// EtherType.
        protocol: u16,
    },
    /// Sends a copy out of the interface of this index.
    Mirror(u32),
    /// Sends the frame out of the interface of this index.
    Redirect(u32),
    /// Drops the frame.
    Drop,
    /// Leaves the frame to the host.
    Pass,
}

/// A change of a 32-bit word at a multiple of four from the beginning of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeditKey {
    /// The header.
    pub header: PeditHeader,
    /// Offset in bytes, a multiple of four.
    pub offset: u32,
    /// Bits that stay.
    pub keep: [u8; 4],
    /// New bits, or the summand. Bits that stay are zero.
    pub value: [u8; 4],
    /// The value is added instead of written. Then only one byte is not kept.
    pub add: bool,
}

/// A header from which the offset of a change counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeditHeader {
    /// Ethernet. The kernel takes the outermost VLAN tag away before rules see a frame.
    Ethernet,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The planes that may have a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RulePlanes {
    /// Hardware if it takes the rule, and software for the frames that reach the kernel.
    #[default]
    Both,
    /// Hardware only (`skip_sw`).
    Hardware,
    /// Software only (`skip_hw`).
    Software,
}

impl FlowerRule {
    /// Returns true if frames of each EtherType meet the rule. Then the kernel's count of software
    /// bytes lacks the outermost VLAN tag of frames that have one.
    pub fn is_for_each_ether_type(&self) -> bool {
        self.protocol == ANY_PROTOCOL
    }

    /// Returns true if the rule takes a frame of the flow of which it was made: it can be for fewer
    /// EtherTypes, for packets that are no fragments, and for one of some protocols.
    pub fn takes(&self, frame: &[u8]) -> bool {
        let word = |at: usize| {
            let bytes = frame.get(at..)?.first_chunk()?;
            Some(u16::from_be_bytes(*bytes))
        };
        if self.is_for_each_ether_type() {
            return true;
        }
        let inner = self.key(Field::VlanEthType);
        let is_typed = word(12) == Some(self.protocol)
            && inner.is_none_or(|inner| word(16).map(u128::from) == Some(inner.value));
        let (network, ether_type) = match is_vlan(self.protocol) {
            true => (18, inner.map_or(0, |inner| inner.value as u16)),
            false => (14, self.protocol),
        };
        let is_whole = self.key(Field::Fragment).is_none()
            || ether_type != IPV4
            || word(network + 6).is_some_and(|fragment| fragment & 0x3FFF == 0);
        let at = match ether_type {
            IPV4 => network + 9,
            _ => network + 6,
        };
        let protocol = self.key(Field::IpProto);
        let is_of_protocol = protocol.is_none_or(|key| {
            let found = frame.get(at).copied().map(u128::from);
            found == Some(key.value)
        });
        is_typed && is_whole && is_of_protocol
    }

    /// Returns the key of a field.
    pub fn key(&self, field: Field) -> Option<&Key> {
        self.keys.iter().find(|key| key.field == field)
    }
}

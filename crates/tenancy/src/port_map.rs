//! Port map: connections of virtual ports, shared ports and classification rules. A change is made
//! to a copy, which is checked as a whole and published in a [`Root`].

use std::collections::BTreeMap;
use std::fmt;

use packet::PortId;
use support::count::count;
use support::mac::MacAddress;

use crate::encapsulation::Encapsulation;
use crate::rule::{Condition, Rule, RuleError, Vlan, overlap};
use crate::rule_classifier::Classifier;
use crate::vpdp::{Connection, VirtualPort, VpdpId};

/// Largest number of a physical port.
pub const MAX_PORT: u32 = 65_535;

/// Maximum number of virtual ports of a vPDP.
pub const MAX_VIRTUAL_PORTS: usize = 4096;

/// Assignment of packets to vPDPs at a shared port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By description header.
    Described(Encapsulation),
    /// By destination MAC address: this prefix, 12 bits vPDP number, 12 bits host. Other addresses
    /// are assigned by rules.
    Destination(MacPrefix),
    /// By rules.
    Rules,
}

/// Egress policy of a port that several vPDPs share by rules or by MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// A frame is sent only if the packets that answer it would be assigned to the sending vPDP.
    #[default]
    Own,
    /// All frames are sent; for vPDPs that trust each other.
    Any,
}

/// Configuration of a shared physical port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Assignment of packets to vPDPs.
    pub sharing: Sharing,
    /// Egress policy.
    pub egress: Egress,
}

impl From<Sharing> for Share {
    fn from(sharing: Sharing) -> Share {
        let egress = Egress::Own;
        Share { sharing, egress }
    }
}

/// Upper three bytes of a locally administered unicast MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPrefix([u8; 3]);

impl MacPrefix {
    /// Creates a prefix. Returns `None` for group addresses and for addresses that are not locally
    /// administered: the two lowest bits of the first byte must be 10.
    pub fn new(bytes: [u8; 3]) -> Option<MacPrefix> {
        (bytes[0] & 0b11 == 0b10).then_some(MacPrefix(bytes))
    }

    /// Returns the address of a host of a vPDP. Only 12 bits of `host` are used.
    pub fn address(self, vpdp: VpdpId, host: u16) -> MacAddress {
        let [a, b, c] = self.0;
        let rest = u32::from(vpdp.get()) << 12 | u32::from(host & 0xfff);
        let [_, d, e, g] = rest.to_be_bytes();
        MacAddress([a, b, c, d, e, g])
    }

    /// Returns the vPDP of a frame by its destination address.
    #[inline]
    pub(crate) fn vpdp(self, bytes: &[u8]) -> Option<VpdpId> {
        let [a, b, c, d, e, _] = *bytes.first_chunk()?;
        let number = u16::from(d) << 4 | u16::from(e) >> 4;
        ([a, b, c] == self.0).then(|| VpdpId::new(number))?
    }

    /// Returns the vPDP of a frame by its source address.
    #[inline]
    pub(crate) fn vpdp_of_source(self, bytes: &[u8]) -> Option<VpdpId> {
        self.vpdp(bytes.get(6..)?)
    }
}

impl fmt::Display for MacPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}")
    }
}

/// Error in a port map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMapError {
    /// A physical port is already connected to another virtual port.
    PortTaken {
        /// The physical port.
        port: PortId,
        /// The virtual port that has it.
        by: VirtualPort,
        /// The virtual port that requested it.
        wanted_by: VirtualPort,
    },
    /// The number of a physical port is too large.
    PortNumber(PortId),
    /// A vPDP has too many ports.
    TooManyPorts(usize),
    /// There is no such virtual port.
    NoSuchPort(VirtualPort),
    /// A link to a virtual port that is already connected to a physical port.
    Connected(VirtualPort),
    /// A change to a virtual port that is linked.
    Linked(VirtualPort),
    /// The virtual port has no link.
    NotLinked(VirtualPort),
    /// Another rule has this name.
    RuleExists(String),
    /// No rule has this name.
    NoSuchRule {
        /// The name.
        name: String,
        /// The names of the rules that exist, with their vPDPs.
        known: Vec<(String, VpdpId)>,
    },
    /// The vPDP of a rule does not exist.
    RuleOf(String, VpdpId),
    /// A rule names a port that is not shared by rules or by MAC address.
    RulePort(String, PortId),
    /// A rule is invalid by itself.
    Rule(String, RuleError),
    /// Two rules of the same priority can match one packet and name different vPDPs.
    Overlap(String, String),
    /// The rule table rejects a rule.
    Table(String),
    /// A VXLAN network identifier (VNI) has more than 24 bits.
    Vni(PortId, u32),
    /// `egress any` at a port where the switch writes a description header for each packet.
    AnyDescribed(PortId),
    /// A rule with `untag` does not name a port that is shared by rules.
    AccessPort(String),
    /// Two rules of a vPDP, one with `untag`, that leave the VLAN of its untagged packets
    /// ambiguous.
    Untagged(String, String),
}

/// Maximum number of rules that an error names.
const MAX_SHOWN_RULES: usize = 10;

impl fmt::Display for PortMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortMapError::PortTaken {
                port,
                by,
                wanted_by,
            } => write!(
                f,
                "{wanted_by} cannot have the switch's port {port}, which is {by}; take another one, share the port, or disconnect it there first"
            ),
            PortMapError::PortNumber(port) => {
                write!(
                    f,
                    "the switch's ports go up to {MAX_PORT}; there is no {port}"
                )
            }
            PortMapError::TooManyPorts(ports) => {
                write!(
                    f,
                    "a vPDP has at most {MAX_VIRTUAL_PORTS} ports, not {ports}"
                )
            }
            PortMapError::NoSuchPort(port) => write!(f, "there is no {port}"),
            PortMapError::Connected(port) => {
                write!(f, "{port} is connected already; disconnect it first")
            }
            PortMapError::Linked(port) => write!(f, "{port} is linked; unlink it first"),
            PortMapError::NotLinked(port) => write!(f, "{port} has no link"),
            PortMapError::RuleExists(name) => write!(f, "there is a rule `{name}` already"),
            PortMapError::NoSuchRule { name, known } => {
                write!(f, "there is no rule `{name}`")?;
                if name.contains(':') {
                    f.write_str("; give only the name in front of the colon")?;
                }
                if known.is_empty() {
                    return f.write_str("; there are no rules");
                }
                let shown = known.iter().take(MAX_SHOWN_RULES);
                let shown: Vec<String> = shown
                    .map(|(name, vpdp)| format!("`{name}` of vPDP {vpdp}"))
                    .collect();
                write!(f, "; the rules: {}", shown.join(", "))?;
                match known.len().saturating_sub(MAX_SHOWN_RULES) {
                    0 => Ok(()),
                    more => write!(f, " and {}", count(more as u64, "other")),
                }
            }
            PortMapError::RuleOf(name, vpdp) => {
                write!(
                    f,
                    "the rule `{name}` is for vPDP {vpdp}, which is not there"
                )
            }
            PortMapError::RulePort(name, port) => write!(
                f,
                "the rule `{name}` is about the switch's port {port}, which is to be shared by rules as long as there is such a rule; share it so, or delete the rule, first"
            ),
            PortMapError::Rule(name, error) => write!(f, "the rule `{name}`: {error}"),
            PortMapError::Overlap(one, other) => write!(
                f,
                "a packet can meet both the rule `{one}` and the rule `{other}`, which lead it to different vPDPs; give one of them a larger priority"
            ),
            PortMapError::Table(error) => write!(f, "the table of rules: {error}"),
            PortMapError::Vni(port, vni) => write!(
                f,
                "the VXLAN network {vni} of the switch's port {port} has more than 24 bits: 0 to 16777215"
            ),
            PortMapError::AnyDescribed(port) => write!(
                f,
                "`egress any` makes no sense at the switch's port {port}: the switch describes all \
                 packets that leave there"
            ),
            PortMapError::AccessPort(name) => write!(
                f,
                "the rule `{name}` takes the VLAN's tag off; it must name a port of the switch \
                 that is shared by `rules`, where the tag is put on again"
            ),
            PortMapError::Untagged(one, other) => write!(
                f,
                "the rules `{one}` and `{other}` are for one vPDP and one port, and packets that \
                 it sends there without a tag could be in either VLAN; at a port, a vPDP has at most \
                 one VLAN with `untag`, all its rules for this VLAN have `untag`, and none has \
                 `vlan none`"
            ),
        }
    }
}

impl std::error::Error for PortMapError {}

/// The port map of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortMap {
    /// Connections of each vPDP's ports, by port number.
    pub(crate) ports: BTreeMap<VpdpId, Vec<Connection>>,
    /// Shared physical ports.
    pub(crate) shared: BTreeMap<PortId, Share>,
    pub(crate) rules: Vec<Rule>,
}

impl PortMap {
    pub(crate) fn connection(&self, port: VirtualPort) -> Result<Connection, PortMapError> {
        let ports = self.ports.get(&port.vpdp);
        let found = ports.and_then(|ports| ports.get(port.port as usize));
        found.copied().ok_or(PortMapError::NoSuchPort(port))
    }

    pub(crate) fn connect(
        &mut self,
        port: VirtualPort,
        to: Connection,
    ) -> Result<(), PortMapError> {
        let ports = self.ports.get_mut(&port.vpdp);
        let found = ports.and_then(|ports| ports.get_mut(port.port as usize));
        *found.ok_or(PortMapError::NoSuchPort(port))? = to;
        Ok(())
    }

    /// Links two unconnected virtual ports, or one to itself.
    pub(crate) fn link(
        &mut self,
        one: VirtualPort,
        other: VirtualPort,
    ) -> Result<(), PortMapError> {
        for port in [one, other] {
            match self.connection(port)? {
                Connection::Open => {}
                Connection::Link(_) => return Err(PortMapError::Linked(port)),
                Connection::Physical(_) => return Err(PortMapError::Connected(port)),
            }
        }
        self.connect(one, Connection::Link(other))?;
        self.connect(other, Connection::Link(one))
    }

    pub(crate) fn unlink(&mut self, port: VirtualPort) -> Result<(), PortMapError> {
        let Connection::Link(other) = self.connection(port)? else {
            return Err(PortMapError::NotLinked(port));
        };
        self.connect(port, Connection::Open)?;
        self.connect(other, Connection::Open)
    }

    pub(crate) fn links_of(
        &self,
        vpdp: VpdpId,
    ) -> impl Iterator<Item = (VirtualPort, VirtualPort)> {
        let ports = self.ports.get(&vpdp).into_iter().flatten();
        (0..)
            .zip(ports)
            .filter_map(move |(port, connection)| match connection {
                Connection::Link(other) => Some((VirtualPort { vpdp, port }, *other)),
                _ => None,
            })
    }

    /// Checks that each link is that of both of its ends.
    pub(crate) fn check_links(&self) -> Result<(), PortMapError> {
        for (port, other) in self.ports.keys().flat_map(|vpdp| self.links_of(*vpdp)) {
            if self.connection(other)? != Connection::Link(port) {
                return Err(PortMapError::NotLinked(other));
            }
        }
        Ok(())
    }

    pub(crate) fn add_rule(&mut self, rule: Rule) -> Result<(), PortMapError> {
        if self.rules.iter().any(|other| other.name == rule.name) {
            return Err(PortMapError::RuleExists(rule.name));
        }
        self.rules.push(rule);
        Ok(())
    }

    pub(crate) fn remove_rule(&mut self, name: &str) -> Result<(), PortMapError> {
        let found = self.rules.iter().position(|rule| rule.name == name);
        let found = found.ok_or_else(|| PortMapError::NoSuchRule {
            name: name.to_owned(),
            known: self
                .rules
                .iter()
                .map(|rule| (rule.name.clone(), rule.vpdp))
                .collect(),
        })?;
        self.rules.remove(found);
        Ok(())
    }

    /// Returns all virtual ports that are connected to physical ports.
    pub(crate) fn physical(&self) -> impl Iterator<Item = (VirtualPort, PortId)> {
        self.ports.iter().flat_map(|(&vpdp, ports)| {
            (0..)
                .zip(ports)
                .filter_map(move |(port, connection)| match connection {
                    Connection::Physical(physical) => Some((VirtualPort { vpdp, port }, *physical)),
                    _ => None,
                })
        })
    }

    /// Checks the whole port map. Returns the rule table, or `None` if there are no rules.
    pub(crate) fn check(&self) -> Result<Option<Classifier>, PortMapError> {
        self.check_ports()?;
        let mut asked = Vec::new();
        for rule in &self.rules {
            if !self.ports.contains_key(&rule.vpdp) {
                return Err(PortMapError::RuleOf(rule.name.clone(), rule.vpdp));
            }
            self.check_rule_ports(rule)?;
            self.check_access(rule)?;
            let own = rule.asked();
            asked.push((
                rule,
                own.map_err(|error| PortMapError::Rule(rule.name.clone(), error))?,
            ));
        }
        for (number, (one, asked_one)) in asked.iter().enumerate() {
            for (other, asked_other) in &asked[..number] {
                let are_rivals = one.vpdp != other.vpdp && one.priority == other.priority;
                if !are_untagged_apart(one, other) {
                    let (first, second) = (other.name.clone(), one.name.clone());
                    return Err(PortMapError::Untagged(first, second));
                }
                if are_rivals && overlap(asked_one, asked_other) {
                    let (first, second) = (other.name.clone(), one.name.clone());
                    return Err(PortMapError::Overlap(first, second));
                }
            }
        }
        if asked.is_empty() {
            return Ok(None);
        }
        let classifier = Classifier::new(asked);
        classifier
            .map(Some)
            .map_err(|error| PortMapError::Table(error.to_string()))
    }

    fn check_ports(&self) -> Result<(), PortMapError> {
        let longest = self.ports.values().map(Vec::len).max().unwrap_or(0);
        if longest > MAX_VIRTUAL_PORTS {
            return Err(PortMapError::TooManyPorts(longest));
        }
        for (port, share) in &self.shared {
            let Sharing::Described(carriage) = share.sharing else {
                continue;
            };
            if share.egress == Egress::Any {
                return Err(PortMapError::AnyDescribed(*port));
            }
            if let Encapsulation::Vxlan(tunnel) = carriage
                && tunnel.vni >> 24 != 0
            {
                return Err(PortMapError::Vni(*port, tunnel.vni));
            }
        }
        let shared = self.shared.keys().copied();
        let used = self.physical().map(|(_, physical)| physical);
        if let Some(port) = shared.chain(used).find(|port| port.0 > MAX_PORT) {
            return Err(PortMapError::PortNumber(port));
        }
        let mut taken: BTreeMap<(PortId, Option<VpdpId>), VirtualPort> = BTreeMap::new();
        for (wanted_by, port) in self.physical() {
            // A shared port may be connected once per vPDP, another one only once.
            let whose = self.shared.contains_key(&port).then_some(wanted_by.vpdp);
            if let Some(&by) = taken.get(&(port, whose)) {
                return Err(PortMapError::PortTaken {
                    port,
                    by,
                    wanted_by,
                });
            }
            taken.insert((port, whose), wanted_by);
        }
        Ok(())
    }

    /// Checks that an access rule names a port shared by rules. Packets of a port shared by MAC
    /// address are not untagged.
    fn check_access(&self, rule: &Rule) -> Result<(), PortMapError> {
        let sharing = |port| Some(self.shared.get(&port)?.sharing);
        match rule.port().and_then(sharing) {
            Some(Sharing::Rules) => Ok(()),
            _ if rule.access().is_none() => Ok(()),
            _ => Err(PortMapError::AccessPort(rule.name.clone())),
        }
    }

    fn check_rule_ports(&self, rule: &Rule) -> Result<(), PortMapError> {
        for condition in &rule.conditions {
            let Condition::Port(port) = condition else {
                continue;
            };
            match self.shared.get(port).map(|share| share.sharing) {
                Some(Sharing::Rules | Sharing::Destination(_)) => {}
                _ => return Err(PortMapError::RulePort(rule.name.clone(), *port)),
            }
        }
        Ok(())
    }
}

/// Returns true if two rules do not make the VLAN of a vPDP's untagged packets ambiguous.
fn are_untagged_apart(one: &Rule, other: &Rule) -> bool {
    if one.vpdp != other.vpdp || (one.access(), other.access()) == (None, None) {
        return true;
    }
    let are_of_one_port = match (one.port(), other.port()) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let (Some(one), Some(other)) = (one.vlan(), other.vlan()) else {
        return true;
    };
    !are_of_one_port
        || match (one, other) {
            (Vlan::Access(one), Vlan::Access(other)) => one == other,
            (Vlan::Access(access), Vlan::Id(id)) | (Vlan::Id(id), Vlan::Access(access)) => {
                access != id
            }
            _ => false,
        }
}

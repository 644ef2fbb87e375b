//! How packets find their virtual data plane and its ports: one value, changed as a copy, checked as a whole, and published as a [`Root`].

use std::collections::BTreeMap;
use std::fmt;

use packet::PortId;

use crate::carriage::{Carriage, MacAddress};
use crate::classifier::Classifier;
use crate::rule::{Condition, Rule, RuleError, Vlan, overlap};
use crate::vpdp::{Connection, VirtualPort, VpdpId};

/// The greatest number of a switch's port.
pub const MAX_PORT: u32 = 65_535;

/// Virtual ports that a vPDP may have.
pub const MAX_VIRTUAL_PORTS: usize = 4096;

/// How packets of a port that several vPDPs share find theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By a description header.
    Described(Carriage),
    /// By the destination MAC address: this prefix, the vPDP's number in 12 bits, 12 bits for its hosts. Other addresses go by rules.
    Destination(MacPrefix),
    /// By rules.
    Rules,
}

/// What may leave by a port that several vPDPs share by rules or by MAC addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// Each vPDP's own: a frame leaves if the packets that answer it would be for the vPDP that
    /// sends it.
    #[default]
    Own,
    /// All, for vPDPs that trust each other.
    Any,
}

/// A port of the switch that several vPDPs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How packets find their vPDP.
    pub sharing: Sharing,
    /// What may leave.
    pub egress: Egress,
}

impl From<Sharing> for Share {
    fn from(sharing: Sharing) -> Share {
        let egress = Egress::Own;
        Share { sharing, egress }
    }
}

/// The first half of a locally administered unicast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPrefix([u8; 3]);

impl MacPrefix {
    /// The prefix; nothing where addresses that begin so are for groups or not locally administered (the last bits of the first byte are not 10).
    pub fn new(bytes: [u8; 3]) -> Option<MacPrefix> {
        (bytes[0] & 0b11 == 0b10).then_some(MacPrefix(bytes))
    }

    /// The address of a vPDP's host, of which 12 bits count.
    pub fn address(self, vpdp: VpdpId, host: u16) -> MacAddress {
        let [a, b, c] = self.0;
        let rest = u32::from(vpdp.get()) << 12 | u32::from(host & 0xfff);
        let [_, d, e, g] = rest.to_be_bytes();
        MacAddress([a, b, c, d, e, g])
    }

    /// Whose frame this is, by its destination.
    #[inline]
    pub(crate) fn vpdp(self, bytes: &[u8]) -> Option<VpdpId> {
        let [a, b, c, d, e, _] = *bytes.first_chunk()?;
        let number = u16::from(d) << 4 | u16::from(e) >> 4;
        ([a, b, c] == self.0).then(|| VpdpId::new(number))?
    }

    /// The vPDP of a frame, by its source.
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

/// Why packets cannot be led so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WiringError {
    /// A port of the switch is another virtual port's already.
    PortTaken {
        /// The switch's port.
        port: PortId,
        /// Who has it.
        by: VirtualPort,
        /// Who asked for it.
        wanted_by: VirtualPort,
    },
    /// A switch's port has too large a number.
    PortNumber(PortId),
    /// A vPDP has too many ports.
    TooManyPorts(usize),
    /// There is no such virtual port.
    NoSuchPort(VirtualPort),
    /// A link was asked for at a virtual port that is connected already.
    Connected(VirtualPort),
    /// A virtual port that is linked.
    Linked(VirtualPort),
    /// There is no link at this virtual port.
    NotLinked(VirtualPort),
    /// There is a rule of this name.
    RuleExists(String),
    /// There is no rule of this name.
    NoSuchRule(String),
    /// A rule is for a vPDP that is not there.
    RuleOf(String, VpdpId),
    /// A rule is about a port where rules do not count.
    RulePort(String, PortId),
    /// A rule makes no sense.
    Rule(String, RuleError),
    /// A packet can meet two rules of the same priority for different vPDPs.
    Overlap(String, String),
    /// The table does not take a rule.
    Table(String),
    /// A VXLAN network's number has more than 24 bits.
    Vni(PortId, u32),
    /// `egress any` at a port where the switch itself describes all that leaves.
    AnyDescribed(PortId),
    /// A rule takes tags off, and names no port that is shared by rules.
    AccessPort(String),
    /// Two rules of a vPDP, of which one takes tags off, leave it open in which VLAN its untagged
    /// packets are.
    Untagged(String, String),
}

impl fmt::Display for WiringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WiringError::PortTaken {
                port,
                by,
                wanted_by,
            } => write!(
                f,
                "{wanted_by} cannot have the switch's port {port}, which is {by}; take another one, share the port, or disconnect it there first"
            ),
            WiringError::PortNumber(port) => {
                write!(
                    f,
                    "the switch's ports go up to {MAX_PORT}; there is no {port}"
                )
            }
            WiringError::TooManyPorts(ports) => {
                write!(
                    f,
                    "a vPDP has at most {MAX_VIRTUAL_PORTS} ports, not {ports}"
                )
            }
            WiringError::NoSuchPort(port) => write!(f, "there is no {port}"),
            WiringError::Connected(port) => {
                write!(f, "{port} is connected already; disconnect it first")
            }
            WiringError::Linked(port) => write!(f, "{port} is linked; unlink it first"),
            WiringError::NotLinked(port) => write!(f, "{port} has no link"),
            WiringError::RuleExists(name) => write!(f, "there is a rule `{name}` already"),
            WiringError::NoSuchRule(name) => write!(f, "there is no rule `{name}`"),
            WiringError::RuleOf(name, vpdp) => {
                write!(
                    f,
                    "the rule `{name}` is for vPDP {vpdp}, which is not there"
                )
            }
            WiringError::RulePort(name, port) => write!(
                f,
                "the rule `{name}` is about the switch's port {port}, which is to be shared by rules as long as there is such a rule; share it so, or delete the rule, first"
            ),
            WiringError::Rule(name, error) => write!(f, "the rule `{name}`: {error}"),
            WiringError::Overlap(one, other) => write!(
                f,
                "a packet can meet both the rule `{one}` and the rule `{other}`, which lead it to different vPDPs; give one of them a larger priority"
            ),
            WiringError::Table(error) => write!(f, "the table of rules: {error}"),
            WiringError::Vni(port, vni) => write!(
                f,
                "the VXLAN network {vni} of the switch's port {port} has more than 24 bits: 0 to 16777215"
            ),
            WiringError::AnyDescribed(port) => write!(
                f,
                "`egress any` makes no sense at the switch's port {port}: the switch describes all \
                 packets that leave there"
            ),
            WiringError::AccessPort(name) => write!(
                f,
                "the rule `{name}` takes the VLAN's tag off; it must name a port of the switch \
                 that is shared by `rules`, where the tag is put on again"
            ),
            WiringError::Untagged(one, other) => write!(
                f,
                "the rules `{one}` and `{other}` are for one vPDP and one port, and packets that \
                 it sends there without a tag could be in either VLAN; at a port, a vPDP has at most \
                 one VLAN with `untag`, all its rules for this VLAN have `untag`, and none has \
                 `vlan none`"
            ),
        }
    }
}

impl std::error::Error for WiringError {}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wiring {
    /// Each vPDP's ports, by their numbers.
    pub(crate) ports: BTreeMap<VpdpId, Vec<Connection>>,
    /// Ports that are not a single vPDP's.
    pub(crate) shared: BTreeMap<PortId, Share>,
    pub(crate) rules: Vec<Rule>,
}

impl Wiring {
    pub(crate) fn connection(&self, port: VirtualPort) -> Result<Connection, WiringError> {
        let ports = self.ports.get(&port.vpdp);
        let found = ports.and_then(|ports| ports.get(port.port as usize));
        found.copied().ok_or(WiringError::NoSuchPort(port))
    }

    pub(crate) fn connect(&mut self, port: VirtualPort, to: Connection) -> Result<(), WiringError> {
        let ports = self.ports.get_mut(&port.vpdp);
        let found = ports.and_then(|ports| ports.get_mut(port.port as usize));
        *found.ok_or(WiringError::NoSuchPort(port))? = to;
        Ok(())
    }

    /// Connects two open virtual ports to each other; or one, to itself.
    pub(crate) fn link(&mut self, one: VirtualPort, other: VirtualPort) -> Result<(), WiringError> {
        for port in [one, other] {
            match self.connection(port)? {
                Connection::Open => {}
                Connection::Link(_) => return Err(WiringError::Linked(port)),
                Connection::Physical(_) => return Err(WiringError::Connected(port)),
            }
        }
        self.connect(one, Connection::Link(other))?;
        self.connect(other, Connection::Link(one))
    }

    pub(crate) fn unlink(&mut self, port: VirtualPort) -> Result<(), WiringError> {
        let Connection::Link(other) = self.connection(port)? else {
            return Err(WiringError::NotLinked(port));
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

    pub(crate) fn add_rule(&mut self, rule: Rule) -> Result<(), WiringError> {
        if self.rules.iter().any(|other| other.name == rule.name) {
            return Err(WiringError::RuleExists(rule.name));
        }
        self.rules.push(rule);
        Ok(())
    }

    pub(crate) fn remove_rule(&mut self, name: &str) -> Result<(), WiringError> {
        let found = self.rules.iter().position(|rule| rule.name == name);
        let found = found.ok_or_else(|| WiringError::NoSuchRule(name.into()))?;
        self.rules.remove(found);
        Ok(())
    }

    /// All virtual ports that are connected to ports of the switch.
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

    /// Checks all of it, and makes the table of its rules, if there are some.
    pub(crate) fn check(&self) -> Result<Option<Classifier>, WiringError> {
        self.check_ports()?;
        let mut asked = Vec::new();
        for rule in &self.rules {
            if !self.ports.contains_key(&rule.vpdp) {
                return Err(WiringError::RuleOf(rule.name.clone(), rule.vpdp));
            }
            self.check_rule_ports(rule)?;
            self.check_access(rule)?;
            let own = rule.asked();
            asked.push((
                rule,
                own.map_err(|error| WiringError::Rule(rule.name.clone(), error))?,
            ));
        }
        for (number, (one, asked_one)) in asked.iter().enumerate() {
            for (other, asked_other) in &asked[..number] {
                let are_rivals = one.vpdp != other.vpdp && one.priority == other.priority;
                if !are_untagged_apart(one, other) {
                    let (first, second) = (other.name.clone(), one.name.clone());
                    return Err(WiringError::Untagged(first, second));
                }
                if are_rivals && overlap(asked_one, asked_other) {
                    let (first, second) = (other.name.clone(), one.name.clone());
                    return Err(WiringError::Overlap(first, second));
                }
            }
        }
        if asked.is_empty() {
            return Ok(None);
        }
        let classifier = Classifier::new(asked);
        classifier
            .map(Some)
            .map_err(|error| WiringError::Table(error.to_string()))
    }

    fn check_ports(&self) -> Result<(), WiringError> {
        let longest = self.ports.values().map(Vec::len).max().unwrap_or(0);
        if longest > MAX_VIRTUAL_PORTS {
            return Err(WiringError::TooManyPorts(longest));
        }
        for (port, share) in &self.shared {
            let Sharing::Described(carriage) = share.sharing else {
                continue;
            };
            if share.egress == Egress::Any {
                return Err(WiringError::AnyDescribed(*port));
            }
            if let Carriage::Vxlan(tunnel) = carriage
                && tunnel.vni >> 24 != 0
            {
                return Err(WiringError::Vni(*port, tunnel.vni));
            }
        }
        let shared = self.shared.keys().copied();
        let used = self.physical().map(|(_, physical)| physical);
        if let Some(port) = shared.chain(used).find(|port| port.0 > MAX_PORT) {
            return Err(WiringError::PortNumber(port));
        }
        let mut taken: BTreeMap<(PortId, Option<VpdpId>), VirtualPort> = BTreeMap::new();
        for (wanted_by, port) in self.physical() {
            // A shared port is each vPDP's once, another one anyone's once.
            let whose = self.shared.contains_key(&port).then_some(wanted_by.vpdp);
            if let Some(&by) = taken.get(&(port, whose)) {
                return Err(WiringError::PortTaken {
                    port,
                    by,
                    wanted_by,
                });
            }
            taken.insert((port, whose), wanted_by);
        }
        Ok(())
    }

    /// An access port is one that is shared by rules: by MAC address packets come in as they are.
    fn check_access(&self, rule: &Rule) -> Result<(), WiringError> {
        let sharing = |port| Some(self.shared.get(&port)?.sharing);
        match rule.port().and_then(sharing) {
            Some(Sharing::Rules) => Ok(()),
            _ if rule.access().is_none() => Ok(()),
            _ => Err(WiringError::AccessPort(rule.name.clone())),
        }
    }

    fn check_rule_ports(&self, rule: &Rule) -> Result<(), WiringError> {
        for condition in &rule.conditions {
            let Condition::Port(port) = condition else {
                continue;
            };
            match self.shared.get(port).map(|share| share.sharing) {
                Some(Sharing::Rules | Sharing::Destination(_)) => {}
                _ => return Err(WiringError::RulePort(rule.name.clone(), *port)),
            }
        }
        Ok(())
    }
}

/// True if two rules do not leave it open in which VLAN a vPDP's untagged packets are.
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

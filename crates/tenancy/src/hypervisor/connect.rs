//! Changes to the port map: connections of virtual ports, shared ports and rules.

use packet::PortId;

use super::TenantSwitch;
use crate::error::HypervisorError;
use crate::port_map::{PortMap, PortMapError, Share, Sharing};
use crate::rule::Rule;
use crate::vpdp::{Connection, VirtualPort};

/// Connections of all virtual ports, shared ports and rules of a switch.
#[derive(Clone, Debug)]
pub struct Wiring(PortMap);

impl Wiring {
    /// Connects a virtual port. The other end of a link must be connected too.
    ///
    /// # Errors
    /// There is no such virtual port.
    pub fn connect(&mut self, port: VirtualPort, to: Connection) -> Result<(), PortMapError> {
        self.0.connect(port, to)
    }

    /// Sets the sharing of a physical port.
    pub fn share_as(&mut self, port: PortId, share: Share) {
        self.0.shared.insert(port, share);
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// Another rule has its name.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), PortMapError> {
        self.0.add_rule(rule)
    }
}

impl TenantSwitch {
    /// Returns the connections of all virtual ports, the shared ports and the rules.
    pub fn wiring(&self) -> Wiring {
        Wiring(self.wiring.clone())
    }

    /// Replaces all connections, shared ports and rules, as one change.
    ///
    /// # Errors
    /// They do not fit together, or not to the vPDPs.
    pub fn set_wiring(&mut self, wiring: Wiring) -> Result<(), HypervisorError> {
        self.change_wiring(|there| {
            *there = wiring.0;
            there.check_links()
        })
    }

    /// Connects a virtual port to a physical port, or disconnects it.
    ///
    /// # Errors
    /// The virtual port is linked, or the physical port is taken.
    pub fn connect(
        &mut self,
        port: VirtualPort,
        to: Option<PortId>,
    ) -> Result<(), HypervisorError> {
        self.find(port.vpdp)?;
        let (wiring, classifier) = self.rewired(|wiring| {
            if let Connection::Link(_) = wiring.connection(port)? {
                return Err(PortMapError::Linked(port));
            }
            wiring.connect(port, to.map_or(Connection::Open, Connection::Physical))
        })?;
        self.rewire(wiring, classifier);
        Ok(())
    }

    /// Links two unconnected virtual ports: packets sent at one are received at the other.
    ///
    /// # Errors
    /// One of them does not exist, or is connected.
    pub fn link(&mut self, one: VirtualPort, other: VirtualPort) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| wiring.link(one, other))
    }

    /// Removes the link of a virtual port; both ends are unconnected then.
    ///
    /// # Errors
    /// The port has no link.
    pub fn unlink(&mut self, port: VirtualPort) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| wiring.unlink(port))
    }

    /// Sets the sharing of a physical port, with [`crate::Egress::Own`] as its egress policy.
    /// `None` makes it a port of one vPDP.
    ///
    /// # Errors
    /// Several vPDPs have the port, or a rule names it.
    pub fn share(&mut self, port: PortId, sharing: Option<Sharing>) -> Result<(), HypervisorError> {
        self.share_ports([port], sharing)
    }

    /// Sets the sharing and the egress policy of a physical port.
    ///
    /// # Errors
    /// A rule names the port and needs another sharing, or the combination is invalid.
    pub fn share_as(&mut self, port: PortId, share: Share) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| {
            wiring.shared.insert(port, share);
            Ok(())
        })
    }

    /// Sets the sharing of several ports as [`TenantSwitch::share`] does, checked and published as
    /// one change.
    ///
    /// # Errors
    /// Several vPDPs have one of the ports, or a rule names one.
    pub fn share_ports(
        &mut self,
        ports: impl IntoIterator<Item = PortId>,
        sharing: Option<Sharing>,
    ) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| {
            for port in ports {
                match sharing {
                    Some(sharing) => wiring.shared.insert(port, sharing.into()),
                    None => wiring.shared.remove(&port),
                };
            }
            Ok(())
        })
    }

    /// Adds a rule that assigns packets of shared ports to a vPDP.
    ///
    /// # Errors
    /// The rule is invalid, or overlaps with another one.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), HypervisorError> {
        self.add_rules([rule])
    }

    /// Adds rules as one change: all or none.
    ///
    /// # Errors
    /// A rule is invalid, or overlaps with another one.
    pub fn add_rules(
        &mut self,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| rules.into_iter().try_for_each(|rule| wiring.add_rule(rule)))
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// No rule has this name.
    pub fn remove_rule(&mut self, name: &str) -> Result<(), HypervisorError> {
        self.change_wiring(|wiring| wiring.remove_rule(name))
    }
}

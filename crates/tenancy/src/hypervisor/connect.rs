//! What virtual ports are connected to, and how packets of shared ports find their vPDP.

use packet::PortId;

use super::Hypervisor;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::vpdp::{Connection, VirtualPort};
use crate::wiring::{Share, Sharing, WiringError};

impl Hypervisor {
    /// Connects a virtual port to a port of the switch, or to nothing.
    ///
    /// # Errors
    /// It is linked; the port of the switch is another one's.
    pub fn connect(&mut self, port: VirtualPort, to: Option<PortId>) -> Result<(), Refusal> {
        self.find(port.vpdp)?;
        let (wiring, classifier) = self.rewired(|wiring| {
            if let Connection::Link(_) = wiring.connection(port)? {
                return Err(WiringError::Linked(port));
            }
            wiring.connect(port, to.map_or(Connection::Open, Connection::Physical))
        })?;
        self.rewire(wiring, classifier);
        Ok(())
    }

    /// Connects two open virtual ports by a link: what leaves at one comes in at the other.
    ///
    /// # Errors
    /// One of them is not there, or not open.
    pub fn link(&mut self, one: VirtualPort, other: VirtualPort) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.link(one, other))
    }

    /// Removes the link of a virtual port; both ends are open then.
    ///
    /// # Errors
    /// It has none.
    pub fn unlink(&mut self, port: VirtualPort) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.unlink(port))
    }

    /// Says how several vPDPs share a port of the switch, by which each sends what is its own
    /// ([`crate::Egress::Own`]); or that one has it for itself.
    ///
    /// # Errors
    /// Several have it; a rule is about it.
    pub fn share(&mut self, port: PortId, sharing: Option<Sharing>) -> Result<(), Refusal> {
        self.share_ports([port], sharing)
    }

    /// Says how several vPDPs share a port of the switch, and what may leave by it.
    ///
    /// # Errors
    /// A rule is about it that is not of this sharing; it makes no sense.
    pub fn share_as(&mut self, port: PortId, share: Share) -> Result<(), Refusal> {
        self.change_wiring(|wiring| {
            wiring.shared.insert(port, share);
            Ok(())
        })
    }

    /// [`Hypervisor::share`] of several ports, checked and published as one change.
    ///
    /// # Errors
    /// Several vPDPs have one of them; a rule is about it.
    pub fn share_ports(
        &mut self,
        ports: impl IntoIterator<Item = PortId>,
        sharing: Option<Sharing>,
    ) -> Result<(), Refusal> {
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

    /// Adds a rule that leads packets of shared ports to a vPDP.
    ///
    /// # Errors
    /// It makes no sense, or overlaps with another one.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), Refusal> {
        self.add_rules([rule])
    }

    /// Adds rules, all or none of them, as one change.
    ///
    /// # Errors
    /// One makes no sense, or overlaps with another one.
    pub fn add_rules(&mut self, rules: impl IntoIterator<Item = Rule>) -> Result<(), Refusal> {
        self.change_wiring(|wiring| rules.into_iter().try_for_each(|rule| wiring.add_rule(rule)))
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn remove_rule(&mut self, name: &str) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.remove_rule(name))
    }
}

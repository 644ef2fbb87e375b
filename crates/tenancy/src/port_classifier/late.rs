//! Egress of packets of deleted vPDPs: by the time they leave, their ports may belong to others.

use packet::PortId;

use super::{PortClassifier, PortClassifiers};
use crate::encapsulation::Encapsulation;
use crate::port_map::Sharing;
use crate::vpdp::VpdpId;

impl PortClassifiers {
    /// Returns true if packets of a deleted vPDP with this number may still leave by a port: no
    /// vPDP has the port now, or all packets there have description headers and no vPDP has this
    /// number.
    pub(crate) fn lets_leave(
        &self,
        before: &PortClassifiers,
        port: PortId,
        number: VpdpId,
    ) -> bool {
        match self.of_port(port) {
            None | Some(PortClassifier::Closed) => true,
            Some(now) => {
                let carriage = now.carriage();
                let were = before.of_port(port).and_then(PortClassifier::carriage);
                carriage.is_some() && carriage == were && !self.is_described(now, number)
            }
        }
    }

    /// Returns true if a vPDP of this number has a port that is shared by description header.
    fn is_described(&self, entrance: &PortClassifier, number: VpdpId) -> bool {
        match entrance {
            PortClassifier::Described(port) => self.descriptions.has(*port as usize, number),
            PortClassifier::Shared(shared) => shared.inlets.at(number.index()).is_some(),
            _ => false,
        }
    }
}

impl PortClassifier {
    /// Returns the encapsulation of description headers at this port, if there is one.
    fn carriage(&self) -> Option<Encapsulation> {
        match self {
            PortClassifier::Described(_) => Some(Encapsulation::Plain),
            PortClassifier::Shared(shared) => match shared.sharing {
                Sharing::Described(carriage) => Some(carriage),
                Sharing::Destination(_) | Sharing::Rules => None,
            },
            _ => None,
        }
    }
}

//! Packets of virtual data planes that are no more, which leave late: by then their ports may be others'.

use packet::PortId;

use super::{Entrance, Entrances};
use crate::carriage::Carriage;
use crate::vpdp::VpdpId;
use crate::wiring::Sharing;

impl Entrances {
    /// Whether packets of a vPDP that had this number before, and is no more, may still leave by a port: nobody has it now, or descriptions tell its packets from those of all who do.
    pub(crate) fn lets_leave(&self, before: &Entrances, port: PortId, number: VpdpId) -> bool {
        match self.of_port(port) {
            None | Some(Entrance::Closed) => true,
            Some(now) => {
                let carriage = now.carriage();
                let were = before.of_port(port).and_then(Entrance::carriage);
                carriage.is_some() && carriage == were && !self.is_described(now, number)
            }
        }
    }

    /// Whether there is a vPDP of this number among those whose descriptions are told apart here.
    fn is_described(&self, entrance: &Entrance, number: VpdpId) -> bool {
        match entrance {
            Entrance::Described(port) => self.descriptions.has(*port as usize, number),
            Entrance::Shared(shared) => shared.inlets.at(number.index()).is_some(),
            _ => false,
        }
    }
}

impl Entrance {
    /// How it carries descriptions, if it does.
    fn carriage(&self) -> Option<Carriage> {
        match self {
            Entrance::Described(_) => Some(Carriage::Plain),
            Entrance::Shared(shared) => match shared.sharing {
                Sharing::Described(carriage) => Some(carriage),
                Sharing::Destination(_) | Sharing::Rules => None,
            },
            _ => None,
        }
    }
}

//! Roles of the ports of the program that POF tables become.

use offload::PortRole;
use packet::PortId;

pub(crate) fn pof_role(port: PortId) -> PortRole {
    match port.0 {
        pof::CONTROLLER_PORT => PortRole::Controller,
        pof::WAITING_PORT => PortRole::Nowhere,
        _ => PortRole::Data,
    }
}

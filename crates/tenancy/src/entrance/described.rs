//! Ports whose packets begin with their descriptions: whose each is, and the virtual port that it comes in by.

use packet::{Frame, PortId};

use super::Inlets;
use crate::description::{Description, Draft, number_of};
use crate::root::Slot;
use crate::vpdp::VpdpId;

/// All of these ports, by numbers of their own. What packets of a vPDP need lies side by side: those of one come one behind the other, by any of its ports.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// By the vPDPs' numbers.
    vpdps: Box<[Described]>,
    /// Where their packets go in, by vPDP and then by port; [`NOWHERE`] by ports that it does not have.
    ports: Box<[PortId]>,
    /// Ports of each vPDP there.
    width: usize,
}

/// Of no port.
const NOWHERE: PortId = PortId(u32::MAX);

/// What packets of a vPDP begin with.
#[derive(Clone, Copy, Debug)]
struct Described {
    draft: Draft,
    slot: Slot,
}

/// A vPDP's.
#[derive(Clone, Copy)]
pub(super) struct Own<'d> {
    draft: Draft,
    pub(super) slot: Slot,
    ports: &'d [PortId],
}

impl Descriptions {
    /// Of ports that lead there, by the vPDPs' numbers.
    pub(super) fn new(inlets: &[Inlets]) -> Descriptions {
        let numbers = inlets.iter().map(|inlets| inlets.0.len()).max();
        let (mut vpdps, mut ports) = (Vec::new(), Vec::new());
        for number in 0..numbers.unwrap_or(0) {
            let own = || inlets.iter().map(|inlets| inlets.at(number));
            let slot = own().flatten().map(|inlet| inlet.slot).next();
            let vpdp = u16::try_from(number).ok().and_then(VpdpId::new);
            vpdps.push(Described {
                draft: vpdp
                    .filter(|_| slot.is_some())
                    .map_or(Draft::nobody(), Draft::of),
                slot: slot.unwrap_or(Slot::NONE),
            });
            ports.extend(own().map(|inlet| inlet.map_or(NOWHERE, |inlet| inlet.port)));
        }
        Descriptions {
            vpdps: vpdps.into(),
            ports: ports.into(),
            width: inlets.len(),
        }
    }

    /// The vPDP whose description this frame begins with, and where it goes in that came by this port, if it does.
    #[inline(always)]
    pub(super) fn find(&self, port: usize, frame: &Frame) -> Option<(Own<'_>, PortId)> {
        let number = number_of(frame.bytes())?;
        let &Described { draft, slot } = self.vpdps.get(number)?;
        let ports = self.ports.get(number * self.width..)?.get(..self.width)?;
        let own = Own { draft, slot, ports };
        Some((own, own.port(port, frame)?))
    }
}

impl Own<'_> {
    /// Where this frame goes in that came by this port, if its description is this one's.
    #[inline(always)]
    pub(super) fn port(&self, port: usize, frame: &Frame) -> Option<PortId> {
        let port = *self.ports.get(port)?;
        (port != NOWHERE && self.draft.describes(frame.bytes())).then_some(port)
    }
}

/// Takes a description off that was found.
#[inline(always)]
pub(super) fn take_off(frame: &mut Frame) {
    let taken_off = frame.pull_front(Description::BYTES);
    debug_assert!(taken_off.is_ok());
}

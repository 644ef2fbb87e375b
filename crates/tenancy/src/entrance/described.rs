//! Ports whose packets begin with their descriptions: whose each is, and the virtual port that it comes in by.

use packet::{Frame, PortId};

use super::Inlets;
use crate::description::{Description, Draft, number_of};
use crate::root::Slot;
use crate::vpdp::VpdpId;

/// All of these ports, by numbers of their own. The virtual ports of a vPDP lie side by side: packets of one come one behind the other, by any of its ports.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// By the vPDPs' numbers.
    vpdps: Box<[Described]>,
    /// The virtual ports by which their packets go in, by vPDP and then by port; [`NOWHERE`] by ports that the vPDP does not have.
    inlets: Box<[PortId]>,
    /// How many ports there are.
    width: usize,
}

/// No virtual port: those are far fewer.
const NOWHERE: PortId = PortId(u32::MAX);

/// What packets of a vPDP begin with.
#[derive(Clone, Copy, Debug)]
struct Described {
    draft: Draft,
    slot: Slot,
}

/// What is known of the packets of one vPDP.
#[derive(Clone, Copy)]
pub(super) struct Own<'d> {
    draft: Draft,
    pub(super) slot: Slot,
    inlets: &'d [PortId],
}

impl Descriptions {
    /// Of ports that lead there, by the vPDPs' numbers.
    pub(super) fn new(ports: &[Inlets]) -> Descriptions {
        let (vpdps, width) = (ports.iter().map(|own| own.0.len()).max(), ports.len());
        let nobody = |number| Described {
            // Number 0 is no vPDP's, which goes in nowhere.
            draft: VpdpId::new(number).map_or(Draft::nobody(), Draft::of),
            slot: Slot::NONE,
        };
        let mut vpdps: Box<[_]> = (0..).take(vpdps.unwrap_or(0)).map(nobody).collect();
        let mut inlets = vec![NOWHERE; vpdps.len() * width];
        for (port, own) in ports.iter().enumerate() {
            for (number, inlet) in own.0.iter().enumerate() {
                if inlet.slot != Slot::NONE {
                    vpdps[number].slot = inlet.slot;
                    inlets[number * width + port] = inlet.port;
                }
            }
        }
        Descriptions {
            vpdps,
            inlets: inlets.into(),
            width,
        }
    }

    /// Whether a vPDP of this number has the port.
    pub(super) fn has(&self, port: usize, number: VpdpId) -> bool {
        let inlet = self.inlets.get(number.index() * self.width + port);
        inlet.is_some_and(|inlet| *inlet != NOWHERE)
    }

    /// The vPDP whose description these bytes begin with, and the virtual port by which they go in that came by this port, if they do.
    #[inline(always)]
    pub(super) fn find(&self, port: usize, bytes: &[u8]) -> Option<(Own<'_>, PortId)> {
        let number = number_of(bytes)?;
        let &Described { draft, slot } = self.vpdps.get(number)?;
        let inlets = self.inlets.get(number * self.width..)?.get(..self.width)?;
        let own = Own {
            draft,
            slot,
            inlets,
        };
        Some((own, own.port(port, bytes)?))
    }
}

impl Own<'_> {
    /// The virtual port by which these bytes go in that came by this port, if they begin with this vPDP's description.
    #[inline(always)]
    pub(super) fn port(&self, port: usize, bytes: &[u8]) -> Option<PortId> {
        let inlet = *self.inlets.get(port)?;
        (inlet != NOWHERE && self.draft.describes(bytes)).then_some(inlet)
    }
}

/// Takes a description off that was found.
#[inline(always)]
pub(super) fn take_off(frame: &mut Frame) {
    let taken_off = frame.pull_front(Description::BYTES);
    debug_assert!(taken_off.is_ok());
}

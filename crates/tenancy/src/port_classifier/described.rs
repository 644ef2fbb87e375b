//! Ingress ports shared by description header: maps the header to a tenant and a virtual port.

use packet::{Frame, PortId};

use super::Inlets;
use crate::description::{Description, Draft, number_of};
use crate::snapshot::VpdpIndex;
use crate::vpdp::VpdpId;

/// Lookup table of all ports shared by description header; ports have dense indices here. The
/// virtual ports of one vPDP are stored side by side, because packets of one vPDP often arrive
/// consecutively from several of its ports.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// Indexed by vPDP number.
    vpdps: Box<[Described]>,
    /// Virtual ports, by vPDP and then by port; [`NOWHERE`] for ports that the vPDP does not have.
    inlets: Box<[PortId]>,
    /// Number of ports, the row length of `inlets`.
    width: usize,
}

/// Marks a missing virtual port. Port numbers are far smaller.
const NOWHERE: PortId = PortId(u32::MAX);

/// Expected description header of a vPDP's packets, and its tenant index.
#[derive(Clone, Copy, Debug)]
struct Described {
    draft: Draft,
    slot: VpdpIndex,
}

/// Lookup result: the entries of one vPDP.
#[derive(Clone, Copy)]
pub(super) struct Own<'d> {
    draft: Draft,
    pub(super) slot: VpdpIndex,
    inlets: &'d [PortId],
}

impl Descriptions {
    /// Builds the table from the ingress targets of each port, which are indexed by vPDP number.
    pub(super) fn new(ports: &[Inlets]) -> Descriptions {
        let (vpdps, width) = (ports.iter().map(|own| own.0.len()).max(), ports.len());
        let nobody = |number| Described {
            // Number 0 is not a valid vPDP: its packets have no target.
            draft: VpdpId::new(number).map_or(Draft::nobody(), Draft::of),
            slot: VpdpIndex::NONE,
        };
        let mut vpdps: Box<[_]> = (0..).take(vpdps.unwrap_or(0)).map(nobody).collect();
        let mut inlets = vec![NOWHERE; vpdps.len() * width];
        for (port, own) in ports.iter().enumerate() {
            for (number, inlet) in own.0.iter().enumerate() {
                if inlet.slot != VpdpIndex::NONE {
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

    /// Returns true if the vPDP of this number has the port.
    pub(super) fn has(&self, port: usize, number: VpdpId) -> bool {
        let inlet = self.inlets.get(number.index() * self.width + port);
        inlet.is_some_and(|inlet| *inlet != NOWHERE)
    }

    /// Looks up the description header at the start of `bytes`: the vPDP, and its virtual port for
    /// the ingress port `port`.
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
    /// Returns the virtual port for ingress port `port`, if `bytes` start with this vPDP's
    /// description header.
    #[inline(always)]
    pub(super) fn port(&self, port: usize, bytes: &[u8]) -> Option<PortId> {
        let inlet = *self.inlets.get(port)?;
        (inlet != NOWHERE && self.draft.describes(bytes)).then_some(inlet)
    }
}

/// Removes a description header that was matched.
#[inline(always)]
pub(super) fn take_off(frame: &mut Frame) {
    let taken_off = frame.pull_front(Description::BYTES);
    debug_assert!(taken_off.is_ok());
}

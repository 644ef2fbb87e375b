//! Identifiers: vPDP numbers, virtual ports, and connections of virtual ports.

use std::fmt;

use packet::PortId;

/// Number of a virtual data plane: 1 to 4095, the range of the 12-bit field in a description
/// header or a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VpdpId(u16);

impl VpdpId {
    /// Largest number.
    pub const MAX: u16 = 4095;

    /// Returns the identifier of this number, or `None` if it is out of range.
    #[inline]
    pub fn new(number: u16) -> Option<VpdpId> {
        (1..=VpdpId::MAX)
            .contains(&number)
            .then_some(VpdpId(number))
    }

    /// Returns the number.
    #[inline]
    pub fn get(self) -> u16 {
        self.0
    }

    /// Returns all valid numbers.
    pub(crate) fn all() -> impl Iterator<Item = VpdpId> {
        (1..=VpdpId::MAX).map(VpdpId)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for VpdpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Port of a virtual data plane, with the number that its program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPort {
    /// The vPDP that has the port.
    pub vpdp: VpdpId,
    /// Port number in that vPDP.
    pub port: u32,
}

impl fmt::Display for VirtualPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of vPDP {}", self.port, self.vpdp)
    }
}

/// Connection of a virtual port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// Not connected: packets sent here are dropped.
    #[default]
    Open,
    /// A physical port.
    Physical(PortId),
    /// A virtual port, possibly of the same vPDP: packets sent here are received there.
    Link(VirtualPort),
}

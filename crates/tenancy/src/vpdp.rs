//! Names: of virtual data planes, of their ports, of what their ports are connected to.

use std::fmt;

use packet::PortId;

/// The number of a virtual data plane: 1 to 4095, as a description header and a MAC address can carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VpdpId(u16);

impl VpdpId {
    /// The greatest number.
    pub const MAX: u16 = 4095;

    /// The vPDP of this number, if there can be one.
    #[inline]
    pub fn new(number: u16) -> Option<VpdpId> {
        (1..=VpdpId::MAX)
            .contains(&number)
            .then_some(VpdpId(number))
    }

    /// The number.
    #[inline]
    pub fn get(self) -> u16 {
        self.0
    }

    /// All numbers.
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

/// A port of a virtual data plane: the number that its program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPort {
    /// Whose it is.
    pub vpdp: VpdpId,
    /// Its number there.
    pub port: u32,
}

impl fmt::Display for VirtualPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of vPDP {}", self.port, self.vpdp)
    }
}

/// What a virtual port is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// Nothing: what leaves here is dropped.
    #[default]
    Open,
    /// A port of the switch.
    Physical(PortId),
    /// A port of a virtual data plane, perhaps the same one: what leaves here comes in there.
    Link(VirtualPort),
}

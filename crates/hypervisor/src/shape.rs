//! How large an emitted hypervisor is, and how many tables and bits it declares.

/// Bits of a packet's headers that the general parser reads (figure 8).
pub const HEADER_BITS: u32 = 800;
/// Bits of a function's own metadata (figure 8).
pub const USER_BITS: u32 = 256;
/// Bits of the file in which a function's headers and metadata live.
pub const FILE_BITS: u32 = HEADER_BITS + USER_BITS;
/// Bits of an operand of a primitive.
pub const WORD_BITS: u32 = 256;
/// Primitives that a stage performs: tables of a slot's action pipeline.
pub const STEPS: usize = 8;

/// Cells of the shared register.
pub(crate) const REGISTER_CELLS: u32 = 262_144;
/// Cells of the shared counters and meters.
pub(crate) const CELLS: u32 = 65_536;

/// Tables of a slot's condition binding pipeline.
const CONDITION_TABLES: u32 = 3;
/// Tables of a slot's match pipeline.
const MATCH_TABLES: u32 = 4;
/// The table of a slot that links stages which neither ask nor match.
const LINK_TABLES: u32 = 1;
/// Which vPDP and program a packet belongs to; how it is parsed and where it begins.
const CONFIGURATION_TABLES: u32 = 2;

/// How many slots an emitted hypervisor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// In the ingress, from which a packet may be resubmitted.
    pub ingress: u32,
    /// In the egress.
    pub egress: u32,
}

impl Shape {
    /// So many slots in all, a quarter of them in the egress.
    pub fn of(slots: u32) -> Shape {
        let egress = slots / 4;
        Shape {
            ingress: slots - egress,
            egress,
        }
    }

    /// Tables that the emitted program declares (figure 7).
    pub fn tables(self) -> u32 {
        let slot = CONDITION_TABLES + MATCH_TABLES + LINK_TABLES + STEPS as u32;
        CONFIGURATION_TABLES + slot * (self.ingress + self.egress)
    }
}

//! Size of an emitted hypervisor, and the numbers of its tables and bits.

/// Number of header bits that the general parser reads (figure 8 of the paper).
pub const HEADER_BITS: u32 = 800;
/// Number of bits of a function's own metadata (figure 8).
pub const USER_BITS: u32 = 256;
/// Number of bits of the register file, which holds a function's headers and metadata.
pub const FILE_BITS: u32 = HEADER_BITS + USER_BITS;
/// Number of bits of a primitive's operand.
pub const WORD_BITS: u32 = 256;
/// Number of primitives in a stage: the tables of a slot's action pipeline.
pub const STEPS: usize = 8;

/// Number of cells of the shared register.
pub(crate) const REGISTER_CELLS: u32 = 262_144;
/// Number of cells of the shared counters and meters.
pub(crate) const CELLS: u32 = 65_536;

/// Number of tables of a slot's condition binding pipeline.
const CONDITION_TABLES: u32 = 3;
/// Number of tables of a slot's match pipeline.
const MATCH_TABLES: u32 = 4;
/// The table of a slot that links stages without a condition or match.
const LINK_TABLES: u32 = 1;
/// Tables that determine the vPDP and program of a packet, how it is parsed, and its first stage.
const CONFIGURATION_TABLES: u32 = 2;

/// Numbers of slots of an emitted hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots in ingress, from which a packet may be resubmitted.
    pub ingress: u32,
    /// Slots in egress.
    pub egress: u32,
}

impl Shape {
    /// Returns the shape with this total number of slots, a quarter of them in egress.
    pub fn of(slots: u32) -> Shape {
        let egress = slots / 4;
        Shape {
            ingress: slots - egress,
            egress,
        }
    }

    /// Returns the number of tables that the emitted program declares (figure 7).
    pub fn tables(self) -> u32 {
        let slot = CONDITION_TABLES + MATCH_TABLES + LINK_TABLES + STEPS as u32;
        CONFIGURATION_TABLES + slot * (self.ingress + self.egress)
    }
}

/// Returns the paper's number of tables (figure 7(b), 1 to 8 slots): 24 per slot and 5 more
/// (figure 6).
pub fn tables_in_paper(slots: u32) -> u32 {
    24 * slots + 5
}

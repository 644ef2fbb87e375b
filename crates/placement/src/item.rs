//! Items, planes and moves: the input and the output of all placements.

use std::fmt;

/// Index of an entry of one table. Small numbers: arrays are indexed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u32);

impl ItemId {
    /// Returns the index of the item in an array.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Packets of one item in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The item.
    pub item: ItemId,
    /// Number of packets.
    pub packets: u64,
}

/// Place of entries with a capacity, and the costs of moves into it and out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Sum of the sizes of entries that the plane holds at most.
    pub capacity: u64,
    /// Packets in a window that a newcomer must have to be worth its installation.
    pub install_cost: u64,
    /// Packets in a window that an installed entry gains because its eviction costs time.
    pub evict_cost: u64,
}

impl Plane {
    /// Creates a plane of which moves cost nothing.
    pub const fn new(capacity: u64) -> Plane {
        Plane {
            capacity,
            install_cost: 0,
            evict_cost: 0,
        }
    }

    /// Returns the weight of an item of this many packets in a window. An item on the plane is
    /// worth more by the margin and the cost of its eviction, and another one less by the cost
    /// of its installation.
    pub fn weight(&self, packets: f64, is_held: bool, margin: f64) -> f64 {
        if is_held {
            packets * (1.0 + margin) + self.evict_cost as f64
        } else {
            packets - self.install_cost as f64
        }
    }
}

/// Change of one entry of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Writes the entry. It replaces a cover of the same key.
    Install(ItemId),
    /// Writes a cover: an entry with the same key that sends packets to a server. It replaces the
    /// entry.
    Cover(ItemId),
    /// Deletes the entry or the cover.
    Evict(ItemId),
}

/// Moves at the end of a window, and the state of the threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Moves, in the order in which they are applied.
    pub moves: Vec<Move>,
    /// Flows above this number of packets are reported in the next window. `u64::MAX`: no flow.
    pub threshold: u64,
    /// Factor of the threshold.
    pub k: f64,
    /// Items above the threshold of this window: reported ones, and installed ones by the counts
    /// of their entries. The number by which `k` is adjusted.
    pub candidates: u64,
    /// Cause of a placement worse than it could be.
    pub warning: Option<Warning>,
}

/// Cause of a placement that is right but worse than it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The sketch has fewer columns than there are flows.
    FewColumns {
        /// Columns of the sketch.
        columns: u32,
        /// Flows in the window.
        flows: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Warning::FewColumns { columns, flows } => {
                let enough = flows.checked_next_power_of_two().unwrap_or(flows);
                write!(
                    f,
                    "the sketch has {columns} columns for {flows} flows, so small flows look \
                     large and take the place of large ones: use at least {enough} columns"
                )
            }
        }
    }
}

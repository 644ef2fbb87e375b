//! Updates of a device's configuration from entries files and STF tests, with the program's ids.

use bits::Value;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId, ValueSetId};

/// An update.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Adds an entry.
    Insert(TableId, TableEntry),
    /// Sets the default action.
    SetDefault(TableId, ActionCall),
    /// Adds or replaces a member of an action profile or selector.
    Member {
        /// The profile or selector.
        profile: ExternId,
        /// The member's id.
        id: u32,
        /// Its action.
        action: ActionId,
        /// Values of the action's parameters.
        args: Vec<Value>,
    },
    /// Adds or replaces a group of a selector.
    Group {
        /// The selector.
        profile: ExternId,
        /// The group's id.
        id: u32,
        /// Its members.
        members: Vec<GroupMember>,
        /// Maximum number of members that the group will have; 0 if not specified.
        max_size: u32,
    },
    /// Adds or replaces a multicast group.
    Multicast {
        /// The group's id.
        id: u32,
        /// Its copies.
        replicas: Vec<Replica>,
    },
    /// Adds or replaces a clone session.
    Clone(CloneSession),
    /// Writes one cell of a register, or all cells without an index.
    Register {
        /// The register.
        register: ExternId,
        /// The cell.
        index: Option<u32>,
        /// One value for each scalar of the cell.
        values: Vec<Value>,
    },
    /// Sets the rates of one meter, or of all without an index.
    Meter {
        /// The meter.
        meter: ExternId,
        /// The cell.
        index: Option<u32>,
        /// The rates.
        config: MeterConfig,
    },
    /// Writes a counter.
    Counter {
        /// The counter.
        counter: ExternId,
        /// The cell.
        index: u32,
        /// Its new value.
        value: CounterValue,
    },
    /// Sets the timeout of entries that packets add with this expire-time profile; `None` means
    /// that they do not expire.
    ExpireProfile {
        /// The profile.
        profile: u8,
        /// The timeout in nanoseconds.
        timeout_ns: Option<u64>,
    },
    /// Configures a port's queue.
    Queue(QueueSetting),
    /// Sets parameters of `crc16_custom` (`bits` is 16) or `crc32_custom` (32). Parameters that are
    /// not given are not changed.
    HashCrc {
        /// The CRC.
        bits: u32,
        /// Its parameters.
        crc: CrcSetting,
    },
    /// Sets the key of Toeplitz hashes.
    HashKey(Vec<u8>),
    /// Sets the seed of the device's hashes.
    HashSeed(u32),
    /// Sets the host ports (PNA).
    HostPorts(Vec<u32>),
    /// Replaces the members of a value set.
    ValueSet {
        /// The value set.
        value_set: ValueSetId,
        /// Its members.
        members: Vec<ValueSetMember>,
    },
}

impl Update {
    /// Returns true if this is a setting of the device: P4Runtime has no message for it.
    pub fn is_setting(&self) -> bool {
        matches!(
            self,
            Update::ExpireProfile { .. }
                | Update::Queue(_)
                | Update::HashCrc { .. }
                | Update::HashKey(_)
                | Update::HashSeed(_)
                | Update::HostPorts(_)
        )
    }

    /// Returns the object to remove in order to undo this update; `None` if the update only changes
    /// an object.
    pub fn target(&self) -> Option<UpdateTarget> {
        match self {
            Update::Insert(table, entry) => Some(UpdateTarget::Entry {
                table: *table,
                keys: entry.keys.clone(),
                priority: entry.priority,
            }),
            Update::Member { profile, id, .. } => Some(UpdateTarget::Member {
                profile: *profile,
                id: *id,
            }),
            Update::Group { profile, id, .. } => Some(UpdateTarget::Group {
                profile: *profile,
                id: *id,
            }),
            Update::Multicast { id, .. } => Some(UpdateTarget::Multicast(*id)),
            Update::Clone(session) => Some(UpdateTarget::Clone(session.id)),
            Update::SetDefault(..)
            | Update::Register { .. }
            | Update::Meter { .. }
            | Update::Counter { .. }
            | Update::ExpireProfile { .. }
            | Update::Queue(_)
            | Update::HashCrc { .. }
            | Update::HashKey(_)
            | Update::HashSeed(_)
            | Update::HostPorts(_)
            | Update::ValueSet { .. } => None,
        }
    }
}

/// An object that can be removed.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateTarget {
    /// An entry.
    Entry {
        /// Its table.
        table: TableId,
        /// One match for each key that is not a selector.
        keys: Vec<KeyMatch>,
        /// Its priority. Present if the key has ternary, range or optional elements.
        priority: Option<i32>,
    },
    /// The default action; removing it restores the program's own.
    Default(TableId),
    /// A member of an action profile or selector.
    Member {
        /// The profile or selector.
        profile: ExternId,
        /// The member's id.
        id: u32,
    },
    /// A group of a selector.
    Group {
        /// The selector.
        profile: ExternId,
        /// The group's id.
        id: u32,
    },
    /// A multicast group.
    Multicast(u32),
    /// A clone session.
    Clone(u32),
}

/// A table entry.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    /// One match for each key that is not a selector.
    pub keys: Vec<KeyMatch>,
    /// Its priority. Present if the key has ternary, range or optional elements.
    pub priority: Option<i32>,
    /// Its action.
    pub action: EntryAction,
    /// Time without a hit after which the control plane is notified, in nanoseconds.
    pub idle_timeout_ns: Option<u64>,
    /// The rates of its direct meter.
    pub meter: Option<MeterConfig>,
    /// The value of its direct counter.
    pub counter: Option<CounterValue>,
}

/// The action of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryAction {
    /// Calls an action.
    Call(ActionCall),
    /// Uses a member of the table's action profile.
    Member(u32),
    /// Uses a group of the table's selector.
    Group(u32),
    /// A one-shot action set: actions with weights.
    OneShot(Vec<(ActionCall, u32)>),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id.
    pub member: u32,
    /// Relative probability of being selected, at least 1.
    pub weight: u32,
}

/// A copy of a packet: its egress port and instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The port.
    pub port: u32,
    /// The instance (`egress_rid`).
    pub instance: u32,
}

/// A clone session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneSession {
    /// Its id.
    pub id: u32,
    /// The copies.
    pub replicas: Vec<Replica>,
    /// Maximum number of bytes of a clone; `None` keeps all.
    pub truncate: Option<u32>,
    /// Class of service of the clones.
    pub class_of_service: u32,
}

/// Rates of a meter, in bytes or packets per second, and bursts in bytes or packets. Two
/// configurations are equal if they mark all packets alike.
#[derive(Clone, Copy, Debug, Eq)]
pub struct MeterConfig {
    /// Committed information rate.
    pub cir: u64,
    /// Committed burst.
    pub cburst: u64,
    /// Peak information rate.
    pub pir: u64,
    /// Peak burst.
    pub pburst: u64,
    /// For a meter of a single rate, the excess burst, 0 for a meter of two colours. Its peak rate
    /// and burst are the committed ones. `None` for two rates.
    pub eburst: Option<u64>,
}

impl MeterConfig {
    /// Returns the configuration of a meter of a single rate.
    pub fn single_rate(cir: u64, cburst: u64, eburst: u64) -> MeterConfig {
        MeterConfig {
            cir,
            cburst,
            pir: cir,
            pburst: cburst,
            eburst: Some(eburst),
        }
    }

    /// Returns the numbers of P4Runtime's message: rates and bursts, and the excess burst.
    fn numbers(&self) -> [u64; 5] {
        let eburst = self.eburst.unwrap_or(0);
        [self.cir, self.cburst, self.pir, self.pburst, eburst]
    }
}

impl PartialEq for MeterConfig {
    fn eq(&self, other: &MeterConfig) -> bool {
        self.numbers() == other.numbers()
    }
}

/// Number of priorities of which the queues can have settings of their own.
pub const QUEUE_PRIORITIES: u8 = 8;

/// Queue settings of a port, or of the queue of one priority within those. Values that are not
/// given are the defaults: no rate limit, and space for 64 packets or for as many as the port's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSetting {
    /// The port.
    pub port: u32,
    /// The priority, below [`QUEUE_PRIORITIES`].
    pub priority: Option<u8>,
    /// Rate limit in packets per second.
    pub packets_per_second: Option<u64>,
    /// Rate limit in bits per second.
    pub bits_per_second: Option<u64>,
    /// Maximum number of packets in the queue of one priority.
    pub depth: Option<u32>,
}

/// Parameters to set of a CRC (Rocksoft model).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrcSetting {
    /// The polynomial, without its top bit.
    pub polynomial: Option<u32>,
    /// The initial value of the remainder.
    pub initial: Option<u32>,
    /// Value that is XORed with the result.
    pub final_xor: Option<u32>,
    /// True if each byte is processed least significant bit first.
    pub reflect_in: Option<bool>,
    /// True if the result is reversed.
    pub reflect_out: Option<bool>,
}

/// Value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A member of a value set: one match for each of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSetMember {
    /// The matches.
    pub fields: Vec<KeyMatch>,
}

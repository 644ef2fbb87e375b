//! What entries files and STF tests ask of a device, by the program's ids.

use bits::Value;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId, ValueSetId};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Adds an entry.
    Insert(TableId, TableEntry),
    /// Changes the default action; `None` restores the program's own.
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
        /// The most members that it will have; 0 leaves it open.
        max_size: u32,
    },
    /// Adds or replaces a multicast group.
    Multicast {
        /// The group's id.
        id: u32,
        /// Its copies.
        replicas: Vec<Replica>,
    },
    /// Adds or replaces a clone (mirror) session.
    Clone(CloneSession),
    /// Writes cells of a register: one, or all without an index.
    Register {
        /// The register.
        register: ExternId,
        /// Which cell.
        index: Option<u32>,
        /// One value for each scalar of the cell.
        values: Vec<Value>,
    },
    /// Sets the rates of a meter: one, or all without an index.
    Meter {
        /// The meter.
        meter: ExternId,
        /// Which cell.
        index: Option<u32>,
        /// The rates.
        config: MeterConfig,
    },
    /// Writes a counter.
    Counter {
        /// The counter.
        counter: ExternId,
        /// Which cell.
        index: u32,
        /// Its new value.
        value: CounterValue,
    },
    /// Sets after how long an entry that packets add with this profile expires; `None` is never.
    ExpireProfile {
        /// The profile.
        profile: u8,
        /// The time-out in nanoseconds.
        timeout_ns: Option<u64>,
    },
    /// Sets how a port sends.
    Queue(QueueSetting),
    /// Sets parameters of `crc16_custom` (`bits` 16) or `crc32_custom` (32); what is not given
    /// stays.
    HashCrc {
        /// Which CRC.
        bits: u32,
        /// Its parameters.
        crc: CrcSetting,
    },
    /// Sets the key of Toeplitz hashes.
    HashKey(Vec<u8>),
    /// Replaces the members of a value set.
    ValueSet {
        /// The value set.
        value_set: ValueSetId,
        /// Its members.
        members: Vec<ValueSetMember>,
    },
}

impl Update {
    /// What would take away again what this adds; nothing of what it only changes.
    pub fn target(&self) -> Option<Target> {
        match self {
            Update::Insert(table, entry) => Some(Target::Entry {
                table: *table,
                keys: entry.keys.clone(),
                priority: entry.priority,
            }),
            Update::Member { profile, id, .. } => Some(Target::Member {
                profile: *profile,
                id: *id,
            }),
            Update::Group { profile, id, .. } => Some(Target::Group {
                profile: *profile,
                id: *id,
            }),
            Update::Multicast { id, .. } => Some(Target::Multicast(*id)),
            Update::Clone(session) => Some(Target::Clone(session.id)),
            Update::SetDefault(..)
            | Update::Register { .. }
            | Update::Meter { .. }
            | Update::Counter { .. }
            | Update::ExpireProfile { .. }
            | Update::Queue(_)
            | Update::HashCrc { .. }
            | Update::HashKey(_)
            | Update::ValueSet { .. } => None,
        }
    }
}

/// What can be taken away.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// An entry.
    Entry {
        /// Its table.
        table: TableId,
        /// One match for each key that is not a selector.
        keys: Vec<KeyMatch>,
        /// Its priority; there is one where the key has ternary, range or optional elements.
        priority: Option<i32>,
    },
    /// The default action that was set: the program's own is back.
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
    /// Its priority; there is one where the key has ternary, range or optional elements.
    pub priority: Option<i32>,
    /// What it does.
    pub action: EntryAction,
    /// After how long without a hit the control plane is told.
    pub idle_timeout_ns: Option<u64>,
    /// The rates of its direct meter.
    pub meter: Option<MeterConfig>,
    /// The value of its direct counter.
    pub counter: Option<CounterValue>,
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryAction {
    /// Runs an action.
    Call(ActionCall),
    /// Runs a member of the table's action profile.
    Member(u32),
    /// Runs a member of a group of the table's selector.
    Group(u32),
    /// Makes a group of its own: actions and weights.
    OneShot(Vec<(ActionCall, u32)>),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id.
    pub member: u32,
    /// How often it is chosen, relative to the others; at least 1.
    pub weight: u32,
}

/// A copy of a packet: where it goes and which instance it is.
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
    /// Bytes that a clone keeps; all without it.
    pub truncate: Option<u32>,
    /// Class of service of the clones.
    pub class_of_service: u32,
}

/// Rates of a two-rate three-colour meter, in bytes or packets a second, and bursts in bytes or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed information rate.
    pub cir: u64,
    /// Committed burst.
    pub cburst: u64,
    /// Peak information rate.
    pub pir: u64,
    /// Peak burst.
    pub pburst: u64,
}

/// How a port sends. What is not given is as at first: no limit of the rate, room for 64 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSetting {
    /// The port.
    pub port: u32,
    /// Packets a second.
    pub packets_per_second: Option<u64>,
    /// Bits a second.
    pub bits_per_second: Option<u64>,
    /// Packets that one priority's queue holds.
    pub depth: Option<u32>,
}

/// Parameters of a CRC (the Rocksoft model) that are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrcSetting {
    /// The polynomial, without its top bit.
    pub polynomial: Option<u32>,
    /// The first value of the remainder.
    pub initial: Option<u32>,
    /// Exclusive or with the result.
    pub final_xor: Option<u32>,
    /// Whether each byte is taken least significant bit first.
    pub reflect_in: Option<bool>,
    /// Whether the result is reversed.
    pub reflect_out: Option<bool>,
}

/// What a counter has counted.
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

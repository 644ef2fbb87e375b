//! Messages as values.

use super::error::ErrorCode;
use crate::model::*;

/// Command of a FLOW_MOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds an entry.
    Add,
    /// Replaces the entry with this index.
    Modify,
    /// Replaces the instructions of the entry with this match and priority.
    ModifyStrict,
    /// Removes the entry with this index.
    Delete,
    /// Removes the entry with this match and priority.
    DeleteStrict,
    /// Asks for the entry with this index.
    Query,
    /// The answer to a query.
    QueryResult,
}

/// Command of a TABLE_MOD, GROUP_MOD or METER_MOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes the object.
    Add,
    /// Changes it.
    Modify,
    /// Removes it.
    Delete,
    /// Asks for it.
    Query,
    /// The answer to a query.
    QueryResult,
}

/// Command of a counter message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterCommand {
    /// Makes the counter.
    Add,
    /// Removes it.
    Delete,
    /// Sets it to zero.
    Clear,
    /// Asks for it.
    Query,
    /// The answer to a query.
    QueryResult,
}

/// FLOW_MOD: an entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The command.
    pub command: FlowCommand,
    /// Counter of the entry's packets; 0 for none.
    pub counter: u32,
    /// A number of the controller.
    pub cookie: u64,
    /// Bits of the cookie by which entries are selected.
    pub cookie_mask: u64,
    /// Number of the table among those of its type.
    pub table: u8,
    /// The table's type.
    pub table_type: TableType,
    /// Seconds without a packet after which the entry goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which the entry goes; 0 for never.
    pub hard_timeout: u16,
    /// Priority in a table of type MM.
    pub priority: u16,
    /// Number of the entry in its table.
    pub index: u32,
    /// Slot of the switch.
    pub slot: u16,
    /// The match, one for each field of the table.
    pub matches: Vec<Match>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
}

/// TABLE_MOD: a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The command.
    pub command: Command,
    /// Number of the table among those of its type.
    pub id: u8,
    /// Its type.
    pub table_type: TableType,
    /// Maximum number of entries.
    pub size: u32,
    /// Width of all fields together.
    pub key_length: u16,
    /// Slot of the switch.
    pub slot: u16,
    /// Its name.
    pub name: ObjectName,
    /// Its match fields.
    pub fields: Vec<Field>,
}

/// GROUP_MOD: a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// The command.
    pub command: Command,
    /// Its type.
    pub group_type: GroupType,
    /// Its number.
    pub id: u32,
    /// Counter of its packets; 0 for none.
    pub counter: u32,
    /// Slot of the switch.
    pub slot: u16,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// METER_MOD: a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// The command.
    pub command: Command,
    /// Slot of the switch.
    pub slot: u16,
    /// Its number.
    pub id: u32,
    /// Its rate in kbit/s; 0 for no limit.
    pub rate: u32,
}

/// COUNTER_MOD, COUNTER_REQUEST or COUNTER_REPLY: a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The command.
    pub command: CounterCommand,
    /// Slot of the switch.
    pub slot: u16,
    /// Its number.
    pub id: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Port of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its slot.
    pub slot: u16,
    /// Its number.
    pub id: u16,
    /// The switch.
    pub device: u32,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// Its name.
    pub name: ObjectName,
    /// Configuration: bit 0 down, 2 receives nothing, 5 sends nothing, 6 no packet-ins.
    pub config: u32,
    /// State: bit 0 no link, 1 blocked, 2 live.
    pub state: u32,
    /// Features that it uses.
    pub current: u32,
    /// Features that it advertises.
    pub advertised: u32,
    /// Features that it has.
    pub supported: u32,
    /// Features that its peer advertises.
    pub peer: u32,
    /// Its speed in kbit/s.
    pub current_speed: u32,
    /// Its largest speed in kbit/s.
    pub maximum_speed: u32,
    /// True if its packets run through the tables.
    pub is_enabled: bool,
}

/// PORT_STATUS or PORT_MOD: a port, and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// 0 added, 1 deleted, 2 modified.
    pub reason: u8,
    /// The port.
    pub port: Port,
}

/// FEATURES_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Number of the switch.
    pub device: u32,
    /// Slot of the switch.
    pub slot: u16,
    /// Number of ports.
    pub ports: u16,
    /// Maximum number of tables.
    pub tables: u16,
    /// Bits of what it can: 0 flow, 1 table, 2 port, 3 group statistics.
    pub capabilities: u32,
    /// The vendor.
    pub vendor: ObjectName,
    /// Its forwarding engine.
    pub forwarding_engine: ObjectName,
    /// Its lookup engine.
    pub lookup_engine: ObjectName,
}

/// SET_CONFIG and GET_CONFIG_REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Number of the switch.
    pub device: u32,
    /// Treatment of fragments; only 0, none, has a meaning here.
    pub flags: u16,
    /// Maximum number of bytes of a packet-in.
    pub miss_send_length: u16,
}

/// Tables of one type that the switch can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableResource {
    /// Number of the switch.
    pub device: u32,
    /// The type.
    pub table_type: TableType,
    /// Maximum number of tables.
    pub tables: u8,
    /// Maximum width of a key in bits.
    pub key_length: u16,
    /// Maximum number of entries of a table.
    pub size: u32,
}

/// RESOURCE_REPORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceReport {
    /// Kind of report; 0 is the only one.
    pub kind: u8,
    /// Slot of the switch.
    pub slot: u16,
    /// Number of counters.
    pub counters: u32,
    /// Number of meters.
    pub meters: u32,
    /// Number of groups.
    pub groups: u32,
    /// Tables of each type.
    pub tables: [TableResource; 4],
}

/// PACKET_IN: a packet for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Its buffer; [`NO_BUFFER`] for none.
    pub buffer: u32,
    /// Length of the packet, of which `data` may be a part.
    pub length: u16,
    /// 0 no entry matched, 1 and above: an action.
    pub reason: u8,
    /// Number of the table among those of all types.
    pub table: u8,
    /// Cookie of the entry.
    pub cookie: u64,
    /// Number of the switch.
    pub device: u32,
    /// Slot of the switch.
    pub slot: u16,
    /// The port at which the packet came in.
    pub port: u16,
    /// The packet.
    pub data: Vec<u8>,
}

/// Number of no buffer.
pub const NO_BUFFER: u32 = 0xFFFF_FFFF;

/// PACKET_OUT: a packet that the switch sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Its buffer; [`NO_BUFFER`] if `data` has the packet.
    pub buffer: u32,
    /// The ingress port that it is treated as coming from.
    pub in_port: u32,
    /// The actions.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Vec<u8>,
}

/// FLOW_REMOVED: an entry has gone. OpenFlow 1.3's message with the match fields of POF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Cookie of the entry.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// 0 idle, 1 hard time-out, 2 deleted.
    pub reason: u8,
    /// Number of the table among those of all types.
    pub table: u8,
    /// Seconds for which it existed.
    pub seconds: u32,
    /// Nanoseconds beyond.
    pub nanoseconds: u32,
    /// Its idle time-out.
    pub idle_timeout: u16,
    /// Its hard time-out.
    pub hard_timeout: u16,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its match.
    pub matches: Vec<Match>,
}

/// ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The type.
    pub kind: u16,
    /// The code.
    pub code: u16,
    /// Number of the switch.
    pub device: u32,
    /// Slot of the switch.
    pub slot: u16,
    /// The text: at most 255 bytes.
    pub text: String,
}

impl ErrorMessage {
    /// Number of bytes of the text with its end.
    pub const TEXT_BYTES: usize = 256;

    /// Creates a message from a code and a text.
    pub fn new(code: ErrorCode, device: u32, text: &str) -> ErrorMessage {
        let longest = ErrorMessage::TEXT_BYTES - 1;
        let end = (0..=longest.min(text.len())).rev();
        let end = end.into_iter().find(|end| text.is_char_boundary(*end));
        ErrorMessage {
            kind: code.kind(),
            code: code.code(),
            device,
            slot: 0,
            text: text[..end.unwrap_or(0)].replace('\0', " "),
        }
    }
}

/// Role of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The role that it has is asked for.
    NoChange,
    /// Full access, beside others.
    Equal,
    /// Full access; the others are slaves.
    Master,
    /// Reads only.
    Slave,
}

/// ROLE_REQUEST and ROLE_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    /// The role.
    pub role: Role,
    /// Number that orders changes.
    pub generation: u64,
}

/// MULTIPART_REQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsRequest {
    /// Entries, of one table or of all ([`StatsRequest::ALL`]), with a cookie.
    Flows {
        /// Number of the table among those of all types.
        table: u8,
        /// The cookie.
        cookie: u64,
        /// The bits of it that count.
        cookie_mask: u64,
    },
    /// Tables.
    Tables,
    /// A port, or all ([`port::ANY`]).
    Ports(u32),
    /// A group, or all.
    Groups(u32),
    /// A meter, or all.
    Meters(u32),
}

impl StatsRequest {
    /// Number of all tables.
    pub const ALL: u8 = 0xFF;
    /// Number of all ports, groups or meters.
    pub const ANY: u32 = 0xFFFF_FFFF;
}

/// MULTIPART_REPLY: one part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReply {
    /// True if more parts follow.
    pub has_more: bool,
    /// The statistics.
    pub stats: Stats,
}

/// Statistics of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stats {
    /// Of entries.
    Flows(Vec<FlowStats>),
    /// Of tables.
    Tables(Vec<TableStats>),
    /// Of ports.
    Ports(Vec<PortStats>),
    /// Of groups.
    Groups(Vec<GroupStats>),
    /// Of meters.
    Meters(Vec<MeterStats>),
}

/// Statistics of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Seconds for which it exists.
    pub seconds: u32,
    /// Nanoseconds beyond.
    pub nanoseconds: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The entry, as the answer to a query.
    pub flow: FlowMod,
}

/// Statistics of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Number of the table among those of all types.
    pub table: u8,
    /// Number of entries.
    pub entries: u32,
    /// Packets that it looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
}

/// Statistics of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// The port.
    pub port: u32,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Statistics of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub group: u32,
    /// Entries that use it.
    pub users: u32,
    /// Packets, if it has a counter.
    pub packets: u64,
    /// Bytes, if it has a counter.
    pub bytes: u64,
}

/// Statistics of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub meter: u32,
    /// Entries that use it.
    pub users: u32,
    /// Its rate in kbit/s.
    pub rate: u32,
}

/// A message with the number that pairs requests and replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number.
    pub xid: u32,
    /// The content.
    pub body: Body,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each variant is the protocol's message of that name"
)]
pub enum Body {
    Hello,
    Error(ErrorMessage),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    /// The number of the experimenter and its data.
    Experimenter(u32, Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(Config),
    SetConfig(Config),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    ResourceReport(ResourceReport),
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortStatus),
    TableMod(TableMod),
    MultipartRequest(StatsRequest),
    MultipartReply(StatsReply),
    BarrierRequest,
    BarrierReply,
    RoleRequest(RoleChange),
    RoleReply(RoleChange),
    MeterMod(MeterMod),
    CounterMod(Counter),
    CounterRequest(Counter),
    CounterReply(Counter),
    /// The slot, or 0xFFFF for all.
    QueryAllRequest(u16),
    QueryAllFin,
}

//! Extern functions and methods that code can call: their names in IR text and their operands.
//!
//! One table, [`OPS`], serves the printer, the reader, the verifier and the engines' dispatch. The
//! semantics of an operation are defined once, in `exec`. Architectures overlap: v1model's
//! `counter.count` and PSA's `Counter.count` are one operation. Flags that P4 passes as enum
//! members or compile-time numbers are `Number`s here.

use crate::program::HashAlgorithm;

/// Kind of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// A value.
    In,
    /// A destination.
    Out,
    /// A list of values; `varbit`s allowed.
    Data,
    /// A list of destinations.
    Outs,
    /// A text.
    Text,
    /// A compile-time number.
    Number,
}

/// Kind of extern instance that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// None: a function.
    None,
    /// A counter array.
    Counter,
    /// A direct counter of the table that runs the action.
    DirectCounter,
    /// A meter array.
    Meter,
    /// A direct meter.
    DirectMeter,
    /// A register array.
    Register,
    /// A hash engine.
    Hash,
    /// A checksum engine.
    Checksum,
    /// A ones' complement engine.
    InternetChecksum,
    /// A random source.
    Random,
    /// A digest.
    Digest,
    /// A remote handler.
    Handler,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident = $name:literal : $instance:ident ($($operand_name:ident $operand:ident),*);)*) => {
        /// An extern function or method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op { $($(#[$doc])* $variant,)* }

        /// All operations: name in IR text, instance and operands.
        pub const OPS: &[(Op, &str, InstanceKind, &[OperandKind])] = &[
            $((Op::$variant, $name, InstanceKind::$instance, &[$(OperandKind::$operand),*]),)*
        ];

        /// Names of each operation's operands, in the order of [`OPS`].
        const OPERAND_NAMES: &[&[&str]] = &[$(&[$(stringify!($operand_name)),*],)*];
    };
}

ops! {
    /// Counts the packet at an index. An index outside the array has no effect. PNA/PSA and
    /// v1model.
    CounterCount = "counter.count": Counter (index In);
    /// Counts the packet at an index, with an explicit length in bytes: index, length.
    CounterCountLength = "counter.count_length": Counter (index In, length In);
    /// Adds a number to a counter (eBPF `CounterArray.add`): index, value.
    CounterAdd = "counter.add": Counter (index In, value In);
    /// Counts the packet for the entry of the table being applied.
    DirectCounterCount = "direct_counter.count": DirectCounter ();
    /// Counts the packet for the entry of the table being applied, with an explicit length in
    /// bytes.
    DirectCounterCountLength = "direct_counter.count_length": DirectCounter (length In);
    /// Meters the packet at an index, colour-blind: index, colour (0 green, 1 yellow, 2 red).
    MeterExecute = "meter.execute": Meter (index In, color Out);
    /// Meters the packet at an index, colour-aware: index, colour before, colour.
    MeterExecuteColored = "meter.execute_colored": Meter (index In, color_before In, color Out);
    /// As above, with an explicit packet length in bytes: index, colour before, length, colour.
    MeterExecuteLength = "meter.execute_length": Meter (index In, color_before In, length In, color Out);
    /// Meters the packet for the entry of the table being applied, colour-blind.
    DirectMeterExecute = "direct_meter.execute": DirectMeter (color Out);
    /// As above, colour-aware: colour before, colour.
    DirectMeterExecuteColored = "direct_meter.execute_colored": DirectMeter (color_before In, color Out);
    /// As above, with an explicit packet length in bytes: colour before, length, colour.
    DirectMeterExecuteLength = "direct_meter.execute_length": DirectMeter (color_before In, length In, color Out);
    /// Reads a cell: index, one destination for each scalar of the cell. Outside the array it reads
    /// zeros.
    RegisterRead = "register.read": Register (index In, value Outs);
    /// Writes a cell: index, one value for each scalar of the cell. Outside the array it has no
    /// effect.
    RegisterWrite = "register.write": Register (index In, value Data);
    /// v1model `hash`, PSA `Hash.get_hash(base, data, max)`: algorithm number, base, max, data,
    /// destination. The result is `base + hash % max`, or `base` if `max` is 0.
    Hash = "hash": None (algorithm Number, base In, max In, data Data, result Out);
    /// PSA `Hash.get_hash(data)`: data, destination (the hash truncated or extended to its type).
    HashGet = "hash.get": Hash (data Data, result Out);
    /// PSA `Hash.get_hash(base, data, max)`: base, max, data, destination.
    HashGetBase = "hash.get_base": Hash (base In, max In, data Data, result Out);
    /// v1model `verify_checksum`: algorithm number, condition, data, checksum. A mismatch sets
    /// `checksum_error`.
    VerifyChecksum = "verify_checksum": None (algorithm Number, condition In, data Data, checksum In);
    /// As above, over the payload too.
    VerifyChecksumWithPayload = "verify_checksum_with_payload": None (algorithm Number, condition In, data Data, checksum In);
    /// v1model `update_checksum`: algorithm number, condition, data, checksum.
    UpdateChecksum = "update_checksum": None (algorithm Number, condition In, data Data, checksum Out);
    /// As above, over the payload too.
    UpdateChecksumWithPayload = "update_checksum_with_payload": None (algorithm Number, condition In, data Data, checksum Out);
    /// Clears a running checksum.
    ChecksumClear = "checksum.clear": Checksum ();
    /// Adds data to a running checksum.
    ChecksumUpdate = "checksum.update": Checksum (data Data);
    /// Reads the running checksum.
    ChecksumGet = "checksum.get": Checksum (result Out);
    /// Clears a running ones' complement sum.
    InternetChecksumClear = "internet_checksum.clear": InternetChecksum ();
    /// Adds data, a multiple of 16 bits.
    InternetChecksumAdd = "internet_checksum.add": InternetChecksum (data Data);
    /// Subtracts data, a multiple of 16 bits.
    InternetChecksumSubtract = "internet_checksum.subtract": InternetChecksum (data Data);
    /// Reads the complement of the sum.
    InternetChecksumGet = "internet_checksum.get": InternetChecksum (result Out);
    /// Reads the sum itself.
    InternetChecksumGetState = "internet_checksum.get_state": InternetChecksum (result Out);
    /// Sets the sum.
    InternetChecksumSetState = "internet_checksum.set_state": InternetChecksum (sum In);
    /// RFC 1624: checksum, old 16-bit value, new 16-bit value, destination (uBPF, XDP
    /// `csum_replace2`).
    ChecksumReplace2 = "csum_replace2": None (checksum In, old In, new In, result Out);
    /// RFC 1624: checksum, old 32-bit value, new 32-bit value, destination.
    ChecksumReplace4 = "csum_replace4": None (checksum In, old In, new In, result Out);
    /// v1model `random`: low, high, destination.
    RandomBetween = "random": None (low In, high In, result Out);
    /// PSA `Random.read`.
    RandomRead = "random.read": Random (result Out);
    /// v1model `digest`: queues the data as a message of the digest.
    DigestSend = "digest.send": Digest (data Data);
    /// v1model `mark_to_drop(standard_metadata)`, uBPF `mark_to_drop()`: sets the architecture's
    /// drop mark.
    MarkToDrop = "mark_to_drop": None ();
    /// uBPF `mark_to_pass`.
    MarkToPass = "mark_to_pass": None ();
    /// v1model `clone`: type (0 ingress to egress, 1 egress to egress), index of the field list
    /// plus one or 0 for none, session.
    Clone = "clone": None (type Number, field_list Number, session In);
    /// v1model `resubmit`: index of the field list plus one, or 0 for none.
    Resubmit = "resubmit": None (field_list Number);
    /// v1model `recirculate`: index of the field list plus one, or 0 for none.
    Recirculate = "recirculate": None (field_list Number);
    /// Cuts the packet to this many bytes when it leaves the pipeline (v1model, uBPF).
    Truncate = "truncate": None (length In);
    /// v1model `assert`: condition, its text. A failure is logged and drops the packet.
    Assert = "assert": None (condition In, text Text);
    /// v1model `assume`: like `assert`, with another message.
    Assume = "assume": None (condition In, text Text);
    /// v1model `log_msg`: format with `{}`, values.
    LogMessage = "log_msg": None (format Text, value Data);
    /// PNA `drop_packet`.
    DropPacket = "drop_packet": None ();
    /// PNA `send_to_port`.
    SendToPort = "send_to_port": None (port In);
    /// PNA `mirror_packet`: slot, session.
    MirrorPacket = "mirror_packet": None (slot In, session In);
    /// PNA `recirculate`.
    RecirculatePacket = "recirculate_packet": None ();
    /// Makes the rest of the control `@atomic`. Used for bodies that apply tables, which
    /// [`StmtKind::Atomic`](crate::StmtKind::Atomic) cannot contain.
    HoldAtomic = "atomic.hold": None ();
    /// PNA `add_entry`: position of the action in the table that missed, expiry profile,
    /// parameters, success (0) or failure (1).
    AddEntry = "add_entry": None (action Number, expire_profile In, params Data, failed Out);
    /// PNA `set_entry_expire_time`: profile.
    SetEntryExpireTime = "set_entry_expire_time": None (expire_profile In);
    /// PNA `restart_expire_timer`.
    RestartExpireTimer = "restart_expire_timer": None ();
    /// PNA `allocate_flow_id`.
    AllocateFlowId = "allocate_flow_id": None (result Out);
    /// PNA `is_host_port`: port, destination.
    IsHostPort = "is_host_port": None (port In, result Out);
    /// PNA `is_net_port`: port, destination.
    IsNetPort = "is_net_port": None (port In, result Out);
    /// Reads the clock in nanoseconds (uBPF `ubpf_time_get_ns`, XDP `BPF_KTIME_GET_NS`).
    TimeNs = "time_ns": None (result Out);
    /// XDP `BPF_PERF_EVENT_OUTPUT`: sends the packet to the control plane.
    PerfEventOutput = "perf_event_output": None (result Out);
    /// An extern function that the user declares and the host implements: name, arguments, results
    /// (`out`, `inout`, then the return value).
    Native = "native": None (name Text, argument Data, result Outs);
    /// Sends a request to a remote handler and continues with its response. It is the only
    /// statement of its stage, so that a packet can leave before the call and resume after it.
    Remote = "remote": Handler (request Data, response Outs);
    /// Sends the received packet as a frame of a split program (CLIP, section IV-B): port, number
    /// of bytes of such a frame's header in the received packet (0 if it has none), EtherType of
    /// the frame, values of the frame's header. The frame has the received packet's first 12 bytes,
    /// the EtherType, the packet's own EtherType, the values, and the received bytes after its
    /// first 14 and that header. What the program did to the packet has no effect on the frame. The
    /// packet is finished when its block ends.
    SendFrame = "frame.send": None (port In, header_bytes In, ether_type Number, value Data);
    /// Sets the packet's length in bytes, for counters, meters and egress.
    SetPacketLength = "packet.set_length": None (length In);
}

impl Op {
    /// Returns its row in [`OPS`].
    fn row(self) -> &'static (Op, &'static str, InstanceKind, &'static [OperandKind]) {
        &OPS[self as usize]
    }

    /// Returns its name in IR text.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the kind of instance that it needs.
    pub fn instance(self) -> InstanceKind {
        self.row().2
    }

    /// Returns the kinds of its operands.
    pub fn signature(self) -> &'static [OperandKind] {
        self.row().3
    }

    /// Returns the names of its operands, for messages.
    pub fn operand_names(self) -> &'static [&'static str] {
        OPERAND_NAMES[self as usize]
    }

    /// Returns the operation with this name in IR text.
    pub fn from_name(name: &str) -> Option<Op> {
        OPS.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

/// Hash algorithms, indexed by their number in [`Op::Hash`] and the checksum operations.
pub const ALGORITHMS: &[HashAlgorithm] = &[
    HashAlgorithm::Crc32,
    HashAlgorithm::Crc32Custom,
    HashAlgorithm::Crc16,
    HashAlgorithm::Crc16Custom,
    HashAlgorithm::Random,
    HashAlgorithm::Identity,
    HashAlgorithm::Csum16,
    HashAlgorithm::Xor16,
    HashAlgorithm::TargetDefault,
    HashAlgorithm::Toeplitz,
];

impl HashAlgorithm {
    /// Returns its number in operands.
    pub fn number(self) -> u64 {
        ALGORITHMS.iter().position(|&a| a == self).unwrap_or(0) as u64
    }

    /// Returns the algorithm with this number.
    pub fn from_number(number: u64) -> Option<HashAlgorithm> {
        ALGORITHMS.get(usize::try_from(number).ok()?).copied()
    }
}

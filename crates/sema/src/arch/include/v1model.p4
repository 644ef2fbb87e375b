// v1model: the architecture of BMv2's simple_switch. What its parts do at run time is described in simple_switch.md of
// the behavioral-model project.
//
// V1MODEL_VERSION chooses between two editions of the interface: 20180101 (the default), where counters, meters and
// registers are indexed by bit<32>, and 20200408, where the type of the index is a type parameter and ports have a name.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    /// A value between two bounds, both included.
    range,
    /// An exact value or anything.
    optional,
    /// No part of the lookup: an input of the hash by which an action selector picks a member.
    selector
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

/// What the switch tells the program about a packet, and the program the switch.
@metadata
@name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;
    PortId_t egress_port;
#else
    /// Where the packet came in. Read only.
    bit<9>   ingress_port;
    /// Written by ingress: where the packet shall go. 511 drops it.
    bit<9>   egress_spec;
    /// Where the packet will go out. For egress, read only.
    bit<9>   egress_port;
#endif
    /// What brought the packet here: 0 a port, 1 an ingress clone, 2 an egress clone, 3 coalescing, 4 recirculation,
    /// 5 replication, 6 resubmission.
    bit<32>  instance_type;
    /// Bytes in the frame.
    bit<32>  packet_length;
    /// When the packet entered the queue, in microseconds.
    @alias("queueing_metadata.enq_timestamp")
    bit<32>  enq_timestamp;
    /// Packets in the queue when this one entered it.
    @alias("queueing_metadata.enq_qdepth")
    bit<19>  enq_qdepth;
    /// Microseconds spent in the queue.
    @alias("queueing_metadata.deq_timedelta")
    bit<32>  deq_timedelta;
    /// Packets in the queue when this one left it.
    @alias("queueing_metadata.deq_qdepth")
    bit<19>  deq_qdepth;
    /// When ingress began, in microseconds.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48>  ingress_global_timestamp;
    /// When egress began, in microseconds.
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48>  egress_global_timestamp;
    /// Written by ingress: the multicast group that gets the packet; 0 is none.
    @alias("intrinsic_metadata.mcast_grp")
    bit<16>  mcast_grp;
    /// For egress: the instance of this copy within its multicast group.
    @alias("intrinsic_metadata.egress_rid")
    bit<16>  egress_rid;
    /// 1 when a verify_checksum found a wrong checksum.
    bit<1>   checksum_error;
    /// How the parser ended.
    error    parser_error;
    /// Written by ingress: the queue of the egress port that the packet waits in.
    @alias("intrinsic_metadata.priority")
    bit<3>   priority;
}

/// What a counter counts.
enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

/// What a meter measures.
enum MeterType {
    packets,
    bytes
}

/// An array of `size` counters, which the control plane reads.
extern counter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    counter(bit<32> size, CounterType type);
    /// Counts this packet at `index`. An index out of range counts nothing.
#if V1MODEL_VERSION >= 20200408
    void count(in I index);
#else
    void count(in bit<32> index);
#endif
}

/// One counter for each entry of the table that names it in `counters`. It counts every packet that hits the entry,
/// whether or not the action calls `count`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

/// An array of `size` two-rate three-colour meters (RFC 2698).
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    meter(bit<32> size, MeterType type);
    /// Meters this packet at `index` and gives its colour: 0 green, 1 yellow, 2 red. `T` has at least two bits.
    /// An index out of range meters nothing.
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

/// One meter for each entry of the table that names it in `meters`. It meters every packet that hits the entry.
extern direct_meter<T> {
    direct_meter(MeterType type);
    /// In an action of the table: the colour of this packet, coded as in `meter`.
    void read(out T result);
}

/// An array of `size` values that packets read and write.
#if V1MODEL_VERSION >= 20200408
extern register<T, I>
#else
extern register<T>
#endif
{
    register(bit<32> size);
    /// Reads the value at `index`.
    @noSideEffects
#if V1MODEL_VERSION >= 20200408
    void read(out T result, in I index);
#else
    void read(out T result, in bit<32> index);
#endif
    /// Writes the value at `index`. An index out of range writes nothing.
#if V1MODEL_VERSION >= 20200408
    void write(in I index, in T value);
#else
    void write(in bit<32> index, in T value);
#endif
}

/// An implementation of a table: entries refer to shared members (an action with its arguments).
extern action_profile {
    action_profile(bit<32> size);
}

/// A random value from `lo` to `hi`, both included.
extern void random<T>(out T result, in T lo, in T hi);

/// Sends `data` to the control plane. `receiver` is not used.
extern void digest<T>(in bit<32> receiver, in T data);

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();

/// Sets `egress_spec` to the drop port and `mcast_grp` to 0. Later assignments to them can revive the packet.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/// `base` plus the hash of `data` modulo `max`; `base` when `max` is 0. `O`, `T` and `M` are bit<W>; `D` is a tuple or a
/// list of bit<W>, int<W> and varbit fields.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

/// An implementation of a table: entries refer to members or to groups, and a hash of the table's selector keys picks
/// the member of a group.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

/// Which half of the pipeline makes the clone.
enum CloneType {
    I2E,
    E2E
}

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

/// Only in the VerifyChecksum control: when `condition` holds and the checksum of `data` is not `checksum`, sets
/// `checksum_error` to 1.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// Only in the ComputeChecksum control: when `condition` holds, sets `checksum` to the checksum of `data`.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// verify_checksum over `data` followed by all bytes that the parser did not take.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

/// update_checksum over `data` followed by all bytes that the parser did not take.
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/// Sends a copy of the packet through egress, to where the clone session `session` says; all user metadata of the copy
/// is zero. A later clone call of the same control replaces this one.
extern void clone(in CloneType type, in bit<32> session);

@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

/// In ingress: the packet, as it came in, starts again at the parser when ingress ends. The user metadata fields
/// annotated @field_list(`index`) keep their values.
extern void resubmit_preserving_field_list(bit<8> index);

@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

/// In egress: the packet, as deparsed, starts again at the parser. The user metadata fields annotated
/// @field_list(`index`) keep their values.
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/// `clone`, where the user metadata fields annotated @field_list(`index`) keep their values in the copy.
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

/// Cuts the outgoing packet to at most `length` bytes.
extern void truncate(in bit<32> length);

/// The program is wrong when `check` is false: the failure is reported with its place.
extern void assert(in bool check);

/// The network is not as the program expects when `check` is false: reported as `assert` does.
extern void assume(in bool check);

/// Shows a message to the user; each {} stands for the next value of `data`.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

/// The architecture's blocks, in the order of a packet's way. `H` is a struct of headers, stacks and unions, `M` a struct.
parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);

/// May only call verify_checksum and verify_checksum_with_payload.
control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);

/// May only call update_checksum and update_checksum_with_payload.
control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);

/// May only emit.
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif // _V1_MODEL_P4_

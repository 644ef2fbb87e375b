// PSA, the Portable Switch Architecture, with the widths of a software switch.
//
// __PSA_PACKET_LENGTH__ (defined by dpdk/psa.p4) adds the forms of counters and meters that are told the packet's length.

#ifndef __PSA_P4__
#define __PSA_P4__

#include <core.p4>

// The plain numbers behind the types below, for arithmetic: same width, no distinct type.
typedef bit<32> PortIdUint_t;
typedef bit<32> MulticastGroupUint_t;
typedef bit<16> CloneSessionIdUint_t;
typedef bit<8> ClassOfServiceUint_t;
typedef bit<16> PacketLengthUint_t;
typedef bit<16> EgressInstanceUint_t;
typedef bit<64> TimestampUint_t;

// Distinct types: a controller may name their values differently from the device, so each one is translated.
/// A port of the device.
@p4runtime_translation("p4.org/psa/v1/PortId_t", 32)
type PortIdUint_t PortId_t;
/// A multicast group of the packet replication engine; 0 is none.
@p4runtime_translation("p4.org/psa/v1/MulticastGroup_t", 32)
type MulticastGroupUint_t MulticastGroup_t;
/// A clone session of the packet replication engine.
@p4runtime_translation("p4.org/psa/v1/CloneSessionId_t", 16)
type CloneSessionIdUint_t CloneSessionId_t;
/// A class of service, by which the queues are chosen.
@p4runtime_translation("p4.org/psa/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;
/// A length in bytes.
@p4runtime_translation("p4.org/psa/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;
/// Which of the copies made for one port this is.
@p4runtime_translation("p4.org/psa/v1/EgressInstance_t", 16)
type EgressInstanceUint_t EgressInstance_t;
/// A time in the device's units.
@p4runtime_translation("p4.org/psa/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;

typedef error ParserError_t;

/// Packets sent here come back to ingress.
const PortId_t PSA_PORT_RECIRCULATE = (PortId_t) 0xfffffffa;
/// The controller's port.
const PortId_t PSA_PORT_CPU = (PortId_t) 0xfffffffd;

/// The clone session that leads to the controller.
const CloneSessionId_t PSA_CLONE_SESSION_TO_CPU = (CloneSessionId_t) 0;

// The same values as they travel in headers between the device and a controller: widths that suit any device,
// whole bytes each.
typedef bit<32> PortIdInHeaderUint_t;
typedef bit<32> MulticastGroupInHeaderUint_t;
typedef bit<16> CloneSessionIdInHeaderUint_t;
typedef bit<8> ClassOfServiceInHeaderUint_t;
typedef bit<16> PacketLengthInHeaderUint_t;
typedef bit<16> EgressInstanceInHeaderUint_t;
typedef bit<64> TimestampInHeaderUint_t;

@p4runtime_translation("p4.org/psa/v1/PortIdInHeader_t", 32)
type PortIdInHeaderUint_t PortIdInHeader_t;
@p4runtime_translation("p4.org/psa/v1/MulticastGroupInHeader_t", 32)
type MulticastGroupInHeaderUint_t MulticastGroupInHeader_t;
@p4runtime_translation("p4.org/psa/v1/CloneSessionIdInHeader_t", 16)
type CloneSessionIdInHeaderUint_t CloneSessionIdInHeader_t;
@p4runtime_translation("p4.org/psa/v1/ClassOfServiceInHeader_t", 8)
type ClassOfServiceInHeaderUint_t ClassOfServiceInHeader_t;
@p4runtime_translation("p4.org/psa/v1/PacketLengthInHeader_t", 16)
type PacketLengthInHeaderUint_t PacketLengthInHeader_t;
@p4runtime_translation("p4.org/psa/v1/EgressInstanceInHeader_t", 16)
type EgressInstanceInHeaderUint_t EgressInstanceInHeader_t;
@p4runtime_translation("p4.org/psa/v1/TimestampInHeader_t", 64)
type TimestampInHeaderUint_t TimestampInHeader_t;

// From a header's value to the device's and back. Two distinct types have no cast between them, so each conversion
// goes by way of the plain numbers.
PortId_t psa_PortId_header_to_int(in PortIdInHeader_t x) {
    return (PortId_t)(PortIdUint_t)(PortIdInHeaderUint_t)x;
}
MulticastGroup_t psa_MulticastGroup_header_to_int(in MulticastGroupInHeader_t x) {
    return (MulticastGroup_t)(MulticastGroupUint_t)(MulticastGroupInHeaderUint_t)x;
}
CloneSessionId_t psa_CloneSessionId_header_to_int(in CloneSessionIdInHeader_t x) {
    return (CloneSessionId_t)(CloneSessionIdUint_t)(CloneSessionIdInHeaderUint_t)x;
}
ClassOfService_t psa_ClassOfService_header_to_int(in ClassOfServiceInHeader_t x) {
    return (ClassOfService_t)(ClassOfServiceUint_t)(ClassOfServiceInHeaderUint_t)x;
}
PacketLength_t psa_PacketLength_header_to_int(in PacketLengthInHeader_t x) {
    return (PacketLength_t)(PacketLengthUint_t)(PacketLengthInHeaderUint_t)x;
}
EgressInstance_t psa_EgressInstance_header_to_int(in EgressInstanceInHeader_t x) {
    return (EgressInstance_t)(EgressInstanceUint_t)(EgressInstanceInHeaderUint_t)x;
}
Timestamp_t psa_Timestamp_header_to_int(in TimestampInHeader_t x) {
    return (Timestamp_t)(TimestampUint_t)(TimestampInHeaderUint_t)x;
}
PortIdInHeader_t psa_PortId_int_to_header(in PortId_t x) {
    return (PortIdInHeader_t)(PortIdInHeaderUint_t)(PortIdUint_t)x;
}
MulticastGroupInHeader_t psa_MulticastGroup_int_to_header(in MulticastGroup_t x) {
    return (MulticastGroupInHeader_t)(MulticastGroupInHeaderUint_t)(MulticastGroupUint_t)x;
}
CloneSessionIdInHeader_t psa_CloneSessionId_int_to_header(in CloneSessionId_t x) {
    return (CloneSessionIdInHeader_t)(CloneSessionIdInHeaderUint_t)(CloneSessionIdUint_t)x;
}
ClassOfServiceInHeader_t psa_ClassOfService_int_to_header(in ClassOfService_t x) {
    return (ClassOfServiceInHeader_t)(ClassOfServiceInHeaderUint_t)(ClassOfServiceUint_t)x;
}
PacketLengthInHeader_t psa_PacketLength_int_to_header(in PacketLength_t x) {
    return (PacketLengthInHeader_t)(PacketLengthInHeaderUint_t)(PacketLengthUint_t)x;
}
EgressInstanceInHeader_t psa_EgressInstance_int_to_header(in EgressInstance_t x) {
    return (EgressInstanceInHeader_t)(EgressInstanceInHeaderUint_t)(EgressInstanceUint_t)x;
}
TimestampInHeader_t psa_Timestamp_int_to_header(in Timestamp_t x) {
    return (TimestampInHeader_t)(TimestampInHeaderUint_t)(TimestampUint_t)x;
}

/// Values of the table property psa_idle_timeout.
enum PSA_IdleTimeout_t {
    NO_TIMEOUT,
    NOTIFY_CONTROL
};

/// What brought a packet to the block.
enum PSA_PacketPath_t {
    /// To ingress, from a port.
    NORMAL,
    /// To egress, one packet for one port.
    NORMAL_UNICAST,
    /// To egress, a copy for a multicast group.
    NORMAL_MULTICAST,
    /// To egress, a clone made by ingress.
    CLONE_I2E,
    /// To egress, a clone made by egress.
    CLONE_E2E,
    /// To ingress, by resubmission.
    RESUBMIT,
    /// To ingress, by recirculation.
    RECIRCULATE
}

struct psa_ingress_parser_input_metadata_t {
    PortId_t         ingress_port;
    PSA_PacketPath_t packet_path;
}

struct psa_egress_parser_input_metadata_t {
    PortId_t         egress_port;
    PSA_PacketPath_t packet_path;
}

/// Set before Ingress begins.
struct psa_ingress_input_metadata_t {
    PortId_t         ingress_port;
    PSA_PacketPath_t packet_path;
    Timestamp_t      ingress_timestamp;
    ParserError_t    parser_error;
}

/// What Ingress decides.
struct psa_ingress_output_metadata_t {
    /// 0 at first.
    ClassOfService_t class_of_service;
    /// False at first.
    bool             clone;
    /// Meaningful when `clone` is true.
    CloneSessionId_t clone_session_id;
    /// True at first: a program says where a packet goes, or it is dropped.
    bool             drop;
    /// False at first.
    bool             resubmit;
    /// 0 at first: unicast.
    MulticastGroup_t multicast_group;
    /// Meaningful when the packet is unicast.
    PortId_t         egress_port;
}

/// Set before Egress begins.
struct psa_egress_input_metadata_t {
    ClassOfService_t class_of_service;
    PortId_t         egress_port;
    PSA_PacketPath_t packet_path;
    /// From the packet replication engine.
    EgressInstance_t instance;
    Timestamp_t      egress_timestamp;
    ParserError_t    parser_error;
}

/// By which the egress deparser knows whether the packet recirculates.
struct psa_egress_deparser_input_metadata_t {
    PortId_t egress_port;
}

/// What Egress decides.
struct psa_egress_output_metadata_t {
    /// False at first.
    bool             clone;
    /// Meaningful when `clone` is true.
    CloneSessionId_t clone_session_id;
    /// False at first.
    bool             drop;
}

/// In IngressDeparser: whether ingress cloned the packet; only then may `clone_i2e_meta` be assigned.
@pure
extern bool psa_clone_i2e(in psa_ingress_output_metadata_t istd);

/// In IngressDeparser: whether the packet is resubmitted; only then may `resubmit_meta` be assigned.
@pure
extern bool psa_resubmit(in psa_ingress_output_metadata_t istd);

/// In IngressDeparser: whether the packet goes on to egress; only then may `normal_meta` be assigned.
@pure
extern bool psa_normal(in psa_ingress_output_metadata_t istd);

/// In EgressDeparser: whether egress cloned the packet; only then may `clone_e2e_meta` be assigned.
@pure
extern bool psa_clone_e2e(in psa_egress_output_metadata_t istd);

/// In EgressDeparser: whether the packet recirculates; only then may `recirculate_meta` be assigned.
@pure
extern bool psa_recirculate(in psa_egress_output_metadata_t istd,
                            in psa_egress_deparser_input_metadata_t edstd);

/// The program is wrong when `check` is false: the failure is reported with its place.
extern void assert(in bool check);

/// The network is not as the program expects when `check` is false: reported as `assert` does.
extern void assume(in bool check);

match_kind {
    /// A value between two bounds, both included.
    range,
    /// No part of the lookup: an input of the hash by which an action selector picks a member.
    selector,
    /// An exact value or anything.
    optional
}

/// One packet for `egress_port`. Clones and resubmission stay as they are.
@noWarn("unused")
action send_to_port(inout psa_ingress_output_metadata_t meta,
                    in PortId_t egress_port)
{
    meta.drop = false;
    meta.multicast_group = (MulticastGroup_t) 0;
    meta.egress_port = egress_port;
}

/// A copy for each member of `multicast_group`. Clones and resubmission stay as they are.
@noWarn("unused")
action multicast(inout psa_ingress_output_metadata_t meta,
                 in MulticastGroup_t multicast_group)
{
    meta.drop = false;
    meta.multicast_group = multicast_group;
}

/// No packet for egress, and no resubmission; a clone is still made.
@noWarn("unused")
action ingress_drop(inout psa_ingress_output_metadata_t meta)
{
    meta.drop = true;
}

/// No packet leaves; a clone is still made.
@noWarn("unused")
action egress_drop(inout psa_egress_output_metadata_t meta)
{
    meta.drop = true;
}

/// Makes the copies for multicast groups and clone sessions. Only the control plane speaks to it.
extern PacketReplicationEngine {
    PacketReplicationEngine();
}

/// Holds packets until their port is free. Only the control plane speaks to it.
extern BufferingQueueingEngine {
    BufferingQueueingEngine();
}

enum PSA_HashAlgorithm_t {
    IDENTITY,
    CRC32,
    CRC32_CUSTOM,
    CRC16,
    CRC16_CUSTOM,
    /// The sum of IPv4, TCP and UDP checksums.
    ONES_COMPLEMENT16,
    /// What the target does best.
    TARGET_DEFAULT
}

extern Hash<O> {
    Hash(PSA_HashAlgorithm_t algo);
    /// The hash of `data`.
    @pure
    O get_hash<D>(in D data);
    /// `base` plus the hash of `data` modulo `max`.
    @pure
    O get_hash<T, D>(in T base, in D data, in T max);
}

/// A checksum made piece by piece. It is empty whenever its parser or control begins.
extern Checksum<W> {
    Checksum(PSA_HashAlgorithm_t hash);
    /// Empties it.
    void clear();
    /// Appends `data`.
    void update<T>(in T data);
    /// The checksum of what was appended.
    @noSideEffects
    W get();
}

/// The one's complement checksum of IPv4, TCP and UDP, from which data can be taken out again (RFC 1624). It is empty
/// whenever its parser or control begins. All data are multiples of 16 bits.
extern InternetChecksum {
    InternetChecksum();
    /// Empties it.
    void clear();
    /// Adds `data`.
    void add<T>(in T data);
    /// Takes `data` out.
    void subtract<T>(in T data);
    /// The checksum.
    @noSideEffects
    bit<16> get();
    /// The state, for a later set_state of this object or another one.
    @noSideEffects
    bit<16> get_state();
    /// Goes on from a state that get_state gave.
    void set_state(in bit<16> checksum_state);
}

enum PSA_CounterType_t {
    PACKETS,
    BYTES,
    PACKETS_AND_BYTES
}

/// An array of counters, each of type `W`, indexed by `S`.
@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PSA_CounterType_t type);
    void count(in S index);
#ifdef __PSA_PACKET_LENGTH__
    void count(in S index, in bit<32> pkt_len);
#endif
}

/// One counter for each entry of the table that names it in `psa_direct_counter`.
@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PSA_CounterType_t type);
    void count();
#ifdef __PSA_PACKET_LENGTH__
    void count(in bit<32> pkt_len);
#endif
}

enum PSA_MeterType_t {
    PACKETS,
    BYTES
}

enum PSA_MeterColor_t { RED, GREEN, YELLOW }

/// An array of two-rate three-colour meters (RFC 2698), indexed by `S`.
extern Meter<S> {
    Meter(bit<32> n_meters, PSA_MeterType_t type);
    /// Colour-aware: never better than `color`.
    PSA_MeterColor_t execute(in S index, in PSA_MeterColor_t color);
    /// Colour-blind.
    PSA_MeterColor_t execute(in S index);
#ifdef __PSA_PACKET_LENGTH__
    PSA_MeterColor_t dpdk_execute(in S index, in PSA_MeterColor_t color, in bit<32> pkt_len);
    PSA_MeterColor_t dpdk_execute(in S index, in bit<32> pkt_len);
#endif
}

/// One meter for each entry of the table that names it in `psa_direct_meter`.
extern DirectMeter {
    DirectMeter(PSA_MeterType_t type);
    PSA_MeterColor_t execute(in PSA_MeterColor_t color);
    PSA_MeterColor_t execute();
#ifdef __PSA_PACKET_LENGTH__
    PSA_MeterColor_t dpdk_execute(in PSA_MeterColor_t color, in bit<32> pkt_len);
    PSA_MeterColor_t dpdk_execute(in bit<32> pkt_len);
#endif
}

/// An array of values that packets read and write, indexed by `S`.
extern Register<T, S> {
    /// The values are undefined at first.
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    @noSideEffects
    T    read(in S index);
    void write(in S index, in T value);
}

/// Random values from `min` to `max`, both included.
extern Random<T> {
    Random(T min, T max);
    T read();
}

/// An implementation of a table: entries refer to shared members (an action with its arguments).
extern ActionProfile {
    ActionProfile(bit<32> size);
}

/// An implementation of a table: entries refer to members or to groups, and a hash of the table's selector keys, of
/// `outputWidth` bits, picks the member of a group.
extern ActionSelector {
    ActionSelector(PSA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

/// A stream of messages to the control plane.
extern Digest<T> {
    Digest();
    void pack(in T data);
}

parser IngressParser<H, M, RESUBM, RECIRCM>(
    packet_in buffer,
    out H parsed_hdr,
    inout M user_meta,
    in psa_ingress_parser_input_metadata_t istd,
    in RESUBM resubmit_meta,
    in RECIRCM recirculate_meta);

control Ingress<H, M>(
    inout H hdr,
    inout M user_meta,
    in psa_ingress_input_metadata_t istd,
    inout psa_ingress_output_metadata_t ostd);

control IngressDeparser<H, M, CI2EM, RESUBM, NM>(
    packet_out buffer,
    out CI2EM clone_i2e_meta,
    out RESUBM resubmit_meta,
    out NM normal_meta,
    inout H hdr,
    in M meta,
    in psa_ingress_output_metadata_t istd);

parser EgressParser<H, M, NM, CI2EM, CE2EM>(
    packet_in buffer,
    out H parsed_hdr,
    inout M user_meta,
    in psa_egress_parser_input_metadata_t istd,
    in NM normal_meta,
    in CI2EM clone_i2e_meta,
    in CE2EM clone_e2e_meta);

control Egress<H, M>(
    inout H hdr,
    inout M user_meta,
    in psa_egress_input_metadata_t istd,
    inout psa_egress_output_metadata_t ostd);

control EgressDeparser<H, M, CE2EM, RECIRCM>(
    packet_out buffer,
    out CE2EM clone_e2e_meta,
    out RECIRCM recirculate_meta,
    inout H hdr,
    in M meta,
    in psa_egress_output_metadata_t istd,
    in psa_egress_deparser_input_metadata_t edstd);

package IngressPipeline<IH, IM, NM, CI2EM, RESUBM, RECIRCM>(
    IngressParser<IH, IM, RESUBM, RECIRCM> ip,
    Ingress<IH, IM> ig,
    IngressDeparser<IH, IM, CI2EM, RESUBM, NM> id);

package EgressPipeline<EH, EM, NM, CI2EM, CE2EM, RECIRCM>(
    EgressParser<EH, EM, NM, CI2EM, CE2EM> ep,
    Egress<EH, EM> eg,
    EgressDeparser<EH, EM, CE2EM, RECIRCM> ed);

package PSA_Switch<IH, IM, EH, EM, NM, CI2EM, CE2EM, RESUBM, RECIRCM>(
    IngressPipeline<IH, IM, NM, CI2EM, RESUBM, RECIRCM> ingress,
    PacketReplicationEngine pre,
    EgressPipeline<EH, EM, NM, CI2EM, CE2EM, RECIRCM> egress,
    BufferingQueueingEngine bqe);

#endif // __PSA_P4__

// PNA, the Portable NIC Architecture, with the widths of a software NIC.
//
// The interface exists in two editions. The specification's (bmv2/pna.p4) has one control, and a packet tells where it
// comes from by its port. The older one (pna.p4 and dpdk/pna.p4), for which __PNA_TWO_CONTROLS__ is defined, has a control before
// decryption as well, and a packet has a direction. __PNA_DPDK__ adds what only dpdk/pna.p4 has.

#ifndef __PNA_P4__
#define __PNA_P4__

#include <core.p4>

// The plain numbers behind the types below, for arithmetic: same width, no distinct type.
typedef bit<32> PortIdUint_t;
typedef bit<32> InterfaceIdUint_t;
typedef bit<32> MulticastGroupUint_t;
typedef bit<16> MirrorSessionIdUint_t;
typedef bit<8> MirrorSlotIdUint_t;
typedef bit<8> ClassOfServiceUint_t;
typedef bit<16> PacketLengthUint_t;
typedef bit<16> MulticastInstanceUint_t;
typedef bit<64> TimestampUint_t;
typedef bit<32> FlowIdUint_t;
typedef bit<8> ExpireTimeProfileIdUint_t;
#ifdef __PNA_TWO_CONTROLS__
typedef bit<3> PassNumberUint_t;
#endif
typedef bit<32> SecurityAssocIdUint_t;

// Distinct types: a controller may name their values differently from the device, so each one is translated.
/// A port of the device.
@p4runtime_translation("p4.org/pna/v1/PortId_t", 32)
type PortIdUint_t PortId_t;
/// An interface towards the host.
@p4runtime_translation("p4.org/pna/v1/InterfaceId_t", 32)
type InterfaceIdUint_t InterfaceId_t;
/// A multicast group; 0 is none.
@p4runtime_translation("p4.org/pna/v1/MulticastGroup_t", 32)
type MulticastGroupUint_t MulticastGroup_t;
/// Where and how mirrored packets go.
@p4runtime_translation("p4.org/pna/v1/MirrorSessionId_t", 16)
type MirrorSessionIdUint_t MirrorSessionId_t;
/// One of the mirrorings that a packet can ask for.
@p4runtime_translation("p4.org/pna/v1/MirrorSlotId_t", 8)
type MirrorSlotIdUint_t MirrorSlotId_t;
/// A class of service, by which the queues are chosen.
@p4runtime_translation("p4.org/pna/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;
/// A length in bytes.
@p4runtime_translation("p4.org/pna/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;
/// Which of the copies made for one port this is.
@p4runtime_translation("p4.org/pna/v1/MulticastInstance_t", 16)
type MulticastInstanceUint_t MulticastInstance_t;
/// A time in the device's units.
@p4runtime_translation("p4.org/pna/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;
/// The number of a flow that the data plane added.
@p4runtime_translation("p4.org/pna/v1/FlowId_t", 32)
type FlowIdUint_t FlowId_t;
/// Which of the configured idle times an entry has.
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileId_t", 8)
type ExpireTimeProfileIdUint_t ExpireTimeProfileId_t;
#ifdef __PNA_TWO_CONTROLS__
/// How often the packet has been through the pipeline; 0 at first.
@p4runtime_translation("p4.org/pna/v1/PassNumber_t", 8)
type PassNumberUint_t PassNumber_t;
#endif
/// An IPsec security association.
@p4runtime_translation("p4.org/pna/v1/SecurityAssocId_t", 64)
type SecurityAssocIdUint_t SecurityAssocId_t;

typedef error ParserError_t;

/// The controller's port.
const InterfaceId_t PNA_PORT_CPU = (InterfaceId_t) 0xfffffffd;

/// The mirror session that leads to the controller.
const MirrorSessionId_t PNA_MIRROR_SESSION_TO_CPU = (MirrorSessionId_t) 0;

// The same values as they travel in headers between the device and a controller: widths that suit any device,
// whole bytes each.
typedef bit<32> PortIdInHeaderUint_t;
typedef bit<32> InterfaceIdInHeaderUint_t;
typedef bit<32> MulticastGroupInHeaderUint_t;
typedef bit<16> MirrorSessionIdInHeaderUint_t;
typedef bit<8> MirrorSlotIdInHeaderUint_t;
typedef bit<8> ClassOfServiceInHeaderUint_t;
typedef bit<16> PacketLengthInHeaderUint_t;
typedef bit<16> MulticastInstanceInHeaderUint_t;
typedef bit<64> TimestampInHeaderUint_t;
typedef bit<32> FlowIdInHeaderUint_t;
typedef bit<8> ExpireTimeProfileIdInHeaderUint_t;
#ifdef __PNA_TWO_CONTROLS__
typedef bit<8> PassNumberInHeaderUint_t;
#endif
typedef bit<32> SecurityAssocIdInHeaderUint_t;

@p4runtime_translation("p4.org/pna/v1/PortIdInHeader_t", 32)
type PortIdInHeaderUint_t PortIdInHeader_t;
@p4runtime_translation("p4.org/pna/v1/InterfaceIdInHeader_t", 32)
type InterfaceIdInHeaderUint_t InterfaceIdInHeader_t;
@p4runtime_translation("p4.org/pna/v1/MulticastGroupInHeader_t", 32)
type MulticastGroupInHeaderUint_t MulticastGroupInHeader_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionIdInHeader_t", 16)
type MirrorSessionIdInHeaderUint_t MirrorSessionIdInHeader_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotIdInHeader_t", 8)
type MirrorSlotIdInHeaderUint_t MirrorSlotIdInHeader_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfServiceInHeader_t", 8)
type ClassOfServiceInHeaderUint_t ClassOfServiceInHeader_t;
@p4runtime_translation("p4.org/pna/v1/PacketLengthInHeader_t", 16)
type PacketLengthInHeaderUint_t PacketLengthInHeader_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstanceInHeader_t", 16)
type MulticastInstanceInHeaderUint_t MulticastInstanceInHeader_t;
@p4runtime_translation("p4.org/pna/v1/TimestampInHeader_t", 64)
type TimestampInHeaderUint_t TimestampInHeader_t;
@p4runtime_translation("p4.org/pna/v1/FlowIdInHeader_t", 32)
type FlowIdInHeaderUint_t FlowIdInHeader_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileIdInHeader_t", 8)
type ExpireTimeProfileIdInHeaderUint_t ExpireTimeProfileIdInHeader_t;
#ifdef __PNA_TWO_CONTROLS__
@p4runtime_translation("p4.org/pna/v1/PassNumberInHeader_t", 8)
type PassNumberInHeaderUint_t PassNumberInHeader_t;
#endif
@p4runtime_translation("p4.org/pna/v1/SecurityAssocIdInHeader_t", 64)
type SecurityAssocIdInHeaderUint_t SecurityAssocIdInHeader_t;

// From a header's value to the device's and back. Two distinct types have no cast between them, so each conversion
// goes by way of the plain numbers.
PortId_t pna_PortId_header_to_int(in PortIdInHeader_t x) {
    return (PortId_t)(PortIdUint_t)(PortIdInHeaderUint_t)x;
}
InterfaceId_t pna_InterfaceId_header_to_int(in InterfaceIdInHeader_t x) {
    return (InterfaceId_t)(InterfaceIdUint_t)(InterfaceIdInHeaderUint_t)x;
}
MulticastGroup_t pna_MulticastGroup_header_to_int(in MulticastGroupInHeader_t x) {
    return (MulticastGroup_t)(MulticastGroupUint_t)(MulticastGroupInHeaderUint_t)x;
}
MirrorSessionId_t pna_MirrorSessionId_header_to_int(in MirrorSessionIdInHeader_t x) {
    return (MirrorSessionId_t)(MirrorSessionIdUint_t)(MirrorSessionIdInHeaderUint_t)x;
}
ClassOfService_t pna_ClassOfService_header_to_int(in ClassOfServiceInHeader_t x) {
    return (ClassOfService_t)(ClassOfServiceUint_t)(ClassOfServiceInHeaderUint_t)x;
}
PacketLength_t pna_PacketLength_header_to_int(in PacketLengthInHeader_t x) {
    return (PacketLength_t)(PacketLengthUint_t)(PacketLengthInHeaderUint_t)x;
}
MulticastInstance_t pna_MulticastInstance_header_to_int(in MulticastInstanceInHeader_t x) {
    return (MulticastInstance_t)(MulticastInstanceUint_t)(MulticastInstanceInHeaderUint_t)x;
}
Timestamp_t pna_Timestamp_header_to_int(in TimestampInHeader_t x) {
    return (Timestamp_t)(TimestampUint_t)(TimestampInHeaderUint_t)x;
}
FlowId_t pna_FlowId_header_to_int(in FlowIdInHeader_t x) {
    return (FlowId_t)(FlowIdUint_t)(FlowIdInHeaderUint_t)x;
}
ExpireTimeProfileId_t pna_ExpireTimeProfileId_header_to_int(in ExpireTimeProfileIdInHeader_t x) {
    return (ExpireTimeProfileId_t)(ExpireTimeProfileIdUint_t)(ExpireTimeProfileIdInHeaderUint_t)x;
}
#ifdef __PNA_TWO_CONTROLS__
PassNumber_t pna_PassNumber_header_to_int(in PassNumberInHeader_t x) {
    return (PassNumber_t)(PassNumberUint_t)(PassNumberInHeaderUint_t)x;
}
#endif
PortIdInHeader_t pna_PortId_int_to_header(in PortId_t x) {
    return (PortIdInHeader_t)(PortIdInHeaderUint_t)(PortIdUint_t)x;
}
InterfaceIdInHeader_t pna_InterfaceId_int_to_header(in InterfaceId_t x) {
    return (InterfaceIdInHeader_t)(InterfaceIdInHeaderUint_t)(InterfaceIdUint_t)x;
}
MulticastGroupInHeader_t pna_MulticastGroup_int_to_header(in MulticastGroup_t x) {
    return (MulticastGroupInHeader_t)(MulticastGroupInHeaderUint_t)(MulticastGroupUint_t)x;
}
MirrorSessionIdInHeader_t pna_MirrorSessionId_int_to_header(in MirrorSessionId_t x) {
    return (MirrorSessionIdInHeader_t)(MirrorSessionIdInHeaderUint_t)(MirrorSessionIdUint_t)x;
}
ClassOfServiceInHeader_t pna_ClassOfService_int_to_header(in ClassOfService_t x) {
    return (ClassOfServiceInHeader_t)(ClassOfServiceInHeaderUint_t)(ClassOfServiceUint_t)x;
}
PacketLengthInHeader_t pna_PacketLength_int_to_header(in PacketLength_t x) {
    return (PacketLengthInHeader_t)(PacketLengthInHeaderUint_t)(PacketLengthUint_t)x;
}
MulticastInstanceInHeader_t pna_MulticastInstance_int_to_header(in MulticastInstance_t x) {
    return (MulticastInstanceInHeader_t)(MulticastInstanceInHeaderUint_t)(MulticastInstanceUint_t)x;
}
TimestampInHeader_t pna_Timestamp_int_to_header(in Timestamp_t x) {
    return (TimestampInHeader_t)(TimestampInHeaderUint_t)(TimestampUint_t)x;
}
FlowIdInHeader_t pna_FlowId_int_to_header(in FlowId_t x) {
    return (FlowIdInHeader_t)(FlowIdInHeaderUint_t)(FlowIdUint_t)x;
}
ExpireTimeProfileIdInHeader_t pna_ExpireTimeProfileId_int_to_header(in ExpireTimeProfileId_t x) {
    return (ExpireTimeProfileIdInHeader_t)(ExpireTimeProfileIdInHeaderUint_t)(ExpireTimeProfileIdUint_t)x;
}
#ifdef __PNA_TWO_CONTROLS__
PassNumberInHeader_t pna_PassNumber_int_to_header(in PassNumber_t x) {
    return (PassNumberInHeader_t)(PassNumberInHeaderUint_t)(PassNumberUint_t)x;
}
#endif

/// Values of the table property pna_idle_timeout.
enum PNA_IdleTimeout_t {
    NO_TIMEOUT,
    /// An idle entry is reported to the control plane.
    NOTIFY_CONTROL
#ifndef __PNA_TWO_CONTROLS__
    ,
    /// An idle entry is deleted.
    AUTO_DELETE
#endif
};

match_kind {
    /// A value between two bounds, both included.
    range,
    /// No part of the lookup: an input of the hash by which an action selector picks a member.
    selector,
    /// An exact value or anything.
    optional
}

#ifndef __PNA_TWO_CONTROLS__
#define __PNA_ALL_HASHES__
#endif
#ifdef __PNA_DPDK__
#define __PNA_ALL_HASHES__
#endif

enum PNA_HashAlgorithm_t {
#ifdef __PNA_ALL_HASHES__
    IDENTITY,
    CRC32,
    CRC32_CUSTOM,
    CRC16,
    CRC16_CUSTOM,
    /// The sum of IPv4, TCP and UDP checksums.
    ONES_COMPLEMENT16,
#endif
#ifdef __PNA_DPDK__
    TOEPLITZ,
#endif
    /// What the target does best.
    TARGET_DEFAULT
}

extern Hash<O> {
    Hash(PNA_HashAlgorithm_t algo);
    /// The hash of `data`.
    O get_hash<D>(in D data);
    /// `base` plus the hash of `data` modulo `max`.
    O get_hash<T, D>(in T base, in D data, in T max);
}

/// A checksum made piece by piece. It is empty whenever its parser or control begins.
extern Checksum<W> {
    Checksum(PNA_HashAlgorithm_t hash);
    /// Empties it.
    void clear();
    /// Appends `data`.
    void update<T>(in T data);
    /// The checksum of what was appended.
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
    bit<16> get();
    /// The state, for a later set_state of this object or another one.
    bit<16> get_state();
    /// Goes on from a state that get_state gave.
    void set_state(in bit<16> checksum_state);
}

enum PNA_CounterType_t {
    PACKETS,
    BYTES,
    PACKETS_AND_BYTES
}

// The forms of counters and meters that are told the packet's length.
#ifdef __PNA_DPDK__
#define __PNA_OVERLOADED_LENGTH__
#else
#ifdef __PNA_TWO_CONTROLS__
#define __PNA_OPTIONAL_LENGTH__
#endif
#endif

/// An array of counters, each of type `W`, indexed by `S`.
@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PNA_CounterType_t type);
#ifdef __PNA_OPTIONAL_LENGTH__
    void count(in S index, @optional in bit<32> increment);
#else
    void count(in S index);
#endif
#ifdef __PNA_OVERLOADED_LENGTH__
    void count(in S index, in bit<32> pkt_len);
#endif
}

/// One counter for each entry of the table that names it in `pna_direct_counter`.
@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PNA_CounterType_t type);
#ifdef __PNA_OPTIONAL_LENGTH__
    void count(@optional in bit<32> increment);
#else
    void count();
#endif
#ifdef __PNA_OVERLOADED_LENGTH__
    void count(in bit<32> pkt_len);
#endif
}

enum PNA_MeterType_t {
    PACKETS,
    BYTES
}

enum PNA_MeterColor_t { RED, GREEN, YELLOW }

/// An array of two-rate three-colour meters (RFC 2698), indexed by `S`.
extern Meter<S> {
    Meter(bit<32> n_meters, PNA_MeterType_t type);
    /// Colour-aware: never better than `color`.
    PNA_MeterColor_t execute(in S index, in PNA_MeterColor_t color);
    /// Colour-blind.
    PNA_MeterColor_t execute(in S index);
#ifdef __PNA_OVERLOADED_LENGTH__
    PNA_MeterColor_t dpdk_execute(in S index, in PNA_MeterColor_t color, in bit<32> pkt_len);
    PNA_MeterColor_t dpdk_execute(in S index, in bit<32> pkt_len);
#endif
}

/// One meter for each entry of the table that names it in `pna_direct_meter`.
extern DirectMeter {
    DirectMeter(PNA_MeterType_t type);
#ifdef __PNA_OPTIONAL_LENGTH__
    PNA_MeterColor_t execute(in PNA_MeterColor_t color, @optional in bit<32> pkt_len);
    PNA_MeterColor_t execute(@optional in bit<32> pkt_len);
#else
    PNA_MeterColor_t execute(in PNA_MeterColor_t color);
    PNA_MeterColor_t execute();
#endif
#ifdef __PNA_OVERLOADED_LENGTH__
    PNA_MeterColor_t dpdk_execute(in PNA_MeterColor_t color, in bit<32> pkt_len);
    PNA_MeterColor_t dpdk_execute(in bit<32> pkt_len);
#endif
}

/// An array of values that packets read and write, indexed by `S`.
extern Register<T, S> {
    /// The values are undefined at first.
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
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
    ActionSelector(PNA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

/// A stream of messages to the control plane.
extern Digest<T> {
    Digest();
    void pack(in T data);
}

#ifdef __PNA_DPDK__
enum ipsec_status {
    IPSEC_SUCCESS,
    IPSEC_ERROR
}

/// The NIC's own IPsec engine.
extern ipsec_accelerator {
    ipsec_accelerator();
    /// The security association to use.
    void set_sa_index<T>(in T sa_index);
    /// Where the IP header begins, in bytes.
    void set_ip_header_offset<T>(in T offset);
    void enable();
    void disable();
    /// Whether the packet comes from the engine, and how it fared there.
    bool from_ipsec(out ipsec_status status);
}
#endif

#ifdef __PNA_TWO_CONTROLS__
enum PNA_Direction_t {
    NET_TO_HOST,
    HOST_TO_NET
}

/// What brought a packet to the block.
enum PNA_PacketPath_t {
    FROM_NET_PORT,
    FROM_NET_LOOPEDBACK,
    FROM_NET_RECIRCULATED,
    FROM_HOST,
    FROM_HOST_LOOPEDBACK,
    FROM_HOST_RECIRCULATED
}

struct pna_pre_input_metadata_t {
    PortId_t        input_port;
    ParserError_t   parser_error;
    PNA_Direction_t direction;
    PassNumber_t    pass;
    bool            loopedback;
}

struct pna_pre_output_metadata_t {
    /// Whether the packet shall be decrypted, by which association and from which byte on.
    bool              decrypt;
    SecurityAssocId_t said;
    bit<16>           decrypt_start_offset;
}

struct pna_main_parser_input_metadata_t {
    PNA_Direction_t direction;
    PassNumber_t    pass;
    bool            loopedback;
    /// A network port for NET_TO_HOST, an interface of the host for HOST_TO_NET.
    PortId_t        input_port;
}

struct pna_main_input_metadata_t {
    PNA_Direction_t  direction;
    PassNumber_t     pass;
    bool             loopedback;
    Timestamp_t      timestamp;
    ParserError_t    parser_error;
    ClassOfService_t class_of_service;
    PortId_t         input_port;
}
#else
/// Where a packet comes from.
enum PNA_Source_t {
    FROM_HOST,
    FROM_NET
}

struct pna_main_parser_input_metadata_t {
    bool     recirculated;
    /// A network port or one of the host's.
    PortId_t input_port;
}

/// Whether `p` is one of the host's ports.
extern bool is_host_port(in PortId_t p);

/// Whether `p` is a network port.
extern bool is_net_port(in PortId_t p);

struct pna_main_input_metadata_t {
    bool             recirculated;
    Timestamp_t      timestamp;
    ParserError_t    parser_error;
    ClassOfService_t class_of_service;
    PortId_t         input_port;
}
#endif

struct pna_main_output_metadata_t {
    /// 0 at first.
    ClassOfService_t class_of_service;
}

/// The packet goes nowhere. Mirrored copies are still made.
extern void drop_packet();

#ifdef __PNA_TWO_CONTROLS__
/// The packet goes to `dest_port`.
extern void send_to_port(PortId_t dest_port);

/// A copy of the packet goes where `mirror_session_id` says. Each slot holds one session, the last one asked for.
extern void mirror_packet(MirrorSlotId_t mirror_slot_id,
                          MirrorSessionId_t mirror_session_id);

/// The packet, as deparsed, goes through the pipeline again.
extern void recirculate();

/// In the default action of a table with `add_on_miss`: adds an entry for the key that missed, with the action named
/// `action_name` and the arguments `action_params` (a struct with a field for each parameter). True when it was added.
extern bool add_entry<T>(string action_name,
                         in T action_params,
                         in ExpireTimeProfileId_t expire_time_profile_id);
#else
/// The packet goes to `dest_port`.
extern void send_to_port(in PortId_t dest_port);

/// A copy of the packet goes where `mirror_session_id` says. Each slot holds one session, the last one asked for.
extern void mirror_packet(in MirrorSlotId_t mirror_slot_id,
                          in MirrorSessionId_t mirror_session_id);

/// How an addition ended.
typedef bit<1> AddEntryErrorStatus_t;

const AddEntryErrorStatus_t ADD_ENTRY_SUCCESS = 0;
const AddEntryErrorStatus_t ADD_ENTRY_NOT_DONE = 1;

/// In the default action of a table with `add_on_miss`: adds an entry for the key that missed, with the action named
/// `action_name` and the arguments `action_params` (a struct with a field for each parameter).
extern AddEntryErrorStatus_t add_entry<T>(
    string action_name,
    in T action_params,
    in ExpireTimeProfileId_t expire_time_profile_id);

/// add_entry when `do_add_entry` is true, else ADD_ENTRY_NOT_DONE.
extern AddEntryErrorStatus_t add_entry_if<T>(
    in bool do_add_entry,
    string action_name,
    in T action_params,
    in ExpireTimeProfileId_t expire_time_profile_id);
#endif

/// The number of a flow that is in no other use.
extern FlowId_t allocate_flow_id();

/// In an action that an entry runs: sets the entry's idle time and begins it anew.
extern void set_entry_expire_time(
    in ExpireTimeProfileId_t expire_time_profile_id);

/// In an action that an entry runs: begins the entry's idle time anew.
extern void restart_expire_timer();

#ifdef __PNA_TWO_CONTROLS__
/// `n2h_value` for a packet to the host, `h2n_value` for one from it.
@pure
extern T SelectByDirection<T>(
    in PNA_Direction_t direction,
    in T n2h_value,
    in T h2n_value);

control PreControlT<PH, PM>(
    in PH pre_hdr,
    inout PM pre_user_meta,
    in pna_pre_input_metadata_t istd,
    inout pna_pre_output_metadata_t ostd);
#else
/// When `update_aging_info` is true: set_entry_expire_time if `update_expire_time` is true, restart_expire_timer if not.
extern void update_expire_info(
    in bool update_aging_info,
    in bool update_expire_time,
    in ExpireTimeProfileId_t expire_time_profile_id);

/// set_entry_expire_time when `condition` is true.
extern void set_entry_expire_time_if(
    in bool condition,
    in ExpireTimeProfileId_t expire_time_profile_id);

/// `from_net_value` for a packet from the network, `from_host_value` for one from the host.
@pure
extern T SelectByDirection<T>(
    in bool is_network_port,
    in T from_net_value,
    in T from_host_value);
#endif

parser MainParserT<MH, MM>(
    packet_in pkt,
    out MH main_hdr,
    inout MM main_user_meta,
    in pna_main_parser_input_metadata_t istd);

control MainControlT<MH, MM>(
    inout MH main_hdr,
    inout MM main_user_meta,
    in pna_main_input_metadata_t istd,
    inout pna_main_output_metadata_t ostd);

#ifdef __PNA_TWO_CONTROLS__
control MainDeparserT<MH, MM>(
    packet_out pkt,
    in MH main_hdr,
    in MM main_user_meta,
    in pna_main_output_metadata_t ostd);

package PNA_NIC<PH, PM, MH, MM>(
    MainParserT<MH, MM> main_parser,
    PreControlT<PH, PM> pre_control,
    MainControlT<MH, MM> main_control,
    MainDeparserT<MH, MM> main_deparser);
#else
control MainDeparserT<MH, MM>(
    packet_out pkt,
    inout MH main_hdr,
    in MM main_user_meta,
    in pna_main_output_metadata_t ostd);

package PNA_NIC<MH, MM>(
    MainParserT<MH, MM> main_parser,
    MainControlT<MH, MM> main_control,
    MainDeparserT<MH, MM> main_deparser);
#endif

#endif // __PNA_P4__

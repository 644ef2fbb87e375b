// A hypervisor of the programmable data plane (HyperVDP): one P4 program that runs many functions, each of them nothing but table entries.
//
// A packet's first bytes are read as a whole into `file`, in which the function that a packet belongs to has its headers and its metadata. What
// the function does is a line of stages. A stage is in a slot and has up to three parts: a condition, a match, and a run of up to @STEPS@ primitives.
// A link says which stage is next, in which slot it is, and which of the slot's tables it needs; all others are bypassed.
//
// Polyplane wrote this program: `polyplane hypervisor emit --slots @SLOTS@ --egress-slots @EGRESS_SLOTS@`. The same program runs every function; entries
// come from `polyplane hypervisor translate`.

#include <core.p4>
#include <v1model.p4>

// Headers (the upper 800 bits) and user metadata (the lower 256) of a function.
typedef bit<1056> File;
// An operand of a primitive.
typedef bit<256> Word;
// A place in the file: the distance of its last bit from the end of the file.
typedef bit<11> At;
typedef bit<16> Vpdp;
typedef bit<8>  Program;
typedef bit<12> Stage;
typedef bit<8>  Slot;
typedef bit<8>  Run;
typedef bit<@STEPS@>  Steps;

// No slot: the line of stages has ended.
const Slot NO_SLOT = 255;
// What the general parser reads at most.
const bit<32> MOST_BYTES = 100;
const bit<32> DESCRIPTION_BYTES = 4;
const bit<4>  DESCRIPTION_VERSION = 1;
// The instance type of resubmitted packets.
const bit<32> RESUBMITTED = 6;

// Which tables of a slot a stage needs.
enum bit<2> Ask   { Nothing = 0, Header = 1, Metadata = 2, Both = 3 }
enum bit<3> Match { Nothing = 0, Header = 1, Standard = 2, User = 3, Combined = 4 }

// The description header (rapid parsing): how many bytes it and the packet's headers have, and whose packet it is.
header description_t {
    bit<4>  version;
    bit<12> length;
    Vpdp    vpdp;
}

// Bytes of any number up to 127, as powers of two.
header bytes64_t { bit<512> data; }
header bytes32_t { bit<256> data; }
header bytes16_t { bit<128> data; }
header bytes8_t  { bit<64>  data; }
header bytes4_t  { bit<32>  data; }
header bytes2_t  { bit<16>  data; }
header bytes1_t  { bit<8>   data; }

struct bytes_t {
    bytes64_t b64;
    bytes32_t b32;
    bytes16_t b16;
    bytes8_t  b8;
    bytes4_t  b4;
    bytes2_t  b2;
    bytes1_t  b1;
}

struct headers_t {
    description_t description;
    // The function's headers as they leave.
    bytes_t front;
    // What was read: in the egress, what the function did not take as headers.
    bytes_t raw;
}

// How a packet enters the ingress: first, to go on at its stage, or as a packet that its function has resubmitted.
enum bit<2> Entering { New = 0, GoingOn = 1, BegunAgain = 2 }

// Where a packet goes on.
struct link_t {
    @field_list(1) Slot  slot;
    @field_list(1) Stage stage;
    @field_list(1) Ask   ask;
    @field_list(1) Match match;
    @field_list(1) Run   run;
    @field_list(1) Steps steps;
}

struct metadata_t {
    @field_list(1) File    file;
    // From here on: control.
    @field_list(1) Vpdp    vpdp;
    @field_list(1) Program program;
    // The stage that is next, the one after it, and the first one of the egress.
    @field_list(1) link_t  link;
    @field_list(1) link_t  next;
    @field_list(1) link_t  egress;
    // Bytes that were read, that the function took as headers, and that it sends as headers.
    @field_list(1) bit<7>  read;
    @field_list(1) bit<7>  taken;
    @field_list(1) bit<7>  sent;
    // What the function decided, kept over resubmissions.
    @field_list(1) Entering entering;
    // How it came: resubmission leaves neither the port nor the time.
    @field_list(1) bit<9>  ingress_port;
    @field_list(1) bit<48> arrived;
    @field_list(1) bit<1>  described;
    @field_list(1) bit<3>  instance;
    @field_list(1) bit<9>  egress_spec;
    @field_list(1) bit<16> mcast_grp;
    @field_list(1) bit<3>  priority;
}

struct message_t {
    Vpdp    vpdp;
    Program program;
    bit<8>  digest;
    Word    data;
}

// What stages share, cut into ranges by program. The first cell of each array is read, and the second written, for an index out of a range.
register<bit<64>>(@REGISTER_CELLS@) cells;
counter(@CELLS@, CounterType.packets_and_bytes) counts;
meter(@CELLS@, MeterType.packets) packet_rates;
meter(@CELLS@, MeterType.bytes) byte_rates;

// The bits at `at` that `mask` has, or a constant.
Word operand(in File file, in At at, in Word mask, in Word constant) {
    return ((Word)(file >> at) & mask) | constant;
}

// The file with `value` at `at`.
File put(in File file, in At at, in Word mask, in Word value) {
    return (file & ~((File)mask << at)) | ((File)(value & mask) << at);
}

parser GeneralParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // Ports whose packets have a description header.
    value_set<bit<9>>(512) described_ports;
    bit<32> length;

    state start {
        length = sm.packet_length;
        transition select(meta.entering, meta.described) {
            (Entering.New, _): by_port;
            (_, 1):            described;
            default:           measure;
        }
    }

    state by_port {
        transition select(sm.ingress_port) {
            described_ports: described;
            default:         measure;
        }
    }

    state described {
        meta.described = 1;
        packet.extract(hdr.description);
        verify(hdr.description.version == DESCRIPTION_VERSION && hdr.description.length >= 4, error.NoMatch);
        length = (bit<32>)hdr.description.length - DESCRIPTION_BYTES;
        transition measure;
    }

    state measure {
        meta.read = (bit<7>)(length < MOST_BYTES ? length : MOST_BYTES);
        transition select(meta.read[6:6]) { 1: read64; default: after64; }
    }

    state read64  { packet.extract(hdr.raw.b64); transition after64; }
    state after64 { transition select(meta.read[5:5]) { 1: read32; default: after32; } }
    state read32  { packet.extract(hdr.raw.b32); transition after32; }
    state after32 { transition select(meta.read[4:4]) { 1: read16; default: after16; } }
    state read16  { packet.extract(hdr.raw.b16); transition after16; }
    state after16 { transition select(meta.read[3:3]) { 1: read8; default: after8; } }
    state read8   { packet.extract(hdr.raw.b8); transition after8; }
    state after8  { transition select(meta.read[2:2]) { 1: read4; default: after4; } }
    state read4   { packet.extract(hdr.raw.b4); transition after4; }
    state after4  { transition select(meta.read[1:1]) { 1: read2; default: after2; } }
    state read2   { packet.extract(hdr.raw.b2); transition after2; }
    state after2  { transition select(meta.read[0:0]) { 1: read1; default: accept; } }
    state read1   { packet.extract(hdr.raw.b1); transition accept; }
}

control NoVerification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

// The bytes that were read, at the upper end of the file.
control Load(in bytes_t raw, in bit<7> count, out File file) {
    apply {
        file = 0;
        if (raw.b64.isValid()) { file = (File)raw.b64.data; }
        if (raw.b32.isValid()) { file = file << 256 | (File)raw.b32.data; }
        if (raw.b16.isValid()) { file = file << 128 | (File)raw.b16.data; }
        if (raw.b8.isValid())  { file = file << 64 | (File)raw.b8.data; }
        if (raw.b4.isValid())  { file = file << 32 | (File)raw.b4.data; }
        if (raw.b2.isValid())  { file = file << 16 | (File)raw.b2.data; }
        if (raw.b1.isValid())  { file = file << 8 | (File)raw.b1.data; }
        file = file << (bit<11>)1056 - ((bit<11>)count << 3);
    }
}

// The first `count` bytes of the file, as headers.
control Store(inout bytes_t bytes, in bit<7> count, inout File file) {
    apply {
        bytes.b64.setInvalid();
        bytes.b32.setInvalid();
        bytes.b16.setInvalid();
        bytes.b8.setInvalid();
        bytes.b4.setInvalid();
        bytes.b2.setInvalid();
        bytes.b1.setInvalid();
        if (count[6:6] == 1) { bytes.b64 = { file[1055:544] };  file = file << 512; }
        if (count[5:5] == 1) { bytes.b32 = { file[1055:800] };  file = file << 256; }
        if (count[4:4] == 1) { bytes.b16 = { file[1055:928] };  file = file << 128; }
        if (count[3:3] == 1) { bytes.b8  = { file[1055:992] };  file = file << 64; }
        if (count[2:2] == 1) { bytes.b4  = { file[1055:1024] }; file = file << 32; }
        if (count[1:1] == 1) { bytes.b2  = { file[1055:1040] }; file = file << 16; }
        if (count[0:0] == 1) { bytes.b1  = { file[1055:1048] }; file = file << 8; }
    }
}
@SLOT_CONTROLS@
control HypervisorIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
@INGRESS_INSTANCES@
    // The packet belongs to a program of a vPDP.
    action assign(Vpdp vpdp, Program program) {
        meta.vpdp = vpdp;
        meta.program = program;
    }

    action refuse() {
        mark_to_drop(sm);
    }

    // Whose packet it is: by its description header, or transparently by its port and first bytes (MAC addresses, type, VLAN).
    table classify {
        key = {
            hdr.description.isValid() : ternary @name("described");
            hdr.description.vpdp      : ternary @name("vpdp");
            sm.ingress_port           : ternary @name("port");
            meta.file[1055:896]       : ternary @name("first_bytes");
        }
        actions = { assign; refuse; }
        default_action = refuse();
        size = 4096;
    }

    // The packet's headers are laid out as those of one path through the function's parser: what of the file is kept, and what is written.
    action begin(bit<7> taken, bit<7> sent, File keep, File value,
                 Slot slot, Stage stage, Ask ask, Match match, Run run, Steps steps,
                 Slot egress_slot, Stage egress_stage, Ask egress_ask, Match egress_match, Run egress_run, Steps egress_steps) {
        meta.taken = taken;
        meta.sent = sent;
        meta.file = meta.file & keep | value;
        meta.link = { slot, stage, ask, match, run, steps };
        meta.egress = { egress_slot, egress_stage, egress_ask, egress_match, egress_run, egress_steps };
    }

    // Which path through the function's parser the packet takes.
    table parse {
        key = {
            meta.vpdp            : exact   @name("vpdp");
            meta.program         : exact   @name("program");
            meta.read            : range   @name("length");
            meta.file[1055:256]  : ternary @name("header");
        }
        actions = { begin; refuse; }
        default_action = refuse();
        size = 8192;
    }

    apply {
        if (meta.entering == Entering.GoingOn) {
            sm.egress_spec = meta.egress_spec;
            sm.mcast_grp = meta.mcast_grp;
            sm.priority = meta.priority;
            sm.ingress_port = meta.ingress_port;
            sm.ingress_global_timestamp = meta.arrived;
        } else {
            // A packet that its function has resubmitted has lost both, as it has without the hypervisor; whose it is stays.
            bool is_known = meta.entering == Entering.BegunAgain;
            meta.ingress_port = sm.ingress_port;
            meta.arrived = sm.ingress_global_timestamp;
            // What a function has kept when it resubmitted the packet.
            Word kept = meta.file[255:0];
            Load.apply(hdr.raw, meta.read, meta.file);
            meta.file[255:0] = kept;
            meta.entering = Entering.New;
            meta.instance = (bit<3>)sm.instance_type;
            meta.link.slot = NO_SLOT;
            meta.egress.slot = NO_SLOT;
            if (sm.parser_error != error.NoError) {
                refuse();
            } else if (is_known || classify.apply().hit) {
                parse.apply();
            }
        }
@INGRESS_SLOTS@
        // The next stage is in a slot that the packet has gone by.
        if (meta.link.slot != NO_SLOT) {
            meta.entering = Entering.GoingOn;
            meta.egress_spec = sm.egress_spec;
            meta.mcast_grp = sm.mcast_grp;
            meta.priority = sm.priority;
            resubmit_preserving_field_list(1);
        } else if (meta.entering == Entering.BegunAgain) {
            resubmit_preserving_field_list(1);
        }
    }
}

control HypervisorEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
@EGRESS_INSTANCES@
    apply {
        meta.link = meta.egress;
@EGRESS_SLOTS@
        // Write back: the function's headers, then what it did not take of what was read.
        Store.apply(hdr.front, meta.sent, meta.file);
        Load.apply(hdr.raw, meta.read, meta.file);
        meta.file = meta.file << ((bit<11>)meta.taken << 3);
        Store.apply(hdr.raw, meta.read - meta.taken, meta.file);
        hdr.description.length = (bit<12>)DESCRIPTION_BYTES + (bit<12>)meta.sent + (bit<12>)(meta.read - meta.taken);
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control GeneralDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(GeneralParser(), NoVerification(), HypervisorIngress(), HypervisorEgress(), NoChecksum(), GeneralDeparser()) main;

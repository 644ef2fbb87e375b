// Headers of monitors of a reflex plane that are P4 programs (docs/reference/reflex.md, "P4 programs").
//
// Each report that concerns the monitor arrives as a packet at port 0: a report header, then `hop_count` hop headers. The
// program sends a command as a packet to port 1: a command header; what follows it is ignored. Frames to other ports are ignored.
// The permissions of the monitor are macros: `REFLEX_` and the name of the permission in capitals, with `_` for other characters
// than letters and digits. So the permission "block host" is `REFLEX_BLOCK_HOST`.

#ifndef _REFLEX_P4_
#define _REFLEX_P4_

// Version of the headers, in both of them.
const bit<8> REPORT_VERSION = 1;
const bit<8> COMMAND_VERSION = 1;

// A report. A value that the report does not have is 0, and its `has_` bit, too.
header reflex_report_t {
    bit<8>   version;
    bit<8>   hop_count;    // hop headers after this one, at most 16, from the source to the sink
    bit<1>   has_flow;     // addresses and protocol
    bit<1>   has_ports;    // src_port and dst_port
    bit<1>   has_node;
    bit<1>   has_length;   // frame_bytes
    bit<1>   has_queue;
    bit<1>   has_drop;     // drop_reason: the packet was dropped
    bit<1>   has_path;     // the hops are the packet's path; else there is the node's own hop at most
    bit<1>   is_complete;  // no hop of the path is missing
    bit<8>   ip_version;   // 4 or 6
    bit<32>  node;         // node that sent the report
    bit<64>  time;         // arrival of the report in nanoseconds
    bit<32>  frame_bytes;  // length of the packet's frame without INT headers
    bit<8>   protocol;
    bit<8>   queue;        // of the node that sent the report
    bit<8>   drop_reason;
    bit<8>   unused;
    bit<16>  src_port;
    bit<16>  dst_port;
    bit<128> src_addr;     // an IPv4 address is in the lower 32 bits
    bit<128> dst_addr;
}

// Values of one node of the packet's path.
header reflex_hop_t {
    bit<1>  has_node;
    bit<1>  has_ports;         // ingress_port and egress_port
    bit<1>  has_latency;
    bit<1>  has_queue;         // queue and queue_depth
    bit<1>  has_ingress_time;
    bit<1>  has_egress_time;
    bit<2>  unused;
    bit<8>  queue;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<16> unused_2;
    bit<32> node;
    bit<32> queue_depth;       // in the node's unit
    bit<64> latency;           // time in the node in nanoseconds
    bit<64> ingress_time;      // by the node's clock, in nanoseconds
    bit<64> egress_time;
}

// What a command asks for. A permission has its object and its action, so it takes only some of them.
enum bit<8> ReflexChange {
    NONE  = 0, // the decision is only reported
    ENTRY = 1, // an entry with the permission's action; with `ports`, by another port than the packet took
    PORT  = 2, // an entry to the port `argument`, one of the permission's `ports`
    RATE  = 3, // a meter's rate of `argument` bytes a second
    VALUE = 4  // a register's cell or the room of a queue: `argument`
}

// Subject of a command. It gives an entry its key.
enum bit<8> ReflexSubject {
    ALL  = 0, // all that concerns the monitor: for meters, registers and queues
    FLOW = 1, // addresses, protocol, and ports if has_ports
    HOST = 2  // src_addr, for tables with an address as the only key
}

// Permissions that are not named: each one of the monitor, and the first one of an element on the packet's path.
const bit<16> EVERY_REFLEX = 0xfffe;
const bit<16> FIRST_REFLEX_ON_PATH = 0xffff;

// A command. `measured` and `limit` are shown with the decision.
header reflex_command_t {
    bit<8>        version;     // COMMAND_VERSION
    ReflexChange  change;
    ReflexSubject subject;
    bit<8>        ip_version;  // of the addresses: 4 or 6
    bit<16>       reflex;      // the permission: its macro, or one of the constants
    bit<8>        protocol;
    bit<7>        unused;
    bit<1>        has_ports;
    bit<16>       src_port;
    bit<16>       dst_port;
    bit<64>       argument;
    bit<64>       measured;
    bit<64>       limit;
    bit<128>      src_addr;
    bit<128>      dst_addr;
}

#endif

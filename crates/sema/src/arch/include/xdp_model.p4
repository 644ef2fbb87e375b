// xdp_model: a switch program at the kernel's XDP hook. Packet filters (ebpf_model) can be used with it as well.

#ifndef _XDP_MODEL_P4
#define _XDP_MODEL_P4

#include <core.p4>
#include <ebpf_model.p4>

/// What becomes of a packet.
enum xdp_action {
    /// The program failed; the packet is dropped.
    XDP_ABORTED,
    XDP_DROP,
    /// Goes on into the kernel.
    XDP_PASS,
    /// Goes out where it came in.
    XDP_TX,
    /// Goes out at `output_port`.
    XDP_REDIRECT
}

struct xdp_input {
    bit<32> input_port;
}

struct xdp_output {
    xdp_action output_action;
    bit<32>    output_port;
}

/// The checksum of an IPv4 header without options.
extern bit<16> ebpf_ipv4_checksum(in bit<4> version, in bit<4> ihl, in bit<8> diffserv,
                                  in bit<16> totalLen, in bit<16> identification, in bit<3> flags,
                                  in bit<13> fragOffset, in bit<8> ttl, in bit<8> protocol,
                                  in bit<32> srcAddr, in bit<32> dstAddr);

/// The checksum `csum` of data in which a 16-bit field changes from `old` to `new` (RFC 1624).
extern bit<16> csum_replace2(in bit<16> csum, in bit<16> old, in bit<16> new);

/// The checksum `csum` of data in which a 32-bit field changes from `old` to `new` (RFC 1624).
extern bit<16> csum_replace4(in bit<16> csum, in bit<32> old, in bit<32> new);

/// Sends an event to the kernel's perf buffer; the value is its status.
extern bit<32> BPF_PERF_EVENT_OUTPUT();

/// The low 32 bits of the time in nanoseconds.
extern bit<32> BPF_KTIME_GET_NS();

parser xdp_parse<H>(packet_in packet, out H headers);
control xdp_switch<H>(inout H headers, in xdp_input imd, out xdp_output omd);
control xdp_deparse<H>(in H headers, packet_out packet);

package xdp<H>(xdp_parse<H> p, xdp_switch<H> s, xdp_deparse<H> d);

#endif // _XDP_MODEL_P4

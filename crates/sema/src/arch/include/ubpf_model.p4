// ubpf_model: a switch program in a user-space BPF machine.
//
// UBPF_MODEL_VERSION 20200515 (the default) passes standard metadata to the blocks; earlier values do not.

#ifndef _UBPF_MODEL_P4_
#define _UBPF_MODEL_P4_

#include <core.p4>

#ifndef UBPF_MODEL_VERSION
#define UBPF_MODEL_VERSION 20200515
#endif

const bit<32> __ubpf_model_version = UBPF_MODEL_VERSION;

#if UBPF_MODEL_VERSION >= 20200515
/// What becomes of a packet.
enum ubpf_action {
    ABORT,
    DROP,
    PASS,
    REDIRECT
}

struct standard_metadata {
    /// Where the packet came in.
    bit<32>     input_port;
    /// Bytes in the frame.
    bit<32>     packet_length;
    /// Set by the program; PASS at first.
    ubpf_action output_action;
    /// Where a REDIRECT goes.
    bit<32>     output_port;
    /// Whether a copy goes to `clone_port`.
    bool        clone;
    bit<32>     clone_port;
}
#endif

/// Drops the packet, unless mark_to_pass follows. Only in the pipeline.
extern void mark_to_drop();

/// Passes the packet, as is the default. Only in the pipeline.
extern void mark_to_pass();

/// An array of `size` values that packets read and write.
extern Register<T, S> {
    Register(bit<32> size);
    T read(in S index);
    void write(in S index, in T value);
}

/// The time in nanoseconds.
extern bit<48> ubpf_time_get_ns();

/// Cuts the outgoing packet to at most `len` bytes, and never to less than an Ethernet header's 14.
extern void truncate(in bit<32> len);

enum HashAlgorithm {
    lookup3
}

/// The hash of `data`, of at most 64 bits.
extern void hash<D>(out bit<32> result, in HashAlgorithm algo, in D data);

/// The checksum `csum` of data in which a 16-bit field changes from `old` to `new` (RFC 1624).
extern bit<16> csum_replace2(in bit<16> csum, in bit<16> old, in bit<16> new);

/// The checksum `csum` of data in which a 32-bit field changes from `old` to `new` (RFC 1624).
extern bit<16> csum_replace4(in bit<16> csum, in bit<32> old, in bit<32> new);

#if UBPF_MODEL_VERSION >= 20200515
parser parse<H, M>(packet_in packet, out H headers, inout M meta, inout standard_metadata std);
control pipeline<H, M>(inout H headers, inout M meta, inout standard_metadata std);
#else
parser parse<H, M>(packet_in packet, out H headers, inout M meta);
control pipeline<H, M>(inout H headers, inout M meta);
#endif

/// May only emit.
@deparser
control deparser<H>(packet_out b, in H headers);

package ubpf<H, M>(parse<H, M> prs,
                   pipeline<H, M> p,
                   deparser<H> dprs);

#endif // _UBPF_MODEL_P4_

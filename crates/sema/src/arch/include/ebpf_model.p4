// ebpf_model: a packet filter in the kernel. The program parses a packet and says whether to accept it.

#ifndef _EBPF_MODEL_P4_
#define _EBPF_MODEL_P4_

#include <core.p4>

/// Counters of 32 bits, indexed from 0 to `max_index`. `sparse` says that few of the indices are in use.
extern CounterArray {
    CounterArray(bit<32> max_index, bool sparse);
    /// Adds 1 at `index`.
    void increment(in bit<32> index);
    /// Adds `value` at `index`.
    void add(in bit<32> index, in bit<32> value);
}

/// The `implementation` of a table kept in an array map of `size` entries (a prefix tree when a key is lpm).
extern array_table {
    array_table(bit<32> size);
}

/// The `implementation` of a table kept in a hash map of at most `size` entries.
extern hash_table {
    hash_table(bit<32> size);
}

parser parse<H>(packet_in packet, out H headers);
control filter<H>(inout H headers, out bool accept);

package ebpfFilter<H>(parse<H> prs,
                      filter<H> filt);

#endif // _EBPF_MODEL_P4_

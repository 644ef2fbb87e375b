// A monitor of a reflex plane: a host that sends a burst of packets is blocked at its edge.
//
// Each watched packet has a report, and each report is a packet of this program. The packets of a host are counted in windows.
// A window starts with the host's first packet after the last window. The control plane sets, by prefixes of hosts, how many
// packets a window may have; hosts without an entry are not counted.

#include <core.p4>
#include <v1model.p4>
#include <reflex.p4>

typedef bit<32> Address;

const bit<32> CELLS = 8192;
const bit<9> COMMAND_PORT = 1;

struct headers_t {
    reflex_report_t report;
    reflex_command_t command;
}

struct metadata_t { }

parser BurstParser(packet_in packet,
                   out headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.report);
        // The hops are not needed.
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control BurstIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    // By a hash of the host: the host that has the cell, the start of its window, and its packets in it.
    register<Address>(CELLS) hosts;
    register<bit<64>>(CELLS) starts;
    register<bit<32>>(CELLS) counts;
    counter(1, CounterType.packets) without_cell;

    bit<32> most = 0;
    bit<64> window = 0;

    action limit(bit<32> packets, bit<64> nanoseconds) {
        most = packets;
        window = nanoseconds;
    }

    // How many packets hosts may send in how many nanoseconds.
    table limits {
        key = { hdr.report.src_addr[31:0] : lpm @name("host"); }
        actions = { limit; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action block(Address host, bit<32> packets) {
        hdr.command.setValid();
        hdr.command.version = COMMAND_VERSION;
        hdr.command.change = ReflexChange.ENTRY;
        hdr.command.subject = ReflexSubject.HOST;
        hdr.command.ip_version = 4;
        hdr.command.reflex = FIRST_REFLEX_ON_PATH;
        hdr.command.measured = (bit<64>) packets;
        hdr.command.limit = (bit<64>) most;
        hdr.command.src_addr = (bit<128>) host;
        standard_metadata.egress_spec = COMMAND_PORT;
    }

    apply {
        mark_to_drop(standard_metadata);
        Address host = hdr.report.src_addr[31:0];
        if (hdr.report.ip_version == 4 && limits.apply().hit) {
            bit<32> cell;
            hash(cell, HashAlgorithm.crc32, 32w0, { host }, CELLS);
            @atomic {
                Address owner;
                bit<64> start;
                bit<32> count;
                hosts.read(owner, cell);
                starts.read(start, cell);
                counts.read(count, cell);
                bool is_over = owner == 0 || hdr.report.time - start >= window;
                if (owner != host && !is_over) {
                    // Another host has the cell until its window ends.
                    without_cell.count(0);
                } else {
                    if (is_over) {
                        starts.write(cell, hdr.report.time);
                        count = 0;
                    }
                    count = count |+| 1;
                    hosts.write(cell, host);
                    counts.write(cell, count);
                    if (count > most) {
                        block(host, count);
                    }
                }
            }
        }
        hdr.report.setInvalid();
    }
}

control BurstEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { }
}

control BurstDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.command);
    }
}

V1Switch(BurstParser(),
         NoChecksum(),
         BurstIngress(),
         BurstEgress(),
         NoChecksum(),
         BurstDeparser()) main;

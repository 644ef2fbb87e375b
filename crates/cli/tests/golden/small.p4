#include <core.p4>
#include <v1model.p4>

header station_t { bit<8> number; }
struct headers_t { station_t station; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.station); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action to_port(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    table stations {
        key = { hdr.station.number: exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 16;
    }
    apply { stations.apply(); }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;

//! Programs of v1model that parse Ethernet and IPv4, and update the checksum of the header.

/// Returns the program with this ingress control, which has the name `I`.
pub(crate) fn ipv4_program(ingress: &str) -> String {
    format!("{BEFORE}{ingress}{AFTER}")
}

const BEFORE: &str = "
    #include <core.p4>
    #include <v1model.p4>
    header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
    header ipv4_t {
        bit<8> version_ihl; bit<8> tos; bit<16> length; bit<32> id;
        bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
    }
    struct headers { ethernet_t ethernet; ipv4_t ipv4; }
    struct metadata { }
    parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
        state start {
            p.extract(hdr.ethernet);
            transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
        }
        state ipv4 { p.extract(hdr.ipv4); transition accept; }
    }
    control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
    control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
    control V(inout headers hdr, inout metadata m) { apply { } }
    control C(inout headers hdr, inout metadata m) { apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length,
            hdr.ipv4.id, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    } }
";

const AFTER: &str = "
    V1Switch(P(), V(), I(), E(), C(), D()) main;
";

// A layer 4 load balancer.
//
// Clients speak to virtual addresses. A new flow goes to the server that a hash of its five-tuple picks from the virtual
// address's buckets; registers remember the choice, so that a flow stays with its server when the control plane changes
// the buckets. Packets from the servers go back under the virtual address.
//
// The memory is a hash table without chains: when two live flows meet in one cell, the newer one is not remembered and
// follows the buckets. A cell whose flow is silent for FLOW_TIMEOUT is free again.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;
typedef bit<16> L4Port;
typedef bit<16> ServerId;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

const bit<32> FLOWS = 65536;
const bit<48> FLOW_TIMEOUT = 60 * 1000 * 1000; // microseconds

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     total_length;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     fragment_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    Ipv4Address src;
    Ipv4Address dst;
}

header tcp_t {
    L4Port  src;
    L4Port  dst;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    L4Port  src;
    L4Port  dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    L4Port   src_port;
    L4Port   dst_port;
    bit<16>  l4_length;
    bit<16>  pool;
    bit<16>  buckets;
    ServerId server;
    // Whether a new UDP checksum is made.
    bool     makes_checksum;
}

parser BalancerParser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.l4_length = hdr.ipv4.total_length - 20;
        // Fragments are not balanced: only the first one has ports. (MF is the lowest flag.)
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP): parse_tcp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default:                          accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src;
        meta.dst_port = hdr.tcp.dst;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src;
        meta.dst_port = hdr.udp.dst;
        transition accept;
    }
}

control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

// Which server a flow is with. A cell is the flow's fingerprint, its server and when it was last seen.
control FlowMemory(in headers_t hdr, inout metadata_t meta, in bit<48> now, in ServerId proposed) {
    register<bit<32>>(FLOWS)  fingerprints;
    register<ServerId>(FLOWS) servers;
    register<bit<48>>(FLOWS)  last_seen;

    apply {
        bit<32> cell;
        bit<32> fingerprint;
        hash(cell, HashAlgorithm.crc16, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port }, FLOWS);
        hash(fingerprint, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port }, 33w0x100000000);

        // One packet looks at the three registers and changes them before the next one does.
        @atomic {
            bit<32>  remembered;
            ServerId server;
            bit<48>  seen;
            fingerprints.read(remembered, cell);
            servers.read(server, cell);
            last_seen.read(seen, cell);
            bool live = server != 0 && now - seen < FLOW_TIMEOUT;
            if (live && remembered == fingerprint) {
                meta.server = server;
                last_seen.write(cell, now);
            } else {
                meta.server = proposed;
                if (!live) {
                    fingerprints.write(cell, fingerprint);
                    servers.write(cell, proposed);
                    last_seen.write(cell, now);
                }
            }
        }
    }
}

control BalancerIngress(inout headers_t hdr,
                        inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    FlowMemory() flow_memory;
    direct_counter(CounterType.packets_and_bytes) server_hits;

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    // The destination is a virtual address whose flows are spread over `buckets` buckets.
    action to_pool(bit<16> pool, bit<16> buckets) {
        meta.pool = pool;
        meta.buckets = buckets;
    }

    table virtual_address {
        key = {
            hdr.ipv4.dst      : exact;
            hdr.ipv4.protocol : exact;
            meta.dst_port     : exact;
        }
        actions = { to_pool; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action use_server(ServerId server) {
        meta.server = server;
    }

    table bucket {
        key = {
            meta.pool   : exact;
            meta.server : exact @name("bucket");
        }
        actions = { use_server; drop; }
        default_action = drop();
        size = 65536;
    }

    // Server ids begin with 1.
    action to_server(Ipv4Address address, L4Port l4_port, Mac mac, Port port) {
        server_hits.count();
        hdr.ipv4.dst = address;
        hdr.ethernet.dst = mac;
        meta.dst_port = l4_port;
        standard_metadata.egress_spec = port;
    }

    table server {
        key = { meta.server : exact; }
        actions = { to_server; drop; }
        default_action = drop();
        counters = server_hits;
        size = 4096;
    }

    // The source is a server: clients know it by its virtual address.
    action from_virtual_address(Ipv4Address address, L4Port l4_port) {
        hdr.ipv4.src = address;
        meta.src_port = l4_port;
    }

    table server_source {
        key = {
            hdr.ipv4.src      : exact;
            hdr.ipv4.protocol : exact;
            meta.src_port     : exact;
        }
        actions = { from_virtual_address; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    action to_port(Port port, Mac mac) {
        hdr.ethernet.dst = mac;
        standard_metadata.egress_spec = port;
    }

    table route {
        key = { hdr.ipv4.dst : lpm; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1 ||
            standard_metadata.parser_error != error.NoError || hdr.ipv4.ttl <= 1) {
            drop();
        }
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        if (!(hdr.tcp.isValid() || hdr.udp.isValid())) {
            route.apply();
            return;
        }
        if (virtual_address.apply().hit) {
            hash(meta.server, HashAlgorithm.crc32, 16w0,
                 { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port }, meta.buckets);
            bucket.apply();
            flow_memory.apply(hdr, meta, standard_metadata.ingress_global_timestamp, meta.server);
            server.apply();
        } else {
            server_source.apply();
            route.apply();
        }
        if (hdr.tcp.isValid()) {
            hdr.tcp.src = meta.src_port;
            hdr.tcp.dst = meta.dst_port;
        } else {
            hdr.udp.src = meta.src_port;
            hdr.udp.dst = meta.dst_port;
            meta.makes_checksum = hdr.udp.checksum != 0;
        }
    }
}

control BalancerEgress(inout headers_t hdr,
                       inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // TCP's options are payload here: they follow the header and are summed with it.
        update_checksum_with_payload(hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length,
              hdr.tcp.src, hdr.tcp.dst, hdr.tcp.sequence, hdr.tcp.acknowledgement, hdr.tcp.data_offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        // A zero says that the sender made no checksum, and stays; a checksum that comes out as zero is sent as all ones,
        // which is what a sum of zero gives.
        update_checksum_with_payload(meta.makes_checksum,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length,
              hdr.udp.src, hdr.udp.dst, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.makes_checksum && hdr.udp.checksum == 0, { 16w0 },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control BalancerDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(BalancerParser(),
         VerifyIpv4Checksum(),
         BalancerIngress(),
         BalancerEgress(),
         UpdateChecksums(),
         BalancerDeparser()) main;

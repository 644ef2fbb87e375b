// A stateful firewall for the Portable NIC Architecture.
//
// The host may open connections to the network; from the network only packets of such connections come in. The data plane
// itself keeps the connections: a packet from the host that opens one and misses the table adds its entry, and an entry that
// is idle for long enough goes away.

#include <core.p4>
#include <bmv2/pna.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

const bit<8> TCP_FIN = 0x01;
const bit<8> TCP_SYN = 0x02;
const bit<8> TCP_RST = 0x04;
const bit<8> TCP_ACK = 0x10;

// Which of the configured idle times a connection has.
const ExpireTimeProfileId_t OPEN    = (ExpireTimeProfileId_t) 0;
const ExpireTimeProfileId_t CLOSING = (ExpireTimeProfileId_t) 1;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header l4_ports_t {
    bit<16> src;
    bit<16> dst;
}

header tcp_rest_t {
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    l4_ports_t l4;
    tcp_rest_t tcp;
}

struct metadata_t { }

parser FirewallParser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // Fragments have no connection that one could tell; MF is the lowest flag.
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP): parse_tcp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default:                          accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.l4);
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.l4);
        transition accept;
    }
}

// The parameters of the action that a new entry gets, as add_entry wants them.
struct tracked_params_t {
    bit<32> opener;
}

control FirewallControl(inout headers_t hdr,
                        inout metadata_t meta,
                        in pna_main_input_metadata_t istd,
                        inout pna_main_output_metadata_t ostd) {
    Counter<bit<64>, bit<8>>(2, PNA_CounterType_t.PACKETS) refused;

    bool from_net = true;
    bool allowed = false;

    action refuse() {
        drop_packet();
    }

    // A packet from the network goes to the host's port, one from the host to the network's.
    action to_host(PortId_t port) {
        from_net = true;
        send_to_port(port);
    }

    action to_net(PortId_t port) {
        from_net = false;
        send_to_port(port);
    }

    table forward {
        key = { istd.input_port : exact; }
        actions = { to_host; to_net; refuse; }
        const default_action = refuse();
        size = 512;
    }

    // A packet of a known connection, which the host address `opener` opened.
    action tracked(bit<32> opener) {
        allowed = true;
        if (hdr.tcp.isValid() && (hdr.tcp.flags & (TCP_FIN | TCP_RST)) != 0) {
            set_entry_expire_time(CLOSING);
        } else {
            restart_expire_timer();
        }
    }

    action untracked() {
        // A TCP connection begins with SYN alone; UDP has no beginning.
        bool opens = !from_net && (!hdr.tcp.isValid() || (hdr.tcp.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN);
        add_entry_if(opens, "tracked", (tracked_params_t) { opener = hdr.ipv4.src }, OPEN);
        allowed = opens;
    }

    // One entry stands for both directions: its key is written from the host's side.
    table connections {
        key = {
            SelectByDirection(from_net, hdr.ipv4.dst, hdr.ipv4.src) : exact @name("host");
            SelectByDirection(from_net, hdr.ipv4.src, hdr.ipv4.dst) : exact @name("remote");
            hdr.ipv4.protocol                                       : exact @name("protocol");
            SelectByDirection(from_net, hdr.l4.dst, hdr.l4.src)     : exact @name("host_port");
            SelectByDirection(from_net, hdr.l4.src, hdr.l4.dst)     : exact @name("remote_port");
        }
        actions = { @tableonly tracked; @defaultonly untracked; }
        const default_action = untracked();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 65536;
    }

    apply {
        forward.apply();
        if (hdr.l4.isValid()) {
            connections.apply();
        } else {
            allowed = hdr.ethernet.isValid() && hdr.ethernet.type == ETHERTYPE_ARP;
        }
        if (!allowed) {
            refused.count(from_net ? 8w1 : 8w0);
            drop_packet();
        }
    }
}

control FirewallDeparser(packet_out packet,
                         inout headers_t hdr,
                         in metadata_t meta,
                         in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr);
    }
}

PNA_NIC(FirewallParser(),
        FirewallControl(),
        FirewallDeparser()) main;

// A core switch of HyperVDP's fat-tree (figure 16): L3_SW, FW and QoS as one program.

// Each function is a program of its own, too.
#define main l3_sw_alone
#include "../../functions/l3_sw.p4"
#undef main
#define main fw_alone
#include "../../functions/fw.p4"
#undef main
#define main qos_alone
#include "../../functions/qos.p4"
#undef main

control Core(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    L3Switch() l3;
    Firewall() firewall;
    Qos() qos;

    apply {
        l3.apply(hdr, meta, standard_metadata);
        firewall.apply(hdr, meta, standard_metadata);
        qos.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(FunctionParser(), NoVerification(), Core(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;

// An aggregate switch of HyperVDP's fat-tree (figure 16): MAC Learn, L2_SW and QoS within the pod, L2_SW between pods, as one program.

// Each function is a program of its own, too.
#define main mac_learn_alone
#include "../../functions/mac_learn.p4"
#undef main
#define main l2_sw_alone
#include "../../functions/l2_sw.p4"
#undef main
#define main qos_alone
#include "../../functions/qos.p4"
#undef main

control Aggregate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    MacLearn() learn;
    L2Switch() l2;
    Qos() qos;

    apply {
        // A pod is a network of 16 bits.
        bool is_intra_pod = hdr.ipv4.isValid() && hdr.ipv4.src[31:16] == hdr.ipv4.dst[31:16];
        if (is_intra_pod) {
            learn.apply(hdr, meta, standard_metadata);
        }
        l2.apply(hdr, meta, standard_metadata);
        if (is_intra_pod) {
            qos.apply(hdr, meta, standard_metadata);
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), Aggregate(), L2Egress(), UpdateChecksum(), FunctionDeparser()) main;

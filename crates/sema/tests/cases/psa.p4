// The rules of PSA.
#include <bmv2/psa.p4>

struct Empty {}
header H { bit<8> a; }
struct Hs { H h; }

parser IP(packet_in p, out Hs hs, inout Empty m, in psa_ingress_parser_input_metadata_t s, in Empty r, in Empty c) {
    state start { p.extract(hs.h); transition accept; }
}
parser EP(packet_in p, out Hs hs, inout Empty m, in psa_egress_parser_input_metadata_t s, in Empty n, in Empty c1, in Empty c2) {
    state start { p.extract(hs.h); transition accept; }
}
control I(inout Hs hs, inout Empty m, in psa_ingress_input_metadata_t s, inout psa_ingress_output_metadata_t o) {
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) counts;
    DirectMeter(PSA_MeterType_t.BYTES) rates;
    ActionProfile(16) profile;
    action count() { counts.count(); }          // error[E1001]
    action meter_it() { rates.execute(); }      // error[E1001]
    table a { key = { hs.h.a : exact; } actions = { count; NoAction; } psa_direct_counter = counts; }
    table b { key = { hs.h.a : exact; } actions = { count; NoAction; } psa_implementation = profile; }
    table c { key = { hs.h.a : exact; } actions = { meter_it; NoAction; } psa_implementation = 3; }      // error[E1001]
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) first;
    DirectCounter<bit<32>>(PSA_CounterType_t.BYTES) second;
    DirectCounter<bit<32>>(PSA_CounterType_t.BYTES) third;
    table d { key = { hs.h.a : exact; } actions = { NoAction; } psa_direct_counter = { first }; }
    table e { key = { hs.h.a : exact; } actions = { NoAction; } psa_direct_counter = { second, third }; }   // error[E1001]
    apply {
        a.apply(); b.apply(); c.apply(); d.apply(); e.apply();
        counts.count();                         // error[E1001]
        if (psa_resubmit(o)) {}                 // error[E1001]
    }
}
control ID(packet_out p, out Empty c, out Empty r, out Empty n, inout Hs hs, in Empty m, in psa_ingress_output_metadata_t o) {
    apply { if (psa_resubmit(o)) { p.emit(hs); } }
}
control E(inout Hs hs, inout Empty m, in psa_egress_input_metadata_t s, inout psa_egress_output_metadata_t o) { apply {} }
control ED(packet_out p, out Empty c, out Empty r, inout Hs hs, in Empty m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t d) {
    apply { p.emit(hs); }
}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;

// The rules of v1model.
#include <v1model.p4>

header H { bit<8> a; bit<32> x; bit<32> y; }
struct Hs { H h; }
struct M { bit<2> color; bit<8> bound; }
struct Data { bit<8> d; }

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start {
        p.extract(hs.h);
        transition select(hs.h.a) {
            m.bound &&& 0xff : accept;          // error[E1001]
            1 .. 2 : accept;
            default : reject;
        }
    }
}
control V(inout Hs hs, inout M m) {
    apply { verify_checksum(true, { hs.h.a }, hs.h.x, HashAlgorithm.crc32); }
}
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    direct_meter<bit<2>>(MeterType.bytes) read;
    direct_meter<bit<2>>(MeterType.bytes) unread;       // error[E1001]
    direct_meter<bit<2>>(MeterType.bytes) loose;
    direct_counter(CounterType.packets) counts;
    action meter_it() { read.read(m.color); }
    action loose_it() { loose.read(m.color); }  // error[E1001]
    action takes(Data d) {}                     // error[E1001]
    table one { key = { hs.h.x : lpm; hs.h.y : lpm; } actions = { meter_it; NoAction; } meters = read; }    // error[E1001]
    table two { key = { hs.h.x : exact; } actions = { loose_it; takes; NoAction; } meters = unread; counters = counts; }
    table three { key = { hs.h.x : exact; } actions = { NoAction; } counters = loose; }     // error[E1001]
    table four {
        key = { hs.h.x : exact; hs.h.y : lpm; }
        actions = { NoAction; }
        const entries = {
            (1 &&& 3, 0) : NoAction();          // error[E0704]
            (1, 0x10 &&& 0x11) : NoAction();    // error[E0704]
            (2, 1 .. 2) : NoAction();           // error[E0704]
            (3, 0xff000000 &&& 0xff000000) : NoAction();
        }
    }
    apply {
        update_checksum(true, { hs.h.a }, hs.h.x, HashAlgorithm.crc32);     // error[E1001]
        resubmit_preserving_field_list(1);
        recirculate_preserving_field_list(1);   // warning[W1001]
        counts.count();                         // error[E1001]
        one.apply(); two.apply(); three.apply(); four.apply();
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply {} }
control C(inout Hs hs, inout M m) { apply {} }
control D(packet_out p, in Hs hs) { apply { p.emit(hs); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;

// Registers and meters are read at an index that lies inside or outside of them.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; bit<32> cell; bit<8> color; bit<16> pair; }
struct headers_t { h_t h; }
struct pair_t { bit<8> a; bit<8> b; }
struct meta_t { }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) { apply { } }
control InControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) cells;
    register<pair_t>(4) pairs;
    meter(4, MeterType.packets) rate;
    apply {
        bit<32> index = (bit<32>)h.h.index;
        pair_t pair = { h.h.pair[15:8], h.h.pair[7:0] };
        cells.write(3, 7);
        cells.write(4, 9);
        pairs.write(3, { 1, 2 });
        cells.read(h.h.cell, index);
        cells.read(h.h.cell, 9);
        pairs.read(pair, index);
        rate.execute_meter(index, h.h.color);
        h.h.pair = pair.a ++ pair.b;
        s.egress_spec = 1;
    }
}
control OutControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control Update(inout headers_t h, inout meta_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(Parse(), Verify(), InControl(), OutControl(), Update(), Deparse()) main;

// Structs and tuples: initialisers by name and by position, nesting, assignment, comparison, tuple elements, ... for the rest.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> by_name;
    bit<8> by_position;
    bit<8> nested;
    bit<8> equal;
    bit<8> tuple_first;
    bit<8> tuple_second;
    bit<8> rest;
    bit<8> copied;
}

#include "harness.p4"

struct point_t {
    bit<8> x;
    bit<8> y;
}

struct line_t {
    point_t from;
    point_t to;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        point_t p = { y = hdr.i.b, x = hdr.i.a };
        point_t q = { hdr.i.a, hdr.i.b };
        hdr.o.by_name = p.x + 2 * p.y;
        hdr.o.by_position = q.x - q.y;
        line_t line = { { 1, 2 }, q };
        hdr.o.nested = line.from.y + line.to.x;
        hdr.o.equal = (bit<8>)(bit<1>)(p == q) + 2 * (bit<8>)(bit<1>)(line.from == p);
        tuple<bit<8>, bit<16>> t = { hdr.i.b, 0x0102 };
        hdr.o.tuple_first = t[0];
        hdr.o.tuple_second = t[1][7:0];
        line_t mostly = { to = { x = 9, y = 9 }, ... };
        hdr.o.rest = mostly.from.x + mostly.to.y;
        point_t copy = line.to;
        line.to.x = 0;
        hdr.o.copied = copy.x;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;

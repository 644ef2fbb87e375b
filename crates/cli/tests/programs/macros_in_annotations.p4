// Macros and constants in annotations give the numbers and texts of the P4Info.
#include <core.p4>
#include <v1model.p4>
#define TABLE_ID 0x02000010
#define N 17
#define PKG "my.pkg"
#define FIVE 5
#define TXT "x"
#define HEAD "packet_in"
#define WIDTH 32
#define RULE "h.h.a::mask == -1"
const int SEVEN = 7;
struct M { }
@p4runtime_translation("uri", bit<WIDTH>) type bit<9> Port;
@controller_header(HEAD) header pin_t { bit<16> port; }
header h_t { bit<8> a; bit<8> b; }
struct H { pin_t pin; h_t h; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    @id(N) action a(@id(N) bit<9> p) { s.egress_spec = p; }
    @id(SEVEN) action b(Port p) { s.egress_spec = (bit<9>)p; }
    @max_group_size(N) action_selector(HashAlgorithm.crc16, 32w64, 32w16) sel;
    @id(TABLE_ID) @brief(TXT) @mine(FIVE, TXT) @entry_restriction(RULE)
    table t { key = { h.h.a : ternary @id(N); h.h.b : selector; } actions = { a; b; } implementation = sel; }
    apply { t.apply(); }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
@pkginfo(name = PKG, version = "1")
V1Switch(P(), V(), I(), E(), V(), D()) main;

// Rules about parsers (P4_16 specification, section 13). A case begins at //#; each line that must be refused is marked //~; a case
// without marks must be accepted.

#include <core.p4>

header h_t { bit<8> x; }
header v_t { bit<8> n; varbit<32> v; }
header vv_t { varbit<8> v; varbit<8> w; }

//# a parser begins with start
parser p(packet_in b) { //~
    state first {
        transition accept;
    }
}

//# a state that nobody declared
parser p(packet_in b) {
    state start {
        transition next; //~
    }
}

//# a state declared twice
parser p(packet_in b) {
    state start { transition s; }
    state s { transition accept; }
    state s { transition reject; } //~
}

//# accept is not declared
parser p(packet_in b) {
    state start { transition accept; }
    state accept { transition reject; } //~
}

//# a key set has the type of its key
parser p(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        transition select(h.x) {
            16w5:    accept; //~
            default: reject;
        }
    }
}

//# a tuple of keys needs tuples of values
parser p(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        transition select(h.x, h.x) {
            (1, 2, 3): accept; //~
            default:   reject;
        }
    }
}

//# a key set may depend on what was parsed
parser p(packet_in b, out h_t h, in bit<8> n) {
    state start {
        b.extract(h);
        transition select(h.x) {
            n:       accept;
            default: reject;
        }
    }
}

//# only headers are extracted
parser p(packet_in b, out bit<8> x) {
    state start {
        b.extract(x); //~
        transition accept;
    }
}

//# a header with a varbit needs the length
parser p(packet_in b, out v_t v) {
    state start {
        b.extract(v); //~
        transition accept;
    }
}

//# a header without a varbit takes no length
parser p(packet_in b, out h_t h) {
    state start {
        b.extract(h, 8); //~
        transition accept;
    }
}

//# lookahead has a fixed size
parser p(packet_in b) {
    state start {
        v_t v = b.lookahead<v_t>(); //~
        transition accept;
    }
}

//# verify takes an error
parser p(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        verify(h.x == 1, 5); //~
        transition accept;
    }
}

//# verify is for parsers
control c(in h_t h) {
    apply {
        verify(h.x == 1, error.NoError); //~
    }
}

//# a value set's size is a constant
parser p(packet_in b, in bit<32> n) {
    value_set<bit<8>>(n) set; //~
    state start { transition accept; }
}

//# a parser has no tables
parser p(packet_in b) {
    state start {
        nosuch.apply(); //~
        transition accept;
    }
}

//# parsers may call each other, but not in a circle
parser p(packet_in b, out h_t h) {
    state start {
        p.apply(b, h); //~
        transition accept;
    }
}

//# a state has no loop: sections 13.4 and 12.8
parser item(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        transition accept;
    }
}
parser p(packet_in b, out h_t h) {
    item() i;
    state start {
        for (bit<8> n = 0; n < 2; n = n + 1) { //~
            i.apply(b, h);
        }
        transition accept;
    }
}

//# nor a switch, also inside a condition
parser item(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        transition accept;
    }
}
parser p(packet_in b, out h_t h, in bit<8> n) {
    item() i;
    state start {
        if (n > 1) {
            switch (n) { //~
                2: { i.apply(b, h); }
            }
        }
        transition accept;
    }
}

control Reduction@R@(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    // The first open epoch: incarnation, epoch.
    register<bit<64>>(@MEMBERS@) base_@R@;
    // Used slots of each bank: generation, slots. A generation is an incarnation's epoch.
    register<bit<64>>(@BANKS@) banks_@R@;
    // Places of keys: generation, slot. A place of another generation is empty.
    register<bit<64>>(@ALL_INDEX@) index_@R@;
    register<bit<@KEY_BITS@>>(@ALL_SLOTS@) keys_@R@;
    // Number of combined pairs, value. Of a vector: number of mappers, number of combined blocks.
    register<bit<@SLOT_VALUE_BITS@>>(@ALL_SLOTS@) values_@R@;
@LANES@
    // For each flow and place of the window: incarnation, sequence number, pairs that were cut.
    register<bit<128>>(@CELLS@) cells_@R@;

    bit<64> base;
    bit<16> open;
    bit<64> bank;
    bit<40> generation;
    bit<32> used;
    bit<32> slot_base;
    bit<32> index_base;
    bit<32> place;
    bit<32> step;
    bit<32> position;
    bit<64> entry;
    bit<@KEY_BITS@> key;
    bit<32> slot;
    bit<@SLOT_VALUE_BITS@> held;
    bit<@VALUE_BITS@> old;
    bit<@VALUE_BITS@> new;
    bit<2> found;
    bool is_taken;
    bit<32> cell_number;
    bit<128> cell;
    bit<64> mask;
    bit<8> cut;
    bit<8> filled;

    // Reads the bank of the packet's epoch.
    action read_bank() {
        generation = meta.incarnation[23:0] ++ hdr.agg.epoch;
        banks_@R@.read(bank, @BANK@);
        used = bank[63:24] == generation ? (bit<32>) bank[23:0] : 0;
        slot_base = @SLOT_BASE@;
        index_base = @INDEX_BASE@;
    }

    // Reads the number of the first open epoch. An incarnation begins with 0.
    action read_base() {
        base_@R@.read(base, @MEMBER@);
        open = base[47:16] == meta.incarnation ? base[15:0] : 0;
    }

    action cut_all() {
@CUT_ALL@
        cut = hdr.agg.pairs;
        hdr.agg.flags = hdr.agg.flags | FLAG_OLD;
    }

    action shorten() {
        hdr.agg.pairs = hdr.agg.pairs - cut;
        hdr.agg.absorbed = hdr.agg.absorbed + cut;
        hdr.ipv4.total_length = hdr.ipv4.total_length - (bit<16>) cut * @PAIR_BYTES@;
        hdr.udp.length = hdr.udp.length - (bit<16>) cut * @PAIR_BYTES@;
        meta.is_changed = true;
    }

    action answer() {
        bit<32> address = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        bit<48> mac = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = 64;
        meta.is_changed = true;
        meta.is_on_path = true;
        meta.port = meta.own_port;
        meta.mac = meta.own_mac;
    }

    apply {
        @atomic {
        cut = 0;
        if (hdr.agg.incarnation != meta.incarnation) {
            mark_to_drop(standard_metadata);
        } else if (hdr.agg.kind == KIND_CLEAR) {
            if (hdr.agg.flow == meta.own_flow && hdr.agg.flags & FLAG_ACK == 0) {
                read_base();
                if (open == hdr.agg.epoch) {
                    base_@R@.write(@MEMBER@, 16w0 ++ meta.incarnation ++ (open + 1));
                }
                hdr.agg.flags = hdr.agg.flags | FLAG_ACK;
                answer();
            }
        } else if (hdr.agg.kind == KIND_COLLECT) {
            if (hdr.agg.flow == meta.own_flow) {
                read_bank();
                filled = 0;
                hdr.bank.used = used;
                hdr.bank.counts = 0;
@FILL@
                hdr.agg.kind = KIND_REPLY;
                hdr.agg.pairs = filled;
                hdr.ipv4.total_length = hdr.ipv4.total_length + (bit<16>) filled * @PAIR_BYTES@;
                hdr.udp.length = hdr.udp.length + (bit<16>) filled * @PAIR_BYTES@;
                answer();
@MULTICAST@
            }
        } else if (meta.is_reduced && hdr.agg.flow < @FLOWS@) {
            cell_number = @FLOW_BASE@ + (hdr.agg.sequence & (@WINDOW@ - 1));
            cells_@R@.read(cell, cell_number);
            mask = cell[63:0];
            if (cell[127:96] != meta.incarnation
                || (int<32>) (hdr.agg.sequence - cell[95:64]) > 0) {
                mask = 0;
                read_base();
                if (hdr.agg.epoch - open < 2) {
                    read_bank();
@INPUTS@
@ABSORB@
                    banks_@R@.write(@BANK@, generation ++ used[23:0]);
                }
                cells_@R@.write(cell_number, meta.incarnation ++ hdr.agg.sequence ++ mask);
            } else if (cell[95:64] == hdr.agg.sequence) {
@CUT_MASK@
            } else {
                cut_all();
            }
            if (cut != 0) {
                shorten();
                if (hdr.agg.kind == KIND_DATA && hdr.agg.pairs == 0
                    && hdr.agg.flags & FLAG_OLD == 0) {
                    hdr.agg.kind = KIND_ACK;
                    hdr.agg.flags = hdr.agg.flags | FLAG_ACK;
                    answer();
                    // Paths lead to reducers; a receipt takes the route to its mapper.
                    meta.is_on_path = false;
                }
            }
        }
        }
    }
}


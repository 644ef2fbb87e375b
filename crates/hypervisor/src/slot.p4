
// A stage slot of the @GRESS@: a condition binding, a match and an action pipeline.
control @CONTROL@(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm)(Slot number) {
@COUNTERS@
    // The condition holds, or does not: a run, and where the packet goes on.
    action branch(Run run, Steps steps, Slot slot, Stage stage, Ask ask, Match match, Run next_run, Steps next_steps) {
        meta.link.run = run;
        meta.link.steps = steps;
        meta.link.match = Match.Nothing;
        meta.next = { slot, stage, ask, match, next_run, next_steps };
    }

    // The condition holds: this stage matches.
    action guard(Match match) {
        meta.link.match = match;
    }

    table condition_header {
        key = {
            meta.vpdp           : exact   @name("vpdp");
            meta.program        : exact   @name("program");
            meta.link.stage     : exact   @name("stage");
            meta.file[1055:256] : ternary @name("header");
        }
        actions = { branch; guard; NoAction; }
        size = 4096;
    }

    table condition_metadata {
        key = {
            meta.vpdp        : exact   @name("vpdp");
            meta.program     : exact   @name("program");
            meta.link.stage  : exact   @name("stage");
            meta.file[255:0] : ternary @name("user");
            sm.ingress_port  : ternary @name("port");
            sm.egress_port == sm.ingress_port : ternary @name("returns");
        }
        actions = { branch; guard; NoAction; }
        size = 4096;
    }

    table condition_both {
        key = {
            meta.vpdp       : exact   @name("vpdp");
            meta.program    : exact   @name("program");
            meta.link.stage : exact   @name("stage");
            meta.file       : ternary @name("file");
            sm.ingress_port : ternary @name("port");
            sm.egress_port == sm.ingress_port : ternary @name("returns");
        }
        actions = { branch; guard; NoAction; }
        size = 4096;
    }

    // An entry of the function: the arguments of its action, the action as a run, and where the packet goes on.
    action entry(Word value, Word mask, Run run, Steps steps,
                 Slot slot, Stage stage, Ask ask, Match match, Run next_run, Steps next_steps) {
        meta.file[255:0] = meta.file[255:0] & ~mask | value;
        meta.link.run = run;
        meta.link.steps = steps;
        meta.next = { slot, stage, ask, match, next_run, next_steps };
    }

    table match_header {
        key = {
            meta.vpdp           : exact   @name("vpdp");
            meta.program        : exact   @name("program");
            meta.link.stage     : exact   @name("stage");
            meta.file[1055:256] : ternary @name("header");
        }
        actions = { entry; NoAction; }
        counters = header_hits;
        support_timeout = true;
        size = 65536;
    }

    table match_standard {
        key = {
            meta.vpdp       : exact   @name("vpdp");
            meta.program    : exact   @name("program");
            meta.link.stage : exact   @name("stage");
            sm.ingress_port : ternary @name("port");
        }
        actions = { entry; NoAction; }
        counters = standard_hits;
        support_timeout = true;
        size = 65536;
    }

    table match_user {
        key = {
            meta.vpdp        : exact   @name("vpdp");
            meta.program     : exact   @name("program");
            meta.link.stage  : exact   @name("stage");
            meta.file[255:0] : ternary @name("user");
        }
        actions = { entry; NoAction; }
        counters = user_hits;
        support_timeout = true;
        size = 65536;
    }

    table match_combined {
        key = {
            meta.vpdp       : exact   @name("vpdp");
            meta.program    : exact   @name("program");
            meta.link.stage : exact   @name("stage");
            meta.file       : ternary @name("file");
            sm.ingress_port : ternary @name("port");
        }
        actions = { entry; NoAction; }
        counters = combined_hits;
        support_timeout = true;
        size = 65536;
    }

    // A stage that neither asks nor matches goes on.
    action go(Slot slot, Stage stage, Ask ask, Match match, Run next_run, Steps next_steps) {
        meta.next = { slot, stage, ask, match, next_run, next_steps };
    }

    table link {
        key = {
            meta.vpdp       : exact @name("vpdp");
            meta.program    : exact @name("program");
            meta.link.stage : exact @name("stage");
            meta.link.run   : exact @name("run");
        }
        actions = { go; NoAction; }
        size = 4096;
    }

    // The primitives. `a` and `b` are operands, `to` is where the result goes.

    // Writes any number of fields at once.
    action set(File value, File mask) {
        meta.file = meta.file & ~mask | value;
    }

    // Copies a range of any length.
    action move(At from_at, At to, File mask) {
        meta.file = (meta.file & ~(mask << to)) | (((meta.file >> from_at) & mask) << to);
    }

    // Copies ranges and writes constants, all at once.
    action shuffle(File value, File mask@SHUFFLE_PARAMETERS@) {
        File old = meta.file;
@SHUFFLE_MOVES@
        meta.file = meta.file & ~mask | value;
    }
@ARITHMETIC@
    // One of two values, by a bit.
    action choose(At bit_at, At a, Word a_mask, Word a_value, At b, Word b_mask, Word b_value, At to, Word mask) {
        bool is_set = (bit<1>)(meta.file >> bit_at) == 1;
        meta.file = put(meta.file, to, mask, is_set ? operand(meta.file, a, a_mask, a_value) : operand(meta.file, b, b_mask, b_value));
    }

    // Takes a header out of what is sent, if its validity bit is not set: what is behind it moves up.
    action remove(At bit_at, File kept, File below, At count) {
        At by = (bit<1>)(meta.file >> bit_at) == 1 ? 0 : count;
        meta.file = by == 0 ? meta.file : (meta.file & kept) | ((meta.file & below) << by);
        meta.sent = meta.sent - (bit<7>)(by >> 3);
    }

    // Takes bits out of what is sent: what is behind them moves up.
    action cut_out(File kept, File below, At count) {
        meta.file = (meta.file & kept) | ((meta.file & below) << count);
        meta.sent = meta.sent - (bit<7>)(count >> 3);
    }

    // How many bytes of the file are sent, before headers are removed from them.
    action send(bit<7> bytes, At from_at) {
        meta.sent = bytes;
        meta.file = meta.file << from_at;
    }

    // Reads standard metadata.
    action read_standard(bit<9> at, Word mask, At to) {
        bit<32> length = sm.packet_length - (hdr.description.isValid() ? DESCRIPTION_BYTES : 0);
        bit<324> all = @INSTANCE@ ++ sm.ingress_port ++ sm.egress_spec ++ sm.egress_port ++ length
            ++ sm.enq_timestamp ++ sm.enq_qdepth ++ sm.deq_timedelta ++ sm.deq_qdepth
            ++ sm.ingress_global_timestamp ++ sm.egress_global_timestamp ++ sm.mcast_grp ++ sm.egress_rid ++ sm.priority;
        meta.file = put(meta.file, to, mask, (Word)(all >> at));
    }

    action set_port(At a, Word a_mask, Word a_value) {
        sm.egress_spec = (bit<9>)operand(meta.file, a, a_mask, a_value);
    }

    // Back by the port that the packet came from.
    action reflect() {
        sm.egress_spec = sm.ingress_port;
    }

    action set_group(At a, Word a_mask, Word a_value) {
        sm.mcast_grp = (bit<16>)operand(meta.file, a, a_mask, a_value);
    }

    action set_priority(At a, Word a_mask, Word a_value) {
        sm.priority = (bit<3>)operand(meta.file, a, a_mask, a_value);
    }

    action drop() {
        mark_to_drop(sm);
    }

    action cut(At a, Word a_mask, Word a_value) {
        truncate((bit<32>)operand(meta.file, a, a_mask, a_value) + (hdr.description.isValid() ? DESCRIPTION_BYTES : 0));
    }
@HASHES@
    // Reads a cell: the program's cells begin at `base`.
    action read_cell(bit<32> base, bit<32> count, At a, Word a_mask, Word a_value, At to, Word mask) {
        Word index = operand(meta.file, a, a_mask, a_value);
        bit<64> value;
        cells.read(value, index < (Word)count ? base + (bit<32>)index : 0);
        meta.file = put(meta.file, to, mask, (Word)value);
    }

    action write_cell(bit<32> base, bit<32> count, At a, Word a_mask, Word a_value, At b, Word b_mask, Word b_value) {
        Word index = operand(meta.file, a, a_mask, a_value);
        cells.write(index < (Word)count ? base + (bit<32>)index : 1, (bit<64>)operand(meta.file, b, b_mask, b_value));
    }

    action count_packet(bit<32> base, bit<32> count, At a, Word a_mask, Word a_value) {
        Word index = operand(meta.file, a, a_mask, a_value);
        counts.count(index < (Word)count ? base + (bit<32>)index : 1);
    }

    action meter_packet(bit<32> base, bit<32> count, At a, Word a_mask, Word a_value, At to) {
        Word index = operand(meta.file, a, a_mask, a_value);
        bit<2> color;
        packet_rates.execute_meter(index < (Word)count ? base + (bit<32>)index : 1, color);
        meta.file = put(meta.file, to, 3, (Word)color);
    }

    action meter_bytes(bit<32> base, bit<32> count, At a, Word a_mask, Word a_value, At to) {
        Word index = operand(meta.file, a, a_mask, a_value);
        bit<2> color;
        byte_rates.execute_meter(index < (Word)count ? base + (bit<32>)index : 1, color);
        meta.file = put(meta.file, to, 3, (Word)color);
    }

    action draw(bit<64> low, bit<64> high, At to, Word mask) {
        bit<64> value;
        random(value, low, high);
        meta.file = put(meta.file, to, mask, (Word)value);
    }
@INGRESS_ONLY@
@STEP_TABLES@
    apply {
        if (meta.link.slot == number) {
            if (meta.link.ask == Ask.Header) {
                condition_header.apply();
            } else if (meta.link.ask == Ask.Metadata) {
                condition_metadata.apply();
            } else if (meta.link.ask == Ask.Both) {
                condition_both.apply();
            }
            if (meta.link.match == Match.Header) {
                match_header.apply();
            } else if (meta.link.match == Match.Standard) {
                match_standard.apply();
            } else if (meta.link.match == Match.User) {
                match_user.apply();
            } else if (meta.link.match == Match.Combined) {
                match_combined.apply();
            } else if (meta.link.ask == Ask.Nothing) {
                link.apply();
            }
@STEP_APPLIES@
            meta.link = meta.next;
        }
    }
}

    action send_to(bit<32> address, bit<48> mac) {
        hdr.ipv4.dst = address;
        hdr.ethernet.dst = mac;
    }

    // The hosts that get replies, by the instance of the copy.
    table copies {
        key = {
            hdr.agg.job : exact;
            standard_metadata.egress_rid : exact;
        }
        actions = { send_to; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    apply {
        if (standard_metadata.egress_rid != 0 && hdr.agg.isValid()) {
            copies.apply();
        }
    }

            hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
            hdr.udp.src, hdr.udp.dst, hdr.udp.length,
            hdr.agg.version, hdr.agg.kind, hdr.agg.flags, hdr.agg.operator, hdr.agg.key_class,
            hdr.agg.value_class, hdr.agg.job, hdr.agg.attempt, hdr.agg.flow, hdr.agg.epoch,
            hdr.agg.sequence, hdr.agg.incarnation, hdr.agg.pairs, hdr.agg.absorbed, hdr.agg.credit

//! Output of packets: their bytes, their paths through the device, and their ends.

use super::*;

fn packet() -> Vec<u8> {
    (0..40).collect()
}

#[test]
fn the_deparsed_packet_marks_what_changed_and_says_where_it_goes() {
    let received = || TraceEvent::Received {
        port: 3,
        bytes: packet(),
    };
    check(
        &[received()],
        "\
received by port 3, 40 bytes
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f  ................
  0020  20 21 22 23 24 25 26 27                            !\"#$%&'
",
    );
    let mut changed = packet();
    changed[17] = 0x63;
    changed[24] = 0x64;
    let headers = [0, 2, 1].map(HeaderId::new);
    let emitted = |header| TraceEvent::Emitted { header, bits: 112 };
    let passed = |header| TraceEvent::NotEmitted { header };
    check_after(
        &[received()],
        &[
            TraceEvent::Block {
                step: ir::StepId::new(0),
                role: BlockRole::Deparser,
            },
            emitted(headers[0]),
            passed(headers[1]),
            passed(headers[2]),
            emitted(headers[0]),
            passed(headers[1]),
            TraceEvent::Deparsed {
                bytes: changed.clone(),
            },
            TraceEvent::Sent {
                port: 1,
                bytes: changed.clone(),
            },
            TraceEvent::Sent {
                port: 2,
                bytes: packet()[..39].to_vec(),
            },
        ],
        "\
deparser RouterDeparser
  emit hdr.ethernet (14 bytes)
  not valid, not emitted: hdr.arp, hdr.ipv4
  emit hdr.ethernet (14 bytes)
  not valid, not emitted: hdr.arp
deparsed, 40 bytes: 2 bytes changed or new
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 63 12 13 14 15 16 17  64 19 1a 1b 1c 1d 1e 1f  .c......d.......
           ^^                    ^^
  0020  20 21 22 23 24 25 26 27                            !\"#$%&'
sent by port 1, 40 bytes
sent by port 2, 39 bytes: nothing new
  removed: 1 byte at 0027 (27)
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f  ................
  0020  20 21 22 23 24 25 26                               !\"#$%&
",
    );
}

#[test]
fn a_packet_that_was_shown_is_not_shown_again() {
    let received = || TraceEvent::Received {
        port: 0,
        bytes: vec![1, 2],
    };
    let deparsed = |bytes: &[u8]| TraceEvent::Deparsed {
        bytes: bytes.to_vec(),
    };
    check_after(
        &[received()],
        &[deparsed(&[1, 2]), deparsed(&[1, 3]), deparsed(&[1, 3])],
        "\
deparsed, 2 bytes: as received
deparsed, 2 bytes: 1 byte changed or new
  0000  01 03                                             ..
           ^^
deparsed, 2 bytes: as above
",
    );
}

#[test]
fn long_stretches_as_received_are_summed_up() {
    let long = vec![0; 10 * 16];
    let mut changed = long.clone();
    changed[0] = 0x41;
    check_after(
        &[TraceEvent::Received {
            port: 0,
            bytes: long,
        }],
        &[TraceEvent::Deparsed { bytes: changed }],
        "\
deparsed, 160 bytes: 1 byte changed or new
  0000  41 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  A...............
        ^^
  0010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  ................
  ... 128 bytes as received
",
    );
}

#[test]
fn the_ways_of_a_packet_have_words() {
    check_after(
        &[stage(2)],
        &[
            TraceEvent::Copied {
                why: "clone",
                port: 4,
                instance: 1,
            },
            TraceEvent::Queued {
                port: 4,
                priority: 2,
                depth: 1,
            },
            TraceEvent::Queued {
                port: 5,
                priority: 0,
                depth: 0,
            },
            TraceEvent::Dequeued { port: 4 },
            TraceEvent::Again { why: "recirculate" },
            TraceEvent::Dropped {
                reason: DropReason::Ingress,
                detail: DropDetail::None,
            },
            TraceEvent::Dropped {
                reason: DropReason::NoSuchPort,
                detail: DropDetail::Number(9),
            },
            TraceEvent::Dropped {
                reason: DropReason::ParserReject,
                detail: DropDetail::ParserError(2),
            },
        ],
        "\
copied (clone): a copy for port 4, instance 1
queued for port 4, priority 2, behind 1 packet
queued for port 5
the packet for port 4
starts over: recirculate
dropped: the program dropped it in ingress
dropped: the device has no such port (9)
dropped: the parser rejected it (error.NoMatch)
",
    );
}

#[test]
fn every_drop_reason_has_words_of_its_own() {
    let dropped = |reason: &DropReason| {
        let steps = steps_of(&[TraceEvent::Dropped {
            reason: *reason,
            detail: DropDetail::None,
        }]);
        text(&steps, false)
    };
    let words: std::collections::BTreeSet<String> = DropReason::FIXED.iter().map(dropped).collect();
    assert_eq!(words.len(), DropReason::FIXED.len());
}

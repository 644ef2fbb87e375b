//! Settings in entries files besides tables act on packets: queues of ports, parameters of
//! hashes.

mod lab;

use lab::{Directory, packets, pcap, said, whole};

/// Forwards all packets to port 1, with the priority in the packet, and writes the queue metadata
/// into them.
const QUEUED: &str = r#"
#include <core.p4>
#include <v1model.p4>
header queued_t { bit<8> priority; bit<32> enqueued; bit<32> dequeued; bit<32> waited; }
struct headers_t { queued_t queued; }
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.queued); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = 1; standard.priority = (bit<3>) hdr.queued.priority; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.queued.enqueued = (bit<32>) standard.enq_qdepth;
        hdr.queued.dequeued = (bit<32>) standard.deq_qdepth;
        hdr.queued.waited = standard.deq_timedelta;
    }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.queued); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// A sent packet: its time in microseconds, its number, and its queue metadata.
#[derive(Debug, PartialEq)]
struct Left {
    time: u64,
    number: u8,
    enqueued: u32,
    waited: u32,
}

/// Sends these packets of 60 bytes at once. Returns the packets that leave, and the number of
/// drops.
fn queued(name: &str, statements: &str, priorities: &[u8]) -> (Vec<Left>, u64) {
    let dir = Directory::new(&format!("settings-{name}"));
    let program = dir.with("queued.p4", QUEUED);
    let entries = dir.with("queued.entries", statements);
    let packet = |(number, priority): (usize, &u8)| {
        let mut bytes = vec![0; 60];
        (bytes[0], bytes[59]) = (*priority, number as u8);
        whole(1_000_000, bytes)
    };
    let all: Vec<_> = priorities.iter().enumerate().map(packet).collect();
    let capture = format!("0={}", dir.with("in.pcap", pcap(&all)));
    let out = dir.file("out");
    let words = [
        "replay",
        &program,
        "--entries",
        &entries,
        "--in",
        &capture,
        "--out-dir",
        &out,
        "--json",
    ];
    let said = said(&words);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let json = said.json();
    let dropped =
        json["received"]["packets"].as_u64().unwrap() - json["sent"]["packets"].as_u64().unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let left = packets(&dir.0.join("out/1.pcap")).into_iter();
    let left = left.map(|(time, bytes)| Left {
        time: time / 1000,
        number: bytes[59],
        enqueued: word(&bytes, 1),
        waited: word(&bytes, 9),
    });
    (left.collect(), dropped)
}

#[test]
fn a_queue_that_an_entries_file_sets_has_its_rate_and_depth() {
    // 60 bytes are 480 bits, so both rates are a packet per 10 milliseconds.
    for rate in ["rate 100", "bits 48000"] {
        let (left, dropped) = queued("depth", &format!("queue port 1 {rate} depth 5\n"), &[0; 20]);
        assert!((5..=6).contains(&left.len()), "{rate}: {left:?}");
        assert_eq!(dropped + left.len() as u64, 20);
        for (place, packet) in left.iter().enumerate() {
            let waited = 10_000 * place as u32;
            assert_eq!(packet.number as usize, place, "{rate}: {left:?}");
            assert_eq!(
                packet.time,
                1_000_000 + u64::from(waited),
                "{rate}: {left:?}"
            );
            assert_eq!(packet.waited, waited, "{rate}: {left:?}");
        }
        assert!(left.last().unwrap().enqueued >= 4, "{rate}: {left:?}");
    }
    // The queue of another port does not matter.
    let (left, dropped) = queued("other-port", "queue port 2 rate 100 depth 1\n", &[0; 20]);
    assert_eq!((left.len(), dropped), (20, 0));
    assert!(left.iter().all(|packet| packet.waited == 0), "{left:?}");
}

#[test]
fn each_priority_has_the_depth_of_the_statement_and_the_largest_goes_first() {
    let (left, dropped) = queued(
        "priorities",
        "queue port 1 rate 100 depth 3\n",
        &[0, 0, 0, 0, 0, 7, 7, 7, 7],
    );
    let numbers: Vec<u8> = left.iter().map(|packet| packet.number).collect();
    // Three packets of each priority wait; the first packet may have left already.
    let behind_first = &numbers[numbers.iter().position(|n| *n == 5).unwrap()..];
    assert_eq!(behind_first[..3], [5, 6, 7], "{numbers:?}");
    assert!(dropped >= 2, "{left:?}");
}

/// Writes the hash of the source address into the destination address.
const HASHED: &str = r#"
#include <core.p4>
#include <v1model.p4>
header hashed_t { bit<32> crc32; bit<16> crc16; bit<48> source; }
struct headers_t { hashed_t hashed; }
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.hashed); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hash(hdr.hashed.crc32, HashAlgorithm.crc32_custom, 32w0, { hdr.hashed.source }, 33w0x100000000);
        hash(hdr.hashed.crc16, HashAlgorithm.crc16_custom, 16w0, { hdr.hashed.source }, 17w0x10000);
        standard.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.hashed); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// Parameters of a cyclic redundancy check.
#[derive(Clone, Copy)]
struct Crc {
    width: u32,
    polynomial: u32,
    initial: u32,
    final_xor: u32,
    reflects: bool,
}

/// Computes the check of some bytes, bit by bit.
fn crc(of: Crc, bytes: &[u8]) -> u32 {
    let top = 1 << (of.width - 1);
    let mask = top | (top - 1);
    let mut rest = of.initial;
    for byte in bytes {
        let byte = if of.reflects {
            byte.reverse_bits()
        } else {
            *byte
        };
        for bit in (0..8).rev() {
            let is_set = (rest & top != 0) != (byte >> bit & 1 == 1);
            rest = rest << 1 & mask;
            if is_set {
                rest ^= of.polynomial;
            }
        }
    }
    let rest = match of.reflects {
        true => rest.reverse_bits() >> (32 - of.width),
        false => rest,
    };
    (rest ^ of.final_xor) & mask
}

fn check_hashes(number: usize, statements: &str, crc32: Crc, crc16: Crc) {
    let dir = Directory::new(&format!("settings-hash-{number}"));
    let program = dir.with("hashed.p4", HASHED);
    let entries = dir.with("hashed.entries", statements);
    let sources: Vec<[u8; 6]> = (0..20).map(|n| [2, 0, n, 0xa5, n ^ 0x3c, 9]).collect();
    let packet = |source: &[u8; 6]| {
        let mut bytes = vec![0; 60];
        bytes[6..12].copy_from_slice(source);
        whole(1_000_000, bytes)
    };
    let all: Vec<_> = sources.iter().map(packet).collect();
    let capture = format!("0={}", dir.with("in.pcap", pcap(&all)));
    let out = dir.file("out");
    for engine in ["interp", "jit"] {
        let words = [
            "replay",
            &program,
            "--entries",
            &entries,
            "--in",
            &capture,
            "--out-dir",
            &out,
            "--engine",
            engine,
        ];
        let said = said(&words);
        assert_eq!(said.status, Some(0), "{}", said.err);
        let left = packets(&dir.0.join("out/1.pcap"));
        assert_eq!(left.len(), sources.len());
        for ((_, bytes), source) in left.iter().zip(&sources) {
            let both = (crc(crc32, source), crc(crc16, source));
            let (crc32, crc16) = bytes.split_at(4);
            let crc32 = u32::from_be_bytes(crc32.try_into().unwrap());
            let crc16 = u16::from_be_bytes([crc16[0], crc16[1]]);
            assert_eq!((crc32, crc16.into()), both, "{engine}: {statements}");
        }
    }
}

#[test]
fn parameters_of_hashes_that_an_entries_file_sets_are_those_of_packets() {
    let crc32 = Crc {
        width: 32,
        polynomial: 0x04c1_1db7,
        initial: 0xffff_ffff,
        final_xor: 0xffff_ffff,
        reflects: true,
    };
    let crc16 = Crc {
        width: 16,
        polynomial: 0x8005,
        initial: 0,
        final_xor: 0,
        reflects: true,
    };
    check_hashes(0, "", crc32, crc16);
    let seeded = Crc {
        initial: 0x1234_5678,
        ..crc32
    };
    check_hashes(1, "hash crc32 initial 0x12345678\n", seeded, crc16);
    let ccitt = Crc {
        polynomial: 0x1021,
        initial: 0xffff,
        final_xor: 0x00ff,
        reflects: false,
        ..crc16
    };
    let statement = "hash crc16 polynomial 0x1021 initial 0xffff final_xor 0xff reflect_in false reflect_out false\n";
    check_hashes(2, statement, crc32, ccitt);
}

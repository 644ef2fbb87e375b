//! Tests of the capture reader and writer, with captures built byte by byte.

use super::*;
use packet::{Frame, MAX_FRAME, Nanos};
use proptest::prelude::*;
use std::io::{self, Cursor};
use std::path::PathBuf;

/// Builder of files in either format and byte order.
struct Build {
    bytes: Vec<u8>,
    big: bool,
}

impl Build {
    fn u16(&mut self, v: u16) -> &mut Build {
        self.bytes.extend(if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        });
        self
    }

    fn u32(&mut self, v: u32) -> &mut Build {
        self.bytes.extend(if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        });
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Build {
        self.bytes.extend(bytes);
        self
    }

    fn pcap(big: bool, magic: u32, link: u32) -> Build {
        let mut b = Build {
            bytes: Vec::new(),
            big,
        };
        b.u32(magic)
            .u16(2)
            .u16(4)
            .u32(0)
            .u32(0)
            .u32(65535)
            .u32(link);
        b
    }

    fn record(&mut self, time: (u32, u32), data: &[u8], original: u32) -> &mut Build {
        self.u32(time.0)
            .u32(time.1)
            .u32(data.len() as u32)
            .u32(original)
            .raw(data)
    }

    fn pcapng(big: bool) -> Build {
        let mut b = Build {
            bytes: Vec::new(),
            big,
        };
        b.section();
        b
    }

    fn section(&mut self) -> &mut Build {
        self.u32(0x0a0d_0d0a).u32(28).u32(0x1a2b_3c4d).u16(1).u16(0);
        self.raw(&[0xff; 8]).u32(28)
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Build)) -> &mut Build {
        let mut inner = Build {
            bytes: Vec::new(),
            big: self.big,
        };
        body(&mut inner);
        inner.bytes.resize(inner.bytes.len().next_multiple_of(4), 0);
        let len = inner.bytes.len() as u32 + 12;
        self.u32(kind).u32(len).raw(&inner.bytes).u32(len)
    }

    fn interface(&mut self, link: u16, options: impl FnOnce(&mut Build)) -> &mut Build {
        self.block(1, |b| {
            b.u16(link).u16(0).u32(0);
            options(b);
        })
    }

    fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8], original: u32) -> &mut Build {
        self.block(6, |b| {
            b.u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32);
            b.u32(data.len() as u32).u32(original).raw(data);
        })
    }
}

/// Returns one line per packet (number, interface, time, length, on-wire length if cut), then the
/// error.
fn read(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut reader = match PcapReader::new("x.pcap".into(), Box::new(Cursor::new(bytes.to_vec()))) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    let mut frame = Frame::new();
    loop {
        match reader.read(&mut frame) {
            Ok(None) => return out,
            Ok(Some(p)) => {
                let cut = if p.is_cut {
                    format!(" of {}", p.original_len)
                } else {
                    String::new()
                };
                let len = frame.len();
                out += &format!(
                    "{} if{} {} {len}{cut}\n",
                    p.number, p.interface, frame.arrival
                );
            }
            Err(error) => {
                out += &format!("{error}\n");
                if !error.is_recoverable() {
                    return out;
                }
            }
        }
    }
}

fn check(built: &Build, expect: &str) {
    let got = read(&built.bytes);
    assert_eq!(got.trim_end(), expect.trim_end());
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_resolutions() {
    for big in [false, true] {
        let mut us = Build::pcap(big, 0xa1b2_c3d4, 1);
        check(us.record((1, 5), &[1; 60], 60), "1 if0 1.000005000 60");
        let mut ns = Build::pcap(big, 0xa1b2_3c4d, 1);
        check(ns.record((1, 5), &[1; 60], 60), "1 if0 1.000000005 60");
    }
}

#[test]
fn cut_zero_length_and_jumbo_packets_are_delivered() {
    let mut b = Build::pcap(false, 0xa1b2_c3d4, 1);
    b.record((0, 0), &[1; 64], 1500)
        .record((0, 0), &[], 0)
        .record((0, 0), &[2; 9216], 9216);
    b.record((0, 0), &[3; MAX_FRAME], MAX_FRAME as u32);
    check(
        &b,
        "1 if0 0.000000000 64 of 1500\n2 if0 0.000000000 0\n3 if0 0.000000000 9216\n\
         4 if0 0.000000000 65535",
    );
}

#[test]
fn a_packet_longer_than_a_frame_is_named_and_the_next_is_read() {
    let mut b = Build::pcap(false, 0xa1b2_c3d4, 1);
    b.record((0, 0), &[1; 65536], 65536)
        .record((0, 0), &[2; 60], 60);
    check(
        &b,
        "packet 1 of x.pcap (byte 24) has 65536 bytes; a frame has at most 65535: the packet is \
         left out\n2 if0 0.000000000 60",
    );
}

#[test]
fn a_frame_check_sequence_is_taken_off() {
    // Bit 26, and a length of two units of 16 bits.
    let mut b = Build::pcap(false, 0xa1b2_c3d4, 1 | 2 << 28 | 1 << 26);
    b.record((0, 0), &[1; 64], 64)
        .record((0, 0), &[1; 62], 64)
        .record((0, 0), &[1; 20], 64);
    check(
        &b,
        "1 if0 0.000000000 60\n2 if0 0.000000000 60\n3 if0 0.000000000 20 of 60",
    );
    let mut b = Build::pcapng(true);
    b.interface(1, |o| {
        o.u16(13).u16(1).raw(&[4, 0, 0, 0]).u16(0).u16(0);
    });
    check(b.enhanced(0, 0, &[1; 64], 64), "1 if0 0.000000000 60");
}

#[test]
fn the_length_of_a_frame_check_sequence_in_a_packets_flags_holds_for_the_packet() {
    for big in [false, true] {
        let mut b = Build::pcapng(big);
        b.interface(1, |_| {}).interface(1, |o| {
            o.u16(13).u16(1).raw(&[2, 0, 0, 0]).u16(0).u16(0);
        });
        let mut packet = |kind: u32, interface: u32, len: usize, options: &dyn Fn(&mut Build)| {
            b.block(kind, |b| {
                match kind {
                    6 => b.u32(interface),
                    _ => b.u16(interface as u16).u16(0),
                };
                b.u32(0).u32(0).u32(len as u32).u32(64);
                b.raw(&vec![1; len.next_multiple_of(4)]);
                options(b);
            });
        };
        let flags = |flags: u32| {
            move |b: &mut Build| {
                // A comment of five bytes, then the flags, then the end.
                b.u16(1).u16(5).raw(b"hello\0\0\0");
                b.u16(2).u16(4).u32(flags).u16(0).u16(0);
            }
        };
        packet(6, 0, 64, &flags(0x80));
        packet(2, 0, 64, &flags(0x80));
        packet(6, 0, 64, &flags(0x1ff << 16 | 3));
        packet(6, 0, 62, &flags(0x80));
        packet(6, 0, 63, &flags(0x1e0));
        packet(6, 1, 64, &flags(0x80));
        packet(6, 1, 64, &flags(0));
        packet(6, 1, 64, &|_| {});
        // Options without an end, truncated options, and options of a wrong length.
        packet(6, 0, 64, &|b| {
            b.u16(2).u16(4).u32(0x80);
        });
        packet(6, 0, 64, &|b| {
            b.u16(2).u16(400).u32(0x80);
        });
        packet(6, 0, 64, &|b| {
            b.u16(2).u16(3).u32(0x80);
        });
        let told = [60, 60, 64, 60, 49, 60, 62, 62, 60, 64, 64];
        let lines = told.iter().enumerate().map(|(at, len)| {
            let interface = u8::from((5..8).contains(&at));
            format!("{} if{interface} 0.000000000 {len}\n", at + 1)
        });
        check(&b, &lines.collect::<String>());
    }
}

#[test]
fn a_file_cut_anywhere_gives_every_whole_packet_and_then_says_where_it_ends() {
    let mut b = Build::pcap(false, 0xa1b2_c3d4, 1);
    b.record((0, 0), &[1; 60], 60).record((0, 0), &[2; 60], 60);
    let (first, second) = (24, 24 + 76);
    for end in first + 1..b.bytes.len() {
        let got = read(&b.bytes[..end]);
        if end == second {
            assert_eq!(got, "1 if0 0.000000000 60\n");
            continue;
        }
        let (whole, start) = if end > second {
            (1, second)
        } else {
            (0, first)
        };
        assert_eq!(got.lines().count(), whole + 1, "{end}: {got}");
        let place = format!(
            "x.pcap ends in the middle of packet {} (its record starts at byte {start}, ",
            whole + 1
        );
        assert!(got.contains(&place), "{end}: {got}");
    }
    assert_eq!(
        read(&b.bytes[..9]),
        "x.pcap ends within its header: 15 bytes are missing"
    );
}

#[test]
fn what_is_no_capture_is_refused_with_advice() {
    check(
        &Build {
            bytes: vec![],
            big: false,
        },
        "x.pcap is no pcap or pcapng capture: it is empty",
    );
    let gz = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    assert!(read(&gz).contains("unpack it with gunzip"));
    assert!(read(b"#!/bin/sh").contains("it starts with none of the formats' numbers"));
    assert!(
        read(&Build::pcap(false, 0xa1b2_c3d4, 113).bytes).contains("Linux's \"any\" interface")
    );
    let mut version = Build {
        bytes: Vec::new(),
        big: false,
    };
    version.u32(0xa1b2_c3d4).u16(1).u16(0).raw(&[0; 16]);
    assert!(read(&version.bytes).contains("version 1.0"));
}

#[test]
fn an_absurd_length_is_damage_and_not_an_allocation() {
    let mut b = Build::pcap(false, 0xa1b2_c3d4, 1);
    b.record((0, 0), &[1; 60], 60)
        .u32(0)
        .u32(0)
        .u32(u32::MAX)
        .u32(u32::MAX);
    check(
        &b,
        "1 if0 0.000000000 60\nx.pcap is damaged at packet 2 (byte 100): it claims to have \
         4294967295 captured bytes; the 1 packet before it are whole",
    );
}

#[test]
fn pcapng_is_read_with_several_interfaces_and_resolutions() {
    for big in [false, true] {
        let mut b = Build::pcapng(big);
        b.interface(1, |_| {});
        b.interface(1, |o| {
            o.u16(9).u16(1).raw(&[9, 0, 0, 0]).u16(0).u16(0);
        });
        b.enhanced(0, 1_000_005, &[1; 60], 60);
        b.block(0xbad, |b| {
            b.raw(&[7; 33]);
        });
        b.enhanced(1, 1_000_000_005, &[2; 61], 90);
        b.block(3, |b| {
            b.u32(62).raw(&[3; 62]);
        });
        check(
            &b,
            "1 if0 1.000005000 60\n2 if1 1.000000005 61 of 90\n3 if0 0.000000000 62",
        );
    }
}

#[test]
fn a_new_pcapng_section_brings_its_own_byte_order_and_interfaces() {
    let mut b = Build::pcapng(false);
    b.interface(1, |_| {}).enhanced(0, 0, &[1; 60], 60);
    b.big = true;
    b.section().interface(1, |o| {
        // Resolution of one second, offset of an hour.
        o.u16(9)
            .u16(1)
            .raw(&[0, 0, 0, 0])
            .u16(14)
            .u16(8)
            .raw(&3600i64.to_be_bytes());
    });
    b.enhanced(0, 2, &[2; 60], 60).enhanced(1, 0, &[3; 60], 60);
    check(
        &b,
        "1 if0 0.000000000 60\n2 if0 3602.000000000 60\n\
         x.pcap is damaged at packet 3 (byte 300): it is of interface 1, which is not described; \
         the 2 packets before it are whole",
    );
}

#[test]
fn a_pcapng_interface_that_is_not_ethernet_matters_when_a_packet_is_of_it() {
    let mut b = Build::pcapng(false);
    b.interface(1, |_| {}).interface(113, |_| {});
    b.enhanced(0, 0, &[1; 60], 60).enhanced(1, 0, &[1; 60], 60);
    let got = read(&b.bytes);
    assert!(
        got.starts_with("1 if0 0.000000000 60\nx.pcap does not hold Ethernet frames"),
        "{got}"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let directory = Directory::new("round");
    let path = directory.0.join("out.pcap");
    let packets: Vec<(Vec<u8>, Nanos)> = vec![
        (vec![1; 60], Nanos(0)),
        (vec![], Nanos(1_700_000_000_123_456_789)),
        (vec![3; MAX_FRAME], Nanos(1_700_000_001_000_000_000)),
    ];
    let mut writer = PcapWriter::create(&path).unwrap();
    for (bytes, time) in &packets {
        writer.write(bytes, *time).unwrap();
    }
    assert_eq!(
        (writer.packets(), writer.bytes()),
        (3, 60 + MAX_FRAME as u64)
    );
    assert!(
        !path.exists(),
        "the file has its name only when it is complete"
    );
    writer.finish().unwrap();
    assert!(!directory.0.join("out.pcap.part").exists());
    let mut reader = PcapReader::open(&path).unwrap();
    let mut frame = Frame::new();
    for (bytes, time) in &packets {
        assert!(reader.read(&mut frame).unwrap().is_some());
        assert_eq!((frame.bytes(), frame.arrival), (bytes.as_slice(), *time));
    }
    assert_eq!(reader.read(&mut frame).unwrap(), None);
    assert_eq!(reader.cut_packets(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_at_the_latest_when_finishing() {
    let mut writer = PcapWriter::create("/dev/full".as_ref()).unwrap();
    let mut result = Ok(());
    for _ in 0..3 {
        result = result.and_then(|()| writer.write(&[1; 60], Nanos::ZERO));
    }
    let error = result.and_then(|()| writer.finish()).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
    assert!(
        error
            .to_string()
            .starts_with("cannot write /dev/full: No space left"),
        "{error}"
    );
    assert!(error.to_string().contains("free space"), "{error}");
}

#[test]
fn a_capture_that_cannot_be_made_names_the_file() {
    let error = PcapWriter::create("/no/such/directory/1.pcap".as_ref()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot write /no/such/directory/1.pcap: No such file")
    );
    let error = PcapReader::open("/no/such.pcap".as_ref()).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with("cannot read /no/such.pcap: No such file")
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        magic in prop::sample::select(vec![0xa1b2_c3d4u32, 0xa1b2_3c4d, 0x0a0d_0d0a]),
        big in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut b = if magic == 0x0a0d_0d0a { Build::pcapng(big) } else { Build::pcap(big, magic, 1) };
        b.raw(&bytes);
        read(&b.bytes);
    }

    #[test]
    fn a_damaged_pcapng_gives_packets_or_an_error(at in 0usize..200, to in any::<u8>()) {
        let mut b = Build::pcapng(false);
        b.interface(1, |_| {}).enhanced(0, 7, &[1; 60], 60).enhanced(0, 8, &[1; 61], 61);
        if let Some(byte) = b.bytes.get_mut(at) {
            *byte = to;
        }
        prop_assert!(read(&b.bytes).lines().count() <= 3);
    }
}

/// A directory that is removed when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("polyplane-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

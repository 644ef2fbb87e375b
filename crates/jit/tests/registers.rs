//! Tests of registers, comparisons and hashes of values of up to 512 bits: random programs give the
//! results of `interp`, and hashes are those of a model that shifts bits.

use std::fmt::Write;
use std::sync::Arc;

use exec::Engine;
use interp::Interp;
use jit::Jit;
use packet::{Frame, Nanos};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

/// Number of random programs.
const PROGRAMS: u64 = 24;

/// Widths around those of limbs, and others.
fn width(choices: &mut Rng) -> u32 {
    const EDGES: &[u32] = &[
        1, 8, 16, 31, 32, 63, 64, 65, 96, 127, 128, 129, 256, 511, 512,
    ];
    match choices.below(2) {
        0 => EDGES[choices.below(EDGES.len() as u64) as usize],
        _ => choices.between(1, 512) as u32,
    }
}

/// Program in one header with fields of any widths, and the results after them.
struct Program {
    widths: Vec<u32>,
    text: String,
}

const RESULTS: u32 = 4;

impl Program {
    /// Writes a program. `@fields@` are declared, then the code of `ingress` runs.
    fn new(widths: Vec<u32>, architecture: &str, declared: &str, ingress: &str) -> Program {
        let total: u32 = widths.iter().sum();
        let mut fields = String::from("bit<8> index; bit<32> number;\n");
        for (at, width) in widths.iter().enumerate() {
            writeln!(fields, "    bit<{width}> f{at};").unwrap();
        }
        let pad = total.wrapping_neg() % 8;
        if pad > 0 {
            writeln!(fields, "    bit<{pad}> pad;").unwrap();
        }
        for result in 0..RESULTS {
            writeln!(fields, "    bit<64> r{result};").unwrap();
        }
        let text = architecture
            .replace("@fields@", &fields)
            .replace("@declared@", declared)
            .replace("@ingress@", ingress);
        Program { widths, text }
    }

    fn bytes(&self) -> usize {
        let total: u32 = self.widths.iter().sum();
        (5 + total.div_ceil(8) + 8 * RESULTS) as usize
    }

    /// Returns packets, of which many are alike but for a bit.
    fn packets(&self, choices: &mut Rng, count: usize) -> Vec<Vec<u8>> {
        let pool: Vec<Vec<u8>> = (0..4)
            .map(|kind| {
                let byte = |choices: &mut Rng| match kind {
                    0 => 0,
                    1 => 0xff,
                    _ => choices.bits() as u8,
                };
                (0..self.bytes()).map(|_| byte(choices)).collect()
            })
            .collect();
        let packet = |_| {
            let mut packet = pool[choices.below(4) as usize].clone();
            packet[0] = choices.below(8) as u8;
            packet[4] = choices.below(12) as u8;
            if choices.below(2) == 0 {
                let bit = choices.below(8 * packet.len() as u64) as usize;
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            packet
        };
        (0..count).map(packet).collect()
    }

    /// Returns what a device on this engine sends for packets.
    fn sent(&self, engine: &dyn Engine, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let program = driver::compile_text("registers.p4", &self.text);
        let program = program.unwrap_or_else(|errors| panic!("{errors}\n{}", self.text));
        let config = DeviceConfig::default();
        let mut device = Device::new(Arc::new(program), engine, &config).unwrap();
        let mut sent = Vec::new();
        for packets in packets.chunks(50) {
            let frames = packets.iter().map(|bytes| Frame::from_bytes(bytes));
            let mut frames: Vec<Frame> = frames.map(Result::unwrap).collect();
            device.forward(&mut frames, Nanos(1), |_, frame, _| {
                sent.push(frame.bytes().to_vec());
            });
        }
        sent
    }

    /// Returns what both engines send, or panics at the first difference.
    fn on_both(&self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let expected = self.sent(&Interp, packets);
        assert_eq!(expected.len(), packets.len());
        let sent = self.sent(&Jit::new(Arc::new(Interp)), packets);
        let differs = sent.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(at) = differs {
            let (sent, expected) = (&sent[at], &expected[at]);
            panic!("packet {at}:\n{sent:02x?}\n{expected:02x?}\n{}", self.text);
        }
        expected
    }
}

const V1MODEL: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { @fields@ }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    @declared@
    apply {
        sm.egress_spec = 1;
        @ingress@
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;

const PSA: &str = r#"
#include <core.p4>
#include <psa.p4>

header h_t { @fields@ }
struct headers_t { h_t h; }
struct metadata_t { }
struct empty_t { }

parser IP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmit_meta, in empty_t recirculate_meta) {
    state start { packet.extract(hdr.h); transition accept; }
}
control I(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    @declared@
    apply { send_to_port(ostd, (PortId_t)2); @ingress@ }
}
control ID(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta, inout headers_t hdr,
           in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr); }
}
parser EP(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t istd, in empty_t normal_meta,
          in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    state start { packet.extract(hdr.h); transition accept; }
}
control E(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { }
}
control ED(packet_out packet, out empty_t clone_e2e_meta, out empty_t recirculate_meta, inout headers_t hdr, in metadata_t meta,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr); }
}
IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
"#;

/// Returns code that reads, compares and writes registers, one for each field.
fn random_code(widths: &[u32], choices: &mut Rng) -> (String, String) {
    let (mut declared, mut code) = (String::new(), String::new());
    for (at, width) in widths.iter().enumerate() {
        let size = choices.between(1, 8);
        writeln!(declared, "register<bit<{width}>>({size}) g{at};").unwrap();
        writeln!(declared, "bit<{width}> v{at} = 0;").unwrap();
        writeln!(declared, "bit<{width}> w{at} = 0;").unwrap();
    }
    for step in 0..choices.between(10, 24) {
        let at = choices.below(widths.len() as u64);
        let (width, variable) = (widths[at as usize], ["v", "w"][choices.below(2) as usize]);
        let variable = format!("{variable}{at}");
        let index = match choices.below(5) {
            0 => format!("32w{}", choices.below(9)),
            1 => "(bit<32>) hdr.h.index[1:0]".to_owned(),
            2 => "(bit<32>) hdr.h.index".to_owned(),
            3 => format!("hdr.h.number + {step}"),
            _ => "hdr.h.number".to_owned(),
        };
        let other = [format!("hdr.h.f{at}"), format!("v{at}"), format!("w{at}")];
        let other = &other[choices.below(3) as usize];
        let compare = ["==", "!=", "<", "<=", ">", ">="][choices.below(6) as usize];
        let kind = match choices.below(2) {
            0 => format!("(int<{width}>) "),
            _ => String::new(),
        };
        let result = format!("hdr.h.r{}", choices.below(RESULTS.into()));
        let line = match choices.below(6) {
            0 | 1 => format!("g{at}.read({variable}, {index});"),
            2 => format!("g{at}.write({index}, {other});"),
            3 => format!("g{at}.write({index}, {variable} ^ {other});"),
            4 => format!(
                "if ({kind}{variable} {compare} {kind}{other}) {{ {result} = {result} * 3 + {step}; g{at}.read(hdr.h.f{at}, {index}); }}"
            ),
            _ => format!("{variable} = {other} + 1;"),
        };
        let line = match choices.below(6) {
            0 => format!("@atomic {{ {line} }}"),
            _ => line,
        };
        writeln!(code, "        {line}").unwrap();
    }
    for at in 0..widths.len() {
        writeln!(code, "        hdr.h.f{at} = hdr.h.f{at} ^ v{at} ^ w{at};").unwrap();
    }
    (declared, code)
}

#[test]
fn registers_of_any_width_hold_what_the_interpreter_has_in_them() {
    for seed in 0..PROGRAMS {
        let mut choices = Rng::new(seed);
        let widths: Vec<u32> = (0..choices.between(1, 4))
            .map(|_| width(&mut choices))
            .collect();
        let (declared, code) = random_code(&widths, &mut choices);
        let program = Program::new(widths, V1MODEL, &declared, &code);
        let packets = program.packets(&mut choices, 300);
        program.on_both(&packets);
    }
}

/// Returns code that hashes keys one after another, and looks each up in registers. Some of it
/// writes what others hash or test.
fn random_lookups(widths: &[u32], choices: &mut Rng) -> (String, String) {
    let width = widths[0];
    let declared = format!(
        "register<bit<64>>(13) index; register<bit<{width}>>(6) keys; register<bit<32>>(6) counts;
        bit<32> place = 0; bit<32> slot = 0; bit<64> entry = 0; bit<{width}> key = 0;
        bit<32> held = 0;"
    );
    let mut code = String::new();
    for step in 0..choices.between(4, 12) {
        let (_, mut data) = some_fields(widths.len(), choices);
        match choices.below(8) {
            0 => data = "{ hdr.h.r0, hdr.h.f0 }".to_owned(),
            1 => data = "{ place, hdr.h.number }".to_owned(),
            _ => {}
        }
        let base = ["32w0", "32w7", "hdr.h.number"][choices.below(3) as usize];
        let mut lines = vec![
            format!("hash(place, HashAlgorithm.crc32, {base}, {data}, 64w0x100000000);"),
            "index.read(entry, (bit<32>) place[3:0]);".to_owned(),
            "if (entry[0:0] == 1) {
                keys.read(key, (bit<32>) entry[3:1]);
                if (key == hdr.h.f0) {
                    slot = (bit<32>) entry[3:1];
                    counts.read(held, slot);
                    counts.write(slot, held + 1);
                } else {
                    place = place + 3;
                    index.read(entry, (bit<32>) place[3:0]);
                    hdr.h.r1 = hdr.h.r1 * 5 + entry;
                }
            } else {
                keys.write((bit<32>) place[10:8], hdr.h.f0);
                index.write((bit<32>) place[3:0], (bit<64>) place[10:8] << 1 | 1);
            }"
            .to_owned(),
            "hdr.h.r0 = hdr.h.r0 * 3 + (bit<64>) (place ++ held)[63:0];".to_owned(),
        ];
        match choices.below(8) {
            0 => lines.insert(0, "hdr.h.f0 = hdr.h.f0 + 1;".to_owned()),
            1 => lines.insert(1, "hdr.h.f0 = hdr.h.f0 ^ 3;".to_owned()),
            2 => lines.insert(2, "entry[7:0] = place[7:0];".to_owned()),
            3 => lines.insert(0, "place = place + 1;".to_owned()),
            4 => lines.swap(0, 1),
            _ => {}
        }
        let cond = match choices.below(5) {
            0 => Some(format!("hdr.h.index[{}:{0}] == 1", step % 8)),
            1 => Some("hdr.h.number > 5".to_owned()),
            2 => Some("place[0:0] == 1".to_owned()),
            3 => Some("hdr.h.r0[0:0] == 1".to_owned()),
            _ => None,
        };
        let lines = lines.join("\n        ");
        let lines = match cond {
            Some(cond) => format!("if ({cond}) {{ {lines} }}"),
            None => lines,
        };
        writeln!(code, "        {lines}").unwrap();
        if choices.below(8) == 0 {
            code = format!("        if (hdr.h.number[0:0] == 1) {{ {code} }}\n");
        }
    }
    code += "hdr.h.r2 = entry; hdr.h.r3 = (bit<64>) (slot ++ held); hdr.h.f0 = hdr.h.f0 ^ key;";
    if choices.below(2) == 0 {
        code = format!("@atomic {{ {code} }}");
    }
    (declared, code)
}

#[test]
fn keys_are_looked_up_one_after_another_as_the_interpreter_does() {
    for seed in 0..2 * PROGRAMS {
        let mut choices = Rng::new(seed);
        let widths: Vec<u32> = (0..choices.between(1, 4))
            .map(|_| width(&mut choices))
            .collect();
        let (declared, code) = random_lookups(&widths, &mut choices);
        let program = Program::new(widths, V1MODEL, &declared, &code);
        let packets = program.packets(&mut choices, 300);
        program.on_both(&packets);
    }
}

#[test]
fn checksums_of_up_to_1500_bytes_are_those_of_the_interpreter() {
    const NONE: &str = "control C(inout headers_t hdr, inout metadata_t meta) { apply { } }";
    for seed in 0..8 {
        let mut choices = Rng::new(seed);
        let widths: Vec<u32> = (0..choices.between(1, 4))
            .map(|_| width(&mut choices))
            .collect();
        let mut data: Vec<String> = Vec::new();
        let (mut bits, bound) = (0, choices.between(3000, 12_000) as u32);
        loop {
            let at = choices.below(widths.len() as u64) as usize;
            bits += widths[at];
            if bits > bound {
                break;
            }
            data.push(format!("hdr.h.f{at}"));
        }
        let data = data.join(", ");
        let call = |call| {
            format!("{call}(hdr.h.index[0:0] == 1, {{ {data} }}, hdr.h.r0, HashAlgorithm.csum16);")
        };
        let parts = [
            ("C", call("verify_checksum")),
            ("U", call("update_checksum")),
        ];
        let controls = parts.map(|(name, body)| {
            NONE.replace("control C", &format!("control {name}"))
                .replace("apply { }", &format!("apply {{ {body} }}"))
        });
        let architecture = V1MODEL
            .replace(NONE, &controls.join("\n"))
            .replace("E(), C(), D()", "E(), U(), D()");
        let code = "hdr.h.r1 = (bit<64>) sm.checksum_error;";
        let program = Program::new(widths, &architecture, "", code);
        let packets = program.packets(&mut choices, 100);
        program.on_both(&packets);
    }
}

/// Returns the bits of a header's fields, with the missing bits of a byte before or after them.
fn data(packet: &[u8], widths: &[u32], fields: &[usize], pads_front: bool) -> Vec<u8> {
    let bit = |at: usize| packet[5 + at / 8] >> (7 - at % 8) & 1;
    let mut bits: Vec<u8> = Vec::new();
    for &field in fields {
        let begin: u32 = widths[..field].iter().sum();
        let all = begin as usize..(begin + widths[field]) as usize;
        bits.extend(all.map(bit));
    }
    let padding = bits.len().wrapping_neg() % 8;
    let padding = std::iter::repeat_n(0, padding);
    let bits: Vec<u8> = match pads_front {
        true => padding.chain(bits).collect(),
        false => bits.into_iter().chain(padding).collect(),
    };
    let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | bit);
    bits.chunks(8).map(byte).collect()
}

/// Returns a hash bit by bit, or word by word.
fn model(algorithm: &str, data: &[u8]) -> u64 {
    let crc = |polynomial: u32, begin: u32| {
        data.iter().fold(begin, |remainder, &byte| {
            (0..8).fold(remainder ^ u32::from(byte), |remainder, _| {
                let is_odd = remainder & 1 == 1;
                remainder >> 1 ^ if is_odd { polynomial } else { 0 }
            })
        })
    };
    let words = || {
        let word = |word: &[u8]| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into());
        data.chunks(2).map(word)
    };
    match algorithm.to_ascii_lowercase().as_str() {
        "crc32" => u64::from(!crc(0xedb8_8320, u32::MAX)),
        "crc16" => crc(0xa001, 0).into(),
        "xor16" => words().fold(0, |all, word| all ^ word),
        "csum16" | "ones_complement16" => {
            let fold = |sum: u64| (sum & 0xffff) + (sum >> 16);
            words().fold(0, |sum, word| fold(sum + word)) ^ 0xffff
        }
        _ => {
            let first = &data[..data.len().min(8)];
            first
                .iter()
                .fold(0, |all, &byte| all << 8 | u64::from(byte))
        }
    }
}

/// Returns some fields, in any order.
fn some_fields(count: usize, choices: &mut Rng) -> (Vec<usize>, String) {
    let picks = choices.between(1, 4);
    let fields: Vec<usize> = (0..picks)
        .map(|_| choices.below(count as u64) as usize)
        .collect();
    let names: Vec<String> = fields.iter().map(|at| format!("hdr.h.f{at}")).collect();
    (fields, format!("{{ {} }}", names.join(", ")))
}

fn result(packet: &[u8], number: u32) -> u64 {
    let at = packet.len() - 8 * (RESULTS - number) as usize;
    u64::from_be_bytes(*packet[at..].first_chunk().expect("a result has 8 bytes"))
}

/// Checks the hashes of a program against the model. `ask` writes the code for a result.
fn check_hashes(
    seed: u64,
    (architecture, pads_front): (&str, bool),
    algorithms: &[&'static str],
    ask: impl Fn(u32, &str, &str, u64, u64) -> (String, String),
) {
    let mut choices = Rng::new(seed);
    let widths: Vec<u32> = (0..choices.between(1, 5))
        .map(|_| width(&mut choices))
        .collect();
    let (mut declared, mut code, mut asked) = (String::new(), String::new(), Vec::new());
    for number in 0..RESULTS {
        let algorithm = algorithms[choices.below(algorithms.len() as u64) as usize];
        let (fields, names) = some_fields(widths.len(), &mut choices);
        let base = choices.below(1000);
        let max = [1 << 32, 1 << 10, 1, 1000, choices.between(1, 1 << 33)];
        let max = max[choices.below(5) as usize];
        let (of_instance, line) = ask(number, algorithm, &names, base, max);
        writeln!(declared, "    {of_instance}").unwrap();
        writeln!(code, "        {line}").unwrap();
        asked.push((algorithm, fields, base, max));
    }
    let program = Program::new(widths.clone(), architecture, &declared, &code);
    let packets = program.packets(&mut choices, 100);
    let sent = program.on_both(&packets);
    for (packet, sent) in packets.iter().zip(sent) {
        for (number, (algorithm, fields, base, max)) in (0..).zip(&asked) {
            let hash = model(algorithm, &data(packet, &widths, fields, pads_front));
            let expected = base + hash % max;
            assert_eq!(
                result(&sent, number),
                expected,
                "{algorithm}\n{}",
                program.text
            );
        }
    }
}

#[test]
fn hashes_of_fields_of_any_width_are_those_of_the_model() {
    for seed in 0..PROGRAMS {
        let algorithms = ["crc32", "crc16", "csum16", "xor16", "identity"];
        check_hashes(
            seed,
            (V1MODEL, false),
            &algorithms,
            |number, algorithm, data, base, max| {
                let to = format!("hdr.h.r{number}");
                let call =
                    format!("hash({to}, HashAlgorithm.{algorithm}, 64w{base}, {data}, 64w{max});");
                (String::new(), call)
            },
        );
    }
}

#[test]
fn hashes_of_objects_are_those_of_the_model() {
    for seed in 0..PROGRAMS {
        let algorithms = ["CRC32", "CRC16", "ONES_COMPLEMENT16", "IDENTITY"];
        check_hashes(
            seed,
            (PSA, true),
            &algorithms,
            |number, algorithm, data, base, max| {
                let declared =
                    format!("Hash<bit<64>>(PSA_HashAlgorithm_t.{algorithm}) hash{number};");
                let to = format!("hdr.h.r{number}");
                let call = format!("{to} = hash{number}.get_hash(64w{base}, {data}, 64w{max});");
                (declared, call)
            },
        );
    }
}

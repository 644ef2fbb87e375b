//! Floats of `average.p4c` through P4 and C: they come back bit for bit, and the results are those
//! of the same C code in a program of its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use command::args::Source;
use command::{compile, configure, handlers};
use exec::Engine;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

/// Headers before the sample: Ethernet, IPv4, UDP.
const HEADERS: &str = "0200000000010200000000fe0800\
                       450000340001000040115daf0a0000010a00090903e8138d00200abf";

/// Length of a sample.
const SAMPLE: usize = 24;

/// The C code's host with one flow, and a loop over samples from standard input.
const HOST: &str = r#"
static int known;
static int32_t find(clip_t *c, uint32_t t, const uint64_t *k, uint64_t *p, uint32_t *a) {
    (void)c; (void)t; (void)k;
    p[0] = 0;
    *a = FLOWS_SET_SLOT;
    return known;
}
static int32_t insert(clip_t *c, uint32_t t, const uint64_t *k, uint32_t a, const uint64_t *p,
                      uint64_t idle) {
    (void)c; (void)t; (void)k; (void)a; (void)p; (void)idle;
    known = 1;
    return CLIP_OK;
}
static int32_t modify(clip_t *c, uint32_t t, const uint64_t *k, uint32_t a, const uint64_t *p) {
    (void)c; (void)t; (void)k; (void)a; (void)p;
    return 0;
}
int main(void) {
    static struct slots state;
    void *variables[] = { &state };
    struct clip_host host = { .find = find, .insert = insert, .modify = modify };
    clip_t clip = { .host = &host, .variables = variables };
    struct { float value; float same32; double same64; } in;
    while (fread(&in, sizeof in, 1, stdin) == 1) {
        struct average_request_t q = { .is_known = known, .slot = 0 };
        struct average_response_t r = { 0 };
        memcpy(&q.value, &in.value, 4);
        memcpy(&q.same32, &in.same32, 4);
        memcpy(&q.same64, &in.same64, 8);
        if (average(&clip, &q, &r) != CLIP_OK)
            return 1;
        fwrite(&r.samples, 4, 1, stdout);
        fwrite(&r.mean, 4, 1, stdout);
        fwrite(&r.same32, 4, 1, stdout);
        fwrite(&r.same64, 8, 1, stdout);
    }
    return 0;
}
"#;

/// Returns the bits of a float: often one that arithmetic could change.
fn float(rng: &mut Rng, (width, mantissa): (u32, u32)) -> u64 {
    let sign = rng.below(2) << (width - 1);
    let fraction = rng.bits() & ((1 << mantissa) - 1);
    let exponent_ones = ((1u64 << (width - 1 - mantissa)) - 1) << mantissa;
    sign | match rng.below(8) {
        0 => 0,
        // A NaN with a payload: quiet or signaling.
        1 => exponent_ones | fraction.max(1),
        2 => exponent_ones,
        // Subnormal.
        3 => fraction,
        // Near 1.
        4 | 5 => (exponent_ones >> 1 & exponent_ones) | fraction,
        _ => rng.bits() & ((1 << (width - 1)) - 1),
    }
}

/// Runs the C code alone. Returns 20 bytes for each sample.
fn alone(program: &ir::Program, texts: &[foreign::CodeText], input: &[u8]) -> Vec<u8> {
    let directory = std::env::temp_dir().join(format!("polyplane-floats-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let header = foreign::header(program);
    std::fs::write(directory.join("clip.h"), header).expect("a file");
    let code: String = texts.iter().map(|text| text.text.as_str()).collect();
    let unit = format!("#include \"clip.h\"\n{code}\n{HOST}");
    std::fs::write(directory.join("alone.c"), unit).expect("a file");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(compiler)
        .args([
            "-std=c11",
            "-O2",
            "-ffp-contract=off",
            "-o",
            "alone",
            "alone.c",
            "-lm",
        ])
        .current_dir(&directory)
        .status();
    assert!(built.expect("a C compiler").success());
    let mut child = Command::new(directory.join("alone"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    writer
        .join()
        .expect("a thread")
        .expect("all samples are read");
    assert!(output.status.success());
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
    output.stdout
}

/// Sends all samples through a device, and compares what comes out.
fn check(engine: Box<dyn Engine>, samples: &[u8], expected: &[u8]) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/split");
    let source = Source::file(&examples.join("average.p4c"));
    let compiled = compile::compile_with_handlers(&source).expect("the source can be read");
    let compiled = compiled.expect("the program compiles");
    let name = engine.name();
    let engine = handlers::engine_with(engine, compiled.handlers);
    let mut device = Device::new(
        Arc::new(compiled.program),
        &*engine,
        &DeviceConfig::default(),
    )
    .expect("the program is loaded");
    let is_configured = configure::add_file(&mut device, &examples.join("average.entries"));
    assert!(is_configured.expect("the file can be read"));
    let headers: Vec<u8> = (0..HEADERS.len() / 2)
        .map(|at| u8::from_str_radix(&HEADERS[2 * at..2 * at + 2], 16).expect("digits"))
        .collect();
    for (number, (sample, expected)) in samples.chunks(16).zip(expected.chunks(20)).enumerate() {
        let big = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<u8>>();
        let (value, same32, same64) = (big(&sample[..4]), big(&sample[4..8]), big(&sample[8..]));
        let bytes = [&headers[..], &value, &[0; 8], &same32, &same64].concat();
        let mut frame = Frame::from_bytes(&bytes).expect("a frame");
        frame.ingress = PortId(0);
        let mut came = Vec::new();
        let now = Nanos::from_micros(number as u64);
        device.forward(&mut [frame], now, |_, frame, _| {
            came.push(frame.bytes().to_vec())
        });
        let wanted = [
            value,
            big(&expected[..4]),
            big(&expected[4..8]),
            big(&expected[8..12]),
            big(&expected[12..]),
        ]
        .concat();
        let [came] = &came[..] else {
            panic!("{name}: sample {number}: {} packets", came.len());
        };
        assert_eq!(came[headers.len()..], wanted, "{name}: sample {number}");
        assert_eq!(wanted.len(), SAMPLE);
        assert_eq!(came[headers.len() + 12..][..4], same32, "sample {number}");
        assert_eq!(came[headers.len() + 16..], same64, "sample {number}");
    }
}

#[test]
fn floats_come_back_bit_for_bit_with_the_results_of_the_same_c_alone() {
    // `cargo xtask floats` sends more.
    let samples = std::env::var("FLOATS").ok().and_then(|n| n.parse().ok());
    let samples: usize = samples.unwrap_or(3000);
    let mut rng = Rng::new(7);
    let mut input = Vec::new();
    for _ in 0..samples {
        for _ in 0..2 {
            input.extend_from_slice(&(float(&mut rng, (32, 23)) as u32).to_le_bytes());
        }
        input.extend_from_slice(&float(&mut rng, (64, 52)).to_le_bytes());
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/split");
    let source = Source::file(&examples.join("average.p4c"));
    let (program, blocks) = compile::compile_with_foreign(&source).expect("the program compiles");
    let texts = handlers::texts(blocks, None).expect("C code");
    let expected = alone(&program, &texts, &input);
    assert_eq!(expected.len(), samples * 20);
    check(Box::new(interp::Interp), &input, &expected);
    check(
        Box::new(jit::Jit::new(Arc::new(interp::Interp))),
        &input,
        &expected,
    );
}

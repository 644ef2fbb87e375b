//! Every v1model program as a program over a switch and servers, with all tables that can be
//! mirrored and few entries of each in the switch: it passes its own STF test, and does with random
//! packets and changes of entries what one device does.

#[path = "split_floats/mod.rs"]
mod split_floats;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use command::handlers;
use command::split_bed::SplitBed;
use command::split_text::through_text;
use exec::Engine;
use passes::split::{PivHome, SplitOptions};
use split::{LocalOptions, LocalSplit};
use switch::DeviceConfig;

/// Programs that cannot be split, and a part of the reason.
const REFUSED: &[(&str, &str)] = &[("shared_control", "in a loop")];

/// Programs with a test of lengths, which an Ethernet header changes, and a part of the fault.
const LONGER: &[(&str, &str)] = &[("counters", "the counter has 40 bytes")];

/// Numbers of programs that pass and of listed ones, and the faults of others.
#[derive(Default)]
struct Outcome {
    split: usize,
    others: usize,
    faults: Vec<String>,
}

fn engine(name: &str) -> Box<dyn Engine> {
    match name {
        "jit" => Box::new(jit::Jit::new(Arc::new(interp::Interp))),
        _ => Box::new(interp::Interp),
    }
}

/// Splits a program and runs its test. A program without Ethernet gets it.
fn check(path: &Path, program: &ir::Program, servers: u16, on: &str) -> Result<(), String> {
    check_form(path, program, servers, on, false)
}

/// Does the same, with the switch half as P4 text for any v1model switch, compiled again.
fn check_text(path: &Path, program: &ir::Program, servers: u16, on: &str) -> Result<(), String> {
    check_form(path, program, servers, on, true)
}

fn check_form(
    path: &Path,
    program: &ir::Program,
    servers: u16,
    on: &str,
    is_text: bool,
) -> Result<(), String> {
    let framed = behind_ethernet(program);
    let is_framed = framed.is_some();
    let program = framed.as_ref().unwrap_or(program);
    let options = SplitOptions {
        mirror_all: Some(1),
        fixed_switch: is_text,
        ..SplitOptions::default()
    };
    let mut split =
        passes::split::split(program, &options).map_err(|error| format!("refused: {error}"))?;
    if is_text && split.plan.cuts.is_empty() {
        // The text is that of the whole program, which has a test of its own.
        return Ok(());
    }
    if is_text {
        ir::verify(&split.switch).map_err(|errors| format!("fixed switch: {}", errors[0]))?;
        split = through_text(&split).map_err(|error| error.to_string())?;
    }
    for (name, half) in [("switch", &split.switch), ("server", &split.server)] {
        ir::verify(half).map_err(|errors| format!("{name}: {}", errors[0]))?;
    }
    let local = LocalOptions {
        servers,
        request_port: options.request_port,
        ..LocalOptions::default()
    };
    let bed = LocalSplit::new(&split, &local, |_| engine(on)).map_err(|error| error.to_string())?;
    let mut bed = SplitBed(bed);
    let test = path.with_extension("stf");
    let stf = std::fs::read_to_string(&test).expect("the test can be read");
    let stf = if is_framed { with_ethernet(&stf) } else { stf };
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let report = stf::run_in(&mut bed, &read_file, &test.display().to_string(), &stf)
        .map_err(|refused| format!("STF: {refused:?}"))?;
    if let Some(refused) = bed.0.coordinator_mut().take_refused().first() {
        return Err(format!("a plane refused a change: {refused}"));
    }
    match report.failures.first() {
        Some(first) => Err(format!("STF line {}: {}", first.line, first.message)),
        None => Ok(()),
    }
}

/// The Ethernet header of packets of programs without one.
const ETHERNET: &str = "02000000000a02000000000b1234";

/// Returns the program with an Ethernet header before all others, if it does not begin with one.
fn behind_ethernet(program: &ir::Program) -> Option<ir::Program> {
    use ir::{BlockCode, BlockRole, Stmt, StmtKind};
    let parser = program
        .pipeline
        .blocks
        .iter()
        .find_map(|block| match block.code {
            BlockCode::Parser(id) => Some(id),
            BlockCode::Control(_) => None,
        })?;
    let options = SplitOptions {
        mirror_all: Some(1),
        ..SplitOptions::default()
    };
    match passes::split::split(program, &options) {
        Err(error) if error.message.contains("not Ethernet") => {}
        _ => return None,
    }
    let mut framed = program.clone();
    let fields = [("dst", 48), ("src", 48), ("type", 16)];
    let field = |(name, width): (&str, u32)| ir::HeaderField {
        name: name.to_owned(),
        ty: ir::ScalarTy::Bit(width),
        data_ty: ir::DataTy::Bit(width),
        annotations: Vec::new(),
    };
    let ty = framed.header_types.push(ir::HeaderType {
        name: "outer_ethernet_t".to_owned(),
        fields: fields.into_iter().map(field).collect(),
        annotations: Vec::new(),
    });
    let mut storage = |name: &str, ty: ir::ScalarTy| {
        let name = format!("outer_ethernet.{name}");
        framed.fields.push(ir::Field { name, ty })
    };
    let valid = storage("$valid$", ir::ScalarTy::Bool);
    fields.into_iter().for_each(|(name, width)| {
        storage(name, ir::ScalarTy::Bit(width));
    });
    let name = "outer_ethernet".to_owned();
    let header = framed.headers.push(ir::Header { name, ty, valid });
    let stmt = |kind: StmtKind| Stmt { kind, loc: None };
    let parser = &mut framed.parsers[parser];
    let old = parser.start;
    parser.start = parser.states.push(ir::State {
        name: "outer_ethernet".to_owned(),
        body: vec![stmt(StmtKind::Extract(header.into(), None))],
        transition: ir::Transition::Direct(ir::Target::State(old)),
        loc: None,
    });
    let deparser = framed
        .pipeline
        .blocks
        .iter()
        .find_map(|block| match block.code {
            BlockCode::Control(id) if block.role == BlockRole::Deparser => Some(id),
            _ => None,
        })?;
    let emit = stmt(StmtKind::Emit(header.into()));
    let stages = framed.controls[deparser].stages.iter_mut().next();
    let (_, first) = stages?;
    let ir::StageKind::Action { body, .. } = &mut first.kind else {
        return None;
    };
    body.insert(0, emit);
    Some(framed)
}

/// Puts the header before all packets of a test.
fn with_ethernet(stf: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some(word @ ("packet" | "expect")), Some(port)) => {
                let rest: Vec<&str> = words.collect();
                let rest = rest.join(" ");
                match rest.is_empty() && word == "expect" {
                    true => line.to_owned(),
                    false => format!("{word} {port} {ETHERNET} {rest}"),
                }
            }
            _ => line.to_owned(),
        }
    };
    stf.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the v1model programs with a test, and their names. With `SPLIT_ONLY` in the environment
/// only those with this text in their paths.
fn programs() -> Vec<(String, PathBuf, Arc<ir::Program>)> {
    let only = std::env::var("SPLIT_ONLY").unwrap_or_default();
    let mut found = Vec::new();
    for directory in ["programs", "../examples"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for path in testkit::tested(&root) {
            if !path.to_string_lossy().contains(&only) {
                continue;
            }
            let program = testkit::compile(&path).expect("the program compiles");
            let is_chain = !program.pipeline.steps.is_empty();
            if program.arch == ir::Arch::V1model && !is_chain {
                let name = path.file_stem().expect("a file has a name");
                found.push((name.to_string_lossy().into_owned(), path, program));
            }
        }
    }
    found
}

fn all_pass(servers: u16, on: &str) {
    all_are(&[REFUSED, LONGER], |path, program| {
        check(path, program, servers, on)
    });
}

/// Checks all programs. Those of the lists have another result, of which a part is known.
fn all_are(lists: &[&[(&str, &str)]], check: impl Fn(&Path, &ir::Program) -> Result<(), String>) {
    let mut outcome = Outcome::default();
    for (name, path, program) in programs() {
        let mut known = lists.iter().flat_map(|list| list.iter());
        let known = known.find(|(known, _)| *known == name);
        match (check(&path, &program), known) {
            (Ok(()), None) => outcome.split += 1,
            (Err(fault), Some((_, reason))) if fault.contains(reason) => outcome.others += 1,
            (Ok(()), Some(_)) => outcome
                .faults
                .push(format!("{name}: splits, but is listed")),
            (Err(fault), _) => outcome.faults.push(format!("{name}: {fault}")),
        }
    }
    let Outcome {
        split,
        others,
        faults,
    } = outcome;
    assert!(faults.is_empty(), "{split} split\n{}", faults.join("\n"));
    assert!(
        split * 4 >= (split + others) * 3,
        "{split} of {} split",
        split + others
    );
}

#[test]
fn split_programs_with_one_server_pass_their_tests_on_the_interpreter() {
    all_pass(1, "interp");
}

#[test]
fn split_programs_with_three_servers_pass_their_tests_as_native_code() {
    all_pass(3, "jit");
}

/// Programs with a switch half that P4 text does not carry over, and a part of the fault.
const NO_TEXT: &[(&str, &str)] = &[];

#[test]
fn texts_of_switch_halves_pass_the_tests_of_their_programs() {
    all_are(&[REFUSED, LONGER, NO_TEXT], |path, program| {
        check_text(path, program, 3, "interp")
    });
}

/// Splits a program with C code, and runs its test over one server and the text of its switch half.
fn check_handlers(path: &Path, on: &str) -> Result<(), String> {
    let files = driver::FileSystem::default();
    let source = driver::Source::File {
        path,
        files: &files,
    };
    let compiled = driver::compile(&source, &driver::Options::default());
    let blocks = compiled.foreign.clone();
    let program = compiled.into_result().map_err(|error| error.to_string())?;
    let options = SplitOptions {
        fixed_switch: true,
        ..SplitOptions::default()
    };
    let split = passes::split::split(&program, &options).map_err(|error| error.to_string())?;
    ir::verify(&split.switch).map_err(|errors| format!("fixed switch: {}", errors[0]))?;
    let texts = handlers::texts(blocks, None)?;
    let made = handlers::compile(&split.whole, &texts).ok_or("the C code does not compile")?;
    let natives = made
        .load(&split.server, 0)
        .ok_or("the C code does not load")?;
    let split = through_text(&split).map_err(|error| error.to_string())?;
    let local = LocalOptions {
        servers: 1,
        request_port: options.request_port,
        ..LocalOptions::default()
    };
    let bed = LocalSplit::new(&split, &local, |plane| {
        let natives = plane.map(|_| natives.clone()).unwrap_or_default();
        handlers::engine_with(engine(on), natives)
    });
    let mut bed = SplitBed(bed.map_err(|error| error.to_string())?);
    let test = path.with_extension("stf");
    let stf = std::fs::read_to_string(&test).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let report = stf::run_in(&mut bed, &read_file, &test.display().to_string(), &stf)
        .map_err(|refused| format!("STF: {refused:?}"))?;
    if let Some(refused) = bed.0.coordinator_mut().take_refused().first() {
        return Err(format!("a plane refused a change: {refused}"));
    }
    match report.failures.first() {
        Some(first) => Err(format!("STF line {}: {}", first.line, first.message)),
        None => Ok(()),
    }
}

#[test]
fn texts_of_switch_halves_pass_the_tests_of_the_examples_with_and_without_c() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/split");
    let mut faults = Vec::new();
    let mut programs = 0;
    for file in std::fs::read_dir(&directory).expect("the directory can be read") {
        let path = file.expect("a file").path();
        let is_program = path
            .extension()
            .is_some_and(|ending| ending == "p4c" || ending == "p4");
        if !is_program {
            continue;
        }
        programs += 1;
        // Native code of one program: the engines agree by tests of their own.
        let engines: &[&str] = match path.file_stem().is_some_and(|name| name == "snat") {
            true => &["interp", "jit"],
            false => &["interp"],
        };
        for on in engines {
            if let Err(fault) = check_handlers(&path, on) {
                faults.push(format!("{} on {on}: {fault}", path.display()));
            }
        }
    }
    assert!(programs >= 7, "{programs}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Programs with results that random numbers or the time of day of a packet decide.
const RANDOM: &[&str] = &["random"];

/// Number of random packets for each program.
const PACKETS: u64 = 300;

/// Packets and counts of a test bed.
#[derive(Debug, PartialEq)]
struct Observed {
    /// Packets by egress port, in their order.
    sent: std::collections::BTreeMap<u32, Vec<Vec<u8>>>,
    digests: Vec<(bits::Value, Vec<u64>)>,
    counters: Vec<String>,
}

/// Sends packets and changes to a test bed: the same for the same seed.
fn observe<P: stf::PacketPlane>(
    bed: &mut P,
    commands: &[entries::stf::Command],
    directory: &Path,
    seed: u64,
) -> Observed {
    use entries::stf::CommandKind;
    let program = Arc::clone(bed.device().program());
    let mut rng = support::rng::Rng::new(seed);
    let mut packets: Vec<(u32, Vec<u8>)> = Vec::new();
    for command in commands {
        match &command.kind {
            CommandKind::Packet { port, data } => packets.push((*port, data.clone())),
            CommandKind::Update(update) | CommandKind::Labelled(update, _) => {
                // A test may expect that an update fails; it fails on both beds.
                let _ = apply_entries::apply(bed.device_mut(), update);
            }
            CommandKind::Entries(path) => {
                let text = std::fs::read_to_string(directory.join(path)).expect("a file");
                if let Ok(file) = entries::read(&program, path, &text) {
                    let _ = apply_entries::apply_file(bed.device_mut(), &file);
                }
            }
            _ => {}
        }
    }
    let mut observed = Observed {
        sent: Default::default(),
        digests: Vec::new(),
        counters: Vec::new(),
    };
    let tables: Vec<ir::TableId> = program.tables.ids().collect();
    let mut now = packet::Nanos::from_millis(1);
    for _ in 0..PACKETS {
        now += packet::Nanos::from_micros(rng.between(1, 20));
        if rng.one_in(10) && !tables.is_empty() {
            change_an_entry(bed.device_mut(), tables[rng.index(tables.len())], &mut rng);
        }
        let Some((port, data)) = rng.pick(&packets) else {
            break;
        };
        let data = mutated(data, &mut rng);
        let mut frame = packet::Frame::from_bytes(&data).expect("a frame");
        let port = if rng.one_in(8) {
            rng.below(4) as u32
        } else {
            *port
        };
        frame.ingress = packet::PortId(port);
        let sent = &mut observed.sent;
        bed.forward(&mut [frame], now, |port, frame, _| {
            sent.entry(port.0).or_default().push(frame.bytes().to_vec());
        });
        while let Some(digest) = bed.take_digest() {
            let id = bits::Value::truncated(u128::from(digest.digest.get()), 32);
            observed.digests.push((id, digest.limbs.clone()));
        }
    }
    bed.collect_cells();
    let device = bed.device();
    for (id, _) in program.externs.iter() {
        for index in 0..64 {
            if let Some(reading) = device.read_counter(id, index) {
                observed
                    .counters
                    .push(format!("{id:?} {index} {reading:?}"));
            }
            if let Some(values) = device.read_register(id, index) {
                observed.counters.push(format!("{id:?} {index} {values:?}"));
            }
        }
    }
    for (table, entries) in device.configuration().tables.iter() {
        for entry in entries.iter() {
            let reading = device.read_direct_counter(table, entry.id);
            observed
                .counters
                .push(format!("{table:?} {:?} {reading:?}", entry.id));
        }
    }
    observed
}

/// Deletes an entry of a table, and perhaps inserts it again; or changes its action back and forth.
fn change_an_entry(device: &mut switch::Device, table: ir::TableId, rng: &mut support::rng::Rng) {
    use switch::Change;
    let entries = device.configuration().tables[table].iter();
    let entries: Vec<_> = entries.filter(|entry| !entry.is_const).collect();
    let Some(entry) = rng.pick(&entries) else {
        return;
    };
    let Some(written) = device.written(table, entry) else {
        return;
    };
    match rng.below(3) {
        0 => {
            let _ = device.apply(Change::Delete(table, entry.id));
            if !rng.one_in(3) {
                let _ = device.apply(Change::Insert(table, written));
            }
        }
        1 => {
            let Some(other) = rng
                .pick(&entries)
                .and_then(|other| device.written(table, other))
            else {
                return;
            };
            let modify = Change::Modify(table, entry.id, other.action, written.idle_timeout);
            let _ = device.apply(modify);
        }
        _ => {
            let mut longer = written;
            for key in &mut longer.keys {
                if let ir::KeyMatch::Lpm(value, len) = key {
                    *len = (*len + rng.below(9) as u32).min(value.width());
                }
            }
            let _ = device.apply(Change::Insert(table, longer));
        }
    }
}

/// Returns a packet with a few other bytes, or another length.
fn mutated(data: &[u8], rng: &mut support::rng::Rng) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..rng.below(4) {
        let at = rng.index(data.len().max(1));
        if let Some(byte) = data.get_mut(at) {
            *byte = match rng.below(3) {
                0 => rng.bits() as u8,
                1 => *byte ^ 1 << rng.below(8),
                _ => byte.wrapping_add(1),
            };
        }
    }
    if rng.one_in(6) {
        data.truncate(rng.index(data.len() + 1));
    }
    if rng.one_in(6) {
        data.extend(std::iter::repeat_n(rng.bits() as u8, rng.index(40)));
    }
    // A shorter packet cannot be sent to a server.
    if data.len() < 14 {
        data.resize(14, 0);
    }
    data
}

fn behaves(
    path: &Path,
    program: &ir::Program,
    servers: u16,
    on: &str,
    seed: u64,
) -> Result<(), String> {
    let options = SplitOptions {
        mirror_all: Some(2),
        ..SplitOptions::default()
    };
    let framed = behind_ethernet(program);
    let is_framed = framed.is_some();
    let program = framed.as_ref().unwrap_or(program);
    let Ok(split) = passes::split::split(program, &options) else {
        return Ok(());
    };
    let test = path.with_extension("stf");
    let stf = std::fs::read_to_string(&test).expect("the test can be read");
    let stf = if is_framed { with_ethernet(&stf) } else { stf };
    let commands =
        entries::stf::read(program, "test", &stf).map_err(|errors| format!("{errors:?}"))?;
    let directory = path.parent().expect("a file is in a directory");
    let local = LocalOptions {
        servers,
        request_port: options.request_port,
        ..LocalOptions::default()
    };
    let bed = LocalSplit::new(&split, &local, |_| engine(on)).map_err(|error| error.to_string())?;
    let mut bed = SplitBed(bed);
    let whole = Arc::new(split.whole.clone());
    let mut one = switch::Device::new(whole, &*engine(on), &DeviceConfig::default())
        .map_err(|error| error.to_string())?;
    let expected = observe(&mut one, &commands, directory, seed);
    let got = observe(&mut bed, &commands, directory, seed);
    if let Some(refused) = bed.0.coordinator_mut().take_refused().first() {
        return Err(format!("seed {seed}: a plane refused a change: {refused}"));
    }
    stf::PacketPlane::check_conservation(&bed).map_err(|error| format!("seed {seed}: {error}"))?;
    let ports = expected.sent.keys().chain(got.sent.keys());
    for port in ports {
        let [expected, got] =
            [&expected.sent, &got.sent].map(|sent| sent.get(port).cloned().unwrap_or_default());
        if expected != got {
            let at = expected.iter().zip(&got).position(|(a, b)| a != b);
            let at = at.unwrap_or(expected.len().min(got.len()));
            return Err(format!(
                "seed {seed}: packet {at} at port {port} differs ({} and {} in all)\n  one device {:02x?}\n  split      {:02x?}",
                expected.len(),
                got.len(),
                expected.get(at),
                got.get(at)
            ));
        }
    }
    if expected.digests != got.digests {
        return Err(format!("seed {seed}: digests differ"));
    }
    for (a, b) in expected.counters.iter().zip(&got.counters) {
        if a != b {
            return Err(format!("seed {seed}: one device counts {a}, split {b}"));
        }
    }
    Ok(())
}

#[test]
fn split_programs_do_with_random_packets_and_changes_what_one_device_does() {
    // `cargo xtask split-programs --seeds N` runs more.
    let seeds: u64 = std::env::var("SPLIT_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let mut faults = Vec::new();
    for (number, (name, path, program)) in (0..).zip(programs()) {
        if RANDOM.contains(&name.as_str()) {
            continue;
        }
        for seed in number..number + seeds {
            let (servers, on) = match seed % 2 {
                0 => (1, "interp"),
                _ => (3, "jit"),
            };
            if let Err(fault) = behaves(&path, &program, servers, on, seed) {
                faults.push(format!("{name}: {fault}"));
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A program for v1model with these declarations of ingress and this body.
fn program_with(declarations: &str, body: &str) -> String {
    format!(
        "#include <v1model.p4>\n\
         header e_t {{ bit<48> dst; bit<48> src; bit<16> type; }}\n\
         header f_t {{ bit<8> a; varbit<80> v; }}\n\
         struct h {{ e_t e; f_t f; }}\nstruct m {{ bit<8> x; }}\n\
         parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           state start {{ p.extract(hdr.e); transition accept; }}\n}}\n\
         control V(inout h hdr, inout m meta) {{ apply {{}} }}\n\
         control I(inout h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           action go(bit<9> p) {{ s.egress_spec = p; }}\n{declarations}\n\
           apply {{ {body} }}\n}}\n\
         control E(inout h hdr, inout m meta, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control D(packet_out p, in h hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
}

const TABLE: &str = "@mirror(4) table t { key = { hdr.e.dst: exact; } actions = { go; } }";

#[test]
fn what_cannot_be_split_is_refused_with_place_and_remedy() {
    let cases = [
        (
            program_with("", "s.egress_spec = 1;"),
            "applies no mirrored table",
            "write `@mirror(N)`",
        ),
        (
            program_with(TABLE, "clone(CloneType.I2E, 5); t.apply();"),
            "`clone` comes before",
            "move it after",
        ),
        (
            program_with(TABLE, "truncate(60); t.apply();"),
            "`truncate` comes before",
            "move it after",
        ),
        (
            program_with(
                TABLE,
                "if (hdr.e.type == 1) { resubmit_preserving_field_list(0); } t.apply();",
            ),
            "`resubmit` comes before",
            "move it after",
        ),
        (
            program_with(
                "direct_meter<bit<8>>(MeterType.packets) r;\n\
                 action read(bit<9> p) { s.egress_spec = p; r.read(meta.x); }\n\
                 @mirror(4) table t { key = { hdr.e.dst: exact; } actions = { read; } meters = r; }",
                "t.apply();",
            ),
            "has a direct meter",
            "use a meter array",
        ),
        (
            program_with(TABLE, "hdr.f.setValid(); hdr.f.v = hdr.f.v; t.apply();"),
            "of variable length",
            "write it",
        ),
        (
            program_with(TABLE, "t.apply();").replace("bit<48> dst; bit<48> src;", "bit<48> dst;"),
            "is not Ethernet",
            "14 bytes",
        ),
    ];
    for (text, message, hint) in cases {
        let program = testkit::compile_text(&text).unwrap_or_else(|error| panic!("{error}"));
        let error = passes::split::split(&program, &SplitOptions::default())
            .expect_err("the program is refused");
        assert!(error.message.contains(message), "{message}: {error}");
        assert!(error.hint.contains(hint), "{hint}: {error}");
        if let Some(call) = message.strip_suffix(" comes before") {
            // The place is that of the call, not of the code around it.
            let at = text.find(&format!("{}(", call.trim_matches('`')));
            let at = at.or_else(|| text.find(&format!("{}_", call.trim_matches('`'))));
            let column = at.map(|at| at - text[..at].rfind('\n').unwrap_or(0));
            let place = error
                .place
                .as_deref()
                .and_then(|place| place.rsplit(':').next());
            assert_eq!(
                place,
                column.map(|column| column.to_string()).as_deref(),
                "{error}"
            );
        }
        let needs_place = !message.contains("variable length");
        assert!(error.place.is_some() || !needs_place, "{error}");
    }
}

#[test]
fn a_value_that_is_computed_before_a_cut_and_used_after_it_does_not_travel() {
    let declarations = format!(
        "bit<32> flow; bit<8> kept;\n{TABLE}\n\
         action pick(bit<9> p) {{ s.egress_spec = p; }}\n\
         table by_flow {{ key = {{ flow: exact; kept: exact; }} actions = {{ pick; }} }}"
    );
    let body = "hash(flow, HashAlgorithm.crc32, 32w0, { hdr.e.dst, hdr.e.src }, 32w16);\n\
                kept = (bit<8>) hdr.e.type; hdr.e.type = hdr.e.type + 1; t.apply(); by_flow.apply();";
    let program = testkit::compile_text(&program_with(&declarations, body)).expect("compiles");
    let split = passes::split::split(&program, &SplitOptions::default()).expect("splits");
    let again: Vec<&str> = split
        .plan
        .recomputed
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].ends_with("flow"), "{again:?}");
    // `kept` depends on a field that is written before the cut, so it travels.
    let names: Vec<&str> = split
        .plan
        .frame
        .parameters
        .iter()
        .map(|parameter| parameter.name.as_str())
        .collect();
    assert!(names.iter().any(|name| name.ends_with("kept")), "{names:?}");
    assert!(names.contains(&"hdr.e.type"), "{names:?}");
    assert_eq!(
        split.plan.live_bits,
        u64::from(split.plan.frame.parameter_bits()) + 32
    );
}

/// Checks the places of postponable values with a budget in bytes, and a part of the error if
/// there is one.
fn check_phv(
    (declarations, body): (&str, &str),
    budget: Option<u64>,
    expected: Result<&[(&str, PivHome)], &str>,
) {
    let text = program_with(&format!("bit<8> n; bit<32> v;\n{declarations}"), body);
    let program = testkit::compile_text(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let options = SplitOptions {
        phv_bits: budget.map(|bytes| bytes * 8),
        ..SplitOptions::default()
    };
    match (passes::split::split(&program, &options), expected) {
        (Ok(split), Ok(expected)) => {
            let phv = &split.plan.phv;
            let found: Vec<(&str, PivHome)> = phv
                .pivs
                .iter()
                .map(|piv| (piv.name.rsplit('.').next().unwrap_or(""), piv.home))
                .collect();
            assert_eq!(found, expected, "{body}, budget {budget:?}: {phv:?}");
            let deferred = expected.iter().any(|(_, home)| *home == PivHome::Deferred);
            assert_eq!(
                phv.bits_after < phv.bits_before,
                deferred,
                "{body}: {phv:?}"
            );
            assert_eq!(!phv.warnings.is_empty(), deferred, "{body}: {phv:?}");
            assert!(
                budget.is_none_or(|bytes| phv.bits_after <= bytes * 8),
                "{body}"
            );
            // All packets of a table fly that need a deferred value.
            let entries: Vec<u32> = split.plan.mirrored.iter().map(|m| m.entries).collect();
            assert_eq!(entries.contains(&0), deferred, "{body}: {entries:?}");
            for half in [&split.switch, &split.server] {
                ir::verify(half).unwrap_or_else(|errors| panic!("{body}: {}", errors[0]));
            }
        }
        (Err(error), Err(part)) => {
            assert!(error.to_string().contains(part), "{body}: {error}");
            assert!(error.place.is_some(), "{body}: {error}");
        }
        (found, expected) => {
            let found = found.map(|split| split.plan.phv);
            panic!("{body}, budget {budget:?}: {found:?}, expected {expected:?}");
        }
    }
}

#[test]
fn values_that_do_not_fit_the_switch_are_computed_by_servers() {
    use PivHome::{Deferred, Recomputed};
    const HASH: &str = "hash(n, HashAlgorithm.crc16, 8w0, { hdr.e.dst, hdr.e.src }, 32w256);";
    let after = |computed: &str| format!("{computed} t.apply(); hdr.e.src[7:0] = n;");
    let check = |body: &str, budget: Option<u64>, expected: Result<&[(&str, PivHome)], &str>| {
        check_phv((TABLE, body), budget, expected);
    };
    // 113 bits: both addresses, `n`, and 9 bits of the egress port.
    let hash = after(HASH);
    check(&hash, None, Ok(&[("n", Recomputed)]));
    check(&hash, Some(15), Ok(&[("n", Recomputed)]));
    check(&hash, Some(14), Ok(&[("n", Deferred)]));
    check(&hash, Some(9), Ok(&[("n", Deferred)]));
    check(&hash, Some(8), Err("hdr.e.dst 48, s.egress_spec 9, I.n 8"));
    // A first value that is replaced does not matter, nor an input that is a value of its own.
    check(
        &after(&format!("n = 5; {HASH}")),
        Some(10),
        Ok(&[("n", Deferred)]),
    );
    let chain = "v = hdr.e.src[39:8]; n = v[7:0] ^ hdr.e.src[7:0];";
    check(&after(chain), Some(14), Ok(&[("n", Deferred)]));
    // The input is needed in any case: deferring saves nothing.
    check(
        &after("n = hdr.e.dst[7:0];"),
        Some(8),
        Err("its budget is 8 B"),
    );
    // Not postponable: used before the cut, by the cut, or without one.
    let used =
        format!("{HASH} if (n == 1) {{ s.egress_spec = 3; }} t.apply(); hdr.e.src[7:0] = n;");
    check(&used, Some(10), Err("its budget is 10 B"));
    let without = format!("{HASH} if (hdr.e.type == 1) {{ t.apply(); }} hdr.e.src[7:0] = n;");
    check(&without, Some(10), Err("its budget is 10 B"));
    // Its input is written before the cut, so the packet's bytes do not give it.
    let written = after("hdr.e.src = hdr.e.src + 1; n = hdr.e.src[7:0];");
    check(&written, None, Ok(&[]));
    // Of two values the one that saves more goes first.
    let two = "@mirror(4) table t { key = { hdr.e.dst: exact; } actions = { go; } }";
    let both = format!(
        "{HASH} v = (bit<32>) hdr.e.type; t.apply(); hdr.e.src[7:0] = n; hdr.e.src[39:8] = v;"
    );
    check_phv(
        (two, &both),
        Some(15),
        Ok(&[("n", Deferred), ("v", Recomputed)]),
    );
    check_phv(
        (two, &both),
        Some(13),
        Ok(&[("n", Deferred), ("v", Deferred)]),
    );
}

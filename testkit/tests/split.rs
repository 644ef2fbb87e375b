//! Every v1model program as a program over a switch and servers, with all tables that can be
//! mirrored and one entry of each in the switch: it passes its own STF test.

use std::path::Path;

use command::split_bed::SplitBed;
use exec::Engine;
use passes::split::SplitOptions;
use split::{LocalOptions, LocalSplit};
use switch::DeviceConfig;

/// Programs that cannot be split, and a part of the reason.
const REFUSED: &[(&str, &str)] = &[("shared_control", "in a loop")];

/// Programs with a test of lengths, which an Ethernet header changes, and a part of the fault.
const LONGER: &[(&str, &str)] = &[("counters", "the counter has 40 bytes")];

#[derive(Default)]
struct Outcome {
    split: usize,
    refused: Vec<String>,
    faults: Vec<String>,
}

fn engine(name: &str) -> Box<dyn Engine> {
    match name {
        "jit" => Box::new(jit::Jit::new(std::sync::Arc::new(interp::Interp))),
        _ => Box::new(interp::Interp),
    }
}

/// Splits a program and runs its test. A program without Ethernet gets it.
fn check(path: &Path, program: &ir::Program, servers: u16, on: &str) -> Result<(), String> {
    let framed = behind_ethernet(program);
    let is_framed = framed.is_some();
    let program = framed.as_ref().unwrap_or(program);
    let options = SplitOptions {
        mirror_all: Some(1),
        ..SplitOptions::default()
    };
    let split = passes::split::split(program, &options).map_err(|error| format!("refused: {error}"))?;
    for (name, half) in [("switch", &split.switch), ("server", &split.server)] {
        ir::verify(half).map_err(|errors| format!("{name}: {}", errors[0]))?;
    }
    let local = LocalOptions {
        servers,
        request_port: options.request_port,
        device: DeviceConfig::default(),
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
    let parser = program.pipeline.blocks.iter().find_map(|block| match block.code {
        BlockCode::Parser(id) => Some(id),
        BlockCode::Control(_) => None,
    })?;
    let options = SplitOptions { mirror_all: Some(1), ..SplitOptions::default() };
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
    let deparser = framed.pipeline.blocks.iter().find_map(|block| match block.code {
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

fn check_all(directory: &str, servers: u16, on: &str) -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut outcome = Outcome::default();
    let only = std::env::var("SPLIT_ONLY").ok();
    for path in testkit::tested(&root) {
        if only.as_ref().is_some_and(|only| !path.to_string_lossy().contains(only.as_str())) {
            continue;
        }
        let program = testkit::compile(&path).expect("the program compiles");
        if program.arch != ir::Arch::V1model || !program.pipeline.steps.is_empty() {
            continue;
        }
        let name = path.file_stem().expect("a file has a name");
        let name = name.to_string_lossy().into_owned();
        let known = REFUSED.iter().chain(LONGER).find(|(refused, _)| *refused == name);
        match (check(&path, &program, servers, on), known) {
            (Ok(()), None) => outcome.split += 1,
            (Err(fault), Some((_, reason))) if fault.contains(reason) => outcome.refused.push(name),
            (Ok(()), Some(_)) => outcome.faults.push(format!("{name}: splits, but is listed")),
            (Err(fault), _) => outcome.faults.push(format!("{name}: {fault}")),
        }
    }
    outcome
}

fn all_pass(servers: u16, on: &str) {
    let mut all = Outcome::default();
    for directory in ["programs", "../examples"] {
        let some = check_all(directory, servers, on);
        all.split += some.split;
        all.refused.extend(some.refused);
        all.faults.extend(some.faults);
    }
    assert!(all.faults.is_empty(), "{} split\n{}", all.split, all.faults.join("\n"));
    let programs = all.split + all.refused.len();
    assert!(all.split * 4 >= programs * 3, "{} of {programs} split", all.split);
}

#[test]
fn split_programs_with_one_server_pass_their_tests_on_the_interpreter() {
    all_pass(1, "interp");
}

#[test]
fn split_programs_with_three_servers_pass_their_tests_as_native_code() {
    all_pass(3, "jit");
}

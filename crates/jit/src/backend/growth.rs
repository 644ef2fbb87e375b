//! Tests of the size of native code: it grows linearly with the program and is bounded.

use cranelift_codegen::ir::Function;
use exec::FastPathStep;

use super::*;

#[test]
fn a_compilation_that_ends_early_leaves_no_code_in_memory() {
    use support::work::{Interrupt, Work, WorkLimits};

    let compile = |size| {
        let text = states(size);
        let program = ir::read(&text).unwrap_or_else(|error| panic!("{error:?}"));
        super::compile(&program, &Layout::of(&program), &Natives::default()).map(drop)
    };
    assert_eq!(MODULES.get(), 0);
    assert!(compile(10).is_ok());
    assert_eq!(MODULES.get(), 0, "after a compilation");
    assert!(compile(100_000).is_err());
    assert_eq!(MODULES.get(), 0, "after a refusal");
    let work = Work::new(WorkLimits::default());
    work.cancel();
    assert_eq!(work.run(|| compile(10)), Err(Interrupt::Cancelled));
    assert_eq!(MODULES.get(), 0, "after an interrupt");
}

/// Generates a program in which one construct has the given size.
type Scaled = fn(usize) -> String;

const HEAD: &str = "program t own\nfile \"t.p4\"\nfield a: bit<32>\nfield b: bit<32>\n";

fn lines(size: usize, line: impl Fn(usize) -> String) -> String {
    (0..size).map(line).collect()
}

fn parser(states: &str) -> String {
    format!("{HEAD}parser p start s0 {{\n{states}}}\ncontrol c {{\n}}\n")
}

fn control(declared: &str, stages: &str) -> String {
    let start = "state s0 {\n goto accept;\n}\n";
    format!("{HEAD}{declared}parser p start s0 {{\n{start}}}\ncontrol c {{\n{stages}}}\n")
}

fn states(size: usize) -> String {
    let state = |at| {
        let next = at + 1;
        format!("state s{at} @{next}:3 {{\n a = a + 32w0x1;\n goto s{next};\n}}\n")
    };
    let last = format!("state s{size} {{\n goto accept;\n}}\n");
    parser(&(lines(size, state) + &last))
}

fn cases_by(step: usize, size: usize) -> String {
    let cases = lines(size, |at| format!("(32w{:#x}): s1; ", at * step));
    let last = "state s1 {\n a = 32w0x1;\n goto accept;\n}\n";
    parser(&format!(
        "state s0 @7:3 {{\n select (b) {{ {cases}(_): accept; }}\n}}\n{last}"
    ))
}

fn masks(size: usize) -> String {
    let cases = lines(size, |at| format!("(32w{at:#x} &&& 32w0xffff): accept; "));
    parser(&format!(
        "state s0 @7:3 {{\n select (b) {{ {cases}(_): reject; }}\n}}\n"
    ))
}

fn actions(size: usize) -> String {
    let declared = lines(size, |at| {
        format!("action a{at}(v: bit<32>) {{\n a = %v + 32w{at:#x};\n}}\n")
    });
    let listed = lines(size, |at| format!(" action a{at} tableonly;\n"));
    let table = format!(
        "action none() {{\n}}\ntable t {{\n key b: exact as bit<32> = b;\n{listed} \
         action none table_and_default;\n default none();\n size 64 declared;\n}}\n"
    );
    let stages = " stage t @9:1: match t next end;\n";
    control(&(declared + &table), stages)
}

fn tables(size: usize) -> String {
    let declared = lines(size, |at| {
        format!(
            "table t{at} {{\n key b: exact as bit<32> = b;\n action none table_and_default;\n \
             default none();\n size 64 declared;\n}}\n"
        )
    });
    let stages = lines(size, |at| {
        let next = match at + 1 < size {
            true => format!("t{}", at + 1),
            false => "end".to_owned(),
        };
        format!(" stage t{at}: match t{at} next {next};\n")
    });
    let none = "action none() {\n a = a + 32w0x1;\n}\n".to_owned();
    control(&(none + &declared), &stages)
}

fn statements(size: usize) -> String {
    let body = lines(size, |at| format!("  a = (a ^ b) + 32w{at:#x}; @3:5\n"));
    let stage = format!(" stage c.code @2:1: action next end {{\n{body} }}\n");
    control("", &stage)
}

fn operands(size: usize) -> String {
    let sum = (0..size).fold("a".to_owned(), |sum, at| {
        format!("({sum} + (b ^ 32w{at:#x}))")
    });
    let stage = format!(" stage c.code @2:1: action next end {{\n  a = {sum};\n }}\n");
    control("", &stage)
}

const CONSTRUCTS: [(&str, Scaled); 8] = [
    ("states", states),
    ("dense select cases", |size| cases_by(1, size)),
    ("sparse select cases", |size| cases_by(1000, size)),
    ("masks", masks),
    ("actions", actions),
    ("tables", tables),
    ("statements", statements),
    ("operands", operands),
];

/// Sum of the sizes of a program's functions, including the fast path.
#[derive(Debug, Default)]
struct Made {
    /// Instructions and values before and after optimization.
    translated: usize,
    simplified: usize,
    bytes: usize,
}

fn made(text: &str) -> Result<Made, Unsupported> {
    let program = ir::read(text).unwrap_or_else(|error| panic!("{error:?}\n{text:.2000}"));
    let (layout, natives) = (Layout::of(&program), Natives::default());
    let mut compiler = Compiler::new()?;
    let call_conv = compiler.call_conv();
    let mut shared = Shared::new(&program, &layout, &natives, BurstLayout::Grouped, call_conv)?;
    let steps = vec![
        FastPathStep::Parse {
            parser: ParserId::new(0),
            errors: Vec::new(),
        },
        FastPathStep::Control(ControlId::new(0)),
    ];
    let pass = FastPath { steps };
    let bodies = [
        Body::Parser(ParserId::new(0)),
        Body::Control(ControlId::new(0)),
        Body::FastPath(&pass),
    ];
    let mut made = Made::default();
    for body in bodies {
        let mut function = Translated::default();
        compiler.translate(&mut shared, body, &mut function)?;
        made.translated += values(&function.context.func);
        function.make(&compiler.targets)?;
        made.simplified += values(&function.context.func);
        let code = function.context.compiled_code().expect("it was compiled");
        made.bytes += code.code_buffer().len();
    }
    Ok(made)
}

fn values(func: &Function) -> usize {
    func.dfg.num_insts().max(func.dfg.num_values())
}

#[test]
fn native_code_grows_no_faster_than_what_it_is_made_of() {
    for (name, scaled) in CONSTRUCTS {
        // Both sizes are on the same side of the threshold at which the compilation strategy
        // changes. Thresholds are about 200 parser states and 20,000 instructions.
        let size = if name == "states" { 256 } else { 32 };
        let [small, large] = [size, 2 * size].map(|size| made(&scaled(size)).expect("it is small"));
        for (what, small, large) in [
            ("translated", small.translated, large.translated),
            ("simplified", small.simplified, large.simplified),
            ("bytes", small.bytes, large.bytes),
        ] {
            assert!(
                2 * large <= 5 * small,
                "{name}: {what} {small}, then {large}"
            );
        }
    }
}

#[test]
fn what_is_too_large_is_refused_with_its_construct_and_place() {
    let check = |name: &str, what: &str| {
        let (_, scaled) = CONSTRUCTS.iter().find(|(one, _)| *one == name).unwrap();
        let program = ir::read(&scaled(60_000)).unwrap_or_else(|error| panic!("{error:?}"));
        let compiled = compile(&program, &Layout::of(&program), &Natives::default());
        let refused = compiled.err().map(|unsupported| unsupported.construct);
        let expected = format!(
            "{what}: its function has more than 150000 instructions; the interpreter runs it"
        );
        assert_eq!(refused, Some(expected), "{name}");
    };
    check("states", "parser `p` (60001 states at t.p4:1:3)");
    check(
        "masks",
        "parser `p` (60001 select cases in state `s0` at t.p4:7:3)",
    );
    check(
        "statements",
        "control `c` (60000 statements in a stage at t.p4:2:1)",
    );
}

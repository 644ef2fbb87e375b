//! Texts that are made to hurt the compiler end within their quota, and packets of others do not wait for them.

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{forward, frame, hypervisor, id, marker, spec};
use ir::Program;
use tenancy::{CompileError, CompileQuota};

fn compile(text: &str) -> Result<Program, String> {
    testkit::compile_text(text).map(Arc::unwrap_or_clone)
}

#[test]
fn a_slow_program_is_refused_in_time_and_packets_go_on() {
    let mut hypervisor = hypervisor();
    for number in [1, 2] {
        let first = u32::from(number) * 10;
        let mut spec = spec(number, &[first, first + 1]);
        // A machine that is busy with other tests takes its time to begin a thread.
        let limited = number == 2;
        spec.quotas.compile.time = limited.then_some(Duration::from_millis(20));
        hypervisor.create(spec).unwrap();
    }
    hypervisor.load(id(1), marker(1)).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let compiler = hypervisor.compiler(id(2)).unwrap();
    let (go_on, wait) = channel::<()>();
    let slow = move |_: &str| {
        // Ends when the test says so.
        let _ = wait.recv();
        Err("slow".to_owned())
    };
    let too_slow = compiler.compile(String::new(), slow);
    assert_eq!(
        too_slow,
        Err(CompileError::TooSlow(Duration::from_millis(20)))
    );
    assert_eq!(
        compiler.compile(String::new(), compile),
        Err(CompileError::Busy)
    );
    // The other one's compiler is its own.
    let other = hypervisor.compiler(id(1)).unwrap();
    let wrong = other.compile(String::new(), |_| Err("wrong".to_owned()));
    assert_eq!(wrong, Err(CompileError::Wrong("wrong".to_owned())));
    assert_eq!(forward(&mut worker, &mut [frame(10, &[0, 0])], 1).len(), 1);
    drop(go_on);
    let wrong = || compiler.compile("(".to_owned(), |_| Err("wrong".to_owned()));
    let mut last = wrong();
    while matches!(last, Err(CompileError::Busy | CompileError::TooSlow(_))) {
        std::thread::yield_now();
        last = wrong();
    }
    assert_eq!(last, Err(CompileError::Wrong("wrong".to_owned())));
}

#[test]
fn parse_bombs_end() {
    let mut hypervisor = hypervisor();
    let mut spec = spec(1, &[10, 11]);
    spec.quotas.compile = CompileQuota {
        text_bytes: Some(1 << 20),
        time: None,
    };
    hypervisor.create(spec).unwrap();
    let compiler = hypervisor.compiler(id(1)).unwrap();
    let nested = |open: &str, close: &str, times: usize| {
        let (open, close) = (open.repeat(times), close.repeat(times));
        format!("const bit<8> x = {open}1{close};")
    };
    let doubling: String = (1..100)
        .map(|n| format!("#define A{n} A{} A{}\n", n - 1, n - 1))
        .collect();
    let texts = [
        nested("(", ")", 100_000),
        nested("~", "", 400_000),
        nested("1+", "", 200_000),
        "{".repeat(1 << 20),
        format!("#define A0 1\n{doubling}const bit<8> x = A40;"),
        "header h { bit<8> x; } struct s0 { h[65535] a; }".to_owned()
            + &(1..60)
                .map(|n| format!("struct s{n} {{ s{}[65535] a; }}", n - 1))
                .collect::<String>(),
    ];
    for text in texts {
        let begin: String = text.chars().take(60).collect();
        let compiled = compiler.compile(text, compile);
        assert!(
            matches!(compiled, Err(CompileError::Wrong(_))),
            "{begin}: {compiled:?}"
        );
    }
    let long = compiler.compile(" ".repeat((1 << 20) + 1), compile);
    let (asked, allowed) = ((1 << 20) + 1, 1 << 20);
    assert_eq!(long, Err(CompileError::TooLong { asked, allowed }));
}

//! A signal in C ends the process with the handler's name and the packet's number.

use std::process::Command;

use crate::common::{compile, device_with, engines, program, send};

/// Variable that makes the child's test run.
const SIGNAL: &str = "FOREIGN_TEST_SIGNAL";

const CODE: &str = r#"
#include <stdlib.h>
int crash(clip_t *c, const struct req *q, struct res *r)
{
    volatile int zero = 0;
    (void)c;
    switch (q->a) {
    case 1: r->b = *(volatile char *)(uintptr_t)zero; break;
    case 2: r->b = q->a / zero; break;
    case 3: abort();
    case 4: __builtin_trap();
    }
    return CLIP_OK;
}
"#;

/// Test that runs in a process of its own, and crashes there.
#[test]
fn child() {
    let Ok(signal) = std::env::var(SIGNAL) else {
        return;
    };
    let declarations = "extern crash: handler request req {a: bit<8>} response res {b: bit<8>}\n";
    let ingress = r#"    stage ingress.call: action next end {
        call remote on crash ({hdr.h.a}, out {hdr.h.a});
    }"#;
    let program = program("    a: bit<8>;", declarations, ingress);
    let compiled = compile(&program, CODE, "cc");
    let [engine, _] = engines();
    let state = foreign::HandlerState::default();
    let mut device = device_with(&program, &compiled, &state, &engine);
    foreign::set_packet_number(41);
    send(&mut device, &[0], 0);
    foreign::set_packet_number(42);
    match signal.parse() {
        Ok(number) => {
            send(&mut device, &[number], 0);
        }
        Err(_) => std::process::abort(),
    }
}

#[test]
fn a_signal_in_c_ends_the_process_with_one_line() {
    let run = |signal: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "signals::child", "--nocapture"])
            .env(SIGNAL, signal);
        let output = command.output().unwrap();
        (
            output.status,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    for (signal, name) in [
        ("1", "SIGSEGV"),
        ("2", "SIGFPE"),
        ("3", "SIGABRT"),
        ("4", "SIGILL"),
    ] {
        let (status, text) = run(signal);
        let line = format!("error: the C handler `crash` ended with {name} at packet 42\n");
        assert!(text.ends_with(&line), "{text}");
        assert_eq!(status.code(), Some(1));
    }
    // A signal that no handler caused has its usual effect.
    let (status, text) = run("other");
    assert!(
        status.code().is_none() && !text.contains("C handler"),
        "{status} {text}"
    );
}

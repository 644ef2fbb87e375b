//! A signal in C and C that does not end: both end the process with the handler's name and the
//! packet's number.

use std::process::Command;

use crate::common::{compile, device_with, engines, program, send};

/// Variable that makes the child's test run.
const SIGNAL: &str = "FOREIGN_TEST_SIGNAL";

const CODE: &str = r#"
#include <threads.h>
#include <stdlib.h>
#include <time.h>
int crash(clip_t *c, const struct req *q, struct res *r)
{
    volatile int zero = 0;
    (void)c;
    switch (q->a) {
    case 1: r->b = *(volatile char *)(uintptr_t)zero; break;
    case 2: r->b = q->a / zero; break;
    case 3: abort();
    case 4: __builtin_trap();
    case 5: for (;;) { volatile int more = 1; (void)more; }
    case 6: for (;;) thrd_sleep(&(struct timespec){ .tv_sec = 1 }, NULL);
    /* Ends, after 20 ms of processor time and 300 ms without any. */
    case 7: {
        clock_t begin = clock();
        while (clock() - begin < CLOCKS_PER_SEC / 50) { }
        thrd_sleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
        r->b = 7;
        break;
    }
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
    send(&mut device, &[0], 0);
    match signal.parse() {
        Ok(number) => {
            send(&mut device, &[number], 0);
        }
        Err(_) => std::process::abort(),
    }
}

#[test]
fn a_signal_and_a_call_without_an_end_in_c_end_the_process_with_one_line() {
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
    for (signal, what) in [
        ("1", "ended with SIGSEGV"),
        ("2", "ended with SIGFPE"),
        ("3", "ended with SIGABRT"),
        ("4", "ended with SIGILL"),
        ("5", "did not end within 100 ms of processor time"),
        ("6", "did not end within 1 s"),
    ] {
        let (status, text) = run(signal);
        let line = format!("error: the C handler `crash` {what} at packet 2\n");
        assert!(text.ends_with(&line), "{text}");
        assert_eq!(status.code(), Some(1));
    }
    let (status, text) = run("7");
    assert!(status.success(), "{text}");
    // A signal that no handler caused has its usual effect.
    let (status, text) = run("other");
    assert!(
        status.code().is_none() && !text.contains("C handler"),
        "{status} {text}"
    );
}

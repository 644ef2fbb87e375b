//! Malicious program texts are refused within their quota, and other vPDPs' packets do not wait
//! for them.

mod common;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{forward, frame, hypervisor, id, marker, program, spec};
use ir::Program;
use packet::Nanos;
use support::work::checkpoint;
use tenancy::{
    BoundedCompiler, Cancelled, CompileError, CompilePool, CompileQuota, Quotas, TenantSwitch,
};

fn compile(text: &str) -> Result<Program, String> {
    testkit::compile_text(text).map(Arc::unwrap_or_clone)
}

/// Maximum time for a compilation to end after its limit. It takes a millisecond, but other tests
/// run on the same cores.
const GRACE: Duration = Duration::from_secs(2);

/// A compiler that never returns.
fn endless(_: &str) -> Result<Program, String> {
    loop {
        checkpoint();
    }
}

#[test]
fn a_slow_program_is_refused_in_time_and_packets_go_on() {
    let mut hypervisor = hypervisor();
    let time = Duration::from_millis(20);
    for number in [1, 2] {
        let first = u32::from(number) * 10;
        let mut spec = spec(number, &[first, first + 1]);
        // Starting a thread may take long on a machine that is busy with other tests.
        spec.quotas.compile.time = (number == 2).then_some(time);
        hypervisor.create(spec).unwrap();
    }
    hypervisor.load(id(1), marker(1)).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let compiler = hypervisor.compiler(id(2)).unwrap();
    let slow = std::thread::spawn(move || {
        let begin = Instant::now();
        (compiler.compile("", endless), begin.elapsed())
    });
    assert_eq!(forward(&mut worker, &mut [frame(10, &[0, 0])], 1).len(), 1);
    // The other vPDP has its own compiler.
    let other = hypervisor.compiler(id(1)).unwrap();
    let wrong = other.compile("", |_| Err::<Program, _>("wrong".to_owned()));
    assert_eq!(wrong, Err(CompileError::Wrong("wrong".to_owned())));
    let (refused, took) = slow.join().unwrap();
    assert_eq!(refused, Err(CompileError::TooSlow(time)));
    assert!(took < time + GRACE, "{took:?}");
    // No part of it continues: the next one may run.
    let compiler = hypervisor.compiler(id(2)).unwrap();
    let wrong = compiler.compile("(", |_| Err::<Program, _>("wrong".to_owned()));
    assert_eq!(wrong, Err(CompileError::Wrong("wrong".to_owned())));
}

#[test]
fn a_compilation_ends_when_its_vpdp_is_deleted_or_its_quota_shrinks() {
    let mut hypervisor = hypervisor();
    for (reason, number) in [(Cancelled::QuotaShrunk, 1), (Cancelled::Deleted, 2)] {
        hypervisor.create(spec(number, &[])).unwrap();
        let compiler = hypervisor.compiler(id(number)).unwrap();
        let (begun, begins) = channel();
        let slow = std::thread::spawn(move || {
            compiler.compile("", |text| {
                begun.send(()).unwrap();
                endless(text)
            })
        });
        begins.recv().unwrap();
        let begin = Instant::now();
        match reason {
            Cancelled::Deleted => hypervisor.delete(id(number)).unwrap(),
            _ => {
                let quotas = Quotas::read(["compile-ms=5000"]).unwrap();
                hypervisor.set_quotas(id(number), quotas).unwrap();
            }
        }
        let ended = slow.join().unwrap();
        assert_eq!(ended, Err(CompileError::Cancelled(reason)));
        assert!(begin.elapsed() < GRACE);
    }
}

#[test]
fn compilations_are_paid_for_by_the_quota_of_cycles() {
    let mut hypervisor = hypervisor();
    // A second of compilation time costs a thousand million cycles.
    hypervisor.set_compile_pool(CompilePool {
        clock: || Duration::from_millis(CLOCK.fetch_add(50, Relaxed)),
        cycles_per_second: 1_000_000_000,
        ..CompilePool::default()
    });
    let mut spec = spec(1, &[10, 11]);
    spec.quotas = Quotas::read(["cycles=100000000/10000000"]).unwrap();
    hypervisor.create(spec).unwrap();
    hypervisor.load(id(1), marker(1)).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let compiler = hypervisor.compiler(id(1)).unwrap();
    let mut passes = |hypervisor: &mut TenantSwitch, millis: u64| {
        let now = Nanos::from_millis(millis);
        hypervisor.step(now, |_, _, _| {});
        !forward(&mut worker, &mut [frame(10, &[0, 0])], now.0).is_empty()
    };
    assert!(passes(&mut hypervisor, 1));
    let compile = || compiler.compile("", |_| Ok(()));
    // 50 ms by the clock: the quota of half a second, of which a tenth fits into the burst size.
    assert_eq!(compile(), Ok(()));
    assert!(!passes(&mut hypervisor, 2), "packets wait for the debt");
    assert_eq!(compile(), Err(CompileError::InDebt));
    assert!(!passes(&mut hypervisor, 300));
    assert_eq!(compile(), Err(CompileError::InDebt));
    assert!(passes(&mut hypervisor, 500), "it is paid");
    assert_eq!(compile(), Ok(()));
    let figures = hypervisor.vpdp(id(1)).unwrap().compile_figures();
    assert_eq!(figures.time, Duration::from_millis(100));
    assert_eq!((figures.begun, figures.refused), (2, 2));
}

/// Clock of a compiler: each reading advances it by 50 ms.
static CLOCK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Time of a compiler thread.
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Creates a switch with one vPDP with these quotas. A millisecond of [`TIME`] costs 1,000 cycles.
fn with_quotas(quotas: &str) -> (TenantSwitch, BoundedCompiler) {
    let mut hypervisor = hypervisor();
    hypervisor.set_compile_pool(CompilePool {
        clock: || TIME.get(),
        cycles_per_second: 1_000_000,
        ..CompilePool::default()
    });
    let mut spec = spec(1, &[]);
    spec.quotas = Quotas::read([quotas]).unwrap();
    hypervisor.create(spec).unwrap();
    let compiler = hypervisor.compiler(id(1)).unwrap();
    (hypervisor, compiler)
}

/// Runs a compilation that takes this time.
fn compile_for(compiler: &BoundedCompiler, millis: u64) -> Result<(), CompileError> {
    compiler.compile("", |_| {
        TIME.set(TIME.get() + Duration::from_millis(millis));
        Ok(())
    })
}

#[test]
fn a_second_compilation_of_a_vpdp_starts_only_after_the_first_one_was_charged() {
    // The burst is 10,000 cycles, 10 ms of compilation.
    let (mut hypervisor, compiler) = with_quotas("cycles=1000000/10000");
    let (begun, begins) = channel();
    let (end, ends) = channel::<()>();
    let first = compiler.clone();
    let first = std::thread::spawn(move || {
        first.compile("", move |_| {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            TIME.set(Duration::from_millis(20));
            Ok(())
        })
    });
    begins.recv().unwrap();
    assert_eq!(compile_for(&compiler, 1), Err(CompileError::Busy));
    end.send(()).unwrap();
    assert_eq!(first.join().unwrap(), Ok(()));
    // The control side has not charged the first one yet.
    assert_eq!(compile_for(&compiler, 1), Err(CompileError::InDebt));
    let mut step = |millis| hypervisor.step(Nanos::from_millis(millis), |_, _, _| {});
    step(1);
    assert_eq!(compile_for(&compiler, 1), Err(CompileError::InDebt));
    // It costs 20,000 cycles. The burst covers half of it, 10 ms pay for the rest.
    step(12);
    // Less than what is left, so that the next one may start before the charge.
    assert_eq!(compile_for(&compiler, 0), Ok(()));
    assert_eq!(compile_for(&compiler, 5), Ok(()));
    assert_eq!(compile_for(&compiler, 1), Err(CompileError::InDebt));
}

#[test]
fn a_change_of_quotas_keeps_the_debt_of_compilations() {
    let raised = "cycles=1000000/20000";
    let lowered = "cycles=500000/5000";
    let other = "entries=10";
    for changes in [
        &[raised][..],
        &[lowered],
        &[other, raised],
        &[raised, lowered],
    ] {
        // The debt is 90,000 cycles, whether it was charged before the change or not.
        for is_charged in [true, false] {
            let (mut hypervisor, compiler) = with_quotas("cycles=1000000/10000");
            assert_eq!(compile_for(&compiler, 100), Ok(()));
            if is_charged {
                hypervisor.step(Nanos::from_millis(1), |_, _, _| {});
            }
            for quotas in changes {
                let quotas = Quotas::read([*quotas]).unwrap();
                hypervisor.set_quotas(id(1), quotas).unwrap();
            }
            let mut then = |millis| {
                hypervisor.step(Nanos::from_millis(millis), |_, _, _| {});
                compile_for(&compiler, 0)
            };
            let in_debt = Err(CompileError::InDebt);
            assert_eq!(then(2), in_debt, "{changes:?}");
            assert_eq!(then(75), in_debt, "{changes:?}");
            assert_eq!(then(250), Ok(()), "{changes:?}");
        }
    }
}

#[test]
fn a_vpdp_without_quotas_has_bounds_all_the_same() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[])).unwrap();
    let compiler = hypervisor.compiler(id(1)).unwrap();
    let asked = CompileQuota::DEFAULT_TEXT_BYTES + 1;
    let too_long = compiler.admit(asked).unwrap_err();
    let allowed = CompileQuota::DEFAULT_TEXT_BYTES;
    assert_eq!(too_long, CompileError::TooLong { asked, allowed });
    let limits = CompileQuota::default().limits();
    assert!(limits.time.is_some() && limits.bytes.is_some());
    let huge = program(
        "register<bit<64>>(0x40000000) cells;
         apply { cells.write(0, 1); standard.egress_spec = 1; }",
    );
    let refused = hypervisor.load(id(1), huge).unwrap_err().to_string();
    assert!(refused.contains("1073741824"), "{refused}");
}

#[test]
fn parse_bombs_end() {
    let mut hypervisor = hypervisor();
    let mut spec = spec(1, &[10, 11]);
    spec.quotas.compile = CompileQuota {
        text_bytes: Some(1 << 20),
        time: Some(Duration::from_secs(600)),
        ..CompileQuota::default()
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
        let compiled = compiler.compile(&text, compile);
        assert!(
            matches!(compiled, Err(CompileError::Wrong(_))),
            "{begin}: {compiled:?}"
        );
    }
    let long = compiler.compile(&" ".repeat((1 << 20) + 1), compile);
    let (asked, allowed) = ((1 << 20) + 1, 1 << 20);
    assert_eq!(long, Err(CompileError::TooLong { asked, allowed }));
}

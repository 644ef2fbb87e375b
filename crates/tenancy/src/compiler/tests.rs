//! Tests of compilations: limits, queueing, cancellation and statistics.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use support::work::checkpoint;

use super::*;

/// Maximum time for a compilation to end after its limit. It takes a millisecond, but other tests
/// run on the same cores.
const GRACE: Duration = Duration::from_secs(2);

fn pool(at_once: usize, waiting: usize, patience: Duration) -> Compilations {
    Compilations::new(CompilePool {
        at_once,
        waiting,
        patience,
        ..CompilePool::default()
    })
}

fn bounded(quota: CompileQuota) -> BoundedCompiler {
    BoundedCompiler::new(quota, &Compilations::new(CompilePool::default()))
}

/// A compiler that never returns.
fn endless() {
    loop {
        checkpoint();
    }
}

/// Starts an endless compilation. Returns its handle, and the channel with its result.
fn begin(compiler: &BoundedCompiler) -> (Canceller, Receiver<CompileError>) {
    let leave = compiler.admit(1).unwrap();
    let canceller = leave.canceller();
    let (begun, begins) = channel();
    let (ended, ends) = channel();
    thread::spawn(move || {
        let ran = leave.run(|| {
            begun.send(()).unwrap();
            endless();
        });
        drop(leave);
        let _ = ended.send(ran.unwrap_err());
    });
    begins.recv().unwrap();
    (canceller, ends)
}

#[test]
fn one_program_is_made_at_a_time_and_none_that_is_too_long() {
    let compiler = bounded(CompileQuota {
        text_bytes: Some(100),
        ..CompileQuota::default()
    });
    let too_long = CompileError::TooLong {
        asked: 101,
        allowed: 100,
    };
    assert_eq!(compiler.admit(101).unwrap_err(), too_long);
    let leave = compiler.admit(100).unwrap();
    assert_eq!(compiler.clone().admit(1).unwrap_err(), CompileError::Busy);
    assert_eq!(leave.run(|| 7), Ok(7));
    drop(leave);
    let wrong = compiler.compile("text", |_| Err::<(), _>("wrong".to_owned()));
    assert_eq!(wrong, Err(CompileError::Wrong("wrong".to_owned())));
    assert!(compiler.admit(100).is_ok());
    let figures = compiler.figures();
    assert_eq!((figures.begun, figures.refused), (2, 2));
    assert!(!figures.is_running);
}

#[test]
fn nothing_of_a_compilation_goes_on_after_its_time() {
    let time = Duration::from_millis(20);
    let compiler = bounded(CompileQuota {
        time: Some(time),
        ..CompileQuota::default()
    });
    let begin = Instant::now();
    let is_done = AtomicBool::new(false);
    let slow = compiler.compile("text", |_| {
        let _ended = Ends(&is_done);
        endless();
        Ok(())
    });
    assert_eq!(slow, Err(CompileError::TooSlow(time)));
    assert!(is_done.load(Ordering::Relaxed), "the compiler goes on");
    assert!(begin.elapsed() < time + GRACE, "{:?}", begin.elapsed());
    // The next compilation can run at once.
    assert_eq!(compiler.compile("text", |_| Ok(3)), Ok(3));
    assert!(compiler.figures().time >= time);
}

/// Sets a flag when dropped, to detect that the compiler has been unwound.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn each_reason_ends_a_compilation_at_once() {
    let less = CompileQuota {
        time: Some(Duration::from_secs(1)),
        ..CompileQuota::default()
    };
    type Cancel = fn(&BoundedCompiler, &Canceller, CompileQuota);
    let cases: [(Cancelled, Cancel); 4] = [
        (Cancelled::ClientGone, |_, canceller, _| {
            canceller.cancel(Cancelled::ClientGone);
        }),
        (Cancelled::QuotaShrunk, |compiler, _, less| {
            compiler.set_quota(less);
        }),
        (Cancelled::Deleted, |compiler, _, _| {
            compiler.close(Cancelled::Deleted);
        }),
        (Cancelled::Stopped, |compiler, _, _| {
            compiler.close(Cancelled::Stopped);
        }),
    ];
    for (reason, cancel) in cases {
        let compiler = bounded(CompileQuota::default());
        let (canceller, ends) = begin(&compiler);
        assert!(compiler.figures().is_running);
        let begin = Instant::now();
        cancel(&compiler, &canceller, less);
        assert_eq!(
            ends.recv_timeout(Duration::from_secs(5)),
            Ok(CompileError::Cancelled(reason))
        );
        assert!(begin.elapsed() < GRACE, "{reason:?}: {:?}", begin.elapsed());
    }
}

#[test]
fn a_larger_quota_cancels_nothing_and_a_closed_compiler_begins_nothing() {
    let compiler = bounded(CompileQuota {
        time: Some(Duration::from_secs(5)),
        ..CompileQuota::default()
    });
    let leave = compiler.admit(1).unwrap();
    compiler.set_quota(CompileQuota::default());
    assert_eq!(leave.run(|| 1), Ok(1));
    drop(leave);
    compiler.close(Cancelled::Deleted);
    let leave = compiler.admit(1).unwrap();
    let deleted = CompileError::Cancelled(Cancelled::Deleted);
    assert_eq!(leave.run(|| 1), Err(deleted));
}

#[test]
fn few_compilations_run_at_once_and_those_that_wait_come_in_their_order() {
    let pool = pool(2, 3, Duration::from_secs(60));
    let compilers: Vec<BoundedCompiler> = (0..6)
        .map(|_| BoundedCompiler::new(CompileQuota::default(), &pool))
        .collect();
    let first = [begin(&compilers[0]), begin(&compilers[1])];
    let (order, ordered) = channel();
    let most = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (2..5)
        .map(|at| {
            let leave = compilers[at].admit(1).unwrap();
            let (order, most) = (order.clone(), Arc::clone(&most));
            thread::spawn(move || {
                leave.run(|| {
                    order.send(at).unwrap();
                    let now = most.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(now, 0, "only one of the two turns is over");
                    thread::sleep(Duration::from_millis(2));
                    most.fetch_sub(1, Ordering::SeqCst);
                })
            })
        })
        .collect();
    // The queue is full.
    let too_many = CompileError::TooMany { at_once: 2 };
    assert_eq!(compilers[5].admit(1).unwrap_err(), too_many);
    assert_eq!(pool.running_and_waiting(), (2, 3));
    first[0].0.cancel(Cancelled::ClientGone);
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
    assert_eq!(ordered.try_iter().collect::<Vec<_>>(), [2, 3, 4]);
    first[1].0.cancel(Cancelled::ClientGone);
    first[1].1.recv().unwrap();
    assert_eq!(compilers[5].compile("text", |_| Ok(1)), Ok(1));
    assert_eq!(pool.running_and_waiting(), (0, 0));
}

#[test]
fn the_memory_of_all_running_compilations_together_is_limited() {
    let pool = Compilations::new(CompilePool {
        at_once: 8,
        bytes: 100,
        ..CompilePool::default()
    });
    let compiler = |bytes| {
        let quota = CompileQuota {
            bytes: Some(bytes),
            ..CompileQuota::default()
        };
        BoundedCompiler::new(quota, &pool)
    };
    let (first, second, third) = (compiler(60), compiler(60), compiler(40));
    let (canceller, ends) = begin(&first);
    let (order, ordered) = channel();
    let waiting = [(2, &second), (3, &third)].map(|(number, compiler)| {
        let (leave, order) = (compiler.admit(1).unwrap(), order.clone());
        thread::spawn(move || leave.run(|| order.send(number).unwrap()))
    });
    // There is room for the third one beside the first, but the second one comes before it.
    thread::sleep(Duration::from_millis(50));
    assert_eq!(pool.running_and_waiting(), (1, 2));
    assert!(ordered.try_recv().is_err());
    canceller.cancel(Cancelled::ClientGone);
    ends.recv().unwrap();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
    let mut all: Vec<i32> = ordered.try_iter().collect();
    all.sort_unstable();
    assert_eq!(all, [2, 3]);
    // A quota above the maximum counts as the maximum.
    let large = compiler(1000);
    let limit = large.admit(1).unwrap();
    let held = limit.run(|| support::work::current().map(|work| work.limits().bytes));
    assert_eq!(held, Ok(Some(Some(100))));
    assert_eq!(pool.running_and_waiting(), (0, 0));
}

#[test]
fn no_more_compilations_exist_than_turns_and_waiting_places() {
    let pool = pool(2, 3, Duration::from_secs(60));
    let compilers: Vec<BoundedCompiler> = (0..100)
        .map(|_| BoundedCompiler::new(CompileQuota::default(), &pool))
        .collect();
    // A compilation has a thread only with a permit.
    let permits: Vec<_> = compilers.iter().map(|one| one.admit(1)).collect();
    let admitted = permits.iter().filter(|permit| permit.is_ok()).count();
    assert_eq!(admitted, 5);
    drop(permits);
    assert!(compilers[99].admit(1).is_ok());
}

#[test]
fn one_that_waits_is_cancelled_or_refused_when_its_turn_does_not_come() {
    let pool = pool(1, 9, Duration::from_millis(50));
    let compiler = || BoundedCompiler::new(CompileQuota::default(), &pool);
    let (first, second, third) = (compiler(), compiler(), compiler());
    let (canceller, ends) = begin(&first);
    let late = second.admit(1).unwrap();
    assert_eq!(late.run(|| ()), Err(CompileError::TooMany { at_once: 1 }));
    let leave = third.admit(1).unwrap();
    leave.canceller().cancel(Cancelled::ClientGone);
    let gone = CompileError::Cancelled(Cancelled::ClientGone);
    assert_eq!(leave.run(|| ()), Err(gone));
    canceller.cancel(Cancelled::Stopped);
    ends.recv().unwrap();
    drop((late, leave));
    assert_eq!(pool.running_and_waiting(), (0, 0));
}

#[test]
fn a_compiler_that_panics_leaves_its_turn_and_its_vpdp_free() {
    let pool = pool(1, 1, Duration::from_secs(5));
    let compiler = BoundedCompiler::new(CompileQuota::default(), &pool);
    let failed = compiler.compile("text", |_| -> Result<(), String> {
        std::panic::resume_unwind(Box::new("a fault of the compiler"))
    });
    assert_eq!(failed, Err(CompileError::Failed));
    assert_eq!(compiler.compile("text", |_| Ok(1)), Ok(1));
    assert_eq!(compiler.figures().begun, 2);
}

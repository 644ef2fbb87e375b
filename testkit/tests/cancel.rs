//! Checks that a compilation can be interrupted in each of its passes: the checkpoints of a pass
//! grow with its work, and a cancelled pass ends at its next checkpoint.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use exec::{Engine, Natives};
use ir::Program;
use passes::compose::{Form, Policy, StepProgram, compose};
use passes::edit::{Donor, Edit, Side, edit};
use passes::slots::{Capacity, Pins, SlotPlan, Slots};
use passes::wrap::wrap;
use rustix::time::{ClockId, clock_gettime};
use support::work::{Interrupt, Work, WorkLimits, set_memory_probe};
use switch::{Device, DeviceConfig};
use testkit::scale::{CONSTRUCTS, Construct, on_large_stack};

/// A pass over a program. The first call prepares its input, the second one is the pass.
type Pass = fn(&Input) -> Box<dyn FnOnce() + '_>;

/// The input of a pass.
struct Input {
    text: String,
    program: Arc<Program>,
    ir: String,
}

const PASSES: &[(&str, Pass)] = &[
    ("parse and check", |input| {
        Box::new(|| drop(driver::parse(&source(&input.text), &Default::default()).check()))
    }),
    ("lower", |input| {
        let checked = driver::parse(&source(&input.text), &Default::default()).check();
        Box::new(|| drop(checked.lower()))
    }),
    ("read IR", |input| Box::new(|| drop(ir::read(&input.ir)))),
    ("verify", |input| {
        Box::new(|| drop(ir::verify(&input.program)))
    }),
    ("compose steps", |input| {
        Box::new(|| chain(&input.program, "a -> b", Form::Steps))
    }),
    ("compose merged steps", |input| {
        Box::new(|| chain(&input.program, "a -> b", Form::Merged))
    }),
    ("compose a choice", |input| {
        let policy = "a -> [ standard_metadata.ingress_port == 1: b | else: c ]";
        Box::new(move || chain(&input.program, policy, Form::Merged))
    }),
    ("place in slots and wrap", |input| {
        Box::new(|| {
            let plan = SlotPlan {
                slots: NonZeroU16::new(2),
                capacity: Capacity::default(),
            };
            if let Ok(map) = Slots::new(plan).place(&input.program, &Pins::new()) {
                drop(wrap(&input.program, &map));
            }
        })
    }),
    ("delete a stage", |input| {
        let stage = first_stage(&input.program);
        Box::new(move || drop(edit(&input.program, &Edit::Delete { stage: &stage })))
    }),
    ("insert a stage", |input| {
        let stage = first_stage(&input.program);
        Box::new(move || {
            let new = Donor {
                program: &input.program,
                stage: &stage,
                prefix: "other",
                scope: "",
            };
            let side = Side::Before;
            let stage = &stage;
            drop(edit(&input.program, &Edit::Insert { stage, side, new }));
        })
    }),
    ("P4Info", |input| {
        Box::new(|| drop(p4rt::check_p4info(&input.program)))
    }),
    ("load into the interpreter", |input| {
        let layout = ir::Layout::of(&input.program);
        Box::new(move || {
            let natives = Natives::default();
            drop(interp::Interp.load(&input.program, &layout, &natives));
        })
    }),
    ("create a device", |input| {
        let config = DeviceConfig::default();
        Box::new(move || {
            let program = Arc::clone(&input.program);
            drop(Device::new(program, &interp::Interp, &config));
        })
    }),
];

fn source(text: &str) -> driver::Source<'_> {
    driver::Source::Text {
        name: "scaled.p4",
        text,
    }
}

fn chain(program: &Program, policy: &str, form: Form) {
    let policy = Policy::read(policy).expect("the policy is well formed");
    let steps = ["a", "b", "c"].map(|step| StepProgram { step, program });
    drop(compose("chain", &policy, &steps, form));
}

fn first_stage(program: &Program) -> String {
    let mut stages = program.controls.values().flat_map(|c| c.stages.values());
    stages
        .next()
        .map_or(String::new(), |stage| stage.name.clone())
}

/// Returns the input of a size, unless the program is refused.
fn input(construct: &Construct, n: usize) -> Option<Input> {
    let text = (construct.program)(n);
    let program = Arc::new(driver::compile_text("scaled.p4", &text).ok()?);
    let ir = program.to_string();
    Some(Input { text, program, ir })
}

thread_local! {
    /// Time of the last reading, and the longest time between two.
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static GAP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Number of readings so far, and the computation to cancel at one of them.
    static READINGS: Cell<u64> = const { Cell::new(0) };
    static CANCEL: RefCell<Option<(u64, Work)>> = const { RefCell::new(None) };
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Memory probe, called at every 64th checkpoint. It measures the time between calls.
fn probe() -> i64 {
    let now = now();
    GAP.set(GAP.get().max(now.saturating_sub(LAST.replace(now))));
    READINGS.set(READINGS.get() + 1);
    CANCEL.with_borrow(|cancel| {
        if let Some((at, work)) = cancel
            && READINGS.get() == *at
        {
            work.cancel();
        }
    });
    0
}

/// Measures of a pass.
#[derive(Clone, Copy, Debug)]
struct Measured {
    checkpoints: u64,
    readings: u64,
    allocations: u64,
    /// Longest time between two readings of the clock.
    gap: Duration,
}

/// Runs a pass. With `cancel_at`, it is cancelled at this reading.
fn run(input: &Input, pass: Pass, cancel_at: Option<u64>) -> (Result<(), Interrupt>, Measured) {
    set_memory_probe(probe);
    let work = Work::new(WorkLimits::default());
    let pass = pass(input);
    CANCEL.set(cancel_at.map(|at| (at, work.clone())));
    READINGS.set(0);
    GAP.set(Duration::ZERO);
    LAST.set(now());
    let mut ended = Ok(());
    let allocated = allocation_counter::measure(|| ended = work.run(pass));
    let end = now();
    let measured = Measured {
        checkpoints: work.checkpoints(),
        readings: READINGS.get(),
        allocations: allocated.count_total,
        gap: GAP.get().max(end.saturating_sub(LAST.get())),
    };
    (ended, measured)
}

/// Calls `check` for each construct and pass, with inputs of these sizes, in quarters of the
/// construct's own size. Returns what it found.
fn of_each<const N: usize>(
    quarters: [usize; N],
    check: impl Fn(&[Input; N], Pass) -> Option<String> + Send + Sync,
) -> Vec<String> {
    on_large_stack(|| {
        let mut found = Vec::new();
        let counted = CONSTRUCTS
            .iter()
            .filter(|c| !c.name.starts_with("doubling"));
        for construct in counted {
            let inputs = quarters.map(|quarters| input(construct, construct.size * quarters / 4));
            if inputs.iter().any(Option::is_none) {
                continue;
            }
            let inputs = inputs.map(|input| input.expect("it is there"));
            for (name, pass) in PASSES {
                let checked = check(&inputs, *pass);
                found.extend(checked.map(|text| format!("{name}, {}: {text}", construct.name)));
            }
        }
        found
    })
}

/// Growth of the allocations of a pass that shows that its work grows with the construct.
const WORK: f64 = 1.5;
/// Minimum growth of its checkpoints then.
const CHECKPOINTS: f64 = 1.2;

#[test]
fn checkpoints_of_each_pass_grow_with_its_work() {
    let found = of_each([1, 2], |inputs, pass| {
        let [one, two] = inputs.each_ref().map(|input| {
            let measured = run(input, pass, None).1;
            // A copy of the program is one step.
            let copy = allocation_counter::measure(|| drop(Program::clone(&input.program)));
            Measured {
                allocations: measured.allocations.saturating_sub(copy.count_total),
                ..measured
            }
        });
        let grows = |one: u64, two: u64, by: f64| two as f64 > one.max(1) as f64 * by;
        let has_work = grows(one.allocations, two.allocations, WORK);
        let is_checked = grows(one.checkpoints, two.checkpoints, CHECKPOINTS);
        (has_work && !is_checked).then(|| format!("{one:?}, then {two:?}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_cancelled_pass_ends_at_its_next_checkpoint() {
    let found = of_each([1], |[input], pass| {
        let whole = run(input, pass, None).1;
        let half = (whole.readings / 2).max(2);
        if whole.readings < half {
            return None;
        }
        let (ended, measured) = run(input, pass, Some(half));
        let is_cancelled = ended == Err(Interrupt::Cancelled);
        // One more reading, at the end of the part.
        let is_at_once = measured.readings <= half;
        (!is_cancelled || !is_at_once).then(|| format!("{ended:?} {measured:?} at {half}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Maximum time between two readings of the clock, so that a limit of time holds to a tenth of a
/// second. Cancellation is checked 64 times as often.
const MAX_GAP: Duration = Duration::from_millis(100);

#[test]
fn no_pass_runs_long_between_two_checkpoints() {
    let found = of_each([4], |[input], pass| {
        let measured = run(input, pass, None).1;
        (measured.gap > MAX_GAP).then(|| format!("{measured:?}"))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

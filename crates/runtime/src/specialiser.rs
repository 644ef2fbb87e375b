//! Background specialisation: while packets are forwarded, a thread of low priority makes code for
//! what the tables hold ([`switch::SpecialisationJob`]), and the control loop publishes it.
//!
//! Packets never wait for it. The tables' facts must stay the same for a while before code is made
//! for them. If the code has to be left soon, or no longer fits when it is made, that time doubles:
//! a table that changes all the time costs little.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use exec::Facts;
use packet::Nanos;
use serde::Serialize;
use support::work::{Interrupt, Work, WorkLimits};
use switch::{Device, SpecialisationJob, SpecialisedCode};

/// Minimum and maximum time for which the facts must stay the same before code is made.
const MIN_WAIT: Nanos = Nanos::from_millis(10);
const MAX_WAIT: Nanos = Nanos::from_millis(60_000);

/// Number of waiting times for which code must last. Otherwise the next waiting time is longer.
const LASTS: u64 = 20;

/// Limits of one compilation.
const LIMITS: WorkLimits = WorkLimits {
    time: Some(Duration::from_secs(5)),
    bytes: Some(512 << 20),
};

/// The nice(2) value of the thread that compiles, per thread since Linux 2.6.
const LESS_URGENT: i32 = 10;

/// Result of a compilation, or the reason why there is none.
type Made = Result<SpecialisedCode, String>;

/// Specialisation of one device.
pub(crate) struct Specialiser {
    is_on: bool,
    step: Step,
    /// Time for which facts must stay the same.
    wait: Nanos,
    /// Number of times that code was left, as last seen.
    left: u64,
    /// Time at which the current code was published.
    published: Nanos,
    /// The device's number of changes at the last look, and the time of that look.
    changes: Option<u64>,
    looked: Nanos,
    /// Reason why no code can be made for the current program.
    reason: Option<String>,
}

/// Progress towards specialised code.
enum Step {
    /// The facts are not known, or must stay the same until this time.
    Waiting(Option<(Facts, Nanos)>),
    /// A thread makes code.
    Making(Receiver<Made>),
    /// There is nothing to do for the current facts.
    Done,
}

/// Version of a program's code that packets run, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpecialisationStatus {
    /// `specialised`, or `general` for code that is right for any contents of the tables.
    pub code: &'static str,
    /// Reason for this version.
    pub reason: String,
    /// Facts that the specialised code assumes, by table.
    pub facts: Vec<String>,
    /// Number of times that specialised code was published.
    pub published: u64,
    /// Number of times that it was left because a table changed.
    pub left: u64,
}

impl SpecialisationStatus {
    /// Returns a line with the version, its reason, and how often specialised code was left.
    pub fn text(&self) -> String {
        let history = match (self.published, self.left) {
            (0, _) => String::new(),
            (published, left) => format!(
                "; specialised code was published {} and left {}",
                times(published),
                times(left)
            ),
        };
        format!("code: {} ({}){history}\n", self.code, self.reason)
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

impl Specialiser {
    pub(crate) fn new(is_on: bool) -> Specialiser {
        Specialiser {
            is_on,
            step: Step::Waiting(None),
            wait: MIN_WAIT,
            left: 0,
            published: Nanos::ZERO,
            changes: None,
            looked: Nanos::ZERO,
            reason: None,
        }
    }

    /// Does what is due. Returns a line for the log if the waiting time became longer.
    pub(crate) fn turn(&mut self, device: &mut Device, now: Nanos) -> Option<String> {
        if !self.is_on {
            return None;
        }
        let left = self.see_left(device, now);
        let unused = match &mut self.step {
            Step::Making(made) => match made.try_recv() {
                Ok(made) => self.take(device, made, now),
                Err(TryRecvError::Disconnected) => {
                    self.take(device, Err("the compiler failed".to_owned()), now)
                }
                Err(TryRecvError::Empty) => None,
            },
            Step::Waiting(_) | Step::Done => {
                self.look(device, now);
                None
            }
        };
        left.or(unused)
    }

    fn wait_longer(&mut self) {
        self.wait = Nanos(self.wait.0.saturating_mul(2)).min(MAX_WAIT);
    }

    /// Sees if code was left since the last turn. Waits longer if it lasted too short a time.
    fn see_left(&mut self, device: &Device, now: Nanos) -> Option<String> {
        let report = device.specialisation();
        if report.left == self.left {
            return None;
        }
        self.left = report.left;
        if !matches!(self.step, Step::Making(_)) {
            self.step = Step::Waiting(None);
        }
        let lasted = now.since(self.published);
        if lasted.0 >= self.wait.0.saturating_mul(LASTS) {
            self.wait = MIN_WAIT;
            return None;
        }
        self.wait_longer();
        let table = report.left_for.and_then(|table| {
            let table = device.program().tables.get(table)?;
            Some(table.name.clone())
        });
        Some(format!(
            "table {} changed {} ms after code was specialised for it; the next waits until tables are unchanged for {} ms",
            table.unwrap_or_default(),
            lasted.0 / 1_000_000,
            self.wait.0 / 1_000_000
        ))
    }

    /// Looks at the tables if they may have changed, and starts to make code if they have not for
    /// long enough.
    fn look(&mut self, device: &Device, now: Nanos) {
        let is_same = self.changes == Some(device.changes());
        let is_due = match &self.step {
            Step::Waiting(Some((_, until))) => now >= *until,
            // Facts are computed at most once in the waiting time.
            Step::Waiting(None) | Step::Done => !is_same && now.since(self.looked) >= self.wait,
            Step::Making(_) => false,
        };
        if !is_due && self.changes.is_some() {
            return;
        }
        self.changes = Some(device.changes());
        self.looked = now;
        let job = match device.specialisation_job() {
            Ok(job) => job,
            Err(error) => {
                self.reason = Some(error.to_string());
                self.step = Step::Done;
                return;
            }
        };
        let Some(job) = job else {
            self.reason = None;
            self.step = Step::Done;
            return;
        };
        match &self.step {
            Step::Waiting(Some((facts, _))) if facts == job.facts() => self.begin(job),
            _ => self.step = Step::Waiting(Some((job.facts().clone(), now + self.wait))),
        }
    }

    fn begin(&mut self, job: SpecialisationJob) {
        let (answer, made) = channel();
        let thread = std::thread::Builder::new().name("specialise".to_owned());
        let started = thread.spawn(move || {
            // Without the permission it compiles at the same priority.
            let _ = rustix::process::nice(LESS_URGENT);
            let work = Work::new(LIMITS);
            let made = work.run(|| job.run());
            let made = made.map_err(|interrupt: Interrupt| interrupt.to_string());
            // The control loop may have ended.
            let _ = answer.send(made.and_then(|made| made.map_err(|error| error.to_string())));
        });
        match started {
            Ok(_) => self.step = Step::Making(made),
            Err(error) => self.fail(format!("no thread could be started: {error}")),
        }
    }

    fn fail(&mut self, reason: String) {
        self.wait_longer();
        self.reason = Some(reason);
        self.step = Step::Done;
    }

    /// Publishes code that was made. Returns a line for the log if it no longer fits: the next code
    /// waits longer.
    fn take(&mut self, device: &mut Device, made: Made, now: Nanos) -> Option<String> {
        let made = match made {
            Ok(made) => made,
            Err(reason) => {
                self.fail(reason);
                return None;
            }
        };
        self.reason = None;
        self.changes = None;
        if device.adopt_specialised(made) {
            self.step = Step::Done;
            self.published = now;
            return None;
        }
        self.step = Step::Waiting(None);
        self.wait_longer();
        Some(format!(
            "the tables or the program changed while code was specialised for them; the next waits until tables are unchanged for {} ms",
            self.wait.0 / 1_000_000
        ))
    }

    /// Returns the version that packets run, and why.
    pub(crate) fn status(&self, device: &Device) -> SpecialisationStatus {
        let report = device.specialisation();
        let facts = device.specialised_facts();
        let facts = facts.map(|facts| facts.lines(device.program()));
        let reason = match (&self.step, &self.reason) {
            _ if report.is_running => "what the tables hold is known".to_owned(),
            _ if !self.is_on => "--specialise off".to_owned(),
            (_, Some(reason)) => reason.clone(),
            (Step::Making(_), _) => "specialised code is being made".to_owned(),
            (Step::Waiting(_), _) => format!(
                "tables must be unchanged for {} ms",
                self.wait.0 / 1_000_000
            ),
            (Step::Done, _) => "nothing of use is known about the tables".to_owned(),
        };
        SpecialisationStatus {
            code: if report.is_running {
                "specialised"
            } else {
                "general"
            },
            reason,
            facts: facts.unwrap_or_default(),
            published: report.published,
            left: report.left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use switch::DeviceConfig;

    const PROGRAM: &str = include_str!("../../../examples/acl/acl.p4");

    fn device() -> Device {
        let program = Arc::new(driver::compile_text("acl.p4", PROGRAM).unwrap());
        let engine = jit::Jit::new(Arc::new(interp::Interp));
        Device::new(program, &engine, &DeviceConfig::default()).unwrap()
    }

    fn apply(device: &mut Device, text: &str) {
        let program = Arc::clone(device.program());
        let entries = entries::read(&program, "acl.entries", text).unwrap();
        apply_entries::apply_file(device, &entries).unwrap();
        device.publish();
    }

    /// Runs turns, `step` apart, until the device runs specialised code. Returns the time.
    fn until_specialised(specialiser: &mut Specialiser, device: &mut Device, from: Nanos) -> Nanos {
        let mut now = from;
        while !device.specialisation().is_running {
            specialiser.turn(device, now);
            if let Step::Making(made) = &specialiser.step {
                // Waits for the thread, and puts its result back for the next turn.
                let (answer, again) = channel();
                answer.send(made.recv().unwrap()).unwrap();
                specialiser.step = Step::Making(again);
            } else {
                now += Nanos::from_millis(1);
            }
            assert!(now.since(from) < MAX_WAIT, "no code");
        }
        now
    }

    #[test]
    fn code_is_made_when_the_tables_have_not_changed_for_a_while() {
        let (mut device, mut specialiser) = (device(), Specialiser::new(true));
        let now = until_specialised(&mut specialiser, &mut device, Nanos::from_millis(100));
        let waited = now.since(Nanos::from_millis(100));
        assert!(
            (MIN_WAIT..Nanos(3 * MIN_WAIT.0)).contains(&waited),
            "{waited:?}"
        );
        let status = specialiser.status(&device);
        assert_eq!((status.code, status.published), ("specialised", 1));
        assert!(!status.facts.is_empty());
    }

    #[test]
    fn a_table_that_flips_makes_the_next_code_wait_longer_and_says_so() {
        let (mut device, mut specialiser) = (device(), Specialiser::new(true));
        let (mut now, mut waits) = (Nanos::from_millis(1), Vec::new());
        for rule in 1..=6 {
            now = until_specialised(&mut specialiser, &mut device, now);
            let keys = "hdr.ipv4.src: 10.0.0.0 &&& 0xff000000";
            apply(
                &mut device,
                &format!("acl {{ {keys}; meta.dst_port: {rule} }} -> permit() priority {rule}"),
            );
            assert!(!device.specialisation().is_running, "it was left at once");
            now += Nanos::from_millis(1);
            let notice = specialiser.turn(&mut device, now).expect("a notice");
            assert!(notice.contains("acl changed"), "{notice}");
            waits.push(specialiser.wait);
        }
        assert_eq!(waits[5], Nanos(MIN_WAIT.0 << 6));
        let status = specialiser.status(&device);
        assert_eq!((status.code, status.left), ("general", 6));
        assert!(status.reason.contains("640 ms"), "{}", status.reason);
        let text = status.text();
        assert!(text.starts_with("code: general (tables must "), "{text}");
        assert!(
            text.ends_with("published 6 times and left 6 times\n"),
            "{text}"
        );
    }

    #[test]
    fn a_table_that_changes_while_code_is_made_makes_the_next_code_wait_longer_and_says_so() {
        let (mut device, mut specialiser) = (device(), Specialiser::new(true));
        let mut now = Nanos::from_millis(1);
        for rule in 1..=4u32 {
            while !matches!(specialiser.step, Step::Making(_)) {
                assert_eq!(specialiser.turn(&mut device, now), None);
                now += Nanos::from_millis(1);
                assert!(now < MAX_WAIT, "nothing is made");
            }
            if let Step::Making(made) = &specialiser.step {
                let (answer, again) = channel();
                answer.send(made.recv().unwrap()).unwrap();
                specialiser.step = Step::Making(again);
            }
            let keys = "hdr.ipv4.src: 10.0.0.0 &&& 0xff000000";
            apply(
                &mut device,
                &format!("acl {{ {keys}; meta.dst_port: {rule} }} -> permit() priority {rule}"),
            );
            let notice = specialiser.turn(&mut device, now).expect("a notice");
            assert!(notice.contains("changed while code"), "{notice}");
            assert_eq!(specialiser.wait, Nanos(MIN_WAIT.0 << rule));
        }
        let status = specialiser.status(&device);
        assert_eq!((status.code, status.published), ("general", 0));
        assert!(status.reason.contains("160 ms"), "{}", status.reason);
    }

    #[test]
    fn a_program_without_native_code_has_a_reason() {
        let program = Arc::new(driver::compile_text("acl.p4", PROGRAM).unwrap());
        let config = DeviceConfig::default();
        let mut device = Device::new(program, &interp::Interp, &config).unwrap();
        let mut specialiser = Specialiser::new(true);
        for turn in 0..100 {
            specialiser.turn(&mut device, Nanos::from_millis(turn));
        }
        let status = specialiser.status(&device);
        assert_eq!(status.code, "general");
        assert!(status.reason.contains("fast path"), "{}", status.reason);
    }

    #[test]
    fn nothing_is_made_if_specialisation_is_off() {
        let (mut device, mut specialiser) = (device(), Specialiser::new(false));
        for turn in 0..1000 {
            specialiser.turn(&mut device, Nanos::from_millis(turn));
        }
        assert_eq!(device.specialisation().published, 0);
        let status = specialiser.status(&device);
        assert_eq!(status.reason, "--specialise off");
        assert_eq!(status.text(), "code: general (--specialise off)\n");
    }
}

//! How long it takes from a program's text until a vPDP's first packet meets it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::{DropReason, Engine};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::Device;
use tenancy::{Connection, Hypervisor, Refusal, Spec};

use crate::measure::quantile;

/// Why packets of a vPDP do not come as far as its program.
const GATE: [DropReason; 6] = [
    DropReason::NoProgram,
    DropReason::Suspended,
    DropReason::RateQuota,
    DropReason::PassQuota,
    DropReason::CycleQuota,
    DropReason::FairShare,
];

/// What makes a program of a text; or what is wrong with it.
pub type Compile<'c> = dyn Fn(&str) -> Result<Program, String> + Sync + 'c;

/// Milliseconds, each the median over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadTimes {
    /// From text to IR.
    pub compile: f64,
    /// From IR to native code and tables.
    pub make: f64,
    /// Until the first packet has met it.
    pub first_packet: f64,
    /// All together.
    pub whole: f64,
    /// The longest round.
    pub longest: f64,
    /// All together in a second vPDP of the switch, whose engine has the code, and makes what mixed packets of both go through.
    pub second: f64,
}

/// Why there are no times.
#[derive(Debug)]
pub enum LoadTimesError {
    /// The text does not compile: diagnostics.
    Compile(String),
    /// The vPDP does not take it.
    Refusal(Refusal),
    /// The packet has not met it.
    NoPacket,
}

impl std::fmt::Display for LoadTimesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadTimesError::Compile(diagnostics) => f.write_str(diagnostics),
            LoadTimesError::Refusal(refusal) => refusal.fmt(f),
            LoadTimesError::NoPacket => f.write_str("the program has seen no packet"),
        }
    }
}

impl std::error::Error for LoadTimesError {}

impl From<Refusal> for LoadTimesError {
    fn from(refusal: Refusal) -> Self {
        LoadTimesError::Refusal(refusal)
    }
}

/// Loads a text so many times, each time into a new vPDP of a new switch, whose engine is new, too, since one that had the program already would have its code; and then into a second vPDP
/// of that switch.
///
/// # Errors
/// It does not compile, or does not run.
pub fn load_times(
    text: &str,
    compile: &Compile<'_>,
    engine: &dyn Fn() -> Arc<dyn Engine>,
    rounds: usize,
) -> Result<LoadTimes, LoadTimesError> {
    let rounds = (0..rounds.max(1)).map(|_| round(text, compile, engine()));
    let rounds: Vec<[LoadTime; 2]> = rounds.collect::<Result<_, _>>()?;
    let quantile_of = |share: f64, time: &dyn Fn(&[LoadTime; 2]) -> Duration| {
        let mut times: Vec<f64> = rounds.iter().map(|round| millis(time(round))).collect();
        quantile(&mut times, share)
    };
    Ok(LoadTimes {
        compile: quantile_of(0.5, &|[first, _]| first.compile),
        make: quantile_of(0.5, &|[first, _]| first.make),
        first_packet: quantile_of(0.5, &|[first, _]| first.first_packet),
        whole: quantile_of(0.5, &|[first, _]| first.whole()),
        longest: quantile_of(1.0, &|[first, _]| first.whole()),
        second: quantile_of(0.5, &|[_, second]| second.whole()),
    })
}

/// How long it took to load a program once, part by part as in [`LoadTimes`].
struct LoadTime {
    compile: Duration,
    make: Duration,
    first_packet: Duration,
}

impl LoadTime {
    fn whole(&self) -> Duration {
        self.compile + self.make + self.first_packet
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Whether a packet came as far as a device's program: what the vPDP's gate refuses is received, too, and dropped by its reasons.
fn has_met(device: &Device) -> bool {
    let ledger = device.ledger();
    let refused = GATE.map(|reason| ledger.dropped(reason));
    ledger.received > refused.into_iter().sum()
}

/// The times of one round: of the first vPDP, and of the second.
fn round(
    text: &str,
    compile: &Compile<'_>,
    engine: Arc<dyn Engine>,
) -> Result<[LoadTime; 2], LoadTimesError> {
    let mut hypervisor = Hypervisor::new(engine);
    let mut workers = hypervisor.workers(1);
    let mut load = |port| load_at(PortId(port), text, compile, &mut hypervisor, &mut workers);
    Ok([load(0)?, load(1)?])
}

/// Makes a vPDP with this port of the switch and loads the text into it.
fn load_at(
    port: PortId,
    text: &str,
    compile: &Compile<'_>,
    hypervisor: &mut Hypervisor,
    workers: &mut [tenancy::Worker],
) -> Result<LoadTime, LoadTimesError> {
    let vpdp = hypervisor.create(Spec {
        name: port.0.to_string(),
        ports: vec![Connection::Physical(port)],
        ..Spec::default()
    })?;
    let mut frame = [Frame::from_bytes(&[0; 60]).map_err(|_| LoadTimesError::NoPacket)?];
    frame[0].ingress = port;
    let begin = Instant::now();
    let program = compile(text).map_err(LoadTimesError::Compile)?;
    let compiled = begin.elapsed();
    let made = hypervisor.maker(vpdp)?.make(Arc::new(program))?;
    let was_made = begin.elapsed();
    hypervisor.begin(made)?;
    for worker in &mut *workers {
        worker.forward(&mut frame, Nanos::ZERO, |_, _, _| {});
    }
    let whole = begin.elapsed();
    for worker in workers {
        worker.forward(&mut [], Nanos::ZERO, |_, _, _| {});
    }
    let device = hypervisor.vpdp(vpdp).and_then(tenancy::Vpdp::device);
    match device.is_some_and(has_met) {
        false => Err(LoadTimesError::NoPacket),
        true => Ok(LoadTime {
            compile: compiled,
            make: was_made - compiled,
            first_packet: whole - was_made,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_round_finds_the_code_of_another() {
        let engines = std::cell::Cell::new(0);
        let engine = || {
            engines.set(engines.get() + 1);
            testkit::engines().remove(0)
        };
        let compile = |text: &str| {
            let program = testkit::compile_text(text)?;
            Ok(Program::clone(&program))
        };
        let times = load_times(include_str!("../programs/stamp.p4"), &compile, &engine, 3);
        let times = times.unwrap();
        assert_eq!(engines.get(), 3);
        let parts = times.compile.max(times.make).max(times.first_packet);
        assert!(parts <= times.whole && times.whole <= times.longest);
    }

    #[test]
    fn a_packet_that_the_gate_refuses_has_not_met_the_program() {
        let program = testkit::compile_text(include_str!("../programs/stamp.p4")).unwrap();
        let mut hypervisor = Hypervisor::new(testkit::engines().remove(0));
        let spec = Spec {
            ports: vec![Connection::Physical(PortId(0))],
            ..Spec::default()
        };
        let vpdp = hypervisor.create(spec).unwrap();
        hypervisor.load(vpdp, program).unwrap();
        let mut workers = hypervisor.workers(1);
        let mut has_met = |hypervisor: &Hypervisor| {
            let mut frame = [Frame::from_bytes(&[0; 60]).unwrap()];
            workers[0].forward(&mut frame, Nanos::ZERO, |_, _, _| {});
            workers[0].forward(&mut [], Nanos::ZERO, |_, _, _| {});
            super::has_met(hypervisor.vpdp(vpdp).unwrap().device().unwrap())
        };
        hypervisor.suspend(vpdp).unwrap();
        assert!(!has_met(&hypervisor));
        let device = hypervisor.vpdp(vpdp).unwrap().device().unwrap();
        assert_eq!(device.ledger().received, 1);
        hypervisor.resume(vpdp).unwrap();
        assert!(has_met(&hypervisor));
    }
}

//! Measures the time from a program's text to the first packet that a vPDP processes with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::{DropReason, Engine};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::Device;
use tenancy::{Connection, HypervisorError, Spec, TenantSwitch};

use crate::measure::quantile;

/// Reasons for which packets of a vPDP are dropped before they reach its program.
const GATE: [DropReason; 6] = [
    DropReason::NoProgram,
    DropReason::Suspended,
    DropReason::RateQuota,
    DropReason::PassQuota,
    DropReason::CycleQuota,
    DropReason::FairShare,
];

/// Compiles a text to a program, or returns an error message.
pub type Compile<'c> = dyn Fn(&str) -> Result<Program, String> + Sync + 'c;

/// Times in milliseconds: medians over all rounds, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadTimes {
    /// From text to IR.
    pub compile: f64,
    /// From IR to native code and tables.
    pub make: f64,
    /// Until the first packet has been processed.
    pub first_packet: f64,
    /// Total.
    pub whole: f64,
    /// Maximum total of a round.
    pub longest: f64,
    /// Total for a second vPDP on the same switch. The engine already has the code, and compiles
    /// the variant for bursts with packets of both.
    pub second: f64,
}

/// Error of the measurement.
#[derive(Debug)]
pub enum LoadTimesError {
    /// The text does not compile. Contains the diagnostics.
    Compile(String),
    /// The vPDP does not accept the program.
    Refusal(HypervisorError),
    /// The program has not processed the packet.
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

impl From<HypervisorError> for LoadTimesError {
    fn from(refusal: HypervisorError) -> Self {
        LoadTimesError::Refusal(refusal)
    }
}

/// Loads a text `rounds` times, each time into a vPDP on a new switch, and then into a second vPDP
/// on that switch. The engine is new in each round too, because it would otherwise have the
/// compiled code.
///
/// # Errors
/// The text does not compile, or the program does not run.
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

/// Times of loading a program once, as in [`LoadTimes`].
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

/// Returns true if a packet has reached a device's program. Packets refused before it are also
/// received, and dropped for one of the reasons in `GATE`.
fn has_met(device: &Device) -> bool {
    let ledger = device.ledger();
    let refused = GATE.map(|reason| ledger.dropped(reason));
    ledger.received > refused.into_iter().sum()
}

/// Returns the times of one round, for the first and the second vPDP.
fn round(
    text: &str,
    compile: &Compile<'_>,
    engine: Arc<dyn Engine>,
) -> Result<[LoadTime; 2], LoadTimesError> {
    let mut hypervisor = TenantSwitch::new(engine);
    let mut workers = hypervisor.workers(1);
    let mut load = |port| load_at(PortId(port), text, compile, &mut hypervisor, &mut workers);
    Ok([load(0)?, load(1)?])
}

/// Creates a vPDP with this physical port and loads the text.
fn load_at(
    port: PortId,
    text: &str,
    compile: &Compile<'_>,
    hypervisor: &mut TenantSwitch,
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
    use interp::Interp;

    #[test]
    fn no_round_finds_the_code_of_another() {
        let engines = std::cell::Cell::new(0);
        let engine = || {
            engines.set(engines.get() + 1);
            Arc::new(Interp) as Arc<dyn Engine>
        };
        let compile = |text: &str| Ok(driver::compile_text("stamp.p4", text)?);
        let times = load_times(include_str!("../programs/stamp.p4"), &compile, &engine, 3);
        let times = times.unwrap();
        assert_eq!(engines.get(), 3);
        let parts = times.compile.max(times.make).max(times.first_packet);
        assert!(parts <= times.whole && times.whole <= times.longest);
    }

    #[test]
    fn a_packet_that_the_gate_refuses_has_not_met_the_program() {
        let stamp = include_str!("../programs/stamp.p4");
        let program = Arc::new(driver::compile_text("stamp.p4", stamp).unwrap());
        let mut hypervisor = TenantSwitch::new(Arc::new(Interp));
        let spec = Spec {
            ports: vec![Connection::Physical(PortId(0))],
            ..Spec::default()
        };
        let vpdp = hypervisor.create(spec).unwrap();
        hypervisor.load(vpdp, program).unwrap();
        let mut workers = hypervisor.workers(1);
        let mut has_met = |hypervisor: &TenantSwitch| {
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

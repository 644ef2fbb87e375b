//! A switch of a fabric for real that hosts virtual data planes: a worker between its cables, and the control side beside it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use port::{OpenedPort, Poller};
use tenancy::Hypervisor;

use super::real::Switched;
use crate::crew::Crew;
use crate::out;
use crate::report::{self, DeviceReport};
use crate::station::{Habits, Told};

/// How often the control side has its turn.
const TURN: Duration = Duration::from_millis(10);

/// Carries packets until nobody holds the stream's other end.
///
/// # Errors
/// The operating system gives no threads or descriptors; packets are not accounted for.
pub(super) fn carry(
    name: String,
    mut hypervisor: Hypervisor,
    ports: Vec<OpenedPort>,
    done: &UnixStream,
) -> Result<Switched, String> {
    let mut crew = Crew::new(ports, Habits::default(), |workers, _, _| {
        hypervisor.workers(workers)
    })?;
    let threads = crew.muster();
    threads.run(|has_ended| {
        let mut poller = Poller::new();
        while !has_ended() && !is_over(&mut poller, done)? {
            turn(&mut hypervisor, &crew, &name);
        }
        Ok(())
    })?;
    turn(&mut hypervisor, &crew, &name);
    let checked = hypervisor.check_conservation();
    checked.map_err(|unbalanced| unbalanced.to_string())?;
    let ledger = hypervisor.ledger();
    Ok(Switched {
        name,
        ports: crew.port_reports(),
        device: DeviceReport {
            dropped: report::device_drops(&ledger),
            replicated: ledger.replicated,
            copies_refused: report::refused_copies(&ledger),
            held: hypervisor.held() as u64,
            ..DeviceReport::default()
        },
    })
}

/// Waits for a turn's time; whether the stream's other end is gone.
fn is_over(poller: &mut Poller, done: &UnixStream) -> Result<bool, String> {
    let waited = poller.wait([done.as_fd()], TURN);
    waited
        .map(|ready| ready > 0)
        .map_err(|error| format!("cannot wait for an end: {error}"))
}

/// What needs no packet is done, and what ports tell is told.
fn turn(hypervisor: &mut Hypervisor, crew: &Crew<tenancy::Worker>, name: &str) {
    // What devices send by themselves comes of packets that the control side takes in: there are none.
    hypervisor.step(crew.common().now(), |_, _, _| {});
    while let Some(told) = crew.hear() {
        if let Told::Notice(notice) = told {
            out::note(&format!("{name}: {notice}"));
        }
    }
}

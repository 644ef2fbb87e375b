//! A switch of a real fabric that hosts virtual data planes: one worker for its ports, and its
//! control loop.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use port::{OpenedPort, Poller};
use runtime::report::{self, DeviceReport};
use runtime::{WorkerConfig, WorkerEvent, WorkerPool};
use tenancy::TenantSwitch;

use super::real::{self, Common, Switched};
use crate::capture::PortFile;

/// Interval of the control loop.
const TURN: Duration = Duration::from_millis(10);

/// Forwards packets until the other end of the stream is closed.
///
/// # Errors
/// The operating system provides no threads or descriptors, or the packet counts are not
/// conserved.
pub(super) fn carry(
    name: String,
    mut hypervisor: TenantSwitch,
    (ports, files): (Vec<OpenedPort>, Vec<PortFile>),
    (common, done): (&Common, &UnixStream),
) -> Result<Switched, String> {
    let mut crew = WorkerPool::new(ports, WorkerConfig::default(), |workers, _| {
        hypervisor.workers(workers)
    })?;
    let capture = real::capture(&name, files, crew.observers())?;
    let threads = crew.take_threads();
    let ended = threads.run(|has_ended| {
        let mut poller = Poller::new();
        while !has_ended() && !is_over(&mut poller, done)? {
            turn(&mut hypervisor, &crew, (&name, common));
        }
        Ok::<_, String>(())
    });
    if let Some(capture) = capture {
        capture.finish();
    }
    ended?;
    turn(&mut hypervisor, &crew, (&name, common));
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

/// Waits for the next turn. Returns true if the other end of the stream is closed.
fn is_over(poller: &mut Poller, done: &UnixStream) -> Result<bool, String> {
    let waited = poller.wait([done.as_fd()], TURN);
    waited
        .map(|ready| ready > 0)
        .map_err(|error| format!("cannot wait for an end: {error}"))
}

/// Does the work that needs no packet, and prints the notices of the ports.
fn turn(
    hypervisor: &mut TenantSwitch,
    crew: &WorkerPool<tenancy::Worker>,
    (name, common): (&str, &Common),
) {
    // The sink is never called: it is for packets of the control side, of which there are none
    // here.
    hypervisor.step(crew.now(), |_, _, _| {});
    while let Some(told) = crew.next_event() {
        match told {
            WorkerEvent::Notice(notice) => common.note(name, &notice),
            WorkerEvent::Link(port, is_up) => common.set_link(port, is_up),
            WorkerEvent::Traced(_) | WorkerEvent::Observed(_) => {}
        }
    }
}

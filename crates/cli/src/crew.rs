//! The stations of a switch, with its ports dealt among them, and their threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use packet::{Nanos, PortId};
use port::{Bell, OpenedPort, PortStats};
use switch::Ledger;

use crate::carrier::Carrier;
use crate::report::{PortReport, WorkerReport};
use crate::station::{Board, Common, Habits, Parts, Station, Told};

/// How long a switch waits for a port when all are gone.
const GRACE: Nanos = Nanos::from_millis(3000);

/// The stack of a worker, of which programs take little.
const STACK_BYTES: usize = 4 << 20;

/// Stations, and what their office knows of them.
pub(crate) struct Crew<C> {
    stations: Vec<Station<C>>,
    boards: Vec<Arc<Board>>,
    names: Vec<(PortId, String)>,
    common: Arc<Common>,
    told: Receiver<Told>,
    /// Since when no port carries anything.
    alone_since: Option<Nanos>,
}

impl<C: Carrier> Crew<C> {
    /// The ports, dealt among as many stations as each has shares; `carriers` makes one for each of so many stations, which may tell by the sender.
    ///
    /// # Errors
    /// The operating system gives no descriptors.
    pub(crate) fn new(
        ports: Vec<OpenedPort>,
        habits: Habits,
        carriers: impl FnOnce(usize, &Sender<Told>, &Arc<Common>) -> Vec<C>,
    ) -> Result<Crew<C>, String> {
        let workers = ports.first().map_or(1, |port| port.shares.len());
        let shares = deal(ports, workers);
        let names = shares.first().into_iter().flatten();
        let names: Vec<_> = names
            .map(|(port, _)| (port.id(), port.name().to_owned()))
            .collect();
        let bell = || Bell::new().map_err(|e| format!("cannot make a descriptor to wait for: {e}"));
        let common = Arc::new(Common {
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            told_kinds: Mutex::default(),
            alive: AtomicUsize::new(names.len() * workers),
            office: bell()?,
        });
        let (tell, told) = channel();
        let carriers = carriers(workers, &tell, &common).into_iter().zip(shares);
        let stations = carriers.enumerate().map(|(number, (carrier, shares))| {
            Ok(Station::new(Parts {
                number,
                carrier,
                shares,
                bell: Arc::new(bell()?),
                habits: habits.clone(),
                common: Arc::clone(&common),
                tell: tell.clone(),
            }))
        });
        let mut stations: Vec<Station<C>> = stations.collect::<Result<_, String>>()?;
        stations.iter_mut().for_each(Station::finish);
        Ok(Crew {
            boards: stations.iter().map(|s| Arc::clone(s.board())).collect(),
            stations,
            names,
            common,
            told,
            alone_since: None,
        })
    }

    /// The stations, to be run; once.
    pub(crate) fn muster(&mut self) -> Threads<C> {
        Threads {
            stations: std::mem::take(&mut self.stations),
            common: Arc::clone(&self.common),
        }
    }

    /// What stations and the office share.
    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// What wakes the first station; before they are mustered.
    pub(crate) fn first_bell(&self) -> Option<Arc<Bell>> {
        self.stations.first().map(|s| Arc::clone(s.bell()))
    }

    /// The next thing that a station has told.
    pub(crate) fn hear(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// Where stations post what they have done.
    pub(crate) fn boards(&self) -> &[Arc<Board>] {
        &self.boards
    }

    /// What the workers have carried from port to port.
    pub(crate) fn worker_reports(&self) -> Vec<WorkerReport> {
        let boards = self.boards.iter().enumerate();
        let report = |(number, board): (usize, &Arc<Board>)| {
            let figures = board.read();
            let mut sum = PortStats::default();
            figures.ports.iter().for_each(|stats| sum.add(stats));
            WorkerReport {
                received: sum.rx_frames,
                sent: sum.tx_frames,
                ..WorkerReport::new(number, &figures, &Ledger::default())
            }
        };
        boards.map(report).collect()
    }

    /// Whether no port has carried anything for a while: one that was removed may be made again.
    pub(crate) fn has_no_port_left(&mut self) -> bool {
        if self.common.alive.load(Ordering::Acquire) > 0 {
            self.alone_since = None;
            return false;
        }
        let now = self.common.now();
        now.since(*self.alone_since.get_or_insert(now)) >= GRACE
    }

    /// What the ports have carried.
    pub(crate) fn port_reports(&self) -> Vec<PortReport> {
        let report = |(place, (id, name)): (usize, &(PortId, String))| {
            let mut sum = PortStats::default();
            for board in &self.boards {
                if let Some(stats) = board.read().ports.get(place) {
                    sum.add(stats);
                }
            }
            // All shares know of the link; the first says.
            let up = self
                .boards
                .first()
                .map(|board| board.read().up.get(place) == Some(&true));
            PortReport::new(id.0, name, &sum, up.unwrap_or(false))
        };
        self.names.iter().enumerate().map(report).collect()
    }
}

/// Stations with threads of their own.
pub(crate) struct Threads<C> {
    stations: Vec<Station<C>>,
    common: Arc<Common>,
}

impl<C: Carrier> Threads<C> {
    /// Runs them while `office` does its part on this thread; it is told by a question whether one has ended.
    ///
    /// # Errors
    /// The operating system gives no threads, or does not let them wait for their ports; or the office's.
    pub(crate) fn run<T>(
        mut self,
        office: impl FnOnce(&dyn Fn() -> bool) -> Result<T, String>,
    ) -> Result<T, String> {
        let bells: Vec<Arc<Bell>> = self.stations.iter().map(|s| Arc::clone(s.bell())).collect();
        let ended = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut started = Ok(());
            for (number, station) in self.stations.iter_mut().enumerate() {
                let builder = std::thread::Builder::new();
                let builder = builder
                    .name(format!("worker {number}"))
                    .stack_size(STACK_BYTES);
                match builder.spawn_scoped(scope, || station.run()) {
                    Ok(thread) => threads.push(thread),
                    Err(e) => started = Err(format!("cannot start a thread: {e}")),
                }
            }
            let has_ended = || threads.iter().any(|thread| thread.is_finished());
            let ended = started.and_then(|()| office(&has_ended));
            self.common.is_over.store(true, Ordering::Release);
            bells.iter().for_each(|bell| bell.ring());
            let mut worked = Ok(());
            for thread in threads {
                match thread.join() {
                    Ok(done) => worked = worked.and(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            worked.and(ended)
        });
        self.stations.iter_mut().for_each(Station::finish);
        ended
    }
}

/// Deals the ports' shares to workers, so that each worker is the owner of some. The owner's share tells of the port.
fn deal(ports: Vec<OpenedPort>, workers: usize) -> Vec<Vec<(Box<dyn port::Port>, bool)>> {
    let mut dealt: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, port) in ports.into_iter().enumerate() {
        for (share, part) in port.shares.into_iter().enumerate() {
            dealt[(number + share) % workers].push((part, share == 0));
        }
    }
    dealt
}

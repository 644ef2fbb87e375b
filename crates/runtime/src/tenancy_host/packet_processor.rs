//! Packet processor of a worker thread with virtual data planes, and the packets between these
//! and their controllers.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use exec::DropReason;
use p4rt::{CpuPort, ToControllers};
use packet::{Batch, Frame, Nanos, PortId};
use switch::PacketProcessor;
use tenancy::{CycleAccounting, CycleUse, Reception, VpdpId, Worker};

use super::cycle_accounting::Cycles;
use crate::packet_processor::ThreadProcessor;

/// First of the switch ports for the controllers of virtual data planes. The vPDP's number is
/// added.
pub const FIRST_CONTROLLER_PORT: u32 = 61_000;

/// Returns the switch port that a vPDP's CPU port is connected to.
pub(super) fn controllers_of(id: VpdpId) -> PortId {
    PortId(FIRST_CONTROLLER_PORT + u32::from(id.get()))
}

/// Packet-in senders by port.
type Ways = HashMap<PortId, ToControllers>;

/// Packet-in senders as the control loop publishes them for the workers.
#[derive(Default)]
struct Published {
    /// Incremented by each change.
    version: AtomicU64,
    ways: Mutex<Arc<Ways>>,
}

/// Counters of the packet-ins of one worker.
#[derive(Default)]
struct Tally {
    given: AtomicU64,
    /// Lost packets: there is no controller, or its queue is full.
    lost: AtomicU64,
}

/// Change of the controllers of a vPDP.
enum Change {
    Come(PortId, CpuPort),
    Go(PortId),
}

/// Control loop's side of the CPU port routing: publishes connected controllers to the workers.
pub(super) struct CpuPortRouter {
    published: Arc<Published>,
    /// Replaced maps that workers may still use. They are freed here, because workers have no
    /// time for it.
    retired: Vec<Arc<Ways>>,
    tallies: Vec<Arc<Tally>>,
    changes: Sender<Change>,
}

impl CpuPortRouter {
    /// Connects controllers to a vPDP, in place of those that it had.
    pub(super) fn connect(&mut self, id: VpdpId, cpu: CpuPort) {
        let port = controllers_of(id);
        let way = cpu.to_controllers();
        self.publish(|ways| ways.insert(port, way));
        // The first worker receives as long as it runs.
        let _ = self.changes.send(Change::Come(port, cpu));
    }

    /// Disconnects the controllers of a vPDP.
    pub(super) fn disconnect(&mut self, id: VpdpId) {
        let port = controllers_of(id);
        self.publish(|ways| ways.remove(&port));
        let _ = self.changes.send(Change::Go(port));
    }

    fn publish(&mut self, change: impl FnOnce(&mut Ways) -> Option<ToControllers>) {
        let published = &self.published;
        let mut current = published
            .ways
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut ways = Ways::clone(&current);
        change(&mut ways);
        self.retired
            .push(std::mem::replace(&mut *current, Arc::new(ways)));
        published.version.fetch_add(1, Ordering::Release);
    }

    /// Frees the maps that no worker uses any more.
    pub(super) fn free_retired(&mut self) {
        self.retired.retain(|ways| Arc::strong_count(ways) > 1);
    }

    /// Returns the numbers of packets passed to controllers and of those lost.
    pub(super) fn given_and_lost(&self) -> (u64, u64) {
        let sum = |of: fn(&Tally) -> &AtomicU64| {
            let all = self.tallies.iter();
            all.map(|tally| of(tally).load(Ordering::Relaxed)).sum()
        };
        (sum(|tally| &tally.given), sum(|tally| &tally.lost))
    }
}

/// Worker's side of the packet-ins.
struct Exits {
    published: Arc<Published>,
    version: u64,
    ways: Arc<Ways>,
    tally: Arc<Tally>,
}

impl Exits {
    /// Takes the published map. Never blocks: during a change by the control loop, packets use
    /// the map before it.
    fn renew(&mut self) {
        let version = self.published.version.load(Ordering::Acquire);
        if version != self.version
            && let Ok(ways) = self.published.ways.try_lock()
        {
            self.ways = Arc::clone(&ways);
            self.version = version;
        }
    }

    fn give(&self, port: PortId, bytes: &[u8]) {
        let is_given = self.ways.get(&port).is_some_and(|way| way.give(bytes));
        let count = match is_given {
            true => &self.tally.given,
            false => &self.tally.lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Packet-outs of controllers. Only the first worker receives them.
struct Takes {
    changes: Receiver<Change>,
    ports: Vec<(PortId, CpuPort)>,
    /// Index of the port that is served first.
    first: usize,
}

/// Packet processor of one worker thread.
pub(super) struct Tenants {
    worker: Worker,
    round: usize,
    /// Measures the cost of receiving frames, as the worker's cycle accounting does for
    /// processing.
    reception: Cycles,
    /// True if a port may have more frames than it gave.
    is_behind: bool,
    exits: Exits,
    takes: Option<Takes>,
}

/// Creates the packet processors of the workers. The first one receives packet-outs.
pub(super) fn stations(workers: Vec<Worker>, is_fair: bool) -> (Vec<Tenants>, CpuPortRouter) {
    let (mut board, changes) = switchboard();
    let mut takes = Some(Takes {
        changes,
        ports: Vec::new(),
        first: 0,
    });
    let tenants = workers.into_iter().map(|worker| Tenants {
        worker,
        round: if is_fair { FAIR_ROUND } else { ROUND },
        reception: Cycles::default(),
        is_behind: false,
        exits: exits(&mut board),
        takes: takes.take(),
    });
    (tenants.collect(), board)
}

fn switchboard() -> (CpuPortRouter, Receiver<Change>) {
    let (tell, changes) = channel();
    let board = CpuPortRouter {
        published: Arc::default(),
        retired: Vec::new(),
        tallies: Vec::new(),
        changes: tell,
    };
    (board, changes)
}

fn exits(board: &mut CpuPortRouter) -> Exits {
    let tally = Arc::<Tally>::default();
    board.tallies.push(Arc::clone(&tally));
    Exits {
        published: Arc::clone(&board.published),
        version: 0,
        ways: Arc::default(),
        tally,
    }
}

impl Takes {
    fn take_changes(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            let (Change::Come(gone, _) | Change::Go(gone)) = &change;
            self.ports.retain(|(port, _)| port != gone);
            if let Change::Come(port, cpu) = change {
                self.ports.push((port, cpu));
            }
        }
    }
}

/// Fills the batch in rounds. In each round every source gives at most an equal share of the free
/// space. Returns the index of the source that is first next time.
fn fill<S>(
    sources: &mut [S],
    first: usize,
    batch: &mut Batch,
    mut take: impl FnMut(&mut S, &mut Batch) -> bool,
) -> usize {
    let count = sources.len();
    let mut has_more = count > 0;
    while has_more {
        has_more = false;
        let part = (batch.room() / count).max(1);
        for place in (0..count).map(|turn| (first + turn) % count) {
            for _ in 0..part {
                if batch.room() == 0 {
                    return place;
                }
                if !take(&mut sources[place], batch) {
                    break;
                }
                has_more = true;
            }
        }
    }
    first
}

/// Moves a controller's packet into the batch. Returns true if there was one.
fn take_packet(port: PortId, cpu: &mut CpuPort, batch: &mut Batch, now: Nanos) -> bool {
    let Some((_, bytes)) = cpu.take() else {
        return false;
    };
    let Some(frame) = batch.push() else {
        return false;
    };
    // The server checks lengths, so `assign` does not fail.
    if frame.assign(&bytes).is_err() {
        batch.pop();
        return true;
    }
    frame.ingress = port;
    frame.arrival = now;
    true
}

/// Maximum number of frames per round. Large rounds give each of hundreds of vPDPs many frames
/// per service turn, of which the fixed cost is that of several packets. More frames would not
/// stay in the second-level cache for a round. Only an overloaded worker reaches this number.
pub const ROUND: usize = 4096;

/// The same with fair sharing. Frames beyond a vPDP's share cost time to receive, and the other
/// vPDPs wait for it.
pub const FAIR_ROUND: usize = 256;

impl PacketProcessor for Tenants {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if !frames.is_empty() {
            self.worker.received(Reception {
                cycles: self.reception.end(CycleUse::default()),
                missed: self.reception.missed(),
                is_behind: std::mem::take(&mut self.is_behind),
            });
        }
        self.exits.renew();
        let exits = &self.exits;
        self.worker.forward(frames, now, |port, frame, time| {
            match port.0 < FIRST_CONTROLLER_PORT {
                true => sent(port, frame, time),
                false => exits.give(port, frame.bytes()),
            }
        });
    }

    fn next_time(&self) -> Option<Nanos> {
        self.worker.next_time()
    }
}

impl ThreadProcessor for Tenants {
    fn round(&self) -> usize {
        self.round
    }

    fn allow(&mut self, port: PortId) -> usize {
        self.worker.allow(port)
    }

    fn fills_up(&mut self, port: PortId) -> bool {
        self.worker.fills_up(port)
    }

    fn falls_behind(&mut self) {
        self.is_behind = true;
    }

    fn receives(&mut self) {
        self.reception.begin();
    }

    fn arrive(&mut self, batch: &mut Batch, now: Nanos) {
        let Some(takes) = &mut self.takes else {
            return;
        };
        takes.take_changes();
        takes.first = fill(
            &mut takes.ports,
            takes.first,
            batch,
            |(port, cpu), batch| take_packet(*port, cpu, batch, now),
        );
    }

    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.worker.wake_by(wake);
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let takes = self.takes.iter();
        let ports = takes.flat_map(|takes| &takes.ports);
        ports.map(|(_, cpu)| cpu.wake_fd()).collect()
    }

    /// Does nothing: no virtual port can be connected to a port that does not exist.
    fn count_drop(&mut self, _reason: DropReason) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_one_who_sends_without_end() {
        let mut left = [10_000, 3, 1, 0];
        let mut batch = Batch::default();
        let take = |left: &mut i32, batch: &mut Batch| {
            let has_one = *left > 0;
            if has_one {
                batch.push();
                *left -= 1;
            }
            has_one
        };
        let first = fill(&mut left, 0, &mut batch, take);
        assert_eq!(batch.room(), 0);
        assert_eq!(left[1..], [0, 0, 0]);
        // More sources than a batch holds: still each has its turn.
        let mut left = vec![2; batch.len() + 9];
        batch.clear();
        let first = fill(&mut left, first, &mut batch, take);
        batch.clear();
        fill(&mut left, first, &mut batch, take);
        assert!(left.iter().all(|left| *left < 2));
        assert_eq!(fill(&mut [], 7, &mut batch, take), 7);
    }

    #[test]
    fn packets_for_controllers_are_given_or_counted_as_lost() {
        let id = VpdpId::new(1).unwrap();
        let (mut board, _changes) = switchboard();
        let mut exits = exits(&mut board);
        let mut send = |board: &CpuPortRouter| {
            exits.renew();
            exits.give(controllers_of(id), &[7]);
            board.given_and_lost()
        };
        assert_eq!(send(&board), (0, 1));
        let (_inbox, cpu, _remote) = p4rt::channel(PortId(510)).unwrap();
        board.connect(id, cpu);
        assert_eq!(send(&board), (1, 1));
        board.disconnect(id);
        {
            // The control loop holds the lock: the packet uses the map before the change.
            let _busy = board.published.ways.lock();
            assert_eq!(send(&board), (2, 1));
        }
        assert_eq!(send(&board), (2, 2));
        board.free_retired();
        assert!(board.retired.is_empty());
    }
}

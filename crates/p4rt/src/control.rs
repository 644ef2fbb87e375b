//! The channel between a device's loop and the server: jobs one way, events the other. Neither side waits for the other but the server for the
//! answer to a job; the loop is woken by a byte in a socket pair, which it polls beside its ports.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc as plain;
use std::time::{Duration, Instant};

use ir::{Program, TableId};
use packet::PortId;
use switch::{Device, Digest};
use table::Entry;
use tokio::sync::{mpsc, oneshot};
use tonic::Code;

use crate::fault::{Checked, Fault};
use crate::idle::IdleWatch;

/// Something that the loop does to its device.
type Job = Box<dyn FnOnce(&mut Device) + Send>;

/// Events that may wait for the server; more are counted and lost, as the specification allows for packets, digests and notifications.
const MOST_EVENTS: usize = 4096;

/// Of a busy loop's time, control may take one part in so many.
const SHARE: u32 = 4;

/// The most time that control may have saved up while it asked for nothing.
const MOST_CREDIT: Duration = Duration::from_millis(5);

/// What a device tells its controllers.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet left by the port of the CPU.
    PacketIn(Vec<u8>),
    /// A packet sent a digest.
    Digest(Arc<Program>, Digest),
    /// Entries of a table were not hit for as long as their time-outs.
    Idle(Arc<Program>, TableId, Vec<Arc<Entry>>),
}

/// A channel between one device's loop and the server; packets that the device sends by `cpu_port` are for controllers.
///
/// # Errors
/// The operating system has no socket pair left.
pub fn channel(cpu_port: PortId) -> std::io::Result<(Inbox, Remote)> {
    let (waker, bell) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    bell.set_nonblocking(true)?;
    let (jobs_in, jobs) = plain::channel();
    let (events, events_out) = mpsc::channel(MOST_EVENTS);
    let shared = Arc::new(Shared {
        is_rung: AtomicBool::new(false),
        lost_events: AtomicU64::new(0),
    });
    let inbox = Inbox {
        jobs,
        bell,
        events,
        shared: Arc::clone(&shared),
        cpu_port,
        idle: IdleWatch::default(),
        credit: MOST_CREDIT,
        credited: Instant::now(),
    };
    let remote = Remote {
        jobs: jobs_in,
        waker: Arc::new(waker),
        shared,
        cpu_port,
        events: Some(events_out),
    };
    Ok((inbox, remote))
}

struct Shared {
    /// Whether a byte is in the socket pair that the loop has not seen.
    is_rung: AtomicBool,
    lost_events: AtomicU64,
}

/// The loop's end.
pub struct Inbox {
    jobs: plain::Receiver<Job>,
    bell: UnixStream,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    cpu_port: PortId,
    idle: IdleWatch,
    credit: Duration,
    credited: Instant,
}

impl Inbox {
    /// The descriptor that becomes readable when there is something to do.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Does what waits to be done to the device; whether something may be left to do. While packets come (`is_busy`), it takes a limited part of
    /// the loop's time. To be called between batches.
    pub fn serve(&mut self, device: &mut Device, is_busy: bool) -> bool {
        if self.shared.is_rung.swap(false, Ordering::AcqRel) || !is_busy {
            // All bytes at once: the jobs behind them are taken below, or told of by another byte.
            let _ = self.bell.read(&mut [0; 64]);
        }
        let begin = Instant::now();
        let elapsed = begin.duration_since(self.credited);
        self.credited = begin;
        self.credit = match is_busy {
            true => MOST_CREDIT.min(self.credit + elapsed / SHARE),
            false => MOST_CREDIT,
        };
        while !self.credit.is_zero() {
            let Ok(job) = self.jobs.try_recv() else {
                return false;
            };
            let begin = Instant::now();
            job(device);
            self.credit = self.credit.saturating_sub(begin.elapsed());
        }
        true
    }

    /// The port whose packets are for controllers.
    pub fn cpu_port(&self) -> PortId {
        self.cpu_port
    }

    /// Gives a packet that left by the CPU's port to the controllers.
    pub fn packet_in(&self, bytes: &[u8]) {
        self.tell(Event::PacketIn(bytes.to_vec()));
    }

    /// Gives a digest to the controllers.
    pub fn digest(&self, device: &Device, digest: Digest) {
        self.tell(Event::Digest(Arc::clone(device.program()), digest));
    }

    /// Looks, from time to time, for entries that have become idle.
    pub fn look_for_idle(&mut self, device: &Device) {
        for (table, entries) in self.idle.look(device) {
            self.tell(Event::Idle(Arc::clone(device.program()), table, entries));
        }
    }

    /// Events that were lost because the server did not take them fast enough.
    pub fn lost_events(&self) -> u64 {
        self.shared.lost_events.load(Ordering::Relaxed)
    }

    fn tell(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.shared.lost_events.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The server's end.
pub struct Remote {
    jobs: plain::Sender<Job>,
    waker: Arc<UnixStream>,
    shared: Arc<Shared>,
    pub(crate) cpu_port: PortId,
    events: Option<mpsc::Receiver<Event>>,
}

impl Remote {
    /// What the device tells; once.
    pub(crate) fn take_events(&mut self) -> Option<mpsc::Receiver<Event>> {
        self.events.take()
    }

    /// Has the loop do something to the device, and gives its answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Device) -> T + Send + 'static,
    ) -> Checked<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |device| {
            // Who asked may have gone.
            let _ = answer.send(job(device));
        });
        let gone = || Fault::new(Code::Unavailable, "the device has stopped");
        self.jobs.send(job).map_err(|_| gone())?;
        self.ring();
        answered.await.map_err(|_| gone())
    }

    fn ring(&self) {
        if !self.shared.is_rung.swap(true, Ordering::AcqRel) {
            // A full socket pair wakes the loop as well.
            let _ = (&*self.waker).write(&[0]);
        }
    }
}

//! The channel between a device and the server: jobs and packets one way, events the other. Neither side waits for the other but the server for
//! the answer to a job; a loop that waits for its ports is woken by a descriptor beside them.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc as plain;
use std::time::{Duration, Instant};

use ir::{Arch, Program, TableId};
use packet::PortId;
use support::wakeup::WakeupFd;
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
    Digest(Digest),
    /// Entries of a table were not hit for as long as their time-outs.
    Idle(Arc<Program>, TableId, Vec<Arc<Entry>>),
}

/// Packets of controllers that may wait for the device; the next one is refused.
const MOST_PACKETS: usize = 1024;

/// The numbers of a device's port for controllers. PSA's programs have a constant for it, those of
/// other architectures take what the operator chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuNumbers {
    /// The number for PSA's programs.
    pub psa: PortId,
    /// The number for all others.
    pub usual: PortId,
}

impl CpuNumbers {
    /// The number for programs of an architecture.
    pub(crate) fn of(self, arch: Arch) -> PortId {
        match arch {
            Arch::Psa => self.psa,
            _ => self.usual,
        }
    }
}

impl From<PortId> for CpuNumbers {
    fn from(port: PortId) -> CpuNumbers {
        CpuNumbers {
            psa: port,
            usual: port,
        }
    }
}

/// A channel between one device and the server; packets that the device sends by `cpu_port` are for controllers.
///
/// # Errors
/// The operating system has no descriptor left.
pub fn channel(cpu_port: impl Into<CpuNumbers>) -> std::io::Result<(Inbox, CpuPort, Remote)> {
    let numbers = cpu_port.into();
    let jobs_wakeup = Arc::new(WakeupFd::armed()?);
    let packets_wakeup = Arc::new(WakeupFd::armed()?);
    let (jobs_in, jobs) = plain::channel();
    let (packets_in, packets) = plain::sync_channel(MOST_PACKETS);
    let (events, events_out) = mpsc::channel(MOST_EVENTS);
    let lost = Arc::new(AtomicU64::new(0));
    let inbox = Inbox {
        jobs,
        wakeup: Arc::clone(&jobs_wakeup),
        events: Events {
            sender: events,
            lost,
        },
        idle: IdleWatch::default(),
        alike: None,
        credit: MOST_CREDIT,
        credited: Instant::now(),
    };
    let cpu = CpuPort {
        numbers,
        packets,
        wakeup: Arc::clone(&packets_wakeup),
        events: inbox.events.clone(),
    };
    let remote = Remote {
        jobs: jobs_in,
        jobs_wakeup,
        numbers,
        packets: packets_in,
        packets_wakeup,
        events: Some(events_out),
    };
    Ok((inbox, cpu, remote))
}

/// Where events go.
#[derive(Clone)]
struct Events {
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl Events {
    /// Whether there was room.
    fn tell(&self, event: Event) -> bool {
        let is_told = self.sender.try_send(event).is_ok();
        if !is_told {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_told
    }
}

/// The end of who carries the device's packets: its port for controllers.
pub struct CpuPort {
    numbers: CpuNumbers,
    packets: plain::Receiver<(PortId, Vec<u8>)>,
    wakeup: Arc<WakeupFd>,
    events: Events,
}

impl CpuPort {
    /// The number of the port.
    pub fn id(&self) -> PortId {
        self.numbers.usual
    }

    /// The number of the port for PSA's programs, where it is another one.
    pub fn second_id(&self) -> Option<PortId> {
        let CpuNumbers { psa, usual } = self.numbers;
        (psa != usual).then_some(psa)
    }

    /// The descriptor that becomes readable when a packet comes.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// The next packet of a controller, with the number of the port by which it comes in.
    pub fn take(&mut self) -> Option<(PortId, Vec<u8>)> {
        self.packets.try_recv().ok().or_else(|| {
            self.wakeup.rearm();
            self.packets.try_recv().ok()
        })
    }

    /// Gives a packet that left by this port to controllers; whether there was room for it.
    pub fn give(&self, bytes: &[u8]) -> bool {
        self.events.tell(Event::PacketIn(bytes.to_vec()))
    }

    /// The way to controllers, for others who send by this port.
    pub fn to_controllers(&self) -> ToControllers {
        ToControllers(self.events.clone())
    }
}

/// The way of packets to the controllers of a device.
#[derive(Clone)]
pub struct ToControllers(Events);

impl ToControllers {
    /// As [`CpuPort::give`].
    pub fn give(&self, bytes: &[u8]) -> bool {
        self.0.tell(Event::PacketIn(bytes.to_vec()))
    }
}

/// The end of who has the device.
pub struct Inbox {
    jobs: plain::Receiver<Job>,
    wakeup: Arc<WakeupFd>,
    events: Events,
    idle: IdleWatch,
    alike: Option<Alike>,
    credit: Duration,
    credited: Instant,
}

/// A program that differs in nothing that controllers see from the one that they know.
struct Alike {
    program: Arc<Program>,
    known: Arc<Program>,
}

impl Inbox {
    /// The descriptor that becomes readable when there is something to do.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// Does what waits to be done to the device; whether something may be left to do. While packets come (`is_busy`), it takes a limited part of
    /// the loop's time. To be called between batches.
    pub fn serve(&mut self, device: &mut Device, is_busy: bool) -> bool {
        self.wakeup.rearm();
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

    /// The device runs `after` in place of `before`, and controllers need not know: all that they see of it is the same.
    pub fn replaced_by_like(&mut self, before: &Arc<Program>, after: Arc<Program>) {
        self.alike = Some(Alike {
            known: self.known(Arc::clone(before)),
            program: after,
        });
    }

    /// What controllers know in place of a program.
    fn known(&self, program: Arc<Program>) -> Arc<Program> {
        match &self.alike {
            Some(alike) if Arc::ptr_eq(&alike.program, &program) => Arc::clone(&alike.known),
            _ => program,
        }
    }

    /// Gives a digest to the controllers.
    pub fn digest(&self, mut digest: Digest) {
        digest.program = self.known(digest.program);
        self.events.tell(Event::Digest(digest));
    }

    /// Looks, from time to time, for entries that have become idle.
    pub fn look_for_idle(&mut self, device: &Device) {
        for (table, entries) in self.idle.look(device) {
            let program = self.known(Arc::clone(device.program()));
            self.events.tell(Event::Idle(program, table, entries));
        }
    }

    /// Packets, digests and notifications that wait for the server.
    pub fn waiting_events(&self) -> usize {
        self.events.sender.max_capacity() - self.events.sender.capacity()
    }

    /// Packets, digests and notifications that were lost because the server did not take them fast enough.
    pub fn lost_events(&self) -> u64 {
        self.events.lost.load(Ordering::Relaxed)
    }
}

/// The server's end.
pub struct Remote {
    jobs: plain::Sender<Job>,
    jobs_wakeup: Arc<WakeupFd>,
    numbers: CpuNumbers,
    packets: plain::SyncSender<(PortId, Vec<u8>)>,
    packets_wakeup: Arc<WakeupFd>,
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
        self.jobs_wakeup.wake();
        answered.await.map_err(|_| gone())
    }

    /// Sends a packet in by the port for controllers that programs of this architecture have.
    ///
    /// # Errors
    /// Too many wait already.
    pub(crate) fn send(&self, arch: Arch, packet: Vec<u8>) -> Checked {
        let sent = self.packets.try_send((self.numbers.of(arch), packet));
        self.packets_wakeup.wake();
        sent.map_err(|_| {
            Fault::new(
                Code::ResourceExhausted,
                format!("{MOST_PACKETS} packets wait for the device; this one is dropped"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_controllers_come_by_the_port_that_the_architecture_of_the_program_has() {
        let numbers = CpuNumbers {
            psa: PortId(0xffff_fffd),
            usual: PortId(510),
        };
        let (_inbox, mut cpu, remote) = channel(numbers).unwrap();
        assert_eq!(cpu.second_id(), Some(numbers.psa));
        remote.send(Arch::Psa, vec![1]).unwrap();
        remote.send(Arch::V1model, vec![2]).unwrap();
        assert_eq!(cpu.take(), Some((numbers.psa, vec![1])));
        assert_eq!(cpu.take(), Some((numbers.usual, vec![2])));
        assert_eq!(cpu.take(), None);
        let (_inbox, cpu, _remote) = channel(PortId(9)).unwrap();
        assert_eq!((cpu.id(), cpu.second_id()), (PortId(9), None));
    }
}

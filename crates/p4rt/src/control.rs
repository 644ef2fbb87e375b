//! Channel between a device and the server: jobs and packets in one direction, events in the other.
//! Neither side blocks on the other, except that the server waits for the answer to a job. A
//! wake-up descriptor lets the loop wait for jobs and ports together.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc as plain;
use std::time::{Duration, Instant};

use ir::{Arch, Program, TableId};
use p4info::polyplane::ports::v1 as wire;
use packet::PortId;
use prost_types::Any;
use support::wakeup::WakeupFd;
use switch::{Device, Digest};
use table::Entry;
use tokio::sync::{mpsc, oneshot};
use tonic::Code;

use crate::idle::IdleWatch;
use crate::request_error::{Checked, RequestError, refuse};
use crate::tenants::TenancyError;

/// A function that the loop applies to its device.
type Job = Box<dyn FnOnce(&mut Device) + Send>;

/// Capacity of the event queue. If it is full, events are dropped and counted, as the specification
/// allows for packets, digests and notifications.
const MAX_EVENTS: usize = 4096;

/// Divisor of a busy loop's time: jobs may use one part in `SHARE`.
const SHARE: u32 = 4;

/// Maximum unused time that jobs may accumulate.
const MAX_CREDIT: Duration = Duration::from_millis(5);

/// An event from a device for its controllers.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet sent to the CPU port.
    PacketIn(Vec<u8>),
    /// A digest message.
    Digest(Digest),
    /// Entries of a table that were not hit during their idle timeout.
    Idle(Arc<Program>, TableId, Vec<Arc<Entry>>),
}

/// Question of a client about a device's ports, or a change of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortAction {
    /// Returns all ports.
    List,
    /// Adds a port: its number and interface, as in `2=eth1`.
    Add(String),
    /// Removes a port.
    Remove(PortId),
    /// Closes and opens a port.
    Reopen(PortId),
}

/// Answer to a request about ports: all ports with the drops of the device, or the one port that
/// changed.
pub type PortAnswer = Result<wire::ListResponse, TenancyError>;

/// A request about ports to the loop that has them.
pub struct PortRequest {
    /// The action.
    pub action: PortAction,
    answer: oneshot::Sender<PortAnswer>,
}

impl PortRequest {
    /// Answers the client, which may have gone.
    pub fn answer(self, answer: PortAnswer) {
        let _ = self.answer.send(answer);
    }
}

/// Question of a client about a device's settings, or a change of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsAction {
    /// Returns the settings as statements.
    Get,
    /// Makes the settings of these statements.
    Set(String),
}

/// A request about settings to the loop that has the device.
pub struct SettingsRequest {
    /// The action.
    pub action: SettingsAction,
    answer: oneshot::Sender<Result<String, TenancyError>>,
}

impl SettingsRequest {
    /// Answers the client, which may have gone.
    pub fn answer(self, answer: Result<String, TenancyError>) {
        let _ = self.answer.send(answer);
    }
}

/// Capacity of the queue of packets from controllers. Further packets are refused.
const MAX_PACKETS: usize = 1024;

/// Capacity of the queues of extension messages from and to controllers. Further messages wait.
const MAX_OTHERS: usize = 64;

/// Numbers of a device's CPU port. PSA programs use a constant of the architecture. Programs of
/// other architectures use the operator's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuNumbers {
    /// The number in PSA programs.
    pub psa: PortId,
    /// The number in all other programs.
    pub usual: PortId,
}

impl CpuNumbers {
    /// Returns the number in programs of an architecture.
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

/// Creates a channel between one device and the server. Packets that the device sends to `cpu_port`
/// go to the controllers.
///
/// # Errors
/// The operating system has no descriptor left.
pub fn channel(cpu_port: impl Into<CpuNumbers>) -> std::io::Result<(Inbox, CpuPort, Remote)> {
    let numbers = cpu_port.into();
    let jobs_wakeup = Arc::new(WakeupFd::armed()?);
    let packets_wakeup = Arc::new(WakeupFd::armed()?);
    let (jobs_in, jobs) = plain::channel();
    let (ports_in, ports) = plain::channel();
    let takes_ports = Arc::new(AtomicBool::new(false));
    let (settings_in, settings) = plain::channel();
    let takes_settings = Arc::new(AtomicBool::new(false));
    let (packets_in, packets) = plain::sync_channel(MAX_PACKETS);
    let (others_in, others) = mpsc::channel(MAX_OTHERS);
    let (others_to, others_out) = mpsc::channel(MAX_OTHERS);
    let (events, events_out) = mpsc::channel(MAX_EVENTS);
    let lost = Arc::new(AtomicU64::new(0));
    let inbox = Inbox {
        jobs,
        ports,
        takes_ports: Arc::clone(&takes_ports),
        settings,
        takes_settings: Arc::clone(&takes_settings),
        others,
        others_to,
        wakeup: Arc::clone(&jobs_wakeup),
        events: Events {
            sender: events,
            lost,
        },
        idle: IdleWatch::default(),
        alike: None,
        credit: MAX_CREDIT,
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
        ports: ports_in,
        takes_ports,
        settings: settings_in,
        takes_settings,
        others: others_in,
        jobs_wakeup,
        numbers,
        packets: packets_in,
        packets_wakeup,
        events: Some((events_out, others_out)),
    };
    Ok((inbox, cpu, remote))
}

/// Send side of the event queue, with the count of dropped events.
#[derive(Clone)]
struct Events {
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl Events {
    /// Enqueues an event. Returns false if the queue is full.
    fn tell(&self, event: Event) -> bool {
        let is_told = self.sender.try_send(event).is_ok();
        if !is_told {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_told
    }
}

/// CPU port: the packet side of the channel, held by the loop that forwards the device's packets.
pub struct CpuPort {
    numbers: CpuNumbers,
    packets: plain::Receiver<(PortId, Vec<u8>)>,
    wakeup: Arc<WakeupFd>,
    events: Events,
}

impl CpuPort {
    /// Returns the number of the port.
    pub fn id(&self) -> PortId {
        self.numbers.usual
    }

    /// Returns the number of the port in PSA programs, if it differs.
    pub fn second_id(&self) -> Option<PortId> {
        let CpuNumbers { psa, usual } = self.numbers;
        (psa != usual).then_some(psa)
    }

    /// Returns the descriptor that becomes readable when a packet arrives.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// Dequeues the next packet of a controller, with the number of its ingress port.
    pub fn take(&mut self) -> Option<(PortId, Vec<u8>)> {
        self.packets.try_recv().ok().or_else(|| {
            self.wakeup.rearm();
            self.packets.try_recv().ok()
        })
    }

    /// Sends a packet that left through this port to the controllers. Returns false if the queue is
    /// full.
    pub fn give(&self, bytes: &[u8]) -> bool {
        self.events.tell(Event::PacketIn(bytes.to_vec()))
    }

    /// Returns a handle that sends packets to the same controllers.
    pub fn to_controllers(&self) -> ToControllers {
        ToControllers(self.events.clone())
    }
}

/// Handle that sends packets to the controllers of a device.
#[derive(Clone)]
pub struct ToControllers(Events);

impl ToControllers {
    /// Same as [`CpuPort::give`].
    pub fn give(&self, bytes: &[u8]) -> bool {
        self.0.tell(Event::PacketIn(bytes.to_vec()))
    }
}

/// Control side of the channel, held by the loop that owns the device.
pub struct Inbox {
    jobs: plain::Receiver<Job>,
    ports: plain::Receiver<PortRequest>,
    takes_ports: Arc<AtomicBool>,
    settings: plain::Receiver<SettingsRequest>,
    takes_settings: Arc<AtomicBool>,
    others: mpsc::Receiver<Any>,
    others_to: mpsc::Sender<Any>,
    wakeup: Arc<WakeupFd>,
    events: Events,
    idle: IdleWatch,
    alike: Option<Alike>,
    credit: Duration,
    credited: Instant,
}

/// A running program, and the equivalent program that controllers know.
struct Alike {
    program: Arc<Program>,
    known: Arc<Program>,
}

impl Inbox {
    /// Returns the descriptor that becomes readable when there is a job.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// Runs pending jobs. Returns true if jobs may be left. While packets arrive (`is_busy`), jobs
    /// use a limited part of the loop's time. Must be called between batches.
    pub fn serve(&mut self, device: &mut Device, is_busy: bool) -> bool {
        self.wakeup.rearm();
        let begin = Instant::now();
        let elapsed = begin.duration_since(self.credited);
        self.credited = begin;
        self.credit = match is_busy {
            true => MAX_CREDIT.min(self.credit + elapsed / SHARE),
            false => MAX_CREDIT,
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

    /// Records that the device runs `after` in place of `before`. Controllers see no difference and
    /// are not notified.
    pub fn replaced_by_like(&mut self, before: &Arc<Program>, after: Arc<Program>) {
        self.alike = Some(Alike {
            known: self.known(Arc::clone(before)),
            program: after,
        });
    }

    /// Returns the program that controllers know for a running program.
    fn known(&self, program: Arc<Program>) -> Arc<Program> {
        match &self.alike {
            Some(alike) if Arc::ptr_eq(&alike.program, &program) => Arc::clone(&alike.known),
            _ => program,
        }
    }

    /// Sends a digest to the controllers.
    pub fn digest(&self, mut digest: Digest) {
        digest.program = self.known(digest.program);
        self.events.tell(Event::Digest(digest));
    }

    /// Declares that the loop takes requests about ports. Without it they are refused. Must be
    /// called before the server starts.
    pub fn take_port_requests(&self) {
        self.takes_ports.store(true, Ordering::Release);
    }

    /// Dequeues the next request about ports.
    pub fn take_port_request(&mut self) -> Option<PortRequest> {
        self.ports.try_recv().ok()
    }

    /// Declares that the loop takes requests about settings. Without it they are refused. A loop
    /// that does not take them must not call it: clients would wait for ever.
    pub fn take_settings_requests(&self) {
        self.takes_settings.store(true, Ordering::Release);
    }

    /// Dequeues the next request about settings.
    pub fn take_settings_request(&mut self) -> Option<SettingsRequest> {
        self.settings.try_recv().ok()
    }

    /// Dequeues the next extension message of a primary controller (`other` in
    /// `StreamMessageRequest`).
    pub fn take_other(&mut self) -> Option<Any> {
        self.others.try_recv().ok()
    }

    /// Sends an extension message to the primary controllers (`other` in `StreamMessageResponse`).
    /// Returns false if it has no room; then it is not sent.
    pub fn send_other(&self, message: Any) -> bool {
        self.others_to.try_send(message).is_ok()
    }

    /// Reports idle entries of a table to the controllers.
    pub fn idle(&self, device: &Device, table: TableId, entries: Vec<Arc<Entry>>) {
        let program = self.known(Arc::clone(device.program()));
        self.events.tell(Event::Idle(program, table, entries));
    }

    /// Checks periodically for entries that have become idle, and reports them.
    pub fn look_for_idle(&mut self, device: &Device) {
        for (table, entries) in self.idle.look(device) {
            self.idle(device, table, entries);
        }
    }

    /// Returns the number of events in the queue.
    pub fn waiting_events(&self) -> usize {
        self.events.sender.max_capacity() - self.events.sender.capacity()
    }

    /// Returns the number of events dropped because the queue was full.
    pub fn lost_events(&self) -> u64 {
        self.events.lost.load(Ordering::Relaxed)
    }
}

/// Server side of the channel.
pub struct Remote {
    jobs: plain::Sender<Job>,
    ports: plain::Sender<PortRequest>,
    takes_ports: Arc<AtomicBool>,
    settings: plain::Sender<SettingsRequest>,
    takes_settings: Arc<AtomicBool>,
    others: mpsc::Sender<Any>,
    jobs_wakeup: Arc<WakeupFd>,
    numbers: CpuNumbers,
    packets: plain::SyncSender<(PortId, Vec<u8>)>,
    packets_wakeup: Arc<WakeupFd>,
    events: Option<(mpsc::Receiver<Event>, mpsc::Receiver<Any>)>,
}

impl Remote {
    /// Returns the receivers of events and of extension messages, once.
    pub(crate) fn take_events(&mut self) -> Option<(mpsc::Receiver<Event>, mpsc::Receiver<Any>)> {
        self.events.take()
    }

    /// Runs a job on the device and returns its result.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Device) -> T + Send + 'static,
    ) -> Checked<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |device| {
            // The caller may have gone.
            let _ = answer.send(job(device));
        });
        let gone = || RequestError::new(Code::Unavailable, "the device has stopped");
        self.jobs.send(job).map_err(|_| gone())?;
        self.jobs_wakeup.wake();
        answered.await.map_err(|_| gone())
    }

    /// Asks the device's loop about its ports, or to change them.
    ///
    /// # Errors
    /// The loop takes no such requests, it refuses this one, or it has stopped.
    pub(crate) async fn ask_ports(&self, action: PortAction) -> Checked<wire::ListResponse> {
        if !self.takes_ports.load(Ordering::Acquire) {
            return refuse(
                Code::Unimplemented,
                "the ports of this switch are fixed: they are those of its command line or topology",
            );
        }
        let (answer, answered) = oneshot::channel();
        let gone = || RequestError::new(Code::Unavailable, "the device has stopped");
        let request = PortRequest { action, answer };
        self.ports.send(request).map_err(|_| gone())?;
        self.jobs_wakeup.wake();
        let answer = answered.await.map_err(|_| gone())?;
        answer.map_err(|refused| RequestError::new(refused.code, refused.message))
    }

    /// Asks the device's loop for its settings, or to change them.
    ///
    /// # Errors
    /// The loop takes no such requests, it refuses this one, or it has stopped.
    pub(crate) async fn ask_settings(&self, action: SettingsAction) -> Checked<String> {
        if !self.takes_settings.load(Ordering::Acquire) {
            return refuse(
                Code::Unimplemented,
                "this switch takes settings from its entries file only",
            );
        }
        let (answer, answered) = oneshot::channel();
        let gone = || RequestError::new(Code::Unavailable, "the device has stopped");
        let request = SettingsRequest { action, answer };
        self.settings.send(request).map_err(|_| gone())?;
        self.jobs_wakeup.wake();
        let answer = answered.await.map_err(|_| gone())?;
        answer.map_err(|refused| RequestError::new(refused.code, refused.message))
    }

    /// Sends an extension message to the device's loop. Waits while the queue is full.
    ///
    /// # Errors
    /// The device has stopped.
    pub(crate) async fn extend(&self, message: Any) -> Checked {
        let sent = self.others.send(message).await;
        self.jobs_wakeup.wake();
        sent.map_err(|_| RequestError::new(Code::Unavailable, "the device has stopped"))
    }

    /// Sends a packet into the CPU port that programs of this architecture use.
    ///
    /// # Errors
    /// The queue is full, or the device has stopped.
    pub(crate) fn send(&self, arch: Arch, packet: Vec<u8>) -> Checked {
        let sent = self.packets.try_send((self.numbers.of(arch), packet));
        self.packets_wakeup.wake();
        sent.map_err(|_| {
            RequestError::new(
                Code::ResourceExhausted,
                format!("{MAX_PACKETS} packets wait for the device; this one is dropped"),
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

//! The thread of the offload, and the device's side of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ir::TableId;
use offload::{CounterCell, Credit, NotOffloadable};
use packet::Nanos;
use switch::{CounterReading, Device, Record};
use table::EntryId;

use crate::driver::{DeviceView, Driver};
use crate::front::OffloadSetup;
use crate::report::OffloadReport;
use crate::sampling::SampleReader;

/// Maximum time between two looks at samples and at the target.
const POLL: Duration = Duration::from_millis(10);

/// Maximum time of a turn for samples.
const SAMPLE_TURN: Nanos = Nanos::from_millis(5);

/// The thread rests this many times as long as samples took, so that it leaves the processor to
/// the packets.
const REST: u64 = 3;

/// Maximum number of records that wait for the thread. With more, all flows are traced again.
const MAX_RECORDS: usize = 1 << 16;

/// Maximum number of the thread's messages that the device's side takes in a turn.
const MAX_OUTPUTS: usize = 256;

/// Time for the removal of all rules at the end, and for the last counts of an entry that was
/// removed.
const MAX_WAIT: Nanos = Nanos::from_millis(3_000);

/// An entry that was removed from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovedEntry {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub entry: EntryId,
}

/// Counts of the target for an entry that had gone when they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCounts {
    /// Number that [`Offload::await_counts`] returned.
    pub number: u64,
    /// The counts of its direct counter.
    pub counts: CounterReading,
    /// False if the target has not answered in time: packets may be missing.
    pub is_complete: bool,
}

/// Error at the start.
#[derive(Debug)]
pub enum OffloadError {
    /// No packet of the program can be offloaded.
    Program(NotOffloadable),
    /// There is no thread.
    Thread(io::Error),
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OffloadError::Program(reason) => {
                write!(
                    f,
                    "no packet can be offloaded: {reason}; leave --offload out"
                )
            }
            OffloadError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for OffloadError {}

/// Message for the thread.
enum Input {
    /// The device has changed.
    Changes(Vec<Record>, bool, DeviceView),
    /// Is answered once no more counts come for this entry.
    Settle(u64, RemovedEntry),
    /// The device could not be given the counts of packets.
    Uncredited(u64),
    Report(Answer),
    End,
}

/// Takes a report.
type Answer = Box<dyn FnOnce(OffloadReport) + Send>;

/// Message of the thread.
enum Output {
    Credit(Credit),
    Settled(u64),
    Ended,
}

/// Records that wait to be given to the thread.
#[derive(Default)]
struct Waiting {
    records: Vec<Record>,
    is_incomplete: bool,
}

/// Queue of the device's records.
#[derive(Default)]
struct RecordQueue {
    has_records: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl RecordQueue {
    fn push(&self, record: &Record) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.records.len() < MAX_RECORDS {
            true => waiting.records.push(record.clone()),
            false => waiting.is_incomplete = true,
        }
        self.has_records.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Waiting> {
        if !self.has_records.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut *waiting))
    }
}

/// Handle to ask for reports. It may outlive the [`Offload`].
#[derive(Clone)]
pub struct OffloadHandle(Sender<Input>);

impl OffloadHandle {
    /// Lets the thread pass a report to `answer`. It is dropped unanswered if the thread has ended.
    pub fn request(&self, answer: impl FnOnce(OffloadReport) + Send + 'static) {
        // The message with the answer is dropped if the thread has ended.
        let _ = self.0.send(Input::Report(Box::new(answer)));
    }
}

/// The device's side of the offload. It belongs to the thread that changes the device.
pub struct Offload {
    inbox: Sender<Input>,
    outputs: Receiver<Output>,
    records: Arc<RecordQueue>,
    thread: Option<JoinHandle<()>>,
    next_number: u64,
    /// Entries for which late counts may come, with the time since which they are awaited.
    awaited: BTreeMap<u64, (RemovedEntry, Nanos, CounterReading)>,
    /// Their numbers.
    awaited_by_entry: BTreeMap<RemovedEntry, u64>,
    settled: Vec<LateCounts>,
}

impl Offload {
    /// Starts the offload of a device. `readers` are those of all fronts of the packet path;
    /// `clock` is the device's.
    ///
    /// # Errors
    /// No packet of the program can be offloaded, or there is no thread.
    pub fn start(
        setup: OffloadSetup,
        readers: Vec<SampleReader>,
        device: &mut Device,
        clock: impl Fn() -> Nanos + Send + 'static,
    ) -> Result<Offload, OffloadError> {
        let driver = Driver::new(setup.options, setup.target, DeviceView::of(device));
        if let Some(reason) = driver.unsupported() {
            return Err(OffloadError::Program(reason.clone()));
        }
        device.set_idle_delay(driver.counts_delay());
        let records = Arc::new(RecordQueue::default());
        let of_device = Arc::clone(&records);
        device.follow(move |record| of_device.push(record));
        let (inbox, inputs) = channel();
        let (to_device, outputs) = channel();
        let worker = Worker {
            driver,
            readers,
            inputs,
            outputs: to_device,
            clock: Box::new(clock),
            next_samples: Nanos::ZERO,
            settling: BTreeMap::new(),
        };
        let builder = std::thread::Builder::new().name("offload".to_owned());
        let thread = builder.spawn(move || worker.run());
        Ok(Offload {
            inbox,
            outputs,
            records,
            thread: Some(thread.map_err(OffloadError::Thread)?),
            next_number: 0,
            awaited: BTreeMap::new(),
            awaited_by_entry: BTreeMap::new(),
            settled: Vec::new(),
        })
    }

    /// Returns a handle to ask for reports.
    pub fn handle(&self) -> OffloadHandle {
        OffloadHandle(self.inbox.clone())
    }

    /// Gives the device's changes to the thread, and the target's counts to the device. Call it
    /// after changes of the device, and now and then: what it does at a time is bounded.
    pub fn turn(&mut self, device: &mut Device, now: Nanos) {
        self.give_changes(device);
        for _ in 0..MAX_OUTPUTS {
            match self.outputs.try_recv() {
                Ok(output) => self.take(output, device),
                Err(_) => break,
            }
        }
        let is_over = |(_, since, _): &(_, Nanos, _)| now.since(*since) >= MAX_WAIT;
        let over: Vec<u64> = self
            .awaited
            .iter()
            .filter(|(_, awaited)| is_over(awaited))
            .map(|(number, _)| *number)
            .collect();
        over.into_iter()
            .for_each(|number| self.settle(number, false));
    }

    fn give_changes(&mut self, device: &mut Device) {
        if let Some(waiting) = self.records.take() {
            let view = DeviceView::of(device);
            self.send(Input::Changes(
                waiting.records,
                !waiting.is_incomplete,
                view,
            ));
        }
    }

    fn send(&self, input: Input) {
        // The thread receives until this is dropped.
        let _ = self.inbox.send(input);
    }

    fn take(&mut self, output: Output, device: &mut Device) {
        match output {
            Output::Credit(credit) => {
                for met in &credit.flow.met.counters {
                    if let CounterCell::Direct(table, Some(entry)) = met.cell
                        && let Some(number) =
                            self.awaited_by_entry.get(&RemovedEntry { table, entry })
                        && let Some((_, _, counts)) = self.awaited.get_mut(number)
                    {
                        counts.packets += credit.packets;
                        counts.bytes += met.bytes.of(credit.packets, credit.bytes);
                    }
                }
                if credit.apply(device) > 0 {
                    self.send(Input::Uncredited(credit.packets));
                }
            }
            Output::Settled(number) => self.settle(number, true),
            Output::Ended => {}
        }
    }

    fn settle(&mut self, number: u64, is_complete: bool) {
        if let Some((entry, _, counts)) = self.awaited.remove(&number) {
            self.awaited_by_entry.remove(&entry);
            self.settled.push(LateCounts {
                number,
                counts,
                is_complete,
            });
        }
    }

    /// Awaits the last counts of the target for an entry that was just removed.
    /// [`Offload::take_settled`] has them under the number that is returned.
    pub fn await_counts(&mut self, device: &mut Device, removed: RemovedEntry, now: Nanos) -> u64 {
        self.give_changes(device);
        self.next_number += 1;
        let number = self.next_number;
        self.awaited
            .insert(number, (removed, now, CounterReading::default()));
        self.awaited_by_entry.insert(removed, number);
        self.send(Input::Settle(number, removed));
        number
    }

    /// Returns the counts that are complete now, or that did not come in time.
    pub fn take_settled(&mut self) -> Vec<LateCounts> {
        std::mem::take(&mut self.settled)
    }

    /// Removes all rules, and gives their last counts to the device. Waits for the target, for a
    /// few seconds at most: frames must not need this thread any more.
    pub fn finish(&mut self, device: &mut Device) {
        self.give_changes(device);
        self.send(Input::End);
        while let Ok(output) = self.outputs.recv_timeout(Duration::from(MAX_WAIT) * 2) {
            let is_over = matches!(output, Output::Ended);
            self.take(output, device);
            if is_over {
                break;
            }
        }
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        self.send(Input::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the thread.
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Worker {
    driver: Driver,
    readers: Vec<SampleReader>,
    inputs: Receiver<Input>,
    outputs: Sender<Output>,
    clock: Box<dyn Fn() -> Nanos + Send>,
    next_samples: Nanos,
    settling: BTreeMap<u64, RemovedEntry>,
}

impl Worker {
    fn run(mut self) {
        let mut ending = None;
        loop {
            let mut input = match self.inputs.recv_timeout(self.wait()) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Input::End),
            };
            while let Some(next) = input {
                if matches!(next, Input::End) && ending.is_none() {
                    ending = Some((self.clock)() + MAX_WAIT);
                }
                self.handle(next);
                input = self.inputs.try_recv().ok();
            }
            let now = (self.clock)();
            self.turn(now);
            if let Some(deadline) = ending {
                let has_ended = self.driver.withdraw(now);
                if has_ended || now >= deadline {
                    // The device may have gone.
                    let _ = self.outputs.send(Output::Ended);
                    return;
                }
            } else {
                self.observe();
            }
        }
    }

    /// Returns the time until something is due.
    fn wait(&self) -> Duration {
        let next = self.driver.next_time();
        let next = next.map(|at| Duration::from(at.since((self.clock)())));
        next.map_or(POLL, |next| next.min(POLL))
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Changes(records, is_complete, view) => {
                let now = (self.clock)();
                self.driver.take_changes(now, &records, is_complete, view);
            }
            Input::Settle(number, removed) => {
                self.settling.insert(number, removed);
            }
            Input::Uncredited(packets) => self.driver.note_uncredited(packets),
            Input::Report(answer) => answer(self.driver.report()),
            Input::End => {}
        }
    }

    fn turn(&mut self, now: Nanos) {
        for credit in self.driver.turn(now) {
            // The device may have gone.
            let _ = self.outputs.send(Output::Credit(credit));
        }
        if self.settling.is_empty() {
            return;
        }
        let met = self.driver.entries_in_target();
        let met: BTreeSet<RemovedEntry> = met
            .filter_map(|(table, entry)| {
                let entry = entry?;
                Some(RemovedEntry { table, entry })
            })
            .collect();
        let outputs = &self.outputs;
        self.settling.retain(|number, removed| {
            let is_settled = !met.contains(removed);
            if is_settled {
                let _ = outputs.send(Output::Settled(*number));
            }
            !is_settled
        });
    }

    /// Gives samples to the offloader for a while.
    fn observe(&mut self) {
        let begin = (self.clock)();
        if begin < self.next_samples {
            return;
        }
        let Worker {
            driver,
            readers,
            clock,
            ..
        } = self;
        let mut now = begin;
        for reader in readers.iter_mut() {
            while now.since(begin) < SAMPLE_TURN
                && reader.next(|ingress, frame, packets| {
                    driver.observe(now, ingress, frame, packets);
                })
            {
                now = clock();
            }
        }
        self.next_samples = now + Nanos(now.since(begin).0 * REST);
    }
}

//! The thread of the offload, and the device's side of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ir::{Program, TableId};
use offload::{CounterCell, Credit, NotOffloadable, SameObjects};
use packet::{Nanos, PortId};
use switch::{CounterReading, Device, Record};
use table::EntryId;

use crate::driver::{DeviceView, Driver};
use crate::front::OffloadSetup;
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

/// Maximum number of messages that the thread takes in a turn.
const MAX_INPUTS: usize = 1024;

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
    /// [`ChangeSlot`] has changes.
    Changes,
    /// Is answered once no more counts come for this entry. The number of its table is that of this
    /// program.
    Settle(u64, RemovedEntry, Arc<Program>),
    /// The device could not be given the counts of packets.
    Uncredited(u64),
    /// A port is up, or down.
    Port(PortId, bool),
    Ask(Question),
    End,
}

/// Takes a part of a report.
type Question = Box<dyn FnOnce(&Driver) + Send>;

/// Message of the thread.
enum Output {
    /// Counts for the objects of this program.
    Credit(Credit, Arc<Program>),
    /// No more counts come. False if some may be missing.
    Settled(u64, bool),
    Ended,
}

/// Records that wait.
#[derive(Default)]
struct Waiting {
    records: Vec<Record>,
    /// Records are missing.
    is_incomplete: bool,
}

impl Waiting {
    /// Adds records up to [`MAX_RECORDS`]. Beyond, none is kept, since all flows are traced again.
    fn add(&mut self, records: impl ExactSizeIterator<Item = Record>) {
        self.is_incomplete |= self.records.len() + records.len() > MAX_RECORDS;
        match self.is_incomplete {
            true => self.records = Vec::new(),
            false => self.records.extend(records),
        }
    }
}

/// Queue of the device's records since the last turn.
#[derive(Default)]
struct RecordQueue {
    has_records: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl RecordQueue {
    fn push(&self, record: &Record) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.add(std::iter::once(record.clone()));
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

/// All changes of the device that the thread has not taken, with the state after them.
#[derive(Default)]
struct ChangeSlot(Mutex<Option<(Waiting, DeviceView)>>);

impl ChangeSlot {
    fn slot(&self) -> MutexGuard<'_, Option<(Waiting, DeviceView)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds changes. Returns true if there were none.
    fn add(&self, waiting: Waiting, view: DeviceView) -> bool {
        let mut slot = self.slot();
        let Some((before, last)) = &mut *slot else {
            *slot = Some((waiting, view));
            return true;
        };
        before.is_incomplete |= waiting.is_incomplete;
        before.add(waiting.records.into_iter());
        *last = view;
        false
    }

    fn take(&self) -> Option<(Waiting, DeviceView)> {
        self.slot().take()
    }

    fn is_empty(&self) -> bool {
        self.slot().is_none()
    }
}

/// Handle to ask for reports. It may outlive the [`Offload`].
#[derive(Clone)]
pub struct OffloadHandle(Sender<Input>);

impl OffloadHandle {
    /// Lets the thread pass its driver to `question`, which takes a part of the report. The thread
    /// does nothing else meanwhile. `question` is dropped if the thread has ended.
    pub fn request(&self, question: impl FnOnce(&Driver) + Send + 'static) {
        // The message with the question is dropped if the thread has ended.
        let _ = self.0.send(Input::Ask(Box::new(question)));
    }
}

/// The device's side of the offload. It belongs to the thread that changes the device.
pub struct Offload {
    inbox: Sender<Input>,
    outputs: Receiver<Output>,
    records: Arc<RecordQueue>,
    changes: Arc<ChangeSlot>,
    /// The program of which awaited entries have their numbers of tables.
    program: Arc<Program>,
    /// [`crate::OffloadOptions::keeps_entries`].
    keeps_entries: bool,
    /// The objects of another program, which the last credits were for, in this one.
    renumbered: Option<(Arc<Program>, SameObjects)>,
    thread: Option<JoinHandle<()>>,
    /// Ports that are down.
    down: BTreeSet<PortId>,
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
        let keeps_entries = setup.options.keeps_entries;
        let driver = Driver::new(setup.options, setup.target, DeviceView::of(device));
        if let Some(reason) = driver.unsupported() {
            return Err(OffloadError::Program(reason.clone()));
        }
        device.set_idle_delay(driver.counts_delay());
        let (inbox, inputs) = channel();
        let (to_device, outputs) = channel();
        let mut offload = Offload::new(device, keeps_entries, inbox, outputs);
        let worker = Worker {
            driver,
            changes: Arc::clone(&offload.changes),
            readers,
            next_reader: 0,
            inputs,
            outputs: to_device,
            clock: Box::new(clock),
            next_samples: Nanos::ZERO,
            settling: BTreeMap::new(),
        };
        let builder = std::thread::Builder::new().name("offload".to_owned());
        let thread = builder.spawn(move || worker.run());
        offload.thread = Some(thread.map_err(OffloadError::Thread)?);
        Ok(offload)
    }

    /// Creates the device's side.
    fn new(
        device: &mut Device,
        keeps_entries: bool,
        inbox: Sender<Input>,
        outputs: Receiver<Output>,
    ) -> Offload {
        let records = Arc::new(RecordQueue::default());
        let of_device = Arc::clone(&records);
        device.follow(move |record| of_device.push(record));
        Offload {
            inbox,
            outputs,
            records,
            changes: Arc::default(),
            program: Arc::clone(device.program()),
            keeps_entries,
            renumbered: None,
            thread: None,
            down: BTreeSet::new(),
            next_number: 0,
            awaited: BTreeMap::new(),
            awaited_by_entry: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    /// Sets a port up or down: no rule sends to a port that is down. All are up at the start.
    pub fn set_port(&mut self, port: PortId, is_up: bool) {
        let is_changed = match is_up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        if is_changed {
            self.send(Input::Port(port, is_up));
        }
    }

    /// Returns a handle to ask for reports.
    pub fn handle(&self) -> OffloadHandle {
        OffloadHandle(self.inbox.clone())
    }

    /// Gives the device's changes to the thread, and the target's counts to the device. Call it
    /// after changes of the device, and now and then: what it does at a time is bounded. Returns
    /// true if more counts may wait: then call it again soon.
    pub fn turn(&mut self, device: &mut Device, now: Nanos) -> bool {
        self.give_changes(device);
        let mut taken = 0;
        while taken < MAX_OUTPUTS
            && let Ok(output) = self.outputs.try_recv()
        {
            self.take(output, device);
            taken += 1;
        }
        // Numbers ascend with time.
        while let Some((number, (_, since, _))) = self.awaited.first_key_value()
            && now.since(*since) >= MAX_WAIT
        {
            self.settle(*number, false);
        }
        taken == MAX_OUTPUTS
    }

    fn give_changes(&mut self, device: &mut Device) {
        self.take_program(device.program());
        if let Some(waiting) = self.records.take() {
            let view = DeviceView::of(device);
            if self.changes.add(waiting, view) {
                self.send(Input::Changes);
            }
        }
    }

    /// Gives awaited entries the numbers of their tables in the program that runs. Entries of a
    /// table that has gone get no more counts.
    fn take_program(&mut self, program: &Arc<Program>) {
        if Arc::ptr_eq(&self.program, program) {
            return;
        }
        let same = SameObjects::of(&self.program, program);
        self.program = Arc::clone(program);
        self.renumbered = None;
        self.awaited_by_entry.clear();
        let mut gone = Vec::new();
        for (number, (removed, ..)) in &mut self.awaited {
            match same.table(removed.table).filter(|_| self.keeps_entries) {
                Some(table) => {
                    removed.table = table;
                    self.awaited_by_entry.insert(*removed, *number);
                }
                None => gone.push(*number),
            }
        }
        for number in gone {
            self.settle(number, false);
        }
    }

    /// Returns counts with the objects of the program that runs. `None` if one has gone.
    fn renumber(&mut self, credit: Credit, program: Arc<Program>) -> Option<Credit> {
        if Arc::ptr_eq(&self.program, &program) {
            return Some(credit);
        }
        if !self.keeps_entries {
            return None;
        }
        let last = self.renumbered.take();
        let last = last.filter(|(of, _)| Arc::ptr_eq(of, &program));
        let (_, same) = self.renumbered.insert(last.unwrap_or_else(|| {
            let same = SameObjects::of(&program, &self.program);
            (program, same)
        }));
        let flow = same.flow(&credit.flow)?;
        Some(Credit { flow, ..credit })
    }

    fn send(&self, input: Input) {
        // The thread receives until this is dropped.
        let _ = self.inbox.send(input);
    }

    fn take(&mut self, output: Output, device: &mut Device) {
        match output {
            Output::Credit(credit, program) => {
                let packets = credit.packets;
                let Some(credit) = self.renumber(credit, program) else {
                    return self.send(Input::Uncredited(packets));
                };
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
                let awaited = &self.awaited_by_entry;
                let is_awaited =
                    |table, entry| awaited.contains_key(&RemovedEntry { table, entry });
                if credit.apply(device, is_awaited) {
                    self.send(Input::Uncredited(packets));
                }
            }
            Output::Settled(number, is_complete) => self.settle(number, is_complete),
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
        let program = Arc::clone(&self.program);
        self.send(Input::Settle(number, removed, program));
        number
    }

    /// Returns the counts that are complete now, or that did not come in time.
    pub fn take_settled(&mut self) -> Vec<LateCounts> {
        std::mem::take(&mut self.settled)
    }

    /// Removes all rules, and gives their last counts to the device. Waits for the target, for a
    /// few seconds at most: frames must not need this thread any more. All awaited counts are
    /// settled then.
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
        while let Some((number, _)) = self.awaited.first_key_value() {
            self.settle(*number, false);
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
    changes: Arc<ChangeSlot>,
    readers: Vec<SampleReader>,
    /// Place of the reader that is the first in the next turn.
    next_reader: usize,
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
            let mut taken = 0;
            while let Some(next) = input.take() {
                if matches!(next, Input::End) && ending.is_none() {
                    ending = Some((self.clock)() + MAX_WAIT);
                }
                self.handle(next);
                taken += 1;
                if taken < MAX_INPUTS {
                    input = self.inputs.try_recv().ok();
                }
            }
            let now = (self.clock)();
            self.turn(now);
            if let Some(deadline) = ending {
                let has_ended = self.driver.withdraw(now);
                if has_ended || now >= deadline {
                    while let Some((number, _)) = self.settling.pop_first() {
                        self.send(Output::Settled(number, has_ended));
                    }
                    return self.send(Output::Ended);
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
            Input::Changes => self.take_changes(),
            Input::Settle(number, removed, program) => {
                self.settling.insert(number, removed);
                self.renumber(&program, number);
            }
            Input::Uncredited(packets) => self.driver.note_uncredited(packets),
            Input::Port(port, is_up) => self.driver.set_port(port, is_up),
            Input::Ask(question) => question(&self.driver),
            Input::End => {}
        }
    }

    fn send(&self, output: Output) {
        // The device may have gone.
        let _ = self.outputs.send(output);
    }

    fn take_changes(&mut self) {
        let Some((waiting, view)) = self.changes.take() else {
            return;
        };
        let now = (self.clock)();
        let before = Arc::clone(self.driver.program());
        let is_complete = !waiting.is_incomplete;
        self.driver
            .take_changes(now, &waiting.records, is_complete, view);
        self.renumber(&before, 0);
    }

    /// Gives entries that are awaited, from this number on, the numbers of their tables in the
    /// program that runs. Those are of program `before`. If their table has gone, or nothing is
    /// credited, they are not awaited any longer.
    fn renumber(&mut self, before: &Arc<Program>, from: u64) {
        let program = self.driver.program();
        let has_gone = self.driver.unsupported().is_some();
        if !has_gone && Arc::ptr_eq(before, program) {
            return;
        }
        let same = SameObjects::of(before, program);
        let outputs = &self.outputs;
        self.settling.retain(|number, removed| {
            if *number < from {
                return true;
            }
            let table = same.table(removed.table).filter(|_| !has_gone);
            match table {
                Some(table) => removed.table = table,
                None => {
                    let _ = outputs.send(Output::Settled(*number, false));
                }
            }
            table.is_some()
        });
    }

    fn turn(&mut self, now: Nanos) {
        for credit in self.driver.turn(now) {
            let program = Arc::clone(self.driver.program());
            self.send(Output::Credit(credit, program));
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
                let _ = outputs.send(Output::Settled(*number, true));
            }
            !is_settled
        });
    }

    /// Gives samples to the offloader for a while, up to the next change.
    fn observe(&mut self) {
        let begin = (self.clock)();
        if begin < self.next_samples {
            return;
        }
        let (driver, changes) = (&mut self.driver, &self.changes);
        let mut now = begin;
        read_in_turn(
            &mut self.readers,
            &mut self.next_reader,
            |ingress, frame, packets| {
                driver.observe(now, ingress, frame, packets);
                now = (self.clock)();
                // A change does not wait for samples.
                now.since(begin) < SAMPLE_TURN && changes.is_empty()
            },
        );
        self.next_samples = now + Nanos(now.since(begin).0 * REST);
    }
}

/// Passes frames of each reader, from place `first` on, while `read` returns true. The next call
/// begins after the last reader that had frames read.
fn read_in_turn(
    readers: &mut [SampleReader],
    first: &mut usize,
    mut read: impl FnMut(PortId, &[u8], u64) -> bool,
) {
    let number = readers.len();
    for place in (*first..number).chain(0..(*first).min(number)) {
        let mut goes_on = true;
        while goes_on
            && readers[place].next(|ingress, frame, packets| {
                goes_on = read(ingress, frame, packets);
            })
        {}
        if !goes_on {
            *first = (place + 1) % number;
            return;
        }
    }
}

#[cfg(test)]
mod tests;

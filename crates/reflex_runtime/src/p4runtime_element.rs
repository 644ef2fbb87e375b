//! An element at a P4Runtime server: a thread for its connection.
//!
//! The election ID of a connection has the store's term in its low half. So a server refuses the
//! writes of an older leader, and the entries of the switch are read again by each new one. The
//! last 16 bits are below the term: a leader raises them when a controller that was primary with a
//! greater number of the same term has gone.
//!
//! A server of this project sends the updates of other controllers to managed tables here. They are
//! requested at the store, and come back as commands.

mod entries;
mod switch_entries;
mod updates;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use consensus::{Admission, ElementChange, Fence, Key, Term};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::stream_message_request::Update as ToServer;
use p4info::p4::v1::stream_message_response::Update as FromServer;
use p4info::p4::v1::update::Type as UpdateType;
use p4info::p4::v1::write_request::Atomicity;
use p4info::polyplane::reflex::v1::{ManageTables, ProposedUpdate};
use p4rt::client::{Arbitration, Client, ClientError, Endpoint, Next};
use p4rt::{Any, Code, pack, unpack};
use port::Poller;
use reflex::{
    CommandTarget, DecisionRefusal, ElementAnswer, ElementCounts, ElementIndex, ElementUpdate,
    Loops, P4RuntimeDevice, ReflexSpec, WriteResult,
};
use support::wakeup::WakeupFd;

use self::switch_entries::{Planned, SwitchEntries, update_of};
use self::updates::ControllerUpdates;
use crate::error::ProcessError;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);
/// Time without an order after which the thread looks whether it ends.
const IDLE: Duration = Duration::from_secs(1);
/// Bits of an election ID below the term.
const RAISE_BITS: u32 = 16;
/// Updates of one write at most.
const MAX_UPDATES: usize = 256;
/// Time in which tables are given back at the end.
const RELEASE: Duration = Duration::from_secs(1);

/// Order for the thread.
enum Order {
    Lead(Term),
    Change(Term, ElementChange),
    Settled,
    /// The store did not take an update.
    Refused(u64, DecisionRefusal),
    /// Managed tables are given back. The sender is dropped when they are.
    Release(Sender<()>),
}

/// State that the thread and its owner share.
#[derive(Default)]
struct Shared {
    counts: Mutex<ElementCounts>,
    refusal: Mutex<Option<String>>,
    /// Keys of tables with the fields that they get, in words.
    keys: Mutex<Vec<String>>,
    is_connected: AtomicBool,
    is_ending: AtomicBool,
}

/// An element at a P4Runtime server.
pub struct P4RuntimeElement {
    orders: Sender<Order>,
    answers: Receiver<ElementAnswer>,
    updates: Receiver<ElementUpdate>,
    shared: Arc<Shared>,
    wake: Arc<WakeupFd>,
}

impl P4RuntimeElement {
    /// Starts the connection of an element at an endpoint. `base` is added to the terms of its
    /// election IDs. `wake` wakes the plane's thread when an answer is there. Also returns a
    /// warning, if the server cannot be used yet; it is tried again.
    ///
    /// # Errors
    /// The server's program lacks a table or an action of a permission, or has another form of
    /// them.
    pub fn start(
        loops: &Loops,
        index: ElementIndex,
        (endpoint, device): (Endpoint, &P4RuntimeDevice),
        base: u64,
        wake: Arc<WakeupFd>,
    ) -> Result<(P4RuntimeElement, Option<String>), ProcessError> {
        let spec = &loops.elements[index.0];
        let failed =
            |error: &dyn std::fmt::Display| ProcessError(format!("element {}: {error}", spec.name));
        let own = Arc::new(WakeupFd::armed().map_err(|error| failed(&error))?);
        let shared = Arc::new(Shared::default());
        let (orders, taken_orders) = channel();
        let (answers, taken_answers) = channel();
        let (updates, taken_updates) = channel();
        let permissions = loops.reflexes.iter();
        let permissions =
            permissions.map(|reflex| (reflex.element == index).then(|| reflex.clone()));
        let connection = Connection {
            endpoint,
            device: device.clone(),
            base,
            permissions: permissions.collect(),
            orders: taken_orders,
            answers,
            updates,
            last_token: 0,
            own_wake: Arc::clone(&own),
            plane_wake: wake,
            shared: Arc::clone(&shared),
            term: None,
            raise: 0,
            link: None,
            retry: Instant::now(),
        };
        let warning = match connection.connect() {
            Ok(link) => {
                *lock(&shared.keys) = link.entries.keys();
                None
            }
            Err(LinkError::Bind(error)) => return Err(failed(&error)),
            Err(LinkError::Server(message)) => Some(format!(
                "element {}: {message}; it is tried again",
                spec.name
            )),
        };
        let thread = std::thread::Builder::new().name(format!("element {}", spec.name));
        // It is not joined: an attempt to connect can take seconds.
        thread
            .spawn(move || connection.run())
            .map_err(|error| failed(&format!("cannot start a thread: {error}")))?;
        let element = P4RuntimeElement {
            orders,
            answers: taken_answers,
            updates: taken_updates,
            shared,
            wake: own,
        };
        Ok((element, warning))
    }

    fn order(&self, order: Order) {
        // The thread ends only after this value.
        let _ = self.orders.send(order);
        self.wake.wake();
    }
}

impl CommandTarget for P4RuntimeElement {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        self.order(Order::Change(term, *change));
        None
    }

    fn next_answer(&mut self) -> Option<ElementAnswer> {
        self.answers.try_recv().ok()
    }

    fn lead(&mut self, term: Term) {
        self.order(Order::Lead(term));
    }

    fn settled(&mut self) {
        self.order(Order::Settled);
    }

    fn next_update(&mut self) -> Option<ElementUpdate> {
        self.updates.try_recv().ok()
    }

    fn refuse_update(&mut self, token: u64, refusal: DecisionRefusal) {
        self.order(Order::Refused(token, refusal));
    }

    fn release(&mut self) {
        let (done, is_done) = channel();
        self.order(Order::Release(done));
        // An error is the end of the sender, or of the time.
        let _ = is_done.recv_timeout(RELEASE);
    }

    fn counts(&self) -> ElementCounts {
        *lock(&self.shared.counts)
    }

    fn keys(&self) -> Vec<String> {
        lock(&self.shared.keys).clone()
    }

    fn last_refusal(&self) -> Option<String> {
        lock(&self.shared.refusal).clone()
    }

    fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Relaxed)
    }
}

impl Drop for P4RuntimeElement {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.wake.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reason for which a server cannot be used.
enum LinkError {
    /// Its program does not fit. Another program may.
    Bind(String),
    /// It does not answer, or has no program.
    Server(String),
}

/// An open connection.
struct Link {
    client: Client,
    /// The server takes writes of this connection.
    is_primary: bool,
    /// The server sends updates of other controllers here.
    is_manager: bool,
    /// Messages about managed tables that the server has not sent back.
    unreturned: usize,
    fence: Fence,
    last_result: WriteResult,
    entries: SwitchEntries,
    updates: ControllerUpdates,
}

/// The thread's state.
struct Connection {
    endpoint: Endpoint,
    device: P4RuntimeDevice,
    base: u64,
    /// Permissions of this element, at their places in the file.
    permissions: Vec<Option<ReflexSpec>>,
    orders: Receiver<Order>,
    answers: Sender<ElementAnswer>,
    updates: Sender<ElementUpdate>,
    /// Greatest number of an update of a connection before.
    last_token: u64,
    own_wake: Arc<WakeupFd>,
    plane_wake: Arc<WakeupFd>,
    shared: Arc<Shared>,
    /// Term of the leader of this process; `None` before it leads.
    term: Option<Term>,
    /// Number below the term in the election ID.
    raise: u64,
    link: Option<Link>,
    /// Time of the next attempt to connect.
    retry: Instant,
}

impl Connection {
    /// Connects, and finds the tables of the permissions.
    fn connect(&self) -> Result<Link, LinkError> {
        let server = |error: ClientError| LinkError::Server(error.to_string());
        let (id, role) = (self.device.device_id, &self.device.role);
        let mut client = Client::connect(&self.endpoint, id, role).map_err(server)?;
        let config = client
            .config(ResponseType::P4infoAndCookie)
            .map_err(server)?;
        let info = config.and_then(|config| config.p4info).ok_or_else(|| {
            let address = &self.device.address;
            LinkError::Server(format!("device {id} at {address} has no program yet"))
        })?;
        let tables = self.permissions.iter().map(|reflex| {
            let bound = reflex.as_ref().map(|reflex| {
                let bound = entries::bind(reflex, &info);
                bound
                    .map_err(|error| format!("{error}{}", entries::existing(reflex, &error, &info)))
            });
            bound.transpose()
        });
        let tables: Result<Vec<_>, _> = tables.collect();
        Ok(Link {
            client,
            is_primary: false,
            is_manager: false,
            unreturned: 0,
            fence: Fence::default(),
            last_result: WriteResult::Applied,
            entries: SwitchEntries::new(tables.map_err(LinkError::Bind)?),
            updates: ControllerUpdates::new(self.last_token),
        })
    }

    fn run(mut self) {
        while !self.shared.is_ending.load(Ordering::Relaxed) {
            self.keep_connected();
            self.wait();
            self.own_wake.rearm();
            self.take_orders();
            self.pass_updates();
        }
    }

    /// Connects if there is something to send, and it is time.
    fn keep_connected(&mut self) {
        if self.link.is_some() || self.term.is_none() || Instant::now() < self.retry {
            return;
        }
        match self.connect() {
            Ok(link) => {
                *lock(&self.shared.keys) = link.entries.keys();
                self.link = Some(link);
                self.begin_term();
            }
            Err(LinkError::Bind(message) | LinkError::Server(message)) => self.lost(message),
        }
    }

    /// Closes the connection, and connects again later.
    fn lost(&mut self, reason: String) {
        *lock(&self.shared.refusal) = Some(reason);
        if let Some(link) = self.link.take() {
            self.last_token = link.updates.last_token();
        }
        self.shared.is_connected.store(false, Ordering::Relaxed);
        self.retry = Instant::now() + RETRY;
        self.plane_wake.wake();
    }

    /// Becomes primary with the election ID of the term, and reads what the switch has.
    fn begin_term(&mut self) {
        let (Some(term), Some(link)) = (self.term, &mut self.link) else {
            return;
        };
        let own = self.device.election_id;
        let mut first = election_of(own, self.base, term);
        first += u128::from(self.raise);
        let mut answer = link.client.arbitrate(Some(first));
        if let Ok(found) = &answer
            && let Some(raise) = raise_after(first, found)
        {
            self.raise = raise;
            let election = election_of(own, self.base, term) + u128::from(raise);
            answer = link.client.arbitrate(Some(election));
        }
        let read = answer.and_then(|answer| {
            link.is_primary = answer.is_primary;
            match answer.is_primary {
                true => link.begin().map(|()| None),
                false => Ok(answer.highest.map(|highest| (highest, answer.has_primary))),
            }
        });
        match read {
            Ok(None) => {
                *lock(&self.shared.refusal) = None;
                self.shared.is_connected.store(true, Ordering::Relaxed);
                self.answer(ElementAnswer::Restarted);
            }
            Ok(Some((highest, has_primary))) => {
                let refusal = refused_by(highest, has_primary, first);
                *lock(&self.shared.refusal) = Some(refusal);
                self.shared.is_connected.store(false, Ordering::Relaxed);
                self.answer(ElementAnswer::OldTerm(Term(highest as u64)));
            }
            Err(error) => self.lost(error.to_string()),
        }
    }

    fn answer(&self, answer: ElementAnswer) {
        // The owner may be gone.
        let _ = self.answers.send(answer);
        self.plane_wake.wake();
    }

    /// Waits for an order, or for the end of the connection.
    fn wait(&mut self) {
        let own = Arc::clone(&self.own_wake);
        let Some(link) = &mut self.link else {
            let left = match self.term {
                Some(_) => self.retry.saturating_duration_since(Instant::now()),
                None => IDLE,
            };
            // An error ends the wait.
            let _ = Poller::new().wait([own.fd()], left);
            return;
        };
        let fd: BorrowedFd<'_> = own.fd();
        match link.client.next(Some(IDLE), Some(fd)) {
            Ok(Next::Told(FromServer::Arbitration(update))) => {
                let is_primary = update.status.is_none_or(|status| status.code == 0);
                if is_primary != link.is_primary || !is_primary {
                    // Another controller came or went: what it did is read.
                    self.begin_term();
                }
            }
            Ok(Next::Told(FromServer::Other(message))) => {
                if link.take_message(&message) == MessageEffect::Begin {
                    // Names and entries of the switch are read again, and all of the store is sent.
                    self.lost("the switch runs another program config".to_owned());
                }
            }
            // The other controller may have gone.
            Ok(Next::TimedOut) if !link.is_primary => self.begin_term(),
            Ok(_) => {}
            Err(error) => self.lost(error.to_string()),
        }
    }

    fn take_orders(&mut self) {
        let mut batch = Batch::default();
        loop {
            match self.orders.try_recv() {
                Ok(Order::Change(term, change)) => {
                    if self.term.is_none_or(|own| own < term) {
                        self.write(&mut batch);
                        (self.term, self.raise) = (Some(term), 0);
                        self.begin_term();
                    }
                    // A server may do the updates of a request in any order.
                    if batch.changes.len() >= MAX_UPDATES || !batch.keys.insert(change.key) {
                        self.write(&mut batch);
                        batch.keys.insert(change.key);
                    }
                    batch.changes.push((term, change));
                }
                Ok(Order::Lead(term)) => {
                    self.write(&mut batch);
                    if self.term.is_none_or(|own| own < term) {
                        (self.term, self.raise) = (Some(term), 0);
                        self.begin_term();
                    }
                }
                Ok(Order::Settled) => {
                    self.write(&mut batch);
                    self.remove_others();
                    if let Some(link) = &mut self.link {
                        link.updates.settle(&link.entries, Instant::now());
                        link.adopt();
                    }
                }
                Ok(Order::Refused(token, refusal)) => {
                    if let Some(Link {
                        updates, entries, ..
                    }) = &mut self.link
                    {
                        updates.refuse(token, refusal, entries, Instant::now());
                    }
                }
                Ok(Order::Release(_done)) => {
                    self.write(&mut batch);
                    if let Some(link) = &mut self.link {
                        link.release();
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        self.write(&mut batch);
    }

    /// Passes requests of controllers to the plane, and their results to the switch.
    fn pass_updates(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.updates.step(&link.entries, Instant::now());
        let requests = link.updates.take_requests();
        let is_any = !requests.is_empty();
        for request in requests {
            // The owner may be gone.
            let _ = self.updates.send(request);
        }
        let mut results = link.updates.take_results().into_iter();
        let sent = results.try_for_each(|result| link.client.send(ToServer::Other(pack(&result))));
        if is_any {
            self.plane_wake.wake();
        }
        if let Err(error) = sent {
            self.lost(error.to_string());
        }
    }

    /// Writes the changes of a batch in one request, and answers each.
    fn write(&mut self, batch: &mut Batch) {
        let changes = std::mem::take(batch).changes;
        // Without a connection they are sent again when there is one.
        let Some(link) = self.link.as_mut().filter(|link| link.is_primary) else {
            return;
        };
        let mut counts = ElementCounts::default();
        let mut answers = Vec::new();
        // Errors of the changes that are new.
        let mut made = Vec::new();
        // Places in `answers` and `made` of the updates.
        let mut places = Vec::new();
        let mut updates = Vec::new();
        for (term, change) in &changes {
            let admission = link.fence.admit(*term, change.previous, change.index);
            let (answer, count) = match admission {
                Admission::Apply => {
                    let result = match link.entries.plan(change) {
                        Planned::Unknown => WriteResult::Unknown,
                        Planned::Nothing => WriteResult::Applied,
                        Planned::Write(write) => {
                            let (update, former) = *write;
                            places.push((answers.len(), made.len(), change.key, former));
                            updates.push(update);
                            WriteResult::Applied
                        }
                    };
                    made.push(((change.key, change.change), Ok(())));
                    link.last_result = result;
                    let count = match result {
                        WriteResult::Unknown => &mut counts.unknown,
                        _ => &mut counts.applied,
                    };
                    (ElementAnswer::Has(change.index, result), count)
                }
                Admission::Repeat(has) => {
                    let answer = ElementAnswer::Has(has, link.last_result);
                    (answer, &mut counts.repeated)
                }
                Admission::Gap(has) => {
                    let answer = ElementAnswer::Has(has, link.last_result);
                    (answer, &mut counts.early)
                }
                Admission::OldTerm(newer) => (ElementAnswer::OldTerm(newer), &mut counts.old_term),
            };
            *count += 1;
            answers.push(answer);
        }
        match link.write(updates) {
            Ok(results) => {
                for ((place, own, key, former), result) in places.into_iter().zip(results) {
                    let Err((code, error)) = result else { continue };
                    link.entries.put_back(key, former, code);
                    made[own].1 = Err((Code::from_i32(code), error.clone()));
                    if let ElementAnswer::Has(_, result) = &mut answers[place] {
                        *result = WriteResult::Refused;
                    }
                    counts.applied -= 1;
                    counts.refused += 1;
                    *lock(&self.shared.refusal) = Some(error);
                }
                let Link {
                    updates, entries, ..
                } = link;
                for (change, result) in made {
                    updates.done(change, result, entries, Instant::now());
                }
                self.count(counts);
                answers.into_iter().for_each(|it| self.answer(it));
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn count(&self, more: ElementCounts) {
        let mut counts = lock(&self.shared.counts);
        counts.applied += more.applied;
        counts.refused += more.refused;
        counts.repeated += more.repeated;
        counts.early += more.early;
        counts.old_term += more.old_term;
        counts.unknown += more.unknown;
        counts.removed += more.removed;
    }

    /// Ends the use of a connection that does not take writes.
    fn failed(&mut self, failure: WriteFailure) {
        match failure {
            WriteFailure::Lost(reason) => self.lost(reason),
            WriteFailure::NotPrimary(reason) => {
                if let Some(link) = &mut self.link {
                    link.is_primary = false;
                }
                let refused = ElementCounts {
                    old_term: 1,
                    ..ElementCounts::default()
                };
                self.count(refused);
                *lock(&self.shared.refusal) = Some(reason);
                self.shared.is_connected.store(false, Ordering::Relaxed);
                self.plane_wake.wake();
            }
        }
    }

    /// Removes the entries of the permissions that the store does not have.
    fn remove_others(&mut self) {
        let Some(link) = self.link.as_mut().filter(|link| link.is_primary) else {
            return;
        };
        let others = link.entries.take_others();
        let mut counts = ElementCounts::default();
        let mut failed = None;
        for part in others.chunks(MAX_UPDATES) {
            let updates = part
                .iter()
                .map(|entry| update_of(UpdateType::Delete, entry.clone()));
            match link.write(updates.collect()) {
                Ok(results) => {
                    counts.removed += results.iter().filter(|it| it.is_ok()).count() as u64;
                }
                Err(failure) => {
                    failed = Some(failure);
                    break;
                }
            }
        }
        self.count(counts);
        if let Some(failure) = failed {
            self.failed(failure);
        }
        self.plane_wake.wake();
    }
}

/// Returns the least election ID of a term.
fn election_of(high: u64, base: u64, term: Term) -> u128 {
    let term = term.0.saturating_mul(1 << RAISE_BITS);
    // Numbers below the term are added to it.
    let low = base.saturating_add(term).min(u64::MAX << RAISE_BITS);
    u128::from(high) << 64 | u128::from(low)
}

/// Returns the number below the term for a leader that asked with `own`, if a controller with a
/// greater number of the same term was primary and has gone. A later leader has a greater term: it
/// is never outdone.
fn raise_after(own: u128, answer: &Arbitration) -> Option<u64> {
    let highest = answer.highest?;
    let is_same_term = highest >> RAISE_BITS == own >> RAISE_BITS;
    if answer.is_primary || answer.has_primary || !is_same_term {
        return None;
    }
    let raise = (highest as u64 & ((1 << RAISE_BITS) - 1)) + 1;
    (raise < 1 << RAISE_BITS).then_some(raise)
}

/// Returns why a server refused the election ID `own`, with a remedy.
fn refused_by(highest: u128, has_primary: bool, own: u128) -> String {
    let (high, low) = ((highest >> 64) as u64, highest as u64);
    let own_high = (own >> 64) as u64;
    let next = high.saturating_add(1);
    if highest >> RAISE_BITS == own >> RAISE_BITS && has_primary {
        return format!(
            "another controller, with the election ID {highest}, is primary; the plane goes on when it has gone: give it a role of its own by --role"
        );
    }
    let set = format!("write election_id = {next} for the element in the loop file");
    match high > own_high {
        true => format!(
            "another controller used the election ID {highest}, so its election_id is {high}; {set}, and give the other one a role of its own by --role"
        ),
        false => format!(
            "a later leader, of number {low}, controls the switch; if no other process of these loops runs, {set}"
        ),
    }
}

/// Changes of one request, of different names.
#[derive(Default)]
struct Batch {
    changes: Vec<(Term, ElementChange)>,
    keys: HashSet<Key>,
}

/// Result of an update: an error has its code.
type UpdateResult = Result<(), (i32, String)>;

/// Reason for which a request had no effect.
enum WriteFailure {
    /// There is no connection.
    Lost(String),
    /// Another connection is primary.
    NotPrimary(String),
}

/// Effect of a message on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageEffect {
    /// It goes on.
    Stay,
    /// It begins again, since the switch has another program.
    Begin,
}

impl Link {
    /// Reads the entries of the managed tables, and asks for the updates of other controllers to
    /// them. A server that does not know the message keeps making them itself.
    fn begin(&mut self) -> Result<(), ClientError> {
        self.fence = Fence::default();
        self.is_manager = false;
        self.updates = ControllerUpdates::new(self.updates.last_token());
        let tables = self.entries.table_ids();
        let request = ManageTables {
            table_ids: tables.clone(),
        };
        self.client.send(ToServer::Other(pack(&request)))?;
        self.unreturned += 1;
        // What is written after the read comes here. The error of another server is no matter.
        self.client.settle()?;
        self.entries.clear();
        let all = tables.into_iter().map(|table_id| {
            Entity::TableEntry(rt::TableEntry {
                table_id,
                ..rt::TableEntry::default()
            })
        });
        let all: Vec<Entity> = all.collect();
        if all.is_empty() {
            return Ok(());
        }
        let entries = &mut self.entries;
        self.client.read(all, |found| {
            if let Entity::TableEntry(found) = found {
                entries.read(&found);
            }
        })
    }

    /// Takes a message about managed tables. Others are ignored.
    fn take_message(&mut self, message: &Any) -> MessageEffect {
        if let Some(update) = unpack::<ProposedUpdate>(message) {
            self.updates.propose(update, &self.entries, Instant::now());
        } else if unpack::<ManageTables>(message).is_some() {
            let Some(unreturned) = self.unreturned.checked_sub(1) else {
                // The server sends it by itself when its program changed.
                return MessageEffect::Begin;
            };
            self.unreturned = unreturned;
            self.is_manager = true;
            self.adopt();
        }
        MessageEffect::Stay
    }

    /// Requests at the store the entries of controllers that it does not have, when the switch has
    /// all of it and other controllers cannot change them any more.
    fn adopt(&mut self) {
        if self.is_manager && self.updates.is_settled() {
            for (name, change) in self.entries.unknown() {
                self.updates.request_unasked(name, Some(change));
            }
        }
    }

    /// Gives the managed tables back, and waits until the server has done it.
    fn release(&mut self) {
        if self.is_primary && self.is_manager {
            let none = ToServer::Other(pack(&ManageTables::default()));
            // If the connection fails, the tables stay managed.
            let _ = self.client.send(none).and_then(|()| self.client.settle());
            self.unreturned += 1;
            self.is_manager = false;
        }
    }

    /// Writes updates. Returns the result of each: an error has its code.
    fn write(&mut self, updates: Vec<rt::Update>) -> Result<Vec<UpdateResult>, WriteFailure> {
        let count = updates.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let refused = match self.client.write(updates, Atomicity::ContinueOnError) {
            Ok(()) => return Ok(vec![Ok(()); count]),
            Err(ClientError::Refused(refused)) => refused,
            Err(error) => return Err(WriteFailure::Lost(error.to_string())),
        };
        if refused.code == Code::PermissionDenied && refused.updates.is_empty() {
            return Err(WriteFailure::NotPrimary(refused.message));
        }
        if !refused.is_refusal() {
            return Err(WriteFailure::Lost(refused.message));
        }
        let results = refused
            .updates
            .iter()
            .map(|error| match error.canonical_code {
                0 => Ok(()),
                code => Err((code, error.message.clone())),
            });
        let mut results: Vec<UpdateResult> = results.collect();
        // An error of the whole request is one of each update.
        results.resize(count, Err((refused.code as i32, refused.message)));
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(highest: u128, has_primary: bool) -> Arbitration {
        Arbitration {
            is_primary: false,
            has_primary,
            highest: Some(highest),
        }
    }

    #[test]
    fn a_leader_outdoes_a_controller_of_its_term_that_has_gone_and_no_later_leader() {
        let own = election_of(1, 0, Term(4));
        assert_eq!(raise_after(own, &found(own + 7, false)), Some(8));
        assert_eq!(raise_after(own, &found(own + 7, true)), None);
        let later = election_of(1, 0, Term(5));
        assert!(own + 0xffff < later);
        assert_eq!(raise_after(own, &found(own + 0xffff, false)), None);
        assert_eq!(raise_after(own, &found(later, false)), None);
        let other = election_of(2, 0, Term(4));
        assert_eq!(raise_after(own, &found(other, false)), None);
        assert_eq!(
            raise_after(election_of(1, 9 << 32, Term(4)), &found(own, false)),
            None
        );
    }

    #[test]
    fn a_refused_election_id_has_its_remedy() {
        let own = election_of(1, 0, Term(4));
        let passing = refused_by(own + 1, true, own);
        assert!(passing.contains("--role"), "{passing}");
        let memory = refused_by(election_of(1, 9 << 32, Term(1)), false, own);
        assert!(memory.contains("a later leader"), "{memory}");
        assert!(
            memory.contains("write election_id = 2 for the element"),
            "{memory}"
        );
        let other = refused_by(5 << 64, false, own);
        assert!(
            other.contains("write election_id = 6 for the element"),
            "{other}"
        );
    }
}

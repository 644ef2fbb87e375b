//! Objects of a switch in a directory, which survive the process.
//!
//! Each object is a note of `store`: its name, and the message that makes it. A port that is not as
//! at the start is one, too.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pof::wire::{Body, Counter, CounterCommand, Message, Port, PortStatus, decode, encode_short};
use pof::{ControlledSwitch, Forwarder, ObjectKey};
use store::{Directory, KeptState, Note, StorageWriter};
use switch::{Batch, Object, ObjectPlace, Storage, StorageError};

use crate::PofError;
use crate::mailbox::Mailbox;

/// Time until changes are stored again that could not be.
const RETRY: Duration = Duration::from_secs(1);

/// Reason in the message of a port: it was changed.
const PORT_MODIFIED: u8 = 2;

/// The place of a note, and the note if the object is there.
type NamedObject = (ObjectPlace, Option<Object>);

/// Stored state of a switch that does not run yet.
pub struct StoredState {
    kept: KeptState,
    objects: Vec<Body>,
    /// Ports with what a PORT_MOD has set.
    ports: Vec<Port>,
}

impl StoredState {
    /// Opens a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// Another switch uses it, or it cannot be read.
    pub fn open(path: &Path) -> Result<StoredState, PofError> {
        let kept = Directory::open(path).and_then(|directory| directory.pof());
        let kept = kept.map_err(PofError::State)?;
        let objects = kept.notes().map_err(PofError::State)?;
        let read = |(_, bytes): Note| {
            let message = decode(&bytes).map_err(|_| PofError::StoredBytes)?;
            Ok(message.body)
        };
        let objects: Result<Vec<Body>, PofError> = objects.into_iter().map(read).collect();
        let (mut others, mut ports) = (Vec::new(), Vec::new());
        for object in objects? {
            match object {
                Body::PortMod(status) => ports.push(status.port),
                object => others.push(object),
            }
        }
        Ok(StoredState {
            kept,
            objects: others,
            ports,
        })
    }

    /// Returns the number of its objects.
    pub fn len(&self) -> usize {
        self.objects.len() + self.ports.len()
    }

    /// Returns true if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the stored objects on a switch without objects, and stores changes from now on. Ports
    /// that are not there any more are passed over, and stay stored.
    pub(crate) fn restore(self, switch: &mut ControlledSwitch) -> Result<Keeper, PofError> {
        // They are not there, or the switch that stored them knew more of ports.
        let mut passed_over = self.ports;
        passed_over.retain(|port| switch.port_mod(port).is_err());
        switch.take_changed_ports();
        let forwarder = &mut switch.forwarder;
        let mut counters = BTreeSet::new();
        let mut has_entries = false;
        for body in &self.objects {
            // Entries come after all that their shapes depend on.
            if matches!(body, Body::FlowMod(_)) && !std::mem::replace(&mut has_entries, true) {
                let flows = self.objects.iter().filter_map(|body| match body {
                    Body::FlowMod(flow) => Some(flow),
                    _ => None,
                });
                forwarder.foresee(flows);
            }
            if let Body::CounterMod(counter) = body {
                counters.insert(counter.id);
            }
            if let Err(error) = forwarder.make(body) {
                let object = pof::text::write(body, forwarder.tables());
                let object = object.ok_or(PofError::StoredBytes)?;
                return Err(PofError::StoredObject { object, error });
            }
        }
        // A counter that was deleted while an entry used it.
        let made: Vec<u32> = forwarder.tables().counters().collect();
        for id in made.into_iter().filter(|id| !counters.contains(id)) {
            // It exists, so it can be deleted.
            let _ = forwarder.counter_mod(&Counter {
                command: CounterCommand::Delete,
                slot: 0,
                id,
                packets: 0,
                bytes: 0,
            });
        }
        forwarder.take_changed();
        let writer = self.kept.keep().map_err(PofError::State)?;
        Ok(Keeper {
            writer,
            appended: 0,
            fate: Arc::default(),
            retry_at: None,
            failures: 0,
            passed_over,
        })
    }
}

/// Results of batches.
#[derive(Default)]
struct Fate {
    stored: u64,
    failure: Option<StorageError>,
}

/// Stores the changes of a running switch.
pub(crate) struct Keeper {
    writer: StorageWriter,
    /// Number of the last batch.
    appended: u64,
    fate: Arc<Mutex<Fate>>,
    retry_at: Option<Instant>,
    failures: u64,
    /// Stored ports that the switch does not have.
    passed_over: Vec<Port>,
}

impl Keeper {
    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last batch. An answer that leaves with this number waits until
    /// [`Keeper::stored`] has reached it.
    pub(crate) fn appended(&self) -> u64 {
        self.appended
    }

    /// Returns the number of the last batch that is on the disk, or given up.
    pub(crate) fn stored(&self) -> u64 {
        self.fate().stored
    }

    /// Returns the number of failures.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Stores what has changed. Returns a line for the user after a failure.
    pub(crate) fn keep(
        &mut self,
        switch: &mut ControlledSwitch,
        mailbox: &Arc<Mailbox>,
    ) -> Option<String> {
        let changed = switch.forwarder.take_changed();
        let ports = switch.take_changed_ports();
        let failure = self.fate().failure.take();
        if failure.is_some() {
            self.retry_at = Some(Instant::now() + RETRY);
            self.failures += 1;
        }
        match self.retry_at {
            Some(at) if Instant::now() >= at => {
                // All objects, since some are missing.
                self.retry_at = None;
                let all = ObjectKey::all(switch.forwarder.tables());
                let ports = switch.ports().map(|port| port.id).collect();
                self.append(
                    objects_of(all, &switch.forwarder),
                    true,
                    (ports, switch),
                    mailbox,
                );
            }
            // What changes until then is part of all objects.
            Some(_) => {}
            None if changed.is_empty() && ports.is_empty() => {}
            None => {
                let changed = objects_of(changed, &switch.forwarder);
                self.append(changed, false, (ports, switch), mailbox);
            }
        }
        let failure = failure?;
        Some(format!(
            "state is not stored: {failure}; the switch tries again"
        ))
    }

    fn append(
        &mut self,
        mut objects: Vec<NamedObject>,
        is_whole: bool,
        (ports, switch): (BTreeSet<u16>, &ControlledSwitch),
        mailbox: &Arc<Mailbox>,
    ) {
        let ports = ports.into_iter().map(|id| (id, switch.changed_port(id)));
        // All objects replace those that are stored.
        let passed_over = self.passed_over.iter().filter(|_| is_whole);
        let passed_over = passed_over.map(|port| (port.id, Some(port)));
        objects.extend(ports.chain(passed_over).map(|(id, port)| {
            let port = port.map(|port| {
                let (reason, port) = (PORT_MODIFIED, *port);
                bytes_of(Body::PortMod(PortStatus { reason, port }))
            });
            let name = [&[5][..], &id.to_be_bytes()].concat();
            (ObjectPlace::Note(name.into()), port.map(Object::Note))
        }));
        let batch = Batch {
            is_whole,
            goes_on: is_whole,
            objects,
        };
        self.appended += 1;
        let (number, fate, mailbox) = (self.appended, Arc::clone(&self.fate), Arc::clone(mailbox));
        let done = move |stored: Result<(), StorageError>| {
            let mut fate = fate.lock().unwrap_or_else(PoisonError::into_inner);
            fate.stored = number;
            fate.failure = stored.err().or(fate.failure.take());
            drop(fate);
            mailbox.wakeup().wake();
        };
        self.writer.append(batch, Box::new(done));
    }
}

/// Returns objects with the places of their notes. One that is gone has none.
fn objects_of(
    keys: impl IntoIterator<Item = ObjectKey>,
    forwarder: &Forwarder,
) -> Vec<NamedObject> {
    let objects = keys.into_iter().map(|key| {
        let object = key.message(forwarder.tables()).map(bytes_of);
        (ObjectPlace::Note(name_of(key)), object.map(Object::Note))
    });
    objects.collect()
}

/// Returns the name of an object's note. Names are in the order of the keys.
fn name_of(key: ObjectKey) -> Box<[u8]> {
    let numbered = |kind: u8, number: u32| [&[kind][..], &number.to_be_bytes()].concat();
    let name = match key {
        ObjectKey::Table(table) => numbered(0, table.0.into()),
        ObjectKey::Meter(id) => numbered(1, id),
        ObjectKey::Group(id) => numbered(2, id),
        ObjectKey::Entry(table, index) => {
            [numbered(3, table.0.into()), index.to_be_bytes().to_vec()].concat()
        }
        ObjectKey::Counter(id) => numbered(4, id),
    };
    name.into()
}

fn bytes_of(body: Body) -> Box<[u8]> {
    encode_short(&Message { xid: 0, body }).into()
}

//! Stored state of a switch that hosts virtual data planes. Its vPDPs, shared ports and rules are
//! in one file, the program and state of each vPDP in another. The first one names the others, so
//! a change of several files is done when the first one has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use p4info::polyplane::tenancy::v1 as wire;
use p4rt::Notes;
use packet::Nanos;
use prost::Message;
use store::{Directory, HostFiles, HostObject, KeptState, OpenError, StoredPin, StoredVpdp};
use support::amount;
use switch::{Batch, Done, KeptCells, Object, ObjectPlace, Storage};
use tenancy::{
    Connection, Exported, ExportedState, Function, Quotas, Rule, Spec, VirtualPort, VpdpId,
};

use crate::RuntimeError;
use crate::cpu_port::DEFAULT_CPU;
use crate::tenancy_host::compile_job;
use crate::tenancy_host::control_loop::ControlLoop;

/// Notes of a vPDP's device: its function, and the one before. Without the first it has none.
const FUNCTION: &[u8] = b"vpdp/function";
const BEFORE: &[u8] = b"vpdp/before";

/// Time between two attempts to store the notes of the switch after a failure.
const RETRY_AFTER: Nanos = Nanos(1_000_000_000);

/// Stored state of a switch that hosts virtual data planes, as a starting switch finds it.
pub struct StoredHost {
    files: Arc<dyn HostFiles>,
    kept: KeptState,
    notes: Notes,
    objects: Vec<HostObject>,
    cells: KeptCells,
}

impl StoredHost {
    /// Opens a directory, which is created if it does not exist. `cells` are those that are stored
    /// beside the configuration.
    ///
    /// # Errors
    /// Another switch uses the directory, it is that of another kind of switch, or it is damaged.
    pub fn open(path: &Path, cells: KeptCells) -> Result<StoredHost, RuntimeError> {
        let directory = Directory::open(path).map_err(RuntimeError::State)?;
        directory.check_of_host().map_err(RuntimeError::State)?;
        StoredHost::of(Arc::new(directory), cells)
    }

    /// Opens the state in these files.
    ///
    /// # Errors
    /// The file of the switch is damaged or cannot be read.
    pub fn of(files: Arc<dyn HostFiles>, cells: KeptCells) -> Result<StoredHost, RuntimeError> {
        let kept = KeptState::open(files.host()).map_err(RuntimeError::State)?;
        let found = kept.notes().map_err(RuntimeError::State)?;
        let read = |note| HostObject::read(note).ok_or_else(|| unreadable(&*files));
        let objects: Result<_, _> = found.iter().map(read).collect();
        Ok(StoredHost {
            objects: objects?,
            notes: found.into_iter().collect(),
            files,
            kept,
            cells,
        })
    }

    fn vpdps(&self) -> impl Iterator<Item = &StoredVpdp> {
        self.objects.iter().filter_map(|object| match object {
            HostObject::Vpdp(vpdp) => Some(vpdp),
            _ => None,
        })
    }

    /// Returns a line for people about what is stored, if anything is.
    pub fn summary(&self) -> Option<String> {
        let count = self.vpdps().count() as u64;
        let place = self.files.place();
        let vpdps = amount::count(count, "virtual data plane");
        (count > 0).then(|| format!("goes on with the state in {place}: {vpdps}"))
    }
}

fn unreadable(files: &dyn HostFiles) -> RuntimeError {
    RuntimeError::StoredHost {
        place: files.place(),
        error: "an object of the switch cannot be read; put a copy of the directory in its place"
            .to_owned(),
    }
}

/// Storage of a switch that hosts virtual data planes.
pub(super) struct HostStorage {
    files: Arc<dyn HostFiles>,
    storage: Box<dyn Storage>,
    /// Notes of the switch's file, as last stored.
    notes: Notes,
    /// Names of the notes in failed batches. The file may have them as before or as in such a
    /// batch, because an error can come after the batch is durable.
    uncertain: BTreeSet<Box<[u8]>>,
    /// True after a failure: the next batch follows the last stored one.
    has_failed: bool,
    /// Time of the next attempt to store the notes after a failure.
    retry_at: Nanos,
    /// File of each vPDP.
    vpdp_files: BTreeMap<VpdpId, u64>,
    /// Files of deleted vPDPs, each with the thread that ends its storage. They are removed when
    /// the file of the switch certainly names them no more.
    unused: Vec<(u64, Option<JoinHandle<()>>)>,
    next_file: u64,
    cells: KeptCells,
}

impl HostStorage {
    /// Returns a storage in a new file for the state of a vPDP.
    pub(super) fn new_file(
        &mut self,
        id: VpdpId,
    ) -> Result<(Box<dyn Storage>, KeptCells), OpenError> {
        let file = self.next_file;
        let storage = store::keep_new(self.files.vpdp(file))?;
        self.next_file += 1;
        self.vpdp_files.insert(id, file);
        Ok((Box::new(storage), self.cells))
    }

    /// Removes the file of a deleted vPDP, on another thread: what was given to the storage is
    /// written first. The file stays until the file of the switch names it no more.
    pub(super) fn remove_file(&mut self, id: VpdpId, storage: Option<Box<dyn Storage>>) {
        let Some(file) = self.vpdp_files.remove(&id) else {
            return;
        };
        let end = std::thread::Builder::new().spawn(move || drop(storage));
        self.unused.push((file, end.ok()));
        self.remove_unused();
    }

    /// Removes the files of deleted vPDPs that the file of the switch names no more.
    fn remove_unused(&mut self) {
        if self.unused.is_empty() || self.has_failed {
            return;
        }
        let named = self.notes.iter().filter_map(|(name, bytes)| {
            match HostObject::read(&(name.clone(), bytes.clone()))? {
                HostObject::Vpdp(vpdp) => Some(vpdp.file),
                _ => None,
            }
        });
        let named: BTreeSet<u64> = named.collect();
        let unused = std::mem::take(&mut self.unused).into_iter();
        let (kept, removed) = unused.partition(|(file, _)| named.contains(file));
        self.unused = kept;
        let removed: Vec<(u64, Option<JoinHandle<()>>)> = removed;
        if removed.is_empty() {
            return;
        }
        let files = Arc::clone(&self.files);
        let remove = move || {
            for (file, end) in removed {
                // A file that stays is removed at the next start, because no vPDP has it.
                let is_closed = end.is_none_or(|end| end.join().is_ok());
                if is_closed {
                    let _ = files.remove_vpdp(file);
                }
            }
        };
        // If no thread starts, the files stay until then, too.
        let _ = std::thread::Builder::new().spawn(remove);
    }

    /// Returns the difference between the stored notes and these, as a batch. `None`: there is
    /// none. After a failure the batch also has the notes that the file may have in another form.
    pub(super) fn difference(&self, notes: &Notes) -> Option<Batch> {
        let names = self.notes.keys().chain(notes.keys());
        let different = names.filter(|name| self.notes.get(*name) != notes.get(*name));
        let names: BTreeSet<&Box<[u8]>> = different.chain(&self.uncertain).collect();
        let objects = names.into_iter().map(|name| {
            let object = notes.get(name).cloned().map(Object::Note);
            (ObjectPlace::Note(name.clone()), object)
        });
        let objects: Vec<_> = objects.collect();
        (!objects.is_empty()).then_some(Batch {
            is_whole: false,
            goes_on: self.has_failed,
            objects,
        })
    }

    /// Appends a batch.
    pub(super) fn append(&mut self, batch: Batch, done: Done) {
        self.storage.append(batch, done);
    }

    /// Records the result of a batch with these notes, at this time.
    pub(super) fn appended(&mut self, notes: Notes, is_stored: bool, now: Nanos) {
        self.has_failed = !is_stored;
        if is_stored {
            self.notes = notes;
            self.uncertain.clear();
            return self.remove_unused();
        }
        self.retry_at = now + RETRY_AFTER;
        let names = self.notes.keys().chain(notes.keys());
        let different = names.filter(|name| self.notes.get(*name) != notes.get(*name));
        let different: Vec<Box<[u8]>> = different.cloned().collect();
        self.uncertain.extend(different);
    }

    /// Returns true if the file of the switch may differ from the last stored notes, and it is time
    /// to store them again.
    pub(super) fn must_retry(&self, now: Nanos) -> bool {
        self.has_failed && now >= self.retry_at
    }
}

/// Returns the notes of a device with another function. The function before is noted as such.
pub(super) fn with_function(before: &Notes, mut others: Notes, function: Option<Vec<u8>>) -> Notes {
    others.remove(FUNCTION);
    others.remove(BEFORE);
    let last = before.get(FUNCTION).cloned();
    others.extend(last.map(|last| (BEFORE.into(), last)));
    others.extend(function.map(|function| (FUNCTION.into(), function.into())));
    others
}

/// Encodes a function.
pub(super) fn function_bytes(function: &Function) -> Vec<u8> {
    compile_job::write(function).encode_to_vec()
}

/// Decodes a function. Its programs are IR.
fn read_function(bytes: &[u8]) -> Result<Function, String> {
    let message = wire::Function::decode(bytes).map_err(|error| error.to_string())?;
    let function = message.function.ok_or("the function is missing")?;
    compile_job::read(&function, &|_| Err("its program is not IR".to_owned()))
}

impl ControlLoop {
    /// Returns the objects of the switch, all but a vPDP, as notes.
    pub(super) fn host_notes(&self, storage: &HostStorage, without: Option<VpdpId>) -> Notes {
        let vpdps = self.hypervisor.vpdps();
        let vpdps = vpdps.filter(|vpdp| Some(vpdp.id()) != without);
        let vpdps = vpdps.filter_map(|vpdp| {
            let id = vpdp.id();
            let ports = self.hypervisor.ports(id);
            let own = &ports[..ports.len().min(DEFAULT_CPU as usize)];
            let last = own.iter().rposition(|to| *to != Connection::Open);
            let own = &own[..last.map_or(0, |last| last + 1)];
            let pins = self.hypervisor.pins(id).into_iter();
            Some(HostObject::Vpdp(StoredVpdp {
                id: id.get().into(),
                file: *storage.vpdp_files.get(&id)?,
                name: vpdp.name().to_owned(),
                owner: vpdp.owner().to_owned(),
                quotas: vpdp.quotas().settings(),
                ports: own.iter().map(ToString::to_string).collect(),
                is_suspended: vpdp.is_suspended(),
                pins: pins
                    .map(|(stage, slot)| StoredPin { stage, slot })
                    .collect(),
            }))
        });
        let shares = self.hypervisor.shared();
        let shares = shares.map(|(port, share)| HostObject::Share(port.0, share.to_string()));
        let rules = (0..).zip(self.hypervisor.rules());
        let rules = rules.map(|(number, rule)| HostObject::Rule(number, rule.to_string()));
        let all = vpdps.chain(shares).chain(rules);
        all.map(|object| object.write()).collect()
    }

    /// Returns the notes of an exported vPDP, with its functions.
    pub(super) fn notes_of(&self, state: Option<&ExportedState>) -> Notes {
        let Some(state) = state else {
            return Notes::new();
        };
        let notes = state.objects.iter().filter_map(|object| match object {
            (ObjectPlace::Note(name), Object::Note(bytes)) => Some((name.clone(), bytes.clone())),
            _ => None,
        });
        let bytes = |function: &Function| {
            (!self.is_empty_function(function)).then(|| function_bytes(function))
        };
        let last = state.before.as_ref().and_then(bytes);
        let before = last.map(|last| (FUNCTION.into(), last.into()));
        let before: Notes = before.into_iter().collect();
        with_function(&before, notes.collect(), bytes(&state.function))
    }

    /// Returns true for the function of vPDPs that have none.
    pub(super) fn is_empty_function(&self, function: &Function) -> bool {
        matches!(function, Function::Program(program) if Arc::ptr_eq(program, &self.empty))
    }

    /// Creates the stored vPDPs, with their ports and rules, and stores changes from now on. Must
    /// be called before all changes.
    ///
    /// # Errors
    /// The state is damaged, or does not fit the switch.
    pub fn keep_in(&mut self, stored: StoredHost) -> Result<(), RuntimeError> {
        let mut vpdp_files = BTreeMap::new();
        // Stages without a pin take the first free slots, which must not be those of pinned ones.
        let mut vpdps: Vec<&StoredVpdp> = stored.vpdps().collect();
        vpdps.sort_by_key(|vpdp| vpdp.pins.is_empty());
        for vpdp in vpdps {
            let restored = self.restore_vpdp(&stored, vpdp);
            let id = restored.map_err(|error| RuntimeError::StoredVpdp {
                place: stored.files.place(),
                vpdp: vpdp.name.clone(),
                error,
            })?;
            vpdp_files.insert(id, vpdp.file);
        }
        let wired = self.restore_wiring(&stored);
        wired.map_err(|error| RuntimeError::StoredHost {
            place: stored.files.place(),
            error,
        })?;
        for id in vpdp_files.keys() {
            let connected = self.connect(*id);
            connected.map_err(|error| RuntimeError::StoredHost {
                place: stored.files.place(),
                error: format!("vPDP {id}: {}", error.message),
            })?;
        }
        let files = stored.files;
        let mut next_file = 0;
        for file in files.vpdps().map_err(RuntimeError::State)? {
            next_file = file + 1;
            // The switch was stopped while it created or deleted a vPDP.
            if !vpdp_files.values().any(|used| *used == file) {
                files.remove_vpdp(file).map_err(RuntimeError::State)?;
            }
        }
        let storage = stored.kept.keep().map_err(RuntimeError::State)?;
        self.storage = Some(HostStorage {
            files,
            storage: Box::new(storage),
            notes: stored.notes,
            uncertain: BTreeSet::new(),
            has_failed: false,
            retry_at: Nanos::ZERO,
            vpdp_files,
            unused: Vec::new(),
            next_file,
            cells: stored.cells,
        });
        Ok(())
    }

    fn restore_vpdp(&mut self, stored: &StoredHost, vpdp: &StoredVpdp) -> Result<VpdpId, String> {
        let told = |error: OpenError| error.to_string();
        let id = u16::try_from(vpdp.id).ok().and_then(VpdpId::new);
        let id = id.ok_or_else(|| format!("its number {} is none of a vPDP", vpdp.id))?;
        let kept = KeptState::open_existing(stored.files.vpdp(vpdp.file)).map_err(told)?;
        let objects = kept.objects().map_err(told)?;
        let objects: Vec<(ObjectPlace, Object)> =
            objects.collect::<Result<_, _>>().map_err(told)?;
        let note = |name: &[u8]| {
            let mut objects = objects.iter();
            objects.find_map(|(place, object)| match (place, object) {
                (ObjectPlace::Note(there), Object::Note(bytes)) if **there == *name => Some(bytes),
                _ => None,
            })
        };
        let empty = || Function::Program(Arc::clone(&self.empty));
        let [function, before] = [FUNCTION, BEFORE].map(|name| {
            let bytes = note(name);
            bytes.map(|bytes| read_function(bytes)).transpose()
        });
        let (function, before) = (function?, before?);
        // A vPDP with a function had none at first.
        let before = before.or_else(|| function.is_some().then(empty));
        let quotas = Quotas::read(vpdp.quotas.iter().map(String::as_str));
        let exported = Exported {
            spec: Spec {
                id: Some(id),
                name: vpdp.name.clone(),
                owner: vpdp.owner.clone(),
                ports: vec![Connection::Open; DEFAULT_CPU as usize + 1],
                quotas: quotas.map_err(|error| error.to_string())?,
                ..Spec::default()
            },
            is_suspended: vpdp.is_suspended,
            state: Some(ExportedState {
                function: function.unwrap_or_else(empty),
                before,
                objects,
            }),
        };
        let pins = vpdp.pins.iter();
        self.hypervisor
            .set_pins(id, pins.map(|pin| (pin.stage.clone(), pin.slot)));
        let restored = self.hypervisor.restore(exported);
        restored.map_err(|error| error.to_string())?;
        self.lead_to_controllers(id)
            .map_err(|error| error.message)?;
        let storage = Box::new(kept.keep().map_err(told)?);
        if let Some(device) = self.hypervisor.device_mut(id) {
            device.keep_in(storage, stored.cells, true);
        }
        Ok(id)
    }

    /// Connects the ports of the restored vPDPs, and restores shared ports and rules.
    fn restore_wiring(&mut self, stored: &StoredHost) -> Result<(), String> {
        let number = |word: &str| word.parse().ok().and_then(VpdpId::new);
        let mut wiring = self.hypervisor.wiring();
        for object in &stored.objects {
            match object {
                HostObject::Vpdp(vpdp) => {
                    for (port, text) in (0..).zip(&vpdp.ports) {
                        let to = Connection::read(text, number);
                        let to = to.map_err(|error| error.to_string())?;
                        if !self.has_port(to) {
                            return Err(format!(
                                "port {port} of vPDP `{}` is connected to port {to} of the switch; \
                                 start with this port (--port {to}=INTERFACE), and disconnect it \
                                 there first if it is no longer needed",
                                vpdp.name
                            ));
                        }
                        let vpdp = number(&vpdp.id.to_string()).ok_or("a vPDP has no number")?;
                        let port = VirtualPort { vpdp, port };
                        let connected = wiring.connect(port, to);
                        connected.map_err(|error| error.to_string())?;
                    }
                }
                HostObject::Share(port, text) => {
                    if !self.has_port(Connection::Physical(packet::PortId(*port))) {
                        return Err(format!(
                            "port {port} of the switch is shared; start with this port \
                             (--port {port}=INTERFACE), and unshare it there first if it is no \
                             longer needed"
                        ));
                    }
                    let share = text.parse::<tenancy::Share>();
                    let share = share.map_err(|error| error.to_string())?;
                    wiring.share_as(packet::PortId(*port), share);
                }
                HostObject::Rule(_, text) => {
                    let rule = Rule::read(text, number).map_err(|error| error.to_string())?;
                    let added = wiring.add_rule(rule);
                    added.map_err(|error| error.to_string())?;
                }
            }
        }
        let set = self.hypervisor.set_wiring(wiring);
        set.map_err(|error| error.to_string())
    }
}

//! Changes of a switch with stored state, step by step. A change is made in memory, stored, and
//! answered; if it cannot be stored, it is undone. One change is stored at a time. Controllers do
//! not wait for it, but for that of their own program. What operators are shown may have a change
//! that is being stored.
//!
//! - A new vPDP has its file before the file of the switch names it.
//! - A vPDP is deleted when the file of the switch no longer names it, and its file after that.
//! - A batch that fails may be durable nevertheless. The notes in it are stored again as they are
//!   in memory: at once, with each further change, and each second until that succeeds.
//! - Packets see a new program when the file of its vPDP has it. Requests of the vPDP's controllers
//!   wait until then. Their sessions end only if it is stored, so that writes of them that failed
//!   can be undone.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4rt::{Answer, Code, Notes, TenancyError};
use switch::{Done, MigrationMode, StorageError};
use tenancy::{
    CompilePermit, Connection, Function, NewFunction, ProvisionalUpdate, Quotas, VirtualPort,
    VpdpId, Wiring,
};

use crate::RuntimeError;
use crate::persistence;
use crate::tenancy_host::control_loop::ControlLoop;
use crate::tenancy_host::requests::{Answered, done, refused};
use crate::tenancy_host::stored;

/// Answer to an operator.
type ToOperator = Answer<wire::ChangeResponse>;

/// Step that follows when something is stored, or not.
type NextStep = Box<dyn FnOnce(&mut ControlLoop, Result<(), StorageError>)>;

/// A batch that is being stored.
pub(super) struct Storing {
    stored: Receiver<Result<(), StorageError>>,
    next: NextStep,
}

/// State that a change of an operator may change, as it was before.
struct Before {
    wiring: Wiring,
    vpdp: Option<(VpdpId, Quotas, bool)>,
}

/// Returns the error of a change that is undone because it cannot be stored.
fn not_stored(error: &StorageError) -> TenancyError {
    TenancyError {
        code: match error.is_full {
            true => Code::ResourceExhausted,
            false => Code::Internal,
        },
        message: format!(
            "nothing is changed, because it could not be kept: {}",
            error.message
        ),
    }
}

impl ControlLoop {
    /// Returns true if a change is being stored. No other one may begin then.
    pub(super) fn is_storing(&self) -> bool {
        self.storing.is_some()
    }

    /// Takes the next steps of a change that has been stored.
    pub(super) fn finish_storing(&mut self) {
        while let Some(storing) = self.storing.take() {
            let result = match storing.stored.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return self.storing = Some(storing),
                Err(TryRecvError::Disconnected) => Err(StorageError {
                    is_full: false,
                    message: "what keeps the state has ended".to_owned(),
                }),
            };
            (storing.next)(self, result);
        }
    }

    /// Waits for a batch. Returns the callback for its storage.
    fn wait_for(&mut self, next: NextStep) -> Done {
        let (tell, stored) = channel();
        self.storing = Some(Storing { stored, next });
        let common = Arc::clone(self.common());
        Box::new(move |result| {
            // The control loop may have ended.
            let _ = tell.send(result);
            common.office.wake();
        })
    }

    /// Stores the vPDPs, all but one, the shared ports and the rules, as far as they have changed.
    fn store_host(&mut self, without: Option<VpdpId>, next: NextStep) {
        let Some(mut storage) = self.storage.take() else {
            return next(self, Ok(()));
        };
        let notes = self.host_notes(&storage, without);
        match storage.difference(&notes) {
            None => {
                self.storage = Some(storage);
                next(self, Ok(()));
            }
            Some(batch) => {
                let done = self.wait_for(Box::new(move |this, result| {
                    let now = this.crew.now();
                    if let Some(storage) = &mut this.storage {
                        storage.appended(notes, result.is_ok(), now);
                    }
                    next(this, result);
                }));
                storage.append(batch, done);
                self.storage = Some(storage);
            }
        }
    }

    /// Stores the vPDPs, the shared ports and the rules again if that failed some time ago.
    pub(super) fn retry_storing(&mut self) {
        let now = self.crew.now();
        let must_retry = |storage: &stored::HostStorage| storage.must_retry(now);
        if !self.is_storing() && self.storage.as_ref().is_some_and(must_retry) {
            self.store_host(None, Box::new(|_, _| {}));
        }
    }

    /// Refuses a change that is undone in memory. If it is in the file of the switch nevertheless,
    /// it is undone there before the answer.
    fn refuse_unstored(&mut self, denial: TenancyError, answer: ToOperator) {
        self.store_host(None, Box::new(|_, _| answer.give(Err(denial))));
    }

    /// Stores the changes of a vPDP's device, if its state is kept.
    fn store_device(&mut self, id: VpdpId, next: NextStep) {
        let device = self.hypervisor.vpdp(id).and_then(|vpdp| vpdp.device());
        if device.is_none_or(|device| !device.is_kept()) {
            return next(self, Ok(()));
        }
        let done = self.wait_for(next);
        if let Some(device) = self.hypervisor.device_mut(id) {
            device.commit(done);
        }
    }

    /// Makes a change that neither creates nor deletes a vPDP, and sets no program.
    pub(super) fn change_setting(&mut self, change: Change, answer: ToOperator) {
        let before = self.before(&change);
        let made = self.change_now(change);
        let response = match made {
            Ok(response) => response,
            Err(denial) => return answer.give(Err(denial)),
        };
        self.store_host(
            None,
            Box::new(move |this, result| match result {
                Ok(()) => answer.give(Ok(response)),
                Err(error) => {
                    let stays = this.put_back(before);
                    let mut denial = not_stored(&error);
                    if let Some(stays) = stays {
                        denial.message = format!("{}; {stays}", error.message);
                    }
                    this.refuse_unstored(denial, answer);
                }
            }),
        );
    }

    fn before(&self, change: &Change) -> Before {
        let word = match change {
            Change::Suspend(vpdp) | Change::Resume(vpdp) => Some(vpdp.as_str()),
            Change::SetQuotas(asked) => Some(asked.vpdp.as_str()),
            _ => None,
        };
        let id = word.and_then(|word| self.id(word).ok());
        let vpdp = id.and_then(|id| self.hypervisor.vpdp(id));
        Before {
            wiring: self.hypervisor.wiring(),
            vpdp: vpdp.map(|vpdp| (vpdp.id(), vpdp.quotas().clone(), vpdp.is_suspended())),
        }
    }

    /// Undoes a change. Returns the part that stays, in words.
    fn put_back(&mut self, before: Before) -> Option<String> {
        let connections = |this: &ControlLoop| -> Vec<(VirtualPort, Connection)> {
            let vpdps = this.hypervisor.vpdps().map(tenancy::Vpdp::id);
            let ports = vpdps.flat_map(|vpdp| {
                let ports = (0..).zip(this.hypervisor.ports(vpdp));
                ports.map(move |(port, to)| (VirtualPort { vpdp, port }, *to))
            });
            ports.collect()
        };
        let there = connections(self);
        // It was valid before the change, and the vPDPs are the same.
        let _ = self.hypervisor.set_wiring(before.wiring);
        let back = connections(self);
        let both = there.iter().zip(&back);
        let changed = both.filter(|(one, other)| one != other);
        let changed: Vec<VirtualPort> = changed.map(|((port, _), _)| *port).collect();
        self.rewired(&changed);
        let (id, quotas, is_suspended) = before.vpdp?;
        // Fails if the vPDP holds more by now. Then the next batch stores the new quotas.
        let set = self.hypervisor.set_quotas(id, quotas);
        self.renew_config(id);
        let _ = match is_suspended {
            true => self.hypervisor.suspend(id),
            false => self.hypervisor.resume(id),
        };
        let error = set.err()?;
        Some(format!(
            "the new quotas apply and are stored later, because the vPDP exceeds the former ones \
             by now ({error})"
        ))
    }

    /// Stores a vPDP that was just created, and connects its controllers.
    pub(super) fn begin(&mut self, made: Answered<VpdpId>, answer: ToOperator) {
        let kept = made.and_then(|id| {
            let kept = self.keep_new(id);
            kept.inspect_err(|_| self.remove(id)).map(|()| id)
        });
        let id = match kept {
            Ok(id) => id,
            Err(denial) => return answer.give(Err(denial)),
        };
        let named = move |this: &mut ControlLoop, result: Result<(), StorageError>| {
            let begun = match result {
                Ok(()) => this.connect(id),
                Err(error) => Err(not_stored(&error)),
            };
            let Err(denial) = begun else {
                return answer.give(Ok(done(id)));
            };
            this.remove(id);
            this.refuse_unstored(denial, answer);
        };
        self.store_device(
            id,
            Box::new(move |this, result| match result {
                Ok(()) => this.store_host(None, Box::new(named)),
                Err(_) => named(this, result),
            }),
        );
    }

    /// Lets the state of a new vPDP be stored in a new file.
    fn keep_new(&mut self, id: VpdpId) -> Answered<()> {
        let Some(storage) = &mut self.storage else {
            return Ok(());
        };
        let made = storage.new_file(id).map_err(|error| TenancyError {
            code: Code::Internal,
            message: error.to_string(),
        });
        let (file, cells) = made?;
        if let Some(device) = self.hypervisor.device_mut(id) {
            device.keep_in(file, cells, false);
        }
        Ok(())
    }

    /// Deletes a vPDP.
    pub(super) fn delete(&mut self, vpdp: &str, answer: ToOperator) {
        let found = self.id(vpdp).and_then(|id| {
            self.hypervisor.check_unused(id).map_err(refused)?;
            Ok(id)
        });
        let id = match found {
            Ok(id) => id,
            Err(denial) => return answer.give(Err(denial)),
        };
        self.store_host(
            Some(id),
            Box::new(move |this, result| match result {
                Ok(()) => {
                    this.remove(id);
                    answer.give(Ok(done(id)));
                }
                Err(error) => this.refuse_unstored(not_stored(&error), answer),
            }),
        );
    }

    /// Deletes a vPDP that nothing uses, and its file.
    fn remove(&mut self, id: VpdpId) {
        let device = self.hypervisor.device_mut(id);
        let storage = device.and_then(|device| device.stop_keeping());
        // Nothing uses it: that was checked, or it is new.
        let _ = self.hypervisor.delete(id);
        self.disconnect(id);
        if let Some(host) = &mut self.storage {
            host.remove_file(id, storage);
        }
    }

    /// Installs the device of a compile thread. Packets see it when it is stored.
    pub(super) fn install(
        &mut self,
        made: NewFunction,
        carry: MigrationMode,
        leave: CompilePermit,
        answer: ToOperator,
    ) {
        let id = made.vpdp();
        let has_state = carry != MigrationMode::Nothing;
        let adopted = self.hypervisor.adopt_provisionally(made, carry);
        let update = match adopted {
            Ok(update) => update,
            Err(error) => {
                drop(leave);
                return answer.give(Err(refused(error)));
            }
        };
        // Controllers know another program. Their requests would meet the new one.
        self.held = Some(id);
        let before = self.note_function(id, update.function(), has_state);
        self.store_device(
            id,
            Box::new(move |this, result| {
                drop(leave);
                this.held = None;
                match result {
                    Ok(()) => this.installed(update, answer),
                    Err(error) => this.not_installed(update, before, &error, answer),
                }
            }),
        );
    }

    /// Notes the function of a device, and that it is not set by a controller. Returns the notes
    /// before.
    fn note_function(&mut self, id: VpdpId, function: &Function, has_state: bool) -> Notes {
        let is_empty = self.is_empty_function(function);
        let Some(device) = self.hypervisor.device_mut(id) else {
            return Notes::new();
        };
        if !device.is_kept() {
            p4rt::forget_config(device);
            return Notes::new();
        }
        let before = device.notes().clone();
        let others = match has_state {
            true => before.clone(),
            false => Notes::new(),
        };
        let bytes = (!is_empty).then(|| stored::function_bytes(function));
        p4rt::put_back_notes(device, stored::with_function(&before, others, bytes));
        p4rt::forget_config(device);
        before
    }

    fn installed(&mut self, update: ProvisionalUpdate, answer: ToOperator) {
        let id = update.vpdp();
        let lost = update.migration().lines.iter().filter(|line| line.lost > 0);
        let response = wire::ChangeResponse {
            vpdp: id.get().into(),
            lost: lost.map(ToString::to_string).collect(),
        };
        // Packets of the new program are not for the sessions of the one before.
        self.disconnect(id);
        drop(self.hypervisor.confirm(update));
        self.unpin_nothing(id);
        // Only pins may have changed. If this fails, they are stored with the next change.
        self.store_host(
            None,
            Box::new(move |this, _| answer.give(this.connect(id).map(|()| response))),
        );
    }

    fn not_installed(
        &mut self,
        update: ProvisionalUpdate,
        before: Notes,
        error: &StorageError,
        answer: ToOperator,
    ) {
        let id = update.vpdp();
        self.hypervisor.undo(update);
        if let Some(device) = self.hypervisor.device_mut(id) {
            p4rt::put_back_notes(device, before);
            device.is_undone();
        }
        answer.give(Err(not_stored(error)));
    }

    /// Stores that a stage is in another slot by choice. The program runs there already.
    pub(super) fn store_pins(
        &mut self,
        id: VpdpId,
        before: Vec<(String, u32)>,
        answer: ToOperator,
    ) {
        self.store_host(
            None,
            Box::new(move |this, result| match result {
                Ok(()) => answer.give(Ok(done(id))),
                Err(error) => {
                    this.hypervisor.set_pins(id, before);
                    this.refuse_unstored(not_stored(&error), answer);
                }
            }),
        );
    }

    /// Stores the state of all vPDPs that survives the switch, and waits until it is durable. Must
    /// be called after all workers have ended.
    ///
    /// # Errors
    /// The state of some vPDPs cannot be stored. That of the others is.
    pub fn keep_state(&mut self) -> Result<(), RuntimeError> {
        let now = self.crew.now();
        self.hypervisor.step(now, |_, _, _| {});
        let vpdps = self.hypervisor.vpdps();
        let vpdps: Vec<(VpdpId, String)> = vpdps
            .map(|vpdp| (vpdp.id(), vpdp.name().to_owned()))
            .collect();
        let mut begun = Vec::new();
        for (id, name) in vpdps {
            if let Some(device) = self.hypervisor.device_mut(id)
                && device.is_kept()
            {
                device.keep_cells();
                begun.push((name, persistence::begin_commit(device)));
            }
        }
        let unstored = begun.into_iter().filter_map(|(name, told)| {
            let error = persistence::committed(&told).err()?;
            Some((name, error.to_string()))
        });
        let unstored: Vec<(String, String)> = unstored.collect();
        match unstored.is_empty() {
            true => Ok(()),
            false => Err(RuntimeError::UnstoredVpdps(unstored)),
        }
    }
}

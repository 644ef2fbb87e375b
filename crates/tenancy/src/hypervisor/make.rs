//! Programs and chains of vPDPs: each becomes a device beside the packets' way, on any thread, and then takes its place between two bursts.

use std::sync::Arc;

use exec::Engine;
use ir::Program;
use passes::compose::Joint;
use passes::edit::{self, Edit, EditError};
use passes::slots::SlotError;
use switch::{
    Carry, ControlError, Device, DeviceConfig, LoadError, MayLose, Migration, Object, Place,
};

use super::{Hypervisor, Loaded, Spec, Vpdp, bells, new_seat};
use crate::function::{Composition, Function};
use crate::refusal::Refusal;
use crate::slots::{Pin, SlotBook};
use crate::vpdp::VpdpId;

/// Makes devices for a vPDP: to compose a chain and to make code of it takes time that the control side may not have.
pub struct Maker {
    vpdp: VpdpId,
    birth: u64,
    name: String,
    engine: Arc<dyn Engine>,
    slots: SlotBook,
    config: DeviceConfig,
    /// What ran when this was made, as it was given: changes of stages begin with it.
    given: Option<Arc<Program>>,
}

/// A device for a vPDP, with its places in the slots and all that its program is made of.
pub struct Made {
    vpdp: VpdpId,
    birth: u64,
    device: Device,
    function: Function,
    joints: Vec<Joint>,
    /// The function as one program, before it was fitted.
    given: Arc<Program>,
    /// Of a change of what ran: that, which must run still. It could have been changed otherwise meanwhile.
    of: Option<Arc<Program>>,
}

/// A device that does what a vPDP does already, with a stage in another slot.
pub struct Moved {
    vpdp: VpdpId,
    birth: u64,
    device: Device,
    /// What it does, which must run still.
    of: Arc<Program>,
    pin: Pin,
}

impl Maker {
    /// Makes a device that does this.
    ///
    /// # Errors
    /// The chain does not fit together; the slots do not hold it; the engine does not run it; it does not fit the vPDP's quotas.
    pub fn make(&self, function: impl Into<Function>) -> Result<Made, Refusal> {
        let function = function.into();
        let composed = function.composed(&self.name);
        let Composition { program, joints } =
            composed.map_err(|error| Refusal::Compose(self.vpdp, Box::new(error)))?;
        Ok(Made {
            vpdp: self.vpdp,
            birth: self.birth,
            device: self.device(self.slots.fit(self.vpdp, &program))?,
            function,
            joints,
            given: program,
            of: None,
        })
    }

    /// Makes a device that does what the vPDP does, but for one stage.
    ///
    /// # Errors
    /// The vPDP has no program; the stage cannot be changed so; as of [`Maker::make`].
    pub fn edit(&self, change: &Edit<'_>) -> Result<Made, Refusal> {
        let given = self.given()?;
        let edited = edit::edit(given, change).map_err(|error| self.keeps_stages(error))?;
        Ok(Made {
            of: Some(Arc::clone(given)),
            ..self.make(Arc::new(edited))?
        })
    }

    /// Makes a device that does what the vPDP does, with a stage in this slot, or in any.
    ///
    /// # Errors
    /// The vPDP has no program; there is no such stage; the slot does not hold it.
    pub fn move_to_slot(&self, stage: &str, slot: Option<u32>) -> Result<Moved, Refusal> {
        let given = self.given()?;
        edit::check_stage(given, stage).map_err(|error| self.keeps_stages(error))?;
        let stage = stage.to_owned();
        let pin = Pin { stage, slot };
        let fitted = self.slots.fit_pinned(self.vpdp, given, &pin);
        Ok(Moved {
            vpdp: self.vpdp,
            birth: self.birth,
            device: self.device(fitted)?,
            of: Arc::clone(given),
            pin,
        })
    }

    fn given(&self) -> Result<&Arc<Program>, Refusal> {
        let given = self.given.as_ref();
        given.ok_or(Refusal::NoProgram(self.vpdp))
    }

    fn keeps_stages(&self, error: EditError) -> Refusal {
        Refusal::Edit(self.vpdp, Box::new(error))
    }

    /// A device of a program that was to be fitted to the slots.
    fn device(&self, fitted: Result<Arc<Program>, SlotError>) -> Result<Device, Refusal> {
        let fitted = fitted.map_err(|error| Refusal::Slots(self.vpdp, error))?;
        let made = Device::new(fitted, &*self.engine, &self.config);
        made.map_err(|error| Refusal::load(self.vpdp, &error))
    }
}

impl Made {
    /// The vPDP that it is for.
    pub fn vpdp(&self) -> VpdpId {
        self.vpdp
    }

    /// The program that runs in it: a chain's is all of its steps.
    pub fn program(&self) -> &Arc<Program> {
        self.device.program()
    }

    /// Gives it the state of another one.
    pub(super) fn restore(&mut self, objects: Vec<(Place, Object)>) -> Result<(), ControlError> {
        self.device.restore(objects)
    }
}

impl Moved {
    /// The vPDP that it is for.
    pub fn vpdp(&self) -> VpdpId {
        self.vpdp
    }
}

impl Hypervisor {
    /// What makes devices for a vPDP as its quotas are now.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn maker(&self, id: VpdpId) -> Result<Maker, Refusal> {
        let vpdp = self.find(id)?;
        let loaded = vpdp.loaded.as_ref();
        Ok(Maker {
            vpdp: id,
            birth: vpdp.birth,
            name: vpdp.name.clone(),
            engine: Arc::clone(&self.engine),
            slots: self.slots.clone(),
            config: vpdp.config.clone(),
            given: loaded.map(|loaded| loaded.given_now(id, &self.slots)),
        })
    }

    /// The same for the next vPDP that comes, if it comes with this number.
    pub(super) fn maker_of_next(&self, id: VpdpId, spec: &Spec) -> Maker {
        Maker {
            vpdp: id,
            birth: self.births + 1,
            name: spec.name.clone(),
            engine: Arc::clone(&self.engine),
            slots: self.slots.clone(),
            config: spec.config(),
            given: None,
        }
    }

    /// The vPDP for which something was made, if it is still there.
    fn find_of(&mut self, id: VpdpId, birth: u64) -> Result<&mut Vpdp, Refusal> {
        let vpdp = self.vpdps.get_mut(&id);
        let same = vpdp.filter(|vpdp| vpdp.birth == birth);
        same.ok_or(Refusal::NoSuchVpdp(id))
    }

    /// Whether a vPDP still runs what something was made of.
    fn check_still_runs(&mut self, id: VpdpId, of: &Arc<Program>) -> Result<(), Refusal> {
        match Arc::ptr_eq(&self.loaded_mut(id)?.given, of) {
            true => Ok(()),
            false => Err(Refusal::Changed(id)),
        }
    }

    /// Loads a vPDP's first program or chain.
    ///
    /// # Errors
    /// As of [`Maker::make`] and [`Hypervisor::begin`].
    pub fn load(&mut self, id: VpdpId, function: impl Into<Function>) -> Result<(), Refusal> {
        if self.find(id)?.loaded.is_some() {
            return Err(Refusal::HasProgram(id));
        }
        let made = self.maker(id)?.make(function)?;
        self.begin(made)
    }

    /// Runs what was made for a vPDP that has no program.
    ///
    /// # Errors
    /// It has one, or is no more; a stage was changed of what it had; it does not fit the quotas that the vPDP has by now.
    pub fn begin(&mut self, mut made: Made) -> Result<(), Refusal> {
        let vpdp = self.find_of(made.vpdp, made.birth)?;
        if made.of.is_some() {
            return Err(Refusal::Changed(made.vpdp));
        }
        if vpdp.loaded.is_some() {
            return Err(Refusal::HasProgram(made.vpdp));
        }
        let limited = made.device.set_limits(vpdp.config.limits);
        limited.map_err(|error| Refusal::load(made.vpdp, &LoadError::Exceeded(error)))?;
        self.seat(made, None)
    }

    /// Gives a vPDP a device, with a seat on each worker.
    pub(super) fn seat(&mut self, made: Made, before: Option<Function>) -> Result<(), Refusal> {
        self.serials += 1;
        let serial = self.serials;
        let Made {
            vpdp: id,
            mut device,
            function,
            joints,
            given,
            ..
        } = made;
        device.step(self.now);
        let mark = self.find_mut(id)?.slot.mark();
        let workers = device.workers_with(bells(&self.desks), mark);
        let program = Arc::clone(device.program());
        self.slots.settle(id, &program);
        let vpdp = self.find_mut(id)?;
        vpdp.loaded = Some(Loaded {
            program,
            device: Box::new(device),
            serial,
            seats: workers.len(),
            function,
            joints,
            given,
            before,
        });
        let slot = vpdp.slot;
        let seats = workers.into_iter().zip(&self.desks);
        let seats = seats.map(|(worker, desk)| vec![new_seat(slot, serial, worker, desk)]);
        self.publish(seats.collect());
        Ok(())
    }

    /// Runs another program or chain in place of a vPDP's.
    ///
    /// # Errors
    /// As of [`Maker::make`] and [`Hypervisor::adopt`].
    pub fn update(
        &mut self,
        id: VpdpId,
        function: impl Into<Function>,
        carry: Carry,
    ) -> Result<Migration, Refusal> {
        self.loaded_mut(id)?;
        let made = self.maker(id)?.make(function)?;
        self.adopt(made, carry)
    }

    /// Runs what was made in place of a vPDP's program; packets inside finish on the old one. What becomes of the state is as docs/MIGRATION.md tells.
    ///
    /// # Errors
    /// It has none, or is no more; a stage was changed of what runs no more; the new one does not fit the quotas that the vPDP has by now, or would lose state that it may not.
    pub fn adopt(&mut self, made: Made, carry: Carry) -> Result<Migration, Refusal> {
        let id = self.find_of(made.vpdp, made.birth)?.id;
        self.catch_up(id)?;
        if let Some(of) = &made.of {
            self.check_still_runs(id, of)?;
        }
        let migration = self.replace(id, made.device, carry)?;
        let loaded = self.loaded_mut(id)?;
        loaded.joints = made.joints;
        loaded.given = made.given;
        loaded.before = Some(std::mem::replace(&mut loaded.function, made.function));
        self.admit_programmed();
        Ok(migration)
    }

    /// Runs what was made with a stage in another slot, where it is from now on, in whatever program of the vPDP. What it does, and did before, stays.
    ///
    /// # Errors
    /// It runs something else by now, or is no more; the quotas that it has by now do not allow it.
    pub fn adopt_moved(&mut self, moved: Moved) -> Result<Migration, Refusal> {
        let id = self.find_of(moved.vpdp, moved.birth)?.id;
        self.catch_up(id)?;
        self.check_still_runs(id, &moved.of)?;
        let migration = self.replace(id, moved.device, Carry::State(MayLose::Nothing))?;
        self.slots.pin(id, &moved.pin);
        Ok(migration)
    }

    fn catch_up(&mut self, id: VpdpId) -> Result<(), Refusal> {
        let slots = self.slots.clone();
        self.loaded_mut(id)?.catch_up(id, &slots);
        Ok(())
    }

    /// Has a vPDP's device run the program of another one.
    fn replace(&mut self, id: VpdpId, new: Device, carry: Carry) -> Result<Migration, Refusal> {
        let loaded = self.loaded_mut(id)?;
        let adopted = loaded.device.adopt(new, carry);
        let migration = adopted.map_err(|error| Refusal::Update(id, error))?;
        loaded.device.publish();
        loaded.program = Arc::clone(loaded.device.program());
        let running = Arc::clone(&loaded.program);
        self.slots.settle(id, &running);
        Ok(migration)
    }

    /// Goes back to the program or chain before the last update, with what of the state has a place there.
    ///
    /// # Errors
    /// There was none.
    pub fn roll_back(&mut self, id: VpdpId) -> Result<Migration, Refusal> {
        let before = self.before(id)?;
        self.update(id, before, Carry::State(MayLose::Anything))
    }

    /// What a vPDP did before its last update.
    ///
    /// # Errors
    /// It did nothing before.
    pub fn before(&self, id: VpdpId) -> Result<Function, Refusal> {
        let loaded = self.find(id)?.loaded.as_ref();
        let loaded = loaded.ok_or(Refusal::NoProgram(id))?;
        let (_, before) = loaded.functions(id, &self.slots);
        before.ok_or(Refusal::NothingBefore(id))
    }
}

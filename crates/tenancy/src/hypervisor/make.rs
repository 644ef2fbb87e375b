//! Loading of programs and chains. A device is built on any thread, off the packet path, and then
//! installed between two bursts.

use std::sync::Arc;

use exec::Engine;
use ir::Program;
use passes::compose::Joint;
use passes::edit::{self, Edit, EditError};
use passes::slots::SlotError;
use switch::{
    ControlCode, ControlError, Device, DeviceConfig, LoadError, MayLose, Migration, MigrationMode,
    Object, ObjectPlace,
};

use super::{Loaded, Spec, TenantSwitch, Vpdp, bells, new_seat};
use crate::error::HypervisorError;
use crate::function::{Composition, Function};
use crate::slots::{Pin, SlotBook};
use crate::vpdp::VpdpId;

/// Builds devices for a vPDP. Composing a chain and generating code take time that the control
/// side may not have.
pub struct Maker {
    vpdp: VpdpId,
    birth: u64,
    name: String,
    engine: Arc<dyn Engine>,
    slots: SlotBook,
    config: DeviceConfig,
    /// The running program before fitting, when this was created: the basis for edits of stages.
    given: Option<Arc<Program>>,
}

/// A built device for a vPDP, with its places in the stage slots and the sources of its program.
pub struct NewFunction {
    vpdp: VpdpId,
    birth: u64,
    device: Device,
    function: Function,
    joints: Vec<Joint>,
    /// The function as one program, before fitting.
    given: Arc<Program>,
    /// For an edit: the program that was edited. It must still be running at installation.
    of: Option<Arc<Program>>,
}

/// A built device with the running program of a vPDP, and a stage moved to another slot.
pub struct MovedVpdp {
    vpdp: VpdpId,
    birth: u64,
    device: Device,
    /// The program that was moved. It must still be running at installation.
    of: Arc<Program>,
    pin: Pin,
}

impl Maker {
    /// Builds a device for this function.
    ///
    /// # Errors
    /// The chain cannot be composed, the stage slots do not hold the program, the engine cannot
    /// run it, or it exceeds the quotas.
    pub fn make(&self, function: impl Into<Function>) -> Result<NewFunction, HypervisorError> {
        let function = function.into();
        let composed = function.composed(&self.name);
        let Composition { program, joints } =
            composed.map_err(|error| HypervisorError::Compose(self.vpdp, Box::new(error)))?;
        Ok(NewFunction {
            vpdp: self.vpdp,
            birth: self.birth,
            device: self.device(self.slots.fit(self.vpdp, &program))?,
            function,
            joints,
            given: program,
            of: None,
        })
    }

    /// Builds a device for the running program with one stage changed.
    ///
    /// # Errors
    /// The vPDP has no program, or the edit is invalid; otherwise as for [`Maker::make`].
    pub fn edit(&self, change: &Edit<'_>) -> Result<NewFunction, HypervisorError> {
        let given = self.given()?;
        let edited = edit::edit(given, change).map_err(|error| self.keeps_stages(error))?;
        Ok(NewFunction {
            of: Some(Arc::clone(given)),
            ..self.make(Arc::new(edited))?
        })
    }

    /// Builds a device for the running program with a stage in this slot, or in any.
    ///
    /// # Errors
    /// The vPDP has no program, there is no such stage, or the slot does not hold it.
    pub fn move_to_slot(
        &self,
        stage: &str,
        slot: Option<u32>,
    ) -> Result<MovedVpdp, HypervisorError> {
        let given = self.given()?;
        edit::check_stage(given, stage).map_err(|error| self.keeps_stages(error))?;
        let stage = stage.to_owned();
        let pin = Pin { stage, slot };
        let fitted = self.slots.fit_pinned(self.vpdp, given, &pin);
        Ok(MovedVpdp {
            vpdp: self.vpdp,
            birth: self.birth,
            device: self.device(fitted)?,
            of: Arc::clone(given),
            pin,
        })
    }

    fn given(&self) -> Result<&Arc<Program>, HypervisorError> {
        let given = self.given.as_ref();
        given.ok_or(HypervisorError::NoProgram(self.vpdp))
    }

    fn keeps_stages(&self, error: EditError) -> HypervisorError {
        HypervisorError::Edit(self.vpdp, Box::new(error))
    }

    /// Builds the device of a fitted program.
    fn device(&self, fitted: Result<Arc<Program>, SlotError>) -> Result<Device, HypervisorError> {
        let fitted = fitted.map_err(|error| HypervisorError::Slots(self.vpdp, error))?;
        let made = Device::new(fitted, &*self.engine, &self.config);
        made.map_err(|error| HypervisorError::load(self.vpdp, &error))
    }
}

impl NewFunction {
    /// Returns the vPDP that it is for.
    pub fn vpdp(&self) -> VpdpId {
        self.vpdp
    }

    /// Returns its sources.
    pub(super) fn function(&self) -> &Function {
        &self.function
    }

    /// Returns its fitted program; for a chain, the composed one.
    pub fn program(&self) -> &Arc<Program> {
        self.device.program()
    }

    pub(super) fn device_mut(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Restores exported state.
    pub(super) fn restore(
        &mut self,
        objects: Vec<(ObjectPlace, Object)>,
    ) -> Result<(), ControlError> {
        let program = objects.iter().find_map(|(_, object)| match object {
            Object::Program(program) => Some(program),
            _ => None,
        });
        if let Some(program) = program
            && !has_objects_of(self.program(), program)
        {
            return Err(ControlError {
                code: ControlCode::InvalidArgument,
                message: "its state is that of a program with other tables and objects; another \
                          release has composed it"
                    .to_owned(),
                existing: None,
            });
        }
        self.device.restore(objects)
    }
}

/// Returns true if two programs have the same objects with state, under the same numbers.
fn has_objects_of(one: &Program, other: &Program) -> bool {
    let tables = |program: &Program| -> Vec<String> {
        let tables = program.tables.iter();
        tables.map(|(_, table)| table.name.clone()).collect()
    };
    let externs = |program: &Program| -> Vec<String> {
        let externs = program.externs.iter();
        externs.map(|(_, one)| one.name.clone()).collect()
    };
    tables(one) == tables(other) && externs(one) == externs(other)
}

impl MovedVpdp {
    /// Returns the vPDP that it is for.
    pub fn vpdp(&self) -> VpdpId {
        self.vpdp
    }
}

impl TenantSwitch {
    /// Returns a builder of devices for a vPDP, with its current quotas.
    ///
    /// # Errors
    /// The vPDP does not exist.
    pub fn maker(&self, id: VpdpId) -> Result<Maker, HypervisorError> {
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

    /// Returns a builder for the next vPDP, which will have this number.
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

    /// Returns the vPDP that a device was built for, if it still exists.
    fn find_of(&mut self, id: VpdpId, birth: u64) -> Result<&mut Vpdp, HypervisorError> {
        let vpdp = self.vpdps.get_mut(&id);
        let same = vpdp.filter(|vpdp| vpdp.birth == birth);
        same.ok_or(HypervisorError::NoSuchVpdp(id))
    }

    /// Checks that a vPDP still runs the program that a device was derived from.
    fn check_still_runs(&mut self, id: VpdpId, of: &Arc<Program>) -> Result<(), HypervisorError> {
        match Arc::ptr_eq(&self.loaded_mut(id)?.given, of) {
            true => Ok(()),
            false => Err(HypervisorError::Changed(id)),
        }
    }

    /// Loads a vPDP's first program or chain.
    ///
    /// # Errors
    /// As for [`Maker::make`] and [`TenantSwitch::begin`].
    pub fn load(
        &mut self,
        id: VpdpId,
        function: impl Into<Function>,
    ) -> Result<(), HypervisorError> {
        if self.find(id)?.loaded.is_some() {
            return Err(HypervisorError::HasProgram(id));
        }
        let made = self.maker(id)?.make(function)?;
        self.begin(made)
    }

    /// Installs a built device in a vPDP without a program.
    ///
    /// # Errors
    /// The vPDP has a program or no longer exists. The device is an edit of an earlier program, or
    /// exceeds the vPDP's current quotas.
    pub fn begin(&mut self, mut made: NewFunction) -> Result<(), HypervisorError> {
        let vpdp = self.find_of(made.vpdp, made.birth)?;
        if made.of.is_some() {
            return Err(HypervisorError::Changed(made.vpdp));
        }
        if vpdp.loaded.is_some() {
            return Err(HypervisorError::HasProgram(made.vpdp));
        }
        let limited = made.device.set_limits(vpdp.config.limits);
        limited.map_err(|error| HypervisorError::load(made.vpdp, &LoadError::Exceeded(error)))?;
        self.seat(made, None)
    }

    /// Installs a device, with a per-thread state for each worker.
    pub(super) fn seat(
        &mut self,
        made: NewFunction,
        before: Option<Function>,
    ) -> Result<(), HypervisorError> {
        self.serials += 1;
        let serial = self.serials;
        let NewFunction {
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

    /// Replaces a vPDP's program or chain.
    ///
    /// # Errors
    /// As for [`Maker::make`] and [`TenantSwitch::adopt`].
    pub fn update(
        &mut self,
        id: VpdpId,
        function: impl Into<Function>,
        carry: MigrationMode,
    ) -> Result<Migration, HypervisorError> {
        self.loaded_mut(id)?;
        let made = self.maker(id)?.make(function)?;
        self.adopt(made, carry)
    }

    /// Replaces a vPDP's program by a built one; packets in flight finish on the old one.
    /// docs/reference/program-change.md describes what happens to the state.
    ///
    /// # Errors
    /// The vPDP has no program or no longer exists, or the edited program is no longer running.
    /// The new program exceeds the current quotas, or loses state that must be kept.
    pub fn adopt(
        &mut self,
        made: NewFunction,
        carry: MigrationMode,
    ) -> Result<Migration, HypervisorError> {
        let update = self.adopt_provisionally(made, carry)?;
        let migration = update.migration().clone();
        self.confirm(update);
        Ok(migration)
    }

    /// Checks that a built device may be installed.
    pub(super) fn check_adoptable(&mut self, made: &NewFunction) -> Result<(), HypervisorError> {
        let id = self.find_of(made.vpdp, made.birth)?.id;
        self.catch_up(id)?;
        match &made.of {
            Some(of) => self.check_still_runs(id, of),
            None => Ok(()),
        }
    }

    /// Records the sources of the program that a vPDP's device runs now. Returns the device that
    /// was built, which has the program before.
    pub(super) fn installed(&mut self, made: NewFunction) -> Device {
        let id = made.vpdp;
        if let Ok(loaded) = self.loaded_mut(id) {
            loaded.program = Arc::clone(loaded.device.program());
            loaded.joints = made.joints;
            loaded.given = made.given;
            loaded.before = Some(std::mem::replace(&mut loaded.function, made.function));
            let running = Arc::clone(&loaded.program);
            self.slots.settle(id, &running);
        }
        made.device
    }

    /// Installs a device with a moved stage. The stage stays in this slot in all later programs of
    /// the vPDP. Its current and previous functions do not change.
    ///
    /// # Errors
    /// The vPDP runs another program or no longer exists, or its current quotas do not allow it.
    pub fn adopt_moved(&mut self, moved: MovedVpdp) -> Result<Migration, HypervisorError> {
        let id = self.find_of(moved.vpdp, moved.birth)?.id;
        self.catch_up(id)?;
        self.check_still_runs(id, &moved.of)?;
        let migration = self.replace(id, moved.device, MigrationMode::State(MayLose::Nothing))?;
        self.slots.pin(id, &moved.pin);
        Ok(migration)
    }

    fn catch_up(&mut self, id: VpdpId) -> Result<(), HypervisorError> {
        let slots = self.slots.clone();
        self.loaded_mut(id)?.catch_up(id, &slots);
        Ok(())
    }

    /// Replaces the program of a vPDP's device by that of another device.
    fn replace(
        &mut self,
        id: VpdpId,
        new: Device,
        carry: MigrationMode,
    ) -> Result<Migration, HypervisorError> {
        let loaded = self.loaded_mut(id)?;
        let adopted = loaded.device.adopt(new, carry);
        let migration = adopted.map_err(|error| HypervisorError::Update(id, error))?;
        loaded.device.publish();
        loaded.program = Arc::clone(loaded.device.program());
        let running = Arc::clone(&loaded.program);
        self.slots.settle(id, &running);
        Ok(migration)
    }

    /// Goes back to the program or chain before the last update. State without a place there is
    /// lost.
    ///
    /// # Errors
    /// There was none.
    pub fn roll_back(&mut self, id: VpdpId) -> Result<Migration, HypervisorError> {
        let before = self.before(id)?;
        self.update(id, before, MigrationMode::State(MayLose::Anything))
    }

    /// Returns the function of a vPDP before its last update.
    ///
    /// # Errors
    /// There was none.
    pub fn before(&self, id: VpdpId) -> Result<Function, HypervisorError> {
        let loaded = self.find(id)?.loaded.as_ref();
        let loaded = loaded.ok_or(HypervisorError::NoProgram(id))?;
        let (_, before) = loaded.functions(id, &self.slots);
        before.ok_or(HypervisorError::NothingBefore(id))
    }
}

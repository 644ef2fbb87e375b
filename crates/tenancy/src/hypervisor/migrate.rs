//! Migration of a vPDP to another switch: export and import of its configuration and state.

use switch::{Object, ObjectPlace};

use super::{NewFunction, Spec, TenantSwitch};
use crate::error::HypervisorError;
use crate::function::Function;
use crate::vpdp::{Connection, VpdpId};

/// Exported vPDP.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Configuration; all ports are unconnected. Without an `id`, the importing switch picks a
    /// number.
    pub spec: Spec,
    /// True if it is suspended.
    pub is_suspended: bool,
    /// Its program and state.
    pub state: Option<ExportedState>,
}

/// Exported program and state.
#[derive(Clone, Debug)]
pub struct ExportedState {
    /// The program or chain.
    pub function: Function,
    /// The previous function.
    pub before: Option<Function>,
    /// The state, by object.
    pub objects: Vec<(ObjectPlace, Object)>,
}

impl TenantSwitch {
    /// Returns a vPDP's configuration and state. It keeps running here.
    ///
    /// # Errors
    /// The vPDP does not exist.
    pub fn export(&self, id: VpdpId) -> Result<Exported, HypervisorError> {
        let vpdp = self.find(id)?;
        let state = vpdp.loaded.as_ref().map(|loaded| {
            let (function, before) = loaded.functions(id, &self.slots);
            ExportedState {
                function,
                before,
                objects: loaded.device.objects(),
            }
        });
        Ok(Exported {
            spec: Spec {
                id: Some(id),
                name: vpdp.name.clone(),
                owner: vpdp.owner.clone(),
                ports: vec![Connection::Open; self.ports(id).len()],
                quotas: vpdp.quotas.clone(),
                device: vpdp.config.clone(),
            },
            is_suspended: vpdp.is_suspended,
            state,
        })
    }

    /// Creates a vPDP from an export, with its state.
    ///
    /// # Errors
    /// As for [`TenantSwitch::create`] and [`TenantSwitch::load`].
    pub fn import(&mut self, exported: Exported) -> Result<VpdpId, HypervisorError> {
        let compile = exported.spec.quotas.compile;
        self.import_within(exported, |make| {
            compile.run(make).map_err(HypervisorError::Compile)?
        })
    }

    /// Creates a vPDP from the state that this switch had stored. The quota of compilations does
    /// not apply. Its stages get the slots that were set for it before.
    ///
    /// # Errors
    /// As for [`TenantSwitch::import`].
    pub fn restore(&mut self, stored: Exported) -> Result<VpdpId, HypervisorError> {
        self.import_within(stored, |make| make())
    }

    fn import_within(
        &mut self,
        exported: Exported,
        bounded: impl FnOnce(
            &mut dyn FnMut() -> Result<NewFunction, HypervisorError>,
        ) -> Result<NewFunction, HypervisorError>,
    ) -> Result<VpdpId, HypervisorError> {
        let Exported {
            mut spec,
            is_suspended,
            state,
        } = exported;
        let id = self.free_number(spec.id)?;
        spec.id = Some(id);
        // All steps that can fail come before the first change, or are that change.
        let restored = match state {
            Some(state) => {
                let maker = self.maker_of_next(id, &spec);
                let ExportedState {
                    function,
                    before,
                    mut objects,
                } = state;
                let made = bounded(&mut || {
                    let mut made = maker.make(function.clone())?;
                    let restored = made.restore(std::mem::take(&mut objects));
                    restored.map_err(HypervisorError::Import)?;
                    Ok(made)
                });
                Some((made?, before))
            }
            None => None,
        };
        self.create(spec)?;
        if is_suspended {
            self.suspend(id)?;
        }
        if let Some((made, before)) = restored {
            self.seat(made, before)?;
        }
        Ok(id)
    }
}

//! A vPDP moves to another switch: all of its own is a value that one exports and the other imports.

use switch::{Object, Place};

use super::{Hypervisor, Spec};
use crate::function::Function;
use crate::refusal::Refusal;
use crate::vpdp::{Connection, VpdpId};

/// All of a vPDP's own, to be taken to another switch.
#[derive(Clone, Debug)]
pub struct Exported {
    /// What it is made of; its number is a wish no more, and its ports are open.
    pub spec: Spec,
    /// Whether it takes no packets for now.
    pub is_suspended: bool,
    /// Its program and state.
    pub state: Option<ExportedState>,
}

/// A program and its state.
#[derive(Clone, Debug)]
pub struct ExportedState {
    /// The program or chain.
    pub function: Function,
    /// What it was before.
    pub before: Option<Function>,
    /// Its state, object by object.
    pub objects: Vec<(Place, Object)>,
}

impl Hypervisor {
    /// All that is a vPDP's own. It goes on here.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn export(&self, id: VpdpId) -> Result<Exported, Refusal> {
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

    /// Makes a vPDP of what was exported, with its state.
    ///
    /// # Errors
    /// As of [`Hypervisor::create`] and [`Hypervisor::load`].
    pub fn import(&mut self, exported: Exported) -> Result<VpdpId, Refusal> {
        let Exported {
            mut spec,
            is_suspended,
            state,
        } = exported;
        let id = self.free_number(spec.id)?;
        spec.id = Some(id);
        // All that may be refused comes before the first change, or is refused by it.
        let restored = match state {
            Some(state) => {
                let maker = self.maker_of_next(id, &spec);
                let made = spec.quotas.compile.run(|| {
                    let mut made = maker.make(state.function)?;
                    made.restore(state.objects).map_err(Refusal::Import)?;
                    Ok::<_, Refusal>(made)
                });
                Some((made.map_err(Refusal::Compile)??, state.before))
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

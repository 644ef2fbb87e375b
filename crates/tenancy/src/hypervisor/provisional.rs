//! Updates of a vPDP with kept state. Packets see the new program only when it is stored.

use switch::{Device, Exchange, Migration, MigrationMode};

use super::{NewFunction, TenantSwitch};
use crate::error::HypervisorError;
use crate::function::Function;
use crate::vpdp::VpdpId;

/// An update of a vPDP that packets do not see yet. It must be confirmed or undone.
pub struct ProvisionalUpdate {
    made: NewFunction,
    exchange: Exchange,
}

impl ProvisionalUpdate {
    /// Returns the vPDP.
    pub fn vpdp(&self) -> VpdpId {
        self.made.vpdp()
    }

    /// Returns the program or chain.
    pub fn function(&self) -> &Function {
        self.made.function()
    }

    /// Returns the report of what became of the state.
    pub fn migration(&self) -> &Migration {
        &self.exchange.migration
    }
}

impl TenantSwitch {
    /// Replaces a vPDP's program or chain as [`TenantSwitch::adopt`] does. If the state of its
    /// device is kept, packets see the old program until [`TenantSwitch::confirm`].
    ///
    /// # Errors
    /// As for [`TenantSwitch::adopt`].
    pub fn adopt_provisionally(
        &mut self,
        mut made: NewFunction,
        carry: MigrationMode,
    ) -> Result<ProvisionalUpdate, HypervisorError> {
        self.check_adoptable(&made)?;
        let id = made.vpdp();
        let loaded = self.loaded_mut(id)?;
        let exchanged = loaded.device.exchange(made.device_mut(), carry);
        let exchange = exchanged.map_err(|error| HypervisorError::Update(id, error))?;
        Ok(ProvisionalUpdate { made, exchange })
    }

    /// Publishes a provisional update. Returns the replaced device, of which the memory may take
    /// time to free.
    pub fn confirm(&mut self, update: ProvisionalUpdate) -> Option<Device> {
        let id = update.vpdp();
        let loaded = self.loaded_mut(id).ok()?;
        loaded.device.stay();
        let old = self.installed(update.made);
        self.admit_programmed();
        Some(old)
    }

    /// Undoes a provisional update. The vPDP goes on with its program and state before.
    pub fn undo(&mut self, update: ProvisionalUpdate) {
        let ProvisionalUpdate { mut made, exchange } = update;
        if let Ok(loaded) = self.loaded_mut(made.vpdp()) {
            loaded.device.go_back(made.device_mut(), exchange);
            loaded.device.publish();
        }
    }
}

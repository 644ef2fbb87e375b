//! Settings of a plane: written to the store, and taken from it.

use std::fmt;

use consensus::Operation;
use packet::Nanos;

use super::ReflexPlane;
use crate::detour_check::DetourCheck;
use crate::settings::{PlaneSetting, SettingError, SettingTarget};
use crate::store::{RequestId, StoreRefusal};

/// Error of a request to set something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such setting, or no such value of it.
    Setting(SettingError),
    /// The store takes no request now.
    Store(StoreRefusal),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Setting(error) => error.fmt(f),
            SetError::Store(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}

impl ReflexPlane {
    /// Requests another value of a setting at the store; without a value it gets that of the file.
    /// [`ReflexPlane::next_answer`] has the answer. The planes of all nodes have it a heartbeat
    /// after their node applied it.
    ///
    /// # Errors
    /// There is no such setting or value, or the store takes no request now. There was no effect.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<RequestId, SetError> {
        let encoded = self.settings.encode(name, value);
        let (key, value) = encoded.map_err(SetError::Setting)?;
        let operation = match value {
            Some(value) => Operation::Put(key, value),
            None => Operation::Delete(key),
        };
        self.store.request(operation).map_err(SetError::Store)
    }

    /// Returns all settings.
    pub fn settings(&self) -> impl Iterator<Item = PlaneSetting> + '_ {
        self.settings.all()
    }

    /// Takes the settings that changed in the store.
    pub(super) fn look_at_settings(&mut self, now: Nanos) {
        let (store, monitors) = (&self.store, &mut self.monitors);
        let (permissions, routes) = (&mut self.permissions, &mut self.routes);
        let read = |key: &_| store.local_value(key);
        let mut is_rerouted = false;
        self.settings
            .look(now, store.heartbeat(), read, |target, value| match target {
                SettingTarget::Monitor(at, threshold) => {
                    monitors[at.0].instances.set(threshold, value);
                }
                SettingTarget::Instances(at) => {
                    let count = usize::try_from(value).unwrap_or(usize::MAX);
                    monitors[at.0].instances.grow(count);
                }
                SettingTarget::Reflex(at, limit) => permissions[at.0].set(limit, value),
                SettingTarget::Link(link) => {
                    if let Some(routes) = routes {
                        is_rerouted = true;
                        match value {
                            0 => routes.down.insert(link),
                            _ => routes.down.remove(&link),
                        };
                    }
                }
            });
        if let Some(routes) = routes
            && is_rerouted
        {
            routes.check = DetourCheck::without(&routes.topology, &routes.down);
        }
    }
}

//! Ports of a device that is observed. They come and go while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::PortId;

struct KnownPort {
    name: Arc<str>,
    /// False for a port that was removed. Frames of it may still be inside.
    is_present: bool,
}

/// Ports of a device with the names of their interfaces.
#[derive(Default)]
pub struct ObservedPorts(Mutex<BTreeMap<PortId, KnownPort>>);

impl ObservedPorts {
    /// Returns a list of these ports.
    pub(crate) fn new(ports: &[(PortId, String)]) -> ObservedPorts {
        let all = ObservedPorts::default();
        for (port, name) in ports {
            all.add(*port, name);
        }
        all
    }

    /// Adds a port, before it can have frames.
    pub(crate) fn add(&self, port: PortId, name: &str) {
        let known = KnownPort {
            name: name.into(),
            is_present: true,
        };
        self.lock().insert(port, known);
    }

    pub(crate) fn remove(&self, port: PortId) {
        if let Some(known) = self.lock().get_mut(&port) {
            known.is_present = false;
        }
    }

    /// Returns true if the device has the port.
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.lock().get(&port).is_some_and(|known| known.is_present)
    }

    /// Returns the name of the port's interface, also of a port that was removed. Empty if it is
    /// not known.
    pub fn name(&self, port: PortId) -> Arc<str> {
        let all = self.lock();
        all.get(&port)
            .map_or_else(Arc::default, |known| Arc::clone(&known.name))
    }

    /// Returns the ports that the device has, with the names of their interfaces.
    pub fn all(&self) -> Vec<(PortId, Arc<str>)> {
        let all = self.lock();
        let present = all.iter().filter(|(_, known)| known.is_present);
        present
            .map(|(port, known)| (*port, Arc::clone(&known.name)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PortId, KnownPort>> {
        // A change concerns one port.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_port_keeps_its_name_until_it_is_added_again() {
        let ports = ObservedPorts::new(&[(PortId(1), "eth1".to_owned())]);
        ports.remove(PortId(1));
        assert!(!ports.has(PortId(1)) && ports.all().is_empty());
        assert_eq!(&*ports.name(PortId(1)), "eth1");
        ports.add(PortId(1), "eth5");
        assert!(ports.has(PortId(1)));
        assert_eq!(ports.all(), [(PortId(1), "eth5".into())]);
        assert_eq!(&*ports.name(PortId(2)), "");
    }
}

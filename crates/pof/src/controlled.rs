//! A switch as its controllers share it: the forwarder, the ports, and the roles.

use std::collections::{BTreeMap, BTreeSet};

use exec::DropReason;

use crate::forwarder::{Event, Forwarder, packet_in};
use crate::model::ObjectName;
use crate::wire::{ErrorCode, Port, PortStats, PortStatus};

/// Bits of a port's configuration ([`Port::config`]).
mod config {
    /// The port is switched off.
    pub(super) const DOWN: u32 = 1;
    /// Packets that come in are dropped.
    pub(super) const NO_RECEIVE: u32 = 1 << 2;
    /// Packets that would leave are dropped.
    pub(super) const NO_FORWARD: u32 = 1 << 5;
    /// The port's packets do not go to controllers.
    pub(super) const NO_PACKET_IN: u32 = 1 << 6;
    /// All bits that this switch knows.
    pub(super) const ALL: u32 = DOWN | NO_RECEIVE | NO_FORWARD | NO_PACKET_IN;
}

/// Bits of a port's state ([`Port::state`]).
mod state {
    /// There is no link.
    pub(super) const LINK_DOWN: u32 = 1;
    /// Fast failover may use the port.
    pub(super) const LIVE: u32 = 1 << 2;
}

/// Reason of PORT_STATUS: a port was changed.
const MODIFIED: u8 = 2;

/// Returns the description of a port with this number and name, up and enabled.
pub fn port(device: u32, id: u16, name: &str) -> Port {
    Port {
        slot: 0,
        id,
        device,
        address: [0x02, 0, 0, 0, (id >> 8) as u8, id as u8],
        name: ObjectName::new(name),
        config: 0,
        state: state::LIVE,
        current: 0,
        advertised: 0,
        supported: 0,
        peer: 0,
        current_speed: 0,
        maximum_speed: 0,
        is_enabled: true,
    }
}

/// Number of a session with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// Roles of the controllers, as far as they depend on each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    /// The session that is master, if any. Another one that was is a slave now.
    pub(crate) master: Option<SessionId>,
    /// Number of the last change.
    pub(crate) generation: Option<u64>,
}

/// A switch with its ports, shared by all sessions with its controllers.
pub struct ControlledSwitch {
    /// Tables and packets.
    pub forwarder: Forwarder,
    device: u32,
    ports: BTreeMap<u16, Port>,
    counts: Vec<PortStats>,
    portless: u64,
    pub(crate) roles: Roles,
    events: Vec<Event>,
    /// Ports that a PORT_MOD has changed.
    changed_ports: BTreeSet<u16>,
}

impl ControlledSwitch {
    /// Creates a switch with this number and these ports.
    ///
    /// # Errors
    /// The device has no room for the ports.
    pub fn new(
        forwarder: Forwarder,
        device: u32,
        ports: Vec<Port>,
    ) -> Result<ControlledSwitch, ErrorCode> {
        let mut switch = ControlledSwitch {
            forwarder,
            device,
            ports: ports.into_iter().map(|port| (port.id, port)).collect(),
            counts: Vec::new(),
            portless: 0,
            roles: Roles::default(),
            events: Vec::new(),
            changed_ports: BTreeSet::new(),
        };
        switch.renew_ports()?;
        Ok(switch)
    }

    /// Returns its number.
    pub fn device(&self) -> u32 {
        self.device
    }

    /// Returns its ports, by number.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = &Port> {
        self.ports.values()
    }

    /// Returns true if packets that come in at a port are forwarded.
    pub fn receives(&self, port: u16) -> bool {
        let is_on = |port: &Port| port.config & (config::DOWN | config::NO_RECEIVE) == 0;
        self.ports
            .get(&port)
            .is_some_and(|port| is_on(port) && port.is_enabled)
    }

    /// Returns true if packets leave by a port.
    pub fn sends(&self, port: u16) -> bool {
        let is_on = |port: &Port| port.config & (config::DOWN | config::NO_FORWARD) == 0;
        self.ports.get(&port).is_some_and(is_on)
    }

    fn may_report(&self, port: u16) -> bool {
        let is_quiet = |port: &Port| port.config & config::NO_PACKET_IN != 0;
        !self.ports.get(&port).is_some_and(is_quiet)
    }

    /// Sets what the ports have counted, for their statistics.
    pub fn set_port_counts(&mut self, counts: Vec<PortStats>) {
        self.counts = counts;
    }

    pub(crate) fn port_counts(&self) -> &[PortStats] {
        &self.counts
    }

    /// Sets the state of a port's link. The controllers get a PORT_STATUS if it is another one.
    ///
    /// # Errors
    /// The device has no room for the entries of fast failover.
    pub fn set_link(&mut self, id: u16, is_up: bool) -> Result<(), ErrorCode> {
        let Some(port) = self.ports.get_mut(&id) else {
            return Ok(());
        };
        if (port.state & state::LINK_DOWN == 0) == is_up {
            return Ok(());
        }
        port.state ^= state::LINK_DOWN;
        self.port_changed(id)
    }

    /// Makes the change that a PORT_MOD asks for: the configuration of a port.
    ///
    /// # Errors
    /// The message is refused. Nothing has changed.
    pub fn port_mod(&mut self, wanted: &Port) -> Result<(), ErrorCode> {
        let port = self.ports.get_mut(&wanted.id);
        let port = port.ok_or(ErrorCode::PortModBadPort)?;
        if wanted.config & !config::ALL != 0 {
            return Err(ErrorCode::UnsupportedPortMod);
        }
        if (port.config, port.is_enabled) == (wanted.config, wanted.is_enabled) {
            return Ok(());
        }
        let (before, events) = (*port, self.events.len());
        (port.config, port.is_enabled) = (wanted.config, wanted.is_enabled);
        if let Err(error) = self.port_changed(wanted.id) {
            self.events.truncate(events);
            self.ports.insert(wanted.id, before);
            // There was room for the entries before.
            let _ = self.renew_ports();
            return Err(error);
        }
        self.changed_ports.insert(wanted.id);
        Ok(())
    }

    /// Returns the numbers of the ports that a PORT_MOD has changed since the last call.
    pub fn take_changed_ports(&mut self) -> BTreeSet<u16> {
        std::mem::take(&mut self.changed_ports)
    }

    /// Returns a port if a PORT_MOD has set it to something else than at the start.
    pub fn changed_port(&self, id: u16) -> Option<&Port> {
        let is_changed = |port: &&Port| port.config != 0 || !port.is_enabled;
        self.ports.get(&id).filter(is_changed)
    }

    fn port_changed(&mut self, id: u16) -> Result<(), ErrorCode> {
        if let Some(port) = self.ports.get_mut(&id) {
            let is_live = port.state & state::LINK_DOWN == 0 && port.config & config::DOWN == 0;
            port.state = match is_live {
                true => port.state | state::LIVE,
                false => port.state & !state::LIVE,
            };
            let status = PortStatus {
                reason: MODIFIED,
                port: *port,
            };
            self.events.push(Event::Port(status));
        }
        self.renew_ports()
    }

    fn renew_ports(&mut self) -> Result<(), ErrorCode> {
        let is_live = |port: &Port| port.state & state::LIVE != 0;
        let ports = self.ports.values().map(|port| (port.id, is_live(port)));
        let ports: Vec<(u16, bool)> = ports.collect();
        self.forwarder.set_ports(&ports)
    }

    /// Returns the event of a packet that a worker of the device has sent to
    /// [`crate::CONTROLLER_PORT`]. `None` if its port does not report packets.
    pub fn packet_in(&self, bytes: &[u8]) -> Option<Event> {
        let event = packet_in(bytes)?;
        self.is_reported(&event).then_some(event)
    }

    fn is_reported(&self, event: &Event) -> bool {
        match event {
            Event::PacketIn { port, .. } => self.may_report(*port),
            _ => true,
        }
    }

    /// Returns the number of packets that entries have sent to ports that the switch does not have.
    pub fn portless(&self) -> u64 {
        self.portless
    }

    /// Passes each packet that was sent to `send`, and returns what the controllers get. Packets to
    /// ports that the switch does not have are dropped.
    pub fn drain(&mut self, mut send: impl FnMut(u16, &[u8])) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        let (ports, mut portless) = (&self.ports, 0);
        events.extend(
            self.forwarder
                .drain(|port, bytes| match ports.contains_key(&port) {
                    true => send(port, bytes),
                    false => portless += 1,
                }),
        );
        self.portless += portless;
        for _ in 0..portless {
            let device = self.forwarder.device();
            device.count_drop(DropReason::NoSuchPort);
        }
        events.retain(|event| self.is_reported(event));
        events
    }
}

//! Ports of the switch at interfaces of the kernel, as they are now.

use packet::PortId;

use super::rule::{FlowerRule, RulePlanes};
use super::session::{Link, LinkKey, Session, TcError};
use super::translate::{Interfaces, TranslateOptions, translate};
use crate::flow::{Flow, NotOffloadable, Step};

/// A port of the switch and its interface, as the owner names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcPort {
    /// The port.
    pub port: PortId,
    /// Name of the interface when the target is opened. Later the interface is known by its index;
    /// its name counts again only after it has gone.
    pub interface: String,
    /// All IP headers that the interface receives are without options
    /// ([`TranslateOptions::no_ip_options`]).
    pub no_ip_options: bool,
    /// All IPv4 headers that it receives have a right checksum
    /// ([`TranslateOptions::valid_ip_checksums`]).
    pub valid_ip_checksums: bool,
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterfaceState {
    /// It is set up.
    Up,
    /// It is set down. No rule is on it or sends to it.
    Down,
    /// It was removed or moved to another network namespace, and its rules with it.
    Gone,
}

/// A port and its interface, as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcPortReport {
    /// The port.
    pub port: PortId,
    /// Name of the interface.
    pub interface: String,
    /// Its index; the last one if it has gone.
    pub index: u32,
    /// Its state.
    pub state: InterfaceState,
    /// Reason for which it takes no rules in hardware, when it was asked.
    pub refusal: Option<String>,
}

/// A port with what is known of its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortState {
    wanted: TcPort,
    link: Link,
    state: InterfaceState,
    refusal: Option<String>,
}

/// All ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    list: Vec<PortState>,
    planes: RulePlanes,
}

impl Ports {
    /// Finds the interfaces of ports.
    ///
    /// # Errors
    /// [`TcError::NoInterface`], or an error of the kernel.
    pub(super) fn open(
        session: &mut Session,
        wanted: &[TcPort],
        planes: RulePlanes,
    ) -> Result<Ports, TcError> {
        let by_name = |wanted: &TcPort| PortState {
            wanted: wanted.clone(),
            link: Link::default(),
            state: InterfaceState::Gone,
            refusal: None,
        };
        let mut ports = Ports {
            list: wanted.iter().map(by_name).collect(),
            planes,
        };
        ports.refresh(session)?;
        let missing = |port: &&PortState| port.state == InterfaceState::Gone;
        match ports.list.iter().find(missing) {
            Some(port) => Err(TcError::NoInterface(port.wanted.interface.clone())),
            None => Ok(ports),
        }
    }

    /// Reads the interfaces again: by index, or by name those that are gone.
    ///
    /// # Errors
    /// An error of the kernel; then nothing changes.
    pub(super) fn refresh(&mut self, session: &mut Session) -> Result<(), TcError> {
        let mut list = self.list.clone();
        let by_index: Vec<_> = list
            .iter()
            .map(|port| LinkKey::Index(port.link.index))
            .collect();
        let found = session.links(&by_index)?;
        for (port, link) in list.iter_mut().zip(found) {
            // Index 0 is that of no interface.
            match link.filter(|link| link.index != 0 && link.index == port.link.index) {
                Some(link) => port.take(link),
                None => port.state = InterfaceState::Gone,
            }
        }
        let is_gone = |port: &&mut PortState| port.state == InterfaceState::Gone;
        let mut gone: Vec<_> = list.iter_mut().filter(is_gone).collect();
        let names: Vec<String> = gone
            .iter()
            .map(|port| port.wanted.interface.clone())
            .collect();
        let by_name: Vec<_> = names.iter().map(|name| LinkKey::Name(name)).collect();
        let found = session.links(&by_name)?;
        for (port, link) in gone.iter_mut().zip(found) {
            if let Some(link) = link {
                port.take(link);
            }
        }
        self.list = list;
        Ok(())
    }

    /// Translates a flow to a rule of an interface, without priority and cookie.
    ///
    /// # Errors
    /// There is no exact rule now, or an interface of it is not there.
    pub(super) fn translate(&self, flow: &Flow) -> Result<(u32, FlowerRule), NotOffloadable> {
        let ingress = self.usable(flow.ingress)?;
        let mut interfaces = Interfaces::new();
        for step in &flow.steps {
            if let Step::Output(port) = step {
                interfaces.insert(*port, self.usable(*port)?.link.index);
            }
        }
        let options = TranslateOptions {
            no_ip_options: ingress.wanted.no_ip_options,
            valid_ip_checksums: ingress.wanted.valid_ip_checksums,
            planes: self.planes,
            ..TranslateOptions::of_mtu(ingress.link.mtu)
        };
        let rule = translate(flow, &interfaces, &options)?;
        Ok((ingress.link.index, rule))
    }

    fn usable(&self, port: PortId) -> Result<&PortState, NotOffloadable> {
        let found = self.list.iter().find(|state| state.wanted.port == port);
        let Some(found) = found else {
            let words = format!("port {port} is no interface of the kernel");
            return Err(NotOffloadable::Target(words));
        };
        let state = match found.state {
            InterfaceState::Up => return Ok(found),
            InterfaceState::Down => "is down",
            InterfaceState::Gone => "has gone",
        };
        let name = found.name();
        Err(NotOffloadable::Target(format!(
            "the interface '{name}' of port {port} {state}"
        )))
    }

    /// Returns the indices of the interfaces that are there.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let there = self
            .list
            .iter()
            .filter(|port| port.state != InterfaceState::Gone);
        there.map(|port| port.link.index)
    }

    /// Notes why an interface takes no rules, or that it takes them.
    pub(super) fn set_refusal(&mut self, interface: u32, refusal: Option<&String>) {
        let ports = self.list.iter_mut();
        for port in ports.filter(|port| port.link.index == interface) {
            port.refusal = refusal.cloned();
        }
    }

    /// Returns what is reported of each port.
    pub(super) fn reports(&self) -> impl Iterator<Item = TcPortReport> + '_ {
        self.list.iter().map(|port| TcPortReport {
            port: port.wanted.port,
            interface: port.name().to_owned(),
            index: port.link.index,
            state: port.state,
            refusal: port.refusal.clone(),
        })
    }
}

impl PortState {
    fn take(&mut self, link: Link) {
        self.state = match link.is_up {
            true => InterfaceState::Up,
            false => InterfaceState::Down,
        };
        self.link = link;
    }

    fn name(&self) -> &str {
        match self.link.name.is_empty() {
            true => &self.wanted.interface,
            false => &self.link.name,
        }
    }
}

//! The packet replication engine: multicast groups and clone sessions (P4Runtime, section 9.5; PSA, section 6.3).

use std::collections::BTreeMap;

use packet::PortId;

/// A copy of a packet: the port and the instance (`egress_rid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Where it goes.
    pub port: PortId,
    /// Which instance it is.
    pub instance: u32,
}

/// A clone session: the copies of a cloned packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// The copies.
    pub replicas: Vec<Replica>,
    /// A multicast group whose copies are made too.
    pub group: Option<u32>,
    /// Bytes that a clone keeps.
    pub truncate: Option<u32>,
    /// The clones' class of service.
    pub class_of_service: u32,
}

/// Groups and sessions by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationEngine {
    groups: BTreeMap<u32, Vec<Replica>>,
    sessions: BTreeMap<u32, CloneSession>,
}

impl ReplicationEngine {
    /// The copies of a group; none for one that does not exist.
    pub fn group(&self, id: u32) -> &[Replica] {
        self.groups.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Adds or replaces a group.
    pub fn set_group(&mut self, id: u32, replicas: Vec<Replica>) {
        self.groups.insert(id, replicas);
    }

    /// Removes a group; whether there was one.
    pub fn remove_group(&mut self, id: u32) -> bool {
        self.groups.remove(&id).is_some()
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &[Replica])> {
        self.groups
            .iter()
            .map(|(id, replicas)| (*id, replicas.as_slice()))
    }

    /// A session.
    pub fn session(&self, id: u32) -> Option<&CloneSession> {
        self.sessions.get(&id)
    }

    /// Adds or replaces a session.
    pub fn set_session(&mut self, id: u32, session: CloneSession) {
        self.sessions.insert(id, session);
    }

    /// Removes a session; whether there was one.
    pub fn remove_session(&mut self, id: u32) -> bool {
        self.sessions.remove(&id).is_some()
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// The copies that a session makes: its group's, then its own (as BMv2).
    pub fn clones<'a>(&'a self, session: &'a CloneSession) -> impl Iterator<Item = Replica> + 'a {
        let group = session.group.map_or(&[][..], |id| self.group(id));
        group.iter().chain(&session.replicas).copied()
    }
}

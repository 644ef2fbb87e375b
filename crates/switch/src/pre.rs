//! Packet replication engine (PRE): multicast groups and clone sessions (P4Runtime, section 9.5;
//! PSA, section 6.3).

use std::collections::BTreeMap;

use packet::PortId;

/// Replica: egress port and instance (`egress_rid`) of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: PortId,
    /// Instance of the copy.
    pub instance: u32,
}

/// Clone session: the copies of a cloned packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// The copies.
    pub replicas: Vec<Replica>,
    /// Multicast group of which the copies are made too.
    pub group: Option<u32>,
    /// Length in bytes to which clones are truncated.
    pub truncate: Option<u32>,
    /// Class of service of the clones.
    pub class_of_service: u32,
}

/// Multicast groups and clone sessions, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationEngine {
    groups: BTreeMap<u32, Vec<Replica>>,
    sessions: BTreeMap<u32, CloneSession>,
}

impl ReplicationEngine {
    /// Returns the copies of a group, or none if it does not exist.
    pub fn group(&self, id: u32) -> &[Replica] {
        self.groups.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Adds or replaces a group.
    pub fn set_group(&mut self, id: u32, replicas: Vec<Replica>) {
        self.groups.insert(id, replicas);
    }

    /// Removes a group. Returns false if it does not exist.
    pub fn remove_group(&mut self, id: u32) -> bool {
        self.groups.remove(&id).is_some()
    }

    /// Returns all groups.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &[Replica])> {
        self.groups
            .iter()
            .map(|(id, replicas)| (*id, replicas.as_slice()))
    }

    /// Returns a session.
    pub fn session(&self, id: u32) -> Option<&CloneSession> {
        self.sessions.get(&id)
    }

    /// Adds or replaces a session.
    pub fn set_session(&mut self, id: u32, session: CloneSession) {
        self.sessions.insert(id, session);
    }

    /// Removes a session. Returns false if it does not exist.
    pub fn remove_session(&mut self, id: u32) -> bool {
        self.sessions.remove(&id).is_some()
    }

    /// Returns all sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Returns the copies of a session: its group's, then its own, as in BMv2.
    pub fn clones<'a>(&'a self, session: &'a CloneSession) -> impl Iterator<Item = Replica> + 'a {
        let group = session.group.map_or(&[][..], |id| self.group(id));
        group.iter().chain(&session.replicas).copied()
    }
}

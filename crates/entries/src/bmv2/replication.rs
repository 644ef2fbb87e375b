//! Commands of packet replication: multicast groups with their nodes, and mirroring sessions.

use std::collections::BTreeMap;

use super::PlacedUpdate;
use super::commands::{CommandLine, no_handle, no_more_handles, number};
use super::handles::{HandleReuse, HandleTable};
use crate::error::EntriesError;
use crate::ports;
use crate::resolve::Word;
use crate::schema::Schema;
use crate::update::{CloneSession, Replica, Update};

/// Copies of a mirroring session.
#[derive(Clone, Copy)]
enum MirrorTarget {
    /// To a port.
    Port(u32),
    /// To all ports of a multicast group.
    Group(u32),
}

/// A multicast group: the handles of its nodes, and the place of its command.
type Group = (Vec<u32>, (usize, usize));

/// A node of multicast groups.
struct MulticastNode {
    /// The replication id of its copies.
    rid: u32,
    replicas: Vec<Replica>,
}

/// Multicast groups and mirroring sessions so far.
pub(super) struct ReplicationCommands {
    nodes: HandleTable<MulticastNode>,
    groups: BTreeMap<u32, Group>,
    sessions: BTreeMap<u32, (MirrorTarget, (usize, usize))>,
}

impl Default for ReplicationCommands {
    fn default() -> ReplicationCommands {
        ReplicationCommands {
            nodes: HandleTable::new(HandleReuse::Same),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }
}

impl ReplicationCommands {
    /// Runs a command. Returns false if it is not one of these.
    pub(super) fn run(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
    ) -> Result<bool, EntriesError> {
        match line.command.text {
            "mc_mgrp_create" => {
                let [group] = line.exactly(["group id"])?;
                let id = group_number(schema, group)?;
                if self.groups.insert(id, (Vec::new(), line.at())).is_some() {
                    let message = format!("the group {id} is created twice");
                    return Err(EntriesError::new(group.at(), message));
                }
            }
            "mc_mgrp_destroy" => {
                let [group] = line.exactly(["group id"])?;
                self.group(group)?;
                self.groups.remove(&number(group, GROUP)?);
            }
            "mc_node_create" => {
                let ([rid], ports) = line.at_least(["rid"], "<ports>")?;
                let node = multicast_node(schema, rid, ports)?;
                let added = self.nodes.add(node);
                added.ok_or_else(|| no_more_handles(line, "nodes"))?;
            }
            "mc_node_update" => {
                let ([node], ports) = line.at_least(["node handle"], "<ports>")?;
                let found = self.node(node)?;
                found.replicas = ports_of(schema, ports, found.rid)?;
            }
            "mc_node_destroy" => {
                let [node] = line.exactly(["node handle"])?;
                let handle = number(node, NODE)?;
                self.node(node)?;
                self.nodes.remove(handle);
                for (nodes, _) in self.groups.values_mut() {
                    nodes.retain(|own| *own != handle);
                }
            }
            "mc_node_associate" => {
                let [group, node] = line.exactly(["group id", "node handle"])?;
                self.node(node)?;
                let handle = number(node, NODE)?;
                let nodes = self.group(group)?;
                if nodes.contains(&handle) {
                    let message = format!("the node {handle} is in this group already");
                    return Err(EntriesError::new(node.at(), message));
                }
                nodes.push(handle);
            }
            "mc_node_dissociate" => {
                let [group, node] = line.exactly(["group id", "node handle"])?;
                let handle = number(node, NODE)?;
                let nodes = self.group(group)?;
                if !nodes.contains(&handle) {
                    let message = format!("the node {handle} is not in this group");
                    return Err(EntriesError::new(node.at(), message));
                }
                nodes.retain(|own| *own != handle);
            }
            "mirroring_add" => {
                let [session, port] = line.exactly(["mirror id", "egress port"])?;
                let number = number(port, "a port")?;
                ports::check_copy(schema.arch, number, port.at())?;
                self.add_session(schema, session, (MirrorTarget::Port(number), line.at()))?;
            }
            "mirroring_add_mc" => {
                let [session, group] = line.exactly(["mirror id", "group id"])?;
                let id = group_number(schema, group)?;
                self.add_session(schema, session, (MirrorTarget::Group(id), line.at()))?;
            }
            "mirroring_delete" => {
                let [session] = line.exactly(["mirror id"])?;
                let id = number(session, "a session's number")?;
                if self.sessions.remove(&id).is_none() {
                    return Err(no_handle(session, "session"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn add_session(
        &mut self,
        schema: &Schema,
        session: Word<'_>,
        target: (MirrorTarget, (usize, usize)),
    ) -> Result<(), EntriesError> {
        let id = number(session, "a session's number")?;
        ports::check_session(schema.arch, id, session.at())?;
        self.sessions.insert(id, target);
        Ok(())
    }

    fn group(&mut self, word: Word<'_>) -> Result<&mut Vec<u32>, EntriesError> {
        let id = number(word, GROUP)?;
        match self.groups.get_mut(&id) {
            Some((nodes, _)) => Ok(nodes),
            None => {
                let message = format!("no earlier line of the file has created the group {id}");
                Err(EntriesError::new(word.at(), message))
            }
        }
    }

    fn node(&mut self, word: Word<'_>) -> Result<&mut MulticastNode, EntriesError> {
        let handle = number(word, NODE)?;
        let node = self.nodes.get_mut(handle);
        node.ok_or_else(|| no_handle(word, "node"))
    }

    /// Returns the groups and sessions as updates.
    pub(super) fn updates(mut self) -> Result<Vec<PlacedUpdate>, EntriesError> {
        let mut updates = Vec::new();
        let mut all: BTreeMap<u32, Vec<Replica>> = BTreeMap::new();
        for (id, (nodes, at)) in &self.groups {
            let mut replicas: Vec<Replica> = Vec::new();
            for node in nodes {
                let node = self.nodes.get_mut(*node);
                for replica in node.into_iter().flat_map(|node| &node.replicas) {
                    if replicas.contains(replica) {
                        let Replica { port, instance } = replica;
                        let message =
                            format!("the group {id} has port {port} with rid {instance} twice");
                        return Err(EntriesError::new(*at, message));
                    }
                    replicas.push(*replica);
                }
            }
            all.insert(*id, replicas.clone());
            updates.push((Update::Multicast { id: *id, replicas }, *at));
        }
        for (id, (target, at)) in self.sessions {
            let replicas = match target {
                MirrorTarget::Port(port) => vec![Replica { port, instance: 0 }],
                MirrorTarget::Group(group) => {
                    let message = format!("the file creates no multicast group {group}");
                    let found = all.get(&group).cloned();
                    found.ok_or_else(|| EntriesError::new(at, message))?
                }
            };
            let session = CloneSession {
                id,
                replicas,
                truncate: None,
                class_of_service: 0,
            };
            updates.push((Update::Clone(session), at));
        }
        Ok(updates)
    }
}

const GROUP: &str = "a multicast group's number";
const NODE: &str = "a node's handle";

fn group_number(schema: &Schema, word: Word<'_>) -> Result<u32, EntriesError> {
    let id = number(word, GROUP)?;
    ports::check_group(schema.arch, id, word.at())?;
    Ok(id)
}

fn multicast_node(
    schema: &Schema,
    rid: Word<'_>,
    ports: &[Word<'_>],
) -> Result<MulticastNode, EntriesError> {
    let instance = number(rid, "a replication id")?;
    ports::check_instance(schema.arch, instance, rid.at())?;
    Ok(MulticastNode {
        rid: instance,
        replicas: ports_of(schema, ports, instance)?,
    })
}

/// Returns a copy to each port. Link aggregation groups, after `|`, are refused.
fn ports_of(
    schema: &Schema,
    words: &[Word<'_>],
    instance: u32,
) -> Result<Vec<Replica>, EntriesError> {
    let mut replicas: Vec<Replica> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.text == "|" {
            if at + 1 == words.len() {
                return Ok(replicas);
            }
            let message = "link aggregation groups of multicast are not supported";
            let error = EntriesError::new(word.at(), message);
            return Err(error.hint("name the ports instead"));
        }
        let port = number(*word, "a port")?;
        ports::check_copy(schema.arch, port, word.at())?;
        let replica = Replica { port, instance };
        if replicas.contains(&replica) {
            let message = format!("the port {port} is given twice");
            return Err(EntriesError::new(word.at(), message));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

//! Multicast groups as STF and BMv2's command line define them: nodes (an instance and its ports)
//! with handles, and groups that nodes are associated with.

use std::collections::{BTreeMap, BTreeSet};

use entries::Replica;

/// The nodes and groups of a test.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    /// Nodes by handle; `None` for a destroyed node.
    nodes: Vec<Option<Node>>,
    /// The handles of each group's nodes.
    groups: BTreeMap<u32, BTreeSet<u32>>,
}

#[derive(Debug)]
struct Node {
    instance: u32,
    ports: Vec<u32>,
}

impl Replication {
    /// Creates a node. Its handle is the number of nodes created before it.
    pub(crate) fn create_node(&mut self, instance: u32, ports: Vec<u32>) {
        self.nodes.push(Some(Node { instance, ports }));
    }

    /// Replaces the ports of a node. Returns `None` if there is no such node.
    pub(crate) fn update_node(&mut self, handle: u32, ports: Vec<u32>) -> Option<()> {
        self.nodes.get_mut(handle as usize)?.as_mut()?.ports = ports;
        Some(())
    }

    /// Destroys a node and removes it from its groups. Returns `None` if there is no such node.
    pub(crate) fn destroy_node(&mut self, handle: u32) -> Option<()> {
        self.nodes.get_mut(handle as usize)?.take()?;
        for handles in self.groups.values_mut() {
            handles.remove(&handle);
        }
        Some(())
    }

    /// Creates a group without nodes.
    pub(crate) fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
    }

    /// Destroys a group. Returns `None` if there is no such group.
    pub(crate) fn destroy_group(&mut self, group: u32) -> Option<()> {
        self.groups.remove(&group).map(|_| ())
    }

    /// Associates a node with a group, or dissociates it. Returns `None` if one of them does not
    /// exist.
    pub(crate) fn associate(&mut self, group: u32, handle: u32, belongs: bool) -> Option<()> {
        self.nodes.get(handle as usize)?.as_ref()?;
        let handles = self.groups.get_mut(&group)?;
        match belongs {
            true => handles.insert(handle),
            false => handles.remove(&handle),
        };
        Some(())
    }

    /// Returns the groups with their replicas.
    pub(crate) fn groups(&self) -> Vec<(u32, Vec<Replica>)> {
        let groups = self.groups.iter();
        groups
            .map(|(group, handles)| (*group, self.replicas(handles)))
            .collect()
    }

    fn replicas(&self, handles: &BTreeSet<u32>) -> Vec<Replica> {
        let nodes = handles
            .iter()
            .filter_map(|handle| self.nodes.get(*handle as usize)?.as_ref());
        let copies = |node: &Node| -> Vec<Replica> {
            let instance = node.instance;
            let copy = |&port: &u32| Replica { port, instance };
            node.ports.iter().map(copy).collect()
        };
        nodes.flat_map(copies).collect()
    }
}

//! Captures of the links of a real fabric, one file a link. Each link is captured at one of its
//! switches.

use std::path::{Path, PathBuf};

use fabric::Topology;
use fabric::topology::{End, Link, NodeId, SwitchId};

use crate::capture::{PortFile, make_directory};

/// Directory of the captures of all links; none without `--pcap`.
#[derive(Default)]
pub(super) struct LinkCaptures(Option<PathBuf>);

impl LinkCaptures {
    /// Returns captures in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(directory: &Path) -> Result<LinkCaptures, String> {
        make_directory(directory)?;
        Ok(LinkCaptures(Some(directory.to_owned())))
    }

    /// Creates the files of the links that are captured at a switch.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn files(
        &self,
        topology: &Topology,
        switch: SwitchId,
    ) -> Result<Vec<PortFile>, String> {
        let Some(directory) = &self.0 else {
            return Ok(Vec::new());
        };
        let at_switch = |link: &&Link| capturing_end(link).node == NodeId::Switch(switch);
        let links = topology.links.iter().filter(at_switch);
        let files = links.map(|link| {
            let path = directory.join(file_name(topology, link));
            PortFile::create(&path, capturing_end(link).port)
        });
        files.collect()
    }
}

/// Returns the end at which a link is captured: the first one of a switch, which sees all frames.
fn capturing_end(link: &Link) -> End {
    let [first, second] = link.ends;
    match first.node {
        NodeId::Switch(_) => first,
        NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => second,
    }
}

/// Returns the name of a link's file: `h1_s1-p1.pcapng`.
fn file_name(topology: &Topology, link: &Link) -> String {
    let ends = link.ends.map(|end| {
        let name = topology.name_of(end.node);
        match end.node {
            NodeId::Switch(_) => format!("{name}-p{}", end.port),
            NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => name.to_owned(),
        }
    });
    format!("{}.pcapng", ends.join("_"))
}

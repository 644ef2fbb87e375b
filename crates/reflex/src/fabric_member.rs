//! Members of a store in a simulated fabric: each at a host, with a disk, and with messages over
//! the links of the topology.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use consensus::{Entry, LogIndex, NodeId, Persist, Saved, Snapshot, Term};
use fabric::topology::{DiskFate, HostId, LinkSpec};
use fabric::{Node, NodeCounts, Topology};
use packet::{Nanos, PortId};

use crate::fabric_node::{FabricPlane, FrameObserver};
use crate::loops::{Loops, SourceIndex, StoreSpec};
use crate::plane_driver::PlaneDriver;
use crate::store::{LogDisk, LogDiskError, ReplaceProgress, ReplicaGroup, StoredNode};
use crate::udp_frame::{datagram, write_datagram};

/// Time of a write to the disk of a simulated member, with its sync.
pub const MEMBER_WRITE_TIME: Nanos = Nanos::from_micros(100);

/// Function that makes the plane of a member around its replica, at each of its starts.
pub type MakeMember = Rc<dyn Fn(ReplicaGroup) -> Result<PlaneDriver, String>>;

/// Nodes that lost their disks, by their places, and those that take their places.
type Replacements = Rc<RefCell<Vec<(usize, usize)>>>;

/// Disk of a simulated member.
#[derive(Default)]
struct MemberDisk {
    now: Nanos,
    is_used: bool,
    term: Term,
    vote: Option<NodeId>,
    snapshot: Option<Snapshot>,
    entries: BTreeMap<LogIndex, Entry>,
    under_way: Option<MemberWrite>,
}

/// A write under way: it is complete at its end, and a crash before loses it.
struct MemberWrite {
    end: Nanos,
    number: u64,
    term: Term,
    vote: Option<NodeId>,
    snapshot: Option<Snapshot>,
    from: LogIndex,
    entries: Vec<Entry>,
}

impl MemberDisk {
    fn begin(&mut self, write: &Persist<'_>) {
        self.under_way = Some(MemberWrite {
            end: self.now + MEMBER_WRITE_TIME,
            number: write.number,
            term: write.term,
            vote: write.vote,
            snapshot: write.snapshot.cloned(),
            from: write.from,
            entries: write.entries().copied().collect(),
        });
    }

    fn completed(&mut self) -> Option<u64> {
        let now = self.now;
        let write = self.under_way.take_if(|write| write.end <= now)?;
        self.is_used = true;
        (self.term, self.vote) = (write.term, write.vote);
        if write.snapshot.is_some() {
            self.snapshot = write.snapshot;
        }
        let base = self.snapshot.as_ref().map_or(LogIndex(0), Snapshot::index);
        let from = write.from;
        self.entries
            .retain(|index, _| *index < from && *index > base);
        let entries = (from.0..).map(LogIndex).zip(write.entries);
        self.entries
            .extend(entries.filter(|(index, _)| *index > base));
        Some(write.number)
    }

    /// Returns what the disk has. `None` if nothing was ever written.
    fn saved(&self) -> Option<Saved> {
        let first = self.entries.first_key_value();
        self.is_used.then(|| Saved {
            term: self.term,
            vote: self.vote,
            snapshot: self.snapshot.clone(),
            first: first.map_or(LogIndex(0), |(index, _)| *index),
            entries: self.entries.values().copied().collect(),
        })
    }
}

/// The disk as the node uses it.
struct SharedDisk(Rc<RefCell<MemberDisk>>);

impl LogDisk for SharedDisk {
    fn begin(&mut self, write: &Persist<'_>) {
        self.0.borrow_mut().begin(write);
    }

    fn completed(&mut self) -> Option<u64> {
        self.0.borrow_mut().completed()
    }

    fn error(&self) -> Option<LogDiskError> {
        None
    }
}

/// A host's way to the addresses of members.
struct HostWay {
    mac: [u8; 6],
    address: Ipv4Addr,
    /// MAC addresses of the next hops, by node.
    hops: Vec<[u8; 6]>,
}

/// A source at the host of a member.
struct MemberSource {
    source: SourceIndex,
    udp_port: u16,
    observe: FrameObserver,
}

/// A node of the fabric with a member of a store and its plane.
pub struct MemberNode {
    plane: FabricPlane,
    make: MakeMember,
    spec: StoreSpec,
    seed: u64,
    addresses: Vec<SocketAddrV4>,
    /// Place of the member that runs.
    place: usize,
    /// Places of the nodes at this host that take over when a disk is lost.
    next_places: VecDeque<usize>,
    starts: u64,
    disk: Rc<RefCell<MemberDisk>>,
    way: HostWay,
    sources: Vec<MemberSource>,
    replacements: Replacements,
    ready: Vec<(Nanos, Vec<u8>)>,
    received: u64,
    /// Frames that are neither reports nor messages.
    others: u64,
    sent: u64,
    made: u64,
}

impl MemberNode {
    /// Returns whether the nodes of a store have addresses of hosts of a topology: then they run
    /// there. Otherwise all of them are in one process.
    pub fn are_placed(loops: &Loops, topology: &Topology) -> bool {
        let addresses = loops.store.transport.addresses().unwrap_or_default();
        addresses.iter().any(|it| host_of(topology, it).is_some())
    }

    /// Creates the members of a store, each with its host. A host runs the first of its nodes; the
    /// others take its place when its disk is lost.
    ///
    /// # Errors
    /// A node has no host or is not reached by others, a source is not at the host of a node, or a
    /// plane cannot be made.
    pub fn all(
        loops: &Loops,
        topology: &Topology,
        make: &MakeMember,
    ) -> Result<Vec<(HostId, MemberNode)>, String> {
        let addresses = loops.store.transport.addresses();
        let addresses = addresses.ok_or("the nodes of the store have no addresses")?;
        let mut by_host: BTreeMap<HostId, VecDeque<usize>> = BTreeMap::new();
        for (place, address) in addresses.iter().enumerate() {
            let host = host_of(topology, address).ok_or_else(|| {
                format!(
                    "node {} has the address {address}, which is no host's of the topology; give \
                     each node the address of a host, or none of them",
                    loops.store.nodes[place]
                )
            })?;
            by_host.entry(host).or_default().push_back(place);
        }
        let mut taken = 0;
        let replacements = Replacements::default();
        let mut members = Vec::new();
        for (host, mut places) in by_host {
            let Some(place) = places.pop_front() else {
                continue;
            };
            let spec = &topology.hosts[host.0];
            let hops = addresses.iter().map(|to| match *to.ip() == spec.address {
                true => Ok(spec.mac),
                false => topology.hop_mac(host, *to.ip()).ok_or_else(|| {
                    format!(
                        "{} has no way to {to}; give it a gateway or a neighbour",
                        spec.name
                    )
                }),
            });
            let way = HostWay {
                mac: spec.mac,
                address: spec.address,
                hops: hops.collect::<Result<_, _>>()?,
            };
            let own = loops.sources.iter().enumerate();
            let own = own.filter(|(_, it)| it.listen.host() == Some(&spec.name));
            let sources: Vec<MemberSource> = own
                .map(|(at, source)| MemberSource {
                    source: SourceIndex(at),
                    udp_port: source.udp_port,
                    observe: Box::new(|_, _| {}),
                })
                .collect();
            taken += sources.len();
            let disk = Rc::default();
            let replica = replica(&loops.store, (loops.seed, 1), Nanos::ZERO, place, &disk)?;
            members.push((
                host,
                MemberNode {
                    plane: FabricPlane::new(make(replica)?),
                    make: Rc::clone(make),
                    spec: loops.store.clone(),
                    seed: loops.seed,
                    addresses: addresses.to_vec(),
                    place,
                    next_places: places,
                    starts: 1,
                    disk,
                    way,
                    sources,
                    replacements: Rc::clone(&replacements),
                    ready: Vec::new(),
                    received: 0,
                    others: 0,
                    sent: 0,
                    made: 0,
                },
            ));
        }
        match taken == loops.sources.len() {
            true => Ok(members),
            false => Err(
                "each source is at the host of a node of the store, where its plane takes the \
                 reports; name one of these hosts as `listen`"
                    .to_owned(),
            ),
        }
    }

    /// Has the frames of a source at this host observed.
    pub fn observe(&mut self, source: SourceIndex, observe: FrameObserver) {
        if let Some(own) = self.sources.iter_mut().find(|it| it.source == source) {
            own.observe = observe;
        }
    }

    /// Returns the sources at this host.
    pub fn sources(&self) -> impl Iterator<Item = SourceIndex> + '_ {
        self.sources.iter().map(|it| it.source)
    }

    /// Returns the plane, which stays the same after a restart.
    pub fn plane(&self) -> FabricPlane {
        self.plane.clone()
    }

    /// Returns the name of the member that runs.
    pub fn name(&self) -> &str {
        &self.spec.nodes[self.place]
    }

    /// Goes on with replacements of nodes that lost their disks, if this member leads.
    fn replace(&self, now: Nanos, store: &mut ReplicaGroup) {
        if store.leading().is_none() {
            return;
        }
        self.replacements.borrow_mut().retain(|(old, new)| {
            let progress = store.replace(now, *old, *new);
            matches!(
                progress,
                ReplaceProgress::UnderWay | ReplaceProgress::LedBy(_)
            )
        });
    }
}

impl Node for MemberNode {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {}

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.received += 1;
        self.disk.borrow_mut().now = now;
        let mut driver = self.plane.get_mut();
        let own = self.addresses[self.place];
        match datagram(bytes) {
            Some((from, port, message))
                if port == own.port() && self.addresses.iter().any(|it| *it.ip() == from) =>
            {
                // What is no message of the store is counted by the node.
                let store = driver.plane_mut().store_mut();
                let _ = store.receive_message(now, message);
            }
            Some((from, port, report)) => {
                let mut sources = self.sources.iter_mut();
                match sources.find(|source| source.udp_port == port) {
                    Some(source) => {
                        (source.observe)(bytes, now);
                        driver.receive(now, source.source, from, report);
                    }
                    None => self.others += 1,
                }
            }
            None => self.others += 1,
        }
    }

    fn step(&mut self, now: Nanos) {
        self.disk.borrow_mut().now = now;
        let mut driver = self.plane.get_mut();
        driver.step(now);
        let store = driver.plane_mut().store_mut();
        self.replace(now, store);
        let (way, ready) = (&self.way, &mut self.ready);
        let addresses = &self.addresses;
        let own = addresses[self.place];
        store.drain_messages(|to, message| {
            let mut frame = Vec::new();
            let to = (way.hops[to], addresses[to]);
            write_datagram(&mut frame, (way.mac, own), to, message);
            ready.push((now, frame));
        });
        self.made = self.sent + self.ready.len() as u64;
    }

    fn next_time(&self) -> Option<Nanos> {
        let next = self.plane.get().next_time();
        let disk = self.disk.borrow();
        let write = disk.under_way.as_ref().map(|write| write.end);
        Some(write.map_or(next, |end| end.min(next)))
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        for (at, frame) in self.ready.drain(..) {
            self.sent += 1;
            take(PortId(0), &frame, at);
        }
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn restart(&mut self, disk: DiskFate, now: Nanos) -> Result<(), String> {
        self.starts += 1;
        match disk {
            // The write under way did not end.
            DiskFate::Kept => self.disk.borrow_mut().under_way = None,
            DiskFate::Lost => {
                let old = self.place;
                let new = self.next_places.pop_front().ok_or_else(|| {
                    format!(
                        "node {} lost its votes, and could vote twice under its name; give the \
                         store a spare node with the address {} and another port, which takes its \
                         place",
                        self.spec.nodes[old], self.way.address
                    )
                })?;
                self.place = new;
                self.disk = Rc::default();
                self.replacements.borrow_mut().push((old, new));
            }
        }
        let start = (self.seed, self.starts);
        let replica = replica(&self.spec, start, now, self.place, &self.disk)?;
        let driver = (self.make)(replica)?;
        *self.plane.get_mut() = driver;
        Ok(())
    }

    fn tally(&self) -> NodeCounts {
        NodeCounts {
            received: self.received,
            made: self.made,
            delivered: self.received - self.others,
            sent: self.sent,
            dropped: vec![("no_report", self.others)],
            held: self.made - self.sent,
            ..NodeCounts::default()
        }
    }
}

/// Returns the host with an address.
fn host_of(topology: &Topology, address: &SocketAddrV4) -> Option<HostId> {
    let mut hosts = topology.hosts.iter();
    let found = hosts.position(|host| host.address == *address.ip());
    found.map(HostId)
}

/// Creates the replica of a member with what its disk has.
fn replica(
    spec: &StoreSpec,
    start: (u64, u64),
    now: Nanos,
    place: usize,
    disk: &Rc<RefCell<MemberDisk>>,
) -> Result<ReplicaGroup, String> {
    let saved = disk.borrow().saved();
    let stored = StoredNode {
        saved,
        disk: Box::new(SharedDisk(Rc::clone(disk))),
    };
    let group = ReplicaGroup::on_disk(spec, start, now, vec![(place, stored)]);
    group.ok_or_else(|| "the store has too many nodes".to_owned())
}

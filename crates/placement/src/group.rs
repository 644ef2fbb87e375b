//! Assignment of flows to the servers of a group that changes (CLIP, section V-B).
//!
//! A flow's state stays at the server that got its first packet. Two generations of the group
//! exist: the current one and the older one. Each packet is added to the Bloom filter of the
//! current generation (`BM[cur]`) and looked up in the other one. A flow that is found there began
//! in the older generation and goes to a server of it, another one to a server of the current one.
//! Pins, which are exact entries, come before both.
//!
//! A change has three steps:
//!
//! 1. [`Group::join`], [`Group::leave`] or [`Group::renew`] begins it. From now on
//!    [`Group::route`] says of each packet if its flow needs a pin, and the switch pins such a
//!    flow before the packet leaves. These are flows that a filter found by error, and those that
//!    a server knows but that have no pin yet.
//! 2. [`Group::missing_pins`] compares the flows that servers know with the servers where the next
//!    generation would send them. These are flows of older generations, flows that a filter found
//!    by error, and flows that sent nothing in this generation. The coordinator pins each
//!    ([`Group::pin`]), moves it into the switch, or waits for its end.
//! 3. [`Group::commit`] gives the next generation an empty filter and changes `cur`.
//!
//! Clones of a group share its filters, so a clone is a snapshot for the threads of the switch: a
//! commit gives the group another filter and leaves the old one to older clones.
//!
//! A filter that fills up finds flows that it does not have, and new flows then go to the older
//! generation: always to a server that gets their first packet, but not to new servers. A change
//! that begins above [`GroupOptions::max_error_rate`] clears both filters instead and pins all
//! flows that the new group would send elsewhere.
//!
//! A generation assigns a fixed number of buckets to its servers, and a change moves few of them.
//! When a server fails, its buckets go to the others and no other flow moves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use support::count::{count, count_are};

use crate::SketchSize;
use crate::bloom::BloomFilter;
use crate::hash::RowHashes;

/// Number of a server in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u16);

/// Sizes of a group's tables in the switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupOptions {
    /// Number of buckets of a generation. At most as many servers can be in the group.
    pub buckets: u32,
    /// Size of each of the two filters.
    pub filter: SketchSize,
    /// Number of pins at most.
    pub max_pins: usize,
    /// Error rate of a filter above which a change does without it.
    pub max_error_rate: f64,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            buckets: 256,
            filter: SketchSize {
                columns: 1 << 20,
                rows: 2,
            },
            max_pins: 1 << 16,
            max_error_rate: 0.1,
        }
    }
}

/// Refused change of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The server is in the group already.
    Present(ServerId),
    /// The server is not in the group.
    Absent(ServerId),
    /// The group would have no server.
    LastServer(ServerId),
    /// The group has as many servers as buckets.
    Full {
        /// Number of buckets.
        buckets: u32,
    },
    /// Another change has begun and is not committed.
    Busy,
    /// No change has begun.
    NoChange,
    /// The table of pins is full.
    PinsFull {
        /// Number of pins at most.
        max_pins: usize,
    },
    /// Flows without a pin would go to servers that do not know them.
    Unpinned {
        /// Number of these flows.
        flows: usize,
    },
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Present(server) => write!(f, "server {} is in the group", server.0),
            GroupError::Absent(server) => write!(f, "server {} is not in the group", server.0),
            GroupError::LastServer(server) => write!(
                f,
                "server {} is the last one of the group: another one must join first",
                server.0
            ),
            GroupError::Full { buckets } => write!(
                f,
                "the group has {buckets} servers, one for each bucket: use more buckets"
            ),
            GroupError::Busy => f.write_str("another change of the group is not complete: wait"),
            GroupError::NoChange => f.write_str("no change of the group has begun"),
            GroupError::PinsFull { max_pins } => write!(
                f,
                "the group has at most {}, and none is free: wait until flows end, or move flows into \
                 the switch",
                count(*max_pins as u64, "pin")
            ),
            GroupError::Unpinned { flows } => write!(
                f,
                "{} not pinned to a server: pin flows or wait until they end",
                count_are(*flows as u64, "flow")
            ),
        }
    }
}

impl std::error::Error for GroupError {}

/// Servers of one generation, by bucket.
type Buckets = Arc<[ServerId]>;

/// Change that has begun.
#[derive(Clone, Debug)]
struct Change {
    buckets: Buckets,
    /// True if the filter of the current generation has too many errors to be used.
    is_fresh: bool,
    /// Number of packets since the last list of flows that needed a pin and found no free one.
    unpinned: usize,
}

/// Server of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The server.
    pub server: ServerId,
    /// True if the change that has begun would send the flow to another server.
    pub needs_pin: bool,
}

/// Group of servers in two generations, with the filters and pins that the switch has.
#[derive(Clone, Debug)]
pub struct Group {
    options: GroupOptions,
    /// G0 and G1.
    generations: [Buckets; 2],
    /// BM0 and BM1.
    filters: [Arc<BloomFilter>; 2],
    /// Index of the current generation.
    cur: usize,
    pins: Arc<BTreeMap<Box<[u8]>, ServerId>>,
    change: Option<Change>,
}

impl Group {
    /// Creates a group of one server.
    pub fn new(server: ServerId, options: GroupOptions) -> Group {
        let buckets = vec![server; options.buckets.max(1) as usize];
        let buckets: Buckets = buckets.into();
        let filter = || Arc::new(BloomFilter::new(options.filter));
        Group {
            options,
            generations: [buckets.clone(), buckets],
            filters: [filter(), filter()],
            cur: 0,
            pins: Arc::default(),
            change: None,
        }
    }

    fn older(&self) -> usize {
        1 - self.cur
    }

    /// Returns the servers of the newest group, one that has only begun among them.
    pub fn members(&self) -> BTreeSet<ServerId> {
        self.newest().iter().copied().collect()
    }

    fn newest(&self) -> &Buckets {
        let change = self.change.as_ref().map(|change| &change.buckets);
        change.unwrap_or(&self.generations[self.cur])
    }

    /// Returns true if packets may go to the server: it is in a generation or in a pin. A server
    /// that left is in none after the next change and the end of its pinned flows.
    pub fn is_used(&self, server: ServerId) -> bool {
        let in_generation = |buckets: &Buckets| buckets.contains(&server);
        self.generations.iter().any(in_generation)
            || in_generation(self.newest())
            || self.pins.values().any(|&pinned| pinned == server)
    }

    /// Returns the server of a packet's flow, as the switch selects it, and adds the flow to the
    /// filter of the current generation. Called for each packet.
    #[inline]
    pub fn route(&self, key: &[u8]) -> Route {
        if let Some(&server) = self.pins.get(key) {
            let needs_pin = false;
            return Route { server, needs_pin };
        }
        self.filters[self.cur].insert(key);
        let is_older = self.filters[self.older()].contains(key);
        let generation = if is_older { self.older() } else { self.cur };
        let server = self.server_of(&self.generations[generation], key);
        let needs_pin = match &self.change {
            None => false,
            Some(change) if change.is_fresh => self.server_of(&change.buckets, key) != server,
            Some(_) => is_older && self.server_of(&self.generations[self.cur], key) != server,
        };
        Route { server, needs_pin }
    }

    /// Pins the flow of a packet that [`Group::route`] said needs a pin. If no pin is free, the
    /// change waits for another list of flows.
    pub fn pin_packet(&mut self, key: &[u8], server: ServerId) {
        if self.pin(key, server).is_err()
            && let Some(change) = &mut self.change
        {
            change.unpinned += 1;
        }
    }

    /// Returns the server of a flow in one generation.
    #[inline]
    fn server_of(&self, buckets: &Buckets, key: &[u8]) -> ServerId {
        let mut hashes = RowHashes::new(key);
        // The rows before select bits of the filters.
        for _ in 0..self.options.filter.rows {
            hashes.next_row();
        }
        buckets[hashes.next_row() as usize % buckets.len()]
    }

    /// Begins a change that adds a server. It gets buckets of the servers with most of them.
    ///
    /// # Errors
    /// Another change has begun, the server is in the group, or there are too few buckets.
    pub fn join(&mut self, server: ServerId) -> Result<(), GroupError> {
        self.check_idle()?;
        let mut loads = self.loads();
        if loads.contains_key(&server) {
            return Err(GroupError::Present(server));
        }
        let mut buckets = self.generations[self.cur].to_vec();
        if loads.len() >= buckets.len() {
            let buckets = self.options.buckets;
            return Err(GroupError::Full { buckets });
        }
        for _ in 0..buckets.len() / (loads.len() + 1) {
            let most = loads.iter().max_by_key(|&(server, load)| (*load, *server));
            let Some((&from, _)) = most else { break };
            if let Some(bucket) = buckets.iter_mut().find(|bucket| **bucket == from) {
                *bucket = server;
            }
            *loads.entry(from).or_default() -= 1;
        }
        self.begin(buckets.into());
        Ok(())
    }

    /// Begins a change that removes a server. Flows that it knows stay with it until they end.
    ///
    /// # Errors
    /// Another change has begun, the server is not in the group, or it is the last one.
    pub fn leave(&mut self, server: ServerId) -> Result<(), GroupError> {
        self.check_idle()?;
        let mut loads = self.loads();
        loads.remove(&server).ok_or(GroupError::Absent(server))?;
        let mut buckets = self.generations[self.cur].to_vec();
        if !replace(&mut buckets, server, &mut loads) {
            return Err(GroupError::LastServer(server));
        }
        self.begin(buckets.into());
        Ok(())
    }

    /// Begins a change that keeps the servers and starts a new generation: a server that left gets
    /// no new flow after it, and a full filter is cleared.
    ///
    /// # Errors
    /// Another change has begun.
    pub fn renew(&mut self) -> Result<(), GroupError> {
        self.check_idle()?;
        self.begin(self.generations[self.cur].clone());
        Ok(())
    }

    fn check_idle(&self) -> Result<(), GroupError> {
        match self.change {
            Some(_) => Err(GroupError::Busy),
            None => Ok(()),
        }
    }

    /// Returns the number of buckets of each server in the current generation.
    fn loads(&self) -> BTreeMap<ServerId, usize> {
        let mut loads = BTreeMap::new();
        for &server in &*self.generations[self.cur] {
            *loads.entry(server).or_default() += 1;
        }
        loads
    }

    fn begin(&mut self, buckets: Buckets) {
        let is_fresh = self.error_rate() > self.options.max_error_rate;
        self.change = Some(Change {
            buckets,
            is_fresh,
            unpinned: 0,
        });
    }

    /// Returns true while a change has begun and is not complete.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Ends a change without an effect.
    pub fn cancel(&mut self) {
        self.change = None;
    }

    /// Returns the error rate of the current generation's filter: the share of new flows that the
    /// next generation will take for older ones.
    pub fn error_rate(&self) -> f64 {
        self.filters[self.cur].error_rate()
    }

    /// Returns the flows of `known` that need a pin before the change: each flow that a server
    /// knows, with this server. Flows in the switch are not among them. The list is of a time after
    /// the change began, and has the flows of requests on their way to servers.
    ///
    /// # Errors
    /// No change has begun.
    pub fn missing_pins<'f>(
        &mut self,
        known: impl IntoIterator<Item = (&'f [u8], ServerId)>,
    ) -> Result<Vec<(&'f [u8], ServerId)>, GroupError> {
        let change = self.change.as_mut().ok_or(GroupError::NoChange)?;
        change.unpinned = 0;
        self.unpinned_of(known)
    }

    fn unpinned_of<'f>(
        &self,
        known: impl IntoIterator<Item = (&'f [u8], ServerId)>,
    ) -> Result<Vec<(&'f [u8], ServerId)>, GroupError> {
        let change = self.change.as_ref().ok_or(GroupError::NoChange)?;
        let is_missing = |&(key, server): &(&[u8], ServerId)| {
            if let Some(&pinned) = self.pins.get(key) {
                return pinned != server;
            }
            if change.is_fresh {
                return self.server_of(&change.buckets, key) != server;
            }
            let is_seen = self.filters[self.cur].contains(key);
            !is_seen || self.server_of(&self.generations[self.cur], key) != server
        };
        Ok(known.into_iter().filter(is_missing).collect())
    }

    /// Pins a flow to its server.
    ///
    /// # Errors
    /// The table of pins is full.
    pub fn pin(&mut self, key: &[u8], server: ServerId) -> Result<(), GroupError> {
        if self.pins.len() >= self.options.max_pins && !self.pins.contains_key(key) {
            let max_pins = self.options.max_pins;
            return Err(GroupError::PinsFull { max_pins });
        }
        Arc::make_mut(&mut self.pins).insert(key.into(), server);
        Ok(())
    }

    /// Removes the pin of a flow that ended or that the switch holds. Returns false if it has none.
    pub fn unpin(&mut self, key: &[u8]) -> bool {
        self.pins.contains_key(key) && Arc::make_mut(&mut self.pins).remove(key).is_some()
    }

    /// Removes the pins of flows for which `is_kept` is false.
    pub fn keep_pins(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        if !self.pins.is_empty() {
            Arc::make_mut(&mut self.pins).retain(|key, _| is_kept(key));
        }
    }

    /// Returns the number of pins.
    pub fn pins(&self) -> usize {
        self.pins.len()
    }

    /// Completes a change: sets the new group with an empty filter, and changes `cur`.
    ///
    /// # Errors
    /// No change has begun, or flows of `known` are not pinned; then the change goes on.
    pub fn commit<'f>(
        &mut self,
        known: impl IntoIterator<Item = (&'f [u8], ServerId)>,
    ) -> Result<(), GroupError> {
        let flows = self.unpinned_of(known)?.len();
        let flows = flows + self.change.as_ref().map_or(0, |change| change.unpinned);
        if flows > 0 {
            return Err(GroupError::Unpinned { flows });
        }
        let change = self.change.take().ok_or(GroupError::NoChange)?;
        let filter = || Arc::new(BloomFilter::new(self.options.filter));
        let older = self.older();
        let (emptied, kept) = (filter(), change.is_fresh.then(filter));
        self.filters[older] = emptied;
        if let Some(kept) = kept {
            self.filters[self.cur] = kept;
        }
        self.generations[older] = change.buckets;
        self.cur = older;
        Ok(())
    }

    /// Removes a server that failed, from all generations and pins. Its flows end; flows of other
    /// servers stay where they are.
    ///
    /// # Errors
    /// The server is not in use, or a generation has no other server.
    pub fn fail(&mut self, server: ServerId) -> Result<(), GroupError> {
        if !self.is_used(server) {
            return Err(GroupError::Absent(server));
        }
        let mut loads = BTreeMap::new();
        for &other in self.newest().iter() {
            *loads.entry(other).or_default() += 1;
        }
        loads.remove(&server);
        if loads.is_empty() {
            return Err(GroupError::LastServer(server));
        }
        let change = self.change.as_mut().map(|change| &mut change.buckets);
        for buckets in self.generations.iter_mut().chain(change) {
            let mut changed = buckets.to_vec();
            replace(&mut changed, server, &mut loads.clone());
            *buckets = changed.into();
        }
        Arc::make_mut(&mut self.pins).retain(|_, pinned| *pinned != server);
        Ok(())
    }
}

/// Gives the buckets of a server to those with the fewest. Returns false if there is no other one.
fn replace(
    buckets: &mut [ServerId],
    server: ServerId,
    loads: &mut BTreeMap<ServerId, usize>,
) -> bool {
    for bucket in buckets.iter_mut().filter(|bucket| **bucket == server) {
        let least = loads
            .iter_mut()
            .min_by_key(|(server, load)| (**load, **server));
        let Some((&other, load)) = least else {
            return false;
        };
        *bucket = other;
        *load += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(servers: u16) -> Group {
        let mut group = Group::new(ServerId(0), GroupOptions::default());
        for server in 1..servers {
            group.join(ServerId(server)).unwrap();
            group.commit([]).unwrap();
        }
        group
    }

    fn key(flow: u32) -> [u8; 4] {
        flow.to_be_bytes()
    }

    #[test]
    fn servers_have_equal_numbers_of_buckets() {
        for servers in 1..12 {
            let group = group(servers);
            let loads: Vec<usize> = group.loads().into_values().collect();
            let even = 256 / usize::from(servers);
            assert!(
                loads.iter().all(|load| load.abs_diff(even) <= 1),
                "{loads:?}"
            );
        }
    }

    #[test]
    fn flows_from_before_a_change_stay_and_new_ones_reach_the_new_server() {
        let mut group = group(1);
        let old: Vec<ServerId> = (0..1000)
            .map(|flow| group.route(&key(flow)).server)
            .collect();
        group.join(ServerId(1)).unwrap();
        let keys: Vec<[u8; 4]> = (0..1000).map(key).collect();
        let known = || keys.iter().map(|key| &key[..]).zip(old.iter().copied());
        assert_eq!(group.missing_pins(known()).unwrap(), []);
        group.commit(known()).unwrap();
        assert!((0..1000).all(|flow| group.route(&key(flow)).server == ServerId(0)));
        let moved = (1000..2000).filter(|&flow| group.route(&key(flow)).server == ServerId(1));
        let moved = moved.count();
        assert!((400..600).contains(&moved), "{moved}");
    }

    #[test]
    fn a_second_change_needs_pins_of_older_flows() {
        let mut group = group(1);
        let keys: Vec<[u8; 4]> = (0..1000).map(key).collect();
        let known = || keys.iter().map(|key| (&key[..], ServerId(0)));
        for key in &keys {
            group.route(key);
        }
        group.join(ServerId(1)).unwrap();
        group.commit(known()).unwrap();
        for key in &keys {
            group.route(key);
        }
        group.join(ServerId(2)).unwrap();
        let missing = group.missing_pins(known()).unwrap().len();
        assert!((400..600).contains(&missing), "{missing}");
        let refused = group.commit(known());
        assert_eq!(refused, Err(GroupError::Unpinned { flows: missing }));
        for (key, server) in group.missing_pins(known()).unwrap() {
            group.pin(key, server).unwrap();
        }
        group.commit(known()).unwrap();
        assert!(
            keys.iter()
                .all(|key| group.route(key).server == ServerId(0))
        );
    }

    #[test]
    fn a_server_that_left_is_unused_after_the_next_change() {
        let mut group = group(2);
        group.leave(ServerId(1)).unwrap();
        assert_eq!(group.members(), BTreeSet::from([ServerId(0)]));
        group.commit([]).unwrap();
        assert!(group.is_used(ServerId(1)));
        group.pin(b"flow", ServerId(1)).unwrap();
        group.renew().unwrap();
        group.commit([]).unwrap();
        assert!(group.is_used(ServerId(1)));
        assert!(group.unpin(b"flow") && !group.unpin(b"flow"));
        assert!(!group.is_used(ServerId(1)));
    }

    #[test]
    fn the_flows_of_a_failed_server_go_to_others_and_no_other_flow_moves() {
        let mut group = group(3);
        let before: Vec<ServerId> = (0..1000)
            .map(|flow| group.route(&key(flow)).server)
            .collect();
        group.pin(b"pinned", ServerId(1)).unwrap();
        group.fail(ServerId(1)).unwrap();
        assert_eq!(group.pins(), 0);
        for (flow, &server) in (0..).zip(&before) {
            let now = group.route(&key(flow)).server;
            assert_ne!(now, ServerId(1));
            assert!(now == server || server == ServerId(1));
        }
        assert_eq!(
            group.fail(ServerId(1)),
            Err(GroupError::Absent(ServerId(1)))
        );
    }

    #[test]
    fn impossible_changes_are_refused() {
        let mut group = group(1);
        let only = ServerId(0);
        assert_eq!(group.leave(only), Err(GroupError::LastServer(only)));
        assert_eq!(group.fail(only), Err(GroupError::LastServer(only)));
        assert_eq!(group.join(only), Err(GroupError::Present(only)));
        let other = ServerId(7);
        assert_eq!(group.leave(other), Err(GroupError::Absent(other)));
        assert_eq!(group.commit([]), Err(GroupError::NoChange));
        group.renew().unwrap();
        assert_eq!(group.join(other), Err(GroupError::Busy));
        let options = GroupOptions {
            buckets: 1,
            max_pins: 1,
            ..GroupOptions::default()
        };
        let mut small = Group::new(only, options);
        assert_eq!(small.join(other), Err(GroupError::Full { buckets: 1 }));
        small.pin(b"a", only).unwrap();
        small.pin(b"a", only).unwrap();
        let full = GroupError::PinsFull { max_pins: 1 };
        assert_eq!(small.pin(b"b", only), Err(full));
        assert_eq!(
            full.to_string(),
            "the group has at most 1 pin, and none is free: wait until flows end, or move flows \
             into the switch"
        );
    }
}

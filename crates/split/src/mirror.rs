//! The entries of a mirrored table: those that a key finds, and those that the switch holds.
//!
//! An item is a key of the table: an exact one, or a prefix. It may have two entries, one that a
//! controller has written and one that a handler has added. Packets find the controller's, as in
//! one device.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bits::Value;
use exec::BitBuffer;
use ir::{KeyMatch, TableId};
use packet::Nanos;
use passes::split::{MirroredTable, SplitPlan};
use placement::{
    Address, Count, Decision, FlowPlacement, FlowWindow, ItemId, Move, Nesting, OptionsError,
    PlacementOptions, Prefix, RoutePlacement, RouteWindow,
};
use switch::{EntryId, TableEntry};

use crate::flights::{FlightOptions, FlightReport};

/// Maximum width of a prefix key.
const MAX_PREFIX: u32 = 128;

/// Bits of an address before the prefix key: the number of the exact keys beside it.
const GROUP_BITS: u8 = 32;

/// Keys that a window can report for the entries in the switch at most, and those beside them.
const MAX_REPORTS: usize = 1 << 20;
const MORE_REPORTS: usize = 1 << 14;

/// First id of entries that handlers have added. Their servers' ids are not unique.
const FIRST_LEARNED: u64 = 1 << 63;

/// Selection of the entries in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EntryPolicy {
    /// The entries that packets asked for last. An entry moves with the packet that asks for it.
    #[default]
    Asked,
    /// A policy that decides at the end of each window.
    Windows(placement::Policy),
}

impl EntryPolicy {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            EntryPolicy::Asked => "asked",
            EntryPolicy::Windows(policy) => policy.name(),
        }
    }

    /// Returns the policy of a name.
    pub fn named(name: &str) -> Option<EntryPolicy> {
        match name {
            "asked" => Some(EntryPolicy::Asked),
            _ => placement::Policy::named(name).map(EntryPolicy::Windows),
        }
    }
}

/// Length of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A number of packets that the switch receives.
    Packets(u64),
    /// A time.
    Time(Nanos),
}

/// Placement of the entries of all mirrored tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitPlacement {
    /// Selection of entries.
    pub policy: EntryPolicy,
    /// Rule for prefixes of which longer ones are servers' alone.
    pub nesting: Nesting,
    /// Length of a window.
    pub window: Window,
    /// Number of entries of each table in the switch at most; `None`: as the table declares.
    pub top: Option<u64>,
    /// Other parameters. `policy`, `top` and `window` in them have no effect.
    pub options: PlacementOptions,
}

impl Default for SplitPlacement {
    fn default() -> Self {
        SplitPlacement {
            policy: EntryPolicy::Asked,
            nesting: Nesting::default(),
            window: Window::Time(Nanos::from_millis(1000)),
            top: None,
            options: PlacementOptions::default(),
        }
    }
}

impl SplitPlacement {
    /// Returns what the switch counts for this placement; `None` if it counts nothing.
    pub fn flight_options(&self, plan: &SplitPlan) -> Option<FlightOptions> {
        let EntryPolicy::Windows(policy) = self.policy else {
            return None;
        };
        let declared = plan
            .mirrored
            .iter()
            .map(|mirrored| u64::from(mirrored.entries));
        let top = self
            .top
            .unwrap_or(u64::MAX)
            .min(declared.max().unwrap_or(0));
        Some(FlightOptions {
            policy,
            sketch: self.options.sketch,
            reports: (top as usize).saturating_mul(4).min(MAX_REPORTS) + MORE_REPORTS,
        })
    }

    /// Returns the threshold of the first window. Only the exact policies report all keys.
    pub fn first_threshold(&self) -> u64 {
        match self.policy {
            EntryPolicy::Windows(placement::Policy::Random | placement::Policy::Heap) => 0,
            _ => u64::MAX,
        }
    }

    /// Returns the parameters for one table.
    fn options_of(&self, declared: u32) -> PlacementOptions {
        // More entries than declared do not fit into the switch's table.
        let top = self.top.unwrap_or(u64::MAX).min(declared.into());
        PlacementOptions {
            policy: match self.policy {
                EntryPolicy::Asked => placement::Policy::None,
                EntryPolicy::Windows(policy) => policy,
            },
            top,
            ..self.options
        }
    }
}

/// Address of a prefix table: the number of the exact keys, and the bits of the prefix key.
/// Packed, because there is one in each node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub(crate) struct RouteAddress {
    group: u32,
    address: u128,
}

impl Address for RouteAddress {
    const WIDTH: u8 = GROUP_BITS + MAX_PREFIX as u8;

    fn first(self, len: u8) -> RouteAddress {
        RouteAddress {
            group: self.group.first(len.min(GROUP_BITS)),
            address: self.address.first(len.saturating_sub(GROUP_BITS)),
        }
    }

    fn bit(self, at: u8) -> usize {
        match at.checked_sub(GROUP_BITS) {
            None => self.group.bit(at),
            Some(at) if u32::from(at) < MAX_PREFIX => self.address.bit(at),
            Some(_) => 0,
        }
    }

    fn shared(self, other: RouteAddress) -> u8 {
        match self.group.shared(other.group) {
            GROUP_BITS => GROUP_BITS + self.address.shared(other.address),
            shared => shared,
        }
    }
}

/// No entry. Ids do not reach this number.
const NO_ENTRY: EntryId = EntryId(u64::MAX);

/// Number of the exact keys beside a prefix, and the number of items with them.
#[derive(Clone, Copy, Debug)]
struct Group {
    number: u32,
    items: u32,
}

/// Item in the switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InSwitch {
    pub(crate) entry: EntryId,
    /// True for an entry that makes packets fly.
    pub(crate) is_cover: bool,
    /// Hits at the end of the last window.
    pub(crate) hits: u64,
}

/// Entry that a handler has added.
#[derive(Clone, Debug)]
pub(crate) struct LearnedItem {
    pub(crate) key: Box<[u64]>,
    /// Its id at servers.
    pub(crate) id: EntryId,
    pub(crate) entry: TableEntry,
}

/// Items by key, and their placement.
enum Keys {
    Exact {
        items: HashMap<Box<[u8]>, ItemId>,
        keys: Vec<Box<[u8]>>,
        free: Vec<ItemId>,
        placement: FlowPlacement,
    },
    Prefixes {
        /// Exact keys beside the prefix.
        groups: HashMap<Box<[u8]>, Group>,
        /// Numbers of groups that are gone.
        free: Vec<u32>,
        placement: RoutePlacement<RouteAddress>,
    },
}

impl Keys {
    /// Creates the index of a table without entries.
    fn new(
        prefix_key: Option<usize>,
        options: PlacementOptions,
        nesting: Nesting,
    ) -> Result<Keys, OptionsError> {
        Ok(match prefix_key {
            None => Keys::Exact {
                items: HashMap::new(),
                keys: Vec::new(),
                free: Vec::new(),
                placement: FlowPlacement::new(options)?,
            },
            Some(_) => Keys::Prefixes {
                groups: HashMap::new(),
                free: Vec::new(),
                placement: RoutePlacement::new(options, nesting)?,
            },
        })
    }
}

/// A mirrored table, as the coordinator sees it.
pub(crate) struct MirrorIndex {
    pub(crate) table: TableId,
    declared: u32,
    widths: Vec<u32>,
    prefix_key: Option<usize>,
    policy: EntryPolicy,
    capacity: usize,
    keys: Keys,
    /// Entries that controllers have written, by item; [`NO_ENTRY`] where there is none.
    written: Vec<EntryId>,
    /// Entries that handlers have added, by item.
    added: HashMap<ItemId, EntryId>,
    /// Number of entries of both kinds.
    entries: usize,
    /// Entries that handlers have added, by their keys.
    learned: HashMap<Box<[u64]>, EntryId>,
    learned_entries: HashMap<EntryId, LearnedItem>,
    next_learned: u64,
    pub(crate) in_switch: BTreeMap<ItemId, InSwitch>,
    /// For the policy `asked`: items in the switch, the oldest first.
    asked: VecDeque<ItemId>,
}

/// Deletion of an entry: moves before servers delete it, and the item.
pub(crate) struct Removal {
    pub(crate) moves: Vec<Move>,
    /// The item, if no entry is left, with its exact keys.
    item: Option<(ItemId, Box<[u8]>)>,
}

impl MirrorIndex {
    /// Creates the index of a table without entries.
    ///
    /// # Errors
    /// An option is outside of its range.
    pub(crate) fn new(
        mirrored: &MirroredTable,
        placement: &SplitPlacement,
    ) -> Result<MirrorIndex, OptionsError> {
        let options = placement.options_of(mirrored.entries);
        let keys = Keys::new(mirrored.prefix_key, options, placement.nesting)?;
        Ok(MirrorIndex {
            table: mirrored.table,
            declared: mirrored.entries,
            widths: mirrored.key_widths.clone(),
            prefix_key: mirrored.prefix_key,
            policy: placement.policy,
            capacity: options.top as usize,
            keys,
            written: Vec::new(),
            added: HashMap::new(),
            entries: 0,
            learned: HashMap::new(),
            learned_entries: HashMap::new(),
            next_learned: FIRST_LEARNED,
            in_switch: BTreeMap::new(),
            asked: VecDeque::new(),
        })
    }

    /// Returns true if the switch can hold entries of the table.
    pub(crate) fn is_cached(&self) -> bool {
        self.declared > 0
    }

    /// Returns the length of an item's prefix; 0 for an exact key.
    pub(crate) fn prefix_length(&self, item: ItemId) -> u8 {
        match &self.keys {
            Keys::Exact { .. } => 0,
            Keys::Prefixes { placement, .. } => {
                placement.tree().prefix(item).map_or(0, Prefix::len)
            }
        }
    }

    /// Returns the width of the whole key in bits.
    pub(crate) fn width(&self) -> usize {
        self.widths.iter().map(|&width| width as usize).sum()
    }

    fn is_asked(&self) -> bool {
        self.policy == EntryPolicy::Asked
    }

    /// Returns the entry that packets with this key find.
    pub(crate) fn winner(&self, item: ItemId) -> Option<EntryId> {
        let written = self.written.get(item.0 as usize).copied();
        let written = written.filter(|entry| *entry != NO_ENTRY);
        written.or_else(|| self.added.get(&item).copied())
    }

    fn set_written(&mut self, item: ItemId, entry: EntryId) {
        let at = item.0 as usize;
        if self.written.len() <= at {
            self.written.resize(at + 1, NO_ENTRY);
        }
        self.written[at] = entry;
    }

    /// Adds an entry that a controller has written. Returns the moves that come before servers get
    /// it.
    pub(crate) fn insert(&mut self, keys: &[KeyMatch], entry: EntryId) -> Vec<Move> {
        self.add(keys, entry, false)
    }

    fn add(&mut self, keys: &[KeyMatch], entry: EntryId, is_learned: bool) -> Vec<Move> {
        let Some((item, mut moves)) = self.item(keys) else {
            return Vec::new();
        };
        if self.is_asked() {
            moves = self.asked_above(item);
        }
        let before = self.winner(item);
        match is_learned {
            true => {
                self.added.insert(item, entry);
            }
            false => self.set_written(item, entry),
        }
        self.entries += 1;
        let after = self.winner(item);
        if before.is_some() && before != after {
            moves.extend(self.leave(item));
        }
        moves
    }

    /// Returns the item of a key, a new one if there is none, and the moves that a new one needs.
    /// `None` if the key is neither exact nor a prefix.
    fn item(&mut self, keys: &[KeyMatch]) -> Option<(ItemId, Vec<Move>)> {
        let exact = self.exact_of(keys)?;
        let prefix = match self.prefix_key {
            None => None,
            Some(at) => Some(prefix_of(&keys[at], self.widths[at])?),
        };
        match &mut self.keys {
            Keys::Exact {
                items, keys, free, ..
            } => {
                if let Some(&item) = items.get(&exact) {
                    return Some((item, Vec::new()));
                }
                let item = free.pop().unwrap_or_else(|| {
                    keys.push(Box::default());
                    ItemId(keys.len() as u32 - 1)
                });
                keys[item.0 as usize] = exact.clone();
                items.insert(exact, item);
                Some((item, Vec::new()))
            }
            Keys::Prefixes {
                groups,
                free,
                placement,
            } => {
                let (address, len) = prefix?;
                let next = groups.len() as u32;
                let group = groups.entry(exact).or_insert_with(|| Group {
                    number: free.pop().unwrap_or(next),
                    items: 0,
                });
                let address = RouteAddress {
                    group: group.number,
                    address,
                };
                let inserted = placement.insert(Prefix::new(address, GROUP_BITS + len));
                group.items += u32::from(inserted.is_new);
                Some((inserted.item, inserted.moves))
            }
        }
    }

    /// Returns the item of a key, with its exact keys, if there is one.
    fn find(&self, keys: &[KeyMatch]) -> Option<(ItemId, Box<[u8]>)> {
        let exact = self.exact_of(keys)?;
        let item = match &self.keys {
            Keys::Exact { items, .. } => *items.get(&exact)?,
            Keys::Prefixes {
                groups, placement, ..
            } => {
                let at = self.prefix_key?;
                let (address, len) = prefix_of(keys.get(at)?, self.widths[at])?;
                let group = groups.get(&exact)?.number;
                let prefix = Prefix::new(RouteAddress { group, address }, GROUP_BITS + len);
                placement.tree().find(prefix)?
            }
        };
        Some((item, exact))
    }

    /// Takes the shorter prefixes of an item out of the switch, with the policy `asked`.
    fn asked_above(&mut self, item: ItemId) -> Vec<Move> {
        let Keys::Prefixes { placement, .. } = &self.keys else {
            return Vec::new();
        };
        let above: Vec<ItemId> = placement.tree().ancestors(item).collect();
        above
            .into_iter()
            .filter_map(|item| self.leave_asked(item))
            .collect()
    }

    fn leave_asked(&mut self, item: ItemId) -> Option<Move> {
        let at = self.asked.iter().position(|&asked| asked == item)?;
        self.asked.remove(at);
        Some(Move::Evict(item))
    }

    /// Takes an item out of the switch for good.
    fn leave(&mut self, item: ItemId) -> Vec<Move> {
        if self.is_asked() {
            return self.leave_asked(item).into_iter().collect();
        }
        match &mut self.keys {
            Keys::Exact { placement, .. } => placement.change(item).into_iter().collect(),
            Keys::Prefixes { placement, .. } => placement.refuse(item),
        }
    }

    /// Begins the change of an entry with this key. Returns the moves that come before servers
    /// change.
    pub(crate) fn begin_change(&mut self, keys: &[KeyMatch], entry: EntryId) -> Vec<Move> {
        match self.find(keys) {
            Some((item, _)) => self.begin_change_of(item, entry),
            None => Vec::new(),
        }
    }

    fn begin_change_of(&mut self, item: ItemId, entry: EntryId) -> Vec<Move> {
        if self.winner(item) != Some(entry) {
            return Vec::new();
        }
        match &mut self.keys {
            Keys::Prefixes { placement, .. } if self.policy != EntryPolicy::Asked => {
                placement.begin_change(item)
            }
            _ => self.leave(item),
        }
    }

    /// Ends the change of an entry after servers changed. Returns the moves that come then.
    pub(crate) fn end_change(&mut self, keys: &[KeyMatch]) -> Vec<Move> {
        let item = self.find(keys).map(|(item, _)| item);
        match (&mut self.keys, item) {
            (Keys::Prefixes { placement, .. }, Some(item)) if self.policy != EntryPolicy::Asked => {
                placement.end_change(item)
            }
            _ => Vec::new(),
        }
    }

    /// Begins the deletion of an entry with this key.
    pub(crate) fn begin_removal(&mut self, keys: &[KeyMatch], entry: EntryId) -> Removal {
        let Some((item, exact)) = self.find(keys) else {
            let (moves, item) = (Vec::new(), None);
            return Removal { moves, item };
        };
        let moves = self.begin_change_of(item, entry);
        let at = item.0 as usize;
        let is_known = if self.written.get(at) == Some(&entry) {
            self.written[at] = NO_ENTRY;
            true
        } else if self.added.get(&item) == Some(&entry) {
            self.added.remove(&item);
            true
        } else {
            false
        };
        self.entries -= usize::from(is_known);
        let is_last = is_known && self.winner(item).is_none();
        Removal {
            moves,
            item: is_last.then_some((item, exact)),
        }
    }

    /// Ends a deletion after servers deleted the entry. Returns the moves that come then.
    pub(crate) fn end_removal(&mut self, removal: &Removal) -> Vec<Move> {
        let Some((item, exact)) = &removal.item else {
            return Vec::new();
        };
        match &mut self.keys {
            Keys::Exact {
                items, keys, free, ..
            } => {
                items.remove(exact);
                keys[item.0 as usize] = Box::default();
                free.push(*item);
                Vec::new()
            }
            Keys::Prefixes {
                groups,
                free,
                placement,
            } => {
                if let Some(group) = groups.get_mut(exact) {
                    group.items -= 1;
                    if group.items == 0 {
                        free.push(group.number);
                        groups.remove(exact);
                    }
                }
                placement.delete(*item)
            }
        }
    }

    /// Adds an entry that a handler has added, or replaces the one with its key. Returns the moves
    /// that come before servers get it.
    pub(crate) fn learn(
        &mut self,
        key: &[u64],
        server_id: EntryId,
        entry: TableEntry,
    ) -> Vec<Move> {
        let mut moves = self.forget(key);
        let id = EntryId(self.next_learned);
        self.next_learned += 1;
        moves.extend(self.add(&entry.keys, id, true));
        self.learned.insert(key.into(), id);
        let item = LearnedItem {
            key: key.into(),
            id: server_id,
            entry,
        };
        self.learned_entries.insert(id, item);
        moves
    }

    /// Removes an entry that a handler has added.
    pub(crate) fn forget(&mut self, key: &[u64]) -> Vec<Move> {
        let Some(id) = self.learned.remove(key) else {
            return Vec::new();
        };
        let Some(item) = self.learned_entries.remove(&id) else {
            return Vec::new();
        };
        let removal = self.begin_removal(&item.entry.keys, id);
        let after = self.end_removal(&removal);
        [removal.moves, after].concat()
    }

    /// Returns an entry that a handler has added.
    pub(crate) fn learned(&self, id: EntryId) -> Option<&LearnedItem> {
        self.learned_entries.get(&id)
    }

    /// Returns the entries that handlers have added.
    pub(crate) fn all_learned(&self) -> impl Iterator<Item = (EntryId, &LearnedItem)> {
        self.learned_entries.iter().map(|(id, item)| (*id, item))
    }

    /// Returns the entries with a time-out that handlers have added.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (EntryId, &LearnedItem)> {
        self.all_learned()
            .filter(|(_, item)| item.entry.idle_timeout.is_some())
    }

    /// Removes these entries, which controllers have written, and all entries of handlers. Returns
    /// the moves that come before servers do so.
    pub(crate) fn clear(&mut self, written: &[(Vec<KeyMatch>, EntryId)]) -> Vec<Move> {
        let mut moves = Vec::new();
        for (keys, entry) in written {
            let removal = self.begin_removal(keys, *entry);
            let after = self.end_removal(&removal);
            moves.extend(removal.moves);
            moves.extend(after);
        }
        let learned: Vec<Box<[u64]>> = self.learned.keys().cloned().collect();
        for key in learned {
            moves.extend(self.forget(&key));
        }
        moves
    }

    /// Returns the entry that a handler has added with this key.
    pub(crate) fn learned_with(&self, key: &[u64]) -> Option<(EntryId, &LearnedItem)> {
        let id = *self.learned.get(key)?;
        Some((id, self.learned_entries.get(&id)?))
    }

    /// Returns the id that the next entry of a handler gets.
    pub(crate) fn next_learned(&self) -> EntryId {
        EntryId(self.next_learned)
    }

    /// Returns the item that a key finds.
    fn lookup(&self, key: &[u8]) -> Option<ItemId> {
        match &self.keys {
            Keys::Exact { items, .. } => items.get(key).copied(),
            Keys::Prefixes { placement, .. } => placement.tree().lookup(self.address(key)?),
        }
    }

    /// Returns the address of a key in a frame.
    fn address(&self, key: &[u8]) -> Option<RouteAddress> {
        let (Keys::Prefixes { groups, .. }, Some(at)) = (&self.keys, self.prefix_key) else {
            return None;
        };
        let before: usize = self.widths[..at].iter().map(|&width| width as usize).sum();
        let width = self.widths[at];
        let mut exact = BitBuffer::default();
        push_bits(&mut exact, key, 0, before);
        let behind = before + width as usize;
        push_bits(&mut exact, key, behind, self.width() - behind);
        let group = groups.get(exact.bytes())?.number;
        let address = bits_at(key, before, width as usize);
        let address = address.checked_shl(MAX_PREFIX - width).unwrap_or(0);
        Some(RouteAddress { group, address })
    }

    /// Returns the moves by which the entry that the key finds gets into the switch, with the
    /// policy `asked`. It may be there if no longer prefix is below it. The oldest one leaves for
    /// it.
    pub(crate) fn ask(&mut self, key: &[u8]) -> Vec<Move> {
        if !self.is_asked() || self.capacity == 0 {
            return Vec::new();
        }
        let Some(item) = self.lookup(key) else {
            return Vec::new();
        };
        if let Keys::Prefixes { placement, .. } = &self.keys
            && placement.tree().children(item).next().is_some()
        {
            return Vec::new();
        }
        if self.asked.contains(&item) {
            return Vec::new();
        }
        let mut moves = Vec::new();
        if self.asked.len() >= self.capacity {
            moves.extend(self.asked.pop_front().map(Move::Evict));
        }
        self.asked.push_back(item);
        moves.push(Move::Install(item));
        moves
    }

    /// Notes that the switch does not have an item that a move put there. Returns the moves that
    /// follow from it.
    pub(crate) fn refused(&mut self, item: ItemId) -> Vec<Move> {
        self.leave(item)
    }

    /// Returns the number of entries that the switch holds at most.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the item of an entry in the switch.
    pub(crate) fn held_item(&self, entry: EntryId) -> Option<ItemId> {
        let mut held = self.in_switch.iter();
        let found = held.find(|(_, held)| held.entry == entry);
        found.map(|(item, _)| *item)
    }

    /// Sets policy and parameters. Entries that the new policy would not hold leave with the next
    /// window; with `asked`, all leave at once.
    ///
    /// # Errors
    /// An option is outside of its range.
    pub(crate) fn set_placement(
        &mut self,
        placement: &SplitPlacement,
        entries: impl Iterator<Item = (Vec<KeyMatch>, EntryId)>,
    ) -> Result<(), OptionsError> {
        let options = placement.options_of(self.declared);
        self.policy = placement.policy;
        self.capacity = options.top as usize;
        self.asked.clear();
        self.written.clear();
        self.added.clear();
        self.entries = 0;
        self.in_switch.clear();
        self.keys = Keys::new(self.prefix_key, options, placement.nesting)?;
        for (keys, entry) in entries {
            self.insert(&keys, entry);
        }
        let learned: Vec<(EntryId, Vec<KeyMatch>)> = self
            .learned_entries
            .iter()
            .map(|(id, item)| (*id, item.entry.keys.clone()))
            .collect();
        for (id, keys) in learned {
            self.add(&keys, id, true);
        }
        Ok(())
    }

    /// Ends a window. `hits` returns the packets of an entry in the switch so far.
    pub(crate) fn end_window(
        &mut self,
        flown: u64,
        reports: &[FlightReport],
        hits: impl Fn(EntryId) -> Option<u64>,
    ) -> Decision {
        let mut counts = Vec::new();
        let mut all_hits = 0;
        for (&item, held) in &mut self.in_switch {
            let Some(now) = hits(held.entry) else {
                continue;
            };
            let packets = now.saturating_sub(held.hits);
            held.hits = now;
            if !held.is_cover {
                all_hits += packets;
                counts.push(Count { item, packets });
            }
        }
        let packets = flown + all_hits;
        let flows = self.entries as u64;
        let found: Vec<(ItemId, RouteAddress, u64)> = reports
            .iter()
            .filter_map(|report| {
                let item = self.lookup(&report.key)?;
                let address = self.address(&report.key);
                let address = address.unwrap_or(RouteAddress {
                    group: 0,
                    address: 0,
                });
                Some((item, address, report.packets))
            })
            .collect();
        match &mut self.keys {
            Keys::Exact { placement, .. } => {
                let reports: Vec<Count> = found
                    .iter()
                    .map(|&(item, _, packets)| Count { item, packets })
                    .collect();
                placement.end_window(&FlowWindow {
                    packets,
                    flows,
                    reports: &reports,
                    hits: &counts,
                })
            }
            Keys::Prefixes { placement, .. } => {
                let reports: Vec<(RouteAddress, u64)> = found
                    .iter()
                    .map(|&(_, address, packets)| (address, packets))
                    .collect();
                placement.end_window(&RouteWindow {
                    packets,
                    flows,
                    reports: &reports,
                    hits: &counts,
                })
            }
        }
    }

    /// Returns the threshold of the running window.
    pub(crate) fn threshold(&self) -> u64 {
        match &self.keys {
            Keys::Exact { placement, .. } => placement.threshold(),
            Keys::Prefixes { placement, .. } => placement.threshold(),
        }
    }

    /// Returns the exact keys of an entry, as they are in frames. `None` if one is not exact.
    fn exact_of(&self, keys: &[KeyMatch]) -> Option<Box<[u8]>> {
        let mut exact = BitBuffer::default();
        for (at, key) in keys.iter().enumerate() {
            if Some(at) == self.prefix_key {
                continue;
            }
            match key {
                KeyMatch::Exact(value) => exact.push(value.limbs(), self.widths[at]),
                _ => return None,
            }
        }
        Some(exact.bytes().into())
    }
}

/// Returns the address and length of a prefix, aligned to the left.
fn prefix_of(key: &KeyMatch, width: u32) -> Option<(u128, u8)> {
    let (value, len) = match key {
        KeyMatch::Any => (0, 0),
        KeyMatch::Exact(value) => (number(value), width),
        KeyMatch::Lpm(value, len) => (number(value), *len),
        KeyMatch::Ternary(..) | KeyMatch::Range(..) => return None,
    };
    let shift = MAX_PREFIX.checked_sub(width)?;
    let address = value.checked_shl(shift).unwrap_or(0);
    Some((address, len.min(width) as u8))
}

fn number(value: &Value) -> u128 {
    let limbs = value.limbs();
    let limb = |at: usize| u128::from(limbs.get(at).copied().unwrap_or(0));
    limb(0) | limb(1) << 64
}

/// Returns up to 128 bits of a bit string.
fn bits_at(bytes: &[u8], first: usize, width: usize) -> u128 {
    (first..first + width).fold(0, |value, at| {
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        value << 1 | u128::from(byte >> (7 - at % 8) & 1)
    })
}

fn push_bits(to: &mut BitBuffer, bytes: &[u8], first: usize, width: usize) {
    for at in (first..first + width).step_by(64) {
        let now = (first + width - at).min(64);
        to.push_u64(bits_at(bytes, at, now) as u64, now as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::Action;

    fn mirrored(prefix_key: Option<usize>) -> MirroredTable {
        MirroredTable {
            table: TableId::new(0),
            entries: 2,
            prefix_key,
            key_widths: vec![16],
            miss_action: 1,
            is_captured: false,
        }
    }

    fn keys(value: u128) -> Vec<KeyMatch> {
        vec![KeyMatch::Exact(Value::truncated(value, 16))]
    }

    fn learned(value: u128) -> TableEntry {
        TableEntry {
            keys: keys(value),
            priority: None,
            action: Action::Call(ir::ActionCall {
                action: 0,
                args: Vec::new(),
            }),
            idle_timeout: None,
            meter: None,
            counter: None,
        }
    }

    #[test]
    fn a_controllers_entry_comes_before_a_handlers_with_the_same_key() {
        let placement = SplitPlacement::default();
        let mut index = MirrorIndex::new(&mirrored(None), &placement).expect("options are right");
        let key = [0, 7];
        assert_eq!(index.learn(&[7], EntryId(1), learned(7)), []);
        let [Move::Install(item)] = index.ask(&key)[..] else {
            panic!("the entry moves to the switch");
        };
        let of_handler = index.winner(item);
        // The controller's entry takes the place, and the handler's leaves the switch.
        assert_eq!(index.insert(&keys(7), EntryId(3)), [Move::Evict(item)]);
        assert_eq!(index.winner(item), Some(EntryId(3)));
        assert_eq!(index.ask(&key), [Move::Install(item)]);
        // A change of the handler's entry does not concern the switch.
        assert_eq!(index.learn(&[7], EntryId(1), learned(7)), []);
        assert_eq!(index.winner(item), Some(EntryId(3)));
        let removal = index.begin_removal(&keys(7), EntryId(3));
        assert_eq!(removal.moves, [Move::Evict(item)]);
        assert_eq!(index.end_removal(&removal), []);
        let winner = index.winner(item);
        assert!(winner.is_some_and(|entry| entry.0 > FIRST_LEARNED) && winner != of_handler);
        assert_eq!(index.ask(&key), [Move::Install(item)]);
        assert_eq!(index.forget(&[7]), [Move::Evict(item)]);
        assert_eq!(index.ask(&key), []);
    }

    #[test]
    fn a_prefix_leaves_the_switch_when_a_longer_one_comes() {
        let placement = SplitPlacement::default();
        let index = MirrorIndex::new(&mirrored(Some(0)), &placement);
        let mut index = index.expect("options are right");
        let prefix = |value, len| vec![KeyMatch::Lpm(Value::truncated(value, 16), len)];
        index.insert(&prefix(0x1200, 8), EntryId(1));
        let [Move::Install(item)] = index.ask(&[0x12, 0x34])[..] else {
            panic!("the entry moves to the switch");
        };
        let moves = index.insert(&prefix(0x1230, 12), EntryId(2));
        assert_eq!(moves, [Move::Evict(item)]);
        assert!(index.ask(&[0x12, 0x44]).is_empty());
        assert_eq!(index.ask(&[0x12, 0x34]).len(), 1);
    }
}

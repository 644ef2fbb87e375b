//! Action profiles and action selectors: actions that entries refer to by member or group.

use crate::entry::{ActionRef, GroupId, MemberId};
use crate::limb_map::LimbMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Member of a group with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupMember {
    /// The member.
    pub member: MemberId,
    /// Its share of the packets in proportion to the other members' weights; at least 1.
    pub weight: u32,
}

/// Error of a rejected update. The profile is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileError {
    /// The member exists already.
    DuplicateMember(MemberId),
    /// The group exists already.
    DuplicateGroup(GroupId),
    /// There is no such member.
    NoSuchMember(MemberId),
    /// There is no such group.
    NoSuchGroup(GroupId),
    /// The group has the member twice.
    RepeatedMember(MemberId),
    /// The member's weight is 0.
    ZeroWeight(MemberId),
    /// The member is in a group. It must be removed from the group first.
    MemberInGroup {
        /// The member.
        member: MemberId,
        /// One of its groups.
        group: GroupId,
    },
    /// The profile has its maximum number of members.
    Full {
        /// The maximum.
        capacity: usize,
    },
    /// The sum of the group's weights exceeds the maximum group size of the selector.
    GroupTooLarge {
        /// The sum of the weights.
        size: u64,
        /// The maximum.
        max: u64,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateMember(id) => write!(f, "member {id} exists already"),
            Self::DuplicateGroup(id) => write!(f, "group {id} exists already"),
            Self::NoSuchMember(id) => write!(f, "there is no member {id}; insert it first"),
            Self::NoSuchGroup(id) => write!(f, "there is no group {id}"),
            Self::RepeatedMember(id) => {
                write!(
                    f,
                    "the group names member {id} twice; give it a weight instead"
                )
            }
            Self::ZeroWeight(id) => {
                write!(f, "the weight of member {id} is 0; it must be 1 or more")
            }
            Self::MemberInGroup { member, group } => {
                write!(f, "member {member} is in group {group}; take it out first")
            }
            Self::Full { capacity } => {
                let members = support::count::count(*capacity as u64, "member");
                write!(f, "the action profile is full: it takes {members}")
            }
            Self::GroupTooLarge { size, max } => {
                write!(
                    f,
                    "the weights of the group sum up to {size}; at most {max} is allowed"
                )
            }
        }
    }
}

impl std::error::Error for ProfileError {}

/// Control side of an action profile, which is an action selector if groups are used.
#[derive(Debug)]
pub struct ActionProfile {
    capacity: usize,
    max_group_size: Option<u64>,
    members: BTreeMap<MemberId, Arc<ActionRef>>,
    groups: BTreeMap<GroupId, Arc<Group>>,
    /// The groups of each member.
    parts: BTreeSet<(MemberId, GroupId)>,
    lookup: ProfileLookup,
}

/// Group in the form that packets use.
#[derive(Debug)]
struct Group {
    members: Box<[GroupMember]>,
    /// For each member, the sum of the weights up to and including its own.
    weight_until: Box<[u64]>,
}

impl Group {
    fn new(members: Vec<GroupMember>) -> Self {
        let weights = members.iter().map(|member| u64::from(member.weight));
        let weight_until = weights
            .scan(0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        Self {
            members: members.into(),
            weight_until,
        }
    }

    #[inline]
    fn pick(&self, hash: u64) -> Option<MemberId> {
        let share = hash % *self.weight_until.last()?;
        let place = self.weight_until.partition_point(|&until| until <= share);
        Some(self.members[place].member)
    }
}

impl ActionProfile {
    /// Creates an empty profile for at most `capacity` members. The sum of the weights of a group
    /// is at most `max_group_size`.
    pub fn new(capacity: usize, max_group_size: Option<u64>) -> Self {
        Self {
            capacity,
            max_group_size,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            parts: BTreeSet::new(),
            lookup: ProfileLookup {
                members: LimbMap::new(),
                groups: LimbMap::new(),
            },
        }
    }

    /// Inserts a member.
    pub fn insert_member(&mut self, id: MemberId, action: ActionRef) -> Result<(), ProfileError> {
        if self.members.contains_key(&id) {
            return Err(ProfileError::DuplicateMember(id));
        }
        if self.members.len() >= self.capacity {
            return Err(ProfileError::Full {
                capacity: self.capacity,
            });
        }
        self.put_member(id, action);
        Ok(())
    }

    /// Changes the action of a member, for all groups and entries that refer to it.
    pub fn modify_member(&mut self, id: MemberId, action: ActionRef) -> Result<(), ProfileError> {
        if !self.members.contains_key(&id) {
            return Err(ProfileError::NoSuchMember(id));
        }
        self.put_member(id, action);
        Ok(())
    }

    /// Deletes a member that is in no group. The caller must check that no entry refers to it
    /// ([`Table::uses_of_member`](crate::Table::uses_of_member)).
    pub fn delete_member(&mut self, id: MemberId) -> Result<(), ProfileError> {
        let all = (id, GroupId::new(u32::MIN))..=(id, GroupId::new(u32::MAX));
        if let Some(&(_, group)) = self.parts.range(all).next() {
            return Err(ProfileError::MemberInGroup { member: id, group });
        }
        self.members
            .remove(&id)
            .ok_or(ProfileError::NoSuchMember(id))?;
        self.lookup.members.remove(&[u64::from(id.get())]);
        Ok(())
    }

    /// Returns the action of a member.
    pub fn member(&self, id: MemberId) -> Option<&ActionRef> {
        self.members.get(&id).map(|action| &**action)
    }

    /// Iterates over all members, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (MemberId, &ActionRef)> {
        self.members.iter().map(|(&id, action)| (id, &**action))
    }

    /// Inserts a group.
    pub fn insert_group(
        &mut self,
        id: GroupId,
        members: Vec<GroupMember>,
    ) -> Result<(), ProfileError> {
        if self.groups.contains_key(&id) {
            return Err(ProfileError::DuplicateGroup(id));
        }
        self.check_group(&members)?;
        self.put_group(id, members);
        Ok(())
    }

    /// Replaces the members of a group.
    pub fn modify_group(
        &mut self,
        id: GroupId,
        members: Vec<GroupMember>,
    ) -> Result<(), ProfileError> {
        if !self.groups.contains_key(&id) {
            return Err(ProfileError::NoSuchGroup(id));
        }
        self.check_group(&members)?;
        self.put_group(id, members);
        Ok(())
    }

    /// Deletes a group. The caller must check that no entry refers to it
    /// ([`Table::uses_of_group`](crate::Table::uses_of_group)).
    pub fn delete_group(&mut self, id: GroupId) -> Result<(), ProfileError> {
        if !self.groups.contains_key(&id) {
            return Err(ProfileError::NoSuchGroup(id));
        }
        self.take_group(id);
        self.lookup.groups.remove(&[u64::from(id.get())]);
        Ok(())
    }

    /// Returns the members of a group.
    pub fn group(&self, id: GroupId) -> Option<&[GroupMember]> {
        self.groups.get(&id).map(|group| &*group.members)
    }

    /// Iterates over all groups, by id.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (GroupId, &[GroupMember])> {
        self.groups.iter().map(|(&id, group)| (id, &*group.members))
    }

    /// Deletes all groups and members.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity, self.max_group_size);
    }

    /// Returns the current state of the profile for packets to read.
    pub fn snapshot(&self) -> Arc<ProfileLookup> {
        Arc::new(self.lookup.clone())
    }

    fn put_member(&mut self, id: MemberId, action: ActionRef) {
        let action = Arc::new(action);
        self.lookup
            .members
            .insert(&[u64::from(id.get())], action.clone());
        self.members.insert(id, action);
    }

    fn put_group(&mut self, id: GroupId, members: Vec<GroupMember>) {
        self.take_group(id);
        let parts = members.iter().map(|member| (member.member, id));
        self.parts.extend(parts);
        let group = Arc::new(Group::new(members));
        self.lookup
            .groups
            .insert(&[u64::from(id.get())], group.clone());
        self.groups.insert(id, group);
    }

    /// Removes a group and its members' references to it, if it exists.
    fn take_group(&mut self, id: GroupId) {
        for member in self.groups.remove(&id).iter().flat_map(|g| &g.members) {
            self.parts.remove(&(member.member, id));
        }
    }

    fn check_group(&self, members: &[GroupMember]) -> Result<(), ProfileError> {
        let mut seen = std::collections::HashSet::with_capacity(members.len());
        for &GroupMember { member, weight } in members {
            if !self.members.contains_key(&member) {
                return Err(ProfileError::NoSuchMember(member));
            }
            if weight == 0 {
                return Err(ProfileError::ZeroWeight(member));
            }
            if !seen.insert(member) {
                return Err(ProfileError::RepeatedMember(member));
            }
        }
        let size = members.iter().map(|member| u64::from(member.weight)).sum();
        match self.max_group_size {
            Some(max) if size > max => Err(ProfileError::GroupTooLarge { size, max }),
            _ => Ok(()),
        }
    }
}

/// Immutable snapshot of an action profile.
#[derive(Debug, Clone)]
pub struct ProfileLookup {
    members: LimbMap<Arc<ActionRef>>,
    groups: LimbMap<Arc<Group>>,
}

impl ProfileLookup {
    /// Returns the action of a member; `None` if there is no such member.
    #[inline]
    pub fn member(&self, id: MemberId) -> Option<&ActionRef> {
        self.members
            .get(&[u64::from(id.get())])
            .map(|action| &**action)
    }

    /// Selects the member of a group for a packet with this hash. The same hash selects the same
    /// member, and members are selected in proportion to their weights. Returns `None` if the group
    /// is empty or does not exist.
    #[inline]
    pub fn pick(&self, group: GroupId, hash: u64) -> Option<MemberId> {
        self.groups.get(&[u64::from(group.get())])?.pick(hash)
    }
}

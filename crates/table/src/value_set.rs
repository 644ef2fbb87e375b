//! [`ValueSet`]: a parser value set (P4_16 section 13.11), set at run time.

use crate::key::{FieldMatch, KeyError, KeyShape};
use std::fmt;
use std::sync::Arc;

/// Error of a rejected update. The set is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSetError {
    /// The set would have more than its maximum number of members.
    Full {
        /// The maximum.
        capacity: usize,
    },
    /// A member is not well formed.
    BadMember {
        /// Index of the member among those given, from 0.
        index: usize,
        /// Fault of the member.
        error: KeyError,
    },
    /// The member is in the set already.
    Duplicate,
    /// The member is not in the set.
    NotFound,
}

impl fmt::Display for ValueSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { capacity } => {
                let members = support::count::count(*capacity as u64, "member");
                write!(f, "the value set takes {members} at most")
            }
            Self::BadMember { index, error } => write!(f, "member {index}: {error}"),
            Self::Duplicate => f.write_str("the value set has this member already"),
            Self::NotFound => f.write_str("the value set does not have this member"),
        }
    }
}

impl std::error::Error for ValueSetError {}

/// Parser value set. A clone is a snapshot that shares the members.
#[derive(Debug, Clone)]
pub struct ValueSet {
    shape: Arc<KeyShape>,
    capacity: usize,
    members: Arc<Vec<Box<[FieldMatch]>>>,
}

impl ValueSet {
    /// Creates an empty set of at most `capacity` members of this shape.
    pub fn new(shape: KeyShape, capacity: usize) -> Self {
        Self {
            shape: Arc::new(shape),
            capacity,
            members: Arc::default(),
        }
    }

    /// Returns the shape of the members.
    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    /// Iterates over the members, in the order given.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &[FieldMatch]> {
        self.members.iter().map(|member| &**member)
    }

    /// Replaces all members (P4Runtime, section "ValueSetEntry").
    pub fn set(&mut self, members: Vec<Vec<FieldMatch>>) -> Result<(), ValueSetError> {
        if members.len() > self.capacity {
            return Err(ValueSetError::Full {
                capacity: self.capacity,
            });
        }
        for (index, member) in members.iter().enumerate() {
            self.check(index, member)?;
            if members[..index].contains(member) {
                return Err(ValueSetError::Duplicate);
            }
        }
        self.members = Arc::new(members.into_iter().map(Into::into).collect());
        Ok(())
    }

    /// Adds a member.
    pub fn insert(&mut self, member: Vec<FieldMatch>) -> Result<(), ValueSetError> {
        self.check(0, &member)?;
        if self.members().any(|other| other == member) {
            return Err(ValueSetError::Duplicate);
        }
        if self.members.len() >= self.capacity {
            return Err(ValueSetError::Full {
                capacity: self.capacity,
            });
        }
        Arc::make_mut(&mut self.members).push(member.into());
        Ok(())
    }

    /// Removes a member.
    pub fn delete(&mut self, member: &[FieldMatch]) -> Result<(), ValueSetError> {
        let place = self.members().position(|other| other == member);
        let place = place.ok_or(ValueSetError::NotFound)?;
        Arc::make_mut(&mut self.members).remove(place);
        Ok(())
    }

    /// Returns true if any member matches the key. `key` has the limbs of each field in the order
    /// of the shape, canonical.
    #[inline]
    pub fn contains(&self, key: &[u64]) -> bool {
        self.members
            .iter()
            .any(|member| self.shape.matches(member, key))
    }

    fn check(&self, index: usize, member: &[FieldMatch]) -> Result<(), ValueSetError> {
        self.shape
            .check(member)
            .map_err(|error| ValueSetError::BadMember { index, error })
    }
}

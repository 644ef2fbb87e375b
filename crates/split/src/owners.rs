//! Owners of leased values: the server to which a packet with `@owner` goes.

use std::fmt;
use std::sync::Arc;

use placement::ServerId;

/// Servers that have leased the values of a pool.
pub trait PoolOwners: fmt::Debug + Send + Sync {
    /// Returns the server that has leased a value. Called for packets.
    fn owner(&self, value: u32) -> Option<ServerId>;
}

/// Pool of which each server of a group leases the chunks of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolParts {
    /// Number of values.
    pub size: u32,
    /// Number of values in a chunk.
    pub chunk: u32,
    /// Number of parts. Chunk number `n` is in part number `n % parts`.
    pub parts: u32,
    /// Server of part number 0. The other ones follow.
    pub first: ServerId,
}

impl PoolOwners for PoolParts {
    fn owner(&self, value: u32) -> Option<ServerId> {
        if value >= self.size {
            return None;
        }
        let part = (value / self.chunk.max(1)) % self.parts.max(1);
        let server = self.first.0.checked_add(u16::try_from(part).ok()?)?;
        Some(ServerId(server))
    }
}

/// Owners for each cut, from the first one on; `None` for a cut without `@owner`.
pub(crate) type CutOwners = Arc<[Option<Arc<dyn PoolOwners>>]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_pool_take_turns_among_the_servers() {
        let parts = PoolParts {
            size: 10,
            chunk: 2,
            parts: 3,
            first: ServerId(1),
        };
        let owners: Vec<Option<u16>> = (0..12)
            .map(|value| parts.owner(value).map(|server| server.0))
            .collect();
        let expected = [1, 1, 2, 2, 3, 3, 1, 1, 2, 2];
        let expected = expected.map(Some).into_iter().chain([None, None]);
        assert!(owners.into_iter().eq(expected));
    }
}

//! Typed numbers: terms, log indices, nodes, clients.

/// Defines a number with a type of its own.
macro_rules! define_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

define_number! {
    /// Number of a term: the time of at most one leader. Term 0 has none.
    Term
}
define_number! {
    /// Place of an entry in the log. The first entry has index 1.
    LogIndex
}
define_number! {
    /// Name of a node. A name is never used again for a node that lost its state.
    NodeId
}
define_number! {
    /// Name of a client's session: the index of the entry that opened it, and its slot.
    ClientId
}

impl Term {
    /// Returns the term after this one.
    pub const fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

impl LogIndex {
    /// Returns the index after this one.
    pub const fn next(self) -> LogIndex {
        LogIndex(self.0.saturating_add(1))
    }

    /// Returns the index before this one, or 0.
    pub const fn previous(self) -> LogIndex {
        LogIndex(self.0.saturating_sub(1))
    }

    /// Returns the index `count` places later.
    pub const fn plus(self, count: u64) -> LogIndex {
        LogIndex(self.0.saturating_add(count))
    }
}

//! Drop reasons: those of Polyplane, and those that handlers name.

use std::fmt;
use std::sync::OnceLock;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Reason for dropping a packet. Names are stable: reports, counters and traces use them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
            /// A handler dropped the packet and gave the reason this name.
            Named(NamedReason),
        }

        /// The reasons without those that handlers name: their positions are the indices. Programs
        /// see them (`@drop_reason`), so new ones are added at the end.
        enum Position { $($variant,)* }

        impl DropReason {
            /// All reasons without those that handlers name, indexed by [`DropReason::index`].
            pub const FIXED: &[DropReason] = &[$(DropReason::$variant,)*];

            /// Returns the reason's stable name.
            pub fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)*
                    DropReason::Named(reason) => reason.name(),
                }
            }

            /// Returns its index, which is below [`DropReason::COUNT`].
            #[inline]
            pub fn index(self) -> usize {
                match self {
                    $(DropReason::$variant => Position::$variant as usize,)*
                    DropReason::Named(reason) => DropReason::FIXED.len() + usize::from(reason.0),
                }
            }
        }
    };
}

drop_reasons! {
    /// The program marked the packet to drop in ingress, or in its only control.
    Ingress = "ingress_drop";
    /// The program marked the packet to drop in egress.
    Egress = "egress_drop";
    /// The parser rejected the packet, on an architecture that drops rejected packets.
    ParserReject = "parser_reject";
    /// A filter did not accept the packet.
    Filtered = "filtered";
    /// The program aborted the packet (`ABORT`, `XDP_ABORTED`).
    Aborted = "aborted";
    /// The program gave the packet no destination (PNA).
    NoDestination = "no_destination";
    /// The multicast group has no member or does not exist.
    NoReplicas = "no_replicas";
    /// The queue was full.
    TailDrop = "tail_drop";
    /// The program selected a priority that has no queue.
    NoSuchQueue = "no_such_queue";
    /// The egress port does not exist in the device.
    NoSuchPort = "no_such_port";
    /// The packet used up its work budget, by an endless loop in the program or by endless
    /// recirculation.
    WorkBudget = "work_budget";
    /// A packet and its copies made more copies than allowed.
    CopyBudget = "copy_budget";
    /// An `assert` failed.
    AssertFailed = "assert_failed";
    /// An `assume` failed.
    AssumeFailed = "assume_failed";
    /// The program made the packet longer than the maximum frame.
    FrameTooLong = "frame_too_long";
    /// The packet is shorter than an Ethernet header and cannot be sent to a server.
    FrameTooShort = "frame_too_short";
    /// No virtual data plane accepts the packet.
    Unclassified = "unclassified";
    /// The description header that selects the packet's virtual data plane fails a check.
    BadDescription = "bad_description";
    /// The packet's virtual data plane has no program.
    NoProgram = "no_program";
    /// The packet's virtual data plane is suspended.
    Suspended = "suspended";
    /// The virtual data plane exceeded its packet rate.
    RateQuota = "rate_quota";
    /// The virtual data plane's packets have recirculated more often than its quota allows.
    PassQuota = "pass_quota";
    /// The virtual data plane has used up its CPU cycles.
    CycleQuota = "cycle_quota";
    /// The virtual data plane exceeded its fair share of an overloaded CPU.
    FairShare = "fair_share";
    /// The packet traversed too many links between virtual data planes.
    LinkHops = "link_hops";
    /// The egress port is shared by virtual data planes, and a receiver would assign the packet to
    /// another one, or to none.
    ForeignEgress = "foreign_egress";
    /// A handler dropped the packet without a name for the reason, or there were too many names.
    Handler = "handler_drop";
}

/// Maximum number of names that handlers give to drop reasons in one process.
pub const MAX_NAMED_REASONS: usize = 64;

/// Maximum number of bytes of such a name. The rest is cut off.
pub const MAX_REASON_BYTES: usize = 48;

/// Drop reason that a handler names: a number that stands for the name in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamedReason(u8);

/// The names, in the order of their first use.
static NAMES: [OnceLock<String>; MAX_NAMED_REASONS] = [const { OnceLock::new() }; _];

impl NamedReason {
    fn name(self) -> &'static str {
        let name = NAMES.get(usize::from(self.0)).and_then(OnceLock::get);
        name.map_or(DropReason::Handler.name(), String::as_str)
    }
}

impl DropReason {
    /// Number of indices that reasons can have.
    pub const COUNT: usize = DropReason::FIXED.len() + MAX_NAMED_REASONS;

    /// Returns the reason with this name that a handler gives. Bytes other than letters, digits,
    /// `-`, `.` and `_` become `_`. A name that Polyplane uses for its own reasons gets the prefix
    /// `handler_`. Beyond [`MAX_NAMED_REASONS`] names, and for the empty name, the reason is
    /// [`DropReason::Handler`]. Only the first use of a name allocates.
    pub fn named(name: &[u8]) -> DropReason {
        let mut buffer = [0; MAX_REASON_BYTES];
        let Some(name) = cleaned(name, &mut buffer) else {
            return DropReason::Handler;
        };
        for (at, known) in NAMES.iter().enumerate() {
            let known = match known.get() {
                Some(known) => known,
                // Another thread may set it first. Then it counts.
                None => known.get_or_init(|| name.to_owned()),
            };
            if known == name {
                return DropReason::Named(NamedReason(at as u8));
            }
        }
        DropReason::Handler
    }

    /// Returns the reason with this [`DropReason::index`].
    #[inline]
    pub fn from_index(index: usize) -> Option<DropReason> {
        let named = || {
            let at = index - DropReason::FIXED.len();
            (at < MAX_NAMED_REASONS).then_some(DropReason::Named(NamedReason(at as u8)))
        };
        DropReason::FIXED.get(index).copied().or_else(named)
    }

    /// Returns all reasons: those of Polyplane, then those that handlers have named until now.
    pub fn all() -> impl Iterator<Item = DropReason> {
        let named = NAMES.iter().take_while(|name| name.get().is_some());
        let named = named
            .zip(0..)
            .map(|(_, at)| DropReason::Named(NamedReason(at)));
        DropReason::FIXED.iter().copied().chain(named)
    }
}

/// Returns the form in which reports show a name; `None` if it is empty.
fn cleaned<'b>(name: &[u8], buffer: &'b mut [u8; MAX_REASON_BYTES]) -> Option<&'b str> {
    const PREFIX: &[u8] = b"handler_";
    let is_used = DropReason::FIXED
        .iter()
        .any(|fixed| fixed.name().as_bytes() == name);
    let prefix = if is_used { PREFIX } else { b"" };
    let bytes = prefix.iter().chain(name);
    let mut length = 0;
    for (place, &byte) in buffer.iter_mut().zip(bytes) {
        let is_kept = byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        *place = if is_kept { byte } else { b'_' };
        length += 1;
    }
    let cleaned = std::str::from_utf8(&buffer[..length]).ok()?;
    (!cleaned.is_empty()).then_some(cleaned)
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_reasons_correspond() {
        for index in 0..DropReason::COUNT {
            let reason = DropReason::from_index(index);
            assert_eq!(reason.map(DropReason::index), Some(index));
        }
        assert_eq!(DropReason::from_index(DropReason::COUNT), None);
        for (index, reason) in DropReason::FIXED.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }

    /// One test, because all names are of the process.
    #[test]
    fn names_of_handlers_are_interned_cleaned_and_bounded() {
        let name = |name: &str| DropReason::named(name.as_bytes()).name();
        assert_eq!(name("no_port"), "no_port");
        assert_eq!(DropReason::named(b"no_port"), DropReason::named(b"no_port"));
        assert_ne!(DropReason::named(b"no_port"), DropReason::named(b"other"));
        assert_eq!(name("a b\n\"\u{e9}"), "a_b____");
        assert_eq!(name(""), "handler_drop");
        assert_eq!(name("tail_drop"), "handler_tail_drop");
        assert_eq!(name(&"x".repeat(100)), "x".repeat(MAX_REASON_BYTES));
        assert!(DropReason::all().any(|reason| reason.name() == "no_port"));
        let threads = (0..4).map(|_| {
            std::thread::spawn(|| {
                let names = (0..100).map(|n| DropReason::named(format!("n{n}").as_bytes()));
                names.collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        let all: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        for one in &all {
            for (n, reason) in one.iter().enumerate() {
                let expect = [format!("n{n}"), "handler_drop".to_owned()];
                assert!(expect.iter().any(|name| name == reason.name()));
            }
        }
        assert_eq!(DropReason::all().count(), DropReason::COUNT);
        assert_eq!(name("one more"), "handler_drop");
        let names: std::collections::BTreeSet<_> =
            DropReason::all().map(DropReason::name).collect();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}

//! Why packets end without being sent.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Why a packet was dropped. Names are stable: reports, counters and traces use them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason { $($(#[$doc])* $variant,)* }

        impl DropReason {
            /// All reasons; the position of each is [`DropReason::index`].
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];

            /// The reason's stable name.
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }
        }
    };
}

drop_reasons! {
    /// The program marked the packet for dropping in ingress (or its only control).
    Ingress = "ingress_drop";
    /// The program marked the packet for dropping in egress.
    Egress = "egress_drop";
    /// The parser rejected the packet, on an architecture where that drops it.
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
    /// The program asked for a priority that has no queue.
    NoSuchQueue = "no_such_queue";
    /// The packet was to leave at a port that the device does not have.
    NoSuchPort = "no_such_port";
    /// The packet used up its work budget: an endless loop in the program, or endless recirculation.
    WorkBudget = "work_budget";
    /// Copies of one packet made more copies than a packet may have.
    CopyBudget = "copy_budget";
    /// An `assert` failed.
    AssertFailed = "assert_failed";
    /// An `assume` failed.
    AssumeFailed = "assume_failed";
    /// The program made the packet longer than a frame may be.
    FrameTooLong = "frame_too_long";
    /// No virtual data plane takes the packet.
    Unclassified = "unclassified";
    /// The header that describes the packet's virtual data plane fails a check.
    BadDescription = "bad_description";
    /// The packet's virtual data plane has no program.
    NoProgram = "no_program";
    /// The packet's virtual data plane is suspended.
    Suspended = "suspended";
    /// The virtual data plane had its packets of this moment.
    RateQuota = "rate_quota";
    /// The virtual data plane's packets have started over more often than they may.
    PassQuota = "pass_quota";
    /// The virtual data plane has used up its processor cycles.
    CycleQuota = "cycle_quota";
    /// The virtual data plane had its share of a processor that has too much to do.
    FairShare = "fair_share";
    /// The packet went over too many links between virtual data planes.
    LinkHops = "link_hops";
    /// The packet was to leave by a port that virtual data planes share, where a receiver would
    /// take it for another one's, or for that of none.
    ForeignEgress = "foreign_egress";
}

impl DropReason {
    /// Its position in [`DropReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

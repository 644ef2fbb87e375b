//! Drop reasons.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Reason for dropping a packet. Names are stable: reports, counters and traces use them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason { $($(#[$doc])* $variant,)* }

        impl DropReason {
            /// All reasons, indexed by [`DropReason::index`].
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];

            /// Returns the reason's stable name.
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
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
}

impl DropReason {
    /// Returns its index in [`DropReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

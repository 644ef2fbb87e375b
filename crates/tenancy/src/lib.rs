//! Crate `tenancy`: virtual data planes (vPDPs) after HyperVDP. Many programs run on one switch,
//! each with its own tables, state, ports and controller.
//!
//! **In:** vPDPs with their ports and quotas, programs, classification rules, packets of the
//! switch. **Out:** packets of the switch. Each packet is accounted for in the [`switch::Ledger`]
//! of its vPDP or in that of the [`TenantSwitch`].
//!
//! The crate has two sides, as `switch` has. The [`TenantSwitch`] is the control side: it makes
//! changes and owns no thread. [`Worker`]s are the data path: they process packets and read a
//! published snapshot (the root).
//!
//! Invariants:
//! - A program sees its own packets, state and virtual ports, and nothing else: each vPDP is a
//!   [`switch::Device`].
//! - A change is checked completely before it is applied. A refused change has no effect, and a
//!   [`HypervisorError`] gives the reason.
//! - Packets never wait for a change, and one vPDP's packets never wait for a change of another
//!   vPDP. Packets in flight finish with the snapshot they started with.
//! - A packet above a quota is dropped and counted at the vPDP that exceeds it, before it costs
//!   other vPDPs time.
//! - Packets are conserved in each vPDP, and in all vPDPs and their links together.
//! - Packets of one vPDP that arrive at one worker stay in order.
//! - Recirculated packets of a vPDP use at most a burst's number of recirculations, or the vPDP's
//!   share, at a time. The rest continues after the other vPDPs' packets. In this crate,
//!   *recirculation* covers resubmission, recirculation, and further turns through the stage
//!   slots.
//!
//! Tests: unit tests in the modules, `tests/`; `testkit` runs all its programs in vPDPs.

mod compiler;
mod cycle_accounting;
mod description;
mod encapsulation;
mod error;
mod function;
mod guard;
mod hypervisor;
mod port_classifier;
mod port_map;
mod quota;
mod rate_limiter;
mod rule;
mod rule_classifier;
mod share;
mod slots;
mod snapshot;
mod sorter;
mod tag;
mod text;
mod vpdp;
mod worker;
mod worker_mailbox;

pub use compiler::{
    BoundedCompiler, Cancelled, Canceller, Compilations, CompileError, CompileFigures,
    CompilePermit, CompilePool, CompileQuota, ThreadClock,
};
pub use cycle_accounting::{CycleAccounting, CycleUse, EstimatedCost, ForwardedFrames, Reception};
pub use description::Description;
pub use encapsulation::{Backbone, EncapHeader, Encapsulation, Tunnel};
pub use error::{HypervisorError, Use};
pub use function::{Chain, Function};
pub use hypervisor::{
    Deleted, Exported, ExportedState, Maker, MovedVpdp, NewFunction, ProvisionalUpdate, Spec,
    TenantSwitch, Vpdp, Wiring,
};
pub use port_map::{Egress, MAX_PORT, MAX_VIRTUAL_PORTS, MacPrefix, PortMapError, Share, Sharing};
pub use quota::{Quotas, Rate, STATE_BYTES, WORK_OF_A_PACKET};
pub use rule::{Condition, Field, Rule, RuleError, Vlan};
pub use share::Fairness;
pub use slots::{SlotBook, SlotView};
pub use text::TextError;
pub use vpdp::{Connection, VirtualPort, VpdpId};
pub use worker::{MAX_HOPS, ObservedPacket, VpdpObserver, Worker};

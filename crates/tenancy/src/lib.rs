//! The room of virtual data planes (HyperVDP): many programs on one switch, each with its own tables, state, ports and controller.
//!
//! **In:** vPDPs with their ports and quotas, programs, rules that classify, packets of the switch. **Out:** packets of the switch, and what became of
//! each: by the vPDP's own [`switch::Ledger`] and the [`Hypervisor`]'s.
//! **May import:** `switch`, `passes`, `exec`, `table`, `packet`, `ir`, `bits`, `support`.
//!
//! Two sides, as in `switch`: the [`Hypervisor`] changes things and owns no thread; [`Worker`]s take packets and see a root that is published.
//!
//! Invariants:
//! - a program sees its own packets, state and virtual ports, and nothing else: each vPDP is a [`switch::Device`] of its own;
//! - a change is checked as a whole before anything is changed; a refused one changes nothing ([`Refusal`] says why);
//! - packets wait for no change, and no vPDP for another one's; packets inside finish on what they began with;
//! - what a quota forbids is a counted drop of the vPDP that asked for it, before it costs the others;
//! - packets are conserved: in each vPDP, and in all of them with their links;
//! - packets of one vPDP that came in by one worker stay in their order;
//! - no vPDP's packets that start over take more passes at once than a burst's, or than its share: the rest goes on behind the others.
//!
//! Tests: beside the code, `tests/`; `testkit` runs all its programs in vPDPs.

mod carriage;
mod classifier;
mod compiler;
mod description;
mod desk;
mod entrance;
mod function;
mod gate;
mod gauge;
mod guard;
mod hypervisor;
mod quota;
mod refusal;
mod root;
mod rule;
mod share;
mod slots;
mod sorter;
mod tag;
mod text;
mod vpdp;
mod wiring;
mod worker;

pub use carriage::{Backbone, Carriage, Envelope, MacAddress, Tunnel};
pub use compiler::{
    BoundedCompiler, Cancelled, Canceller, Compilations, CompileError, CompileFigures, CompilePool,
    CompileQuota, Leave, ThreadClock,
};
pub use description::Description;
pub use function::{Chain, Function};
pub use gauge::{Carried, Gauge, Reception, Reckoned, Work};
pub use hypervisor::{
    Deleted, Exported, ExportedState, Hypervisor, Made, Maker, Moved, Spec, Vpdp,
};
pub use quota::{Quotas, Rate, STATE_BYTES, WORK_OF_A_PACKET};
pub use refusal::{Refusal, Use};
pub use rule::{Condition, Field, Rule, RuleError, Vlan};
pub use share::Fairness;
pub use slots::{SlotBook, SlotView};
pub use text::TextError;
pub use vpdp::{Connection, VirtualPort, VpdpId};
pub use wiring::{Egress, MAX_PORT, MAX_VIRTUAL_PORTS, MacPrefix, Share, Sharing, WiringError};
pub use worker::{MAX_HOPS, Worker};

//! Counts of packets that something outside of the device has processed by its entries, such as a
//! NIC.

use exec::{FastPath, WorkBudget};
use ir::{ExternId, Layout, Program, TableId};
use packet::Nanos;
use table::{CounterReading, EntryId};

use crate::arch::Pipeline;
use crate::device::Device;
use crate::ledger::Ledger;

/// Returns the fast path of a program's architecture, if it has one, for planes outside of the
/// device.
pub fn fast_path(program: &Program) -> Option<FastPath> {
    let layout = Layout::of(program);
    let plan = Pipeline::of(program, &layout).pass(program)?;
    Some(plan.pass)
}

impl Device {
    /// Adds packets that another plane has received and finished to the ledger.
    pub fn credit_packets(&mut self, packets: &Ledger) {
        self.core.ledger.add(packets);
    }

    /// Returns the work budget of each packet.
    pub fn work_budget(&self) -> WorkBudget {
        self.limits.work()
    }

    /// Adds packets to the usage of an entry, or of a miss for `None`, and to the table's totals.
    /// The last use becomes no earlier. Returns false if there is no such entry.
    pub fn credit_lookups(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        amounts: CounterReading,
        last_use: Nanos,
    ) -> bool {
        let table = self.configuration.tables.get_mut(table);
        table.is_some_and(|table| table.credit_lookups(entry, amounts, last_use.0))
    }

    /// Adds packets to the direct counter of an entry, or of the default action for `None`. Returns
    /// false if there is none.
    pub fn credit_direct_counter(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        amounts: CounterReading,
    ) -> bool {
        let table = self.configuration.tables.get_mut(table);
        table.is_some_and(|table| table.credit_counter(entry, amounts))
    }

    /// Adds packets to a counter. Returns false if there is none.
    pub fn credit_counter(&mut self, id: ExternId, index: u32, amounts: CounterReading) -> bool {
        let Some(exec::ExternState::Counter(counters)) = self.configuration().cells.get(id) else {
            return false;
        };
        counters.credit(index.into(), amounts).is_some()
    }
}

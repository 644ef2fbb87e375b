//! The paper's policies (figure 14(b)) as workloads: those of `polyplane bench --tenants`, in
//! frames of any size.

use std::sync::Arc;

use bench::arrival::Arrival;
use bench::measure::{Measured, Packets, Plan, Traffic};
use bench::tenants::{Entry, Part, ShardableWorkload, Tenants, TenantsReport};
use bench::workloads::{self, Size};
use bench::{Item, ItemSink, SetupError};
use driver::StepSource;
use entries::{EntryAction, Replica, TableEntry, Update};
use exec::Engine;
use ir::Program;
use packet::Frame;
use support::rng::Rng;

/// Part of the entries for sides on the interpreter: one of 128. Each path through a parser has
/// separate entries in the P4 hypervisor, and large tables are not part of the comparison.
const SMALL: Part = Part { number: 0, of: 128 };

/// A policy and its program.
pub(super) struct Policy {
    name: String,
    function: Box<dyn ShardableWorkload>,
    program: Arc<Program>,
    /// Minimum frame length. Shorter packets are padded at the end, as Ethernet does.
    bytes: usize,
}

impl Policy {
    /// Returns the policy of this number, from 1, with frames of 64 bytes.
    ///
    /// # Errors
    /// There is no such policy, or its program is wrong.
    pub(super) fn new(number: u32) -> Result<Policy, String> {
        let function = workloads::divisible(&format!("pol{number}"), Size::Full);
        let function = function.ok_or_else(|| format!("there is no policy {number}"))?;
        let program = driver::compile_steps(function.name(), &function.steps())?;
        Ok(Policy {
            name: format!("Pol. {number}"),
            function,
            program: Arc::new(program),
            bytes: 0,
        })
    }

    /// Sets the minimum frame length.
    pub(super) fn padded(self, bytes: usize) -> Policy {
        Policy { bytes, ..self }
    }

    /// Returns its program.
    pub(super) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the table contents for sides on the interpreter.
    ///
    /// # Errors
    /// The program does not have the tables.
    pub(super) fn updates(&self) -> Result<Vec<Update>, String> {
        let mut updates = Vec::new();
        let filled = self.setup(&self.program, SMALL, &mut |item| {
            updates.push(update(item));
            Ok(())
        });
        filled.map_err(|error| error.to_string())?;
        Ok(updates)
    }

    /// Measures the policy alone and in `vpdps` virtual data planes.
    ///
    /// # Errors
    /// The policy refuses its entries, or packets are lost.
    pub(super) fn measure(
        &self,
        engine: Arc<dyn Engine>,
        vpdps: usize,
        entry: Entry,
        plan: &Plan,
        tell: &mut (dyn FnMut(f64) + Send),
    ) -> Result<TenantsReport, String> {
        let tenants = Tenants {
            function: self,
            program: Arc::clone(&self.program),
            engine,
            vpdps,
            entry,
            // The order in which a worker of `polyplane host` gets them: port by port if a port
            // belongs to one vPDP, mixed if ports are shared.
            arrival: match entry {
                Entry::Whole => Arrival::Queues,
                Entry::Described | Entry::Rules => Arrival::Mixed,
            },
        };
        let report = tenants.measure(plan, None, tell);
        let report = report.map_err(|error| error.to_string())?;
        check_all_sent(&report.native)?;
        check_all_sent(&report.hosted)?;
        Ok(report)
    }
}

/// Checks that no packets were dropped: a side that drops packets does less work than intended.
///
/// # Errors
/// Packets were dropped.
pub(super) fn check_all_sent(measured: &Measured) -> Result<(), String> {
    match measured.sent < 1.0 {
        true => Err(format!("{} does not send all packets on", measured.name)),
        false => Ok(()),
    }
}

fn update(item: Item) -> Update {
    match item {
        Item::Entry {
            table,
            keys,
            priority,
            call,
        } => {
            let entry = TableEntry {
                keys,
                priority,
                action: EntryAction::Call(call),
                idle_timeout_ns: None,
                meter: None,
                counter: None,
            };
            Update::Insert(table, entry)
        }
        Item::Multicast(id, ports) => {
            let replica = |port| Replica { port, instance: 0 };
            let replicas = ports.into_iter().map(replica).collect();
            Update::Multicast { id, replicas }
        }
    }
}

impl ShardableWorkload for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn steps(&self) -> Vec<StepSource> {
        self.function.steps()
    }

    fn ports(&self) -> u32 {
        self.function.ports()
    }

    fn setup(
        &self,
        program: &Program,
        part: Part,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        self.function.setup(program, part, setup)
    }

    fn packet(&self, choices: &mut Rng, part: Part, frame: &mut Frame) {
        self.function.packet(choices, part, frame);
        let missing = self.bytes.saturating_sub(frame.len());
        // Cannot fail: the longest packets are far below a frame's limit.
        let _ = frame.push_back(&vec![0; missing]);
    }
}

impl Traffic for Policy {
    /// Returns packets for a side on the interpreter.
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| self.packet(&mut choices, SMALL, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_frames_have_the_same_packet_and_zeros_behind_it() {
        let packet = |policy: &Policy| {
            let mut frame = Frame::new();
            policy.packets(7)(&mut frame);
            (frame.ingress, frame.bytes().to_vec())
        };
        let policy = Policy::new(7).unwrap();
        let (port, short) = packet(&policy);
        let (same_port, long) = packet(&policy.padded(1500));
        assert_eq!((port, short.len(), long.len()), (same_port, 64, 1500));
        let (begin, end) = long.split_at(64);
        assert!(begin == short && end.iter().all(|byte| *byte == 0));
    }
}

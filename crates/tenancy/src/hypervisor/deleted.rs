//! Deleted virtual data planes, for reports.

use std::collections::VecDeque;

use switch::Ledger;

use super::Departing;
use crate::vpdp::VpdpId;

/// Maximum number of deleted vPDPs that are kept individually; older ones are summed.
const MAX_KEPT: usize = 256;

/// A deleted vPDP.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// Its number, which may have been reused.
    pub id: VpdpId,
    /// Its name.
    pub name: String,
    /// Its final packet accounting.
    pub ledger: Ledger,
}

/// All deleted vPDPs.
#[derive(Debug, Default)]
pub(super) struct DeletedVpdps {
    kept: VecDeque<Kept>,
    /// Number of older ones, and the sum of their ledgers.
    others: (u64, Ledger),
}

#[derive(Debug)]
struct Kept {
    id: VpdpId,
    name: String,
    /// Generation number of its per-thread states.
    serial: u64,
    /// Final ledger; `None` while its device still holds packets.
    ledger: Option<Ledger>,
}

impl DeletedVpdps {
    /// Adds a deleted vPDP. `serial` is the generation number of its device, if it had one.
    pub(super) fn add(&mut self, id: VpdpId, name: String, serial: Option<u64>) {
        self.kept.push_back(Kept {
            id,
            name,
            serial: serial.unwrap_or_default(),
            ledger: serial.is_none().then(Ledger::default),
        });
        self.sum_up();
    }

    /// Sets the final ledger of a device that was removed.
    pub(super) fn set_ledger(&mut self, serial: u64, ledger: &Ledger) {
        let kept = self.kept.iter_mut().find(|kept| kept.serial == serial);
        if let Some(kept) = kept {
            kept.ledger = Some(ledger.clone());
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        while self.kept.len() > MAX_KEPT
            && let Some(Some(ledger)) = self.kept.front().map(|oldest| &oldest.ledger)
        {
            let (count, sum) = &mut self.others;
            *count += 1;
            sum.add(ledger);
            self.kept.pop_front();
        }
    }

    pub(super) fn list(&self, departing: &[Departing]) -> Vec<Deleted> {
        let kept = self.kept.iter().map(|kept| {
            let device = departing.iter().find(|one| one.serial == kept.serial);
            let ledger = kept.ledger.clone();
            Deleted {
                id: kept.id,
                name: kept.name.clone(),
                ledger: ledger
                    .or_else(|| Some(device?.device.ledger()))
                    .unwrap_or_default(),
            }
        });
        kept.collect()
    }

    pub(super) fn others(&self) -> &(u64, Ledger) {
        &self.others
    }
}

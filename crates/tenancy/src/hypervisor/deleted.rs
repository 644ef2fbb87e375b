//! Virtual data planes that are no more, as reports show them.

use std::collections::VecDeque;

use switch::Ledger;

use super::Departing;
use crate::vpdp::VpdpId;

/// Deleted vPDPs that are kept one by one; those before them are summed.
const MAX_KEPT: usize = 256;

/// A vPDP that is no more.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// Its number, which another one may have by now.
    pub id: VpdpId,
    /// Its name.
    pub name: String,
    /// The end of its packets.
    pub ledger: Ledger,
}

/// All that are no more.
#[derive(Debug, Default)]
pub(super) struct DeletedVpdps {
    kept: VecDeque<Kept>,
    /// How many were before those, and the end of their packets.
    others: (u64, Ledger),
}

#[derive(Debug)]
struct Kept {
    id: VpdpId,
    name: String,
    /// Of its seats.
    serial: u64,
    /// None while packets are in its device, which departs.
    ledger: Option<Ledger>,
}

impl DeletedVpdps {
    /// A vPDP was deleted; its device, if it had one, departs with this serial.
    pub(super) fn add(&mut self, id: VpdpId, name: String, serial: Option<u64>) {
        self.kept.push_back(Kept {
            id,
            name,
            serial: serial.unwrap_or_default(),
            ledger: serial.is_none().then(Ledger::default),
        });
        self.sum_up();
    }

    /// A device has departed.
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

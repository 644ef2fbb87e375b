//! Changes without a monitor: places at the end of their life, and what the store has and an
//! element refused.

use packet::Nanos;

use super::ReflexPlane;

impl ReflexPlane {
    /// Restores the places at the end of their life, if a node of this process leads.
    pub(super) fn end_lives(&mut self, now: Nanos) {
        if self.store.leading().is_none() {
            return;
        }
        for at in 0..self.permissions.len() {
            while let Some(write) = self.permissions[at].next_end(now) {
                match self.request_write(&write, None) {
                    Ok(()) => self.counts.ended += 1,
                    Err(_) => self.permissions[at].retry(write.place, now),
                }
            }
        }
    }

    /// Requests the writes that put the store right, if a node of this process leads.
    pub(super) fn repair(&mut self) {
        if self.repairs.is_empty() || self.store.leading().is_none() {
            return;
        }
        let repairs = std::mem::take(&mut self.repairs);
        for write in repairs {
            if self.request_write(&write, None).is_err() {
                // It is requested again at the next step.
                self.repairs.push(write);
            }
        }
    }
}

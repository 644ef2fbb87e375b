//! Rings: ports that exchange frames with another thread or process by shared memory.

mod lane;
mod link;

use std::os::fd::BorrowedFd;

use packet::{Batch, Frame, Nanos, PortId};

pub use link::RingLink;

use crate::{LinkState, Port, PortError, PortStats, TxOutcome};

/// Port at one end of a ring. It needs no privilege and no network interface. A frame counts as
/// sent when it is in the ring; frames that the other end did not take when it ended are lost, as
/// on a cable.
#[derive(Debug)]
pub struct RingPort {
    id: PortId,
    name: String,
    link: RingLink,
    stats: PortStats,
    /// The end of a connection was reported, up to this number.
    told: u64,
}

impl RingPort {
    /// Opens an end of the ring `name` as switch port `id`.
    ///
    /// # Errors
    /// Those of [`RingLink::open`].
    pub fn open(id: PortId, name: &str) -> Result<RingPort, PortError> {
        let link = RingLink::open(name)?;
        Ok(RingPort::new(id, name, link))
    }

    /// Returns both ends of a ring without a name, for two threads.
    ///
    /// # Errors
    /// Those of [`RingLink::pair`].
    pub fn pair(one: PortId, other: PortId) -> std::io::Result<(RingPort, RingPort)> {
        let (a, b) = RingLink::pair()?;
        Ok((
            RingPort::new(one, "pair", a),
            RingPort::new(other, "pair", b),
        ))
    }

    fn new(id: PortId, name: &str, link: RingLink) -> RingPort {
        RingPort {
            id,
            name: format!("ring:{name}"),
            link,
            stats: PortStats::default(),
            told: 0,
        }
    }
}

impl Port for RingPort {
    fn id(&self) -> PortId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        self.link.tend(now);
        let before = batch.len();
        while batch.room() > 0
            && let Some(length) = self.link.next_length()
            && let Some(frame) = batch.push()
        {
            // The length is at most that of a frame.
            if let Ok(space) = frame.make_space(length) {
                self.link.take(space);
            }
            frame.ingress = self.id;
            frame.arrival = now;
            self.stats.count_rx(length);
        }
        self.link.release();
        let count = batch.len() - before;
        if count == 0 && self.told != self.link.ends() {
            self.told = self.link.ends();
            return Err(PortError::RingEnded {
                name: self.name.clone(),
            });
        }
        Ok(count)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        for frame in frames {
            match self.link.send(frame.bytes()) {
                Ok(()) => self.stats.count_tx(frame.len(), &mut outcome),
                Err(reason) => self.stats.count_tx_drop(reason, 1, &mut outcome),
            }
        }
        self.link.flush();
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link(&self) -> LinkState {
        match self.link.is_up() {
            true => LinkState::Up,
            false => LinkState::Down,
        }
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.poll_fd()
    }
}

#[cfg(test)]
mod tests;

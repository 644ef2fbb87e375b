//! The ledger of packets: nothing disappears silently.
//!
//! received + generated + replicated = sent + dropped by named reason + held, at every moment between two steps.

use exec::DropReason;

/// Reasons for which a copy is refused.
const REFUSALS: [DropReason; 2] = [DropReason::WorkBudget, DropReason::CopyBudget];

/// Packets by what became of them. What changes with each packet stands first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ledger {
    /// Came in at a port.
    pub received: u64,
    /// Left at a port.
    pub sent: u64,
    /// Made by the device or its control plane.
    pub generated: u64,
    /// Copies made, beyond the packet they were made of.
    pub replicated: u64,
    /// Ended otherwise, by [`DropReason::index`].
    dropped: [u64; DropReason::ALL.len()],
    /// Copies that were asked for and not made, by [`REFUSALS`]; this changes no sum.
    copies_refused: [u64; REFUSALS.len()],
    /// Started over, which changes no sum.
    pub resubmitted: u64,
    /// Started over after a whole pass, which changes no sum.
    pub recirculated: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        let dropped = [0; DropReason::ALL.len()];
        Ledger {
            received: 0,
            generated: 0,
            replicated: 0,
            sent: 0,
            dropped,
            copies_refused: [0; REFUSALS.len()],
            resubmitted: 0,
            recirculated: 0,
        }
    }
}

/// A ledger that does not add up: a defect of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbalanced {
    /// Packets that came into being.
    pub came: u64,
    /// Packets that went, and those that are held.
    pub went: u64,
}

impl std::fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} packets came into being, but {} are accounted for",
            self.came, self.went
        )
    }
}

impl std::error::Error for Unbalanced {}

impl Ledger {
    /// Adds another part of the same packets.
    pub fn add(&mut self, other: &Ledger) {
        self.received += other.received;
        self.generated += other.generated;
        self.replicated += other.replicated;
        self.sent += other.sent;
        self.resubmitted += other.resubmitted;
        self.recirculated += other.recirculated;
        for (sum, more) in self.dropped.iter_mut().zip(&other.dropped) {
            *sum += more;
        }
        let refused = self.copies_refused.iter_mut().zip(&other.copies_refused);
        refused.for_each(|(sum, more)| *sum += more);
    }

    /// Notes copies that were asked for and are not made.
    pub(crate) fn refuse_copies(&mut self, reason: DropReason, copies: u64) {
        let counters = REFUSALS.iter().zip(&mut self.copies_refused);
        for (_, counter) in counters.filter(|(counted, _)| **counted == reason) {
            *counter += copies;
        }
    }

    /// The reasons for which copies were refused, and how many.
    pub fn refused_copies(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let counted = REFUSALS.iter().zip(self.copies_refused);
        counted
            .map(|(&reason, count)| (reason, count))
            .filter(|(_, count)| *count > 0)
    }

    /// Notes a drop.
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped[reason.index()] += 1;
    }

    /// Notes packets that came in and were dropped at once.
    pub fn refuse(&mut self, packets: u64, reason: DropReason) {
        self.received += packets;
        self.dropped[reason.index()] += packets;
    }

    /// Counts the packets that `refused` says were dropped no more as sent: they had left, and were dropped behind.
    pub(crate) fn take_back(&mut self, refused: &Ledger) {
        self.sent = self.sent.saturating_sub(refused.dropped.iter().sum());
        self.add(refused);
    }

    /// Packets dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason.index()]
    }

    /// The reasons for which packets were dropped, and how many.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .iter()
            .map(|&reason| (reason, self.dropped(reason)))
            .filter(|(_, count)| *count > 0)
    }

    /// Whether all packets are accounted for, `held` being those still inside.
    pub fn check(&self, held: usize) -> Result<(), Unbalanced> {
        let came = self.received + self.generated + self.replicated;
        let went = self.sent + self.dropped.iter().sum::<u64>() + held as u64;
        if came == went {
            Ok(())
        } else {
            Err(Unbalanced { came, went })
        }
    }
}

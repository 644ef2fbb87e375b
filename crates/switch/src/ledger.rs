//! Ledger of packets: every packet is accounted for.
//!
//! Between any two steps: received + generated + replicated = sent + dropped (by named reason) +
//! held.

use exec::DropReason;
use support::count::{are, count};

/// Reasons for which copies are refused.
const REFUSALS: [DropReason; 2] = [DropReason::WorkBudget, DropReason::CopyBudget];

/// Packet counts by outcome. The counts that change with each packet come first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ledger {
    /// Number of packets received at a port.
    pub received: u64,
    /// Number of packets sent to a port.
    pub sent: u64,
    /// Number of packets created by the device or its control plane.
    pub generated: u64,
    /// Number of copies made, without the packets that were copied.
    pub replicated: u64,
    /// Number of dropped packets, by [`DropReason::index`].
    dropped: [u64; DropReason::COUNT],
    /// Number of copies requested but not made, by [`REFUSALS`]. Not part of the balance.
    copies_refused: [u64; REFUSALS.len()],
    /// Number of resubmissions. Not part of the balance.
    pub resubmitted: u64,
    /// Number of recirculations. Not part of the balance.
    pub recirculated: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        let dropped = [0; DropReason::COUNT];
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

/// Error: a ledger that does not balance, which is a defect of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerError {
    /// Number of packets received or created.
    pub came: u64,
    /// Number of packets sent, dropped or held.
    pub went: u64,
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} came into being, but {} accounted for",
            count(self.came, "packet"),
            are(self.went)
        )
    }
}

impl std::error::Error for LedgerError {}

impl Ledger {
    /// Adds the counts of another ledger.
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

    /// Counts copies that were requested but not made.
    pub(crate) fn refuse_copies(&mut self, reason: DropReason, copies: u64) {
        let counters = REFUSALS.iter().zip(&mut self.copies_refused);
        for (_, counter) in counters.filter(|(counted, _)| **counted == reason) {
            *counter += copies;
        }
    }

    /// Returns the reasons for which copies were refused, with the counts.
    pub fn refused_copies(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let counted = REFUSALS.iter().zip(self.copies_refused);
        counted
            .map(|(&reason, count)| (reason, count))
            .filter(|(_, count)| *count > 0)
    }

    /// Counts a drop.
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped[reason.index()] += 1;
    }

    /// Counts packets that were received and dropped at once.
    pub fn refuse(&mut self, packets: u64, reason: DropReason) {
        self.received += packets;
        self.dropped[reason.index()] += packets;
    }

    /// Counts packets that were received and sent.
    pub fn forward(&mut self, packets: u64) {
        self.received += packets;
        self.sent += packets;
    }

    /// Moves the drops of `refused` from sent to dropped: these packets were sent by the device and
    /// dropped afterwards.
    pub(crate) fn take_back(&mut self, refused: &Ledger) {
        self.sent = self.sent.saturating_sub(refused.dropped.iter().sum());
        self.add(refused);
    }

    /// Returns the first reason for which more packets were dropped than `before`.
    pub fn first_drop_since(&self, before: &Ledger) -> Option<DropReason> {
        let both = self.dropped.iter().zip(&before.dropped);
        let index = both.into_iter().position(|(now, before)| now > before)?;
        DropReason::from_index(index)
    }

    /// Returns the number of packets dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason.index()]
    }

    /// Returns the number of dropped packets.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Returns the reasons for which packets were dropped, with the counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::all()
            .map(|reason| (reason, self.dropped(reason)))
            .filter(|(_, count)| *count > 0)
    }

    /// Checks that all packets are accounted for. `held` is the number of packets inside.
    pub fn check(&self, held: usize) -> Result<(), LedgerError> {
        let came = self.received + self.generated + self.replicated;
        let went = self.sent + self.dropped.iter().sum::<u64>() + held as u64;
        if came == went {
            Ok(())
        } else {
            Err(LedgerError { came, went })
        }
    }
}

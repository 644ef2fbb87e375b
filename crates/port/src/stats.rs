//! What a port counts: frames, bytes, and drops by reason.

use std::fmt;
use std::marker::PhantomData;

/// Why a port did not send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxDrop {
    /// The link is down or the interface is gone.
    LinkDown,
    /// The queue towards the link is full.
    QueueFull,
    /// The frame is longer than the link carries.
    TooLong,
    /// The frame has no whole Ethernet header.
    TooShort,
    /// The operating system refused the frame for a reason of its own.
    Refused,
}

/// Why a frame that arrived was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxDrop {
    /// The queue from the link was full: the switch did not keep up.
    QueueFull,
    /// The frame is longer than [`packet::MAX_FRAME`].
    TooLong,
    /// Several segments arrived as one in a form that cannot be taken apart.
    Unsegmentable,
    /// The sender left a checksum to the interface that cannot be completed.
    ChecksumUnfinished,
    /// A fault injector took the frame away.
    Fault,
    /// The worker whose flow it is did not keep up with those that another one received for it.
    WorkerFull,
}

/// A set of reasons, each with its place in a [`DropCounts`] and its name in a report.
pub trait Reason: Copy + 'static {
    /// Every reason, in the order of their indices.
    const ALL: &'static [Self];
    /// The reason's name: lower case, words joined by underscores.
    fn name(self) -> &'static str;
    /// The reason's place in [`Reason::ALL`].
    fn index(self) -> usize;
}

impl Reason for TxDrop {
    const ALL: &'static [TxDrop] = &[
        TxDrop::LinkDown,
        TxDrop::QueueFull,
        TxDrop::TooLong,
        TxDrop::TooShort,
        TxDrop::Refused,
    ];

    fn name(self) -> &'static str {
        match self {
            TxDrop::LinkDown => "tx_link_down",
            TxDrop::QueueFull => "tx_queue_full",
            TxDrop::TooLong => "tx_too_long",
            TxDrop::TooShort => "tx_too_short",
            TxDrop::Refused => "tx_refused",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl Reason for RxDrop {
    const ALL: &'static [RxDrop] = &[
        RxDrop::QueueFull,
        RxDrop::TooLong,
        RxDrop::Unsegmentable,
        RxDrop::ChecksumUnfinished,
        RxDrop::Fault,
        RxDrop::WorkerFull,
    ];

    fn name(self) -> &'static str {
        match self {
            RxDrop::QueueFull => "rx_queue_full",
            RxDrop::TooLong => "rx_too_long",
            RxDrop::Unsegmentable => "rx_unsegmentable",
            RxDrop::ChecksumUnfinished => "rx_checksum_unfinished",
            RxDrop::Fault => "rx_fault",
            RxDrop::WorkerFull => "rx_worker_full",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// The most reasons that a direction has.
const REASONS: usize = 6;

/// Frames dropped, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCounts<R> {
    counts: [u64; REASONS],
    reasons: PhantomData<R>,
}

impl<R> Default for DropCounts<R> {
    fn default() -> DropCounts<R> {
        DropCounts {
            counts: [0; REASONS],
            reasons: PhantomData,
        }
    }
}

impl<R: Reason> DropCounts<R> {
    /// Counts `n` more frames dropped for `reason`.
    #[inline]
    pub fn add(&mut self, reason: R, n: u64) {
        self.counts[reason.index()] += n;
    }

    /// Adds every count of `other`.
    pub fn add_all(&mut self, other: &DropCounts<R>) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    /// Frames dropped for `reason`.
    pub fn get(&self, reason: R) -> u64 {
        self.counts[reason.index()]
    }

    /// Frames dropped for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each reason with its count, in a fixed order, zero counts included.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64)> + '_ {
        R::ALL.iter().map(|&reason| (reason, self.get(reason)))
    }
}

/// `tx_link_down 3, tx_too_long 1`, or `none`.
impl<R: Reason> fmt::Display for DropCounts<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (reason, count) in self.iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{} {count}", reason.name())?;
            separator = ", ";
        }
        if separator.is_empty() {
            f.write_str("none")
        } else {
            Ok(())
        }
    }
}

/// What became of the frames of one [`crate::Port::tx`]: `sent` and the drops add up to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOutcome {
    /// Frames that the port took.
    pub sent: u64,
    /// Frames that it did not.
    pub dropped: DropCounts<TxDrop>,
}

/// What a port has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames delivered to the switch.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that arrived and were not delivered.
    pub rx_dropped: DropCounts<RxDrop>,
    /// Frames that the port took to send, but those that the kernel has said it did not send.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that it was asked to send and did not.
    pub tx_dropped: DropCounts<TxDrop>,
}

impl PortStats {
    /// Adds what another share of the same port has done.
    pub fn add(&mut self, other: &PortStats) {
        self.rx_frames += other.rx_frames;
        self.rx_bytes += other.rx_bytes;
        self.rx_dropped.add_all(&other.rx_dropped);
        self.tx_frames += other.tx_frames;
        self.tx_bytes += other.tx_bytes;
        self.tx_dropped.add_all(&other.tx_dropped);
    }

    /// Counts one frame of `len` bytes as delivered.
    #[inline]
    pub fn count_rx(&mut self, len: usize) {
        self.rx_frames += 1;
        self.rx_bytes += len as u64;
    }

    /// Counts one frame of `len` bytes as sent, here and in `outcome`.
    #[inline]
    pub fn count_tx(&mut self, len: usize, outcome: &mut TxOutcome) {
        self.tx_frames += 1;
        self.tx_bytes += len as u64;
        outcome.sent += 1;
    }

    /// Counts one frame of `len` bytes, which was counted as sent, as not sent after all; also in
    /// `outcome`, if that counted it.
    pub fn count_tx_lost(&mut self, len: usize, reason: TxDrop, outcome: &mut TxOutcome) {
        self.tx_frames = self.tx_frames.saturating_sub(1);
        self.tx_bytes = self.tx_bytes.saturating_sub(len as u64);
        self.tx_dropped.add(reason, 1);
        if outcome.sent > 0 {
            outcome.sent -= 1;
            outcome.dropped.add(reason, 1);
        }
    }

    /// Counts `n` frames as not sent, here and in `outcome`.
    #[inline]
    pub fn count_tx_drop(&mut self, reason: TxDrop, n: u64, outcome: &mut TxOutcome) {
        self.tx_dropped.add(reason, n);
        outcome.dropped.add(reason, n);
    }
}

/// Whether a link carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It does.
    Up,
    /// It does not now; it may again.
    Down,
    /// Its interface does not exist any more.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        fn check<R: Reason + PartialEq + std::fmt::Debug>() {
            assert!(R::ALL.len() <= REASONS);
            for (i, reason) in R::ALL.iter().enumerate() {
                assert_eq!(reason.index(), i, "{reason:?}");
            }
            let names: std::collections::HashSet<_> = R::ALL.iter().map(|r| r.name()).collect();
            assert_eq!(names.len(), R::ALL.len());
        }
        check::<TxDrop>();
        check::<RxDrop>();
    }

    #[test]
    fn drops_print_by_name_without_the_zeros() {
        let mut drops = DropCounts::default();
        assert_eq!(drops.to_string(), "none");
        drops.add(TxDrop::TooLong, 2);
        drops.add(TxDrop::LinkDown, 1);
        assert_eq!(drops.to_string(), "tx_link_down 1, tx_too_long 2");
        assert_eq!(drops.total(), 3);
    }
}

//! Port statistics: frames, bytes, and drops by reason.

use std::fmt;
use std::marker::PhantomData;

/// Reason for which a port did not send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxDrop {
    /// The link is down or the interface is gone.
    LinkDown,
    /// The transmit queue is full.
    QueueFull,
    /// The frame is longer than the link's MTU allows.
    TooLong,
    /// The frame has no complete Ethernet header.
    TooShort,
    /// The operating system refused the frame for another reason.
    Refused,
    /// A fault injector dropped the frame.
    Fault,
}

/// Reason for which a received frame was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxDrop {
    /// The receive queue was full: the switch did not keep up.
    QueueFull,
    /// The frame is longer than [`packet::MAX_FRAME`].
    TooLong,
    /// A GSO frame has several segments and a format that cannot be segmented in software.
    Unsegmentable,
    /// The sender left a checksum to the interface, and it cannot be completed.
    ChecksumUnfinished,
    /// A fault injector dropped the frame.
    Fault,
    /// Another worker received the frame for this one, and this worker's queue was full.
    WorkerFull,
}

/// A set of drop reasons. Each has an index in [`DropCounts`] and a name in reports.
pub trait Reason: Copy + 'static {
    /// All reasons, ordered by index.
    const ALL: &'static [Self];
    /// Returns the reason's name: lower case, words joined by underscores.
    fn name(self) -> &'static str;
    /// Returns the reason's index in [`Reason::ALL`].
    fn index(self) -> usize;
}

impl Reason for TxDrop {
    const ALL: &'static [TxDrop] = &[
        TxDrop::LinkDown,
        TxDrop::QueueFull,
        TxDrop::TooLong,
        TxDrop::TooShort,
        TxDrop::Refused,
        TxDrop::Fault,
    ];

    fn name(self) -> &'static str {
        match self {
            TxDrop::LinkDown => "tx_link_down",
            TxDrop::QueueFull => "tx_queue_full",
            TxDrop::TooLong => "tx_too_long",
            TxDrop::TooShort => "tx_too_short",
            TxDrop::Refused => "tx_refused",
            TxDrop::Fault => "tx_fault",
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

/// Maximum number of reasons of one direction.
const REASONS: usize = 6;

/// Counters of dropped frames, by reason.
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
    /// Adds `n` frames dropped for `reason`.
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

    /// Returns the counts since an earlier reading.
    pub fn since(&self, earlier: &DropCounts<R>) -> DropCounts<R> {
        let mut since = *self;
        for (mine, earlier) in since.counts.iter_mut().zip(earlier.counts) {
            *mine = mine.saturating_sub(earlier);
        }
        since
    }

    /// Returns the number of frames dropped for `reason`.
    pub fn get(&self, reason: R) -> u64 {
        self.counts[reason.index()]
    }

    /// Returns the number of frames dropped for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Iterates over all reasons with their counts, in a fixed order, zero counts included.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64)> + '_ {
        R::ALL.iter().map(|&reason| (reason, self.get(reason)))
    }
}

/// Formats the counts as `tx_link_down 3, tx_too_long 1`, or `none`.
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

/// Result of one [`crate::Port::tx`]. `sent` and the drops add up to the given frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOutcome {
    /// Frames accepted for transmission.
    pub sent: u64,
    /// Frames dropped.
    pub dropped: DropCounts<TxDrop>,
}

/// Counters of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames delivered to the switch.
    pub rx_frames: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Frames received but not delivered.
    pub rx_dropped: DropCounts<RxDrop>,
    /// Frames accepted for transmission, except those that the kernel reported as not sent.
    pub tx_frames: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames given to the port but not sent.
    pub tx_dropped: DropCounts<TxDrop>,
}

impl PortStats {
    /// Adds the counters of another share of the same port.
    pub fn add(&mut self, other: &PortStats) {
        self.rx_frames += other.rx_frames;
        self.rx_bytes += other.rx_bytes;
        self.rx_dropped.add_all(&other.rx_dropped);
        self.tx_frames += other.tx_frames;
        self.tx_bytes += other.tx_bytes;
        self.tx_dropped.add_all(&other.tx_dropped);
    }

    /// Returns the counts since an earlier reading of the same share.
    pub fn since(&self, earlier: &PortStats) -> PortStats {
        PortStats {
            rx_frames: self.rx_frames.saturating_sub(earlier.rx_frames),
            rx_bytes: self.rx_bytes.saturating_sub(earlier.rx_bytes),
            rx_dropped: self.rx_dropped.since(&earlier.rx_dropped),
            tx_frames: self.tx_frames.saturating_sub(earlier.tx_frames),
            tx_bytes: self.tx_bytes.saturating_sub(earlier.tx_bytes),
            tx_dropped: self.tx_dropped.since(&earlier.tx_dropped),
        }
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

    /// Moves one frame of `len` bytes from the sent frames to the drops. Does the same in
    /// `outcome` if that counts sent frames.
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

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The link transfers frames.
    Up,
    /// The link is down and may come up again.
    Down,
    /// The interface no longer exists.
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

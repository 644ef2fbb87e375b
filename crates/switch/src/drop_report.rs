//! Reports of drops: which fields of a program are about them, and how many are made.
//!
//! A program of v1model watches a packet by a field of its metadata: the clone session that gets a
//! copy of the packet if it is dropped. In the copy another field has the reason.

use exec::DropReason;
use ir::{AnnotationBody, Layout, Program};
use packet::Nanos;

use crate::snapshot_cell::SnapshotCell;

/// Copies a second and worker, unless the program says otherwise.
const RATE: u64 = 1000;
/// Share of a second's copies that may be made at once.
const BURST: u64 = 100;
/// Number of copies that may be made at once with any rate.
const MIN_BURST: u64 = 16;
/// Credit of one copy, in billionths.
const COPY: u64 = 1_000_000_000;

/// Fields of a program that are about reports of drops, and their rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropReports {
    /// Clone session of the packet's report; 0 if the packet is not watched.
    pub(crate) session: SnapshotCell,
    /// Number of the reason.
    pub(crate) reason: SnapshotCell,
    /// Copies a second and worker.
    rate: u64,
}

impl DropReports {
    pub(crate) fn of(program: &Program, layout: &Layout) -> DropReports {
        let mut annotations = program.annotations.iter();
        let given = annotations.find(|annotation| annotation.name == ir::DROP_REPORTS);
        // The compiler has checked it and wrote it as a decimal number.
        let rate = given.and_then(|annotation| match &annotation.body {
            AnnotationBody::Text(text) => text.parse().ok(),
            _ => None,
        });
        DropReports {
            session: SnapshotCell::of(program, layout, ir::DROP_SESSION),
            reason: SnapshotCell::of(program, layout, ir::DROP_REASON),
            rate: rate.unwrap_or(RATE),
        }
    }

    /// Returns whether drops for this reason are reported. Of a packet that the program's own code
    /// ended by an error, the metadata may not be known.
    pub(crate) fn has(reason: DropReason) -> bool {
        !matches!(
            reason,
            DropReason::WorkBudget
                | DropReason::AssertFailed
                | DropReason::AssumeFailed
                | DropReason::FrameTooLong
                | DropReason::FrameTooShort
        )
    }

    /// Returns the number of a reason for programs: from 1, since 0 is none.
    pub(crate) fn number(reason: DropReason) -> u64 {
        reason.index() as u64 + 1
    }
}

/// Credit of a worker's reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportRate {
    /// Copies that may be made now, in billionths.
    credit: u64,
    at: Nanos,
}

impl Default for ReportRate {
    fn default() -> ReportRate {
        ReportRate {
            credit: u64::MAX,
            at: Nanos::ZERO,
        }
    }
}

impl ReportRate {
    /// Takes the credit of a report with this number of copies, if the rate allows all of them.
    /// More copies than a burst has need the credit of all of them.
    pub(crate) fn take(&mut self, reports: &DropReports, copies: u64, now: Nanos) -> bool {
        let passed = now.since(self.at).0;
        self.at = self.at.max(now);
        let burst = (reports.rate / BURST).max(MIN_BURST).max(copies);
        let most = burst.saturating_mul(COPY);
        let more = passed.saturating_mul(reports.rate);
        self.credit = self.credit.saturating_add(more).min(most);
        let left = self.credit.checked_sub(copies.saturating_mul(COPY));
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_keep_to_their_rate_after_a_burst() {
        let reports = DropReports {
            session: SnapshotCell::default(),
            reason: SnapshotCell::default(),
            rate: 5000,
        };
        let mut rate = ReportRate::default();
        let start = Nanos::from_secs(7);
        let at = |micros: u64| start + Nanos(1000 * micros);
        let taken = (0..1000).filter(|_| rate.take(&reports, 1, at(0))).count();
        assert_eq!(taken, 50);
        let taken = (0..100_000)
            .filter(|it| rate.take(&reports, 1, at(*it)))
            .count();
        assert_eq!(taken, 499);
        // An earlier time gives no credit.
        assert!(!rate.take(&reports, 1, Nanos::ZERO));
        assert!(!rate.take(&reports, 1, at(99_999)));
    }

    #[test]
    fn each_copy_of_a_report_takes_credit() {
        let reports = DropReports {
            session: SnapshotCell::default(),
            reason: SnapshotCell::default(),
            rate: 200,
        };
        let start = Nanos::from_secs(7);
        // Copies of each report, with the reports at once and in one second more.
        for (copies, at_once, later) in [(1, 16, 200), (3, 5, 67), (16, 1, 12), (50, 1, 4)] {
            let mut rate = ReportRate::default();
            let taken = (0..100).filter(|_| rate.take(&reports, copies, start));
            assert_eq!(taken.count(), at_once, "{copies} copies");
            let times = (1..=1000).map(|ms| start + Nanos::from_millis(ms));
            let taken = times.filter(|now| rate.take(&reports, copies, *now));
            assert_eq!(taken.count(), later, "{copies} copies");
        }
    }

    #[test]
    fn numbers_of_reasons_are_those_of_the_reference() {
        let reference = include_str!("../../../docs/reference/drop-reasons.md");
        let numbers = [
            (DropReason::Ingress, 1),
            (DropReason::Egress, 2),
            (DropReason::NoReplicas, 7),
            (DropReason::TailDrop, 8),
            (DropReason::NoSuchQueue, 9),
            (DropReason::CopyBudget, 12),
        ];
        for (reason, number) in numbers {
            assert_eq!(DropReports::number(reason), number);
            let row = format!("| {number} | `{}` |", reason.name());
            assert!(reference.contains(&row), "{row}");
        }
    }
}

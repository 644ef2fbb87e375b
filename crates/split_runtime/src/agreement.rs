//! Reports of a half about the other ones: they run another program, or do not answer.

use exec::DropReason;
use packet::Nanos;
use split::Requests;
use switch::Device;

/// Time between two looks at the counts.
const INTERVAL: Nanos = Nanos(1_000_000_000);

/// Time without any answer after which a switch reports it.
const SILENCE: Nanos = Nanos(2_000_000_000);

/// Watch over the frames of other programs that a half has dropped. It reports them once.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// Reason of these drops.
    reason: DropReason,
    epoch: u16,
    last: Nanos,
    is_reported: bool,
}

impl Agreement {
    /// Creates the watch of a half with frames of this epoch.
    pub(crate) fn new(reason: DropReason, epoch: u16) -> Agreement {
        Agreement {
            reason,
            epoch,
            last: Nanos::ZERO,
            is_reported: false,
        }
    }

    /// Returns a line if the half has dropped frames of another program, once.
    pub(crate) fn notice(&mut self, device: &Device) -> Option<String> {
        let now = device.now();
        if self.is_reported || now < self.last + INTERVAL {
            return None;
        }
        self.last = now;
        self.is_reported = device.ledger().dropped(self.reason) > 0;
        self.is_reported.then(|| {
            format!(
                "warning: frames of another program arrive, and are dropped ({}): start the switch, \
                 all servers and the coordinator with the same program and the same options; \
                 `polyplane split show` has the epoch of a program, here {:#06x}",
                self.reason.name(),
                self.epoch
            )
        })
    }
}

/// Watch over the answers of servers. It reports once that there is none.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Time at which the switch was first seen with a request.
    first: Option<Nanos>,
    is_over: bool,
}

impl Silence {
    /// Returns a line if no server answers, once.
    pub(crate) fn notice(&mut self, requests: &Requests, now: Nanos) -> Option<String> {
        let sent = requests.sent();
        if self.is_over || sent == 0 {
            return None;
        }
        let began = *self.first.get_or_insert(now);
        let is_answered = requests.unanswered() < sent;
        self.is_over = is_answered || now.since(began) >= SILENCE;
        (self.is_over && !is_answered).then(|| {
            "warning: no server has answered yet: check that `polyplane split server` runs with the \
             same program and options, and what its report says of drops: handlers may drop all"
                .to_owned()
        })
    }
}

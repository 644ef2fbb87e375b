//! Fair sharing of one worker's processor among vPDPs: weighted max-min fairness, enforced only
//! while the total demand exceeds the capacity. Service turns follow deficit round robin, in
//! cycles.
//!
//! **Terms.**
//! - *Interval*: the period in which demand is measured ([`Fairness::interval`]).
//! - *Demand*: the cycles that a vPDP used, plus the estimated cycles of its refused packets.
//! - *Guaranteed share*: the cycles of an interval that a vPDP gets even if all others with demand
//!   exceed theirs.
//! - *Share*: the limit of a vPDP in the current interval. A vPDP with a finite share is
//!   *limited*.
//! - *Credit*: guaranteed share that has accrued and was not used.
//! - *Service turn*: the packets of one vPDP that are processed at once. A *round* is one turn of
//!   each vPDP with packets.
//!
//! **Shares.** The demand in one interval sets the shares in the next: a share is a level times
//! the weight. The level is the highest one at which the demand fits into an interval. A vPDP with
//! less demand is not limited. The excess of a limited vPDP waits at its ports or is refused.
//! Packets may wait at a port that is not polled: the vPDP's demand then counts as unchanged,
//! until one of its ports delivers less than it was granted. A share accrues continuously, and at
//! most one interval's worth is kept. No vPDP is limited while the worker keeps up: small batches
//! cost more per packet, and would cost less if the packets waited.
//!
//! **Service turns.** A vPDP with at least half an interval's credit is served before the others.
//! Its turn lasts as long as it has credit, up to [`LONG_VISIT`] quanta. The others are served for
//! one quantum, or for their accrued share if rounds are so long that this is more. A limited vPDP
//! saves for its turn: nothing is received or served for it before its share covers the turn. So
//! most rounds exclude it, and are as short as without it, and the fixed cost per turn stays
//! small. A packet that costs more than a quantum is saved for in the same way. One that costs
//! more than the longest turn is paid from the credit. If all vPDPs with demand are limited, short
//! rounds help no vPDP, and all turns have the maximum length.
//!
//! **Billing.** A port of one vPDP delivers only the packets that its next turn has time to
//! receive and serve. All of these are served. Receiving and sorting counts as use of the vPDP. A
//! limited vPDP also pays the fixed cost of its turns. The others pay only for their packets,
//! because the number and length of rounds depends on all senders. That fixed cost, and receiving
//! from shared ports, which cannot be refused, is billed to no vPDP. It reduces the capacity, by
//! at most [`MAX_RECEPTION`].
//!
//! **Reserve.** The part of a second beyond [`Fairness::cycles_per_second`] is not shared, which
//! keeps rounds short. While all vPDPs with demand are limited, no vPDP needs this reserve: if the
//! worker is idle then, all shares are advanced until the first one suffices for a turn. While
//! some are not limited, [`level::KEPT`] of the capacity is reserved too, out of what the others
//! get beyond their guaranteed shares.
//!
//! **Debts.** Costs above the estimate are owed, and paid back by waiting. A debt is bounded
//! ([`MAX_OWED`], [`MAX_PACKETS_OWED`]), so that even a vPDP with a small share gets packets
//! again soon. Work for refused packets, such as counting them, is billed to no vPDP: a flooding
//! vPDP would never get a turn otherwise.
//!
//! A recirculated packet is served one recirculation at a time, as the share accrues. A vPDP with
//! packets waiting for recirculation demands more than the capacity, and none of its other packets
//! are received meanwhile. If turns are too short for a vPDP's guaranteed share, it demands that
//! share for the fraction of the interval in which they are. The others leave it that much,
//! however expensive their packets are. The tolerance of the others then shrinks with their use
//! beyond their guaranteed shares. A single vPDP is served without limit.

mod level;

use packet::Nanos;

use crate::cycle_accounting::{CycleUse, ForwardedFrames, Reception};
use crate::snapshot::VpdpIndex;
use level::{LENIENCE, kept, level};

/// Configuration of fair sharing of a worker's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// Period in which demand is measured.
    pub interval: Nanos,
    /// Cycles per second of one worker that are available for packets.
    pub cycles_per_second: u64,
    /// Length of a service turn of a vPDP that demands more than its guaranteed share (deficit
    /// round robin quantum). A single packet or recirculation may take longer.
    pub quantum: Nanos,
}

impl Fairness {
    /// Returns the quantum in cycles.
    fn quantum(&self) -> f64 {
        self.cycles_per_second as f64 * self.quantum.as_secs_f64()
    }

    /// Returns the minimum capacity in cycles per second, after the maximum deduction for
    /// receiving.
    pub fn least(&self) -> u64 {
        (self.cycles_per_second as f64 * (1.0 - MAX_RECEPTION)) as u64
    }

    /// Returns the capacity of an interval in cycles. `reception` is the work billed to no vPDP,
    /// `part` the fraction of its core that the thread gets.
    fn capacity(&self, reception: f64, part: f64) -> f64 {
        let most = self.cycles_per_second as f64 * self.interval.as_secs_f64() * part;
        most - reception.clamp(0.0, most * MAX_RECEPTION)
    }
}

/// Maximum fraction of the capacity that is deducted for unbilled work. Without a bound, a worker
/// that refuses packets would only receive more of them.
const MAX_RECEPTION: f64 = 0.15;

/// Averaging window, in intervals, of the fraction of its core that a thread gets: time slices of
/// the operating system are longer than an interval. `MIN_OF_CORE` is the minimum fraction.
const SMOOTHING: f64 = 32.0;
const MIN_OF_CORE: f64 = 0.05;

/// Cost estimate, in cycles, before the first packet of a vPDP was served.
const FIRST_COST: f64 = 200.0;

/// Demand of a vPDP with waiting packets, as a multiple of the capacity.
const MORE_THAN_ALL: f64 = 2.0;

/// Maximum length of a service turn, in quanta.
const LONG_VISIT: f64 = 4.0;

/// Maximum debt, in intervals of the share and in packets: the larger one applies. It bounds the
/// time without service after packets that cost more than estimated.
const MAX_OWED: f64 = 16.0;
const MAX_PACKETS_OWED: f64 = 32.0;

/// Account of one vPDP on one worker. `used`, `served` and `refused` count the current interval.
#[derive(Clone, Debug)]
struct Account {
    weight: f64,
    used: f64,
    served: u64,
    refused: u64,
    /// Recirculations in this interval.
    passes: u64,
    /// True if it had a service turn since work outside of turns was charged.
    was_visited: bool,
    /// True if packets in the device wait for recirculations.
    is_waiting: bool,
    /// Packets received in this interval, the cycles for that, and the part of the cycles that was
    /// billed: packets from ports with a grant.
    received: u64,
    reception: f64,
    paid_reception: f64,
    /// Cycles per packet, from the last interval in which one was served.
    cost: f64,
    /// Cycles for receiving a packet, from the last interval in which one was received.
    reception_cost: f64,
    /// Cycles per packet or recirculation, from the last interval with one.
    pass_cost: f64,
    /// Share: cycles that accrue in an interval; infinite while it is not limited.
    share: f64,
    /// Guaranteed share of an interval, and the credit: the part that accrued and was not used. A
    /// negative credit was used in advance.
    own: f64,
    credit: f64,
    /// Last burst with packets of the vPDP.
    came: u64,
    /// Demand in the last interval. `is_put_off`: in this one an own port was granted nothing, so
    /// the demand is unknown.
    asked_before: f64,
    is_put_off: bool,
    /// Last receive round in which one of its own ports delivered its whole grant. `is_emptied`:
    /// in some round of this interval none did, so nothing waited.
    filled_up: u64,
    is_emptied: bool,
    /// Packets granted to its ports.
    granted: Granted,
    /// Demand signals after the guaranteed share is used: `is_full` if own ports delivered their
    /// whole grant, `has_more` if more packets arrived by other ports than a turn serves. More may
    /// wait.
    is_full: bool,
    has_more: bool,
    /// Number of bursts of this interval with such a signal before the guaranteed share was used.
    cut: u64,
    /// Cycles that it may use now; negative if future share was used.
    left: f64,
    /// Cycles that `left` must reach before its next turn; 0 if it does not wait.
    waits_for: f64,
    /// Time up to which the share has accrued.
    filled: Nanos,
    /// Total work done for it.
    carried: ForwardedFrames,
}

/// Packets granted to a vPDP's own ports. They are served, whatever receiving them costs.
#[derive(Clone, Copy, Debug, Default)]
struct Granted {
    /// Receive round of the grant: the time from one series of grants to the next. It has one
    /// burst, or several if ports deliver much.
    carry: u64,
    /// Granted packets that no burst has delivered yet.
    left: usize,
    /// True if the grant was not 0.
    any: bool,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            weight: 1.0,
            used: 0.0,
            served: 0,
            refused: 0,
            passes: 0,
            was_visited: false,
            is_waiting: false,
            received: 0,
            reception: 0.0,
            paid_reception: 0.0,
            cost: FIRST_COST,
            reception_cost: 0.0,
            pass_cost: FIRST_COST,
            share: f64::INFINITY,
            own: 0.0,
            credit: 0.0,
            came: 0,
            asked_before: 0.0,
            is_put_off: false,
            filled_up: 0,
            is_emptied: false,
            granted: Granted::default(),
            is_full: false,
            has_more: false,
            cut: 0,
            left: f64::INFINITY,
            waits_for: 0.0,
            filled: Nanos::ZERO,
            carried: ForwardedFrames::default(),
        }
    }
}

impl Account {
    /// Returns the demand per interval, averaged over `intervals` intervals and `bursts` bursts.
    /// It is above the capacity if packets wait. It is at least the guaranteed share, times the
    /// fraction of bursts in which a turn was too short.
    fn asked(&self, intervals: f64, bursts: u64, capacity: f64) -> f64 {
        let used = self.used + self.paid_reception;
        let asked = (used + self.refused as f64 * self.cost) / intervals;
        let asked = asked.max(self.own * self.short(bursts));
        let asked = match self.waits_outside() {
            true => asked.max(self.asked_before),
            false => asked,
        };
        let is_full = self.is_full && !self.is_emptied;
        match self.is_waiting || self.has_more || is_full {
            true => asked.max(capacity * MORE_THAN_ALL),
            false => asked,
        }
    }

    /// Returns the fraction of bursts in which a turn was too short although credit was left.
    fn short(&self, bursts: u64) -> f64 {
        (self.cut as f64 / bursts.max(1) as f64).min(1.0)
    }

    /// Returns the factor by which the demand may exceed the share before the vPDP is limited.
    /// `short` is the largest fraction of bursts in which some vPDP's turns were too short. The
    /// factor then shrinks with the use beyond the guaranteed share, which that vPDP lacks.
    fn lenience(&self, short: f64) -> f64 {
        let beyond = (-self.credit).max(0.0) / self.own.max(f64::MIN_POSITIVE);
        LENIENCE - (LENIENCE - 1.0) * short * beyond.min(1.0)
    }

    /// Records that no packets wait at its own ports, if none of them delivered its whole grant in
    /// the last receive round. Must be called before the grants of round `carry`.
    fn notice_empty(&mut self, carry: u64) {
        let Granted {
            carry: last, any, ..
        } = self.granted;
        self.is_emptied |= last < carry && any && self.filled_up != last;
    }

    /// Returns true if packets may wait unseen at its ports.
    fn waits_outside(&self) -> bool {
        self.is_put_off && !self.is_emptied
    }

    /// Returns true if packets may wait anywhere for processor time.
    fn waits(&self) -> bool {
        self.waits_outside() || self.has_more || self.is_waiting || self.cut > 0
    }

    /// Returns the cost of its smallest unit of work: a recirculated packet is served one
    /// recirculation at a time.
    fn undivided(&self, cost: f64) -> f64 {
        cost.min(self.reception_cost + self.pass_cost)
    }

    /// Updates the cost estimates at the end of an interval.
    fn learn(&mut self) {
        if self.served > 0 {
            self.cost = (self.used / self.served as f64).max(1.0);
        }
        if self.received > 0 {
            self.reception_cost = self.reception / self.received as f64;
        }
        if self.served + self.passes > 0 {
            self.pass_cost = (self.used / (self.served + self.passes) as f64).max(1.0);
        }
    }

    /// Returns the granted packets of a receive round that have not arrived yet.
    fn granted_in(&self, carry: u64) -> usize {
        match self.granted {
            Granted {
                carry: last, left, ..
            } if last == carry => left,
            _ => 0,
        }
    }

    /// Adds packets to the grant of a receive round.
    fn allow(&mut self, carry: u64, packets: usize) {
        if self.granted.carry != carry {
            self.granted = Granted {
                carry,
                ..Granted::default()
            };
        }
        self.granted.left = self.granted.left.saturating_add(packets);
        self.granted.any |= packets > 0;
    }

    /// Returns the maximum of `left`: an interval's share, or the cost of a turn if that is more.
    fn most_left(&self, longest: f64) -> f64 {
        let piece = self.undivided(self.cost + self.reception_cost);
        self.share.max(longest).max(piece)
    }

    /// Adds the share and credit that have accrued by `now`. `longest` is the maximum cost of a
    /// turn.
    #[inline]
    fn fill(&mut self, now: Nanos, interval: Nanos, longest: f64) {
        if now != self.filled {
            self.fill_until(now, interval, longest);
        }
    }

    /// Slow part of [`Account::fill`]. Not inlined: the code of a service turn must fit into the
    /// L1 instruction cache.
    #[inline(never)]
    fn fill_until(&mut self, now: Nanos, interval: Nanos, longest: f64) {
        let past = intervals(now.since(self.filled), interval);
        if self.is_limited() {
            self.left += self.share * past;
        }
        self.credit += self.own * past;
        self.filled = now;
        self.cap(longest);
    }

    /// Limits `left` and the credit to their maximum.
    fn cap(&mut self, longest: f64) {
        if self.is_limited() {
            self.left = self.left.min(self.most_left(longest));
        }
        self.credit = self.credit.min(self.own);
    }

    /// Returns true if its demand exceeds its share.
    fn is_limited(&self) -> bool {
        self.share.is_finite()
    }

    /// Returns the number of intervals until the share that it waits for has accrued. Returns
    /// `None` if it does not wait, or waits for more than its share. The latter is served in a
    /// burst without packets of other vPDPs, which may be the next one.
    fn wait(&self) -> Option<f64> {
        let missing = self.waits_for - self.left;
        let waits = self.is_limited() && self.waits_for.is_finite() && missing > 0.0;
        waits.then(|| missing / self.share)
    }

    /// Subtracts cycles from what it may use now.
    fn take(&mut self, cycles: f64) {
        let most = (self.share * MAX_OWED).max(self.cost * MAX_PACKETS_OWED);
        self.left = (self.left - cycles).max(-most);
    }

    /// Returns the cycles of its guaranteed share that it may use now.
    fn purse(&self) -> f64 {
        self.credit.min(self.left)
    }

    /// Returns the cycles saved for a turn: the share if limited, which turns would not use up
    /// when rounds are long, and else the credit.
    fn saved(&self) -> f64 {
        match self.is_limited() {
            true => self.left,
            false => self.credit,
        }
    }

    /// Returns true if it has used so little of its guaranteed share that it is served before
    /// others.
    fn has_credit(&self) -> bool {
        self.purse() * 2.0 >= self.own
    }

    /// Subtracts cycles from the credit. The debt is limited to one interval.
    fn pay(&mut self, cycles: f64) {
        self.credit = (self.credit - cycles).max(-self.own);
    }

    /// Records cycles that its packets used.
    fn spend(&mut self, cycles: f64) {
        self.used += cycles;
        self.pay(cycles);
    }

    /// Sets its share, after `past` intervals with the old one or without a limit.
    fn limit(&mut self, share: f64, past: f64) {
        self.left = match (share.is_finite(), self.share.is_finite()) {
            (false, _) => f64::INFINITY,
            (true, true) => self.left,
            // A vPDP that was not limited owes its use above the new share.
            (true, false) => share - (self.used + self.paid_reception - share * past).max(0.0),
        };
        self.share = share;
        self.take(0.0);
    }
}

/// Cost of a service turn, and the part of it that its packets caused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceTurn {
    pub(crate) cycles: u64,
    pub(crate) of_packets: u64,
}

fn intervals(time: Nanos, interval: Nanos) -> f64 {
    time.0 as f64 / interval.0.max(1) as f64
}

/// Accounts of all vPDPs of a worker.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    accounts: Vec<Account>,
    now: Nanos,
    interval: Nanos,
    quantum: f64,
    /// Time by which shares were advanced while the worker was idle.
    ahead: Nanos,
    /// Number of the current burst, and of the first burst of the interval.
    round: u64,
    first: u64,
    began: Nanos,
    ends: Nanos,
    /// Cycles that all vPDPs used in this interval, and the cycles billed to no vPDP.
    used: f64,
    reception: f64,
    /// Time of this interval in which the thread did not run, and the average fraction of such
    /// time.
    missed: Nanos,
    lost: f64,
    /// Number of vPDPs with demand in the last interval; number of vPDPs with packets in burst
    /// `met`.
    askers: usize,
    crowd: usize,
    met: u64,
    /// Last burst in which a turn was booked.
    booked: u64,
    /// Number of the receive round, and whether ports have received grants since the last burst.
    carry: u64,
    is_granting: bool,
    /// Number of vPDPs with demand that are not limited.
    modest: usize,
    /// True if the worker did not keep up with arrivals in this interval.
    is_behind: bool,
    is_contended: bool,
}

impl Shares {
    /// Advances time. Must be called once per burst.
    pub(crate) fn begin(&mut self, fairness: &Fairness, slots: usize, now: Nanos) {
        if self.accounts.len() < slots {
            self.accounts.resize(slots, Account::default());
        }
        (self.now, self.interval) = (now, fairness.interval);
        self.hasten();
        self.round += 1;
        self.is_granting = false;
        self.quantum = fairness.quantum();
        // No vPDP is limited before contention is seen: a new interval then begins at once.
        let is_surprise = !self.is_contended
            && self.is_behind
            && self.used > fairness.capacity(0.0, self.part_of_core());
        if now < self.ends && !is_surprise {
            return;
        }
        let past = intervals(now.since(self.began), self.interval);
        self.ends = now + fairness.interval;
        self.began = now;
        self.accounts.iter_mut().for_each(Account::learn);
        // Bursts may be further apart than intervals.
        let long = past.max(1.0);
        self.learn_lost(past);
        // A port without a grant may have more, and packets that wait inside arrived long ago.
        self.is_behind |= self.accounts.iter().any(Account::waits);
        let part = self.part_of_core();
        let capacity = fairness.capacity(self.reception / long, part);
        let asked = self.accounts.iter();
        let bursts = self.round - std::mem::replace(&mut self.first, self.round);
        let asked = asked.map(|account| (account.asked(long, bursts, capacity), account.weight));
        let active = asked.clone().filter(|(asked, _)| *asked > 0.0);
        self.askers = active.clone().count();
        let weights: f64 = active.map(|(_, weight)| weight).sum();
        // A vPDP that cannot use more than its guaranteed share leaves its excess demand to the
        // others.
        let longest = self.longest();
        let is_bound = |account: &Account| account.undivided(account.cost) > longest;
        let takes = self.accounts.iter().map(|account| {
            let asked = account.asked(long, bursts, capacity);
            let most = if is_bound(account) {
                account.own
            } else {
                asked
            };
            (asked.min(most), account.weight)
        });
        let [all, rest] = match self.is_behind {
            true => {
                let left = capacity * (1.0 - kept(level(capacity, asked.clone()), asked.clone()));
                [level(left, asked), level(left, takes)]
            }
            false => [f64::INFINITY; 2],
        };
        let short = self.accounts.iter().map(|account| account.short(bursts));
        let short = short.fold(0.0, f64::max);
        self.is_contended = all.is_finite();
        self.modest = 0;
        (self.used, self.reception, self.is_behind) = (0.0, 0.0, false);
        // Guaranteed shares: as if all vPDPs, this one included, demanded more. No deduction for
        // receiving.
        let most = fairness.capacity(0.0, part);
        let time = self.time();
        for account in &mut self.accounts {
            let asked = account.asked(long, bursts, capacity);
            account.fill(time, fairness.interval, longest);
            let others = match asked > 0.0 {
                true => weights - account.weight,
                false => weights,
            };
            account.own = most * account.weight / (others + account.weight);
            let level = if is_bound(account) { all } else { rest };
            // The reserve comes out of unused shares: the guaranteed share does not depend on the
            // cost of rounds.
            let share = (level * account.weight).max(account.own * (1.0 - MAX_RECEPTION));
            let is_limited = asked > share * account.lenience(short);
            account.limit(if is_limited { share } else { f64::INFINITY }, past);
            account.cap(longest);
            self.modest += usize::from(asked > 0.0 && !account.is_limited());
            (account.has_more, account.is_full, account.cut) = (false, false, 0);
            account.asked_before = asked;
            (account.is_put_off, account.is_emptied) = (false, false);
            account.used = 0.0;
            (account.served, account.refused, account.passes) = (0, 0, 0);
            (account.received, account.reception, account.paid_reception) = (0, 0.0, 0.0);
        }
    }

    /// Advances all shares until the first waiting vPDP has enough. Only if all vPDPs with demand
    /// wait and the last burst was idle.
    fn hasten(&mut self) {
        if !self.is_contended || self.modest > 0 || self.was_busy() {
            return;
        }
        let waits = self.accounts.iter().filter_map(|account| account.wait());
        let least = waits.fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            self.ahead += Nanos((least * self.interval.0 as f64) as u64 + 1);
        }
    }

    /// Returns true if the last burst had packets or recirculations.
    fn was_busy(&self) -> bool {
        self.booked == self.round || self.crowd > 0 && self.met == self.round
    }

    /// Returns the time up to which shares accrue.
    fn time(&self) -> Nanos {
        self.now + self.ahead
    }

    /// Returns the average fraction of its core that the thread gets.
    fn part_of_core(&self) -> f64 {
        (1.0 - self.lost).max(MIN_OF_CORE)
    }

    /// Updates the fraction of time in which the thread does not run. `past` is the number of
    /// intervals that it covers: less than one where contention was just seen.
    fn learn_lost(&mut self, past: f64) {
        let missed = intervals(std::mem::take(&mut self.missed), self.interval);
        let lost = (missed / past).min(1.0);
        let weight = (past / SMOOTHING).min(1.0);
        self.lost += (lost - self.lost) * weight;
    }

    /// Records time in which the thread did not run.
    pub(crate) fn miss(&mut self, time: Nanos) {
        self.missed += time;
    }

    /// Records the cost of receiving and sorting a burst.
    pub(crate) fn receive(&mut self, reception: Reception) {
        self.miss(reception.missed);
        self.reception += reception.cycles as f64;
        self.is_behind |= reception.is_behind;
    }

    /// Bills a vPDP its part of the cost of receiving and sorting a burst.
    pub(crate) fn receive_for(&mut self, slot: VpdpIndex, packets: usize, cycles: f64) {
        self.fill(slot);
        if let Some(account) = self.accounts.get_mut(slot.index()) {
            account.received += packets as u64;
            account.reception += cycles;
            account.carried.cycles += cycles as u64;
            account.came = self.round;
            let granted = account.granted_in(self.carry).min(packets);
            // Packets from other or shared ports cannot be refused: a debt for them would never
            // end.
            let paid = cycles * granted as f64 / packets.max(1) as f64;
            account.pay(paid);
            account.paid_reception += paid;
            account.take(paid);
            self.reception -= paid;
        }
    }

    /// Records the number of vPDPs with packets in the current burst.
    pub(crate) fn meet(&mut self, crowd: usize) {
        (self.crowd, self.met) = (crowd, self.round);
    }

    /// Adds the share and credit of a vPDP that have accrued by now.
    fn fill(&mut self, slot: VpdpIndex) {
        let (time, longest) = (self.time(), self.longest());
        if let Some(account) = self.accounts.get_mut(slot.index()) {
            account.fill(time, self.interval, longest);
        }
    }

    /// Returns the number of packets that its port may deliver in the next receive round, at most
    /// `room`. A service turn has time to receive and serve that many.
    pub(crate) fn grant(&mut self, slot: VpdpIndex, room: usize) -> usize {
        self.fill(slot);
        if !std::mem::replace(&mut self.is_granting, true) {
            self.carry += 1;
        }
        let Some(account) = self.accounts.get(slot.index()) else {
            return usize::MAX;
        };
        let granted = match account.is_waiting && account.is_limited() {
            true => 0,
            false => self.affords(slot, |account| account.cost + account.reception_cost),
        };
        let granted = granted.min(room);
        let account = &mut self.accounts[slot.index()];
        account.notice_empty(self.carry);
        account.allow(self.carry, granted);
        account.is_put_off |= granted == 0;
        granted
    }

    /// Records that one of its own ports delivered its whole grant: more may wait. Returns true if
    /// the vPDP has used its guaranteed share.
    pub(crate) fn fill_up(&mut self, slot: VpdpIndex) -> bool {
        let Some(account) = self.accounts.get(slot.index()) else {
            return true;
        };
        let is_first = account.filled_up != self.carry;
        let is_cut = is_first && account.has_credit() && account.cost <= self.cycles(account);
        let account = &mut self.accounts[slot.index()];
        account.cut += u64::from(is_cut);
        account.filled_up = self.carry;
        let asks_for_more = !account.has_credit();
        account.is_full |= asks_for_more;
        asks_for_more
    }

    /// Returns the number of packets that a service turn serves; no limit if no other vPDP has
    /// demand.
    pub(crate) fn visit(&mut self, slot: VpdpIndex) -> usize {
        self.fill(slot);
        let Some(account) = self.accounts.get(slot.index()) else {
            return usize::MAX;
        };
        let granted = account.granted_in(self.carry);
        let visit = self.affords(slot, |account| account.cost);
        match granted {
            // The grant had no limit, but another vPDP has got demand since.
            usize::MAX => visit,
            granted => visit.max(granted),
        }
    }

    /// Returns the number of units of this cost in a service turn; 0 until the share covers the
    /// turn. Not inlined, as [`Account::fill_until`].
    #[inline(never)]
    fn affords(&mut self, slot: VpdpIndex, cost: fn(&Account) -> f64) -> usize {
        let Some(account) = self.accounts.get(slot.index()) else {
            return usize::MAX;
        };
        let cost = cost(account);
        let needed = self.needed(account, account.undivided(cost));
        let most = (self.cycles(account) / cost) as usize;
        let is_due = needed.is_finite() && account.left >= needed;
        self.accounts[slot.index()].waits_for = if is_due { 0.0 } else { needed };
        if is_due { most.max(1) } else { 0 }
    }

    /// Returns the cycles that must have accrued before a turn with units of this cost. They cover
    /// a whole turn, so that turns are few. A unit that costs more than the longest turn is paid
    /// from the guaranteed share, and then from future share: if more of it ran, the others would
    /// not get theirs.
    fn needed(&self, account: &Account, cost: f64) -> f64 {
        let is_dear = cost > self.longest();
        match is_dear && (self.is_lone(account) || account.credit >= cost.min(account.own / 2.0)) {
            true => f64::MIN_POSITIVE,
            false if is_dear => f64::INFINITY,
            false => cost.max(self.shortest()),
        }
    }

    /// Returns the cycles of a turn of a vPDP that has used its guaranteed share.
    fn shortest(&self) -> f64 {
        match self.modest {
            0 => self.longest(),
            _ => self.quantum,
        }
    }

    /// Returns the maximum cycles of a turn.
    fn longest(&self) -> f64 {
        self.quantum * LONG_VISIT
    }

    /// Returns true if the last burst had no packets of other vPDPs.
    fn is_lone(&self, account: &Account) -> bool {
        self.crowd <= usize::from(account.came == self.met)
    }

    /// Returns the cycles of the next turn of a vPDP.
    fn cycles(&self, account: &Account) -> f64 {
        let longest = self.longest();
        match (self.askers, self.is_lone(account)) {
            (0 | 1, true) => f64::INFINITY,
            // Another vPDP has just started to send.
            (0 | 1, false) => longest,
            _ => account.saved().clamp(self.shortest(), longest),
        }
    }

    /// Records that at least as many packets arrived at once as a turn serves. The demand exceeds
    /// the capacity then, unless the guaranteed share is not used up: bursts within that share are
    /// no excess. If it continues, turns are too short for the guaranteed share, and the others
    /// leave it that share. A packet that costs more than a turn has a turn alone, and says
    /// nothing about waiting packets.
    pub(crate) fn has_more(&mut self, slot: VpdpIndex, packets: usize) {
        let Some(account) = self.accounts.get(slot.index()) else {
            return;
        };
        // For granted packets, the ports report it.
        let came_alone = packets > account.granted_in(self.carry);
        let (has_credit, is_cut) = (account.has_credit(), account.cost <= self.cycles(account));
        let account = &mut self.accounts[slot.index()];
        account.has_more |= !has_credit && came_alone;
        account.cut += u64::from(has_credit && came_alone && is_cut);
    }

    /// Returns true if the vPDP is served before others.
    pub(crate) fn has_credit(&self, slot: VpdpIndex) -> bool {
        let account = self.accounts.get(slot.index());
        account.is_none_or(Account::has_credit)
    }

    /// Returns all work done for a vPDP since it was created.
    pub(crate) fn carried(&self, slot: VpdpIndex) -> ForwardedFrames {
        let account = self.accounts.get(slot.index());
        account.map_or(ForwardedFrames::default(), |account| account.carried)
    }

    /// Clears the accounts of tenant indices without a vPDP.
    pub(crate) fn forget(&mut self, is_nobodys: impl Fn(VpdpIndex) -> bool) {
        for (slot, account) in (0..).map(VpdpIndex).zip(&mut self.accounts) {
            if is_nobodys(slot) {
                *account = Account::default();
            }
        }
    }

    /// Returns the number of packets that are served, and the number of recirculations that may
    /// begin.
    pub(crate) fn admit(&mut self, slot: VpdpIndex, weight: u32, packets: usize) -> (usize, u32) {
        let passes = self.passes(slot);
        let carry = self.carry;
        let Some(account) = self.accounts.get_mut(slot.index()) else {
            return (packets, passes);
        };
        account.weight = weight.into();
        let granted = match account.granted_in(carry) {
            usize::MAX => 0,
            granted => granted,
        };
        account.granted.left = granted.saturating_sub(packets);
        // The last packet may cost more than is left: the next interval pays for it.
        let given = match account.is_waiting && account.is_limited() {
            true => 0,
            false => ((account.left / account.cost).ceil().max(0.0) as usize).max(granted),
        };
        let given = packets.min(given);
        account.served += given as u64;
        account.refused += (packets - given) as u64;
        account.take(given as f64 * account.cost);
        (given, passes)
    }

    /// Returns the number of recirculations that may begin.
    pub(crate) fn passes(&mut self, slot: VpdpIndex) -> u32 {
        self.fill(slot);
        let Some(account) = self.accounts.get(slot.index()) else {
            return u32::MAX;
        };
        // Without a limit, the conversion saturates.
        let left = (account.left / account.pass_cost).ceil().max(0.0) as u32;
        let visit = match account.granted_in(self.carry) {
            0 => self.affords(slot, |account| account.pass_cost),
            // Receiving may have left less than a turn needs.
            _ => (self.cycles(account) / account.pass_cost) as usize,
        };
        left.min(u32::try_from(visit).unwrap_or(u32::MAX))
    }

    /// Returns the time at which its next recirculation may begin, as far as it is known now.
    pub(crate) fn next_pass(&self, slot: VpdpIndex) -> Nanos {
        let account = self.accounts.get(slot.index());
        let wait = account.and_then(|account| Some((account, account.wait()?)));
        match wait {
            // If all vPDPs wait, shares are advanced with the next burst.
            Some((account, wait)) if self.modest > 0 || wait.is_infinite() => {
                let filled = account.filled.0.saturating_sub(self.ahead.0);
                let wait = (wait * self.interval.0 as f64) as u64;
                Nanos(filled.saturating_add(wait).saturating_add(1))
            }
            _ => self.now,
        }
    }

    /// Bills work outside of service turns, if there was a turn since the last call. Otherwise the
    /// work is billed to no vPDP: one of which all packets are refused would never get a turn.
    pub(crate) fn charge(&mut self, slot: VpdpIndex, cycles: u64) {
        let Some(account) = self.accounts.get_mut(slot.index()) else {
            return;
        };
        match std::mem::take(&mut account.was_visited) {
            true => {
                self.used += cycles as f64;
                account.spend(cycles as f64);
                account.take(cycles as f64);
            }
            false => self.reception += cycles as f64,
        }
    }

    /// Records the cost of a service turn: its admitted packets and all recirculations.
    /// `is_waiting` is true if packets wait for recirculations now.
    pub(crate) fn book(
        &mut self,
        slot: VpdpIndex,
        work: CycleUse,
        visit: ServiceTurn,
        is_waiting: bool,
    ) {
        if let Some(account) = self.accounts.get_mut(slot.index()) {
            let cycles = match account.is_limited() {
                true => visit.cycles,
                false => visit.of_packets,
            };
            self.used += cycles as f64;
            self.booked = self.round;
            account.spend(cycles as f64);
            account.was_visited = true;
            account.carried.work.packets += work.packets;
            account.carried.work.passes += work.passes;
            account.carried.cycles += visit.cycles;
            self.reception += (visit.cycles - cycles) as f64;
            account.passes += work.passes;
            account.is_waiting = is_waiting;
            account.take(cycles as f64 - work.packets as f64 * account.cost);
        }
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

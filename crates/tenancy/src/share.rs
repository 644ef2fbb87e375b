//! Fair shares of one worker's processor: weighted, by max-min, and only while virtual data planes together ask for more than there is.
//!
//! **Shares.** Time goes in intervals. What each vPDP asked for in one (the cycles that it used, and those that its refused packets would have taken) says how
//! much each may use in the next: a level times its weight, where the level is the highest at which what is asked for fits into an interval. Who asks
//! for less than that is not limited by it; who asks for more is, and what it sends too much waits at its ports or is refused. What waits where nobody looks is
//! taken to be as much as before, until a port was seen to have less than it might give. A share comes bit by bit as time goes on, and what is left of it is
//! kept up to an interval's. Nobody is limited while the worker keeps up: packets that come few at a time cost more each, and would cost less if they waited.
//!
//! **Visits.** Where several ask, they are visited in turns (deficit round robin, by cycles). What each could have at least, if all asked for more, comes as
//! credit. Who has half of an interval's credit or more is visited before the others, for as long as it has credit, up to [`LONG_VISIT`] quanta. The others are
//! visited for a quantum, or for what has come of their shares, where rounds are so long that this is more. Who is limited saves for that: it has no packets
//! received and no visit before what they take has come of its share. So most rounds are without it, and as short as if it were not there, and what a visit
//! takes beside its packets is little of it. What is dearer than a quantum is saved for in the same way; what is dearer than the longest visit comes out of the
//! credit. Where nobody asks for less than its share, nobody waits for rounds to be short, and all visits are the longest.
//!
//! **Who pays.** A port of one's own gives no more than the visit that follows has time to receive and to serve, and what it gave is served. To receive
//! and to sort that is part of what a vPDP uses. Who is limited pays for its visits whole too. The others pay for what their packets do alone: how many visits
//! there are, and what rounds take, is up to all who send. That, and to receive what comes by ports that several share and cannot be refused, is nobody's: there is
//! less to share by as much as that takes, up to [`MOST_RECEPTION`].
//!
//! **What is kept.** What [`Fairness::cycles_per_second`] leaves of a second is not shared, so that rounds are short. While all who ask are limited nobody needs
//! that: when nothing is to be done then, time goes on for all shares at once until the first has come. While some are not limited,
//! [`level::KEPT`] of what is shared is kept too, of what the others have beyond their own.
//!
//! **Debts.** What is dearer than was known is owed, and paid by waiting; up to a bound ([`MOST_OWED`], [`MOST_PACKETS_OWED`]), so that nobody is without packets
//! for longer than its share takes for those, however small it is. What would be done for packets that are refused, like counting them, is nobody's: who floods would never come to a visit.
//!
//! A packet that starts over is served pass by pass, as the share comes. Who has packets that wait for it asks for more than there is, and no others of
//! its packets come in meanwhile. For whom visits do not suffice for what it could have at least asks for that much, for the part of an interval in which they do
//! not: the others leave it that, however dear their packets are. What one may ask for beyond its share without being limited is the less then, the more it has had
//! beyond what it could have at least. One alone is visited without bound.

mod level;

use packet::Nanos;

use crate::gauge::{Carried, Reception, Work};
use crate::root::Slot;
use level::{LENIENCE, kept, level};

/// How a worker's processor is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// How long what was asked for counts.
    pub interval: Nanos,
    /// Cycles that packets may take of one worker in a second.
    pub cycles_per_second: u64,
    /// For how long one that asks for more than it could have at least keeps the others waiting each time, unless a packet or a pass takes longer.
    pub quantum: Nanos,
}

impl Fairness {
    /// Cycles of a quantum.
    fn quantum(&self) -> f64 {
        self.cycles_per_second as f64 * self.quantum.as_secs_f64()
    }

    /// What there is to share at least, in cycles a second: receiving packets takes from it.
    pub fn least(&self) -> u64 {
        (self.cycles_per_second as f64 * (1.0 - MOST_RECEPTION)) as u64
    }

    /// What there is to share in an interval in which what nobody pays for takes so much, where the thread has this part of its core.
    fn capacity(&self, reception: f64, part: f64) -> f64 {
        let most = self.cycles_per_second as f64 * self.interval.as_secs_f64() * part;
        most - reception.clamp(0.0, most * MOST_RECEPTION)
    }
}

/// Of what packets may take, no more than this is taken away for what nobody pays for: a worker that refuses packets would only receive the more.
const MOST_RECEPTION: f64 = 0.15;

/// Over how many intervals it is reckoned what part of its core a thread has: the system's slices of time are longer than one. And the least.
const SMOOTHING: f64 = 32.0;
const LEAST_OF_CORE: f64 = 0.05;

/// Cycles that a packet is taken to cost before one was seen.
const FIRST_COST: f64 = 200.0;

/// What one asks for whose packets wait, for each cycle that there is.
const MORE_THAN_ALL: f64 = 2.0;

/// For how many quanta one is visited at most.
const LONG_VISIT: f64 = 4.0;

/// What one may owe at most, in intervals of its share and in packets of its own: however much more they took than was known before, it is never without
/// any for long.
const MOST_OWED: f64 = 16.0;
const MOST_PACKETS_OWED: f64 = 32.0;

/// One vPDP on one worker.
#[derive(Clone, Debug)]
struct Account {
    weight: f64,
    used: f64,
    served: u64,
    refused: u64,
    /// Passes of packets that started over.
    passes: u64,
    /// Whether it was visited since something was charged beside visits.
    was_visited: bool,
    /// Whether packets inside wait for passes.
    is_waiting: bool,
    /// Packets that were received, and what that took; and what of it came by ports that were allowed to give so many.
    received: u64,
    reception: f64,
    paid_reception: f64,
    /// Cycles of a packet, as of the last interval in which one was served.
    cost: f64,
    /// What it takes to receive one, in the same way.
    reception_cost: f64,
    /// Cycles of a pass, in the same way.
    pass_cost: f64,
    /// What comes in an interval; no limit while there is no contention.
    share: f64,
    /// What comes in an interval if all ask for more, and what has come of it and was not used; below zero, what was used beyond it.
    own: f64,
    credit: f64,
    /// The last burst in which there were packets of it.
    came: u64,
    /// What it asked for in the last interval, and whether a port of its own was told to wait in this one: then nobody knows what it would have asked for.
    asked_before: f64,
    is_put_off: bool,
    /// The last carry in which a port of its own gave all that it might, and whether there was one in this interval in which none did: then nothing waited.
    filled_up: u64,
    is_emptied: bool,
    /// What its ports were allowed to give.
    granted: Granted,
    /// Whether ports of its own gave all that they might, and whether more of its packets came at once by others than are served in a visit, when it had used
    /// what it could have at least: more may wait.
    is_full: bool,
    has_more: bool,
    /// In how many bursts of this interval that was so while it had not used what it could have at least.
    cut: u64,
    /// What it may use now; below zero, what it has used of what is to come.
    left: f64,
    /// What is to be left before its next visit, if that was too little when it was asked last.
    waits_for: f64,
    /// Up to when its share has come.
    filled: Nanos,
    /// All that was done for it.
    carried: Carried,
}

/// What ports of one's own were allowed to give: that is served, whatever it took to receive it.
#[derive(Clone, Copy, Debug, Default)]
struct Granted {
    /// In which carry: from when ports are allowed to give until they are again, in one burst or, where they give much, in several.
    carry: u64,
    /// How many packets of it have not come to a burst yet.
    left: usize,
    /// Whether it was anything.
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
            carried: Carried::default(),
        }
    }
}

impl Account {
    /// What it asked for in an interval, where so many have gone, and so many bursts: more than there is, if packets inside still wait, or outside for its
    /// turn; what it could have at least, for the part of the bursts in which a visit did not suffice for what came.
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

    /// In what part of so many bursts a visit did not suffice for what came, while it had not used what it could have at least.
    fn short(&self, bursts: u64) -> f64 {
        (self.cut as f64 / bursts.max(1) as f64).min(1.0)
    }

    /// How much more than its share it may ask for without being limited to it, where visits did not suffice for somebody in this part of the time: the more it
    /// has used beyond what it could have at least, the less, since that one lacks it.
    fn lenience(&self, short: f64) -> f64 {
        let beyond = (-self.credit).max(0.0) / self.own.max(f64::MIN_POSITIVE);
        LENIENCE - (LENIENCE - 1.0) * short * beyond.min(1.0)
    }

    /// Where no port of its own gave all that it might the last time, none of its packets wait outside. To be asked before ports may give in the carry of this number.
    fn notice_empty(&mut self, carry: u64) {
        let Granted {
            carry: last, any, ..
        } = self.granted;
        self.is_emptied |= last < carry && any && self.filled_up != last;
    }

    /// Whether packets may wait at its ports that nobody has seen.
    fn waits_outside(&self) -> bool {
        self.is_put_off && !self.is_emptied
    }

    /// Whether packets may wait, wherever, for time that there has not been.
    fn waits(&self) -> bool {
        self.waits_outside() || self.has_more || self.is_waiting || self.cut > 0
    }

    /// What is done of it at once, at least: a packet that starts over is served pass by pass.
    fn undivided(&self, cost: f64) -> f64 {
        cost.min(self.reception_cost + self.pass_cost)
    }

    /// Learns what packets and passes cost.
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

    /// What its ports were allowed to give in a carry and has not come yet.
    fn granted_in(&self, carry: u64) -> usize {
        match self.granted {
            Granted {
                carry: last, left, ..
            } if last == carry => left,
            _ => 0,
        }
    }

    /// Allows its ports to give so many packets more in a carry.
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

    /// What may be left of its share at most: an interval's, or what a visit takes where that is more.
    fn most_left(&self, longest: f64) -> f64 {
        let piece = self.undivided(self.cost + self.reception_cost);
        self.share.max(longest).max(piece)
    }

    /// Gives it what has come by now, where visits take so much at most.
    #[inline]
    fn fill(&mut self, now: Nanos, interval: Nanos, longest: f64) {
        if now != self.filled {
            self.fill_until(now, interval, longest);
        }
    }

    /// [`Account::fill`], once: what a visit runs is to stay in the processor's nearest cache of code.
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

    /// Keeps no more than there may be at most.
    fn cap(&mut self, longest: f64) {
        if self.is_limited() {
            self.left = self.left.min(self.most_left(longest));
        }
        self.credit = self.credit.min(self.own);
    }

    /// Whether it asks for more than its share.
    fn is_limited(&self) -> bool {
        self.share.is_finite()
    }

    /// In how many intervals as much of its share will have come as it waits for; nothing where it waits for none, or for more than its share: for a burst
    /// without packets of others, which may be the next one.
    fn wait(&self) -> Option<f64> {
        let missing = self.waits_for - self.left;
        let waits = self.is_limited() && self.waits_for.is_finite() && missing > 0.0;
        waits.then(|| missing / self.share)
    }

    /// Takes this from what it may use now.
    fn take(&mut self, cycles: f64) {
        let most = (self.share * MOST_OWED).max(self.cost * MOST_PACKETS_OWED);
        self.left = (self.left - cycles).max(-most);
    }

    /// What it may use now without waiting for more, of what it could have at least.
    fn purse(&self) -> f64 {
        self.credit.min(self.left)
    }

    /// What it has for a visit: of what it could have at least; of its share where it is limited, which visits would not use up where rounds are long.
    fn saved(&self) -> f64 {
        match self.is_limited() {
            true => self.left,
            false => self.credit,
        }
    }

    /// Whether it has used so little of what it could have at least that it is visited before others.
    fn has_credit(&self) -> bool {
        self.purse() * 2.0 >= self.own
    }

    /// Takes what receiving its packets, or they themselves, took. A debt is soon paid.
    fn pay(&mut self, cycles: f64) {
        self.credit = (self.credit - cycles).max(-self.own);
    }

    /// Takes what packets have used.
    fn spend(&mut self, cycles: f64) {
        self.used += cycles;
        self.pay(cycles);
    }

    /// Limits it to another share, behind so many intervals without one or with the one before.
    fn limit(&mut self, share: f64, past: f64) {
        self.left = match (share.is_finite(), self.share.is_finite()) {
            (false, _) => f64::INFINITY,
            (true, true) => self.left,
            // Who was not limited owes what is above the share that there would have been.
            (true, false) => share - (self.used + self.paid_reception - share * past).max(0.0),
        };
        self.share = share;
        self.take(0.0);
    }
}

/// What a visit took, and what of it its packets themselves did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) cycles: u64,
    pub(crate) of_packets: u64,
}

fn intervals(time: Nanos, interval: Nanos) -> f64 {
    time.0 as f64 / interval.0.max(1) as f64
}

/// The accounts of a worker.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    accounts: Vec<Account>,
    now: Nanos,
    interval: Nanos,
    quantum: f64,
    /// Time that shares were given before it had come.
    ahead: Nanos,
    /// The number of the burst, and of the interval's first.
    round: u64,
    first: u64,
    began: Nanos,
    ends: Nanos,
    /// Cycles that all have used in this interval, and what receiving and sorting took.
    used: f64,
    reception: f64,
    /// Time of this interval in which the thread did not run, and what part of an interval that is on average.
    missed: Nanos,
    lost: f64,
    /// How many asked for anything in the last interval, and of how many there were packets in the last burst, which has this number.
    askers: usize,
    crowd: usize,
    met: u64,
    /// The last burst in which a visit was booked.
    booked: u64,
    /// The number of the carry, and whether ports have been allowed anything since the last burst.
    carry: u64,
    is_granting: bool,
    /// How many asked for no more than their shares in the last interval.
    modest: usize,
    /// Whether the worker did not keep up with what came, in this interval.
    is_behind: bool,
    is_contended: bool,
}

impl Shares {
    /// Moves time on. To be called once a burst.
    pub(crate) fn begin(&mut self, fairness: &Fairness, slots: usize, now: Nanos) {
        if self.accounts.len() < slots {
            self.accounts.resize(slots, Account::default());
        }
        (self.now, self.interval) = (now, fairness.interval);
        self.hasten();
        self.round += 1;
        self.is_granting = false;
        self.quantum = fairness.quantum();
        // Nobody is limited before contention shows: then it counts at once.
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
        // A port that is told to wait may have more, and what waits inside came long ago.
        self.is_behind |= self.accounts.iter().any(Account::waits);
        let part = self.part_of_core();
        let capacity = fairness.capacity(self.reception / long, part);
        let asked = self.accounts.iter();
        let bursts = self.round - std::mem::replace(&mut self.first, self.round);
        let asked = asked.map(|account| (account.asked(long, bursts, capacity), account.weight));
        let active = asked.clone().filter(|(asked, _)| *asked > 0.0);
        self.askers = active.clone().count();
        let weights: f64 = active.map(|(_, weight)| weight).sum();
        // Who can take no more than what it could have at least leaves the others what it asks for beyond that.
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
        // What each could have at least if all asked for more, and it too, of what receiving takes too.
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
            // What is kept is of what others leave: what is guaranteed is guaranteed whatever rounds take.
            let share = (level * account.weight).max(account.own * (1.0 - MOST_RECEPTION));
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

    /// Where all who ask wait for their shares, and nothing was done in the last burst, gives each what comes of them until the first has waited enough.
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

    /// Whether there were packets in the last burst, or passes.
    fn was_busy(&self) -> bool {
        self.booked == self.round || self.crowd > 0 && self.met == self.round
    }

    /// The time by which shares come.
    fn time(&self) -> Nanos {
        self.now + self.ahead
    }

    /// The part of its core that the thread has, on average.
    fn part_of_core(&self) -> f64 {
        (1.0 - self.lost).max(LEAST_OF_CORE)
    }

    /// Learns what part of its core the thread does not have from so many intervals that went by, which are less than one where contention shows.
    fn learn_lost(&mut self, past: f64) {
        let missed = intervals(std::mem::take(&mut self.missed), self.interval);
        let lost = (missed / past).min(1.0);
        let weight = (past / SMOOTHING).min(1.0);
        self.lost += (lost - self.lost) * weight;
    }

    /// Books time that nobody could use.
    pub(crate) fn miss(&mut self, time: Nanos) {
        self.missed += time;
    }

    /// Books what receiving and sorting took.
    pub(crate) fn receive(&mut self, reception: Reception) {
        self.miss(reception.missed);
        self.reception += reception.cycles as f64;
        self.is_behind |= reception.is_behind;
    }

    /// Books of so many cycles that receiving and sorting a burst took what is one's, with so many packets.
    pub(crate) fn receive_for(&mut self, slot: Slot, packets: usize, cycles: f64) {
        self.fill(slot);
        if let Some(account) = self.accounts.get_mut(slot.index()) {
            account.received += packets as u64;
            account.reception += cycles;
            account.carried.cycles += cycles as u64;
            account.came = self.round;
            let granted = account.granted_in(self.carry).min(packets);
            // What others' ports gave, or shared ones, could not be refused: a debt for it would never end.
            let paid = cycles * granted as f64 / packets.max(1) as f64;
            account.pay(paid);
            account.paid_reception += paid;
            account.take(paid);
            self.reception -= paid;
        }
    }

    /// Tells of how many there were packets in the burst.
    pub(crate) fn meet(&mut self, crowd: usize) {
        (self.crowd, self.met) = (crowd, self.round);
    }

    /// Gives one what has come by now.
    fn fill(&mut self, slot: Slot) {
        let (time, longest) = (self.time(), self.longest());
        if let Some(account) = self.accounts.get_mut(slot.index()) {
            account.fill(time, self.interval, longest);
        }
    }

    /// How many packets its port may give in the next round, where there is room for so many: as many as a visit has time to receive and to serve.
    pub(crate) fn grant(&mut self, slot: Slot, room: usize) -> usize {
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

    /// A port of its own gave all that it was allowed to: more may wait. Whether that is more than it could have at least.
    pub(crate) fn fill_up(&mut self, slot: Slot) -> bool {
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

    /// How many packets are served in a visit, of those that are here; no bound where nobody else asks.
    pub(crate) fn visit(&mut self, slot: Slot) -> usize {
        self.fill(slot);
        let Some(account) = self.accounts.get(slot.index()) else {
            return usize::MAX;
        };
        let granted = account.granted_in(self.carry);
        let visit = self.affords(slot, |account| account.cost);
        match granted {
            // Somebody else has come since.
            usize::MAX => visit,
            granted => visit.max(granted),
        }
    }

    /// How often something that costs so much is done in a visit, which comes when what it takes has come of the share. Its code is there once, as that of [`Account::fill_until`].
    #[inline(never)]
    fn affords(&mut self, slot: Slot, cost: fn(&Account) -> f64) -> usize {
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

    /// What is to have come of a share before a visit, for something that costs so much: all that the visit takes, so that there are few. What is dearer than
    /// the longest visit comes out of what there is at least, and then out of what is to come: beside more of it others would not come to theirs.
    fn needed(&self, account: &Account, cost: f64) -> f64 {
        let is_dear = cost > self.longest();
        match is_dear && (self.is_lone(account) || account.credit >= cost.min(account.own / 2.0)) {
            true => f64::MIN_POSITIVE,
            false if is_dear => f64::INFINITY,
            false => cost.max(self.shortest()),
        }
    }

    /// What a visit to one takes that has used what it could have at least.
    fn shortest(&self) -> f64 {
        match self.modest {
            0 => self.longest(),
            _ => self.quantum,
        }
    }

    /// What a visit takes at most.
    fn longest(&self) -> f64 {
        self.quantum * LONG_VISIT
    }

    /// Whether nobody else's packets came in the last burst.
    fn is_lone(&self, account: &Account) -> bool {
        self.crowd <= usize::from(account.came == self.met)
    }

    /// How many cycles a visit takes.
    fn cycles(&self, account: &Account) -> f64 {
        let longest = self.longest();
        match (self.askers, self.is_lone(account)) {
            (0 | 1, true) => f64::INFINITY,
            // Somebody has just begun.
            (0 | 1, false) => longest,
            _ => account.saved().clamp(self.shortest(), longest),
        }
    }

    /// As many packets of one came at once as are served in a visit: it asks for more than there is, unless it has not used what it could have at least. What
    /// is its own is no more than its share, however it comes; but where that goes on, visits are too short for what is its own, and others leave it that. A
    /// packet that is dearer than a visit is one visit's, and tells nothing of what waits.
    pub(crate) fn has_more(&mut self, slot: Slot, packets: usize) {
        let Some(account) = self.accounts.get(slot.index()) else {
            return;
        };
        // Of what was granted ports tell.
        let came_alone = packets > account.granted_in(self.carry);
        let (has_credit, is_cut) = (account.has_credit(), account.cost <= self.cycles(account));
        let account = &mut self.accounts[slot.index()];
        account.has_more |= !has_credit && came_alone;
        account.cut += u64::from(has_credit && came_alone && is_cut);
    }

    /// Whether it is visited before others.
    pub(crate) fn has_credit(&self, slot: Slot) -> bool {
        let account = self.accounts.get(slot.index());
        account.is_none_or(Account::has_credit)
    }

    /// All that was done for one since it came.
    pub(crate) fn carried(&self, slot: Slot) -> Carried {
        let account = self.accounts.get(slot.index());
        account.map_or(Carried::default(), |account| account.carried)
    }

    /// Closes the accounts of slots that are nobody's any more.
    pub(crate) fn forget(&mut self, is_nobodys: impl Fn(Slot) -> bool) {
        for (slot, account) in (0..).map(Slot).zip(&mut self.accounts) {
            if is_nobodys(slot) {
                *account = Account::default();
            }
        }
    }

    /// How many of so many packets are served, and how many passes may begin that start over.
    pub(crate) fn admit(&mut self, slot: Slot, weight: u32, packets: usize) -> (usize, u32) {
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
        // The last one may cost more than is left: the next interval pays for it.
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

    /// How many passes may begin that start over.
    pub(crate) fn passes(&mut self, slot: Slot) -> u32 {
        self.fill(slot);
        let Some(account) = self.accounts.get(slot.index()) else {
            return u32::MAX;
        };
        // No limit is the most that there is.
        let left = (account.left / account.pass_cost).ceil().max(0.0) as u32;
        let visit = match account.granted_in(self.carry) {
            0 => self.affords(slot, |account| account.pass_cost),
            // What receiving took may have left less than a visit.
            _ => (self.cycles(account) / account.pass_cost) as usize,
        };
        left.min(u32::try_from(visit).unwrap_or(u32::MAX))
    }

    /// When its next pass may begin that starts over, as far as is known by now.
    pub(crate) fn next_pass(&self, slot: Slot) -> Nanos {
        let account = self.accounts.get(slot.index());
        let wait = account.and_then(|account| Some((account, account.wait()?)));
        match wait {
            // Where all wait, time goes on with the next burst.
            Some((account, wait)) if self.modest > 0 || wait.is_infinite() => {
                let filled = account.filled.0.saturating_sub(self.ahead.0);
                let wait = (wait * self.interval.0 as f64) as u64;
                Nanos(filled.saturating_add(wait).saturating_add(1))
            }
            _ => self.now,
        }
    }

    /// Books what was done because of packets of one beside its visits, if there was one since the last time: who has only packets that are refused would
    /// never come to a visit otherwise.
    pub(crate) fn charge(&mut self, slot: Slot, cycles: u64) {
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

    /// Books what a visit took in which these packets were admitted, and all that start over; and whether some wait for passes now.
    pub(crate) fn book(&mut self, slot: Slot, work: Work, visit: Visit, is_waiting: bool) {
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

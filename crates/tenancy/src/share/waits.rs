//! How long packets of one that asks for no more than its own wait beside others, reckoned: a worker's rounds, with what they take beside packets.

use super::*;

/// Frames that a port gives in its turn, and a worker takes in a round.
const TURN: usize = 64;
const ROUND: usize = 256;

/// Frames that wait at a port at most.
const RING: u64 = 4096;

/// Nanoseconds, of a cycle each, that a round takes before and behind its visits, and a frame of it to be sorted.
const BEFORE: f64 = 200.0;
const BEHIND: f64 = 75.0;
const SORTING: f64 = 10.0;

/// What the shortest visit takes, which shares do not pay for.
const SHORTEST: f64 = 145.0;

/// Until when shares settle, and a run ends, in nanoseconds.
const SETTLED: f64 = 10e6;
const END: f64 = 30e6;

/// What comes by a port: packets a nanosecond, and what they take to be received, for each visit to them, and one by one.
#[derive(Clone, Copy)]
struct Sender {
    rate: f64,
    reception: f64,
    visit: f64,
    cost: f64,
}

/// What asks for its own, at this part of the rate that it is guaranteed.
fn modest(part: f64) -> Sender {
    Sender {
        rate: 0.0067 * part,
        reception: 12.0,
        visit: 100.0,
        cost: 50.0,
    }
}

/// What asks for more than there is.
fn greedy(cost: f64) -> Sender {
    Sender {
        rate: 0.02,
        reception: 12.0,
        visit: 130.0,
        cost,
    }
}

/// What became of the first one's packets.
#[derive(Debug)]
struct Kept {
    /// Of those that came, how many were served; and half of them within so many nanoseconds.
    share: f64,
    median: f64,
    /// What part of the time visits to the last one took.
    other: f64,
}

/// Serves what two send.
struct Station {
    senders: [Sender; 2],
    /// Packets that came, and that were served or missed, of each.
    came: [u64; 2],
    shares: Shares,
    now: f64,
    waits: Vec<f64>,
    other: f64,
}

impl Station {
    fn run(senders: [Sender; 2]) -> Kept {
        let fairness = Fairness {
            interval: Nanos::from_millis(2),
            cycles_per_second: 800_000_000,
            quantum: Nanos(500),
        };
        let mut station = Station {
            senders,
            came: [0; 2],
            shares: Shares::default(),
            now: 0.0,
            waits: Vec::new(),
            other: 0.0,
        };
        while station.now < END {
            station.round(&fairness);
        }
        let Station {
            now,
            mut waits,
            other,
            ..
        } = station;
        waits.sort_unstable_by(f64::total_cmp);
        Kept {
            share: waits.len() as f64 / ((now - SETTLED) * senders[0].rate),
            median: waits[waits.len() / 2],
            other: other / (now - SETTLED),
        }
    }

    /// Takes what waits at the ports, as far as they may give it; how many of each, and whether the worker does not keep up.
    fn receive(&mut self) -> ([usize; 2], bool) {
        let now = self.now;
        let (mut counts, mut is_behind) = ([0; 2], false);
        for (number, taken) in counts.iter_mut().enumerate() {
            let slot = Slot(number as u32);
            let due = (now * self.senders[number].rate) as u64;
            let came = &mut self.came[number];
            *came = (*came).max(due.saturating_sub(RING));
            let most = self.shares.grant(slot).min(ROUND / 2);
            let count = most.min((due - *came) as usize);
            let is_full = most > 0 && count == most;
            is_behind |= is_full && (most >= TURN || !self.shares.has_credit(slot));
            *came += count as u64;
            self.now += count as f64 * self.senders[number].reception;
            *taken = count;
        }
        (counts, is_behind)
    }

    fn round(&mut self, fairness: &Fairness) {
        let before = self.now;
        let (counts, is_behind) = self.receive();
        let reception = self.now - before;
        self.shares.begin(fairness, 2, Nanos(self.now as u64));
        let all: usize = counts.iter().sum();
        let sorting = all as f64 * SORTING;
        self.now += BEFORE + sorting;
        self.shares.receive(Reception {
            cycles: (reception + sorting) as u64,
            missed: Nanos::ZERO,
            is_behind,
        });
        let groups = (0..2).filter(|number| counts[*number] > 0);
        let slots = groups.clone().map(|number| Slot(number as u32));
        self.shares.meet(groups.clone().count());
        for number in groups {
            let part = counts[number] as f64 / all as f64;
            let slot = Slot(number as u32);
            self.shares
                .receive_for(slot, counts[number], reception * part);
        }
        self.shares.bear(slots.clone(), BEFORE + sorting);
        let mut slots: Vec<Slot> = slots.collect();
        slots.sort_by_key(|slot| !self.shares.has_credit(*slot));
        for slot in slots {
            self.visit(slot, counts[slot.index()]);
        }
        self.now += BEHIND;
    }

    fn visit(&mut self, slot: Slot, count: usize) {
        let sender = self.senders[slot.index()];
        let most = self.shares.visit(slot);
        if count >= most {
            self.shares.has_more(slot);
        }
        let (served, _) = self.shares.admit(slot, 1, count.min(most));
        let first = self.came[slot.index()] - count as u64;
        let begin = self.now + sender.visit;
        if slot == Slot(0) && begin > SETTLED {
            let leaves = |number: usize| begin + (number + 1) as f64 * sender.cost;
            let came = |number: usize| (first + number as u64) as f64 / sender.rate;
            let waits = (0..served).map(|number| leaves(number) - came(number));
            self.waits.extend(waits);
        }
        let took = sender.visit + served as f64 * sender.cost;
        self.now += took;
        if slot == Slot(1) && begin > SETTLED {
            self.other += took;
        }
        let work = Work {
            packets: served as u64,
            passes: 0,
        };
        let visit = Visit {
            cycles: took as u64,
            of_packets: (took - SHORTEST).max(took / 4.0) as u64,
        };
        self.shares.book(slot, work, visit, false);
    }
}

#[test]
fn packets_wait_no_longer_beside_one_that_asks_for_too_much_than_beside_one_that_does_not() {
    for part in [0.5, 0.65, 0.8] {
        let peer = Station::run([modest(part), modest(part)]);
        for cost in [40.0, 150.0, 700.0] {
            let kept = Station::run([modest(part), greedy(cost)]);
            let what = format!("{kept:?} beside packets of {cost} ns, {peer:?}, {part}");
            assert!(kept.median <= peer.median * 1.1, "{what}");
            assert!(kept.share >= 0.99 && kept.other >= 0.15, "{what}");
        }
    }
}

#[test]
fn two_that_ask_for_too_much_do_not_pay_for_visits() {
    let asks = [greedy(40.0), greedy(150.0)];
    let kept = Station::run(asks);
    // Beside it there are a half less what rounds take, and visits to the first one.
    assert!(kept.other >= 0.3, "{kept:?}");
}

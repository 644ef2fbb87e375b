//! What comes of shares over many intervals, reckoned.

use super::*;

mod bursts;
mod signs;

/// A thousand cycles a microsecond, in intervals and quanta of so long.
fn fairness(interval: Nanos, quantum: Nanos) -> Fairness {
    Fairness {
        interval,
        cycles_per_second: 1_000_000_000,
        quantum,
    }
}

/// So many packets of one come; how many of them a visit serves.
fn come(shares: &mut Shares, slot: Slot, packets: usize) -> usize {
    shares.receive_for(slot, packets, 0.0);
    let visit = shares.visit(slot);
    if packets >= visit {
        shares.has_more(slot, packets);
    }
    packets.min(visit)
}

/// Serves so many packets of one, each for so many cycles, as far as its share goes; how many were served.
fn serve(shares: &mut Shares, (slot, weight): (Slot, u32), packets: usize, cost: u64) -> u64 {
    let (given, _) = shares.admit(slot, weight, packets);
    let work = Work {
        packets: given as u64,
        passes: 0,
    };
    let cycles = work.packets * cost;
    let visit = Visit {
        cycles,
        of_packets: cycles,
    };
    shares.book(slot, work, visit, false);
    work.packets
}

/// As `polyplane host --fair` shares, but for what it keeps.
fn usual() -> Fairness {
    fairness(Nanos::from_millis(2), Nanos::from_micros(2))
}

/// Cycles of what each of two asks for (packets, their cycles, its weight) every microsecond, that were served in the last ninety of a hundred intervals
/// of ten thousand cycles' capacity.
fn serve_two(asks: [(usize, u64, u32); 2]) -> [u64; 2] {
    let fairness = fairness(Nanos::from_micros(10), Nanos::from_micros(1));
    let mut shares = Shares::default();
    let mut cycles = [0; 2];
    for round in 0..1000u64 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        for (number, (packets, cost, weight)) in asks.into_iter().enumerate() {
            let one = (Slot(number as u32), weight);
            let served = serve(&mut shares, one, packets, cost);
            cycles[number] += served * cost * u64::from(round >= 100);
        }
    }
    cycles
}

#[test]
fn without_contention_nothing_is_refused() {
    // 1,000 cycles a microsecond are there; 900 are asked for.
    assert_eq!(serve_two([(3, 200, 1), (3, 100, 1)]), [540_000, 270_000]);
}

#[test]
fn who_asks_for_less_than_a_share_gets_it_and_the_other_gets_the_rest() {
    let [victim, hog] = serve_two([(2, 100, 1), (100, 500, 1)]);
    assert_eq!(victim, 900 * 200);
    // Rounds have a part of it.
    let rest = 900 * 740;
    assert!(hog.abs_diff(rest) < rest / 20, "{hog} of {rest}");
}

#[test]
fn a_surprise_is_paid_back() {
    // Packets of a hundred intervals each; the first ones come before their cost is known.
    let [victim, hog] = serve_two([(2, 100, 1), (5, 100_000, 1)]);
    assert_eq!(victim, 900 * 200);
    // The first burst took what there is for it in 625 microseconds: of the others it has 375, and a packet more.
    assert!((300_000..=400_000).contains(&hog), "{hog}");
}

/// Cycles of each of two that are alike and ask for twice as much as there is, in the last ninety of a hundred intervals.
fn serve_both(cycles: u64, is_behind: bool) -> u64 {
    let fairness = fairness(Nanos::from_micros(10), Nanos::from_micros(1));
    let mut shares = Shares::default();
    let mut used = 0;
    for round in 0..1000u64 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception {
            cycles,
            missed: Nanos::ZERO,
            is_behind,
        });
        for slot in [0, 1].map(Slot) {
            used += serve(&mut shares, (slot, 1), 10, 100) * 100 * u64::from(round >= 100);
        }
    }
    used / 2
}

/// What [`settled`] has shares settle in.
fn short() -> Fairness {
    fairness(Nanos::from_micros(10), Nanos(500))
}

/// Shares of two that each ask for so many packets of so many cycles every microsecond, after ten intervals.
fn settled(asks: [(usize, u64); 2]) -> Shares {
    settled_beside(0, asks)
}

/// The same, where so many cycles of every microsecond are for what nobody pays for.
fn settled_beside(cycles: u64, asks: [(usize, u64); 2]) -> Shares {
    let fairness = short();
    let mut shares = Shares::default();
    for round in 0..100 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception {
            cycles,
            ..Reception::default()
        });
        shares.meet(2);
        for (slot, (packets, cost)) in (0..).map(Slot).zip(asks) {
            let visit = come(&mut shares, slot, packets);
            serve(&mut shares, (slot, 1), visit, cost);
        }
    }
    shares
}

#[test]
fn one_dear_packet_an_interval_does_not_take_from_who_asks_for_most_of_the_rest() {
    let fairness = fairness(Nanos::from_micros(10), Nanos(20));
    let mut shares = Shares::default();
    let come_all = |shares: &mut Shares, slot: Slot, packets: usize, cost: u64| {
        come(shares, slot, packets);
        serve(shares, (slot, 1), packets, cost)
    };
    for round in 0..400 {
        let is_dear = round % 10 == 0;
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        shares.meet(1 + usize::from(is_dear));
        if is_dear {
            // More than a visit has cycles for, and a twenty-fifth of what there is.
            come_all(&mut shares, Slot(0), 1, 400);
        }
        // Nine tenths.
        let given = come_all(&mut shares, Slot(1), 9, 100);
        assert!(round < 100 || given == 9, "{given} in round {round}");
    }
}

#[test]
fn who_used_less_than_it_could_have_is_visited_first_and_for_long() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(100));
    // Of 500 cycles a microsecond, 300 were left for ten of them.
    let [modest, greedy] = [Slot(0), Slot(1)];
    assert!(shares.has_credit(modest) && !shares.has_credit(greedy));
    assert_eq!(shares.visit(modest), 20);
    assert!((5..=10).contains(&shares.visit(greedy)), "{shares:?}");
}

#[test]
fn what_takes_many_intervals_comes_one_by_one_when_those_before_are_paid_for() {
    let mut shares = settled([(2, 100), (5, 100_000)]);
    assert_eq!(shares.visit(Slot(1)), 0);
    shares.begin(&short(), 2, Nanos::from_millis(100));
    assert_eq!(shares.grant(Slot(1), usize::MAX), 1);
}

#[test]
fn one_alone_is_visited_for_as_long_as_it_has_packets() {
    let mut shares = settled([(0, 100), (100, 100)]);
    shares.meet(1);
    assert_eq!(shares.visit(Slot(1)), usize::MAX);
    // The first packets of another one have come.
    shares.meet(2);
    assert_eq!(shares.visit(Slot(1)), 20);
}

#[test]
fn who_sent_nothing_is_not_taken_to_be_alone() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let among_others = shares.visit(Slot(1));
    shares.begin(&short(), 2, shares.now);
    shares.meet(1);
    shares.receive_for(Slot(0), 2, 0.0);
    assert_eq!(shares.visit(Slot(1)), among_others);
}

#[test]
fn what_is_dearer_than_a_visit_comes_as_seldom_as_the_share_does() {
    let fairness = fairness(Nanos::from_micros(100), Nanos(500));
    let mut shares = Shares::default();
    let (mut visits, mut packets) = (0, 0);
    for round in 0..1000 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        let asks = [(0, 5, 100), (1, 50, 2000)].map(|(slot, waiting, cost)| {
            let granted = shares.grant(Slot(slot), usize::MAX);
            if granted > 0 && granted <= waiting {
                shares.fill_up(Slot(slot));
            }
            (Slot(slot), granted.min(waiting), cost)
        });
        let came = asks.iter().filter(|(_, granted, _)| *granted > 0);
        shares.meet(came.count());
        for (slot, granted, cost) in asks {
            if granted == 0 {
                continue;
            }
            let visit = come(&mut shares, slot, granted);
            let given = serve(&mut shares, (slot, 1), visit, cost);
            if slot == Slot(1) && round >= 500 {
                visits += 1;
                packets += given;
            }
        }
    }
    // Half of the time is 125 packets.
    assert!((100..=135).contains(&packets), "{packets}");
    assert_eq!(visits, packets, "several came at once");
}

#[test]
fn what_a_port_was_allowed_to_give_is_served_whatever_it_took_to_receive() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(100));
    let granted = shares.grant(Slot(1), usize::MAX);
    shares.begin(&short(), 2, shares.now);
    shares.receive_for(Slot(1), granted, 100_000.0);
    assert!(granted > 0 && shares.visit(Slot(1)) >= granted);
    assert_eq!(shares.admit(Slot(1), 1, granted).0, granted);
}

#[test]
fn who_is_limited_pays_for_visits_whole_and_others_for_their_packets() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let work = Work {
        packets: 0,
        passes: 0,
    };
    let visit = Visit {
        cycles: 300,
        of_packets: 100,
    };
    let mut paid = |slot: Slot| {
        let before = shares.accounts[slot.index()].credit;
        shares.accounts[slot.index()].credit = 0.0;
        shares.book(slot, work, visit, false);
        let paid = -shares.accounts[slot.index()].credit;
        shares.accounts[slot.index()].credit = before;
        (paid, shares.reception)
    };
    assert_eq!(paid(Slot(1)).0, 300.0);
    let before = paid(Slot(1)).1;
    // What visits take beside packets is nobody's then.
    assert_eq!(paid(Slot(0)), (100.0, before + 200.0));
}

#[test]
fn what_one_owes_does_not_keep_it_waiting_for_ever() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let work = Work {
        packets: 1,
        passes: 0,
    };
    let cycles = 1_000_000_000;
    let visit = Visit {
        cycles,
        of_packets: cycles,
    };
    shares.book(Slot(1), work, visit, false);
    let share = shares.accounts[1].share;
    assert!(shares.accounts[1].left >= -share * MOST_OWED, "{shares:?}");
}

#[test]
fn what_it_takes_to_receive_what_ports_might_give_is_used_by_those_whose_they_are() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let granted = shares.grant(Slot(0), 10);
    shares.begin(&short(), 2, shares.now);
    let before = shares.accounts[0].credit;
    shares.receive_for(Slot(0), 3 * granted, 3000.0);
    // What nobody allowed could not be refused, and is nobody's.
    assert_eq!(shares.accounts[0].credit, before - 1000.0);
}

#[test]
fn what_ports_might_give_is_served_in_whichever_burst_it_comes() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(100));
    let granted = shares.grant(Slot(1), usize::MAX);
    assert!(granted > 1);
    // A worker that has its hands full takes what it has through before all ports have given.
    for packets in [1, granted - 1] {
        shares.begin(&short(), 2, shares.now);
        shares.receive_for(Slot(1), packets, 100_000.0);
        assert!(shares.visit(Slot(1)) >= packets);
        assert_eq!(shares.admit(Slot(1), 1, packets).0, packets);
    }
    assert_eq!(shares.accounts[1].granted.left, 0);
}

#[test]
fn what_is_dearer_than_the_longest_visit_waits_for_its_credit_while_nobody_is_limited() {
    let mut shares = settled([(2, 100), (2, 100)]);
    let longest = shares.longest();
    let account = &mut shares.accounts[1];
    account.limit(f64::INFINITY, 1.0);
    (account.cost, account.pass_cost) = (longest * 3.0, longest * 3.0);
    account.credit = -account.own;
    shares.meet(2);
    assert_eq!(shares.grant(Slot(1), usize::MAX), 0);
    shares.accounts[1].credit = shares.accounts[1].own;
    assert_eq!(shares.grant(Slot(1), usize::MAX), 1);
}

#[test]
fn what_nobody_pays_for_is_not_there_to_share() {
    let near = |used: u64, wanted: u64| assert!(used.abs_diff(wanted) <= 9000, "{used}");
    near(serve_both(0, true), 900 * 500);
    near(serve_both(50, true), 900 * 475);
    near(serve_both(150, true), 900 * 425);
    near(serve_both(2000, true), 900 * 425);
}

#[test]
fn while_a_worker_keeps_up_nobody_is_limited() {
    assert_eq!(serve_both(0, false), 900 * 1000);
}

#[test]
fn contenders_share_by_weight() {
    let [one, three] = serve_two([(100, 100, 1), (100, 300, 3)]);
    let share = three as f64 / one as f64;
    assert!((share - 3.0).abs() < 0.15, "{three} to {one}");
    assert!((one + three).abs_diff(900_000) < 45_000, "{}", one + three);
}

/// Packets that a port gives before the others have their turn.
const TURN: usize = 64;

/// One with a port of its own: its weight, the cycles of its packets, and how many wait at the port.
#[derive(Clone, Copy, Debug)]
struct Asking {
    weight: u32,
    cost: u64,
    waiting: usize,
}

/// A worker's round; how many packets of each were served.
fn round(shares: &mut Shares, fairness: &Fairness, now: u64, asking: &[Asking]) -> Vec<u64> {
    let all = (0..).map(Slot).zip(asking);
    let mut is_behind = false;
    let came = all.clone().map(|(slot, one)| {
        let most = shares.grant(slot, usize::MAX).min(TURN);
        let is_full = most > 0 && one.waiting >= most;
        is_behind |= is_full && (shares.fill_up(slot) || most == TURN);
        one.waiting.min(most)
    });
    let came: Vec<usize> = came.collect();
    shares.begin(fairness, asking.len(), Nanos(now));
    shares.receive(Reception {
        cycles: 0,
        missed: Nanos::ZERO,
        is_behind,
    });
    shares.meet(came.iter().filter(|came| **came > 0).count());
    let served = all.zip(came).map(|((slot, one), came)| {
        if came == 0 {
            return 0;
        }
        let visit = come(shares, slot, came);
        serve(shares, (slot, one.weight), visit, one.cost)
    });
    served.collect()
}

/// What part of a worker's time one takes whose port always has packets that take 4,000 cycles, beside nine that ask for so much of it together in
/// packets of 250. A round takes 500 cycles beside its packets.
fn beside_nine(asked: f64) -> f64 {
    let fairness = usual();
    let (until, from) = (40_000_000, 10_000_000);
    let mut shares = Shares::default();
    let (mut now, mut served, mut used) = (0, [0; 10], 0);
    while now < until {
        let asking: [Asking; 10] = std::array::from_fn(|number| {
            let sent = now as f64 * asked / 9.0 / 250.0 + number as f64 / 9.0;
            let (cost, waiting) = match number {
                0 => (4000, TURN),
                _ => (250, (sent as u64 - served[number]) as usize),
            };
            Asking {
                weight: 1,
                cost,
                waiting,
            }
        });
        let packets = round(&mut shares, &fairness, now, &asking);
        for (number, packets) in packets.into_iter().enumerate() {
            let cycles = packets * asking[number].cost;
            served[number] += packets;
            now += cycles;
            used += if number == 0 && now > from { cycles } else { 0 };
        }
        now += 500;
    }
    used as f64 / (until - from) as f64
}

#[test]
fn who_sends_a_tenth_in_bursts_leaves_another_what_it_does_not_use() {
    let fairness = usual();
    let mut shares = Shares::default();
    let (mut now, mut served) = (0, [0; 2]);
    while now < 200_000_000 {
        // A tenth of the time every millisecond, and 7 tenths each ten microseconds: more than half.
        let sent = [now / 1_000_000 * 400, now / 10_000 * 28];
        let asking = [0, 1].map(|number: usize| Asking {
            weight: 1,
            cost: 250,
            waiting: (sent[number] - served[number]) as usize,
        });
        let packets = round(&mut shares, &fairness, now, &asking);
        for (served, packets) in served.iter_mut().zip(packets) {
            *served += packets;
            now += packets * 250;
        }
        now += 200;
    }
    let sent = [now / 1_000_000 * 400, now / 10_000 * 28];
    for (sent, served) in sent.into_iter().zip(served) {
        assert!(served as f64 >= sent as f64 * 0.98, "{served} of {sent}");
    }
}

/// What part of the time that packets take each of several gets whose ports always have packets, by its weight and the cycles of its packets, where the
/// thread has this part of its core, in slices of 4 ms.
fn contend(asks: &[(u32, u64)], part: f64) -> Vec<f64> {
    let fairness = usual();
    let asking = asks.iter().map(|&(weight, cost)| Asking {
        weight,
        cost,
        waiting: TURN,
    });
    let asking: Vec<Asking> = asking.collect();
    let mut shares = Shares::default();
    let (mut now, mut ran, mut used) = (0, 0, vec![0.0; asks.len()]);
    while now < 600_000_000 {
        let packets = round(&mut shares, &fairness, now, &asking);
        // What a round takes beside its packets.
        let mut took = 100;
        for (number, packets) in packets.into_iter().enumerate() {
            let cycles = packets * asking[number].cost;
            took += cycles;
            if now > 300_000_000 {
                used[number] += cycles as f64;
            }
        }
        now += took;
        ran += took;
        if ran > 4_000_000 {
            let missed = (ran as f64 * (1.0 / part - 1.0)) as u64;
            shares.miss(Nanos(missed));
            now += missed;
            ran = 0;
        }
    }
    let all: f64 = used.iter().sum();
    used.iter().map(|used| used / all).collect()
}

#[test]
fn weights_hold_where_the_thread_has_a_part_of_its_core_alone() {
    for part in [1.0, 0.5, 0.25] {
        let parts = contend(&[(1, 250), (3, 250)], part);
        let ratio = parts[1] / parts[0];
        assert!((ratio - 3.0).abs() < 0.3, "{ratio} on {part} of a core");
    }
}

#[test]
fn weights_hold_whatever_packets_take() {
    for asks in [
        &[(1, 4000), (3, 250)][..],
        &[(1, 250), (3, 4000)],
        &[(1, 20_000), (3, 250)],
        &[(1, 4000), (1, 4000), (1, 4000), (10, 250)],
        &[(1, 1000), (1, 1000), (1, 1000), (30, 1000)],
    ] {
        let weights: u32 = asks.iter().map(|(weight, _)| weight).sum();
        let parts = contend(asks, 1.0);
        for ((weight, _), part) in asks.iter().zip(&parts) {
            let due = f64::from(*weight) / f64::from(weights);
            assert!((part / due - 1.0).abs() < 0.15, "{parts:?} of {asks:?}");
        }
    }
}

/// Shares on which one asks for all there is, alone, while the thread has a quarter of its core, in slices of 4 ms.
fn alone_on_a_quarter(fairness: &Fairness) -> Shares {
    let mut shares = Shares::default();
    let mut now = 0;
    while now < 600_000_000 {
        for _ in 0..4000 {
            shares.begin(fairness, 1, Nanos(now));
            shares.receive(Reception::default());
            shares.meet(1);
            let visit = come(&mut shares, Slot(0), 4);
            serve(&mut shares, (Slot(0), 1), visit, 250);
            now += 1000;
        }
        shares.miss(Nanos::from_millis(12));
        now += 12_000_000;
    }
    shares
}

#[test]
fn one_alone_does_not_hide_what_part_of_its_core_the_thread_has() {
    let part = alone_on_a_quarter(&usual()).part_of_core();
    assert!((0.2..0.35).contains(&part), "{part}");
}

#[test]
fn what_part_of_its_core_the_thread_has_is_of_all_its_time_not_of_what_packets_may_take() {
    let fairness = Fairness {
        cycles_per_second: 500_000_000,
        ..usual()
    };
    let part = alone_on_a_quarter(&fairness).part_of_core();
    assert!((0.2..0.35).contains(&part), "{part}");
}

#[test]
fn who_asks_for_nothing_could_have_what_its_weight_leaves_it_beside_the_others() {
    let shares = settled([(0, 100), (100, 100)]);
    assert_eq!(shares.accounts[1].own, 10_000.0);
    assert_eq!(shares.accounts[0].own, 5000.0);
}

#[test]
fn what_waits_in_the_worker_is_served_as_the_share_comes() {
    let fairness = fairness(Nanos::from_micros(100), Nanos(500));
    let mut shares = Shares::default();
    let (mut last, mut longest) = (0, 0);
    for round in 0..2000 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        shares.meet(2);
        // They come by a port that is not one's own: nobody asks what it may give.
        for (number, packets, cost) in [(0, 10, 100), (1, 10, 2000)] {
            let slot = Slot(number);
            let visit = come(&mut shares, slot, packets);
            let served = if visit > 0 {
                serve(&mut shares, (slot, 1), visit, cost)
            } else {
                0
            };
            if number == 1 && served > 0 {
                if round > 1000 {
                    longest = longest.max(round - last);
                }
                last = round;
            }
        }
    }
    // Half of the time is a packet every four microseconds.
    assert!(longest <= 20, "{longest} us without a packet");
}

#[test]
fn where_there_is_no_share_the_next_pass_never_comes() {
    let nothing = Fairness {
        cycles_per_second: 0,
        ..short()
    };
    let mut shares = Shares::default();
    for round in 0..30 {
        shares.begin(&nothing, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        for slot in [0, 1].map(Slot) {
            serve(&mut shares, (slot, 1), 10, 100);
        }
    }
    assert_eq!(shares.next_pass(Slot(0)), Nanos(u64::MAX));
}

#[test]
fn who_waits_for_a_burst_without_others_is_looked_at_in_the_next_one() {
    let mut shares = settled([(2, 100), (5, 100_000)]);
    let dear = Slot(1);
    let account = &mut shares.accounts[dear.index()];
    (account.credit, account.left) = (-account.own, account.share);
    assert_eq!(shares.passes(dear), 0);
    assert_eq!(shares.next_pass(dear), shares.now);
    shares.begin(&short(), 2, shares.now);
    shares.meet(0);
    assert_eq!(shares.passes(dear), 1);
}

/// Whether one of two is limited that each used all there was in an interval in which the worker kept up, where this came of its account.
fn is_limited_where(it_came: impl Fn(&mut Account)) -> bool {
    let mut shares = Shares::default();
    shares.begin(&short(), 2, Nanos(1));
    for slot in [0, 1].map(Slot) {
        serve(&mut shares, (slot, 1), 100, 100);
    }
    it_came(&mut shares.accounts[1]);
    shares.begin(&short(), 2, Nanos::from_micros(11));
    shares.accounts[1].is_limited()
}

#[test]
fn what_waits_anywhere_shows_that_a_worker_does_not_keep_up() {
    assert!(!is_limited_where(|_| {}));
    assert!(is_limited_where(|account| account.is_put_off = true));
    assert!(is_limited_where(|account| account.has_more = true));
    assert!(is_limited_where(|account| account.is_waiting = true));
    assert!(is_limited_where(|account| account.cut = 1));
    assert!(!is_limited_where(|account| {
        (account.is_put_off, account.is_emptied) = (true, true);
    }));
}

#[test]
fn whose_port_fills_up_before_it_has_what_it_could_asks_for_that_for_as_long_as_that_goes_on() {
    for full in [0, 4, 10] {
        let mut shares = settled([(2, 100), (100, 100)]);
        shares.begin(&short(), 2, Nanos::from_micros(110));
        let own = shares.accounts[0].own;
        for burst in 1..=10 {
            if burst <= full {
                assert!(shares.grant(Slot(0), usize::MAX) > 0);
                // Of several ports one tells of the burst.
                assert!(!shares.fill_up(Slot(0)) && !shares.fill_up(Slot(0)));
            }
            shares.begin(&short(), 2, Nanos::from_micros(110 + burst));
        }
        let asked = shares.accounts[0].asked_before;
        assert_eq!(asked, own * full as f64 / 10.0, "{full} of 10");
    }
}

#[test]
fn what_is_dearer_than_a_visit_takes_what_others_leave_and_no_more() {
    // Beside what rounds take, and what is kept for them.
    for (asked, left) in [(0.2, 0.8), (0.45, 0.55), (0.7, 0.3)] {
        let part = beside_nine(asked);
        assert!(
            (left * 0.75..=left).contains(&part),
            "{part} beside {asked}"
        );
    }
}

#[test]
fn who_is_limited_is_visited_for_what_has_come_of_its_share_where_rounds_are_long() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(103));
    let visit = shares.visit(Slot(1));
    assert!(visit > 15, "{visit}");
}

#[test]
fn who_is_limited_leaves_a_part_to_rounds_while_another_is_not() {
    // A fifth of the 10,000 cycles of an interval is asked for, and 600 are kept, however dear packets are.
    for cost in [100, 100_000] {
        let share = settled([(2, 100), (100, cost)]).accounts[1].share;
        assert!((share - 7400.0).abs() < 1.0, "{share}");
    }
}

#[test]
fn nothing_is_kept_of_what_is_guaranteed() {
    // Beside what nobody pays for, and 4,000 of the other's, 3,990 would be left where it is guaranteed half of 8,500.
    let share = settled_beside(200, [(4, 100), (100, 100)]).accounts[1].share;
    assert!((share - 4250.0).abs() < 1.0, "{share}");
}

#[test]
fn what_is_left_of_a_larger_share_is_no_more_than_comes_of_the_next_one() {
    let mut shares = settled([(100, 100), (100, 100)]);
    let account = &mut shares.accounts[1];
    (account.share, account.left, account.own) = (50_000.0, 50_000.0, 50_000.0);
    account.credit = account.own;
    let now = shares.ends;
    shares.begin(&short(), 2, now);
    let account = &shares.accounts[1];
    assert!(
        account.share < 10_000.0 && account.left <= account.share,
        "{account:?}"
    );
    assert!(account.credit <= account.own, "{account:?}");
}

//! What comes of shares over many intervals, reckoned.

use super::*;

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
        shares.has_more(slot);
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
    shares.book(slot, work, work.packets * cost, false);
    work.packets
}

fn level_of(capacity: f64, asked: &[(f64, f64)]) -> f64 {
    level(capacity, asked.iter().copied())
}

#[test]
fn the_level_is_the_highest_that_fits() {
    assert_eq!(level_of(100.0, &[(40.0, 1.0), (60.0, 1.0)]), f64::INFINITY);
    assert_eq!(level_of(100.0, &[(90.0, 1.0), (60.0, 1.0)]), 50.0);
    assert_eq!(level_of(100.0, &[(10.0, 1.0), (200.0, 1.0)]), 90.0);
    assert_eq!(level_of(100.0, &[(200.0, 3.0), (200.0, 1.0)]), 25.0);
    assert_eq!(
        level_of(100.0, &[(5.0, 1.0), (40.0, 1.0), (500.0, 1.0)]),
        55.0
    );
    assert_eq!(level_of(100.0, &[]), f64::INFINITY);
    assert_eq!(level_of(100.0, &[(500.0, 1.0), (0.0, 1.0)]), f64::INFINITY);
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
    let rest = 900 * 800;
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
            missed: 0,
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
    let fairness = short();
    let mut shares = Shares::default();
    for round in 0..100 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
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
    let shares = settled([(2, 100), (100, 100)]);
    // Of 500 cycles a microsecond, 300 were left for ten of them.
    let [modest, greedy] = [Slot(0), Slot(1)];
    assert!(shares.has_credit(modest) && !shares.has_credit(greedy));
    assert!((40..=80).contains(&shares.visit(modest)));
    assert!((5..=10).contains(&shares.visit(greedy)), "{shares:?}");
}

#[test]
fn what_takes_many_intervals_comes_one_by_one_when_those_before_are_paid_for() {
    let mut shares = settled([(2, 100), (5, 100_000)]);
    assert_eq!(shares.visit(Slot(1)), 0);
    shares.begin(&short(), 2, Nanos::from_millis(100));
    assert_eq!(shares.grant(Slot(1)), 1);
}

#[test]
fn one_alone_is_visited_for_as_long_as_it_has_packets() {
    let mut shares = settled([(0, 100), (100, 100)]);
    shares.meet(1);
    assert_eq!(shares.visit(Slot(1)), usize::MAX);
    // The first packets of another one have come.
    shares.meet(2);
    assert_eq!(shares.visit(Slot(1)), 80);
}

#[test]
fn while_the_others_send_nothing_visits_are_longer() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let among_others = shares.visit(Slot(1));
    shares.meet(1);
    assert!(shares.visit(Slot(1)) >= 2 * among_others);
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
            let granted = shares.grant(Slot(slot)).min(waiting);
            (Slot(slot), granted, cost)
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
    let granted = shares.grant(Slot(1));
    shares.receive_for(Slot(1), granted, 100_000.0);
    assert!(granted > 0 && shares.visit(Slot(1)) >= granted);
}

#[test]
fn what_it_takes_to_receive_packets_is_used_by_those_whose_packets_came() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let before = shares.accounts[0].credit;
    shares.receive_for(Slot(0), 10, 3000.0);
    assert_eq!(shares.accounts[0].credit, before - 3000.0);
}

#[test]
fn what_receiving_takes_beyond_its_time_is_not_there_to_share() {
    let near = |used: u64, wanted: u64| assert!(used.abs_diff(wanted) <= 9000, "{used}");
    near(serve_both(0, true), 900 * 500);
    near(serve_both(125, true), 900 * 500);
    near(serve_both(225, true), 900 * 450);
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

/// What part of a worker's time one takes whose port always has packets that take 4,000 cycles, beside nine that ask for so much of it together in
/// packets of 250. A round takes 500 cycles beside its packets.
fn beside_nine(asked: f64) -> f64 {
    let fairness = fairness(Nanos::from_millis(2), Nanos(500));
    let (until, from) = (40_000_000, 10_000_000);
    let mut shares = Shares::default();
    let (mut now, mut served, mut used) = (0, [0; 10], 0);
    while now < until {
        let mut reception = Reception {
            cycles: 0,
            missed: 0,
            is_behind: false,
        };
        let came: [usize; 10] = std::array::from_fn(|number| {
            let slot = Slot(number as u32);
            let sent = now as f64 * asked / 9.0 / 250.0 + number as f64 / 9.0;
            let waiting = match number {
                0 => 64,
                _ => sent as usize - served[number],
            };
            let granted = shares.grant(slot);
            let is_full = granted > 0 && waiting >= granted;
            reception.is_behind |= is_full && !shares.has_credit(slot);
            waiting.min(granted)
        });
        shares.begin(&fairness, 10, Nanos(now));
        shares.receive(reception);
        shares.meet(came.iter().filter(|came| **came > 0).count());
        for (number, came) in came.into_iter().enumerate().filter(|(_, came)| *came > 0) {
            let slot = Slot(number as u32);
            let visit = come(&mut shares, slot, came);
            let cost = if number == 0 { 4000 } else { 250 };
            let given = serve(&mut shares, (slot, 1), visit, cost);
            let cycles = given * cost;
            served[number] += given as usize;
            now += cycles;
            used += if number == 0 && now > from { cycles } else { 0 };
        }
        now += 500;
    }
    used as f64 / (until - from) as f64
}

/// What the second of two that ask for all there is gets for what the first gets, by weights of 3 and 1, where the thread has this part of its core, in
/// slices of 4 ms.
fn weighed_on(part: f64) -> f64 {
    let fairness = fairness(Nanos::from_millis(2), Nanos(500));
    let mut shares = Shares::default();
    let (mut now, mut ran, mut used) = (0, 0, [0, 0]);
    while now < 2_000_000_000 {
        shares.begin(&fairness, 2, Nanos(now));
        shares.receive(Reception::default());
        shares.meet(2);
        for (number, weight) in [(0, 1), (1, 3)] {
            let slot = Slot(number as u32);
            let granted = shares.grant(slot).min(64);
            let visit = come(&mut shares, slot, granted);
            let cycles = 250 * serve(&mut shares, (slot, weight), visit, 250);
            now += cycles;
            ran += cycles;
            if now > 1_000_000_000 {
                used[number] += cycles;
            }
        }
        // What a round takes beside its packets.
        now += 100;
        ran += 100;
        if ran > 4_000_000 {
            let missed = (ran as f64 * (1.0 / part - 1.0)) as u64;
            shares.miss(missed);
            now += missed;
            ran = 0;
        }
    }
    used[1] as f64 / used[0] as f64
}

#[test]
fn weights_hold_where_the_thread_has_a_part_of_its_core_alone() {
    for part in [1.0, 0.5, 0.25] {
        let ratio = weighed_on(part);
        assert!((ratio - 3.0).abs() < 0.3, "{ratio} on {part} of a core");
    }
}

#[test]
fn what_is_dearer_than_a_visit_takes_what_others_leave_and_no_more() {
    // Beside what rounds take.
    for (asked, left) in [(0.2, 0.8), (0.45, 0.55), (0.7, 0.3)] {
        let part = beside_nine(asked);
        assert!(
            (left * 0.85..=left).contains(&part),
            "{part} beside {asked}"
        );
    }
}

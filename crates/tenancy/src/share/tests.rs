//! Tests of fair sharing over many intervals, with a cost model.

use super::*;

mod bursts;
mod signs;

/// Returns a configuration with a thousand cycles per microsecond.
fn fairness(interval: Nanos, quantum: Nanos) -> Fairness {
    Fairness {
        interval,
        cycles_per_second: 1_000_000_000,
        quantum,
    }
}

/// Receives packets of a vPDP. Returns the number of packets that a service turn serves.
fn come(shares: &mut Shares, slot: VpdpIndex, packets: usize) -> usize {
    shares.receive_for(slot, packets, 0.0);
    let visit = shares.visit(slot);
    if packets >= visit {
        shares.has_more(slot, packets);
    }
    packets.min(visit)
}

/// Serves packets of a vPDP, `cost` cycles each, as far as its share goes. Returns their number.
fn serve(shares: &mut Shares, (slot, weight): (VpdpIndex, u32), packets: usize, cost: u64) -> u64 {
    let (given, _) = shares.admit(slot, weight, packets);
    let work = CycleUse {
        packets: given as u64,
        passes: 0,
    };
    let cycles = work.packets * cost;
    let visit = ServiceTurn {
        cycles,
        of_packets: cycles,
    };
    shares.book(slot, work, visit, false);
    work.packets
}

/// The configuration of `polyplane host --fair`, without its reserve.
fn usual() -> Fairness {
    fairness(Nanos::from_millis(2), Nanos::from_micros(2))
}

/// Returns the cycles served for each of two vPDPs with these demands: packets per microsecond,
/// cycles per packet, weight. Measures the last 90 of 100 intervals with a capacity of 10,000
/// cycles each.
fn serve_two(asks: [(usize, u64, u32); 2]) -> [u64; 2] {
    let fairness = fairness(Nanos::from_micros(10), Nanos::from_micros(1));
    let mut shares = Shares::default();
    let mut cycles = [0; 2];
    for round in 0..1000u64 {
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        for (number, (packets, cost, weight)) in asks.into_iter().enumerate() {
            let one = (VpdpIndex(number as u32), weight);
            let served = serve(&mut shares, one, packets, cost);
            cycles[number] += served * cost * u64::from(round >= 100);
        }
    }
    cycles
}

#[test]
fn without_contention_nothing_is_refused() {
    // Capacity 1,000 cycles per microsecond; demand 900.
    assert_eq!(serve_two([(3, 200, 1), (3, 100, 1)]), [540_000, 270_000]);
}

#[test]
fn who_asks_for_less_than_a_share_gets_it_and_the_other_gets_the_rest() {
    let [victim, hog] = serve_two([(2, 100, 1), (100, 500, 1)]);
    assert_eq!(victim, 900 * 200);
    // A part of the rest is the reserve.
    let rest = 900 * 740;
    assert!(hog.abs_diff(rest) < rest / 20, "{hog} of {rest}");
}

#[test]
fn a_surprise_is_paid_back() {
    // Packets cost a hundred intervals each; the first ones arrive before their cost is known.
    let [victim, hog] = serve_two([(2, 100, 1), (5, 100_000, 1)]);
    assert_eq!(victim, 900 * 200);
    // The first burst uses this vPDP's share of 625 microseconds. For the others 375 are left,
    // plus a packet.
    assert!((300_000..=400_000).contains(&hog), "{hog}");
}

/// Returns the cycles served for each of two equal vPDPs with twice the capacity as demand, in the
/// last 90 of 100 intervals.
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
        for slot in [0, 1].map(VpdpIndex) {
            used += serve(&mut shares, (slot, 1), 10, 100) * 100 * u64::from(round >= 100);
        }
    }
    used / 2
}

/// The configuration of [`settled`].
fn short() -> Fairness {
    fairness(Nanos::from_micros(10), Nanos(500))
}

/// Returns the accounts of two vPDPs after ten intervals with these demands: packets per
/// microsecond, and cycles per packet.
fn settled(asks: [(usize, u64); 2]) -> Shares {
    settled_beside(0, asks)
}

/// As [`settled`], with this many cycles of every microsecond billed to no vPDP.
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
        for (slot, (packets, cost)) in (0..).map(VpdpIndex).zip(asks) {
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
    let come_all = |shares: &mut Shares, slot: VpdpIndex, packets: usize, cost: u64| {
        come(shares, slot, packets);
        serve(shares, (slot, 1), packets, cost)
    };
    for round in 0..400 {
        let is_dear = round % 10 == 0;
        shares.begin(&fairness, 2, Nanos::from_micros(round));
        shares.receive(Reception::default());
        shares.meet(1 + usize::from(is_dear));
        if is_dear {
            // More cycles than a turn has, and a twenty-fifth of the capacity.
            come_all(&mut shares, VpdpIndex(0), 1, 400);
        }
        // Nine tenths.
        let given = come_all(&mut shares, VpdpIndex(1), 9, 100);
        assert!(round < 100 || given == 9, "{given} in round {round}");
    }
}

#[test]
fn who_used_less_than_it_could_have_is_visited_first_and_for_long() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(100));
    // Of 500 cycles per microsecond, 300 were left over in each of ten.
    let [modest, greedy] = [VpdpIndex(0), VpdpIndex(1)];
    assert!(shares.has_credit(modest) && !shares.has_credit(greedy));
    assert_eq!(shares.visit(modest), 20);
    assert!((5..=10).contains(&shares.visit(greedy)), "{shares:?}");
}

#[test]
fn what_takes_many_intervals_comes_one_by_one_when_those_before_are_paid_for() {
    let mut shares = settled([(2, 100), (5, 100_000)]);
    assert_eq!(shares.visit(VpdpIndex(1)), 0);
    shares.begin(&short(), 2, Nanos::from_millis(100));
    assert_eq!(shares.grant(VpdpIndex(1), usize::MAX), 1);
}

#[test]
fn one_alone_is_visited_for_as_long_as_it_has_packets() {
    let mut shares = settled([(0, 100), (100, 100)]);
    shares.meet(1);
    assert_eq!(shares.visit(VpdpIndex(1)), usize::MAX);
    // The first packets of another vPDP have arrived.
    shares.meet(2);
    assert_eq!(shares.visit(VpdpIndex(1)), 20);
}

#[test]
fn who_sent_nothing_is_not_taken_to_be_alone() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let among_others = shares.visit(VpdpIndex(1));
    shares.begin(&short(), 2, shares.now);
    shares.meet(1);
    shares.receive_for(VpdpIndex(0), 2, 0.0);
    assert_eq!(shares.visit(VpdpIndex(1)), among_others);
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
            let granted = shares.grant(VpdpIndex(slot), usize::MAX);
            if granted > 0 && granted <= waiting {
                shares.fill_up(VpdpIndex(slot));
            }
            (VpdpIndex(slot), granted.min(waiting), cost)
        });
        let came = asks.iter().filter(|(_, granted, _)| *granted > 0);
        shares.meet(came.count());
        for (slot, granted, cost) in asks {
            if granted == 0 {
                continue;
            }
            let visit = come(&mut shares, slot, granted);
            let given = serve(&mut shares, (slot, 1), visit, cost);
            if slot == VpdpIndex(1) && round >= 500 {
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
    let granted = shares.grant(VpdpIndex(1), usize::MAX);
    shares.begin(&short(), 2, shares.now);
    shares.receive_for(VpdpIndex(1), granted, 100_000.0);
    assert!(granted > 0 && shares.visit(VpdpIndex(1)) >= granted);
    assert_eq!(shares.admit(VpdpIndex(1), 1, granted).0, granted);
}

#[test]
fn who_is_limited_pays_for_visits_whole_and_others_for_their_packets() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let work = CycleUse {
        packets: 0,
        passes: 0,
    };
    let visit = ServiceTurn {
        cycles: 300,
        of_packets: 100,
    };
    let mut paid = |slot: VpdpIndex| {
        let before = shares.accounts[slot.index()].credit;
        shares.accounts[slot.index()].credit = 0.0;
        shares.book(slot, work, visit, false);
        let paid = -shares.accounts[slot.index()].credit;
        shares.accounts[slot.index()].credit = before;
        (paid, shares.reception)
    };
    assert_eq!(paid(VpdpIndex(1)).0, 300.0);
    let before = paid(VpdpIndex(1)).1;
    // The fixed cost of turns is billed to no vPDP then.
    assert_eq!(paid(VpdpIndex(0)), (100.0, before + 200.0));
}

#[test]
fn what_one_owes_does_not_keep_it_waiting_for_ever() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let work = CycleUse {
        packets: 1,
        passes: 0,
    };
    let cycles = 1_000_000_000;
    let visit = ServiceTurn {
        cycles,
        of_packets: cycles,
    };
    shares.book(VpdpIndex(1), work, visit, false);
    let share = shares.accounts[1].share;
    assert!(shares.accounts[1].left >= -share * MAX_OWED, "{shares:?}");
}

#[test]
fn what_it_takes_to_receive_what_ports_might_give_is_used_by_those_whose_they_are() {
    let mut shares = settled([(2, 100), (100, 100)]);
    let granted = shares.grant(VpdpIndex(0), 10);
    shares.begin(&short(), 2, shares.now);
    let before = shares.accounts[0].credit;
    shares.receive_for(VpdpIndex(0), 3 * granted, 3000.0);
    // Packets without a grant could not be refused, so no vPDP is billed for them.
    assert_eq!(shares.accounts[0].credit, before - 1000.0);
}

#[test]
fn what_ports_might_give_is_served_in_whichever_burst_it_comes() {
    let mut shares = settled([(2, 100), (100, 100)]);
    shares.begin(&short(), 2, Nanos::from_micros(100));
    let granted = shares.grant(VpdpIndex(1), usize::MAX);
    assert!(granted > 1);
    // A worker with a full batch processes it before all ports have delivered.
    for packets in [1, granted - 1] {
        shares.begin(&short(), 2, shares.now);
        shares.receive_for(VpdpIndex(1), packets, 100_000.0);
        assert!(shares.visit(VpdpIndex(1)) >= packets);
        assert_eq!(shares.admit(VpdpIndex(1), 1, packets).0, packets);
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
    assert_eq!(shares.grant(VpdpIndex(1), usize::MAX), 0);
    shares.accounts[1].credit = shares.accounts[1].own;
    assert_eq!(shares.grant(VpdpIndex(1), usize::MAX), 1);
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

/// Packets that a port delivers in its turn.
const TURN: usize = 64;

/// A vPDP with its own port: weight, cycles per packet, and number of packets waiting at the port.
#[derive(Clone, Copy, Debug)]
struct Asking {
    weight: u32,
    cost: u64,
    waiting: usize,
}

/// Simulates one round. Returns the number of packets served by vPDP.
fn round(shares: &mut Shares, fairness: &Fairness, now: u64, asking: &[Asking]) -> Vec<u64> {
    let all = (0..).map(VpdpIndex).zip(asking);
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

/// Returns the fraction of a worker's time that a vPDP with a backlog gets. Its packets cost 4,000
/// cycles. Nine other vPDPs have a total demand of `asked`, in packets of 250 cycles. The fixed
/// cost of a round is 500 cycles.
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
        // A tenth of the time every millisecond, and 7 tenths every ten microseconds: more than
        // half.
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

/// Returns the fraction of the packet time for each of several vPDPs with a backlog, given their
/// weight and cycles per packet. The thread gets this fraction of its core, in time slices of 4
/// ms.
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
        // Fixed cost of a round.
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

/// Returns the accounts of a single vPDP that demands the whole capacity. The thread gets a
/// quarter of its core, in time slices of 4 ms.
fn alone_on_a_quarter(fairness: &Fairness) -> Shares {
    let mut shares = Shares::default();
    let mut now = 0;
    while now < 600_000_000 {
        for _ in 0..4000 {
            shares.begin(fairness, 1, Nanos(now));
            shares.receive(Reception::default());
            shares.meet(1);
            let visit = come(&mut shares, VpdpIndex(0), 4);
            serve(&mut shares, (VpdpIndex(0), 1), visit, 250);
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
        // The packets arrive by a shared port, so there are no grants.
        for (number, packets, cost) in [(0, 10, 100), (1, 10, 2000)] {
            let slot = VpdpIndex(number);
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
        for slot in [0, 1].map(VpdpIndex) {
            serve(&mut shares, (slot, 1), 10, 100);
        }
    }
    assert_eq!(shares.next_pass(VpdpIndex(0)), Nanos(u64::MAX));
}

#[test]
fn who_waits_for_a_burst_without_others_is_looked_at_in_the_next_one() {
    let mut shares = settled([(2, 100), (5, 100_000)]);
    let dear = VpdpIndex(1);
    let account = &mut shares.accounts[dear.index()];
    (account.credit, account.left) = (-account.own, account.share);
    assert_eq!(shares.passes(dear), 0);
    assert_eq!(shares.next_pass(dear), shares.now);
    shares.begin(&short(), 2, shares.now);
    shares.meet(0);
    assert_eq!(shares.passes(dear), 1);
}

/// Returns true if the second of two vPDPs becomes limited, after an interval in which each used
/// the whole capacity and the worker kept up. `it_came` changes that vPDP's account first.
fn is_limited_where(it_came: impl Fn(&mut Account)) -> bool {
    let mut shares = Shares::default();
    shares.begin(&short(), 2, Nanos(1));
    for slot in [0, 1].map(VpdpIndex) {
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
                assert!(shares.grant(VpdpIndex(0), usize::MAX) > 0);
                // Only one of several ports counts per burst.
                assert!(!shares.fill_up(VpdpIndex(0)) && !shares.fill_up(VpdpIndex(0)));
            }
            shares.begin(&short(), 2, Nanos::from_micros(110 + burst));
        }
        let asked = shares.accounts[0].asked_before;
        assert_eq!(asked, own * full as f64 / 10.0, "{full} of 10");
    }
}

#[test]
fn what_is_dearer_than_a_visit_takes_what_others_leave_and_no_more() {
    // Less the fixed cost of rounds, and the reserve.
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
    let visit = shares.visit(VpdpIndex(1));
    assert!(visit > 15, "{visit}");
}

#[test]
fn who_is_limited_leaves_a_part_to_rounds_while_another_is_not() {
    // The demand is a fifth of the 10,000 cycles of an interval, and 600 are reserved, whatever
    // packets cost.
    for cost in [100, 100_000] {
        let share = settled([(2, 100), (100, cost)]).accounts[1].share;
        assert!((share - 7400.0).abs() < 1.0, "{share}");
    }
}

#[test]
fn nothing_is_kept_of_what_is_guaranteed() {
    // After unbilled work and the other vPDP's 4,000, 3,990 would be left. Half of 8,500 is
    // guaranteed.
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

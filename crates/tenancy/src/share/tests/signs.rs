//! Tests of the signs that more packets of a vPDP wait than were seen.

use super::*;

/// Returns the accounts of two vPDPs that are not limited. `it_came` changes the account of the
/// first, which has not used its guaranteed share; its second argument is the maximum length of a
/// turn.
fn unlimited_where(it_came: impl Fn(&mut Account, f64)) -> Shares {
    let mut shares = settled([(2, 100), (2, 100)]);
    let longest = shares.longest();
    let account = &mut shares.accounts[0];
    account.credit = account.own;
    it_came(account, longest);
    shares
}

fn has_none_left(account: &mut Account, _: f64) {
    account.credit = 0.0;
}

fn is_dear(account: &mut Account, longest: f64) {
    account.cost = longest * 2.0;
}

#[test]
fn a_full_port_shows_short_visits_where_credit_is_left_and_packets_are_not_dearer() {
    let cut = |it_came: fn(&mut Account, f64)| {
        let mut shares = unlimited_where(it_came);
        shares.grant(VpdpIndex(0), usize::MAX);
        shares.fill_up(VpdpIndex(0));
        shares.accounts[0].cut
    };
    assert_eq!(cut(|_, _| {}), 1);
    assert_eq!(cut(has_none_left), 0);
    assert_eq!(cut(is_dear), 0);
}

#[test]
fn what_comes_beside_what_ports_were_allowed_shows_that_more_waits_or_visits_are_short() {
    let shown = |granted: usize, it_came: fn(&mut Account, f64)| {
        let mut shares = unlimited_where(it_came);
        let carry = shares.carry;
        shares.accounts[0].allow(carry, granted);
        shares.has_more(VpdpIndex(0), 5);
        (shares.accounts[0].has_more, shares.accounts[0].cut)
    };
    assert_eq!(shown(0, has_none_left), (true, 0));
    assert_eq!(shown(4, has_none_left), (true, 0));
    assert_eq!(shown(0, |_, _| {}), (false, 1));
    assert_eq!(shown(0, is_dear), (false, 0));
    // For granted packets, the ports report it.
    assert_eq!(shown(5, has_none_left), (false, 0));
    assert_eq!(shown(5, |_, _| {}), (false, 0));
}

#[test]
fn whose_port_was_told_to_wait_asks_for_as_much_as_before_for_that_interval_alone() {
    let mut shares = settled([(2, 100), (2, 100)]);
    let mut asked_at = |micros: u64, it_comes: fn(&mut Account)| {
        shares.begin(&short(), 2, Nanos::from_micros(micros));
        let asked = shares.accounts[0].asked_before;
        it_comes(&mut shares.accounts[0]);
        asked
    };
    assert_eq!(asked_at(100, |account| account.is_put_off = true), 2000.0);
    assert_eq!(asked_at(110, |_| {}), 2000.0);
    // An empty port also counts for one interval only.
    assert_eq!(asked_at(120, |account| account.is_emptied = true), 0.0);
    let is_put_off = |account: &mut Account| {
        (account.is_put_off, account.asked_before) = (true, 2000.0);
    };
    assert_eq!(asked_at(130, is_put_off), 0.0);
    assert_eq!(asked_at(140, |_| {}), 2000.0);
}

#[test]
fn who_is_not_limited_is_visited_for_a_quantum_when_it_has_used_what_it_could_have() {
    let mut shares = unlimited_where(has_none_left);
    assert_eq!(shares.visit(VpdpIndex(0)), 5);
}

#[test]
fn whose_visits_were_too_short_in_more_bursts_than_there_were_lacked_time_in_all_of_them() {
    let short = |cut, bursts| {
        let account = Account {
            cut,
            ..Account::default()
        };
        account.short(bursts)
    };
    assert_eq!([short(0, 0), short(4, 10), short(20, 10)], [0.0, 0.4, 1.0]);
}

#[test]
fn who_has_had_more_than_it_could_may_ask_for_the_less_the_more_another_lacks() {
    let lenience = |credit, own, short| {
        let account = Account {
            credit,
            own,
            ..Account::default()
        };
        account.lenience(short)
    };
    assert_eq!(lenience(100.0, 100.0, 1.0), 1.5);
    assert_eq!(lenience(-100.0, 100.0, 0.0), 1.5);
    assert_eq!(lenience(-50.0, 100.0, 1.0), 1.25);
    assert_eq!(lenience(-100.0, 100.0, 0.5), 1.25);
    // Its share is smaller now than when it used that.
    assert_eq!(lenience(-200.0, 100.0, 1.0), 1.0);
    assert_eq!(lenience(0.0, 0.0, 1.0), 1.5);
}

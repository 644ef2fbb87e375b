//! Limits of moves: from an assignment with too many moves to one with the best of them.

use std::cmp::Reverse;

use super::problem::{PlaneId, Problem};
use super::state::{Bundle, Company, State};
use crate::ItemId;

/// Returns an assignment within the limits of moves. `target` breaks no other rule; if it has too
/// many moves, those that gain most are made, each after the moves that make room for it.
pub(crate) fn limited(problem: &Problem, target: &[PlaneId]) -> Vec<PlaneId> {
    let (limits, _) = problem.move_limits();
    let is_within = |planes: &[PlaneId]| {
        let mut all = problem.plane_ids().zip(&limits);
        all.all(|(plane, limit)| {
            limit.is_none_or(|limit| problem.move_count(planes, plane) <= limit)
        })
    };
    if is_within(target) {
        return target.to_vec();
    }
    let current = problem.current_planes();
    let mut state = State::at(problem, &current);
    let is_changed = |item: &ItemId| target[item.index()] != current[item.index()];
    let changed: Vec<ItemId> = problem.item_ids().filter(is_changed).collect();
    let on = |planes: &[PlaneId], item: ItemId| planes[item.index()];
    let mut entering = changed.clone();
    entering.retain(|&item| on(target, item) != PlaneId::HOME);
    entering.sort_by_key(|&item| Reverse(problem.excess(item, on(target, item))));
    // Items that leave a plane, worst last.
    let mut leaving = changed;
    leaving.retain(|&item| on(&current, item) != PlaneId::HOME);
    leaving.sort_by_key(|&item| Reverse(problem.excess(item, on(&current, item))));
    let mut bundle = Bundle::default();
    for item in entering {
        let plane = on(target, item);
        let mut trial = state.clone();
        let mut lost = 0;
        // An item that moves between planes goes home first.
        if trial.plane(item) != PlaneId::HOME {
            lost += problem.excess(item, trial.plane(item));
            trial.remove(item);
        }
        let mut victims = leaving.iter().rev().copied();
        let is_added = loop {
            let companies = [Company::Covers, Company::Items];
            let is_added = companies.into_iter().any(|company| {
                let is_found = trial.bundle(item, plane, company, &mut bundle);
                let is_good = is_found && bundle.excess > lost && trial.fits(&bundle, plane);
                if is_good {
                    trial.add(&bundle, plane);
                }
                is_good
            });
            if is_added {
                break true;
            }
            let is_here = |victim: &ItemId| trial.plane(*victim) == plane && *victim != item;
            let Some(victim) = victims.find(is_here) else {
                break false;
            };
            lost += problem.excess(victim, plane);
            trial.remove(victim);
            if lost >= problem.excess(item, plane) {
                break false;
            }
        };
        if is_added && is_within(trial.planes()) {
            state = trial;
        }
    }
    for item in leaving.into_iter().rev() {
        let plane = state.plane(item);
        if plane == on(&current, item) && problem.excess(item, plane) < 0 {
            let mut trial = state.clone();
            trial.remove(item);
            if is_within(trial.planes()) {
                state = trial;
            }
        }
    }
    match is_within(state.planes()) {
        true => state.into_planes(),
        // Items that are not allowed on one plane had to leave.
        false => current,
    }
}

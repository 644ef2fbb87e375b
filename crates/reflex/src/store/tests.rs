//! Tests of the replicas in one process and of members in several.

use consensus::{Ack, ReadMode, StoredValue};

use super::*;
use crate::loops::MemberTransport;

fn group(nodes: usize) -> ReplicaGroup {
    group_with(nodes, ReadMode::Index)
}

fn group_spec(nodes: usize) -> StoreSpec {
    StoreSpec {
        nodes: (0..nodes).map(|node| node.to_string()).collect(),
        voters: nodes,
        ack: Ack::Majority,
        transport: MemberTransport::OneProcess,
        key_file: None,
        reads: ReadMode::Index,
        dir: None,
        election_timeout: Nanos::from_millis(10),
    }
}

fn group_with(nodes: usize, reads: ReadMode) -> ReplicaGroup {
    let spec = StoreSpec {
        reads,
        ..group_spec(nodes)
    };
    ReplicaGroup::new(&spec, 1, Nanos::ZERO).expect("a few nodes")
}

/// Steps until a node leads. Returns the time.
fn elect(group: &mut ReplicaGroup, mut now: Nanos) -> Nanos {
    let end = now + Nanos::from_secs(1);
    while now < end {
        now = group.next_time();
        group.step(now);
        if group.leader().is_some() {
            return now;
        }
    }
    panic!("no node leads after a second");
}

fn change(number: u64) -> (Key, Option<ChangeBytes>) {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    (key, ChangeBytes::new(&number.to_le_bytes()))
}

#[test]
fn requests_are_committed_in_one_step_and_changes_come_in_their_order() {
    let mut group = group(3);
    let now = elect(&mut group, Nanos::ZERO);
    let mut ids = Vec::new();
    for number in 0..100 {
        let (key, bytes) = change(number);
        ids.push(group.change(ElementId(1), key, bytes).unwrap());
    }
    group.step(now);
    let mut previous = LogIndex(0);
    let mut committed = Vec::new();
    while let Some(event) = group.next_event() {
        match event {
            StoreEvent::Committed(id) => committed.push(id),
            StoreEvent::Change(_, change) => {
                assert_eq!(change.previous, previous);
                previous = change.index;
            }
            StoreEvent::Leading => {}
            StoreEvent::Full(id) => panic!("{id:?} has no room"),
            StoreEvent::Answered(id, answer) => panic!("{id:?} has {answer:?}"),
        }
    }
    committed.sort();
    assert_eq!(committed, ids);
}

#[test]
fn without_a_majority_requests_are_refused_and_with_one_again_they_are_committed() {
    let mut group = group(3);
    let mut now = elect(&mut group, Nanos::ZERO);
    let leader = group.leader().unwrap();
    let (key, bytes) = change(1);
    // A request under way when the leader stops is not lost.
    let id = group.change(ElementId(1), key, bytes).unwrap();
    // The leader has it, and the others do not.
    for node in (0..3).filter(|node| *node != leader) {
        group.set_stopped(node, true);
    }
    group.step(now);
    group.set_stopped(leader, true);
    for node in (0..3).filter(|node| *node != leader) {
        group.set_stopped(node, false);
    }
    now = elect(&mut group, now);
    for _ in 0..50 {
        now = group.next_time();
        group.step(now);
    }
    let mut events = std::iter::from_fn(|| group.next_event());
    assert!(events.any(|event| event == StoreEvent::Committed(id)));
    let second = group.leader().unwrap();
    group.set_stopped(second, true);
    let (key, bytes) = change(2);
    for _ in 0..100 {
        now = group.next_time();
        group.step(now);
    }
    let refused = group.change(ElementId(1), key, bytes);
    assert_eq!(refused, Err(StoreRefusal::NoLeader));
    group.set_stopped(leader, false);
    elect(&mut group, now);
    assert!(group.change(ElementId(1), key, bytes).is_ok());
}

/// Steps until the answer of a request. Returns it.
fn answer(group: &mut ReplicaGroup, mut now: Nanos, id: RequestId) -> RequestAnswer {
    for _ in 0..200 {
        group.step(now);
        while let Some(event) = group.next_event() {
            if let StoreEvent::Answered(it, answer) = event
                && it == id
            {
                return answer;
            }
        }
        now = group.next_time();
    }
    panic!("{id:?} is not answered");
}

#[test]
fn reads_take_no_entry_and_see_each_acknowledged_write_also_after_the_leader_stops() {
    for reads in [ReadMode::Index, ReadMode::Lease(10)] {
        let mut group = group_with(3, reads);
        let mut now = elect(&mut group, Nanos::ZERO);
        let value = |number: u64| StoredValue::new(&number.to_le_bytes()).unwrap();
        for number in 0..20 {
            let put = group.request(Operation::Put([1; 16], value(number)));
            answer(&mut group, now, put.unwrap());
            let leader = group.leader().unwrap();
            let last = group.replicas[leader].node.last();
            for key in [[1; 16], [2; 16]] {
                let expected = (key == [1; 16]).then(|| value(number));
                let get = group.request(Operation::Get(key)).unwrap();
                let found = answer(&mut group, now, get);
                assert_eq!(found, RequestAnswer::Value(expected), "{reads:?}");
            }
            assert_eq!(group.replicas[leader].node.last(), last);
            if number % 5 == 4 {
                // A read that the leader was asked for, and will not answer.
                let get = group.request(Operation::Get([1; 16])).unwrap();
                group.ask_reads(now);
                group.set_stopped(leader, true);
                let next = group.next_time().max(now);
                now = elect(&mut group, next);
                let found = answer(&mut group, now, get);
                assert_eq!(found, RequestAnswer::Value(Some(value(number))));
                group.set_stopped(leader, false);
            }
            now = group.next_time().max(now);
        }
    }
}

#[test]
fn a_replacement_of_a_node_that_is_no_member_adds_no_voter() {
    let spec = StoreSpec {
        nodes: (0..5).map(|node| node.to_string()).collect(),
        voters: 3,
        ack: Ack::Majority,
        transport: MemberTransport::OneProcess,
        key_file: None,
        reads: ReadMode::Index,
        dir: None,
        election_timeout: Nanos::from_millis(10),
    };
    let mut group = ReplicaGroup::new(&spec, 1, Nanos::ZERO).expect("a few nodes");
    let mut now = elect(&mut group, Nanos::ZERO);
    let old = (0..3).find(|at| group.leader() != Some(*at)).unwrap();
    let replace_by = |group: &mut ReplicaGroup, now: &mut Nanos, old: usize, new: usize| {
        for _ in 0..1000 {
            *now = group.next_time();
            group.step(*now);
            match group.replace(*now, old, new) {
                ReplaceProgress::UnderWay | ReplaceProgress::LedBy(_) => {}
                ended => return ended,
            }
        }
        panic!("the replacement does not end");
    };
    let replace =
        |group: &mut ReplicaGroup, now: &mut Nanos, new: usize| replace_by(group, now, old, new);
    assert_eq!(replace(&mut group, &mut now, 3), ReplaceProgress::Done);
    assert_eq!(group.voters().len(), 3);
    // The old node has gone, so another one would be a fourth voter.
    assert_eq!(replace(&mut group, &mut now, 4), ReplaceProgress::NoMember);
    assert_eq!(replace(&mut group, &mut now, 3), ReplaceProgress::Done);
    assert_eq!(group.voters().len(), 3);
    assert!(!group.voters().contains(&4));
    // A name that was replaced does not come back, also at another leader.
    let other = (0..4).find(|at| *at != old && group.leader() != Some(*at));
    let other = other.unwrap();
    assert_eq!(
        replace_by(&mut group, &mut now, other, old),
        ReplaceProgress::WasMember
    );
    let leader = group.leader().unwrap();
    group.set_stopped(leader, true);
    now = elect(&mut group, now);
    assert_eq!(
        replace_by(&mut group, &mut now, leader, old),
        ReplaceProgress::WasMember
    );
    assert_eq!(
        replace_by(&mut group, &mut now, leader, 4),
        ReplaceProgress::Done
    );
    assert!(!group.voters().contains(&old));
}

fn member(place: usize) -> ReplicaGroup {
    let spec = StoreSpec {
        nodes: (0..3).map(|node| node.to_string()).collect(),
        voters: 3,
        ack: Ack::Majority,
        transport: MemberTransport::Rings("test".to_owned()),
        key_file: None,
        reads: ReadMode::Index,
        dir: None,
        election_timeout: Nanos::from_millis(10),
    };
    let group = ReplicaGroup::of(&spec, (1, 0), Nanos::ZERO, vec![(place, None)]);
    group.expect("a few nodes")
}

#[test]
fn members_name_those_that_they_do_not_hear() {
    let mut groups = [0, 1, 2].map(member);
    let (mut now, mut is_cut) = (Nanos::ZERO, [false; 3]);
    let mut run = |groups: &mut [ReplicaGroup; 3], is_cut: &[bool; 3]| {
        for _ in 0..100 {
            now += Nanos::from_millis(1);
            let mut messages = Vec::new();
            for (from, group) in groups.iter_mut().enumerate() {
                group.step(now);
                group.drain_messages(|to, bytes| messages.push((from, to, bytes.to_vec())));
            }
            for (from, to, bytes) in messages {
                if !is_cut[from] && !is_cut[to] {
                    groups[to].receive_message(now, &bytes).unwrap();
                }
            }
        }
        now
    };
    let at = run(&mut groups, &is_cut);
    assert_eq!(
        groups.each_ref().map(|group| group.unheard(at)),
        [const { Vec::new() }; 3]
    );
    let leader = groups[0].states().next().unwrap().leader.unwrap();
    let follower = (leader + 1) % 3;
    is_cut[follower] = true;
    let at = run(&mut groups, &is_cut);
    assert_eq!(groups[leader].unheard(at), [follower]);
    assert_eq!(groups[(leader + 2) % 3].unheard(at), [] as [usize; 0]);
    let mut others = vec![leader, (leader + 2) % 3];
    others.sort_unstable();
    assert_eq!(groups[follower].unheard(at), others);
}

#[test]
fn a_store_without_room_for_sessions_is_asked_once_a_heartbeat() {
    let mut group = group(1);
    let mut now = elect(&mut group, Nanos::ZERO);
    let open = Request {
        client: ClientId(0),
        sequence: 0,
        operation: Operation::OpenSession,
    };
    let leader = group.leader().unwrap();
    for token in 0..CAPACITY.sessions as u64 {
        let node = &mut group.replicas[leader].node;
        node.propose(now.0, open, FIRST_FOREIGN + token).unwrap();
        group.step(now);
    }
    let (key, bytes) = change(1);
    group.change(ElementId(1), key, bytes).unwrap();
    for _ in 0..5 {
        let last = group.replicas[leader].node.last();
        now = group.next_time();
        group.step(now);
        let asked = group.replicas[leader].node.last().0 - last.0;
        assert!(asked <= 1, "{asked} entries in one step");
    }
    assert_eq!(group.waiting.len(), 0);
}

#[test]
fn a_node_is_replaced_in_a_full_store() {
    let spec = StoreSpec {
        nodes: (0..4).map(|node| node.to_string()).collect(),
        voters: 3,
        ..group_spec(3)
    };
    let mut group = ReplicaGroup::new(&spec, 1, Nanos::ZERO).expect("a few nodes");
    let mut now = elect(&mut group, Nanos::ZERO);
    let value = StoredValue::new(b"1").unwrap();
    let key = |number: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    };
    let (mut number, mut is_full) = (0, false);
    while !is_full {
        for _ in 0..1000 {
            group.request(Operation::Put(key(number), value)).unwrap();
            number += 1;
        }
        now = group.next_time().max(now);
        group.step(now);
        while let Some(event) = group.next_event() {
            is_full |= matches!(event, StoreEvent::Answered(_, RequestAnswer::Full));
        }
    }
    assert!(number < 2 * CAPACITY.keys as u64);
    let old = (0..3).find(|at| group.leader() != Some(*at)).unwrap();
    for _ in 0..1000 {
        now = group.next_time();
        group.step(now);
        if group.replace(now, old, 3) == ReplaceProgress::Done {
            assert!(!group.voters().contains(&old));
            return;
        }
    }
    panic!("the replacement does not end");
}

/// Lets members exchange messages for a millisecond. Those of members that are cut off are lost.
fn exchange(groups: &mut [ReplicaGroup; 3], now: Nanos, cut: Option<usize>) {
    for _ in 0..3 {
        let mut messages = Vec::new();
        for (from, group) in groups.iter_mut().enumerate() {
            group.step(now);
            group.drain_messages(|to, bytes| messages.push((from, to, bytes.to_vec())));
        }
        let others = messages.into_iter();
        let kept = others.filter(|(from, to, _)| ![*from, *to].iter().any(|at| Some(*at) == cut));
        for (_, to, bytes) in kept {
            groups[to].receive_message(now, &bytes).unwrap();
        }
    }
}

/// Lets members run until one of them leads with all that was committed. Returns it with its term.
fn leads(
    groups: &mut [ReplicaGroup; 3],
    now: &mut Nanos,
    cut: Option<usize>,
) -> (usize, consensus::Term) {
    for _ in 0..1000 {
        *now += Nanos::from_millis(1);
        exchange(groups, *now, cut);
        let all = (0..3).filter(|at| Some(*at) != cut && groups[*at].leads_with_all());
        let terms = all.filter_map(|at| Some((at, groups[at].leading()?.1)));
        if let Some(found) = terms.max_by_key(|(_, term)| *term) {
            return found;
        }
    }
    panic!("no member leads");
}

/// Has a member's change committed. Returns it with the term of its leader.
fn committed(
    groups: &mut [ReplicaGroup; 3],
    now: &mut Nanos,
    (at, number, cut): (usize, u64, Option<usize>),
) -> (consensus::Term, ElementChange) {
    let (key, bytes) = change(number);
    while groups[at].next_event().is_some() {}
    groups[at].change(ElementId(1), key, bytes).unwrap();
    for _ in 0..100 {
        *now += Nanos::from_millis(1);
        exchange(groups, *now, cut);
        while let Some(event) = groups[at].next_event() {
            if let StoreEvent::Change(term, change) = event
                && change.change == bytes
            {
                return (term, change);
            }
        }
    }
    panic!("the change is not committed");
}

#[test]
fn the_command_of_a_deposed_leader_is_refused_in_each_of_a_thousand_trials() {
    use crate::element::ElementAnswer;
    use crate::plane_driver::{AcceptingElement, CommandTarget};

    let mut groups = [0, 1, 2].map(member);
    let mut now = Nanos::ZERO;
    let mut element = AcceptingElement::default();
    let mut has = LogIndex(0);
    for trial in 0..1000 {
        let (old, _) = leads(&mut groups, &mut now, None);
        // Its command is late.
        let (old_term, late) = committed(&mut groups, &mut now, (old, 2 * trial, None));
        let (new, _) = leads(&mut groups, &mut now, Some(old));
        let newer = committed(&mut groups, &mut now, (new, 2 * trial + 1, Some(old)));
        assert!(newer.0 > old_term);
        // The later leader sends all that the element lacks.
        while let Some((term, change)) = groups[new].change_after(ElementId(1), has) {
            assert!(term > old_term);
            let answer = element.take(term, &change);
            let Some(ElementAnswer::Has(index, _)) = answer else {
                panic!("trial {trial}: {answer:?}");
            };
            has = index;
        }
        assert_eq!(has, newer.1.index);
        let answer = element.take(old_term, &late);
        assert_eq!(answer, Some(ElementAnswer::OldTerm(newer.0)), "{trial}");
    }
    let counts = element.counts();
    assert_eq!((counts.old_term, counts.early), (1000, 0));
    assert_eq!(counts.applied, 2000);
}

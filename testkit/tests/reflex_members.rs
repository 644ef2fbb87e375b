//! Reflex planes that go on after faults: elements that restart, and leaders in other processes.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use consensus::{
    Admission, ChangeBytes, ElementChange, Fence, Key, LogIndex, Persist, Saved, Term,
};
use packet::Nanos;
use reflex::{
    CommandTarget, DecidedChange, DecisionRefusal, ElementAnswer, ElementCounts, LogDisk,
    LogDiskError, Loops, MonitorIndex, Outcome, PlaneDriver, ReflexIndex, ReflexPlane,
    ReplicaGroup, SourceIndex, StoredNode, WriteResult,
};
use testkit::reports::{FROM, LOOPS, five_hops};

const MEMBERS: &str = r#"
life = "1 s"
[store]
nodes = [
    { name = "a", address = "127.0.0.1:7001" },
    { name = "b", address = "127.0.0.1:7002" },
    { name = "c", address = "127.0.0.1:7003" },
]
keep = "disk"
dir = "store"
"#;

const REFLEX: ReflexIndex = ReflexIndex(0);

/// A switch that keeps the entries of its commands.
#[derive(Default)]
struct Switch {
    fence: Fence,
    entries: HashMap<Key, ChangeBytes>,
    counts: ElementCounts,
    /// It lost all, and its connection says so once.
    is_restarted: bool,
    /// Its answers are lost.
    is_mute: bool,
}

/// A connection to a switch.
struct Connection(Rc<RefCell<Switch>>);

impl CommandTarget for Connection {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        let switch = &mut *self.0.borrow_mut();
        if switch.is_mute {
            return None;
        }
        let applied = WriteResult::Applied;
        Some(
            match switch.fence.admit(term, change.previous, change.index) {
                Admission::Apply => {
                    switch.counts.applied += 1;
                    match change.change {
                        Some(bytes) => switch.entries.insert(change.key, bytes),
                        None => switch.entries.remove(&change.key),
                    };
                    ElementAnswer::Has(change.index, applied)
                }
                Admission::Repeat(has) | Admission::Gap(has) => ElementAnswer::Has(has, applied),
                Admission::OldTerm(newer) => ElementAnswer::OldTerm(newer),
            },
        )
    }

    fn next_answer(&mut self) -> Option<ElementAnswer> {
        let switch = &mut *self.0.borrow_mut();
        let is_restarted = std::mem::take(&mut switch.is_restarted);
        is_restarted.then(|| {
            (switch.fence, switch.entries) = (Fence::default(), HashMap::new());
            ElementAnswer::Restarted
        })
    }

    fn counts(&self) -> ElementCounts {
        self.0.borrow().counts
    }
}

/// Reports of an exporter, with their numbers.
#[derive(Default)]
struct Reports(u32);

impl Reports {
    /// Gives a plane normal reports of a flow, and one with a long latency.
    fn alarm(&mut self, driver: &mut PlaneDriver, now: Nanos, flow: u16) {
        for latency in [500; 11].into_iter().chain([50_000]) {
            let report = five_hops(self.0, flow, latency).unwrap();
            self.0 += 1;
            driver.receive(now, SourceIndex(0), FROM, &report);
        }
    }
}

#[test]
fn a_switch_that_restarts_gets_all_changes_of_the_store_again() {
    let switch = Rc::new(RefCell::new(Switch::default()));
    let loops = Loops::read("loops", LOOPS).unwrap();
    let target: Box<dyn CommandTarget> = Box::new(Connection(Rc::clone(&switch)));
    let mut driver = PlaneDriver::new(ReflexPlane::new(loops, Nanos::ZERO), vec![target]);
    let mut now = Nanos::from_secs(1);
    driver.run_until(now);
    let mut reports = Reports::default();
    for flow in 0..200 {
        now += Nanos::from_micros(10);
        reports.alarm(&mut driver, now, flow);
        driver.step(now);
    }
    now += Nanos::from_millis(10);
    driver.run_until(now);
    assert_eq!(switch.borrow().entries.len(), 200);
    let before = switch.borrow().entries.clone();
    switch.borrow_mut().is_restarted = true;
    driver.run_until(now + Nanos::from_millis(10));
    assert!(switch.borrow().entries == before);
    assert!(driver.is_settled());
}

/// Content of a node's disk.
type Kept = Rc<RefCell<Option<Saved>>>;

/// A disk without delay.
struct Disk {
    kept: Kept,
    written: Option<u64>,
}

impl LogDisk for Disk {
    fn begin(&mut self, write: &Persist<'_>) {
        let mut kept = self.kept.borrow_mut();
        let saved = kept.get_or_insert_default();
        (saved.term, saved.vote) = (write.term, write.vote);
        assert!(write.snapshot.is_none(), "these logs are short");
        saved.first = LogIndex(1);
        saved.entries.truncate(write.from.0 as usize - 1);
        saved.entries.extend(write.entries().cloned());
        self.written = Some(write.number);
    }

    fn completed(&mut self) -> Option<u64> {
        self.written.take()
    }

    fn error(&self) -> Option<LogDiskError> {
        None
    }
}

/// Processes of one store, with one switch.
struct World {
    members: Vec<PlaneDriver>,
    /// Members that neither send nor receive messages.
    is_cut: [bool; 3],
    switch: Rc<RefCell<Switch>>,
    reports: Vec<Reports>,
    disks: [Kept; 3],
    now: Nanos,
}

impl World {
    /// Creates three processes of which one leads.
    fn new() -> World {
        let mut world = World {
            members: Vec::new(),
            is_cut: [false; 3],
            switch: Rc::new(RefCell::new(Switch::default())),
            reports: Vec::new(),
            disks: Default::default(),
            now: Nanos::ZERO,
        };
        world.start();
        world.pass(Nanos::from_secs(2));
        world
    }

    /// Starts all processes, again with what their disks have.
    fn start(&mut self) {
        let loops = Loops::read("loops", &format!("{LOOPS}{MEMBERS}")).unwrap();
        let members = (0..3).map(|place| {
            let kept = Rc::clone(&self.disks[place]);
            let saved = kept.borrow().clone();
            let written = None;
            let disk = Box::new(Disk { kept, written });
            let start = self.now.0 + place as u64;
            let group = ReplicaGroup::on_disk(
                &loops.store,
                (loops.seed, start),
                self.now,
                vec![(place, StoredNode { saved, disk })],
            );
            let plane = ReflexPlane::with_store(loops.clone(), group.unwrap());
            PlaneDriver::new(plane, vec![Box::new(Connection(Rc::clone(&self.switch)))])
        });
        self.members = members.collect();
        self.reports = (0..3).map(|_| Reports::default()).collect();
    }

    /// Lets time pass.
    fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.now += Nanos::from_millis(1);
            let now = self.now;
            let mut messages = VecDeque::new();
            for _ in 0..20 {
                for (from, member) in self.members.iter_mut().enumerate() {
                    member.step(now);
                    let store = member.plane_mut().store_mut();
                    store
                        .drain_messages(|to, bytes| messages.push_back((from, to, bytes.to_vec())));
                }
                for (from, to, bytes) in messages.drain(..) {
                    if !self.is_cut[from] && !self.is_cut[to] {
                        let store = self.members[to].plane_mut().store_mut();
                        store.receive_message(now, &bytes).unwrap();
                    }
                }
            }
        }
    }

    /// Returns the process that leads and that the others hear.
    fn leader(&self) -> usize {
        let leads = |at: &usize| {
            let store = self.members[*at].plane().store();
            !self.is_cut[*at] && store.leading().is_some()
        };
        (0..3).find(leads).expect("a process leads")
    }

    fn alarm(&mut self, member: usize, flow: u16) {
        self.reports[member].alarm(&mut self.members[member], self.now, flow);
    }

    /// Returns the newest change that a process made.
    fn made(&self, member: usize) -> DecidedChange {
        let mut decisions = self.members[member].plane().decisions().rev();
        let made = decisions.find_map(|decision| match decision.outcome {
            Outcome::Made(made) => Some(made),
            _ => None,
        });
        made.expect("a change was made")
    }

    fn entries(&self, member: usize) -> usize {
        self.members[member].plane().entries(REFLEX)
    }

    fn on_switch(&self) -> usize {
        self.switch.borrow().entries.len()
    }
}

#[test]
fn the_leader_counts_the_changes_of_other_processes_and_ends_their_lives() {
    let mut world = World::new();
    let leader = world.leader();
    let other = (leader + 1) % 3;
    world.alarm(other, 1);
    world.pass(Nanos::from_millis(200));
    assert!(world.made(other).committed.is_some());
    assert_eq!(world.on_switch(), 1);
    assert_eq!((world.entries(leader), world.entries(other)), (1, 0));
    world.pass(Nanos::from_millis(1500));
    assert_eq!(world.on_switch(), 0);
    assert_eq!((world.entries(leader), world.entries(other)), (0, 0));
    let ended = |at: usize| world.members[at].plane().counts().ended;
    assert_eq!((ended(leader), ended(other)), (1, 0));
}

#[test]
fn a_new_leader_ends_the_lives_that_began_before_it_led() {
    let mut world = World::new();
    let first = world.leader();
    world.alarm(first, 1);
    world.alarm((first + 1) % 3, 2);
    world.pass(Nanos::from_millis(200));
    assert_eq!((world.on_switch(), world.entries(first)), (2, 2));
    world.is_cut[first] = true;
    world.pass(Nanos::from_millis(800));
    let second = world.leader();
    assert_ne!(second, first);
    assert_eq!(world.entries(second), 2);
    world.pass(Nanos::from_millis(1500));
    assert_eq!((world.on_switch(), world.entries(second)), (0, 0));
    // The first one hears of the new leader, and counts nothing.
    world.is_cut[first] = false;
    world.pass(Nanos::from_millis(1500));
    assert_eq!(world.entries(first), 0);
}

#[test]
fn a_change_that_no_switch_answered_does_not_wait_after_its_leader() {
    let mut world = World::new();
    let first = world.leader();
    world.switch.borrow_mut().is_mute = true;
    world.alarm(first, 1);
    world.pass(Nanos::from_millis(100));
    assert!(world.made(first).committed.is_some());
    assert_eq!(world.entries(first), 1);
    world.is_cut[first] = true;
    world.pass(Nanos::from_secs(1));
    world.is_cut[first] = false;
    world.switch.borrow_mut().is_mute = false;
    world.pass(Nanos::from_secs(2));
    assert_ne!(world.leader(), first);
    assert_eq!((world.on_switch(), world.entries(first)), (0, 0));
    // The place is free for another change.
    let counts = |world: &World| world.members[first].plane().monitor_counts(MonitorIndex(0));
    let before = counts(&world);
    world.alarm(first, 1);
    world.pass(Nanos::from_millis(200));
    let held = DecisionRefusal::Held as usize;
    assert_eq!(counts(&world).made, before.made + 1);
    assert_eq!(counts(&world).refused[held], before.refused[held]);
    assert_eq!(world.on_switch(), 1);
}

#[test]
fn processes_that_restart_from_their_disks_end_the_lives_of_before() {
    let mut world = World::new();
    for flow in 0..3 {
        world.alarm(world.leader(), flow);
    }
    world.pass(Nanos::from_millis(200));
    assert_eq!(world.on_switch(), 3);
    world.start();
    assert!((0..3).all(|member| world.entries(member) == 0));
    world.pass(Nanos::from_millis(800));
    assert_eq!(world.entries(world.leader()), 3);
    world.pass(Nanos::from_millis(1500));
    assert_eq!((world.on_switch(), world.entries(world.leader())), (0, 0));
}

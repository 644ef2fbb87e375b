//! Flows over a group that changes at random, with filters that err and fill up: no packet goes to
//! a server that does not know its flow.

use std::collections::BTreeMap;

use placement::group::{Group, GroupError, GroupOptions};
use placement::{ServerId, SketchSize};
use support::rng::Rng;

/// Group, and the flows that each server knows.
struct Model {
    group: Group,
    known: BTreeMap<u64, ServerId>,
    rng: Rng,
    next_flow: u64,
    /// Flows of the servers' lists, of which all that need a pin have one. Flows that begin later
    /// are not among them.
    listed: Option<BTreeMap<u64, ServerId>>,
    /// Packets with flows that were pinned before they left.
    pinned: usize,
    commits: usize,
}

impl Model {
    fn new(seed: u64, columns: u32, max_pins: usize) -> Model {
        let options = GroupOptions {
            buckets: 64,
            filter: SketchSize { columns, rows: 2 },
            max_pins,
            max_error_rate: 0.5,
        };
        Model {
            group: Group::new(ServerId(0), options),
            known: BTreeMap::new(),
            rng: Rng::new(seed),
            next_flow: 0,
            listed: None,
            pinned: 0,
            commits: 0,
        }
    }

    fn packet(&mut self, flow: u64) {
        let key = flow.to_be_bytes();
        let route = self.group.route(&key);
        let server = *self.known.entry(flow).or_insert(route.server);
        assert_eq!(route.server, server, "flow {flow}");
        if route.needs_pin {
            self.pinned += 1;
            self.group.pin_packet(&key, server);
        }
    }

    fn begin(&mut self) {
        let server = ServerId(self.rng.below(6) as u16);
        let _ = match self.rng.below(3) {
            0 => self.group.join(server),
            1 => self.group.leave(server),
            _ => self.group.renew(),
        };
    }

    /// Lists the flows of all servers and pins those that need it.
    fn list(&mut self) {
        let keys: Vec<([u8; 8], ServerId)> = self.known.iter().map(of_flow).collect();
        let known = || keys.iter().map(|(key, server)| (&key[..], *server));
        let Ok(missing) = self.group.missing_pins(known()) else {
            return;
        };
        self.listed = None;
        for (key, server) in missing {
            if let Err(error) = self.group.pin(key, server) {
                assert!(matches!(error, GroupError::PinsFull { .. }));
                assert!(self.group.commit(known()).is_err());
                return;
            }
        }
        self.listed = Some(self.known.clone());
    }

    fn commit(&mut self) {
        let Some(listed) = self.listed.take() else {
            return;
        };
        let keys: Vec<([u8; 8], ServerId)> = listed.iter().map(of_flow).collect();
        let known = keys.iter().map(|(key, server)| (&key[..], *server));
        match self.group.commit(known) {
            Ok(()) => self.commits += 1,
            // A flow that began later found no free pin.
            Err(error) => assert!(matches!(error, GroupError::Unpinned { .. })),
        }
    }

    fn end_flow(&mut self) {
        let flow = self
            .known
            .keys()
            .nth(self.rng.index(self.known.len()))
            .copied();
        if let Some(flow) = flow {
            self.forget(flow);
        }
    }

    fn forget(&mut self, flow: u64) {
        self.known.remove(&flow);
        if let Some(listed) = &mut self.listed {
            listed.remove(&flow);
        }
        self.group.unpin(&flow.to_be_bytes());
    }

    fn fail(&mut self) {
        let server = ServerId(self.rng.below(6) as u16);
        if self.group.fail(server).is_ok() {
            let is_lost = |(&flow, &known): (&u64, &ServerId)| (known == server).then_some(flow);
            let lost: Vec<u64> = self.known.iter().filter_map(is_lost).collect();
            lost.into_iter().for_each(|flow| self.forget(flow));
        }
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..3 => self.begin(),
            3..6 => self.list(),
            6..8 => self.commit(),
            8 => self.fail(),
            9..60 => self.end_flow(),
            60..130 => {
                self.next_flow += 1;
                self.packet(self.next_flow);
            }
            _ => {
                let flow = self.known.keys().nth(self.rng.index(self.known.len()));
                if let Some(&flow) = flow {
                    self.packet(flow);
                }
            }
        }
        if self.known.len() > 300 {
            self.end_flow();
        }
    }
}

fn of_flow((flow, server): (&u64, &ServerId)) -> ([u8; 8], ServerId) {
    (flow.to_be_bytes(), *server)
}

/// Runs random steps, and returns the number of packets of flows that were pinned before the packet
/// left.
fn check(columns: u32, max_pins: usize) -> usize {
    let mut pinned = 0;
    for seed in 0..4 {
        let mut model = Model::new(seed, columns, max_pins);
        for _ in 0..20_000 {
            model.step();
        }
        assert!(model.commits > 10, "{} commits", model.commits);
        pinned += model.pinned;
    }
    pinned
}

#[test]
fn no_flow_reaches_a_server_that_does_not_know_it() {
    check(1 << 16, 1000);
}

#[test]
fn no_flow_reaches_a_server_that_does_not_know_it_while_filters_err() {
    // A flow that a filter finds by error during a change is pinned.
    assert!(check(512, 1000) > 0);
}

#[test]
fn no_flow_reaches_a_server_that_does_not_know_it_while_filters_are_full() {
    check(16, 1000);
}

#[test]
fn a_change_waits_while_there_are_too_few_pins() {
    check(512, 40);
}

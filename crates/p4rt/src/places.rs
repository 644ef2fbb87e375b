//! Limits on connections: in total, per client, and during the handshake. Some connections are
//! reserved for operators, so that other clients cannot lock them out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;

use crate::pipeline::lock;

/// Maximum number of connections, if the process may open enough descriptors.
const MAX: usize = 4096;

/// Number of connections reserved for operators.
const OF_OPERATORS: usize = 64;

/// Maximum number of connections of one client. Clients with the same certificate names count as
/// one.
const MAX_OF_ONE: usize = 64;

/// Maximum number of connections of one operator.
const MAX_OF_OPERATOR: usize = 512;

/// Maximum number of connections from one address with clients that have no certificates.
const MAX_OF_ADDRESS: usize = 2048;

/// Maximum number of connections in the handshake. If there are more, the oldest one is dropped.
const MAX_COMING: usize = 256;

/// Descriptors that the process needs for ports, files and channels.
const OTHER_DESCRIPTORS: u64 = 256;

/// Identity under which a client's connections are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// The names in the client's certificate.
    Named(Vec<String>),
    /// The client's address, if it needs no certificate or has none.
    At(IpAddr),
}

/// Counter of connections. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<State>>);

struct State {
    most: usize,
    taken: usize,
    of: HashMap<Client, usize>,
    coming: VecDeque<(u64, oneshot::Sender<()>)>,
    next: u64,
}

/// Guard of a counted connection. Dropping it releases the connection.
pub(crate) struct Place {
    places: Places,
    client: Client,
}

/// Guard of a connection in the handshake.
pub(crate) struct Coming {
    places: Places,
    number: u64,
}

impl Places {
    /// Returns a counter with a limit that fits the process' descriptors.
    pub(crate) fn new() -> Places {
        Places::of(most_by_descriptors())
    }

    fn of(most: usize) -> Places {
        Places(Arc::new(Mutex::new(State {
            most,
            taken: 0,
            of: HashMap::new(),
            coming: VecDeque::new(),
            next: 0,
        })))
    }

    /// Registers a connection in the handshake. The receiver completes with an error if the
    /// connection must be dropped.
    pub(crate) fn come(&self) -> (Coming, oneshot::Receiver<()>) {
        let (stay, goes) = oneshot::channel();
        let mut state = lock(&self.0);
        let number = state.next;
        state.next += 1;
        if state.coming.len() >= MAX_COMING.min(state.most) {
            state.coming.pop_front();
        }
        state.coming.push_back((number, stay));
        let coming = Coming {
            places: self.clone(),
            number,
        };
        (coming, goes)
    }

    /// Counts a connection of an identified client.
    ///
    /// # Errors
    /// A limit is reached. The message states which.
    pub(crate) fn take(&self, client: Client, is_operator: bool) -> Result<Place, String> {
        let mut state = lock(&self.0);
        let kept = match is_operator {
            true => 0,
            false => OF_OPERATORS.min(state.most / 2),
        };
        if state.taken + kept >= state.most {
            return Err(format!("there are {} connections already", state.taken));
        }
        let most = match (is_operator, &client) {
            (true, Client::Named(_)) => MAX_OF_OPERATOR,
            (true, Client::At(_)) => MAX_OF_ADDRESS,
            (false, _) => MAX_OF_ONE,
        };
        let own = state.of.entry(client.clone()).or_default();
        if *own >= most {
            return Err(format!(
                "the client has {most} connections, as many as it may"
            ));
        }
        *own += 1;
        state.taken += 1;
        Ok(Place {
            places: self.clone(),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.places.0);
        state.taken -= 1;
        if let Some(own) = state.of.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                state.of.remove(&self.client);
            }
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut state = lock(&self.places.0);
        state.coming.retain(|(number, _)| *number != self.number);
    }
}

/// Returns the number of connections for which there are descriptors. Raises the process' limit as
/// far as the system allows.
fn most_by_descriptors() -> usize {
    let wanted = (MAX + MAX_COMING) as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let possible = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let mut has = current;
    if current < possible {
        let raised = Rlimit {
            current: Some(possible),
            ..limit
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            has = possible;
        }
    }
    let room = has.saturating_sub(OTHER_DESCRIPTORS + MAX_COMING as u64);
    usize::try_from(room)
        .unwrap_or(MAX)
        .clamp(OF_OPERATORS, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Client {
        Client::Named(vec![name.to_owned()])
    }

    #[test]
    fn one_client_has_so_many_connections_and_no_more() {
        let places = Places::of(1000);
        let mut all: Vec<Place> = (0..MAX_OF_ONE)
            .map(|_| places.take(named("tenant"), false).unwrap())
            .collect();
        assert!(places.take(named("tenant"), false).is_err());
        assert!(places.take(named("other"), false).is_ok());
        all.pop();
        assert!(places.take(named("tenant"), false).is_ok());
        all.clear();
        assert!(lock(&places.0).of.is_empty());
        assert_eq!(lock(&places.0).taken, 0);
    }

    #[test]
    fn operators_find_room_whatever_all_others_have() {
        let places = Places::of(200);
        let mut all = Vec::new();
        for tenant in 0..100 {
            let take = || places.take(named(&format!("tenant {tenant}")), false).ok();
            all.extend(std::iter::from_fn(take));
        }
        assert_eq!(all.len(), 200 - OF_OPERATORS);
        let operators: Vec<_> = (0..OF_OPERATORS)
            .map(|_| places.take(named("root"), true).unwrap())
            .collect();
        assert!(places.take(named("root"), true).is_err());
        drop(operators);
    }

    #[test]
    fn of_too_many_that_come_the_one_goes_that_came_first() {
        let places = Places::of(1000);
        let (_first, mut goes) = places.come();
        let mut others = Vec::new();
        for _ in 1..MAX_COMING {
            others.push(places.come());
        }
        let mut must_go = || goes.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        assert!(!must_go());
        others.pop();
        others.push(places.come());
        assert!(!must_go());
        others.push(places.come());
        assert!(must_go());
    }
}

//! Section 3.2.3 on two cores: the leader and its client on one thread, the other replicas on
//! another one, with messages by rings or by UDP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use consensus::{
    Ack, Capacity, ClientId, Config, Keep, Membership, NodeEvent, NodeId, Operation, RaftNode,
    RaftRole, ReadMode, Request, RequestAnswer, StoredValue,
};
use support::quantile::quantile;

use super::links::{Link, Turns, Way, poll};
use super::{Context, Origin, ROUNDS, Sheet, median, ratio};

/// Requests under way at once, of the row of a load.
const OUTSTANDING: usize = 64;
/// Nanoseconds: an election timeout no stall of the machine reaches, and the time of the first one.
const ELECTION: u64 = 60_000_000_000;
const HEARTBEAT: u64 = 10_000_000;
const BEGIN: u64 = 4 * ELECTION;

/// Node with links to the others, by their places.
struct Member {
    node: RaftNode,
    links: [Option<Link>; 3],
}

impl Member {
    /// Takes what the links have, and sends what follows. Returns false if there was nothing.
    fn step(&mut self, now: u64) -> bool {
        let (node, links) = (&mut self.node, &mut self.links);
        let mut received = 0;
        for link in links.iter_mut().flatten() {
            // A message that is refused is one that was lost.
            received += link.receive(|bytes| {
                let _ = node.receive(now, bytes);
            });
        }
        node.flush(now);
        let mut sent = 0;
        node.send(|to, bytes| {
            if let Some(Some(link)) = links.get_mut(to.0 as usize - 1) {
                link.send(bytes);
                sent += 1;
            }
        });
        if sent > 0 {
            links.iter_mut().flatten().for_each(Link::flush);
        }
        received + sent > 0
    }
}

/// The leader with its sessions, and the thread of the others.
struct Remote {
    leader: Member,
    sessions: Vec<(ClientId, u64)>,
    begin: Instant,
    stops: Arc<AtomicBool>,
    others: Option<JoinHandle<()>>,
}

impl Remote {
    fn new(way: Way, sessions: usize) -> Result<Remote, String> {
        let voters = [1, 2, 3].map(NodeId);
        let members = Membership::of_voters(&voters).ok_or("three voters are too many")?;
        let config = |id| Config {
            cluster: 1,
            id,
            seed: 1,
            election_timeout: ELECTION,
            heartbeat: HEARTBEAT,
            ack: Ack::Majority,
            keep: Keep::Memory,
            log_entries: 8192,
            window: 1024,
            max_batch: 64,
            reads: ReadMode::Index,
            max_reads: 64,
            capacity: Capacity {
                keys: 1024,
                reserved: 0,
                sessions: 128,
                session_life: u64::MAX,
            },
        };
        let mut all = voters.map(|id| Member {
            node: RaftNode::new(config(id), members, 0),
            links: [None, None, None],
        });
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let (near, far) = Link::pair(way)?;
            all[one].links[other] = Some(near);
            all[other].links[one] = Some(far);
        }
        let [leader, mut second, mut third] = all;
        let stops = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stops);
        // They get no ticks, so they do not campaign.
        let others = std::thread::spawn(move || {
            let mut turns = Turns::default();
            while !seen.load(Ordering::Relaxed) {
                let is_working = second.step(BEGIN) | third.step(BEGIN);
                if !is_working {
                    turns.idle();
                }
            }
        });
        let mut remote = Remote {
            leader,
            sessions: Vec::new(),
            begin: Instant::now(),
            stops,
            others: Some(others),
        };
        remote.elect()?;
        for _ in 0..sessions {
            let open = Request {
                client: ClientId(0),
                sequence: 0,
                operation: Operation::OpenSession,
            };
            remote.propose(open, 0)?;
            let RequestAnswer::Opened(client) = remote.answer()?.1 else {
                return Err("no session was opened".to_owned());
            };
            remote.sessions.push((client, 0));
        }
        Ok(remote)
    }

    fn now(&self) -> u64 {
        BEGIN + self.begin.elapsed().as_nanos() as u64
    }

    fn elect(&mut self) -> Result<(), String> {
        poll(|| {
            let now = self.now();
            self.leader.node.tick(now);
            self.leader.step(now);
            (self.leader.node.role() == RaftRole::Leader).then_some(())
        })
    }

    fn propose(&mut self, request: Request, token: u64) -> Result<(), String> {
        let now = self.now();
        let proposed = self.leader.node.propose(now, request, token);
        proposed.map_err(|refusal| refusal.to_string())
    }

    /// Proposes the next write of a session.
    fn put(&mut self, session: usize) -> Result<(), String> {
        let value = StoredValue::new(&[7; 64]).unwrap_or_default();
        let (client, sequence) = &mut self.sessions[session];
        *sequence += 1;
        let key = u128::from(*sequence % 512).to_le_bytes();
        let request = Request {
            client: *client,
            sequence: *sequence,
            operation: Operation::Put(key, value),
        };
        self.propose(request, session as u64)
    }

    /// Works until a request is committed and applied. Returns its token and answer.
    fn answer(&mut self) -> Result<(u64, RequestAnswer), String> {
        let mut failed = None;
        let found = poll(|| {
            while let Some(event) = self.leader.node.next_event() {
                match event {
                    NodeEvent::Answered { token, answer } => return Some((token, answer)),
                    NodeEvent::Unknown { .. } => failed = Some("the leader gave up"),
                    _ => {}
                }
            }
            let now = self.now();
            self.leader.node.tick(now);
            self.leader.step(now);
            failed.map(|_| (0, RequestAnswer::Stale))
        })?;
        match failed {
            Some(why) => Err(why.to_owned()),
            None => Ok(found),
        }
    }

    /// Makes writes, some at once. Returns the time of each in ns, and the writes a second.
    fn write(&mut self, count: usize) -> Result<(Vec<f64>, f64), String> {
        let begin = Instant::now();
        let mut times = Vec::with_capacity(count);
        let mut begun = vec![begin; self.sessions.len()];
        for (session, time) in begun.iter_mut().enumerate() {
            *time = Instant::now();
            self.put(session)?;
        }
        while times.len() < count {
            let (token, answer) = self.answer()?;
            if answer != RequestAnswer::Done {
                return Err(format!("a write is answered by {answer:?}"));
            }
            let session = token as usize;
            times.push(begun[session].elapsed().as_nanos() as f64);
            if times.len() + self.sessions.len() <= count {
                begun[session] = Instant::now();
                self.put(session)?;
            }
        }
        let rate = count as f64 / begin.elapsed().as_secs_f64();
        Ok((times, rate))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(others) = self.others.take() {
            // A thread that panicked has ended.
            let _ = others.join();
        }
    }
}

/// Adds the rows of writes by rings and by UDP, by turns.
///
/// # Errors
/// A write fails, or a signal arrived.
pub(super) fn rows(context: &mut Context<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let count = context.choose(20_000, 20);
    let load = context.choose(200_000, 128);
    let mut medians: [Vec<f64>; 2] = Default::default();
    let mut tails: [Vec<f64>; 2] = Default::default();
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..=ROUNDS {
        context.tell("writes on two cores", round, ROUNDS + 1)?;
        for (at, way) in Way::BOTH.into_iter().enumerate() {
            let (mut times, _) = Remote::new(way, 1)?.write(count)?;
            let (_, rate) = Remote::new(way, OUTSTANDING)?.write(load)?;
            // The first round warms.
            if round > 0 {
                medians[at].push(median(&times));
                tails[at].push(quantile(&mut times, 0.99).unwrap_or(0.0));
                rates[at].push(rate);
            }
        }
    }
    for (at, way) in Way::BOTH.into_iter().enumerate() {
        let subject = format!("write over {}, two threads", way.name());
        let mut values = vec![
            ("median us", median(&medians[at]) / 1e3),
            ("p99 us", median(&tails[at]) / 1e3),
            ("64 outstanding, writes/s", median(&rates[at])),
        ];
        if way == Way::Ring {
            values.push(("of UDP", ratio(&medians[0], &medians[1])));
        }
        sheet.add(&subject, Origin::Measured, &values);
    }
    Ok(())
}

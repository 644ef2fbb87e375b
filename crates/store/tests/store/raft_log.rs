//! Tests of a node's file: power failures, a full disk, files of others.

use std::collections::BTreeMap;

use consensus::{
    Ack, Capacity, ClientId, Config, Keep, Key, LogIndex, Membership, MessageBody, NodeEvent,
    NodeId, Operation, PeerMessage, RaftNode, RaftRole, ReadMode, Request, RequestAnswer, Saved,
    StoredValue, Term, VoteKind,
};
use redb::{ReadableDatabase, ReadableTable};
use store::{Directory, LogOwner, LogWrite, RaftLog};
use support::rng::Rng;

use crate::disk::SimulatedDisk;

const CAPACITY: Capacity = Capacity {
    keys: 64,
    reserved: 0,
    sessions: 4,
    session_life: u64::MAX,
};
const OWNER: LogOwner = LogOwner {
    cluster: 7,
    node: NodeId(1),
};

fn config(seed: u64) -> Config {
    Config {
        cluster: OWNER.cluster,
        id: OWNER.node,
        seed,
        election_timeout: 10,
        heartbeat: 1,
        ack: Ack::Majority,
        keep: Keep::Disk,
        // Small, so that snapshots replace entries.
        log_entries: 16,
        window: 8,
        max_batch: 8,
        reads: ReadMode::Index,
        max_reads: 4,
        capacity: CAPACITY,
    }
}

/// A cluster of one node with its file. Its client has one request at a time.
struct Single {
    node: RaftNode,
    log: RaftLog,
    now: u64,
    client: Option<ClientId>,
    sequence: u64,
}

/// The power is off.
#[derive(Debug)]
struct Cut;

impl Single {
    fn start(disk: &SimulatedDisk, seed: u64) -> Result<Single, Cut> {
        let opened = RaftLog::open(Box::new(disk.clone()), OWNER, CAPACITY);
        let (log, saved) = opened.map_err(|_| Cut)?;
        let members = Membership::of_voters(&[OWNER.node]).unwrap();
        let node = match saved {
            Some(saved) => RaftNode::restore(config(seed), members, saved, 0),
            None => RaftNode::new(config(seed), members, 0),
        };
        let mut single = Single {
            node,
            log,
            now: 0,
            client: None,
            sequence: 0,
        };
        while single.node.role() != RaftRole::Leader {
            single.now += 1;
            single.node.tick(single.now);
            single.keep()?;
        }
        Ok(single)
    }

    fn keep(&mut self) -> Result<(), Cut> {
        self.node.flush(self.now);
        while let Some(write) = self.node.persist() {
            let number = write.number;
            let write = LogWrite::of(&write);
            self.log.write(&write).map_err(|_| Cut)?;
            self.node.persisted(number);
            self.node.flush(self.now);
        }
        Ok(())
    }

    fn ask(&mut self, operation: Operation) -> Result<RequestAnswer, Cut> {
        loop {
            let (client, asked) = match self.client {
                Some(client) => (client, operation),
                None => (ClientId(0), Operation::OpenSession),
            };
            self.sequence += 1;
            let request = Request {
                client,
                sequence: self.sequence,
                operation: asked,
            };
            self.now += 1;
            self.node.propose(self.now, request, 1).expect("it leads");
            self.keep()?;
            loop {
                match self.node.next_event().expect("it is answered") {
                    NodeEvent::Answered {
                        answer: RequestAnswer::Opened(client),
                        ..
                    } => {
                        self.client = Some(client);
                        break;
                    }
                    NodeEvent::Answered { answer, .. } => return Ok(answer),
                    _ => {}
                }
            }
        }
    }
}

fn key(number: u64) -> Key {
    let mut key = [0; 16];
    key[0] = number as u8;
    key
}

fn value(number: u64) -> StoredValue {
    StoredValue::new(&number.to_le_bytes()).unwrap()
}

#[test]
fn a_power_cut_loses_no_answered_write_and_no_term() {
    let mut cuts = 0;
    let mut snapshots = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut disk = SimulatedDisk::new();
        // By key: the value of the last answered write, and of the last one that was tried.
        let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut term = Term(0);
        let mut number = 0;
        for life in 0..4 {
            let mut run = || -> Result<(), Cut> {
                let mut single = Single::start(&disk, seed << 8 | life)?;
                assert!(single.node.term() > term, "seed {seed}: a term came back");
                term = single.node.term();
                snapshots += u64::from(single.node.base().0 > 0);
                for (at, (answered, tried)) in &mut model {
                    let found = single.ask(Operation::Get(key(*at)))?;
                    let is = |number: u64| {
                        let expected = (number > 0).then(|| value(number));
                        found == RequestAnswer::Value(expected)
                    };
                    // A write of unknown outcome was done, or never is.
                    *answered = match is(*tried) {
                        true => *tried,
                        false => *answered,
                    };
                    *tried = *answered;
                    assert!(
                        is(*answered),
                        "seed {seed}: key {at} has {found:?}, not {answered}"
                    );
                }
                disk.cut_after(rng.index(400) as u32);
                for _ in 0..60 {
                    number += 1;
                    let at = rng.index(8) as u64;
                    let entry = model.entry(at).or_default();
                    entry.1 = number;
                    single.ask(Operation::Put(key(at), value(number)))?;
                    model.insert(at, (number, number));
                }
                Ok(())
            };
            cuts += u64::from(run().is_err());
            disk = disk.after_cut(|bound| rng.index(bound));
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
    assert!(snapshots > 10, "{snapshots} starts from a snapshot");
}

#[test]
fn a_full_disk_is_an_error_without_effect_and_goes_on_with_room() {
    let disk = SimulatedDisk::new();
    let mut single = Single::start(&disk, 1).unwrap();
    single.ask(Operation::Put(key(1), value(1))).unwrap();
    disk.fill(0);
    let mut refused = None;
    for number in 0..10_000 {
        single.now += 1;
        single.sequence += 1;
        let request = Request {
            client: single.client.unwrap(),
            sequence: single.sequence,
            operation: Operation::Put(key(number % 60), value(number)),
        };
        single.node.propose(single.now, request, 1).unwrap();
        single.node.flush(single.now);
        let write = single.node.persist().expect("there is something to write");
        let (done, write) = (write.number, LogWrite::of(&write));
        match single.log.write(&write) {
            Ok(()) => single.node.persisted(done),
            Err(error) => {
                assert!(error.is_full, "{}", error.message);
                assert!(
                    error.message.contains("no space is left"),
                    "{}",
                    error.message
                );
                refused = Some((done, write));
                break;
            }
        }
    }
    let (number, write) = refused.expect("the disk has an end");
    assert!(single.log.write(&write).is_err());
    disk.make_room();
    single.log.write(&write).unwrap();
    single.node.persisted(number);
    while single.node.next_event().is_some() {}
    single.ask(Operation::Put(key(2), value(5))).unwrap();
    drop(single);
    let mut again = Single::start(&disk, 2).unwrap();
    let found = again.ask(Operation::Get(key(2))).unwrap();
    assert_eq!(found, RequestAnswer::Value(Some(value(5))));
}

#[test]
fn a_file_keeps_the_vote_and_is_of_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(folder.path()).unwrap();
    let (log, saved) = directory.raft_log(OWNER, CAPACITY).unwrap();
    assert!(saved.is_none());
    let members = Membership::of_voters(&[NodeId(1), NodeId(2)]).unwrap();
    let mut node = RaftNode::new(config(1), members, 0);
    let ask = PeerMessage {
        from: NodeId(2),
        to: NodeId(1),
        term: Term(5),
        body: MessageBody::Vote {
            kind: VoteKind::Real,
            campaign: 1,
            last_index: LogIndex(0),
            last_term: Term(0),
        },
    };
    let mut bytes = Vec::new();
    ask.encode(OWNER.cluster, &mut bytes);
    node.receive(50, &bytes).unwrap();
    node.flush(50);
    drop(log);
    let (mut log, _) = directory.raft_log(OWNER, CAPACITY).unwrap();
    let write = node.persist().expect("a vote is kept before it is sent");
    log.write(&LogWrite::of(&write)).unwrap();
    drop(log);
    let Saved { term, vote, .. } = directory.raft_log(OWNER, CAPACITY).unwrap().1.unwrap();
    assert_eq!((term, vote), (Term(5), Some(NodeId(2))));
    let other = LogOwner {
        node: NodeId(2),
        ..OWNER
    };
    let error = directory.raft_log(other, CAPACITY).unwrap_err().to_string();
    assert!(error.contains("is of node 1 of cluster 0x7"), "{error}");
}

/// A directory with the file of a node that has a snapshot and entries after it.
fn kept() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(folder.path()).unwrap();
    let (log, _) = directory.raft_log(OWNER, CAPACITY).unwrap();
    let members = Membership::of_voters(&[OWNER.node]).unwrap();
    let mut single = Single {
        node: RaftNode::new(config(1), members, 0),
        log,
        now: 0,
        client: None,
        sequence: 0,
    };
    while single.node.role() != RaftRole::Leader {
        single.now += 1;
        single.node.tick(single.now);
        single.keep().unwrap();
    }
    for number in 0..40 {
        let operation = Operation::Put(key(number), value(number));
        single.ask(operation).unwrap();
    }
    assert!(single.node.base().0 > 0, "there is a snapshot");
    folder
}

fn refusal(folder: &std::path::Path) -> String {
    let directory = Directory::open(folder).unwrap();
    directory.raft_log(OWNER, CAPACITY).unwrap_err().to_string()
}

#[test]
fn entries_that_are_missing_after_the_snapshot_or_within_are_refused() {
    const ENTRIES: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("raft_entries");
    for place in [0, 1] {
        let folder = kept();
        let removed = {
            let database = redb::Database::open(folder.path().join("raft.redb")).unwrap();
            let change = database.begin_write().unwrap();
            let removed = {
                let mut entries = change.open_table(ENTRIES).unwrap();
                let indexes = entries.iter().unwrap().map(|pair| pair.unwrap().0.value());
                let indexes: Vec<u64> = indexes.collect();
                assert!(indexes.len() > 2, "{indexes:?}");
                entries.remove(indexes[place]).unwrap();
                indexes[place]
            };
            change.commit().unwrap();
            removed
        };
        let error = refusal(folder.path());
        let missing = format!("is damaged: entries {removed} to {removed} are missing");
        assert!(error.contains(&missing), "{error}");
        assert!(error.contains("another `seed`"), "{error}");
        assert!(!error.contains("move the file away"), "{error}");
    }
}

#[test]
fn a_file_of_another_version_is_refused_and_not_changed() {
    const NUMBERS: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("raft");
    let folder = tempfile::tempdir().unwrap();
    {
        let database = redb::Database::create(folder.path().join("raft.redb")).unwrap();
        let change = database.begin_write().unwrap();
        change
            .open_table(NUMBERS)
            .unwrap()
            .insert("version", 2)
            .unwrap();
        change.commit().unwrap();
    }
    let error = refusal(folder.path());
    assert!(error.contains("has the format 2"), "{error}");
    let database = redb::Database::open(folder.path().join("raft.redb")).unwrap();
    let view = database.begin_read().unwrap();
    assert_eq!(view.list_tables().unwrap().count(), 1);
}

//! File of a node of a replicated log: its term, vote, entries and snapshot.

use consensus::{Capacity, Entry, LogIndex, NodeId, Persist, Saved, Snapshot, Term};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use switch::StorageError;

use crate::disk::{Medium, OpenError, damaged, open_database, told};

/// Version of the form of these files. Only this one is written and read.
const VERSION: u64 = 1;

/// Numbers: version, cluster, node, term, vote, and index and term of the snapshot.
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("raft");

/// Encoded entries by index.
const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("raft_entries");

/// Pieces of the snapshot by their first item: the item after the last one, 8 bytes little-endian,
/// then the piece.
const PIECES: TableDefinition<u64, &[u8]> = TableDefinition::new("raft_snapshot");

/// Remedy of a damaged file. A node with an empty file, or an old one, could vote twice.
const ALL_ANEW: &str = "leave the node stopped, or give the cluster another `seed` and start all nodes without directories";

/// A piece of a snapshot: its first item, the item after its last one, its bytes.
type Piece = (u64, u64, Vec<u8>);

/// Node that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOwner {
    /// Name of the cluster.
    pub cluster: u64,
    /// The node.
    pub node: NodeId,
}

/// One write of a node, as bytes.
#[derive(Clone, Debug)]
pub struct LogWrite {
    term: Term,
    vote: Option<NodeId>,
    /// Index and term of a new snapshot, and its pieces.
    snapshot: Option<(LogIndex, Term, Vec<Piece>)>,
    from: LogIndex,
    entries: Vec<Vec<u8>>,
}

impl LogWrite {
    /// Copies what a node wants to keep.
    pub fn of(write: &Persist<'_>) -> LogWrite {
        let snapshot = write.snapshot.map(|snapshot| {
            let mut pieces = Vec::new();
            let mut first = 0;
            while first < snapshot.items() {
                let mut bytes = Vec::new();
                let next = snapshot.write_piece(first, &mut bytes);
                // Consecutive pieces without a used item are one.
                match pieces.last_mut() {
                    Some((_, end, _)) if bytes.is_empty() => *end = next,
                    _ => pieces.push((first, next, bytes)),
                }
                first = next;
            }
            (snapshot.index(), snapshot.term(), pieces)
        });
        let entries = write.entries().map(|entry| {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            bytes
        });
        LogWrite {
            term: write.term,
            vote: write.vote,
            snapshot,
            from: write.from,
            entries: entries.collect(),
        }
    }
}

/// File of a node. A write is complete or has no effect, and survives a power failure when it is
/// complete.
#[derive(Debug)]
pub struct RaftLog {
    medium: Box<dyn Medium>,
    /// `None` after an error, until the file is opened again.
    database: Option<Database>,
}

impl RaftLog {
    /// Opens a node's file. Returns what it keeps, or `None` if the node was never started.
    ///
    /// # Errors
    /// The file is damaged, has another version, is of another node, or cannot be used.
    pub fn open(
        medium: Box<dyn Medium>,
        owner: LogOwner,
        capacity: Capacity,
    ) -> Result<(RaftLog, Option<Saved>), OpenError> {
        let database =
            open_database(&*medium, true, ALL_ANEW).map_err(|error| OpenError(error.message))?;
        let name = medium.name();
        let failed = |error: redb::Error| OpenError(told(&name, error, ALL_ANEW).message);
        let saved = match version(&database).map_err(failed)? {
            None => {
                prepare(&database, owner).map_err(failed)?;
                None
            }
            Some(VERSION) => Some(read(&database, &name, owner, capacity)?),
            Some(other) => {
                return Err(OpenError(format!(
                    "{name} has the format {other}, and this Polyplane reads {VERSION}; start the Polyplane that wrote it"
                )));
            }
        };
        let database = Some(database);
        Ok((RaftLog { medium, database }, saved))
    }

    /// Writes, and waits until the disk has it.
    ///
    /// # Errors
    /// The disk is full or fails. There was no effect, and the write can be tried again.
    pub fn write(&mut self, write: &LogWrite) -> Result<(), StorageError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open_database(&*self.medium, false, ALL_ANEW)?,
        };
        match put(&database, write) {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            // The state of the file is unknown to the database after an error. It is opened again.
            Err(error) => Err(told(&self.medium.name(), error, ALL_ANEW)),
        }
    }
}

/// Returns the version of the file, or `None` if the file is new. Nothing is written.
fn version(database: &Database) -> Result<Option<u64>, redb::Error> {
    let numbers = match database.begin_read()?.open_table(NUMBERS) {
        Ok(numbers) => numbers,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // The tables and the version are written together.
    Ok(Some(
        numbers.get("version")?.map_or(0, |version| version.value()),
    ))
}

/// Writes the version and the owner into a new file.
fn prepare(database: &Database, owner: LogOwner) -> Result<(), redb::Error> {
    let change = database.begin_write()?;
    {
        let mut numbers = change.open_table(NUMBERS)?;
        change.open_table(ENTRIES)?;
        change.open_table(PIECES)?;
        numbers.insert("version", VERSION)?;
        numbers.insert("cluster", owner.cluster)?;
        numbers.insert("node", owner.node.0)?;
    }
    Ok(change.commit()?)
}

fn put(database: &Database, write: &LogWrite) -> Result<(), redb::Error> {
    let change = database.begin_write()?;
    {
        let mut numbers = change.open_table(NUMBERS)?;
        let mut entries = change.open_table(ENTRIES)?;
        if let Some((index, term, parts)) = &write.snapshot {
            let mut pieces = change.open_table(PIECES)?;
            pieces.retain(|_, _| false)?;
            for (first, next, bytes) in parts {
                let piece = [&next.to_le_bytes()[..], bytes].concat();
                pieces.insert(first, &piece[..])?;
            }
            numbers.insert("snapshot_index", index.0)?;
            numbers.insert("snapshot_term", term.0)?;
            entries.retain_in(..=index.0, |_, _| false)?;
        }
        numbers.insert("term", write.term.0)?;
        match write.vote {
            Some(vote) => numbers.insert("vote", vote.0)?,
            None => numbers.remove("vote")?,
        };
        entries.retain_in(write.from.0.., |_, _| false)?;
        for (index, entry) in (write.from.0..).zip(&write.entries) {
            entries.insert(index, &entry[..])?;
        }
    }
    Ok(change.commit()?)
}

fn read(
    database: &Database,
    name: &str,
    owner: LogOwner,
    capacity: Capacity,
) -> Result<Saved, OpenError> {
    let failed = |error: redb::Error| OpenError(told(name, error, ALL_ANEW).message);
    let kept = read_all(database).map_err(failed)?;
    let of = LogOwner {
        cluster: kept.number("cluster"),
        node: NodeId(kept.number("node")),
    };
    if of != owner {
        return Err(OpenError(format!(
            "{name} is of node {} of cluster {:#x}, and not of node {} of cluster {:#x}; give each node a directory of its own, and keep the seed of the file",
            of.node, of.cluster, owner.node, owner.cluster
        )));
    }
    let snapshot = match kept.number("snapshot_index") {
        0 => None,
        index => {
            let place = (LogIndex(index), Term(kept.number("snapshot_term")));
            let pieces = kept.pieces.iter();
            let pieces = pieces.map(|(first, next, bytes)| (*first, *next, &bytes[..]));
            let snapshot = Snapshot::from_pieces(capacity, place, pieces);
            Some(snapshot.ok_or_else(|| damaged(name, &"its snapshot cannot be read", ALL_ANEW))?)
        }
    };
    let base = snapshot.as_ref().map_or(0, |snapshot| snapshot.index().0);
    let first = kept.entries.first().map_or(0, |(index, _)| *index);
    let mut next = first.min(base.saturating_add(1));
    let mut entries = Vec::with_capacity(kept.entries.len());
    for (index, bytes) in &kept.entries {
        if *index != next {
            let before = index.saturating_sub(1);
            let missing = format!("entries {next} to {before} are missing");
            return Err(damaged(name, &missing, ALL_ANEW));
        }
        let entry = Entry::read(bytes);
        let unreadable = || damaged(name, &format!("entry {index} cannot be read"), ALL_ANEW);
        entries.push(entry.ok_or_else(unreadable)?);
        next = next.wrapping_add(1);
    }
    let vote = kept.number("vote");
    Ok(Saved {
        term: Term(kept.number("term")),
        vote: (vote != 0).then_some(NodeId(vote)),
        snapshot,
        first: LogIndex(first),
        entries,
    })
}

/// Content of a file.
struct Kept {
    numbers: Vec<(String, u64)>,
    entries: Vec<(u64, Vec<u8>)>,
    pieces: Vec<Piece>,
}

impl Kept {
    /// Returns a number, or 0 if it is not there.
    fn number(&self, name: &str) -> u64 {
        let found = self.numbers.iter().find(|(key, _)| key == name);
        found.map_or(0, |(_, number)| *number)
    }
}

fn read_all(database: &Database) -> Result<Kept, redb::Error> {
    let view = database.begin_read()?;
    let (mut numbers, mut entries, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for pair in view.open_table(NUMBERS)?.iter()? {
        let (key, value) = pair?;
        numbers.push((key.value().to_owned(), value.value()));
    }
    for pair in view.open_table(ENTRIES)?.iter()? {
        let (key, value) = pair?;
        entries.push((key.value(), value.value().to_vec()));
    }
    for pair in view.open_table(PIECES)?.iter()? {
        let (key, value) = pair?;
        let (next, bytes) = value.value().split_first_chunk().unwrap_or((&[0; 8], &[]));
        pieces.push((key.value(), u64::from_le_bytes(*next), bytes.to_vec()));
    }
    Ok(Kept {
        numbers,
        entries,
        pieces,
    })
}

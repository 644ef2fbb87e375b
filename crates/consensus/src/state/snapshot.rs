//! Snapshots of the state: taken a few cells at a time while the state changes, sent in pieces.
//!
//! A snapshot is a sequence of items: the head, the sessions, the cells of the table. A piece has
//! the used ones among consecutive items, each with its number.

use super::Capacity;
use super::sessions::{MAX_SESSIONS, Session};
use super::table::{BeforeChange, Cell, Table};
use crate::ids::{LogIndex, Term};
use crate::members::Membership;
use crate::message::MAX_PIECE;
use crate::wire::{Reader, Write};

/// Items that one piece covers at most, used or not: bounds the work for a piece.
const MAX_PIECE_ITEMS: u64 = 4096;
/// Bytes of an item at most, with its number.
const MAX_ITEM: usize = 8 + Cell::MAX_BYTES;

/// State as of one index of the log.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) index: LogIndex,
    pub(crate) term: Term,
    pub(crate) time: u64,
    pub(crate) members: Membership,
    pub(crate) sessions: Box<[Session]>,
    pub(crate) cells: Box<[Cell]>,
}

impl Snapshot {
    pub(crate) fn new(sessions: usize, cells: usize) -> Snapshot {
        Snapshot {
            index: LogIndex(0),
            term: Term(0),
            time: 0,
            members: Membership::default(),
            sessions: vec![Session::default(); sessions].into(),
            cells: vec![Cell::default(); cells].into(),
        }
    }

    /// Returns the index of the last entry that the snapshot includes.
    pub const fn index(&self) -> LogIndex {
        self.index
    }

    /// Returns the term of that entry.
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Returns the snapshot that these pieces are, each with its first item and the item after its
    /// last one. `None` if they are not those of a snapshot of a state with this room.
    pub fn from_pieces<'p>(
        capacity: Capacity,
        (index, term): (LogIndex, Term),
        pieces: impl Iterator<Item = (u64, u64, &'p [u8])>,
    ) -> Option<Snapshot> {
        let sessions = capacity.sessions.min(MAX_SESSIONS);
        let mut snapshot = Snapshot::new(sessions, Table::cells_for(capacity.keys));
        (snapshot.index, snapshot.term) = (index, term);
        let mut end = 0;
        for (first, next, bytes) in pieces {
            if first != end || !snapshot.read_piece(first, next, bytes) {
                return None;
            }
            end = next;
        }
        (end == snapshot.items()).then_some(snapshot)
    }

    /// Returns the number of items.
    pub fn items(&self) -> u64 {
        1 + self.sessions.len() as u64 + self.cells.len() as u64
    }

    /// Appends the piece that begins at item `first`: at most 1,958 bytes. Returns the item after
    /// the last one of the piece; the snapshot ends at [`Snapshot::items`].
    pub fn write_piece(&self, first: u64, out: &mut Vec<u8>) -> u64 {
        let end = self.items().min(first.saturating_add(MAX_PIECE_ITEMS));
        let begin = out.len();
        for item in first..end {
            if out.len() - begin + MAX_ITEM > MAX_PIECE {
                return item;
            }
            self.write_item(item, out);
        }
        end
    }

    fn write_item(&self, item: u64, out: &mut Vec<u8>) {
        let sessions = self.sessions.len() as u64;
        if item == 0 {
            out.put_u64(item);
            out.put_u64(self.time);
            out.put_u64(sessions);
            self.members.encode(out);
        } else if item <= sessions {
            let session = &self.sessions[(item - 1) as usize];
            if !session.is_free() {
                out.put_u64(item);
                session.encode(out);
            }
        } else {
            let cell = &self.cells[(item - 1 - sessions) as usize];
            if !cell.is_free() {
                out.put_u64(item);
                cell.encode(out);
            }
        }
    }

    /// Begins a snapshot that comes in pieces.
    pub(crate) fn begin(&mut self, index: LogIndex, term: Term) {
        (self.index, self.term) = (index, term);
        self.sessions.fill(Session::default());
        self.cells.fill(Cell::default());
    }

    /// Takes the items of a piece. Returns false if the bytes are not items of a snapshot of this
    /// size.
    pub(crate) fn read_piece(&mut self, first: u64, next: u64, bytes: &[u8]) -> bool {
        let mut from = Reader::new(bytes);
        while !from.is_empty() {
            let item = from.u64().filter(|item| (first..next).contains(item));
            if item
                .and_then(|item| self.read_item(item, &mut from))
                .is_none()
            {
                return false;
            }
        }
        true
    }

    fn read_item(&mut self, item: u64, from: &mut Reader<'_>) -> Option<()> {
        let sessions = self.sessions.len() as u64;
        if item == 0 {
            self.time = from.u64()?;
            if from.u64()? != sessions {
                return None;
            }
            self.members = Membership::decode(from)?;
        } else if item <= sessions {
            self.sessions[(item - 1) as usize] = Session::decode(from)?;
        } else {
            *self.cells.get_mut((item - 1 - sessions) as usize)? = Cell::decode(from)?;
        }
        Some(())
    }
}

/// Snapshot that is taken while the table changes. A cell that changes before it was copied is
/// copied first.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    pub(crate) into: Snapshot,
    is_copied: Box<[bool]>,
    /// Cells before this one are copied; `None` if no snapshot is taken.
    cursor: Option<usize>,
    skips_changes: bool,
}

impl Taking {
    pub(crate) fn new(into: Snapshot, skips_changes: bool) -> Taking {
        Taking {
            is_copied: vec![false; into.cells.len()].into(),
            into,
            cursor: None,
            skips_changes,
        }
    }

    pub(crate) const fn is_active(&self) -> bool {
        self.cursor.is_some()
    }

    /// Begins. The head and the sessions are the caller's part.
    pub(crate) fn begin(&mut self) {
        self.is_copied.fill(false);
        self.cursor = Some(0);
    }

    pub(crate) const fn stop(&mut self) {
        self.cursor = None;
    }

    /// Copies the next `count` cells. Returns true if the snapshot is complete with them.
    pub(crate) fn advance(&mut self, cells: &[Cell], count: usize) -> bool {
        let Some(cursor) = self.cursor else {
            return false;
        };
        let end = cells.len().min(cursor.saturating_add(count));
        let part = cursor..end;
        let copies = self.into.cells[part.clone()].iter_mut();
        for ((copy, cell), is_copied) in copies.zip(&cells[part.clone()]).zip(&self.is_copied[part])
        {
            if !is_copied {
                *copy = *cell;
            }
        }
        self.cursor = (end < cells.len()).then_some(end);
        self.cursor.is_none()
    }
}

impl BeforeChange for Taking {
    fn before_change(&mut self, place: usize, cell: &Cell) {
        let Some(cursor) = self.cursor else {
            return;
        };
        if place >= cursor && !self.is_copied[place] && !self.skips_changes {
            self.into.cells[place] = *cell;
            self.is_copied[place] = true;
        }
    }
}

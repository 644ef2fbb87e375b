//! Sessions of clients: the last request of each and its answer, so a repeat is answered and not
//! applied.

use crate::entry::Value;
use crate::ids::{ClientId, LogIndex};
use crate::wire::{Reader, Write};

/// Sessions at most: the slot of a session is in the low bits of its name.
pub const MAX_SESSIONS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;

/// Answer to a request that was applied, equal on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It was done.
    #[default]
    Done,
    /// The session is open under this name.
    Opened(ClientId),
    /// The value of the key.
    Value(Option<Value>),
    /// The key had the expected value and was set.
    Swapped,
    /// The key had this value and not the expected one: it was not set.
    Differs(Option<Value>),
    /// The table is full: nothing was changed. Remove keys, or configure more.
    Full,
    /// All sessions are in use: none was opened. Try again later, or configure more.
    SessionsFull,
    /// The session does not exist or expired: open a session. An earlier request of unknown outcome
    /// may have been applied.
    NoSession,
    /// The session had a later request: this one is not applied now, but may have been.
    Stale,
}

impl Answer {
    /// Bytes of an encoded answer at most.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Done => out.put_u8(0),
            Answer::Opened(client) => {
                out.put_u8(1);
                out.put_u64(client.0);
            }
            Answer::Value(None) => out.put_u8(2),
            Answer::Value(Some(value)) => {
                out.put_u8(3);
                value.encode(out);
            }
            Answer::Swapped => out.put_u8(4),
            Answer::Differs(None) => out.put_u8(5),
            Answer::Differs(Some(value)) => {
                out.put_u8(6);
                value.encode(out);
            }
            Answer::Full => out.put_u8(7),
            Answer::SessionsFull => out.put_u8(8),
            Answer::NoSession => out.put_u8(9),
            Answer::Stale => out.put_u8(10),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Answer> {
        Some(match from.u8()? {
            0 => Answer::Done,
            1 => Answer::Opened(ClientId(from.u64()?)),
            2 => Answer::Value(None),
            3 => Answer::Value(Some(Value::decode(from)?)),
            4 => Answer::Swapped,
            5 => Answer::Differs(None),
            6 => Answer::Differs(Some(Value::decode(from)?)),
            7 => Answer::Full,
            8 => Answer::SessionsFull,
            9 => Answer::NoSession,
            10 => Answer::Stale,
            _ => return None,
        })
    }
}

/// Session of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// Name; 0 is no session.
    pub(crate) client: ClientId,
    /// Number of the last request.
    pub(crate) sequence: u64,
    /// Log time of the last request.
    pub(crate) used: u64,
    /// Answer to the last request.
    pub(crate) answer: Answer,
}

impl Session {
    pub(crate) fn is_free(&self) -> bool {
        self.client == ClientId(0)
    }

    fn is_expired(&self, time: u64, life: u64) -> bool {
        self.used.saturating_add(life) < time
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.client.0);
        out.put_u64(self.sequence);
        out.put_u64(self.used);
        self.answer.encode(out);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Session> {
        Some(Session {
            client: ClientId(from.u64()?),
            sequence: from.u64()?,
            used: from.u64()?,
            answer: Answer::decode(from)?,
        })
    }
}

/// Result of a look at the session of a request.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// The request is new: apply it and keep its answer here.
    New(&'a mut Session),
    /// The request has this answer.
    Answer(Answer),
}

/// Opens a session by the entry at `index`.
pub(crate) fn open(sessions: &mut [Session], index: LogIndex, time: u64, life: u64) -> Answer {
    let is_free = |session: &Session| session.is_free() || session.is_expired(time, life);
    let Some(slot) = sessions.iter().position(is_free) else {
        return Answer::SessionsFull;
    };
    let client = ClientId(index.0 << SLOT_BITS | slot as u64);
    sessions[slot] = Session {
        client,
        used: time,
        ..Session::default()
    };
    Answer::Opened(client)
}

/// Finds the session of a request.
pub(crate) fn find(
    sessions: &mut [Session],
    client: ClientId,
    sequence: u64,
    time: u64,
    life: u64,
) -> Found<'_> {
    let slot = client.0 as usize & (MAX_SESSIONS - 1);
    let session = sessions
        .get_mut(slot)
        .filter(|session| session.client == client);
    let Some(session) = session.filter(|session| !session.is_free()) else {
        return Found::Answer(Answer::NoSession);
    };
    if session.is_expired(time, life) {
        *session = Session::default();
        return Found::Answer(Answer::NoSession);
    }
    session.used = time;
    if sequence < session.sequence {
        Found::Answer(Answer::Stale)
    } else if sequence == session.sequence {
        Found::Answer(session.answer)
    } else {
        Found::New(session)
    }
}

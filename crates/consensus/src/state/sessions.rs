//! Sessions of clients: the last request of each and its answer, so a repeat is answered and not
//! applied.

use crate::entry::StoredValue;
use crate::ids::{ClientId, LogIndex};
use crate::wire::{Reader, Write};

/// Sessions at most: the slot of a session is in the low bits of its name.
pub const MAX_SESSIONS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 16;

/// Answer to a request that was applied, equal on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestAnswer {
    /// It was done.
    #[default]
    Done,
    /// The session is open under this name.
    Opened(ClientId),
    /// The value of the key.
    Value(Option<StoredValue>),
    /// The key had the expected value and was set.
    Swapped,
    /// The key had this value and not the expected one: it was not set.
    Differs(Option<StoredValue>),
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

impl RequestAnswer {
    /// Appends the encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            RequestAnswer::Done => out.put_u8(0),
            RequestAnswer::Opened(client) => {
                out.put_u8(1);
                out.put_u64(client.0);
            }
            RequestAnswer::Value(None) => out.put_u8(2),
            RequestAnswer::Value(Some(value)) => {
                out.put_u8(3);
                value.encode(out);
            }
            RequestAnswer::Swapped => out.put_u8(4),
            RequestAnswer::Differs(None) => out.put_u8(5),
            RequestAnswer::Differs(Some(value)) => {
                out.put_u8(6);
                value.encode(out);
            }
            RequestAnswer::Full => out.put_u8(7),
            RequestAnswer::SessionsFull => out.put_u8(8),
            RequestAnswer::NoSession => out.put_u8(9),
            RequestAnswer::Stale => out.put_u8(10),
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<RequestAnswer> {
        Some(match from.u8()? {
            0 => RequestAnswer::Done,
            1 => RequestAnswer::Opened(ClientId(from.u64()?)),
            2 => RequestAnswer::Value(None),
            3 => RequestAnswer::Value(Some(StoredValue::decode(from)?)),
            4 => RequestAnswer::Swapped,
            5 => RequestAnswer::Differs(None),
            6 => RequestAnswer::Differs(Some(StoredValue::decode(from)?)),
            7 => RequestAnswer::Full,
            8 => RequestAnswer::SessionsFull,
            9 => RequestAnswer::NoSession,
            10 => RequestAnswer::Stale,
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
    pub(crate) answer: RequestAnswer,
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
            answer: RequestAnswer::decode(from)?,
        })
    }
}

/// Result of a look at the session of a request.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// The request is new: apply it and keep its answer here.
    New(&'a mut Session),
    /// The request has this answer.
    Answer(RequestAnswer),
}

/// Opens a session by the entry at `index`.
pub(crate) fn open(
    sessions: &mut [Session],
    index: LogIndex,
    time: u64,
    life: u64,
) -> RequestAnswer {
    let is_free = |session: &Session| session.is_free() || session.is_expired(time, life);
    let Some(slot) = sessions.iter().position(is_free) else {
        return RequestAnswer::SessionsFull;
    };
    let client = ClientId(index.0 << SLOT_BITS | slot as u64);
    sessions[slot] = Session {
        client,
        used: time,
        ..Session::default()
    };
    RequestAnswer::Opened(client)
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
        return Found::Answer(RequestAnswer::NoSession);
    };
    if session.is_expired(time, life) {
        *session = Session::default();
        return Found::Answer(RequestAnswer::NoSession);
    }
    session.used = time;
    if sequence < session.sequence {
        Found::Answer(RequestAnswer::Stale)
    } else if sequence == session.sequence {
        Found::Answer(session.answer)
    } else {
        Found::New(session)
    }
}

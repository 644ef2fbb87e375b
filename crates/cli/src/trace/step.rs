//! The steps of a traced packet with the program's names: what text is written from, and JSON as it stands.
//!
//! The keys are stable. Values are `{value, width, text}`, bytes are hexadecimal digits, sources are places in files.

use serde::Serialize;

use super::value::Reading;

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Step {
    /// The device received a packet.
    Received(Bytes),
    /// The architecture set fields that the next block is told.
    Given { fields: Vec<Named> },
    /// A block starts.
    Block {
        /// What it is in its architecture.
        role: &'static str,
        /// Its parser or control.
        name: String,
    },
    /// A parser entered a state.
    State {
        parser: String,
        state: String,
        source: Option<Source>,
    },
    /// A header was extracted.
    Extracted {
        header: String,
        offset_bits: usize,
        bits: usize,
        fields: Vec<Named>,
    },
    /// The parser skipped bits.
    Advanced { bits: u64 },
    /// A select compared its keys.
    Select {
        keys: Vec<Named>,
        /// The case that held, from 0; none: `error.NoMatch`.
        case: Option<usize>,
        /// What that case wants.
        keyset: Option<String>,
        /// Where it goes.
        target: String,
    },
    /// The parser failed or rejected the packet.
    Rejected { error: String },
    /// The parser accepted the packet.
    Accepted { consumed_bits: usize },
    /// A stage starts.
    Stage {
        control: String,
        stage: String,
        kind: &'static str,
        source: Option<Source>,
    },
    /// A condition stage decided.
    Condition { condition: String, holds: bool },
    /// A table was looked up.
    Lookup {
        table: String,
        keys: Vec<Key>,
        hit: bool,
        entry: Option<EntryTold>,
        member: Option<u32>,
        group: Option<u32>,
    },
    /// An action starts.
    Action {
        action: String,
        params: Vec<Named>,
        source: Option<Source>,
    },
    /// A field was written.
    Written {
        field: String,
        old: Reading,
        new: Reading,
        source: Option<Source>,
    },
    /// An extern function or method was called.
    Call {
        function: &'static str,
        instance: Option<String>,
        /// What the program fixes: algorithms, field lists, texts.
        constants: Vec<Constant>,
        arguments: Vec<Named>,
        results: Vec<Named>,
        source: Option<Source>,
    },
    /// A round of a loop starts.
    Round {
        number: u64,
        /// Which loop.
        #[serde(skip)]
        of: u32,
        source: Option<Source>,
    },
    /// A loop was left by its own condition or a `break`.
    LoopLeft {
        #[serde(skip)]
        of: u32,
    },
    /// Rounds of a loop that are left out.
    Folded {
        /// How many.
        rounds: usize,
        /// How many steps they have.
        steps: usize,
    },
    /// A deparser emitted a header.
    Emitted { header: String, bits: usize },
    /// A deparser passed over an invalid header.
    NotEmitted { header: String },
    /// The program left the control early.
    Exit,
    /// The deparsed packet.
    Deparsed(Bytes),
    /// The program wrote a message.
    Message { text: String },
    /// The program sent a digest.
    Digest { digest: String, fields: Vec<Named> },
    /// A copy was made.
    Copied {
        why: &'static str,
        port: u32,
        instance: u32,
    },
    /// Copies were asked for, and are not made.
    CopiesRefused {
        copies: u32,
        reason: &'static str,
        /// The reason in words.
        text: &'static str,
    },
    /// A clone was asked for with a session that is not configured.
    NoCloneSession { session: u32 },
    /// The packet waits in a queue.
    Queued { port: u32, priority: u8, depth: u32 },
    /// The packet leaves its queue; what follows is about it.
    Dequeued { port: u32 },
    /// The packet starts over.
    Again { why: &'static str },
    /// The packet was sent.
    Sent(Bytes),
    /// The packet was dropped.
    Dropped {
        reason: &'static str,
        /// The reason in words.
        text: String,
    },
}

/// A packet's bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bytes {
    /// The port that it came or goes by, where it is at one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u32>,
    /// How many.
    pub(crate) length: usize,
    /// The bytes.
    #[serde(serialize_with = "as_hex")]
    pub(crate) bytes: Vec<u8>,
}

impl Bytes {
    pub(crate) fn new(port: Option<u32>, bytes: &[u8]) -> Bytes {
        Bytes {
            port,
            length: bytes.len(),
            bytes: bytes.to_vec(),
        }
    }
}

fn as_hex<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&super::dump::hex(bytes))
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) value: Reading,
}

/// What a call fixes when the program is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// A key of a lookup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) match_kind: &'static str,
    #[serde(flatten)]
    pub(crate) value: Reading,
}

/// The entry that was hit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EntryTold {
    pub(crate) id: u64,
    /// As entries files write it; `None` for an entry that is no longer there to be read.
    pub(crate) text: Option<String>,
    pub(crate) priority: Option<i32>,
    /// Whether the program itself declares it, for good.
    pub(crate) is_const: bool,
}

/// A place in the program's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// The line's text without indentation, where the file can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

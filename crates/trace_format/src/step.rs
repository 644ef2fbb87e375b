//! Steps of a traced packet, with the program's names. Text is written from them; JSON is their
//! serialized form.
//!
//! The keys are stable. Values are `{value, width, text}`, bytes are hexadecimal digits, sources
//! are positions in files.

use serde::Serialize;

use super::value::Reading;

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Step {
    /// The device received a packet.
    Received(Bytes),
    /// The architecture set input fields of the next block.
    Given { fields: Vec<Named> },
    /// A block starts.
    Block {
        /// Role in the architecture.
        role: &'static str,
        /// Name of the parser or control.
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
        /// Index of the matching case, from 0. `None`: `error.NoMatch`.
        case: Option<usize>,
        /// Keyset of the case.
        keyset: Option<String>,
        /// State that the case leads to.
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
    /// A condition stage was evaluated.
    Condition { condition: String, holds: bool },
    /// A table was looked up.
    Lookup {
        table: String,
        keys: Vec<Key>,
        hit: bool,
        entry: Option<MatchedEntry>,
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
        /// Values fixed in the program: algorithms, field lists, texts.
        constants: Vec<Constant>,
        arguments: Vec<Named>,
        results: Vec<Named>,
        source: Option<Source>,
    },
    /// A round of a loop starts.
    Round {
        number: u64,
        /// Number of the loop.
        #[serde(skip)]
        of: u32,
        source: Option<Source>,
    },
    /// A loop was left by its own condition or a `break`.
    LoopLeft {
        #[serde(skip)]
        of: u32,
    },
    /// Omitted rounds of a loop.
    Folded {
        /// Number of rounds.
        rounds: usize,
        /// Number of their steps.
        steps: usize,
    },
    /// A deparser emitted a header.
    Emitted { header: String, bits: usize },
    /// A deparser skipped an invalid header.
    NotEmitted { header: String },
    /// The program left the control early.
    Exit,
    /// The deparsed packet.
    Deparsed(Bytes),
    /// The program wrote a message.
    Message { text: String },
    /// A handler inserted, changed or deleted an entry.
    Learned {
        change: &'static str,
        /// The entry, in the words of an entries file.
        entry: String,
    },
    /// The packet of a split program goes to another plane.
    Plane {
        /// `switch` or `server`.
        plane: &'static str,
        text: String,
    },
    /// The program sent a digest.
    Digest { digest: String, fields: Vec<Named> },
    /// A copy was made.
    Copied {
        why: &'static str,
        port: u32,
        instance: u32,
    },
    /// Requested copies that are not made.
    CopiesRefused {
        copies: u32,
        reason: &'static str,
        /// The reason in words.
        text: String,
    },
    /// A clone was requested with a session that is not configured.
    NoCloneSession { session: u32 },
    /// The packet was put into a queue.
    Queued { port: u32, priority: u8, depth: u32 },
    /// The packet left its queue. The following steps belong to it.
    Dequeued { port: u32 },
    /// The packet is resubmitted or recirculated.
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
    /// The ingress or egress port, where the packet is at one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u32>,
    /// Number of bytes.
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

/// A value that is fixed in the program.
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
pub(crate) struct MatchedEntry {
    pub(crate) id: u64,
    /// The entry in the syntax of entries files. `None` if the entry does not exist any more.
    pub(crate) text: Option<String>,
    pub(crate) priority: Option<i32>,
    /// True for a constant entry of the program.
    pub(crate) is_const: bool,
}

/// A position in the program's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// The line's text without indentation, if the file can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

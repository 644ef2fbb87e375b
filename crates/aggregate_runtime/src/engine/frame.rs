//! Frames between an engine and its agent: a length, a kind, a body.
//!
//! docs/AGGREGATE.md has the table of all frames. Nothing that arrives panics: lengths are checked
//! before memory is taken, and a body that is wrong is a [`FrameError`].

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use aggregate::{
    DEFAULT_BLOCKS, DEFAULT_SLOTS, Input, KeyClass, MAX_BLOCKS, MAX_MAPPERS, MAX_SLOTS, MAX_TIERS,
    Operator, Pair, Shape, ValueClass,
};
use serde::{Deserialize, Serialize};

/// Version of the frames.
pub(crate) const ENGINE_PROTOCOL: u16 = 1;

/// Most bytes of a frame after its length.
pub(crate) const MAX_FRAME: usize = (1 << 30) + 64;

/// Most bytes of a frame with JSON.
pub(crate) const MAX_JSON: usize = 1 << 20;

/// Bytes of a frame of pairs, about.
const PAIRS_BYTES: usize = 1 << 16;

/// Longest name of a group, a part or a reduction.
const MAX_NAME: usize = 1024;

/// Longest time that a rank may wait for others.
const MAX_SECONDS: u64 = 86_400;

/// Time that a rank waits for others, by default.
const DEFAULT_SECONDS: u64 = 300;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Hello,
    Error,
    Join,
    Joined,
    Reduce,
    Reduced,
    Leave,
    Store,
    Stored,
    Collect,
    Pairs,
    Collected,
    Forget,
}

impl FrameKind {
    /// All kinds, in the order of their codes.
    const ALL: [FrameKind; 13] = [
        FrameKind::Hello,
        FrameKind::Error,
        FrameKind::Join,
        FrameKind::Joined,
        FrameKind::Reduce,
        FrameKind::Reduced,
        FrameKind::Leave,
        FrameKind::Store,
        FrameKind::Stored,
        FrameKind::Collect,
        FrameKind::Pairs,
        FrameKind::Collected,
        FrameKind::Forget,
    ];

    fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<FrameKind> {
        FrameKind::ALL.get(usize::from(code)).copied()
    }

    /// Returns the most bytes of its body.
    fn limit(self) -> usize {
        match self {
            FrameKind::Reduce | FrameKind::Reduced | FrameKind::Store | FrameKind::Pairs => {
                MAX_FRAME - 1
            }
            _ => MAX_JSON,
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameKind::Hello => "HELLO",
            FrameKind::Error => "ERROR",
            FrameKind::Join => "JOIN",
            FrameKind::Joined => "JOINED",
            FrameKind::Reduce => "REDUCE",
            FrameKind::Reduced => "REDUCED",
            FrameKind::Leave => "LEAVE",
            FrameKind::Store => "STORE",
            FrameKind::Stored => "STORED",
            FrameKind::Collect => "COLLECT",
            FrameKind::Pairs => "PAIRS",
            FrameKind::Collected => "COLLECTED",
            FrameKind::Forget => "FORGET",
        })
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) body: Vec<u8>,
}

/// Error of what an engine sends.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The connection is broken.
    Io(io::Error),
    /// The connection ends inside a frame.
    Cut,
    /// A frame without a kind.
    Empty,
    /// There is no such kind.
    UnknownKind(u8),
    /// The frame is too long.
    TooLong {
        kind: FrameKind,
        bytes: usize,
        most: usize,
    },
    /// The body is wrong, for this reason.
    Body(FrameKind, String),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Io(error) => write!(f, "{error}"),
            FrameError::Cut => f.write_str("the connection ends inside a frame"),
            FrameError::Empty => f.write_str("a frame has no kind; send its length, then its kind"),
            FrameError::UnknownKind(code) => write!(
                f,
                "there is no frame of kind {code}; install plug-ins of this version of polyplane"
            ),
            FrameError::TooLong { kind, bytes, most } => write!(
                f,
                "a frame {kind} of {bytes} bytes is too long; send at most {most}"
            ),
            FrameError::Body(kind, why) => write!(f, "{kind}: {why}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> FrameError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => FrameError::Cut,
            _ => FrameError::Io(error),
        }
    }
}

/// Reads a frame. `None`: the other side has ended the connection between two frames.
///
/// # Errors
/// The frame is cut, too long or of no kind, or the connection is broken.
pub(crate) fn read_frame(stream: &mut impl Read) -> Result<Option<Frame>, FrameError> {
    let mut head = [0; 5];
    let mut filled = 0;
    while filled < head.len() {
        match stream.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Cut),
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && filled == 0 => {
                return Ok(None);
            }
            Err(error) => return Err(FrameError::Io(error)),
        }
        // A frame without a kind is found before more is waited for.
        if filled >= 4 && head[..4] == [0; 4] {
            return Err(FrameError::Empty);
        }
    }
    let [a, b, c, d, code] = head;
    let len = u32::from_be_bytes([a, b, c, d]) as usize - 1;
    let kind = FrameKind::from_code(code).ok_or(FrameError::UnknownKind(code))?;
    if len > kind.limit() {
        return Err(FrameError::TooLong {
            kind,
            bytes: len,
            most: kind.limit(),
        });
    }
    // Memory is taken as bytes arrive.
    let mut body = Vec::new();
    let read = stream.take(len as u64).read_to_end(&mut body)?;
    match read == len {
        true => Ok(Some(Frame { kind, body })),
        false => Err(FrameError::Cut),
    }
}

/// Writes a frame.
///
/// # Errors
/// The other side has gone, or takes nothing.
pub(crate) fn write_frame(stream: &mut impl Write, kind: FrameKind, body: &[u8]) -> io::Result<()> {
    let mut head = [0; 5];
    head[..4].copy_from_slice(&(body.len() as u32 + 1).to_be_bytes());
    head[4] = kind.code();
    stream.write_all(&head)?;
    stream.write_all(body)?;
    stream.flush()
}

/// First frame of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineHello {
    pub(crate) protocol: u16,
    /// Version of the agent's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) polyplane: Option<String>,
    /// The address of the agent's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<Ipv4Addr>,
    /// Name and version of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<String>,
}

/// Request of a rank to join a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// Name of the group.
    pub group: String,
    /// The rank, below the size.
    pub rank: u16,
    /// Number of ranks.
    pub size: u16,
    /// Blocks of an epoch in each switch.
    #[serde(default = "default_blocks")]
    pub slots: u32,
    /// Maximum number of switches that reduce on a path.
    #[serde(default = "default_tiers")]
    pub tiers: u16,
    /// Seconds that a rank waits for others.
    #[serde(default = "default_seconds")]
    pub seconds: u64,
}

fn default_blocks() -> u32 {
    DEFAULT_BLOCKS
}

fn default_tiers() -> u16 {
    1
}

fn default_seconds() -> u64 {
    DEFAULT_SECONDS
}

/// Body of a COLLECT.
#[derive(Deserialize)]
struct CollectBody {
    name: String,
    operator: String,
    #[serde(default = "default_key_bytes")]
    keys: usize,
    #[serde(default = "default_values")]
    values: String,
    #[serde(default = "default_slots")]
    slots: u32,
    #[serde(default = "default_tiers")]
    tiers: u16,
    mappers: Vec<StoredPart>,
}

fn default_key_bytes() -> usize {
    KeyClass::B16.bytes()
}

fn default_values() -> String {
    ValueClass::I64.name().to_owned()
}

fn default_slots() -> u32 {
    DEFAULT_SLOTS
}

/// A stored part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPart {
    /// The address of its host.
    pub host: Ipv4Addr,
    /// Its name.
    pub part: String,
}

/// Request for the reduction of stored parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectRequest {
    /// Its name.
    pub name: String,
    /// Operator and classes.
    pub shape: Shape,
    /// Slots of an epoch in each switch.
    pub slots: u32,
    /// Maximum number of switches that reduce on a path.
    pub tiers: u16,
    /// The parts.
    pub mappers: Vec<StoredPart>,
}

/// Vector of a REDUCE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Submission {
    pub(crate) operator: Operator,
    pub(crate) input: Input,
}

impl Submission {
    /// Returns the number of bytes of its values.
    pub(crate) fn bytes(&self) -> usize {
        4 * match &self.input {
            Input::Pairs(_) => 0,
            Input::Integers(values) => values.len(),
            Input::Floats(values) => values.len(),
        }
    }
}

impl Frame {
    fn error(&self, why: impl Into<String>) -> FrameError {
        FrameError::Body(self.kind, why.into())
    }

    fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.body).map_err(|error| self.error(error.to_string()))
    }

    fn checked(&self, is_right: bool, why: &str) -> Result<(), FrameError> {
        match is_right {
            true => Ok(()),
            false => Err(self.error(why)),
        }
    }

    /// Reads the first frame of an engine.
    pub(crate) fn hello(&self) -> Result<EngineHello, FrameError> {
        let hello: EngineHello = self.json()?;
        let theirs = hello.protocol;
        self.checked(
            theirs == ENGINE_PROTOCOL,
            &format!(
                "the engine speaks version {theirs} of the frames, and this is polyplane {} with \
                 version {ENGINE_PROTOCOL}; install its plug-ins of this version",
                env!("CARGO_PKG_VERSION")
            ),
        )?;
        Ok(hello)
    }

    /// Reads a JOIN.
    pub(crate) fn join(&self) -> Result<JoinRequest, FrameError> {
        let join: JoinRequest = self.json()?;
        self.name(&join.group, "group")?;
        let (rank, size) = (join.rank, usize::from(join.size));
        let is_size = (1..=MAX_MAPPERS).contains(&size);
        self.checked(is_size, &format!("size {size}: write 1 to {MAX_MAPPERS}"))?;
        let is_rank = usize::from(rank) < size;
        self.checked(is_rank, &format!("rank {rank}: write 0 to {}", size - 1))?;
        self.memory(join.slots, join.tiers, MAX_BLOCKS)?;
        let seconds = join.seconds;
        self.checked(
            (1..=MAX_SECONDS).contains(&seconds),
            &format!("seconds {seconds}: write 1 to {MAX_SECONDS}"),
        )?;
        Ok(join)
    }

    /// Reads a COLLECT.
    pub(crate) fn collect(&self) -> Result<CollectRequest, FrameError> {
        let body: CollectBody = self.json()?;
        self.name(&body.name, "name")?;
        let operator = Operator::from_name(&body.operator).ok_or_else(|| {
            self.error(format!(
                "operator \"{}\": write add, max or min",
                body.operator
            ))
        })?;
        let keys = KeyClass::from_bytes(body.keys)
            .ok_or_else(|| self.error(format!("keys {}: write 8, 16, 32 or 64", body.keys)))?;
        let values = ValueClass::from_name(&body.values).ok_or_else(|| {
            self.error(format!(
                "values \"{}\": write i32, u32, i64 or u64",
                body.values
            ))
        })?;
        let shape = Shape {
            operator,
            keys,
            values,
        };
        self.checked(
            shape.is_possible(),
            "values f32 are for groups; write i32, u32, i64 or u64",
        )?;
        self.memory(body.slots, body.tiers, MAX_SLOTS)?;
        let count = body.mappers.len();
        self.checked(
            (1..=MAX_MAPPERS).contains(&count),
            &format!("{count} mappers: give 1 to {MAX_MAPPERS}"),
        )?;
        for mapper in &body.mappers {
            self.name(&mapper.part, "part")?;
        }
        Ok(CollectRequest {
            name: body.name,
            shape,
            slots: body.slots,
            tiers: body.tiers,
            mappers: body.mappers,
        })
    }

    fn name(&self, name: &str, what: &str) -> Result<(), FrameError> {
        self.checked(
            (1..=MAX_NAME).contains(&name.len()),
            &format!("{what}: give a name of 1 to {MAX_NAME} bytes"),
        )
    }

    fn memory(&self, slots: u32, tiers: u16, most: u32) -> Result<(), FrameError> {
        let is_slots = (1..=most).contains(&slots);
        self.checked(is_slots, &format!("slots {slots}: write 1 to {most}"))?;
        let is_tiers = tiers <= MAX_TIERS;
        self.checked(is_tiers, &format!("tiers {tiers}: write 0 to {MAX_TIERS}"))
    }

    /// Reads a REDUCE.
    pub(crate) fn reduce(&self) -> Result<Submission, FrameError> {
        let Some((head, values)) = self.body.split_at_checked(4) else {
            return Err(self.error("it has no operation"));
        };
        self.checked(head[1..] == [0; 3], "bytes 1 to 3 are not 0")?;
        let (values, rest) = values.as_chunks::<4>();
        self.checked(rest.is_empty(), "its last value is cut")?;
        let integers =
            || Input::Integers(values.iter().map(|it| i32::from_le_bytes(*it)).collect());
        let (operator, input) = match head[0] {
            0 => {
                let floats = values.iter().map(|it| f32::from_le_bytes(*it));
                (Operator::Add, Input::Floats(floats.collect()))
            }
            1 => (Operator::Add, integers()),
            2 => (Operator::Max, integers()),
            other => {
                let why = format!("there is no operation {other}; send 0, 1 or 2");
                return Err(self.error(why));
            }
        };
        Ok(Submission { operator, input })
    }

    /// Reads a STORE: the name, and the pairs sorted by key.
    pub(crate) fn store(&self) -> Result<(String, Vec<Pair>), FrameError> {
        let mut rest = &self.body[..];
        let name = take_text(&mut rest).ok_or_else(|| self.error("its name is cut"))?;
        let name = std::str::from_utf8(name).map_err(|_| self.error("its name is no UTF-8"))?;
        self.name(name, "name")?;
        let mut pairs = Vec::new();
        while !rest.is_empty() {
            let key = take_text(&mut rest);
            let value = rest.split_first_chunk::<8>();
            let (Some(key), Some((value, after))) = (key, value) else {
                return Err(self.error(format!("pair {} is cut", pairs.len())));
            };
            rest = after;
            pairs.push(Pair::new(key, i64::from_be_bytes(*value).into()));
        }
        pairs.sort_unstable();
        let twice = pairs.windows(2).find(|two| two[0].key == two[1].key);
        if let Some(two) = twice {
            let key = two[0].key.escape_ascii();
            let why = format!("{name}: the key \"{key}\" is there twice; combine its values first");
            return Err(self.error(why));
        }
        Ok((name.to_owned(), pairs))
    }

    /// Reads a FORGET.
    pub(crate) fn forget(&self) -> Result<&str, FrameError> {
        std::str::from_utf8(&self.body).map_err(|_| self.error("its prefix is no UTF-8"))
    }
}

/// Takes bytes with their length of 2 bytes before them.
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<2>()?;
    let (text, after) = after.split_at_checked(u16::from_be_bytes(*len).into())?;
    *rest = after;
    Some(text)
}

/// Returns the bodies of frames with pairs. The caller has checked that they fit.
pub(crate) fn pairs_bodies(pairs: &[Pair]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = pairs.iter().peekable();
    std::iter::from_fn(move || {
        let mut body = Vec::new();
        while body.len() < PAIRS_BYTES
            && let Some(pair) = rest.next()
        {
            body.extend((pair.key.len() as u16).to_be_bytes());
            body.extend(&pair.key);
            body.extend((pair.value as i64).to_be_bytes());
        }
        (!body.is_empty()).then_some(body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    fn bytes_of(kind: FrameKind, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, kind, body).unwrap();
        bytes
    }

    /// Reads all that an engine could send of a frame.
    fn parse(frame: &Frame) -> Result<(), FrameError> {
        match frame.kind {
            FrameKind::Hello => frame.hello().map(|_| ()),
            FrameKind::Join => frame.join().map(|_| ()),
            FrameKind::Collect => frame.collect().map(|_| ()),
            FrameKind::Reduce => frame.reduce().map(|_| ()),
            FrameKind::Store => frame.store().map(|_| ()),
            FrameKind::Forget => frame.forget().map(|_| ()),
            _ => Ok(()),
        }
    }

    const JOIN: &str = r#"{"group":"ddp","rank":0,"size":3,"slots":1000,"tiers":1,"seconds":300}"#;
    const COLLECT: &str = r#"{"name":"app-1/3/7","operator":"add","keys":16,"values":"i64",
        "slots":100000,"tiers":1,"mappers":[{"host":"10.0.1.11","part":"app-1/3/0/7"}]}"#;

    fn store_body(name: &str, pairs: &[(&[u8], i64)]) -> Vec<u8> {
        let mut body = (name.len() as u16).to_be_bytes().to_vec();
        body.extend(name.as_bytes());
        for (key, value) in pairs {
            body.extend((key.len() as u16).to_be_bytes());
            body.extend(*key);
            body.extend(value.to_be_bytes());
        }
        body
    }

    fn right_frames() -> Vec<(FrameKind, Vec<u8>)> {
        vec![
            (
                FrameKind::Hello,
                br#"{"protocol":1,"engine":"python 0.1.0"}"#.to_vec(),
            ),
            (FrameKind::Join, JOIN.into()),
            (
                FrameKind::Join,
                br#"{"group":"g","rank":1,"size":2,"more":[]}"#.to_vec(),
            ),
            (FrameKind::Collect, COLLECT.into()),
            (FrameKind::Reduce, vec![0, 0, 0, 0, 0, 0, 128, 63]),
            (FrameKind::Reduce, vec![2, 0, 0, 0]),
            (
                FrameKind::Store,
                store_body("a", &[(b"k", -1), (b"", i64::MIN), (b"k\0", 3)]),
            ),
            (FrameKind::Store, store_body("none", &[])),
            (FrameKind::Forget, b"app-1/".to_vec()),
            (FrameKind::Leave, Vec::new()),
        ]
    }

    #[test]
    fn right_frames_are_read_back_one_after_the_other() {
        let frames = right_frames();
        let all = frames.iter().flat_map(|(kind, body)| bytes_of(*kind, body));
        let all: Vec<u8> = all.collect();
        let mut rest = &all[..];
        for (kind, body) in frames {
            let frame = read_frame(&mut rest).unwrap().unwrap();
            assert_eq!((frame.kind, &frame.body), (kind, &body));
            parse(&frame).unwrap();
        }
        assert!(read_frame(&mut rest).unwrap().is_none());
    }

    #[test]
    fn cut_frames_are_errors_at_every_byte() {
        for (kind, body) in right_frames() {
            let bytes = bytes_of(kind, &body);
            for len in 1..bytes.len() {
                let error = read_frame(&mut &bytes[..len]).unwrap_err();
                assert!(matches!(error, FrameError::Cut), "{kind} {len}: {error}");
            }
        }
    }

    #[test]
    fn oversized_frames_are_refused_before_their_bytes_arrive() {
        let refused = |kind: FrameKind, len: u32| {
            let mut bytes = len.to_be_bytes().to_vec();
            bytes.push(kind.code());
            read_frame(&mut &bytes[..]).unwrap_err()
        };
        for kind in FrameKind::ALL {
            let error = refused(kind, u32::MAX);
            assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
            let error = refused(kind, kind.limit() as u32 + 2);
            assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
            let error = refused(kind, kind.limit() as u32 + 1);
            assert!(matches!(error, FrameError::Cut), "{error}");
        }
        let error = read_frame(&mut &[0; 5][..]).unwrap_err();
        assert!(matches!(error, FrameError::Empty), "{error}");
        let error = read_frame(&mut &[0, 0, 0, 1, 13][..]).unwrap_err();
        assert!(matches!(error, FrameError::UnknownKind(13)), "{error}");
    }

    #[test]
    fn random_and_damaged_frames_are_values_or_errors() {
        let mut rng = Rng::new(1);
        let right = right_frames();
        for _ in 0..20_000 {
            let (kind, mut body) = right[rng.below(right.len() as u64) as usize].clone();
            for _ in 0..rng.below(4) {
                match rng.below(3) {
                    0 => body.truncate(rng.below(body.len() as u64 + 1) as usize),
                    1 => body.push(rng.bits() as u8),
                    _ if body.is_empty() => {}
                    _ => {
                        let at = rng.below(body.len() as u64) as usize;
                        body[at] = rng.bits() as u8;
                    }
                }
            }
            let _ = parse(&Frame { kind, body });
            let len = rng.below(64);
            let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8 & 0x1f).collect();
            let mut rest = &bytes[..];
            while let Ok(Some(frame)) = read_frame(&mut rest) {
                let _ = parse(&frame);
            }
        }
    }

    #[test]
    fn wrong_bodies_are_named() {
        let join = |from: &str, to: &str| (FrameKind::Join, JOIN.replace(from, to).into_bytes());
        let collect =
            |from: &str, to: &str| (FrameKind::Collect, COLLECT.replace(from, to).into_bytes());
        let cases = [
            (join("\"rank\":0", "\"rank\":3"), "rank 3: write 0 to 2"),
            (join("\"size\":3", "\"size\":0"), "size 0"),
            (join("\"size\":3", "\"size\":2000"), "size 2000"),
            (join("\"ddp\"", "\"\""), "group: give a name"),
            (join("\"seconds\":300", "\"seconds\":0"), "seconds 0"),
            (join("\"slots\":1000", "\"slots\":0"), "slots 0"),
            (join("\"tiers\":1", "\"tiers\":9"), "tiers 9"),
            (join("{", ""), "JOIN: "),
            (collect("\"add\"", "\"sub\""), "add, max or min"),
            (collect("\"keys\":16", "\"keys\":17"), "keys 17"),
            (collect("\"i64\"", "\"f32\""), "f32 are for groups"),
            (collect("10.0.1.11", "ten"), "COLLECT: "),
            (
                collect(r#"{"host":"10.0.1.11","part":"app-1/3/0/7"}"#, ""),
                "0 mappers",
            ),
            ((FrameKind::Reduce, vec![3, 0, 0, 0]), "no operation 3"),
            ((FrameKind::Reduce, vec![0, 1, 0, 0]), "not 0"),
            ((FrameKind::Reduce, vec![0; 7]), "cut"),
            (
                (FrameKind::Store, store_body("a", &[(b"k", 1), (b"k", 2)])),
                "\"k\" is there twice",
            ),
            ((FrameKind::Store, store_body("", &[])), "name: give"),
            (
                (FrameKind::Hello, br#"{"protocol":2}"#.to_vec()),
                "version 2",
            ),
        ];
        for ((kind, body), words) in cases {
            let error = parse(&Frame { kind, body }).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn pairs_of_a_result_are_those_that_were_stored() {
        let mut rng = Rng::new(2);
        let pairs = (0..20_000u32).map(|number| {
            let key = [&number.to_be_bytes()[..], &vec![7; rng.below(40) as usize]].concat();
            Pair::new(key, i128::from(rng.bits() as i64))
        });
        let pairs: Vec<Pair> = pairs.collect();
        let bodies: Vec<Vec<u8>> = pairs_bodies(&pairs).collect();
        assert!(bodies.len() > 1);
        let mut body = store_body("n", &[]);
        body.extend(bodies.concat());
        let kind = FrameKind::Store;
        assert_eq!(Frame { kind, body }.store().unwrap().1, pairs);
    }
}

//! Requests to the kernel about rules, and their answers.

use std::{fmt, io};

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO,
    NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::codec::{self, Filter};
use super::counts::Counts;
use super::rule::{FlowerRule, RulePlanes};
use super::sys::{ENOBUFS, RECEIVE_BUFFER, Rtnetlink, Transport};

/// A connection to the kernel's traffic control. Needs Linux 4.19, the first with `TCA_CHAIN`,
/// `in_hw_count` and words of drivers in acknowledgements.
pub struct Session {
    transport: Box<dyn Transport + Send>,
    sequence: u32,
}

/// A rule as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The rule.
    pub rule: FlowerRule,
    /// The kernel's number of it within its priority.
    pub handle: u32,
    /// A driver has taken it. The kernel does not learn of evictions, so this can be out of date.
    pub in_hardware: bool,
    /// Number of drivers that have it.
    pub hardware_count: u32,
    /// The driver's words about a rule that it did not take.
    pub words: Option<String>,
    /// Counts.
    pub counts: Counts,
}

/// Place of a rule in an interface's ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RulePlace {
    /// Index of the interface.
    pub interface: u32,
    /// Chain.
    pub chain: u32,
    /// Priority.
    pub priority: u16,
    /// Protocol.
    pub protocol: u16,
    /// Handle.
    pub handle: u32,
}

/// A request failed.
#[derive(Debug)]
pub enum TcError {
    /// A system call failed.
    System {
        /// The request.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel or a driver refuses the request.
    Refused {
        /// The request.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
        /// Words of the kernel or the driver.
        words: Option<String>,
    },
    /// Rules changed during each of several dumps.
    DumpInterrupted,
    /// The kernel carried the request out, and its answer did not fit in the receive queue
    /// (ENOBUFS).
    Overrun {
        /// The request.
        doing: &'static str,
    },
    /// Answers were lost, and the rule is not among those that the kernel has.
    Lost,
    /// There is no interface of this name.
    NoInterface(String),
    /// The kernel did not remove this number of rules.
    Stuck(usize),
    /// The thread of this name has panicked. Rules may be left.
    Panicked(&'static str),
    /// An answer cannot be read.
    Malformed(String),
}

impl fmt::Display for TcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcError::System { doing, source } => write!(f, "{doing}: {source}"),
            TcError::Refused {
                doing,
                source,
                words: None,
            } => {
                write!(f, "{doing}: the kernel refuses it: {source}")
            }
            TcError::Refused {
                doing,
                source,
                words: Some(words),
            } => {
                write!(f, "{doing}: refused: {words} ({source})")
            }
            TcError::DumpInterrupted => {
                f.write_str("the list of rules changes faster than it can be read; try again later")
            }
            TcError::Overrun { doing } => {
                write!(
                    f,
                    "{doing}: the kernel's answer was lost; it did not fit in the queue"
                )
            }
            TcError::Lost => f.write_str("the kernel's answer was lost, and the rule is not there"),
            TcError::Stuck(rules) => write!(
                f,
                "the kernel did not remove {rules} rules; the next start removes them"
            ),
            TcError::Panicked(thread) => write!(
                f,
                "the thread '{thread}' has panicked; rules may be left, and the next start removes \
                 them"
            ),
            TcError::NoInterface(name) => write!(
                f,
                "there is no interface '{name}' in this network namespace; see 'ip link'"
            ),
            TcError::Malformed(what) => write!(f, "an answer of the kernel cannot be read: {what}"),
        }
    }
}

impl std::error::Error for TcError {}

impl TcError {
    /// Returns the kernel's error number for a request that it refuses.
    pub(super) fn refusal(&self) -> Option<i32> {
        match self {
            TcError::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// Returns true if there is no such rule, or no place for rules, or no interface.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.refusal(), Some(ENOENT | EINVAL | ENODEV))
    }
}

/// Error numbers.
const ENOENT: i32 = 2;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

/// Number of times that a dump is begun.
const DUMPS: usize = 8;

/// A change or a question about one rule, for [`Session::batch`].
#[derive(Clone, Debug)]
pub(super) enum TcRequest {
    /// Adds a rule to an interface.
    Add(u32, FlowerRule),
    /// Replaces the rule at a place. The new one has the old one's priority and protocol.
    Replace(RulePlace, FlowerRule),
    /// Removes the rule at a place.
    Delete(RulePlace),
    /// Reads the rule at a place.
    Read(RulePlace),
}

/// Name of an interface in a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkKey<'n> {
    Index(u32),
    Name(&'n str),
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// An owner has set it up.
    pub(super) is_up: bool,
    pub(super) mtu: u32,
}

impl Link {
    fn of(message: &LinkMessage) -> Link {
        let mut link = Link {
            index: message.header.index,
            is_up: message.header.flags.contains(LinkFlags::Up),
            ..Link::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                _ => {}
            }
        }
        link
    }
}

/// Number of interfaces that are read at a time. An answer has some kilobytes.
const LINKS: usize = 16;

/// A request with its flags.
struct Request {
    doing: &'static str,
    message: RouteNetlinkMessage,
    flags: u16,
    /// Its answer is one message, without an acknowledgement.
    is_single: bool,
}

/// Answers to a request.
#[derive(Default)]
struct Answers {
    messages: Vec<TcMessage>,
    links: Vec<LinkMessage>,
    words: Option<String>,
    interrupted: bool,
}

/// A request that waits for its last answer.
struct Waiting {
    doing: &'static str,
    /// Its first answer is its last one.
    is_single: bool,
    answers: Answers,
    result: Option<Result<(), TcError>>,
}

impl Session {
    /// Opens a session in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`TcError::System`].
    pub fn open() -> Result<Session, TcError> {
        Session::open_with(RECEIVE_BUFFER)
    }

    /// Opens a session with a receive queue of this size in bytes. The kernel has bounds for it.
    ///
    /// # Errors
    /// [`TcError::System`].
    pub fn open_with(receive_buffer: usize) -> Result<Session, TcError> {
        let doing = "opening a netlink socket";
        let transport = Rtnetlink::open(receive_buffer);
        let transport = transport.map_err(|source| TcError::System { doing, source })?;
        Ok(Session::with(Box::new(transport)))
    }

    pub(super) fn with(transport: Box<dyn Transport + Send>) -> Session {
        Session {
            transport,
            sequence: 0,
        }
    }

    /// Gives an interface a place for rules at its ingress (`clsact`), unless it has one. Returns
    /// true if it was made.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] without CAP_NET_ADMIN.
    pub fn prepare(&mut self, interface: u32) -> Result<bool, TcError> {
        let request = RouteNetlinkMessage::NewQueueDiscipline(clsact(interface));
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        match self.request("adding the qdisc clsact", request, flags) {
            Err(TcError::Refused { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                Ok(false)
            }
            other => other.map(|_| true),
        }
    }

    /// Takes the place for rules from an interface, with all rules in it.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] if there is none.
    pub(super) fn unprepare(&mut self, interface: u32) -> Result<(), TcError> {
        let request = RouteNetlinkMessage::DelQueueDiscipline(clsact(interface));
        let answers = self.request("removing the qdisc clsact", request, NLM_F_ACK);
        answers.map(|_| ())
    }

    /// Returns the interfaces that have a place for rules at their ingress.
    ///
    /// # Errors
    /// [`TcError`].
    pub(super) fn prepared(&mut self) -> Result<Vec<u32>, TcError> {
        let list = || RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.list("listing qdiscs", list)?;
        let is_ingress = |message: &&TcMessage| {
            let mut kinds = message.attributes.iter();
            kinds.any(|attribute| {
                let TcAttribute::Kind(kind) = attribute else {
                    return false;
                };
                kind == "clsact" || kind == "ingress"
            })
        };
        let found = answers.messages.iter().filter(is_ingress);
        Ok(found.map(|message| message.header.index as u32).collect())
    }

    /// Returns the interfaces of these indices or names; `None` for one that is not there.
    ///
    /// # Errors
    /// [`TcError`].
    pub(super) fn links(&mut self, keys: &[LinkKey<'_>]) -> Result<Vec<Option<Link>>, TcError> {
        let request = |key: &LinkKey<'_>| {
            let mut message = LinkMessage::default();
            match key {
                LinkKey::Index(index) => message.header.index = *index,
                LinkKey::Name(name) => {
                    let name = LinkAttribute::IfName((*name).to_owned());
                    message.attributes.push(name);
                }
            }
            Request {
                doing: "reading an interface",
                message: RouteNetlinkMessage::GetLink(message),
                flags: 0,
                is_single: true,
            }
        };
        let mut links = Vec::with_capacity(keys.len());
        for part in keys.chunks(LINKS) {
            let answers = self.exchange(part.iter().map(request).collect());
            for (key, answers) in part.iter().zip(answers) {
                let answers = match answers {
                    // One answer always fits.
                    Err(TcError::Overrun { .. }) => {
                        let mut answers = self.exchange(vec![request(key)]);
                        answers.pop().unwrap_or(Err(TcError::Lost))
                    }
                    answers => answers,
                };
                links.push(match answers {
                    Ok(answers) => answers.links.first().map(Link::of),
                    Err(error) if error.is_gone() => None,
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(links)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`TcError`]. A rule that a driver does not take, and software does, is no error: see
    /// [`Installed::in_hardware`].
    pub fn add(&mut self, interface: u32, rule: &FlowerRule) -> Result<Installed, TcError> {
        self.write(interface, TcRequest::Add(interface, rule.clone()), rule)
    }

    /// Replaces the rule of a handle. The kernel has the old rule until the new one is there.
    ///
    /// # Errors
    /// [`TcError`]; then the old rule is still there.
    pub fn replace(
        &mut self,
        interface: u32,
        handle: u32,
        rule: &FlowerRule,
    ) -> Result<Installed, TcError> {
        let place = RulePlace {
            interface,
            chain: rule.chain,
            priority: rule.priority,
            protocol: rule.protocol,
            handle,
        };
        self.write(interface, TcRequest::Replace(place, rule.clone()), rule)
    }

    fn write(
        &mut self,
        interface: u32,
        request: TcRequest,
        rule: &FlowerRule,
    ) -> Result<Installed, TcError> {
        match self.one(request) {
            // The kernel has carried the request out when `send` returns, so what is there now is
            // the answer.
            Err(TcError::Overrun { .. }) => {
                let there = self.dump(interface, Some(rule.chain))?;
                // A rule that was not replaced has the cookie too.
                let mut mine = there.into_iter().filter(|there| there.rule == *rule);
                mine.next().ok_or(TcError::Lost)
            }
            other => other?.ok_or_else(no_echo),
        }
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] with `NotFound` if it is not there.
    pub fn delete(&mut self, place: RulePlace) -> Result<(), TcError> {
        self.one(TcRequest::Delete(place)).map(|_| ())
    }

    /// Returns the cookie of the rule at a place, also of a rule that cannot be read otherwise.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] if there is none.
    pub(super) fn cookie_at(&mut self, place: RulePlace) -> Result<Option<[u8; 16]>, TcError> {
        let mut answers = self.exchange(vec![encoded(TcRequest::Read(place))]);
        let answers = answers.pop().unwrap_or(Err(TcError::Lost))?;
        Ok(answers.messages.first().and_then(codec::cookie_of))
    }

    /// Reads one rule with its counts. The driver is asked for hardware's.
    ///
    /// # Errors
    /// [`TcError`].
    pub fn read(&mut self, place: RulePlace) -> Result<Option<Installed>, TcError> {
        self.one(TcRequest::Read(place))
    }

    fn one(&mut self, request: TcRequest) -> Result<Option<Installed>, TcError> {
        let mut results = self.batch(vec![request]);
        results.pop().unwrap_or(Err(TcError::Lost))
    }

    /// Carries out requests in their order, with one system call for all of them. Each has its own
    /// result: the rule as it is after an addition or a replacement, as it was before a removal,
    /// or as it is. `None` stands for a rule that this module cannot have made.
    ///
    /// The caller bounds their number: answers that do not fit in the receive queue are
    /// [`TcError::Overrun`].
    pub(super) fn batch(
        &mut self,
        requests: Vec<TcRequest>,
    ) -> Vec<Result<Option<Installed>, TcError>> {
        let kind = |request: &TcRequest| {
            let is_write = matches!(request, TcRequest::Add(..) | TcRequest::Replace(..));
            (is_write, matches!(request, TcRequest::Delete(..)))
        };
        let kinds: Vec<(bool, bool)> = requests.iter().map(kind).collect();
        let answers = self.exchange(requests.into_iter().map(encoded).collect());
        let results = answers.into_iter().zip(kinds);
        let result = |(answers, (is_write, is_removal)): (Result<Answers, TcError>, _)| {
            let answers = answers?;
            let Some(message) = answers.messages.first() else {
                return if is_write { Err(no_echo()) } else { Ok(None) };
            };
            let installed = match decoded(message) {
                // It is removed, whatever it was.
                Err(_) if is_removal => None,
                installed => installed?,
            };
            match installed {
                Some(installed) => Ok(Some(Installed {
                    words: answers.words,
                    ..installed
                })),
                None if is_write => Err(TcError::Malformed(
                    "the rule's echo is another rule".to_owned(),
                )),
                None => Ok(None),
            }
        };
        results.map(result).collect()
    }

    /// Reads the rules of an interface's ingress, of one chain or of all. Those that this module
    /// cannot have made are left out.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::DumpInterrupted`] if they changed during each of several dumps.
    pub fn dump(&mut self, interface: u32, chain: Option<u32>) -> Result<Vec<Installed>, TcError> {
        let messages = self.filters(interface, TcHandle::MIN_INGRESS, chain)?;
        let rules = messages.iter().map(decoded);
        rules.filter_map(Result::transpose).collect()
    }

    /// Reads the filters of all owners and kinds at one side of an interface:
    /// [`TcHandle::MIN_INGRESS`] or [`TcHandle::MIN_EGRESS`]. The kernel also lists each priority.
    ///
    /// # Errors
    /// [`TcError`].
    pub(super) fn filters(
        &mut self,
        interface: u32,
        side: u16,
        chain: Option<u32>,
    ) -> Result<Vec<TcMessage>, TcError> {
        let list = || {
            let mut message = codec::place(interface, 0, 0, 0);
            message.header.parent.minor = side;
            message.attributes.extend(chain.map(TcAttribute::Chain));
            RouteNetlinkMessage::GetTrafficFilter(message)
        };
        Ok(self.list("listing rules", list)?.messages)
    }

    /// Reads a list, again from its beginning if it changes meanwhile.
    fn list(
        &mut self,
        doing: &'static str,
        request: impl Fn() -> RouteNetlinkMessage,
    ) -> Result<Answers, TcError> {
        for _ in 0..DUMPS {
            match self.request(doing, request(), NLM_F_DUMP) {
                Ok(answers) if answers.interrupted => {}
                Err(TcError::Overrun { .. }) => {}
                other => return other,
            }
        }
        Err(TcError::DumpInterrupted)
    }

    /// Sends a request and collects its answers, up to the acknowledgement or the end of a dump.
    fn request(
        &mut self,
        doing: &'static str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Answers, TcError> {
        let request = Request {
            doing,
            message,
            flags,
            is_single: false,
        };
        let mut answers = self.exchange(vec![request]);
        answers.pop().unwrap_or(Err(TcError::Lost))
    }

    /// Sends requests with one system call and collects their answers.
    fn exchange(&mut self, requests: Vec<Request>) -> Vec<Result<Answers, TcError>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        let mut waiting = Vec::with_capacity(requests.len());
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | request.flags;
            header.sequence_number = self.sequence;
            let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request.message));
            message.finalize();
            let start = bytes.len();
            bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
            message.serialize(&mut bytes[start..]);
            waiting.push(Waiting {
                doing: request.doing,
                is_single: request.is_single,
                answers: Answers::default(),
                result: None,
            });
        }
        if let Err(error) = self.transport.send(&bytes) {
            fail(&mut waiting, |doing| TcError::System {
                doing,
                source: copy(&error),
            });
        }
        while waiting.iter().any(|waiting| waiting.result.is_none()) {
            match self.transport.receive() {
                Ok(datagram) => {
                    if let Err(what) = take(first, &datagram, &mut waiting) {
                        fail(&mut waiting, |doing| {
                            TcError::Malformed(format!("{doing}: {what}"))
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                    match self.transport.discard() {
                        Ok(()) => fail(&mut waiting, |doing| TcError::Overrun { doing }),
                        Err(error) => fail(&mut waiting, |doing| TcError::System {
                            doing,
                            source: copy(&error),
                        }),
                    }
                }
                Err(error) => fail(&mut waiting, |doing| TcError::System {
                    doing,
                    source: copy(&error),
                }),
            }
        }
        let done = |waiting: Waiting| {
            let result = waiting.result.unwrap_or(Err(TcError::Lost));
            result.map(|()| waiting.answers)
        };
        waiting.into_iter().map(done).collect()
    }
}

/// Ends all requests that wait.
fn fail(waiting: &mut [Waiting], error: impl Fn(&'static str) -> TcError) {
    let open = waiting
        .iter_mut()
        .filter(|waiting| waiting.result.is_none());
    open.for_each(|waiting| waiting.result = Some(Err(error(waiting.doing))));
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::from(error.kind()),
    }
}

fn no_echo() -> TcError {
    TcError::Malformed("a rule without its echo".to_owned())
}

/// Takes the messages of a datagram for requests, the first of which has this number.
fn take(first: u32, datagram: &[u8], waiting: &mut [Waiting]) -> Result<(), String> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest);
        let message = message.map_err(|error| error.to_string())?;
        let step = (message.header.length as usize).next_multiple_of(4);
        rest = rest.get(step..).unwrap_or_default();
        let number = message.header.sequence_number.wrapping_sub(first) as usize;
        // An answer to an earlier request that was given up.
        let Some(waiting) = waiting.get_mut(number) else {
            continue;
        };
        let answers = &mut waiting.answers;
        answers.interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
        match message.payload {
            NetlinkPayload::Done(done) => {
                waiting.result = Some(match done.code {
                    0.. => Ok(()),
                    code => Err(TcError::Refused {
                        doing: waiting.doing,
                        source: io::Error::from_raw_os_error(-code),
                        words: None,
                    }),
                });
            }
            NetlinkPayload::Error(error) => {
                let words = words(&error, message.header.flags);
                waiting.result = Some(match error.code {
                    None => {
                        answers.words = words;
                        Ok(())
                    }
                    Some(_) => Err(TcError::Refused {
                        doing: waiting.doing,
                        source: error.to_io(),
                        words,
                    }),
                });
            }
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewTrafficFilter(message)
                | RouteNetlinkMessage::DelTrafficFilter(message)
                | RouteNetlinkMessage::NewQueueDiscipline(message),
            ) => answers.messages.push(message),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(message)) => {
                answers.links.push(message);
            }
            _ => continue,
        }
        if waiting.is_single && waiting.result.is_none() {
            waiting.result = Some(Ok(()));
        }
    }
    Ok(())
}

fn encoded(request: TcRequest) -> Request {
    const WRITE: u16 = NLM_F_ECHO | NLM_F_CREATE;
    // The echo is the answer. A driver's words about a rule that software takes come with an
    // acknowledgement.
    let acknowledged = |rule: &FlowerRule| rule.planes == RulePlanes::Both;
    let (doing, message, flags, is_single) = match request {
        TcRequest::Add(interface, rule) => (
            "adding a rule",
            RouteNetlinkMessage::NewTrafficFilter(codec::encode(interface, 0, &rule)),
            WRITE | NLM_F_EXCL,
            !acknowledged(&rule),
        ),
        TcRequest::Replace(place, rule) => (
            "replacing a rule",
            RouteNetlinkMessage::NewTrafficFilter(codec::encode(
                place.interface,
                place.handle,
                &rule,
            )),
            WRITE | NLM_F_REPLACE,
            !acknowledged(&rule),
        ),
        TcRequest::Delete(place) => (
            "removing a rule",
            RouteNetlinkMessage::DelTrafficFilter(at(place)),
            NLM_F_ECHO,
            true,
        ),
        TcRequest::Read(place) => (
            "reading a rule",
            RouteNetlinkMessage::GetTrafficFilter(at(place)),
            0,
            true,
        ),
    };
    Request {
        doing,
        message,
        flags: if is_single { flags } else { flags | NLM_F_ACK },
        is_single,
    }
}

/// Returns the message that names an interface's place for rules.
fn clsact(interface: u32) -> TcMessage {
    let mut message = TcMessage::with_index(interface as i32);
    message.header.handle = TcHandle {
        major: u16::MAX,
        minor: 0,
    };
    message.header.parent = TcHandle::CLSACT;
    message.attributes = vec![TcAttribute::Kind("clsact".to_owned())];
    message
}

/// Returns the message that names a rule.
fn at(place: RulePlace) -> TcMessage {
    let RulePlace {
        interface,
        chain,
        priority,
        protocol,
        handle,
    } = place;
    let mut message = codec::place(interface, handle, priority, protocol);
    let kind = TcAttribute::Kind("flower".to_owned());
    message.attributes = vec![kind, TcAttribute::Chain(chain)];
    message
}

/// Returns the words of an extended acknowledgement.
fn words(error: &ErrorMessage, flags: u16) -> Option<String> {
    /// Length of the header of the request, which comes first.
    const HEADER: usize = 16;
    const MESSAGE: u16 = 1;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let attributes = NlasIterator::new(error.header.get(HEADER..)?);
    let mut messages = attributes
        .flatten()
        .filter(|attribute| attribute.kind() == MESSAGE);
    let bytes = messages.next()?.value().to_vec();
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_end_matches('\0').to_owned())
}

pub(super) fn decoded(message: &TcMessage) -> Result<Option<Installed>, TcError> {
    let filter = codec::decode(message).map_err(TcError::Malformed)?;
    Ok(filter.map(|filter| {
        let Filter {
            rule,
            handle,
            in_hardware,
            hardware_count,
            counts,
        } = filter;
        Installed {
            rule,
            handle,
            in_hardware,
            hardware_count,
            words: None,
            counts,
        }
    }))
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

//! Requests to the kernel about rules, and their answers.

use std::{fmt, io};

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO,
    NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::codec::{self, Filter};
use super::counts::Counts;
use super::rule::FlowerRule;
use super::sys::{ENOBUFS, Rtnetlink, Transport};

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
    /// Answers were lost, and the rule is not among those that the kernel has.
    Lost,
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
            TcError::Lost => f.write_str("the kernel's answer was lost, and the rule is not there"),
            TcError::Malformed(what) => write!(f, "an answer of the kernel cannot be read: {what}"),
        }
    }
}

impl std::error::Error for TcError {}

/// Number of times that a dump is begun.
const DUMPS: usize = 8;

/// Answers to a request.
#[derive(Default)]
struct Answers {
    messages: Vec<TcMessage>,
    words: Option<String>,
    interrupted: bool,
}

impl Session {
    /// Opens a session in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`TcError::System`].
    pub fn open() -> Result<Session, TcError> {
        let doing = "opening a netlink socket";
        let transport = Rtnetlink::open().map_err(|source| TcError::System { doing, source })?;
        Ok(Session::with(Box::new(transport)))
    }

    fn with(transport: Box<dyn Transport + Send>) -> Session {
        Session {
            transport,
            sequence: 0,
        }
    }

    /// Gives an interface a place for rules at its ingress (`clsact`), unless it has one.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] without CAP_NET_ADMIN.
    pub fn prepare(&mut self, interface: u32) -> Result<(), TcError> {
        let mut message = TcMessage::with_index(interface as i32);
        message.header.handle = TcHandle {
            major: u16::MAX,
            minor: 0,
        };
        message.header.parent = TcHandle::CLSACT;
        message.attributes = vec![TcAttribute::Kind("clsact".to_owned())];
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        match self.request("adding the qdisc clsact", request, flags) {
            Err(TcError::Refused { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`TcError`]. A rule that a driver does not take, and software does, is no error: see
    /// [`Installed::in_hardware`].
    pub fn add(&mut self, interface: u32, rule: &FlowerRule) -> Result<Installed, TcError> {
        self.write(
            "adding a rule",
            interface,
            0,
            rule,
            NLM_F_CREATE | NLM_F_EXCL,
        )
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
        self.write(
            "replacing a rule",
            interface,
            handle,
            rule,
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    fn write(
        &mut self,
        doing: &'static str,
        interface: u32,
        handle: u32,
        rule: &FlowerRule,
        flags: u16,
    ) -> Result<Installed, TcError> {
        let request = RouteNetlinkMessage::NewTrafficFilter(codec::encode(interface, handle, rule));
        let answers = match self.request(doing, request, flags | NLM_F_ACK | NLM_F_ECHO) {
            // The kernel has carried the request out when `send` returns, so what is there now is
            // the answer.
            Err(TcError::System { source, .. }) if source.raw_os_error() == Some(ENOBUFS) => {
                let there = self.dump(interface, Some(rule.chain))?;
                // A rule that was not replaced has the cookie too.
                let mut mine = there.into_iter().filter(|there| there.rule == *rule);
                return mine.next().ok_or(TcError::Lost);
            }
            other => other?,
        };
        let [message] = answers.messages.as_slice() else {
            return Err(TcError::Malformed("a rule without its echo".to_owned()));
        };
        match decoded(message)? {
            Some(installed) => Ok(Installed {
                words: answers.words,
                ..installed
            }),
            None => Err(TcError::Malformed(
                "the rule's echo is another rule".to_owned(),
            )),
        }
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::Refused`] with `NotFound` if it is not there.
    pub fn delete(&mut self, place: RulePlace) -> Result<(), TcError> {
        let request = RouteNetlinkMessage::DelTrafficFilter(at(place));
        self.request("removing a rule", request, NLM_F_ACK)
            .map(|_| ())
    }

    /// Reads one rule with its counts. The driver is asked for hardware's.
    ///
    /// # Errors
    /// [`TcError`].
    pub fn read(&mut self, place: RulePlace) -> Result<Option<Installed>, TcError> {
        let request = RouteNetlinkMessage::GetTrafficFilter(at(place));
        let answers = self.request("reading a rule", request, NLM_F_ACK)?;
        match answers.messages.first() {
            Some(message) => decoded(message),
            None => Ok(None),
        }
    }

    /// Reads the rules of an interface's ingress, of one chain or of all. Those that this module
    /// cannot have made are left out.
    ///
    /// # Errors
    /// [`TcError`]; [`TcError::DumpInterrupted`] if they changed during each of several dumps.
    pub fn dump(&mut self, interface: u32, chain: Option<u32>) -> Result<Vec<Installed>, TcError> {
        for _ in 0..DUMPS {
            let mut message = codec::place(interface, 0, 0, 0);
            message.attributes.extend(chain.map(TcAttribute::Chain));
            let request = RouteNetlinkMessage::GetTrafficFilter(message);
            match self.request("listing rules", request, NLM_F_DUMP) {
                Ok(answers) if answers.interrupted => {}
                Ok(answers) => {
                    let rules = answers.messages.iter().map(decoded);
                    return rules.filter_map(Result::transpose).collect();
                }
                Err(TcError::System { source, .. }) if source.raw_os_error() == Some(ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        Err(TcError::DumpInterrupted)
    }

    /// Sends a request and collects its answers, up to the acknowledgement or the end of a dump.
    fn request(
        &mut self,
        doing: &'static str,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Answers, TcError> {
        let system = |source| TcError::System { doing, source };
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.transport.send(&bytes).map_err(system)?;
        let mut answers = Answers::default();
        loop {
            let datagram = match self.transport.receive() {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    if error.raw_os_error() == Some(ENOBUFS) {
                        self.transport.discard().map_err(system)?;
                    }
                    return Err(system(error));
                }
            };
            if self.take(doing, &datagram, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Takes the messages of a datagram. Returns true after the last one.
    fn take(
        &self,
        doing: &'static str,
        datagram: &[u8],
        answers: &mut Answers,
    ) -> Result<bool, TcError> {
        let mut rest = datagram;
        while !rest.is_empty() {
            let malformed = |error| TcError::Malformed(format!("{doing}: {error}"));
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest);
            let message = message.map_err(|error| malformed(error.to_string()))?;
            let step = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(step..).unwrap_or_default();
            // An answer to an earlier request that was given up.
            if message.header.sequence_number != self.sequence {
                continue;
            }
            answers.interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => {
                    let words = words(&error, message.header.flags);
                    if error.code.is_none() {
                        answers.words = words;
                        return Ok(true);
                    }
                    let source = error.to_io();
                    return Err(TcError::Refused {
                        doing,
                        source,
                        words,
                    });
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewTrafficFilter(message)) => {
                    answers.messages.push(message);
                }
                _ => {}
            }
        }
        Ok(false)
    }
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

fn decoded(message: &TcMessage) -> Result<Option<Installed>, TcError> {
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

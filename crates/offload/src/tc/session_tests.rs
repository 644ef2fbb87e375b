//! Tests of requests and answers with a stand-in for the kernel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;
use crate::tc::{Action, RulePlanes};
use netlink_packet_core::{DoneMessage, NLM_F_MULTIPART};

/// An answer of the stand-in. Its messages get the request's number.
enum Answer {
    Messages(Vec<(NetlinkPayload<RouteNetlinkMessage>, u16)>),
    /// A refusal with the bytes after the error's number.
    Refusal(i32, Vec<u8>),
    Overrun,
}

#[derive(Default)]
struct Log {
    requests: usize,
    discards: usize,
}

struct Kernel {
    answers: VecDeque<Answer>,
    sequence: u32,
    log: Arc<Mutex<Log>>,
}

fn bytes_of(payload: NetlinkPayload<RouteNetlinkMessage>, flags: u16, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
    message.serialize(&mut bytes);
    bytes
}

impl Transport for Kernel {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let number = request[8..12].try_into().expect("a request has a header");
        self.sequence = u32::from_ne_bytes(number);
        self.log.lock().expect("no test has failed").requests += 1;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let sequence = self.sequence;
        match self
            .answers
            .pop_front()
            .expect("no further answer is asked for")
        {
            Answer::Overrun => Err(io::Error::from_raw_os_error(ENOBUFS)),
            Answer::Messages(messages) => Ok(messages
                .into_iter()
                .flat_map(|(payload, flags)| bytes_of(payload, flags, sequence))
                .collect()),
            Answer::Refusal(code, words) => {
                let mut error = ErrorMessage::default();
                error.code = std::num::NonZeroI32::new(code);
                error.header = vec![0; 16];
                error.header.extend(words);
                Ok(bytes_of(
                    NetlinkPayload::Error(error),
                    NLM_F_ACK_TLVS,
                    sequence,
                ))
            }
        }
    }

    fn discard(&mut self) -> io::Result<()> {
        self.log.lock().expect("no test has failed").discards += 1;
        Ok(())
    }
}

fn session(answers: Vec<Answer>) -> (Session, Arc<Mutex<Log>>) {
    let log = Arc::new(Mutex::new(Log::default()));
    let kernel = Kernel {
        answers: answers.into(),
        sequence: 0,
        log: log.clone(),
    };
    (Session::with(Box::new(kernel)), log)
}

fn rule(cookie: u8) -> FlowerRule {
    FlowerRule {
        chain: 0,
        priority: 1,
        protocol: 0x0800,
        keys: Vec::new(),
        actions: vec![Action::Drop],
        planes: RulePlanes::Both,
        cookie: [cookie; 16],
    }
}

fn echo(cookie: u8) -> NetlinkPayload<RouteNetlinkMessage> {
    let message = codec::encode(1, u32::from(cookie), &rule(cookie));
    RouteNetlinkMessage::NewTrafficFilter(message).into()
}

fn done() -> (NetlinkPayload<RouteNetlinkMessage>, u16) {
    (
        NetlinkPayload::Done(DoneMessage::default()),
        NLM_F_MULTIPART,
    )
}

fn acknowledged() -> (NetlinkPayload<RouteNetlinkMessage>, u16) {
    let mut error = ErrorMessage::default();
    error.header = vec![0; 16];
    (NetlinkPayload::Error(error), 0)
}

#[test]
fn an_added_rule_is_its_echo() {
    let answers = vec![Answer::Messages(vec![(echo(5), 0), acknowledged()])];
    let (mut session, _) = session(answers);
    let installed = session.add(1, &rule(5)).expect("it is added");
    assert_eq!((installed.rule, installed.handle), (rule(5), 5));
}

#[test]
fn a_refusal_has_the_drivers_words() {
    let mut words = vec![14, 0, 1, 0];
    words.extend(b"too long\0\0\0\0");
    let (mut session, _) = session(vec![Answer::Refusal(-95, words)]);
    match session.add(1, &rule(5)) {
        Err(error @ TcError::Refused { .. }) => {
            assert!(error.to_string().contains("refused: too long"), "{error}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_lost_answer_is_found_in_a_dump() {
    let dump = vec![
        (echo(4), NLM_F_MULTIPART),
        (echo(5), NLM_F_MULTIPART),
        done(),
    ];
    let (mut session, log) = session(vec![Answer::Overrun, Answer::Messages(dump)]);
    let installed = session.add(1, &rule(5)).expect("it is added");
    assert_eq!(installed.rule.cookie, [5; 16]);
    let log = log.lock().expect("no test has failed");
    assert_eq!((log.requests, log.discards), (2, 1));
}

#[test]
fn a_lost_answer_to_a_rule_that_is_not_there_is_an_error() {
    let dump = vec![(echo(4), NLM_F_MULTIPART), done()];
    let (mut session, _) = session(vec![Answer::Overrun, Answer::Messages(dump)]);
    assert!(matches!(session.add(1, &rule(5)), Err(TcError::Lost)));
}

#[test]
fn a_lost_answer_to_a_replacement_does_not_find_the_old_rule() {
    let dump = vec![(echo(5), NLM_F_MULTIPART), done()];
    let (mut session, _) = session(vec![Answer::Overrun, Answer::Messages(dump)]);
    let mut new = rule(5);
    new.actions = vec![Action::Redirect(2)];
    let replaced = session.replace(1, 5, &new);
    assert!(matches!(replaced, Err(TcError::Lost)));
}

#[test]
fn an_interrupted_dump_begins_again_and_its_parts_do_not_mix() {
    let interrupted = NLM_F_MULTIPART | NLM_F_DUMP_INTR;
    let first = vec![(echo(1), interrupted), (echo(2), NLM_F_MULTIPART), done()];
    let second = vec![(echo(2), NLM_F_MULTIPART), done()];
    let answers = vec![
        Answer::Messages(first),
        Answer::Overrun,
        Answer::Messages(second),
    ];
    let (mut session, log) = session(answers);
    let rules = session.dump(1, None).expect("it can be read");
    assert_eq!(rules.len(), 1);
    assert_eq!(log.lock().expect("no test has failed").requests, 3);
}

#[test]
fn a_dump_that_is_always_interrupted_is_an_error() {
    let interrupted = NLM_F_MULTIPART | NLM_F_DUMP_INTR;
    let part = || Answer::Messages(vec![(echo(1), interrupted), done()]);
    let (mut session, _) = session((0..DUMPS).map(|_| part()).collect());
    assert!(matches!(
        session.dump(1, None),
        Err(TcError::DumpInterrupted)
    ));
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    struct Noise;
    impl Transport for Noise {
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn receive(&mut self) -> io::Result<Vec<u8>> {
            Ok(vec![1, 2, 3])
        }
        fn discard(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut session = Session::with(Box::new(Noise));
    assert!(matches!(
        session.add(1, &rule(5)),
        Err(TcError::Malformed(_))
    ));
}

//! Tests of the target and its threads with a stand-in for the kernel.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use netlink_packet_core::{
    DoneMessage, ErrorMessage, NLM_F_DUMP, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcFilterFlowerOption, TcHandle, TcMessage, TcOption};
use packet::PortId;

use super::*;
use crate::flow::{LengthRange, MatchedBits, Met, Step};
use crate::target::Placed;
use crate::tc::cookie::cookie;
use crate::tc::sys::Transport;

const EBUSY: i32 = 16;
const ENOENT: i32 = 2;
const OWNER: u32 = 7;

/// State of the stand-in, which has the interfaces 1 to 3.
#[derive(Default)]
struct State {
    /// Interfaces with a place for rules.
    places: BTreeSet<u32>,
    rules: Vec<TcMessage>,
    last_handle: u32,
    /// Interfaces that are not there.
    gone: BTreeSet<u32>,
    /// Interfaces on which no place for rules can be made or taken.
    busy: BTreeSet<u32>,
    /// Removals are acknowledged and not done.
    keeps: bool,
    /// Number of further rules that are changed to ones that the target cannot read.
    spoils: u32,
    /// A list of rules stops the thread that asks for it.
    stops_lists: bool,
    /// An addition stops the thread that asks for it.
    stops_additions: bool,
}

#[derive(Clone, Default)]
struct Kernel {
    state: Arc<Mutex<State>>,
    answers: VecDeque<Vec<u8>>,
}

type Payload = NetlinkPayload<RouteNetlinkMessage>;

impl Kernel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }

    fn session(&self) -> Session {
        Session::with(Box::new(self.clone()))
    }

    fn open(&self) -> Result<TcTarget, TcError> {
        TcTarget::with(Arc::new(options()), self.session(), self.session())
    }

    /// Puts a rule of the owner on an interface.
    fn put(&self, interface: u32, id: u64) {
        let (_, mut rule) = Ports::open(&mut self.session(), &options().ports, options().planes)
            .expect("the interfaces are there")
            .translate(&flow(1))
            .expect("it has a rule");
        rule.priority = 1_000;
        rule.cookie = cookie(OWNER, RuleId(id));
        let mut state = self.lock();
        state.places.insert(interface);
        state.last_handle += 1;
        let message = codec::encode(interface, state.last_handle, &rule);
        state.rules.push(message);
    }
}

/// Makes a rule one that the target cannot read. Its cookie stays.
fn spoil(message: &mut TcMessage) {
    for attribute in &mut message.attributes {
        if let TcAttribute::Options(options) = attribute {
            options.push(TcOption::Flower(TcFilterFlowerOption::ClassId(1)));
        }
    }
}

impl State {
    fn answers(&mut self, request: RouteNetlinkMessage, flags: u16) -> Vec<Payload> {
        let is_list = flags & NLM_F_DUMP == NLM_F_DUMP;
        match request {
            RouteNetlinkMessage::GetLink(message) => vec![self.link(&message)],
            RouteNetlinkMessage::GetQueueDiscipline(_) => {
                let place = |interface: &u32| {
                    let mut message = TcMessage::with_index(*interface as i32);
                    message.attributes = vec![TcAttribute::Kind("clsact".to_owned())];
                    RouteNetlinkMessage::NewQueueDiscipline(message).into()
                };
                self.places.iter().map(place).chain([done()]).collect()
            }
            RouteNetlinkMessage::NewQueueDiscipline(message) => {
                let interface = message.header.index as u32;
                if self.busy.contains(&interface) {
                    return vec![error(EBUSY)];
                }
                self.places.insert(interface);
                vec![error(0)]
            }
            RouteNetlinkMessage::DelQueueDiscipline(message) => {
                let interface = message.header.index as u32;
                if self.busy.contains(&interface) {
                    return vec![error(EBUSY)];
                }
                self.places.remove(&interface);
                vec![error(0)]
            }
            RouteNetlinkMessage::NewTrafficFilter(mut message) => {
                assert!(!self.stops_additions, "the test stops the writer");
                self.last_handle += 1;
                message.header.handle = TcHandle::from(self.last_handle);
                if self.spoils > 0 {
                    self.spoils -= 1;
                    spoil(&mut message);
                }
                self.rules.push(message.clone());
                vec![RouteNetlinkMessage::NewTrafficFilter(message).into()]
            }
            RouteNetlinkMessage::GetTrafficFilter(message) if is_list => {
                assert!(!self.stops_lists, "the test stops the reader");
                let is_there = |rule: &&TcMessage| {
                    rule.header.index == message.header.index
                        && message.header.parent.minor == TcHandle::MIN_INGRESS
                };
                let there = self.rules.iter().filter(is_there).cloned();
                let there = there.map(|rule| RouteNetlinkMessage::NewTrafficFilter(rule).into());
                there.chain([done()]).collect()
            }
            RouteNetlinkMessage::GetTrafficFilter(message) => match self.find(&message) {
                Some(at) => {
                    let rule = self.rules[at].clone();
                    vec![RouteNetlinkMessage::NewTrafficFilter(rule).into()]
                }
                None => vec![error(ENOENT)],
            },
            RouteNetlinkMessage::DelTrafficFilter(message) => match self.find(&message) {
                Some(at) => {
                    let rule = self.rules[at].clone();
                    if !self.keeps {
                        self.rules.remove(at);
                    }
                    vec![RouteNetlinkMessage::DelTrafficFilter(rule).into()]
                }
                None => vec![error(ENOENT)],
            },
            other => panic!("no request of the target: {other:?}"),
        }
    }

    fn link(&self, wanted: &LinkMessage) -> Payload {
        let named = |attribute: &LinkAttribute| match attribute {
            LinkAttribute::IfName(name) => name.trim_start_matches("nic").parse().ok(),
            _ => None,
        };
        let named = wanted.attributes.iter().find_map(named);
        let index = named.unwrap_or(wanted.header.index);
        if !(1..=3).contains(&index) || self.gone.contains(&index) {
            return error(19);
        }
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.attributes = vec![
            LinkAttribute::IfName(format!("nic{index}")),
            LinkAttribute::Mtu(9_000),
        ];
        RouteNetlinkMessage::NewLink(link).into()
    }

    fn find(&self, wanted: &TcMessage) -> Option<usize> {
        let place = codec::place_of(wanted);
        let mut rules = self.rules.iter();
        rules.position(|rule| codec::place_of(rule) == place)
    }
}

fn done() -> Payload {
    NetlinkPayload::Done(DoneMessage::default())
}

fn error(number: i32) -> Payload {
    let mut error = ErrorMessage::default();
    error.code = std::num::NonZeroI32::new(-number);
    error.header = vec![0; 16];
    NetlinkPayload::Error(error)
}

impl Transport for Kernel {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        let mut rest = requests;
        while !rest.is_empty() {
            let request = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .expect("a request can be read");
            let length = (request.header.length as usize).next_multiple_of(4);
            rest = &rest[length..];
            let NetlinkPayload::InnerMessage(message) = request.payload else {
                panic!("no request: {request:?}");
            };
            let answers = self.lock().answers(message, request.header.flags);
            for payload in answers {
                let mut header = NetlinkHeader::default();
                header.sequence_number = request.header.sequence_number;
                let mut message = NetlinkMessage::new(header, payload);
                message.finalize();
                let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
                message.serialize(&mut bytes);
                self.answers.push_back(bytes);
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.answers.pop_front().expect("each request is answered"))
    }

    fn discard(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> TcTargetOptions {
    let port = |number: u32| TcPort {
        port: PortId(number),
        interface: format!("nic{}", number + 1),
        no_ip_options: true,
        valid_ip_checksums: false,
    };
    let mut options = TcTargetOptions::new(OWNER, (0..3).map(port).collect());
    options.check_period = Nanos::from_millis(20);
    options
}

/// Returns a flow of one destination, from port 0 to port 1.
fn flow(last: u8) -> Flow {
    let bits = |offset, value: &[u8]| MatchedBits {
        offset,
        value: value.to_vec(),
        mask: vec![0xFF; value.len()],
    };
    Flow {
        ingress: PortId(0),
        matched: vec![bits(12, &[8, 0]), bits(30, &[10, 0, 0, last])],
        length: LengthRange {
            min: 34,
            max: 65535,
        },
        checksums: Vec::new(),
        steps: vec![Step::Output(PortId(1))],
        drop: None,
        met: Met::default(),
    }
}

/// Polls until this number of events is there.
fn wait(target: &mut TcTarget, count: usize) -> Vec<TargetEvent> {
    let begin = Instant::now();
    let mut events = Vec::new();
    while events.len() < count {
        target.poll(Nanos::from_millis(1), &mut events);
        assert!(begin.elapsed() < Duration::from_secs(20), "{events:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    events
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn add(target: &mut TcTarget, id: u64) {
    target.add(Nanos(0), vec![(RuleId(id), Arc::new(flow(id as u8)))]);
}

fn added(id: u64) -> TargetEvent {
    TargetEvent::Added(RuleId(id), Placed::NotInHardware)
}

#[test]
fn a_rule_with_an_echo_that_cannot_be_read_is_refused_and_does_not_stay() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    kernel.lock().spoils = 1;
    add(&mut target, 1);
    let events = wait(&mut target, 1);
    assert!(
        matches!(&events[..], [TargetEvent::Refused(RuleId(1), _)]),
        "{events:?}"
    );
    assert!(kernel.lock().rules.is_empty());
    add(&mut target, 2);
    assert_eq!(wait(&mut target, 1), [added(2)]);
    target.close().expect("all is removed");
}

#[test]
fn a_stray_rule_that_cannot_be_read_is_removed_and_others_stay() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    add(&mut target, 1);
    wait(&mut target, 1);
    kernel.put(1, 50);
    kernel.put(1, 51);
    let mut state = kernel.lock();
    let [_, stray, _] = &mut state.rules[..] else {
        panic!();
    };
    spoil(stray);
    drop(state);
    target.read(Nanos(0), &[RuleId(1)]);
    wait_until("the strays go", || target.report().counts.strays == 2);
    assert_eq!(kernel.lock().rules.len(), 1);
}

#[test]
fn a_rule_that_stays_at_the_start_is_an_error_and_counts_once() {
    let kernel = Kernel::default();
    kernel.put(2, 1);
    kernel.put(3, 2);
    kernel.lock().keeps = true;
    match kernel.open() {
        Err(TcError::Stuck(2)) => {}
        other => panic!("{:?}", other.map(|target| target.report())),
    }
    kernel.lock().keeps = false;
    let target = kernel.open().expect("it opens");
    assert_eq!(target.report().counts.removed_at_start, 2);
}

#[test]
fn an_interface_that_cannot_be_prepared_or_cleared_does_not_stop_the_others() {
    let kernel = Kernel::default();
    kernel.lock().busy.insert(1);
    assert!(matches!(kernel.open(), Err(TcError::Refused { .. })));
    assert_eq!(kernel.lock().places, BTreeSet::new());
    kernel.lock().busy.clear();
    let target = kernel.open().expect("it opens");
    // Their places are taken away, and only some can be made again.
    let mut state = kernel.lock();
    state.places.clear();
    state.busy.insert(1);
    drop(state);
    wait_until("the others are made again", || {
        kernel.lock().places == BTreeSet::from([2, 3])
    });
    assert!(matches!(target.close(), Err(TcError::Refused { .. })));
    assert_eq!(kernel.lock().places, BTreeSet::new());
}

#[test]
fn an_interface_gets_no_rules_before_the_priorities_of_others_on_it_are_known() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    let is_in = |target: &TcTarget, state| target.report().ports[0].state == state;
    kernel.lock().gone.insert(1);
    wait_until("it goes", || is_in(&target, InterfaceState::Gone));
    let mut state = kernel.lock();
    state.gone.clear();
    state.places.remove(&1);
    state.busy.insert(1);
    drop(state);
    wait_until("it comes", || is_in(&target, InterfaceState::Up));
    add(&mut target, 1);
    match &wait(&mut target, 1)[..] {
        [TargetEvent::Refused(RuleId(1), words)] => assert!(words.contains("prepared"), "{words}"),
        other => panic!("{other:?}"),
    }
    // It gets a place and a rule of another program with the first priority.
    kernel.put(1, 99);
    let mut id = 1;
    wait_until("rules are taken", || {
        id += 1;
        add(&mut target, id);
        wait(&mut target, 1) == [added(id)]
    });
    let state = kernel.lock();
    let priorities: Vec<u16> = state
        .rules
        .iter()
        .map(|rule| codec::place_of(rule).priority)
        .collect();
    assert_eq!(priorities, [1_000, 1_001]);
}

#[test]
fn a_reading_without_a_result_ends_the_frequent_looks() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    target.read(Nanos(0), &[RuleId(9)]);
    wait_until("the reading ends", || {
        let mut events = Vec::new();
        target.poll(Nanos(0), &mut events);
        assert_eq!(events, []);
        target.next_time() == Some(LATER)
    });
}

#[test]
fn without_its_reader_the_target_reads_and_removes_each_rule() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    add(&mut target, 1);
    wait(&mut target, 1);
    kernel.lock().stops_lists = true;
    target.read(Nanos(0), &[RuleId(1)]);
    wait_until("the reader ends", || has_ended(&target.reader));
    kernel.lock().stops_lists = false;
    target.read(Nanos(0), &[RuleId(1)]);
    let events = wait(&mut target, 1);
    assert!(
        matches!(&events[..], [TargetEvent::Counts(RuleId(1), ..)]),
        "{events:?}"
    );
    target.remove(Nanos(0), &[RuleId(1)]);
    let events = wait(&mut target, 1);
    assert!(
        matches!(&events[..], [TargetEvent::Removed(RuleId(1), _)]),
        "{events:?}"
    );
    assert!(kernel.lock().rules.is_empty());
    assert!(matches!(target.close(), Err(TcError::Panicked(READER))));
}

#[test]
fn without_its_writer_the_target_refuses_rules_and_its_end_is_an_error() {
    let kernel = Kernel::default();
    let mut target = kernel.open().expect("it opens");
    kernel.lock().stops_additions = true;
    add(&mut target, 1);
    wait_until("the writer ends", || has_ended(&target.writer));
    add(&mut target, 2);
    let events = wait(&mut target, 1);
    assert!(
        matches!(&events[..], [TargetEvent::Refused(RuleId(2), _)]),
        "{events:?}"
    );
    assert!(matches!(target.close(), Err(TcError::Panicked(WRITER))));
}

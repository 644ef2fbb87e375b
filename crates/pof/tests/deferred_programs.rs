//! Programs that are made while the one before goes on: what packets, sessions and tables see.

use std::sync::Arc;

use exec::{Engine, Loaded, Natives, Unsupported};
use ir::{Layout, Program};
use packet::{Nanos, PortId};
use pof::session::Session;
use pof::text::TextReader;
use pof::wire::{
    Body, ErrorMessage, FlowCommand, FlowMod, Message, decode, encode, message_length,
};
use pof::{ControlledSwitch, Forwarder, ForwarderOptions, MadeProgram, ObjectKey, SessionId};
use support::rng::Rng;

/// An engine that does not run programs with a field of 13 bits.
struct Picky;

impl Engine for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        if program.to_string().contains("bit<13>") {
            return Err(Unsupported {
                construct: "a field of 13 bits".to_owned(),
                loc: None,
            });
        }
        interp::Interp.load(program, layout, natives)
    }
}

/// A switch with ports 1 to 3, of which programs are made elsewhere.
struct Bed {
    switch: ControlledSwitch,
    now: Nanos,
    reader: TextReader,
}

impl Bed {
    fn new() -> Bed {
        let mut bed = Bed::inline();
        bed.switch.forwarder.defer_programs();
        bed
    }

    /// Creates a switch in which a message makes its program at once.
    fn inline() -> Bed {
        let ports = (1..=3).map(|id| pof::port(77, id, "eth")).collect();
        let forwarder = Forwarder::new(Arc::new(Picky), ForwarderOptions::default()).unwrap();
        let switch = ControlledSwitch::new(forwarder, 77, ports).unwrap();
        let reader = TextReader::new(switch.forwarder.tables().clone());
        Bed {
            switch,
            now: Nanos(0),
            reader,
        }
    }

    fn session(&mut self, number: u64) -> Session {
        let mut session = Session::new(SessionId(number), &self.switch);
        session.receive(&bytes(0, Body::Hello), &mut self.switch);
        session.take_output();
        session
    }

    /// Returns the message of a line.
    fn body(&mut self, line: &str) -> Body {
        self.reader.read(line).unwrap().unwrap()
    }

    fn say(&mut self, session: &mut Session, lines: &[&str]) {
        for line in lines {
            let body = self.body(line);
            session.receive(&bytes(5, body), &mut self.switch);
        }
    }

    /// Begins the next program, and makes it on another thread.
    fn make(&mut self) -> Option<MadeProgram> {
        let job = self.switch.forwarder.take_job()?;
        Some(std::thread::spawn(|| job.run()).join().unwrap())
    }

    fn finish(&mut self, made: MadeProgram, sessions: &mut [&mut Session]) {
        drop(self.switch.forwarder.finish(made));
        for session in sessions {
            session.receive(&[], &mut self.switch);
        }
    }

    /// Makes all programs for which messages wait.
    fn settle(&mut self, sessions: &mut [&mut Session]) {
        while let Some(made) = self.make() {
            self.finish(made, sessions);
        }
    }

    /// Lets a frame in, and returns the frames that leave.
    fn frame(&mut self, last: u8) -> Vec<(u16, Vec<u8>)> {
        self.now = Nanos(self.now.0 + 1);
        let device = self.switch.forwarder.device();
        device.receive(PortId(1), &ipv4(last)).unwrap();
        device.step(self.now);
        device.check_conservation().unwrap();
        let mut sent = Vec::new();
        self.switch
            .drain(|port, bytes| sent.push((port, bytes.to_vec())));
        sent
    }
}

fn bytes(xid: u32, body: Body) -> Vec<u8> {
    encode(&Message { xid, body })
}

/// Returns the messages that a session has sent since the last call.
fn replies(session: &mut Session) -> Vec<(u32, Body)> {
    let output = session.take_output();
    let mut rest = output.as_slice();
    let mut messages = Vec::new();
    while let Some(length) = message_length(rest) {
        let message = decode(&rest[..length]).unwrap();
        messages.push((message.xid, message.body));
        rest = &rest[length..];
    }
    messages
}

/// Returns the types and codes of errors, which must be all replies.
fn errors(session: &mut Session) -> Vec<(u16, u16)> {
    let code = |(_, body)| match body {
        Body::Error(ErrorMessage { kind, code, .. }) => (kind, code),
        other => panic!("{other:?}"),
    };
    replies(session).into_iter().map(code).collect()
}

/// Returns a frame of 64 bytes to this address.
fn ipv4(last: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..64).collect();
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[30..34].copy_from_slice(&[10, 0, 0, last]);
    frame
}

const TABLE: &str = "table add mm/0 size 16 fields dst=240/32";
const OLD: &str = "flow add mm/0 index 0 counter 1 match 240/32=10.0.0.1 do output 2";
const NEW: &str =
    "flow modify mm/0 index 0 counter 1 match 240/32=10.0.0.1 do set_field 0/8=9, output 3";

/// A session on a switch with one flow.
fn one_flow(bed: &mut Bed) -> Session {
    let mut session = bed.session(0);
    bed.say(&mut session, &[TABLE, OLD]);
    bed.settle(&mut [&mut session]);
    assert_eq!(replies(&mut session), []);
    assert_eq!(bed.frame(1), [(2, ipv4(1))]);
    session
}

#[test]
fn packets_follow_the_old_list_until_the_new_program_is_there() {
    let mut bed = Bed::new();
    let mut session = one_flow(&mut bed);
    let programs = bed.switch.forwarder.programs();
    bed.say(&mut session, &[NEW]);
    assert!(session.waits_for_program(&bed.switch));
    assert_eq!(bed.frame(1), [(2, ipv4(1))]);
    let made = bed.make().unwrap();
    assert_eq!(bed.frame(1), [(2, ipv4(1))]);
    bed.finish(made, &mut [&mut session]);
    let mut changed = ipv4(1);
    changed[0] = 9;
    assert_eq!(bed.frame(1), [(3, changed)]);
    assert_eq!(replies(&mut session), []);
    assert_eq!(bed.switch.forwarder.programs(), programs + 1);
    // The counts of the entry and of its counter go on, also those while the program was made.
    assert_eq!(bed.switch.forwarder.counter(1).packets, 4);
    let table = pof::tables::TableNumber::FIRST;
    let (count, _) = bed.switch.forwarder.usage(table, 0).unwrap();
    assert_eq!(count.packets, 4);
}

#[test]
fn answers_keep_their_order_while_a_program_is_made_and_echoes_pass_up_to_a_barrier() {
    let mut bed = Bed::new();
    let mut session = one_flow(&mut bed);
    let echo = |number: u8| Body::EchoRequest(vec![number]);
    let refused = bed.body("flow delete mm/0 index 7");
    let new = bed.body(NEW);
    let wanted = [
        new,
        echo(1),
        refused,
        echo(2),
        Body::BarrierRequest,
        echo(3),
        Body::FeaturesRequest,
    ];
    let text: Vec<u8> = (0..)
        .zip(wanted)
        .flat_map(|(xid, body)| bytes(xid, body))
        .collect();
    // The last message comes in two parts.
    let (first, last) = text.split_at(text.len() - 3);
    session.receive(first, &mut bed.switch);
    let reply = |xid, number| (xid, Body::EchoReply(vec![number]));
    assert_eq!(replies(&mut session), [reply(1, 1), reply(3, 2)]);
    session.receive(last, &mut bed.switch);
    assert_eq!(replies(&mut session), []);
    // Another controller goes on, and sees the switch as it is.
    let mut other = bed.session(1);
    other.receive(&bytes(8, Body::BarrierRequest), &mut bed.switch);
    bed.say(&mut other, &["flow delete mm/0 index 7"]);
    let of_other = replies(&mut other);
    assert_eq!(of_other[0], (8, Body::BarrierReply));
    assert!(matches!(of_other[1], (5, Body::Error(_))));
    bed.settle(&mut [&mut session, &mut other]);
    let all = replies(&mut session);
    assert!(matches!(all[0], (2, Body::Error(_))), "{all:?}");
    assert_eq!(all[1..3], [(4, Body::BarrierReply), reply(5, 3)]);
    assert!(matches!(all[3], (6, Body::FeaturesReply(_))));
    assert_eq!(all.len(), 4);
}

#[test]
fn all_shapes_that_come_while_a_program_is_made_share_the_next_one() {
    let mut bed = Bed::new();
    let mut first = one_flow(&mut bed);
    let programs = bed.switch.forwarder.programs();
    bed.say(&mut first, &[NEW]);
    let made = bed.make().unwrap();
    assert!(bed.make().is_none(), "one program at a time");
    let mut others = [bed.session(1), bed.session(2)];
    for (number, other) in (2_u8..).zip(&mut others) {
        let set = |at: u8| {
            format!(
                "flow add mm/0 index {} match 240/32=10.0.{at}.{number} do set_field {}/8=1, output 3",
                2 * number + at,
                8 * number + 48 * at
            )
        };
        let lines = [set(0), set(1)];
        let text: Vec<u8> = lines
            .iter()
            .flat_map(|line| bytes(5, bed.body(line)))
            .collect();
        other.receive(&text, &mut bed.switch);
    }
    let [one, two] = &mut others;
    bed.finish(made, &mut [&mut first, one, two]);
    assert!(bed.frame(1)[0].0 == 3 && bed.frame(2).is_empty());
    bed.settle(&mut [&mut first, one, two]);
    assert_eq!(bed.frame(2).len(), 1);
    assert_eq!(bed.frame(3).len(), 1);
    assert_eq!(bed.switch.forwarder.programs(), programs + 2);
    let table = bed.switch.forwarder.tables().tables().next().unwrap().1;
    assert_eq!(table.len(), 5);
}

#[test]
fn a_controller_that_ends_while_its_program_is_made_does_no_harm() {
    let mut bed = Bed::new();
    let mut session = one_flow(&mut bed);
    bed.say(&mut session, &[NEW]);
    let made = bed.make().unwrap();
    session.leave(&mut bed.switch);
    drop(session);
    bed.finish(made, &mut []);
    assert_eq!(bed.frame(1), [(2, ipv4(1))]);
    let mut other = bed.session(1);
    bed.say(&mut other, &[NEW]);
    bed.settle(&mut [&mut other]);
    assert_eq!(replies(&mut other), []);
    assert_eq!(bed.frame(1)[0].0, 3);
}

#[test]
fn a_program_that_cannot_be_made_refuses_its_message_and_no_other() {
    let mut bed = Bed::new();
    let mut first = one_flow(&mut bed);
    let mut second = bed.session(1);
    let lines = |last: u8, width: u8| {
        format!(
            "flow add mm/0 index {last} match 240/32=10.0.0.{last} do set_field 0/{width}=1, output 3"
        )
    };
    let texts = [
        [lines(2, 7), lines(3, 13), lines(4, 9)],
        [lines(5, 11), lines(6, 14), lines(7, 15)],
    ];
    for (session, texts) in [&mut first, &mut second].into_iter().zip(&texts) {
        let mut text = Vec::new();
        for line in texts {
            text.extend(bytes(5, bed.body(line)));
        }
        text.extend(bytes(6, Body::BarrierRequest));
        session.receive(&text, &mut bed.switch);
    }
    bed.settle(&mut [&mut first, &mut second]);
    let of_first = replies(&mut first);
    assert!(matches!(of_first[0], (5, Body::Error(_))), "{of_first:?}");
    assert_eq!(of_first[1..], [(6, Body::BarrierReply)]);
    assert_eq!(replies(&mut second), [(6, Body::BarrierReply)]);
    for last in [2, 4, 5, 6, 7] {
        assert_eq!(bed.frame(last).len(), 1, "{last}");
    }
    assert!(bed.frame(3).is_empty());
    // A program for several messages is tried again afterwards.
    let text: Vec<u8> = [8, 9]
        .map(|last| bytes(5, bed.body(&lines(last, 12 + 8 * last))))
        .concat();
    let programs = bed.switch.forwarder.programs();
    first.receive(&text, &mut bed.switch);
    bed.settle(&mut [&mut first]);
    assert_eq!(replies(&mut first), []);
    assert_eq!(bed.switch.forwarder.programs(), programs + 1);
}

#[test]
fn tables_and_groups_change_when_their_program_is_there() {
    let mut bed = Bed::new();
    let mut session = one_flow(&mut bed);
    let mut other = bed.session(1);
    bed.say(&mut session, &["table modify mm/0 size 20 fields 240/32"]);
    assert!(session.waits_for_program(&bed.switch));
    bed.settle(&mut [&mut session]);
    let size = |bed: &Bed| {
        let mut tables = bed.switch.forwarder.tables().tables();
        tables.next().map(|(_, table)| table.size)
    };
    assert_eq!(size(&bed), Some(20));
    // A group's entries get its actions with the program for them.
    let group = "group add 1 all do output 2";
    let flow = "flow add mm/0 index 5 match 240/32=10.0.0.5 do group 1";
    bed.say(&mut session, &[group, flow]);
    bed.settle(&mut [&mut session]);
    assert_eq!(bed.frame(5).len(), 1);
    bed.say(&mut session, &["group modify 1 all do output 2, output 3"]);
    assert_eq!(bed.frame(5).len(), 1);
    bed.settle(&mut [&mut session]);
    assert_eq!(bed.frame(5).len(), 2);
    bed.say(
        &mut session,
        &["flow delete mm/0 index 0", "flow delete mm/0 index 5"],
    );
    assert_eq!(replies(&mut session), []);
    // A flow that comes for it while its program is made finds it gone.
    bed.say(&mut session, &["table delete mm/0"]);
    let made = bed.make().unwrap();
    bed.say(
        &mut other,
        &["flow add mm/0 index 1 match 240/32=10.0.0.7 do output 2"],
    );
    bed.finish(made, &mut [&mut session, &mut other]);
    bed.settle(&mut [&mut session, &mut other]);
    assert_eq!(replies(&mut session), []);
    assert_eq!(errors(&mut other).len(), 1);
    assert!(bed.frame(7).is_empty());
    assert_eq!(size(&bed), None);
}

#[test]
fn a_fast_failover_group_follows_its_ports_when_the_program_is_there() {
    let mut bed = Bed::new();
    let mut session = one_flow(&mut bed);
    // Without a port the list is another one.
    let group = "group add 1 fast_failover do output 3";
    let flow = "flow add mm/0 index 5 match 240/32=10.0.0.5 do group 1";
    bed.say(&mut session, &[group, flow]);
    bed.settle(&mut [&mut session]);
    assert_eq!(bed.frame(5)[0].0, 3);
    // A program for something else is made meanwhile.
    bed.say(&mut session, &[NEW]);
    let made = bed.make().unwrap();
    bed.switch.set_link(3, false).unwrap();
    let programs = bed.switch.forwarder.programs();
    bed.finish(made, &mut [&mut session]);
    assert_eq!(bed.switch.forwarder.programs(), programs + 1);
    assert_eq!(bed.frame(5)[0].0, 3);
    bed.settle(&mut [&mut session]);
    assert!(bed.frame(5).is_empty());
    assert_eq!(bed.switch.forwarder.programs(), programs + 2);
    bed.switch.set_link(3, true).unwrap();
    bed.settle(&mut [&mut session]);
    assert_eq!(bed.frame(5)[0].0, 3);
}

/// Lines that add a table and a flow in it.
const TABLE_AND_FLOW: [&str; 2] = [
    "table add mm/0 size 4 fields 240/32",
    "flow add mm/0 index 0 match 240/32=10.0.0.5 do output 2",
];

#[test]
fn a_table_that_changes_while_its_first_program_is_made_has_its_new_keys() {
    let mut bed = Bed::new();
    let (mut gone, mut session) = (bed.session(0), bed.session(1));
    let other = [
        "table add mm/0 size 4 fields 208/32",
        "flow add mm/0 index 0 match 208/32=10.0.0.5 do output 2",
    ];
    bed.say(&mut gone, &other);
    let made = bed.make().unwrap();
    gone.leave(&mut bed.switch);
    bed.say(&mut session, &["table modify mm/0 size 4 fields 240/32"]);
    bed.finish(made, &mut [&mut session]);
    bed.settle(&mut [&mut session]);
    bed.say(&mut session, &TABLE_AND_FLOW[1..]);
    bed.settle(&mut [&mut session]);
    assert_eq!(errors(&mut session), []);
    assert_eq!(bed.frame(5)[0].0, 2);
}

#[test]
fn a_shape_of_a_table_that_was_deleted_before_the_job_is_new_again() {
    let mut bed = Bed::new();
    let (mut waiting, mut session) = (bed.session(0), bed.session(1));
    bed.say(&mut waiting, &TABLE_AND_FLOW);
    bed.say(&mut session, &["table delete mm/0"]);
    bed.settle(&mut [&mut waiting, &mut session]);
    assert_eq!(errors(&mut waiting).len(), 1);
    bed.say(&mut session, &TABLE_AND_FLOW);
    bed.settle(&mut [&mut waiting, &mut session]);
    assert_eq!(errors(&mut session), []);
    assert_eq!(bed.frame(5)[0].0, 2);
}

/// Returns a line that changes a table or a flow.
fn random_line(rng: &mut Rng) -> String {
    let table = rng.index(2);
    let index = rng.index(4);
    let last = rng.index(4);
    let width = 4 + 3 * rng.index(4);
    let verb = ["add", "modify", "delete"][rng.index(3)];
    match (rng.index(8), verb) {
        (0, "delete") => format!("table delete mm/{table}"),
        (0, verb) => format!(
            "table {verb} mm/{table} size {} fields 240/{}",
            4 + rng.index(3),
            24 + 8 * rng.index(2)
        ),
        (_, "delete") => format!("flow delete mm/{table} index {index}"),
        (_, verb) => format!(
            "flow {verb} mm/{table} index {index} counter 1 match 240/32=10.0.0.{last} do set_field 8/{width}={}, {}",
            rng.index(16),
            ["output 2", "output 3", "output 2, output 3"][rng.index(3)],
        ),
    }
}

#[test]
fn tables_that_one_session_changes_while_another_waits_are_those_of_the_program() {
    for seed in 0..60 {
        let mut rng = Rng::new(1000 + seed);
        let mut bed = Bed::new();
        let mut sessions = [bed.session(0), bed.session(1)];
        let mut made: Option<MadeProgram> = None;
        for xid in 0..80 {
            let body = bed.body(&random_line(&mut rng));
            let message = bytes(xid, body);
            sessions[rng.index(2)].receive(&message, &mut bed.switch);
            if rng.one_in(3) {
                let [a, b] = &mut sessions;
                match made.take() {
                    Some(made) => bed.finish(made, &mut [a, b]),
                    None => made = bed.make(),
                }
            }
        }
        let [a, b] = &mut sessions;
        if let Some(made) = made {
            bed.finish(made, &mut [a, b]);
        }
        bed.settle(&mut [a, b]);
        // A switch that gets all objects at once.
        let mut fresh = Bed::inline();
        let tables = bed.switch.forwarder.tables();
        for key in ObjectKey::all(tables) {
            let object = key.message(tables).expect("the object is there");
            let made = fresh.switch.forwarder.make(&object);
            made.unwrap_or_else(|error| panic!("seed {seed}, {key:?}: {error:?}"));
        }
        for last in 0..4 {
            assert_eq!(bed.frame(last), fresh.frame(last), "seed {seed}");
        }
        // Each known shape can be inserted.
        for key in ObjectKey::all(bed.switch.forwarder.tables()) {
            let entry = key.message(bed.switch.forwarder.tables());
            let Some(Body::FlowMod(entry)) = entry else {
                continue;
            };
            let delete = FlowMod {
                command: FlowCommand::Delete,
                ..entry.clone()
            };
            let [a, b] = &mut sessions;
            a.receive(&bytes(1000, Body::FlowMod(delete)), &mut bed.switch);
            a.receive(&bytes(1001, Body::FlowMod(entry)), &mut bed.switch);
            bed.settle(&mut [a, b]);
            let tables = bed.switch.forwarder.tables();
            assert!(key.message(tables).is_some(), "seed {seed}, {key:?}");
        }
    }
}

#[test]
fn any_order_of_messages_and_programs_gives_the_answers_of_programs_made_at_once() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut late, mut at_once) = (Bed::new(), Bed::inline());
        let mut session = late.session(0);
        let mut twin = at_once.session(0);
        let mut made: Option<MadeProgram> = None;
        for xid in 0..60 {
            let line = random_line(&mut rng);
            let body = match rng.index(6) {
                0 => Body::BarrierRequest,
                _ => late.body(&line),
            };
            let message = bytes(xid, body);
            session.receive(&message, &mut late.switch);
            twin.receive(&message, &mut at_once.switch);
            if rng.one_in(2) {
                match made.take() {
                    Some(made) => late.finish(made, &mut [&mut session]),
                    None => made = late.make(),
                }
            }
        }
        if let Some(made) = made {
            late.finish(made, &mut [&mut session]);
        }
        late.settle(&mut [&mut session]);
        assert_eq!(replies(&mut session), replies(&mut twin), "seed {seed}");
        assert_eq!(
            late.switch.forwarder.tables(),
            at_once.switch.forwarder.tables()
        );
        for last in 0..4 {
            assert_eq!(late.frame(last), at_once.frame(last), "seed {seed}");
        }
    }
}

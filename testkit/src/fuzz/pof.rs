//! The target `pof`: messages of a controller, right and damaged, into a session. A switch on
//! `interp` and one on `jit` answer alike and do the same to frames, all packets are accounted for,
//! and the answer to QUERYALL makes the state again.

use std::sync::Arc;

use exec::Engine;
use packet::{Nanos, PortId};
use pof::session::Session;
use pof::tables::{Limits, Tables};
use pof::text::{TextReader, remake};
use pof::wire::{Body, FlowCommand, FlowMod, Message, decode, encode, message_length};
use pof::{ControlledSwitch, Forwarder, ForwarderOptions, SessionId};
use support::rng::Rng;

use super::guard::guarded;
use super::{Case, Fault};

/// Messages of a case after the first ones.
const MESSAGES: usize = 12;

/// Bytes of a FLOW_MOD that mean something: header, match, instructions.
const MEANINGFUL: [std::ops::Range<usize>; 6] =
    [0..48, 48..90, 368..400, 376..470, 672..770, 976..1_010];

/// Objects, from which messages are made.
const LINES: &str = "\
table add mm/0 size 16 name \"first\" fields 96/16 meta:16/8
table add lpm/0 size 8 fields 240/32
table add em/0 size 8 fields 0/48
table add linear/0 size 4
meter add 1 rate 100000
group add 1 all counter 3 do output 2, output 3
group add 2 select do output 1, output 2, output 3
group add 3 fast_failover do output 3, output 1
flow add mm/0 priority 3 counter 1 match 96/16=0x800 meta:16/8=* do goto lpm/0
flow add mm/0 priority 2 match 96/16=0x806 meta:16/8=1 do group 2; meter 1
flow add mm/0 priority 1 idle 3 match 96/16=* meta:16/8=* do goto em/0
flow add lpm/0 cookie 7 match 240/32=10.0.0.0/8 do set_field 240/32=10.2.2.2, calculate_checksum 192/16 112/160, output 2
flow add lpm/0 match 240/32=10.1.0.0/16 do add_field 112/32=0x0a0a0908; move_packet_offset +4; write_actions output 3, group 2; goto em/0 offset 2
flow add lpm/0 hard 9 match 240/32=* do packet_in 4, delete_field 96 32, output in_port
flow add em/0 match 0/48=0x000102030405 do modify_field 176/8 -1, output flood, group 1; compare 0 64/8 [72/8]; goto_direct linear/0 [6/2]
flow add linear/0 do branch 0/8 3 2; output 1; jump +0; output 2
flow add linear/0 do write_metadata 64/16=0x1234; set_field_from_metadata 8/16 64; output 2 metadata 64/16 skip 4; clear_actions
counter add 9
";

fn bodies() -> Vec<Body> {
    let mut reader = TextReader::new(Tables::new(Limits::default()));
    let lines = LINES.lines();
    lines.filter_map(|line| reader.read(line).ok()?).collect()
}

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let messages: Vec<Vec<u8>> = (0..MESSAGES).map(|_| message(&mut choices)).collect();
    let frames: Vec<Vec<u8>> = (0..MESSAGES).map(|_| frame(&mut choices)).collect();
    let given = messages.clone();
    let fault = match guarded(case.limit, move || play(&given, &frames)) {
        Ok(Ok(made)) => {
            if made {
                case.accept();
            }
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("handling messages"),
    };
    let lines = messages.iter().map(|bytes| format!("{bytes:02x?}\n"));
    Some((fault, lines.collect()))
}

/// Returns a message, mostly with some bytes changed.
fn message(choices: &mut Rng) -> Vec<u8> {
    let bodies = bodies();
    let body = match choices.pick(&bodies).cloned().unwrap_or(Body::Hello) {
        // Its index is in use.
        Body::FlowMod(flow) => Body::FlowMod(FlowMod {
            command: match choices.index(4) {
                0 => FlowCommand::Delete,
                1 => FlowCommand::ModifyStrict,
                _ => FlowCommand::Modify,
            },
            ..flow
        }),
        body => body,
    };
    let mut bytes = encode(&Message { xid: 1, body });
    for _ in 0..choices.index(4) {
        let part = MEANINGFUL[choices.index(MEANINGFUL.len())].clone();
        let at = part.start + choices.index(part.len());
        let values = [0, 1, 2, 4, 8, 31, 255, choices.bits() as u8];
        if let Some(byte) = bytes.get_mut(at) {
            *byte = values[choices.index(values.len())];
        }
    }
    if choices.one_in(40) {
        bytes.truncate(choices.index(bytes.len()));
    }
    bytes
}

fn frame(choices: &mut Rng) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..80).collect();
    let kind = [[8, 0], [8, 6], [9, 9]][choices.index(3)];
    frame[12..14].copy_from_slice(&kind);
    frame[30..34].copy_from_slice(&[10, choices.index(3) as u8, 0, 1]);
    frame.truncate(1 + choices.index(80));
    frame
}

/// A switch with one controller.
struct Side {
    switch: ControlledSwitch,
    session: Session,
}

/// Answers, and frames that leave with their ports.
type Effects = (Vec<u8>, Vec<(u16, Vec<u8>)>);

impl Side {
    fn new(engine: Arc<dyn Engine>) -> Result<Side, Fault> {
        let defect = |what: String| Fault::new("a switch cannot be made", what);
        let forwarder = Forwarder::new(engine, ForwarderOptions::default());
        let forwarder = forwarder.map_err(|error| defect(error.to_string()))?;
        let ports = (1..=3).map(|id| pof::port(1, id, "port")).collect();
        let switch = ControlledSwitch::new(forwarder, 1, ports);
        let switch = switch.map_err(|error| defect(error.to_string()))?;
        let session = Session::new(SessionId(0), &switch);
        Ok(Side { switch, session })
    }

    fn tell(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.session.receive(bytes, &mut self.switch);
        self.session.take_output()
    }

    fn step(&mut self, bytes: &[u8], frame: &[u8], now: Nanos) -> Result<Effects, Fault> {
        let mut answers = self.tell(bytes);
        let device = self.switch.forwarder.device();
        let _ = device.receive(PortId(1), frame);
        device.step(now);
        self.switch.forwarder.expire();
        let mut sent = Vec::new();
        let events = self
            .switch
            .drain(|port, bytes| sent.push((port, bytes.to_vec())));
        let balance = self.switch.forwarder.device().check_conservation();
        balance.map_err(|error| Fault::new("packets are not conserved", error.to_string()))?;
        for event in events {
            self.session.notify(&event, &self.switch, now);
        }
        answers.extend(self.session.take_output());
        Ok((answers, sent))
    }

    /// Returns the objects as a new controller of the switch sees them.
    fn objects(&mut self) -> Vec<Body> {
        let mut session = Session::new(SessionId(1), &self.switch);
        session.receive(&ask(Body::Hello), &mut self.switch);
        session.take_output();
        session.receive(&ask(Body::QueryAllRequest(0)), &mut self.switch);
        bodies_of(&session.take_output())
    }
}

fn ask(body: Body) -> Vec<u8> {
    encode(&Message { xid: 1, body })
}

fn bodies_of(mut bytes: &[u8]) -> Vec<Body> {
    let mut bodies = Vec::new();
    while let Some(length) = message_length(bytes) {
        let Some((message, rest)) = bytes.split_at_checked(length) else {
            break;
        };
        bodies.extend(decode(message).ok().map(|message| message.body));
        bytes = rest;
    }
    bodies
}

/// Returns an object without what it has counted.
fn uncounted(body: Body) -> Body {
    match body {
        Body::CounterReply(counter) => Body::CounterReply(pof::wire::Counter {
            packets: 0,
            bytes: 0,
            ..counter
        }),
        body => body,
    }
}

/// Plays a case. Returns true if entries are left at its end.
fn play(messages: &[Vec<u8>], frames: &[Vec<u8>]) -> Result<bool, Fault> {
    let reference: Arc<dyn Engine> = Arc::new(interp::Interp);
    let native: Arc<dyn Engine> = Arc::new(jit::Jit::new(Arc::clone(&reference)));
    let mut sides = [Side::new(Arc::clone(&reference))?, Side::new(native)?];
    let mut first = ask(Body::Hello);
    bodies()
        .into_iter()
        .for_each(|body| first.extend(ask(body)));
    let steps = std::iter::once(&first).chain(messages);
    for (at, (bytes, frame)) in steps.zip(frames).enumerate() {
        let now = Nanos(1_000_000_000 * at as u64);
        let [one, other] = &mut sides;
        let (one, other) = (one.step(bytes, frame, now)?, other.step(bytes, frame, now)?);
        if one != other {
            let detail = format!("step {at}: interp {one:02x?}, jit {other:02x?}");
            return Err(Fault::new("engines differ on POF", detail));
        }
    }
    let [one, _] = &mut sides;
    let objects = one.objects();
    let mut copy = Side::new(reference)?;
    copy.tell(&ask(Body::Hello));
    for body in remake(&objects) {
        copy.tell(&ask(body));
    }
    let copied: Vec<Body> = copy.objects().into_iter().map(uncounted).collect();
    let objects: Vec<Body> = objects.into_iter().map(uncounted).collect();
    if copied != objects {
        let detail = format!("{objects:02x?}\n{copied:02x?}");
        return Err(Fault::new("a dump makes another state", detail));
    }
    let has_entry = |body: &Body| matches!(body, Body::FlowMod(_));
    Ok(objects.iter().any(has_entry))
}

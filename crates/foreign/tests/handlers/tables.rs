//! Handlers find, insert, modify and delete entries of mirrored tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use packet::Nanos;
use switch::{Action, Change, Device, Record, TableEntry};

use crate::common::{each_device, forward, program, send};

const TABLE: TableId = TableId::new(0);

/// Operations of the handler: a packet has one, a key and a port.
const NOTHING: u8 = 0;
const FIND: u8 = 1;
const INSERT: u8 = 2;
const MODIFY: u8 = 3;
const DELETE: u8 = 4;
const BAD_ACTION: u8 = 5;

/// Each packet calls the handler, then applies the table. A hit sends the packet to the entry's
/// port, a miss to port 1. `code` is the handler's result.
fn flows() -> Arc<Program> {
    let declarations = r#"
extern ingress.ask: handler request req {op: bit<8>, key: bit<80>, port: bit<9>, idle: bit<32>} response res {code: bit<8>, port: bit<9>}
field meta.port: bit<9>
action ingress.to(wide: bit<72>, port: bit<9>) {
    sm.egress_spec = %port;
}
action ingress.flag(port: bit<9>, flag: bool) {
    sm.egress_spec = %flag ? %port : 9w0x0;
}
action ingress.unknown() {
    sm.egress_spec = 9w0x1;
}
table ingress.flows {
    key hdr.h.key: exact as bit<80> = hdr.h.key;
    action ingress.to tableonly;
    action ingress.flag tableonly;
    action ingress.unknown defaultonly;
    default ingress.unknown();
    size 4;
    mirror 2;
}
"#;
    let ingress = r#"    stage ingress.call: action next ingress.after {
        call remote on ingress.ask ({hdr.h.op, hdr.h.key, hdr.h.port[8:0], hdr.h.idle}, out {hdr.h.code, meta.port});
    }
    stage ingress.after: action next ingress.flows {
        hdr.h.port = bit<16>(meta.port);
    }
    stage ingress.flows: match ingress.flows next end;"#;
    let fields = "    op: bit<8>;
    key: bit<80>;
    port: bit<16>;
    idle: bit<32>;
    code: bit<8>;";
    program(fields, declarations, ingress)
}

const ASK: &str = r#"
int ask(clip_t *c, const struct req *q, struct res *r)
{
    struct flows_key k;
    struct flows_entry e;
    memset(&e, 0, sizeof e);
    memcpy(k.key, q->key, sizeof k.key);
    if (q->port % 2) {
        e.action = FLOWS_TO;
        e.u.to.wide[0] = 7;
        e.u.to.port = q->port;
    } else {
        e.action = FLOWS_FLAG;
        e.u.flag.port = q->port;
        e.u.flag.flag = true;
    }
    switch (q->op) {
    case 1:
        r->code = flows_find(c, &k, &e);
        if (r->code)
            r->port = e.action == FLOWS_TO ? e.u.to.port : e.u.flag.port;
        if (r->code && e.action == FLOWS_TO && e.u.to.wide[0] != 7)
            return clip_drop(c, "wrong");
        break;
    case 2:
        r->code = flows_insert(c, &k, &e, q->idle);
        break;
    case 3:
        r->code = flows_modify(c, &k, &e);
        break;
    case 4:
        r->code = flows_delete(c, &k);
        break;
    case 5:
        e.action = 2;
        r->code = 10 * flows_insert(c, &k, &e, 0) + flows_modify(c, &k, &e);
        break;
    }
    return CLIP_OK;
}
"#;

fn packet(op: u8, key: u8, port: u16, idle: u32) -> Vec<u8> {
    let mut bytes = vec![op, 0xfe, 0, 0, 0, 0, 0, 0, 0, 1, key];
    bytes.extend(port.to_be_bytes());
    bytes.extend(idle.to_be_bytes());
    bytes.push(0);
    bytes
}

/// Returns the handler's result, the port in its response and the packet's egress port.
fn result((egress, bytes): &(u32, Vec<u8>)) -> (u8, u16, u32) {
    (
        bytes[17],
        u16::from_be_bytes([bytes[11], bytes[12]]),
        *egress,
    )
}

fn ask(device: &mut Device, op: u8, key: u8, port: u16) -> (u8, u16, u32) {
    result(&send(device, &packet(op, key, port, 0), 0)[0])
}

#[test]
fn the_next_packet_sees_what_a_handler_writes() {
    each_device(&flows(), ASK, |device| {
        for (op, key, port, expect) in [
            (NOTHING, 1, 0, (0, 0, 1)),
            (FIND, 1, 0, (0, 0, 1)),
            (MODIFY, 1, 5, (0, 0, 1)),
            (DELETE, 1, 5, (0, 0, 1)),
            (INSERT, 1, 5, (0, 0, 5)),
            (NOTHING, 1, 0, (0, 0, 5)),
            (NOTHING, 2, 0, (0, 0, 1)),
            (FIND, 1, 0, (1, 5, 5)),
            (INSERT, 1, 6, (1, 0, 5)),
            (MODIFY, 1, 6, (1, 0, 6)),
            (FIND, 1, 0, (1, 6, 6)),
            (MODIFY, 1, 7, (1, 0, 7)),
            (INSERT, 2, 4, (0, 0, 4)),
            (INSERT, 3, 4, (0, 0, 4)),
            (INSERT, 4, 4, (0, 0, 4)),
            (INSERT, 5, 4, (2, 0, 1)),
            (DELETE, 1, 0, (1, 0, 1)),
            (DELETE, 1, 0, (0, 0, 1)),
            (INSERT, 5, 3, (0, 0, 3)),
            (BAD_ACTION, 6, 3, (30, 0, 1)),
        ] {
            assert_eq!(ask(device, op, key, port), expect, "{op} {key} {port}");
        }
    });
}

fn entry(key: u8, port: u128) -> TableEntry {
    let bytes = [0xfe, 0, 0, 0, 0, 0, 0, 0, 1, key];
    let value = bytes
        .iter()
        .fold(0, |value, &byte| value << 8 | u128::from(byte));
    let args = vec![Value::truncated(7 << 64, 72), Value::truncated(port, 9)];
    TableEntry {
        keys: vec![KeyMatch::Exact(Value::truncated(value, 80))],
        priority: None,
        action: Action::Call(ActionCall { action: 0, args }),
        idle_timeout: None,
        meter: None,
        counter: None,
    }
}

#[test]
fn entries_of_the_control_plane_are_found_and_not_replaced() {
    each_device(&flows(), ASK, |device| {
        device.apply(Change::Insert(TABLE, entry(1, 9))).unwrap();
        for (op, expect) in [
            (FIND, (1, 9, 9)),
            (INSERT, (1, 0, 9)),
            (MODIFY, (0, 0, 9)),
            (DELETE, (0, 0, 9)),
        ] {
            assert_eq!(ask(device, op, 1, 5), expect, "{op}");
        }
    });
}

#[test]
fn hits_keep_an_entry_and_idle_ones_expire() {
    each_device(&flows(), ASK, |device| {
        let mut at = |op, key, idle, now| result(&send(device, &packet(op, key, 5, idle), now)[0]);
        at(INSERT, 1, 100, 10);
        at(INSERT, 2, 100, 10);
        assert_eq!(at(NOTHING, 1, 0, 105).2, 5);
        // An access by a handler alone is no hit, but this packet also hits the table.
        assert_eq!(at(NOTHING, 2, 0, 110).2, 1);
        assert_eq!(at(NOTHING, 1, 0, 204).2, 5);
        assert_eq!(at(NOTHING, 1, 0, 304).2, 1);
        let expired = device.take_expired();
        assert_eq!(expired.len(), 2);
    });
}

fn entries(device: &Device) -> Vec<(u64, u64, Box<[u64]>)> {
    let learned = device.configuration().learned[TABLE].as_ref().unwrap();
    let entries = learned.entries().into_iter();
    entries
        .map(|entry| (entry.id.0, entry.key[0], entry.action.params))
        .collect()
}

#[test]
fn a_replica_that_follows_the_records_has_the_same_entries() {
    let mut random = 3;
    each_device(&flows(), ASK, |device| {
        let records = Arc::new(Mutex::new(Vec::<Record>::new()));
        let followed = Arc::clone(&records);
        device.follow(move |record| followed.lock().unwrap().push(record.clone()));
        let program = Arc::new(device.program().clone());
        let mut replica = Replica::new(&program);
        let mut model: BTreeMap<u8, u16> = BTreeMap::new();
        for now in 0..600 {
            random = support::rng::mix(random + 1);
            let (key, port) = ((random >> 8) as u8 % 6, (random >> 16) as u16 % 400 + 2);
            let op = [INSERT, INSERT, MODIFY, DELETE, NOTHING][(random % 5) as usize];
            let run = if random & 1 << 40 == 0 { send } else { forward };
            let (code, _, egress) = result(&run(device, &packet(op, key, port, 0), now)[0]);
            let (has, is_full) = (model.contains_key(&key), model.len() == 4);
            let expect = match op {
                INSERT if has => 1,
                INSERT if is_full => 2,
                INSERT => 0,
                NOTHING => 0,
                _ => has.into(),
            };
            assert_eq!(code, expect, "{op} {key}");
            match (op, has) {
                (INSERT, false) if !is_full => drop(model.insert(key, port)),
                (MODIFY, true) => drop(model.insert(key, port)),
                (DELETE, true) => drop(model.remove(&key)),
                _ => {}
            }
            let expect = model.get(&key).map_or(1, |&port| u32::from(port));
            assert_eq!(egress, expect);
            if random & 7 << 50 == 0 {
                replica.follow(&records);
                assert_eq!(entries(&replica.device), entries(device));
            }
        }
        device.apply(Change::Clear(TABLE)).unwrap();
        replica.follow(&records);
        assert_eq!(entries(&replica.device), entries(device));
    });
}

/// Device without packets that applies the records of another one.
struct Replica {
    device: Device,
    applied: usize,
}

impl Replica {
    fn new(program: &Arc<Program>) -> Replica {
        let compiled = crate::common::compile(program, ASK, "cc");
        let [interp, _] = crate::common::engines();
        let state = foreign::HandlerState::default();
        let mut device = crate::common::device_with(program, &compiled, &state, &interp);
        device.step(Nanos(0));
        Replica { device, applied: 0 }
    }

    fn follow(&mut self, records: &Mutex<Vec<Record>>) {
        let records = records.lock().unwrap();
        for record in &records[self.applied..] {
            self.device.apply(record.change.clone()).unwrap();
        }
        self.applied = records.len();
    }
}

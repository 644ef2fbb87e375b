//! Tests of exact tables with hash indexes, looked up for whole bursts. Each engine must give each
//! packet the result of a map with the same entries. Keys have one or two words, fields within a
//! word and across two. Hash lines are full, and entries are added and removed.

use std::collections::HashMap;

use bits::Value;
use exec::Engine;
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos};
use support::rng::Xorshift;
use switch::{Action, Change, Device, DeviceConfig, TableEntry};
use table::EntryId;

/// Each table that a packet applies writes the number of its entry. On a miss nothing is written.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> asks; bit<48> a; bit<16> e; bit<32> s; bit<32> d; bit<16> x; bit<16> y; bit<8> z; bit<33> w; bit<7> none;
    bit<32> r0; bit<32> r1; bit<32> r2; bit<32> r3; bit<32> r4; bit<32> r5;
}
struct headers_t { h_t h; }
struct metadata_t { bit<32> found; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action leave0(bit<32> number) { hdr.h.r0 = number; meta.found = number; hits.count(); }
    action leave1(bit<32> number) { hdr.h.r1 = number; }
    action leave2(bit<32> number) { hdr.h.r2 = number; }
    action leave3(bit<32> number) { hdr.h.r3 = number; }
    action leave4(bit<32> number) { hdr.h.r4 = number; }
    action leave5(bit<32> number) { hdr.h.r5 = number; }
    action none() { hits.count(); }
    // Keys: one word; two words of five fields; two, with the second field in both; the same for
    // three; two that depend on the first table, of one word and of two.
    table t0 { key = { hdr.h.a : exact; hdr.h.e[8:0] : exact; } actions = { leave0; none; } default_action = none(); size = 400000; counters = hits; }
    table t1 {
        key = { hdr.h.s : exact; hdr.h.d : exact; hdr.h.x : exact; hdr.h.y : exact; hdr.h.z : exact; }
        actions = { leave1; NoAction; } default_action = NoAction(); size = 400000;
    }
    table t2 { key = { hdr.h.w : exact; hdr.h.a : exact; } actions = { leave2; NoAction; } default_action = NoAction(); size = 400000; }
    table t3 {
        key = { hdr.h.e[8:0] : exact; hdr.h.a : exact; hdr.h.s : exact; }
        actions = { leave3; NoAction; } default_action = NoAction(); size = 400000;
    }
    table t4 { key = { meta.found : exact; hdr.h.x : exact; } actions = { leave4; NoAction; } default_action = NoAction(); size = 400000; }
    table t5 {
        key = { meta.found : exact; hdr.h.x : exact; hdr.h.s : exact; }
        actions = { leave5; NoAction; } default_action = NoAction(); size = 400000;
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.asks[0:0] == 1) { t0.apply(); }
        if (hdr.h.asks[1:1] == 1) { t1.apply(); }
        if (hdr.h.asks[2:2] == 1) { t2.apply(); }
        if (hdr.h.asks[3:3] == 1) { t3.apply(); }
        if (hdr.h.asks[4:4] == 1) { t4.apply(); }
        if (hdr.h.asks[5:5] == 1) { t5.apply(); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const TABLES: usize = 6;

/// Number of tables with keys that depend on no other table.
const FREE: usize = 4;

/// The fields of a key, each with its width.
type Key = Vec<(u64, u32)>;

/// Values of a packet's key fields.
#[derive(Clone, Copy, Default)]
struct Fields {
    a: u64,
    e: u64,
    s: u64,
    d: u64,
    x: u64,
    y: u64,
    z: u64,
    w: u64,
}

impl Fields {
    fn new(random: &mut Random) -> Fields {
        let mut bits = |width: u32| random.next() >> (64 - width);
        Fields {
            a: bits(48),
            e: bits(9),
            s: bits(32),
            d: bits(32),
            x: bits(16),
            y: bits(16),
            z: bits(8),
            w: bits(33),
        }
    }

    /// Returns the key of a table, each field with its width. `found` is the result of the first
    /// table.
    fn key(&self, table: usize, found: u64) -> Key {
        let Fields {
            a,
            e,
            s,
            d,
            x,
            y,
            z,
            w,
        } = *self;
        match table {
            0 => vec![(a, 48), (e, 9)],
            1 => vec![(s, 32), (d, 32), (x, 16), (y, 16), (z, 8)],
            2 => vec![(w, 33), (a, 48)],
            3 => vec![(e, 9), (a, 48), (s, 32)],
            4 => vec![(found, 32), (x, 16)],
            _ => vec![(found, 32), (x, 16), (s, 32)],
        }
    }

    fn packet(&self, asks: u8) -> Vec<u8> {
        let mut bytes = vec![asks];
        let fields = [
            (self.a, 6),
            (self.e, 2),
            (self.s, 4),
            (self.d, 4),
            (self.x, 2),
            (self.y, 2),
            (self.z, 1),
            (self.w << 7, 5),
        ];
        for (value, width) in fields {
            bytes.extend(&value.to_be_bytes()[8 - width..]);
        }
        bytes.resize(bytes.len() + 4 * TABLES, 0);
        bytes
    }
}

/// Numbers without an order.
struct Random(Xorshift);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits().wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }
}

/// A device, and a model of its entries.
struct Tested {
    device: Device,
    random: Random,
    /// Fields used in entries, some of which have been removed.
    known: Vec<Fields>,
    /// By table and key: the number that the entry writes, and its id.
    model: [HashMap<Key, (u64, EntryId)>; TABLES],
    next: u64,
}

impl Tested {
    fn new(engine: &dyn Engine) -> Tested {
        let program = testkit::compile_text(PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
        let device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
        Tested {
            device,
            random: Random(Xorshift::new(0x9e37_79b9_7f4a_7c15)),
            known: Vec::new(),
            model: Default::default(),
            next: 1,
        }
    }

    fn table(&self, table: usize) -> TableId {
        let name = format!("I.t{table}");
        let tables = &self.device.program().tables;
        let found = tables
            .iter()
            .find(|(_, declared)| declared.name.ends_with(&name));
        found.expect("the program declares it").0
    }

    /// Adds an entry of these fields to a table, if it has none.
    fn insert(&mut self, table: usize, fields: &Fields) {
        let found = self.model[0]
            .get(&fields.key(0, 0))
            .map_or(0, |(number, _)| *number);
        let key = fields.key(table, found);
        if self.model[table].contains_key(&key) {
            return;
        }
        let number = self.next;
        self.next += 1;
        let keys = key
            .iter()
            .map(|&(value, width)| KeyMatch::Exact(Value::truncated(value.into(), width)));
        let call = ActionCall {
            action: 0,
            args: vec![Value::truncated(number.into(), 32)],
        };
        let entry = TableEntry {
            keys: keys.collect(),
            priority: None,
            action: Action::Call(call),
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        let change = Change::Insert(self.table(table), entry);
        let id = self
            .device
            .apply(change)
            .unwrap()
            .expect("an entry has a name");
        self.model[table].insert(key, (number, id));
    }

    /// Removes the entry of these fields from a table, if it has one.
    fn remove(&mut self, table: usize, fields: &Fields) {
        // Keys of later tables contain the result of the first table, of which all entries stay.
        if let Some((_, id)) = self.model[table].remove(&fields.key(table, 0)) {
            let change = Change::Delete(self.table(table), id);
            self.device.apply(change).unwrap();
        }
    }

    /// Returns fields used in entries, or, once in four times, others.
    fn some_fields(&mut self) -> Fields {
        match self.random.below(4) {
            0 => Fields::new(&mut self.random),
            _ => self.known[self.random.below(self.known.len())],
        }
    }

    /// Returns the expected packet for these fields. `asks` has a bit for each table that it
    /// applies.
    fn expected(&self, fields: &Fields, asks: u8) -> Vec<u8> {
        let mut packet = fields.packet(asks);
        let first = packet.len() - 4 * TABLES;
        let mut found = 0;
        for table in (0..TABLES).filter(|table| asks >> table & 1 == 1) {
            let number = self.model[table].get(&fields.key(table, found));
            let number = number.map_or(0, |(number, _)| *number);
            packet[first + 4 * table..][..4].copy_from_slice(&(number as u32).to_be_bytes());
            if table == 0 {
                found = number;
            }
        }
        packet
    }

    /// Forwards a burst of `packets` packets and checks the results.
    fn burst(&mut self, packets: usize) {
        let mut expected = Vec::new();
        let mut frames = Vec::new();
        for _ in 0..packets {
            let (fields, asks) = (self.some_fields(), self.random.next() as u8);
            expected.push(self.expected(&fields, asks));
            frames.push(Frame::from_bytes(&fields.packet(asks)).unwrap());
        }
        let mut left = Vec::new();
        self.device.forward(&mut frames, Nanos(1), |_, frame, _| {
            left.push(frame.bytes().to_vec())
        });
        assert_eq!(left, expected);
    }
}

#[test]
fn packets_find_what_a_map_finds_in_tables_of_any_fill() {
    for engine in testkit::engines() {
        let mut tested = Tested::new(&*engine);
        for number in 0..4_000 {
            let fields = Fields::new(&mut tested.random);
            tested.known.push(fields);
            (0..TABLES).for_each(|table| tested.insert(table, &fields));
            // The table's fill level differs each time.
            if number % 40 == 0 {
                tested.burst(1 + number / 40 % 64);
            }
            if number % 7 == 0 {
                let fields = tested.some_fields();
                (1..FREE).for_each(|table| tested.remove(table, &fields));
            }
        }
        for _ in 0..50 {
            tested.burst(64);
        }
    }
}

/// Enough entries that workers keep using one copy of the index (`table`'s `engine/steady.rs`).
const MANY: usize = 230_000;

#[test]
fn packets_that_stay_with_an_old_copy_of_an_index_find_what_has_changed_since() {
    for engine in testkit::engines()
        .into_iter()
        .filter(|engine| engine.name() == "jit")
    {
        let mut tested = Tested::new(&*engine);
        for _ in 0..MANY {
            let fields = Fields::new(&mut tested.random);
            tested.known.push(fields);
            tested.insert(1, &fields);
        }
        for _ in 0..100 {
            tested.burst(64);
            for _ in 0..20 {
                let fields = tested.some_fields();
                tested.remove(1, &fields);
                let fields = tested.some_fields();
                tested.known.push(fields);
                tested.insert(1, &fields);
            }
            // These include the entries that have just changed.
            tested.known.drain(..tested.known.len().saturating_sub(60));
            tested.burst(64);
        }
    }
}

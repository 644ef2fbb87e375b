//! Programs over a switch and servers, while entries move, controllers change them, the group
//! changes and frames are late or lost: each packet finds an entry that was right while it was on
//! its way, no flow is reordered, and no flow is at two servers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bits::{Id, Value};
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos, PortId};
use passes::split::SplitOptions;
use placement::{GroupError, GroupOptions, Nesting, Policy, ServerId, SketchSize};
use split::{EntryPolicy, LinkOptions, LocalOptions, LocalSplit, Order, SplitPlacement, Window};
use support::rng::Rng;
use switch::{Action, Change, EntryId, PacketProcessor, TableEntry};

/// Key of the program's table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Exact,
    Prefix,
}

/// A program with a mirrored table that writes a number into the packet, and a count by flow.
fn program(key: Key) -> String {
    let key = match key {
        Key::Exact => "hdr.p.flow: exact;",
        Key::Prefix => "hdr.p.space: exact; hdr.p.address: lpm;",
    };
    format!(
        "#include <v1model.p4>\n\
         header e_t {{ bit<48> dst; bit<48> src; bit<16> type; }}\n\
         header p_t {{ bit<16> flow; bit<8> space; bit<32> address; bit<32> number; bit<32> result; \
                       bit<32> count; }}\n\
         struct h {{ e_t e; p_t p; }}\nstruct m {{ }}\n\
         parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           state start {{ p.extract(hdr.e); p.extract(hdr.p); transition accept; }}\n}}\n\
         control V(inout h hdr, inout m meta) {{ apply {{}} }}\n\
         control I(inout h hdr, inout m meta, inout standard_metadata_t s) {{\n\
           register<bit<32>>(65536) counts;\n\
           action found(bit<32> x) {{ hdr.p.result = x; }}\n\
           direct_counter(CounterType.packets) found_packets;\n\
           @mirror(8) table t {{ key = {{ {key} }} actions = {{ found; NoAction; }} \
             default_action = NoAction(); counters = found_packets; size = 65536; }}\n\
           apply {{\n\
             s.egress_spec = 2;\n\
             t.apply();\n\
             bit<32> count; counts.read(count, (bit<32>)hdr.p.flow);\n\
             hdr.p.count = count; counts.write((bit<32>)hdr.p.flow, count + 1);\n\
           }}\n}}\n\
         control E(inout h hdr, inout m meta, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control D(packet_out p, in h hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
}

/// Number of flows of the traffic.
const FLOWS: u64 = 60;

/// Returns the space and address of a flow. Some prefixes hold several flows.
fn place_of(flow: u16) -> (u8, u32) {
    ((flow % 2) as u8, u32::from(flow / 2) << 3 | 1)
}

/// Entries by key: the flow, or space and prefix.
#[derive(Clone, Default)]
struct Model {
    exact: BTreeMap<u16, (EntryId, u32)>,
    prefixes: BTreeMap<(u8, u32, u32), (EntryId, u32)>,
}

impl Model {
    /// Returns the number that a packet of the flow gets; 0 without an entry.
    fn find(&self, key: Key, flow: u16) -> u32 {
        if key == Key::Exact {
            return self.exact.get(&flow).map_or(0, |found| found.1);
        }
        let (space, address) = place_of(flow);
        let matches = |(own, prefix, len): &(u8, u32, u32)| {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            *own == space && (prefix ^ address) & mask == 0
        };
        let found = self.prefixes.iter().filter(|(prefix, _)| matches(prefix));
        let longest = found.max_by_key(|((_, _, len), _)| *len);
        longest.map_or(0, |(_, found)| found.1)
    }
}

/// Traffic and changes of one run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    key: Key,
    policy: EntryPolicy,
    nesting: Nesting,
    order: Order,
    servers: u16,
    links: LinkOptions,
    packets: u64,
    /// Changes of entries while packets flow.
    changes: bool,
    /// Changes of the group, with a failure among them.
    group: bool,
    failures: bool,
    seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            key: Key::Exact,
            policy: EntryPolicy::Asked,
            nesting: Nesting::Cover,
            order: Order::Strict,
            servers: 1,
            links: LinkOptions::default(),
            packets: 1500,
            changes: true,
            group: false,
            failures: false,
            seed: 1,
        }
    }
}

struct Bed {
    setting: Setting,
    split: LocalSplit,
    rng: Rng,
    versions: Vec<Model>,
    now: Nanos,
    /// Version of the tables at each packet's arrival, by flow and number.
    sent: HashMap<(u16, u32), usize>,
    /// Last number that came out, and number of packets, by flow.
    last: HashMap<u16, (u32, u32)>,
    next: HashMap<u16, u32>,
    received: u64,
    reordered: u64,
    has_failed: bool,
}

const TABLE: usize = 0;

impl Bed {
    fn new(setting: Setting) -> Bed {
        let program = testkit::compile_text(&program(setting.key)).expect("compiles");
        let options = SplitOptions::default();
        let program = passes::split::split(&program, &options).expect("splits");
        let local = LocalOptions {
            servers: setting.servers,
            spare_servers: 2,
            placement: SplitPlacement {
                policy: setting.policy,
                nesting: setting.nesting,
                window: Window::Packets(50),
                top: None,
                ..SplitPlacement::default()
            },
            order: setting.order,
            links: LinkOptions {
                seed: setting.seed,
                ..setting.links
            },
            group: GroupOptions {
                // Small filters err.
                filter: SketchSize {
                    columns: 64,
                    rows: 2,
                },
                ..GroupOptions::default()
            },
            request_port: options.request_port,
            ..LocalOptions::default()
        };
        let split = LocalSplit::new(&program, &local, |_| Box::new(interp::Interp));
        Bed {
            split: split.expect("starts"),
            rng: Rng::new(setting.seed),
            versions: vec![Model::default()],
            now: Nanos::from_millis(1),
            sent: HashMap::new(),
            last: HashMap::new(),
            next: HashMap::new(),
            received: 0,
            reordered: 0,
            has_failed: false,
            setting,
        }
    }

    fn action(&self, number: u32) -> Action {
        let value = Value::truncated(number.into(), 32);
        Action::Call(ActionCall {
            action: 0,
            args: vec![value],
        })
    }

    /// Inserts, changes or deletes an entry.
    fn change(&mut self) {
        let table = TableId::from_index(TABLE);
        let mut model = self.versions.last().cloned().unwrap_or_default();
        let number = self.rng.below(1 << 30) as u32 + 1;
        let action = self.action(number);
        let flow = self.rng.below(FLOWS) as u16;
        let (space, address) = place_of(flow);
        let len = *self
            .rng
            .pick(&[0, 8, 24, 26, 28, 29, 30, 32])
            .expect("some");
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let prefix = (space, address & mask, len);
        let found = match self.setting.key {
            Key::Exact => model.exact.get(&flow).copied(),
            Key::Prefix => model.prefixes.get(&prefix).copied(),
        };
        let device = self.split.coordinator_mut().whole_mut();
        let id = match found {
            None => {
                let keys = match self.setting.key {
                    Key::Exact => vec![KeyMatch::Exact(Value::truncated(flow.into(), 16))],
                    Key::Prefix => vec![
                        KeyMatch::Exact(Value::truncated(space.into(), 8)),
                        KeyMatch::Lpm(Value::truncated(prefix.1.into(), 32), len),
                    ],
                };
                let entry = TableEntry {
                    keys,
                    priority: None,
                    action,
                    idle_timeout: None,
                    meter: None,
                    counter: None,
                };
                let made = device.apply(Change::Insert(table, entry));
                made.expect("the entry is new").expect("an entry has an id")
            }
            Some((id, _)) if self.rng.one_in(2) => {
                device
                    .apply(Change::Delete(table, id))
                    .expect("the entry exists");
                model.exact.retain(|_, found| found.0 != id);
                model.prefixes.retain(|_, found| found.0 != id);
                self.versions.push(model);
                return;
            }
            Some((id, _)) => {
                device
                    .apply(Change::Modify(table, id, action, None))
                    .expect("the entry exists");
                id
            }
        };
        match self.setting.key {
            Key::Exact => {
                model.exact.insert(flow, (id, number));
            }
            Key::Prefix => {
                model.prefixes.insert(prefix, (id, number));
            }
        }
        self.versions.push(model);
    }

    fn change_group(&mut self) {
        let server = ServerId(self.rng.below(u64::from(self.setting.servers) + 2) as u16);
        let result = match self.rng.below(if self.setting.failures { 5 } else { 4 }) {
            0 | 1 => self.split.join(server),
            2 | 3 => self.split.leave(server),
            _ => {
                self.has_failed |= self.split.fail(server).is_ok();
                return;
            }
        };
        match result {
            Ok(change) => assert_eq!(change.waiting, 0),
            Err(error) => assert!(
                matches!(
                    error,
                    GroupError::Present(_) | GroupError::Absent(_) | GroupError::LastServer(_)
                ),
                "{error}"
            ),
        }
    }

    fn packet(&mut self, flow: u16) {
        let number = self.next.entry(flow).or_insert(1);
        let (space, address) = place_of(flow);
        let mut bytes = vec![2; 12];
        bytes.extend_from_slice(&[0x12, 0x34]);
        bytes.extend_from_slice(&flow.to_be_bytes());
        bytes.push(space);
        bytes.extend_from_slice(&address.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        self.sent.insert((flow, *number), self.versions.len() - 1);
        *number += 1;
        let mut frame = Frame::from_bytes(&bytes).expect("a frame");
        frame.ingress = PortId(1);
        self.forward(&mut [frame]);
    }

    fn forward(&mut self, frames: &mut [Frame]) {
        let mut came = Vec::new();
        self.split.forward(frames, self.now, |port, frame, _| {
            assert_eq!(port, PortId(2));
            came.push(frame.bytes().to_vec());
        });
        for packet in came {
            self.check(&packet);
        }
    }

    fn check(&mut self, packet: &[u8]) {
        let word =
            |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four bytes"));
        let flow = u16::from_be_bytes([packet[14], packet[15]]);
        let (number, out, count) = (word(21), word(25), word(29));
        let version = self
            .sent
            .remove(&(flow, number))
            .expect("a packet comes once");
        let setting = self.setting;
        let mut right = self.versions[version..].iter();
        assert!(
            right.any(|model| model.find(setting.key, flow) == out),
            "{setting:?}: packet {number} of flow {flow} found {out}"
        );
        let (last, packets) = self.last.entry(flow).or_default();
        let is_late = number < *last;
        assert!(
            !is_late || setting.order == Order::Loose,
            "{setting:?}: packet {number} of flow {flow} came after packet {last}"
        );
        self.reordered += u64::from(is_late);
        // The count by flow is that of the packets before, in their order.
        assert_eq!(
            count, *packets,
            "{setting:?}: packet {number} of flow {flow}"
        );
        *last = number.max(*last);
        *packets += 1;
        self.received += 1;
    }

    fn run(mut self) -> Bed {
        for _ in 0..40 {
            self.change();
        }
        for _ in 0..self.setting.packets {
            self.now += Nanos::from_micros(self.rng.below(30));
            if self.setting.changes && self.rng.one_in(20) {
                self.change();
            }
            if self.setting.group && self.rng.one_in(60) {
                self.change_group();
            }
            // Few flows have most packets.
            let flow = match self.rng.one_in(3) {
                true => self.rng.below(FLOWS),
                false => self.rng.below(6) * 7,
            };
            self.packet(flow as u16);
        }
        for _ in 0..400 {
            self.now += Nanos::from_micros(20);
            self.forward(&mut []);
        }
        let setting = self.setting;
        let refused = self.split.coordinator_mut().take_refused();
        assert!(refused.is_empty(), "{setting:?}: {}", refused[0]);
        self.split
            .check_conservation()
            .unwrap_or_else(|error| panic!("{setting:?}: {error}"));
        assert_eq!(self.split.in_flight(), 0, "{setting:?}");
        if setting.links.loss_one_in == 0 && !setting.failures {
            assert_eq!(self.received, setting.packets, "{setting:?}");
        }
        self.check_servers();
        if !setting.changes && setting.links.loss_one_in == 0 {
            self.check_counters();
        }
        self
    }

    /// Checks that each entry has counted the packets that found it, on whichever plane.
    fn check_counters(&mut self) {
        self.split.collect();
        let model = self.versions.last().cloned().unwrap_or_default();
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for (&flow, &(_, packets)) in &self.last {
            *counts
                .entry(model.find(self.setting.key, flow))
                .or_default() += u64::from(packets);
        }
        let whole = self.split.coordinator().whole();
        let table = TableId::from_index(TABLE);
        for (id, number) in model.exact.values().chain(model.prefixes.values()) {
            let reading = whole.read_direct_counter(table, *id).expect("a counter");
            let expected = counts.get(number).copied().unwrap_or(0);
            assert_eq!(reading.packets, expected, "{:?}: {id:?}", self.setting);
        }
    }

    /// Checks that no flow is at two servers.
    fn check_servers(&self) {
        if self.has_failed {
            return;
        }
        let mut of: HashMap<u32, u16> = HashMap::new();
        for server in 0..self.setting.servers + 2 {
            for flow in self.split.flows_of(ServerId(server)) {
                let other = of.insert(flow, server);
                assert_eq!(other, None, "{:?}: flow {flow:x} at {server}", self.setting);
            }
        }
    }
}

const DELAYS: LinkOptions = LinkOptions {
    max_delay: Nanos(60_000),
    loss_one_in: 0,
    seed: 0,
};

const LOSSES: LinkOptions = LinkOptions {
    loss_one_in: 40,
    ..DELAYS
};

/// Number of seeds of each setting; `SPLIT_SEEDS` sets another one.
fn seeds() -> std::ops::Range<u64> {
    let seeds = std::env::var("SPLIT_SEEDS");
    0..seeds.ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn policies() -> Vec<EntryPolicy> {
    let windows = Policy::ALL.into_iter().map(EntryPolicy::Windows);
    [EntryPolicy::Asked].into_iter().chain(windows).collect()
}

#[test]
fn every_policy_gives_each_packet_an_entry_that_is_right() {
    for seed in seeds() {
        for policy in policies() {
            for links in [LinkOptions::default(), DELAYS] {
                let bed = Bed::new(Setting {
                    policy,
                    links,
                    seed,
                    ..Setting::default()
                })
                .run();
                let has_moved = bed.split.coordinator().moves() > 0;
                assert_eq!(has_moved, policy != EntryPolicy::Windows(Policy::None));
            }
        }
    }
}

#[test]
fn nested_prefixes_are_right_with_every_rule() {
    for seed in seeds() {
        for nesting in Nesting::ALL {
            for policy in policies() {
                for links in [LinkOptions::default(), DELAYS] {
                    Bed::new(Setting {
                        key: Key::Prefix,
                        policy,
                        nesting,
                        links,
                        seed,
                        ..Setting::default()
                    })
                    .run();
                }
            }
        }
    }
}

#[test]
fn entries_count_their_packets_on_all_planes() {
    for seed in seeds() {
        for key in [Key::Exact, Key::Prefix] {
            Bed::new(Setting {
                key,
                policy: EntryPolicy::Windows(Policy::Random),
                links: DELAYS,
                changes: false,
                seed: seed + 1,
                ..Setting::default()
            })
            .run();
        }
    }
}

#[test]
fn a_flow_stays_at_its_server_while_the_group_changes() {
    for seed in seeds() {
        for policy in [EntryPolicy::Asked, EntryPolicy::Windows(Policy::Heap)] {
            for key in [Key::Exact, Key::Prefix] {
                Bed::new(Setting {
                    key,
                    policy,
                    servers: 3,
                    links: DELAYS,
                    group: true,
                    seed,
                    ..Setting::default()
                })
                .run();
            }
        }
    }
}

#[test]
fn lost_frames_and_failed_servers_are_counted() {
    for seed in seeds() {
        for (servers, failures) in [(1, false), (3, false), (3, true)] {
            for policy in [EntryPolicy::Asked, EntryPolicy::Windows(Policy::Threshold)] {
                Bed::new(Setting {
                    policy,
                    servers,
                    links: LOSSES,
                    group: true,
                    failures,
                    seed,
                    ..Setting::default()
                })
                .run();
            }
        }
    }
}

#[test]
fn loose_order_is_counted() {
    let (mut reordered, mut overtaken) = (0, 0);
    for seed in 0..4 {
        let bed = Bed::new(Setting {
            order: Order::Loose,
            policy: EntryPolicy::Windows(Policy::Heap),
            links: DELAYS,
            seed,
            ..Setting::default()
        })
        .run();
        reordered += bed.reordered;
        overtaken += bed.split.switch().requests().overtaken();
    }
    assert!(reordered > 0 && overtaken > 0, "{reordered} {overtaken}");
}

#[test]
fn a_request_allocates_nothing() {
    use passes::split::FrameOption;
    use split::{FlightOptions, Requests, ServerPort, SwitchOptions, SwitchWorker};

    let program = testkit::compile_text(&program(Key::Exact)).expect("compiles");
    let program = passes::split::split(&program, &SplitOptions::default()).expect("splits");
    let layout = &program.plan.frame;
    let port = |server: u16| ServerPort {
        server: ServerId(server),
        port: PortId(100 + u32::from(server)),
    };
    let options = SwitchOptions {
        servers: (0..3).map(port).collect(),
        request_port: 509,
        ..SwitchOptions::default()
    };
    let requests = Arc::new(Requests::new(&program.plan, options));
    for policy in [Policy::Threshold, Policy::Heap] {
        requests.count_flights(Some(&FlightOptions {
            policy,
            sketch: SketchSize {
                columns: 1024,
                rows: 2,
            },
            reports: 1024,
        }));
        requests.set_threshold(1, 2);
        let mut worker = SwitchWorker::new(Arc::clone(&requests));
        let mut frame = Frame::from_bytes(&[0; 200]).expect("a frame");
        let mut before = Vec::new();
        let mut send = |flow: u32| {
            let (at, _) = layout.option(FrameOption::ResumePoint);
            frame.bytes_mut()[at..at + 2].copy_from_slice(&1u16.to_be_bytes());
            let (at, bytes) = layout.option(FrameOption::Flow);
            frame.bytes_mut()[at..at + bytes].copy_from_slice(&flow.to_be_bytes());
            let at = layout.key_offset as usize / 8;
            frame.bytes_mut()[at..at + 2].copy_from_slice(&(flow as u16).to_be_bytes());
            worker.begin(Nanos(u64::from(flow)), &mut before);
            let addressed = worker.address(&mut frame);
            worker.end(before.drain(..));
            addressed.expect("a server").is_some()
        };
        assert!(send(0));
        let counted = allocation_counter::measure(|| {
            assert!((0..5000).all(|packet| send(packet % 700)));
        });
        assert_eq!(counted.count_total, 0, "{policy:?}");
    }
}

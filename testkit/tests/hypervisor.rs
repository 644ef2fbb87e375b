//! Checks that programs on the emitted hypervisor behave as they do alone. Every program of the
//! corpus that entries can express passes its own test there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use entries::Update;
use entries::stf::CommandKind;
use exec::TraceEvent;
use hypervisor::{FieldPlace, Shape};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use stf::TestSetup;
use switch::{Device, DeviceConfig};

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

const SHAPE: Shape = Shape {
    ingress: 12,
    egress: 12,
};

/// A shape with so few slots that long programs continue by resubmission.
const SHORT: Shape = Shape {
    ingress: 2,
    egress: 12,
};

/// The programs that exceed a limit of the device, the work budget of a packet. The second one does
/// so only if it is resubmitted.
const LIMITED: &[&str] = &["for_loops", "chosen_places"];

fn place() -> FieldPlace {
    FieldPlace {
        vpdp: 1,
        program: 1,
        shape: SHAPE,
        cells: 0,
    }
}

fn hypervisor(shape: Shape) -> Arc<Program> {
    testkit::compile_text(&hypervisor::emit(shape)).expect("the hypervisor compiles")
}

/// A program's test, converted for the hypervisor. Commands on tables become entries of the
/// hypervisor; all others are unchanged.
struct Hosting<'a> {
    program: &'a Program,
    directory: &'a Path,
    place: FieldPlace,
    updates: Vec<Update>,
    files: HashMap<String, String>,
    told: Vec<String>,
}

impl Hosting<'_> {
    fn translate(&mut self, lines: &mut Vec<String>) -> Result<(), String> {
        let hosted = hypervisor::translate(self.program, &self.updates, &self.place)
            .map_err(|refusal| refusal.text(self.program))?;
        let mut text =
            String::from("HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1\n");
        for entry in &hosted.entries {
            text += &format!("{entry}\n");
        }
        for statement in &hosted.statements {
            if !self.told.contains(statement) {
                text += &format!("{statement}\n");
                self.told.push(statement.clone());
            }
        }
        let name = format!("part_{}", self.files.len());
        lines.push("remove all".into());
        lines.push(format!("entries {name}"));
        self.files.insert(name, text);
        Ok(())
    }

    fn test(&mut self, name: &str, text: &str) -> Result<String, String> {
        let commands =
            entries::stf::read(self.program, name, text).map_err(|e| format!("{e:?}"))?;
        let source: Vec<&str> = text.lines().collect();
        let mut lines = Vec::new();
        let mut is_stale = true;
        for command in commands {
            match command.kind {
                CommandKind::Update(update) | CommandKind::Labelled(update, _) => {
                    self.updates.push(update);
                    is_stale = true;
                }
                CommandKind::Entries(file) => {
                    let path = self.directory.join(&file);
                    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
                    let read =
                        entries::read(self.program, &file, &text).map_err(|e| format!("{e:?}"))?;
                    self.updates.extend(read.updates().iter().cloned());
                    is_stale = true;
                }
                CommandKind::RemoveAll => {
                    self.updates
                        .retain(|update| !matches!(update, Update::Insert(..)));
                    is_stale = true;
                }
                CommandKind::CheckCounter { .. }
                | CommandKind::ExpectDigest { .. }
                | CommandKind::ExpectIdle(_) => {}
                CommandKind::RegisterRead(..)
                | CommandKind::CounterRead(..)
                | CommandKind::MeterRead(..) => {}
                _ => {
                    if is_stale && matches!(command.kind, CommandKind::Packet { .. }) {
                        self.translate(&mut lines)?;
                        is_stale = false;
                    }
                    lines.push(source[command.line as usize - 1].to_owned());
                }
            }
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// Programs that the hypervisor refuses, because they use what it does not express: copies and
/// recirculation, selectors and meters, checksums with payload, `assume`, the packet's length, and
/// more bits or bytes than the shape has.
const REFUSED: [&str; 25] = [
    "a_clone_each_round_leaves_all_rounds",
    "a_narrow_selector_reaches_all_members",
    "a_truncated_packet_starts_over_whole",
    "action_selector",
    "arithmetic_wide",
    "assert_fails",
    "checksum_into_wide_field",
    "checksum_update",
    "checksum_verify",
    "checksums_leave_out_absent_headers",
    "clone_field_list_after_call",
    "clone_from_egress",
    "clone_from_ingress",
    "clones_and_rounds_of_both_kinds",
    "device_settings",
    "egress_length_is_what_ingress_left",
    "egress_length_of_copies",
    "endless_clones",
    "log_and_assert",
    "meters",
    "recirculate",
    "recirculate_in_ingress",
    "stack_push_makes_zeros",
    "varbit",
    "varbit_odd_length",
];

/// Result of a program's test.
enum Fate {
    Same,
    Refused(String),
    /// It exceeds a limit of the device, which only the programs in `LIMITED` may do.
    Limited(String),
    Different(Vec<String>),
}

fn fate(path: &Path, hypervisor: &Arc<Program>, shape: Shape) -> Fate {
    let program = testkit::compile(path).expect("the program compiles");
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).expect("the test can be read");
    let mut hosting = Hosting {
        program: &program,
        directory: path.parent().expect("a file is in a directory"),
        place: FieldPlace { shape, ..place() },
        updates: Vec::new(),
        files: HashMap::new(),
        told: Vec::new(),
    };
    let name = test.display().to_string();
    let text = match hosting.test(&name, &text) {
        Ok(text) => text,
        Err(refusal) => return Fate::Refused(refusal),
    };
    let files = hosting.files;
    let read_file = |name: &str| files.get(name).cloned().ok_or_else(|| name.to_owned());
    let engine = interp::Interp;
    let setup = TestSetup {
        program: Arc::clone(hypervisor),
        engine: &engine,
        device: DeviceConfig::default(),
        read_file: &read_file,
    };
    match stf::run(&setup, &name, &text) {
        Ok(report) if report.failures.is_empty() => Fate::Same,
        Ok(report) if !report.unusual.is_empty() && may_be_limited(path) => {
            Fate::Limited(report.unusual.join(", "))
        }
        Ok(report) => {
            let failures = report.failures.iter().map(|f| f.message.clone());
            Fate::Different(failures.chain(report.unusual).collect())
        }
        Err(refused) => Fate::Different(vec![format!("{refused:?}")]),
    }
}

fn may_be_limited(path: &Path) -> bool {
    LIMITED
        .iter()
        .any(|name| path.file_stem() == Some(name.as_ref()))
}

/// Returns the programs in a directory that have a test, without chains.
fn programs(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut found = testkit::tested(&directory);
    found.retain(|path| path.extension().is_some_and(|ending| ending == "p4"));
    found
}

/// Runs the tests of all v1model programs in a directory. Returns how many give the same result,
/// and the total. Exactly the programs in [`REFUSED`] must be refused.
fn all(directory: &'static str, shape: Shape) -> (usize, usize) {
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || {
        let hypervisor = hypervisor(shape);
        let (mut same, mut of, mut wrong) = (0, 0, Vec::new());
        for path in programs(directory) {
            let name = path
                .file_stem()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            if testkit::compile(&path).expect("it compiles").arch != ir::Arch::V1model {
                continue;
            }
            of += 1;
            let is_listed = REFUSED.contains(&name.as_str());
            match fate(&path, &hypervisor, shape) {
                Fate::Refused(why) if is_listed => println!("refused: {name}: {why}"),
                Fate::Refused(why) => wrong.push(format!("{name}: {why}")),
                _ if is_listed => wrong.push(format!("{name}: it is not refused")),
                Fate::Same => same += 1,
                Fate::Limited(why) => println!("limited: {name}: {why}"),
                Fate::Different(how) => wrong.push(format!("{name}: {}", how.join("\n"))),
            }
        }
        println!("{directory}: {same} of {of} do the same");
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        (same, of)
    });
    checked.expect("a thread starts").join().expect("no panic")
}

#[test]
fn programs_do_the_same_inside_of_the_hypervisor_but_those_that_it_does_not_express() {
    let (same, of) = all("programs", SHAPE);
    // One program exceeds the work budget.
    assert_eq!(same + REFUSED.len() + 1, of);
}

#[test]
fn all_but_one_of_them_do_the_same_where_lines_of_stages_are_resubmitted() {
    let (same, of) = all("programs", SHORT);
    assert_eq!(same + REFUSED.len() + 2, of);
    assert_eq!(all("../examples/functions", SHORT), (7, 7));
}

#[test]
fn the_functions_of_the_paper_do_the_same_inside_of_the_hypervisor() {
    assert_eq!(all("../examples/functions", SHAPE), (7, 7));
    assert_eq!(all("../examples/router", SHAPE), (1, 1));
}

/// Returns an example function.
fn function(name: &str) -> Arc<Program> {
    let path = format!(
        "{}/../examples/functions/{name}.p4",
        env!("CARGO_MANIFEST_DIR")
    );
    testkit::compile(Path::new(&path)).expect("the function compiles")
}

/// Returns the hypervisor entries of a function with these table statements, as text.
fn hosted(function: &Program, statements: &str, place: &FieldPlace) -> String {
    let read = entries::read(function, "function.entries", statements).expect("the entries fit");
    let hosted = hypervisor::translate(function, read.updates(), place).expect("it is expressed");
    let lines = hosted
        .entries
        .iter()
        .map(ToString::to_string)
        .chain(hosted.statements);
    lines.collect::<Vec<_>>().join("\n")
}

fn apply(device: &mut Device, text: &str) {
    let file = entries::read(device.program(), "hosted.entries", text).expect("the entries fit");
    apply_entries::apply_file(device, &file).expect("the device takes them");
}

/// Forwards a packet. Returns the packets sent, each with its port.
fn packets(device: &mut Device, port: u32, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut frame = Frame::from_bytes(bytes).expect("a frame");
    frame.ingress = PortId(port);
    let mut all = Vec::new();
    device.forward(&mut [frame], Nanos::from_millis(1), |port, frame, _| {
        all.push((port.0, frame.bytes().to_vec()))
    });
    device.drain_sent(|port, frame, _| all.push((port.0, frame.to_vec())));
    all
}

/// Returns the ports from which a packet is sent.
fn sent(device: &mut Device, port: u32, bytes: &[u8]) -> Vec<u32> {
    let packets = packets(device, port, bytes).into_iter();
    packets.map(|(port, _)| port).collect()
}

/// A frame from 02:00:00:00:01:02 to 02:00:00:00:02:02.
const FRAME: &[u8] = &[2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 1, 2, 0x12, 0x34, 0];

fn device() -> Device {
    Device::new(hypervisor(SHAPE), &interp::Interp, &DeviceConfig::default()).expect("it is loaded")
}

#[test]
fn tenants_of_one_hypervisor_do_not_see_each_other() {
    let mut device = device();
    let l2 = function("l2_sw");
    for (vpdp, port) in [(1u16, 3), (2, 4)] {
        let own = FieldPlace { vpdp, ..place() };
        let entry =
            format!("forward {{ hdr.ethernet.dst: 02:00:00:00:02:02; }} -> to_port({port})");
        apply(&mut device, &hosted(&l2, &entry, &own));
        let classify = format!(
            "HypervisorIngress.classify {{ port: {vpdp} }} -> assign({vpdp}, 1) priority 1"
        );
        apply(&mut device, &classify);
    }
    assert_eq!(sent(&mut device, 1, FRAME), [3]);
    assert_eq!(sent(&mut device, 2, FRAME), [4]);
    assert_eq!(sent(&mut device, 7, FRAME), [0; 0], "port 7 is nobody's");
}

#[test]
fn a_description_header_says_whose_a_packet_is() {
    let mut device = device();
    let entry = "forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(3)";
    apply(&mut device, &hosted(&function("l2_sw"), entry, &place()));
    apply(
        &mut device,
        "value_set GeneralParser.described_ports { 9 }
         HypervisorIngress.classify { described: true; vpdp: 5 } -> assign(1, 1) priority 1",
    );
    // Description header: version 1, four bytes of its own, then the 14 bytes of Ethernet.
    let described = |vpdp: u8, length: u8| [&[0x10, length, 0, vpdp], FRAME].concat();
    assert_eq!(sent(&mut device, 9, &described(5, 18)), [3]);
    assert_eq!(
        sent(&mut device, 9, &described(6, 18)),
        [0; 0],
        "vPDP 6 is not there"
    );
    assert_eq!(
        sent(&mut device, 9, &described(5, 3)),
        [0; 0],
        "no header is that short"
    );
    assert_eq!(
        sent(&mut device, 9, &described(5, 80)),
        [0; 0],
        "the packet is shorter"
    );
    assert_eq!(sent(&mut device, 9, FRAME), [0; 0], "a frame without one");
}

#[test]
fn a_function_is_exchanged_by_entries_alone() {
    let mut device = device();
    let entry = "forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(3)";
    apply(&mut device, &hosted(&function("l2_sw"), entry, &place()));
    apply(
        &mut device,
        "HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1",
    );
    assert_eq!(sent(&mut device, 1, FRAME), [3]);
    // The firewall sends packets that are not IPv4 to port 0.
    let second = FieldPlace {
        program: 2,
        ..place()
    };
    apply(&mut device, &hosted(&function("fw"), "", &second));
    assert_eq!(
        sent(&mut device, 1, FRAME),
        [3],
        "nothing changes before the packets are its"
    );
    apply(
        &mut device,
        "HypervisorIngress.classify { port: _; vpdp: 0 &&& 0 } -> assign(1, 2) priority 2",
    );
    assert_eq!(sent(&mut device, 1, FRAME), [0]);
}

#[test]
fn a_line_longer_than_the_slots_is_resubmitted() {
    let shape = Shape {
        ingress: 1,
        egress: 2,
    };
    let text = hypervisor::emit(shape);
    let program = testkit::compile_text(&text).expect("the hypervisor compiles");
    let mut device =
        Device::new(program, &interp::Interp, &DeviceConfig::default()).expect("it is loaded");
    let own = FieldPlace { shape, ..place() };
    // Loops need more stages than there are slots.
    let path = format!("{}/programs/for_loops.p4", env!("CARGO_MANIFEST_DIR"));
    let loops = testkit::compile(Path::new(&path)).expect("the program compiles");
    apply(&mut device, &hosted(&loops, "", &own));
    apply(
        &mut device,
        "HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1",
    );
    assert_eq!(sent(&mut device, 7, &[0, 1]), [1]);
    assert!(device.ledger().resubmitted > 0, "{:?}", device.ledger());
    device.check_conservation().expect("packets are conserved");
}

/// Returns a function that extracts a header `a`, with this code in its parser and its ingress.
fn small(parser: &str, locals: &str, ingress: &str) -> Arc<Program> {
    let text = format!(
        "#include <core.p4>
         #include <v1model.p4>
         header a_t {{ bit<8> x; bit<8> y; bit<16> sum; }}
         header wide_t {{ bit<256> v; }}
         struct headers_t {{ a_t a; a_t b; wide_t w; }}
         struct metadata_t {{ }}
         parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
             state start {{ packet.extract(hdr.a); {parser} transition accept; }}
         }}
         control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
             {locals}
             apply {{ sm.egress_spec = 2; {ingress} }}
         }}
         control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
         control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
         control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
         V1Switch(P(), C(), I(), E(), C(), D()) main;"
    );
    testkit::compile_text(&text).expect("the function compiles")
}

#[test]
fn a_resubmitted_packet_keeps_its_port_its_time_and_its_description() {
    let shape = Shape {
        ingress: 1,
        ..SHORT
    };
    let function = small(
        "",
        "",
        "if (hdr.a.y * hdr.a.x > 3) { hdr.a.x = hdr.a.x + 1; }
         if (hdr.a.y * hdr.a.x > 5) { hdr.a.x = hdr.a.x + 2; }
         hdr.a.sum = (bit<16>)sm.ingress_port;
         hdr.a.y = (bit<8>)(sm.ingress_global_timestamp / 8);",
    );
    let mut alone = Device::new(
        Arc::clone(&function),
        &interp::Interp,
        &DeviceConfig::default(),
    )
    .expect("it is loaded");
    let mut device = Device::new(hypervisor(shape), &interp::Interp, &DeviceConfig::default())
        .expect("it is loaded");
    let own = FieldPlace { shape, ..place() };
    apply(&mut device, &hosted(&function, "", &own));
    apply(
        &mut device,
        "value_set GeneralParser.described_ports { 9 }
         HypervisorIngress.classify { port: 7 } -> assign(1, 1) priority 1
         HypervisorIngress.classify { port: 9 } -> assign(1, 1) priority 1",
    );
    let packet = [1, 4, 0, 0, 0xaa];
    let at_7 = packets(&mut alone, 7, &packet);
    assert_eq!(at_7[0].1, [4, 125, 0, 7, 0xaa]);
    assert_eq!(packets(&mut device, 7, &packet), at_7);
    let described = |length, packet: &[u8]| [&[0x10, length, 0, 0], packet].concat();
    let at_9 = packets(&mut alone, 9, &packet);
    let expected = vec![(2, described(8, &at_9[0].1[..4]))];
    assert_eq!(
        packets(&mut device, 9, &described(8, &packet[..4])),
        expected
    );
    assert!(device.ledger().resubmitted > 1, "{:?}", device.ledger());
}

#[test]
fn signed_arguments_keep_their_sign() {
    // As an argument in a table entry, and in a call.
    let action = "action go(int<8> d) {
        if (d < 0) { hdr.a.x = 0xee; } else { hdr.a.x = 0x11; }
        if ((int<8>)hdr.a.y > d) { hdr.a.x = hdr.a.x + 1; }
        hdr.a.sum = (bit<16>)((int<16>)d);
    }";
    let table = "table t { key = { hdr.a.y : exact; } actions = { go; } const entries = { 2 : go(-3); } default_action = go(1); }";
    let cases = [
        (format!("{action} {table}"), "t.apply();"),
        (action.to_owned(), "go((int<8>)hdr.a.x);"),
    ];
    for (locals, ingress) in cases {
        let function = small("", &locals, ingress);
        let mut alone = Device::new(
            Arc::clone(&function),
            &interp::Interp,
            &DeviceConfig::default(),
        )
        .expect("it is loaded");
        let mut device = device();
        apply(&mut device, &hosted(&function, "", &place()));
        apply(
            &mut device,
            "HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1",
        );
        for packet in [[0xfd, 2, 0, 0], [5, 0xf0, 0, 0], [0x80, 0x81, 0, 0]] {
            let is = packets(&mut device, 1, &packet);
            assert_eq!(is, packets(&mut alone, 1, &packet), "{ingress} {packet:?}");
        }
    }
}

#[test]
fn what_cannot_be_expressed_is_refused() {
    // Code of the parser and of the ingress, and a part of the error message.
    let written = "a header that a parser writes or copies, and that is sent (hdr.a)";
    let cases = [
        ("hdr.a.x = 5;", "", written),
        ("hdr.a.x = hdr.a.y;", "hdr.a.x = 7;", written),
        ("hdr.b = hdr.a;", "hdr.b.x = 9;", written),
        (
            "a_t c; packet.extract(c); c.x = 5; hdr.b = c;",
            "",
            "that is sent (hdr.b)",
        ),
        (
            "packet.extract(hdr.w);",
            "hdr.w.v = hdr.w.v |+| hdr.w.v;",
            "saturating arithmetic with 256 bits or more",
        ),
    ];
    for (parser, ingress, what) in cases {
        let function = small(parser, "", ingress);
        let refusal = hypervisor::translate(&function, &[], &place()).expect_err(what);
        assert!(refusal.what.contains(what), "{parser} {ingress}: {refusal}");
    }
    let crowded = FieldPlace {
        cells: u32::MAX,
        ..place()
    };
    let refusal = hypervisor::translate(&small("", "", ""), &[], &crowded).expect_err("too many");
    assert!(refusal.what.contains("so many cells"), "{refusal}");
}

/// Returns the number of tables that a packet applies in the hypervisor.
fn tables_met(name: &str, statements: &str, packet: &[u8]) -> usize {
    let mut device = device();
    let path = match name {
        "router" => format!(
            "{}/../examples/router/router.p4",
            env!("CARGO_MANIFEST_DIR")
        ),
        name => format!(
            "{}/../examples/functions/{name}.p4",
            env!("CARGO_MANIFEST_DIR")
        ),
    };
    let function = testkit::compile(Path::new(&path)).expect("it compiles");
    apply(&mut device, &hosted(&function, statements, &place()));
    apply(
        &mut device,
        "HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1",
    );
    let mut events: Vec<TraceEvent> = Vec::new();
    device
        .trace(PortId(0), packet, Nanos::from_millis(1), &mut events)
        .expect("a frame");
    events
        .iter()
        .filter(|event| matches!(event, TraceEvent::Lookup { .. }))
        .count()
}

/// Checks the table counts of frames, routed IPv4 packets and ARP requests.
/// docs/results/fixed-target-hypervisor.md compares them with the paper's figure 9.
#[test]
fn packets_meet_few_tables() {
    let ipv4 = testkit::routed_frame(64, 7);
    let router = std::fs::read_to_string(format!(
        "{}/../examples/router/router.entries",
        env!("CARGO_MANIFEST_DIR")
    ));
    let mut to_router = ipv4.clone();
    to_router[..6].copy_from_slice(&[2, 0, 0, 0, 1, 1]);
    let mut arp = vec![0xff; 6];
    arp.extend([
        2, 0, 0, 0, 1, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 1, 2, 10, 0, 1, 2, 0, 0, 0, 0,
        0, 0, 10, 0, 2, 2,
    ]);
    let learn = tables_met("mac_learn", "", FRAME);
    let switch = tables_met(
        "l2_sw",
        "forward { hdr.ethernet.dst: 02:00:00:00:02:02; } -> to_port(3)",
        FRAME,
    );
    let firewall = tables_met(
        "fw",
        "rules { hdr.ipv4.src: 10.0.0.0/8; } -> permit() priority 1",
        &ipv4,
    );
    let router = tables_met(
        "router",
        &router.expect("the entries can be read"),
        &to_router,
    );
    let proxy = tables_met(
        "arp_proxy",
        "stations { hdr.arp.target_ip: 10.0.2.2; } -> answer(02:00:00:00:02:02)",
        &arp,
    );
    println!(
        "mac_learn {learn}, l2_sw {switch}, fw {firewall}, router {router}, arp_proxy {proxy}"
    );
    assert_eq!((learn, switch, firewall, router, proxy), (8, 5, 7, 25, 7));
}

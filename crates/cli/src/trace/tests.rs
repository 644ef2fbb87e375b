//! Hand-made events over a small program, and the text and JSON that come of them.

use std::sync::Arc;

use bits::Value;
use exec::{DropDetail, DropReason, TraceEvent};
use ir::{
    ActionCall, ActionId, BlockRole, Call, ControlId, Expr, ExternId, FieldId, HashAlgorithm,
    HeaderId, KeyMatch, Loc, Op, Operand, ParserId, Place, Program, StageId, StateId, TableId,
    Target,
};
use switch::{Action, Change, Device, DeviceConfig, TableEntry};
use table::EntryId;

use super::fold::fold;
use super::step::Step;
use super::tell::Teller;
use super::text::text;

const SOURCE: &str =
    "one\n    state start {\n  extract(hdr.ethernet);\n\nif (!meta.ok) {\nsix\naction via(\n";

fn program() -> Program {
    let program = ir::read(include_str!("router.ir")).expect("the program is well formed");
    if let Err(errors) = ir::verify(&program) {
        panic!("{}", errors[0]);
    }
    program
}

/// A device with entries that use the action selector in every way.
fn device() -> Device {
    let config = DeviceConfig::default();
    let mut device =
        Device::new(Arc::new(program()), &interp::Interp, &config).expect("the program can run");
    let profile = ExternId::new(2);
    let via = |port: u128| ActionCall {
        action: 1,
        args: vec![v(port, 9), v(0x0200_0000_0001, 48)],
    };
    let member = |id: u32| Change::SetMember {
        profile,
        id,
        action: ActionId::new(1),
        args: via(1).args,
    };
    let insert = |dst: u128, action: Action| {
        let entry = TableEntry {
            keys: vec![KeyMatch::Exact(v(dst, 32))],
            priority: None,
            action,
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        Change::Insert(TableId::new(2), entry)
    };
    let group = Change::SetGroup {
        profile,
        id: 7,
        members: vec![(2, 1), (3, 1)],
    };
    for change in [
        member(2),
        member(3),
        group,
        insert(5, Action::Group(7)),
        insert(0x0a00_0006, Action::Member(3)),
        insert(6, Action::OneShot(vec![(via(1), 1)])),
        insert(7, Action::OneShot(vec![(via(1), 1), (via(2), 4)])),
    ] {
        device.apply(change).expect("the change is possible");
    }
    device
}

fn told(events: &[TraceEvent]) -> Vec<Step> {
    let read = |file: &str| (file == "lib/router.p4").then(|| SOURCE.to_owned());
    Teller::new(device().configuration(), &read).tell(events)
}

/// The text of events, and of those before them that only prepare.
fn check_after(before: &[TraceEvent], events: &[TraceEvent], expect: &str) {
    let all = [before, events].concat();
    let (before, all) = (text(&told(before), false), text(&told(&all), false));
    let got = all
        .strip_prefix(&before)
        .expect("what comes later changes nothing above");
    assert_eq!(got, expect, "\n{got}");
}

fn check(events: &[TraceEvent], expect: &str) {
    check_after(&[], events, expect);
}

fn v(number: u128, width: u32) -> Value {
    Value::truncated(number, width)
}

fn place(field: u32) -> Place {
    Place {
        base: FieldId::new(field),
        dims: vec![],
    }
}

fn read(field: u32) -> Expr {
    Expr::Read(place(field))
}

fn loc(line: u32) -> Option<Loc> {
    Some(Loc {
        file: 0,
        line,
        column: 3,
    })
}

fn state(number: u32) -> TraceEvent {
    TraceEvent::State {
        parser: ParserId::new(0),
        state: StateId::new(number),
    }
}

fn stage(number: u32) -> TraceEvent {
    TraceEvent::Stage {
        control: ControlId::new(0),
        stage: StageId::new(number),
    }
}

fn select(keys: Vec<Value>, case: Option<usize>, target: Target) -> TraceEvent {
    TraceEvent::Select { keys, case, target }
}

fn lookup(table: u32, key: Vec<Value>, entry: Option<u64>) -> TraceEvent {
    TraceEvent::Lookup {
        table: TableId::new(table),
        key,
        hit: entry.is_some(),
        entry: entry.map(EntryId),
        member: None,
        group: None,
    }
}

#[test]
fn a_parser_shows_states_headers_and_selects() {
    let parser = TraceEvent::Block {
        step: ir::StepId::new(0),
        role: BlockRole::Parser,
    };
    let ethernet = TraceEvent::Extracted {
        header: HeaderId::new(0),
        offset: 0,
        bits: 112,
        fields: vec![
            (FieldId::new(1), v(0x0200_0000_0101, 48)),
            (FieldId::new(2), v(1, 48)),
            (FieldId::new(3), v(0x800, 16)),
        ],
    };
    let to_ipv4 = select(
        vec![v(0x800, 16), v(3, 9)],
        Some(0),
        Target::State(StateId::new(1)),
    );
    check(
        &[
            parser,
            state(0),
            ethernet,
            to_ipv4,
            state(1),
            TraceEvent::Accepted { consumed: 112 },
        ],
        "\
parser RouterParser
  state start                                                   router.p4:2  state start {
    extract hdr.ethernet (14 bytes, after 0 bytes)
      dst   0x020000000101 (02:00:00:00:01:01)
      src   0x000000000001 (00:00:00:00:00:01)
      type  0x0800 (2048, EtherType.Ipv4)
    select
      hdr.ethernet.type  0x0800 (2048, EtherType.Ipv4)
      meta.port + 9w0x1  3
      case 1 holds: 0x0800 (2048, EtherType.Ipv4), _: parse_ipv4
  state parse_ipv4
  accept after 14 bytes
",
    );
    let keys = || vec![v(0x8101, 16), v(3, 9)];
    for (case, target, expect) in [
        (
            Some(1),
            Target::Accept,
            "case 2 holds: 0x8100 (33024) &&& 0xfff0 (65520), 1 .. 0x0ff (255): accept",
        ),
        (
            Some(2),
            Target::Accept,
            "case 3 holds: parser.types, 3: accept",
        ),
        (None, Target::Reject, "no case holds: reject"),
    ] {
        let expect = format!(
            "    select
      hdr.ethernet.type  0x8101 (33025)
      meta.port + 9w0x1  3
      {expect}\n"
        );
        check_after(&[state(0)], &[select(keys(), case, target)], &expect);
    }
    check_after(
        &[state(0)],
        &[
            TraceEvent::Advanced { bits: 9 },
            TraceEvent::Advanced { bits: 8 },
            TraceEvent::Rejected { error: 1 },
            TraceEvent::Rejected { error: 0 },
        ],
        "    advance by 9 bits
    advance by 1 byte
  reject with error.PacketTooShort
  reject\n",
    );
}

#[test]
fn a_condition_shows_its_outcome_and_its_source() {
    check(
        &[
            TraceEvent::Block {
                step: ir::StepId::new(0),
                role: BlockRole::Ingress,
            },
            stage(0),
            TraceEvent::Condition { holds: true },
            stage(0),
            TraceEvent::Condition { holds: false },
        ],
        "\
ingress RouterIngress
  stage RouterIngress.if_5                                      router.p4:5  if (!meta.ok) {
    !meta.ok is true
  stage RouterIngress.if_5                                      router.p4:5  if (!meta.ok) {
    !meta.ok is false
",
    );
}

#[test]
fn a_lookup_shows_the_key_the_entry_and_the_action_with_its_parameters() {
    let via = TraceEvent::Action {
        action: ActionId::new(1),
        params: vec![v(1, 9), v(0x0200_0000_0202, 48)],
    };
    let key = || vec![v(0x0a00_0205, 32)];
    check_after(
        &[stage(1)],
        &[lookup(0, key(), Some(0)), via],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    hit: entry 0
      ingress.routes { hdr.ipv4.dst: 10.0.2.0/24; } -> ingress.via(port: 1, mac: 02:00:00:00:02:02)
    action ingress.via(port: 1, mac: 0x020000000202 (02:00:00:00:02:02))  router.p4:7  action via(\n",
    );
    let drop = TraceEvent::Action {
        action: ActionId::new(2),
        params: vec![],
    };
    check_after(
        &[stage(1)],
        &[lookup(0, key(), None), drop],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    miss: the default action runs
    action ingress.drop()                                       router.p4:9\n",
    );
    check_after(
        &[stage(1)],
        &[lookup(0, key(), Some(99))],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    hit: entry 99
      (added by a packet: it matches this key)\n",
    );
}

#[test]
fn what_is_told_of_an_entry_can_be_read_back() {
    let program = program();
    for (table, entry) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)] {
        let steps = told(&[lookup(table, vec![], Some(entry))]);
        let [
            Step::Lookup {
                entry: Some(entry), ..
            },
        ] = &steps[..]
        else {
            panic!("{steps:?}");
        };
        let text = entry.text.as_deref().expect("the entry is there");
        if let Err(errors) = entries::read(&program, "told", text) {
            panic!("{}", errors[0]);
        }
    }
}

#[test]
fn entries_are_written_as_entries_files_write_them() {
    let key = || vec![v(0x800, 16), v(3, 9), v(1, 1), v(9, 8)];
    for (entry, expect) in [
        (
            0,
            "    hit: entry 0 of the program
      ingress.acl { hdr.ethernet.type: 2048; port: 1..5; ok: true; ttl: _; } -> ingress.drop() priority 10\n",
        ),
        (
            1,
            "    hit: entry 1
      ingress.acl { hdr.ethernet.type: _; port: 1; ok: _; ttl: 16 &&& 240; } -> NoAction() priority 5\n",
        ),
    ] {
        let keys = "    table ingress.acl
    key hdr.ethernet.type  ternary   0x0800 (2048, EtherType.Ipv4)
    key port               range     3
    key ok                 optional  true
    key ttl                ternary   9\n";
        let expect = format!("{keys}{expect}");
        check_after(&[stage(1)], &[lookup(1, key(), Some(entry))], &expect);
    }
}

#[test]
fn an_action_profile_shows_the_group_and_the_member() {
    for (entry, group, member, expect) in [
        (
            0,
            Some(7),
            Some(2),
            "{ dst: 5; } -> group 7\n    group 7 chooses member 2\n",
        ),
        (
            0,
            Some(7),
            None,
            "{ dst: 5; } -> group 7\n    group 7 has no member\n",
        ),
        (
            1,
            None,
            Some(3),
            "{ dst: 10.0.0.6; } -> member 3\n    member 3\n",
        ),
        (
            2,
            None,
            Some(1 << 31 | 1),
            "{ dst: 6; } -> { ingress.via(port: 1, mac: 02:00:00:00:00:01) }\n",
        ),
        (
            3,
            Some(1 << 31 | 4),
            Some(1 << 31 | 2),
            "{ dst: 7; } -> { ingress.via(port: 1, mac: 02:00:00:00:00:01), \
             ingress.via(port: 2, mac: 02:00:00:00:00:01) weight 4 }\n    one of its actions is chosen\n",
        ),
    ] {
        let found = TraceEvent::Lookup {
            table: TableId::new(2),
            key: vec![v(5, 32)],
            hit: true,
            entry: Some(EntryId(entry)),
            member,
            group,
        };
        let expect = format!(
            "    table ingress.choose\n    key dst  exact  5\n    hit: entry {entry}\n      ingress.choose {expect}"
        );
        check_after(&[stage(1)], &[found], &expect);
    }
}

#[test]
fn an_action_stage_that_does_nothing_is_left_out() {
    let written = TraceEvent::Written {
        field: FieldId::new(1),
        old: v(1, 48),
        new: v(1, 48),
        loc: loc(6),
    };
    check(&[stage(2), written, stage(2)], "");
}

#[test]
fn writes_show_old_and_new_and_those_that_change_nothing_are_left_out() {
    let written = |field: u32, old: Value, new: Value| TraceEvent::Written {
        field: FieldId::new(field),
        old,
        new,
        loc: loc(6),
    };
    let call = TraceEvent::Call {
        call: Box::new(Call {
            op: Op::CounterCount,
            instance: Some(ExternId::new(0)),
            operands: vec![Operand::In(read(12))],
        }),
        arguments: vec![v(17, 9)],
        results: vec![],
        loc: loc(6),
    };
    check_after(
        &[stage(2)],
        &[
            written(1, v(1, 48), v(2, 48)),
            written(6, v(64, 8), v(64, 8)),
            written(4, v(1, 1), v(0, 1)),
            written(3, v(0, 16), v(0x806, 16)),
            call,
            TraceEvent::Message { text: "hello".to_owned() },
            TraceEvent::Digest { digest: ExternId::new(1), values: vec![v(7, 48), v(1, 1)] },
            TraceEvent::Exit,
            TraceEvent::NoCloneSession { session: 5 },
        ],
        "  stage RouterIngress.act                                       router.p4:20
    hdr.ethernet.dst = 0x000000000002 (00:00:00:00:00:02), was 0x000000000001 (00:00:00:00:00:01)  router.p4:6  six
    hdr.ipv4.isValid() = false, was true                        router.p4:6  six
    hdr.ethernet.type = 0x0806 (2054, EtherType.Arp), was 0     router.p4:6  six
    call counter.count of ingress.drops                         router.p4:6  six
      index  0x011 (17)
    message: hello
    digest ingress.learn is sent
      mac  0x000000000007 (00:00:00:00:00:07)
      new  true
    exit
no clone: there is no clone session 5\n",
    );
}

#[test]
fn a_call_shows_what_it_takes_and_gives_by_name() {
    let port = || Expr::Read(place(12));
    let hash = Call {
        op: Op::Hash,
        instance: None,
        operands: vec![
            Operand::Number(HashAlgorithm::Crc16.number()),
            Operand::In(Expr::Const(ir::ScalarTy::Bit(16), v(0, 16))),
            Operand::In(Expr::Const(ir::ScalarTy::Bit(16), v(64, 16))),
            Operand::Data(vec![
                Expr::Read(place(1)),
                Expr::Const(ir::ScalarTy::Bit(8), v(7, 8)),
            ]),
            Operand::Out(place(3)),
        ],
    };
    let verify = Call {
        op: Op::VerifyChecksum,
        instance: None,
        operands: vec![
            Operand::Number(HashAlgorithm::Csum16.number()),
            Operand::In(Expr::Read(place(13))),
            Operand::Data(vec![]),
            Operand::In(Expr::Read(place(3))),
        ],
    };
    let meter = Call {
        op: Op::MeterExecute,
        instance: None,
        operands: vec![Operand::In(port()), Operand::Out(place(12))],
    };
    let call = |call: Call, arguments: Vec<Value>, results: Vec<Value>| TraceEvent::Call {
        call: Box::new(call),
        arguments,
        results,
        loc: None,
    };
    check_after(
        &[stage(2)],
        &[
            call(
                hash,
                vec![v(0, 16), v(64, 16), v(2, 48), v(7, 8)],
                vec![v(0x800, 16)],
            ),
            call(verify, vec![v(1, 1), v(5, 16)], vec![v(6, 16)]),
            call(meter, vec![v(1, 9)], vec![v(2, 9)]),
            TraceEvent::Given {
                fields: vec![(FieldId::new(12), v(3, 9)), (FieldId::new(13), v(0, 1))],
            },
        ],
        "  stage RouterIngress.act                                       router.p4:20
    call hash
      algorithm         crc16
      base              0
      max               0x0040 (64)
      hdr.ethernet.dst  0x000000000002 (00:00:00:00:00:02)
      data              7
      result            -> 0x0800 (2048, EtherType.Ipv4)
    call verify_checksum
      algorithm  csum16
      condition  true
      checksum   5
      computed   -> 6
    call meter.execute
      index  1
      color  -> 2 (red)
set by the architecture
  meta.port  3\n",
    );
}

/// Rounds of a loop, each with one write and what `inside` says.
fn rounds(of: u32, count: u64, inside: &[TraceEvent]) -> Vec<TraceEvent> {
    let round = |number| {
        let head = TraceEvent::Round {
            of,
            number,
            loc: None,
        };
        let written = TraceEvent::Written {
            field: FieldId::new(12),
            old: v(u128::from(number) - 1, 9),
            new: v(u128::from(number), 9),
            loc: None,
        };
        [&[head, written], inside].concat()
    };
    let mut events: Vec<_> = (1..=count).flat_map(round).collect();
    events.push(TraceEvent::LoopLeft { of });
    events
}

#[test]
fn many_rounds_are_told_by_the_first_and_the_last() {
    let shown = |events: &[TraceEvent]| text(&fold(told(events)), false);
    let some = [stage(2)]
        .into_iter()
        .chain(rounds(1, 8, &[]))
        .collect::<Vec<_>>();
    assert_eq!(fold(told(&some)), told(&some), "few rounds are all told");

    let many: Vec<_> = [stage(2)]
        .into_iter()
        .chain(rounds(1, 1000, &[]))
        .chain(rounds(2, 2, &[]))
        .collect();
    let expect = "  stage RouterIngress.act                                       router.p4:20
    round 1
      meta.port = 1, was 0
    round 2
      meta.port = 2, was 1
    round 3
      meta.port = 3, was 2
    ... 995 rounds like these ...
    round 999
      meta.port = 0x1e7 (487), was 0x1e6 (486)
    round 1000
      meta.port = 0x1e8 (488), was 0x1e7 (487)
    round 1
      meta.port = 1, was 0
    round 2
      meta.port = 2, was 1\n";
    assert_eq!(shown(&many), expect);

    // Of loops in loops each is folded, and both loops of a round are loops of their own.
    let inner = [rounds(2, 20, &[]), rounds(2, 9, &[])].concat();
    let nested = told(&rounds(1, 100, &inner));
    let folded = fold(nested.clone());
    let cuts: Vec<usize> = folded
        .iter()
        .filter_map(|step| match step {
            Step::Folded { rounds, .. } => Some(*rounds),
            _ => None,
        })
        .collect();
    assert_eq!(cuts, [15, 4, 15, 4, 15, 4, 95, 15, 4, 15, 4]);
    let told_steps: usize = folded
        .iter()
        .map(|step| match step {
            Step::Folded { steps, .. } => *steps,
            _ => 1,
        })
        .sum();
    assert_eq!(told_steps, nested.len(), "no step is lost");
}

#[test]
fn states_and_stages_that_come_again_are_rounds_too() {
    let block = |role| TraceEvent::Block {
        step: ir::StepId::new(0),
        role,
    };
    let mut events = vec![block(BlockRole::Parser)];
    (0..50).for_each(|_| events.extend([state(0), state(1)]));
    events.push(block(BlockRole::Ingress));
    (0..50).for_each(|_| events.extend([stage(0), stage(1)]));
    let folded = fold(told(&events));
    assert_eq!(folded.len(), 2 + 2 * (5 * 2 + 1));
    assert_eq!(
        folded[7],
        Step::Folded {
            rounds: 45,
            steps: 90
        }
    );
    let once: Vec<_> = (0..50)
        .flat_map(|_| [block(BlockRole::Parser), state(0)])
        .collect();
    assert_eq!(
        fold(told(&once)),
        told(&once),
        "a parser that runs for each copy does not loop"
    );
}

fn packet() -> Vec<u8> {
    (0..40).collect()
}

#[test]
fn the_deparsed_packet_marks_what_changed_and_says_where_it_goes() {
    let received = || TraceEvent::Received {
        port: 3,
        bytes: packet(),
    };
    check(
        &[received()],
        "\
received by port 3, 40 bytes
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f  ................
  0020  20 21 22 23 24 25 26 27                            !\"#$%&'
",
    );
    let mut changed = packet();
    changed[17] = 0x63;
    changed[24] = 0x64;
    let headers = [0, 2, 1].map(HeaderId::new);
    let emitted = |header| TraceEvent::Emitted { header, bits: 112 };
    let passed = |header| TraceEvent::NotEmitted { header };
    check_after(
        &[received()],
        &[
            TraceEvent::Block {
                step: ir::StepId::new(0),
                role: BlockRole::Deparser,
            },
            emitted(headers[0]),
            passed(headers[1]),
            passed(headers[2]),
            emitted(headers[0]),
            passed(headers[1]),
            TraceEvent::Deparsed {
                bytes: changed.clone(),
            },
            TraceEvent::Sent {
                port: 1,
                bytes: changed.clone(),
            },
            TraceEvent::Sent {
                port: 2,
                bytes: packet()[..39].to_vec(),
            },
        ],
        "\
deparser RouterDeparser
  emit hdr.ethernet (14 bytes)
  not valid, not emitted: hdr.arp, hdr.ipv4
  emit hdr.ethernet (14 bytes)
  not valid, not emitted: hdr.arp
deparsed, 40 bytes: 2 bytes changed or new
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 63 12 13 14 15 16 17  64 19 1a 1b 1c 1d 1e 1f  .c......d.......
           ^^                    ^^
  0020  20 21 22 23 24 25 26 27                            !\"#$%&'
sent by port 1, 40 bytes
sent by port 2, 39 bytes: nothing new
  removed: 1 byte at 0027 (27)
  0000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  ................
  0010  10 11 12 13 14 15 16 17  18 19 1a 1b 1c 1d 1e 1f  ................
  0020  20 21 22 23 24 25 26                               !\"#$%&
",
    );
}

#[test]
fn a_packet_that_was_shown_is_not_shown_again() {
    let received = || TraceEvent::Received {
        port: 0,
        bytes: vec![1, 2],
    };
    let deparsed = |bytes: &[u8]| TraceEvent::Deparsed {
        bytes: bytes.to_vec(),
    };
    check_after(
        &[received()],
        &[deparsed(&[1, 2]), deparsed(&[1, 3]), deparsed(&[1, 3])],
        "\
deparsed, 2 bytes: as received
deparsed, 2 bytes: 1 byte changed or new
  0000  01 03                                             ..
           ^^
deparsed, 2 bytes: as above
",
    );
}

#[test]
fn long_stretches_as_received_are_summed_up() {
    let long = vec![0; 10 * 16];
    let mut changed = long.clone();
    changed[0] = 0x41;
    check_after(
        &[TraceEvent::Received {
            port: 0,
            bytes: long,
        }],
        &[TraceEvent::Deparsed { bytes: changed }],
        "\
deparsed, 160 bytes: 1 byte changed or new
  0000  41 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  A...............
        ^^
  0010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  ................
  ... 128 bytes as received
",
    );
}

#[test]
fn the_ways_of_a_packet_are_told_in_words() {
    check_after(
        &[stage(2)],
        &[
            TraceEvent::Copied {
                why: "clone",
                port: 4,
                instance: 1,
            },
            TraceEvent::Queued {
                port: 4,
                priority: 2,
                depth: 1,
            },
            TraceEvent::Queued {
                port: 5,
                priority: 0,
                depth: 0,
            },
            TraceEvent::Dequeued { port: 4 },
            TraceEvent::Again { why: "recirculate" },
            TraceEvent::Dropped {
                reason: DropReason::Ingress,
                detail: DropDetail::None,
            },
            TraceEvent::Dropped {
                reason: DropReason::NoSuchPort,
                detail: DropDetail::Number(9),
            },
            TraceEvent::Dropped {
                reason: DropReason::ParserReject,
                detail: DropDetail::ParserError(2),
            },
        ],
        "\
copied (clone): a copy for port 4, instance 1
queued for port 4, priority 2, behind 1 packet
queued for port 5
the packet for port 4
starts over: recirculate
dropped: the program dropped it in ingress
dropped: the device has no such port (9)
dropped: the parser rejected it (error.NoMatch)
",
    );
}

#[test]
fn every_drop_reason_has_words_of_its_own() {
    let dropped = |reason: &DropReason| {
        let steps = told(&[TraceEvent::Dropped {
            reason: *reason,
            detail: DropDetail::None,
        }]);
        text(&steps, false)
    };
    let words: std::collections::BTreeSet<String> = DropReason::ALL.iter().map(dropped).collect();
    assert_eq!(words.len(), DropReason::ALL.len());
}

#[test]
fn colours_change_nothing_but_colours() {
    let events = [
        TraceEvent::Received {
            port: 0,
            bytes: vec![1, 2],
        },
        stage(0),
        TraceEvent::Condition { holds: true },
        TraceEvent::Deparsed { bytes: vec![1, 3] },
        TraceEvent::Dropped {
            reason: DropReason::Egress,
            detail: DropDetail::None,
        },
    ];
    let steps = told(&events);
    let coloured = text(&steps, true);
    assert!(coloured.contains("\x1b[1;36m03\x1b[0m"), "{coloured}");
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, sequence)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = sequence.split_once('m').expect("a sequence ends").1;
    }
    assert_eq!(plain + rest, text(&steps, false));
}

#[test]
fn json_has_stable_keys_and_values_with_their_widths() {
    let steps = told(&[
        stage(1),
        lookup(0, vec![v(0x0a00_0205, 32)], Some(0)),
        TraceEvent::Deparsed {
            bytes: vec![0xab, 1],
        },
    ]);
    let json = serde_json::to_value(&steps).expect("steps can be written");
    let expect = serde_json::json!([
        {
            "event": "stage", "control": "RouterIngress", "stage": "RouterIngress.routes", "kind": "match",
            "source": {"file": "lib/router.p4", "line": 12, "column": 5},
        },
        {
            "event": "lookup", "table": "ingress.routes", "hit": true, "member": null, "group": null,
            "keys": [{
                "name": "hdr.ipv4.dst", "match_kind": "lpm", "value": "0x0a000205", "width": 32,
                "text": "0x0a000205 (167772677, 10.0.2.5)",
            }],
            "entry": {
                "id": 0, "priority": null, "is_const": false,
                "text": "ingress.routes { hdr.ipv4.dst: 10.0.2.0/24; } -> ingress.via(port: 1, mac: 02:00:00:00:02:02)",
            },
        },
        {"event": "deparsed", "length": 2, "bytes": "ab01"},
    ]);
    assert_eq!(json, expect);
}

/// One event of each kind.
fn all_kinds() -> Vec<TraceEvent> {
    let bytes = || vec![0u8];
    vec![
        TraceEvent::Received {
            port: 0,
            bytes: bytes(),
        },
        TraceEvent::Block {
            step: ir::StepId::new(0),
            role: BlockRole::Parser,
        },
        state(0),
        TraceEvent::Extracted {
            header: HeaderId::new(0),
            offset: 0,
            bits: 112,
            fields: vec![],
        },
        TraceEvent::Advanced { bits: 8 },
        select(vec![v(0, 16), v(0, 9)], None, Target::Reject),
        TraceEvent::Rejected { error: 0 },
        TraceEvent::Accepted { consumed: 0 },
        stage(0),
        TraceEvent::Condition { holds: true },
        lookup(0, vec![v(0, 32)], Some(0)),
        TraceEvent::Action {
            action: ActionId::new(0),
            params: vec![],
        },
        TraceEvent::Written {
            field: FieldId::new(1),
            old: v(0, 48),
            new: v(1, 48),
            loc: None,
        },
        TraceEvent::Call {
            call: Box::new(Call {
                op: Op::Hash,
                instance: None,
                operands: vec![
                    Operand::Number(HashAlgorithm::Crc16.number()),
                    Operand::In(read(0)),
                    Operand::Out(place(0)),
                ],
            }),
            arguments: vec![v(1, 9)],
            results: vec![v(1, 9)],
            loc: None,
        },
        TraceEvent::Round {
            of: 1,
            number: 1,
            loc: None,
        },
        TraceEvent::Advanced { bits: 8 },
        TraceEvent::LoopLeft { of: 1 },
        TraceEvent::Given {
            fields: vec![(FieldId::new(0), v(1, 1))],
        },
        TraceEvent::Emitted {
            header: HeaderId::new(0),
            bits: 112,
        },
        TraceEvent::NotEmitted {
            header: HeaderId::new(0),
        },
        TraceEvent::Exit,
        TraceEvent::Deparsed { bytes: bytes() },
        TraceEvent::Message {
            text: String::new(),
        },
        TraceEvent::Digest {
            digest: ExternId::new(1),
            values: vec![],
        },
        TraceEvent::Copied {
            why: "multicast",
            port: 0,
            instance: 0,
        },
        TraceEvent::NoCloneSession { session: 0 },
        TraceEvent::Queued {
            port: 0,
            priority: 0,
            depth: 0,
        },
        TraceEvent::Dequeued { port: 0 },
        TraceEvent::Again { why: "resubmit" },
        TraceEvent::Sent {
            port: 0,
            bytes: bytes(),
        },
        TraceEvent::Dropped {
            reason: DropReason::Ingress,
            detail: DropDetail::None,
        },
    ]
}

#[test]
fn the_guide_describes_every_event_with_its_keys() {
    let guide = include_str!("../../../../docs/TRACE.md");
    let rows: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let folded = Step::Folded {
        rounds: 1,
        steps: 1,
    };
    for step in told(&all_kinds()).into_iter().chain([folded]) {
        let json = serde_json::to_value(&step).expect("steps can be written");
        let json = json.as_object().expect("a step is an object");
        let event = json["event"].as_str().expect("its kind is a string");
        let mut of_event = rows
            .iter()
            .filter(|row| row.starts_with(&format!("| `{event}` |")));
        let row = of_event
            .next()
            .unwrap_or_else(|| panic!("`{event}` is not described"));
        for key in json.keys().filter(|key| *key != "event") {
            assert!(
                row.contains(&format!("`{key}`")),
                "{event}: `{key}` is not described"
            );
        }
    }
}

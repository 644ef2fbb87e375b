//! Output of states, conditions, writes and calls.

use super::*;

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

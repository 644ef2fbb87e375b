//! Output formats: colours, JSON, and the documentation of its keys.

use super::*;

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
    let steps = steps_of(&events);
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
    let steps = steps_of(&[
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

/// Returns one event of each kind.
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
        TraceEvent::CopiesRefused {
            copies: 2,
            reason: DropReason::CopyBudget,
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
    let guide = include_str!("../../../../docs/reference/trace.md");
    let rows: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let folded = Step::Folded {
        rounds: 1,
        steps: 1,
    };
    for step in steps_of(&all_kinds()).into_iter().chain([folded]) {
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

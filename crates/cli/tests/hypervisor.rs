//! `polyplane hypervisor`: what it writes is a program and entries for it, and what it cannot express it names.

mod lab;

use lab::{Directory, Said, example, polyplane, said};

/// A datagram from 10.0.1.2 to 10.0.2.2.
const PACKET: &str = "02000000010102000000010208004500002100010000401163c80a0001020a00020203e80035000d94cb7175657279";

/// What a command says that says more than a pipe holds.
fn told(args: &[&str]) -> Said {
    Said::from(polyplane().args(args).output().expect("it runs"))
}

#[test]
fn what_is_emitted_forwards_a_packet_by_what_is_translated() {
    let dir = Directory::new("hypervisor");
    let program = dir.file("hypervisor.p4");
    let emitted = said(&["hypervisor", "emit", "--slots", "4", "-o", &program]);
    assert_eq!(
        (emitted.status, emitted.out.as_str()),
        (Some(0), ""),
        "{}",
        emitted.err
    );
    let entry = "routes { hdr.ipv4.dst: 10.0.0.0/8; } -> next_hop(5, 02:00:00:00:02:01, 02:00:00:00:02:02)\n";
    let entries = dir.with("l3.entries", entry);
    let function = example("functions/l3_sw.p4");
    let translate = [
        "hypervisor",
        "translate",
        &function,
        "--entries",
        &entries,
        "--slots",
        "4",
    ];
    let hosted = told(&translate);
    assert_eq!(hosted.status, Some(0), "{}", hosted.err);
    let hosted = dir.with("hosted.entries", hosted.out);
    let traced = told(&["trace", &program, "--entries", &hosted, "--packet", PACKET]);
    assert!(traced.out.contains("sent by port 5"), "{}", traced.out);

    let json = told(&[&translate[..], &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("it is JSON");
    assert!(
        value["entries"]
            .as_array()
            .is_some_and(|entries| !entries.is_empty()),
        "{value}"
    );
}

#[test]
fn what_is_not_expressed_is_named_with_its_line() {
    let selector = said(&[
        "hypervisor",
        "translate",
        &example("rate_limiter/rate_limiter.p4"),
    ]);
    assert_eq!(selector.status, Some(1));
    let line = selector.one_line();
    assert!(
        line.contains("rate_limiter.p4:94:11: the hypervisor does not express"),
        "{line}"
    );
    let slots = said(&["hypervisor", "emit", "--slots", "2", "--egress-slots", "2"]);
    assert_eq!(slots.status, Some(1));
    assert!(
        slots.one_line().ends_with("give --slots at least 3"),
        "{}",
        slots.err
    );
}

#[test]
fn figures_are_at_or_below_the_papers() {
    let figures = said(&["hypervisor", "figures", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&figures.out).expect("it is JSON");
    let told = told.as_array().expect("an array");
    assert_eq!(told.len(), 9);
    for figure in told {
        let ours = figure
            .get("tables")
            .or(figure.get("total"))
            .and_then(|n| n.as_u64());
        let paper = figure["paper"].as_u64();
        assert!(ours.is_some() && ours <= paper, "{figure}");
    }
}

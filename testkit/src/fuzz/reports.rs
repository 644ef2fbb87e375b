//! The target `reports`: telemetry reports as a collector gets them from a network, right and
//! damaged, and packets with INT in them. They are refused, or read whole and written again; what
//! is written is read as equal.

use support::rng::Rng;
use telemetry::{
    Associations, EmbeddedInt, EqualClocks, Exporter, Hop, HopTime, Instructions, IntContents,
    IntDomain, IntMarker, IntNodeId, IntStack, Interfaces, NextProtocol, PacketKind, ReportEvent,
    ReportHeader, ReportVersion, ReportView, ReportWriter, ReportedHops, TelemetryReport,
    write_json_line,
};

use super::guard::guarded;
use super::{Case, Fault};

/// Payloads of a case.
const PAYLOADS: usize = 200;

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let stream = case.stream();
    let examined = guarded(case.limit, move || {
        let mut choices = Rng::new(stream);
        let payloads = (0..PAYLOADS).map(|_| payload(&mut choices));
        payloads.filter(|payload| is_read(payload)).count() > 0
    });
    match examined {
        Ok(has_accepted) => {
            if has_accepted {
                case.accept();
            }
            None
        }
        Err(trouble) => {
            let place = format!("case {} of seed {}", case.number, case.seed);
            Some((trouble.fault("reading reports"), place))
        }
    }
}

/// A report of any version: as an exporter writes it, damaged, cut, or random bytes.
fn payload(choices: &mut Rng) -> Vec<u8> {
    let mut payload = match choices.index(4) {
        0 => (0..choices.index(80))
            .map(|_| choices.bits() as u8)
            .collect(),
        _ => written(choices),
    };
    if choices.index(8) == 0
        && let Some(first) = payload.first_mut()
    {
        *first = first.wrapping_sub(0x10);
    }
    for _ in 0..choices.index(4) {
        if !payload.is_empty() {
            let at = choices.index(payload.len());
            payload[at] ^= 1 << choices.index(8);
        }
    }
    if choices.index(4) == 0 {
        payload.truncate(choices.index(payload.len() + 1));
    }
    payload
}

/// A report of some events with packets that have INT.
fn written(choices: &mut Rng) -> Vec<u8> {
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(IntNodeId(choices.below(4) as u32)),
            hardware: choices.below(64) as u8,
        },
        sequence: choices.bits() as u32,
    };
    let mut out = Vec::new();
    let mut writer = ReportWriter::new(&header, &mut out);
    for _ in 0..1 + choices.index(3) {
        let packet = packet(choices);
        let event = ReportEvent {
            associations: Associations {
                tracked: choices.index(4) > 0,
                ..Associations::default()
            },
            hop: Hop {
                latency: (choices.index(2) == 0).then(|| choices.bits() as u32),
                ingress_time: (choices.index(2) == 0).then(|| HopTime::Full(choices.bits())),
                interfaces: (choices.index(2) == 0).then_some(Interfaces {
                    ingress: 1,
                    egress: 2,
                }),
                ..Hop::default()
            },
            drop: None,
            packet: Some((PacketKind::Ipv4, &packet)),
            max_packet: choices.index(1200),
        };
        if writer.event(&event).is_err() {
            break;
        }
    }
    out
}

/// An IPv4 packet with TCP or UDP and an INT-MD stack.
fn packet(choices: &mut Rng) -> Vec<u8> {
    let is_udp = choices.index(2) == 0;
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[1] = 0x17 << 2;
    packet[9] = if is_udp { 17 } else { 6 };
    let mut transport = vec![0; if is_udp { 8 } else { 20 }];
    if !is_udp {
        transport[12] = 0x50;
    }
    packet.extend(transport);
    let instructions = Instructions(choices.bits() as u16 & 0xff81);
    let words = instructions.words(telemetry::MetadataLayout::Int2);
    let hops = choices.index(20).min(252 / words.max(1));
    let entries: Vec<u8> = (0..4 * words * hops)
        .map(|_| if choices.index(3) == 0 { 0xff } else { 1 })
        .collect();
    if let Ok(stack) = IntStack::new(instructions, 3, &entries) {
        let int = EmbeddedInt {
            next: NextProtocol::Payload { dscp: 0 },
            contents: IntContents::Md(stack),
        };
        // A stack of INT 2.1 that is not cut is written.
        let _ = int.write(&mut packet);
    }
    packet
}

/// Reads all of a payload and writes it again. Returns whether it was accepted.
fn is_read(payload: &[u8]) -> bool {
    let report = match TelemetryReport::parse(payload) {
        Ok(report) => report,
        Err(error) => {
            assert!(error.at <= payload.len() && !error.to_string().is_empty());
            return false;
        }
    };
    let domain = IntDomain::new(IntMarker::Dscp {
        value: 0x17,
        mask: 0x3f,
    });
    let mut text = String::new();
    for individual in report.individuals() {
        let view = ReportView::new(report.header.exporter, &individual, &domain);
        if let ReportedHops::Path(path) = view.hops {
            let sum = path.summed_hop_latency();
            assert!(sum.is_err() || path.gaps().is_complete());
            let _ = path.first_ingress_to_last_egress(EqualClocks);
            path.revisited();
            path.path_hash(payload.len() as u64);
        }
        write_json_line(&report.header, &individual, &view, &mut text);
    }
    let mut bytes = Vec::new();
    report.write(&mut bytes).expect("the payload fits");
    assert_eq!(bytes.len(), payload.len());
    let again = TelemetryReport::parse(&bytes).expect("what is written is accepted");
    assert_eq!(again.header, report.header);
    let mut twice = Vec::new();
    again.write(&mut twice).expect("the payload fits");
    assert_eq!(twice, bytes);
    true
}

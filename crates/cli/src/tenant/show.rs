//! Shows the virtual data planes of a switch, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use p4info::polyplane::tenancy::v1 as wire;
use serde::Serialize;
use tenancy::CompileQuota;

use crate::amount;

/// Everything that a switch hosts.
#[derive(Serialize)]
pub(super) struct Listing<'w> {
    vpdps: Vec<Described<'w>>,
    shared_ports: BTreeMap<u32, &'w str>,
    rules: &'w [String],
    packets: Counts<'w>,
}

/// One virtual data plane.
#[derive(Serialize)]
pub(super) struct Described<'w> {
    id: u32,
    name: &'w str,
    owner: &'w str,
    ports: &'w [String],
    quotas: &'w [String],
    is_suspended: bool,
    program: Option<Program<'w>>,
    packets: Counts<'w>,
    compilations: Compilations,
}

/// Compilations of one virtual data plane.
#[derive(Default, Serialize)]
struct Compilations {
    begun: u64,
    refused: u64,
    microseconds: u64,
    is_running: bool,
}

impl Compilations {
    fn of(compilations: Option<&wire::Compilations>) -> Compilations {
        let Some(of) = compilations else {
            return Compilations::default();
        };
        Compilations {
            begun: of.begun,
            refused: of.refused,
            microseconds: of.microseconds,
            is_running: of.is_running,
        }
    }
}

/// Quotas of one virtual data plane.
#[derive(Serialize)]
pub(super) struct Quotas<'w> {
    id: u32,
    name: &'w str,
    quotas: &'w [String],
}

impl<'w> Quotas<'w> {
    pub(super) fn of(vpdp: &'w wire::Vpdp) -> Quotas<'w> {
        Quotas {
            id: vpdp.id,
            name: &vpdp.name,
            quotas: &vpdp.quotas,
        }
    }
}

#[derive(Serialize)]
struct Program<'w> {
    name: &'w str,
    policy: Option<&'w str>,
    joints: &'w [String],
    stages: u64,
    entries: u64,
}

#[derive(Default, Serialize)]
struct Counts<'w> {
    received: u64,
    generated: u64,
    replicated: u64,
    sent: u64,
    held: u64,
    dropped: BTreeMap<&'w str, u64>,
}

impl<'w> Counts<'w> {
    fn of(packets: Option<&'w wire::Packets>) -> Counts<'w> {
        let Some(packets) = packets else {
            return Counts::default();
        };
        let dropped = packets.dropped.iter();
        Counts {
            received: packets.received,
            generated: packets.generated,
            replicated: packets.replicated,
            sent: packets.sent,
            held: packets.held,
            dropped: dropped.map(|(reason, n)| (reason.as_str(), *n)).collect(),
        }
    }

    /// Formats the numbers of dropped packets, one reason per line.
    fn drop_lines(&self) -> impl Iterator<Item = String> {
        let dropped = self.dropped.iter();
        dropped.map(|(reason, packets)| format!("  dropped: {packets} {reason}"))
    }
}

impl<'w> Described<'w> {
    pub(super) fn of(vpdp: &'w wire::Vpdp) -> Described<'w> {
        Described {
            id: vpdp.id,
            name: &vpdp.name,
            owner: &vpdp.owner,
            ports: &vpdp.ports,
            quotas: &vpdp.quotas,
            is_suspended: vpdp.is_suspended,
            program: vpdp.program.as_ref().map(|program| Program {
                name: &program.name,
                policy: program.policy.as_deref(),
                joints: &program.joints,
                stages: program.stages,
                entries: program.entries,
            }),
            packets: Counts::of(vpdp.packets.as_ref()),
            compilations: Compilations::of(vpdp.compilations.as_ref()),
        }
    }
}

impl<'w> Listing<'w> {
    pub(super) fn of(told: &'w wire::ShowResponse) -> Listing<'w> {
        let shared = told.shared_ports.iter();
        Listing {
            vpdps: told.vpdps.iter().map(Described::of).collect(),
            shared_ports: shared.map(|one| (one.port, one.sharing.as_str())).collect(),
            rules: &told.rules,
            packets: Counts::of(told.packets.as_ref()),
        }
    }
}

/// Formats all vPDPs, one per line, then shared ports, rules, and totals of all packets. Only the
/// totals contain packets of no vPDP.
pub(super) fn list(told: &wire::ShowResponse) -> String {
    let mut text = String::new();
    if told.vpdps.is_empty() {
        text.push_str("no virtual data planes; make one with `polyplane tenant create`\n");
    }
    for vpdp in &told.vpdps {
        let program = match &vpdp.program {
            None => "no program",
            Some(program) => program.policy.as_ref().unwrap_or(&program.name),
        };
        let counts = Counts::of(vpdp.packets.as_ref());
        let dropped: u64 = counts.dropped.values().sum();
        let suspended = if vpdp.is_suspended { ", suspended" } else { "" };
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{:>4}  {:<16} {program}{suspended}; ports {}; {} received, {} sent, {dropped} dropped",
            vpdp.id,
            vpdp.name,
            ports(&vpdp.ports),
            counts.received,
            counts.sent,
        );
    }
    for shared in &told.shared_ports {
        let _ = writeln!(text, "port {} is shared: {}", shared.port, shared.sharing);
    }
    for rule in &told.rules {
        let _ = writeln!(text, "rule {rule}");
    }
    // Owners do not see the packets of others.
    if told.packets.is_some() {
        let all = Counts::of(told.packets.as_ref());
        let _ = writeln!(
            text,
            "all packets: {} received, {} sent",
            all.received, all.sent
        );
        for line in all.drop_lines() {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn ports(ports: &[String]) -> String {
    match ports.is_empty() {
        true => "none".to_owned(),
        false => ports.join(", "),
    }
}

/// Formats the quotas of a vPDP, with units.
fn quota_lines(vpdp: &wire::Vpdp) -> impl Iterator<Item = String> {
    vpdp.quotas
        .iter()
        .map(|setting| tenancy::Quotas::told(setting))
}

/// Formats the quotas of a vPDP, one per line, and the defaults of those that it does not have.
/// Each line begins with a setting as `polyplane tenant quota` takes it.
pub(super) fn quotas(vpdp: &wire::Vpdp) -> String {
    let (id, name) = (vpdp.id, &vpdp.name);
    let mut text = match vpdp.quotas.is_empty() {
        true => format!("vPDP {id} ({name}) has no quotas\n"),
        false => format!("vPDP {id} ({name})\n"),
    };
    for line in quota_lines(vpdp) {
        // Writing to a string never fails.
        let _ = writeln!(text, "  {line}");
    }
    let defaults = [
        ("work", u64::from(tenancy::WORK_OF_A_PACKET.units())),
        ("state-bytes", tenancy::STATE_BYTES),
        ("text-bytes", CompileQuota::DEFAULT_TEXT_BYTES as u64),
        ("compile-ms", CompileQuota::DEFAULT_TIME.as_millis() as u64),
        ("compile-bytes", CompileQuota::DEFAULT_BYTES),
    ];
    for (name, value) in defaults {
        let is_set = |quota: &String| quota.split('=').next() == Some(name);
        if !vpdp.quotas.iter().any(is_set) {
            let told = tenancy::Quotas::told(&format!("{name}={value}"));
            let _ = writeln!(text, "  {told}, the default");
        }
    }
    text
}

/// Formats one vPDP with all details.
pub(super) fn describe(vpdp: &wire::Vpdp) -> String {
    let mut lines = vec![format!("vPDP {} ({})", vpdp.id, vpdp.name)];
    if !vpdp.owner.is_empty() {
        lines.push(format!("  owner: {}", vpdp.owner));
    }
    if vpdp.is_suspended {
        lines.push("  suspended: its packets are dropped".to_owned());
    }
    let connected = (0..).zip(&vpdp.ports);
    lines.extend(connected.map(|(port, to)| format!("  port {port}: {to}")));
    lines.extend(quota_lines(vpdp).map(|line| format!("  quota {line}")));
    match &vpdp.program {
        None => lines.push("  no program".to_owned()),
        Some(program) => {
            lines.push(format!(
                "  program: {}, {}, {}",
                program.name,
                amount::count(program.stages, "stage"),
                amount::count(program.entries, "entry")
            ));
            if let Some(policy) = &program.policy {
                lines.push(format!("  policy: {policy}"));
            }
            lines.extend(program.joints.iter().map(|joint| format!("    {joint}")));
        }
    }
    let compilations = Compilations::of(vpdp.compilations.as_ref());
    lines.push(format!(
        "  compilations: {} run, {} refused, {:.3} s of a processor{}",
        compilations.begun,
        compilations.refused,
        compilations.microseconds as f64 / 1e6,
        match compilations.is_running {
            true => ", one under way",
            false => "",
        }
    ));
    let counts = Counts::of(vpdp.packets.as_ref());
    lines.push(format!(
        "  packets: {} received, {} replicated, {} sent, {} held",
        counts.received, counts.replicated, counts.sent, counts.held
    ));
    lines.extend(counts.drop_lines());
    lines.join("\n") + "\n"
}

//! The target `commands`: changes of elements as they come from the log of a store, and requests
//! of other processes.
//!
//! - Bytes that are read as a write, or as a request, are those of what was read, written again.
//! - An element refuses or applies each change; it never panics, keeps the order of its fence, and
//!   a repeated change has no effect.

use std::sync::{Arc, OnceLock};

use consensus::{
    ChangeBytes, ClientBody, ClientId, ClientMessage, ElementChange, ElementId, LogIndex, NodeId,
    Operation, Request, Term,
};
use interp::Interp;
use ir::Program;
use reflex::{
    ElementAnswer, ElementIndex, ElementWrite, EntryKey, Loops, ManagedElement, ReflexIndex,
    Setting, WritePlace,
};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

use super::guard::guarded;
use super::{Case, Fault};

const CLUSTER: u64 = 1;
/// Changes of a case.
const CHANGES: usize = 100;

/// Permissions of an entry, a meter and a register.
const LOOPS: &str = r#"
[[element]]
name = "s"
[[source]]
listen = "host:collector"
from = [{ node = 9, address = "10.9.0.9" }]
[[monitor]]
name = "slow"
kind = "path_latency"
match = ["any"]
above = "1 us"
reflex = "detour"
[[reflex]]
name = "detour"
element = "s"
table = "I.detour"
key = ["ip.src", "ip.dst"]
action = "I.via"
ports = [1, 2]
"#;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header pair { bit<32> src; bit<32> dst; }
struct headers { pair h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action via(bit<9> port) { s.egress_spec = port; }
    action usual() { s.egress_spec = 1; }
    table detour {
        key = { hdr.h.src: exact; hdr.h.dst: exact; }
        actions = { via; usual; }
        default_action = usual();
        size = 64;
    }
    apply { detour.apply(); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The loops and the program of the element, made once.
fn parts() -> Result<&'static (Loops, Arc<Program>), Fault> {
    static PARTS: OnceLock<Result<(Loops, Arc<Program>), String>> = OnceLock::new();
    let parts = PARTS.get_or_init(|| {
        let loops = Loops::read("loops", LOOPS).map_err(|error| error.to_string())?;
        let program = driver::compile_text("element.p4", PROGRAM)?;
        Ok((loops, Arc::new(program)))
    });
    parts
        .as_ref()
        .map_err(|error| Fault::new("the element cannot be made", error.clone()))
}

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let stream = case.stream();
    let examined = guarded(case.limit, move || run(&mut Rng::new(stream)));
    let fault = match examined {
        Ok(Ok(applied)) => {
            if applied > 0 {
                case.accept();
            }
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("changes of an element"),
    };
    Some((fault, format!("case {} of seed {}", case.number, case.seed)))
}

/// Gives an element right, damaged and repeated changes. Returns the number that it applied.
fn run(choices: &mut Rng) -> Result<u64, Fault> {
    let (loops, program) = parts()?;
    let cannot = |error: String| Fault::new("the element cannot be made", error);
    let device = Device::new(Arc::clone(program), &Interp, &DeviceConfig::default());
    let mut device = device.map_err(|error| cannot(error.to_string()))?;
    let element = ManagedElement::new(loops, ElementIndex(0), program);
    let mut element = element.map_err(|error| cannot(error.to_string()))?;
    let (mut term, mut index, mut newest) = (1, 0, 0);
    let mut sent: Vec<(Term, ElementChange)> = Vec::new();
    for _ in 0..CHANGES {
        let (term, change, is_new) = match choices.pick(&sent) {
            Some(&(term, change)) if choices.one_in(4) => (term, change, false),
            _ => {
                term += choices.below(2);
                let previous = index;
                index += 1 + choices.below(3);
                let change = change(choices, previous, index);
                sent.push((Term(term), change));
                (Term(term), change, true)
            }
        };
        reads_as_written(&change)?;
        let applied = element.counts().applied;
        let answer = element.take(&mut device, term, &change);
        let is_applied = element.counts().applied > applied;
        if is_applied && (!is_new || change.index.0 <= newest) {
            return Err(Fault::new(
                "a change is applied twice",
                format!("{change:?}"),
            ));
        }
        newest = newest.max(change.index.0);
        let is_taken = matches!(answer, ElementAnswer::Has(has, _) if has == change.index);
        if is_new && !is_taken {
            return Err(Fault::new(
                "the next change is not taken",
                format!("{answer:?}"),
            ));
        }
    }
    Ok(element.counts().applied)
}

/// A change of a write, right or damaged.
fn change(choices: &mut Rng, previous: u64, index: u64) -> ElementChange {
    let write = write(choices);
    let mut bytes = match write.encode() {
        Some(bytes) => bytes.get().to_vec(),
        None => Vec::new(),
    };
    let mut key = write.name();
    for _ in 0..choices.index(3) {
        match choices.index(4) {
            0 if !bytes.is_empty() => {
                let at = choices.index(bytes.len());
                bytes[at] ^= 1 << choices.index(8);
            }
            1 => bytes.truncate(choices.index(bytes.len() + 1)),
            2 if bytes.len() < 100 => bytes.push(choices.bits() as u8),
            _ => key[choices.index(16)] ^= 1,
        }
    }
    ElementChange {
        element: ElementId(1),
        key,
        change: ChangeBytes::new(&bytes).filter(|_| !choices.one_in(4)),
        previous: LogIndex(previous),
        index: LogIndex(index),
    }
}

/// Reads and writes a change, and a request for it.
fn reads_as_written(change: &ElementChange) -> Result<(), Fault> {
    let bytes = change.change.as_ref().map(ChangeBytes::get);
    if let Some(write) = bytes.and_then(ElementWrite::decode)
        && write.encode() != change.change
    {
        return Err(Fault::new(
            "a write is written as other bytes",
            format!("{write:?}"),
        ));
    }
    let message = ClientMessage {
        from: NodeId(1),
        to: NodeId(2),
        token: change.index.0,
        body: ClientBody::Request(Request {
            client: ClientId(1),
            sequence: change.index.0,
            operation: Operation::Change {
                element: change.element,
                key: change.key,
                change: change.change,
            },
        }),
    };
    let mut encoded = Vec::new();
    message.encode(CLUSTER, &mut encoded);
    match ClientMessage::decode(CLUSTER, &encoded) == Ok(message) {
        true => Ok(()),
        false => Err(Fault::new(
            "a request is read differently",
            format!("{message:?}"),
        )),
    }
}

fn write(choices: &mut Rng) -> ElementWrite {
    let host = |choices: &mut Rng| {
        let octets = [10, 0, 0, choices.below(6) as u8];
        reflex::KeyBytes::prefix_of(&octets, 32)
    };
    let parts = [host(choices), host(choices)];
    let entry = EntryKey::of_parts(parts.into_iter().flatten());
    let (place, setting) = match entry.filter(|_| !choices.one_in(4)) {
        Some(key) => {
            let port = choices.below(4) as u32;
            let port = (!choices.one_in(4)).then_some(port);
            (WritePlace::Entry(key), Setting::Action(port))
        }
        None => {
            let number = choices.bits();
            let setting = match choices.one_in(2) {
                true => Setting::Rate(number),
                false => Setting::Value(number),
            };
            (WritePlace::Cell(choices.below(9) as u32), setting)
        }
    };
    ElementWrite {
        reflex: ReflexIndex(choices.index(3)),
        place,
        setting: Some(setting),
    }
}

//! The target `images`: images of RISC-V programs, right and damaged, on the model of the nanoPU.
//! They are refused, or run under messages: no answer is earlier than links and switch allow, no
//! packet ends twice, and a second run has the same result.

use nanopu::{Cost, CostTable, Image, LinkFaults, Load, MAX_MESSAGE, Picos, decode, run_load};
use support::rng::Rng;

use super::guard::guarded;
use super::{Case, Fault};

/// Images of a case.
const IMAGES: usize = 20;
/// Bytes of memory.
const MEMORY: usize = 1 << 20;
/// The shipped programs.
const SHIPPED: [&[u8]; 2] = [
    include_bytes!("../../../examples/nanopu/loopback.elf"),
    include_bytes!("../../../examples/nanopu/path_latency.elf"),
];

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let stream = case.stream();
    let examined = guarded(case.limit, move || {
        let mut choices = Rng::new(stream);
        (0..IMAGES).filter(|_| runs(&mut choices)).count() > 0
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
            Some((trouble.fault("running images"), place))
        }
    }
}

/// A shipped image with changed bytes, changed instructions, or a cut end.
fn damaged(choices: &mut Rng) -> Vec<u8> {
    let mut file = SHIPPED[choices.index(SHIPPED.len())].to_vec();
    for _ in 0..choices.index(6) {
        let at = choices.index(file.len());
        file[at] ^= 1 << choices.index(8);
    }
    for _ in 0..choices.index(4) {
        // An instruction of any kind in the code.
        let word = loop {
            let word = choices.bits() as u32;
            if decode(word).is_some() {
                break word;
            }
        };
        let at = 0x80 + 2 * choices.index(0x30);
        if let Some(place) = file.get_mut(at..at + 4) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    if choices.index(16) == 0 {
        file.truncate(choices.index(file.len() + 1));
    }
    file
}

/// Returns true if an image is accepted. Panics if an invariant does not hold.
fn runs(choices: &mut Rng) -> bool {
    let file = damaged(choices);
    let Ok(image) = Image::parse(&file, MEMORY) else {
        return false;
    };
    let mut costs = CostTable::default();
    for cost in ["yield-limit=20000", "ndp-retries=2"] {
        costs.set_text(cost).expect("a cost of the model");
    }
    let load = Load {
        cores: 1 + choices.index(3),
        clients: 1 + choices.index(4),
        messages: choices.index(30),
        interval: Picos(choices.below(1_000_000)),
        payloads: vec![vec![
            choices.bits() as u8;
            1 + choices.index(usize::from(MAX_MESSAGE))
        ]],
        context: choices.index(2) as u16,
        rest: Picos::from_nanos(200_000),
        faults: LinkFaults {
            lost_per_mille: choices.below(200) as u32,
            seed: choices.bits(),
        },
    };
    let report = run_load(&image, MEMORY, &load, &costs);
    let get = |cost| Picos(costs.get(cost));
    let crossing = get(Cost::Link) + get(Cost::Link) + get(Cost::Switch);
    // A damaged program may send before it has received.
    let is_shipped = SHIPPED.contains(&file.as_slice());
    if let Some(least) = report.latency(0).filter(|_| is_shipped) {
        // A message and its answer.
        assert!(least > crossing + crossing, "an answer after {least}");
    }
    let network = &report.network;
    let ended = network.delivered + network.lost + network.unknown + network.overflow;
    assert!(ended <= network.sent, "{network:?}");
    assert!(report.device.transport.packets_received <= network.delivered);
    if choices.index(4) == 0 {
        let again = run_load(&image, MEMORY, &load, &costs);
        assert_eq!(report, again, "the second run");
    }
    for (core, fault) in &report.faults {
        assert!(fault.cycle <= report.cores[*core].0.total(), "{fault}");
    }
    true
}

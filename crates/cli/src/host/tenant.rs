//! A virtual data plane's side of P4Runtime, in the office.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::Engine;
use ir::Program;
use p4rt::{Allow, CpuPort, Denial, Inbox, Limit, Loader, Purpose, Setup};
use packet::PortId;
use switch::{Device, DeviceConfig, Digest, LoadError};
use tenancy::{BoundedCompiler, Refusal, SlotBook, VpdpId};

use crate::control::USUAL_CPU;
use crate::spare::Spare;
use crate::{amount, bounds, compile};

/// Digests, and as many messages, that are taken at a time: then others have their turn.
const MOST_HEARD: usize = 256;

/// Of a message that a program writes, so many characters are shown.
const MOST_SHOWN: usize = 200;

/// Where controllers leave what is to be done, how far the work on finding entries faster is, and how much of what the program writes is shown.
pub(super) struct Tenant {
    pub(super) inbox: Inbox,
    pub(super) spare: Spare,
    /// How devices of its programs are set up, as its loader sees it.
    config: Arc<Mutex<DeviceConfig>>,
    shown: Limit,
}

impl Tenant {
    /// Sets up devices that come from now on as this says.
    pub(super) fn set_config(&self, config: DeviceConfig) {
        *lock(&self.config) = config;
    }

    /// Takes what the device says, so that there is room for more: controllers get digests, and `note` some of the messages. Whether there may be more.
    pub(super) fn hear(&self, device: &mut Device, note: &mut dyn FnMut(String)) -> bool {
        hear(
            device,
            &self.shown,
            &mut |digest| self.inbox.digest(digest),
            note,
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hear(
    device: &mut Device,
    shown: &Limit,
    tell: &mut dyn FnMut(Digest),
    note: &mut dyn FnMut(String),
) -> bool {
    // Entries that packets add are the tenant's own business.
    device.take_expired();
    for _ in 0..MOST_HEARD {
        let (digest, message) = (device.take_digest(), device.take_message());
        if digest.is_none() && message.is_none() {
            return false;
        }
        digest.into_iter().for_each(&mut *tell);
        if let Some(message) = message
            && let Some(unsaid) = shown.may_say()
        {
            note(shown_line(&message, unsaid));
        }
    }
    true
}

/// A message as an operator may see it: whoever wrote the program chose its characters.
fn shown_line(message: &str, unsaid: u64) -> String {
    let mut line: String = message.escape_debug().take(MOST_SHOWN).collect();
    if unsaid > 0 {
        line.push_str(&format!(
            " (and {} before, not shown)",
            amount::count(unsaid, "message")
        ));
    }
    line
}

/// What makes devices of the programs that a vPDP's controllers set.
struct TenantLoader {
    vpdp: VpdpId,
    slots: SlotBook,
    texts: BoundedCompiler,
    engine: Arc<dyn Engine>,
    config: Arc<Mutex<DeviceConfig>>,
}

impl Loader for TenantLoader {
    fn admit(&self, bytes: usize) -> Result<Arc<dyn p4rt::Leave>, Denial> {
        bounds::admit(&self.texts, bytes)
    }

    fn compile(&self, text: &str) -> Result<Program, String> {
        compile::compile_text("program.p4", text)
    }

    fn ports(&self) -> Option<BTreeSet<PortId>> {
        Some((0..=USUAL_CPU).map(PortId).collect())
    }

    fn fit(&self, program: Arc<Program>, purpose: Purpose) -> Result<Arc<Program>, String> {
        let fitted = match purpose {
            Purpose::Run => self.slots.fit(self.vpdp, &program),
            Purpose::Verify => self.slots.try_fit(self.vpdp, &program),
        };
        fitted.map_err(|error| Refusal::Slots(self.vpdp, error).to_string())
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        let config = lock(&self.config).clone();
        Device::new(program, &*self.engine, &config)
    }
}

/// Whose a vPDP is, and what it is made of.
pub(super) struct Terms<'t> {
    pub(super) id: VpdpId,
    /// The name in the certificates of those who control it; empty: operators alone.
    pub(super) owner: &'t str,
    pub(super) config: DeviceConfig,
    pub(super) texts: BoundedCompiler,
    pub(super) slots: SlotBook,
    /// That of all vPDPs: programs that are alike share their code.
    pub(super) engine: Arc<dyn Engine>,
    /// The program that it runs, if controllers need not set one first.
    pub(super) program: Option<Arc<Program>>,
    /// Its ports that are connected to something, for controllers; they have no names.
    pub(super) ports: Vec<(PortId, String)>,
}

/// A new connection between a device and controllers; what was under way on the one before is gone.
///
/// # Errors
/// The operating system has no socket pair left.
pub(super) fn connect(
    terms: Terms<'_>,
    device: &Device,
) -> Result<(Tenant, CpuPort, Setup), String> {
    let made = p4rt::channel(PortId(USUAL_CPU));
    let (inbox, cpu, remote) =
        made.map_err(|e| format!("cannot make a channel for P4Runtime: {e}"))?;
    let config = Arc::new(Mutex::new(terms.config));
    let owner = (!terms.owner.is_empty()).then(|| Allow::all(terms.owner));
    let setup = Setup {
        id: terms.id.get().into(),
        second_id: None,
        remote,
        loader: Arc::new(TenantLoader {
            vpdp: terms.id,
            slots: terms.slots,
            texts: terms.texts,
            engine: terms.engine,
            config: Arc::clone(&config),
        }),
        program: terms.program,
        ports: terms.ports,
        notes: device.notes().clone(),
        allowed: owner.into_iter().collect(),
    };
    let tenant = Tenant {
        inbox,
        spare: Spare::default(),
        config,
        shown: Limit::default(),
    };
    Ok((tenant, cpu, setup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Choice;

    /// Says something of each packet to whoever listens.
    const LOUD: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct empty_t {}
struct seen_t { bit<9> port; }
parser P(packet_in p, out empty_t h, inout empty_t m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout empty_t h, inout empty_t m) { apply {} }
control I(inout empty_t h, inout empty_t m, inout standard_metadata_t s) {
    apply { log_msg("a packet"); digest<seen_t>(1, { s.ingress_port }); }
}
control E(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in empty_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

    #[test]
    fn a_loud_program_is_heard_by_parts_and_shown_in_a_few_lines() {
        let program = Arc::new(compile::compile_text("loud.p4", LOUD).unwrap());
        let engine = Choice::default().engine();
        let mut device = Device::new(program, engine.as_ref(), &DeviceConfig::default()).unwrap();
        for _ in 0..MOST_HEARD + 44 {
            device.receive(PortId(0), &[0; 60]).unwrap();
        }
        device.step(packet::Nanos(1));
        let (shown, mut digests, mut lines) = (Limit::default(), 0, Vec::new());
        let mut hear = || {
            let tell = &mut |_| digests += 1;
            hear(&mut device, &shown, tell, &mut |line| lines.push(line))
        };
        assert_eq!([hear(), hear(), hear()], [true, false, false]);
        assert_eq!(digests, MOST_HEARD + 44);
        assert!((1..20).contains(&lines.len()), "{lines:?}");
        assert_eq!(lines[0], "a packet");
    }

    #[test]
    fn a_message_cannot_write_to_a_terminal_what_it_likes() {
        let message = format!("\u{1b}[2J\n{}", "x".repeat(1 << 20));
        let line = shown_line(&message, 3);
        assert!(line.starts_with("\\u{1b}[2J\\nxxx"), "{line}");
        assert!(line.ends_with("x (and 3 messages before, not shown)"));
        assert!(line.len() < 2 * MOST_SHOWN);
    }
}

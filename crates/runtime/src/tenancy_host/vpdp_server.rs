//! P4Runtime connection of a virtual data plane, as the control loop has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::Engine;
use ir::Program;
use p4rt::{Allow, CpuPort, Inbox, Limit, Loader, Purpose, ServerConfig, TenancyError};
use packet::PortId;
use support::amount;
use switch::{Device, DeviceConfig, Digest, LoadError};
use tenancy::{BoundedCompiler, Function, HypervisorError, SlotBook, VpdpId};

use crate::background_indexing::BackgroundIndexing;
use crate::cpu_port::DEFAULT_CPU;
use crate::observation::Summaries;
use crate::tenancy_host::stored;
use crate::{RuntimeError, compile_bounds};

/// Maximum number of digests, and of messages, taken in one turn.
const MAX_HEARD: usize = 256;

/// Maximum number of shown characters of a program's message.
const MAX_SHOWN: usize = 200;

/// Controller connection of a vPDP: its request queue, the progress of its background indexing,
/// and the rate limit of shown messages.
pub(super) struct Tenant {
    pub(super) inbox: Inbox,
    pub(super) spare: BackgroundIndexing,
    /// Configuration of its future devices, shared with its loader.
    config: Arc<Mutex<DeviceConfig>>,
    shown: Limit,
    /// Summaries of packets that its clients get.
    pub(super) summaries: Summaries,
}

impl Tenant {
    /// Sets the configuration of future devices.
    pub(super) fn set_config(&self, config: DeviceConfig) {
        *lock(&self.config) = config;
    }

    /// Takes notifications out of the device's queues. Controllers get digests; `note` gets some
    /// of the messages. Returns true if there may be more.
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
    // Expired entries are not reported to operators.
    device.take_expired();
    for _ in 0..MAX_HEARD {
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

/// Formats a message for operators. Its characters are escaped, because the author of the program
/// chose them.
fn shown_line(message: &str, unsaid: u64) -> String {
    let mut line: String = message.escape_debug().take(MAX_SHOWN).collect();
    if unsaid > 0 {
        line.push_str(&format!(
            " (and {} before, not shown)",
            amount::count(unsaid, "message")
        ));
    }
    line
}

/// Loader that builds devices for the programs that a vPDP's controllers set.
struct TenantLoader {
    vpdp: VpdpId,
    slots: SlotBook,
    texts: BoundedCompiler,
    engine: Arc<dyn Engine>,
    config: Arc<Mutex<DeviceConfig>>,
}

impl Loader for TenantLoader {
    fn admit(&self, bytes: usize) -> Result<Arc<dyn p4rt::ProgramPermit>, TenancyError> {
        compile_bounds::admit(&self.texts, bytes)
    }

    fn compile(&self, text: &str) -> Result<Program, String> {
        Ok(driver::compile_text("program.p4", text)?)
    }

    fn ports(&self) -> Option<p4rt::KnownPorts> {
        Some((0..=DEFAULT_CPU).map(PortId).collect())
    }

    fn fit(&self, program: Arc<Program>, purpose: Purpose) -> Result<Arc<Program>, String> {
        let fitted = match purpose {
            Purpose::Run => self.slots.fit(self.vpdp, &program),
            Purpose::Verify => self.slots.try_fit(self.vpdp, &program),
        };
        fitted.map_err(|error| HypervisorError::Slots(self.vpdp, error).to_string())
    }

    fn notes(&self, program: &Arc<Program>, before: &p4rt::Notes) -> p4rt::Notes {
        let given = self.slots.given(self.vpdp, program);
        let function = Function::Program(given.unwrap_or_else(|| Arc::clone(program)));
        let bytes = stored::function_bytes(&function);
        stored::with_function(before, p4rt::Notes::new(), Some(bytes))
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        let config = lock(&self.config).clone();
        Device::new(program, &*self.engine, &config)
    }
}

/// Parameters of a vPDP's connection.
pub(super) struct Terms<'t> {
    pub(super) id: VpdpId,
    /// The name in the certificates of its controllers; empty: operators only.
    pub(super) owner: &'t str,
    pub(super) config: DeviceConfig,
    pub(super) texts: BoundedCompiler,
    pub(super) slots: SlotBook,
    /// Engine of all vPDPs: equal programs share their code.
    pub(super) engine: Arc<dyn Engine>,
    /// Its program. `None` if controllers must set one first.
    pub(super) program: Option<Arc<Program>>,
    /// Its connected ports, for controllers. They have no names.
    pub(super) ports: Vec<(PortId, String)>,
}

/// Connects a device with controllers. Pending requests of an earlier connection are lost.
///
/// # Errors
/// The operating system provides no socket pair.
pub(super) fn connect(
    terms: Terms<'_>,
    device: &Device,
) -> Result<(Tenant, CpuPort, ServerConfig), RuntimeError> {
    let made = p4rt::channel(PortId(DEFAULT_CPU));
    let (inbox, cpu, remote) =
        made.map_err(RuntimeError::system("make a channel for P4Runtime"))?;
    let config = Arc::new(Mutex::new(terms.config));
    let owner = (!terms.owner.is_empty()).then(|| Allow::all(terms.owner));
    let setup = ServerConfig {
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
        extensions: &[],
        allowed: owner.into_iter().collect(),
    };
    let tenant = Tenant {
        inbox,
        spare: BackgroundIndexing::default(),
        config,
        shown: Limit::default(),
        summaries: Summaries::default(),
    };
    Ok((tenant, cpu, setup))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a digest and a message for each packet.
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
        let program = Arc::new(driver::compile_text("loud.p4", LOUD).unwrap());
        let config = DeviceConfig::default();
        let mut device = Device::new(program, &interp::Interp, &config).unwrap();
        for _ in 0..MAX_HEARD + 44 {
            device.receive(PortId(0), &[0; 60]).unwrap();
        }
        device.step(packet::Nanos(1));
        let (shown, mut digests, mut lines) = (Limit::default(), 0, Vec::new());
        let mut hear = || {
            let tell = &mut |_| digests += 1;
            hear(&mut device, &shown, tell, &mut |line| lines.push(line))
        };
        assert_eq!([hear(), hear(), hear()], [true, false, false]);
        assert_eq!(digests, MAX_HEARD + 44);
        assert!((1..20).contains(&lines.len()), "{lines:?}");
        assert_eq!(lines[0], "a packet");
    }

    #[test]
    fn a_message_cannot_write_to_a_terminal_what_it_likes() {
        let message = format!("\u{1b}[2J\n{}", "x".repeat(1 << 20));
        let line = shown_line(&message, 3);
        assert!(line.starts_with("\\u{1b}[2J\\nxxx"), "{line}");
        assert!(line.ends_with("x (and 3 messages before, not shown)"));
        assert!(line.len() < 2 * MAX_SHOWN);
    }
}

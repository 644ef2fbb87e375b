//! Attacks of a hostile vPDP.

use std::sync::Arc;
use std::time::Duration;

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use switch::{Change, CloneSession, Device, Replica};
use tenancy::{HypervisorError, TenantSwitch, VpdpId};

use super::IsolationError;
use crate::Workload as _;
use crate::device::change;
use crate::load::Compile;
use crate::setup::{Item, SetupError};
use crate::tenants::settle;
use crate::workloads;

/// Number of entries in the table of a hostile vPDP.
const ENTRIES: u32 = 1 << 16;

/// Number of different keys. Larger than the number of entries, so that a new entry's key is not
/// in the table.
const KEYS: u32 = 2 * ENTRIES;

/// Number of entries replaced per published change.
const CHURNED: u32 = 16;

/// Length of normal packets, and of packets with a long parse, in bytes.
const SHORT: usize = 64;
const LONG: usize = 256;

/// Number of different packets.
const PACKETS: u32 = 64;

/// Number of different messages with pairs. They have most of 60,000 keys.
const MESSAGES: u32 = 4096;

/// Number of copies that a packet asks for: more than its work limit allows.
const COPIES: u32 = 4096;

/// Pause of a control thread without work.
const A_WHILE: Duration = Duration::from_millis(1);

/// An attack: a method to use more than the guaranteed share of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Each packet is recirculated endlessly.
    Recirculation,
    /// Packets have the maximum frame length.
    LargestPackets,
    /// A large program is compiled to native code repeatedly.
    SlowCompile,
    /// The entries of a full table are replaced repeatedly.
    ChurnedTable,
    /// Each packet accesses registers at distant indices.
    Registers,
    /// Each packet takes long to parse.
    ParseBomb,
    /// Each packet is parsed until its work limit is reached.
    EndlessParser,
    /// Controllers send many packets and entries, and get more messages than they read.
    ControllerFlood,
    /// Each packet makes as many copies as its work limit allows.
    CloneStorm,
    /// Each packet has 20 pairs with random ones of 60,000 keys, which registers add.
    Reduction,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Attack; 10] = [
        Attack::Recirculation,
        Attack::LargestPackets,
        Attack::SlowCompile,
        Attack::ChurnedTable,
        Attack::Registers,
        Attack::ParseBomb,
        Attack::EndlessParser,
        Attack::ControllerFlood,
        Attack::CloneStorm,
        Attack::Reduction,
    ];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Recirculation => "recirculation",
            Attack::LargestPackets => "largest packets",
            Attack::SlowCompile => "slow compile",
            Attack::ChurnedTable => "churned table",
            Attack::Registers => "registers",
            Attack::ParseBomb => "parse bomb",
            Attack::EndlessParser => "endless parser",
            Attack::ControllerFlood => "controller flood",
            Attack::CloneStorm => "clone storm",
            Attack::Reduction => "reduction",
        }
    }

    /// Returns the text of its program.
    pub(super) fn source(self) -> String {
        let way = match self {
            Attack::Recirculation => "RECIRCULATE",
            Attack::LargestPackets | Attack::SlowCompile => "PLAIN",
            Attack::ChurnedTable => "TABLE",
            Attack::Registers => "REGISTERS",
            Attack::ParseBomb => "PARSE_BOMB",
            Attack::EndlessParser => "ENDLESS_PARSER",
            Attack::ControllerFlood => "FLOOD",
            Attack::CloneStorm => "CLONE_STORM",
            Attack::Reduction => return workloads::reduction().source().to_owned(),
        };
        let text = include_str!("../../programs/hostile.p4");
        format!("#define {way}\n{text}")
    }

    /// Returns its packets, with this ingress port.
    pub(super) fn packets(self, port: PortId) -> Result<Vec<Frame>, packet::FrameError> {
        let length = match self {
            Attack::Reduction => return Ok(messages(port)),
            Attack::LargestPackets => packet::MAX_FRAME,
            Attack::ParseBomb => LONG,
            _ => SHORT,
        };
        let packet = |number: u32| {
            let mut bytes = vec![0; length];
            let key = number.wrapping_mul(KEYS / PACKETS);
            bytes[..4].copy_from_slice(&key.to_be_bytes());
            let mut frame = Frame::from_bytes(&bytes)?;
            frame.ingress = port;
            Ok(frame)
        };
        (0..PACKETS).map(packet).collect()
    }

    /// Returns its control operations.
    pub(super) fn beside<'a>(self, vpdp: VpdpId, compile: &'a Compile<'a>) -> Beside<'a> {
        let sai = match self {
            Attack::SlowCompile => workloads::find("sai").map(|sai| sai.source().to_owned()),
            _ => None,
        };
        Beside {
            attack: self,
            vpdp,
            compile,
            long_text: sai.unwrap_or_default(),
            next: ENTRIES,
        }
    }
}

/// Returns messages with pairs.
fn messages(port: PortId) -> Vec<Frame> {
    let (workload, mut choices) = (workloads::reduction(), Rng::new(1));
    let message = |_| {
        let mut frame = Frame::new();
        workload.packet(&mut choices, &mut frame);
        frame.ingress = port;
        frame
    };
    (0..MESSAGES).map(message).collect()
}

/// Control operations of a hostile vPDP.
pub(super) struct Beside<'a> {
    attack: Attack,
    vpdp: VpdpId,
    compile: &'a Compile<'a>,
    long_text: String,
    /// Key of the next entry.
    next: u32,
}

impl Beside<'_> {
    /// Prepares the attack, before the first packet.
    pub(super) fn begin(&mut self, hypervisor: &mut TenantSwitch) -> Result<(), IsolationError> {
        let device = device(hypervisor, self.vpdp)?;
        match self.attack {
            Attack::ChurnedTable => {
                for key in 0..ENTRIES {
                    apply(device, insert(key))?;
                }
            }
            Attack::CloneStorm => {
                let copy = |instance| Replica {
                    port: PortId(1),
                    instance,
                };
                let session = CloneSession {
                    replicas: (0..COPIES).map(copy).collect(),
                    ..CloneSession::default()
                };
                apply(device, Change::SetCloneSession(1, session))?;
            }
            Attack::Reduction => {
                let program = Arc::clone(device.program());
                workloads::reduction().setup(&program, &mut |item| {
                    let applied = device.apply(change(item));
                    applied.map_err(|error| SetupError::Entry(error.to_string()))?;
                    Ok(())
                })?;
            }
            _ => return Ok(()),
        }
        settle(device);
        Ok(())
    }

    /// Makes one step of the attack at this time, while packets arrive.
    pub(super) fn go_on(
        &mut self,
        hypervisor: &mut TenantSwitch,
        now: Nanos,
    ) -> Result<(), IsolationError> {
        match self.attack {
            Attack::SlowCompile => self.compile(hypervisor),
            Attack::ChurnedTable => self.churn(hypervisor),
            Attack::ControllerFlood => self.flood(hypervisor, now),
            _ => {
                std::thread::sleep(A_WHILE);
                Ok(())
            }
        }
    }

    /// Compiles a large program. No other vPDP has it, so the engine compiles it each time.
    fn compile(&mut self, hypervisor: &TenantSwitch) -> Result<(), IsolationError> {
        let program = (self.compile)(&self.long_text).map_err(IsolationError::Compile)?;
        hypervisor
            .maker(self.vpdp)?
            .make(Arc::<Program>::new(program))?;
        Ok(())
    }

    fn churn(&mut self, hypervisor: &mut TenantSwitch) -> Result<(), IsolationError> {
        let device = device(hypervisor, self.vpdp)?;
        for _ in 0..CHURNED {
            forget_oldest(device)?;
            apply(device, insert(self.next))?;
            self.next = (self.next + 1) % KEYS;
        }
        device.publish();
        Ok(())
    }

    /// Sends packets of a controller, and makes an atomic change, which needs a barrier.
    fn flood(&mut self, hypervisor: &mut TenantSwitch, now: Nanos) -> Result<(), IsolationError> {
        let device = device(hypervisor, self.vpdp)?;
        for _ in 0..CHURNED {
            let received = device.receive(PortId(0), &[0; SHORT]);
            received.map_err(IsolationError::Frame)?;
        }
        let changed = device.between_bursts(|device| {
            apply(device, insert(self.next))?;
            forget_oldest(device)
        });
        changed.map_err(|_| IsolationError::Worker)??;
        self.next = (self.next + 1) % KEYS;
        hypervisor.step(now, |_, _, _| {});
        Ok(())
    }
}

fn device(hypervisor: &mut TenantSwitch, vpdp: VpdpId) -> Result<&mut Device, IsolationError> {
    let device = hypervisor.device_mut(vpdp);
    device.ok_or(IsolationError::Refusal(HypervisorError::NoProgram(vpdp)))
}

fn apply(device: &mut Device, change: Change) -> Result<(), IsolationError> {
    let applied = device.apply(change);
    applied.map_err(|error| SetupError::Entry(error.to_string()))?;
    Ok(())
}

fn forget_oldest(device: &mut Device) -> Result<(), IsolationError> {
    let table = TableId::new(0);
    let oldest = device.configuration().tables[table].iter().next();
    match oldest.map(|entry| entry.id) {
        Some(oldest) => apply(device, Change::Delete(table, oldest)),
        None => Ok(()),
    }
}

fn insert(key: u32) -> Change {
    change(Item::Entry {
        table: TableId::new(0),
        keys: vec![KeyMatch::Exact(Value::truncated(key.into(), 32))],
        priority: None,
        call: ActionCall {
            action: 0,
            args: Vec::new(),
        },
    })
}

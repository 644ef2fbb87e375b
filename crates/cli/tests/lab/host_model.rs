//! Model of a switch that hosts virtual data planes, as operators see it, and random changes.

use std::collections::{BTreeMap, BTreeSet};

use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4rt::Code;
use support::rng::Rng;

/// The switch as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    vpdps: BTreeMap<String, Vpdp>,
    shared: BTreeSet<u32>,
    rules: Vec<String>,
}

/// A virtual data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Vpdp {
    id: u32,
    owner: String,
    ports: Vec<String>,
    quotas: Vec<String>,
    is_suspended: bool,
    program: Option<String>,
    entries: u64,
}

/// The vPDP that is not changed. A controller may write entries of it.
pub(crate) const STEADY: &str = "steady";

impl From<wire::ShowResponse> for Model {
    fn from(shown: wire::ShowResponse) -> Model {
        let vpdp = |vpdp: wire::Vpdp| {
            let program = vpdp.program.as_ref();
            let is_written = vpdp.name == STEADY;
            let about = Vpdp {
                id: vpdp.id,
                owner: vpdp.owner,
                ports: vpdp.ports,
                quotas: vpdp.quotas,
                is_suspended: vpdp.is_suspended,
                program: program.map(|program| match &program.policy {
                    Some(policy) => policy.clone(),
                    None => program.name.clone(),
                }),
                entries: program.map_or(0, |it| it.entries * u64::from(!is_written)),
            };
            (vpdp.name, about)
        };
        Model {
            vpdps: shown.vpdps.into_iter().map(vpdp).collect(),
            shared: shown.shared_ports.iter().map(|share| share.port).collect(),
            rules: shown.rules,
        }
    }
}

impl Model {
    /// Returns the names and numbers of the vPDPs that are changed.
    #[allow(
        dead_code,
        reason = "only one of the tests has controllers that set programs"
    )]
    pub(crate) fn changed(&self) -> Vec<(String, u32)> {
        let changed = self.vpdps.iter().filter(|(name, _)| *name != STEADY);
        changed
            .map(|(name, vpdp)| (name.clone(), vpdp.id))
            .collect()
    }

    /// Returns a change that may be possible here. [`STEADY`] and the ports 0 and 1 stay.
    pub(crate) fn draw(&self, rng: &mut Rng, functions: &[wire::Function]) -> Change {
        let names: Vec<&str> = self.vpdps.keys().map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| *name != STEADY).collect();
        let free = ["blue", "green", "red"].into_iter();
        let mut free = free.filter(|name| !self.vpdps.contains_key(*name));
        let Some(name) = names.get(rng.index(names.len() + 1)) else {
            let name = free.next().unwrap_or("blue").to_owned();
            return Change::Create(wire::Create {
                id: 0,
                name,
                owner: format!("owner{}", rng.index(3)),
                ports: Vec::new(),
                quotas: vec![format!("packets={}/7", 1 + rng.index(1000))],
            });
        };
        let vpdp = (*name).to_owned();
        let port = |port| {
            let vpdp = vpdp.clone();
            Some(wire::VirtualPort { vpdp, port })
        };
        match rng.index(13) {
            0 => Change::Delete(vpdp),
            1 => Change::Suspend(vpdp),
            2 => Change::Resume(vpdp),
            3 => Change::SetQuotas(wire::SetQuotas {
                vpdp,
                quotas: vec![format!("passes={}/7", 1 + rng.index(1000))],
            }),
            4 => Change::Connect(wire::Connect {
                port: port(rng.index(4) as u32),
                physical: (rng.index(2) > 0).then_some(2),
            }),
            5 => Change::Link(wire::Link {
                one: port(rng.index(4) as u32),
                other: Some(wire::VirtualPort {
                    vpdp: names[rng.index(names.len())].to_owned(),
                    port: rng.index(4) as u32,
                }),
            }),
            6 => Change::Unlink(port(rng.index(4) as u32).expect("one")),
            7 => Change::Share(wire::Share {
                port: 3,
                sharing: ["", "rules"][rng.index(2)].to_owned(),
            }),
            8 => Change::AddRule(format!(
                "rule{}: port 3 and eth.dst 02:00:00:00:00:{:02x} -> {vpdp}",
                rng.index(3),
                rng.index(200)
            )),
            9 => Change::RemoveRule(format!("rule{}", rng.index(3))),
            10 => Change::RollBack(vpdp),
            11 => Change::RemoveProgram(vpdp),
            _ => Change::SetProgram(wire::SetProgram {
                vpdp,
                function: Some(functions[rng.index(functions.len())].clone()),
                may_lose: vec!["*".to_owned()],
            }),
        }
    }

    /// Returns true for a change that may leave what operators see as it was.
    pub(crate) fn may_stay_after(&self, change: &Change) -> bool {
        let of = |name: &String| &self.vpdps[name];
        match change {
            Change::Suspend(name) => of(name).is_suspended,
            Change::Resume(name) => !of(name).is_suspended,
            Change::SetQuotas(asked) => of(&asked.vpdp).quotas == asked.quotas,
            Change::Connect(wire::Connect { port, physical }) => {
                let port = port.as_ref().expect("one");
                let there = of(&port.vpdp).ports.get(port.port as usize);
                let to = physical.map_or("open".to_owned(), |port| port.to_string());
                there.map_or("open", String::as_str) == to
            }
            Change::Share(asked) => self.shared.contains(&asked.port) != asked.sharing.is_empty(),
            Change::RemoveProgram(name) => of(name).program.is_none(),
            // The program may be the one before.
            Change::SetProgram(_) | Change::RollBack(_) => true,
            _ => false,
        }
    }

    /// Checks that the difference between two states is that of the change, and nothing else.
    pub(crate) fn assert_becomes(&self, found: &Model, change: &Change) {
        let mut expected = self.clone();
        let set = |expected: &mut Model, name: &str| {
            if let Some(vpdp) = found.vpdps.get(name) {
                expected.vpdps.insert(name.to_owned(), vpdp.clone());
            }
        };
        let set_program = |expected: &mut Model, name: &str| {
            let there = &found.vpdps[name];
            let vpdp = expected.vpdps.get_mut(name).expect("it is there");
            (vpdp.program, vpdp.entries) = (there.program.clone(), there.entries);
        };
        match change {
            Change::Create(create) => set(&mut expected, &create.name),
            Change::Delete(name) => {
                expected.vpdps.remove(name);
            }
            Change::Suspend(name) | Change::Resume(name) => {
                let vpdp = expected.vpdps.get_mut(name).expect("it is there");
                vpdp.is_suspended = matches!(change, Change::Suspend(_));
            }
            Change::SetQuotas(asked) => {
                let vpdp = expected.vpdps.get_mut(&asked.vpdp).expect("it is there");
                vpdp.quotas = asked.quotas.clone();
            }
            Change::RollBack(name) => set_program(&mut expected, name),
            Change::RemoveProgram(name) => {
                assert_eq!(found.vpdps[name].program, None, "{change:?}");
                set_program(&mut expected, name);
            }
            Change::SetProgram(asked) => {
                let name = &asked.vpdp;
                assert!(found.vpdps[name].program.is_some(), "{change:?}");
                set_program(&mut expected, name);
            }
            Change::Connect(_) | Change::Link(_) | Change::Unlink(_) => {
                for (name, vpdp) in &mut expected.vpdps {
                    vpdp.ports = found.vpdps[name].ports.clone();
                }
            }
            Change::Share(_) => expected.shared = found.shared.clone(),
            Change::AddRule(_) | Change::RemoveRule(_) => {
                let lengths = [self, found].map(|model| model.rules.len() as i64);
                assert_eq!((lengths[1] - lengths[0]).abs(), 1, "{change:?}");
                expected.rules = found.rules.clone();
            }
            other => panic!("{other:?} is never drawn"),
        }
        assert_eq!(&expected, found, "{change:?}");
    }
}

/// Returns true if the switch has refused what was asked; false if the change may have been made.
pub(crate) fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::ResourceExhausted
    )
}

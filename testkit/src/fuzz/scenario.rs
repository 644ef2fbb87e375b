//! Random scenarios for a program: changes according to its schema, packets and pauses. All are
//! chosen before the device runs.

use std::num::{NonZeroU32, NonZeroU64};

use bits::Value;
use entries::stf::CommandKind;
use ir::{ActionCall, Expr, ExternId, ExternKind, KeyMatch, MatchKind, Program, ScalarTy, TableId};
use packet::{Nanos, PortId};
use switch::{
    Action, Change, CloneSession, CounterReading, EntryId, MeterConfig, PriorityQueueConfig,
    QueueConfig, Replica, TableEntry,
};

use support::rng::Rng;

/// An event in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// A change by the control plane, which may be refused.
    Change(Change),
    /// An update of an STF test.
    Update(entries::Update),
    /// Packets that arrive at one time.
    Packets(Nanos, Vec<(PortId, Vec<u8>)>),
    /// A pause until this time.
    Wait(Nanos),
    /// The other of the scenario's two programs is loaded.
    Swap,
}

/// Updates and packets from an STF test, for use in scenarios.
#[derive(Clone, Debug, Default)]
pub(crate) struct Material {
    updates: Vec<entries::Update>,
    packets: Vec<Vec<u8>>,
}

/// Returns the updates and packets of a test, if it fits the program.
pub(crate) fn material(program: &Program, test: &str) -> Material {
    let mut material = Material::default();
    for command in entries::stf::read(program, "fuzz.stf", test).unwrap_or_default() {
        match command.kind {
            CommandKind::Packet { data, .. } => material.packets.push(data),
            CommandKind::Update(update) | CommandKind::Labelled(update, _) => {
                material.updates.push(update);
            }
            _ => {}
        }
    }
    material
}

/// A random scenario.
pub(crate) fn scenario(program: &Program, material: &Material, choices: &mut Rng) -> Vec<Act> {
    let mut acts = Vec::new();
    if choices.one_in(2) {
        acts.extend(material.updates.iter().cloned().map(Act::Update));
    }
    let mut maker = Maker {
        program,
        material,
        choices,
        now: Nanos(1_000_000),
    };
    let count = 4 + maker.choices.index(40);
    for _ in 0..count {
        let act = maker.act();
        acts.extend(act);
    }
    acts
}

struct Maker<'a> {
    program: &'a Program,
    material: &'a Material,
    choices: &'a mut Rng,
    now: Nanos,
}

impl Maker<'_> {
    fn act(&mut self) -> Option<Act> {
        Some(match self.choices.index(12) {
            0..6 => Act::Packets(self.time(), self.packets()),
            6 => Act::Wait(self.time()),
            7 if self.choices.one_in(10) => Act::Swap,
            7 => Act::Update(self.choices.pick(&self.material.updates)?.clone()),
            8 => Act::Change(self.replication()),
            _ => Act::Change(self.change()?),
        })
    }

    /// Returns a later time: usually slightly later, sometimes much later.
    fn time(&mut self) -> Nanos {
        let step = match self.choices.index(20) {
            0..4 => 0,
            4..12 => self.choices.index(5_000),
            12..18 => self.choices.index(5_000_000),
            18 => self.choices.index(200_000_000_000),
            _ => self.choices.index(1 << 50),
        };
        self.now = Nanos(self.now.0 + step as u64);
        self.now
    }

    fn packets(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let count = 1 + self.choices.index(6);
        (0..count).map(|_| (self.port(), self.packet())).collect()
    }

    fn packet(&mut self) -> Vec<u8> {
        let given = match self.choices.one_in(3) {
            true => None,
            false => self.choices.pick(&self.material.packets),
        };
        let mut bytes = match given {
            Some(bytes) => bytes.clone(),
            None => self.bytes(),
        };
        for _ in 0..self.choices.index(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.choices.index(bytes.len());
            match self.choices.index(4) {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_within(at..),
                _ => bytes[at] = self.byte(),
            }
        }
        bytes
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.choices.index(30) {
            0 => 0,
            1 => packet::MAX_FRAME - self.choices.index(3),
            2..5 => self.choices.index(2000),
            _ => self.choices.index(120),
        };
        let is_calm = self.choices.one_in(2);
        let byte = |_| match is_calm {
            true => self.byte(),
            false => self.choices.bits() as u8,
        };
        (0..length).map(byte).collect()
    }

    /// Returns a byte that programs often compare with.
    fn byte(&mut self) -> u8 {
        const DEFAULT: &[u8] = &[0, 0, 1, 2, 3, 4, 6, 8, 17, 0x45, 0x7f, 0x80, 0xff];
        match self.choices.one_in(4) {
            true => self.choices.bits() as u8,
            false => self.choices.pick(DEFAULT).copied().unwrap_or_default(),
        }
    }

    fn port(&mut self) -> PortId {
        PortId(match self.choices.index(24) {
            0 => 511,
            1 => u32::MAX,
            2 => self.choices.bits() as u32,
            _ => self.choices.index(8) as u32,
        })
    }

    /// Returns a number, usually a small one.
    fn number(&mut self) -> u32 {
        match self.choices.one_in(20) {
            true => self.choices.bits() as u32,
            false => self.choices.index(9) as u32,
        }
    }

    fn replication(&mut self) -> Change {
        let id = self.number();
        match self.choices.index(7) {
            0..2 => Change::SetMulticast(id, self.replicas()),
            2..4 => Change::SetCloneSession(id, self.session()),
            4 => Change::SetQueue(self.port(), self.queue()),
            5 => Change::DeleteMulticast(id),
            _ => Change::DeleteCloneSession(id),
        }
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let count = self.choices.index(5);
        let replica = |_| Replica {
            port: self.port(),
            instance: self.number(),
        };
        (0..count).map(replica).collect()
    }

    fn session(&mut self) -> CloneSession {
        CloneSession {
            replicas: self.replicas(),
            group: self.choices.one_in(3).then(|| self.number()),
            truncate: self
                .choices
                .one_in(3)
                .then(|| self.choices.index(80) as u32),
            class_of_service: self.number(),
        }
    }

    fn queue(&mut self) -> QueueConfig {
        let depth = self.choices.index(5);
        QueueConfig {
            depth,
            bits_per_second: self.choices.one_in(2).then(|| 1 << self.choices.index(40)),
            packets_per_second: self.choices.one_in(3).then(|| 1 << self.choices.index(30)),
            priorities: std::array::from_fn(|_| match self.choices.one_in(8) {
                true => PriorityQueueConfig {
                    depth: NonZeroU32::new(self.choices.index(5) as u32),
                    bits_per_second: NonZeroU64::new(self.choices.index(2) as u64 * 1000),
                    packets_per_second: NonZeroU64::new(self.choices.index(3) as u64 * 100),
                },
                false => PriorityQueueConfig::default(),
            }),
        }
    }

    /// Returns a change of an object that the program declares.
    fn change(&mut self) -> Option<Change> {
        if !self.program.value_sets.is_empty() && self.choices.one_in(6) {
            return self.value_set();
        }
        let externs: Vec<ExternId> = self.program.externs.ids().collect();
        match self.choices.pick(&externs) {
            Some(&id) if self.choices.one_in(3) => self.extern_change(id),
            _ => self.table_change(),
        }
    }

    fn value_set(&mut self) -> Option<Change> {
        let ids: Vec<_> = self.program.value_sets.ids().collect();
        let id = *self.choices.pick(&ids)?;
        let fields = &self.program.value_sets[id].fields;
        let count = self.choices.index(3);
        let mut member = || {
            let keys = fields.iter();
            keys.map(|field| self.key(field.match_kind, field.ty.width()))
                .collect()
        };
        Some(Change::SetValueSet(
            id,
            (0..count).map(|_| member()).collect(),
        ))
    }

    fn table_change(&mut self) -> Option<Change> {
        let tables: Vec<TableId> = self.program.tables.ids().collect();
        let id = *self.choices.pick(&tables)?;
        Some(match self.choices.index(10) {
            0 => Change::Clear(id),
            1 => Change::Delete(id, EntryId(self.choices.index(6) as u64)),
            2 => Change::SetDefault(id, self.call(id)?),
            3 => Change::SetExpireProfile(self.choices.index(9) as u8, self.pause()),
            _ => Change::Insert(id, self.entry(id)?),
        })
    }

    fn pause(&mut self) -> Option<Nanos> {
        let longest = 1 << self.choices.index(40);
        self.choices
            .one_in(2)
            .then(|| Nanos(1 + self.choices.index(longest) as u64))
    }

    fn entry(&mut self, id: TableId) -> Option<TableEntry> {
        let table = &self.program.tables[id];
        let matched = table
            .keys
            .iter()
            .filter(|key| key.match_kind != MatchKind::Selector);
        let keys: Vec<KeyMatch> = matched
            .map(|key| self.key(key.match_kind, key_width(self.program, &key.expr)))
            .collect();
        let action = match table.implementation {
            Some(_) => match self.choices.index(3) {
                0 => Action::Member(self.number()),
                1 => Action::Group(self.number()),
                _ => Action::OneShot(vec![(self.call(id)?, 1), (self.call(id)?, 2)]),
            },
            None => Action::Call(self.call(id)?),
        };
        let is_exact = |key: &ir::Key| {
            matches!(
                key.match_kind,
                MatchKind::Exact | MatchKind::Lpm | MatchKind::Selector
            )
        };
        let has_priority = table.keys.iter().all(is_exact) == self.choices.one_in(20);
        Some(TableEntry {
            keys,
            priority: has_priority.then(|| self.number() as i32),
            action,
            idle_timeout: self.pause().filter(|_| table.idle_timeout),
            meter: self.meter().filter(|_| table.direct_meter.is_some()),
            counter: None,
        })
    }

    fn call(&mut self, id: TableId) -> Option<ActionCall> {
        let actions = &self.program.tables[id].actions;
        let action = self.choices.index(actions.len());
        let params = &self.program.actions[actions.get(action)?.action].params;
        let args = params.iter().map(|param| self.arg(param.ty)).collect();
        Some(ActionCall { action, args })
    }

    fn key(&mut self, kind: MatchKind, width: u32) -> KeyMatch {
        let width = self.width(width);
        let value = self.value(width);
        match kind {
            _ if self.choices.one_in(6) => KeyMatch::Any,
            MatchKind::Lpm => {
                let len = self.choices.index(width as usize + 1) as u32;
                KeyMatch::Lpm(value.and(&Value::prefix_mask(len, width)), len)
            }
            MatchKind::Ternary => {
                let mask = self.value(width);
                KeyMatch::Ternary(value.and(&mask), mask)
            }
            MatchKind::Range => {
                let other = self.value(width);
                match value <= other {
                    true => KeyMatch::Range(value, other),
                    false => KeyMatch::Range(other, value),
                }
            }
            MatchKind::Exact | MatchKind::Optional | MatchKind::Selector => KeyMatch::Exact(value),
        }
    }

    /// Returns this width, or rarely another one.
    fn width(&mut self, width: u32) -> u32 {
        match self.choices.one_in(100) {
            true => self.choices.index(200) as u32,
            false => width,
        }
    }

    fn arg(&mut self, ty: ScalarTy) -> Value {
        let width = self.width(ty.width());
        self.value(width)
    }

    fn value(&mut self, width: u32) -> Value {
        match self.choices.index(4) {
            0 => Value::all_ones(width),
            1 => {
                let limbs: Vec<u64> = (0..width.div_ceil(64))
                    .map(|_| self.choices.bits())
                    .collect();
                Value::from_limbs(&limbs, width)
            }
            _ => Value::truncated(self.number().into(), width),
        }
    }

    fn meter(&mut self) -> Option<MeterConfig> {
        let rate = 1u64 << self.choices.index(50);
        let config = MeterConfig::TwoRate {
            cir: rate,
            cburst: 1 << self.choices.index(20),
            pir: rate << self.choices.index(10),
            pburst: 1 << self.choices.index(20),
        };
        (!self.choices.one_in(4)).then_some(config)
    }

    fn extern_change(&mut self, id: ExternId) -> Option<Change> {
        let index = (!self.choices.one_in(4)).then(|| self.number());
        Some(match &self.program.externs[id].kind {
            ExternKind::Register { cell, .. } => {
                let values = cell.iter().map(|ty| self.arg(*ty));
                Change::WriteRegister(id, index, values.collect())
            }
            ExternKind::Meter { .. } => Change::SetMeter(id, index, self.meter()?),
            ExternKind::Counter { .. } => Change::WriteCounter(
                id,
                index,
                CounterReading {
                    packets: self.choices.bits(),
                    bytes: self.choices.bits(),
                },
            ),
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                return self.profile_change(id);
            }
            _ => return None,
        })
    }

    fn profile_change(&mut self, profile: ExternId) -> Option<Change> {
        let mut tables = self.program.tables.values();
        let table = tables.rfind(|table| table.implementation == Some(profile))?;
        let id = self.number();
        Some(match self.choices.index(6) {
            0 => Change::DeleteMember(profile, id),
            1 => Change::DeleteGroup(profile, id),
            2..4 => {
                let count = self.choices.index(4);
                let members = (0..count).map(|_| (self.number(), self.number())).collect();
                Change::SetGroup {
                    profile,
                    id,
                    members,
                }
            }
            _ => {
                let action = self.choices.pick(&table.actions)?.action;
                let params = &self.program.actions[action].params;
                let args = params.iter().map(|param| self.arg(param.ty)).collect();
                Change::SetMember {
                    profile,
                    id,
                    action,
                    args,
                }
            }
        })
    }
}

/// Returns the width of a key.
fn key_width(program: &Program, key: &Expr) -> u32 {
    key.ty(program, None).map_or(0, |ty| ty.width())
}

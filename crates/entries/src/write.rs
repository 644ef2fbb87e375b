//! Formats updates as statements: the inverse of [`crate::file`].

use std::net::{Ipv4Addr, Ipv6Addr};

use bits::Value;
use ir::{ActionCall, ActionId, CounterUnit, KeyMatch, ScalarTy};

use crate::schema::{Format, Key, Object, Schema, Table, ValueTy};
use crate::update::{
    CloneSession, CounterValue, EntryAction, GroupMember, MeterConfig, Replica, TableEntry, Update,
    UpdateTarget, ValueSetMember,
};

impl Schema {
    /// Returns the statement of an update, on one line. Reading it gives the same update.
    pub fn statement(&self, update: &Update) -> String {
        match update {
            Update::Insert(table, entry) => self.entry(&self.tables[*table], entry),
            Update::SetDefault(table, call) => {
                let table = &self.tables[*table];
                format!("{} default -> {}", table.name, self.table_call(table, call))
            }
            Update::Member {
                profile,
                id,
                action,
                args,
            } => {
                let name = &self.externs[*profile].name;
                format!("{name} member {id} -> {}", self.call(*action, args))
            }
            Update::Group {
                profile,
                id,
                members,
                max_size,
            } => {
                let name = &self.externs[*profile].name;
                let most = match max_size {
                    0 => String::new(),
                    most => format!(" max_size {most}"),
                };
                let members = list(members.iter().map(group_member));
                format!("{name} group {id} {{ {members} }}{most}")
            }
            Update::Multicast { id, replicas } => {
                format!(
                    "multicast {id} {{ {} }}",
                    list(replicas.iter().map(replica))
                )
            }
            Update::Clone(session) => clone_session(session),
            Update::Register {
                register,
                index,
                values,
            } => {
                let register = &self.externs[*register];
                let cell = self.cell(&register.kind, values);
                format!("register {}{} = {cell}", register.name, at(*index))
            }
            Update::Meter {
                meter,
                index,
                config,
            } => {
                let name = &self.externs[*meter].name;
                format!("meter {name}{} {}", at(*index), rates(config))
            }
            Update::Counter {
                counter,
                index,
                value,
            } => {
                let counter = &self.externs[*counter];
                let counts = counted(&counter.kind, value);
                format!("counter {}[{index}] = {counts}", counter.name)
            }
            Update::ExpireProfile {
                profile,
                timeout_ns,
            } => match timeout_ns {
                Some(ns) => format!("expire_profile {profile} {}", duration(*ns)),
                None => format!("expire_profile {profile} never"),
            },
            Update::Queue(queue) => {
                let mut text = format!("queue port {}", queue.port);
                text += &option("priority", queue.priority);
                text += &option("rate", queue.packets_per_second);
                text += &option("bits", queue.bits_per_second);
                text + &option("depth", queue.depth)
            }
            Update::HashCrc { bits, crc } => {
                let hex = |value: Option<u32>| value.map(|value| format!("{value:#x}"));
                let mut text = format!("hash crc{bits}");
                text += &option("polynomial", hex(crc.polynomial));
                text += &option("initial", hex(crc.initial));
                text += &option("final_xor", hex(crc.final_xor));
                text += &option("reflect_in", crc.reflect_in);
                text + &option("reflect_out", crc.reflect_out)
            }
            Update::HashKey(key) => {
                let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("hash toeplitz 0x{digits}")
            }
            Update::HashSeed(seed) => format!("hash seed {seed}"),
            Update::HostPorts(ports) if ports.is_empty() => "host_ports none".to_owned(),
            Update::HostPorts(ports) => {
                let ports: Vec<String> = ports.iter().map(u32::to_string).collect();
                format!("host_ports {}", ports.join(", "))
            }
            Update::ValueSet { value_set, members } => {
                let set = &self.value_sets[*value_set];
                let members = members.iter().map(|one| self.set_member(&set.fields, one));
                format!("value_set {} {{ {} }}", set.name, list(members))
            }
        }
    }

    /// Returns the beginning of an object's statement, which names it.
    pub fn target(&self, target: &UpdateTarget) -> String {
        match target {
            UpdateTarget::Entry {
                table,
                keys,
                priority,
            } => {
                let table = &self.tables[*table];
                let keys = self.keys(&table.keys, keys);
                let priority = option("priority", *priority);
                format!("{} {{ {keys} }}{priority}", table.name)
            }
            UpdateTarget::Default(table) => format!("{} default", self.tables[*table].name),
            UpdateTarget::Member { profile, id } => {
                format!("{} member {id}", self.externs[*profile].name)
            }
            UpdateTarget::Group { profile, id } => {
                format!("{} group {id}", self.externs[*profile].name)
            }
            UpdateTarget::Multicast(id) => format!("multicast {id}"),
            UpdateTarget::Clone(id) => format!("clone {id}"),
        }
    }

    fn entry(&self, table: &Table, entry: &TableEntry) -> String {
        let keys = self.keys(&table.keys, &entry.keys);
        let mut text = format!(
            "{} {{ {keys} }} -> {}",
            table.name,
            self.entry_action(table, &entry.action)
        );
        text += &option("priority", entry.priority);
        text += &option("idle_timeout", entry.idle_timeout_ns.map(duration));
        text += &option("meter", entry.meter.as_ref().map(rates));
        text += &option("counter", entry.counter.as_ref().map(counts));
        text
    }

    /// Formats the keys that are not `_`, or all if every key is `_`.
    fn keys(&self, keys: &[Key], matches: &[KeyMatch]) -> String {
        let is_any = |wanted: &KeyMatch| *wanted == KeyMatch::Any;
        let shows_all = matches.iter().all(is_any);
        let pairs = keys.iter().zip(matches);
        let shown = pairs.filter(|(_, wanted)| shows_all || !is_any(wanted));
        let words =
            shown.map(|(key, wanted)| format!("{}: {}", key.name, self.key_match(key, wanted)));
        words.collect::<Vec<_>>().join("; ")
    }

    /// Formats the action of an entry.
    pub fn entry_action(&self, table: &Table, action: &EntryAction) -> String {
        match action {
            EntryAction::Call(call) => self.table_call(table, call),
            EntryAction::Member(id) => format!("member {id}"),
            EntryAction::Group(id) => format!("group {id}"),
            EntryAction::OneShot(actions) => {
                let one = |(call, weight): &(ActionCall, u32)| {
                    format!("{}{}", self.table_call(table, call), weighing(*weight))
                };
                format!("{{ {} }}", list(actions.iter().map(one)))
            }
        }
    }

    fn table_call(&self, table: &Table, call: &ActionCall) -> String {
        match table.actions.get(call.action) {
            Some(&action) => self.call(action, &call.args),
            None => String::from("?"),
        }
    }

    /// Formats an action with its arguments.
    pub fn call(&self, action: ActionId, args: &[Value]) -> String {
        let action = &self.actions[action];
        let args = action.params.iter().zip(args).map(|(param, value)| {
            format!(
                "{}: {}",
                param.name,
                self.value(param.ty, param.format, value)
            )
        });
        format!("{}({})", action.name, list(args))
    }

    /// Formats the match of one key.
    pub fn key_match(&self, key: &Key, wanted: &KeyMatch) -> String {
        let shown = |value: &Value| self.value(key.ty, key.format, value);
        match wanted {
            KeyMatch::Any => "_".to_owned(),
            KeyMatch::Exact(value) => shown(value),
            KeyMatch::Lpm(value, len) => format!("{}/{len}", shown(value)),
            KeyMatch::Ternary(value, mask) if *mask == Value::all_ones(mask.width()) => {
                shown(value)
            }
            KeyMatch::Ternary(value, mask) => match (key.format, mask.prefix_len()) {
                (Format::Plain | Format::Hex, _) => format!("{} &&& {}", hex(value), hex(mask)),
                (_, Some(len)) => format!("{}/{len}", shown(value)),
                (_, None) => format!("{} &&& {}", shown(value), shown(mask)),
            },
            KeyMatch::Range(low, high) if low == high => shown(low),
            KeyMatch::Range(low, high) => format!("{}..{}", shown(low), shown(high)),
        }
    }

    fn set_member(&self, fields: &[Key], member: &ValueSetMember) -> String {
        let pairs = fields.iter().zip(&member.fields);
        let words = pairs.map(|(field, wanted)| self.key_match(field, wanted));
        match fields.len() {
            1 => list(words),
            _ => format!("({})", list(words)),
        }
    }

    fn cell(&self, kind: &Object, values: &[Value]) -> String {
        let types: &[ValueTy] = match kind {
            Object::Register { cell, .. } => cell,
            _ => &[],
        };
        let pairs = types.iter().zip(values);
        let words = pairs.map(|(ty, value)| self.value(*ty, Format::Plain, value));
        match values.len() {
            1 => list(words),
            _ => format!("{{ {} }}", list(words)),
        }
    }

    /// Formats a value.
    pub fn value(&self, ty: ValueTy, format: Format, value: &Value) -> String {
        let member = |names: &[String]| names.get(value.to_u64()? as usize).cloned();
        match ty {
            ValueTy::Text => quoted(value),
            ValueTy::Scalar(ScalarTy::Bool) => (!value.is_zero()).to_string(),
            ValueTy::Scalar(ScalarTy::Error) => {
                member(&self.errors).unwrap_or_else(|| number(format, value))
            }
            ValueTy::Scalar(ScalarTy::Enum(id)) => {
                member(&self.enums[id].members).unwrap_or_else(|| number(format, value))
            }
            ValueTy::Scalar(ScalarTy::Int(width)) if is_negative(value, width) => {
                format!("-{}", number(Format::Plain, &value.neg()))
            }
            ValueTy::Scalar(_) => number(format, value),
        }
    }
}

fn is_negative(value: &Value, width: u32) -> bool {
    width > 0 && !value.and(&Value::prefix_mask(1, width)).is_zero()
}

fn quoted(value: &Value) -> String {
    let bytes = value.to_be_bytes();
    let text = String::from_utf8_lossy(&bytes);
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn number(format: Format, value: &Value) -> String {
    let Some(number) = value.to_u128() else {
        return hex(value);
    };
    match format {
        Format::Ipv4 if value.width() == 32 => Ipv4Addr::from(number as u32).to_string(),
        Format::Ipv6 if value.width() == 128 => Ipv6Addr::from(number).to_string(),
        Format::Mac if value.width() == 48 => {
            let bytes = value.to_be_bytes();
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(":")
        }
        Format::Plain if value.width() <= 64 => number.to_string(),
        _ => format!("{number:#x}"),
    }
}

fn hex(value: &Value) -> String {
    let bytes = value.to_be_bytes();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0x0".to_owned(),
        digits => format!("0x{digits}"),
    }
}

fn list(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

fn option(name: &str, value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(String::new, |value| format!(" {name} {value}"))
}

fn at(index: Option<u32>) -> String {
    index.map_or_else(String::new, |index| format!("[{index}]"))
}

fn weighing(weight: u32) -> String {
    match weight {
        1 => String::new(),
        weight => format!(" weight {weight}"),
    }
}

fn group_member(member: &GroupMember) -> String {
    format!("{}{}", member.member, weighing(member.weight))
}

fn replica(replica: &Replica) -> String {
    match replica.instance {
        0 => format!("port {}", replica.port),
        instance => format!("port {} instance {instance}", replica.port),
    }
}

fn clone_session(session: &CloneSession) -> String {
    let mut text = format!(
        "clone {} {{ {} }}",
        session.id,
        list(session.replicas.iter().map(replica))
    );
    text += &option("truncate", session.truncate);
    text += &option(
        "class",
        Some(session.class_of_service).filter(|class| *class != 0),
    );
    text
}

/// Formats rates and bursts.
fn rates(config: &MeterConfig) -> String {
    let MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst,
    } = config;
    match eburst {
        None => format!("cir {cir} cburst {cburst} pir {pir} pburst {pburst}"),
        Some(0) => format!("cir {cir} cburst {cburst}"),
        Some(eburst) => format!("cir {cir} cburst {cburst} eburst {eburst}"),
    }
}

fn counts(value: &CounterValue) -> String {
    format!("packets {} bytes {}", value.packets, value.bytes)
}

/// Formats a counter value according to the counter's unit.
fn counted(kind: &Object, value: &CounterValue) -> String {
    match kind {
        Object::Counter {
            unit: CounterUnit::Packets,
            ..
        } => format!("packets {}", value.packets),
        Object::Counter {
            unit: CounterUnit::Bytes,
            ..
        } => format!("bytes {}", value.bytes),
        _ => counts(value),
    }
}

fn duration(ns: u64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns.is_multiple_of(unit) {
            return format!("{}{name}", ns / unit);
        }
    }
    format!("{ns}ns")
}

//! Commands about registers, counters, meters, value sets, queues and hash functions.

use std::collections::BTreeMap;

use bits::Value;
use ir::{Arch, CounterUnit, ExternId, KeyMatch, ValueSetId};

use super::PlacedUpdate;
use super::commands::{CommandLine, number};
use crate::cells;
use crate::error::EntriesError;
use crate::ports;
use crate::resolve::{self, Word};
use crate::schema::{Object, Schema, ValueSet};
use crate::update::{CounterValue, CrcSetting, MeterConfig, QueueSetting, Update, ValueSetMember};
use crate::value;

/// Last port of v1model, for commands about all queues.
const LAST_PORT: u32 = 510;

/// Settings of a queue that commands have given.
#[derive(Clone, Copy, Default)]
struct QueueWish {
    depth: Option<u32>,
    packets_per_second: Option<u64>,
    at: (usize, usize),
}

/// A hash function with its parameters, which all functions of its kind share.
struct HashWish {
    name: String,
    update: Update,
    at: (usize, usize),
}

/// Configuration so far.
#[derive(Default)]
pub(super) struct DeviceCommands {
    cells: Vec<PlacedUpdate>,
    value_sets: BTreeMap<ValueSetId, (Vec<ValueSetMember>, (usize, usize))>,
    all_queues: Option<QueueWish>,
    queues: BTreeMap<u32, QueueWish>,
    /// Queues of one priority, by port and priority.
    own_queues: BTreeMap<(u32, u8), QueueWish>,
    hashes: Vec<HashWish>,
}

impl DeviceCommands {
    /// Runs a command. Returns false if it is not one of these.
    pub(super) fn run(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
    ) -> Result<bool, EntriesError> {
        match line.command.text {
            "register_write" => self.register_write(schema, line)?,
            "register_reset" => {
                let [name] = line.exactly(["register"])?;
                let (register, ..) = cells::register(schema, name)?;
                self.forget(register);
            }
            "counter_write" => self.counter_write(schema, line)?,
            "counter_reset" => {
                let [name] = line.exactly(["counter"])?;
                check_not_direct(schema, name)?;
                let (counter, ..) = cells::counter(schema, name)?;
                self.forget(counter);
            }
            "meter_set_rates" => {
                let names = ["meter", "index"];
                let ([name, index], rates) = line.at_least(names, RATES)?;
                check_not_direct(schema, name)?;
                let (meter, size) = cells::meter(schema, name)?;
                let index = self::index(index, size)?;
                self.set_meter((meter, Some(index)), rates, line)?;
            }
            "meter_array_set_rates" => {
                let ([name], rates) = line.at_least(["meter"], RATES)?;
                check_not_direct(schema, name)?;
                let (meter, _) = cells::meter(schema, name)?;
                self.set_meter((meter, None), rates, line)?;
            }
            "pvs_add" | "pvs_remove" => self.change_value_set(schema, line)?,
            "pvs_clear" => {
                let [name] = line.exactly(["value set"])?;
                let set = resolve::value_set(schema, name)?;
                self.value_sets.remove(&set);
            }
            "set_queue_rate" => {
                let rate = first_number(line, "a number of packets a second")?;
                let rate = Some(u64::from(rate)).filter(|rate| *rate > 0);
                self.set_queue(schema, line, &|queue: &mut QueueWish, is_set: bool| {
                    queue.packets_per_second = rate.filter(|_| is_set);
                })?;
            }
            "set_queue_depth" => {
                let depth = first_number(line, "a number of packets")?;
                if depth == 0 {
                    let message = "a queue without space drops all packets";
                    return Err(EntriesError::new(line.at(), message));
                }
                self.set_queue(schema, line, &|queue: &mut QueueWish, is_set: bool| {
                    queue.depth = is_set.then_some(depth);
                })?;
            }
            "set_crc16_parameters" => self.set_crc(line, 16)?,
            "set_crc32_parameters" => self.set_crc(line, 32)?,
            "set_toeplitz_hash_key" => self.set_key(line)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Drops what earlier lines wrote into a register or counter: a switch begins with zeros.
    fn forget(&mut self, object: ExternId) {
        self.cells.retain(|(update, _)| match update {
            Update::Register { register: own, .. } | Update::Counter { counter: own, .. } => {
                *own != object
            }
            _ => true,
        });
    }

    fn register_write(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
    ) -> Result<(), EntriesError> {
        let [name, index, written] = line.exactly(["register", "index", "value"])?;
        let (register, cell, size) = cells::register(schema, name)?;
        let index = self::index(index, size)?;
        let update = Update::Register {
            register,
            index: Some(index),
            values: cells::values(schema, cell, &[written], written.at())?,
        };
        self.cells.push((update, line.at()));
        Ok(())
    }

    fn counter_write(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
    ) -> Result<(), EntriesError> {
        let names = ["counter", "index", "packets", "bytes"];
        let [name, index, packets, bytes] = line.exactly(names)?;
        check_not_direct(schema, name)?;
        let (counter, unit, size) = cells::counter(schema, name)?;
        let index = self::index(index, size)?;
        let mut value = CounterValue {
            packets: long_number(packets, "a number of packets")?,
            bytes: long_number(bytes, "a number of bytes")?,
        };
        // BMv2 counts both, whatever the program declares.
        match unit {
            CounterUnit::Packets => value.bytes = 0,
            CounterUnit::Bytes => value.packets = 0,
            _ => {}
        }
        let update = Update::Counter {
            counter,
            index,
            value,
        };
        self.cells.push((update, line.at()));
        Ok(())
    }

    fn set_meter(
        &mut self,
        (meter, index): (ExternId, Option<u32>),
        rates: &[Word<'_>],
        line: &CommandLine<'_>,
    ) -> Result<(), EntriesError> {
        let [committed, peak] = rates else {
            let message = "a meter has two rates, each with its burst";
            let error = EntriesError::new(line.at(), message);
            return Err(error.hint(format!("write {RATES}")));
        };
        let ((cir, cburst), (pir, pburst)) = (rate(*committed)?, rate(*peak)?);
        if cir > pir {
            let message = "the first rate of a meter is the committed one, at most the second";
            return Err(EntriesError::new(committed.at(), message));
        }
        let config = MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            eburst: None,
        };
        let update = Update::Meter {
            meter,
            index,
            config,
        };
        self.cells.push((update, line.at()));
        Ok(())
    }

    fn change_value_set(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
    ) -> Result<(), EntriesError> {
        let [name, written] = line.exactly(["value set", "value"])?;
        let id = resolve::value_set(schema, name)?;
        let set = &schema.value_sets[id];
        let member = value_set_member(schema, set, written)?;
        let (members, _) = self
            .value_sets
            .entry(id)
            .or_insert_with(|| (Vec::new(), line.at()));
        members.retain(|own| *own != member);
        if line.command.text == "pvs_add" {
            members.push(member);
        }
        match members.len() > set.size as usize {
            true => {
                let message = format!("the value set holds {}", set.size);
                Err(EntriesError::new(name.at(), message))
            }
            false => Ok(()),
        }
    }

    /// Changes the queue of a priority of a port, the queues of a port, or of all ports. `change`
    /// sets what a command is of if its second argument is true, and else clears it. As in BMv2, a
    /// command of a port is one of each of its priorities, too.
    fn set_queue(
        &mut self,
        schema: &Schema,
        line: &CommandLine<'_>,
        change: &dyn Fn(&mut QueueWish, bool),
    ) -> Result<(), EntriesError> {
        match line.args[..] {
            [_, port] => {
                let id = number(port, "a port")?;
                ports::check_copy(schema.arch, id, port.at())?;
                let all = self.all_queues.unwrap_or_default();
                let queue = self.queues.entry(id).or_insert(all);
                change(queue, true);
                queue.at = line.at();
                let own = self.own_queues.iter_mut();
                let own = own.filter(|((port, _), _)| *port == id);
                own.for_each(|(_, queue)| change(queue, false));
                Ok(())
            }
            [_, port, priority] => {
                let id = number(port, "a port")?;
                ports::check_copy(schema.arch, id, port.at())?;
                let own = number(priority, "a priority")?;
                let own = ports::check_priority(own, priority.at())?;
                let queue = self.own_queues.entry((id, own)).or_default();
                change(queue, true);
                queue.at = line.at();
                Ok(())
            }
            [_, _, _, more, ..] => {
                let message = "a queue is that of a port and a priority";
                Err(EntriesError::new(more.at(), message))
            }
            _ if schema.arch != Some(Arch::V1model) => {
                let message = "all ports are only those of a v1model program";
                let error = EntriesError::new(line.at(), message);
                Err(error.hint("name the port as the second argument"))
            }
            _ => {
                let mut queues: Vec<&mut QueueWish> = self.queues.values_mut().collect();
                queues.push(self.all_queues.get_or_insert_default());
                for queue in queues {
                    change(queue, true);
                    queue.at = line.at();
                }
                let own = self.own_queues.values_mut();
                own.for_each(|queue| change(queue, false));
                Ok(())
            }
        }
    }

    fn set_crc(&mut self, line: &CommandLine<'_>, bits: u32) -> Result<(), EntriesError> {
        let names = [
            "name",
            "polynomial",
            "initial remainder",
            "final xor value",
            "reflect data",
            "reflect remainder",
        ];
        let [
            name,
            polynomial,
            initial,
            final_xor,
            reflect_in,
            reflect_out,
        ] = line.exactly(names)?;
        let number_of = |word: Word<'_>, what: &str| {
            let number = number(word, what)?;
            if bits < u32::BITS {
                ports::check_bits(number, bits, what, word.at())?;
            }
            Ok(Some(number))
        };
        let crc = CrcSetting {
            polynomial: number_of(polynomial, "a polynomial")?,
            initial: number_of(initial, "a first remainder")?,
            final_xor: number_of(final_xor, "a mask")?,
            reflect_in: Some(truth(reflect_in)?),
            reflect_out: Some(truth(reflect_out)?),
        };
        self.add_hash(line, name, Update::HashCrc { bits, crc })
    }

    fn set_key(&mut self, line: &CommandLine<'_>) -> Result<(), EntriesError> {
        let [name, key] = line.exactly(["name", "key"])?;
        let digits = key.text;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let is_key = !digits.is_empty() && digits.len().is_multiple_of(8);
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let Some(bytes) = bytes.filter(|_| is_key) else {
            let message = "a Toeplitz key has the hexadecimal digits of 4, 8, 12, ... bytes";
            return Err(EntriesError::new(key.at(), message));
        };
        self.add_hash(line, name, Update::HashKey(bytes))
    }

    /// Adds the parameters of a hash function. Functions of one kind have the same parameters.
    fn add_hash(
        &mut self,
        line: &CommandLine<'_>,
        name: Word<'_>,
        update: Update,
    ) -> Result<(), EntriesError> {
        let same_kind = |other: &Update| match (&update, other) {
            (Update::HashCrc { bits, .. }, Update::HashCrc { bits: other, .. }) => bits == other,
            (Update::HashKey(_), Update::HashKey(_)) => true,
            _ => false,
        };
        let other = self.hashes.iter();
        let mut other = other.filter(|hash| hash.name != name.text && same_kind(&hash.update));
        if let Some(other) = other.find(|hash| hash.update != update) {
            let message = format!(
                "`{}` and `{}` have different parameters, but the switch has one set for its kind",
                name.text, other.name
            );
            return Err(EntriesError::new(line.at(), message));
        }
        self.hashes
            .retain(|hash| hash.name != name.text || !same_kind(&hash.update));
        self.hashes.push(HashWish {
            name: name.text.to_owned(),
            update,
            at: line.at(),
        });
        Ok(())
    }

    /// Returns the configuration as updates.
    pub(super) fn updates(self) -> Vec<PlacedUpdate> {
        let mut updates = self.cells;
        for (value_set, (members, at)) in self.value_sets {
            updates.push((Update::ValueSet { value_set, members }, at));
        }
        let mut queues = self.queues;
        if let Some(all) = self.all_queues {
            for port in 0..=LAST_PORT {
                queues.entry(port).or_insert(all);
            }
        }
        let of_ports = queues.into_iter();
        let of_ports = of_ports.map(|(port, queue)| ((port, None), queue));
        let own = self.own_queues.into_iter();
        let own =
            own.filter(|(_, queue)| queue.depth.is_some() || queue.packets_per_second.is_some());
        let own = own.map(|((port, priority), queue)| ((port, Some(priority)), queue));
        for ((port, priority), queue) in of_ports.chain(own) {
            let setting = QueueSetting {
                port,
                priority,
                packets_per_second: queue.packets_per_second,
                bits_per_second: None,
                depth: queue.depth,
            };
            updates.push((Update::Queue(setting), queue.at));
        }
        let hashes = self.hashes.into_iter();
        updates.extend(hashes.map(|hash| (hash.update, hash.at)));
        updates
    }
}

/// Form of the rates of a meter.
const RATES: &str = "<rate>:<burst> <rate>:<burst>";

fn first_number(line: &CommandLine<'_>, what: &str) -> Result<u32, EntriesError> {
    let ([first], _) = line.at_least([what], "[<egress port>]")?;
    number(first, what)
}

fn long_number(word: Word<'_>, what: &str) -> Result<u64, EntriesError> {
    word.text.parse().map_err(|_| {
        let message = format!("{what} is expected here, not `{}`", word.text);
        EntriesError::new(word.at(), message)
    })
}

/// Refuses the name of a direct counter or meter, which is part of entries.
fn check_not_direct(schema: &Schema, name: Word<'_>) -> Result<(), EntriesError> {
    let is_other = |kind: &Object| matches!(kind, Object::Other).then_some(());
    if resolve::instance(schema, name, "direct counter or meter", is_other).is_err() {
        return Ok(());
    }
    let message = format!(
        "the cells of `{}` belong to entries of its table",
        name.text
    );
    let hint = "give them to the entry in an entries file: `meter cir ...`, `counter packets ...`";
    Err(EntriesError::new(name.at(), message).hint(hint))
}

fn index(word: Word<'_>, size: u32) -> Result<u32, EntriesError> {
    let index = number(word, "an index")?;
    cells::index_below(index, size, word.at())
}

/// Reads `RATE:BURST`. BMv2's rates are in packets or bytes a microsecond.
fn rate(word: Word<'_>) -> Result<(u64, u64), EntriesError> {
    let parts = word.text.split_once(':');
    let parsed = parts.and_then(|(rate, burst)| {
        let rate: f64 = rate.parse().ok()?;
        let is_rate = rate.is_finite() && (0.0..1e12).contains(&rate);
        Some(((rate * 1e6).round() as u64, burst.parse().ok()?)).filter(|_| is_rate)
    });
    parsed.ok_or_else(|| {
        let message = format!("`{}` is no rate with its burst", word.text);
        let hint = "write RATE:BURST: units a microsecond, and units, of packets or bytes";
        EntriesError::new(word.at(), message).hint(hint)
    })
}

fn truth(word: Word<'_>) -> Result<bool, EntriesError> {
    match word.text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "y" | "t" => Ok(true),
        "false" | "0" | "no" | "n" | "f" => Ok(false),
        _ => {
            let message = format!("true or false is expected here, not `{}`", word.text);
            Err(EntriesError::new(word.at(), message))
        }
    }
}

/// Reads a member of a value set. BMv2 writes the fields of a member as one number.
fn value_set_member(
    schema: &Schema,
    set: &ValueSet,
    written: Word<'_>,
) -> Result<ValueSetMember, EntriesError> {
    if let [field] = &set.fields[..] {
        let value = value::scalar(schema, field.ty, written)?;
        let fields = vec![value::exact_match(field.match_kind, value)];
        return Ok(ValueSetMember { fields });
    }
    let width = set.fields.iter().map(|field| field.ty.width()).sum();
    let all = Value::parse(written.text, width).map_err(|_| {
        let message = format!("`{}` is no value of {width} bits", written.text);
        EntriesError::new(written.at(), message)
    })?;
    let mut left = width;
    let fields = set.fields.iter().map(|field| {
        let own = field.ty.width();
        left -= own;
        let mut limbs = all.limbs().to_vec();
        bits::limbs::shr(&mut limbs, all.limbs(), left.into(), width);
        let value = Value::from_limbs(&limbs, width).resized(own);
        value::exact_match(field.match_kind, value)
    });
    let fields: Vec<KeyMatch> = fields.collect();
    Ok(ValueSetMember { fields })
}

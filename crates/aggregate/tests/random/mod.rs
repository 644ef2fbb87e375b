//! Random reductions in simulated fabrics with faults, compared with plain maps.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use aggregate::{
    Failure, Input, KeyClass, LANES, NextInput, Operator, Outcome, Pair, Plan, ReductionRequest,
    Run, RunOptions, Shape, ValueClass, Vector,
};
use exec::Engine;
use fabric::topology::{HostId, PlaneSpec, SwitchId};
use fabric::{Node, SwitchNode, Topology};
use packet::Nanos;
use support::rng::Rng;
use switch::{Device, DeviceConfig};

/// A random job, made from a seed.
pub(crate) struct Case {
    /// The topology.
    pub(crate) topology: Topology,
    /// The reductions.
    pub(crate) requests: Vec<ReductionRequest>,
    /// Input of each mapper of each reduction.
    pub(crate) inputs: Vec<Vec<Input>>,
    /// Restarts and limits.
    pub(crate) options: RunOptions,
}

/// Counts of a run, for summaries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    /// Pairs that mappers sent.
    pub(crate) pairs: u64,
    /// Pairs that switches took out.
    pub(crate) absorbed: u64,
    /// Messages that were sent again.
    pub(crate) repeats: u64,
    /// Epochs.
    pub(crate) epochs: u64,
    /// Restarts that reducers noticed.
    pub(crate) restarts: u64,
    /// Loads of switches in native code.
    pub(crate) native: usize,
    /// Reductions of vectors.
    pub(crate) vectors: usize,
    /// Results that mappers have got.
    pub(crate) received: usize,
}

impl Summary {
    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Summary) {
        self.pairs += other.pairs;
        self.absorbed += other.absorbed;
        self.repeats += other.repeats;
        self.epochs += other.epochs;
        self.restarts += other.restarts;
        self.native += other.native;
        self.vectors += other.vectors;
        self.received += other.received;
    }
}

/// One in this number of seeds runs in native code, which takes long to compile.
const NATIVE: u64 = 20;

impl Case {
    /// Makes the job of a seed.
    pub(crate) fn random(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let racks = rng.between(1, 3) as usize;
        let mappers = rng.between(1, 12) as usize;
        let reducers = rng.between(1, 4) as usize;
        let text = topology_text(&mut rng, racks, mappers + reducers);
        let topology = Topology::read("case", &text, Path::new("."));
        let topology = topology.unwrap_or_else(|error| panic!("{error}"));
        let mut switches = topology.switches.iter();
        let has_slots = switches.any(|s| matches!(s.plane, PlaneSpec::Aggregate { slots: 1.. }));
        let mut requests: Vec<ReductionRequest> = Vec::new();
        let mut inputs: Vec<Vec<Input>> = Vec::new();
        // Has numbers of its own, so that the other ones of a seed do not depend on it.
        let mut alike = Rng::new(!seed);
        let mut first_keys = 0;
        for number in 0..reducers {
            let shape = random_shape(&mut rng);
            let count = rng.between(1, mappers as u64) as usize;
            let most = 1 << rng.below(8);
            // Keys, or values of a vector of which a message has a block.
            let keys = match shape.is_vector() {
                true => rng.below(12 * LANES as u64) as usize,
                false => rng.between(1, most) as usize,
            };
            let slots = match shape.is_vector() {
                true => rng.between(1, 24),
                false => rng.between(1, 2 * keys as u64),
            };
            let tiers = rng.below(4) as u16;
            requests.push(ReductionRequest {
                name: format!("r{number}"),
                shape,
                mappers: (0..count).map(|host| (HostId(host), 1)).collect(),
                reducer: HostId(mappers + number),
                slots: slots as u32,
                // A reduction that no switch can take is an error of the plan.
                tiers: if has_slots { tiers } else { 0 },
                to_all: shape.is_vector() && rng.one_in(2),
            });
            let random = |rng: &mut Rng, shape: Shape, count, keys| -> Vec<Input> {
                let inputs = (0..count).map(|_| match (shape.keys, shape.values) {
                    (KeyClass::Block, ValueClass::F32) => random_floats(rng, keys),
                    (KeyClass::Block, _) => random_integers(rng, keys),
                    _ => random_pairs(rng, shape, keys).into(),
                });
                inputs.collect()
            };
            inputs.push(random(&mut rng, shape, count, keys));
            if number == 0 {
                first_keys = keys;
            } else if alike.one_in(3) {
                // It shares the first one's control in the switches.
                requests[number] = ReductionRequest {
                    name: format!("r{number}"),
                    reducer: HostId(mappers + number),
                    ..requests[0].clone()
                };
                let (shape, count) = (requests[0].shape, requests[0].mappers.len());
                inputs[number] = random(&mut alike, shape, count, first_keys);
            }
        }
        let next = requests.iter();
        let next: Vec<Vec<NextInput>> = next.map(|it| random_next(&mut rng, it)).collect();
        let open_epochs = rng.between(1, 4) as u16;
        let restarts = (0..rng.below(3)).map(|_| {
            let at = Nanos(rng.below(3_000_000));
            let switch = SwitchId(rng.index(topology.switches.len()));
            (at, Failure::Load(switch))
        });
        let mut options = RunOptions {
            open_epochs,
            failures: restarts.collect(),
            next,
            ..RunOptions::default()
        };
        add_failures(&mut rng, &requests, &mut options);
        Case {
            topology,
            requests,
            inputs,
            options,
        }
    }

    /// Runs the job, with the engine of the seed, and compares each result with a plain map.
    ///
    /// # Errors
    /// A result that differs, a failure, or a run that does not end.
    pub(crate) fn check(&self, seed: u64) -> Result<Summary, String> {
        let is_native = seed.is_multiple_of(NATIVE);
        let engine: Box<dyn Engine> = match is_native {
            true => Box::new(jit::Jit::new(Arc::new(interp::Interp))),
            false => Box::new(interp::Interp),
        };
        let engine = engine.as_ref();
        let mut native = 0;
        let plan = Plan::new(&self.topology, &self.requests).map_err(|e| e.to_string())?;
        let specs = self.topology.switches.clone();
        let mut programs: BTreeMap<SwitchId, Arc<ir::Program>> = BTreeMap::new();
        let mut make = |id: SwitchId, program: &str, entries: &str| {
            let program = match programs.get(&id) {
                Some(program) => Arc::clone(program),
                None => {
                    let compiled = driver::compile_text("switch.p4", program);
                    let compiled = Arc::new(compiled.map_err(|error| error.to_string())?);
                    programs.insert(id, Arc::clone(&compiled));
                    compiled
                }
            };
            // A program may be too long for native code; then the interpreter runs it.
            let config = DeviceConfig::default();
            let device = Device::new(Arc::clone(&program), engine, &config);
            native += usize::from(is_native && device.is_ok());
            let device =
                device.or_else(|_| Device::new(Arc::clone(&program), &interp::Interp, &config));
            let mut device = device.map_err(|error| error.to_string())?;
            let file = entries::read(&program, "entries", entries);
            let file = file.map_err(|errors| errors[0].to_string())?;
            apply_entries::apply_file(&mut device, &file).map_err(|error| error.to_string())?;
            let node = SwitchNode::new(device, specs[id.0].service);
            Ok::<Box<dyn Node>, String>(Box::new(node))
        };
        let (topology, inputs) = (self.topology.clone(), self.inputs.clone());
        let run = Run::new(topology, plan, inputs, self.options.clone(), &mut make);
        let mut run = run.map_err(|error| error.to_string())?;
        run.run(&mut make, &mut |_| true)
            .map_err(|error| error.to_string())?;
        let balance = run.simulation().check_conservation();
        balance.map_err(|error| error.to_string())?;
        let mut summary = Summary {
            native,
            ..Summary::default()
        };
        let cases = self.requests.iter().zip(&self.inputs);
        for (number, ((request, inputs), outcome)) in cases.zip(run.outcomes()).enumerate() {
            let next = &self.options.next[number];
            compare((request, inputs, next), &outcome)?;
            summary.received += outcome.received.iter().map(Vec::len).sum::<usize>();
            summary.vectors += usize::from(request.shape.is_vector());
            summary.pairs += outcome.reducer.pairs;
            summary.absorbed += outcome.reducer.absorbed;
            summary.epochs += outcome.reducer.epochs;
            summary.restarts += outcome.reducer.restarts;
            summary.repeats += outcome.mappers.iter().map(|m| m.repeats).sum::<u64>();
        }
        Ok(summary)
    }
}

/// Compares an outcome with a plain map over all pairs, or with a vector that is reduced in one
/// pass.
fn compare(
    (request, inputs, next): (&ReductionRequest, &[Input], &[NextInput]),
    outcome: &Outcome,
) -> Result<(), String> {
    let name = &request.name;
    if let Some(failure) = outcome.failure {
        return Err(format!("{name}: {failure}"));
    }
    if !outcome.is_complete {
        return Err(format!("{name}: it does not end: {outcome:?}"));
    }
    if request.shape.is_vector() {
        let first = Vector::of(inputs, request.shape.operator);
        let next = next.iter();
        let next = next.map(|next| Vector::of(&next.inputs, next.operator));
        let expected: Option<Vec<Vector>> = [first].into_iter().chain(next).collect();
        let expected = expected.unwrap_or_default();
        if outcome.vector.as_ref() != expected.last() {
            return Err(format!("{name}: another vector than expected"));
        }
        if request.to_all {
            let expected: Vec<Vector> = expected.into_iter().map(Vector::in_32_bits).collect();
            for (mapper, received) in outcome.received.iter().enumerate() {
                if *received != expected {
                    let pairs = received.iter().zip(&expected);
                    let equal = pairs.take_while(|(received, expected)| received == expected);
                    return Err(format!(
                        "{name}: other vectors at mapper {mapper}: {} of {} received, the first {} \
                         equal",
                        received.len(),
                        expected.len(),
                        equal.count()
                    ));
                }
            }
        }
        return Ok(());
    }
    let mut expected: BTreeMap<&[u8], i128> = BTreeMap::new();
    let pairs = inputs.iter().filter_map(|input| match input {
        Input::Pairs(pairs) => Some(pairs),
        _ => None,
    });
    for pair in pairs.flatten() {
        let combine = |old: i128| request.shape.operator.combine(old, pair.value);
        let value = expected
            .get(&*pair.key)
            .copied()
            .map_or(pair.value, combine);
        expected.insert(&pair.key, value);
    }
    let found: BTreeMap<&[u8], i128> = outcome.result.iter().map(|p| (&*p.key, p.value)).collect();
    for (key, value) in &expected {
        if found.get(key) != Some(value) {
            let found = found.get(key);
            return Err(format!(
                "{name}: {}: {value} expected, {found:?} found",
                key.escape_ascii()
            ));
        }
    }
    match found.len() == expected.len() {
        true => Ok(()),
        false => Err(format!(
            "{name}: {} keys expected, {} found",
            expected.len(),
            found.len()
        )),
    }
}

/// Returns the next vectors of a reduction, in some cases.
fn random_next(rng: &mut Rng, request: &ReductionRequest) -> Vec<NextInput> {
    let count = match request.to_all {
        true => rng.below(4),
        false => 0,
    };
    let next = (0..count).map(|_| {
        let len = rng.below(12 * LANES as u64) as usize;
        let is_float = request.shape.values == ValueClass::F32;
        let operator = match is_float {
            true => [Operator::Add, Operator::Max][rng.index(2)],
            false => request.shape.operator,
        };
        let are_floats = is_float && operator == Operator::Add && rng.one_in(2);
        let mappers = request.mappers.iter();
        let inputs = mappers.map(|_| match are_floats {
            true => random_floats(rng, len),
            false => random_integers(rng, len),
        });
        NextInput {
            inputs: inputs.collect(),
            operator,
        }
    });
    next.collect()
}

/// Adds dead, slow and late mappers, and new attempts, to some runs.
fn add_failures(rng: &mut Rng, requests: &[ReductionRequest], options: &mut RunOptions) {
    for (reduction, request) in requests.iter().enumerate() {
        let at = Nanos(rng.below(3_000_000));
        let mapper = rng.index(request.mappers.len());
        let kind = rng.below(8);
        match kind {
            // A mapper that is started again has the first vector alone.
            0 if !options.next[reduction].is_empty() => {}
            0 => {
                let host = request.mappers[rng.index(request.mappers.len())].0;
                let retry = Failure::RetryMapper {
                    reduction,
                    mapper,
                    host,
                };
                // A mapper that is not stopped is slow alone, and goes on as long as it can.
                if rng.one_in(2) {
                    let stop = Failure::StopMapper { reduction, mapper };
                    options.failures.push((at, stop));
                }
                let pause = Nanos(rng.below(2_000_000));
                options.failures.push((at + pause, retry));
                if rng.one_in(3) {
                    options.failures.push((at + pause + pause, retry));
                }
            }
            1 => {
                let stops = rng.one_in(2);
                let retry = Failure::Retry { reduction, stops };
                options.failures.push((at, retry));
            }
            2 => options.late.push((reduction, mapper, at)),
            _ => {}
        }
    }
}

/// Returns a shape: one in four of a vector.
fn random_shape(rng: &mut Rng) -> Shape {
    let operator = Operator::ALL[rng.index(Operator::ALL.len())];
    let shape = |operator, keys, values| Shape {
        operator,
        keys,
        values,
    };
    match rng.below(8) {
        0 => shape(operator, KeyClass::Block, ValueClass::I32),
        1 => shape(Operator::Add, KeyClass::Block, ValueClass::F32),
        _ => shape(
            operator,
            KeyClass::ALL[rng.index(KeyClass::ALL.len())],
            ValueClass::ALL[rng.index(ValueClass::ALL.len())],
        ),
    }
}

/// Returns integers. In some blocks sums overflow.
fn random_integers(rng: &mut Rng, count: usize) -> Input {
    let mut magnitude = 10;
    let values = (0..count).map(|index| {
        if index % LANES == 0 {
            magnitude = [10, 31][rng.index(2)];
        }
        let value = (rng.bits() & ((1 << magnitude) - 1)) as i32;
        if rng.one_in(2) { !value } else { value }
    });
    Input::Integers(values.collect())
}

/// Returns floats of different magnitudes by block. A few are infinite or NaN.
fn random_floats(rng: &mut Rng, count: usize) -> Input {
    let mut scale = 1.0;
    let values = (0..count).map(|index| {
        if index % LANES == 0 {
            scale = [1.0, 1e-3, 1e30, 1e-42][rng.index(4)];
        }
        match rng.below(2000) {
            0 => f32::INFINITY,
            1 => f32::NEG_INFINITY,
            2 => f32::NAN,
            3 => f32::MAX,
            _ => scale * (rng.below(2_000_001) as f32 * 1e-6 - 1.0),
        }
    });
    Input::Floats(values.collect())
}

/// Returns keys, each once, with values. Some keys are empty, end in zeros or exceed their class,
/// and some sums overflow.
fn random_pairs(rng: &mut Rng, shape: Shape, keys: usize) -> Vec<Pair> {
    let mut pairs = BTreeMap::new();
    for _ in 0..rng.below(2 * keys as u64 + 1) {
        let number = rng.index(keys);
        let mut key = format!("{number}").into_bytes();
        match number % 16 {
            0 => key.clear(),
            1 => key = vec![0; number % 5],
            2 => key.resize(shape.keys.longest(), b'x'),
            3 => key.resize(shape.keys.bytes() + 1, b'y'),
            _ => {}
        }
        let bits = shape.values.bytes() as u32 * 8;
        let magnitude = match rng.below(4) {
            0 => bits - 1,
            1 => bits + 3,
            _ => 10,
        };
        let value = i128::from(rng.bits()) & ((1i128 << magnitude) - 1);
        let is_negative = shape.values.is_signed() && rng.one_in(2);
        pairs.insert(key, if is_negative { -value } else { value });
    }
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| Pair::new(key, value)).collect()
}

/// Returns a topology of racks below one spine switch, with faults on all links.
fn topology_text(rng: &mut Rng, racks: usize, hosts: usize) -> String {
    let share = |rng: &mut Rng, most: u64| rng.below(most) as f64 / 1000.0;
    let faulty = u64::from(!rng.one_in(4));
    let mut text = format!(
        "seed = {}\n[defaults.link]\nrate = \"1 Gbit/s\"\ndelay = \"{} us\"\nqueue = {}\n\
         loss = {}\nduplicate = {}\nreorder = {}\ncorrupt = {}\n",
        rng.below(1 << 40),
        rng.between(1, 50),
        rng.between(20, 200),
        share(rng, 1 + 100 * faulty),
        share(rng, 1 + 100 * faulty),
        share(rng, 1 + 200 * faulty),
        share(rng, 1 + 10 * faulty),
    );
    let written: std::fmt::Result = (|| {
        for rack in 0..racks {
            let slots = if rng.one_in(5) { 0 } else { 100_000 };
            writeln!(
                text,
                "[[switch]]\nname = \"tor{rack}\"\nslots = {slots}\nservice = \"1 us\""
            )?;
        }
        if racks > 1 {
            let slots = if rng.one_in(3) { 0 } else { 100_000 };
            writeln!(text, "[[switch]]\nname = \"spine\"\nslots = {slots}")?;
            for rack in 0..racks {
                writeln!(
                    text,
                    "[[link]]\nends = [\"tor{rack}:99\", \"spine:{rack}\"]"
                )?;
            }
        }
        for host in 0..hosts {
            let rack = rng.index(racks);
            writeln!(
                text,
                "[[host]]\nname = \"h{host}\"\nmac = \"02:00:00:00:01:{host:02x}\"\n\
                 ip = \"10.0.0.{}/16\"\n[[link]]\nends = [\"h{host}\", \"tor{rack}:{host}\"]",
                host + 1
            )?;
        }
        Ok(())
    })();
    written.expect("writing to a string succeeds");
    text
}

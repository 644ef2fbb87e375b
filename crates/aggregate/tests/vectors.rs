//! Traffic of vectors of six mappers without faults: bytes on the reducer's link, and time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aggregate::{
    FlowConfig, Input, KeyClass, LANES, Mapper, Operator, Plan, Reducer, ReducerConfig,
    ReductionError, ReductionRequest, Run, RunOptions, Shape, ValueClass, Vector,
};
use fabric::topology::{HostId, SwitchId};
use fabric::{Node, SwitchNode, Topology};
use packet::Nanos;
use switch::{Device, DeviceConfig};

const MAPPERS: usize = 6;

const BLOCKS: usize = 2000;

/// Headers of a frame with a block: Ethernet, IPv4, UDP, message, index of the first lane.
const HEADERS: usize = 14 + 20 + 8 + 24 + 4;

fn topology() -> Topology {
    let hosts: String = (0..=MAPPERS)
        .map(|host| {
            format!(
                "[[host]]\nname = \"h{host}\"\nmac = \"02:00:00:00:01:0{host}\"\n\
                 ip = \"10.0.0.{}/16\"\n[[link]]\nends = [\"h{host}\", \"s:{host}\"]\n",
                host + 1
            )
        })
        .collect();
    let text = format!(
        "[defaults.link]\nrate = \"1 Gbit/s\"\ndelay = \"2 us\"\nqueue = 200\n\
         [[switch]]\nname = \"s\"\nslots = 1000\n{hosts}"
    );
    Topology::read("case", &text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes on the links from and to each host.
type HostBytes = BTreeMap<String, u64>;

/// Bytes from and to hosts, and the seconds of a run.
struct Traffic {
    from: HostBytes,
    to: HostBytes,
    seconds: f64,
}

/// Runs it. With `to_all`, the reducer is on the host of the first mapper.
fn run(values: ValueClass, tiers: u16, to_all: bool) -> Traffic {
    let shape = Shape {
        operator: Operator::Add,
        keys: KeyClass::Block,
        values,
    };
    let request = ReductionRequest {
        name: "sum".to_owned(),
        shape,
        mappers: (0..MAPPERS).map(|host| (HostId(host), 1)).collect(),
        reducer: match to_all {
            true => HostId(0),
            false => HostId(MAPPERS),
        },
        slots: 250,
        tiers,
        to_all,
    };
    let inputs = (0..MAPPERS).map(|mapper| {
        let lanes = 0..BLOCKS * LANES;
        match values {
            ValueClass::F32 => Input::Floats(lanes.map(|l| (l * mapper) as f32 * 0.1).collect()),
            _ => Input::Integers(lanes.map(|l| (l * mapper) as i32).collect()),
        }
    });
    let inputs: Vec<Input> = inputs.collect();
    let topology = topology();
    let service = topology.switches[0].service;
    let plan = Plan::new(&topology, &[request]).unwrap_or_else(|error| panic!("{error}"));
    let mut make = |_: SwitchId, program: &str, entries: &str| {
        let program = driver::compile_text("switch.p4", program);
        let program = Arc::new(program.map_err(|error| error.to_string())?);
        let config = DeviceConfig::default();
        let device = Device::new(Arc::clone(&program), &interp::Interp, &config);
        let mut device = device.map_err(|error| error.to_string())?;
        let file = entries::read(&program, "entries", entries);
        let file = file.map_err(|errors| errors[0].to_string())?;
        apply_entries::apply_file(&mut device, &file).map_err(|error| error.to_string())?;
        Ok::<Box<dyn Node>, String>(Box::new(SwitchNode::new(device, service)))
    };
    let options = RunOptions::default();
    let run = Run::new(topology, plan, vec![inputs.clone()], options, &mut make);
    let mut run = run.unwrap_or_else(|error| panic!("{error}"));
    run.run(&mut make, &mut |_| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let outcome = run.outcomes().remove(0);
    assert_eq!(outcome.vector, Vector::of(&inputs, Operator::Add));
    let report = run.simulation().report();
    let mut traffic = Traffic {
        from: HostBytes::new(),
        to: HostBytes::new(),
        seconds: outcome.ended_at.as_secs_f64(),
    };
    for link in &report.links {
        *traffic.from.entry(link.from.clone()).or_default() += link.bytes;
        *traffic.to.entry(link.to.clone()).or_default() += link.bytes;
    }
    traffic
}

#[test]
fn six_vectors_become_one_on_the_reducers_link() {
    let ideal = (BLOCKS * (HEADERS + LANES * 4)) as f64;
    for values in [ValueClass::I32, ValueClass::F32] {
        let reducer = format!("h{MAPPERS}");
        let run = |tiers| {
            let Traffic { to, seconds, .. } = run(values, tiers, false);
            (to[&reducer], seconds)
        };
        let (direct_bytes, direct) = run(0);
        let (bytes, seconds) = run(1);
        let share = bytes as f64 / ideal;
        let reduction = 1.0 - seconds / direct;
        println!(
            "{values:?}: {bytes} bytes, {share:.3} of the ideal, direct {direct_bytes}; {seconds} s, \
             direct {direct} s: {reduction:.3} less"
        );
        assert!(share <= 1.10, "{share}");
        assert!(reduction >= 0.75, "{reduction}");
    }
}

#[test]
fn a_vector_for_all_is_once_on_each_mappers_link_in_each_direction() {
    let ideal = (BLOCKS * (HEADERS + LANES * 4)) as f64;
    for values in [ValueClass::I32, ValueClass::F32] {
        let traffic = run(values, 1, true);
        for host in (0..MAPPERS).map(|host| format!("h{host}")) {
            let (sent, received) = (traffic.from[&host], traffic.to[&host]);
            println!("{values:?}, {host}: {sent} bytes sent, {received} received");
            assert!(
                sent.max(received) as f64 <= 1.15 * ideal,
                "{sent} {received}"
            );
        }
    }
}

/// A reducer and the two mappers of its group, without a switch between them.
struct Group {
    reducer: Reducer,
    mappers: [Mapper; 2],
}

impl Group {
    /// Delivers messages until there are no more.
    fn exchange(&mut self, now: Nanos) {
        loop {
            let questions = self.mappers.iter_mut().find_map(|mapper| mapper.poll(now));
            if let Some(message) = questions {
                self.reducer.receive(&message, now);
            } else if let Some(answer) = self.reducer.poll(now) {
                self.mappers[usize::from(answer.flow)].receive(&answer.message, now);
            } else {
                return;
            }
        }
    }
}

#[test]
fn only_a_question_with_the_next_vector_starts_the_time_of_the_others() {
    let shape = Shape {
        operator: Operator::Add,
        keys: KeyClass::Block,
        values: ValueClass::I32,
    };
    let flows = FlowConfig {
        job: 1,
        attempt: 1,
        shape,
        window: 64,
        pairs_per_message: 1,
        datagram_bytes: 1472,
        receivers: 2,
    };
    let waiting = Nanos::from_secs(5);
    let config = ReducerConfig {
        flows,
        mappers: 2,
        switches: Vec::new(),
        slots: 10,
        open_epochs: 2,
        patience: Nanos::from_secs(60),
        waiting,
    };
    let mut group = Group {
        reducer: Reducer::new(config, 1),
        mappers: [0, 1].map(|flow| Mapper::of_group(flows, flow)),
    };
    let mut now = Nanos::from_secs(1);
    let vector = || Input::Integers(vec![1, 2, 3].into());
    for mapper in &mut group.mappers {
        mapper.submit(vector(), Operator::Add, now).unwrap();
    }
    group.exchange(now);
    assert!(group.reducer.is_complete());
    let results = group.mappers.each_mut().map(Mapper::take_result);
    let expected = Some(Vector::Integers(vec![2, 4, 6]));
    assert_eq!(results, [expected.clone(), expected]);
    // The question of a mapper that did not get the announcement of the result.
    let mut late = Mapper::of_group(flows, 1);
    late.submit(vector(), Operator::Add, now).unwrap();
    let question = late.poll(now).expect("it asks for the state");
    group.reducer.receive(&question, now);
    now = now + waiting + waiting;
    group.exchange(now);
    assert_eq!(group.reducer.failure(), None);
    group.mappers[0]
        .submit(vector(), Operator::Add, now)
        .unwrap();
    group.exchange(now);
    assert_eq!(group.reducer.failure(), None);
    now = now + waiting + Nanos(1);
    group.exchange(now);
    let silent = Some(ReductionError::MapperSilent { flow: 1 });
    assert_eq!(group.reducer.failure(), silent);
}

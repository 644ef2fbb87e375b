//! Reductions as virtual data planes (vPDPs) of one switch in simulated time, beside a router that
//! has all other packets; and the bytes of their state.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use aggregate::{
    Input, KeyClass, Operator, Outcome, Pair, Plan, PlannedReduction, ReductionRequest, Run,
    RunOptions, Shape, ValueClass,
};
use fabric::topology::{HostId, SwitchId};
use fabric::{Node, SwitchNode, Tenants, Topology};
use packet::PortId;
use support::rng::Rng;
use tenancy::{Condition, Connection, Quotas, Rule, Share, Sharing, Spec, TenantSwitch, VpdpId};

const MAPPERS: usize = 3;

const SWITCH: SwitchId = SwitchId(0);

fn topology(faults: &str) -> Topology {
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
        "[defaults.link]\nrate = \"1 Gbit/s\"\ndelay = \"2 us\"\nqueue = 2000\n{faults}\n\
         [[switch]]\nname = \"s\"\nslots = 10000\n{hosts}"
    );
    Topology::read("case", &text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

fn request(name: &str, operator: Operator, tiers: u16) -> ReductionRequest {
    ReductionRequest {
        name: name.to_owned(),
        shape: Shape {
            operator,
            keys: KeyClass::B16,
            values: ValueClass::I64,
        },
        mappers: (0..MAPPERS).map(|host| (HostId(host), 1)).collect(),
        reducer: HostId(MAPPERS),
        slots: 300,
        tiers,
        to_all: false,
    }
}

/// Adds a vPDP to a switch, with the program and entries of a plan.
fn add(hypervisor: &mut TenantSwitch, plan: &Plan, name: &str, quotas: Quotas) -> VpdpId {
    let program = driver::compile_text("switch.p4", &plan.program(SWITCH));
    let program = Arc::new(program.unwrap_or_else(|error| panic!("{error}")));
    let id = hypervisor.create(Spec {
        name: name.to_owned(),
        ports: (0..=MAPPERS as u32)
            .map(|port| Connection::Physical(PortId(port)))
            .collect(),
        quotas,
        ..Spec::default()
    });
    let id = id.unwrap();
    hypervisor.load(id, Arc::clone(&program)).unwrap();
    let entries = plan.entries(SWITCH, 1, 1);
    let file = entries::read(&program, "entries", &entries).unwrap();
    let device = hypervisor.device_mut(id).unwrap();
    apply_entries::apply_file(device, &file).unwrap_or_else(|error| panic!("{error}"));
    device.publish();
    id
}

/// Returns the switch: a vPDP for each reduction, and the router.
fn switch(plan: &Plan, topology: &Topology) -> Box<dyn Node> {
    let mut hypervisor = TenantSwitch::new(Arc::new(interp::Interp));
    for port in 0..=MAPPERS as u32 {
        let share = Share::from(Sharing::Rules);
        hypervisor.share_as(PortId(port), share).unwrap();
    }
    let rule = |hypervisor: &mut TenantSwitch, vpdp: VpdpId, conditions: Vec<Condition>| {
        let rule = Rule {
            name: format!("rule{vpdp}"),
            vpdp,
            priority: conditions.len() as i32,
            conditions,
        };
        hypervisor.add_rule(rule).unwrap();
    };
    // A plan without reductions forwards alone.
    let all = Plan::new(topology, &[]).unwrap();
    let router = add(&mut hypervisor, &all, "router", Quotas::default());
    rule(&mut hypervisor, router, Vec::new());
    for PlannedReduction { job, switches, .. } in &plan.reductions {
        if switches.is_empty() {
            continue;
        }
        let own = plan.alone(*job, topology);
        let mut quotas = Quotas::default();
        quotas.limits.state_bytes = Some(own.state_bytes(SWITCH));
        quotas.limits.work = exec::WorkBudget::new(65_536);
        let name = format!("reduction-{job}");
        let vpdp = add(&mut hypervisor, &own, &name, quotas);
        rule(&mut hypervisor, vpdp, vec![Condition::Reduction(*job)]);
    }
    let tenants = Tenants::new(hypervisor).unwrap();
    let service = topology.switches[0].service;
    Box::new(SwitchNode::new(tenants, service))
}

/// Pairs of a mapper before they are combined: keys out of 1,000.
fn pairs(seed: u64) -> Vec<Pair> {
    let mut rng = Rng::new(seed);
    let pairs = (0..2000).map(|_| {
        let key = format!("key{}", rng.below(1000));
        Pair::new(key.into_bytes(), i128::from(rng.below(100)))
    });
    pairs.collect()
}

/// Returns the result of one plain map over all inputs.
fn oracle(inputs: &[Vec<Pair>], operator: Operator) -> Vec<Pair> {
    let mut all: BTreeMap<Vec<u8>, i128> = BTreeMap::new();
    for pair in inputs.iter().flatten() {
        all.entry(pair.key.to_vec())
            .and_modify(|value| {
                *value = match operator {
                    Operator::Add => *value + pair.value,
                    Operator::Max => (*value).max(pair.value),
                    Operator::Min => (*value).min(pair.value),
                }
            })
            .or_insert(pair.value);
    }
    let all = all.into_iter();
    all.map(|(key, value)| Pair::new(key, value)).collect()
}

/// Runs two reductions, and one of which the router has all messages. Checks the results.
fn run(faults: &str) -> Vec<Outcome> {
    let topology = topology(faults);
    let requests = [
        request("sum", Operator::Add, 1),
        request("most", Operator::Max, 1),
        request("direct", Operator::Add, 0),
    ];
    let plan = Plan::new(&topology, &requests).unwrap_or_else(|error| panic!("{error}"));
    let texts: Vec<Vec<Vec<Pair>>> = (0..3)
        .map(|job| (0..3).map(|mapper| pairs(job * 10 + mapper + 1)).collect())
        .collect();
    let inputs = texts.iter().zip(&requests).map(|(job, request)| {
        // A mapper has each key once.
        let mapped = job
            .chunks(1)
            .map(|pairs| oracle(pairs, request.shape.operator));
        mapped.map(Input::Pairs).collect()
    });
    let inputs: Vec<Vec<Input>> = inputs.collect();
    let (own, at) = (plan.clone(), topology.clone());
    let mut make = |_: SwitchId, _: &str, _: &str| Ok::<_, String>(switch(&own, &at));
    let run = Run::new(topology, plan, inputs, RunOptions::default(), &mut make);
    let mut run = run.unwrap_or_else(|error| panic!("{error}"));
    run.run(&mut make, &mut |_| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let outcomes = run.outcomes();
    for ((outcome, request), texts) in outcomes.iter().zip(&requests).zip(&texts) {
        assert_eq!(outcome.failure, None);
        assert!(outcome.result == oracle(texts, request.shape.operator));
        let is_absorbed = outcome.reducer.absorbed > 0;
        assert_eq!(is_absorbed, request.tiers > 0, "{}", request.name);
    }
    outcomes
}

#[test]
fn two_reductions_beside_a_router_are_exact_under_faults() {
    run("loss = 0.02\nduplicate = 0.02\nreorder = 0.05\ncorrupt = 0.005");
}

#[test]
fn the_router_loses_nothing_beside_two_reductions() {
    for outcome in run("") {
        let repeats: u64 = outcome.mappers.iter().map(|mapper| mapper.repeats).sum();
        assert_eq!(repeats, 0);
        assert_eq!(outcome.reducer.repeats, 0);
    }
}

#[test]
fn the_state_of_a_program_is_as_planned() {
    let mut shapes = Vec::new();
    let keys = [KeyClass::B8, KeyClass::B16, KeyClass::B32, KeyClass::B64];
    for keys in keys {
        for values in [ValueClass::I32, ValueClass::I64] {
            shapes.push((keys, values));
        }
    }
    shapes.push((KeyClass::Block, ValueClass::I32));
    shapes.push((KeyClass::Block, ValueClass::F32));
    let topology = topology("");
    for (keys, values) in shapes {
        let mut request = request("sum", Operator::Add, 1);
        request.shape.keys = keys;
        request.shape.values = values;
        let plan = Plan::new(&topology, &[request]).unwrap();
        let program = driver::compile_text("switch.p4", &plan.program(SWITCH)).unwrap();
        let (planned, bytes) = (plan.state_bytes(SWITCH), exec::state_bytes(&program));
        println!("{keys:?} {values:?}: {planned} bytes planned, {bytes} in the program");
        assert_eq!(planned, bytes);
    }
}

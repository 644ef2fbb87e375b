//! One simulated reduction, by one scheme.

use std::collections::HashSet;

use aggregate::{
    Input, Plan, ReductionRequest, RunOptions, SequenceReading, Shape, Vector, WrongKeys,
    pairs_per_message, set_neighbours,
};
use command::reductions;
use command::switches::Maker;
use command::topology::run_simulation;
use fabric::topology::{FlowKind, FlowSpec, SwitchId};
use fabric::{Report, Simulation};
use packet::Nanos;

use super::Context;
use super::fabric_text::Fabric;

/// Limit of the simulated time. The paper's algorithm may stay incomplete.
const END: Nanos = Nanos::from_secs(600);

/// Bytes of a frame around its pairs: Ethernet, IPv4, UDP, and the header of messages.
const AROUND: usize = 14 + 20 + 8 + aggregate::HEADER_BYTES;

/// Way of the pairs to the reducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A TCP connection from each mapper.
    Direct,
    /// The paper's algorithm as printed.
    Paper(SequenceReading),
    /// Switches that reduce.
    P4com,
}

/// A reduction to simulate.
pub(super) struct Case<'p> {
    pub(super) scheme: Scheme,
    pub(super) fabric: Fabric,
    pub(super) shape: Shape,
    /// Data of each mapper. Mapper number n is on the n-th host of the fabric, modulo their
    /// number.
    pub(super) inputs: &'p [Input],
    /// Slots of an epoch in each switch.
    pub(super) slots: u32,
    pub(super) tiers: u16,
}

/// Outcome of a case.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Time to the complete result.
    pub(super) seconds: f64,
    /// Bytes of frames on the last link to the reducer.
    pub(super) link_bytes: u64,
    /// Frames that the queue of this link dropped.
    pub(super) overflowed: u64,
    /// Keys with a wrong result.
    pub(super) wrong: WrongKeys,
}

impl Case<'_> {
    /// Simulates the reduction.
    ///
    /// # Errors
    /// A switch cannot be loaded, a signal arrived, or the reduction failed.
    pub(super) fn run(self, context: &Context<'_>) -> Result<Outcome, String> {
        let plan = self.plan()?;
        match self.scheme {
            Scheme::Direct => self.direct(&plan, context),
            Scheme::Paper(reading) => self.paper(&plan, reading, context),
            Scheme::P4com => self.p4com(&plan, context),
        }
    }

    fn plan(&self) -> Result<Plan, String> {
        let hosts = self.fabric.mappers.iter().cycle();
        let mappers = hosts.zip(self.inputs);
        let request = ReductionRequest {
            name: "total".to_owned(),
            shape: self.shape,
            mappers: mappers
                .map(|(host, own)| (*host, bytes_of(self.shape, own)))
                .collect(),
            reducer: self.fabric.reducer,
            slots: self.slots,
            to_all: false,
            tiers: match self.scheme {
                Scheme::Direct => 0,
                Scheme::Paper(_) | Scheme::P4com => self.tiers,
            },
        };
        let plan = Plan::new(&self.fabric.topology, &[request]);
        plan.map_err(|error| error.to_string())
    }

    fn outcome(&self, report: &Report, seconds: f64) -> Outcome {
        let topology = &self.fabric.topology;
        let reducer = &topology.hosts[self.fabric.reducer.0].name;
        let mut outcome = Outcome {
            seconds,
            ..Outcome::default()
        };
        for link in report.links.iter().filter(|link| link.to == *reducer) {
            outcome.link_bytes += link.bytes;
            outcome.overflowed += link.overflowed;
        }
        outcome
    }

    /// Sends each mapper's pairs by TCP. What a mapper on the reducer's host has needs no link.
    fn direct(&self, plan: &Plan, context: &Context<'_>) -> Result<Outcome, String> {
        let mut topology = self.fabric.topology.clone();
        set_neighbours(&mut topology).map_err(|error| error.to_string())?;
        let mut maker = Maker::new(context.options.choice, topology.seed);
        let ids = |name: &str| topology.switches.iter().position(|s| s.name == name);
        let simulation = Simulation::new(topology.clone(), &mut |spec| {
            let id = SwitchId(ids(&spec.name).unwrap_or_default());
            maker.make_with(spec, &plan.program(id), &plan.entries(id, 1, 1))
        });
        let mut simulation = simulation.map_err(|error| error.to_string())?;
        let hosts = self.fabric.mappers.iter().cycle();
        let remote = hosts
            .zip(self.inputs)
            .filter(|(host, _)| **host != self.fabric.reducer);
        for (host, input) in remote {
            let flow = FlowSpec {
                from: *host,
                to: self.fabric.reducer,
                bytes: bytes_of(self.shape, input),
                at: Nanos::ZERO,
                kind: FlowKind::Named,
            };
            let added = simulation.add_flow(flow);
            added.map_err(|error| error.to_string())?;
        }
        let (signal, _) = run_simulation(&mut simulation, END, context.take_signal)?;
        if let Some(signal) = signal {
            return Err(format!("interrupted by {signal}"));
        }
        let report = simulation.report();
        let mut times = report.flows.iter().map(|flow| flow.completion_seconds);
        let last = times.try_fold(0.0, |last: f64, time| Some(last.max(time?)));
        let last = last.ok_or("a TCP connection did not end")?;
        Ok(self.outcome(&report, last))
    }

    fn paper(
        &self,
        plan: &Plan,
        reading: SequenceReading,
        context: &Context<'_>,
    ) -> Result<Outcome, String> {
        let inputs = [self.inputs.to_vec()];
        let topology = &self.fabric.topology;
        let options = (reading, END);
        let job =
            reductions::simulate_paper(topology, plan, &inputs, options, context.take_signal)?;
        if let Some(signal) = job.signal {
            return Err(format!("interrupted by {signal}"));
        }
        let [ran] = &job.outcomes[..] else {
            return Err("the simulation has no reduction".to_owned());
        };
        let outcome = self.outcome(&job.report, ran.ended_at.as_secs_f64());
        Ok(Outcome {
            wrong: WrongKeys::of(self.shape.operator, &inputs[0], &ran.result),
            ..outcome
        })
    }

    fn p4com(&self, plan: &Plan, context: &Context<'_>) -> Result<Outcome, String> {
        let options = RunOptions {
            end: END,
            ..RunOptions::default()
        };
        let job = reductions::simulate(
            &self.fabric.topology,
            plan,
            vec![self.inputs.to_vec()],
            (options, context.options.choice),
            context.take_signal,
        )?;
        if let Some(signal) = job.signal {
            return Err(format!("interrupted by {signal}"));
        }
        let [ran] = &job.outcomes[..] else {
            return Err("the simulation has no reduction".to_owned());
        };
        if let Some(failure) = &ran.failure {
            return Err(format!("the reduction failed: {failure}"));
        }
        if !ran.is_complete {
            return Err("the reduction is not complete".to_owned());
        }
        let outcome = self.outcome(&job.report, ran.ended_at.as_secs_f64());
        if self.shape.is_vector() {
            return match ran.vector == Vector::of(self.inputs, self.shape.operator) {
                true => Ok(outcome),
                false => Err("the reduced vector differs from the one that is computed".to_owned()),
            };
        }
        Ok(Outcome {
            wrong: WrongKeys::of(self.shape.operator, self.inputs, &ran.result),
            ..outcome
        })
    }
}

/// Returns the bytes of a mapper's data without headers.
pub(super) fn bytes_of(shape: Shape, input: &Input) -> u64 {
    let bytes = match input {
        Input::Pairs(pairs) => pairs.len() * shape.pair_bytes(),
        Input::Integers(lanes) => lanes.len() * 4,
        Input::Floats(lanes) => lanes.len() * 4,
    };
    bytes as u64
}

/// Returns the number of distinct keys of mappers.
pub(super) fn distinct_keys(inputs: &[Input]) -> usize {
    let pairs = inputs.iter().flat_map(Input::pairs);
    pairs
        .map(|pair| &*pair.key)
        .collect::<HashSet<&[u8]>>()
        .len()
}

/// Returns the bytes of full frames in which each key is once.
pub(super) fn ideal_bytes(shape: Shape, keys: usize) -> u64 {
    let frames = keys.div_ceil(pairs_per_message(shape));
    (keys * shape.pair_bytes() + frames * AROUND) as u64
}

//! Traffic generator for benchmarks and tests. The number of flows, their frequencies and the
//! frame lengths are configurable. Every run gives the same frames.

mod compiled_template;
mod error;
mod template;
#[cfg(test)]
mod tests;

pub use error::GeneratorError;
pub use template::{Template, Values};

use compiled_template::CompiledTemplate;
use packet::{Batch, Frame, MAX_FRAME, Nanos, PortId};
use support::rng::{Rng, Weighted, scale};

/// Maximum number of flows. A generator stores eight bytes per flow if the flows have different
/// frequencies.
pub const MAX_FLOWS: usize = 1 << 26;

/// The flows of a workload: frames that differ in the variable fields of their template.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flows {
    /// Number of flows. Flow `i` uses template `i` modulo the number of templates.
    pub count: usize,
    /// Order in which the flows are generated.
    pub order: Order,
}

/// Order in which flows are generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Round robin.
    InTurn,
    /// Random: the r-th most frequent flow has a probability proportional to `1 / r^skew` (Zipf's
    /// law). With 0, all are equally likely. Around 1, the traffic is as skewed as Internet
    /// traffic.
    Zipf {
        /// The exponent, not negative.
        skew: f64,
    },
}

/// Frame lengths in bytes, without the frame check sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Every frame has the length of its template. Only the variable fields change.
    OfTemplates,
    /// All frames have one length.
    Fixed(usize),
    /// Uniformly distributed lengths from the first to the second, inclusive.
    Between(usize, usize),
    /// Lengths with their relative weights.
    Mix(Vec<(usize, u32)>),
}

impl Sizes {
    /// Returns the Internet mix (IMIX) of test equipment: 7 short, 4 medium and 1 long frame.
    pub fn imix() -> Sizes {
        Sizes::Mix(vec![(60, 7), (590, 4), (1514, 1)])
    }

    /// Returns the lengths, and the rule that selects one of them.
    fn lengths(&self) -> Result<(Vec<usize>, Choice), GeneratorError> {
        let (lengths, choice) = match self {
            Sizes::OfTemplates => return Ok((Vec::new(), Choice::Only)),
            Sizes::Fixed(len) => (vec![*len], Choice::Only),
            Sizes::Between(min, max) => {
                let lengths: Vec<usize> = (*min..=(*max).min(MAX_FRAME + 1)).collect();
                let choice = Choice::Equal(lengths.len());
                (lengths, choice)
            }
            Sizes::Mix(mix) => {
                let weights: Vec<f64> = mix.iter().map(|(_, weight)| f64::from(*weight)).collect();
                if weights.iter().all(|weight| *weight == 0.0) {
                    return Err(GeneratorError::NoSizes);
                }
                let lengths = mix.iter().map(|(len, _)| *len).collect();
                (lengths, Choice::Weighted(Weighted::new(&weights)))
            }
        };
        match lengths.iter().find(|len| **len > MAX_FRAME) {
            Some(&len) => Err(GeneratorError::TooLong { len }),
            None if lengths.is_empty() => Err(GeneratorError::NoSizes),
            None => Ok((lengths, choice)),
        }
    }
}

/// Rule that selects one of several alternatives.
#[derive(Clone, Debug)]
enum Choice {
    /// There is only one alternative.
    Only,
    /// Round robin: the next index, and the number of alternatives.
    InTurn(usize, usize),
    /// Uniformly random, among this number of alternatives.
    Equal(usize),
    /// Random by weight.
    Weighted(Weighted),
}

impl Choice {
    #[inline]
    fn next(&mut self, chance: &mut Rng) -> usize {
        match self {
            Choice::Only => 0,
            Choice::InTurn(next, count) => {
                let this = *next;
                *next = if this + 1 == *count { 0 } else { this + 1 };
                this
            }
            Choice::Equal(count) => scale((chance.bits() >> 32) as u32, *count),
            Choice::Weighted(weighted) => weighted.choose(chance),
        }
    }
}

/// An endless source of frames. Once a frame's buffer is large enough, making a frame allocates no
/// memory.
#[derive(Clone, Debug)]
pub struct Generator {
    moulds: Vec<CompiledTemplate>,
    flows: Choice,
    sizes: Choice,
    /// Separate random numbers for flows and lengths: neither selection influences the other.
    flow_chance: Rng,
    size_chance: Rng,
}

impl Generator {
    /// Creates a generator of frames like the templates. If lengths are given, IP and UDP lengths
    /// and all checksums are adjusted. A template's UDP checksum of zero stays zero.
    ///
    /// # Errors
    /// There is no template, flow or length. A frame would be longer than a frame can be, or
    /// shorter than its headers and fields. A template has too few field values for the number of
    /// flows. A field overlaps lengths or checksums.
    pub fn new(
        templates: Vec<Template>,
        flows: Flows,
        sizes: &Sizes,
        seed: u64,
    ) -> Result<Generator, GeneratorError> {
        if templates.is_empty() {
            return Err(GeneratorError::NoTemplate);
        }
        if flows.count == 0 || flows.count > MAX_FLOWS {
            return Err(GeneratorError::FlowCount { count: flows.count });
        }
        let choice = match flows.order {
            Order::InTurn => Choice::InTurn(0, flows.count),
            Order::Zipf { skew } => zipf(skew, flows.count)?,
        };
        let flows_each = flows.count.div_ceil(templates.len()) as u64;
        let (lengths, sizes) = sizes.lengths()?;
        let moulds: Result<Vec<CompiledTemplate>, GeneratorError> = templates
            .into_iter()
            .enumerate()
            .map(|(i, template)| CompiledTemplate::new(i, template, &lengths, flows_each))
            .collect();
        Ok(Generator {
            moulds: moulds?,
            flows: choice,
            sizes,
            flow_chance: Rng::new(seed),
            size_chance: Rng::new(!seed),
        })
    }

    /// Writes the next frame to `frame` and returns its flow number. Ingress port and arrival time
    /// of `frame` do not change.
    #[inline]
    pub fn make(&mut self, frame: &mut Frame) -> usize {
        let flow = self.flows.next(&mut self.flow_chance);
        self.cast(flow, frame);
        flow
    }

    /// Fills `batch` with the next frames, with the given ingress port and arrival time. Returns
    /// the number of frames added.
    pub fn fill(&mut self, batch: &mut Batch, ingress: PortId, now: Nanos) -> usize {
        let room = batch.room();
        let mut flows = [0; Batch::DEFAULT];
        while batch.room() > 0 {
            let n = batch.room().min(flows.len());
            // Select all flows first: cache misses in a large alias table then overlap.
            for flow in &mut flows[..n] {
                *flow = self.flows.next(&mut self.flow_chance);
            }
            for flow in &flows[..n] {
                let Some(frame) = batch.push() else { break };
                self.cast(*flow, frame);
                frame.ingress = ingress;
                frame.arrival = now;
            }
        }
        room
    }

    /// Writes a frame of this flow, with the next length.
    #[inline]
    fn cast(&mut self, flow: usize, frame: &mut Frame) {
        let size = self.sizes.next(&mut self.size_chance);
        let mould = flow % self.moulds.len();
        self.moulds[mould].cast(size, (flow / self.moulds.len()) as u64, frame);
    }
}

fn zipf(skew: f64, count: usize) -> Result<Choice, GeneratorError> {
    if !skew.is_finite() || skew < 0.0 {
        return Err(GeneratorError::Skew { skew });
    }
    if skew == 0.0 {
        return Ok(Choice::Equal(count));
    }
    // Frequent flows must not be neighbors. Consecutive ranks are a fixed stride apart, modulo
    // `count`. The stride is coprime to `count`, so every flow gets exactly one rank.
    let stride = coprime_stride(count);
    let mut weights = vec![0.0; count];
    let mut flow = 0;
    for rank in 1..=count {
        weights[flow] = (rank as f64).powf(-skew);
        flow = (flow + stride) % count;
    }
    Ok(Choice::Weighted(Weighted::new(&weights)))
}

/// Returns a number near `count` divided by the golden ratio that is coprime to `count`.
fn coprime_stride(count: usize) -> usize {
    let near = (count as f64 * 0.618_033_988_749_895) as usize;
    (near.max(1)..)
        .find(|&stride| gcd(stride, count) == 1)
        .unwrap_or(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

//! Frames made up for benches and tests: so many flows, so skewed, of such sizes, the same in every run.

mod error;
mod mould;
mod template;
#[cfg(test)]
mod tests;

pub use error::GeneratorError;
pub use template::{Template, Values};

use crate::chance::{SplitMix, Weighted, scale};
use mould::Mould;
use packet::{Batch, Frame, MAX_FRAME, Nanos, PortId};

/// The most flows: a generator keeps eight bytes for each, if some are more frequent than others.
pub const MAX_FLOWS: usize = 1 << 26;

/// The flows of a workload: frames that differ in the fields that their template lets vary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flows {
    /// How many there are. Flow `i` is of template `i` modulo the number of templates.
    pub count: usize,
    /// Which comes next.
    pub order: Order,
}

/// The order in which flows come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// One after the other, then from the first again.
    InTurn,
    /// By chance, the r-th most frequent flow proportionally to `1 / r^skew` (Zipf's law): with 0 all
    /// are equally likely, around 1 the traffic is as skewed as that of the Internet.
    Zipf {
        /// The exponent, not negative.
        skew: f64,
    },
}

/// The lengths of frames, in bytes, without the frame check sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Every frame is as long as its template, and unchanged but for the fields that vary.
    OfTemplates,
    /// All are of one length.
    Fixed(usize),
    /// Any length from the first to the second is equally likely.
    Between(usize, usize),
    /// Lengths and how often each comes, relative to the others.
    Mix(Vec<(usize, u32)>),
}

impl Sizes {
    /// The Internet mix that testers use: seven short frames and four middling ones for a long one.
    pub fn imix() -> Sizes {
        Sizes::Mix(vec![(60, 7), (590, 4), (1514, 1)])
    }

    /// Each length, and the choice between them.
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

/// How one of several is chosen.
#[derive(Clone, Debug)]
enum Choice {
    /// There is only one.
    Only,
    /// In turn: the next one, of so many.
    InTurn(usize, usize),
    /// All of so many are equally likely.
    Equal(usize),
    /// Some are more likely.
    Weighted(Weighted),
}

impl Choice {
    #[inline]
    fn next(&mut self, chance: &mut SplitMix) -> usize {
        match self {
            Choice::Only => 0,
            Choice::InTurn(next, count) => {
                let this = *next;
                *next = if this + 1 == *count { 0 } else { this + 1 };
                this
            }
            Choice::Equal(count) => scale((chance.draw() >> 32) as u32, *count),
            Choice::Weighted(weighted) => weighted.choose(chance),
        }
    }
}

/// An endless source of frames. Making one allocates nothing, unless it is longer than any before.
#[derive(Clone, Debug)]
pub struct Generator {
    moulds: Vec<Mould>,
    flows: Choice,
    sizes: Choice,
    /// What chooses flows, and what chooses lengths: neither changes the other's choices.
    flow_chance: SplitMix,
    size_chance: SplitMix,
}

impl Generator {
    /// A generator of frames like the templates. Where lengths are given, IP and UDP lengths and all
    /// checksums fit them; a UDP checksum that the template leaves out stays out.
    ///
    /// # Errors
    /// There is no template, flow or length; a template is longer than a length or has too few values
    /// in its fields for so many different flows; a field is where there are lengths or checksums.
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
        let moulds: Result<Vec<Mould>, GeneratorError> = templates
            .into_iter()
            .enumerate()
            .map(|(i, template)| Mould::new(i, template, &lengths, flows_each))
            .collect();
        Ok(Generator {
            moulds: moulds?,
            flows: choice,
            sizes,
            flow_chance: SplitMix::new(seed),
            size_chance: SplitMix::new(!seed),
        })
    }

    /// Makes the next frame, its port and time as they were; the number of its flow.
    #[inline]
    pub fn make(&mut self, frame: &mut Frame) -> usize {
        let flow = self.flows.next(&mut self.flow_chance);
        self.cast(flow, frame);
        flow
    }

    /// Fills the room that `batch` has with the next frames as if they had arrived on `ingress` at `now`;
    /// how many.
    pub fn fill(&mut self, batch: &mut Batch, ingress: PortId, now: Nanos) -> usize {
        let room = batch.room();
        let mut flows = [0; Batch::USUAL];
        while batch.room() > 0 {
            let n = batch.room().min(flows.len());
            // All first: the processor then waits for several places of a large table at once.
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

    /// Makes a frame of the flow, of the next length.
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
    // Frequent flows are no neighbours: from rank to rank the number goes up by a stride, around the end,
    // which meets every number once as it has no factor in common with their count.
    let stride = coprime_stride(count);
    let mut weights = vec![0.0; count];
    let mut flow = 0;
    for rank in 1..=count {
        weights[flow] = (rank as f64).powf(-skew);
        flow = (flow + stride) % count;
    }
    Ok(Choice::Weighted(Weighted::new(&weights)))
}

/// A number near `count` divided by the golden ratio that has no factor in common with `count`.
fn coprime_stride(count: usize) -> usize {
    let near = (count as f64 * 0.618_033_988_749_895) as usize;
    (near.max(1)..)
        .find(|&stride| gcd(stride, count) == 1)
        .unwrap_or(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

//! The place before the software of one thread: the model NIC, if there is one, and the sample of
//! the frames for the offloader.

use offload::Target;
use offload::model::{ModelConfig, ModelNic};
use packet::{Nanos, PortId};
use parking_lot::FairMutexGuard;

use crate::driver::OffloadOptions;
use crate::model_nic::SharedNic;
use crate::sampling::{SampleReader, Sampler, samples};

/// Offload of a device: its settings and its target.
pub struct OffloadSetup {
    /// Settings.
    pub options: OffloadOptions,
    /// Target of the rules.
    pub target: Box<dyn Target + Send>,
    /// The target, if it is the model NIC: it gets frames before the software.
    pub nic: Option<SharedNic>,
    /// Ports of controllers: their frames do not pass the NIC.
    pub controller_ports: Vec<PortId>,
}

impl OffloadSetup {
    /// Returns the setup of a model NIC.
    pub fn model(options: OffloadOptions, config: ModelConfig) -> OffloadSetup {
        let nic = SharedNic::new(config);
        OffloadSetup {
            options,
            target: Box::new(nic.clone()),
            nic: Some(nic),
            controller_ports: Vec::new(),
        }
    }

    /// Returns a front for each of some threads, with the readers of their samples.
    pub fn fronts(&self, threads: usize) -> (Vec<NicFront>, Vec<SampleReader>) {
        let seeds = 1..=threads as u64;
        seeds
            .map(|seed| {
                let (sampler, reader) = samples(seed);
                let front = NicFront {
                    nic: self.nic.clone(),
                    controller_ports: self.controller_ports.clone(),
                    sampler,
                    next_sample: Nanos::ZERO,
                    taken: 0,
                };
                (front, reader)
            })
            .unzip()
    }
}

/// Time between two samples.
const SAMPLE_EVERY: Nanos = Nanos::from_millis(10);

/// The place before the software of one thread.
#[derive(Debug)]
pub struct NicFront {
    nic: Option<SharedNic>,
    controller_ports: Vec<PortId>,
    sampler: Sampler,
    next_sample: Nanos,
    taken: u64,
}

/// A burst of frames at a front. The model NIC is locked as long as it exists.
pub struct FrontBurst<'f> {
    now: Nanos,
    nic: Option<FairMutexGuard<'f, ModelNic>>,
    controller_ports: &'f [PortId],
    sampler: &'f mut Sampler,
    taken: &'f mut u64,
}

impl NicFront {
    /// Begins a burst. Call it also now and then without frames: samples are handed over here.
    #[inline]
    pub fn begin(&mut self, now: Nanos) -> FrontBurst<'_> {
        if now >= self.next_sample {
            self.next_sample = now + SAMPLE_EVERY;
            self.sampler.hand_over();
        }
        FrontBurst {
            now,
            nic: self.nic.as_ref().map(SharedNic::lock),
            controller_ports: &self.controller_ports,
            sampler: &mut self.sampler,
            taken: &mut self.taken,
        }
    }

    /// Returns the number of packets that rules of the model NIC have taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

impl FrontBurst<'_> {
    /// Gives a frame to the NIC. Returns true if one of its rules takes the frame: what leaves is
    /// passed to `send`, and the software must not get the frame.
    #[inline]
    pub fn takes(
        &mut self,
        ingress: PortId,
        frame: &[u8],
        mut send: impl FnMut(PortId, &[u8]),
    ) -> bool {
        if self.controller_ports.contains(&ingress) {
            return false;
        }
        if let Some(nic) = &mut self.nic
            && let Some(sent) = nic.process(self.now, ingress, frame)
        {
            *self.taken += 1;
            sent.iter().for_each(|(port, bytes)| send(*port, bytes));
            return true;
        }
        self.sampler.note(ingress, frame);
        false
    }
}

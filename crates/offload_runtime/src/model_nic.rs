//! The model NIC between the packet path and the thread of the offloader.

use std::sync::Arc;

use offload::model::{ModelConfig, ModelNic};
use offload::{Flow, NotOffloadable, RuleCapacity, RuleId, Target, TargetEvent};
use packet::Nanos;
use parking_lot::{FairMutex, FairMutexGuard};

/// A model NIC that threads share: those of the packet path give it frames, that of the offloader
/// rules.
#[derive(Clone, Debug)]
pub struct SharedNic {
    /// Fair: the packet path locks it again at once, and the offloader would get it by chance only.
    nic: Arc<FairMutex<ModelNic>>,
    config: Arc<ModelConfig>,
    delay: Nanos,
}

impl SharedNic {
    /// Creates a NIC without rules.
    pub fn new(config: ModelConfig) -> SharedNic {
        let nic = ModelNic::new(config.clone());
        SharedNic {
            delay: nic.counts_delay(),
            nic: Arc::new(FairMutex::new(nic)),
            config: Arc::new(config),
        }
    }

    pub(crate) fn lock(&self) -> FairMutexGuard<'_, ModelNic> {
        self.nic.lock()
    }
}

impl Target for SharedNic {
    fn name(&self) -> &str {
        "model"
    }

    fn capacity(&self) -> RuleCapacity {
        self.lock().capacity()
    }

    fn counts_delay(&self) -> Nanos {
        self.delay
    }

    fn can(&self, flow: &Flow) -> Result<(), NotOffloadable> {
        // Asked for each flow of a change: it does not wait for the packet path.
        self.config.can(flow)
    }

    fn add(&mut self, now: Nanos, rules: Vec<(RuleId, Arc<Flow>)>) {
        self.lock().add(now, rules);
    }

    fn replace(&mut self, now: Nanos, rules: Vec<(RuleId, RuleId, Arc<Flow>)>) {
        self.lock().replace(now, rules);
    }

    fn remove(&mut self, now: Nanos, rules: &[RuleId]) {
        self.lock().remove(now, rules);
    }

    fn read(&mut self, now: Nanos, rules: &[RuleId]) {
        self.lock().read(now, rules);
    }

    fn poll(&mut self, now: Nanos, events: &mut Vec<TargetEvent>) {
        self.lock().poll(now, events);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.lock().next_time()
    }
}

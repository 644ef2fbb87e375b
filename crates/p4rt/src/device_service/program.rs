//! Sets and returns the program of a device.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ir::Program;
use p4info::p4::v1 as rt;
use p4info::p4::v1::ForwardingPipelineConfig;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use switch::{AdoptError, Device, MayLose, MigrationMode};
use tokio::sync::oneshot;
use tonic::Code;

use super::{DeviceService, Purpose};
use crate::caller::Caller;
use crate::controller_state::ControllerState;
use crate::notes;
use crate::pending_commits;
use crate::pipeline::{self, Config, Pipeline, Saved, StagedDevice, lock};
use crate::request_error::{Checked, RequestError, invalid, refuse};

impl DeviceService {
    /// Sets the program. State is carried over except for the objects in `may_lose`, if the action
    /// keeps state.
    pub(crate) async fn set_config(
        &self,
        request: rt::SetForwardingPipelineConfigRequest,
        may_lose: MayLose,
        caller: &Caller,
    ) -> Checked {
        let (action, begin) = (request.action(), Instant::now());
        let set = self.try_set_config(request, may_lose, caller).await;
        if set.is_ok() {
            self.cells.configs.add(1);
        }
        self.lines.configured(action, &set, begin.elapsed());
        set
    }

    async fn try_set_config(
        &self,
        request: rt::SetForwardingPipelineConfigRequest,
        may_lose: MayLose,
        caller: &Caller,
    ) -> Checked {
        self.check_primary(&request.role, request.election_id.as_ref())?;
        let action = request.action();
        let (role, election) = (request.role, request.election_id);
        match (action, request.config) {
            (Action::Unspecified, _) => invalid("the action is not set"),
            (Action::Commit, Some(_)) => {
                invalid("COMMIT takes no config: it commits the saved one")
            }
            (Action::Commit, None) => {
                let mut pipeline = self.pipeline.write().await;
                self.check_primary(&role, election.as_ref())?;
                self.commit(&mut pipeline).await
            }
            (_, None) => invalid("the config is not set"),
            (action, Some(config)) => {
                let purpose = match action {
                    Action::Verify => Purpose::Verify,
                    _ => Purpose::Run,
                };
                let (config, device) = self.build(config, purpose, caller).await?;
                let mut pipeline = self.pipeline.write().await;
                // Another controller may have become primary in the meantime.
                self.check_primary(&role, election.as_ref())?;
                match action {
                    Action::ReconcileAndCommit => {
                        self.reconcile(&mut pipeline, config, device, may_lose)
                            .await
                    }
                    action => self.put(&mut pipeline, action, config, device).await,
                }
            }
        }
    }

    async fn build(
        &self,
        config: ForwardingPipelineConfig,
        purpose: Purpose,
        caller: &Caller,
    ) -> Checked<(Config, Device)> {
        let loader = Arc::clone(&self.loader);
        let leave = loader.admit(config.p4_device_config.len())?;
        // The permit is released when the work ends, even if the call has ended before.
        let weak = Arc::downgrade(&leave);
        caller.when_gone(move || {
            if let Some(leave) = weak.upgrade() {
                leave.cancel();
            }
        });
        let built = tokio::task::spawn_blocking(move || {
            let (mut config, mut built) = (Some(config), None);
            leave.run(&mut || {
                let config = config.take();
                built = config.map(|config| pipeline::build(&*loader, config, purpose));
            })?;
            built.unwrap_or_else(|| refuse(Code::Internal, "the program was not made"))
        });
        built
            .await
            .unwrap_or_else(|_| refuse(Code::Internal, "the compiler failed on this program"))
    }

    async fn put(
        &self,
        pipeline: &mut Pipeline,
        action: Action,
        config: Config,
        mut device: Device,
    ) -> Checked {
        match action {
            Action::VerifyAndSave => {
                // Idle timeouts of entries written from now on must use the running device's time.
                let now = self.remote.ask(|running| running.now()).await?;
                device.step(now);
                let extras = ControllerState {
                    down: lock(&self.extras).down.clone(),
                    ..ControllerState::default()
                };
                let apart = StagedDevice {
                    device,
                    extras,
                    begin: (Instant::now(), now),
                };
                let apart = Arc::new(Mutex::new(apart));
                pipeline.saved = Some(Saved { config, apart });
            }
            Action::VerifyAndCommit => {
                self.adopt(
                    device,
                    MigrationMode::Nothing,
                    &config,
                    ControllerState::cleared,
                )
                .await?;
                pipeline.saved = None;
                self.now_runs(pipeline, config);
            }
            Action::Verify | Action::Commit | Action::ReconcileAndCommit | Action::Unspecified => {}
        }
        Ok(())
    }

    /// Runs a program with the state of the running one (section "`SetForwardingPipelineConfig`
    /// RPC", `RECONCILE_AND_COMMIT`).
    async fn reconcile(
        &self,
        pipeline: &mut Pipeline,
        mut config: Config,
        device: Device,
        may_lose: MayLose,
    ) -> Checked {
        let running = pipeline.running.as_ref();
        let before = running.map(|config| Arc::clone(&config.schema));
        if let (Some(before), Some(after)) = (&before, Arc::get_mut(&mut config.schema)) {
            after.names = Arc::clone(&before.names);
        }
        let after = Arc::clone(&config.schema);
        let carry = MigrationMode::State(may_lose);
        self.adopt(device, carry, &config, move |extras| match before {
            Some(before) => extras.moved(&before.program, &after.program),
            None => extras.cleared(),
        })
        .await?;
        pipeline.saved = None;
        self.now_runs(pipeline, config);
        Ok(())
    }

    /// Replaces the running device by a new one.
    async fn adopt(
        &self,
        device: Device,
        carry: MigrationMode,
        config: &Config,
        extras: impl FnOnce(ControllerState) -> ControllerState + Send + 'static,
    ) -> Checked {
        let adopted = self.try_adopt(device, carry, config, extras).await?;
        adopted.map_err(|(fault, _)| fault)
    }

    /// Notes the config that runs from now on.
    fn now_runs(&self, pipeline: &mut Pipeline, config: Config) {
        self.program_changed(&config.schema);
        pipeline.running = Some(config);
    }

    async fn commit(&self, pipeline: &mut Pipeline) -> Checked {
        let Some(Saved { config, apart }) = pipeline.saved.take() else {
            return refuse(
                Code::NotFound,
                "no config is saved; save one first (VERIFY_AND_SAVE)",
            );
        };
        // This is the only reference: reads and writes hold the lock that is held here.
        let Some(StagedDevice {
            device,
            extras,
            begin,
        }) = Arc::into_inner(apart).map(|apart| {
            apart
                .into_inner()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        })
        else {
            return refuse(Code::Internal, "the saved config is in use");
        };
        let own = extras.clone();
        let committed = self.try_adopt(device, MigrationMode::Nothing, &config, move |_| own);
        match committed.await? {
            Ok(()) => {
                self.now_runs(pipeline, config);
                Ok(())
            }
            Err((fault, device)) => {
                // The staged device keeps what was written to it, so that it can be committed
                // again.
                let apart = StagedDevice {
                    device,
                    extras,
                    begin,
                };
                let apart = Arc::new(Mutex::new(apart));
                pipeline.saved = Some(Saved { config, apart });
                Err(fault)
            }
        }
    }

    /// Replaces the running device and the controller data. If state is kept, packets see the new
    /// device only when it is on the disk. If storing fails, the old device is restored.
    async fn try_adopt(
        &self,
        device: Device,
        carry: MigrationMode,
        config: &Config,
        extras: impl FnOnce(ControllerState) -> ControllerState + Send + 'static,
    ) -> Checked<Result<(), (RequestError, Device)>> {
        let (kept, unkept, config) = (
            Arc::clone(&self.extras),
            Arc::clone(&self.unkept),
            config.clone(),
        );
        let loader = Arc::clone(&self.loader);
        let adopted = self.remote.ask(move |running| {
            let (mut other, mut kept) = (Box::new(device), lock(&kept));
            let exchange = running.exchange(&mut other, carry)?;
            let before = (kept.clone(), running.notes().clone());
            *kept = extras(std::mem::take(&mut kept));
            kept.forget_lost(running);
            // The exchange is undone as a whole, so its single changes are not needed. Object ids
            // were different before.
            kept.take_changes();
            if !running.is_kept() {
                running.publish();
                return Ok((other, exchange, before, None));
            }
            let more = loader.notes(running.program(), running.notes());
            notes::renew(running, &config, &kept, more);
            let names = &config.schema.names;
            let waiting = pending_commits::commit(running, &mut kept, names, Vec::new(), &unkept);
            Ok((other, exchange, before, waiting))
        });
        let adopted: Result<_, AdoptError> = adopted.await?;
        let (mut other, exchange, (extras, notes), waiting) =
            adopted.or_else(|refused| invalid(pipeline::told(&refused)))?;
        if let Some(waiting) = waiting {
            if let Err(fault) = pending_commits::check(waiting.await) {
                let (kept, unkept) = (Arc::clone(&self.extras), Arc::clone(&self.unkept));
                let taken_back = self.remote.ask(move |running| {
                    running.go_back(&mut other, exchange);
                    let mut kept = lock(&kept);
                    *kept = extras;
                    notes::put_back(running, notes);
                    pending_commits::take_back(running, &mut kept, &unkept);
                    *other
                });
                return Ok(Err((fault, taken_back.await?)));
            }
            self.remote.ask(Device::stay).await?;
        }
        // Dropping the old device may take long.
        tokio::task::spawn_blocking(move || drop(other));
        lock(&self.digests).clear();
        Ok(Ok(()))
    }

    /// Returns the config of a program that no controller has set.
    ///
    /// # Errors
    /// The program has no P4Info.
    pub(crate) fn config_of(&self, program: Arc<Program>) -> Checked<Config> {
        pipeline::config(program, ForwardingPipelineConfig::default(), &*self.loader)
    }

    /// Holds requests of controllers until `outcome` has a value: true if the device was changed
    /// meanwhile, and runs the program of `config`, if there is one. `begin` is called when no
    /// request is in progress.
    pub(crate) async fn hold(
        &self,
        config: Option<Config>,
        begin: impl FnOnce() + Send,
        outcome: oneshot::Receiver<bool>,
    ) {
        let mut pipeline = self.pipeline.write().await;
        begin();
        if !outcome.await.unwrap_or(false) {
            return;
        }
        let before = pipeline.running.as_ref();
        let before = before.map(|config| Arc::clone(&config.schema));
        let mut config = config;
        if let (Some(before), Some(after)) = (&before, &mut config)
            && let Some(schema) = Arc::get_mut(&mut after.schema)
        {
            schema.names = Arc::clone(&before.names);
        }
        {
            let mut extras = lock(&self.extras);
            let own = std::mem::take(&mut *extras);
            let own = match (&before, &config) {
                (Some(before), Some(after)) => own.moved(&before.program, &after.schema.program),
                _ => own,
            };
            *extras = own.of_files();
            // The notes of the device were changed with it.
            extras.take_changes();
        }
        let Some(config) = config else {
            return;
        };
        pipeline.saved = None;
        self.now_runs(&mut pipeline, config);
        lock(&self.digests).clear();
    }

    /// Returns the program's config, as it was set.
    pub(crate) async fn config(&self) -> Option<ForwardingPipelineConfig> {
        let pipeline = self.pipeline.read().await;
        let config = pipeline.current().ok()?.0;
        Some(config.message.clone())
    }
}

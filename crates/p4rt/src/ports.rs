//! The service by which controllers watch the ports of a device, and operators change them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use p4info::polyplane::ports::v1 as wire;
use p4info::polyplane::ports::v1::change_request::Change;
use packet::PortId;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::control::PortAction;
use crate::incoming::Peer;
use crate::request_error::refuse;
use crate::server::Sites;
use crate::service::ports::ports_server::Ports;

/// Capacity of the message queue of a watcher. Changes that do not fit are merged into one later
/// message.
const MAX_MESSAGES: usize = 4;

/// State of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    name: String,
    is_up: bool,
}

/// The ports of a device that groups may watch, shared with the loop that has them.
#[derive(Clone, Debug, Default)]
pub struct KnownPorts(Arc<RwLock<BTreeSet<PortId>>>);

impl KnownPorts {
    /// Adds a port. A port that is removed later stays known, and is down.
    pub fn insert(&self, port: PortId) {
        let mut ports = self.0.write().unwrap_or_else(PoisonError::into_inner);
        ports.insert(port);
    }

    pub(crate) fn contains(&self, port: PortId) -> bool {
        let ports = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ports.contains(&port)
    }
}

impl FromIterator<PortId> for KnownPorts {
    fn from_iter<I: IntoIterator<Item = PortId>>(ports: I) -> KnownPorts {
        KnownPorts(Arc::new(RwLock::new(ports.into_iter().collect())))
    }
}

type States = BTreeMap<PortId, PortState>;

/// States of a device's ports, with a watch channel for subscribers.
pub(crate) struct PortStates(watch::Sender<Option<States>>);

impl PortStates {
    /// Creates the states of these ports. They are up until reported otherwise.
    pub(crate) fn new(ports: Vec<(PortId, String)>) -> PortStates {
        let state = |(port, name)| (port, PortState { name, is_up: true });
        let states = ports.into_iter().map(state).collect();
        PortStates(watch::Sender::new(Some(states)))
    }

    /// Sets the state of a port. An unknown port is added without a name.
    pub(crate) fn set(&self, port: PortId, is_up: bool) {
        self.0.send_if_modified(|states| {
            let Some(states) = states else { return false };
            let state = states.entry(port);
            let before = state.or_insert_with(|| PortState {
                name: String::new(),
                is_up: !is_up,
            });
            std::mem::replace(&mut before.is_up, is_up) != is_up
        });
    }

    /// Adds a port, or gives it another name.
    pub(crate) fn add(&self, port: PortId, name: String, is_up: bool) {
        self.0.send_modify(|states| {
            if let Some(states) = states {
                states.insert(port, PortState { name, is_up });
            }
        });
    }

    /// Removes a port.
    pub(crate) fn remove(&self, port: PortId) {
        self.0.send_modify(|states| {
            if let Some(states) = states {
                states.remove(&port);
            }
        });
    }

    /// Ends the calls of all watchers, because the device is removed.
    pub(crate) fn close(&self) {
        self.0.send_replace(None);
    }

    /// Completes when the device is removed.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(Option::is_none).await;
    }

    fn watch(&self) -> watch::Receiver<Option<States>> {
        let mut states = self.0.subscribe();
        states.mark_changed();
        states
    }
}

/// Returns the states that differ from earlier ones.
fn changed(before: &States, now: &States) -> wire::PortStates {
    let differs = |(port, state): &(&PortId, &PortState)| before.get(port) != Some(state);
    let wire = |(port, state): (&PortId, &PortState)| wire::PortState {
        port: port.0,
        name: state.name.clone(),
        is_up: state.is_up,
    };
    wire::PortStates {
        ports: now.iter().filter(differs).map(wire).collect(),
        removed: before
            .keys()
            .filter(|port| !now.contains_key(port))
            .map(|port| port.0)
            .collect(),
    }
}

type Answers = mpsc::Sender<Result<wire::PortStates, Status>>;

/// Sends states to a watcher until it disconnects or the device is removed.
async fn pass_on(mut states: watch::Receiver<Option<States>>, answers: Answers) {
    let mut before = None;
    loop {
        let news = tokio::select! {
            news = states.changed() => news,
            () = answers.closed() => return,
        };
        let now = news.ok().and_then(|()| states.borrow_and_update().clone());
        let Some(now) = now else {
            let gone = Status::unavailable("the device is served no more");
            // The client may have gone.
            let _ = answers.send(Err(gone)).await;
            return;
        };
        let message = changed(before.as_ref().unwrap_or(&States::new()), &now);
        // The first message is sent even if the device has no ports.
        let is_empty = message.ports.is_empty() && message.removed.is_empty();
        let is_news = before.is_none() || !is_empty;
        if is_news && answers.send(Ok(message)).await.is_err() {
            return;
        }
        before = Some(now);
    }
}

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
}

#[tonic::async_trait]
impl Ports for Service {
    type WatchStream = ReceiverStream<Result<wire::PortStates, Status>>;

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let peer = Peer::of(&request)?.clone();
        let device = request.into_inner().device_id;
        // Any permission at the device includes the state of its ports.
        self.sites.permit(device, &peer, |_| Ok(()))?;
        let site = self.sites.find(device)?;
        let (answers, messages) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(pass_on(site.ports.watch(), answers));
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn list(
        &self,
        request: Request<wire::ListRequest>,
    ) -> Result<Response<wire::ListResponse>, Status> {
        let peer = Peer::of(&request)?.clone();
        let device = request.into_inner().device_id;
        self.sites.permit(device, &peer, |_| Ok(()))?;
        let site = self.sites.find(device)?;
        let listed = site.ask_ports(PortAction::List).await?;
        Ok(Response::new(listed))
    }

    async fn change(
        &self,
        request: Request<wire::ChangeRequest>,
    ) -> Result<Response<wire::ChangeResponse>, Status> {
        let peer = Peer::of(&request)?.clone();
        let wire::ChangeRequest { device_id, change } = request.into_inner();
        // The ports belong to all roles.
        self.sites
            .permit(device_id, &peer, |rights| rights.check_role(""))?;
        let site = self.sites.find(device_id)?;
        let action = match change {
            Some(Change::Add(spec)) => PortAction::Add(spec),
            Some(Change::Remove(port)) => PortAction::Remove(PortId(port)),
            Some(Change::Reopen(port)) => PortAction::Reopen(PortId(port)),
            None => return Err(Status::invalid_argument("the request has no change")),
        };
        // The change is completed even if the client disconnects.
        let changed = tokio::spawn(async move { site.ask_ports(action).await });
        let changed = changed.await;
        let mut changed = changed
            .unwrap_or_else(|_| refuse(Code::Internal, "the server failed on this request"))?;
        let port = changed.ports.pop();
        Ok(Response::new(wire::ChangeResponse { port }))
    }
}

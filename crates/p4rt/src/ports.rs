//! The service by which controllers watch the ports of a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use p4info::polyplane::ports::v1 as wire;
use packet::PortId;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::incoming::Peer;
use crate::server::Sites;
use crate::service::ports::ports_server::Ports;

/// Messages that wait for who watches; what changes meanwhile is one message after them.
const MOST_MESSAGES: usize = 4;

/// The state of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    name: String,
    is_up: bool,
}

type States = BTreeMap<PortId, PortState>;

/// The states of a device's ports, with those who watch them.
pub(crate) struct PortBoard(watch::Sender<Option<States>>);

impl PortBoard {
    /// The board of these ports, which are up until something else is said.
    pub(crate) fn new(ports: Vec<(PortId, String)>) -> PortBoard {
        let state = |(port, name)| (port, PortState { name, is_up: true });
        let states = ports.into_iter().map(state).collect();
        PortBoard(watch::Sender::new(Some(states)))
    }

    /// Takes the new state of a port; one that was not there is added, without a name.
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

    /// Ends the calls of all who watch: the device is served no more.
    pub(crate) fn close(&self) {
        self.0.send_replace(None);
    }

    fn watch(&self) -> watch::Receiver<Option<States>> {
        let mut states = self.0.subscribe();
        states.mark_changed();
        states
    }
}

/// The states that differ from those before.
fn changed(before: &States, now: &States) -> wire::PortStates {
    let differs = |(port, state): &(&PortId, &PortState)| before.get(port) != Some(state);
    let wire = |(port, state): (&PortId, &PortState)| wire::PortState {
        port: port.0,
        name: state.name.clone(),
        is_up: state.is_up,
    };
    wire::PortStates {
        ports: now.iter().filter(differs).map(wire).collect(),
    }
}

type Answers = mpsc::Sender<Result<wire::PortStates, Status>>;

/// Sends states to who watches, until it goes or the device does.
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
            // Who has gone does not hear it.
            let _ = answers.send(Err(gone)).await;
            return;
        };
        let message = changed(before.as_ref().unwrap_or(&States::new()), &now);
        // The first one is sent for a device without ports, too.
        let is_news = before.is_none() || !message.ports.is_empty();
        if is_news && answers.send(Ok(message)).await.is_err() {
            return;
        }
        before = Some(now);
    }
}

/// The service.
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
        // Whatever a client may do at the device, it may know of its ports.
        self.sites.permit(device, &peer, |_| Ok(()))?;
        let site = self.sites.find(device)?;
        let (answers, messages) = mpsc::channel(MOST_MESSAGES);
        tokio::spawn(pass_on(site.ports.watch(), answers));
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

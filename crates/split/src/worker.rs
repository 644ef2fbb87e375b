//! One worker of a switch: gives requests to servers, checks responses, and holds requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use placement::ServerId;
use placement::hash::RowHashes;

use crate::gate::{GateId, HeldRequest, MAX_HELD};
use crate::requests::{CutOfRequests, NO_FLOW, Requests, SeenRequest};
use crate::view::ViewReader;

/// Worker of a switch.
#[derive(Debug)]
pub struct SwitchWorker {
    requests: Arc<Requests>,
    reader: ViewReader,
    held: VecDeque<HeldRequest>,
    /// Buffers that take the place of held frames.
    spares: Vec<Frame>,
    /// Number of the cut and key of a request.
    tagged: Vec<u8>,
    now: Nanos,
}

impl SwitchWorker {
    /// Adds a worker to a switch.
    pub fn new(requests: Arc<Requests>) -> SwitchWorker {
        SwitchWorker {
            reader: requests.versions.reader(),
            requests,
            held: VecDeque::new(),
            spares: Vec::new(),
            tagged: Vec::new(),
            now: Nanos(0),
        }
    }

    /// Returns the requests of all workers.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Begins a burst. Appends the held requests that go on now to `before`, as responses: the
    /// device gets them before all other frames of the burst.
    pub fn begin(&mut self, now: Nanos, before: &mut Vec<Frame>) {
        self.now = now;
        self.reader.begin(&self.requests.versions);
        if self.held.is_empty() {
            return;
        }
        let gates = &self.reader.view.gates;
        for _ in 0..self.held.len() {
            let Some(mut held) = self.held.pop_front() else {
                break;
            };
            let stays = gates
                .iter()
                .any(|gate| gate.id == held.gate && !gate.is_ready);
            if stays {
                self.held.push_back(held);
                continue;
            }
            let cut = self.requests.wire().point(&held.frame);
            let resume = cut_of(&self.requests, cut).map_or(0, |cut| cut.resume);
            self.requests.wire().turn_back(&mut held.frame, resume);
            self.requests.held.fetch_sub(1, Relaxed);
            before.push(held.frame);
        }
    }

    /// Ends a burst. `before` are the frames of [`SwitchWorker::begin`], of which the buffers are
    /// used again.
    pub fn end(&mut self, before: impl IntoIterator<Item = Frame>) {
        self.spares.extend(before);
        self.spares.truncate(MAX_HELD);
        self.reader.end();
    }

    /// Returns true if a held request goes on in the next burst.
    pub fn has_ready(&self) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let gates = &self.requests.versions.current().gates;
        let stays = |held: &HeldRequest| {
            let mut gates = gates.iter();
            gates.any(|gate| gate.id == held.gate && !gate.is_ready)
        };
        !self.held.iter().all(stays)
    }

    /// Returns the number of requests that this worker holds.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Checks a received frame: a response of a server, or a frame of a port without a server.
    ///
    /// # Errors
    /// The reason to drop it.
    pub fn check(&self, frame: &Frame) -> Result<(), DropReason> {
        self.requests.check(&self.reader.view, frame)
    }

    /// Completes a request and returns the port of its server, or takes the frame and returns
    /// `None`: the switch holds it.
    ///
    /// # Errors
    /// The reason to drop it.
    pub fn address(
        &mut self,
        frame: &mut Frame,
    ) -> Result<Option<(PortId, SeenRequest)>, DropReason> {
        let requests = Arc::clone(&self.requests);
        let wire = requests.wire();
        let cut = wire.point(frame);
        let width = cut_of(&requests, cut).map_or(0, |cut| cut.key_width);
        self.tagged.clear();
        self.tagged.extend_from_slice(&cut.to_be_bytes());
        wire.append_key(frame, width, &mut self.tagged);
        let mut gates = self.reader.view.gates.iter();
        let gate = gates.find(|gate| gate.holds(cut, &self.tagged[2..]));
        let flow = wire.flow(frame);
        let gate = gate.map(|gate| gate.id);
        if let Some(gate) = gate.or_else(|| self.gate_ahead(cut, flow)) {
            return self.hold(gate, cut, flow, frame);
        }
        let server = match self.owner(cut, frame) {
            Some(owner) => {
                // Its server finds it again without a place in the group.
                wire.set_flow(frame, NO_FLOW);
                owner
            }
            None => {
                let flow = match flow {
                    NO_FLOW => 1,
                    flow => flow,
                };
                wire.set_flow(frame, flow);
                self.server(&flow.to_be_bytes())?
            }
        };
        let view = &self.reader.view;
        if view.down.contains(&server) {
            return Err(requests.reasons.server_down);
        }
        let mut servers = view.servers.iter();
        let Some(port) = servers.find(|known| known.server == server) else {
            return Err(requests.reasons.no_server);
        };
        if let Some(flights) = &view.flights {
            flights.count(cut, &self.tagged);
        }
        let hash = RowHashes::new(&self.tagged).next_row();
        requests.number(frame, server, hash, self.now);
        Ok(Some((port.port, SeenRequest { cut, server })))
    }

    /// Returns the server that has leased the value of a request, if it can be reached.
    fn owner(&self, cut: u16, frame: &Frame) -> Option<ServerId> {
        let view = &self.reader.view;
        let at = usize::from(cut).checked_sub(1)?;
        let owners = view.owners.get(at)?.as_ref()?;
        let owner = owners.owner(self.requests.wire().owned_value(frame))?;
        view.is_reachable(owner).then_some(owner)
    }

    fn server(&mut self, flow: &[u8]) -> Result<ServerId, DropReason> {
        let no_server = self.requests.reasons.no_server;
        let group = self.reader.view.group.as_ref().ok_or(no_server)?;
        let route = group.route(flow);
        if !route.needs_pin {
            return Ok(route.server);
        }
        // The control thread may wait for this worker while it has the lock.
        self.reader.end();
        let server = self.requests.pin_packet(flow);
        self.reader.begin(&self.requests.versions);
        server.ok_or(no_server)
    }

    /// Returns the gate of a held request of this flow at a later cut. A server would take a
    /// request from this cut past the later one, while the held request may still have to go to
    /// a server.
    fn gate_ahead(&self, cut: u16, flow: u32) -> Option<GateId> {
        let mut held = self.held.iter();
        let ahead = held.find(|held| held.flow == flow && held.cut > cut)?;
        Some(ahead.gate)
    }

    fn hold(
        &mut self,
        gate: GateId,
        cut: u16,
        flow: u32,
        frame: &mut Frame,
    ) -> Result<Option<(PortId, SeenRequest)>, DropReason> {
        if self.held.len() >= MAX_HELD {
            return Err(self.requests.reasons.too_many_held);
        }
        let spare = self.spares.pop().unwrap_or_else(Frame::without_buffer);
        let mut frame = std::mem::replace(frame, spare);
        if let Some(server) = self.reader.view.servers.first() {
            frame.ingress = server.port;
        }
        self.held.push_back(HeldRequest {
            gate,
            cut,
            flow,
            frame,
        });
        self.requests.held.fetch_add(1, Relaxed);
        Ok(None)
    }
}

fn cut_of(requests: &Requests, cut: u16) -> Option<&CutOfRequests> {
    let at = usize::from(cut).checked_sub(1)?;
    requests.cuts.get(at)
}

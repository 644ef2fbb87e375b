//! The halves on two cores: the switch half on one thread, the server half on another. Frames
//! between them pass by channels, in bursts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use switch::PacketProcessor;

use super::halves::Halves;
use crate::measure::Traffic;

/// Frames of a burst.
const BURST: usize = 64;

/// Bursts on their way to the server. More wait at the switch, which then takes no new packets.
const IN_FLIGHT: usize = 16;

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threads {
    /// Million packets per second that left the switch.
    pub mpps: f64,
    /// Share of packets that no server saw.
    pub share_in_switch: f64,
}

/// Runs the halves for about this time. Only the first server gets requests of the switch, so the
/// halves must have one server.
///
/// # Errors
/// A thread ended early.
pub fn run(
    halves: &mut Halves,
    traffic: &dyn Traffic,
    seed: u64,
    time: Duration,
) -> Result<Threads, String> {
    let (to_server, requests) = sync_channel::<Vec<Frame>>(IN_FLIGHT);
    let (to_switch, responses) = sync_channel::<Vec<Frame>>(IN_FLIGHT + 2);
    let stop = AtomicBool::new(false);
    let server_port = halves.server_port();
    let (switch, server) = halves.parts();
    let start = halves_time();
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            #[cfg(target_os = "linux")]
            let _ = port::pin_to_core(1);
            serve(server, &requests, &to_switch, server_port, start);
        });
        let handle = scope.spawn(move || {
            #[cfg(target_os = "linux")]
            let _ = port::pin_to_core(0);
            let mut loop_ = SwitchLoop {
                switch,
                to_server,
                responses: &responses,
                server_port,
                spares: Vec::new(),
                in_flight: 0,
                sent: 0,
                received: 0,
                requests: 0,
                start,
            };
            loop_.run(traffic, seed, time, stop)
        });
        handle
            .join()
            .unwrap_or_else(|_| Err("the switch's thread ended early".to_owned()))
    })
}

fn halves_time() -> Instant {
    Instant::now()
}

fn now(start: Instant) -> Nanos {
    // Later than all that was forwarded before the measurement.
    Nanos(1_000_000_000_000 + start.elapsed().as_nanos() as u64)
}

fn serve(
    server: &mut impl PacketProcessor,
    requests: &Receiver<Vec<Frame>>,
    to_switch: &SyncSender<Vec<Frame>>,
    server_port: PortId,
    start: Instant,
) {
    while let Ok(mut burst) = requests.recv() {
        let mut answered = Vec::with_capacity(burst.len());
        server.forward(&mut burst, now(start), |_, frame, _| {
            let mut response = std::mem::replace(frame, Frame::without_buffer());
            response.ingress = server_port;
            answered.push(response);
        });
        // An empty burst says that all requests were dropped.
        if to_switch.send(answered).is_err() {
            return;
        }
    }
}

struct SwitchLoop<'s, S> {
    switch: &'s mut S,
    to_server: SyncSender<Vec<Frame>>,
    responses: &'s Receiver<Vec<Frame>>,
    server_port: PortId,
    spares: Vec<Frame>,
    in_flight: usize,
    sent: u64,
    received: u64,
    requests: u64,
    start: Instant,
}

impl<S: PacketProcessor> SwitchLoop<'_, S> {
    fn run(
        &mut self,
        traffic: &dyn Traffic,
        seed: u64,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Threads, String> {
        // Packets are written before, since a generator would be measured with the switch.
        let mut packets = traffic.packets(seed);
        let mut ring: Vec<(PortId, Vec<u8>)> = Vec::new();
        let mut frame = Frame::new();
        for _ in 0..1 << 14 {
            packets(&mut frame);
            ring.push((frame.ingress, frame.bytes().to_vec()));
        }
        let mut frames: Vec<Frame> = (0..BURST).map(|_| Frame::new()).collect();
        let begin = Instant::now();
        let mut at = 0;
        while begin.elapsed() < time && !stop.load(Relaxed) {
            while self.answer(false)? {}
            if self.in_flight >= IN_FLIGHT {
                self.answer(true)?;
                continue;
            }
            for frame in &mut frames {
                let (port, bytes) = &ring[at];
                at = (at + 1) % ring.len();
                if frame.headroom() == 0 {
                    *frame = self.spares.pop().unwrap_or_default();
                }
                frame.ingress = *port;
                // Cannot fail: the bytes come from a frame.
                let _ = frame.assign(bytes);
            }
            self.received += BURST as u64;
            self.forward(&mut frames)?;
        }
        while self.in_flight > 0 {
            self.answer(true)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Threads {
            mpps: self.sent as f64 / seconds / 1e6,
            share_in_switch: 1.0 - self.requests as f64 / self.received.max(1) as f64,
        })
    }

    /// Takes a burst of responses. Returns false if there is none.
    fn answer(&mut self, waits: bool) -> Result<bool, String> {
        let lost = || "the server's thread ended early".to_owned();
        let mut burst = match waits {
            true => self.responses.recv().map_err(|_| lost())?,
            false => match self.responses.try_recv() {
                Ok(burst) => burst,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Err(lost()),
            },
        };
        self.in_flight -= 1;
        self.forward(&mut burst)?;
        self.spares.append(&mut burst);
        Ok(true)
    }

    fn forward(&mut self, frames: &mut [Frame]) -> Result<(), String> {
        let mut requests = Vec::new();
        let (sent, server_port) = (&mut self.sent, self.server_port);
        let spares = &mut self.spares;
        self.switch
            .forward(frames, now(self.start), |port, frame, _| {
                if port == server_port {
                    let spare = spares.pop().unwrap_or_default();
                    let mut request = std::mem::replace(frame, spare);
                    request.ingress = PortId(0);
                    requests.push(request);
                } else {
                    *sent += 1;
                }
            });
        if requests.is_empty() {
            return Ok(());
        }
        self.requests += requests.len() as u64;
        self.in_flight += 1;
        let given = self.to_server.send(requests);
        given.map_err(|_| "the server's thread ended early".to_owned())
    }
}

//! Plays a scenario on a device and records all observable results.

use std::sync::Arc;
use std::time::Duration;

use exec::Engine;
use ir::{ExternId, Program};
use packet::{Frame, Nanos, PortId};
use switch::{Change, Device, DeviceConfig, LoadError};

use super::Fault;
use super::guard::guarded;
use super::scenario::Act;

/// Number of cells recorded of each array.
const CELLS: u32 = 64;

/// Processor time that a packet of a scenario may take beyond the limit. A packet may make 16,384
/// copies, each of which is a line of the transcript.
const TIME_PER_PACKET: Duration = Duration::from_millis(250);

/// Division of a device's work into steps. It must not change results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portions {
    /// One step for all packets of one time.
    Batches,
    /// One step for each packet.
    Packets,
    /// All packets of one time are forwarded as one burst.
    Bursts,
    /// Bursts, with code made for the contents of the tables before every second one. The others
    /// run the same code if its facts hold.
    Specialised,
    /// One step for each packet, and one for each time at which a queued packet may be sent.
    Events,
    /// One step for each packet, with a tracer.
    Traced,
}

/// The observable results, line by line.
pub(crate) type Transcript = Vec<String>;

/// Settings of a run.
pub(crate) struct Playing {
    /// The device's initial program, and the one to swap it with.
    pub(crate) programs: [Arc<Program>; 2],
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) portions: Portions,
}

impl Playing {
    /// Plays a scenario. Returns the transcript, or `None` if the program's own entries do not fit
    /// its tables.
    ///
    /// # Errors
    /// Packets are not conserved, the scenario takes longer than `limit`, or something panics.
    pub(crate) fn guarded(
        self,
        acts: &[Act],
        limit: Duration,
    ) -> Result<Option<Transcript>, Fault> {
        let portions = self.portions;
        let limit = time_limit(portions, acts, limit);
        let acts = acts.to_vec();
        let played = guarded(limit, move || self.play(&acts));
        played.unwrap_or_else(|trouble| Err(trouble.fault(&format!("playing {portions:?}"))))
    }

    fn play(self, acts: &[Act]) -> Result<Option<Transcript>, Fault> {
        let config = DeviceConfig {
            seed: 7,
            host_ports: vec![5],
            ..Default::default()
        };
        let program = Arc::clone(&self.programs[0]);
        let device = match Device::new(program, self.engine.as_ref(), &config) {
            Ok(device) => device,
            Err(LoadError::Entry(_)) => return Ok(None),
            Err(error) => {
                return Err(Fault::new(
                    "an accepted program does not load",
                    error.to_string(),
                ));
            }
        };
        let mut player = Player {
            device,
            playing: self,
            config,
            seen: Vec::new(),
            bursts: 0,
        };
        for act in acts {
            player.act(act)?;
        }
        player.end()?;
        Ok(Some(player.seen))
    }
}

/// Returns the processor time that a scenario may take: the limit, and more for each packet.
fn time_limit(portions: Portions, acts: &[Act], limit: Duration) -> Duration {
    let packets = acts.iter().map(|act| match act {
        Act::Packets(_, packets) => packets.len(),
        _ => 0,
    });
    let packets = u32::try_from(packets.sum::<usize>()).unwrap_or(u32::MAX);
    let limit = limit + TIME_PER_PACKET.saturating_mul(packets);
    match portions {
        // A tracer receives every step as text, which is slow.
        Portions::Traced => limit * 5,
        _ => limit,
    }
}

fn sent(port: PortId, bytes: &[u8], time: Nanos) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = format!("sent at {} to {port}: ", time.0);
    line.reserve(2 * bytes.len());
    for byte in bytes {
        line.push(char::from(DIGITS[usize::from(byte >> 4)]));
        line.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    line
}

struct Player {
    device: Device,
    /// The settings. The first program is the running one, unless it could not be loaded.
    playing: Playing,
    config: DeviceConfig,
    seen: Transcript,
    bursts: usize,
}

impl Player {
    fn act(&mut self, act: &Act) -> Result<(), Fault> {
        match act {
            Act::Change(change) => self.change(change),
            Act::Update(update) => {
                let applied = apply_entries::apply(&mut self.device, update);
                self.seen.push(format!("{applied:?}"));
            }
            Act::Wait(until) => self.step(*until)?,
            Act::Packets(now, packets) => self.packets(*now, packets)?,
            Act::Swap => self.swap()?,
        }
        self.look();
        Ok(())
    }

    fn swap(&mut self) -> Result<(), Fault> {
        self.playing.programs.swap(0, 1);
        let program = Arc::clone(&self.playing.programs[0]);
        let engine = self.playing.engine.as_ref();
        let replaced = self.device.replace(program, engine, &self.config);
        match replaced {
            Ok(_) | Err(LoadError::Entry(_)) => Ok(()),
            Err(error) => Err(Fault::new(
                "a program does not load in another's place",
                error.to_string(),
            )),
        }
    }

    fn change(&mut self, change: &Change) {
        let applied = self.device.apply(change.clone());
        self.seen.push(format!("{applied:?}"));
    }

    fn packets(&mut self, now: Nanos, packets: &[(PortId, Vec<u8>)]) -> Result<(), Fault> {
        if self.playing.portions == Portions::Events {
            self.step_by_events(now)?;
        }
        match self.playing.portions {
            Portions::Bursts => return self.burst(now, packets),
            Portions::Specialised => {
                self.bursts += 1;
                if self.bursts % 2 == 1 {
                    self.specialise();
                }
                return self.burst(now, packets);
            }
            _ => {}
        }
        for (port, bytes) in packets {
            let result = match self.playing.portions {
                Portions::Traced => {
                    let mut events = 0u64;
                    self.device.trace(*port, bytes, now, &mut |_| events += 1)
                }
                _ => self.device.receive(*port, bytes),
            };
            if let Err(error) = result {
                self.seen.push(error.to_string());
            }
            match self.playing.portions {
                Portions::Batches | Portions::Bursts | Portions::Specialised => {}
                Portions::Traced => self.conserved()?,
                Portions::Packets | Portions::Events => self.step_at(now)?,
            }
        }
        self.step(now)
    }

    /// Lets packets run code made for the current contents of the tables, if the engine makes it.
    fn specialise(&mut self) {
        let job = self.device.specialisation_job().ok().flatten();
        if let Some(code) = job.and_then(|job| job.run().ok()) {
            self.device.adopt_specialised(code);
        }
    }

    fn burst(&mut self, now: Nanos, packets: &[(PortId, Vec<u8>)]) -> Result<(), Fault> {
        let mut frames = Vec::new();
        for (port, bytes) in packets {
            match Frame::from_bytes(bytes) {
                Ok(mut frame) => {
                    frame.ingress = *port;
                    frames.push(frame);
                }
                Err(error) => self.seen.push(error.to_string()),
            }
        }
        let seen = &mut self.seen;
        self.device.forward(&mut frames, now, |port, frame, time| {
            seen.push(sent(port, frame.bytes(), time));
        });
        self.conserved()
    }

    fn step(&mut self, now: Nanos) -> Result<(), Fault> {
        match self.playing.portions {
            Portions::Events => self.step_by_events(now),
            _ => self.step_at(now),
        }
    }

    /// Steps once at every time of an event, up to `now`.
    fn step_by_events(&mut self, now: Nanos) -> Result<(), Fault> {
        // The device may require a step at a fraction of the shortest timeout of entries that
        // packets added. Over hours these would be millions of steps, so they are limited.
        for _ in 0..1000 {
            let Some(next) = self.device.next_time().filter(|next| *next < now) else {
                break;
            };
            self.step_at(next)?;
        }
        self.step_at(now)
    }

    fn step_at(&mut self, now: Nanos) -> Result<(), Fault> {
        self.device.step(now);
        self.conserved()
    }

    fn conserved(&mut self) -> Result<(), Fault> {
        let balanced = self.device.check_conservation();
        balanced.map_err(|error| Fault::new("packets are not conserved", error.to_string()))
    }

    /// Records the output of the device.
    fn look(&mut self) {
        let seen = &mut self.seen;
        self.device.drain_sent(|port, bytes, time| {
            seen.push(sent(port, bytes, time));
        });
        while let Some(digest) = self.device.take_digest() {
            self.seen.push(format!("{digest:?}"));
        }
        while let Some(message) = self.device.take_message() {
            self.seen.push(message);
        }
        let idle = self.device.take_idle();
        if !idle.is_empty() {
            self.seen.push(format!("idle {idle:?}"));
        }
    }

    /// Drains all queues and records the remaining state.
    fn end(&mut self) -> Result<(), Fault> {
        for _ in 0..10_000 {
            let Some(next) = self.device.next_time().filter(|_| self.device.held() > 0) else {
                break;
            };
            self.step_at(next)?;
        }
        self.look();
        let externs: Vec<ExternId> = self.device.program().externs.ids().collect();
        for id in externs {
            self.cells(id);
        }
        self.seen.push(format!("{:?}", self.device.table_hits()));
        self.seen.push(format!("{:?}", self.device.ledger()));
        self.seen.push(format!("held {}", self.device.held()));
        Ok(())
    }

    fn cells(&mut self, id: ExternId) {
        for index in 0..CELLS {
            let register = self.device.read_register(id, index);
            let counter = self.device.read_counter(id, index);
            if register.is_none() && counter.is_none() {
                break;
            }
            self.seen
                .push(format!("{id:?}[{index}] {register:?} {counter:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_may_take_more_time_for_each_of_its_packets() {
        let limit = Duration::from_secs(2);
        let arrival = |n: usize| Act::Packets(Nanos(1), vec![(PortId(0), vec![0; 60]); n]);
        let of = |portions, acts: &[Act]| time_limit(portions, acts, limit);
        assert_eq!(of(Portions::Batches, &[]), limit);
        let acts = [arrival(3), Act::Swap, arrival(1)];
        assert_eq!(of(Portions::Batches, &acts), limit + 4 * TIME_PER_PACKET);
        assert_eq!(
            of(Portions::Traced, &acts),
            5 * of(Portions::Batches, &acts)
        );
    }

    #[test]
    fn a_sent_packet_is_a_line_with_all_its_digits() {
        let line = sent(PortId(3), &[0x00, 0x0f, 0xa5, 0xff], Nanos(7));
        assert_eq!(line, "sent at 7 to 3: 000fa5ff");
    }
}

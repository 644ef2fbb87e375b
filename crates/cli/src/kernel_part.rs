//! The kernel part of `polyplane run --engine xdp`: its start, its place in the control loop, and
//! its report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use p4rt::Any;
use port::{OpenedPort, PortSpec, PortTarget};
use runtime::ControlExtension;
use serde::Serialize;
use switch::Device;
use xdp::{KernelPlane, LATENESS, Leave, MAX_SLEEP};

use crate::amount;
use crate::out;

/// The kernel part of a device, shared by its control loop and its reports.
#[derive(Clone)]
pub(crate) struct KernelPart(Arc<Mutex<KernelPlane>>);

impl KernelPart {
    /// Makes the kernel part of a device. Without one, all packets are processed in user space, and
    /// a line says why.
    pub(crate) fn start(device: &mut Device) -> Option<KernelPart> {
        let plane = match KernelPlane::new(device) {
            Ok(plane) => plane,
            Err(error) => {
                out::error(&format!(
                    "the program does not run in the kernel, but in user space behind AF_XDP: {error}"
                ));
                return None;
            }
        };
        // Counts of the kernel part come later than those of workers.
        device.set_idle_delay(LATENESS);
        let count = plane.instructions() as u64;
        let count = amount::count(count, "instruction");
        out::note(&format!("the program runs in the kernel, as {count}"));
        for line in lines(plane.program(), plane.leaves()) {
            out::note(&format!("  leaves it: {line}"));
        }
        Some(KernelPart(Arc::new(Mutex::new(plane))))
    }

    fn plane(&self) -> MutexGuard<'_, KernelPlane> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a port on an interface with the program before it. Returns `None` for another kind of
    /// port.
    ///
    /// # Errors
    /// The port cannot be opened. The message names it.
    pub(crate) fn open(
        &self,
        spec: &PortSpec,
        workers: usize,
    ) -> Option<Result<OpenedPort, String>> {
        let PortTarget::Interface(name) = &spec.target else {
            return None;
        };
        let mut plane = self.plane();
        let opened = plane.open(spec.id, name, workers);
        while let Some(line) = plane.take_notice() {
            out::note(&line);
        }
        Some(opened.map_err(|error| format!("port {}: {error}", spec.id)))
    }

    /// Returns the report of what the kernel has done.
    pub(crate) fn report(&self) -> KernelReport {
        let plane = self.plane();
        let counts = plane.counts();
        let ports = counts.ports.iter().map(|(&port, traffic)| KernelPort {
            port,
            received: KernelTraffic::of(traffic.received),
            sent: KernelTraffic::of(traffic.sent),
        });
        let dropped = counts.dropped.iter().map(|(reason, packets)| KernelDrops {
            reason: reason.name(),
            packets: *packets,
        });
        let places = lines(plane.program(), plane.leaves());
        let left = places.into_iter().zip(&counts.left);
        let left = left.map(|(place, &packets)| KernelLeave { place, packets });
        KernelReport {
            instructions: plane.instructions(),
            ports: ports.collect(),
            dropped: dropped.collect(),
            left: left.collect(),
        }
    }
}

impl ControlExtension for KernelPart {
    fn receive(&mut self, _: &mut Device, _: &Any) -> Result<(), String> {
        Err("the switch takes no extension messages".to_owned())
    }

    fn turn(&mut self, device: &mut Device, _: &mut dyn FnMut(Any) -> bool) {
        self.plane().turn(device);
    }

    fn take_notice(&mut self, _: &Device) -> Option<String> {
        self.plane().take_notice()
    }

    fn longest_sleep(&self) -> Duration {
        MAX_SLEEP
    }

    fn finish(&mut self, device: &mut Device) {
        self.plane().finish(device);
    }
}

/// Returns a line for each place at which packets leave.
pub(crate) fn lines(program: &ir::Program, leaves: &[Leave]) -> Vec<String> {
    let line = |leave: &Leave| {
        let place = leave.loc.and_then(|loc| {
            let file = program.files.get(loc.file as usize)?;
            Some(format!("{file}:{}:{}: ", loc.line, loc.column))
        });
        format!("{}{}", place.unwrap_or_default(), leave.construct)
    };
    leaves.iter().map(line).collect()
}

/// Counts of the kernel part.
#[derive(Serialize)]
pub(crate) struct KernelReport {
    instructions: usize,
    ports: Vec<KernelPort>,
    dropped: Vec<KernelDrops>,
    left: Vec<KernelLeave>,
}

#[derive(Serialize)]
struct KernelPort {
    port: u32,
    received: KernelTraffic,
    sent: KernelTraffic,
}

#[derive(Serialize)]
struct KernelTraffic {
    packets: u64,
    bytes: u64,
}

impl KernelTraffic {
    fn of(reading: table::CounterReading) -> KernelTraffic {
        KernelTraffic {
            packets: reading.packets,
            bytes: reading.bytes,
        }
    }
}

#[derive(Serialize)]
struct KernelDrops {
    reason: &'static str,
    packets: u64,
}

#[derive(Serialize)]
struct KernelLeave {
    place: String,
    packets: u64,
}

impl KernelReport {
    /// Returns the report for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for port in &self.ports {
            let (received, sent) = (port.received.packets, port.sent.packets);
            text.push_str(&format!(
                "port {} in the kernel: in {received}, out {sent}\n",
                port.port
            ));
        }
        for drops in &self.dropped {
            text.push_str(&format!(
                "dropped in the kernel: {} {}\n",
                drops.packets, drops.reason
            ));
        }
        for leave in self.left.iter().filter(|leave| leave.packets > 0) {
            let (packets, place) = (leave.packets, &leave.place);
            text.push_str(&format!("left the kernel: {packets} at {place}\n"));
        }
        text
    }
}

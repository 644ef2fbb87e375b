//! A switch inside a Rust program: the example router forwards a capture between two memory ports.
//!
//! `cargo run -p runtime --example embed` prints the counts.

use std::error::Error;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use packet::{Frame, PortId};
use port::{MemoryPort, OpenedPort, PcapReader, Port};
use runtime::{Forwarder, ForwarderEvent, ForwarderOptions, ProcessSetup, StopSources};
use switch::{Device, DeviceConfig};

const PROGRAM: &str = include_str!("../../../examples/router/router.p4");
const ENTRIES: &str = include_str!("../../../examples/router/router.entries");
const CAPTURE: &[u8] = include_bytes!("../../../examples/router/router.pcap");

fn main() -> Result<(), Box<dyn Error>> {
    let [received, sent] = forward_capture()?;
    println!("{received} packets in by port 0, {sent} out by port 1");
    Ok(())
}

pub(crate) fn forward_capture() -> Result<[u64; 2], Box<dyn Error>> {
    let program = driver::compile_text("router.p4", PROGRAM)?;
    let engine = jit::Jit::new(Arc::new(interp::Interp));
    let mut device = Device::new(Arc::new(program), &engine, &DeviceConfig::default())?;
    runtime::apply_entries(&mut device, "router.entries", ENTRIES)?;

    // The far end of each link stands for the network.
    let link = |port| MemoryPort::pair(PortId(port), PortId(port), 256);
    let ((port0, mut network0), (port1, network1)) = (link(0), link(1));
    let open = |port| OpenedPort::new(Box::new(port), "memory", 1);
    let ports = vec![open(port0)?, open(port1)?];
    let mut switch = Forwarder::new(device, ports, ForwarderOptions::default())?;

    let mut capture = PcapReader::new("router.pcap".to_owned(), Box::new(CAPTURE))?;
    let (mut frame, mut packets) = (Frame::new(), 0);
    while capture.read(&mut frame)?.is_some() {
        network0.tx(std::slice::from_ref(&frame));
        packets += 1;
    }
    let (running, done) = UnixStream::pair()?;
    let (mut running, process) = (Some(running), ProcessSetup::default());
    let stop = StopSources {
        process: &process,
        done: Some(done.as_fd()),
    };
    switch.run(&stop, Duration::from_millis(5), &mut |event| match event {
        ForwarderEvent::Tick(switch) if switch.port_reports()[0].received.packets == packets => {
            running = None; // Closes the stream, which ends the switch.
        }
        _ => {}
    })?;
    switch.check_conservation()?;
    Ok([packets, network1.waiting() as u64])
}
